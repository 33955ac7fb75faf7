"""A file that was set back or replaced under an object; a file that is made when first paid."""

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone

from curvedp import PrivateFrechetMean
from curvedp.errors import BudgetExceeded, CurvedpError, LedgerCorrupted, ParameterError
from curvedp.geometry import Sphere
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, PrivacyUnit

USES = {
    "spend": lambda ledger: ledger.spend(GDP(0.9), "again"),
    "spend on groups": lambda ledger: ledger.spend_on_disjoint_groups(
        [GDP(0.9), GDP(0.1)], "again"
    ),
    "spent": lambda ledger: ledger.spent,
    "remaining": lambda ledger: ledger.remaining,
    "entries": lambda ledger: ledger.entries,
    "head": lambda ledger: ledger.head,
    "unit": lambda ledger: ledger.unit,
    "account": lambda ledger: ledger.account,
    "verify": lambda ledger: ledger.verify(),
}
COPIES = {
    "itself": lambda ledger: ledger,
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda ledger: pickle.loads(pickle.dumps(ledger)),
    "clone": lambda ledger: clone(PrivateFrechetMean(Sphere(2), ledger=ledger)).ledger,
}


def _ask_nothing(ledger):
    """Nobody asks."""


def _read_what_is_spent(ledger):
    assert ledger.spent is not None


def _ask_for_too_much(ledger):
    with pytest.raises(BudgetExceeded):
        ledger.spend(GDP(5.0), "too much")


