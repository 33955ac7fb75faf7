"""Move records so that a reference point becomes the origin of their space.
Records of a subject or a session (a *domain*) are recentered at the mean of the domain,
so that records of different domains can be compared. These are maps of points; who may
know the mean is decided by `PrivateRecenter`.
"""

import numpy as np

from curvedp.errors import CurvedpError
from curvedp.geometry import frechet_mean, project_to_ball
from curvedp.geometry.capabilities import move_to_origin
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.spd_common import SPD
from curvedp.statistics.searched_ball import default_outer_radius

# A computed mean whose residual is larger is not a point of the space.
_POINT_RESIDUAL = 1e-6


def recenter(
    manifold: Manifold, reference: np.ndarray, factor: float, records: np.ndarray
) -> np.ndarray:
    """Move records so that their reference becomes the origin, and rescale distances.

    A positive definite matrix X becomes WXW, where W is the symmetric root of the
    inverse reference. This is the whitening of pyRiemann's `TLCenter`. On other spaces
    the records are moved by an isometry that takes the reference to the origin. Then
    the geodesic distance of each record to the origin is multiplied by `factor`.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    reference : array of shape point_shape
        The private mean of their domain.
    factor : float
        The factor by which distances to the origin are multiplied.
    records : array of shape (n, *point_shape)
        The records. One that is not a point of the space is replaced by the origin.

    Returns
    -------
    array of shape (n, *point_shape)
        The recentered records. NOT private.
    """
    points = np.asarray(manifold.from_record(records))
    if isinstance(manifold, SPD):
        whitening = _inverse_root(reference)
        recentered = whitening @ points @ whitening
        recentered = (recentered + recentered.mT) / 2
    else:
        recentered = np.asarray(move_to_origin(manifold, reference, points))
    if factor != 1.0:
        directions = np.asarray(manifold.log(manifold.origin, recentered))
        recentered = np.asarray(manifold.exp(manifold.origin, factor * directions))
    entry_axes = tuple(range(1, recentered.ndim))
    is_point = np.isfinite(recentered).all(axis=entry_axes, keepdims=True)
    return np.asarray(np.where(is_point, recentered, manifold.origin))


def _inverse_root(matrix: np.ndarray) -> np.ndarray:
    """Return the symmetric positive definite W with W·matrix·W = I.

    The map X ↦ W·X·W takes `matrix` to the identity, and matrices near it to matrices
    near the identity.

    Parameters
    ----------
    matrix : array of shape (m, m)
        A symmetric positive definite matrix.
    """
    eigenvalues, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / np.sqrt(eigenvalues)) @ vectors.T)


def own_mean(manifold: Manifold, records: np.ndarray) -> np.ndarray:
    """Return the Fréchet mean of the records that are valid points. NOT private.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    records : array of shape (n, *point_shape)
        The records of one domain. Some may not be points of the manifold.

    Returns
    -------
    array of shape point_shape
        The mean; the origin if no record is a point. If doubles cannot represent
        the mean of records so far apart, it is the mean of the records clipped to a
        generous ball about the origin.
    """
    points = np.asarray(manifold.from_record(records))
    entry_axes = tuple(range(1, points.ndim))
    is_point = np.isfinite(points).all(axis=entry_axes)
    if not is_point.any():
        return np.asarray(manifold.origin)
    try:
        mean = np.asarray(frechet_mean(manifold, points[is_point]))
    except (np.linalg.LinAlgError, CurvedpError):
        mean = np.full(manifold.point_shape, np.nan)
    if np.isfinite(mean).all() and np.all(manifold.residual(mean) < _POINT_RESIDUAL):
        return mean
    radius = default_outer_radius(manifold)
    clipped = project_to_ball(manifold, manifold.origin, radius, points[is_point])
    return np.asarray(frechet_mean(manifold, np.asarray(clipped)))
