"""The stored numbers of full runs of the reproductions, and the page that is written
from them. A record contains the numbers that the page needs, and the seconds of the
run.

The command `curvedp reproduce all --full --out DIR` writes pictures and numbers to a
folder. Two commands use them:

    python -m curvedp.papers.records --take DIR     # keep what the page needs
    python -m curvedp.papers.records --write PAGE   # write its tables anew

For each paper, the first command stores the numbers that its `expected.json` names or
quotes in `record.json`. The second one writes the tables of docs/reproductions.md,
between their marks. A test compares the page with the tables of this module.
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
    """Return the paths of the numbers that the record of a reproduction must contain.

    A path such as "fit/mean" leads to one of the nested numbers of a run. The record
    needs the numbers that expectations check, their standard deviations, and those
    that the text of the reading quotes.

    Parameters
    ----------
    reproduction : Reproduction
        The figure or table, as its `expected.json` describes it.
    """
    number_paths = [match[1] for match in _QUOTE.finditer(reproduction.reading)]
    for expectation in reproduction.expect:
        number_paths.append(expectation["figure"])
        if isinstance(expectation.get("sd"), str):
            number_paths.append(expectation["sd"])
    return sorted(set(number_paths))


def take_records(folder: Path) -> dict[Path, dict[str, Any]]:
    """Collect the records of all full runs in a folder.

    The record of a reproduction holds the seconds of its last full run, and those
    numbers that the documentation needs. A reproduction that was not run in its full
    form keeps its old record.

    Parameters
    ----------
    folder : Path
        The folder in which `curvedp reproduce --full` wrote its numbers.

    Returns
    -------
    dict
        The new contents of each paper's file `record.json`. They map the name of each
        reproduction to its "seconds" and its "numbers", and these map keys such as
        "fit/mean" to numbers.
    """
    contents_by_file: dict[Path, dict[str, Any]] = {}
    for name, reproduction in find_reproductions().items():
        record_file = reproduction.folder / "record.json"
        records_of_paper = contents_by_file.setdefault(record_file, _load(record_file))
        run = _load(folder / f"{name}.json")
        if run.get("form") == "full":
            numbers = {
                key: number_at(run["figures"], key)
                for key in quoted_paths(reproduction)
            }
            records_of_paper[name] = {"seconds": run["seconds"], "numbers": numbers}
    return contents_by_file


def _load(file: Path) -> dict[str, Any]:
    """Return the contents of a JSON file, or an empty dict if it does not exist."""
    if not file.is_file():
        return {}
    contents: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return contents


def _nested(numbers: Mapping[str, float]) -> dict[str, Any]:
    """Return recorded numbers as nested dicts, like the numbers of a run.

    A record maps paths to numbers: {"fit/mean": 1} becomes {"fit": {"mean": 1}}.

    Parameters
    ----------
    numbers : mapping
        Numbers by paths, whose keys are separated by slashes.
    """
    nested_numbers: dict[str, Any] = {}
    for path, number in numbers.items():
        *outer_keys, last_key = path.split("/")
        innermost = nested_numbers
        for key in outer_keys:
            innermost = innermost.setdefault(key, {})
        innermost[last_key] = number
    return nested_numbers


def _numbers_of(reproduction: Reproduction) -> dict[str, float]:
    """Return the recorded numbers of a reproduction, by path."""
    record = _load(reproduction.folder / "record.json")
    numbers: dict[str, float] = record[reproduction.name]["numbers"]
    return numbers


def fill_quotes(text: str, numbers: Mapping[str, float]) -> str:
    """Return a text in which marks such as [[a/b|.2f]] are replaced by numbers.

    Parameters
    ----------
    text : str
        A text with marks [[path]] or [[path|format]].
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
    """Return the first table of the page: each paper's result and ours, in words."""
    rows = ["| name | what | paper | ours, and the reading used |", "|---|---|---|---|"]
    for name, reproduction in find_reproductions().items():
        reading = fill_quotes(reproduction.reading, _numbers_of(reproduction))
        rows.append(
            f"| `{name}` | {reproduction.title} | {reproduction.paper} | {reading} |"
        )
    return "\n".join(rows)


def printed_table() -> str:
    """Return the second table of the page: every printed number beside ours."""
    rows = [
        "| name | number | printed | ours | sd | ours over printed | agrees |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, reproduction in find_reproductions().items():
        numbers = _nested(_numbers_of(reproduction))
        for check in check_figures(reproduction, numbers, full=True):
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
    """Return the ratio of our number to the printed one, and whether they agree.

    They agree if they differ by at most one unit of the last printed digit plus two
    standard deviations of the sampling (`Check.agrees_with_print`). The verdict is "="
    if they also are within 5 % of each other, or within half a unit of the last printed
    digit. Otherwise it is "within 2 sd", because only the sampling explains the
    difference.

    Parameters
    ----------
    check : Check
        The comparison of a number that the paper prints.

    Returns
    -------
    ratio, agreement : str
        The texts of the last two columns of the table.
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
    """Return the third table of the page: the seconds of the recorded full runs."""
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
    """Return the page with its generated tables brought up to date.

    Parameters
    ----------
    page : str
        The page in Markdown, with a pair of marks around each table.

    Raises
    ------
    ValueError
        If the marks of a table are missing.
    """
    tables = {
        "readings": readings_table,
        "printed numbers": printed_table,
        "seconds": times_table,
    }
    for name, table in tables.items():
        begin = BEGIN.format(name)
        before, begin_found, remainder = page.partition(begin)
        _, end_found, after = remainder.partition(END)
        if not (begin_found and end_found):
            raise ValueError(f"the page has no marks around the part “{name}”")
        page = f"{before}{begin}\n{table()}\n{END}{after}"
    return page


def main() -> None:
    """Collect records or write the page: the command of this module's docstring."""
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
    """Raise `ValueError` if a run lacks a number that its record must contain.

    Parameters
    ----------
    record : dict
        The contents of a `record.json`: for each reproduction of a paper the seconds
        and the numbers by path. A number that the run lacks is NaN.
    """
    for name, run in record.items():
        for path, number in run["numbers"].items():
            if math.isnan(number):
                raise ValueError(f"{name} has no number at {path}")


if __name__ == "__main__":
    main()
