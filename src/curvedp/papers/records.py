"""Records of full runs, and the page that is written from them.

`curvedp reproduce all --full --out DIR` makes pictures and numbers in a folder.

    python -m curvedp.papers.records --take DIR     # keep what the page needs
    python -m curvedp.papers.records --write PAGE   # write its tables anew

The first keeps, for each paper, the numbers that its `expected.json` names or quotes,
in `record.json`. The second fills the parts between the two marks of
docs/reproductions.md. A test compares the page with what this module writes.
"""

import argparse
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curvedp.papers.runner import (
    Check,
    Reproduction,
    check_figures,
    find_reproductions,
    last_digit,
    number_at,
)

__all__ = [
    "fill_page",
    "printed_table",
    "quoted_paths",
    "readings_table",
    "take_records",
]

# The marks around each part of the page that is written here.
BEGIN = "<!-- written by curvedp.papers.records: {} -->"
END = "<!-- end -->"
# [[path]] or [[path|format]] in the text of a reading.
_QUOTE = re.compile(r"\[\[([^\]|]+)(?:\|([^\]]+))?\]\]")
_DEFAULT_FORMAT = ".3g"


def quoted_paths(reproduction: Reproduction) -> list[str]:
    """Return the paths of the numbers that a record has to keep.

    They are those that an expectation checks, those that say how much sampling spreads
    them, and those that the reading quotes.

    Parameters
    ----------
    reproduction : Reproduction
        The figure or table, as its `expected.json` describes it.
    """
    paths = [match[1] for match in _QUOTE.finditer(reproduction.reading)]
    for entry in reproduction.expect:
        paths.append(entry["figure"])
        if isinstance(entry.get("sd"), str):
            paths.append(entry["sd"])
    return sorted(set(paths))


def take_records(folder: Path) -> dict[Path, dict[str, Any]]:
    """Collect the records of all full runs in a folder.

    A reproduction that was not run, or not in its full form, keeps its old record.

    Parameters
    ----------
    folder : Path
        The folder in which `curvedp reproduce --full` wrote its numbers.

    Returns
    -------
    dict
        The new contents of each `record.json`, by its path: for each reproduction the
        seconds of the run and the numbers by their paths.
    """
    records: dict[Path, dict[str, Any]] = {}
    for name, reproduction in find_reproductions().items():
        file = reproduction.folder / "record.json"
        paper = records.setdefault(file, _load(file))
        run = _load(folder / f"{name}.json")
        if run.get("form") == "full":
            paths = quoted_paths(reproduction)
            numbers = {path: number_at(run["figures"], path) for path in paths}
            paper[name] = {"seconds": run["seconds"], "numbers": numbers}
    return records


def _load(file: Path) -> dict[str, Any]:
    """Return the contents of a JSON file; nothing if there is none."""
    if not file.is_file():
        return {}
    contents: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return contents


def _nested(numbers: Mapping[str, float]) -> dict[str, Any]:
    """Return recorded numbers in the nesting of the figures they were taken from.

    Parameters
    ----------
    numbers : mapping
        Numbers by paths such as "fit/mean".
    """
    figures: dict[str, Any] = {}
    for path, number in numbers.items():
        *folders, last = path.split("/")
        place = figures
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = number
    return figures


def _numbers_of(reproduction: Reproduction) -> dict[str, float]:
    """Return the recorded numbers of a reproduction, by path."""
    record = _load(reproduction.folder / "record.json")
    numbers: dict[str, float] = record[reproduction.name]["numbers"]
    return numbers


def fill_quotes(text: str, numbers: Mapping[str, float]) -> str:
    """Return a text with the numbers that it quotes.

    Parameters
    ----------
    text : str
        With [[path]] or [[path|format]] where a number stands.
    numbers : mapping
        The numbers, by path.

    Examples
    --------
    >>> fill_quotes("ratio [[a/b|.2f]]", {"a/b": 1.2345})
    'ratio 1.23'
    """

    def number(match: re.Match[str]) -> str:
        """Return the number of one mark, in the format that the mark states."""
        return format(numbers[match[1]], match[2] or _DEFAULT_FORMAT)

    return _QUOTE.sub(number, text)


