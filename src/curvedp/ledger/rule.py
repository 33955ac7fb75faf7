"""How a ledger adds up privacy costs: its state, and what the next entry costs.
A ledger is a file with a privacy budget and an entry for each release. A *cost* is a
tuple of exact fractions, one for each parameter of a guarantee that adds up. The
*account* is the guarantee in whose definition of privacy (such as GDP) costs are
counted.

A budget of any definition but (ε, δ) is one additive filter: the costs of the entries
are added and compared with the cost of the budget. Under an (ε, δ) budget, entries of
(ε, δ) and of pure ε are added up first. The first entry of another definition then
converts what is left of the budget into an *account* of that definition, the largest
that implies it, and all later entries are counted there. docs/theory/accounting.md,
"Adaptive choices", proves that this is valid for adaptively chosen releases, and shows
why one total for each definition would not be.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from curvedp import _validate
from curvedp.errors import (
    BudgetExceeded,
    LedgerCorrupted,
    ParameterError,
    UnattainableGuarantee,
)
from curvedp.ledger.store import Row
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
    RaoDP,
    RenyiDP,
    convert,
)
from curvedp.privacy.guarantees.base import guarantee_from_dict

# What a guarantee costs: one exact number for each parameter that adds up.
Cost = tuple[Fraction, ...]

# The name of a partition and the name of one of its groups.
GroupName = tuple[str | None, str | None]

# The smallest positive double: the δ of an (ε, δ) guarantee that has spent no δ,
# because (ε, 0) is not an (ε, δ) guarantee.
_SMALLEST_DELTA = 5e-324

# How far the inverse of an account's parameter is searched for.
_LARGEST_INVERSE = 1e100


@dataclass(frozen=True)
class Charge:
    """What one entry costs a ledger.

    Attributes
    ----------
    guarantee : Guarantee
        The release as it is counted, in the account's definition.
    converts_budget_to : Guarantee or None
        The account into which it converts the rest of an (ε, δ) budget; None if it
        converts nothing.
    total : Cost
        The total of all entries, with this one.
    group_total : Cost or None
        The total of its group of a partition, with this entry; None without one.
    """

    guarantee: Guarantee
    converts_budget_to: Guarantee | None
    total: Cost
    group_total: Cost | None


class Totals(NamedTuple):
    """What is spent after an entry; the fields are those of `Charge`."""

    total: Cost
    group_total: Cost | None


class Freeze(NamedTuple):
    """The last line of a ledger that is closed for good.

    Attributes
    ----------
    reason : str
        Why it was closed, for people to read.
    time : str
        When, by the clock of the machine that wrote it.
    """

    reason: str
    time: str


@dataclass(frozen=True)
class State:
    """A ledger after one of its entries.

    Attributes
    ----------
    budget : Guarantee
        The whole budget.
    number : int
        The position of the last entry.
    head : str
        The hash of the last entry.
    account : Guarantee
        The filter in which entries are counted: the budget, or what the rest of an (ε,
        δ) budget was converted into.
    total : Cost
        The total cost in the account's definition. Of a partition only its most
        expensive group counts.
    spent_before_conversion : Cost
        The part of an (ε, δ) budget that had been spent when the rest was converted;
        empty if nothing was converted.
    groups : dict
        The total of each group of each partition.
    max_group_cost : dict
        For each partition, the largest of these costs, component by component.
    unit : PrivacyUnit or None
        Whose data the budget protects; None until a charge states it.
    freeze : Freeze or None
        Why nothing more may be charged; None if the ledger is open.
    """

    budget: Guarantee
    number: int
    head: str
    account: Guarantee
    total: Cost
    spent_before_conversion: Cost = ()
    groups: dict[GroupName, Cost] = field(default_factory=dict)
    max_group_cost: dict[str, Cost] = field(default_factory=dict)
    unit: PrivacyUnit | None = None
    freeze: Freeze | None = None

    @classmethod
    def new(
        cls, budget: Guarantee, head: str, unit: PrivacyUnit | None = None
    ) -> "State":
        """Return the state of a ledger that has a budget and no entries yet.

        Parameters
        ----------
        budget : Guarantee
            The whole budget.
        head : str
            The hash of the file's first line.
        unit : PrivacyUnit or None
            Whose data the budget protects; None until a charge states it.
        """
        return cls(
            budget=budget,
            number=0,
            head=head,
            account=budget,
            total=_zero_cost(budget),
            unit=unit,
        )

    def charge(
        self, guarantee: Guarantee, partition: str | None, group: str | None
    ) -> Charge:
        """Return the charge for one release, possibly about one group of a partition.

        Parameters
        ----------
        guarantee : Guarantee
            The guarantee of the release.
        partition, group : str or None
            The group of a partition that the entry is about; None if it is about all
            records.

        Returns
        -------
        Charge
            The cost of the entry, and the totals after it.

        Raises
        ------
        BudgetExceeded
            If it does not fit into what is left, or the ledger is frozen.
        ParameterError, UnattainableGuarantee
            If it is for another adjacency, or cannot be counted here.
        """
        return self.charge_disjoint([guarantee], partition, group)

    def charge_disjoint(
        self,
        guarantees: Sequence[Guarantee],
        partition: str | None,
        group: str | None,
    ) -> Charge:
        """Return the charge for several releases about disjoint groups of records.

        The account is the guarantee in whose definition the ledger counts.

        Theorem (parallel composition, McSherry 2009). If a neighboring data set differs
        in the records of one group only, then releases about disjoint groups satisfy
        together every guarantee that each of them satisfies. So each is expressed in
        the account's definition first, and refused if it cannot be; the largest of
        every parameter is then a guarantee that all of them satisfy. Numbers of
        different definitions are never compared.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            The guarantees of the releases; at least one.
        partition, group : str or None
            The group of a partition that the entry is about; None if it is about all
            records.

        Returns
        -------
        Charge
            The cost of the entry, and the totals after it.

        Raises
        ------
        BudgetExceeded
            If the releases do not fit into what is left, or the ledger is frozen.
        ParameterError, UnattainableGuarantee
            If a guarantee is for another adjacency, or the account's definition cannot
            express it.
        """
        self.check_open()
        self._check_adjacency(guarantees)
        account = self._find_conversion(guarantees)
        state = self if account is None else self.converted_to(account)

        counted = [state._in_account_definition(guarantee) for guarantee in guarantees]

        largest = _largest_of_each_parameter(state.account, counted)
        totals = state._totals_with(cost(state.account, largest), partition, group)
        left = _subtract_costs(cost(state.account, state.account), totals.total)
        if min(left) < 0:
            raise self._does_not_fit()
        return Charge(largest, account, totals.total, totals.group_total)

    def check_open(self) -> None:
        """Refuse a charge if the ledger is frozen.

        Raises
        ------
        BudgetExceeded
            If it is frozen. The message states the reason.
        """
        if self.freeze is not None:
            raise BudgetExceeded(
                f"is not charged: the ledger was frozen on {self.freeze.time[:10]} "
                f"({self.freeze.reason})"
            )

    def check_unit(self, unit: PrivacyUnit | None) -> None:
        """Refuse a release that does not protect the privacy unit of the ledger.

        A release for a stronger unit is counted, such as one for records in a ledger
        for records within their classes (`PrivacyUnit.implies`).

        Parameters
        ----------
        unit : PrivacyUnit or None
            Whose data the release protects; None if the caller vouches for it.

        Raises
        ------
        ParameterError
            If a guarantee for `unit` implies none for the unit of the ledger.
        """
        if unit is None or self.unit is None or unit.implies(self.unit):
            return
        if self.unit.implies(unit):
            remedy = (
                f"if classes are public, start a ledger with unit={unit.value!r}, which "
                "counts both"
            )
        elif self.unit in (PrivacyUnit.PERSON, PrivacyUnit.PERSON_IN_CLASS):
            remedy = "pass groups (the person of each record), or use another ledger"
        else:
            remedy = "use a ledger for people"
        raise ParameterError(
            f"the ledger counts privacy loss per {self.unit.words}; this release "
            f"protects one {unit.words}, and the two do not add up: {remedy}"
        )

    def converted_to(self, account: Guarantee) -> "State":
        """Return the state after converting the rest of an (ε, δ) budget.

        From then on, costs are added up in another definition of privacy.

        Parameters
        ----------
        account : Guarantee
            The guarantee that the rest of the budget allows, in that definition.

        Returns
        -------
        State
            A ledger whose account is that guarantee, of which nothing is spent.
        """
        return dataclasses.replace(
            self,
            account=account,
            total=_zero_cost(account),
            spent_before_conversion=self.total,
            groups={},
            max_group_cost={},
        )

    @property
    def spent(self) -> Guarantee | None:
        """The guarantee of all entries together, in the budget's definition.

        It is rounded up, and None if nothing is spent.
        """
        spent = guarantee_of_cost(self.account, self.total, up=True)
        if not self.spent_before_conversion or spent is None:
            return spent

        assert isinstance(self.budget, ApproxDP)
        rest = _rest_of_budget(self.budget, self.spent_before_conversion)
        spent_epsilon = Fraction(float(spent.epsilon(rest.delta)))
        epsilon = round_fraction(
            self.spent_before_conversion[0] + spent_epsilon, up=True
        )
        # The account implies what was left of the budget, so what it has spent does
        # too. Rounding cannot make it more than the budget.
        return dataclasses.replace(self.budget, eps=min(epsilon, self.budget.eps))

    @property
    def remaining(self) -> Guarantee | None:
        """The largest guarantee that can still be charged in one entry, rounded down.

        It is None if nothing is left, or the ledger is frozen. Its definition of
        privacy is that in which the ledger counts.
        """
        if self.freeze is not None:
            return None
        cost_left = _subtract_costs(cost(self.account, self.account), self.total)
        return guarantee_of_cost(self.account, cost_left, up=False)

    def _does_not_fit(self) -> BudgetExceeded:
        """Return the exception for an entry that costs more than the remaining budget.

        Its message says what remains of the budget.
        """
        return BudgetExceeded(
            f"does not fit: {self.remaining or 'nothing'} of {self.budget} remains"
        )

    def _check_adjacency(self, guarantees: Sequence[Guarantee]) -> None:
        """Refuse guarantees for another adjacency than the budget's.

        The adjacency says when two data sets are neighbors: if a record is replaced, or
        if one is added or removed.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            The guarantees of an entry.

        Raises
        ------
        ParameterError
            If one of them is for another adjacency.
        """
        for guarantee in guarantees:
            if guarantee.adjacency != self.budget.adjacency:
                raise ParameterError(
                    f"the ledger counts {self.budget.adjacency} adjacency; {guarantee} is "
                    f"for {guarantee.adjacency}"
                )

    def _find_conversion(self, guarantees: Sequence[Guarantee]) -> Guarantee | None:
        """Return the guarantee to which an entry converts the rest of an (ε, δ) budget.

        The first entry that is neither (ε, δ) nor pure ε converts it into its own
        definition of privacy. From then on the ledger counts in that definition.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            The guarantees of the entry. The first one that is neither (ε, δ) nor pure ε
            decides about the definition.

        Returns
        -------
        Guarantee or None
            None if the entry converts nothing.
        """
        if not isinstance(self.account, ApproxDP):
            return None
        for guarantee in guarantees:
            if not isinstance(guarantee, ApproxDP | PureDP):
                return self._convert_rest(guarantee)
        return None

    def _convert_rest(self, guarantee: Guarantee) -> Guarantee:
        """Convert what is left of an (ε, δ) budget into another definition of privacy.

        Parameters
        ----------
        guarantee : Guarantee
            A guarantee of that definition.

        Returns
        -------
        Guarantee
            The largest guarantee of the definition that implies the (ε, δ) left.

        Raises
        ------
        BudgetExceeded
            If nothing is left, or there is no such guarantee.
        """
        example = _to_additive_guarantee(guarantee)
        rest = _rest_of_budget(self.account, self.total)
        account = None
        if min(rest) > 0:
            account = largest_account(example, rest.epsilon, rest.delta)
        if account is None:
            raise self._does_not_fit()
        return account

    def _in_account_definition(self, guarantee: Guarantee) -> Guarantee:
        """Express a guarantee in the definition of privacy in which the ledger counts.

        The result is never stronger than the guarantee itself.

        Parameters
        ----------
        guarantee : Guarantee
            The guarantee of a release, in any definition of privacy.

        Returns
        -------
        Guarantee
            The guarantee in the account's definition. In an (ε, δ) account it is
            unchanged, because that counts pure ε as well.

        Raises
        ------
        UnattainableGuarantee
            If the guarantee implies none of the account's definition.
        """
        account = self.account
        if isinstance(account, ApproxDP):
            return guarantee
        if _has_same_definition(guarantee, account):
            _check_same_rule(guarantee, account)
            return guarantee

        order = account.order if isinstance(account, RenyiDP) else None
        try:
            converted = convert(guarantee, to=type(account), order=order)
        except UnattainableGuarantee as error:
            hint = f"this ledger counts in {type(account).__name__}"
            if self.spent_before_conversion:
                hint = (
                    f"the rest of {self.budget} was turned into {account} by an "
                    "earlier release"
                )
            raise UnattainableGuarantee(f"{error}; {hint}") from None
        _check_same_rule(converted, account)
        return converted

    def _totals_with(
        self, entry_cost: Cost, partition: str | None, group: str | None
    ) -> Totals:
        """Return the totals after one more entry.

        If the records are partitioned into groups, only the most expensive group
        counts, component by component (parallel composition). With m the largest cost
        of its groups before the entry and m' after it, the total grows by m' − m.

        Parameters
        ----------
        entry_cost : Cost
            The cost of the entry.
        partition, group : str or None
            The partition of the records, and the group of it that the entry is about.

        Returns
        -------
        Totals
            The new total, and the new total of the group.
        """
        if partition is None:
            return Totals(_add_costs(self.total, entry_cost), None)
        zero = tuple(Fraction(0) for _ in entry_cost)
        group_cost_before = self.groups.get((partition, group), zero)
        group_total = _add_costs(group_cost_before, entry_cost)
        largest_before = self.max_group_cost.get(partition, zero)
        largest_after = _max_costs(largest_before, group_total)
        growth = _subtract_costs(largest_after, largest_before)
        return Totals(_add_costs(self.total, growth), group_total)


# ---- from the file's lines to a state ------------------------------------------------


def replay(state: State, rows: Sequence[Row], *, exactly: bool = False) -> State:
    """Return the state of a ledger after reading more lines of its file.

    Parameters
    ----------
    state : State
        The ledger before these lines.
    rows : sequence of Row
        The lines. Each states the total after it; those of version 0.1 do not, and are
        added up.
    exactly : bool
        Add up all entries, and compare the result with the totals that they state.

    Returns
    -------
    State
        The ledger after these lines.

    Raises
    ------
    LedgerCorrupted
        If an entry is for another privacy unit, or follows a freeze; with `exactly`,
        also if an entry states something else than the sum.
    """
    state = dataclasses.replace(
        state, groups=dict(state.groups), max_group_cost=dict(state.max_group_cost)
    )
    for index, row in enumerate(rows):
        if state.freeze is not None:
            raise LedgerCorrupted(
                "the ledger has an entry after it was frozen; what was spent is unknown"
            )
        if is_freeze(row.body):
            freeze = Freeze(str(row.body["frozen"]), str(row.body["time"]))
            state = dataclasses.replace(
                state, number=row.number, head=row.digest, freeze=freeze
            )
            continue

        state = _with_unit_of_entry(state, row.body)
        following = rows[index + 1].body if index + 1 < len(rows) else {}
        if not exactly and _is_superseded(row.body, following):
            continue
        state = _with_conversion_of_entry(state, row.body, exactly)
        state = _with_cost_of_entry(state, row, exactly)
    return state


def _with_conversion_of_entry(
    state: State, body: dict[str, Any], exactly: bool
) -> State:
    """Return the state after an entry has converted the rest of an (ε, δ) budget.

    Most entries convert nothing, and leave the state as it is.

    Parameters
    ----------
    state : State
        The ledger before the entry.
    body : dict
        The entry. Its "opens" is the guarantee into which it converts the budget.
    exactly : bool
        Whether to check that the guarantee is no more than what was left.
    """
    if body.get("opens") is None:
        return state
    account = guarantee_from_dict(body["opens"])
    # This raises unless the account so far is an (ε, δ) budget.
    rest = _rest_of_budget(state.account, state.total)
    if exactly:
        _check_conversion(state.budget, rest, account)
    return state.converted_to(account)


def _with_cost_of_entry(state: State, row: Row, exactly: bool) -> State:
    """Return the state after the cost of an entry was added.

    The dictionaries of `state` are changed in place, so `replay` gives a copy.

    Parameters
    ----------
    state : State
        The ledger before the entry.
    row : Row
        The entry.
    exactly : bool
        Whether to add up the cost and compare it with the total that the entry states.
    """
    totals = _totals_after(state, row.body, exactly)
    group_total = totals.group_total
    if group_total is not None:
        partition = row.body["partition"]
        state.groups[partition, row.body["group"]] = group_total
        largest = state.max_group_cost.get(partition, group_total)
        state.max_group_cost[partition] = _max_costs(largest, group_total)
    return dataclasses.replace(
        state, number=row.number, head=row.digest, total=totals.total
    )


def _is_superseded(body: dict[str, Any], following: dict[str, Any]) -> bool:
    """Return whether an entry need not be read, because the next one says enough.

    Every entry states the total after it. So an entry can be skipped if both state a
    total, it is not about a group of a partition, and neither converts the budget.

    Parameters
    ----------
    body, following : dict
        The entry and the next one; the latter is empty if there is none.

    Returns
    -------
    bool
        Whether the entry can be skipped.
    """
    is_plain = "total" in body and body["partition"] is None and body["opens"] is None
    next_is_plain = "total" in following and following["opens"] is None
    return is_plain and next_is_plain


def is_freeze(body: dict[str, Any]) -> bool:
    """Return whether a line of the file closes the ledger instead of charging it.

    Parameters
    ----------
    body : dict
        The content of the line, as JSON values.
    """
    return "frozen" in body


def _check_conversion(budget: Guarantee, rest: "Rest", account: Guarantee) -> None:
    """Refuse a recorded conversion of an (ε, δ) budget that grants too much.

    Parameters
    ----------
    budget : Guarantee
        The budget of the ledger.
    rest : Rest
        The ε and the δ that were left.
    account : Guarantee
        The account to which an entry says it converted the rest.

    Raises
    ------
    LedgerCorrupted
        If at the δ that was left the account's ε is more than the ε that was left.
    """
    has_same_adjacency = account.adjacency == budget.adjacency
    if not (has_same_adjacency and account.epsilon(rest.delta) <= rest.epsilon):
        raise LedgerCorrupted(
            f"{account} is more than the ledger had left; what was spent is unknown"
        )


def unit_in(body: dict[str, Any]) -> PrivacyUnit | None:
    """Return the privacy unit that a line of the file states.

    Parameters
    ----------
    body : dict
        The content of the line, as JSON values.

    Returns
    -------
    PrivacyUnit or None
        None in a line of version 0.2 or before.
    """
    stored = body.get("unit")
    return None if stored is None else PrivacyUnit(stored)


def _with_unit_of_entry(state: State, body: dict[str, Any]) -> State:
    """Return the state with the privacy unit of an entry, if it had none before.

    Parameters
    ----------
    state : State
        The ledger before the entry.
    body : dict
        The entry.

    Returns
    -------
    State
        The state unchanged if it has a unit already, or the entry states none.

    Raises
    ------
    LedgerCorrupted
        If the entry protects another unit than the ledger's. `State.check_unit` refuses
        such entries, so someone else wrote it.
    """
    unit = unit_in(body)
    if unit is None:
        return state
    if state.unit is None:
        return dataclasses.replace(state, unit=unit)
    if not unit.implies(state.unit):
        raise LedgerCorrupted(
            f"the ledger counts for one {state.unit.words} and has an entry for one "
            f"{unit.words}; what was spent is unknown"
        )
    return state


def _totals_after(state: State, body: dict[str, Any], exactly: bool) -> Totals:
    """Return the totals after an entry, as the entry states them or by adding up.

    Parameters
    ----------
    state : State
        The ledger before the entry, after a conversion that the entry makes.
    body : dict
        The entry.
    exactly : bool
        Add up, and refuse an entry that states another total.

    Returns
    -------
    Totals
        The new total, and the new total of the entry's group.

    Raises
    ------
    LedgerCorrupted
        With `exactly`, if the entry states another total.
    """
    stored_total = body.get("total")
    if stored_total is not None and not exactly:
        stored_group_total = body["of_group"]
        group_total = None
        if stored_group_total is not None:
            group_total = _parse_cost(stored_group_total, state.total)
        return Totals(_parse_cost(stored_total, state.total), group_total)

    entry_cost = cost(state.account, guarantee_from_dict(body["guarantee"]))
    totals = state._totals_with(entry_cost, body["partition"], body["group"])
    if stored_total is not None:
        if _parse_cost(stored_total, state.total) != totals.total:
            raise LedgerCorrupted(
                "the ledger's entries do not add up to its total; what was spent is unknown"
            )
    return totals


def _parse_cost(stored: Any, example: Cost) -> Cost:
    """Return a cost that the file stores as a list of texts such as "1/3".

    Parameters
    ----------
    stored : list of str
        The numbers of the cost.
    example : tuple of Fraction
        A cost of the same account, which must have as many numbers.
    """
    return tuple(Fraction(number) for number, _ in zip(stored, example, strict=True))


# ---- costs ---------------------------------------------------------------------------


def cost(account: Guarantee, guarantee: Guarantee) -> Cost:
    """Return the cost of a guarantee: one exact number per parameter that adds up.

    Parameters
    ----------
    account : Guarantee
        The guarantee in whose definition the ledger counts.
    guarantee : Guarantee
        A guarantee of that definition. An account that counts (ε, δ) also takes a pure
        ε, which costs no δ.

    Returns
    -------
    tuple of Fraction
        For example (μ²,) for μ-GDP, and (ε, δ) for (ε, δ)-DP.
    """
    if isinstance(account, ApproxDP) and isinstance(guarantee, PureDP):
        return (Fraction(guarantee.eps), Fraction(0))
    return guarantee.cost()


def guarantee_of_cost(account: Guarantee, total: Cost, *, up: bool) -> Guarantee | None:
    """Return the guarantee that has a given cost.

    Parameters
    ----------
    account : Guarantee
        A guarantee of the wanted definition of privacy and adjacency.
    total : Cost
        The cost, one exact number for each parameter that adds up.
    up : bool
        Round parameters up, for what was spent, or down, for what is left.

    Returns
    -------
    Guarantee or None
        None if the cost is nothing. If only δ is zero, what was spent has the smallest
        possible δ, and what is left is a pure ε.
    """
    if isinstance(account, ApproxDP) and total[1] == 0 < total[0]:
        eps = round_fraction(total[0], up=up)
        if up:
            return dataclasses.replace(account, eps=eps, delta0=_SMALLEST_DELTA)
        return PureDP(eps, adjacency=account.adjacency)
    return type(account).from_cost(total, up=up, like=account)


def _zero_cost(account: Guarantee) -> Cost:
    """Return a cost of zeros, with a number for each parameter of an account.

    Parameters
    ----------
    account : Guarantee
        The guarantee in whose definition the ledger counts.
    """
    return tuple(Fraction(0) for _ in cost(account, account))


def _add_costs(first: Cost, second: Cost) -> Cost:
    """Return the sum of two costs."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _subtract_costs(first: Cost, second: Cost) -> Cost:
    """Return the first cost minus the second, component by component."""
    return tuple(a - b for a, b in zip(first, second, strict=True))


