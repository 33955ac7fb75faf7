"""Writing released points in the same form as the records, such as degrees.
A form is a way to write a point of a manifold as numbers. `curvedp.records.forms` reads
the numbers of a record as a point; the functions here turn a point back into such
numbers, with a name for each. Everything is about released points, so it is
post-processing and costs no privacy.
"""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import scipy  # scipy.spatial is loaded by its first use

from curvedp.geometry import KendallShapes
from curvedp.geometry.manifold import Manifold
from curvedp.records.form_points import MatrixIndex
from curvedp.records.forms import (
    DIAGONAL_FIRST,
    FORMS,
    LOWER_TRIANGLE,
    UPPER_TRIANGLE,
    triangle_entries,
)

# A point of at most this many numbers is written as a sentence, in the records' form.
_MAX_IN_SENTENCE = 6

# How far from its space a released point may be by rounding.
_POINT_TOLERANCE = 1e-8

# Maps one point to the numbers of a record.
NumberMap = Callable[[np.ndarray], np.ndarray]


class OutputForm(NamedTuple):
    """How a released point is written.

    Attributes
    ----------
    name : str or None
        The name of the form of the records; None for the entries of the point.
    columns : tuple of str
        A name for each number.
    numbers : callable
        Maps a point to these numbers.
    """

    name: str | None
    columns: tuple[str, ...]
    numbers: NumberMap

    def sentence(self, point: np.ndarray) -> str:
        """Return a point as text, such as "latitude -27.52°, longitude 113.4°".

        Parameters
        ----------
        point : array of shape point_shape
            A released point.

        Returns
        -------
        str
            Names and numbers with six digits.
        """
        is_in_degrees = self.name is not None and "degrees" in self.name
        phrases = []
        for column, number in zip(self.columns, self.numbers(point), strict=True):
            # The axis of a rotation is a unit vector, whose entries are not angles.
            is_angle = not column.startswith("axis")
            degree_sign = "°" if is_in_degrees and is_angle else ""
            phrases.append(f"{_name_without_unit(column)} {number:.6g}{degree_sign}")
        return ", ".join(phrases)


def output_form(name: str | None, manifold: Manifold) -> OutputForm:
    """Return how released points are written in a form, such as "latlon-degrees".

    Parameters
    ----------
    name : str or None
        A key of `curvedp.records.forms.FORMS` that suits the manifold. For None, and
        for forms that lose information such as "counts", the entries of a point are
        written.
    manifold : Manifold
        The space in which the released points lie.

    Returns
    -------
    OutputForm
        The names of the numbers, and the map from a point to them.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> form = output_form("latlon-degrees", Sphere(2))
    >>> form.sentence(np.array([0.0, 1.0, 0.0]))
    'latitude 0°, longitude 90°'
    """
    if name in _DIRECTION_COLUMNS:
        columns, numbers = _DIRECTION_COLUMNS[name]
        return OutputForm(name, columns, numbers)
    if name in _FORMS_OF_ANGLES:
        return _angle_output(name, manifold)
    if name in ("quaternion-wxyz", "quaternion-xyzw"):
        order = name.removeprefix("quaternion-")
        return OutputForm(name, tuple(order), partial(_quaternion, order))
    if name in ("landmarks", "landmarks-xxyy"):
        return _landmark_output(name, manifold)

    indices = _triangle_indices(name, manifold)
    if indices is not None:
        return _triangle_output(name, indices)
    return OutputForm(None, _entry_names(manifold.point_shape), np.ravel)


# The forms that exist in degrees and in radians.
_FORMS_OF_ANGLES = frozenset(
    f"{quantity}-{unit}"
    for quantity in ("latlon", "angles", "rotvec", "axis-angle")
    for unit in ("degrees", "radians")
)


