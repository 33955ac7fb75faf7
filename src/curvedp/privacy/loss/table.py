"""A table of the distribution of a privacy loss L, from which δ(ε) is computed quickly.
P₁ and P₂ are the output distributions on two neighboring data sets, and L is the
logarithm of their density ratio. The table stores log P₁(L > t) and log P₁(L <= t) as
functions of a coordinate w of t.

These functions are piecewise polynomials, for t >= 0. So δ(ε), moments and trade-off
curves are quick integrals over the table.

Theorem (docs/theory/exact-profiles.md, "The integral"). An isometry of the space swaps
P₁ and P₂. Then

    δ(ε)      = ∫_ε^∞ e^{ε−t}·P₁(L > t) dt,
    1 − δ(ε)  = ∫_ε^∞ e^{ε−t}·P₁(L <= t) dt,
    P₂(L > t) = P₁(L < −t) = e^{−t}·(P₁(L > t) − δ(t)).

The integrands are positive, so that nothing cancels.

Coordinate. A loss that is bounded by T has tails like (T − t)^k. In the coordinate
w = −log(1 − t/T) their logarithm is nearly linear, so that the panels of the series are
laid in w. For an unbounded loss w = t.
"""

import math
from collections.abc import Callable
from enum import IntEnum
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


class Tail(IntEnum):
    """The two functions in the table, by their index in the series."""

    UPPER = 0  # log P₁(L > t)
    LOWER = 1  # log P₁(L <= t)


# A log tail below this is not tabulated: the smallest positive float is e^-745.
_LOWEST_LOG = -760.0
# The logarithm of a probability is replaced by this number if rounding errors made it
# larger. e^-1e-17 differs from 1 by less than the rounding error of a double.
_LARGEST_LOG_PROBABILITY = -1e-17
# A Gauss–Legendre rule with 16 nodes on (0, 1), for integrals over one panel.
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(16)
_PANEL_NODES = (_LEGENDRE_NODES + 1) / 2
_PANEL_WEIGHTS = _LEGENDRE_WEIGHTS / 2
# The end of the table of a bounded loss, in the coordinate w. Rounding errors allow no
# larger w, and only a smaller one if the tails are inaccurate.
_LAST_W = 16.0
_LAST_W_OF_NOISY_TAILS = 12.0
# Edges, in w, of the cells between the end of the table and the largest loss T. At the
# last of them 1 − t/T is e^-36, which is below the rounding of a double.
_EDGES_BEYOND_TABLE_W = (20.0, 26.0, 36.0)
# The relative error of the extrapolated tail of a loss with an atom at its maximum, at
# least: what the model of `_slope_change_at_end` leaves out. The other number is
# charged near the maximum, where rounding ε matters too.
_LEAST_EXTRAPOLATION_ERROR = 1e-9
_EXTRAPOLATION_ERROR_NEAR_MAX = 1e-6
_LOSS_ROUNDING = 2.0**-50  # relative rounding error of a loss: a few units of 2^-53
_NEAR_MAX_W = 2  # a loss t with a larger w is near the largest loss: 1 − t/T < e^-2
# The number of ε's that are integrated at a time, so that the arrays stay in the cache.
_MAX_EPS_PER_BATCH = 2048
# Terms that are smaller than the largest one by these factors are negligible. The
# numbers are logarithms: e^-40 is 4e-18, e^-60 is 9e-27. Larger numbers are safe and
# slower; smaller ones would drop parts that a double can hold.
_NEGLIGIBLE_INTERVAL = 46  # one interval of an integral from ε to infinity
_NEGLIGIBLE_TERM = 40  # one term of the fixed rule for a moment
_NEGLIGIBLE_LAST_TERM = 45  # its last term, if the table could be extended
_NEGLIGIBLE_CELL = 50  # one cell of the adaptive rule
_NEGLIGIBLE_END = 60  # the end of the table, before an adaptive rule is applied
# A fixed rule resolves a log integrand that changes by less than this between nodes.
_RESOLVED_CHANGE = 3
# A cell of an adaptive rule is halved if the log integrand changes by more across it.
_STEEP_CHANGE = 8
_MOST_HALVINGS = 60  # more would halve intervals below the spacing of floats
_FEWEST_CELLS = 8
# First panels of the table of a bounded loss t <= T: those of a normal loss serve up to
# the first fraction of T. Doubled edges follow up to the second one, and then these
# values of w = −log(1 − t/T). They are first guesses; only the speed depends on them.
_NORMAL_PANELS_FRACTION = 0.6
_DOUBLED_PANELS_FRACTION = 0.45
_EDGES_NEAR_MAX_W = (1.5, 4.0, 9.0)
_MOST_DOUBLINGS = 60.0  # more than there are between the smallest edge and T
# Points of `grid` in each panel.
_GRID_POINTS_PER_PANEL = 12
# A bounded loss is evaluated up to this fraction of its maximum T; beyond it, T − t has
# lost its digits.
_LARGEST_FRACTION_OF_MAX = 1 - 1e-12


class _MomentNodes(NamedTuple):
    """A fixed quadrature rule over the table, with the values that every moment needs.

    L is the privacy loss, P₁ the output distribution on the first data set, and δ(t)
    the privacy profile.
    """

    t: Array  # the nodes: losses
    log_weight: Array  # the logarithms of the weights of the rule
    log_upper_tail: Array  # log P₁(L > t)
    log_delta: Array  # log δ(t)


class _LossIntervals(NamedTuple):
    """Intervals of losses, the parts of integrals from many values of ε to infinity.

    A panel is an interval of losses on which the table stores one polynomial. First
    comes one interval for each ε, from ε to the end of its panel, and then one interval
    for each panel. All fields are arrays with one entry for each interval.
    """

    begin: Array  # the smallest loss
    end: Array  # the largest loss
    log_tail: Array  # the logarithm of the integrated tail at `begin`
    slope: Array  # the derivative of the log tail in the coordinate w, at `begin`


