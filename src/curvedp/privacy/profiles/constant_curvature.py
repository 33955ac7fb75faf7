"""What Gaussian or Laplace noise promises on a sphere, a hyperbolic or a flat space.
A change between neighboring data sets moves the center of the noise by at most the
sensitivity. A profile gives δ at every ε, and other privacy parameters.

`gaussian_profile` and `laplace_profile` return profiles, and `gaussian_floor` the
smallest μ of Gaussian DP that any scale of Gaussian noise can reach.

Theorem P1 (docs/theory/exact-profiles.md). Two data sets are easiest to tell apart if
their noise centers are exactly the sensitivity apart: moving the second center away
from the first raises δ(ε) at every ε. So no search over distances is needed.

Theorem P3 (docs/theory/hyperbolic-floor.md). On a hyperbolic space the profile does not
fall to 0 as the scale grows. Its limit is `FloorProfile`, and no isotropic noise does
better.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from threading import get_ident
from typing import ClassVar

import numpy as np

from curvedp import _validate
from curvedp.errors import NotIntegrable, ParameterError
from curvedp.numerics.directed_rounding import (
    NINE_ROUNDINGS,
    THREE_ROUNDINGS,
    Array,
    round_fraction,
    round_up,
)
from curvedp.privacy.guarantees.gaussian import gdp_delta, gdp_tradeoff
from curvedp.privacy.loss.law import PrivacyLossLaw
from curvedp.privacy.loss.line_and_circle import (
    CircleGaussianLoss,
    CircleLaplaceLoss,
    LineLaplaceLoss,
)
from curvedp.privacy.loss.space_form import Kind, SpaceFormLoss
from curvedp.privacy.profiles.base import SubgaussianTail
from curvedp.privacy.profiles.hyperbolic_floor import FloorProfile
from curvedp.privacy.profiles.radial import RadialProfile

# The curvatures that are accepted: products with small numbers do not overflow.
CURVATURE_RANGE = (-1e300, 1e300)
# The ranges in which integrals can be computed in doubles, in units of the curvature
# radius: of the scale, of sensitivity/scale, and of the sensitivity on a hyperbolic
# space.
_SCALE_RANGE = (1e-20, 1e6)
_RATIO_RANGE = (1e-15, 1e7)
_LARGEST_HYPERBOLIC_SENSITIVITY = 300.0
# On a circle there are closed forms, in which no square may overflow or underflow.
_CIRCLE_RANGE = (1e-140, 1e140)
_SINH_SQUARE_OVERFLOWS = 350  # the radius beyond which sinh² would overflow


def _check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise `ParameterError` unless low <= value <= high.

    A search for the best noise scale builds many profiles, so that this check must be
    quick. `_validate.within`, which composes the message, is slow. It is called only if
    the value is out of range.

    Parameters
    ----------
    name : str
        The name of the parameter, for the message.
    value : float
        Its value.
    low, high : float
        The closed range in which it must lie.
    """
    if not low <= value <= high:
        _validate.within(name, value, low, high)


