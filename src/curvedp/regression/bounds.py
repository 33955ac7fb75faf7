"""Sensitivity and Lipschitz constants of the gradient of geodesic regression.

The first say how much one record moves the gradient, which noise must hide; the second
how fast the gradient changes with the geodesic, which a sampler must know. Proofs:
docs/regression.md.

Notation. A record has a predictor x, centered so that |x| ≤ X, and a response; the
geodesic has the middle p and the velocity v with ‖v‖ ≤ V; residuals are clipped to the
length τ. Only the LOWER curvature bound enters a sensitivity: negative curvature
spreads geodesics, so that d Exp grows like cosh; where curvature is ≥ 0 it never
exceeds 1 (E19, E20).
"""

from math import cos, cosh, inf, nextafter, pi, sinh, sqrt
from typing import NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold

# X: predictors lie in [0, 1] and are centered at ½.
HALF = 0.5

# The standard deviation of a predictor that is spread evenly over its range: the unit
# in which velocities are measured beside points.
DEVIATION = 12**-0.5

# Angles below which a quotient is replaced by a bound on it, because the quotient of
# floats would cancel: sinh(a)/a by 1 + a², and quotients that are O(a) by a itself.
_TINY_SINHC_ANGLE = 1e-6
_TINY_QUOTIENT_ANGLE = 1e-4

# The Lipschitz constant along v is at least this share of that along p, so that a
# sampler's cells never degenerate.
_MIN_LIPSCHITZ_RATIO = 1e-12


class Domain(NamedTuple):
    """The public numbers of one regression.

    Attributes
    ----------
    radius : float
        R: the middle of the geodesic lies within R of the public center.
    speed : float
        V: the largest length of the velocity, for each predictor.
    clip : float
        τ: the length to which residuals, or contributions, are clipped.
    n : int
        The number of records, or persons.
    data_radius : float
        The radius of the ball that holds the responses.
    predictors : int
        The number k of predictors.
    """

    radius: float
    speed: float
    clip: float
    n: int
    data_radius: float
    predictors: int = 1

    def checked(self) -> Self:
        """Return the domain, or refuse one that describes no regression.

        The domain of a certificate was written by a stranger, so that it must be
        checked.
        """
        for name in ("radius", "speed", "clip", "data_radius"):
            _validate.length(name, getattr(self, name))
        for name in ("n", "predictors"):
            _validate.integer(name, getattr(self, name), 1)
        return self


class GradientSensitivities(NamedTuple):
    """How far the two halves of the gradient move when one record is replaced.

    Attributes
    ----------
    point : float
        Δ_p, of ∇_p E.
    velocity : float
        Δ_v, of ∇_v E.
    """

    point: float
    velocity: float


class ExpDifferentialBounds(NamedTuple):
    """Bounds on the differential of Exp(p, w) for ‖w‖ up to some length.

    Attributes
    ----------
    point : float
        Of ‖d_p Exp(p, w)‖.
    velocity : float
        Of ‖d_v Exp(p, w)‖.
    """

    point: float
    velocity: float


def exp_differential_bounds(manifold: Manifold, length: float) -> ExpDifferentialBounds:
    """Bound ‖d_p Exp(p, w)‖ and ‖d_v Exp(p, w)‖ for all w with ‖w‖ ≤ length.

    With a = √−κ_min·length they are cosh a and sinh(a)/a; both are 1 where curvature is
    not negative (Rauch).
    """
    lowest_curvature = manifold.curvature_bounds[0]
    if lowest_curvature >= 0:
        return ExpDifferentialBounds(1.0, 1.0)
    a = sqrt(-lowest_curvature) * length
    sinhc = sinh(a) / a if a > _TINY_SINHC_ANGLE else 1.0 + a * a
    return ExpDifferentialBounds(cosh(a), sinhc)


