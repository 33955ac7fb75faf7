"""Six definitions of differential privacy, each a class: PureDP, ApproxDP, ZCDP, …. An
object such as `GDP(1.0)` is a guarantee. It computes δ(ε), ε(δ) and the smallest errors
of tests between neighboring data sets, and the parameters that it implies in other
definitions.

Every number is rounded such that no guarantee is overstated.

The theorems that turn one definition into another are listed with their sources in
docs/theory/accounting.md, "Conversions". A parameter of 0 is refused everywhere:
perfect privacy needs no mechanism, and as a target it is almost certainly a typing
mistake.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import (
    NINE_ROUNDINGS,
    THREE_ROUNDINGS,
    Array,
    round_up,
)
from curvedp.privacy.guarantees.base import Guarantee, conversion_impossible
from curvedp.privacy.guarantees.conversions import (
    half_square,
    hellinger_angle,
    log_cosh,
    randomized_response_delta,
    randomized_response_epsilon,
    randomized_response_mu,
    randomized_response_renyi,
    scaled_by_exp,
)
from curvedp.privacy.guarantees.gaussian import gdp_delta, gdp_tradeoff
from curvedp.privacy.guarantees.rao import rao_delta, rao_epsilon, rao_tradeoff
from curvedp.privacy.guarantees.renyi import (
    DefinedByEpsilon,
    renyi_epsilon,
    zcdp_epsilon,
)

_SMALLEST_FLOAT = 5e-324
# The default of an argument that may be given under another name.
_MISSING: Any = object()


@dataclass(frozen=True, repr=False, init=False)
class PureDP(Guarantee):
    """ε-DP: the probability of no event changes by more than a factor e^ε.

    Dwork et al. (2006). `delta` is the exact worst case over all ε₀-DP mechanisms, that
    of randomized response: δ(ε) = (e^ε₀ − e^ε)₊/(1 + e^ε₀).

    Parameters
    ----------
    epsilon : float
        The bound ε > 0.
    eps : float
        The same number, under the name of the field. Give one of the two.
    adjacency : str
        What neighboring data sets differ in: 'replace-one' or 'add-remove'.

    Examples
    --------
    >>> PureDP(1.0).delta(1.0)
    0.0
    >>> PureDP(epsilon=1.0) == PureDP(1.0)
    True
    """

    eps: float

    symbol: ClassVar[str] = "ε"
    additive_fields: ClassVar[dict[str, int]] = {"eps": 1}
    requires_bounded_loss: ClassVar[bool] = True
    reason_for_no_bound: ClassVar[str] = "its loss is not bounded"

    def __init__(
        self,
        epsilon: float = _MISSING,
        *,
        eps: float = _MISSING,
        adjacency: str = "replace-one",
    ) -> None:
        """Store ε, given under either of its names, and validate it."""
        object.__setattr__(self, "eps", _take_one_of("epsilon", epsilon, "eps", eps))
        object.__setattr__(self, "adjacency", adjacency)
        self.__post_init__()

    def _delta(self, eps: Array) -> Any:
        """Return δ(ε) of randomized response, the worst of all ε₀-DP mechanisms."""
        return randomized_response_delta(self.eps, eps)

    def _epsilon(self, delta: Array) -> Any:
        """Return ε(δ) of randomized response, the worst of all ε₀-DP mechanisms."""
        return randomized_response_epsilon(self.eps, delta)

    def _tradeoff(self, alpha: Array) -> Any:
        """Return the smallest type II error of a test, for each type I error.

        A test tells two neighboring data sets apart from one output. Randomized
        response has the smallest one: max(1 − e^ε·α, e^−ε·(1 − α)).

        Parameters
        ----------
        alpha : array
            Type I errors α from 0 to 1.

        Returns
        -------
        array
            Type II errors; negative numbers stand for 0.
        """
        steep_line = 1 - scaled_by_exp(self.eps, alpha)
        shallow_line = np.exp(-self.eps) * (1 - alpha)
        return np.maximum(steep_line, shallow_line)

    def implied_pure_epsilon(self) -> float:
        """Return the ε of this guarantee."""
        return self.eps

    def implied_mu(self) -> float:
        """Return the μ of Gaussian DP that randomized response satisfies."""
        return randomized_response_mu(self.eps)

    def implied_rho(self) -> float:
        """Return the ρ of zCDP that ε-DP implies: ε·tanh(ε/2).

        ρ is the largest D_α/α over all orders α, where D_α is the Rényi divergence. For
        randomized response, the worst case, that is the divergence of order 1.

        Returns
        -------
        float
            ρ, rounded up.
        """
        return self.implied_renyi(1.0)

    def implied_hellinger_angle(self) -> float:
        """Return the Hellinger angle of randomized response: ∫√(pq) = 1/cosh(ε/2)."""
        return hellinger_angle(log_cosh(self.eps / 2))

    def implied_renyi(self, order: float) -> float:
        """Return the largest Rényi divergence of all ε-DP mechanisms.

        Randomized response attains it.

        Parameters
        ----------
        order : float
            The order α >= 1. At order 1 the divergence is ε·tanh(ε/2).

        Returns
        -------
        float
            The divergence, rounded up.
        """
        if order > 1:
            return float(randomized_response_renyi(self.eps, order))
        return float(round_up(self.eps * math.tanh(self.eps / 2), NINE_ROUNDINGS))

    @classmethod
    def implied_parameter(cls, other: Guarantee) -> float:
        """Return the ε that another guarantee implies; infinity if none."""
        return other.implied_pure_epsilon()


@dataclass(frozen=True, repr=False, init=False)
class ApproxDP(Guarantee):
    """(ε, δ)-DP at one point (Dwork et al. 2006).

    `delta` is the exact worst case, that of the four-point pair of Kairouz, Oh and
    Viswanath (2015): δ(ε) = δ₀ + (1 − δ₀)·(e^ε₀ − e^ε)₊/(1 + e^ε₀). For δ < δ₀ the
    guarantee says nothing, and `epsilon` is infinite.

    Parameters
    ----------
    epsilon, delta : float
        The point (ε₀, δ₀), ε₀ > 0 and 0 < δ₀ < 1.
    eps, delta0 : float
        The same numbers, under the names of the fields. Give each number once.
    adjacency : str
        What neighboring data sets differ in: 'replace-one' or 'add-remove'.

    Examples
    --------
    >>> ApproxDP(1.0, 1e-6).delta(1.0)
    1e-06
    >>> ApproxDP(epsilon=1.0, delta=1e-6) == ApproxDP(1.0, 1e-6)
    True
    """

    eps: float
    delta0: float

    additive_fields: ClassVar[dict[str, int]] = {"eps": 1, "delta0": 1}
    open_ranges: ClassVar[dict[str, tuple[float, float]]] = {"delta0": (0, 1)}

    def __init__(
        self,
        epsilon: float = _MISSING,
        delta: float = _MISSING,
        *,
        eps: float = _MISSING,
        delta0: float = _MISSING,
        adjacency: str = "replace-one",
    ) -> None:
        """Store ε₀ and δ₀, given under either of their names, and validate them.

        Parameters
        ----------
        epsilon, eps : float
            ε₀, under exactly one of the two names.
        delta, delta0 : float
            δ₀, under exactly one of the two names.
        adjacency : str
            What neighboring data sets differ in: 'replace-one' or 'add-remove'.
        """
        object.__setattr__(self, "eps", _take_one_of("epsilon", epsilon, "eps", eps))
        object.__setattr__(
            self, "delta0", _take_one_of("delta", delta, "delta0", delta0)
        )
        object.__setattr__(self, "adjacency", adjacency)
        self.__post_init__()

    def _delta(self, eps: Array) -> Any:
        """Return δ(ε) of the worst (ε₀, δ₀)-DP mechanism, rounded up.

        It is δ₀ + (1 − δ₀)·δ′(ε), where δ′ is the profile of randomized response with
        ε₀ (Kairouz, Oh and Viswanath 2015).

        Parameters
        ----------
        eps : array
            Values ε >= 0 of the privacy parameter.

        Returns
        -------
        array
            δ(ε) in [δ₀, 1].
        """
        extra = (1 - self.delta0) * randomized_response_delta(self.eps, eps)
        total = np.minimum(round_up(self.delta0 + extra, THREE_ROUNDINGS), 1.0)
        return np.where(extra > 0, total, self.delta0)

    def _epsilon(self, delta: Array) -> Any:
        """Return ε(δ) of the worst (ε₀, δ₀)-DP mechanism; infinity for δ < δ₀.

        It is the ε of ε₀-randomized response at (δ − δ₀)/(1 − δ₀).

        Parameters
        ----------
        delta : array
            δ in [0, 1).

        Returns
        -------
        array
            ε in [0, ε₀], or infinity.
        """
        conditional_delta = np.maximum(delta - self.delta0, 0.0) / (1 - self.delta0)
        eps = randomized_response_epsilon(
            self.eps, conditional_delta * (1 - NINE_ROUNDINGS)
        )
        return np.where(delta >= self.delta0, eps, np.inf)

    def _tradeoff(self, alpha: Array) -> Any:
        """Return the smallest type II error of a test, for each type I error α.

        A test tells two neighboring data sets apart from one output. The error is
        max(1 − δ₀ − e^ε₀·α, e^−ε₀·(1 − δ₀ − α)).

        Parameters
        ----------
        alpha : array
            Type I errors α from 0 to 1.

        Returns
        -------
        array
            Type II errors; negative numbers stand for 0.
        """
        steep_line = 1 - self.delta0 - scaled_by_exp(self.eps, alpha)
        shallow_line = np.exp(-self.eps) * (1 - self.delta0 - alpha)
        return np.maximum(steep_line, shallow_line)

    def truncation_loss(self, delta: float) -> float:
        """Return ε₀, because δ(ε) is constant for larger ε."""
        return self.eps

    def implied_hellinger_angle(self) -> float:
        """Return the Hellinger angle 2·arccos∫√(pq) of the worst mechanism.

        For its output densities p and q, ∫√(pq) = (1 − δ₀)/cosh(ε₀/2).
        """
        return hellinger_angle(log_cosh(self.eps / 2) - math.log1p(-self.delta0))

    @classmethod
    def implied_by(
        cls,
        other: Guarantee,
        eps: float | None,
        delta: float | None,
        order: float | None,
    ) -> "ApproxDP":
        """Return the (ε, δ) that another guarantee implies, at a given ε or a given δ.

        Parameters
        ----------
        other : Guarantee
            The guarantee that is known.
        eps, delta : float or None
            Exactly one of them must be given.
        order : None
            Not used: this definition has no order. Other definitions need it.

        Returns
        -------
        ApproxDP
            The given number, and the smallest value of the other one that `other`
            implies.

        Raises
        ------
        ParameterError
            If both or none of ε and δ are given.
        UnattainableGuarantee
            If the δ of `other` never falls to the given one.
        """
        n_options = (eps is not None) + (delta is not None)
        if n_options != 1:
            raise ParameterError(
                "a conversion to ApproxDP needs exactly one of eps and delta, not "
                f"eps={eps!r} and delta={delta!r}"
            )
        if eps is not None:
            eps = _validate.nonnegative("eps", eps)
            delta_at_eps = max(other.delta(eps), _SMALLEST_FLOAT)
            return cls(eps, delta_at_eps, adjacency=other.adjacency)

        delta = _validate.nonnegative("delta", delta)
        eps_at_delta = other.epsilon(delta)
        if not eps_at_delta < math.inf:
            infimum = other.delta(math.inf)
            raise UnattainableGuarantee(
                f"{other!r} implies no (ε, {delta:g})-DP, because its δ never falls "
                f"below {infimum:g}"
            )
        # ε = 0 is not allowed in this class, but (0, δ) implies (ε, δ) for every ε > 0.
        return cls(max(eps_at_delta, _SMALLEST_FLOAT), delta, adjacency=other.adjacency)

    def parameter_of(self, other: Guarantee) -> float:
        """Return the δ of another guarantee at ε₀."""
        return float(other.delta(self.eps))


@dataclass(frozen=True, repr=False)
class ZCDP(DefinedByEpsilon, Guarantee):
    """ρ-zero-concentrated DP: D_α <= ρα for all α > 1 (Bun and Steinke 2016).

    D_α is the Rényi divergence of order α. `delta` is the best over all orders of the
    exact bound that each order implies; see `guarantees.renyi`.

    Parameters
    ----------
    rho : float
        The bound ρ > 0.
    adjacency : str
        What neighboring data sets differ in: 'replace-one' or 'add-remove'.

    Examples
    --------
    >>> ZCDP(0.5).epsilon(1e-5) < 5.0
    True
    """

    rho: float

    symbol: ClassVar[str] = "ρ"
    scale_exponent: ClassVar[float] = 2.0
    additive_fields: ClassVar[dict[str, int]] = {"rho": 1}
    composition_family: ClassVar[str] = "divergence"
    reason_for_no_bound: ClassVar[str] = "a Rényi divergence of it can be infinite"

    def _epsilon(self, delta: Array) -> Any:
        """Return the smallest ε that ρ-zCDP implies at δ."""
        return zcdp_epsilon(self.rho, delta)

    def implied_rho(self) -> float:
        """Return the ρ of this guarantee."""
        return self.rho

    def implied_hellinger_angle(self) -> float:
        """Return the largest Hellinger angle 2·arccos∫√(pq) that ρ-zCDP allows.

        −2·log∫√(pq) is the Rényi divergence of order ½, which is at most ρ.
        """
        return hellinger_angle(self.rho / 2)

    def implied_renyi(self, order: float) -> float:
        """Return ρα, rounded up, at the order α."""
        return float(round_up(order * self.rho))

    @classmethod
    def implied_parameter(cls, other: Guarantee) -> float:
        """Return the ρ that another guarantee implies; infinity if none."""
        return other.implied_rho()


@dataclass(frozen=True, repr=False, init=False)
class RenyiDP(DefinedByEpsilon, Guarantee):
    """(α, ε)-Rényi DP: D_α <= ε at one order α > 1 (Mironov 2017).

    D_α is the Rényi divergence of order α. `delta` is the exact largest δ that the
    divergence bound allows (Asoodeh et al. 2021).

    Parameters
    ----------
    order : float
        The order α > 1.
    epsilon : float
        The bound ε > 0 on the divergence.
    eps : float
        The same number, under the name of the field. Give one of the two.
    adjacency : str
        What neighboring data sets differ in: 'replace-one' or 'add-remove'.

    Examples
    --------
    >>> RenyiDP(8.0, 1.0).epsilon(1e-5) < 2.5
    True
    >>> RenyiDP(order=8.0, epsilon=1.0) == RenyiDP(8.0, 1.0)
    True
    """

    order: float
    eps: float

    symbol: ClassVar[str] = "ε"
    scale_exponent: ClassVar[float] = 2.0
    additive_fields: ClassVar[dict[str, int]] = {"eps": 1}
    composition_family: ClassVar[str] = "divergence"
    open_ranges: ClassVar[dict[str, tuple[float, float]]] = {"order": (1, math.inf)}

    def __init__(
        self,
        order: float,
        epsilon: float = _MISSING,
        *,
        eps: float = _MISSING,
        adjacency: str = "replace-one",
    ) -> None:
        """Store the order and ε, given under either of its names, and validate them."""
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "eps", _take_one_of("epsilon", epsilon, "eps", eps))
        object.__setattr__(self, "adjacency", adjacency)
        self.__post_init__()

    def _epsilon(self, delta: Array) -> Any:
        """Return the smallest ε of (ε, δ)-DP that the divergence bound implies."""
        return renyi_epsilon(self.order, self.eps, delta)

    def implied_renyi(self, order: float) -> float:
        """Return ε at orders up to its own (divergences increase with the order)."""
        return self.eps if order <= self.order else math.inf

    def implied_hellinger_angle(self) -> float:
        """Return the largest Hellinger angle 2·arccos∫√(pq) that this bound allows.

        −2·log∫√(pq) is the Rényi divergence of order ½, which is at most ε.
        """
        return hellinger_angle(self.eps / 2)

    @classmethod
    def implied_by(
        cls,
        other: Guarantee,
        eps: float | None,
        delta: float | None,
        order: float | None,
    ) -> "RenyiDP":
        """Return the Rényi divergence that another guarantee implies at a given order.

        Parameters
        ----------
        other : Guarantee
            The guarantee that is known.
        eps, delta : None
            Not used: this definition has an order instead. Other definitions need them.
        order : float
            The order α > 1; required.

        Returns
        -------
        RenyiDP
            The order, and the divergence that `other` implies there.

        Raises
        ------
        ParameterError
            If no order is given.
        UnattainableGuarantee
            If the divergence can be infinite.
        """
        if order is None:
            raise ParameterError("a conversion to RenyiDP needs the argument order")
        checked_order = RenyiDP(order, 1.0).order  # the constructor validates it
        divergence = other.implied_renyi(checked_order)
        if not divergence < math.inf:
            raise conversion_impossible(
                other, cls, "that Rényi divergence of it can be infinite"
            )
        return cls(checked_order, divergence, adjacency=other.adjacency)

    def parameter_of(self, other: Guarantee) -> float:
        """Return the Rényi divergence of another guarantee at this order."""
        return other.implied_renyi(self.order)


@dataclass(frozen=True, repr=False)
class GDP(Guarantee):
    """μ-Gaussian DP: neighbors are as hard to distinguish as N(0, 1) and N(μ, 1).

    Dong, Roth and Su (2022). `delta` is exact, with a relative error below 4e-14 on the
    upper side, at any ε.

    Parameters
    ----------
    mu : float
        The bound μ > 0.
    adjacency : str
        What neighboring data sets differ in: 'replace-one' or 'add-remove'.

    Examples
    --------
    >>> round(GDP(1.0).delta(1.0), 10), round(GDP(1.0).epsilon(1e-5), 8)
    (0.1269367375, 4.3771781)
    """

    mu: float

    symbol: ClassVar[str] = "μ"
    additive_fields: ClassVar[dict[str, int]] = {"mu": 2}
    composition_family: ClassVar[str] = "gdp"
    reason_for_no_bound: ClassVar[str] = "its tail can be heavier than every Gaussian's"

    def _delta(self, eps: Array) -> Any:
        """Return δ(ε) of N(0, 1) against N(μ, 1)."""
        return gdp_delta(self.mu, eps)

    def _tradeoff(self, alpha: Array) -> Any:
        """Return the smallest type II error of N(0, 1) against N(μ, 1)."""
        return gdp_tradeoff(self.mu, alpha)

    def implied_mu(self) -> float:
        """Return the μ of this guarantee."""
        return self.mu

    def implied_rho(self) -> float:
        """Return μ²/2, rounded up."""
        return half_square(self.mu)

    def implied_hellinger_angle(self) -> float:
        """Return the Hellinger angle of N(0, 1) and N(μ, 1): ∫√(pq) = e^{−μ²/8}."""
        return hellinger_angle(self.mu * self.mu / 8)

    def implied_renyi(self, order: float) -> float:
        """Return αμ²/2, the Rényi divergence of order α of N(0, 1) and N(μ, 1)."""
        return float(round_up(order * half_square(self.mu)))

    @classmethod
    def implied_parameter(cls, other: Guarantee) -> float:
        """Return the μ that another guarantee implies; infinity if none."""
        return other.implied_mu()


@dataclass(frozen=True, repr=False)
class RaoDP(Guarantee):
    """θ-Rao DP: the Rao distance between neighbors' output distributions is at most θ.

    `delta` is the exact largest δ at a Hellinger angle θ; it stays above sin²(θ/2) at
    every ε (docs/theory/rao.md).

    Parameters
    ----------
    theta : float
        The bound θ > 0.
    angle : str
        'parametric': the length of a geodesic within a parametric family, which
        composes as √Σθ². 'hellinger': the angle 2·arccos∫√(pq) <= π among all
        densities, which composes as cos(θ/2) = ∏cos(θᵢ/2). A parametric θ bounds the
        Hellinger angle.
    adjacency : str
        The kind of neighboring data sets: 'replace-one' or 'add-remove'.

    Examples
    --------
    >>> round(RaoDP(1.0).delta(0.0), 6)
    0.479426
    """

    theta: float
    angle: str = field(default="parametric", kw_only=True)

    symbol: ClassVar[str] = "θ"
    additive_fields: ClassVar[dict[str, int]] = {"theta": 2}
    composition_family: ClassVar[str] = "angle"

    def __post_init__(self) -> None:
        """Validate θ and the kind of angle. A Hellinger angle is at most π."""
        super().__post_init__()
        _validate.choice("angle", self.angle, ("parametric", "hellinger"))
        if self.angle == "hellinger":
            _validate.within("theta", self.theta, 0, math.pi)

    def cost(self) -> tuple[Fraction, ...]:
        """Return θ², which adds up over releases if θ is a parametric Rao distance.

        A ledger adds the costs of its releases to find what was spent.

        Returns
        -------
        tuple of Fraction
            One number: θ², exactly.

        Raises
        ------
        ParameterError
            If θ is a Hellinger angle.
        """
        if self.angle != "parametric":
            raise ParameterError(
                f"the cost of {self!r} does not add up over releases; use "
                "RaoDP(theta, angle='parametric') for a budget"
            )
        return super().cost()

    def _delta(self, eps: Array) -> Any:
        """Return the largest δ(ε) of two distributions at Hellinger angle θ."""
        return rao_delta(self.theta, eps)

    def _epsilon(self, delta: Array) -> Any:
        """Return the smallest ε with δ(ε) <= delta, for a Hellinger angle θ."""
        return rao_epsilon(self.theta, delta)

    def _tradeoff(self, alpha: Array) -> Any:
        """Return the smallest type II error of a test, for a Hellinger angle θ."""
        return rao_tradeoff(self.theta, alpha)

    def implied_hellinger_angle(self) -> float:
        """Return θ, at most π: a parametric distance bounds the Hellinger angle."""
        return min(self.theta, math.pi)

    def implied_rao_distance(self) -> float:
        """Return θ if it is a parametric distance, else infinity."""
        return self.theta if self.angle == "parametric" else math.inf

    @classmethod
    def implied_by(
        cls,
        other: Guarantee,
        eps: float | None,
        delta: float | None,
        order: float | None,
    ) -> "RaoDP":
        """Return the bound on the Hellinger angle that another guarantee implies.

        The Hellinger angle θ = 2·arccos∫√(pq) measures how far the output densities p
        and q on two neighboring data sets are apart. `convert` calls this method.

        Parameters
        ----------
        other : Guarantee
            The guarantee that is converted.
        eps, delta, order : float or None
            Options of `convert`, which are not used.

        Returns
        -------
        RaoDP
            Rao privacy with this bound, of the kind 'hellinger'.

        Raises
        ------
        UnattainableGuarantee
            If `other` implies no bound on the angle.
        """
        theta = other.implied_hellinger_angle()
        if not theta < math.inf:
            raise conversion_impossible(
                other,
                cls,
                "its profile alone bounds the Hellinger angle only loosely, so convert "
                "its components instead",
            )
        return cls(theta, angle="hellinger", adjacency=other.adjacency)

    def parameter_of(self, other: Guarantee) -> float:
        """Return the Rao distance that another guarantee implies.

        It is of the same kind as θ: a parametric distance or a Hellinger angle.

        Parameters
        ----------
        other : Guarantee
            The guarantee that is compared with this one.

        Returns
        -------
        float
            Its parametric distance if this θ is parametric, else its Hellinger angle;
            infinity if it implies none.
        """
        if self.angle == "parametric":
            return other.implied_rao_distance()
        return other.implied_hellinger_angle()


def _take_one_of(
    long_name: str, long_value: Any, field_name: str, field_value: Any
) -> Any:
    """Return an argument that a caller may pass under either of two names.

    For example, `PureDP` accepts `epsilon=`, its long name, and `eps=`, the name of the
    field that stores the number.

    Parameters
    ----------
    long_name : str
        The long name of the argument.
    long_value : object
        What the caller passed under the long name; `_MISSING` if nothing.
    field_name : str
        The name of the field, which is the other name of the argument.
    field_value : object
        What the caller passed under the name of the field; `_MISSING` if nothing.

    Returns
    -------
    object
        The value that was given.

    Raises
    ------
    TypeError
        If both or none are given.
    """
    n_passed = (long_value is not _MISSING) + (field_value is not _MISSING)
    if n_passed != 1:
        raise TypeError(
            f"give the argument {long_name} once, either as {long_name} or as "
            f"{field_name}"
        )
    return field_value if long_value is _MISSING else long_value
