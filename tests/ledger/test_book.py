"""The budget on disk: exact, atomic, shared, and aware of tampering."""

import copy
import hashlib
import json
import math
import multiprocessing
import os
import pickle
import signal
import sqlite3
import threading
import time
from fractions import Fraction

import pytest

from curvedp.errors import (
    BudgetExceeded,
    CurvedpError,
    LedgerCorrupted,
    ParameterError,
    UnattainableGuarantee,
)
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, RaoDP, RenyiDP, compose


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.ledger"


def test_spending_composes_in_the_budgets_definition(path):
    ledger = Ledger(path, GDP(1.0))
    assert ledger.spent is None
    assert ledger.remaining == GDP(1.0)
    ledger.spend(GDP(0.6), "mean")
    assert ledger.spent == GDP(0.6)
    assert ledger.remaining.mu == pytest.approx(0.8, abs=1e-15)
    with pytest.raises(BudgetExceeded, match="remains"):
        ledger.spend(GDP(0.81), "too much")
    assert [e.label for e in ledger.entries] == ["mean"]
    ledger.spend(ledger.remaining, "the rest")  # what remains always fits
    assert ledger.spent.mu <= 1.0 or Fraction(ledger.spent.mu) ** 2 - 1 < Fraction(
        1, 2**50
    )


@pytest.mark.parametrize(
    ("budget", "part", "times"),
    [
        (PureDP(1.0), PureDP(0.1), 9),  # ten times the double 0.1 is above 1, exactly
        (PureDP(1.0), PureDP(0.125), 8),
        (ZCDP(0.5), ZCDP(0.0625), 8),
        (RenyiDP(8.0, 1.0), RenyiDP(8.0, 0.25), 4),
        (GDP(1.0), GDP(0.25), 16),
        (RaoDP(1.0), RaoDP(0.5), 4),
        (ApproxDP(1.0, 2.0**-20), ApproxDP(0.25, 2.0**-22), 4),
    ],
)
def test_sums_are_exact_rationals(path, budget, part, times):
    ledger = Ledger(path, budget)
    for number in range(times):
        ledger.spend(part, f"part {number}")
    with pytest.raises(BudgetExceeded):
        ledger.spend(part, "one too many")
    assert len(ledger.entries) == times


def test_other_definitions_are_converted_and_never_cheaper(path):
    ledger = Ledger(path, GDP(2.0))
    entry = ledger.spend(PureDP(1.0), "a pure release")
    assert isinstance(entry.guarantee, GDP)
    for eps in (0.0, 0.2, 0.9):
        assert entry.guarantee.delta(eps) >= PureDP(1.0).delta(eps) * (1 - 1e-12)


@pytest.mark.parametrize(
    ("budget", "wrong"),
    [
        (GDP(1.0), GDP(0.1, adjacency="add-remove")),
        (RenyiDP(8.0, 1.0), RenyiDP(4.0, 0.1)),
        (PureDP(1.0), GDP(0.1)),
        (GDP(1.0), ZCDP(0.1)),
        (ApproxDP(1.0, 1e-6), RaoDP(0.1, angle="hellinger")),
        (RaoDP(1.0), RaoDP(0.1, angle="hellinger")),
    ],
)
def test_what_cannot_be_expressed_is_refused(path, budget, wrong):
    ledger = Ledger(path, budget)
    with pytest.raises((ParameterError, UnattainableGuarantee)):
        ledger.spend(wrong, "wrong")
    assert ledger.spent is None


def test_disjoint_groups_cost_the_dearest(path):
    ledger = Ledger(path, PureDP(1.0))
    for group in "abc":
        ledger.spend(PureDP(0.5), f"class {group}", partition="classes", group=group)
    assert ledger.spent == PureDP(0.5)
    ledger.spend(PureDP(0.25), "class a again", partition="classes", group="a")
    assert ledger.spent == PureDP(0.75)
    ledger.spend(PureDP(0.25), "all together")
    assert ledger.spent == PureDP(1.0)
    assert ledger.remaining is None
    ledger.spend(
        PureDP(0.25), "class b again", partition="classes", group="b"
    )  # still below the dearest group
    with pytest.raises(BudgetExceeded, match="nothing"):
        ledger.spend(PureDP(0.001), "more")
    with pytest.raises(ParameterError, match="together"):
        ledger.spend(PureDP(0.1), "half", partition="classes")


