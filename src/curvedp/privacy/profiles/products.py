"""Profiles of the Riemannian Gaussian on products of space forms.

An example are the 2×2 SPD matrices, ℝ × H² of curvature −½. The loss is the sum of the
factors' independent losses. A change of length Δ may be split over the factors in any
way with ΣΔᵢ² = Δ², and δ(ε) grows with each Δᵢ (docs/exact-profiles.md, Theorem P1,
applied to a slice). So δ(ε) is the supremum over that sphere of splits
(`largest_over_splits`). Flat factors count as one; there may be two parts in all.
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
from curvedp.numerics.directed_rounding import Array, root_rounded_up, round_up
from curvedp.privacy.guarantees.gaussian import gdp_delta
from curvedp.privacy.loss.law import PrivacyLossLaw
from curvedp.privacy.loss.sum import MARGIN, GaussianLoss, LossOnLine, SumOfLosses
from curvedp.privacy.profiles.base import (
    RELATIVE_ERROR,
    PrivacyProfile,
    SubgaussianTail,
)
from curvedp.privacy.profiles.constant_curvature import (
    ConstantCurvatureProfile,
    FloorProfile,
    constant_curvature_profile,
)

Factors = tuple[tuple[float, int], ...]  # (curvature, dimension) of each factor
# A pair of lengths -> a row of positive numbers, each increasing in either length.
CostOfSplit = Callable[[Array], Array]

_GOOD_ERROR = 1e-7  # a relative error of the fit that needs no finer lattice
_POOR_ERROR = 1e-5  # one beyond which the arc is narrowed first
_LATTICE_SIZES = (5, 9, 17, 33, 65)  # splits between two factors
_FINE_LATTICE_SIZE = 2049
_MOST_UNRESOLVED = 1e-6  # noise of a table beyond which it is refused
_SMALLEST_SQUARE = 1e-300
_SMALLEST_FLOAT = 5e-324


@dataclass(frozen=True)
class _SplitProfile(PrivacyProfile):
    """The profile at one split of the sensitivity over the factors.

    Attributes
    ----------
    factors : tuple
        (curvature, dimension) of the curved factors.
    scale : float
        The scale σ of the noise.
    flat_distance : float
        The part of the change in the flat factors, which are merged.
    distances : tuple of float
        The part of the change in each curved factor.
    """

    factors: Factors
    scale: float
    flat_distance: float
    distances: tuple[float, ...]

    def _delta(self, eps: Array) -> Array:
        """Return δ(ε) from the table, raised by the error of the sum."""
        return np.minimum(super()._delta(eps) * (1 + self._margin), 1.0)

    @property
    def _unresolved(self) -> float:
        """The noise of the table of this split; refused where it is large."""
        noise = self.loss_table.series.unresolved
        if noise > _MOST_UNRESOLVED:
            raise NotResolved(
                "the sum of the losses of the factors could not be resolved"
            )
        return noise

    @property
    def _margin(self) -> float:
        """The relative error of δ at this split, by which it is rounded up."""
        error_of_sum = MARGIN if len(self.curved_profiles) > 1 else 0.0
        return error_of_sum + 20 * self._unresolved

    @cached_property
    def curved_profiles(self) -> tuple[ConstantCurvatureProfile, ...]:
        """The profiles of the curved factors in which there is a change."""
        return tuple(
            constant_curvature_profile("gaussian", curvature, dim, self.scale, distance)
            for (curvature, dim), distance in zip(
                self.factors, self.distances, strict=True
            )
            if distance > 0
        )

    @cached_property
    def loss_law(self) -> PrivacyLossLaw:
        """The law of the sum of the two losses; the narrower one is integrated over."""
        summands: list[tuple[float, LossOnLine]] = [
            (profile.loss_law.loss_scale, profile.loss_table)
            for profile in self.curved_profiles
        ]
        if self.flat_distance > 0:
            mu = self.flat_distance / self.scale
            summands.append((mu, GaussianLoss(mu)))
        summands.sort(key=lambda summand: summand[0])
        (narrow_scale, narrow), (wide_scale, wide) = summands
        return SumOfLosses(wide, narrow, wide_scale, narrow_scale)

    @cached_property
    def mu(self) -> float:
        """The smallest μ of GDP, raised by the noise of the table."""
        exact_mu = super().mu
        return float(round_up(exact_mu, 40 * self.loss_table.series.unresolved))

    def mu_at(self, eps: Array) -> Array:
        """Return μ_ε, raised by the noise of the table."""
        return super().mu_at(eps) * (1 + 40 * self.loss_table.series.unresolved)

    def mu_of_tradeoff(self, alpha: Array) -> Array:
        """Return the μ of (α, β(α)), raised by the noise of the table."""
        noise = self.loss_table.series.unresolved
        return super().mu_of_tradeoff(alpha) * (1 + 40 * noise)

    @property
    def rao(self) -> float:
        """√(Σ θᵢ²): the Fisher metric of a product is block diagonal."""
        squares = [profile.rao**2 for profile in self.curved_profiles]
        squares.append((self.flat_distance / self.scale) ** 2)
        return float(round_up(math.sqrt(sum(squares)), 1e-15))

    @property
    def _tail_mu(self) -> float:
        """The μ of the part of the change that falls on factors with unbounded loss."""
        hyperbolic = [
            distance
            for (curvature, _), distance in zip(
                self.factors, self.distances, strict=True
            )
            if curvature < 0
        ]
        return math.hypot(self.flat_distance, *hyperbolic) / self.scale

    def _subgaussian_tail(self) -> SubgaussianTail:
        """Return the sum of the factors' bounds; a sphere's loss is bounded."""
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
    """Return the profile at a split; where only one part changes, that part's own."""
    changed = [
        (curvature, dim, distance)
        for (curvature, dim), distance in zip(factors, distances, strict=True)
        if distance > 0
    ]
    if not changed:
        return constant_curvature_profile("gaussian", 0.0, 2, scale, flat_distance)
    if flat_distance == 0 and len(changed) == 1:
        curvature, dim, distance = changed[0]
        return constant_curvature_profile("gaussian", curvature, dim, scale, distance)
    return _SplitProfile(factors, scale, flat_distance, distances)


