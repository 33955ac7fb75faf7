"""Run the reproductions of a checkout: figures and tables of the papers, as printed and as corrected.

`reproductions/<paper>/expected.json` names what that paper's `run.py` can make and what is expected of it;
`reproductions/<paper>/run.py` has one function for each, `gdp-fig1` being `gdp_fig1(setting)`, which returns its numbers
and its picture. They live beside the package, not in it: they are evidence, not something to import.
"""

import importlib
import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from curvedp.errors import ParameterError, VerificationFailed
from examples.data_sets import find_file, load_dataset

__all__ = [
    "Check",
    "Outcome",
    "Reproduction",
    "Setting",
    "check_figures",
    "command",
    "find_reproductions",
    "run_reproduction",
]

HERE = Path(__file__).resolve().parent


class Setting(NamedTuple):
    """How a reproduction is to be run: its full or its reduced form, and where data sets lie."""

    full: bool = False
    data_dir: Path | None = None

    def data_file(self, file: str, dataset: str, source: str) -> Path:
        """The file of a data set, or an error that says which data set it is, where to get it and how to point to it."""
        return find_file(file, dataset, source, self.data_dir)

    def load(self, name: str) -> Any:
        """A data set of `examples.data_sets`: from the data folder, else by its usual downloader, else a clear error."""
        return load_dataset(name, self.data_dir)


class Reproduction(NamedTuple):
    """One figure or table, by what its `expected.json` says."""

    name: str
    folder: Path
    title: str
    seconds: Mapping[str, float]  # of the reduced and of the full form, on one core
    expect: list[Mapping[str, Any]]

    def function(self) -> Any:
        """`gdp_fig1` of reproductions/gdp/run.py."""
        module = importlib.import_module(f"reproductions.{self.folder.name}.run")
        return getattr(module, self.name.replace("-", "_"))


class Check(NamedTuple):
    """One number beside what is expected of it and what the paper prints.

    It agrees with print (`=`) where the two differ by no more than a unit of the last printed digit and two standard
    deviations of the sampling (`sd`); otherwise the ratio of ours to the printed one is shown.
    """

    figure: str
    found: float
    expected: str
    holds: bool
    printed: str | None
    sd: float
    agrees_with_print: bool | None
    note: str
    timing: bool  # depends on the machine: reported, never a failure

    @property
    def beside(self) -> str:
        """The printed number and how ours compares: “0.043 = (sd 0.006)”, “0.11 ×0.42”."""
        if self.printed is None:
            return ""
        if self.agrees_with_print:
            return f"{self.printed} =" + (f" (sd {self.sd:.2g})" if self.sd else "")
        number = float(self.printed)
        return (
            f"{self.printed} ×{self.found / number:.3g}"
            if number
            else f"{self.printed} ≠"
        )


class Outcome(NamedTuple):
    figures: dict[str, Any]
    checks: list[Check]
    files: list[Path]
    seconds: float


def find_reproductions(folder: Path = HERE) -> dict[str, Reproduction]:
    """All reproductions of a folder, by name."""
    found = {}
    for file in sorted(folder.glob("*/expected.json")):
        for name, entry in json.loads(file.read_text(encoding="utf-8")).items():
            found[name] = Reproduction(
                name, file.parent, entry["title"], entry["seconds"], entry["expect"]
            )
    return found


