"""Noise on ℝᵈ from the Rao paper: Gaussian, Laplace and generalized Gaussian laws.
Their density is ∝ exp(−(|x|/σ)^N), where |x| is the absolute value of a coordinate or
the norm of the vector.

The paper prints exp{|x − μ|^N/σ} with the normalizing constant 2σΓ(1/N)/N, which
belongs to the density used here (docs/errata.md, E17). For N = 2, σ is √2 times the
standard deviation. All methods follow from one fact: (‖x‖/σ)^N has the Gamma law of
shape d/N.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaln, poch

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.laws.backend import Floats
from curvedp.laws.isotropic.density import log_sphere_area
from curvedp.laws.law import (
    Size,
    check_center_and_size,
    check_rng,
    uniform_directions,
)

__all__ = [
    "CoordinatewiseLaplace",
    "GeneralizedGaussian",
    "MultivariateGaussian",
    "MultivariateLaplace",
    "SphericalGeneralizedGaussian",
]


@dataclass(frozen=True)
class _SphericalLaw(ABC):
    """Noise on ℝᵈ whose density ∝ exp(−(‖x − center‖/unit)^N) depends on the norm alone.

    A subclass defines N, and the unit as a function of its `scale`. All methods follow
    from one fact: (‖x − center‖/unit)^N has the Gamma law of shape d/N.
    """

    dim: int
    scale: float

    def __post_init__(self) -> None:
        """Check that the dimension is a whole number >= 1 and the scale is > 0."""
        object.__setattr__(self, "dim", _validate.integer("dim", self.dim, 1))
        object.__setattr__(self, "scale", _validate.positive("scale", self.scale))

    @property
    @abstractmethod
    def _power(self) -> float:
        """N, the power in the exponent of the density."""

    @property
    def _unit(self) -> float:
        """The length by which the norm is divided in the exponent."""
        return self.scale

    def sample(
        self, rng: np.random.Generator, center: ArrayLike, size: Size = None
    ) -> Floats:
        """Return independent draws, in floats: for simulation, NOT for a release.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        center : array of shape (..., dim)
            The centers of the law. Leading axes broadcast to `size`.
        size : int or tuple of int, optional
            The number of draws, or the shape of an array of draws; one for each center
            if omitted.

        Returns
        -------
        array of shape size + (dim,)
            The draws.
        """
        check_rng(rng)
        points, shape = check_center_and_size(size, center, (self.dim,))
        count = math.prod(shape)
        out = uniform_directions(rng, count, self.dim)
        out *= self._unit * _gamma_root(rng, self.dim, self._power, (count, 1))
        return points + out.reshape((*shape, self.dim))

    def log_prob(self, x: ArrayLike, center: ArrayLike) -> Floats:
        """Return the logarithm of the density at points.

        Parameters
        ----------
        x : array of shape (..., dim)
            The points.
        center : array of shape (..., dim)
            The centers of the law; leading axes broadcast with those of x.
        """
        x = np.asarray(x, dtype=np.float64)
        r = np.linalg.norm(x - np.asarray(center, dtype=np.float64), axis=-1)
        # An overflow is a density of 0, an underflow a weight of 1.
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(-((r / self._unit) ** self._power) - self.log_normalizer)

    @property
    def log_normalizer(self) -> float:
        """The logarithm of ∫exp(−(‖x‖/unit)^N)dx = area(S^{d−1})·unit^d·Γ(d/N)/N."""
        mass = float(gammaln(self.dim / self._power)) - math.log(self._power)
        return log_sphere_area(self.dim) + self.dim * math.log(self._unit) + mass

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """Return P(‖x − center‖ ≤ r), the distribution function of the distance.

        Parameters
        ----------
        r : array
            Distances; negative ones have the probability 0.
        """
        ratio = np.maximum(np.asarray(r, dtype=np.float64), 0.0) / self._unit
        return _power_cdf(self.dim, self._power, ratio)

    def moment(self, order: float) -> float:
        """Return E‖x − center‖^order, a moment of the distance.

        Parameters
        ----------
        order : float
            The power of the distance, above −d.
        """
        ratio = _gamma_ratio(self.dim / self._power, order / self._power)
        return float(self._unit**order * ratio)

    @property
    def mean_radius(self) -> float:
        """The mean of ‖x − center‖."""
        return self.moment(1)

    @property
    def mean_square_radius(self) -> float:
        """The mean of ‖x − center‖²."""
        return self.moment(2)

    @property
    def fisher_information(self) -> float:
        """The Fisher information of a shift along any unit direction.

        It is E[(d/dr (r/unit)^N)²]/d, and finite for d + 2N > 2.
        """
        power = self._power
        if not self.dim + 2 * power > 2:
            raise ParameterError(
                f"power={power!r} must be > {1 - self.dim / 2:g} "
                "for a finite Fisher information"
            )
        ratio = _gamma_ratio(self.dim / power, 2 - 2 / power)
        return (power / self._unit) ** 2 / self.dim * ratio


@dataclass(frozen=True)
class MultivariateGaussian(_SphericalLaw):
    """The normal law of standard deviation σ in every coordinate.

    Parameters
    ----------
    dim : int
        d, the number of coordinates.
    scale : float
        σ > 0, in the units of the data.

    Examples
    --------
    >>> round(MultivariateGaussian(3, 2.0).mean_square_radius, 9)
    12.0
    """

    @property
    def _power(self) -> float:
        """N = 2, the power in the exponent."""
        return 2.0

    @property
    def _unit(self) -> float:
        """√2·σ, since the exponent of the normal law is −‖x‖²/2σ²."""
        return math.sqrt(2.0) * self.scale

    def sample(
        self, rng: np.random.Generator, center: ArrayLike, size: Size = None
    ) -> Floats:
        """Return independent draws, in floats: for simulation, NOT for a release.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        center : array of shape (..., dim)
            The centers of the law. Leading axes broadcast to `size`.
        size : int or tuple of int, optional
            The number of draws, or the shape of an array of draws; one for each center
            if omitted.

        Returns
        -------
        array of shape size + (dim,)
            The draws.
        """
        check_rng(rng)
        points, shape = check_center_and_size(size, center, (self.dim,))
        out = rng.standard_normal((*shape, self.dim))
        out *= self.scale
        out += points
        return out

    def cdf(self, x: ArrayLike) -> Floats:
        """Return P(xᵢ − centerᵢ ≤ x) of one coordinate.

        Parameters
        ----------
        x : array
            Deviations from the center.
        """
        return GeneralizedGaussian(1, self._unit, 2.0).cdf(x)


@dataclass(frozen=True)
class MultivariateLaplace(_SphericalLaw):
    """The density ∝ exp(−‖x − center‖/σ).

    A shift of the center by Δ in the Euclidean norm is pure Δ/σ-DP.

    Parameters
    ----------
    dim : int
        d, the number of coordinates.
    scale : float
        σ > 0, in the units of the data.

    Examples
    --------
    >>> MultivariateLaplace(3, 2.0).mean_radius
    6.0
    """

    @property
    def _power(self) -> float:
        """N = 1, the power in the exponent."""
        return 1.0


@dataclass(frozen=True)
class SphericalGeneralizedGaussian(_SphericalLaw):
    """The density ∝ exp(−(‖x − center‖/σ)^N).

    Parameters
    ----------
    dim : int
        d, the number of coordinates.
    scale : float
        σ > 0, in the units of the data.
    power : float
        N > 0.

    Examples
    --------
    >>> law = SphericalGeneralizedGaussian(2, 1.0, 4.0)
    >>> round(float(law.radial_cdf(1.0)), 6)
    0.842701
    """

    power: float

    def __post_init__(self) -> None:
        """Check the power as well, which must be > 0."""
        super().__post_init__()
        object.__setattr__(self, "power", _validate.positive("power", self.power))

    @property
    def _power(self) -> float:
        """N, the power in the exponent: the parameter of that name."""
        return self.power


@dataclass(frozen=True)
class GeneralizedGaussian:
    """Independent coordinates, each of density ∝ exp(−(|x − center|/σ)^N).

    N = 1 is the Laplace law of scale σ, and N = 2 the normal law of standard deviation
    σ/√2.

    Parameters
    ----------
    dim : int
        d, the number of coordinates.
    scale : float
        σ > 0, in the units of the data.
    power : float
        N > 0.

    Examples
    --------
    >>> law = GeneralizedGaussian(2, 1.0, 1.0)
    >>> float(law.cdf(0.0)), round(law.variance, 12), round(law.fisher_information, 12)
    (0.5, 2.0, 1.0)
    """

    dim: int
    scale: float
    power: float

    def __post_init__(self) -> None:
        """Check that the dimension is a whole number >= 1, scale and power > 0."""
        object.__setattr__(self, "dim", _validate.integer("dim", self.dim, 1))
        object.__setattr__(self, "scale", _validate.positive("scale", self.scale))
        object.__setattr__(self, "power", _validate.positive("power", self.power))

    def sample(
        self, rng: np.random.Generator, center: ArrayLike, size: Size = None
    ) -> Floats:
        """Return independent draws, in floats: for simulation, NOT for a release.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        center : array of shape (..., dim)
            The centers of the law. Leading axes broadcast to `size`.
        size : int or tuple of int, optional
            The number of draws, or the shape of an array of draws; one for each center
            if omitted.

        Returns
        -------
        array of shape size + (dim,)
            The draws.
        """
        check_rng(rng)
        points, shape = check_center_and_size(size, center, (self.dim,))
        out = self.scale * _gamma_root(rng, 1, self.power, (*shape, self.dim))
        return points + np.where(rng.random(out.shape) < 0.5, -out, out)

    def log_prob(self, x: ArrayLike, center: ArrayLike) -> Floats:
        """Return the logarithm of the density at points.

        The density of one coordinate is exp(−(|x − center|/σ)^N)/(2σΓ(1/N)/N).

        Parameters
        ----------
        x : array of shape (..., dim)
            The points.
        center : array of shape (..., dim)
            The centers of the law; leading axes broadcast with those of x.
        """
        x = np.asarray(x, dtype=np.float64)
        deviation = np.abs(x - np.asarray(center, dtype=np.float64))
        log_gamma = float(gammaln(1 / self.power))
        constant = math.log(2 * self.scale / self.power) + log_gamma
        # An overflow is a density of 0, an underflow a weight of 1.
        with np.errstate(over="ignore", under="ignore"):
            powers = np.sum((deviation / self.scale) ** self.power, axis=-1)
            return np.asarray(-powers - self.dim * constant)

    def cdf(self, x: ArrayLike) -> Floats:
        """Return P(xᵢ − centerᵢ ≤ x) of one coordinate.

        Parameters
        ----------
        x : array
            Deviations from the center.
        """
        deviation = np.asarray(x, dtype=np.float64)
        half = _power_cdf(1, self.power, np.abs(deviation) / self.scale) / 2
        return np.asarray(0.5 + np.copysign(half, deviation))

    @property
    def variance(self) -> float:
        """The variance of one coordinate."""
        return self.scale**2 * _gamma_ratio(1 / self.power, 2 / self.power)

    @property
    def mean_square_radius(self) -> float:
        """The mean of ‖x − center‖²."""
        return self.dim * self.variance

    @property
    def fisher_information(self) -> float:
        """The Fisher information of a shift of one coordinate.

        It is NΓ(2 − 1/N)/(σ²Γ(1 + 1/N)), and finite for N > ½ (docs/errata.md, E17).
        """
        if not self.power > 0.5:
            raise ParameterError(
                f"power={self.power!r} must be > 0.5 for a finite Fisher information"
            )
        ratio = _gamma_ratio(1 / self.power, 2 - 2 / self.power)
        return (self.power / self.scale) ** 2 * ratio


@dataclass(frozen=True)
class CoordinatewiseLaplace(GeneralizedGaussian):
    """Independent Laplace coordinates: Definition F.1 of the Rao paper.

    The density is ∏ exp(−|xᵢ − centerᵢ|/σ)/2σ. A shift of L1 norm Δ is pure Δ/σ-DP. A
    shift of L2 norm Δ has the parametric Rao distance Δ/σ (Theorem F.2). The law that
    depends on the Euclidean norm alone is `MultivariateLaplace`.

    Parameters
    ----------
    dim : int
        Number of coordinates.
    scale : float
        σ; the standard deviation of a coordinate is √2·σ.

    Examples
    --------
    >>> law = CoordinatewiseLaplace(3, 2.0)
    >>> round(law.variance, 12), round(law.fisher_information, 12)
    (8.0, 0.25)
    """

    power: float = field(default=1.0, init=False)


def _gamma_ratio(shape: float, step: float) -> float:
    """Return Γ(shape + step)/Γ(shape): E G^step for G of the Gamma law of that shape."""
    return float(poch(shape, step))


def _power_cdf(dim: int, power: float, ratio: Floats) -> Floats:
    """Return P(G ≤ ratio^N) for G of the Gamma law of shape a = d/N.

    It is the probability that a norm in d dimensions, divided by its unit, is at most
    `ratio`. For large N the power u = ratio^N may underflow. For small u the probability
    is u^a/Γ(a + 1), and u^a is computed as ratio^d, which does not underflow.

    Parameters
    ----------
    dim : int
        d.
    power : float
        N.
    ratio : array
        Norms over their unit, ≥ 0.
    """
    shape = dim / power
    with np.errstate(over="ignore", under="ignore"):
        u = ratio**power
        near_zero = ratio**dim * math.exp(-float(gammaln(shape + 1.0)))
    return np.where(u < 1e-20, near_zero, gammainc(shape, u))


def _gamma_root(
    rng: np.random.Generator, dim: int, power: float, size: tuple[int, ...]
) -> Floats:
    """Draw norms divided by their unit: G^{1/N}, where G has the Gamma law of shape d/N.

    For large N, G itself would underflow. With a = d/N, let G′ have the Gamma law of
    shape a + 1 and U be uniform on (0, 1]. Then G′·U^{1/a} has the law of G, and its
    root is G′^{1/N}·U^{1/d}.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of randomness.
    dim : int
        d.
    power : float
        N.
    size : tuple of int
        The shape of the result.
    """
    root = rng.standard_gamma(dim / power + 1.0, size) ** (1.0 / power)
    root *= (1.0 - rng.random(size)) ** (1.0 / dim)
    return np.asarray(root)
