"""`Records`: a data set in memory, on a device, or in chunks on a cluster.
It is the one interface through which statistics and mechanisms see data. A record is a
point of a manifold, as an array of shape `point_shape`. Nothing here raises, warns or
changes the number n of records because of what a record contains: a record that is not
finite or not on the manifold is replaced by the center of a public ball when it is
used. Types and shapes are public and may be refused.
"""

from collections.abc import Callable
from math import prod
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

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
from curvedp.numerics.arrays import detach, double_precision, to_host
from curvedp.numerics.threads import blocks
from curvedp.records.tables import to_float_records

if TYPE_CHECKING:
    from curvedp.records.labels import ChunkedLabels, Labels

# The Fréchet mean of some records, and their mean square distance to it.
Moments = tuple[np.ndarray, float]

# Maps a block of k records, shape (k, *point_shape), and arrays with one row for each
# of them, to a vector of int64. `Records.sums` adds these vectors up.
BlockSum = Callable[..., np.ndarray]

# How many records `Records.sums` passes to its function at once. Its intermediate results
# stay small, and the exact sums do not depend on it.
_BLOCK = 1 << 13
# A device needs many records to be busy: blocks have about so many numbers, but no fewer
# and no more records than this.
_DEVICE_NUMBERS = 1 << 25
_DEVICE_BLOCKS = (1 << 16, 1 << 17)


class Records:
    """The records of one data set, in memory: a NumPy array.

    Subclasses are for records on a device and for records in chunks.

    Parameters
    ----------
    records : array, shape (n, *point_shape)
        The records as `open_records` has checked them.

    Attributes
    ----------
    n : int
        The number of records.
    location : {"memory", "device", "chunks"}
        Where the records are stored.
    """

    n: int
    location: Literal["memory", "device", "chunks"] = "memory"

    def __init__(self, records: Any) -> None:
        """Keep the records, and count them.

        Parameters
        ----------
        records : array, shape (n, *point_shape)
            The records as `open_records` has checked them.
        """
        self._records = records
        self.n = int(records.shape[0])

    def array(self) -> np.ndarray:
        """Return all records as one NumPy array of floats, shape (n, *point_shape).

        Records in chunks (a dask array) are refused, whatever their number is.
        """
        return np.asarray(self._records)

    def sums(self, sum_block: BlockSum, *columns: Any) -> np.ndarray:
        """Add up a vector of integers over all records.

        Parameters
        ----------
        sum_block : callable
            The function that is added up. It takes a block of records, and the same
            rows of each array in `columns`, and returns the sum over the block, a vector
            of int64.
        *columns : arrays, shape (n, ...)
            Further values of each record, such as the number of its class.

        Returns
        -------
        array of int64
            The sum. It is exact, so it does not depend on the order of the records or
            on how they are cut into blocks.
        """
        records = self.array()
        further_values = [np.asarray(values) for values in columns]
        block_sums = []
        # A data set without records is one empty block, so that the sum has its length.
        for block in blocks(self.n, _BLOCK) or [slice(0, 0)]:
            values_of_block = [values[block] for values in further_values]
            block_sums.append(sum_block(records[block], *values_of_block))
        return np.asarray(np.sum(block_sums, axis=0, dtype=np.int64))

    def sums_in_place(self, sum_block: BlockSum, *columns: Any) -> np.ndarray:
        """Add up a vector of integers over all records, on the device where they are.

        This is `sums` for functions that take arrays of any library. Records on a
        device are not copied to the host.

        Parameters
        ----------
        sum_block : callable
            As for `sums`. It may return a vector on the same device.
        *columns : arrays of NumPy, shape (n, ...)
            Further values of each record. The function gets them in host memory.

        Returns
        -------
        array of int64
            The exact sum, in host memory.
        """
        return self.sums(sum_block, *columns)

    def project_once(self, function: Callable[[Any], Any]) -> "DeviceRecords | None":
        """Return vectors that are computed from the records, if they are on a device.

        A device has the memory for vectors that are read again and again. In host
        memory and in chunks None is returned: there they are computed in each pass, so
        that the memory that is needed does not grow with the number of records.

        Parameters
        ----------
        function : callable
            Maps a block of k records to an array of k vectors on the same device.

        Returns
        -------
        DeviceRecords or None
            The vectors of all records, for records on a device.
        """
        return None

    def moments(self, ball: PublicBall) -> Moments:
        """Return the Fréchet mean of the records and their mean square distance to it.

        The records are clipped into the public ball first. The mean is within
        `solver_error(manifold, radius)` of the true one, whatever the records are.
        Neither value is private: noise has to be added before anything is released.

        Parameters
        ----------
        ball : PublicBall
            The manifold, and the public ball into which records are clipped.

        Returns
        -------
        mean : array of shape point_shape
            The Fréchet mean.
        mean_square : float
            The mean squared distance of the clipped records to it.
        """
        return mean_of_array(ball, self._records)

    def labels(self, y: Any, classes: Any = None) -> "Labels | ChunkedLabels":
        """Return the class labels of the records, after checking that each has one.

        Parameters
        ----------
        y : array, list or series, length n
            The label of each record.
        classes : list, optional
            The public set of classes. With it the labels are private.

        Returns
        -------
        Labels or ChunkedLabels
            The classes, and the number of the class of each record.

        Raises
        ------
        ParameterError
            If there is not one label for each record; or, for public labels, if one is
            missing or cannot be ordered.
        """
        from curvedp.records.labels import Labels

        # Labels may be private, and then a warning would tell something about one of
        # them.
        with quiet_about_records():
            return Labels(y, self.n, classes)

    def class_moments(
        self, ball: PublicBall, labels: "Labels | ChunkedLabels"
    ) -> list[Moments]:
        """Return the Fréchet mean of each class and the mean square distance to it.

        They are in the order of `labels.classes`.

        Parameters
        ----------
        ball : PublicBall
            The ball into which records are clipped.
        labels : Labels
            The class of each record.

        Returns
        -------
        list of (array, float)
            For each class the mean and the mean squared distance. NOT private.
        """
        return [
            self.select_class(labels, code).moments(ball)
            for code in range(len(labels.classes))
        ]

    def to_canonical_frame(self, manifold: Manifold, center: np.ndarray) -> "Records":
        """Return the records after moving a public center to its canonical place.

        The canonical place is usually the origin, where formulas are simplest. All
        records are moved by the isometry that takes the center there
        (`geometry.capabilities.move_to_origin`).

        Parameters
        ----------
        manifold : Manifold
            The space in which the records lie.
        center : array of shape point_shape
            The center of the public ball, which is moved.

        Returns
        -------
        Records
            The moved records, in the same place (memory, device or chunks).
        """
        return Records(carry_records(manifold, center, self._records))

    def select_class(self, labels: "Labels | ChunkedLabels", code: int) -> "Records":
        """Return the records of one class.

        Parameters
        ----------
        labels : Labels or ChunkedLabels
            The class of each record.
        code : int
            The position of the class among `labels.classes`.
        """
        return Records(self._records[labels.codes == code])


