"""Proved lower and upper bounds on δ(ε) for noise on spaces of constant curvature. All
arithmetic is done with *balls*: numbers with an error bound (from Arb in python-flint).
So every rounding error is enclosed.

Floats only suggest where to integrate: a bad suggestion costs time, never validity.

Definitions. The centers of the noise for two data sets are η₁ and η₂, a distance D
apart; s is the scale of the noise, d the dimension. In polar coordinates (r, φ) about
η₁, with η₂ in the direction φ = 0, ρ(r) is the density of r, and L is the privacy loss.
At the radius r, L = t at one angle; c_t(r) is its cosine. With m = d − 2 and
J_m(c) = ∫_{arccos c}^π sin^m (docs/theory/exact-profiles.md, "Certified"),

    δ(ε) = P₁(L >= ε) − e^ε·P₁(L <= −ε),
    P₁(L >= t) = ∫ρ(r)·J_m(c_t(r)) dr / (J_m(1)·∫ρ).

`tail_probability` encloses the two probabilities. On a real projective space, such as
the rotations of space, a point has two lifts to the sphere. There L >= t where both
lifts of η₂ are farther away than the level.
"""

import math

import numpy as np
from flint import arb

from curvedp import _validate
from curvedp.errors import NotResolved
from curvedp.numerics.enclosures import precision
from curvedp.privacy.enclosure.functions import normal_cdf, scaled_normal_tail
from curvedp.privacy.enclosure.noise import EnclosedNoise, Profile
from curvedp.privacy.enclosure.rounding import outward_floats
from curvedp.privacy.enclosure.tail_probability import TailProbability
from curvedp.privacy.guarantees.gaussian import gdp_log_delta
from curvedp.privacy.profiles.constant_curvature import constant_curvature_profile
from curvedp.privacy.profiles.projective import ProjectiveProfile

# An enclosure of δ is accepted if its radius is below this part of δ: the bounds are
# then less than 1e-6 apart, with room for `OUTWARD_MARGIN` of the module `rounding`.
_TIGHT_RELATIVE_RADIUS = 2e-8
# If ε exceeds an ε at which floats resolve δ by more than this factor, no integral is
# tried: an upper bound is enough.
_UNRESOLVED_EPS_FACTOR = 1e6
# The precision of the arithmetic, in bits: the first one, and the largest that is tried
# for integrals and for closed forms, which are cheap.
_FIRST_BITS = 96
_MOST_BITS = 6144
_MOST_BITS_OF_CLOSED_FORMS = 200_000
# The relative error of integrals at the first precision.
_FIRST_TOLERANCE = 1e-12


def certified_delta(
    kind: str,
    curvature: float,
    dim: int,
    scale: float,
    sensitivity: float,
    eps: float,
) -> tuple[float, float]:
    """Return proved bounds (lower, upper) on δ(ε), at most 1e-6 apart relative to δ.

    δ(ε) says how well isotropic noise protects two data sets whose noise centers are at
    most `sensitivity` apart. The worst case is exactly this distance
    (docs/theory/exact-profiles.md, Theorem P1).

    Parameters
    ----------
    kind : {'gaussian', 'laplace'}
        The noise: density ∝ exp(−r²/2s²) or ∝ exp(−r/s), with r the distance from its
        center.
    curvature : float
        The curvature of the space.
    dim : int
        The dimension of the space.
    scale : float
        The scale s of the noise.
    sensitivity : float
        The largest distance between two centers of the noise.
    eps : float
        The ε >= 0 at which δ is wanted.

    Returns
    -------
    lower, upper : float
        Bounds with 0 <= lower <= δ(ε) <= upper <= 1.

    Raises
    ------
    NotResolved
        If δ could not be enclosed so tightly.

    Examples
    --------
    >>> lower, upper = certified_delta("gaussian", 1.0, 1, 2.0, 1.0, 0.3)
    >>> lower <= 0.04225571 <= upper
    True
    """
    # The constructor of the profile refuses any other kind.
    profile = constant_curvature_profile(
        kind,  # type: ignore[arg-type]
        curvature,
        dim,
        scale,
        sensitivity,
    )
    return _bounds_of_profile(profile, eps)


