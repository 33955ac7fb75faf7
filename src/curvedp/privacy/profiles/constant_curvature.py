"""Exact profiles of the Riemannian Gaussian and Laplace on constant curvature.

Theorem P1 (docs/exact-profiles.md). The worst pair of neighbors is any pair of centers
exactly the sensitivity apart: moving η₂ away from η₁ raises δ(ε) at every ε. So no
search over distances is needed.

Theorem P3 (the same page). On a hyperbolic space the profile does not fall to 0 as the
scale grows; its limit is `FloorProfile`, and no isotropic law does better.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from threading import get_ident
from typing import ClassVar

import numpy as np

from curvedp import _validate
from curvedp.errors import NotIntegrable, ParameterError
from curvedp.numerics.directed_rounding import Array, round_fraction, round_up
from curvedp.privacy.guarantees.gaussian import gdp_delta, gdp_tradeoff
from curvedp.privacy.loss.hyperbolic_limit import LimitingLoss
from curvedp.privacy.loss.law import PrivacyLossLaw
from curvedp.privacy.loss.line_and_circle import (
    CircleGaussianLoss,
    CircleLaplaceLoss,
    LineLaplaceLoss,
)
from curvedp.privacy.loss.space_form import Kind, SpaceFormLoss
from curvedp.privacy.loss.table import TabulatedLossLaw
from curvedp.privacy.profiles.base import (
    RELATIVE_ERROR,
    PrivacyProfile,
    SubgaussianTail,
)

# Integrals are taken in units of the curvature radius; there doubles resolve these
# ranges of the scale, of sensitivity/scale, and of the sensitivity on a hyperbolic
# space.
_SCALE_RANGE = (1e-20, 1e6)
_RATIO_RANGE = (1e-15, 1e7)
_LARGEST_HYPERBOLIC_SENSITIVITY = 300.0
# On a circle there are closed forms, in which squares must stay numbers.
_CIRCLE_RANGE = (1e-140, 1e140)
_QUADRATURE_NODES_FOR_SEARCH = 128
_MAX_QUADRATURE_NODES = 2048
_SINH_SQUARE_OVERFLOWS = 350


def _check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise `ParameterError` unless low <= value <= high.

    A search makes many profiles, so that the slower validator is called on failure
    only.
    """
    if not low <= value <= high:
        _validate.within(name, value, low, high)


@dataclass(frozen=True)
class RadialProfile(PrivacyProfile):
    """The profile of an isotropic law, from a radial integral or a closed form.

    Parameters
    ----------
    kind : str
        'gaussian' or 'laplace'.
    """

    kind: Kind

    # Whether everything about the loss is in closed form.
    is_closed_form: ClassVar[bool] = False

    @property
    @abstractmethod
    def unresolved_loss_law(self) -> PrivacyLossLaw:
        """The law of the loss, with as many quadrature nodes as mostly suffice."""

    @cached_property
    def loss_law(self) -> PrivacyLossLaw:
        """The law of the loss, with as many quadrature nodes as it needs."""
        return self.unresolved_loss_law.resolved()

    @cached_property
    def loss_table(self) -> TabulatedLossLaw:
        """The tabulated law, with more nodes where errors of the quadrature show."""
        law = self.loss_law
        while True:
            try:
                return TabulatedLossLaw(law)
            except ArithmeticError:
                if not isinstance(law, SpaceFormLoss):
                    raise
                if law.order > _MAX_QUADRATURE_NODES:
                    raise
                law = replace(law, order=2 * law.order)

    @cached_property
    def rao(self) -> float:
        """The Rao distance Δ·√(Fisher information), which is the loss scale."""
        return float(round_up(self.loss_law.loss_scale, RELATIVE_ERROR))

    @property
    def quadrature_law(self) -> PrivacyLossLaw | None:
        """The law with a fixed number of nodes; None for closed forms."""
        law = None if self.is_closed_form else self.unresolved_loss_law
        if not isinstance(law, SpaceFormLoss):
            return None
        return replace(law, order=_QUADRATURE_NODES_FOR_SEARCH)

    @property
    def tabulated_mu(self) -> float | None:
        """The largest μ_ε within the table of the loss; None for closed forms."""
        return None if self.is_closed_form else self._mu_in_table

    @property
    def delta_vanishes_at_finite_scale(self) -> bool:
        return self.kind == "laplace"

    @property
    def noise_name(self) -> str:
        return self.kind.capitalize()


