"""From a bound on a Rényi divergence to (ε, δ): the best that the divergence implies.

Theorem (docs/accounting.md, Theorem C1; Asoodeh et al. 2021 as a dual bound). Let
x = dP/dQ, D_α(P‖Q) <= ε_R and u in [0, 1). The function

    h_u(x) = x^α − α·u^{α−1}·x + (α−1)·u^α >= 0

is convex, touches 0 at x = u, and E_Q h_u(x) <= C(u) = h_u(1) + e^{(α−1)ε_R} − 1. So
with λ = δ/C(u) and γ = max_x (x − λ·h_u(x)),

    (x − γ)₊ <= λ·h_u(x)      and      E_Q (x − γ)₊ <= δ:

P and Q are (log γ, δ)-close. Every u gives a sound γ, so that a search may stop early;
u = 0 is Canonne, Kamath and Steinke (2020). zCDP takes the best order as well.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from curvedp.numerics.directed_rounding import Array, bracket_sign_change, round_up

# The search for the best order and u: rounds of a grid with this many points an axis.
# Each round shrinks the grid fourfold, two cells to each side of the best point,
# because optima may lie on a slanted ridge.
_N_ROUNDS = 8
_N_POINTS = 17

# The powers n = 17, …, 2 of the series of h_u(1): the terms beyond are below 2^-60 of
# it.
_SERIES_POWERS = range(16, 0, -1)
_INVERSE_FACTORIALS = [1 / math.factorial(n + 1) for n in _SERIES_POWERS]

_LARGEST_SURPRISE = 745.0  # −log of the smallest float, rounded up


def renyi_epsilon(order: float, eps_renyi: float, delta: Any) -> Any:
    """Return the smallest ε such that D_α <= ε_R implies (ε, δ)-DP; rounded up.

    Parameters
    ----------
    order, eps_renyi : float
        α > 1 and the bound ε_R.
    delta : float or array
        δ in (0, 1).
    """
    delta = np.asarray(delta, np.float64)
    eps = _best_epsilon(
        order - 1, order - 1, lambda alpha: np.full_like(alpha, eps_renyi), delta
    )
    corner = np.minimum(eps, _corner_epsilon(eps_renyi, delta))
    eps = np.where(delta * order >= 1, corner, eps)
    return eps if eps.ndim else float(eps)


def zcdp_epsilon(rho: float, delta: Any) -> Any:
    """Return the smallest ε such that ρ-zCDP implies (ε, δ)-DP; rounded up.

    ρ-zCDP says D_α <= ρα at all orders α > 1. `delta` is a float or an array in (0, 1).
    """
    return all_orders_epsilon(rho, lambda alpha: rho * alpha, delta)


def all_orders_epsilon(rho: float, divergence: Callable[[Any], Any], delta: Any) -> Any:
    """Return the smallest ε such that D_α <= divergence(α) at all α implies (ε, δ)-DP.

    Parameters
    ----------
    rho : float
        The growth of the bound: divergence(α) is about ρα for large α.
    divergence : callable
        A bound on D_α at every order α > 1, elementwise.
    delta : float or array
        δ in (0, 1).
    """
    delta = np.asarray(delta, np.float64)

    # The best order is near 1 + √(log(1/δ)/ρ) (Bun and Steinke 2016). The search covers
    # two decades around it and goes down to 1.
    log_guess = 0.5 * (np.log(np.maximum(-np.log(delta), 1e-3)) - np.log(rho))
    smallest = np.exp(np.minimum(log_guess, 0.0) - 7.0)
    largest = np.exp(log_guess + 3.0)
    eps = _best_epsilon(smallest, largest, divergence, delta)

    corner_order = 1 / np.maximum(delta, 1e-300 * max(rho, 1.0))
    eps = np.minimum(eps, _corner_epsilon(divergence(corner_order), delta))
    return eps if eps.ndim else float(eps)


def _corner_epsilon(divergence: Any, delta: Array) -> Array:
    """Return ε = ε_R + log(1 − δ), the best bound at an order α >= 1/δ; rounded up.

    There the touching point u is pressed against x = 0, and the best function of the
    form d·x + λ·x^α has d = (αδ − 1)/(α − 1) >= 0, which gives this closed form.
    """
    log_rest = np.log1p(-delta)
    rounding = 2.0**-51 * (divergence - log_rest + 1)
    eps = round_up(divergence + log_rest, 1e-15) + rounding
    return np.asarray(np.maximum(eps, 0.0))


def _best_epsilon(low: Any, high: Any, divergence: Any, delta: Array) -> Array:
    """Minimize log γ over the order and over u, by a grid that zooms onto its minimum.

    Parameters
    ----------
    low, high : float or array
        The range of α − 1; one order only where they are equal.
    divergence : callable
        The bound ε_R at orders α.
    delta : array
        δ in (0, 1).

    Returns
    -------
    array
        ε = max(min log γ, 0), one for each δ.
    """
    # The last two axes are the grid: rows are orders, columns are values of w = 1 − u.
    delta = delta[..., None, None]
    has_one_order = bool(np.all(low == high))
    # The order as it was given: nothing is known of an order next to it.
    only_order = 1 + low

    lowest_a = np.broadcast_to(np.log(low)[..., None, None], delta.shape)
    highest_a = np.broadcast_to(np.log(high)[..., None, None], delta.shape)
    a_low, a_high = lowest_a, highest_a
    w_low, w_high = np.full(delta.shape, -1.0), np.zeros(delta.shape)
    fractions = np.linspace(0.0, 1.0, _N_POINTS)
    smallest = np.full(delta.shape, np.inf)

    for round_number in range(_N_ROUNDS):
        if has_one_order:
            log_a = a_low + (a_high - a_low) * fractions[:1, None]
            alpha = np.full_like(log_a, only_order)
        else:
            log_a = a_low + (a_high - a_low) * fractions[:, None]
            alpha = 1 + np.exp(log_a)
        renyi_bound = divergence(alpha)

        if round_number == 0:
            # For small divergences the best w = 1 − u is near √(ε_R/α): start below it.
            ratio = np.min(renyi_bound / alpha, axis=(-2, -1), keepdims=True)
            w_low = np.log(np.clip(1e-2 * np.sqrt(ratio), 1e-150, 1e-2))
        log_w = w_low + (w_high - w_low) * fractions[None, :]

        log_gamma = _log_gamma(alpha, renyi_bound, log_w, delta)
        smallest = np.minimum(smallest, np.min(log_gamma, axis=(-2, -1), keepdims=True))

        flat = log_gamma.reshape(*log_gamma.shape[:-2], -1)
        best = np.argmin(flat, axis=-1)[..., None, None]
        row = best // _N_POINTS
        column = best % _N_POINTS

        step = (a_high - a_low) / (_N_POINTS - 1)
        center = a_low + (a_high - a_low) * row / (_N_POINTS - 1)
        a_low = np.maximum(center - 2 * step, lowest_a)
        a_high = np.minimum(center + 2 * step, highest_a)

        step = (w_high - w_low) / (_N_POINTS - 1)
        center = w_low + (w_high - w_low) * column / (_N_POINTS - 1)
        w_low = center - 2 * step
        w_high = np.minimum(center + 2 * step, 0.0)

    return np.asarray(np.maximum(smallest[..., 0, 0], 0.0))


def _log_gamma(alpha: Any, renyi_bound: Any, log_w: Any, delta: Any) -> Any:
    """Return log γ = log max_x (x − λ·h_u(x)) for u = 1 − e^{log_w}; rounded up.

    λ = δ/C(u), see the module's docstring. All is computed in logarithms, because
    e^{(α−1)ε_R} may overflow. The maximum is at x* with x*^{α−1} = u^{α−1} + 1/(λα),
    and there, with t = u/x*,

        λ·h_u(x*)/x* = (1 − (α−1)·t^{α−1}·(1 − t)/(1 − t^{α−1}))/α.

    Parameters
    ----------
    alpha, renyi_bound : array
        The order α and the bound ε_R on D_α.
    log_w, delta : array
        log(1 − u) and δ.
    """
    a = alpha - 1  # exact: α is a float
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        w = np.exp(np.minimum(log_w, -1e-300))
        log_u = np.where(log_w < 0, np.log1p(-w), -np.inf)

        log_c = np.logaddexp(_log_h_at_one(alpha, log_u), _log_expm1(a * renyi_bound))
        # λ is rounded down, which makes γ larger: the safe side.
        log_inverse_lambda_alpha = log_c - np.log(delta) - np.log(alpha) + 1e-13
        log_x = _log_touching_point(a, log_u, log_inverse_lambda_alpha)

        log_t = np.where(np.isinf(log_u), -np.inf, log_u - log_x)
        t_power = np.exp(a * log_t)
        one_minus_t_power = -np.expm1(a * log_t)
        one_minus_t = -np.expm1(log_t)
        penalty = (1 - a * t_power * one_minus_t / one_minus_t_power) / alpha
        log_gamma = log_x + np.log1p(-penalty)

    # log x* carries a relative error, which |log x*| multiplies.
    log_gamma = log_gamma + 4e-15 * (np.abs(log_x) + 1)
    return np.where(np.isnan(log_gamma), np.inf, log_gamma)


def _log_expm1(x: Any) -> Any:
    """Return log(e^x − 1) for x >= 0, also where e^x overflows."""
    for_large = x + np.log1p(-np.exp(-np.maximum(x, 1.0)))
    for_small = np.log(np.expm1(np.minimum(x, 1.0)))
    return np.where(x > 1, for_large, for_small)


def _log_touching_point(a: Any, log_u: Any, log_inverse_lambda_alpha: Any) -> Any:
    """Return log x* with x*^a = u^a + 1/(λα), a = α − 1.

    Near order 1 the sum is 1 but for terms of size a, which are kept.
    """
    log_u_power = a * log_u
    is_near_one = (log_u_power > -0.5) & (log_inverse_lambda_alpha < -0.5)
    small_term = np.exp(np.minimum(log_inverse_lambda_alpha, 0.0))
    near_one = np.log1p(np.expm1(log_u_power) + small_term)
    elsewhere = np.logaddexp(log_u_power, log_inverse_lambda_alpha)
    return np.where(is_near_one, near_one, elsewhere) / a


def _log_h_at_one(alpha: Any, log_u: Any) -> Any:
    """Return log h_u(1), h_u(1) = 1 − α·u^{α−1} + (α−1)·u^α.

    Near u = 1 the terms cancel: h_u(1) is about α(α−1)(1−u)²/2. With y = −log u it is
    e^{−αy}·Σ_{n>=2} (αy)ⁿ·(1 − α^{1−n})/n!, whose terms are positive.
    """
    a = alpha - 1
    y = -log_u
    direct = -np.expm1(-a * y) - a * np.exp(-a * y) * -np.expm1(-y)

    is_small = alpha * y < 0.5
    small = np.where(is_small, alpha * y, 0.0)
    minus_shares = np.expm1(-np.multiply.outer(_SERIES_POWERS, np.log1p(a)))
    series = np.zeros_like(small)
    for minus_share, coefficient in zip(minus_shares, _INVERSE_FACTORIALS, strict=True):
        series *= small
        series -= coefficient * minus_share

    by_series = np.exp(-small) * small * small * series
    return np.log(np.where(is_small, by_series, direct))


class EpsilonFirst:
    """A definition of privacy that computes ε(δ) directly, and δ(ε) by inverting it.

    A class derived from this one and from `Guarantee` gives `_epsilon`.
    """

    _epsilon: Callable[[Array], Any]

    def _delta(self, eps: Array) -> Any:
        """Return the smallest δ with ε(δ) <= eps, as evaluated.

        It is exact up to 2^-48 of log δ. `eps` may contain 0 and inf.
        """

        @np.errstate(over="ignore", invalid="ignore")
        def slack(surprise: Array) -> Any:
            """Return a number above 0 where ε(δ) <= eps, δ = e^{−surprise}."""
            delta = np.clip(np.exp(-surprise), 5e-324, 1 - 2.0**-53)
            return np.nextafter(eps, np.inf) - self._epsilon(delta)

        largest = np.full_like(eps, _LARGEST_SURPRISE)
        surprise, _ = bracket_sign_change(slack, np.zeros_like(eps), largest)
        delta = np.where(slack(largest) > 0, 5e-324, np.exp(-surprise))
        return np.where(eps == np.inf, 0.0, delta)

    def delta_upper_bound(self, eps: Array) -> Array:
        """Return an upper bound on δ(ε): chords, in e^ε, between points (ε(δ), δ).

        δ is convex in e^ε, so that chords between points above it lie above it.
        """
        known_eps, known_delta = _chord_points(self)
        right = np.searchsorted(known_eps, eps, side="left")
        right = np.clip(right, 1, len(known_eps) - 1)
        left = right - 1

        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            rise = np.expm1(np.minimum(eps - known_eps[left], 700.0))
            run = np.expm1(known_eps[right] - known_eps[left])
            weight = rise / run  # NaN where two known values coincide
        weight = np.clip(np.where(np.isnan(weight), 0.0, weight), 0.0, 1.0)

        chord = known_delta[left] * (1 - weight) + known_delta[right] * weight
        return np.asarray(np.minimum(round_up(chord, 1e-15), 1.0))

    def _tradeoff_support_points(self) -> tuple[Array, Array]:
        """Return points (ε(δ), δ) with ε small enough for e^ε, and (0, 1)."""
        delta = np.concatenate(
            [np.geomspace(1e-12, 0.05, 100), np.linspace(0.05, 0.999, 200)]
        )
        eps = np.asarray(self._epsilon(delta), np.float64)
        is_usable = eps < 700
        return np.append(eps[is_usable], 0.0), np.append(delta[is_usable], 1.0)


@lru_cache(maxsize=32)
def _chord_points(guarantee: EpsilonFirst) -> tuple[Array, Array]:
    """Return points (ε(δ), δ) with increasing ε, from ε = 0 on."""
    delta = np.concatenate(
        [np.geomspace(1e-45, 1e-3, 700), np.linspace(1e-3, 1 - 1e-6, 1200)[1:], [1.0]]
    )
    # ε falls as δ grows; at the end many values may be 0, of which one is enough.
    eps = np.append(guarantee._epsilon(delta[:-1]), 0.0)
    first_zero = len(eps) - int(np.searchsorted(eps[::-1], 0.0, side="right"))
    return eps[: first_zero + 1][::-1], delta[: first_zero + 1][::-1]
