"""The whole privacy profile of a release: δ(ε), ε(δ), μ, the trade-off curve, Rényi orders and the Hellinger angle.

A `PrivacyProfile` holds the law of the privacy loss of the worst pair of neighbors (`LossTails`); every number below
is an integral of its tails (`_loss_table`). The theory is in docs/exact-profiles.md.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from curvedp import _validate
from curvedp.errors import NotResolved, ParameterError
from curvedp.numerics.directed_rounding import Array, bracket_sign_change
from curvedp.numerics.directed_rounding import round_up as _up
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.guarantees.gaussian import gdp_log_delta, gdp_mu_below
from curvedp.privacy.loss.table import PrivacyLossLaw, TabulatedLossLaw

RELATIVE_ERROR = 1e-9  # of δ, μ and the Rényi divergences, which are rounded up by it; measured: below 1e-11
_LOG_2 = math.log(2.0)
_LARGEST_ORDER = 1e150
_HUGE_MOMENT = 1e6  # beyond, the logarithm of a moment has too few digits to find where the integral ends
_BOUNDS = {
    "pure": "pure_epsilon",
    "gdp": "mu",
    "zcdp": "rho",
    "angle": "hellinger_angle",
    "rao": "rao",
}
_HUGE_LOSS = 1e10  # beyond, an integral of it keeps less than RELATIVE_ERROR


@dataclass(frozen=True)
class PrivacyProfile(Guarantee):
    """Everything a release promises, from the exact law of its privacy loss.

    *Guarantees*: `delta`, `mu`, `renyi`, `rao` and `hellinger_angle` are never below the truth by more than a float's
    rounding, and above it by at most 3e-9 of it; `epsilon` is on the private side; `tradeoff` is never above the truth.

    Parameters
    ----------
    adjacency : str
        As of every `Guarantee`.

    Examples
    --------
    >>> from curvedp import geometry, mechanisms
    >>> mechanisms.GaussianMechanism(geometry.Sphere(2), 0.1, 0.2).profile.mu <= 0.5
    True
    """

    label = "exact"

    @property
    def tails(self) -> PrivacyLossLaw:
        """The law of the privacy loss at the worst pair of neighbors, where there is one such pair and its law is known."""
        raise NotImplementedError(
            f"{type(self).__name__} has no one law of the loss; ask for delta, epsilon or tradeoff"
        )

    @property
    @abstractmethod
    def rao(self) -> float:
        """The parametric Rao distance θ of the worst pair of neighbors: sensitivity·√Fisher information."""

    @property
    def pure_epsilon(self) -> float:
        """sup L, rounded up: the smallest ε with δ(ε) = 0; infinite if there is none."""
        return (
            up(self.tails.max_loss, 2e-15)
            if math.isfinite(self.tails.max_loss)
            else math.inf
        )

    @property
    def _cap(self) -> float:
        """From where on δ is 0, if the loss is bounded."""
        return self.pure_epsilon

    @cached_property
    def _table(self) -> TabulatedLossLaw:
        return TabulatedLossLaw(self.tails)

    def _delta(self, eps: Array) -> Array:
        table = self._table
        # beyond the end of an unbounded loss δ underflows; next to a largest loss δ is held at its value just below
        last = math.nextafter(table.T, 0.0) if math.isfinite(table.T) else table.end
        inside = np.minimum(eps, last)
        with np.errstate(under="ignore"):
            delta = np.asarray(np.exp(table.log_delta(inside)))
        delta = np.array(
            np.minimum(delta * (1 + RELATIVE_ERROR + table.cap_noise(inside)), 1.0)
        )
        near_one = (
            delta > 0.5
        )  # rounded up in terms of 1 − δ, which has the digits there
        if np.any(near_one):
            rest = np.exp(table.log_one_minus_delta(np.asarray(inside)[near_one]))
            delta[near_one] = np.minimum(
                np.nextafter(1 - rest * (1 - RELATIVE_ERROR), 2.0), 1.0
            )
        beyond = eps >= self._cap if math.isfinite(table.T) else eps > last
        return np.where(beyond, 0.0, np.asarray(delta))

    @cached_property
    def mu(self) -> float:
        """The smallest μ for which the release is μ-GDP: the supremum over every ε >= 0 of the μ with δ_μ(ε) = δ(ε).

        The grid covers [0, T) if the loss is bounded by T. Otherwise it is doubled until the tail is closed by a bound
        (`closes`): beyond the grid, δ(ε) <= δ_μ(ε) is then a theorem, not an observation. It stops short of the end of
        the table, where δ is an integral over what the table is only continued by.
        """
        table, best, doubled = self._table, self._mu_in_table, 0
        while math.isinf(table.T):
            stop, floor = 0.75 * table.end, max(best, self._tail_mu * (1 + 1e-10))
            times = next(
                (n for n in range(200 - doubled) if self._closes(floor, stop * 2.0**n)),
                None,
            )
            if times is None:
                raise NotResolved("the tail of the privacy loss could not be closed")
            if times == 0:
                return up(floor, 2 * RELATIVE_ERROR)
            table.extend(times)
            best, doubled = (
                max(best, self._mu_on(self._known(stop / 2))),
                doubled + times,
            )
        # twice, so that δ_μ stays above the rounded-up δ: ∂log δ/∂log μ > ½
        return up(best, 2 * RELATIVE_ERROR)

    @cached_property
    def _mu_in_table(self) -> float:
        """`mu`, of the losses in the table as it was built."""
        return self._mu_on(self._known(0.0))

    def _known(self, start: float) -> Array:
        """Losses of the table from here on, all of them if it ends at the largest."""
        grid, stop = self._table.grid(), 0.75 * self._table.end
        return (
            grid
            if math.isfinite(self._table.T)
            else np.append(grid[(grid >= start) & (grid < stop)], stop)
        )

    @property
    def _tail_mu(self) -> float:
        """lim μ_ε as ε grows, where the loss is unbounded."""
        return 0.0

    def _normal_tail(self) -> tuple[float, float]:
        """(log K >= 0, a), where the loss is unbounded: log E₁[e^{λL}] <= log K + λ(a + v/2) + λ²v/2, v = `_tail_mu`²."""
        raise NotImplementedError

    def _closes(self, mu: float, eps: float) -> bool:
        """Whether δ(ε′) <= δ_μ(ε′) is proved for every ε′ >= ε, where the loss is unbounded (docs/exact-profiles.md,
        Tail). Chernoff: δ(ε) <= K·e^{−z²/2}, z = (ε − a − v/2)/√v; and δ_μ(ε) >= φ(x)·μ/(y + √2)²."""
        (log_k, a), limit = self._normal_tail(), self._tail_mu
        z, x, y = (eps - a) / limit - limit / 2, eps / mu - mu / 2, eps / mu + mu / 2
        if not (z > 0 and x > 0 and mu > limit):
            return False
        # log of the quotient of the two, and a bound on its derivative
        excess = log_k + 0.5 * math.log(2 * math.pi) - (z - x) * (z + x) / 2
        excess += 2 * math.log(y + math.sqrt(2)) - math.log(mu)
        return excess <= 0 and z / limit >= x / mu + 2 / (mu * (y + math.sqrt(2)))

    def _mu_on(self, grid: Array) -> float:
        """max μ_ε over the span of a grid: every local maximum on it is closed in on."""
        mu = self._mu_at(grid)
        best = float(mu.max())
        peak = np.concatenate([[True], mu[1:] >= mu[:-1]]) & np.concatenate(
            [mu[:-1] >= mu[1:], [True]]
        )
        at = np.nonzero(peak & (mu >= 0.98 * best))[0]
        low, high = grid[np.maximum(at - 1, 0)], grid[np.minimum(at + 1, len(grid) - 1)]
        for _ in range(8):
            fine = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 9)
            values = self._mu_at(fine, best)
            last, best = best, max(best, float(values.max()))
            i, row = np.argmax(values, axis=1), np.arange(len(at))
            low, high = fine[row, np.maximum(i - 1, 0)], fine[row, np.minimum(i + 1, 8)]
            if best <= last * (
                1 + 1e-11
            ):  # the next round would gain a sixteenth of that
                break
        return best

    def mu_at(self, eps: Array) -> Array:
        """The μ with δ_μ(ε) = δ(ε), 0 where δ is; beyond the table of an unbounded loss, the smallest float's."""
        last = self._table.T if math.isfinite(self._table.T) else self._table.end
        return np.where(eps < self._table.T, self._mu_at(np.minimum(eps, last)), 0.0)

    def _mu_at(self, eps: Array, start: float | None = None) -> Array:
        """μ_ε, from whichever of log δ and log(1 − δ) has the digits."""
        log_delta = self._table.log_delta(eps)
        near_one = log_delta > -_LOG_2
        out = np.zeros_like(eps)
        some = ~near_one & (log_delta > -math.inf)
        out[some] = _mu_from_log_delta(eps[some], log_delta[some], start)
        if np.any(near_one):
            out[near_one] = _mu_from_log_rest(
                eps[near_one], self._table.log_one_minus_delta(eps[near_one]), start
            )
        return out

    def _tradeoff(self, alpha: Array) -> Array:
        flat = np.asarray(alpha, np.float64).ravel()
        log_beta, log_rest = self._log_tradeoff(flat)
        with np.errstate(under="ignore"):
            beta = np.where(
                log_beta < -_LOG_2,
                np.exp(log_beta),
                np.nextafter(-np.expm1(log_rest), 0.0),
            )
        beta = np.where(
            flat == 0.0, 1.0, np.where(flat == 1.0, 0.0, np.minimum(beta, 1 - flat))
        )
        return beta.reshape(np.shape(alpha))

    def mu_of_tradeoff(self, alpha: Array) -> Array:
        """The μ whose curve passes through (α, β(α)), 0 < α < 1, rounded up: −Φ⁻¹(α) − Φ⁻¹(β)."""
        log_beta, log_rest = self._log_tradeoff(alpha)
        z = np.where(
            log_beta < -_LOG_2,
            scipy.special.ndtri_exp(log_beta),
            -scipy.special.ndtri_exp(log_rest),
        )
        return np.asarray(np.maximum(-scipy.special.ndtri(alpha) - z, 0.0))

    def _log_tradeoff(self, flat: Array) -> tuple[Array, Array]:
        """(log β, log(1 − β)), each with its own digits, β rounded down. Neyman–Pearson: the test L > t has type I error
        P₂(L > t) and type II error P₁(L <= t). The curve is its own inverse, since an isometry swaps the pair. t is taken
        where the answer is smaller."""
        table = self._table
        with np.errstate(divide="ignore"):
            log_alpha, log_rest_of_alpha = np.log(flat), np.log1p(-flat)
        middle = table.log_second(np.zeros(1))[
            0
        ]  # P₂(L > 0) = P₁(L <= 0): the fixed point of the curve
        left = log_alpha <= middle

        def short(w: Array) -> Array:
            """How far P₁(L <= t) is below α, by the tail that has the digits: not above zero where it is reached."""
            t = table.t_of(w)
            return np.where(
                flat < 0.5,
                log_alpha - table.log_lower(t),
                table.log_upper(t) - log_rest_of_alpha,
            )

        def early(w: Array) -> Array:
            """left: P₂(L > t) falls with t and must stay above α; right: P₁(L <= t) grows and must end above α."""
            return np.where(left, table.log_second(table.t_of(w)) - log_alpha, short(w))

        low, high = bracket_sign_change(
            early, np.zeros_like(flat), np.full_like(flat, table.panels.end)
        )
        t = table.t_of(np.where(left, low, high))
        log_beta = np.where(left, table.log_lower(t), table.log_second(t)) + math.log1p(
            -RELATIVE_ERROR
        )
        # an atom of the loss at its maximum can keep P₁(L <= t) below α up to the end: no such test has an error that small
        log_beta = np.where(left | (short(high) <= 0), log_beta, -math.inf)
        log_rest = np.where(
            left,
            table.log_upper(t) + math.log1p(RELATIVE_ERROR),
            _log_complement(log_beta),
        )
        if math.isfinite(
            table.T
        ):  # atoms of the loss at ±T are randomized: there the curve is the lines of (T, 0)-DP
            cap = (
                self.pure_epsilon * (1 + 4e-16) + 4e-16
            )  # logarithms are rounded by up to 2e-16 of themselves
            steep = np.minimum(log_alpha * (1 - 4e-16) + cap, 0.0)
            shallow = log_rest_of_alpha * (1 + 4e-16) - cap
            log_beta = np.maximum(log_beta, np.maximum(_log_complement(steep), shallow))
            log_rest = np.minimum(log_rest, np.minimum(steep, _log_complement(shallow)))
        return log_beta, np.minimum(log_rest, 0.0)

    def renyi(self, order: Any) -> Any:
        """The Rényi divergence of the given order (>= 1; 1 is Kullback–Leibler, inf the largest loss), rounded up. Of an
        unbounded loss at order·θ > 10⁶ it is order·μ²/2, an upper bound. Otherwise log E₁[e^{sL}]/s, s = order − 1;
        E₁[e^{sL}] = 1 + s·∫₀^∞ (S(t)(e^{st} − e^{−(s+1)t}) + e^{−(s+1)t}δ(t)) dt."""
        orders = _validate.array("order", order)
        if not np.all(orders >= 1):
            raise ParameterError("must be >= 1", parameter="order", value=order)
        out = np.array([self.renyi_bound(float(a)) for a in orders.ravel()]).reshape(
            orders.shape
        )
        return out if out.ndim else float(out)

    def renyi_bound(self, order: float) -> float:
        largest = self.pure_epsilon
        capped = _HUGE_LOSS < largest < math.inf and self.tails.loss_scale > math.sqrt(
            largest
        )  # the loss is all but T
        if order > _LARGEST_ORDER or capped:
            return (
                largest  # the divergence grows with the order, up to the largest loss
            )
        if math.isinf(largest) and order * self.tails.loss_scale > _HUGE_MOMENT:
            return up(
                order * self.mu * self.mu / 2, RELATIVE_ERROR
            )  # what μ-GDP implies (Dong, Roth & Su 2022)
        s = order - 1.0
        log_j = self._table.log_moment(s)
        if s == 0:
            return up(math.exp(log_j), RELATIVE_ERROR)
        log_sj = log_j + math.log(s)
        value = (
            math.log1p(math.exp(log_sj))
            if log_sj < 30
            else log_sj + math.log1p(math.exp(-log_sj))
        )
        return min(up(value / s, RELATIVE_ERROR), self.pure_epsilon)

    @cached_property
    def rho(self) -> float:
        """The smallest ρ of zCDP: the supremum over every order α > 1 of the Rényi divergence divided by α, rounded up."""
        best, x = self.renyi_bound(1.0), -6.0  # x = log₂(α − 1)
        values: dict[float, float] = {}
        while True:
            values[x] = self.renyi_bound(1 + 2.0**x) / (1 + 2.0**x)
            best = max(best, values[x])
            if self._order_closes(1 + 2.0**x, best):
                break
            # μ-GDP implies μ²/2-zCDP: where the loss is all but Gaussian that is as good, and no order need be tried
            if x == 12 and (implied := self.mu * self.mu / 2) <= best * (1 + 1e-6):
                return up(implied, RELATIVE_ERROR)
            x += 0.5
        top = max(values, key=values.__getitem__)
        found = scipy.optimize.minimize_scalar(
            lambda x: -self.renyi_bound(1 + 2.0**x) / (1 + 2.0**x),
            bounds=(top - 0.5, top + 0.5),
            method="bounded",
        )
        return up(max(best, -float(found.fun)), RELATIVE_ERROR)

    def _order_closes(self, order: float, rho: float) -> bool:
        """Whether no larger order can exceed ρ: of a bounded loss since no divergence exceeds the largest loss."""
        if math.isfinite(self.pure_epsilon):
            return self.pure_epsilon <= rho * order
        (log_k, drift), limit = self._normal_tail(), self._tail_mu**2 / 2
        # falls as the order grows, since log K >= 0
        return limit + (log_k / (order - 1) + drift) / order <= max(
            rho, limit * (1 + 1e-10)
        )

    def bound(self, of: str) -> float:
        return getattr(self, _BOUNDS[of]) if of in _BOUNDS else super().bound(of)

    @property
    def floor(self) -> "PrivacyProfile | None":
        """The profile that no scale of this law goes below, if there is one above perfect privacy."""
        return None

    @property
    def corners(self) -> "list[PrivacyProfile]":
        """Profiles of pairs of neighbors among which the worst one often is: where a calibration starts its search."""
        return [self]

    @property
    def sketched(self) -> Any:
        """The law of the loss by a fixed quadrature, which says δ(ε) without a table; None if none does."""
        return None

    @property
    def space(self) -> str:
        """Where the law lives, in words."""
        return "this space"

    @cached_property
    def hellinger_angle(self) -> float:
        """2·arccos ∫√(p₁p₂), rounded up. 1 − ∫√(p₁p₂) = ½∫₀^∞ e^{−t/2} δ(t) dt."""
        table = self._table
        log_gap = (
            table.log_integral(lambda t: table.log_delta(t) - t / 2, growth=-0.5)
            - _LOG_2
        )
        return min(
            up(
                4 * math.asin(math.sqrt(min(math.exp(log_gap), 1.0) / 2)),
                RELATIVE_ERROR,
            ),
            math.pi,
        )


