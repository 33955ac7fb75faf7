"""From a bound on a Rényi divergence to (ε, δ): the best bound that the divergence alone implies.

The two-point joint range of Asoodeh et al. 2021 as a dual bound, of which every u in [0, 1) gives a sound one (u = 0 is
Canonne, Kamath and Steinke 2020), so that a search may stop early: docs/accounting.md. zCDP takes the best order as well.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from curvedp.numerics.directed_rounding import Array, bracket_sign_change, round_up

# each round shrinks the search fourfold: two cells to each side, for optima on a slanted ridge
_ROUNDS, _POINTS = 8, 17
_POWERS = range(
    16, 0, -1
)  # of n = 17, …, 2: the rest is below 2^-60 of a series up to ½
_INVERSE_FACTORIALS = [1 / math.factorial(n + 1) for n in _POWERS]
_MOST_SURPRISE = 745.0  # −log of the smallest float, rounded up


def renyi_epsilon(order: float, eps_renyi: float, delta: Any) -> Any:
    """The smallest ε with δ(ε) ≤ delta that D_order ≤ eps_renyi implies; arrays of delta in (0, 1)."""
    delta = np.asarray(delta, np.float64)
    eps = _epsilon(
        order - 1, order - 1, lambda alpha: np.full_like(alpha, eps_renyi), delta
    )
    eps = np.where(delta * order >= 1, np.minimum(eps, _corner(eps_renyi, delta)), eps)
    return eps if eps.ndim else float(eps)


def zcdp_epsilon(rho: float, delta: Any) -> Any:
    """The smallest ε with δ(ε) ≤ delta over all orders of ρ-zCDP, D_α ≤ ρα; arrays of delta in (0, 1)."""
    return all_orders_epsilon(rho, lambda alpha: rho * alpha, delta)


def all_orders_epsilon(rho: float, divergence: Callable[[Any], Any], delta: Any) -> Any:
    """The same for any bound D_α ≤ divergence(α) on all orders that grows like ρα."""
    delta = np.asarray(delta, np.float64)
    # The best order is near 1 + √(log(1/δ)/ρ) (Bun and Steinke 2016); two decades around it, and down to 1.
    guess = 0.5 * (np.log(np.maximum(-np.log(delta), 1e-3)) - np.log(rho))
    eps = _epsilon(
        np.exp(np.minimum(guess, 0.0) - 7.0), np.exp(guess + 3.0), divergence, delta
    )
    eps = np.minimum(
        eps, _corner(divergence(1 / np.maximum(delta, 1e-300 * max(rho, 1.0))), delta)
    )
    return eps if eps.ndim else float(eps)


def _corner(divergence: Any, delta: Array) -> Array:
    """ε = ε_R + log(1 − δ), for δ ≥ 1/α: there the touching point u is pressed against x = 0, and the best function of
    the form dx + λx^α has d = (αδ − 1)/(α − 1) ≥ 0, which gives this in closed form."""
    log_rest = np.log1p(-delta)
    eps: Array = np.maximum(
        round_up(divergence + log_rest, 1e-15) + 2.0**-51 * (divergence - log_rest + 1),
        0.0,
    )
    return eps


def _epsilon(low: Any, high: Any, divergence: Any, delta: Array) -> Array:
    """min over α − 1 in [low, high], or at that one order, and over u of log γ, by a grid that zooms onto its best point."""
    delta = delta[..., None, None]
    fixed = (
        1 + low if np.all(low == high) else None
    )  # as it was given: nothing is known of an order next to it
    low, high = (
        np.broadcast_to(np.log(end)[..., None, None], delta.shape)
        for end in (low, high)
    )
    best = np.full(delta.shape, np.inf)
    unit = np.linspace(0.0, 1.0, _POINTS)
    a_low, a_high = low, high
    w_low, w_high = np.full(delta.shape, -1.0), np.zeros(delta.shape)
    for turn in range(_ROUNDS):
        log_a = a_low + (a_high - a_low) * (
            unit[:, None] if fixed is None else unit[:1, None]
        )
        alpha = 1 + np.exp(log_a) if fixed is None else np.full_like(log_a, fixed)
        bound = divergence(alpha)
        if (
            turn == 0
        ):  # u = 1 − w with w down to well below √(ε_R/α), where the optimum lies for small divergences
            w_low = np.log(
                np.clip(
                    1e-2 * np.sqrt(np.min(bound / alpha, axis=(-2, -1), keepdims=True)),
                    1e-150,
                    1e-2,
                )
            )
        log_w = w_low + (w_high - w_low) * unit[None, :]
        value = _log_gamma(alpha, bound, log_w, delta)
        flat = value.reshape(*value.shape[:-2], -1)
        where = np.argmin(flat, axis=-1)[..., None, None]
        best = np.minimum(best, np.min(value, axis=(-2, -1), keepdims=True))
        row, column = where // _POINTS, where % _POINTS
        center, step = (
            a_low + (a_high - a_low) * row / (_POINTS - 1),
            (a_high - a_low) / (_POINTS - 1),
        )
        a_low, a_high = (
            np.maximum(center - 2 * step, low),
            np.minimum(center + 2 * step, high),
        )
        center, step = (
            w_low + (w_high - w_low) * column / (_POINTS - 1),
            (w_high - w_low) / (_POINTS - 1),
        )
        w_low, w_high = center - 2 * step, np.minimum(center + 2 * step, 0.0)
    eps: Array = np.maximum(best[..., 0, 0], 0.0)
    return eps


def _log_gamma(alpha: Any, bound: Any, log_w: Any, delta: Any) -> Any:
    """log max_x (x − λh_u(x)) for λ = δ/C(u), u = 1 − e^{log_w}; rounded up. All in logarithms: E may overflow."""
    a = alpha - 1  # exact: α is a float
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_u = np.where(
            log_w < 0, np.log1p(-np.exp(np.minimum(log_w, -1e-300))), -np.inf
        )
        # log C(u) = log(h_u(1) + E − 1)
        big = a * bound
        log_e1 = np.where(
            big > 1,
            big + np.log1p(-np.exp(-np.maximum(big, 1.0))),
            np.log(np.expm1(np.minimum(big, 1.0))),
        )
        log_c = np.logaddexp(_log_h_at_one(alpha, log_u), log_e1)
        # x^{α−1} = u^{α−1} + 1/λα at the maximum; λ rounded down makes γ larger: the safe side. Near order 1 the sum is 1
        # but for terms of size α − 1, which are kept.
        log_rest, log_power = log_c - np.log(delta) - np.log(alpha) + 1e-13, a * log_u
        near = np.log1p(np.expm1(log_power) + np.exp(np.minimum(log_rest, 0.0)))
        close = (log_power > -0.5) & (log_rest < -0.5)
        log_x = np.where(close, near, np.logaddexp(log_power, log_rest)) / a
        # x − λh_u(x) with λ = 1/(α(x^{α−1} − u^{α−1})); t = u/x < 1. h_u(x) = x^α(1 − αt^{α−1} + (α−1)t^α).
        log_t = np.where(np.isinf(log_u), -np.inf, log_u - log_x)
        power, drop = np.exp(a * log_t), -np.expm1(a * log_t)  # t^{α−1}, 1 − t^{α−1}
        # 1 − αt^{α−1} + (α−1)t^α = (1 − t^{α−1}) − (α−1)t^{α−1}(1 − t)
        share = (1 - a * power * -np.expm1(log_t) / drop) / alpha
        gamma = log_x + np.log1p(-share)
    # Rounding: log x carries a relative error that |log x| multiplies.
    gamma = gamma + 4e-15 * (np.abs(log_x) + 1)
    return np.where(np.isnan(gamma), np.inf, gamma)


def _log_h_at_one(alpha: Any, log_u: Any) -> Any:
    """log of h_u(1) = 1 − αu^{α−1} + (α−1)u^α, which is about α(α−1)(1−u)²/2 near u = 1, where the terms cancel."""
    a, y = alpha - 1, -log_u
    direct = -np.expm1(-a * y) - a * np.exp(-a * y) * -np.expm1(-y)
    # e^{−αy}·Σ_{n≥2} (α^n − α) yⁿ/n! = u^α·k(1/u), k(z) = z^α − αz + α − 1: positive terms (αy)ⁿ(1 − α^{1−n})/n!
    small, orders = np.where(alpha * y < 0.5, alpha * y, 0.0), np.log1p(a)
    series = np.zeros_like(small)
    for share, coefficient in zip(
        np.expm1(-np.multiply.outer(_POWERS, orders)), _INVERSE_FACTORIALS, strict=True
    ):
        series *= small
        series -= coefficient * share
    return np.log(
        np.where(alpha * y < 0.5, np.exp(-small) * small * small * series, direct)
    )


class EpsilonFirst:
    """A definition whose ε(δ) is the explicit side."""

    _epsilon: Callable[[Array], Any]

    def _delta(self, eps: Array) -> Any:
        """The smallest δ with ε(δ) ≤ eps as evaluated, but for 2^-48 of its logarithm; 0 and ∞ among the eps."""

        @np.errstate(
            over="ignore", invalid="ignore"
        )  # above the largest float is ∞, and ∞ − ∞ is not above zero
        def spare(surprise: Array) -> Any:
            """Above zero where ε(δ) ≤ eps, −log δ = surprise."""
            return np.nextafter(eps, np.inf) - self._epsilon(
                np.clip(np.exp(-surprise), 5e-324, 1 - 2.0**-53)
            )

        most = np.full_like(eps, _MOST_SURPRISE)
        holds, _ = bracket_sign_change(spare, np.zeros_like(eps), most)
        return np.where(
            eps == np.inf, 0.0, np.where(spare(most) > 0, 5e-324, np.exp(-holds))
        )

    def grid_delta(self, eps: Array) -> Array:
        """δ by chords in e^ε between points (ε(δ), δ). Chords of points above a convex curve are above it."""
        known, delta = _chord_points(self)
        right = np.clip(np.searchsorted(known, eps, side="left"), 1, len(known) - 1)
        with np.errstate(
            over="ignore", invalid="ignore", divide="ignore"
        ):  # known values may coincide
            share = np.expm1(np.minimum(eps - known[right - 1], 700.0)) / np.expm1(
                known[right] - known[right - 1]
            )
        share = np.clip(np.where(np.isnan(share), 0.0, share), 0.0, 1.0)
        return np.minimum(  # type: ignore[no-any-return]  # an array
            round_up(delta[right - 1] * (1 - share) + delta[right] * share, 1e-15), 1.0
        )

    def _curve_points(self) -> tuple[Array, Array]:
        """Points with ε small enough for e^ε."""
        delta = np.concatenate(
            [np.geomspace(1e-12, 0.05, 100), np.linspace(0.05, 0.999, 200)]
        )
        eps = np.asarray(self._epsilon(delta), np.float64)
        keep = eps < 700
        return np.append(eps[keep], 0.0), np.append(delta[keep], 1.0)


@lru_cache(maxsize=32)
def _chord_points(guarantee: EpsilonFirst) -> tuple[Array, Array]:
    """Points (ε(δ), δ), ε increasing from 0."""
    delta = np.concatenate(
        [np.geomspace(1e-45, 1e-3, 700), np.linspace(1e-3, 1 - 1e-6, 1200)[1:], [1.0]]
    )
    known = np.append(
        guarantee._epsilon(delta[:-1]), 0.0
    )  # falls from the first on; equal values at the end are all 0
    first = len(known) - int(np.searchsorted(known[::-1], 0.0, side="right"))
    return known[: first + 1][::-1], delta[: first + 1][::-1]
