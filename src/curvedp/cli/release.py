"""The commands `curvedp release [mean | median | dispersion | pca | mdm | regression]`.
There is one command per statistic in the table of `curvedp.releasing`. A command reads
the records, charges the ledger, releases the statistic, writes the files and prints the
released values with their error bars.
"""

import json as json_module
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from typer.core import TyperGroup

from curvedp.cli.console import console, describe, escape_markup, waiting
from curvedp.cli.options import (
    GUARANTEE,
    JsonOption,
    Options,
    guarantee_from_options,
    option,
)
from curvedp.cli.outputs import (
    check_targets,
    input_files,
    ledger_label,
    open_ledger_file,
    why_not_written,
)
from curvedp.cli.reading import (
    PERSONS,
    READING,
    TypedOptions,
    file_command,
    person_columns,
    read_persons,
    read_typed_column,
    reading_options,
    statistic_option,
)
from curvedp.core.wording import UNIT_WORDS, choice_sentence
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.releasing import (
    Offer,
    all_offers,
    certificates_of,
    find_offer,
    parse_column,
    public_center,
    write,
)

if TYPE_CHECKING:
    from curvedp.core.released import ReleasedValue
    from curvedp.estimators.base import PrivateEstimator
    from curvedp.inference import Region
    from curvedp.inference.error_bars import ErrorBar
    from curvedp.ledger import Ledger
    from curvedp.privacy import Guarantee


class _MeanByDefault(TyperGroup):
    """The group of commands in which `curvedp release FILE` releases the mean."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the command "mean" if the first argument names no command.

        Parameters
        ----------
        ctx : typer.Context
            The context of the command line.
        args : list of str
            The arguments after `curvedp release`.

        Returns
        -------
        list of str
            The arguments that click leaves for the command.
        """
        if args and args[0] not in (*self.commands, "--help"):
            args = ["mean", *args]
        return super().parse_args(ctx, args)


# The options of every release.
_COMMON_OPTIONS: Options = {
    "manifold": option(
        str,
        "--manifold",
        "-m",
        help="the space of the records, such as sphere:2 or spd-affine:3",
    ),
    **GUARANTEE,
    **READING,
    "ledger": option(Path, "--ledger", help="budget to spend from"),
    "ledger_key": option(
        Path, "--ledger-key", help="file with the key of a keyed ledger"
    ),
    "budget_mu": option(
        float, "--budget-mu", help="start the ledger with this GDP budget"
    ),
    "label": option(str, "--label", help="label of the ledger entry"),
    "as_user": option(
        str,
        "--as-user",
        help="who makes the release: recorded in the ledger entry, not verified",
    ),
    "out": option(Path, "--out", help="write the released value (npy or csv)"),
    "certificate": option(Path, "--certificate", help="write the certificate (json)"),
    "report": option(Path, "--report", help="write a report about the release (html)"),
    "json": (JsonOption, False),
}


def _release(statistic: str, options: TypedOptions) -> None:
    """Run `curvedp release STATISTIC FILE`: read, pay, release, write and print.

    Everything that can be refused is refused before the ledger is charged.

    Parameters
    ----------
    statistic : str
        The name of the command.
    options : mapping
        The options that were typed, by their names in Python.
    """
    from curvedp.geometry import parse_manifold
    from curvedp.records import read_records
    from curvedp.records.files import load_point

    offer = find_offer(statistic)
    if options["manifold"] is None:
        raise ParameterError(
            "--manifold is missing: where the records live, "
            "such as -m sphere:2 or -m spd-affine:3"
        )
    space = parse_manifold(options["manifold"])
    guarantee = guarantee_from_options(
        options["mu"], options["epsilon"], options["delta"], options["rho"]
    )
    _check_outputs(options)

    def read_point(text: str) -> Any:
        """Read a point that was typed in the form of the records.

        Parameters
        ----------
        text : str
            Numbers, the name of a file, or a factor of the origin.
        """
        return load_point(text, space, options["form"])

    estimator_options = offer.parse_options(options, read_point)
    records = read_records(
        options["data"],
        space,
        **reading_options(options),
        other_columns=_columns_beside_records(offer, options),
    )
    columns = _read_columns(offer, options, records)
    ledger = open_ledger_file(
        options["ledger"], options["budget_mu"], options["ledger_key"]
    )
    estimator = offer.build(
        {**estimator_options, "manifold": space},
        guarantee=_cheapest_guarantee(guarantee, ledger, options["json"]),
        ledger=ledger,
        label=ledger_label(
            options["label"] or f"{offer.title} of {options['data'].name}",
            options["as_user"],
        ),
    )
    with waiting("drawing exact noise"):
        fitted_estimator = offer.fit(estimator, columns)
    written = _write_or_print(statistic, fitted_estimator, options)
    if options["json"]:
        print(
            json_module.dumps(_released_dict(statistic, fitted_estimator), default=str)
        )
    else:
        subject = f"{len(records)} records"
        if options["groups"] is not None:
            # How many records people have is private; how many people is in the
            # certificate if it is public.
            certificate = fitted_estimator.releases[0].certificate
            subject = UNIT_WORDS[certificate.privacy_unit].plural
        _print_release(statistic, fitted_estimator, subject, options)
        if written:
            names = ", ".join(str(path) for path in written)
            console.print(escape_markup(f"written: {names}"), soft_wrap=True)