def certified_projective_delta(
    kind: str,
    curvature: float,
    dim: int,
    scale: float,
    sensitivity: float,
    eps: float,
) -> tuple[float, float]:
    """Return proved bounds (lower, upper) on δ(ε) on a real projective space.

    δ(ε) says how well isotropic noise protects two data sets whose noise centers are at
    most `sensitivity` apart. For example, the rotations of space are such a space, with
    the dimension 3 and the curvature ¼.

    Parameters
    ----------
    kind : {'gaussian', 'laplace'}
        The noise: density ∝ exp(−r²/2s²) or ∝ exp(−r/s), with r the distance from its
        center.
    curvature : float
        The curvature of the space.
    dim : int
        The dimension of the space.
    scale : float
        The scale s of the noise.
    sensitivity : float
        The largest distance between two centers of the noise.
    eps : float
        The ε >= 0 at which δ is wanted.

    Returns
    -------
    lower, upper : float
        Bounds with 0 <= lower <= δ(ε) <= upper <= 1.

    Raises
    ------
    NotResolved
        If δ could not be enclosed to within 1e-6, relative.
    """
    # The constructor of the profile refuses any other kind.
    profile = ProjectiveProfile(
        kind,  # type: ignore[arg-type]
        "real",
        dim,
        curvature,
        scale,
        sensitivity,
    )
    return _bounds_of_profile(profile, eps)


def _bounds_of_profile(profile: Profile, eps: float) -> tuple[float, float]:
    """Return proved lower and upper bounds on δ(ε) of a privacy profile, as floats.

    All rounding goes outward, so that the floats are bounds too.

    Parameters
    ----------
    profile : ConstantCurvatureProfile or ProjectiveProfile
        The profile of isotropic noise.
    eps : float
        ε >= 0; other values are refused.

    Returns
    -------
    lower, upper : float
        Bounds with 0 <= lower <= δ(ε) <= upper <= 1.
    """
    ball = DeltaEnclosure(profile).delta(_validate.nonnegative("eps", eps))
    lower, upper = outward_floats(ball)
    return lower, min(upper, 1.0)


