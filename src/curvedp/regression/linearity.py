"""How far the clipped descent direction of a geodesic regression is from linear.

A private descent ends by releasing the linearization of its problem at a pair (p, V),
together with a bound on its error. `curvedp.inference.lines` derives a confidence
region of the geodesic from that release.

The statement (docs/theory/inference.md, "Regions of the records", Geodesics). Pairs
near (p, V) are written as z = (z_p, u·z_v) with the unit u = 1/√12: p moves along exp
by z_p, and V + z_v follows by parallel transport. For one record let

    t    be its centered predictors in the unit u, and a = (1, t);
    w    bound the length of its move Σ tⱼ·u·vⱼ along the ray to z;
    h    bound the length of its residual along the ray;
    K    bound |curvature|, and k = Kw²;
    c    = cosh(w√−κ_min), a bound on the Jacobi factors cos√R and sinc√R;
    g    bound the distance of (cos√R, t·sinc√R) from (I, tI);
    b    = ‖Hess ½d² − I‖ at distances up to h (Karcher 1977).

Lemma. On a symmetric space the record's contribution (cos√R·h, t·sinc√R·h) changes
along the ray as −(aaᵀ + X)z, where

    ‖X‖ ≤ (|a| + g)²(1 + b) − |a|² + hβ,
    β = c³Kw·‖(1 + 5k/6, (1 + k/4)t; (3/2 + k/6)t, 5t²/6)‖.

This bound on ‖X‖ is called the record's remainder.
"""

from functools import cached_property
from math import inf, pi, sqrt
from typing import NamedTuple

import numpy as np

from curvedp.geometry.manifold import Manifold
from curvedp.regression.bounds import MAX_PREDICTOR, PREDICTOR_UNIT, Domain
from curvedp.regression.gradient import Contributions

# η: the length of aaᵀ/A and of remainder/max_remainder in a released row, relative to
# the clip τ of a direction. A larger η gives these two less noise, and the direction
# more.
_LINEARIZATION_SHARE = 0.5

# The remainder of a record whose residual may cross the cut locus, where no bound
# exists. It is finite, so that remainder/max_remainder is 1 and not NaN.
_UNBOUNDED_REMAINDER = 1e300

# How much longer one record's contribution is with aaᵀ and the remainder than without:
# the direction moves by at most 2τ/n, all three together by τ√(4 + 3η²)/n.
SENSITIVITY_FACTOR = sqrt(1 + 0.75 * _LINEARIZATION_SHARE**2)


class LinearizationUnits(NamedTuple):
    """The factors that turn released numbers into the quantities they stand for.

    Attributes
    ----------
    normal_matrix : float
        A released entry times this is an entry of the mean of aaᵀ.
    remainder : float
        The last released number times this is the mean remainder.
    """

    normal_matrix: float
    remainder: float


class Linearization(NamedTuple):
    """The linearized regression problem at a pair (p, V), as it was released with noise.

    Attributes
    ----------
    direction : array of shape (1 + k, dim)
        The mean clipped descent direction.
    normal_matrix : array of shape (1 + k, 1 + k)
        The mean of aaᵀ.
    remainder : float
        The mean remainder.
    """

    direction: np.ndarray
    normal_matrix: np.ndarray
    remainder: float


class JacobiBounds(NamedTuple):
    """Bounds on the Jacobi factors cos√R and sinc√R of moves up to some length.

    Attributes
    ----------
    norm : array
        c, a bound on the norms of cos√R and sinc√R.
    deviation : array
        g, a bound on the distance of (cos√R, t·sinc√R) from (I, tI).
    """

    norm: np.ndarray
    deviation: np.ndarray


