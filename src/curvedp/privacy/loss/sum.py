"""The privacy loss of two independent releases: the sum of their privacy losses.

`SumOfLosses` computes the tails of A + B by a convolution integral,

    P₁(A + B > t) = ∫ f_B(b)·P₁(A > t − b) db,

where f_B is the density of B, and both factors come from tables.

If A is bounded, |A| <= T, then P₁(A > t − b) is 0 below b = t − T and 1 above b = t + T.
The integral runs between these points, where the integrand is analytic; what lies above
is a tail of B. As a function of t the sum is then analytic except where an end of A meets
an end of B, such as t = |T_A − T_B|. Panels of its table end there.
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
MARGIN = 4e-9
# Offsets from the mean of B, in standard deviations, at which the search for the support
# of the integrand starts.
_POWERS_OF_4 = 4.0 ** np.arange(8.0, -3.0, -1.0)
_LADDER = np.concatenate([-_POWERS_OF_4, [0.0], _POWERS_OF_4[::-1]])
_FRACTIONS = np.linspace(0.0, 1.0, 25)
_DEPTH = 42  # an integrand below e^-42 of its maximum is negligible
# The number of quadrature nodes, at least and at most.
_FEWEST_NODES = 64
_MOST_NODES = 1024


class LossOnLine(Protocol):
    """The interface of a summand: tails and density of its loss at any real t."""

    max_loss: float
    breakpoints: tuple[float, ...]

    def cover(self, t: float) -> None:
        """Prepare for losses up to t; tables may be extended in place."""

    def log_upper_on_line(self, t: Array) -> Array:
        """Return log P₁(L > t)."""

    def log_lower_on_line(self, t: Array) -> Array:
        """Return log P₁(L <= t)."""

    def log_density_on_line(self, t: Array) -> Array:
        """Return the log density of L under p₁."""


class GaussianLoss:
    """The privacy loss N(μ²/2, μ²) of a flat Gaussian, in closed form."""

    def __init__(self, mu: float) -> None:
        """Store μ > 0, the distance of the centers divided by the noise scale."""
        self.mu = mu
        self.max_loss = math.inf
        self.breakpoints: tuple[float, ...] = ()

    def cover(self, t: float) -> None:
        """Do nothing: the closed form holds everywhere."""

    def log_upper_on_line(self, t: Array) -> Array:
        """Return log P₁(L > t)."""
        return np.asarray(log_ndtr(self.mu / 2 - t / self.mu))

    def log_lower_on_line(self, t: Array) -> Array:
        """Return log P₁(L <= t)."""
        return np.asarray(log_ndtr(t / self.mu - self.mu / 2))

    def log_density_on_line(self, t: Array) -> Array:
        """Return the log density of N(μ²/2, μ²)."""
        z = t / self.mu - self.mu / 2
        return -z * z / 2 - math.log(self.mu * math.sqrt(2 * math.pi))


class SumOfLosses(PrivacyLossLaw):
    """The distribution of A + B, the sum of two independent privacy losses.

    Parameters
    ----------
    a, b : LossOnLine
        The summands. The convolution integral runs over b, the narrower one.
    a_scale, b_scale : float
        Their loss scales, which are about their standard deviations.
    """

    max_loss: float = math.inf
    loss_scale: float = 0.0

    def __init__(
        self, a: LossOnLine, b: LossOnLine, a_scale: float, b_scale: float
    ) -> None:
        """Derive scale, range, breakpoints and number of nodes of the sum."""
        self.a = a
        self.b = b
        self.b_scale = b_scale
        self.loss_scale = math.hypot(a_scale, b_scale)
        self.max_loss = a.max_loss + b.max_loss
        self.resolution = 2e-10 if isinstance(b, GaussianLoss) else MARGIN / 4
        self.breakpoints = self._find_breakpoints()
        self.order = self._resolving_order()

    def _find_breakpoints(self) -> tuple[float, ...]:
        """Return the losses at which the tails of the sum are not analytic.

        They are the sums and differences of the ends and breakpoints of A and of B. There are
        none if A or B is unbounded.
        """
        if math.isinf(self.a.max_loss) or math.isinf(self.b.max_loss):
            return ()
        points = set()
        for p in [*self.a.breakpoints, self.a.max_loss]:
            for q in [*self.b.breakpoints, self.b.max_loss]:
                points |= {p + q, abs(p - q)}
        return tuple({t for t in points if 0 < t < self.max_loss})

    def _resolving_order(self) -> int:
        """Return the number of quadrature nodes that the convolution integrals need.

        It is doubled until the tails no longer change. On large hyperbolic distances a
        density has two steep flanks, which need many nodes.
        """
        t = self.loss_scale * np.array([0.0, 0.3, 1.0, 2.0, 4.0, 8.0])
        t = t[t < 0.9 * self.max_loss]
        order = _FEWEST_NODES
        tails = self._log_tails(t, order)
        while order < _MOST_NODES:
            finer_tails = self._log_tails(t, 2 * order)
            agree = [
                np.all(np.abs(x - y) <= 1e-10 + 1e-12 * np.abs(x))
                for x, y in zip(tails, finer_tails, strict=True)
            ]
            if all(agree):
                break
            order = 2 * order
            tails = finer_tails
        return order

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(A + B > t) and log P₁(A + B <= t)."""
        return self._log_tails(t, self.order)

    def _log_tails(self, t: Array, order: int) -> tuple[Array, Array]:
        """Return log P₁(A + B > t) and log P₁(A + B <= t) at losses t >= 0.

        Both are normalized to the total mass 1. The tables of A and B may be extended in
        place.

        Parameters
        ----------
        t : array
            Losses, in one dimension.
        order : int
            The number of quadrature nodes.
        """
        a, b = self.a, self.b
        for part in (a, b):
            part.cover(2 * float(t.max()) + 20 * self.loss_scale)
        low = np.maximum(t - a.max_loss, -b.max_loss)
        high = np.minimum(t + a.max_loss, b.max_loss)
        log_upper = self._log_convolution(t, low, high, a.log_upper_on_line, order)
        log_lower = self._log_convolution(t, low, high, a.log_lower_on_line, order)

        if math.isfinite(a.max_loss):  # outside [low, high] B alone decides
            upper_of_b = np.where(
                high < b.max_loss, b.log_upper_on_line(high), -math.inf
            )
            lower_of_b = np.where(
                low > -b.max_loss, b.log_lower_on_line(low), -math.inf
            )
            log_upper = np.logaddexp(log_upper, upper_of_b)
            log_lower = np.logaddexp(log_lower, lower_of_b)

        # The total is 1 up to the error of the density, which both tails share.
        log_total = np.logaddexp(log_upper, log_lower)
        return (
            np.minimum(log_upper - log_total, 0.0),
            np.minimum(log_lower - log_total, 0.0),
        )

    def _log_convolution(
        self,
        t: Array,
        low: Array,
        high: Array,
        log_tail: Callable[[Array], Array],
        order: int,
    ) -> Array:
        """Return log ∫ f_B(b)·tail(t − b) db from low to high, one for each t.

        The integrand is unimodal, so that three successive grids close in on its support.

        Parameters
        ----------
        t, low, high : array
            Losses of the sum, and the interval of b for each of them.
        log_tail : callable
            The logarithm of the tail of A.
        order : int
            The number of quadrature nodes.
        """
        t, low, high = t[:, None], low[:, None], high[:, None]

        def log_integrand(b: Array) -> Array:
            return np.asarray(self.b.log_density_on_line(b) + log_tail(t - b))

        b = np.clip(self.b_scale**2 / 2 + self.b_scale * _LADDER, low, high)
        if math.isfinite(self.b.max_loss) or math.isfinite(self.a.max_loss):
            even_grid = low + (high - low) * _FRACTIONS
            b = np.sort(np.concatenate([b, even_grid], axis=1), axis=1)
        for _ in range(3):
            left, right = _support(b, log_integrand(b))
            b = left + (right - left) * _FRACTIONS

        nodes, weights = (part / 2 for part in endpoint_quadrature(order))
        with np.errstate(divide="ignore"):
            log_terms = (
                log_integrand(left + (right - left) * nodes)
                + np.log(weights)
                + np.log(right - left)
            )
            return log_sum_exp(log_terms, axis=1)


def _support(b: Array, log_values: Array) -> tuple[Array, Array]:
    """Return the interval on which a function is not negligible, row by row.

    A value is negligible below e^-42 of the maximum of its row.

    Parameters
    ----------
    b, log_values : array
        Increasing grid points and the logarithm of the function there, one row for each
        function.

    Returns
    -------
    left, right : array
        Two columns: the nearest different grid points outside of the interval.
    """
    is_inside = log_values >= log_values.max(axis=1, keepdims=True) - _DEPTH
    first = np.argmax(is_inside, axis=1)[:, None]
    last = is_inside.shape[1] - 1 - np.argmax(is_inside[:, ::-1], axis=1)[:, None]
    first_b = np.take_along_axis(b, first, 1)
    last_b = np.take_along_axis(b, last, 1)
    left = np.max(np.where(b < first_b, b, b[:, :1]), axis=1, keepdims=True)
    right = np.min(np.where(b > last_b, b, b[:, -1:]), axis=1, keepdims=True)
    return left, right
