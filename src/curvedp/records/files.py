"""Reading records from files of many kinds, and from frames, lists and arrays.
A record is a point of a manifold, written as numbers. Files are refused for public
reasons only: the kind of a file, a shape, a type, a name. Replacing one record never
changes the number of records, whether they are read, or what a message says. A record
that cannot be read as numbers becomes NaN, and an estimator later replaces it by the
center of the public ball.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array

from curvedp._silence import quiet_about_records
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.records.base import is_chunked
from curvedp.records.chunked import map_records
from curvedp.records.columns import expand_ranges
from curvedp.records.conversion import to_floats
from curvedp.records.excel import read_excel_column, read_excel_records
from curvedp.records.forms import Form, find_form, suggest_forms
from curvedp.records.frames import frame_column
from curvedp.records.matlab_files import read_mat, read_mat_column
from curvedp.records.nifti_files import read_nifti, select_voxels
from curvedp.records.numpy_files import read_npy, read_npz, read_npz_column
from curvedp.records.options import ReadOptions
from curvedp.records.parquet_files import (
    parquet_columns,
    parquet_width,
    read_parquet,
    read_parquet_column,
)
from curvedp.records.tables import to_float_records
from curvedp.records.text_tables import (
    read_header,
    read_text_column,
    read_text_records,
)
from curvedp.records.zarr_files import read_zarr

# Reads records of a given shape from a table; the result has shape (n, prod(shape)).
TableReader = Callable[[Path, tuple[int, ...], ReadOptions], Any]

# Reads the array of a file; its records have not been given their shape yet.
ArrayReader = Callable[[Path, ReadOptions], Any]

# Reads one value for each record, from the column of a given name or position.
ColumnReader = Callable[[Path, str | int, ReadOptions], np.ndarray]

Result = TypeVar("Result")

_TEXT_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")

TABLE_READERS: dict[str, TableReader] = {
    **dict.fromkeys(_TEXT_ENDINGS, read_text_records),
    ".xlsx": read_excel_records,
    ".parquet": read_parquet,
}

ARRAY_READERS: dict[str, ArrayReader] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".mat": read_mat,
    ".zarr": read_zarr,
    ".nii": read_nifti,
    ".nii.gz": read_nifti,
}

COLUMN_READERS: dict[str, ColumnReader] = {
    **dict.fromkeys(_TEXT_ENDINGS, read_text_column),
    ".xlsx": read_excel_column,
    ".parquet": read_parquet_column,
    ".npz": read_npz_column,
    ".mat": read_mat_column,
}


@quiet_about_records()
def read_records(
    source: Any,
    manifold: Manifold,
    *,
    form: str | None = None,
    header: bool | None = None,
    key: str | None = None,
    columns: Sequence[str | int] | None = None,
    mask: Any = None,
    sep: str | None = None,
    decimal: str = ".",
    skip: int = 0,
    encoding: str = "utf-8",
    max_unpacked: int | None = None,
    other_columns: Sequence[str | int] = (),
) -> Any:
    """Read records from a file, or from an array, frame or list in memory.

    A record that cannot be read as numbers (a text, a missing cell, a line that is too
    short, a masked entry) is NaN. It is counted like any other, and an estimator
    replaces it by the center of the public ball. Nothing in the data changes n, raises
    an error or is quoted.

    Parameters
    ----------
    source : path, array, frame, series or list
        A path that ends in .csv, .tsv (or these with .gz), .xlsx, .parquet, .npy, .npz,
        .mat, .zarr, .nii or .nii.gz; a frame or a series of pandas or polars; an array,
        a masked array or a list of arrays. Rows of tables hold a point's entries in
        row-major order.
    manifold : Manifold
        The space in which the records lie. It tells how many numbers a record has.
    form : str, optional
        How points are written, one of `FORMS`, such as ``"latlon-degrees"``. Without it
        a record holds the entries of its point.
    header : bool, optional
        Whether the first line of a csv or tsv file names its columns. It must be given,
        unless columns are chosen by name, because guessing it would mean reading the
        data.
    key : str, optional
        Which array of an npz, mat or zarr file is read; or which cells of an Excel
        file, such as ``"Sheet1!A2:C201"``.
    columns : sequence of str or int, optional
        Which columns hold the record, by name or by position from 0, in the order of
        the form. A text such as ``"2-31"`` is a range of positions, both ends included.
    mask : array or path, optional
        Which voxels of a volume are records. It is required for NIfTI files, and has to
        be public, like n.
    sep : str, optional
        The separator of a csv or tsv file. By default it is ``","`` in csv and a tab in
        tsv.
    decimal : str
        The decimal sign of a csv or tsv file, ``"."`` or ``","``.
    skip : int
        How many lines of a csv or tsv file come before its header or its first record.
        Comments are never guessed either.
    encoding : str
        The encoding of a csv or tsv file, such as ``"utf-16"`` or ``"latin-1"``.
        Encodings in which the contents of a record could be taken for a line end
        (UTF-7, ISO 2022, EBCDIC, …) are refused.
    max_unpacked : int, optional
        The limit in bytes on the memory that the file may fill. By default it is the
        larger of 1 GiB and 16 times the file's size, or the value of the environment
        variable ``CURVEDP_MAX_UNPACKED``. It is compared with the file's size and the
        shapes that the file declares.
    other_columns : sequence of str or int
        Columns of a table with names that hold something else, such as the person of
        each record. Without `columns`, the record is in all others.

    Returns
    -------
    array, shape (n, *point_shape)
        A NumPy array of doubles. Parquet and zarr files beyond 1 GiB become dask arrays
        where dask is installed. Arrays of dask and arrays on devices stay where they
        are.

    Raises
    ------
    ParameterError
        For public facts that do not fit: the kind of a file, a shape, a type, a name.

    Examples
    --------
    >>> import tempfile
    >>> from curvedp.geometry import Sphere
    >>> path = Path(tempfile.mkdtemp()) / "x.csv"
    >>> _ = path.write_text("lat,lng\\n0,0\\n#N/A,12\\n90,0\\n")
    >>> read_records(path, Sphere(2), form="latlon-degrees", header=True).round(9).tolist()
    [[1.0, 0.0, 0.0], [nan, nan, nan], [0.0, 0.0, 1.0]]
    """
    record_form = find_form(form, check_manifold(manifold))
    options = ReadOptions(
        header=header,
        key=key,
        columns=columns,
        mask=mask,
        sep=sep,
        decimal=decimal,
        skip=skip,
        encoding=encoding,
        form=record_form,
        max_unpacked=max_unpacked,
        other_columns=other_columns,
    )
    if isinstance(source, str | Path):
        records = _read_file(Path(source), options)
    elif form is None and _is_on_device(source):
        return source
    else:
        records = _shape_records("X", _to_doubles("X", source, options), options)

    if not is_chunked(records):
        return record_form.points(records)
    if form is None:
        return records
    return map_records(
        record_form.points, records, record_form.shape, manifold.point_shape
    )


def _is_on_device(source: Any) -> bool:
    """Return whether data are in an array of JAX, torch, CuPy or a similar library.

    Parameters
    ----------
    source : object
        The object that the caller passes as records.
    """
    if not is_array_api_obj(source):
        return False
    return not is_numpy_array(source) and not is_chunked(source)


@quiet_about_records()
def read_column(
    source: Any,
    column: str | int,
    *,
    header: bool | None = None,
    sep: str | None = None,
    skip: int = 0,
    decimal: str = ".",
    encoding: str = "utf-8",
    max_unpacked: int | None = None,
) -> np.ndarray:
    r"""Read one value for each record, such as its class, its person or its age.

    Parameters
    ----------
    source : path or frame
        The csv, tsv, parquet, npz, mat or xlsx file, or the frame, that holds the
        records.
    column : str or int
        The name of the column, or its position from 0. In an npz or mat file it is the
        name of an array; in an Excel file it is a range of cells, such as
        ``"D2:D201"``.
    header : bool, optional
        Whether the first line of a csv or tsv file names its columns. It must be given,
        unless the column is chosen by name.
    sep : str, optional
        The separator of a csv or tsv file; by default ``","`` in csv and a tab in tsv.
    skip : int
        How many lines of a csv or tsv file come before its header or its first record.
    decimal : str
        The decimal sign of a csv or tsv file, ``"."`` or ``","``. A sign other than
        "." is for numbers alone: ids and classes do not have one.
    encoding : str
        The encoding of a csv or tsv file, such as ``"utf-16"`` or ``"latin-1"``.
    max_unpacked : int, optional
        The limit in bytes on the memory that the file may fill; by default the larger
        of 1 GiB and 16 times the file's size.

    Returns
    -------
    array, shape (n,)
        One value for each of the records that `read_records` finds. From csv and tsv
        files they are texts, which are empty where a line has no such cell; from other
        sources they keep their type.

    Raises
    ------
    ParameterError
        For public facts that do not fit: the kind of a file, or a column that does not
        exist.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x.csv"
    >>> _ = path.write_text("who,x,y\nanna,1,0\nben,oops\n")
    >>> read_column(path, "who", header=True).tolist()
    ['anna', 'ben']
    """
    if not isinstance(source, str | Path):
        return frame_column("X", source, column)

    path = Path(source)
    options = ReadOptions(
        header=header,
        sep=sep,
        decimal=decimal,
        skip=skip,
        encoding=encoding,
        max_unpacked=max_unpacked,
    )
    ending = _ending_of(path, COLUMN_READERS)
    if ending is None:
        endings = ", ".join(COLUMN_READERS)
        raise ParameterError(
            f"{path}: a column can be read from {endings}; otherwise give an array"
        )
    if not path.exists():
        raise ParameterError(f"{path} does not exist")
    read = COLUMN_READERS[ending]
    return _with_refusals(ending, path, lambda: read(path, column, options))


def record_width(
    path: Path,
    *,
    header: bool | None = None,
    key: str | None = None,
    columns: Sequence[str | int] | None = None,
    sep: str | None = None,
    skip: int = 0,
    encoding: str = "utf-8",
    other_columns: Sequence[str | int] = (),
    **_: Any,
) -> int:
    """Return how many numbers a record of a file has, if records are vectors.

    This is read from a header, a schema or the shape of an array, never from a record.
    The command line needs it where a manifold is named without its dimension.

    Parameters
    ----------
    path : path
        A csv, tsv, parquet, npy or npz file.
    header : bool, optional
        Whether the first line of a csv or tsv file names its columns.
    key : str, optional
        Which array of an npz file holds the records.
    columns : sequence of str or int, optional
        Which columns hold the record, by name, position or range.
    sep : str, optional
        The separator of a csv or tsv file.
    skip : int
        How many lines of a csv or tsv file come before its header.
    encoding : str
        The encoding of a csv or tsv file.
    other_columns : sequence of str or int
        Columns that hold something else, such as the person of each record.
    **_
        Further options of `read_records`, which are ignored.

    Returns
    -------
    int
        The number of entries of a vector.

    Raises
    ------
    ParameterError
        If nothing public says how many numbers a record has.
    """
    options = ReadOptions(
        header=header,
        key=key,
        columns=columns,
        sep=sep,
        skip=skip,
        encoding=encoding,
        other_columns=other_columns,
    )
    if not path.exists():
        raise ParameterError(f"{path} does not exist")
    ending = _ending_of(path, (*_TEXT_ENDINGS, ".parquet", ".npy", ".npz"))
    width: int | None = None
    if ending in _TEXT_ENDINGS:
        names = read_header(path, options)
        if columns is not None:
            width = len(expand_ranges(columns, names))
        elif names is not None:
            width = len(names) - len(other_columns)
    elif ending == ".parquet":
        width = _with_refusals(ending, path, lambda: parquet_width(path, options))
    elif ending is not None:
        read = open_npy if ending == ".npy" else read_npz
        array = _with_refusals(ending, path, lambda: read(path, options))
        width = array.shape[1] if array.ndim == 2 else None

    if width is None or width < 1:
        why = ""
        if ending == ".parquet":
            # A length that is read off the records would depend on a record.
            why = " (its columns are no lists of a fixed size, which would state it)"
        raise ParameterError(
            f"is missing: how many numbers a vector of {path.name} has{why}; "
            "sphere:383 stands for vectors of 384 numbers",
            parameter="manifold",
        )
    return width


def column_of_vectors(path: Path, other_columns: Sequence[str | int]) -> str | None:
    """Return the column of a parquet file whose cells are vectors, as its schema says.

    Vectors are often in one column of lists, next to the person's id and the text.
    `read_records` wants such a column to be named; this finds its name.

    Parameters
    ----------
    path : path
        A file of any kind.
    other_columns : sequence of str or int
        Columns that are something else, by name or by position from 0.

    Returns
    -------
    str or None
        The one column of lists, or the one column that is left. None if the numbers of
        a vector are in several columns, and for other kinds of files.

    Raises
    ------
    ParameterError
        If several columns hold lists, or if columns of texts are left beside others.
    """
    if path.suffix != ".parquet" or not path.exists():
        return None
    kinds = _with_refusals(".parquet", path, lambda: parquet_columns(path))
    names = list(kinds)
    excluded_names = set(other_columns)
    for column in other_columns:
        if isinstance(column, int) and column < len(names):
            excluded_names.add(names[column])
    remaining = [name for name in names if name not in excluded_names]
    if len(remaining) == 1:
        return remaining[0]

    lists = [name for name in remaining if kinds[name] == "list"]
    if len(lists) == 1:
        return lists[0]
    texts = [name for name in remaining if kinds[name] == "text"]
    if lists:
        contents = f"lists in the columns {lists}"
    elif texts:
        contents = f"texts in the columns {texts}"
    else:
        return None  # The numbers of a vector are in several columns.
    raise ParameterError(
        f"is missing: {path.name} has {contents}; say in which columns the vectors are",
        parameter="columns",
    )


def open_npy(path: Path, options: ReadOptions | None = None) -> np.ndarray:
    """Open the array of an npy file without reading it into memory.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions, optional
        Not used: an npy file holds one array.

    Returns
    -------
    numpy.memmap
        The array, of which entries are read when they are used.
    """

    def open_file() -> np.ndarray:
        """Map the file into memory: entries are read when they are used."""
        return np.lib.format.open_memmap(path, mode="r")

    return _with_refusals(".npy", path, open_file)


def load_point(
    source: str | Path, manifold: Manifold, form: str | None = None
) -> np.ndarray:
    """Load one public point, such as the center of the ball.

    Parameters
    ----------
    source : str or Path
        A file that holds an array of the point's shape or one record; or the numbers
        themselves as a text, see `parse_point_text`.
    manifold : Manifold
        Where the point lives.
    form : str, optional
        How the numbers in a text are meant, one of `FORMS`. A file holds a point's
        entries.

    Returns
    -------
    array, shape point_shape
        The point as doubles.

    Raises
    ------
    ParameterError
        If the file does not hold one point of this manifold.
    """
    path = Path(source)
    if _ending_of(path, (*TABLE_READERS, *ARRAY_READERS)) is None:
        return parse_point_text(str(source), manifold, form)

    own_form = find_form(None, manifold)
    if path.suffix.lower() == ".npy" and path.exists():
        array = _with_refusals(
            ".npy", path, lambda: ARRAY_READERS[".npy"](path, ReadOptions())
        )
        values = to_floats(path.name, array)
    else:
        # A point is public, so its file may be looked at: two lines mean that there is
        # a header.
        has_header = path.is_file() and path.read_bytes().strip().count(b"\n") > 0
        values = _read_file(path, ReadOptions(header=has_header, form=own_form))
    if values.size != own_form.width:
        raise ParameterError(
            f"{path} holds an array of shape {values.shape}, not one point of {manifold!r}"
        )
    return np.asarray(values, dtype=np.float64).reshape(manifold.point_shape)


def parse_point_text(
    text: str, manifold: Manifold, form: str | None = None
) -> np.ndarray:
    """Read a public point that was typed as a text, such as "1 0 0" or "48.1, 11.6".

    Parameters
    ----------
    text : str
        The numbers of one record in this form, separated by spaces or commas; or a
        single number by which the manifold's origin is multiplied.
    manifold : Manifold
        Where the point lives.
    form : str, optional
        How the numbers are meant, one of `FORMS`.

    Returns
    -------
    array, shape point_shape
        The point as doubles.

    Raises
    ------
    ParameterError
        If the text does not have as many numbers as a record.
    """
    record_form = find_form(form, manifold)
    try:
        numbers = np.array([float(word) for word in text.replace(",", " ").split()])
        if len(numbers) == 1 < record_form.width:
            return np.asarray(numbers * manifold.origin)
        record = numbers.reshape(1, *record_form.shape)
        return np.asarray(record_form.points(record)[0])
    except ValueError:
        raise ParameterError(
            f"must be {record_form.width} numbers, as a record is written, or one that "
            "multiplies the origin",
            parameter="center",
            value=text,
        ) from None


def _read_file(path: Path, options: ReadOptions) -> Any:
    """Read the records of a file with the reader for its ending.

    The result has shape (n, *form.shape), where the form says how a point is written.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array or dask array
        The records as they are written; entries that are not numbers are NaN.

    Raises
    ------
    ParameterError
        For an unknown ending, a file that does not exist, and a folder.
    """
    endings = (*TABLE_READERS, *ARRAY_READERS)
    ending = _ending_of(path, endings)
    if path.is_dir() and ending != ".zarr":
        raise ParameterError(
            f"{path} is a folder; one file with the records is needed. In Python, "
            "np.concatenate makes one array of those of several npy files, and np.save "
            "writes it; write the person of each record to a second npy file"
        )
    if ending is None:
        raise ParameterError(
            f"{path.name}: the file must end in one of {', '.join(endings)}"
        )
    if not path.exists():
        raise ParameterError(f"{path} does not exist")

    if ending in TABLE_READERS:
        read_table = TABLE_READERS[ending]
        shape = options.form.shape
        records = _with_refusals(ending, path, lambda: read_table(path, shape, options))
    else:
        read_array = ARRAY_READERS[ending]
        array = _with_refusals(ending, path, lambda: read_array(path, options))
        records = _to_doubles(path.name, array, options)
    return _shape_records(path.name, records, options)


def _ending_of(path: Path, endings: Iterable[str]) -> str | None:
    """Return the ending of a file's name, such as ".csv.gz", if it is a known one.

    Parameters
    ----------
    path : Path
        The file.
    endings : sequence of str
        The known endings.

    Returns
    -------
    str or None
        None if no known ending fits.
    """
    name = path.name.lower()
    for ending in endings:
        if name.endswith(ending):
            return ending
    return None


def _with_refusals(ending: str, path: Path, read: Callable[[], Result]) -> Result:
    """Call a reader, and turn every error into a `ParameterError` that names the file.

    The message of the original error is left out, because it may quote a record.

    Parameters
    ----------
    ending : str
        The ending of the file's name, such as ".csv".
    path : path
        The file.
    read : callable
        Reads the file.

    Returns
    -------
    Any
        The result of the reader.

    Raises
    ------
    ParameterError
        If the reader raises. It names a missing package, and the type of any other
        error.
    """
    try:
        return read()
    except ParameterError:
        raise
    except ImportError as error:
        raise ParameterError(
            f"reading {ending} needs {error.name}: pip install 'curvedp[io]'"
        ) from None
    except Exception as error:
        # A damaged file makes the readers raise anything: BadZipFile, zlib.error, …
        raise ParameterError(
            f"{path} cannot be read as {ending} ({type(error).__name__}); is it damaged, or "
            "of another kind?"
        ) from None


def _to_doubles(source_name: str, X: Any, options: ReadOptions) -> Any:
    """Convert records in memory to floats; leave a dask array as it is.

    Parameters
    ----------
    source_name : str
        The name of the records in error messages.
    X : array, frame, list or dask array
        The records as they were read.
    options : ReadOptions
        The form, and which columns hold a record.
    """
    if is_chunked(X):
        return X
    return to_float_records(source_name, X, options.form.shape, options)


def _shape_records(source_name: str, X: Any, options: ReadOptions) -> Any:
    """Bring records to the shape (n, *form.shape), or refuse their shape.

    The form says how a point is written as numbers.

    Parameters
    ----------
    source_name : str
        The name of the records in error messages.
    X : array
        The records: of that shape; or of shape (n, width), in row-major order; or a
        volume, of which `options.mask` picks the voxels.
    options : ReadOptions
        The form and the mask.

    Returns
    -------
    array, shape (n, *form.shape)
        The records.

    Raises
    ------
    ParameterError
        If the records have any other shape.
    """
    form = options.form
    if options.mask is not None:
        X = select_voxels(source_name, X, options)
    if X.ndim >= 1 and X.shape[1:] in (form.shape, (form.width,)):
        return X.reshape(len(X), *form.shape)
    expected_shape = ", ".join(map(str, form.shape))
    raise ParameterError(
        f"{source_name} has shape {X.shape}; {form.manifold!r} needs (n, {expected_shape})"
        f"{_shape_hint(X.shape, form)}"
    )


def _shape_hint(shape: tuple[int, ...], form: Form) -> str:
    """Return advice for records of the wrong shape, as the end of an error message.

    The advice is to give a mask for a volume, to move the axis of the records to the
    front, or to read the columns in another form. It is empty if none of these applies.

    Parameters
    ----------
    shape : tuple of int
        The shape that the file has.
    form : Form
        How a point is written.

    Returns
    -------
    str
        The advice.
    """
    expected_axes = 1 + len(form.shape)
    ends_in_record = shape[-len(form.shape) :] == form.shape
    if ends_in_record and len(shape) > expected_axes:
        return ", or a volume with a mask"
    records_are_last_axis = shape[:-1] == form.shape
    if records_are_last_axis and len(shape) == expected_axes:
        return (
            ": its last axis counts the records, and the first should "
            "(np.moveaxis(x, -1, 0))"
        )
    if len(shape) == 2:
        return suggest_forms(shape[1], form)
    return ""
