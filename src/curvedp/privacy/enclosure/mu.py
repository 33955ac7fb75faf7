"""Proved lower and upper bounds on the smallest μ for which noise satisfies μ-GDP.
μ-GDP (Gaussian differential privacy) means δ(ε) <= δ_μ(ε) for every ε >= 0, where δ is
the profile of the noise and δ_μ the profile of N(0, 1) against N(μ, 1). A ball (arb) is
a number with an error bound.

The lower bound is the μ with δ_μ(ε) = δ(ε) at one ε, from a proved δ. The upper bound
comes with a proof of δ <= δ_μ on all of [0, ∞). Both profiles are convex in u = e^ε, so
that between two proved values δ lies below their chord; intervals are halved until the
chord lies below δ_μ. On hyperbolic spaces, large ε are covered by a theorem
(docs/theory/exact-profiles.md, Theorem P2).
"""

import math
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from flint import arb

from curvedp.errors import NotResolved
from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.enclosures import precision
from curvedp.privacy.enclosure.delta import DeltaEnclosure
from curvedp.privacy.enclosure.functions import normal_cdf
from curvedp.privacy.enclosure.hyperbolic_tail import HyperbolicTail
from curvedp.privacy.enclosure.rounding import (
    OUTWARD_MARGIN,
    float_above,
    outward_floats,
)
from curvedp.privacy.guarantees.gaussian import gdp_log_delta
from curvedp.privacy.profiles.constant_curvature import constant_curvature_profile

# Relative widths of the enclosure of μ. The first one that needs at most
# `_MOST_INTERVALS` intervals is used.
_RELATIVE_WIDTHS = (9e-7, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 1e-2)
# The largest number of intervals of a proof, at its start and after halving.
_MOST_INTERVALS = 2500
# A proof is not tried if its knots suggest this many times as many intervals.
_HOPELESS_FACTOR = 10
# The even grid from which knots are suggested: its end in units of the Rao distance,
# and its number of points.
_LIKELY_DEVIATIONS = 8
_LIKELY_POINTS = 400
_MOST_HALVED_INTERVALS = 20000
# The number of shorter intervals on each of which δ_μ is bounded by its tangents.
_TANGENT_INTERVALS = 24
# The precision of these bounds, in bits.
_PROOF_BITS = 160
# The fraction of log δ_μ − log δ that the error of a chord may use. It only suggests
# how long the intervals are.
_USED_FRACTION = 0.6
# Knots are the ends of the intervals of a proof. In the search for them, log δ must be
# below log δ_μ by this much to count as below.
_KNOT_MARGIN = 1e-3
# Limits of the estimates from which the lengths of intervals are suggested.
_SMALLEST_CURVATURE = 1e-12  # of u²δ″/δ, which is a divisor
_SMALLEST_ROOM = 1e-9  # of the difference log δ_μ − log δ
_LARGEST_ROOM = 2.0
# An interval of the proof that is shorter than this part of its end is not halved.
_SHORTEST_INTERVAL = 1e-12
# Bisections of a lower bound on μ: more than the 53 bits of a float; and their precision.
_BISECTIONS = 60
_BISECTION_BITS = 256


