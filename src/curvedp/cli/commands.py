"""The command line: `curvedp demo | check | plan | release | calibrate | verify | …`.
Exit codes: 0, done; 1, a claim could not be confirmed or a bound was violated; 2, wrong
usage or an unusable input, with one line that says what to do; 3 (`verify`), every
claim holds, except for what no certificate can vouch for.
"""

import json as json_module
from importlib import import_module
from inspect import Parameter
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from curvedp.cli.comparison import test_app
from curvedp.cli.console import (
    check_picture,
    console,
    describe,
    errors,
    escape_markup,
    print_table,
    save_picture,
    waiting,
)
from curvedp.cli.ledger import ledger_app
from curvedp.cli.neuro import connectome, plan_connectome, regions
from curvedp.cli.options import JsonOption, PictureOption, command
from curvedp.cli.perturb import perturb
from curvedp.cli.reading import (
    PERSONS,
    READING,
    TypedOptions,
    file_command,
    read_persons,
    reading_options,
    statistic_option,
)
from curvedp.cli.region import figure, region
from curvedp.cli.release import release_app
from curvedp.cli.sign import key, sign, statement
from curvedp.cli.synthesize import synthesize
from curvedp.cli.topics import topics
from curvedp.cli.verify import verify
from curvedp.errors import CurvedpError, ParameterError, VerificationFailed
from curvedp.releasing import CENTER, parse_radius, statistic_to_plan

if TYPE_CHECKING:
    from curvedp.audit.table import Row
    from curvedp.geometry import Manifold
    from curvedp.planning import Plan
    from curvedp.privacy import Guarantee

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Differential privacy on curved spaces: "
        "release a statistic of manifold data with a certificate."
    ),
    pretty_exceptions_enable=False,
)


def _show_version(is_requested: bool) -> None:
    """Print the version and end, if that is requested.

    Parameters
    ----------
    is_requested : bool
        Whether --version was typed.
    """
    if is_requested:
        from curvedp import __version__

        print(f"curvedp {__version__}")
        raise typer.Exit


@app.callback()
def _before_every_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and exit.",
            callback=_show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


# The parts of the help text, in their order.
EVERY_STUDY = "Every study"
PUBLISH = "Verify and publish"
FURTHER = "Further releases"
TRY_AND_TEST = "Try and test"

for _command in (connectome, regions):
    release_app.command()(_command)
app.add_typer(release_app, name="release", rich_help_panel=EVERY_STUDY)
app.add_typer(ledger_app, name="ledger", rich_help_panel=EVERY_STUDY)
app.add_typer(test_app, name="test", rich_help_panel=FURTHER)

ManifoldOption = Annotated[
    str,
    typer.Option("--manifold", "-m", help="e.g. sphere:2, spd-affine:3, poincare:2"),
]


def _check(options: TypedOptions) -> None:
    """Run `curvedp check FILE`: print what is wrong with the records.

    Parameters
    ----------
    options : mapping
        The options of the command, by their names in Python.
    """
    from curvedp.checking import check
    from curvedp.geometry import parse_manifold
    from curvedp.records.files import load_point

    space = parse_manifold(options["manifold"])
    center = options["center"]
    if center is not None:
        center = load_point(center, space, options["form"])
    persons = read_persons(options)
    with waiting("looking at the records"):
        checked = check(
            space,
            options["data"],
            center,
            None if options["radius"] is None else parse_radius(options["radius"]),
            persons,
            **reading_options(options),
        )
    if options["json"]:
        print(json_module.dumps(checked.to_dict(), default=str))
    else:
        print(checked)


_CHECK_OPTIONS = {
    "manifold": (ManifoldOption, Parameter.empty),
    "radius": (
        Annotated[
            str | None,
            typer.Option(
                "--radius", "-r", help="radius of the public ball, or private"
            ),
        ],
        None,
    ),
    CENTER.name: statistic_option(CENTER),
    **PERSONS,
    **READING,
    "json": (JsonOption, False),
}
_CHECK_DESCRIPTION = (
    "NOT private: report problems in the records of a file, for those who may see them."
)
_check_command = file_command(_CHECK_OPTIONS, _CHECK_DESCRIPTION, _check)
app.command("check", rich_help_panel=EVERY_STUDY)(_check_command)
for _command in (verify, sign, key, statement, region, figure):
    app.command(rich_help_panel=PUBLISH)(_command)