def _angle_output(name: str, manifold: Manifold) -> OutputForm:
    """Return how points are written in a form of angles, in degrees or radians.

    Parameters
    ----------
    name : str
        The name of the form, such as "rotvec-degrees".
    manifold : Manifold
        The space of the points, whose dimension is the number of angles on a torus.

    Returns
    -------
    OutputForm
        Names of columns that end in the unit, and the map from a point to the numbers.
    """
    quantity, _, unit = name.rpartition("-")
    units_per_radian = 180 / np.pi if unit == "degrees" else 1.0
    if quantity == "latlon":
        columns: tuple[str, ...] = (f"latitude_{unit}", f"longitude_{unit}")
        numbers: NumberMap = partial(_latitude_longitude, units_per_radian)
    elif quantity == "angles":
        columns = tuple(f"angle{k}_{unit}" for k in range(1, manifold.dim + 1))
        numbers = partial(np.multiply, units_per_radian)
    elif quantity == "rotvec":
        columns = tuple(f"rotation_{axis}_{unit}" for axis in "xyz")
        numbers = partial(_rotation_vector, units_per_radian)
    else:
        columns = ("axis_x", "axis_y", "axis_z", f"angle_{unit}")
        numbers = partial(_axis_angle, units_per_radian)
    return OutputForm(name, columns, numbers)


def form_of_columns(columns: tuple[str, ...], manifold: Manifold) -> str | None:
    """Return the name of the form in which a file of released points is written.

    Parameters
    ----------
    columns : tuple of str
        The names of the file's columns, such as ("latitude_degrees", ...).
    manifold : Manifold
        The space in which the points lie.

    Returns
    -------
    str or None
        None if no form has these columns.
    """
    for name, build in FORMS.items():
        if build(name, manifold.point_shape) is None:
            continue
        candidate = output_form(name, manifold)
        if candidate.name == name and candidate.columns == columns:
            return name
    return None


def align_shape(landmarks: np.ndarray, reference: np.ndarray | None) -> np.ndarray:
    """Rotate landmarks in the plane so that they match a reference as well as possible.

    Their shape does not change.

    Parameters
    ----------
    landmarks : array, shape (k, 2)
        The landmarks, with mean 0.
    reference : array, shape (k, 2), or None
        Another shape with the same landmarks, such as the public center. Without one,
        the first landmark comes to lie on the positive x axis.

    Returns
    -------
    array, shape (k, 2)
        The rotated landmarks.
    """
    # As complex numbers z with target t, the best rotation is the phase of Σ t·z̄.
    points = landmarks[:, 0] + 1j * landmarks[:, 1]
    target = np.zeros(len(points), dtype=complex)
    target[0] = 1.0
    if reference is not None:
        target = reference[:, 0] + 1j * reference[:, 1]
    product = np.sum(target * np.conj(points))
    if product == 0:  # every rotation fits equally well
        return landmarks
    rotated = points * product / abs(product)
    aligned = np.stack([rotated.real, rotated.imag], axis=-1)
    if reference is None:
        aligned[0, 1] = 0.0  # exactly, where rounding has left a number such as 1e-19
    return aligned


def _name_without_unit(column: str) -> str:
    """Return the name of a column without its unit and with spaces.

    Parameters
    ----------
    column : str
        The name of a column of a file, such as "latitude_degrees".
    """
    return column.removesuffix("_degrees").removesuffix("_radians").replace("_", " ")


def _latitude_longitude(units_per_radian: float, point: np.ndarray) -> np.ndarray:
    """Return the latitude and the longitude of a point of the unit sphere in R³.

    Parameters
    ----------
    units_per_radian : float
        The unit of the result: 1 for radians, 180/π for degrees.
    point : array of shape (3,)
        The point; (0, 0, 1) is the north pole.
    """
    x, y, z = point
    latitude = np.arctan2(z, np.hypot(x, y))
    return units_per_radian * np.array([latitude, np.arctan2(y, x)])


def _colatitude_longitude(point: np.ndarray) -> np.ndarray:
    """Return the angle of a point from the north pole and its longitude, in degrees.

    Parameters
    ----------
    point : array of shape (3,)
        A point of the unit sphere; (0, 0, 1) is the north pole.
    """
    x, y, z = point
    return np.degrees([np.arctan2(np.hypot(x, y), z), np.arctan2(y, x)])


def _declination_inclination(point: np.ndarray) -> np.ndarray:
    """Return the declination and the inclination of a direction, in degrees.

    Parameters
    ----------
    point : array of shape (3,)
        A unit vector (north, east, down).

    Returns
    -------
    array of shape (2,)
        The declination is clockwise from north, from 0° to 360°; the inclination is
        positive downward.
    """
    latitude, longitude = _latitude_longitude(180 / np.pi, point)
    return np.array([longitude % 360.0, latitude])