class Neighborhood:
    """The pairs within `reach` of a released pair, and the rows released to linearize there.

    A record's row consists of its clipped direction, of length at most τ, and of ητ
    times aaᵀ/A and remainder/B. Here a = (1, t) are its predictors, A is the largest
    possible |a|², and B the largest possible remainder (`max_remainder`). Replacing one
    of n records moves the mean direction by at most 2τ/n, the mean of aaᵀ/A by √2/n
    (because inner products of such matrices are not negative), and the mean of
    remainder/B by 1/n: together by at most τ√(4 + 3η²)/n.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    domain : Domain
        The public numbers of the regression.
    scale : float
        The standard deviation of the noise on each number of the last release.

    Attributes
    ----------
    direction_size : int
        How many numbers a direction has: (1 + k)·dim for k predictors.
    release_size : int
        How many numbers the last release has: direction, aaᵀ and remainder.
    max_leverage : float
        A = 1 + |t|² at the ends of all ranges.
    reach : float
        ρ, the radius of the neighborhood: a few times the noise of a direction, but so
        small that contributions of length τ/2 are not clipped anywhere in it.
    max_row_length : float
        The largest length of a row of `linearization_rows`.
    """

    def __init__(self, manifold: Manifold, domain: Domain, scale: float) -> None:
        """Compute the sizes of a row and the radius of the neighborhood.

        Parameters
        ----------
        manifold : Manifold
            A symmetric space.
        domain : Domain
            The public numbers of the regression.
        scale : float
            The standard deviation of the noise on each number of the last release.
        """
        k = domain.predictors
        n_products = (1 + k) * (2 + k) // 2

        self.manifold = manifold
        self.domain = domain
        self.direction_size = (1 + k) * manifold.dim
        self.release_size = self.direction_size + n_products + 1
        self.max_leverage = 1 + k * (MAX_PREDICTOR / PREDICTOR_UNIT) ** 2
        largest_reach = domain.clip / (2 * self.max_leverage)
        # Eight times the typical length of the noise of a direction.
        noise_reach = 8 * sqrt(self.direction_size) * scale
        self.reach = min(largest_reach, noise_reach)
        self.max_row_length = sqrt(2) * _LINEARIZATION_SHARE * domain.clip

    @cached_property
    def max_remainder(self) -> float:
        """The largest remainder B that a record can have, whatever the record is.

        A record's remainder bounds how far its contribution is from linear (the lemma
        of this module). Its mean is released with noise, in units of B. The largest
        value is

            B = (|a| + g)² + τ·((|a| + g)²·s + β)/cos(w√κ_max),

        where |a| = √A is the largest length of (1, t), g bounds how far the Jacobi
        factors are from the identity (`_jacobi_bounds`), β how fast they change
        (`_jacobi_rate`), w is the longest move, τ the clip, and s = ‖Hess ½d² − I‖/h
        the defect of the Hessian per length h of the residual. The cosine appears
        because clipping multiplies the derivative of a contribution y by at most
        min(1, τ/|y|), and |y| ≥ h·cos(w√κ_max).

        Where a residual may cross the cut locus there is no bound, and the result is
        `_UNBOUNDED_REMAINDER`.
        """
        negative_root, positive_root = curvature_roots(self.manifold)
        max_predictor = sqrt(self.max_leverage - 1)
        max_move = self._max_half_length + max_predictor * self.reach
        jacobi = _jacobi_bounds(self.manifold, max_predictor, max_move)
        jacobi_norm = float(jacobi.norm)
        max_residual = self._max_residual(jacobi_norm)

        has_bound = (
            positive_root * max_move < pi / 2
            and positive_root * max_residual < pi
            and max_residual < self.manifold.injectivity_radius
        )
        if not has_bound:
            return _UNBOUNDED_REMAINDER

        hessian_defect = float(_hessian_defect(positive_root * max_residual))
        hessian_slope = max(negative_root, hessian_defect / max_residual)
        leverage = (sqrt(self.max_leverage) + float(jacobi.deviation)) ** 2
        jacobi_rate = float(
            _jacobi_rate(self.manifold, jacobi_norm, max_predictor, max_move)
        )
        smallest_cos = float(np.cos(positive_root * max_move))
        return (
            leverage
            + self.domain.clip * (leverage * hessian_slope + jacobi_rate) / smallest_cos
        )

    @property
    def _max_half_length(self) -> float:
        """The largest length of a move of the released pair itself: half the geodesic."""
        return self.domain.predictors * self.domain.speed * MAX_PREDICTOR

    def _max_residual(self, jacobi_norm: float) -> float:
        """Return the largest distance between a response and its prediction.

        It adds up the distances from the public center to the middle of the geodesic,
        along half the geodesic, from the center to a response, and what a move of the
        pair within the neighborhood adds.

        Parameters
        ----------
        jacobi_norm : float
            A bound on how much the exponential map stretches a move of the pair.

        Returns
        -------
        float
            The distance, which no public number can exceed.
        """
        domain = self.domain
        return (
            domain.radius
            + self._max_half_length
            + domain.data_radius
            + jacobi_norm * sqrt(self.max_leverage) * self.reach
        )

    def remainders(self, t: np.ndarray, terms: Contributions) -> np.ndarray:
        """Return how far each record's contribution is from linear, at most.

        A pair (p, V) consists of the middle of a geodesic and its velocities. A record
        contributes the vector (cos√R·h, t·sinc√R·h) to the descent direction at a pair,
        with its residual h and its Jacobi factors cos√R and sinc√R. The bound on the
        nonlinear part of that vector holds at every pair of the neighborhood (the lemma
        of this module):

            (|a| + g)²·(1 + b) − |a|² + hβ,

        where |a| = √(1 + t²), g bounds how far the Jacobi factors are from the identity
        (`_jacobi_bounds`), b = ‖Hess ½d² − I‖ is the deviation of the Hessian, h the
        length of the residual at most, and β bounds how fast the Jacobi factors change
        (`_jacobi_rate`).

        Parameters
        ----------
        t : array of shape (n,)
            The length of each record's centered predictors, in the unit 1/√12.
        terms : Contributions
            What `contributions` has computed at the pair itself, among them the lengths
            of the records' moves and residuals.

        Returns
        -------
        array of shape (n,)
            One remainder ≥ 0 for each record; infinite where the bound does not hold.
        """
        manifold = self.manifold
        negative_root, positive_root = curvature_roots(manifold)
        a = np.hypot(1, t)

        max_moves = terms.moves + t * self.reach
        jacobi = _jacobi_bounds(manifold, t, max_moves)
        max_residuals = terms.residuals + jacobi.norm * a * self.reach

        # The Hessian exceeds the identity where curvature is negative, and falls below
        # it where curvature is positive.
        hessian_excess: np.ndarray | float = 0.0
        if negative_root > 0:
            angle = negative_root * max_residuals
            hessian_excess = angle / np.tanh(angle) - 1
        hessian_deviation = np.maximum(
            _hessian_defect(positive_root * max_residuals), hessian_excess
        )

        jacobi_rate = _jacobi_rate(manifold, jacobi.norm, t, max_moves)
        return np.asarray(
            (a + jacobi.deviation) ** 2 * (1 + hessian_deviation)
            - a * a
            + max_residuals * jacobi_rate
        )

    def linearization_rows(self, t: np.ndarray, terms: Contributions) -> np.ndarray:
        """Return the row of each record that is averaged and released with the direction.

        The direction is the mean clipped descent direction at a pair (p, V), the middle
        of a geodesic and its velocities. The additional row makes a linear problem of
        it, from which a confidence region follows. The row is ητ·(aaᵀ/A, remainder/B).
        Its first part becomes the normal matrix of the linearized problem, its second
        part the bound on its error. Here a = (1, t) are the record's predictors, τ is
        the clip, η = `_LINEARIZATION_SHARE`, A the largest |a|² and B the largest
        remainder, so that no row is long.

        A record whose contribution may be clipped somewhere in the neighborhood gets
        |a|² added to its remainder, because clipping may take away all of its
        derivative.

        Parameters
        ----------
        t : array of shape (n, k)
            Centered predictors in the unit 1/√12.
        terms : Contributions
            What `contributions` has computed at the pair: what each record adds to the
            direction before it is clipped.

        Returns
        -------
        array of shape (n, (1 + k)(2 + k)/2 + 1)
            One row for each record, none longer than `max_row_length`: the packed
            matrix aaᵀ, and the remainder.
        """
        tau = self.domain.clip
        a = np.concatenate([np.ones((len(t), 1)), t], axis=1)
        leverage = np.sum(a * a, axis=1)

        with np.errstate(all="ignore"):  # Values of records may overflow.
            remainder = self.remainders(np.linalg.norm(t, axis=1), terms)
            contribution_length = np.linalg.norm(terms.rows, axis=1)
            largest_length = contribution_length + (leverage + remainder) * self.reach
            is_never_clipped = largest_length <= tau
            remainder = remainder + np.where(is_never_clipped, 0.0, leverage)
            # `fmin` takes the bound where the remainder is not a number.
            remainder = np.fmin(remainder, self.max_remainder)

        columns = [
            _pack_outer_products(a) / self.max_leverage,
            remainder / self.max_remainder,
        ]
        return np.asarray(_LINEARIZATION_SHARE * tau * np.column_stack(columns))

    @property
    def units(self) -> LinearizationUnits:
        """The factors that turn a released row back into aaᵀ and the remainder.

        The row is ητ·(aaᵀ/A, remainder/B), with the clip τ, η = `_LINEARIZATION_SHARE`,
        and the largest possible values A and B.
        """
        unit = 1 / (_LINEARIZATION_SHARE * self.domain.clip)
        return LinearizationUnits(self.max_leverage * unit, self.max_remainder * unit)

    def unpack(self, release: np.ndarray) -> Linearization:
        """Split a release into mean direction, mean aaᵀ and mean remainder, in their units.

        Parameters
        ----------
        release : array of shape (release_size,)
            The noisy mean of the rows: the direction, then the entries of aaᵀ as
            `_pack_outer_products` orders them, then the remainder.

        Returns
        -------
        Linearization
            The three noisy means. The normal matrix is symmetric, but noise may make it
            indefinite.
        """
        size = 1 + self.domain.predictors
        direction = release[: self.direction_size]
        packed_products = self.units.normal_matrix * release[self.direction_size : -1]

        diagonal = packed_products[:size]
        off_diagonal = packed_products[size:] / sqrt(2)
        normal_matrix = np.zeros((size, size))
        i, j = np.triu_indices(size, 1)
        normal_matrix[i, j] = off_diagonal
        normal_matrix[j, i] = off_diagonal
        return Linearization(
            direction=direction.reshape(size, self.manifold.dim),
            normal_matrix=normal_matrix + np.diag(diagonal),
            remainder=self.units.remainder * float(release[-1]),
        )


