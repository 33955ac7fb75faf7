"""The privacy loss of two independent releases: the sum of their losses A and B. A
privacy loss is the log ratio of the output densities on two neighboring data sets, at a
random output of the first one (with probabilities P₁).

`SumOfLosses` computes the tails of A + B by a convolution integral,

    P₁(A + B > t) = ∫ f_B(b)·P₁(A > t − b) db,

where f_B is the density of B, and both factors come from tables.

If A is bounded, |A| <= T, then P₁(A > t − b) is 0 below b = t − T and 1 above b = t +
T. The integral runs between these points, where the integrand is analytic; what lies
above is a tail of B. As a function of t the sum is then analytic except where an end of
A meets an end of B, such as t = |T_A − T_B|. Panels of its table end there.
"""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.special import log_ndtr

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp
from curvedp.numerics.quadrature import endpoint_quadrature
from curvedp.privacy.loss.law import PrivacyLossLaw

# A bound on the relative error of the tails. The density of B is the derivative of a
# table, which loses digits; the largest error that was measured is 1e-10.
RELATIVE_ERROR_OF_SUM = 4e-9
# The relative error of the tails if B has a closed form, so that no digits are lost.
_RESOLUTION_WITH_CLOSED_FORM = 2e-10
# Offsets from the mean of B, in standard deviations of B, of the grid on which the
# search for the support of the integrand starts: ±4^8, ±4^7, …, ±4^-2 and 0.
_POWERS_OF_4 = 4.0 ** np.arange(8.0, -3.0, -1.0)
_FIRST_GRID_OFFSETS = np.concatenate([-_POWERS_OF_4, [0.0], _POWERS_OF_4[::-1]])
# Points of a refined grid, as fractions of the interval that it covers.
_GRID_FRACTIONS = np.linspace(0.0, 1.0, 25)
# A logarithm: an integrand below e^-42 of its maximum is negligible.
_NEGLIGIBLE_DEPTH = 42
# The number of quadrature nodes of a convolution integral, at least and at most.
_FEWEST_NODES = 64
_MOST_NODES = 1024
# Losses at which `_find_resolving_order` compares two rules, in standard deviations of
# A + B; and by how much two logarithms of a tail may differ, absolutely and relatively.
_TEST_LOSSES = np.array([0.0, 0.3, 1.0, 2.0, 4.0, 8.0])
_LOG_TAIL_TOLERANCE = 1e-10
_LOG_TAIL_RELATIVE_TOLERANCE = 1e-12
# Tables must reach this many standard deviations of A + B past the losses in question.
# Beyond 20 deviations a nearly normal density is e^-200 of its peak: more is safe, and
# less would evaluate a table beyond its end.
_TABLE_MARGIN = 20
# Rounds in which the support of an integrand is narrowed down.
_SUPPORT_ROUNDS = 3


class SummandLoss(Protocol):
    """What a privacy loss L must provide to be added to another one.

    These are its tails and its density at any loss, positive or negative: the sum of
    two losses needs both signs. P₁ is the output distribution on the first of two
    neighboring data sets.

    Attributes
    ----------
    max_loss : float
        The supremum of L; possibly infinite.
    breakpoints : tuple of float
        Losses > 0 at which the tails are not analytic.
    """

    max_loss: float
    breakpoints: tuple[float, ...]

    def extend_table_to(self, t: float) -> None:
        """Extend a table of the loss in place, so that it contains all losses up to t.

        Parameters
        ----------
        t : float
            The largest loss at which the methods below will be called.
        """

    def log_upper_tail_at_any_loss(self, t: Array) -> Array:
        """Return the log upper tail, log P₁(L > t), of the privacy loss L.

        Parameters
        ----------
        t : array
            Real losses, positive or negative.

        Returns
        -------
        array
            One logarithm <= 0 for each t; −infinity where the loss never exceeds t.
        """

    def log_lower_tail_at_any_loss(self, t: Array) -> Array:
        """Return the log lower tail, log P₁(L <= t), of the privacy loss L.

        Parameters
        ----------
        t : array
            Real losses, positive or negative.

        Returns
        -------
        array
            One logarithm <= 0 for each t; −infinity where the loss always exceeds t.
        """

    def log_density_at_any_loss(self, t: Array) -> Array:
        """Return the logarithm of the density of the privacy loss L under P₁.

        Parameters
        ----------
        t : array
            Real losses, positive or negative.

        Returns
        -------
        array
            One logarithm for each t; −infinity beyond the largest loss.
        """


