"""Rigorous enclosures of the smallest μ of GDP: δ <= δ_μ is proved on all of [0, ∞) from certified values of δ."""

import math
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from flint import acb, arb

from curvedp.errors import NotResolved
from curvedp.numerics.enclosures import precision
from curvedp.privacy.enclosure.delta import (
    WIDEN,
    DeltaEnclosure,
    enclose_integral,
    float_beyond,
    normal_cdf,
    outward_floats,
)
from curvedp.privacy.guarantees.gaussian import gdp_log_delta
from curvedp.privacy.profiles.constant_curvature import constant_curvature_profile

_WIDTHS = (
    9e-7,
    3e-6,
    1e-5,
    3e-5,
    1e-4,
    3e-4,
    1e-3,
    1e-2,
)  # of the enclosure of μ: the first that is not too much work
_MOST_INTERVALS = 2500


def certified_mu(
    kind: Any, curvature: float, dim: int, scale: float, sensitivity: float
) -> tuple[float, float]:
    """(lower, upper): rigorous bounds on the smallest μ of GDP, at most 1e-6 apart relative to μ.

    Lower: μ at one ε of a certified δ. Upper: δ <= δ_μ is proved on all of [0, ∞). δ is convex in e^ε, so between two
    certified values it lies below their chord; intervals are halved until the chord lies below δ_μ. Minutes where δ
    is nearly Gaussian.

    Parameters
    ----------
    kind, curvature, dim, scale, sensitivity : str, float, int, float, float
        Of the law and its space, and the largest distance of two centers.

    Examples
    --------
    >>> lower, upper = certified_mu("gaussian", 0.0, 3, 2.0, 1.0)
    >>> lower <= 0.5 <= upper
    True
    """
    profile = constant_curvature_profile(kind, curvature, dim, scale, sensitivity)
    if profile.closed:
        return outward_floats(arb(sensitivity) / arb(scale))
    return MuEnclosure(profile).mu()


