"""Reading records from a range of cells of an Excel file, such as "Sheet1!A2:C201".
Each row of the range is a record. The caller names the range, because an empty last row
leaves no trace in the file: without a range, emptying one record could change the
number of records.
"""

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import closing
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curvedp._validate import shown
from curvedp.errors import ParameterError
from curvedp.records.columns import select_columns
from curvedp.records.conversion import to_floats
from curvedp.records.limits import check_unpacked, unpacked_limit
from curvedp.records.options import ReadOptions

_BYTES_PER_CELL = 8  # a pointer to what the cell holds


class CellRange(NamedTuple):
    """A rectangle of cells, such as Sheet1!A2:C201; rows and columns count from 1.

    Attributes
    ----------
    sheet : str
        The name of the sheet; empty if the caller does not name one.
    text : str
        The range as the caller wrote it.
    cells : str
        The range without its sheet.
    left, top, right, bottom : int
        The first column, the first row, the last column and the last row.
    """

    sheet: str
    text: str
    cells: str
    left: int
    top: int
    right: int
    bottom: int

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and the number of columns of the range."""
        return self.bottom - self.top + 1, self.right - self.left + 1


def read_excel_records(
    path: Path, shape: tuple[int, ...], options: ReadOptions
) -> np.ndarray:
    """Read records from the range of cells that `options.key` names.

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
    array, shape (n, prod(shape))
        One row of the range is one record; with `options.header`, its first row names
        the columns.
    """
    cells = read_excel_cells(path, options.key, options.max_unpacked)
    names: list[str | int] = list(range(cells.shape[1]))
    if options.header:
        names = [str(name) for name in cells[0]]
        cells = cells[1:]
    positions = select_columns(path.name, names, options, prod(shape))
    return to_floats(path.name, cells[:, positions])


def read_excel_column(
    path: Path, column: str | int, options: ReadOptions
) -> np.ndarray:
    """Read one value for each record from a range of cells.

    Parameters
    ----------
    path : path
        The file.
    column : str or int
        The range, such as "D2:D201".
    options : ReadOptions
        Its `max_unpacked` limits the memory that the file may fill.

    Returns
    -------
    array of objects, shape (n,)
        The contents of the cells, row by row; None for an empty one.
    """
    return read_excel_cells(path, str(column), options.max_unpacked).ravel()


def read_excel_cells(
    path: Path, range_text: str | None, max_unpacked: int | None = None
) -> np.ndarray:
    """Read the contents of a range of cells as an array of objects.

    Empty cells become None.

    Parameters
    ----------
    path : Path
        The file.
    range_text : str or None
        The range, such as "A2:C201" or "Sheet1!A2:C201". It may be without a sheet if
        the file has only one.
    max_unpacked : int, optional
        The limit in bytes on the memory that the file may fill.

    Returns
    -------
    array of objects, shape (rows, columns)
        The contents of the cells.

    Raises
    ------
    ParameterError
        If the range is not one, or the file would fill more than the limit.
    """
    import openpyxl

    cell_range = _parse_range(path, range_text)
    limit = unpacked_limit(path, max_unpacked)
    check_unpacked(path, prod(cell_range.shape) * _BYTES_PER_CELL, limit)
    check_unpacked(path, _size_of_largest_part(path), limit)

    with warnings.catch_warnings():
        # openpyxl warns of cells that look like bad dates, and quotes them.
        warnings.simplefilter("ignore")
        workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
        with closing(workbook):
            sheet = _find_sheet(path, workbook, cell_range)
            return _copy_cells(workbook, sheet, cell_range)


def _parse_range(path: Path, range_text: str | None) -> CellRange:
    """Parse a range such as "Sheet1!A2:C201"; a text that is not a range is refused.

    Parameters
    ----------
    path : path
        The file.
    range_text : str or None
        The range as it was typed.

    Returns
    -------
    CellRange
        The sheet, and the first and last row and column.
    """
    from openpyxl.utils.cell import range_boundaries

    if range_text is None or ":" not in range_text:
        raise ParameterError(
            f"is missing: say which cells of {path.name} hold the records, without the "
            "header, such as 'A2:C201' or 'Sheet1!A2:C201'",
            parameter="key",
        )
    sheet, _, cells = range_text.rpartition("!")
    try:
        left, top, right, bottom = map(int, range_boundaries(cells))
    except (ValueError, TypeError):
        raise ParameterError(
            "must be a range of cells, such as A2:C201", parameter="key", value=cells
        ) from None
    return CellRange(sheet.strip("'"), range_text, cells, left, top, right, bottom)


def _find_sheet(path: Path, workbook: Any, cell_range: CellRange) -> Any:
    """Return the sheet that the range names, or the only sheet if it names none.

    Parameters
    ----------
    path : path
        The file.
    workbook : openpyxl.Workbook
        The open file.
    cell_range : CellRange
        The parsed range.

    Returns
    -------
    openpyxl worksheet
        The sheet.

    Raises
    ------
    ParameterError
        If the file has no such sheet, or several and the range names none.
    """
    sheets = workbook.sheetnames
    if cell_range.sheet in sheets:
        return workbook[cell_range.sheet]
    if cell_range.sheet or len(sheets) > 1:
        raise ParameterError(
            f"must name one of the sheets {shown(sheets)} of {path.name}, such as "
            f"'{sheets[0]}!{cell_range.cells}'",
            parameter="key",
            value=cell_range.text,
        )
    return workbook[sheets[0]]


def _copy_cells(workbook: Any, sheet: Any, cell_range: CellRange) -> np.ndarray:
    """Return the contents of a range of cells as an array of objects.

    Parameters
    ----------
    workbook : openpyxl.Workbook
        The open file.
    sheet : openpyxl worksheet
        The sheet that holds the range.
    cell_range : CellRange
        The range; its first row and column have the position 0 in the result.

    Returns
    -------
    array of objects, shape cell_range.shape
        None for cells that the file does not have and for cells that cannot be read.
    """
    cells = np.full(cell_range.shape, None, dtype=object)
    with sheet._get_source() as source:
        parser = _cell_by_cell_parser()(
            source,
            sheet._shared_strings,
            data_only=True,
            epoch=workbook.epoch,
            date_formats=workbook._date_formats,
            timedelta_formats=workbook._timedelta_formats,
        )
        for row_number, row in _rows_in_range(parser, cell_range):
            contents = cells[row_number - cell_range.top]
            for cell in row:
                if cell_range.left <= cell["column"] <= cell_range.right:
                    contents[cell["column"] - cell_range.left] = cell["value"]
    return cells


def _rows_in_range(
    parser: Any, cell_range: CellRange
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the rows of a sheet that lie in a range, each of them once.

    Parameters
    ----------
    parser : WorkSheetParser
        openpyxl's parser of the sheet.
    cell_range : CellRange
        The range.

    Yields
    ------
    row_number : int
        The number of the row in the sheet, from 1.
    row : list of dict
        The cells of the row that are not empty, with their "column" and "value".
    """
    next_row = cell_range.top
    for row_number, row in parser.parse():
        if row_number > cell_range.bottom:
            return
        # Skip rows above the range, and a row that the file repeats.
        if row_number >= next_row:
            next_row = row_number + 1
            yield row_number, row


