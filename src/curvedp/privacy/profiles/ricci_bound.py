"""Bounds on δ(ε) for noise whose exact privacy profile is not known. On spaces without
positive curvature, `HadamardProfile` bounds Gaussian noise by a flat Gaussian with a
smaller scale. `PureProfile` bounds any noise whose privacy loss is bounded.

Theorem P4 (docs/theory/exact-profiles.md). On a complete, simply connected manifold
with sectional curvatures <= 0 and Ric >= −k, kσ² < 1, the Gaussians of scale σ about
two points Δ apart are at least as hard to tell apart as flat Gaussians of scale s =
σ√(1 − kσ²): the release is Δ/s-GDP, and every f-divergence is at most that of the flat
Gaussians.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from curvedp import _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import Array
from curvedp.privacy.guarantees.definitions import PureDP
from curvedp.privacy.profiles.base import PrivacyProfile
from curvedp.privacy.profiles.constant_curvature import GaussianProfile

# More than the relative rounding error of the formula σ√(1 − kσ²) for the scale of flat
# noise (`_equivalent_flat_scale`), which is a few units of 2^-53. Raising it is safe;
# lowering it below 2^-51 is not.
_FORMULA_ROUNDING = 2.0**-50
# By this, relative, 4k·flat² must stay below 1, so that rounding cannot hide that the
# equation in `hadamard_scale` has no root.
_DISCRIMINANT_MARGIN = 2.0**-40


@dataclass(frozen=True)
class HadamardProfile(GaussianProfile):
    """The profile of a flat Gaussian that reveals at least as much as a curved one.

    Its `scale` is the scale σ√(1 − kσ²) of the flat Gaussian, where −k bounds the Ricci
    curvature from below (docs/theory/exact-profiles.md, Theorem P4).
    """

    @property
    def is_exact(self) -> bool:
        """False: on a curved space the flat Gaussian only bounds δ(ε) from above."""
        return False

    @classmethod
    def from_ricci_bound(
        cls, dim: int, sigma: float, sensitivity: float, ricci: float
    ) -> "HadamardProfile":
        """Return a bound on the privacy profile of a Gaussian on a curved space.

        No sectional curvature of the space may be positive, and its Ricci curvature
        must be at least `ricci`.

        Parameters
        ----------
        dim : int
            The dimension of the space.
        sigma : float
            The scale σ of the noise.
        sensitivity : float
            The largest distance between two centers.
        ricci : float
            A lower bound on the Ricci curvature, <= 0.

        Returns
        -------
        HadamardProfile
            A profile that is nowhere below that of the Gaussian on the space.

        Raises
        ------
        ParameterError
            If ricci·σ² < −½: beyond that, more noise would not improve the bound.
        """
        flat_scale = _equivalent_flat_scale(_validate.length("sigma", sigma), -ricci)
        return cls(
            kind="gaussian",
            curvature=0.0,
            dim=dim,
            scale=flat_scale,
            sensitivity=sensitivity,
        )

    @property
    def space(self) -> str:
        """A description of the curved space, for messages."""
        return "this space, by its Ricci curvature"


@dataclass(frozen=True)
class PureProfile(PrivacyProfile):
    """The profile that follows from a bound |L| <= ε on the privacy loss L alone.

    Randomized response is the worst such release (Kairouz, Oh and Viswanath 2015). For
    example, Laplace noise with the density c·exp(−d/σ), with a constant c and the
    distance d from its center, has |L| <= Δ/σ for centers Δ apart. The Rao distance is
    at most ε too.

    Parameters
    ----------
    eps : float
        The bound ε > 0.
    """

    eps: float

    open_ranges: ClassVar[dict[str, tuple[float, float]]] = {"eps": (0, math.inf)}

    @property
    def is_exact(self) -> bool:
        """False: the noise may protect better than its largest privacy loss says."""
        return False

    @property
    def _pure(self) -> PureDP:
        """The ε-DP guarantee, from which all parameters but the Rao distance follow."""
        return PureDP(self.eps, adjacency=self.adjacency)

    @property
    def pure_epsilon(self) -> float:
        """The ε of pure DP: the bound on the privacy loss."""
        return self.eps

    @property
    def rao(self) -> float:
        """A bound on the Rao distance, sensitivity·√(Fisher information): ε.

        For Laplace noise of scale σ and the sensitivity Δ, ε is Δ/σ. Its log density
        changes at most at the rate 1/σ, which therefore bounds √(Fisher information).
        """
        return self.eps

    @property
    def mu(self) -> float:
        """The smallest μ of Gaussian DP that ε-DP implies, rounded up."""
        return self._pure.implied_mu()

    @property
    def rho(self) -> float:
        """The smallest ρ of zero-concentrated DP that ε-DP implies, rounded up."""
        return self._pure.implied_rho()

    @property
    def hellinger_angle(self) -> float:
        """The largest Hellinger angle 2·arccos∫√(p₁p₂) that ε-DP allows, rounded up.

        p₁ and p₂ are the output densities on two neighboring data sets.
        """
        return self._pure.implied_hellinger_angle()

    def renyi_at(self, order: float) -> float:
        """Return the largest Rényi divergence that ε-DP allows, rounded up.

        Parameters
        ----------
        order : float
            The order α >= 1 of the divergence.

        Returns
        -------
        float
            The divergence of the outputs of randomized response, at most ε.
        """
        return self._pure.implied_renyi(order)

    def _delta(self, eps: Array) -> Any:
        """Return the δ of randomized response at every ε′ of an array.

        It is the largest δ that ε-DP allows, and 0 from ε′ = ε on.

        Parameters
        ----------
        eps : array
            Numbers ε′ >= 0.

        Returns
        -------
        array
            δ(ε′) in [0, 1], of the shape of `eps`.
        """
        return self._pure._delta(eps)

    def _tradeoff(self, alpha: Array) -> Any:
        """Return the smallest type II error that ε-DP allows, for each type I error α.

        A test tells two neighboring data sets apart and makes these errors.

        Parameters
        ----------
        alpha : array
            Type I errors from 0 to 1.

        Returns
        -------
        array
            Type II errors, of the shape of `alpha`.
        """
        return self._pure._tradeoff(alpha)

    @property
    def noise_name(self) -> str:
        """'Laplace', the usual noise with a bounded privacy loss; for messages."""
        return "Laplace"


def _equivalent_flat_scale(sigma: float, k: float) -> float:
    """Return the scale s = σ√(1 − kσ²) of flat noise that is at most as private.

    Gaussian noise of this scale on flat space reveals at least as much as Gaussian
    noise of scale σ on the curved space, so that its privacy is a valid bound. No
    sectional curvature of the space may be positive, and its Ricci curvature must be at
    least −k (docs/theory/exact-profiles.md, Theorem P4). The result is rounded down.

    Parameters
    ----------
    sigma : float
        The scale σ of the noise.
    k : float
        A number >= 0 such that the Ricci curvature is at least −k.

    Returns
    -------
    float
        The scale s <= σ.

    Raises
    ------
    ParameterError
        If kσ² > ½: then s would decrease with σ, so that more noise would not help.
    """
    if not k * sigma * sigma <= 0.5:
        largest = math.sqrt(0.5 / k)
        raise ParameterError(
            f"must be at most {largest:g}: a larger scale has no bound on privacy by "
            f"the Ricci curvature {-k:g}",
            parameter="sigma",
            value=sigma,
        )
    return sigma * math.sqrt(1 - k * sigma * sigma) * (1 - _FORMULA_ROUNDING)


def hadamard_scale(flat: float, ricci: float) -> float:
    """Return the smallest noise scale on a curved space that replaces a flat scale.

    A calibration on flat space gives the scale `flat`; this function converts it for a
    curved space. On a space without positive curvature, a Gaussian of scale σ protects
    at least as well as a flat one of scale σ√(1 − kσ²), with k = −ricci. The equation
    σ²(1 − kσ²) = flat² is quadratic in σ², and its smaller root is
    σ² = 2·flat²/(1 + √(1 − 4k·flat²)). If rounding left σ too small, it is raised in
    tiny steps until it is large enough. tests/privacy/test_hadamard.py checks both
    directions.

    Parameters
    ----------
    flat : float
        The scale that Gaussian noise on flat space needs to meet the guarantee.
    ricci : float
        A lower bound on the Ricci curvature, <= 0.

    Returns
    -------
    float
        The scale σ of the noise on the curved space.

    Raises
    ------
    UnattainableGuarantee
        If flat² > −1/(4·ricci): no σ is large enough for the bound of Theorem P4
        (docs/theory/exact-profiles.md).
    """
    flat = _validate.length("flat", flat)
    k = -ricci  # the theorem is about spaces with Ric >= −k

    # No real root means that no scale is large enough.
    discriminant = 1 - 4 * k * flat * flat * (1 + _DISCRIMINANT_MARGIN)
    if discriminant < 0:
        largest = 0.5 / math.sqrt(k)
        raise UnattainableGuarantee(
            f"the guarantee needs noise of scale {flat:.4g} in flat space, but beyond "
            f"{largest:.4g} there is no proved bound on this space; use the mechanism "
            "tangent-gaussian"
        )

    # The root, raised until the equivalent flat scale is not too small.
    sigma = flat * math.sqrt(2 / (1 + math.sqrt(discriminant)))
    while _equivalent_flat_scale(sigma, k) < flat:
        sigma = math.nextafter(sigma * (1 + _FORMULA_ROUNDING), math.inf)
    return sigma
