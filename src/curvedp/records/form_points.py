"""Maps from records, as they are written in a file, to points of a manifold.
Each function takes all records at once, as an array with one record per row: angles in
a unit, quaternions, entries of a matrix, landmarks or counts. A record without a point
becomes NaN; `curvedp.records.forms` lists which function belongs to which form.
"""

from collections.abc import Callable

import numpy as np

# The row and the column of an entry of a matrix, from 0.
MatrixIndex = tuple[int, int]

# Maps records, shape (n, *form.shape), to points, shape (n, *point_shape).
PointMap = Callable[[np.ndarray], np.ndarray]


def nan_where_invalid(points: PointMap, records: np.ndarray) -> np.ndarray:
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


def points_from_latlon(radians_per_unit: float, records: np.ndarray) -> np.ndarray:
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


def points_from_colatlon(radians_per_unit: float, records: np.ndarray) -> np.ndarray:
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


def points_from_decinc(radians_per_unit: float, records: np.ndarray) -> np.ndarray:
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
    return points_from_latlon(radians_per_unit, records[:, ::-1])


def normals_from_planes(radians_per_unit: float, records: np.ndarray) -> np.ndarray:
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
    """Return angles in radians, with NaN for angles outside 0 to π.

    Parameters
    ----------
    angles : array
        Angles in radians, such as colatitudes or dips.
    """
    is_valid = (angles >= 0) & (angles <= np.pi)
    return np.asarray(np.where(is_valid, angles, np.nan))


def rotations_from_quaternions(order: list[int], records: np.ndarray) -> np.ndarray:
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


def rotations_from_vectors(radians_per_unit: float, vectors: np.ndarray) -> np.ndarray:
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
    return rotations_from_quaternions([0, 1, 2, 3], quaternions)


def rotations_from_axis_angle(
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
    return rotations_from_vectors(radians_per_unit, unit_axes * angles)


def symmetric_matrices(indices: list[MatrixIndex], records: np.ndarray) -> np.ndarray:
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


def centered_unit_landmarks(landmarks: np.ndarray) -> np.ndarray:
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


def proportions(counts: np.ndarray) -> np.ndarray:
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
