"""The Riemannian Laplace mechanism (Reimherr, Bharath & Soto 2021), with its exact profile and exact sampler."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Lorentz, PoincareBall, Sphere
from curvedp.geometry.base import Manifold
from curvedp.laws import RiemannianLaplace
from curvedp.laws.exact import ExactDraw, exact_laplace
from curvedp.mechanisms.base import GRID, Mechanism, check_guarantee, check_manifold
from curvedp.privacy import Guarantee, PrivacyProfile, PureDP, smallest_scale

__all__ = ["LaplaceMechanism"]

_SPACES = (Euclidean, Sphere, Lorentz, PoincareBall)


@dataclass(frozen=True)
class LaplaceMechanism(Mechanism):
    """Density ∝ exp(-d(y, f(D))/σ) about the statistic f(D), σ = `scale`.

    Guarantees
    - ε-DP with ε = sensitivity/σ (homogeneous spaces, whose normaliser does not depend on the footpoint), and its exact
      profile, which is far below what pure ε implies.

    >>> from curvedp.geometry import Sphere
    >>> LaplaceMechanism.calibrated(Sphere(2), sensitivity=0.01, guarantee=PureDP(1.0)).guarantee.eps <= 1.0
    True
    """

    scale: float

    name: ClassVar[str] = "riemannian-laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.manifold, _SPACES):
            raise ParameterError(f"LaplaceMechanism has no exact sampler on {self.manifold!r}; use LogLaplaceMechanism")
        object.__setattr__(self, "scale", _validate.length("scale", self.scale))
        _ = self.law  # refuses a scale at which the density has infinite mass here, not at the first release

    @classmethod
    def calibrated(cls, manifold: Manifold, sensitivity: float, guarantee: Guarantee) -> "LaplaceMechanism":
        """The smallest scale that meets the guarantee, by the exact profile."""
        check_manifold(manifold)
        check_guarantee(guarantee)
        sensitivity = _validate.length("sensitivity", sensitivity)
        scale = smallest_scale(
            lambda scale: RiemannianLaplace(manifold, scale).profile(sensitivity), guarantee, sensitivity
        )
        return cls(manifold, sensitivity, scale)

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
        return PureDP(np.nextafter(self.sensitivity / self.scale, np.inf))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """σ."""
        return {"scale": self.scale}

    def draw(self, value: np.ndarray, source: Source) -> tuple[np.ndarray, ExactDraw]:
        """One exact draw; the point of the manifold nearest to its grid point is post-processing."""
        draw = exact_laplace(self.manifold, self.scale, value, source=source, grid=GRID)
        return np.asarray(draw.point), draw

    def simulate(self, rng: np.random.Generator, value: np.ndarray, size: int) -> np.ndarray:
        """Float draws."""
        return self.law.sample(rng, value, size)