app.command("synthesize", rich_help_panel=FURTHER)(synthesize)
app.command("topics", rich_help_panel=FURTHER)(topics)
app.command("perturb", rich_help_panel=FURTHER)(perturb)
app.command(rich_help_panel=FURTHER)(plan_connectome)


@app.command(rich_help_panel=EVERY_STUDY)
@command
def plan(
    manifold: ManifoldOption,
    records: Annotated[
        int, typer.Option("--records", "-n", help="number of records, or of people")
    ],
    radius: Annotated[
        str | None,
        typer.Option("--radius", "-r", help="radius of the public ball, or private"),
    ] = None,
    guarantee: Any = None,
    error: Annotated[
        float | None,
        typer.Option(
            help="target error: report the number of records and the radius that reach it"
        ),
    ] = None,
    statistic: Annotated[
        str,
        typer.Option(
            help="mean, dispersion, regression, classifier, starter-kit, tangent-pca, "
            "synthetic or kmeans, or one that another package offers"
        ),
    ] = "mean",
    classes: Annotated[
        int, typer.Option(help="number of classes or clusters of equal size")
    ] = 1,
    spread: Annotated[
        float | None,
        typer.Option(
            help="with -r private: root mean square distance of the records "
            "to their mean; of a starter kit: distance of a person's class centers "
            "from the identity"
        ),
    ] = None,
    shift: Annotated[
        float | None,
        typer.Option(
            help="distance between two populations: report the power of a two-sample test"
        ),
    ] = None,
    plot: PictureOption = None,
    json: JsonOption = False,
) -> None:
    """Predict the error of a private mean for each mechanism; no data needed.

    Its picture: the error against records and μ.
    """
    from curvedp.geometry import parse_manifold
    from curvedp.planning import AdviceKind
    from curvedp.planning import plan as make_plan

    check_picture(plot)
    with waiting("predicting the error of each mechanism"):
        study = make_plan(
            parse_manifold(manifold),
            records,
            None if radius is None else parse_radius(radius),
            guarantee,
            statistic=statistic_to_plan(statistic),
            classes=classes,
            spread=spread,
        )
        answer_lines = []
        if error is not None:
            answer_lines.append(_wanted_error_line(study, error))
        if shift is not None:
            answer_lines.append(
                f"a two-sample test of {study.n} records each finds a shift of "
                f"{shift:g} with power {study.power(shift):.2f}"
            )
        if plot is not None:
            save_picture(study.plot(), plot)

    if json:
        all_lines = [*study.advice(), *answer_lines]
        print(json_module.dumps({**study.to_dict(), "advice": all_lines}))
        return
    print_table(("mechanism", "predicted error"), study.rows(), study.title)
    for line in study.advice_with_kinds():
        style = "yellow" if line.kind is AdviceKind.TOO_SMALL else None
        _print_line(line.text, style)
    for line_of_answer in answer_lines:
        _print_line(line_of_answer)


def _print_line(text: str, style: str | None = None) -> None:
    """Print a line of advice, which the terminal wraps and does not interpret.

    Parameters
    ----------
    text : str
        The line, which may quote a stranger's text.
    style : str, optional
        A color of rich, such as "yellow".
    """
    console.print(escape_markup(text), soft_wrap=True, highlight=False, style=style)


def _wanted_error_line(study: "Plan", error: float) -> str:
    """Say how many records, or which public radius, a wanted error takes.

    Parameters
    ----------
    study : Plan
        The plan, which predicts errors.
    error : float
        The wanted error, in the units of the predicted one.

    Returns
    -------
    str
        One line for the terminal.
    """
    alternative = ""
    if isinstance(study.radius, float):
        radius = study.radius_for(error)
        if radius == inf:
            alternative = ", or any radius"
        else:
            alternative = f", or a radius of {radius:.3g}"
    records = study.records_needed(error)
    return f"for an error of {error:g}: {records} records{alternative}"


