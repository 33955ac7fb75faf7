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
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from curvedp import _validate
from curvedp.errors import NotResolved, ParameterError
from curvedp.numerics.directed_rounding import (
    NINE_ROUNDINGS,
    THREE_ROUNDINGS,
    Array,
    root_rounded_up,
    round_up,
)
from curvedp.privacy.guarantees.gaussian import gdp_delta
from curvedp.privacy.loss.law import PrivacyLossLaw
from curvedp.privacy.loss.sum import (
    RELATIVE_ERROR_OF_SUM,
    GaussianLoss,
    SummandLoss,
    SumOfLosses,
)
from curvedp.privacy.profiles.base import (
    RELATIVE_ERROR,
    PrivacyProfile,
    SubgaussianTail,
)
from curvedp.privacy.profiles.constant_curvature import (
    CURVATURE_RANGE,
    ConstantCurvatureProfile,
    FloorProfile,
    constant_curvature_profile,
)

Factors = tuple[tuple[float, int], ...]  # (curvature, dimension) of each factor
# A function of a split (a pair of lengths) that returns a row of positive numbers, each
# of which increases with either length. A number is the privacy parameter of the split
# (such as μ²) in one definition of privacy, or at one ε.
CostOfSplit = Callable[[Array], Array]

# A split over two parts is (cos θ, sin θ) up to its length. An interval of angles θ is
# called an arc of splits.
_GOOD_ERROR = 1e-7  # a relative error of the fit over the splits that is good enough
_POOR_ERROR = 1e-5  # a larger relative error makes the search narrow the arc of splits
_NEGLIGIBLE_SINGULAR_VALUE = 1e-13  # relative, in the least squares of a fit
_FIT_SIZES = (5, 9, 17, 33, 65)  # numbers of splits to which polynomials are fitted
_MOST_NARROWINGS = 12  # times that the arc of splits is narrowed; fewer are usual
_ARC_ENDS = 13  # points that divide an arc of splits into 12 shorter ones
_FINE_GRID_SIZE = 2049  # points at which a fit is searched for its maximum
_NEAR_MAXIMUM = 0.99  # fraction of the maximum beyond which errors of a fit count
# The first and the last step of the search for a maximum of a fit on [−1, 1]. The fine
# grid has cells of about 1e-3; an error of 1e-7 in z changes a maximum by 1e-14.
_FIRST_CLIMB_STEP = 1e-3
_LAST_CLIMB_STEP = 1e-7
_MOST_UNRESOLVED = 1e-6  # a table of the loss with a larger relative error is refused
_SMALLEST_SQUARE = 1e-300  # a lower bound on μ², so that its fit stays positive
_SMALLEST_FLOAT = 5e-324
# A search for ε starts at the largest ε of the extreme splits, or at the first number.
# Its first step is relative to that, and each step is 30 times the one before.
_SMALLEST_FIRST_EPS = 1e-3
_FIRST_RELATIVE_STEP = 1e-6
_STEP_GROWTH = 30
_LARGEST_EPS = 1e300  # δ(ε) is 0 for larger ε
# The relative errors that are charged to δ and to μ, in units of the relative error of
# the table of the loss. Twice as much for μ, because an error of δ changes μ by less
# than twice as much. Raising them is safe; tests/privacy/test_products.py compares δ
# and μ with independent integrals.
_TABLE_ERROR_FACTOR_OF_DELTA = 20
_TABLE_ERROR_FACTOR_OF_MU = 40
# A μ is multiplied by this, which covers the relative errors of a tabulated loss. An
# error of δ changes μ by less than twice as much.
_MU_MARGIN = 1 + 2 * (RELATIVE_ERROR_OF_SUM + RELATIVE_ERROR)


