"""A table of the two tails of a privacy loss L, P₁(L > t) and P₁(L <= t) for t >= 0. P₁ is
the output distribution on the first of two neighboring data sets. Their logarithms are
stored as piecewise polynomials in a coordinate w of t (`LossCoordinate`).

The table of an unbounded loss is extended in place when larger losses are needed. The
table of a loss bounded by T ends shortly before T; from there on the tails are
extrapolated.
"""

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.piecewise_chebyshev import RESOLUTION, PiecewiseChebyshev
from curvedp.privacy.loss.coordinate import LossCoordinate
from curvedp.privacy.loss.law import PrivacyLossLaw

# A log tail below this is not tabulated: the smallest positive float is e^-745.
_LOWEST_LOG = -760.0
# The end of the table of a bounded loss, in the coordinate w. Rounding errors allow no
# larger w, and only a smaller one if the tails are inaccurate.
_LAST_W = 16.0
_LAST_W_OF_NOISY_TAILS = 12.0
# Edges, in w, of the cells between the end of the table and the largest loss T. At the
# last of them 1 − t/T is e^-36, which is below the rounding of a double.
_EDGES_BEYOND_TABLE_W = (20.0, 26.0, 36.0)
# The relative error of the extrapolated tail of a loss with an atom at its maximum, at
# least: what the model of `_slope_change_at_end` leaves out. The other number is the
# error of w that is charged beyond the end of the table, in addition to the bound of
# `log_extrapolation_error` and to the rounding of ε: an allowance, which is not proved.
_LEAST_EXTRAPOLATION_ERROR = 1e-9
_EXTRAPOLATION_ERROR_NEAR_MAX = 1e-6
_LOSS_ROUNDING = 2.0**-50  # relative rounding error of a loss: a few units of 2^-53
_NEAR_MAX_W = 2  # a loss t with a larger w is near the largest loss: 1 − t/T < e^-2
# First panels of the table of a bounded loss t <= T: those of a normal loss serve up to
# the first fraction of T. Doubled edges follow up to the second one, and then these
# values of w = −log(1 − t/T). They are first guesses; only the speed depends on them.
_NORMAL_PANELS_FRACTION = 0.6
_DOUBLED_PANELS_FRACTION = 0.45
_EDGES_NEAR_MAX_W = (1.5, 4.0, 9.0)
_MOST_DOUBLINGS = 60.0  # more than there are between the smallest edge and T
# Points of `grid` in each panel.
_GRID_POINTS_PER_PANEL = 12


class Tail(IntEnum):
    """The two functions in the table, by their index in the series."""

    UPPER = 0  # log P₁(L > t)
    LOWER = 1  # log P₁(L <= t)


class _SlopeChange(NamedTuple):
    """How fast the slope of a log tail changes at the end of the table."""

    end: float  # the end of the table for which it was computed
    value: float  # the constant C of `TailTable._slope_change_at_end`


