"""Gaussian noise on a product of manifolds, and on a torus. Squared distances add up
over the factors. So the noise consists of independent Gaussians of the same scale on
the factors.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.product import join_factors, split_into_factors
from curvedp.laws.backend import Floats, LawBackend
from curvedp.laws.radial_integrals import (
    RadialCDF,
    Support,
    radial_moment,
    radial_support,
)

# Knots of the splines through the distribution functions of the factors.
_N_SPLINE_KNOTS = 4097

# Radii at which the distribution function of the product is integrated.
_N_RADII = 2049

# Panels and Gauss–Legendre rule (on [-1, 1]) of each of these integrals.
_N_ANGLE_PANELS = 24
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True)
class ProductGaussian(LawBackend):
    """Independent Gaussians of one scale on the factors of a product.

    Parameters
    ----------
    manifold : Manifold
        The product.
    scale : float
        σ, common to all factors.
    factors : tuple of LawBackend
        The Gaussian laws on the factors, in the order of `manifold.factors`.
    """

    manifold: Manifold
    scale: float
    factors: tuple[LawBackend, ...]

    @property
    def log_normalizer(self) -> float:
        """The log-normalizer: the sum over the factors, which are independent."""
        return sum(factor.log_normalizer for factor in self.factors)

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """Return P(√(d₁² + d₂² + …) ≤ r) elementwise, dᵢ the distances on the factors.

        The distribution functions of the factors are convolved numerically; the
        absolute error is below 1e-5.

        Parameters
        ----------
        r : array_like
            Distances from the footpoint.

        Returns
        -------
        array
            Probabilities, of the shape of `r`.
        """
        return _convolved_cdf(self)(r)

    def moment(self, order: int) -> float:
        """Return E[d^order], a moment of the distance d of a draw from the footpoint.

        Squared distances on the factors add up. Other powers need a quadrature.

        Parameters
        ----------
        order : int
            The power of the distance d.

        Returns
        -------
        float
            E[d^order].
        """
        if order == 2:
            return sum(factor.moment(2) for factor in self.factors)
        return radial_moment(self.radial_cdf, order, self.scale)

    def check_representable(self) -> None:
        """Raise `ParameterError` if floats cannot hold the draws on some factor."""
        for factor in self.factors:
            factor.check_representable()

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """Return `count` points about the center: a draw on each factor, joined.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.
        center : array
            One footpoint (the center of the noise), or one for each draw.
        count : int
            The number of draws.

        Returns
        -------
        array, shape (count, *point_shape)
            The draws.
        """
        centers = split_into_factors(self.manifold, center)
        factor_draws = [
            factor.draw(rng, factor_center, count)
            for factor, factor_center in zip(self.factors, centers, strict=True)
        ]
        return np.asarray(join_factors(self.manifold, factor_draws))


@dataclass(frozen=True)
class TorusGaussian(ProductGaussian):
    """Independent Gaussians of one scale on the circles of a flat torus.

    A point is a vector of angles, and its i-th angle is the point of the i-th circle.
    """

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """Return `count` points about the center: one independent draw for each angle.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.
        center : array
            One footpoint (the center of the noise), or one for each draw.
        count : int
            The number of draws.

        Returns
        -------
        array, shape (count, d)
            The draws, d angles each.
        """
        angles = [
            circle.draw(rng, center[..., i : i + 1], count)
            for i, circle in enumerate(self.factors)
        ]
        return np.concatenate(angles, axis=-1)


@lru_cache(maxsize=64)
def _convolved_cdf(law: ProductGaussian) -> RadialCDF:
    """Return the distribution function of the distance √(d₁² + d₂² + …) on a product.

    Called by `radial_cdf`. The result is cached, because the convolution is slow.

    Parameters
    ----------
    law : ProductGaussian
        The law, whose factors have the independent distances d₁, d₂, ….

    Returns
    -------
    callable
        The distribution function, elementwise on arrays.
    """
    cdf: RadialCDF = law.factors[0].radial_cdf
    for factor in law.factors[1:]:
        cdf = _cdf_of_hypotenuse(cdf, factor.radial_cdf, law.scale)
    return cdf


def _cdf_of_hypotenuse(cdf_a: RadialCDF, cdf_b: RadialCDF, scale: float) -> RadialCDF:
    """Return the distribution function of √(a² + b²) for independent a and b.

    With F_a, F_b the distribution functions, f_a the density of a, and b₁ the end of
    the support of b (where F_b reaches 1, with a corner on a sphere),

        F(r) = F_a(√(r² − b₁²)) + ∫ F_b(√(r² − a²)) f_a(a) da.

    With a = r·sin θ the integrand is smooth up to a = r. F is integrated on a grid of
    radii and interpolated monotonically.

    tests/laws/test_product.py compares the function with closed forms.

    Parameters
    ----------
    cdf_a, cdf_b : callable
        F_a and F_b.
    scale : float
        Any length that is about as large as a and b.

    Returns
    -------
    callable
        The distribution function, elementwise on arrays.
    """
    # Imported here because SciPy's splines load slowly and only products need them.
    from scipy.interpolate import PchipInterpolator

    # F at each radius of a grid.
    a = _spline_through(cdf_a, scale)
    b = _spline_through(cdf_b, scale)
    lowest = math.hypot(a.support.low, b.support.low)
    highest = math.hypot(a.support.high, b.support.high)
    radii = np.linspace(lowest, highest, _N_RADII)
    values = np.zeros(_N_RADII)
    for i in range(1, _N_RADII):
        values[i] = _probability_of_hypotenuse(float(radii[i]), a, b)

    # Rounding may make F fall a little; a distribution function must not.
    monotone_values = np.clip(np.maximum.accumulate(values), 0.0, 1.0)
    curve = PchipInterpolator(radii, monotone_values)

    def cdf(r: ArrayLike) -> Floats:
        """Return P(√(a² + b²) ≤ r) by interpolation; 1 beyond the table."""
        inside = curve(np.clip(r, radii[0], radii[-1]))
        return np.where(np.asarray(r) < radii[-1], inside, 1.0)

    return cdf


class _SplineOfDistance(NamedTuple):
    """Splines through the distribution of a distance, over its support.

    Attributes
    ----------
    cdf : callable
        The distribution function.
    density : callable
        Its derivative.
    support : Support
        The interval in which the distance lies.
    """

    cdf: Callable[[ArrayLike], Floats]
    density: Callable[[ArrayLike], Floats]
    support: Support


def _spline_through(cdf: RadialCDF, scale: float) -> _SplineOfDistance:
    """Return splines through a distribution function and its density.

    Used because the distribution functions of factors are slow to evaluate.

    Parameters
    ----------
    cdf : callable
        The distribution function of a distance.
    scale : float
        Any length that is about as large as the distance.

    Returns
    -------
    _SplineOfDistance
        The splines, and the support of the distance.
    """
    from scipy.interpolate import CubicSpline

    support = radial_support(cdf, scale)
    knots = np.linspace(support.low, support.high, _N_SPLINE_KNOTS)
    spline = CubicSpline(knots, cdf(knots))
    return _SplineOfDistance(spline, spline.derivative(), support)


def _probability_of_hypotenuse(
    radius: float, a: _SplineOfDistance, b: _SplineOfDistance
) -> float:
    """Return F(r), the probability that √(a² + b²) is at most one radius r.

    Parameters
    ----------
    radius : float
        The radius r.
    a, b : _SplineOfDistance
        The distributions of the two distances.

    Returns
    -------
    float
        The sum of the two terms of F in `_cdf_of_hypotenuse`.
    """
    domain = _integration_domain(radius, a.support, b.support)
    return float(a.cdf(domain.low)) + _integral_over_angle(radius, domain, a, b)


def _integral_over_angle(
    radius: float, domain: Support, a: _SplineOfDistance, b: _SplineOfDistance
) -> float:
    """Return ∫ F_b(√(r² − a²))·f_a(a) da over a domain of a = r·sin θ.

    Parameters
    ----------
    radius : float
        The length r of the hypotenuse.
    domain : Support
        The interval of a.
    a, b : _SplineOfDistance
        The density f_a, and the distribution function F_b.

    Returns
    -------
    float
        The integral, by a rule on panels of the angle θ.
    """
    # Rows are panels of θ and columns are nodes.
    edges = np.linspace(
        math.asin(min(domain.low / radius, 1.0)),
        math.asin(min(domain.high / radius, 1.0)),
        _N_ANGLE_PANELS + 1,
    )
    half_widths = np.diff(edges)[:, None] / 2
    theta = edges[:-1, None] + half_widths * (1.0 + _NODES)
    first_leg = radius * np.sin(theta)
    second_leg = radius * np.cos(theta)

    # F_b(b)·f_a(a) da, with da = b dθ.
    probability_b = b.cdf(np.clip(second_leg, b.support.low, b.support.high))
    density_a = a.density(np.clip(first_leg, a.support.low, a.support.high))
    integrand = probability_b * density_a * second_leg
    return float(np.sum(integrand * half_widths * _WEIGHTS))


def _integration_domain(
    radius: float, support_a: Support, support_b: Support
) -> Support:
    """Return the values of a for which √(radius² − a²) lies in the support of b.

    Outside of this interval the integrand of `_integral_over_angle` is 0, or its
    integral is known.

    Parameters
    ----------
    radius : float
        The length r of the hypotenuse.
    support_a, support_b : Support
        The intervals in which a and b lie.

    Returns
    -------
    Support
        The interval of a, which may be empty (low = high).
    """
    low = math.sqrt(max(radius**2 - support_b.high**2, 0.0))
    high = math.sqrt(max(radius**2 - support_b.low**2, 0.0))
    low = min(max(low, support_a.low), support_a.high)
    high = min(max(high, low), support_a.high)
    return Support(low, high)
