"""Records in a dask array, which are never loaded as a whole.
A dask array consists of chunks, which workers read. Workers apply a function to their
own chunks and send back exact sums; the client adds them up. A worker or a cluster that
fails is reported in one line that quotes no record.
"""

import os
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from curvedp._silence import quiet_about_records
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry.ball import carry_records
from curvedp.geometry.capabilities import canonical_center
from curvedp.geometry.frechet_mean.backends.chunks import (
    Start,
    block_sums,
    start_from_sample,
    streamed_mean,
)
from curvedp.geometry.frechet_mean.public_ball import PublicBall
from curvedp.geometry.manifold import Manifold
from curvedp.numerics.arrays import to_host
from curvedp.numerics.fixed_point import MOST_TERMS
from curvedp.records.base import (
    BlockSum,
    Moments,
    Records,
    check_record_shape,
    is_chunked,
    open_records,
)
from curvedp.records.conversion import cells_to_floats

if TYPE_CHECKING:
    from curvedp.records.labels import ChunkedLabels, Labels

# How many records one worker gathers to find a starting point for the mean. More would
# take longer and would not save passes over the data.
SAMPLE_SIZE = 1 << 14

# How many partial sums one task adds up.
_SUMS_PER_TASK = 8

# How long the client waits for a scheduler's answer. dask itself complains of an event
# loop that is busy for 3 seconds.
_SCHEDULER_TIMEOUT = "5s"

# Packages whose errors speak of machines and networks, and never of a record.
_CLUSTER_PACKAGES = ("dask", "distributed", "concurrent", "asyncio")


def refuse_chunked(name: str, X: Any) -> None:
    """Refuse a dask array, because the records are needed in memory.

    Parameters
    ----------
    name : str
        The name of the argument in error messages.
    X : object
        The object that the caller passes as records.

    Raises
    ------
    ParameterError
        If X is a dask array. The message says how to load it.
    """
    if is_chunked(X):
        raise ParameterError(
            f"{name} is a dask array, and its records are needed in memory here; where they "
            f"fit, {name}.compute() loads them"
        )


def check_chunk_sizes(name: str, X: Any) -> None:
    """Refuse a dask array with chunks of unknown size.

    The number of records is part of the privacy guarantee, so it must be known.

    Parameters
    ----------
    name : str
        The name of the argument in error messages.
    X : object
        The object that the caller passes as records.

    Raises
    ------
    ParameterError
        If a chunk has an unknown size. The message says how to find it.
    """
    if any(isnan(size) for sizes in X.chunks for size in sizes):
        raise ParameterError(
            f"{name} has chunks of unknown size; {name}.compute_chunk_sizes() finds them in "
            "one pass"
        )


def map_records(
    function: BlockSum,
    X: Any,
    point_shape: tuple[int, ...],
    rest: tuple[int, ...],
    dtype: Any = np.float64,
) -> Any:
    """Apply a function to records, in memory or chunk by chunk.

    For a dask array, the function is applied when the result is computed.

    Parameters
    ----------
    function : callable
        Maps records of shape (k, *point_shape) to values of shape (k, *rest).
    X : array, frame, list or dask array
        The records.
    point_shape : tuple of int
        The shape of one record.
    rest : tuple of int
        The shape of the value of one record.
    dtype : data type
        Of the values.

    Returns
    -------
    array or dask array, shape (n, *rest)
        A dask array if X is one.
    """
    if not is_chunked(X):
        records = open_records(X, point_shape, min_records=1).array()
        with quiet_about_records():
            return function(records)

    check_whole_records(X, point_shape)
    return X.map_blocks(
        partial(_apply_to_chunk, function, point_shape),
        dtype=dtype,
        meta=np.empty((0,) * (1 + len(rest)), dtype=dtype),
        drop_axis=list(range(1, X.ndim)),
        new_axis=list(range(1, 1 + len(rest))),
        chunks=(X.chunks[0], *((size,) for size in rest)),
    )


