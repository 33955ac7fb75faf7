"""Hellinger angles of discrete mechanisms: what the Rao paper leaves to future work.

A discrete mechanism has no smooth path between neighboring data sets, so that its Rao
distance is the one on the whole simplex, the Hellinger angle 2·arccos Σ√(pq). All three
have a closed form. Each is computed through 1 − Σ√(pq) or −log Σ√(pq), so that tiny
angles keep their digits, and rounded up. The results compose as `RaoDP` does.
"""

import math

import numpy as np

from curvedp import _validate
from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy.guarantees.definitions import RaoDP
from curvedp.privacy.guarantees.rao import hellinger_from_affinity

__all__ = ["discrete_gaussian_rao", "geometric_rao", "randomized_response_rao"]

# The Gauss–Legendre rule on [0, 1].
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS

# Terms of a theta series; the rest is below every float.
_TERMS = np.arange(1, 40)


def randomized_response_rao(eps: float, categories: int = 2) -> RaoDP:
    """Return the Hellinger angle of randomized response with k answers.

    The true answer has odds e^ε against each other one. So
    Σ√(pq) = (2e^{ε/2} + k − 2)/(e^ε + k − 1), and
    sin(θ/4) = (e^{ε/2} − 1)/√(2(e^ε + k − 1)).

    Parameters
    ----------
    eps : float
        ε.
    categories : int
        k.

    Examples
    --------
    >>> angle = randomized_response_rao(1.0).theta
    >>> round(angle - 2 * math.atan(math.sinh(0.5)), 12)
    0.0
    """
    eps = _validate.positive("eps", eps)
    k = _validate.integer("categories", categories, 2)
    root = math.sqrt(2 * (1 + (k - 1) * math.exp(-eps)))
    sine = -math.expm1(-eps / 2) / root
    return _rao(4 * math.asin(min(sine, math.sqrt(0.5))))


def geometric_rao(eps: float, sensitivity: int = 1) -> RaoDP:
    """Return the Hellinger angle of the two-sided geometric mechanism.

    P(k) ∝ e^{−ε|k|/Δ} is ε-DP for an integer sensitivity Δ (Ghosh et al. 2012). With
    x = ε/2Δ the worst shift, Δ, has Σ√(pq) = e^{−Δx}(1 + Δ·tanh x). At Δ = 1 that is
    1/cosh(ε/2), as for randomized response.

    Parameters
    ----------
    eps : float
        ε.
    sensitivity : int
        Δ.

    Examples
    --------
    >>> round(geometric_rao(1.0).theta - randomized_response_rao(1.0).theta, 12)
    0.0
    """
    eps = _validate.positive("eps", eps)
    s = _validate.integer("sensitivity", sensitivity, 1)
    x = eps / (2 * s)
    if s * x < 1:
        # With t = tanh x, −log Σ√(pq) has the derivative s·t(s + t)/(1 + st) in x. It
        # is positive, so that nothing cancels.
        t = np.tanh(x * _NODES)
        loss = float(x * np.sum(_WEIGHTS * s * t * (s + t) / (1 + s * t)))
    else:
        loss = s * x - math.log1p(s * math.tanh(x))
    return _rao(hellinger_from_affinity(round_up(loss, 1e-14)))


def discrete_gaussian_rao(sigma: float, sensitivity: int = 1) -> RaoDP:
    """Return the Hellinger angle of the discrete Gaussian mechanism.

    P(k) ∝ e^{−k²/2σ²} on the integers (Canonne, Kamath and Steinke 2020). A shift s has
    Σ√(pq) = e^{−s²/8σ²}·Σe^{−(k−s/2)²/2σ²}/Σe^{−k²/2σ²}. The quotient is 1 for even s,
    and below 1 for odd s. So the worst shift is Δ or Δ − 1.

    Parameters
    ----------
    sigma : float
        σ.
    sensitivity : int
        Δ.

    Examples
    --------
    >>> angle = discrete_gaussian_rao(2.0, 2).theta
    >>> round(angle - 2 * math.acos(math.exp(-1 / 8)), 12)
    0.0
    """
    sigma = _validate.positive("sigma", sigma)
    largest = _validate.integer("sensitivity", sensitivity, 1)
    losses = []
    for shift in {largest, max(largest - 1, 1)}:
        quotient = _minus_log_theta(sigma) if shift % 2 else 0.0
        losses.append(shift * shift / (8 * sigma * sigma) + quotient)
    return _rao(hellinger_from_affinity(round_up(max(losses), 1e-14)))


def _minus_log_theta(sigma: float) -> float:
    """Return −log(Σe^{−(k−½)²/2σ²}/Σe^{−k²/2σ²}).

    The sums are taken directly for small σ, and by Poisson summation for large σ.
    """
    k = _TERMS
    if sigma < 0.5:
        # (k − ½)² − ¼ = k(k − 1).
        half_integers = 2 * np.sum(np.exp(-k * (k - 1) / (2 * sigma * sigma)))
        integers = 2 * np.sum(np.exp(-k * k / (2 * sigma * sigma)))
        shared = 1 / (8 * sigma * sigma)
        return shared - math.log(float(half_integers)) + math.log1p(float(integers))
    # The dual sums are 1 + 2Σ(±1)ᵏe^{−2π²σ²k²}.
    waves = np.exp(-2 * math.pi**2 * sigma * sigma * k * k)
    integers = 2 * float(np.sum(waves))
    half_integers = 2 * float(np.sum(waves * (-1.0) ** k))
    return math.log1p(integers) - math.log1p(half_integers)


def _rao(theta: float) -> RaoDP:
    """Return the guarantee of a Hellinger angle, rounded up and at most π."""
    return RaoDP(min(round_up(theta, 1e-15), math.pi), angle="hellinger")
