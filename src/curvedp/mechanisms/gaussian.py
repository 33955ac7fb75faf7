"""The Riemannian Gaussian mechanism (Jiang et al. 2023), with its exact profile and exact sampler."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter
from typing import Any, ClassVar

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.geometry import SPDLogCholesky, SPDLogEuclidean, project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.laws import RiemannianGaussian
from curvedp.laws.exact import ExactDraw, exact_gaussian
from curvedp.mechanisms.base import CHART_ERROR, GRID, REACH, Mechanism, check_guarantee, check_manifold
from curvedp.privacy import GDP, Guarantee, PrivacyProfile, smallest_scale

__all__ = ["GaussianMechanism"]

_FLAT_SPD = (SPDLogEuclidean, SPDLogCholesky)


@dataclass(frozen=True)
class GaussianMechanism(Mechanism):
    """Density ∝ exp(-d(y, f(D))²/2σ²) about the statistic f(D).

    Guarantees
    - μ-GDP with μ = `profile.mu`, the supremum over all ε and all distances up to the sensitivity, rounded up;
    - the released value is on the grid 2^-30 and within total variation τ of the ideal law (certificate).

    >>> from curvedp.geometry import Sphere
    >>> mechanism = GaussianMechanism.calibrated(Sphere(2), sensitivity=0.01, guarantee=GDP(0.5))
    >>> mechanism.profile.mu <= 0.5
    True
    """

    sigma: float

    name: ClassVar[str] = "riemannian-gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sigma", _validate.length("sigma", self.sigma))
        _ = self.law  # refuses a manifold without an exact sampler here, not at the first release

    @classmethod
    def calibrated(cls, manifold: Manifold, sensitivity: float, guarantee: Guarantee) -> "GaussianMechanism":
        """The smallest σ that meets the guarantee. Raises `UnattainableGuarantee` below the floor of curved space."""
        check_manifold(manifold)
        check_guarantee(guarantee)
        sensitivity = _validate.length("sensitivity", sensitivity)
        charged = _charged(manifold, sensitivity)
        sigma = smallest_scale(lambda scale: RiemannianGaussian(manifold, scale).profile(charged), guarantee, charged)
        return cls(manifold, sensitivity, sigma)

    @cached_property
    def law(self) -> RiemannianGaussian:
        """The noise law."""
        return RiemannianGaussian(self.manifold, self.sigma)

    @cached_property
    def profile(self) -> PrivacyProfile:
        """The exact privacy profile."""
        return self.law.profile(_charged(self.manifold, self.sensitivity))

    @property
    def guarantee(self) -> Guarantee:
        """μ-GDP; on SPDAffineInvariant(m >= 3) the profile itself, a labelled confidence bound."""
        return GDP(self.profile.mu) if self.profile.label == "exact" else self.profile

    @property
    def parameters(self) -> Mapping[str, Any]:
        """σ."""
        return {"sigma": self.sigma}

    def draw(self, value: np.ndarray, source: Source) -> tuple[np.ndarray, ExactDraw]:
        """One exact draw; the point of the manifold nearest to its grid point is post-processing."""
        if isinstance(self.manifold, _FLAT_SPD):
            value = project_to_ball(self.manifold, self.manifold.origin, REACH, value[None])[0]
        draw = exact_gaussian(self.manifold, self.sigma, value, source=source, grid=GRID)
        return np.asarray(draw.point), draw

    def simulate(self, rng: np.random.Generator, value: np.ndarray, size: int) -> np.ndarray:
        """Float draws."""
        return self.law.sample(rng, value, size)


def _charged(manifold: Manifold, sensitivity: float) -> float:
    """The flat SPD metrics are released in their flat coordinates, computed in floats: that error counts at both ends."""
    return nextafter(sensitivity + 2 * CHART_ERROR * REACH, inf) if isinstance(manifold, _FLAT_SPD) else sensitivity
