"""The guarantee of several releases together, if all guarantees were fixed beforehand.
Within one definition of privacy there is often a formula: for example, the ε of pure DP
add up. Mixed definitions are composed through their privacy loss distributions (PLDs).

The total privacy loss is the sum of the losses of all releases.

Theorem C8 (docs/theory/accounting.md, "Composition"). The formulas are Σε-DP,
(Σε, Σδ)-DP, Σρ-zCDP, Rényi DP with Σε at one order, √Σμ²-GDP, a parametric Rao distance
√Σθ², and a Hellinger angle θ with cos(θ/2) = ∏cos(θᵢ/2).

`compose` uses them where it can: `Guarantee.additive_fields` states which powers add
up, and zCDP and Rényi DP combine with pure DP and GDP, whose divergences are known.
Every other mixture becomes a `Composition` (Theorem C2). docs/theory/accounting.md
treats guarantees that are not fixed beforehand.
"""

import functools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import Array, bisect_floats, round_root
from curvedp.privacy.curve import PrivacyCurve
from curvedp.privacy.guarantees.base import (
    Guarantee,
    common_adjacency,
    guarantee_from_dict,
    guarantee_of,
)
from curvedp.privacy.guarantees.conversions import convert
from curvedp.privacy.guarantees.definitions import GDP, ZCDP, PureDP, RaoDP, RenyiDP
from curvedp.privacy.guarantees.rao import hellinger_compose
from curvedp.privacy.pld.composed import ComposedPLD
from curvedp.privacy.pld.discretize import PairProfile

# The tail of each part is truncated where its δ falls below this. So a Composition
# never returns a δ below about 1e-43. Any number is sound; a smaller one is slower.
_TRUNCATION_DELTA = 1e-44
# Where a part's tail is truncated at least and at most. Beyond the truncation its mass
# counts as an infinite loss, so any truncation gives an upper bound. These keep the
# widths of all grids, and their exponentials, within the range of doubles.
_SMALLEST_TRUNCATION = 1e-290
_LARGEST_TRUNCATION = 1e8
# The number of grid points for `cheap_delta_bound`, relative to that for `delta`.
_COARSE_FINENESS = 0.1
_FULL_FINENESS = 1.0


