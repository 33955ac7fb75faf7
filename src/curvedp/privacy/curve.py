"""What every statement about privacy can tell: δ(ε), ε(δ) and the trade-off curve. δ(ε)
is the smallest δ for which (ε, δ)-differential privacy holds. The trade-off curve gives
the errors of tests that tell two neighboring data sets apart.

`PrivacyCurve` has two kinds of subclasses. A `Guarantee` (`guarantees.base`) states one
definition of privacy, such as (ε, δ)-DP; guarantees are converted, composed and charged
to ledgers. A `PrivacyProfile` (`profiles.base`) is the exact curve of one kind of
noise. It is not a guarantee itself, but has one as its property `guarantee`.
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from curvedp import _lazy, _validate
from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import (
    Array,
    bisect_floats,
    bracket_sign_change,
)

if TYPE_CHECKING:
    from curvedp.privacy.guarantees.base import Guarantee

ADJACENCIES = ("replace-one", "add-remove")

# The widest range of parameters that need no closer check than their type.
_ORDINARY_RANGE = (1e-100, 1e100)
# The ε > 0 whose δ(ε) bound a trade-off curve from below. Any choice is valid: more
# points only make the bound tighter.
_TRADEOFF_EPS = np.geomspace(1e-4, 50.0, 400)
_LARGEST_FLOAT = float(np.finfo(np.float64).max)
_UPPER_END_FACTOR = 16  # by which an upper bound on ε is enlarged in a search
_SMALLEST_POSITIVE = 5e-324  # the smallest positive double


@dataclass(frozen=True)
class PrivacyCurve:
    """A bound on how well any test can tell two neighboring data sets apart.

    A subclass defines `_delta`, or `_epsilon` (see
    `guarantees.renyi.DefinedByEpsilon`).

    Parameters
    ----------
    adjacency : str
        What neighboring data sets differ in: 'replace-one', or 'add-remove' if the
        number of records is private.

    Examples
    --------
    >>> from curvedp.privacy import GDP, PrivacyCurve, gaussian_profile
    >>> profile = gaussian_profile(curvature=0.0, dim=3, scale=2.0, sensitivity=1.0)
    >>> curves: list[PrivacyCurve] = [GDP(0.5), profile]
    >>> [round(curve.delta(1.0), 5) for curve in curves]
    [0.00683, 0.00683]
    """

    adjacency: str = field(default="replace-one", kw_only=True)

    # The fields that are lengths: noise scales or sensitivities.
    length_fields: ClassVar[tuple[str, ...]] = ()
    # The open interval in which each of these fields must lie.
    open_ranges: ClassVar[dict[str, tuple[float, float]]] = {}

    _registry: ClassVar[_lazy.Registry[type["PrivacyCurve"]]] = _lazy.Registry(
        "curvedp.privacy"
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Add a new kind of curve to the registry, under its class name."""
        super().__init_subclass__(**kwargs)
        PrivacyCurve._registry[cls.__name__] = cls

    def __post_init__(self) -> None:
        """Validate the fields and store them as floats.

        Raises
        ------
        ParameterError
            If the adjacency is unknown, or a field is not a number in its range.
        """
        if type(self.adjacency) is not str or self.adjacency not in ADJACENCIES:
            _validate.choice("adjacency", self.adjacency, ADJACENCIES)

        self._validate_positive(self.length_fields, _validate.length)
        values = _validate.field_values(self)
        for name, (low, high) in self.open_ranges.items():
            value = _validate.within(
                name, values[name], low, high, open_low=True, open_high=True
            )
            object.__setattr__(self, name, value)

    def _validate_positive(
        self, names: Mapping[str, int] | tuple[str, ...], check: Callable[..., float]
    ) -> None:
        """Check that some fields are positive numbers, and store them as floats.

        Parameters
        ----------
        names : iterable of str
            The names of the fields.
        check : callable
            A function of (name, value) that returns a valid value as a float, and
            raises an error otherwise.
        """
        smallest, largest = _ORDINARY_RANGE
        values = _validate.field_values(self)
        for name in names:
            value = values[name]
            # Searches build many curves, so ordinary floats skip the slow check.
            if type(value) is float and smallest <= value <= largest:
                continue
            object.__setattr__(self, name, check(name, value))  # the class is frozen

    def __repr__(self) -> str:
        """Return the constructor call that builds this object, without defaults."""
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

    @property
    @abstractmethod
    def guarantee(self) -> "Guarantee":
        """The guarantee of a release with this curve: this object, or a wrapper."""

    @property
    def is_exact(self) -> bool:
        """Whether the curve is attained up to rounding, and not only an upper bound."""
        return False

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
        return _evaluate_checked(
            "eps", eps, lambda values: values >= 0, "be >= 0", self._delta
        )

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

        def is_in_open_interval(values: Array) -> Any:
            """Return whether each δ lies in (0, 1)."""
            return (values > 0) & (values < 1)

        return _evaluate_checked(
            "delta", delta, is_in_open_interval, "lie in (0, 1)", self._epsilon
        )

    def tradeoff(self, alpha: Any) -> Any:
        """Return a lower bound on the type II error of tests between two data sets.

        The two data sets are neighbors. A test sees one output and decides from which
        of the two data sets it came.

        Parameters
        ----------
        alpha : float or array
            The type I error of the test, in [0, 1].

        Returns
        -------
        float or array
            The smallest type II error β, in [0, 1 − α].
        """

        def is_in_closed_interval(values: Array) -> Any:
            """Return whether each α lies in [0, 1]."""
            return (values >= 0) & (values <= 1)

        def clipped_tradeoff(values: Array) -> Any:
            """Return β(α), clipped to [0, 1 − α]: no test does worse than guessing."""
            return np.clip(self._tradeoff(values), 0.0, 1 - values)

        return _evaluate_checked(
            "alpha", alpha, is_in_closed_interval, "lie in [0, 1]", clipped_tradeoff
        )

    def _delta(self, eps: Array) -> Any:
        """Return δ(ε) for a validated array of ε >= 0. Subclasses override it."""
        raise NotImplementedError

    def _epsilon(self, delta: Array) -> Any:
        """Return the smallest ε with δ(ε) <= delta, by a search over δ(ε).

        `epsilon` calls it after it has validated its argument. The result is infinite
        if δ(ε) never falls that low, and 0 if δ(0) is already low enough.

        Parameters
        ----------
        delta : array
            Numbers δ from 0 to 1.

        Returns
        -------
        array
            ε >= 0, of the shape of `delta`.
        """
        # Find out where a solution exists, and where it is 0.
        flat_delta = delta.ravel()
        shape = flat_delta.shape
        solution_exists = self._delta(np.full(shape, _LARGEST_FLOAT)) <= flat_delta
        holds_at_zero = self._delta(np.zeros(shape)) <= flat_delta
        needs_search = solution_exists & ~holds_at_zero

        # Search for the others.
        eps = np.where(solution_exists, 0.0, np.inf)
        if np.any(needs_search):
            eps[needs_search] = _search_epsilon(self._delta, flat_delta[needs_search])
        return eps.reshape(delta.shape)

    def _tradeoff(self, alpha: Array) -> Any:
        """Return a lower bound on type II errors β, for an array of type I errors α.

        These are the errors of a test that tells two neighboring data sets apart. Every
        (ε, δ) with δ = δ(ε) gives two lower bounds (Wasserman and Zhou 2010):

            β >= 1 − δ − e^ε·α    and    β >= e^−ε·(1 − δ − α).

        The result is the maximum over the bounds for many values of ε.

        Parameters
        ----------
        alpha : array
            Type I errors from 0 to 1.

        Returns
        -------
        array
            Lower bounds on β, of the shape of `alpha`; they may be negative.
        """
        eps, delta = self._tradeoff_support_points()
        alpha_column = alpha[..., None]  # the last axis is for the lines
        steep_lines = 1 - delta - np.exp(eps) * alpha_column
        shallow_lines = np.exp(-eps) * (1 - delta - alpha_column)
        return np.max(np.maximum(steep_lines, shallow_lines), axis=-1)

    def _tradeoff_support_points(self) -> tuple[Array, Array]:
        """Return many ε and their δ(ε), from which the trade-off curve is bounded.

        Each (ε, δ) gives two straight lines below the trade-off curve.

        Returns
        -------
        eps, delta : array
            ε from 0 to 50, and δ(ε).
        """
        eps = np.concatenate([[0.0], _TRADEOFF_EPS])
        return eps, np.asarray(self._delta(eps))

    def delta_upper_bound(self, eps: Array) -> Array:
        """Return δ(ε), or an upper bound on it that is cheaper to compute.

        Compositions of several guarantees evaluate it at many ε at once. If δ(ε) is not
        the same for removing and for adding a record, it is the one for removing.

        Parameters
        ----------
        eps : array
            Increasing values ε >= 0.

        Returns
        -------
        array
            Upper bounds on δ, of the shape of `eps`.
        """
        return np.asarray(self.delta(eps))

    # ---- serialization

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as a dictionary that can be written as JSON.

        Floats survive bit for bit, because Python writes as many digits as they need.

        Returns
        -------
        dict
            The class name under 'type', and the arguments of the constructor by name.
        """
        values = _validate.field_values(self)
        constructor_arguments = {
            entry.name: values[entry.name]
            for entry in dataclasses.fields(self)
            if entry.init
        }
        return {"type": type(self).__name__, **constructor_arguments}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Build an object of this class from its fields: the inverse of `to_dict`.

        Parameters
        ----------
        fields : dict
            The values by field names: the dictionary of `to_dict` without 'type'.

        Returns
        -------
        PrivacyCurve
            The object that was serialized.
        """
        return cls(**fields)