class TailTable:
    """The tabulated tails of a privacy loss L, and their extrapolation.

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
    coordinate : LossCoordinate
        The coordinate w of a loss.
    series : PiecewiseChebyshev
        log P₁(L > t) and log P₁(L <= t), as functions of w.
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
        self.coordinate = LossCoordinate(law.max_loss)
        self._has_atom_at_max = law.table_end is not None
        self._slope_changes: dict[Tail, _SlopeChange] = {}
        self.series = PiecewiseChebyshev(
            lambda w: law.log_tails(self.loss_at(w)),
            self.coordinate.rounding,
            law.resolution,
            _LOWEST_LOG,
        )

        if self.is_bounded:
            self.series.add(_panel_edges_for_bounded_loss(law, self.coordinate))
        else:
            self.series.add(_panel_edges_for_normal_loss(law.loss_scale))
            # Double the range until the probability of a larger loss is no float.
            while self.log_upper_tail(np.array([self.end]))[0] > _LOWEST_LOG:
                self.double_range()

    # ---- the range of the table

    @property
    def is_bounded(self) -> bool:
        """Whether the loss has a finite maximum T."""
        return self.coordinate.is_bounded

    @property
    def end(self) -> float:
        """The largest loss t in the table."""
        last_w = self.series.edges[-1]
        if self.is_bounded:
            return -self.max_loss * math.expm1(-last_w)
        return float(last_w)

    def loss_at(self, w: Array) -> Array:
        """Return the loss t at the coordinate w of the table.

        Parameters
        ----------
        w : array
            Coordinates w >= 0.

        Returns
        -------
        array
            Losses from 0 to the largest loss, of the shape of `w`.
        """
        return self.coordinate.loss_at(w)

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
        while not self.is_bounded and self.end < t:
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

    @property
    def edges_beyond(self) -> list[float]:
        """Coordinates w of losses between the end of the table and the largest loss.

        They are the edges of cells for integrals over the extrapolated tail. There are
        none if the loss is unbounded.
        """
        if not self.is_bounded:
            return []
        return [w for w in _EDGES_BEYOND_TABLE_W if w > self.series.edges[-1]]

    # ---- the tails

    def log_upper_tail(self, t: Array) -> Array:
        """Return log P₁(L > t), the log upper tail of the loss L, from the table.

        Parameters
        ----------
        t : array
            Losses t >= 0, at most the largest loss.

        Returns
        -------
        array
            One logarithm <= 0 for each t.
        """
        return self.log_tail_at(self.coordinate.from_loss(t), Tail.UPPER)

    def log_lower_tail(self, t: Array) -> Array:
        """Return log P₁(L <= t), the log lower tail of the loss L, from the table.

        Parameters
        ----------
        t : array
            Losses t >= 0, at most the largest loss.

        Returns
        -------
        array
            One logarithm <= 0 for each t.
        """
        return self.log_tail_at(self.coordinate.from_loss(t), Tail.LOWER)

    def log_tail_at(self, w: Array, tail: Tail) -> Array:
        """Return the logarithm of one tail of the loss, also beyond the table's end.

        Parameters
        ----------
        w : array
            Coordinates of losses.
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
            extrapolated, _ = self.log_tail_and_slope(w[is_beyond], tail)
            log_tail[is_beyond] = extrapolated
        return log_tail

    def log_tail_and_slope(self, w: Array, tail: Tail) -> tuple[Array, Array]:
        """Return the logarithm of one tail of the loss, and its derivative in w.

        Beyond the end w₀ of the table, the logarithm is continued linearly in w: then
        the tail is a power of T − t, with T the largest loss. If the loss takes the
        value T with positive probability, the slope is not constant. It is
        −k + C·e^{w₀ − w}, with C from `_slope_change_at_end` and −k + C the slope at
        w₀. The value is the integral of that slope, so both must be changed together.

        A change of the model beyond the table must come with an error bound in
        `log_extrapolation_error`.

        Parameters
        ----------
        w : array
            Coordinates of losses.
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

    # ---- the error of the extrapolation

    def _slope_change_at_end(self, tail: Tail) -> float:
        """Return how fast the slope of a log tail changes at the end of the table.

        The change bounds the error that is made if the tail is extrapolated with a
        constant slope. Near the end w₀ of the table, the derivative of the log tail in
        its coordinate w is modeled as −k + C·e^{w₀ − w}, with constants k and C, and C
        is returned. The slopes at w₀ − h and at w₀ differ by C·(e^h − 1), from which C
        follows; the step h is at most 1 and within the last panel. C is stored until
        the table is extended.

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
        end = self.series.edges[-1]
        stored = self._slope_changes.get(tail)
        if stored is not None and stored.end == end:
            return stored.value

        # Compare the slopes at both ends of the last step.
        step = min(1.0, end - self.series.edges[-2])
        _, slopes = self.log_tail_and_slope(np.array([end - step, end]), tail)

        slope_change = float(slopes[0] - slopes[1]) / math.expm1(step)
        self._slope_changes[tail] = _SlopeChange(end, slope_change)
        return slope_change

    def log_extrapolation_error(self, eps: Array, tail: Tail) -> Array:
        """Return the log of a bound on the error that an extrapolated tail P causes.

        The bound is on the error of ∫_ε^T e^{ε−t}·P(t) dt, which is δ(ε) or 1 − δ(ε). A
        larger bound is safe: it only raises δ.

        Let w be the coordinate of losses in the table, x the distance of w from the end
        of the table, and −k + C·e^{−x} the slope of log P in w
        (`_slope_change_at_end`). An extrapolation with the constant slope −k + C is off
        by C·(x − 1 + e^{−x}), hence by at most |C|·x. In the integral from x_ε on,
        dt ∝ e^{−x} dx and P decreases, so that the mean of x is at most x_ε + 1. The
        relative error of the integral is therefore at most |C|·(x_ε + 1), to first
        order in C, and twice that is charged. If the extrapolation follows the slope
        −k + C·e^{−x}, an error of second order in C remains, and 4·C²·(x_ε + 1) is
        charged. tests/privacy/test_certify.py compares δ with proved bounds.

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
        # The relative error of the integral from the end of the table on, times 2.
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
            w = np.minimum(self.coordinate.from_loss(t), _EDGES_BEYOND_TABLE_W[-1])
            distance_beyond = np.where(eps > self.end, w - self.series.edges[-1], 0.0)
            error_beyond = error * (1 + np.maximum(distance_beyond, 0.0))
            log_tail, _ = self.log_tail_and_slope(w, tail)
            log_error = np.log(error_beyond)
            log_bound = log_error + log_tail + np.log(distance_to_max) + (eps - t)
        return np.asarray(log_bound)

    def relative_error_near_max_loss(self, eps: Array) -> Array:
        """Return a bound on the relative error of δ(ε) close to the largest loss T.

        A profile raises δ(ε) by this error, beside its constant relative error. It
        comes from rounding ε, and from extrapolating the tails beyond the end of the
        table. The bound is 0 if the loss is unbounded, and for ε far from T
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
        if not self.is_bounded:
            return np.zeros_like(eps)

        # How steeply log δ varies in w, and by how much w may be off. Near T, δ(ε) is
        # about P·(T − ε) times a constant, with the upper tail P and T − ε ∝ e^{−w}. So
        # the slope of log δ is that of log P, less 1.
        w = self.coordinate.from_loss(eps)
        _, slope = self.log_tail_and_slope(w, Tail.UPPER)
        steepness = np.abs(slope) + 1
        with np.errstate(over="ignore", invalid="ignore"):
            rounding = np.exp(np.minimum(w, _EDGES_BEYOND_TABLE_W[-1])) * _LOSS_ROUNDING
            extrapolation_error = np.where(
                w > self.series.edges[-1], _EXTRAPOLATION_ERROR_NEAR_MAX, 0.0
            )
            error_of_w = np.minimum(rounding + extrapolation_error, 1.0)
            return steepness * np.where(w > _NEAR_MAX_W, error_of_w, 0.0)


