"""Finding the columns of a table that hold a record.
A row of a table is a record: a point, written as several numbers. Columns are chosen by
their public names or positions (from 0), never by what their cells hold.
"""

import re
from collections.abc import Sequence
from math import isnan

from curvedp._validate import shown
from curvedp.errors import ParameterError
from curvedp.records.conversion import to_float
from curvedp.records.forms import check_order, suggest_forms
from curvedp.records.options import ReadOptions

Column = str | int

# The largest position of a column in a table without a header, and the longest range of
# positions. A table of a million columns is wider than any that people write.
_MAX_COLUMNS = 1 << 20

# How many names of columns an error message lists.
_MAX_LISTED_NAMES = 12

# What decoding puts in the place of a byte that has no meaning in the encoding.
_UNDECODED = "\N{REPLACEMENT CHARACTER}"

# A range of positions, first and last included, such as 2-31.
_RANGE = re.compile(r"\s*([0-9]{1,7})\s*-\s*([0-9]{1,7})\s*")


def select_columns(
    source_name: str, names: Sequence[Column] | None, options: ReadOptions, width: int
) -> list[int]:
    """Return the positions of the columns that hold the entries of a record.

    Parameters
    ----------
    source_name : str
        The name of the table in error messages.
    names : sequence of str or int, or None
        The names of the table's columns, or their positions where they have no names;
        None for a text file without a header.
    options : ReadOptions
        Its `columns` says which columns are wanted; without it the table must have
        exactly `width` columns, or that many besides its `other_columns`. Its `form` says
        in which order they are expected.
    width : int
        How many entries a record has.

    Returns
    -------
    list of int
        The positions, in the order of the entries of a record.

    Raises
    ------
    ParameterError
        If the number of columns is not `width`, if a column does not exist or its name
        is ambiguous, or if the names tell that the columns are in another order than
        the form's.
    """
    if options.columns is None:
        return _default_columns(source_name, names, options, width)

    columns = _requested_columns(options.columns, names)
    if len(columns) != width:
        raise ParameterError(
            f"must be {width} names or places, one for each entry of a record"
            f"{_suggest_range(columns)}{suggest_forms(len(columns), options.form)}",
            parameter="columns",
            value=options.columns,
        )
    positions = [_find_column(source_name, names, column) for column in columns]

    # A caller who lists columns as they stand in the file says which columns are meant,
    # but says nothing about their order. So the header is compared with the form's
    # order.
    if names and positions == sorted(positions):
        check_order(
            source_name, options.form, [names[position] for position in positions]
        )
    else:
        check_order(source_name, options.form, columns)
    return positions


def _default_columns(
    source_name: str, names: Sequence[Column] | None, options: ReadOptions, width: int
) -> list[int]:
    """Return the columns of a record if the caller names none.

    These are all columns, or all but `options.other_columns` if exactly as many are
    left as a record has entries.

    Parameters
    ----------
    source_name : str
        The name of the table in error messages.
    names : sequence of str or int, or None
        The names of the table's columns; None if it has no names.
    options : ReadOptions
        The form of a record, and the columns that hold something else.
    width : int
        How many entries a record has.

    Returns
    -------
    list of int
        The positions of the columns.

    Raises
    ------
    ParameterError
        If the number or the order of the columns is wrong.
    """
    known_names = list(names or ())
    positions = _columns_besides(source_name, names, options.other_columns)
    if len(positions) == width and len(known_names) != width:
        chosen_names = [known_names[position] for position in positions]
        check_order(source_name, options.form, chosen_names)
        return positions
    _check_column_count(source_name, names, options, width)
    check_order(source_name, options.form, known_names)
    return list(range(width))


def _columns_besides(
    source_name: str, names: Sequence[Column] | None, others: Sequence[Column]
) -> list[int]:
    """Return the positions of all columns except some that hold other things.

    Parameters
    ----------
    source_name : str
        The name of the table in error messages.
    names : sequence of str or int, or None
        The names of the table's columns; without them nothing is left out.
    others : sequence of str or int
        Columns that hold something else than the records.

    Returns
    -------
    list of int
        The positions of the other columns; empty without names.
    """
    if names is None:
        return []
    other_positions = {_find_column(source_name, names, column) for column in others}
    return [
        position for position in range(len(names)) if position not in other_positions
    ]


def _check_column_count(
    source_name: str, names: Sequence[Column] | None, options: ReadOptions, width: int
) -> None:
    """Refuse a table whose number of columns is not the number of entries of a record.

    Parameters
    ----------
    source_name : str
        The name of the records in error messages.
    names : sequence or None
        The names of all columns; None if the table has no names.
    options : ReadOptions
        The caller's options for reading the file.
    width : int
        The number of entries of a record.

    Raises
    ------
    ParameterError
        If it is another number. The message lists the names of the columns.
    """
    if names is None or len(names) == width:
        return
    noun = "column" if len(names) == 1 else "columns"
    rule = (
        f"is missing: {source_name} has {len(names)} {noun} ({_list_names(names)}), and a record has "
        f"{width} entries; name its columns"
    )
    if len(names) == 1:
        rule += ", or say what separates them, or how many lines to skip before them"
    rule += _suggest_encoding(names) + suggest_forms(len(names), options.form)
    raise ParameterError(rule, parameter="columns")


