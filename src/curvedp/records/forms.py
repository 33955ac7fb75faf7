"""Forms that points are written in: latitudes, quaternions, six entries of a tensor, landmarks, counts.

A form is a map of one record alone. It is total: what is not a record in this form is NaN, and so becomes the ball's
center. Degrees or radians, and the order of entries, are part of a form's name: they are never guessed from data.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from curvedp._validate import choice
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold

Points = Callable[[np.ndarray], np.ndarray]
Shape = tuple[int, ...]


# Whether columns of these names are in a form's order; None where their names do not say.
Naming = Callable[[list[str]], bool | None]


class Form(NamedTuple):
    """How a record is written: the shape of what is written, and the map (n, *shape) -> (n, *point_shape)."""

    name: str | None
    shape: Shape
    points: Points
    # A record that any manifold written in this form has; not needed where most are.
    ordinary: np.ndarray | None = None
    namings: tuple[Naming, ...] = ()
    manifold: Manifold | None = None  # whose points it writes

    @property
    def width(self) -> int:
        """How many numbers a record is written with."""
        return prod(self.shape)


def find_form(name: str | None, manifold: Manifold) -> Form:
    """The form of that name on a manifold; None is a point's own entries. A name that does not say enough is refused, and a
    form that does not make points of this manifold."""
    if name is None:
        return Form(None, manifold.point_shape, lambda x: x, manifold=manifold)
    more = [
        full for full in FORMS if isinstance(name, str) and full.startswith(f"{name}-")
    ]
    if more and name not in FORMS:
        raise ParameterError(
            f"does not say enough; it is one of {', '.join(map(repr, more))}",
            parameter="form",
            value=name,
        )
    form = FORMS[choice("form", name, tuple(FORMS))](name, manifold.point_shape)
    if form is None or not _fits(form, manifold):
        raise ParameterError(
            f"does not make points of {manifold!r}", parameter="form", value=name
        )
    return form._replace(manifold=manifold)


def other_forms(width: int, form: Form) -> str:
    """Where no form was named and some write such a point with so many numbers: which, for messages that help."""
    if form.name is not None or (M := form.manifold) is None:
        return ""
    found = {name: build(name, M.point_shape) for name, build in FORMS.items()}
    names = [
        name
        for name, each in found.items()
        if each is not None and each.width == width and _fits(each, M)
    ]
    return f"; or say what a row is by its form ({', '.join(names)})" if names else ""


def check_order(where: str, form: Form, names: Sequence[str | int]) -> None:
    """Refuse columns whose public names say that they are in another order than the form's, such as lon, lat for latlon."""
    if _is_in_order(form, names) is not False:
        return
    rule = (
        f"has another order than the columns of {where} have by their names: "
        "name them in its order"
    )
    other = _forms_in_order(form, names)
    if other:
        rule += f", or choose {' or '.join(other)}, whose order it is"
    raise ParameterError(rule, parameter="form", value=form.name)


def _is_in_order(form: Form, names: Sequence[str | int]) -> bool | None:
    """Whether columns are in a form's order by their names; None where names do not say."""
    texts = [
        unicodedata.normalize("NFKC", str(name)).strip().casefold() for name in names
    ]
    for naming in form.namings:
        in_order = naming(texts)
        if in_order is not None:
            return in_order
    return None


def _forms_in_order(form: Form, names: Sequence[str | int]) -> list[str]:
    """The names of other forms of the same points whose order the columns are in."""
    if form.manifold is None:
        return []
    shape = form.manifold.point_shape
    others = {name: build(name, shape) for name, build in FORMS.items()}
    return [
        name
        for name, other in others.items()
        if other is not None
        and other.width == form.width
        and _is_in_order(other, names)
    ]


def _fits(form: Form, manifold: Manifold) -> bool:
    """Whether an ordinary record becomes a point of the manifold."""
    ordinary = (
        np.linspace(0.3, 0.8, form.width) if form.ordinary is None else form.ordinary
    )
    return bool(
        np.all(manifold.residual(form.points(ordinary.reshape(1, *form.shape))) < 1e-9)
    )


