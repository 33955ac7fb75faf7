"""Tables and lists: csv, tsv, Excel, frames, and records in whatever another library holds them in memory. One line is one
record, whatever is in it; which columns hold it is public."""

import codecs
import csv
import gzip
import warnings
from collections.abc import Iterable, Sequence
from contextlib import closing
from math import isnan, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curvedp._validate import dense, integer, shown
from curvedp.errors import ParameterError
from curvedp.numerics.arrays import to_host
from curvedp.records.forms import Form, check_order, other_forms

_REAL, _TEXT = "biuf", "OUST"


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

    def headed(self) -> "Choices":
        """Columns that are asked for by name are names in a header."""
        named = self.header is None and any(
            isinstance(column, str) for column in self.columns or ()
        )
        return self._replace(header=True) if named else self


def text(path: Path, shape: tuple[int, ...], choices: Choices) -> np.ndarray:
    """Lines as records of so many numbers. Records are counted by line ends alone, so no record can change their number. A
    line of the wrong length, with an open quote or with bytes that are no text, and every cell that is no number, is NaN."""
    sep, lines, picked, length = _table(path, prod(shape), choices.headed())

    def record(raw: bytes) -> list[float]:
        """The cells of one line. Its length is known from the header, or because nothing but the record is in it."""
        try:
            cells = _cells(raw.rstrip(b"\r"), sep)
            if length is None or len(cells) == length:
                return [
                    number(cells[place].replace(choices.decimal, "."))
                    for place in picked
                ]
        except (UnicodeDecodeError, csv.Error, IndexError):
            pass
        return [float("nan")] * len(picked)

    return np.array([record(raw) for raw in lines], dtype=np.float64).reshape(
        -1, prod(shape)
    )


def text_column(path: Path, column: str | int, choices: Choices) -> np.ndarray:
    """One column as texts, empty where a line has none. Whose record it is must not depend on the record: with cells too many
    or too few, or a quote left open, the first cell of a line is still the first, and the last the last; between them nobody
    can tell."""
    sep, lines, picked, length = _table(
        path, 1, choices.headed()._replace(columns=[column]).headed()
    )

    def name(raw: bytes) -> str:
        try:
            cells = _cells(raw.rstrip(b"\r"), sep)
        except (UnicodeDecodeError, csv.Error):
            cells = [
                cell.strip('" ')
                for cell in raw.decode("utf-8", "replace").rstrip("\r").split(sep)
            ]
        if length is not None and len(cells) != length:
            cells = [cells[0], *[""] * (length - 2), cells[-1]] if length > 1 else [""]
        return cells[picked[0]].strip() if picked[0] < len(cells) else ""

    found = np.array([name(raw) for raw in lines], dtype=np.str_)
    return np.char.replace(found, ",", ".") if choices.decimal == "," else found


def _table(
    path: Path, width: int, choices: Choices
) -> tuple[str, list[bytes], list[int], int | None]:
    """(separator, lines below the header, places of the wanted cells, how many cells a line has where that is known)."""
    sep = _separator(path, choices)
    lines = _utf8(path, choices.encoding).removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not lines[-1]:
        lines.pop()  # after the last line's end there is no line
    # All records would be the header.
    if (
        lines
        and b"\r" in lines[0].rstrip(b"\r")
        and (choices.header or len(lines) == 1)
    ):
        line = "its lines end with a carriage return alone; save it with ordinary line ends"
        raise ParameterError(f"{path.name}: {line}")
    lines = lines[integer("skip", choices.skip, 0) :]
    if choices.header and lines and b"\x00" in lines[0]:
        line = "save it as CSV UTF-8, or say what it is, such as encoding='utf-16'"
        raise ParameterError(f"{path.name} is not UTF-8, as its header shows; {line}")
    names = (
        _cells(lines.pop(0).rstrip(b"\r"), sep, "replace")
        if choices.header and lines
        else None
    )
    picked = chosen(path.name, names, choices, width)
    return (
        sep,
        lines,
        picked,
        len(names) if names else width if choices.columns is None else None,
    )


