"""Rigorous enclosures of the smallest μ of Gaussian DP.

Lower bound: the μ with δ_μ(ε) = δ(ε) at one ε, from a certified δ. Upper bound: δ <=
δ_μ is proved on all of [0, ∞). δ is convex in u = e^ε, so that between two certified
values it lies below their chord; intervals are halved until the chord lies below δ_μ.
On hyperbolic spaces the tail is closed by a theorem (docs/exact-profiles.md, Theorem
P2).
"""

import math
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from flint import acb, arb

from curvedp.errors import NotResolved
from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.enclosures import precision
from curvedp.privacy.enclosure.delta import (
    OUTWARD_MARGIN,
    DeltaEnclosure,
    enclose_integral,
    float_beyond,
    normal_cdf,
    outward_floats,
)
from curvedp.privacy.guarantees.gaussian import gdp_log_delta
from curvedp.privacy.profiles.constant_curvature import constant_curvature_profile

# Relative widths of the enclosure of μ: the first that is not too much work is taken.
_WIDTHS = (9e-7, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 1e-2)
_MOST_INTERVALS = 2500
_MOST_PROOFS = 20000
_TANGENTS = 24  # pieces of an interval on which δ_μ is bounded by its tangents
_PROOF_BITS = 160


def certified_mu(
    kind: Any, curvature: float, dim: int, scale: float, sensitivity: float
) -> tuple[float, float]:
    """Return rigorous bounds (lower, upper) on the smallest μ of GDP.

    They are at most 1e-6 apart relative to μ. It takes minutes where δ is nearly
    Gaussian.

    Parameters
    ----------
    kind : str
        'gaussian' or 'laplace'.
    curvature, dim : float, int
        Of the space.
    scale, sensitivity : float
        Of the noise, and the largest distance of two centers.

    Examples
    --------
    >>> lower, upper = certified_mu("gaussian", 0.0, 3, 2.0, 1.0)
    >>> lower <= 0.5 <= upper
    True
    """
    profile = constant_curvature_profile(kind, curvature, dim, scale, sensitivity)
    if profile.is_closed_form:
        return outward_floats(arb(sensitivity) / arb(scale))
    return MuEnclosure(profile).mu()