def prediction_stretch(
    manifold: Manifold, move: float, t: float, reach: float
) -> float:
    """Return how far a prediction can move, divided by |a|·(how far the pair moves).

    A confidence region of the pair (p, V), the middle of a geodesic and its velocities,
    becomes one of a prediction by this factor. For a pair z within ρ of (p, V) and a =
    (1, t), the prediction moves by at most |a|·|z| times

        c·(sinh s/s)·(1 + Kwρ/2),

    where w bounds the length of the move that leads to the prediction, c the Jacobi
    factors (`_jacobi_bounds`), K the |curvature|, and s = ρ√−κ_min
    (docs/theory/inference.md, "Regions of the records", after the theorem on
    geodesics).

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    move : float
        The length of the move that leads to the prediction, at the pair itself.
    t : float
        The length of the centered predictors, in the unit 1/√12.
    reach : float
        ρ, the radius of the neighborhood.

    Returns
    -------
    float
        At least 1.
    """
    max_move = move + t * reach
    max_curvature = max(curvature_roots(manifold)) ** 2
    return (
        float(_jacobi_bounds(manifold, t, max_move).norm)
        * _exp_stretch(manifold, reach)
        * (1 + max_curvature * max_move * reach / 2)
    )


def transport_factor(manifold: Manifold, speed: float, reach: float) -> float:
    """Return how much more two transported velocities can differ than their coordinates.

    A confidence region is a ball in coordinates at a released pair (p, V). Velocities
    at two other points of it are compared by transport between these points. Transport
    along two sides of a triangle differs from transport along the third by at most the
    |curvature| times the triangle's area.

    Parameters
    ----------
    manifold : Manifold
        Where the geodesics live.
    speed : float
        The length of all velocities together.
    reach : float
        The radius of the ball, in which both points lie.

    Returns
    -------
    float
        A factor of at least 1.
    """
    area_per_length = 2 * reach * _exp_stretch(manifold, reach) ** 2
    max_curvature = max(curvature_roots(manifold)) ** 2
    max_velocity = speed * PREDICTOR_UNIT + reach
    return 1 + max_curvature * area_per_length * max_velocity


