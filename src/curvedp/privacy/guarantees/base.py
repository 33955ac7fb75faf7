"""The interface of every definition of privacy, and the registry of definitions.

A definition is a frozen dataclass derived from `Guarantee`. It answers `delta`,
`epsilon` and `tradeoff`, and knows what it implies in other definitions. Conversion,
composition, calibration and ledgers only use this interface.

A subclass defines `_delta` (or `_epsilon`, see `renyi.EpsilonFirst`), the fields that
add up over releases, the bounds it implies in other definitions, and how it follows
from another guarantee.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from curvedp import _lazy, _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import (
    Array,
    bisect_floats,
    bracket_sign_change,
    round_root,
)

ADJACENCIES = ("replace-one", "add-remove")

# The largest privacy loss that a composition considers; e^-10000 is 0 in floats.
_LARGEST_LOSS = 1e4
# The widest range of parameters that need no closer check than their type.
_ORDINARY_RANGE = (1e-100, 1e100)
_LARGEST_FLOAT = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Guarantee:
    """A bound on what a change between neighboring data sets can reveal.

    Parameters
    ----------
    adjacency : str
        What neighboring data sets differ in: 'replace-one', or 'add-remove' if the
        number of records is private.

    Examples
    --------
    >>> from curvedp.privacy import GDP, ZCDP
    >>> [round(guarantee.delta(1.0), 4) for guarantee in (GDP(1.0), ZCDP(0.5))]
    [0.1269, 0.2149]
    """

    adjacency: str = field(default="replace-one", kw_only=True)

    # The fields whose powers add up over releases, and the power of each: 1 or 2.
    additive_fields: ClassVar[dict[str, int]] = {}
    # The fields that are lengths: noise scales or sensitivities.
    length_fields: ClassVar[tuple[str, ...]] = ()
    # The open interval in which each of the remaining fields must lie.
    open_ranges: ClassVar[dict[str, tuple[float, float]]] = {}
    # The letter of the parameter that `parameter_of` returns, for messages.
    symbol: ClassVar[str] = "δ"
    # That parameter is roughly proportional to this power of 1/(noise scale).
    scale_exponent: ClassVar[float] = 1.0
    # Guarantees of one family compose in closed form, which is tighter than composing
    # their profiles.
    composition_family: ClassVar[str] = ""
    # Whether only mechanisms with a bounded privacy loss satisfy it.
    requires_bounded_loss: ClassVar[bool] = False
    # Why some guarantees imply nothing in this definition, for messages.
    reason_for_no_bound: ClassVar[str] = "no rule is known"
    # How the guarantee is known, for certificates: 'exact' or 'proved bound'.
    label: ClassVar[str] = "proved bound"

    _registry: ClassVar[_lazy.Registry[type["Guarantee"]]] = _lazy.Registry(
        "curvedp.privacy"
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Add a new definition to the registry, under its class name."""
        super().__init_subclass__(**kwargs)
        Guarantee._registry[cls.__name__] = cls

    def __post_init__(self) -> None:
        """Validate the fields and store them as floats.

        Raises
        ------
        ParameterError
            If the adjacency is unknown, or a field is not a number in its range.
        """
        if type(self.adjacency) is not str or self.adjacency not in ADJACENCIES:
            _validate.choice("adjacency", self.adjacency, ADJACENCIES)

        values = _validate.field_values(self)
        for name in (*self.additive_fields, *self.length_fields):
            value = values[name]
            # Searches construct many guarantees, so the common case is decided quickly.
            smallest, largest = _ORDINARY_RANGE
            if type(value) is float and smallest <= value <= largest:
                continue
            is_length = name in self.length_fields
            check = _validate.length if is_length else _validate.positive
            object.__setattr__(self, name, check(name, value))

        for name, (low, high) in self.open_ranges.items():
            value = _validate.within(
                name, values[name], low, high, open_low=True, open_high=True
            )
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Return the constructor call, without options that have their default value."""
        positional = []
        options = []
        values = _validate.field_values(self)
        for entry in dataclasses.fields(self):
            value = values[entry.name]
            if not entry.kw_only:
                positional.append(repr(value))
            elif value != entry.default:
                options.append(f"{entry.name}={value!r}")
        return f"{type(self).__name__}({', '.join([*positional, *options])})"

    # ---- δ(ε), ε(δ) and the trade-off curve

    def delta(self, eps: Any) -> Any:
        """Return an upper bound on δ at the given ε.

        Parameters
        ----------
        eps : float or array
            ε >= 0; inf gives the limit of δ.

        Returns
        -------
        float or array
            A float for a number, an array for an array.
        """
        return _evaluate_checked("eps", eps, lambda x: x >= 0, "be >= 0", self._delta)

    def epsilon(self, delta: Any) -> Any:
        """Return the smallest ε >= 0 with δ(ε) <= delta; infinity if there is none.

        Parameters
        ----------
        delta : float or array
            δ in (0, 1).

        Returns
        -------
        float or array
            A float for a number, an array for an array.
        """
        return _evaluate_checked(
            "delta", delta, lambda x: (x > 0) & (x < 1), "lie in (0, 1)", self._epsilon
        )

    def tradeoff(self, alpha: Any) -> Any:
        """Return a lower bound on the type II error of any test between neighbors.

        Parameters
        ----------
        alpha : float or array
            The type I error of the test, in [0, 1].

        Returns
        -------
        float or array
            The smallest type II error β, in [0, 1 − α].
        """
        return _evaluate_checked(
            "alpha",
            alpha,
            lambda x: (x >= 0) & (x <= 1),
            "lie in [0, 1]",
            lambda x: np.clip(self._tradeoff(x), 0.0, 1 - x),
        )

    def _delta(self, eps: Array) -> Any:
        """Return `delta` for a validated array. Definitions override it."""
        raise NotImplementedError

    def _epsilon(self, delta: Array) -> Any:
        """Return `epsilon` for a validated array of δ's, by a search over `_delta`.

        The result is infinite if δ(ε) never falls that low, and 0 if δ(0) is already
        low enough.
        """
        flat = delta.ravel()
        is_reachable = self._delta(np.full(flat.shape, _LARGEST_FLOAT)) <= flat
        holds_at_zero = self._delta(np.zeros(flat.shape)) <= flat
        needs_search = is_reachable & ~holds_at_zero

        eps = np.where(is_reachable, 0.0, np.inf)
        if np.any(needs_search):
            eps[needs_search] = _search_epsilon(self._delta, flat[needs_search])
        return eps.reshape(delta.shape)

    def _tradeoff(self, alpha: Array) -> Any:
        """Return `tradeoff` for a validated array, from points (ε, δ) of the profile.

        Every point gives two lines below the trade-off curve of type II errors β
        against type I errors α (Wasserman and Zhou 2010): β >= 1 − δ − e^ε·α and β >=
        e^−ε·(1 − δ − α). The maximum over many points is returned.
        """
        eps, delta = self._tradeoff_support_points()
        alpha = alpha[..., None]
        steep_lines = 1 - delta - np.exp(eps) * alpha
        shallow_lines = np.exp(-eps) * (1 - delta - alpha)
        return np.max(np.maximum(steep_lines, shallow_lines), axis=-1)

    def _tradeoff_support_points(self) -> tuple[Array, Array]:
        """Return arrays (ε, δ(ε)) of points whose lines bound the trade-off curve."""
        eps = np.concatenate([[0.0], np.geomspace(1e-4, 50.0, 400)])
        return eps, np.asarray(self._delta(eps))

    # ---- for compositions and searches

    def delta_upper_bound(self, eps: Array) -> Array:
        """Return `delta`, or a cheaper upper bound on it, at increasing ε's.

        If removing a record has another profile than adding one, this is for removing
        one.
        """
        return np.asarray(self.delta(eps))

    @property
    def delta_add(self) -> Callable[[Array], Array] | None:
        """The function `delta_upper_bound` for adding a record; None if it is the same.

        None says that adding a record has the same profile as removing one.
        """
        return None

    def truncation_loss(self, delta: float) -> float:
        """Return about the smallest ε with δ(ε) <= delta, to truncate the privacy loss.

        If δ(ε) never falls that low, the result is the ε from which on δ(ε) is at its
        infimum. Two successive grids find it to within a factor of 1.004.
        """
        low = 1e-12
        high = _LARGEST_LOSS
        infimum = float(self.delta_upper_bound(np.array([high]))[0])
        level = max(delta, infimum * (1 + 1e-9))
        for n_points in (200, 50):
            eps = np.geomspace(low, high, n_points)
            first = int(np.argmax(self.delta_upper_bound(eps) <= level))
            low, high = eps[max(first - 1, 0)], eps[first]
        return float(high)

    def cheap_delta_bound(self, eps: float) -> float:
        """Return an upper bound on δ at one ε, cheaper than `delta` if that is slow."""
        return float(self.delta(eps))

    # ---- the parameters that this guarantee implies in other definitions

    def implied_pure_epsilon(self) -> float:
        """Return the ε of pure DP that this guarantee implies; infinity if none."""
        return math.inf

    def implied_mu(self) -> float:
        """Return the μ of Gaussian DP that this guarantee implies; infinity if none."""
        return math.inf

    def implied_rho(self) -> float:
        """Return the ρ of zero-concentrated DP that this implies; infinity if none."""
        return math.inf

    def implied_hellinger_angle(self) -> float:
        """Return the Hellinger angle that this guarantee implies; infinity if none.

        It is 2·arccos∫√(pq), with p and q the output densities on two neighboring data
        sets.
        """
        return math.inf

    def implied_rao_distance(self) -> float:
        """Return the parametric Rao distance that this guarantee implies, or infinity.

        It is the length of a geodesic between two neighbors' output distributions
        within a parametric family.
        """
        return math.inf

    def implied_renyi(self, order: float) -> float:
        """Return the Rényi divergence of an order >= 1 that this implies, or infinity.

        Order 1 is the Kullback–Leibler divergence.
        """
        return math.inf

    # ---- how this definition follows from another guarantee

    @classmethod
    def implied_parameter(cls, other: "Guarantee") -> float | None:
        """Return the parameter of this definition that another guarantee implies.

        Infinity means that `other` implies no parameter; None means that no rule is
        known.
        """
        return None

    @classmethod
    def implied_by(
        cls,
        other: "Guarantee",
        eps: float | None,
        delta: float | None,
        order: float | None,
    ) -> Self:
        """Return the guarantee of this definition that another guarantee implies.

        `convert` calls it. This default is for definitions with one parameter.

        Parameters
        ----------
        other : Guarantee
            The guarantee that is known.
        eps, delta, order : float or None
            The options of `convert`, which only some definitions use.

        Raises
        ------
        UnattainableGuarantee
            If `other` implies nothing in this definition.
        """
        value = cls.implied_parameter(other)
        if value is None or not value < math.inf:
            raise conversion_impossible(other, cls, cls.reason_for_no_bound)
        return cls(value, adjacency=other.adjacency)  # type: ignore[arg-type, misc]

    def parameter_of(self, other: "Guarantee") -> float:
        """Return the parameter of this definition that another guarantee satisfies.

        For a definition with several parameters, the others are those of this
        guarantee: δ at its ε, or a divergence at its order. `other` satisfies this
        guarantee exactly if self.parameter_of(other) <= self.parameter_of(self).

        Raises
        ------
        ParameterError
            If no rule is known, so that nothing can be calibrated to this guarantee.
        """
        value = self.implied_parameter(other)
        if value is None:
            raise ParameterError(
                f"a noise scale cannot be calibrated to {self!r}; use a guarantee "
                "such as GDP, ZCDP or ApproxDP as the target"
            )
        return value

    # ---- additive cost and serialization

    def cost(self) -> tuple[Fraction, ...]:
        """Return the exact numbers that add up over adaptively chosen releases.

        There is one number for each of `additive_fields`: a power of that field
        (docs/theory/accounting.md). Ledgers add them.

        Raises
        ------
        ParameterError
            If the definition has no such field: a profile, a composition, a Hellinger
            angle.
        """
        if not self.additive_fields:
            raise ParameterError(
                f"the cost of {self!r} does not add up over releases; use one of "
                f"{', '.join(additive_kinds())}"
            )
        values = _validate.field_values(self)
        return tuple(
            Fraction(values[name]) ** power
            for name, power in self.additive_fields.items()
        )

    @classmethod
    def from_cost(
        cls, cost: tuple[Fraction, ...], *, up: bool, like: Self
    ) -> Self | None:
        """Return the guarantee with a given cost: the inverse of `cost`.

        Parameters
        ----------
        cost : tuple of Fraction
            One number for each of `additive_fields`.
        up : bool
            Whether each field is rounded up or down.
        like : Guarantee
            The guarantee from which the other fields are copied.

        Returns
        -------
        Guarantee or None
            None if a field is 0 or rounds to 0: nothing is spent, or nothing is left.
        """
        fields: dict[str, Any] = {}
        for (name, power), number in zip(
            cls.additive_fields.items(), cost, strict=True
        ):
            fields[name] = round_root(number, power, up=up) if number > 0 else 0.0
        if min(fields.values()) <= 0:
            return None
        return dataclasses.replace(like, **fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the class name (under 'type') and the fields, for JSON.

        Python writes floats so that they read back bit for bit.
        """
        values = _validate.field_values(self)
        fields = {
            entry.name: values[entry.name]
            for entry in dataclasses.fields(self)
            if entry.init
        }
        return {"type": type(self).__name__, **fields}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Guarantee":
        """Return the guarantee with the given fields: the inverse of `to_dict`."""
        return cls(**fields)