def _log_complement(x: Array) -> Array:
    """log(1 − e^x)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(x)))


def up(x: float, relative: float = 0.0) -> float:
    """x rounded up by a relative amount."""
    return float(_up(x, relative))


def _newton(
    eps: Array, mu: Array, step: Callable[[Array, Array, Array], Array]
) -> Array:
    """μ by Newton steps, which are functions of μ, ε/μ − μ/2 and ε/μ + μ/2."""
    for _ in range(60):
        change = np.clip(step(mu, eps / mu - mu / 2, eps / mu + mu / 2), -mu / 2, mu)
        mu = mu + change
        if np.all(np.abs(change) <= 1e-13 * mu):
            break
    return np.asarray(mu)


def _mu_from_log_delta(eps: Array, log_delta: Array, start: float | None) -> Array:
    """Newton on log δ_μ(ε), increasing and concave in μ, from below; ∂δ_μ/∂μ = φ(ε/μ − μ/2)."""
    mu = (
        np.maximum(gdp_mu_below(eps, log_delta), 1e-305)
        if start is None
        else np.full_like(eps, start)
    )
    return _newton(
        eps,
        mu,
        lambda mu, a, b: (log_delta - gdp_log_delta(mu, eps)) * _mills_difference(a, b),
    )


def _mu_from_log_rest(eps: Array, log_rest: Array, start: float | None) -> Array:
    """Newton on log(1 − δ_μ(ε)) = log(Φ(a) + e^ε Φ(−b)), for δ near 1; 1 − δ = φ(a)·(R(−a) + R(b)), R Mills' ratio."""
    z = scipy.special.ndtri_exp(np.minimum(log_rest, -1e-300))
    mu = np.where(
        z < 0,
        -z + np.sqrt(z * z + 2 * eps),
        2 * eps / (np.abs(z) + np.sqrt(z * z + 2 * eps)),
    )

    def step(mu: Array, a: Array, b: Array) -> Array:
        value = np.logaddexp(
            scipy.special.log_ndtr(a), eps + scipy.special.log_ndtr(-b)
        )
        return np.asarray((value - log_rest) * (_mills(-a) + _mills(b)))

    return _newton(
        eps, np.maximum(mu, 1e-305) if start is None else np.full_like(eps, start), step
    )


def _mills(x: Array) -> Array:
    """Mills' ratio Φ(−x)/φ(x); held at its value at −35 to the left, where only the sign of a Newton step matters."""
    return np.asarray(
        math.sqrt(math.pi / 2)
        * scipy.special.erfcx(np.maximum(x, -35.0) / math.sqrt(2))
    )


def _mills_difference(a: Array, b: Array) -> Array:
    """R(a) − R(b) = δ_μ/φ(a), well enough for a Newton step: ∫(1 − zR(z)) dz at the midpoint where the ends are close."""
    z = (a + b) / 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = np.where(z > 100, 1 / (z * z), 1 - z * _mills(z))
        difference = _mills(a) - _mills(b)
        return np.where(difference > 1e-3 * _mills(a), difference, (b - a) * slope)
