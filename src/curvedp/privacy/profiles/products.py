"""What Gaussian noise promises on a product of spaces, such as plane × sphere.
Neighboring data sets move the noise center by at most Δ, the sensitivity. A *split* of
Δ divides that move among the factors: a length Δᵢ in factor i, with ΣΔᵢ² = Δ². The
split with the worst privacy decides.

Each factor is a space of constant curvature. For example, the 2×2 SPD matrices are the
product of a line and a hyperbolic plane of curvature −½.

Theorem P5 (docs/theory/exact-profiles.md). The privacy loss is the sum of the
independent losses of the factors. δ(ε) does not decrease with any Δᵢ, so that δ(ε) of
the product is the supremum over the splits (`largest_over_splits`).

All flat factors count as one part. Products with more than two parts are not supported.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import (
    NINE_ROUNDINGS,
    THREE_ROUNDINGS,
    Array,
    root_rounded_up,
    round_up,
)
from curvedp.privacy.guarantees.gaussian import gdp_delta
from curvedp.privacy.loss.sum import RELATIVE_ERROR_OF_SUM
from curvedp.privacy.profiles.base import RELATIVE_ERROR, PrivacyProfile
from curvedp.privacy.profiles.constant_curvature import (
    CURVATURE_RANGE,
    constant_curvature_profile,
)
from curvedp.privacy.profiles.hyperbolic_floor import FloorProfile
from curvedp.privacy.profiles.split import Factors, split_profile
from curvedp.privacy.profiles.worst_split import largest_over_splits

_SMALLEST_SQUARE = 1e-300  # a lower bound on μ², so that its fit stays positive
_SMALLEST_FLOAT = 5e-324
# A search for ε starts at the largest ε of the extreme splits, or at the first number.
# Its first step is relative to that, and each step is 30 times the one before.
_SMALLEST_FIRST_EPS = 1e-3
_FIRST_RELATIVE_STEP = 1e-6
_STEP_GROWTH = 30
_LARGEST_EPS = 1e300  # δ(ε) is 0 for larger ε
# A μ is multiplied by this, which covers the relative errors of a tabulated loss. An
# error of δ changes μ by less than twice as much.
_MU_MARGIN = 1 + 2 * (RELATIVE_ERROR_OF_SUM + RELATIVE_ERROR)


@dataclass(frozen=True)
class ProductProfile(PrivacyProfile):
    """The privacy profile of the Gaussian on a product of spaces.

    Each factor has constant curvature. A split divides the sensitivity among the
    factors. At every ε, the worst split determines δ(ε), which exceeds the truth by at
    most 1e-8 of it. The worst split is found from a polynomial fit, raised by its
    measured error (`largest_over_splits`).

    Parameters
    ----------
    factors : tuple of (float, int)
        The curvature and the dimension of each factor.
    scale : float
        The scale σ of the noise.
    sensitivity : float
        The largest distance Δ between two centers of the noise.
    """

    factors: Factors
    scale: float
    sensitivity: float

    length_fields: ClassVar[tuple[str, ...]] = ("scale", "sensitivity")

    def __post_init__(self) -> None:
        """Validate factors and sensitivity; refuse more than two parts."""
        super().__post_init__()
        object.__setattr__(self, "factors", self._validated_factors())
        self._validate_sensitivity()
        if len(self._part_diameters) > 2:
            raise ParameterError(
                f"{self.space} has more than two parts "
                "(all flat factors count as one part)"
            )

    def _validate_sensitivity(self) -> None:
        """Refuse a sensitivity that exceeds the diameter of a compact product."""
        is_compact = all(curvature > 0 for curvature, _ in self.factors)
        if not is_compact:
            return

        # Compare with the diameter of the product of spheres.
        diameters = [math.pi / math.sqrt(curvature) for curvature, _ in self.factors]
        diameter = math.hypot(*diameters)
        if self.sensitivity > diameter * (1 + THREE_ROUNDINGS):
            raise ParameterError(
                f"must not exceed the diameter {diameter:g}",
                parameter="sensitivity",
                value=self.sensitivity,
            )

    def _validated_factors(self) -> Factors:
        """Return the factors of the product, checked, as a tuple of (float, int).

        Returns
        -------
        tuple of (float, int)
            The curvature and the dimension of each factor.

        Raises
        ------
        ParameterError
            If they are not pairs of a curvature and a dimension, or if there are none.
        """
        # The factors must be pairs of a curvature and a dimension.
        try:
            pairs = tuple((curvature, dim) for curvature, dim in self.factors)
        except (TypeError, ValueError):
            raise ParameterError(
                "must be pairs (curvature, dimension)",
                parameter="factors",
                value=self.factors,
            ) from None

        if not pairs:
            raise ParameterError("factors=() must not be empty")

        # Check each curvature and each dimension.
        return tuple(
            (
                _validate.within("curvature", curvature, *CURVATURE_RANGE),
                _validate.integer("dim", dim, 1),
            )
            for curvature, dim in pairs
        )

    # ---- splits: how far the noise center moves within each part

    @property
    def _curved_factors(self) -> Factors:
        """The factors that are not flat. A line is flat whatever its curvature."""
        return tuple(
            (curvature, dim)
            for curvature, dim in self.factors
            if curvature > 0 or (curvature < 0 and dim > 1)
        )

    @property
    def _has_flat_factor(self) -> bool:
        """Whether some factor is flat. All flat factors together count as one part."""
        return len(self._curved_factors) < len(self.factors)

    @property
    def _part_diameters(self) -> list[float]:
        """The diameter of each part of the product, infinite if it is unbounded.

        A part is a curved factor, or all flat factors together; the flat part, if there
        is one, comes first. The noise center cannot move farther within a part than its
        diameter, which limits the splits of the sensitivity.
        """
        diameters = [
            math.pi / math.sqrt(curvature) if curvature > 0 else math.inf
            for curvature, _ in self._curved_factors
        ]
        return [math.inf, *diameters] if self._has_flat_factor else diameters

    def _profile_of_split(self, lengths: Sequence[float]) -> PrivacyProfile:
        """Return the privacy profile of two data sets that differ by the given split.

        Sorting must keep each length with its factor.

        Parameters
        ----------
        lengths : sequence of float
            How far the noise center moves within each part, in the order of
            `_part_diameters`. A length beyond the diameter of its part is reduced to
            it.

        Returns
        -------
        PrivacyProfile
            The profile. It is cached.
        """
        distances = [
            min(length, diameter)
            for length, diameter in zip(lengths, self._part_diameters, strict=True)
        ]
        flat_distance = distances.pop(0) if self._has_flat_factor else 0.0
        # Equal factors are interchangeable: sorting lets one table serve every order.
        pairs = sorted(zip(self._curved_factors, distances, strict=True))
        sorted_factors = tuple(factor for factor, _ in pairs)
        sorted_distances = tuple(distance for _, distance in pairs)
        return split_profile(
            sorted_factors, self.scale, flat_distance, sorted_distances
        )

    @property
    def extreme_splits(self) -> list[PrivacyProfile]:
        """The profiles of the splits that put all of the change into one part."""
        return [
            self._profile_of_split((self.sensitivity * direction).tolist())
            for direction in np.eye(len(self._part_diameters))
        ]

    def _largest_over_splits(self, cost: Callable[[PrivacyProfile], Array]) -> Array:
        """Return the supremum over all splits of each entry of a cost.

        For example, the smallest μ of Gaussian DP of the product is the supremum of the
        μ of the splits.

        Parameters
        ----------
        cost : callable
            A function of the privacy profile of a split that returns an array of
            positive numbers. Each must increase with the lengths of the split.

        Returns
        -------
        array
            The suprema, raised by their errors.
        """
        diameters = self._part_diameters
        length = self.sensitivity
        if len(diameters) == 1:
            return cost(self._profile_of_split([length]))

        # A split is length·(cos θ, sin θ). cos θ <= d₁/length and sin θ <= d₂/length,
        # because the diameters d₁ and d₂ of the parts limit the move.
        smallest_angle = math.acos(min(diameters[0] / length, 1.0))
        largest_angle = math.asin(min(diameters[1] / length, 1.0))

        # If both parts are equal, half of the splits are mirror images of the others.
        curved = self._curved_factors
        if len(curved) == 2 and curved[0] == curved[1]:
            largest_angle = min(largest_angle, math.pi / 4)

        def cost_of_direction(direction: Array) -> Array:
            """Return the cost of the split length·direction."""
            return cost(self._profile_of_split((length * direction).tolist()))

        return largest_over_splits(
            cost_of_direction, smallest_angle, max(smallest_angle, largest_angle)
        )

    def _largest_mu_over_splits(
        self, mu_of_split: Callable[[PrivacyProfile], Array]
    ) -> Array:
        """Return the supremum over all splits of some μ, raised by their errors.

        A μ is the distance of two normal laws that are as hard to tell apart as two
        data sets, at one ε or one α. The search maximizes μ², which a polynomial fits
        well, because it is nearly linear in the squared lengths of the split.

        Parameters
        ----------
        mu_of_split : callable
            A function of the privacy profile of a split that returns a row of μ >= 0.

        Returns
        -------
        array
            The suprema.
        """
        mu_squared = self._largest_over_splits(
            lambda split: np.maximum(mu_of_split(split) ** 2, _SMALLEST_SQUARE)
        )
        return np.asarray(np.sqrt(mu_squared) * _MU_MARGIN)

    # ---- the methods of a profile

    def _delta(self, eps: Array) -> Array:
        """Return δ(ε), the largest over all splits of the sensitivity; rounded up.

        Instead of δ(ε), the search over the splits maximizes the μ with δ_μ(ε) = δ(ε),
        where δ_μ is the profile of N(0, 1) against N(μ, 1).

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        if len(self._part_diameters) == 1:
            return self._profile_of_split([self.sensitivity])._delta(eps)

        # From the largest loss on, δ is 0.
        flat_eps = np.asarray(eps, np.float64).ravel()
        is_positive = (flat_eps < self.pure_epsilon) & (flat_eps < _LARGEST_EPS)
        delta = np.zeros_like(flat_eps)

        # Where δ is positive but tiny, no search is needed.
        is_tiny = is_positive & self._is_below_all_floats(flat_eps)
        delta[is_tiny] = _SMALLEST_FLOAT

        is_searched = is_positive & ~is_tiny
        if np.any(is_searched):
            searched_eps = flat_eps[is_searched]
            mu = self._largest_mu_over_splits(lambda split: split.mu_at(searched_eps))
            delta[is_searched] = gdp_delta(mu, searched_eps)
        return delta.reshape(np.shape(eps))

    def _is_below_all_floats(self, eps: Array) -> NDArray[np.bool_]:
        """Say at which ε the δ(ε) of every split is below the smallest positive float.

        A split divides the sensitivity Δ between two parts of the product, and δ
        increases with both lengths. So δ for the lengths (Δ, Δ) bounds that of every
        split. This check needs one table of a privacy loss. A search over all splits
        would need dozens of tables.

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array of bool
            One truth value for each ε.
        """
        bounding_profile = self._profile_of_split([self.sensitivity, self.sensitivity])
        mu = bounding_profile.mu_at(eps) * _MU_MARGIN
        bound = gdp_delta(np.maximum(mu, math.sqrt(_SMALLEST_SQUARE)), eps)
        return np.asarray(bound <= _SMALLEST_FLOAT)

    def _epsilon(self, delta: Array) -> Array:
        """Return the smallest ε with δ(ε) <= delta, for every entry of `delta`.

        Each entry has a search of its own.

        Parameters
        ----------
        delta : array
            Numbers from 0 to 1.

        Returns
        -------
        array
            ε >= 0, rounded up, of the shape of `delta`.
        """
        eps = [self._epsilon_at(value) for value in delta.ravel().tolist()]
        return np.array(eps).reshape(delta.shape)

    def _epsilon_at(self, delta: float) -> float:
        """Return the smallest ε with δ(ε) <= delta, rounded up.

        Each evaluation of δ(ε) is a search over all splits of the sensitivity, which is
        slow. Brent's method finds the root with few evaluations. It starts at the
        largest ε of the splits that move one part only, which is nearly always the
        answer up to rounding.

        Parameters
        ----------
        delta : float
            A number from 0 to 1.

        Returns
        -------
        float
            ε >= 0.
        """

        def relative_excess(eps: float) -> float:
            """Return δ(ε) − delta, divided by the larger one of δ(ε) and delta."""
            value = float(self.delta(eps))
            return (value - delta) / max(value, delta)

        # Enlarge the first guess of ε, in growing steps, until δ is small enough.
        low = 0.0
        eps_of_extremes = [float(split.epsilon(delta)) for split in self.extreme_splits]
        high = max(_SMALLEST_FIRST_EPS, *eps_of_extremes)
        relative_step = _FIRST_RELATIVE_STEP
        while relative_excess(high) > 0:
            low = high
            high = high * (1 + relative_step)
            relative_step = min(_STEP_GROWTH * relative_step, 1.0)
        return root_rounded_up(relative_excess, low, high, relative=NINE_ROUNDINGS)

    def _tradeoff(self, alpha: Array) -> Array:
        """Return the trade-off curve β(α), the lowest over all splits; rounded down.

        β(α) is the smallest type II error of a test, with type I error α, between two
        neighboring data sets. For each split it is expressed as the μ for which N(0, 1)
        and N(μ, 1) have these errors: β = Φ(−Φ⁻¹(α) − μ), with Φ the normal
        distribution function. The search over the splits maximizes μ.

        Parameters
        ----------
        alpha : array
            Type I errors from 0 to 1.

        Returns
        -------
        array
            β(α), of the shape of `alpha`.
        """
        if len(self._part_diameters) == 1:
            return self._profile_of_split([self.sensitivity])._tradeoff(alpha)

        # β(0) = 1 and β(1) = 0; the search is for the α between.
        flat_alpha = np.asarray(alpha, np.float64).ravel()

        is_inside = (flat_alpha > 0) & (flat_alpha < 1)
        beta = np.where(flat_alpha > 0, 0.0, 1.0)
        if np.any(is_inside):
            alpha_inside = flat_alpha[is_inside]
            mu = self._largest_mu_over_splits(
                lambda split: split.mu_of_tradeoff(alpha_inside)
            )
            beta[is_inside] = ndtr(-ndtri(alpha_inside) - mu)
        return beta.reshape(np.shape(alpha))

    @cached_property
    def mu(self) -> float:
        """The smallest μ of Gaussian DP: the largest over all splits, rounded up.

        A split divides the sensitivity among the parts of the product. μ² is fitted in
        place of μ, because it is nearly linear in the squared lengths of a split.
        """
        if len(self._part_diameters) == 1:
            return self._profile_of_split([self.sensitivity]).mu
        mu_squared = self._largest_over_splits(lambda split: np.array([split.mu**2]))[0]
        return float(round_up(math.sqrt(mu_squared), 2 * RELATIVE_ERROR_OF_SUM))

    @cached_property
    def rho(self) -> float:
        """The smallest ρ of zero-concentrated DP: the largest over all splits.

        A split divides the sensitivity among the parts. ρ is rounded up.
        """
        rho = self._largest_over_splits(lambda split: np.array([split.rho]))[0]
        return float(round_up(float(rho), RELATIVE_ERROR_OF_SUM))

    @cached_property
    def hellinger_angle(self) -> float:
        """The Hellinger angle 2·arccos∫√(p₁p₂), the largest over all splits.

        p₁ and p₂ are the output densities on two data sets that differ by one split of
        the sensitivity among the parts. The result is rounded up.
        """
        squared = self._largest_over_splits(
            lambda split: np.array([split.hellinger_angle**2])
        )[0]
        return min(float(round_up(math.sqrt(squared), RELATIVE_ERROR_OF_SUM)), math.pi)

    @cached_property
    def pure_epsilon(self) -> float:
        """The smallest ε with δ(ε) = 0: the largest privacy loss, rounded up.

        It is finite only if all factors are spheres. Let cᵢ be their diameters, Δ the
        sensitivity and σ the scale of the noise. The largest loss ΣΔᵢ(2cᵢ − Δᵢ)/2σ² of
        a split (Δ₁, Δ₂) of Δ is maximal if the Δᵢ are proportional to the cᵢ. Then it
        is Δ(2|c| − Δ)/2σ², where |c| = √(Σcᵢ²) is the diameter of the product.
        """
        is_compact = all(math.isfinite(diameter) for diameter in self._part_diameters)
        if not is_compact:
            return math.inf
        diameter = math.hypot(*self._part_diameters)
        length = self.sensitivity
        numerator = length * (2 * diameter - min(length, diameter))
        return float(round_up(numerator / (2 * self.scale**2), NINE_ROUNDINGS))

    def renyi_at(self, order: float) -> float:
        """Return the Rényi divergence D_α, the largest over all splits; rounded up.

        Parameters
        ----------
        order : float
            The order α >= 1.

        Returns
        -------
        float
            D_α >= 0.
        """
        if math.isinf(order):
            return self.pure_epsilon
        divergence = self._largest_over_splits(
            lambda split: np.array([split.renyi_at(order)])
        )[0]
        return float(round_up(float(divergence), RELATIVE_ERROR_OF_SUM))

    @cached_property
    def rao(self) -> float:
        """The Rao distance: the sensitivity times the largest √(Fisher information).

        The Fisher metric of a product is block diagonal, so that the worst direction
        lies within one factor.
        """
        # Compute √(Fisher information) of each part; for the flat part it is 1/σ.
        root_informations = [1 / self.scale] if self._has_flat_factor else []
        for curvature, dim in self._curved_factors:
            distance = self.sensitivity
            if curvature > 0:
                distance = min(distance, math.pi / math.sqrt(curvature))
            profile = constant_curvature_profile(
                "gaussian", curvature, dim, self.scale, distance
            )
            root_informations.append(profile.rao / distance)

        # The worst direction lies in the part where it is largest.
        largest = max(root_informations)
        return float(round_up(self.sensitivity * largest, RELATIVE_ERROR))

    @property
    def space(self) -> str:
        """The name of the product, for messages."""
        plane_and_line = [(-0.5, 2), (0.0, 1)]  # SPD(2) is their product
        if sorted(self.factors) == plane_and_line:
            return "SPDAffineInvariant(2)"
        names = [
            f"dimension {dim} curvature {curvature:g}"
            for curvature, dim in self.factors
        ]
        return "the product of " + ", ".join(names)

    @cached_property
    def floor(self) -> PrivacyProfile | None:
        """The profile that remains for arbitrarily much noise, or None.

        On a hyperbolic space, noise of any scale leaves some privacy loss. If exactly
        one factor is hyperbolic, its limiting profile is returned, because the losses
        of the other factors vanish as the scale grows. For two hyperbolic factors the
        limit is not computed, and None is returned: a calibration then finds out by its
        search that no scale is large enough.
        """
        hyperbolic = [factor for factor in self._curved_factors if factor[0] < 0]
        if len(hyperbolic) != 1:
            return None
        curvature, dim = hyperbolic[0]
        return FloorProfile(curvature, dim, self.sensitivity)


def product_profile(
    factors: Sequence[tuple[float, int]], sigma: float, sensitivity: float
) -> ProductProfile:
    """Return the profile of the Gaussian of scale σ on a product of space forms.

    Parameters
    ----------
    factors : sequence of (float, int)
        The curvature and the dimension of each factor.
    sigma : float
        The scale σ of the noise.
    sensitivity : float
        The largest distance between two centers of the noise.

    Returns
    -------
    ProductProfile
        The profile; `delta`, `epsilon` and `mu` are among its members.
    """
    return ProductProfile(factors, sigma, sensitivity)  # type: ignore[arg-type]