class DeviceRecords(Records):
    """Records in an array of JAX, torch or CuPy, which stay on its device.

    Only sums come back to the host, unless `array` asks for all records.
    """

    location = "device"

    def _blocks(self) -> list[slice]:
        """Return slices that cover the records; one empty slice if there are none."""
        numbers_per_record = max(prod(self._records.shape[1:]), 1)
        fewest, most = _DEVICE_BLOCKS
        size = min(max(_DEVICE_NUMBERS // numbers_per_record, fewest), most)
        return blocks(self.n, size) or [slice(0, 0)]

    def array(self) -> np.ndarray:
        """Return all records, copied to the host."""
        return np.asarray(to_host(self._records), dtype=np.float64)

    def sums_in_place(self, sum_block: BlockSum, *columns: Any) -> np.ndarray:
        """Add up a vector of integers over all records, on the device where they are.

        Parameters
        ----------
        sum_block : callable
            It takes a block of records on the device, and the same rows of each array
            in `columns`, and returns the sum over the block, a vector of int64.
        *columns : arrays of NumPy, shape (n, ...)
            Further values of each record. The function gets them in host memory.

        Returns
        -------
        array of int64
            The exact sum, in host memory.
        """
        with double_precision(self._records):
            records = detach(self._records)
            # The device is asked for all blocks before the host waits for any of them.
            block_sums = [
                sum_block(records[block, ...], *(values[block] for values in columns))
                for block in self._blocks()
            ]
            return np.asarray(to_host(sum(block_sums)), dtype=np.int64)

    def project_once(self, function: Callable[[Any], Any]) -> "DeviceRecords | None":
        """Return vectors that are computed from the records, on the device.

        Parameters
        ----------
        function : callable
            Maps a block of k records to an array of k vectors on the same device.

        Returns
        -------
        DeviceRecords
            The vectors of all records, on the same device.
        """
        with double_precision(self._records):
            records = detach(self._records)
            vectors = [function(records[block, ...]) for block in self._blocks()]
            return DeviceRecords(array_namespace(records).concat(vectors, axis=0))

    def moments(self, ball: PublicBall) -> Moments:
        """Return the Fréchet mean and the mean square distance to it.

        Both are computed on the device.

        Parameters
        ----------
        ball : PublicBall
            The manifold, and the public ball into which records are clipped.
        """
        return mean_of_device_array(ball, self._records)

    def to_canonical_frame(self, manifold: Manifold, center: np.ndarray) -> Records:
        """Return the records after moving a public center to its canonical place.

        They stay on the device.

        Parameters
        ----------
        manifold : Manifold
            The space in which the records lie.
        center : array of shape point_shape
            The center of the public ball, which is moved.
        """
        return DeviceRecords(carry_on_device(manifold, center, self._records))

    def select_class(self, labels: "Labels | ChunkedLabels", code: int) -> Records:
        """Return the records of one class, on the same device.

        Parameters
        ----------
        labels : Labels
            The class of each record.
        code : int
            The position of the class among `labels.classes`.
        """
        xp = array_namespace(self._records)
        rows_on_host = np.flatnonzero(labels.codes == code)
        rows = xp.asarray(rows_on_host, device=device(self._records))
        return DeviceRecords(xp.take(self._records, rows, axis=0))


def open_records(
    X: Any, point_shape: tuple[int, ...], name: str = "X", min_records: int = 2
) -> Records:
    """Return data of any form as `Records`, without moving them.

    Data in memory stay in memory, data on a device (such as a GPU) stay on the device,
    and data in chunks stay in chunks.

    Parameters
    ----------
    X : array, frame, series or list
        An array of any library, also of dask, of shape (n, *point_shape); or a frame, a
        series or a list with one record for each row. What cannot be read as a record
        is NaN.
    point_shape : tuple of int
        The shape of one record.
    name : str
        The name of X in error messages.
    min_records : int
        The smallest number of records that is accepted.

    Returns
    -------
    Records
        The records, of a class that suits the place where they are stored.

    Raises
    ------
    ParameterError
        For a path, for a wrong shape or dtype, and for fewer records than
        `min_records`.
    """
    if isinstance(X, str | PathLike):
        raise ParameterError(
            f"{name} is a path, not records: curvedp.records.read_records reads files"
        )
    with quiet_about_records():
        records = _open_by_location(X, point_shape, name)
    if records.n < min_records:
        raise ParameterError(
            f"{name} has {records.n} records; at least {min_records} are needed"
        )
    return records


def open_streamed(
    X: Any, point_shape: tuple[int, ...], name: str = "X", min_records: int = 2
) -> Records:
    """Return data as `Records` that are read block by block, if X allows it.

    An array of floats, such as a memory-mapped file, is neither copied nor converted:
    functions of `Records.sums` get blocks of its own type. Everything else is opened by
    `open_records`.

    Parameters
    ----------
    X : array, frame, series or list
        The records, one in each row.
    point_shape : tuple of int
        The shape of one record.
    name : str
        The name of X in error messages.
    min_records : int
        The smallest number of records that is accepted.

    Returns
    -------
    Records
        The records.

    Raises
    ------
    ParameterError
        For a wrong shape or dtype, and for fewer records than `min_records`.
    """
    is_plain_array = type(X) in (np.ndarray, np.memmap)
    if not is_plain_array or X.dtype.kind != "f" or X.shape[1:] != point_shape:
        return open_records(X, point_shape, name, min_records)
    if len(X) < min_records:
        raise ParameterError(
            f"{name} has {len(X)} records; at least {min_records} are needed"
        )
    return Records(X)


def _open_by_location(X: Any, point_shape: tuple[int, ...], name: str) -> Records:
    """Return data as `Records` of the kind that suits the place where they are stored.

    Parameters
    ----------
    X : array-like
        The data: a dask array, an array on a device, or anything in memory.
    point_shape : tuple of int
        The shape of one point.
    name : str
        The name of the argument in error messages.

    Returns
    -------
    ChunkedRecords, DeviceRecords or Records
        The records, of which at most the shape was looked at.
    """
    if is_chunked(X):
        from curvedp.records.chunked import ChunkedRecords

        return ChunkedRecords(X, point_shape, name)

    if is_array_api_obj(X) and not is_numpy_array(X):
        if not array_namespace(X).isdtype(X.dtype, ("real floating", "integral")):
            raise ParameterError(f"{name} has dtype {X.dtype}; it must be real numbers")
        return DeviceRecords(check_record_shape(X, point_shape, name))

    records = to_float_records(name, X, point_shape)
    return Records(check_record_shape(records, point_shape, name))


def is_chunked(X: Any) -> bool:
    """Return whether X is a dask array, without importing dask.

    Parameters
    ----------
    X : object
        The object that the caller passes as records.
    """
    package = type(X).__module__.partition(".")[0]
    return package == "dask" and hasattr(X, "chunks")


def is_complex_array(X: Any) -> bool:
    """Return whether X is an array of complex numbers, by its type alone.

    Parameters
    ----------
    X : object
        The object that the caller passes as records: an array of any library.
    """
    if not is_array_api_obj(X):
        return False
    return bool(array_namespace(X).isdtype(X.dtype, "complex floating"))


def check_record_shape(X: Any, point_shape: tuple[int, ...], name: str) -> Any:
    """Return X unchanged if its shape is (n, *point_shape), and refuse it otherwise.

    The error message does not state n, which may be private.

    Parameters
    ----------
    X : array
        Records of any library.
    point_shape : tuple of int
        The shape of one point.
    name : str
        The name of the argument in error messages.

    Returns
    -------
    array
        X itself.

    Raises
    ------
    ParameterError
        If the shape is another one.
    """
    if X.ndim == 1 + len(point_shape) and tuple(X.shape[1:]) == point_shape:
        return X
    shape_in_words = ", ".join(["n", *map(str, X.shape[1:])])
    needed_in_words = ", ".join(["n", *map(str, point_shape)])
    raise ParameterError(
        f"{name} has shape ({shape_in_words}); it must be ({needed_in_words})"
    )