@dataclass(frozen=True)
class ConstantCurvatureProfile(RadialProfile):
    """The exact profile of isotropic noise on a space of constant curvature.

    It holds for every pair of noise centers at distance at most `sensitivity`. Flat
    Gaussians and one-dimensional spaces have closed forms. Elsewhere it is one radial
    integral of an incomplete beta function (`loss.space_form`).

    Parameters
    ----------
    kind : str
        'gaussian' or 'laplace'.
    curvature, dim : float, int
        The curvature and the dimension of the space.
    scale : float
        The scale of the noise.
    sensitivity : float
        The largest distance between two centers.

    Raises
    ------
    ParameterError
        If a parameter is out of range, or beyond what doubles can resolve.
    NotIntegrable
        If the Laplace density has infinite mass at this scale.
    """

    curvature: float
    dim: int
    scale: float
    sensitivity: float

    length_fields: ClassVar[tuple[str, ...]] = ("scale", "sensitivity")

    def __post_init__(self) -> None:
        """Validate the space, the sensitivity and the range that floats can resolve."""
        super().__post_init__()
        if self.kind not in ("gaussian", "laplace"):
            raise ParameterError(
                "must be 'gaussian' or 'laplace'", parameter="kind", value=self.kind
            )
        self._validate_space()
        root_curvature = math.sqrt(abs(self.curvature))
        self._validate_sensitivity(root_curvature)
        self._validate_resolved_range(root_curvature)
        self._validate_integrability(root_curvature)

    def _validate_space(self) -> None:
        """Check the curvature and the dimension, and store them as a float and an int.

        Plain valid numbers take a short cut, because many profiles are built in a
        search.
        """
        dim_is_valid_int = type(self.dim) is int and 1 <= self.dim < 2**53
        curvature_is_valid_float = (
            type(self.curvature) is float and abs(self.curvature) <= CURVATURE_RANGE[1]
        )
        if dim_is_valid_int and curvature_is_valid_float:
            return
        curvature = _validate.within("curvature", self.curvature, *CURVATURE_RANGE)
        object.__setattr__(self, "curvature", curvature)
        object.__setattr__(self, "dim", _validate.integer("dim", self.dim, 1))

    def _validate_sensitivity(self, root_curvature: float) -> None:
        """Check that the sensitivity does not exceed the diameter of a sphere.

        Parameters
        ----------
        root_curvature : float
            √|curvature|, the inverse of the curvature radius.
        """
        if self.curvature <= 0:
            return
        diameter = math.pi / root_curvature
        if self.sensitivity > diameter * (1 + THREE_ROUNDINGS):
            raise ParameterError(
                f"must not exceed the diameter {diameter:g} of the space",
                parameter="sensitivity",
                value=self.sensitivity,
            )

    def _validate_resolved_range(self, root_curvature: float) -> None:
        """Check that floating-point arithmetic can handle these parameters.

        Parameters
        ----------
        root_curvature : float
            √|curvature|, the inverse of the curvature radius.
        """
        relative_scale = self.scale * root_curvature
        relative_sensitivity = self.sensitivity * root_curvature

        # Integrals over the radius.
        if self.dim > 1 and not self.is_closed_form:
            # On flat space there is no curvature radius to compare with.
            _check_range("scale·√|curvature|", relative_scale or 1.0, *_SCALE_RANGE)
            ratio = self.sensitivity / self.scale
            _check_range("sensitivity/scale", ratio, *_RATIO_RANGE)

        # Hyperbolic functions of the sensitivity.
        if self.dim > 1 and self.curvature < 0:
            _check_range(
                "sensitivity·√|curvature|",
                relative_sensitivity,
                low=0,
                high=_LARGEST_HYPERBOLIC_SENSITIVITY,
            )

        # Closed forms on the circle.
        if self.dim == 1 and self.curvature > 0:
            _check_range("scale·√curvature", relative_scale, *_CIRCLE_RANGE)
            _check_range("sensitivity·√curvature", relative_sensitivity, *_CIRCLE_RANGE)

    def _validate_integrability(self, root_curvature: float) -> None:
        """Raise `NotIntegrable` if the integral of the Laplace density is infinite.

        On a hyperbolic space of dimension d, volumes grow so fast that the scale must
        be below 1/(√|curvature|·(d−1)).

        Parameters
        ----------
        root_curvature : float
            √|curvature|, the inverse of the curvature radius.
        """
        # Only Laplace noise on a hyperbolic space may have infinite mass.
        is_hyperbolic_laplace = (
            self.kind == "laplace" and self.curvature < 0 and self.dim > 1
        )
        if is_hyperbolic_laplace and self.scale * root_curvature * (self.dim - 1) >= 1:
            largest = 1 / (root_curvature * (self.dim - 1))
            raise NotIntegrable(
                f"must be below {largest:g} on the space of dimension {self.dim} and "
                f"curvature {self.curvature:g}: above it the Laplace density has "
                "infinite mass",
                parameter="scale",
                value=self.scale,
            )

    @property
    def default_loss_law(self) -> PrivacyLossLaw:
        """The privacy loss, with a default number of quadrature nodes.

        Lengths are multiplied by √|curvature|, so that the curvature becomes −1, 0 or
        1. Spaces of dimension 1 (the circle and the line) have closed forms.
        """
        # Express lengths in units of the curvature radius.
        length_unit = math.sqrt(abs(self.curvature)) or 1.0
        curvature_sign = (self.curvature > 0) - (self.curvature < 0)
        is_compact = curvature_sign == 1
        scale = self.scale * length_unit
        distance = self.sensitivity * length_unit
        if is_compact:
            distance = min(distance, math.pi)  # rounding may exceed the diameter

        # Choose the law for this kind of space and noise.
        if self.dim > 1:
            return SpaceFormLoss(self.kind, curvature_sign, self.dim, scale, distance)
        if is_compact and self.kind == "gaussian":
            return CircleGaussianLoss(scale, distance)
        if is_compact:
            return CircleLaplaceLoss(scale, distance)
        if self.kind == "laplace":
            return LineLaplaceLoss(scale, distance)
        # On the line, a Gaussian has the same privacy loss as on a plane.
        return SpaceFormLoss("gaussian", k=0, d=2, s=scale, distance=distance)

    @property
    def _smallest_eps_with_zero_delta(self) -> float:
        """The smallest ε at which `delta` returns 0.

        For Laplace noise it is sensitivity/scale, rounded up.
        """
        if self.kind == "gaussian":
            return self.pure_epsilon
        ratio = Fraction(self.sensitivity) / Fraction(self.scale)
        return round_fraction(ratio, up=True)

    @cached_property
    def floor(self) -> FloorProfile | None:
        """The profile that remains for arbitrarily much noise, on a hyperbolic space.

        On all other spaces δ(ε) tends to 0 as the scale grows, and this is None.
        """
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
    def _limiting_mu(self) -> float:
        """The limit, as ε grows, of the solution μ of δ_μ(ε) = δ(ε).

        δ_μ is the profile of N(0, 1) against N(μ, 1), and δ that of the noise.
        The limit is sensitivity/σ, as for a Gaussian on flat space.
        """
        return self.sensitivity / self.scale

    def _subgaussian_tail(self) -> SubgaussianTail:
        """Return the two constants in a bound on the moments E[e^{λL}] of the loss L.

        With v = (D/s)², the bound is log E[e^{λL}] <= log K + λ·(drift + v/2) + λ²·v/2.
        The noise is a Gaussian of scale s on a hyperbolic space of dimension d and
        curvature −1. Let D be the distance of the two noise centers, r the distance of
        an output from the first one, ρ its density, and m the mode of ρ. Then
        (docs/theory/exact-profiles.md, Theorem P2)

            L <= (2rD + D²)/2s²,
            ρ(m+u)/ρ(m) <= (1 + 1/(e^{2m} − 1))^{d−1}·e^{−u²/2s²}.

        So drift = mD/s², and K is the integral of the second bound divided by ∫ρ/ρ(m).

        Returns
        -------
        SubgaussianTail
            log K and the drift.
        """
        # K is the integral of the bound on ρ, divided by the integral of ρ.
        law = self.loss_law
        assert isinstance(law, SpaceFormLoss)
        e_2m_minus_1 = math.inf
        if law.mode < _SINH_SQUARE_OVERFLOWS:
            e_2m_minus_1 = math.expm1(2 * law.mode)
        log_growth_bound = (law.d - 1) * math.log1p(1 / e_2m_minus_1)
        log_gaussian_integral = math.log(law.s * math.sqrt(2 * math.pi))
        log_k = log_growth_bound - law.log_mass + log_gaussian_integral

        drift = law.mode * law.distance / law.s**2
        # K is at least 1, because ∫ρ is at most the integral of its bound. A negative
        # log K is a rounding error.
        return SubgaussianTail(max(log_k, 0.0), drift)