@dataclass(frozen=True)
class ConstantCurvatureProfile(RadialProfile):
    """The exact profile of an isotropic law on a space of constant curvature.

    It holds for every pair of centers at distance at most `sensitivity`. Flat Gaussians
    and one-dimensional spaces have closed forms; elsewhere it is one radial integral of
    an incomplete beta function (`loss.space_form`).

    Parameters
    ----------
    kind : str
        'gaussian' or 'laplace'.
    curvature, dim : float, int
        Of the space.
    scale, sensitivity : float
        Of the noise, and the largest distance of two centers.
    """

    curvature: float
    dim: int
    scale: float
    sensitivity: float

    length_fields: ClassVar[tuple[str, ...]] = ("scale", "sensitivity")

    def __post_init__(self) -> None:
        """Validate the space, the sensitivity and what doubles resolve."""
        super().__post_init__()
        if self.kind not in ("gaussian", "laplace"):
            raise ParameterError(
                "must be 'gaussian' or 'laplace'", parameter="kind", value=self.kind
            )
        self._validate_space()
        root = math.sqrt(abs(self.curvature))
        self._validate_sensitivity(root)
        self._validate_resolved_range(root)
        self._validate_integrability(root)

    def _validate_space(self) -> None:
        """Check curvature and dimension; store them as a float and an int."""
        dim_is_plain = type(self.dim) is int and 1 <= self.dim < 2**53
        curvature_is_plain = (
            type(self.curvature) is float and abs(self.curvature) <= 1e300
        )
        if dim_is_plain and curvature_is_plain:
            return
        curvature = _validate.within("curvature", self.curvature, -1e300, 1e300)
        object.__setattr__(self, "curvature", curvature)
        object.__setattr__(self, "dim", _validate.integer("dim", self.dim, 1))

    def _validate_sensitivity(self, root: float) -> None:
        """Check that the sensitivity does not exceed the diameter of a sphere."""
        if self.curvature <= 0:
            return
        diameter = math.pi / root
        if self.sensitivity > diameter * (1 + 4e-16):
            raise ParameterError(
                f"must not exceed the diameter {diameter:g} of the space",
                parameter="sensitivity",
                value=self.sensitivity,
            )

    def _validate_resolved_range(self, root: float) -> None:
        """Check that doubles resolve the integrals for these parameters."""
        if self.dim > 1 and not self.is_closed_form:
            _check_range("scale·√|curvature|", self.scale * root or 1.0, *_SCALE_RANGE)
            ratio = self.sensitivity / self.scale
            _check_range("sensitivity/scale", ratio, *_RATIO_RANGE)
        if self.dim > 1 and self.curvature < 0:
            _check_range(
                "sensitivity·√|curvature|",
                self.sensitivity * root,
                0,
                _LARGEST_HYPERBOLIC_SENSITIVITY,
            )
        if self.dim == 1 and self.curvature > 0:
            _check_range("scale·√curvature", self.scale * root, *_CIRCLE_RANGE)
            _check_range(
                "sensitivity·√curvature", self.sensitivity * root, *_CIRCLE_RANGE
            )

    def _validate_integrability(self, root: float) -> None:
        """Check that the Laplace density on a hyperbolic space has a finite mass."""
        may_diverge = self.kind == "laplace" and self.curvature < 0 and self.dim > 1
        if may_diverge and self.scale * root * (self.dim - 1) >= 1:
            largest = 1 / (root * (self.dim - 1))
            raise NotIntegrable(
                f"must be below {largest:g} on the space of dimension {self.dim} and "
                f"curvature {self.curvature:g}: above it the Laplace density has "
                "infinite mass",
                parameter="scale",
                value=self.scale,
            )

    @property
    def unresolved_loss_law(self) -> PrivacyLossLaw:
        """The law of the loss, in units in which the curvature is −1, 0 or 1."""
        root = math.sqrt(abs(self.curvature)) or 1.0
        k = (self.curvature > 0) - (self.curvature < 0)
        s = self.scale * root
        distance = self.sensitivity * root
        if k == 1:
            distance = min(distance, math.pi)

        if self.dim > 1:
            return SpaceFormLoss(self.kind, k, self.dim, s, distance)
        if k == 1 and self.kind == "gaussian":
            return CircleGaussianLoss(s, distance)
        if k == 1:
            return CircleLaplaceLoss(s, distance)
        if self.kind == "laplace":
            return LineLaplaceLoss(s, distance)
        # The loss of a Gaussian has the same law on every flat space.
        return SpaceFormLoss("gaussian", 0, 2, s, distance)

    @property
    def _zero_from(self) -> float:
        """The ε from which on δ is 0: Δ/s for Laplace, whatever the curvature."""
        if self.kind == "gaussian":
            return self.pure_epsilon
        ratio = Fraction(self.sensitivity) / Fraction(self.scale)
        return round_fraction(ratio, up=True)

    @cached_property
    def floor(self) -> PrivacyProfile | None:
        """The limit for growing scales on a hyperbolic space; None elsewhere."""
        if self.curvature < 0 and self.dim > 1:
            return FloorProfile(
                self.curvature, self.dim, self.sensitivity, adjacency=self.adjacency
            )
        return None

    @property
    def space(self) -> str:
        """The name of the space, for messages."""
        if self.curvature == 0:
            return f"Euclidean({self.dim})"
        if self.curvature == 1:
            return f"Sphere({self.dim})"
        if self.curvature == -1:
            return f"Lorentz({self.dim})"
        return f"the space of dimension {self.dim} and curvature {self.curvature:g}"

    @property
    def _tail_mu(self) -> float:
        """Δ/σ: far out the loss is that of a flat Gaussian."""
        return self.sensitivity / self.scale

    def _subgaussian_tail(self) -> SubgaussianTail:
        """Return the bound on the moments of the Gaussian's loss on a hyperbolic space.

        docs/exact-profiles.md, Theorem P2: L <= (2rD + D²)/2s², and
        ρ(m+u) <= (1 + 1/(e^{2m} − 1))^{d−1}·e^{−u²/2s²}, m the mode of ρ.
        """
        law = self.loss_law
        assert isinstance(law, SpaceFormLoss)
        if law.mode < _SINH_SQUARE_OVERFLOWS:
            e_2m_minus_1 = math.expm1(2 * law.mode)
        else:
            e_2m_minus_1 = math.inf
        log_k = (
            (law.d - 1) * math.log1p(1 / e_2m_minus_1)
            - law.log_mass
            + math.log(law.s * math.sqrt(2 * math.pi))
        )
        # ∫ρ is at most the integral of its bound: log K below 0 is round-off.
        return SubgaussianTail(max(log_k, 0.0), law.mode * law.distance / law.s**2)


