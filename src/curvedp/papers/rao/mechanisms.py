"""The Rao distance θ between the output laws of each mechanism of the Rao paper, for
neighboring data sets. There are two notions of distance, and a function for each.

- *Parametric* (functions `…_theta`): the sensitivity times the square root of the Fisher
  information along the shift. The information is constant in a location family, so that
  geodesics are straight. In ℝᵈ with independent coordinates the squared distances add
  up (Burbea and Rao 1982), so that the sensitivity is that in the L2 norm. On a space of
  constant curvature the law is isotropic about its center, and the Fisher metric of the
  location family is the Riemannian metric times E|∂ log p|²/d.
- *Hellinger* (functions `…_hellinger`): the angle 2·arccos ∫√(pq), which is never larger.
  Post-processing does not enlarge it (`curvedp.privacy.guarantees.rao`).

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
    """Return Rao's distance θ = Δ/σ of neighboring outputs with Laplace noise.

    The noise is independent in every coordinate (Theorems 4.4 and F.2 of the paper; E18
    in docs/errata.md).

    Parameters
    ----------
    sensitivity : float
        Δ > 0, how far one record moves the statistic, in the L2 norm.
    scale : float
        σ > 0 of the density ∝ exp(−|x − μ|/σ) of every coordinate.

    Returns
    -------
    float
        θ, the distance within the family of Laplace laws of that scale.

    Examples
    --------
    >>> laplace_theta(1.0, 2.0)
    0.5
    """
    sensitivity = _validate.length("sensitivity", sensitivity)
    return sensitivity / _validate.length("scale", scale)


def laplace_hellinger(sensitivity: float, scale: float, dim: int = 1) -> float:
    """Return the Hellinger angle of independent Laplace noise.

    It is θ = 2·arccos ∫√(pq) of neighboring outputs' densities p and q, and post-processing
    does not enlarge it. If the statistic moves by s, then with xᵢ = |sᵢ|/2σ the integral is
    ∏ e^{−xᵢ}(1 + xᵢ). Since x − log(1 + x) is concave in x², of all moves of one L2 norm
    the one that is spread evenly over the coordinates is the worst.

    Parameters
    ----------
    sensitivity : float
        Δ > 0, how far one record moves the statistic, in the L2 norm.
    scale : float
        σ > 0 of the density ∝ exp(−|x − μ|/σ) of every coordinate.
    dim : int
        Number of coordinates.

    Returns
    -------
    float
        θ in (0, π], rounded up; at most `laplace_theta`.

    Examples
    --------
    >>> laplace_hellinger(1.0, 2.0) < laplace_theta(1.0, 2.0)
    True
    """
    d = _validate.integer("dim", dim, 1)
    x = laplace_theta(sensitivity, scale) / (2 * math.sqrt(d))
    if x < 1:
        # x − log(1 + x) = ∫₀ˣ t/(1 + t) dt: the difference cancels, the integral does not.
        minus_log_affinity = d * _integral(lambda t: t / (1 + t), x)
    else:
        minus_log_affinity = d * (x - math.log1p(x))
    return float(hellinger_from_affinity(round_up(minus_log_affinity, 1e-14)))


# --- the Gaussian mechanism


def gaussian_theta(
    sensitivity: float, sigma: float, *, two_parameter: bool = False
) -> float:
    """Return Rao's distance θ of neighboring outputs with Gaussian noise.

    Within the family of normal laws of one σ it is Δ/σ (Theorems 4.8 and F.4 of the
    paper), which is also the μ of Gaussian DP. In the family with σ free the shortest
    path may pass through other σ: 2√2·asinh(Δ/(2√2·σ)) (E16 in docs/errata.md).

    Parameters
    ----------
    sensitivity : float
        Δ > 0, how far one record moves the statistic, in the L2 norm.
    sigma : float
        σ > 0, the standard deviation of the noise of each coordinate.
    two_parameter : bool
        Whether σ is free along the path.

    Returns
    -------
    float
        θ, the distance within the family.

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

    It is the angle 2·arccos ∫√(pq) of neighboring outputs' densities p and q.

    Parameters
    ----------
    sensitivity : float
        Δ > 0, how far one record moves the statistic, in the L2 norm.
    sigma : float
        σ > 0, the standard deviation of the noise of each coordinate.

    Returns
    -------
    float
        θ in (0, π], rounded up; at most `gaussian_theta`.

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
        Means μ₁, μ₂ and standard deviations σ₁, σ₂ > 0; they broadcast.

    Returns
    -------
    float or array
        The distance, one for each pair of laws.

    Raises
    ------
    ParameterError
        If a standard deviation is not > 0, or a number is not finite.

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

    It is NΓ(2 − 1/N)/(σ²Γ(1 + 1/N)) for N > ½ (Appendix E of the paper; E17 in
    docs/errata.md). Its square root times the sensitivity is Rao's distance.

    Parameters
    ----------
    scale : float
        σ > 0, the length by which deviations are divided.
    power : float
        N > ½; below, the information is infinite.

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
    """Return Rao's distance θ of neighboring outputs with generalized Gaussian noise.

    The noise of each coordinate has the density ∝ exp(−(|x|/σ)^N). θ is Δ times the
    square root of its Fisher information (Theorem E.3 of the paper; E17 in
    docs/errata.md).

    Parameters
    ----------
    sensitivity : float
        Δ > 0, how far one record moves the statistic, in the L2 norm.
    scale : float
        σ > 0, the length by which noise is divided in the density.
    power : float
        N > ½, the power in the exponent.

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

    The densities p and q of neighboring outputs are ∝ exp(−(|x − c|/σ)^N) about two
    centers c a distance Δ apart, and θ = 2·arccos ∫√(pq) = 4·arcsin(‖√p − √q‖/2). The
    chord ‖√p − √q‖ is integrated without cancellation, so that small angles keep their
    digits. The relative error is about 1e-10, and the result is rounded up by it.

    Parameters
    ----------
    sensitivity : float
        Δ > 0, how far one record moves the number.
    scale : float
        σ > 0, the length by which noise is divided in the density.
    power : float
        N ≥ 1, the power in the exponent.

    Returns
    -------
    float
        θ in (0, π].

    Examples
    --------
    >>> angle = generalized_gaussian_hellinger(1.0, 2.0, 2.0)
    >>> abs(angle - gaussian_hellinger(1.0, math.sqrt(2))) < 1e-9
    True
    """
    n = _validate.within("power", power, 1, math.inf, open_high=True)
    # In units of σ, p is centered at −shift/2 and q at shift/2. The integrand is even,
    # so half of it is integrated. It is smooth except at the centers, where panels end.
    shift = _validate.length("sensitivity", sensitivity)
    shift /= _validate.length("scale", scale)
    reach = shift / 2 + 90 ** (1 / n)  # beyond, densities are below e^{−90}
    inner_edges = np.linspace(0, shift / 2, 65)
    outer_edges = np.linspace(shift / 2, reach, 257)
    edges = np.unique(np.concatenate([inner_edges, outer_edges]))
    widths = np.diff(edges)[:, None]
    x = edges[:-1, None] + widths * _NODES

    # (√p − √q)² = q·(1 − √(p/q))², without the normalizer.
    half_exponent_of_q = np.abs(x - shift / 2) ** n / 2
    half_exponent_of_p = (x + shift / 2) ** n / 2
    relative_difference = np.expm1(half_exponent_of_q - half_exponent_of_p)
    squared_difference = np.exp(-2 * half_exponent_of_q) * relative_difference**2
    normalizer = math.exp(-gammaln(1 + 1 / n)) / 2
    integral = float(np.sum(widths * _WEIGHTS * squared_difference))
    chord = math.sqrt(2 * normalizer * integral)
    angle: float = round_up(4 * math.asin(min(chord / 2, math.sqrt(0.5))), 1e-10)
    return min(angle, math.pi)


