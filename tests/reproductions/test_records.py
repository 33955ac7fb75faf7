"""docs/reproductions.md is written from the records of full runs."""

from pathlib import Path

import pytest

from curvedp.papers import records
from curvedp.papers.runner import check_figures, find_reproductions

PAGE = Path(__file__).parents[2] / "docs" / "reproductions.md"
ALL = find_reproductions()


def test_the_page_is_what_the_records_say():
    page = PAGE.read_text(encoding="utf-8")
    assert records.fill_page(page) == page, (
        "write it anew: python -m curvedp.papers.records --write docs/reproductions.md"
    )


def test_a_number_changed_by_hand_is_noticed():
    page = PAGE.read_text(encoding="utf-8")
    begin = records.BEGIN.format("readings")
    row = page[page.index(begin) :].splitlines()[5]
    changed = page.replace(row, row.replace("0", "1"))
    assert changed != page
    assert records.fill_page(changed) == page


@pytest.mark.parametrize("name", sorted(ALL))
def test_recorded_numbers_meet_what_is_expected(name):
    reproduction = ALL[name]
    numbers = records._numbers_of(reproduction)
    assert set(records.quoted_paths(reproduction)) == set(numbers)
    checks = check_figures(reproduction, records._nested(numbers), full=True)
    assert checks
    assert [check for check in checks if not check.holds and not check.timing] == []


def test_take_records_keeps_full_runs_only(tmp_path):
    name = "reg-fig1"
    form = '{{"form": "{}", "seconds": 1, "figures": {{"error": {{}}}}}}'
    (tmp_path / f"{name}.json").write_text(form.format("reduced"))
    file = ALL[name].folder / "record.json"
    before = records._load(file)
    assert records.take_records(tmp_path)[file] == before
