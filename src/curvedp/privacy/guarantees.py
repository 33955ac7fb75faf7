"""What a release promises: frozen values, one class per definition of privacy.

Each answers the same two questions soundly, whatever the definition: `delta(eps)`, an upper bound on the δ at that ε,
and `epsilon(delta)`, the smallest ε it can vouch for at that δ (infinite when there is none); and `tradeoff(alpha)`,
a lower bound on the type II error of the best test at type I error α. Every number is rounded to the private side.

A parameter of 0 is refused everywhere: perfect privacy needs no mechanism, and as a target it is a typing mistake.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from curvedp import _validate
from curvedp._numerics import float_of, root_of, smallest_float, up
from curvedp.errors import ParameterError
from curvedp.privacy.gaussian import gdp_delta, gdp_tradeoff
from curvedp.privacy.rao import rao_delta, rao_epsilon, rao_tradeoff
from curvedp.privacy.renyi import renyi_delta, renyi_epsilon, zcdp_delta, zcdp_epsilon

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Guarantee",
    "PureDP",
    "RaoDP",
    "RenyiDP",
    "additive_kinds",
    "common_adjacency",
    "guarantee_from_dict",
]

Array = NDArray[np.float64]

_FARTHEST = 1e4  # no loss beyond it is followed: e^-10000 underflows everything
ADJACENCIES = ("replace-one", "add-remove")


@dataclass(frozen=True)
class Guarantee:
    """A bound on what one record can change, with the adjacency it is meant for. Subclasses give `_delta`."""

    adjacency: str = field(default="replace-one", kw_only=True)

    additive: ClassVar[dict[str, int]] = {}  # fields of which a power adds up over releases, and that power: 1 or 2
    _registry: ClassVar[dict[str, type["Guarantee"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Guarantee._registry[cls.__name__] = cls

    def __post_init__(self) -> None:
        _validate.choice("adjacency", self.adjacency, ADJACENCIES)

    def __repr__(self) -> str:
        """As one would write it: parameters in order, options only where they differ from the default."""
        shown = [repr(getattr(self, f.name)) for f in dataclasses.fields(self) if f.init and not f.kw_only]
        options = [f for f in dataclasses.fields(self) if f.init and f.kw_only]
        shown += [f"{f.name}={getattr(self, f.name)!r}" for f in options if getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(shown)})"

    def delta(self, eps: Any) -> Any:
        """An upper bound on δ at ε >= 0; a number for a number, an array for an array. ε = inf gives the limit."""
        values = _array("eps", eps)
        if not np.all(values >= 0):
            raise ParameterError(f"eps={eps!r} must be >= 0")
        return _like(values, self._delta(values)) if values.size else values

    def epsilon(self, delta: Any) -> Any:
        """The smallest ε >= 0 with delta(ε) <= delta, for delta in (0, 1); inf where no ε reaches that δ."""
        values = _array("delta", delta)
        if not np.all((values > 0) & (values < 1)):
            raise ParameterError(f"delta={delta!r} must lie in (0, 1)")
        return _like(values, self._epsilon(values)) if values.size else values

    def tradeoff(self, alpha: Any) -> Any:
        """A lower bound on the type II error of any test of D against D' at type I error alpha in [0, 1]."""
        values = _array("alpha", alpha)
        if not np.all((values >= 0) & (values <= 1)):
            raise ParameterError(f"alpha={alpha!r} must lie in [0, 1]")
        return _like(values, np.clip(self._tradeoff(values), 0.0, 1.0 - values)) if values.size else values

    def to_dict(self) -> dict[str, Any]:
        """The fields and the class name, for JSON. Python writes floats so that they read back bit for bit."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}
        return {"type": type(self).__name__, **fields}

    def cost(self) -> tuple[Fraction, ...]:
        """What adds up over releases, exactly, each chosen after the ones before it were seen; see `compose`.

        Raises
        ------
        ParameterError
            Where the definition has no such cost: a profile, a composition, a Hellinger angle.
        """
        if not self.additive:
            raise ParameterError(f"{self!r} has no cost that adds up; one of {', '.join(additive_kinds())} has")
        return tuple(Fraction(getattr(self, name)) ** power for name, power in self.additive.items())

    @classmethod
    def from_cost(cls, cost: tuple[Fraction, ...], *, up: bool, like: Self) -> Self | None:
        """The guarantee that costs this much, its other fields as in `like`, each number rounded up or down.

        None where a component is 0 or rounds to 0: then nothing is spent, or nothing left.
        """
        rounded = {1: float_of, 2: root_of}
        parts = zip(cls.additive.items(), cost, strict=True)
        fields: dict[str, Any] = {
            name: rounded[power](value, up=up) if value > 0 else 0.0 for (name, power), value in parts
        }
        return dataclasses.replace(like, **fields) if min(fields.values()) > 0 else None

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Guarantee":
        """The inverse of `to_dict`, given the fields without the class name."""
        return cls(**fields)

    def _delta(self, eps: Array) -> Any:
        raise NotImplementedError

    def _epsilon(self, delta: Array) -> Any:
        top = np.full(delta.shape, np.finfo(np.float64).max)
        reachable = self._delta(top) <= delta
        eps = smallest_float(lambda e: ~reachable | (self._delta(e) <= delta), np.zeros(delta.shape), top)
        return np.where(reachable, eps, np.inf)

    def _tradeoff(self, alpha: Array) -> Any:
        # Every (ε, δ) is a pair of lines below the curve (Wasserman and Zhou 2010); more of them come closer to it.
        eps, delta = self._curve_points()
        alpha = alpha[..., None]
        return np.max(np.maximum(1 - delta - np.exp(eps) * alpha, np.exp(-eps) * (1 - delta - alpha)), axis=-1)

    def grid_delta(self, eps: Array) -> Array:
        """`delta` at many increasing ε's, for compositions; a definition may give a cheaper upper bound."""
        return np.asarray(self.delta(eps))

    def loss_reach(self, delta: float) -> float:
        """About the loss at which `delta` is reached, or all but the smallest δ there is: how far a composition looks."""
        low, high = 1e-12, _FARTHEST
        enough = max(delta, float(self.grid_delta(np.array([high]))[0]) * (1 + 1e-9))
        for points in (200, 50):  # to a factor 1.2, then to 1.004
            eps = np.geomspace(low, high, points)
            first = int(np.argmax(self.grid_delta(eps) <= enough))
            low, high = eps[max(first - 1, 0)], eps[first]
        return float(high)

    def rough_delta(self, eps: float) -> float:
        """An upper bound on `delta`, for searches: cheaper where `delta` is dear."""
        return float(self.delta(eps))

    def _curve_points(self) -> tuple[Array, Array]:
        eps = np.concatenate([[0.0], np.geomspace(1e-4, 50.0, 400)])
        return eps, np.asarray(self._delta(eps))