def _requested_columns(
    columns: Sequence[Column], names: Sequence[Column] | None
) -> list[Column]:
    """Return the wanted columns as a list, with ranges such as "2-31" written out.

    A single text is accepted if it is a range. Any other single text yields an empty
    list, which the caller refuses.

    Parameters
    ----------
    columns : sequence
        The wanted columns: names, positions from 0, or ranges.
    names : sequence or None
        The names of all columns; None if the table has no names.

    Returns
    -------
    list of str or int
        Names and positions.
    """
    if isinstance(columns, str):
        columns = [columns] if is_range(columns, names) else []
    return expand_ranges(columns, names)


def is_range(column: Column, names: Sequence[Column] | None) -> bool:
    """Return whether a column is written as a range such as "2-31", not as a name.

    Parameters
    ----------
    column : str or int
        A column as the caller names it.
    names : sequence of str or int, or None
        The names of the table's columns. A column that is called "2-31" is not a range.
    """
    if not isinstance(column, str) or not looks_like_range(column):
        return False
    return column.strip() not in [str(name).strip() for name in names or ()]


def looks_like_range(text: str) -> bool:
    """Return whether a text is written as a range of positions, such as "2-31"."""
    return _RANGE.fullmatch(text) is not None


def expand_ranges(
    columns: Sequence[Column], names: Sequence[Column] | None
) -> list[Column]:
    """Replace every range such as "2-31" by the positions from its first to its last.

    Parameters
    ----------
    columns : sequence of str or int
        Names, positions and ranges.
    names : sequence of str or int, or None
        The names of the table's columns. A column that is called "2-31" is not a range.

    Returns
    -------
    list of str or int
        Names and positions.

    Raises
    ------
    ParameterError
        If a range ends before it begins, or is longer than any table.
    """
    expanded: list[Column] = []
    for column in columns:
        if isinstance(column, str) and is_range(column, names):
            first, last = map(int, column.split("-"))
            if last < first or last - first >= _MAX_COLUMNS:
                raise ParameterError(
                    "must be a range of places, such as 2-31",
                    parameter="columns",
                    value=column,
                )
            expanded += range(first, last + 1)
        else:
            expanded.append(column)
    return expanded


def _find_column(
    source_name: str, names: Sequence[Column] | None, column: Column
) -> int:
    """Return the position of the column with a given name or position.

    Parameters
    ----------
    source_name : str
        The name of the records in error messages.
    names : sequence or None
        The names of all columns; None if the table has no names.
    column : str or int
        The column, by its name or its position from 0.

    Returns
    -------
    int
        The position of the column, from 0.

    Raises
    ------
    ParameterError
        If there is no such column, or several have this name.
    """
    if isinstance(column, str):
        stripped_names = [str(name).strip() for name in names or ()]
        count = stripped_names.count(column.strip())
        if count > 1:
            raise ParameterError(
                f"{source_name} has {count} columns called {shown(column)}; say which by its "
                "place from 0"
            )
        if count == 1:
            return stripped_names.index(column.strip())

    if isinstance(column, int) and not isinstance(column, bool):
        column_count = len(names) if names else _MAX_COLUMNS
        if 0 <= column < column_count:
            return column

    if names is None:
        columns_in_words = "no header"
    else:
        columns_in_words = f"{len(names)} columns ({_list_names(names)})"
    raise ParameterError(
        f"{source_name} has no column {shown(column)}: it has {columns_in_words}; places count "
        f"from 0{_suggest_encoding(names or ())}"
    )


def _suggest_range(columns: Sequence[Column]) -> str:
    """Return a hint on how ranges are written, if a column looks like "2:31".

    Parameters
    ----------
    columns : sequence of str or int
        The columns as the caller names them.
    """
    has_slice = any(isinstance(column, str) and ":" in column for column in columns)
    return "; a range of places is written 2-31" if has_slice else ""


def _suggest_encoding(names: Sequence[Column]) -> str:
    """Return a hint about the encoding if a name of a column was decoded wrongly.

    Otherwise the hint is empty.

    Parameters
    ----------
    names : sequence of str or int
        The names of the table's columns.
    """
    is_garbled = any(_UNDECODED in str(name) for name in names)
    if not is_garbled:
        return ""
    return "; some names are not in this encoding: state it (encoding), such as latin-1"


def _list_names(names: Sequence[Column]) -> str:
    """Return the names of columns as a list for an error message.

    Numbers are left out. If a caller takes a line of records for a header, the message
    must not show that record.

    Parameters
    ----------
    names : sequence of str, or None
        The names of the columns, if there are any.

    Returns
    -------
    str
        At most twelve names, separated by commas.
    """
    texts = [name for name in names if isinstance(name, str) and isnan(to_float(name))]
    if not texts:
        return "without names"
    listed = ", ".join(map(shown, texts[:_MAX_LISTED_NAMES]))
    if len(texts) > _MAX_LISTED_NAMES:
        listed += ", …"
    return listed
