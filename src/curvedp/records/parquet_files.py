"""Reading records from parquet files: tables in compressed columns.
The *footer* of a file states its schema (names and types of columns) and the sizes of
all parts, which are public. So too large a file is refused before a value is decoded,
and large files become dask arrays with one chunk for each *row group*.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.records import limits
from curvedp.records.columns import expand_ranges
from curvedp.records.frames import find_record_columns, frame_column, frame_records
from curvedp.records.limits import BYTES_PER_DOUBLE, check_unpacked, unpacked_limit
from curvedp.records.options import ReadOptions

# Bytes of a value in memory by its physical type; a text is a position in a dictionary.
# fmt: off
_BYTES_BY_PARQUET_TYPE = {
    "BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 8, "INT64": 8, "DOUBLE": 8,
    "INT96": 12,
}
# fmt: on


class ParquetColumns(NamedTuple):
    """The wanted columns of a parquet file.

    Attributes
    ----------
    names : list of str
        The names of the columns, in the wanted order.
    text_names : list of str
        Those of them that hold texts, sorted.
    nested_text_names : list of str
        Those of them that hold lists of texts, or other values made of texts, sorted.
        They are not read.
    """

    names: list[str]
    text_names: list[str]
    nested_text_names: list[str]


def from_parquet(paths: str | Path | Sequence[str | Path], manifold: Manifold) -> Any:
    """Open parquet files as a dask array of records, with one chunk for each row group.

    The sizes of the chunks are read from the files' footers. Columns hold the entries
    of a point in row-major order, or one column holds a list for each record. A cell
    that is not a number is NaN, and an estimator treats its record like any invalid
    record.

    Parameters
    ----------
    paths : path, or sequence of paths
        The files, in order.
    manifold : Manifold
        The space in which the points lie.

    Returns
    -------
    dask array, shape (n, *point_shape)
        The records, which are read when they are needed.

    Raises
    ------
    ParameterError
        If dask or pyarrow is missing, a file cannot be read, or its columns do not fit.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> records = from_parquet(
    ...     ["one.parquet", "two.parquet"], SPDAffineInvariant(3)
    ... )  # doctest: +SKIP
    """
    try:
        import dask.array  # noqa: F401 - only to find out whether it is installed
        import pyarrow.parquet  # noqa: F401 - only to find out whether it is installed
    except ImportError:
        raise ParameterError(
            "reading parquet in chunks needs: pip install 'curvedp[dask,io]'"
        ) from None
    if isinstance(paths, str | Path):
        paths = [paths]
    files = [Path(path) for path in paths]
    return _open_row_groups(files, manifold.point_shape, ReadOptions())


def read_parquet(path: Path, shape: tuple[int, ...], options: ReadOptions) -> Any:
    """Read the records of a parquet file; a large one becomes a dask array.

    Only the footer decides between the two cases, and the footer is public.

    Parameters
    ----------
    path : path
        The file.
    shape : tuple of int
        The shape of one record in this form, such as (2,) for a pair of numbers.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array or dask array, shape (n, *shape)
        The records.
    """
    with _open_parquet(path) as file:
        row_count = file.metadata.num_rows
    is_large = row_count * prod(shape) * BYTES_PER_DOUBLE > limits.STREAMED
    if is_large and options.mask is None and find_spec("dask") is not None:
        return _open_row_groups([path], shape, options)
    return _read_parquet_records(path, None, shape, options)


def read_parquet_column(
    path: Path, column: str | int, options: ReadOptions
) -> np.ndarray:
    """Read one column of a parquet file.

    Parameters
    ----------
    path : path
        The file.
    column : str or int
        The column, by its name or its position from 0.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array, shape (n,)
        The cells of the column.
    """
    empty_table = _empty_table(path)
    column_options = ReadOptions(columns=[column])
    positions = find_record_columns(path.name, empty_table, (), column_options)
    table = _read_parquet_table(path, None, positions, options.max_unpacked)
    return frame_column(path.name, table, 0)


def parquet_columns(path: Path) -> dict[str, str]:
    """Return the kind of each column of a parquet file: lists, texts or other values.

    Parameters
    ----------
    path : path
        The file, of which only the schema is read.

    Returns
    -------
    dict
        "list", "text" or "other" by the name of the column, in their order.
    """
    with _open_parquet(path) as file:
        return {
            str(field.name): _column_kind(field.type) for field in file.schema_arrow
        }


def _column_kind(column_type: Any) -> str:
    """Return "list", "text" or "other" for the type of a column.

    Parameters
    ----------
    column_type : pyarrow.DataType
        The type, as the schema of a file declares it.
    """
    from pyarrow import types

    is_variable_list = types.is_list(column_type) or types.is_large_list(column_type)
    if is_variable_list or types.is_fixed_size_list(column_type):
        return "list"
    if types.is_string(column_type) or types.is_large_string(column_type):
        return "text"
    return "other"


def parquet_width(path: Path, options: ReadOptions) -> int | None:
    """Return how many numbers a record of a parquet file has, as its schema says.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        Its `columns` are the columns of the record, or all but its `other_columns`.

    Returns
    -------
    int or None
        None if there is only one column and its lists may have any length.
    """
    with _open_parquet(path) as file:
        schema = file.schema_arrow
    other_names = {str(name) for name in options.other_columns}
    wanted_columns = options.columns
    if wanted_columns is None:
        wanted_columns = [name for name in schema.names if name not in other_names]
    columns = expand_ranges(wanted_columns, schema.names)
    if len(columns) != 1:
        return len(columns)  # one number in each column

    (column,) = columns
    name = column if isinstance(column, str) else schema.names[column]
    if name not in schema.names:
        return None
    return _fixed_list_size(schema.field(name).type)


def _fixed_list_size(column_type: Any) -> int | None:
    """Return the length of the lists in a column; None if its type does not fix it.

    Parameters
    ----------
    column_type : pyarrow.DataType
        The type, as the schema of a file declares it.
    """
    from pyarrow import FixedSizeListType

    if isinstance(column_type, FixedSizeListType):
        return int(column_type.list_size)
    return None


def _read_parquet_records(
    path: Path, row_group: int | None, shape: tuple[int, ...], options: ReadOptions
) -> np.ndarray:
    """Read the records of a parquet file, or of one of its row groups.

    The result has shape (n, *shape). A row group is a block of rows in the file.

    Parameters
    ----------
    path : path
        The file.
    row_group : int or None
        Which row group is read; None reads the whole file.
    shape : tuple of int
        The shape of one record in this form, such as (2,) for a pair of numbers.
    options : ReadOptions
        The caller's options for reading the file.
    """
    positions = find_record_columns(path.name, _empty_table(path), shape, options)
    table = _read_parquet_table(path, row_group, positions, options.max_unpacked)
    records = frame_records(path.name, table, shape, ReadOptions())
    return records.reshape(-1, *shape)


def _open_parquet(path: Path, text_names: Sequence[str] = ()) -> Any:
    """Open a parquet file for reading.

    Parameters
    ----------
    path : path
        The file.
    text_names : sequence of str
        The columns that are read as dictionaries: each distinct text is then in memory
        only once.

    Returns
    -------
    pyarrow.parquet.ParquetFile
        The open file, of which the footer was read.

    Raises
    ------
    ParameterError
        If it is not a parquet file.
    """
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path, read_dictionary=list(text_names))
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"cannot read {path} as parquet ({type(error).__name__})"
        ) from None


def _empty_table(path: Path) -> Any:
    """Return a pyarrow table with the columns of a parquet file and without rows.

    Parameters
    ----------
    path : path
        The file.
    """
    with _open_parquet(path) as file:
        return file.schema_arrow.empty_table()


def _read_parquet_table(
    path: Path, row_group: int | None, positions: list[int], max_unpacked: int | None
) -> Any:
    """Read columns of a parquet file as a table of pyarrow.

    Parameters
    ----------
    path : Path
        The file.
    row_group : int or None
        Which row group is read; None means all of them.
    positions : list of int
        The positions of the columns, in the wanted order.
    max_unpacked : int or None
        The limit in bytes on the memory that the columns may fill.

    Returns
    -------
    pyarrow.Table
        The columns in the wanted order. Texts are read as dictionaries, so that a long
        text which many rows share is unpacked only once. Columns of lists of texts are
        not read; they hold missing values.
    """
    import pyarrow

    columns = _check_parquet_columns(path, positions, max_unpacked)
    read_names = [
        name for name in columns.names if name not in columns.nested_text_names
    ]
    with _open_parquet(path, columns.text_names) as file:
        if row_group is None:
            row_count = file.metadata.num_rows
            table = file.read(columns=read_names)
        else:
            row_count = file.metadata.row_group(row_group).num_rows
            table = file.read_row_group(row_group, columns=read_names)

    for name in columns.nested_text_names:
        no_values = pyarrow.nulls(row_count)
        if table.num_columns == 0:
            table = pyarrow.table({name: no_values})
        else:
            table = table.append_column(name, no_values)
    return table.select(columns.names)


def _check_parquet_columns(
    path: Path, positions: list[int], max_unpacked: int | None
) -> ParquetColumns:
    """Find the wanted columns of a parquet file, and refuse them if they are too large.

    Sizes are read from the file's footer, before any value is decoded.

    Parameters
    ----------
    path : Path
        The file.
    positions : list of int
        The positions of the wanted columns, in the wanted order.
    max_unpacked : int or None
        The limit in bytes on the memory that the columns may fill.

    Returns
    -------
    ParquetColumns
        The names of the columns, and which of them hold texts.

    Raises
    ------
    ParameterError
        If the columns would fill more memory, or if two columns have the same name.
    """
    with _open_parquet(path) as file:
        all_names = file.schema_arrow.names
        metadata = file.metadata
    if len(set(all_names)) < len(all_names):
        raise ParameterError(f"{path.name} has two columns of one name; rename one")

    names = [all_names[position] for position in positions]
    text_names: set[str] = set()
    nested_text_names: set[str] = set()
    needed_bytes = 0
    for leaf, chunk in _column_chunks(metadata):
        name = _column_of_leaf(chunk.path_in_schema, names)
        if name is None:
            continue
        needed_bytes += chunk.num_values * _bytes_per_value(metadata, chunk, leaf)
        needed_bytes += chunk.total_uncompressed_size
        if chunk.physical_type != "BYTE_ARRAY":
            continue
        # Texts inside of lists cannot be read as dictionaries, so they could unpack
        # without limit. They are not refused, because in a column without values one
        # record would decide about it.
        is_nested = chunk.path_in_schema != name
        if is_nested:
            nested_text_names.add(name)
        else:
            text_names.add(name)
    check_unpacked(path, needed_bytes, unpacked_limit(path, max_unpacked))
    return ParquetColumns(names, sorted(text_names), sorted(nested_text_names))


def _column_chunks(metadata: Any) -> Iterator[tuple[int, Any]]:
    """Yield what the footer of a parquet file says about each column and row group.

    Parameters
    ----------
    metadata : pyarrow.parquet.FileMetaData
        The footer of the file.

    Yields
    ------
    leaf : int
        The position of the column in the schema.
    chunk : pyarrow.parquet.ColumnChunkMetaData
        The sizes and the type of the column in one row group.
    """
    for row_group in range(metadata.num_row_groups):
        for leaf in range(metadata.num_columns):
            yield leaf, metadata.row_group(row_group).column(leaf)


def _bytes_per_value(metadata: Any, chunk: Any, leaf: int) -> int:
    """Return how many bytes of memory one value of a parquet column fills.

    Parameters
    ----------
    metadata : pyarrow.parquet.FileMetaData
        The footer of the file.
    chunk : pyarrow.parquet.ColumnChunkMetaData
        The part of the footer about the column in one row group.
    leaf : int
        The position of the column in the schema.

    Returns
    -------
    int
        The number of bytes.
    """
    bytes_per_value = _BYTES_BY_PARQUET_TYPE.get(chunk.physical_type)
    if bytes_per_value is None:
        # A type of fixed length, which the schema tells.
        return int(metadata.schema.column(leaf).length)
    return bytes_per_value


def _column_of_leaf(leaf: str, names: list[str]) -> str | None:
    """Return which of the wanted columns a leaf of the schema belongs to.

    A leaf is a place where values are stored; a column of lists has its leaf inside.

    Parameters
    ----------
    leaf : str
        The path of the leaf, such as "x.list.element".
    names : list of str
        The names of the wanted columns, such as "x".

    Returns
    -------
    str or None
        The column; None if it is not wanted.
    """
    for name in names:
        if leaf == name or leaf.startswith(f"{name}."):
            return name
    return None


def _open_row_groups(
    paths: list[Path], shape: tuple[int, ...], options: ReadOptions
) -> Any:
    """Open parquet files as one dask array, with a chunk for each row group.

    A row group is a block of rows in a file; it is read when it is needed. The columns
    of every file are checked here, so that nothing is refused later, when a worker
    reads a chunk.

    Parameters
    ----------
    paths : list of path
        The parquet files, in the order of their records.
    shape : tuple of int
        The shape of one record in this form, such as (2,) for a pair of numbers.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    dask array, shape (n, *shape)
        The records, which are read when they are needed.

    Raises
    ------
    ParameterError
        If the columns of a file do not fit, or no file holds a row.
    """
    import dask.array

    chunks = []
    for path in paths:
        with _open_parquet(path) as file:
            empty_table = file.schema_arrow.empty_table()
            metadata = file.metadata
        frame_records(path.name, empty_table, shape, options)
        positions = find_record_columns(path.name, empty_table, shape, options)
        _check_parquet_columns(path, positions, options.max_unpacked)

        for row_group in range(metadata.num_row_groups):
            size = metadata.row_group(row_group).num_rows
            records = dask.delayed(_read_parquet_records)(
                path, row_group, shape, options
            )
            chunk = dask.array.from_delayed(
                records, shape=(size, *shape), dtype=np.float64
            )
            chunks.append(chunk)
    if not chunks:
        raise ParameterError("no parquet file holds a row")
    return dask.array.concatenate(chunks)
