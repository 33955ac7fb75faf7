"""Run the reproductions of a checkout: figures and tables of the papers, as printed and as corrected.

`reproductions/<paper>/expected.json` names what that paper's `run.py` can make and what is expected of it;
`reproductions/<paper>/run.py` has one function for each, `gdp-fig1` being `gdp_fig1(setting)`, which returns its numbers
and its picture. They live beside the package, not in it: they are evidence, not something to import.
"""

import importlib
import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from curvedp.datasets import find_file, load_dataset
from curvedp.errors import ParameterError

__all__ = ["Check", "Outcome", "Reproduction", "Setting", "check_figures", "find_reproductions", "run_reproduction"]

FOLDER = "reproductions"


class Setting(NamedTuple):
    """How a reproduction is to be run: its full or its reduced form, and where data sets lie."""

    full: bool = False
    data_dir: Path | None = None

    def data_file(self, file: str, dataset: str, source: str) -> Path:
        """The file of a data set, or an error that says which data set it is, where it is had and how to point to it."""
        return find_file(file, dataset, source, self.data_dir)

    def load(self, name: str) -> Any:
        """A data set of `curvedp.datasets`: from the data folder, else by its usual downloader, else a clear error."""
        return load_dataset(name, self.data_dir)


class Reproduction(NamedTuple):
    """One figure or table, by what its `expected.json` says."""

    name: str
    folder: Path
    title: str
    seconds: Mapping[str, float]  # of the reduced and of the full form, on one core
    expect: list[Mapping[str, Any]]

    def function(self) -> Any:
        """`gdp_fig1` of reproductions/gdp/run.py, imported as `reproductions.gdp.run` so that files there see one another."""
        root = str(self.folder.parent.parent)
        if root not in sys.path:
            sys.path.insert(0, root)  # and left there: a reproduction may import its neighbours while it runs
        module = importlib.import_module(f"{FOLDER}.{self.folder.name}.run")
        return getattr(module, self.name.replace("-", "_"))


class Check(NamedTuple):
    """One number beside what is expected of it and what the paper prints."""

    figure: str
    found: float
    expected: str
    holds: bool
    printed: float | None
    agrees_with_print: bool | None
    note: str
    timing: bool  # depends on the machine: reported, never a failure


class Outcome(NamedTuple):
    figures: dict[str, Any]
    checks: list[Check]
    files: list[Path]
    seconds: float


def find_reproductions(root: Path | None = None) -> dict[str, Reproduction]:
    """All reproductions by name: of `root`, else of the checkout this package is installed from, else of the current one."""
    if root is None:
        candidates = [Path(__file__).resolve().parents[2], Path.cwd(), *Path.cwd().parents]
        root = next((place for place in candidates if any(place.glob(f"{FOLDER}/*/expected.json"))), None)
    if root is None:
        raise ParameterError(
            f"no folder {FOLDER!r} here or above: reproductions are not part of the installed package; "
            "run this inside a checkout of curvedp"
        )
    found = {}
    for file in sorted(root.glob(f"{FOLDER}/*/expected.json")):
        for name, entry in json.loads(file.read_text(encoding="utf-8")).items():
            found[name] = Reproduction(name, file.parent, entry["title"], entry["seconds"], entry["expect"])
    return found


def run_reproduction(reproduction: Reproduction, setting: Setting, out: Path) -> Outcome:
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
    files[-1].write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return Outcome(figures, checks, files, seconds)


def check_figures(reproduction: Reproduction, figures: Any, *, full: bool) -> list[Check]:
    """Every expectation of the form that was run, against its number."""
    return [_check(entry, figures) for entry in reproduction.expect if full or entry.get("form") != "full"]


def _check(entry: Mapping[str, Any], figures: Any) -> Check:
    found = figures
    for part in entry["figure"].split("/"):
        try:
            found = found[int(part)] if isinstance(found, list) else found[part]
        except (LookupError, TypeError, ValueError):
            found = math.nan  # a figure that was not made does not hold
            break
    low, high = float(entry.get("at_least", -math.inf)), float(entry.get("at_most", math.inf))
    if "expected" in entry:
        low, high = entry["expected"] - entry["tolerance"], entry["expected"] + entry["tolerance"]
        said = f"{entry['expected']:.6g} ± {entry['tolerance']:.2g}"
    else:
        said = " and ".join(f"{sign} {x:.6g}" for sign, x in (("≥", low), ("≤", high)) if math.isfinite(x))
    printed = entry.get("printed")
    agrees = None if printed is None else bool(abs(found - printed) <= entry["printed_tolerance"])
    timing = bool(entry.get("timing", False))
    holds = bool(low <= found <= high)  # a NaN does not hold
    return Check(entry["figure"], float(found), said, holds, printed, agrees, entry.get("note", ""), timing)
