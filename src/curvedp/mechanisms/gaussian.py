"""The Riemannian Gaussian mechanism (Jiang et al. 2023), with its exact profile and exact sampler."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter
from typing import Any, ClassVar, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.laws import RiemannianGaussian
from curvedp.laws.exact import drawn_point, drawn_shape, exact_gaussian, has_exact_gaussian, in_chart
from curvedp.mechanisms.base import Draw, ValueMechanism, assign, check_guarantee
from curvedp.mechanisms.chart import CHART_ERROR, GRID, REACH
from curvedp.mechanisms.statistic import Stated, Statistic
from curvedp.privacy import GDP, Guarantee, PrivacyProfile, smallest_scale

__all__ = ["GaussianMechanism"]


@dataclass(frozen=True, eq=False, init=False)
class GaussianMechanism(ValueMechanism):
    """Density ∝ exp(-d(y, f(D))²/2σ²) about the statistic f(D).

    Parameters
    ----------
    manifold : Manifold
        Where the statistic lives.
    sensitivity : float
        How far it can move between neighbors; the caller vouches for it.
    sigma : float
        The scale σ.
    statistic : Statistic
        Instead of manifold and sensitivity: a statistic that knows both.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = `profile.mu`, the supremum over all ε and all distances up to the sensitivity, rounded up;
    - the released value is on the grid 2^-30 and within total variation τ of the ideal law (certificate).

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> mechanism = GaussianMechanism.calibrated(Sphere(2), sensitivity=0.01, guarantee=GDP(0.5))
    >>> mechanism.profile.mu <= 0.5
    True
    """

    sigma: float

    name: ClassVar[str] = "riemannian-gaussian"
    option: ClassVar[str | None] = "gaussian"

    def __init__(
        self, manifold: Any = None, sensitivity: Any = None, sigma: Any = None, *, statistic: Statistic | None = None
    ) -> None:
        assign(self, statistic=statistic or Stated(manifold, sensitivity), sigma=_validate.length("sigma", sigma))
        if not has_exact_gaussian(self.manifold):  # refused here, not at the first release
            raise ParameterError(f"{self.manifold!r} has no exact Gaussian sampler; use LogGaussianMechanism")
        _ = self.law

    @classmethod
    def calibrated(cls, manifold: Manifold, sensitivity: float, guarantee: Guarantee) -> Self:
        """The smallest σ that meets the guarantee, for a sensitivity that the caller states.

        Raises
        ------
        UnattainableGuarantee
            If the guarantee is below the floor of curved space.
        """
        return cls.for_statistic(Stated(manifold, sensitivity), guarantee)

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """The smallest σ that meets the guarantee."""
        check_guarantee(guarantee)
        moved = _charged(statistic)
        sigma = smallest_scale(lambda s: RiemannianGaussian(statistic.space, s).profile(moved), guarantee, moved)
        return cls(sigma=sigma, statistic=statistic)

    @classmethod
    def rebuilt(cls, statistic: Statistic, parameters: Mapping[str, Any]) -> Self:
        """From σ."""
        return cls(sigma=parameters["sigma"], statistic=statistic)

    @classmethod
    def left_out(cls, statistic: Statistic) -> str | None:
        """On products and SPD(2) the profile is a supremum over splits of the sensitivity."""
        if statistic.space.constant_curvature is None:
            return "by name only: calibrating it here takes minutes"
        return None

    @cached_property
    def law(self) -> RiemannianGaussian:
        """The noise law."""
        return RiemannianGaussian(self.manifold, self.sigma)

    @cached_property
    def profile(self) -> PrivacyProfile:
        """The exact privacy profile."""
        return self.law.profile(_charged(self.statistic))

    @property
    def guarantee(self) -> Guarantee:
        """μ-GDP; on SPDAffineInvariant(m >= 3) the profile itself, a labelled confidence bound."""
        return GDP(self.profile.mu) if self.profile.label == "exact" else self.profile

    @property
    def parameters(self) -> Mapping[str, Any]:
        """σ."""
        return {"sigma": self.sigma}

    @property
    def noise(self) -> tuple[str, Manifold, float, float]:
        """Kind, space, scale and sensitivity of the law, for the certified path."""
        return "gaussian", self.manifold, self.sigma, _charged(self.statistic)

    def scaled(self, factor: float) -> Self:
        """The same with its noise multiplied."""
        return type(self)(sigma=factor * self.sigma, statistic=self.statistic)

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """One exact draw; the point of the manifold nearest to its grid point is post-processing."""
        data = _within_reach(self.manifold, data)
        draw = exact_gaussian(self.manifold, self.sigma, data, source=source, grid=GRID)
        return Draw(np.asarray(draw.point), [draw.integers], draw.tau)

    def at(self, coordinates: np.ndarray) -> np.ndarray:
        """The point of the manifold nearest to a grid point."""
        return np.asarray(drawn_point(self.manifold, coordinates))

    @property
    def drawn_shape(self) -> tuple[int, ...]:
        """Points, or flat coordinates."""
        return drawn_shape(self.manifold)

    def simulate(self, rng: np.random.Generator, value: np.ndarray, size: Any) -> np.ndarray:
        """Float draws."""
        return self.law.sample(rng, value, size)


def _within_reach(manifold: Manifold, x: np.ndarray) -> np.ndarray:
    """Factors that are released in flat coordinates, where float error has a bound."""
    if len(manifold.factors) > 1:
        parts = zip(manifold.factors, manifold.split(x), strict=True)
        return np.asarray(manifold.join([_within_reach(factor, part) for factor, part in parts]))
    return project_to_ball(manifold, manifold.origin, REACH, x[None])[0] if in_chart(manifold) else x


def _charts(manifold: Manifold) -> int:
    """How many factors are released in flat coordinates."""
    if len(manifold.factors) > 1:
        return sum(_charts(factor) for factor in manifold.factors)
    return int(in_chart(manifold))


def _charged(statistic: Statistic) -> float:
    """Flat coordinates of what is no vector are computed in floats: that error counts at both ends."""
    charts = _charts(statistic.space)
    return nextafter(statistic.sensitivity + 2 * CHART_ERROR * REACH * charts, inf) if charts else statistic.sensitivity
