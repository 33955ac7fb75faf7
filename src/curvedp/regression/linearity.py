"""How far the clipped descent direction of a geodesic regression is from linear. A
model is a pair (p, V) of the middle p of a geodesic and its velocities V = (v₁, …,
v_k). A private descent ends by releasing a linearization of the regression problem at
its last pair, together with a bound on the error. From this release
`curvedp.inference.lines` derives a confidence region of the geodesic.

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

from curvedp.geometry.comparison import curvature_roots
from curvedp.geometry.manifold import Manifold
from curvedp.regression.bounds import MAX_PREDICTOR, PREDICTOR_UNIT, Domain
from curvedp.regression.gradient import Contributions

# η: the length of aaᵀ/A and of remainder/max_remainder in a released row, relative to
# the clip τ of a direction. With a larger η these two parts of the release have less
# noise relative to their size, and the direction has more.
_LINEARIZATION_SHARE = 0.5

# The remainder of a record whose residual may cross the cut locus, where no bound
# exists. It is finite, so that remainder/max_remainder is 1 and not NaN.
_UNBOUNDED_REMAINDER = 1e300

# By how much aaᵀ and the remainder increase the sensitivity: the direction alone moves
# by at most 2τ/n, and all three together by τ√(4 + 3η²)/n.
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
    """The pairs (p, V) near a released one, and the rows of numbers that linearize there.

    Every record contributes a row to the release. It consists of the record's clipped
    direction, of length at most τ (`domain.clip`), and of ητ times aaᵀ/A and
    remainder/B, with η = `_LINEARIZATION_SHARE`. Here a = (1, t) are the predictors of
    the record, A is the largest possible |a|² (`max_leverage`), and B the largest
    possible remainder (`max_remainder`). Replacing one of n records moves the
    mean direction by at most 2τ/n, the mean of aaᵀ/A by √2/n (because inner products of
    such matrices are not negative), and the mean of remainder/B by 1/n: together by at
    most τ√(4 + 3η²)/n.

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
        The length of a direction: (1 + k)·dim for k predictors.
    release_size : int
        The length of the last release: direction, aaᵀ and remainder.
    max_leverage : float
        A = 1 + |t|² at the ends of all ranges.
    reach : float
        ρ, the radius of the neighborhood: a few times the noise of a direction, but at
        most τ/2A, so that a linear contribution of length τ/2 at the pair would stay
        below the clip τ in all of it. The remainder may add to the length;
        `linearization_rows` adds it before it decides which records may be clipped.
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
        k = domain.n_predictors
        n_products = (1 + k) * (2 + k) // 2  # entries of aaᵀ on and above the diagonal

        self.manifold = manifold
        self.domain = domain
        self.direction_size = (1 + k) * manifold.dim
        self.release_size = self.direction_size + n_products + 1
        self.max_leverage = 1 + k * (MAX_PREDICTOR / PREDICTOR_UNIT) ** 2

        # The radius: eight times the typical length of the noise of a direction, but
        # not so much that a linear contribution of length τ/2 could be clipped: it
        # changes by at most |a|² ≤ A per unit of distance.
        largest_reach = domain.clip / (2 * self.max_leverage)
        noise_reach = 8 * sqrt(self.direction_size) * scale
        self.reach = min(largest_reach, noise_reach)
        self.max_row_length = sqrt(2) * _LINEARIZATION_SHARE * domain.clip

    @cached_property
    def max_remainder(self) -> float:
        """The largest remainder B that a record can have, whatever the record is.

        The remainder of a record bounds how far its contribution is from linear. The
        mean of all remainders is released with noise, in units of

            B = (|a| + g)² + τ·((|a| + g)²·s + β)/cos(w√κ_max).

        Here |a| = √A is the largest length of (1, t), g bounds how far the Jacobi
        factors are from the identity (`_jacobi_bounds`), β how fast they change
        (`_jacobi_rate`), w is the longest move and τ the clip. B follows from the
        remainder (|a| + g)²(1 + b) − |a|² + hβ of the lemma of this module:

        1. Let h be the length of the residual, at most h_max. Then b ≤ s·h with s =
           max(√−κ_min, defect(h_max)/h_max) (`_hessian_defect`), because x·coth x − 1 ≤
           x, and (1 − x·cot x)/x increases.
        2. Clipping a contribution y multiplies its derivative by a matrix D with 0 ≤ D
           ≤ min(1, τ/|y|). The term (I − D)aaᵀ adds |a|² to the remainder, which
           cancels −|a|².
        3. D also multiplies the terms (|a| + g)²·s·h and hβ. Since |y| ≥
           h·cos(w√κ_max), it replaces h by at most τ/cos(w√κ_max).

        If a residual may cross the cut locus there is no bound, and the result is
        `_UNBOUNDED_REMAINDER`.
        """
        negative_root, positive_root = curvature_roots(self.manifold)

        # The longest move w, the bounds on the Jacobi factors, and the longest residual.
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

        # The terms s, (|a| + g)², β and cos(w√κ_max) of B, with h_max = max_residual.
        hessian_defect = float(_hessian_defect(positive_root * max_residual))
        hessian_slope = max(negative_root, hessian_defect / max_residual)
        leverage = (sqrt(self.max_leverage) + float(jacobi.deviation)) ** 2
        jacobi_rate = float(
            _jacobi_rate(self.manifold, jacobi_norm, max_predictor, max_move)
        )
        smallest_cos = float(np.cos(positive_root * max_move))
        change_per_residual = leverage * hessian_slope + jacobi_rate
        return leverage + self.domain.clip * change_per_residual / smallest_cos

    @property
    def _max_half_length(self) -> float:
        """The largest length of a move at the released pair: half the longest geodesic."""
        return self.domain.n_predictors * self.domain.speed * MAX_PREDICTOR

    def _max_residual(self, jacobi_norm: float) -> float:
        """Bound the distance between a response and its prediction, from public numbers.

        The bound is a sum of four distances: from the public center to the middle of
        the geodesic, along half the geodesic, from the center to a response, and how
        far a prediction moves within the neighborhood.

        Called by `max_remainder`.

        Parameters
        ----------
        jacobi_norm : float
            A bound on how much the exponential map stretches a move of the pair.

        Returns
        -------
        float
            A distance that no residual can exceed.
        """
        domain = self.domain
        return (
            domain.radius
            + self._max_half_length
            + domain.data_radius
            + jacobi_norm * sqrt(self.max_leverage) * self.reach
        )

    def remainders(self, t: np.ndarray, terms: Contributions) -> np.ndarray:
        """Return a bound on how far each record's contribution is from linear.

        A pair (p, V) consists of the middle of a geodesic and its velocities. A record
        contributes the vector (cos√R·h, t·sinc√R·h) to the descent direction at a pair,
        with its residual h and its Jacobi factors cos√R and sinc√R. The bound on the
        nonlinear part of that vector holds at every pair of the neighborhood (the lemma
        of this module):

            (|a| + g)²·(1 + b) − |a|² + hβ,

        where |a| = √(1 + t²), g bounds how far the Jacobi factors are from the identity
        (`_jacobi_bounds`), b = ‖Hess ½d² − I‖ is the deviation of the Hessian, h the
        largest length of the residual, and β bounds how fast the Jacobi factors change
        (`_jacobi_rate`).

        Parameters
        ----------
        t : array of shape (n,)
            The length of each record's centered predictors, in the unit 1/√12.
        terms : Contributions
            The result of `contributions` at the pair itself, with the lengths of the
            moves and the residuals of the records.

        Returns
        -------
        array of shape (n,)
            One remainder ≥ 0 for each record; infinite where the bound does not hold.
        """
        manifold = self.manifold
        negative_root, positive_root = curvature_roots(manifold)
        a = np.hypot(1, t)  # |a|

        # The largest moves and residuals in the neighborhood, and the Jacobi bounds.
        max_moves = terms.moves + t * self.reach
        jacobi = _jacobi_bounds(manifold, t, max_moves)
        max_residuals = terms.residuals + jacobi.norm * a * self.reach

        # b: negative curvature makes the Hessian larger than the identity, and positive
        # curvature makes it smaller.
        hessian_excess: np.ndarray | float = 0.0
        if negative_root > 0:
            angle = negative_root * max_residuals
            hessian_excess = angle / np.tanh(angle) - 1
        hessian_deviation = np.maximum(
            _hessian_defect(positive_root * max_residuals), hessian_excess
        )

        # (|a| + g)²·(1 + b) − |a|² + hβ, where g is `jacobi.deviation`, b is
        # `hessian_deviation` and h is `max_residuals`.
        jacobi_rate = _jacobi_rate(manifold, jacobi.norm, t, max_moves)  # β
        return np.asarray(
            (a + jacobi.deviation) ** 2 * (1 + hessian_deviation)
            - a * a
            + max_residuals * jacobi_rate
        )

    def linearization_rows(self, t: np.ndarray, terms: Contributions) -> np.ndarray:
        """Return the row of each record that is averaged and released with the direction.

        The direction is the mean clipped descent direction at a pair (p, V), the middle
        of a geodesic and its velocities. With the mean of these rows it becomes a
        linear problem, from which a confidence region follows. A row is
        ητ·(aaᵀ/A, remainder/B). The mean of its first part gives the normal matrix of
        the linear problem, and that of its second part the bound on the error. Here a =
        (1, t) are the predictors of the record, τ is the clip, η is
        `_LINEARIZATION_SHARE`, A the largest |a|² (`max_leverage`) and B the largest
        remainder (`max_remainder`), so that no row is long.

        If the contribution of a record may be clipped somewhere in the neighborhood,
        |a|² is added to its remainder, because clipping may remove all of its
        derivative.

        Parameters
        ----------
        t : array of shape (n, k)
            Centered predictors in the unit 1/√12.
        terms : Contributions
            The result of `contributions` at the pair: what each record adds to the
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
            # If a remainder is NaN, `fmin` returns the bound.
            remainder = np.fmin(remainder, self.max_remainder)

        products_in_units = _pack_outer_products(a) / self.max_leverage
        remainder_in_units = remainder / self.max_remainder
        rows = np.column_stack([products_in_units, remainder_in_units])
        return np.asarray(_LINEARIZATION_SHARE * tau * rows)

    @property
    def units(self) -> LinearizationUnits:
        """The factors that turn a released row back into aaᵀ and the remainder.

        The row is ητ·(aaᵀ/A, remainder/B), with the clip τ, η = `_LINEARIZATION_SHARE`,
        and the largest possible values A (`max_leverage`) and B (`max_remainder`).
        """
        unit = 1 / (_LINEARIZATION_SHARE * self.domain.clip)
        return LinearizationUnits(self.max_leverage * unit, self.max_remainder * unit)

    def unpack(self, release: np.ndarray) -> Linearization:
        """Split a release into mean direction, mean aaᵀ and mean remainder.

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
        size = 1 + self.domain.n_predictors
        direction = release[: self.direction_size]
        packed_products = self.units.normal_matrix * release[self.direction_size : -1]

        # The inverse of `_pack_outer_products`.
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
    """Return the factor by which a prediction can move farther than the pair (p, V).

    With this factor, a confidence region of the pair, the middle of a geodesic and its
    velocities, becomes a region of a prediction. Let z be another pair, in coordinates
    at (p, V) and within ρ of it, and a = (1, t) the predictors. Then the prediction
    moves by at most |a|·|z| times

        c·(sinh s/s)·(1 + Kwρ/2).

    Here w bounds the length of the move that leads to the prediction, c bounds the
    Jacobi factors (`_jacobi_bounds`), K bounds |curvature|, and s = ρ√−κ_min
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
    max_move = move + t * reach  # w
    max_curvature = max(curvature_roots(manifold)) ** 2  # K
    jacobi_norm = float(_jacobi_bounds(manifold, t, max_move).norm)  # c
    transport_correction = 1 + max_curvature * max_move * reach / 2
    return jacobi_norm * _exp_stretch(manifold, reach) * transport_correction


def transport_factor(manifold: Manifold, speed: float, reach: float) -> float:
    """Return the factor by which velocities can differ more than their coordinates.

    A confidence region is a ball of pairs in coordinates at a released pair (p, V): the
    coordinates of a pair (p₁, V₁) are the logarithm of p₁, and the change of velocity
    after transport from p₁ to p. The region compares the velocities of two such pairs
    after transport along the geodesic from p₂ to p₁. This differs from transport over p
    by at most K·|V₂| times the area of the triangle p, p₁, p₂, with a bound K on
    |curvature|.

    *The area* is at most 2·ρ·c²·d, where d ≤ ρ is the distance of the coordinates, ρ
    the reach and c = sinh(s)/s (`_exp_stretch`). Geodesics from p to the side p₁p₂ fill
    the triangle. The side is at most cd long, and no point of it is farther from p than
    ρ + cd/2 ≤ 1.5·cρ. A flat triangle of that base and height has the area ¾·ρc²d. The
    rest of the factor 2 covers positive curvature: the area grows by at most
    tan(x/2)/(x/2) with x = 1.5·cρ√κ_max. That is below 8/3 for x ≤ 2.5, and x < 2.4
    where a region exists: its residuals are bounded by more than 2cρ, and below π/√κ_max
    (`Neighborhood.max_remainder`).

    *The velocity* |V₂| is at most `speed` + ρ/u, since coordinates of velocities are in
    the unit u = `PREDICTOR_UNIT`. In that unit it is speed·u + ρ.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the geodesics.
    speed : float
        The length of all velocities of a pair together.
    reach : float
        The radius ρ of the ball, in which both pairs lie.

    Returns
    -------
    float
        1 + 2·K·ρ·c²·(speed·u + ρ).
    """
    area_per_length = 2 * reach * _exp_stretch(manifold, reach) ** 2
    max_curvature = max(curvature_roots(manifold)) ** 2
    max_velocity = speed * PREDICTOR_UNIT + reach
    return 1 + max_curvature * area_per_length * max_velocity


def _exp_stretch(manifold: Manifold, length: float) -> float:
    """Return sinh(s)/s, a bound on how much exp stretches distances between vectors.

    By Rauch's comparison theorem, where s = length·√−κ_min and κ_min is the lower
    curvature bound.

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
    s = curvature_roots(manifold).negative * length
    if s == 0:
        return 1.0
    return float(np.sinh(s)) / s


