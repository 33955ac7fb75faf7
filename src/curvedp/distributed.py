"""Records on a cluster: estimators and DP-RGD take dask arrays, and their results do not depend on how these are chunked.

Workers see records and send back exact sums over them (`geometry.fixed_point`), added up along a tree. The client moves the
iterate, charges the ledger once and adds the noise once, at the end. No record leaves its worker but for the first few
thousand, which one worker gathers to find a start. A task lost with its worker is computed again, to the same bits.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry.base import Manifold
from curvedp.geometry.fixed_point import MOST_TERMS
from curvedp.geometry.mean_streamed import Domain, Start, block_sums, first_guess, streamed_mean

__all__ = ["ChunkedRecords", "from_parquet", "is_chunked"]

_SAMPLE = 1 << 14  # records that the start is found from
_FAN_IN = 8  # partial sums that one task adds up
_PATIENCE = "10s"  # for a scheduler's answer


def is_chunked(X: Any) -> bool:
    """Whether X is a dask array. Says no, without an import, where dask is not in use."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "chunks")


class ChunkedRecords:
    """A dask array of records along its first axis, seen through sums over them.

    Refuses, before anything is computed, chunks of unknown size and chunks that cut through a record.

    >>> import dask.array as da
    >>> len(ChunkedRecords(da.zeros((10, 3), chunks=(4, 3)), (3,)))
    10
    """

    def __init__(self, X: Any, point_shape: tuple[int, ...]) -> None:
        if X.ndim != 1 + len(point_shape) or tuple(X.shape[1:]) != point_shape:
            raise ParameterError(f"X has shape {X.shape}; it must be (n, {', '.join(map(str, point_shape))})")
        if any(isnan(size) for sizes in X.chunks for size in sizes):
            raise ParameterError("X has chunks of unknown size; X.compute_chunk_sizes() finds them in one pass")
        split = [axis for axis in range(1, X.ndim) if len(X.chunks[axis]) > 1]
        if split:
            whole = ", ".join(f"{axis}: -1" for axis in split)
            raise ParameterError(f"X has chunks that cut through a record; X.rechunk({{{whole}}}) mends it")
        if X.dtype.kind not in "iuf":
            raise ParameterError(f"X has dtype {X.dtype}; it must be real numbers")
        if X.shape[0] > MOST_TERMS:
            raise ParameterError(f"X has {X.shape[0]} records; the sums are exact for at most {MOST_TERMS}")
        self._array = X
        self._point_shape = point_shape
        _check_scheduler()

    def __len__(self) -> int:
        return int(self._array.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, *point_shape)."""
        return (len(self), *self._point_shape)

    def sums(self, kernel: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Σ kernel(chunk) over all chunks, kernel giving a vector of int64: a map and a tree of exact additions."""
        chunks = self._array.numblocks[0]
        parts = self._array.map_blocks(
            partial(_part, kernel, self._point_shape),
            dtype=np.int64,
            meta=np.empty((0, 0), dtype=np.int64),
            drop_axis=list(range(1, self._array.ndim)),
            new_axis=[1],
            chunks=((1,) * chunks, (np.nan,)),
        )
        total = np.asarray(_computed(parts.sum(axis=0, split_every=_FAN_IN)))
        if total[-1] != len(self):  # n is part of the guarantee
            raise ParameterError(f"the chunks of X hold {total[-1]} records; their sizes say {len(self)}")
        return total[:-1]

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> Any:
        """The dask array of function(chunk), which keeps shapes."""
        return self._array.map_blocks(function, dtype=np.float64, meta=np.empty((0,) * self._array.ndim))

    def mean(self, domain: Domain) -> tuple[np.ndarray, float]:
        """(Fréchet mean, mean square distance to it) of the records after mapping them into the ball."""
        import dask

        few = self._array[:_SAMPLE].rechunk(dict.fromkeys(range(self._array.ndim), -1))
        start: Start = _computed(dask.delayed(_first)(domain, few))

        def sums(x: np.ndarray) -> np.ndarray:
            return self.sums(partial(_flat_sums, domain, x)).reshape(2, -1)

        return streamed_mean(domain, len(self), sums, start)


def from_parquet(paths: str | Path | Sequence[str | Path], manifold: Manifold) -> Any:
    """Parquet files as a dask array of records, one chunk a row group, sizes read off the files' footers.

    Columns hold a point's entries in row-major order; a missing value is NaN, and so is mapped into the ball like any bad
    record. (`dask.dataframe.read_parquet(...).to_dask_array(lengths=True)` does the same where pandas is installed.)
    """
    try:
        import dask.array
        import pyarrow.parquet
    except ImportError:
        raise ParameterError("reading parquet in chunks needs: pip install 'curvedp[dask,parquet]'") from None
    files = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    width, blocks = int(np.prod(manifold.point_shape)), []
    for path in files:
        try:
            footer = pyarrow.parquet.ParquetFile(path).metadata
        except (OSError, ValueError) as error:
            raise ParameterError(f"cannot read {path}: {error}") from None
        if footer.num_columns != width:
            raise ParameterError(
                f"{path} has {footer.num_columns} columns; a point of {manifold!r} has {width} entries"
            )
        for group in range(footer.num_row_groups):
            shape = (footer.row_group(group).num_rows, *manifold.point_shape)
            read = dask.delayed(_row_group)(str(path), group, manifold.point_shape)
            blocks.append(dask.array.from_delayed(read, shape=shape, dtype=np.float64))
    if not blocks:
        raise ParameterError("no parquet file holds a row")
    return dask.array.concatenate(blocks)


# ---- on the workers ------------------------------------------------------------------------------------------------------


def _part(kernel: Callable[[np.ndarray], np.ndarray], point_shape: tuple[int, ...], block: np.ndarray) -> np.ndarray:
    """One row: the sums over a chunk, and how many records it had."""
    if block.shape[1:] != point_shape:
        raise ParameterError(f"a chunk of X has shape {block.shape}; its records should be {point_shape}")
    return np.append(kernel(block), len(block))[None].astype(np.int64)


def _flat_sums(domain: Domain, x: np.ndarray, block: np.ndarray) -> np.ndarray:
    return block_sums(domain, x, block).ravel()


def _first(domain: Domain, few: np.ndarray) -> Start:
    return first_guess(domain, np.asarray(few, dtype=np.float64))


def _row_group(path: str, group: int, point_shape: tuple[int, ...]) -> np.ndarray:
    import pyarrow.parquet

    table = pyarrow.parquet.ParquetFile(path).read_row_group(group)
    columns = [np.asarray(column.cast("float64").to_numpy(), dtype=np.float64) for column in table.columns]
    return np.stack(columns, axis=1).reshape(-1, *point_shape)


# ---- on the client -------------------------------------------------------------------------------------------------------


def _computed(collection: Any) -> Any:
    """The value of a lazy collection, on whichever scheduler is in charge; its failures as one line."""
    try:
        return collection.compute()
    except CurvedpError:
        raise
    except Exception as error:
        # What can fail here is the cluster or the storage, never the value of a record: the kernels take any.
        line = " ".join(str(error).split()) or type(error).__name__
        raise ParameterError(f"the pass over X failed: {type(error).__name__}: {line}. Nothing was spent") from error


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
        line = f"the dask scheduler at {client.scheduler.address} does not answer ({error}). Nothing was spent"
        raise ParameterError(line) from None
