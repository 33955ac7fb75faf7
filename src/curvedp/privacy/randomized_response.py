"""Randomized response, the worst of all ε-DP mechanisms: its δ, trade-off and divergences bound those of every other one."""

import math
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp.privacy.rounding import up

Array = NDArray[np.float64]


def two_point_delta(eps0: float, eps: Array) -> Any:
    """(e^ε₀ − e^ε)₊/(1 + e^ε₀), rounded up where positive."""
    delta = -np.expm1(np.minimum(eps - eps0, 0.0)) * scipy.special.expit(eps0)
    return np.where(delta > 0, np.minimum(up(delta, 1e-15), 1.0), 0.0)


def two_point_epsilon(eps0: float, delta: Array) -> Any:
    """The ε at which `two_point_delta` falls to delta: log(e^ε₀(1 − δ) − δ), rounded up, at most ε₀."""
    # e^ε = e^ε₀(1 − δ) − δ, at least half of its first term: neither cancels, and 1 − δ is exact where it is small
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # what overflows is cut at ε₀
        eps = eps0 + np.log((1 - delta) - delta * math.exp(-eps0))
        raised = eps + 2.0**-49 * (1 + eps0 + np.abs(eps))
    return np.where(delta >= up(math.tanh(eps0 / 2), 1e-15), 0.0, np.clip(raised, 0.0, eps0))


def inflated(eps: float, alpha: Array) -> Any:
    """e^ε·α, at least 1 where e^ε overflows and α > 0."""
    return np.exp(eps) * alpha if eps < 700 else np.where(alpha > 0, 1.0, 0.0)


def pure_to_gdp_mu(eps: float) -> float:
    """μ = −2Φ⁻¹(1/(1+e^ε)), rounded up, to full precision for tiny and for huge ε.

    >>> round(pure_to_gdp_mu(1.0), 6)
    1.232035
    """
    if eps < 1:
        return float(up(2 * math.sqrt(2) * scipy.special.erfinv(math.tanh(eps / 2)), 4e-15))
    return float(up(-2 * scipy.special.ndtri_exp(-(eps + math.log1p(math.exp(-eps)))), 4e-15))


def log_cosh(x: float) -> float:
    """log cosh x for x >= 0; 2 sinh²(x/2) = cosh x − 1 keeps the digits near 0."""
    if x < 1:
        return math.log1p(2 * math.sinh(x / 2) ** 2)
    return x + math.log1p(math.exp(-2 * x)) - math.log(2)


def pure_renyi(eps: Any, order: Any) -> Any:
    """D_α of randomized response, the most any ε-DP mechanism can have (Bun and Steinke 2016); rounded up.

    log(cosh A/cosh B)/(α−1), A = (α−½)ε, B = ε/2; near ε = 0 through cosh A − cosh B = 2 sinh((A+B)/2) sinh((A−B)/2), and
    else as x + log(1 − (1 − e^{−2x})/(1 + e^ε)), x = A − B: both keep the digits, at orders next to 1 too.

    >>> round(pure_renyi(1.0, 2.0), 6)
    0.735326
    """
    eps, order = np.asarray(eps, np.float64), np.asarray(order, np.float64)
    x = (order - 1) * eps  # A − B, without the subtraction that would lose it near order 1
    with np.errstate(over="ignore", invalid="ignore"):
        far = x + np.log1p(np.expm1(-2 * x) * scipy.special.expit(-eps))
        near = np.log1p(2 * np.sinh(order * eps / 2) * np.sinh(x / 2) / np.cosh(eps / 2))
    value = up(np.where(order * eps > 2, far, near) / (order - 1), 1e-14)
    return value if np.ndim(value) else float(value)
