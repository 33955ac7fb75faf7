"""δ(ε) of a composition of mechanisms, from their privacy loss distributions (PLDs).

Theorem C2 (docs/theory/accounting.md). Let the discretized PLD of each mechanism
dominate its profile at every ε (`discretize`). Then the convolution of all of them
dominates the composition, if the errors of the transforms (`convolve`), the mass at
infinity and the mass above the window are added to δ. Every number here is rounded up
accordingly.

`ComposedPLD` convolves the discretized PLDs with the fast Fourier transform. A few
exponential tilts (see `convolve`) keep the result accurate for every δ from 1 down to
1e-44: each tilt is best at one level of δ, and serves the losses up to halfway to the
mean of the next one.

For each tilt, a grid and a window are chosen from a coarse discretization. This choice
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
    UNIT_ROUNDOFF,
    DiscretePLD,
    PairProfile,
    connect_the_dots,
)

# The number of grid points of a window, at most and at least, and per deviation.
_MIN_WINDOW_POINTS = 1 << 15
_MAX_WINDOW_POINTS = 1 << 20
_POINTS_PER_DEVIATION = 1100
# The grid of the coarse discretization, see `loss_grid`.
_COARSE_GROWTH = 0.03
_COARSE_MIN_POINTS = 200
# The values of −log δ at which the tilts are best. δ = 1e-44 is e^-101.
_LEVELS = (6.0, 18.0, 36.0, 60.0, 90.0)
# A window leaves out e^-26 of a tilted distribution on each side.
_WINDOW_LEVEL = 26.0
# Rounding errors that are charged, in units of UNIT_ROUNDOFF, with their lines in the table below
# Theorem C2 (docs/theory/accounting.md), which proves them.
UNTILT_ERROR = 8  # (n): the factor e^{κ−λε} which undoes a tilt
POSITION_ERROR = 4  # (q): the position of ε on the grid, relative
WEIGHT_ERROR = 10  # (r): the weight of the right end of a chord, relative
CHORD_ERROR = 10  # (s): δ on a chord, relative
SUM_ERROR = 8  # (t): δ plus the mass beyond the window, relative
# Rounding errors may be magnified by e^20 (to 5e-8) before an earlier tilt is used too.
_MAX_MAGNIFICATION = 20.0
# The exponent of the largest float is about e^709; larger exponents are cut here.
_LARGEST_EXPONENT = 700.0
# A number near the largest float, which stands for an infinite loss.
_LARGEST_LOSS = 1e300
# The search for a tilt ends where its bracket is narrower than this factor. A tilt that
# is off by 2 % is nearly as good as the best one.
_TILT_TOLERANCE = 1.02
# A deviation below this number counts as this number, so that it can be a divisor.
_SMALLEST_DEVIATION = 1e-300


class TiltCenter(NamedTuple):
    """An exponential tilt, and the loss at which it is best."""

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
    """The privacy profile of a composition of mechanisms; every number is rounded up.

    Parameters
    ----------
    pairs : tuple of PairProfile
        Pessimistic profiles of the mechanisms, in both directions of the adjacency.
    counts : tuple of int
        How often each mechanism is used. The error bounds grow in proportion: beyond
        10⁹ uses they leave nothing to say.
    fineness : float
        A factor of the number of grid points. Less is faster and looser.
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
        """Return δ(ε) of the composition, rounded up.

        A few exponential tilts of the total loss are computed, each of which serves an
        interval of ε. Between the grid points of a tilt, δ is linear in e^ε.

        Parameters
        ----------
        eps : array
            ε >= 0.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        delta = np.ones(eps.shape)
        tilt_of_eps = np.searchsorted(self.ends[:-1], eps)
        for tilt_index in np.unique(tilt_of_eps):
            is_served = tilt_of_eps == tilt_index
            delta[is_served] = self._delta_by_tilt(int(tilt_index), eps[is_served])
        if self._has_many_steps:
            return np.minimum(delta, self._interpolate(0, eps))
        return delta

    def bracket_epsilon(self, delta: float) -> tuple[float, float]:
        """Return losses (low, high) around the smallest ε >= 0 with δ(ε) <= delta.

        As few tilts as possible are computed.

        Parameters
        ----------
        delta : float
            A number from 0 to 1.

        Returns
        -------
        low, high : float
            The bracket; (inf, inf) if there is no such ε.
        """
        tilt_index = self._tilt_around_epsilon(delta)
        if tilt_index is None:
            return math.inf, math.inf
        smallest_served_loss = self._begin_of_tilt(tilt_index)

        curve = self._curve(tilt_index)
        first_row = max(
            math.ceil(smallest_served_loss / curve.width) - curve.first_index, 0
        )
        small_enough = np.nonzero(curve.delta[first_row:] <= delta)[0]
        if not len(small_enough):
            return smallest_served_loss, self.ends[tilt_index]
        next_index = curve.first_index + first_row + small_enough[0] + 1
        return smallest_served_loss, min(
            float(next_index * curve.width), self.ends[tilt_index]
        )

    def _begin_of_tilt(self, tilt_index: int) -> float:
        """Return the smallest ε that a tilt serves: 0, or next to the tilt before it."""
        if tilt_index == 0:
            return 0.0
        return math.nextafter(self.ends[tilt_index - 1], math.inf)

    def _tilt_around_epsilon(self, delta: float) -> int | None:
        """Return the index of the tilt that serves the smallest ε with δ(ε) <= delta.

        The search starts at the tilt that is best at this level of δ, and moves to its
        neighbors until δ crosses `delta` within the losses that a tilt serves.

        Parameters
        ----------
        delta : float
            A number from 0 to 1.

        Returns
        -------
        int or None
            The index of the tilt; None if no ε reaches `delta`.
        """
        n_tilts = len(self.ends)
        visited: set[int] = set()
        tilt_index = 0
        if not self._has_many_steps:
            best_level = int(np.searchsorted(_LEVELS, -math.log(delta)))
            tilt_index = min(best_level, n_tilts - 1)

        while True:
            smallest_loss = self._begin_of_tilt(tilt_index)
            largest_loss = min(self.ends[tilt_index], _LARGEST_LOSS)
            delta_at_begin, delta_at_end = self.delta(
                np.array([smallest_loss, largest_loss])
            )
            visited.add(tilt_index)
            if delta_at_begin <= delta and tilt_index and tilt_index - 1 not in visited:
                tilt_index -= 1
            elif delta_at_end > delta and tilt_index + 1 < n_tilts:
                tilt_index += 1
            elif delta_at_end > delta:
                return None
            else:
                return tilt_index

    def _delta_by_tilt(self, k: int, eps: Array) -> Array:
        """Return δ(ε) by tilt k and, where that loses digits, by earlier tilts too.

        A tilt multiplies masses by e^{λL − κ}, λ its rate and L the loss. Far below the
        mean loss of the tilt, undoing it magnifies a rounding error by e^{λ·(mean loss
        − ε)}. Such ε occur where the losses form separate clusters, as when a bounded
        loss is composed with a small Gaussian one. There the smallest of the bounds by
        several tilts is returned.

        Parameters
        ----------
        k : int
            The index of the tilt.
        eps : array
            ε >= 0.

        Returns
        -------
        array
            Upper bounds on δ(ε).
        """
        value = self._interpolate(k, eps)
        center = self.centers[k]
        log_magnification = center.rate * np.maximum(center.mean_loss - eps, 0.0)
        is_magnified = log_magnification > _MAX_MAGNIFICATION
        if k and is_magnified.any():
            earlier = self._delta_by_tilt(k - 1, eps[is_magnified])
            value[is_magnified] = np.minimum(value[is_magnified], earlier)
        return value

    def _interpolate(self, k: int, eps: Array) -> Array:
        """Return δ(ε) from the curve of tilt k, linear in e^ε between its grid points.

        The profile is convex in e^ε, so that such lines lie above it. Below the first
        grid point the line is the chord to e^ε = 0, where every profile is 1.

        Parameters
        ----------
        k : int
            The index of the tilt.
        eps : array
            ε >= 0.

        Returns
        -------
        array
            Upper bounds on δ(ε), of the shape of `eps`.
        """
        width, first, delta = self._curve(k)
        last_loss = (first + len(delta) - 1) * width
        # Rounding the position and the weight down makes δ larger, because δ decreases
        # (Theorem C2, lines (q) and (r)).
        position = (
            np.minimum(eps, last_loss) / width * (1 - POSITION_ERROR * UNIT_ROUNDOFF)
        )
        left = np.maximum(np.floor(position).astype(np.int64) - first, 0)
        right = np.minimum(left + 1, len(delta) - 1)
        weight = np.expm1((position - left - first) * width) / math.expm1(width)
        weight = np.clip(
            weight * (1 - WEIGHT_ERROR * UNIT_ROUNDOFF * (1 + width)), 0.0, 1.0
        )
        inside = delta[left] * (1 - weight) + delta[right] * weight
        inside = np.minimum(
            round_up(inside, CHORD_ERROR * UNIT_ROUNDOFF), 1.0
        )  # line (s)

        rise = -np.expm1(np.minimum(position - first, 0.0) * width)
        below = delta[0] + (1 - delta[0]) * rise
        below = np.minimum(
            round_up(below, CHORD_ERROR * UNIT_ROUNDOFF), 1.0
        )  # line (s)
        return np.asarray(np.where(position < first, below, inside))

    # ---- one tilt

    def _curve(self, k: int) -> Curve:
        """Return δ at the grid points of tilt k, cached.

        Parameters
        ----------
        k : int
            The index of the tilt.

        Returns
        -------
        Curve
            Upper bounds on δ at the multiples of the grid's width.
        """
        if k not in self._curves:
            self._curves[k] = self._compute_curve(self.window(k))
        return self._curves[k]

    def _factors(self, width: float) -> list[Factor]:
        """Return the mechanisms, discretized on one grid of losses, with their counts; cached.

        Parameters
        ----------
        width : float
            The width of the grid of losses.

        Returns
        -------
        list of (DiscretePLD, int)
            The discretized losses and how often each is used.
        """
        if width not in self._discretized:
            self._discretized[width] = [
                connect_the_dots(pair, width) for pair in self._pairs
            ]
        return list(zip(self._discretized[width], self._counts, strict=True))

    def _compute_curve(self, window: Window) -> Curve:
        """Convolve the privacy losses with one tilt, and return δ at the grid points >= 0.

        The mass at infinity and that beyond the window are added to every δ.

        Parameters
        ----------
        window : Window
            The tilt, the width of the grid, and the range of losses.

        Returns
        -------
        Curve
            Upper bounds on δ at the grid points.
        """
        rate, width = window.rate, window.width
        factors = self._factors(width)
        last_index = sum(count * int(pld.index[-1]) for pld, count in factors)
        if math.isinf(window.rate_below):
            start = -last_index
        else:
            start = math.floor(window.low / width)
        if math.isinf(window.rate_beyond):
            end = last_index + 1
        else:
            end = math.ceil(window.high / width)
        # The window comes from a coarse grid, on which losses may reach farther than
        # here.
        end = max(end, start + 1)
        size = 1 << max(math.ceil(math.log2(end - start + 1)), 4)

        masses, kappa, kappa_magnitude, error = convolve_tilted(factors, rate, size)
        first = max(start, 0)
        grid = np.arange(first, start + size)
        delta = hockey_stick_divergence(
            np.roll(masses, -start)[first - start :], rate, width, error
        )
        exponent = kappa - rate * (grid * width)
        # Theorem C2, line (n).
        rounding = (
            UNTILT_ERROR * UNIT_ROUNDOFF * (kappa_magnitude + np.abs(exponent) + 8)
        )
        delta *= np.exp(np.minimum(exponent + rounding, _LARGEST_EXPONENT))
        delta[grid >= last_index] = 0.0

        log_beyond = log_tail_mass(
            factors, window.rate_beyond, (start + size - 1) * width
        )
        outside = mass_at_infinity(factors) + math.exp(log_beyond)
        delta = np.minimum(
            round_up(delta + outside, SUM_ERROR * UNIT_ROUNDOFF), 1.0
        )  # line (t)
        return Curve(width, first, delta)

    # ---- where the tilts are, from the coarse picture

    @cached_property
    def centers(self) -> list[TiltCenter]:
        """The tilts that are used, with the mean loss under each of them, increasing."""
        _, mean_loss = self._log_moment(0.0)
        candidates = [TiltCenter(0.0, mean_loss)]
        candidates += [self._saddle_point(0.0, level, 1.0) for level in _LEVELS]
        return [center for center in candidates if math.isfinite(center.rate)]

    @cached_property
    def ends(self) -> list[float]:
        """The largest loss that each tilt serves: halfway to the mean of the next one."""
        means = [center.mean_loss for center in self.centers]
        halfway = [(mean + next_mean) / 2 for mean, next_mean in pairwise(means)]
        return [*halfway, math.inf]

    def window(self, k: int) -> Window:
        """Return the grid and the range of losses over which tilt k is computed.

        The range leaves out about e^-26 of the tilted distribution on each side. A grid
        of width w increases the tilted variance by at most the fraction
        (w/deviation)²/6, so that the width is chosen relative to the deviation
        (`_deviation`) of a single loss.

        Parameters
        ----------
        k : int
            The index of a tilt.

        Returns
        -------
        Window
            The rate, the width and the range.
        """
        rate = self.centers[k].rate
        beyond = self._saddle_point(rate, _WINDOW_LEVEL, 1.0)
        below = self._saddle_point(rate, _WINDOW_LEVEL, -1.0)
        length = beyond.mean_loss - below.mean_loss

        deviation = max(self._deviation(rate), _SMALLEST_DEVIATION)
        n_points = length / deviation * _POINTS_PER_DEVIATION
        n_points = min(max(n_points, _MIN_WINDOW_POINTS), _MAX_WINDOW_POINTS)
        size = 2.0 ** round(math.log2(n_points * self._fineness))
        width = self._fit_width(max(length / (size - 8), self._smallest_width))
        return Window(
            rate, width, below.mean_loss, beyond.mean_loss, below.rate, beyond.rate
        )

    def _fit_width(self, width: float) -> float:
        """Return a grid width slightly above `width` that puts the largest loss on the grid.

        A bounded loss has an atom at its largest value. Between two grid points, half
        of it would be moved up to the next one. So the largest loss of the mechanism
        that is used most becomes a multiple of the width. The width has 28 bits, which
        makes its multiples below 2^25 exact.

        Parameters
        ----------
        width : float
            The smallest width that is wanted.

        Returns
        -------
        float
            The width.
        """
        largest = self._largest_loss_of_most_used
        fitted_width = max(largest / max(largest // width, 1.0), width)
        mantissa, exponent = math.frexp(fitted_width)
        return math.ldexp(math.ceil(mantissa * 2**28), exponent - 28)

    def _log_moment(self, tilt: float) -> tuple[float, float]:
        """Return κ(λ) = log E[e^{λL}] and κ′(λ) of the total loss L, on the coarse grid.

        Parameters
        ----------
        tilt : float
            The exponent λ.

        Returns
        -------
        kappa, slope : float
            κ(λ), and κ′(λ), the mean loss under the tilt.
        """
        moments = [pld.log_moment(tilt) for pld in self._coarse]
        counted_moments = list(zip(self._counts, moments, strict=True))
        kappa = math.fsum(count * value for count, (value, _) in counted_moments)
        slope = math.fsum(count * slope for count, (_, slope) in counted_moments)
        return kappa, slope

    def _saddle_point(self, rate: float, level: float, sign: float) -> TiltCenter:
        """Return the tilt at a given relative entropy from another tilt.

        The tilt of the total loss L with the rate λ has the density e^{λL − κ(λ)}, κ(λ)
        = log E[e^{λL}]. Relative to it, the tilt with the rate λ′ has the mean loss
        κ′(λ′) and the entropy (λ′ − λ)·κ′(λ′) − κ(λ′) + κ(λ), which grows with |λ′ −
        λ|. The rate at which it reaches `level` is found by bisection.

        Parameters
        ----------
        rate : float
            The rate λ of the tilt from which the relative entropy is measured.
        level : float
            The relative entropy, > 0.
        sign : float
            1 for the tilt to the right (with larger losses), −1 for the one to the
            left.

        Returns
        -------
        TiltCenter
            If no tilt is that far away, one with an infinite rate and the largest loss.
        """
        kappa_at_rate, _ = self._log_moment(rate)

        def entropy_and_mean(step: float) -> tuple[float, float]:
            """Return relative entropy and mean loss of the tilt with the rate λ + sign·step."""
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

        # Bisection on a logarithmic scale; the first step away from 0 is a guess.
        while high > low * _TILT_TOLERANCE + 1e-12 / self._smallest_width:
            middle = math.sqrt(low * high) if low else high / 1024
            if entropy_and_mean(middle)[0] < level:
                low = middle
            else:
                high = middle
        return TiltCenter(rate + sign * high, entropy_and_mean(high)[1])

    def _deviation(self, rate: float) -> float:
        """Return a typical deviation of a single tilted loss from its mean.

        It is the root mean square, over all uses, of √(π/2)·(mean absolute deviation).
        This equals the standard deviation of a normal law, and is less if jumps are
        rare.

        Parameters
        ----------
        rate : float
            The rate λ of the tilt.

        Returns
        -------
        float
            The deviation, which sets the width of the grid.
        """
        total = 0.0
        for pld, count in zip(self._coarse, self._counts, strict=True):
            _, masses = exponential_tilt(pld, rate)
            distances = np.abs(pld.losses - masses @ pld.losses)
            total += count * float(masses @ distances) ** 2
        return math.sqrt(math.pi / 2 * total / sum(self._counts))