@dataclass(frozen=True, repr=False)
class PureDP(Guarantee):
    """ε-DP: no event's odds change by more than e^ε (Dwork et al. 2006).

    Guarantees: `delta` is the exact worst case, randomised response: (e^ε₀ − e^ε)₊/(1 + e^ε₀).

    >>> PureDP(1.0).delta(1.0)
    0.0
    """

    eps: float

    additive: ClassVar[dict[str, int]] = {"eps": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "eps", _validate.positive("eps", self.eps))

    def _delta(self, eps: Array) -> Any:
        return _two_point(self.eps, eps)

    def _epsilon(self, delta: Array) -> Any:
        return _two_point_epsilon(self.eps, delta)

    def _tradeoff(self, alpha: Array) -> Any:
        return np.maximum(1 - _inflated(self.eps, alpha), np.exp(-self.eps) * (1 - alpha))


@dataclass(frozen=True, repr=False)
class ApproxDP(Guarantee):
    """(ε, δ)-DP at one point (Dwork et al. 2006).

    Guarantees: `delta` is the exact worst case among (eps, delta0)-DP mechanisms, the four-point pair of Kairouz, Oh
    and Viswanath 2015: δ₀ + (1 − δ₀)(e^ε₀ − e^ε)₊/(1 + e^ε₀). Below delta0 no ε can be vouched for: `epsilon` is
    infinite.

    >>> ApproxDP(1.0, 1e-6).delta(1.0)
    1e-06
    """

    eps: float
    delta0: float

    additive: ClassVar[dict[str, int]] = {"eps": 1, "delta0": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "eps", _validate.positive("eps", self.eps))
        object.__setattr__(self, "delta0", _validate.within("delta0", self.delta0, 0, 1, open_low=True, open_high=True))

    def _delta(self, eps: Array) -> Any:
        extra = (1 - self.delta0) * _two_point(self.eps, eps)
        return np.where(extra > 0, np.minimum(up(self.delta0 + extra, 4e-16), 1.0), self.delta0)

    def _epsilon(self, delta: Array) -> Any:
        rest = np.maximum(delta - self.delta0, 0.0) / (1 - self.delta0) * (1 - 1e-15)
        return np.where(delta >= self.delta0, _two_point_epsilon(self.eps, rest), np.inf)

    def _tradeoff(self, alpha: Array) -> Any:
        left = 1 - self.delta0 - _inflated(self.eps, alpha)
        return np.maximum(left, np.exp(-self.eps) * (1 - self.delta0 - alpha))