def _max_costs(first: Cost, second: Cost) -> Cost:
    """Return the larger of two costs, component by component."""
    return tuple(max(a, b) for a, b in zip(first, second, strict=True))


# ---- definitions ---------------------------------------------------------------------


def _has_same_definition(guarantee: Guarantee, account: Guarantee) -> bool:
    """Return whether two guarantees have the same definition of privacy.

    Rényi guarantees of different orders count as different definitions.

    Parameters
    ----------
    guarantee, account : Guarantee
        The guarantees that are compared.
    """
    if type(guarantee) is not type(account):
        return False
    if isinstance(guarantee, RenyiDP) and isinstance(account, RenyiDP):
        return guarantee.order == account.order
    return True


def _check_same_rule(guarantee: Guarantee, account: Guarantee) -> None:
    """Refuse a guarantee whose cost cannot be added to those of the ledger.

    Costs are added up for one Rényi order, and for one kind of Rao angle, only.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of a release.
    account : Guarantee
        The guarantee in whose definition the ledger counts.

    Raises
    ------
    ParameterError
        If the order or the kind of angle is another one.
    """
    if isinstance(guarantee, RenyiDP) and isinstance(account, RenyiDP):
        if guarantee.order != account.order:
            raise ParameterError(
                f"the ledger counts order={account.order!r}; {guarantee} has another"
            )
    if isinstance(guarantee, RaoDP) and isinstance(account, RaoDP):
        if guarantee.angle != account.angle:
            raise ParameterError(
                f"the ledger counts angle={account.angle!r}; {guarantee} has another"
            )


