"""The Riemannian Laplace mechanism (Reimherr, Bharath & Soto 2021), with its exact profile and exact sampler."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold
from curvedp.laws import RiemannianLaplace
from curvedp.laws.exact import drawn_point, exact_laplace, has_exact_laplace
from curvedp.mechanisms.base import Draw, ValueMechanism, assign, check_guarantee
from curvedp.mechanisms.chart import GRID
from curvedp.mechanisms.statistic import Stated, Statistic
from curvedp.privacy import Guarantee, PrivacyProfile, PureDP, smallest_scale

__all__ = ["LaplaceMechanism"]


@dataclass(frozen=True, eq=False, init=False)
class LaplaceMechanism(ValueMechanism):
    """Density ∝ exp(-d(y, f(D))/σ) about the statistic f(D), σ = `scale`.

    Parameters
    ----------
    manifold : Manifold
        Where the statistic lives.
    sensitivity : float
        How far it can move between neighbors; the caller vouches for it.
    scale : float
        The scale σ.
    statistic : Statistic
        Instead of manifold and sensitivity: a statistic that knows both.

    Notes
    -----
    Guarantees
    - ε-DP with ε = sensitivity/σ (homogeneous spaces, whose normalizer does not depend on the footpoint), and its exact
      profile, which is far below what pure ε implies.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> LaplaceMechanism.calibrated(Sphere(2), sensitivity=0.01, guarantee=PureDP(1.0)).guarantee.eps <= 1.0
    True
    """

    scale: float

    name: ClassVar[str] = "riemannian-laplace"
    option: ClassVar[str | None] = "laplace"

    def __init__(
        self, manifold: Any = None, sensitivity: Any = None, scale: Any = None, *, statistic: Statistic | None = None
    ) -> None:
        assign(self, statistic=statistic or Stated(manifold, sensitivity))
        if not has_exact_laplace(self.manifold):
            raise ParameterError(f"LaplaceMechanism has no exact sampler on {self.manifold!r}; use LogLaplaceMechanism")
        assign(self, scale=_validate.length("scale", scale))
        _ = self.law  # refuses a scale at which the density has infinite mass here, not at the first release

    @classmethod
    def calibrated(cls, manifold: Manifold, sensitivity: float, guarantee: Guarantee) -> Self:
        """The smallest scale that meets the guarantee, by the exact profile, for a sensitivity that the caller states."""
        return cls.for_statistic(Stated(manifold, sensitivity), guarantee)

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """The smallest scale that meets the guarantee, by the exact profile."""
        check_guarantee(guarantee)
        moved = statistic.sensitivity
        scale = smallest_scale(lambda s: RiemannianLaplace(statistic.space, s).profile(moved), guarantee, moved)
        return cls(scale=scale, statistic=statistic)

    @classmethod
    def rebuilt(cls, statistic: Statistic, parameters: Mapping[str, Any]) -> Self:
        """From the scale."""
        return cls(scale=parameters["scale"], statistic=statistic)

    @classmethod
    def left_out(cls, statistic: Statistic) -> str | None:
        """Only where there is an exact sampler."""
        return None if statistic.space.constant_curvature is not None else "it has no exact sampler on this space"

    @cached_property
    def law(self) -> RiemannianLaplace:
        """The noise law."""
        return RiemannianLaplace(self.manifold, self.scale)

    @cached_property
    def profile(self) -> PrivacyProfile:
        """The exact privacy profile."""
        return self.law.profile(self.sensitivity)

    @property
    def guarantee(self) -> Guarantee:
        """Pure ε."""
        return PureDP(self.profile.pure_epsilon)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """σ."""
        return {"scale": self.scale}

    @property
    def noise(self) -> tuple[str, Manifold, float, float]:
        """Kind, space, scale and sensitivity of the law, for the certified path."""
        return "laplace", self.manifold, self.scale, self.sensitivity

    def scaled(self, factor: float) -> Self:
        """The same with its noise multiplied."""
        return type(self)(scale=factor * self.scale, statistic=self.statistic)

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """One exact draw; the point of the manifold nearest to its grid point is post-processing."""
        draw = exact_laplace(self.manifold, self.scale, data, source=source, grid=GRID)
        return Draw(np.asarray(draw.point), [draw.integers], draw.tau)

    def at(self, coordinates: np.ndarray) -> np.ndarray:
        """The point of the manifold nearest to a grid point."""
        return np.asarray(drawn_point(self.manifold, coordinates))

    def simulate(self, rng: np.random.Generator, value: np.ndarray, size: Any) -> np.ndarray:
        """Float draws."""
        return self.law.sample(rng, value, size)
