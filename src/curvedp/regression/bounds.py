"""Sensitivity and Lipschitz constants of the gradient of geodesic regression. A
sensitivity is the largest change of the gradient when one record is replaced; noise is
calibrated to it. A Lipschitz constant bounds how fast the gradient changes with the
geodesic; a rejection sampler needs it. The gradient is that of E, the mean of half the
squared clipped residuals.

Notation. The model is y ≈ Exp(p, x·v). A record has a predictor x, centered so that
|x| ≤ X = ½, and a response y. The geodesic has the middle p and the velocity v with
‖v‖ ≤ V. Residuals are clipped to the length τ. Only the LOWER curvature bound enters a
sensitivity: negative curvature spreads geodesics, so the differential of Exp grows like
cosh. Where curvature is ≥ 0 that differential never exceeds 1 (E19, E20 in
docs/errata.md). The proofs are in docs/theory/regression.md, "Gradients".
"""

from math import cos, cosh, inf, nextafter, pi, sinh, sqrt
from typing import NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold

# X, the largest modulus of a centered predictor: predictors lie in [0, 1] and are
# centered at ½.
MAX_PREDICTOR = 0.5

# u = 1/√12, the standard deviation of a predictor that is spread evenly over [0, 1]. In
# this unit a velocity and a point matter about equally (docs/theory/regression.md, "The
# unit of v").
PREDICTOR_UNIT = 12**-0.5

# For angles a below these, a quotient of floats would lose its digits. It is replaced by
# an upper bound: sinh(a)/a by 1 + a², and quotients of order a by a itself.
_TINY_SINHC_ANGLE = 1e-6
_TINY_QUOTIENT_ANGLE = 1e-4

