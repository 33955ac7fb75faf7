"""`curvedp release connectome FOLDER` and `curvedp release regions`: files of imaging.
Both read what neuroimaging programs write, one record for each participant, and write
files that these programs read.
"""

import json as json_module
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from curvedp.cli.console import (
    check_picture,
    console,
    escape_markup,
    print_table,
    save_picture,
    waiting,
)
from curvedp.cli.options import JsonOption, PictureOption, command
from curvedp.cli.outputs import (
    check_targets,
    open_ledger_file,
)
from curvedp.errors import ParameterError
from curvedp.releasing import parse_radius

if TYPE_CHECKING:
    from curvedp.neuro import PrivateConnectome, PrivateRegionTensors
    from curvedp.privacy import Guarantee

# Rows of a table that are printed if all are in a file. Without a file all are printed:
# they are paid for.
_MAX_ROWS = 20

_LedgerOption = Annotated[Path | None, typer.Option(help="budget to spend from")]
_BudgetOption = Annotated[
    float | None, typer.Option(help="start the ledger with this GDP budget")
]
_KeyOption = Annotated[
    Path | None, typer.Option(help="file with the key of a keyed ledger")
]
_LabelOption = Annotated[
    str | None, typer.Option(help="what the ledger's entry is called")
]
_CertificateOption = Annotated[
    Path | None, typer.Option(help="write the certificate (json)")
]
_RadiusOption = Annotated[
    str,
    typer.Option("--radius", "-r", help="of the public ball, or private to find it"),
]


@command
def connectome(
    folder: Annotated[
        Path,
        typer.Argument(help="folder of sub-…_relmat.tsv files (BIDS, XCP-D), as it is"),
    ],
    guarantee: "Guarantee",
    atlas: Annotated[
        str | None, typer.Option(help="which atlas, such as 4S156Parcels")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="which measure, such as pearsoncorrelation")
    ] = None,
    task: Annotated[str | None, typer.Option(help="which task, such as rest")] = None,
    networks: Annotated[
        str | None,
        typer.Option(
            help="public networks: schaefer (from the names of regions), or a tsv file"
        ),
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(
            help="public tsv file with the regions (column name or label); by default "
            "those that most participants have"
        ),
    ] = None,
    resolution: Annotated[str, typer.Option(help="auto, regions or networks")] = "auto",
    edge_error: Annotated[
        float, typer.Option(help="noise of an edge, in Fisher's z, that is acceptable")
    ] = 0.1,
    radius: _RadiusOption = "private",
    center: Annotated[
        Path | None,
        typer.Option(help="public connectome that people resemble: a relmat.tsv"),
    ] = None,
    ledger: _LedgerOption = None,
    budget_mu: _BudgetOption = None,
    ledger_key: _KeyOption = None,
    label: _LabelOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="write the mean: …_relmat.tsv, with a json sidecar"),
    ] = None,
    plot: PictureOption = None,
    certificate: _CertificateOption = None,
    json: JsonOption = False,
) -> None:
    """Release the mean connectome of the participants of a folder.

    A participant is one record, whatever number of sessions and runs they have.
    """
    from curvedp.neuro import PrivateConnectome, read_connectomes, read_relmat
    from curvedp.neuro.relmat import (
        check_correlations,
        check_relmat_name,
        entity_values,
        read_region_names,
    )

    if out is not None:
        check_relmat_name(out)
    inputs: list[Path | None] = [ledger, ledger_key, center, names]
    if networks is not None:
        inputs.append(Path(networks))
    inputs += _files_in(folder, [certificate, plot, out, *_sidecar_files(out)])
    _check_outputs(inputs, ledger, budget_mu, ledger_key, certificate, out, plot)
    for sidecar in _sidecar_files(out):
        check_targets([*inputs, plot, certificate], **{"out (sidecar)": sidecar})

    entities = {} if task is None else {"task": task}
    with waiting("reading matrices"):
        connectomes = read_connectomes(
            folder,
            atlas=atlas,
            measure=measure,
            names=None if names is None else read_region_names(names),
            **entities,
        )
    check_correlations(connectomes.files)
    tasks = entity_values(connectomes.files, "task")
    if len(tasks) > 1:
        from curvedp.cli.console import errors

        sentence = (
            f"note: the tasks {', '.join(tasks)} are averaged within each participant; "
            "--task takes one of them"
        )
        errors.print(escape_markup(sentence), soft_wrap=True)
    template = None if center is None else read_relmat(center)[0]
    model = PrivateConnectome(
        _network_of_regions(networks, connectomes.names),
        resolution=resolution,
        edge_error=edge_error,
        radius=parse_radius(radius),
        center=template,
        guarantee=guarantee,
        ledger=open_ledger_file(ledger, budget_mu, ledger_key),
        label=label or f"connectome of {folder.name}"[:200],
    )
    with waiting("drawing exact noise"):
        model.fit(
            connectomes.matrices, groups=connectomes.subjects, names=connectomes.names
        )

    # The release is paid for: it is written before a printed line can fail, as in a
    # pipe that was closed.
    content = _connectome_dict(model)
    with _printing_if_unwritten(content):
        written = _write_connectome(model, out, plot, certificate)
    if json:
        print(json_module.dumps(content))
    else:
        _print_connectome(model, is_in_file=out is not None or certificate is not None)
    _print_written(written)


