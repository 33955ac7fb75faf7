"""Engines of the Gaussian where it is not one radius and one direction: affine-invariant SPD and HPD matrices, products."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import ArrayLike

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.laws import spd_gaussian, spd_normalizer
from curvedp.laws.radial import Engine, Floats

Cdf = Callable[[ArrayLike], Floats]

_TAIL = 1e-13  # mass left out at each end of a tabulated distribution function
_FINE = 4097  # knots of the factors' splines
_GRID = 2049  # radii at which the convolution is integrated
_PANELS = 24
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True)
class SPDGaussian(Engine):
    """exp(−d(X, W)²/2σ²) for the affine-invariant metric (`spd_gaussian`) of real symmetric matrices for β = 1; for β = 2 of
    Hermitian ones, real and imaginary parts along the last axis."""

    m: int
    beta: int
    scale: float

    @property
    def log_normalizer(self) -> float:
        return spd_normalizer.log_normalizer(self.m, self.scale, self.beta)

    def radial_cdf(self, r: ArrayLike) -> Floats:
        return np.asarray(spd_normalizer.radial_cdf(self.m, self.scale, r, self.beta))

    def moment(self, order: int) -> float:
        if order == 2:
            return spd_normalizer.mean_square_radius(self.m, self.scale, self.beta)
        return _moment(self.radial_cdf, order, self.scale)

    def check_representable(self) -> None:
        """Raises where one draw in 10¹² may be no positive matrix: eigenvalues of doubles are a factor e³⁶ = 2⁵² apart."""
        if (
            self.beta * self.scale**2 * (self.m - 1) + 10 * self.scale > 36.0
        ):  # seven standard deviations
            raise ParameterError(
                f": dense {self.m}×{self.m} matrices lose the small eigenvalues; use "
                "a smaller scale",
                parameter="scale",
                value=self.scale,
            )

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """X = LYL* with W = LL* and Y about the identity: congruence is an isometry."""
        rho = spd_gaussian.sample_log_eigenvalues(
            rng, self.m, self.scale, count, beta=self.beta
        )
        return spd_gaussian.turned(rng, center, rho, self.beta)


@dataclass(frozen=True)
class ProductGaussian(Engine):
    """Squared distances add, so the Gaussian of a product is independent Gaussians of the same scale on its factors."""

    manifold: Manifold
    scale: float
    factors: tuple[Engine, ...]

    @property
    def log_normalizer(self) -> float:
        return sum(factor.log_normalizer for factor in self.factors)

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """P(√(d₁² + d₂² + …) ≤ r): the factors' distribution functions convolved. Absolute error below 1e-5."""
        return _convolved(self)(r)

    def moment(self, order: int) -> float:
        if order == 2:
            return sum(factor.moment(2) for factor in self.factors)
        return _moment(self.radial_cdf, order, self.scale)

    def check_representable(self) -> None:
        for factor in self.factors:
            factor.check_representable()

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        centers = self.manifold.split(center)
        parts = [
            factor.draw(rng, part, count)
            for factor, part in zip(self.factors, centers, strict=True)
        ]
        return np.asarray(self.manifold.join(parts))


@lru_cache(maxsize=64)
def _convolved(law: ProductGaussian) -> Cdf:
    cdfs: list[Cdf] = [factor.radial_cdf for factor in law.factors]
    return reduce(lambda first, second: _of_hypotenuse(first, second, law.scale), cdfs)


def _of_hypotenuse(first: Cdf, second: Cdf, scale: float) -> Cdf:
    """Distribution function of √(a² + b²), a and b independent.

    F(r) = F_a(√(r² − b₁²)) + ∫ F_b(√(r² − a²)) f_a(a) da, where b₁ is the end of b's support, where F_b reaches 1
    (with a corner, on a sphere). With a = r·sin θ the integrand is smooth up to a = r.
    """
    from scipy.interpolate import (
        CubicSpline,
        PchipInterpolator,
    )  # slow to import, and of products alone

    (a0, a1), (b0, b1) = _support(first, scale), _support(second, scale)
    fine_a, fine_b = np.linspace(a0, a1, _FINE), np.linspace(b0, b1, _FINE)
    cdf_a, cdf_b = (
        CubicSpline(fine_a, first(fine_a)),
        CubicSpline(fine_b, second(fine_b)),
    )
    density_a = cdf_a.derivative()
    r = np.linspace(math.hypot(a0, b0), math.hypot(a1, b1), _GRID)
    values = np.zeros(_GRID)
    for i, radius in list(enumerate(r.tolist()))[1:]:
        start = min(max(math.sqrt(max(radius**2 - b1**2, 0.0)), a0), a1)
        stop = min(max(math.sqrt(max(radius**2 - b0**2, 0.0)), start), a1)
        edges = np.linspace(
            math.asin(min(start / radius, 1.0)),
            math.asin(min(stop / radius, 1.0)),
            _PANELS + 1,
        )
        half = np.diff(edges)[:, None] / 2
        theta = edges[:-1, None] + half * (1.0 + _NODES)
        a, b = radius * np.sin(theta), radius * np.cos(theta)
        integrand = cdf_b(np.clip(b, b0, b1)) * density_a(np.clip(a, a0, a1)) * b
        values[i] = float(cdf_a(start)) + float(np.sum(integrand * half * _WEIGHTS))
    curve = PchipInterpolator(
        r, np.clip(np.maximum.accumulate(values), 0.0, 1.0)
    )  # monotone data: a monotone curve
    return lambda x: np.where(
        np.asarray(x) < r[-1], curve(np.clip(x, r[0], r[-1])), 1.0
    )


def _support(cdf: Cdf, scale: float) -> tuple[float, float]:
    """Radii with mass 1e-13 below and above, to three digits on the outer side."""
    high = scale
    while float(cdf(high)) < 1.0 - _TAIL:
        high *= 2.0

    ends = []
    for mass in (_TAIL, 1.0 - _TAIL):
        below, above = 0.0, high
        for _ in range(24):
            middle = (below + above) / 2
            below, above = (
                (below, middle) if float(cdf(middle)) >= mass else (middle, above)
            )
        ends += [below, above]
    return ends[0], ends[3]


def _moment(cdf: Cdf, order: int, scale: float) -> float:
    """E[r^k] = ∫ k·r^{k−1}(1 − F(r)) dr."""
    low, high = _support(cdf, scale)
    edges = np.linspace(low, high, 65)
    half = np.diff(edges)[:, None] / 2
    r = edges[:-1, None] + half * (1.0 + _NODES)
    tail = 1.0 - cdf(r.ravel()).reshape(r.shape)
    return low**order + float(np.sum(order * r ** (order - 1) * tail * half * _WEIGHTS))