@dataclass(frozen=True, repr=False)
class ZCDP(Guarantee):
    """ρ-zero-concentrated DP: D_α ≤ ρα for all α > 1 (Bun and Steinke 2016).

    Guarantees: `delta` is the best over all orders of the exact single-order bound, see `privacy.renyi`.

    >>> ZCDP(0.5).epsilon(1e-5) < 5.0
    True
    """

    rho: float

    additive: ClassVar[dict[str, int]] = {"rho": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rho", _validate.positive("rho", self.rho))

    def _delta(self, eps: Array) -> Any:
        return zcdp_delta(self.rho, eps)

    def _epsilon(self, delta: Array) -> Any:
        return zcdp_epsilon(self.rho, delta)

    def grid_delta(self, eps: Array) -> Array:
        return _chords(self, eps)

    def _curve_points(self) -> tuple[Array, Array]:
        return _points_by_delta(self._epsilon)


@dataclass(frozen=True, repr=False)
class RenyiDP(Guarantee):
    """(α, ε)-Rényi DP: D_α ≤ ε at one order α > 1 (Mironov 2017).

    Guarantees: `delta` is the exact largest δ that the divergence bound allows (Asoodeh et al. 2021).

    >>> RenyiDP(8.0, 1.0).epsilon(1e-5) < 2.5
    True
    """

    order: float
    eps: float

    additive: ClassVar[dict[str, int]] = {"eps": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(
            self, "order", _validate.within("order", self.order, 1, math.inf, open_low=True, open_high=True)
        )
        object.__setattr__(self, "eps", _validate.positive("eps", self.eps))

    def _delta(self, eps: Array) -> Any:
        return renyi_delta(self.order, self.eps, eps)

    def _epsilon(self, delta: Array) -> Any:
        return renyi_epsilon(self.order, self.eps, delta)

    def grid_delta(self, eps: Array) -> Array:
        return _chords(self, eps)

    def _curve_points(self) -> tuple[Array, Array]:
        return _points_by_delta(self._epsilon)


@dataclass(frozen=True, repr=False)
class GDP(Guarantee):
    """μ-Gaussian DP: telling D from D' is at least as hard as telling N(0, 1) from N(μ, 1) (Dong, Roth and Su 2022).

    Guarantees: `delta` is exact, relative error below 4e-14 on the upper side, at any ε.

    >>> round(GDP(1.0).delta(1.0), 10), round(GDP(1.0).epsilon(1e-5), 8)
    (0.1269367375, 4.3771781)
    """

    mu: float

    additive: ClassVar[dict[str, int]] = {"mu": 2}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "mu", _validate.positive("mu", self.mu))

    def _delta(self, eps: Array) -> Any:
        return gdp_delta(self.mu, eps)

    def _tradeoff(self, alpha: Array) -> Any:
        return gdp_tradeoff(self.mu, alpha)


@dataclass(frozen=True, repr=False)
class RaoDP(Guarantee):
    """θ-Rao DP: the Rao distance between D's and D's mechanism is at most θ.

    `angle` says which distance: "parametric", the length within the family (composes as √Σθ²), or "hellinger", the
    angle 2·arccos∫√(pq) ≤ π among all densities (composes as cos(θ/2) = ∏cos(θᵢ/2)). A parametric θ bounds the
    Hellinger angle.

    Guarantees: `delta` is the exact joint range of hockey-stick and Hellinger; it stays above sin²(θ/2) for every ε.

    >>> round(RaoDP(1.0).delta(0.0), 6)
    0.479426
    """

    theta: float
    angle: str = field(default="parametric", kw_only=True)

    additive: ClassVar[dict[str, int]] = {"theta": 2}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "theta", _validate.positive("theta", self.theta))
        _validate.choice("angle", self.angle, ("parametric", "hellinger"))
        if self.angle == "hellinger":
            _validate.within("theta", self.theta, 0, math.pi)

    def cost(self) -> tuple[Fraction, ...]:
        if self.angle != "parametric":
            raise ParameterError(f"{self!r} has no cost that adds up: a Rao budget is parametric")
        return super().cost()

    def _delta(self, eps: Array) -> Any:
        return rao_delta(self.theta, eps)

    def _epsilon(self, delta: Array) -> Any:
        return rao_epsilon(self.theta, delta)

    def _tradeoff(self, alpha: Array) -> Any:
        return rao_tradeoff(self.theta, alpha)