@dataclass(frozen=True)
class _SplitProfile(PrivacyProfile):
    """The privacy profile of two data sets that differ by one given split.

    A split says how far the noise center moves within each factor of the product.

    Attributes
    ----------
    factors : tuple
        (curvature, dimension) of the curved factors.
    scale : float
        The scale σ of the noise.
    flat_distance : float
        The length of the change in the flat factors, which count as one.
    distances : tuple of float
        The length of the change in each curved factor.
    """

    factors: Factors
    scale: float
    flat_distance: float
    distances: tuple[float, ...]

    def _delta(self, eps: Array) -> Array:
        """Return δ(ε) for this split, raised by the error of the table of the loss.

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        return np.minimum(super()._delta(eps) * (1 + self._relative_error), 1.0)

    @property
    def _table_error(self) -> float:
        """The relative error of the tabulated tails of the privacy loss.

        `NotResolved` is raised if it exceeds 1e-6.
        """
        table_error = self.loss_table.series.unresolved
        if table_error > _MOST_UNRESOLVED:
            raise NotResolved(
                "the privacy loss on this product of spaces is a sum of two losses "
                "that could not be computed accurately enough"
            )
        return table_error

    @property
    def _relative_error(self) -> float:
        """A bound on the relative error of δ(ε) for this split.

        It has two sources: the convolution integral, if two curved factors contribute,
        and the table of the privacy loss.
        """
        error_of_sum = RELATIVE_ERROR_OF_SUM if len(self.curved_profiles) > 1 else 0.0
        return error_of_sum + _TABLE_ERROR_FACTOR_OF_DELTA * self._table_error

    @cached_property
    def curved_profiles(self) -> tuple[ConstantCurvatureProfile, ...]:
        """The profiles of the curved factors in which the two data sets differ."""
        profiles = []
        for (curvature, dim), distance in zip(
            self.factors, self.distances, strict=True
        ):
            if distance > 0:
                profile = constant_curvature_profile(
                    "gaussian", curvature, dim, self.scale, distance
                )
                profiles.append(profile)
        return tuple(profiles)

    @cached_property
    def loss_law(self) -> PrivacyLossLaw:
        """The privacy loss: the sum of the losses of the two factors that change.

        Its distribution is a convolution integral, taken over the loss with the smaller
        standard deviation.
        """
        # Exactly two pairs (standard deviation of the loss, loss). A summand must be
        # evaluated quickly, so a curved factor enters by its table.
        summands: list[tuple[float, SummandLoss]] = []
        for profile in self.curved_profiles:
            summands.append((profile.loss_law.loss_scale, profile.loss_table))
        if self.flat_distance > 0:
            flat_mu = self.flat_distance / self.scale
            summands.append((flat_mu, GaussianLoss(flat_mu)))

        # The loss with the smaller deviation is the variable of the convolution.
        summands.sort(key=lambda summand: summand[0])
        (narrow_scale, narrow), (wide_scale, wide) = summands
        return SumOfLosses(wide, narrow, wide_scale, narrow_scale)

    @cached_property
    def mu(self) -> float:
        """The smallest μ of Gaussian DP for this split.

        It is raised by the relative error of the table of the privacy loss.
        """
        uncorrected_mu = super().mu  # may extend the table, and so comes first
        table_error = _TABLE_ERROR_FACTOR_OF_MU * self.loss_table.series.unresolved
        return float(round_up(uncorrected_mu, table_error))

    def mu_at(self, eps: Array) -> Array:
        """Return, for every ε, the μ with δ_μ(ε) = δ(ε), raised by its error.

        δ_μ is the profile of N(0, 1) against N(μ, 1). The error comes from the table of
        the privacy loss.

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array
            The values of μ, of the shape of `eps`.
        """
        uncorrected_mu = super().mu_at(eps)
        table_error = _TABLE_ERROR_FACTOR_OF_MU * self.loss_table.series.unresolved
        return uncorrected_mu * (1 + table_error)

    def mu_of_tradeoff(self, alpha: Array) -> Array:
        """Return, for every α, the μ whose Gaussian trade-off curve contains (α, β(α)).

        β(α) is the smallest type II error of a test, with type I error α, between the
        two data sets. μ is raised by the error of the table of the privacy loss.

        Parameters
        ----------
        alpha : array
            Type I errors from 0 to 1.

        Returns
        -------
        array
            The values of μ, of the shape of `alpha`.
        """
        uncorrected_mu = super().mu_of_tradeoff(alpha)
        table_error = _TABLE_ERROR_FACTOR_OF_MU * self.loss_table.series.unresolved
        return uncorrected_mu * (1 + table_error)

    @property
    def rao(self) -> float:
        """The Rao distance √(Σ θᵢ²), where θᵢ is the Rao distance in factor i.

        The Rao distance of a factor is (distance of the noise centers)·√(Fisher
        information). Squares add up because the Fisher metric of a product is block
        diagonal.
        """
        squares = [profile.rao**2 for profile in self.curved_profiles]
        squares.append((self.flat_distance / self.scale) ** 2)
        return float(round_up(math.sqrt(sum(squares)), NINE_ROUNDINGS))

    @property
    def _limiting_mu(self) -> float:
        """The limit, as ε grows, of the solution μ of δ_μ(ε) = δ(ε).

        δ_μ is the profile of N(0, 1) against N(μ, 1), and δ that of the noise.
        Only the flat part and hyperbolic factors count. On spheres the privacy loss is
        bounded.
        """
        hyperbolic_distances = []
        for (curvature, _), distance in zip(self.factors, self.distances, strict=True):
            if curvature < 0:
                hyperbolic_distances.append(distance)
        return math.hypot(self.flat_distance, *hyperbolic_distances) / self.scale

    def _subgaussian_tail(self) -> SubgaussianTail:
        """Return a bound on the exponential moments of the privacy loss.

        The loss is a sum of independent losses, one for each factor, so that the
        logarithms of their moments add up. The loss of a spherical factor is bounded by
        its `pure_epsilon`, which counts as drift.

        Returns
        -------
        SubgaussianTail
            The sums of the constants of all factors.
        """
        tails = []
        for profile in self.curved_profiles:
            if profile.curvature < 0:
                tails.append(profile._subgaussian_tail())
            else:
                tails.append(SubgaussianTail(0.0, profile.pure_epsilon))

        log_k = sum(tail.log_k for tail in tails)
        drift = sum(tail.drift for tail in tails)
        return SubgaussianTail(log_k, drift)


@lru_cache(maxsize=512)
def _split_profile(
    factors: Factors,
    scale: float,
    flat_distance: float,
    distances: tuple[float, ...],
) -> PrivacyProfile:
    """Return the privacy profile of two data sets that differ by one given split.

    A split says how far the noise center moves within each factor of the product. If it
    moves within one factor only, the profile is simply that of this factor. Results are
    cached, because a search visits the same splits many times.

    Parameters
    ----------
    factors : tuple of (float, int)
        The curvature and the dimension of each curved factor.
    scale : float
        The scale σ of the noise.
    flat_distance : float
        How far the center moves within the flat factors, which count as one.
    distances : tuple of float
        How far it moves within each curved factor.

    Returns
    -------
    PrivacyProfile
        The profile of a Gaussian on one factor, or a `_SplitProfile`.
    """
    changed_factors = [
        (curvature, dim, distance)
        for (curvature, dim), distance in zip(factors, distances, strict=True)
        if distance > 0
    ]
    if not changed_factors:
        # Flat Gaussians have the same profile in every dimension.
        any_dim = 2
        return constant_curvature_profile(
            "gaussian", 0.0, any_dim, scale, flat_distance
        )
    if flat_distance == 0 and len(changed_factors) == 1:
        curvature, dim, distance = changed_factors[0]
        return constant_curvature_profile("gaussian", curvature, dim, scale, distance)
    return _SplitProfile(factors, scale, flat_distance, distances)


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
        return _split_profile(
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
        if (
            len(self._curved_factors) == 2
            and self._curved_factors[0] == self._curved_factors[1]
        ):
            # The other half of the splits is the mirror image.
            largest_angle = min(largest_angle, math.pi / 4)

        def cost_of_direction(direction: Array) -> Array:
            """Return the cost of the split length·direction."""
            return cost(self._profile_of_split((length * direction).tolist()))

        return largest_over_splits(
            cost_of_direction, smallest_angle, max(smallest_angle, largest_angle)
        )

    # ---- the methods of a profile

    def _delta(self, eps: Array) -> Array:
        """Return δ(ε), the largest over all splits of the sensitivity; rounded up.

        Instead of δ(ε), the search over the splits maximizes μ², where μ solves
        δ_μ(ε) = δ(ε) and δ_μ is the profile of N(0, 1) against N(μ, 1). A polynomial
        fits μ² well, because μ² is nearly linear in the squared lengths of the split.

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
            mu_squared = self._largest_over_splits(
                lambda split: np.maximum(
                    split.mu_at(searched_eps) ** 2, _SMALLEST_SQUARE
                )
            )
            mu = np.sqrt(mu_squared) * _MU_MARGIN
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
        neighboring data sets. For each split of the sensitivity it is expressed as the
        μ for which N(0, 1) and N(μ, 1) have these errors: β = Φ(−Φ⁻¹(α) − μ), with Φ
        the normal distribution function. The search over the splits maximizes μ².

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
            mu_squared = self._largest_over_splits(
                lambda split: np.maximum(
                    split.mu_of_tradeoff(alpha_inside) ** 2, _SMALLEST_SQUARE
                )
            )
            mu = np.sqrt(mu_squared) * _MU_MARGIN
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
        if self._has_flat_factor or any(
            curvature < 0 for curvature, _ in self._curved_factors
        ):
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
        if sorted(self.factors) == [(-0.5, 2), (0.0, 1)]:
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
        of the other factors vanish as the scale grows.
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


