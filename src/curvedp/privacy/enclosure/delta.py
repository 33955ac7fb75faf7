"""Rigorous enclosures of δ(ε) on spaces of constant curvature, in ball arithmetic (Arb, through python-flint).

With J_m(c) = ∫_{arccos c}^π sin^m, m = d−2, and c_t(r) the cosine of the angle at which the level L = t is met,

    δ(ε) = P₁(L >= ε) − e^ε·P₁(L <= −ε),     P₁(L >= t) = ∫ρ(r)·J_m(c_t(r)) dr / (J_m(1)·∫ρ)

(docs/exact-profiles.md, Certified). On a real projective space, such as the rotations of space, L >= t where both lifts of
the other center are farther away than the level. The float path suggests windows and tolerances: a bad one costs time, never
validity.
"""

import math
from functools import lru_cache
from typing import Any

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

WIDEN = 3e-9
_GOOD = 2e-8  # relative radius of an acceptable ball
_FAR = 1e6  # times the last ε that floats resolve: there no integral is tried


def certified_delta(
    kind: Any, curvature: float, dim: int, scale: float, sensitivity: float, eps: float
) -> tuple[float, float]:
    """(lower, upper): rigorous bounds on δ(eps), at most 1e-6 apart relative to δ.

    *Guarantees*: the true δ(eps) of the "gaussian" or "laplace" law lies in between, for the worst pair of centers at
    distance at most `sensitivity` (it is the pair at exactly that distance: docs/exact-profiles.md, Theorem 1).

    Parameters
    ----------
    kind, curvature, dim, scale, sensitivity : str, float, int, float, float
        Of the law and its space, and the largest distance of two centers.
    eps : float
        Where δ is asked.

    Examples
    --------
    >>> lower, upper = certified_delta("gaussian", 1.0, 1, 2.0, 1.0, 0.3)
    >>> lower <= 0.04225571 <= upper
    True
    """
    return _bounds(
        constant_curvature_profile(kind, curvature, dim, scale, sensitivity), eps
    )


def certified_projective_delta(
    kind: Any, curvature: float, dim: int, scale: float, sensitivity: float, eps: float
) -> tuple[float, float]:
    """The same on the real projective space of this dimension and curvature; Rotations(3) has 3 and ¼."""
    return _bounds(
        ProjectiveProfile(kind, "real", dim, curvature, scale, sensitivity), eps
    )


def _bounds(profile: RadialProfile, eps: float) -> tuple[float, float]:
    lower, upper = outward_floats(
        DeltaEnclosure(profile).delta(_validate.nonnegative("eps", eps))
    )
    return lower, min(upper, 1.0)


def outward_floats(ball: arb) -> tuple[float, float]:
    """Floats around the ball, a little wider than the float path's own margin."""
    low, high = (
        float_beyond(ball.lower(), -1) * (1 - WIDEN),
        float_beyond(ball.upper(), 1) * (1 + WIDEN),
    )
    return max(math.nextafter(low, -math.inf), 0.0), min(
        math.nextafter(high, math.inf), max(1.0, high)
    )


def float_beyond(x: arb, direction: int) -> float:
    """The point ball x as a float, rounded in the given direction."""
    value = float(x)
    return math.nextafter(value, direction * math.inf)


