"""What a release promises: frozen values, one class per definition of privacy.

Each answers `delta`, `epsilon` and `tradeoff`, whatever the definition, every number rounded to the private side. A
parameter of 0 is refused everywhere: perfect privacy needs no mechanism, and as a target it is a typing mistake.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import scipy

from curvedp import _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import Array, round_fraction, round_up
from curvedp.privacy.guarantees.base import Guarantee, impossible
from curvedp.privacy.guarantees.gaussian import gdp_delta, gdp_tradeoff
from curvedp.privacy.guarantees.rao import (
    hellinger_from_affinity,
    rao_delta,
    rao_epsilon,
    rao_tradeoff,
)
from curvedp.privacy.guarantees.renyi import EpsilonFirst, renyi_epsilon, zcdp_epsilon


@dataclass(frozen=True, repr=False)
class PureDP(Guarantee):
    """ε-DP: no event's odds change by more than e^ε (Dwork et al. 2006).

    Guarantees: `delta` is the exact worst case, randomized response: (e^ε₀ − e^ε)₊/(1 + e^ε₀).

    Parameters
    ----------
    eps, adjacency : float, str
        The bound ε > 0, and what neighbors differ in.

    Examples
    --------
    >>> PureDP(1.0).delta(1.0)
    0.0
    """

    eps: float

    symbol: ClassVar[str] = "ε"
    additive: ClassVar[dict[str, int]] = {"eps": 1}
    follows: ClassVar[tuple[str, str]] = ("pure", "its loss is not bounded")

    def _delta(self, eps: Array) -> Any:
        return two_point_delta(self.eps, eps)

    def _epsilon(self, delta: Array) -> Any:
        return _two_point_epsilon(self.eps, delta)

    def _tradeoff(self, alpha: Array) -> Any:
        return np.maximum(
            1 - _inflated(self.eps, alpha), np.exp(-self.eps) * (1 - alpha)
        )

    def implies(self) -> dict[str, float]:
        angle = hellinger_angle(_log_cosh(self.eps / 2))
        return {
            "pure": self.eps,
            "gdp": pure_to_gdp_mu(self.eps),
            "zcdp": self.renyi_bound(1.0),
            "angle": angle,
        }

    def renyi_bound(self, order: float) -> float:
        return float(
            pure_renyi(self.eps, order)
            if order > 1
            else round_up(self.eps * math.tanh(self.eps / 2), 1e-15)
        )


@dataclass(frozen=True, repr=False)
class ApproxDP(Guarantee):
    """(ε, δ)-DP at one point (Dwork et al. 2006).

    Guarantees: `delta` is the exact worst case, the four-point pair of Kairouz, Oh and Viswanath 2015:
    δ₀ + (1 − δ₀)(e^ε₀ − e^ε)₊/(1 + e^ε₀). Below delta0 no ε can be vouched for: `epsilon` is infinite.

    Parameters
    ----------
    eps, delta0, adjacency : float, float, str
        The point (ε, δ), ε > 0 and 0 < δ < 1, and what neighbors differ in.

    Examples
    --------
    >>> ApproxDP(1.0, 1e-6).delta(1.0)
    1e-06
    """

    eps: float
    delta0: float

    additive: ClassVar[dict[str, int]] = {"eps": 1, "delta0": 1}
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"delta0": (0, 1)}

    def _delta(self, eps: Array) -> Any:
        extra = (1 - self.delta0) * two_point_delta(self.eps, eps)
        return np.where(
            extra > 0,
            np.minimum(round_up(self.delta0 + extra, 4e-16), 1.0),
            self.delta0,
        )

    def _epsilon(self, delta: Array) -> Any:
        rest = np.maximum(delta - self.delta0, 0.0) / (1 - self.delta0) * (1 - 1e-15)
        return np.where(
            delta >= self.delta0, _two_point_epsilon(self.eps, rest), np.inf
        )

    def _tradeoff(self, alpha: Array) -> Any:
        left = 1 - self.delta0 - _inflated(self.eps, alpha)
        return np.maximum(left, np.exp(-self.eps) * (1 - self.delta0 - alpha))

    def loss_reach(self, delta: float) -> float:
        """ε: beyond it δ stays as it is, and there is an atom at it, which a grid should meet."""
        return self.eps

    def implies(self) -> dict[str, float]:
        return {
            "angle": hellinger_angle(_log_cosh(self.eps / 2) - math.log1p(-self.delta0))
        }

    @classmethod
    def implied_by(
        cls,
        other: Guarantee,
        eps: float | None,
        delta: float | None,
        order: float | None,
    ) -> "ApproxDP":
        if (eps is None) == (delta is None):
            raise ParameterError(
                f"converting to ApproxDP needs one of eps={eps!r} and delta={delta!r}"
            )
        if eps is not None:
            return cls(eps, max(other.delta(eps), 5e-324), adjacency=other.adjacency)
        assert delta is not None
        found = other.epsilon(delta)
        if not found < math.inf:
            least = other.delta(math.inf)
            raise UnattainableGuarantee(
                f"{other!r} implies no (ε, {delta:g}): its δ stays at {least:g} or above"
            )
        # (0, δ) implies (ε, δ) for every ε > 0, and 0 is not a parameter: take the smallest that is.
        return cls(max(found, 5e-324), delta, adjacency=other.adjacency)

    def measure(self, other: Guarantee) -> float:
        return float(other.delta(self.eps))


@dataclass(frozen=True, repr=False)
class ZCDP(EpsilonFirst, Guarantee):
    """ρ-zero-concentrated DP: D_α ≤ ρα for all α > 1 (Bun and Steinke 2016).

    Guarantees: `delta` is the best over all orders of the exact single-order bound, see `privacy.renyi`.

    Parameters
    ----------
    rho, adjacency : float, str
        The bound ρ > 0, and what neighbors differ in.

    Examples
    --------
    >>> ZCDP(0.5).epsilon(1e-5) < 5.0
    True
    """

    rho: float

    symbol: ClassVar[str] = "ρ"
    scale_power: ClassVar[float] = 2.0
    additive: ClassVar[dict[str, int]] = {"rho": 1}
    merges: ClassVar[str] = "divergence"
    follows: ClassVar[tuple[str, str]] = (
        "zcdp",
        "a Rényi divergence of it can be infinite",
    )

    def _epsilon(self, delta: Array) -> Any:
        return zcdp_epsilon(self.rho, delta)

    def implies(self) -> dict[str, float]:
        return {"zcdp": self.rho, "angle": hellinger_angle(self.rho / 2)}

    def renyi_bound(self, order: float) -> float:
        return float(round_up(order * self.rho))


@dataclass(frozen=True, repr=False)
class RenyiDP(EpsilonFirst, Guarantee):
    """(α, ε)-Rényi DP: D_α ≤ ε at one order α > 1 (Mironov 2017).

    Guarantees: `delta` is the exact largest δ that the divergence bound allows (Asoodeh et al. 2021).

    Parameters
    ----------
    order, eps, adjacency : float, float, str
        The order α > 1, the bound ε > 0, and what neighbors differ in.

    Examples
    --------
    >>> RenyiDP(8.0, 1.0).epsilon(1e-5) < 2.5
    True
    """

    order: float
    eps: float

    symbol: ClassVar[str] = "ε"
    scale_power: ClassVar[float] = 2.0
    additive: ClassVar[dict[str, int]] = {"eps": 1}
    merges: ClassVar[str] = "divergence"
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"order": (1, math.inf)}

    def _epsilon(self, delta: Array) -> Any:
        return renyi_epsilon(self.order, self.eps, delta)

    def renyi_bound(self, order: float) -> float:
        return self.eps if order <= self.order else math.inf

    def implies(self) -> dict[str, float]:
        return {"angle": hellinger_angle(self.eps / 2)}

    @classmethod
    def implied_by(
        cls,
        other: Guarantee,
        eps: float | None,
        delta: float | None,
        order: float | None,
    ) -> "RenyiDP":
        if order is None:
            raise ParameterError("converting to RenyiDP needs order=…")
        order = RenyiDP(order, 1.0).order  # validated as a field of it
        if not (value := other.renyi_bound(order)) < math.inf:
            raise impossible(other, cls, "that Rényi divergence of it can be infinite")
        return cls(order, value, adjacency=other.adjacency)

    def measure(self, other: Guarantee) -> float:
        return other.renyi_bound(self.order)


@dataclass(frozen=True, repr=False)
class GDP(Guarantee):
    """μ-Gaussian DP: telling D from D' is at least as hard as telling N(0, 1) from N(μ, 1) (Dong, Roth and Su 2022).

    Guarantees: `delta` is exact, relative error below 4e-14 on the upper side, at any ε.

    Parameters
    ----------
    mu, adjacency : float, str
        The bound μ > 0, and what neighbors differ in.

    Examples
    --------
    >>> round(GDP(1.0).delta(1.0), 10), round(GDP(1.0).epsilon(1e-5), 8)
    (0.1269367375, 4.3771781)
    """

    mu: float

    symbol: ClassVar[str] = "μ"
    additive: ClassVar[dict[str, int]] = {"mu": 2}
    merges: ClassVar[str] = "gdp"
    follows: ClassVar[tuple[str, str]] = (
        "gdp",
        "its tail can be heavier than every Gaussian's",
    )

    def _delta(self, eps: Array) -> Any:
        return gdp_delta(self.mu, eps)

    def _tradeoff(self, alpha: Array) -> Any:
        return gdp_tradeoff(self.mu, alpha)

    def implies(self) -> dict[str, float]:
        return {
            "gdp": self.mu,
            "zcdp": half_square(self.mu),
            "angle": hellinger_angle(self.mu * self.mu / 8),
        }

    def renyi_bound(self, order: float) -> float:
        return float(round_up(order * half_square(self.mu)))


@dataclass(frozen=True, repr=False)
class RaoDP(Guarantee):
    """θ-Rao DP: the Rao distance between D's and D's mechanism is at most θ.

    Guarantees: `delta` is the exact joint range of hockey-stick and Hellinger; it stays above sin²(θ/2) for every ε.

    Parameters
    ----------
    theta, adjacency : float, str
        The bound θ > 0, and what neighbors differ in.
    angle : "parametric" or "hellinger"
        The length within the family (composes as √Σθ²), or the angle 2·arccos∫√(pq) ≤ π among all densities (composes as
        cos(θ/2) = ∏cos(θᵢ/2)). A parametric θ bounds the Hellinger angle.

    Examples
    --------
    >>> round(RaoDP(1.0).delta(0.0), 6)
    0.479426
    """

    theta: float
    angle: str = field(default="parametric", kw_only=True)

    symbol: ClassVar[str] = "θ"
    additive: ClassVar[dict[str, int]] = {"theta": 2}
    merges: ClassVar[str] = "angle"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice("angle", self.angle, ("parametric", "hellinger"))
        if self.angle == "hellinger":
            _validate.within("theta", self.theta, 0, math.pi)

    def cost(self) -> tuple[Fraction, ...]:
        if self.angle != "parametric":
            raise ParameterError(
                f"{self!r} has no cost that adds up: a Rao budget is parametric"
            )
        return super().cost()

    def _delta(self, eps: Array) -> Any:
        return rao_delta(self.theta, eps)

    def _epsilon(self, delta: Array) -> Any:
        return rao_epsilon(self.theta, delta)

    def _tradeoff(self, alpha: Array) -> Any:
        return rao_tradeoff(self.theta, alpha)

    def implies(self) -> dict[str, float]:
        return {
            "angle": min(self.theta, math.pi),
            "rao": self.theta if self.angle == "parametric" else math.inf,
        }

    @classmethod
    def implied_by(
        cls,
        other: Guarantee,
        eps: float | None,
        delta: float | None,
        order: float | None,
    ) -> "RaoDP":
        if not (value := other.bound("angle")) < math.inf:
            raise impossible(
                other,
                cls,
                "its profile alone bounds the Hellinger angle only loosely; convert its parts",
            )
        return cls(value, angle="hellinger", adjacency=other.adjacency)

    def measure(self, other: Guarantee) -> float:
        return other.bound("rao" if self.angle == "parametric" else "angle")


# ---- randomized response, the worst of all ε-DP mechanisms: its δ, trade-off and divergences bound those of every other one


def two_point_delta(eps0: float, eps: Array) -> Any:
    """(e^ε₀ − e^ε)₊/(1 + e^ε₀), rounded up where positive."""
    delta = -np.expm1(np.minimum(eps - eps0, 0.0)) * scipy.special.expit(eps0)
    return np.where(delta > 0, np.minimum(round_up(delta, 1e-15), 1.0), 0.0)


def _two_point_epsilon(eps0: float, delta: Array) -> Any:
    """The ε at which `two_point_delta` falls to delta: log(e^ε₀(1 − δ) − δ), rounded up, at most ε₀."""
    # e^ε = e^ε₀(1 − δ) − δ, at least half of its first term: neither cancels, and 1 − δ is exact where it is small
    with np.errstate(
        divide="ignore", invalid="ignore", over="ignore"
    ):  # what overflows is cut at ε₀
        eps = eps0 + np.log((1 - delta) - delta * math.exp(-eps0))
        raised = eps + 2.0**-49 * (1 + eps0 + np.abs(eps))
    return np.where(
        delta >= round_up(math.tanh(eps0 / 2), 1e-15), 0.0, np.clip(raised, 0.0, eps0)
    )


def _inflated(eps: float, alpha: Array) -> Any:
    """e^ε·α, at least 1 where e^ε overflows and α > 0."""
    return np.exp(eps) * alpha if eps < 700 else np.where(alpha > 0, 1.0, 0.0)


def pure_to_gdp_mu(eps: float) -> float:
    """μ = −2Φ⁻¹(1/(1+e^ε)), rounded up, to full precision for tiny and for huge ε."""
    if eps < 1:
        return float(
            round_up(2 * math.sqrt(2) * scipy.special.erfinv(math.tanh(eps / 2)), 4e-15)
        )
    return float(
        round_up(
            -2 * scipy.special.ndtri_exp(-(eps + math.log1p(math.exp(-eps)))), 4e-15
        )
    )


def _log_cosh(x: float) -> float:
    """log cosh x for x >= 0; 2 sinh²(x/2) = cosh x − 1 keeps the digits near 0."""
    if x < 1:
        return math.log1p(2 * math.sinh(x / 2) ** 2)
    return x + math.log1p(math.exp(-2 * x)) - math.log(2)


def pure_renyi(eps: Any, order: Any) -> Any:
    """D_α of randomized response, the most any ε-DP mechanism can have (Bun and Steinke 2016); rounded up. log(cosh
    A/cosh B)/(α−1), A = (α−½)ε, B = ε/2; near ε = 0 through cosh A − cosh B = 2 sinh((A+B)/2) sinh((A−B)/2), and else as
    x + log(1 − (1 − e^{−2x})/(1 + e^ε)), x = A − B: both keep the digits, at orders next to 1 too."""
    eps, order = np.asarray(eps, np.float64), np.asarray(order, np.float64)
    x = (
        order - 1
    ) * eps  # A − B, without the subtraction that would lose it near order 1
    with np.errstate(over="ignore", invalid="ignore"):
        far = x + np.log1p(np.expm1(-2 * x) * scipy.special.expit(-eps))
        near = np.log1p(
            2 * np.sinh(order * eps / 2) * np.sinh(x / 2) / np.cosh(eps / 2)
        )
    value = round_up(np.where(order * eps > 2, far, near) / (order - 1), 1e-14)
    return value if np.ndim(value) else float(value)


def half_square(mu: float) -> float:
    """μ²/2, rounded up unless it is exact."""
    return round_fraction(Fraction(mu) ** 2 / 2, up=True)


def hellinger_angle(minus_log_affinity: float) -> float:
    """θ = 2·arccos e^{−x}, rounded up."""
    return float(hellinger_from_affinity(round_up(minus_log_affinity, 1e-14)))
