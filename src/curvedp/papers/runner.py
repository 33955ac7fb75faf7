"""Run the reproductions: figures and tables of the papers, as printed and as corrected.
A reproduction is one figure or table; it computes numbers and a picture. Each number
that the paper prints is compared with the computed one.

Each paper has a folder here. Its file `expected.json` lists the reproductions, with the
numbers that are expected of each. Its module `run` has one function for each
reproduction: `gdp-fig1` is made by `gdp_fig1(setting)`, which returns the numbers and
the picture. The file `record.json` contains numbers of the last full run, from which
docs/reproductions.md is generated.
"""

import importlib
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from curvedp.errors import MissingExtra, ParameterError, VerificationFailed
from curvedp.papers.data_sets import find_file, load_dataset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Check",
    "Outcome",
    "Reproduction",
    "Setting",
    "check_figures",
    "command",
    "find_reproductions",
    "last_digit",
    "number_at",
    "run_reproduction",
]

# The folder of the papers' folders.
HERE = Path(__file__).resolve().parent


class Setting(NamedTuple):
    """The way in which a reproduction is run: its size, and where the data are.

    Attributes
    ----------
    full : bool
        Whether to run at the paper's sizes. By default a reduced form is run.
    data_dir : Path, optional
        The folder with the data sets.

    Examples
    --------
    >>> Setting().full
    False
    """

    full: bool = False
    data_dir: Path | None = None

    def data_file(self, file: str, dataset: str, source: str) -> Path:
        """Return the file of a data set, or raise an error that says where to get it.

        Parameters
        ----------
        file : str
            The name of the file.
        dataset, source : str
            The name of the data set and where to get it, for the error message.

        Returns
        -------
        Path
            The existing file.
        """
        return find_file(file, dataset, source, self.data_dir)

    def load(self, name: str) -> Any:
        """Return a data set from the data folder, or download it if it is not there.

        Parameters
        ----------
        name : str
            A key of `papers.data_sets.DATASETS`.

        Returns
        -------
        array or dict of arrays
            The data set (`papers.data_sets.load_dataset`).
        """
        return load_dataset(name, self.data_dir)


class Reproduction(NamedTuple):
    """One figure or table, as its `expected.json` describes it.

    Attributes
    ----------
    name : str
        The name in the command, such as "gdp-fig1".
    folder : Path
        The folder of its paper.
    title : str
        The title of the figure or table.
    seconds : mapping
        About how many seconds of one core the "reduced" and the "full" form take.
    expect : list of mappings
        The expected numbers. Each mapping names a number by its "figure" and gives a
        value with a tolerance, or limits.
    paper : str
        The result that the paper prints, in words.
    reading : str
        The result of the reproduction, and how the paper's text was understood, with
        marks for recorded numbers (`papers.records`).
    """

    name: str
    folder: Path
    title: str
    seconds: Mapping[str, float]
    expect: list[Mapping[str, Any]]
    paper: str = ""
    reading: str = ""

    def function(self) -> Callable[[Setting], tuple[Any, "Figure"]]:
        """Return the function that makes it, such as `gdp_fig1` of papers/gdp/run.py.

        Returns
        -------
        callable
            Maps a `Setting` to the numbers and the picture.

        Raises
        ------
        MissingExtra
            If matplotlib is not installed.
        """
        name = f"curvedp.papers.{self.folder.name}.run"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "matplotlib":
                raise
            raise MissingExtra(
                f"{self.name} needs matplotlib: pip install 'curvedp[report]'"
            ) from missing
        function: Callable[[Setting], tuple[Any, Figure]]
        function = vars(module)[self.name.replace("-", "_")]
        return function


class Check(NamedTuple):
    """The comparison of one number with its expectation and with the paper.

    A number agrees with the printed one if they differ by at most one unit of the last
    printed digit plus two standard deviations of the sampling. Agreement means little
    if this standard deviation is large, so the ratio of the two is shown as well.

    Attributes
    ----------
    figure : str
        The path of the number among the numbers of the run, such as "fit/mean".
    found : float
        The number of this run.
    expected : str
        The range in which it must lie, in words.
    holds : bool
        Whether it lies in that range.
    printed : str, optional
        The paper's number, as printed.
    sd : float
        The standard deviation of the sampling.
    agrees_with_print : bool, optional
        Whether the number agrees with the printed one; None if none is printed.
    note : str
        What the number is.
    timing : bool
        Whether the number depends on the machine: then it never fails a run.
    """

    figure: str
    found: float
    expected: str
    holds: bool
    printed: str | None
    sd: float
    agrees_with_print: bool | None
    note: str
    timing: bool

    @property
    def beside(self) -> str:
        """The printed number and its comparison with ours: “0.043 = (×0.97, sd 0.006)”.

        The sign = means that the numbers agree. × is followed by the ratio of our
        number to the printed one.
        """
        if self.printed is None:
            return ""
        number = float(self.printed)
        if not self.agrees_with_print:
            return f"{self.printed} ×{self.found / number:.3g}" if number else "0 ≠"
        remarks = []
        if number and not math.isclose(self.found, number, rel_tol=0.05):
            remarks.append(f"×{self.found / number:.3g}")
        if self.sd:
            remarks.append(f"sd {self.sd:.2g}")
        suffix = f" ({', '.join(remarks)})" if remarks else ""
        return f"{self.printed} ={suffix}"


