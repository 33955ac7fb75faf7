"""How a release is paid for: once, before anything is drawn."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from curvedp.core.codes import ProtectedUnit
from curvedp.core.mechanism import Mechanism, describe_mechanism
from curvedp.errors import CurvedpError, ParameterError
from curvedp.ledger import Ledger
from curvedp.privacy import Guarantee, RenyiDP, convert
from curvedp.privacy.unit import PrivacyUnit

# Characters of a text in a ledger's entry.
_MAX_TEXT_LENGTH = 200


def open_ledger(
    path: Path,
    budget: Guarantee | None = None,
    *,
    key: Path | None = None,
    lazy: bool = False,
    unit: PrivacyUnit | None = None,
) -> Ledger:
    """Open the ledger that pays for a release, for the command line and the studio.

    There `key` is the name of an option of its own, such as the array in a file. So
    what is wrong with the ledger's key is said of a parameter called `ledger_key`.

    Parameters
    ----------
    path, budget, key, lazy, unit
        As for `Ledger`.

    Raises
    ------
    ParameterError, LedgerCorrupted
        As `Ledger` does.
    """
    try:
        return Ledger(path, budget, key=key, lazy=lazy, unit=unit)
    except ParameterError as error:
        if error.parameter != "key":
            raise
        raise ParameterError(
            error.rule, parameter="ledger_key", value=error.value
        ) from None


def check_payer(ledger: Any, label: Any) -> None:
    """Refuse anything but a ledger and a label, before there is anything to pay for.

    Parameters
    ----------
    ledger, label : object
        What the caller passes as `ledger=` and `label=`; both may be None.

    Raises
    ------
    ParameterError
        If one of them is of the wrong type.
    """
    if not (ledger is None or isinstance(ledger, Ledger)):
        raise ParameterError(
            "must be a curvedp.Ledger, such as Ledger(path, GDP(1.0))",
            parameter="ledger",
            value=ledger,
        )
    if not (label is None or (isinstance(label, str) and label)):
        raise ParameterError(
            "must be a text that says what is released", parameter="label", value=label
        )


def pay(
    ledger: Ledger | None,
    label: str,
    requested: Guarantee,
    mechanisms: Sequence[Mechanism],
    privacy_unit: ProtectedUnit | PrivacyUnit | None = None,
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
    requested : Guarantee
        What every mechanism was calibrated to.
    mechanisms : sequence of Mechanism
        What will be drawn from, one for each group.
    privacy_unit : ProtectedUnit or PrivacyUnit, optional
        Whose data are protected, where that is not the statistics' default.

    Returns
    -------
    mapping or None
        The entry's number and hash, which the certificate notes.
    """
    if ledger is None:
        return None
    # A space without a name is refused here, before anything is paid.
    descriptions = [describe_mechanism(mechanism) for mechanism in mechanisms]
    charges = [
        charge_for(mechanism, ledger.account, requested) for mechanism in mechanisms
    ]
    spaces = [
        str(description["statistic"].get("manifold", description["manifold"]))
        for description in descriptions
    ]
    entry = ledger.spend_on_disjoint_groups(
        charges,
        label,
        unit=_ledger_unit(mechanisms, privacy_unit),
        n=_public_count(mechanisms, requested),
        space=_shorten(dict.fromkeys(spaces)),
        statistic=_describe_statistics(mechanisms),
    )
    return {"entry": entry.number, "head": entry.hash}


def charge_for(
    mechanism: Mechanism, budget: Guarantee, requested: Guarantee
) -> Guarantee:
    """Return what a ledger with this budget is charged for a release.

    If the requested guarantee has the budget's definition, it is charged. Otherwise the
    charge follows from the mechanism's own privacy profile, which is exact where a
    single (ε, δ) implies nothing. If the profile implies nothing either, the requested
    guarantee is returned, and the ledger converts or refuses it.

    Parameters
    ----------
    mechanism : Mechanism
        The calibrated mechanism.
    budget : Guarantee
        The budget of the ledger.
    requested : Guarantee
        The guarantee that the caller asked for, which the mechanism satisfies.
    """
    order = budget.order if isinstance(budget, RenyiDP) else None
    if type(requested) is type(budget):
        if not isinstance(requested, RenyiDP) or requested.order == order:
            return requested
    try:
        return convert(mechanism.privacy_profile, to=type(budget), order=order)
    except CurvedpError:
        return requested


def _ledger_unit(
    mechanisms: Sequence[Mechanism],
    privacy_unit: ProtectedUnit | PrivacyUnit | None,
) -> PrivacyUnit | None:
    """Return the unit that a ledger is told: None if no single one is stated.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        What is paid for; the default units of their statistics are taken if
        `privacy_unit` is None.
    privacy_unit : ProtectedUnit, PrivacyUnit or None
        Whose data are protected, as the caller of `pay` says.
    """
    if isinstance(privacy_unit, PrivacyUnit):
        return privacy_unit
    if isinstance(privacy_unit, ProtectedUnit):
        return privacy_unit.ledger_unit
    default_units = {
        mechanism.statistic.privacy_units[0].ledger_unit for mechanism in mechanisms
    }
    return default_units.pop() if len(default_units) == 1 else None


def _public_count(mechanisms: Sequence[Mechanism], requested: Guarantee) -> int | None:
    """Return how many records or people all groups have, or None if that is private.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        The mechanism of each group of records.
    requested : Guarantee
        The guarantee that the caller asked for; "add-remove" makes the count private.
    """
    if requested.adjacency != "replace-one":
        return None
    total = 0
    for mechanism in mechanisms:
        count = mechanism.statistic.public_count
        if count is None:
            return None
        total += count
    return total


def _describe_statistics(mechanisms: Sequence[Mechanism]) -> str:
    """Return what is released, in a few words."""
    names = _shorten(dict.fromkeys(each.statistic.name for each in mechanisms))
    if len(mechanisms) == 1:
        return names
    return _shorten([f"{names}, of each of {len(mechanisms)} public classes"])


def _shorten(texts: Iterable[str]) -> str:
    """Join texts to one printable line that an entry of a ledger can hold.

    Parameters
    ----------
    texts : iterable of str
        The texts. The line ends with "…" if they are too long.
    """
    line = ", ".join(texts)
    printable = "".join(c if c.isprintable() else "?" for c in line)
    if len(printable) <= _MAX_TEXT_LENGTH:
        return printable
    return printable[: _MAX_TEXT_LENGTH - 1] + "…"
