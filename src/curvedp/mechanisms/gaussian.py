"""The Riemannian Gaussian mechanism (Jiang et al. 2023), with its exact profile and exact sampler."""

from dataclasses import dataclass
from math import inf, nextafter
from typing import Any, ClassVar, Literal

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.laws.exact import drawn_shape, has_exact_gaussian, in_chart
from curvedp.mechanisms.base import Draw, assign
from curvedp.mechanisms.chart import CHART_ERROR, REACH
from curvedp.mechanisms.statistic import Stated, Statistic
from curvedp.mechanisms.value import IsotropicMechanism


@dataclass(frozen=True, eq=False, init=False)
class GaussianMechanism(IsotropicMechanism):
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
    >>> from curvedp.privacy import GDP
    >>> mechanism = GaussianMechanism.calibrated(Sphere(2), sensitivity=0.01, guarantee=GDP(0.5))
    >>> mechanism.profile.mu <= 0.5
    True
    """

    sigma: float

    name: ClassVar[str] = "riemannian-gaussian"
    option: ClassVar[str | None] = "gaussian"
    like: ClassVar[str | None] = "log-gaussian"
    kind: ClassVar[Literal["gaussian", "laplace"]] = "gaussian"
    word: ClassVar[str] = "sigma"

    def __init__(
        self, manifold: Any = None, sensitivity: Any = None, sigma: Any = None, *, statistic: Statistic | None = None
    ) -> None:
        assign(self, statistic=statistic or Stated(manifold, sensitivity), sigma=_validate.length("sigma", sigma))
        if not has_exact_gaussian(self.manifold):  # refused here, not at the first release
            raise ParameterError(f"{self.manifold!r} has no exact Gaussian sampler; use LogGaussianMechanism")
        _ = self.law

    @classmethod
    def charged(cls, statistic: Statistic) -> float:
        """Flat coordinates of what is no vector are computed in floats: that error counts at both ends."""
        charts = _charts(statistic.space)
        moved = statistic.sensitivity
        return nextafter(moved + 2 * CHART_ERROR * REACH * charts, inf) if charts else moved

    @classmethod
    def left_out(cls, statistic: Statistic) -> str | None:
        """On products and SPD(2) the profile is a supremum over splits of the sensitivity."""
        if statistic.space.constant_curvature is None:
            return "by name only: calibrating it here takes minutes"
        return None

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """One exact draw, of a value within reach of its chart."""
        return super().draw(_within_reach(self.manifold, data), source)

    @property
    def drawn_shape(self) -> tuple[int, ...]:
        """Points, or flat coordinates."""
        return drawn_shape(self.manifold)


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