class Outcome(NamedTuple):
    """The results of one run of a reproduction.

    Attributes
    ----------
    figures : dict
        The numbers, nested by what they are about.
    checks : list of Check
        Numbers beside what is expected of them.
    files : list of Path
        The files with pictures and numbers.
    seconds : float
        Seconds of the wall clock.
    """

    figures: dict[str, Any]
    checks: list[Check]
    files: list[Path]
    seconds: float


def find_reproductions(folder: Path = HERE) -> dict[str, Reproduction]:
    """Return the reproductions of a folder, by name.

    Parameters
    ----------
    folder : Path
        The folder, whose subfolders have an `expected.json` each.

    Examples
    --------
    >>> "gdp-fig1" in find_reproductions()
    True
    """
    reproductions = {}
    for file in sorted(folder.glob("*/expected.json")):
        for name, entry in json.loads(file.read_text(encoding="utf-8")).items():
            reproductions[name] = Reproduction(
                name,
                file.parent,
                entry["title"],
                entry["seconds"],
                entry["expect"],
                entry.get("paper", ""),
                entry.get("reading", ""),
            )
    return reproductions


def run_reproduction(
    reproduction: Reproduction, setting: Setting, out: Path
) -> Outcome:
    """Run one reproduction, check its numbers, and write its files.

    The files are a picture (PNG and SVG) and the numbers with their checks (JSON).

    Parameters
    ----------
    reproduction : Reproduction
        The figure or table of a paper that is reproduced.
    setting : Setting
        Whether the full form is run, and where the data sets are.
    out : Path
        The folder for the files. It is created if it does not exist.

    Returns
    -------
    Outcome
        The numbers, their checks, the files, and the seconds that the run took.
    """
    compute_and_draw = reproduction.function()
    start = time.perf_counter()
    numbers, picture = compute_and_draw(setting)
    seconds = time.perf_counter() - start
    checks = check_figures(reproduction, numbers, full=setting.full)

    out.mkdir(parents=True, exist_ok=True)
    picture_files = [out / f"{reproduction.name}.{kind}" for kind in ("png", "svg")]
    for file in picture_files:
        picture.savefig(file, dpi=150, bbox_inches="tight")
    numbers_file = out / f"{reproduction.name}.json"
    record = {
        "name": reproduction.name,
        "form": "full" if setting.full else "reduced",
        "seconds": round(seconds, 2),
        "figures": numbers,
        "checks": [check._asdict() for check in checks],
    }
    text = json.dumps(record, indent=1, ensure_ascii=False)
    numbers_file.write_text(text + "\n", encoding="utf-8")
    return Outcome(numbers, checks, [*picture_files, numbers_file], seconds)


def check_figures(
    reproduction: Reproduction, figures: Any, *, full: bool
) -> list[Check]:
    """Compare the numbers of a run with all expectations of a reproduction.

    Parameters
    ----------
    reproduction : Reproduction
        The figure or table, with its expectations.
    figures : dict
        The numbers of the run, in nested dicts and lists.
    full : bool
        Whether the full form was run. Expectations with the form "full" are checked
        only then.

    Returns
    -------
    list of Check
        One for each expectation that was checked.
    """
    return [
        _check(expectation, figures)
        for expectation in reproduction.expect
        if full or expectation.get("form") != "full"
    ]


def _check(expectation: Mapping[str, Any], numbers: Any) -> Check:
    """Compare one number of a run with its expectation, which NaN never meets.

    Parameters
    ----------
    expectation : mapping
        An entry of `expected.json`. "figure" is the path of the number, such as
        "fit/mean". Either "expected" and "tolerance" give its range, or "at_least" and
        "at_most". If the paper prints the number, "printed" is its text, and "sd" the
        standard deviation of the sampling: a number, or the path of one of the run.
    numbers : dict
        The numbers of the run, in nested dicts and lists.
    """
    found = number_at(numbers, expectation["figure"])
    expected = _expected_range(expectation)

    # Whether it agrees with the printed number.
    sd_or_path = expectation.get("sd", 0.0)
    if isinstance(sd_or_path, str):
        sd = number_at(numbers, sd_or_path)
    else:
        sd = float(sd_or_path)
    printed = expectation.get("printed")
    agrees = None
    if printed is not None:
        largest_difference = last_digit(printed) + 2 * sd
        agrees = bool(abs(found - float(printed)) <= largest_difference)

    return Check(
        figure=expectation["figure"],
        found=found,
        expected=expected.text,
        holds=bool(expected.low <= found <= expected.high),
        printed=printed,
        sd=sd,
        agrees_with_print=agrees,
        note=expectation.get("note", ""),
        timing=bool(expectation.get("timing", False)),
    )


class _ExpectedRange(NamedTuple):
    """The range in which a number must lie, and the range as text."""

    low: float
    high: float
    text: str