def _cell_by_cell_parser() -> Any:
    """Return openpyxl's parser of sheets, changed to survive cells that it cannot read.

    openpyxl raises an error for a cell such as <v>NaN</v> or <v>1,5</v>, and for a text,
    a style or a date that does not exist. So a single cell could make the whole sheet
    unreadable. The class is built here because openpyxl may not be installed.

    Returns
    -------
    type
        A subclass of openpyxl's `WorkSheetParser`.
    """
    from openpyxl.worksheet._reader import WorkSheetParser

    class CellByCellParser(WorkSheetParser):
        """A parser of a sheet for which a cell that cannot be read is empty."""

        # The number of the last column that was read; openpyxl counts in it.
        col_counter: int

        def parse_cell(self, element: Any) -> Any:
            """Return a cell as openpyxl does; an unreadable one is returned empty.

            If the whole cell cannot be parsed, only its place is. If that fails too,
            the cell takes the next column.

            Parameters
            ----------
            element : XML element
                The cell in the sheet's XML. What cannot be read is removed from it.

            Returns
            -------
            dict
                The row, the column and the value of the cell.
            """
            column_before = self.col_counter
            try:
                return super().parse_cell(element)
            except Exception:
                self.col_counter = column_before
            # Only the place of the cell is left, by which openpyxl counts columns.
            place = element.get("r")
            element.clear()
            if place is not None:
                element.set("r", place)
            try:
                return super().parse_cell(element)
            except Exception:
                # The place cannot be read either. The next column is meant.
                element.clear()
                return super().parse_cell(element)

    return CellByCellParser


def _size_of_largest_part(path: Path) -> int:
    """Return the unpacked size of an Excel file's largest part, in bytes.

    The file's directory declares it, and a part is never unpacked beyond that size.

    Parameters
    ----------
    path : path
        The file, which is a zip archive.
    """
    with zipfile.ZipFile(path) as archive:
        return max((part.file_size for part in archive.infolist()), default=0)
