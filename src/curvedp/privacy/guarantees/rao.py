"""Rao privacy: the angle between two mechanisms on the sphere of square-root densities, and what it implies.

Of the two distances of that name, the *parametric* one within a family and the *Hellinger angle* 2·arccos∫√(pq) among all
densities, the second is never larger and all that is needed here. The largest δ of an angle is Helstrom's bound,
½(1 − γ + √((γ−1)² + 4γ sin²(θ/2))), γ = e^ε, which tends to sin²(θ/2), not to 0, as ε grows. docs/rao.md has the proofs.
"""

from typing import Any

import numpy as np

from curvedp.numerics.directed_rounding import round_down, round_up


def hellinger_from_affinity(minus_log_affinity: Any) -> Any:
    """θ = 2·arccos e^{−x} from x = −log∫√(pq) ≥ 0, accurate for tiny x and for huge x; rounded up."""
    x = np.minimum(
        np.asarray(minus_log_affinity, np.float64), 1e3
    )  # from there on θ = π
    # sin(θ/2) = √(1 − e^{−2x}), cos(θ/2) = e^{−x}
    theta = 2 * np.arctan2(np.sqrt(-np.expm1(-2 * x)), np.exp(-x))
    theta = np.minimum(round_up(theta, 1e-15), np.pi)
    return theta if theta.ndim else float(theta)


def hellinger_compose(thetas: Any, counts: Any = 1) -> float:
    """The angle of a product, adaptive or not: cos(θ/2) = ∏ cos(θᵢ/2)^counts (docs/rao.md, Theorem 1). Beyond π is π."""
    half = np.minimum(np.asarray(thetas, np.float64), np.pi) / 2
    # −log cos x = −½ log1p(−sin² x): keeps the digits of small angles. At π the sine is 1 and the sum infinite.
    with np.errstate(divide="ignore"):
        total = float(
            np.sum(
                -0.5
                * np.asarray(counts)
                * np.log1p(-(np.minimum(np.sin(half), 1.0) ** 2))
            )
        )
    if np.any(half >= np.pi / 2):
        return float(np.pi)
    return float(hellinger_from_affinity(round_up(total, 1e-14)))


def rao_delta(theta: Any, eps: Any) -> Any:
    """The largest δ(ε) of two distributions at Hellinger angle at most θ, exact; rounded up. Arrays broadcast."""
    theta, eps = np.asarray(theta, np.float64), np.asarray(eps, np.float64)
    sine = np.where(
        theta >= np.pi, 1.0, np.maximum(np.sin(np.minimum(theta, np.pi) / 2), 5e-324)
    )
    # δ = 2γs²/((γ−1) + √((γ−1)² + 4γs²)), divided by γ so that ε may be infinite: no term cancels.
    gap = -np.expm1(-eps)
    delta = sine * (2 * sine / (gap + np.hypot(gap, 2 * np.exp(-eps / 2) * sine)))
    delta = np.minimum(round_up(delta, 2e-15), 1.0)
    return delta if delta.ndim else float(delta)


def rao_epsilon(theta: Any, delta: Any) -> Any:
    """The smallest ε with rao_delta(θ, ε) ≤ δ: log(δ(1−δ)/(δ − sin²(θ/2))); infinite for δ ≤ sin²(θ/2). Rounded up."""
    theta, delta = np.asarray(theta, np.float64), np.asarray(delta, np.float64)
    sine = np.sin(np.minimum(theta, np.pi) / 2)
    square = np.where(theta >= np.pi, 1.0, round_up(sine * sine, 1e-15))
    with np.errstate(divide="ignore", invalid="ignore"):
        # The eigenvalue equation λ² − (1−γ)λ − γs² = 0, solved for γ: γ − 1 = (s² − λ²)/(λ − s²).
        eps = np.log1p((square - delta * delta) / (delta - square))
        rounded = round_up(eps, 1e-15) + 4e-16 * delta / (delta - square)
    eps = np.where(
        delta > square, np.where(square > delta * delta, rounded, 0.0), np.inf
    )
    return eps if eps.ndim else float(eps)


def rao_tradeoff(theta: Any, alpha: Any) -> Any:
    """The smallest type II error at type I error α: cos²(arcsin√α + θ/2), 0 once the angle passes π/2. Rounded down."""
    theta, alpha = np.asarray(theta, np.float64), np.asarray(alpha, np.float64)
    turned = np.arctan2(
        np.sqrt(alpha), np.sqrt(1 - alpha)
    )  # arcsin√α would lose half the digits near α = 1
    angle = (turned + theta / 2) * (1 + 2.0**-50)
    beta = np.where(
        angle < np.pi / 2,
        np.maximum(round_down(np.cos(np.minimum(angle, np.pi / 2)) ** 2, 1e-15), 0.0),
        0.0,
    )
    return beta if np.ndim(beta) else float(beta)
