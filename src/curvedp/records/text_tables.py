"""Reading csv and tsv files, in which each line is a record.
The number of records must not depend on what a record contains. Python's csv module
would let an open quote join several lines into one record. Here a file is cut into
lines first, and each line into cells by itself.
"""

import csv
from array import array
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain, islice
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from curvedp._validate import integer
from curvedp.errors import ParameterError
from curvedp.records.columns import looks_like_range, select_columns
from curvedp.records.conversion import LONGEST_CELL, object_array, to_float
from curvedp.records.limits import check_unpacked, unpacked_limit
from curvedp.records.lines import Line, has_more_lines, read_lines
from curvedp.records.options import ReadOptions

_BYTES_PER_DOUBLE = 8

# Bytes of memory that a name takes: a Python text of ordinary length and a pointer to
# it.
_BYTES_PER_NAME = 64


class TextTable(NamedTuple):
    """The part of a csv or tsv file below its header, ready to be read.

    Attributes
    ----------
    separator : str
        The character between two cells.
    lines : iterator of Line
        The lines below the header, one for each record.
    positions : list of int
        The positions of the wanted cells in a line, from 0.
    cells_per_line : int or None
        How many cells a line has: known from the header, or because a line holds
        nothing but the record. None where neither tells it.
    """

    separator: str
    lines: Iterator[Line]
    positions: list[int]
    cells_per_line: int | None


def read_text_records(
    path: Path, shape: tuple[int, ...], options: ReadOptions
) -> np.ndarray:
    """Read the records of a csv or tsv file as an array of floats.

    Records are counted by line ends alone, so no record can change their number.

    Parameters
    ----------
    path : Path
        The file; one that ends in .gz is unpacked.
    shape : tuple of int
        The shape of one record, whose entries are in row-major order in a line.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    array, shape (n, prod(shape))
        A line of the wrong length or with an open quote is NaN, and so is every cell
        that is not a number.
    """
    width = prod(shape)
    table = _open_table(path, width, _assume_header_for_names(options))
    _check_number_of_lines(path, options, _BYTES_PER_DOUBLE * width)
    values = array("d")
    for line in table.lines:
        values.extend(_numbers_in_line(table, line, options.decimal))
    return np.frombuffer(values, dtype=np.float64).reshape(-1, width)


def read_text_column(path: Path, column: str | int, options: ReadOptions) -> np.ndarray:
    """Read one column of a csv or tsv file as texts, such as the ids of persons.

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
    array of str objects, shape (n,)
        Empty where a line has no such cell. The texts are Python's own: in an array of
        fixed width, one long cell would take its length for every record.
    """
    column_options = _assume_header_for_names(options)._replace(columns=[column])
    table = _open_table(path, 1, _assume_header_for_names(column_options))
    _check_number_of_lines(path, options, _BYTES_PER_NAME)
    names: list[str] = []
    for line in table.lines:
        name = _shorten_name(_name_in_line(table, line))
        names.append(name.replace(",", ".") if options.decimal == "," else name)
    return object_array(names)


def read_header(path: Path, options: ReadOptions) -> list[str] | None:
    """Read the names of the columns of a csv or tsv file; None without a header.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    list of str, or None
        The names; empty for a file without lines.
    """
    with_header = _assume_header_for_names(options)
    separator = _checked_separator(path, with_header)
    if not with_header.header:
        return None
    header = next(_skip_lines(path, with_header), None)
    return [] if header is None else _names_in_header(path, header, separator)


def _assume_header_for_names(options: ReadOptions) -> ReadOptions:
    """Assume a header if columns are chosen by name and the caller says nothing.

    Parameters
    ----------
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    ReadOptions
        The same options, possibly with `header=True`.
    """
    if options.header is not None or options.columns is None:
        return options
    has_names = any(
        isinstance(column, str) and not looks_like_range(column)
        for column in options.columns
    )
    return options._replace(header=True) if has_names else options


