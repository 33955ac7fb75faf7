"""`curvedp release [mean | median | dispersion | pca | mdm | regression] FILE`: one command a statistic."""

import json as json_module
import os
import re
import warnings
from collections.abc import Callable
from functools import partial
from inspect import Parameter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from curvedp import _validate
from curvedp.cli.console import console, describe, escape_markup, waiting
from curvedp.cli.options import (
    GUARANTEE,
    JsonOption,
    Options,
    guarantee_from_options,
    number_or_word,
    option,
    with_options,
)
from curvedp.core.wording import choice_sentence
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.releasing import OFFERS, certificates_of, parse_column, write

if TYPE_CHECKING:
    from curvedp.estimators.base import PrivateEstimator
    from curvedp.ledger import Ledger


class _MeanByDefault(TyperGroup):
    """`curvedp release FILE` means the mean."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["mean", *args]
        return super().parse_args(ctx, args)


release_app = typer.Typer(
    cls=_MeanByDefault,
    no_args_is_help=True,
    help="Release a statistic of the records in a file, with a certificate; without a name, their mean.",
)


_DATA = Annotated[
    Path,
    typer.Argument(
        help="csv, tsv, xlsx, parquet, npy, npz, mat, zarr or nii, one record a row"
    ),
]
READING: Options = {
    "key": option(
        str, "--key", help="array in an npz, mat or zarr file; cells of an xlsx file"
    ),
    "header": option(
        bool, "--header/--no-header", help="whether the first line names columns"
    ),
    "form": option(
        str, "--as", help="what a row is, such as latlon-degrees or tensor6-lower"
    ),
    "columns": option(
        str, "--columns", help="names or places from 0, separated by commas"
    ),
    "mask": option(Path, "--mask", help="which voxels of a volume are records"),
    "sep": option(str, "--sep", help="what separates the cells"),
    "decimal": option(str, "--decimal", help="the decimal sign", default="."),
    "skip": option(int, "--skip", help="lines before the first", default=0),
    "encoding": option(
        str, "--encoding", help="of csv and tsv, such as utf-16", default="utf-8"
    ),
}
_COMMON: Options = {
    "manifold": option(
        str, "--manifold", "-m", help="such as sphere:2 or spd-affine:3"
    ),
    "radius": option(
        str, "--radius", "-r", help="of the public ball that holds the records"
    ),
    **GUARANTEE,
    **READING,
    "ledger": option(Path, "--ledger", help="budget to spend from"),
    "budget_mu": option(
        float, "--budget-mu", help="start the ledger with this GDP budget"
    ),
    "out": option(Path, "--out", help="write the released value (npy or csv)"),
    "certificate": option(Path, "--certificate", help="write the certificate (json)"),
    "report": option(Path, "--report", help="write a page about the release (html)"),
    "json": (JsonOption, False),
}
CENTER = {
    "center": option(
        Path,
        "--center",
        help="a file, numbers like a record's, or one times the origin",
    )
}
PERSONS = {
    "groups": option(str, "--groups", help="column that says whose record each is")
}
_OWN: Options = {
    **CENTER,
    "mechanism": option(
        str, "--mechanism", help="auto, or a name that `curvedp plan` lists"
    ),
    "outer_radius": option(
        float, "--outer-radius", help="with -r private: as wide as you like"
    ),
    "n_components": option(
        int, "--components", help="how many directions; one otherwise"
    ),
    "method": option(str, "--method", help="auto, or one of its methods"),
    "ball": option(
        str, "--ball", help="with -r private: shared by all classes, or each"
    ),
    "labels": option(str, "--labels", help="column with the public classes"),
    "x": option(str, "--x", help="column with the predictor"),
    "x_range": option(str, "--x-range", help="its public range, such as 20,90"),
    "speed": option(float, "--speed", help="public bound on the geodesic's length"),
    "clip": option(float, "--clip", help="public bound on one residual"),
}


def column_of(given: SimpleNamespace, name: str | None, decimal: str = ".") -> Any:
    """A column of the file that the records are in, by its name or place."""
    from curvedp.records import read_column

    if name is None:
        return None
    how = {
        name: getattr(given, name) for name in ("header", "sep", "skip", "encoding")
    } | {"decimal": decimal}
    return read_column(given.data, parse_column(name), **how)


def reading_of(given: SimpleNamespace) -> dict[str, Any]:
    """How a file is read, as `read_records` takes it."""
    reading = {name: getattr(given, name) for name in READING}
    if given.columns is not None:
        reading["columns"] = [parse_column(each) for each in given.columns.split(",")]
    return reading


def _check_targets(inputs: list[Path | None], **targets: Path | None) -> None:
    """Refuse, before anything is spent, what could not be written and what would overwrite an input or another output."""
    taken = [path for path in inputs if path is not None]
    for name, target in targets.items():
        if target is None:
            continue
        if not target.absolute().parent.is_dir():
            raise ParameterError(f"the folder of {target} does not exist")
        if target.is_dir() or not os.access(
            target if target.exists() else target.absolute().parent, os.W_OK
        ):
            raise ParameterError(f"--{name} {target} cannot be written")
        numbered = re.compile(
            rf"{re.escape(target.stem)}-\d+{re.escape(target.suffix)}"
        )  # as of several certificates
        for path in taken:
            same = target.resolve() == path.resolve() or (
                target.exists() and path.exists() and target.samefile(path)
            )
            beside = (
                path.absolute().parent.resolve() == target.absolute().parent.resolve()
            )
            if same or (
                name == "certificate" and beside and numbered.fullmatch(path.name)
            ):
                what = "is an input, the ledger or another output"
                raise ParameterError(
                    f"--{name} {target} {what}: it would be overwritten"
                )
        taken.append(target)
    out = targets.get("out")
    if out is not None and out.suffix not in (".npy", ".csv"):
        raise ParameterError(f"--out {out} must end in .npy or .csv")


def _open_ledger(path: Path | None, budget_mu: float | None) -> "Ledger | None":
    """Return the ledger to pay from, if any.

    A new one is made together with its first entry (`lazy`), so that a release that is
    refused leaves no file. A file that exists is never deleted: another process may have
    spent from it since anybody looked.
    """
    from curvedp.ledger import Ledger
    from curvedp.privacy import GDP

    if path is None:
        return None
    if budget_mu is None:
        if not path.exists():
            raise ParameterError(
                f"there is no ledger at {path}: --budget-mu starts one, or "
                "`curvedp ledger create`"
            )
        return Ledger(path)
    _validate.positive("budget_mu", budget_mu)
    return Ledger(path, GDP(budget_mu), lazy=True)


def _run(statistic: str, given: SimpleNamespace) -> None:
    from curvedp.geometry import parse_manifold
    from curvedp.records import read_records
    from curvedp.records.files import load_point

    if given.manifold is None:
        raise ParameterError(
            "--manifold is missing: where the records live, such as -m sphere:2 or -m spd-affine:3"
        )
    if given.radius is None:
        how = "a public ball must hold the records; choose it from domain knowledge, not from the data"
        raise ParameterError(f"--radius is missing: {how}")
    space, guarantee = (
        parse_manifold(given.manifold),
        guarantee_from_options(given.mu, given.epsilon, given.delta, given.rho),
    )
    given.radius = number_or_word(given.radius)
    inputs = [given.data, getattr(given, "center", None), given.mask, given.ledger]
    _check_targets(
        inputs, out=given.out, certificate=given.certificate, report=given.report
    )
    if given.report is not None:
        import curvedp.report  # noqa: F401 - without its extra nothing is paid
    if given.ledger is None and given.budget_mu is not None:
        raise ParameterError("--budget-mu goes with --ledger")
    if getattr(given, "center", None) is not None:
        given.center = load_point(given.center, space, given.form)
    records = read_records(given.data, space, **reading_of(given))
    offer = OFFERS[statistic]
    columns = {"records": records, "groups": column_of(given, given.groups)}
    if offer.column is not None:
        decimal = given.decimal if offer.column == "x" else "."  # a label is no number
        columns[offer.column] = column_of(given, getattr(given, offer.column), decimal)
    title = f"{offer.title} of {given.data.name}"
    label = "".join(c if c.isprintable() else "?" for c in title)[:200]
    model = offer.build(
        {**vars(given), "manifold": space},
        guarantee=guarantee,
        ledger=_open_ledger(given.ledger, given.budget_mu),
        label=label,
    )
    with waiting("drawing exact noise"):
        fitted = offer.fit(model, columns)
    try:
        write(fitted, given.out, given.certificate, given.report)
    except OSError as error:  # it is paid for: what could not be kept is printed whole
        print(json_module.dumps(_told(statistic, fitted), default=str))
        why = "what was released, and may have been paid for, is above: keep it"
        raise ParameterError(
            f"an output could not be written ({error.strerror or error}); {why}"
        ) from None
    _print(
        statistic,
        given,
        fitted,
        f"{len(records)} records" if given.groups is None else "persons",
    )


def _print(
    statistic: str, given: SimpleNamespace, fitted: "PrivateEstimator", of: str
) -> None:
    """What was released; its alarms are warnings, which were printed. Where a person is the unit, how many records there are
    is theirs too, and is not printed."""
    import numpy as np

    if given.json:
        print(json_module.dumps(_told(statistic, fitted), default=str))
        return
    releases = fitted.releases
    first = releases[0].certificate
    console.print(
        f"private {statistic} of {of} on {escape_markup(given.manifold)}, {escape_markup(first.guarantee)}:"
    )
    for title, value, _ in releases:
        lines = np.array2string(value, precision=8).splitlines()
        if len(releases) > 1:
            lines = [f"{title}:", *lines]
        console.print(
            "\n".join(map(escape_markup, lines)), soft_wrap=True, highlight=False
        )
    why = choice_sentence(first, with_excluded=False)
    console.print(
        escape_markup(f"{first.mechanism}, sensitivity {first.sensitivity:.6g}; {why}"),
        soft_wrap=True,
    )
    console.print(escape_markup(_error_bars(fitted)), soft_wrap=True, highlight=False)
    if fitted.ledger is not None:
        console.print(
            escape_markup(
                f"remaining in {given.ledger}: {fitted.ledger.remaining or 'nothing'}"
            ),
            soft_wrap=True,
        )


def _told(statistic: str, fitted: "PrivateEstimator") -> dict[str, Any]:
    """All that was released, as plain values."""
    from curvedp.estimators.softmax import ReducedClassifier
    from curvedp.release.warnings import estimator_warnings

    released: dict[str, Any] = {
        statistic: fitted.released_array().tolist(),
        "alarms": [warning.text for warning in estimator_warnings(fitted)],
    }
    if isinstance(fitted, ReducedClassifier):
        released["classes"] = fitted.classes_.tolist()
    certificates = [each.to_dict() for each in certificates_of(fitted)]
    if len(certificates) > 1:
        released["certificates"] = certificates
    else:
        released["certificate"] = certificates[0]
    return released


def _error_bars(fitted: Any) -> str:
    """The regions of what was released, in a line, or why there are none."""
    try:
        found = fitted.confidence_region(0.95)
    except ParameterError as why:
        return f"no error bars: {describe(why)}"
    regions = list(found.values()) if isinstance(found, dict) else [found]
    if (
        "Fréchet mean of" in regions[0].description
    ):  # in a public ball; a median's region is all of it
        center = fitted.manifold.origin if fitted.center is None else fitted.center
        if any(each.contains(center) for each in regions):
            words = "the 95% region holds the public center, as it would if the file had been misread"
            warnings.warn(
                f"{words}: `curvedp check` tells", ReleaseWarning, stacklevel=2
            )
    together = "" if len(regions) == 1 else f", {len(regions)} regions together"
    widest = max(each.radius for each in regions)
    return f"95% region of {regions[0].description}: within {widest:.4g}{together}; {regions[0].theorem}"


def command_of(
    options: Options, words: str, run: Callable[[SimpleNamespace], None]
) -> Any:
    """A command of a file with records, with these options."""
    options = {"data": (_DATA, Parameter.empty), **options}
    return with_options(lambda **given: run(SimpleNamespace(**given)), options, words)


for _name, _offer in OFFERS.items():
    _asked = {
        name: _OWN[name]
        for name in (*_offer.parameters, *_offer.fit_arguments)
        if name in _OWN
    }
    release_app.command(_name)(
        command_of(
            {**_COMMON, **_asked, **PERSONS}, _offer.description, partial(_run, _name)
        )
    )