def curvature_roots(manifold: Manifold) -> tuple[float, float]:
    """Return (√−κ_min, √κ_max), where a root is 0 if no curvature has its sign.

    κ_min and κ_max are the bounds on sectional curvatures. Bounds on Jacobi fields are
    functions of a length times one of these roots.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses. One of dimension 1 has no curvature.

    Returns
    -------
    negative_root, positive_root : float
        √−κ_min and √κ_max.
    """
    if manifold.dim == 1:
        return 0.0, 0.0
    lowest, highest = manifold.curvature_bounds
    return sqrt(max(-lowest, 0.0)), sqrt(max(highest, 0.0))


def _exp_stretch(manifold: Manifold, length: float) -> float:
    """Return sinh(s)/s, by which exp can stretch distances between vectors up to a length.

    Here s = length·√−κ_min, with the lower curvature bound κ_min, by Rauch's comparison
    theorem.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    length : float
        The largest length of a vector, ≥ 0.

    Returns
    -------
    float
        A factor ≥ 1; it is 1 where no curvature is negative.
    """
    s = curvature_roots(manifold)[0] * length
    if s == 0:
        return 1.0
    return float(np.sinh(s)) / s


def _jacobi_bounds(
    manifold: Manifold, t: np.ndarray | float, max_move: np.ndarray | float
) -> JacobiBounds:
    """Bound the Jacobi factors cos√R and sinc√R of moves of length up to `max_move`.

    A move is the tangent vector that leads from p to a record's prediction, and R its
    curvature operator. The factors are the derivatives of the prediction in p and in v.
    Where curvature is negative they are cosh and sinhc, which exceed 1. Where it is
    positive they are cos and sinc, which fall below 1, at most to their value at π.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    t : array or float
        The length of a record's centered predictors, in the unit 1/√12.
    max_move : array or float
        w, the largest length of the record's move.

    Returns
    -------
    JacobiBounds
        The norm c = cosh(w√−κ_min), and the deviation g, a bound on the distance of
        (cos√R, t·sinc√R) from (I, tI).
    """
    negative_root, positive_root = curvature_roots(manifold)
    w = np.asarray(max_move)

    cosh = np.cosh(negative_root * w)
    if negative_root > 0:
        safe_angle = np.where(w > 0, negative_root * w, 1.0)
        sinhc = np.sinh(negative_root * w) / safe_angle
    else:
        sinhc = np.ones_like(cosh)
    positive_angle = np.minimum(positive_root * w, pi)

    cos_deviation = np.maximum(cosh - 1, 1 - np.cos(positive_angle))
    sinc_deviation = np.maximum(sinhc - 1, 1 - np.sinc(positive_angle / pi))
    return JacobiBounds(cosh, np.hypot(cos_deviation, t * sinc_deviation))


