"""The law of the privacy loss L = log p₁/p₂ under p₁, as piecewise Chebyshev series of the logarithms of its tails.

Of a pair that an isometry swaps, log P₁(L > t) on t >= 0 determines everything, by integrals of positive functions
(docs/exact-profiles.md, The integral). A bounded loss, L <= T, has tails like (T − t)^k: in w = −log(1 − t/T) their
logarithm is nearly linear. Panels are laid in w (or in t itself if T is infinite), and halved until the last coefficients
vanish.
"""

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp
from curvedp.numerics.piecewise_chebyshev import RESOLUTION, PiecewiseChebyshev

_DEEPEST = -760.0  # log of less than the smallest float
_THETA, _WEIGHT = np.polynomial.legendre.leggauss(40)
_THETA = np.pi / 2 * (_THETA + 1)
_WEIGHT = _WEIGHT * np.pi / 4 * np.sin(_THETA)
_Z16, _W16 = np.polynomial.legendre.leggauss(16)
_OFFSET16, _WEIGHT16 = (_Z16 + 1) / 2, _W16 / 2
_LOG_WEIGHT = np.log(_WEIGHT)
_OFFSET = np.sin(_THETA / 2) ** 2  # nodes on (0, 1), dense at both ends


class PrivacyLossLaw:
    """What a law must say about its loss; by default without atoms or kinks, its tails known to all digits."""

    resolution: float = RESOLUTION  # the relative error of the tails, which their series need not go below
    kinks: tuple[
        float, ...
    ] = ()  # losses at which the tails are not analytic: a panel ends at each
    closest: float | None = (
        None  # with an atom at the largest loss, how close to it a table must go, as −log(1 − t/T)
    )

    @property
    def max_loss(self) -> float:
        """sup L, perhaps infinite."""
        raise NotImplementedError

    @property
    def loss_scale(self) -> float:
        """A length on which the tails vary, such as D·√Fisher, the standard deviation of L for D → 0."""
        return self.distance * self.fisher  # type: ignore[attr-defined, no-any-return]

    def resolved(self) -> "PrivacyLossLaw":
        """The same with as many quadrature nodes as its tails need."""
        return self

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """(log P₁(L > t), log P₁(L <= t)) for an array of 0 <= t < max_loss, each with its own digits."""
        raise NotImplementedError

    def delta(self, eps: float) -> float:
        """δ(ε) by one rule over all losses that count where they are nearly normal, or soon at their largest."""
        past = eps - self.loss_scale**2 / 2
        reach = min(
            self.max_loss - eps,
            44.0,
            math.sqrt(past * past + 88 * self.loss_scale**2) - past,
        )
        if reach <= 0:
            return 0.0
        t = eps + reach * _OFFSET
        return reach * math.exp(
            log_sum_exp(self.log_tails(t)[0] + eps - t + _LOG_WEIGHT, axis=0)
        )


