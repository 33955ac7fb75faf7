"""Hellinger angles of discrete mechanisms, which the Rao paper leaves to future work.
The Hellinger angle of two laws p and q is 2·arccos Σ√(pq); the sum is called their
affinity. Here p and q are the output laws for two neighboring data sets.

A discrete mechanism has no smooth path between neighboring data sets. So its Rao
distance is that on the whole simplex, which is the Hellinger angle. All three
mechanisms have a closed form. Angles are computed from 1 − Σ√(pq) or −log Σ√(pq), so
that tiny angles keep their digits, and are rounded up. The results compose as `RaoDP`
does.
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

    A person gives the true answer e^ε times as often as each of the others. Let p and q
    be the laws of the given answer for two true answers. Then Σ√(pq) =
    (2e^{ε/2} + k − 2)/(e^ε + k − 1). So the angle θ = 2·arccos Σ√(pq) satisfies
    sin(θ/4) = (e^{ε/2} − 1)/√(2(e^ε + k − 1)), a formula that keeps the digits of small
    angles.

    Parameters
    ----------
    eps : float
        ε > 0 of the pure guarantee that randomized response meets.
    categories : int
        k ≥ 2, the number of possible answers.

    Returns
    -------
    RaoDP
        The angle, rounded up, as a guarantee that composes.

    Examples
    --------
    >>> angle = randomized_response_rao(1.0).theta
    >>> round(angle - 2 * math.atan(math.sinh(0.5)), 12)
    0.0
    """
    eps = _validate.positive("eps", eps)
    k = _validate.integer("categories", categories, 2)
    # Numerator and denominator of sin(θ/4), divided by e^{ε/2} against overflow.
    denominator = math.sqrt(2 * (1 + (k - 1) * math.exp(-eps)))
    sine_of_quarter = -math.expm1(-eps / 2) / denominator
    # Rounding must not make the sine larger than sin(π/4), its value at θ = π.
    return _round_up_to_guarantee(4 * math.asin(min(sine_of_quarter, math.sqrt(0.5))))


def geometric_rao(eps: float, sensitivity: int = 1) -> RaoDP:
    """Return the Hellinger angle of the two-sided geometric mechanism.

    Integer noise with P(k) ∝ e^{−ε|k|/Δ} is ε-DP for a count that one record moves by
    at most Δ (Ghosh et al. 2012). Let p be the law of the output, and q that of the
    output shifted by Δ, which is the worst shift. With x = ε/2Δ the sum Σ√(pq) is
    e^{−Δx}(1 + Δ·tanh x), and the angle is θ = 2·arccos Σ√(pq). At Δ = 1 the sum is
    1/cosh(ε/2), as for randomized response with two answers.

    Parameters
    ----------
    eps : float
        ε > 0 of the pure guarantee that the mechanism meets.
    sensitivity : int
        Δ ≥ 1, how far one record moves the count.

    Returns
    -------
    RaoDP
        The angle, rounded up, as a guarantee that composes.

    Examples
    --------
    >>> round(geometric_rao(1.0).theta - randomized_response_rao(1.0).theta, 12)
    0.0
    """
    eps = _validate.positive("eps", eps)
    s = _validate.integer("sensitivity", sensitivity, 1)
    x = eps / (2 * s)
    if s * x < 1:
        # For small x the terms of the closed form below cancel. With t = tanh x, the
        # derivative of −log Σ√(pq) in x is s·t(s + t)/(1 + st), a positive function,
        # which is integrated instead.
        t = np.tanh(x * _NODES)
        derivative = s * t * (s + t) / (1 + s * t)
        minus_log_affinity = float(x * np.sum(_WEIGHTS * derivative))
    else:
        minus_log_affinity = s * x - math.log1p(s * math.tanh(x))
    angle = hellinger_from_affinity(round_up(minus_log_affinity, 1e-14))
    return _round_up_to_guarantee(angle)


def discrete_gaussian_rao(sigma: float, sensitivity: int = 1) -> RaoDP:
    """Return the Hellinger angle of the discrete Gaussian mechanism.

    Integer noise with P(k) ∝ e^{−k²/2σ²} (Canonne, Kamath and Steinke 2020). The laws p
    and q of two outputs a shift s apart have
    Σ√(pq) = e^{−s²/8σ²}·Σe^{−(k−s/2)²/2σ²}/Σe^{−k²/2σ²}, sums over all integers k. The
    quotient of sums is 1 for even s and below 1 for odd s, so the worst shift of at most
    Δ is Δ or Δ − 1. The angle is θ = 2·arccos Σ√(pq).

    Parameters
    ----------
    sigma : float
        σ > 0, the scale of the noise.
    sensitivity : int
        Δ ≥ 1, how far one record moves the count.

    Returns
    -------
    RaoDP
        The angle, rounded up, as a guarantee that composes.

    Examples
    --------
    >>> angle = discrete_gaussian_rao(2.0, 2).theta
    >>> round(angle - 2 * math.acos(math.exp(-1 / 8)), 12)
    0.0
    """
    sigma = _validate.positive("sigma", sigma)
    largest = _validate.integer("sensitivity", sensitivity, 1)
    minus_log_affinities = []
    for shift in {largest, max(largest - 1, 1)}:
        minus_log_quotient = _minus_log_theta_quotient(sigma) if shift % 2 else 0.0
        exponent = shift * shift / (8 * sigma * sigma)
        minus_log_affinities.append(exponent + minus_log_quotient)
    angle = hellinger_from_affinity(round_up(max(minus_log_affinities), 1e-14))
    return _round_up_to_guarantee(angle)


def _minus_log_theta_quotient(sigma: float) -> float:
    """Return −log(Σe^{−(k−½)²/2σ²}/Σe^{−k²/2σ²}), sums over all integers k.

    The quotient compares the sum of the Gaussian over integers with that over
    half-integers. For small σ both sums have few terms and are computed directly. For
    large σ their duals by Poisson summation have few terms and are computed instead.

    Parameters
    ----------
    sigma : float
        σ > 0.
    """
    k = _TERMS

    # Small σ. Terms are summed for k > 0, and the term for k = 0 is added by log1p.
    if sigma < 0.5:
        # The half-integers' terms are divided by their largest, e^{−1/8σ²}, which is
        # `shared`: (k − ½)² − ¼ = k(k − 1).
        half_integers = 2 * np.sum(np.exp(-k * (k - 1) / (2 * sigma * sigma)))
        integers = 2 * np.sum(np.exp(-k * k / (2 * sigma * sigma)))
        shared = 1 / (8 * sigma * sigma)
        return shared - math.log(float(half_integers)) + math.log1p(float(integers))

    # Large σ. The dual sums are 1 + 2Σ(±1)ᵏe^{−2π²σ²k²}.
    waves = np.exp(-2 * math.pi**2 * sigma * sigma * k * k)
    integers = 2 * float(np.sum(waves))
    half_integers = 2 * float(np.sum(waves * (-1.0) ** k))
    return math.log1p(integers) - math.log1p(half_integers)


def _round_up_to_guarantee(theta: float) -> RaoDP:
    """Return a Hellinger angle as a guarantee, rounded up and at most π.

    Parameters
    ----------
    theta : float
        The angle, exact to a few units of the last place.
    """
    return RaoDP(min(round_up(theta, 1e-15), math.pi), angle="hellinger")
