"""Gaussian or Laplace noise in the normal chart at a public base point: mechanisms that work on every manifold.

exp_o(log_o f(D) + ξ). Where curvature is <= 0 and the manifold is simply connected the logarithm does not stretch, so
this is the Euclidean Gaussian mechanism, exactly μ = Δ/σ, with no floor and no integral. On a ball of radius ρ with
curvature at most κ > 0 it stretches by at most ρ√κ/sin(ρ√κ) (Rauch). The exponential afterwards is post-processing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter, sqrt
from typing import Any, ClassVar, Self

import numpy as np

from curvedp.geometry import Euclidean
from curvedp.geometry.ball import ball_coordinates
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.base import Reading
from curvedp.mechanisms.chart import CHART_ERROR, REACH, chart_stretch, james_stein
from curvedp.mechanisms.noise import spread_of
from curvedp.mechanisms.statistic import Stated, Statistic
from curvedp.mechanisms.value import IsotropicMechanism
from curvedp.privacy import Guarantee, PrivacyProfile
from curvedp.privacy.profiles.constant_curvature import constant_curvature_profile


@dataclass(frozen=True, eq=False, init=False)
class _LogMechanism(IsotropicMechanism):
    """exp_o of Euclidean noise about the coordinates of log_o f(D), at the public base o."""

    scale: float

    def __init__(
        self,
        manifold: Any = None,
        sensitivity: Any = None,
        scale: Any = None,
        base: Any = None,
        radius: float | None = None,
        chart_sensitivity: float | None = None,
        *,
        statistic: Statistic | None = None,
    ) -> None:
        stated = statistic or Stated(
            manifold, sensitivity, base, radius, chart_sensitivity
        )
        super().__init__(scale=scale, statistic=stated)
        _reach(stated)  # refuses a chart without a Lipschitz constant

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
        return cls.for_statistic(
            Stated(manifold, sensitivity, base, radius, chart_sensitivity), guarantee
        )

    @classmethod
    def charged(cls, statistic: Statistic) -> float:
        """How far the computed coordinates can move: the chart sensitivity and the float error at both ends."""
        return nextafter(
            statistic.chart_sensitivity + 2 * CHART_ERROR * _reach(statistic), inf
        )

    @classmethod
    def profile_at(
        cls, space: Manifold, moved: float
    ) -> Callable[[float], PrivacyProfile]:
        return lambda scale: constant_curvature_profile(
            cls.kind, 0.0, space.dim, scale, moved
        )

    sigma = property(lambda self: self.scale)  # the scale
    base = property(
        lambda self: np.asarray(self.statistic.base)
    )  # o, where the chart is
    noised = cached_property(lambda self: Euclidean(self.manifold.dim))
    drawn_shape = property(lambda self: (self.manifold.dim,))
    # the length of the noise, in the mean square
    length = property(
        lambda self: (
            self.scale
            * spread_of(self.kind, self.manifold.dim)
            * sqrt(self.manifold.dim)
        )
    )

    def drawn_about(self, data: np.ndarray) -> tuple[Manifold, np.ndarray]:
        """Return the chart and the coordinates; the exponential afterwards is post-processing."""
        return self.noised, self._coordinates(data)

    def reading(self, integers: Any) -> Reading:
        """The drawn coordinates, about those of the statistic."""
        drawn = self.drawn_before(integers)
        return Reading(
            "chart",
            self.law,
            drawn,
            self.base,
            _reach(self.statistic),
            cell=2.0**-self.grid,
        )

    def simulate(
        self, rng: np.random.Generator, value: np.ndarray, size: Any
    ) -> np.ndarray:
        return self.at(
            super().simulate(rng, self._coordinates(value, timed=False), size)
        )

    def _coordinates(self, value: np.ndarray, *, timed: bool = True) -> np.ndarray:
        return ball_coordinates(
            self.manifold, self.base, _reach(self.statistic), value, timed=timed
        )

    def at(self, coordinates: np.ndarray) -> np.ndarray:
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # noise beyond what doubles hold becomes inf, not a warning
            return np.asarray(
                self.manifold.from_normal_coordinates(self.base, coordinates)
            )


class LogGaussianMechanism(_LogMechanism):
    """exp_o(log_o f(D) + ξ), ξ a tangent Gaussian of standard deviation σ = `scale` at the public base o.

    Parameters
    ----------
    manifold, sensitivity, statistic : as of `GaussianMechanism`
        Where the statistic lives and how far it can move, or a statistic that knows both.
    scale : float
        The scale σ.
    base, radius : point and float, optional
        The public point o, the origin by default, and the radius of the public ball about it, where the chart needs one.
    chart_sensitivity : float, optional
        How far log_o f(D) can move, if that is known better.

    Notes
    -----
    Guarantees
    - exactly μ-GDP with μ = (chart sensitivity + 2·float error of the chart)/σ;
    - each released coordinate is on the grid 2^-30 (finer for small noise), within total variation τ of the ideal law.

    Examples
    --------
    >>> from curvedp.geometry import Lorentz
    >>> from curvedp.privacy import GDP
    >>> round(LogGaussianMechanism.calibrated(Lorentz(10), 1.0, GDP(0.5)).sigma, 6)  # the Riemannian Gaussian cannot
    2.0
    """

    name: ClassVar[str] = "log-gaussian"
    option: ClassVar[str | None] = "log-gaussian"
    kind: ClassVar[Any] = "gaussian"

    def finished(self, points: np.ndarray) -> np.ndarray:
        """Points drawn towards the center of the ball where that is known to help, then moved onto it."""
        if self.statistic.kept_in is not None:
            points = james_stein(self.manifold, self.base, points, self.scale)
        return super().finished(points)

    @property
    def afterwards(self) -> Sequence[str]:
        shrunk = self.statistic.kept_in is not None and self.manifold.dim >= 3
        return (
            *("James-Stein shrinkage towards the center",) * shrunk,
            *super().afterwards,
        )


class LogLaplaceMechanism(_LogMechanism):
    """exp_o(log_o f(D) + ξ), ξ of density ∝ exp(-‖ξ‖/scale): pure ε on every manifold.

    Parameters
    ----------
    manifold, sensitivity, scale, base, radius, chart_sensitivity, statistic : as of `LogGaussianMechanism`
        The noise is the other law's.

    Notes
    -----
    Guarantees
    - ε-DP with ε = (chart sensitivity + 2·float error of the chart)/scale, and the exact profile of that law.

    Examples
    --------
    >>> from curvedp.geometry import Lorentz
    >>> from curvedp.privacy import PureDP
    >>> round(LogLaplaceMechanism.calibrated(Lorentz(2), 1.0, PureDP(0.5)).scale, 6)
    2.0
    """

    name: ClassVar[str] = "log-laplace"
    option: ClassVar[str | None] = "log-laplace"
    kind: ClassVar[Any] = "laplace"


def _reach(statistic: Statistic) -> float:
    """How far from the base coordinates may be; refuses a chart without a Lipschitz constant."""
    radius = None if statistic.values is None else statistic.values.radius
    chart_stretch(statistic.space, radius)
    return REACH if radius is None else radius