def _dip_direction_dip(normal: np.ndarray) -> np.ndarray:
    """Return the dip direction and the dip of a plane, in degrees.

    Parameters
    ----------
    normal : array of shape (3,)
        The unit vector (north, east, down) that is normal to the plane and points
        upward, or downward where the dip of an overturned bed exceeds 90°.

    Returns
    -------
    array of shape (2,)
        The dip direction is clockwise from north, from 0° to 360°.
    """
    north, east, down = normal
    dip = np.degrees(np.arctan2(np.hypot(north, east), -down))
    return np.array([np.degrees(np.arctan2(east, north)) % 360.0, dip])


# For each form of directions as geologists write them: the names of the numbers, and
# how they follow from a point.
_DIRECTION_COLUMNS: dict[str, tuple[tuple[str, ...], NumberMap]] = {
    "colatlon-degrees": (
        ("colatitude_degrees", "longitude_degrees"),
        _colatitude_longitude,
    ),
    "decinc-degrees": (
        ("declination_degrees", "inclination_degrees"),
        _declination_inclination,
    ),
    "trend-plunge-degrees": (
        ("trend_degrees", "plunge_degrees"),
        _declination_inclination,
    ),
    "dipdir-dip-degrees": (
        ("dip_direction_degrees", "dip_degrees"),
        _dip_direction_dip,
    ),
}


def _quaternion(order: str, rotation: np.ndarray) -> np.ndarray:
    """Return the unit quaternion of a rotation matrix, with scalar part w ≥ 0.

    Parameters
    ----------
    order : {"wxyz", "xyzw"}
        Whether the scalar part comes first or last.
    rotation : array of shape (3, 3)
        The rotation matrix.
    """
    xyzw = scipy.spatial.transform.Rotation.from_matrix(rotation).as_quat()
    if xyzw[3] < 0:
        xyzw = -xyzw
    return np.asarray(xyzw if order == "xyzw" else np.roll(xyzw, 1))


def _rotation_vector(units_per_radian: float, rotation: np.ndarray) -> np.ndarray:
    """Return the rotation vector (axis times angle) of a rotation matrix.

    Parameters
    ----------
    units_per_radian : float
        The unit of the angle: 1 for radians, 180/π for degrees.
    rotation : array of shape (3, 3)
        The rotation matrix.
    """
    return np.asarray(
        units_per_radian
        * scipy.spatial.transform.Rotation.from_matrix(rotation).as_rotvec()
    )


def _axis_angle(units_per_radian: float, rotation: np.ndarray) -> np.ndarray:
    """Return the unit axis of a rotation matrix, followed by its angle.

    Parameters
    ----------
    units_per_radian : float
        The unit of the angle: 1 for radians, 180/π for degrees.
    rotation : array of shape (3, 3)
        The rotation matrix. The identity has no axis; the x axis is returned for it.

    Returns
    -------
    array of shape (4,)
        The axis, then the angle.
    """
    vector = scipy.spatial.transform.Rotation.from_matrix(rotation).as_rotvec()
    angle = float(np.linalg.norm(vector))
    axis = vector / angle if angle > 0 else np.array([1.0, 0.0, 0.0])
    return np.append(axis, units_per_radian * angle)


def _landmark_output(name: str, manifold: Manifold) -> OutputForm:
    """Return how landmarks in the plane are written, point by point or axis by axis.

    Parameters
    ----------
    name : str
        The name of the form: "landmarks" or "landmarks-xxyy".
    manifold : Manifold
        The space of the landmarks, whose points have shape (k, 2).

    Returns
    -------
    OutputForm
        Names such as "x1", and the map from a shape to these coordinates.
    """
    numbers = range(1, manifold.point_shape[0] + 1)
    x_columns = [f"x{number}" for number in numbers]
    y_columns = [f"y{number}" for number in numbers]
    if name == "landmarks-xxyy":
        columns = (*x_columns, *y_columns)
        return OutputForm(name, columns, _coordinates_axis_by_axis)
    pairs = zip(x_columns, y_columns, strict=True)
    return OutputForm(name, tuple(chain.from_iterable(pairs)), np.ravel)


