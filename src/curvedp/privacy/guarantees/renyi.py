"""From a bound on a Rényi divergence to (ε, δ)-DP, as tightly as possible. The Rényi
divergence D_α of order α > 1 compares the output distributions P and Q on two
neighboring data sets. `renyi_epsilon` uses a bound on it at one order, `zcdp_epsilon`
one at all orders (ρ-zCDP says D_α <= ρα).

Theorem (docs/theory/accounting.md, Theorem C1; Asoodeh et al. 2021 as a dual bound).
Let x = dP/dQ, D_α(P‖Q) <= ε_R and u in [0, 1). The function

    h_u(x) = x^α − α·u^{α−1}·x + (α−1)·u^α >= 0

is convex, touches 0 at x = u, and E_Q h_u(x) <= C(u) = h_u(1) + e^{(α−1)ε_R} − 1. So
with λ = δ/C(u) and γ = max_x (x − λ·h_u(x)),

    (x − γ)₊ <= λ·h_u(x)      and      E_Q (x − γ)₊ <= δ,

which says that P and Q are (log γ, δ)-close. Every u gives a valid γ, so that a search
for the best u may stop early. u = 0 is the bound of Canonne, Kamath and Steinke (2020).
Under zCDP the search includes the order α.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from curvedp.numerics.directed_rounding import (
    NINE_ROUNDINGS,
    Array,
    bracket_sign_change,
    round_up,
)

# The search for the best order and touching point u uses a grid with this many points
# along each axis, in this many rounds. Each round shrinks the grid fourfold, to two
# cells on each side of the best point, because the optimum may lie on a slanted ridge.
_N_ROUNDS = 8
_N_POINTS = 17

# `_log_gamma` raises log(1/λ), with λ = δ/C(u), by this much: about 900 rounding errors
# of 1.1e-16, more than those of the moderate logarithms that it is a sum of. A smaller
# λ gives a larger γ, which is safe.
_LOG_LAMBDA_MARGIN = 1e-13
# `_log_gamma` raises its result log γ by this much times |log x*| + 1: about 36
# rounding errors of 1.1e-16. Errors of large logarithms are in proportion to log x*,
# and covered by this.
_LOG_GAMMA_MARGIN = 4e-15

# n − 1 for the powers n = 17, …, 2 in the series of `_log_h_at_one`. Higher powers
# contribute less than 2^-60 of its value.
_SERIES_POWERS = range(16, 0, -1)
_INVERSE_FACTORIALS = [1 / math.factorial(n + 1) for n in _SERIES_POWERS]

# −log of the smallest positive float, 5e-324, rounded up.
_LARGEST_MINUS_LOG_DELTA = 745.0
_SMALLEST_FLOAT = 5e-324
_LARGEST_BELOW_ONE = 1 - 2.0**-53  # the largest float below 1
# e^ε is computed for ε up to this number; the largest float is e^709.8.
_LARGEST_EXPONENT = 700.0
# The δ whose ε(δ) bound a trade-off curve from below. Small δ's give the ends of the
# curve, where it is steep or flat, and the others its middle. Any choice is valid: more
# points only make the bound tighter.
_TRADEOFF_DELTAS = np.concatenate(
    [np.geomspace(1e-12, 0.05, 100), np.linspace(0.05, 0.999, 200)]
)
# The δ between which δ(ε) is replaced by chords: a grid that is denser toward 0. Again
# any choice is valid that ends with 1, because δ is convex in e^ε.
_CHORD_DELTAS = np.concatenate(
    [np.geomspace(1e-45, 1e-3, 700), np.linspace(1e-3, 1 - 1e-6, 1200)[1:], [1.0]]
)


class _GridRange(NamedTuple):
    """The interval of one variable in a grid search, one for each δ in question."""

    low: Array
    high: Array

    def points(self, n: int) -> Array:
        """Return the first n of 17 evenly spaced points, along a new last axis."""
        return self.low + (self.high - self.low) * np.linspace(0.0, 1.0, _N_POINTS)[:n]

    def around(self, index: Array) -> "_GridRange":
        """Return a four times shorter interval around a grid point.

        It covers two cells of the grid on each side.

        Parameters
        ----------
        index : array
            The index of the grid point, from 0 to 16, one for each δ.

        Returns
        -------
        _GridRange
            The interval, which may extend beyond this one.
        """
        length = self.high - self.low
        step = length / (_N_POINTS - 1)
        center = self.low + length * index / (_N_POINTS - 1)
        return _GridRange(center - 2 * step, center + 2 * step)


def renyi_epsilon(order: float, eps_renyi: float, delta: Any) -> Any:
    """Return the smallest ε such that D_α <= ε_R implies (ε, δ)-DP; rounded up.

    D_α is the Rényi divergence of order α between the outputs on neighboring data sets.

    Parameters
    ----------
    order : float
        The order α > 1.
    eps_renyi : float
        The bound ε_R > 0 on the Rényi divergence of that order.
    delta : float or array
        δ in (0, 1).

    Returns
    -------
    float or array
        ε >= 0, with the shape of `delta`.
    """
    delta = np.asarray(delta, np.float64)

    def divergence_bound(alpha: Array) -> Array:
        """Return the same bound for each order; only one order is ever passed."""
        return np.full_like(alpha, eps_renyi)

    only_distance = order - 1
    eps = _search_best_epsilon(only_distance, only_distance, divergence_bound, delta)
    # If α >= 1/δ, a closed form may be better than the search.
    better_eps = np.minimum(eps, _large_order_epsilon(eps_renyi, delta))
    eps = np.where(delta * order >= 1, better_eps, eps)
    return eps if eps.ndim else float(eps)


def zcdp_epsilon(rho: float, delta: Any) -> Any:
    """Return the smallest ε such that ρ-zCDP implies (ε, δ)-DP; rounded up.

    ρ-zCDP says that the Rényi divergence D_α is at most ρα at all orders α > 1.

    Parameters
    ----------
    rho : float
        The parameter ρ > 0 of zCDP.
    delta : float or array
        δ in (0, 1).

    Returns
    -------
    float or array
        ε >= 0, with the shape of `delta`.
    """
    return all_orders_epsilon(rho, lambda alpha: rho * alpha, delta)


def all_orders_epsilon(rho: float, divergence: Callable[[Any], Any], delta: Any) -> Any:
    """Return an ε such that bounds on Rényi divergences imply (ε, δ)-DP; rounded up.

    D_α is the Rényi divergence of order α between the outputs on neighboring data sets.
    The bound at every order α implies an ε, and the smallest one is searched for. The
    best order is near 1 + √(log(1/δ)/ρ) (Bun and Steinke 2016). With g = √(log(1/δ)/ρ),
    orders with α − 1 between e^-7·min(g, 1) and e^3·g are tried.

    Parameters
    ----------
    rho : float
        The growth of the bound: divergence(α) is about ρα for large α. It only
        determines where the search starts.
    divergence : callable
        The bound on D_α at an array of orders α > 1, elementwise.
    delta : float or array
        δ in (0, 1).

    Returns
    -------
    float or array
        The smallest ε >= 0 that the search finds. Every order gives a valid ε, so that
        missing the best one is harmless.
    """
    delta = np.asarray(delta, np.float64)

    # log √(log(1/δ)/ρ), the logarithm of the distance of the best order from 1. For δ
    # near 1, log(1/δ) is replaced by 1e-3, which keeps the range of the search finite.
    log_guess = 0.5 * (np.log(np.maximum(-np.log(delta), 1e-3)) - np.log(rho))
    # Factors of e^7 and e^3 around the guess contain the best order.
    smallest_distance = np.exp(np.minimum(log_guess, 0.0) - 7.0)
    largest_distance = np.exp(log_guess + 3.0)
    eps = _search_best_epsilon(smallest_distance, largest_distance, divergence, delta)

    # At the order 1/δ a closed form may be better than the search.
    # The lower bound on δ keeps the order, and the divergence there, finite.
    large_order = 1 / np.maximum(delta, 1e-300 * max(rho, 1.0))
    eps = np.minimum(eps, _large_order_epsilon(divergence(large_order), delta))
    return eps if eps.ndim else float(eps)


def _large_order_epsilon(divergence: Any, delta: Array) -> Array:
    """Return the ε of (ε, δ)-DP that a Rényi divergence implies at an order >= 1/δ.

    If the divergence is at most ε_R, the result is ε_R + log(1 − δ), rounded up. Proof.
    Let P and Q be the output distributions, and x = dP/dQ. (log γ, δ)-DP holds if
    E_Q (x − γ)₊ <= δ. Among the functions c·x + λ·x^α that bound (x − γ)₊ from above,
    the best one has c = (αδ − 1)/(α − 1), which is >= 0 at such an order α.

    Parameters
    ----------
    divergence : float or array
        The bound ε_R on D_α.
    delta : array
        δ in (0, 1).

    Returns
    -------
    array
        The values of ε, which are >= 0.
    """
    log_one_minus_delta = np.log1p(-delta)
    # Four times the unit roundoff 2^-53 of the sizes of all terms: the two terms of the
    # result may nearly cancel.
    rounding_error = 2.0**-51 * (divergence - log_one_minus_delta + 1)
    eps = round_up(divergence + log_one_minus_delta, NINE_ROUNDINGS) + rounding_error
    return np.asarray(np.maximum(eps, 0.0))


def _search_best_epsilon(low: Any, high: Any, divergence: Any, delta: Array) -> Array:
    """Return the smallest ε that bounds on Rényi divergences imply, by a grid search.

    D_α is the Rényi divergence of order α between the outputs on neighboring data sets.
    If D_α <= ε_R, every u in [0, 1) gives a number γ such that (log γ, δ)-DP holds
    (`_log_gamma`). So ε = log γ is minimized over the orders α and the free parameter
    u, on a grid in log(α − 1) and log(1 − u). The grid is shrunk around its best point
    eight times. Every grid point gives a valid ε, so that it is harmless to miss the
    best one.

    A coarser grid makes ε larger, never wrong.

    Parameters
    ----------
    low, high : float or array
        The range of α − 1. If they are equal, only that order is used.
    divergence : callable
        The bound ε_R on D_α as a function of an array of orders α.
    delta : array
        δ in (0, 1).

    Returns
    -------
    array
        ε >= 0, one for each δ.
    """
    # The last two axes are the grid: rows are orders, columns are values of 1 − u.
    delta = delta[..., None, None]
    lowest = np.broadcast_to(np.log(low)[..., None, None], delta.shape)
    highest = np.broadcast_to(np.log(high)[..., None, None], delta.shape)
    # exp(log(low)) is not exactly `low`, and no bound is known at a different order.
    only_order = 1 + low if np.all(low == high) else None

    order_range = _GridRange(lowest, highest)  # of log(α − 1)
    w_range: _GridRange | None = None  # of log w, with w = 1 − u
    smallest_log_gamma = np.full(delta.shape, np.inf)
    for _ in range(_N_ROUNDS):
        # The grid of this round.
        alpha = _orders_on_grid(order_range, only_order)
        renyi_bound = divergence(alpha)
        if w_range is None:
            w_range = _first_range_of_w(alpha, renyi_bound, delta.shape)
        log_w = w_range.points(_N_POINTS)

        # The smallest log γ so far: every grid point gives a valid one.
        log_gamma = _log_gamma(alpha, renyi_bound, log_w, delta)
        smallest_of_grid = np.min(log_gamma, axis=(-2, -1), keepdims=True)
        smallest_log_gamma = np.minimum(smallest_log_gamma, smallest_of_grid)

        # Shrink the ranges around the best point, but stay within the original ones.
        flat_log_gamma = log_gamma.reshape(*log_gamma.shape[:-2], -1)
        best = np.argmin(flat_log_gamma, axis=-1)[..., None, None]
        next_orders = order_range.around(best // _N_POINTS)
        order_range = _GridRange(
            np.maximum(next_orders.low, lowest), np.minimum(next_orders.high, highest)
        )
        next_w = w_range.around(best % _N_POINTS)
        w_range = _GridRange(next_w.low, np.minimum(next_w.high, 0.0))

    return np.asarray(np.maximum(smallest_log_gamma[..., 0, 0], 0.0))


def _orders_on_grid(order_range: _GridRange, only_order: Any) -> Array:
    """Return the orders α of Rényi divergences in the rows of a search grid.

    Parameters
    ----------
    order_range : _GridRange
        The range of log(α − 1).
    only_order : float, array or None
        The order, if there is only one; then the grid has one row.

    Returns
    -------
    array, shape (…, 17, 1) or (…, 1, 1)
        The orders.
    """
    if only_order is not None:
        return np.full_like(_swap_grid_axes(order_range.points(1)), only_order)
    return 1 + np.exp(_swap_grid_axes(order_range.points(_N_POINTS)))


def _first_range_of_w(
    alpha: Array, renyi_bound: Array, shape: tuple[int, ...]
) -> _GridRange:
    """Return the range of log w in the first round of the search, with w = 1 − u.

    u is the free parameter of the bound in `_log_gamma`. If the divergence ε_R is
    small, the best w is near √(ε_R/α). The range begins at a hundredth of that, and
    ends at w = 1.

    Parameters
    ----------
    alpha : array
        The orders of the first grid.
    renyi_bound : array
        The bounds ε_R on the divergences of these orders.
    shape : tuple of int
        The shape of the upper end of the range: that of the δ's.

    Returns
    -------
    _GridRange
        The range.
    """
    ratio = np.min(renyi_bound / alpha, axis=(-2, -1), keepdims=True)
    first_log_w = np.log(np.clip(1e-2 * np.sqrt(ratio), 1e-150, 1e-2))
    return _GridRange(first_log_w, np.zeros(shape))


def _swap_grid_axes(points: Array) -> Array:
    """Exchange the last two axes, so that grid points run along the rows."""
    return np.swapaxes(points, -1, -2)


def _log_gamma(alpha: Any, renyi_bound: Any, log_w: Any, delta: Any) -> Any:
    """Return log γ such that D_α <= ε_R implies (log γ, δ)-DP; rounded up.

    D_α is the Rényi divergence of order α between the outputs on neighboring data sets.
    The caller minimizes log γ over the orders α and the free parameter u, and so gets
    the ε for a given δ.

    Theorem (docs/theory/accounting.md, Theorem C1). For any u in [0, 1) let

        h_u(x) = x^α − α·u^{α−1}·x + (α−1)·u^α,
        C(u) = h_u(1) + e^{(α−1)ε_R} − 1,    λ = δ/C(u),    γ = max_x (x − λ·h_u(x)).

    Then (log γ, δ)-DP holds. The maximum is at x* with x*^{α−1} = u^{α−1} + 1/(λα), and
    there, with t = u/x*,

        λ·h_u(x*)/x* = (1 − (α−1)·t^{α−1}·(1 − t)/(1 − t^{α−1}))/α.

    Everything is computed in logarithms, because e^{(α−1)ε_R} may overflow. The best u
    is close to 1 for a small divergence, so it is given by w = 1 − u, as log w, which
    keeps its digits. Rounding must not make γ too small: λ is lowered and log γ raised
    by bounds on the rounding errors.

    Every change must keep γ from being too small: a smaller γ would overstate privacy.
    tests/privacy/test_renyi.py compares with high-precision arithmetic.

    Parameters
    ----------
    alpha : array
        The order α > 1.
    renyi_bound : array
        The bound ε_R on D_α.
    log_w : array
        log w <= 0, with w = 1 − u.
    delta : array
        δ in (0, 1).

    Returns
    -------
    array
        log γ, or infinity if it could not be computed. The arguments broadcast.
    """
    a = alpha - 1  # exact: α is a float
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # log u = log(1 − w), which is −∞ for w = 1.
        w = np.exp(np.minimum(log_w, -1e-300))
        log_u = np.where(log_w < 0, np.log1p(-w), -np.inf)

        # log C(u), and from it log(1/(λα)) and the maximizer x*.
        log_c = np.logaddexp(_log_h_at_one(alpha, log_u), _log_expm1(a * renyi_bound))
        log_inverse_lambda = log_c - np.log(delta)
        log_inverse_lambda_alpha = (
            log_inverse_lambda - np.log(alpha) + _LOG_LAMBDA_MARGIN
        )
        log_x = _log_maximizer(a, log_u, log_inverse_lambda_alpha)

        # The three differences of the formula above, without cancellation.
        log_t = np.where(np.isinf(log_u), -np.inf, log_u - log_x)
        t_power = np.exp(a * log_t)  # t^{α−1}
        one_minus_t_power = -np.expm1(a * log_t)
        one_minus_t = -np.expm1(log_t)

        # penalty = λ·h_u(x*)/x*, by that formula; γ = x*·(1 − penalty).
        penalty = (1 - a * t_power * one_minus_t / one_minus_t_power) / alpha
        log_gamma = log_x + np.log1p(-penalty)

    # log x* has a relative rounding error, hence an absolute one in proportion to it.
    log_gamma = log_gamma + _LOG_GAMMA_MARGIN * (np.abs(log_x) + 1)
    return np.where(np.isnan(log_gamma), np.inf, log_gamma)


def _log_expm1(x: Any) -> Any:
    """Return log(e^x − 1) for x >= 0, even if e^x overflows.

    It is the divergence term of the constant C(u) in `_log_gamma`.

    Parameters
    ----------
    x : array
        Numbers x >= 0.

    Returns
    -------
    array
        log(e^x − 1); −infinity at 0.
    """
    if_large = x + np.log1p(-np.exp(-np.maximum(x, 1.0)))
    if_small = np.log(np.expm1(np.minimum(x, 1.0)))
    return np.where(x > 1, if_large, if_small)


def _log_maximizer(
    order_minus_one: Any, log_u: Any, log_inverse_lambda_alpha: Any
) -> Any:
    """Return log x*, where x* maximizes x − λ·h_u(x).

    This is a step of converting a Rényi divergence of order α > 1 to (ε, δ)-DP. Here
    h_u(x) = x^α − α·u^{α−1}·x + (α−1)·u^α, with free parameters u in [0, 1) and λ > 0.
    Setting the derivative 1 − λα(x^{α−1} − u^{α−1}) to 0 gives
    x*^{α−1} = u^{α−1} + 1/(λα). For orders near 1, this sum is 1 plus terms of size
    α − 1. These terms are then computed separately, so that the division by α − 1 does
    not magnify a rounding error.

    Parameters
    ----------
    order_minus_one : array
        α − 1 > 0.
    log_u : array
        log u <= 0.
    log_inverse_lambda_alpha : array
        log(1/(λα)).

    Returns
    -------
    array
        log x*.
    """
    log_u_power = order_minus_one * log_u  # log u^{α−1}
    sum_is_near_one = (log_u_power > -0.5) & (log_inverse_lambda_alpha < -0.5)

    # For orders near 1, compute the terms of size α − 1 by themselves.
    small_term = np.exp(np.minimum(log_inverse_lambda_alpha, 0.0))
    log_sum_near_one = np.log1p(np.expm1(log_u_power) + small_term)
    log_sum = np.logaddexp(log_u_power, log_inverse_lambda_alpha)
    return np.where(sum_is_near_one, log_sum_near_one, log_sum) / order_minus_one


def _log_h_at_one(alpha: Any, log_u: Any) -> Any:
    """Return log h_u(1), where h_u(1) = 1 − α·u^{α−1} + (α−1)·u^α.

    This is a step of converting a Rényi divergence of order α to (ε, δ)-DP; u is a free
    parameter of that bound. Near u = 1 the terms cancel: h_u(1) is about
    α(α−1)(1−u)²/2. There it is summed as a series of positive terms. With y = −log u
    and z = αy,

        e^z·h_u(1) = e^z − αe^y + α − 1 = Σ_{n>=2} (zⁿ − α·yⁿ)/n!
                   = Σ_{n>=2} zⁿ·(1 − α^{1−n})/n!,

    which is computed by Horner's rule, with z² factored out.

    Parameters
    ----------
    alpha : array
        The order α > 1 of a Rényi divergence.
    log_u : array
        log u <= 0, u a free parameter of the bound.

    Returns
    -------
    array
        log h_u(1); −infinity at u = 1.
    """
    order_minus_one = alpha - 1
    y = -log_u

    # Far from u = 1: (1 − u^{α−1}) − (α−1)·u^{α−1}·(1 − u), the same number as h_u(1).
    direct = -np.expm1(-order_minus_one * y) - order_minus_one * np.exp(
        -order_minus_one * y
    ) * -np.expm1(-y)

    # Near u = 1: the series.
    use_series = alpha * y < 0.5
    z = np.where(use_series, alpha * y, 0.0)
    # α^{1−n} − 1 for each power n; Horner's rule then sums from the highest power down.
    negative_factors = np.expm1(
        -np.multiply.outer(_SERIES_POWERS, np.log1p(order_minus_one))
    )
    series = np.zeros_like(z)
    for negative_factor, inverse_factorial in zip(
        negative_factors, _INVERSE_FACTORIALS, strict=True
    ):
        series *= z
        series -= inverse_factorial * negative_factor

    by_series = np.exp(-z) * z * z * series
    return np.log(np.where(use_series, by_series, direct))


class DefinedByEpsilon:
    """A definition of privacy that computes ε(δ) directly, and δ(ε) by inverting it.

    A class derives from this one and from `Guarantee`, and defines `_epsilon`, the
    smallest ε for an array of δ's.
    """

    _epsilon: Callable[[Array], Any]

    def _delta(self, eps: Array) -> Any:
        """Return the smallest δ with ε(δ) <= eps, by a search over −log δ.

        −log δ is found to a relative precision of 2^-48. The result is never smaller
        than the smallest positive float, unless eps is infinite.

        Parameters
        ----------
        eps : array
            ε >= 0. It may contain infinity, for which δ is 0.

        Returns
        -------
        array
            δ in [0, 1], of the shape of `eps`.
        """

        @np.errstate(over="ignore", invalid="ignore")
        def eps_minus_needed_eps(minus_log_delta: Array) -> Any:
            """Return a number that is positive exactly if ε(δ) <= eps."""
            delta = np.clip(
                np.exp(-minus_log_delta), _SMALLEST_FLOAT, _LARGEST_BELOW_ONE
            )
            return np.nextafter(eps, np.inf) - self._epsilon(delta)

        # The sign changes at the wanted δ, which is at least the smallest float.
        largest = np.full_like(eps, _LARGEST_MINUS_LOG_DELTA)
        minus_log_delta, _ = bracket_sign_change(
            eps_minus_needed_eps, np.zeros_like(eps), largest
        )
        smallest_float_suffices = eps_minus_needed_eps(largest) > 0
        delta = np.where(
            smallest_float_suffices, _SMALLEST_FLOAT, np.exp(-minus_log_delta)
        )
        return np.where(eps == np.inf, 0.0, delta)

    def delta_upper_bound(self, eps: Array) -> Array:
        """Return an upper bound on δ(ε) at many ε's, quickly.

        δ is convex as a function of e^ε. So it lies below every chord, the straight
        line between two of its points (ε(δ), δ). Such points are known on a grid of
        nearly two thousand δ's, and the result is the value on the chord between the
        two neighbors of ε.

        Parameters
        ----------
        eps : array
            Values ε >= 0 of the privacy parameter.

        Returns
        -------
        array
            Upper bounds on δ, of the shape of `eps`.
        """
        # The neighbors of each ε among the known points.
        known_eps, known_delta = _chord_points(self)
        right = np.searchsorted(known_eps, eps, side="left")
        right = np.clip(right, 1, len(known_eps) - 1)
        left = right - 1

        # The position between the two points, on the scale of e^ε.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            step = np.minimum(eps - known_eps[left], _LARGEST_EXPONENT)
            numerator = np.expm1(step)
            denominator = np.expm1(known_eps[right] - known_eps[left])
            weight = numerator / denominator  # NaN where two points coincide
        weight = np.clip(np.where(np.isnan(weight), 0.0, weight), 0.0, 1.0)

        chord = known_delta[left] * (1 - weight) + known_delta[right] * weight
        return np.asarray(np.minimum(round_up(chord, NINE_ROUNDINGS), 1.0))

    def _tradeoff_support_points(self) -> tuple[Array, Array]:
        """Return many δ and their ε(δ), from which the trade-off curve is bounded.

        Each (ε, δ) gives two straight lines below the trade-off curve. An ε for which
        e^ε would overflow is left out, and (0, 1) is added.

        Returns
        -------
        eps, delta : array
            About 300 pairs.
        """
        eps = np.asarray(self._epsilon(_TRADEOFF_DELTAS), np.float64)

        # Leave out those that would overflow, and add (0, 1).
        is_usable = eps < _LARGEST_EXPONENT
        return np.append(eps[is_usable], 0.0), np.append(
            _TRADEOFF_DELTAS[is_usable], 1.0
        )


@lru_cache(maxsize=32)
def _chord_points(guarantee: DefinedByEpsilon) -> tuple[Array, Array]:
    """Return about 1900 points (ε, δ) with ε = ε(δ), for interpolation between them.

    ε increases from 0. The points are cached for each guarantee.

    Parameters
    ----------
    guarantee : DefinedByEpsilon
        A guarantee that states ε as a function of δ.

    Returns
    -------
    eps, delta : array
        The coordinates of the points.
    """
    delta = _CHORD_DELTAS
    eps = np.append(guarantee._epsilon(delta[:-1]), 0.0)  # the last δ is 1

    # ε(δ) decreases, and may be 0 at many of the last points. Only one of them is kept.
    n_zeros = int(np.count_nonzero(eps <= 0))
    n_points = len(eps) - n_zeros + 1
    used_eps = eps[:n_points]
    used_delta = delta[:n_points]
    return used_eps[::-1], used_delta[::-1]
