"""The Riemannian Gaussian mechanism (Jiang et al. 2023), with its exact profile and exact sampler."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nextafter
from typing import Any, ClassVar, Self

import numpy as np

from curvedp.entropy import Source
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import project_to_ball
from curvedp.geometry.capabilities import ricci_lower_bound
from curvedp.geometry.manifold import Manifold
from curvedp.laws import RiemannianGaussian
from curvedp.laws.exact import drawn_shape, has_exact_gaussian, in_chart
from curvedp.laws.spaceform import rays_of, space_form_factors
from curvedp.mechanisms.base import Draw, check_guarantee
from curvedp.mechanisms.chart import CHART_ERROR, REACH
from curvedp.mechanisms.statistic import Statistic
from curvedp.mechanisms.value import IsotropicMechanism
from curvedp.privacy import Guarantee, PrivacyProfile, smallest_scale
from curvedp.privacy.profiles.ricci_bound import HadamardProfile, hadamard_scale

TIGHT = 2.0**-10  # |Ric|·σ² up to which the bound by it is within 0.05% of the truth


@dataclass(frozen=True, eq=False, init=False)
class GaussianMechanism(IsotropicMechanism):
    """Density ∝ exp(-d(y, f(D))²/2σ²) about the statistic f(D).

    Parameters
    ----------
    manifold, sensitivity : Manifold and float
        Where the statistic lives, and how far it can move between neighbors; the caller vouches for it.
    sigma : float
        The scale σ.
    statistic : Statistic
        Instead of manifold and sensitivity: a statistic that knows both.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = `profile.mu`, the supremum over all ε and all distances up to the sensitivity, rounded up;
    - the released value is on the grid 2^-30 (finer for small noise) and within total variation τ of the ideal law.

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
    kind: ClassVar[Any] = "gaussian"
    word: ClassVar[str] = "sigma"

    def __init__(
        self,
        manifold: Any = None,
        sensitivity: Any = None,
        sigma: Any = None,
        *,
        statistic: Statistic | None = None,
    ) -> None:
        super().__init__(manifold, sensitivity, sigma, statistic=statistic)
        if not has_exact_gaussian(
            self.manifold
        ):  # refused here, not at the first release
            raise ParameterError(
                f"{self.manifold!r} has no exact Gaussian sampler; use the mechanism "
                "log-gaussian"
            )
        _ = self.law

    scale = property(
        lambda self: self.sigma
    )  # σ, as of every law; of others it is a field
    drawn_shape = property(lambda self: drawn_shape(self.manifold))

    @classmethod
    def charged(cls, statistic: Statistic) -> float:
        """Flat coordinates of what is not a vector are computed in floats: that error counts at both ends."""
        charts = _charts(statistic.space)
        moved = statistic.sensitivity
        return (
            nextafter(moved + 2 * CHART_ERROR * REACH * charts, inf)
            if charts
            else moved
        )

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """The smallest noise that meets the guarantee: by a bound in closed form where it is tight or all there is, else by
        the exact profile."""
        check_guarantee(guarantee)
        sigma = _by_ricci(statistic.space, cls.charged(statistic), guarantee)
        return (
            super().for_statistic(statistic, guarantee)
            if sigma is None
            else cls(sigma=sigma, statistic=statistic)
        )

    @classmethod
    def profile_at(
        cls, space: Manifold, moved: float
    ) -> Callable[[float], PrivacyProfile]:
        """By scale, the exact profile, or the bound where it is tight: a supremum over splits takes seconds to minutes."""

        def profile(scale: float) -> PrivacyProfile:
            law = RiemannianGaussian(space, scale)
            bound = (
                None if rays_of(space) is not None else law.ricci_bound(moved, TIGHT)
            )
            return bound or law.profile(moved)

        return profile

    @classmethod
    def left_out(cls, statistic: Statistic) -> str | None:
        """On products the profile is a supremum over splits of the sensitivity; on matrices it gains little."""
        if statistic.space.constant_curvature is not None:
            return None
        little = statistic.space.convexity_radius == inf  # a Hadamard manifold
        return "by name only: " + (
            "within a tenth of log-gaussian" if little else "it is not calibrated here"
        )

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """One exact draw, of a value within reach of its chart."""
        return super().draw(_within_reach(self.manifold, data), source)


def _by_ricci(space: Manifold, moved: float, guarantee: Guarantee) -> float | None:
    """The scale by the bound of `privacy.profiles.ricci_bound`; None where the exact profile is to be asked."""
    if rays_of(space) is not None:
        return None
    if space.convexity_radius < inf and space_form_factors(space) is not None:
        raise ParameterError(
            f"calibrating Gaussian noise on {space!r} takes minutes: a supremum over splits with a compact factor. Use "
            "the mechanism log-gaussian, or state a sigma"
        )
    if space.convexity_radius < inf:
        return None
    exact = space_form_factors(space) is not None
    flat = smallest_scale(
        lambda s: HadamardProfile("gaussian", 0.0, space.dim, s, moved),
        guarantee,
        moved,
    )
    try:
        sigma = hadamard_scale(flat, ricci_lower_bound(space))
    except UnattainableGuarantee:
        if exact:
            return None
        raise
    return (
        None if exact and -ricci_lower_bound(space) * sigma * sigma > TIGHT else sigma
    )


def _within_reach(manifold: Manifold, x: np.ndarray) -> np.ndarray:
    """Factors that are released in flat coordinates, where float error has a bound."""
    if len(manifold.factors) > 1:
        parts = zip(manifold.factors, manifold.split(x), strict=True)
        return np.asarray(
            manifold.join([_within_reach(factor, part) for factor, part in parts])
        )
    return (
        project_to_ball(manifold, manifold.origin, REACH, x[None])[0]
        if in_chart(manifold)
        else x
    )


def _charts(manifold: Manifold) -> int:
    """How many factors are released in flat coordinates."""
    if len(manifold.factors) > 1:
        return sum(_charts(factor) for factor in manifold.factors)
    return int(in_chart(manifold))