def gradient_sensitivities(
    manifold: Manifold, speed: float, clip: float, n: int, reach: float = HALF
) -> GradientSensitivities:
    """Return how far ∇_p E and ∇_v E move when one record is replaced.

    Theorem 1 (docs/regression.md): Δ_p = 2τc/n and Δ_v = 2τsX/n, with the bounds c and
    s of `exp_differential_bounds` at the length V·X. It holds anywhere in the domain.

    Parameters
    ----------
    manifold : Manifold
    speed, clip : float
        V and τ.
    n : int
    reach : float
        X, the largest |x|.
    """
    c, s = exp_differential_bounds(manifold, speed * reach)
    return GradientSensitivities(
        nextafter(2 * clip * c / n, inf), nextafter(2 * clip * s * reach / n, inf)
    )


def joint_sensitivity(domain: Domain) -> float:
    """Return 2τ/n, the sensitivity of `clipped_direction`.

    There one record's contribution is a single vector of length at most τ.
    """
    domain = domain.checked()
    return nextafter(2 * domain.clip / domain.n, inf)


def endpoint_norm(
    point_gradient: np.ndarray, velocity_gradient: np.ndarray
) -> np.ndarray:
    """Return the endpoint norm ½(|P + Q| + |P − Q|) of a gradient.

    P = ∇_p E and Q = ∇_v E/unit. The unit ball of this norm is the convex hull of
    {(e, ξe): |e| ≤ 1, |ξ| ≤ 1}: what one record with a predictor within one unit of the
    middle can do to (P, Q) in flat space. It serves as the norm of a K-norm mechanism.

    Parameters
    ----------
    point_gradient, velocity_gradient : arrays of shape (..., dim)
        ∇_p E and ∇_v E in coordinates.

    Returns
    -------
    array of shape (...)
    """
    scaled = velocity_gradient / DEVIATION
    sum_norm = np.linalg.norm(point_gradient + scaled, axis=-1)
    difference_norm = np.linalg.norm(point_gradient - scaled, axis=-1)
    return np.asarray((sum_norm + difference_norm) / 2)


def endpoint_clips(clip: float, x: np.ndarray) -> np.ndarray:
    """Return the length to which each record's residual is clipped.

    It is τ for a predictor within one unit of the middle, and beyond it τ over the
    distance in units, so that no record counts for more than another.
    """
    return np.asarray(clip / np.maximum(1.0, np.abs(x) / DEVIATION))


def endpoint_sensitivity(manifold: Manifold, domain: Domain) -> float:
    """Return the sensitivity of `endpoint_norm` with `endpoint_clips`.

    Theorem 2 (docs/regression.md), for a space of constant curvature κ: 2τF/n, where F
    = 1 in flat space. For κ ≤ 0 the supremum is attained at a predictor of one unit or
    at the end of the range; for κ > 0 the term (1 − cos a)/t is bounded by its value at
    the end of the range, and sinc a by its value at one unit.
    """
    curvature = _constant_curvature(manifold)
    speed = domain.checked().speed
    predictors = np.array([DEVIATION, HALF])
    # This also refuses a geodesic that spans more than half a great circle.
    effects = _record_effect(curvature, speed, predictors)

    if curvature <= 0:
        factor = float(np.max(effects / np.maximum(1.0, predictors / DEVIATION)))
    else:
        unit_angle, end_angle = sqrt(curvature) * speed * predictors
        cos_term = (1 - cos(end_angle)) * DEVIATION / HALF
        sinc_term = float(np.sinc(unit_angle / pi))
        factor = (1 + cos_term + sinc_term) / 2
    return nextafter(2 * domain.clip * max(1.0, factor) / domain.n, inf)


