"""δ(ε) of several private mechanisms together, from their privacy loss distributions.
The total loss is computed under a few exponential *tilts*: probability masses at a loss
L are multiplied by e^{λL − κ}, with a rate λ and a constant κ. Each tilt is for the ε
near the losses that it makes likely.

Theorem C2 (docs/theory/accounting.md). A privacy loss distribution (PLD) has
probability masses at losses on a grid. Let the discretized PLD of each mechanism
dominate its profile at every ε (`discretize`). Then the convolution of all of them
dominates the composition, if the errors of the transforms (`convolve`), the mass at
infinity and the mass above the window are added to δ. Every number here is rounded up
accordingly.

`ComposedPLD` convolves the discretized PLDs with the fast Fourier transform. A few
exponential tilts (see `convolve`) keep the result accurate for every δ from 1 down to
1e-44: each tilt is best at one level of δ, and is used for losses up to halfway to the
mean loss of the next one.

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
    TiltedConvolution,
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

# The number of grid points of a window, at least, at most, and per deviation. They
# decide how tight and how fast the result is, not whether it holds.
_MIN_WINDOW_POINTS = 1 << 15
_MAX_WINDOW_POINTS = 1 << 20
_POINTS_PER_DEVIATION = 1100
_SMALLEST_SIZE_BITS = 4  # a transform has at least 2^4 points
# Points of a grid that a window does not use, so that rounding its ends to the grid
# cannot make it longer than the grid.
_SPARE_GRID_POINTS = 8
# The grid of the coarse discretization, see `loss_grid`.
_COARSE_GROWTH = 0.03
_COARSE_BITS = 24  # its smallest cell is 2^-24 of the largest loss
_COARSE_MIN_POINTS = 200
# The values of −log δ at which the tilts are best. δ = 1e-44 is e^-101.
_LEVELS = (6.0, 18.0, 36.0, 60.0, 90.0)
# A window leaves out e^-26 of a tilted distribution on each side.
_WINDOW_LEVEL = 26.0
# Rounding errors that are charged, in units of UNIT_ROUNDOFF, with their lines in the
# table below Theorem C2 (docs/theory/accounting.md), which proves them.
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
# The search also ends where its bracket is this short, relative to the largest rate.
_SMALLEST_STEP = 1e-12
# A bracket of that search that begins at 0 is divided here, as it has no geometric mean.
_FIRST_DIVISOR = 1024
# A deviation below this number counts as this number, so that it can be a divisor.
_SMALLEST_DEVIATION = 1e-300
_WIDTH_BITS = 28  # of the width of a grid, so that its multiples by 25 bits are exact


class Tilt(NamedTuple):
    """An exponential tilt of the total loss, and the loss at which it is best."""

    rate: float  # λ
    mean_loss: float  # of the tilted distribution


class Window(NamedTuple):
    """The range of total losses, and the grid, over which one tilt is computed.

    The mass at losses beyond `high` is bounded by Chernoff's inequality and added to δ.
    The mass at losses below `low` needs no bound: δ(ε) at ε >= low does not depend on
    it. In the Fourier transform it wraps around to the upper end of the range, where it
    can only raise δ.
    """

    rate: float  # the rate λ of the tilt
    width: float  # the distance of neighboring grid points
    low: float  # the first loss of the range
    high: float  # the last loss of the range
    rate_below: float  # −infinity if no loss lies below the range, else finite
    rate_beyond: float  # the rate of Chernoff's bound; infinite if no loss lies beyond


class DeltaCurve(NamedTuple):
    """Upper bounds on δ(ε) at consecutive multiples ε of a width."""

    width: float
    first_index: int  # the first ε divided by the width
    delta: Array


class ComposedPLD:
    """The privacy profile of several mechanisms together; every number is rounded up.

    Parameters
    ----------
    pairs : tuple of PairProfile
        Upper bounds on δ(ε) of each mechanism, for both orders of two data sets.
    counts : tuple of int
        How often each mechanism is used. The bounds on rounding errors grow in
        proportion to it, and make the result useless beyond 10⁹ uses.
    fineness : float
        A factor by which the number of grid points is multiplied. A smaller one is
        faster and less tight.
    """

    def __init__(
        self,
        pairs: tuple[PairProfile, ...],
        counts: tuple[int, ...],
        fineness: float = 1.0,
    ) -> None:
        """Discretize every mechanism coarsely, to find where its losses are.

        Parameters
        ----------
        pairs : tuple of PairProfile
            Upper bounds on δ(ε) of each mechanism.
        counts : tuple of int
            How often each mechanism is used.
        fineness : float
            A factor by which the number of grid points is multiplied.
        """
        self._pairs = pairs
        self._counts = counts
        self._fineness = fineness
        # With very many uses, a tilt may favor a few large losses, while many small
        # ones decide δ. Then the result without a tilt is computed too.
        self._has_many_steps = min(counts) >= MANY_STEPS
        most_used = pairs[int(np.argmax(counts))]
        self._largest_loss_of_most_used = most_used.truncation

        coarse_widths = [
            2.0 ** math.floor(math.log2(pair.truncation) - _COARSE_BITS)
            for pair in pairs
        ]
        self._coarse_plds = [
            connect_the_dots(pair, width, _COARSE_GROWTH, _COARSE_MIN_POINTS)
            for pair, width in zip(pairs, coarse_widths, strict=True)
        ]
        self._smallest_width = max(coarse_widths)
        self._discretized: dict[float, list[DiscretePLD]] = {}
        self._curves: dict[int, DeltaCurve] = {}

    # ---- δ and ε

    def delta(self, eps: Array) -> Array:
        """Return δ(ε) of all mechanisms together, rounded up.

        The total loss is computed under a few exponential tilts. Each of them is used
        for an interval of ε. Between grid points, δ is interpolated.

        Parameters
        ----------
        eps : array
            Values ε >= 0 of the privacy parameter.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        delta = np.ones(eps.shape)
        tilt_of_eps = np.searchsorted(self.largest_eps_of_tilts[:-1], eps)
        for tilt_index in np.unique(tilt_of_eps):
            uses_tilt = tilt_of_eps == tilt_index
            delta[uses_tilt] = self._delta_by_tilt(int(tilt_index), eps[uses_tilt])

        # With very many uses, the bound without a tilt may be smaller.
        if self._has_many_steps:
            return np.minimum(delta, self._interpolate(0, eps))
        return delta

    def bracket_epsilon(self, delta: float) -> tuple[float, float]:
        """Return two losses between which the smallest ε with δ(ε) <= delta lies.

        A caller then finds this ε by a search between them. Each exponential tilt of
        the total loss that is needed costs a convolution, so as few as possible are
        used.

        Parameters
        ----------
        delta : float
            A number from 0 to 1.

        Returns
        -------
        low, high : float
            The two losses, >= 0; both are infinite if there is no such ε.
        """
        tilt_index = self._tilt_around_epsilon(delta)
        if tilt_index is None:
            return math.inf, math.inf

        # The interval of ε for which this tilt is used contains the answer.
        low = self._smallest_loss_of_tilt(tilt_index)
        high = self.largest_eps_of_tilts[tilt_index]

        # A closer upper end: one grid point past the first one with a small enough δ.
        curve = self._delta_curve(tilt_index)
        start = max(math.ceil(low / curve.width) - curve.first_index, 0)
        is_small_enough = curve.delta[start:] <= delta
        positions = start + np.nonzero(is_small_enough)[0]
        if len(positions):
            next_index = curve.first_index + positions[0] + 1
            high = min(float(next_index * curve.width), high)
        return low, high

    def _smallest_loss_of_tilt(self, tilt_index: int) -> float:
        """Return the smallest ε for which a tilt is used: 0 for the first tilt.

        An exponential tilt of the total loss is accurate near one loss only, so that
        each tilt is used for an interval of ε. The intervals follow each other.

        Parameters
        ----------
        tilt_index : int
            The position of the tilt in `tilts`.

        Returns
        -------
        float
            The smallest float above the end of the interval before.
        """
        if tilt_index == 0:
            return 0.0
        return math.nextafter(self.largest_eps_of_tilts[tilt_index - 1], math.inf)

    def _tilt_around_epsilon(self, delta: float) -> int | None:
        """Return which tilt is used for the smallest ε with δ(ε) <= delta.

        Each exponential tilt of the total loss is used for an interval of ε. The search
        starts at the tilt that is best at this level of δ. It moves to the next or the
        previous tilt until δ crosses `delta` within an interval.

        Parameters
        ----------
        delta : float
            A number from 0 to 1.

        Returns
        -------
        int or None
            The index of the tilt; None if δ(ε) exceeds `delta` at every ε.
        """
        # Start at the tilt that is best at this δ.
        n_tilts = len(self.largest_eps_of_tilts)
        visited: set[int] = set()
        tilt_index = 0
        if not self._has_many_steps:
            best_level = int(np.searchsorted(_LEVELS, -math.log(delta)))
            tilt_index = min(best_level, n_tilts - 1)

        # Move to the tilt whose interval of ε contains the crossing of `delta`.
        while True:
            smallest_loss = self._smallest_loss_of_tilt(tilt_index)
            largest_loss = min(self.largest_eps_of_tilts[tilt_index], _LARGEST_LOSS)
            delta_at_begin, delta_at_end = self.delta(
                np.array([smallest_loss, largest_loss])
            )

            # A tilt that was visited is not visited again, so that the search ends.
            visited.add(tilt_index)
            has_new_previous = tilt_index > 0 and tilt_index - 1 not in visited
            has_next = tilt_index + 1 < n_tilts

            if delta_at_begin <= delta and has_new_previous:
                tilt_index -= 1
            elif delta_at_end > delta and has_next:
                tilt_index += 1
            elif delta_at_end > delta:
                return None
            else:
                return tilt_index

    def _delta_by_tilt(self, tilt_index: int, eps: Array) -> Array:
        """Return δ(ε), computed under one tilt or, where that is poor, under several.

        A tilt multiplies masses at a loss L by e^{λL − κ}, with a rate λ and a constant
        κ. If ε is far below the mean loss of the tilt, undoing the tilt magnifies a
        rounding error by e^{λ·(mean loss − ε)}. This matters if the losses form
        separate clusters: for example, if a bounded loss is added to a small Gaussian
        one. At such ε the bounds by this tilt and by all earlier ones are computed, and
        the smallest is returned.

        Parameters
        ----------
        tilt_index : int
            The position of the tilt in `tilts`.
        eps : array
            Values ε >= 0 of the privacy parameter.

        Returns
        -------
        array
            Upper bounds on δ(ε), of the shape of `eps`.
        """
        delta = self._interpolate(tilt_index, eps)

        # Use the earlier tilts too where a rounding error is magnified by more than
        # e^20.
        tilt = self.tilts[tilt_index]
        log_magnification = tilt.rate * np.maximum(tilt.mean_loss - eps, 0.0)
        is_magnified = log_magnification > _MAX_MAGNIFICATION
        if tilt_index > 0 and is_magnified.any():
            delta_by_earlier = self._delta_by_tilt(tilt_index - 1, eps[is_magnified])
            delta[is_magnified] = np.minimum(delta[is_magnified], delta_by_earlier)
        return delta

    def _interpolate(self, tilt_index: int, eps: Array) -> Array:
        """Return δ(ε) by interpolation between the grid points of one tilt.

        The interpolation is linear in e^ε. Since δ is convex in e^ε, it gives an upper
        bound. Below the first grid point it is the chord to e^ε = 0, where every
        privacy profile is 1. Every rounding must go toward a larger δ;
        tests/privacy/test_pld.py compares the result with closed forms.

        Parameters
        ----------
        tilt_index : int
            The position of the tilt in `tilts`.
        eps : array
            Values ε >= 0 of the privacy parameter.

        Returns
        -------
        array
            Upper bounds on δ(ε), of the shape of `eps`.
        """
        width, first, delta = self._delta_curve(tilt_index)
        last_loss = (first + len(delta) - 1) * width
        # Rounding the position and the weight down makes δ larger, because δ decreases
        # (docs/theory/accounting.md, Theorem C2, (q) and (r)).
        position = (
            np.minimum(eps, last_loss) / width * (1 - POSITION_ERROR * UNIT_ROUNDOFF)
        )

        # Between two grid points: the chord from the left one to the right one.
        left = np.maximum(np.floor(position).astype(np.int64) - first, 0)
        right = np.minimum(left + 1, len(delta) - 1)
        weight = np.expm1((position - left - first) * width) / math.expm1(width)
        weight = np.clip(
            weight * (1 - WEIGHT_ERROR * UNIT_ROUNDOFF * (1 + width)), 0.0, 1.0
        )
        # The rounding of a chord: docs/theory/accounting.md, Theorem C2 (s).
        chord_error = CHORD_ERROR * UNIT_ROUNDOFF
        on_grid = delta[left] * (1 - weight) + delta[right] * weight
        on_grid = np.minimum(round_up(on_grid, chord_error), 1.0)

        # Below the first grid point: the chord from there to e^ε = 0.
        rise = -np.expm1(np.minimum(position - first, 0.0) * width)
        below_grid = delta[0] + (1 - delta[0]) * rise
        below_grid = np.minimum(round_up(below_grid, chord_error), 1.0)
        return np.asarray(np.where(position < first, below_grid, on_grid))

    # ---- one tilt

    def _delta_curve(self, tilt_index: int) -> DeltaCurve:
        """Return δ at the grid points of one tilt. It is computed once and stored.

        Parameters
        ----------
        tilt_index : int
            The position of the tilt in `tilts`.

        Returns
        -------
        DeltaCurve
            Upper bounds on δ at the multiples of the grid's width.
        """
        if tilt_index not in self._curves:
            self._curves[tilt_index] = self._compute_delta_curve(
                self.window(tilt_index)
            )
        return self._curves[tilt_index]

    def _discretized_factors(self, width: float) -> list[Factor]:
        """Return the mechanisms, discretized on one grid of losses, with their counts.

        They are the factors of the convolution that gives the total loss. The
        discretized mechanisms are stored for the next call.

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

    def _compute_delta_curve(self, window: Window) -> DeltaCurve:
        """Return upper bounds on δ(ε) at grid points ε >= 0, computed under one tilt.

        The losses of all mechanisms are discretized, tilted (masses at a loss L are
        multiplied by e^{rate·L − κ}) and convolved. The mass at infinite losses, and
        that beyond the window, are added to every δ. The mass below the window does not
        count at the ε of the window; what wraps around only raises δ.

        Every step must round δ up, with the error of its line in the table below
        Theorem C2 (docs/theory/accounting.md). tests/privacy/test_pld.py compares the
        result with exact compositions.

        Parameters
        ----------
        window : Window
            The rate of the tilt, the width of the grid, and the range of losses.

        Returns
        -------
        DeltaCurve
            δ at the grid points, rounded up.
        """
        rate = window.rate
        width = window.width
        factors = self._discretized_factors(width)

        # The range of grid indices, and the length of a transform that holds it.
        last_index = sum(count * int(pld.index[-1]) for pld, count in factors)
        start, end = _index_range(window, last_index)
        size = 1 << max(math.ceil(math.log2(end - start + 1)), _SMALLEST_SIZE_BITS)

        # Convolve, and compute δ at the grid points >= 0 in units of e^{κ − rate·ε}.
        convolution = convolve_tilted(factors, rate, size)
        first = max(start, 0)
        grid = np.arange(first, start + size)
        masses_from_start = np.roll(convolution.masses, -start)
        delta = hockey_stick_divergence(
            masses_from_start[first - start :], rate, width, convolution.error
        )

        losses = np.asarray(grid * width, np.float64)
        delta *= _untilting_factor(convolution, rate, losses)
        delta[grid >= last_index] = 0.0

        # Add the mass at infinity and beyond the window; the rounding error is (t) of
        # docs/theory/accounting.md, Theorem C2.
        last_loss = (start + size - 1) * width
        log_mass_beyond = log_tail_mass(factors, window.rate_beyond, last_loss)
        mass_beyond = mass_at_infinity(factors) + math.exp(log_mass_beyond)
        sum_error = SUM_ERROR * UNIT_ROUNDOFF
        delta = np.minimum(round_up(delta + mass_beyond, sum_error), 1.0)
        return DeltaCurve(width, first, delta)

    # ---- which tilts are used, from the coarse discretization

    @cached_property
    def tilts(self) -> list[Tilt]:
        """The exponential tilts that are used, with increasing mean losses.

        The first one has the rate 0: it changes nothing. The others are best at
        δ = e^-6, e^-18, …, e^-90, as far as the total loss can be that large.
        """
        _, mean_loss = self._log_moment(0.0)
        candidates = [Tilt(0.0, mean_loss)]
        candidates += [
            self._tilt_at_entropy(rate=0.0, level=level, sign=1.0) for level in _LEVELS
        ]
        return [tilt for tilt in candidates if math.isfinite(tilt.rate)]

    @cached_property
    def largest_eps_of_tilts(self) -> list[float]:
        """The largest ε for which each tilt is used.

        It is halfway between the mean losses of this tilt and the next one, and
        infinite for the last tilt.
        """
        means = [tilt.mean_loss for tilt in self.tilts]
        halfway = [(mean + next_mean) / 2 for mean, next_mean in pairwise(means)]
        return [*halfway, math.inf]

    def window(self, tilt_index: int) -> Window:
        """Return the range of losses, and the grid, over which one tilt is computed.

        The range leaves out about e^-26 of the tilted distribution on each side. A grid
        of width w increases the tilted variance by at most the fraction
        (w/deviation)²/6, with the deviation of a single loss (`_typical_deviation`).
        The width is chosen so that this is small.

        Parameters
        ----------
        tilt_index : int
            The position of the tilt in `tilts`.

        Returns
        -------
        Window
            The rate of the tilt, the width of the grid, and the range of losses.
        """
        # The range, on each side to where the tilted distribution is about e^-26.
        rate = self.tilts[tilt_index].rate
        beyond = self._tilt_at_entropy(rate, _WINDOW_LEVEL, sign=1.0)
        below = self._tilt_at_entropy(rate, _WINDOW_LEVEL, sign=-1.0)

        # The length of the range, and the number of grid points that it needs.
        length = beyond.mean_loss - below.mean_loss

        # The width, from the number of grid points; a power of 2 suits the transform.
        deviation = max(self._typical_deviation(rate), _SMALLEST_DEVIATION)
        n_points = length / deviation * _POINTS_PER_DEVIATION
        n_points = min(max(n_points, _MIN_WINDOW_POINTS), _MAX_WINDOW_POINTS)
        grid_size = 2.0 ** round(math.log2(n_points * self._fineness))
        width = self._width_that_fits_largest_loss(
            max(length / (grid_size - _SPARE_GRID_POINTS), self._smallest_width)
        )
        return Window(
            rate=rate,
            width=width,
            low=below.mean_loss,
            high=beyond.mean_loss,
            rate_below=below.rate,
            rate_beyond=beyond.rate,
        )

    def _width_that_fits_largest_loss(self, width: float) -> float:
        """Return a slightly larger grid width that puts the largest loss on the grid.

        A bounded loss takes its largest value with positive probability. If that value
        lay between two grid points, part of the probability would be moved up to the
        next one. So the largest loss of the mechanism that is used most becomes a
        multiple of the width. The width has 28 bits, so that its multiples by integers
        below 2^25 are exact.

        Parameters
        ----------
        width : float
            The smallest width to consider.

        Returns
        -------
        float
            The new width.
        """
        # Divide the largest loss into as many whole cells as the width allows.
        largest_loss = self._largest_loss_of_most_used
        n_cells = max(largest_loss // width, 1.0)
        fitted_width = max(largest_loss / n_cells, width)

        # Round up to 28 bits.
        mantissa, exponent = math.frexp(fitted_width)
        rounded_mantissa = math.ceil(mantissa * 2**_WIDTH_BITS)
        return math.ldexp(rounded_mantissa, exponent - _WIDTH_BITS)

    def _log_moment(self, rate: float) -> tuple[float, float]:
        """Return κ(λ) = log E[e^{λL}] of the total privacy loss L, and κ′(λ).

        E is the mean over the privacy loss distribution. Both numbers come from the
        coarse discretization, which is good enough to choose tilts.

        Parameters
        ----------
        rate : float
            The exponent λ, the rate of a tilt.

        Returns
        -------
        kappa : float
            κ(λ).
        slope : float
            κ′(λ), the mean loss of the tilted distribution.
        """
        # The losses are independent, so the logarithms of their moments add up. A
        # mechanism that is used several times counts as often.
        kappas = []
        slopes = []
        for count, pld in zip(self._counts, self._coarse_plds, strict=True):
            kappa, slope = pld.log_moment(rate)
            kappas.append(count * kappa)
            slopes.append(count * slope)
        return math.fsum(kappas), math.fsum(slopes)

    def _tilt_at_entropy(self, rate: float, level: float, sign: float) -> Tilt:
        """Return the tilt that makes losses likely whose probability was e^{−level}.

        The caller uses it as the best tilt for δ = e^{−level}, or its mean loss as the
        end of a window that leaves out a probability of about e^{−level}.

        The tilt of the total loss L with the rate λ multiplies probabilities by
        e^{λL − κ(λ)}, where κ(λ) = log E[e^{λL}]. A tilt with another rate λ′ has the
        mean loss κ′(λ′) and, relative to the first one, the entropy
        (λ′ − λ)·κ′(λ′) − κ(λ′) + κ(λ). This grows with |λ′ − λ|. The rate at which it
        reaches `level` is found by bisection. A poor tilt makes bounds less tight, but
        not wrong.

        Parameters
        ----------
        rate : float
            The rate λ of the tilt from which the relative entropy is measured.
        level : float
            The relative entropy of the two tilts, > 0.
        sign : {1, −1}
            1 for a tilt with larger losses, −1 for one with smaller losses.

        Returns
        -------
        Tilt
            If no tilt is that far away, one with an infinite rate and the largest loss.
        """
        kappa_at_rate, _ = self._log_moment(rate)  # κ(λ)

        def entropy_and_mean(step: float) -> tuple[float, float]:
            """Return relative entropy and mean loss at the rate λ′ = λ + sign·step."""
            kappa, mean = self._log_moment(rate + sign * step)
            return sign * step * mean - kappa + kappa_at_rate, mean

        # Even the largest rate may not lead that far.
        low = 0.0
        high = 1.0 / self._smallest_width
        if entropy_and_mean(high)[0] < level:
            largest_loss = sum(
                count * pld.losses[-1]
                for count, pld in zip(self._counts, self._coarse_plds, strict=True)
            )
            return Tilt(sign * math.inf, sign * largest_loss)

        # Bisection on a logarithmic scale; the first step away from 0 is a guess.
        while high > low * _TILT_TOLERANCE + _SMALLEST_STEP / self._smallest_width:
            middle = math.sqrt(low * high) if low else high / _FIRST_DIVISOR
            if entropy_and_mean(middle)[0] < level:
                low = middle
            else:
                high = middle
        return Tilt(rate + sign * high, entropy_and_mean(high)[1])

    def _typical_deviation(self, rate: float) -> float:
        """Return a typical distance of the loss of one mechanism from its mean.

        It is measured after the tilt, and sets the width of the grid. With several
        mechanisms it is the root mean square, over all uses, of √(π/2)·(mean absolute
        deviation). For a normal law this is the standard deviation; it is smaller if
        the loss makes rare jumps.

        Parameters
        ----------
        rate : float
            The rate λ of the tilt.

        Returns
        -------
        float
            The deviation.
        """
        sum_of_squares = 0.0
        for pld, count in zip(self._coarse_plds, self._counts, strict=True):
            _, masses = exponential_tilt(pld, rate)
            mean_loss = masses @ pld.losses
            distances = np.abs(pld.losses - mean_loss)
            sum_of_squares += count * float(masses @ distances) ** 2
        return math.sqrt(math.pi / 2 * sum_of_squares / sum(self._counts))


def _untilting_factor(
    convolution: TiltedConvolution, rate: float, losses: Array
) -> Array:
    """Return the factor e^{κ − rate·L} that undoes a tilt at each loss L, rounded up.

    The masses were multiplied by e^{rate·L − κ} before they were convolved.

    Parameters
    ----------
    convolution : TiltedConvolution
        The convolution, which knows κ.
    rate : float
        The rate of the tilt.
    losses : array
        The losses L.

    Returns
    -------
    array
        The factors. Their rounding error is (n) of docs/theory/accounting.md, Theorem
        C2.
    """
    exponent = convolution.kappa - rate * losses
    # The summand 8 covers roundings that do not grow with the exponent.
    magnitude = convolution.kappa_magnitude + np.abs(exponent) + 8
    rounding = UNTILT_ERROR * UNIT_ROUNDOFF * magnitude
    return np.asarray(np.exp(np.minimum(exponent + rounding, _LARGEST_EXPONENT)))


def _index_range(window: Window, last_index: int) -> tuple[int, int]:
    """Return the first and the last grid index of the range in which δ is computed.

    On a side with an infinite rate no loss lies beyond the window, and the range goes
    to the largest possible total loss.

    Parameters
    ----------
    window : Window
        The range of losses, and the width of the grid.
    last_index : int
        The largest possible total loss, divided by the width.

    Returns
    -------
    start, end : int
        The indices, start < end.
    """
    if math.isinf(window.rate_below):
        start = -last_index
    else:
        start = math.floor(window.low / window.width)
    if math.isinf(window.rate_beyond):
        end = last_index + 1
    else:
        end = math.ceil(window.high / window.width)
    # The window was found on a coarse grid, where the largest loss can be larger.
    return start, max(end, start + 1)
