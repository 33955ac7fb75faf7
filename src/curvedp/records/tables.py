"""Tables and lists: csv, tsv, Excel, frames, and records in whatever another library holds
them in memory. One line is one record, whatever is in it; which columns hold it is public.
"""

import csv
import re
import sys
import warnings
import zipfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from itertools import chain, islice
from math import isnan, prod
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from array_api_compat import is_array_api_obj

from curvedp._validate import dense, integer, shown
from curvedp.errors import ParameterError
from curvedp.numerics.arrays import to_host
from curvedp.records.forms import Form, check_order, other_forms
from curvedp.records.limits import check_unpacked, unpacked_limit
from curvedp.records.lines import Line, has_more_lines, read_lines

_REAL, _TEXT = "biuf", "OUST"

# Characters that a number or a name may have. A longer text is no number; a longer name is
# cut, and keeps a digest of what was cut, so that different names stay different.
LONGEST_CELL = 1 << 12

# Bytes of memory that a name takes: a Python text of ordinary length and a pointer to it.
_BYTES_OF_NAME = 64

_BYTES_OF_CELL = 8  # a pointer to what a cell of an Excel file holds

_MOST_COLUMNS = 1 << 20  # of a table without a header


class Choices(NamedTuple):
    """What the caller says about a table or a file; all of it is public. `read_records` says what each means."""

    header: bool | None = None
    key: str | None = None
    columns: Sequence[str | int] | None = None
    mask: Any = None
    sep: str | None = None
    decimal: str = "."
    skip: int = 0
    encoding: str = "utf-8"
    form: Form = Form(None, (), np.asarray)
    max_unpacked: int | None = None

    def headed(self) -> "Choices":
        """Columns that are asked for by name are names in a header."""
        has_names = self.columns is not None and any(
            isinstance(column, str) and not _RANGE.fullmatch(column)
            for column in self.columns
        )
        if self.header is None and has_names:
            return self._replace(header=True)
        return self


class _TextTable(NamedTuple):
    """A csv or tsv file below its header."""

    separator: str
    lines: Iterator[Line]
    places: list[int]  # of the wanted cells in a line
    cells: int | None  # how many a line has, where that is known


def text(path: Path, shape: tuple[int, ...], choices: Choices) -> np.ndarray:
    """Lines as records of so many numbers.

    Records are counted by line ends alone, so no record can change their number. A line of
    the wrong length or with an open quote, and every cell that is no number, is NaN.
    """
    width = prod(shape)
    table = _table(path, width, choices.headed())
    _check_lines(path, choices, bytes_of_line=8 * width)
    values = array("d")
    for line in table.lines:
        values.extend(_record(table, line, choices.decimal))
    return np.frombuffer(values, dtype=np.float64).reshape(-1, width)


