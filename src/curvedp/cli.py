"""The command line: `curvedp demo | release | calibrate | verify | audit | ledger | reproduce`.

Exit codes: 0 done; 1 a claim could not be confirmed or a bound was violated; 2 wrong usage or an unusable input, with one
line that says what to do; 3 (`verify`) every claim holds for the ideal law, but the release was drawn in float64.
"""

import json as json_module
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from curvedp._console import (
    DeltaOption,
    EpsilonOption,
    JsonOption,
    MuOption,
    asked,
    console,
    errors,
    inert,
    number_or_word,
    one_line_errors,
)
from curvedp.cli_ledger import ledger_app
from curvedp.errors import CurvedpError, ParameterError, VerificationFailed

if TYPE_CHECKING:
    from curvedp.ledger import Ledger

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="Differential privacy on curved spaces: release a statistic of manifold data with a certificate.",
    pretty_exceptions_enable=False,
)
app.add_typer(ledger_app, name="ledger")

ManifoldOption = Annotated[str, typer.Option("--manifold", "-m", help="e.g. sphere:2, spd-affine:3, poincare:2")]


def _check_targets(**targets: Path | None) -> None:
    """Refuse what could not be written before anything is spent."""
    for option, target in targets.items():
        if target is None:
            continue
        if not target.absolute().parent.is_dir():
            raise ParameterError(f"the folder of {target} does not exist")
        if target.is_dir() or not os.access(target if target.exists() else target.absolute().parent, os.W_OK):
            raise ParameterError(f"--{option} {target} cannot be written")
    out = targets.get("out")
    if out is not None and out.suffix not in (".npy", ".csv"):
        raise ParameterError(f"--out {out} must end in .npy or .csv")


@contextmanager
def _opened(path: Path | None, budget_mu: float | None) -> "Iterator[Ledger | None]":
    """The ledger to pay from; one that was made for a release that is then refused is taken away again."""
    from curvedp import GDP, Ledger

    if path is None:
        yield None
        return
    fresh = not path.exists()
    book = Ledger(path, None if budget_mu is None else GDP(budget_mu))
    try:
        yield book
    except CurvedpError:
        if fresh and not book.entries:
            path.unlink()
        raise


@app.command()
def release(
    data: Annotated[Path, typer.Argument(help="npy, npz, csv or parquet, one record a row")],
    manifold: Annotated[str | None, typer.Option("--manifold", "-m", help="such as sphere:2 or spd-affine:3")] = None,
    radius: Annotated[float | None, typer.Option("--radius", "-r", help="public ball that holds the records")] = None,
    mu: MuOption = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    center: Annotated[Path | None, typer.Option(help="npy or csv with the ball's centre; the origin otherwise")] = None,
    key: Annotated[str | None, typer.Option(help="array inside an npz file")] = None,
    header: Annotated[bool | None, typer.Option(help="whether the first line of a csv names its columns")] = None,
    mechanism: Annotated[
        str, typer.Option(help="auto, gaussian, laplace, log-gaussian, log-laplace, newton, kng")
    ] = "auto",
    ledger: Annotated[Path | None, typer.Option(help="budget to spend from")] = None,
    budget_mu: Annotated[float | None, typer.Option(help="start the ledger with this GDP budget")] = None,
    out: Annotated[Path | None, typer.Option(help="write the private mean (npy or csv)")] = None,
    certificate: Annotated[Path | None, typer.Option(help="write the certificate (json)")] = None,
    report: Annotated[Path | None, typer.Option(help="write a page about the release (html)")] = None,
    json: JsonOption = False,
) -> None:
    """Release the private Fréchet mean of the records in a file, with a certificate."""
    import numpy as np

    from curvedp import PrivateFrechetMean
    from curvedp.geometry import parse_manifold
    from curvedp.records import load_point, load_records

    with one_line_errors():
        if manifold is None:
            raise ParameterError(
                "--manifold is missing: where the records live, such as -m sphere:2 or -m spd-affine:3"
            )
        if radius is None:
            raise ParameterError(
                "--radius is missing: a public ball must hold the records; choose it from domain knowledge, not from the data"
            )
        space = parse_manifold(manifold)
        guarantee = asked(mu, epsilon, delta)
        _check_targets(out=out, certificate=certificate, report=report)
        if report is not None:
            import curvedp.report  # noqa: F401 - without its extra nothing is paid
        if ledger is None and budget_mu is not None:
            raise ParameterError("--budget-mu goes with --ledger")
        middle = None if center is None else load_point(center, space)
        records = load_records(data, space, key, header)
        with _opened(ledger, budget_mu) as book:
            fitted = PrivateFrechetMean(
                space, radius, middle, guarantee, mechanism, book, label=f"Fréchet mean of {data.name}"
            ).fit(records)
        mean, signed = fitted.location_, fitted.certificate_
        if out is not None:
            flat = mean.reshape(1, -1)
            np.savetxt(out, flat, delimiter=",", fmt="%.17g") if out.suffix == ".csv" else np.save(out, mean)
        if certificate is not None:
            signed.save(certificate)
        if report is not None:
            from curvedp.report import write_report

            write_report(report, mean, signed, book)
        if json:
            print(json_module.dumps({"mean": mean.tolist(), "certificate": signed.to_dict()}))
            return
        console.print(f"private mean of {len(records)} records on {manifold}, {guarantee}:")
        console.print(np.array2string(mean, precision=8), highlight=False)
        why = signed.release["reason"]
        console.print(f"{signed.mechanism}, sensitivity {signed.sensitivity:.6g}; {why}", soft_wrap=True)
        if book is not None:
            console.print(f"remaining in {ledger}: {book.remaining or 'nothing'}")