class TabulatedLossLaw:
    """Chebyshev panels of both log tails. Grows to the right when a larger t is asked for."""

    def __init__(self, tails: PrivacyLossLaw) -> None:
        self._tails, self.T = tails, tails.max_loss
        self._resolution, self.kinks, self._atom = (
            tails.resolution,
            tails.kinks,
            tails.closest is not None,
        )
        self._bends: dict[int, tuple[float, float]] = {}
        self.panels = PiecewiseChebyshev(
            lambda w: tails.log_tails(self.t_of(w)),
            self._ulp,
            self._resolution,
            _DEEPEST,
        )
        scale = tails.loss_scale
        center = scale * scale / 2  # the mean of L where it is nearly normal
        steps = 4 * scale * 2.0 ** np.arange(0.0, 5.0)
        edges = np.concatenate([center - steps[::-1], [center], center + steps])
        edges = np.concatenate([[0.0], edges[edges > scale / 4]])
        if math.isfinite(self.T):
            edges = edges[edges < 0.6 * self.T]
            last = edges[-1]
            far = [] if last == 0 else list(last * 2.0 ** np.arange(1.0, 60.0))
            edges = np.concatenate([edges, [x for x in far if x < 0.45 * self.T]])
            cuts = np.array(self.kinks)
            # how close to T rounding lets one look; closer where an atom at T leaves P with a scale of its own
            last = (tails.closest or 16.0) if self._resolution == RESOLUTION else 12.0
            w = np.concatenate(
                [
                    self._w(edges, self.T - edges),
                    self._w(cuts, self.T - cuts),
                    [1.5, 4.0, 9.0, last],
                ]
            )
            self.panels.add(np.unique(w[w <= last]))
        else:
            self.panels.add(edges)
            while self.log_upper(np.array([self.end]))[0] > _DEEPEST:
                self.extend()

    @property
    def end(self) -> float:
        """The largest t in the table."""
        return (
            -self.T * math.expm1(-self.panels.edges[-1])
            if math.isfinite(self.T)
            else float(self.panels.edges[-1])
        )

    def _ulp(self, w: Array) -> Array:
        return np.exp(w) if math.isfinite(self.T) else w

    def extend(self, times: int = 1) -> None:
        """Double the range of an unbounded loss."""
        self.panels.add(np.array([self.panels.end * 2.0**n for n in range(times + 1)]))

    def _w(self, t: Array, gap: Array) -> Array:
        """The panel coordinate of t, given T − t."""
        if not math.isfinite(self.T):
            return t
        with np.errstate(divide="ignore"):
            return np.where(
                2 * t < self.T,
                -np.log1p(-np.minimum(t / self.T, 0.5)),
                -np.log(gap / self.T),
            )

    def _value(self, w: Array, which: int) -> Array:
        """The series at w."""
        value, beyond = self.panels.value(w, which), w > self.panels.end
        if np.any(beyond):
            value[beyond] = self._series(w[beyond], which)[0]
        return value

    def _series(self, w: Array, which: int) -> tuple[Array, Array]:
        """The series and its derivative at w; the last panel's end is continued by a power law in T − t (`_ending`)."""
        value, slope, beyond = self.panels.value_and_slope(w, which)
        if self._atom and np.any(beyond > 0):
            bend = self._ending(which)
            return value - bend * (beyond + np.expm1(-beyond)), slope + bend * np.expm1(
                -beyond
            )
        return value, slope

    def _ending(self, which: int) -> float:
        """C in the slope −k + C·e^{end − w} of log P beyond the last panel, from two slopes within it. Continued is the
        slope at the end, −k + C, since C is mostly rounding; with an atom at T it is not, and taken off."""
        if which not in self._bends or self._bends[which][0] != self.panels.edges[-1]:
            end, step = (
                self.panels.edges[-1],
                min(1.0, self.panels.edges[-1] - self.panels.edges[-2]),
            )
            slopes = self._series(np.array([end - step, end]), which)[1]
            self._bends[which] = (end, float(slopes[0] - slopes[1]) / math.expm1(step))
        return self._bends[which][1]

    def log_upper(self, t: Array) -> Array:
        """log P₁(L > t)."""
        return self._value(self._w(t, self.T - t), 0)

    def log_lower(self, t: Array) -> Array:
        """log P₁(L <= t)."""
        return self._value(self._w(t, self.T - t), 1)

    def log_delta(self, eps: Array) -> Array:
        """log δ(ε), ε in [0, end]."""
        return self._discounted(eps, 0)

    def log_one_minus_delta(self, eps: Array) -> Array:
        """log(1 − δ(ε))."""
        return self._discounted(eps, 1)

    def log_second(self, t: Array) -> Array:
        """log P₂(L > t) = log(e^{−t}·(P₁(L > t) − δ(t))), the difference taken where it keeps its digits."""
        upper, delta = self.log_upper(t), self.log_delta(t)
        lower, rest = self.log_lower(t), self.log_one_minus_delta(t)
        right = upper < lower
        big, small = np.where(right, upper, rest), np.where(right, delta, lower)
        with np.errstate(divide="ignore", invalid="ignore"):
            difference = big + np.log(-np.expm1(np.minimum(small - big, 0.0)))
        return np.where(np.isnan(difference), -math.inf, difference) - t

    # ---- the loss on the whole line, for sums of independent losses ----

    @cached_property
    def _second_panels(self) -> PiecewiseChebyshev:
        """t + log P₂(L > t) on the panels as first built."""
        return self.panels.with_function(
            lambda w: self.log_second(self.t_of(w)) + self.t_of(w)
        )

    def _second(self, t: Array) -> Array:
        """log P₂(L > t) by its own series, t >= 0."""
        last = np.nextafter(self._second_panels.end, 0.0)
        return (
            self._second_panels.value(np.minimum(self._w(t, self.T - t), last), 0) - t
        )

    def log_upper_on_line(self, t: Array) -> Array:
        """log P₁(L > t) for any real t."""
        x = np.minimum(np.abs(t), self._reach) if math.isfinite(self.T) else np.abs(t)
        with np.errstate(divide="ignore"):
            left = np.log1p(-np.exp(np.minimum(self._second(x), -1e-17)))
        right = np.where(t >= self.T, -math.inf, self.log_upper(x))
        return np.where(t < 0, left, right)

    def log_lower_on_line(self, t: Array) -> Array:
        """log P₁(L <= t) for any real t."""
        x = np.minimum(np.abs(t), self._reach) if math.isfinite(self.T) else np.abs(t)
        left = np.where(t <= -self.T, -math.inf, self._second(x))
        return np.where(t < 0, left, np.where(t >= self.T, 0.0, self.log_lower(x)))

    def log_density_on_line(self, t: Array) -> Array:
        """The log density of L under p₁: f(−t) = e^{−t}·f(t) by symmetry."""
        x = np.minimum(np.abs(t), self._reach)
        value, slope = self._series(self._w(x, self.T - x), 0)
        per_t = 1 / (self.T - x) if math.isfinite(self.T) else 1.0
        with np.errstate(divide="ignore"):
            density = value + np.log(np.maximum(-slope * per_t, 0.0))
        return np.where(
            np.abs(t) > self._reach, -math.inf, density + np.where(t < 0, t, 0.0)
        )

    def cover(self, t: float) -> None:
        """Extend an unbounded loss to t."""
        while math.isinf(self.T) and self.end < t:
            self.extend()

    @property
    def _reach(self) -> float:
        return self.T * (1 - 1e-12) if math.isfinite(self.T) else self.end

    def t_of(self, w: Array) -> Array:
        """The loss at a panel coordinate."""
        return -self.T * np.expm1(-w) if math.isfinite(self.T) else w

    def grid(self) -> Array:
        """Twelve losses a panel, from 0 to the end: what a search for a supremum starts from."""
        steps = np.linspace(0.0, 1.0, 13)[:-1]
        w = (
            self.panels.edges[:-1, None] + np.diff(self.panels.edges)[:, None] * steps
        ).ravel()
        return self.t_of(np.append(w, self.panels.edges[-1]))

    def cap_noise(self, eps: Array) -> Array:
        """What rounding of ε and the power law beyond the last panel can do to δ close to the cap T, relative to δ."""
        if not math.isfinite(self.T):
            return np.zeros_like(eps)
        w = self._w(eps, self.T - eps)
        slope = np.abs(self._series(w, 0)[1]) + 1
        with np.errstate(over="ignore", invalid="ignore"):
            rounding = np.exp(np.minimum(w, 36.0)) * 2.0**-50
            noise = rounding + np.where(w > self.panels.edges[-1], 1e-6, 0.0)
            return slope * np.where(w > 2, np.minimum(noise, 1.0), 0.0)

    @property
    def _beyond(self) -> list[float]:
        """Panels between the table and the end of a bounded loss, over which it is continued."""
        return (
            []
            if math.isinf(self.T)
            else [w for w in (20.0, 26.0, 36.0) if w > self.panels.edges[-1]]
        )

    @cached_property
    def _moment_nodes(self) -> tuple[Array, Array, Array, Array]:
        """(t, log weight, log P₁(L > t), log δ(t)) of a fixed rule over the table as first built."""
        edges = np.append(self.panels.edges, self._beyond)
        fine = np.append(
            (edges[:-1, None] + np.diff(edges)[:, None] * np.arange(4) / 4).ravel(),
            edges[-1],
        )
        width = np.diff(fine)[:, None]
        w = (fine[:-1, None] + width * _OFFSET16).ravel()
        t = self.t_of(w)
        with np.errstate(
            divide="ignore"
        ):  # a panel narrower than a rounding weighs nothing
            log_w = np.log((width * _WEIGHT16).ravel()) + (
                math.log(self.T) - w if math.isfinite(self.T) else 0.0
            )
        return t, log_w, self.log_upper(t), self.log_delta(t)

    def log_moment(self, s: float) -> float:
        """log ∫₀^∞ (P₁(L > t)·(e^{st} − e^{−(s+1)t}) + e^{−(s+1)t}·δ(t)) dt, for s > −1."""

        def log_integrand(t: Array, log_s: Array, log_delta: Array) -> Array:
            with np.errstate(divide="ignore"):
                first = log_s + s * t + np.log(-np.expm1(-(2 * s + 1) * t))
            return np.logaddexp(first, log_delta - (s + 1) * t)

        t, log_w, log_s, log_delta = self._moment_nodes
        g = log_integrand(t, log_s, log_delta)
        h = g + log_w
        inside = h[1:] > h.max() - 40
        resolved = (
            np.max(np.abs(np.diff(g))[inside], initial=0.0) < 3
        )  # the panels suit the tails, not every moment
        if resolved and (math.isfinite(self.T) or h[-1] < h.max() - 45):
            return float(log_sum_exp(h, axis=0))
        return self.log_integral(
            lambda t: log_integrand(t, self.log_upper(t), self.log_delta(t)), s
        )

    def log_integral(
        self, log_integrand: Callable[[Array], Array], growth: float
    ) -> float:
        """log ∫₀^T of a positive function about as large as e^{growth·t}·P₁(L > t)."""
        if math.isinf(self.T):
            size = growth * (probe := self.grid()) + self.log_upper(probe)
            while (
                growth * self.end + self.log_upper(np.array([self.end]))[0]
                > size.max() - 60
            ):
                self.extend()
                size = growth * (probe := self.grid()) + self.log_upper(probe)
        w = np.unique(
            np.concatenate(
                [self.panels.edges, self._w(self.grid(), self.T - self.grid())]
            )
        )
        # next to a huge T the grid's last t rounds to T: w = inf
        w = np.append(w[w <= self.panels.edges[-1]], self._beyond)
        low, high = w[:-1], w[1:]
        for _ in range(60):
            h = self._log_density(log_integrand, np.concatenate([low, high]))
            top = np.maximum(h[: len(low)], h[len(low) :])
            keep = (top > top.max() - 50) & (high > low)
            low, high, h = low[keep], high[keep], h[np.concatenate([keep, keep])]
            steep = np.abs(h[: len(low)] - h[len(low) :]) > 8
            if not np.any(steep & (high - low > 1e-12 * high)) and len(low) >= 8:
                break
            mid = (low + high) / 2
            split = steep | (len(low) < 8)
            low, high = (
                np.concatenate([low, mid[split]]),
                np.concatenate([np.where(split, mid, high), high[split]]),
            )
        v = low[:, None] + (high - low)[:, None] * _OFFSET16
        with np.errstate(
            divide="ignore"
        ):  # a panel narrower than a rounding weighs nothing
            h = self._log_density(log_integrand, v) + np.log(
                (high - low)[:, None] * _WEIGHT16
            )
        return float(log_sum_exp(h.ravel(), axis=0))

    def _log_density(self, log_integrand: Callable[[Array], Array], w: Array) -> Array:
        """The integrand with the Jacobian dt/dw = T − t."""
        jacobian = math.log(self.T) - w if math.isfinite(self.T) else 0.0
        return log_integrand(self.t_of(w)) + jacobian

    def _discounted(self, eps: Array, which: int) -> Array:
        """log ∫_ε^∞ e^{ε−t} P(t) dt, P the upper or the lower tail: a piece for each panel to the right of ε."""
        eps = np.asarray(eps, np.float64)
        if eps.size > 2048:  # keeps the pieces in the cache
            parts = [
                self._discounted(part, which)
                for part in np.array_split(eps.ravel(), eps.size // 1024)
            ]
            return np.concatenate(parts).reshape(eps.shape)
        flat = eps.ravel()
        edges = (
            -self.T * np.expm1(-self.panels.edges)
            if math.isfinite(self.T)
            else self.panels.edges.copy()
        )
        edges[-1] = self.T
        # A piece begins at ε or at an edge beyond it: so many are computed, whatever the number of pairs.
        begin = np.concatenate([flat, edges[:-1]])
        end = np.concatenate(
            [edges[1:][np.searchsorted(edges[:-1], flat, side="right") - 1], edges[1:]]
        )
        value, slope = self._series(self._w(begin, self.T - begin), which)
        later = flat[:, None] < edges[:-1]
        place = np.where(
            later, len(flat) + np.arange(len(edges) - 1), np.arange(len(flat))[:, None]
        )
        start = value[place] + (flat[:, None] - begin[place])
        keep = (begin[place] < edges[1:]) & (
            start > start.max(axis=1, keepdims=True) - 46
        )
        row, used = np.nonzero(keep)[0], place[keep]
        piece = self._pieces(begin, end, slope, flat[row] - begin[used], used, which)
        out = np.full(flat.shape, -math.inf)
        np.logaddexp.at(out, row, piece)
        if math.isfinite(self.T):
            slack = self._log_slack(flat, which)
            if which == 1:  # beyond T the lower tail is 1
                out = np.logaddexp(out, np.minimum(flat - self.T, 0.0))
                out = out + np.log1p(
                    -np.minimum(np.exp(np.minimum(slack - out, 0.0)), 0.5)
                )
            else:
                out = np.logaddexp(out, slack)
        return out.reshape(eps.shape)

    def _pieces(
        self,
        begin: Array,
        end: Array,
        slope: Array,
        apart: Array,
        used: NDArray[np.int64],
        which: int,
    ) -> Array:
        """log ∫ e^{apart + begin − t} P(t) dt from begin[used] to end[used], given the slopes of log P there."""
        which_used, back = np.unique(used, return_inverse=True)
        begin, end, slope = begin[which_used], end[which_used], slope[which_used]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            room = self.T - begin
            per_t = 1 / room if math.isfinite(self.T) else np.ones_like(begin)  # dw/dt
            rate = 1.0 - np.minimum(
                slope * per_t, 0.0
            )  # e^{−t}P falls at least so fast where log P is concave
            reach = np.minimum(44.0 / rate, end - begin)
            v = reach[:, None] * _OFFSET
            log_p = self._value(self._w(begin[:, None] + v, room[:, None] - v), which)
            total = log_sum_exp(
                log_p[back] + apart[:, None] - v[back] + _LOG_WEIGHT, axis=1
            )
            return np.asarray(np.log(reach)[back] + total)

    def _log_slack(self, eps: Array, which: int) -> Array:
        """log of what the continuation beyond the last panel can miss in `_discounted`, taken twice or more. Without C
        the error of log P is at most |C|; with it, of second order."""
        bend = abs(self._ending(which))
        error = 4 * bend * bend + 1e-9 if self._atom else 2 * bend
        t = np.clip(eps, self.end, self.T)
        with np.errstate(divide="ignore"):
            log_p = self._series(np.minimum(self._w(t, self.T - t), 36.0), which)[0]
            return np.asarray(np.log(error) + log_p + np.log(self.T - t) + (eps - t))