# The Lipschitz constant in v is raised to at least this fraction of the one in p: a
# sampler divides by it, and in a flat direction it could be 0.
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
        The number of records, or people.
    data_radius : float
        The radius of the ball that holds the responses.
    n_predictors : int
        The number k of predictors.
    """

    radius: float
    speed: float
    clip: float
    n: int
    data_radius: float
    n_predictors: int = 1

    def checked(self) -> Self:
        """Return this domain, after checking that its numbers are valid.

        Every sensitivity is computed from a domain. It may have been read from a
        certificate, whose numbers cannot be trusted.

        Returns
        -------
        Domain
            This object.

        Raises
        ------
        ParameterError
            If a length is not positive and finite, or a count is not a positive
            integer.
        """
        _validate.length("radius", self.radius)
        _validate.length("speed", self.speed)
        _validate.length("clip", self.clip)
        _validate.length("data_radius", self.data_radius)
        _validate.integer("n", self.n, 1)
        _validate.integer("predictors", self.n_predictors, 1)
        return self


class GradientSensitivities(NamedTuple):
    """How far the two parts of the gradient can move when one record is replaced.

    Attributes
    ----------
    point : float
        Δ_p, a bound on the change of ∇_p E.
    velocity : float
        Δ_v, a bound on the change of ∇_v E.
    """

    point: float
    velocity: float


class ExpDifferentialBounds(NamedTuple):
    """Bounds on the differential of Exp(p, w) for all w up to some length.

    Attributes
    ----------
    point : float
        c, a bound on ‖d_p Exp(p, w)‖.
    velocity : float
        s, a bound on ‖d_w Exp(p, w)‖.
    """

    point: float
    velocity: float


def exp_differential_bounds(
    manifold: Manifold, max_length: float
) -> ExpDifferentialBounds:
    """Bound the differential of the exponential map for vectors up to a length.

    By Rauch's comparison theorem, with κ_min the lower curvature bound, ℓ =
    `max_length` and a = ℓ·√−κ_min,

        ‖d_p Exp(p, w)‖ ≤ c = cosh a  and  ‖d_w Exp(p, w)‖ ≤ s = sinh(a)/a

    for all w with ‖w‖ ≤ ℓ. Where no curvature is negative, c = s = 1.

    Parameters
    ----------
    manifold : Manifold
        The manifold of p.
    max_length : float
        ℓ ≥ 0, the largest length of w.

    Returns
    -------
    ExpDifferentialBounds
        The pair (c, s).
    """
    lowest_curvature = manifold.curvature_bounds[0]
    if lowest_curvature >= 0:
        return ExpDifferentialBounds(1.0, 1.0)

    a = sqrt(-lowest_curvature) * max_length  # the angle of the theorem
    if a > _TINY_SINHC_ANGLE:
        sinhc_a = sinh(a) / a
    else:
        sinhc_a = 1.0 + a * a  # an upper bound of sinh(a)/a
    return ExpDifferentialBounds(cosh(a), sinhc_a)


def gradient_sensitivities(
    manifold: Manifold,
    speed: float,
    clip: float,
    n: int,
    max_predictor: float = MAX_PREDICTOR,
) -> GradientSensitivities:
    """Return how far ∇_p E and ∇_v E can move when one record is replaced.

    E is the mean of half the squared clipped residuals of the geodesic with middle p
    and velocity v. A mechanism that adds noise to these gradients is calibrated to the
    result.

    Theorem G1 (docs/theory/regression.md). Let c and s bound the differential of Exp at
    lengths up to V·X (`exp_differential_bounds`). Replacing one of n records moves the
    gradients by at most

        Δ_p = 2τc/n  and  Δ_v = 2τsX/n

    at every geodesic of speed at most V.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    speed : float
        V, the largest length of the velocity.
    clip : float
        τ, the length to which residuals are clipped.
    n : int
        The number of records.
    max_predictor : float
        X, the largest |x| of a centered predictor.

    Returns
    -------
    GradientSensitivities
        Δ_p and Δ_v. They are exact up to the rounding of cosh, sinh and a few products,
        which whoever calibrates noise to them has to add (`add_rounding`).
    """
    point_bound, velocity_bound = exp_differential_bounds(
        manifold, speed * max_predictor
    )
    point_sensitivity = 2 * clip * point_bound / n
    velocity_sensitivity = 2 * clip * velocity_bound * max_predictor / n
    return GradientSensitivities(
        point=nextafter(point_sensitivity, inf),
        velocity=nextafter(velocity_sensitivity, inf),
    )


def joint_sensitivity(domain: Domain) -> float:
    """Return 2τ/n, the sensitivity of the mean of contributions clipped as one vector.

    The noise of a private descent is calibrated to it. The function
    `curvedp.regression.gradient.clipped_direction` clips each record's contribution to
    (∇_p E, ∇_v E), taken as one vector, to the length τ. Replacing one of n records
    replaces one such vector by another (docs/theory/regression.md, Theorem G4).

    Parameters
    ----------
    domain : Domain
        The public numbers of the regression: τ is `domain.clip`, n is `domain.n`.

    Returns
    -------
    float
        The largest change of the mean, 2τ/n, rounded up.
    """
    domain = domain.checked()
    return nextafter(2 * domain.clip / domain.n, inf)


def endpoint_norm(
    point_gradient: np.ndarray, velocity_gradient: np.ndarray
) -> np.ndarray:
    """Return the endpoint norm ½(|P + Q| + |P − Q|) of a gradient.

    The energy E is the mean of half the squared residuals of the geodesic with middle p
    and velocity v. Here P = ∇_p E and Q = ∇_v E/u, with u = 1/√12 the unit of
    predictors. The unit ball of this norm is the convex hull of
    {(e, ξe): |e| ≤ 1, |ξ| ≤ 1}: in flat space that is what one record with a predictor
    |x| ≤ u and a residual of length 1 can add to (P, Q). It serves as the norm of a
    K-norm mechanism (docs/theory/regression.md, Theorem G2).

    Parameters
    ----------
    point_gradient : array of shape (..., dim)
        ∇_p E in orthonormal coordinates.
    velocity_gradient : array of shape (..., dim)
        ∇_v E in orthonormal coordinates.

    Returns
    -------
    array of shape (...)
        The norm of each gradient, not negative.
    """
    P = point_gradient
    Q = velocity_gradient / PREDICTOR_UNIT
    sum_norm = np.linalg.norm(P + Q, axis=-1)
    difference_norm = np.linalg.norm(P - Q, axis=-1)
    return np.asarray((sum_norm + difference_norm) / 2)


def endpoint_clips(clip: float, x: np.ndarray) -> np.ndarray:
    """Return τ/max(1, |x|/u), the length to which each record's residual is clipped.

    A record whose predictor x is farther than the unit u = 1/√12 from the middle has
    more leverage on the velocity. It is clipped to a shorter length, so in flat space
    no record can move the gradient more than another, in the `endpoint_norm`
    (docs/theory/regression.md, Theorem G2).

    Parameters
    ----------
    clip : float
        τ, the length for records near the middle of the geodesic.
    x : array of shape (n,)
        Predictors, centered at the middle of the geodesic.

    Returns
    -------
    array of shape (n,)
        One length for each record, at most τ.
    """
    distance_in_units = np.abs(x) / PREDICTOR_UNIT
    return np.asarray(clip / np.maximum(1.0, distance_in_units))


def endpoint_sensitivity(manifold: Manifold, domain: Domain) -> float:
    """Return the sensitivity of the gradient in the endpoint norm, in constant curvature.

    A K-norm mechanism with that norm is calibrated to it.

    Theorem G2 (docs/theory/regression.md). Let the residual of record i be clipped as
    in `endpoint_clips`. Replacing one of n records moves the gradient by at most 2τk/n
    in the `endpoint_norm`. Let κ be the curvature, V the speed, u = 1/√12 the unit,
    X = ½ the largest predictor, e(x) the record effect (`_record_effect`), a₁ =
    √|κ|·V·u and A = √|κ|·V·X. Then

        k = max(e(u), e(X)·u/X)                          for κ ≤ 0 (1 for κ = 0),
        k = max(1, ½(1 + (1 − cos A)·u/X + sinc a₁))     for κ > 0 and A ≤ π/2.

    Parameters
    ----------
    manifold : Manifold
        A space of constant curvature κ.
    domain : Domain
        The public numbers of the regression, among them the speed V, the clip τ and the
        number n of records.

    Returns
    -------
    float
        The largest change of the gradient, 2τk/n, exact up to the rounding of cosh, sinh
        and a few products. `add_rounding` covers it where noise is calibrated.

    Raises
    ------
    ParameterError
        If the curvature is not constant, or a geodesic may span more than half a great
        circle.
    """
    curvature = _constant_curvature(manifold)
    speed = domain.checked().speed
    # The supremum over all predictors is attained at one of these two.
    predictors = np.array([PREDICTOR_UNIT, MAX_PREDICTOR])
    # This call also refuses a speed that is too large for a positive curvature.
    effects = _record_effect(curvature, speed, predictors)

    # The factor k of the theorem.
    if curvature <= 0:
        clip_divisors = np.maximum(1.0, predictors / PREDICTOR_UNIT)
        factor = float(np.max(effects / clip_divisors))
    else:
        # The angles a₁ and A.
        unit_angle, end_angle = sqrt(curvature) * speed * predictors
        cos_term = (1 - cos(end_angle)) * PREDICTOR_UNIT / MAX_PREDICTOR
        sinc_term = float(np.sinc(unit_angle / pi))
        factor = (1 + cos_term + sinc_term) / 2
    return nextafter(2 * domain.clip * max(1.0, factor) / domain.n, inf)


class LipschitzBounds(NamedTuple):
    """The terms that bound how fast the clipped gradient changes, in the `endpoint_norm`.

    The method `within` computes from these terms Lipschitz constants that hold in a part
    of the domain, such as a cell of a rejection sampler. The constants depend on the
    records. That affects how long the sampler works, but not the distribution that it
    draws from (docs/theory/knorm.md).

    Lemma G3 (docs/theory/regression.md). If bᵢ is a Lipschitz constant of the clipped
    residual of record i in its prediction, then the endpoint norm has the Lipschitz
    constants

        L_p = Σ weights[0, i]·bᵢ + curvature_terms[0]    in p,
        L_v = Σ weights[1, i]·bᵢ + curvature_terms[1]    in v.

    Attributes
    ----------
    clip : array of shape (n,)
        The length τᵢ to which each residual is clipped.
    max_residual : array of shape (n,)
        An upper bound on the length of each residual in the whole domain.
    prediction_moves : array of shape (2, n)
        How far each prediction moves, at most, per unit by which p moves (first row)
        and v moves (second row).
    weights : array of shape (2, n)
        The weights of the constants bᵢ in L_p and L_v.
    curvature_terms : array of shape (2,)
        The parts of L_p and L_v that come from curvature alone.
    curvature : float
        κ, the constant curvature of the space.
    dim : int
        The dimension of the space.
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
        """Return the Lipschitz constants L_p and L_v in each of m parts of the domain.

        The constants bound how fast the endpoint norm of the clipped gradient changes
        with the middle p and with the velocity v of the geodesic. A part is a set of
        pairs (p, v), such as a cell of a rejection sampler. A residual that is clipped
        everywhere in a part keeps its length τ there, and only its direction turns, at
        a rate of at most τ·|ct(d)| at distance d (`_turning_rate`). For records far
        away this is much less than the general bound.

        Parameters
        ----------
        distances : array of shape (m, n)
            The lengths of the n residuals at the middle of each part.
        radii : array of shape (m, 2)
            How far p and v can be from the middle in each part.

        Returns
        -------
        along_point : array of shape (m,)
            L_p, the constant in p.
        along_velocity : array of shape (m,)
            L_v, the constant in v, raised to 1e-12 of L_p: samplers divide by it.
        """
        # The range of lengths that each residual takes in each part.
        max_change = radii @ self.prediction_moves
        shortest = distances - max_change
        longest = np.minimum(distances + max_change, self.max_residual)

        # The Lipschitz constant bᵢ of each clipped residual in its prediction.
        general_bound = _residual_lipschitz(
            self.curvature, self.clip, self.max_residual
        )
        is_always_clipped = shortest > self.clip
        if self.dim == 1:
            turning_rate = np.zeros_like(shortest)  # A line has no room to turn.
        else:
            # Where a residual is not always clipped, the rate is not used. Any positive
            # length in place of the shortest one avoids a division by 0 there.
            positive_shortest = np.where(is_always_clipped, shortest, self.clip)
            turning_rate = _turning_rate(self.curvature, positive_shortest, longest)
        clipped_bound = np.minimum(self.clip * turning_rate, general_bound)
        residual_bounds = np.where(is_always_clipped, clipped_bound, general_bound)

        # Lemma G3, for both parameters.
        point_weights, velocity_weights = self.weights
        point_term, velocity_term = self.curvature_terms
        along_point = residual_bounds @ point_weights + point_term
        along_velocity = residual_bounds @ velocity_weights + velocity_term
        smallest_along_velocity = _MIN_LIPSCHITZ_RATIO * along_point
        return along_point, np.maximum(along_velocity, smallest_along_velocity)