def check_whole_records(X: Any, point_shape: tuple[int, ...], name: str = "X") -> None:
    """Refuse a dask array unless its chunks hold whole records of real numbers.

    Parameters
    ----------
    X : dask array
        The records.
    point_shape : tuple of int
        The shape of one point.
    name : str
        The name of the argument in error messages.

    Raises
    ------
    ParameterError
        If the shape is another one, a chunk cuts through a record, or the type is not
        real numbers.
    """
    check_record_shape(X, point_shape, name)
    cut_axes = [axis for axis in range(1, X.ndim) if len(X.chunks[axis]) > 1]
    if cut_axes:
        remedy = ", ".join(f"{axis}: -1" for axis in cut_axes)
        raise ParameterError(
            f"{name} has chunks that cut through a record; {name}.rechunk({{{remedy}}}) "
            "repairs that"
        )
    if X.dtype.kind not in "iuf":
        raise ParameterError(f"{name} has dtype {X.dtype}; it must be real numbers")


class ChunkedRecords(Records):
    """A dask array of records along its first axis, which is never loaded as a whole.

    Parameters
    ----------
    X : dask array, shape (n, *point_shape)
        The records. Chunks of unknown size, and chunks that cut through a record, are
        refused before anything is computed.
    point_shape : tuple of int
        The shape of one record.
    name : str
        The name of X in error messages.

    Attributes
    ----------
    sizes : tuple of int
        How many records each chunk has, as the array says.
    """

    location = "chunks"

    def __init__(self, X: Any, point_shape: tuple[int, ...], name: str = "X") -> None:
        """Check the chunks and the scheduler; no record is read yet.

        Parameters
        ----------
        X : dask array, shape (n, *point_shape)
            The records.
        point_shape : tuple of int
            The shape of one record.
        name : str
            The name of X in error messages.

        Raises
        ------
        ParameterError
            For chunks of unknown size or that cut through a record, for too many
            records for exact sums, and for a cluster that does not answer.
        """
        check_whole_records(X, point_shape, name)
        check_chunk_sizes(name, X)
        if X.shape[0] > MOST_TERMS:
            raise ParameterError(
                f"{name} has {X.shape[0]} records; the sums are exact for at most "
                f"{MOST_TERMS}"
            )
        super().__init__(X)
        self._point_shape = point_shape
        self._name = name
        self.sizes = tuple(X.chunks[0])
        _check_scheduler()

    def delayed_chunks(self) -> list[Any]:
        """Return each chunk as a delayed value of dask."""
        return list(self._records.to_delayed().ravel())

    def sums(self, sum_block: BlockSum, *columns: Any) -> np.ndarray:
        """Add up a vector of integers over all records.

        The workers apply the function to their chunks, and a tree of tasks adds up the
        results.

        Parameters
        ----------
        sum_block : callable
            The function that is added up. It takes a block of records and the same rows
            of each array in `columns`, and returns the sum over the block, a vector of
            int64.
        *columns : dask arrays, shape (n, ...)
            Further values of each record, in the same chunks along the first axis.

        Returns
        -------
        array of int64
            The exact sum.

        Raises
        ------
        ParameterError
            If the chunks hold another number of records than they say.
        """
        # dask aligns arrays of the same number of dimensions, hence the axes of length
        # 1.
        added_axes = (None,) * len(self._point_shape)
        aligned = [values[(slice(None), *added_axes)] for values in columns]
        chunk_sums = self._records.map_blocks(
            partial(_sum_over_chunk, sum_block, self._point_shape),
            *aligned,
            dtype=np.int64,
            meta=np.empty((0, 0), dtype=np.int64),
            drop_axis=list(range(1, self._records.ndim)),
            new_axis=[1],
            chunks=((1,) * len(self.sizes), (np.nan,)),
        )
        delayed_total = chunk_sums.sum(axis=0, split_every=_SUMS_PER_TASK)
        total = np.asarray(compute(delayed_total, self._name))

        # The last entry counts the records. n is part of the guarantee, so it must be
        # right.
        if total[-1] != self.n:
            raise ParameterError(
                f"the chunks of {self._name} hold {total[-1]} records; their sizes say "
                f"{self.n}"
            )
        return total[:-1]

    def array(self) -> np.ndarray:
        """Refuse to load the records, whatever their number is."""
        refuse_chunked(self._name, self._records)
        raise AssertionError("chunked records are always refused")

    def to_canonical_frame(
        self, manifold: Manifold, center: np.ndarray
    ) -> "ChunkedRecords":
        """Return the records after moving a public center to its canonical place.

        The canonical place is usually the origin. All records are moved by the same
        isometry, chunk by chunk when they are read.

        Parameters
        ----------
        manifold : Manifold
            The space in which the records lie.
        center : array
            The center of the public ball, which is moved.

        Returns
        -------
        ChunkedRecords
            The moved records; these records themselves if the center need not move.
        """
        if np.array_equal(canonical_center(manifold, center), center):
            return self
        carry = partial(carry_records, manifold, center)
        moved_records = self._records.map_blocks(
            partial(_apply_to_chunk, carry, self._point_shape),
            dtype=np.float64,
            meta=np.empty((0,) * self._records.ndim),
        )
        return ChunkedRecords(moved_records, self._point_shape, self._name)

    def select_class(self, labels: "Labels | ChunkedLabels", code: int) -> Records:
        """Return the records of one class, which stay in their chunks.

        Parameters
        ----------
        labels : ChunkedLabels
            The class of each record.
        code : int
            The position of the class among `labels.classes`.
        """
        from curvedp.records.labels import ClassRecords

        return ClassRecords(cast("ChunkedLabels", labels), self, code)

    def labels(self, y: Any, classes: Any = None) -> "ChunkedLabels":
        """Return the labels of the records; y is in memory or a dask array.

        Parameters
        ----------
        y : array, list, series or dask array, length n
            The label of each record.
        classes : list, optional
            The public set of classes. With it the labels are private.
        """
        from curvedp.records.labels import ChunkedLabels

        return ChunkedLabels(self, y, classes)

    def class_moments(
        self, ball: PublicBall, labels: "Labels | ChunkedLabels"
    ) -> list[Moments]:
        """Return the Fréchet mean of each class and the mean square distance to it.

        One pass over the data serves all classes.

        Parameters
        ----------
        ball : PublicBall
            The manifold, and the public ball into which records are clipped.
        labels : ChunkedLabels
            The class of each record.
        """
        return cast("ChunkedLabels", labels).moments(ball)

    def moments(self, ball: PublicBall) -> Moments:
        """Return the Fréchet mean of the records and their mean square distance to it.

        One worker finds a starting point from the first records. Then a few passes over
        all chunks improve it.

        Parameters
        ----------
        ball : PublicBall
            The public ball, into which records are clipped.

        Returns
        -------
        mean : array of shape point_shape
            The Fréchet mean.
        mean_square : float
            The mean squared distance of the clipped records to it.
        """
        import dask

        whole_axes = dict.fromkeys(range(self._records.ndim), -1)
        sample = self._records[:SAMPLE_SIZE].rechunk(whole_axes)
        start: Start = compute(dask.delayed(_start_from_chunk)(ball, sample))

        def sums_at(point: np.ndarray) -> np.ndarray:
            """Return the sums over all records that a step from this point needs."""
            return self.sums(partial(block_sums, ball, point)).reshape(2, -1)

        return streamed_mean(ball, self.n, sums_at, start)


