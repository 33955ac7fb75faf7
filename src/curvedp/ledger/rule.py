"""What adds up: the state of a ledger after its entries, and what the next one costs.

A budget of any definition but (ε, δ) is one additive filter. Under an (ε, δ) budget, entries of (ε, δ) and pure releases come
first; the first of another definition opens an account, the largest that implies what is left. Why that holds for adaptive
choices, and keeping a total in each definition does not, is in docs/ledger.md.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import zip_longest
from typing import Any, NamedTuple

from curvedp import _validate
from curvedp.errors import (
    BudgetExceeded,
    LedgerCorrupted,
    ParameterError,
    UnattainableGuarantee,
)
from curvedp.numerics.directed_rounding import (
    expand_bracket,
    root_rounded_up,
    round_fraction,
)
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PrivacyUnit,
    PureDP,
    convert,
)
from curvedp.privacy.guarantees.base import guarantee_from_dict

Cost = tuple[Fraction, ...]
Group = tuple[str | None, str | None]


class Charge(NamedTuple):
    """What one entry costs.

    Attributes
    ----------
    guarantee : Guarantee
        The release as it is counted, in the account's definition.
    opens : Guarantee or None
        The account that it opens in an (ε, δ) ledger; None where it opens none.
    total, of_group : Cost
        What is spent with it in all, and by its group of a partition (None without one).
    """

    guarantee: Guarantee
    opens: Guarantee | None
    total: Cost
    of_group: Cost | None


@dataclass(frozen=True)
class State:
    """A ledger after one of its entries.

    Attributes
    ----------
    budget : Guarantee
        What may be spent in all.
    number, head : int and str
        The last entry's place and hash.
    account, total : Guarantee and Cost
        The filter that is counted in (the budget, or what the rest of an (ε, δ) budget was
        turned into) and what it has spent. Of a partition only its most expensive group
        counts.
    before : Cost
        What of an (ε, δ) budget had been spent when the account was opened; empty otherwise.
    groups, dearest : dict
        What each group of each partition has spent, and the largest of these by component.
    unit : PrivacyUnit or None
        Whose data the budget protects; None until a charge states it.
    """

    budget: Guarantee
    number: int
    head: str
    account: Guarantee
    total: Cost
    before: Cost = ()
    groups: dict[Group, Cost] = field(default_factory=dict)
    dearest: dict[str, Cost] = field(default_factory=dict)
    unit: PrivacyUnit | None = None

    @classmethod
    def new(
        cls, budget: Guarantee, head: str, unit: PrivacyUnit | None = None
    ) -> "State":
        """A ledger without entries."""
        nothing = tuple(Fraction(0) for _ in cost(budget, budget))
        return cls(budget, 0, head, budget, nothing, unit=unit)

    def charge(
        self, guarantee: Guarantee, partition: str | None, group: str | None
    ) -> Charge:
        """What one release costs; see `charge_disjoint`."""
        return self.charge_disjoint([guarantee], partition, group)

    def charge_disjoint(
        self,
        guarantees: Sequence[Guarantee],
        partition: str | None,
        group: str | None,
    ) -> Charge:
        """Return what releases about disjoint groups of records cost together.

        Theorem (parallel composition, McSherry 2009). If a neighbor changes the records of
        one group only, then releases about disjoint groups satisfy together every guarantee
        that each of them satisfies. So each is expressed in the account's definition first,
        and refused where that has none for it; the largest of every parameter is a guarantee
        that all of them satisfy. Numbers of different definitions are never compared.

        Raises
        ------
        BudgetExceeded
            Where it does not fit.
        ParameterError, UnattainableGuarantee
            For another adjacency, and for what the account's definition cannot express.
        """
        for guarantee in guarantees:
            if guarantee.adjacency != self.budget.adjacency:
                raise ParameterError(
                    f"the ledger counts {self.budget.adjacency} adjacency; "
                    f"{guarantee} is for {guarantee.adjacency}"
                )

        accounts = map(self._opened, guarantees)
        opens = next((account for account in accounts if account is not None), None)
        state = self if opens is None else self.opened(opens)
        counted = [state._counted(guarantee) for guarantee in guarantees]
        largest = _largest_of_each_parameter(state.account, counted)

        total, of_group = state._sum(cost(state.account, largest), partition, group)
        allowed = cost(state.account, state.account)
        if any(t > a for t, a in zip(total, allowed, strict=True)):
            raise BudgetExceeded(
                f"does not fit: {self.remaining or 'nothing'} of {self.budget} remains"
            )
        return Charge(largest, opens, total, of_group)

    def check_unit(self, unit: PrivacyUnit | None) -> None:
        """Refuse a release for another privacy unit than the ledger's."""
        if unit is None or self.unit is None or unit is self.unit:
            return
        if self.unit is PrivacyUnit.PERSON:
            remedy = "say whose record each is (groups), or pay from another ledger"
        else:
            remedy = "pay from a ledger for persons"
        raise ParameterError(
            f"the ledger counts what is told about one {self.unit}; this release protects "
            f"one {unit}, and the two do not add up: {remedy}"
        )

    def opened(self, account: Guarantee) -> "State":
        """The state in which the rest of an (ε, δ) budget is this account."""
        zero = tuple(Fraction(0) for _ in cost(account, account))
        return dataclasses.replace(
            self, account=account, total=zero, before=self.total, groups={}, dearest={}
        )

    @property
    def spent(self) -> Guarantee | None:
        """All entries in the budget's definition, rounded up."""
        spent = from_cost(self.account, self.total, up=True)
        if not self.before or spent is None:
            return spent
        assert isinstance(self.budget, ApproxDP)
        _, delta = _rest(self.budget, self.before)
        used = self.before[0] + Fraction(float(spent.epsilon(delta)))
        # The account implies what was left, so what it has spent does, whatever rounding says.
        return dataclasses.replace(
            self.budget, eps=min(round_fraction(used, up=True), self.budget.eps)
        )

    @property
    def remaining(self) -> Guarantee | None:
        """What fits into one entry more, in the definition that is counted in, rounded down."""
        budget = cost(self.account, self.account)
        return from_cost(
            self.account,
            tuple(b - t for b, t in zip(budget, self.total, strict=True)),
            up=False,
        )

    def _opened(self, guarantee: Guarantee) -> Guarantee | None:
        """The account that this release opens in an (ε, δ) ledger; None where it is counted in the present one."""
        if not isinstance(self.account, ApproxDP) or isinstance(
            guarantee, ApproxDP | PureDP
        ):
            return None
        like = _additive(guarantee)
        rest = _rest(self.account, self.total)
        account = None if min(rest) <= 0 else _largest(like, *rest)
        if account is None:
            raise BudgetExceeded(
                f"does not fit: {self.remaining or 'nothing'} of {self.budget} remains"
            )
        return account

    def _counted(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee in the account's definition, never stronger than it is; refused where that is not possible."""
        account = self.account
        if isinstance(account, ApproxDP):
            return guarantee
        order = getattr(account, "order", None)
        if (
            type(guarantee) is not type(account)
            or getattr(guarantee, "order", order) != order
        ):
            try:
                guarantee = convert(guarantee, to=type(account), order=order)
            except UnattainableGuarantee as error:
                hint = f"this ledger counts in {type(account).__name__}"
                if self.before:
                    hint = f"the rest of {self.budget} was turned into {account} by an earlier release"
                raise UnattainableGuarantee(f"{error}; {hint}") from None
        for rule in ("order", "angle"):
            if getattr(guarantee, rule, None) != getattr(account, rule, None):
                raise ParameterError(
                    f"the ledger counts {rule}={getattr(account, rule)!r}; {guarantee} has another"
                )
        return guarantee

    def _sum(
        self, part: Cost, partition: str | None, group: str | None
    ) -> tuple[Cost, Cost | None]:
        """The total with this part, and its group's: of a partition only its most expensive group counts, by component."""
        if partition is None:
            return tuple(a + b for a, b in zip(self.total, part, strict=True)), None
        zero = tuple(Fraction(0) for _ in part)
        of_group = tuple(
            a + b
            for a, b in zip(
                self.groups.get((partition, group), zero), part, strict=True
            )
        )
        before = self.dearest.get(partition, zero)
        after = tuple(max(pair) for pair in zip(before, of_group, strict=True))
        return tuple(
            t + a - b for t, a, b in zip(self.total, after, before, strict=True)
        ), of_group


def replay(
    state: State,
    rows: Sequence[tuple[int, dict[str, Any], str]],
    *,
    exactly: bool = False,
) -> State:
    """The state after more entries (number, body, hash). An entry says what the total is after it; entries of version 0.1
    do not, and are added up. `exactly` adds all of them up, and raises `LedgerCorrupted` where an entry says something
    else."""
    state = dataclasses.replace(
        state, groups=dict(state.groups), dearest=dict(state.dearest)
    )
    for (number, body, head), (_, following, _) in zip_longest(
        rows, rows[1:], fillvalue=(0, {}, "")
    ):
        state = _with_unit(state, body)
        plain = "total" in body and body["partition"] is None and body["opens"] is None
        if (
            plain
            and not exactly
            and "total" in following
            and following["opens"] is None
        ):
            continue  # the next total says all that this one does
        if body.get("opens") is not None:
            account, (eps, delta) = (
                guarantee_from_dict(body["opens"]),
                _rest(state.account, state.total),
            )
            if exactly and not (
                account.adjacency == state.budget.adjacency
                and account.epsilon(delta) <= eps
            ):
                raise LedgerCorrupted(
                    f"{account} is more than the ledger had left; what was spent is unknown"
                )
            state = state.opened(account)
        total, of_group = _after(state, body, exactly)
        if of_group is not None:
            name = body["partition"]
            state.groups[name, body["group"]] = of_group
            dearest = state.dearest.get(name, of_group)
            state.dearest[name] = tuple(
                max(pair) for pair in zip(dearest, of_group, strict=True)
            )
        state = dataclasses.replace(state, number=number, head=head, total=total)
    return state


def unit_in(body: dict[str, Any]) -> PrivacyUnit | None:
    """The privacy unit that a line states; lines of version 0.2 and before state none."""
    stored = body.get("unit")
    return None if stored is None else PrivacyUnit(stored)


def _with_unit(state: State, body: dict[str, Any]) -> State:
    """The state with the unit of an entry, which is the ledger's from then on."""
    unit = unit_in(body)
    if unit is None or unit is state.unit:
        return state
    if state.unit is not None:
        raise LedgerCorrupted(
            f"the ledger counts for one {state.unit} and has an entry for one {unit}; "
            "what was spent is unknown"
        )
    return dataclasses.replace(state, unit=unit)


def _after(
    state: State, body: dict[str, Any], exactly: bool
) -> tuple[Cost, Cost | None]:
    stored = body.get("total")
    if stored is not None and not exactly:
        of_group = body["of_group"]
        return _read(stored, state.total), None if of_group is None else _read(
            of_group, state.total
        )
    part = cost(state.account, guarantee_from_dict(body["guarantee"]))
    added = state._sum(part, body["partition"], body["group"])
    if stored is not None and _read(stored, state.total) != added[0]:
        raise LedgerCorrupted(
            "the ledger's entries do not add up to its total; what was spent is unknown"
        )
    return added


def _read(stored: Any, like: Cost) -> Cost:
    return tuple(Fraction(number) for number, _ in zip(stored, like, strict=True))


def cost(account: Guarantee, guarantee: Guarantee) -> Cost:
    """What a guarantee of the account's definition costs it; a pure one costs an (ε, δ) account no δ."""
    if isinstance(account, ApproxDP) and isinstance(guarantee, PureDP):
        return (Fraction(guarantee.eps), Fraction(0))
    return guarantee.cost()


def _largest_of_each_parameter(
    account: Guarantee, counted: Sequence[Guarantee]
) -> Guarantee:
    """The strongest guarantee of the account's definition that each of these implies.

    All are of that definition, where a larger parameter is a weaker statement; beside
    (ε, δ) guarantees a pure ε is (ε, 0).
    """
    first = counted[0]
    if all(guarantee == first for guarantee in counted):
        return first
    if isinstance(account, ApproxDP):
        pure = [each for each in counted if isinstance(each, PureDP)]
        approximate = [each for each in counted if isinstance(each, ApproxDP)]
        epsilons = [each.eps for each in pure] + [each.eps for each in approximate]
        if not approximate:
            return dataclasses.replace(pure[0], eps=max(epsilons))
        delta = max(each.delta0 for each in approximate)
        return dataclasses.replace(approximate[0], eps=max(epsilons), delta0=delta)

    largest: dict[str, Any] = {
        name: max(getattr(each, name) for each in counted)
        for name in account.additive_fields
    }
    return dataclasses.replace(first, **largest)


def from_cost(account: Guarantee, total: Cost, *, up: bool) -> Guarantee | None:
    """The guarantee that costs this much. An (ε, 0) spent is (ε, the least δ); one that is left is a pure ε."""
    if isinstance(account, ApproxDP) and total[1] == 0 < total[0]:
        eps = round_fraction(total[0], up=up)
        return (
            dataclasses.replace(account, eps=eps, delta0=5e-324)
            if up
            else PureDP(eps, adjacency=account.adjacency)
        )
    return type(account).from_cost(total, up=up, like=account)


def _additive(guarantee: Guarantee) -> Guarantee:
    """A guarantee that has a filter and follows from this one: itself, else its μ, else its ρ."""
    if len(guarantee.additive_fields) == 1:
        guarantee.cost()  # refuses a Hellinger angle
        return guarantee
    for kind in (GDP, ZCDP):
        try:
            return convert(guarantee, to=kind)
        except UnattainableGuarantee:
            continue
    raise ParameterError(
        f"{_validate.shown(guarantee)} has neither μ nor ρ; spend one of its points, "
        "curvedp.privacy.convert(guarantee, to=ApproxDP, delta=1e-6)"
    )


def _rest(budget: Guarantee, spent: Cost) -> tuple[float, float]:
    """What is left of (ε, δ), each rounded down."""
    eps, delta = (
        round_fraction(b - s, up=False)
        for b, s in zip(cost(budget, budget), spent, strict=True)
    )
    return eps, delta


def _largest(like: Guarantee, eps: float, delta: float) -> Guarantee | None:
    """The largest guarantee of like's definition that implies (eps, delta), to 12 digits; None where none is worth naming."""
    (name,) = like.additive_fields

    def made(inverse: float) -> Guarantee:
        fields: dict[str, Any] = {name: 1 / inverse}
        return dataclasses.replace(like, **fields)

    def excess(inverse: float) -> float:
        return float(made(inverse).epsilon(delta)) - eps

    low, high = expand_bracket(excess, 1.0, limit=1e100)
    return (
        made(root_rounded_up(excess, low, high))
        if low > 0 and high < math.inf
        else None
    )