def _hessian_defect(angle: np.ndarray | float) -> np.ndarray:
    """Return 1 − x·cot x, by which Hess ½d² can fall below the identity at the angle x.

    d is the distance to a point, here a response. The Hessian of ½d² is the identity on
    flat space (Karcher 1977).

    Parameters
    ----------
    angle : array or float
        x = d·√κ_max ≥ 0, with the upper curvature bound κ_max.

    Returns
    -------
    array
        The defect: 0 at x = 0, and infinite from x = π on, where the cut locus may lie.
    """
    x = np.asarray(angle)
    safe_x = np.where((x > 0) & (x < pi), x, 1.0)
    defect = np.where(x > 0, 1 - x / np.tan(safe_x), 0.0)
    return np.where(x < pi, defect, inf)


def _jacobi_rate(
    manifold: Manifold,
    jacobi_norm: np.ndarray | float,
    t: np.ndarray | float,
    max_move: np.ndarray | float,
) -> np.ndarray:
    """Return β, which bounds how fast a record's Jacobi factors change along the ray to z.

    The Jacobi factors cos√R and sinc√R are the derivatives of a prediction in p and v.
    z is a pair near the released one, in coordinates. With k = Kw² and K a bound on
    |curvature|,

        β = c³Kw·‖(1 + 5k/6, (1 + k/4)t; (3/2 + k/6)t, 5t²/6)‖,

    relative to the length of the residual. The 2×2 matrix belongs to a bilinear form:
    its rows stand for a move of p and of v, its columns for the same two. The code
    bounds its norm by the Frobenius norm.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    jacobi_norm : array or float
        c, a bound on the Jacobi factors.
    t : array or float
        The length of the record's centered predictors, in the unit 1/√12.
    max_move : array or float
        w, the largest length of the record's move.

    Returns
    -------
    array
        β for each record.
    """
    curvature = max(curvature_roots(manifold)) ** 2
    t = np.asarray(t)
    k = curvature * max_move * max_move
    first_row = np.hypot(1 + 5 * k / 6, (1 + k / 4) * t)
    second_row = np.hypot((1.5 + k / 6) * t, 5 * t * t / 6)
    matrix_norm = np.hypot(first_row, second_row)
    return np.asarray(jacobi_norm**3 * curvature * max_move * matrix_norm)


def _pack_outer_products(a: np.ndarray) -> np.ndarray:
    """Return the entries of aaᵀ for each row a: the diagonal, then √2 times those above it.

    With the factor √2 the packed row is as long as the matrix (Frobenius norm), so that
    its length bounds what noise must hide.

    Parameters
    ----------
    a : array of shape (n, d)
        One vector for each record.

    Returns
    -------
    array of shape (n, d(d + 1)/2)
        One packed symmetric matrix for each record; `Neighborhood.unpack` reverses it.
    """
    i, j = np.triu_indices(a.shape[1], 1)
    return np.concatenate([a * a, sqrt(2) * a[:, i] * a[:, j]], axis=1)