def _search_epsilon(profile: Callable[[Array], Any], delta: Array) -> Array:
    """Return the smallest ε > 0 with profile(ε) <= delta, elementwise.

    The caller has checked that ε = 0 does not satisfy this, and that the largest float
    does. There are three steps. First an upper bound on ε is found, by factors of 16.
    Then the interval around the sign change of log(profile(ε)/delta) is shrunk by a
    fast root search. Finally it is bisected down to two neighboring floats.

    Parameters
    ----------
    profile : callable
        A decreasing function from an array of ε's to an array of δ's.
    delta : array
        The δ in (0, 1) that must not be exceeded.

    Returns
    -------
    array
        ε > 0, of the shape of `delta`. It was verified that profile(ε) <= delta.
    """

    def log_excess(eps: Array) -> Array:
        """Return log(δ(ε)/delta), which is <= 0 exactly if δ(ε) <= delta.

        It is positive if δ(ε) is NaN.

        Parameters
        ----------
        eps : array
            Values ε > 0 of the privacy parameter.

        Returns
        -------
        array
            The logarithms, of the shape of `eps`.
        """
        value = profile(eps)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.log(value) - np.log(delta)

        # The comparison decides on the sign, because the logarithms are rounded.
        at_most_zero = np.fmin(log_ratio, 0.0)
        above_zero = np.fmax(log_ratio, _SMALLEST_POSITIVE)  # also for NaN
        excess = np.where(value <= delta, at_most_zero, above_zero)
        return np.asarray(excess, np.float64)

    def is_large_enough(eps: Array) -> NDArray[np.bool_]:
        """Return where δ(ε) <= delta."""
        return log_excess(eps) <= 0

    # Close in on the sign change, and end at two neighboring floats.
    low, high = _enclose_solutions(is_large_enough, delta.shape)
    low, high = bracket_sign_change(log_excess, low, high)
    return bisect_floats(is_large_enough, low, high)