# --- other families


def bernoulli_distance(p: Any, q: Any) -> Any:
    """Return Rao's distance of two coins, 2|arcsin √p − arcsin √q|.

    It is the Hellinger angle too, because the family is the whole circle.

    Parameters
    ----------
    p, q : float or array
        Probabilities of heads in [0, 1]; they broadcast.

    Raises
    ------
    ParameterError
        If a number is not a probability.

    Examples
    --------
    >>> round(bernoulli_distance(0.0, 1.0), 12)
    3.14159265359
    """
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    if not (np.all((p >= 0) & (p <= 1)) and np.all((q >= 0) & (q <= 1))):
        raise ParameterError("p and q must be probabilities in [0, 1]")
    first = np.arctan2(np.sqrt(p), np.sqrt(1 - p))
    second = np.arctan2(np.sqrt(q), np.sqrt(1 - q))
    return _float_or_array(2 * np.abs(first - second))


def poisson_distance(rate1: Any, rate2: Any) -> Any:
    """Return Rao's distance of two Poisson laws, 2|√λ₁ − √λ₂|.

    Parameters
    ----------
    rate1, rate2 : float or array
        λ₁ and λ₂ ≥ 0, finite; they broadcast.

    Raises
    ------
    ParameterError
        If a rate is negative or not finite.

    Examples
    --------
    >>> poisson_distance(4.0, 9.0)
    2.0
    """
    first = np.sqrt(_check_rates("rate1", rate1, smallest=0.0))
    second = np.sqrt(_check_rates("rate2", rate2, smallest=0.0))
    return _float_or_array(2 * np.abs(first - second))