@command
def plan_connectome(
    people: Annotated[int, typer.Option("--people", "-n", help="number of people")],
    regions: Annotated[int, typer.Option(help="number of regions of the atlas")],
    guarantee: "Guarantee",
    networks: Annotated[
        int | None, typer.Option(help="number of networks of regions")
    ] = None,
    error: Annotated[
        float, typer.Option(help="wanted: error of an edge, in Fisher's z")
    ] = 0.05,
    radius: _RadiusOption = "private",
    typical_edge: Annotated[
        float,
        typer.Option(
            help="how far Fisher's z of a person's edge typically is from the center"
        ),
    ] = 0.35,
    json: JsonOption = False,
) -> None:
    """Predict the noise of a private connectome, and how many people it takes.

    No data are needed, and nothing is released.
    """
    from dataclasses import asdict

    from curvedp.neuro import plan_connectome as make_plan

    plan = make_plan(
        people,
        regions,
        networks,
        guarantee=guarantee,
        radius=parse_radius(radius),
        typical_edge=typical_edge,
    )
    needed = {"regions": plan.subjects_needed(error)}
    if networks is not None:
        needed["networks"] = plan.subjects_needed(error, "networks")
    if json:
        content = {**asdict(plan), "wanted_error": error, "people_needed": needed}
        print(json_module.dumps(content))
        return
    console.print(plan.sentences(error), soft_wrap=True)


def _network_of_regions(choice: str | None, names: list[str]) -> list[str] | None:
    """Return the network of each region, or None if networks were not asked for.

    Parameters
    ----------
    choice : str or None
        The typed choice: "schaefer" for networks in the names of regions, or a file.
    names : list of str
        The names of the regions.

    Returns
    -------
    list of str or None
        One network for each region.
    """
    from curvedp.neuro import networks_of

    if choice is None:
        return None
    return networks_of(names, None if choice == "schaefer" else choice)


def _sidecar_files(out: Path | None) -> list[Path]:
    """Return the files that are written beside a matrix, by its name of the standard.

    Parameters
    ----------
    out : Path or None
        The file of the matrix, whose name ends in _relmat.tsv or _relmat.dense.tsv.
    """
    if out is None:
        return []
    stem, _, _ = out.name.rpartition("_relmat")
    return [
        out.with_name(f"{stem}_relmat.json"),
        out.with_name(f"{stem}_nodeindices.tsv"),
    ]


def _files_in(folder: Path, targets: list[Path | None]) -> list[Path | None]:
    """Return the outputs that would overwrite a file of the input folder.

    Parameters
    ----------
    folder : Path
        The folder of the participants.
    targets : list of path or None
        Where outputs would be written.
    """
    return [
        target
        for target in targets
        if target is not None
        and target.exists()
        and folder.resolve() in target.resolve().parents
    ]