def _total(points: Points, x: np.ndarray) -> np.ndarray:
    """NaN, without a warning, for every record that has an entry or an image that is not finite."""
    with np.errstate(all="ignore"):
        made = points(x)
    good = [np.isfinite(a).all(axis=tuple(range(1, a.ndim))) for a in (x, made)]
    made[~(good[0] & good[1])] = np.nan
    return made


def _latlon(unit: float, x: np.ndarray) -> np.ndarray:
    """(1, 0, 0) is 0°N 0°E and (0, 0, 1) the north pole. There is no latitude beyond the poles."""
    lat, lon = (
        np.where(np.abs(x[:, 0]) * unit <= np.pi / 2, x[:, 0], np.nan) * unit,
        x[:, 1] * unit,
    )
    return np.stack(
        [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1
    )


def _quaternion(order: list[int], x: np.ndarray) -> np.ndarray:
    """Of any length but 0; q and −q are one rotation."""
    q = x / np.max(np.abs(x), axis=1, keepdims=True)
    w, x, y, z = (q / np.sqrt(np.sum(q * q, axis=1, keepdims=True)))[:, order].T
    entries = [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
               2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
               2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]  # fmt: skip
    return np.stack(entries, axis=-1).reshape(-1, 3, 3)


def _rotvec(unit: float, x: np.ndarray) -> np.ndarray:
    """Axis times angle."""
    half = np.sqrt(np.sum(x * x, axis=1, keepdims=True)) * unit / 2
    # sin(h)/h by sinc, which is 1 at 0
    return _quaternion(
        [0, 1, 2, 3], np.hstack([np.cos(half), np.sinc(half / np.pi) * x * unit / 2])
    )


def _axis_angle(unit: float, x: np.ndarray) -> np.ndarray:
    """An axis of any length but 0, then the angle."""
    axis = x[:, :3] / np.max(np.abs(x[:, :3]), axis=1, keepdims=True)
    return _rotvec(
        unit, axis / np.sqrt(np.sum(axis * axis, axis=1, keepdims=True)) * x[:, 3:]
    )


def _symmetric(places: list[tuple[int, int]], x: np.ndarray) -> np.ndarray:
    i, j = np.array(places).T
    size = 1 + max(i.max(), j.max())
    made = np.empty((len(x), size, size))
    made[:, i, j] = made[:, j, i] = x
    return made


def _landmarks(x: np.ndarray) -> np.ndarray:
    """Centered, of size 1; landmarks that are all one point have no shape."""
    moved = x - x[:, :1]
    moved = moved / np.max(np.abs(moved), axis=(1, 2), keepdims=True)
    moved = moved - moved.mean(axis=1, keepdims=True)
    return np.asarray(
        moved / np.sqrt(np.sum(moved * moved, axis=(1, 2), keepdims=True))
    )


def _proportions(x: np.ndarray) -> np.ndarray:
    shares = np.where(x >= 0, x, np.nan) / np.max(x, axis=1, keepdims=True)
    return np.asarray(shares / np.sum(shares, axis=1, keepdims=True))


_LOWER, _UPPER = (
    [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)],
    [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)],
)
_DIAGONAL = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]


def _words(*patterns: str) -> Naming:
    """Columns that are known by words: each name matches the pattern of one column."""
    compiled = [re.compile(pattern) for pattern in patterns]

    def is_in_order(names: list[str]) -> bool | None:
        matches = [
            [i for i, pattern in enumerate(compiled) if pattern.search(name)]
            for name in names
        ]
        right = [[i] for i in range(len(patterns))]
        return matches == right if sorted(matches) == right else None

    return is_in_order


_AXIS_FIRST = re.compile(r"(?:^|[^a-z])([xy])[ _.(-]*([0-9]{1,6})\)?$")  # x1, X_01
_NUMBER_FIRST = re.compile(r"(?:^|[^0-9])([0-9]{1,6})[ _.-]*([xy])$")  # 1x, point1_x


def _landmark(name: str) -> tuple[int, str] | None:
    """The number and the axis of a landmark's coordinate, as its column's name says them."""
    if match := _AXIS_FIRST.search(name):
        return int(match[2]), match[1]
    if match := _NUMBER_FIRST.search(name):
        return int(match[1]), match[2]
    return None


