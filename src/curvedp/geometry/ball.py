"""The public ball: every record is clipped into it before anything is computed. The
ball has a public center and radius. `project_to_ball` clips records into it,
`ball_coordinates` clips their normal coordinates at its center, and `carry_records`
moves them to the origin. Each result depends on its own record alone, and no value of a
record causes an exception or a warning.
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

# How often a record is shortened before it is replaced by the center, because round-off
# leaves it just outside the ball.
_SHORTENING_ATTEMPTS = 7

# The margin by which a record is shortened further grows by this factor with each
# attempt: six factors lead from one unit of round-off, 2e-16, to 1.5e-5.
_MARGIN_GROWTH = 64

# Points within this fraction of the safe radius are surely represented well: the rest
# is room for the round-off of their distance.
_SURELY_SAFE = 0.999


def project_to_ball(M: Manifold, center: Array, radius: float, X: Array) -> Array:
    """Clip records into the public ball: map every record to a point of it.

    A record is first replaced by the point nearest to it, relative to its own scale
    (`M.from_record`). So points that were written with few digits or in other units can
    be used as they are. Then a point in the ball stays where it is, and a point outside
    moves along the geodesic to the center until it is on the boundary of the ball. A
    record that is not finite, or has no nearest point (such as a matrix of zeros),
    becomes the center.

    Far from the center of a wide ball, float64 coordinates may not tell points apart.
    In a ball wider than the space's `float_set.safe_radius` such points also move
    toward the center. Examples are SPD matrices of condition above 1e6 as seen from the
    center, and points of hyperbolic space beyond distance 15. If several shortest
    geodesics lead to the center, `M.log` picks one, always the same.

    *Guarantees.* dist(center, result) <= radius as computed by `M.dist`, for every
    record. Each result depends on its own record alone. No value of a record causes an
    exception or a warning; a wrong shape, dtype, center or radius raises an error.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    center : array, shape M.point_shape
        Center of the public ball.
    radius : float
        Radius of the public ball.
    X : array, shape (..., *M.point_shape)
        The records, of any array library.

    Returns
    -------
    array, shape (..., *M.point_shape)
        One point of the ball for each record.

    Raises
    ------
    ParameterError
        If X has another shape or no real numbers, the center is not one point of M, or
        the radius is not positive and finite.

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
    xp, center, X = _convert_center_and_records(M, center, X)

    with numerical_silence():
        if is_numpy_array(X):
            return _project_in_blocks(M, center, radius, X)

        # Other array libraries may not assign to some entries of an array: all points
        # are moved, and the results of those that stay are not used.
        points, has_point = _to_points(xp, M, center, X)
        stays, distance = _stays_in_ball(M, center, radius, points)
        if not bool(xp.all(stays)):
            moved = _move_into_ball(xp, M, center, radius, points, distance)
            points = _where_points(xp, M, stays, points, moved)
        return _where_points(xp, M, has_point, points, center)


def _convert_center_and_records(
    M: Manifold, center: Array, X: Array
) -> tuple[Any, Array, Array]:
    """Convert a center and records to floating-point arrays of one library; check them.

    `project_to_ball` calls it first. A list becomes a NumPy array.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    center, X : array_like
        The arguments that the caller passes as center of a ball and as records.

    Returns
    -------
    xp : module
        The array library of both, such as `numpy`.
    center : array of shape point_shape
        The center.
    X : array of shape (..., *point_shape)
        The records.

    Raises
    ------
    ParameterError
        If the center is not one point of M, or X has another shape or no real numbers.
    """
    # The library of the records; lists become NumPy arrays.
    xp = np
    if is_array_api_obj(X):
        xp = namespace(*(a for a in (center, X) if is_array_api_obj(a)))
    with numerical_silence():  # a record may be too large for doubles
        X = _as_floating(xp, "X", X, M)

    center = _as_floating(xp, "center", center, M, device(X))
    # The residual is 0 on the manifold, up to round-off.
    is_point = center.shape == M.point_shape and bool(
        M.residual(center) <= OFF_MANIFOLD_TOLERANCE
    )
    if not is_point:
        raise ParameterError(
            f"must be one point of {M!r}", parameter="center", value=center
        )
    return xp, center, X