def guarantee_from_dict(serialized: Mapping[str, Any]) -> Guarantee:
    """Return the guarantee that `Guarantee.to_dict` wrote, validated anew.

    Parameters
    ----------
    serialized : mapping
        The name of the definition under 'type', and the fields.

    Raises
    ------
    ParameterError
        For an unknown type, an unknown or missing field, or a value out of range.
    """
    if not isinstance(serialized, Mapping):
        raise ParameterError(
            "a guarantee is read from a mapping with a 'type' key and its fields, not "
            f"from {_validate.shown(serialized)}"
        )
    fields = dict(serialized)
    name = fields.pop("type", None)
    kind = Guarantee._registry.get(name) if isinstance(name, str) else None
    if kind is None:
        known = ", ".join(sorted(Guarantee._registry))
        raise ParameterError(
            f"must name a guarantee, one of {known}", parameter="type", value=name
        )
    try:
        return kind.from_fields(fields)
    except TypeError as error:
        raise ParameterError(
            f"{name} cannot be read from {_validate.shown(fields)}: {error}"
        ) from None


def additive_kinds() -> list[str]:
    """Return the names of the definitions whose costs add up, sorted.

    These are the definitions in which a budget can be stated.
    """
    registry = Guarantee._registry.items()
    return sorted(name for name, kind in registry if kind.additive_fields)