class MuEnclosure(DeltaEnclosure):
    """An enclosure of the smallest μ of one profile, as of `DeltaEnclosure`."""

    smallest_log = -1e5  # tiny δ are compared with those of a Gaussian

    def mu(self) -> tuple[float, float]:
        """Return rigorous bounds on μ; see `certified_mu`."""
        grid = self.profile.loss_table.grid()
        worst_eps = float(grid[int(self.profile._mu_at(grid).argmax())])
        candidate, knots = self._candidate_and_knots()
        lower = max(mu_lower(self.delta(eps), eps) for eps in {0.0, worst_eps})
        self._prove_below(candidate, knots)
        upper = float_beyond(candidate.upper(), 1) * (1 + OUTWARD_MARGIN)
        return max(lower * (1 - OUTWARD_MARGIN), 0.0), upper

    def _candidate_and_knots(self) -> tuple[arb, list[float]]:
        """Return a μ slightly above the float path's, and the intervals of its proof.

        The smallest of `_WIDTHS` is taken that needs no more than 2500 intervals.
        """
        estimate = self.profile.mu
        is_unbounded = math.isinf(self.profile.loss_table.max_loss)
        for width in _WIDTHS:
            candidate = arb(estimate) * (1 + arb(width))
            end = self.profile.pure_epsilon
            if is_unbounded:
                end = self._closing_eps(candidate)
            knots = self._knots(float(candidate), end)
            if len(knots) <= _MOST_INTERVALS:
                return candidate, knots
        raise NotResolved(
            "μ could not be certified: δ is too close to a Gaussian's for too long"
        )

    def _prove_below(self, mu: arb, knots: list[float]) -> None:
        """Prove δ <= δ_μ between the knots, halving intervals where a proof fails."""
        pending = list(pairwise(knots))
        n_proved = 0
        while pending:
            a, b = pending.pop()
            if self._chord_is_below(a, b, mu):
                n_proved += 1
                continue
            if n_proved + len(pending) > _MOST_PROOFS or b - a < 1e-12 * b:
                raise NotResolved("μ could not be certified")
            middle = (a + b) / 2
            pending += [(a, middle), (middle, b)]

    def _knots(self, mu: float, end: float) -> list[float]:
        """Return ends of intervals on which the chord of δ should lie below δ_μ.

        They are suggested by floats and decided by `_chord_is_below`. Over a step h of
        ε the chord in u = e^ε exceeds δ by the fraction h²/8·u²δ″/δ, and there is room
        for log δ_μ − log δ.
        """
        table = self.profile.loss_table
        last = min(end, table.end)
        candidates = np.append(
            table.grid(), np.linspace(0.0, 8 * self.profile.rao, 400)
        )
        grid = np.unique(np.minimum(candidates, last))
        log_delta = table.log_delta(grid)
        log_gdp = gdp_log_delta(mu, grid)
        # From the first of these on, δ(ε) is below δ_μ(end): one interval is enough.
        log_gdp_at_end = float(gdp_log_delta(mu, np.array([end]))[0])
        below_end = np.nonzero(log_delta + 1e-3 < log_gdp_at_end)[0]
        if len(below_end):
            n_used = below_end[0] + 1
            grid, log_delta, log_gdp = (
                grid[:n_used],
                log_delta[:n_used],
                log_gdp[:n_used],
            )
        if len(grid) < 3:
            return [0.0, *grid[1:].tolist(), end]

        count = _interval_count(grid, log_delta, log_gdp)
        if count[-1] > 10 * _MOST_INTERVALS:
            return [0.0] * (10 * _MOST_INTERVALS)
        n_intervals = math.ceil(count[-1])
        positions = np.linspace(0.0, count[-1], n_intervals + 1)
        knots = np.interp(positions, count, grid).tolist()
        return [*knots, end] if end > knots[-1] else knots

    # ---- the tail on a hyperbolic space

    def _closing_eps(self, mu: arb) -> float:
        """Return an ε beyond which δ <= δ_μ is a theorem, for a hyperbolic space.

        ε = (2rD + D²)/2s² with the first radius r, growing geometrically, that closes.
        """
        s, distance = self._parameters()
        r = float(s) / 4
        while not self._radius_closes(mu, arb(r)):
            r *= 1.125
            if r > 1e6:
                raise NotResolved("the tail of the privacy loss could not be closed")
        eps = (2 * r * distance + distance * distance) / (2 * s * s)
        return math.nextafter(float(eps.upper()), math.inf)

    def _radius_closes(self, mu: arb, r: arb) -> bool:
        """Say whether δ <= δ_μ is proved for every ε >= (2rD + D²)/2s².

        docs/exact-profiles.md, Theorem P2, the tail with the angle. With n = d − 1,
        a = n/2, q = D/s² and the slope −(log ρ)′ = r/s² − n·coth r, two conditions:

        - the bound falls faster than δ_μ from r on:
          n(coth r − 1/r)/r + aD/(r²(r + D)) <= (1 − (D/sμ)²)/s²;
        - at r it is below δ_μ(ε) >= φ(x)·μ/(y + √2)², x, y = ε/μ ∓ μ/2.

        False also where a slope <= 0 makes the bound no number.
        """
        s, D = self._parameters()
        n = self.d - 1
        a = arb(n) / 2
        room = (1 - (D / s / mu) ** 2) / (s * s)
        falls = n * (r.coth() - 1 / r) / r + a * D / (r * r * (r + D)) <= room

        q = D / (s * s)
        eps = q * (r + D / 2)
        x = eps / mu - mu / 2
        y = eps / mu + mu / 2
        slope = r / (s * s) - n * r.coth()
        log_constant = arb(0) if n == 1 else (2 * a).lgamma() - 2 * a.lgamma() - a.log()
        log_angle = (
            log_constant
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
        return bool(x > 0 and falls and log_tail <= log_gdp)

    def _log_density(self, r: arb) -> arb:
        """Return log(ρ(r)/∫ρ) or more: the integral is over a window only."""
        return self._log_rho(acb(r)).real - self._smallest_mass.log()

    def _log_rho(self, r: acb) -> acb:
        """Return log(ρ(r)/ρ(m)) of the Gaussian on a hyperbolic space, m its mode."""
        s, _ = self._parameters()
        mode = arb(self._law.mode)
        log_weight = (mode - r) * (mode + r) / (2 * s * s)
        return log_weight + (self.d - 1) * (r.sinh() / acb(mode).sinh()).log()

    @cached_property
    def _smallest_mass(self) -> arb:
        """A lower bound on ∫ρ, in units of ρ(m)."""
        law = self._law
        start, end = self._window(60.0)
        start = max(start, 1e-3 * law.mode)  # keeps the logarithm away from 0
        mass = enclose_integral(
            lambda r, _: self._log_rho(r).exp(),
            arb(start),
            arb(end),
            tolerance=arb(law.width * 1e-12),
        )
        return mass.lower()

    # ---- one interval

    def _chord_is_below(self, a: float, b: float, mu: arb) -> bool:
        """Say whether the chord of δ over [e^a, e^b] is proved to lie below δ_μ.

        δ(a) < δ_μ(b) is enough, since both fall. Else the gap δ_μ − chord, convex in u,
        is bounded from below by its tangents on 24 pieces: on each, a tangent at one
        end rises inwards, or the two tangents meet above 0.
        """
        delta_a = self.delta(a)
        delta_b = self.delta(b) if b < self.profile.pure_epsilon else arb(0)
        with precision(_PROOF_BITS):
            if delta_a.upper() < gdp_delta_and_slope(mu, arb(b))[0]:
                return True

            u_a, u_b = arb(a).exp(), arb(b).exp()
            chord_slope = (delta_b.upper() - delta_a.upper()) / (u_b - u_a)
            ends = [u_a + (u_b - u_a) * i / _TANGENTS for i in range(_TANGENTS + 1)]
            gaps = []
            for u in ends:
                value, slope = gdp_delta_and_slope(mu, u.log())
                chord = delta_a.upper() + chord_slope * (u - u_a)
                gaps.append((value - chord, slope - chord_slope))

            for i in range(_TANGENTS):
                (left, left_slope), (right, right_slope) = gaps[i], gaps[i + 1]
                if not (left > 0 and right > 0):
                    return False
                rises_inwards = left_slope >= 0 or right_slope <= 0
                if rises_inwards:
                    continue
                width = ends[i + 1] - ends[i]
                meeting = (right - right_slope * width - left) / (
                    left_slope - right_slope
                )
                if not left + left_slope * meeting > 0:
                    return False
            return True


def _interval_count(grid: Array, log_delta: Array, log_gdp: Array) -> Array:
    """Return how many intervals are needed from 0 up to each ε of a grid."""
    slope = np.gradient(log_delta, grid)
    curvature = np.maximum(slope**2 + np.gradient(slope, grid) - slope, 1e-12)
    room = np.clip(log_gdp - log_delta, 1e-9, 2.0)
    steps = np.sqrt(8 * 0.6 * room / curvature)
    intervals = np.diff(grid) * (1 / steps[1:] + 1 / steps[:-1]) / 2
    return np.concatenate([[0.0], np.cumsum(intervals)])


def gdp_delta_and_slope(mu: arb, eps: arb) -> tuple[arb, arb]:
    """Return δ_μ(ε) and its derivative in u = e^ε, which is −Φ(−ε/μ − μ/2)."""
    second = normal_cdf(-eps / mu - mu / 2)
    return normal_cdf(-eps / mu + mu / 2) - eps.exp() * second, -second


def mu_lower(delta: arb, eps: float) -> float:
    """Return a float below the μ at which δ_μ(ε) = δ, by bisection in balls."""
    low = 0.0
    high = 1.0
    with precision(256):
        while gdp_delta_and_slope(arb(high), arb(eps))[0] < delta:
            low, high = high, 2 * high
        for _ in range(60):
            middle = (low + high) / 2
            if gdp_delta_and_slope(arb(middle), arb(eps))[0] < delta:
                low = middle
            else:
                high = middle
    return low
