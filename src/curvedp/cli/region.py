"""`curvedp region CERTIFICATE VALUE`: error bars, years later, from what was published.
A certificate states the noise of a release. So a confidence region of the released
value can be computed from the two files, without the records and without any budget.
"""

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from curvedp.cli.console import check_picture, console, escape_markup, save_picture
from curvedp.cli.options import JsonOption, PictureOption, command
from curvedp.cli.outputs import (
    check_targets,
)
from curvedp.errors import ParameterError, VerificationFailed
from curvedp.verification import DEFAULT_SECONDS, read_certificate_text, run_in_worker


@command
def region(
    certificate: Annotated[Path, typer.Argument(help="certificate.json")],
    value: Annotated[
        Path, typer.Argument(help="npy or csv file with the released value")
    ],
    level: Annotated[float, typer.Option(help="confidence level of the region")] = 0.95,
    of: Annotated[str, typer.Option(help="records, or population")] = "records",
    against: Annotated[
        Path | None,
        typer.Option(
            help="certificate of a second release of the same records: are the two "
            "compatible? To compare groups, see `curvedp test`"
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--as", help="format of the printed center, such as latlon-degrees"
        ),
    ] = None,
    plot: PictureOption = None,
    json: JsonOption = False,
) -> None:
    """Compute the confidence region of a release from its certificate.

    The certificate is verified first. Exit 1 if that fails, or if --against cannot be
    true at the same time.
    """
    check_picture(plot)
    check_targets([certificate, value, against], plot=plot)
    text = read_certificate_text(certificate)
    second_text = None if against is None else read_certificate_text(against)
    region_request = {
        "certificate": text,
        "path": str(certificate),
        "value_path": str(value),
        "level": level,
        "of": of,
        "against": second_text,
        "against_path": str(against),
    }

    # The certificate may be a stranger's: a process with little time and memory reads
    # it.
    region_record = run_in_worker("region", region_request, DEFAULT_SECONDS)
    components = region_record.pop("components")
    is_consistent = region_record.pop("consistent")
    if plot is not None:
        _save_region_picture(text, level, of, components, plot)
    if json and against is not None:
        region_record["consistent"] = is_consistent
    if json:
        print(json_module.dumps(region_record))
    else:
        _print_region(region_record, form)
    if is_consistent is False:
        raise VerificationFailed(
            f"{against}: the regions do not overlap, so the releases are not compatible "
            f"with the same {of}"
        )


def _save_region_picture(
    text: str, level: float, of: str, components: int | None, target: Path
) -> None:
    """Write a picture of the confidence region of a certificate that was verified.

    Parameters
    ----------
    text : str
        The certificate as JSON.
    level : float
        The confidence level, such as 0.95.
    of : {"records", "population"}
        Whether the region covers the statistic of the records or of their population.
    components : int or None
        For a release of principal directions, how many there are; else None.
    target : Path
        The file of the picture, whose ending says the format.
    """
    from curvedp.core.certificate import Certificate
    from curvedp.inference import region_of

    region = region_of(Certificate.from_json(text), level, of, components)
    save_picture(region.plot(), target)


def _print_region(region_record: dict[str, Any], form: str | None) -> None:
    """Print a confidence region: its radius and center, what it covers, and why.

    Parameters
    ----------
    region_record : dict
        The region as the worker returned it: manifold, level, radius, center, what it
        covers, and the theorem that says so.
    form : str or None
        The form of records, such as "latlon-degrees", in which the center is printed
        besides its coordinates.
    """
    import numpy as np

    from curvedp.geometry import parse_manifold
    from curvedp.inference.error_bars import distance_sentence
    from curvedp.records.forms import find_form
    from curvedp.records.output_forms import value_lines

    space = parse_manifold(region_record["manifold"])
    console.print(
        f"{100 * region_record['level']:g}% region of the {region_record['of']}: "
        f"within {distance_sentence(space, region_record['radius'])} of",
        highlight=False,
    )
    center = np.array(region_record["center"])
    if form is not None:
        find_form(form, space)  # a form of other points is refused
    for line in value_lines(space, center, form):
        console.print(escape_markup(line), highlight=False, soft_wrap=True)
    console.print(
        f"it covers {escape_markup(region_record['about'])}; {escape_markup(region_record['theorem'])}",
        soft_wrap=True,
        highlight=False,
    )


@command
def figure(
    certificates: Annotated[
        list[Path],
        typer.Argument(
            help="certificates on one manifold, such as those of several groups"
        ),
    ],
    plot: Annotated[Path, typer.Option(help="the picture (svg, png or pdf)")],
    level: Annotated[
        float, typer.Option(help="confidence level of each region")
    ] = 0.95,
    of: Annotated[str, typer.Option(help="population, or records")] = "population",
    names: Annotated[
        str | None, typer.Option(help="names for the legend, separated by commas")
    ] = None,
) -> None:
    """Draw the confidence regions of several certificates in one figure.

    Each certificate is verified first; exit 1 if one fails.
    """
    from curvedp.core.certificate import Certificate
    from curvedp.inference import region_of
    from curvedp.report.figures import regions_figure
    from curvedp.verification import raise_if_refuted, verify_file

    check_picture(plot)
    check_targets([*certificates], plot=plot)
    legend = [path.stem for path in certificates]
    if names is not None:
        legend = [name.strip() for name in names.split(",")]
    if len(set(legend)) != len(certificates):
        raise ParameterError("must name each certificate once", parameter="names")
    regions = {}
    for name, path in zip(legend, certificates, strict=True):
        raise_if_refuted(verify_file(path, seconds=DEFAULT_SECONDS).checks)
        certificate = Certificate.from_json(read_certificate_text(path))
        regions[name] = region_of(certificate, level, of)
    save_picture(regions_figure(regions), plot)
    console.print(escape_markup(f"written: {plot}"), soft_wrap=True)