@dataclass(frozen=True)
class ProductProfile(PrivacyProfile):
    """The profile of the Gaussian on a product of space forms.

    At every ε it is that of the worst split of the sensitivity, at most 1e-8 above the
    truth: the supremum over splits is that of a polynomial fit, raised by the fit's
    measured error (`largest_over_splits`).

    Parameters
    ----------
    factors : tuple of (float, int)
        Curvature and dimension of each factor.
    scale, sensitivity : float
        Of the noise, and the largest distance of two centers.
    """

    factors: Factors
    scale: float
    sensitivity: float

    length_fields: ClassVar[tuple[str, ...]] = ("scale", "sensitivity")

    def __post_init__(self) -> None:
        """Validate factors and sensitivity; refuse more than two parts."""
        super().__post_init__()
        object.__setattr__(self, "factors", self._validated_factors())
        if all(curvature > 0 for curvature, _ in self.factors):
            diameters = [
                math.pi / math.sqrt(curvature) for curvature, _ in self.factors
            ]
            diameter = math.hypot(*diameters)
            if self.sensitivity > diameter * (1 + 4e-16):
                raise ParameterError(
                    f"must not exceed the diameter {diameter:g}",
                    parameter="sensitivity",
                    value=self.sensitivity,
                )
        if len(self._caps) > 2:
            raise ParameterError(
                f"{self.space} has more than two parts, the flat ones counted as one"
            )

    def _validated_factors(self) -> Factors:
        """Return the factors as a tuple of (float, int); refuse anything else."""
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
        return tuple(
            (
                _validate.within("curvature", curvature, -1e300, 1e300),
                _validate.integer("dim", dim, 1),
            )
            for curvature, dim in pairs
        )

    # ---- splits

    @property
    def _curved(self) -> Factors:
        """The factors that are not flat; a line has no curvature."""
        return tuple(
            (curvature, dim)
            for curvature, dim in self.factors
            if curvature > 0 or (curvature < 0 and dim > 1)
        )

    @property
    def _has_flat(self) -> bool:
        return len(self._curved) < len(self.factors)

    @property
    def _caps(self) -> list[float]:
        """How far each part can be moved: the flat one, if any, then the others."""
        caps = [
            math.pi / math.sqrt(curvature) if curvature > 0 else math.inf
            for curvature, _ in self._curved
        ]
        return [math.inf, *caps] if self._has_flat else caps

    def _at_split(self, lengths: Sequence[float]) -> PrivacyProfile:
        """Return the profile with these lengths on the parts, ordered as `_caps`."""
        capped = [min(x, cap) for x, cap in zip(lengths, self._caps, strict=True)]
        flat_distance = capped.pop(0) if self._has_flat else 0.0
        # Equal factors are interchangeable: sorting lets one table serve every order.
        pairs = sorted(zip(self._curved, capped, strict=True))
        factors = tuple(factor for factor, _ in pairs)
        distances = tuple(distance for _, distance in pairs)
        return _split_profile(factors, self.scale, flat_distance, distances)

    @property
    def extreme_splits(self) -> list[PrivacyProfile]:
        """The profiles with all of the change in one part."""
        return [
            self._at_split((self.sensitivity * direction).tolist())
            for direction in np.eye(len(self._caps))
        ]

    def _largest_over_splits(self, cost: Callable[[PrivacyProfile], Array]) -> Array:
        """Return the supremum of each entry of a cost over the splits."""
        caps = self._caps
        length = self.sensitivity
        if len(caps) == 1:
            return cost(self._at_split([length]))
        start = math.acos(min(caps[0] / length, 1.0))
        stop = math.asin(min(caps[1] / length, 1.0))
        if len(self._curved) == 2 and self._curved[0] == self._curved[1]:
            stop = min(stop, math.pi / 4)  # the other half is its mirror image
        return largest_over_splits(
            lambda direction: cost(self._at_split((length * direction).tolist())),
            start,
            max(start, stop),
        )

    # ---- what a profile is asked

    def _delta(self, eps: Array) -> Array:
        """Return δ(ε) through the supremum of μ_ε².

        μ_ε, with δ_{μ_ε}(ε) = δ(ε), has a square that is nearly linear in the squared
        lengths, which makes the fit over the splits accurate.
        """
        if len(self._caps) == 1:
            return self._at_split([self.sensitivity])._delta(eps)
        flat = np.asarray(eps, np.float64).ravel()
        is_inside = (flat < self.pure_epsilon) & (flat < 1e300)
        delta = np.zeros_like(flat)
        is_tiny = is_inside & self._is_below_all_floats(flat)
        delta[is_tiny] = _SMALLEST_FLOAT
        is_searched = is_inside & ~is_tiny
        if np.any(is_searched):
            searched = flat[is_searched]
            mu_squared = self._largest_over_splits(
                lambda split: np.maximum(split.mu_at(searched) ** 2, _SMALLEST_SQUARE)
            )
            mu = np.sqrt(mu_squared) * (1 + 2 * (MARGIN + RELATIVE_ERROR))
            delta[is_searched] = gdp_delta(mu, searched)
        return delta.reshape(np.shape(eps))

    def _is_below_all_floats(self, eps: Array) -> NDArray[np.bool_]:
        """Say at which ε every split has a δ below the smallest float.

        δ grows with each length, so that (Δ, Δ) bounds every split, and one table
        spares a search that needs dozens.
        """
        both = self._at_split([self.sensitivity, self.sensitivity])
        mu = both.mu_at(eps) * (1 + 2 * (MARGIN + RELATIVE_ERROR))
        bound = gdp_delta(np.maximum(mu, math.sqrt(_SMALLEST_SQUARE)), eps)
        return np.asarray(bound <= _SMALLEST_FLOAT)

    def _epsilon(self, delta: Array) -> Array:
        """Return ε(δ) for every δ of an array."""
        eps = [self._epsilon_at(value) for value in delta.ravel().tolist()]
        return np.array(eps).reshape(delta.shape)

    def _epsilon_at(self, delta: float) -> float:
        """Return ε(δ) by Brent's method, since each δ(ε) is a search over the splits.

        It starts from the largest ε of the extreme splits, which is nearly always the
        answer up to rounding.
        """

        def relative_excess(eps: float) -> float:
            value = float(self.delta(eps))
            return (value - delta) / max(value, delta)

        low = 0.0
        high = max(
            1e-3, *(float(split.epsilon(delta)) for split in self.extreme_splits)
        )
        step = 1e-6
        while relative_excess(high) > 0:
            low = high
            high = high * (1 + step)
            step = min(30 * step, 1.0)
        return root_rounded_up(relative_excess, low, high, relative=1e-15)

    def _tradeoff(self, alpha: Array) -> Array:
        """Return β = Φ(−Φ⁻¹(α) − μ_α), μ_α² being the supremum over the splits."""
        if len(self._caps) == 1:
            return self._at_split([self.sensitivity])._tradeoff(alpha)
        flat = np.asarray(alpha, np.float64).ravel()
        is_inside = (flat > 0) & (flat < 1)
        beta = np.where(flat > 0, 0.0, 1.0)
        if np.any(is_inside):
            inside = flat[is_inside]
            mu_squared = self._largest_over_splits(
                lambda split: np.maximum(
                    split.mu_of_tradeoff(inside) ** 2, _SMALLEST_SQUARE
                )
            )
            mu = np.sqrt(mu_squared) * (1 + 2 * (MARGIN + RELATIVE_ERROR))
            beta[is_inside] = ndtr(-ndtri(inside) - mu)
        return beta.reshape(np.shape(alpha))

    @cached_property
    def mu(self) -> float:
        """The smallest μ of GDP: the largest μ of a split, rounded up."""
        if len(self._caps) == 1:
            return self._at_split([self.sensitivity]).mu
        mu_squared = self._largest_over_splits(lambda split: np.array([split.mu**2]))[0]
        return float(round_up(math.sqrt(mu_squared), 2 * MARGIN))

    @cached_property
    def rho(self) -> float:
        """The smallest ρ of zCDP: the largest ρ of a split, rounded up."""
        rho = self._largest_over_splits(lambda split: np.array([split.rho]))[0]
        return float(round_up(float(rho), MARGIN))

    @cached_property
    def hellinger_angle(self) -> float:
        """The largest Hellinger angle of a split, rounded up."""
        squared = self._largest_over_splits(
            lambda split: np.array([split.hellinger_angle**2])
        )[0]
        return min(float(round_up(math.sqrt(squared), MARGIN)), math.pi)

    @cached_property
    def pure_epsilon(self) -> float:
        """The largest loss, if all factors are spheres.

        ΣDᵢ(2cᵢ − Dᵢ)/2σ² over ΣDᵢ² = Δ² is largest at D ∝ c, the factors' diameters:
        Δ(2|c| − Δ)/2σ².
        """
        if self._has_flat or any(curvature < 0 for curvature, _ in self._curved):
            return math.inf
        diameter = math.hypot(*self._caps)
        length = self.sensitivity
        numerator = length * (2 * diameter - min(length, diameter))
        return float(round_up(numerator / (2 * self.scale**2), 1e-15))

    def implied_renyi(self, order: float) -> float:
        """Return the largest Rényi divergence of a split, rounded up."""
        if math.isinf(order):
            return self.pure_epsilon
        divergence = self._largest_over_splits(
            lambda split: np.array([split.implied_renyi(order)])
        )[0]
        return float(round_up(float(divergence), MARGIN))

    @cached_property
    def rao(self) -> float:
        """Δ times the largest √(Fisher information) of a part.

        The Fisher metric of a product is block diagonal.
        """
        per_length = [1 / self.scale] if self._has_flat else []
        for curvature, dim in self._curved:
            reach = self.sensitivity
            if curvature > 0:
                reach = min(reach, math.pi / math.sqrt(curvature))
            profile = constant_curvature_profile(
                "gaussian", curvature, dim, self.scale, reach
            )
            per_length.append(profile.rao / reach)
        return float(round_up(self.sensitivity * max(per_length), RELATIVE_ERROR))

    @property
    def space(self) -> str:
        """The name of the product, for messages."""
        if sorted(self.factors) == [(-0.5, 2), (0.0, 1)]:
            return "SPDAffineInvariant(2)"
        names = [f"dimension {dim} curvature {k:g}" for k, dim in self.factors]
        return "the product of " + ", ".join(names)

    @cached_property
    def floor(self) -> PrivacyProfile | None:
        """With one hyperbolic factor, its own floor.

        The other factors' losses vanish as the scale grows.
        """
        hyperbolic = [factor for factor in self._curved if factor[0] < 0]
        if len(hyperbolic) != 1:
            return None
        curvature, dim = hyperbolic[0]
        return FloorProfile(curvature, dim, self.sensitivity)