class DeltaEnclosure:
    """Certified δ of one profile; every ε shares the radial mass."""

    least_log = math.log(1e-300)  # smaller δ are bounded from above only

    def __init__(self, profile: Any) -> None:
        self.profile, self.kind, self.d = profile, profile.kind, profile.dim
        self.lifts = (
            2 if isinstance(profile, ProjectiveProfile) else 1
        )  # of a center, to the sphere
        self.k = (
            (profile.curvature > 0) - (profile.curvature < 0)
            if profile.dim > 1
            else min(profile.curvature > 0, 1)
        )
        self.cache: dict[float, arb] = {}

    def delta(self, eps: float) -> arb:
        """A ball around δ(eps) of relative radius below 2e-8, or around 0 where it is 0."""
        if eps in self.cache:
            return self.cache[eps]
        if self._beyond_cap(eps):
            return arb(0)
        guess = self._log_guess(eps)
        tiny = (
            guess <= self.least_log
        )  # below what floats resolve: only the upper end is wanted
        if tiny and not (self.profile.closed or self.d == 1):
            near = eps  # by halving, an ε at which floats resolve δ: as δ falls with ε, a bound there is one here
            while near > 0 and self._log_guess(near) <= self.least_log:
                near /= 2
            if eps > _FAR * near:
                return arb(0).union(self.delta(near).upper())
        bits, most = 96, 6144 if self.d > 1 else 200_000  # closed forms are cheap
        while bits <= most:
            with precision(bits):
                ball = self._delta(arb(eps), guess, 1e-12 * 96 / bits)
                good = (ball.lower() > 0 and ball.rad() < _GOOD * ball.lower()) or (
                    ball.is_exact() and ball == 0
                )
                if good or (
                    tiny and ball.is_finite()
                ):  # of a tiny δ any ball says how small it is
                    self.cache[eps] = ball if good else arb(0).union(ball.upper())
                    return self.cache[eps]
            bits *= 2
        raise NotResolved("δ could not be enclosed")

    def _log_guess(self, eps: float) -> float:
        """log δ(eps) by the float path: how small the integrals are, so that Arb is asked for enough digits."""
        with np.errstate(
            all="ignore"
        ):  # at an ε beyond all bounds it may be no number: then δ is taken for tiny
            if self.profile.closed:
                guess = float(gdp_log_delta(self.profile.mu, eps))
            else:
                guess = float(self.profile._table.log_delta(np.array([eps]))[0])
        return guess if guess > self.least_log else self.least_log

    def _beyond_cap(self, eps: float) -> bool:
        """Whether eps is certainly at or above the largest loss."""
        s, D = self._units()
        if self.kind == "laplace":
            return bool(arb(eps) >= D / s)
        return self.k == 1 and bool(
            arb(eps) >= D * (2 * self._diameter() - D) / (2 * s * s)
        )

    # ---- parameters as balls, in units of curvature ±1 ----

    def _units(self) -> tuple[arb, arb]:
        root = (
            arb(abs(self.profile.curvature)).sqrt()
            if self.profile.curvature and self.k
            else arb(1)
        )
        D = arb(self.profile.sensitivity) * root
        if self.k == 1 and not (
            self._diameter() > D
        ):  # a float next to π: the diameter is as far as it goes
            D = self._diameter()
        return arb(self.profile.scale) * root, D

    def _diameter(self) -> arb:
        """Of a compact space."""
        return arb.pi() / self.lifts

    def _delta(self, eps: arb, log_guess: float, tolerance: float) -> arb:
        s, D = self._units()
        if self.profile.closed:
            mu = arb(self.profile.sensitivity) / arb(self.profile.scale)
            return normal_cdf(mu / 2 - eps / mu) - scaled_normal_tail(
                eps, mu / 2 + eps / mu
            )
        if self.d == 1:
            return self._one_dimensional(s, D, eps)
        law = self._law
        first = self._probability(law, s, D, eps, log_guess, tolerance, upper=True)
        second = self._probability(
            law, s, D, -eps, log_guess - float(eps), tolerance, upper=False
        )
        return first - eps.exp() * second

    def _one_dimensional(self, s: arb, D: arb, eps: arb) -> arb:
        """Closed forms; the loss exceeds ε on −r_b < y < y_a, and is below −ε on the mirror image of that arc. Every e^ε
        is multiplied out: beside e^ε of some thousands no difference of probabilities keeps its digits."""
        if self.kind == "laplace" and self.k == 0:
            return 1 - ((eps - D / s) / 2).exp()
        pi = arb.pi()
        if self.kind == "laplace":
            near, far = (
                (D / s - eps) / 2,
                pi / s - (D / s + eps) / 2,
            )  # y_a and r_b, over s
            return (1 - (-near).exp()) * (1 - (-far).exp()) / (1 - (-pi / s).exp())
        mass = normal_cdf(pi / s) - normal_cdf(-pi / s)
        far = 2 * pi - D
        y_a, r_b = (
            (D * D - 2 * s * s * eps) / (2 * D),
            (far * far - 2 * s * s * eps) / (2 * far),
        )
        first = normal_cdf(y_a / s) - normal_cdf(-r_b / s)
        # seen from η₂ the arc is −(r_b+D) < y < y_a − D, of which the part beyond −π is met from the other side
        second = (
            scaled_normal_tail(eps, (D - y_a) / s)
            + scaled_normal_tail(eps, (far - r_b) / s)
            - 2 * scaled_normal_tail(eps, pi / s)
        )
        return (first - second) / mass

    # ---- radial integrals ----

    def _probability(
        self,
        law: SpaceFormLoss,
        s: arb,
        D: arb,
        t: arb,
        log_guess: float,
        relative: float,
        *,
        upper: bool,
    ) -> arb:
        """P₁(L >= t) if upper, else P₁(L <= t)."""
        m, n = arb(law.mode), self.d - 1
        k, laplace = self.k, self.kind == "laplace"
        depth = 60.0 - log_guess
        start, end = self._window(law, depth)
        sn_m = sn(k, acb(m))

        double = 2 * s * s

        def rho(r: acb, own: acb | None = None) -> acb:
            weight = (m - r) / s if laplace else (m - r) * (m + r) / double
            return weight.exp() * ((sn(k, r) if own is None else own) / sn_m) ** n

        def log_slope(r: arb) -> arb:
            return n * ct(k, r) - (1 / s if laplace else r / (s * s))

        outside = arb(0)
        if start > 0:
            slope = log_slope(arb(start))
            outside += (
                (rho(acb(start)).real / slope).upper() if slope > 0 else arb.pos_inf()
            )
        if k != 1 or end < math.pi / self.lifts:
            slope = log_slope(arb(end))
            outside += (
                (rho(acb(end)).real / -slope).upper() if slope < 0 else arb.pos_inf()
            )
        top = self._diameter() if k == 1 and end >= math.pi / self.lifts else arb(end)
        peak = float(law.width)
        tolerance = arb(log_guess).exp() * peak * relative
        mass = enclose_integral(
            lambda r, _: rho(r), arb(start), top, tolerance=arb(peak * relative)
        )
        mass = mass + arb(0).union(outside)

        # What no radius changes is computed once: each integral asks hundreds of them.
        sn_D, level, square = sn(k, acb(D)), s * t, double * t
        less, more = acb(D - level) / 2, acb(D + level) / 2
        known = (sn(k, less) / sn_D, sn(k, more) / sn_D) if laplace else None

        def halves(r: acb, own: acb, analytic: bool, far: bool) -> tuple[acb, acb]:
            """(1+c)/2 and (1−c)/2 by half angles: with balls, too, nothing cancels. A far lift is π − b away."""
            if known is not None and not far:
                return known[0] * sn(k, r + more) / own, known[1] * sn(
                    k, r - less
                ) / own
            b = r + level if laplace else (r * r + square).sqrt(analytic=analytic)
            if far:
                b, gap = arb.pi() - b, arb.pi() - b - r  # b − r
            else:
                gap = square / (b + r)
            below = own * sn_D
            x = sn(k, (D - gap) / 2) * sn(k, (r + D + b) / 2) / below
            return x, sn(k, (D + gap) / 2) * sn(k, (b + r - D) / 2) / below

        whole = sine_integral(self.d - 2, acb(1), acb(0), False).real

        def partial(r: acb, analytic: bool, far: bool = False) -> acb:
            own = sn(k, r)
            x, y = halves(r, own, analytic, far)
            if not (upper or far):
                x, y = y, x
            if not analytic and not (x.real > 0 and y.real > 0):
                # a real ball that reaches over the end of the range: the fraction lies in [0, 1]
                return rho(r, own) * acb(arb(0.5, 0.5))
            return rho(r, own) * sine_integral(self.d - 2, x, y, analytic) / whole

        low, high, inner = self._breaks(s, D, t)
        total = arb(0)
        window = (arb(start), top)
        if self.lifts == 2:  # the far lift counts from `high` on
            half = self._diameter()
            last = (
                top
                if not upper
                else half - s * t
                if laplace
                else (half * half - 2 * s * s * t).sqrt()
            )
            far = self._between(
                lambda r, analytic: partial(r, analytic, True),
                high,
                last,
                window,
                tolerance,
            )
            high, total = last, -far if upper else far
        # below `low` every direction is in (inner) or out; above `high` likewise the other way round on the sphere
        if inner == upper:
            total += self._between(
                lambda r, _: rho(r), window[0], low, window, tolerance
            )
        if k == 1 and not upper and self.lifts == 1:
            total += self._between(
                lambda r, _: rho(r), high, window[1], window, tolerance
            )
        total += self._between(partial, low, high, window, tolerance)
        return (total + arb(0).union(outside)) / mass

    def _window(self, law: SpaceFormLoss, depth: float) -> tuple[float, float]:
        """Floats around the radii where ρ is above e^−depth of its peak; a suggestion only."""
        m, w = law.mode, law.width
        left, right = w, w
        while m - left > 0 and float(law.log_rho(np.array([-left]))[0]) > -depth:
            left *= 1.25
        limit = math.pi / self.lifts - m if self.k == 1 else math.inf
        while right < limit and float(law.log_rho(np.array([right]))[0]) > -depth:
            right *= 1.25
        return (m - left if m - left > 1e-3 * m else 0.0), (
            m + right if right < limit else math.pi / self.lifts
        )

    def _breaks(self, s: arb, D: arb, t: arb) -> tuple[arb, arb, bool]:
        """Radii between which |c_t| < 1, and whether L >= t for all directions below the first."""
        end = self._diameter()
        if self.kind == "laplace":
            high = end - (D + s * t) / 2 if self.k == 1 else arb.pos_inf()
            return (D - s * t) / 2, high, True
        low = (D * D - 2 * s * s * t) / (2 * D)
        far = 2 * end - D
        high = (far * far - 2 * s * s * t) / (2 * far) if self.k == 1 else arb.pos_inf()
        return (low, high, True) if low > 0 else (abs(low), high, False)

    def _between(
        self, f: Any, a: arb, b: arb, window: tuple[arb, arb], tolerance: arb
    ) -> arb:
        """∫f from a to b within the window; what two ends that overlap as balls leave open is enclosed."""
        low, high = (
            (a if a > window[0] else window[0]),
            (b if b < window[1] else window[1]),
        )
        open_ends = [
            pair
            for pair in ((a, window[0]), (b, window[1]), (low, high))
            if pair[0].overlaps(pair[1])
        ]
        slack = sum(
            (
                ((x - y).abs_upper() * f(acb(x.union(y)), False).abs_upper())
                for x, y in open_ends
            ),
            arb(0),
        )
        return (
            enclose_integral(f, low, high, tolerance) if low < high else arb(0)
        ) + arb(0, slack.abs_upper())

    @property
    def _law(self) -> SpaceFormLoss:
        law = self.profile.tails
        assert isinstance(law, SpaceFormLoss)
        return law


