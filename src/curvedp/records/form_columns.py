"""Tests whether the columns of a file are in the order of a form, by their names.
A *form* says how numbers describe a point, such as "latitude, longitude". A file whose
columns are called lon, lat must not be read in that form. An `OrderTest` looks at the
names alone, in many languages; it returns None if they do not tell the order.
"""

import re
from collections.abc import Callable
from itertools import chain

from curvedp.records.form_points import MatrixIndex

# Returns whether columns of these names, in lower case, are in a form's order; None
# means that the names do not tell.
OrderTest = Callable[[list[str]], bool | None]

# What latitudes and longitudes are called in headers: English and most Romance
# languages, German, Dutch, Scandinavian, Finnish, Polish, Czech, Hungarian, Turkish,
# Russian, Greek, Chinese and Japanese, Korean.
LATITUDE = (
    "(?<!co)(?<!co-)lat|(?<!ko)breite|breedte|bredd|leveys|szeroko|šířka|sirka|széless|szeless|enlem|широт|πλάτο"
    "|πλατο|纬度|緯度|위도|^φ$|^phi$"
)
LONGITUDE = (
    "lo?n|länge|laenge|lengte|lengde|længde|längd|pituus|długo|dlugo|délka|delka|hosszú"
    "|hosszu|boylam|долгот|μήκο|μηκο|经度|經度|経度|경도|^λ$|^lambda$"
)


# What geologists call the angles of directions and planes. An abbreviation such as
# "dec." ends there or goes on as "decl…".
COLATITUDE = "co-?lat|kobreite|ko-?lat|polabstand"
DECLINATION = "d[eé][ck](l|[^a-z]|$)|偏角"
INCLINATION = "in[ck](l|[^a-z]|$)|伏角"
TREND = "trend|azim|plunge.?az|^az([^a-z]|$)|streichrichtung|abtauchrichtung"
PLUNGE = "plunge(?!.?az)|abtauchen|abtauchwinkel"
DIP_DIRECTION = "dip.?dir|dip.?az|fallrichtung|einfallsrichtung"
DIP = "^dip(?!.?(dir|az))|^(ein)?fallen|fallwinkel|einfallswinkel|buzamiento|pendage"


def order_test_by_patterns(*patterns: str) -> OrderTest:
    """Return a function that says whether columns are in a form's order.

    Parameters
    ----------
    *patterns : str
        A regular expression for the name of each column, in the form's order.

    Returns
    -------
    callable
        It takes the names of the columns. It returns None unless each name matches
        exactly one pattern and each pattern one name, and otherwise whether they are in
        order.
    """
    compiled = [re.compile(pattern) for pattern in patterns]
    form_order = [[place] for place in range(len(patterns))]

    def places_matched_by(name: str) -> list[int]:
        """Return the places in the form's order whose pattern fits a name."""
        return [place for place, pattern in enumerate(compiled) if pattern.search(name)]

    def is_in_order(names: list[str]) -> bool | None:
        """Return whether names are in the form's order; None if they do not tell."""
        matching_places = [places_matched_by(name) for name in names]
        if sorted(matching_places) != form_order:
            return None
        return matching_places == form_order

    return is_in_order


# The names of a landmark's coordinates, such as x1 or X_01, and 1x or point1_x.
_AXIS_THEN_NUMBER = re.compile(r"(?:^|[^a-z])([xy])[ _.(-]*([0-9]{1,6})\)?$")
_NUMBER_THEN_AXIS = re.compile(r"(?:^|[^0-9])([0-9]{1,6})[ _.-]*([xy])$")


def _parse_landmark_name(name: str) -> tuple[int, str] | None:
    """Return the landmark's number and the axis from a name such as "x1" or "1_y".

    Parameters
    ----------
    name : str
        The name of a column, in lower case.

    Returns
    -------
    (int, str) or None
        For example (1, "x"); None if the name is not of this kind.
    """
    match = _AXIS_THEN_NUMBER.search(name)
    if match is not None:
        return int(match[2]), match[1]
    match = _NUMBER_THEN_AXIS.search(name)
    if match is not None:
        return int(match[1]), match[2]
    return None


