"""Parquet files, whole or as chunked records."""

from collections.abc import Sequence
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold
from curvedp.records.tables import Choices, frame
from curvedp.records.volumes import STREAMED


def from_parquet(paths: str | Path | Sequence[str | Path], manifold: Manifold) -> Any:
    """Parquet files as a dask array of records, one chunk a row group, sizes read off the files' footers.

    Columns hold a point's entries in row-major order, or one column a list for each record. What is not a number is NaN, and
    so is mapped into the ball like any bad record.

    Parameters
    ----------
    paths : path, or sequence of paths
        The files, in order.
    manifold : Manifold
        Where the points live.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> records = from_parquet(["one.parquet", "two.parquet"], SPDAffineInvariant(3))  # doctest: +SKIP
    """
    try:
        import dask.array  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise ParameterError("reading parquet in chunks needs: pip install 'curvedp[dask,io]'") from None
    files = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    blocks = [block for path in files for block in _blocks(path, manifold.point_shape, Choices())]
    return _joined(blocks)


def read_parquet(path: Path, shape: tuple[int, ...], choices: Choices) -> Any:
    """One file: in memory, or as a dask array where it is large. Which it is depends on the footer alone."""
    import pyarrow.parquet

    large = _footer(path).metadata.num_rows * prod(shape) * 8 > STREAMED
    if large and choices.mask is None and find_spec("dask") is not None:
        return _joined(_blocks(path, shape, choices))
    return frame(path.name, pyarrow.parquet.read_table(path), shape, choices).reshape(-1, *shape)


def _footer(path: Path) -> Any:
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise ParameterError(f"cannot read {path} as parquet ({type(error).__name__})") from None


def _blocks(path: Path, shape: tuple[int, ...], choices: Choices) -> list[Any]:
    """A delayed chunk for each row group, after the columns have been found to fit."""
    import dask.array

    with _footer(path) as file:
        frame(path.name, file.schema_arrow.empty_table(), shape, choices)
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    read, made = dask.delayed(_row_group), dask.array.from_delayed
    return [
        made(read(str(path), group, shape, choices), shape=(size, *shape), dtype=np.float64)
        for group, size in enumerate(sizes)
    ]


def _joined(blocks: list[Any]) -> Any:
    import dask.array

    if not blocks:
        raise ParameterError("no parquet file holds a row")
    return dask.array.concatenate(blocks)


def _row_group(path: str, group: int, shape: tuple[int, ...], choices: Choices) -> np.ndarray:
    with _footer(Path(path)) as file:
        return frame(path, file.read_row_group(group), shape, choices).reshape(-1, *shape)