# ---- the largest value of a smooth function over the splits, from few evaluations


class _Supremum(NamedTuple):
    """The largest value of each entry of a cost over an arc of splits.

    A split is (cos θ, sin θ) up to its length, and an arc is an interval of θ.
    """

    value: Array
    error: Array  # an estimate of how far the value may be below the supremum


def largest_over_splits(
    cost: CostOfSplit, start: float = 0.0, stop: float = math.pi / 2
) -> Array:
    """Return the supremum of a cost over all splits, raised by an error estimate.

    A split divides the sensitivity over the two parts of a product. Up to its length it
    is a direction (cos θ, sin θ). Its cost (a privacy parameter such as μ²) is a smooth
    function of θ, to which polynomials of increasing degree are fitted. The difference
    between the last two fits is added to the maximum (docs/theory/exact-profiles.md,
    "Products and SPD matrices"). If it is large, as happens for ε near the largest
    privacy loss, the interval of θ is narrowed first.

    The error must be added, not subtracted: the result may be too large only.
    tests/privacy/test_products.py checks that no split exceeds it.

    Parameters
    ----------
    cost : CostOfSplit
        A function of the direction (cos θ, sin θ) that returns a row of positive
        numbers, each increasing in both coordinates.
    start : float
        The smallest angle θ of a split, >= 0.
    stop : float
        The largest angle θ of a split, <= π/2.

    Returns
    -------
    array
        The suprema, one for each entry of the cost.
    """
    value, error = _fit_over_arc(cost, start, stop)

    # Entries that one polynomial fits poorly get a search of their own.
    poorly_fitted = np.nonzero(error > _POOR_ERROR * value)[0]
    for entry in poorly_fitted:
        cost_of_entry = _select_entry(cost, int(entry))
        supremum = _fit_over_narrowed_arc(cost_of_entry, start, stop)
        value[entry] = supremum.value[0]
        error[entry] = supremum.error[0]

    return (value + error) * (1 + 1e-12)  # covers the arithmetic of the fit


