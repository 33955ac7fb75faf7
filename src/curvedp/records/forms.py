"""Forms: how the numbers in a file describe a point of a manifold.
An example of a form is "latitude and longitude in degrees". It turns each record (a row
of numbers) into a point. A record that is invalid in its form becomes NaN, and an
estimator later replaces it by the center of a public ball. The unit and the order of
the numbers are part of a form's name, because guessing them would mean looking at the
data.
"""

import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from curvedp._validate import choice
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.records.form_columns import (
    COLATITUDE,
    DECLINATION,
    DIP,
    DIP_DIRECTION,
    INCLINATION,
    LATITUDE,
    LONGITUDE,
    PLUNGE,
    TREND,
    OrderTest,
    landmarks_in_order,
    matrix_entries_in_order,
    order_test_against_names,
    order_test_by_patterns,
)
from curvedp.records.form_points import (
    MatrixIndex,
    PointMap,
    centered_unit_landmarks,
    nan_where_invalid,
    normals_from_planes,
    points_from_colatlon,
    points_from_decinc,
    points_from_latlon,
    proportions,
    rotations_from_axis_angle,
    rotations_from_quaternions,
    rotations_from_vectors,
    symmetric_matrices,
)

Shape = tuple[int, ...]

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
        The end of an error message; empty if no form has this many numbers.
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
        order_tests = (order_test_by_patterns(*patterns), *further_tests)
    points_or_nan = partial(nan_where_invalid, points)

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
    return Form(name, point_shape, partial(nan_where_invalid, points))


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

    order_tests: list[OrderTest] = [partial(matrix_entries_in_order, indices)]
    if len(indices) == 6:
        # The columns of a 3 x 3 matrix may be called xx, xy and so on.
        axes = [("xyz"[row], "xyz"[column]) for row, column in indices]
        patterns = [f"({a}{b}|{b}{a})$" for a, b in axes]
        order_tests.append(order_test_by_patterns(*patterns))

    points = partial(nan_where_invalid, partial(symmetric_matrices, indices))
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
    order_tests = (partial(landmarks_in_order, axis_by_axis),)
    if not axis_by_axis:
        points = partial(nan_where_invalid, centered_unit_landmarks)
        return Form(name, point_shape, points, order_tests=order_tests)

    def points_from_axes(records: np.ndarray) -> np.ndarray:
        """Map records of shape (n, 2, k), all x and then all y, to landmarks."""
        return centered_unit_landmarks(records.swapaxes(1, 2))

    points = partial(nan_where_invalid, points_from_axes)
    return Form(name, (2, point_shape[0]), points, order_tests=order_tests)


# The orders in which programs write the six entries of a symmetric 3 x 3 matrix.
LOWER_TRIANGLE = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
UPPER_TRIANGLE = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
DIAGONAL_FIRST = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]

_RADIANS_PER_DEGREE = np.pi / 180


def _latlon_form(radians_per_unit: float) -> FormBuilder:
    """Return the builder of the form "latitude, longitude" for points of S².

    Columns of inclinations (or plunges) and declinations (or trends) may be read in
    this form too; columns of colatitudes, or of the dips of planes, are refused.

    Parameters
    ----------
    radians_per_unit : float
        The unit of angles: 1 for radians, π/180 for degrees.
    """
    refuse_other_angles = order_test_against_names(
        f"{COLATITUDE}|{DIP_DIRECTION}|{DIP}"
    )
    geologists_order = order_test_by_patterns(
        f"{INCLINATION}|{PLUNGE}", f"{DECLINATION}|{TREND}"
    )
    return _form_for_shape(
        (2,),
        (3,),
        partial(points_from_latlon, radians_per_unit),
        LATITUDE,
        LONGITUDE,
        further_tests=(refuse_other_angles, geologists_order),
    )


FORMS: dict[str, FormBuilder] = {
    "latlon-degrees": _latlon_form(_RADIANS_PER_DEGREE),
    "latlon-radians": _latlon_form(1.0),
    "colatlon-degrees": _form_for_shape(
        (2,),
        (3,),
        partial(points_from_colatlon, _RADIANS_PER_DEGREE),
        COLATITUDE,
        LONGITUDE,
        further_tests=(
            order_test_against_names(f"{LATITUDE}|{DIP_DIRECTION}|{DIP}"),
            order_test_against_names(f"{DECLINATION}|{INCLINATION}|{TREND}|{PLUNGE}"),
        ),
    ),
    "decinc-degrees": _form_for_shape(
        (2,),
        (3,),
        partial(points_from_decinc, _RADIANS_PER_DEGREE),
        DECLINATION,
        INCLINATION,
        further_tests=(
            order_test_against_names(f"{COLATITUDE}|{DIP_DIRECTION}|{DIP}"),
            order_test_against_names(f"{LATITUDE}|{LONGITUDE}"),
            order_test_by_patterns(TREND, PLUNGE),
        ),
    ),
    "trend-plunge-degrees": _form_for_shape(
        (2,),
        (3,),
        partial(points_from_decinc, _RADIANS_PER_DEGREE),
        TREND,
        PLUNGE,
        further_tests=(
            order_test_against_names(f"{COLATITUDE}|{DIP_DIRECTION}|{DIP}"),
            order_test_against_names(f"{LATITUDE}|{LONGITUDE}"),
            order_test_by_patterns(DECLINATION, INCLINATION),
        ),
    ),
    "dipdir-dip-degrees": _form_for_shape(
        (2,),
        (3,),
        partial(normals_from_planes, _RADIANS_PER_DEGREE),
        DIP_DIRECTION,
        DIP,
        further_tests=(
            order_test_against_names(f"{DECLINATION}|{INCLINATION}|{TREND}|{PLUNGE}"),
            order_test_against_names(f"{LATITUDE}|{LONGITUDE}|{COLATITUDE}"),
        ),
    ),
    "angles-degrees": partial(_vector_form, partial(np.multiply, _RADIANS_PER_DEGREE)),
    "angles-radians": partial(_vector_form, partial(np.multiply, 1.0)),
    "quaternion-wxyz": _form_for_shape(
        (4,),
        (3, 3),
        partial(rotations_from_quaternions, [0, 1, 2, 3]),
        *("w$", "x$", "y$", "z$"),
    ),
    "quaternion-xyzw": _form_for_shape(
        (4,),
        (3, 3),
        partial(rotations_from_quaternions, [3, 0, 1, 2]),
        *("x$", "y$", "z$", "w$"),
    ),
    "rotvec-degrees": _form_for_shape(
        (3,), (3, 3), partial(rotations_from_vectors, _RADIANS_PER_DEGREE)
    ),
    "rotvec-radians": _form_for_shape(
        (3,), (3, 3), partial(rotations_from_vectors, 1.0)
    ),
    "axis-angle-degrees": _form_for_shape(
        (4,), (3, 3), partial(rotations_from_axis_angle, _RADIANS_PER_DEGREE)
    ),
    "axis-angle-radians": _form_for_shape(
        (4,), (3, 3), partial(rotations_from_axis_angle, 1.0)
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
    "counts": partial(_vector_form, proportions),
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
