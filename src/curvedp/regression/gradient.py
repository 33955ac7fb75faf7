"""Clipped descent directions of geodesic regression: minus the gradient of the energy
E. A geodesic has the middle p and the velocity v, and predicts the response yᵢ of a
record with the predictor xᵢ as Exp(p, xᵢv). The energy E(p, v) is the mean of half the
squared residuals, the distances of predictions and responses.

Let hᵢ be the residual log(Exp(p, xᵢv), yᵢ), clipped to the length τ and transported back
to p. With the Jacobi fields of `jacobi.py` (Fletcher 2011),

    ∇_p E = −(1/n) Σ cos(xᵢ√R_v)·hᵢ      and      ∇_v E = −(1/n) Σ xᵢ·sinc(xᵢ√R_v)·hᵢ,

where R_v is the curvature operator of v.

`descent_direction_function` clips residuals in this way; `clipped_direction` clips each
record's whole contribution instead, which is what a Gaussian release needs.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from curvedp.geometry.capabilities import UnitQuadric
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.euclidean import Euclidean
from curvedp.regression.jacobi import cos_and_sinc, jacobi_frame

DirectionFunction = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""A function from N pairs (p, v), of shapes (N, *point_shape), to the mean clipped
descent directions (−∇_p E, −∇_v E), in coordinates of shapes (N, dim)."""