@app.command(rich_help_panel=TRY_AND_TEST)
@command
def calibrate(
    manifold: ManifoldOption,
    guarantee: Any = None,
    sensitivity: Annotated[
        float | None,
        typer.Option(
            help="sensitivity of the statistic; or give --radius and --records"
        ),
    ] = None,
    radius: Annotated[float | None, typer.Option("--radius", "-r")] = None,
    records: Annotated[
        int | None, typer.Option("--records", "-n", help="number of records")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Find the smallest noise of each mechanism that meets a guarantee; no data needed."""
    from curvedp import _validate, mechanisms
    from curvedp.geometry import parse_manifold

    space = parse_manifold(manifold)
    has_ball = radius is not None and records is not None
    if (sensitivity is not None) == has_ball:
        raise ParameterError(
            "give --sensitivity, or --radius and --records for a Fréchet mean"
        )
    if sensitivity is None:
        assert radius is not None, "checked above"
        assert records is not None, "checked above"
        sensitivity = mechanisms.frechet_mean_sensitivity(space, radius, records)
    sensitivity = _validate.length("sensitivity", sensitivity)

    results = _calibrate_each(space, sensitivity, guarantee, radius)
    if json:
        print(json_module.dumps({"sensitivity": sensitivity, "mechanisms": results}))
        return
    title = f"{guarantee} on {manifold}, sensitivity {sensitivity:.6g}"
    print_table(("mechanism", "scale"), _scale_rows(results), title)


def _scale_rows(results: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """Return a row for each mechanism: its name, and its noise scale or a refusal.

    Parameters
    ----------
    results : dict
        For each mechanism its "scale", or why it was "refused".
    """
    rows = []
    for name, result in results.items():
        is_refused = "refused" in result
        text = result["refused"] if is_refused else f"{result['scale']:.8g}"
        rows.append((name, text))
    return rows


def _calibrate_each(
    space: "Manifold", sensitivity: float, guarantee: "Guarantee", radius: float | None
) -> dict[str, dict[str, Any]]:
    """Calibrate each noise mechanism to a guarantee.

    Parameters
    ----------
    space : Manifold
        The space on which the statistic lies.
    sensitivity : float
        The sensitivity of the statistic, as a distance.
    guarantee : Guarantee
        The guarantee that each mechanism has to meet.
    radius : float or None
        The radius of the public ball, which mechanisms in a chart need.

    Returns
    -------
    dict
        For each mechanism, by the name of its option, {"scale": its noise scale} or
        {"refused": why it has none}.
    """
    from curvedp import mechanisms

    results: dict[str, dict[str, Any]] = {}
    classes_in_chart = (
        mechanisms.LogGaussianMechanism,
        mechanisms.LogLaplaceMechanism,
    )
    mechanism_classes = (
        mechanisms.GaussianMechanism,
        mechanisms.LaplaceMechanism,
        *classes_in_chart,
    )
    for mechanism_class in mechanism_classes:
        name = str(mechanism_class.info.option)
        # The noise of a chart depends on the ball, too.
        ball = {"radius": radius} if mechanism_class in classes_in_chart else {}
        try:
            mechanism = mechanism_class.calibrated(
                space, sensitivity, guarantee, **ball
            )
            parameters = mechanism.parameters
        except CurvedpError as error:
            results[name] = {"refused": describe(error)}
        else:
            # A Gaussian calls its noise scale sigma.
            scale = parameters.get("sigma", parameters.get("scale"))
            results[name] = {"scale": scale}
    return results


@app.command(rich_help_panel=TRY_AND_TEST)
@command
def audit(
    samples: Annotated[
        int, typer.Option(help="number of outputs on each of two neighboring data sets")
    ] = 100_000,
    canaries: Annotated[
        int,
        typer.Option(
            help="records whose coins are guessed from one run of an optimizer"
        ),
    ] = 400,
    only: Annotated[
        str,
        typer.Option(
            help="mechanisms whose name contains this text, e.g. laplace, dp-rgd"
        ),
    ] = "",
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="number of processes")
    ] = 1,
    json: JsonOption = False,
) -> None:
    """Attack every mechanism on every manifold: claims against what outputs prove.

    Exit code 1 on a violation.
    """
    from rich.progress import track

    from curvedp import _validate
    from curvedp.audit.table import audit_all, case_names

    _validate.integer("samples", samples, 100)
    _validate.integer("canaries", canaries, 8)
    cases = case_names(only)
    if not cases:
        mechanism_names = ", ".join(sorted({name for name, _ in case_names()}))
        raise ParameterError(
            f"no mechanism is called {only!r}; there are: {mechanism_names}"
        )
    audits = audit_all(samples, canaries, only=only, jobs=jobs)
    rows = list(
        track(audits, "attacking", total=len(cases), console=errors, transient=True)
    )
    _report_audits(rows, json=json)


def _report_audits(rows: "list[Row]", *, json: bool) -> None:
    """Print the results of attacks; raise `VerificationFailed` on a violation.

    Parameters
    ----------
    rows : list of Row
        The result of each attack.
    json : bool
        Whether to print JSON instead of a table.
    """
    if json:
        print(json_module.dumps([row._asdict() for row in rows]))
    else:
        print_table(
            _AUDIT_HEADER,
            [_audit_cells(row) for row in rows],
            "a true claim is called violated with probability below 1e-6",
        )
    violated = [f"{row.mechanism} on {row.manifold}" for row in rows if not row.holds]
    if violated:
        raise VerificationFailed(
            f"the outputs refute the claim of {', '.join(violated)}"
        )


_AUDIT_HEADER = (
    "mechanism",
    "manifold",
    "δ",
    "claimed ε",
    "audited ε ≥",
    "claimed μ",
    "audited μ ≥",
    "tightness",
)


def _audit_cells(row: "Row") -> tuple[str, ...]:
    """Return the cells of one audit, in the order of `_AUDIT_HEADER`.

    Parameters
    ----------
    row : Row
        The result of attacking one mechanism on one manifold.

    Returns
    -------
    tuple of str
        Eight cells; empty ones where a mechanism claims no μ.
    """
    claimed_mu = "" if row.claimed_mu is None else f"{row.claimed_mu:.4f}"
    audited_mu = "" if row.audited_mu is None else f"{row.audited_mu:.4f}"
    tightness = f"{100 * row.tightness:.0f}%" if row.holds else "[red]VIOLATED[/]"
    return (
        row.mechanism,
        row.manifold,
        f"{row.delta:g}",
        f"{row.claimed:.4f}",
        f"{row.audited:.4f}",
        claimed_mu,
        audited_mu,
        tightness,
    )


@app.command(rich_help_panel=TRY_AND_TEST)
@command
def demo(
    output: Annotated[
        Path, typer.Option(help="folder for certificates, ledger and report")
    ] = Path("demo-output"),
    json: JsonOption = False,
) -> None:
    """Private class means of covariance descriptors of handwritten digits.

    It makes a table, a classifier, a ledger and a report.
    """
    from curvedp.demo import run_demo

    summary = run_demo(output, console=errors if json else console)
    if json:
        print(json_module.dumps(summary))


@app.command(rich_help_panel=EVERY_STUDY)
@command
def studio(
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            help="file with records; several for a comparison of groups; or drop them "
            "on the page"
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="folder for the ledger and the released files")
    ] = Path("studio"),
    port: Annotated[int, typer.Option(help="port; 0 takes a free one")] = 0,
    browser: Annotated[bool, typer.Option(help="open a browser")] = True,
    key: Annotated[
        Path | None,
        typer.Option(help="sign releases with this key, as `curvedp key` writes it"),
    ] = None,
    ledger_key: Annotated[
        Path | None,
        typer.Option(help="key of the ledger, as `curvedp ledger key` writes it"),
    ] = None,
) -> None:
    """Start the Studio, a local web app for checking data and making releases."""
    from curvedp.studio.server import serve

    def print_now(line: str) -> None:
        """Print a line at once, also if the output is a pipe.

        Parameters
        ----------
        line : str
            The line.
        """
        print(line, flush=True)

    files = data or []
    serve(
        folder,
        files[0] if files else None,
        further_files=files[1:],
        port=port,
        browser=browser,
        key=key,
        ledger_key=ledger_key,
        say=print_now,
    )


@app.command(rich_help_panel=TRY_AND_TEST)
@command
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="names as --list prints them; all by default"),
    ] = None,
    list_names: Annotated[
        bool, typer.Option("--list", help="list the names, one per line")
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="run at the sizes of the paper instead of reduced ones"
        ),
    ] = False,
    out: Annotated[
        Path, typer.Option(help="folder for the pictures and numbers")
    ] = Path("out"),
    data_dir: Annotated[
        Path | None,
        typer.Option(envvar="CURVEDP_DATA", help="folder with the data sets"),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make the papers' figures and tables, as printed and as corrected.

    Exit code 1 if a number is not what it should be.
    """
    runner = import_module("curvedp.papers.runner")
    runner.command(
        names or [], list_names, full, out, data_dir, None if json else console
    )