class DeltaEnclosure:
    """Computes balls that provably contain δ(ε), for one privacy profile.

    Parameters
    ----------
    profile : ConstantCurvatureProfile or ProjectiveProfile
        The profile of isotropic noise on a space of constant curvature or on a real
        projective space.
    """

    # If log δ is smaller than this (close to the smallest positive float), an upper
    # bound on δ is enough.
    smallest_log = math.log(1e-300)

    def __init__(self, profile: Profile) -> None:
        """Store the profile, and its noise as balls.

        Parameters
        ----------
        profile : ConstantCurvatureProfile or ProjectiveProfile
            The profile of isotropic noise.
        """
        self.profile = profile
        self.noise = EnclosedNoise(profile)
        self._enclosure_at: dict[float, arb] = {}

    def delta(self, eps: float) -> arb:
        """Return a ball that contains δ(ε).

        The precision of the arithmetic is doubled until the ball is small enough. The
        result is stored, so that a second call with the same ε is free.

        Parameters
        ----------
        eps : float
            The privacy parameter ε >= 0.

        Returns
        -------
        arb
            A ball of relative radius below 2e-8, or an exact 0. If δ(ε) is too small
            for floats, a ball from 0 to an upper bound.

        Raises
        ------
        NotResolved
            If no precision suffices.
        """
        if eps not in self._enclosure_at:
            self._enclosure_at[eps] = self._compute_delta(eps)
        return self._enclosure_at[eps]

    def _compute_delta(self, eps: float) -> arb:
        """Return a ball that contains δ(ε), without looking for a stored one.

        Parameters
        ----------
        eps : float
            The privacy parameter ε >= 0.

        Returns
        -------
        arb
            The ball, as small as `delta` promises.

        Raises
        ------
        NotResolved
            If no precision suffices.
        """
        if self.noise.is_beyond_max_loss(eps):
            return arb(0)

        log_guess = self._guess_log_delta(eps)
        is_tiny = log_guess <= self.smallest_log
        has_closed_form = self.profile.is_closed_form or self.noise.dim == 1
        if is_tiny and not has_closed_form:
            resolved_eps = self._find_smaller_resolved_eps(eps)
            if eps > _UNRESOLVED_EPS_FACTOR * resolved_eps:
                # δ decreases in ε, so that a bound at a smaller ε is enough.
                return arb(0).union(self.delta(resolved_eps).upper())

        # Double the precision until the ball is tight.
        bits = _FIRST_BITS
        most_bits = _MOST_BITS if self.noise.dim > 1 else _MOST_BITS_OF_CLOSED_FORMS
        while bits <= most_bits:
            with precision(bits):
                tolerance = _FIRST_TOLERANCE * _FIRST_BITS / bits
                ball = self._enclose_delta(arb(eps), log_guess, tolerance)
                if _is_tight(ball):
                    return ball
                if is_tiny and ball.is_finite():  # an upper bound is enough
                    return arb(0).union(ball.upper())
            bits *= 2
        raise NotResolved(
            f"δ at ε = {eps:g} could not be enclosed with {most_bits} bits of precision"
        )

    def _find_smaller_resolved_eps(self, eps: float) -> float:
        """Return the first of ε, ε/2, ε/4, … at which δ is not too small for floats.

        δ decreases in ε, so that an upper bound on δ at the result holds at ε too.

        Parameters
        ----------
        eps : float
            A number ε >= 0.

        Returns
        -------
        float
            The smaller ε; 0 if δ is too small at all of them.
        """
        candidate = eps
        while candidate > 0 and self._guess_log_delta(candidate) <= self.smallest_log:
            candidate /= 2
        return candidate

    def _guess_log_delta(self, eps: float) -> float:
        """Return an approximation of log δ(ε), computed in floats.

        It says how accurate the integrals must be. The proved bounds hold however bad
        it is.

        Parameters
        ----------
        eps : float
            The privacy parameter ε >= 0.

        Returns
        -------
        float
            The approximation, at least `smallest_log`: also if floats fail.
        """
        with np.errstate(all="ignore"):
            if self.profile.is_closed_form:
                guess = float(gdp_log_delta(self.profile.mu, eps))
            else:
                guess = float(self.profile.loss_table.log_delta(np.array([eps]))[0])
        return guess if guess > self.smallest_log else self.smallest_log

    def _enclose_delta(self, eps: arb, log_guess: float, tolerance: float) -> arb:
        """Return a ball around δ(ε) at the current precision of the arithmetic.

        Two cases have a closed form: spaces of dimension 1, and Gaussian noise on a
        flat space. Otherwise δ(ε) = P₁(L >= ε) − e^ε·P₁(L <= −ε) is computed from
        integrals, with the privacy loss L and the law P₁ of the noise about the first
        center.

        Parameters
        ----------
        eps : arb
            The privacy parameter ε >= 0, as a ball.
        log_guess : float
            An approximation of log δ(ε), from which absolute tolerances follow.
        tolerance : float
            The relative error that integrals may have.

        Returns
        -------
        arb
            A ball that contains δ(ε), however wide.
        """
        if self.profile.is_closed_form:
            return self._flat_gaussian_delta(eps)
        if self.noise.dim == 1:
            return self._one_dimensional_delta(eps)

        log_lower_guess = log_guess - float(eps)
        upper_tail = TailProbability(
            self.noise, eps, log_guess, tolerance, is_upper=True
        )
        lower_tail = TailProbability(
            self.noise, -eps, log_lower_guess, tolerance, is_upper=False
        )
        return upper_tail.probability() - eps.exp() * lower_tail.probability()

    def _flat_gaussian_delta(self, eps: arb) -> arb:
        """Return δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) of a flat Gaussian.

        Here μ = sensitivity/scale, and Φ is the normal distribution function.

        Parameters
        ----------
        eps : arb
            The privacy parameter ε >= 0, as a ball.

        Returns
        -------
        arb
            A ball around δ(ε).
        """
        mu = arb(self.profile.sensitivity) / arb(self.profile.scale)
        first_term = normal_cdf(mu / 2 - eps / mu)
        second_term = scaled_normal_tail(eps, mu / 2 + eps / mu)
        return first_term - second_term

    def _one_dimensional_delta(self, eps: arb) -> arb:
        """Return δ(ε) on the line or on the circle of circumference 2π, in closed form.

        Parameters
        ----------
        eps : arb
            The privacy parameter ε >= 0, as a ball.

        Returns
        -------
        arb
            A ball around δ(ε).
        """
        s, D = self.noise.parameters()
        if not self.noise.is_laplace:
            return _circle_gaussian_delta(s, D, eps)
        if self.noise.is_compact:
            return _circle_laplace_delta(s, D, eps)
        return 1 - ((eps - D / s) / 2).exp()  # the line