def test_reopening(path):
    Ledger(path, GDP(1.0)).spend(GDP(0.5), "first")
    assert Ledger(path).spent == GDP(0.5)
    assert Ledger(path, GDP(1.0)).budget == GDP(1.0)
    with pytest.raises(ParameterError, match="was started with"):
        Ledger(path, GDP(3.0))


def test_copies_spend_from_the_same_budget(path):
    ledger = Ledger(path, PureDP(1.0))
    for other in (
        copy.deepcopy(ledger),
        pickle.loads(pickle.dumps(ledger)),
        copy.copy(ledger),
    ):
        other.spend(PureDP(0.25), "through a copy")
    assert ledger.spent == PureDP(0.75)


def _spend_until_refused(path, count):
    accepted = 0
    for _ in range(count):
        try:
            Ledger(path).spend(PureDP(1 / 64), "worker")
            accepted += 1
        except BudgetExceeded:
            pass
    return accepted


def test_threads_never_overspend(path):
    Ledger(path, PureDP(0.5))
    accepted = []
    threads = [
        threading.Thread(target=lambda: accepted.append(_spend_until_refused(path, 12)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(accepted) == 32 == len(Ledger(path).entries)
    assert Ledger(path).remaining is None


def test_processes_never_overspend(path):
    Ledger(path, PureDP(0.5))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        accepted = pool.starmap(_spend_until_refused, [(path, 24)] * 2)
    assert sum(accepted) == 32 == len(Ledger(path).entries)


def _spend_forever(path, started):
    ledger = Ledger(path)
    started.set()
    while True:
        ledger.spend(GDP(1e-4), "until killed")


def test_a_killed_process_leaves_a_ledger_that_holds(path):
    ledger = Ledger(path, GDP(1.0))
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    process = context.Process(target=_spend_forever, args=(path, started))
    process.start()
    assert started.wait(60)
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    before = len(ledger.entries)  # the chain is verified on every read
    assert before > 0
    ledger.spend(GDP(0.5), "after the crash")
    assert len(ledger.entries) == before + 1


def test_the_head_changes_with_every_entry(path):
    ledger = Ledger(path, GDP(1.0))
    heads = {ledger.head}
    for number in range(3):
        ledger.spend(GDP(0.1), f"{number}")
        heads.add(ledger.head)
    assert len(heads) == 4


def test_a_refusal_says_what_remains(path):
    ledger = Ledger(path, PureDP(1.0))
    ledger.spend(PureDP(0.25), "one")
    with pytest.raises(
        BudgetExceeded, match=r"PureDP\(0\.75\) of PureDP\(1\.0\) remains"
    ):
        ledger.spend(PureDP(0.875), "two")
    ledger.spend(PureDP(0.75), "three")
    with pytest.raises(BudgetExceeded, match="nothing of"):
        ledger.spend(PureDP(0.125), "four")


def test_spent_is_rounded_up_and_remaining_down(path):
    ledger = Ledger(path, PureDP(1.0))
    spent = Fraction(0)
    for eps in (0.1, 0.2, 0.03, 0.07):
        ledger.spend(PureDP(eps), "part")
        spent += Fraction(eps)
        assert (
            Fraction(ledger.spent.eps)
            >= spent
            > Fraction(math.nextafter(ledger.spent.eps, 0))
        )
        assert (
            Fraction(ledger.remaining.eps)
            <= 1 - spent
            < Fraction(math.nextafter(ledger.remaining.eps, 1))
        )


def test_entries_are_plain_json_without_data(path):
    Ledger(path, GDP(1.0)).spend(GDP(0.1), "mean")
    connection = sqlite3.connect(path)
    bodies = [
        json.loads(body) for (body,) in connection.execute("SELECT body FROM entries")
    ]
    connection.close()
    assert set(bodies[1]) == {
        "label",
        "guarantee",
        "partition",
        "group",
        "time",
        "opens",
        "total",
        "of_group",
        "unit",
        "n",
        "space",
        "statistic",
    }
    assert Fraction(bodies[1]["total"][0]) == Fraction(0.1) ** 2


def test_a_read_only_ledger_spends_nothing(path, monkeypatch):
    ledger = Ledger(path, GDP(1.0))
    real = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda p, **kw: real(p.replace("mode=rw", "mode=ro"), **kw)
    )
    with pytest.raises(CurvedpError, match="Nothing was spent"):
        ledger.spend(GDP(0.1), "mean")
    monkeypatch.undo()
    assert ledger.spent is None


@pytest.mark.parametrize("label", ["", None, 3])
def test_an_entry_needs_a_label(path, label):
    with pytest.raises(ParameterError, match="label"):
        Ledger(path, GDP(1.0)).spend(GDP(0.1), label)


def test_a_ledger_needs_a_budget_and_a_folder(path, tmp_path):
    with pytest.raises(ParameterError, match="budget"):
        Ledger(path)
    with pytest.raises(ParameterError, match="folder"):
        Ledger(tmp_path / "missing" / "x.ledger", GDP(1.0))
    for budget in (
        RaoDP(1.0, angle="hellinger"),
        compose(GDP(0.5), PureDP(0.5)),
        2.0,
        "GDP",
    ):
        with pytest.raises(ParameterError):
            Ledger(path, budget)
    assert not path.exists()


@pytest.mark.parametrize(
    ("budget", "parts", "square"),
    [
        (PureDP(9.0), [PureDP(0.1 * k) for k in range(1, 8)], False),
        (ZCDP(9.0), [ZCDP(0.3 / k) for k in range(1, 8)], False),
        (RenyiDP(3.0, 9.0), [RenyiDP(3.0, 0.7 / k) for k in range(1, 8)], False),
        (GDP(9.0), [GDP(0.1 * k) for k in range(1, 8)], True),
        (RaoDP(9.0), [RaoDP(0.3 / k) for k in range(1, 8)], True),
        (ApproxDP(9.0, 0.5), [ApproxDP(0.1 * k, 1e-3 / k) for k in range(1, 8)], False),
    ],
)
def test_totals_are_the_doubles_next_to_the_exact_sums(path, budget, parts, square):
    """After every entry: what is spent is the next double not below the sum, what remains the next not above the rest."""
    ledger, power = Ledger(path, budget), 2 if square else 1
    names = [
        name
        for name in ("eps", "delta0", "rho", "mu", "theta")
        if hasattr(budget, name)
    ]
    sums = dict.fromkeys(names, Fraction(0))
    for part in parts:
        ledger.spend(part, "part")
        spent, remaining = ledger.spent, ledger.remaining
        for name in names:
            sums[name] += Fraction(getattr(part, name)) ** power
            rest = Fraction(getattr(budget, name)) ** power - sums[name]
            above, below = getattr(spent, name), getattr(remaining, name)
            assert (
                Fraction(math.nextafter(above, 0.0)) ** power
                < sums[name]
                <= Fraction(above) ** power
            )
            assert (
                Fraction(below) ** power
                <= rest
                < Fraction(math.nextafter(below, math.inf)) ** power
            )
        assert type(spent) is type(remaining) is type(budget)
        assert getattr(spent, "order", None) == getattr(budget, "order", None)


@pytest.mark.parametrize(
    ("partition", "group"),
    [("site", 1), (1, "north"), ("site", None), (None, "north"), (1, 2)],
)
def test_parallel_composition_needs_two_texts(path, partition, group):
    ledger = Ledger(path, GDP(1.0))
    with pytest.raises(ParameterError):
        ledger.spend(GDP(0.5), "mean", partition=partition, group=group)
    assert ledger.entries == []


def test_a_folder_that_takes_no_file_is_an_error_that_says_so(path, monkeypatch):
    def refuses(*_, **__):
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(sqlite3, "connect", refuses)
    with pytest.raises(CurvedpError, match="cannot open the ledger"):
        Ledger(path, GDP(1.0))
    assert list(path.parent.iterdir()) == []


def test_what_is_hashed_is_one_text_for_one_body(path):
    """Keys in order, no spaces: another program that writes the same entry gets the same hash."""
    Ledger(path, RenyiDP(4.0, 1.0)).spend(
        RenyiDP(4.0, 0.5), "mean", partition="site", group="north"
    )
    with sqlite3.connect(path) as connection:
        rows = connection.execute(
            "SELECT number, body, hash FROM entries ORDER BY number"
        ).fetchall()
    connection.close()
    previous = ""
    for number, body, digest in rows:
        assert body == json.dumps(
            json.loads(body), sort_keys=True, separators=(",", ":")
        )
        assert (
            digest
            == hashlib.sha256(f"{previous}\n{number}\n{body}".encode()).hexdigest()
        )
        previous = digest


def test_a_divergence_of_higher_order_counts_at_the_ledgers(path):
    """D_4 <= D_8 <= 0.1; of a lower order nothing follows."""
    ledger = Ledger(path, budget=RenyiDP(4.0, 1.0))
    ledger.spend(RenyiDP(8.0, 0.1), "higher")
    assert ledger.spent == RenyiDP(4.0, 0.1)
    with pytest.raises(UnattainableGuarantee):
        ledger.spend(RenyiDP(2.0, 0.1), "lower")
    assert ledger.spent == RenyiDP(4.0, 0.1)


# ---- the budget is the file's


def test_an_object_whose_file_was_replaced_spends_nothing(path):
    ledger = Ledger(path, GDP(2.0))
    path.unlink()
    with pytest.raises(CurvedpError, match="cannot open"):
        ledger.spend(GDP(1.5), "no file")
    smaller = Ledger(path, GDP(0.5))
    for use in (
        lambda: ledger.spend(GDP(0.1), "x"),
        lambda: ledger.spent,
        lambda: ledger.entries,
    ):
        with pytest.raises(LedgerCorrupted, match="does not continue"):
            use()
    assert smaller.spent is None


def test_a_pickle_carries_no_budget_and_no_totals(path):
    ledger = Ledger(path, GDP(0.5))
    image = pickle.dumps(ledger)
    assert b"GDP" not in image
    with pytest.raises(AttributeError):
        ledger.budget = GDP(100.0)
    ledger.spend(GDP(0.5), "all")
    stale = pickle.loads(image)
    with pytest.raises(BudgetExceeded):
        stale.spend(GDP(0.1), "more")
    path.unlink()
    elsewhere = pickle.loads(
        image
    )  # an estimator that was fitted with a ledger goes where its ledger is not
    for use in (lambda: elsewhere.budget, lambda: elsewhere.spend(GDP(0.1), "x")):
        with pytest.raises(CurvedpError, match="cannot open"):
            use()


# ---- texts


@pytest.mark.parametrize(
    "text", ["x" * 201, "a\nb", "\x1b[8m", "a\0", "\u202eabc", "\ud800"]
)
@pytest.mark.parametrize("name", ["label", "partition", "group"])
def test_texts_are_short_and_printable(path, name, text):
    ledger = Ledger(path, GDP(1.0))
    fields = {"label": "mean", "partition": "wards", "group": "a", name: text}
    with pytest.raises(ParameterError, match=name):
        ledger.spend(GDP(0.1), fields.pop("label"), **fields)
    assert ledger.entries == []
    ledger.spend(GDP(0.1), "[/red] <b>é µ ℍ²</b>" + "x" * 179)


def test_what_remains_is_shown(path):
    ledger = Ledger(path, PureDP(1.0))
    for number in range(11):
        ledger.spend(PureDP(2.0**-5), f"<script>{number}</script>")
    assert "PureDP(0.65625) of PureDP(1.0) remains" in repr(ledger)
    page = ledger._repr_html_()
    assert "PureDP(0.65625)" in page
    assert "&lt;script&gt;10" in page
    assert "<script>" not in page
    assert "and 1 before" in page
    assert page.count("<tr><td>") == 10
    path.unlink()
    assert "unreadable" in repr(ledger)


# ---- who may change it


def test_one_spend_reads_what_is_new_and_nothing_else(path, monkeypatch):
    """Not a clock: rows hashed by one spend do not depend on the number of entries."""
    from curvedp.ledger import store

    ledger, hashed, real = Ledger(path, GDP(100.0)), [], store._chained_hash
    monkeypatch.setattr(
        store, "_chained_hash", lambda *args: hashed.append(args[1]) or real(*args)
    )
    counts = []
    for number in range(30):
        hashed.clear()
        ledger.spend(GDP(0.1), f"{number}")
        counts.append(len(hashed))
    assert max(counts) <= 2
