"""Records that stay where they are, in chunks on a cluster or on a device, and are seen through sums over them.

The mean of such records is computed first (a cluster can fail), then the ledger is charged, then noise is drawn on the host.
"""

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array

from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.geometry.mean.device import device_mean, device_share, to_host
from curvedp.geometry.mean.streamed import Domain, rounding_share
from curvedp.mechanisms.base import Ball
from curvedp.mechanisms.mean_solver import bounded_mean, solver_error
from curvedp.records import ChunkedLabels, ChunkedRecords, Labels, is_chunked, refuse_chunked

__all__ = ["Resident", "Streamed", "on_host", "open_streamed"]


class Streamed:
    """Records behind a dask array, or in an array of JAX, torch, CuPy …

    A mechanism that reads the records between its draws is not for them.
    """

    def __init__(self, X: Any, point_shape: tuple[int, ...]) -> None:
        self._records: Any = ChunkedRecords(X, point_shape) if is_chunked(X) else _checked(X, point_shape)
        self.n = int(self._records.shape[0])
        if self.n < 2:
            raise ParameterError(f"X has {self.n} records; at least 2 are needed for a mean that can be private")

    def mean_error(self, manifold: Manifold, ball: Ball) -> float:
        """η: the mean of `moments` is within this distance of the true one, for any records in the ball."""
        domain = Domain(manifold, *ball)
        on_device = 0.0 if isinstance(self._records, ChunkedRecords) else device_share(domain, self._records)
        return solver_error(manifold, ball.radius) * (1 + rounding_share(domain) + on_device)

    def moments(self, manifold: Manifold, ball: Ball) -> tuple[np.ndarray, float]:
        """(Fréchet mean, mean square distance to it) of the records after mapping them into the ball. NOT private."""
        domain = Domain(manifold, *ball)
        if isinstance(self._records, ChunkedRecords):
            return self._records.mean(domain)
        return device_mean(domain, self._records)

    def labels(self, y: Any) -> Labels | ChunkedLabels:
        """Public labels of the records, refused unless there is one for each."""
        chunked = isinstance(self._records, ChunkedRecords)
        return ChunkedLabels(self._records, y) if chunked else Labels(y, self.n)

    def class_means(self, manifold: Manifold, ball: Ball, labels: Labels | ChunkedLabels) -> list[np.ndarray]:
        """The mean of each class, as `moments` gives it. NOT private."""
        domain = Domain(manifold, *ball)
        if isinstance(labels, ChunkedLabels):
            return labels.means(domain)
        xp, places = array_namespace(self._records), range(len(labels.classes))
        rows = [xp.asarray(np.flatnonzero(labels.codes == k), device=device(self._records)) for k in places]
        return [device_mean(domain, xp.take(self._records, index, axis=0))[0] for index in rows]


class Resident:
    """Records in memory, with the same two methods."""

    def __init__(self, records: np.ndarray) -> None:
        self._records = records
        self.n = len(records)

    def mean_error(self, manifold: Manifold, ball: Ball) -> float:
        """As `Streamed.mean_error`."""
        return solver_error(manifold, ball.radius)

    def moments(self, manifold: Manifold, ball: Ball) -> tuple[np.ndarray, float]:
        """As `Streamed.moments`."""
        inside = project_to_ball(manifold, *ball, self._records)
        mean = bounded_mean(manifold, inside, ball)
        return mean, float(np.mean(np.asarray(manifold.dist(mean, inside)) ** 2))


def open_streamed(manifold: Manifold, X: Any) -> Streamed | None:
    """X as it comes; None where it is (or can only be) taken into memory."""
    if is_chunked(X) or (is_array_api_obj(X) and not is_numpy_array(X)):
        return Streamed(X, manifold.point_shape)
    return None


def on_host(name: str, X: Any) -> Any:
    """X for what works in memory alone: an array on a device is copied, a dask array refused, anything else left as it is."""
    refuse_chunked(name, X)
    return to_host(X) if is_array_api_obj(X) else X


def _checked(X: Any, point_shape: tuple[int, ...]) -> Any:
    if X.ndim != 1 + len(point_shape) or tuple(X.shape[1:]) != point_shape:
        raise ParameterError(f"X has shape {tuple(X.shape)}; it must be (n, {', '.join(map(str, point_shape))})")
    if not array_namespace(X).isdtype(X.dtype, ("real floating", "integral")):
        raise ParameterError(f"X has dtype {X.dtype}; it must be real numbers")
    return X