def carry_records(M: Manifold, center: np.ndarray, X: Array) -> Array:
    """Move records by the isometry that takes the center to its canonical place.

    The canonical place (`canonical_center`) is the origin on spaces that have such an
    isometry, and the center itself on others. Near the origin coordinates have the most
    digits. The map depends on public values and on the record itself alone, so that its
    round-off does not matter to privacy.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    center : array of shape point_shape
        The center of the public ball.
    X : array of shape (n, *point_shape)
        The records.

    Returns
    -------
    array of shape (n, *point_shape)
        The moved records. NaN for a record that is not finite or has no nearest point.
        X itself if the center is in its canonical place already.
    """
    if np.array_equal(canonical_center(M, center), center):
        return X
    xp = namespace(X)
    with numerical_silence():  # a record may be too large for doubles
        X = _as_floating(xp, "X", X, M)

    def carry(records: Array) -> Array:
        """Move records to the origin; a record that has no nearest point becomes NaN."""
        with numerical_silence():
            points, has_point = _to_points(xp, M, like(X, center), records)
            moved = move_to_origin(M, center, points)
            return _where_points(xp, M, has_point, moved, xp.nan)

    if not is_numpy_array(X):
        return carry(X)
    carried = in_threads(lambda block: carry(X[block]), blocks(len(X), _BLOCK))
    no_records = X[:0]  # np.concatenate needs at least one array
    return np.concatenate([no_records, *carried])


def ball_coordinates(
    M: Manifold, center: np.ndarray, radius: float, X: np.ndarray, *, timed: bool = True
) -> np.ndarray:
    """Return normal coordinates of records at the ball's center, clipped to its radius.

    A record at distance d in direction e has coordinates φ(d)·e, where φ(d) = d inside
    the ball and φ is `_clipped_length` outside, so that nothing is stretched more than
    in the ball (docs/theory/geometry.md, "The public ball"). A record that has no
    nearest point has coordinates 0.

    *Guarantees.* Lengths are at most radius·(1 + 4u), u the unit round-off. Each result
    depends on its own record alone. No record causes an exception or a warning, and the
    work is the same for every record.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    center : array of shape point_shape
        Center of the public ball.
    radius : float
        Its radius.
    X : array of shape (..., *point_shape)
        The records (NumPy).
    timed : bool
        Whether an adversary may measure how long this call takes. False is for public
        points, such as those of a simulation: the work may then depend on the records,
        and results may differ from those of True in their last digits.

    Returns
    -------
    array of shape (..., dim)
        The clipped coordinates.
    """
    with numerical_silence(), public_time() if timed else nullcontext():
        points, has_point = _to_points(np, M, center, X)
        z = np.asarray(M.normal_coordinates(center, points))
        length = euclidean_norm(np, z)[..., None]

        # Shorten the coordinates of points outside; a record without a point gives 0.
        shrink = _clipped_length(M, radius, length) / length
        factor = np.where(length > radius, shrink, 1.0)
        is_usable = has_point[..., None] & np.isfinite(length)
        z = np.where(is_usable, z * factor, 0.0)

        if radius <= M.float_set.safe_radius:
            return z
        return np.asarray(M.float_set.project(z))


def _clipped_length(M: Manifold, radius: float, distance: np.ndarray) -> np.ndarray:
    """Return the length φ(d) given to a logarithm of length d > ρ.

    Theorem (docs/theory/geometry.md, "The public ball"). With κ the upper curvature
    bound, i the injectivity radius, sn(d) = sin(√κ·d)/√κ (d for κ <= 0) and L =
    ρ/sn(ρ), the map that replaces a logarithm of length d > ρ by one of length

        φ(d) = min(ρ, ρ·sn(d)/sn(ρ), L·(i − d)₊)

    is L-Lipschitz on all of M; (x)₊ is max(x, 0). The second term is needed because
    geodesics behind the ball approach each other again (Rauch), the third because the
    logarithm jumps at the cut locus: it must be 0 there.

    Parameters
    ----------
    M : Manifold
        The space.
    radius : float
        ρ, the radius of the ball.
    distance : array
        The lengths d.

    Returns
    -------
    array
        φ(d) for each length, between 0 and ρ.
    """
    root_kappa = math.sqrt(max(M.curvature_bounds[1], 0.0))
    length = np.full_like(distance, radius)
    if not root_kappa * radius < math.pi:
        return length  # no such L exists, and every mechanism refuses such a ball

    # The second term, ρ·sn(d)/sn(ρ), and L. On flat and negatively curved spaces the
    # second term is at least ρ, and L = 1.
    lipschitz = 1.0
    if root_kappa > 0:
        angle = np.minimum(root_kappa * distance, math.pi)
        length_behind = radius * np.sin(angle) / math.sin(root_kappa * radius)
        length = np.minimum(length, length_behind)
        lipschitz = root_kappa * radius / math.sin(root_kappa * radius)

    # The third term, L·(i − d)₊.
    before_cut_locus = lipschitz * (M.injectivity_radius - distance)
    return np.asarray(np.clip(np.minimum(length, before_cut_locus), 0.0, None))