def gradient_lipschitz_bounds(
    manifold: Manifold, domain: Domain, x: np.ndarray, distance: np.ndarray
) -> LipschitzBounds:
    """Return the terms that bound how fast the clipped gradient of these records changes.

    A rejection sampler needs Lipschitz constants of the gradient in the middle p of the
    geodesic and in its velocity v. `LipschitzBounds.within` computes them from the
    terms.

    Lemma G3 (docs/theory/regression.md). For a record with predictor x let a =
    √|κ|·V·|x|, t = |x|/u with the unit u = 1/√12, C = d_p Exp and S = d_v Exp/x its
    Jacobi factors, τ the length to which its residual is clipped, e its record effect
    (`_record_effect`), and b a Lipschitz constant of its clipped residual. Then

        L_p = mean of e·(b·‖C‖ + τ√|κ|·sin a),
        L_v = mean of |x|·(e·b·‖S‖ + e·τ√|κ|·(1 − cos a)/a + τ√|κ|·(C' + t·S')),

    where C' and S' bound how fast C and S change with v (`_jacobi_factor_bounds`). For
    κ < 0, sin and cos become sinh and cosh, and 1 − cos a becomes cosh a − 1.

    Parameters
    ----------
    manifold : Manifold
        A space of constant curvature κ.
    domain : Domain
        The public numbers of the regression, among them the speed V, the clip and the
        radius in which p lies.
    x : array of shape (n,)
        Predictors, centered at the middle of the geodesic.
    distance : array of shape (n,)
        The distance of each response from the public center.

    Returns
    -------
    LipschitzBounds
        The terms, whose method `within` returns L_p and L_v.
    """
    curvature = _constant_curvature(manifold)
    speed = domain.speed
    clip = endpoint_clips(domain.clip, x)
    root = sqrt(abs(curvature))
    x = np.abs(x)
    t = x / PREDICTOR_UNIT

    # The terms of L_p and L_v without b, which differs from one part of the domain to
    # another and is multiplied in later (`LipschitzBounds.within`). ‖C‖ and ‖S‖ are
    # `jacobi.cos_norm` and `jacobi.sinc_norm`, (1 − cos a)/a is `jacobi.cos_defect_rate`,
    # and C' and S' are `jacobi.cos_change` and `jacobi.sinc_change`.
    effect = _record_effect(curvature, speed, x)
    jacobi = _jacobi_factor_bounds(curvature, root * speed * x)
    point_term = effect * clip * root * jacobi.sine
    velocity_term = x * (
        effect * clip * root * jacobi.cos_defect_rate
        + clip * root * (jacobi.cos_change + t * jacobi.sinc_change)
    )
    weights = np.stack([effect * jacobi.cos_norm, x * effect * jacobi.sinc_norm])
    return LipschitzBounds(
        clip=clip,
        max_residual=domain.radius + speed * x + distance,
        prediction_moves=np.stack([jacobi.cos_norm, x * jacobi.sinc_norm]),
        weights=weights / len(x),
        curvature_terms=np.array([np.mean(point_term), np.mean(velocity_term)]),
        curvature=curvature,
        dim=manifold.dim,
    )


