"""Rigorous enclosures of δ(ε) and μ on spaces of constant curvature, in ball arithmetic (Arb, through python-flint).

Nothing of the float path is trusted. With J_m(c) = ∫_{arccos c}^π sin^m, m = d−2,

    δ(ε) = P₁(L >= ε) − e^ε·P₁(L <= −ε),     P₁(L >= t) = ∫ρ(r)·J_m(c_t(r)) dr / (J_m(1)·∫ρ),

c_t(r) being the cosine of the angle at which the level L = t is met, by the law of cosines. The radial integrals are
split at the radii where |c_t| = 1; what lies outside their window is bounded by log-concavity: ∫_R^∞ρ <= ρ(R)/|(log
ρ)′(R)|. The precision is doubled until the ball is good. The float path only suggests windows and tolerances; a bad
suggestion costs time, never validity. Results are rounded outward and widened by 3e-9, more than the rounding-up of
the float path, so that its value lies inside.
"""

import math
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from flint import acb, arb

from curvedp import _validate
from curvedp.entropy.precision import precision
from curvedp.errors import NotResolved
from curvedp.privacy._ball_functions import ct, gdp_ball, integral, lifted_tail, mu_lower, phi, sine_integral, sn
from curvedp.privacy._space_form import SpaceFormLaw
from curvedp.privacy.constant_curvature import ConstantCurvatureProfile, constant_curvature_profile
from curvedp.privacy.gaussian import gdp_log_delta

_WIDEN = 3e-9
_GOOD = 2e-8  # relative radius of an acceptable ball
_LEAST_LOG = math.log(1e-300)  # smaller δ are bounded from above only,
_FAR = 1e6  # times the last ε that floats resolve: there no integral is tried
_LEAST_LOG_FOR_MU = -1e5  # but μ compares them with those of a Gaussian
_WIDTHS = (9e-7, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 1e-2)  # of the enclosure of μ: the first that is not too much work
_MOST_INTERVALS = 2500


def certified_delta(
    kind: Any, curvature: float, dim: int, scale: float, sensitivity: float, eps: float
) -> tuple[float, float]:
    """(lower, upper): rigorous bounds on δ(eps), at most 1e-6 apart relative to δ.

    *Guarantees*: the true δ(eps) of the "gaussian" or "laplace" law lies in between, for the worst pair of centers at
    distance at most `sensitivity` (it is the pair at exactly that distance: docs/exact-profiles.md, Theorem 1).

    >>> lower, upper = certified_delta("gaussian", 1.0, 1, 2.0, 1.0, 0.3)
    >>> lower <= 0.04225571 <= upper
    True
    """
    profile = constant_curvature_profile(kind, curvature, dim, scale, sensitivity)
    lower, upper = _outward(_Certifier(profile).delta(_validate.nonnegative("eps", eps)))
    return lower, min(upper, 1.0)


def certified_mu(kind: Any, curvature: float, dim: int, scale: float, sensitivity: float) -> tuple[float, float]:
    """(lower, upper): rigorous bounds on the smallest μ of GDP, at most 1e-6 apart relative to μ.

    Lower: μ at one ε of a certified δ. Upper: δ <= δ_μ is proved on all of [0, ∞). δ is convex in e^ε, so between two
    certified values it lies below their chord; intervals are halved until the chord lies below δ_μ. Minutes where δ
    is nearly Gaussian.

    >>> lower, upper = certified_mu("gaussian", 0.0, 3, 2.0, 1.0)
    >>> lower <= 0.5 <= upper
    True
    """
    profile = constant_curvature_profile(kind, curvature, dim, scale, sensitivity)
    if profile.closed:
        exact = arb(sensitivity) / arb(scale)
        return _outward(exact)
    return _Certifier(profile).mu()


def _outward(ball: arb) -> tuple[float, float]:
    """Floats around the ball, a little wider than the float path's own margin."""
    low, high = _float(ball.lower(), -1) * (1 - _WIDEN), _float(ball.upper(), 1) * (1 + _WIDEN)
    return max(math.nextafter(low, -math.inf), 0.0), min(math.nextafter(high, math.inf), max(1.0, high))


def _float(x: arb, direction: int) -> float:
    """The point ball x as a float, rounded in the given direction."""
    value = float(x)
    return math.nextafter(value, direction * math.inf)