def readings_table() -> str:
    """Return the page's first table: what each paper has, and ours in words."""
    rows = ["| name | what | paper | ours, and the reading used |", "|---|---|---|---|"]
    for name, reproduction in find_reproductions().items():
        reading = fill_quotes(reproduction.reading, _numbers_of(reproduction))
        rows.append(
            f"| `{name}` | {reproduction.title} | {reproduction.paper} | {reading} |"
        )
    return "\n".join(rows)


def printed_table() -> str:
    """Return the page's second table: every printed number beside ours."""
    rows = [
        "| name | number | printed | ours | sd | ours over printed | agrees |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, reproduction in find_reproductions().items():
        figures = _nested(_numbers_of(reproduction))
        for check in check_figures(reproduction, figures, full=True):
            if check.printed is None:
                continue
            label = f"{check.figure}: {check.note}" if check.note else check.figure
            label = label.replace("|", "\\|")
            sd = f"{check.sd:.2g}" if check.sd else "–"
            ratio, verdict = _compare(check)
            rows.append(
                f"| `{name}` | {label} | {check.printed} | {check.found:.6g} | {sd} "
                f"| {ratio} | {verdict} |"
            )
    return "\n".join(rows)


def _compare(check: Check) -> tuple[str, str]:
    """Return ours over the printed number, and in words whether they agree.

    They agree if they differ by at most a unit of the last printed digit plus two
    standard deviations of the sampling (`Check.agrees_with_print`). Of those, "=" is
    said only of numbers within 5 % of each other, or within half a unit of the last
    printed digit, and "within 2 sd" of the others.

    Parameters
    ----------
    check : Check
        A number with what the paper prints for it.

    Returns
    -------
    ratio, agreement : str
        For the table's last two columns.
    """
    printed = float(check.printed or "nan")
    ratio = f"{check.found / printed:.3g}" if printed else "–"
    if check.timing:
        return ratio, "another machine"
    if not check.agrees_with_print:
        return ratio, "no"
    half_a_digit = last_digit(check.printed or "") / 2
    is_close = math.isclose(check.found, printed, rel_tol=0.05, abs_tol=half_a_digit)
    return ratio, "=" if is_close else "within 2 sd"


def times_table() -> str:
    """Return the page's third table: the seconds that the recorded full runs took."""
    rows = ["| name | seconds |", "|---|---|"]
    total = 0.0
    for name, reproduction in find_reproductions().items():
        seconds = _load(reproduction.folder / "record.json")[name]["seconds"]
        if seconds is None:
            rows.append(f"| `{name}` | an earlier run |")
            continue
        total += seconds
        rows.append(f"| `{name}` | {seconds:.0f} |")
    rows.append(f"| all of these | {total:.0f} |")
    return "\n".join(rows)


def fill_page(page: str) -> str:
    """Return the page with its written parts made anew.

    Parameters
    ----------
    page : str
        The page, with a pair of marks around each part.

    Raises
    ------
    ValueError
        If a part has no marks.
    """
    tables = {
        "readings": readings_table,
        "printed numbers": printed_table,
        "seconds": times_table,
    }
    for name, table in tables.items():
        begin = BEGIN.format(name)
        before, mark, rest = page.partition(begin)
        _, end, after = rest.partition(END)
        if not (mark and end):
            raise ValueError(f"the page has no marks around the part “{name}”")
        page = f"{before}{begin}\n{table()}\n{end}{after}"
    return page


def main() -> None:
    """Take records or write the page: the command of this module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take", type=Path, help="folder of a full run")
    parser.add_argument("--write", type=Path, help="the page to fill")
    arguments = parser.parse_args()
    if arguments.take is not None:
        for file, record in take_records(arguments.take).items():
            _refuse_missing_numbers(record)
            text = json.dumps(record, indent=1, ensure_ascii=False)
            file.write_text(text + "\n", encoding="utf-8")
    if arguments.write is not None:
        page = arguments.write.read_text(encoding="utf-8")
        arguments.write.write_text(fill_page(page), encoding="utf-8")


def _refuse_missing_numbers(record: dict[str, Any]) -> None:
    """Raise `ValueError` if a run did not make a number that its record has to keep.

    Parameters
    ----------
    record : dict
        Of each reproduction of a paper the seconds and the numbers by path; a number
        that was not made is NaN.
    """
    for name, run in record.items():
        for path, number in run["numbers"].items():
            if math.isnan(number):
                raise ValueError(f"{name} has no number at {path}")


if __name__ == "__main__":
    main()