def _is_tight(ball: arb) -> bool:
    """Return whether a ball around δ(ε) is small relative to δ(ε), or exactly 0.

    Parameters
    ----------
    ball : arb
        An enclosure of δ(ε).

    Returns
    -------
    bool
        True if the radius is below 2e-8 of every number in the ball, or the ball is
        {0}.
    """
    if ball.is_exact() and ball == 0:
        return True
    return bool(ball.lower() > 0 and ball.rad() < _TIGHT_RELATIVE_RADIUS * ball.lower())


def _circle_laplace_delta(s: arb, D: arb, eps: arb) -> arb:
    """Return δ(ε) of Laplace noise on the circle of circumference 2π, in closed form.

    Let y be the signed distance of an output from the first center, so that the second
    one is at y = D. The privacy loss exceeds ε on the arc −r_b < y < y_a with
    y_a = (D − sε)/2 and r_b = π − (D + sε)/2. δ(ε) is the probability of this arc for
    noise about the first center, less e^ε times that for noise about the second one.
    With the density e^{−|y|/s}/(2s(1 − e^{−π/s})), the difference is the product

        (1 − e^{−y_a/s})·(1 − e^{−r_b/s})/(1 − e^{−π/s}).

    Parameters
    ----------
    s : arb
        The scale of the noise.
    D : arb
        The distance of the two centers.
    eps : arb
        The privacy parameter ε >= 0, as a ball.

    Returns
    -------
    arb
        A ball around δ(ε).
    """
    pi = arb.pi()
    # Both ends of the arc in units of s.
    y_a = (D / s - eps) / 2
    r_b = pi / s - (D / s + eps) / 2
    return (1 - (-y_a).exp()) * (1 - (-r_b).exp()) / (1 - (-pi / s).exp())


def _circle_gaussian_delta(s: arb, D: arb, eps: arb) -> arb:
    """Return δ(ε) of Gaussian noise on the circle of circumference 2π.

    Let y be the signed distance of an output from the first center η₁, so that the
    second one, η₂, is at y = D, or D′ = 2π − D the long way round. The privacy loss
    exceeds ε on the arc −r_b < y < y_a, and is below −ε on its mirror image, with

        y_a = (D² − 2s²ε)/(2D)      and      r_b = (D′² − 2s²ε)/(2D′).

    δ(ε) is the probability of the arc for noise about η₁, less e^ε times that for noise
    about η₂. The latter are multiplied by e^ε before differences are formed, because
    the other order would lose all digits.

    Parameters
    ----------
    s : arb
        The scale of the noise.
    D : arb
        The distance of the two centers.
    eps : arb
        The privacy parameter ε >= 0, as a ball.

    Returns
    -------
    arb
        A ball around δ(ε).
    """
    # The ends of the arc, and its probability about η₁.
    pi = arb.pi()
    far_distance = 2 * pi - D
    y_a = (D * D - 2 * s * s * eps) / (2 * D)
    r_b = (far_distance * far_distance - 2 * s * s * eps) / (2 * far_distance)
    mass = normal_cdf(pi / s) - normal_cdf(-pi / s)
    first_term = normal_cdf(y_a / s) - normal_cdf(-r_b / s)

    # Seen from η₂ the arc is −(r_b + D) < y < y_a − D. Points of it beyond −π are
    # nearer to η₂ on the other side of the circle.
    second_term = (
        scaled_normal_tail(eps, (D - y_a) / s)
        + scaled_normal_tail(eps, (far_distance - r_b) / s)
        - 2 * scaled_normal_tail(eps, pi / s)
    )
    return (first_term - second_term) / mass
