"""Forms: how the numbers in a file describe a point of a manifold.
An example of a form is "latitude and longitude in degrees". It turns each record (a row
of numbers) into a point. A record that is invalid in its form becomes NaN, and an
estimator later replaces it by the center of a public ball. The unit and the order of
the numbers are part of a form's name, because guessing them would mean looking at the
data.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from math import prod
from typing import NamedTuple

import numpy as np

from curvedp._validate import choice
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold

Shape = tuple[int, ...]
MatrixIndex = tuple[int, int]

# Maps records, shape (n, *form.shape), to points, shape (n, *point_shape).
PointMap = Callable[[np.ndarray], np.ndarray]

# Says whether columns of these names are in a form's order; None means that the names
# do not tell the order.
OrderTest = Callable[[list[str]], bool | None]

# Builds a form from its name and the shape of a point; None means that the form does
# not describe points of this shape.
FormBuilder = Callable[[str, Shape], "Form | None"]

# A sample record must lie on the manifold up to this residual. The forms compute in
# double precision, so their residuals are a few times 1e-16.
_RESIDUAL_TOLERANCE = 1e-9


class Form(NamedTuple):
    """How a record is written as numbers, and which point these numbers mean.

    Attributes
    ----------
    name : str or None
        The key in `FORMS`; None where a record is written by the entries of its point.
    shape : tuple of int
        The shape of one record as it is written, such as (2,) for latitude and
        longitude.
    points : callable
        Maps records of shape (n, *shape) to points of shape (n, *point_shape).
    sample_record : array, optional
        A valid record, with which `find_form` checks that the form fits a manifold.
        Without it, increasing numbers between 0.3 and 0.8 are taken.
    order_tests : tuple of callables
        Each looks at the names of columns and says whether they are in the form's
        order.
    manifold : Manifold, optional
        The manifold whose points are written.
    """

    name: str | None
    shape: Shape
    points: PointMap
    sample_record: np.ndarray | None = None
    order_tests: tuple[OrderTest, ...] = ()
    manifold: Manifold | None = None

    @property
    def width(self) -> int:
        """The number of numbers of one record."""
        return prod(self.shape)


def find_form(name: str | None, manifold: Manifold) -> Form:
    """Return the form with a given name, for writing points of a manifold.

    Parameters
    ----------
    name : str or None
        A key of `FORMS`. None stands for the entries of the point itself.
    manifold : Manifold
        The space in which the points lie.

    Returns
    -------
    Form
        The form for points of this manifold.

    Raises
    ------
    ParameterError
        If the name is unknown or incomplete (such as "latlon" without a unit), or if
        the form does not produce points of this manifold.
    """
    if name is None:
        return Form(None, manifold.point_shape, lambda x: x, manifold=manifold)

    _refuse_incomplete_name(name)
    build = FORMS[choice("form", name, tuple(FORMS))]
    form = build(name, manifold.point_shape)
    if form is None or not _produces_points_of(manifold, form):
        raise ParameterError(
            f"does not make points of {manifold!r}", parameter="form", value=name
        )
    return form._replace(manifold=manifold)


def _refuse_incomplete_name(name: object) -> None:
    """Refuse the name of a form that leaves out the unit or the order.

    For example, "latlon" does not say whether the numbers are degrees or radians.

    Parameters
    ----------
    name : object
        The name that the caller gives.

    Raises
    ------
    ParameterError
        If the name is only the beginning of names of forms. The message lists these.
    """
    if not isinstance(name, str) or name in FORMS:
        return
    completions = [full for full in FORMS if full.startswith(f"{name}-")]
    if completions:
        options = ", ".join(map(repr, completions))
        raise ParameterError(
            f"does not say enough; it is one of {options}", parameter="form", value=name
        )


def suggest_forms(width: int, form: Form) -> str:
    """Return advice for an error message: the forms with `width` numbers per record.

    Parameters
    ----------
    width : int
        How many numbers each record of the caller has.
    form : Form
        The form that the caller chose. If it has a name the text is empty, because then
        the caller has already decided.

    Returns
    -------
    str
        The end of an error message; empty if no form has so many numbers.
    """
    if form.name is not None or form.manifold is None:
        return ""
    names = [
        candidate.name
        for candidate in _forms_for_shape(form.manifold.point_shape)
        if candidate.name is not None
        and candidate.width == width
        and _produces_points_of(form.manifold, candidate)
    ]
    if not names:
        return ""
    return f"; or say what a row is by its form ({', '.join(names)})"


def check_order(source_name: str, form: Form, names: Sequence[str | int]) -> None:
    """Refuse columns whose names show that they are in the wrong order for a form.

    An example is a file with the columns lon, lat that is read as latitude and
    longitude.

    Parameters
    ----------
    source_name : str
        The name of the table in error messages.
    form : Form
        The form whose order is expected.
    names : sequence of str or int
        The public names of the columns, in the order in which they are read.

    Raises
    ------
    ParameterError
        If the names tell that the order is another one. The message names forms with
        this order, if there are any.
    """
    if _is_in_order(form, names) is not False:
        return
    rule = (
        f"does not agree with the names of the columns of {source_name}: name the columns "
        "in the order of the form"
    )
    matching_forms = _forms_in_order(form, names)
    if matching_forms:
        rule += f", or choose {' or '.join(matching_forms)}, whose columns they are"
    raise ParameterError(rule, parameter="form", value=form.name)


def _is_in_order(form: Form, names: Sequence[str | int]) -> bool | None:
    """Return whether columns are in a form's order; None if their names do not tell.

    Parameters
    ----------
    form : Form
        The form, which knows the usual names of its columns.
    names : sequence
        The names of the columns, in their order.

    Returns
    -------
    bool or None
        The answer of the first test of the form that knows these names.
    """
    normalized_names = [
        unicodedata.normalize("NFKC", str(name)).strip().casefold() for name in names
    ]
    for order_test in form.order_tests:
        is_in_order = order_test(normalized_names)
        if is_in_order is not None:
            return is_in_order
    return None


def _forms_in_order(form: Form, names: Sequence[str | int]) -> list[str]:
    """Return the names of forms of the same points that have the columns' order.

    Parameters
    ----------
    form : Form
        The form that the caller chose.
    names : sequence
        The names of the columns, in their order.

    Returns
    -------
    list of str
        The names of the forms.
    """
    if form.manifold is None:
        return []
    return [
        candidate.name
        for candidate in _forms_for_shape(form.manifold.point_shape)
        if candidate.name is not None
        and candidate.width == form.width
        and _is_in_order(candidate, names)
    ]


def _forms_for_shape(point_shape: Shape) -> list[Form]:
    """Return all forms in which points of a shape can be written.

    Parameters
    ----------
    point_shape : tuple of int
        The shape of one point.
    """
    candidates = [build(name, point_shape) for name, build in FORMS.items()]
    return [form for form in candidates if form is not None]


def _produces_points_of(manifold: Manifold, form: Form) -> bool:
    """Return whether a form describes points of a manifold, by trying one record.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    form : Form
        How a record is written.
    """
    record = form.sample_record
    if record is None:
        record = np.linspace(0.3, 0.8, form.width)
    points = form.points(record.reshape(1, *form.shape))
    return bool(np.all(manifold.residual(points) < _RESIDUAL_TOLERANCE))


# ---- maps from records to points -----------------------------------------------------


def _nan_where_invalid(points: PointMap, records: np.ndarray) -> np.ndarray:
    """Map records to points, with NaN for each record that has no finite point.

    No record raises an error or a warning, and each point depends on its own record
    alone.

    Parameters
    ----------
    points : callable
        Maps records, shape (n, *shape), to points.
    records : array
        The records as they were written.

    Returns
    -------
    array, shape (n, *point_shape)
        The points.
    """
    with np.errstate(all="ignore"):
        images = points(records)
    is_valid = _has_finite_entries(records) & _has_finite_entries(images)
    images[~is_valid] = np.nan
    return images


def _has_finite_entries(rows: np.ndarray) -> np.ndarray:
    """Return whether all entries of each row are finite.

    Parameters
    ----------
    rows : array, shape (n, ...)
        The rows, along the first axis; a row may have several axes.

    Returns
    -------
    array of bool, shape (n,)
        One truth value for each row.
    """
    return np.asarray(np.isfinite(rows).all(axis=tuple(range(1, rows.ndim))))


def _points_from_latlon(radians_per_unit: float, records: np.ndarray) -> np.ndarray:
    """Map pairs (latitude, longitude) to points of the unit sphere in R³.

    Latitude 0, longitude 0 is mapped to (1, 0, 0), and the north pole to (0, 0, 1). A
    latitude beyond a pole does not exist and becomes NaN.

    Parameters
    ----------
    radians_per_unit : float
        The unit of angles: 1 for radians, π/180 for degrees.
    records : array, shape (n, 2)
        Latitudes and longitudes.

    Returns
    -------
    array, shape (n, 3)
        The points.
    """
    latitude = records[:, 0]
    is_valid = np.abs(latitude) * radians_per_unit <= np.pi / 2
    lat = np.where(is_valid, latitude, np.nan) * radians_per_unit
    lon = records[:, 1] * radians_per_unit

    x = np.cos(lat) * np.cos(lon)
    y = np.cos(lat) * np.sin(lon)
    z = np.sin(lat)
    return np.stack([x, y, z], axis=-1)


def _points_from_colatlon(radians_per_unit: float, records: np.ndarray) -> np.ndarray:
    """Map pairs (colatitude, longitude) to points of the unit sphere in R³.

    The colatitude is the angle from the north pole (0, 0, 1). A colatitude outside 0°
    to 180° does not exist, and such a record becomes NaN.

    Parameters
    ----------
    radians_per_unit : float
        The unit of angles: 1 for radians, π/180 for degrees.
    records : array, shape (n, 2)
        Colatitudes and longitudes.

    Returns
    -------
    array, shape (n, 3)
        The points.
    """
    colat = _valid_from_0_to_pi(records[:, 0] * radians_per_unit)
    lon = records[:, 1] * radians_per_unit

    x = np.sin(colat) * np.cos(lon)
    y = np.sin(colat) * np.sin(lon)
    z = np.cos(colat)
    return np.stack([x, y, z], axis=-1)


def _points_from_decinc(radians_per_unit: float, records: np.ndarray) -> np.ndarray:
    """Map pairs (declination, inclination) to unit vectors (north, east, down).

    The declination is clockwise from north, and the inclination is positive downward,
    as in paleomagnetism; so are the trend and the plunge of a line. An inclination
    beyond ±90° does not exist and becomes NaN.

    Parameters
    ----------
    radians_per_unit : float
        The unit of angles: 1 for radians, π/180 for degrees.
    records : array, shape (n, 2)
        Declinations and inclinations.

    Returns
    -------
    array, shape (n, 3)
        The unit vectors.
    """
    return _points_from_latlon(radians_per_unit, records[:, ::-1])


def _normals_from_planes(radians_per_unit: float, records: np.ndarray) -> np.ndarray:
    """Map pairs (dip direction, dip) to the planes' upward normals (north, east, down).

    The dip direction is clockwise from north. Dips beyond 90° belong to overturned
    beds; a dip outside 0° to 180° does not exist, and such a record becomes NaN.

    Parameters
    ----------
    radians_per_unit : float
        The unit of angles: 1 for radians, π/180 for degrees.
    records : array, shape (n, 2)
        Dip directions and dips.

    Returns
    -------
    array, shape (n, 3)
        The unit normals.
    """
    azimuth = records[:, 0] * radians_per_unit
    dip = _valid_from_0_to_pi(records[:, 1] * radians_per_unit)

    north = np.sin(dip) * np.cos(azimuth)
    east = np.sin(dip) * np.sin(azimuth)
    down = -np.cos(dip)
    return np.stack([north, east, down], axis=-1)


def _valid_from_0_to_pi(angles: np.ndarray) -> np.ndarray:
    """Return angles in radians, with NaN for those outside 0 to π.

    Parameters
    ----------
    angles : array
        Angles in radians, such as colatitudes or dips.
    """
    is_valid = (angles >= 0) & (angles <= np.pi)
    return np.asarray(np.where(is_valid, angles, np.nan))


def _rotations_from_quaternions(order: list[int], records: np.ndarray) -> np.ndarray:
    """Map nonzero quaternions, of any length, to rotation matrices.

    Parameters
    ----------
    order : list of int
        Positions of w (the scalar part), x, y and z in a record.
    records : array, shape (n, 4)
        The quaternions; q and -q are the same rotation.

    Returns
    -------
    array, shape (n, 3, 3)
        The rotation v -> q v q⁻¹ of each quaternion.
    """
    # Dividing by the largest entry first keeps the squares from overflowing.
    scaled = records / np.max(np.abs(records), axis=1, keepdims=True)
    lengths = np.sqrt(np.sum(scaled * scaled, axis=1, keepdims=True))
    w, x, y, z = (scaled / lengths)[:, order].T
    # fmt: off
    entries = [
        1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
        2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
        2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y),
    ]
    # fmt: on
    return np.stack(entries, axis=-1).reshape(-1, 3, 3)


def _rotations_from_vectors(radians_per_unit: float, vectors: np.ndarray) -> np.ndarray:
    """Map rotation vectors (axis times angle) to rotation matrices.

    The rotation has the quaternion (cos h, sin(h)/h · vector/2), where h is half the
    angle.

    Parameters
    ----------
    radians_per_unit : float
        The unit of angles: 1 for radians, π/180 for degrees.
    vectors : array, shape (n, 3)
        The rotation vectors.

    Returns
    -------
    array, shape (n, 3, 3)
        The rotations.
    """
    angles = np.sqrt(np.sum(vectors * vectors, axis=1, keepdims=True))
    half_angles = angles * radians_per_unit / 2
    # np.sinc(t) is sin(πt)/(πt), and 1 at 0.
    sine_ratio = np.sinc(half_angles / np.pi)
    vector_part = sine_ratio * vectors * radians_per_unit / 2
    quaternions = np.hstack([np.cos(half_angles), vector_part])
    return _rotations_from_quaternions([0, 1, 2, 3], quaternions)


def _rotations_from_axis_angle(
    radians_per_unit: float, records: np.ndarray
) -> np.ndarray:
    """Map rotations, each an axis and an angle, to rotation matrices.

    The axis may have any length but 0.

    Parameters
    ----------
    radians_per_unit : float
        The unit of angles: 1 for radians, π/180 for degrees.
    records : array, shape (n, 4)
        The axis of each rotation, then its angle.

    Returns
    -------
    array, shape (n, 3, 3)
        The rotations.
    """
    axes = records[:, :3]
    angles = records[:, 3:]
    scaled = axes / np.max(np.abs(axes), axis=1, keepdims=True)
    unit_axes = scaled / np.sqrt(np.sum(scaled * scaled, axis=1, keepdims=True))
    return _rotations_from_vectors(radians_per_unit, unit_axes * angles)


def _symmetric_matrices(indices: list[MatrixIndex], records: np.ndarray) -> np.ndarray:
    """Build symmetric matrices from the entries of one triangle.

    Parameters
    ----------
    indices : list of (row, column)
        For each number of a record, its place in the matrix, from 0. The mirrored entry
        gets the same value.
    records : array, shape (n, len(indices))
        The entries of each matrix.

    Returns
    -------
    array, shape (n, size, size)
        The matrices. Their size follows from the largest index.
    """
    rows, columns = np.array(indices).T
    size = 1 + max(rows.max(), columns.max())
    matrices = np.empty((len(records), size, size))
    matrices[:, rows, columns] = records
    matrices[:, columns, rows] = records
    return matrices


def _centered_unit_landmarks(landmarks: np.ndarray) -> np.ndarray:
    """Move landmarks of the plane to mean 0, and scale them to Frobenius norm 1.

    Only their shape and rotation remain. If all landmarks of a record are the same
    point, they have no shape and become NaN (by 0/0).

    Parameters
    ----------
    landmarks : array of shape (n, k, 2)
        The landmarks of each record.

    Returns
    -------
    array of shape (n, k, 2)
        The landmarks as points of the preshape sphere.
    """
    # Subtracting the first landmark and dividing by the largest coordinate keeps the
    # later sums accurate and finite.
    relative = landmarks - landmarks[:, :1]
    scaled = relative / np.max(np.abs(relative), axis=(1, 2), keepdims=True)
    centered = scaled - scaled.mean(axis=1, keepdims=True)
    norms = np.sqrt(np.sum(centered * centered, axis=(1, 2), keepdims=True))
    return np.asarray(centered / norms)


def _proportions(counts: np.ndarray) -> np.ndarray:
    """Divide the counts of each record by their sum.

    Parameters
    ----------
    counts : array, shape (n, k)
        The counts of each record. A record with a negative count becomes NaN.

    Returns
    -------
    array, shape (n, k)
        Proportions, which are points of the simplex.
    """
    nonnegative_counts = np.where(counts >= 0, counts, np.nan)
    # Dividing by the largest count first keeps the sum from overflowing.
    shares = nonnegative_counts / np.max(counts, axis=1, keepdims=True)
    return np.asarray(shares / np.sum(shares, axis=1, keepdims=True))


# ---- the order of columns, as their names tell it ------------------------------------


def _order_by_patterns(*patterns: str) -> OrderTest:
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


def _landmarks_in_order(axis_by_axis: bool, names: list[str]) -> bool | None:
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


def _matrix_entries_in_order(
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


# ---- builders ------------------------------------------------------------------------


def _form_for_shape(
    shape: Shape,
    point_shape: Shape,
    points: PointMap,
    *patterns: str,
    further_tests: tuple[OrderTest, ...] = (),
) -> FormBuilder:
    """Return a function that builds a form, for points of one shape only.

    Parameters
    ----------
    shape : tuple of int
        The shape of one record in this form, such as (2,) for a pair of numbers.
    point_shape : tuple of int
        The only shape of a point for which the form is built.
    points : callable
        Maps records to points.
    *patterns : str
        Regular expressions for the names of the columns, in order; none if the names do
        not show the order.
    further_tests : tuple of callables
        Tests of other names that these columns may have.

    Returns
    -------
    callable
        It takes the form's name and the shape of a point, and returns the form, or None
        for points of another shape.
    """
    order_tests = further_tests
    if patterns:
        order_tests = (_order_by_patterns(*patterns), *further_tests)
    points_or_nan = partial(_nan_where_invalid, points)

    def build(name: str, wanted_shape: Shape) -> Form | None:
        """Return the form, or None for points of another shape.

        Parameters
        ----------
        name : str
            The name of the form.
        wanted_shape : tuple of int
            The shape of a point of the caller's manifold.
        """
        if wanted_shape != point_shape:
            return None
        return Form(name, shape, points_or_nan, order_tests=order_tests)

    return build


def _vector_form(points: PointMap, name: str, point_shape: Shape) -> Form | None:
    """Return a form for points that are vectors, with one number for each entry.

    Parameters
    ----------
    points : callable
        Maps records to points, such as angles in degrees to radians.
    name : str
        The name of the form.
    point_shape : tuple of int
        The shape of a point. The form is None unless points are vectors.
    """
    if len(point_shape) != 1:
        return None
    return Form(name, point_shape, partial(_nan_where_invalid, points))


def _form_of_six_numbers(
    indices: list[MatrixIndex], name: str, point_shape: Shape
) -> Form | None:
    """Return a form of six numbers for symmetric 3 x 3 matrices.

    Parameters
    ----------
    indices : list of (row, column)
        The place of each number in the matrix, from 0.
    name : str
        The name of the form.
    point_shape : tuple of int
        The shape of a point. The form is None unless this is (3, 3).
    """
    if point_shape != (3, 3):
        return None
    return _symmetric_form(indices, name)


def _triangle_form(is_upper: bool, name: str, point_shape: Shape) -> Form | None:
    """Return the form that writes a symmetric matrix as one triangle, row by row.

    Parameters
    ----------
    is_upper : bool
        Whether the upper triangle is written; otherwise the lower.
    name : str
        The name of the form.
    point_shape : tuple of int
        The shape of one point.

    Returns
    -------
    Form or None
        None if points are not square matrices.
    """
    if len(point_shape) != 2 or point_shape[0] != point_shape[1]:
        return None
    return _symmetric_form(triangle_entries(point_shape[0], is_upper=is_upper), name)


def triangle_entries(size: int, *, is_upper: bool) -> list[MatrixIndex]:
    """List the entries of one triangle of a square matrix, row by row.

    Parameters
    ----------
    size : int
        The number of rows of the matrix.
    is_upper : bool
        Whether the upper triangle is listed; otherwise the lower. Both contain the
        diagonal.

    Returns
    -------
    list of (row, column)
        The positions of the entries, from 0.
    """
    entries = []
    for row in range(size):
        columns = range(row, size) if is_upper else range(row + 1)
        entries += [(row, column) for column in columns]
    return entries


def _symmetric_form(indices: list[MatrixIndex], name: str) -> Form:
    """Return the form that writes a symmetric matrix as the entries of one triangle.

    Parameters
    ----------
    indices : list of (row, column)
        The place of each number in the matrix, from 0.
    name : str
        The name of the form.

    Returns
    -------
    Form
        The form. It knows names of columns such as "xx", "C21" or "c_1_2".
    """
    # A sample record: ones on the diagonal and small entries beside it give a positive
    # definite matrix.
    is_diagonal = np.array([row == column for row, column in indices])
    near_identity = np.where(is_diagonal, 1.0, 0.1 / len(indices))

    order_tests: list[OrderTest] = [partial(_matrix_entries_in_order, indices)]
    if len(indices) == 6:
        # The columns of a 3 x 3 matrix may be called xx, xy and so on.
        axes = [("xyz"[row], "xyz"[column]) for row, column in indices]
        patterns = [f"({a}{b}|{b}{a})$" for a, b in axes]
        order_tests.append(_order_by_patterns(*patterns))

    points = partial(_nan_where_invalid, partial(_symmetric_matrices, indices))
    return Form(name, (len(indices),), points, near_identity, tuple(order_tests))


def _landmark_form(axis_by_axis: bool, name: str, point_shape: Shape) -> Form | None:
    """Return the form that writes k landmarks in the plane as 2k coordinates.

    Parameters
    ----------
    axis_by_axis : bool
        Whether the order is x1, x2, …, y1, y2, … rather than x1, y1, x2, y2, …
    name : str
        The name of the form.
    point_shape : tuple of int
        The shape of a point: (k, 2).

    Returns
    -------
    Form or None
        None if points have another shape.
    """
    if len(point_shape) != 2 or point_shape[1] != 2:
        return None
    order_tests = (partial(_landmarks_in_order, axis_by_axis),)
    if not axis_by_axis:
        points = partial(_nan_where_invalid, _centered_unit_landmarks)
        return Form(name, point_shape, points, order_tests=order_tests)

    def points_from_axes(records: np.ndarray) -> np.ndarray:
        """Map records of shape (n, 2, k), all x and then all y, to landmarks."""
        return _centered_unit_landmarks(records.swapaxes(1, 2))

    points = partial(_nan_where_invalid, points_from_axes)
    return Form(name, (2, point_shape[0]), points, order_tests=order_tests)


# The orders in which programs write the six entries of a symmetric 3 x 3 matrix.
LOWER_TRIANGLE = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
UPPER_TRIANGLE = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
DIAGONAL_FIRST = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]

_RADIANS_PER_DEGREE = np.pi / 180

# What latitudes and longitudes are called in headers: English and most Romance
# languages, German, Dutch, Scandinavian, Finnish, Polish, Czech, Hungarian, Turkish,
# Russian, Greek, Chinese and Japanese, Korean.
_LATITUDE = (
    "(?<!co)(?<!co-)lat|(?<!ko)breite|breedte|bredd|leveys|szeroko|šířka|sirka|széless|szeless|enlem|широт|πλάτο"
    "|πλατο|纬度|緯度|위도|^φ$|^phi$"
)
_LONGITUDE = (
    "lo?n|länge|laenge|lengte|lengde|længde|längd|pituus|długo|dlugo|délka|delka|hosszú"
    "|hosszu|boylam|долгот|μήκο|μηκο|经度|經度|経度|경도|^λ$|^lambda$"
)


# What geologists call the angles of directions and planes. An abbreviation such as
# "dec." ends there or goes on as "decl…".
_COLATITUDE = "co-?lat|kobreite|ko-?lat|polabstand"
_DECLINATION = "d[eé][ck](l|[^a-z]|$)|偏角"
_INCLINATION = "in[ck](l|[^a-z]|$)|伏角"
_TREND = "trend|azim|plunge.?az|^az([^a-z]|$)|streichrichtung|abtauchrichtung"
_PLUNGE = "plunge(?!.?az)|abtauchen|abtauchwinkel"
_DIP_DIRECTION = "dip.?dir|dip.?az|fallrichtung|einfallsrichtung"
_DIP = "^dip(?!.?(dir|az))|^(ein)?fallen|fallwinkel|einfallswinkel|buzamiento|pendage"


def _refuse_names(pattern: str) -> OrderTest:
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


def _latlon_form(radians_per_unit: float) -> FormBuilder:
    """Return the builder of the form "latitude, longitude" for points of S².

    Columns of inclinations (or plunges) and declinations (or trends) may be read in
    this form too; columns of colatitudes, or of the dips of planes, are refused.

    Parameters
    ----------
    radians_per_unit : float
        The unit of angles: 1 for radians, π/180 for degrees.
    """
    refuse_other_angles = _refuse_names(f"{_COLATITUDE}|{_DIP_DIRECTION}|{_DIP}")
    geologists_order = _order_by_patterns(
        f"{_INCLINATION}|{_PLUNGE}", f"{_DECLINATION}|{_TREND}"
    )
    return _form_for_shape(
        (2,),
        (3,),
        partial(_points_from_latlon, radians_per_unit),
        _LATITUDE,
        _LONGITUDE,
        further_tests=(refuse_other_angles, geologists_order),
    )


FORMS: dict[str, FormBuilder] = {
    "latlon-degrees": _latlon_form(_RADIANS_PER_DEGREE),
    "latlon-radians": _latlon_form(1.0),
    "colatlon-degrees": _form_for_shape(
        (2,),
        (3,),
        partial(_points_from_colatlon, _RADIANS_PER_DEGREE),
        _COLATITUDE,
        _LONGITUDE,
        further_tests=(
            _refuse_names(f"{_LATITUDE}|{_DIP_DIRECTION}|{_DIP}"),
            _refuse_names(f"{_DECLINATION}|{_INCLINATION}|{_TREND}|{_PLUNGE}"),
        ),
    ),
    "decinc-degrees": _form_for_shape(
        (2,),
        (3,),
        partial(_points_from_decinc, _RADIANS_PER_DEGREE),
        _DECLINATION,
        _INCLINATION,
        further_tests=(
            _refuse_names(f"{_COLATITUDE}|{_DIP_DIRECTION}|{_DIP}"),
            _refuse_names(f"{_LATITUDE}|{_LONGITUDE}"),
            _order_by_patterns(_TREND, _PLUNGE),
        ),
    ),
    "trend-plunge-degrees": _form_for_shape(
        (2,),
        (3,),
        partial(_points_from_decinc, _RADIANS_PER_DEGREE),
        _TREND,
        _PLUNGE,
        further_tests=(
            _refuse_names(f"{_COLATITUDE}|{_DIP_DIRECTION}|{_DIP}"),
            _refuse_names(f"{_LATITUDE}|{_LONGITUDE}"),
            _order_by_patterns(_DECLINATION, _INCLINATION),
        ),
    ),
    "dipdir-dip-degrees": _form_for_shape(
        (2,),
        (3,),
        partial(_normals_from_planes, _RADIANS_PER_DEGREE),
        _DIP_DIRECTION,
        _DIP,
        further_tests=(
            _refuse_names(f"{_DECLINATION}|{_INCLINATION}|{_TREND}|{_PLUNGE}"),
            _refuse_names(f"{_LATITUDE}|{_LONGITUDE}|{_COLATITUDE}"),
        ),
    ),
    "angles-degrees": partial(_vector_form, partial(np.multiply, _RADIANS_PER_DEGREE)),
    "angles-radians": partial(_vector_form, partial(np.multiply, 1.0)),
    "quaternion-wxyz": _form_for_shape(
        (4,),
        (3, 3),
        partial(_rotations_from_quaternions, [0, 1, 2, 3]),
        *("w$", "x$", "y$", "z$"),
    ),
    "quaternion-xyzw": _form_for_shape(
        (4,),
        (3, 3),
        partial(_rotations_from_quaternions, [3, 0, 1, 2]),
        *("x$", "y$", "z$", "w$"),
    ),
    "rotvec-degrees": _form_for_shape(
        (3,), (3, 3), partial(_rotations_from_vectors, _RADIANS_PER_DEGREE)
    ),
    "rotvec-radians": _form_for_shape(
        (3,), (3, 3), partial(_rotations_from_vectors, 1.0)
    ),
    "axis-angle-degrees": _form_for_shape(
        (4,), (3, 3), partial(_rotations_from_axis_angle, _RADIANS_PER_DEGREE)
    ),
    "axis-angle-radians": _form_for_shape(
        (4,), (3, 3), partial(_rotations_from_axis_angle, 1.0)
    ),
    # The order of dipy, ANTs and NIfTI's symmetric matrices, that of FSL, that of
    # MRtrix.
    "tensor6-lower": partial(_form_of_six_numbers, LOWER_TRIANGLE),
    "tensor6-upper": partial(_form_of_six_numbers, UPPER_TRIANGLE),
    "tensor6-diagonal": partial(_form_of_six_numbers, DIAGONAL_FIRST),
    "landmarks": partial(_landmark_form, False),
    "landmarks-xxyy": partial(_landmark_form, True),
    "upper": partial(_triangle_form, True),
    "lower": partial(_triangle_form, False),
    "counts": partial(_vector_form, _proportions),
}
"""The builder of each form by the form's name.