class LipschitzBounds(NamedTuple):
    """How fast the `endpoint_norm` of the clipped gradient changes, in parts of a domain.

    The constants depend on the records. That steers the work of a sampler, not the law
    of what it draws (docs/knorm.md). A residual that is clipped all over a part only
    turns there, by τ·|ct(d)| at distance d, which is far less than 1 where the records
    are far away.

    Attributes
    ----------
    clip : array of shape (n,)
        The clip of each record.
    max_residual : array of shape (n,)
        No residual is longer.
    prediction_moves : array of shape (2, n)
        How far each prediction moves with p, and with v.
    weights : array of shape (2, n)
        What the Lipschitz constant of each residual counts for along p, and along v.
    curvature_terms : array of shape (2,)
        What curvature adds along p, and along v.
    curvature : float
    dim : int
    """

    clip: np.ndarray
    max_residual: np.ndarray
    prediction_moves: np.ndarray
    weights: np.ndarray
    curvature_terms: np.ndarray
    curvature: float
    dim: int

    def within(
        self, distances: np.ndarray, radii: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the Lipschitz constants along p and along v in parts of the domain.

        Parameters
        ----------
        distances : array of shape (m, n)
            The lengths of the n residuals at the middle of each of m parts.
        radii : array of shape (m, 2)
            By how much p, and v, differ from the middle in each part, at most.

        Returns
        -------
        along_point, along_velocity : arrays of shape (m,)
        """
        max_change = radii @ self.prediction_moves
        shortest = distances - max_change
        longest = np.minimum(distances + max_change, self.max_residual)

        unclipped_bound = _residual_lipschitz(
            self.curvature, self.clip, self.max_residual
        )
        is_always_clipped = shortest > self.clip
        if self.dim == 1:
            turning_rate = np.zeros_like(shortest)
        else:
            safe_shortest = np.where(is_always_clipped, shortest, self.clip)
            turning_rate = _turning_rate(self.curvature, safe_shortest, longest)
        clipped_bound = np.minimum(self.clip * turning_rate, unclipped_bound)
        residual_bounds = np.where(is_always_clipped, clipped_bound, unclipped_bound)

        along_point = residual_bounds @ self.weights[0] + self.curvature_terms[0]
        along_velocity = residual_bounds @ self.weights[1] + self.curvature_terms[1]
        return along_point, np.maximum(
            along_velocity, _MIN_LIPSCHITZ_RATIO * along_point
        )


def gradient_lipschitz_bounds(
    manifold: Manifold, domain: Domain, x: np.ndarray, distance: np.ndarray
) -> LipschitzBounds:
    """Return what bounds how fast the clipped gradient of these records changes.

    Lemma 3 (docs/regression.md). With a = √|κ|·V·|x| and t = |x|/unit, the Jacobi
    fields C and S of a record are 1 along v and cos a, sinc a across it (cosh, sinhc
    for κ < 0). The lemma's constants consist of their norms, their distance from 1 and
    their slopes.

    Parameters
    ----------
    manifold : Manifold
        Of constant curvature κ.
    domain : Domain
    x : array of shape (n,)
        Centered predictors.
    distance : array of shape (n,)
        Of each response from the public center.
    """
    curvature = _constant_curvature(manifold)
    speed = domain.speed
    clip = endpoint_clips(domain.clip, x)
    root = sqrt(abs(curvature))
    x = np.abs(x)
    a = root * speed * x
    t = x / DEVIATION

    if curvature > 0:
        # Neither cos nor sinc exceeds 1.
        cos_norm = np.ones_like(a)
        sinc_norm = np.ones_like(a)
        sine = np.sin(a)
        sinc = np.sinc(a / pi)
        cos_defect = 2 * np.sin(a / 2) ** 2
        sinc_slope = np.cos(a) - sinc
        sinc_defect = 1 - sinc
    else:
        cos_norm = np.cosh(a)
        sine = np.sinh(a)
        sinc_norm = _sinhc(a)
        cos_defect = 2 * np.sinh(a / 2) ** 2
        sinc_slope = cos_norm - sinc_norm
        sinc_defect = sinc_norm - 1
    cos_defect_rate = _quotient_by_angle(cos_defect, a)
    sinc_slope_rate = _quotient_by_angle(sinc_slope, a)
    sinc_defect_rate = _quotient_by_angle(sinc_defect, a)

    effect = _record_effect(curvature, speed, x)
    cos_change = np.maximum(sine, sqrt(2) * cos_defect_rate)
    sinc_change = np.maximum(sinc_slope_rate, sqrt(2) * sinc_defect_rate)
    point_term = effect * clip * root * sine
    velocity_term = x * (
        effect * clip * root * cos_defect_rate
        + clip * root * (cos_change + t * sinc_change)
    )
    weights = np.stack([effect * cos_norm, x * effect * sinc_norm]) / len(x)
    return LipschitzBounds(
        clip=clip,
        max_residual=domain.radius + speed * x + distance,
        prediction_moves=np.stack([cos_norm, x * sinc_norm]),
        weights=weights,
        curvature_terms=np.array([np.mean(point_term), np.mean(velocity_term)]),
        curvature=curvature,
        dim=manifold.dim,
    )


def _constant_curvature(manifold: Manifold) -> float:
    """Return the curvature of a space that has the same everywhere, or refuse."""
    curvature = manifold.constant_curvature
    if curvature is None:
        raise ParameterError(f"{manifold!r} has no constant curvature")
    return curvature


def _sinhc(a: np.ndarray) -> np.ndarray:
    """Return sinh(a)/a, or its bound 1 + a² where a is tiny."""
    is_large = a > _TINY_SINHC_ANGLE
    quotient = np.sinh(a) / np.where(is_large, a, 1.0)
    return np.asarray(np.where(is_large, quotient, 1 + a * a))


def _quotient_by_angle(numerator: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return |numerator|/a where the quotient is O(a), or its bound a where a is tiny."""
    is_large = a > _TINY_QUOTIENT_ANGLE
    return np.where(is_large, np.abs(numerator) / np.where(is_large, a, 1.0), a)


def _record_effect(curvature: float, speed: float, x: np.ndarray) -> np.ndarray:
    """Return what one record's residual of length 1 adds to `endpoint_norm`, at most.

    This is the supremum over speeds up to V of ½(‖C + tS‖ + ‖C − tS‖), t = x/unit, with
    the Jacobi fields C and S that are 1 along v and cos a, sinc a (cosh, sinhc) across
    it. Every term grows with the speed, so that the supremum is at V.

    Parameters
    ----------
    curvature, speed : float
        κ and V. Refused where a geodesic may span more than half a great circle.
    x : array
        Predictors, not negative.
    """
    a = sqrt(abs(curvature)) * speed * x
    t = x / DEVIATION
    if curvature > 0:
        if not sqrt(curvature) * speed * HALF <= pi / 2:
            raise ParameterError(
                f"must be at most {pi / sqrt(curvature):.6g} in curvature "
                f"{curvature:g}: the geodesic may span half a great circle",
                parameter="speed",
                value=speed,
            )
        across = t * np.sinc(a / pi) - np.cos(a)
        return np.asarray((1 + t + np.maximum(np.abs(1 - t), across)) / 2)

    cosh_a = np.cosh(a)
    sinhc_a = _sinhc(a)
    mixed = (cosh_a + t * sinhc_a + t - 1) / 2
    return np.asarray(np.maximum(np.maximum(cosh_a, t * sinhc_a), mixed))


def _residual_lipschitz(
    curvature: float, clip: np.ndarray, max_residual: np.ndarray
) -> np.ndarray:
    """Return the Lipschitz constant of a clipped residual in the prediction.

    It is max(1, min(d, τ)·|ct(d)|) over all lengths d up to `max_residual`, where ct is
    √κ·cot(√κ·d), its hyperbolic form, or 1/d (Karcher 1977).
    """
    root = sqrt(abs(curvature))
    if curvature < 0:
        s = root * clip
        tiny = _TINY_SINHC_ANGLE
        return np.asarray(np.where(s > tiny, s / np.tanh(np.maximum(s, tiny)), 1 + s))
    if curvature == 0:
        return np.asarray(np.ones_like(max_residual))
    # Up to a quarter turn the constant is at most 1.
    angle = np.maximum(root * max_residual, pi / 2)
    return np.asarray(np.maximum(1.0, -root * clip / np.tan(angle)))


def _turning_rate(
    curvature: float, shortest: np.ndarray, longest: np.ndarray
) -> np.ndarray:
    """Return how fast the direction to a point turns as one moves: sup |ct(d)|.

    The supremum is over distances d between `shortest` and `longest` (Karcher 1977).
    """
    root = sqrt(abs(curvature))
    if curvature < 0:
        return np.asarray(root / np.tanh(root * shortest))
    if curvature == 0:
        return np.asarray(1 / shortest)
    at_shortest = 1 / np.tan(root * shortest)
    at_longest = -1 / np.tan(root * np.maximum(longest, shortest))
    return np.asarray(root * np.maximum(at_shortest, at_longest))
