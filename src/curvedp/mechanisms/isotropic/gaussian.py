"""The Riemannian Gaussian mechanism (Jiang et al. 2023), with exact profile and sampler."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nextafter
from typing import Any, ClassVar, Self

import numpy as np

from curvedp.core.capabilities import SometimesExcluded
from curvedp.core.chart import CHART_ERROR, MAX_CHART_LENGTH
from curvedp.core.mechanism import Draw, MechanismInfo, check_guarantee, check_supported
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import project_to_ball
from curvedp.geometry.capabilities import ricci_lower_bound
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.product import join_factors, split_into_factors
from curvedp.laws import RiemannianGaussian
from curvedp.laws.exact import (
    check_drawable_scale,
    grid_shape,
    has_exact_gaussian,
    is_released_in_chart,
)
from curvedp.laws.exact.grassmann import has_exact_planes
from curvedp.laws.isotropic.space import (
    constant_curvature_factors,
    two_point_homogeneous_space,
)
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.mechanisms.vector import NoiseKind
from curvedp.privacy import Guarantee, PrivacyProfile, smallest_scale
from curvedp.privacy.profiles.ricci_bound import HadamardProfile, hadamard_scale
from curvedp.randomness import Source

# The bound by Ricci curvature is within 0.05 % of the exact profile if |Ric|·σ² is at
# most this number, where Ric is the lower bound on the Ricci curvature and σ the scale.
_TIGHT_RICCI = 2.0**-10


@dataclass(frozen=True, eq=False, init=False)
class GaussianMechanism(IsotropicMechanism, SometimesExcluded):
    """Release a point y with the density ∝ exp(−d(y, f(D))²/2σ²) about a statistic f(D).

    Here d is the geodesic distance, D are the records and σ is the noise scale.

    Parameters
    ----------
    manifold : Manifold
        Where the statistic lives.
    sensitivity : float
        How far the statistic can move between neighboring data sets. The caller vouches
        for it.
    sigma : float
        The noise scale σ.
    statistic : Statistic
        A statistic with its space and sensitivity; it is passed instead of `manifold`
        and `sensitivity`.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = `privacy_profile.mu`, the supremum over all ε and all distances up
      to the sensitivity, rounded up;
    - the released value is on the grid 2^-30 (finer for small noise), and its law is
      within total variation distance `slack` of the ideal law.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.privacy import GDP
    >>> mechanism = GaussianMechanism.calibrated(Sphere(2), sensitivity=0.01, guarantee=GDP(0.5))
    >>> mechanism.privacy_profile.mu <= 0.5
    True
    """

    sigma: float

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "riemannian-gaussian", option="gaussian", similar_to="tangent-gaussian"
    )
    noise_kind: ClassVar[NoiseKind] = "gaussian"
    scale_name: ClassVar[str] = "sigma"

    def __init__(
        self,
        manifold: Any = None,
        sensitivity: Any = None,
        sigma: Any = None,
        *,
        statistic: Statistic | None = None,
    ) -> None:
        """State the statistic and σ, and check that this Gaussian can be drawn exactly.

        Parameters
        ----------
        manifold : Manifold, optional
            Where the value lives; with `sensitivity` it stands for a statistic that the
            caller computes.
        sensitivity : float, optional
            How far that value can move between neighboring data sets.
        sigma : float or Guarantee
            The noise scale σ; or a guarantee, from which σ is calibrated (only if the
            manifold and the sensitivity are stated).
        statistic : Statistic, optional
            A statistic of the library, instead of `manifold` and `sensitivity`.

        Raises
        ------
        ParameterError
            If the manifold has no exact Gaussian sampler, or not for this σ.
        """
        super().__init__(manifold, sensitivity, sigma, statistic=statistic)
        if not has_exact_gaussian(self.manifold):
            raise ParameterError(
                f"{self.manifold!r} has no exact Gaussian sampler; use "
                "the mechanism tangent-gaussian"
            )
        # A law that does not exist is refused here, not at the first release.
        _ = self.noise_law
        check_drawable_scale(self.manifold, self.sigma)

    @property
    def scale(self) -> float:  # type: ignore[override]  # a field of other laws
        """The noise scale σ, under the name that all noise laws share."""
        return self.sigma

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The shape of the drawn coordinates, ambient or flat for each factor."""
        return grid_shape(self.manifold)

    @classmethod
    def charged_sensitivity(cls, statistic: Statistic) -> float:
        """Return the sensitivity to which the noise is calibrated, with float errors.

        For some factors of the space the noise is added to flat coordinates, which are
        computed in floats. Their errors, in the values of both neighboring data sets,
        are added to the sensitivity.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.

        Returns
        -------
        float
            A distance on the manifold: how far the computed value can move if one
            record is replaced.
        """
        # The number of factors for which the noise is added to flat coordinates.
        n_charts = _count_charts(statistic.value_space)
        if n_charts == 0:
            return float(statistic.sensitivity)
        # A factor 2 for the two neighboring data sets.
        float_error = 2 * CHART_ERROR * MAX_CHART_LENGTH * n_charts
        return nextafter(statistic.sensitivity + float_error, inf)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism with the least noise that meets a guarantee.

        The Ricci bound is an upper bound of the privacy profile in closed form. The
        noise scale follows from it if it is tight or if nothing better is known, and
        otherwise from the exact profile.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.
        guarantee : Guarantee
            The privacy guarantee that the release must satisfy.

        Returns
        -------
        GaussianMechanism
            The mechanism with the smallest scale σ that is known to meet the guarantee.
        """
        check_supported(cls, statistic)
        check_guarantee(guarantee)
        sensitivity = cls.charged_sensitivity(statistic)
        sigma = _scale_by_ricci(statistic.value_space, sensitivity, guarantee)
        if sigma is None:
            return super().calibrate(statistic, guarantee)
        return cls(sigma=sigma, statistic=statistic)

    @classmethod
    def profile_by_scale(
        cls, space: Manifold, sensitivity: float
    ) -> Callable[[float], PrivacyProfile]:
        """Return a function that maps a noise scale to the privacy profile.

        The profile is the Ricci bound where that is tight, and otherwise exact. On a
        product of spaces the exact profile takes seconds to minutes, because it is a
        supremum over all ways to split the sensitivity between the factors.

        Parameters
        ----------
        space : Manifold
            Where the noise is drawn.
        sensitivity : float
            How far the value can move if one record is replaced.

        Returns
        -------
        function of a noise scale
            Returns the profile: δ as a function of ε.
        """

        def profile_at(scale: float) -> PrivacyProfile:
            """Return the Ricci bound if it is tight here, else the exact profile.

            Parameters
            ----------
            scale : float
                The noise scale σ.
            """
            law = RiemannianGaussian(space, scale)
            if two_point_homogeneous_space(space) is None:
                bound = law.ricci_bound(sensitivity, _TIGHT_RICCI)
                if bound is not None:
                    return bound
            return law.profile(sensitivity)

        return profile_at

    @classmethod
    def reason_excluded(cls, statistic: Statistic) -> str | None:
        """Return why `mechanism="auto"` does not consider this mechanism, or None.

        It is excluded where its noise cannot be drawn exactly. Where it can, but
        calibration is slow or little is gained over the mechanism "tangent-gaussian", a
        user can still ask for it by name.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.

        Returns
        -------
        str or None
            The reason. None if the mechanism is a candidate.
        """
        space = statistic.value_space
        if space.constant_curvature is not None or has_exact_planes(space):
            return None  # the exact profile is fast to compute
        if not has_exact_gaussian(space):
            return f"it has no exact draws on {space!r}"
        is_hadamard = space.convexity_radius == inf
        if is_hadamard:
            return "on request only: its error is within 10% of tangent-gaussian"
        return "on request only: its calibration takes longer"

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """Draw exact Gaussian noise about the value of the statistic.

        Parameters
        ----------
        data : array of shape point_shape
            The value of the statistic. It is clipped to the region in which the float
            error of its coordinates is bounded.
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The noisy point, with its integers on the public grid and a bound on the
            total variation distance of the sampler from the ideal law.
        """
        return super().draw(_clip_to_chart(self.manifold, data), source)


def _scale_by_ricci(
    space: Manifold, sensitivity: float, guarantee: Guarantee
) -> float | None:
    """Return the noise scale σ that meets a guarantee by the Ricci bound, or None.

    Theorem (docs/theory/exact-profiles.md). On a Hadamard manifold (complete, simply
    connected, curvature ≤ 0) whose Ricci curvature is at least −k, the Gaussian of
    scale σ has at most the privacy loss of a flat Gaussian of scale σ·√(1 − kσ²).

    Parameters
    ----------
    space : Manifold
        Where the noise is drawn.
    sensitivity : float
        How far the value can move if one record is replaced.
    guarantee : Guarantee
        What the release must satisfy.

    Returns
    -------
    float or None
        The scale; None if the caller should calibrate by the exact profile instead.

    Raises
    ------
    ParameterError
        If calibration by the exact profile would take minutes.
    UnattainableGuarantee
        If the bound cannot meet the guarantee and there is no exact profile.
    """
    if two_point_homogeneous_space(space) is not None:
        return None  # calibrate by its exact profile
    has_exact_profile = constant_curvature_factors(space) is not None
    is_hadamard = space.convexity_radius == inf
    if not is_hadamard and has_exact_profile:
        raise ParameterError(
            f"calibrating Gaussian noise on {space!r} takes minutes: a supremum over splits "
            "with a compact factor. Use the mechanism tangent-gaussian, or state a "
            "sigma"
        )
    if not is_hadamard:
        return None  # such as planes, whose profile has a closed form

    def flat_profile_at(scale: float) -> PrivacyProfile:
        """Return the privacy profile of a Gaussian of this scale in flat space."""
        return HadamardProfile("gaussian", 0.0, space.dim, scale, sensitivity)

    # Solve flat_scale = σ·√(1 − kσ²) for σ. If k is large there is no solution.
    flat_scale = smallest_scale(flat_profile_at, guarantee, sensitivity)
    try:
        sigma = hadamard_scale(flat_scale, ricci_lower_bound(space))
    except UnattainableGuarantee:
        if has_exact_profile:
            return None
        raise
    # The bound is tight if kσ² is small; else the exact profile needs less noise.
    if has_exact_profile and -ricci_lower_bound(space) * sigma * sigma > _TIGHT_RICCI:
        return None
    return sigma


def _clip_to_chart(manifold: Manifold, point: np.ndarray) -> np.ndarray:
    """Clip a point to a large ball in each factor that is released in flat coordinates.

    In such a factor the point is moved to within `MAX_CHART_LENGTH` of the origin, so
    that the float error of its coordinates is bounded. Other factors stay as they are.

    Parameters
    ----------
    manifold : Manifold
        The space of the point.
    point : array of shape point_shape
        The value of the statistic.

    Returns
    -------
    array of shape point_shape
        The clipped point.
    """
    if len(manifold.factors) > 1:
        components = split_into_factors(manifold, point)
        clipped_components = [
            _clip_to_chart(factor, component)
            for factor, component in zip(manifold.factors, components, strict=True)
        ]
        return np.asarray(join_factors(manifold, clipped_components))
    if not is_released_in_chart(manifold):
        return point
    clipped = project_to_ball(manifold, manifold.origin, MAX_CHART_LENGTH, point[None])
    return np.asarray(clipped[0])


def _count_charts(manifold: Manifold) -> int:
    """Return the number of factors of a space that are released in flat coordinates."""
    if len(manifold.factors) > 1:
        return sum(_count_charts(factor) for factor in manifold.factors)
    return int(is_released_in_chart(manifold))
