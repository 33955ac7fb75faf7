"""Bounds on how far the clipped direction of a geodesic regression is from linear.

A private descent ends by releasing the linearization of its problem at a pair (p, V),
with bounds on its error. The confidence region of a geodesic
(`curvedp.inference.lines`) follows from that release.

The statement (docs/inference.md, "Of the records", Geodesics). Pairs near (p, V) are
written as z = (z_p, unit·z_v): p moves along exp, and V + z_v by parallel transport.
Let

    t    the centered predictors of one record, in the unit 1/√12; a = (1, t);
    w    a bound on the length of the record's move Σ tⱼ·unit·vⱼ along the ray to z;
    h    a bound on the length of its residual along the ray;
    K    a bound on |curvature|, and k = Kw²;
    c    = cosh(w√−κ_min), a bound on the Jacobi fields cos√R and sinc√R;
    g    a bound on the distance of (cos√R, t·sinc√R) from (I, tI);
    b    = ‖Hess ½d² − I‖ at distances up to h (Karcher 1977).

Lemma. On a symmetric space the record's contribution u = (cos√R·h, t·sinc√R·h) changes
along the ray as −(aaᵀ + X)z, where

    ‖X‖ ≤ (|a| + g)²(1 + b) − |a|² + hβ,
    β = c³Kw·‖(1 + 5k/6, (1 + k/4)t; (3/2 + k/6)t, 5t²/6)‖.

The bound on ‖X‖ is called the record's remainder.
"""

from functools import cached_property
from math import inf, pi, sqrt
from typing import NamedTuple

import numpy as np

from curvedp.geometry.manifold import Manifold
from curvedp.regression.bounds import DEVIATION, HALF, Domain
from curvedp.regression.gradient import Contributions

# η: the length that aaᵀ/A and remainder/b have in a released row, relative to the clip
# τ of a direction. Larger values give these two less noise, and the direction more.
_LINEARIZATION_SHARE = 0.5

# The remainder of a record whose residual may cross the cut locus, where no bound
# exists. It is finite, so that its share of itself is 1.
_UNBOUNDED_REMAINDER = 1e300

# How much longer one record's contribution is with aaᵀ and the remainder than without:
# the direction moves by at most 2τ/n, all three together by τ√(4 + 3η²)/n.
SENSITIVITY_FACTOR = sqrt(1 + 0.75 * _LINEARIZATION_SHARE**2)


