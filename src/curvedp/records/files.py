"""Reading records: files of many kinds, frames, lists, masked arrays. Only what is public about them (their form) is refused.

Replacing one record never changes how many there are, whether they are read, or what is said: a record that cannot be read as
numbers is NaN, and every later step takes such a record for the ball's center.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array

from curvedp._silence import quiet_about_records
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.records import volumes
from curvedp.records.base import is_chunked
from curvedp.records.chunked import by_chunks
from curvedp.records.forms import Form, find_form, other_forms
from curvedp.records.tables import (
    Choices,
    entries,
    excel,
    excel_cells,
    frame_column,
    numbers,
    text,
    text_column,
)


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
) -> Any:
    """Records of shape (n, *point_shape), from a file or from what other libraries hold them in.

    A record that is no record (text, a missing cell, a line too short, a masked entry) is NaN. It is counted like any other,
    and an estimator maps it into the public ball like any bad record. Nothing in the data changes n, raises or is quoted.

    Parameters
    ----------
    source
        A path ending in .csv, .tsv (or these with .gz), .xlsx, .parquet, .npy, .npz, .mat, .zarr, .nii or .nii.gz; a frame or
        series of pandas or polars; an array, a masked array, a list of arrays. Rows of tables hold a point's entries in
        row-major order.
    manifold
        Where the records live. It says how many numbers a record has.
    form : str, optional
        How points are written, where it is not by their entries: one of `FORMS`, such as ``"latlon-degrees"``.
    header : bool
        Whether the first line of a csv or tsv names its columns. It must be said, unless columns are asked for by name:
        guessing would read the data.
    key : str, optional
        The array in an npz, mat or zarr file; the cells of an Excel file, such as ``"Sheet1!A2:C201"``.
    columns : sequence of str or int, optional
        Which columns hold the record, by name or by place from 0, in the order of the form.
        A text such as ``"2-31"`` is a range of places, both ends included.
    mask : array or path, optional
        Which voxels of a volume are records; for NIfTI files it must be given. It has to be public, like n.
    sep, decimal : str, optional
        Of csv and tsv: the separator (``","``, and a tab for tsv) and the decimal sign, ``"."`` or ``","``.
    skip : int
        Lines of a csv or tsv before its header or first record: comments are never guessed either.
    encoding : str
        Of csv and tsv, such as ``"utf-16"`` or ``"latin-1"``. Encodings in which what a
        record holds could be taken for a line end (UTF-7, ISO 2022, EBCDIC, …) are refused.
    max_unpacked : int, optional
        Bytes of memory that the file may fill: by default the larger of 1 GiB and 16 times its
        size, or what the environment's ``CURVEDP_MAX_UNPACKED`` says. Decided from the file's
        size and the shapes that it declares.

    Returns
    -------
    array
        A NumPy array of doubles. Parquet and zarr beyond 1 GiB are dask arrays where dask is installed; arrays of dask and of
        devices stay where they are.

    Raises
    ------
    ParameterError
        For what is public and does not fit: a kind of file, a shape, a dtype, a name.

    Examples
    --------
    >>> import tempfile
    >>> from curvedp.geometry import Sphere
    >>> path = Path(tempfile.mkdtemp()) / "x.csv"
    >>> _ = path.write_text("lat,lng\\n0,0\\n#N/A,12\\n90,0\\n")
    >>> read_records(path, Sphere(2), form="latlon-degrees", header=True).round(9).tolist()
    [[1.0, 0.0, 0.0], [nan, nan, nan], [0.0, 0.0, 1.0]]
    """
    written = find_form(form, check_manifold(manifold))
    choices = Choices(
        header,
        key,
        columns,
        mask,
        sep,
        decimal,
        skip,
        encoding,
        written,
        max_unpacked,
    )
    if isinstance(source, str | Path):
        entries = _file(Path(source), choices)
    elif (
        form is None
        and is_array_api_obj(source)
        and not is_numpy_array(source)
        and not is_chunked(source)
    ):
        return source  # on a device, where it stays
    else:
        entries = _array("X", source, choices)
    if is_chunked(entries):
        return (
            entries
            if form is None
            else by_chunks(written.points, entries, written.shape, manifold.point_shape)
        )
    return written.points(entries)


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
    """One value for each record, such as its class, its person or its age, from the file or frame that holds the records.

    Parameters
    ----------
    source : path or frame
        A csv, tsv, parquet, npz, mat or xlsx file, or a frame.
    column : str or int
        Its name, or its place from 0. In an npz or mat file the name of an array, in an Excel file the cells, such as
        ``"D2:D201"``.
    header, sep, skip, decimal, encoding, max_unpacked
        As for `read_records`; a decimal sign other than "." is for numbers alone: no id or class has one.

    Returns
    -------
    array
        Shape (n,), one for each of the records that `read_records` finds: texts from csv and tsv, empty where a line has
        none, and what they are otherwise.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x.csv"
    >>> _ = path.write_text("who,x,y\\nanna,1,0\\nben,oops\\n")
    >>> read_column(path, "who", header=True).tolist()
    ['anna', 'ben']
    """
    if not isinstance(source, str | Path):
        return frame_column("X", source, column)
    path = Path(source)
    choices = Choices(
        header=header,
        sep=sep,
        decimal=decimal,
        skip=skip,
        encoding=encoding,
        max_unpacked=max_unpacked,
    )
    kind = next((kind for kind in _COLUMNS if path.name.lower().endswith(kind)), None)
    if kind is None:
        raise ParameterError(
            f"{path}: a column can be read from {', '.join(_COLUMNS)}; otherwise give an array"
        )
    if not path.exists():
        raise ParameterError(f"{path} does not exist")
    found: np.ndarray = _read(kind, _COLUMNS[kind], path, column, choices)
    return found


def load_point(
    source: str | Path, manifold: Manifold, form: str | None = None
) -> np.ndarray:
    """One public point, such as the ball's center: a file with an array of the point's shape or with one record, or a text
    of numbers (`written_point`)."""
    path, own = Path(source), find_form(None, manifold)
    if not path.name.lower().endswith((*_TABLES, *volumes.READERS)):
        return written_point(str(source), manifold, form)
    if path.suffix.lower() == ".npy" and path.exists():
        found = numbers(
            path.name, _read(".npy", volumes.READERS[".npy"], path, Choices())
        )
    else:  # public: what has two lines has a header
        header = path.is_file() and path.read_bytes().strip().count(b"\n") > 0
        found = _file(path, Choices(header=header, form=own))
    if found.size != own.width:
        raise ParameterError(
            f"{path} holds an array of shape {found.shape}, not one point of {manifold!r}"
        )
    return np.asarray(found, dtype=np.float64).reshape(manifold.point_shape)


def written_point(text: str, manifold: Manifold, form: str | None = None) -> np.ndarray:
    """A point as it is typed: numbers like a record's in this form, or one that multiplies the origin, as a unit does."""
    written = find_form(form, manifold)
    try:
        entries = np.array([float(each) for each in text.replace(",", " ").split()])
        if len(entries) == 1 < written.width:
            return np.asarray(entries * manifold.origin)
        return np.asarray(written.points(entries.reshape(1, *written.shape))[0])
    except ValueError:
        line = f"must be {written.width} numbers, as a record is written, or one that multiplies the origin"
        raise ParameterError(f"{line}", parameter="center", value=text) from None