class TabulatedLossLaw:
    """The tabulated tails of a privacy loss L.

    The table of an unbounded loss is extended in place when larger losses are needed.

    Parameters
    ----------
    law : PrivacyLossLaw
        The privacy loss, whose `log_tails` are tabulated.

    Attributes
    ----------
    max_loss : float
        T, the supremum of the loss; possibly infinite.
    breakpoints : tuple of float
        Losses at which the tails are not analytic.
    series : PiecewiseChebyshev
        log P₁(L > t) and log P₁(L <= t), as functions of the coordinate w, which is
        −log(1 − t/T) for a bounded loss and t otherwise.
    """

    def __init__(self, law: PrivacyLossLaw) -> None:
        """Build the table, up to the largest loss or until P₁(L > t) underflows.

        Parameters
        ----------
        law : PrivacyLossLaw
            The distribution of the privacy loss L.
        """
        self.max_loss = law.max_loss
        self.breakpoints = law.breakpoints
        self._has_atom_at_max = law.table_end is not None
        # By tail: the end of the table and the constant C of `_slope_change_at_end`.
        self._slope_changes_at_end: dict[Tail, tuple[float, float]] = {}
        self.series = PiecewiseChebyshev(
            lambda w: law.log_tails(self.loss_at(w)),
            self._rounding_of_coordinate,
            law.resolution,
            _LOWEST_LOG,
        )

        if self._is_bounded:
            self.series.add(self._panel_edges_for_bounded_loss(law))
        else:
            self.series.add(_panel_edges_for_normal_loss(law.loss_scale))
            # Double the range until the probability of a larger loss is no float.
            while self.log_upper_tail(np.array([self.end]))[0] > _LOWEST_LOG:
                self.double_range()

    def _panel_edges_for_bounded_loss(self, law: PrivacyLossLaw) -> Array:
        """Return where the panels (intervals) of the table begin, for a loss <= T.

        These are first guesses, and changing them only changes the speed: the series
        halves a panel where one polynomial is not accurate enough. What must stay is
        step 2, because no polynomial is accurate across such a point.

        1. Up to 0.6·T the edges are those for a normal loss. If these end before
           0.45·T, further edges double up to there.
        2. A panel ends at every loss at which the tails are not analytic.
        3. A few edges approach T: those at w = 1.5, 4, 9 and the end of the table.

        Parameters
        ----------
        law : PrivacyLossLaw
            The law of the loss, which has a maximum T.

        Returns
        -------
        array
            Increasing values of the coordinate w = −log(1 − t/T).
        """
        max_loss = self.max_loss

        # Step 1.
        edges = _panel_edges_for_normal_loss(law.loss_scale)
        edges = edges[edges < _NORMAL_PANELS_FRACTION * max_loss]
        last_edge = edges[-1]
        if last_edge > 0:
            doubled_edges = last_edge * 2.0 ** np.arange(1.0, _MOST_DOUBLINGS)
            doubled_edges = doubled_edges[
                doubled_edges < _DOUBLED_PANELS_FRACTION * max_loss
            ]
            edges = np.concatenate([edges, doubled_edges])

        # The end of the table: closer to T if the tails are accurate.
        if law.resolution == RESOLUTION:
            last_w = law.table_end or _LAST_W
        else:
            last_w = _LAST_W_OF_NOISY_TAILS

        # Steps 2 and 3, in the coordinate w.
        breakpoints = np.array(self.breakpoints)
        w = np.concatenate(
            [
                self._table_coordinate(edges, max_loss - edges),
                self._table_coordinate(breakpoints, max_loss - breakpoints),
                [*_EDGES_NEAR_MAX_W, last_w],
            ]
        )
        return np.unique(w[w <= last_w])

    # ---- the coordinate w

    @property
    def _is_bounded(self) -> bool:
        """Whether the loss has a finite maximum T."""
        return math.isfinite(self.max_loss)

    @property
    def end(self) -> float:
        """The largest loss t in the table."""
        last_w = self.series.edges[-1]
        if self._is_bounded:
            return -self.max_loss * math.expm1(-last_w)
        return float(last_w)

    def loss_at(self, w: Array) -> Array:
        """Return the loss t at the coordinate w of the table.

        It is T·(1 − e^{−w}) if the largest loss T is finite, and w otherwise.

        Parameters
        ----------
        w : array
            Coordinates w >= 0.

        Returns
        -------
        array
            Losses from 0 to T, of the shape of `w`.
        """
        return -self.max_loss * np.expm1(-w) if self._is_bounded else w

    def _table_coordinate(self, t: Array, distance_to_max: Array) -> Array:
        """Return the coordinate w of a loss t: −log(1 − t/T), or t if T is infinite.

        T is the largest loss, `max_loss`. So that no digits are lost, the logarithm is
        computed from t/T below T/2, and from (T − t)/T above it. Both formulas agree at
        T/2, and `loss_at` is the inverse.

        Parameters
        ----------
        t : array
            Losses in [0, T].
        distance_to_max : array
            T − t, which the caller may know to more digits than t.

        Returns
        -------
        array
            w >= 0; infinity at T.
        """
        if not self._is_bounded:
            return t
        with np.errstate(divide="ignore"):
            w_of_small_loss = -np.log1p(-np.minimum(t / self.max_loss, 0.5))
            w_of_large_loss = -np.log(distance_to_max / self.max_loss)
        return np.where(2 * t < self.max_loss, w_of_small_loss, w_of_large_loss)

    def _rounding_of_coordinate(self, w: Array) -> Array:
        """Return by how much rounding a loss t changes its coordinate w.

        The unit is 2^-50. If losses are bounded by T, w = −log(1 − t/T) changes by
        about e^w of these units; otherwise w = t changes by about w of them.

        Parameters
        ----------
        w : array
            Coordinates in the table.

        Returns
        -------
        array
            The changes, of the shape of `w`.
        """
        return np.exp(w) if self._is_bounded else w

    def double_range(self, times: int = 1) -> None:
        """Double the range of the table, in place. The loss must be unbounded.

        Parameters
        ----------
        times : int
            How often the range is doubled.
        """
        end = self.series.end
        self.series.add(np.array([end * 2.0**n for n in range(times + 1)]))

    def extend_table_to(self, t: float) -> None:
        """Extend the table in place until it contains the loss t.

        Call it before values at larger losses are needed. The table of a bounded loss
        contains all losses already and stays as it is.

        Parameters
        ----------
        t : float
            A loss >= 0.
        """
        while not self._is_bounded and self.end < t:
            self.double_range()

    def grid(self) -> Array:
        """Return a grid of losses from 0 to the end of the table.

        It has 12 evenly spaced points in each panel of the table, and the end of the
        last one. A caller searches it for maxima.

        Returns
        -------
        array
            Increasing losses.
        """
        edges = self.series.edges
        fractions = np.linspace(0.0, 1.0, _GRID_POINTS_PER_PANEL + 1)[:-1]
        # One row for each panel, one column for each fraction of it.
        w = (edges[:-1, None] + np.diff(edges)[:, None] * fractions).ravel()
        return self.loss_at(np.append(w, edges[-1]))

    # ---- the tails

    def log_upper_tail(self, t: Array) -> Array:
        """Return log P₁(L > t), the log upper tail of the loss L, from the table.

        P₁ is the output distribution on the first of two neighboring data sets.

        Parameters
        ----------
        t : array
            Losses t >= 0, at most the largest loss.

        Returns
        -------
        array
            One logarithm <= 0 for each t.
        """
        return self._log_tail_at(
            self._table_coordinate(t, self.max_loss - t), Tail.UPPER
        )

    def log_lower_tail(self, t: Array) -> Array:
        """Return log P₁(L <= t), the log lower tail of the loss L, from the table.

        P₁ is the output distribution on the first of two neighboring data sets.

        Parameters
        ----------
        t : array
            Losses t >= 0, at most the largest loss.

        Returns
        -------
        array
            One logarithm <= 0 for each t.
        """
        return self._log_tail_at(
            self._table_coordinate(t, self.max_loss - t), Tail.LOWER
        )

    def log_upper_tail_of_second_law(self, t: Array) -> Array:
        """Return log P₂(L > t), the upper tail of the loss on the second data set.

        P₁ and P₂ are the output distributions on the two data sets, L is the privacy
        loss, and δ(t) the privacy profile. `log_upper_tail` is the same tail under P₁.
        The tail under P₂ follows from it by one of two differences:

            e^t·P₂(L > t) = P₁(L > t) − δ(t) = (1 − δ(t)) − P₁(L <= t).

        The first is used if P₁(L > t) < P₁(L <= t), and the second otherwise: the
        difference with the smaller tail loses fewer digits.

        tests/privacy/test_loss_table.py compares it with the closed form for normal
        losses.

        Parameters
        ----------
        t : array
            Losses t >= 0.

        Returns
        -------
        array
            One logarithm for each t.
        """
        log_upper = self.log_upper_tail(t)
        log_lower = self.log_lower_tail(t)
        log_delta = self.log_delta(t)
        log_complement_of_delta = self.log_one_minus_delta(t)

        # Choose the difference minuend − subtrahend; both are logarithms here.
        use_upper = log_upper < log_lower
        minuend = np.where(use_upper, log_upper, log_complement_of_delta)
        subtrahend = np.where(use_upper, log_delta, log_lower)

        # The logarithm of minuend − subtrahend, and −infinity where both are 0.
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.minimum(subtrahend - minuend, 0.0)
            log_difference = minuend + np.log(-np.expm1(log_ratio))
        log_difference = np.where(np.isnan(log_difference), -math.inf, log_difference)
        return log_difference - t

    def _log_tail_at(self, w: Array, tail: Tail) -> Array:
        """Return the logarithm of one tail of the loss, also beyond the table's end.

        Parameters
        ----------
        w : array
            Coordinates of losses t: w = −log(1 − t/T) if the largest loss T is finite,
            and w = t otherwise.
        tail : Tail
            UPPER for log P₁(L > t), LOWER for log P₁(L <= t).

        Returns
        -------
        array
            One logarithm for each w.
        """
        log_tail = self.series.value(w, tail)
        is_beyond = w > self.series.end
        if np.any(is_beyond):
            extrapolated, _ = self._log_tail_and_slope(w[is_beyond], tail)
            log_tail[is_beyond] = extrapolated
        return log_tail

    def _log_tail_and_slope(self, w: Array, tail: Tail) -> tuple[Array, Array]:
        """Return the logarithm of one tail of the loss, and its derivative in w.

        w is the coordinate −log(1 − t/T) of a loss t, with T the largest loss. Beyond
        the end w₀ of the table, the logarithm is continued linearly in w: then the tail
        is a power of T − t. If the loss takes the value T with positive probability,
        the slope is not constant. It is −k + C·e^{w₀ − w}, with C from
        `_slope_change_at_end` and −k + C the slope at w₀. The value is the integral of
        that slope, so both must be changed together.

        A change of the model beyond the table must come with an error bound in
        `_log_extrapolation_error`.

        Parameters
        ----------
        w : array
            Coordinates.
        tail : Tail
            UPPER for log P₁(L > t), LOWER for log P₁(L <= t).

        Returns
        -------
        value, slope : array
            The log tail and its derivative in w.
        """
        # `distance_beyond` is w − w₀ beyond the last panel, and 0 within the table.
        value, slope, distance_beyond = self.series.value_and_slope(w, tail)
        if self._has_atom_at_max and np.any(distance_beyond > 0):
            slope_change = self._slope_change_at_end(tail)
            integrated_change = distance_beyond + np.expm1(-distance_beyond)
            value = value - slope_change * integrated_change
            slope = slope + slope_change * np.expm1(-distance_beyond)
        return value, slope

    def _slope_change_at_end(self, tail: Tail) -> float:
        """Return how fast the slope of a log tail changes at the end of the table.

        The tail is extrapolated beyond the end w₀ of the table. Near w₀ the derivative
        of its logarithm in the coordinate w is modeled as −k + C·e^{w₀ − w}, and C is
        returned. The slopes at w₀ − h and at w₀ differ by C·(e^h − 1), from which C
        follows; h is at most 1 and within the last panel. C is stored until the table
        is extended.

        If the loss takes its largest value with positive probability, the model is used
        beyond w₀. Otherwise C is mostly a rounding error, and the tail is continued
        with the constant slope −k + C.

        Parameters
        ----------
        tail : Tail
            The upper or the lower tail.

        Returns
        -------
        float
            The constant C.
        """
        # Reuse a stored C if it belongs to the present end of the table.
        end = self.series.edges[-1]
        cached = self._slope_changes_at_end.get(tail)
        if cached is not None and cached[0] == end:
            return cached[1]

        # Compare the slopes at both ends of the last step.
        step = min(1.0, end - self.series.edges[-2])
        _, slopes = self._log_tail_and_slope(np.array([end - step, end]), tail)

        slope_change = float(slopes[0] - slopes[1]) / math.expm1(step)
        self._slope_changes_at_end[tail] = (end, slope_change)
        return slope_change

    # ---- δ and 1 − δ

    def log_delta(self, eps: Array) -> Array:
        """Return log δ(ε) = log ∫_ε^∞ e^{ε−t}·P₁(L > t) dt.

        δ is the privacy profile, L the privacy loss and P₁ the output distribution on
        the first data set. For a bounded loss the result is rounded up.

        Parameters
        ----------
        eps : array
            ε from 0 to the end of the table.

        Returns
        -------
        array
            log δ(ε) <= 0, of the shape of `eps`.
        """
        return self._discounted_tail_integral(eps, Tail.UPPER)

    def log_one_minus_delta(self, eps: Array) -> Array:
        """Return log(1 − δ(ε)) = log ∫_ε^∞ e^{ε−t}·P₁(L <= t) dt.

        δ is the privacy profile, L the privacy loss and P₁ the output distribution on
        the first data set. For a bounded loss the result is rounded down.

        Parameters
        ----------
        eps : array
            ε from 0 to the end of the table.

        Returns
        -------
        array
            log(1 − δ(ε)) <= 0, of the shape of `eps`.
        """
        return self._discounted_tail_integral(eps, Tail.LOWER)

    def _discounted_tail_integral(self, eps: Array, tail: Tail) -> Array:
        """Return log ∫_ε^∞ e^{ε−t}·P(t) dt, where P is one tail of the loss.

        With the upper tail, this is log δ(ε), with δ the privacy profile; with the
        lower tail, log(1 − δ(ε)). For a bounded loss, δ is rounded up and 1 − δ down.

        Parameters
        ----------
        eps : array
            ε in [0, end], of any shape. Long arrays are integrated in batches.
        tail : Tail
            Whether P is the upper or the lower tail.

        Returns
        -------
        array
            One logarithm for each ε.
        """
        eps = np.asarray(eps, np.float64)

        # Long arrays: batch by batch.
        if eps.size > _MAX_EPS_PER_BATCH:
            batches = np.array_split(eps.ravel(), eps.size // (_MAX_EPS_PER_BATCH // 2))
            results = [self._discounted_tail_integral(batch, tail) for batch in batches]
            return np.concatenate(results).reshape(eps.shape)

        # Integrate one batch, and round δ up or 1 − δ down.
        flat_eps = eps.ravel()
        log_total = self._sum_over_panels(flat_eps, tail)
        if self._is_bounded:
            log_total = self._add_extrapolation_error(log_total, flat_eps, tail)
        return log_total.reshape(eps.shape)

    def _sum_over_panels(self, eps: Array, tail: Tail) -> Array:
        """Return log ∫_ε^∞ e^{ε−t}·P(t) dt for many ε, where P is one tail of the loss.

        The table consists of panels, which are intervals of losses. An integral is a
        sum over intervals: one from ε to the end of its panel, and every later panel.
        The latter are shared by many ε. The steps are:

        1. Divide the integrals into intervals.
        2. For each ε and each panel, look up the interval and the integrand at its
           beginning. Skip intervals that are negligible beside the largest one.
        3. Integrate over the remaining intervals, and add up the results for each ε.

        Each interval must be counted exactly once for each ε. The result is compared
        with closed forms and with quadrature in tests/privacy/test_loss_table.py.

        Parameters
        ----------
        eps : array
            The left ends of the integrals, in one dimension.
        tail : Tail
            Whether P is the upper or the lower tail.

        Returns
        -------
        array
            One logarithm for each ε.
        """
        # Step 1. The last panel is extended to the largest loss.
        edges = np.array(self.loss_at(self.series.edges))
        edges[-1] = self.max_loss
        lower_edges = edges[:-1]
        upper_edges = edges[1:]
        intervals = self._divide_into_intervals(eps, lower_edges, upper_edges, tail)

        # Step 2. `index` has a row for each ε and a column for each panel. An entry is
        # the interval that this ε uses in this panel: the panel itself if it begins
        # after ε, or else the interval that begins at ε.
        is_later_panel = eps[:, None] < lower_edges
        index_of_panel = len(eps) + np.arange(len(lower_edges))
        index_of_eps = np.arange(len(eps))[:, None]
        index = np.where(is_later_panel, index_of_panel, index_of_eps)

        begin = intervals.begin[index]
        log_integrand = intervals.log_tail[index] + (eps[:, None] - begin)
        largest = log_integrand.max(axis=1, keepdims=True)
        ends_after_eps = begin < upper_edges
        is_negligible = ~(log_integrand > largest - _NEGLIGIBLE_INTERVAL)
        is_used = ends_after_eps & ~is_negligible

        # Step 3. Now in one dimension: one entry for each used pair of ε and interval.
        eps_index = np.nonzero(is_used)[0]
        used_index = index[is_used]
        log_discount = eps[eps_index] - intervals.begin[used_index]
        log_integrals = self._integrate_over_intervals(
            intervals, used_index, log_discount, tail
        )
        log_total = np.full(eps.shape, -math.inf)
        np.logaddexp.at(log_total, eps_index, log_integrals)
        return log_total

    def _divide_into_intervals(
        self, eps: Array, lower_edges: Array, upper_edges: Array, tail: Tail
    ) -> _LossIntervals:
        """Return the intervals over which a tail of the loss is integrated.

        Each integral runs from some ε to infinity. The table consists of panels, which
        are intervals of losses. The result has one interval for each ε, from ε to the
        end of its panel, and then one interval for each panel.

        Parameters
        ----------
        eps : array
            The left ends of the integrals.
        lower_edges : array
            The smallest loss of each panel.
        upper_edges : array
            The largest loss of each panel.
        tail : Tail
            The tail that is integrated: P₁(L > t) or P₁(L <= t).

        Returns
        -------
        _LossIntervals
            The intervals, first one for each ε and then one for each panel.
        """
        panel_of_eps = np.searchsorted(lower_edges, eps, side="right") - 1
        begin = np.concatenate([eps, lower_edges])
        end = np.concatenate([upper_edges[panel_of_eps], upper_edges])

        # The tail at the beginning of each interval says whether the interval matters.
        begin_w = self._table_coordinate(begin, self.max_loss - begin)
        log_tail, slope = self._log_tail_and_slope(begin_w, tail)
        return _LossIntervals(begin, end, log_tail, slope)

    def _add_extrapolation_error(
        self, log_total: Array, eps: Array, tail: Tail
    ) -> Array:
        """Raise δ, or lower 1 − δ, by the error of an extrapolated tail.

        δ(ε) and 1 − δ(ε) are integrals ∫_ε^∞ e^{ε−t}·P(t) dt over the upper and the
        lower tail P of the privacy loss. Between the end of the table and the largest
        loss T, the tail P is only extrapolated. δ is raised by the error that this can
        cause. 1 − δ is lowered by it, after the integral e^{ε−T} over losses beyond T,
        at which the lower tail is 1, has been added. The signs must stay: δ may only be
        too large, which is on the side of privacy.

        Parameters
        ----------
        log_total : array
            The logarithm of the integral over the table and its continuation.
        eps : array
            The left ends ε of the integrals.
        tail : Tail
            Whether P is the upper or the lower tail.

        Returns
        -------
        array
            The corrected logarithms.
        """
        log_error = self._log_extrapolation_error(eps, tail)
        if tail is Tail.UPPER:
            return np.asarray(np.logaddexp(log_total, log_error))

        log_integral_beyond_max = np.minimum(eps - self.max_loss, 0.0)
        log_total = np.logaddexp(log_total, log_integral_beyond_max)
        relative_error = np.exp(np.minimum(log_error - log_total, 0.0))
        return np.asarray(log_total + np.log1p(-np.minimum(relative_error, 0.5)))

    def _integrate_over_intervals(
        self,
        intervals: _LossIntervals,
        used_index: NDArray[np.int64],
        log_discount: Array,
        tail: Tail,
    ) -> Array:
        """Return the logarithms of ∫ e^{ε−t}·P(t) dt over intervals [begin, end].

        P is one tail of the privacy loss. Several ε may need the same interval; P is
        evaluated once for all of them. If log P is concave, the integrand falls at
        least like e^{−(decay rate)·(t − begin)}. So the quadrature stops where the
        integrand is negligible.

        The cut-off is only where the integrand is below e^-44 of its beginning, so that
        nothing visible is lost.

        Parameters
        ----------
        intervals : _LossIntervals
            All intervals.
        used_index : array of int
            The indices of the intervals to integrate over. An index may occur several
            times, for different ε.
        log_discount : array
            ε − begin, for each entry of `used_index`.
        tail : Tail
            The tail P.

        Returns
        -------
        array
            One logarithm for each entry of `used_index`.
        """
        # Evaluate each interval once: `used_index` is unique_index[position].
        unique_index, position = np.unique(used_index, return_inverse=True)
        begin = intervals.begin[unique_index]
        end = intervals.end[unique_index]
        slope = intervals.slope[unique_index]

        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # The decay rate −(d/dt) log(e^{−t}·P(t)): 1 from e^{−t}, and the slope of
            # log P. It says where the integrand is negligible.
            distance_to_max = self.max_loss - begin
            dw_dt = 1 / distance_to_max if self._is_bounded else np.ones_like(begin)
            decay_rate = 1.0 - np.minimum(slope * dw_dt, 0.0)
            length = np.minimum(NEGLIGIBLE / decay_rate, end - begin)

            # log P at the nodes; rows are intervals and columns are nodes.
            offset = length[:, None] * UNIT_NODES  # t − begin at the nodes
            w = self._table_coordinate(
                begin[:, None] + offset, distance_to_max[:, None] - offset
            )
            log_tail = self._log_tail_at(w, tail)

            # The integrand, with the rows repeated for every ε that uses them.
            log_integrand = (
                log_tail[position] + log_discount[:, None] - offset[position]
            )
            log_means = log_sum_exp(log_integrand + UNIT_LOG_WEIGHTS, axis=1)
            return np.asarray(np.log(length)[position] + log_means)

    def _log_extrapolation_error(self, eps: Array, tail: Tail) -> Array:
        """Return the log of a bound on the error that an extrapolated tail causes.

        Beyond the end of the table, a tail P of the loss is extrapolated up to the
        largest loss T. The bound is on the error of ∫_ε^T e^{ε−t}·P(t) dt, with a
        factor of 2 to spare. Let C measure how fast the slope of log P changes at the
        end of the table (`_slope_change_at_end`). The error of log P is at most |C| if
        P was extrapolated with a constant slope, and of second order in C if the change
        of the slope was taken into account. A larger error is safe: it only raises δ.

        Parameters
        ----------
        eps : array
            The left ends ε of the integrals.
        tail : Tail
            Whether P is the upper or the lower tail.

        Returns
        -------
        array
            One logarithm for each ε.
        """
        # The error of log P, times 2.
        slope_change = abs(self._slope_change_at_end(tail))
        if self._has_atom_at_max:
            error = 4 * slope_change * slope_change + _LEAST_EXTRAPOLATION_ERROR
        else:
            error = 2 * slope_change

        # The integral over the extrapolated losses is at most the length of that
        # interval times the integrand at its beginning, because P decreases.
        t = np.clip(eps, self.end, self.max_loss)
        distance_to_max = self.max_loss - t
        with np.errstate(divide="ignore"):
            w = np.minimum(
                self._table_coordinate(t, distance_to_max), _EDGES_BEYOND_TABLE_W[-1]
            )
            log_tail, _ = self._log_tail_and_slope(w, tail)
            return np.asarray(
                np.log(error) + log_tail + np.log(distance_to_max) + (eps - t)
            )

    def relative_error_near_max_loss(self, eps: Array) -> Array:
        """Return a bound on the relative error of δ(ε) close to the largest loss T.

        The error comes from rounding ε, and from extrapolating the tails beyond the end
        of the table. The bound is 0 if the loss is unbounded, and for ε far from T
        (w = −log(1 − ε/T) <= 2).

        Parameters
        ----------
        eps : array
            Values ε >= 0 of the privacy parameter.

        Returns
        -------
        array
            A relative error, one for each ε.
        """
        if not self._is_bounded:
            return np.zeros_like(eps)

        # How steeply log δ varies in w, and by how much w may be off.
        w = self._table_coordinate(eps, self.max_loss - eps)
        steepness = np.abs(self._log_tail_and_slope(w, Tail.UPPER)[1]) + 1
        with np.errstate(over="ignore", invalid="ignore"):
            rounding = np.exp(np.minimum(w, _EDGES_BEYOND_TABLE_W[-1])) * _LOSS_ROUNDING
            extrapolation_error = np.where(
                w > self.series.edges[-1], _EXTRAPOLATION_ERROR_NEAR_MAX, 0.0
            )
            error_of_w = np.minimum(rounding + extrapolation_error, 1.0)
            return steepness * np.where(w > _NEAR_MAX_W, error_of_w, 0.0)

    # ---- the loss at any real number, for sums of independent losses

    @cached_property
    def _series_of_second_law(self) -> PiecewiseChebyshev:
        """A series of t + log P₂(L > t), on the panels of the table when first used.

        L is the privacy loss and P₂ the output distribution on the second data set. The
        variable is the coordinate w of the table.
        """

        def shifted_log_tail(w: Array) -> Array:
            """Return t + log P₂(L > t) at the coordinate w of the loss t."""
            t = self.loss_at(w)
            return self.log_upper_tail_of_second_law(t) + t

        return self.series.with_function(shifted_log_tail)

    def _fast_log_upper_tail_of_second_law(self, t: Array) -> Array:
        """Return log P₂(L > t) for t >= 0, from a series instead of integrals.

        L is the privacy loss and P₂ the output distribution on the second data set.
        `log_upper_tail_of_second_law` returns the same quantity more accurately.

        Parameters
        ----------
        t : array
            Losses t >= 0. Beyond the table, the value at its end is used.

        Returns
        -------
        array
            One logarithm for each t.
        """
        series_end = np.nextafter(self._series_of_second_law.end, 0.0)
        w = np.minimum(self._table_coordinate(t, self.max_loss - t), series_end)
        return self._series_of_second_law.value(w, 0) - t

    @property
    def _largest_evaluated_loss(self) -> float:
        """The largest |t| at which tails and density at a real loss t are evaluated.

        It is just below the largest loss, where the coordinate w would be infinite, or
        the end of the table if the loss is unbounded.
        """
        return (
            self.max_loss * _LARGEST_FRACTION_OF_MAX if self._is_bounded else self.end
        )

    def _clipped_magnitude(self, t: Array) -> Array:
        """Return the magnitude |t|, cut off just below a finite largest loss.

        Parameters
        ----------
        t : array
            Real losses.

        Returns
        -------
        array
            The magnitudes, of the shape of `t`.
        """
        if self._is_bounded:
            return np.minimum(np.abs(t), self._largest_evaluated_loss)
        return np.abs(t)

    def log_upper_tail_at_any_loss(self, t: Array) -> Array:
        """Return log P₁(L > t) for any real t, negative or positive.

        `log_upper_tail` is the same function, but only for t >= 0, where the table
        stores it. L is the privacy loss, and P₁ and P₂ are the output distributions on
        the two data sets. For t < 0, P₁(L > t) = 1 − P₂(L > |t|), because an isometry
        of the space swaps P₁ and P₂.

        Parameters
        ----------
        t : array
            Real losses t.

        Returns
        -------
        array
            One logarithm for each t.
        """
        magnitude = self._clipped_magnitude(t)

        # For t < 0 the probability is 1 − P₂(L > |t|). By rounding errors of the table,
        # log P₂ may come out above 0, and log(1 − P₂) would not be a number. There
        # log P₂ is replaced by a tiny negative number, and log(1 − P₂) is −infinity.
        log_tail_of_second = self._fast_log_upper_tail_of_second_law(magnitude)
        log_tail_of_second = np.minimum(log_tail_of_second, _LARGEST_LOG_PROBABILITY)
        with np.errstate(divide="ignore"):
            log_if_negative = np.log1p(-np.exp(log_tail_of_second))

        # For t >= 0, the table.
        log_if_positive = np.where(
            t >= self.max_loss, -math.inf, self.log_upper_tail(magnitude)
        )
        return np.where(t < 0, log_if_negative, log_if_positive)

    def log_lower_tail_at_any_loss(self, t: Array) -> Array:
        """Return log P₁(L <= t) for any real t, negative or positive.

        `log_lower_tail` is the same function, but only for t >= 0, where the table
        stores it. L is the privacy loss, and P₁ and P₂ are the output distributions on
        the two data sets. For t < 0, P₁(L <= t) = P₂(L > |t|), because an isometry of
        the space swaps P₁ and P₂.

        Parameters
        ----------
        t : array
            Real losses t.

        Returns
        -------
        array
            One logarithm for each t.
        """
        magnitude = self._clipped_magnitude(t)

        # For t < 0, P₂(L > |t|).
        log_tail_of_second = self._fast_log_upper_tail_of_second_law(magnitude)
        log_if_negative = np.where(t <= -self.max_loss, -math.inf, log_tail_of_second)

        # For t >= 0, the table.
        log_if_positive = np.where(
            t >= self.max_loss, 0.0, self.log_lower_tail(magnitude)
        )
        return np.where(t < 0, log_if_negative, log_if_positive)

    def log_density_at_any_loss(self, t: Array) -> Array:
        """Return the logarithm of the density f of the loss L under P₁, for any real t.

        P₁ is the output distribution on the first data set. For t > 0 the density is
        f(t) = −d/dt P₁(L > t), from the slope of the series. For negative arguments
        f(−t) = e^{−t}·f(t), because an isometry of the space swaps the output
        distributions on the two data sets.

        Parameters
        ----------
        t : array
            Real losses t.

        Returns
        -------
        array
            One logarithm for each t; −infinity beyond the largest loss.
        """
        magnitude = np.minimum(np.abs(t), self._largest_evaluated_loss)
        distance_to_max = self.max_loss - magnitude
        w = self._table_coordinate(magnitude, distance_to_max)

        # The density −(d/dt) P₁(L > t) at |t|. By the chain rule it is −P·slope·dw/dt,
        # where P = P₁(L > t), and the slope is the derivative of log P in w.
        log_tail, slope = self._log_tail_and_slope(w, Tail.UPPER)
        dw_dt = 1 / distance_to_max if self._is_bounded else 1.0
        with np.errstate(divide="ignore"):
            log_density = log_tail + np.log(np.maximum(-slope * dw_dt, 0.0))

        # The factor e^{−|t|} at negative losses.
        log_density = log_density + np.where(t < 0, t, 0.0)
        return np.where(
            np.abs(t) > self._largest_evaluated_loss, -math.inf, log_density
        )

    # ---- integrals over all losses

    @property
    def _edges_beyond_table(self) -> list[float]:
        """Coordinates w of losses between the end of the table and the largest loss.

        They are the edges of cells for integrals over the extrapolated tail. There are
        none if the loss is unbounded.
        """
        if not self._is_bounded:
            return []
        return [w for w in _EDGES_BEYOND_TABLE_W if w > self.series.edges[-1]]

    @cached_property
    def _moment_nodes(self) -> _MomentNodes:
        """A fixed quadrature rule over losses t, with P₁(L > t) and δ(t) at its nodes.

        Every moment of the loss uses it. Each panel of the table is divided into four
        cells with 16 nodes each. The nodes are laid out in the coordinate w of the
        table, and their weights include the factor dt/dw of the substitution.
        """
        # Four cells in each panel.
        panel_edges = np.append(self.series.edges, self._edges_beyond_table)
        panel_width = np.diff(panel_edges)[:, None]
        cell_starts = panel_edges[:-1, None] + panel_width * np.arange(4) / 4
        cell_edges = np.append(cell_starts.ravel(), panel_edges[-1])
        cell_width = np.diff(cell_edges)[:, None]

        # The nodes of all cells: rows are cells and columns are nodes, before `ravel`.
        w = (cell_edges[:-1, None] + cell_width * _PANEL_NODES).ravel()
        t = self.loss_at(w)
        # A cell that is narrower than a rounding has the weight 0.
        with np.errstate(divide="ignore"):
            log_weight = np.log((cell_width * _PANEL_WEIGHTS).ravel())
            log_weight = log_weight + self._log_dt_dw(w)
        return _MomentNodes(t, log_weight, self.log_upper_tail(t), self.log_delta(t))

    def _log_dt_dw(self, w: Array) -> Array | float:
        """Return log dt/dw, the factor by which an integral over w becomes one over t.

        t is a loss and w its coordinate in the table. dt/dw is T·e^{−w} for a loss
        bounded by T, and 1 otherwise.

        Parameters
        ----------
        w : array
            Coordinates w >= 0.

        Returns
        -------
        array or float
            One logarithm for each w; the number 0 for an unbounded loss.
        """
        return math.log(self.max_loss) - w if self._is_bounded else 0.0

    def log_moment_integral(self, s: float) -> float:
        """Return log((E₁[e^{sL}] − 1)/s), an integral that gives the moment E₁[e^{sL}].

        L is the privacy loss, E₁ the mean under the output distribution P₁ on the first
        data set, and δ(t) the privacy profile. With S(t) = P₁(L > t), for s > −1
        (docs/theory/exact-profiles.md),

            (E₁[e^{sL}] − 1)/s
                = ∫₀^∞ (S(t)·(e^{st} − e^{−(s+1)t}) + e^{−(s+1)t}·δ(t)) dt.

        Rényi divergences and ρ of zCDP are computed from it. A fixed quadrature rule is
        used if its nodes resolve this integrand, and an adaptive one otherwise. The
        adaptive rule may extend the table of an unbounded loss in place.

        Both rules must give the same integral; tests/privacy/test_profile.py compares
        Rényi divergences with direct integration.

        Parameters
        ----------
        s : float
            The exponent s > −1.

        Returns
        -------
        float
            The logarithm of the integral.
        """

        def log_integrand(t: Array, log_upper: Array, log_delta: Array) -> Array:
            """Return the log integrand at losses t, given log S(t) and log δ(t)."""
            with np.errstate(divide="ignore"):
                first_term = log_upper + s * t + np.log(-np.expm1(-(2 * s + 1) * t))
            second_term = log_delta - (s + 1) * t
            return np.logaddexp(first_term, second_term)

        # The fixed rule: its terms add up to the integral.
        nodes = self._moment_nodes
        values = log_integrand(nodes.t, nodes.log_upper_tail, nodes.log_delta)
        log_terms = values + nodes.log_weight

        # The fixed rule is good if the integrand varies slowly between all nodes that
        # matter, and is negligible at the end of a table that could be longer.
        largest = log_terms.max()
        matters = log_terms[1:] > largest - _NEGLIGIBLE_TERM
        changes = np.abs(np.diff(values))[matters]
        is_resolved = np.max(changes, initial=0.0) < _RESOLVED_CHANGE
        has_ended = self._is_bounded or log_terms[-1] < largest - _NEGLIGIBLE_LAST_TERM
        if is_resolved and has_ended:
            return float(log_sum_exp(log_terms, axis=0))

        # Otherwise the adaptive rule.
        return self.log_integral(
            lambda t: log_integrand(t, self.log_upper_tail(t), self.log_delta(t)), s
        )

    def log_integral(
        self, log_integrand: Callable[[Array], Array], growth: float
    ) -> float:
        """Return log ∫₀^T f(t) dt of a positive function f of the privacy loss.

        T is the largest loss. If T is infinite, the table is first extended in place
        until f is negligible at its end. Then the intervals between grid points are
        halved until f varies little on each, and each is integrated with 16 nodes.

        Parameters
        ----------
        log_integrand : callable
            log f, a function of an array of losses.
        growth : float
            f(t) is about as large as e^{growth·t}·P₁(L > t).

        Returns
        -------
        float
            The logarithm of the integral.
        """
        if not self._is_bounded:
            self._extend_until_negligible(growth)

        # The first cells lie between the grid points, in the coordinate w.
        grid = self.grid()
        grid_w = self._table_coordinate(grid, self.max_loss - grid)
        cell_edges = np.unique(np.concatenate([self.series.edges, grid_w]))
        # If T is huge, the last loss of the grid is rounded to T, where w is infinite.
        cell_edges = cell_edges[cell_edges <= self.series.edges[-1]]
        cell_edges = np.append(cell_edges, self._edges_beyond_table)
        low, high = self._halve_steep_cells(
            log_integrand, cell_edges[:-1], cell_edges[1:]
        )

        # One quadrature rule on each cell: rows are cells, columns are nodes.
        cell_width = (high - low)[:, None]
        nodes = low[:, None] + cell_width * _PANEL_NODES
        with np.errstate(divide="ignore"):
            log_weight = np.log(cell_width * _PANEL_WEIGHTS)
        log_terms = (
            self._log_integrand_in_table_coordinate(log_integrand, nodes) + log_weight
        )
        return float(log_sum_exp(log_terms.ravel(), axis=0))

    def _extend_until_negligible(self, growth: float) -> None:
        """Extend the table in place until e^{growth·t}·P₁(L > t) is negligible.

        An integrand is about as large as that. Negligible means below e^-60 of the
        maximum. The privacy loss L must be unbounded.

        Parameters
        ----------
        growth : float
            The rate at which the integrand grows relative to the tail P₁(L > t).
        """
        while True:
            grid = self.grid()
            log_largest = (growth * grid + self.log_upper_tail(grid)).max()
            log_tail_at_end = self.log_upper_tail(np.array([self.end]))[0]
            log_at_end = growth * self.end + log_tail_at_end
            # Written with `not`, so that a NaN ends the loop.
            if not log_at_end > log_largest - _NEGLIGIBLE_END:
                return
            self.double_range()

    def _halve_steep_cells(
        self, log_integrand: Callable[[Array], Array], low: Array, high: Array
    ) -> tuple[Array, Array]:
        """Halve intervals until a positive function f varies little on each.

        It is called before a quadrature rule is applied to every interval. On each of
        them f must vary by less than a factor of e^8, or the rule would be inaccurate.
        Intervals at whose ends f is below e^-50 of its largest value are dropped. At
        least 8 intervals remain. There are at most 60 rounds of halving.

        Parameters
        ----------
        log_integrand : callable
            log f, a function of an array of losses.
        low, high : array
            The ends of the intervals, in the coordinate w of the table.

        Returns
        -------
        low, high : array
            The ends of the remaining intervals.
        """
        for _ in range(_MOST_HALVINGS):
            # Evaluate log f at both ends of every cell, in one call.
            ends = np.concatenate([low, high])
            values = self._log_integrand_in_table_coordinate(log_integrand, ends)
            at_low = values[: len(low)]
            at_high = values[len(low) :]
            larger = np.maximum(at_low, at_high)

            # Drop the negligible cells.
            matters = (larger > larger.max() - _NEGLIGIBLE_CELL) & (high > low)
            low, high = low[matters], high[matters]
            at_low, at_high = at_low[matters], at_high[matters]

            # Stop if no cell needs to be halved.
            is_steep = np.abs(at_low - at_high) > _STEEP_CHANGE
            has_too_few_cells = len(low) < _FEWEST_CELLS
            # A shorter cell is nearly as short as the spacing of floats, and cannot
            # become less steep. It is at a jump of f.
            can_be_halved = high - low > 1e-12 * high
            if not has_too_few_cells and not np.any(is_steep & can_be_halved):
                break

            # Halve the steep cells, or all of them if there are too few. The left half
            # takes the place of its cell, and the right half is appended.
            middle = (low + high) / 2
            is_split = is_steep | has_too_few_cells
            left_ends = np.concatenate([low, middle[is_split]])
            right_ends = np.concatenate(
                [np.where(is_split, middle, high), high[is_split]]
            )
            low, high = left_ends, right_ends
        return low, high

    def _log_integrand_in_table_coordinate(
        self, log_integrand: Callable[[Array], Array], w: Array
    ) -> Array:
        """Return log(f(t)·dt/dw): the integrand of ∫f dt if w is the variable.

        w is the coordinate of a loss t in the table.

        Parameters
        ----------
        log_integrand : callable
            log f, a function of an array of losses t.
        w : array
            The coordinates of the losses.

        Returns
        -------
        array
            One logarithm for each w.
        """
        return np.asarray(log_integrand(self.loss_at(w)) + self._log_dt_dw(w))


def _panel_edges_for_normal_loss(loss_scale: float) -> Array:
    """Return where the panels of a table should begin, for a nearly normal loss.

    With the standard deviation s, its distribution is about N(s²/2, s²). The edges of
    the panels are 0, the mean, and the points 4, 8, …, 64 standard deviations to either
    side of it. Edges below s/4, other than 0, are left out.

    Parameters
    ----------
    loss_scale : float
        The standard deviation s of the loss.

    Returns
    -------
    array
        Increasing losses, starting with 0.
    """
    mean = loss_scale * loss_scale / 2
    steps = 4 * loss_scale * 2.0 ** np.arange(0.0, 5.0)
    edges = np.concatenate([mean - steps[::-1], [mean], mean + steps])
    return np.concatenate([[0.0], edges[edges > loss_scale / 4]])