def _select_entry(cost: CostOfSplit, column: int) -> CostOfSplit:
    """Return a function that computes one entry of a cost, and drops the others.

    It is called for the entries whose supremum over the splits needs a search of its
    own, because one polynomial does not fit them.

    Parameters
    ----------
    cost : callable
        A function of a split (a pair of lengths) that returns a row of numbers.
    column : int
        The position, in that row, of the entry to keep.

    Returns
    -------
    callable
        A function of a split that returns an array with one number.
    """

    def cost_in_column(split: Array) -> Array:
        """Return the kept entry of the cost, as an array of length 1."""
        return cost(split)[column : column + 1]

    return cost_in_column


def _fit_over_narrowed_arc(cost: CostOfSplit, start: float, stop: float) -> _Supremum:
    """Return the supremum of a cost over an arc of splits, by narrowing that arc.

    A release of two parts divides the sensitivity between them, and the worst division
    determines its privacy. A split is such a division, (cos θ, sin θ) up to its length,
    and an arc is an interval of θ. This function is called if a polynomial fit of the
    cost over the whole arc is poor; over a shorter arc a fit is better.

    The cost has one entry, which increases with both coordinates. So between θ and
    θ′ > θ it is at most the cost at (cos θ, sin θ′). In every round the arc is divided
    into 12 shorter ones. One where this bound is below a known value of the cost cannot
    contain the worst split. Such arcs are dropped at both ends, and the cost is fitted
    over the rest. An arc must never be dropped for another reason. Rounds end

    - when the error of a fit is small enough,
    - when a fit exists and the arc no longer shrinks, or
    - after 12 rounds, with the last fit and the error that it has.

    Parameters
    ----------
    cost : callable
        The cost as a function of the split (cos θ, sin θ).
    start, stop : float
        The smallest and the largest θ.

    Returns
    -------
    _Supremum
        The largest value over the remaining arc, and the error of its fit.
    """
    supremum = _Supremum(np.array([math.nan]), np.array([math.inf]))  # no fit yet
    for _ in range(_MOST_NARROWINGS):
        # Bound the cost on each of 12 shorter arcs from above.
        theta = np.linspace(start, stop, _ARC_ENDS)
        largest_known_value = max(float(cost(_direction(angle))[0]) for angle in theta)
        upper_bounds = [
            float(cost(np.array([math.cos(left), math.sin(right)]))[0])
            for left, right in pairwise(theta)
        ]

        # Keep the shorter arcs that may contain the worst split, and those between.
        may_contain_worst = np.array(upper_bounds) >= largest_known_value
        possible_arcs = np.nonzero(may_contain_worst)[0]
        new_start = float(theta[possible_arcs[0]])
        new_stop = float(theta[possible_arcs[-1] + 1])

        has_fit = math.isfinite(supremum.error[0])
        if has_fit and (new_start, new_stop) == (start, stop):
            break  # the arc no longer shrinks

        # Fit the cost over the remaining arc.
        start, stop = new_start, new_stop
        supremum = _fit_over_arc(cost, start, stop)
        is_good_fit = supremum.error[0] <= _POOR_ERROR * supremum.value[0]
        if is_good_fit:
            break
    return supremum