class MuEnclosure(DeltaEnclosure):
    """Certified μ of one profile."""

    least_log = -1e5  # tiny δ are compared with those of a Gaussian

    def mu(self) -> tuple[float, float]:
        """See `certified_mu`."""
        table = self.profile._table
        estimate, grid = self.profile.mu, table.grid()
        at = float(grid[int(self.profile._mu_at(grid).argmax())])
        for width in _WIDTHS:
            top = arb(estimate) * (1 + arb(width))
            end = (
                self._closing(top) if math.isinf(table.T) else self.profile.pure_epsilon
            )
            knots = self._knots(float(top), end)
            if len(knots) <= _MOST_INTERVALS:
                break
        else:
            raise NotResolved(
                "μ could not be certified: δ is too close to a Gaussian's for too long"
            )
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
        return max(lower * (1 - WIDEN), 0.0), float_beyond(top.upper(), 1) * (1 + WIDEN)

    def _knots(self, mu: float, end: float) -> list[float]:
        """Ends of intervals on which the chord should lie below δ_μ: suggested by floats, decided by `_below`. Over a
        step h of ε the chord (in u = e^ε) exceeds δ by the fraction h²/8·u²δ″/δ; the room is log δ_μ − log δ."""
        table = self.profile._table
        last = min(end, table.end)
        grid = np.unique(
            np.minimum(
                np.append(table.grid(), np.linspace(0.0, 8 * self.profile.rao, 400)),
                last,
            )
        )
        log_delta, log_top = table.log_delta(grid), gdp_log_delta(mu, grid)
        below = np.nonzero(
            log_delta + 1e-3 < float(gdp_log_delta(mu, np.array([end]))[0])
        )[0]
        if len(below):  # from here on δ(ε) is below δ_μ(end)
            grid, log_delta, log_top = (
                x[: below[0] + 1] for x in (grid, log_delta, log_top)
            )
        if len(grid) < 3:
            return [0.0, *grid[1:].tolist(), end]
        slope = np.gradient(log_delta, grid)
        bend = np.maximum(slope**2 + np.gradient(slope, grid) - slope, 1e-12)
        room = np.clip(log_top - log_delta, 1e-9, 2.0)
        steps = np.sqrt(8 * 0.6 * room / bend)
        count = np.concatenate(
            [[0.0], np.cumsum(np.diff(grid) * (1 / steps[1:] + 1 / steps[:-1]) / 2)]
        )
        if count[-1] > 10 * _MOST_INTERVALS:
            return [0.0] * (10 * _MOST_INTERVALS)
        knots = np.interp(
            np.linspace(0.0, count[-1], math.ceil(count[-1]) + 1), count, grid
        ).tolist()
        return [*knots, end] if end > knots[-1] else knots

    def _closing(self, mu: arb) -> float:
        """An ε beyond which δ <= δ_μ is a theorem, on a hyperbolic space; found in a few doublings of r."""
        s, D = self._units()
        r = float(s) / 4
        while not self._closes(mu, arb(r)):
            r *= 1.125
            if r > 1e6:
                raise NotResolved("the tail of the privacy loss could not be closed")
        return math.nextafter(
            float(((2 * r * D + D * D) / (2 * s * s)).upper()), math.inf
        )

    def _closes(self, mu: arb, r: arb) -> bool:
        """Whether δ <= δ_μ for every ε >= (2rD + D²)/2s² (docs/exact-profiles.md, Theorem 2, the tail with the angle)."""
        s, D = self._units()
        n, a = self.d - 1, arb(self.d - 1) / 2
        room = (1 - (D / s / mu) ** 2) / (s * s)
        slope = r / (s * s) - n * r.coth()  # −(log ρ)′
        falls = (
            n * (r.coth() - 1 / r) / r + a * D / (r * r * (r + D)) <= room
        )  # positive: no room, no proof
        q = D / (s * s)
        eps = q * (r + D / 2)
        x, y = eps / mu - mu / 2, eps / mu + mu / 2
        log_c = arb(0) if n == 1 else (2 * a).lgamma() - 2 * a.lgamma() - a.log()
        log_angle = (
            log_c
            + a * ((D.cosh() + D.sinh() * r.coth()) / (2 * (r + D))).log()
            + (a + 1).lgamma()
        )
        log_tail = (
            self._log_density(r)
            + log_angle
            - (a + 1) * slope.log()
            - (1 + slope / q).log()
        )
        log_gdp = (
            mu.log()
            - x * x / 2
            - (2 * arb.pi()).log() / 2
            - 2 * (y + arb(2).sqrt()).log()
        )
        return bool(
            x > 0 and falls and log_tail <= log_gdp
        )  # false where a slope <= 0 makes the tail no number

    def _log_density(self, r: arb) -> arb:
        """log(ρ(r)/∫ρ) or more, for the Gaussian on a hyperbolic space: the integral is over a window only."""
        return self._log_weight(acb(r)).real - self._least_mass.log()

    def _log_weight(self, r: acb) -> acb:
        """log(ρ(r)/ρ(m))."""
        (s, _), m = self._units(), arb(self._law.mode)
        return (m - r) * (m + r) / (2 * s * s) + (self.d - 1) * (
            r.sinh() / acb(m).sinh()
        ).log()

    @cached_property
    def _least_mass(self) -> arb:
        law = self._law
        start, end = self._window(law, 60.0)
        start = max(start, 1e-3 * law.mode)  # keeps the logarithm away from 0
        tolerance = arb(law.width * 1e-12)
        return enclose_integral(
            lambda r, _: self._log_weight(r).exp(), arb(start), arb(end), tolerance
        ).lower()

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
                gaps.append(
                    (value - (first.upper() + slope * (u - ua)), tangent - slope)
                )
            for i in range(pieces):
                (g0, t0), (g1, t1) = gaps[i], gaps[i + 1]
                if not (g0 > 0 and g1 > 0):
                    return False
                h = ends[i + 1] - ends[i]
                # one of the tangents at both ends rises inwards, or they meet above 0
                if not (
                    t0 >= 0 or t1 <= 0 or g0 + t0 * ((g1 - t1 * h - g0) / (t0 - t1)) > 0
                ):
                    return False
            return True


def gdp_ball(mu: arb, eps: arb) -> tuple[arb, arb]:
    """(δ_μ(ε), its derivative in u = e^ε, which is −Φ(−ε/μ − μ/2))."""
    second = normal_cdf(-eps / mu - mu / 2)
    return normal_cdf(-eps / mu + mu / 2) - eps.exp() * second, -second


def mu_lower(delta: arb, eps: float) -> float:
    """A float below the μ at which δ_μ(eps) = δ."""
    low, high = 0.0, 1.0
    with precision(256):
        while gdp_ball(arb(high), arb(eps))[0] < delta:
            low, high = high, 2 * high
        for _ in range(60):
            mid = (low + high) / 2
            if gdp_ball(arb(mid), arb(eps))[0] < delta:
                low = mid
            else:
                high = mid
    return low