def landmarks_in_order(axis_by_axis: bool, names: list[str]) -> bool | None:
    """Return whether columns of landmarks are in order, by names such as "x1".

    The landmarks may be numbered in any order; only the way in which x and y alternate
    is checked.

    Parameters
    ----------
    axis_by_axis : bool
        Whether the form's order is x1, x2, …, y1, y2, … rather than x1, y1, x2, y2, …
    names : list of str
        The names of the columns.

    Returns
    -------
    bool or None
        None unless the names are the x and the y of each landmark, once each.
    """
    coordinates = []
    for name in names:
        coordinate = _parse_landmark_name(name)
        if coordinate is None:
            return None
        coordinates.append(coordinate)

    landmarks = [number for number, axis in coordinates if axis == "x"]
    x_columns = [(number, "x") for number in landmarks]
    y_columns = [(number, "y") for number in landmarks]
    # Each landmark must have exactly one x and one y.
    if sorted(coordinates) != sorted(x_columns + y_columns):
        return None
    if len(set(coordinates)) < len(coordinates):
        return None

    if axis_by_axis:
        return coordinates == x_columns + y_columns
    pairs = zip(x_columns, y_columns, strict=True)
    return coordinates == list(chain.from_iterable(pairs))


# The names of a matrix entry, such as C21, and C_2_1.
_TWO_DIGITS = re.compile(r"(?:^|[^0-9])([0-9])([0-9])\)?$")
_TWO_NUMBERS = re.compile(r"(?:^|[^0-9])([0-9]{1,6})[ _.,:-]+([0-9]{1,6})\)?$")


def _parse_entry_name(name: str) -> MatrixIndex | None:
    """Return the indices in the name of a matrix entry, such as (1, 2) for "C21".

    The matrix is symmetric, so the smaller index comes first.

    Parameters
    ----------
    name : str
        The name of a column.

    Returns
    -------
    (int, int) or None
        None if the name has no two indices.
    """
    match = _TWO_NUMBERS.search(name) or _TWO_DIGITS.search(name)
    if match is None:
        return None
    smaller, larger = sorted((int(match[1]), int(match[2])))
    return smaller, larger


def matrix_entries_in_order(
    indices: list[MatrixIndex], names: list[str]
) -> bool | None:
    """Return whether columns such as c11, c12, c22 are in a form's order.

    The columns hold entries of a symmetric matrix.

    Parameters
    ----------
    indices : list of (row, column)
        The entries in the form's order, from 0.
    names : list of str
        The names of the columns. They may count rows from 0, from 1 or from anywhere
        else.

    Returns
    -------
    bool or None
        None unless the names are exactly these entries.
    """
    named_entries = []
    for name in names:
        entry = _parse_entry_name(name)
        if entry is None:
            return None
        named_entries.append(entry)

    # Count from 0, whatever the first number in the names is.
    numbers = sorted(set(chain.from_iterable(named_entries)))
    rank = {number: position for position, number in enumerate(numbers)}
    entries = [(rank[smaller], rank[larger]) for smaller, larger in named_entries]

    expected = [(min(index), max(index)) for index in indices]
    if len(entries) != len(expected) or set(entries) != set(expected):
        return None
    return entries == expected


def order_test_against_names(pattern: str) -> OrderTest:
    """Return a test that objects to columns whose names show another quantity.

    Parameters
    ----------
    pattern : str
        A regular expression for names that no column of the form may have: a form of
        latitudes, for example, refuses a column called "colatitude".

    Returns
    -------
    callable
        It takes the names of the columns, and returns False or None (no objection).
    """
    compiled = re.compile(pattern)

    def is_in_order(names: list[str]) -> bool | None:
        """Return False if a name shows another quantity, and None otherwise."""
        if any(compiled.search(name) for name in names):
            return False
        return None

    return is_in_order
