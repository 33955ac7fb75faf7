"""Exact privacy profiles of the Riemannian Gaussian and Laplace on constant curvature, and the hyperbolic floor.

The worst pair of neighbors is a pair exactly the sensitivity apart: moving η₂ away from η₁ raises δ(ε) at every ε (the
proof, by the first variation over caps about η₂, is in docs/exact-profiles.md): no search over distances is needed.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from threading import get_ident
from typing import Any, ClassVar

import numpy as np

from curvedp import _validate
from curvedp.errors import NotIntegrable, ParameterError
from curvedp.numerics.directed_rounding import Array, round_fraction, round_up
from curvedp.privacy.guarantees.gaussian import gdp_delta, gdp_tradeoff
from curvedp.privacy.loss.line_and_circle import (
    CircleGaussianLoss,
    CircleLaplaceLoss,
    LineLaplaceLoss,
)
from curvedp.privacy.loss.space_form import Kind, LimitingLoss, SpaceFormLoss
from curvedp.privacy.loss.table import PrivacyLossLaw, TabulatedLossLaw
from curvedp.privacy.profiles.base import RELATIVE_ERROR, PrivacyProfile

_SCALES, _RATIOS, _FARTHEST = (1e-20, 1e6), (1e-15, 1e7), 300.0
_CIRCLE = (1e-140, 1e140)


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # a search makes many profiles: few have to be asked
        _validate.within(name, value, low, high)


@dataclass(frozen=True)
class RadialProfile(PrivacyProfile):
    """The profile of an isotropic law, from a radial integral or a closed form."""

    kind: Kind

    closed: ClassVar[bool] = (
        False  # whether everything about the loss is in closed form
    )

    @property
    @abstractmethod
    def law(self) -> PrivacyLossLaw:
        """The law of the loss, with as many quadrature nodes as mostly do."""

    @cached_property
    def tails(self) -> PrivacyLossLaw:
        return self.law.resolved()

    @property
    def sketched(self) -> Any:
        law = None if self.closed else self.law
        return replace(law, order=128) if isinstance(law, SpaceFormLoss) else None

    @cached_property
    def _table(self) -> TabulatedLossLaw:
        law = self.tails
        while True:
            try:
                return TabulatedLossLaw(law)
            except (
                ArithmeticError
            ):  # the quadrature errs by more than the table resolves: more nodes
                if not isinstance(law, SpaceFormLoss) or law.order > 2048:
                    raise
                law = replace(law, order=2 * law.order)

    @cached_property
    def rao(self) -> float:
        return round_up(self.tails.loss_scale, RELATIVE_ERROR)


@dataclass(frozen=True)
class ConstantCurvatureProfile(RadialProfile):
    """The exact profile of an isotropic law, `kind` "gaussian" or "laplace", on a space of constant curvature, for every pair
    of centers at distance at most `sensitivity`: flat Gaussians and one-dimensional spaces in closed form, else one radial
    integral of an incomplete beta function."""

    curvature: float
    dim: int
    scale: float
    sensitivity: float

    lengths: ClassVar[tuple[str, ...]] = ("scale", "sensitivity")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in ("gaussian", "laplace"):
            raise ParameterError(
                "must be 'gaussian' or 'laplace'", parameter="kind", value=self.kind
            )
        whole = type(self.dim) is int and 1 <= self.dim < 2**53
        if not (
            whole and type(self.curvature) is float and abs(self.curvature) <= 1e300
        ):
            object.__setattr__(
                self,
                "curvature",
                _validate.within("curvature", self.curvature, -1e300, 1e300),
            )
            object.__setattr__(self, "dim", _validate.integer("dim", self.dim, 1))
        root = math.sqrt(abs(self.curvature))
        if self.curvature > 0 and self.sensitivity > (diameter := math.pi / root) * (
            1 + 4e-16
        ):
            raise ParameterError(
                f"must not exceed the diameter {diameter:g} of the space",
                parameter="sensitivity",
                value=self.sensitivity,
            )
        if self.dim > 1 and not self.closed:
            # The integrals are taken in units of the curvature radius; there doubles resolve this range, and no other.
            _check("scale·√|curvature|", self.scale * root or 1.0, *_SCALES)
            _check("sensitivity/scale", self.sensitivity / self.scale, *_RATIOS)
        if self.dim > 1 and self.curvature < 0:
            _check("sensitivity·√|curvature|", self.sensitivity * root, 0, _FARTHEST)
        if (
            self.dim == 1 and self.curvature > 0
        ):  # closed forms, whose squares must be numbers
            _check("scale·√curvature", self.scale * root, *_CIRCLE)
            _check("sensitivity·√curvature", self.sensitivity * root, *_CIRCLE)
        if (
            self.kind == "laplace"
            and self.curvature < 0
            and self.dim > 1
            and self.scale * root * (self.dim - 1) >= 1
        ):
            raise NotIntegrable(
                f"must be below {1 / (root * (self.dim - 1)):g} on the space of "
                f"dimension {self.dim} and curvature {self.curvature:g}: above it the "
                "Laplace density has infinite mass",
                parameter="scale",
                value=self.scale,
            )

    @property
    def law(self) -> PrivacyLossLaw:
        root = math.sqrt(abs(self.curvature)) or 1.0
        k = (self.curvature > 0) - (self.curvature < 0)
        s, distance = self.scale * root, self.sensitivity * root
        if k == 1:
            distance = min(distance, math.pi)
        if self.dim > 1:
            return SpaceFormLoss(self.kind, k, self.dim, s, distance)
        if k == 1:
            return (
                CircleGaussianLoss(s, distance)
                if self.kind == "gaussian"
                else CircleLaplaceLoss(s, distance)
            )
        if self.kind == "laplace":
            return LineLaplaceLoss(s, distance)
        return SpaceFormLoss(
            "gaussian", 0, 2, s, distance
        )  # the loss has the same law on every flat space

    @property
    def _cap(self) -> float:
        if self.kind == "gaussian":
            return self.pure_epsilon
        return round_fraction(
            Fraction(self.sensitivity) / Fraction(self.scale), up=True
        )  # whatever the curvature

    @cached_property
    def floor(self) -> PrivacyProfile | None:
        if self.curvature < 0 and self.dim > 1:
            return FloorProfile(
                self.curvature, self.dim, self.sensitivity, adjacency=self.adjacency
            )
        return None

    @property
    def space(self) -> str:
        if self.curvature == 0:
            return f"Euclidean({self.dim})"
        if abs(self.curvature) == 1:
            return (
                f"Sphere({self.dim})" if self.curvature > 0 else f"Lorentz({self.dim})"
            )
        return f"the space of dimension {self.dim} and curvature {self.curvature:g}"

    @property
    def _tail_mu(self) -> float:
        return self.sensitivity / self.scale

    def _normal_tail(self) -> tuple[float, float]:
        """On a hyperbolic space: L <= (2rD + D²)/2s², and ρ(m+u) <= e^{g}·e^{−u²/2s²} (docs/exact-profiles.md, Tail)."""
        law = self.tails
        assert isinstance(law, SpaceFormLoss)
        em = math.expm1(2 * law.mode) if law.mode < 350 else math.inf
        log_k = (
            (law.d - 1) * math.log1p(1 / em)
            - law.log_mass
            + math.log(law.s * math.sqrt(2 * math.pi))
        )
        return max(
            log_k, 0.0
        ), law.mode * law.distance / law.s**2  # ∫ρ <= its bound: below 0 is round-off


@dataclass(frozen=True)
class GaussianProfile(ConstantCurvatureProfile):
    """A flat Gaussian: its loss is normal, and everything is in closed form (Dong, Roth and Su 2022)."""

    closed: ClassVar[bool] = True
    pure_epsilon = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _is_flat(self.kind, self.curvature, self.dim):
            raise ParameterError(
                f"{self.kind!r} on curvature {self.curvature:g} is not a flat Gaussian"
            )

    @cached_property
    def mu(self) -> float:
        return round_up(self.sensitivity / self.scale, 2.0**-52)

    rao = property(lambda self: self.mu)

    @cached_property
    def rho(self) -> float:
        return round_up(self.mu * self.mu / 2, 2.0**-51)

    @cached_property
    def hellinger_angle(self) -> float:  # ∫√(p₁p₂) = e^{−μ²/8}
        return min(
            round_up(
                4 * math.asin(math.sqrt(-math.expm1(-(self.mu * self.mu) / 8) / 2)),
                1e-15,
            ),
            math.pi,
        )

    def _delta(self, eps: Array) -> Array:
        return np.asarray(gdp_delta(self.mu, eps))

    def _tradeoff(self, alpha: Array) -> Array:
        return np.asarray(gdp_tradeoff(self.mu, alpha))

    def renyi_bound(self, order: float) -> float:
        return round_up(order * self.mu * self.mu / 2, 2.0**-51)

    def mu_at(self, eps: Array) -> Array:
        return np.full_like(eps, self.mu)

    def mu_of_tradeoff(self, alpha: Array) -> Array:
        return np.full_like(alpha, self.mu)


@dataclass(frozen=True)
class LineLaplaceProfile(ConstantCurvatureProfile):
    """The Laplace law on the line: δ(ε) = 1 − e^{(ε − Δ/s)/2}."""

    def grid_delta(self, eps: Array) -> Array:
        delta = -np.expm1(np.minimum(eps - self._cap, 0.0) / 2) * (1 + 1e-15)
        return np.asarray(
            np.where(eps < self._cap, np.minimum(np.nextafter(delta, 1.0), 1.0), 0.0)
        )


@dataclass(frozen=True)
class FloorProfile(PrivacyProfile):
    """The limit of the Gaussian's profile on a hyperbolic space as its scale grows: no isotropic law does better.

    The loss tends to (d−1)·log(cosh Δ − sinh Δ cos φ), φ the angle of a uniform direction: that between the harmonic measures
    on the boundary seen from the two centers, into which Brownian motion turns ANY isotropic law (docs/exact-profiles.md).
    """

    curvature: float
    dim: int
    sensitivity: float

    lengths: ClassVar[tuple[str, ...]] = ("sensitivity",)
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"curvature": (-1e300, 0.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.integer("dim", self.dim, 2)

    @cached_property
    def tails(self) -> PrivacyLossLaw:
        return LimitingLoss(self.dim, self.sensitivity * math.sqrt(-self.curvature))

    @property
    def rao(self) -> float:
        """Δ·√Fisher = Δ(d−1)/√d: the loss is (d−1)Δ·cos φ to first order, E[cos²φ] = 1/d."""
        return round_up(self.tails.loss_scale, 1e-15)


def _is_flat(kind: str, curvature: float, dim: int) -> bool:
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
    """The profile of an isotropic law on constant curvature, by a closed form where there is one. The same public parameters
    give the same object, which keeps what it has worked out."""
    fields = (kind, curvature, dim, scale, sensitivity)
    numbers = all(isinstance(x, int | float) for x in fields[1:])
    if not (
        isinstance(kind, str) and numbers
    ):  # what is not a number is refused by its own words
        return ConstantCurvatureProfile(*fields, adjacency=adjacency)
    return _kept(get_ident(), *fields, adjacency)


@lru_cache(maxsize=512, typed=True)
def _kept(
    thread: int,
    kind: Kind,
    curvature: float,
    dim: int,
    scale: float,
    sensitivity: float,
    adjacency: str,
) -> ConstantCurvatureProfile:
    """One for each thread: a table of the loss grows as it is asked."""
    chosen = ConstantCurvatureProfile
    if _is_flat(kind, curvature, dim):
        chosen = GaussianProfile
    elif kind == "laplace" and dim == 1 and curvature <= 0:
        chosen = LineLaplaceProfile
    return chosen(kind, curvature, dim, scale, sensitivity, adjacency=adjacency)


def gaussian_profile(
    curvature: float, dim: int, sigma: float, sensitivity: float
) -> ConstantCurvatureProfile:
    """The exact profile of the Riemannian Gaussian, density ∝ exp(−d²/2σ²), on constant curvature.

    Parameters
    ----------
    curvature, dim, sigma, sensitivity : float, int, float, float
        Of the space; of the law, and the largest distance of two centers.

    Examples
    --------
    >>> round(gaussian_profile(1.0, 2, 1.0, 1.0).mu, 5)
    0.82248
    """
    return constant_curvature_profile("gaussian", curvature, dim, sigma, sensitivity)


def laplace_profile(
    curvature: float, dim: int, scale: float, sensitivity: float
) -> ConstantCurvatureProfile:
    """The exact profile of the Riemannian Laplace, density ∝ exp(−d/scale); δ(ε) = 0 from ε = sensitivity/scale on.

    Parameters
    ----------
    curvature, dim, scale, sensitivity : float, int, float, float
        Of the space; of the law, and the largest distance of two centers.

    Examples
    --------
    >>> laplace_profile(1.0, 2, 1.0, 0.5).delta(0.5)
    0.0
    """
    return constant_curvature_profile("laplace", curvature, dim, scale, sensitivity)


def gaussian_floor(curvature: float, dim: int, sensitivity: float) -> float:
    """The infimum over σ of the Gaussian's μ: 0 unless the space is hyperbolic.

    Parameters
    ----------
    curvature, dim, sensitivity : float, int, float
        Of the space, and the largest distance of two centers.

    Examples
    --------
    >>> round(gaussian_floor(-1.0, 10, 1.0), 5)
    2.86205
    """
    curvature = _validate.within("curvature", curvature, -1e300, 1e300)
    dim, sensitivity = (
        _validate.integer("dim", dim, 1),
        _validate.length("sensitivity", sensitivity),
    )
    return (
        FloorProfile(curvature, dim, sensitivity).mu
        if curvature < 0 and dim > 1
        else 0.0
    )