def _check_number_of_lines(
    path: Path, options: ReadOptions, bytes_per_line: int
) -> None:
    """Refuse a file with so many lines that reading them would take too much memory.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        The caller's options for reading the file.
    bytes_per_line : int
        How much memory one line takes when it is read.

    Raises
    ------
    ParameterError
        If the lines would fill more than the limit for this file (`limits`).
    """
    limit = unpacked_limit(path, options.max_unpacked)
    if has_more_lines(path, options.encoding, limit // bytes_per_line):
        check_unpacked(path, limit + 1, limit)


def _open_table(path: Path, width: int, options: ReadOptions) -> TextTable:
    """Open a csv or tsv file, read its header, and find the wanted columns.

    Parameters
    ----------
    path : path
        The file.
    width : int
        How many cells of a line are wanted.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    TextTable
        The lines below the header, and where the wanted cells are.
    """
    separator = _checked_separator(path, options)
    lines = _skip_lines(path, options)

    header = next(lines, None) if options.header else None
    names = None if header is None else _names_in_header(path, header, separator)
    positions = select_columns(path.name, names, options, width)

    cells_per_line: int | None = None
    if names:
        cells_per_line = len(names)
    elif options.columns is None:
        cells_per_line = width
    return TextTable(separator, lines, positions, cells_per_line)


def _skip_lines(path: Path, options: ReadOptions) -> Iterator[Line]:
    """Return the lines of a file after those that the caller wants to skip.

    A file whose lines end with a carriage return alone looks like a single line. It is
    refused if that line would be taken for the header or is the only record.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    iterator of Line
        The remaining lines, which are read when they are needed.
    """
    lines = read_lines(path, options.encoding)
    first_two = list(islice(lines, 2))
    has_one_line = len(first_two) == 1
    if first_two and (options.header or has_one_line) and "\r" in first_two[0].text:
        raise ParameterError(
            f"{path.name}: its lines end with a carriage return alone; save it with "
            "ordinary line ends"
        )
    skip = integer("skip", options.skip, 0)
    return islice(chain(first_two, lines), skip, None)


def _names_in_header(path: Path, header: Line, separator: str) -> list[str]:
    """Split a header into the names of the columns.

    A header is public, so error messages may describe it.

    Parameters
    ----------
    path : path
        The file.
    header : Line
        The first line.
    separator : str
        The character between cells.

    Returns
    -------
    list of str
        The names.

    Raises
    ------
    ParameterError
        If the header is too long, or has characters of another encoding.
    """
    if "\x00" in header.text:
        raise ParameterError(
            f"is missing: {path.name} is not UTF-8, as its header shows; save it as CSV "
            "UTF-8, or say what it is, such as utf-16",
            parameter="encoding",
        )
    if header.end is not None:
        raise ParameterError(f"{path.name}: its first line is too long for a header")
    return _split_cells(header.text, separator, strict=False)


def _checked_separator(path: Path, options: ReadOptions) -> str:
    """Return the character between cells, after checking the options about the format.

    The options are whether there is a header, the separator and the decimal sign.

    Parameters
    ----------
    path : path
        The file.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    str
        One ASCII character.

    Raises
    ------
    ParameterError
        If one of these options is missing or does not fit the others.
    """
    if options.header not in (True, False):
        raise ParameterError(
            f"is missing: say whether the first line of {path.name} is a header; this is "
            "never guessed from the data",
            parameter="header",
        )
    is_tsv = path.name.lower().removesuffix(".gz").endswith(".tsv")
    default = "\t" if is_tsv else ","
    separator = options.sep or default
    if separator == r"\t":  # Shells pass a tab like this.
        separator = "\t"
    if len(separator) != 1 or separator in '"\r\n' or not separator.isascii():
        raise ParameterError(
            "must be one character, such as ';'", parameter="sep", value=separator
        )
    if options.decimal not in (".", ",") or options.decimal == separator:
        raise ParameterError(
            f"must be '.' or ',' and differ from the separator {separator!r}",
            parameter="decimal",
            value=options.decimal,
        )
    return separator


def _split_cells(line: str, separator: str, strict: bool = True) -> list[str]:
    """Split one line into its cells.

    Parameters
    ----------
    line : str
        The line, without its end.
    separator : str
        The character between cells.
    strict : bool
        Whether a quote that does not end raises `csv.Error`.
    """
    if '"' not in line:
        return line.split(separator)
    return next(csv.reader([line], delimiter=separator, strict=strict))


def _numbers_in_line(table: TextTable, line: Line, decimal: str) -> list[float]:
    """Return the numbers in the wanted cells of a line.

    A cell without a number gives NaN. All numbers are NaN if the line is not a record:
    because it is too long to be kept, has an open quote, or has a wrong number of
    cells.

    Parameters
    ----------
    table : TextTable
        The open table, which knows the wanted cells.
    line : Line
        One line of the file.
    decimal : str
        The decimal sign.

    Returns
    -------
    list of float
        One number for each wanted cell.
    """
    no_record = [float("nan")] * len(table.positions)
    if line.end is not None:
        return no_record
    try:
        cells = _split_cells(line.text, table.separator)
        wanted_cells = [cells[position] for position in table.positions]
    except (csv.Error, IndexError):
        return no_record
    if table.cells_per_line not in (None, len(cells)):
        return no_record
    return [to_float(cell.replace(decimal, ".")) for cell in wanted_cells]


def _name_in_line(table: TextTable, line: Line) -> str:
    """Return the text in the wanted cell of a line; empty if there is none.

    The cell may name the person to whom the record belongs, which must not depend on
    the record. So a malformed line raises no error, and is treated as follows:

    - A line that was too long to be kept whole is searched from its start and its end.
    - In a line with an open quote, every separator ends a cell.
    - In a line with too many or too few cells, the first cell is still the first and
      the last is still the last. The other cells cannot be told apart, so they count as
      empty. If lines should have one cell only, it counts as empty too.

    Parameters
    ----------
    table : TextTable
        The open table, which knows the wanted cell.
    line : Line
        One line of the file.

    Returns
    -------
    str
        The text, without blanks around it.
    """
    if line.end is not None:  # the line was too long to be kept whole
        return _name_in_long_line(table, line.text, line.end)

    try:
        cells = _split_cells(line.text, table.separator)
    except csv.Error:  # an open quote
        cells = [cell.strip('" ') for cell in line.text.split(table.separator)]

    expected_cells = table.cells_per_line
    if expected_cells is not None and len(cells) != expected_cells:
        if expected_cells == 1:
            return ""
        unknown_cells = [""] * (expected_cells - 2)
        cells = [cells[0], *unknown_cells, cells[-1]]

    (position,) = table.positions  # a name is in one column
    if position >= len(cells):
        return ""
    return cells[position].strip()


def _name_in_long_line(table: TextTable, start: str, end: str) -> str:
    """Return the wanted cell of a line of which only the start and the end were kept.

    The cell is counted from the start of the line if the start contains it, and
    otherwise from the end. It is empty if neither contains it.

    Parameters
    ----------
    table : TextTable
        The open table, which knows the wanted cell.
    start : str
        The start of the line.
    end : str
        The end of the line.

    Returns
    -------
    str
        The text, without quotes and blanks around it.
    """
    (position,) = table.positions
    # The last cell of the start and the first cell of the end are cut, hence left out.
    first_cells = start.split(table.separator)[:-1]
    last_cells = end.split(table.separator)[1:]
    if position < len(first_cells):
        return first_cells[position].strip('" ')
    count = table.cells_per_line
    if count is not None and count - position <= len(last_cells):
        return last_cells[position - count].strip('" ')
    return ""


def _shorten_name(name: str) -> str:
    """Shorten a very long name to its beginning and a hash.

    The hash keeps different names different. Names of ordinary length are returned
    unchanged.

    Parameters
    ----------
    name : str
        The text of a cell, such as the id of a person.

    Returns
    -------
    str
        The name, or its first 2048 characters followed by its SHA-256.
    """
    if len(name) <= LONGEST_CELL:
        return name
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: LONGEST_CELL // 2]}…{digest}"