def guarantee_from_dict(d: Mapping[str, Any]) -> Guarantee:
    """The guarantee that `to_dict` wrote, validated anew. Unknown types and fields raise.

    >>> guarantee_from_dict(GDP(0.1).to_dict()) == GDP(0.1)
    True
    """
    if not isinstance(d, Mapping):
        raise ParameterError(f"{_validate.shown(d)} is not a guarantee's fields with their type")
    fields = dict(d)
    name = fields.pop("type", None)
    cls = Guarantee._registry.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ParameterError(f"type={name!r} is not a known guarantee; known: {', '.join(sorted(Guarantee._registry))}")
    try:
        return cls.from_fields(fields)
    except TypeError as error:
        raise ParameterError(f"{name} cannot be read from {fields!r}: {error}") from None


def additive_kinds() -> list[str]:
    """The names of the definitions that a budget can be in."""
    return sorted(name for name, kind in Guarantee._registry.items() if kind.additive)


def common_adjacency(guarantees: tuple[Guarantee, ...]) -> str:
    """The adjacency that all share; mixing them raises, because their bounds are about different pairs of datasets."""
    found = sorted({g.adjacency for g in guarantees})
    if len(found) != 1:
        raise ParameterError(f"adjacency differs between guarantees ({', '.join(found)}): they cannot be combined")
    return found[0]


def _points_by_delta(epsilon: Callable[[Array], Any]) -> tuple[Array, Array]:
    """Points of a profile whose ε(δ) is the explicit side, with ε small enough for e^ε."""
    delta = np.concatenate([np.geomspace(1e-12, 0.05, 100), np.linspace(0.05, 0.999, 200)])
    eps = np.asarray(epsilon(delta), np.float64)
    keep = eps < 700
    return np.append(eps[keep], 0.0), np.append(delta[keep], 1.0)


@functools.lru_cache(maxsize=32)
def _chord_points(guarantee: Guarantee) -> tuple[Array, Array]:
    """Points (ε(δ), δ), ε increasing from 0."""
    delta = np.concatenate([np.geomspace(1e-45, 1e-3, 700), np.linspace(1e-3, 1 - 1e-6, 500)[1:], [1.0]])
    known = np.append(guarantee._epsilon(delta[:-1]), 0.0)  # falls from the first on; equal values at the end are all 0
    first = len(known) - int(np.searchsorted(known[::-1], 0.0, side="right"))
    return known[: first + 1][::-1], delta[: first + 1][::-1]


def _chords(guarantee: Guarantee, eps: Array) -> Array:
    """δ by chords in e^ε between points (ε(δ), δ). Chords of points above a convex curve are above it."""
    known, delta = _chord_points(guarantee)
    right = np.clip(np.searchsorted(known, eps, side="left"), 1, len(known) - 1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # known values may coincide
        share = np.expm1(np.minimum(eps - known[right - 1], 700.0)) / np.expm1(known[right] - known[right - 1])
    share = np.clip(np.where(np.isnan(share), 0.0, share), 0.0, 1.0)
    return np.minimum(up(delta[right - 1] * (1 - share) + delta[right] * share, 1e-15), 1.0)  # type: ignore[no-any-return]


def _two_point(eps0: float, eps: Array) -> Any:
    """(e^ε₀ − e^ε)₊/(1 + e^ε₀), rounded up where positive."""
    delta = -np.expm1(np.minimum(eps - eps0, 0.0)) * expit(eps0)
    return np.where(delta > 0, np.minimum(up(delta, 1e-15), 1.0), 0.0)


def _two_point_epsilon(eps0: float, delta: Array) -> Any:
    """The ε at which `_two_point` falls to delta: log(e^ε₀ − δ(1 + e^ε₀)), rounded up, at most ε₀."""
    with np.errstate(divide="ignore", invalid="ignore"):
        eps = eps0 + np.log1p(-delta / expit(eps0))
    eps = np.where(delta >= math.tanh(eps0 / 2), 0.0, np.maximum(eps, 0.0))
    return np.minimum(np.where(eps > 0, up(eps, 1e-15) + 4e-16 * (1 + eps0), eps), eps0)


def _inflated(eps: float, alpha: Array) -> Any:
    """e^ε·α, at least 1 where e^ε overflows and α > 0."""
    return np.exp(eps) * alpha if eps < 700 else np.where(alpha > 0, 1.0, 0.0)


def _array(name: str, value: Any) -> Array:
    if isinstance(value, str | bytes | bool):
        raise ParameterError(f"{name}={value!r} must be a number or an array of numbers")
    try:
        values = np.asarray(value)
        if values.dtype.kind not in "iuf":
            raise TypeError
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{name}={_validate.shown(value)} must be a number or an array of numbers") from None
    if np.any(np.isnan(values)):
        raise ParameterError(f"{name}={value!r} must not be NaN")
    return values


def _like(values: Array, result: Any) -> Any:
    result = np.asarray(result, np.float64)
    return result if values.ndim else float(result)