def _fit_over_arc(cost: CostOfSplit, start: float, stop: float) -> _Supremum:
    """Return the largest value of a cost over an arc of splits, by a polynomial fit.

    A split is (cos θ, sin θ), up to its length, and an arc is an interval of θ. The
    cost is fitted by a Chebyshev series in sin²θ, the square of the second coordinate.
    Since the privacy loss does not depend on the sign of a length, the cost is smooth
    in the squares, and nearly linear.

    Parameters
    ----------
    cost : callable
        The cost as a function of the split (cos θ, sin θ).
    start, stop : float
        The smallest and the largest θ.

    Returns
    -------
    _Supremum
        The largest value of each entry, and the error of the last fit: its
        residual, and how much it differs from the fit before.
    """
    # Map the arc to an interval of sin²θ. The cost is computed once at each point.
    low = math.sin(start) ** 2
    high = math.sin(stop) ** 2
    fine_points = _chebyshev_points(_FINE_GRID_SIZE)
    known_costs: dict[float, Array] = {}
    previous_fit: Array | None = None

    def cost_at(z: float) -> Array:
        """Return the cost at a Chebyshev point z. It is computed once and stored.

        Parameters
        ----------
        z : float
            A number from −1 to 1, which stands for the squared sine low + (high −
            low)·(1 + z)/2.

        Returns
        -------
        array
            The row of costs.
        """
        if z not in known_costs:
            sin_square = low + (high - low) * (1 + z) / 2
            split = np.sqrt([max(1 - sin_square, 0.0), sin_square])
            known_costs[z] = cost(split)
        return known_costs[z]

    for size in _FIT_SIZES:
        points = _chebyshev_points(size)
        values = np.array([cost_at(z) for z in points.tolist()])

        # Fit a polynomial to the values.
        degree = size - 1
        basis = chebvander(points, degree)
        coefficients, *_ = np.linalg.lstsq(
            basis, values, rcond=_NEGLIGIBLE_SINGULAR_VALUE
        )

        # The maximum of the fit on a fine grid, or of the values themselves.
        fit = chebvander(fine_points, degree) @ coefficients
        largest = np.maximum(fit.max(axis=0), values.max(axis=0))
        residual = np.abs(basis @ coefficients - values).max(axis=0)
        error = residual + _difference_near_maximum(fit, previous_fit, largest)
        if np.all(error <= _GOOD_ERROR * largest):
            break
        previous_fit = fit

    # Climb from the best point of the fine grid to the maximum between grid points.
    maxima = [
        _climb_to_maximum(column, fine_points[best])
        for column, best in zip(coefficients.T, fit.argmax(axis=0), strict=True)
    ]
    return _Supremum(np.maximum(largest, maxima), error)


