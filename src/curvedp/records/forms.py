"""Forms that points are written in: latitudes, quaternions, six entries of a tensor, landmarks, counts.

A form is a map of one record alone. It is total: what is not a record in this form is NaN, and so becomes the ball's
center. Degrees or radians, and the order of entries, are part of a form's name: they are never guessed from data.
"""

import re
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


class Form(NamedTuple):
    """How a record is written: the shape of what is written, and the map (n, *shape) -> (n, *point_shape)."""

    name: str | None
    shape: Shape
    points: Points
    ordinary: np.ndarray | None = (
        None  # a record that any manifold written in this form has; not needed where most are
    )
    parts: tuple[
        str, ...
    ] = ()  # patterns of what its columns are called, where people know them by names
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
    if more:
        raise ParameterError(
            f"form={name!r} does not say enough; it is one of {', '.join(map(repr, more))}"
        )
    form = FORMS[choice("form", name, tuple(FORMS))](name, manifold.point_shape)
    if form is None or not _fits(form, manifold):
        raise ParameterError(f"form={name!r} does not make points of {manifold!r}")
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
    return f"; or say what a row is with form= ({', '.join(names)})" if names else ""


def check_order(where: str, form: Form, names: Sequence[str | int]) -> None:
    """Refuse columns whose public names say that they are in another order than the form's, such as lon, lat for latlon."""
    found = [
        [
            i
            for i, part in enumerate(form.parts)
            if re.search(part, str(name).strip().lower())
        ]
        for name in names
    ]
    if sorted(found) == [[i] for i in range(len(form.parts))] != found:
        line = f"by their names its columns are in another order than form={form.name!r} has"
        raise ParameterError(f"{where}: {line}; name them in that order with columns=")


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
    made = np.empty((len(x), j[-1] + 1, j[-1] + 1))
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


def _fixed(
    shape: Shape, point_shape: Shape, points: Points, *parts: str
) -> Callable[[str, Shape], Form | None]:
    made = partial(Form, shape=shape, points=partial(_total, points), parts=parts)
    return lambda name, wanted: made(name) if wanted == point_shape else None


def _matrix(
    places: list[tuple[int, int]] | None, name: str, wanted: Shape
) -> Form | None:
    places = places or [
        (i, j) for i in range(wanted[0]) for j in range(i, wanted[0])
    ]  # the upper triangle
    near_one = np.array([1.0 if i == j else 0.1 / len(places) for i, j in places])
    parts = (
        tuple("({0}{1}|{1}{0})$".format(*("xyz"[i] for i in place)) for place in places)
        if wanted == (3, 3)
        else ()
    )
    points = partial(_total, partial(_symmetric, places))
    return (
        Form(name, (len(places),), points, near_one, parts)
        if wanted == (places[-1][1] + 1,) * 2
        else None
    )


def _alike(points: Points, last: int | None, name: str, wanted: Shape) -> Form | None:
    """Written in the shape of a point: a vector, or pairs."""
    fits = len(wanted) == 1 if last is None else len(wanted) == 2 and wanted[1] == last
    return Form(name, wanted, partial(_total, points)) if fits else None


FORMS: dict[str, Callable[[str, Shape], Form | None]] = {
    "latlon-degrees": _fixed((2,), (3,), partial(_latlon, np.pi / 180), "lat", "lo?n"),
    "latlon-radians": _fixed((2,), (3,), partial(_latlon, 1.0), "lat", "lo?n"),
    "angles-degrees": partial(_alike, partial(np.multiply, np.pi / 180), None),
    "angles-radians": partial(_alike, partial(np.multiply, 1.0), None),
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
    "tensor6-lower": partial(_matrix, _LOWER),  # dipy, ANTs, NIfTI's symmetric matrices
    "tensor6-upper": partial(_matrix, _UPPER),  # FSL
    "tensor6-diagonal": partial(_matrix, _DIAGONAL),  # MRtrix
    "landmarks": partial(_alike, _landmarks, 2),
    "upper": partial(_matrix, None),
    "counts": partial(_alike, _proportions, None),
}
"""Each form by its name: (name, point_shape) -> Form, or None where no point has that shape.

- `latlon-degrees`, `latlon-radians`: latitude, longitude, on S². `angles-degrees`, `angles-radians`: on a torus.
- `quaternion-wxyz` (scalar first), `quaternion-xyzw` (scalar last): rotations, of any length but 0.
- `rotvec-degrees`, `rotvec-radians`: axis times angle. `axis-angle-degrees`, `axis-angle-radians`: axis, then angle.
- `tensor6-lower`: xx, xy, yy, xz, yz, zz (dipy, ANTs, NIfTI). `tensor6-upper`: xx, xy, xz, yy, yz, zz (FSL).
  `tensor6-diagonal`: xx, yy, zz, xy, xz, yz (MRtrix).
- `upper`: the upper triangle of a symmetric matrix of any size, row by row.
- `landmarks`: k points of the plane in any units (complex numbers are read too). `counts`: numbers ≥ 0, to proportions.
"""
