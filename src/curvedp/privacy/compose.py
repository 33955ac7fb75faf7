"""What several releases cost together.

One definition throughout: its closed form. Divergences (zCDP, Rényi) with anything that has them (pure, GDP): in that
divergence. Every other mixture: a `Composition`, which multiplies privacy loss distributions exactly.

| definition | together |
|---|---|
| PureDP | Σε |
| ApproxDP | (Σε, Σδ) |
| ZCDP | Σρ |
| RenyiDP | Σε at the smallest order (the divergence grows with the order) |
| GDP | √Σμ² |
| RaoDP | √Σθ² (parametric); cos(θ/2) = ∏cos(θᵢ/2) (Hellinger angle; parametric angles bound it) |
| mixed, profiles | product of privacy loss distributions |
"""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvedp import _validate
from curvedp._numerics import smallest_float
from curvedp.errors import ParameterError
from curvedp.privacy.convert import convert
from curvedp.privacy.guarantees import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    RaoDP,
    RenyiDP,
    common_adjacency,
    guarantee_from_dict,
)
from curvedp.privacy.pld import Composed
from curvedp.privacy.rao import hellinger_compose

__all__ = ["Composition", "compose", "compose_profiles"]

Array = NDArray[np.float64]

_TAIL = 1e-44  # δ below this goes to infinity: no claim smaller than about 1e-43 comes out of a Composition


@dataclass(frozen=True, repr=False)
class Composition(Guarantee):
    """parts[i] used counts[i] times, accounted through the product of their privacy loss distributions.

    Guarantees: `delta` is an upper bound whatever the parts are, adaptively chosen included; it exceeds the exact
    composition of the parts' profiles by a relative amount that falls with the square of the grid (below 1e-3 down to
    δ = 1e-30 for parts of similar size); there is no round-off floor, only the δ = 1e-44 cut of each part's tail.

    >>> both = compose(GDP(0.5), ApproxDP(0.5, 1e-6))
    >>> 1e-6 < both.delta(3.0) < 2e-5
    True
    """

    parts: tuple[Guarantee, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "counts", tuple(_validate.integer("count", c, 1) for c in self.counts))
        if not self.parts or len(self.parts) != len(self.counts):
            raise ParameterError(f"{len(self.parts)} parts and {len(self.counts)} counts: give one count for each part")
        common_adjacency((self, *self.parts))

    def _delta(self, eps: Array) -> Any:
        return _composed(self.parts, self.counts, 1.0).delta(eps)

    def _epsilon(self, delta: Array) -> Any:
        composed = _composed(self.parts, self.counts, 1.0)
        low, high = np.moveaxis(np.array([composed.bracket(float(d)) for d in delta.ravel()]), -1, 0)
        low, high = low.reshape(delta.shape), high.reshape(delta.shape)
        reached = np.isfinite(high)
        low, high = np.where(reached, low, 0.0), np.where(reached, high, 0.0)
        return np.where(reached, smallest_float(lambda e: ~reached | (composed.delta(e) <= delta), low, high), np.inf)

    def rough_delta(self, eps: float) -> float:
        return float(_composed(self.parts, self.counts, 0.1).delta(np.array([eps]))[0])

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "parts": [part.to_dict() for part in self.parts], "counts": list(self.counts)}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Composition":
        parts = tuple(guarantee_from_dict(part) for part in fields.pop("parts", ()))
        return cls(parts, tuple(fields.pop("counts", ())), **fields)