def product_profile(
    factors: Sequence[tuple[float, int]], sigma: float, sensitivity: float
) -> ProductProfile:
    """Return the profile of the Gaussian of scale σ on a product of space forms.

    Each factor is given as (curvature, dimension); see `ProductProfile`.
    """
    return ProductProfile(factors, sigma, sensitivity)  # type: ignore[arg-type]


# ---- the largest value of a smooth function over the splits, from few evaluations


class _Supremum(NamedTuple):
    """The largest value of each entry over an arc of splits, with its error."""

    value: Array
    error: Array


def largest_over_splits(
    cost: CostOfSplit, start: float = 0.0, stop: float = math.pi / 2
) -> Array:
    """Return the supremum of each entry of a cost over splits, raised by its error.

    A split is (cos θ, sin θ) with θ from `start` to `stop`. What a product spends is a
    smooth function of the split. It is fitted by polynomials of growing degree in the
    share of one part; the difference of two successive fits is added as the error
    (docs/exact-profiles.md, "Products and SPD matrices"). Where that error is poor, as
    for ε near the largest loss, the arc is narrowed first.
    """
    value, error = _fit_over_arc(cost, start, stop)
    for column in np.nonzero(error > _POOR_ERROR * value)[0]:
        narrowed = _fit_over_narrowed_arc(_entry(cost, int(column)), start, stop)
        value[column] = narrowed.value[0]
        error[column] = narrowed.error[0]
    return (value + error) * (1 + 1e-12)  # covers the fit's own arithmetic