# What is asked between the last entry and the moment at which the file is set back.
BETWEEN = {
    "nothing": _ask_nothing,
    "refused": _ask_for_too_much,
    "read": _read_what_is_spent,
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.ledger"


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("use", USES)
def test_an_object_notices_that_its_own_entry_was_taken_back(
    path, use, copied, between
):
    """Σμ² = 1.63 of 1 was spent this way."""
    ledger = Ledger(path, GDP(1.0))
    ledger.spend(GDP(0.1), "first")
    older = path.read_bytes()
    ledger.spend(GDP(0.9), "second")
    BETWEEN[between](ledger)
    witness = COPIES[copied](ledger)
    path.write_bytes(older)
    with pytest.raises(LedgerCorrupted, match="does not continue"):
        USES[use](witness)
    assert path.read_bytes() == older


@pytest.mark.parametrize("copied", COPIES)
def test_the_first_entry_is_noticed_too(path, copied):
    ledger = Ledger(path, GDP(1.0))
    older = path.read_bytes()
    ledger.spend(GDP(0.9), "first")
    witness = COPIES[copied](ledger)
    path.write_bytes(older)
    with pytest.raises(LedgerCorrupted, match="does not continue"):
        witness.spend(GDP(0.9), "again")


def test_an_entry_that_was_not_committed_is_not_remembered(path, monkeypatch):
    """A full disk at the commit: nothing was spent, and the object goes on."""
    import sqlite3

    class Failing(sqlite3.Connection):
        def execute(self, statement, *arguments):
            if statement == "COMMIT":
                raise sqlite3.OperationalError("disk full")
            return super().execute(statement, *arguments)

    ledger = Ledger(path, GDP(1.0))
    real = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(
            sqlite3,
            "connect",
            lambda *args, **options: real(*args, factory=Failing, **options),
        )
        with pytest.raises(CurvedpError, match="Nothing was spent"):
            ledger.spend(GDP(0.9), "never")
    assert ledger.spent is None
    ledger.spend(GDP(0.9), "once")
    assert ledger.verify() == 1


def test_threads_that_share_an_object_never_forget(path):
    ledger = Ledger(path, GDP(10.0))

    def spend():
        for _ in range(10):
            ledger.spend(GDP(0.1), "x")

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.verify() == 40
    assert ledger.spent.mu == pytest.approx(np.sqrt(0.4))


# ---- a ledger that is made with its first entry


def test_a_lazy_ledger_is_made_by_its_first_entry(path):
    ledger = Ledger(path, GDP(1.0), lazy=True, unit="person")
    assert ledger.budget == ledger.remaining == ledger.account == GDP(1.0)
    assert (ledger.spent, ledger.entries, ledger.verify()) == (None, [], 0)
    assert (ledger.unit, ledger.extends("x")) == (PrivacyUnit.PERSON, False)
    assert "GDP(1.0) of GDP(1.0) remains" in repr(ledger)
    assert "GDP(1.0)" in ledger._repr_html_()
    with pytest.raises(LedgerCorrupted, match="is gone"):
        ledger.verify("0" * 64)
    assert not path.exists()
    entry = ledger.spend(GDP(0.6), "first", unit="person")
    assert entry.number == 1
    assert Ledger(path).entries == [entry]
    assert Ledger(path).unit is PrivacyUnit.PERSON


REFUSED = {
    "too much": lambda ledger: ledger.spend(GDP(1.5), "x"),
    "another unit": lambda ledger: ledger.spend(GDP(0.1), "x", unit="record"),
    "another adjacency": lambda ledger: ledger.spend(
        GDP(0.1, adjacency="add-remove"), "x"
    ),
    "no label": lambda ledger: ledger.spend(GDP(0.1), ""),
    "no guarantee": lambda ledger: ledger.spend(0.1, "x"),
    "one of two": lambda ledger: ledger.spend_on_disjoint_groups(
        [GDP(0.1), GDP(1.5)], "x"
    ),
}


@pytest.mark.parametrize("copied", ["itself", "copy", "deep copy", "clone"])
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_leaves_no_file(path, what, copied):
    ledger = COPIES[copied](Ledger(path, GDP(1.0), lazy=True, unit="person"))
    with pytest.raises(CurvedpError):
        REFUSED[what](ledger)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_deletes_no_entry_of_another(path, what):
    """In every order: the other process makes and spends before, or after, the refusal."""
    ledger = Ledger(path, GDP(1.0), lazy=True, unit="person")
    entry = Ledger(path, GDP(1.0), unit="person").spend(GDP(0.9), "another's")
    with pytest.raises(CurvedpError):
        REFUSED[what](ledger)
    assert Ledger(path).entries == [entry]
    with pytest.raises(BudgetExceeded):
        ledger.spend(GDP(0.9), "a second time")


def test_a_faster_process_is_joined_where_it_wants_the_same(path):
    first, second = (Ledger(path, GDP(1.0), lazy=True) for _ in range(2))
    other = Ledger(path, GDP(1.0), lazy=True, unit="record")
    first.spend(GDP(0.6), "first")
    second.spend(GDP(0.6), "second")
    assert [entry.label for entry in Ledger(path).entries] == ["first", "second"]
    with pytest.raises(ParameterError, match="does not say whom"):
        other.spend(GDP(0.1), "third")


def test_a_faster_process_with_another_budget_is_not_joined(path):
    ledger = Ledger(path, GDP(1.0), lazy=True)
    Ledger(path, GDP(5.0))
    with pytest.raises(ParameterError, match="was started with budget"):
        ledger.spend(GDP(0.9), "x")
    assert Ledger(path).entries == []


def test_a_lazy_ledger_that_is_gone_is_not_made_anew(path):
    ledger = Ledger(path, GDP(1.0), lazy=True)
    ledger.spend(GDP(0.9), "once")
    path.unlink()
    with pytest.raises(CurvedpError, match="cannot open"):
        ledger.spend(GDP(0.9), "twice")
    assert not path.exists()


@pytest.mark.parametrize("copied", ["copy", "deep copy", "clone"])
def test_copies_of_a_lazy_ledger_make_one_file(path, copied):
    ledger = Ledger(path, GDP(1.0), lazy=True)
    other = COPIES[copied](ledger)
    ledger.spend(GDP(0.6), "by one")
    other.spend(GDP(0.6), "by the other")
    with pytest.raises(BudgetExceeded):
        other.spend(GDP(0.6), "too much")
    assert Ledger(path).verify() == 2


# ---- copies of a ledger whose file is not yet made


def _delete(path, older):
    path.unlink()


def _set_back(path, older):
    path.write_bytes(older)


def _replace(path, older):
    path.unlink()
    Ledger(path, GDP(1.0))


# What may happen to the file after it was made and spent from.
ROLLBACKS = {"deleted": _delete, "replaced": _replace}


@pytest.mark.parametrize("rollback", ROLLBACKS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("copied", ["copy", "deep copy", "clone"])
def test_a_copy_of_a_lazy_ledger_notices_a_rollback(path, copied, use, rollback):
    """It was copied before there was a file, and another copy has spent since."""
    ledger = Ledger(path, GDP(1.0), lazy=True)
    other = COPIES[copied](COPIES[copied](ledger))
    ledger.spend(GDP(0.9), "first")
    ROLLBACKS[rollback](path, b"")
    existed = path.exists()
    with pytest.raises(CurvedpError):
        USES[use](other)
    assert path.exists() == existed


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("copied", ["itself", "copy", "deep copy", "clone"])
def test_a_ledger_without_a_file_is_not_pickled(path, copied, protocol):
    """Its pickle would make the file anew after it was spent from and deleted."""
    ledger = COPIES[copied](Ledger(path, GDP(1.0), lazy=True))
    for pickled in (ledger, PrivateFrechetMean(Sphere(2), ledger=ledger)):
        with pytest.raises(ParameterError, match="cannot be pickled"):
            pickle.dumps(pickled, protocol)
    assert not path.exists()


@pytest.mark.parametrize("made_by", ["itself", "a copy", "another process"])
def test_a_lazy_ledger_is_pickled_with_its_protection_once_there_is_a_file(
    path, made_by
):
    ledger = Ledger(path, GDP(1.0), lazy=True)
    maker = ledger
    if made_by == "a copy":
        maker = copy.copy(ledger)
    if made_by == "another process":
        maker = Ledger(path, GDP(1.0))
    maker.spend(GDP(0.1), "first")
    older = path.read_bytes()
    maker.spend(GDP(0.9), "second")
    pickled = pickle.dumps(ledger)
    _set_back(path, older)
    with pytest.raises(LedgerCorrupted, match="does not continue"):
        pickle.loads(pickled).spend(GDP(0.9), "again")
    path.unlink()
    with pytest.raises(CurvedpError, match="cannot open"):
        pickle.loads(pickled).spend(GDP(0.9), "again")
    assert not path.exists()