# ---- where the panels of a table begin


def _panel_edges_for_bounded_loss(
    law: PrivacyLossLaw, coordinate: LossCoordinate
) -> Array:
    """Return where the panels (intervals) of the table begin, for a loss <= T.

    These are first guesses, and changing them only changes the speed: the series halves
    a panel where one polynomial is not accurate enough. Only the breakpoints must be
    among them, because no polynomial is accurate across a loss at which the tails are
    not analytic.

    Parameters
    ----------
    law : PrivacyLossLaw
        The law of the loss, which has a maximum T.
    coordinate : LossCoordinate
        The coordinate w of its table.

    Returns
    -------
    array
        Increasing values of w.
    """
    # The end of the table: closer to T if the tails are accurate.
    if law.resolution == RESOLUTION:
        last_w = law.table_end or _LAST_W
    else:
        last_w = _LAST_W_OF_NOISY_TAILS

    w = np.concatenate(
        [
            coordinate.from_loss(_edges_far_from_max(law)),
            coordinate.from_loss(np.array(law.breakpoints)),
            [*_EDGES_NEAR_MAX_W, last_w],
        ]
    )
    return np.unique(w[w <= last_w])


def _edges_far_from_max(law: PrivacyLossLaw) -> Array:
    """Return where panels begin at losses up to about half of the largest loss T.

    A panel is an interval of losses on which a polynomial approximates the tails. Up to
    0.6·T the edges are those for a normal loss. If these end before 0.45·T, further
    edges double up to there.

    Parameters
    ----------
    law : PrivacyLossLaw
        The law of the loss.

    Returns
    -------
    array
        Increasing losses, starting with 0.
    """
    edges = _panel_edges_for_normal_loss(law.loss_scale)
    edges = edges[edges < _NORMAL_PANELS_FRACTION * law.max_loss]
    last_edge = edges[-1]
    if last_edge == 0:
        return edges

    doubled_edges = last_edge * 2.0 ** np.arange(1.0, _MOST_DOUBLINGS)
    is_far = doubled_edges < _DOUBLED_PANELS_FRACTION * law.max_loss
    return np.concatenate([edges, doubled_edges[is_far]])


def _panel_edges_for_normal_loss(loss_scale: float) -> Array:
    """Return where the panels of a table should begin, for a nearly normal loss.

    A panel is an interval of losses on which a polynomial approximates the tails. With
    the standard deviation s, the loss is about N(s²/2, s²)-distributed. The edges of
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