@dataclass(frozen=True)
class GaussianProfile(ConstantCurvatureProfile):
    """The profile of a flat Gaussian, in closed form: it is exactly Δ/σ-GDP.

    Dong, Roth and Su (2022). The parameters are those of `ConstantCurvatureProfile`.
    """

    is_closed_form: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check that the law is a Gaussian on a flat space."""
        super().__post_init__()
        if not _is_flat_gaussian(self.kind, self.curvature, self.dim):
            raise ParameterError(
                f"{self.kind!r} on curvature {self.curvature:g} is not a flat Gaussian"
            )

    @property
    def pure_epsilon(self) -> float:
        return math.inf

    @cached_property
    def mu(self) -> float:
        """Δ/σ, rounded up."""
        return float(round_up(self.sensitivity / self.scale, 2.0**-52))

    @property
    def rao(self) -> float:
        """Δ/σ: the Fisher information is 1/σ²."""
        return self.mu

    @cached_property
    def rho(self) -> float:
        """μ²/2, rounded up."""
        return float(round_up(self.mu * self.mu / 2, 2.0**-51))

    @cached_property
    def hellinger_angle(self) -> float:
        """The angle of two Gaussians: ∫√(p₁p₂) = e^{−μ²/8}."""
        one_minus_affinity = -math.expm1(-(self.mu * self.mu) / 8)
        angle = 4 * math.asin(math.sqrt(one_minus_affinity / 2))
        return min(float(round_up(angle, 1e-15)), math.pi)

    def _delta(self, eps: Array) -> Array:
        return np.asarray(gdp_delta(self.mu, eps))

    def _tradeoff(self, alpha: Array) -> Array:
        return np.asarray(gdp_tradeoff(self.mu, alpha))

    def implied_renyi(self, order: float) -> float:
        """Return αμ²/2, rounded up."""
        return float(round_up(order * self.mu * self.mu / 2, 2.0**-51))

    def mu_at(self, eps: Array) -> Array:
        return np.full_like(eps, self.mu)

    def mu_of_tradeoff(self, alpha: Array) -> Array:
        return np.full_like(alpha, self.mu)


@dataclass(frozen=True)
class LineLaplaceProfile(ConstantCurvatureProfile):
    """The profile of the Laplace law on the line: δ(ε) = 1 − e^{(ε − Δ/s)/2}."""

    def delta_upper_bound(self, eps: Array) -> Array:
        """Return δ(ε) by the closed form, rounded up."""
        gap = np.minimum(eps - self._zero_from, 0.0)
        delta = -np.expm1(gap / 2) * (1 + 1e-15)
        delta = np.minimum(np.nextafter(delta, 1.0), 1.0)
        return np.asarray(np.where(eps < self._zero_from, delta, 0.0))


@dataclass(frozen=True)
class FloorProfile(PrivacyProfile):
    """The limit of the Gaussian's profile on a hyperbolic space as its scale grows.

    The loss tends to (d−1)·log(cosh Δ − sinh Δ·cos φ), φ the angle of a uniform
    direction: the loss between the harmonic measures on the boundary seen from the two
    centers, into which Brownian motion turns *any* isotropic law
    (docs/exact-profiles.md, Theorem P3).

    Parameters
    ----------
    curvature, dim : float, int
        Of the space: curvature < 0, dimension >= 2.
    sensitivity : float
        The largest distance Δ of two centers.
    """

    curvature: float
    dim: int
    sensitivity: float

    length_fields: ClassVar[tuple[str, ...]] = ("sensitivity",)
    open_ranges: ClassVar[dict[str, tuple[float, float]]] = {"curvature": (-1e300, 0.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.integer("dim", self.dim, 2)

    @cached_property
    def loss_law(self) -> PrivacyLossLaw:
        return LimitingLoss(self.dim, self.sensitivity * math.sqrt(-self.curvature))

    @property
    def rao(self) -> float:
        """Δ·√(Fisher information) = Δ(d−1)/√d in units of the curvature radius."""
        return float(round_up(self.loss_law.loss_scale, 1e-15))


def _is_flat_gaussian(kind: str, curvature: float, dim: int) -> bool:
    """Say whether the law is a Gaussian on a flat space; a line has no curvature."""
    return kind == "gaussian" and (curvature == 0 or (dim == 1 and curvature < 0))


def constant_curvature_profile(
    kind: Kind,
    curvature: float,
    dim: int,
    scale: float,
    sensitivity: float,
    *,
    adjacency: str = "replace-one",
) -> ConstantCurvatureProfile:
    """Return the profile of an isotropic law, by a closed form where there is one.

    The same parameters give the same object, which keeps what it has computed. The
    parameters are those of `ConstantCurvatureProfile`.
    """
    numbers = (curvature, dim, scale, sensitivity)
    are_numbers = all(isinstance(number, int | float) for number in numbers)
    if not (isinstance(kind, str) and are_numbers):
        # The constructor refuses what is not a number, and says so.
        return ConstantCurvatureProfile(
            kind, curvature, dim, scale, sensitivity, adjacency=adjacency
        )
    return _cached_profile(
        get_ident(), kind, curvature, dim, scale, sensitivity, adjacency
    )


@lru_cache(maxsize=512, typed=True)
def _cached_profile(
    thread: int,
    kind: Kind,
    curvature: float,
    dim: int,
    scale: float,
    sensitivity: float,
    adjacency: str,
) -> ConstantCurvatureProfile:
    """Return one profile for each thread and set of parameters.

    Threads do not share profiles, because a table of the loss grows as it is asked.
    """
    profile_class = ConstantCurvatureProfile
    if _is_flat_gaussian(kind, curvature, dim):
        profile_class = GaussianProfile
    elif kind == "laplace" and dim == 1 and curvature <= 0:
        profile_class = LineLaplaceProfile
    return profile_class(kind, curvature, dim, scale, sensitivity, adjacency=adjacency)


def gaussian_profile(
    curvature: float, dim: int, sigma: float, sensitivity: float
) -> ConstantCurvatureProfile:
    """Return the exact profile of the Riemannian Gaussian on constant curvature.

    The density of the noise is ∝ exp(−d²/2σ²).

    Parameters
    ----------
    curvature, dim : float, int
        Of the space.
    sigma : float
        The scale σ of the noise.
    sensitivity : float
        The largest distance of two centers.

    Examples
    --------
    >>> round(gaussian_profile(1.0, 2, 1.0, 1.0).mu, 5)
    0.82248
    """
    return constant_curvature_profile("gaussian", curvature, dim, sigma, sensitivity)


def laplace_profile(
    curvature: float, dim: int, scale: float, sensitivity: float
) -> ConstantCurvatureProfile:
    """Return the exact profile of the Riemannian Laplace on constant curvature.

    The density of the noise is ∝ exp(−d/scale); δ(ε) = 0 from ε = sensitivity/scale on.

    Parameters
    ----------
    curvature, dim : float, int
        Of the space.
    scale : float
        The scale of the noise.
    sensitivity : float
        The largest distance of two centers.

    Examples
    --------
    >>> laplace_profile(1.0, 2, 1.0, 0.5).delta(0.5)
    0.0
    """
    return constant_curvature_profile("laplace", curvature, dim, scale, sensitivity)


def gaussian_floor(curvature: float, dim: int, sensitivity: float) -> float:
    """Return the infimum over σ of the Gaussian's μ: 0 unless the space is hyperbolic.

    Parameters
    ----------
    curvature, dim : float, int
        Of the space.
    sensitivity : float
        The largest distance of two centers.

    Examples
    --------
    >>> round(gaussian_floor(-1.0, 10, 1.0), 5)
    2.86205
    """
    curvature = _validate.within("curvature", curvature, -1e300, 1e300)
    dim = _validate.integer("dim", dim, 1)
    sensitivity = _validate.length("sensitivity", sensitivity)
    if curvature < 0 and dim > 1:
        return FloorProfile(curvature, dim, sensitivity).mu
    return 0.0