def _file(path: Path, choices: Choices) -> Any:
    kinds = [
        kind
        for kind in (*_TABLES, *volumes.READERS)
        if path.name.lower().endswith(kind)
    ]
    if not kinds:
        raise ParameterError(
            f"{path.name}: the file must end in one of {', '.join((*_TABLES, *volumes.READERS))}"
        )
    if not path.exists():
        raise ParameterError(f"{path} does not exist")
    if path.is_dir() and kinds[0] != ".zarr":
        raise ParameterError(f"{path} is a folder; one file with the records is needed")
    if table := kinds[0] in _TABLES:
        found = _read(kinds[0], _TABLES[kinds[0]], path, choices.form.shape, choices)
    else:
        found = _read(kinds[0], volumes.READERS[kinds[0]], path, choices)
    return _array(path.name, found, choices, table=table)


def _read(kind: str, reader: Any, path: Path, *rest: Any) -> Any:
    """What a reader finds, or one line about the file's form. What a library says is left out: it may quote a record."""
    try:
        return reader(path, *rest)
    except ParameterError:
        raise
    except ImportError as error:
        raise ParameterError(
            f"reading {kind} needs {error.name}: pip install 'curvedp[io]'"
        ) from None
    except Exception as error:  # a damaged file makes the readers raise anything: BadZipFile, zlib.error, …
        line = f"{path} cannot be read as {kind} ({type(error).__name__}); is it damaged, or of another kind?"
        raise ParameterError(line) from None


_TEXTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_COLUMNS: dict[str, Any] = dict.fromkeys(_TEXTS, text_column) | {
    ".xlsx": lambda path, column, choices: excel_cells(
        path, str(column), choices.max_unpacked
    ).ravel(),
    ".parquet": volumes.parquet_column,
    ".npz": lambda path, column, choices: volumes.READERS[".npz"](
        path, choices._replace(key=str(column))
    ),
    ".mat": lambda path, column, choices: volumes.READERS[".mat"](
        path, choices._replace(key=str(column))
    ).ravel(),
}
_TABLES: dict[str, Any] = dict.fromkeys(_TEXTS, text) | {
    ".xlsx": excel,
    ".parquet": volumes.read_parquet,
}


def _array(where: str, X: Any, choices: Choices, *, table: bool = False) -> Any:
    """(n, *shape): the voxels of a mask, or rows that hold a record's entries one after the other."""
    form = choices.form
    X = X if table or is_chunked(X) else entries(where, X, form.shape, choices)
    if choices.mask is not None:
        X = volumes.masked(where, X, choices)
    if X.ndim >= 1 and X.shape[1:] in (form.shape, (form.width,)):
        return X.reshape(len(X), *form.shape)
    needed = f"{where} has shape {X.shape}; {form.manifold!r} needs (n, {', '.join(map(str, form.shape))})"
    raise ParameterError(f"{needed}{_hint(X.shape, form)}")


def _hint(shape: tuple[int, ...], form: Form) -> str:
    if shape[-len(form.shape) :] == form.shape and len(shape) > 1 + len(form.shape):
        return ", or a volume with a mask"
    if len(shape) == 1 + len(form.shape) and shape[:-1] == form.shape:
        return ": its last axis counts the records, and the first should (np.moveaxis(x, -1, 0))"
    return other_forms(shape[1], form) if len(shape) == 2 else ""
