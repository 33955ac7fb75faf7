"""What every definition of privacy can be asked, and the register of definitions.

A new definition is one class: `_delta`, the fields that add up (`additive`), what it `implies` in others, and, where
something can be converted or calibrated to it, `follows`, or `implied_by` and `measure`. Conversions, compositions,
calibration and ledgers ask these; none of them keeps a list.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from curvedp import _lazy, _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import (
    Array,
    bisect_floats,
    bracket_sign_change,
    round_root,
)

_FARTHEST = 1e4  # no loss beyond it is followed: e^-10000 underflows everything
ADJACENCIES = ("replace-one", "add-remove")


@dataclass(frozen=True)
class Guarantee:
    """A bound on what one record can change, with the adjacency it is meant for. Subclasses give `_delta`.

    Parameters
    ----------
    adjacency : str
        'replace-one', or 'add-remove' where n is private.

    Examples
    --------
    >>> from curvedp.privacy import GDP, ZCDP
    >>> [round(guarantee.delta(1.0), 4) for guarantee in (GDP(1.0), ZCDP(0.5))]
    [0.1269, 0.2149]
    """

    adjacency: str = field(default="replace-one", kw_only=True)

    additive: ClassVar[
        dict[str, int]
    ] = {}  # fields of which a power adds up over releases, and that power: 1 or 2
    lengths: ClassVar[tuple[str, ...]] = ()  # fields that are scales or sensitivities
    ranges: ClassVar[
        dict[str, tuple[float, float]]
    ] = {}  # open intervals in which other fields lie
    symbol: ClassVar[str] = "δ"  # of what `measure` gives
    scale_power: ClassVar[float] = 1.0  # of the noise's scale, with which that falls
    merges: ClassVar[str] = (
        ""  # of one name have closed forms together, which know more than their profiles
    )
    # the bound that is its parameter; why it may be infinite
    follows: ClassVar[tuple[str, str]] = ("", "no rule is known")
    label = "proved bound"  # how it is known, as what a release spends: that, "exact", or with what chance it holds
    certain = True  # whether it holds always, and not with some chance only
    _registry: ClassVar[_lazy.Registry[type["Guarantee"]]] = _lazy.Registry(
        "curvedp.privacy"
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Guarantee._registry[cls.__name__] = cls

    def __post_init__(self) -> None:
        if type(self.adjacency) is not str or self.adjacency not in ADJACENCIES:
            _validate.choice("adjacency", self.adjacency, ADJACENCIES)
        for name in (*self.additive, *self.lengths):
            value = getattr(self, name)
            if not (
                type(value) is float and 1e-100 <= value <= 1e100
            ):  # a search makes many: few have to be asked
                check = _validate.length if name in self.lengths else _validate.positive
                object.__setattr__(self, name, check(name, value))
        for name, (low, high) in self.ranges.items():
            value = _validate.within(
                name, getattr(self, name), low, high, open_low=True, open_high=True
            )
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """As one would write it: parameters in order, options only where they differ from the default."""
        shown = [
            repr(getattr(self, f.name))
            for f in dataclasses.fields(self)
            if f.init and not f.kw_only
        ]
        options = [f for f in dataclasses.fields(self) if f.init and f.kw_only]
        shown += [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in options
            if getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def delta(self, eps: Any) -> Any:
        """An upper bound on δ at ε >= 0; a number for a number, an array for an array. ε = inf gives the limit."""
        return _answered("eps", eps, lambda x: x >= 0, "be >= 0", self._delta)

    def epsilon(self, delta: Any) -> Any:
        """The smallest ε >= 0 with delta(ε) <= delta, for delta in (0, 1); inf where no ε reaches that δ."""
        return _answered(
            "delta", delta, lambda x: (x > 0) & (x < 1), "lie in (0, 1)", self._epsilon
        )

    def tradeoff(self, alpha: Any) -> Any:
        """A lower bound on the type II error of any test of D against D' at type I error alpha in [0, 1]."""
        return _answered(
            "alpha",
            alpha,
            lambda x: (x >= 0) & (x <= 1),
            "lie in [0, 1]",
            lambda x: np.clip(self._tradeoff(x), 0.0, 1 - x),
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields and the class name, for JSON. Python writes floats so that they read back bit for bit."""
        fields = {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init
        }
        return {"type": type(self).__name__, **fields}

    def cost(self) -> tuple[Fraction, ...]:
        """What adds up over releases, exactly, each chosen after the ones before it were seen (docs/accounting.md); refused
        where the definition has no such cost: a profile, a composition, a Hellinger angle."""
        if not self.additive:
            raise ParameterError(
                f"{self!r} has no cost that adds up; one of {', '.join(additive_kinds())} has"
            )
        return tuple(
            Fraction(getattr(self, name)) ** power
            for name, power in self.additive.items()
        )

    @classmethod
    def from_cost(
        cls, cost: tuple[Fraction, ...], *, up: bool, like: Self
    ) -> Self | None:
        """The guarantee that costs this much, its other fields as in `like`, each number rounded up or down; None where one
        is 0 or rounds to 0: then nothing is spent, or nothing left."""
        parts = zip(cls.additive.items(), cost, strict=True)
        fields: dict[str, Any] = {
            n: round_root(x, power, up=up) if x > 0 else 0.0 for (n, power), x in parts
        }
        return dataclasses.replace(like, **fields) if min(fields.values()) > 0 else None

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Guarantee":
        """The inverse of `to_dict`, given the fields without the class name."""
        return cls(**fields)

    def _delta(self, eps: Array) -> Any:
        raise NotImplementedError

    def _epsilon(self, delta: Array) -> Any:
        flat = delta.ravel()
        reachable = self._delta(np.full(flat.shape, np.finfo(np.float64).max)) <= flat
        asked = reachable & ~(self._delta(np.zeros(flat.shape)) <= flat)
        eps = np.where(reachable, 0.0, np.inf)
        if np.any(asked):
            eps[asked] = _searched(self._delta, flat[asked])
        return eps.reshape(delta.shape)

    def _tradeoff(self, alpha: Array) -> Any:
        # Every (ε, δ) is a pair of lines below the curve (Wasserman and Zhou 2010); more of them come closer to it.
        eps, delta = self._curve_points()
        alpha = alpha[..., None]
        return np.max(
            np.maximum(
                1 - delta - np.exp(eps) * alpha, np.exp(-eps) * (1 - delta - alpha)
            ),
            axis=-1,
        )

    def grid_delta(self, eps: Array) -> Array:
        """`delta` at many increasing ε's, for compositions; a definition may give a cheaper upper bound."""
        return np.asarray(self.delta(eps))

    @property
    def backward(self) -> Callable[[Array], Array] | None:
        """`grid_delta` the other way round, where adding a record is not like removing it: never larger than `delta`."""
        return None

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

    def implies(self) -> dict[str, float]:
        """What it implies in other definitions: the ε of "pure" DP, the μ of "gdp", the ρ of "zcdp", the Hellinger "angle"
        and the parametric "rao" distance; what is not there is infinite."""
        return {}

    def bound(self, of: str) -> float:
        """One of these; "kl" is the Rényi divergence of order 1."""
        return self.renyi_bound(1.0) if of == "kl" else self.implies().get(of, math.inf)

    def renyi_bound(self, order: float) -> float:
        """The Rényi divergence of an order >= 1 that it implies; of order 1 it is Kullback–Leibler's."""
        return math.inf

    @classmethod
    def implied_by(
        cls,
        other: "Guarantee",
        eps: float | None,
        delta: float | None,
        order: float | None,
    ) -> Self:
        """The guarantee of this definition that `other` implies; see `convert`."""
        if not (value := other.bound(cls.follows[0])) < math.inf:
            raise impossible(other, cls, cls.follows[1])
        return cls(value, adjacency=other.adjacency)  # type: ignore[arg-type, misc]  # its one parameter

    def measure(self, other: "Guarantee") -> float:
        """What `other` spends in this definition, at this one's ε or order; `measure(self)` is what is allowed."""
        if not self.follows[0]:
            raise ParameterError(
                f"{self!r} is not a target a scale can be calibrated to"
            )
        return other.bound(self.follows[0])


def guarantee_from_dict(d: Mapping[str, Any]) -> Guarantee:
    """The guarantee that `to_dict` wrote, validated anew. Unknown types and fields raise."""
    if not isinstance(d, Mapping):
        raise ParameterError(
            f"{_validate.shown(d)} is not a guarantee's fields with their type"
        )
    fields = dict(d)
    name = fields.pop("type", None)
    cls = Guarantee._registry.get(name) if isinstance(name, str) else None
    if cls is None:
        known = ", ".join(sorted(Guarantee._registry))
        raise ParameterError(
            f"is not a known guarantee; known: {known}", parameter="type", value=name
        )
    try:
        return cls.from_fields(fields)
    except TypeError as error:
        raise ParameterError(
            f"{name} cannot be read from {_validate.shown(fields)}: {error}"
        ) from None


def additive_kinds() -> list[str]:
    """The names of the definitions that a budget can be in."""
    return sorted(name for name, kind in Guarantee._registry.items() if kind.additive)


def common_adjacency(guarantees: tuple[Guarantee, ...]) -> str:
    """The adjacency that all share; mixing them raises, because their bounds are about different pairs of datasets."""
    found = sorted({g.adjacency for g in guarantees})
    if len(found) != 1:
        raise ParameterError(
            f"adjacency differs between guarantees ({', '.join(found)}): they cannot be combined"
        )
    return found[0]


G = TypeVar("G", bound=Guarantee)


def convert(
    guarantee: Guarantee,
    *,
    to: type[G],
    eps: float | None = None,
    delta: float | None = None,
    order: float | None = None,
) -> G:
    """The guarantee in the definition `to`, by the rules of docs/accounting.md: never stronger, tight wherever that is known.

    Guarantees: everything that satisfies the argument satisfies the result, under the same adjacency.

    Parameters
    ----------
    guarantee : Guarantee
        What is known.
    to : type
        A definition, such as `ZCDP`.
    eps, delta : float, optional
        One of them, for ApproxDP.
    order : float, optional
        For RenyiDP.

    Raises
    ------
    UnattainableGuarantee
        Where no parameter of the target definition is implied.
    ParameterError
        Where an option is missing, or the guarantee holds with some chance only (`ConfidenceProfile`).

    Examples
    --------
    >>> from curvedp.privacy import GDP, ZCDP
    >>> convert(GDP(1.0), to=ZCDP).rho
    0.5
    """
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(f"{_validate.shown(guarantee)} is not a guarantee")
    if not (isinstance(to, type) and issubclass(to, Guarantee)):
        raise impossible(guarantee, to, "it is not a definition of privacy")
    return to.implied_by(vouched(guarantee), eps, delta, order)


def impossible(source: Guarantee, to: Any, why: str) -> UnattainableGuarantee:
    """There are mechanisms with the first guarantee and, for no parameter, the second."""
    name = getattr(to, "__name__", to)
    return UnattainableGuarantee(
        f"{type(source).__name__} implies no {name}: {why}. Use its delta(eps) instead"
    )


def vouched(guarantee: Guarantee) -> Guarantee:
    """The guarantee itself, refused where it holds with some chance only: the chance would be lost on the way."""
    if not guarantee.certain:
        raise ParameterError(
            f"a {guarantee.label}, is not converted, composed or charged; state its delta(eps)"
        )
    return guarantee


def _searched(profile: Callable[[Array], Any], delta: Array) -> Array:
    """The smallest ε > 0 with profile(ε) <= delta, where the largest float is one and 0 is none."""

    def excess(eps: Array) -> Array:
        """log(δ(ε)/delta), whose sign is that of the comparison itself; what is no number counts as above."""
        found = profile(eps)
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = np.log(found) - np.log(delta)
        return np.asarray(
            np.where(found <= delta, np.fmin(gap, 0.0), np.fmax(gap, 5e-324)),
            np.float64,
        )

    low, high, most = (
        np.zeros(delta.shape),
        np.ones(delta.shape),
        np.finfo(np.float64).max,
    )
    while np.any(short := excess(high) > 0):
        low, high = (
            np.where(short, high, low),
            np.where(short, 16 * np.minimum(high, most / 16), high),
        )
    return bisect_floats(
        lambda eps: excess(eps) <= 0, *bracket_sign_change(excess, low, high)
    )


def _answered(
    name: str,
    value: Any,
    allowed: Callable[[Array], Any],
    rule: str,
    answer: Callable[[Array], Any],
) -> Any:
    """The answer at a number or at an array of numbers, all of them allowed."""
    try:
        values = np.asarray(value)
        if values.dtype.kind not in "iuf":
            raise TypeError
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            "must be a number or an array of numbers", parameter=name, value=value
        ) from None
    if np.any(np.isnan(values)):
        raise ParameterError("must not be NaN", parameter=name, value=value)
    if not np.all(allowed(values)):
        raise ParameterError(f"must {rule}", parameter=name, value=value)
    found = np.asarray(answer(values), np.float64) if values.size else values
    return found if values.ndim else float(found)