class _JacobiFactorBounds(NamedTuple):
    """Bounds on the Jacobi factors C and S of a record at the angle a, and on their change.

    The Jacobi factors are C = d_p Exp and S = d_v Exp/x, after transport back to p. They
    are 1 along v. Across v they are cos a and sinc a = sin(a)/a for κ > 0, and cosh a
    and sinh(a)/a for κ < 0.

    Attributes
    ----------
    cos_norm, sinc_norm : arrays
        ‖C‖ and ‖S‖.
    sine : array
        sin a or sinh a: how much transport turns when p moves.
    cos_defect_rate : array
        |1 − C|/a across v: how much transport turns when v moves.
    cos_change, sinc_change : arrays
        Bounds on the derivatives of C and S in v, divided by √|κ|·|x|.
    """

    cos_norm: np.ndarray
    sinc_norm: np.ndarray
    sine: np.ndarray
    cos_defect_rate: np.ndarray
    cos_change: np.ndarray
    sinc_change: np.ndarray


def _jacobi_factor_bounds(curvature: float, a: np.ndarray) -> _JacobiFactorBounds:
    """Bound the Jacobi factors C and S and their derivatives at the angles a.

    C = d_p Exp and S = d_v Exp/x are the derivatives of a record's prediction
    Exp(p, xv), after transport back to p. By part (iii) of Lemma G3
    (docs/theory/regression.md), the derivative of C in v, over √|κ|·|x|, has norm at
    most max(sin a, √2·(1 − cos a)/a), and that of S at most
    max(|sinc' a|, √2·(1 − sinc a)/a). For κ < 0 the functions are hyperbolic.

    Parameters
    ----------
    curvature : float
        κ, the constant curvature of the space.
    a : array
        √|κ|·V·|x| of each record, with the largest speed V and the predictor x; at most
        π/2 for κ > 0.

    Returns
    -------
    _JacobiFactorBounds
        Bounds for each record.
    """
    # The norms of C and S are the larger ones of 1 (along v) and cos a or sinc a (across
    # it). A defect is the distance of such a function from 1.
    if curvature > 0:
        # Neither cos nor sinc exceeds 1.
        cos_norm = np.ones_like(a)
        sinc_norm = np.ones_like(a)
        sine = np.sin(a)
        sinc = np.sinc(a / pi)
        cos_defect = 2 * np.sin(a / 2) ** 2
        sinc_slope = np.cos(a) - sinc  # This is a·sinc'(a).
        sinc_defect = 1 - sinc
    else:
        cos_norm = np.cosh(a)
        sine = np.sinh(a)
        sinc_norm = _sinhc(a)
        cos_defect = 2 * np.sinh(a / 2) ** 2
        sinc_slope = cos_norm - sinc_norm  # This is a·sinhc'(a).
        sinc_defect = sinc_norm - 1

    cos_defect_rate = _quotient_by_angle(cos_defect, a)
    sinc_slope_rate = _quotient_by_angle(sinc_slope, a)
    sinc_defect_rate = _quotient_by_angle(sinc_defect, a)
    return _JacobiFactorBounds(
        cos_norm=cos_norm,
        sinc_norm=sinc_norm,
        sine=sine,
        cos_defect_rate=cos_defect_rate,
        cos_change=np.maximum(sine, sqrt(2) * cos_defect_rate),
        sinc_change=np.maximum(sinc_slope_rate, sqrt(2) * sinc_defect_rate),
    )


