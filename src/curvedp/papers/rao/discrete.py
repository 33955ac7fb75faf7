"""Hellinger angles of discrete mechanisms, exactly: what the Rao paper leaves to future work.

A discrete mechanism has no smooth path between neighboring datasets, so its Rao distance is the one on the whole
simplex, the Hellinger angle 2·arccos Σ√(pq). All three have a closed form; each is computed through 1 − Σ√(pq) or
−log Σ√(pq), so that tiny angles keep their digits, and rounded up. Results are `RaoDP` guarantees that compose by
cosines.
"""

import math

import numpy as np

from curvedp import _validate
from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy.guarantees.definitions import RaoDP
from curvedp.privacy.guarantees.rao import hellinger_from_affinity

__all__ = ["discrete_gaussian_rao", "geometric_rao", "randomized_response_rao"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS


def randomized_response_rao(eps: float, categories: int = 2) -> RaoDP:
    """k-ary randomized response: the truth with odds e^ε against each other answer.

    Σ√(pq) = (2e^{ε/2} + k − 2)/(e^ε + k − 1), so sin(θ/4) = (e^{ε/2} − 1)/√(2(e^ε + k − 1)).

    >>> round(randomized_response_rao(1.0).theta - 2 * math.atan(math.sinh(0.5)), 12)
    0.0
    """
    eps, k = (
        _validate.positive("eps", eps),
        _validate.integer("categories", categories, 2),
    )
    sine = -math.expm1(-eps / 2) / math.sqrt(2 * (1 + (k - 1) * math.exp(-eps)))
    return _rao(4 * math.asin(min(sine, math.sqrt(0.5))))


def geometric_rao(eps: float, sensitivity: int = 1) -> RaoDP:
    """The two-sided geometric mechanism, P(k) ∝ e^{−ε|k|/Δ}, which is ε-DP at integer sensitivity Δ (Ghosh et al. 2012).

    With x = ε/2Δ, Σ√(pq) = e^{−Δx}(1 + Δ·tanh x) at a shift of Δ, the worst. At Δ = 1 it is 1/cosh(ε/2), that of
    randomized response.

    >>> round(geometric_rao(1.0).theta - randomized_response_rao(1.0).theta, 12)
    0.0
    """
    eps, s = (
        _validate.positive("eps", eps),
        _validate.integer("sensitivity", sensitivity, 1),
    )
    x = eps / (2 * s)
    if (
        s * x < 1
    ):  # the derivative of −log Σ in x is s·t(s+t)/(1+st), t = tanh x: positive, so nothing cancels
        t = np.tanh(x * _NODES)
        loss = float(x * np.sum(_WEIGHTS * s * t * (s + t) / (1 + s * t)))
    else:
        loss = s * x - math.log1p(s * math.tanh(x))
    return _rao(hellinger_from_affinity(round_up(loss, 1e-14)))


def discrete_gaussian_rao(sigma: float, sensitivity: int = 1) -> RaoDP:
    """The discrete Gaussian, P(k) ∝ e^{−k²/2σ²} on the integers (Canonne, Kamath and Steinke 2020).

    At a shift s, Σ√(pq) = e^{−s²/8σ²}·Σe^{−(k−s/2)²/2σ²}/Σe^{−k²/2σ²}. The quotient is 1 for even s; for odd s it is
    the theta quotient below, < 1. The worst shift is Δ or Δ − 1, whatever its parity.

    >>> round(discrete_gaussian_rao(2.0, 2).theta - 2 * math.acos(math.exp(-1 / 8)), 12)
    0.0
    """
    sigma, top = (
        _validate.positive("sigma", sigma),
        _validate.integer("sensitivity", sensitivity, 1),
    )
    loss = max(
        s * s / (8 * sigma * sigma) + (_minus_log_theta(sigma) if s % 2 else 0.0)
        for s in {top, max(top - 1, 1)}
    )
    return _rao(hellinger_from_affinity(round_up(loss, 1e-14)))


def _minus_log_theta(sigma: float) -> float:
    """−log(Σe^{−(k−½)²/2σ²}/Σe^{−k²/2σ²}), directly for small σ, by Poisson summation for large."""
    k = np.arange(1, 40)
    if sigma < 0.5:
        half = np.exp(-k * (k - 1) / (2 * sigma * sigma))  # (k−½)² − ¼ = k(k−1)
        whole = 2 * np.sum(np.exp(-k * k / (2 * sigma * sigma)))
        return (
            1 / (8 * sigma * sigma)
            - math.log(2 * float(np.sum(half)))
            + math.log1p(float(whole))
        )
    # Σ over the dual lattice: 1 + 2Σ(±1)^k e^{−2π²σ²k²}
    wave = np.exp(-2 * math.pi**2 * sigma * sigma * k * k)
    return math.log1p(2 * float(np.sum(wave))) - math.log1p(
        2 * float(np.sum(wave * (-1.0) ** k))
    )


def _rao(theta: float) -> RaoDP:
    return RaoDP(min(round_up(theta, 1e-15), math.pi), angle="hellinger")