class GaussianLoss:
    """The privacy loss of Gaussian noise on a flat space: N(μ²/2, μ²).

    Parameters
    ----------
    mu : float
        μ > 0, the distance of the two noise centers divided by the scale of the noise.
    """

    def __init__(self, mu: float) -> None:
        """Store μ; the loss is unbounded, and its tails are analytic everywhere."""
        self.mu = mu
        self.max_loss = math.inf
        self.breakpoints: tuple[float, ...] = ()

    def extend_table_to(self, t: float) -> None:
        """Do nothing: closed forms hold at every loss t, and there is no table."""

    def log_upper_tail_at_any_loss(self, t: Array) -> Array:
        """Return log P(L > t) for the privacy loss L ~ N(μ²/2, μ²).

        Parameters
        ----------
        t : array
            Real losses.

        Returns
        -------
        array
            One logarithm for each t.
        """
        return np.asarray(log_ndtr(self.mu / 2 - t / self.mu))

    def log_lower_tail_at_any_loss(self, t: Array) -> Array:
        """Return log P(L <= t) for the privacy loss L ~ N(μ²/2, μ²).

        Parameters
        ----------
        t : array
            Real losses.

        Returns
        -------
        array
            One logarithm for each t.
        """
        return np.asarray(log_ndtr(t / self.mu - self.mu / 2))

    def log_density_at_any_loss(self, t: Array) -> Array:
        """Return the logarithm of the density of N(μ²/2, μ²) at t.

        Parameters
        ----------
        t : array
            Real losses.

        Returns
        -------
        array
            One logarithm for each t.
        """
        standardized_loss = t / self.mu - self.mu / 2
        log_norm = math.log(self.mu * math.sqrt(2 * math.pi))
        return -standardized_loss * standardized_loss / 2 - log_norm