@dataclass(frozen=True)
class GaussianProfile(ConstantCurvatureProfile):
    """The profile of a Gaussian on a flat space, in closed form.

    It is the profile of N(0, 1) against N(μ, 1) with μ = sensitivity/σ (Dong, Roth and
    Su 2022). It has the same parameters as `ConstantCurvatureProfile`.
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
        """Infinity: the privacy loss of a flat Gaussian has no maximum."""
        return math.inf

    @cached_property
    def mu(self) -> float:
        """The μ of Gaussian DP: sensitivity/σ, rounded up."""
        # The rounding of one quotient is at most 2^-53; 2^-52 is charged.
        return float(round_up(self.sensitivity / self.scale, 2.0**-52))

    @property
    def rao(self) -> float:
        """The Rao distance: sensitivity/σ, because the Fisher information is 1/σ²."""
        return self.mu

    @cached_property
    def rho(self) -> float:
        """The ρ of zCDP: μ²/2, rounded up."""
        # The rounding of one product is at most 2^-53; 2^-51 is charged.
        return float(round_up(self.mu * self.mu / 2, 2.0**-51))

    @cached_property
    def hellinger_angle(self) -> float:
        """The Hellinger angle 2·arccos∫√(p₁p₂), rounded up.

        For the densities p₁ and p₂ of N(0, 1) and N(μ, 1) the integral is e^{−μ²/8}.
        """
        one_minus_affinity = -math.expm1(-(self.mu * self.mu) / 8)
        angle = 4 * math.asin(math.sqrt(one_minus_affinity / 2))
        return min(float(round_up(angle, NINE_ROUNDINGS)), math.pi)

    def _delta(self, eps: Array) -> Array:
        """Return δ(ε) of N(0, 1) against N(μ, 1), with μ = sensitivity/σ.

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        return np.asarray(gdp_delta(self.mu, eps))

    def _tradeoff(self, alpha: Array) -> Array:
        """Return the trade-off curve of N(0, 1) against N(μ, 1).

        Here μ = sensitivity/σ, with the scale σ of the noise.

        Parameters
        ----------
        alpha : array
            Type I errors from 0 to 1.

        Returns
        -------
        array
            The smallest type II error for each of them.
        """
        return np.asarray(gdp_tradeoff(self.mu, alpha))

    def renyi_at(self, order: float) -> float:
        """Return the Rényi divergence αμ²/2 of the order α, rounded up.

        It is the divergence of N(μ, 1) from N(0, 1), with μ = sensitivity/σ.

        Parameters
        ----------
        order : float
            The order α >= 1.

        Returns
        -------
        float
            The divergence, >= 0.
        """
        # The rounding of two products is at most 2·2^-53; 2^-51 is charged.
        return float(round_up(order * self.mu * self.mu / 2, 2.0**-51))

    def mu_at(self, eps: Array) -> Array:
        """Return, for every ε, the μ at which N(0, 1) against N(μ, 1) has this δ(ε).

        For a flat Gaussian it is sensitivity/σ at every ε.

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array
            The same μ for each of them.
        """
        return np.full_like(eps, self.mu)

    def mu_of_tradeoff(self, alpha: Array) -> Array:
        """Return, for every α, the μ whose Gaussian trade-off curve has this β(α).

        β(α) is the smallest type II error of a test with type I error α. For a flat
        Gaussian μ is sensitivity/σ at every α.

        Parameters
        ----------
        alpha : array
            Type I errors from 0 to 1.

        Returns
        -------
        array
            The same μ for each of them.
        """
        return np.full_like(alpha, self.mu)


