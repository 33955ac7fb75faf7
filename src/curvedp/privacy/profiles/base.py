"""The privacy profile of a release: δ(ε), ε(δ), μ, trade-off curve, Rényi orders.

A `PrivacyProfile` holds the law of the privacy loss L = log p₁/p₂ under p₁, for the
worst pair of neighboring data sets. Every number below is an integral of the two tails
of that law, which `loss.table` tabulates:

    δ(ε)      = E₁(1 − e^{ε−L})₊ = ∫_ε^∞ e^{ε−t}·P₁(L > t) dt,
    P₂(L > t) = e^{−t}·(P₁(L > t) − δ(t)),

the second because an isometry swaps the pair. The theory is in docs/exact-profiles.md.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy

from curvedp import _validate
from curvedp.errors import NotResolved, ParameterError
from curvedp.numerics.directed_rounding import Array, bracket_sign_change, round_up
from curvedp.numerics.log_space import log_complement
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.guarantees.gaussian import gdp_log_delta, gdp_mu_below
from curvedp.privacy.loss.law import PrivacyLossLaw
from curvedp.privacy.loss.table import TabulatedLossLaw

# Of δ, μ and the Rényi divergences, which are rounded up by it; measured: below 1e-11.
RELATIVE_ERROR = 1e-9
_LOG_2 = math.log(2.0)
_LARGEST_ORDER = 1e150
# order·loss beyond which the logarithm of a moment has too few digits to find where its
# integral ends.
_HUGE_MOMENT = 1e6
# A largest loss beyond which an integral keeps less than `RELATIVE_ERROR`.
_HUGE_LOSS = 1e10
# The supremum of μ_ε is sought up to this fraction of the table of an unbounded loss:
# δ next to its end is an integral over what the table is only continued by.
_TRUSTED_PART_OF_TABLE = 0.75
_MAX_DOUBLINGS = 200
_LOG_ROUNDING = 4e-16  # logarithms are rounded by up to half of this, relatively


class SubgaussianTail(NamedTuple):
    """A bound log E₁[e^{λL}] <= log_k + λ·(drift + v/2) + λ²·v/2 on an unbounded loss.

    v is the square of `PrivacyProfile._tail_mu`, and log_k >= 0.
    """

    log_k: float
    drift: float


@dataclass(frozen=True)
class PrivacyProfile(Guarantee):
    """Everything a release promises, from the exact law of its privacy loss.

    `delta`, `mu`, `renyi`, `rao` and `hellinger_angle` are never below the truth by
    more than a float's rounding, and above it by at most 3e-9 of it. `epsilon` is on
    the private side; `tradeoff` is never above the truth.

    Parameters
    ----------
    adjacency : str
        As of every `Guarantee`.

    Examples
    --------
    >>> from curvedp.privacy import gaussian_profile
    >>> gaussian_profile(curvature=1.0, dim=2, sigma=0.2, sensitivity=0.1).mu <= 0.5
    True
    """

    label: ClassVar[str] = "exact"

    # ---- the law of the loss

    @property
    def loss_law(self) -> PrivacyLossLaw:
        """The law of the loss, where one pair of neighbors is the worst at every ε."""
        raise NotImplementedError(
            f"{type(self).__name__} has no one law of the loss; "
            "ask for delta, epsilon or tradeoff"
        )

    @cached_property
    def loss_table(self) -> TabulatedLossLaw:
        """The tabulated law of the loss, built when it is first asked for."""
        return TabulatedLossLaw(self.loss_law)

    @property
    @abstractmethod
    def rao(self) -> float:
        """The parametric Rao distance: sensitivity·√(Fisher information)."""

    @property
    def pure_epsilon(self) -> float:
        """The largest loss, rounded up: the smallest ε with δ(ε) = 0, or inf."""
        largest_loss = self.loss_law.max_loss
        if math.isinf(largest_loss):
            return math.inf
        return float(round_up(largest_loss, 2e-15))

    @property
    def _zero_from(self) -> float:
        """The ε from which on δ is 0, if the loss is bounded."""
        return self.pure_epsilon

    # ---- δ(ε)

    def _delta(self, eps: Array) -> Array:
        """Return δ(ε) from the table, rounded up.

        Beyond the end of an unbounded loss δ underflows to 0; next to a largest loss it
        is held at its value just below. Above ½ it is rounded up in terms of 1 − δ,
        which has the digits there.
        """
        table = self.loss_table
        is_bounded = math.isfinite(table.max_loss)
        last = math.nextafter(table.max_loss, 0.0) if is_bounded else table.end
        inside = np.minimum(eps, last)

        with np.errstate(under="ignore"):
            delta = np.asarray(np.exp(table.log_delta(inside)))
        margin = 1 + RELATIVE_ERROR + table.noise_near_max_loss(inside)
        delta = np.array(np.minimum(delta * margin, 1.0))

        is_large = delta > 0.5
        if np.any(is_large):
            log_rest = table.log_one_minus_delta(np.asarray(inside)[is_large])
            lowered_rest = np.exp(log_rest) * (1 - RELATIVE_ERROR)
            delta[is_large] = np.minimum(np.nextafter(1 - lowered_rest, 2.0), 1.0)

        is_zero = eps >= self._zero_from if is_bounded else eps > last
        return np.where(is_zero, 0.0, np.asarray(delta))

    # ---- μ

    @cached_property
    def mu(self) -> float:
        """The smallest μ of GDP: the supremum over ε of the μ with δ_μ(ε) = δ(ε).

        The search covers [0, T) if the loss is bounded by T. Otherwise the table is
        doubled until the tail is closed by a theorem (`_tail_is_closed`): beyond the
        table, δ(ε) <= δ_μ(ε) is then proved, not observed.
        """
        table = self.loss_table
        mu = self._mu_in_table
        n_doublings = 0
        while math.isinf(table.max_loss):
            stop = _TRUSTED_PART_OF_TABLE * table.end
            candidate = max(mu, self._tail_mu * (1 + 1e-10))
            needed = self._doublings_to_close(
                candidate, stop, _MAX_DOUBLINGS - n_doublings
            )
            if needed == 0:
                return float(round_up(candidate, 2 * RELATIVE_ERROR))
            table.extend(needed)
            mu = max(mu, self._largest_mu_on(self._trusted_losses(stop / 2)))
            n_doublings += needed
        # Twice the error of δ, so that δ_μ stays above the rounded-up δ: ∂log δ/∂log μ
        # > ½.
        return float(round_up(mu, 2 * RELATIVE_ERROR))

    def _doublings_to_close(self, mu: float, stop: float, limit: int) -> int:
        """Return how often the table must be doubled until μ closes its tail."""
        for n in range(limit):
            if self._tail_is_closed(mu, stop * 2.0**n):
                return n
        raise NotResolved("the tail of the privacy loss could not be closed")

    @cached_property
    def _mu_in_table(self) -> float:
        """The largest μ_ε over the losses in the table as it was first built."""
        return self._largest_mu_on(self._trusted_losses(0.0))

    def _trusted_losses(self, start: float) -> Array:
        """Return losses in the table, from `start` on if the loss is unbounded."""
        grid = self.loss_table.grid()
        if math.isfinite(self.loss_table.max_loss):
            return grid
        stop = _TRUSTED_PART_OF_TABLE * self.loss_table.end
        return np.append(grid[(grid >= start) & (grid < stop)], stop)

    @property
    def _tail_mu(self) -> float:
        """The limit of μ_ε as ε grows, where the loss is unbounded."""
        return 0.0

    def _subgaussian_tail(self) -> SubgaussianTail:
        """Return a bound on the moments of an unbounded loss."""
        raise NotImplementedError

    def _tail_is_closed(self, mu: float, eps: float) -> bool:
        """Say whether δ(ε′) <= δ_μ(ε′) is proved for every ε′ >= ε (unbounded losses).

        docs/exact-profiles.md, Theorem P2. By Chernoff δ(ε) <= K·e^{−z²/2} with
        z = (ε − drift − v/2)/√v, and δ_μ(ε) >= φ(x)·μ/(y + √2)² with x = ε/μ − μ/2 and
        y = ε/μ + μ/2. The quotient of the two must be at most 1, and fall from ε on.
        """
        tail = self._subgaussian_tail()
        root_v = self._tail_mu
        z = (eps - tail.drift) / root_v - root_v / 2
        x = eps / mu - mu / 2
        y = eps / mu + mu / 2
        if not (z > 0 and x > 0 and mu > root_v):
            return False

        log_quotient = tail.log_k + 0.5 * math.log(2 * math.pi) - (z - x) * (z + x) / 2
        log_quotient += 2 * math.log(y + math.sqrt(2)) - math.log(mu)
        falls = z / root_v >= x / mu + 2 / (mu * (y + math.sqrt(2)))
        return log_quotient <= 0 and falls

    def _largest_mu_on(self, grid: Array) -> float:
        """Return the largest μ_ε over the span of a grid of ε's.

        Every local maximum on the grid that is nearly the largest is refined: nine
        points across its two cells, then across the two best cells of those, and so on.
        """
        mu = self._mu_at(grid)
        largest = float(mu.max())
        not_below_left = np.concatenate([[True], mu[1:] >= mu[:-1]])
        not_below_right = np.concatenate([mu[:-1] >= mu[1:], [True]])
        is_peak = not_below_left & not_below_right & (mu >= 0.98 * largest)
        peaks = np.nonzero(is_peak)[0]

        low = grid[np.maximum(peaks - 1, 0)]
        high = grid[np.minimum(peaks + 1, len(grid) - 1)]
        row = np.arange(len(peaks))
        for _ in range(8):
            points = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 9)
            values = self._mu_at(points, start=largest)
            previous = largest
            largest = max(largest, float(values.max()))
            best = np.argmax(values, axis=1)
            low = points[row, np.maximum(best - 1, 0)]
            high = points[row, np.minimum(best + 1, 8)]
            if largest <= previous * (1 + 1e-11):  # the next round gains a sixteenth
                break
        return largest

    def mu_at(self, eps: Array) -> Array:
        """Return the μ with δ_μ(ε) = δ(ε), at every ε; 0 where δ is 0.

        Beyond the table of an unbounded loss it is the μ at the table's end.
        """
        table = self.loss_table
        is_bounded = math.isfinite(table.max_loss)
        last = table.max_loss if is_bounded else table.end
        return np.where(eps < table.max_loss, self._mu_at(np.minimum(eps, last)), 0.0)

    def _mu_at(self, eps: Array, start: float | None = None) -> Array:
        """Return μ_ε inside the table, from log δ or log(1 − δ).

        `start` is where Newton's method begins, if a good value is known.
        """
        log_delta = self.loss_table.log_delta(eps)
        is_near_one = log_delta > -_LOG_2
        is_usable = ~is_near_one & (log_delta > -math.inf)

        mu = np.zeros_like(eps)
        mu[is_usable] = _mu_from_log_delta(eps[is_usable], log_delta[is_usable], start)
        if np.any(is_near_one):
            log_rest = self.loss_table.log_one_minus_delta(eps[is_near_one])
            mu[is_near_one] = _mu_from_log_complement(eps[is_near_one], log_rest, start)
        return mu

    # ---- the trade-off curve

    def _tradeoff(self, alpha: Array) -> Array:
        """Return β(α) from log β or log(1 − β), whichever has the digits."""
        flat = np.asarray(alpha, np.float64).ravel()
        log_beta, log_complement_of_beta = self._log_tradeoff(flat)
        with np.errstate(under="ignore"):
            from_log = np.exp(log_beta)
            from_complement = np.nextafter(-np.expm1(log_complement_of_beta), 0.0)
        beta = np.where(log_beta < -_LOG_2, from_log, from_complement)
        beta = np.minimum(beta, 1 - flat)
        beta = np.where(flat == 1.0, 0.0, beta)
        beta = np.where(flat == 0.0, 1.0, beta)
        return beta.reshape(np.shape(alpha))

    def mu_of_tradeoff(self, alpha: Array) -> Array:
        """Return the μ whose trade-off curve passes through (α, β(α)), rounded up.

        That is μ = −Φ⁻¹(α) − Φ⁻¹(β), for 0 < α < 1.
        """
        log_beta, log_complement_of_beta = self._log_tradeoff(alpha)
        from_log = scipy.special.ndtri_exp(log_beta)
        from_complement = -scipy.special.ndtri_exp(log_complement_of_beta)
        z_beta = np.where(log_beta < -_LOG_2, from_log, from_complement)
        return np.asarray(np.maximum(-scipy.special.ndtri(alpha) - z_beta, 0.0))

    def _log_tradeoff(self, alpha: Array) -> tuple[Array, Array]:
        """Return (log β, log(1 − β)), each with its own digits, β rounded down.

        Neyman–Pearson: the test L > t has type I error P₂(L > t) and type II error P₁(L
        <= t). The curve is its own inverse, since an isometry swaps the pair: left of
        its fixed point P₂(L > 0) the threshold t is found from α = P₂(L > t), right of
        it from α = P₁(L <= t). So t is taken where the answer is smaller.
        """
        table = self.loss_table
        with np.errstate(divide="ignore"):
            log_alpha = np.log(alpha)
            log_rest_of_alpha = np.log1p(-alpha)
        fixed_point = table.log_second_tail(np.zeros(1))[0]
        is_left = log_alpha <= fixed_point

        def lower_tail_deficit(w: Array) -> Array:
            """Return log(α/P₁(L <= t)) or the like: <= 0 once P₁(L <= t) reaches α."""
            t = table.loss_at(w)
            from_lower = log_alpha - table.log_lower_tail(t)
            from_upper = table.log_upper_tail(t) - log_rest_of_alpha
            return np.where(alpha < 0.5, from_lower, from_upper)

        def before_threshold(w: Array) -> Array:
            """Decrease through 0 at the threshold: left P₂(L > t) falls to α, right
            P₁(L <= t) grows to α."""
            from_second = table.log_second_tail(table.loss_at(w)) - log_alpha
            return np.where(is_left, from_second, lower_tail_deficit(w))

        low, high = bracket_sign_change(
            before_threshold,
            np.zeros_like(alpha),
            np.full_like(alpha, table.series.end),
        )
        threshold = table.loss_at(np.where(is_left, low, high))
        log_beta = np.where(
            is_left, table.log_lower_tail(threshold), table.log_second_tail(threshold)
        )
        log_beta = log_beta + math.log1p(-RELATIVE_ERROR)
        # An atom of the loss at its maximum can keep P₁(L <= t) below α up to the end:
        # no test L > t has an error that small.
        is_reached = is_left | (lower_tail_deficit(high) <= 0)
        log_beta = np.where(is_reached, log_beta, -math.inf)
        log_rest = np.where(
            is_left,
            table.log_upper_tail(threshold) + math.log1p(RELATIVE_ERROR),
            log_complement(log_beta),
        )
        if math.isfinite(table.max_loss):
            log_beta, log_rest = self._above_pure_lines(
                log_beta, log_rest, log_alpha, log_rest_of_alpha
            )
        return log_beta, np.minimum(log_rest, 0.0)

    def _above_pure_lines(
        self,
        log_beta: Array,
        log_rest: Array,
        log_alpha: Array,
        log_rest_of_alpha: Array,
    ) -> tuple[Array, Array]:
        """Raise the curve to the lines 1 − e^T·α and e^−T·(1 − α) of (T, 0)-DP.

        Tests that randomize at atoms of the loss at ±T attain them; T = `pure_epsilon`.
        """
        largest_loss = self.pure_epsilon * (1 + _LOG_ROUNDING) + _LOG_ROUNDING
        log_rest_of_steep = np.minimum(
            log_alpha * (1 - _LOG_ROUNDING) + largest_loss, 0.0
        )
        log_shallow = log_rest_of_alpha * (1 + _LOG_ROUNDING) - largest_loss
        highest_line = np.maximum(log_complement(log_rest_of_steep), log_shallow)
        smallest_rest = np.minimum(log_rest_of_steep, log_complement(log_shallow))
        return np.maximum(log_beta, highest_line), np.minimum(log_rest, smallest_rest)

    # ---- Rényi divergences, ρ and the Hellinger angle

    def renyi(self, order: Any) -> Any:
        """Return the Rényi divergence of the given order, rounded up.

        D_α = log E₁[e^{sL}]/s with s = α − 1, where

            E₁[e^{sL}] = 1 + s·∫₀^∞ (S(t)(e^{st} − e^{−(s+1)t}) + e^{−(s+1)t}·δ(t)) dt

        and S(t) = P₁(L > t). For an unbounded loss at order·θ > 10⁶ it is order·μ²/2,
        an upper bound.

        Parameters
        ----------
        order : float or array
            α >= 1; 1 is the Kullback–Leibler divergence, inf the largest loss.
        """
        orders = _validate.array("order", order)
        if not np.all(orders >= 1):
            raise ParameterError("must be >= 1", parameter="order", value=order)
        values = [self.implied_renyi(float(alpha)) for alpha in orders.ravel()]
        divergences = np.array(values).reshape(orders.shape)
        return divergences if divergences.ndim else float(divergences)

    def implied_renyi(self, order: float) -> float:
        """Return the Rényi divergence of one order >= 1, as `renyi` does."""
        largest_loss = self.pure_epsilon
        # The loss is all but constant at a huge largest loss.
        is_degenerate = (
            _HUGE_LOSS < largest_loss < math.inf
            and self.loss_law.loss_scale > math.sqrt(largest_loss)
        )
        if order > _LARGEST_ORDER or is_degenerate:
            return largest_loss  # the divergence grows with the order, up to this
        if math.isinf(largest_loss) and order * self.loss_law.loss_scale > _HUGE_MOMENT:
            # What μ-GDP implies (Dong, Roth and Su 2022).
            return float(round_up(order * self.mu * self.mu / 2, RELATIVE_ERROR))

        s = order - 1.0
        log_integral = self.loss_table.log_moment_integral(s)
        if s == 0:
            return float(round_up(math.exp(log_integral), RELATIVE_ERROR))
        log_scaled = log_integral + math.log(s)
        if log_scaled < 30:
            log_moment = math.log1p(math.exp(log_scaled))
        else:
            log_moment = log_scaled + math.log1p(math.exp(-log_scaled))
        return min(float(round_up(log_moment / s, RELATIVE_ERROR)), self.pure_epsilon)

    @cached_property
    def rho(self) -> float:
        """The smallest ρ of zCDP: the supremum of D_α/α over all orders α > 1.

        Orders α = 1 + 2^x are tried with growing x until no larger one can exceed what
        was seen (`_orders_are_closed`); the best is then refined.
        """
        largest = self.implied_renyi(1.0)
        x = -6.0
        ratios: dict[float, float] = {}
        while True:
            order = 1 + 2.0**x
            ratios[x] = self.implied_renyi(order) / order
            largest = max(largest, ratios[x])
            if self._orders_are_closed(order, largest):
                break
            if x == 12:
                # μ-GDP implies μ²/2-zCDP: where the loss is all but Gaussian that is as
                # good, and no larger order need be tried.
                rho_of_mu = self.mu * self.mu / 2
                if rho_of_mu <= largest * (1 + 1e-6):
                    return float(round_up(rho_of_mu, RELATIVE_ERROR))
            x += 0.5

        best_x = max(ratios, key=ratios.__getitem__)
        refined = scipy.optimize.minimize_scalar(
            lambda x: -self.implied_renyi(1 + 2.0**x) / (1 + 2.0**x),
            bounds=(best_x - 0.5, best_x + 0.5),
            method="bounded",
        )
        return float(round_up(max(largest, -float(refined.fun)), RELATIVE_ERROR))

    def _orders_are_closed(self, order: float, rho: float) -> bool:
        """Say whether D_α/α <= ρ is proved for every order above the given one.

        For a bounded loss because D_α is at most the largest loss; else by the bound
        D_α/α <= v/2 + (log K/(α−1) + drift)/α, which falls as α grows.
        """
        if math.isfinite(self.pure_epsilon):
            return self.pure_epsilon <= rho * order
        tail = self._subgaussian_tail()
        limit = self._tail_mu**2 / 2
        bound = limit + (tail.log_k / (order - 1) + tail.drift) / order
        return bound <= max(rho, limit * (1 + 1e-10))

    @cached_property
    def hellinger_angle(self) -> float:
        """2·arccos∫√(p₁p₂), rounded up; 1 − ∫√(p₁p₂) = ½·∫₀^∞ e^{−t/2}·δ(t) dt."""
        table = self.loss_table
        log_integral = table.log_integral(
            lambda t: table.log_delta(t) - t / 2, growth=-0.5
        )
        distance_squared = min(math.exp(log_integral - _LOG_2), 1.0)
        angle = 4 * math.asin(math.sqrt(distance_squared / 2))
        return min(float(round_up(angle, RELATIVE_ERROR)), math.pi)

    # ---- what it implies in other definitions

    def implied_pure_epsilon(self) -> float:
        return self.pure_epsilon

    def implied_mu(self) -> float:
        return self.mu

    def implied_rho(self) -> float:
        return self.rho

    def implied_hellinger_angle(self) -> float:
        return self.hellinger_angle

    def implied_rao_distance(self) -> float:
        return self.rao

    # ---- what calibration asks

    @property
    def floor(self) -> "PrivacyProfile | None":
        """The profile that no scale of this noise goes below; None if δ falls to 0."""
        return None

    @property
    def extreme_splits(self) -> "list[PrivacyProfile]":
        """Profiles of pairs among which the worst pair often is.

        A calibration starts its search with them.
        """
        return [self]

    @property
    def quadrature_law(self) -> PrivacyLossLaw | None:
        """The law of the loss by a fixed quadrature: δ(ε) without a table."""
        return None

    @property
    def tabulated_mu(self) -> float | None:
        """A lower bound on `mu` without the proof about the tail, or None."""
        return None

    @property
    def delta_vanishes_at_finite_scale(self) -> bool:
        """Whether δ(ε) falls to 0 at a finite scale, Δ/ε: under Laplace noise."""
        return False

    @property
    def noise_name(self) -> str:
        """The name of the noise, for messages."""
        return "Gaussian"

    @property
    def space(self) -> str:
        """The space where the noise lives, in words."""
        return "this space"


# ---- μ from δ_μ(ε) = δ by Newton's method


def _newton_mu(
    eps: Array, mu: Array, step: Callable[[Array, Array, Array], Array]
) -> Array:
    """Improve μ by Newton steps until they are below 1e-13 of it.

    `step` takes μ, a = ε/μ − μ/2 and b = ε/μ + μ/2. A step never more than halves or
    doubles μ.
    """
    for _ in range(60):
        a = eps / mu - mu / 2
        b = eps / mu + mu / 2
        change = np.clip(step(mu, a, b), -mu / 2, mu)
        mu = mu + change
        if np.all(np.abs(change) <= 1e-13 * mu):
            break
    return np.asarray(mu)


def _mu_from_log_delta(eps: Array, log_delta: Array, start: float | None) -> Array:
    """Return the μ with log δ_μ(ε) = log δ.

    log δ_μ(ε) is increasing and concave in μ, so that Newton's method from below
    converges; ∂δ_μ/∂μ = φ(a), and δ_μ/φ(a) is a difference of Mills' ratios.
    """
    if start is None:
        mu = np.maximum(gdp_mu_below(eps, log_delta), 1e-305)
    else:
        mu = np.full_like(eps, start)

    def step(mu: Array, a: Array, b: Array) -> Array:
        """Return the Newton step in μ."""
        gap = log_delta - gdp_log_delta(mu, eps)
        return np.asarray(gap * _mills_difference(a, b))

    return _newton_mu(eps, mu, step)


def _mu_from_log_complement(eps: Array, log_rest: Array, start: float | None) -> Array:
    """Return the μ with log(1 − δ_μ(ε)) = `log_rest`, for δ near 1.

    1 − δ = Φ(a) + e^ε·Φ(−b) = φ(a)·(R(−a) + R(b)), R being Mills' ratio.
    """
    if start is None:
        z = scipy.special.ndtri_exp(np.minimum(log_rest, -1e-300))
        root = np.sqrt(z * z + 2 * eps)
        mu = np.where(z < 0, -z + root, 2 * eps / (np.abs(z) + root))
        mu = np.maximum(mu, 1e-305)
    else:
        mu = np.full_like(eps, start)

    def step(mu: Array, a: Array, b: Array) -> Array:
        """Return the Newton step in μ."""
        value = np.logaddexp(
            scipy.special.log_ndtr(a), eps + scipy.special.log_ndtr(-b)
        )
        return np.asarray((value - log_rest) * (_mills(-a) + _mills(b)))

    return _newton_mu(eps, mu, step)


def _mills(x: Array) -> Array:
    """Return Mills' ratio Φ(−x)/φ(x).

    Left of −35 it is held at its value there: only the sign of a Newton step matters.
    """
    argument = np.maximum(x, -35.0) / math.sqrt(2)
    return np.asarray(math.sqrt(math.pi / 2) * scipy.special.erfcx(argument))


def _mills_difference(a: Array, b: Array) -> Array:
    """Return R(a) − R(b) = δ_μ/φ(a), accurately enough for a Newton step.

    Where the ends are close it is ∫(1 − z·R(z)) dz by the midpoint rule.
    """
    z = (a + b) / 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = np.where(z > 100, 1 / (z * z), 1 - z * _mills(z))
        difference = _mills(a) - _mills(b)
        is_clear = difference > 1e-3 * _mills(a)
        return np.where(is_clear, difference, (b - a) * slope)
