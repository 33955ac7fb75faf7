"""The Rao distance θ of each mechanism of the Rao paper.

There are two notions, and a function for each.

- *Parametric* (functions `…_theta`): the sensitivity times the square root of the Fisher
  information along the shift. It is constant in a location family, so that geodesics
  are straight. In ℝᵈ with independent coordinates the squares add up (Burbea and Rao
  1982), so that the sensitivity is the one in the L2 norm. On a space of constant
  curvature the law is isotropic about its center, and the Fisher metric of the location
  family is the Riemannian metric times E|∂ log p|²/d.
- *Hellinger* (functions `…_hellinger`): the angle 2·arccos ∫√(pq), which is never larger.
  Post-processing holds for it (`curvedp.privacy.guarantees.rao`).

The functions `…_distance` are Rao's distances within a family of laws.
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

# The Gauss–Legendre rule on [0, 1].
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS

# Where a log-density has fallen by this much, the rest is left out of an integral.
_NEGLIGIBLE_FALL = 50


def parametric_theta(guarantee: Guarantee) -> float:
    """Return θ of Corollaries 4.5 and 4.9 for the mechanism that meets a guarantee.

    The guarantee names the family, as in the paper. (`curvedp.privacy.convert` names
    none, and returns the Hellinger angle of the worst law that meets the guarantee.)

    Parameters
    ----------
    guarantee : PureDP, GDP or ApproxDP
        Pure ε stands for the Laplace mechanism, whose θ is ε. μ-GDP stands for the
        Gaussian, whose θ is μ. (ε, δ) with ε < 1 stands for the Gaussian by the
        classical σ, whose θ is ε/√(2·log(1.25/δ)).

    Raises
    ------
    ParameterError
        For any other guarantee.

    Examples
    --------
    >>> from curvedp.privacy import GDP, ApproxDP, PureDP
    >>> parametric_theta(PureDP(0.5)), parametric_theta(GDP(0.5))
    (0.5, 0.5)
    >>> round(parametric_theta(ApproxDP(0.5, 1e-6)), 6)
    0.094361
    """
    match guarantee:
        case PureDP():
            return float(guarantee.eps)
        case GDP():
            return float(guarantee.mu)
        case ApproxDP(eps=eps, delta0=delta) if eps < 1:
            return float(eps / math.sqrt(2 * math.log(1.25 / delta)))
    raise ParameterError(
        f"{guarantee!r}: Corollaries 4.5 and 4.9 are about pure ε, μ-GDP, "
        "and (ε, δ) with ε < 1, δ > 0"
    )


# --- the Laplace mechanism


def laplace_theta(sensitivity: float, scale: float) -> float:
    """Return θ = Δ/σ of independent Laplace noise (Theorems 4.4 and F.2; E18).

    Parameters
    ----------
    sensitivity : float
        Δ, in the L2 norm.
    scale : float
        σ of the density ∝ exp(−|x − μ|/σ) of every coordinate.

    Examples
    --------
    >>> laplace_theta(1.0, 2.0)
    0.5
    """
    sensitivity = _validate.length("sensitivity", sensitivity)
    return sensitivity / _validate.length("scale", scale)


def laplace_hellinger(sensitivity: float, scale: float, dim: int = 1) -> float:
    """Return the Hellinger angle of independent Laplace noise.

    With xᵢ = |shiftᵢ|/2σ the affinity is ∏ e^{−xᵢ}(1 + xᵢ). Since x − log(1 + x) is
    concave in x², of all shifts of one L2 norm the one that is spread evenly over the
    coordinates is the worst.

    Parameters
    ----------
    sensitivity : float
        Δ, in the L2 norm.
    scale : float
        σ.
    dim : int
        Number of coordinates.

    Examples
    --------
    >>> laplace_hellinger(1.0, 2.0) < laplace_theta(1.0, 2.0)
    True
    """
    d = _validate.integer("dim", dim, 1)
    x = laplace_theta(sensitivity, scale) / (2 * math.sqrt(d))
    if x < 1:
        # x − log(1 + x) = ∫₀ˣ t/(1 + t) dt: the difference cancels, the integral does not.
        loss = _integral(lambda t: t / (1 + t), x)
    else:
        loss = x - math.log1p(x)
    return float(hellinger_from_affinity(round_up(d * loss, 1e-14)))


# --- the Gaussian mechanism


def gaussian_theta(
    sensitivity: float, sigma: float, *, two_parameter: bool = False
) -> float:
    """Return θ of the Gaussian mechanism (Theorems 4.8 and F.4).

    Within the family of fixed σ it is Δ/σ. In the family with σ free the geodesic may
    pass through other σ and is shorter: 2√2·asinh(Δ/(2√2·σ)) (E16).

    Parameters
    ----------
    sensitivity : float
        Δ, in the L2 norm.
    sigma : float
        σ.
    two_parameter : bool
        Whether σ is free.

    Examples
    --------
    >>> gaussian_theta(1.0, 2.0), round(gaussian_theta(1.0, 2.0, two_parameter=True), 6)
    (0.5, 0.497432)
    """
    sensitivity = _validate.length("sensitivity", sensitivity)
    sigma = _validate.length("sigma", sigma)
    if two_parameter:
        return float(gaussian_distance(0.0, sigma, sensitivity, sigma))
    return sensitivity / sigma


def gaussian_hellinger(sensitivity: float, sigma: float) -> float:
    """Return the Hellinger angle of the Gaussian mechanism: cos(θ/2) = exp(−Δ²/8σ²).

    Parameters
    ----------
    sensitivity : float
        Δ, in the L2 norm.
    sigma : float
        σ.

    Examples
    --------
    >>> gaussian_hellinger(1.0, 2.0) < 0.497432
    True
    """
    theta = gaussian_theta(sensitivity, sigma)
    return float(hellinger_from_affinity(round_up(theta * theta / 8, 1e-15)))


def gaussian_distance(mean1: Any, sd1: Any, mean2: Any, sd2: Any) -> Any:
    """Return Rao's distance of two normal laws of one dimension, both parameters free.

    It is √2·log((A + B)/(A − B)) with A² = (μ₁ − μ₂)² + 2(σ₁ + σ₂)² and
    B² = (μ₁ − μ₂)² + 2(σ₁ − σ₂)²: Example 1 of the paper without its factor 2 (E15).
    Since A² − B² = 8σ₁σ₂ this is 2√2·asinh(B/√(8σ₁σ₂)), whose digits do not cancel. For
    more dimensions see `papers.rao.normal_distance`.

    Parameters
    ----------
    mean1, sd1, mean2, sd2 : float or array
        Means and standard deviations; they broadcast.

    Returns
    -------
    float or array

    Examples
    --------
    >>> round(gaussian_distance(0.0, 1.0, 0.0, math.e), 12)  # √2·|log σ₂/σ₁|
    1.414213562373
    """
    mean1, sd1 = np.asarray(mean1, np.float64), np.asarray(sd1, np.float64)
    mean2, sd2 = np.asarray(mean2, np.float64), np.asarray(sd2, np.float64)
    are_finite = np.isfinite(sd1 + sd2 + mean1 + mean2)
    if not np.all((sd1 > 0) & (sd2 > 0) & are_finite):
        raise ParameterError(
            "gaussian_distance: standard deviations must be finite and > 0, means finite"
        )
    b = np.hypot(mean1 - mean2, math.sqrt(2) * (sd1 - sd2))
    root = math.sqrt(8) * np.sqrt(sd1) * np.sqrt(sd2)
    distance = 2 * math.sqrt(2) * np.arcsinh(b / root)
    return _float_or_array(distance)


# --- the generalized Gaussian mechanism


def generalized_gaussian_information(scale: float, power: float) -> float:
    """Return the Fisher information of the location of exp(−(|x − μ|/σ)^N).

    It is NΓ(2 − 1/N)/(σ²Γ(1 + 1/N)) for N > ½ (Appendix E; E17).

    Parameters
    ----------
    scale : float
        σ.
    power : float
        N.

    Examples
    --------
    The power 2 is the normal law of standard deviation σ/√2.

    >>> round(generalized_gaussian_information(math.sqrt(2), 2.0), 12)
    1.0
    """
    scale = _validate.length("scale", scale)
    n = _validate.within("power", power, 0.5, math.inf, open_low=True, open_high=True)
    return n * math.exp(gammaln(2 - 1 / n) - gammaln(1 + 1 / n)) / (scale * scale)


def generalized_gaussian_theta(sensitivity: float, scale: float, power: float) -> float:
    """Return θ of the generalized Gaussian mechanism (Theorem E.3; E17).

    It is Δ times the square root of the Fisher information.

    Parameters
    ----------
    sensitivity : float
        Δ, in the L2 norm.
    scale, power : float
        σ and N.

    Examples
    --------
    >>> generalized_gaussian_theta(1.0, 2.0, 1.0) == laplace_theta(1.0, 2.0)
    True
    """
    sensitivity = _validate.length("sensitivity", sensitivity)
    return sensitivity * math.sqrt(generalized_gaussian_information(scale, power))


def generalized_gaussian_hellinger(
    sensitivity: float, scale: float, power: float
) -> float:
    """Return the Hellinger angle of the generalized Gaussian mechanism on a number.

    θ = 4·arcsin(‖√p − √q‖/2), where the chord is integrated without cancellation. The
    relative error is about 1e-10, and the result is rounded up by it.

    Parameters
    ----------
    sensitivity : float
        Δ.
    scale : float
        σ.
    power : float
        N ≥ 1.

    Examples
    --------
    >>> angle = generalized_gaussian_hellinger(1.0, 2.0, 2.0)
    >>> abs(angle - gaussian_hellinger(1.0, math.sqrt(2))) < 1e-9
    True
    """
    n = _validate.within("power", power, 1, math.inf, open_high=True)
    # In units of σ, p is centered at −shift/2 and q at shift/2. The integrand is even,
    # and smooth but at the centers.
    shift = laplace_theta(sensitivity, scale)
    constant = math.exp(-gammaln(1 + 1 / n)) / 2
    reach = shift / 2 + 90 ** (1 / n)
    inner_cuts = np.linspace(0, shift / 2, 65)
    outer_cuts = np.linspace(shift / 2, reach, 257)
    cuts = np.unique(np.concatenate([inner_cuts, outer_cuts]))
    widths = np.diff(cuts)[:, None]
    x = cuts[:-1, None] + widths * _NODES

    near = np.abs(x - shift / 2) ** n / 2
    far = (x + shift / 2) ** n / 2
    chord = np.exp(-2 * near) * np.expm1(near - far) ** 2
    square = 2 * constant * float(np.sum(widths * _WEIGHTS * chord))
    half_chord = min(math.sqrt(square) / 2, math.sqrt(0.5))
    angle: float = round_up(4 * math.asin(half_chord), 1e-10)
    return min(angle, math.pi)


# --- other families


def bernoulli_distance(p: Any, q: Any) -> Any:
    """Return Rao's distance of two coins, 2|arcsin √p − arcsin √q|.

    It is the Hellinger angle too, because the family is the whole circle.

    Parameters
    ----------
    p, q : float or array
        Probabilities of heads; they broadcast.

    Examples
    --------
    >>> round(bernoulli_distance(0.0, 1.0), 12)
    3.14159265359
    """
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    first = np.arctan2(np.sqrt(p), np.sqrt(1 - p))
    second = np.arctan2(np.sqrt(q), np.sqrt(1 - q))
    return _float_or_array(2 * np.abs(first - second))


def poisson_distance(rate1: Any, rate2: Any) -> Any:
    """Return Rao's distance of two Poisson laws, 2|√λ₁ − √λ₂|.

    Parameters
    ----------
    rate1, rate2 : float or array
        λ₁ and λ₂; they broadcast.

    Examples
    --------
    >>> poisson_distance(4.0, 9.0)
    2.0
    """
    first = np.sqrt(np.asarray(rate1, np.float64))
    second = np.sqrt(np.asarray(rate2, np.float64))
    return _float_or_array(2 * np.abs(first - second))


def exponential_distance(rate1: Any, rate2: Any) -> Any:
    """Return Rao's distance of two exponential laws, |log λ₁/λ₂|.

    Parameters
    ----------
    rate1, rate2 : float or array
        λ₁ and λ₂; they broadcast.

    Examples
    --------
    >>> exponential_distance(1.0, math.e)
    1.0
    """
    first = np.log(np.asarray(rate1, np.float64))
    second = np.log(np.asarray(rate2, np.float64))
    return _float_or_array(np.abs(first - second))


# --- spaces of constant curvature


def riemannian_laplace_theta(sensitivity: float, scale: float, dim: int) -> float:
    """Return θ = Δ/(σ√d) of the density ∝ exp(−dist/σ) on constant curvature.

    The score is a unit vector over σ, in a direction that is uniform.

    Parameters
    ----------
    sensitivity : float
        Δ.
    scale : float
        σ.
    dim : int
        d.

    Examples
    --------
    >>> riemannian_laplace_theta(1.0, 1.0, 4)
    0.5
    """
    d = _validate.integer("dim", dim, 1)
    return laplace_theta(sensitivity, scale) / math.sqrt(d)


def riemannian_gaussian_theta(
    sensitivity: float,
    sigma: float,
    dim: int,
    *,
    curvature: float = 0.0,
    mean_square: float | None = None,
) -> float:
    """Return θ = Δ·√(E r²/d)/σ² of the density ∝ exp(−dist²/2σ²) on constant curvature.

    It is Δ/σ on curvature 0, more on negative curvature, and less on positive.

    Parameters
    ----------
    sensitivity : float
        Δ.
    sigma : float
        σ.
    dim : int
        d.
    curvature : float
        Of the space.
    mean_square : float, optional
        E r²; by quadrature if omitted.

    Examples
    --------
    >>> riemannian_gaussian_theta(1.0, 2.0, 3, mean_square=12.0)
    0.5
    >>> riemannian_gaussian_theta(1.0, 1.0, 2, curvature=1.0) < 1
    True
    >>> riemannian_gaussian_theta(1.0, 1.0, 2, curvature=-1.0) > 1
    True
    """
    sensitivity = _validate.length("sensitivity", sensitivity)
    sigma = _validate.length("sigma", sigma)
    d = _validate.integer("dim", dim, 1)
    if mean_square is None:
        mean_square = mean_square_radius(curvature, d, sigma)
    mean_square = _validate.positive("mean_square", mean_square)
    return sensitivity * math.sqrt(mean_square / d) / sigma**2


def mean_square_radius(curvature: float, dim: int, sigma: float) -> float:
    """Return E r² of the radial density ∝ exp(−r²/2σ²)·sn(r)^{d−1}.

    sn is the sine, the identity or the hyperbolic sine, by the sign of the curvature.

    Parameters
    ----------
    curvature : float
        Of the space.
    dim : int
        d.
    sigma : float
        σ.

    Examples
    --------
    >>> round(mean_square_radius(0.0, 3, 2.0), 9)
    12.0
    """
    kappa = _validate.within(
        "curvature", curvature, -math.inf, math.inf, open_low=True, open_high=True
    )
    d = _validate.integer("dim", dim, 1)
    sigma = _validate.length("sigma", sigma)
    root = math.sqrt(abs(kappa))
    if root == 0:
        return d * sigma * sigma

    is_sphere = kappa > 0
    end = math.pi / root if is_sphere else math.inf

    def log_density(r: Any) -> Any:
        log_sn = _log_sine(root * r) if is_sphere else _log_hyperbolic_sine(root * r)
        return -r * r / (2 * sigma * sigma) + (d - 1) * log_sn

    mode = 0.0
    if d > 1:
        largest = sigma * (math.sqrt(d) + 1) + sigma * sigma * root * d
        mode = _mode(d, sigma, root, end if is_sphere else largest, is_sphere=is_sphere)
    with np.errstate(divide="ignore"):
        peak = float(log_density(np.float64(mode))) if d > 1 else 0.0
        left = _fall(log_density, mode, peak, -1, 0.0)
        right = _fall(log_density, mode, peak, 1, end)
        cuts = np.unique(
            np.concatenate([np.linspace(left, mode, 33), np.linspace(mode, right, 33)])
        )
        widths = np.diff(cuts)[:, None]
        r = cuts[:-1, None] + widths * _NODES
        weight = widths * _WEIGHTS * np.exp(log_density(r) - peak)
    return float(np.sum(weight * r * r) / np.sum(weight))


def _log_sine(x: Any) -> Any:
    """Return log sin x on [0, π], with all digits at both ends."""
    return np.log(np.where(x < 3, np.sin(x), np.sin(math.pi - x)))


def _log_hyperbolic_sine(x: Any) -> Any:
    """Return log(2·sinh x), with all digits near 0 and no overflow."""
    large = x + np.log1p(-np.exp(-2 * np.maximum(x, 1.0)))
    small = np.log(2 * np.sinh(np.minimum(x, 1.0)))
    return np.where(x > 1, large, small)


def _mode(dim: int, sigma: float, root: float, top: float, *, is_sphere: bool) -> float:
    """Return the mode of the radial density on [0, top], by bisection of its slope.

    The density is log-concave. At the mode r/σ² = (d − 1)·sn′(r)/sn(r).
    """
    tangent = math.tan if is_sphere else math.tanh
    low, high = 0.0, top
    for _ in range(200):
        middle = 0.5 * (low + high)
        x = root * middle
        slope = (dim - 1) * root / tangent(x) if x > 0 else math.inf
        if slope > middle / sigma**2:
            low = middle
        else:
            high = middle
    return max(low, 1e-300)


def _fall(
    log_density: Callable[[Any], Any], mode: float, peak: float, sign: int, bound: float
) -> float:
    """Return where a log-concave density has become negligible, on one side of its mode.

    Parameters
    ----------
    log_density : callable
    mode, peak : float
        The mode, and the log-density there.
    sign : {-1, 1}
        The side.
    bound : float
        The end of the range on that side, which is returned where it comes first.
    """
    step = max(mode, 1e-8) * 1e-6
    while True:
        r = mode + sign * step
        is_beyond = r <= bound if sign < 0 else r >= bound
        if is_beyond:
            return bound
        if log_density(np.float64(r)) < peak - _NEGLIGIBLE_FALL:
            return r
        step *= 1.25


def _integral(function: Callable[[Any], Any], x: float) -> float:
    """Return ∫₀ˣ of a smooth function."""
    return float(x * np.sum(_WEIGHTS * function(x * _NODES)))


def _float_or_array(value: Any) -> Any:
    """Return a float for an array without axes, and any other array as it is."""
    return value if value.ndim else float(value)
