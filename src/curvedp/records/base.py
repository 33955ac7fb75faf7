"""Data wherever they lie, in memory, on a device or in chunks on a cluster, behind the same few questions.

Nothing here raises, warns or changes n because of what a record contains: a record that is not finite or not on the
manifold is mapped to the center of the public ball when a kernel reads it. Types, shapes and dtypes are public and may be
refused.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, cast

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array

from curvedp.errors import ParameterError
from curvedp.geometry.ball import carry_records
from curvedp.geometry.base import Manifold
from curvedp.geometry.mean.device import carry_on_device, device_moments
from curvedp.geometry.mean.frechet import memory_moments
from curvedp.geometry.mean.streamed import Domain
from curvedp.geometry.numerics.namespace import to_host
from curvedp.geometry.numerics.threads import blocks
from curvedp.records.chunked import ChunkedRecords, is_chunked, of_n
from curvedp.records.labels import ClassLabels, Labels
from curvedp.records.memory import entries

Moments = tuple[np.ndarray, float]
Kernel = Callable[..., np.ndarray]

_BLOCK = 1 << 13  # records that a kernel of `sums` sees at once


class Records(Protocol):
    """What may be asked of records, wherever they lie.

    Attributes
    ----------
    n : int
        How many there are.
    where : {"memory", "device", "chunks"}
        Where they lie.

    Examples
    --------
    >>> import numpy as np
    >>> records = open_records(np.eye(3), point_shape=(3,))
    >>> records.n, records.where
    (3, 'memory')
    """

    @property
    def n(self) -> int:
        """How many records there are."""

    @property
    def where(self) -> Literal["memory", "device", "chunks"]:
        """Where they lie."""

    def array(self) -> np.ndarray:
        """All of them as NumPy float64, shape (n, *point_shape). A dask array is refused, whatever its size."""

    def sums(self, kernel: Kernel, *beside: Any) -> np.ndarray:
        """Σ kernel(some records, their rows of what is beside), a vector of int64: exact, so in any order and grouping."""

    def moments(self, domain: Domain) -> Moments:
        """(Fréchet mean, mean square distance to it) of the records after mapping them into the ball. NOT private.

        The mean is within `solver_error(manifold, radius)` of the true one, whatever the records.
        """

    def labels(self, y: Any, classes: Any = None) -> ClassLabels:
        """Labels of the records, refused unless there is one for each; of a public set of classes, where one is given."""

    def class_moments(self, domain: Domain, labels: Any) -> Sequence[Moments]:
        """The `moments` of each class. NOT private."""

    def carried(self, manifold: Manifold, center: np.ndarray) -> "Records":
        """The records as `manifold.to_origin` moves them away from a public center."""

    def of_class(self, labels: Any, code: int) -> "Records":
        """Those of one class."""


def open_records(X: Any, point_shape: tuple[int, ...], name: str = "X", least: int = 2) -> Records:
    """X as records, where it lies.

    Parameters
    ----------
    X : array of any library, dask array, frame, series, masked array or list
        The records, shape (n, *point_shape) or one row each. Records of lists and frames that are none are NaN.
    point_shape : tuple of int
        The shape of one record.
    name : str
        What messages call X.
    least : int
        The smallest number of records that is accepted.

    Raises
    ------
    ParameterError
        If the shape or the dtype is wrong, or if there are fewer than `least` records.

    Examples
    --------
    >>> records = open_records([[1.0, 0.0], [0.0, 1.0]], (2,))
    >>> records.n, records.where
    (2, 'memory')
    """
    records: Any
    if is_chunked(X):
        records = ChunkedRecords(X, point_shape, name)
    elif is_array_api_obj(X) and not is_numpy_array(X):
        records = _OnDevice(_checked_device(X, point_shape, name))
    else:
        records = _InMemory(_checked_shape(entries(name, X, point_shape), point_shape, name))
    if records.n < least:
        raise ParameterError(f"{name} has {records.n} records; at least {least} are needed")
    return cast(Records, records)


class _InMemory:
    """Records in a NumPy array."""

    where: Literal["memory"] = "memory"

    def __init__(self, records: np.ndarray) -> None:
        self._records = records
        self.n = len(records)

    def array(self) -> np.ndarray:
        return self._records

    def sums(self, kernel: Kernel, *beside: Any) -> np.ndarray:
        rows, together = [np.asarray(values) for values in beside], blocks(self.n, _BLOCK) or [slice(0, 0)]
        parts = [kernel(self.array()[part], *(values[part] for values in rows)) for part in together]
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64))

    def moments(self, domain: Domain) -> Moments:
        return memory_moments(domain, self._records)

    def labels(self, y: Any, classes: Any = None) -> Labels:
        return Labels(y, self.n, classes)

    def class_moments(self, domain: Domain, labels: Labels) -> list[Moments]:
        return [self.of_class(labels, code).moments(domain) for code in range(len(labels.classes))]

    def carried(self, manifold: Manifold, center: np.ndarray) -> Records:
        return _InMemory(carry_records(manifold, center, self._records))

    def of_class(self, labels: Labels, code: int) -> Records:
        return _InMemory(self._records[labels.codes == code])


class _OnDevice(_InMemory):
    """Records in an array of JAX, torch, CuPy …; what comes back to the host are sums, unless `array` asks for all."""

    where: Literal["device"] = "device"  # type: ignore[assignment]

    def __init__(self, records: Any) -> None:
        self._records = records
        self.n = int(records.shape[0])

    def array(self) -> np.ndarray:
        return np.asarray(to_host(self._records), dtype=np.float64)

    def sums(self, kernel: Kernel, *beside: Any) -> np.ndarray:
        return _InMemory(self.array()).sums(kernel, *beside)

    def moments(self, domain: Domain) -> Moments:
        return device_moments(domain, self._records)

    def carried(self, manifold: Manifold, center: np.ndarray) -> Records:
        return _OnDevice(carry_on_device(manifold, center, self._records))

    def of_class(self, labels: Labels, code: int) -> Records:
        xp = array_namespace(self._records)
        rows = xp.asarray(np.flatnonzero(labels.codes == code), device=device(self._records))
        return _OnDevice(xp.take(self._records, rows, axis=0))


# ---- what is refused, and what is not ------------------------------------------------------------------------------------


def _checked_shape(X: Any, point_shape: tuple[int, ...], name: str) -> Any:
    if X.ndim != 1 + len(point_shape) or tuple(X.shape[1:]) != point_shape:
        raise ParameterError(f"{name} has shape {of_n(X.shape[1:])}; it must be {of_n(point_shape)}")
    return X


def _checked_device(X: Any, point_shape: tuple[int, ...], name: str) -> Any:
    if not array_namespace(X).isdtype(X.dtype, ("real floating", "integral")):
        raise ParameterError(f"{name} has dtype {X.dtype}; it must be real numbers")
    return _checked_shape(X, point_shape, name)
