"""Rao privacy: what the Hellinger angle between two output distributions implies. For
the output densities p and q on two neighboring data sets, the Hellinger angle is θ =
2·arccos∫√(pq). It is 0 if p = q, and π if an output always shows which of the two it
comes from.

There is also a *parametric* Rao distance, the length of a geodesic within a parametric
family of distributions. It is never smaller than θ, and not needed here.

Theorem (Helstrom; docs/theory/rao.md, Theorem R2). The largest δ(ε) of two
distributions at Hellinger angle θ is ½(1 − γ + √((γ−1)² + 4γ·sin²(θ/2))), γ = e^ε. It
tends to sin²(θ/2), not to 0.
"""

from typing import Any

import numpy as np

from curvedp.numerics.directed_rounding import (
    EIGHTEEN_ROUNDINGS,
    NINE_ROUNDINGS,
    NINETY_ROUNDINGS,
    THREE_ROUNDINGS,
    round_down,
    round_up,
)

# The affinity is ∫√(pq); if −log of it exceeds this number, θ is π in floats.
_LARGEST_MINUS_LOG_AFFINITY = 1e3
_SMALLEST_FLOAT = 5e-324  # in place of 0, so that δ stays positive


def hellinger_from_affinity(minus_log_affinity: Any) -> Any:
    """Return the Hellinger angle θ = 2·arccos∫√(pq) from x = −log∫√(pq), rounded up.

    p and q are the output densities on two neighboring data sets, and ∫√(pq) is their
    affinity. The angle is computed from sin(θ/2) = √(1 − e^{−2x}) and
    cos(θ/2) = e^{−x}, which is accurate for tiny and for huge x.

    Parameters
    ----------
    minus_log_affinity : float or array
        The negative logarithm x >= 0 of the affinity.

    Returns
    -------
    float or array
        θ in [0, π].
    """
    x = np.minimum(
        np.asarray(minus_log_affinity, np.float64), _LARGEST_MINUS_LOG_AFFINITY
    )
    theta = 2 * np.arctan2(np.sqrt(-np.expm1(-2 * x)), np.exp(-x))
    theta = np.minimum(round_up(theta, NINE_ROUNDINGS), np.pi)
    return theta if theta.ndim else float(theta)


def hellinger_compose(thetas: Any, counts: Any = 1) -> float:
    """Return the Hellinger angle of several releases together; rounded up.

    If release i has the angle θᵢ and occurs countᵢ times, the angle θ of all of them
    has cos(θ/2) = ∏ cos(θᵢ/2)^countᵢ, whether or not later releases depend on earlier
    ones (docs/theory/rao.md, Theorem R1). It is computed through −log cos x = −½·log(1
    − sin² x), which keeps all digits of small angles. If one angle is π, the
    composition has the angle π too.

    Parameters
    ----------
    thetas : sequence of float
        The angles θᵢ. An angle beyond π counts as π.
    counts : int or sequence of int
        How often each release occurs.

    Returns
    -------
    float
        θ in [0, π].
    """
    # Add up −count·log cos(θ/2).
    half_angles = np.minimum(np.asarray(thetas, np.float64), np.pi) / 2
    squared_sines = np.minimum(np.sin(half_angles), 1.0) ** 2
    with np.errstate(divide="ignore"):
        minus_log_cosines = -0.5 * np.asarray(counts) * np.log1p(-squared_sines)
        minus_log_affinity = float(np.sum(minus_log_cosines))

    # An angle of π stays π.
    if np.any(half_angles >= np.pi / 2):
        return float(np.pi)
    return float(
        hellinger_from_affinity(round_up(minus_log_affinity, NINETY_ROUNDINGS))
    )