class SumOfLosses(PrivacyLossLaw):
    """The distribution of A + B, the sum of two independent privacy losses.

    Parameters
    ----------
    a, b : SummandLoss
        The summands A and B. The convolution integral runs over the values of B, so B
        should be the narrower one.
    a_scale, b_scale : float
        Their loss scales, which are about their standard deviations.

    Attributes
    ----------
    order : int
        The number of quadrature nodes of a convolution integral.
    max_loss, loss_scale, resolution, breakpoints
        The properties of A + B that a `PrivacyLossLaw` has.
    """

    max_loss: float = math.inf
    loss_scale: float = 0.0

    def __init__(
        self, a: SummandLoss, b: SummandLoss, a_scale: float, b_scale: float
    ) -> None:
        """Store the summands and compute the properties of their sum.

        Parameters
        ----------
        a, b : SummandLoss
            The two independent privacy losses A and B.
        a_scale, b_scale : float
            About their standard deviations. B should have the smaller one.
        """
        # The summands, and the properties of their sum.
        self.a = a
        self.b = b
        self.b_scale = b_scale
        self.loss_scale = math.hypot(a_scale, b_scale)
        self.max_loss = a.max_loss + b.max_loss

        # If B has a closed form, its density loses no digits.
        if isinstance(b, GaussianLoss):
            self.resolution = _RESOLUTION_WITH_CLOSED_FORM
        else:
            self.resolution = RELATIVE_ERROR_OF_SUM / 4

        self.breakpoints = self._find_breakpoints()
        self.order = self._find_resolving_order()

    def _find_breakpoints(self) -> tuple[float, ...]:
        """Return the losses t > 0 at which the tails of A + B are not analytic.

        If A is not analytic at a loss u and B not at a loss v, then A + B may not be at
        u + v and at |u − v|. The largest loss of A or B counts as such a point. There
        are none if A or B is unbounded.

        Returns
        -------
        tuple of float
            The losses, in no particular order.
        """
        if math.isinf(self.a.max_loss) or math.isinf(self.b.max_loss):
            return ()
        breakpoints = set()
        # Every sum and difference of a point of A and a point of B.
        for point_of_a in [*self.a.breakpoints, self.a.max_loss]:
            for point_of_b in [*self.b.breakpoints, self.b.max_loss]:
                breakpoints.add(point_of_a + point_of_b)
                breakpoints.add(abs(point_of_a - point_of_b))
        return tuple({point for point in breakpoints if 0 < point < self.max_loss})

    def _find_resolving_order(self) -> int:
        """Return the number of quadrature nodes that the convolution integrals need.

        The number is doubled until a further doubling changes the two log tails of
        A + B, at six test losses, by at most 1e-10 + 1e-12·|log tail|. Many nodes are
        needed on hyperbolic spaces if the two noise centers are far apart: then the
        density of a loss has two steep flanks.

        Returns
        -------
        int
            A power of 2 from 64 to 1024.
        """
        # The losses at which two rules are compared.
        test_losses = self.loss_scale * _TEST_LOSSES
        test_losses = test_losses[test_losses < 0.9 * self.max_loss]

        # Double the number of nodes until the tails agree.
        order = _FEWEST_NODES
        log_tails = self._log_tails(test_losses, order)
        while order < _MOST_NODES:
            finer_log_tails = self._log_tails(test_losses, 2 * order)
            upper_agrees = _log_tails_agree(log_tails[0], finer_log_tails[0])
            lower_agrees = _log_tails_agree(log_tails[1], finer_log_tails[1])
            if upper_agrees and lower_agrees:
                break
            order = 2 * order
            log_tails = finer_log_tails
        return order

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(A + B > t) and log P₁(A + B <= t) at losses t >= 0.

        A and B are independent privacy losses, and P₁ is the output distribution on the
        first of two neighboring data sets. The tables of A and B may be extended in
        place.

        Parameters
        ----------
        t : array
            Losses t >= 0, in one dimension.

        Returns
        -------
        log_upper, log_lower : array
            The logarithms of the two probabilities.
        """
        return self._log_tails(t, self.order)

    def _log_tails(self, t: Array, order: int) -> tuple[Array, Array]:
        """Return log P₁(A + B > t) and log P₁(A + B <= t), with `order` nodes.

        Let f_B be the density of B, and T_A and T_B the largest values of |A| and |B|
        (`a.max_loss` and `b.max_loss` in the code). Then

            P₁(A + B > t) = ∫_low^high f_B(b)·P₁(A > t − b) db + P₁(B > high),

        where low = max(t − T_A, −T_B) and high = min(t + T_A, T_B). The last term is 0
        unless high < T_B. The lower tail is the same with P₁(A <= t − b) and
        P₁(B <= low). Finally both tails are divided by their sum, which is 1 up to the
        error of f_B.

        At a loss t, the convolution evaluates the tables of A and B at losses up to
        about 2t, and a little farther where the integrand ends. So they are first
        extended in place to `largest_loss`.

        The integral covers the values of B in [low, high], and the last term those
        above `high`. Both must use the same `high`, or values would be counted twice.
        tests/privacy/test_loss_sum.py compares the tails with closed forms. `log_tails`
        calls this method with the final number of nodes, and `_find_resolving_order`
        with several numbers.

        Parameters
        ----------
        t : array
            Losses t >= 0, in one dimension.
        order : int
            The number of quadrature nodes.

        Returns
        -------
        log_upper, log_lower : array
            The logarithms of the two tails, at most 0, with the shape of `t`.
        """
        a, b = self.a, self.b
        largest_loss = 2 * float(t.max()) + _TABLE_MARGIN * self.loss_scale
        a.extend_table_to(largest_loss)
        b.extend_table_to(largest_loss)

        # The two convolution integrals.
        low = np.maximum(t - a.max_loss, -b.max_loss)
        high = np.minimum(t + a.max_loss, b.max_loss)
        log_upper = self._log_convolution(
            t, low, high, a.log_upper_tail_at_any_loss, order
        )
        log_lower = self._log_convolution(
            t, low, high, a.log_lower_tail_at_any_loss, order
        )

        # Values of B outside [low, high] decide alone whether A + B exceeds t.
        if math.isfinite(a.max_loss):
            log_b_above = b.log_upper_tail_at_any_loss(high)
            log_b_above = np.where(high < b.max_loss, log_b_above, -math.inf)
            log_upper = np.logaddexp(log_upper, log_b_above)

            log_b_below = b.log_lower_tail_at_any_loss(low)
            log_b_below = np.where(low > -b.max_loss, log_b_below, -math.inf)
            log_lower = np.logaddexp(log_lower, log_b_below)

        # The total is 1 up to the error of the density, which both tails share.
        log_total = np.logaddexp(log_upper, log_lower)
        log_upper = np.minimum(log_upper - log_total, 0.0)
        log_lower = np.minimum(log_lower - log_total, 0.0)
        return log_upper, log_lower

    def _log_convolution(
        self,
        t: Array,
        low: Array,
        high: Array,
        log_tail: Callable[[Array], Array],
        order: int,
    ) -> Array:
        """Return log ∫ f_B(b)·tail(t − b) db from low to high, one for each t.

        A and B are two privacy losses, f_B is the density of B, and `tail` is the upper
        or the lower tail of A. The integral runs over the interval on which the
        integrand is not negligible. It is found in three rounds, which works because
        the integrand has one peak.

        Parameters
        ----------
        t : array
            Losses of the sum, in one dimension.
        low, high : array
            The interval of b for each t.
        log_tail : callable
            The logarithm of the tail of A, for an array of real losses.
        order : int
            The number of quadrature nodes.

        Returns
        -------
        array
            One logarithm for each t.
        """
        t = t[:, None]  # rows: the values of t; columns: the values of b

        def log_integrand(b: Array) -> Array:
            """Return log(f_B(b)·tail(t − b)), one row for each t."""
            return np.asarray(self.b.log_density_at_any_loss(b) + log_tail(t - b))

        # Narrow the interval, with a finer grid in each round.
        grid = self._first_grid(low[:, None], high[:, None])
        for _ in range(_SUPPORT_ROUNDS):
            left, right = _find_support(grid, log_integrand(grid))
            grid = left + (right - left) * _GRID_FRACTIONS

        # A rule that is dense at both ends. It is one for (0, 2); halved, for (0, 1).
        nodes_on_02, weights_on_02 = endpoint_quadrature(order)
        nodes = nodes_on_02 / 2
        weights = weights_on_02 / 2
        width = right - left
        with np.errstate(divide="ignore"):
            log_values = log_integrand(left + width * nodes)
            log_terms = log_values + np.log(weights) + np.log(width)
            return log_sum_exp(log_terms, axis=1)

    def _first_grid(self, low: Array, high: Array) -> Array:
        """Return a coarse grid of values b of the loss B, between low and high.

        The search for the support of a convolution integrand starts on it. It is dense
        about the mean of B. If A or B is bounded, evenly spaced points are added.

        Parameters
        ----------
        low, high : array, shape (n, 1)
            The ends of each grid.

        Returns
        -------
        array, shape (n, n_points)
            Increasing points, one row for each grid. Points may occur several times.
        """
        mean_of_b = self.b_scale**2 / 2
        grid = np.clip(mean_of_b + self.b_scale * _FIRST_GRID_OFFSETS, low, high)
        is_bounded = math.isfinite(self.b.max_loss) or math.isfinite(self.a.max_loss)
        if not is_bounded:
            return grid

        even_grid = low + (high - low) * _GRID_FRACTIONS
        return np.sort(np.concatenate([grid, even_grid], axis=1), axis=1)


def _log_tails_agree(log_tail: Array, finer_log_tail: Array) -> bool:
    """Return whether two computations of a log tail differ by a tolerance at most.

    The tolerance is 1e-10 + 1e-12·|log tail|, at every loss.

    Parameters
    ----------
    log_tail, finer_log_tail : array
        The logarithms of a tail at the same losses, with few and with many nodes.

    Returns
    -------
    bool
        True if no difference exceeds the tolerance.
    """
    tolerance = _LOG_TAIL_TOLERANCE + _LOG_TAIL_RELATIVE_TOLERANCE * np.abs(log_tail)
    return bool(np.all(np.abs(log_tail - finer_log_tail) <= tolerance))


def _find_support(b: Array, log_values: Array) -> tuple[Array, Array]:
    """Return, for each function, an interval outside of which it is negligible.

    Each function is known on a grid. A value is negligible if it is below e^-42 of the
    largest value of that function. A grid may contain a point several times.

    Points outside of the result must be negligible; a larger interval is valid too.

    Parameters
    ----------
    b : array, shape (n_functions, n_points)
        Increasing grid points, one row for each function.
    log_values : array, shape (n_functions, n_points)
        The logarithm of the function at these points.

    Returns
    -------
    left, right : array, shape (n_functions, 1)
        The last grid point before, and the first one after, the values that are not
        negligible; or the ends of the grid.
    """
    largest = log_values.max(axis=1, keepdims=True)
    is_inside = log_values >= largest - _NEGLIGIBLE_DEPTH

    # The first and the last grid point of each row that is not negligible.
    n_points = is_inside.shape[1]
    first_index = np.argmax(is_inside, axis=1)[:, None]
    last_index = n_points - 1 - np.argmax(is_inside[:, ::-1], axis=1)[:, None]
    first_inside = np.take_along_axis(b, first_index, 1)
    last_inside = np.take_along_axis(b, last_index, 1)

    # The nearest different grid point on either side, or the end of the grid.
    left = np.max(np.where(b < first_inside, b, b[:, :1]), axis=1, keepdims=True)
    right = np.min(np.where(b > last_inside, b, b[:, -1:]), axis=1, keepdims=True)
    return left, right
