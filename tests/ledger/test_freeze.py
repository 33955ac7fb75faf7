"""A frozen ledger takes no charge, and says why; nothing reopens it."""

import copy
import pickle

import numpy as np
import pytest

from curvedp import GDP, ApproxDP, Ledger, PrivateFrechetMean
from curvedp.errors import BudgetExceeded, LedgerCorrupted, ParameterError
from curvedp.geometry import Sphere
from curvedp.ledger.store import append, transaction

REASON = "consent was withdrawn"


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(1.0))
    ledger.spend(GDP(0.6), "mean tensor", unit="record")
    ledger.freeze(REASON)
    return ledger


def charge_by_hand(ledger):
    ledger.spend(GDP(0.1), "another mean")


def charge_groups(ledger):
    ledger.spend_on_disjoint_groups([GDP(0.1), GDP(0.1)], "class means")


def charge_a_partition(ledger):
    ledger.spend(GDP(0.1), "a ward", partition="wards", group="a")


def charge_by_a_fit(ledger):
    records = Sphere(2).project(np.ones((50, 3)))
    PrivateFrechetMean(Sphere(2), radius=0.5, guarantee=GDP(0.1), ledger=ledger).fit(
        records
    )


@pytest.mark.parametrize(
    "reopen",
    [
        lambda ledger: ledger,
        copy.copy,
        lambda ledger: pickle.loads(pickle.dumps(ledger)),
        lambda ledger: Ledger(ledger.path),
        lambda ledger: Ledger(ledger.path, budget=GDP(1.0)),
    ],
)
@pytest.mark.parametrize(
    "charge", [charge_by_hand, charge_groups, charge_a_partition, charge_by_a_fit]
)
def test_no_charge_of_any_kind_after_a_freeze(ledger, reopen, charge):
    head = ledger.head
    with pytest.raises(BudgetExceeded, match=f"frozen on .*{REASON}"):
        charge(reopen(ledger))
    assert ledger.head == head


def test_what_was_spent_stays_on_record(ledger):
    assert ledger.spent == GDP(0.6)
    assert ledger.remaining is None
    assert [entry.label for entry in ledger.entries] == ["mean tensor"]
    assert ledger.verify(ledger.head, ledger.entries[0].hash) == 1
    assert ledger.frozen.reason == REASON


def test_freezing_again_changes_nothing(ledger):
    head = ledger.head
    ledger.freeze("another reason")
    assert (ledger.head, ledger.frozen.reason) == (head, REASON)


def test_an_object_that_was_opened_before_the_freeze_notices_it(tmp_path):
    path = tmp_path / "study.ledger"
    opened_before = Ledger(path, budget=ApproxDP(1.0, 1e-6))
    opened_before.spend(ApproxDP(0.1, 1e-7), "a count")
    Ledger(path).freeze(REASON)
    with pytest.raises(BudgetExceeded, match="frozen"):
        opened_before.spend(ApproxDP(0.1, 1e-7), "a count")


def test_an_entry_after_a_freeze_is_damage(ledger):
    """Whoever writes a valid line behind the freeze is not believed."""
    body = {
        "label": "forged",
        "partition": None,
        "group": None,
        "time": "2026-01-01",
        "guarantee": GDP(0.1).to_dict(),
        "opens": None,
        "total": ["1/4"],
        "of_group": None,
    }
    with transaction(ledger.path) as connection:
        append(connection, body, None)
    with pytest.raises(LedgerCorrupted, match="after it was frozen"):
        _ = Ledger(ledger.path).spent


@pytest.mark.parametrize("reason", ["", None, "a\nb", "a" * 201])
def test_a_freeze_needs_a_reason(tmp_path, reason):
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(1.0))
    with pytest.raises(ParameterError, match="reason"):
        ledger.freeze(reason)
    assert ledger.frozen is None


def test_a_lazy_ledger_without_a_file_cannot_be_frozen(tmp_path):
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(1.0), lazy=True)
    with pytest.raises(ParameterError, match="nothing to freeze"):
        ledger.freeze(REASON)