@app.command()
def plan(
    manifold: ManifoldOption,
    records: Annotated[int, typer.Option("--records", "-n", help="number of records, or of persons")],
    radius: Annotated[str, typer.Option("--radius", "-r", help="of the public ball, or private")],
    mu: MuOption = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    error: Annotated[float | None, typer.Option(help="wanted: how many records it takes, and which radius")] = None,
    json: JsonOption = False,
) -> None:
    """How good a private mean would be, for each mechanism; no data needed."""
    from curvedp.geometry import parse_manifold
    from curvedp.planning import plan as make_plan

    with one_line_errors():
        study = make_plan(parse_manifold(manifold), records, number_or_word(radius), asked(mu, epsilon, delta))
        lines = study.advice()
        if error is not None:
            lines.append(f"for an error of {error:g}: {study.records_needed(error)} records")
        if error is not None and not isinstance(study.radius, str):
            lines[-1] += f", or a radius of {study.radius_for(error):.3g}"
        if json:
            print(json_module.dumps({**study.to_dict(), "advice": lines}))
            return
        table = Table("mechanism", "predicted error", title=study.title)
        for row in study.rows():
            table.add_row(*row)
        console.print(table)
        for line in lines:
            console.print(inert(line), soft_wrap=True, highlight=False, style="yellow" if "too small" in line else None)


@app.command()
def calibrate(
    manifold: ManifoldOption,
    mu: MuOption = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    sensitivity: Annotated[float | None, typer.Option(help="of the statistic; or give --radius and --records")] = None,
    radius: Annotated[float | None, typer.Option("--radius", "-r")] = None,
    records: Annotated[int | None, typer.Option("--records", "-n", help="number of records")] = None,
    json: JsonOption = False,
) -> None:
    """The smallest noise of each mechanism that meets a guarantee; no data needed."""
    from curvedp.geometry import parse_manifold
    from curvedp.mechanisms import GaussianMechanism, LaplaceMechanism, LogGaussianMechanism, frechet_mean_sensitivity

    with one_line_errors():
        space = parse_manifold(manifold)
        guarantee = asked(mu, epsilon, delta)
        if (sensitivity is None) == (radius is None or records is None):
            raise ParameterError("give --sensitivity, or --radius and --records for a Fréchet mean")
        if sensitivity is None:
            assert radius is not None  # checked above
            assert records is not None
            sensitivity = frechet_mean_sensitivity(space, radius, records)
        rows: dict[str, Any] = {}
        for kind in (GaussianMechanism, LaplaceMechanism, LogGaussianMechanism):
            extra = {"radius": radius} if kind is LogGaussianMechanism else {}
            try:
                found = kind.calibrated(space, sensitivity, guarantee, **extra)
                rows[kind.name] = {"scale": found.parameters.get("sigma", found.parameters.get("scale"))}
            except CurvedpError as error:
                rows[kind.name] = {"refused": str(error)}
        if json:
            print(json_module.dumps({"sensitivity": sensitivity, "mechanisms": rows}))
            return
        table = Table("mechanism", "scale", title=f"{guarantee} on {manifold}, sensitivity {sensitivity:.6g}")
        for name, row in rows.items():
            table.add_row(name, f"{row['scale']:.8g}" if "scale" in row else row["refused"])
        console.print(table)


