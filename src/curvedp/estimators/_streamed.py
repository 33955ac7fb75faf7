"""Records that stay where they are; `curvedp.records.base` has them. Kept until the estimators open records themselves."""

from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array

from curvedp.geometry.base import Manifold
from curvedp.geometry.mean.bound import solver_error
from curvedp.geometry.mean.device import to_host
from curvedp.geometry.mean.streamed import Domain
from curvedp.mechanisms.base import Ball
from curvedp.records import is_chunked, refuse_chunked
from curvedp.records.base import open_records

__all__ = ["Resident", "Streamed", "on_host", "open_streamed"]


class Streamed:
    """Records of any kind, asked about a ball."""

    def __init__(self, X: Any, point_shape: tuple[int, ...]) -> None:
        self._records = open_records(X, point_shape)
        self.n = self._records.n

    def mean_error(self, manifold: Manifold, ball: Ball) -> float:
        """η of the mean."""
        return solver_error(manifold, ball.radius)

    def moments(self, manifold: Manifold, ball: Ball) -> tuple[np.ndarray, float]:
        """(Fréchet mean, mean square distance to it). NOT private."""
        return self._records.moments(Domain(manifold, *ball))

    def labels(self, y: Any) -> Any:
        """Public labels of the records."""
        return self._records.labels(y)

    def class_means(self, manifold: Manifold, ball: Ball, labels: Any) -> list[np.ndarray]:
        """The mean of each class. NOT private."""
        return [mean for mean, _ in self._records.class_moments(Domain(manifold, *ball), labels)]


class Resident(Streamed):
    """Records in memory."""

    def __init__(self, records: np.ndarray) -> None:
        super().__init__(records, records.shape[1:])


def open_streamed(manifold: Manifold, X: Any) -> Streamed | None:
    """X as it comes; None where it is (or can only be) taken into memory."""
    if is_chunked(X) or (is_array_api_obj(X) and not is_numpy_array(X)):
        return Streamed(X, manifold.point_shape)
    return None


def on_host(name: str, X: Any) -> Any:
    """X for what works in memory alone: an array on a device is copied, a dask array refused, anything else left as it is."""
    refuse_chunked(name, X)
    return to_host(X) if is_array_api_obj(X) else X
