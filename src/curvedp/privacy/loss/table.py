"""A privacy loss law as piecewise Chebyshev series of the logarithms of its tails.

Theorem (docs/exact-profiles.md, "The integral"). For a pair that an isometry swaps,

    δ(ε)      = ∫_ε^∞ e^{ε−t}·P₁(L > t) dt,
    1 − δ(ε)  = ∫_ε^∞ e^{ε−t}·P₁(L <= t) dt,
    P₂(L > t) = P₁(L < −t) = e^{−t}·(P₁(L > t) − δ(t)):

integrals of positive functions, in which nothing cancels.

Coordinate. A bounded loss, L <= T, has tails like (T − t)^k. In w = −log(1 − t/T) their
logarithm is nearly linear, so the panels of the series are laid in w; for an unbounded
loss w = t.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp
from curvedp.numerics.piecewise_chebyshev import RESOLUTION, PiecewiseChebyshev
from curvedp.privacy.loss.law import (
    NEGLIGIBLE,
    UNIT_LOG_WEIGHTS,
    UNIT_NODES,
    PrivacyLossLaw,
)

# Which of the two series: log P₁(L > t) or log P₁(L <= t).
_UPPER = 0
_LOWER = 1

_LOWEST_LOG = -760.0  # log of less than the smallest float
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(16)
_PANEL_NODES = (_LEGENDRE_NODES + 1) / 2
_PANEL_WEIGHTS = _LEGENDRE_WEIGHTS / 2
# How close to a largest loss T rounding lets a table go, as w; less if tails are noisy.
_LAST_W = 16.0
_LAST_W_OF_NOISY_TAILS = 12.0
# Where integrals over a bounded loss end: 1 − t/T is e^-36 there, below an ulp.
_CONTINUED_W = (20.0, 26.0, 36.0)
_MAX_BATCH = (
    2048  # arguments at a time: the pieces of their integrals stay in the cache
)


class _MomentNodes(NamedTuple):
    """A fixed rule over the table, with the values that every moment needs."""

    t: Array
    log_weight: Array
    log_upper_tail: Array
    log_delta: Array


class TabulatedLossLaw:
    """The tails of a privacy loss, tabulated; an unbounded loss is extended on demand.

    Parameters
    ----------
    law : PrivacyLossLaw
        Where the tails come from.

    Attributes
    ----------
    max_loss : float
        T, the supremum of the loss, perhaps infinite.
    breakpoints : tuple of float
        Losses at which the tails are not analytic.
    series : PiecewiseChebyshev
        log P₁(L > t) and log P₁(L <= t), as functions of w.
    """

    def __init__(self, law: PrivacyLossLaw) -> None:
        """Lay the panels, up to the largest loss or until the tail underflows."""
        self.max_loss = law.max_loss
        self.breakpoints = law.breakpoints
        self._has_atom_at_max = law.table_end is not None
        self._end_curvatures: dict[int, tuple[float, float]] = {}
        self.series = PiecewiseChebyshev(
            lambda w: law.log_tails(self.loss_at(w)),
            self._coordinate_rounding,
            law.resolution,
            _LOWEST_LOG,
        )
        if self._is_bounded:
            self.series.add(self._bounded_panel_edges(law))
        else:
            self.series.add(_normal_panel_edges(law.loss_scale))
            while self.log_upper_tail(np.array([self.end]))[0] > _LOWEST_LOG:
                self.extend()

    def _bounded_panel_edges(self, law: PrivacyLossLaw) -> Array:
        """Return the first edges of the panels, in w, for a bounded loss.

        They are those of a normal loss up to 0.6·T, then double up to 0.45·T, then go
        on towards T; a panel also ends at every breakpoint.
        """
        max_loss = self.max_loss
        edges = _normal_panel_edges(law.loss_scale)
        edges = edges[edges < 0.6 * max_loss]
        last_edge = edges[-1]
        if last_edge > 0:
            doubled = last_edge * 2.0 ** np.arange(1.0, 60.0)
            edges = np.concatenate([edges, doubled[doubled < 0.45 * max_loss]])

        if law.resolution == RESOLUTION:
            last_w = law.table_end or _LAST_W
        else:
            last_w = _LAST_W_OF_NOISY_TAILS
        breakpoints = np.array(self.breakpoints)
        w = np.concatenate(
            [
                self._coordinate(edges, max_loss - edges),
                self._coordinate(breakpoints, max_loss - breakpoints),
                [1.5, 4.0, 9.0, last_w],
            ]
        )
        return np.unique(w[w <= last_w])

    # ---- the coordinate w

    @property
    def _is_bounded(self) -> bool:
        return math.isfinite(self.max_loss)

    @property
    def end(self) -> float:
        """The largest loss in the table."""
        last_w = self.series.edges[-1]
        if self._is_bounded:
            return -self.max_loss * math.expm1(-last_w)
        return float(last_w)

    def loss_at(self, w: Array) -> Array:
        """Return the loss t at the coordinate w."""
        return -self.max_loss * np.expm1(-w) if self._is_bounded else w

    def _coordinate(self, t: Array, distance_to_max: Array) -> Array:
        """Return the coordinate w of the loss t, given T − t with its own digits."""
        if not self._is_bounded:
            return t
        with np.errstate(divide="ignore"):
            near_zero = -np.log1p(-np.minimum(t / self.max_loss, 0.5))
            near_max = -np.log(distance_to_max / self.max_loss)
        return np.where(2 * t < self.max_loss, near_zero, near_max)

    def _coordinate_rounding(self, w: Array) -> Array:
        """Return what one rounding of t is worth in w, relative to 2^-50."""
        return np.exp(w) if self._is_bounded else w

    def extend(self, times: int = 1) -> None:
        """Double the range of an unbounded loss, `times` times."""
        end = self.series.end
        self.series.add(np.array([end * 2.0**n for n in range(times + 1)]))

    def cover(self, t: float) -> None:
        """Extend an unbounded loss until the table contains t."""
        while not self._is_bounded and self.end < t:
            self.extend()

    def grid(self) -> Array:
        """Return twelve losses for each panel, from 0 to the end of the table."""
        edges = self.series.edges
        fractions = np.linspace(0.0, 1.0, 13)[:-1]
        w = (edges[:-1, None] + np.diff(edges)[:, None] * fractions).ravel()
        return self.loss_at(np.append(w, edges[-1]))

    # ---- the tails

    def log_upper_tail(self, t: Array) -> Array:
        """Return log P₁(L > t) for t >= 0."""
        return self._tail(self._coordinate(t, self.max_loss - t), _UPPER)

    def log_lower_tail(self, t: Array) -> Array:
        """Return log P₁(L <= t) for t >= 0."""
        return self._tail(self._coordinate(t, self.max_loss - t), _LOWER)

    def log_second_tail(self, t: Array) -> Array:
        """Return log P₂(L > t) = log(P₁(L > t) − δ(t)) − t.

        The same difference is (1 − δ(t)) − P₁(L <= t); whichever keeps its digits is
        taken.
        """
        upper = self.log_upper_tail(t)
        lower = self.log_lower_tail(t)
        log_delta = self.log_delta(t)
        log_rest = self.log_one_minus_delta(t)
        use_upper = upper < lower
        minuend = np.where(use_upper, upper, log_rest)
        subtrahend = np.where(use_upper, log_delta, lower)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.minimum(subtrahend - minuend, 0.0)
            log_difference = minuend + np.log(-np.expm1(ratio))
        log_difference = np.where(np.isnan(log_difference), -math.inf, log_difference)
        return log_difference - t

    def _tail(self, w: Array, which: int) -> Array:
        """Return one log tail at the coordinate w, continued beyond the last panel."""
        value = self.series.value(w, which)
        is_beyond = w > self.series.end
        if np.any(is_beyond):
            value[is_beyond] = self._tail_and_slope(w[is_beyond], which)[0]
        return value

    def _tail_and_slope(self, w: Array, which: int) -> tuple[Array, Array]:
        """Return one log tail and its derivative in w.

        Beyond the last panel the tail is continued by a power law in T − t: linearly in
        w, corrected by `_end_curvature` if there is an atom at T.
        """
        value, slope, distance = self.series.value_and_slope(w, which)
        if self._has_atom_at_max and np.any(distance > 0):
            curvature = self._end_curvature(which)
            value = value - curvature * (distance + np.expm1(-distance))
            slope = slope + curvature * np.expm1(-distance)
        return value, slope

    def _end_curvature(self, which: int) -> float:
        """Return C in the slope −k + C·e^{end − w} of a log tail beyond the last panel.

        It comes from two slopes within that panel. Without an atom at T, the slope at
        the end, −k + C, is continued, since C is mostly rounding; with an atom C is
        taken off.
        """
        end = self.series.edges[-1]
        known = self._end_curvatures.get(which)
        if known is None or known[0] != end:
            step = min(1.0, end - self.series.edges[-2])
            _, slopes = self._tail_and_slope(np.array([end - step, end]), which)
            curvature = float(slopes[0] - slopes[1]) / math.expm1(step)
            self._end_curvatures[which] = (end, curvature)
        return self._end_curvatures[which][1]

    # ---- δ and 1 − δ

    def log_delta(self, eps: Array) -> Array:
        """Return log δ(ε) for ε in [0, end]."""
        return self._discounted_integral(eps, _UPPER)

    def log_one_minus_delta(self, eps: Array) -> Array:
        """Return log(1 − δ(ε)) for ε in [0, end]."""
        return self._discounted_integral(eps, _LOWER)

    def _discounted_integral(self, eps: Array, which: int) -> Array:
        """Return log ∫_ε^∞ e^{ε−t}·P(t) dt, P being the upper or the lower tail.

        The integral is a sum of pieces, one for each panel to the right of ε. A piece
        begins at ε or at an edge beyond it, so that there are only as many integrals as
        there are arguments and edges.
        """
        eps = np.asarray(eps, np.float64)
        if eps.size > _MAX_BATCH:
            batches = np.array_split(eps.ravel(), eps.size // (_MAX_BATCH // 2))
            results = [self._discounted_integral(batch, which) for batch in batches]
            return np.concatenate(results).reshape(eps.shape)

        flat = eps.ravel()
        edges = np.array(self.loss_at(self.series.edges))
        edges[-1] = self.max_loss
        lower_edges = edges[:-1]
        upper_edges = edges[1:]

        # Pieces: first one that begins at each ε, then one that begins at each edge.
        own_panel = np.searchsorted(lower_edges, flat, side="right") - 1
        begin = np.concatenate([flat, lower_edges])
        end = np.concatenate([upper_edges[own_panel], upper_edges])
        begin_w = self._coordinate(begin, self.max_loss - begin)
        log_tail, slope = self._tail_and_slope(begin_w, which)

        # For every (argument, panel): which piece it is, and its integrand where it
        # begins.
        is_later_panel = flat[:, None] < lower_edges
        piece_of_panel = len(flat) + np.arange(len(lower_edges))
        piece_of_argument = np.arange(len(flat))[:, None]
        piece = np.where(is_later_panel, piece_of_panel, piece_of_argument)
        log_start = log_tail[piece] + (flat[:, None] - begin[piece])
        matters = (begin[piece] < upper_edges) & (
            log_start > log_start.max(axis=1, keepdims=True) - 46
        )

        argument = np.nonzero(matters)[0]
        used = piece[matters]
        log_pieces = self._integrate_pieces(
            begin, end, slope, flat[argument] - begin[used], used, which
        )
        log_total = np.full(flat.shape, -math.inf)
        np.logaddexp.at(log_total, argument, log_pieces)
        if self._is_bounded:
            log_total = self._with_continuation_error(log_total, flat, which)
        return log_total.reshape(eps.shape)

    def _with_continuation_error(
        self, log_total: Array, eps: Array, which: int
    ) -> Array:
        """Move a discounted integral to the private side.

        The integral of the upper tail is raised by what the continuation can miss, that
        of the lower tail is lowered. Beyond T the lower tail is 1.
        """
        log_error = self._log_continuation_error(eps, which)
        if which == _UPPER:
            return np.asarray(np.logaddexp(log_total, log_error))
        log_total = np.logaddexp(log_total, np.minimum(eps - self.max_loss, 0.0))
        relative_error = np.exp(np.minimum(log_error - log_total, 0.0))
        return np.asarray(log_total + np.log1p(-np.minimum(relative_error, 0.5)))

    def _integrate_pieces(
        self,
        begin: Array,
        end: Array,
        slope: Array,
        log_discount: Array,
        used: NDArray[np.int64],
        which: int,
    ) -> Array:
        """Return log ∫ e^{log_discount + begin − t}·P(t) dt over pieces [begin, end].

        Parameters
        ----------
        begin, end, slope : array
            The ends of all pieces, and the slope of log P in w where each begins.
        log_discount, used : array
            The exponent at the begin of each piece that is wanted, and its number. A
            piece may be wanted several times, with different discounts.
        which : int
            The tail P.
        """
        pieces, back = np.unique(used, return_inverse=True)
        begin = begin[pieces]
        end = end[pieces]
        slope = slope[pieces]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            distance_to_max = self.max_loss - begin
            dw_dt = 1 / distance_to_max if self._is_bounded else np.ones_like(begin)
            # e^{−t}·P(t) falls at least so fast, where log P is concave.
            decay_rate = 1.0 - np.minimum(slope * dw_dt, 0.0)
            reach = np.minimum(NEGLIGIBLE / decay_rate, end - begin)
            offset = reach[:, None] * UNIT_NODES
            w = self._coordinate(
                begin[:, None] + offset, distance_to_max[:, None] - offset
            )
            log_tail = self._tail(w, which)
            log_terms = (
                log_tail[back] + log_discount[:, None] - offset[back] + UNIT_LOG_WEIGHTS
            )
            return np.asarray(np.log(reach)[back] + log_sum_exp(log_terms, axis=1))

    def _log_continuation_error(self, eps: Array, which: int) -> Array:
        """Return log of what the continuation beyond the last panel can miss, doubled.

        Without the curvature C the error of log P is at most |C|; with it, of second
        order.
        """
        curvature = abs(self._end_curvature(which))
        if self._has_atom_at_max:
            error = 4 * curvature * curvature + 1e-9
        else:
            error = 2 * curvature
        t = np.clip(eps, self.end, self.max_loss)
        distance_to_max = self.max_loss - t
        with np.errstate(divide="ignore"):
            w = np.minimum(self._coordinate(t, distance_to_max), _CONTINUED_W[-1])
            log_tail, _ = self._tail_and_slope(w, which)
            return np.asarray(
                np.log(error) + log_tail + np.log(distance_to_max) + (eps - t)
            )

    def noise_near_max_loss(self, eps: Array) -> Array:
        """Return the relative error of δ(ε) close to a largest loss T.

        It comes from rounding ε and from the continuation beyond the last panel.
        """
        if not self._is_bounded:
            return np.zeros_like(eps)
        w = self._coordinate(eps, self.max_loss - eps)
        steepness = np.abs(self._tail_and_slope(w, _UPPER)[1]) + 1
        with np.errstate(over="ignore", invalid="ignore"):
            rounding = np.exp(np.minimum(w, _CONTINUED_W[-1])) * 2.0**-50
            noise = rounding + np.where(w > self.series.edges[-1], 1e-6, 0.0)
            return steepness * np.where(w > 2, np.minimum(noise, 1.0), 0.0)

    # ---- the loss on the whole line, for sums of independent losses

    @cached_property
    def _second_tail_series(self) -> PiecewiseChebyshev:
        """t + log P₂(L > t) on the panels as first built."""

        def shifted_log_tail(w: Array) -> Array:
            t = self.loss_at(w)
            return self.log_second_tail(t) + t

        return self.series.with_function(shifted_log_tail)

    def _fast_log_second_tail(self, t: Array) -> Array:
        """Return log P₂(L > t) for t >= 0 by a series of its own."""
        last = np.nextafter(self._second_tail_series.end, 0.0)
        w = np.minimum(self._coordinate(t, self.max_loss - t), last)
        return self._second_tail_series.value(w, 0) - t

    @property
    def _largest_usable(self) -> float:
        """The largest |t| at which the functions on the line are evaluated."""
        return self.max_loss * (1 - 1e-12) if self._is_bounded else self.end

    def _usable_size(self, t: Array) -> Array:
        """Return |t|, cut next to a largest loss."""
        if self._is_bounded:
            return np.minimum(np.abs(t), self._largest_usable)
        return np.abs(t)

    def log_upper_on_line(self, t: Array) -> Array:
        """Return log P₁(L > t) for any real t; P₁(L > −t) = 1 − P₂(L > t)."""
        size = self._usable_size(t)
        with np.errstate(divide="ignore"):
            log_second = np.minimum(self._fast_log_second_tail(size), -1e-17)
            for_negative = np.log1p(-np.exp(log_second))
        for_positive = np.where(
            t >= self.max_loss, -math.inf, self.log_upper_tail(size)
        )
        return np.where(t < 0, for_negative, for_positive)

    def log_lower_on_line(self, t: Array) -> Array:
        """Return log P₁(L <= t) for any real t; P₁(L <= −t) = P₂(L > t)."""
        size = self._usable_size(t)
        log_second = self._fast_log_second_tail(size)
        for_negative = np.where(t <= -self.max_loss, -math.inf, log_second)
        for_positive = np.where(t >= self.max_loss, 0.0, self.log_lower_tail(size))
        return np.where(t < 0, for_negative, for_positive)

    def log_density_on_line(self, t: Array) -> Array:
        """Return the log density f of L under p₁; f(−t) = e^{−t}·f(t) by symmetry."""
        size = np.minimum(np.abs(t), self._largest_usable)
        distance_to_max = self.max_loss - size
        value, slope = self._tail_and_slope(
            self._coordinate(size, distance_to_max), _UPPER
        )
        dw_dt = 1 / distance_to_max if self._is_bounded else 1.0
        with np.errstate(divide="ignore"):
            log_density = value + np.log(np.maximum(-slope * dw_dt, 0.0))
        log_density = log_density + np.where(t < 0, t, 0.0)
        return np.where(np.abs(t) > self._largest_usable, -math.inf, log_density)

    # ---- integrals over all losses

    @property
    def _continued_edges(self) -> list[float]:
        """Edges, in w, between the table and the end of a bounded loss."""
        if not self._is_bounded:
            return []
        return [w for w in _CONTINUED_W if w > self.series.edges[-1]]

    @cached_property
    def _moment_nodes(self) -> _MomentNodes:
        """A fixed rule over the table: four cells of 16 nodes a panel."""
        edges = np.append(self.series.edges, self._continued_edges)
        quarters = (
            edges[:-1, None] + np.diff(edges)[:, None] * np.arange(4) / 4
        ).ravel()
        cells = np.append(quarters, edges[-1])
        width = np.diff(cells)[:, None]
        w = (cells[:-1, None] + width * _PANEL_NODES).ravel()
        t = self.loss_at(w)
        # A cell narrower than a rounding weighs nothing.
        with np.errstate(divide="ignore"):
            log_weight = np.log((width * _PANEL_WEIGHTS).ravel()) + self._log_dt_dw(w)
        return _MomentNodes(t, log_weight, self.log_upper_tail(t), self.log_delta(t))

    def _log_dt_dw(self, w: Array) -> Array | float:
        """Return log dt/dw: dt/dw = T − t = T·e^{−w} for a bounded loss, else 1."""
        return math.log(self.max_loss) - w if self._is_bounded else 0.0

    def log_moment_integral(self, s: float) -> float:
        """Return log ∫₀^∞ (S(t)·(e^{st} − e^{−(s+1)t}) + e^{−(s+1)t}·δ(t)) dt, s > −1.

        S(t) = P₁(L > t). s times it is E₁[e^{sL}] − 1 (docs/exact-profiles.md). The
        fixed rule serves where it resolves this moment; else an adaptive one.
        """

        def log_integrand(t: Array, log_upper: Array, log_delta: Array) -> Array:
            with np.errstate(divide="ignore"):
                first = log_upper + s * t + np.log(-np.expm1(-(2 * s + 1) * t))
            return np.logaddexp(first, log_delta - (s + 1) * t)

        nodes = self._moment_nodes
        values = log_integrand(nodes.t, nodes.log_upper_tail, nodes.log_delta)
        log_terms = values + nodes.log_weight
        largest = log_terms.max()
        matters = log_terms[1:] > largest - 40
        is_resolved = np.max(np.abs(np.diff(values))[matters], initial=0.0) < 3
        has_ended = self._is_bounded or log_terms[-1] < largest - 45
        if is_resolved and has_ended:
            return float(log_sum_exp(log_terms, axis=0))
        return self.log_integral(
            lambda t: log_integrand(t, self.log_upper_tail(t), self.log_delta(t)), s
        )

    def log_integral(
        self, log_integrand: Callable[[Array], Array], growth: float
    ) -> float:
        """Return log ∫₀^T of a positive function, given its logarithm.

        Parameters
        ----------
        log_integrand : callable
            The logarithm of the function of the loss.
        growth : float
            The function is about as large as e^{growth·t}·P₁(L > t): an unbounded loss
            is extended until that has ended.
        """
        if not self._is_bounded:
            self._extend_until_ended(growth)

        grid = self.grid()
        w = np.unique(
            np.concatenate(
                [self.series.edges, self._coordinate(grid, self.max_loss - grid)]
            )
        )
        # Next to a huge T the grid's last loss rounds to T, where w is infinite.
        w = np.append(w[w <= self.series.edges[-1]], self._continued_edges)
        low, high = self._refine_cells(log_integrand, w[:-1], w[1:])

        nodes = low[:, None] + (high - low)[:, None] * _PANEL_NODES
        with np.errstate(divide="ignore"):
            log_weight = np.log((high - low)[:, None] * _PANEL_WEIGHTS)
        log_terms = self._log_integrand_in_w(log_integrand, nodes) + log_weight
        return float(log_sum_exp(log_terms.ravel(), axis=0))

    def _extend_until_ended(self, growth: float) -> None:
        """Extend the table until e^{growth·t}·P₁(L > t) is e^-60 of its maximum."""
        while True:
            grid = self.grid()
            largest = (growth * grid + self.log_upper_tail(grid)).max()
            at_end = growth * self.end + self.log_upper_tail(np.array([self.end]))[0]
            if not at_end > largest - 60:
                return
            self.extend()

    def _refine_cells(
        self, log_integrand: Callable[[Array], Array], low: Array, high: Array
    ) -> tuple[Array, Array]:
        """Halve cells until the integrand varies by less than e^8 on each that matters.

        Cells on which it is below e^-50 of its largest value are dropped.
        """
        for _ in range(60):
            ends = np.concatenate([low, high])
            values = self._log_integrand_in_w(log_integrand, ends)
            at_low = values[: len(low)]
            at_high = values[len(low) :]
            largest = np.maximum(at_low, at_high)
            matters = (largest > largest.max() - 50) & (high > low)
            low, high = low[matters], high[matters]
            at_low, at_high = at_low[matters], at_high[matters]

            is_steep = np.abs(at_low - at_high) > 8
            too_few = len(low) < 8
            if not too_few and not np.any(is_steep & (high - low > 1e-12 * high)):
                break
            middle = (low + high) / 2
            is_split = is_steep | too_few
            low_parts = np.concatenate([low, middle[is_split]])
            high_parts = np.concatenate(
                [np.where(is_split, middle, high), high[is_split]]
            )
            low, high = low_parts, high_parts
        return low, high

    def _log_integrand_in_w(
        self, log_integrand: Callable[[Array], Array], w: Array
    ) -> Array:
        """Return the log integrand as a density in w."""
        return np.asarray(log_integrand(self.loss_at(w)) + self._log_dt_dw(w))


def _normal_panel_edges(loss_scale: float) -> Array:
    """Return edges of panels for a loss that is nearly N(s²/2, s²), s = `loss_scale`.

    They are at 0, at the mean, and 4, 8, … 64 deviations to its sides.
    """
    mean = loss_scale * loss_scale / 2
    steps = 4 * loss_scale * 2.0 ** np.arange(0.0, 5.0)
    edges = np.concatenate([mean - steps[::-1], [mean], mean + steps])
    return np.concatenate([[0.0], edges[edges > loss_scale / 4]])
