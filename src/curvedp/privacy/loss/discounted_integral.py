"""The integrals ∫_ε^∞ e^{ε−t}·P(t) dt of one tail P of a privacy loss, for many ε at once.
With the upper tail P₁(L > t) this is the privacy profile δ(ε), and with the lower tail
P₁(L <= t) it is 1 − δ(ε). The tails come from a `TailTable`.

The table consists of *panels*, which are intervals of losses. An integral is a sum over
intervals: one from ε to the end of its panel, and every later panel. The latter are
shared by many ε.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp
from curvedp.privacy.loss.law import NEGLIGIBLE, UNIT_LOG_WEIGHTS, UNIT_NODES
from curvedp.privacy.loss.tail_table import Tail, TailTable

# The number of ε's that are integrated at a time, so that the arrays stay in the cache.
_MAX_EPS_PER_BATCH = 2048
# A logarithm: an interval is negligible if its integrand is below e^-46 of the largest.
# A larger number is safe and slower.
_NEGLIGIBLE_INTERVAL = 46


class _LossIntervals(NamedTuple):
    """Intervals of losses, the parts of integrals from many values of ε to infinity.

    First comes one interval for each ε, from ε to the end of its panel, and then one
    interval for each panel. All fields are arrays with one entry for each interval.
    """

    begin: Array  # the smallest loss
    end: Array  # the largest loss
    log_tail: Array  # the logarithm of the integrated tail at `begin`
    slope: Array  # the derivative of the log tail in the coordinate w, at `begin`


class _UsedIntervals(NamedTuple):
    """The pairs of an ε and an interval that matters for its integral."""

    eps_index: NDArray[np.int64]  # the position of ε
    interval_index: NDArray[np.int64]  # the position of the interval


def log_discounted_integral(table: TailTable, eps: Array, tail: Tail) -> Array:
    """Return log δ(ε) or log(1 − δ(ε)), as log ∫_ε^∞ e^{ε−t}·P(t) dt.

    P is one tail of the privacy loss: the upper one gives the privacy profile δ(ε), the
    lower one 1 − δ(ε). For a bounded loss, δ is rounded up and 1 − δ down.

    Parameters
    ----------
    table : TailTable
        The table of the tails.
    eps : array
        ε from 0 to the end of the table, of any shape. Long arrays are integrated in
        batches.
    tail : Tail
        UPPER for log δ(ε), LOWER for log(1 − δ(ε)).

    Returns
    -------
    array
        One logarithm for each ε.
    """
    eps = np.asarray(eps, np.float64)
    flat_eps = eps.ravel()
    if eps.size > _MAX_EPS_PER_BATCH:
        batches = np.array_split(flat_eps, eps.size // (_MAX_EPS_PER_BATCH // 2))
        results = [log_discounted_integral(table, batch, tail) for batch in batches]
        return np.concatenate(results).reshape(eps.shape)

    log_total = _sum_over_intervals(table, flat_eps, tail)
    if table.is_bounded:
        log_total = _add_extrapolation_error(table, log_total, flat_eps, tail)
    return log_total.reshape(eps.shape)


def _sum_over_intervals(table: TailTable, eps: Array, tail: Tail) -> Array:
    """Return log ∫_ε^∞ e^{ε−t}·P(t) dt for many ε, interval by interval.

    P is one tail of the privacy loss. Intervals that many ε share are integrated once.
    Each interval must be counted exactly once for each ε. The result is compared with
    closed forms and with quadrature in tests/privacy/test_loss_table.py.

    Parameters
    ----------
    table : TailTable
        The table of the tails.
    eps : array
        The left ends of the integrals, in one dimension.
    tail : Tail
        Whether P is the upper or the lower tail.

    Returns
    -------
    array
        One logarithm for each ε.
    """
    # The edges of the panels. The last panel is extended to the largest loss.
    edges = np.array(table.loss_at(table.series.edges))
    edges[-1] = table.max_loss

    intervals = _divide_into_intervals(table, eps, edges, tail)
    used = _find_used_intervals(intervals, eps, edges)

    # Add up the integrals over all used intervals of each ε.
    log_discount = eps[used.eps_index] - intervals.begin[used.interval_index]
    log_integrals = _integrate_over_intervals(
        table, intervals, used.interval_index, log_discount, tail
    )
    log_total = np.full(eps.shape, -math.inf)
    np.logaddexp.at(log_total, used.eps_index, log_integrals)
    return log_total


def _divide_into_intervals(
    table: TailTable, eps: Array, edges: Array, tail: Tail
) -> _LossIntervals:
    """Return the intervals over which a tail of the loss is integrated.

    The integral from ε to infinity consists of an interval from ε to the end of its
    panel of the table, and of all later panels, which many ε share.

    Parameters
    ----------
    table : TailTable
        The table of the tails.
    eps : array
        The left ends of the integrals.
    edges : array
        The losses at which panels begin or end.
    tail : Tail
        The tail that is integrated.

    Returns
    -------
    _LossIntervals
        The intervals, first one for each ε and then one for each panel.
    """
    lower_edges = edges[:-1]
    upper_edges = edges[1:]
    panel_of_eps = np.searchsorted(lower_edges, eps, side="right") - 1
    begin = np.concatenate([eps, lower_edges])
    end = np.concatenate([upper_edges[panel_of_eps], upper_edges])

    # The tail at the beginning of each interval says whether the interval matters.
    log_tail, slope = table.log_tail_and_slope(table.coordinate.from_loss(begin), tail)
    return _LossIntervals(begin, end, log_tail, slope)


def _find_used_intervals(
    intervals: _LossIntervals, eps: Array, edges: Array
) -> _UsedIntervals:
    """Return which intervals matter for the integral of each ε.

    Intervals that are negligible beside the largest one are left out.

    Parameters
    ----------
    intervals : _LossIntervals
        All intervals, first one for each ε and then one for each panel.
    eps : array
        The left ends of the integrals.
    edges : array
        The losses at which panels begin or end.

    Returns
    -------
    _UsedIntervals
        The pairs of an ε and an interval.
    """
    lower_edges = edges[:-1]
    upper_edges = edges[1:]

    # `index` has a row for each ε and a column for each panel. An entry is the interval
    # that this ε uses in this panel: the panel itself if it begins after ε, or else the
    # interval that begins at ε.
    is_later_panel = eps[:, None] < lower_edges
    index_of_panel = len(eps) + np.arange(len(lower_edges))
    index_of_eps = np.arange(len(eps))[:, None]
    index = np.where(is_later_panel, index_of_panel, index_of_eps)

    # The integrand at the beginning of each interval.
    begin = intervals.begin[index]
    log_integrand = intervals.log_tail[index] + (eps[:, None] - begin)
    largest = log_integrand.max(axis=1, keepdims=True)
    matters = log_integrand > largest - _NEGLIGIBLE_INTERVAL
    ends_after_eps = begin < upper_edges
    is_used = ends_after_eps & matters
    return _UsedIntervals(np.nonzero(is_used)[0], index[is_used])


def _integrate_over_intervals(
    table: TailTable,
    intervals: _LossIntervals,
    interval_index: NDArray[np.int64],
    log_discount: Array,
    tail: Tail,
) -> Array:
    """Return the logarithms of ∫ e^{ε−t}·P(t) dt over intervals [begin, end].

    Several ε may need the same interval; P is evaluated once for all of them. If log P
    is concave, the integrand falls at least like e^{−(decay rate)·(t − begin)}. So the
    quadrature stops where the integrand is below e^-44 of its beginning.

    Parameters
    ----------
    table : TailTable
        The table of the tails.
    intervals : _LossIntervals
        All intervals.
    interval_index : array of int
        The indices of the intervals to integrate over. An index may occur several
        times, for different ε.
    log_discount : array
        ε − begin, for each entry of `interval_index`.
    tail : Tail
        The tail P.

    Returns
    -------
    array
        One logarithm for each entry of `interval_index`.
    """
    # Evaluate each interval once: `interval_index` is unique_index[position].
    unique_index, position = np.unique(interval_index, return_inverse=True)
    begin = intervals.begin[unique_index]
    end = intervals.end[unique_index]
    slope = intervals.slope[unique_index]

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # The decay rate −(d/dt) log(e^{−t}·P(t)): 1 from e^{−t}, and the slope of
        # log P. It says where the integrand is negligible.
        distance_to_max = table.max_loss - begin
        dw_dt = table.coordinate.slope(distance_to_max)
        decay_rate = 1.0 - np.minimum(slope * dw_dt, 0.0)
        length = np.minimum(NEGLIGIBLE / decay_rate, end - begin)

        # log P at the nodes; rows are intervals and columns are nodes.
        offset = length[:, None] * UNIT_NODES  # t − begin at the nodes
        t = begin[:, None] + offset
        w = table.coordinate.from_loss(t, distance_to_max[:, None] - offset)
        log_tail = table.log_tail_at(w, tail)

        # The integrand, with the rows repeated for every ε that uses them.
        log_integrand = log_tail[position] + log_discount[:, None] - offset[position]
        log_means = log_sum_exp(log_integrand + UNIT_LOG_WEIGHTS, axis=1)
        return np.asarray(np.log(length)[position] + log_means)


def _add_extrapolation_error(
    table: TailTable, log_total: Array, eps: Array, tail: Tail
) -> Array:
    """Raise δ, or lower 1 − δ, by the error of an extrapolated tail.

    Between the end of the table and the largest loss T, the tail is only extrapolated.
    δ is raised by the error that this can cause. 1 − δ is lowered by it, after the
    integral e^{ε−T} over losses beyond T, at which the lower tail is 1, has been added.
    The signs must stay: δ may only be too large, which is on the side of privacy.

    Parameters
    ----------
    table : TailTable
        The table of the tails.
    log_total : array
        The logarithm of the integral over the table and its continuation.
    eps : array
        The left ends ε of the integrals.
    tail : Tail
        UPPER for δ, LOWER for 1 − δ.

    Returns
    -------
    array
        The corrected logarithms.
    """
    log_error = table.log_extrapolation_error(eps, tail)
    if tail is Tail.UPPER:
        return np.asarray(np.logaddexp(log_total, log_error))

    log_integral_beyond_max = np.minimum(eps - table.max_loss, 0.0)
    log_total = np.logaddexp(log_total, log_integral_beyond_max)
    relative_error = np.exp(np.minimum(log_error - log_total, 0.0))
    return np.asarray(log_total + np.log1p(-np.minimum(relative_error, 0.5)))
