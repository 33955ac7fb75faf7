"""A dask array of records, seen through exact sums over them; what the workers do, and what the client makes of failures."""

from functools import partial
from math import isnan
from typing import Any

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
    Kernel,
    Moments,
    Records,
    check_record_shape,
    is_chunked,
    open_records,
)

SAMPLE = 1 << 14  # records that the start is found from
_FAN_IN = 8  # partial sums that one task adds up
_PATIENCE = "5s"  # for a scheduler's answer; dask itself complains of an event loop that is busy for 3


def refuse_chunked(name: str, X: Any) -> None:
    """A `ParameterError` where a dask array comes to something that would have to load it, whatever its size."""
    if is_chunked(X):
        line = f"and its records are needed in memory here; where they fit, {name}.compute() loads them"
        raise ParameterError(f"{name} is a dask array, {line}")


def check_sizes(name: str, X: Any) -> None:
    """A `ParameterError` for chunks of unknown size: n is part of the guarantee."""
    if any(isnan(size) for sizes in X.chunks for size in sizes):
        raise ParameterError(
            f"{name} has chunks of unknown size; {name}.compute_chunk_sizes() finds them in one pass"
        )


def by_chunks(
    function: Kernel,
    X: Any,
    point_shape: tuple[int, ...],
    rest: tuple[int, ...],
    dtype: Any = np.float64,
) -> Any:
    """What a function makes of records, shape (n, *rest); of a dask array a dask array, chunk by chunk when it is asked."""
    if not is_chunked(X):
        records = open_records(X, point_shape, least=1).array()
        with quiet_about_records():
            return function(records)
    check_whole(X, point_shape)
    return X.map_blocks(
        partial(_applied, function, point_shape),
        dtype=dtype,
        meta=np.empty((0,) * (1 + len(rest)), dtype=dtype),
        drop_axis=list(range(1, X.ndim)),
        new_axis=list(range(1, 1 + len(rest))),
        chunks=(X.chunks[0], *((size,) for size in rest)),
    )


def check_whole(X: Any, point_shape: tuple[int, ...], name: str = "X") -> None:
    """A `ParameterError` unless X is a dask array of points, real numbers, each in one chunk."""
    check_record_shape(X, point_shape, name)
    split = [axis for axis in range(1, X.ndim) if len(X.chunks[axis]) > 1]
    if split:
        whole = ", ".join(f"{axis}: -1" for axis in split)
        raise ParameterError(
            f"{name} has chunks that cut through a record; {name}.rechunk({{{whole}}}) repairs that"
        )
    if X.dtype.kind not in "iuf":
        raise ParameterError(f"{name} has dtype {X.dtype}; it must be real numbers")


class ChunkedRecords(Records):
    """A dask array of records along its first axis, seen through sums over them. Chunks of unknown size, and those that cut
    through a record, are refused before anything is computed."""

    def __init__(self, X: Any, point_shape: tuple[int, ...], name: str = "X") -> None:
        check_whole(X, point_shape, name)
        check_sizes(name, X)
        if X.shape[0] > MOST_TERMS:
            raise ParameterError(
                f"{name} has {X.shape[0]} records; the sums are exact for at most {MOST_TERMS}"
            )
        super().__init__(X)
        self._point_shape, self._name = point_shape, name
        self.sizes = tuple(X.chunks[0])  # how many records each chunk says it has
        _check_scheduler()

    where = "chunks"

    def blocks(self) -> list[Any]:
        """The chunks, each a delayed value."""
        return list(self._records.to_delayed().ravel())

    def sums(self, kernel: Kernel, *beside: Any) -> np.ndarray:
        """A map and a tree of exact additions; arrays `beside` the records are cut where they are."""
        parts = self._records.map_blocks(
            partial(_part, kernel, self._point_shape),
            *(
                values[(slice(None), *(None,) * len(self._point_shape))]
                for values in beside
            ),
            dtype=np.int64,
            meta=np.empty((0, 0), dtype=np.int64),
            drop_axis=list(range(1, self._records.ndim)),
            new_axis=[1],
            chunks=((1,) * len(self.sizes), (np.nan,)),
        )
        total = np.asarray(computed(parts.sum(axis=0, split_every=_FAN_IN), self._name))
        if total[-1] != self.n:  # n is part of the guarantee
            raise ParameterError(
                f"the chunks of {self._name} hold {total[-1]} records; their sizes say {self.n}"
            )
        return total[:-1]

    def array(self) -> np.ndarray:
        """Refused: the records are not loaded, whatever their size."""
        refuse_chunked(self._name, self._records)
        raise AssertionError  # it is chunked

    def carried(self, manifold: Manifold, center: np.ndarray) -> "ChunkedRecords":
        """The records as `move_to_origin` moves them, chunk by chunk when they are read."""
        if np.array_equal(canonical_center(manifold, center), center):
            return self
        kernel = partial(
            _applied, partial(carry_records, manifold, center), self._point_shape
        )
        moved = self._records.map_blocks(
            kernel, dtype=np.float64, meta=np.empty((0,) * self._records.ndim)
        )
        return ChunkedRecords(moved, self._point_shape, self._name)

    def of_class(self, labels: Any, code: int) -> Records:
        from curvedp.records.labels import ClassRecords

        return ClassRecords(labels, self, code)

    def labels(self, y: Any, classes: Any = None) -> Any:
        from curvedp.records.labels import ChunkedLabels

        return ChunkedLabels(self, y, classes)

    def class_moments(self, domain: PublicBall, labels: Any) -> list[Moments]:
        """The moments of each class; a pass serves them all."""
        return labels.moments(domain)  # type: ignore[no-any-return]  # of `ChunkedLabels`

    def moments(self, domain: PublicBall) -> Moments:
        """Streamed, from a start that one worker finds."""
        import dask

        few = self._records[:SAMPLE].rechunk(
            dict.fromkeys(range(self._records.ndim), -1)
        )
        start: Start = computed(dask.delayed(_first)(domain, few))

        def sums(x: np.ndarray) -> np.ndarray:
            return self.sums(partial(block_sums, domain, x)).reshape(2, -1)

        return streamed_mean(domain, self.n, sums, start)