def _jacobi_bounds(
    manifold: Manifold, t: np.ndarray | float, max_move: np.ndarray | float
) -> JacobiBounds:
    """Bound the Jacobi factors cos√R and sinc√R of moves of length up to `max_move`.

    A move is the tangent vector that leads from p to a record's prediction, and R its
    curvature operator. The factors are the derivatives of the prediction in p and in v.
    In directions of negative curvature they are cosh and sinhc, which exceed 1. In
    directions of positive curvature they are cos and sinc, which fall from 1 to −1 and
    to 0 at the angle π. Larger angles count as π: there is no bound on the remainder
    from π/2 on (`Neighborhood.max_remainder`).

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

    # The largest values of cosh and sinhc, which is 1 at 0.
    cosh = np.cosh(negative_root * w)
    if negative_root > 0:
        safe_angle = np.where(w > 0, negative_root * w, 1.0)
        sinhc = np.sinh(negative_root * w) / safe_angle
    else:
        sinhc = np.ones_like(cosh)

    # How far both factors are from 1, on either side.
    positive_angle = np.minimum(positive_root * w, pi)
    cos_deviation = np.maximum(cosh - 1, 1 - np.cos(positive_angle))
    sinc_deviation = np.maximum(sinhc - 1, 1 - np.sinc(positive_angle / pi))
    return JacobiBounds(cosh, np.hypot(cos_deviation, t * sinc_deviation))


def _hessian_defect(angle: np.ndarray | float) -> np.ndarray:
    """Return 1 − x·cot x, by which Hess ½d² can fall below the identity at the angle x.

    Here d is the distance to a point, such as a response. On flat space the Hessian of
    ½d² is the identity, and positive curvature makes it smaller (Karcher 1977).

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
    K = max(curvature_roots(manifold)) ** 2
    t = np.asarray(t)
    k = K * max_move * max_move
    first_row = np.hypot(1 + 5 * k / 6, (1 + k / 4) * t)
    second_row = np.hypot((1.5 + k / 6) * t, 5 * t * t / 6)
    matrix_norm = np.hypot(first_row, second_row)
    return np.asarray(jacobi_norm**3 * K * max_move * matrix_norm)


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
