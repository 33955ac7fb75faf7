"""How a release is paid for: once, before anything is drawn."""

from collections.abc import Mapping
from typing import Any

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.ledger import Ledger
from curvedp.mechanisms.base import Mechanism
from curvedp.privacy import Guarantee


def check_payer(ledger: Any, label: Any) -> None:
    """Refuse anything but a ledger and a label, before there is anything to pay for; None is neither."""
    if not (ledger is None or isinstance(ledger, Ledger)):
        such = "a curvedp.Ledger, such as Ledger(path, GDP(1.0))"
        raise ParameterError(f"ledger={_validate.shown(ledger)} must be {such}")
    if not (label is None or (isinstance(label, str) and label)):
        raise ParameterError(
            f"label={_validate.shown(label)} must be a text that says what is released"
        )


def pay(
    ledger: Ledger | None, label: str, asked: Guarantee, *mechanisms: Mechanism
) -> Mapping[str, Any] | None:
    """Charge a ledger, if there is one, for the most expensive of mechanisms on disjoint groups (parallel composition).

    The entry's number and hash, which the certificate notes."""
    if ledger is None:
        return None
    for mechanism in mechanisms:
        mechanism.described()  # a space without a name is refused before anything is paid
    account = ledger.account
    bills = [mechanism.bill(account, asked) for mechanism in mechanisms]
    entry = ledger.spend(max(bills, key=lambda bill: bill.cost()), label)
    return {"entry": entry.number, "head": entry.hash}
