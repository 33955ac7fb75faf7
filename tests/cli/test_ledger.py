"""`curvedp ledger`: from the shell as from Python, and nothing that a label says is obeyed."""

import json
import sqlite3
from datetime import datetime

import pytest
from typer.testing import CliRunner

from curvedp.cli import app
from curvedp.ledger import Ledger, write_key
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP


def run(*arguments):
    return CliRunner().invoke(
        app, ["ledger", *map(str, arguments)], env={"COLUMNS": "200"}
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.ledger"


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        (("--mu", 1.5), GDP(1.5)),
        (("--epsilon", 1), PureDP(1.0)),
        (("--epsilon", 1, "--delta", 1e-6), ApproxDP(1.0, 1e-6)),
        (("--rho", 0.5), ZCDP(0.5)),
    ],
)
def test_create_spend_show_verify(path, options, budget):
    assert run("create", path, *options).exit_code == 0
    assert Ledger(path).budget == budget
    spent = run("spend", path, "a count by other software", "--epsilon", 0.25)
    assert spent.exit_code == 0, spent.output
    entry = Ledger(path).entries[0]
    assert entry.hash in spent.output
    assert "a count" in run("show", path).output
    assert (
        json.loads(run("show", path, "--json").output)["entries"][0]["hash"]
        == entry.hash
    )
    assert run("verify", path, entry.hash).exit_code == 0
    gone = run("verify", path, "0" * 64)
    assert gone.exit_code == 2
    assert "taken back" in gone.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("create", "P", "--mu", 1), "exists"),
        (("create", "Q"), "--mu"),
        (("create", "Q", "--mu", 1, "--rho", 1), "--mu"),
        (("create", "Q", "--mu", 1, "--delta", 0.1), "--delta"),
        (("create", "Q", "--mu", "nan"), "mu"),
        (("create", "Q", "--mu", 1, "--key", "missing"), "key"),
        (("spend", "P", "x", "--mu", 9), "does not fit"),
        (("spend", "P", "x\x1b[8m", "--mu", 0.1), "printable"),
        (("spend", "P", "x", "--mu", 0.1, "--group", "a"), "together"),
        (("spend", "Q", "x", "--mu", 0.1), "no ledger"),
        (("show", "Q"), "no ledger"),
        (("verify", "Q"), "no ledger"),
    ],
)
def test_a_mistake_is_one_line_and_spends_nothing(path, tmp_path, arguments, says):
    Ledger(path, GDP(1.0))
    places = {"P": path, "Q": tmp_path / "other.ledger"}
    result = run(*(places.get(a, a) for a in arguments))
    assert result.exit_code == 2
    assert says in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert Ledger(path).spent is None
    assert not places["Q"].exists()


def test_a_key_from_the_shell(path, tmp_path):
    key = tmp_path / "key"
    write_key(key)
    assert run("create", path, "--mu", 1, "--key", key).exit_code == 0
    assert run("spend", path, "x", "--mu", 0.5, "--key", key).exit_code == 0
    assert run("show", path, "--key", key).exit_code == 0
    assert "has a key" in run("show", path).output


def test_labels_are_shown_and_never_obeyed(path):
    """Markup, and control characters that only a ledger of version 0.1 or another program can hold."""
    ledger = Ledger(path, GDP(1.0))
    ledger.spend(GDP(0.1), "mean [/b] of [red]x[/red]")
    shown = run("show", path, "--json")  # a table folds long cells
    assert shown.exit_code == 0
    assert "mean [/b] of [red]x[/red]" in shown.output
    assert run("show", path).exit_code == 0
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE entries SET body = replace(body, 'mean ', 'mean\\u001b[8m')"
        )
    connection.close()
    broken = run("show", path)
    assert broken.exit_code == 2
    assert "\x1b" not in broken.output


@pytest.mark.parametrize("unit", ["record", "person"])
def test_a_ledger_says_whom_it_protects(path, unit):
    other = {"record": "person", "person": "record"}[unit]
    created = run("create", path, "--mu", 1, "--unit", unit)
    assert created.exit_code == 0, created.output
    assert Ledger(path).unit == unit
    assert run("spend", path, "x", "--mu", 0.1, "--unit", unit).exit_code == 0
    refused = run("spend", path, "x", "--mu", 0.1, "--unit", other)
    assert refused.exit_code == 2
    assert "do not add up" in refused.output
    assert run("spend", path, "by hand", "--mu", 0.1).exit_code == 0
    shown = run("show", path)
    assert f"it protects one {unit}" in shown.output
    assert "not stated" in shown.output
    told = json.loads(run("show", path, "--json").output)
    assert told["unit"] == unit
    assert [entry["unit"] for entry in told["entries"]] == [unit, None]


def test_a_ledger_without_a_unit_says_that_it_is_unknown(path):
    assert run("create", path, "--mu", 1).exit_code == 0
    assert "unknown until a charge states it" in run("show", path).output
    assert json.loads(run("show", path, "--json").output)["unit"] is None
    wrong = run("spend", path, "x", "--mu", 0.1, "--unit", "people")
    assert wrong.exit_code == 2
    assert "--unit" in wrong.output


def test_entries_are_shown_with_what_they_are_about(path, monkeypatch):
    # A narrow table wraps its cells.
    monkeypatch.setattr("curvedp.cli.console.console.width", 200)
    Ledger(path, GDP(1.0)).spend(
        GDP(0.25),
        "mean",
        unit="person",
        n=120,
        space="spd-affine:3",
        statistic="Fréchet mean",
    )
    shown = run("show", path).output
    for text in ("one person", "Fréchet mean, n = 120, on spd-affine:3", "GDP(0.25)"):
        assert text in shown


def test_a_key_is_made_from_the_shell(path, tmp_path):
    key = tmp_path / "key"
    assert run("key", key).exit_code == 0
    assert key.stat().st_mode & 0o777 == 0o600
    assert run("create", path, "--mu", 1, "--key", key).exit_code == 0
    again = run("key", key)
    assert again.exit_code == 2
    assert "never overwritten" in again.output
    key.chmod(0o644)
    refused = run("spend", path, "x", "--mu", 0.5, "--key", key)
    assert refused.exit_code == 2
    assert "chmod 600" in refused.output


@pytest.mark.parametrize("command", ["show", "verify"])
def test_clocks_that_were_wrong_are_remarked_on(command, tmp_path, monkeypatch):
    """The chain proves the order of entries; their times are what a clock said."""
    path = tmp_path / "x.ledger"
    book = Ledger(path, GDP(2.0))
    for year in (2026, 2019, 2040):

        class Clock(datetime):
            """A clock that is set to this year."""

            @classmethod
            def now(cls, zone=None, year=year):
                return datetime(year, 1, 1, 12, 30, 0, 123456, tzinfo=zone)

        monkeypatch.setattr("curvedp.ledger.book.datetime", Clock)
        book.spend(GDP(0.5), f"mean of {year}")
    monkeypatch.undo()

    shown = CliRunner().invoke(app, ["ledger", command, str(path)]).output
    assert "entry 2 is dated before entry 1" in shown
    assert "entry 3 is dated in the future" in shown
    assert "entry 3 is dated before" not in shown
    assert shown.count("note:") == 2
