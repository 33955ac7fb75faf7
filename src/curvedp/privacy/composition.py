"""What several releases cost together, for guarantees that were fixed beforehand.

Guarantees of one definition have a closed form: the fields that add up say it. So have
divergences (zCDP, Rényi) with anything that has one (pure, GDP), and Hellinger angles:
cos(θ/2) = ∏cos(θᵢ/2). Every other mixture becomes a `Composition`, which convolves
privacy loss distributions. docs/accounting.md says what is not fixed beforehand.
"""

import functools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import Array, bisect_floats, round_root
from curvedp.privacy.guarantees.base import (
    Guarantee,
    common_adjacency,
    guarantee_from_dict,
)
from curvedp.privacy.guarantees.conversions import convert
from curvedp.privacy.guarantees.definitions import GDP, ZCDP, PureDP, RaoDP, RenyiDP
from curvedp.privacy.guarantees.rao import hellinger_compose
from curvedp.privacy.pld.composed import ComposedPLD
from curvedp.privacy.pld.discretize import PairProfile

# The δ of each part that goes to an infinite loss: no claim smaller than about 1e-43
# comes out of a Composition.
_TRUNCATION_DELTA = 1e-44
_COARSE_FINENESS = 0.1  # of the grid for `cheap_delta_bound`


@dataclass(frozen=True, repr=False)
class Composition(Guarantee):
    """Several guarantees together, each used some number of times.

    They are accounted through their privacy loss distributions. `delta` is an upper
    bound for parts fixed beforehand, mechanisms that adapt included (Zhu, Dong and Wang
    2022). It is not a filter: parts chosen after seeing outputs need `compose` within
    one definition, or a ledger. It exceeds the exact composition of the parts' profiles
    by a relative amount that falls with the square of the grid's width (below 1e-3 down
    to δ = 1e-30, where no part's losses are 10⁴ times another's). There is no round-off
    floor, only the cut of each part's tail at δ = 1e-44.

    Parameters
    ----------
    parts : tuple of Guarantee
        What is composed.
    counts : tuple of int
        How often each.

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
        """Check that there is one count for each part, and one adjacency."""
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

    def _directions(self, fineness: float) -> list[ComposedPLD]:
        """Return the composed distribution for each direction of the adjacency.

        Where adding a record is not like removing it there are two, and the larger δ
        counts.
        """
        remove = _composed_pld(self.parts, self.counts, fineness, reverse=False)
        if all(part.delta_add is None for part in self.parts):
            return [remove]
        add = _composed_pld(self.parts, self.counts, fineness, reverse=True)
        return [remove, add]

    def _delta(self, eps: Array) -> Any:
        return np.max([pld.delta(eps) for pld in self._directions(1.0)], axis=0)

    def _epsilon(self, delta: Array) -> Any:
        one_direction = [_pld_epsilon(pld, delta) for pld in self._directions(1.0)]
        return np.max(one_direction, axis=0)

    def cheap_delta_bound(self, eps: float) -> float:
        """Return an upper bound on δ(ε) from a grid with a tenth of the points."""
        directions = self._directions(_COARSE_FINENESS)
        return max(float(pld.delta(np.array([eps]))[0]) for pld in directions)

    def implied_pure_epsilon(self) -> float:
        return self._sum_over_parts(
            [part.implied_pure_epsilon() for part in self.parts]
        )

    def implied_mu(self) -> float:
        return self._sum_over_parts([part.implied_mu() for part in self.parts], power=2)

    def implied_rho(self) -> float:
        return self._sum_over_parts([part.implied_rho() for part in self.parts])

    def implied_hellinger_angle(self) -> float:
        angles = [part.implied_hellinger_angle() for part in self.parts]
        return hellinger_compose(angles, self.counts)

    def implied_renyi(self, order: float) -> float:
        return self._sum_over_parts([part.implied_renyi(order) for part in self.parts])

    def _sum_over_parts(self, bounds: list[float], power: int = 1) -> float:
        """Return (Σ countᵢ·boundᵢ^power)^(1/power), rounded up; inf if one is."""
        if math.inf in bounds:
            return math.inf
        total = Fraction(0)
        for bound, count in zip(bounds, self.counts, strict=True):
            total += count * Fraction(bound) ** power
        return round_root(total, power, up=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, with the parts as dictionaries of their own."""
        return {
            **super().to_dict(),
            "parts": [part.to_dict() for part in self.parts],
            "counts": list(self.counts),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Composition":
        """Return the composition with the given fields: the inverse of `to_dict`."""
        parts = tuple(guarantee_from_dict(part) for part in fields.pop("parts", ()))
        counts = tuple(fields.pop("counts", ()))
        return cls(parts, counts, **fields)


def compose(*guarantees: Guarantee | Iterable[Guarantee]) -> Guarantee:
    """Return the guarantee of all releases together.

    Parameters
    ----------
    *guarantees : Guarantee
        Or one iterable of them. Mixed adjacency raises.

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

    kinds = {type(part) for part in parts}
    has_divergence = not kinds.isdisjoint({ZCDP, RenyiDP})
    if has_divergence and kinds <= {PureDP, GDP, ZCDP, RenyiDP}:
        parts = _as_divergences(parts)
        kinds = {type(parts[0])}

    if kinds == {RaoDP}:
        is_parametric = [part.implied_rao_distance() < math.inf for part in parts]
        if not all(is_parametric):
            angles = [part.implied_hellinger_angle() for part in parts]
            theta = hellinger_compose(angles)
            return RaoDP(theta, angle="hellinger", adjacency=adjacency)

    if len(kinds) == 1 and parts[0].additive_fields:
        total = _sum_of_costs(parts)
        if total is not None:
            return total
        if parts[0].composition_family:
            raise ParameterError(
                "together these promise nothing: their sum is too large for a float"
            )
    return compose_profiles(parts)


def _as_divergences(parts: tuple[Guarantee, ...]) -> tuple[Guarantee, ...]:
    """Convert all parts to Rényi DP at the smallest order among them, or to zCDP.

    What pure DP and GDP have of these divergences is exact.
    """
    orders = [part.order for part in parts if isinstance(part, RenyiDP)]
    if not orders:
        return tuple(convert(part, to=ZCDP) for part in parts)
    return tuple(convert(part, to=RenyiDP, order=min(orders)) for part in parts)


def _sum_of_costs(parts: tuple[Guarantee, ...]) -> Guarantee | None:
    """Return the guarantee of the summed cost, rounded up once.

    None where the sum leaves the range of the definition, as (ε, ½) twice does: then
    only the profiles say something.
    """
    costs = []
    for part, count in _count_parts(parts).items():
        costs.append(tuple(count * number for number in part.cost()))
    total = tuple(sum(column, Fraction(0)) for column in zip(*costs, strict=True))
    try:
        return type(parts[0]).from_cost(total, up=True, like=parts[0])
    except ParameterError:
        return None


def compose_profiles(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Compose through loss distributions even where a closed form exists.

    The result is never weaker than the profiles of the parts allow. Parts of one
    `composition_family` (GDP; divergences; angles) are merged first, because their
    closed form knows more than their profiles do.

    Parameters
    ----------
    guarantees : iterable of Guarantee
        What is composed.

    Examples
    --------
    >>> pure = compose_profiles([PureDP(0.1)] * 100)
    >>> pure.epsilon(1e-6) < 5.5 < compose([PureDP(0.1)] * 100).epsilon(1e-6)
    True
    """
    parts = _checked_parts((guarantees,))
    adjacency = common_adjacency(parts)
    counted = _count_parts(parts)

    families = sorted({part.composition_family for part in counted} - {""})
    merged: Counter[Guarantee] = Counter()
    for family in families:
        members = [
            part
            for part, count in counted.items()
            if part.composition_family == family
            for _ in range(count)
        ]
        merged.update([compose(members)])
    for part, count in counted.items():
        if not part.composition_family:
            merged[part] += count

    if merged.total() == 1:
        return next(iter(merged))
    return Composition(tuple(merged), tuple(merged.values()), adjacency=adjacency)


def _count_parts(parts: tuple[Guarantee, ...]) -> Counter[Guarantee]:
    """Return how often each part occurs; a composition counts as its own parts.

    Parts are first counted by identity, because comparing many profiles is slow.
    """
    part_of_id = {id(part): part for part in parts}
    counted: Counter[Guarantee] = Counter()
    for identity, count in Counter(map(id, parts)).items():
        part = part_of_id[identity]
        if isinstance(part, Composition):
            for inner, inner_count in zip(part.parts, part.counts, strict=True):
                counted[inner] += inner_count * count
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
    """Return the composed loss distribution of parts, for removing a record.

    With `reverse` it is the one for adding a record. It is cached, with what it
    computed.
    """
    pairs = []
    for part in parts:
        truncation = min(
            part.truncation_loss(_TRUNCATION_DELTA), part.implied_pure_epsilon()
        )
        pair = PairProfile.symmetric(part.delta_upper_bound, truncation)
        if part.delta_add is not None:
            pair = PairProfile(part.delta_upper_bound, part.delta_add, truncation)
        pairs.append(pair.reversed() if reverse else pair)
    return ComposedPLD(tuple(pairs), counts, fineness)


def _pld_epsilon(pld: ComposedPLD, delta: Array) -> Array:
    """Return the smallest ε with pld.delta(ε) <= delta, elementwise; inf if none."""
    brackets = np.array([pld.bracket_epsilon(float(d)) for d in delta.ravel()])
    low = brackets[:, 0].reshape(delta.shape)
    high = brackets[:, 1].reshape(delta.shape)

    is_reached = np.isfinite(high)
    low = np.where(is_reached, low, 0.0)
    high = np.where(is_reached, high, 0.0)
    eps = bisect_floats(lambda e: ~is_reached | (pld.delta(e) <= delta), low, high)
    return np.where(is_reached, eps, np.inf)


def _checked_parts(
    guarantees: tuple[Guarantee | Iterable[Guarantee], ...],
) -> tuple[Guarantee, ...]:
    """Return the arguments of `compose` as a tuple of guarantees, or raise."""
    if len(guarantees) == 1 and not isinstance(guarantees[0], Guarantee):
        try:
            guarantees = tuple(guarantees[0])
        except TypeError:
            raise ParameterError(
                f"{_validate.shown(guarantees[0])} must be guarantees, such as GDP(1.0)"
            ) from None
    if not guarantees:
        raise ParameterError("nothing to compose: give at least one guarantee")
    # The same object may occur a thousand times: check each object once.
    for item in {id(item): item for item in guarantees}.values():
        if not isinstance(item, Guarantee):
            raise ParameterError(f"{_validate.shown(item)} is not a guarantee")
    return guarantees  # type: ignore[return-value]  # each was checked above
