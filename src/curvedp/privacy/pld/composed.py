"""δ(ε) of many independent privacy losses together, sharp at every ε.

A few exponential tilts (see `convolve`) serve every ε: each is best at one level of δ,
from 1 down to 1e-44, and serves the losses up to halfway to the mean of the next one.
For each tilt a grid and a window are chosen from a coarse picture of the losses, which
decides how tight the bounds are, not whether they hold. What lies beyond the window is
bounded by Chernoff's inequality.
"""

import math
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from curvedp.numerics.directed_rounding import Array, round_up
from curvedp.privacy.pld.convolve import (
    MANY_STEPS,
    Factor,
    convolve_tilted,
    exponential_tilt,
    hockey_stick_divergence,
    log_tail_mass,
    mass_at_infinity,
)
from curvedp.privacy.pld.discretize import (
    DiscretePLD,
    PairProfile,
    U,
    connect_the_dots,
)

_MIN_WINDOW_POINTS = 1 << 15
_MAX_WINDOW_POINTS = 1 << 20
_COARSE_GROWTH = 0.03
_COARSE_MIN_POINTS = 200
# −log δ at which the tilts are best, down to e^-101 = 1e-44.
_LEVELS = (6.0, 18.0, 36.0, 60.0, 90.0)
# A window leaves out e^-26 of a tilted distribution on each side.
_WINDOW_LEVEL = 26.0
# The log of how much rounding errors may be magnified before another tilt is asked as
# well: e^20·u is 5e-8.
_MAX_MAGNIFICATION = 20.0


class TiltCenter(NamedTuple):
    """A tilt and where it is best."""

    rate: float  # λ
    mean_loss: float  # of the tilted distribution


class Window(NamedTuple):
    """The grid and the losses over which one tilt is computed."""

    rate: float  # λ
    width: float  # of the grid
    low: float  # the first loss
    high: float  # the last loss
    rate_below: float  # of Chernoff's bound below the window; infinite if nothing is
    rate_beyond: float  # of Chernoff's bound beyond it; infinite if nothing is


class Curve(NamedTuple):
    """δ at consecutive multiples of a width."""

    width: float
    first_index: int
    delta: Array


