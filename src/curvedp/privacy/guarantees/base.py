"""What every guarantee of privacy can do, whatever its definition: ε-DP, GDP, zCDP, ….
A guarantee such as `GDP(1.0)` is an object. It computes δ(ε), ε(δ) and errors of tests,
and knows which parameters it implies in other definitions of privacy.

Conversion, composition, calibration and ledgers use this interface only.

A subclass defines `_delta` (or `_epsilon`, see `renyi.DefinedByEpsilon`), the fields
that add up over releases, the bounds it implies in other definitions, and how it
follows from another guarantee.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import Array, round_root
from curvedp.privacy.curve import PrivacyCurve

# The largest privacy loss that a composition considers; e^-10000 is 0 in floats.
_LARGEST_LOSS = 1e4
# Rounding errors of δ are far below this margin.
_INFIMUM_MARGIN = 1 + 1e-9
# The numbers of points of the two grids of `truncation_loss`.
_TRUNCATION_GRIDS = (200, 50)
_SMALLEST_LOSS = 1e-12  # the smallest end of the grid of losses in a composition


@dataclass(frozen=True, repr=False)
class Guarantee(PrivacyCurve):
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

    # The fields whose powers add up over releases, and the power of each: 1 or 2.
    additive_fields: ClassVar[dict[str, int]] = {}
    # The symbol of the parameter that `parameter_of` returns, for messages.
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

    def __post_init__(self) -> None:
        """Validate the fields and store them as floats.

        Raises
        ------
        ParameterError
            If the adjacency is unknown, or a field is not a number in its range.
        """
        super().__post_init__()
        self._validate_positive(tuple(self.additive_fields), _validate.positive)

    @property
    def definition(self) -> str:
        """The name of the definition of privacy, for messages."""
        return type(self).__name__

    @property
    def guarantee(self) -> Self:
        """The object itself: a guarantee is its own guarantee, a profile is not."""
        return self

    # ---- for compositions and searches

    @property
    def delta_add(self) -> Callable[[Array], Array] | None:
        """A function that returns δ(ε) for adding a record, instead of removing one.

        None, the default, means that it is the same as `delta_upper_bound`.
        """
        return None

    def truncation_loss(self, delta: float) -> float:
        """Return about the smallest ε with δ(ε) <= delta.

        A composition puts the losses of this guarantee on a grid up to that ε; larger
        losses count as infinite. If δ(ε) never falls that low, the result is the ε from
        which on δ(ε) is at its infimum. Two successive grids find it to within a factor
        of 1.004.

        Parameters
        ----------
        delta : float
            A small probability.

        Returns
        -------
        float
            The ε, from 1e-12 to 10⁴.
        """
        # Find the smallest δ that can be reached.
        low = _SMALLEST_LOSS
        high = _LARGEST_LOSS
        infimum = float(self.delta_upper_bound(np.array([high]))[0])
        # The margin makes rounding unable to hide that the infimum is reached.
        reachable_delta = max(delta, infimum * _INFIMUM_MARGIN)

        # The first grid spans 16 powers of ten, so that neighbors differ by a factor of
        # 1.2. The second one divides the cell that contains the result into 49.
        for n_points in _TRUNCATION_GRIDS:
            eps = np.geomspace(low, high, n_points)
            is_small_enough = self.delta_upper_bound(eps) <= reachable_delta
            first_small_enough = int(np.argmax(is_small_enough))
            low = eps[max(first_small_enough - 1, 0)]
            high = eps[first_small_enough]
        return float(high)

    def cheap_delta_bound(self, eps: float) -> float:
        """Return an upper bound on δ(ε); subclasses whose `delta` is slow speed it up.

        Parameters
        ----------
        eps : float
            The privacy parameter ε >= 0.

        Returns
        -------
        float
            At least δ(ε).
        """
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

        Returns
        -------
        float
            The angle, at most π; or infinity.
        """
        return math.inf

    def implied_rao_distance(self) -> float:
        """Return the parametric Rao distance that this implies; infinity if none.

        It is the length of a geodesic, within a parametric family of distributions,
        between the output distributions on two neighboring data sets.

        Returns
        -------
        float
            The distance; or infinity.
        """
        return math.inf

    def implied_renyi(self, order: float) -> float:
        """Return a bound on a Rényi divergence that this guarantee implies.

        It is the divergence between the output distributions on neighboring data sets.

        Parameters
        ----------
        order : float
            The order >= 1; order 1 is the Kullback–Leibler divergence.

        Returns
        -------
        float
            An upper bound on the divergence; or infinity.
        """
        return math.inf

    # ---- how this definition follows from another guarantee

    @classmethod
    def implied_parameter(cls, other: "Guarantee") -> float | None:
        """Return the parameter of this definition that another guarantee implies.

        Parameters
        ----------
        other : Guarantee
            The guarantee that is known.

        Returns
        -------
        float or None
            The parameter, such as μ for `GDP`. Infinity if `other` implies none; None
            if this definition has no rule for it.
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

        The function `convert` calls it. This default is for definitions with one
        parameter; others override it.

        Parameters
        ----------
        other : Guarantee
            The guarantee that is known.
        eps, delta, order : float or None
            The options of `convert`. Definitions with several parameters need one of
            them; this default ignores them.

        Returns
        -------
        Guarantee
            The guarantee of this class, for the adjacency of `other`.

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
        """Return the parameter of another guarantee in the definition of this one.

        For example, `GDP(1.0).parameter_of(other)` is the μ that `other` implies. It is
        used to compare guarantees: `other` implies this guarantee exactly if
        self.parameter_of(other) <= self.parameter_of(self). If the definition has
        several parameters, this guarantee gives all but one of them: for (ε, δ)-DP the
        result is the δ of `other` at the ε of this guarantee.

        Parameters
        ----------
        other : Guarantee
            The guarantee that is converted.

        Returns
        -------
        float
            The smallest parameter that is known to hold.

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
        """Return the numbers that add up if several releases are made, exactly.

        A ledger adds them to find what was spent. There is one number for each entry of
        `additive_fields`, a mapping from the name of a field to the power of it that
        adds up. For example, μ adds up squared (docs/theory/accounting.md).

        Returns
        -------
        tuple of Fraction
            The costs, in the order of `additive_fields`; for GDP, for example, (μ²,).

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
        """Build the guarantee with a given cost: the inverse of `cost`.

        Parameters
        ----------
        cost : tuple of Fraction
            The numbers that add up over releases: one for each of `additive_fields`.
        up : bool
            True to round each field up, False to round it down.
        like : Guarantee
            The guarantee from which all fields that do not add up are copied.

        Returns
        -------
        Guarantee or None
            The guarantee. None if a field is 0 or rounds to 0, because no guarantee has
            such a parameter.
        """
        fields: dict[str, Any] = {}
        for (name, power), number in zip(
            cls.additive_fields.items(), cost, strict=True
        ):
            # The number is the power of the field, so the field is its root.
            fields[name] = round_root(number, power, up=up) if number > 0 else 0.0

        # A parameter of 0 is refused by every class.
        if min(fields.values()) <= 0:
            return None
        return dataclasses.replace(like, **fields)


def guarantee_from_dict(serialized: Mapping[str, Any]) -> Guarantee:
    """Build a guarantee from its serialized form, with all fields validated.

    It is the inverse of `to_dict`. A serialized privacy profile gives the guarantee of
    that profile.

    Parameters
    ----------
    serialized : mapping
        The class name under 'type', and the fields by their names.

    Returns
    -------
    Guarantee
        The guarantee that was serialized.

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

    # Look up the class by its name.
    fields = dict(serialized)
    class_name = fields.pop("type", None)
    class_of_name = PrivacyCurve._registry
    guarantee_class = (
        class_of_name.get(class_name) if isinstance(class_name, str) else None
    )
    if guarantee_class is None:
        known_names = ", ".join(sorted(class_of_name))
        raise ParameterError(
            f"must name a guarantee, one of {known_names}",
            parameter="type",
            value=class_name,
        )

    # Its constructor validates the fields.
    try:
        return guarantee_class.from_fields(fields).guarantee
    except TypeError as error:  # an unknown or missing field
        raise ParameterError(
            f"{class_name} cannot be read from {_validate.shown(fields)}: {error}"
        ) from None