def _check_outputs(
    inputs: list[Path | None],
    ledger: Path | None,
    budget_mu: float | None,
    ledger_key: Path | None,
    certificate: Path | None,
    out: Path | None,
    plot: Path | None,
) -> None:
    """Refuse, before anything is paid, outputs that could not be written.

    Parameters
    ----------
    inputs : list of paths or None
        The files that must not be overwritten.
    ledger, ledger_key : path or None
        The ledger and its key.
    budget_mu : float or None
        The budget of a new ledger.
    certificate, out, plot : path or None
        The outputs.
    """
    check_picture(plot)
    if plot is not None:
        # Without the extra that a picture needs, nothing is paid.
        import curvedp.report  # noqa: F401
    check_targets(inputs, out=out, plot=plot, certificate=certificate)
    if ledger is None and (budget_mu is not None or ledger_key is not None):
        raise ParameterError("--budget-mu and --ledger-key go with --ledger")


# What intervals are for, in the heads of tables.
_INTERVAL_WORDS = {"population": "95% of the population", "records": "95% of the noise"}


def _interval_targets(model: "PrivateConnectome | PrivateRegionTensors") -> list[str]:
    """Return the targets of the intervals that a release has.

    The population comes first, if its sampling error is known; then the records, whose
    intervals cover the noise alone.

    Parameters
    ----------
    model : PrivateConnectome or PrivateRegionTensors
        The estimator after `fit`.
    """
    has_population = model.sampling_error_ is not None
    return ["population", "records"] if has_population else ["records"]


def _connectome_dict(model: "PrivateConnectome") -> dict[str, Any]:
    """Return everything that was released about a connectome, as JSON values.

    Parameters
    ----------
    model : PrivateConnectome
        The estimator after `fit`.

    Returns
    -------
    dict
        JSON values for --json, or for the terminal if a file cannot be written.
    """
    intervals = {}
    for of in _interval_targets(model):
        lower, upper = model.confidence_edges(of=of)
        intervals[of] = {"lower": lower.tolist(), "upper": upper.tolist()}
    return {
        "names": model.names_,
        "matrix": model.matrix_.tolist(),
        "intervals": intervals,
        "resolution": model.resolution_,
        "choice": model.choice_,
        "estimate": model.estimate_,
        "predicted_error": model.predicted_error_,
        "sampling_error": model.sampling_error_,
        "certificate": model.certificate_.to_dict(),
    }


def _print_connectome(model: "PrivateConnectome", *, is_in_file: bool) -> None:
    """Print the strongest edges with their intervals, the errors and the plan.

    Parameters
    ----------
    model : PrivateConnectome
        The estimator after `fit`.
    is_in_file : bool
        Whether all rows are in a file, so that the first ones are enough here.
    """
    statistic = model.certificate_.statistic
    console.print(
        f"private connectome of {statistic['n']} people: {len(model.names_)} "
        f"{model.resolution_}, {escape_markup(model.certificate_.guarantee)}"
    )
    console.print(escape_markup(model.choice_), soft_wrap=True)

    _print_edges(model, max_rows=_MAX_ROWS if is_in_file else None)
    errors = (
        f"error of an edge in Fisher's z: {model.predicted_error_:.3g} from the noise "
        f"({model.estimate_} estimate; the noise itself {model.noise_std_:.3g})"
    )
    if model.sampling_error_ is not None:
        errors += f", {model.sampling_error_:.3g} as the people are a sample"
    console.print(errors, soft_wrap=True)
    needed = ", ".join(
        f"{model.subjects_needed(error)} for ± {error:g}" for error in (0.2, 0.1, 0.05)
    )
    console.print(
        f"people needed for intervals of all edges (Fisher's z): {needed}",
        soft_wrap=True,
    )


def _print_edges(model: "PrivateConnectome", max_rows: int | None) -> None:
    """Print a table of the edges with the largest correlations and their intervals.

    Parameters
    ----------
    model : PrivateConnectome
        The estimator after `fit`.
    max_rows : int or None
        The most edges that are printed; None prints all.
    """
    import numpy as np

    bounds = {of: model.confidence_edges(of=of) for of in _interval_targets(model)}
    # A pair of networks may be one network twice, so the diagonal counts there.
    offset = 1 if model.resolution_ == "regions" else 0
    rows, columns = np.triu_indices(len(model.names_), offset)
    strongest = np.argsort(-np.abs(model.matrix_[rows, columns]))[:max_rows]

    table = []
    for row, column in zip(rows[strongest], columns[strongest], strict=True):
        edge = escape_markup(f"{model.names_[row]} – {model.names_[column]}")
        intervals = [
            f"{lower[row, column]:+.3f} to {upper[row, column]:+.3f}"
            for lower, upper in bounds.values()
        ]
        table.append([edge, f"{model.matrix_[row, column]:+.3f}", *intervals])
    header = ["edge", "correlation", *(_INTERVAL_WORDS[of] for of in bounds)]
    print_table(header, table)
    console.print("Intervals hold for all edges at once.", soft_wrap=True)