def _constant_curvature(manifold: Manifold) -> float:
    """Return the curvature of a space that has the same curvature everywhere.

    Called by the functions whose theorems need constant curvature.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.

    Returns
    -------
    float
        The curvature κ, of either sign or 0.

    Raises
    ------
    ParameterError
        If the curvature is not constant.
    """
    curvature = manifold.constant_curvature
    if curvature is None:
        raise ParameterError(f"{manifold!r} has no constant curvature")
    return curvature


def _sinhc(a: np.ndarray) -> np.ndarray:
    """Return an upper bound on sinh(a)/a for a ≥ 0.

    It is the quotient, or 1 + a² where a is so small that the quotient loses digits.

    Parameters
    ----------
    a : array
        Angles, not negative.

    Returns
    -------
    array
        Numbers ≥ 1, of the shape of `a`.
    """
    is_large = a > _TINY_SINHC_ANGLE
    quotient = np.sinh(a) / np.where(is_large, a, 1.0)
    return np.asarray(np.where(is_large, quotient, 1 + a * a))


def _quotient_by_angle(numerator: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return |numerator|/a for a numerator of order a², or the bound a where a is tiny.

    Used for bounds, so that an upper bound may replace the quotient where it would lose
    digits.

    Parameters
    ----------
    numerator : array
        A function of a of size at most a² near 0, such as 1 − cos a.
    a : array
        Angles, not negative.

    Returns
    -------
    array
        The quotients, or upper bounds on them; no division by 0 occurs.
    """
    is_large = a > _TINY_QUOTIENT_ANGLE
    safe_a = np.where(is_large, a, 1.0)
    return np.where(is_large, np.abs(numerator) / safe_a, a)


def _record_effect(curvature: float, speed: float, x: np.ndarray) -> np.ndarray:
    """Return the most that a residual of length 1 can add to the `endpoint_norm`.

    Sensitivities and Lipschitz constants of the gradient are multiples of this record
    effect e. It is the supremum of ½(‖C + tS‖ + ‖C − tS‖) over speeds up to V, where
    t = x/u and u = 1/√12. The Jacobi factors C and S are 1 along v. Across v they are
    cos a and sinc a for κ > 0, and cosh a and sinhc a = sinh(a)/a for κ < 0, where a =
    √|κ|·V·x. All terms grow with the speed, so the supremum is attained at V
    (docs/theory/regression.md, proof of Theorem G2):

        e = ½(1 + t + max(|1 − t|, t·sinc a − cos a))                        for κ > 0,
        e = max(cosh a, t·sinhc a, ½(cosh a + t·sinhc a + t − 1))            for κ ≤ 0.

    Parameters
    ----------
    curvature : float
        κ, the constant curvature of the space.
    speed : float
        V, the largest length of the velocity.
    x : array
        Lengths of centered predictors, not negative.

    Returns
    -------
    array
        The record effect e of each predictor.

    Raises
    ------
    ParameterError
        If a geodesic of speed V may span more than half a great circle.
    """
    a = sqrt(abs(curvature)) * speed * x
    t = x / PREDICTOR_UNIT
    if curvature > 0:
        if not sqrt(curvature) * speed * MAX_PREDICTOR <= pi / 2:
            raise ParameterError(
                f"must be at most {pi / sqrt(curvature):.6g} in curvature "
                f"{curvature:g}: the geodesic may span half a great circle",
                parameter="speed",
                value=speed,
            )
        difference_across = t * np.sinc(a / pi) - np.cos(a)
        difference_norm = np.maximum(np.abs(1 - t), difference_across)
        return np.asarray((1 + t + difference_norm) / 2)

    cosh_a = np.cosh(a)
    sinhc_a = _sinhc(a)
    mixed_term = (cosh_a + t * sinhc_a + t - 1) / 2
    return np.asarray(np.maximum(np.maximum(cosh_a, t * sinhc_a), mixed_term))


def _residual_lipschitz(
    curvature: float, clip: np.ndarray, max_residual: np.ndarray
) -> np.ndarray:
    """Return the Lipschitz constant of each clipped residual as its prediction moves.

    A residual is the logarithm of a response at its prediction, clipped to the length
    τ. If the prediction moves toward the response or away from it, the residual changes
    at most as fast as the prediction. If the prediction moves sideways at distance d,
    the residual of length min(d, τ) turns, and it changes min(d, τ)·|ct(d)| times as
    fast. Here ct(d) is √κ·cot(√κ·d) for κ > 0, √−κ·coth(√−κ·d) for κ < 0, and 1/d for
    κ = 0. So the constant is the supremum of max(1, min(d, τ)·|ct(d)|) over all lengths
    d that the residual can have (Karcher 1977; docs/theory/regression.md, Lemma G3
    (i)).

    Parameters
    ----------
    curvature : float
        κ, the constant curvature of the space.
    clip : array of shape (n,)
        τ, the length to which each residual is clipped.
    max_residual : array of shape (n,)
        The largest d of each record.

    Returns
    -------
    array of shape (n,)
        A Lipschitz constant ≥ 1 for each record.
    """
    root = sqrt(abs(curvature))
    if curvature < 0:
        # d·coth(d) increases and coth(d) decreases, so the worst length is d = τ. With
        # s = τ√−κ the constant is s·coth(s). For a tiny s the quotient s/tanh(s) could
        # be 0/0, and the upper bound 1 + s is returned instead.
        s = root * clip
        nonzero_s = np.maximum(s, _TINY_SINHC_ANGLE)
        s_times_coth = s / np.tanh(nonzero_s)
        return np.asarray(np.where(s > _TINY_SINHC_ANGLE, s_times_coth, 1 + s))
    if curvature == 0:
        # min(d, τ)/d is at most 1.
        return np.asarray(np.ones_like(max_residual))
    # Up to √κ·d = π/2, a quarter turn, d·√κ·cot(√κ·d) is at most 1. Beyond it, and up to
    # √κ·d = π, the cotangent is negative and |cot| grows with d, so the largest d is the
    # worst. No distance on a sphere is longer.
    angle = np.maximum(root * max_residual, pi / 2)
    return np.asarray(np.maximum(1.0, -root * clip / np.tan(angle)))


def _turning_rate(
    curvature: float, shortest: np.ndarray, longest: np.ndarray
) -> np.ndarray:
    """Return how fast the direction to a response can turn as the prediction moves.

    A residual that is clipped at all distances keeps its length, and only its direction
    turns. The rate is the supremum of |ct(d)| over shortest ≤ d ≤ longest. Here ct(d)
    is √κ·cot(√κ·d) for κ > 0, √−κ·coth(√−κ·d) for κ < 0, and 1/d for κ = 0 (Karcher
    1977).

    Parameters
    ----------
    curvature : float
        κ, the constant curvature of the space.
    shortest : array of shape (m, n)
        The smallest distance d > 0 between prediction and response.
    longest : array of shape (m, n)
        The largest such distance.

    Returns
    -------
    array of shape (m, n)
        Radians per unit of length.
    """
    root = sqrt(abs(curvature))
    if curvature < 0:
        return np.asarray(root / np.tanh(root * shortest))
    if curvature == 0:
        return np.asarray(1 / shortest)
    # cot decreases from ∞ to −∞, so that |cot| is largest at one of the two ends.
    at_shortest = 1 / np.tan(root * shortest)
    at_longest = -1 / np.tan(root * np.maximum(longest, shortest))
    return np.asarray(root * np.maximum(at_shortest, at_longest))
