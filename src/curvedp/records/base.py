"""Data wherever they lie, in memory, on a device or in chunks on a cluster, behind the same few questions.

Nothing here raises, warns or changes n because of what a record contains: a record that is not finite or not on the
manifold is mapped to the center of the public ball when a kernel reads it. Types, shapes and dtypes are public and may be
refused.
"""

from collections.abc import Callable
from os import PathLike
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array

from curvedp._silence import quiet_about_records
from curvedp.errors import ParameterError
from curvedp.geometry.ball import carry_records
from curvedp.geometry.frechet_mean.backends.device import (
    carry_on_device,
    mean_of_device_array,
)
from curvedp.geometry.frechet_mean.mean import mean_of_array
from curvedp.geometry.frechet_mean.public_ball import PublicBall
from curvedp.geometry.manifold import Manifold
from curvedp.numerics.arrays import to_host
from curvedp.numerics.threads import blocks
from curvedp.records.tables import entries

Moments = tuple[np.ndarray, float]
Kernel = Callable[..., np.ndarray]

_BLOCK = 1 << 13  # records that a kernel of `sums` sees at once


class Records:
    """What may be asked of n records, wherever they lie: here in a NumPy array."""

    n: int
    where: Literal["memory", "device", "chunks"] = "memory"

    def __init__(self, records: Any) -> None:
        self._records, self.n = records, int(records.shape[0])

    def array(self) -> np.ndarray:
        """All of them as NumPy float64, shape (n, *point_shape). A dask array is refused, whatever its size."""
        return np.asarray(self._records)

    def sums(self, kernel: Kernel, *beside: Any) -> np.ndarray:
        """Σ kernel(some records, their rows of what is beside), a vector of int64: exact, so in any order and grouping."""
        X, rows, together = (
            self.array(),
            [np.asarray(each) for each in beside],
            blocks(self.n, _BLOCK) or [slice(0, 0)],
        )
        parts = [
            kernel(X[part], *(values[part] for values in rows)) for part in together
        ]
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64))

    def moments(self, domain: PublicBall) -> Moments:
        """(Fréchet mean, mean square distance to it) of the records after mapping them into the ball. NOT private. The mean
        is within `solver_error(manifold, radius)` of the true one, whatever the records."""
        return mean_of_array(domain, self._records)

    def labels(self, y: Any, classes: Any = None) -> Any:
        """Labels of the records, refused unless there is one for each: `classes` in order, a public set of them where one is
        given, and their `sizes`."""
        from curvedp.records.labels import Labels

        with quiet_about_records():  # labels may be private
            return Labels(y, self.n, classes)

    def class_moments(self, domain: PublicBall, labels: Any) -> list[Moments]:
        """The `moments` of each class. NOT private."""
        return [
            self.of_class(labels, code).moments(domain)
            for code in range(len(labels.classes))
        ]

    def carried(self, manifold: Manifold, center: np.ndarray) -> "Records":
        """The records as `move_to_origin` moves them away from a public center."""
        return Records(carry_records(manifold, center, self._records))

    def of_class(self, labels: Any, code: int) -> "Records":
        """Those of one class."""
        return Records(self._records[labels.codes == code])


class DeviceRecords(Records):
    """Records in an array of JAX, torch, CuPy …; what comes back to the host are sums, unless `array` asks for all."""

    where = "device"

    def array(self) -> np.ndarray:
        """All of them, on the host."""
        return np.asarray(to_host(self._records), dtype=np.float64)

    def moments(self, domain: PublicBall) -> Moments:
        return mean_of_device_array(domain, self._records)

    def carried(self, manifold: Manifold, center: np.ndarray) -> Records:
        return DeviceRecords(carry_on_device(manifold, center, self._records))

    def of_class(self, labels: Any, code: int) -> Records:
        xp = array_namespace(self._records)
        rows = xp.asarray(
            np.flatnonzero(labels.codes == code), device=device(self._records)
        )
        return DeviceRecords(xp.take(self._records, rows, axis=0))


def open_records(
    X: Any, point_shape: tuple[int, ...], name: str = "X", least: int = 2
) -> Records:
    """X as records, where it lies: an array of any library, also of dask, of shape (n, *point_shape), or a frame, series or
    list with one record each, of which those that are none are NaN. Refused are a wrong shape or dtype, and fewer records
    than `least`; messages call X by its name."""
    if isinstance(X, str | PathLike):
        raise ParameterError(
            f"{name} is a path, not records: curvedp.records.read_records reads files"
        )
    with quiet_about_records():
        records = _open_where_it_lies(X, point_shape, name)
    if records.n < least:
        raise ParameterError(
            f"{name} has {records.n} records; at least {least} are needed"
        )
    return records


def _open_where_it_lies(X: Any, point_shape: tuple[int, ...], name: str) -> Records:
    """Return X as records in chunks, on a device or in memory."""
    if is_chunked(X):
        from curvedp.records.chunked import ChunkedRecords

        return ChunkedRecords(X, point_shape, name)
    if is_array_api_obj(X) and not is_numpy_array(X):
        if not array_namespace(X).isdtype(X.dtype, ("real floating", "integral")):
            raise ParameterError(f"{name} has dtype {X.dtype}; it must be real numbers")
        return DeviceRecords(checked_shape(X, point_shape, name))
    return Records(checked_shape(entries(name, X, point_shape), point_shape, name))


def is_chunked(X: Any) -> bool:
    """Whether X is a dask array. Says no, without an import, where dask is not in use."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "chunks")


def checked_shape(X: Any, point_shape: tuple[int, ...], name: str) -> Any:
    """X, which has records of this shape. The message does not tell n, which may be private."""
    if X.ndim != 1 + len(point_shape) or tuple(X.shape[1:]) != point_shape:
        found, needed = (
            f"({', '.join(['n', *map(str, shape)])})"
            for shape in (X.shape[1:], point_shape)
        )
        raise ParameterError(f"{name} has shape {found}; it must be {needed}")
    return X