def _cheapest_guarantee(
    guarantee: "Guarantee", ledger: "Ledger | None", is_json: bool
) -> "Guarantee":
    """Return the guarantee that costs the ledger least, and say what it costs.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee that was typed.
    ledger : Ledger or None
        The ledger that pays.
    is_json : bool
        Whether only JSON is printed.

    Returns
    -------
    Guarantee
        The typed one, or one that implies it and costs the ledger less.
    """
    from curvedp.release.pay import cheapest_request

    cheapest = cheapest_request(guarantee, ledger)
    if cheapest != guarantee and not is_json:
        sentence = (
            f"{guarantee} is implied by {cheapest}, which the release meets: "
            "the ledger is charged no more"
        )
        console.print(escape_markup(sentence), soft_wrap=True)
    return cheapest


def _check_outputs(options: TypedOptions) -> None:
    """Refuse outputs that could not be written, and a budget without a ledger.

    Parameters
    ----------
    options : mapping
        The options of the command, by their names in Python.
    """
    # The certificate comes last: it alone may stand for several files, and each of them
    # is compared with what was checked before.
    check_targets(
        input_files(options),
        out=options["out"],
        report=options["report"],
        certificate=options["certificate"],
    )
    out = options["out"]
    if out is not None and out.suffix not in (".npy", ".csv"):
        raise ParameterError(f"--out {out} must end in .npy or .csv")
    if options["report"] is not None:
        # Without the extra that a report needs, nothing is paid.
        import curvedp.report  # noqa: F401
    if options["ledger"] is None:
        for name in ("budget_mu", "ledger_key"):
            if options[name] is not None:
                flag = "--" + name.replace("_", "-")
                raise ParameterError(f"{flag} goes with --ledger")


def _columns_beside_records(offer: Offer, options: TypedOptions) -> list[str | int]:
    """Return the typed columns that do not hold the records: persons, labels and so on.

    Parameters
    ----------
    offer : Offer
        The statistic.
    options : mapping
        The options that were typed.

    Returns
    -------
    list of str or int
        Names or places of columns.
    """
    columns = person_columns(options)
    if offer.column is not None and options[offer.column.name] is not None:
        columns.append(parse_column(options[offer.column.name]))
    return columns


def _read_columns(offer: Offer, options: TypedOptions, records: Any) -> dict[str, Any]:
    """Return the arguments of `Offer.fit`: the records and the columns beside them.

    Parameters
    ----------
    offer : Offer
        The statistic.
    options : mapping
        The options that were typed.
    records : array
        The records that were read.

    Returns
    -------
    dict
        "records", "groups" (or None), and the statistic's own column by its name.
    """
    columns = {
        "records": records,
        "groups": read_persons(options),
    }
    if offer.column is not None:
        # The file's decimal sign is for numbers; a label is not a number.
        decimal = options["decimal"] if offer.column.holds_numbers else "."
        typed_column = options[offer.column.name]
        columns[offer.column.name] = read_typed_column(options, typed_column, decimal)
    return columns


def _write_or_print(
    statistic: str, fitted_estimator: "PrivateEstimator", options: TypedOptions
) -> list[Path]:
    """Write the files of a release and return them; print all if one cannot be written.

    The release is paid for by now, so nothing of it may be lost.

    Parameters
    ----------
    statistic : str
        The name of the command.
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    options : mapping
        The options that were typed.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    ParameterError
        If a file could not be written. Everything was printed before.
    """
    try:
        return write(
            fitted_estimator,
            options["out"],
            options["certificate"],
            options["report"],
            options["form"],
        )
    except BaseException as error:
        print(
            json_module.dumps(_released_dict(statistic, fitted_estimator), default=str)
        )
        if not isinstance(error, Exception):
            raise  # The user pressed Ctrl-C, for example.
        raise ParameterError(why_not_written(error)) from None