# ---- on the workers ------------------------------------------------------------------


def check_chunk(
    point_shape: tuple[int, ...], chunk: Any, *columns: np.ndarray
) -> np.ndarray:
    """Return the records of a chunk, after checking that they have the right shape.

    The type of a chunk is private, whatever type the dask array declares: if a chunk is
    a part of a table, one text or complex number in it changes that type. So it is not
    refused, and whatever is not a number becomes NaN.

    Parameters
    ----------
    point_shape : tuple of int
        The shape of one record.
    chunk : array
        The records of the chunk, perhaps on a device.
    *columns : arrays
        Further values of these records; each must have one row for each record.

    Returns
    -------
    array, shape (k, *point_shape)
        The records as real numbers.

    Raises
    ------
    ParameterError
        If the shape of the chunk is not the one that the dask array declares.
    """
    records = chunk if type(chunk) is np.ndarray else to_host(chunk)
    if records.shape[1:] != point_shape:
        raise ParameterError(
            f"a chunk has shape {records.shape}; its records should be {point_shape}"
        )
    if any(len(values) != len(records) for values in columns):
        raise ParameterError(
            f"a chunk has {len(records)} records and {len(columns[0])} labels"
        )
    if records.dtype.kind not in "biuf":
        with quiet_about_records():
            return cells_to_floats(records)
    return records