def certified_mu(
    kind: str,
    curvature: float,
    dim: int,
    scale: float,
    sensitivity: float,
) -> tuple[float, float]:
    """Return proved bounds (lower, upper) on the smallest μ of Gaussian DP.

    They are at most 1e-6 apart relative to μ, or up to 1e-2 apart if that would be too
    much work. If δ is nearly that of Gaussian noise on flat space, this takes minutes.

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

    Returns
    -------
    lower, upper : float
        Bounds with 0 <= lower <= μ <= upper.

    Raises
    ------
    NotResolved
        If even bounds that are 1e-2 apart could not be proved.

    Examples
    --------
    >>> lower, upper = certified_mu("gaussian", 0.0, 3, 2.0, 1.0)
    >>> lower <= 0.5 <= upper
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
    if profile.is_closed_form:
        return outward_floats(arb(sensitivity) / arb(scale))
    return MuEnclosure(profile).mu()


class MuEnclosure(DeltaEnclosure):
    """Computes proved bounds on the smallest μ of Gaussian DP for one profile.

    Parameters
    ----------
    profile : ConstantCurvatureProfile or ProjectiveProfile
        The profile of isotropic noise on a space of constant curvature.
    """

    # Very small values of δ count too: they are compared with those of a Gaussian.
    smallest_log = -1e5

    @cached_property
    def hyperbolic_tail(self) -> HyperbolicTail:
        """The theorem that covers large ε, for Gaussian noise on a hyperbolic space."""
        return HyperbolicTail(self.noise)

    def mu(self) -> tuple[float, float]:
        """Return proved bounds (lower, upper) on the smallest μ of Gaussian DP.

        δ_μ is the profile of N(0, 1) against N(μ, 1), and δ that of the noise. The
        lower bound is the larger one of the two μ with δ_μ(ε) = δ(ε) at ε = 0 and at
        the ε that seems to need the largest μ. The upper bound is slightly above the μ
        that was computed in floats; δ <= δ_μ is proved for it on all of [0, ∞).

        Returns
        -------
        lower, upper : float
            Bounds with 0 <= lower <= μ <= upper.
        """
        # The ε that seems to need the largest μ, according to floats.
        grid = self.profile.loss_table.grid()
        mu_on_grid = self.profile._mu_at(grid)
        worst_eps = float(grid[int(mu_on_grid.argmax())])

        # The lower bound, from a proved δ at two ε.
        candidate, knots = self._choose_candidate()
        lower = max(mu_lower_bound(self.delta(eps), eps) for eps in {0.0, worst_eps})
        lower = max(lower * (1 - OUTWARD_MARGIN), 0.0)

        # The upper bound: the candidate, once it is proved.
        self._prove_below(candidate, knots)  # raises if there is no proof
        upper = float_above(candidate.upper()) * (1 + OUTWARD_MARGIN)
        return lower, upper

    def _choose_candidate(self) -> tuple[arb, list[float]]:
        """Return an upper bound on μ to be proved, and the intervals for its proof.

        The candidate is (1 + width) times the μ that was computed in floats. A larger
        width makes the proof easier, and the bound less sharp. Eight widths are tried
        in increasing order (`_RELATIVE_WIDTHS`). The first one is used for which the
        proof should need at most 2500 intervals of ε (`_MOST_INTERVALS`).

        Returns
        -------
        candidate : arb
            The upper bound on μ that is to be proved.
        knots : list of float
            Increasing ε's, starting at 0, that end the intervals of the proof.

        Raises
        ------
        NotResolved
            If every width needs too many intervals.
        """
        estimate = self.profile.mu
        is_unbounded = math.isinf(self.profile.loss_table.max_loss)
        for width in _RELATIVE_WIDTHS:
            # Choose the number to be proved, and the ε up to which a proof is needed.
            candidate = arb(estimate) * (1 + arb(width))
            # Beyond this ε, δ is 0 or a theorem bounds it.
            end = self.profile.pure_epsilon
            if is_unbounded:
                end = self.hyperbolic_tail.smallest_eps(candidate)
            knots = self._suggest_knots(float(candidate), end)
            if knots is not None and len(knots) <= _MOST_INTERVALS:
                return candidate, knots
        raise NotResolved(
            "μ could not be certified, because δ is close to the profile of a Gaussian "
            "over a long range of ε"
        )

    def _prove_below(self, mu: arb, knots: list[float]) -> None:
        """Prove δ <= δ_μ on an interval of ε, or raise an error if there is no proof.

        δ is the profile of the noise, and δ_μ the profile of N(0, 1) against N(μ, 1).
        Each interval between two knots has a proof of its own. If that fails, the
        interval is halved.

        Parameters
        ----------
        mu : arb
            The upper bound on μ that is to be proved.
        knots : list of float
            Increasing ε's, from the beginning of the whole interval to its end.

        Raises
        ------
        NotResolved
            If too many intervals are needed, or one becomes too short.
        """
        pending = list(pairwise(knots))
        n_proved = 0
        while pending:
            start, stop = pending.pop()

            # Try to prove the inequality on this interval.
            if self._is_proved_by_chord(start, stop, mu):
                n_proved += 1
                continue

            # Without a proof, give up or try both halves.
            is_too_short = stop - start < _SHORTEST_INTERVAL * stop
            if n_proved + len(pending) > _MOST_HALVED_INTERVALS or is_too_short:
                raise NotResolved(
                    "μ could not be certified: no proof between "
                    f"ε = {start:g} and {stop:g}"
                )
            middle = (start + stop) / 2
            pending += [(start, middle), (middle, stop)]

    def _suggest_knots(self, mu: float, end: float) -> list[float] | None:
        """Return ε's (knots) between which chords of δ should lie below δ_μ.

        δ is the profile of the noise, δ_μ the profile of N(0, 1) against N(μ, 1), and a
        chord is a straight line in u = e^ε between two points of δ. The knots are only
        a suggestion, computed in floats; `_is_proved_by_chord` proves the inequality.
        Where δ is closer to δ_μ, or more curved, the knots are closer together.

        Parameters
        ----------
        mu : float
            The μ that is to be proved.
        end : float
            The ε beyond which nothing has to be proved.

        Returns
        -------
        list of float or None
            Increasing ε's from 0 to `end`; None if far too many would be needed.
        """
        # log δ and log δ_μ on a grid of ε.
        grid = self._even_and_tabulated_eps(end)
        log_delta = self.profile.loss_table.log_delta(grid)
        log_gdp = gdp_log_delta(mu, grid)

        # Once δ(ε) is below δ_μ(end), one last interval is enough.
        log_gdp_at_end = float(gdp_log_delta(mu, np.array([end]))[0])
        is_below_end = log_delta + _KNOT_MARGIN < log_gdp_at_end
        if np.any(is_below_end):
            n_used = int(np.argmax(is_below_end)) + 1
            grid = grid[:n_used]
            log_delta = log_delta[:n_used]
            log_gdp = log_gdp[:n_used]
        if len(grid) < 3:  # too few points for a second derivative
            return [0.0, *grid[1:].tolist(), end]

        # How many intervals are needed up to each ε of the grid.
        intervals_before = _cumulative_interval_count(grid, log_delta, log_gdp)
        n_needed = intervals_before[-1]
        if n_needed > _HOPELESS_FACTOR * _MOST_INTERVALS:
            return None

        # A knot is an ε up to which a whole number of intervals is needed, roughly.
        positions = np.linspace(0.0, n_needed, math.ceil(n_needed) + 1)
        knots = np.interp(positions, intervals_before, grid).tolist()
        return [*knots, end] if end > knots[-1] else knots

    def _even_and_tabulated_eps(self, end: float) -> Array:
        """Return a grid of ε at which δ is read from its table, to suggest knots.

        It consists of the grid of the table, and an even one over the losses that are
        likely: few exceed eight times the Rao distance, the standard deviation of a
        small loss.

        Parameters
        ----------
        end : float
            The largest ε of interest.

        Returns
        -------
        array
            Increasing ε from 0 to `end`, or to the end of the table.
        """
        table = self.profile.loss_table
        largest_likely_loss = _LIKELY_DEVIATIONS * self.profile.rao
        likely = np.linspace(0.0, largest_likely_loss, _LIKELY_POINTS)
        candidates = np.append(table.grid(), likely)
        return np.unique(np.minimum(candidates, min(end, table.end)))

    # ---- one interval

    def _is_proved_by_chord(self, a: float, b: float, mu: arb) -> bool:
        """Return whether δ <= δ_μ is proved on an interval [a, b] of ε by a chord of δ.

        δ is the profile of the noise, and δ_μ the profile of N(0, 1) against N(μ, 1).
        There are two ways to prove it:

        - δ(a) < δ_μ(b) suffices, because both functions decrease.
        - As a function of u = e^ε, δ is convex and lies below its chord, the straight
          line between its values at a and b. The gap δ_μ − chord is convex in u too. On
          24 shorter intervals its tangents prove that it is positive.

        It must never return True without a proof; tests/privacy/test_certify_mu.py
        contains a μ for which the inequality fails between the points.

        Parameters
        ----------
        a : float
            The lower end of the interval of ε.
        b : float
            The upper end of the interval of ε.
        mu : arb
            The μ that is to be proved.

        Returns
        -------
        bool
            False says only that this argument does not prove it.
        """
        # δ at both ends; it is 0 from the largest loss on.
        ball_a = self.delta(a)
        ball_b = self.delta(b) if b < self.profile.pure_epsilon else arb(0)
        with precision(_PROOF_BITS):
            delta_a = ball_a.upper()
            delta_b = ball_b.upper()
            delta_mu_at_b, _ = gdp_delta_and_slope(mu, arb(b))
            if delta_a < delta_mu_at_b:
                return True

            chord = _Chord.between(arb(a).exp(), delta_a, arb(b).exp(), delta_b)
            return _lies_below_gdp(chord, mu)


class _Chord(NamedTuple):
    """A straight line in u = e^ε between two points of a privacy profile."""

    start: arb  # the first u
    stop: arb  # the last u
    height: arb  # of the line at `start`
    slope: arb

    @classmethod
    def between(cls, u_a: arb, delta_a: arb, u_b: arb, delta_b: arb) -> "_Chord":
        """Return the chord between the points (u_a, delta_a) and (u_b, delta_b)."""
        return cls(u_a, u_b, delta_a, (delta_b - delta_a) / (u_b - u_a))

    def height_at(self, u: arb) -> arb:
        """Return the height of the chord at u."""
        return self.height + self.slope * (u - self.start)


def _lies_below_gdp(chord: _Chord, mu: arb) -> bool:
    """Return whether a chord is proved to lie below the profile δ_μ of Gaussian DP.

    As a function of u = e^ε, the gap δ_μ − chord is convex. On each of 24 shorter
    intervals, its tangents at both ends bound it from below.

    Parameters
    ----------
    chord : _Chord
        The chord.
    mu : arb
        The parameter μ of Gaussian DP.

    Returns
    -------
    bool
        False says only that the tangents prove nothing.
    """
    length = chord.stop - chord.start
    ends = [
        chord.start + length * i / _TANGENT_INTERVALS
        for i in range(_TANGENT_INTERVALS + 1)
    ]
    gaps = []
    for u in ends:
        delta_mu, slope_of_delta_mu = gdp_delta_and_slope(mu, u.log())
        gap = _Gap(delta_mu - chord.height_at(u), slope_of_delta_mu - chord.slope)
        gaps.append(gap)
    return all(
        _is_positive_between(gaps[i], gaps[i + 1], ends[i + 1] - ends[i])
        for i in range(_TANGENT_INTERVALS)
    )


def _cumulative_interval_count(grid: Array, log_delta: Array, log_gdp: Array) -> Array:
    """Return about how many intervals a proof of δ <= δ_μ needs up to each ε of a grid.

    In each interval, δ is bounded by its chord, a straight line in u = e^ε. Over a step
    h of ε the chord exceeds δ by the fraction h²/8·u²δ″/δ. It must stay below δ_μ, so
    this excess may use 60 % of the room, which is log δ_μ − log δ.

    Parameters
    ----------
    grid : array
        Increasing ε's from 0 on.
    log_delta, log_gdp : array
        log δ and log δ_μ there.

    Returns
    -------
    array
        The counts, as increasing floats.
    """
    # u²δ″/δ, expressed by derivatives of log δ in ε.
    slope = np.gradient(log_delta, grid)
    curvature = slope**2 + np.gradient(slope, grid) - slope
    curvature = np.maximum(curvature, _SMALLEST_CURVATURE)

    # The step h at which the chord uses 60 % of the room.
    room = np.clip(log_gdp - log_delta, _SMALLEST_ROOM, _LARGEST_ROOM)
    steps = np.sqrt(8 * _USED_FRACTION * room / curvature)

    # The integral of 1/step over ε, by the trapezoidal rule.
    n_intervals = np.diff(grid) * (1 / steps[1:] + 1 / steps[:-1]) / 2
    return np.concatenate([[0.0], np.cumsum(n_intervals)])


class _Gap(NamedTuple):
    """The gap δ_μ − chord at one u = e^ε, and its derivative in u."""

    value: arb
    slope: arb


def _is_positive_between(left: _Gap, right: _Gap, width: arb) -> bool:
    """Return whether a convex function is proved to be positive on an interval.

    The function is the gap between δ_μ and a chord of δ. A convex function lies above
    its tangents. So it is positive if it is positive at both ends and either the
    tangent at one end rises inward, or the two tangents meet above 0.

    Parameters
    ----------
    left, right : _Gap
        The values and slopes at the two ends.
    width : arb
        The length of the interval.

    Returns
    -------
    bool
        False says only that the tangents prove nothing.
    """
    if not (left.value > 0 and right.value > 0):
        return False
    rises_inward = left.slope >= 0 or right.slope <= 0
    if rises_inward:
        return True
    # The distance from the left end at which the two tangents meet.
    meeting_point = (right.value - right.slope * width - left.value) / (
        left.slope - right.slope
    )
    return bool(left.value + left.slope * meeting_point > 0)


def gdp_delta_and_slope(mu: arb, eps: arb) -> tuple[arb, arb]:
    """Return δ_μ(ε) and its derivative in u = e^ε, which is −Φ(−ε/μ − μ/2).

    They prove that a chord of another profile lies below δ_μ.
    δ_μ(ε) = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2) is the profile of N(0, 1) against N(μ,
    1), with Φ the normal distribution function.

    Parameters
    ----------
    mu : arb
        The parameter μ > 0 of Gaussian DP, as a ball.
    eps : arb
        The privacy parameter ε >= 0, as a ball.

    Returns
    -------
    delta, slope : arb
        Balls around δ_μ(ε) and dδ_μ/du.
    """
    tail = normal_cdf(-eps / mu - mu / 2)
    return normal_cdf(-eps / mu + mu / 2) - eps.exp() * tail, -tail


def mu_lower_bound(delta: arb, eps: float) -> float:
    """Return a proved lower bound on the μ with δ_μ(ε) = δ, by bisection.

    No smaller μ can hold for noise with this δ at ε. δ_μ is the profile of N(0, 1)
    against N(μ, 1). It increases with μ.

    Parameters
    ----------
    delta : arb
        A ball around δ(ε).
    eps : float
        The privacy parameter ε >= 0.

    Returns
    -------
    float
        A μ at which δ_μ(ε) < δ was proved, within rounding of the largest such μ; or 0.
    """
    low = 0.0
    high = 1.0

    with precision(_BISECTION_BITS):
        # Double μ until δ_μ(ε) < δ is no longer proved, then bisect.
        while gdp_delta_and_slope(arb(high), arb(eps))[0] < delta:
            low, high = high, 2 * high
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if gdp_delta_and_slope(arb(middle), arb(eps))[0] < delta:
                low = middle
            else:
                high = middle
    return low