@dataclass(frozen=True, repr=False)
class Composition(Guarantee):
    """Several guarantees together, each used some number of times.

    They are accounted through their privacy loss distributions. `delta` is an upper
    bound if all parts were fixed beforehand; the mechanisms themselves may be adaptive
    (Zhu, Dong and Wang 2022). It is not a privacy filter: parts that are chosen after
    seeing outputs need `compose` within one definition, or a ledger.

    The bound exceeds the exact composition of the parts' profiles by a relative amount
    that falls with the square of the grid's width: below 1e-3 down to δ = 1e-30, if no
    part's losses are 10⁴ times those of another. Round-off sets no floor; only each
    part's tail is truncated at δ = 1e-44.

    Parameters
    ----------
    parts : tuple of Guarantee
        The guarantees, all with the same adjacency.
    counts : tuple of int
        How often each of them is used.

    Examples
    --------
    >>> from curvedp.privacy import ApproxDP
    >>> both = compose(GDP(0.5), ApproxDP(0.5, 1e-6))
    >>> 1e-6 < both.delta(3.0) < 2e-5
    True
    """

    parts: tuple[Guarantee, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check that there is one count for each part, and one adjacency for all."""
        super().__post_init__()
        counts = tuple(_validate.integer("count", count, 1) for count in self.counts)
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "counts", counts)
        if not self.parts or len(self.parts) != len(self.counts):
            raise ParameterError(
                f"{len(self.parts)} parts and {len(self.counts)} counts: "
                "give one count for each part"
            )
        common_adjacency((self, *self.parts))

    def _pld_by_direction(self, fineness: float) -> list[ComposedPLD]:
        """Return the distribution of the total privacy loss, or two of them.

        The loss of removing a record may differ in distribution from the loss of adding
        one. Then there are two distributions, and δ(ε) is the larger of theirs.

        Parameters
        ----------
        fineness : float
            A factor by which the number of grid points is multiplied: 1 for a tight
            bound, less for a cheap one.

        Returns
        -------
        list of ComposedPLD
            One distribution, or those for removing and for adding a record.
        """
        pld_when_removing = _composed_pld(
            self.parts, self.counts, fineness, reverse=False
        )
        # A part has its own δ(ε) for adding a record only where that differs.
        directions_agree = all(part.delta_add is None for part in self.parts)
        if directions_agree:
            return [pld_when_removing]
        pld_when_adding = _composed_pld(self.parts, self.counts, fineness, reverse=True)
        return [pld_when_removing, pld_when_adding]

    def _delta(self, eps: Array) -> Any:
        """Return δ(ε) of all parts together, rounded up.

        It is the larger one of δ(ε) for removing and for adding a record, if these
        differ.

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        deltas = [pld.delta(eps) for pld in self._pld_by_direction(_FULL_FINENESS)]
        return np.max(deltas, axis=0)

    def _epsilon(self, delta: Array) -> Any:
        """Return the smallest ε with δ(ε) <= delta for all parts together.

        It is the larger one for removing and for adding a record, if these differ.

        Parameters
        ----------
        delta : array
            Numbers δ from 0 to 1.

        Returns
        -------
        array
            ε >= 0, of the shape of `delta`; infinity where there is none.
        """
        plds = self._pld_by_direction(_FULL_FINENESS)
        return np.max([_pld_epsilon(pld, delta) for pld in plds], axis=0)

    def cheap_delta_bound(self, eps: float) -> float:
        """Return an upper bound on δ(ε) from a grid with a tenth of the usual points.

        Searches for a noise scale call it many times.

        Parameters
        ----------
        eps : float
            The privacy parameter ε >= 0.

        Returns
        -------
        float
            At least δ(ε).
        """
        plds = self._pld_by_direction(_COARSE_FINENESS)
        return max(float(pld.delta(np.array([eps]))[0]) for pld in plds)

    def implied_pure_epsilon(self) -> float:
        """Return the ε of pure DP that this implies: the sum of the ε of its parts."""
        return self._sum_over_parts(
            [part.implied_pure_epsilon() for part in self.parts]
        )

    def implied_mu(self) -> float:
        """Return the μ of GDP that the composition implies: √Σμ² over its parts."""
        return self._sum_over_parts([part.implied_mu() for part in self.parts], power=2)

    def implied_rho(self) -> float:
        """Return the ρ of zCDP that the composition implies: the sum of all ρ."""
        return self._sum_over_parts([part.implied_rho() for part in self.parts])

    def implied_hellinger_angle(self) -> float:
        """Return the Hellinger angle θ that the composition implies.

        With the angles θᵢ of the parts, cos(θ/2) = ∏cos(θᵢ/2).
        """
        angles = [part.implied_hellinger_angle() for part in self.parts]
        return hellinger_compose(angles, self.counts)

    def implied_renyi(self, order: float) -> float:
        """Return the Rényi divergence that this implies: the sum of those of its parts.

        Parameters
        ----------
        order : float
            The order of the divergence.

        Returns
        -------
        float
            The divergence, rounded up; infinity if that of a part is.
        """
        return self._sum_over_parts([part.implied_renyi(order) for part in self.parts])

    def _sum_over_parts(self, bounds: list[float], power: int = 1) -> float:
        """Return a parameter of the whole composition, from those of its parts.

        Let boundᵢ be the parameter of part i, which is used countᵢ times. The result is
        (Σᵢ countᵢ·boundᵢ^power)^(1/power). For the ε of pure DP, the ρ of zCDP and the
        ε of Rényi DP at one order, the power is 1: they add up. For the μ of Gaussian
        DP it is 2: the squares add up. The sum is computed exactly, in fractions, and
        the result is rounded up once.


        Parameters
        ----------
        bounds : list of float
            The parameter of each part, for one use of it.
        power : {1, 2}
            The power of the parameter that adds up.

        Returns
        -------
        float
            The parameter, rounded up; infinity if a bound is infinite.
        """
        if math.inf in bounds:
            return math.inf
        sum_of_powers = Fraction(0)
        for bound, count in zip(bounds, self.counts, strict=True):
            sum_of_powers += count * Fraction(bound) ** power
        return round_root(sum_of_powers, power, up=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the composition as a dictionary that can be written as JSON.

        Returns
        -------
        dict
            The entries 'type', 'parts', 'counts' and 'adjacency'. Each part is a
            dictionary of the same kind.
        """
        return {
            **super().to_dict(),
            "parts": [part.to_dict() for part in self.parts],
            "counts": list(self.counts),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Composition":
        """Build a composition from its fields: the inverse of `to_dict`.

        Parameters
        ----------
        fields : dict
            The dictionary of `to_dict`, without 'type'.

        Returns
        -------
        Composition
            The composition that was serialized.
        """
        parts = tuple(guarantee_from_dict(part) for part in fields.pop("parts", ()))
        counts = tuple(fields.pop("counts", ()))
        return cls(parts, counts, **fields)


def compose(*guarantees: PrivacyCurve | Iterable[PrivacyCurve]) -> Guarantee:
    """Return the guarantee of all releases together.

    Parameters
    ----------
    *guarantees : Guarantee or PrivacyProfile
        The guarantees or profiles of the releases, or one iterable of them.

    Returns
    -------
    Guarantee
        A guarantee of the same definition if there is a formula for it, else a
        `Composition`, which is computed from privacy loss distributions.

    Raises
    ------
    ParameterError
        If the adjacencies differ, if an argument is not a guarantee, or if the sum is
        too large for any guarantee.

    Examples
    --------
    >>> compose(GDP(3.0), GDP(4.0))
    GDP(5.0)
    >>> compose(PureDP(1.0), ZCDP(0.1)).rho < 0.1 + 0.5
    True
    """
    parts = _checked_parts(guarantees)
    adjacency = common_adjacency(parts)
    if len(parts) == 1:
        return parts[0]

    # zCDP and Rényi DP combine with definitions whose Rényi divergences are known.
    definitions = {type(part) for part in parts}
    has_divergence_bound = not definitions.isdisjoint({ZCDP, RenyiDP})
    if has_divergence_bound and definitions <= {PureDP, GDP, ZCDP, RenyiDP}:
        parts = _as_divergence_bounds(parts)
        definitions = {type(parts[0])}

    # Hellinger angles have a formula of their own.
    if definitions == {RaoDP}:
        has_rao_distance = [part.implied_rao_distance() < math.inf for part in parts]
        if not all(has_rao_distance):
            angles = [part.implied_hellinger_angle() for part in parts]
            theta = hellinger_compose(angles)
            return RaoDP(theta, angle="hellinger", adjacency=adjacency)

    # In other single definitions, costs (or their squares) add up.
    if len(definitions) == 1 and parts[0].additive_fields:
        composed = _sum_of_costs(parts)
        if composed is not None:
            return composed
        if parts[0].composition_family:
            raise ParameterError(
                "together these guarantee nothing: their sum is too large for a float"
            )
    return compose_profiles(parts)


def _as_divergence_bounds(parts: tuple[Guarantee, ...]) -> tuple[Guarantee, ...]:
    """Convert all guarantees to one definition that bounds Rényi divergences.

    Such bounds add up when guarantees are composed. If one of the guarantees is Rényi
    DP, all become Rényi DP at the smallest of the orders; otherwise all become zCDP.

    Parameters
    ----------
    parts : tuple of Guarantee
        Guarantees by pure DP, GDP, zCDP or Rényi DP.

    Returns
    -------
    tuple of Guarantee
        The converted guarantees, one for each argument.
    """
    orders = [part.order for part in parts if isinstance(part, RenyiDP)]
    if not orders:
        return tuple(convert(part, to=ZCDP) for part in parts)
    return tuple(convert(part, to=RenyiDP, order=min(orders)) for part in parts)


def _sum_of_costs(parts: tuple[Guarantee, ...]) -> Guarantee | None:
    """Return the guarantee of all parts together, by adding up their costs.

    The *cost* of a guarantee is the tuple of numbers that add up in its definition,
    such as (ε, δ) or μ². The costs are added exactly, and the sum is rounded up once.

    Parameters
    ----------
    parts : tuple of Guarantee
        Guarantees of the same definition.

    Returns
    -------
    Guarantee or None
        The guarantee whose cost is the sum. None if the sum is out of range: two times
        (ε, ½) would have δ = 1. Then only privacy loss distributions give a bound.
    """
    costs = []
    for part, count in _count_parts(parts).items():
        costs.append(tuple(count * number for number in part.cost()))

    # Each column holds one component of all the costs, such as their δ.
    total_cost = tuple(sum(column, Fraction(0)) for column in zip(*costs, strict=True))
    try:
        return type(parts[0]).from_cost(total_cost, up=True, like=parts[0])
    except ParameterError:
        return None


def compose_profiles(guarantees: Iterable[PrivacyCurve]) -> Guarantee:
    """Return the guarantee of several releases together, by their loss distributions.

    For many pure DP guarantees this is much tighter than adding their ε. Guarantees of
    one `composition_family` (GDP; zCDP and Rényi DP; Hellinger angles) are first
    combined by their formula, because the formula is tighter for them.

    Parameters
    ----------
    guarantees : iterable of Guarantee or PrivacyProfile
        The guarantees or profiles of the releases.

    Returns
    -------
    Guarantee
        A `Composition`, or a single guarantee if the formulas combine them all.

    Examples
    --------
    >>> pure = compose_profiles([PureDP(0.1)] * 100)
    >>> pure.epsilon(1e-6) < 5.5 < compose([PureDP(0.1)] * 100).epsilon(1e-6)
    True
    """
    # Count how often each guarantee occurs.
    parts = _checked_parts((guarantees,))
    adjacency = common_adjacency(parts)
    count_of_part = _count_parts(parts)

    # Combine the members of each family by their formula.
    families = sorted({part.composition_family for part in count_of_part} - {""})
    combined: Counter[Guarantee] = Counter()
    for family in families:
        members = [
            part
            for part, count in count_of_part.items()
            if part.composition_family == family
            for _ in range(count)
        ]
        combined.update([compose(members)])

    # All others keep their counts.
    for part, count in count_of_part.items():
        if not part.composition_family:
            combined[part] += count

    # A single guarantee needs no composition.
    if combined.total() == 1:
        return next(iter(combined))
    return Composition(tuple(combined), tuple(combined.values()), adjacency=adjacency)


def _count_parts(parts: tuple[Guarantee, ...]) -> Counter[Guarantee]:
    """Count how often each guarantee occurs.

    A `Composition` is replaced by its own parts. Equal guarantees are counted together.
    Comparing guarantees by value is slow, so objects that occur more than once are
    counted by their identity first.

    Parameters
    ----------
    parts : tuple of Guarantee
        The guarantees, with repetitions.

    Returns
    -------
    Counter
        The number of times that each guarantee is used.
    """
    # Count objects by their identity first.
    part_of_id = {id(part): part for part in parts}
    counted: Counter[Guarantee] = Counter()

    # Then add the counts of equal objects, and of the parts of compositions.
    for identity, count in Counter(map(id, parts)).items():
        part = part_of_id[identity]
        if isinstance(part, Composition):
            for inner_part, inner_count in zip(part.parts, part.counts, strict=True):
                counted[inner_part] += inner_count * count
        else:
            counted[part] += count
    return counted


@functools.lru_cache(maxsize=64)
def _composed_pld(
    parts: tuple[Guarantee, ...],
    counts: tuple[int, ...],
    fineness: float,
    *,
    reverse: bool,
) -> ComposedPLD:
    """Return the distribution of the total privacy loss of several guarantees.

    The losses of each part are put on a grid that ends at the *truncation*, the ε at
    which δ of the part is only 1e-44. Larger losses count as infinite, which can only
    increase δ. Results are cached.

    A truncation that is too small makes δ larger, never too small.

    Parameters
    ----------
    parts : tuple of Guarantee
        The guarantees.
    counts : tuple of int
        How often each of them is used.
    fineness : float
        A factor by which the number of grid points is multiplied: 1 for a tight bound,
        less for a cheap one.
    reverse : bool
        False for the loss if a record is removed or replaced, True for the loss if one
        is added.

    Returns
    -------
    ComposedPLD
        The convolution of all parts, each as often as its count says.
    """
    profiles = []
    for part in parts:
        # Find where the losses of this part are cut off.
        truncation = min(
            part.truncation_loss(_TRUNCATION_DELTA), part.implied_pure_epsilon()
        )
        truncation = min(max(truncation, _SMALLEST_TRUNCATION), _LARGEST_TRUNCATION)

        # A pair profile holds δ(ε) for removing and δ(ε) for adding a record.
        if part.delta_add is None:
            profile = PairProfile.symmetric(part.delta_upper_bound, truncation)
        else:
            profile = PairProfile(part.delta_upper_bound, part.delta_add, truncation)
        profiles.append(profile.reversed() if reverse else profile)
    return ComposedPLD(tuple(profiles), counts, fineness)


def _pld_epsilon(pld: ComposedPLD, delta: Array) -> Array:
    """Return the smallest ε with δ(ε) <= delta for a total privacy loss, elementwise.

    Parameters
    ----------
    pld : ComposedPLD
        The distribution of the total privacy loss.
    delta : array
        Numbers δ from 0 to 1.

    Returns
    -------
    array
        ε >= 0, of the shape of `delta`; infinity where no ε is large enough.
    """
    # An interval (low, high) around ε for each δ. Both are infinite if no ε exists.
    brackets = np.array([pld.bracket_epsilon(float(value)) for value in delta.ravel()])
    low = brackets[:, 0].reshape(delta.shape)
    high = brackets[:, 1].reshape(delta.shape)

    # Where no ε is large enough, the bisection has nothing to do.
    has_solution = np.isfinite(high)
    low = np.where(has_solution, low, 0.0)
    high = np.where(has_solution, high, 0.0)

    def is_large_enough(eps: Array) -> NDArray[np.bool_]:
        """Return where δ(ε) <= delta; always true where there is no solution."""
        return np.asarray(~has_solution | (pld.delta(eps) <= delta))

    eps = bisect_floats(is_large_enough, low, high)
    return np.where(has_solution, eps, np.inf)


def _checked_parts(
    guarantees: tuple[PrivacyCurve | Iterable[PrivacyCurve], ...],
) -> tuple[Guarantee, ...]:
    """Convert the arguments of `compose` to a tuple of guarantees.

    Parameters
    ----------
    guarantees : tuple
        The guarantees or profiles, or one iterable of them.

    Returns
    -------
    tuple of Guarantee
        At least one guarantee. Profiles are replaced by the guarantees that they have.

    Raises
    ------
    ParameterError
        If there are none, or if one of them is not a guarantee.
    """
    items: tuple[Any, ...] = guarantees
    if len(items) == 1 and not isinstance(items[0], PrivacyCurve):
        try:
            items = tuple(items[0])
        except TypeError:
            raise ParameterError(
                f"{_validate.shown(items[0])} must be guarantees, such as GDP(1.0)"
            ) from None
    if not items:
        raise ParameterError("nothing to compose: give at least one guarantee")
    # The same object may occur a thousand times: check each object once.
    guarantee_by_id = {id(item): guarantee_of(item) for item in items}
    return tuple(guarantee_by_id[id(item)] for item in items)