def _landmark_names(axis_by_axis: bool, names: list[str]) -> bool | None:
    """The naming of landmarks by number and axis, in whichever order the numbers are."""
    found = [_landmark(name) for name in names]
    numbers = [each[0] for each in found if each is not None and each[1] == "x"]
    if set(found) != {(number, axis) for number in numbers for axis in "xy"}:
        return None
    if len(set(found)) != len(found):
        return None
    if axis_by_axis:
        return found == [(number, axis) for axis in "xy" for number in numbers]
    return found == [(number, axis) for number in numbers for axis in "xy"]


_TWO_DIGITS = re.compile(r"(?:^|[^0-9])([0-9])([0-9])\)?$")  # C21
_TWO_NUMBERS = re.compile(r"(?:^|[^0-9])([0-9]{1,6})[ _.,:-]+([0-9]{1,6})\)?$")  # C_2_1


def _matrix_entry(name: str) -> tuple[int, int] | None:
    """Row and column of a symmetric matrix's entry, the smaller first, as its name says."""
    match = _TWO_NUMBERS.search(name) or _TWO_DIGITS.search(name)
    if match is None:
        return None
    i, j = sorted((int(match[1]), int(match[2])))
    return i, j


def _matrix_names(places: list[tuple[int, int]], names: list[str]) -> bool | None:
    """The naming of a symmetric matrix's entries by row and column, counted from anywhere."""
    found = [_matrix_entry(name) for name in names]
    numbers = sorted(
        {number for entry in found if entry is not None for number in entry}
    )
    rank = {number: place for place, number in enumerate(numbers)}
    ranked = [
        None if entry is None else (rank[entry[0]], rank[entry[1]]) for entry in found
    ]
    right = [(min(place), max(place)) for place in places]
    if len(ranked) != len(right) or set(ranked) != set(right):
        return None
    return ranked == right


def _fixed(
    shape: Shape, point_shape: Shape, points: Points, *patterns: str
) -> Callable[[str, Shape], Form | None]:
    """A form of one shape alone, whose columns are known by words."""
    namings = (_words(*patterns),) if patterns else ()
    made = partial(Form, shape=shape, points=partial(_total, points), namings=namings)
    return lambda name, wanted: made(name) if wanted == point_shape else None


def _tensor(places: list[tuple[int, int]], name: str, wanted: Shape) -> Form | None:
    """Six entries of a symmetric 3 x 3 matrix, at these places."""
    return _symmetric_form(places, name) if wanted == (3, 3) else None


def _triangle(upper: bool, name: str, wanted: Shape) -> Form | None:
    """One triangle of a symmetric matrix of any size, row by row."""
    if len(wanted) != 2 or wanted[0] != wanted[1]:
        return None
    size = range(wanted[0])
    if upper:
        return _symmetric_form([(i, j) for i in size for j in size if i <= j], name)
    return _symmetric_form([(i, j) for i in size for j in size if j <= i], name)


def _symmetric_form(places: list[tuple[int, int]], name: str) -> Form:
    """A form that writes the entries of a symmetric matrix at these places."""
    near_one = np.array([1.0 if i == j else 0.1 / len(places) for i, j in places])
    namings: list[Naming] = [partial(_matrix_names, places)]
    if len(places) == 6:
        letters = [("xyz"[i], "xyz"[j]) for i, j in places]
        namings.append(_words(*(f"({a}{b}|{b}{a})$" for a, b in letters)))
    points = partial(_total, partial(_symmetric, places))
    return Form(name, (len(places),), points, near_one, tuple(namings))


def _landmark_form(axis_by_axis: bool, name: str, wanted: Shape) -> Form | None:
    """k landmarks of the plane: x1, y1, x2, y2, …, or x1, x2, …, y1, y2, …"""
    if len(wanted) != 2 or wanted[1] != 2:
        return None
    namings = (partial(_landmark_names, axis_by_axis),)
    if axis_by_axis:
        points = partial(_total, lambda x: _landmarks(x.swapaxes(1, 2)))
        return Form(name, (2, wanted[0]), points, namings=namings)
    return Form(name, wanted, partial(_total, _landmarks), namings=namings)


