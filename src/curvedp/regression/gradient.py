"""The clipped gradient of geodesic regression, at many geodesics at once.

The energy is E(p, v) = (1/2n) Σ d²(Exp(p, xᵢv), yᵢ). With hᵢ the residual log(Exp(p,
xᵢv), yᵢ), clipped to the length τ and transported back to p (Fletcher 2011, with the
Jacobi fields of `jacobi.py`),

    ∇_p E = −(1/n) Σ cos(xᵢ√R_v)·hᵢ      and      ∇_v E = −(1/n) Σ xᵢ·sinc(xᵢ√R_v)·hᵢ.

`clipped_gradient` clips residuals in this way; `clipped_direction` clips each record's
whole contribution instead, which is what a Gaussian release needs.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from curvedp.geometry.capabilities import UnitQuadric
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.euclidean import Euclidean
from curvedp.regression.jacobi import cos_and_sinc, jacobi_frame

# A function from N pairs (p, v), of shapes (N, *point_shape), to the mean clipped
# descent directions (−∇_p E, −∇_v E), in coordinates of shapes (N, dim).
Gradient = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

# One implementation of `Gradient`: its further arguments are the manifold, the
# predictors, the responses and the clips.
_Kernel = Callable[
    [Manifold, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    tuple[np.ndarray, np.ndarray],
]

# How far from the origin of the hyperboloid ambient products are accurate enough: their
# cancellation is e^(2·distance) times the float spacing.
_MAX_HYPERBOLOID_REACH = 4.0

# Records times geodesics that are computed at once, so that arrays stay in the cache.
_BLOCK_SIZE = 1 << 15


def clipped_gradient(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: float | np.ndarray,
    reach: float,
) -> Gradient:
    """Return a function that computes the mean clipped descent direction at many geodesics.

    For N pairs (p, v) the function returns (−∇_p E, −∇_v E), where E is the mean of
    half the squared residuals log(Exp(p, xᵢv), yᵢ), each clipped to a length τᵢ.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    x : array of shape (n,)
        Centered predictors.
    Y : array of shape (n, *point_shape)
        Responses.
    clip : float or array of shape (n,)
        τ, one length for all residuals, or one for each.
    reach : float
        The largest distance of a record or prediction from the manifold's origin. It
        decides whether a faster formula on the hyperboloid is accurate enough.

    Returns
    -------
    Gradient
        Maps arrays p, v of shape (N, *point_shape) to two arrays of shape (N, dim).
    """
    kernel = _choose_kernel(manifold, reach)
    n_rows = max(1, _BLOCK_SIZE // len(x))
    clips = np.broadcast_to(clip, x.shape)

    def gradient(p: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (−∇_p E, −∇_v E) at each of N pairs, block by block."""
        blocks = [
            kernel(manifold, x, Y, clips, p[i : i + n_rows], v[i : i + n_rows])
            for i in range(0, len(p), n_rows)
        ]
        point_parts, velocity_parts = zip(*blocks, strict=True)
        return np.concatenate(point_parts), np.concatenate(velocity_parts)

    return gradient


def _choose_kernel(manifold: Manifold, reach: float) -> _Kernel:
    """Return the fastest implementation of the gradient that is accurate enough.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    reach : float
        The largest distance of a record or prediction from the manifold's origin.
    """
    curvature = manifold.constant_curvature or 0.0
    if isinstance(manifold, UnitQuadric):
        is_near_hyperboloid = curvature < 0 and reach <= _MAX_HYPERBOLOID_REACH
        if curvature > 0 or is_near_hyperboloid:
            return _quadric_gradient
    if isinstance(manifold, Euclidean):
        return _flat_gradient
    return _symmetric_space_gradient