@dataclass(frozen=True)
class LineLaplaceProfile(ConstantCurvatureProfile):
    """The profile of the Laplace law on the line: δ(ε) = 1 − e^{(ε − Δ/s)/2}."""

    def delta_upper_bound(self, eps: Array) -> Array:
        """Return δ(ε) = 1 − e^{(ε − Δ/s)/2}, and 0 from ε = Δ/s on; rounded up.

        Δ is the sensitivity and s the scale of the noise.

        Parameters
        ----------
        eps : array
            Values ε >= 0 of the privacy parameter.

        Returns
        -------
        array
            Upper bounds on δ(ε), of the shape of `eps`.
        """
        eps_minus_largest_loss = np.minimum(
            eps - self._smallest_eps_with_zero_delta, 0.0
        )
        delta = -np.expm1(eps_minus_largest_loss / 2) * (1 + NINE_ROUNDINGS)
        delta = np.minimum(np.nextafter(delta, 1.0), 1.0)
        return np.asarray(
            np.where(eps < self._smallest_eps_with_zero_delta, delta, 0.0)
        )


def _is_flat_gaussian(kind: str, curvature: float, dim: int) -> bool:
    """Return whether the noise is a Gaussian on a flat space, with a closed form.

    A line is flat whatever its curvature. A circle (dimension 1, curvature > 0) is not
    a flat space here, because outputs wrap around it.

    Parameters
    ----------
    kind : {'gaussian', 'laplace'}
        The noise.
    curvature : float
        The curvature of the space.
    dim : int
        The dimension of the space.

    Returns
    -------
    bool
        True if the noise has the privacy profile of N(0, 1) against N(μ, 1) for some μ.
    """
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
    """Return the privacy profile of isotropic noise, in closed form if there is one.

    Within a thread, the same parameters give the same object, so that the table of its
    privacy loss is computed only once.

    Parameters
    ----------
    kind : {'gaussian', 'laplace'}
        The noise: density ∝ exp(−d²/2s²) or ∝ exp(−d/s), with the distance d from the
        center and the scale s.
    curvature : float
        The curvature of the space.
    dim : int
        The dimension of the space.
    scale : float
        The scale of the noise.
    sensitivity : float
        The largest distance between two centers of the noise.
    adjacency : str
        The kind of neighboring data sets: 'replace-one' or 'add-remove'.

    Returns
    -------
    ConstantCurvatureProfile
        The profile. It is a `GaussianProfile` or a `LineLaplaceProfile` if there is a
        closed form.
    """
    numbers = (curvature, dim, scale, sensitivity)
    are_numbers = all(isinstance(number, int | float) for number in numbers)
    if not (isinstance(kind, str) and are_numbers):
        # Such parameters cannot be looked up in a cache. The constructor converts them,
        # or raises an error that names the wrong one.
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
    """Return the privacy profile of isotropic noise from a cache.

    Threads do not share profiles, because the table of a privacy loss is extended in
    place.

    Parameters
    ----------
    thread : int
        The identifier of the thread.
    kind : {'gaussian', 'laplace'}
        The noise.
    curvature : float
        The curvature of the space.
    dim : int
        The dimension of the space.
    scale : float
        The scale of the noise.
    sensitivity : float
        The largest distance between two centers of the noise.
    adjacency : str
        The kind of neighboring data sets.

    Returns
    -------
    ConstantCurvatureProfile
        A `GaussianProfile` or `LineLaplaceProfile` if there is a closed form.
    """
    profile_class = ConstantCurvatureProfile
    if _is_flat_gaussian(kind, curvature, dim):
        profile_class = GaussianProfile
    elif kind == "laplace" and dim == 1 and curvature <= 0:
        profile_class = LineLaplaceProfile
    return profile_class(kind, curvature, dim, scale, sensitivity, adjacency=adjacency)