class ComposedPLD:
    """The profile of independent privacy losses together; every number is rounded up.

    Parameters
    ----------
    pairs : tuple of PairProfile
        Upper bounds on the profile of each mechanism, in both directions.
    counts : tuple of int
        How often each is used. Rounding is charged in proportion: beyond 10⁹ uses
        nothing is left to say.
    fineness : float
        Multiplies the number of grid points; less is faster and looser.
    """

    def __init__(
        self,
        pairs: tuple[PairProfile, ...],
        counts: tuple[int, ...],
        fineness: float = 1.0,
    ) -> None:
        """Discretize every mechanism coarsely, to see where its losses are."""
        self._pairs = pairs
        self._counts = counts
        self._fineness = fineness
        # With very many steps a tilt may favor rare large losses over the small ones
        # that add up, whose sum is sharp without a tilt.
        self._has_many_steps = min(counts) >= MANY_STEPS
        most_used = pairs[int(np.argmax(counts))]
        self._largest_loss_of_most_used = most_used.truncation

        coarse_widths = [
            2.0 ** math.floor(math.log2(pair.truncation) - 24) for pair in pairs
        ]
        self._coarse = [
            connect_the_dots(pair, width, _COARSE_GROWTH, _COARSE_MIN_POINTS)
            for pair, width in zip(pairs, coarse_widths, strict=True)
        ]
        self._smallest_width = max(coarse_widths)
        self._discretized: dict[float, list[DiscretePLD]] = {}
        self._curves: dict[int, Curve] = {}

    # ---- δ and ε

    def delta(self, eps: Array) -> Array:
        """Return δ(ε) of the discrete pair: linear in e^ε between grid points."""
        out = np.ones(eps.shape)
        tilt_of_eps = np.searchsorted(self.ends[:-1], eps)
        for k in np.unique(tilt_of_eps):
            is_served = tilt_of_eps == k
            out[is_served] = self._delta_by_tilt(int(k), eps[is_served])
        if self._has_many_steps:
            return np.minimum(out, self._interpolate(0, eps))
        return out

    def bracket_epsilon(self, delta: float) -> tuple[float, float]:
        """Return losses around the smallest ε >= 0 with δ(ε) <= delta.

        As few tilts as possible are computed. (inf, inf) says that there is no such ε.
        """
        ends = self.ends
        visited: set[int] = set()
        k = 0
        if not self._has_many_steps:
            best_level = int(np.searchsorted(_LEVELS, -math.log(delta)))
            k = min(best_level, len(ends) - 1)

        while True:
            begin = math.nextafter(ends[k - 1], math.inf) if k else 0.0
            end = min(ends[k], 1e300)
            delta_at_begin, delta_at_end = self.delta(np.array([begin, end]))
            visited.add(k)
            if delta_at_begin <= delta and k and k - 1 not in visited:
                k -= 1
            elif delta_at_end > delta and k + 1 < len(ends):
                k += 1
            elif delta_at_end > delta:
                return math.inf, math.inf
            else:
                break

        curve = self._curve(k)
        start = max(math.ceil(begin / curve.width) - curve.first_index, 0)
        meeting = np.nonzero(curve.delta[start:] <= delta)[0]
        if not len(meeting):
            return begin, ends[k]
        next_index = curve.first_index + start + meeting[0] + 1
        return begin, min(float(next_index * curve.width), ends[k])

    def _delta_by_tilt(self, k: int, eps: Array) -> Array:
        """Return δ(ε) by tilt k, and far below its own losses by earlier tilts as well.

        Rounding counts e^{λ(loss − ε)}-fold there. Such ε occur where losses lie in
        heaps apart, as when a bounded loss is composed with a small Gaussian one.
        """
        value = self._interpolate(k, eps)
        center = self.centers[k]
        magnification = center.rate * np.maximum(center.mean_loss - eps, 0.0)
        is_magnified = magnification > _MAX_MAGNIFICATION
        if k and is_magnified.any():
            earlier = self._delta_by_tilt(k - 1, eps[is_magnified])
            value[is_magnified] = np.minimum(value[is_magnified], earlier)
        return value

    def _interpolate(self, k: int, eps: Array) -> Array:
        """Return δ(ε) by the curve of tilt k, linear in e^ε between its grid points.

        Below the window it is the chord to e^ε = 0, where every profile is 1: the
        profile is convex there.
        """
        width, first, delta = self._curve(k)
        last_loss = (first + len(delta) - 1) * width
        position = np.minimum(eps, last_loss) / width * (1 - 4 * U)  # rounded down
        left = np.maximum(np.floor(position).astype(np.int64) - first, 0)
        right = np.minimum(left + 1, len(delta) - 1)
        weight = np.expm1((position - left - first) * width) / math.expm1(width)
        weight = np.clip(weight, 0.0, 1.0)
        inside = delta[left] * (1 - weight) + delta[right] * weight
        inside = np.minimum(round_up(inside, 1e-15), 1.0)

        rise = -np.expm1(np.minimum(position - first, 0.0) * width)
        below = delta[0] + (1 - delta[0]) * rise
        below = np.minimum(round_up(below, 1e-14), 1.0)
        return np.asarray(np.where(position < first, below, inside))

    # ---- one tilt

    def _curve(self, k: int) -> Curve:
        """Return the curve of tilt k, computed once."""
        if k not in self._curves:
            self._curves[k] = self._compute_curve(self.window(k))
        return self._curves[k]

    def _factors(self, width: float) -> list[Factor]:
        """Return the distributions on the grid of a given width, with their counts."""
        if width not in self._discretized:
            self._discretized[width] = [
                connect_the_dots(pair, width) for pair in self._pairs
            ]
        return list(zip(self._discretized[width], self._counts, strict=True))

    def _compute_curve(self, window: Window) -> Curve:
        """Convolve the losses with one tilt and return δ at the grid points >= 0."""
        rate, width = window.rate, window.width
        factors = self._factors(width)
        last = sum(count * int(pld.index[-1]) for pld, count in factors)
        if math.isinf(window.rate_below):
            start = -last
        else:
            start = math.floor(window.low / width)
        if math.isinf(window.rate_beyond):
            end = last + 1
        else:
            end = math.ceil(window.high / width)
        # The window comes from a coarse grid, on which losses may reach farther than
        # here.
        end = max(end, start + 1)
        size = 1 << max(math.ceil(math.log2(end - start + 1)), 4)

        masses, kappa, error = convolve_tilted(factors, rate, size)
        first = max(start, 0)
        grid = np.arange(first, start + size)
        delta = hockey_stick_divergence(
            np.roll(masses, -start)[first - start :], rate, width, error
        )
        exponent = kappa - rate * (grid * width)
        rounding = 8 * U * (abs(kappa) + np.abs(exponent) + 8)
        delta *= np.exp(np.minimum(exponent + rounding, 700.0))
        delta[grid >= last] = 0.0

        log_beyond = log_tail_mass(
            factors, window.rate_beyond, (start + size - 1) * width
        )
        outside = mass_at_infinity(factors) + math.exp(log_beyond)
        return Curve(width, first, np.minimum(round_up(delta + outside, 4 * U), 1.0))

    # ---- where the tilts are, from the coarse picture

    @cached_property
    def centers(self) -> list[TiltCenter]:
        """The tilts and the mean losses there, as far as the losses go."""
        _, mean_loss = self._log_moment(0.0)
        candidates = [TiltCenter(0.0, mean_loss)]
        candidates += [self._saddle_point(0.0, level, 1.0) for level in _LEVELS]
        return [center for center in candidates if math.isfinite(center.rate)]

    @cached_property
    def ends(self) -> list[float]:
        """Where the losses end that each tilt serves: halfway to the next mean."""
        means = [center.mean_loss for center in self.centers]
        halfway = [(a + b) / 2 for a, b in pairwise(means)]
        return [*halfway, math.inf]

    def window(self, k: int) -> Window:
        """Return the grid and the window of tilt k.

        A grid of width w adds at most (w/deviation)²/6 to the tilted variance, relative
        to it.
        """
        rate = self.centers[k].rate
        beyond = self._saddle_point(rate, _WINDOW_LEVEL, 1.0)
        below = self._saddle_point(rate, _WINDOW_LEVEL, -1.0)
        length = beyond.mean_loss - below.mean_loss

        n_points = length / max(self._deviation(rate), 1e-300) * 1100
        n_points = min(max(n_points, _MIN_WINDOW_POINTS), _MAX_WINDOW_POINTS)
        size = 2.0 ** round(math.log2(n_points * self._fineness))
        width = self._fit_width(max(length / (size - 8), self._smallest_width))
        return Window(
            rate, width, below.mean_loss, beyond.mean_loss, below.rate, beyond.rate
        )

    def _fit_width(self, width: float) -> float:
        """Return a little more than `width`, so that an atom lies on the grid.

        A bounded loss has an atom at its largest value, half of which would count a
        grid step higher. So that value, for the mechanism used most, becomes a multiple
        of the width. A width of 28 bits makes multiples below 2^25 exact.
        """
        largest = self._largest_loss_of_most_used
        fitted = max(largest / max(largest // width, 1.0), width)
        mantissa, exponent = math.frexp(fitted)
        return math.ldexp(math.ceil(mantissa * 2**28), exponent - 28)

    def _log_moment(self, tilt: float) -> tuple[float, float]:
        """Return κ(λ) and κ′(λ) of the total loss, on the coarse grid."""
        moments = [pld.log_moment(tilt) for pld in self._coarse]
        pairs = list(zip(self._counts, moments, strict=True))
        kappa = math.fsum(count * own for count, (own, _) in pairs)
        slope = math.fsum(count * own for count, (_, own) in pairs)
        return kappa, slope

    def _saddle_point(self, rate: float, level: float, sign: float) -> TiltCenter:
        """Return the tilt at relative entropy `level` from the tilt `rate`.

        It lies to the right for sign = 1, to the left for sign = −1. Where no tilt is
        so far away, the rate is infinite and the loss is the largest there is.
        """
        kappa_at_rate, _ = self._log_moment(rate)

        def entropy_and_mean(step: float) -> tuple[float, float]:
            """Return relative entropy and mean of the tilt rate + sign·step."""
            kappa, mean = self._log_moment(rate + sign * step)
            return sign * step * mean - kappa + kappa_at_rate, mean

        low = 0.0
        high = 1.0 / self._smallest_width
        if entropy_and_mean(high)[0] < level:
            largest_loss = sum(
                count * pld.losses[-1]
                for count, pld in zip(self._counts, self._coarse, strict=True)
            )
            return TiltCenter(sign * math.inf, sign * largest_loss)

        while high > low * 1.02 + 1e-12 / self._smallest_width:
            middle = math.sqrt(low * high) if low else high / 1024
            if entropy_and_mean(middle)[0] < level:
                low = middle
            else:
                high = middle
        return TiltCenter(rate + sign * high, entropy_and_mean(high)[1])

    def _deviation(self, rate: float) -> float:
        """Return a typical deviation of one tilted loss.

        It is the mean absolute deviation times √(π/2): the standard deviation of a
        normal law, and less where jumps are rare.
        """
        total = 0.0
        for pld, count in zip(self._coarse, self._counts, strict=True):
            _, masses = exponential_tilt(pld, rate)
            distances = np.abs(pld.losses - masses @ pld.losses)
            total += count * float(masses @ distances) ** 2
        return math.sqrt(math.pi / 2 * total / sum(self._counts))
