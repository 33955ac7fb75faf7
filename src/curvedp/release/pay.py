"""Charge a ledger for a release, once and before anything is drawn. A *ledger* is a
file that adds up the privacy cost of all releases from one data set, in one definition
of privacy such as μ-GDP. A guarantee in another definition is converted to it first.

`pay` computes the charge and appends an entry to the ledger.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from curvedp.core.codes import ProtectedUnit
from curvedp.core.mechanism import Mechanism, describe_mechanism
from curvedp.errors import CurvedpError, ParameterError
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, ZCDP, ApproxDP, Guarantee, RenyiDP, convert
from curvedp.privacy.unit import PrivacyUnit

# The largest number of characters of a text in an entry of a ledger.
_MAX_TEXT_LENGTH = 200

# The definitions in which Gaussian noise has a finite cost.
_GAUSSIAN_ACCOUNTS = (GDP, ZCDP, RenyiDP)

# μ of a request is rounded down by this part of itself, more than its computation errs.
_MU_ROUNDING = 1e-9

# A charge that is larger than needed by this factor of μ is remarked on.
_NOTABLE_RATIO = 1.1


def open_ledger(
    path: Path,
    budget: Guarantee | None = None,
    *,
    key: Path | None = None,
    lazy: bool = False,
    unit: PrivacyUnit | None = None,
) -> Ledger:
    """Open the ledger that pays for a release, for the command line and the studio.

    In these programs `key` is the name of another option (which array in a file to
    read). An error about the key of the ledger therefore names the parameter
    `ledger_key`.

    Parameters
    ----------
    path : Path
        The file of the ledger.
    budget : Guarantee, optional
        The budget; needed for a new ledger.
    key : Path, optional
        The file of the key with which entries are signed.
    lazy : bool
        Whether the file is created only when the first entry is written.
    unit : PrivacyUnit, optional
        The unit of privacy for which the ledger counts.

    Returns
    -------
    Ledger
        The ledger, opened or new.

    Raises
    ------
    ParameterError
        If a new ledger has no budget, or a parameter contradicts the file.
    LedgerCorrupted
        If the file was changed by hand, or a signature is not valid.
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
    """Check the types of the parameters `ledger` and `label` of a release.

    Used by estimators among their other parameter checks, before anything is paid.

    Parameters
    ----------
    ledger : object
        Must be a `Ledger` or None.
    label : object
        Must be a nonempty text or None.

    Raises
    ------
    ParameterError
        If one of them has the wrong type.
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
    """Charge a ledger, if there is one, for the mechanisms of disjoint groups of records.

    Groups of different records compose in parallel: the charge is the largest value of
    every parameter over the mechanisms (`Ledger.spend_on_disjoint_groups`). The
    guarantee of each mechanism is converted to the definition that the ledger counts
    in.

    Parameters
    ----------
    ledger : Ledger or None
        The ledger that is charged. If it is None, nothing happens.
    label : str
        The name of the entry.
    requested : Guarantee
        The guarantee to which every mechanism was calibrated.
    mechanisms : sequence of Mechanism
        The mechanism of each group of records.
    privacy_unit : ProtectedUnit or PrivacyUnit, optional
        The unit of privacy, if it is not the default of the statistics.

    Returns
    -------
    mapping or None
        The number and the hash of the entry, for the certificate; None without a
        ledger.

    Raises
    ------
    BudgetExceeded
        If the budget does not suffice.
    ParameterError
        If the manifold of a mechanism has no name for the ledger's entry, or a
        guarantee cannot be converted.
    """
    if ledger is None:
        return None
    # A manifold without a name is refused here, before anything is paid.
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
        space=_join_shortened(dict.fromkeys(spaces)),
        statistic=_describe_statistics(mechanisms),
    )
    return {"entry": entry.number, "head": entry.hash}


def charge_for(
    mechanism: Mechanism, budget: Guarantee, requested: Guarantee
) -> Guarantee:
    """Return the guarantee that a ledger is charged for a release.

    If the requested guarantee is in the same definition as the budget (both μ-GDP, for
    example), it is the charge. Otherwise the mechanism's privacy profile is converted
    to that definition; it says more than a single pair (ε, δ). If that is impossible,
    the requested guarantee is returned, which the ledger converts or refuses.

    Parameters
    ----------
    mechanism : Mechanism
        The calibrated mechanism.
    budget : Guarantee
        The budget of the ledger.
    requested : Guarantee
        The guarantee that the caller asked for, which the mechanism satisfies.

    Returns
    -------
    Guarantee
        What `Ledger.spend` is to be called with, usually in the ledger's definition.
    """
    order = budget.order if isinstance(budget, RenyiDP) else None
    if type(requested) is type(budget):
        if not isinstance(requested, RenyiDP) or requested.order == order:
            return requested
    try:
        return convert(mechanism.privacy_profile, to=type(budget), order=order)
    except CurvedpError:
        return requested


def cheapest_request(requested: Guarantee, ledger: Ledger | None) -> Guarantee:
    """Return the request with the same promise for which a ledger is charged least.

    Some releases meet (ε, δ) best with Laplace noise of pure ε, which is dear where the
    ledger counts μ, ρ or Rényi divergences: (1, 10⁻⁶) costs μ = 1.23 that way. Gaussian
    noise with the largest μ that implies (ε, δ), here 0.237, costs no more than needed.
    The release then meets both: it satisfies that μ-GDP, which implies (ε, δ).

    Parameters
    ----------
    requested : Guarantee
        What the release must satisfy.
    ledger : Ledger or None
        The ledger that pays.

    Returns
    -------
    Guarantee
        `requested` itself, or a `GDP` that implies it.

    Examples
    --------
    >>> import tempfile
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "study.ledger", GDP(1.0))
    >>> round(cheapest_request(ApproxDP(1.0, 1e-6), ledger).mu, 4)
    0.2367
    >>> cheapest_request(GDP(0.5), ledger)
    GDP(0.5)
    """
    if ledger is None or not isinstance(requested, ApproxDP):
        return requested
    if not isinstance(ledger.account, _GAUSSIAN_ACCOUNTS):
        return requested
    # A federated site, which pays too, need not load the laws of noise.
    from curvedp.mechanisms.vector import smallest_gaussian_scale

    # How much noise is needed does not depend on what neighboring data sets are.
    same_numbers = replace(requested, adjacency="replace-one")
    mu = (1 - _MU_ROUNDING) / smallest_gaussian_scale(same_numbers)
    return GDP(mu, adjacency=requested.adjacency)


def remark_on_charge(
    mechanisms: Sequence[Mechanism], requested: Guarantee, ledger: Ledger | None
) -> str | None:
    """Say before payment that a ledger is about to be charged more than is needed.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        The calibrated mechanisms, one for each group of records.
    requested : Guarantee
        The guarantee to which they were calibrated.
    ledger : Ledger or None
        The ledger that is about to pay; without one there is nothing to say.

    Returns
    -------
    str or None
        A sentence for the user. None if the charge exceeds that of the cheapest request
        for the same promise by less than a tenth of μ, or is not finite.
    """
    cheapest = cheapest_request(requested, ledger)
    if ledger is None or not isinstance(cheapest, GDP) or cheapest == requested:
        return None
    charges = [
        charge_for(mechanism, GDP(1.0), requested).implied_mu()
        for mechanism in mechanisms
    ]
    largest = max(charges, default=0.0)
    is_notable = largest > _NOTABLE_RATIO * cheapest.mu
    if not is_notable or not isfinite(largest):
        return None
    return (
        f"the ledger will be charged GDP({largest:.4g}) for {requested}, "
        f"{(largest / cheapest.mu) ** 2:.3g} times as much of μ² as {cheapest}, which "
        f"implies {requested} too: use guarantee={cheapest!r}"
    )


def _ledger_unit(
    mechanisms: Sequence[Mechanism],
    privacy_unit: ProtectedUnit | PrivacyUnit | None,
) -> PrivacyUnit | None:
    """Return the unit of privacy for a ledger's entry.

    A ledger counts for one unit of privacy, such as a person, and refuses releases for
    another unit.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        The mechanisms that are paid for.
    privacy_unit : ProtectedUnit, PrivacyUnit or None
        The unit that the caller of `pay` states. If it is None, the default unit of the
        statistics is used.

    Returns
    -------
    PrivacyUnit or None
        None if the statistics have different default units.
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
    """Return the number of records or people of all groups, or None if it is private.

    The entry of a ledger states it, if it is public.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        The mechanism of each group of records.
    requested : Guarantee
        The guarantee that the caller asked for; "add-remove" makes the count private.

    Returns
    -------
    int or None
        The sum of the groups' numbers, which the ledger's entry states.
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
    """Return the names of the released statistics as one line of text.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        The mechanism of each group of records.

    Returns
    -------
    str
        Such as "Fréchet mean, of each of 3 public classes".
    """
    # A dictionary keeps one of each name, in their order.
    distinct_names = dict.fromkeys(mechanism.statistic.name for mechanism in mechanisms)
    names = _join_shortened(distinct_names)
    if len(mechanisms) == 1:
        return names
    return _join_shortened([f"{names}, of each of {len(mechanisms)} public classes"])


def _join_shortened(texts: Iterable[str]) -> str:
    """Join texts to one printable line that an entry of a ledger can hold.

    A character that cannot be printed becomes "?".

    Parameters
    ----------
    texts : iterable of str
        The parts of the line, which commas separate.

    Returns
    -------
    str
        At most 200 characters; a longer line is cut and ends with "…".
    """
    line = ", ".join(texts)
    printable = "".join(c if c.isprintable() else "?" for c in line)
    if len(printable) <= _MAX_TEXT_LENGTH:
        return printable
    return printable[: _MAX_TEXT_LENGTH - 1] + "…"