@app.command()
def verify(certificate: Annotated[Path, typer.Argument(help="certificate.json")], json: JsonOption = False) -> None:
    """Recompute every claim of a certificate by the certified path; exit 1 if one cannot be confirmed, 3 if all of them are
    but the release was drawn in float64, which no certificate can vouch for."""
    from curvedp import federated  # noqa: F401 - knows the certificates of sums over sites
    from curvedp.mechanisms.certificate import Certificate
    from curvedp.mechanisms.verify import verify_certificate

    with one_line_errors():
        with errors.status("recomputing every claim"):
            checks = verify_certificate(Certificate.load(certificate))
        failed = [check.claim for check in checks if check.holds is False]
        unknown = [check for check in checks if check.holds is None]
        if json:
            print(json_module.dumps([check._asdict() for check in checks]))
        else:
            shown = {True: "[green]yes[/]", False: "[bold red]NO[/]", None: "[bold yellow]not known[/]"}
            table = Table("claim", "holds", "how")
            for check in checks:
                table.add_row(check.claim, shown[check.holds], check.detail)
            console.print(table)
            if not failed and not unknown:
                console.print("[bold green]verified[/]: every claim was recomputed and holds")
        if failed:
            raise VerificationFailed(", ".join(failed))
        if unknown:
            errors.print(
                f"[bold yellow]claims confirmed, sampler not[/]: {inert(unknown[0].claim)}; {unknown[0].detail}",
                soft_wrap=True,
            )
            raise typer.Exit(3)


@app.command()
def audit(
    samples: Annotated[int, typer.Option(help="outputs at each of two neighbours")] = 100_000,
    canaries: Annotated[int, typer.Option(help="records whose coins are guessed from one run of an optimiser")] = 400,
    only: Annotated[str, typer.Option(help="mechanisms whose name holds this text, e.g. laplace, dp_rgd")] = "",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="processes")] = 1,
    json: JsonOption = False,
) -> None:
    """Attack every mechanism on every manifold: claims against what outputs prove; exit 1 on a violation."""
    from rich.progress import track

    from curvedp import _validate
    from curvedp.audit.table import audit_all, case_names

    with one_line_errors():
        _validate.integer("--samples", samples, 100)
        _validate.integer("--canaries", canaries, 8)
        names = case_names(only)
        if not names:
            raise ParameterError(
                f"no mechanism is called {only!r}; there are: {', '.join(sorted({n for n, _ in case_names()}))}"
            )
        work = audit_all(samples, canaries, only=only, jobs=jobs)
        rows = list(track(work, "attacking", total=len(names), console=errors, transient=True))
        if json:
            print(json_module.dumps([row._asdict() for row in rows]))
        else:
            headers = (
                "mechanism",
                "manifold",
                "δ",
                "claimed ε",
                "audited ε ≥",
                "claimed μ",
                "audited μ ≥",
                "tightness",
            )
            table = Table(*headers, title="a true claim is called violated with probability below 1e-6")
            for row in rows:
                mu = ("", "") if row.claimed_mu is None else (f"{row.claimed_mu:.4f}", f"{row.audited_mu:.4f}")
                share = f"{100 * row.tightness:.0f}%" if row.holds else "[red]VIOLATED[/]"
                table.add_row(
                    row.mechanism,
                    row.manifold,
                    f"{row.delta:g}",
                    f"{row.claimed:.4f}",
                    f"{row.audited:.4f}",
                    *mu,
                    share,
                )
            console.print(table)
        wrong = [f"{row.mechanism} on {row.manifold}" for row in rows if not row.holds]
        if wrong:
            raise VerificationFailed(f"the outputs refute the claim of {', '.join(wrong)}")


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="folder for certificates, ledger, plots and report")] = Path(
        "demo-output"
    ),
    json: JsonOption = False,
) -> None:
    """Private class means of covariance descriptors of handwritten digits: table, classifier, ledger, report."""
    from curvedp.demo import run_demo

    with one_line_errors():
        summary = run_demo(output, console=errors if json else console)
        if json:
            print(json_module.dumps(summary))


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="as given by --list, or all")] = None,
    list_names: Annotated[bool, typer.Option("--list", help="one name a line")] = False,
    full: Annotated[bool, typer.Option("--full", help="the paper's sizes; the reduced form otherwise")] = False,
    out: Annotated[Path, typer.Option(help="folder for the pictures and numbers")] = Path("out"),
    data_dir: Annotated[Path | None, typer.Option(envvar="CURVEDP_DATA", help="folder with the data sets")] = None,
    json: JsonOption = False,
) -> None:
    """Make the papers' figures and tables, as printed and as corrected; exit 1 if a number is not what it should be."""
    with one_line_errors():
        _reproductions().command(names or [], list_names, full, out, data_dir, None if json else console)


def _reproductions() -> Any:
    """`reproductions/runner.py` of the checkout this package lies in, else of the current folder's: it is not installed."""
    places = [Path(__file__).resolve().parents[2], Path.cwd(), *Path.cwd().parents]
    root = next((place for place in places if (place / "reproductions" / "runner.py").is_file()), None)
    if root is None:
        raise ParameterError(
            "reproductions are not part of the installed package: run this inside a checkout of curvedp"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))  # and left there: reproductions import one another while they run
    return import_module("reproductions.runner")


if __name__ == "__main__":
    sys.exit(app())
