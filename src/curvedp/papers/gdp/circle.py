"""δ(ε) of the Gaussian on the unit circle in closed form: Cor. 3.2.1 of Jiang et al. 2023 as printed, and as it is.

The corollary prints A = [π + σ²ε/Δ, 2π − σ²ε/Δ] for the set where the loss exceeds ε, with ε <= πΔ/2σ². The point
opposite η₂ is passed at distance 2π − Δ, so the true set is [π + σ²ε/(2π−Δ), 2π − σ²ε/Δ], ε <= Δ(2π−Δ)/2σ²: the
printed δ is too small (E1).
"""

import math

from scipy.special import ndtr

__all__ = ["circle_gaussian_delta", "circle_gaussian_delta_printed"]


def circle_gaussian_delta(sigma: float, sensitivity: float, eps: float) -> float:
    """δ(ε) of the Gaussian on the unit circle in closed form, corrected (see above); for reading, not for the far tail.

    >>> round(circle_gaussian_delta(2.0, 1.0, 0.3), 7)
    0.0422557
    """
    s, D, far = sigma, sensitivity, 2 * math.pi - sensitivity
    if eps >= D * far / (2 * s * s):
        return 0.0
    mass = ndtr(math.pi / s) - ndtr(-math.pi / s)
    y_a, r_b = (
        (D * D - 2 * s * s * eps) / (2 * D),
        (far * far - 2 * s * s * eps) / (2 * far),
    )
    first = ndtr(y_a / s) - ndtr(-r_b / s)
    start, stop = -r_b - D, y_a - D  # the same arc, seen from η₂
    if start >= -math.pi:
        second = ndtr(stop / s) - ndtr(start / s)
    else:  # its far end lies beyond the point opposite η₂
        second = (
            ndtr(stop / s)
            - ndtr(-math.pi / s)
            + ndtr(math.pi / s)
            - ndtr((start + 2 * math.pi) / s)
        )
    return float((first - math.exp(eps) * second) / mass)


def circle_gaussian_delta_printed(
    sigma: float, sensitivity: float, eps: float
) -> float:
    """h(σ, ε, Δ) as Jiang et al. 2023 print it in Cor. 3.2.1: NOT an upper bound on δ. For reproduction only."""
    s, D = sigma, sensitivity
    mass = ndtr(math.pi / s) - ndtr(-math.pi / s)
    small = eps <= D * D / (2 * s * s)
    shift = math.pi / s if small else -math.pi / s
    first = ndtr(-s * eps / D + D / (2 * s)) - math.exp(eps) * ndtr(
        -s * eps / D - D / (2 * s)
    )
    second = ndtr(s * eps / D + D / (2 * s) - math.pi / s) - math.exp(eps) * ndtr(
        s * eps / D - D / (2 * s) + shift
    )
    return float((first - second) / mass - (math.exp(eps) if small else 0.0))
