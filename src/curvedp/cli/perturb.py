"""`curvedp perturb`: private reports of the records in a file, one for each row.
A *report* is a record with noise added to it alone (local privacy). No curator has to
be trusted with the records, and no ledger is charged.
"""

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
from curvedp.cli.outputs import (
    check_targets,
    input_files,
)
from curvedp.cli.reading import (
    READING,
    TypedOptions,
    file_command,
    reading_options,
)
from curvedp.errors import ParameterError

if TYPE_CHECKING:
    from curvedp.local import Earth, MetricLaplace

_NO_PUBLIC_PLACE = (
    "a row that cannot be read is reported near 0°N 0°E, where it stands out: "
    "--public-place names a place of your region instead"
)

# The form of places on the Earth.
_PLACES = "latlon-degrees"


def _perturb(options: TypedOptions) -> None:
    """Run `curvedp perturb FILE`: say how far reports lie, then draw and write them.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.
    """
    from curvedp.local.wording import expectation_sentence

    # Everything that can be refused is refused before a report is drawn.
    mechanism = _build_mechanism(options)
    _check_outputs(mechanism, options)

    # What is to be expected, before anything is drawn.
    sentence = expectation_sentence(mechanism)
    is_json = options["json"]
    if not is_json:
        console.print(escape_markup(sentence), soft_wrap=True, highlight=False)
        if mechanism.space.name == "earth" and options["public_place"] is None:
            console.print(_NO_PUBLIC_PLACE, soft_wrap=True, highlight=False)
    _save_pictures(mechanism, options)

    count = 0
    if options["out"] is not None:
        count = _draw_and_write(mechanism, options)
    elif not is_json:
        console.print("nothing was drawn: --out FILE draws the reports")
    if is_json:
        summary = {
            "mechanism": mechanism.name,
            "parameters": mechanism.parameters(),
            "expected_displacement": mechanism.expected_displacement,
            "displacement_95": mechanism.displacement_quantile(0.95),
            "unit": mechanism.space.unit,
            "reports": count,
        }
        print(json_module.dumps(summary))


def _check_outputs(mechanism: "MetricLaplace", options: TypedOptions) -> None:
    """Refuse files that could not be written, and a map of anything but the Earth.

    Parameters
    ----------
    mechanism : MetricLaplace
        The mechanism that will draw the reports.
    options : mapping
        The options of the command, by name.
    """
    check_picture(options["plot"])
    check_picture(options["map"], "map")
    if options["map"] is not None and mechanism.space.name != "earth":
        raise ParameterError("--map is for places on the Earth: --epsilon-per-km")
    check_targets(
        input_files(options),
        out=options["out"],
        plot=options["plot"],
        map=options["map"],
        certificate=options["certificate"],
    )


def _save_pictures(mechanism: "MetricLaplace", options: TypedOptions) -> None:
    """Write the pictures of how far reports lie, if the options name files for them.

    Parameters
    ----------
    mechanism : MetricLaplace
        The mechanism that will draw the reports.
    options : mapping
        The options of the command, by name.
    """
    if options["plot"] is not None:
        from curvedp.local.picture import plot_displacements

        save_picture(plot_displacements(mechanism), options["plot"])
    if options["map"] is not None:
        from curvedp.local.picture import plot_places

        save_picture(plot_places(mechanism), options["map"])


def _draw_and_write(mechanism: "MetricLaplace", options: TypedOptions) -> int:
    """Draw one report of each record and write them; return how many there are.

    Parameters
    ----------
    mechanism : MetricLaplace
        The mechanism that draws the reports.
    options : mapping
        The options of the command, by name.

    Returns
    -------
    int
        The number of reports.
    """
    from curvedp._files import write_atomically
    from curvedp.local.report_files import report_table
    from curvedp.records import read_records

    reading = reading_options(options)
    if mechanism.space.name == "earth":
        reading["form"] = _PLACES
    with waiting("reading the records"):
        points = read_records(options["data"], mechanism.space.manifold, **reading)
    with waiting("drawing the reports"):
        reports = mechanism.randomize(mechanism.space.write(np.asarray(points)))

    # The certificate is written first, because nobody can make it again.
    if options["certificate"] is not None:
        mechanism.certificate_.save(options["certificate"])
    if options["out"].suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, reports, allow_pickle=False)
        write_atomically(options["out"], buffer.getvalue())
    else:
        table = report_table(mechanism, reports, reading["form"])
        write_atomically(options["out"], table)
    if not options["json"]:
        console.print(
            f"{len(reports)} reports in {escape_markup(options['out'])}",
            soft_wrap=True,
            highlight=False,
        )
    return len(reports)


def _build_mechanism(options: TypedOptions) -> "MetricLaplace":
    """Build the mechanism that draws the reports, from the options that were typed.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.

    Returns
    -------
    MetricLaplace
        The mechanism for places on the Earth, or for points of a manifold.

    Raises
    ------
    ParameterError
        If the options do not go together.
    """
    from curvedp.geometry import parse_manifold
    from curvedp.local import MetricLaplace

    per_km = options["epsilon_per_km"]
    epsilon = options["epsilon"]
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
    """Return the Earth, with the public place that replaces rows that cannot be read.

    Parameters
    ----------
    public_place : str or None
        Latitude and longitude in degrees, separated by a comma.

    Returns
    -------
    Earth
        The space of places.
    """
    from curvedp.local import Earth
    from curvedp.local.spaces import parse_place

    if public_place is None:
        return Earth()
    return Earth(public_place=parse_place(public_place))


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
    "Perturb each record of a file separately (local privacy); no curator is needed."
)
perturb: Any = file_command(_OPTIONS, _DESCRIPTION, _perturb)
