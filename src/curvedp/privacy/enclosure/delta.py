"""Proved lower and upper bounds on δ(ε) for noise on spaces of constant curvature. A
*ball* is a number with an error bound (arb for real, acb for complex numbers, from Arb
in python-flint). All arithmetic is done with balls, so that every rounding error is
enclosed.

Floats only suggest where to integrate: a bad suggestion costs time, never validity.

Definitions. The centers of the noise for two data sets are η₁ and η₂, a distance D
apart; s is the scale of the noise, d the dimension. In polar coordinates (r, φ) about
η₁, with η₂ in the direction φ = 0, ρ(r) is the density of r, and L is the privacy loss.
At the radius r, L = t at one angle; c_t(r) is its cosine. With m = d − 2 and
J_m(c) = ∫_{arccos c}^π sin^m (docs/theory/exact-profiles.md, "Certified"),

    δ(ε) = P₁(L >= ε) − e^ε·P₁(L <= −ε),
    P₁(L >= t) = ∫ρ(r)·J_m(c_t(r)) dr / (J_m(1)·∫ρ).

On a real projective space, such as the rotations of space, a point has two lifts to the
sphere. There L >= t where both lifts of η₂ are farther away than the level.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from flint import acb, acb_poly, arb, ctx

from curvedp import _validate
from curvedp.errors import NotResolved
from curvedp.numerics.enclosures import precision
from curvedp.privacy.guarantees.gaussian import gdp_log_delta
from curvedp.privacy.loss.space_form import SpaceFormLoss
from curvedp.privacy.profiles.constant_curvature import (
    ConstantCurvatureProfile,
    constant_curvature_profile,
)
from curvedp.privacy.profiles.projective import ProjectiveProfile

# An integrand for Arb's quadrature: a function of a ball r of complex radii and of a
# flag. If the flag is set, the function must return a ball that is not finite unless it
# is analytic on all of r.
Integrand = Callable[[acb, bool], acb]

# The relative amount by which bounds are widened: a little more than the margin by
# which the fast computation in floats rounds up, so that its results lie inside.
OUTWARD_MARGIN = 3e-9
# An enclosure of δ is accepted if its radius is below this part of δ: the bounds are
# then less than 1e-6 apart, with room for `OUTWARD_MARGIN`.
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
# A logarithm: an interval of integration ends where the density of the radius is e^-60
# of its peak, or less.
_DENSITY_DEPTH = 60.0
# From this z on, Mills' ratio e^{z²/2}·Φ(−z) is enclosed by elementary bounds.
_LARGE_Z = 1e6
# The distance from the mode of a density grows by this factor in the search for the end
# of an interval of integration.
_OFFSET_FACTOR = 1.25
# An interval of integration that would begin below this part of the mode begins at 0.
_SMALLEST_START = 1e-3
# Limits on the work of one integral: evaluations of the integrand, and halvings of an
# interval. Arb returns a valid, but wide, ball if they are exceeded.
_MOST_EVALUATIONS = 200_000
_MOST_HALVINGS = 400


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


def _bounds_of_profile(
    profile: ConstantCurvatureProfile | ProjectiveProfile, eps: float
) -> tuple[float, float]:
    """Return proved lower and upper bounds on δ(ε) of a privacy profile, as floats.

    Parameters
    ----------
    profile : ConstantCurvatureProfile or ProjectiveProfile
        The profile of isotropic noise on a space of constant curvature or on a real
        projective space.
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


def outward_floats(ball: arb) -> tuple[float, float]:
    """Return floats (lower, upper) around a ball of numbers >= 0.

    A ball is an interval. Both ends are moved outward by the relative margin 3e-9. This
    margin is a little more than the amount by which the fast computation in floats
    rounds up, so that its results lie between the two ends.

    Parameters
    ----------
    ball : arb
        An interval of numbers >= 0 (midpoint and radius).

    Returns
    -------
    lower, upper : float
        The enclosing floats.
    """
    # Round both ends outward, and move them outward by the margin.
    lower = next_float(ball.lower(), -1) * (1 - OUTWARD_MARGIN)
    upper = next_float(ball.upper(), 1) * (1 + OUTWARD_MARGIN)
    # The products were rounded, so the ends are moved one float further. An upper end
    # from 1 on stays, so that a bound on a probability does not pass 1: there the
    # margin covers the rounding.
    lower = math.nextafter(lower, -math.inf)
    next_above = math.nextafter(upper, math.inf)
    return max(lower, 0.0), min(next_above, max(1.0, upper))


def next_float(x: arb, direction: int) -> float:
    """Return a float beyond an exact number: above it for direction 1, below for −1.

    Parameters
    ----------
    x : arb
        The number.
    direction : {1, −1}
        1 for a float above it, −1 for one below it.

    Returns
    -------
    float
        The neighbor, in that direction, of the float nearest to x.
    """
    return math.nextafter(float(x), direction * math.inf)


class _Parameters(NamedTuple):
    """The noise in units in which the curvature is −1, 0 or 1, as balls."""

    s: arb  # the scale of the noise
    distance: arb  # D, the distance between the two centers