def rao_delta(theta: Any, eps: Any) -> Any:
    """Return the largest δ(ε) that a Hellinger angle of at most θ allows; rounded up.

    The angle is that between the output distributions on two neighboring data sets.
    Theorem (Helstrom; docs/theory/rao.md, Theorem R2). With s = sin(θ/2) and γ = e^ε,
    the largest δ is

        δ = 2γs²/((γ−1) + √((γ−1)² + 4γs²)).

    All terms are divided by γ before they are computed, so that ε may be infinite.

    Parameters
    ----------
    theta : float or array
        The Hellinger angle θ > 0.
    eps : float or array
        ε >= 0; it broadcasts with `theta`.

    Returns
    -------
    float or array
        δ in (0, 1].
    """
    theta = np.asarray(theta, np.float64)
    eps = np.asarray(eps, np.float64)

    # s, which is exactly 1 at θ = π.
    sine = np.maximum(np.sin(np.minimum(theta, np.pi) / 2), _SMALLEST_FLOAT)
    sine = np.where(theta >= np.pi, 1.0, sine)

    # δ, after numerator and denominator were divided by γ.
    one_minus_inverse_gamma = -np.expm1(-eps)
    root = np.hypot(one_minus_inverse_gamma, 2 * np.exp(-eps / 2) * sine)
    delta = sine * (2 * sine / (one_minus_inverse_gamma + root))

    delta = np.minimum(round_up(delta, EIGHTEEN_ROUNDINGS), 1.0)
    return delta if delta.ndim else float(delta)


def rao_epsilon(theta: Any, delta: Any) -> Any:
    """Return the smallest ε for which a Hellinger angle implies (ε, δ)-DP; rounded up.

    With s = sin(θ/2) and γ = e^ε, the largest δ that the angle allows solves
    δ² − (1−γ)δ − γs² = 0. Solved for γ, this gives γ − 1 = (s² − δ²)/(δ − s²), and
    ε = log γ. It is infinite for δ <= s², and 0 for δ >= s.

    Parameters
    ----------
    theta : float or array
        The Hellinger angle θ > 0.
    delta : float or array
        δ in (0, 1); it broadcasts with `theta`.

    Returns
    -------
    float or array
        ε >= 0, or infinity.
    """
    theta = np.asarray(theta, np.float64)
    delta = np.asarray(delta, np.float64)

    # s², rounded up, because ε increases with it.
    sine = np.sin(np.minimum(theta, np.pi) / 2)
    squared_sine = np.where(theta >= np.pi, 1.0, round_up(sine * sine, NINE_ROUNDINGS))

    # ε = log(1 + (γ − 1)), raised by the rounding of the quotient.
    with np.errstate(divide="ignore", invalid="ignore"):
        eps = np.log1p((squared_sine - delta * delta) / (delta - squared_sine))
        eps = round_up(eps, NINE_ROUNDINGS) + THREE_ROUNDINGS * delta / (
            delta - squared_sine
        )

    eps = np.where(squared_sine > delta * delta, eps, 0.0)
    eps = np.where(delta > squared_sine, eps, np.inf)
    return eps if eps.ndim else float(eps)


def rao_tradeoff(theta: Any, alpha: Any) -> Any:
    """Return the smallest type II error that a Hellinger angle θ allows; rounded down.

    A test tells two output distributions at the angle θ apart and makes these errors.
    At the type I error α, the type II error is at least cos²(arcsin√α + θ/2), or 0 if
    the argument of the cosine exceeds π/2. arcsin√α is computed as an arctangent, which
    is accurate near α = 1.

    Parameters
    ----------
    theta : float or array
        The Hellinger angle θ > 0.
    alpha : float or array
        The type I error α in [0, 1]; it broadcasts with `theta`.

    Returns
    -------
    float or array
        The type II error in [0, 1].
    """
    theta = np.asarray(theta, np.float64)
    alpha = np.asarray(alpha, np.float64)

    # The angle α′ with sin² α′ = α. The sum is raised by 2^-50, relative: eight times
    # the unit roundoff, and more than it errs by.
    alpha_angle = np.arctan2(np.sqrt(alpha), np.sqrt(1 - alpha))
    angle = (alpha_angle + theta / 2) * (1 + 2.0**-50)
    squared_cosine = np.cos(np.minimum(angle, np.pi / 2)) ** 2
    beta = np.maximum(round_down(squared_cosine, NINE_ROUNDINGS), 0.0)
    beta = np.where(angle < np.pi / 2, beta, 0.0)
    return beta if np.ndim(beta) else float(beta)