def additive_kinds() -> list[str]:
    """Return the names of the definitions of privacy in which a budget can be stated.

    These are the definitions whose costs add up over releases. The names are sorted.

    Returns
    -------
    list of str
        Class names, such as 'GDP'.
    """
    return sorted(
        name
        for name, definition in PrivacyCurve._registry.items()
        if issubclass(definition, Guarantee) and definition.additive_fields
    )


def guarantee_of(curve: object) -> Guarantee:
    """Return the guarantee of a privacy profile; a guarantee is returned as it is.

    Parameters
    ----------
    curve : object
        A guarantee or a privacy profile.

    Returns
    -------
    Guarantee
        The guarantee.

    Raises
    ------
    ParameterError
        If the argument is neither.
    """
    if not isinstance(curve, PrivacyCurve):
        raise ParameterError(f"{_validate.shown(curve)} is not a guarantee")
    return curve.guarantee


def common_adjacency(curves: tuple[PrivacyCurve, ...]) -> str:
    """Return the adjacency that all guarantees or profiles share.

    Parameters
    ----------
    curves : tuple of PrivacyCurve
        Guarantees or profiles, at least one.

    Returns
    -------
    str
        'replace-one' or 'add-remove'.

    Raises
    ------
    ParameterError
        If they differ. Bounds for different adjacencies concern different pairs of data
        sets, and cannot be combined.
    """
    adjacencies = sorted({curve.adjacency for curve in curves})
    if len(adjacencies) != 1:
        raise ParameterError(
            f"adjacency differs between guarantees ({', '.join(adjacencies)}): "
            "they cannot be combined"
        )
    return adjacencies[0]


def conversion_impossible(
    source: Guarantee, definition: Any, reason: str
) -> UnattainableGuarantee:
    """Build the error for a guarantee that cannot be converted to another definition.

    Parameters
    ----------
    source : Guarantee
        The guarantee that a user tried to convert.
    definition : type or object
        The definition of privacy to which it should be converted.
    reason : str
        Why this is impossible, as a clause that follows a colon in the message.

    Returns
    -------
    UnattainableGuarantee
        The error, for the caller to raise.
    """
    name = definition.__name__ if isinstance(definition, type) else definition
    return UnattainableGuarantee(
        f"{source.definition} implies no {name}: {reason}. Use its delta(eps) instead"
    )