def _print_release(
    statistic: str,
    fitted_estimator: "PrivateEstimator",
    subject: str,
    options: TypedOptions,
) -> None:
    """Print the released values, the mechanism, the error bars and the budget left.

    Warnings were printed before, when they were raised.

    Parameters
    ----------
    statistic : str
        The name of the command, such as "mean".
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    subject : str
        The data that the statistic describes, such as "300 records".
    options : mapping
        The options of the command.
    """
    # The values themselves.
    releases = fitted_estimator.releases
    certificate = releases[0].certificate
    console.print(
        f"private {statistic} of {subject} on {escape_markup(options['manifold'])}, "
        f"{escape_markup(certificate.guarantee)}:"
    )
    for release in releases:
        lines = _value_lines(fitted_estimator, release, options["form"])
        if len(releases) > 1:
            lines = [f"{release.title}:", *lines]
        text = "\n".join(escape_markup(line) for line in lines)
        console.print(text, soft_wrap=True, highlight=False)

    # How they were made, how accurate they are, and what they have cost.
    choice = choice_sentence(certificate, with_excluded=False)
    mechanism = (
        f"{certificate.mechanism}, sensitivity {certificate.sensitivity:.6g}; {choice}"
    )
    console.print(escape_markup(mechanism), soft_wrap=True)
    bars = _error_bars(fitted_estimator)
    for bar in bars:
        console.print(escape_markup(bar.sentence), soft_wrap=True, highlight=False)
    for line in _region_advice(fitted_estimator, bars):
        console.print(escape_markup(line), soft_wrap=True)
    if fitted_estimator.ledger is not None:
        remaining = fitted_estimator.ledger.remaining_in_words
        console.print(
            escape_markup(f"remaining in {options['ledger']}: {remaining}"),
            soft_wrap=True,
        )


def _value_lines(
    fitted_estimator: "PrivateEstimator", release: "ReleasedValue", form: str | None
) -> list[str]:
    """Return a released value as lines: in the form of the records, then as a point.

    Parameters
    ----------
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    release : ReleasedValue
        One released value.
    form : str or None
        The form in which the records were written.

    Returns
    -------
    list of str
        Lines for the terminal, not yet escaped.
    """
    from curvedp.geometry import parse_manifold
    from curvedp.records.output_forms import value_lines

    manifold = parse_manifold(release.certificate.manifold)
    center = public_center(fitted_estimator)
    return value_lines(manifold, release.value, form, center)


def _released_dict(
    statistic: str, fitted_estimator: "PrivateEstimator"
) -> dict[str, Any]:
    """Return all that was released, with warnings and certificates, as plain values.

    Parameters
    ----------
    statistic : str
        The name of the command.
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.

    Returns
    -------
    dict
        JSON values for --json, or for the terminal if a file cannot be written.
    """
    from curvedp.estimators.softmax import ReducedClassifier
    from curvedp.release.warnings import estimator_warnings

    released: dict[str, Any] = {
        statistic: fitted_estimator.released_array().tolist(),
        "alarms": [warning.text for warning in estimator_warnings(fitted_estimator)],
        "error_bars": _bars_dict(_error_bars(fitted_estimator)),
    }
    if isinstance(fitted_estimator, ReducedClassifier):
        released["classes"] = fitted_estimator.classes_.tolist()
    certificates = [
        certificate.to_dict() for certificate in certificates_of(fitted_estimator)
    ]
    if len(certificates) > 1:
        released["certificates"] = certificates
    else:
        released["certificate"] = certificates[0]
    return released