A builder takes the name and the shape of a point, and returns a `Form`, or None if
points of this shape cannot be written in it.

- `latlon-degrees`, `latlon-radians`: latitude, longitude, on S².
- `colatlon-degrees`: colatitude (the angle from the north pole), longitude, on S².
- `decinc-degrees`: declination and inclination of a direction, clockwise from north and
  positive downward; its point on S² is (north, east, down).
- `trend-plunge-degrees`: trend and plunge of a line with a sense, read in the same way.
- `dipdir-dip-degrees`: dip direction and dip of a plane; its point on S² is the upward
  normal (north, east, down).
- `angles-degrees`, `angles-radians`: angles, on a torus.
- `quaternion-wxyz` (scalar first), `quaternion-xyzw` (scalar last): rotations, by
  quaternions of any length but 0.
- `rotvec-degrees`, `rotvec-radians`: rotations, by axis times angle.
- `axis-angle-degrees`, `axis-angle-radians`: rotations, by an axis and then the angle.
- `tensor6-lower`: xx, xy, yy, xz, yz, zz (dipy, ANTs, NIfTI).
- `tensor6-upper`: xx, xy, xz, yy, yz, zz (FSL).
- `tensor6-diagonal`: xx, yy, zz, xy, xz, yz (MRtrix).
- `upper`, `lower`: one triangle of a symmetric matrix of any size, with the diagonal, row
  by row.
- `landmarks`: k points of the plane in any unit, x1, y1, x2, y2, … (complex numbers are
  read too).
- `landmarks-xxyy`: the same, with all x first and then all y.
- `counts`: numbers >= 0, which become proportions.
"""
