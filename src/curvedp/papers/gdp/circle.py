"""δ(ε) of the Gaussian on the unit circle, as Jiang et al. (2023) print it and as it
is. δ(ε) is the smallest δ for which the laws about two centers η₁ and η₂, at the angle
Δ, are (ε, δ)-close. The privacy loss is the log-ratio of their densities.

Corollary 3.2.1 prints A = [π + σ²ε/Δ, 2π − σ²ε/Δ] for the set where the loss exceeds ε,
for ε ≤ πΔ/2σ². At the point opposite η₂ the shortest way to η₂ changes its direction,
and beyond this point the distances to both centers are measured along the longer arc
between them, 2π − Δ. So the true set is [π + σ²ε/(2π − Δ), 2π − σ²ε/Δ], for
ε ≤ Δ(2π − Δ)/2σ², and the printed δ is too small (docs/errata.md, E1).
"""

import math

from scipy.special import ndtr

__all__ = ["circle_gaussian_delta", "circle_gaussian_delta_printed"]


def circle_gaussian_delta(sigma: float, sensitivity: float, eps: float) -> float:
    """Return δ(ε) of the Gaussian on the unit circle, corrected.

    It is meant to be compared with the printed formula. In the far tail it has few
    digits, because it subtracts two nearly equal numbers.

    Parameters
    ----------
    sigma : float
        σ > 0, the scale of the law.
    sensitivity : float
        Δ in (0, π], the angle between the two centers η₁ and η₂.
    eps : float
        ε ≥ 0.

    Returns
    -------
    float
        The smallest δ for which a draw about η₁ and one about η₂ are (ε, δ)-close.

    Examples
    --------
    >>> round(circle_gaussian_delta(2.0, 1.0, 0.3), 7)
    0.0422557
    """
    # The lengths of the two arcs between the centers η₁ and η₂.
    s = sigma
    near = sensitivity
    far = 2 * math.pi - sensitivity
    if eps >= near * far / (2 * s * s):
        return 0.0
    mass = ndtr(math.pi / s) - ndtr(-math.pi / s)

    # The loss exceeds ε on one arc, which contains η₁. Its ends are signed distances from
    # η₁, positive toward η₂. Its mass under the law about η₁:
    end = (near * near - 2 * s * s * eps) / (2 * near)
    start = -(far * far - 2 * s * s * eps) / (2 * far)
    mass_about_1 = ndtr(end / s) - ndtr(start / s)

    # The same ends as signed distances from η₂, and the mass under the law about η₂.
    end -= near
    start -= near
    if start >= -math.pi:
        mass_about_2 = ndtr(end / s) - ndtr(start / s)
    else:
        # The arc ends beyond the point opposite η₂.
        up_to_opposite = ndtr(end / s) - ndtr(-math.pi / s)
        beyond = ndtr(math.pi / s) - ndtr((start + 2 * math.pi) / s)
        mass_about_2 = up_to_opposite + beyond
    return float((mass_about_1 - math.exp(eps) * mass_about_2) / mass)


def circle_gaussian_delta_printed(
    sigma: float, sensitivity: float, eps: float
) -> float:
    """Return h(σ, ε, Δ) as Corollary 3.2.1 prints it: NOT an upper bound on δ.

    It serves to run the printed Algorithm 1 for comparison with the corrected one
    (docs/errata.md, E1).

    Parameters
    ----------
    sigma : float
        σ > 0, the scale of the law.
    sensitivity : float
        Δ in (0, π], the angle between the two centers.
    eps : float
        ε ≥ 0.

    Returns
    -------
    float
        The printed h, too small for ε > 0.

    Examples
    --------
    >>> round(circle_gaussian_delta_printed(2.0, 1.0, 0.3), 7)
    0.0121976
    """
    s, delta = sigma, sensitivity
    mass = ndtr(math.pi / s) - ndtr(-math.pi / s)
    is_small = eps <= delta * delta / (2 * s * s)
    shift = math.pi / s if is_small else -math.pi / s
    ratio, half = s * eps / delta, delta / (2 * s)
    first = ndtr(-ratio + half) - math.exp(eps) * ndtr(-ratio - half)
    second = ndtr(ratio + half - math.pi / s)
    second = second - math.exp(eps) * ndtr(ratio - half + shift)
    correction = math.exp(eps) if is_small else 0.0
    return float((first - second) / mass - correction)