class _Certifier:
    """Certified δ of one profile; every ε shares the radial mass."""

    def __init__(self, profile: ConstantCurvatureProfile) -> None:
        self.profile, self.kind, self.d = profile, profile.kind, profile.dim
        self.k = (profile.curvature > 0) - (profile.curvature < 0) if profile.dim > 1 else min(profile.curvature > 0, 1)
        self.cache: dict[float, arb] = {}
        self.least_log = _LEAST_LOG

    def delta(self, eps: float) -> arb:
        """A ball around δ(eps) of relative radius below 2e-8, or around 0 where it is 0."""
        if eps in self.cache:
            return self.cache[eps]
        if self._beyond_cap(eps):
            return arb(0)
        guess = self._log_guess(eps)
        closed = self.profile.closed or self.d == 1
        if not closed and guess <= self.least_log and eps > _FAR * (near := self._last_resolved(eps)):
            return arb(0).union(self.delta(near).upper())
        bits = 96
        while (ball := self._enclosed(eps, guess, bits)) is None:
            bits *= 2
            if bits > (6144 if self.d > 1 else 200_000):  # closed forms are cheap
                raise NotResolved(f"δ({eps!r}) could not be enclosed")
        self.cache[eps] = ball
        return ball

    def _enclosed(self, eps: float, guess: float, bits: int) -> arb | None:
        with precision(bits):
            ball = self._delta(arb(eps), guess, 1e-12 * 96 / bits)
            if ball.lower() > 0 and ball.rad() < _GOOD * ball.lower():
                return ball
            if guess <= self.least_log and ball.is_finite():  # below what floats resolve: only the upper end is wanted
                return arb(0).union(ball.upper())
            return None

    def _last_resolved(self, eps: float) -> float:
        """An ε below `eps`, by halving, at which the float path resolves δ: as δ falls with ε, a bound there is one here."""
        while eps > 0 and self._log_guess(eps) <= self.least_log:
            eps /= 2
        return eps

    def _log_guess(self, eps: float) -> float:
        """log δ(eps) by the float path: how small the integrals are, so that Arb is asked for enough digits."""
        with np.errstate(all="ignore"):  # at an ε beyond all bounds it may be no number: then δ is taken for tiny
            if self.profile.closed:
                guess = float(gdp_log_delta(self.profile.mu, _column(eps))[0])
            else:
                guess = float(self.profile._table.log_delta(_column(eps))[0])
        return guess if guess > self.least_log else self.least_log

    def _beyond_cap(self, eps: float) -> bool:
        """Whether eps is certainly at or above the largest loss."""
        s, D = self._units()
        if self.kind == "laplace":
            return bool(arb(eps) >= D / s)
        return self.k == 1 and bool(arb(eps) >= D * (2 * arb.pi() - D) / (2 * s * s))

    # ---- parameters as balls, in units of curvature ±1 ----

    def _units(self) -> tuple[arb, arb]:
        root = arb(abs(self.profile.curvature)).sqrt() if self.profile.curvature and self.k else arb(1)
        D = arb(self.profile.sensitivity) * root
        if self.k == 1 and not (arb.pi() > D):  # a float next to π: the diameter is as far as it goes
            D = arb.pi()
        return arb(self.profile.scale) * root, D

    def _delta(self, eps: arb, log_guess: float, tolerance: float) -> arb:
        s, D = self._units()
        if self.profile.closed:
            mu = arb(self.profile.sensitivity) / arb(self.profile.scale)
            return phi(mu / 2 - eps / mu) - lifted_tail(eps, mu / 2 + eps / mu)
        if self.d == 1:
            return self._one_dimensional(s, D, eps)
        law = self._law
        first = self._probability(law, s, D, eps, log_guess, tolerance, upper=True)
        second = self._probability(law, s, D, -eps, log_guess - float(eps), tolerance, upper=False)
        return first - eps.exp() * second

    def _one_dimensional(self, s: arb, D: arb, eps: arb) -> arb:
        """Closed forms; the loss exceeds ε on −r_b < y < y_a, and is below −ε on the mirror image of that arc.

        Every e^ε is multiplied out: beside e^ε of some thousands no difference of probabilities keeps its digits.
        """
        if self.kind == "laplace" and self.k == 0:
            return 1 - ((eps - D / s) / 2).exp()
        pi = arb.pi()
        if self.kind == "laplace":
            near, far = (D / s - eps) / 2, pi / s - (D / s + eps) / 2  # y_a and r_b, over s
            return (1 - (-near).exp()) * (1 - (-far).exp()) / (1 - (-pi / s).exp())
        mass = phi(pi / s) - phi(-pi / s)
        far = 2 * pi - D
        y_a, r_b = (D * D - 2 * s * s * eps) / (2 * D), (far * far - 2 * s * s * eps) / (2 * far)
        first = phi(y_a / s) - phi(-r_b / s)
        # seen from η₂ the arc is −(r_b+D) < y < y_a − D, of which the part beyond −π is met from the other side
        second = lifted_tail(eps, (D - y_a) / s) + lifted_tail(eps, (far - r_b) / s) - 2 * lifted_tail(eps, pi / s)
        return (first - second) / mass

    # ---- radial integrals ----

    def _probability(
        self, law: SpaceFormLaw, s: arb, D: arb, t: arb, log_guess: float, relative: float, *, upper: bool
    ) -> arb:
        """P₁(L >= t) if upper, else P₁(L <= t)."""
        m, n = arb(law.mode), self.d - 1
        k, laplace = self.k, self.kind == "laplace"
        depth = 60.0 - log_guess
        start, end = self._window(law, depth)
        sn_m = sn(k, acb(m))

        def rho(r: acb) -> acb:
            weight = (m - r) / s if laplace else (m - r) * (m + r) / (2 * s * s)
            return weight.exp() * (sn(k, r) / sn_m) ** n

        def log_slope(r: arb) -> arb:
            return n * ct(k, r) - (1 / s if laplace else r / (s * s))

        outside = arb(0)
        if start > 0:
            slope = log_slope(arb(start))
            outside += (rho(acb(start)).real / slope).upper() if slope > 0 else arb.pos_inf()
        if k != 1 or end < math.pi:
            slope = log_slope(arb(end))
            outside += (rho(acb(end)).real / -slope).upper() if slope < 0 else arb.pos_inf()
        top = arb.pi() if k == 1 and end >= math.pi else arb(end)
        peak = float(law.width)
        tolerance = arb(log_guess).exp() * peak * relative
        mass = integral(lambda r, _: rho(r), arb(start), top, tolerance=arb(peak * relative))
        mass = mass + arb(0).union(outside)

        sn_D = sn(k, acb(D))

        def halves(r: acb, analytic: bool) -> tuple[acb, acb]:
            """(1+c)/2 and (1−c)/2 by half angles: with balls, too, nothing cancels."""
            b = r + s * t if laplace else (r * r + 2 * s * s * t).sqrt(analytic=analytic)
            gap = acb(s * t) if laplace else 2 * s * s * t / (b + r)  # b − r
            below = sn(k, r) * sn_D
            x = sn(k, (D - gap) / 2) * sn(k, (r + D + b) / 2) / below
            return x, sn(k, (D + gap) / 2) * sn(k, (b + r - D) / 2) / below

        whole = sine_integral(self.d - 2, acb(1), acb(0), False).real

        def partial(r: acb, analytic: bool) -> acb:
            x, y = halves(r, analytic)
            if not upper:
                x, y = y, x
            if not analytic and not (x.real > 0 and y.real > 0):
                # a real ball that reaches over the end of the range: the fraction lies in [0, 1]
                return rho(r) * acb(arb(0.5, 0.5))
            return rho(r) * sine_integral(self.d - 2, x, y, analytic) / whole

        low, high, inner = self._breaks(s, D, t)
        total = arb(0)
        window = (arb(start), top)
        # below `low` every direction is in (inner) or out; above `high` likewise the other way round on the sphere
        if inner == upper:
            total += self._between(lambda r, _: rho(r), window[0], low, window, tolerance)
        if k == 1 and not upper:
            total += self._between(lambda r, _: rho(r), high, window[1], window, tolerance)
        total += self._between(partial, low, high, window, tolerance)
        return (total + arb(0).union(outside)) / mass

    def _window(self, law: SpaceFormLaw, depth: float) -> tuple[float, float]:
        """Floats around the radii where ρ is above e^−depth of its peak; a suggestion only."""
        m, w = law.mode, law.width
        left, right = w, w
        while m - left > 0 and float(law.log_rho(_column(-left))[0]) > -depth:
            left *= 1.25
        limit = math.pi - m if self.k == 1 else math.inf
        while right < limit and float(law.log_rho(_column(right))[0]) > -depth:
            right *= 1.25
        return (m - left if m - left > 1e-3 * m else 0.0), (m + right if right < limit else math.pi)

    def _breaks(self, s: arb, D: arb, t: arb) -> tuple[arb, arb, bool]:
        """Radii between which |c_t| < 1, and whether L >= t for all directions below the first."""
        pi = arb.pi()
        if self.kind == "laplace":
            high = pi - (D + s * t) / 2 if self.k == 1 else arb.pos_inf()
            return (D - s * t) / 2, high, True
        low = (D * D - 2 * s * s * t) / (2 * D)
        far = 2 * pi - D
        high = (far * far - 2 * s * s * t) / (2 * far) if self.k == 1 else arb.pos_inf()
        return (low, high, True) if low > 0 else (abs(low), high, False)

    def _between(self, f: Any, a: arb, b: arb, window: tuple[arb, arb], tolerance: arb) -> arb:
        """∫f from a to b within the window; what two ends that overlap as balls leave open is enclosed."""
        low, high = (a if a > window[0] else window[0]), (b if b < window[1] else window[1])
        open_ends = [pair for pair in ((a, window[0]), (b, window[1]), (low, high)) if pair[0].overlaps(pair[1])]
        slack = sum((((x - y).abs_upper() * f(acb(x.union(y)), False).abs_upper()) for x, y in open_ends), arb(0))
        return (integral(f, low, high, tolerance) if low < high else arb(0)) + arb(0, slack.abs_upper())

    # ---- μ ----

    def mu(self) -> tuple[float, float]:
        """See `certified_mu`."""
        self.least_log = _LEAST_LOG_FOR_MU
        table = self.profile._table
        estimate, grid = self.profile.mu, table.grid()
        at = float(grid[int(self.profile._mu_at(grid).argmax())])
        for width in _WIDTHS:
            top = arb(estimate) * (1 + arb(width))
            end = self._closing(top) if math.isinf(table.T) else self.profile.pure_epsilon
            knots = self._knots(float(top), end)
            if len(knots) <= _MOST_INTERVALS:
                break
        else:
            raise NotResolved("μ could not be certified: δ is too close to a Gaussian's for too long")
        lower = max(mu_lower(self.delta(e), e) for e in {0.0, at})
        pending, proved = list(pairwise(knots)), 0
        while pending:
            a, b = pending.pop()
            if self._below(a, b, top):
                proved += 1
                continue
            if proved + len(pending) > 20000 or b - a < 1e-12 * b:
                raise NotResolved("μ could not be certified")
            pending += [(a, (a + b) / 2), ((a + b) / 2, b)]
        return max(lower * (1 - _WIDEN), 0.0), _float(top.upper(), 1) * (1 + _WIDEN)

    def _knots(self, mu: float, end: float) -> list[float]:
        """Ends of intervals on which the chord should lie below δ_μ: suggested by floats, decided by `_below`.

        Over a step h of ε the chord (in u = e^ε) exceeds δ by the fraction h²/8·u²δ″/δ; the room is log δ_μ − log δ.
        """
        table = self.profile._table
        last = min(end, table.end)
        grid = np.unique(np.minimum(np.append(table.grid(), np.linspace(0.0, 8 * self.profile.rao, 400)), last))
        log_delta, log_top = table.log_delta(grid), gdp_log_delta(mu, grid)
        below = np.nonzero(log_delta + 1e-3 < float(gdp_log_delta(mu, np.array([end]))[0]))[0]
        if len(below):  # from here on δ(ε) is below δ_μ(end)
            grid, log_delta, log_top = (x[: below[0] + 1] for x in (grid, log_delta, log_top))
        if len(grid) < 3:
            return [0.0, *grid[1:].tolist(), end]
        slope = np.gradient(log_delta, grid)
        bend = np.maximum(slope**2 + np.gradient(slope, grid) - slope, 1e-12)
        room = np.clip(log_top - log_delta, 1e-9, 2.0)
        steps = np.interp(grid, grid, np.sqrt(8 * 0.6 * room / bend))
        count = np.concatenate([[0.0], np.cumsum(np.diff(grid) * (1 / steps[1:] + 1 / steps[:-1]) / 2)])
        if count[-1] > 10 * _MOST_INTERVALS:
            return [0.0] * (10 * _MOST_INTERVALS)
        knots = np.interp(np.linspace(0.0, count[-1], math.ceil(count[-1]) + 1), count, grid).tolist()
        return [*knots, end] if end > knots[-1] else knots

    def _closing(self, mu: arb) -> float:
        """An ε beyond which δ <= δ_μ is a theorem, on a hyperbolic space; found in a few doublings of r."""
        s, D = self._units()
        r = float(s) / 4
        while not self._closes(mu, arb(r)):
            r *= 1.125
            if r > 1e6:
                raise NotResolved("the tail of the privacy loss could not be closed")
        return math.nextafter(float(((2 * r * D + D * D) / (2 * s * s)).upper()), math.inf)

    def _closes(self, mu: arb, r: arb) -> bool:
        """Whether δ <= δ_μ for every ε >= (2rD + D²)/2s² (docs/exact-profiles.md, Theorem 2′)."""
        s, D = self._units()
        n, a = self.d - 1, arb(self.d - 1) / 2
        room = (1 - (D / s / mu) ** 2) / (s * s)
        slope = r / (s * s) - n * r.coth()  # −(log ρ)′
        if not (room > 0 and slope > 0):
            return False
        if not (n * (r.coth() - 1 / r) / r + a * D / (r * r * (r + D)) <= room):
            return False
        q = D / (s * s)
        eps = q * (r + D / 2)
        x, y = eps / mu - mu / 2, eps / mu + mu / 2
        if not x > 0:
            return False
        log_c = arb(0) if n == 1 else (2 * a).lgamma() - 2 * a.lgamma() - a.log()
        log_angle = log_c + a * ((D.cosh() + D.sinh() * r.coth()) / (2 * (r + D))).log() + (a + 1).lgamma()
        log_tail = self._log_density(r) + log_angle - (a + 1) * slope.log() - (1 + slope / q).log()
        log_gdp = mu.log() - x * x / 2 - (2 * arb.pi()).log() / 2 - 2 * (y + arb(2).sqrt()).log()
        return bool(log_tail <= log_gdp)

    def _log_density(self, r: arb) -> arb:
        """log(ρ(r)/∫ρ) or more, for the Gaussian on a hyperbolic space: the integral is over a window only."""
        return self._log_weight(acb(r)).real - self._least_mass.log()

    def _log_weight(self, r: acb) -> acb:
        """log(ρ(r)/ρ(m))."""
        (s, _), m = self._units(), arb(self._law.mode)
        return (m - r) * (m + r) / (2 * s * s) + (self.d - 1) * (r.sinh() / acb(m).sinh()).log()

    @property
    def _law(self) -> SpaceFormLaw:
        law = self.profile.tails
        assert isinstance(law, SpaceFormLaw)
        return law

    @cached_property
    def _least_mass(self) -> arb:
        law = self._law
        start, end = self._window(law, 60.0)
        start = max(start, 1e-3 * law.mode)  # keeps the logarithm away from 0
        tolerance = arb(law.width * 1e-12)
        return integral(lambda r, _: self._log_weight(r).exp(), arb(start), arb(end), tolerance).lower()

    def _below(self, a: float, b: float, mu: arb) -> bool:
        """Whether the chord of δ over [e^a, e^b], or δ(a) itself, stays below δ_μ: tangents of the convex δ_μ decide."""
        first = self.delta(a)
        last = self.delta(b) if b < self.profile.pure_epsilon else arb(0)
        with precision(160):
            if first.upper() < gdp_ball(mu, arb(b))[0]:
                return True
            ua, ub = arb(a).exp(), arb(b).exp()
            slope = (last.upper() - first.upper()) / (ub - ua)
            pieces = 24
            ends = [ua + (ub - ua) * i / pieces for i in range(pieces + 1)]
            gaps = []
            for u in ends:
                value, tangent = gdp_ball(mu, u.log())
                gaps.append((value - (first.upper() + slope * (u - ua)), tangent - slope))
            for i in range(pieces):
                (g0, t0), (g1, t1) = gaps[i], gaps[i + 1]
                if not (g0 > 0 and g1 > 0):
                    return False
                h = ends[i + 1] - ends[i]
                # the tangents at both ends meet above 0, or one of them rises inwards
                if t0 < 0 and t1 > 0 and not (g0 + t0 * ((g1 - t1 * h - g0) / (t0 - t1)) > 0):
                    return False
                if not ((t0 < 0 or t0 >= 0) and (t1 > 0 or t1 <= 0)):
                    return False
            return True


def _column(x: float) -> Any:
    return np.array([x])