def _coordinates_axis_by_axis(landmarks: np.ndarray) -> np.ndarray:
    """Return the coordinates of landmarks, shape (k, 2): all x, and then all y.

    Parameters
    ----------
    landmarks : array of shape (k, 2)
        The landmarks.
    """
    return np.ravel(landmarks.T)


def _triangle_indices(name: str | None, manifold: Manifold) -> list[MatrixIndex] | None:
    """Return the entries of a symmetric matrix that a form writes, in its order.

    Parameters
    ----------
    name : str or None
        The name of the form.
    manifold : Manifold
        The space of the matrices.

    Returns
    -------
    list of (row, column) or None
        The places of the entries, from 0; None if it is not a form of matrices.
    """
    indices_of_tensors = {
        "tensor6-lower": LOWER_TRIANGLE,
        "tensor6-upper": UPPER_TRIANGLE,
        "tensor6-diagonal": DIAGONAL_FIRST,
    }
    if name in indices_of_tensors:
        return indices_of_tensors[name]
    if name in ("upper", "lower"):
        size = manifold.point_shape[0]
        return triangle_entries(size, is_upper=name == "upper")
    return None


def _triangle_output(name: str | None, indices: list[MatrixIndex]) -> OutputForm:
    """Return how some entries of a symmetric matrix are written.

    Parameters
    ----------
    name : str or None
        The name of the form.
    indices : list of (row, column)
        The place of each written number in the matrix, from 0.

    Returns
    -------
    OutputForm
        Names such as "xx" or "c_2_1", and the map from a matrix to these entries.
    """
    rows, columns = np.array(indices).T
    if name is not None and name.startswith("tensor6"):
        names = tuple("xyz"[row] + "xyz"[column] for row, column in indices)
    else:
        names = tuple(f"c_{row + 1}_{column + 1}" for row, column in indices)
    return OutputForm(name, names, lambda matrix: matrix[rows, columns])


def _entry_names(shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return a name for each entry of a point, such as "e_1_2", counted from 1.

    Parameters
    ----------
    shape : tuple of int
        The shape of a point.
    """
    indices = np.ndindex(*shape)
    return tuple("e_" + "_".join(str(k + 1) for k in index) for index in indices)


def align_to_center(
    manifold: Manifold, point: np.ndarray, center: np.ndarray | None
) -> np.ndarray:
    """Rotate a released shape so that it can be compared with the public center.

    The rotation of a point of Kendall's shape space has no meaning. Points of other
    spaces are returned unchanged.

    Parameters
    ----------
    manifold : Manifold
        The space in which the point lies.
    point : array
        The released point.
    center : array or None
        The public center, if one was given.

    Returns
    -------
    array
        The point, rotated if it is a shape.
    """
    if isinstance(manifold, KendallShapes):
        return align_shape(np.asarray(point), center)
    return point


def is_point_of(manifold: Manifold, value: np.ndarray) -> bool:
    """Return whether a released value is one point of a space.

    A velocity or a variance is not a point, so no form applies to it.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    value : array
        The released value.
    """
    is_shaped = np.shape(value) == manifold.point_shape
    return bool(is_shaped and np.all(manifold.residual(value) <= _POINT_TOLERANCE))


def value_lines(
    manifold: Manifold,
    value: np.ndarray,
    form: str | None = None,
    center: np.ndarray | None = None,
) -> list[str]:
    """Return a released value as lines: in the form of the records, then as a point.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    value : array
        The released value; only a point of the space has a form.
    form : str or None
        The form in which the records were written.
    center : array or None
        The public center, to which a shape is turned.

    Returns
    -------
    list of str
        The lines, for a terminal.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> value_lines(Sphere(2), np.array([0.0, 1.0, 0.0]), "latlon-degrees")
    ['latitude 0°, longitude 90°', '[0. 1. 0.]']
    """
    value = np.asarray(value)
    lines = []
    if is_point_of(manifold, value):
        value = align_to_center(manifold, value, center)
        written_as = output_form(form, manifold)
        if written_as.name is not None and len(written_as.columns) <= _MAX_IN_SENTENCE:
            lines.append(written_as.sentence(value))
    return [*lines, *np.array2string(value, precision=8, threshold=400).splitlines()]