def _error_bars(fitted_estimator: Any) -> "list[ErrorBar]":
    """Return the error bars of a release: for the population, and for the noise alone.

    A region that contains the public center causes a `ReleaseWarning`: a file that was
    misread would do the same. A region that is the whole ball says nothing about it.

    Parameters
    ----------
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.

    Returns
    -------
    list of ErrorBar
        Two error bars, perhaps without regions.
    """
    from curvedp.inference.error_bars import error_bars
    from curvedp.release.rebuild import mechanism_of
    from curvedp.statistics.frechet_mean import FrechetMean

    values = [np.asarray(release.value) for release in fitted_estimator.releases]
    bars = error_bars(
        fitted_estimator.confidence_region, describe=describe, released=values
    )

    noise_regions = bars[-1].regions
    statistic = mechanism_of(fitted_estimator.releases[0].certificate).statistic
    if isinstance(statistic, FrechetMean):
        center = fitted_estimator.center
        if center is None:
            center = fitted_estimator.manifold.origin
        informative_regions = [
            region for region in noise_regions if region.radius < statistic.radius
        ]
        if any(region.contains(center) for region in informative_regions):
            warnings.warn(
                "the 95% region contains the public center. This also happens if the "
                "file was misread; run `curvedp check`",
                ReleaseWarning,
                stacklevel=2,
            )
    return bars


def _region_advice(fitted_estimator: Any, bars: "list[ErrorBar]") -> list[str]:
    """Suggest another mechanism if the confidence region of a mean says nothing.

    mechanism="auto" takes the mechanism with the smallest predicted error. Its region
    may nevertheless be as wide as the public ball, which holds every mean anyway. The
    plan of the same release then knows whether another mechanism has a much smaller
    region, and this advice is printed after the release.

    Parameters
    ----------
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    bars : list of ErrorBar
        The error bars of the release, each with the radius of its region.

    Returns
    -------
    list of str
        Lines for the terminal. The list is empty if the widest region is smaller than
        the ball, if the user chose the mechanism, or if the release is not a mean.
    """
    # Imported here, so that other commands start faster.
    from curvedp import plan
    from curvedp.core.codes import ChoiceRule
    from curvedp.planning import AdviceKind
    from curvedp.release.rebuild import mechanism_of
    from curvedp.statistics.frechet_mean import FrechetMean

    certificate = fitted_estimator.releases[0].certificate
    statistic = mechanism_of(certificate).statistic
    rule = certificate.release["choice"]["rule"]
    is_automatic = rule == ChoiceRule.SMALLEST_PREDICTED_ERROR
    if not (is_automatic and isinstance(statistic, FrechetMean)):
        return []

    widest_region = max((bar.radius or 0.0 for bar in bars), default=0.0)
    if widest_region < statistic.radius:
        return []
    study = plan(
        statistic.manifold, statistic.n, statistic.radius, certificate.guarantee
    )
    return [
        line.text
        for line in study.advice_with_kinds()
        if line.kind is AdviceKind.WIDE_REGION
    ]


def _bars_dict(bars: "list[ErrorBar]") -> dict[str, Any]:
    """Return error bars as JSON values, by what they are about.

    Parameters
    ----------
    bars : list of ErrorBar
        The error bars of a release.

    Returns
    -------
    dict
        "regions" and "sentence" for each target.
    """
    bars_by_target = {}
    for bar in bars:
        regions = [_region_dict(region) for region in bar.regions]
        bars_by_target[bar.of] = {"regions": regions, "sentence": bar.sentence}
    return bars_by_target


def _region_dict(region: "Region") -> dict[str, Any]:
    """Return a confidence region as JSON values.

    Parameters
    ----------
    region : Region
        The region of a released point.
    """
    return {
        "center": region.center.tolist(),
        "radius": float(region.radius),
        "level": region.level,
        "theorem": region.theorem,
    }


def _release_command(name: str, offer: Offer) -> Callable[..., None]:
    """Return `curvedp release NAME`, with the options that the statistic declares.

    Parameters
    ----------
    name : str
        The name of the command.
    offer : Offer
        The statistic that it releases.

    Returns
    -------
    callable
        The command, from whose signature typer reads the options.
    """
    own_options = {
        declaration.name: statistic_option(declaration) for declaration in offer.options
    }
    if offer.column is not None:
        own_options[offer.column.name] = statistic_option(offer.column)
    options = {**_COMMON_OPTIONS, **own_options, **PERSONS}
    return file_command(options, offer.description, partial(_release, name))


def build_release_app() -> typer.Typer:
    """Return the group `curvedp release`, with one command per statistic in the table."""
    group = typer.Typer(
        cls=_MeanByDefault,
        no_args_is_help=True,
        help=(
            "Release a statistic of the records in a file, with a certificate. "
            "`curvedp release FILE` releases the mean, with the options of "
            "`curvedp release mean`."
        ),
    )
    for name, offer in all_offers().items():
        if offer.has_command:
            group.command(name)(_release_command(name, offer))
    return group


release_app = build_release_app()
