"""What several releases cost together, for guarantees that were fixed beforehand; docs/accounting.md has what is not.

One definition throughout: its closed form, of which the fields that add up say it (`Guarantee.additive`). Divergences (zCDP,
Rényi) with anything that has them (pure, GDP): in that divergence, Rényi at the smallest order. Hellinger angles: cos(θ/2) =
∏cos(θᵢ/2). Every other mixture: a `Composition`, which multiplies privacy loss distributions exactly.
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
    convert,
    guarantee_from_dict,
    vouched,
)
from curvedp.privacy.guarantees.definitions import GDP, ZCDP, PureDP, RaoDP, RenyiDP
from curvedp.privacy.guarantees.rao import hellinger_compose
from curvedp.privacy.pld.composed import ComposedPLD

_TAIL = 1e-44  # δ below this goes to infinity: no claim smaller than about 1e-43 comes out of a Composition


@dataclass(frozen=True, repr=False)
class Composition(Guarantee):
    """parts[i] used counts[i] times, accounted through the product of their privacy loss distributions.

    Guarantees: `delta` is an upper bound for parts fixed beforehand, mechanisms that adapt included (Zhu, Dong and Wang
    2022). It is not a filter: parts chosen after seeing outputs need `compose` within one definition, or a ledger. It
    exceeds the exact composition of the parts' profiles by a relative amount that falls with the square of the grid (below
    1e-3 down to δ = 1e-30, where no part's losses are 10⁴ times another's); there is no round-off floor, only the δ = 1e-44
    cut of each part's tail.

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
        super().__post_init__()
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(
            self, "counts", tuple(_validate.integer("count", c, 1) for c in self.counts)
        )
        if not self.parts or len(self.parts) != len(self.counts):
            raise ParameterError(
                f"{len(self.parts)} parts and {len(self.counts)} counts: give one count for each part"
            )
        common_adjacency((self, *self.parts))

    def _ways(self, fineness: float) -> list[ComposedPLD]:
        """Each way round: where adding a record is not like removing it there are two, and the dearer one counts."""
        ways = (
            (False,)
            if all(part.backward is None for part in self.parts)
            else (False, True)
        )
        return [_composed(self.parts, self.counts, fineness, way) for way in ways]

    def _delta(self, eps: Array) -> Any:
        return np.max([composed.delta(eps) for composed in self._ways(1.0)], axis=0)

    def _epsilon(self, delta: Array) -> Any:
        return np.max(
            [self._one_way(composed, delta) for composed in self._ways(1.0)], axis=0
        )

    def _one_way(self, composed: ComposedPLD, delta: Array) -> Any:
        low, high = np.moveaxis(
            np.array([composed.bracket(float(d)) for d in delta.ravel()]), -1, 0
        )
        low, high = low.reshape(delta.shape), high.reshape(delta.shape)
        reached = np.isfinite(high)
        low, high = np.where(reached, low, 0.0), np.where(reached, high, 0.0)
        return np.where(
            reached,
            bisect_floats(lambda e: ~reached | (composed.delta(e) <= delta), low, high),
            np.inf,
        )

    def rough_delta(self, eps: float) -> float:
        return max(
            float(composed.delta(np.array([eps]))[0]) for composed in self._ways(0.1)
        )

    def bound(self, of: str) -> float:
        bounds = [part.bound(of) for part in self.parts]
        if of == "angle":
            return hellinger_compose(bounds, self.counts)
        return (
            math.inf if of == "rao" else self._together(bounds, 2 if of == "gdp" else 1)
        )

    def renyi_bound(self, order: float) -> float:
        return self._together([part.renyi_bound(order) for part in self.parts], 1)

    def _together(self, bounds: list[float], power: int) -> float:
        """The parts' bounds, of which this power adds up, together."""
        if math.inf in bounds:
            return math.inf
        total = sum(
            (
                count * Fraction(b) ** power
                for b, count in zip(bounds, self.counts, strict=True)
            ),
            Fraction(0),
        )
        return round_root(total, power, up=True)

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "parts": [part.to_dict() for part in self.parts],
            "counts": list(self.counts),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Composition":
        parts = tuple(guarantee_from_dict(part) for part in fields.pop("parts", ()))
        return cls(parts, tuple(fields.pop("counts", ())), **fields)