def common_adjacency(guarantees: tuple[Guarantee, ...]) -> str:
    """Return the adjacency that all guarantees share.

    Raises
    ------
    ParameterError
        If they differ. Bounds for different adjacencies concern different pairs of data
        sets, and cannot be combined.
    """
    adjacencies = sorted({guarantee.adjacency for guarantee in guarantees})
    if len(adjacencies) != 1:
        raise ParameterError(
            f"adjacency differs between guarantees ({', '.join(adjacencies)}): "
            "they cannot be combined"
        )
    return adjacencies[0]


def conversion_impossible(
    source: Guarantee, definition: Any, reason: str
) -> UnattainableGuarantee:
    """Return the error which says that a guarantee implies nothing in a definition.

    Parameters
    ----------
    source : Guarantee
        The guarantee.
    definition : type or object
        The definition of privacy to which it should be converted.
    reason : str
        Why this is impossible: a clause that follows a colon.
    """
    name = definition.__name__ if isinstance(definition, type) else definition
    return UnattainableGuarantee(
        f"{type(source).__name__} implies no {name}: {reason}. "
        "Use its delta(eps) instead"
    )


def _search_epsilon(profile: Callable[[Array], Any], delta: Array) -> Array:
    """Return the smallest ε > 0 with profile(ε) <= delta, elementwise.

    The caller has checked that ε = 0 does not satisfy this, and that the largest float
    does. An upper bound is found by factors of 16; then the root is bracketed, and
    bisected to the last float.

    Parameters
    ----------
    profile : callable
        A decreasing function from an array of ε's to δ's.
    delta : array
        δ in (0, 1).
    """

    def log_excess(eps: Array) -> Array:
        """Return log(δ(ε)/delta), which is <= 0 exactly if δ(ε) <= delta.

        It is positive if δ(ε) is NaN.
        """
        value = profile(eps)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.log(value) - np.log(delta)
        at_most_zero = np.fmin(log_ratio, 0.0)
        above_zero = np.fmax(log_ratio, 5e-324)
        excess = np.where(value <= delta, at_most_zero, above_zero)
        return np.asarray(excess, np.float64)

    low = np.zeros(delta.shape)
    high = np.ones(delta.shape)
    while np.any(is_too_small := log_excess(high) > 0):
        larger = 16 * np.minimum(high, _LARGEST_FLOAT / 16)
        low = np.where(is_too_small, high, low)
        high = np.where(is_too_small, larger, high)

    low, high = bracket_sign_change(log_excess, low, high)
    return bisect_floats(lambda eps: log_excess(eps) <= 0, low, high)


def _evaluate_checked(
    name: str,
    value: Any,
    is_allowed: Callable[[Array], Any],
    rule: str,
    function: Callable[[Array], Any],
) -> Any:
    """Check every number of an argument, then evaluate a function at it.

    Parameters
    ----------
    name : str
        The name of the argument, for messages.
    value : object
        The argument: a number or an array of numbers.
    is_allowed : callable
        The condition on the numbers, elementwise.
    rule : str
        The condition in words that follow "must".
    function : callable
        The function, from arrays to arrays.

    Returns
    -------
    float or array
        A float for a number, an array for an array.

    Raises
    ------
    ParameterError
        If the argument is not numeric, is NaN, or violates the condition.
    """
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
    if not np.all(is_allowed(values)):
        raise ParameterError(f"must {rule}", parameter=name, value=value)

    if not values.size:
        return values
    result = np.asarray(function(values), np.float64)
    return result if values.ndim else float(result)