def run_reproduction(
    reproduction: Reproduction, setting: Setting, out: Path
) -> Outcome:
    """Make the picture (PNG, SVG) and the numbers (JSON) of a reproduction in `out`, and check them."""
    function = reproduction.function()
    start = time.perf_counter()
    figures, picture = function(setting)
    seconds = time.perf_counter() - start
    checks = check_figures(reproduction, figures, full=setting.full)
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{reproduction.name}.{kind}" for kind in ("png", "svg")]
    for file in files:
        picture.savefig(file, dpi=150, bbox_inches="tight")
    files.append(out / f"{reproduction.name}.json")
    record = {
        "name": reproduction.name,
        "form": "full" if setting.full else "reduced",
        "seconds": round(seconds, 2),
        "figures": figures,
        "checks": [check._asdict() for check in checks],
    }
    files[-1].write_text(
        json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return Outcome(figures, checks, files, seconds)


def check_figures(
    reproduction: Reproduction, figures: Any, *, full: bool
) -> list[Check]:
    """Every expectation of the form that was run, against its number."""
    return [
        _check(entry, figures)
        for entry in reproduction.expect
        if full or entry.get("form") != "full"
    ]


def _check(entry: Mapping[str, Any], figures: Any) -> Check:
    found = _at(figures, entry["figure"])
    low, high = (
        float(entry.get("at_least", -math.inf)),
        float(entry.get("at_most", math.inf)),
    )
    if "expected" in entry:
        low, high = (
            entry["expected"] - entry["tolerance"],
            entry["expected"] + entry["tolerance"],
        )
        said = f"{entry['expected']:.6g} ± {entry['tolerance']:.2g}"
    else:
        said = " and ".join(
            f"{sign} {x:.6g}"
            for sign, x in (("≥", low), ("≤", high))
            if math.isfinite(x)
        )
    printed, sd = entry.get("printed"), entry.get("sd", 0.0)
    sd = _at(figures, sd) if isinstance(sd, str) else float(sd)
    agrees = (
        None
        if printed is None
        else bool(abs(found - float(printed)) <= _unit(printed) + 2 * sd)
    )
    timing = bool(entry.get("timing", False))
    holds = bool(low <= found <= high)  # a NaN does not hold
    return Check(
        entry["figure"],
        found,
        said,
        holds,
        printed,
        sd,
        agrees,
        entry.get("note", ""),
        timing,
    )


def _at(figures: Any, path: str) -> float:
    """The number at a path such as rows/3/mean; NaN where it was not made."""
    for part in path.split("/"):
        try:
            figures = figures[int(part)] if isinstance(figures, list) else figures[part]
        except (LookupError, TypeError, ValueError):
            return math.nan
    return float(figures)


def _unit(printed: str) -> float:
    """A unit of the last printed digit, which may have been rounded or cut off: 0.001 for 0.954."""
    return 10.0 ** -len(printed.partition(".")[2])


# --- the command `curvedp reproduce`


def command(
    names: list[str],
    list_names: bool,
    full: bool,
    out: Path,
    data_dir: Path | None,
    console: Console | None,
) -> None:
    """Run the named reproductions, or all; numbers as JSON where no console is given.

    Raises
    ------
    ParameterError
        For an unknown name, before anything is run, and for data that are not there, after all others are made.
    VerificationFailed
        Where a number is not what it should be.
    """
    known = find_reproductions()
    if list_names:
        print("\n".join(known))
        return
    unknown = [name for name in names if name not in known and name != "all"]
    if unknown or not names:
        wrong = (
            f"no reproduction {', '.join(unknown)}"
            if unknown
            else "name what to reproduce"
        )
        raise ParameterError(f"{wrong}; there are: {', '.join(known)}, or all")
    failed: list[str] = []
    missing: list[str] = []
    records: dict[str, Any] = {}
    for name in list(known) if "all" in names else list(dict.fromkeys(names)):
        entry, form = known[name], "full" if full else "reduced"
        if console:
            console.print(
                f"[bold]{name}[/]: {entry.title} ({form} form, about {entry.seconds[form]:g} s)"
            )
        try:
            outcome = run_reproduction(entry, Setting(full, data_dir), out)
        except (
            ParameterError
        ) as error:  # data that are not there: the others can be made all the same
            missing.append(f"{name}: {error}")
            continue
        records[name] = [check._asdict() for check in outcome.checks]
        failed += [
            f"{name}: {check.figure}"
            for check in outcome.checks
            if not check.holds and not check.timing
        ]
        if console:
            console.print(_table(outcome.checks))
            console.print(
                f"{outcome.seconds:.1f} s; wrote {', '.join(str(file) for file in outcome.files)}"
            )
    if not console:
        print(json.dumps(records))
    if failed:
        raise VerificationFailed("; ".join(failed))
    if missing:
        raise ParameterError("; ".join(missing))


def _table(checks: list[Check]) -> Table:
    table = Table("figure", "found", "expected", "holds", "printed", "note")
    table.columns[0].overflow = "fold"
    for check in checks:
        holds = (
            "[green]yes[/]"
            if check.holds
            else "slower here"
            if check.timing
            else "[bold red]NO[/]"
        )
        table.add_row(
            check.figure,
            f"{check.found:.6g}",
            check.expected,
            holds,
            check.beside,
            check.note,
        )
    return table
