"""Gaussian or Laplace noise in the normal chart at a public base point: mechanisms that work on every manifold.

exp_o(log_o f(D) + ξ). Where curvature is <= 0 and the manifold is simply connected the logarithm does not stretch, so
this is the Euclidean Gaussian mechanism, exactly μ = Δ/σ, with no floor and no integral. On a ball of radius ρ with
curvature at most κ > 0 it stretches by at most ρ√κ/sin(ρ√κ) (Rauch). The exponential afterwards is post-processing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, nextafter, sin, sqrt
from typing import Any, ClassVar, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.geometry.ball import ball_coordinates
from curvedp.geometry.base import Manifold
from curvedp.laws.exact import ExactDraw
from curvedp.mechanisms.base import CHART_ERROR, REACH, Mechanism, check_manifold, check_point
from curvedp.mechanisms.gaussian import GaussianMechanism
from curvedp.mechanisms.laplace import LaplaceMechanism
from curvedp.privacy import Guarantee, PrivacyProfile

__all__ = ["LogGaussianMechanism", "LogLaplaceMechanism", "chart_stretch"]


def chart_stretch(manifold: Manifold, radius: float | None) -> float:
    """Lipschitz constant of log_o on the ball of `radius` about o; 1 on Hadamard manifolds, where no ball is needed."""
    upper = manifold.curvature_bounds[1]
    if not isfinite(upper):
        raise ParameterError(f"the logarithm on {manifold!r} has no public Lipschitz constant; use another metric")
    if radius is None:
        if isfinite(manifold.injectivity_radius):
            raise ParameterError(
                f"LogGaussianMechanism on {manifold!r} needs radius=, the public ball about the base that holds the "
                f"statistic, below {manifold.convexity_radius:.6g}"
            )
        return 1.0
    if not _validate.length("radius", radius) < manifold.convexity_radius:
        raise ParameterError(f"radius={radius!r} must be < {manifold.convexity_radius:.6g} on {manifold!r}")
    s = radius * sqrt(max(upper, 0.0))
    return s / sin(s) if s > 0 else 1.0


@dataclass(frozen=True, eq=False)  # a field is an array, which has no truth value to compare by
class _LogMechanism(Mechanism):
    """exp_o of a Euclidean mechanism applied to the coordinates of log_o f(D), at the public base o.

    `scale` is the noise's; `chart_sensitivity` is how far log_o f(D) moves: by default the sensitivity times the stretch
    of the chart. Base and radius are public: a statistic outside the ball is moved onto it.
    """

    scale: float
    base: np.ndarray
    radius: float | None = None
    chart_sensitivity: float | None = None

    _euclidean: ClassVar[type[GaussianMechanism] | type[LaplaceMechanism]]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "scale", _validate.length("scale", self.scale))
        object.__setattr__(self, "base", check_point("base", self.manifold, self.base))
        stretched = nextafter(self.sensitivity * chart_stretch(self.manifold, self.radius), inf)
        chart = stretched if self.chart_sensitivity is None else self.chart_sensitivity
        object.__setattr__(self, "chart_sensitivity", _validate.length("chart_sensitivity", chart))

    @classmethod
    def calibrated(
        cls,
        manifold: Manifold,
        sensitivity: float,
        guarantee: Guarantee,
        *,
        base: Any = None,
        radius: float | None = None,
        chart_sensitivity: float | None = None,
    ) -> Self:
        """The smallest scale that meets the guarantee; `base` is the manifold's origin unless given."""
        check_manifold(manifold)
        trial = cls(manifold, sensitivity, 1.0, manifold.origin if base is None else base, radius, chart_sensitivity)
        noise = cls._euclidean.calibrated(Euclidean(manifold.dim), trial.moved, guarantee)
        return cls(manifold, sensitivity, noise.law.scale, trial.base, radius, chart_sensitivity)

    @property
    def moved(self) -> float:
        """How far the computed coordinates can move: the chart sensitivity and the float error at both ends."""
        assert self.chart_sensitivity is not None  # set in __post_init__
        return nextafter(self.chart_sensitivity + 2 * CHART_ERROR * self._reach, inf)

    @property
    def _reach(self) -> float:
        return REACH if self.radius is None else self.radius

    @cached_property
    def in_chart(self) -> GaussianMechanism | LaplaceMechanism:
        """The Euclidean mechanism that acts on the coordinates."""
        return self._euclidean(Euclidean(self.manifold.dim), self.moved, self.scale)

    @property
    def profile(self) -> PrivacyProfile:
        """The Euclidean mechanism's profile at the chart's sensitivity."""
        return self.in_chart.profile

    @property
    def guarantee(self) -> Guarantee:
        """That of the Euclidean mechanism."""
        return self.in_chart.guarantee

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The scale, the base, the ball and the chart's sensitivity."""
        return {
            "scale": self.scale,
            "base": self.base.tolist(),
            "radius": self.radius,
            "chart_sensitivity": self.chart_sensitivity,
        }

    def draw(self, value: np.ndarray, source: Source) -> tuple[np.ndarray, ExactDraw]:
        """Exact noise on the coordinates, rounded to the grid; the exponential afterwards is post-processing."""
        coordinates, draw = self.in_chart.draw(self._coordinates(value), source)
        return self._at(coordinates), draw

    def simulate(self, rng: np.random.Generator, value: np.ndarray, size: int) -> np.ndarray:
        """Float draws."""
        return self._at(self.in_chart.simulate(rng, self._coordinates(value), size))

    def _coordinates(self, value: np.ndarray) -> np.ndarray:
        return ball_coordinates(self.manifold, self.base, self._reach, value)

    def _at(self, coordinates: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # noise beyond what doubles hold becomes inf, not a warning
            return np.asarray(self.manifold.exp(self.base, self.manifold.from_coordinates(self.base, coordinates)))


@dataclass(frozen=True, eq=False)
class LogGaussianMechanism(_LogMechanism):
    """exp_o(log_o f(D) + ξ), ξ a tangent Gaussian of standard deviation σ = `scale` at the public base o.

    Guarantees
    - exactly μ-GDP with μ = (chart sensitivity + 2·float error of the chart)/σ;
    - each released coordinate is on the grid 2^-30, within total variation τ of the ideal law (certificate).

    >>> from curvedp.geometry import Lorentz
    >>> from curvedp.privacy import GDP
    >>> round(LogGaussianMechanism.calibrated(Lorentz(10), 1.0, GDP(0.5)).sigma, 6)  # the Riemannian Gaussian cannot
    2.0
    """

    name: ClassVar[str] = "log-gaussian"
    _euclidean = GaussianMechanism

    @property
    def sigma(self) -> float:
        """Standard deviation of each coordinate."""
        return self.scale


@dataclass(frozen=True, eq=False)
class LogLaplaceMechanism(_LogMechanism):
    """exp_o(log_o f(D) + ξ), ξ of density ∝ exp(-‖ξ‖/scale): pure ε on every manifold.

    Guarantees
    - ε-DP with ε = (chart sensitivity + 2·float error of the chart)/scale, and the exact profile of that law.
    """

    name: ClassVar[str] = "log-laplace"
    _euclidean = LaplaceMechanism