def _expected_range(expectation: Mapping[str, Any]) -> _ExpectedRange:
    """Return the range of an expectation: around a value, or between limits.

    Parameters
    ----------
    expectation : mapping
        An entry of `expected.json`, with "expected" and "tolerance", or with "at_least"
        and "at_most".
    """
    if "expected" in expectation:
        value = expectation["expected"]
        tolerance = expectation["tolerance"]
        text = f"{value:.6g} ± {tolerance:.2g}"
        return _ExpectedRange(value - tolerance, value + tolerance, text)

    low = float(expectation.get("at_least", -math.inf))
    high = float(expectation.get("at_most", math.inf))
    limits = [("≥", low), ("≤", high)]
    finite_limits = [f"{sign} {x:.6g}" for sign, x in limits if math.isfinite(x)]
    return _ExpectedRange(low, high, " and ".join(finite_limits))


def number_at(figures: Any, path: str) -> float:
    """Return the number at a path such as "rows/3/mean", or NaN if there is none.

    Parameters
    ----------
    figures : dict
        Nested dicts and lists of numbers.
    path : str
        Keys and indices, separated by slashes.
    """
    for step in path.split("/"):
        try:
            figures = figures[int(step)] if isinstance(figures, list) else figures[step]
        except (LookupError, TypeError, ValueError):
            return math.nan
    return float(figures)


def last_digit(printed: str) -> float:
    """Return one unit of the last digit of a printed number, such as 0.001 for 0.954.

    A number that was rounded or truncated for print differs from the printed one by at
    most this unit.

    Parameters
    ----------
    printed : str
        The number as the paper prints it.
    """
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
    """Run the named reproductions, or all: the command `curvedp reproduce`.

    Parameters
    ----------
    names : list of str
        Names of `find_reproductions`, or "all".
    list_names : bool
        Whether to print the names and run nothing.
    full : bool
        Whether to run at the paper's sizes.
    out : Path
        The folder for pictures and numbers.
    data_dir : Path, optional
        The folder with the data sets.
    console : Console, optional
        The console for tables; without it the checks are printed as JSON.

    Raises
    ------
    ParameterError
        For an unknown name, before anything is run. If data or packages are missing,
        after all other reproductions have been run.
    VerificationFailed
        If a number is not what it should be.
    """
    known = find_reproductions()
    if list_names:
        print("\n".join(known))
        return

    failures: list[str] = []
    missing: list[str] = []
    checks_by_name: dict[str, Any] = {}
    for name in _requested_names(names, known):
        reproduction = known[name]
        if console:
            _announce(reproduction, full, console)
        try:
            outcome = run_reproduction(reproduction, Setting(full, data_dir), out)
        except (ParameterError, MissingExtra) as error:
            # Data or a package are missing. The other reproductions can still be run.
            missing.append(f"{name}: {error}")
            continue

        checks_by_name[name] = [check._asdict() for check in outcome.checks]
        for check in outcome.checks:
            if not check.holds and not check.timing:
                failures.append(f"{name}: {check.figure}")
        if console:
            console.print(_table(outcome.checks))
            files = ", ".join(str(file) for file in outcome.files)
            console.print(f"{outcome.seconds:.1f} s; wrote {files}")
    if not console:
        print(json.dumps(checks_by_name))
    if failures:
        raise VerificationFailed("; ".join(failures))
    if missing:
        raise ParameterError("; ".join(missing))


def _requested_names(names: list[str], known: Mapping[str, Reproduction]) -> list[str]:
    """Return the names of the reproductions to run, each once.

    Parameters
    ----------
    names : list of str
        The names that the user gave, possibly "all".
    known : mapping
        All reproductions, by name.

    Raises
    ------
    ParameterError
        If a name is unknown, or none is given.
    """
    choices = f"there are: {', '.join(known)}, or all"
    unknown = [name for name in names if name not in known and name != "all"]
    if unknown:
        raise ParameterError(f"no reproduction {', '.join(unknown)}; {choices}")
    if not names:
        raise ParameterError(f"name what to reproduce; {choices}")
    return list(known) if "all" in names else list(dict.fromkeys(names))


def _announce(reproduction: Reproduction, full: bool, console: Console) -> None:
    """Print which reproduction is run next, and about how long it takes.

    Parameters
    ----------
    reproduction : Reproduction
        The figure or table.
    full : bool
        Whether the full form is run.
    console : Console
        Where to print.
    """
    form = "full" if full else "reduced"
    console.print(
        f"[bold]{reproduction.name}[/]: {reproduction.title} ({form} form, about "
        f"{reproduction.seconds[form]:g} s)"
    )


def _table(checks: list[Check]) -> Table:
    """Return the checks of one reproduction as a table for the console."""
    table = Table("figure", "found", "expected", "holds", "printed", "note")
    table.columns[0].overflow = "fold"
    for check in checks:
        verdict = "[green]yes[/]"
        if not check.holds:
            verdict = "slower here" if check.timing else "[bold red]NO[/]"
        found = f"{check.found:.6g}"
        table.add_row(
            check.figure, found, check.expected, verdict, check.beside, check.note
        )
    return table