# ---- on the workers ------------------------------------------------------------------------------------------------------


def checked_block(
    point_shape: tuple[int, ...], block: Any, *beside: np.ndarray
) -> np.ndarray:
    """A chunk in a worker's memory (it may come from a device), where it holds what its array says."""
    records = block if type(block) is np.ndarray else to_host(block)
    if records.shape[1:] != point_shape:
        raise ParameterError(
            f"a chunk has shape {records.shape}; its records should be {point_shape}"
        )
    if any(len(values) != len(records) for values in beside):
        raise ParameterError(
            f"a chunk has {len(records)} records and {len(beside[0])} labels"
        )
    return records


def _applied(function: Kernel, point_shape: tuple[int, ...], block: Any) -> np.ndarray:
    records = np.asarray(checked_block(point_shape, block), dtype=np.float64)
    with quiet_about_records():  # a worker has settings of its own
        return function(records)


def _part(
    kernel: Kernel, point_shape: tuple[int, ...], block: Any, *beside: np.ndarray
) -> np.ndarray:
    """One row: the sums over a chunk, and how many records it had."""
    records = checked_block(point_shape, block, *beside)
    with quiet_about_records():  # a worker has settings of its own
        sums = kernel(records, *(values.ravel() for values in beside))
    return np.append(sums, len(records))[None].astype(np.int64)


def _first(domain: PublicBall, few: np.ndarray) -> Start:
    block = checked_block(domain.manifold.point_shape, few)
    with quiet_about_records():  # a worker has settings of its own
        return start_from_sample(domain, np.asarray(block, dtype=np.float64))


# ---- on the client -------------------------------------------------------------------------------------------------------


def computed(collection: Any, name: str = "X") -> Any:
    """The value of a lazy collection, on whichever scheduler is in charge; its failures as one line."""
    try:
        return collection.compute()
    except CurvedpError:
        raise
    except Exception as error:
        # The cluster and the storage speak of machines and files. What another error says may be a record's value (a
        # reader's "could not convert ..."), and is left out, from the traceback too.
        tell = (
            isinstance(error, OSError | MemoryError)
            or type(error).__module__.partition(".")[0] in _MACHINES
        )
        more = (
            " ".join(str(error).split()).rstrip(".")
            if tell
            else f"in a task; {name}.blocks[i].compute() tells more"
        )
        kind = f"{type(error).__name__}{': ' if tell else ' '}"
        raise ParameterError(
            f"the pass over {name} failed: {kind}{more}. Nothing was released"
        ) from None


_MACHINES = ("dask", "distributed", "concurrent", "asyncio")


def _check_scheduler() -> None:
    """A cluster that does not answer is refused at once; without one, dask's own threads do the work."""
    import sys

    if "distributed" not in sys.modules:
        return
    import distributed

    try:
        client = distributed.default_client()
    except ValueError:
        return
    if client.scheduler is None:
        raise ParameterError(
            "the dask client is closed; connect a new one. Nothing was spent"
        )
    try:
        client.sync(client.scheduler.identity, callback_timeout=_PATIENCE)
    except Exception as error:  # closed, lost, timed out: as many types as ways
        why = str(error) or type(error).__name__
        line = f"the dask scheduler at {client.scheduler.address} does not answer ({why}). Nothing was spent"
        raise ParameterError(line) from None
