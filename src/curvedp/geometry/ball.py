"""Projection onto a public ball: how records enter a private computation."""

from contextlib import nullcontext
from math import inf, pi, sin, sqrt
from typing import Any

import numpy as np
from array_api_compat import device, is_array_api_obj, is_numpy_array

from curvedp._silence import numerical_silence
from curvedp._validate import positive
from curvedp.errors import ParameterError
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

_BLOCK = (
    1 << 16
)  # records in a block: large enough that threads seldom meet at the lock, small beside the data


def project_to_ball(M: Manifold, center: Array, radius: float, X: Array) -> Array:
    """Every record of X mapped into the closed ball of a public radius about a public center.

    A record is first taken for the point nearest to it, relative to its own scale (`M.from_record`): points written with few
    digits or in other units lose nothing. Then one in the ball stays, a far one moves along its geodesic onto the ball's
    boundary, and one that is not finite, or has no nearest point (zero, singular), becomes the center. In a ball wider than
    `M.held_reach`, a record whose place float64 coordinates cannot hold (an SPD matrix of condition above 1e6 seen from the
    center, a point of hyperbolic space beyond 15) moves inward as well. On the cut locus,
    `M.log` picks the geodesic, always the same one.

    *Guarantees.* dist(center, result) <= radius as computed by `M.dist`, for every record. Each result depends on its
    own record alone. No value of a record raises or warns; shapes, dtypes, the center and the radius do.

    Parameters
    ----------
    M : Manifold
        Where the points live.
    center : array
        Of the public ball.
    radius : float
        Of the public ball.
    X : array
        One record a row.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> project_to_ball(Euclidean(2), np.zeros(2), 1.0, np.array([[3.0, 4.0], [np.nan, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    if not (
        type(radius) is float and 0 < radius < inf
    ):  # every statistic's ball has been checked
        radius = positive("radius", radius)
    check_manifold(M)
    xp = (
        namespace(*(a for a in (center, X) if is_array_api_obj(a)))
        if is_array_api_obj(X)
        else np
    )
    with numerical_silence():  # a record may be too large for doubles
        X = _floating(xp, "X", X, M)
    center = _floating(xp, "center", center, M, device(X))
    if center.shape != M.point_shape or not bool(
        M.residual(center) <= OFF_MANIFOLD_TOLERANCE
    ):
        raise ParameterError(
            f"must be one point of {M!r}", parameter="center", value=center
        )
    with numerical_silence():
        if is_numpy_array(X):
            return _blocks(M, center, radius, X)
        points, usable = _onto(xp, M, center, X)
        near, distance = _stays(M, center, radius, points)
        if not bool(xp.all(near)):
            points = _where(
                xp, M, near, points, _move(xp, M, center, radius, points, distance)
            )
        return _where(xp, M, usable, points, center)


def carry_records(M: Manifold, center: np.ndarray, X: Array) -> Array:
    """Records as `M.to_origin` moves them; those that are not finite or have no nearest point become NaN. A fixed
    map of each record, so that its round-off is no matter of privacy. Nothing is moved, or copied, where the center
    is where it would be carried to."""
    if np.array_equal(M.home(center), center):
        return X
    xp = namespace(X)
    with numerical_silence():  # a record may be too large for doubles
        X = _floating(xp, "X", X, M)

    def carry(part: Array) -> Array:
        with numerical_silence():
            points, usable = _onto(xp, M, like(X, center), part)
            return _where(xp, M, usable, M.to_origin(center, points), xp.nan)

    if not is_numpy_array(X):
        return carry(X)
    return np.concatenate(
        [X[:0], *in_threads(lambda part: carry(X[part]), blocks(len(X), _BLOCK))]
    )


def ball_coordinates(
    M: Manifold, center: np.ndarray, radius: float, X: np.ndarray, *, timed: bool = True
) -> np.ndarray:
    """Normal coordinates at the center, shortened to the radius, and nowhere stretched more than in the ball: φ(d)·u, with d
    the distance and u the direction of log, and φ as in docs/geometry.md, where the proof is.

    *Guarantees.* Lengths up to radius·(1 + 4u). Each result depends on its own record alone, none raises or warns, and the
    work is the same for every record (`public_time`), but where nobody is timed by it (`timed=False`: a simulation of public
    points), with the same answers but for their last digits.
    """
    with numerical_silence(), public_time() if timed else nullcontext():
        points, usable = _onto(np, M, center, X)
        z = np.asarray(M.normal_coordinates(center, points))
        length = euclidean_norm(np, z)[..., None]
        good = usable[..., None] & np.isfinite(length)
        share = np.where(length > radius, _kept(M, radius, length) / length, 1.0)
        z = np.where(good, z * share, 0.0)
        return z if radius <= M.held_reach else np.asarray(M.held_coordinates(z))


def _kept(M: Manifold, radius: float, d: np.ndarray) -> np.ndarray:
    """φ(d) beyond the ball: min(ρ, ρ·sn(d)/sn(ρ), L·(i − d)₊), sn(d) = sin(√κ d)/√κ (d for κ ≤ 0), L = ρ/sn(ρ)."""
    root = sqrt(max(M.curvature_bounds[1], 0.0))
    kept, stretch = np.full_like(d, radius), 1.0
    if (
        not root * radius < pi
    ):  # no such L exists, and nobody may ask for one: shortened, as every record may be
        return kept
    if root > 0:
        kept = np.minimum(
            kept, radius * np.sin(np.minimum(root * d, pi)) / sin(root * radius)
        )
        stretch = root * radius / sin(root * radius)
    return np.asarray(
        np.clip(np.minimum(kept, stretch * (M.injectivity_radius - d)), 0.0, None)
    )


def _blocks(
    M: Manifold, center: np.ndarray, radius: float, X: np.ndarray
) -> np.ndarray:
    """Block by block, so that memory stays flat, and moving only the records that are outside."""
    records = X.reshape(-1, *M.point_shape)
    out = np.empty_like(records)

    def settle(part: slice) -> None:
        points, usable = _onto(np, M, center, records[part])
        near, distance = _stays(M, center, radius, points)
        far = np.flatnonzero(~near & usable)
        if len(far):
            points[far] = _move(np, M, center, radius, points[far], distance[far])
        points[~usable] = center
        out[part] = points

    in_threads(settle, blocks(len(records), _BLOCK))
    return out.reshape(X.shape)


def _stays(
    M: Manifold, center: Array, radius: float, points: Array
) -> tuple[Array, Array]:
    """Which points are in the ball and held, and how far all are from the center."""
    distance = M.dist(center, points)
    near = distance <= radius
    if radius <= M.held_reach:
        return near, distance
    if not is_numpy_array(points) or near.ndim != 1:
        return near & (_held(M, center, points) >= 1), distance
    rest = np.flatnonzero(
        near & ~(distance <= 0.999 * M.held_reach)
    )  # all others are held
    if len(rest):
        near[rest] = _held(M, center, points[rest]) >= 1
    return near, distance


def _held(M: Manifold, center: Array, points: Array) -> Array:
    """`M.held_share` of points as seen from the center; 1 where their coordinates are not finite."""
    z = M.to_coordinates(center, M.log(center, points))
    xp = namespace(z)
    return M.held_share(xp.where(xp.all(xp.isfinite(z), axis=-1)[..., None], z, 0.0))


def _onto(xp: Any, M: Manifold, center: Array, X: Array) -> tuple[Array, Array]:
    """(The point nearest to each record, which records have one). The others are the center, before any kernel sees them."""
    usable = _finite(xp, M, X)
    points = M.from_record(_where(xp, M, usable, X, center))
    usable = usable & _finite(xp, M, points)
    return _where(xp, M, usable, points, center), usable


def _move(
    xp: Any, M: Manifold, center: Array, radius: float, X: Array, distance: Array
) -> Array:
    """Each point, at its distance from the center, moved along its geodesic there until it is within the radius."""
    velocity = M.log(center, X)
    movable = (distance < float("inf")) & _finite(xp, M, velocity)
    velocity = _where(xp, M, movable, velocity, 0.0)
    share = xp.where(
        movable & (distance > radius), radius / distance, xp.ones_like(distance)
    )
    if radius > M.held_reach:
        share = xp.minimum(share, _held(M, center, X))
    return _where(
        xp, M, movable, _shortened(xp, M, center, radius, velocity, share), center
    )


def _shortened(
    xp: Any,
    M: Manifold,
    center: Array,
    radius: float,
    v: Array,
    share: Array,
    tries: int = 7,
) -> Array:
    """exp(center, share·v), within the radius as `M.dist` says. Round-off of log, exp and dist can leave the image just
    outside: step back by what is measured and a margin that grows from one ulp to 1e-5. Where even that fails, because
    the floats around the center are too coarse (far out in hyperbolic space), the record becomes the center."""
    image = M.exp(
        center, xp.reshape(share, share.shape + (1,) * len(M.point_shape)) * v
    )
    reach = M.dist(center, image)
    good = (reach <= radius) & _finite(xp, M, image)
    if tries == 1 or bool(xp.all(good)):
        return _where(xp, M, good, image, center)
    margin = float(xp.finfo(v.dtype).eps) * 64 ** (7 - tries)
    share = (
        share
        * xp.where(reach > radius, radius / reach, xp.ones_like(reach))
        * (1 - margin)
    )
    if not is_numpy_array(image):
        return _where(
            xp, M, good, image, _shortened(xp, M, center, radius, v, share, tries - 1)
        )
    rest = np.flatnonzero(~good)
    image[rest] = _shortened(np, M, center, radius, v[rest], share[rest], tries - 1)
    return image


def _where(xp: Any, M: Manifold, mask: Array, yes: Array, no: Array) -> Array:
    return xp.where(xp.reshape(mask, mask.shape + (1,) * len(M.point_shape)), yes, no)


def _finite(xp: Any, M: Manifold, X: Array) -> Array:
    return xp.all(xp.isfinite(X), axis=tuple(range(-len(M.point_shape), 0)))


def _floating(xp: Any, name: str, x: Array, M: Manifold, where: Any = None) -> Array:
    """x as a floating array ending in the manifold's axes, on the device `where`."""
    try:
        x = xp.asarray(x, device=where)
        if xp.isdtype(x.dtype, "complex floating"):
            raise TypeError
        if x.dtype not in (xp.float32, xp.float64):
            x = xp.astype(x, xp.asarray(1.0).dtype)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be an array of real numbers") from None
    shape = M.point_shape
    if tuple(x.shape[x.ndim - len(shape) :]) != shape or x.ndim < len(shape):
        raise ParameterError(
            f"{name} has shape {tuple(x.shape)}, but points of {M!r} end in {shape}"
        )
    return x