def _largest_of_each_parameter(
    account: Guarantee, guarantees: Sequence[Guarantee]
) -> Guarantee:
    """Return the strongest guarantee that each of these guarantees implies.

    In every definition of privacy a larger parameter is a weaker statement. So the
    result has the largest value of each parameter. Where (ε, δ) is counted, a pure ε
    counts as (ε, 0).

    Parameters
    ----------
    account : Guarantee
        The guarantee in whose definition the ledger counts.
    guarantees : sequence of Guarantee
        Guarantees of that definition.

    Returns
    -------
    Guarantee
        The guarantee that all of them satisfy together, if they are about disjoint
        groups of records.
    """
    first = guarantees[0]
    if all(guarantee == first for guarantee in guarantees):
        return first
    if isinstance(account, ApproxDP):
        return _largest_approximate(guarantees)
    largest: dict[str, Any] = {
        name: max(_validate.field_values(guarantee)[name] for guarantee in guarantees)
        for name in account.additive_fields
    }
    return dataclasses.replace(first, **largest)


def _largest_approximate(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Return the guarantee with the largest ε and the largest δ of several.

    Parameters
    ----------
    guarantees : sequence of Guarantee
        Guarantees of the types `ApproxDP` and `PureDP`.

    Returns
    -------
    Guarantee
        A `PureDP` if all of them are pure, and otherwise an `ApproxDP`.
    """
    pure = [guarantee for guarantee in guarantees if isinstance(guarantee, PureDP)]
    approximate = [
        guarantee for guarantee in guarantees if isinstance(guarantee, ApproxDP)
    ]
    both: list[PureDP | ApproxDP] = [*pure, *approximate]
    largest_epsilon = max(guarantee.eps for guarantee in both)
    if not approximate:
        return dataclasses.replace(pure[0], eps=largest_epsilon)
    largest_delta = max(guarantee.delta0 for guarantee in approximate)
    return dataclasses.replace(
        approximate[0], eps=largest_epsilon, delta0=largest_delta
    )


def _to_additive_guarantee(guarantee: Guarantee) -> Guarantee:
    """Return a guarantee that this one implies and whose cost a ledger can add up.

    It is the guarantee itself if its definition has a single parameter that adds up.
    Otherwise it is the μ-GDP that it implies or, if there is none, the ρ-zCDP.

    Parameters
    ----------
    guarantee : Guarantee
        A guarantee of any definition.

    Returns
    -------
    Guarantee
        A guarantee with one parameter that adds up.

    Raises
    ------
    ParameterError
        If it implies neither.
    """
    if len(guarantee.additive_fields) == 1:
        guarantee.cost()  # This refuses a Hellinger angle, which does not add up.
        return guarantee
    for definition in (GDP, ZCDP):
        try:
            return convert(guarantee, to=definition)
        except UnattainableGuarantee:
            continue
    raise ParameterError(
        f"{_validate.shown(guarantee)} has neither μ nor ρ; spend one of its points, "
        "curvedp.privacy.convert(guarantee, to=ApproxDP, delta=1e-6)"
    )


class Rest(NamedTuple):
    """The ε and the δ that are left of an (ε, δ) budget, rounded down."""

    epsilon: float
    delta: float


def _rest_of_budget(budget: Guarantee, spent: Cost) -> Rest:
    """Return the rest of an (ε, δ) budget after spending a cost, rounded down.

    Parameters
    ----------
    budget : Guarantee
        The (ε, δ) budget.
    spent : Cost
        The exact ε and δ that were spent.

    Returns
    -------
    Rest
        The ε and the δ that are left.
    """
    epsilon, delta = _subtract_costs(cost(budget, budget), spent)
    return Rest(round_fraction(epsilon, up=False), round_fraction(delta, up=False))


def largest_account(
    example: Guarantee, epsilon: float, delta: float
) -> Guarantee | None:
    """Return the largest guarantee of a given definition that implies (ε, δ).

    Let ε(p) be the ε at δ of the guarantee with the parameter p. The parameter is 1/t,
    where t is the root of ε(1/t) − ε, which decreases in t. The root is found to 12
    digits and rounded up, so that the guarantee does imply (ε, δ).

    Parameters
    ----------
    example : Guarantee
        A guarantee of the definition, with one parameter; its other fields are kept.
    epsilon, delta : float
        The (ε, δ) that the account must imply.

    Returns
    -------
    Guarantee or None
        None if the search leaves the range of parameters.
    """
    (name,) = example.additive_fields

    def guarantee_at(inverse: float) -> Guarantee:
        """Return the guarantee whose parameter is 1/inverse."""
        parameters: dict[str, Any] = {name: 1 / inverse}
        return dataclasses.replace(example, **parameters)

    def excess(inverse: float) -> float:
        """Return by how much the ε of that guarantee is above the wanted one."""
        return float(guarantee_at(inverse).epsilon(delta)) - epsilon

    lower, upper = expand_bracket(excess, 1.0, limit=_LARGEST_INVERSE)
    if lower <= 0 or upper == math.inf:
        return None
    return guarantee_at(root_rounded_up(excess, lower, upper))