def _enclose_solutions(
    is_large_enough: Callable[[Array], NDArray[np.bool_]], shape: tuple[int, ...]
) -> tuple[Array, Array]:
    """Return intervals that contain the smallest numbers with a property.

    Each array entry has an interval of its own. It begins as [0, 1], and its upper end
    is enlarged by factors of 16.

    Parameters
    ----------
    is_large_enough : callable
        A function that says which entries of an array have the property. Beyond some
        float, all numbers have it.
    shape : tuple of int
        The shape of the array.

    Returns
    -------
    low, high : array
        The ends of the intervals; the upper ones have the property.
    """
    low = np.zeros(shape)
    high = np.ones(shape)
    is_enclosed = is_large_enough(high)
    while not np.all(is_enclosed):
        larger = _UPPER_END_FACTOR * np.minimum(
            high, _LARGEST_FLOAT / _UPPER_END_FACTOR
        )
        low = np.where(is_enclosed, low, high)
        high = np.where(is_enclosed, high, larger)
        is_enclosed = is_large_enough(high)
    return low, high


def _evaluate_checked(
    name: str,
    value: Any,
    is_allowed: Callable[[Array], Any],
    rule: str,
    function: Callable[[Array], Any],
) -> Any:
    """Validate a user's argument, then return the value of a function there.

    Parameters
    ----------
    name : str
        The name of the argument, for error messages.
    value : object
        The argument: a number or an array of numbers.
    is_allowed : callable
        A function that says which entries of an array are in the allowed range.
    rule : str
        The allowed range in words that follow "must", such as "be >= 0".
    function : callable
        The function to evaluate, from arrays to arrays.

    Returns
    -------
    float or array
        The value of the function: a float for a number, an array for an array.

    Raises
    ------
    ParameterError
        If the argument is not numeric, is NaN, or lies outside of the allowed range.
    """
    # Convert the argument to an array of floats.
    try:
        values = np.asarray(value)
        if values.dtype.kind not in "iuf":
            raise TypeError
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            "must be a number or an array of numbers", parameter=name, value=value
        ) from None

    # Check the range of the argument.
    if np.any(np.isnan(values)):
        raise ParameterError("must not be NaN", parameter=name, value=value)
    if not np.all(is_allowed(values)):
        raise ParameterError(f"must {rule}", parameter=name, value=value)

    if not values.size:  # an empty array has no entries to evaluate
        return values
    result = np.asarray(function(values), np.float64)
    return result if values.ndim else float(result)