def _check_lines(path: Path, choices: Choices, bytes_of_line: int) -> None:
    """Refuse a file whose lines, of so many bytes in memory, would fill too much of it."""
    limit = unpacked_limit(path, choices.max_unpacked)
    if has_more_lines(path, choices.encoding, limit // bytes_of_line):
        check_unpacked(path, limit + 1, limit)


def _record(table: _TextTable, line: Line, decimal: str) -> list[float]:
    """The numbers of one line. Its length is known from the header, or because nothing but
    the record is in it."""
    try:
        if line.end is None:
            cells = _cells(line.text, table.separator)
            if table.cells is None or len(cells) == table.cells:
                return [
                    number(cells[place].replace(decimal, ".")) for place in table.places
                ]
    except (csv.Error, IndexError):
        pass
    return [float("nan")] * len(table.places)


def text_column(path: Path, column: str | int, choices: Choices) -> np.ndarray:
    """One column as texts, empty where a line has none.

    Whose record it is must not depend on the record: with cells too many or too few, or a
    quote left open, the first cell of a line is still the first, and the last the last;
    between them nobody can tell. Texts are Python's own: in an array of fixed width one
    long cell would take its length for every record.
    """
    headed = choices.headed()._replace(columns=[column]).headed()
    table = _table(path, 1, headed)
    _check_lines(path, choices, bytes_of_line=_BYTES_OF_NAME)
    names: list[str] = []
    for line in table.lines:
        name = _cut(_name(table, line))
        names.append(name.replace(",", ".") if choices.decimal == "," else name)
    return objects(names)


def _name(table: _TextTable, line: Line) -> str:
    """The text of the wanted cell in one line."""
    (place,) = table.places
    if line.end is not None:
        return _name_in_ends(table, line.text, line.end)
    try:
        cells = _cells(line.text, table.separator)
    except csv.Error:
        cells = [cell.strip('" ') for cell in line.text.split(table.separator)]
    if table.cells is not None and len(cells) != table.cells:
        if table.cells == 1:
            return ""
        cells = [cells[0], *[""] * (table.cells - 2), cells[-1]]
    return cells[place].strip() if place < len(cells) else ""


def _name_in_ends(table: _TextTable, start: str, end: str) -> str:
    """The wanted cell of a line too long to be kept, counted from the nearer end."""
    (place,) = table.places
    first_cells = start.split(table.separator)[:-1]  # the last was cut
    last_cells = end.split(table.separator)[1:]  # the first was cut
    if place < len(first_cells):
        return first_cells[place].strip('" ')
    if table.cells is not None and table.cells - place <= len(last_cells):
        return last_cells[place - table.cells].strip('" ')
    return ""


def _cut(name: str) -> str:
    """A name of ordinary length as it is; of a longer one its start and its digest."""
    if len(name) <= LONGEST_CELL:
        return name
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: LONGEST_CELL // 2]}…{digest}"


def _table(path: Path, width: int, choices: Choices) -> _TextTable:
    """Open a csv or tsv file, and find the places of `width` wanted cells in its lines."""
    separator = _separator(path, choices)
    lines = read_lines(path, choices.encoding)
    first_two = list(islice(lines, 2))
    is_one_line = (
        choices.header or len(first_two) == 1
    )  # all records would be the header
    if first_two and is_one_line and "\r" in first_two[0].text:
        line = "its lines end with a carriage return alone; save it with ordinary line ends"
        raise ParameterError(f"{path.name}: {line}")
    skip = integer("skip", choices.skip, 0)
    lines = islice(chain(first_two, lines), skip, None)

    header = next(lines, None) if choices.header else None
    names = None if header is None else _header(path, header, separator)
    places = chosen(path.name, names, choices, width)
    if names:
        cells: int | None = len(names)
    else:
        cells = width if choices.columns is None else None
    return _TextTable(separator, lines, places, cells)


def _header(path: Path, line: Line, separator: str) -> list[str]:
    """The names in a header, which is public."""
    if "\x00" in line.text:
        raise ParameterError(
            f"is missing: {path.name} is not UTF-8, as its header shows; "
            "save it as CSV UTF-8, or say what it is, such as utf-16",
            parameter="encoding",
        )
    if line.end is not None:
        raise ParameterError(f"{path.name}: its first line is too long for a header")
    return _cells(line.text, separator, strict=False)


def _separator(path: Path, choices: Choices) -> str:
    if choices.header not in (True, False):
        raise ParameterError(
            f"is missing: say whether the first line of {path.name} is a header; "
            "this is never guessed from the data",
            parameter="header",
        )
    sep = choices.sep or (
        "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","
    )
    sep = "\t" if sep == r"\t" else sep  # as shells pass it
    if len(sep) != 1 or sep in '"\r\n' or not sep.isascii():
        raise ParameterError(
            "must be one character, such as ';'", parameter="sep", value=sep
        )
    if choices.decimal not in (".", ",") or choices.decimal == sep:
        raise ParameterError(
            f"must be '.' or ',' and differ from the separator {sep!r}",
            parameter="decimal",
            value=choices.decimal,
        )
    return sep


def _cells(line: str, separator: str, strict: bool = True) -> list[str]:
    """The cells of one line. An open quote raises `csv.Error`, unless it may be guessed."""
    if '"' not in line:
        return line.split(separator)
    return next(csv.reader([line], delimiter=separator, strict=strict))


def excel(path: Path, shape: tuple[int, ...], choices: Choices) -> np.ndarray:
    """The cells of a range. The range is asked for because an empty last row leaves no trace in an Excel file."""
    found = excel_cells(path, choices.key, choices.max_unpacked)
    names = (
        [str(name) for name in found[0]]
        if choices.header
        else list(range(found.shape[1]))
    )
    return numbers(
        path.name,
        found[bool(choices.header) :, chosen(path.name, names, choices, prod(shape))],
    )


def excel_cells(
    path: Path, where: str | None, max_unpacked: int | None = None
) -> np.ndarray:
    """What the cells of a range hold, None where they are empty."""
    import openpyxl

    if where is None or ":" not in where:
        raise ParameterError(
            f"is missing: say which cells of {path.name} hold the records, without the "
            "header, such as 'A2:C201' or 'Sheet1!A2:C201'",
            parameter="key",
        )
    sheet, _, cells = where.rpartition("!")
    sheet = sheet.strip("'")
    try:
        left, top, right, bottom = map(int, openpyxl.utils.cell.range_boundaries(cells))
    except (ValueError, TypeError):
        raise ParameterError(
            "must be a range of cells, such as A2:C201", parameter="key", value=cells
        ) from None
    rows, columns = bottom - top + 1, right - left + 1
    limit = unpacked_limit(path, max_unpacked)
    check_unpacked(path, rows * columns * _BYTES_OF_CELL, limit)
    check_unpacked(path, _unpacked_parts(path), limit)

    with warnings.catch_warnings():
        # openpyxl quotes cells that look like bad dates.
        warnings.simplefilter("ignore")
        with closing(
            openpyxl.load_workbook(path, read_only=True, data_only=True)
        ) as book:
            sheets = book.sheetnames
            if sheet not in sheets and (sheet or len(sheets) > 1):
                raise ParameterError(
                    f"must name one of the sheets {shown(sheets)} of {path.name}, "
                    f"such as '{sheets[0]}!{cells}'",
                    parameter="key",
                    value=where,
                )
            found = np.full((rows, columns), None, dtype=object)
            lines = book[sheet or sheets[0]].iter_rows(
                min_row=top,
                max_row=bottom,
                min_col=left,
                max_col=right,
                values_only=True,
            )
            for row, values in zip(found, lines, strict=False):
                row[: len(values)] = values
            return found


def _unpacked_parts(path: Path) -> int:
    """The unpacked size of an Excel file's largest part, as its directory declares it. A part
    is never unpacked beyond that."""
    with zipfile.ZipFile(path) as archive:
        return max((part.file_size for part in archive.infolist()), default=0)


def is_frame(X: Any) -> bool:
    """Whether X has named columns: a frame of pandas or polars, a table of pyarrow."""
    return hasattr(X, "columns") and (
        hasattr(X, "iloc") or hasattr(X, "get_column") or hasattr(X, "column_names")
    )


def frame(
    where: str, table: Any, shape: tuple[int, ...], choices: Choices
) -> np.ndarray:
    """Columns as entries in row-major order; or one column that holds an array, or a list, for each record."""
    names = _names(table)
    places = frame_places(where, table, shape, choices)
    if len(places) < prod(shape):
        return rows(_column(table, places[0]), shape)
    return np.stack(
        [
            column_numbers(f"{where}, column {shown(names[i])},", _column(table, i))
            for i in places
        ],
        axis=1,
    )


def frame_places(
    where: str, table: Any, shape: tuple[int, ...], choices: Choices
) -> list[int]:
    """The columns of a frame that hold the records: one for each entry, or one of lists."""
    names = _names(table)
    columns = names if choices.columns is None else choices.columns
    if prod(shape) > 1 and len(columns) == 1 and not _is_range(columns[0], names):
        return chosen(where, names, Choices(columns=choices.columns), 1)
    return chosen(where, names, choices, prod(shape))


def frame_column(where: str, table: Any, column: str | int) -> np.ndarray:
    """One column of a frame."""
    return _column(table, chosen(where, _names(table), Choices(columns=[column]), 1)[0])


def _names(table: Any) -> list[str]:
    return [str(name) for name in getattr(table, "column_names", table.columns)]


def _column(table: Any, place: int) -> np.ndarray:
    """One column of a frame of pandas or polars, or of a table of pyarrow."""
    if hasattr(table, "iloc"):
        return np.asarray(table.iloc[:, place])
    if hasattr(table, "column_names"):
        return _arrow_column(table.column(place))
    return np.asarray(table.to_series(place))


def _arrow_column(column: Any) -> np.ndarray:
    """A column of pyarrow. Of a dictionary every value is made once, and shared by its rows;
    NumPy's own conversion takes a missing value for the first of them."""
    import pyarrow

    if not pyarrow.types.is_dictionary(column.type):
        return np.asarray(column)
    parts = [np.empty(0, dtype=object)]
    for chunk in column.chunks:
        values = objects([*chunk.dictionary.to_pylist(), None])
        parts.append(values[chunk.indices.fill_null(len(values) - 1).to_numpy()])
    return np.concatenate(parts)


# Places of columns from the first to the last, both included, such as 2-31.
_RANGE = re.compile(r"\s*([0-9]{1,7})\s*-\s*([0-9]{1,7})\s*")


def _is_range(column: str | int, names: Sequence[str | int] | None) -> bool:
    """Whether a column is written as a range of places, and no column has that name."""
    if not isinstance(column, str) or not _RANGE.fullmatch(column):
        return False
    return column.strip() not in [str(name).strip() for name in names or ()]


def _without_ranges(
    columns: Sequence[str | int], names: Sequence[str | int] | None
) -> list[str | int]:
    """Columns, with every range such as "2-31" written out as places."""
    written: list[str | int] = []
    for column in columns:
        if isinstance(column, str) and _is_range(column, names):
            first, last = map(int, column.split("-"))
            if last < first or last - first >= _MOST_COLUMNS:
                raise ParameterError(
                    "must be a range of places, such as 2-31",
                    parameter="columns",
                    value=column,
                )
            written += range(first, last + 1)
        else:
            written.append(column)
    return written


def _wrong_width(
    where: str, names: Sequence[str | int], width: int, form: Form
) -> ParameterError:
    """Return the refusal of a table that has other columns than a record has entries."""
    plural = "" if len(names) == 1 else "s"
    rule = (
        f"is missing: {where} has {len(names)} column{plural} ({_listed(names)}), and a "
        f"record has {width} entries; name its columns"
    )
    if len(names) == 1:
        rule += ", or say what separates them, or how many lines to skip before them"
    return ParameterError(rule + other_forms(len(names), form), parameter="columns")


def chosen(
    where: str, names: Sequence[str | int] | None, choices: Choices, width: int
) -> list[int]:
    """Places of the columns that hold a record, from what is public: their names, and how many entries a record has."""
    form = choices.form
    if choices.columns is None:
        if names is not None and len(names) != width:
            raise _wrong_width(where, names, width, form)
        check_order(where, form, names or ())
        return list(range(width))

    columns = choices.columns
    if isinstance(columns, str):
        columns = [columns] if _is_range(columns, names) else []
    columns = _without_ranges(columns, names)
    if len(columns) != width:
        needed = f"{width} names or places, one for each entry of a record"
        raise ParameterError(
            f"must be {needed}{other_forms(len(columns), form)}",
            parameter="columns",
            value=choices.columns,
        )
    places = [_place(where, names, column) for column in columns]
    # Places in the order of the file say which columns, not in which order they are meant.
    in_file_order = places == sorted(places)
    check_order(
        where, form, [names[p] for p in places] if names and in_file_order else columns
    )
    return places


def _place(where: str, names: Sequence[str | int] | None, column: str | int) -> int:
    found = [str(n).strip() for n in names or () if isinstance(column, str)]
    if isinstance(column, str) and (count := found.count(column.strip())):
        if count > 1:
            raise ParameterError(
                f"{where} has {count} columns called {shown(column)}; say which by its place from 0"
            )
        return found.index(column.strip())
    if (
        isinstance(column, int)
        and not isinstance(column, bool)
        and 0 <= column < (len(names) if names else _MOST_COLUMNS)
    ):
        return column
    have = "no header" if names is None else f"{len(names)} columns ({_listed(names)})"
    raise ParameterError(
        f"{where} has no column {shown(column)}: it has {have}; places count from 0"
    )


def _listed(names: Sequence[str | int]) -> str:
    """Names in a message. A number is not a name: whoever takes a line of records for a header is not shown the record."""
    texts = [name for name in names if isinstance(name, str) and isnan(number(name))]
    return (
        ", ".join(map(shown, texts[:12])) + (", …" if len(texts) > 12 else "")
        if texts
        else "without names"
    )


def entries(
    where: str,
    X: Any,
    shape: tuple[int, ...],
    choices: Choices = Choices(),  # noqa: B008 - frozen, so one default serves all calls
) -> np.ndarray:
    """X as doubles: (n, *shape), unless X is an array of another shape, which is for the caller to judge.
    The dtype and the shape of an array are public; complex numbers are pairs where the shape ends in 2. What lists, object
    arrays and tables hold is data: a record that is not of the shape, or a cell that is no number, is NaN."""
    found = _doubles(where, X, shape, choices)
    is_flat = found.ndim == 2 and found.shape[1] == prod(shape)
    is_column = found.ndim == 1 and prod(shape) == 1 and _is_series(X)
    if is_flat or is_column:
        return found.reshape(len(found), *shape)
    return found


def _doubles(
    where: str, X: Any, shape: tuple[int, ...], choices: Choices
) -> np.ndarray:
    if is_frame(X):
        return frame(where, X, shape, choices)
    if isinstance(X, list | tuple):
        return rows(X, shape, choices.columns)
    if is_scipy_rotation(X):
        X = X.as_matrix()
    found = _host_array(where, X)
    if found.dtype.kind == "O" and found.ndim == 1:
        return rows(found, shape, choices.columns)
    if found.dtype.kind == "c" and (*found.shape[1:], 2) == shape:
        found = np.stack([found.real, found.imag], axis=-1)
    if choices.columns is not None and found.ndim == 2:
        names = list(range(found.shape[1]))
        found = found[:, chosen(where, names, choices, prod(shape))]
    if _is_series(X):
        return column_numbers(where, found)
    return numbers(where, found)


@runtime_checkable
class _ArrayLike(Protocol):
    """What says itself how it becomes an array: arrays and series of any library."""

    def __array__(self) -> Any: ...


def _host_array(where: str, X: Any) -> np.ndarray:
    """An array of any library in NumPy. What is no array is refused by its type, which is
    public: NumPy would make objects of it, and every record would be unreadable."""
    if isinstance(X, np.ma.MaskedArray):
        return X
    X = dense(where, X)
    is_array = isinstance(X, _ArrayLike | array | memoryview | range | float | int)
    if not is_array and not is_array_api_obj(X):
        raise ParameterError(
            f"{where} is of type {type(X).__name__}; records are an array, a frame or a list"
        )
    return to_host(X)


def _is_series(X: Any) -> bool:
    """Whether X is a series of pandas or polars, whose type may follow from one value."""
    kind = type(X)
    return kind.__name__ == "Series" and kind.__module__.startswith(
        ("pandas", "polars")
    )


def is_scipy_rotation(X: Any) -> bool:
    """Whether X is a `Rotation` or a `RigidTransform` of SciPy, one or many."""
    module = sys.modules.get("scipy.spatial.transform")
    return (
        module is not None
        and type(X).__name__ in ("Rotation", "RigidTransform")
        and (type(X).__module__.startswith("scipy.spatial.transform"))
    )


def number(cell: Any) -> float:
    """The number in a cell, NaN where there is none. Never raises, never warns."""
    try:
        several = isinstance(cell, np.ndarray) and (
            cell.ndim > 0 or cell is np.ma.masked
        )
        too_long = isinstance(cell, str | bytes) and len(cell) > LONGEST_CELL
        return float("nan") if several or too_long else float(cell)
    except Exception:  # a cell may be any object, and its __float__ may raise anything
        return float("nan")


def column_numbers(where: str, values: Any) -> np.ndarray:
    """A column of a frame as doubles.

    The type of an array is public. That of a column is not: one complex cell makes a column
    of complex numbers. A complex cell is a number where its imaginary part is 0, else NaN.
    """
    found = np.asarray(values)
    if found.dtype.kind == "c":
        return np.where(found.imag == 0, found.real, np.nan).astype(np.float64)
    return numbers(where, values)


def numbers(where: str, values: Any) -> np.ndarray:
    """An array as doubles, entry by entry. Its dtype alone can be refused: dates and complex numbers are."""
    if isinstance(values, np.ma.MaskedArray):
        hidden, values = np.ma.getmaskarray(values), values.data
        return np.where(hidden, np.nan, numbers(where, values))
    found = np.asarray(values)
    if found.dtype.kind in _REAL:
        with np.errstate(
            all="ignore"
        ):  # a long double beyond the doubles is an infinity
            return found.astype(np.float64, copy=False)
    if found.dtype.kind not in _TEXT:
        raise ParameterError(
            f"{where} holds values of type {found.dtype}; real numbers are needed"
        )
    return np.fromiter(map(number, found.ravel()), np.float64, found.size).reshape(
        found.shape
    )


def rows(
    records: Iterable[Any],
    shape: tuple[int, ...],
    columns: Sequence[str | int] | None = None,
) -> np.ndarray:
    """Records that come one by one, each of the shape given or flat; what is neither is NaN.

    Of what type a record is, is data too: a list may hold one record that is a list and one
    that is a dictionary. So no type is refused here. A dictionary is read as its values, in
    its own order or by the names that `columns` says, and a rotation of SciPy as its matrix.
    """
    if columns is not None:
        columns = _without_ranges(
            [columns] if isinstance(columns, str) else columns, None
        )
        if len(columns) != prod(shape):
            raise ParameterError(
                f"must be {prod(shape)} names or places",
                parameter="columns",
                value=columns,
            )
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning that a value causes is a release
        found = array("d")
        for record in records:
            found.frombytes(_row(record, shape, columns).tobytes())
        return np.array(found, dtype=np.float64).reshape(-1, *shape)


def _row(
    record: Any, shape: tuple[int, ...], columns: Sequence[str | int] | None
) -> np.ndarray:
    """One record as doubles of the shape, NaN where it is no record: a function of it alone."""
    try:
        if isinstance(record, Mapping) and columns is None:
            record = list(record.values())
        elif columns is not None:
            record = [record[column] for column in columns]
        elif is_scipy_rotation(record):
            record = record.as_matrix()
        if isinstance(record, list | tuple):
            # Objects: in an array of texts one long cell would take its length for each.
            record = np.array(record, dtype=object)
        if not isinstance(record, np.ma.MaskedArray):
            record = np.asarray(record)
            if record.dtype.kind == "O" and record.ndim:  # arrays in arrays, as tables
                record = np.array(record.tolist(), dtype=object)  # give lists of lists
        found = numbers("a record", record)
    except Exception:  # ragged, complex, or an object that is no array
        found = np.empty(0)
    is_one_number = found.shape == () and prod(shape) == 1
    if is_one_number or found.shape in (shape, (prod(shape),)):
        return np.ascontiguousarray(found, dtype=np.float64).reshape(shape)
    return np.full(shape, np.nan)


def objects(values: Iterable[Any]) -> np.ndarray:
    """An array of shape (n,) that holds n values as they are, whatever they are."""
    held = list(values)
    found = np.empty(len(held), dtype=object)
    for place, value in enumerate(held):
        found[place] = value
    return found


def names(values: Any) -> np.ndarray:
    """Public names of any kind as an array.

    A list with a text keeps its objects: as texts 1 and 1.0 would differ, 1 and "1" be the
    same, and NaN be a name; and one long name would take its length for every record.
    """
    if isinstance(values, list | tuple) and any(
        isinstance(value, str | bytes) for value in values
    ):
        return objects(values)
    return np.asarray(to_host(values))


def any_missing(ids: np.ndarray, values: Any) -> bool:
    """Whether one of these names is masked, NaN, NaT, None or a blank text."""
    if np.ma.is_masked(values):
        return True
    if ids.dtype.kind in "fcmM":
        return bool(np.isnan(ids).any())
    if ids.dtype.kind in "US":
        return bool((np.char.str_len(np.char.strip(ids)) == 0).any())
    return ids.dtype.kind == "O" and any(_is_missing(each) for each in ids)


def _is_missing(each: Any) -> bool:
    try:
        return (
            each is None
            or bool(each != each)
            or (isinstance(each, str) and not each.strip())
        )
    except TypeError:  # a missing value that will not even say whether it equals itself
        return True