def _entry(cost: CostOfSplit, column: int) -> CostOfSplit:
    """Return the cost with one entry only."""

    def one_entry(split: Array) -> Array:
        return cost(split)[column : column + 1]

    return one_entry


def _fit_over_narrowed_arc(cost: CostOfSplit, start: float, stop: float) -> _Supremum:
    """Return the supremum of a cost with one entry, over arcs that shrink around it.

    A cost grows with each length, so that on an arc from θ to θ′ it is at most its
    value at (cos θ, sin θ′). Arcs on which that is below a value already seen cannot
    hold the worst split.
    """
    supremum = _Supremum(np.array([math.nan]), np.array([math.inf]))
    for _ in range(12):
        theta = np.linspace(start, stop, 13)
        largest_seen = max(float(cost(_direction(angle))[0]) for angle in theta)
        upper_bounds = [
            float(cost(np.array([math.cos(a), math.sin(b)]))[0])
            for a, b in pairwise(theta)
        ]
        possible = np.nonzero(np.array(upper_bounds) >= largest_seen)[0]
        new_start = float(theta[possible[0]])
        new_stop = float(theta[possible[-1] + 1])
        if math.isfinite(supremum.error[0]) and (new_start, new_stop) == (start, stop):
            break  # the arc does not shrink any more
        start, stop = new_start, new_stop
        supremum = _fit_over_arc(cost, start, stop)
        if supremum.error[0] <= _POOR_ERROR * supremum.value[0]:
            break
    return supremum