def _utf8(path: Path, encoding: str) -> bytes:
    """What a file holds, unpacked, as UTF-8: its encoding is said, never guessed from its bytes."""
    data = (
        gzip.decompress(path.read_bytes())
        if path.suffix.lower() == ".gz"
        else path.read_bytes()
    )
    try:
        name = codecs.lookup(encoding).name
        return (
            data
            if name == "utf-8"
            else str(data, name, "replace").encode("utf-8", "replace")
        )
    except (LookupError, TypeError, ValueError):
        line = "must name how texts are written, such as 'utf-8', 'utf-16' or 'latin-1'"
        raise ParameterError(f"encoding={shown(encoding)} {line}") from None


def _separator(path: Path, choices: Choices) -> str:
    if choices.header not in (True, False):
        line = "say whether its first line is a header: header=True or header=False"
        raise ParameterError(
            f"{path.name}: {line}; this is never guessed from the data"
        )
    sep = choices.sep or (
        "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","
    )
    sep = "\t" if sep == r"\t" else sep  # as shells pass it
    if len(sep) != 1 or sep in '"\r\n' or not sep.isascii():
        raise ParameterError(f"sep={shown(sep)} must be one character, such as ';'")
    if choices.decimal not in (".", ",") or choices.decimal == sep:
        raise ParameterError(
            f"decimal={shown(choices.decimal)} must be '.' or ',' and differ from sep={sep!r}"
        )
    return sep


def _cells(raw: bytes, sep: str, errors: str = "strict") -> list[str]:
    line = raw.decode("utf-8", errors)
    return (
        next(csv.reader([line], delimiter=sep, strict=errors == "strict"))
        if '"' in line
        else line.split(sep)
    )


def excel(path: Path, shape: tuple[int, ...], choices: Choices) -> np.ndarray:
    """The cells of a range. The range is asked for because an empty last row leaves no trace in an Excel file."""
    found = excel_cells(path, choices.key)
    names = (
        [str(name) for name in found[0]]
        if choices.header
        else list(range(found.shape[1]))
    )
    return numbers(
        path.name,
        found[bool(choices.header) :, chosen(path.name, names, choices, prod(shape))],
    )


def excel_cells(path: Path, where: str | None) -> np.ndarray:
    """What the cells of a range hold, None where they are empty."""
    import openpyxl

    if where is None or ":" not in where:
        line = "say which cells hold the records, without the header: key='A2:C201' or 'Sheet1!A2:C201'"
        raise ParameterError(f"{path.name}: {line}")
    sheet, _, cells = where.rpartition("!")
    sheet = sheet.strip("'")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # openpyxl quotes cells that look like bad dates
        with closing(
            openpyxl.load_workbook(path, read_only=True, data_only=True)
        ) as book:
            sheets = book.sheetnames
            if sheet not in sheets and (sheet or len(sheets) > 1):
                say = f"say which, as in key='{sheets[0]}!{cells}'"
                raise ParameterError(
                    f"{path.name} has the sheets {shown(sheets)}; {say}"
                )
            try:
                left, top, right, bottom = map(
                    int, openpyxl.utils.cell.range_boundaries(cells)
                )
            except (ValueError, TypeError):
                raise ParameterError(
                    f"key={shown(cells)} must be a range of cells, such as A2:C201"
                ) from None
            found = np.full((bottom - top + 1, right - left + 1), None, dtype=object)
            place = {
                "min_row": top,
                "max_row": bottom,
                "min_col": left,
                "max_col": right,
            }
            for row, values in zip(
                found,
                book[sheet or sheets[0]].iter_rows(**place, values_only=True),
                strict=False,
            ):
                row[: len(values)] = values
            return found


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
    if (
        prod(shape) > 1
        and len(names if choices.columns is None else choices.columns) == 1
    ):
        return rows(
            _column(
                table, chosen(where, names, Choices(columns=choices.columns), 1)[0]
            ),
            shape,
        )
    picked = chosen(where, names, choices, prod(shape))
    return np.stack(
        [
            numbers(f"{where}, column {shown(names[i])},", _column(table, i))
            for i in picked
        ],
        axis=1,
    )


def frame_column(where: str, table: Any, column: str | int) -> np.ndarray:
    """One column of a frame."""
    return _column(table, chosen(where, _names(table), Choices(columns=[column]), 1)[0])