def gaussian_profile(
    curvature: float, dim: int, scale: float, sensitivity: float
) -> ConstantCurvatureProfile:
    """Return the exact profile of the Riemannian Gaussian on constant curvature.

    The density of the noise is ∝ exp(−d²/2σ²), with the distance d from its center.

    Parameters
    ----------
    curvature : float
        The curvature of the space.
    dim : int
        The dimension of the space.
    scale : float
        The scale σ of the noise.
    sensitivity : float
        The largest distance between two centers of the noise.

    Returns
    -------
    ConstantCurvatureProfile
        The profile; `delta`, `epsilon` and `mu` are among its members.

    Examples
    --------
    >>> round(gaussian_profile(1.0, 2, 1.0, 1.0).mu, 5)
    0.82248
    """
    return constant_curvature_profile("gaussian", curvature, dim, scale, sensitivity)


def laplace_profile(
    curvature: float, dim: int, scale: float, sensitivity: float
) -> ConstantCurvatureProfile:
    """Return the exact profile of the Riemannian Laplace law on constant curvature.

    The density of the noise is ∝ exp(−d/scale), with the distance d from its center.
    δ(ε) is 0 from ε = sensitivity/scale on.

    Parameters
    ----------
    curvature : float
        The curvature of the space.
    dim : int
        The dimension of the space.
    scale : float
        The scale of the noise.
    sensitivity : float
        The largest distance between two centers of the noise.

    Returns
    -------
    ConstantCurvatureProfile
        The profile; `delta`, `epsilon` and `mu` are among its members.

    Examples
    --------
    >>> laplace_profile(1.0, 2, 1.0, 0.5).delta(0.5)
    0.0
    """
    return constant_curvature_profile("laplace", curvature, dim, scale, sensitivity)


def gaussian_floor(curvature: float, dim: int, sensitivity: float) -> float:
    """Return the smallest μ of GDP that Gaussian noise of any scale can reach.

    On a hyperbolic space some privacy loss remains however much noise is added. On all
    other spaces the result is 0.

    Parameters
    ----------
    curvature : float
        The curvature of the space.
    dim : int
        The dimension of the space.
    sensitivity : float
        The largest distance between two centers of the noise.

    Returns
    -------
    float
        The infimum of μ over all scales.

    Examples
    --------
    >>> round(gaussian_floor(-1.0, 10, 1.0), 5)
    2.86205
    """
    curvature = _validate.within("curvature", curvature, *CURVATURE_RANGE)
    dim = _validate.integer("dim", dim, 1)
    sensitivity = _validate.length("sensitivity", sensitivity)
    if curvature < 0 and dim > 1:
        return FloorProfile(curvature, dim, sensitivity).mu
    return 0.0
