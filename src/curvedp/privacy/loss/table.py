"""A privacy loss L in a table, from which δ(ε), moments and other integrals are computed
quickly. P₁ and P₂ are the output distributions on two neighboring data sets, and L is
the logarithm of their density ratio. The table stores the tails P₁(L > t) and
P₁(L <= t) for t >= 0 (`TailTable`).

Theorem (docs/theory/exact-profiles.md, "The integral"). An isometry of the space swaps
P₁ and P₂. Then

    δ(ε)      = ∫_ε^∞ e^{ε−t}·P₁(L > t) dt,
    1 − δ(ε)  = ∫_ε^∞ e^{ε−t}·P₁(L <= t) dt,
    P₂(L > t) = P₁(L < −t) = e^{−t}·(P₁(L > t) − δ(t)).

The integrands are positive, so that nothing cancels.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp
from curvedp.numerics.piecewise_chebyshev import PiecewiseChebyshev
from curvedp.privacy.loss.discounted_integral import log_discounted_integral
from curvedp.privacy.loss.loss_integral import CELL_NODES, CELL_WEIGHTS, log_integral
from curvedp.privacy.loss.tail_table import Tail, TailTable

# The logarithm of a probability is replaced by this number if rounding errors made it
# larger. e^-1e-17 differs from 1 by less than the rounding error of a double.
_LARGEST_LOG_PROBABILITY = -1e-17
# A bounded loss is evaluated up to this fraction of its maximum T; beyond it, T − t has
# lost its digits.
_LARGEST_FRACTION_OF_MAX = 1 - 1e-12
# The fixed rule for moments has this number of cells in each panel of the table.
_CELLS_PER_PANEL = 4
# Terms of that rule that are smaller than the largest one by these factors are
# negligible: any term, and the last one, if the table could be extended. The numbers
# are logarithms: e^-40 is 4e-18. Larger numbers are safe and slower.
_NEGLIGIBLE_TERM = 40
_NEGLIGIBLE_LAST_TERM = 45
# The rule resolves a log integrand that changes by less than this between nodes.
_RESOLVED_CHANGE = 3


class _MomentNodes(NamedTuple):
    """A fixed quadrature rule over the table, with the values that every moment needs.

    P₁ is the output distribution on the first data set, and δ(t) the privacy profile.
    """

    t: Array  # the nodes: losses
    log_weight: Array  # the logarithms of the weights of the rule
    log_upper_tail: Array  # log P₁(L > t)
    log_delta: Array  # log δ(t)


class TabulatedLossLaw(TailTable):
    """The tabulated distribution of a privacy loss L.

    It adds to `TailTable` what follows from the two tails. The table of an unbounded
    loss is extended in place when larger losses are needed.

    Parameters
    ----------
    law : PrivacyLossLaw
        The privacy loss, whose `log_tails` are tabulated.
    """

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
        return log_discounted_integral(self, eps, Tail.UPPER)

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
        return log_discounted_integral(self, eps, Tail.LOWER)

    # ---- the tail on the second data set

    def log_upper_tail_of_second_law(self, t: Array) -> Array:
        """Return log P₂(L > t), the upper tail of the loss on the second data set.

        `log_upper_tail` is the same tail on the first data set, under P₁. With the
        privacy profile δ(t), the tail under P₂ follows from one of two differences:

            e^t·P₂(L > t) = P₁(L > t) − δ(t) = (1 − δ(t)) − P₁(L <= t).

        The difference with the smaller tail loses fewer digits and is used.
        tests/privacy/test_loss_table.py compares with the closed form for normal
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

    @cached_property
    def _series_of_second_law(self) -> PiecewiseChebyshev:
        """A piecewise polynomial for t + log P₂(L > t), which replaces slow integrals.

        P₂ is the output distribution on the second data set. The variable is the
        coordinate w of the loss t. The polynomials are fitted once, on the panels that
        the table has at the first access; a later extension of the table is ignored.
        """

        def shifted_log_tail(w: Array) -> Array:
            """Return t + log P₂(L > t) at the coordinate w of the loss t."""
            t = self.loss_at(w)
            return self.log_upper_tail_of_second_law(t) + t

        return self.series.with_function(shifted_log_tail)

    def _fast_log_upper_tail_of_second_law(self, t: Array) -> Array:
        """Return log P₂(L > t) for t >= 0, from a series instead of integrals.

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
        w = np.minimum(self.coordinate.from_loss(t), series_end)
        return self._series_of_second_law.value(w, 0) - t

    # ---- the loss at any real number, for sums of independent losses

    @property
    def _largest_evaluated_loss(self) -> float:
        """The largest |t| at which tails and density at a real loss t are evaluated.

        It is just below the largest loss, where the coordinate w would be infinite, or
        the end of the table if the loss is unbounded.
        """
        if self.is_bounded:
            return self.max_loss * _LARGEST_FRACTION_OF_MAX
        return self.end

    def _clipped_magnitude(self, t: Array) -> Array:
        """Return the magnitude |t|, cut off just below a finite largest loss.

        At the largest loss itself the coordinate of the table is infinite.

        Parameters
        ----------
        t : array
            Real losses.

        Returns
        -------
        array
            The magnitudes, of the shape of `t`.
        """
        if self.is_bounded:
            return np.minimum(np.abs(t), self._largest_evaluated_loss)
        return np.abs(t)

    def log_upper_tail_at_any_loss(self, t: Array) -> Array:
        """Return log P₁(L > t) for any real t, negative or positive.

        For t >= 0 it is `log_upper_tail`, which the table stores. For t < 0,
        P₁(L > t) = 1 − P₂(L > |t|), because an isometry of the space swaps the output
        distributions P₁ and P₂ on the two data sets.

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

        For t >= 0 it is `log_lower_tail`, which the table stores. For t < 0,
        P₁(L <= t) = P₂(L > |t|), because an isometry of the space swaps the output
        distributions P₁ and P₂ on the two data sets.

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

        For t > 0 the density is f(t) = −d/dt P₁(L > t), from the slope of the series.
        For negative arguments f(−t) = e^{−t}·f(t), because an isometry of the space
        swaps the output distributions P₁ and P₂ on the two data sets.

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
        is_beyond = np.abs(t) > self._largest_evaluated_loss

        # The density −(d/dt) P₁(L > t) at |t|. By the chain rule it is −P·slope·dw/dt,
        # where P = P₁(L > t), and the slope is the derivative of log P in w.
        w = self.coordinate.from_loss(magnitude)
        log_tail, slope = self.log_tail_and_slope(w, Tail.UPPER)
        dw_dt = self.coordinate.slope(self.max_loss - magnitude)
        with np.errstate(divide="ignore"):
            log_density = log_tail + np.log(np.maximum(-slope * dw_dt, 0.0))

        # The factor e^{−|t|} at negative losses.
        log_density = log_density + np.where(t < 0, t, 0.0)
        return np.where(is_beyond, -math.inf, log_density)

    # ---- integrals over all losses

    def log_integral(
        self, log_integrand: Callable[[Array], Array], growth: float
    ) -> float:
        """Return log ∫₀^T f(t) dt of a positive function f of the privacy loss.

        T is the largest loss. For example, f gives the Hellinger distance of two output
        distributions. The quadrature is adaptive. The table of an unbounded loss may be
        extended in place.

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
        return log_integral(self, log_integrand, growth)

    def log_moment_integral(self, s: float) -> float:
        """Return log((E₁[e^{sL}] − 1)/s), an integral that gives the moment E₁[e^{sL}].

        E₁ is the mean under the output distribution P₁ on the first data set. With the
        upper tail S(t) = P₁(L > t) and the privacy profile δ(t), for s > −1
        (docs/theory/exact-profiles.md),

            (E₁[e^{sL}] − 1)/s
                = ∫₀^∞ (S(t)·(e^{st} − e^{−(s+1)t}) + e^{−(s+1)t}·δ(t)) dt.

        Rényi divergences and ρ of zCDP are computed from it. A fixed quadrature rule is
        used if its nodes resolve this integrand, and an adaptive one otherwise. Both
        must give the same integral; tests/privacy/test_profile.py compares Rényi
        divergences with direct integration.

        Parameters
        ----------
        s : float
            The exponent s >= −½. For a smaller s the integrand has terms of both signs,
            and its logarithm is not a number.

        Returns
        -------
        float
            The logarithm of the integral.
        """
        # The fixed rule: its terms add up to the integral.
        nodes = self._moment_nodes
        log_integrand = _log_moment_integrand(
            s, nodes.t, nodes.log_upper_tail, nodes.log_delta
        )
        log_terms = log_integrand + nodes.log_weight

        # The fixed rule is good if the integrand varies slowly between all nodes that
        # matter, and is negligible at the end of a table that could be longer.
        largest = log_terms.max()
        matters = log_terms[1:] > largest - _NEGLIGIBLE_TERM
        changes = np.abs(np.diff(log_integrand))[matters]
        is_resolved = np.max(changes, initial=0.0) < _RESOLVED_CHANGE
        has_ended = self.is_bounded or log_terms[-1] < largest - _NEGLIGIBLE_LAST_TERM
        if is_resolved and has_ended:
            return float(log_sum_exp(log_terms, axis=0))

        return self.log_integral(
            lambda t: _log_moment_integrand(
                s, t, self.log_upper_tail(t), self.log_delta(t)
            ),
            growth=s,
        )

    @cached_property
    def _moment_nodes(self) -> _MomentNodes:
        """A fixed quadrature rule over losses t, with P₁(L > t) and δ(t) at its nodes.

        Every moment of the loss uses it, so that the tails are evaluated only once.
        Each panel of the table is divided into four cells with 16 nodes each. The nodes
        are laid out in the coordinate w of the table, and their weights include the
        factor dt/dw of the substitution.
        """
        # Four cells in each panel.
        panel_edges = np.append(self.series.edges, self.edges_beyond)
        panel_width = np.diff(panel_edges)[:, None]
        cell_starts = (
            panel_edges[:-1, None]
            + panel_width * np.arange(_CELLS_PER_PANEL) / _CELLS_PER_PANEL
        )
        cell_edges = np.append(cell_starts.ravel(), panel_edges[-1])
        cell_width = np.diff(cell_edges)[:, None]

        # The nodes of all cells: rows are cells and columns are nodes, before `ravel`.
        w = (cell_edges[:-1, None] + cell_width * CELL_NODES).ravel()
        t = self.loss_at(w)
        # A cell that is narrower than a rounding has the weight 0.
        with np.errstate(divide="ignore"):
            log_weight = np.log((cell_width * CELL_WEIGHTS).ravel())
            log_weight = log_weight + self.coordinate.log_dt_dw(w)
        return _MomentNodes(t, log_weight, self.log_upper_tail(t), self.log_delta(t))


def _log_moment_integrand(
    s: float, t: Array, log_upper_tail: Array, log_delta: Array
) -> Array:
    """Return the log integrand for the moment E₁[e^{sL}] of a privacy loss L.

    Its integral over losses t is computed by `TabulatedLossLaw.log_moment_integral`.

    Parameters
    ----------
    s : float
        The exponent s >= −½, for which both terms of the integrand are >= 0.
    t : array
        Losses.
    log_upper_tail : array
        log S(t), the log upper tail at these losses.
    log_delta : array
        log δ(t), the log privacy profile there.

    Returns
    -------
    array
        log(S(t)·(e^{st} − e^{−(s+1)t}) + e^{−(s+1)t}·δ(t)).
    """
    with np.errstate(divide="ignore"):
        first_term = log_upper_tail + s * t + np.log(-np.expm1(-(2 * s + 1) * t))
    second_term = log_delta - (s + 1) * t
    return np.logaddexp(first_term, second_term)
