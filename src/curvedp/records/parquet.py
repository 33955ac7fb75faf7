"""Parquet files as chunked records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold

__all__ = ["from_parquet"]


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


def _row_group(path: str, group: int, point_shape: tuple[int, ...]) -> np.ndarray:
    import pyarrow.parquet

    table = pyarrow.parquet.ParquetFile(path).read_row_group(group)
    columns = [np.asarray(column.cast("float64").to_numpy(), dtype=np.float64) for column in table.columns]
    return np.stack(columns, axis=1).reshape(-1, *point_shape)