class _LevelRadii(NamedTuple):
    """The radii between which the privacy loss L takes a value t in some direction.

    A radius is the distance from the first center of the noise.
    """

    low: arb  # the smallest such radius
    high: arb  # the largest such radius, possibly infinite
    center_exceeds: bool  # whether L >= t in all directions at radii below `low`


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

    def __init__(self, profile: ConstantCurvatureProfile | ProjectiveProfile) -> None:
        """Read the parameters of the noise from its profile.

        Parameters
        ----------
        profile : ConstantCurvatureProfile or ProjectiveProfile
            The profile of isotropic noise.
        """
        self.profile = profile
        self.kind = profile.kind
        self.d = profile.dim
        # The number of points of the sphere above one point of the space.
        self.n_lifts = 2 if isinstance(profile, ProjectiveProfile) else 1
        sign = (profile.curvature > 0) - (profile.curvature < 0)
        # The curvature −1, 0 or 1 in the units of `_parameters`. A line is flat.
        self.k = sign if profile.dim > 1 else max(sign, 0)
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
        # Simple cases.
        if eps in self._enclosure_at:
            return self._enclosure_at[eps]
        if self._is_beyond_max_loss(eps):
            return arb(0)

        # If δ is too small for floats, and ε far beyond those at which it is not,
        # an upper bound at a smaller ε is enough: δ decreases in ε.
        log_guess = self._guess_log_delta(eps)
        is_tiny = log_guess <= self.smallest_log
        has_closed_form = self.profile.is_closed_form or self.d == 1
        if is_tiny and not has_closed_form:
            resolved_eps = self._find_smaller_resolved_eps(eps)
            if eps > _UNRESOLVED_EPS_FACTOR * resolved_eps:
                upper_bound = self.delta(resolved_eps).upper()
                return arb(0).union(upper_bound)

        # Otherwise compute at increasing precisions.
        bits = _FIRST_BITS
        most_bits = _MOST_BITS if self.d > 1 else _MOST_BITS_OF_CLOSED_FORMS
        while bits <= most_bits:
            with precision(bits):
                tolerance = _FIRST_TOLERANCE * _FIRST_BITS / bits
                ball = self._enclose_delta(arb(eps), log_guess, tolerance)
                if self._is_tight(ball):
                    self._enclosure_at[eps] = ball
                    return ball
                if is_tiny and ball.is_finite():  # an upper bound is enough
                    self._enclosure_at[eps] = arb(0).union(ball.upper())
                    return self._enclosure_at[eps]
            bits *= 2
        raise NotResolved(
            f"δ at ε = {eps:g} could not be enclosed with {most_bits} bits of precision"
        )

    @staticmethod
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
        return bool(
            ball.lower() > 0 and ball.rad() < _TIGHT_RELATIVE_RADIUS * ball.lower()
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
        while candidate > 0:
            is_resolved = self._guess_log_delta(candidate) > self.smallest_log
            if is_resolved:
                break
            candidate /= 2
        return candidate

    def _guess_log_delta(self, eps: float) -> float:
        """Return an approximation of log δ(ε), computed in floats.

        It says how small the integrals are, and hence how accurate they must be. The
        proved bounds hold however bad it is. The result is at least `smallest_log`,
        also if floats fail at an extreme ε.

        Parameters
        ----------
        eps : float
            The privacy parameter ε >= 0.

        Returns
        -------
        float
            An approximation of log δ(ε).
        """
        with np.errstate(all="ignore"):
            if self.profile.is_closed_form:
                guess = float(gdp_log_delta(self.profile.mu, eps))
            else:
                guess = float(self.profile.loss_table.log_delta(np.array([eps]))[0])
        return guess if guess > self.smallest_log else self.smallest_log

    def _is_beyond_max_loss(self, eps: float) -> bool:
        """Return whether ε is at or above the largest privacy loss, so that δ(ε) is 0.

        Let s be the noise scale, D the distance of the two noise centers and c the
        diameter of the space. The largest loss is D/s for Laplace noise, and
        D(2c − D)/2s² for Gaussian noise on a compact space.

        Parameters
        ----------
        eps : float
            A number ε >= 0.

        Returns
        -------
        bool
            True if this is proved. False otherwise: also if the loss is unbounded, or
            if rounding errors leave it open.
        """
        s, distance = self._parameters()
        if self.kind == "laplace":
            return bool(arb(eps) >= distance / s)
        is_compact = self.k == 1
        if not is_compact:
            return False
        largest_loss = distance * (2 * self._diameter() - distance) / (2 * s * s)
        return bool(arb(eps) >= largest_loss)

    # ---- parameters as balls

    def _parameters(self) -> _Parameters:
        """Return scale and sensitivity in units in which the curvature is −1, 0 or 1.

        Lengths are converted to these units by the factor √|curvature|. A sensitivity
        that is not provably below the diameter of the space is replaced by the
        diameter.

        Returns
        -------
        _Parameters
            The scale s of the noise and the distance D of its two centers, as balls.
        """
        unit_factor = arb(1)
        if self.profile.curvature and self.k:
            unit_factor = arb(abs(self.profile.curvature)).sqrt()
        distance = arb(self.profile.sensitivity) * unit_factor
        is_compact = self.k == 1
        if is_compact and not (self._diameter() > distance):
            distance = self._diameter()
        return _Parameters(arb(self.profile.scale) * unit_factor, distance)

    def _diameter(self) -> arb:
        """Return the diameter of a compact space of curvature 1.

        It is π for a sphere and π/2 for a projective space.
        """
        return arb.pi() / self.n_lifts

    @property
    def _law(self) -> SpaceFormLoss:
        """The privacy loss, computed in floats; it suggests where to integrate."""
        law = self.profile.loss_law
        assert isinstance(law, SpaceFormLoss)
        return law

    # ---- δ

    def _enclose_delta(self, eps: arb, log_guess: float, tolerance: float) -> arb:
        """Return a ball around δ(ε) at the current precision of the arithmetic.

        δ(ε) = P₁(L >= ε) − e^ε·P₁(L <= −ε), where L is the privacy loss and P₁ the law
        of the noise about the first center. The two probabilities are integrals
        (`_TailIntegral`), except in two cases with a closed form: spaces of dimension
        1, and Gaussian noise on a flat space. For the latter, with
        μ = sensitivity/scale and the normal distribution function Φ,

            δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ).

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
        if self.profile.is_closed_form:  # Gaussian noise on a flat space
            mu = arb(self.profile.sensitivity) / arb(self.profile.scale)
            first_term = normal_cdf(mu / 2 - eps / mu)
            second_term = scaled_normal_tail(eps, mu / 2 + eps / mu)
            return first_term - second_term
        if self.d == 1:
            s, distance = self._parameters()
            return self._one_dimensional_delta(s, distance, eps)

        upper_tail = _TailIntegral(self, eps, log_guess, tolerance, is_upper=True)
        lower_tail = _TailIntegral(
            self, -eps, log_guess - float(eps), tolerance, is_upper=False
        )
        return upper_tail.probability() - eps.exp() * lower_tail.probability()

    def _one_dimensional_delta(self, s: arb, D: arb, eps: arb) -> arb:
        """Return δ(ε) on the line or on the circle of circumference 2π, in closed form.

        Let y be the signed distance of an output from the first center η₁, so that the
        second center η₂ is at y = D. The privacy loss exceeds ε on an arc
        −r_b < y < y_a, and is below −ε on the mirror image of that arc. With the scale
        s and the far distance D′ = 2π − D, the ends of the arc are

            (Laplace)   y_a = (D − s·ε)/2,             r_b = π − (D + s·ε)/2,
            (Gaussian)  y_a = (D² − 2s²ε)/(2D),        r_b = (D′² − 2s²ε)/(2D′).

        δ(ε) is the probability of the arc for noise about η₁, less e^ε times that for
        noise about η₂. Probabilities for noise about η₂ are multiplied by e^ε before
        differences are formed, because the other order would lose all digits.

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
        # Laplace noise: the probabilities are exponentials.
        pi = arb.pi()
        if self.kind == "laplace" and self.k == 0:
            return 1 - ((eps - D / s) / 2).exp()
        if self.kind == "laplace":
            # Here y_a and r_b are in units of s.
            y_a = (D / s - eps) / 2
            r_b = pi / s - (D / s + eps) / 2
            return (1 - (-y_a).exp()) * (1 - (-r_b).exp()) / (1 - (-pi / s).exp())

        # Gaussian noise: the ends of the arc, and its probability about η₁.
        far_distance = 2 * pi - D  # from η₁ to η₂ the long way round
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

    # ---- where to integrate

    def _find_density_support(self, depth: float) -> tuple[float, float]:
        """Return radii between which the density ρ of the radius is not negligible.

        The radius is the distance of an output from the center of the noise. The
        density exceeds e^−depth of its peak only between the two returned radii. They
        are found by moving away from the peak in steps of a factor of 1.25. The result
        is only a suggestion, computed in floats: `_TailIntegral` bounds the mass of ρ
        outside of it rigorously.

        Parameters
        ----------
        depth : float
            The drop of log ρ from its peak at which the interval ends.

        Returns
        -------
        start, end : float
            The ends of the interval.
        """
        law = self._law
        mode = law.mode

        def is_above_depth(offset: float) -> bool:
            """Return whether ρ(mode + offset) is above e^−depth of its peak."""
            return float(law.log_rho(np.array([offset]))[0]) > -depth

        # Below the mode. A start very close to 0 is replaced by 0.
        offset_below = law.width
        while mode - offset_below > 0 and is_above_depth(-offset_below):
            offset_below *= _OFFSET_FACTOR
        start = mode - offset_below
        if not start > _SMALLEST_START * mode:
            start = 0.0

        # Above the mode, up to the diameter of the space.
        diameter = math.pi / self.n_lifts if self.k == 1 else math.inf
        largest_offset = diameter - mode
        offset_above = law.width
        while offset_above < largest_offset and is_above_depth(offset_above):
            offset_above *= _OFFSET_FACTOR
        end = mode + offset_above if offset_above < largest_offset else diameter
        return start, end

    def _level_radii(self, t: arb) -> _LevelRadii:
        """Return the radii between which the privacy loss L takes the value t.

        A radius is the distance from the first center of the noise. Outside of these
        radii, L is above t in all directions or below t in all directions. With the
        noise scale s, the distance D of the two centers and D′ = 2·diameter − D, the
        two radii are

            (D − st)/2          and  (D′ − st)/2             for the Laplace law,
            |D² − 2s²t|/2D      and  (D′² − 2s²t)/2D′        for the Gaussian.

        On a space that is not compact the second one is infinite. Below the first one,
        L >= t in all directions if D² > 2s²t (always for the Laplace law), and in none
        otherwise.

        Parameters
        ----------
        t : arb
            A value of the privacy loss.

        Returns
        -------
        _LevelRadii
            The two radii as balls, and whether the loss at the first center exceeds t.
        """
        s, distance = self._parameters()
        diameter = self._diameter()
        is_compact = self.k == 1
        high = arb.pos_inf()
        if self.kind == "laplace":
            if is_compact:
                high = diameter - (distance + s * t) / 2
            return _LevelRadii((distance - s * t) / 2, high, center_exceeds=True)

        # For Gaussian noise, the sign of D² − 2s²t decides whether L >= t at the
        # center.
        signed_low = (distance * distance - 2 * s * s * t) / (2 * distance)
        if is_compact:
            far_distance = 2 * diameter - distance
            high = (far_distance * far_distance - 2 * s * s * t) / (2 * far_distance)
        if signed_low > 0:
            return _LevelRadii(signed_low, high, center_exceeds=True)
        return _LevelRadii(abs(signed_low), high, center_exceeds=False)


class _TailIntegral:
    """Computes a ball around P₁(L >= t) or P₁(L <= t), the upper or lower tail of L.

    L is the privacy loss and P₁ the law of the noise about the first center η₁. The
    probability is ∫ρ(r)·F(r) dr / ∫ρ. Here ρ is the density of the radius r, which is
    the distance of an output from η₁. F(r) is the fraction of directions at the radius
    r in which L >= t (or L <= t).

    Parameters
    ----------
    enclosure : DeltaEnclosure
        The noise and the space.
    t : arb
        The value of the loss at which the tail begins.
    log_guess : float
        An approximation of the logarithm of the probability, from which absolute
        tolerances follow.
    relative_tolerance : float
        The relative error that the integrals may have.
    is_upper : bool
        Whether P₁(L >= t) is wanted, or P₁(L <= t).
    """

    def __init__(
        self,
        enclosure: DeltaEnclosure,
        t: arb,
        log_guess: float,
        relative_tolerance: float,
        *,
        is_upper: bool,
    ) -> None:
        """Choose the interval of integration, and compute what is equal at all radii.

        Parameters
        ----------
        enclosure : DeltaEnclosure
            The noise and the space.
        t : arb
            The value of the privacy loss at which the tail begins.
        log_guess : float
            An approximation of the logarithm of the probability.
        relative_tolerance : float
            The relative error that the integrals may have.
        is_upper : bool
            Whether the upper tail P₁(L >= t) is wanted, or P₁(L <= t).
        """
        self.enclosure = enclosure
        self.t = t
        self.is_upper = is_upper
        self.k = enclosure.k
        self.n_lifts = enclosure.n_lifts
        self.is_laplace = enclosure.kind == "laplace"
        self.s, self.distance = enclosure._parameters()

        # The interval of integration, called the window.
        law = enclosure._law
        self.mode = arb(law.mode)
        start, end = enclosure._find_density_support(_DENSITY_DEPTH - log_guess)
        self.start = start
        self.end = end
        # On a sphere the support of the density ends at the diameter.
        self.reaches_diameter = self.k == 1 and end >= math.pi / self.n_lifts
        end_ball = enclosure._diameter() if self.reaches_diameter else arb(end)
        self.window = (arb(start), end_ball)

        # Errors that are allowed in the two integrals: a fraction of their approximate
        # values, since the density is divided by its peak.
        peak_width = float(law.width)
        self.tolerance = arb(log_guess).exp() * peak_width * relative_tolerance
        self.mass_tolerance = arb(peak_width * relative_tolerance)

        # Each integral evaluates its integrand at hundreds of radii, so that everything
        # that does not depend on the radius is computed once. On the level L = t the
        # distance b from η₂ is r + st (Laplace) or √(r² + 2s²t) (Gaussian).
        # With the distance D of the centers, `half_sum` and `half_difference` are
        # (D + st)/2 and (D − st)/2.
        self.sn_mode = sn(self.k, acb(self.mode))
        self.sn_distance = sn(self.k, acb(self.distance))
        self.two_s_square = 2 * self.s * self.s
        self.scaled_level = self.s * t
        self.scaled_square_level = self.two_s_square * t
        self.half_difference = acb(self.distance - self.scaled_level) / 2
        self.half_sum = acb(self.distance + self.scaled_level) / 2
        if self.is_laplace:
            sn_half_difference = sn(self.k, self.half_difference)
            self.sn_ratio_of_difference = sn_half_difference / self.sn_distance
            self.sn_ratio_of_sum = sn(self.k, self.half_sum) / self.sn_distance
        self.full_sine_integral = sine_integral(
            enclosure.d - 2, acb(1), acb(0), False
        ).real

    # ---- the radial density

    def _rho(self, r: acb, sn_r: acb | None = None) -> acb:
        """Return ρ(r)/ρ(m), the density of the radius relative to its peak.

        The radius r is the distance from the first noise center, and m the radius at
        which the density ρ is largest. The ratio is

            weight(r)/weight(m)·(sn r/sn m)^{d−1}

        with the weight e^{−r/s} for Laplace and e^{−r²/2s²} for Gaussian noise of scale
        s in dimension d. The function sn is sinh, the identity or sin for the curvature
        −1, 0 or 1.

        Parameters
        ----------
        r : acb
            A ball of radii.
        sn_r : acb, optional
            sn(r), if the caller has computed it already.

        Returns
        -------
        acb
            A ball around the ratio.
        """
        if self.is_laplace:
            log_weight = (self.mode - r) / self.s
        else:
            log_weight = (self.mode - r) * (self.mode + r) / self.two_s_square
        sn_r = sn(self.k, r) if sn_r is None else sn_r
        return log_weight.exp() * (sn_r / self.sn_mode) ** (self.enclosure.d - 1)

    def _rho_integrand(self, r: acb, analytic: bool) -> acb:
        """Return ρ(r)/ρ(m) when Arb's quadrature asks for it.

        ρ is the density of the distance r from the first noise center, and m its mode.
        The quadrature passes a second argument, which does not matter here.

        Parameters
        ----------
        r : acb
            A ball of radii.
        analytic : bool
            Not used: the ratio is analytic everywhere.

        Returns
        -------
        acb
            A ball around the ratio.
        """
        return self._rho(r)

    def _log_slope(self, r: arb) -> arb:
        """Return (log ρ)′(r), the slope of the log density of the radius r.

        r is the distance from the first noise center. With the scale s and the
        dimension d, the slope is (d−1)·sn′(r)/sn(r) − r/s² (Gaussian)
        or (d−1)·sn′(r)/sn(r) − 1/s (Laplace), where sn is sinh, the identity or sin for
        the curvature −1, 0 or 1.

        Parameters
        ----------
        r : arb
            A ball of radii.

        Returns
        -------
        arb
            A ball around the slope.
        """
        weight_slope = 1 / self.s if self.is_laplace else r / (self.s * self.s)
        return (self.enclosure.d - 1) * log_derivative_of_sn(self.k, r) - weight_slope

    def _mass_outside(self) -> arb:
        """Return an upper bound on the mass of ρ beyond the interval of integration.

        ρ is the density of the distance from the first noise center. The mass is
        relative to ρ(m), where m is the mode of ρ. Since log ρ is concave, the integral
        of ρ beyond a radius r, at which log ρ has the slope a, is at most ρ(r)/|a|.

        Returns
        -------
        arb
            The bound; infinity if ρ does not decrease outward at an end of the
            interval.
        """
        mass_bound = arb(0)

        # `_rho` takes and returns complex balls, because Arb's quadrature needs them.
        # Below the interval, log ρ must increase.
        if self.start > 0:
            slope = self._log_slope(arb(self.start))
            density = self._rho(acb(self.start)).real
            mass_bound += (density / slope).upper() if slope > 0 else arb.pos_inf()

        # Beyond the interval, log ρ must decrease.
        if not self.reaches_diameter:
            slope = self._log_slope(arb(self.end))
            density = self._rho(acb(self.end)).real
            mass_bound += (density / -slope).upper() if slope < 0 else arb.pos_inf()
        return mass_bound

    # ---- the fraction of directions in which the loss is in the tail

    def _squared_half_angle_functions(
        self, r: acb, sn_r: acb, analytic: bool, is_far: bool
    ) -> tuple[acb, acb]:
        """Return cos²(φ/2) and sin²(φ/2) of the angle φ at which the privacy loss is t.

        φ is the angle, seen from the first center, between the second center η₂ and a
        point at the distance r from the first center. Let D be the distance of the
        centers. The loss is t at the distance b = r + st (Laplace) or √(r² + 2s²t)
        (Gaussian) from η₂. The law of cosines in half angles loses no digits:

            cos²(φ/2) = sn((r+D−b)/2)·sn((r+D+b)/2) / (sn r·sn D),
            sin²(φ/2) = sn((b−r+D)/2)·sn((b+r−D)/2) / (sn r·sn D),

        where sn is sinh, the identity or sin for the curvature −1, 0 or 1.

        Parameters
        ----------
        r : acb
            The radius, or a ball of radii.
        sn_r : acb
            sn(r).
        analytic : bool
            Whether the result must not be finite unless it is analytic on all of r.
        is_far : bool
            False on a sphere and on spaces of curvature <= 0. A point η₂ of a
            projective space is a pair of opposite points of the sphere. True if φ is
            the angle to the farther one of them, whose distance is π − b.

        Returns
        -------
        cos_square, sin_square : acb
            The two squares, each to full relative precision.
        """
        k = self.k
        # For Laplace noise b − r = st is constant, so two of the four factors are too.
        if self.is_laplace and not is_far:
            cos_square = self.sn_ratio_of_difference * sn(k, r + self.half_sum) / sn_r
            sin_square = self.sn_ratio_of_sum * sn(k, r - self.half_difference) / sn_r
            return cos_square, sin_square

        # The distance b from η₂, or π − b from its far lift, and b − r.
        if self.is_laplace:
            b = r + self.scaled_level
        else:
            b = (r * r + self.scaled_square_level).sqrt(analytic=analytic)
        if is_far:
            b = arb.pi() - b
            b_minus_r = b - r
        else:
            # b² − r² is known exactly, so this quotient avoids cancellation.
            b_minus_r = self.scaled_square_level / (b + r)

        D = self.distance
        denominator = sn_r * self.sn_distance
        cos_square = sn(k, (D - b_minus_r) / 2) * sn(k, (r + D + b) / 2) / denominator
        sin_square = sn(k, (D + b_minus_r) / 2) * sn(k, (b + r - D) / 2) / denominator
        return cos_square, sin_square

    def _fraction_integrand(self, r: acb, analytic: bool, is_far: bool = False) -> acb:
        """Return ρ(r)/ρ(m) times the fraction of directions in the tail of the loss.

        ρ is the density of the distance r from the first noise center, and m its mode.
        A direction counts if a point at the radius r in this direction has a privacy
        loss in the tail that is integrated. Let d be the dimension, n = d − 2 and φ the
        angle at which the loss is t. The fraction is J_n(cos φ)/J_n(1), where J_n(cos
        φ) = ∫_φ^π sin^n (`sine_integral`). If the ball contains radii at which there is
        no such angle, the fraction is enclosed by the interval [0, 1].

        Parameters
        ----------
        r : acb
            The radius, or a ball of radii.
        analytic : bool
            Whether the result must not be finite unless it is analytic on all of r.
        is_far : bool
            False on a sphere and on spaces of curvature <= 0. A point of a projective
            space is a pair of opposite points of the sphere. True if the angle is
            measured to the farther one of the two points that are the second center.

        Returns
        -------
        acb
            A ball around the product.
        """
        # Compute the angle φ at which the loss is t, or its supplement.
        sn_r = sn(self.k, r)
        cos_square, sin_square = self._squared_half_angle_functions(
            r, sn_r, analytic, is_far
        )
        if not (self.is_upper or is_far):  # the complement: angles above φ, not below
            cos_square, sin_square = sin_square, cos_square

        # At some of these radii there is no such angle: the fraction is in [0, 1].
        angle_exists = cos_square.real > 0 and sin_square.real > 0
        if not analytic and not angle_exists:
            zero_to_one = arb(0.5, 0.5)  # midpoint and radius
            return self._rho(r, sn_r) * acb(zero_to_one)

        # Otherwise the fraction is J_n(cos φ)/J_n(1).
        angle_integral = sine_integral(
            self.enclosure.d - 2, cos_square, sin_square, analytic
        )
        return self._rho(r, sn_r) * angle_integral / self.full_sine_integral

    def _far_integrand(self, r: acb, analytic: bool) -> acb:
        """Return ρ(r)/ρ(m) times the fraction of directions close to the far lift.

        This is for projective spaces. ρ is the density of the distance r from the first
        noise center, and m its mode. Above the second center there are two opposite
        points of the sphere; the farther one is its far lift. The directions are those
        in which the distance from the far lift is at most b, the distance at which the
        loss is t.

        Parameters
        ----------
        r : acb
            The radius, or a ball of radii.
        analytic : bool
            Whether the result must not be finite unless it is analytic on all of r.

        Returns
        -------
        acb
            A ball around the product.
        """
        return self._fraction_integrand(r, analytic, is_far=True)

    # ---- the probability

    def probability(self) -> arb:
        """Return a ball around P₁(L >= t), or around P₁(L <= t) for a lower tail.

        L is the privacy loss. The probability is ∫ρ·F/∫ρ, integrated over the distance
        r from the first noise center: ρ is the density of r, and F the fraction of
        directions in which the loss is in the tail. F is 0 or 1 below a radius `low`,
        varies up to a radius `high`, and is 0 or 1 again beyond it. Both integrals run
        over an interval, the window. The mass outside of it is enclosed by a ball from
        0 to an upper bound.

        Each range of radii must be counted once, and a ball that cannot be ordered must
        widen the result (`_integrate`). tests/privacy/test_certify.py compares the
        balls with independent integrals.

        Returns
        -------
        arb
            A ball that contains the probability.
        """
        # The whole mass ∫ρ, in the window and outside of it.
        mass_outside = arb(0).union(self._mass_outside())
        mass_in_window = enclose_integral(
            self._rho_integrand, *self.window, tolerance=self.mass_tolerance
        )
        mass = mass_in_window + mass_outside

        # The mass of the tail, ∫ρ·F: first what two lifts change.
        low, high, center_exceeds = self.enclosure._level_radii(self.t)
        tail_mass = arb(0)
        is_projective = self.n_lifts == 2
        if is_projective:
            # The second center is a pair of opposite points of the sphere. From the
            # radius `high` on, the farther one is in some directions within the
            # distance at which the loss is t.
            last_radius = self._last_radius()
            mass_near_far_point = self._integrate(
                self._far_integrand, high, last_radius
            )
            tail_mass = -mass_near_far_point if self.is_upper else mass_near_far_point
            high = last_radius

        # Then the three ranges of radii. Below `low` the loss is in the tail in every
        # direction or in none.
        if center_exceeds == self.is_upper:
            tail_mass += self._integrate(self._rho_integrand, self.window[0], low)
        # On a sphere the loss is in the lower tail in every direction above `high`.
        if self.k == 1 and not self.is_upper and not is_projective:
            tail_mass += self._integrate(self._rho_integrand, high, self.window[1])
        # Between `low` and `high`, in some directions.
        tail_mass += self._integrate(self._fraction_integrand, low, high)
        return (tail_mass + mass_outside) / mass

    def _last_radius(self) -> arb:
        """Return the radius up to which directions are integrated, on projective space.

        The radius is the distance from the first noise center, and L the privacy loss.
        For the tail L >= t it is the one at which only points a diameter away from the
        second center have the loss t. For the tail L <= t it is the end of the interval
        of integration.

        Returns
        -------
        arb
            A ball around the radius.
        """
        if not self.is_upper:
            return self.window[1]

        diameter = self.enclosure._diameter()
        if self.is_laplace:
            return diameter - self.s * self.t
        return (diameter * diameter - 2 * self.s * self.s * self.t).sqrt()

    def _integrate(self, integrand: Integrand, start: arb, stop: arb) -> arb:
        """Return a ball around an integral over a range of radii.

        Only the part of the range inside the window is integrated: the interval on
        which the density of the radius is not negligible. The ends are balls. If two of
        them overlap, it is not known which end is larger. The error that this can cause
        is at most (length of the overlap)·(largest value there), and the result is
        widened by it.

        Dropping the error term would make the result invalid.

        Parameters
        ----------
        integrand : callable
            A function of a ball of radii and a flag. If the flag is set, the result
            must not be finite unless the function is analytic on the ball.
        start, stop : arb
            The ends of the range.

        Returns
        -------
        arb
            A ball that contains the integral; 0 if the range lies outside the window.
        """
        # The part of the range inside the window.
        window_start, window_end = self.window
        low = start if start > window_start else window_start
        high = stop if stop < window_end else window_end

        # The error from ends that cannot be ordered.
        error = arb(0)
        pairs_of_ends = ((start, window_start), (stop, window_end), (low, high))
        for one_end, other_end in pairs_of_ends:
            if one_end.overlaps(other_end):
                overlap = acb(one_end.union(other_end))
                largest_value = integrand(overlap, False).abs_upper()
                error = error + (one_end - other_end).abs_upper() * largest_value

        integral = arb(0)
        if low < high:
            integral = enclose_integral(integrand, low, high, self.tolerance)
        return integral + arb(0, error.abs_upper())


# ---- the functions that enclosures are made of


def normal_cdf(x: arb) -> arb:
    """Return the normal distribution function Φ(x) = erfc(−x/√2)/2."""
    return (-x / arb(2).sqrt()).erfc() / 2


def scaled_normal_tail(eps: arb, z: arb) -> arb:
    """Return e^ε·Φ(−z) for z > 0, without computing the large number e^ε.

    Φ is the normal distribution function. The result is computed as the product of
    e^{ε − z²/2} and e^{z²/2}·Φ(−z). For z >= 10⁶ the second factor is known to lie
    between z/(1+z²) and 1/z, divided by √(2π).

    Parameters
    ----------
    eps, z : arb
        ε and z > 0, as balls.

    Returns
    -------
    arb
        A ball around e^ε·Φ(−z).
    """
    first_factor = (eps - z * z / 2).exp()
    if z < _LARGE_Z:
        return first_factor * (z * z / 2).exp() * normal_cdf(-z)
    mills_ratio = (z / (1 + z * z)).union(1 / z)  # Φ(−z)/Φ′(z)
    return first_factor * mills_ratio / (2 * arb.pi()).sqrt()


def enclose_integral(integrand: Integrand, a: arb, b: arb, tolerance: arb) -> arb:
    """Return a ball around the integral of a function from a to b.

    It is computed by Arb's adaptive Gauss–Legendre quadrature, whose error bound is
    rigorous.

    Parameters
    ----------
    integrand : callable
        A function of a ball r and a flag. If the flag is set, the result must not be
        finite unless the function is analytic on r.
    a, b : arb
        The ends of the interval.
    tolerance : arb
        The absolute error to aim for. The ball is valid even if it is not reached.

    Returns
    -------
    arb
        A ball that contains the integral.
    """
    # Three fifths of the bits of the current precision: the others are for rounding
    # errors.
    relative_tolerance = arb(2) ** (-(3 * ctx.prec) // 5)
    return acb.integral(
        integrand,
        acb(a),
        acb(b),
        abs_tol=tolerance,
        rel_tol=relative_tolerance,
        eval_limit=_MOST_EVALUATIONS,
        depth_limit=_MOST_HALVINGS,
    ).real


def sn(k: int, r: acb) -> acb:
    """Return sn_k(r): r, sin r or sinh r for the curvature k = 0, 1 or −1.

    Parameters
    ----------
    k : int
        The sign of the curvature: −1, 0 or 1.
    r : acb
        A radius, or a ball of radii.

    Returns
    -------
    acb
        A ball around sn_k(r).
    """
    if k == 0:
        return r
    return r.sin() if k == 1 else r.sinh()


def log_derivative_of_sn(k: int, r: arb) -> arb:
    """Return sn_k′(r)/sn_k(r): 1/r, cot r or coth r for k = 0, 1 or −1.

    Parameters
    ----------
    k : int
        The sign of the curvature: −1, 0 or 1.
    r : arb
        A radius > 0.

    Returns
    -------
    arb
        A ball around sn_k′(r)/sn_k(r).
    """
    if k == 0:
        return 1 / r
    return r.cot() if k == 1 else r.coth()


def sine_integral(m: int, x: acb, y: acb, analytic: bool) -> acb:
    """Return J_m = ∫_φ^π sin^m, given x = cos²(φ/2) and y = sin²(φ/2).

    J_m is proportional to the measure of the directions that make an angle of at least
    φ with a given one, in dimension m + 2. With c = cos φ, integration by parts gives

        J_m = c·(1−c²)^{(m−1)/2}/m + (m−1)/m·J_{m−2},    J₀ = π − φ,    J₁ = 1 + c.

    So J_m is a multiple of J₀ or J₁, plus c times a polynomial in 1 − c² = 4xy
    (`sine_recurrence`). It is analytic if 4xy avoids (−∞, 0], which the square root
    verifies. This covers arctan√(x/y) too: its branch cut is at y in (−∞, 0], where
    x = 1 − y makes 4xy negative.

    If `analytic` is set, the result must not be finite across a branch cut, or the
    quadrature would not be rigorous.

    Parameters
    ----------
    m : int
        The power, m >= 0.
    x, y : acb
        Two numbers with x + y = 1, both to full relative precision.
    analytic : bool
        Whether the result must not be finite unless it is analytic on the given balls.

    Returns
    -------
    acb
        A ball around J_m.
    """
    if m == 1:
        return 2 * x
    c = x - y
    sin_square = 4 * x * y  # sin²φ = 1 − c²
    polynomial, factor = sine_recurrence(m, ctx.prec)
    is_odd = m % 2 == 1
    if is_odd:
        return factor * 2 * x + c * sin_square * polynomial(sin_square)

    # π − φ = 2·arctan√(x/y), or π − 2·arctan√(y/x) if that is farther from the pole.
    sine = sin_square.sqrt(analytic=analytic)
    if abs(x) > abs(y):
        angle = acb(arb.pi()) - 2 * (sine / (2 * x)).atan()
    else:
        angle = 2 * (sine / (2 * y)).atan()
    if m == 0:
        return angle
    return factor * angle + c * sine * polynomial(sin_square)


@lru_cache(maxsize=16)
def sine_recurrence(m: int, precision: int) -> tuple[acb_poly, arb]:
    """Return the polynomial and the factor in the closed form of J_m = ∫_φ^π sin^m.

    The closed form makes the fraction of directions in a tail of the privacy loss cheap
    to enclose. It follows from integration by parts:

        J_m = factor·J₀ + cos φ·sin φ·polynomial(sin²φ)     for even m,
        J_m = factor·J₁ + cos φ·sin²φ·polynomial(sin²φ)     for odd m.

    Parameters
    ----------
    m : int
        The power.
    precision : int
        The current precision of the arithmetic in bits (`ctx.prec`). The body computes
        at that precision without being told. The argument is here for the cache only,
        which must not return a result of another precision.

    Returns
    -------
    polynomial : acb_poly
        The polynomial in sin²φ.
    factor : arb
        The product of (j − 1)/j over j = m, m − 2, … down to 2 or 3.
    """
    factor = arb(1)
    coefficients = []  # from the highest power to the lowest
    for j in range(m, 1, -2):
        coefficients.append(factor / j)
        factor = factor * (j - 1) / j
    return acb_poly(coefficients[::-1]), factor