def _project_in_blocks(
    M: Manifold, center: np.ndarray, radius: float, X: np.ndarray
) -> np.ndarray:
    """Clip NumPy records into the public ball, block by block.

    Blocks keep intermediate results small. Only the records outside the ball are moved.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    center : array of shape point_shape
        The center of the public ball.
    radius : float
        The radius of the public ball.
    X : array of shape (..., *point_shape)
        The records.

    Returns
    -------
    array of shape (..., *point_shape)
        One point of the ball for each record.
    """
    records = X.reshape(-1, *M.point_shape)
    result = np.empty_like(records)

    def project_block(block: slice) -> None:
        """Clip one block of records and write it into `result`."""
        points, has_point = _to_points(np, M, center, records[block])
        stays, distance = _stays_in_ball(M, center, radius, points)

        outside = np.flatnonzero(~stays & has_point)
        if len(outside):
            points[outside] = _move_into_ball(
                np, M, center, radius, points[outside], distance[outside]
            )
        points[~has_point] = center
        result[block] = points

    in_threads(project_block, blocks(len(records), _BLOCK))
    return result.reshape(X.shape)


def _stays_in_ball(
    M: Manifold, center: Array, radius: float, points: Array
) -> tuple[Array, Array]:
    """Return which points clipping leaves where they are, and all distances.

    A point stays if it is in the ball and, seen from the center, in the set of points
    that floats represent well (`M.float_set`).

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    center : array of shape point_shape
        The center of the public ball.
    radius : float
        The radius of the public ball.
    points : array of shape (..., *point_shape)
        Points of the manifold.

    Returns
    -------
    stays : array of bool, shape (...)
        Whether the point stays.
    distance : array of shape (...)
        Its distance from the center.
    """
    distance = M.dist(center, points)
    stays = distance <= radius
    safe_radius = M.float_set.safe_radius
    if radius <= safe_radius:
        return stays, distance
    if not is_numpy_array(points) or stays.ndim != 1:
        return stays & (_safe_shrink_factor(M, center, points) >= 1), distance

    # Points well within the safe radius are represented well; test the others.
    doubtful = np.flatnonzero(stays & ~(distance <= _SURELY_SAFE * safe_radius))
    if len(doubtful):
        stays[doubtful] = _safe_shrink_factor(M, center, points[doubtful]) >= 1
    return stays, distance


def _safe_shrink_factor(M: Manifold, center: Array, points: Array) -> Array:
    """Return the factor by which each point moves toward the center, to keep its digits.

    Floats represent only a part of a curved, unbounded space well (`M.float_set`). A
    point exp(v), with its velocity v at the center, moves to exp(t·v) if its factor is
    t.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    center : array of shape point_shape
        The center of the public ball.
    points : array of shape (..., *point_shape)
        Points of the manifold.

    Returns
    -------
    array of shape (...)
        The factors t ≤ 1. They are 1 for a point that need not move, and for one whose
        normal coordinates are not finite.
    """
    z = M.to_coordinates(center, M.log(center, points))
    xp = namespace(z)
    is_finite = xp.all(xp.isfinite(z), axis=-1)[..., None]
    return M.float_set.shrink_factor(xp.where(is_finite, z, 0.0))


def _to_points(xp: Any, M: Manifold, center: Array, X: Array) -> tuple[Array, Array]:
    """Return the point nearest to each record, and which records have one.

    Records with NaN or infinite entries are replaced by the center before the
    manifold's functions see them.

    Parameters
    ----------
    xp : module
        The array library.
    M : Manifold
        The manifold of the points.
    center : array of shape point_shape
        The center of the public ball.
    X : array of shape (n, *point_shape)
        The records.

    Returns
    -------
    points : array of shape (n, *point_shape)
        The nearest points; the center where there is none.
    has_point : array of bool, shape (n,)
        Whether the record has a nearest point.
    """
    is_finite = _is_finite(xp, M, X)
    points = M.from_record(_where_points(xp, M, is_finite, X, center))
    has_point = is_finite & _is_finite(xp, M, points)
    return _where_points(xp, M, has_point, points, center), has_point