# One way to compute directions: a function of the manifold, the predictors, the
# responses, the clips, and the pairs (p, v).
_DirectionFormula = Callable[
    [Manifold, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    tuple[np.ndarray, np.ndarray],
]

# Up to this distance from the origin of the hyperboloid, products of ambient coordinates
# are accurate enough: their cancellation is e^(2·distance) times the float spacing.
_MAX_HYPERBOLOID_DISTANCE = 4.0

# How many pairs of a record and a geodesic are computed at once: the arrays then stay in
# the cache.
_BLOCK_SIZE = 1 << 15


def descent_direction_function(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: float | np.ndarray,
    max_distance: float,
) -> DirectionFunction:
    """Return a function that computes mean clipped descent directions at many geodesics.

    A geodesic is given by its middle p and its velocity v there. For N pairs (p, v) the
    returned function computes (−∇_p E, −∇_v E), where E is the mean of half the squared
    residuals log(Exp(p, xᵢv), yᵢ), each clipped to a length τᵢ. Used by the K-norm
    mechanism for regression, which evaluates the function many times on the same
    records.

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
    max_distance : float
        The largest distance of a record or prediction from the manifold's origin. It
        decides whether a faster formula on the hyperboloid is accurate enough.

    Returns
    -------
    DirectionFunction
        Maps arrays p, v of shape (N, *point_shape) to two arrays of shape (N, dim).
    """
    formula = _choose_formula(manifold, max_distance)
    geodesics_per_block = max(1, _BLOCK_SIZE // len(x))
    clips = np.broadcast_to(clip, x.shape)

    def descent_directions(
        p: np.ndarray, v: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (−∇_p E, −∇_v E) at each of N pairs, block by block.

        Parameters
        ----------
        p : array of shape (N, *point_shape)
            The middles of N geodesics.
        v : array of shape (N, *point_shape)
            Their velocities there.

        Returns
        -------
        point_part, velocity_part : arrays of shape (N, dim)
            −∇_p E and −∇_v E in coordinates at each p.
        """
        point_parts = []
        velocity_parts = []
        for start in range(0, len(p), geodesics_per_block):
            block = slice(start, start + geodesics_per_block)
            point_part, velocity_part = formula(
                manifold, x, Y, clips, p[block], v[block]
            )
            point_parts.append(point_part)
            velocity_parts.append(velocity_part)
        return np.concatenate(point_parts), np.concatenate(velocity_parts)

    return descent_directions


def _choose_formula(manifold: Manifold, max_distance: float) -> _DirectionFormula:
    """Return the fastest function that computes descent directions accurately enough.

    Called once by `descent_direction_function`.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    max_distance : float
        The largest distance of a record or prediction from the manifold's origin. Far
        out on a hyperboloid, products of ambient coordinates lose digits.

    Returns
    -------
    callable
        A function of the manifold, predictors, responses, clips and pairs (p, v).
    """
    curvature = manifold.constant_curvature or 0.0
    if isinstance(manifold, UnitQuadric):
        is_sphere = curvature > 0
        is_near_origin = curvature < 0 and max_distance <= _MAX_HYPERBOLOID_DISTANCE
        if is_sphere or is_near_origin:
            return _directions_on_quadric
    if isinstance(manifold, Euclidean):
        return _directions_in_flat_space
    return _directions_on_symmetric_space


def prediction_distances(
    manifold: Manifold, x: np.ndarray, Y: np.ndarray, p: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """Return the distances d(Exp(p, xᵢv), yᵢ) of predictions and responses.

    There is one prediction for each record i and each of N geodesics, given by their
    middles p and velocities v. Used by a rejection sampler: the gradient changes slowly
    where residuals are always clipped.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    x : array of shape (n,)
        Centered predictors.
    Y : array of shape (n, *point_shape)
        The responses yᵢ.
    p : array of shape (N, *point_shape)
        The middles of N geodesics.
    v : array of shape (N, *point_shape)
        Their velocities there.

    Returns
    -------
    array of shape (N, n)
        One row for each geodesic, one column for each record.
    """
    geodesics_per_block = max(1, _BLOCK_SIZE // len(x))
    times = _one_factor_per_point(x, manifold)
    blocks = []
    for start in range(0, len(p), geodesics_per_block):
        block = slice(start, start + geodesics_per_block)
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

    The model predicts each response by a geodesic from the point p: the prediction of a
    record with predictors t is exp(p, u) with u = Σ tⱼ·unit·vⱼ. The residual h is the
    logarithm of the response at the prediction, moved back to p. A private descent
    releases this mean with Gaussian noise, and moves the parameters
    (p, v₁·unit, …, v_k·unit) along it.

    The contribution of a record is (C·h, t₁S·h, …, t_kS·h). The linear maps C = cos√R
    and S = sinc√R describe how the prediction moves with p and with the velocities.
    Here R is the curvature operator w ↦ R(w, u)u. In flat space C and S are the
    identity.

    Each contribution has length at most τ. So replacing one record, or one person with
    all theirs, moves the mean by at most 2τ/n, whatever the curvature and the number of
    predictors (docs/theory/regression.md, Theorem G4).

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    t : array of shape (n, k)
        Centered predictors, in multiples of `unit`.
    unit : float
        The public unit of the predictors.
    Y : array of shape (n, *point_shape)
        Responses.
    clip : float
        τ, the length to which each contribution is clipped.
    p : array of shape point_shape
        The point at which all geodesics of the model begin.
    V : array of shape (k, *point_shape)
        Its velocities v₁, …, v_k, tangent vectors at p.
    person_index : array of n integers, optional
        The number of the person to whom each record belongs. Then the mean is over
        people.

    Returns
    -------
    array of shape (k + 1, dim)
        The direction in coordinates at p: the first row is that of p, row j that of
        v_j·unit.
    """
    terms = contributions(manifold, t, unit, Y, p, V)
    clipped_rows = clip_rows(terms.rows, clip)
    return mean_over_persons(clipped_rows, clip, person_index).reshape(-1, manifold.dim)


class Contributions(NamedTuple):
    """The contribution of each record to a descent direction, before it is clipped.

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
    t_kS·h) with the Jacobi factors C = cos√R and S = sinc√R, where R is the curvature
    operator of w (`jacobi.py`).

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    t : array of shape (n, k)
        Centered predictors, in multiples of `unit`.
    unit : float
        The public unit of the predictors.
    Y : array of shape (n, *point_shape)
        Responses.
    p : array of shape point_shape
        The point of the pair (p, V), at which all geodesics of the model begin.
    V : array of shape (k, *point_shape)
        The velocities v₁, …, v_k, tangent vectors at p.

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

    # Apply C and S in the frame in which they are diagonal, one record at a time.
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

    Replacing all records of one person then changes the result by at most
    2·max_length/(number of people), however many records the person has.

    Parameters
    ----------
    rows : array of shape (n, m)
        One row for each record, none longer than `max_length`.
    max_length : float
        The largest length of a row, and of a person's mean.
    person_index : array of n integers, optional
        The number of the person to whom each record belongs, from 0 on. None if every
        record belongs to another person.

    Returns
    -------
    array of shape (m,)
        The mean.
    """
    # If every person has one record, the rows are the means already.
    if person_index is not None and len(np.unique(person_index)) < len(person_index):
        totals = np.zeros((person_index.max() + 1, rows.shape[1]))
        # `add.at` adds the rows of a person in their own order. So the rounding of a
        # person's mean depends on that person's records alone.
        np.add.at(totals, person_index, rows)
        person_means = totals / np.bincount(person_index)[:, None]
        # A mean of rounded rows may be a little longer than the rows are.
        rows = clip_rows(person_means, max_length)
    return np.asarray(rows.mean(axis=0))


def residuals_at(
    manifold: Manifold, p: np.ndarray, moves: np.ndarray, Y: np.ndarray
) -> np.ndarray:
    """Return the residuals log(Exp(p, w), y), in coordinates at p.

    They are transported from the predictions back to p, so that all of them are vectors
    in one tangent space, where they can be averaged.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    p : array of shape (..., *point_shape)
        The starts of the geodesics.
    moves : array of shape (..., *point_shape)
        w, tangent vectors at p that lead to the predictions.
    Y : array of shape (n, *point_shape)
        The responses y.

    Returns
    -------
    array of shape (..., dim)
        The residuals; the length of each is the distance of prediction and response.
    """
    predictions = manifold.exp(p, moves)
    residuals = manifold.log(predictions, Y)
    return np.asarray(
        manifold.to_coordinates(p, manifold.transport(predictions, p, residuals))
    )


def clip_rows(rows: np.ndarray, clip: float | np.ndarray) -> np.ndarray:
    """Shorten rows to a length of at most `clip`; a row that is not finite becomes 0.

    After that, one record changes a sum of rows by at most 2·clip, whatever its data.

    Parameters
    ----------
    rows : array of shape (..., n, m)
        The rows, m numbers for each of n records.
    clip : float or array that broadcasts to (..., n, 1)
        The largest length of a row, or of each row.

    Returns
    -------
    array of shape (..., n, m)
        The rows; those that are short enough are unchanged.
    """
    length = np.sqrt(np.sum(rows * rows, axis=-1, keepdims=True))
    is_finite = np.isfinite(length)
    safe_length = np.where(length > 0, length, 1.0)
    factor = np.where(length > clip, clip / safe_length, 1.0)
    return np.where(is_finite, np.where(is_finite, rows, 0.0) * factor, 0.0)


def _one_factor_per_point(x: np.ndarray, manifold: Manifold) -> np.ndarray:
    """Reshape n numbers so that each multiplies one point or tangent vector.

    Parameters
    ----------
    x : array of shape (n,)
        The factors, such as predictors.
    manifold : Manifold
        The manifold of the points, whose `point_shape` may have several axes.

    Returns
    -------
    array of shape (n, 1, …, 1)
        The same numbers; there is one axis of length 1 for each axis of a point.
    """
    return x.reshape(-1, *(1,) * len(manifold.point_shape))


def _directions_on_symmetric_space(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: np.ndarray,
    p: np.ndarray,
    v: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean clipped descent directions on any symmetric space.

    They are the means of cos(xᵢ√R_v)·hᵢ and of xᵢ·sinc(xᵢ√R_v)·hᵢ. Here hᵢ are the
    clipped residuals, transported back to p, and R_v is the curvature operator of v at
    p, which `jacobi_frame` diagonalizes.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    x : array of shape (n,)
        Centered predictors.
    Y : array of shape (n, *point_shape)
        Responses.
    clip : array of shape (n,)
        The lengths to which residuals are clipped.
    p : array of shape (N, *point_shape)
        The middles of N geodesics.
    v : array of shape (N, *point_shape)
        Their velocities there.

    Returns
    -------
    point_part, velocity_part : arrays of shape (N, dim)
        −∇_p E and −∇_v E in coordinates at p.
    """
    moves = _one_factor_per_point(x, manifold) * v[:, None]
    residuals = residuals_at(manifold, p[:, None], moves, Y)
    clipped_residuals = clip_rows(residuals, clip[:, None])

    # In the frame, both functions of R_v are diagonal. Arrays have the shape
    # (N geodesics, n records, dim) until the mean over records is taken.
    eigenvalues, frame = jacobi_frame(manifold, p, v)
    in_frame = clipped_residuals @ frame
    cos, sinc = cos_and_sinc(eigenvalues[:, None, :] * (x * x)[:, None])
    point_part = np.mean(cos * in_frame, axis=1)
    velocity_part = np.mean(x[:, None] * sinc * in_frame, axis=1)

    # Back from the frame to coordinates: for each of the N geodesics, matrix·vector.
    return (
        np.einsum("nij,nj->ni", frame, point_part),
        np.einsum("nij,nj->ni", frame, velocity_part),
    )


def _directions_in_flat_space(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: np.ndarray,
    p: np.ndarray,
    v: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean clipped descent directions of linear regression in Euclidean space.

    They are the means of hᵢ and of xᵢ·hᵢ, where hᵢ is the clipped residual yᵢ − p − xᵢv.

    Used when the manifold is Euclidean, because it is faster than the general formula.

    Parameters
    ----------
    manifold : Manifold
        Euclidean space.
    x : array of shape (n,)
        Centered predictors.
    Y : array of shape (n, dim)
        Responses.
    clip : array of shape (n,)
        The lengths to which residuals are clipped.
    p : array of shape (N, dim)
        The middles of N lines.
    v : array of shape (N, dim)
        Their velocities.

    Returns
    -------
    point_part, velocity_part : arrays of shape (N, dim)
        −∇_p E and −∇_v E.
    """
    residuals = Y - p[:, None] - x[:, None] * v[:, None]
    clipped_residuals = clip_rows(residuals, clip[:, None])
    point_part = np.mean(clipped_residuals, axis=1)
    # The sum over the n records of xᵢ·(residual of record i), for each of the m lines.
    velocity_part = np.einsum("n,mnd->md", x, clipped_residuals) / len(x)
    return point_part, velocity_part


def _directions_on_quadric(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: np.ndarray,
    p: np.ndarray,
    v: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean clipped descent directions on a sphere or hyperboloid.

    Let e = v/|v| be the direction of a geodesic, and α = |v|·x the angle of a record.
    The prediction is q = cos α·p + sin α·e, where the geodesic has the unit tangent
    vector t = cos α·e − sin α·p (with cosh, sinh and + on the hyperboloid). The clipped
    residual at q is f times the part of y orthogonal to q, where d = d(q, y) and f =
    min(d, τ)/sin d (sinh d on the hyperboloid). Transport back to p turns its part
    along t into a multiple of e, and leaves its part across the geodesic unchanged. So
    only ⟨p, y⟩ and ⟨e, y⟩ of each record are needed, and the sums over records are
    matrix products. All arrays have one row for each geodesic and one column for each
    record.

    Parameters
    ----------
    manifold : Manifold
        A `UnitQuadric`.
    x : array of shape (n,)
        Centered predictors.
    Y : array of shape (n, *point_shape)
        The responses y.
    clip : array of shape (n,)
        The lengths τ to which residuals are clipped.
    p : array of shape (N, *point_shape)
        The middles of N geodesics.
    v : array of shape (N, *point_shape)
        Their velocities there.

    Returns
    -------
    point_part, velocity_part : arrays of shape (N, dim)
        −∇_p E and −∇_v E in coordinates at p.
    """
    assert isinstance(manifold, UnitQuadric)  # `_choose_formula` has tested this
    speed = np.asarray(manifold.norm(p, v))
    e = _unit_directions(manifold, p, v, speed)
    e_coordinates = np.asarray(manifold.to_coordinates(p, e))
    residuals = _residuals_on_quadric(manifold, Y, clip, p, e, speed[:, None] * x)

    # sin(α)/|v|, with its limit x where v = 0.
    is_moving = speed > 0
    nonzero_speed = np.where(is_moving, speed, 1.0)[:, None]
    sine_per_speed = np.where(is_moving[:, None], residuals.sin / nonzero_speed, x)

    # Along e, p moves the prediction by the factor 1 and v by x. Across e the factors
    # are cos α and sin(α)/|v|.
    point_part = _mean_with_part_along(
        manifold,
        p,
        e_coordinates,
        residuals.along_geodesic.sum(axis=1),
        residuals.factor * residuals.cos,
        Y,
    )
    velocity_part = _mean_with_part_along(
        manifold,
        p,
        e_coordinates,
        residuals.along_geodesic @ x,
        residuals.factor * sine_per_speed,
        Y,
    )
    return point_part, velocity_part


def _unit_directions(
    manifold: UnitQuadric, p: np.ndarray, v: np.ndarray, speed: np.ndarray
) -> np.ndarray:
    """Return the unit vectors e = v/|v|; for v = 0, where any direction will do, one of them.

    Parameters
    ----------
    manifold : UnitQuadric
        A sphere or hyperboloid.
    p : array of shape (N, *point_shape)
        The middles of N geodesics.
    v : array of shape (N, *point_shape)
        Their velocities there.
    speed : array of shape (N,)
        The lengths |v|.

    Returns
    -------
    array of shape (N, *point_shape)
        Unit tangent vectors at p.
    """
    any_direction = np.asarray(manifold.from_coordinates(p, np.eye(manifold.dim)[0]))
    e = np.where((speed > 0)[:, None], v, any_direction)
    return np.asarray(e / np.asarray(manifold.norm(p, e))[:, None])


class _QuadricResiduals(NamedTuple):
    """Clipped residuals of N geodesics and n records, as arrays of shape (N, n).

    Attributes
    ----------
    factor : array
        f: the residual is f times the part of the response y orthogonal to the
        prediction.
    along_geodesic : array
        The residual's part along the geodesic.
    cos, sin : arrays
        cos α and sin α (cosh and sinh on the hyperboloid), α the angle of the record.
    """

    factor: np.ndarray
    along_geodesic: np.ndarray
    cos: np.ndarray
    sin: np.ndarray


def _residuals_on_quadric(
    manifold: UnitQuadric,
    Y: np.ndarray,
    clip: np.ndarray,
    p: np.ndarray,
    e: np.ndarray,
    angle: np.ndarray,
) -> _QuadricResiduals:
    """Return the clipped residuals of all records at all geodesics.

    The notation is that of `_directions_on_quadric`.

    Parameters
    ----------
    manifold : UnitQuadric
        A sphere or hyperboloid.
    Y : array of shape (n, *point_shape)
        The responses y.
    clip : array of shape (n,)
        The lengths τ to which residuals are clipped.
    p, e : arrays of shape (N, *point_shape)
        The middles of N geodesics, and their unit directions there.
    angle : array of shape (N, n)
        α = |v|·x of each geodesic and record.

    Returns
    -------
    _QuadricResiduals
        The residuals, described by arrays of shape (N, n).
    """
    # ⟨p, y⟩ and ⟨e, y⟩, one row for each geodesic and one column for each record. The
    # signature is −1 in the time coordinate of the hyperboloid, and 1 elsewhere.
    dual_Y = (Y * manifold.embedding_signature).T
    p_product = p @ dual_Y
    e_product = e @ dual_Y

    # ⟨t, y⟩ with the unit tangent t at the prediction q, ⟨q, y⟩, and d = d(q, y).
    if manifold.constant_curvature == -1:
        cos = np.cosh(angle)
        sin = np.sinh(angle)
        t_product = cos * e_product + sin * p_product
        q_product = cos * p_product + sin * e_product  # This is −cosh d.
        sin_distance = np.sqrt(np.maximum(q_product * q_product - 1, 0.0))
        distance = np.arcsinh(sin_distance)
    else:
        cos = np.cos(angle)
        sin = np.sin(angle)
        t_product = cos * e_product - sin * p_product
        q_product = cos * p_product + sin * e_product  # This is cos d.
        sin_distance = np.sqrt(np.maximum(1 - q_product * q_product, 0.0))
        distance = np.arctan2(sin_distance, q_product)

    # f = min(d, τ)/sin d, with its limit 1 at d = 0.
    is_positive = sin_distance > 0
    factor = np.minimum(distance, clip) / np.where(is_positive, sin_distance, 1.0)
    factor = np.where(is_positive, factor, 1.0)
    return _QuadricResiduals(factor, factor * t_product, cos, sin)


def _mean_with_part_along(
    manifold: UnitQuadric,
    p: np.ndarray,
    e_coordinates: np.ndarray,
    sum_along_e: np.ndarray,
    weights: np.ndarray,
    Y: np.ndarray,
) -> np.ndarray:
    """Return the mean of vectors whose parts along e and across e are summed separately.

    Across e, the sum is the weighted sum of the responses' parts; along e, it is given.

    Parameters
    ----------
    manifold : UnitQuadric
        A sphere or hyperboloid.
    p : array of shape (N, *point_shape)
        The middles of N geodesics.
    e_coordinates : array of shape (N, dim)
        The unit directions e of the geodesics, in coordinates at p.
    sum_along_e : array of shape (N,)
        The sum, over all records, of the parts along e.
    weights : array of shape (N, n)
        The factor with which the part of each response across e counts.
    Y : array of shape (n, *point_shape)
        The responses.

    Returns
    -------
    array of shape (N, dim)
        The mean over all records, in coordinates at p.
    """
    tangent_sum = manifold.to_tangent(p, weights @ Y)
    weighted_sum = np.asarray(manifold.to_coordinates(p, tangent_sum))
    # The weights are for the parts across e. So the part of the weighted sum along e is
    # replaced by the given one.
    along_e = np.sum(weighted_sum * e_coordinates, axis=1, keepdims=True)
    across_e = weighted_sum - along_e * e_coordinates
    return np.asarray((across_e + sum_along_e[:, None] * e_coordinates) / len(Y))
