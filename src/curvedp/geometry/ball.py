"""The public ball: every record is moved into it before anything is computed.

`project_to_ball` clips records to a ball, `ball_coordinates` clips their normal
coordinates at its center, and `carry_records` moves them to the origin. Each result
depends on its own record alone, and no value of a record raises or warns.
"""

import math
from contextlib import nullcontext
from typing import Any

import numpy as np
from array_api_compat import device, is_array_api_obj, is_numpy_array

from curvedp._silence import numerical_silence
from curvedp._validate import positive
from curvedp.errors import ParameterError
from curvedp.geometry.capabilities import canonical_center, move_to_origin
from curvedp.geometry.manifold import (
    OFF_MANIFOLD_TOLERANCE,
    Array,
    Manifold,
    check_manifold,
)
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.constant_work import public_time
from curvedp.numerics.elementary import euclidean_norm
from curvedp.numerics.threads import blocks, in_threads

# Records in a block: large enough that threads seldom meet at the interpreter's lock,
# small beside the data.
_BLOCK = 1 << 16

# How often a clipped record is shortened further when round-off left it just outside.
_SHORTENING_ATTEMPTS = 7

# Each attempt steps back by this many times the margin of the one before.
_MARGIN_GROWTH = 64


def project_to_ball(M: Manifold, center: Array, radius: float, X: Array) -> Array:
    """Map every record to a point of the public ball.

    A record is first taken for the point nearest to it, relative to its own scale
    (`M.from_record`): points written with few digits or in other units lose nothing.
    Then one in the ball stays, a far one moves along its geodesic onto the ball's
    boundary, and one that is not finite, or has no nearest point (zero, singular),
    becomes the center. In a ball wider than the space's `float_set.safe_radius`, a
    record whose place float64 coordinates cannot represent (an SPD matrix of condition
    above 1e6 seen from the center, a point of hyperbolic space beyond 15) moves inward
    as well. On the cut locus `M.log` picks the geodesic, always the same one.

    *Guarantees.* dist(center, result) <= radius as computed by `M.dist`, for every
    record. Each result depends on its own record alone. No value of a record raises or
    warns; shapes, dtypes, the center and the radius do.

    Parameters
    ----------
    M : Manifold
        Where the points live.
    center : array
        Center of the public ball.
    radius : float
        Radius of the public ball.
    X : array
        One record a row.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> X = np.array([[3.0, 4.0], [np.nan, 0.0]])
    >>> project_to_ball(Euclidean(2), np.zeros(2), 1.0, X)
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    is_checked_radius = type(radius) is float and 0 < radius < math.inf
    if not is_checked_radius:
        radius = positive("radius", radius)
    check_manifold(M)
    xp = np
    if is_array_api_obj(X):
        xp = namespace(*(a for a in (center, X) if is_array_api_obj(a)))
    with numerical_silence():  # a record may be too large for doubles
        X = _as_floating(xp, "X", X, M)
    center = _as_floating(xp, "center", center, M, device(X))
    is_point = center.shape == M.point_shape and bool(
        M.residual(center) <= OFF_MANIFOLD_TOLERANCE
    )
    if not is_point:
        raise ParameterError(
            f"must be one point of {M!r}", parameter="center", value=center
        )

    with numerical_silence():
        if is_numpy_array(X):
            return _project_in_blocks(M, center, radius, X)
        points, usable = _to_points(xp, M, center, X)
        stays, distance = _stays_in_ball(M, center, radius, points)
        if not bool(xp.all(stays)):
            moved = _move_into_ball(xp, M, center, radius, points, distance)
            points = _where_points(xp, M, stays, points, moved)
        return _where_points(xp, M, usable, points, center)


def carry_records(M: Manifold, center: np.ndarray, X: Array) -> Array:
    """Return records moved by the isometry that takes the center to the origin.

    Records that are not finite or have no nearest point become NaN. This is a fixed map
    of each record, so that its round-off is no matter of privacy. Nothing is moved, or
    copied, where the center is in its canonical place already.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    center : array of shape point_shape
        The center of the public ball.
    X : array of shape (n, *point_shape)
        The records.
    """
    if np.array_equal(canonical_center(M, center), center):
        return X
    xp = namespace(X)
    with numerical_silence():  # a record may be too large for doubles
        X = _as_floating(xp, "X", X, M)

    def carry(records: Array) -> Array:
        """Return some records moved, NaN where a record has no point."""
        with numerical_silence():
            points, usable = _to_points(xp, M, like(X, center), records)
            moved = move_to_origin(M, center, points)
            return _where_points(xp, M, usable, moved, xp.nan)

    if not is_numpy_array(X):
        return carry(X)
    carried = in_threads(lambda part: carry(X[part]), blocks(len(X), _BLOCK))
    return np.concatenate([X[:0], *carried])


def ball_coordinates(
    M: Manifold, center: np.ndarray, radius: float, X: np.ndarray, *, timed: bool = True
) -> np.ndarray:
    """Return normal coordinates at the center, clipped to the radius.

    A record at distance d in direction u has coordinates φ(d)·u with φ(d) = d inside
    the ball and `_clipped_length` outside, so that nothing is stretched more than in
    the ball (docs/theory/geometry.md, "The public ball").

    *Guarantees.* Lengths are at most radius·(1 + 4u). Each result depends on its own
    record alone, none raises or warns, and the work is the same for every record.

    Parameters
    ----------
    M : Manifold
        Where the points live.
    center, radius
        The public ball.
    X : array
        One record a row (NumPy).
    timed : bool
        Whether an adversary may time this call. With False (a simulation of public
        points) the work may depend on the records; answers agree to their last digits.
    """
    with numerical_silence(), public_time() if timed else nullcontext():
        points, usable = _to_points(np, M, center, X)
        z = np.asarray(M.normal_coordinates(center, points))
        length = euclidean_norm(np, z)[..., None]
        is_good = usable[..., None] & np.isfinite(length)
        shrink = _clipped_length(M, radius, length) / length
        z = np.where(is_good, z * np.where(length > radius, shrink, 1.0), 0.0)
        if radius <= M.float_set.safe_radius:
            return z
        return np.asarray(M.float_set.project(z))


def _clipped_length(M: Manifold, radius: float, distance: np.ndarray) -> np.ndarray:
    """Return the length φ(d) given to a logarithm of length d > ρ.

    Theorem (docs/theory/geometry.md, "The public ball"). With κ the upper curvature
    bound, i the injectivity radius, sn(d) = sin(√κ·d)/√κ (d for κ <= 0) and L =
    ρ/sn(ρ), the map that replaces a logarithm of length d > ρ by one of length

        φ(d) = min(ρ, ρ·sn(d)/sn(ρ), L·(i − d)₊)

    is L-Lipschitz on all of M. The second term follows the fold behind the ball
    (Rauch); the third vanishes at the cut locus, where the logarithm jumps.

    Parameters
    ----------
    M : Manifold
        The space.
    radius : float
        ρ.
    distance : array
        The lengths d.
    """
    root_kappa = math.sqrt(max(M.curvature_bounds[1], 0.0))
    length = np.full_like(distance, radius)
    if not root_kappa * radius < math.pi:
        return length  # no such L exists, and every mechanism refuses such a ball

    lipschitz = 1.0
    if root_kappa > 0:
        angle = np.minimum(root_kappa * distance, math.pi)
        fold = radius * np.sin(angle) / math.sin(root_kappa * radius)
        length = np.minimum(length, fold)
        lipschitz = root_kappa * radius / math.sin(root_kappa * radius)
    before_cut_locus = lipschitz * (M.injectivity_radius - distance)
    return np.asarray(np.clip(np.minimum(length, before_cut_locus), 0.0, None))


def _project_in_blocks(
    M: Manifold, center: np.ndarray, radius: float, X: np.ndarray
) -> np.ndarray:
    """Return `project_to_ball` of NumPy records, block by block.

    Memory stays flat, and only the records that are outside are moved.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    center : array of shape point_shape
        The center of the public ball.
    radius : float
        The radius of the public ball.
    X : array of shape (n, *point_shape)
        The records.
    """
    records = X.reshape(-1, *M.point_shape)
    result = np.empty_like(records)

    def project_block(part: slice) -> None:
        """Project one block of records into `result`."""
        points, usable = _to_points(np, M, center, records[part])
        stays, distance = _stays_in_ball(M, center, radius, points)
        outside = np.flatnonzero(~stays & usable)
        if len(outside):
            points[outside] = _move_into_ball(
                np, M, center, radius, points[outside], distance[outside]
            )
        points[~usable] = center
        result[part] = points

    in_threads(project_block, blocks(len(records), _BLOCK))
    return result.reshape(X.shape)


def _stays_in_ball(
    M: Manifold, center: Array, radius: float, points: Array
) -> tuple[Array, Array]:
    """Return which points stay where they are, and all distances from the center.

    A point stays if it is in the ball and, seen from the center, in the set that floats
    represent well.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    center : array of shape point_shape
        The center of the public ball.
    radius : float
        The radius of the public ball.
    points : array of shape (..., *point_shape)
        Points of the manifold.
    """
    distance = M.dist(center, points)
    stays = distance <= radius
    safe_radius = M.float_set.safe_radius
    if radius <= safe_radius:
        return stays, distance
    if not is_numpy_array(points) or stays.ndim != 1:
        return stays & (_safe_shrink_factor(M, center, points) >= 1), distance

    # Points well within the safe radius are represented well.
    doubtful = np.flatnonzero(stays & ~(distance <= 0.999 * safe_radius))
    if len(doubtful):
        stays[doubtful] = _safe_shrink_factor(M, center, points[doubtful]) >= 1
    return stays, distance


def _safe_shrink_factor(M: Manifold, center: Array, points: Array) -> Array:
    """Return the factor that shrinks points, seen from the center, into the safe set.

    It is 1 where their coordinates are not finite.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    center : array of shape point_shape
        The center of the public ball.
    points : array of shape (..., *point_shape)
        Points of the manifold.
    """
    z = M.to_coordinates(center, M.log(center, points))
    xp = namespace(z)
    is_finite = xp.all(xp.isfinite(z), axis=-1)[..., None]
    return M.float_set.shrink_factor(xp.where(is_finite, z, 0.0))


def _to_points(xp: Any, M: Manifold, center: Array, X: Array) -> tuple[Array, Array]:
    """Return the point nearest to each record, and which records have one.

    The others are replaced by the center before any kernel sees them.

    Parameters
    ----------
    xp : module
        The array library.
    M : Manifold
        Where the points are.
    center : array of shape point_shape
        The center of the public ball.
    X : array of shape (n, *point_shape)
        The records.
    """
    usable = _is_finite(xp, M, X)
    points = M.from_record(_where_points(xp, M, usable, X, center))
    usable = usable & _is_finite(xp, M, points)
    return _where_points(xp, M, usable, points, center), usable


def _move_into_ball(
    xp: Any, M: Manifold, center: Array, radius: float, points: Array, distance: Array
) -> Array:
    """Move points along their geodesics to the center until they are in the ball.

    Parameters
    ----------
    points, distance : array
        Points and their distances from the center. Points whose logarithm is not finite
        become the center.
    """
    velocity = M.log(center, points)
    is_movable = (distance < math.inf) & _is_finite(xp, M, velocity)
    velocity = _where_points(xp, M, is_movable, velocity, 0.0)
    shrink = xp.where(
        is_movable & (distance > radius), radius / distance, xp.ones_like(distance)
    )
    if radius > M.float_set.safe_radius:
        shrink = xp.minimum(shrink, _safe_shrink_factor(M, center, points))
    moved = _shortened_exp(xp, M, center, radius, velocity, shrink)
    return _where_points(xp, M, is_movable, moved, center)


def _shortened_exp(
    xp: Any,
    M: Manifold,
    center: Array,
    radius: float,
    velocity: Array,
    shrink: Array,
    attempt: int = 1,
) -> Array:
    """Return exp(center, shrink·velocity), within the radius as `M.dist` measures it.

    Round-off of log, exp and dist can leave the image just outside. Then the step is
    shortened by what is measured and by a margin that grows from one ulp to 1e-5. Where
    even that fails, because floats around the center are too coarse (far out in
    hyperbolic space), the record becomes the center.

    Parameters
    ----------
    xp : module
        The array library.
    M : Manifold
        Where the points are.
    center : array of shape point_shape
        The center of the public ball.
    radius : float
        The radius of the public ball.
    velocity : array of shape (..., *point_shape)
        Tangent vectors at the center.
    shrink : array
        The factor by which each of them is shortened.
    attempt : int
        How often this was tried before, plus 1; it decides about the margin.
    """
    factor = xp.reshape(shrink, shrink.shape + (1,) * len(M.point_shape))
    image = M.exp(center, factor * velocity)
    distance = M.dist(center, image)
    is_inside = (distance <= radius) & _is_finite(xp, M, image)
    if attempt == _SHORTENING_ATTEMPTS or bool(xp.all(is_inside)):
        return _where_points(xp, M, is_inside, image, center)

    eps = float(xp.finfo(velocity.dtype).eps)
    margin = eps * _MARGIN_GROWTH ** (attempt - 1)
    overshoot = xp.where(distance > radius, radius / distance, xp.ones_like(distance))
    shrink = shrink * overshoot * (1 - margin)
    if not is_numpy_array(image):
        shorter = _shortened_exp(xp, M, center, radius, velocity, shrink, attempt + 1)
        return _where_points(xp, M, is_inside, image, shorter)
    outside = np.flatnonzero(~is_inside)
    image[outside] = _shortened_exp(
        np, M, center, radius, velocity[outside], shrink[outside], attempt + 1
    )
    return image


def _where_points(
    xp: Any, M: Manifold, mask: Array, points: Array, others: Array
) -> Array:
    """Return whole points where the mask holds, and `others` elsewhere."""
    mask = xp.reshape(mask, mask.shape + (1,) * len(M.point_shape))
    return xp.where(mask, points, others)


def _is_finite(xp: Any, M: Manifold, X: Array) -> Array:
    """Return which points have finite entries only."""
    return xp.all(xp.isfinite(X), axis=tuple(range(-len(M.point_shape), 0)))


def _as_floating(xp: Any, name: str, x: Array, M: Manifold, where: Any = None) -> Array:
    """Return x as a floating array that ends in the manifold's axes.

    Parameters
    ----------
    xp : namespace
        The array library.
    name : str
        What error messages call x.
    where : device, optional
        The device that the array is put on.

    Raises
    ------
    ParameterError
        If x does not consist of real numbers or has another shape.
    """
    try:
        x = xp.asarray(x, device=where)
        if xp.isdtype(x.dtype, "complex floating"):
            raise TypeError
        if x.dtype not in (xp.float32, xp.float64):
            x = xp.astype(x, xp.asarray(1.0).dtype)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be an array of real numbers") from None
    shape = M.point_shape
    if x.ndim < len(shape) or tuple(x.shape[x.ndim - len(shape) :]) != shape:
        raise ParameterError(
            f"{name} has shape {tuple(x.shape)}, but points of {M!r} end in {shape}"
        )
    return x