def exponential_distance(rate1: Any, rate2: Any) -> Any:
    """Return Rao's distance of two exponential laws, |log λ₁/λ₂|.

    Parameters
    ----------
    rate1, rate2 : float or array
        λ₁ and λ₂ > 0, finite; they broadcast.

    Raises
    ------
    ParameterError
        If a rate is not > 0 or not finite.

    Examples
    --------
    >>> exponential_distance(1.0, math.e)
    1.0
    """
    smallest_positive = np.nextafter(0.0, 1.0)
    first = np.log(_check_rates("rate1", rate1, smallest=smallest_positive))
    second = np.log(_check_rates("rate2", rate2, smallest=smallest_positive))
    return _float_or_array(np.abs(first - second))


def _check_rates(name: str, rates: Any, *, smallest: float) -> np.ndarray:
    """Return rates as an array, or raise if one is too small or not finite.

    Parameters
    ----------
    name : str
        The parameter's name, for the error message.
    rates : float or array
        The rates.
    smallest : float
        The smallest rate that is accepted.
    """
    numbers = np.asarray(rates, np.float64)
    if not np.all((numbers >= smallest) & np.isfinite(numbers)):
        rule = ">= 0" if smallest == 0.0 else "> 0"
        raise ParameterError(f"{name} must be finite and {rule}")
    return numbers


# --- spaces of constant curvature


def riemannian_laplace_theta(sensitivity: float, scale: float, dim: int) -> float:
    """Return Rao's distance θ = Δ/(σ√d) of Riemannian Laplace noise about two centers.

    The density is ∝ exp(−dist/σ), on a space of constant curvature. Its score, the
    gradient of the log-density by the center, is a unit vector over σ in a uniform
    direction, so that the Fisher information along the shift is 1/(σ²d).

    Parameters
    ----------
    sensitivity : float
        Δ > 0, the distance of the centers.
    scale : float
        σ > 0, the scale of the noise.
    dim : int
        d, the dimension of the space.

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
    """Return Rao's distance θ of Riemannian Gaussian noise about two centers.

    The density is ∝ exp(−dist²/2σ²), on a space of constant curvature and dimension d.
    The score has length r/σ², r the distance from the center, and a uniform direction,
    so that θ = Δ·√(E r²/d)/σ². That is Δ/σ on curvature 0, more on negative curvature,
    and less on positive.

    Parameters
    ----------
    sensitivity : float
        Δ > 0, the distance of the centers.
    sigma : float
        σ > 0, the scale of the noise.
    dim : int
        d, the dimension of the space.
    curvature : float
        The sectional curvature of the space.
    mean_square : float, optional
        E r²; computed by `mean_square_radius` if omitted.

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

    r is the distance of Riemannian Gaussian noise from its center, on a space of constant
    curvature κ and dimension d; sn is the sine, the identity or the hyperbolic sine of
    √|κ|·r, by the sign of κ. The integrals are Gauss–Legendre rules on 64 panels between
    the points where the density has fallen by e^{−50} on either side of its mode.

    Parameters
    ----------
    curvature : float
        κ, finite.
    dim : int
        d, the dimension of the space.
    sigma : float
        σ > 0, the scale of the noise.

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
        """Return the logarithm of the radial density at r, up to a constant."""
        log_sn = _log_sine(root * r) if is_sphere else _log_hyperbolic_sine(root * r)
        return -r * r / (2 * sigma * sigma) + (d - 1) * log_sn

    mode = 0.0
    if d > 1:
        largest = sigma * (math.sqrt(d) + 1) + sigma * sigma * root * d
        mode = _mode(d, sigma, root, end if is_sphere else largest, is_sphere=is_sphere)
    with np.errstate(divide="ignore"):
        peak = float(log_density(np.float64(mode))) if d > 1 else 0.0
        return _mean_square(log_density, mode, peak, end)


