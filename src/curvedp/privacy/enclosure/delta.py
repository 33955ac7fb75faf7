"""Rigorous enclosures of δ(ε) on spaces of constant curvature, in ball arithmetic.

Symbols as in `loss.space_form`; J_m(c) = ∫_{arccos c}^π sin^m with m = d−2, and c_t(r)
is the cosine of the angle at which the level L = t is met at radius r. Then
(docs/exact-profiles.md, "Certified")

    δ(ε) = P₁(L >= ε) − e^ε·P₁(L <= −ε),
    P₁(L >= t) = ∫ρ(r)·J_m(c_t(r)) dr / (J_m(1)·∫ρ).

On a real projective space, such as the rotations of space, L >= t where both lifts of
the other center are farther away than the level. Everything is computed with Arb's
balls (python-flint). The float path suggests windows and tolerances: a bad suggestion
costs time, never validity.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from flint import acb, acb_poly, arb, ctx

from curvedp import _validate
from curvedp.errors import NotResolved
from curvedp.numerics.enclosures import precision
from curvedp.privacy.guarantees.gaussian import gdp_log_delta
from curvedp.privacy.loss.space_form import SpaceFormLoss
from curvedp.privacy.profiles.constant_curvature import (
    RadialProfile,
    constant_curvature_profile,
)
from curvedp.privacy.profiles.projective import ProjectiveProfile

# An integrand for Arb: a function of r and of whether it must be analytic there.
Integrand = Callable[[acb, bool], acb]

# Enclosures are widened by it, a little more than the float path's own margin.
OUTWARD_MARGIN = 3e-9
_GOOD_RADIUS = 2e-8  # the relative radius of an acceptable ball
# At an ε so many times the last one that floats resolve, no integral is tried.
_FAR_FACTOR = 1e6
_FIRST_BITS = 96
_MOST_BITS = 6144
_MOST_BITS_OF_CLOSED_FORMS = 200_000  # they are cheap
_FIRST_TOLERANCE = 1e-12


def certified_delta(
    kind: Any, curvature: float, dim: int, scale: float, sensitivity: float, eps: float
) -> tuple[float, float]:
    """Return rigorous bounds (lower, upper) on δ(ε), at most 1e-6 apart relative to δ.

    The true δ(ε) lies in between, for the worst pair of centers at distance at most
    `sensitivity`: the pair at exactly that distance (docs/exact-profiles.md, Theorem
    P1).

    Parameters
    ----------
    kind : str
        'gaussian' or 'laplace'.
    curvature, dim : float, int
        Of the space.
    scale, sensitivity : float
        Of the noise, and the largest distance of two centers.
    eps : float
        Where δ is wanted.

    Examples
    --------
    >>> lower, upper = certified_delta("gaussian", 1.0, 1, 2.0, 1.0, 0.3)
    >>> lower <= 0.04225571 <= upper
    True
    """
    profile = constant_curvature_profile(kind, curvature, dim, scale, sensitivity)
    return _float_bounds(profile, eps)


def certified_projective_delta(
    kind: Any, curvature: float, dim: int, scale: float, sensitivity: float, eps: float
) -> tuple[float, float]:
    """Return `certified_delta` on the real projective space of this dimension.

    `curvature` is that of the space; Rotations(3) has the dimension 3 and curvature ¼.
    """
    profile = ProjectiveProfile(kind, "real", dim, curvature, scale, sensitivity)
    return _float_bounds(profile, eps)


def _float_bounds(profile: RadialProfile, eps: float) -> tuple[float, float]:
    """Return floats around δ(ε) of a profile."""
    ball = DeltaEnclosure(profile).delta(_validate.nonnegative("eps", eps))
    lower, upper = outward_floats(ball)
    return lower, min(upper, 1.0)


def outward_floats(ball: arb) -> tuple[float, float]:
    """Return floats around a ball of numbers >= 0, widened by `OUTWARD_MARGIN`."""
    low = float_beyond(ball.lower(), -1) * (1 - OUTWARD_MARGIN)
    high = float_beyond(ball.upper(), 1) * (1 + OUTWARD_MARGIN)
    low = math.nextafter(low, -math.inf)
    above_high = math.nextafter(high, math.inf)
    return max(low, 0.0), min(above_high, max(1.0, high))


def float_beyond(x: arb, direction: int) -> float:
    """Return an exact ball as a float, rounded in the given direction, ±1."""
    return math.nextafter(float(x), direction * math.inf)


class _Parameters(NamedTuple):
    """The noise in units in which the curvature is ±1, as balls."""

    s: arb  # scale
    distance: arb  # D


class _LevelRadii(NamedTuple):
    """The radii between which the level L = t is met in some direction."""

    low: arb
    high: arb
    center_exceeds: bool  # whether L >= t in all directions below `low`


class DeltaEnclosure:
    """Enclosures of δ of one profile; what was computed at an ε is kept.

    Parameters
    ----------
    profile : RadialProfile
        An isotropic law on a space of constant curvature or on a real projective space.
    """

    # Logarithm of δ below which only an upper bound is wanted.
    smallest_log = math.log(1e-300)

    def __init__(self, profile: Any) -> None:
        """Read the parameters of the law off its profile."""
        self.profile = profile
        self.kind = profile.kind
        self.d = profile.dim
        # How many points of the sphere lie over one point of the space.
        self.n_lifts = 2 if isinstance(profile, ProjectiveProfile) else 1
        sign = (profile.curvature > 0) - (profile.curvature < 0)
        self.k = sign if profile.dim > 1 else max(sign, 0)  # a line has no curvature
        self.known: dict[float, arb] = {}

    def delta(self, eps: float) -> arb:
        """Return a ball around δ(ε) of relative radius below 2e-8, or 0 where δ is 0.

        A δ below what floats resolve is only bounded from above. The precision is
        doubled until the ball is small enough.
        """
        if eps in self.known:
            return self.known[eps]
        if self._is_beyond_max_loss(eps):
            return arb(0)
        log_guess = self._log_guess(eps)
        is_tiny = log_guess <= self.smallest_log
        if is_tiny and not (self.profile.is_closed_form or self.d == 1):
            nearer = self._nearer_resolved_eps(eps)
            if eps > _FAR_FACTOR * nearer:
                # δ falls with ε: a bound there is one here.
                return arb(0).union(self.delta(nearer).upper())

        bits = _FIRST_BITS
        most_bits = _MOST_BITS if self.d > 1 else _MOST_BITS_OF_CLOSED_FORMS
        while bits <= most_bits:
            with precision(bits):
                tolerance = _FIRST_TOLERANCE * _FIRST_BITS / bits
                ball = self._delta_ball(arb(eps), log_guess, tolerance)
                if self._is_good(ball):
                    self.known[eps] = ball
                    return ball
                if is_tiny and ball.is_finite():
                    self.known[eps] = arb(0).union(ball.upper())
                    return self.known[eps]
            bits *= 2
        raise NotResolved("δ could not be enclosed")

    @staticmethod
    def _is_good(ball: arb) -> bool:
        """Say whether a ball is small beside its value, or exactly 0."""
        if ball.is_exact() and ball == 0:
            return True
        return bool(ball.lower() > 0 and ball.rad() < _GOOD_RADIUS * ball.lower())

    def _nearer_resolved_eps(self, eps: float) -> float:
        """Return an ε at which floats resolve δ, by halving; 0 if there is none."""
        nearer = eps
        while nearer > 0 and self._log_guess(nearer) <= self.smallest_log:
            nearer /= 2
        return nearer

    def _log_guess(self, eps: float) -> float:
        """Return log δ(ε) by the float path, or `smallest_log` where that is larger.

        It tells how small the integrals are, so that Arb is asked for enough digits. At
        an ε beyond all bounds the float may be no number; then δ is taken for tiny.
        """
        with np.errstate(all="ignore"):
            if self.profile.is_closed_form:
                guess = float(gdp_log_delta(self.profile.mu, eps))
            else:
                guess = float(self.profile.loss_table.log_delta(np.array([eps]))[0])
        return guess if guess > self.smallest_log else self.smallest_log

    def _is_beyond_max_loss(self, eps: float) -> bool:
        """Say whether ε is certainly at or above the largest loss."""
        s, distance = self._parameters()
        if self.kind == "laplace":
            return bool(arb(eps) >= distance / s)
        if self.k != 1:
            return False
        largest = distance * (2 * self._diameter() - distance) / (2 * s * s)
        return bool(arb(eps) >= largest)

    # ---- parameters as balls

    def _parameters(self) -> _Parameters:
        """Return scale and distance in units of curvature ±1.

        A distance that is a float next to π becomes the diameter.
        """
        root = arb(1)
        if self.profile.curvature and self.k:
            root = arb(abs(self.profile.curvature)).sqrt()
        distance = arb(self.profile.sensitivity) * root
        if self.k == 1 and not (self._diameter() > distance):
            distance = self._diameter()
        return _Parameters(arb(self.profile.scale) * root, distance)

    def _diameter(self) -> arb:
        """Return the diameter of a compact space."""
        return arb.pi() / self.n_lifts

    @property
    def _law(self) -> SpaceFormLoss:
        """The float path's law, which suggests windows."""
        law = self.profile.loss_law
        assert isinstance(law, SpaceFormLoss)
        return law

    # ---- δ

    def _delta_ball(self, eps: arb, log_guess: float, tolerance: float) -> arb:
        """Return a ball around δ(ε) at the present precision.

        Parameters
        ----------
        eps : arb
            ε.
        log_guess : float
            About log δ(ε).
        tolerance : float
            The relative error that integrals may have.
        """
        if self.profile.is_closed_form:
            mu = arb(self.profile.sensitivity) / arb(self.profile.scale)
            return normal_cdf(mu / 2 - eps / mu) - scaled_normal_tail(
                eps, mu / 2 + eps / mu
            )
        if self.d == 1:
            s, distance = self._parameters()
            return self._one_dimensional_delta(s, distance, eps)
        upper = _TailIntegral(self, eps, log_guess, tolerance, is_upper=True)
        lower = _TailIntegral(
            self, -eps, log_guess - float(eps), tolerance, is_upper=False
        )
        return upper.probability() - eps.exp() * lower.probability()

    def _one_dimensional_delta(self, s: arb, D: arb, eps: arb) -> arb:
        """Return δ(ε) on the line or circle by its closed form.

        The loss exceeds ε on −r_b < y < y_a, and is below −ε on the mirror image of
        that arc. Every e^ε is multiplied out: beside e^ε of some thousands no
        difference of probabilities keeps its digits.
        """
        if self.kind == "laplace" and self.k == 0:
            return 1 - ((eps - D / s) / 2).exp()
        pi = arb.pi()
        if self.kind == "laplace":
            y_a = (D / s - eps) / 2  # in units of s
            r_b = pi / s - (D / s + eps) / 2
            return (1 - (-y_a).exp()) * (1 - (-r_b).exp()) / (1 - (-pi / s).exp())

        far_distance = 2 * pi - D
        y_a = (D * D - 2 * s * s * eps) / (2 * D)
        r_b = (far_distance * far_distance - 2 * s * s * eps) / (2 * far_distance)
        mass = normal_cdf(pi / s) - normal_cdf(-pi / s)
        first = normal_cdf(y_a / s) - normal_cdf(-r_b / s)
        # Seen from η₂ the arc is −(r_b + D) < y < y_a − D, of which the part beyond −π
        # is met from the other side.
        second = (
            scaled_normal_tail(eps, (D - y_a) / s)
            + scaled_normal_tail(eps, (far_distance - r_b) / s)
            - 2 * scaled_normal_tail(eps, pi / s)
        )
        return (first - second) / mass

    # ---- windows and levels

    def _window(self, depth: float) -> tuple[float, float]:
        """Return floats around the radii where ρ is above e^−depth of its peak.

        A suggestion only: what lies outside is bounded separately.
        """
        law = self._law
        mode = law.mode
        left = law.width
        while mode - left > 0 and float(law.log_rho(np.array([-left]))[0]) > -depth:
            left *= 1.25
        start = mode - left if mode - left > 1e-3 * mode else 0.0

        diameter = math.pi / self.n_lifts if self.k == 1 else math.inf
        right = law.width
        while (
            right < diameter - mode
            and float(law.log_rho(np.array([right]))[0]) > -depth
        ):
            right *= 1.25
        end = mode + right if right < diameter - mode else diameter
        return start, end

    def _level_radii(self, t: arb) -> _LevelRadii:
        """Return the radii between which |c_t(r)| < 1."""
        s, distance = self._parameters()
        diameter = self._diameter()
        if self.kind == "laplace":
            high = arb.pos_inf()
            if self.k == 1:
                high = diameter - (distance + s * t) / 2
            return _LevelRadii((distance - s * t) / 2, high, True)

        low = (distance * distance - 2 * s * s * t) / (2 * distance)
        high = arb.pos_inf()
        if self.k == 1:
            far_distance = 2 * diameter - distance
            high = (far_distance * far_distance - 2 * s * s * t) / (2 * far_distance)
        if low > 0:
            return _LevelRadii(low, high, True)
        return _LevelRadii(abs(low), high, False)


