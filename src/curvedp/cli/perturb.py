"""`curvedp perturb`: private reports of the records in a file, one for each row."""

import csv
import io
import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from curvedp.cli.console import (
    check_picture,
    console,
    escape_markup,
    save_picture,
    waiting,
)
from curvedp.cli.options import JsonOption, Options, PictureOption, option
from curvedp.cli.release import (
    READING,
    TypedOptions,
    check_targets,
    file_command,
    reading_options,
)
from curvedp.errors import ParameterError

if TYPE_CHECKING:
    from curvedp.local import Earth, MetricLaplace

# Reported degrees have this many decimals: a centimeter. Rounding costs no privacy.
_DEGREE_DECIMALS = 7

# The form of places on the Earth.
_PLACES = "latlon-degrees"


def _perturb(options: TypedOptions) -> None:
    """Run `curvedp perturb FILE`: say how far reports lie, then draw and write them.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.
    """
    from curvedp.local.spaces import plural

    mechanism = _mechanism(options)
    check_picture(options["plot"])
    check_picture(options["map"])
    if options["map"] is not None and mechanism.space.name != "earth":
        raise ParameterError("--map is for places on the Earth: --epsilon-per-km")
    out, certificate = options["out"], options["certificate"]
    check_targets([options["data"]], out=out, certificate=certificate)
    unit = mechanism.space.unit
    expected = mechanism.expected_displacement
    largest = mechanism.displacement_quantile(0.95)
    sentence = (
        f"a report lies {expected:.3g} {plural(unit)} from its record on average, and within "
        f"{largest:.3g} with probability 0.95; one report of each record costs "
        f"ε = {mechanism.epsilon:g} per {unit}"
    )
    if not options["json"]:
        console.print(escape_markup(sentence), soft_wrap=True, highlight=False)
    if options["plot"] is not None:
        from curvedp.local.picture import plot_displacements

        save_picture(plot_displacements(mechanism), options["plot"])
    if options["map"] is not None:
        from curvedp.local.picture import plot_places

        save_picture(plot_places(mechanism), options["map"])

    count = 0
    if out is None:
        if not options["json"]:
            console.print("nothing was drawn: --out FILE draws the reports")
    else:
        count = _draw_and_write(mechanism, options)
    if options["json"]:
        print(
            json_module.dumps(
                {
                    "mechanism": mechanism.name,
                    "parameters": mechanism.parameters(),
                    "expected_displacement": expected,
                    "displacement_95": largest,
                    "unit": unit,
                    "reports": count,
                }
            )
        )


def _draw_and_write(mechanism: "MetricLaplace", options: TypedOptions) -> int:
    """Draw one report of each record and write them; return how many there are.

    Parameters
    ----------
    mechanism : MetricLaplace
        What draws the reports.
    options : mapping
        The options of the command, by name.
    """
    from curvedp._files import write_atomically
    from curvedp.records import read_records

    reading = reading_options(options)
    if mechanism.space.name == "earth":
        reading["form"] = _PLACES
    with waiting("reading the records"):
        points = read_records(options["data"], mechanism.space.manifold, **reading)
    with waiting("drawing the reports"):
        reports = mechanism.randomize(mechanism.space.write(np.asarray(points)))
    if options["certificate"] is not None:
        mechanism.certificate_.save(options["certificate"])
    if options["out"].suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, reports, allow_pickle=False)
        write_atomically(options["out"], buffer.getvalue())
    else:
        write_atomically(options["out"], _table(mechanism, reports, reading["form"]))
    if not options["json"]:
        console.print(
            f"{len(reports)} reports in {escape_markup(options['out'])}",
            soft_wrap=True,
            highlight=False,
        )
    return len(reports)


def _table(mechanism: "MetricLaplace", reports: np.ndarray, form: str | None) -> str:
    """Return reports as a csv table with a line of column names.

    Parameters
    ----------
    mechanism : MetricLaplace
        What drew the reports.
    reports : array
        The reports.
    form : str or None
        The form in which the records were written.
    """
    from curvedp.records.output_forms import output_form

    written_as = output_form(form, mechanism.space.manifold)
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(written_as.columns)
    if mechanism.space.name == "earth":
        digits = _DEGREE_DECIMALS
        writer.writerows(
            [f"{latitude:.{digits}f}", f"{longitude:.{digits}f}"]
            for latitude, longitude in reports.tolist()
        )
    else:
        writer.writerows(
            np.ravel(written_as.numbers(report)).tolist() for report in reports
        )
    return lines.getvalue()


def _mechanism(options: TypedOptions) -> "MetricLaplace":
    """Return the mechanism that the options name.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.
    """
    from curvedp.geometry import parse_manifold
    from curvedp.local import MetricLaplace

    per_km, epsilon = options["epsilon_per_km"], options["epsilon"]
    if (per_km is None) == (epsilon is None):
        raise ParameterError(
            "give --epsilon-per-km for places on the Earth, or --epsilon per unit of "
            "distance with --manifold"
        )
    if per_km is not None:
        if options["form"] != _PLACES or options["manifold"] is not None:
            raise ParameterError(
                f"--epsilon-per-km is for places on the Earth: say --as {_PLACES}, and "
                "no --manifold"
            )
        return MetricLaplace(_earth(options["public_place"]), per_km)
    if options["public_place"] is not None:
        raise ParameterError("--public-place goes with --epsilon-per-km")
    if options["manifold"] is None:
        raise ParameterError("--epsilon is per unit of distance of a --manifold")
    manifold = parse_manifold(options["manifold"])
    return MetricLaplace(manifold, epsilon, insist=options["insist"])


def _earth(public_place: str | None) -> "Earth":
    """Return the Earth with the place that stands for rows that cannot be read.

    Parameters
    ----------
    public_place : str or None
        Latitude and longitude in degrees, separated by a comma.
    """
    from curvedp.local import Earth

    if public_place is None:
        return Earth()
    try:
        latitude, longitude = (float(part) for part in public_place.split(","))
    except ValueError:
        raise ParameterError(
            "--public-place is latitude,longitude in degrees, such as 51.5,-0.1"
        ) from None
    return Earth(public_place=(latitude, longitude))


_OPTIONS: Options = {
    "epsilon_per_km": option(
        float, "--epsilon-per-km", help="of metric privacy, for places on the Earth"
    ),
    "epsilon": option(
        float, "--epsilon", help="of metric privacy, per unit of distance (radian)"
    ),
    "manifold": option(
        str, "--manifold", "-m", help="such as sphere:2, where places are not meant"
    ),
    "public_place": option(
        str,
        "--public-place",
        help="latitude,longitude that stand for a row that cannot be read",
    ),
    "out": option(Path, "--out", help="draw the reports and write them (csv or npy)"),
    "certificate": option(Path, "--certificate", help="write the certificate (json)"),
    "insist": (
        Annotated[bool, typer.Option("--insist", help="draw reports that are noise")],
        False,
    ),
    "plot": (PictureOption, None),
    "map": option(
        Path, "--map", help="write a map of public example places and their reports"
    ),
    **READING,
    "json": (JsonOption, False),
}
_DESCRIPTION = (
    "Perturb each record of a file by itself, so that nobody need hold the records."
)
perturb: Any = file_command(_OPTIONS, _DESCRIPTION, _perturb)
