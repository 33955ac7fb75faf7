"""The Riemannian Gaussian mechanism (Jiang et al. 2023), with exact profile and
sampler. It releases a point y with density ∝ exp(−d(y, f)²/2σ²) about a value f. A
*profile* states δ for every ε; the *flat bound* replaces it, on compact spaces, by that
of Euclidean space.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from curvedp import _validate
from curvedp.core.capabilities import SometimesExcluded
from curvedp.core.chart import CHART_ERROR, MAX_CHART_LENGTH
from curvedp.core.fields import assign
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
    is_released_in_flat_coordinates,
)
from curvedp.laws.exact.grassmann import has_exact_plane_sampler
from curvedp.laws.isotropic.space import (
    constant_curvature_factors,
    two_point_homogeneous_space,
)
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.mechanisms.vector import NoiseKind
from curvedp.privacy import Guarantee, PrivacyProfile, smallest_scale
from curvedp.privacy.profiles.positive_curvature import PositiveCurvatureProfile
from curvedp.privacy.profiles.ricci_bound import HadamardProfile, hadamard_scale
from curvedp.randomness import Source

# The bound by Ricci curvature is within 0.05 % of the exact profile if |Ric|·σ² is at
# most this number, where Ric is the lower bound on the Ricci curvature and σ the scale.
_TIGHT_RICCI = 2.0**-10

# The profile on which the privacy claims rest.
ProfileChoice = Literal["exact", "flat-bound"]


def _check_profile(name: str, value: Any) -> ProfileChoice:
    """Return "exact" or "flat-bound", or raise `ParameterError`."""
    _validate.choice(name, value, ("exact", "flat-bound"))
    return "flat-bound" if value == "flat-bound" else "exact"


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
    profile : {"exact", "flat-bound"}
        On which privacy profile the claims rest. "flat-bound" is that of flat space, an
        upper bound where no curvature is negative.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = `privacy_profile.mu`, the supremum over all ε and all distances up
      to the sensitivity, rounded up;
    - the released value is on the grid 2^-30 (finer for small noise), and its
      distribution is within total variation distance `slack` of the ideal one.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.privacy import GDP
    >>> mechanism = GaussianMechanism.calibrated(Sphere(2), sensitivity=0.01, guarantee=GDP(0.5))
    >>> mechanism.privacy_profile.mu <= 0.5
    True
    """

    sigma: float
    profile: Annotated[ProfileChoice, _check_profile] = "exact"

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
        profile: Any = "exact",
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

        profile : {"exact", "flat-bound"}
            On which profile the claims rest. "flat-bound" is that of flat space, an
            upper bound by Theorem P6 where no curvature is negative; `calibrate` takes
            it on products whose exact profile takes minutes.

        Raises
        ------
        ParameterError
            If the manifold has no exact Gaussian sampler, or not for this σ, or if
            Theorem P6 does not hold for it.
        """
        if statistic is None and isinstance(sigma, Guarantee):
            calibrated = type(self).calibrated(manifold, sensitivity, sigma)
            sigma, profile = calibrated.sigma, calibrated.profile
        assign(self, profile=_check_profile("profile", profile))
        super().__init__(manifold, sensitivity, sigma, statistic=statistic)
        _check_exact_sampler(self.manifold)
        # Noise that does not exist is refused here, not at the first release.
        law = RiemannianGaussian(self.manifold, self.sigma)
        if self.profile == "flat-bound" and law.flat_bound(1.0) is None:
            raise ParameterError(
                f"is not known to bound the privacy loss on {self.manifold!r}",
                parameter="profile",
                value=self.profile,
            )
        check_drawable_scale(self.manifold, self.sigma)

    @property
    def scale(self) -> float:  # type: ignore[override]  # a field of other mechanisms
        """The noise scale σ, under the name that all noise distributions share."""
        return self.sigma

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The shape of the drawn coordinates, ambient or flat for each factor."""
        return grid_shape(self.manifold)

    @classmethod
    def calibration_sensitivity(cls, statistic: Statistic) -> float:
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
        n_charts = _count_flat_factors(statistic.value_space)
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
        otherwise from the exact profile. On products with a compact curved factor,
        whose exact profile takes minutes, it follows from the bound of Theorem P6: σ is
        the sensitivity over μ, at most about 1.2 times the least scale.

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
        sensitivity = cls.calibration_sensitivity(statistic)
        space = statistic.value_space
        _check_exact_sampler(space)  # before the search for σ, which can take seconds
        if _is_slow_product(space):
            sigma = _scale_by_flat_bound(space, sensitivity, guarantee)
            return cls(sigma=sigma, statistic=statistic, profile="flat-bound")
        sigma_by_ricci = _scale_by_ricci(space, sensitivity, guarantee)
        if sigma_by_ricci is None:
            return super().calibrate(statistic, guarantee)
        return cls(sigma=sigma_by_ricci, statistic=statistic)

    @cached_property
    def privacy_profile(self) -> PrivacyProfile:
        """The privacy profile of the release, or its bound by Theorem P6."""
        if self.profile == "exact":
            return super().privacy_profile
        law = RiemannianGaussian(self.manifold, self.sigma)
        bound = law.flat_bound(self.calibration_sensitivity(self.statistic))
        assert bound is not None  # `__init__` has refused other spaces
        return bound

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

        It is excluded on spaces where its noise cannot be drawn exactly. It is also
        excluded where calibration is slow, or where it is hardly more accurate than the
        mechanism "tangent-gaussian"; there a user can still ask for it by name.

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
        if space.constant_curvature is not None or has_exact_plane_sampler(space):
            return None  # the exact profile is fast to compute
        if not has_exact_gaussian(space):
            return f"it has no exact draws on {space!r}"
        is_hadamard = space.convexity_radius == inf
        if is_hadamard:
            return "on request only: its error is within 10% of tangent-gaussian"
        return "on request only: its error is about that of tangent-gaussian"

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
            total variation distance of the sampler from the ideal distribution.
        """
        return super().draw(_clip_flat_factors(self.manifold, data), source)


def _check_exact_sampler(space: Manifold) -> None:
    """Raise `ParameterError` unless the Riemannian Gaussian of a space is drawn exactly.

    Parameters
    ----------
    space : Manifold
        Where the noise is drawn.
    """
    if not has_exact_gaussian(space):
        raise ParameterError(
            f"{space!r} has no exact Gaussian sampler; use "
            "the mechanism tangent-gaussian"
        )


def _is_slow_product(space: Manifold) -> bool:
    """Return whether the exact profile is a supremum over splits with a compact factor.

    Parameters
    ----------
    space : Manifold
        Where the noise is drawn.
    """
    if two_point_homogeneous_space(space) is not None:
        return False
    is_hadamard = space.convexity_radius == inf
    return not is_hadamard and constant_curvature_factors(space) is not None


def _scale_by_flat_bound(
    space: Manifold, sensitivity: float, guarantee: Guarantee
) -> float:
    """Return the noise scale σ that meets a guarantee by Theorem P6.

    Theorem (docs/theory/exact-profiles.md). On a product of compact symmetric spaces
    with convex injectivity domains and of flat spaces, the Gaussian of scale σ has at
    most the privacy loss of the flat one.

    Parameters
    ----------
    space : Manifold
        Where the noise is drawn.
    sensitivity : float
        How far the value can move if one record is replaced.
    guarantee : Guarantee
        What the release must satisfy.

    Raises
    ------
    ParameterError
        If the theorem is not about this product, or the guarantee bounds the loss
        itself, which the flat Gaussian does not.
    """
    advice = "use the mechanism tangent-gaussian, or state a sigma"
    if RiemannianGaussian(space, sensitivity).flat_bound(sensitivity) is None:
        raise ParameterError(
            f"calibrating Gaussian noise on {space!r} takes minutes, because its exact "
            "profile is a supremum over splits of the sensitivity; and no bound is "
            f"proved, because one factor is compact and another has negative curvature; "
            f"{advice}"
        )

    def flat_profile_at(scale: float) -> PrivacyProfile:
        """Return the privacy profile of a Gaussian of this scale in flat space."""
        return PositiveCurvatureProfile.from_gaussian(space.dim, scale, sensitivity)

    return smallest_scale(flat_profile_at, guarantee, sensitivity)


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
    UnattainableGuarantee
        If the bound cannot meet the guarantee and there is no exact profile.
    """
    if two_point_homogeneous_space(space) is not None:
        return None  # calibrate by its exact profile
    has_exact_profile = constant_curvature_factors(space) is not None
    is_hadamard = space.convexity_radius == inf
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


def _clip_flat_factors(manifold: Manifold, point: np.ndarray) -> np.ndarray:
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
            _clip_flat_factors(factor, component)
            for factor, component in zip(manifold.factors, components, strict=True)
        ]
        return np.asarray(join_factors(manifold, clipped_components))
    if not is_released_in_flat_coordinates(manifold):
        return point
    clipped = project_to_ball(manifold, manifold.origin, MAX_CHART_LENGTH, point[None])
    return np.asarray(clipped[0])


def _count_flat_factors(manifold: Manifold) -> int:
    """Return the number of factors of a space that are released in flat coordinates."""
    if len(manifold.factors) > 1:
        return sum(_count_flat_factors(factor) for factor in manifold.factors)
    return int(is_released_in_flat_coordinates(manifold))