def _apply_to_chunk(
    function: BlockSum, point_shape: tuple[int, ...], chunk: Any
) -> np.ndarray:
    """Apply a function to the records of a chunk, after converting them to floats.

    Parameters
    ----------
    function : callable
        Maps an array of records to an array with one row for each.
    point_shape : tuple of int
        The shape of one point.
    chunk : array
        The records of one chunk.

    Returns
    -------
    array
        The value of the function.
    """
    records = np.asarray(check_chunk(point_shape, chunk), dtype=np.float64)
    # A worker has its own settings for warnings.
    with quiet_about_records():
        return function(records)


def _sum_over_chunk(
    sum_block: BlockSum, point_shape: tuple[int, ...], chunk: Any, *columns: np.ndarray
) -> np.ndarray:
    """Return the sum of a function over a chunk, followed by the number of its records.

    A worker calls this. The result is an array with one row of int64.

    Parameters
    ----------
    sum_block : callable
        Maps the records of a block, and the columns of these records, to a vector of sums.
    point_shape : tuple of int
        The shape of one point.
    chunk : array
        The records of one chunk.
    *columns : arrays
        Values of the same records, such as their classes.
    """
    records = check_chunk(point_shape, chunk, *columns)
    with quiet_about_records():
        sums = sum_block(records, *(values.ravel() for values in columns))
    return np.append(sums, len(records))[np.newaxis].astype(np.int64)


def _start_from_chunk(ball: PublicBall, chunk: np.ndarray) -> Start:
    """Return a starting point for the search of the Fréchet mean.

    It is computed from a chunk with a sample of the records.

    Parameters
    ----------
    ball : PublicBall
        The manifold, and the public ball into which records are clipped.
    chunk : array
        The first records of the data set.
    """
    sample = check_chunk(ball.manifold.point_shape, chunk)
    with quiet_about_records():
        return start_from_sample(ball, np.asarray(sample, dtype=np.float64))


# ---- on the client -------------------------------------------------------------------


def compute(collection: Any, name: str = "X") -> Any:
    """Compute a lazy value of dask, on whichever scheduler is in use.

    Parameters
    ----------
    collection : dask array or delayed value
        The value to compute.
    name : str
        The name of the data in error messages.

    Returns
    -------
    Any
        The computed value.

    Raises
    ------
    ParameterError
        If the computation fails. The message quotes errors of the cluster and the
        operating system's words for an error number, such as "No space left on device".
        Any other message may contain a record (such as "could not convert ..."), so only
        the type of the error is stated, and the traceback does not show it.
    """
    try:
        return collection.compute()
    except CurvedpError:
        raise
    except Exception as error:
        kind = type(error).__name__
        text = _public_text(error)
        if text:
            reason = f"{kind}: {text}"
        else:
            reason = f"{kind} in a task; {name}.blocks[i].compute() tells more"
        raise ParameterError(
            f"the pass over {name} failed: {reason}. Nothing was released"
        ) from None


def _public_text(error: Exception) -> str:
    """Return what may be said of an error of dask: nothing that can quote a record.

    Parameters
    ----------
    error : Exception
        The error of a computation of dask.

    Returns
    -------
    str
        The message of an error of the cluster, and the operating system's words for an
        error number. It is empty for other errors: the code that reads the records may
        have raised them with a message of its own.
    """
    package = type(error).__module__.partition(".")[0]
    if package in _CLUSTER_PACKAGES:
        return " ".join(str(error).split()).rstrip(".")
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return ""


def _check_scheduler() -> None:
    """Refuse a cluster whose scheduler does not answer, before anything is paid.

    Without a cluster nothing is checked, because dask then uses threads of its own.

    Raises
    ------
    ParameterError
        If the client is closed, or the scheduler is lost or too slow.
    """
    import sys

    if "distributed" not in sys.modules:
        return
    import distributed

    try:
        client = distributed.default_client()
    except ValueError:  # There is no cluster.
        return
    if client.scheduler is None:
        raise ParameterError(
            "the dask client is closed; connect a new one. Nothing was spent"
        )
    try:
        client.sync(client.scheduler.identity, callback_timeout=_SCHEDULER_TIMEOUT)
    except Exception as error:
        # A scheduler that is closed, lost or too slow raises errors of many types.
        reason = str(error) or type(error).__name__
        raise ParameterError(
            f"the dask scheduler at {client.scheduler.address} does not answer ({reason}). "
            "Nothing was spent"
        ) from None