def _write_connectome(
    model: "PrivateConnectome",
    out: Path | None,
    plot: Path | None,
    certificate: Path | None,
) -> list[Path]:
    """Write the files of a released connectome, the certificate first.

    Parameters
    ----------
    model : PrivateConnectome
        The estimator after `fit`.
    out, plot, certificate : path or None
        The files of the matrix, the picture and the certificate.

    Returns
    -------
    list of Path
        The files that were written.
    """
    from curvedp._files import write_atomically
    from curvedp.neuro import plot_connectome, write_relmat

    written: list[Path] = []
    if certificate is not None:
        write_atomically(certificate, model.certificate_.to_json() + "\n")
        written.append(certificate)
    if out is not None:
        written += write_relmat(
            out, model.matrix_, model.names_, certificate=model.certificate_
        )
    if plot is not None:
        of = _interval_targets(model)[0]
        save_picture(plot_connectome(model, of=of), plot)
        written.append(plot)
    return written


@contextmanager
def _printing_if_unwritten(content: dict[str, Any]) -> Iterator[None]:
    """Print all that was released if a file of it cannot be written: it is paid for.

    Parameters
    ----------
    content : dict
        The release as plain values.
    """
    try:
        yield
    except BaseException:
        print(json_module.dumps(content))
        raise


def _print_written(written: list[Path]) -> None:
    """Name the files that were written on standard error, beside the output of --json.

    Parameters
    ----------
    written : list of Path
        The files, perhaps none.
    """
    if written:
        from curvedp.cli.console import errors

        names = ", ".join(map(str, written))
        errors.print(escape_markup(f"written: {names}"), soft_wrap=True)


@command
def regions(
    volumes: Annotated[
        list[Path],
        typer.Argument(help="NIfTI volumes of tensors, one for each scan"),
    ],
    labels: Annotated[Path, typer.Option(help="public atlas: NIfTI of whole numbers")],
    guarantee: "Guarantee",
    names: Annotated[
        Path | None,
        typer.Option(help="public tsv file with the columns index and name"),
    ] = None,
    form: Annotated[
        str, typer.Option("--as", help="tensor6-lower (DIPY) or tensor6-upper (FSL)")
    ] = "tensor6-lower",
    typical_diffusivity: Annotated[
        float, typer.Option(help="public guess, in the units of the data")
    ] = 7e-4,
    radius: _RadiusOption = "private",
    ledger: _LedgerOption = None,
    budget_mu: _BudgetOption = None,
    ledger_key: _KeyOption = None,
    label: _LabelOption = None,
    out: Annotated[
        Path | None, typer.Option(help="write the table of regions (tsv)")
    ] = None,
    plot: PictureOption = None,
    certificate: _CertificateOption = None,
    json: JsonOption = False,
) -> None:
    """Release the mean tensor, FA and MD of each region of an atlas over participants.

    Volumes are in the space of the atlas. Each is one participant, or several are if
    their names have the same sub-LABEL. A participant is in every region: all regions
    are one release for one charge.
    """
    from dataclasses import asdict

    from curvedp.neuro import PrivateRegionTensors, read_region_tensors
    from curvedp.neuro.relmat import participants_of

    persons = participants_of(volumes)
    inputs = [ledger, ledger_key, labels, names, *volumes]
    _check_outputs(inputs, ledger, budget_mu, ledger_key, certificate, out, plot)
    with waiting("reading volumes"):
        region_tensors = read_region_tensors(
            volumes, labels, names=_region_names(names), form=form
        )
    model = PrivateRegionTensors(
        radius=parse_radius(radius),
        typical_diffusivity=typical_diffusivity,
        guarantee=guarantee,
        ledger=open_ledger_file(ledger, budget_mu, ledger_key),
        label=label or f"tensors of {len(region_tensors.regions)} regions",
    )
    with waiting("drawing exact noise"):
        model.fit(
            region_tensors.tensors, groups=persons, regions=region_tensors.regions
        )

    # The release is paid for: it is written before a printed line can fail, as in a
    # pipe that was closed.
    of = _interval_targets(model)[0]
    content = {
        "regions": [asdict(row) for row in model.table(of=of)],
        "intervals": of,
        "certificate": model.certificate_.to_dict(),
    }
    with _printing_if_unwritten(content):
        written = _write_regions(model, out, plot, certificate)
    if json:
        print(json_module.dumps(content))
    else:
        _print_regions(model, is_in_file=out is not None or certificate is not None)
    _print_written(written)