def _move_into_ball(
    xp: Any, M: Manifold, center: Array, radius: float, points: Array, distance: Array
) -> Array:
    """Move points along their geodesics to the center until they are in the ball.

    In a ball wider than the safe radius of `M.float_set`, they move on until floats
    represent them well.

    Parameters
    ----------
    xp : module
        The array library.
    M : Manifold
        The manifold of the points.
    center : array of shape point_shape
        The center of the public ball.
    radius : float
        The radius of the public ball.
    points : array of shape (..., *point_shape)
        Points of the manifold.
    distance : array of shape (...)
        Their distances from the center.

    Returns
    -------
    array of shape (..., *point_shape)
        Points of the ball; the center for points whose logarithm is not finite.
    """
    velocity = M.log(center, points)
    is_movable = (distance < math.inf) & _is_finite(xp, M, velocity)
    velocity = _where_points(xp, M, is_movable, velocity, 0.0)
    must_shrink = is_movable & (distance > radius)
    shrink = xp.where(must_shrink, radius / distance, xp.ones_like(distance))
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

    Round-off of log, exp and dist can leave the result just outside the ball. Then the
    velocity is shortened by the measured excess and by a margin, which grows with each
    attempt from one unit of round-off to 1e-5. If even the last attempt fails, because
    floats around the center are too coarse (in hyperbolic space at large distances from
    the origin), the result is the center. The result must never be outside:
    sensitivities rely on it.

    Parameters
    ----------
    xp : module
        The array library.
    M : Manifold
        The manifold of the points.
    center : array of shape point_shape
        The center of the public ball.
    radius : float
        The radius of the public ball.
    velocity : array of shape (..., *point_shape)
        Tangent vectors at the center.
    shrink : array of shape (...)
        The factor by which each of them is shortened.
    attempt : int
        The number of this attempt, from 1; it decides how large the margin is.

    Returns
    -------
    array of shape (..., *point_shape)
        Points whose computed distance from the center is at most the radius.
    """
    factor = xp.reshape(shrink, shrink.shape + (1,) * len(M.point_shape))
    image = M.exp(center, factor * velocity)
    distance = M.dist(center, image)
    is_inside = (distance <= radius) & _is_finite(xp, M, image)
    if attempt == _SHORTENING_ATTEMPTS or bool(xp.all(is_inside)):
        return _where_points(xp, M, is_inside, image, center)

    # Shorten by the measured excess and by the margin of this attempt.
    eps = float(xp.finfo(velocity.dtype).eps)
    margin = eps * _MARGIN_GROWTH ** (attempt - 1)
    correction = xp.where(distance > radius, radius / distance, xp.ones_like(distance))
    shrink = shrink * correction * (1 - margin)

    # Try again: with NumPy only for the points outside, with other libraries for all.
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
    """Choose between points: return `points` where the mask holds, `others` elsewhere.

    This is `xp.where` with one truth value for each point.

    Parameters
    ----------
    xp : module
        The array library.
    M : Manifold
        The manifold of the points.
    mask : array of bool, shape (...)
        One entry for each point.
    points, others : arrays of shape (..., *point_shape)
        Points or tangent vectors. `others` may be one of them, or a number.

    Returns
    -------
    array of shape (..., *point_shape)
        The chosen points.
    """
    mask = xp.reshape(mask, mask.shape + (1,) * len(M.point_shape))
    return xp.where(mask, points, others)


def _is_finite(xp: Any, M: Manifold, X: Array) -> Array:
    """Return which points have finite entries only.

    Parameters
    ----------
    xp : module
        The array library.
    M : Manifold
        The space, for the shape of one point.
    X : array of shape (..., *point_shape)
        Points or records.

    Returns
    -------
    array of bool, shape (...)
        False for a point with an entry that is NaN or infinite.
    """
    point_axes = tuple(range(-len(M.point_shape), 0))
    return xp.all(xp.isfinite(X), axis=point_axes)


def _as_floating(
    xp: Any, name: str, x: Array, M: Manifold, on_device: Any = None
) -> Array:
    """Return the argument as an array of floats whose last axes fit the manifold.

    Every public function of this module converts its arguments by this function.

    Parameters
    ----------
    xp : module
        The array library.
    name : str
        The name of x in error messages.
    x : array_like
        The argument that the caller passes as points or records.
    M : Manifold
        The manifold of the points.
    on_device : device, optional
        The device that the array is put on.

    Returns
    -------
    array of shape (..., *point_shape)
        float32 stays float32; integers and booleans become the library's default float.

    Raises
    ------
    ParameterError
        If x does not consist of real numbers or has another shape.
    """
    try:
        x = xp.asarray(x, device=on_device)
        if xp.isdtype(x.dtype, "complex floating"):
            raise TypeError
        if x.dtype not in (xp.float32, xp.float64):
            x = xp.astype(x, xp.asarray(1.0).dtype)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be an array of real numbers") from None
    shape = M.point_shape
    n_leading_axes = x.ndim - len(shape)
    if n_leading_axes < 0 or tuple(x.shape[n_leading_axes:]) != shape:
        raise ParameterError(
            f"{name} has shape {tuple(x.shape)}, but points of {M!r} end in {shape}"
        )
    return x