def _difference_near_maximum(
    fit: Array, previous_fit: Array | None, largest: Array
) -> Array:
    """Return by how much two polynomial fits differ where they are near the maximum.

    It estimates the error of the fit `fit`. If there is no previous fit, the maximum
    itself is returned as the error.

    Parameters
    ----------
    fit : array, shape (n_points, n_entries)
        Values of a polynomial for each of several functions (entries of a cost).
    previous_fit : array or None
        Values of polynomials of lower degree at the same points; None if there are none
        yet.
    largest : array, shape (n_entries,)
        The maximum of each function.

    Returns
    -------
    array, shape (n_entries,)
        The largest difference, >= 0, among points at which the fit is above 99 % of the
        maximum.
    """
    if previous_fit is None:
        return largest
    is_near_maximum = fit > _NEAR_MAXIMUM * largest
    return np.asarray((np.abs(fit - previous_fit) * is_near_maximum).max(axis=0))


def _chebyshev_points(size: int) -> Array:
    """Return the extrema −cos(πj/(size − 1)) of a Chebyshev polynomial.

    Here j = 0, …, size − 1. They increase from −1 to 1 and are denser near the ends.

    Parameters
    ----------
    size : int
        The number of points, at least 2.

    Returns
    -------
    array, shape (size,)
        The points.
    """
    return -np.cos(np.pi * np.arange(size) / (size - 1))


def _direction(theta: float) -> Array:
    """Return (cos θ, sin θ), with an exact 0 in place of a rounding error.

    Parameters
    ----------
    theta : float
        The angle θ in [0, π/2].

    Returns
    -------
    array, shape (2,)
        The direction.
    """
    direction = np.array([math.cos(theta), math.sin(theta)])
    # cos(π/2) is 6e-17 in floats. An exact 0 means that this part does not change.
    direction[np.abs(direction) < NINE_ROUNDINGS] = 0.0
    return direction


def _climb_to_maximum(coefficients: Array, z: float) -> float:
    """Return the value of a Chebyshev series at a local maximum near z.

    The search tries one step to either side. It moves there if the series is larger,
    and divides the step by 4 otherwise, from 1e-3 down to 1e-7.

    Parameters
    ----------
    coefficients : array
        The coefficients of the series on [−1, 1].
    z : float
        The point at which the search starts.

    Returns
    -------
    float
        The largest value that was evaluated.
    """
    # Evaluate the series at the start.
    degree = len(coefficients) - 1
    largest = float((chebvander(np.array([z]), degree) @ coefficients)[0])

    # Move uphill, with shorter and shorter steps.
    step = _FIRST_CLIMB_STEP
    while step > _LAST_CLIMB_STEP:
        candidates = np.clip([z + step, z - step], -1.0, 1.0)
        values = chebvander(candidates, degree) @ coefficients
        best = int(values.argmax())
        if values[best] > largest * (1 + NINE_ROUNDINGS):
            largest = float(values[best])
            z = float(candidates[best])
        else:
            step /= 4
    return largest