def _region_names(path: Path | None) -> dict[int, str] | None:
    """Read the names of brain regions from a lookup table of the BIDS standard.

    Such a table has one line for each region of an atlas, with the number that marks
    the region in the atlas image.

    Parameters
    ----------
    path : Path or None
        A tab-separated file with the columns "index" and "name", or None if the user
        gave no such file.

    Returns
    -------
    dict or None
        The name of each region by its number; None without a file.

    Raises
    ------
    ParameterError
        If a column is missing, or a line has no index or name.
    """
    if path is None:
        return None
    lines = path.read_text(encoding="utf-8").splitlines()
    header, *rows = [line.split("\t") for line in lines if line]
    if "index" not in header or "name" not in header:
        raise ParameterError(f"{path} has no columns 'index' and 'name'")
    index, name = header.index("index"), header.index("name")
    try:
        return {int(row[index]): row[name] for row in rows}
    except (ValueError, IndexError):
        raise ParameterError(f"{path} has a line without an index or a name") from None


def _print_regions(model: "PrivateRegionTensors", *, is_in_file: bool) -> None:
    """Print FA and MD of the regions with their intervals.

    FA and MD are the fractional anisotropy and the mean diffusivity of a tensor.

    Parameters
    ----------
    model : PrivateRegionTensors
        The estimator after `fit`.
    is_in_file : bool
        Whether all rows are in a file, so that the first ones are enough here.
    """
    statistic = model.certificate_.statistic
    console.print(
        f"private mean tensors of {len(model.regions_)} regions, {statistic['n']} "
        f"people, {escape_markup(model.certificate_.guarantee)} for all regions together"
    )

    # A table of the first regions.
    of = _interval_targets(model)[0]
    rows = model.table(of=of)
    printed_rows = rows[:_MAX_ROWS] if is_in_file else rows
    interval = _INTERVAL_WORDS[of]
    header = ["region", "FA", interval, "MD", interval]
    table = []
    for row in printed_rows:
        cells = [
            escape_markup(row.region),
            f"{row.fa:.3f}",
            f"{row.fa_low:.3f} to {row.fa_high:.3f}",
            f"{row.md:.4g}",
            f"{row.md_low:.4g} to {row.md_high:.4g}",
        ]
        table.append(cells)
    print_table(header, table)
    if len(rows) > len(printed_rows):
        console.print(f"{len(rows) - len(printed_rows)} more regions are in the files")

    console.print("Intervals hold for all regions at once.", soft_wrap=True)
    spread = f"noise of a coordinate of the logarithms: {model.noise_std_:.3g}"
    if model.sampling_error_ is not None:
        spread += f"; because people are a sample: {model.sampling_error_:.3g}"
    console.print(spread, soft_wrap=True)


def _write_regions(
    model: "PrivateRegionTensors",
    out: Path | None,
    plot: Path | None,
    certificate: Path | None,
) -> list[Path]:
    """Write the files of released regions, the certificate first.

    Parameters
    ----------
    model : PrivateRegionTensors
        The estimator after `fit`.
    out, plot, certificate : path or None
        The files of the table, the picture and the certificate.

    Returns
    -------
    list of Path
        The files that were written.
    """
    from curvedp._files import write_atomically
    from curvedp.neuro import plot_regions

    written: list[Path] = []
    of = _interval_targets(model)[0]
    if certificate is not None:
        write_atomically(certificate, model.certificate_.to_json() + "\n")
        written.append(certificate)
    if out is not None:
        model.write_table(out, of=of)
        written.append(out)
    if plot is not None:
        people = model.certificate_.statistic["n"]
        title = (
            f"Private mean tensors: {people} people, {model.certificate_.guarantee}; "
            f"{_INTERVAL_WORDS[of]}"
        )
        save_picture(plot_regions(model.table(of=of), title), plot)
        written.append(plot)
    return written
