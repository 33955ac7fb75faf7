"""The privacy of Gaussian noise on a product of spaces, for one split of the sensitivity.
A *split* says how far the noise center moves within each factor of the product. The
privacy loss is the sum of the independent losses of the factors.

`ProductProfile` searches for the worst split, and calls `split_profile` for each one
that it tries.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from curvedp.errors import NotResolved
from curvedp.numerics.directed_rounding import NINE_ROUNDINGS, Array, round_up
from curvedp.privacy.loss.law import PrivacyLossLaw
from curvedp.privacy.loss.sum import (
    RELATIVE_ERROR_OF_SUM,
    GaussianLoss,
    SummandLoss,
    SumOfLosses,
)
from curvedp.privacy.profiles.base import PrivacyProfile, SubgaussianTail
from curvedp.privacy.profiles.constant_curvature import (
    ConstantCurvatureProfile,
    constant_curvature_profile,
)

Factors = tuple[tuple[float, int], ...]  # (curvature, dimension) of each factor

_MOST_UNRESOLVED = 1e-6  # a table of the loss with a larger relative error is refused
# The relative errors that are charged to δ and to μ, in units of the largest coefficient
# that the table of the loss could not resolve. For tails with artificial cusps, the
# errors of δ and 1 − δ are below 0.02 in this unit (tests/privacy/test_products.py). A
# relative error of them changes μ by less than twice as much, by the lemma of
# docs/theory/exact-profiles.md, "Products and SPD matrices". Raising them is safe.
_TABLE_ERROR_FACTOR_OF_DELTA = 20
_TABLE_ERROR_FACTOR_OF_MU = 40


class _Summand(NamedTuple):
    """The privacy loss of one factor, and about its standard deviation."""

    deviation: float
    loss: SummandLoss


@dataclass(frozen=True)
class SplitProfile(PrivacyProfile):
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
        """The largest coefficient that the table of the loss could not resolve.

        The table consists of Chebyshev series, whose last coefficients estimate its
        error. The number is 0 unless the tails are noisy or not smooth. The errors of δ
        and μ are charged in this unit. `NotResolved` is raised if it exceeds 1e-6.
        """
        table_error = self.loss_table.series.unresolved
        if table_error > _MOST_UNRESOLVED:
            raise NotResolved(
                "the privacy loss on this product of spaces is a sum of two losses "
                "that could not be computed accurately enough"
            )
        return table_error

    @property
    def _relative_error_of_mu(self) -> float:
        """A bound on the relative error of μ that the table of the loss causes."""
        return _TABLE_ERROR_FACTOR_OF_MU * self._table_error

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
        # Exactly two summands. A curved factor enters by its table, which is fast.
        summands = [
            _Summand(profile.loss_law.loss_scale, profile.loss_table)
            for profile in self.curved_profiles
        ]
        if self.flat_distance > 0:
            flat_mu = self.flat_distance / self.scale
            summands.append(_Summand(flat_mu, GaussianLoss(flat_mu)))

        # The narrower loss is the variable of the convolution.
        narrow, wide = sorted(summands, key=lambda summand: summand.deviation)
        return SumOfLosses(wide.loss, narrow.loss, wide.deviation, narrow.deviation)

    @cached_property
    def mu(self) -> float:
        """The smallest μ of Gaussian DP for this split.

        It is raised by the relative error of the table of the privacy loss.
        """
        uncorrected_mu = super().mu  # may extend the table, and so comes first
        return float(round_up(uncorrected_mu, self._relative_error_of_mu))

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
        return uncorrected_mu * (1 + self._relative_error_of_mu)

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
        return uncorrected_mu * (1 + self._relative_error_of_mu)

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
def split_profile(
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
        The profile of a Gaussian on one factor, or a `SplitProfile`.
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
    return SplitProfile(factors, scale, flat_distance, distances)
