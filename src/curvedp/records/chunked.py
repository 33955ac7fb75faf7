"""A dask array of records, seen through exact sums over them; what the workers do, and what the client makes of failures."""

from collections.abc import Callable
from functools import partial
from math import isnan
from typing import Any, Literal

import numpy as np

from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry.ball import carry_records
from curvedp.geometry.base import Manifold
from curvedp.geometry.mean.streamed import Domain, Start, block_sums, first_guess, streamed_mean
from curvedp.geometry.numerics.fixed_point import MOST_TERMS
from curvedp.geometry.numerics.namespace import to_host

SAMPLE = 1 << 14  # records that the start is found from
_FAN_IN = 8  # partial sums that one task adds up
_PATIENCE = "5s"  # for a scheduler's answer; dask itself complains of an event loop that is busy for 3


def is_chunked(X: Any) -> bool:
    """Whether X is a dask array. Says no, without an import, where dask is not in use."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "chunks")


def refuse_chunked(name: str, X: Any) -> None:
    """A `ParameterError` where a dask array comes to something that would have to load it, whatever its size."""
    if is_chunked(X):
        raise ParameterError(
            f"{name} is a dask array, and its records are needed in memory here; where they fit, {name}.compute() loads them"
        )


def check_sizes(name: str, X: Any) -> None:
    """A `ParameterError` for chunks of unknown size: n is part of the guarantee."""
    if any(isnan(size) for sizes in X.chunks for size in sizes):
        raise ParameterError(f"{name} has chunks of unknown size; {name}.compute_chunk_sizes() finds them in one pass")


def by_chunks(
    function: Callable[[np.ndarray], np.ndarray],
    X: Any,
    point_shape: tuple[int, ...],
    rest: tuple[int, ...],
    dtype: Any,
) -> Any:
    """The dask array, shape (n, *rest), of what a function of records makes of each chunk, when it is asked for."""
    check_whole(X, point_shape)
    return X.map_blocks(
        partial(_applied, function, point_shape),
        dtype=dtype,
        meta=np.empty((0,) * (1 + len(rest)), dtype=dtype),
        drop_axis=list(range(1, X.ndim)),
        new_axis=list(range(1, 1 + len(rest))),
        chunks=(X.chunks[0], *((size,) for size in rest)),
    )


def of_n(point_shape: Any) -> str:
    """The shape of n records of this shape, in words that do not tell n, which may be private."""
    return f"({', '.join(['n', *map(str, point_shape)])})"


def check_whole(X: Any, point_shape: tuple[int, ...], name: str = "X") -> None:
    """A `ParameterError` unless X is a dask array of points, real numbers, each in one chunk."""
    if X.ndim != 1 + len(point_shape) or tuple(X.shape[1:]) != point_shape:
        raise ParameterError(f"{name} has shape {of_n(X.shape[1:])}; it must be {of_n(point_shape)}")
    split = [axis for axis in range(1, X.ndim) if len(X.chunks[axis]) > 1]
    if split:
        whole = ", ".join(f"{axis}: -1" for axis in split)
        raise ParameterError(f"{name} has chunks that cut through a record; {name}.rechunk({{{whole}}}) repairs that")
    if X.dtype.kind not in "iuf":
        raise ParameterError(f"{name} has dtype {X.dtype}; it must be real numbers")


class ChunkedRecords:
    """A dask array of records along its first axis, seen through sums over them.

    Refuses, before anything is computed, chunks of unknown size and chunks that cut through a record.

    >>> import dask.array as da
    >>> len(ChunkedRecords(da.zeros((10, 3), chunks=(4, 3)), (3,)))
    10
    """

    def __init__(self, X: Any, point_shape: tuple[int, ...], name: str = "X") -> None:
        check_whole(X, point_shape, name)
        check_sizes(name, X)
        if X.shape[0] > MOST_TERMS:
            raise ParameterError(f"{name} has {X.shape[0]} records; the sums are exact for at most {MOST_TERMS}")
        self._array = X
        self._point_shape = point_shape
        self._name = name
        _check_scheduler()

    where: Literal["chunks"] = "chunks"

    def __len__(self) -> int:
        return int(self._array.shape[0])

    @property
    def n(self) -> int:
        """How many records there are."""
        return len(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, *point_shape)."""
        return (len(self), *self._point_shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many records each chunk says it has."""
        return tuple(self._array.chunks[0])

    def blocks(self) -> list[Any]:
        """The chunks, each a delayed value."""
        return list(self._array.to_delayed().ravel())

    def sums(self, kernel: Callable[..., np.ndarray], *beside: Any) -> np.ndarray:
        """Σ kernel(chunk) over all chunks, kernel giving a vector of int64: a map and a tree of exact additions.

        Arrays `beside` the records, one value a record and cut where they are, are arguments of the kernel too.
        """
        parts = self._array.map_blocks(
            partial(_part, kernel, self._point_shape),
            *(values[(slice(None), *(None,) * len(self._point_shape))] for values in beside),
            dtype=np.int64,
            meta=np.empty((0, 0), dtype=np.int64),
            drop_axis=list(range(1, self._array.ndim)),
            new_axis=[1],
            chunks=((1,) * len(self.sizes), (np.nan,)),
        )
        total = np.asarray(computed(parts.sum(axis=0, split_every=_FAN_IN), self._name))
        if total[-1] != len(self):  # n is part of the guarantee
            raise ParameterError(f"the chunks of {self._name} hold {total[-1]} records; their sizes say {len(self)}")
        return total[:-1]

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> Any:
        """The dask array of function(chunk), which keeps shapes."""
        return self._array.map_blocks(function, dtype=np.float64, meta=np.empty((0,) * self._array.ndim))

    def array(self) -> np.ndarray:
        """Refused: the records are not loaded, whatever their size."""
        refuse_chunked(self._name, self._array)
        raise AssertionError  # it is chunked

    def carried(self, manifold: Manifold, center: np.ndarray) -> "ChunkedRecords":
        """The records as `manifold.to_origin` moves them, chunk by chunk when they are read."""
        if np.array_equal(manifold.home(center), center):
            return self
        kernel = partial(_applied, partial(carry_records, manifold, center), self._point_shape)
        return ChunkedRecords(self.map(kernel), self._point_shape, self._name)

    def of_class(self, labels: Any, code: int) -> Any:
        """Those of one class."""
        return labels.of_class(self, code)

    def labels(self, y: Any, classes: Any = None) -> Any:
        """Labels of the records, in memory or in chunks."""
        from curvedp.records.labels import ChunkedLabels

        return ChunkedLabels(self, y, classes)

    def class_moments(self, domain: Domain, labels: Any) -> list[tuple[np.ndarray, float]]:
        """The moments of each class; a pass serves them all."""
        moments: list[tuple[np.ndarray, float]] = labels.moments(domain)
        return moments

    def moments(self, domain: Domain) -> tuple[np.ndarray, float]:
        """(Fréchet mean, mean square distance to it) of the records after mapping them into the ball."""
        import dask

        few = self._array[:SAMPLE].rechunk(dict.fromkeys(range(self._array.ndim), -1))
        start: Start = computed(dask.delayed(_first)(domain, few))

        def sums(x: np.ndarray) -> np.ndarray:
            return self.sums(partial(_flat_sums, domain, x)).reshape(2, -1)

        return streamed_mean(domain, len(self), sums, start)


# ---- on the workers ------------------------------------------------------------------------------------------------------


def checked_block(point_shape: tuple[int, ...], block: Any, *beside: np.ndarray) -> np.ndarray:
    """A chunk in a worker's memory (it may come from a device), where it holds what its array says."""
    records = block if type(block) is np.ndarray else to_host(block)
    if records.shape[1:] != point_shape:
        raise ParameterError(f"a chunk has shape {records.shape}; its records should be {point_shape}")
    if any(len(values) != len(records) for values in beside):
        raise ParameterError(f"a chunk has {len(records)} records and {len(beside[0])} labels")
    return records


def _applied(function: Callable[[np.ndarray], np.ndarray], point_shape: tuple[int, ...], block: Any) -> np.ndarray:
    return function(np.asarray(checked_block(point_shape, block), dtype=np.float64))


def _part(
    kernel: Callable[..., np.ndarray], point_shape: tuple[int, ...], block: Any, *beside: np.ndarray
) -> np.ndarray:
    """One row: the sums over a chunk, and how many records it had."""
    records = checked_block(point_shape, block, *beside)
    return np.append(kernel(records, *(values.ravel() for values in beside)), len(records))[None].astype(np.int64)


def _flat_sums(domain: Domain, x: np.ndarray, block: np.ndarray) -> np.ndarray:
    return block_sums(domain, x, block).ravel()


def _first(domain: Domain, few: np.ndarray) -> Start:
    return first_guess(domain, np.asarray(checked_block(domain.manifold.point_shape, few), dtype=np.float64))


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
        tell = isinstance(error, OSError | MemoryError) or type(error).__module__.partition(".")[0] in _MACHINES
        more = " ".join(str(error).split()).rstrip(".") if tell else f"in a task; {name}.blocks[i].compute() tells more"
        kind = f"{type(error).__name__}{': ' if tell else ' '}"
        raise ParameterError(f"the pass over {name} failed: {kind}{more}. Nothing was released") from None


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
        raise ParameterError("the dask client is closed; connect a new one. Nothing was spent")
    try:
        client.sync(client.scheduler.identity, callback_timeout=_PATIENCE)
    except Exception as error:  # closed, lost, timed out: as many types as ways
        why = str(error) or type(error).__name__
        line = f"the dask scheduler at {client.scheduler.address} does not answer ({why}). Nothing was spent"
        raise ParameterError(line) from None