def _alike(points: Points, name: str, wanted: Shape) -> Form | None:
    """Written in the shape of a point, which is a vector."""
    return Form(name, wanted, partial(_total, points)) if len(wanted) == 1 else None


# What latitudes and longitudes are called in headers: English and most Romance languages,
# German, Dutch, Scandinavian, Finnish, Polish, Czech, Hungarian, Turkish, Russian, Greek,
# Chinese and Japanese, Korean.
_LATITUDE = (
    "lat|breite|breedte|bredd|leveys|szeroko|šířka|sirka|széless|szeless|enlem|широт|πλάτο"
    "|πλατο|纬度|緯度|위도|^φ$|^phi$"
)
_LONGITUDE = (
    "lo?n|länge|laenge|lengte|lengde|længde|längd|pituus|długo|dlugo|délka|delka|hosszú"
    "|hosszu|boylam|долгот|μήκο|μηκο|经度|經度|経度|경도|^λ$|^lambda$"
)


FORMS: dict[str, Callable[[str, Shape], Form | None]] = {
    "latlon-degrees": _fixed(
        (2,), (3,), partial(_latlon, np.pi / 180), _LATITUDE, _LONGITUDE
    ),
    "latlon-radians": _fixed((2,), (3,), partial(_latlon, 1.0), _LATITUDE, _LONGITUDE),
    "angles-degrees": partial(_alike, partial(np.multiply, np.pi / 180)),
    "angles-radians": partial(_alike, partial(np.multiply, 1.0)),
    "quaternion-wxyz": _fixed(
        (4,), (3, 3), partial(_quaternion, [0, 1, 2, 3]), "w$", "x$", "y$", "z$"
    ),
    "quaternion-xyzw": _fixed(
        (4,), (3, 3), partial(_quaternion, [3, 0, 1, 2]), "x$", "y$", "z$", "w$"
    ),
    "rotvec-degrees": _fixed((3,), (3, 3), partial(_rotvec, np.pi / 180)),
    "rotvec-radians": _fixed((3,), (3, 3), partial(_rotvec, 1.0)),
    "axis-angle-degrees": _fixed((4,), (3, 3), partial(_axis_angle, np.pi / 180)),
    "axis-angle-radians": _fixed((4,), (3, 3), partial(_axis_angle, 1.0)),
    "tensor6-lower": partial(_tensor, _LOWER),  # dipy, ANTs, NIfTI's symmetric matrices
    "tensor6-upper": partial(_tensor, _UPPER),  # FSL
    "tensor6-diagonal": partial(_tensor, _DIAGONAL),  # MRtrix
    "landmarks": partial(_landmark_form, False),
    "landmarks-xxyy": partial(_landmark_form, True),
    "upper": partial(_triangle, True),
    "lower": partial(_triangle, False),
    "counts": partial(_alike, _proportions),
}
"""Each form by its name: (name, point_shape) -> Form, or None where no point has that shape.

- `latlon-degrees`, `latlon-radians`: latitude, longitude, on S². `angles-degrees`, `angles-radians`: on a torus.
- `quaternion-wxyz` (scalar first), `quaternion-xyzw` (scalar last): rotations, of any length but 0.
- `rotvec-degrees`, `rotvec-radians`: axis times angle. `axis-angle-degrees`, `axis-angle-radians`: axis, then angle.
- `tensor6-lower`: xx, xy, yy, xz, yz, zz (dipy, ANTs, NIfTI). `tensor6-upper`: xx, xy, xz, yy, yz, zz (FSL).
  `tensor6-diagonal`: xx, yy, zz, xy, xz, yz (MRtrix).
- `upper`, `lower`: one triangle of a symmetric matrix of any size, with the diagonal, row by row.
- `landmarks`: k points of the plane in any units, x1, y1, x2, y2, … (complex numbers are read too).
  `landmarks-xxyy`: all x first, then all y. `counts`: numbers ≥ 0, to proportions.
"""
