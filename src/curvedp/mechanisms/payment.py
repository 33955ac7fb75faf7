"""How a release is paid for: once, before anything is drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

from curvedp.errors import ParameterError
from curvedp.ledger import Ledger
from curvedp.mechanisms.base import Mechanism
from curvedp.privacy import Guarantee
from curvedp.privacy.unit import PrivacyUnit

_LONGEST = 200  # characters of a text in a ledger's entry


def check_payer(ledger: Any, label: Any) -> None:
    """Refuse anything but a ledger and a label, before there is anything to pay for; None is neither."""
    if not (ledger is None or isinstance(ledger, Ledger)):
        such = "a curvedp.Ledger, such as Ledger(path, GDP(1.0))"
        raise ParameterError(f"must be {such}", parameter="ledger", value=ledger)
    if not (label is None or (isinstance(label, str) and label)):
        raise ParameterError(
            "must be a text that says what is released", parameter="label", value=label
        )


def pay(
    ledger: Ledger | None,
    label: str,
    asked: Guarantee,
    mechanisms: Sequence[Mechanism],
    unit: PrivacyUnit | None = None,
) -> Mapping[str, Any] | None:
    """Charge a ledger, if there is one, for mechanisms on disjoint groups of records.

    The ledger converts what each of them satisfies to the definition that it counts in,
    refuses what has no such guarantee, and is charged the largest of every parameter
    (parallel composition, `Ledger.spend_on_disjoint_groups`).

    Parameters
    ----------
    ledger : Ledger or None
        What pays.
    label : str
        What the entry is called.
    asked : Guarantee
        What every mechanism was calibrated to.
    mechanisms : sequence of Mechanism
        What will be drawn from, one for each group.
    unit : PrivacyUnit, optional
        Whose data are protected, where that is not what the statistics say.

    Returns
    -------
    mapping or None
        The entry's number and hash, which the certificate notes.
    """
    if ledger is None:
        return None
    # A space without a name is refused here, before anything is paid.
    described = [mechanism.described() for mechanism in mechanisms]
    account = ledger.account
    entry = ledger.spend_on_disjoint_groups(
        [mechanism.bill(account, asked) for mechanism in mechanisms],
        label,
        unit=_unit_of(mechanisms) if unit is None else unit,
        n=_public_number(mechanisms, asked),
        space=_shortened(dict.fromkeys(map(_space_of, described))),
        statistic=_statistic_of(mechanisms),
    )
    return {"entry": entry.number, "head": entry.hash}


def _unit_of(mechanisms: Sequence[Mechanism]) -> PrivacyUnit | None:
    """The privacy unit that all statistics state; None where they do not state one."""
    units = {mechanism.statistic.privacy_unit for mechanism in mechanisms}
    return units.pop() if len(units) == 1 else None


def _public_number(mechanisms: Sequence[Mechanism], asked: Guarantee) -> int | None:
    """How many records or persons all groups have together; None where that is private."""
    if asked.adjacency != "replace-one":
        return None
    total = 0
    for mechanism in mechanisms:
        number: int | None = mechanism.statistic.public_n
        if number is None:
            return None
        total += number
    return total


def _space_of(described: Mapping[str, Any]) -> str:
    """Where the records live; a sum or a variance of them lives elsewhere."""
    return str(described["statistic"].get("manifold", described["manifold"]))


def _statistic_of(mechanisms: Sequence[Mechanism]) -> str:
    """What is released, in a few words."""
    names = _shortened(dict.fromkeys(each.statistic.name for each in mechanisms))
    if len(mechanisms) == 1:
        return names
    return _shortened([f"{names}, of each of {len(mechanisms)} public classes"])


def _shortened(texts: Any) -> str:
    """Texts in a line that an entry of a ledger can hold."""
    line = ", ".join(texts)
    printable = "".join(c if c.isprintable() else "?" for c in line)
    return printable if len(printable) <= _LONGEST else printable[: _LONGEST - 1] + "…"