def _names(table: Any) -> list[str]:
    return [str(name) for name in getattr(table, "column_names", table.columns)]


def _column(table: Any, place: int) -> np.ndarray:
    if hasattr(table, "iloc"):
        return np.asarray(table.iloc[:, place])
    return np.asarray(
        table.column(place)
        if hasattr(table, "column_names")
        else table.to_series(place)
    )


def chosen(
    where: str, names: Sequence[str | int] | None, choices: Choices, width: int
) -> list[int]:
    """Places of the columns that hold a record, from what is public: their names, and how many entries a record has."""
    columns, form = choices.columns, choices.form
    if columns is None:
        if names is not None and len(names) != width:
            line = f"{where} has {len(names)} column{'s'[: len(names) != 1]} ({_listed(names)}); a record has {width} entries"
            other = ", or what is between them with sep=, or how many lines are before them with skip="
            how = (
                "give its columns alone, or name them"
                if where == "X"
                else "say which columns"
            )
            ways = (
                f"{how} with columns="
                + (other if len(names) == 1 else "")
                + other_forms(len(names), form)
            )
            raise ParameterError(f"{line}: {ways}")
        check_order(where, form, names or ())
        return list(range(width))
    if isinstance(columns, str) or len(columns) != width:
        needed = f"{width} names or places, one for each entry of a record"
        other = "" if isinstance(columns, str) else other_forms(len(columns), form)
        raise ParameterError(f"columns={shown(columns)} must be {needed}{other}")
    check_order(where, form, columns)
    return [_place(where, names, column) for column in columns]


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
        and 0 <= column < (len(names) if names else 1 << 20)
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
    return (
        found.reshape(len(found), *shape)
        if found.ndim == 2 and found.shape[1] == prod(shape)
        else found
    )


def _doubles(
    where: str, X: Any, shape: tuple[int, ...], choices: Choices
) -> np.ndarray:
    if is_frame(X):
        return frame(where, X, shape, choices)
    if isinstance(X, list | tuple):
        return rows(X, shape)
    found = X if isinstance(X, np.ma.MaskedArray) else to_host(dense(where, X))
    if found.dtype.kind == "O" and found.ndim == 1:
        return rows(found, shape)
    if found.dtype.kind == "c" and (*found.shape[1:], 2) == shape:
        found = np.stack([found.real, found.imag], axis=-1)
    if choices.columns is not None and found.ndim == 2:
        found = found[
            :, chosen(where, list(range(found.shape[1])), choices, prod(shape))
        ]
    return numbers(where, found)


def number(cell: Any) -> float:
    """The number in a cell, NaN where there is none. Never raises, never warns."""
    try:
        several = isinstance(cell, np.ndarray) and (
            cell.ndim > 0 or cell is np.ma.masked
        )
        return float("nan" if several else cell)
    except Exception:  # a cell may be any object, and its __float__ may raise anything
        return float("nan")


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


def rows(records: Iterable[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Records that come one by one, each of the shape given or flat; what is neither is NaN."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning that a value causes is a release
        return np.array(
            [_row(record, shape) for record in records], dtype=np.float64
        ).reshape(-1, *shape)


def _row(record: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        if not isinstance(record, np.ma.MaskedArray):
            record = np.asarray(record)
            if (
                record.dtype.kind == "O" and record.ndim
            ):  # arrays in arrays, as tables give lists of lists
                record = np.asarray(record.tolist())
        found = numbers("a record", record)
    except Exception:  # ragged, complex, or an object that is no array
        found = np.empty(0)
    return (
        found.reshape(shape)
        if found.shape in (shape, (prod(shape),))
        else np.full(shape, np.nan)
    )


def names(values: Any) -> np.ndarray:
    """Public names of any kind as an array. A list of texts and others keeps its objects: as texts 1 and 1.0 would differ,
    1 and "1" be the same, and NaN be a name."""
    found = np.asarray(to_host(values))
    if (
        found.dtype.kind in "US"
        and isinstance(values, list | tuple)
        and found.ndim == 1
    ):
        return (
            np.array(values, dtype=object)
            if len({type(each) for each in values}) > 1
            else found
        )
    return found


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