class LinearizationUnits(NamedTuple):
    """What one unit of the released numbers stands for.

    Attributes
    ----------
    normal_matrix : float
        In the entries of the mean of aaᵀ.
    remainder : float
        In the mean remainder.
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
    """Bounds on the Jacobi fields of moves up to some length.

    Attributes
    ----------
    norm : array
        c: neither cos√R nor sinc√R is longer.
    deviation : array
        g: the distance of (cos√R, t·sinc√R) from (I, tI).
    """

    norm: np.ndarray
    deviation: np.ndarray


class Neighborhood:
    """The pairs within `reach` of a released pair, and what is released to linearize there.

    The last release of a descent has the mean clipped direction and, times ητ, the
    means of aaᵀ/A and of remainder/b. A is the largest possible |a|², b the largest
    possible remainder. Replacing one of n records moves the mean direction by at most
    2τ/n, the mean of aaᵀ/A by √2/n (products of such matrices are not negative), and
    the mean of remainder/b by 1/n: together by at most τ√(4 + 3η²)/n.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    domain : Domain
        The public numbers of the regression.
    scale : float
        The noise scale of the last release.

    Attributes
    ----------
    direction_size : int
        How many numbers a direction has.
    release_size : int
        How many numbers the last release has: direction, aaᵀ and remainder.
    max_leverage : float
        A = 1 + |t|² at the ends of all ranges.
    reach : float
        ρ: a few times the noise of a direction, and at most so much that contributions
        of length τ/2 are not clipped.
    max_row_length : float
        The largest length of a row of `linearization_rows`.
    """

    def __init__(self, manifold: Manifold, domain: Domain, scale: float) -> None:
        k = domain.predictors
        n_products = (1 + k) * (2 + k) // 2

        self.manifold = manifold
        self.domain = domain
        self.direction_size = (1 + k) * manifold.dim
        self.release_size = self.direction_size + n_products + 1
        self.max_leverage = 1 + k * (HALF / DEVIATION) ** 2
        self.reach = min(
            domain.clip / (2 * self.max_leverage),
            8 * sqrt(self.direction_size) * scale,
        )
        self.max_row_length = sqrt(2) * _LINEARIZATION_SHARE * domain.clip

    @cached_property
    def max_remainder(self) -> float:
        """The remainder b of a record that may be clipped, whatever the record is.

        Clipping multiplies a derivative by something between 0 and min(1, τ/|u|), and
        |u| ≥ cos(w)·h for a residual of length h. With s the slope of ‖Hess ½d² − I‖ in h,

            b = (|a| + g)² + τ·((|a| + g)²·s + β)/cos w.

        It is `_UNBOUNDED_REMAINDER` where a residual may cross the cut locus.
        """
        manifold = self.manifold
        domain = self.domain
        negative_root, positive_root = curvature_roots(manifold)
        max_predictor = sqrt(self.max_leverage - 1)

        max_move = domain.predictors * domain.speed * HALF + max_predictor * self.reach
        jacobi = _jacobi_bounds(manifold, max_predictor, max_move)
        jacobi_norm = float(jacobi.norm)
        max_residual = (
            domain.radius
            + domain.predictors * domain.speed * HALF
            + domain.data_radius
            + jacobi_norm * sqrt(self.max_leverage) * self.reach
        )
        has_bound = (
            positive_root * max_move < pi / 2
            and positive_root * max_residual < pi
            and max_residual < manifold.injectivity_radius
        )
        if not has_bound:
            return _UNBOUNDED_REMAINDER

        hessian_slope = max(
            negative_root,
            float(_hessian_defect(positive_root * max_residual)) / max_residual,
        )
        leverage = (sqrt(self.max_leverage) + float(jacobi.deviation)) ** 2
        jacobi_rate = float(
            _jacobi_rate(manifold, jacobi_norm, max_predictor, max_move)
        )
        return leverage + domain.clip * (
            leverage * hessian_slope + jacobi_rate
        ) / float(np.cos(positive_root * max_move))

    def remainders(self, t: np.ndarray, terms: Contributions) -> np.ndarray:
        """Return each record's remainder, which holds anywhere in the neighborhood.

        It is the bound (|a| + g)²(1 + b) − |a|² + hβ of the lemma above.

        Parameters
        ----------
        t : array of shape (n,)
            The length of each record's centered predictors.
        terms : Contributions
            The records' moves and residuals at the pair itself.
        """
        manifold = self.manifold
        negative_root, positive_root = curvature_roots(manifold)
        a = np.hypot(1, t)

        max_moves = terms.moves + t * self.reach
        jacobi = _jacobi_bounds(manifold, t, max_moves)
        max_residuals = terms.residuals + jacobi.norm * a * self.reach

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
        """Return ητ·(aaᵀ/A, remainder/b) of each record, to be averaged and released.

        A record that may be clipped somewhere in the neighborhood is off from linear by
        up to |a|² more.

        Parameters
        ----------
        t : array of shape (n, k)
            Centered predictors in the unit 1/√12.
        terms : Contributions
            What `contributions` has computed at the pair.
        """
        tau = self.domain.clip
        a = np.concatenate([np.ones((len(t), 1)), t], axis=1)
        leverage = np.sum(a * a, axis=1)

        with np.errstate(all="ignore"):  # Values of records may overflow.
            remainder = self.remainders(np.linalg.norm(t, axis=1), terms)
            largest_length = (
                np.linalg.norm(terms.rows, axis=1) + (leverage + remainder) * self.reach
            )
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
        """What one unit of the released rows stands for."""
        unit = 1 / (_LINEARIZATION_SHARE * self.domain.clip)
        return LinearizationUnits(self.max_leverage * unit, self.max_remainder * unit)

    def unpack(self, release: np.ndarray) -> Linearization:
        """Return the parts of a release: direction, mean aaᵀ, and mean remainder.

        Parameters
        ----------
        release : array of shape (release_size,)
        """
        size = 1 + self.domain.predictors
        direction = release[: self.direction_size]
        products = self.units.normal_matrix * release[self.direction_size : -1]

        above_diagonal = np.zeros((size, size))
        i, j = np.triu_indices(size, 1)
        above_diagonal[i, j] = above_diagonal[j, i] = products[size:] / sqrt(2)
        return Linearization(
            direction.reshape(size, self.manifold.dim),
            above_diagonal + np.diag(products[:size]),
            self.units.remainder * float(release[-1]),
        )


def prediction_stretch(
    manifold: Manifold, move: float, t: float, reach: float
) -> float:
    """Return how far a prediction moves, at most, for each |a| by which z moves.

    This is c·(sinh s/s)·(1 + Kwρ/2), anywhere within ρ (docs/inference.md, after the
    theorem on geodesics).

    Parameters
    ----------
    manifold : Manifold
    move : float
        The length of the move that leads to the prediction.
    t : float
        The length of the centered predictors, in the unit 1/√12.
    reach : float
        ρ, the radius of the neighborhood.
    """
    max_move = move + t * reach
    curvature = max(curvature_roots(manifold)) ** 2
    return (
        float(_jacobi_bounds(manifold, t, max_move).norm)
        * _exp_stretch(manifold, reach)
        * (1 + curvature * max_move * reach / 2)
    )


def transport_factor(manifold: Manifold, speed: float, reach: float) -> float:
    """Return by which factor transported velocities may differ more than they do in z.

    Transport along two sides of a triangle and along the third differ by at most the
    curvature times the area of the triangle.

    Parameters
    ----------
    manifold : Manifold
    speed : float
        The length of all velocities together.
    reach : float
        The radius of the neighborhood.
    """
    area = 2 * reach * _exp_stretch(manifold, reach) ** 2
    curvature = max(curvature_roots(manifold)) ** 2
    return 1 + curvature * area * (speed * DEVIATION + reach)


def curvature_roots(manifold: Manifold) -> tuple[float, float]:
    """Return (√−κ_min, √κ_max), each 0 where curvature does not have that sign."""
    if manifold.dim == 1:
        return 0.0, 0.0
    lowest, highest = manifold.curvature_bounds
    return sqrt(max(-lowest, 0.0)), sqrt(max(highest, 0.0))


def _exp_stretch(manifold: Manifold, length: float) -> float:
    """Return sinh(s)/s: how much exp stretches vectors of up to this length (Rauch)."""
    s = curvature_roots(manifold)[0] * length
    if s == 0:
        return 1.0
    return float(np.sinh(s)) / s


def _jacobi_bounds(
    manifold: Manifold, t: np.ndarray | float, max_move: np.ndarray | float
) -> JacobiBounds:
    """Bound the Jacobi fields cos√R and sinc√R of moves of length up to `max_move`.

    Where curvature is negative they are cosh and sinhc, which exceed 1; where it is
    positive they are cos and sinc, which fall below 1, at most down to the value at π.
    """
    negative_root, positive_root = curvature_roots(manifold)
    w = np.asarray(max_move)

    cosh = np.cosh(negative_root * w)
    if negative_root > 0:
        sinhc = np.sinh(negative_root * w) / np.where(w > 0, negative_root * w, 1.0)
    else:
        sinhc = np.ones_like(cosh)
    angle = np.minimum(positive_root * w, pi)

    cos_deviation = np.maximum(cosh - 1, 1 - np.cos(angle))
    sinc_deviation = np.maximum(sinhc - 1, 1 - np.sinc(angle / pi))
    return JacobiBounds(cosh, np.hypot(cos_deviation, t * sinc_deviation))


def _hessian_defect(angle: np.ndarray | float) -> np.ndarray:
    """Return 1 − x·cot x: how far Hess ½d² falls below the identity; inf from π on.

    The angle x is the distance times the root of the largest curvature.
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
    """Return β: how fast Jacobi fields change along the ray, relative to the residual.

    β = c³Kw·‖(1 + 5k/6, (1 + k/4)t; (3/2 + k/6)t, 5t²/6)‖ with k = Kw², the norm of the
    matrix of a bilinear form of (z_p, z_v) and (p, v).
    """
    curvature = max(curvature_roots(manifold)) ** 2
    t = np.asarray(t)
    k = curvature * max_move * max_move
    first_row = np.hypot(1 + 5 * k / 6, (1 + k / 4) * t)
    second_row = np.hypot((1.5 + k / 6) * t, 5 * t * t / 6)
    matrix_norm = np.hypot(first_row, second_row)
    return np.asarray(jacobi_norm**3 * curvature * max_move * matrix_norm)


def _pack_outer_products(a: np.ndarray) -> np.ndarray:
    """Return aaᵀ of each row: its diagonal, then √2 times the entries above it.

    The factor keeps lengths: the packed row is as long as the matrix (Frobenius).
    """
    i, j = np.triu_indices(a.shape[1], 1)
    return np.concatenate([a * a, sqrt(2) * a[:, i] * a[:, j]], axis=1)
