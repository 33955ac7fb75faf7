"""θ of each mechanism of the Rao paper and of the Riemannian Gaussian and Laplace: parametric, and Hellinger angle.

Parametric: sensitivity times the square root of the Fisher information along the shift, which is constant in a location
family, so geodesics are straight and the length is that product. In ℝ^d with independent coordinates the squares add up
(Burbea and Rao 1982), so the sensitivity is the L2 one. On a space of constant curvature the law is isotropic about its
center, so the Fisher metric of the location family is a multiple of the Riemannian metric, E[|∂_η log p|²]/d.

Hellinger: 2·arccos∫√(pq), never larger (`privacy.guarantees.rao`).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy import GDP, ApproxDP, Guarantee, PureDP
from curvedp.privacy.guarantees.rao import hellinger_from_affinity

__all__ = [
    "bernoulli_distance",
    "exponential_distance",
    "gaussian_distance",
    "gaussian_hellinger",
    "gaussian_theta",
    "generalized_gaussian_hellinger",
    "generalized_gaussian_information",
    "generalized_gaussian_theta",
    "laplace_hellinger",
    "laplace_theta",
    "mean_square_radius",
    "parametric_theta",
    "poisson_distance",
    "riemannian_gaussian_theta",
    "riemannian_laplace_theta",
]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS


def parametric_theta(guarantee: Guarantee) -> float:
    """Return θ of Corollaries 4.5 and 4.9 for the mechanism that meets a guarantee.

    It is ε of the Laplace mechanism at pure ε, μ of the Gaussian at μ-GDP, and
    ε/√(2·log(1.25/δ)) of the Gaussian at (ε, δ) by the classical σ (ε < 1).

    The family is named by the guarantee, as in the paper. `curvedp.privacy.convert` names none, so it returns the Hellinger
    angle of the worst law that meets the guarantee, which is another number.

    >>> from curvedp.privacy import GDP, ApproxDP, PureDP
    >>> parametric_theta(PureDP(0.5)), parametric_theta(GDP(0.5)), round(parametric_theta(ApproxDP(0.5, 1e-6)), 6)
    (0.5, 0.5, 0.094361)
    """
    match guarantee:
        case PureDP():
            return float(guarantee.eps)
        case GDP():
            return float(guarantee.mu)
        case ApproxDP(eps=eps, delta0=delta) if eps < 1:
            return float(eps / math.sqrt(2 * math.log(1.25 / delta)))
    raise ParameterError(
        f"{guarantee!r}: Corollaries 4.5 and 4.9 are about pure ε, μ-GDP, and (ε, δ) with ε < 1, δ > 0"
    )


def laplace_theta(sensitivity: float, scale: float) -> float:
    """θ = Δ/σ for density ∝ exp(−|x−μ|/σ), coordinatewise in ℝ^d with L2 sensitivity (Thms 4.4, F.2; E18).

    >>> laplace_theta(1.0, 2.0)
    0.5
    """
    return _validate.length("sensitivity", sensitivity) / _validate.length(
        "scale", scale
    )


def laplace_hellinger(sensitivity: float, scale: float, dim: int = 1) -> float:
    """The Hellinger angle of the Laplace mechanism: affinity ∏e^{−xᵢ}(1+xᵢ), xᵢ = |shiftᵢ|/2σ.

    x − log(1+x) is concave in x², so at a given L2 norm the shift spread evenly over the coordinates is the worst.

    >>> laplace_hellinger(1.0, 2.0) < laplace_theta(1.0, 2.0)
    True
    """
    d = _validate.integer("dim", dim, 1)
    x = laplace_theta(sensitivity, scale) / (2 * math.sqrt(d))
    # x − log(1+x) = ∫₀^x t/(1+t) dt: the difference cancels for small x, the integral does not.
    loss = _integral(lambda t: t / (1 + t), x) if x < 1 else x - math.log1p(x)
    return float(hellinger_from_affinity(round_up(d * loss, 1e-14)))


def gaussian_theta(
    sensitivity: float, sigma: float, *, two_parameter: bool = False
) -> float:
    """θ of the Gaussian mechanism, L2 sensitivity: Δ/σ within the family of fixed σ (Thms 4.8, F.4).

    In the two-parameter family the geodesic may pass through other σ's and is shorter, 2√2·asinh(Δ/(2√2σ)) (E16).

    >>> gaussian_theta(1.0, 2.0), round(gaussian_theta(1.0, 2.0, two_parameter=True), 6)
    (0.5, 0.497432)
    """
    sensitivity, sigma = (
        _validate.length("sensitivity", sensitivity),
        _validate.length("sigma", sigma),
    )
    return (
        float(gaussian_distance(0.0, sigma, sensitivity, sigma))
        if two_parameter
        else sensitivity / sigma
    )


def gaussian_hellinger(sensitivity: float, sigma: float) -> float:
    """The Hellinger angle of the Gaussian mechanism: cos(θ/2) = exp(−Δ²/8σ²).

    >>> gaussian_hellinger(1.0, 2.0) < 0.497432
    True
    """
    theta = gaussian_theta(sensitivity, sigma)
    return float(hellinger_from_affinity(round_up(theta * theta / 8, 1e-15)))


def gaussian_distance(mean1: Any, sd1: Any, mean2: Any, sd2: Any) -> Any:
    """Rao's distance in the family N(mean, sd²) with both parameters free (Example 1, without its factor 2: E15).

    √2·log((A+B)/(A−B)), A² = (μ₁−μ₂)² + 2(σ₁+σ₂)², B² = (μ₁−μ₂)² + 2(σ₁−σ₂)²; as A² − B² = 8σ₁σ₂ this is
    2√2·asinh(B/√(8σ₁σ₂)), which keeps its digits. Arrays broadcast.

    >>> round(gaussian_distance(0.0, 1.0, 0.0, math.e), 12)  # √2·|log σ₂/σ₁|
    1.414213562373
    """
    mean1, sd1, mean2, sd2 = (
        np.asarray(v, np.float64) for v in (mean1, sd1, mean2, sd2)
    )
    if not np.all((sd1 > 0) & (sd2 > 0) & np.isfinite(sd1 + sd2 + mean1 + mean2)):
        raise ParameterError(
            "gaussian_distance: standard deviations must be finite and > 0, means finite"
        )
    b = np.hypot(mean1 - mean2, math.sqrt(2) * (sd1 - sd2))
    distance = (
        2 * math.sqrt(2) * np.arcsinh(b / (math.sqrt(8) * np.sqrt(sd1) * np.sqrt(sd2)))
    )
    return distance if distance.ndim else float(distance)


def generalized_gaussian_information(scale: float, power: float) -> float:
    """The Fisher information NΓ(2−1/N)/(σ²Γ(1+1/N)) of the location of exp(−(|x−μ|/σ)^N) (App. E; E17); N > ½.

    >>> round(generalized_gaussian_information(math.sqrt(2), 2.0), 12)  # N = 2 is the normal law of sd σ/√2
    1.0
    """
    scale = _validate.length("scale", scale)
    n = _validate.within("power", power, 0.5, math.inf, open_low=True, open_high=True)
    return n * math.exp(gammaln(2 - 1 / n) - gammaln(1 + 1 / n)) / (scale * scale)


def generalized_gaussian_theta(sensitivity: float, scale: float, power: float) -> float:
    """θ = Δ·√(Fisher information) of the generalized Gaussian mechanism, L2 sensitivity (Thm E.3; E17).

    >>> generalized_gaussian_theta(1.0, 2.0, 1.0) == laplace_theta(1.0, 2.0)
    True
    """
    sensitivity = _validate.length("sensitivity", sensitivity)
    return sensitivity * math.sqrt(generalized_gaussian_information(scale, power))


def generalized_gaussian_hellinger(
    sensitivity: float, scale: float, power: float
) -> float:
    """The Hellinger angle of the one-dimensional generalized Gaussian mechanism, N >= 1, by quadrature.

    θ = 4·arcsin(‖√p − √q‖/2), the chord integrated without cancellation; relative error about 1e-10, rounded up by it.

    >>> abs(generalized_gaussian_hellinger(1.0, 2.0, 2.0) - gaussian_hellinger(1.0, math.sqrt(2))) < 1e-9
    True
    """
    n = _validate.within("power", power, 1, math.inf, open_high=True)
    shift = laplace_theta(sensitivity, scale)  # Δ/σ: work in units of σ
    norm = math.exp(-gammaln(1 + 1 / n)) / 2
    # p is centered at −s/2, q at s/2; the integrand is even about 0 and not smooth only at the centers.
    reach = shift / 2 + 90 ** (1 / n)
    cuts = np.unique(
        np.concatenate(
            [np.linspace(0, shift / 2, 65), np.linspace(shift / 2, reach, 257)]
        )
    )
    x = cuts[:-1, None] + np.diff(cuts)[:, None] * _NODES
    near, far = np.abs(x - shift / 2) ** n / 2, (x + shift / 2) ** n / 2
    chord = np.exp(-2 * near) * np.expm1(near - far) ** 2
    square = 2 * norm * float(np.sum(np.diff(cuts)[:, None] * _WEIGHTS * chord))
    angle: float = round_up(
        4 * math.asin(min(math.sqrt(square) / 2, math.sqrt(0.5))), 1e-10
    )
    return min(angle, math.pi)


def bernoulli_distance(p: Any, q: Any) -> Any:
    """Rao's distance of two coins, 2|arcsin√p − arcsin√q|: the Hellinger angle, for the family is the whole circle.

    >>> round(bernoulli_distance(0.0, 1.0), 12)
    3.14159265359
    """
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    distance = 2 * np.abs(
        np.arctan2(np.sqrt(p), np.sqrt(1 - p)) - np.arctan2(np.sqrt(q), np.sqrt(1 - q))
    )
    return distance if distance.ndim else float(distance)


def poisson_distance(rate1: Any, rate2: Any) -> Any:
    """Rao's distance of two Poisson laws, 2|√λ₁ − √λ₂|.

    >>> poisson_distance(4.0, 9.0)
    2.0
    """
    distance = 2 * np.abs(
        np.sqrt(np.asarray(rate1, np.float64)) - np.sqrt(np.asarray(rate2, np.float64))
    )
    return distance if distance.ndim else float(distance)


def exponential_distance(rate1: Any, rate2: Any) -> Any:
    """Rao's distance of two exponential laws, |log λ₁/λ₂|.

    >>> exponential_distance(1.0, math.e)
    1.0
    """
    distance = np.abs(
        np.log(np.asarray(rate1, np.float64)) - np.log(np.asarray(rate2, np.float64))
    )
    return distance if distance.ndim else float(distance)


def riemannian_laplace_theta(sensitivity: float, scale: float, dim: int) -> float:
    """θ = Δ/(σ√d) for density ∝ exp(−dist/σ) on constant curvature: the score is a unit vector over σ, isotropic.

    >>> riemannian_laplace_theta(1.0, 1.0, 4)
    0.5
    """
    return laplace_theta(sensitivity, scale) / math.sqrt(
        _validate.integer("dim", dim, 1)
    )


def riemannian_gaussian_theta(
    sensitivity: float,
    sigma: float,
    dim: int,
    *,
    curvature: float = 0.0,
    mean_square: float | None = None,
) -> float:
    """θ = Δ·√(E[r²]/d)/σ² for density ∝ exp(−dist²/2σ²) on constant curvature; E[r²] by quadrature unless given.

    On curvature 0 it is Δ/σ. On negative curvature it is more, on positive curvature less.

    >>> riemannian_gaussian_theta(1.0, 2.0, 3, mean_square=12.0)
    0.5
    >>> riemannian_gaussian_theta(1.0, 1.0, 2, curvature=1.0) < 1 < riemannian_gaussian_theta(1.0, 1.0, 2, curvature=-1.0)
    True
    """
    sensitivity, sigma = (
        _validate.length("sensitivity", sensitivity),
        _validate.length("sigma", sigma),
    )
    d = _validate.integer("dim", dim, 1)
    square = (
        mean_square_radius(curvature, d, sigma) if mean_square is None else mean_square
    )
    return (
        sensitivity
        * math.sqrt(_validate.positive("mean_square", square) / d)
        / sigma**2
    )


def mean_square_radius(curvature: float, dim: int, sigma: float) -> float:
    """E[r²] of the radial density ∝ exp(−r²/2σ²)·sn(r)^{d−1}, sn = sin, identity or sinh by the curvature's sign.

    >>> round(mean_square_radius(0.0, 3, 2.0), 9)
    12.0
    """
    kappa = _validate.within(
        "curvature", curvature, -math.inf, math.inf, open_low=True, open_high=True
    )
    d, sigma = _validate.integer("dim", dim, 1), _validate.length("sigma", sigma)
    root = math.sqrt(abs(kappa))
    if root == 0:
        return d * sigma * sigma
    end = math.pi / root if kappa > 0 else math.inf

    def log_density(r: Any) -> Any:
        x = root * r
        if kappa > 0:
            log_sn = np.log(np.where(x < 3, np.sin(x), np.sin(math.pi - x)))
        else:
            log_sn = np.where(
                x > 1,
                x + np.log1p(-np.exp(-2 * np.maximum(x, 1.0))),
                np.log(2 * np.sinh(np.minimum(x, 1.0))),
            )
        return -r * r / (2 * sigma * sigma) + (d - 1) * log_sn

    # The density is log-concave: its mode, where r/σ² = (d−1)·cot-like, by bisection of the derivative; then a window
    # around it that grows until the log density has fallen by 50.
    top = end if kappa > 0 else sigma * (math.sqrt(d) + 1) + sigma * sigma * root * d
    low, high = 0.0, top
    for _ in range(200):
        mid = 0.5 * (low + high)
        x = root * mid
        slope = (
            (d - 1) * root / (math.tan(x) if kappa > 0 else math.tanh(x))
            if x > 0
            else math.inf
        )
        low, high = (mid, high) if slope > mid / sigma**2 else (low, mid)
    mode = max(low, 1e-300) if d > 1 else 0.0
    with np.errstate(divide="ignore"):
        peak = float(log_density(np.float64(mode))) if d > 1 else 0.0
        left, right = (
            _fall(log_density, mode, peak, -1, end),
            _fall(log_density, mode, peak, 1, end),
        )
        cuts = np.unique(
            np.concatenate([np.linspace(left, mode, 33), np.linspace(mode, right, 33)])
        )
        r = cuts[:-1, None] + np.diff(cuts)[:, None] * _NODES
        weight = np.diff(cuts)[:, None] * _WEIGHTS * np.exp(log_density(r) - peak)
    return float(np.sum(weight * r * r) / np.sum(weight))


def _fall(
    log_density: Callable[[Any], Any], mode: float, peak: float, sign: int, end: float
) -> float:
    """Where, going from the mode to one side, a log-concave density has fallen by e^-50; or the end of its range."""
    bound = 0.0 if sign < 0 else end
    step = max(mode, 1e-8) * 1e-6
    while True:
        r = mode + sign * step
        if (sign < 0 and r <= bound) or (sign > 0 and r >= bound):
            return bound
        if log_density(np.float64(r)) < peak - 50:
            return r
        step *= 1.25


def _integral(f: Callable[[Any], Any], x: float) -> float:
    return float(x * np.sum(_WEIGHTS * f(x * _NODES)))
