"""The trade-off curve β(α) of a privacy loss L, from the table of its distribution. β(α) is
the smallest type II error of a test, with type I error α, that tells two neighboring
data sets apart. P₁ and P₂ are the output distributions on the two data sets.

By the lemma of Neyman and Pearson, the best test is L > t for a threshold t. Its errors
are α = P₂(L > t) and β = P₁(L <= t). An isometry of the space swaps P₁ and P₂, so that
the curve is its own inverse. It crosses the diagonal at α = P₂(L > 0). The threshold
t >= 0 therefore solves

    α = P₂(L > t),  and then β = P₁(L <= t),  if α is left of that crossing;
    α = P₁(L <= t), and then β = P₂(L > t),   if α is right of it.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array, bracket_sign_change
from curvedp.numerics.log_space import log_complement
from curvedp.privacy.loss.table import TabulatedLossLaw

_LOG_ROUNDING = 4e-16  # twice the relative rounding error of a logarithm


class LogErrors(NamedTuple):
    """log β and log(1 − β), because either can be the one that keeps its digits."""

    log_beta: Array
    log_complement: Array


class TradeoffCurve:
    """The trade-off curve β(α) at given α, computed in logarithms.

    β is never above the truth: every rounding lowers it. tests/privacy/test_profile.py
    compares the curve with closed forms.

    Parameters
    ----------
    table : TabulatedLossLaw
        The distribution of the privacy loss.
    alpha : array
        Type I errors in [0, 1].
    relative_error : float
        The relative error of the tails in the table, by which β is lowered.
    """

    def __init__(
        self, table: TabulatedLossLaw, alpha: Array, relative_error: float
    ) -> None:
        """Find out which α lie left of the crossing of the diagonal.

        Parameters
        ----------
        table : TabulatedLossLaw
            The distribution of the privacy loss.
        alpha : array
            Type I errors in [0, 1].
        relative_error : float
            The relative error of the tails in the table.
        """
        self.table = table
        self.alpha = alpha
        self.relative_error = relative_error
        with np.errstate(divide="ignore"):
            self.log_alpha = np.log(alpha)
            self.log_complement_of_alpha = np.log1p(-alpha)
        log_crossing = table.log_upper_tail_of_second_law(np.zeros(1))[0]
        self.is_left = self.log_alpha <= log_crossing

    def log_errors(self, pure_epsilon: float) -> LogErrors:
        """Return log β(α) and log(1 − β(α)), the former rounded down.

        Parameters
        ----------
        pure_epsilon : float
            The largest privacy loss, possibly infinite.

        Returns
        -------
        LogErrors
            Both logarithms for each α.
        """
        # Of the two ends of the bracket, take the one with the smaller β.
        w_below, w_above = self._bracket_threshold()
        threshold = self.table.loss_at(np.where(self.is_left, w_below, w_above))

        # If the loss has an atom at its maximum, P₁(L <= t) may stay below α up to the
        # end of the table. Then no test of the form L > t has an error that small.
        is_reached = self.is_left | (self._lower_tail_deficit(w_above) <= 0)
        errors = self._log_errors_at(threshold, is_reached)
        if math.isfinite(self.table.max_loss):
            errors = self._raise_to_pure_dp_lines(errors, pure_epsilon)
        return errors._replace(log_complement=np.minimum(errors.log_complement, 0.0))

    def _log_errors_at(
        self, threshold: Array, is_reached: NDArray[np.bool_]
    ) -> LogErrors:
        """Return log β and log(1 − β) of the tests with given thresholds.

        A test accepts if the loss is at most the threshold t. One of its two errors is
        a given α, and the other one is β: a tail of the loss. β is lowered, and 1 − β
        raised, by the error of the table.

        Parameters
        ----------
        threshold : array
            The threshold t for each α.
        is_reached : array of bool
            Whether there is such a test; otherwise β is 0.

        Returns
        -------
        LogErrors
            Both logarithms for each α.
        """
        log_lower_tail = self.table.log_lower_tail(threshold)
        log_second_tail = self.table.log_upper_tail_of_second_law(threshold)
        log_beta = np.where(self.is_left, log_lower_tail, log_second_tail)
        log_beta = log_beta + math.log1p(-self.relative_error)
        log_beta = np.where(is_reached, log_beta, -math.inf)

        log_upper_tail = self.table.log_upper_tail(threshold)
        log_complement_of_beta = np.where(
            self.is_left,
            log_upper_tail + math.log1p(self.relative_error),
            log_complement(log_beta),
        )
        return LogErrors(log_beta, log_complement_of_beta)

    def _bracket_threshold(self) -> tuple[Array, Array]:
        """Return two coordinates w between which the threshold t lies, for each α.

        t is the threshold at which the best test has the type I error α, and w is the
        coordinate in which the table stores losses.

        Returns
        -------
        w_below, w_above : array
            Neighboring coordinates, below and above that of the threshold.
        """

        def positive_below_threshold(w: Array) -> Array:
            """Return a number that changes its sign from + to − at the threshold."""
            t = self.table.loss_at(w)
            log_second_tail = self.table.log_upper_tail_of_second_law(t)
            return np.where(
                self.is_left,
                log_second_tail - self.log_alpha,
                self._lower_tail_deficit(w),
            )

        return bracket_sign_change(
            positive_below_threshold,
            np.zeros_like(self.alpha),
            np.full_like(self.alpha, self.table.series.end),
        )

    def _lower_tail_deficit(self, w: Array) -> Array:
        """Return a number that is <= 0 once P₁(L <= t) has reached α.

        Its sign change is the threshold t of the test with the type I error α, right of
        the diagonal. The number is log α − log P₁(L <= t), or for α >= ½ the same
        comparison of the complements 1 − α and P₁(L > t).

        Parameters
        ----------
        w : array
            The coordinate of the loss t in the table.

        Returns
        -------
        array
            One number for each α.
        """
        t = self.table.loss_at(w)
        from_lower_tail = self.log_alpha - self.table.log_lower_tail(t)
        from_upper_tail = self.table.log_upper_tail(t) - self.log_complement_of_alpha
        return np.where(self.alpha < 0.5, from_lower_tail, from_upper_tail)

    def _raise_to_pure_dp_lines(
        self, errors: LogErrors, largest_loss: float
    ) -> LogErrors:
        """Raise the trade-off curve to the two lines that pure DP guarantees.

        If the privacy loss is at most T, the release is T-DP, so that β(α) is at least
        1 − e^T·α (the steep line) and e^−T·(1 − α) (the shallow line). A computed curve
        can lie below them if the loss takes the values ±T with positive probability.

        Parameters
        ----------
        errors : LogErrors
            log β and log(1 − β) of the computed curve.
        largest_loss : float
            T.

        Returns
        -------
        LogErrors
            The same for the raised curve.
        """
        # Each line is lowered by the rounding of its logarithm.
        raised_loss = largest_loss * (1 + _LOG_ROUNDING) + _LOG_ROUNDING
        log_complement_of_steep = np.minimum(
            self.log_alpha * (1 - _LOG_ROUNDING) + raised_loss, 0.0
        )
        log_steep = log_complement(log_complement_of_steep)
        log_shallow = self.log_complement_of_alpha * (1 + _LOG_ROUNDING) - raised_loss
        log_complement_of_shallow = log_complement(log_shallow)

        # The higher of the two lines, and the higher of it and the curve.
        log_line = np.maximum(log_steep, log_shallow)
        log_complement_of_line = np.minimum(
            log_complement_of_steep, log_complement_of_shallow
        )
        return LogErrors(
            np.maximum(errors.log_beta, log_line),
            np.minimum(errors.log_complement, log_complement_of_line),
        )