def prediction_distances(
    manifold: Manifold, x: np.ndarray, Y: np.ndarray, p: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """Return the distances d(Exp(p, xᵢv), yᵢ) at each of N pairs (p, v).

    Parameters
    ----------
    manifold : Manifold
    x, Y : arrays of shapes (n,) and (n, *point_shape)
        Centered predictors and responses.
    p, v : arrays of shape (N, *point_shape)

    Returns
    -------
    array of shape (N, n)
    """
    n_rows = max(1, _BLOCK_SIZE // len(x))
    times = _as_column(x, manifold)
    blocks = []
    for start in range(0, len(p), n_rows):
        block = slice(start, start + n_rows)
        predictions = manifold.exp(p[block, None], times * v[block, None])
        blocks.append(np.asarray(manifold.dist(predictions, Y)))
    return np.concatenate(blocks)


def clipped_direction(
    manifold: Manifold,
    t: np.ndarray,
    unit: float,
    Y: np.ndarray,
    clip: float,
    p: np.ndarray,
    V: np.ndarray,
    person_index: np.ndarray | None = None,
) -> np.ndarray:
    """Return the mean of the records' contributions, each clipped as ONE vector.

    The contribution of a record is (C·h, t₁S·h, …, t_kS·h), with C = cos√R and S =
    sinc√R of its move Σ tⱼ·unit·vⱼ and its residual h. The mean is the descent
    direction in the parameters (p, v₁·unit, …, v_k·unit). Replacing one record, or one
    person with all theirs, moves it by at most 2τ/n, whatever the curvature and the
    number of predictors (docs/theory/regression.md, Theorem G4).

    Parameters
    ----------
    manifold : Manifold
    t : array of shape (n, k)
        Centered predictors, in a public unit.
    unit : float
        That unit.
    Y : array of shape (n, *point_shape)
        Responses.
    clip : float
        τ.
    p, V : arrays of shapes (*point_shape) and (k, *point_shape)
    person_index : array of n integers, optional
        Whose record each is. Then the mean is over people.

    Returns
    -------
    array of shape (k + 1, dim)
    """
    terms = contributions(manifold, t, unit, Y, p, V)
    clipped_rows = clip_rows(terms.rows, clip)
    return mean_over_persons(clipped_rows, clip, person_index).reshape(-1, manifold.dim)


class Contributions(NamedTuple):
    """What each record contributes to a descent direction, before it is clipped.

    Attributes
    ----------
    rows : array of shape (n, (k + 1)·dim)
        (C·h, t₁S·h, …, t_kS·h) of each record.
    moves : array of shape (n,)
        The length of each record's move Σ tⱼ·unit·vⱼ.
    residuals : array of shape (n,)
        The length of each record's residual h.
    """

    rows: np.ndarray
    moves: np.ndarray
    residuals: np.ndarray


def contributions(
    manifold: Manifold,
    t: np.ndarray,
    unit: float,
    Y: np.ndarray,
    p: np.ndarray,
    V: np.ndarray,
) -> Contributions:
    """Return each record's contribution to the descent direction, before it is clipped.

    The move of a record is w = Σ tⱼ·unit·vⱼ, its prediction Exp(p, w), and its residual
    h = log(Exp(p, w), y), transported back to p. Its contribution is (C·h, t₁S·h, …,
    t_kS·h) with the Jacobi factors C = cos√R and S = sinc√R of w (`jacobi.py`).

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    t : array of shape (n, k)
        Centered predictors, in a public unit.
    unit : float
        That unit.
    Y : array of shape (n, *point_shape)
        Responses.
    p, V : arrays of shapes (*point_shape) and (k, *point_shape)
        The point and the k velocities.

    Returns
    -------
    Contributions
        The contributions in coordinates at p, and the lengths of w and h.
    """
    moves = np.tensordot(unit * t, V, axes=1)
    residuals = residuals_at(manifold, p, moves, Y)

    if len(V) == 1:
        # All moves share a direction, so that one frame serves: R is quadratic in x.
        eigenvalues, frame = jacobi_frame(manifold, p, V[0])
        eigenvalues = eigenvalues * (unit * t) ** 2
        frame = frame[None]
    else:
        eigenvalues, frame = jacobi_frame(manifold, p, moves)
    cos, sinc = cos_and_sinc(eigenvalues)

    in_frame = (residuals[:, None] @ frame)[:, 0]
    point_part = (frame @ (cos * in_frame)[:, :, None])[:, :, 0]
    velocity_part = (frame @ (sinc * in_frame)[:, :, None])[:, :, 0]
    rows = np.concatenate(
        [point_part[:, None], t[:, :, None] * velocity_part[:, None]], axis=1
    )
    return Contributions(
        rows.reshape(len(t), -1),
        np.asarray(manifold.norm(p, moves)),
        np.linalg.norm(residuals, axis=-1),
    )


def mean_over_persons(
    rows: np.ndarray, max_length: float, person_index: np.ndarray | None
) -> np.ndarray:
    """Return the mean over people of the mean of each person's rows.

    Parameters
    ----------
    rows : array of shape (n, m)
        One row for each record, none longer than `max_length`.
    max_length : float
    person_index : array of n integers, optional
        Whose record each is, from 0 on. None where each record is a person of its own.
    """
    if person_index is not None and len(np.unique(person_index)) < len(person_index):
        totals = np.zeros((person_index.max() + 1, rows.shape[1]))
        # `add.at` adds each person's rows in their own order, whatever the others have.
        np.add.at(totals, person_index, rows)
        person_means = totals / np.bincount(person_index)[:, None]
        # A mean of rounded rows may be a little longer than the rows are.
        rows = clip_rows(person_means, max_length)
    return np.asarray(rows.mean(axis=0))


def residuals_at(
    manifold: Manifold, p: np.ndarray, moves: np.ndarray, Y: np.ndarray
) -> np.ndarray:
    """Return the residuals log(Exp(p, w), y), transported back to p, in coordinates there.

    Parameters
    ----------
    manifold : Manifold
    p : array of shape (..., *point_shape)
        Where the geodesics start.
    moves : array of shape (..., *point_shape)
        w, tangent vectors at p that lead to the predictions.
    Y : array of shape (n, *point_shape)
        The responses y.

    Returns
    -------
    array of shape (..., dim)
    """
    predictions = manifold.exp(p, moves)
    residuals = manifold.log(predictions, Y)
    return np.asarray(
        manifold.to_coordinates(p, manifold.transport(predictions, p, residuals))
    )


def clip_rows(rows: np.ndarray, clip: float | np.ndarray) -> np.ndarray:
    """Shorten rows to a length of at most `clip`; a row that is not finite becomes 0.

    Parameters
    ----------
    rows : array of shape (..., n, m)
    clip : float or array that broadcasts to (..., n, 1)
        The largest length of a row, or of each row.
    """
    length = np.sqrt(np.sum(rows * rows, axis=-1, keepdims=True))
    is_finite = np.isfinite(length)
    safe_length = np.where(length > 0, length, 1.0)
    factor = np.where(length > clip, clip / safe_length, 1.0)
    return np.where(is_finite, np.where(is_finite, rows, 0.0) * factor, 0.0)


def _as_column(x: np.ndarray, manifold: Manifold) -> np.ndarray:
    """Return x as an array that multiplies n points or tangent vectors."""
    return x.reshape(-1, *(1,) * len(manifold.point_shape))


def _symmetric_space_gradient(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: np.ndarray,
    p: np.ndarray,
    v: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean clipped descent directions on any symmetric space.

    With R_v the curvature operator at p, diagonalized by `jacobi_frame`, and hᵢ the
    clipped residuals, they are the means of cos(xᵢ√R_v)·hᵢ and of xᵢ·sinc(xᵢ√R_v)·hᵢ.

    Parameters
    ----------
    manifold : Manifold
    x, Y, clip : arrays of shapes (n,), (n, *point_shape) and (n,)
        Centered predictors, responses, and the lengths to which residuals are clipped.
    p, v : arrays of shape (N, *point_shape)
        The geodesics.

    Returns
    -------
    point_part, velocity_part : arrays of shape (N, dim)
        −∇_p E and −∇_v E in coordinates at p.
    """
    moves = _as_column(x, manifold) * v[:, None]
    residuals = residuals_at(manifold, p[:, None], moves, Y)
    clipped_residuals = clip_rows(residuals, clip[:, None])

    eigenvalues, frame = jacobi_frame(manifold, p, v)
    in_frame = clipped_residuals @ frame
    cos, sinc = cos_and_sinc(eigenvalues[:, None, :] * (x * x)[:, None])
    point_part = np.mean(cos * in_frame, axis=1)
    velocity_part = np.mean(x[:, None] * sinc * in_frame, axis=1)
    return (
        np.einsum("nij,nj->ni", frame, point_part),
        np.einsum("nij,nj->ni", frame, velocity_part),
    )


def _flat_gradient(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: np.ndarray,
    p: np.ndarray,
    v: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean clipped descent directions of linear regression in Euclidean space.

    The residuals are yᵢ − p − xᵢv, and the Jacobi factors are 1.

    Parameters
    ----------
    manifold : Manifold
        Euclidean space.
    x, Y, clip : arrays of shapes (n,), (n, dim) and (n,)
        Centered predictors, responses, and the lengths to which residuals are clipped.
    p, v : arrays of shape (N, dim)
        The lines.

    Returns
    -------
    point_part, velocity_part : arrays of shape (N, dim)
        −∇_p E and −∇_v E.
    """
    residuals = Y - p[:, None] - x[:, None] * v[:, None]
    clipped_residuals = clip_rows(residuals, clip[:, None])
    point_part = np.mean(clipped_residuals, axis=1)
    velocity_part = np.einsum("n,mnd->md", x, clipped_residuals) / len(x)
    return point_part, velocity_part


def _quadric_gradient(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: np.ndarray,
    p: np.ndarray,
    v: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean clipped descent directions on a sphere or hyperboloid.

    Let e = v/|v| and α = |v|·x. A record's prediction is q = cos α·p + sin α·e, where
    the geodesic has the unit tangent cos α·e − sin α·p (cosh, sinh and + on the
    hyperboloid). The clipped residual at q is f times the part of y orthogonal to q,
    with d = d(q, y) and f = min(d, τ)/sin d (sinh d on the hyperboloid). Its part along
    the tangent becomes a multiple of e after transport back to p; its part across the
    geodesic stays as it is. So only ⟨p, y⟩ and ⟨e, y⟩ of each record are needed, and
    the sums over records are matrix products.

    Parameters
    ----------
    manifold : Manifold
        A `UnitQuadric`.
    x, Y, clip : arrays of shapes (n,), (n, *point_shape) and (n,)
        Centered predictors, responses, and the lengths τ to which residuals are
        clipped.
    p, v : arrays of shape (N, *point_shape)
        The geodesics.

    Returns
    -------
    point_part, velocity_part : arrays of shape (N, dim)
        −∇_p E and −∇_v E in coordinates at p.
    """
    assert isinstance(manifold, UnitQuadric)  # `_choose_kernel` has asked.
    n = len(x)
    speed = np.asarray(manifold.norm(p, v))
    is_moving = speed > 0
    any_direction = np.asarray(manifold.from_coordinates(p, np.eye(manifold.dim)[0]))
    e = np.where(is_moving[:, None], v, any_direction)
    e = e / np.asarray(manifold.norm(p, e))[:, None]

    dual_Y = (Y * manifold.embedding_signature).T
    p_product = p @ dual_Y
    e_product = e @ dual_Y
    angle = speed[:, None] * x
    if manifold.constant_curvature == -1:
        cos = np.cosh(angle)
        sin = np.sinh(angle)
        along_t = cos * e_product + sin * p_product
        # This is ⟨q, y⟩ = −cosh d.
        q_product = cos * p_product + sin * e_product
        sine = np.sqrt(np.maximum(q_product * q_product - 1, 0.0))
        distance = np.arcsinh(sine)
    else:
        cos = np.cos(angle)
        sin = np.sin(angle)
        along_t = cos * e_product - sin * p_product
        q_product = cos * p_product + sin * e_product
        sine = np.sqrt(np.maximum(1 - q_product * q_product, 0.0))
        distance = np.arctan2(sine, q_product)

    f = np.minimum(distance, clip) / np.where(sine > 0, sine, 1.0)
    f = np.where(sine > 0, f, 1.0)
    safe_speed = np.where(is_moving, speed, 1.0)[:, None]
    sine_per_speed = np.where(is_moving[:, None], sin / safe_speed, x)
    e_coordinates = np.asarray(manifold.to_coordinates(p, e))

    def assemble(tangential: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Join the part along e with the weighted sum of the parts of Y across it."""
        tangent_sum = manifold.to_tangent(p, weights @ Y)
        total = np.asarray(manifold.to_coordinates(p, tangent_sum))
        along_e = np.sum(total * e_coordinates, axis=1, keepdims=True)
        across = total - along_e * e_coordinates
        return np.asarray((across + tangential[:, None] * e_coordinates) / n)

    scaled_along = f * along_t
    point_part = assemble(scaled_along.sum(axis=1), f * cos)
    velocity_part = assemble(scaled_along @ x, f * sine_per_speed)
    return point_part, velocity_part