def compose(*guarantees: Guarantee | Iterable[Guarantee]) -> Guarantee:
    """The guarantee of all of them together; also takes one iterable. Mixed adjacency raises.

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
    if kinds == {PureDP}:
        return PureDP(_sum([p.eps for p in parts if isinstance(p, PureDP)]), adjacency=adjacency)
    if kinds == {ApproxDP}:
        approx = [p for p in parts if isinstance(p, ApproxDP)]
        total = _sum([p.delta0 for p in approx])
        if total >= 1:
            raise ParameterError(f"the sum of delta0 is {total:g}: together these promise nothing")
        return ApproxDP(_sum([p.eps for p in approx]), total, adjacency=adjacency)
    if kinds == {GDP}:
        return GDP(_root_sum_squares([p.mu for p in parts if isinstance(p, GDP)]), adjacency=adjacency)
    if kinds == {RaoDP}:
        return _compose_rao([p for p in parts if isinstance(p, RaoDP)], adjacency)
    if RenyiDP in kinds and kinds <= {PureDP, GDP, ZCDP, RenyiDP}:
        order = min(p.order for p in parts if isinstance(p, RenyiDP))
        return RenyiDP(order, _sum([convert(p, to=RenyiDP, order=order).eps for p in parts]), adjacency=adjacency)
    if ZCDP in kinds and kinds <= {PureDP, GDP, ZCDP}:
        return ZCDP(_sum([convert(p, to=ZCDP).rho for p in parts]), adjacency=adjacency)
    return compose_profiles(parts)


def compose_profiles(guarantees: Iterable[Guarantee]) -> Guarantee:
    """The composition through loss distributions even where a closed form exists: never weaker than the profiles allow.

    GDP parts are merged first (exact), and so are the parts of one divergence or angle: their closed forms know
    more than their profiles do.

    >>> pure = compose_profiles([PureDP(0.1)] * 100)
    >>> pure.epsilon(1e-6) < 5.5 < compose([PureDP(0.1)] * 100).epsilon(1e-6)
    True
    """
    parts = _flat((guarantees,))
    adjacency = common_adjacency(parts)
    counted: dict[Guarantee, int] = {}
    for part, count in _factors(parts):
        counted[part] = counted.get(part, 0) + count
    merged: list[tuple[Guarantee, int]] = []
    for kinds in ((GDP,), (ZCDP, RenyiDP), (RaoDP,)):
        group = [part for part, count in counted.items() if isinstance(part, kinds) for _ in range(count)]
        if group:
            merged.append((compose(group), 1))
    rest = [(p, count) for p, count in counted.items() if not isinstance(p, GDP | ZCDP | RenyiDP | RaoDP)]
    merged += rest
    if len(merged) == 1 and merged[0][1] == 1:
        return merged[0][0]
    return Composition(tuple(p for p, _ in merged), tuple(c for _, c in merged), adjacency=adjacency)


def _factors(parts: Iterable[Guarantee]) -> Iterable[tuple[Guarantee, int]]:
    for part in parts:
        if isinstance(part, Composition):
            yield from zip(part.parts, part.counts, strict=True)
        else:
            yield part, 1


@functools.lru_cache(maxsize=64)
def _composed(parts: tuple[Guarantee, ...], counts: tuple[int, ...], fineness: float) -> Composed:
    return Composed(tuple((part.grid_delta, part.loss_reach(_TAIL)) for part in parts), counts, fineness)


def _compose_rao(parts: list[RaoDP], adjacency: str) -> RaoDP:
    if all(p.angle == "parametric" for p in parts):
        return RaoDP(_root_sum_squares([p.theta for p in parts]), adjacency=adjacency)
    return RaoDP(hellinger_compose([p.theta for p in parts]), angle="hellinger", adjacency=adjacency)


def _flat(guarantees: tuple[Guarantee | Iterable[Guarantee], ...]) -> tuple[Guarantee, ...]:
    if len(guarantees) == 1 and not isinstance(guarantees[0], Guarantee):
        try:
            guarantees = tuple(guarantees[0])
        except TypeError:
            raise ParameterError(f"{_validate.shown(guarantees[0])} must be guarantees, such as GDP(1.0)") from None
    if not guarantees:
        raise ParameterError("nothing to compose: give at least one guarantee")
    for item in guarantees:
        if not isinstance(item, Guarantee):
            raise ParameterError(f"{item!r} is not a guarantee")
    return guarantees  # type: ignore[return-value]


def _sum(values: list[float]) -> float:
    """Σ, exact before one rounding; rounded up unless it is exact."""
    total = math.fsum(values)
    return total if math.fsum([*values, -total]) <= 0 else math.nextafter(total, math.inf)


def _root_sum_squares(values: list[float]) -> float:
    """√Σx², never below: hypot is rounded up unless its square is exactly the sum."""
    root = math.hypot(*values)
    exact = sum(Fraction(v) ** 2 for v in values)
    while Fraction(root) ** 2 < exact:
        root = math.nextafter(root, math.inf)
    return root
