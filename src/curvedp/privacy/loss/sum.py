"""The loss of two independent releases: P(A + B > t) = ∫f_B(b)·P(A > t − b) db, each as a `LossTable`.

Where A is bounded, |A| <= T, P(A > t − b) is 0 below b = t − T and 1 above b = t + T: the integral runs between, where
the integrand is analytic, and what lies above is a tail of B. Seen as a function of t, the sum is then analytic except
where an end of A meets an end of B, at t = |T_A − T_B| (`kinks`), where the panels of its table are cut.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp
from curvedp.numerics.quadrature import endpoint_quadrature
from curvedp.privacy.loss.table import PrivacyLossLaw

# relative error of the tails (measured: 1e-10), as a density that is the derivative of a table loses digits
MARGIN = 4e-9
_RUNGS = np.concatenate(
    [-(4.0 ** np.arange(8.0, -3.0, -1.0)), [0.0], 4.0 ** np.arange(-2.0, 9.0)]
)
_GRID = np.linspace(0.0, 1.0, 25)


class GaussianLoss:
    """The loss of a flat factor, N(μ²/2, μ²), with the interface of a table."""

    def __init__(self, mu: float) -> None:
        self.mu, self.T, self.kinks = mu, math.inf, ()

    def cover(self, t: float) -> None:
        """Closed form everywhere."""

    def log_upper_on_line(self, t: Array) -> Array:
        return np.asarray(log_ndtr(self.mu / 2 - t / self.mu))

    def log_lower_on_line(self, t: Array) -> Array:
        return np.asarray(log_ndtr(t / self.mu - self.mu / 2))

    def log_density_on_line(self, t: Array) -> Array:
        z = t / self.mu - self.mu / 2
        return -z * z / 2 - math.log(self.mu * math.sqrt(2 * math.pi))


class SumOfLosses(PrivacyLossLaw):
    """Tails of A + B, independent, each a table or a `NormalLoss` with its scale; B, integrated over, is the narrower."""

    max_loss: float = math.inf
    loss_scale: float = 0.0

    def __init__(self, a: Any, b: Any, a_scale: float, b_scale: float) -> None:
        self.a, self.b, self.b_scale = a, b, b_scale
        self.loss_scale = math.hypot(a_scale, b_scale)
        self.max_loss = a.T + b.T
        self.resolution = 2e-10 if isinstance(b, GaussianLoss) else MARGIN / 4
        # where the tails are not analytic: an end or a kink of one loss meets one of the other
        ends = [
            [*part.kinks, part.T] if math.isfinite(part.T) else [] for part in (a, b)
        ]
        self.kinks = tuple(
            {
                x
                for p in ends[0]
                for q in ends[1]
                for x in (p + q, abs(p - q))
                if 0 < x < self.max_loss
            }
        )
        self.order = self._resolving_order()

    def _resolving_order(self) -> int:
        """As many nodes as the integrals need: on large hyperbolic distances a density has two steep flanks."""
        t = self.loss_scale * np.array([0.0, 0.3, 1.0, 2.0, 4.0, 8.0])
        t = t[t < 0.9 * self.max_loss]
        order, (upper, lower) = 64, self._log_tails(t, 64)
        while order < 1024:
            finer = self._log_tails(t, 2 * order)
            pairs = zip((upper, lower), finer, strict=True)
            if all(
                np.all(np.abs(x - y) <= 1e-10 + 1e-12 * np.abs(x)) for x, y in pairs
            ):
                break
            order, (upper, lower) = 2 * order, finer
        return order

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        return self._log_tails(t, self.order)

    def _log_tails(self, t: Array, order: int) -> tuple[Array, Array]:
        for part in (self.a, self.b):
            part.cover(2 * float(t.max()) + 20 * self.loss_scale)
        low, high = (
            np.maximum(t - self.a.T, -self.b.T),
            np.minimum(t + self.a.T, self.b.T),
        )
        log_s = self._mix(t, low, high, self.a.log_upper_on_line, order)
        log_f = self._mix(t, low, high, self.a.log_lower_on_line, order)
        if math.isfinite(self.a.T):  # B alone decides outside
            log_s = np.logaddexp(
                log_s,
                np.where(high < self.b.T, self.b.log_upper_on_line(high), -math.inf),
            )
            log_f = np.logaddexp(
                log_f,
                np.where(low > -self.b.T, self.b.log_lower_on_line(low), -math.inf),
            )
        whole = np.logaddexp(
            log_s, log_f
        )  # 1 up to the error of the density, which goes into both tails alike
        return np.minimum(log_s - whole, 0.0), np.minimum(log_f - whole, 0.0)

    def _mix(
        self,
        t: Array,
        low: Array,
        high: Array,
        log_tail: Callable[[Array], Array],
        order: int,
    ) -> Array:
        """log ∫f_B(b)·tail(t − b) db between low and high."""
        t, low, high = t[:, None], low[:, None], high[:, None]

        def h(b: Array) -> Array:
            return np.asarray(self.b.log_density_on_line(b) + log_tail(t - b))

        b = np.clip(self.b_scale**2 / 2 + self.b_scale * _RUNGS, low, high)
        if math.isfinite(self.b.T) or math.isfinite(self.a.T):
            b = np.sort(np.concatenate([b, low + (high - low) * _GRID], axis=1), axis=1)
        for _ in range(3):  # the integrand is unimodal: close in on it
            keep = (values := h(b)) >= values.max(axis=1, keepdims=True) - 42
            first = np.argmax(keep, axis=1)[:, None]
            last = keep.shape[1] - 1 - np.argmax(keep[:, ::-1], axis=1)[:, None]
            # one grid point beyond on either side: the nearest that differs
            left = np.max(
                np.where(b < np.take_along_axis(b, first, 1), b, b[:, :1]),
                axis=1,
                keepdims=True,
            )
            right = np.min(
                np.where(b > np.take_along_axis(b, last, 1), b, b[:, -1:]),
                axis=1,
                keepdims=True,
            )
            b = left + (right - left) * _GRID
        offset, weight = (part / 2 for part in endpoint_quadrature(order))
        with np.errstate(divide="ignore"):
            return log_sum_exp(
                h(left + (right - left) * offset)
                + np.log(weight)
                + np.log(right - left),
                axis=1,
            )