class _TailIntegral:
    """One probability P₁(L >= t) or P₁(L <= t), as a radial integral in balls.

    Parameters
    ----------
    enclosure : DeltaEnclosure
        The law.
    t : arb
        The level.
    log_guess : float
        About the logarithm of the probability that matters.
    relative : float
        The relative error that the integrals may have.
    is_upper : bool
        Whether P₁(L >= t) is wanted, or P₁(L <= t).
    """

    def __init__(
        self,
        enclosure: DeltaEnclosure,
        t: arb,
        log_guess: float,
        relative: float,
        *,
        is_upper: bool,
    ) -> None:
        """Choose the window, and compute what no radius changes."""
        self.enclosure = enclosure
        self.t = t
        self.is_upper = is_upper
        self.k = enclosure.k
        self.n_lifts = enclosure.n_lifts
        self.is_laplace = enclosure.kind == "laplace"
        self.s, self.distance = enclosure._parameters()

        law = enclosure._law
        self.mode = arb(law.mode)
        start, end = enclosure._window(60.0 - log_guess)
        self.start = start
        self.end = end
        self.reaches_diameter = self.k == 1 and end >= math.pi / self.n_lifts
        top = enclosure._diameter() if self.reaches_diameter else arb(end)
        self.window = (arb(start), top)
        peak_width = float(law.width)
        self.tolerance = arb(log_guess).exp() * peak_width * relative
        self.mass_tolerance = arb(peak_width * relative)

        # What no radius changes is computed once: each integral asks hundreds of them.
        self.sn_mode = sn(self.k, acb(self.mode))
        self.sn_distance = sn(self.k, acb(self.distance))
        self.two_s_square = 2 * self.s * self.s
        self.level = self.s * t
        self.square_level = self.two_s_square * t
        self.half_less = acb(self.distance - self.level) / 2
        self.half_more = acb(self.distance + self.level) / 2
        if self.is_laplace:
            self.sn_less = sn(self.k, self.half_less) / self.sn_distance
            self.sn_more = sn(self.k, self.half_more) / self.sn_distance
        self.full_sine_integral = sine_integral(
            enclosure.d - 2, acb(1), acb(0), False
        ).real

    # ---- the radial density

    def _rho(self, r: acb, sn_r: acb | None = None) -> acb:
        """Return ρ(r)/ρ-scale = weight(r)/weight(m)·(sn r/sn m)^{d−1}."""
        if self.is_laplace:
            log_weight = (self.mode - r) / self.s
        else:
            log_weight = (self.mode - r) * (self.mode + r) / self.two_s_square
        sn_r = sn(self.k, r) if sn_r is None else sn_r
        return log_weight.exp() * (sn_r / self.sn_mode) ** (self.enclosure.d - 1)

    def _rho_integrand(self, r: acb, analytic: bool) -> acb:
        """Return ρ(r), which is analytic everywhere."""
        return self._rho(r)

    def _log_slope(self, r: arb) -> arb:
        """Return (log ρ)′(r)."""
        pull = 1 / self.s if self.is_laplace else r / (self.s * self.s)
        return (self.enclosure.d - 1) * ct(self.k, r) - pull

    def _mass_outside(self) -> arb:
        """Return an upper bound on ∫ρ outside the window.

        log ρ is concave, so beyond an end with the slope a the integral is at most
        ρ/|a|.
        """
        outside = arb(0)
        if self.start > 0:
            slope = self._log_slope(arb(self.start))
            density = self._rho(acb(self.start)).real
            outside += (density / slope).upper() if slope > 0 else arb.pos_inf()
        if not self.reaches_diameter:
            slope = self._log_slope(arb(self.end))
            density = self._rho(acb(self.end)).real
            outside += (density / -slope).upper() if slope < 0 else arb.pos_inf()
        return outside

    # ---- the share of directions

    def _half_angle_squares(
        self, r: acb, sn_r: acb, analytic: bool, is_far: bool
    ) -> tuple[acb, acb]:
        """Return (1 + c_t)/2 and (1 − c_t)/2 by half angles: nothing cancels.

        With balls, too, this keeps their digits. A far lift is π − b away.
        """
        k = self.k
        if self.is_laplace and not is_far:
            x = self.sn_less * sn(k, r + self.half_more) / sn_r
            y = self.sn_more * sn(k, r - self.half_less) / sn_r
            return x, y

        if self.is_laplace:
            b = r + self.level
        else:
            b = (r * r + self.square_level).sqrt(analytic=analytic)
        if is_far:
            b = arb.pi() - b
            b_minus_r = b - r
        else:
            b_minus_r = self.square_level / (b + r)
        D = self.distance
        denominator = sn_r * self.sn_distance
        x = sn(k, (D - b_minus_r) / 2) * sn(k, (r + D + b) / 2) / denominator
        y = sn(k, (D + b_minus_r) / 2) * sn(k, (b + r - D) / 2) / denominator
        return x, y

    def _share_integrand(self, r: acb, analytic: bool, is_far: bool = False) -> acb:
        """Return ρ(r) times the share of directions on the wanted side of the level.

        A real ball that reaches over the end of the range has a share in [0, 1].
        """
        sn_r = sn(self.k, r)
        x, y = self._half_angle_squares(r, sn_r, analytic, is_far)
        if not (self.is_upper or is_far):
            x, y = y, x
        if not analytic and not (x.real > 0 and y.real > 0):
            return self._rho(r, sn_r) * acb(arb(0.5, 0.5))
        share = sine_integral(self.enclosure.d - 2, x, y, analytic)
        return self._rho(r, sn_r) * share / self.full_sine_integral

    def _far_integrand(self, r: acb, analytic: bool) -> acb:
        """Return the integrand of the far lift on a projective space."""
        return self._share_integrand(r, analytic, is_far=True)

    # ---- the probability

    def probability(self) -> arb:
        """Return a ball around the probability."""
        outside = self._mass_outside()
        mass = enclose_integral(
            self._rho_integrand, *self.window, tolerance=self.mass_tolerance
        )
        mass = mass + arb(0).union(outside)

        low, high, center_exceeds = self.enclosure._level_radii(self.t)
        total = arb(0)
        if self.n_lifts == 2:  # the far lift counts from `high` on
            last = self._last_radius()
            far = self._between(self._far_integrand, high, last)
            total = -far if self.is_upper else far
            high = last
        # Below `low` every direction is on the wanted side or none; on the sphere
        # likewise above `high`, the other way round.
        if center_exceeds == self.is_upper:
            total += self._between(self._rho_integrand, self.window[0], low)
        if self.k == 1 and not self.is_upper and self.n_lifts == 1:
            total += self._between(self._rho_integrand, high, self.window[1])
        total += self._between(self._share_integrand, low, high)
        return (total + arb(0).union(outside)) / mass

    def _last_radius(self) -> arb:
        """Return the radius beyond which nothing is on the wanted side (two lifts)."""
        if not self.is_upper:
            return self.window[1]
        half = self.enclosure._diameter()
        if self.is_laplace:
            return half - self.s * self.t
        return (half * half - 2 * self.s * self.s * self.t).sqrt()

    def _between(self, integrand: Integrand, a: arb, b: arb) -> arb:
        """Return a ball around ∫ from a to b within the window.

        What two ends that overlap as balls leave open is enclosed.
        """
        low = a if a > self.window[0] else self.window[0]
        high = b if b < self.window[1] else self.window[1]
        slack = arb(0)
        for x, y in ((a, self.window[0]), (b, self.window[1]), (low, high)):
            if x.overlaps(y):
                largest = integrand(acb(x.union(y)), False).abs_upper()
                slack = slack + (x - y).abs_upper() * largest
        total = arb(0)
        if low < high:
            total = enclose_integral(integrand, low, high, self.tolerance)
        return total + arb(0, slack.abs_upper())