def _mean_square(
    log_density: Callable[[Any], Any], mode: float, peak: float, end: float
) -> float:
    """Return E r² of a log-concave density on (0, end), by quadrature.

    Parameters
    ----------
    log_density : callable
        The logarithm of the density, as a function of the radius r.
    mode, peak : float
        The mode, and the log-density there.
    end : float
        The end of the support; it may be infinite.
    """
    # Panels from where the density is negligible to the mode, and beyond it.
    left = _negligible_radius(log_density, mode, peak, -1, 0.0)
    right = _negligible_radius(log_density, mode, peak, 1, end)
    below_mode = np.linspace(left, mode, 33)
    above_mode = np.linspace(mode, right, 33)
    edges = np.unique(np.concatenate([below_mode, above_mode]))

    # Rows are panels, columns are nodes.
    widths = np.diff(edges)[:, None]
    r = edges[:-1, None] + widths * _NODES
    weight = widths * _WEIGHTS * np.exp(log_density(r) - peak)
    return float(np.sum(weight * r * r) / np.sum(weight))


def _log_sine(x: Any) -> Any:
    """Return log sin x for x in [0, π], with all digits at both ends."""
    return np.log(np.where(x < 3, np.sin(x), np.sin(math.pi - x)))


def _log_hyperbolic_sine(x: Any) -> Any:
    """Return log(2·sinh x) for x ≥ 0, with all digits near 0 and no overflow.

    The factor 2 is a constant, which cancels where the density is normalized.
    """
    large = x + np.log1p(-np.exp(-2 * np.maximum(x, 1.0)))
    small = np.log(2 * np.sinh(np.minimum(x, 1.0)))
    return np.where(x > 1, large, small)


def _mode(dim: int, sigma: float, root: float, top: float, *, is_sphere: bool) -> float:
    """Return the mode of the radial density of Gaussian noise, by bisection.

    The density ∝ exp(−r²/2σ²)·sn(r)^{d−1} is log-concave. Its logarithm grows as long as
    (d − 1)·sn′(r)/sn(r) is above r/σ².

    Parameters
    ----------
    dim : int
        d > 1, the dimension of the space.
    sigma : float
        σ, the scale of the noise.
    root : float
        √|κ|, κ the curvature.
    top : float
        An upper bound on the mode.
    is_sphere : bool
        Whether the curvature is positive; otherwise it is negative.
    """
    tangent = math.tan if is_sphere else math.tanh
    low, high = 0.0, top
    for _ in range(200):  # until both are neighboring floats
        middle = 0.5 * (low + high)
        x = root * middle
        slope = (dim - 1) * root / tangent(x) if x > 0 else math.inf
        if slope > middle / sigma**2:
            low = middle
        else:
            high = middle
    return max(low, 1e-300)


def _negligible_radius(
    log_density: Callable[[Any], Any], mode: float, peak: float, sign: int, bound: float
) -> float:
    """Return the radius beyond which a log-concave density is negligible, on one side.

    Parameters
    ----------
    log_density : callable
        The logarithm of the density, as a function of the radius.
    mode, peak : float
        The mode, and the log-density there.
    sign : {-1, 1}
        The side: −1 for smaller radii, 1 for larger ones.
    bound : float
        The end of the range on that side. It is returned if the density is not
        negligible before it.

    Returns
    -------
    float
        A radius at which the density is below e^{−50} of its peak, or `bound`.
    """
    # Try radii at distances from the mode that grow geometrically. The first distance is
    # far below any width of the density.
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
    """Return ∫₀ˣ of a smooth function, by one Gauss–Legendre rule of 40 points."""
    return float(x * np.sum(_WEIGHTS * function(x * _NODES)))


def _float_or_array(value: Any) -> Any:
    """Return a float for an array without axes, and any other array as it is."""
    return value if value.ndim else float(value)