def compose(*guarantees: Guarantee | Iterable[Guarantee]) -> Guarantee:
    """The guarantee of all of them together.

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
    parts = _flat(guarantees)
    adjacency = common_adjacency(parts)
    if len(parts) == 1:
        return parts[0]
    kinds = {type(part) for part in parts}
    if kinds <= {PureDP, GDP, ZCDP, RenyiDP} and not kinds.isdisjoint({ZCDP, RenyiDP}):
        # in the Rényi divergence of the smallest order there is, or in zCDP: what the others have of it is exact
        order = min(
            (part.order for part in parts if isinstance(part, RenyiDP)), default=None
        )
        to: type[Guarantee] = ZCDP if order is None else RenyiDP
        parts, kinds = tuple(convert(part, to=to, order=order) for part in parts), {to}
    if kinds == {RaoDP} and any(
        not part.additive or part.bound("rao") == math.inf for part in parts
    ):
        return RaoDP(
            hellinger_compose([p.bound("angle") for p in parts]),
            angle="hellinger",
            adjacency=adjacency,
        )
    if len(kinds) == 1 and parts[0].additive:
        return _added(parts)
    return compose_profiles(parts)


def _added(parts: tuple[Guarantee, ...]) -> Guarantee:
    """The guarantee of the summed cost, rounded up once."""
    costs = [
        tuple(count * c for c in part.cost()) for part, count in _counted(parts).items()
    ]
    cost = tuple(sum(column, Fraction(0)) for column in zip(*costs, strict=True))
    try:
        total = type(parts[0]).from_cost(cost, up=True, like=parts[0])
    except ParameterError as error:
        raise ParameterError(f"together these promise nothing: {error}") from None
    assert total is not None
    return total


def compose_profiles(guarantees: Iterable[Guarantee]) -> Guarantee:
    """The composition through loss distributions even where a closed form exists: never weaker than the profiles allow.

    Parts that `merges` says have a closed form together (GDP; one divergence or angle) are merged first: it knows more.

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
    parts = _flat((guarantees,))
    adjacency = common_adjacency(parts)
    counted = _counted(parts)
    merged: Counter[Guarantee] = Counter()
    for name in sorted({part.merges for part in counted} - {""}):
        merged.update(
            [
                compose(
                    [
                        part
                        for part, count in counted.items()
                        if part.merges == name
                        for _ in range(count)
                    ]
                )
            ]
        )
    merged.update({part: count for part, count in counted.items() if not part.merges})
    if merged.total() == 1:
        return next(iter(merged))
    return Composition(tuple(merged), tuple(merged.values()), adjacency=adjacency)


def _counted(parts: tuple[Guarantee, ...]) -> Counter[Guarantee]:
    """How often each is there; a composition counts as its parts."""
    same, counted = {id(part): part for part in parts}, Counter[Guarantee]()
    for key, count in Counter(map(id, parts)).items():
        whole = same[key]
        if isinstance(whole, Composition):
            counted.update(
                {
                    part: n * count
                    for part, n in zip(whole.parts, whole.counts, strict=True)
                }
            )
        else:
            counted[whole] += count
    return counted


@functools.lru_cache(maxsize=64)
def _composed(
    parts: tuple[Guarantee, ...],
    counts: tuple[int, ...],
    fineness: float,
    swapped: bool,
) -> ComposedPLD:
    ways: list[tuple[Any, ...]] = []
    for part in parts:
        top, there, back = (
            min(part.loss_reach(_TAIL), part.bound("pure")),
            part.grid_delta,
            part.backward,
        )
        ways.append(
            (there, top)
            if back is None
            else (back, top, there)
            if swapped
            else (there, top, back)
        )
    return ComposedPLD(tuple(ways), counts, fineness)


def _flat(
    guarantees: tuple[Guarantee | Iterable[Guarantee], ...],
) -> tuple[Guarantee, ...]:
    if len(guarantees) == 1 and not isinstance(guarantees[0], Guarantee):
        try:
            guarantees = tuple(guarantees[0])
        except TypeError:
            raise ParameterError(
                f"{_validate.shown(guarantees[0])} must be guarantees, such as GDP(1.0)"
            ) from None
    if not guarantees:
        raise ParameterError("nothing to compose: give at least one guarantee")
    for item in {
        id(item): item for item in guarantees
    }.values():  # the same object may be there a thousand times
        if not isinstance(item, Guarantee):
            raise ParameterError(f"{_validate.shown(item)} is not a guarantee")
        vouched(item)
    return guarantees  # type: ignore[return-value]  # each was checked above