# ---- the functions that enclosures are made of


def normal_cdf(x: arb) -> arb:
    """Return Φ(x) = erfc(−x/√2)/2."""
    return (-x / arb(2).sqrt()).erfc() / 2


def scaled_normal_tail(eps: arb, z: arb) -> arb:
    """Return e^ε·Φ(−z), z > 0, without forming e^ε.

    It is e^{ε − z²/2} times e^{z²/2}·Φ(−z); far out the second factor lies between
    z/(1+z²) and 1/z, over √2π.
    """
    factor = (eps - z * z / 2).exp()
    if z < 1e6:
        return factor * (z * z / 2).exp() * normal_cdf(-z)
    return factor * (z / (1 + z * z)).union(1 / z) / (2 * arb.pi()).sqrt()


def enclose_integral(integrand: Integrand, a: arb, b: arb, tolerance: arb) -> arb:
    """Return a ball around ∫ from a to b, by Arb's adaptive quadrature."""
    relative_goal = arb(2) ** (-(3 * ctx.prec) // 5)
    return acb.integral(
        integrand,
        acb(a),
        acb(b),
        abs_tol=tolerance,
        rel_tol=relative_goal,
        eval_limit=200000,
        depth_limit=400,
    ).real


def sn(k: int, r: acb) -> acb:
    """Return sn_k(r): r, sin r or sinh r for the curvature k = 0, 1 or −1."""
    if k == 0:
        return r
    return r.sin() if k == 1 else r.sinh()


def ct(k: int, r: arb) -> arb:
    """Return sn_k′(r)/sn_k(r): 1/r, cot r or coth r for k = 0, 1 or −1."""
    if k == 0:
        return 1 / r
    return r.cot() if k == 1 else r.coth()


def sine_integral(m: int, x: acb, y: acb, analytic: bool) -> acb:
    """Return J_m = ∫_φ^π sin^m, given x = cos²(φ/2) and y = sin²(φ/2).

    With c = cos φ, J_m = c·(1−c²)^{(m−1)/2}/m + (m−1)/m·J_{m−2}, from J₀ = π − φ or J₁
    = 1 + c: a multiple of J₀ or J₁, and c times a polynomial in 1 − c² = 4xy
    (`sine_recurrence`). It is analytic while 4xy stays off (−∞, 0], which the square
    root verifies: the cut of arctan√(x/y) is y in (−∞, 0], where x = 1 − y makes 4xy
    negative too.

    Parameters
    ----------
    m : int
        The power, m >= 0.
    x, y : acb
        Complementary to 1, each with its own digits.
    analytic : bool
        Whether Arb must be told where the function is not analytic.
    """
    if m == 1:
        return 2 * x
    c = x - y
    square = 4 * x * y
    polynomial, factor = sine_recurrence(m, ctx.prec)
    if m % 2:
        return factor * 2 * x + c * square * polynomial(square)

    # π − φ = 2·arctan√(x/y), by whichever of √(x/y) and √(y/x) stays away from the
    # pole.
    root = square.sqrt(analytic=analytic)
    if abs(x) > abs(y):
        angle = acb(arb.pi()) - 2 * (root / (2 * x)).atan()
    else:
        angle = 2 * (root / (2 * y)).atan()
    if m == 0:
        return angle
    return factor * angle + c * root * polynomial(square)


@lru_cache(maxsize=16)
def sine_recurrence(m: int, precision: int) -> tuple[acb_poly, arb]:
    """Return the recurrence of J_m, summed up: (Σ a_i·(4xy)^i, ∏(j−1)/j).

    The result is cached for each precision at which it was computed.
    """
    factor = arb(1)
    coefficients = []
    for j in range(m, 1, -2):
        coefficients.append(factor / j)
        factor = factor * (j - 1) / j
    return acb_poly(coefficients[::-1]), factor