def _fit_over_arc(cost: CostOfSplit, start: float, stop: float) -> _Supremum:
    """Return the supremum of each entry over an arc, by Chebyshev series.

    The variable is the share sin²θ of the second part. A loss does not depend on the
    sign of its length, so that a cost is smooth in the squared lengths, and nearly
    linear: half the degree that a series in the angle would need.
    """
    low_share = math.sin(start) ** 2
    high_share = math.sin(stop) ** 2
    fine_points = _chebyshev_points(_FINE_LATTICE_SIZE)
    known: dict[float, Array] = {}
    previous_fit: Array | None = None

    for size in _LATTICE_SIZES:
        points = _chebyshev_points(size)
        for z in points.tolist():
            if z not in known:
                share = low_share + (high_share - low_share) * (1 + z) / 2
                known[z] = cost(np.sqrt([max(1 - share, 0.0), share]))
        values = np.array([known[z] for z in points.tolist()])

        degree = size - 1
        basis = chebvander(points, degree)
        coefficients = np.linalg.lstsq(basis, values, rcond=1e-13)[0]
        fit = chebvander(fine_points, degree) @ coefficients
        largest = np.maximum(fit.max(axis=0), values.max(axis=0))
        error = np.abs(basis @ coefficients - values).max(axis=0)
        if previous_fit is None:
            error += largest
        else:
            near_top = fit > 0.99 * largest
            error += (np.abs(fit - previous_fit) * near_top).max(axis=0)
        if np.all(error <= _GOOD_ERROR * largest):
            break
        previous_fit = fit

    climbed = [
        _climb(column, fine_points[best])
        for column, best in zip(coefficients.T, fit.argmax(axis=0), strict=True)
    ]
    return _Supremum(np.maximum(largest, climbed), error)


def _chebyshev_points(size: int) -> Array:
    """Return −cos(πj/(size − 1)): the extrema of a Chebyshev polynomial, increasing."""
    return -np.cos(np.pi * np.arange(size) / (size - 1))


def _direction(theta: float) -> Array:
    """Return (cos θ, sin θ), with an exact 0 at the ends of the quarter circle."""
    direction = np.array([math.cos(theta), math.sin(theta)])
    direction[np.abs(direction) < 1e-15] = 0.0
    return direction


def _climb(coefficients: Array, z: float) -> float:
    """Return the largest value of a Chebyshev series near z, by a pattern search."""
    degree = len(coefficients) - 1
    largest = float((chebvander(np.array([z]), degree) @ coefficients)[0])
    step = 1e-3
    while step > 1e-7:
        candidates = np.clip([z + step, z - step], -1.0, 1.0)
        values = chebvander(candidates, degree) @ coefficients
        best = int(values.argmax())
        if values[best] > largest * (1 + 1e-15):
            largest = float(values[best])
            z = float(candidates[best])
        else:
            step /= 4
    return largest