# ---- the functions that certificates are made of


def normal_cdf(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def scaled_normal_tail(eps: arb, z: arb) -> arb:
    """e^ε·Φ(−z), z > 0, as e^{ε − z²/2} times e^{z²/2}·Φ(−z); far out that lies between z/(1+z²) and 1/z, over √2π."""
    lift = (eps - z * z / 2).exp()
    if z < 1e6:
        return lift * (z * z / 2).exp() * normal_cdf(-z)
    return lift * (z / (1 + z * z)).union(1 / z) / (2 * arb.pi()).sqrt()


def enclose_integral(f: Any, a: arb, b: arb, tolerance: arb) -> arb:
    """∫f from a to b, f(r, analytic)."""
    goal = arb(2) ** (-(3 * ctx.prec) // 5)
    return acb.integral(
        f,
        acb(a),
        acb(b),
        abs_tol=tolerance,
        rel_tol=goal,
        eval_limit=200000,
        depth_limit=400,
    ).real


def sn(k: int, r: acb) -> acb:
    return r if k == 0 else (r.sin() if k == 1 else r.sinh())


def ct(k: int, r: arb) -> arb:
    return 1 / r if k == 0 else (r.cot() if k == 1 else r.coth())


def sine_integral(m: int, x: acb, y: acb, analytic: bool) -> acb:
    """∫_φ^π sin^m, given x = cos²(φ/2) and y = sin²(φ/2).

    J_m = c·(1−c²)^{(m−1)/2}/m + (m−1)/m·J_{m−2} with c = cos φ, from J₀ = π − φ or J₁ = 1 + c; that is a multiple of
    J₀ or J₁ and c times a polynomial in 1 − c² = 4xy (`recurrence`). Analytic while 4xy stays off (−∞, 0], which √
    verifies: the cut of arctan √(x/y) is y ∈ (−∞, 0], where x = 1 − y makes 4xy negative too.
    """
    if m == 1:
        return 2 * x
    c, square = x - y, 4 * x * y
    polynomial, share = recurrence(m, ctx.prec)
    if m % 2:
        return share * 2 * x + c * square * polynomial(square)
    # π − φ = 2·arctan √(x/y), by whichever of √(x/y) and √(y/x) stays away from the pole
    root = square.sqrt(analytic=analytic)
    angle = (
        acb(arb.pi()) - 2 * (root / (2 * x)).atan()
        if abs(x) > abs(y)
        else 2 * (root / (2 * y)).atan()
    )
    return share * angle + c * root * polynomial(square) if m else angle


@lru_cache(maxsize=16)
def recurrence(m: int, precision: int) -> tuple[acb_poly, arb]:
    """The recurrence of J_m summed up at the given precision: (Σ a_i·(4xy)^i, ∏(j−1)/j)."""
    share, coefficients = arb(1), []
    for j in range(m, 1, -2):
        coefficients.append(share / j)
        share = share * (j - 1) / j
    return acb_poly(coefficients[::-1]), share
