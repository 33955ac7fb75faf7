"""`curvedp synthesize`: synthetic records from one private release, or from its certificate.
A file of records is released once, and that is paid for. Drawing again, with another
seed or more records, takes the certificate instead of the file and costs nothing.
"""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from curvedp._files import write_atomically
from curvedp.cli.console import (
    check_picture,
    console,
    escape_markup,
    save_picture,
    waiting,
)
from curvedp.cli.options import (
    GUARANTEE,
    JsonOption,
    Options,
    PictureOption,
    guarantee_from_options,
    option,
)
from curvedp.cli.outputs import (
    check_targets,
    input_files,
    open_ledger_file,
)
from curvedp.cli.reading import (
    PERSONS,
    READING,
    TypedOptions,
    file_command,
    read_persons,
    read_typed_column,
    reading_options,
    statistic_option,
)
from curvedp.errors import ParameterError
from curvedp.releasing import CENTER, OUTER_RADIUS, parse_radius, parse_range

if TYPE_CHECKING:
    import numpy as np

    from curvedp.core.certificate import Certificate
    from curvedp.estimators.synthesizer import PrivateSynthesizer
    from curvedp.geometry import Manifold
    from curvedp.statistics.population import ReleasedPopulation

# What is said with every file, because nobody who only sees the file knows it.
_WARNING = (
    "an analysis of these records does not know of the noise in them: "
    "curvedp.inference.combine_synthetic gives error bars from the certificate"
)


class _Source(NamedTuple):
    """Where synthetic records are drawn from.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    population : ReleasedPopulation
        The released law.
    certificate : Certificate
        The certificate of the release.
    class_names : sequence or None
        A name for each class; None without classes.
    base : array
        A public point amid the records, for the picture.
    sentences : list of str
        Sentences about the release and the remaining budget; empty if nothing was paid.
        They are printed after the files are written: a closed pipe loses no release.
    """

    manifold: "Manifold"
    population: "ReleasedPopulation"
    certificate: "Certificate"
    class_names: Any
    base: "np.ndarray"
    sentences: list[str]


def _synthesize(options: TypedOptions) -> None:
    """Run `curvedp synthesize FILE`: release or rebuild a law, draw from it, and write.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.
    """
    from curvedp import _validate

    n = _validate.integer("n", options["n"], 1)
    seed = _validate.integer("seed", options["seed"], 0)
    check_picture(options["plot"])
    is_certificate = options["data"].suffix == ".json"
    has_columns = options["labels"] is not None or options["x"] is not None
    check_targets(
        input_files(options),
        out=options["out"],
        plot=options["plot"],
        certificate=options["certificate"],
    )
    if is_certificate:
        source = _from_certificate(options)
    else:
        _check_out(options, has_columns)
        source = _from_records(options)
    try:
        _draw_and_write(source, n, seed, options)
    except BaseException:
        if not is_certificate:
            # A release that was paid for is printed if it cannot be written.
            print(source.certificate.to_json())
        raise


def _check_out(options: TypedOptions, has_columns: bool) -> None:
    """Refuse, before anything is paid, a file that could not hold the records.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.
    has_columns : bool
        Whether there are labels or a predictor.
    """
    from curvedp.geometry import parse_manifold
    from curvedp.records.writing import check_writable_form

    if options["manifold"] is None:
        raise ParameterError(
            "--manifold is missing: where the records live, "
            "such as -m sphere:2 or -m spd-affine:3"
        )
    outputs = ("out", "certificate", "json")
    if not any(options[name] for name in outputs):
        raise ParameterError(
            "what is paid for would be lost: give --certificate, from which any number "
            "of records is drawn later, or --out"
        )
    if options["plot"] is not None:
        # Without the extra that a picture needs, nothing is paid.
        import curvedp.report  # noqa: F401
    if options["out"] is not None:
        space = parse_manifold(options["manifold"])
        check_writable_form(options["out"], space, options["form"], has_columns)


def _from_records(options: TypedOptions) -> _Source:
    """Release a law of the records of a file, and charge it.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.

    Returns
    -------
    _Source
        The released law, with what its files need.
    """
    from curvedp.geometry import parse_manifold
    from curvedp.records import read_records

    space = parse_manifold(options["manifold"])
    estimator = _build_estimator(space, options)
    with waiting("reading the records"):
        records = read_records(options["data"], space, **reading_options(options))
        labels = read_typed_column(options, options["labels"])
        persons = read_persons(options)
        column = read_typed_column(options, options["x"], options["decimal"])
    with waiting("drawing exact noise"):
        estimator.fit(records, labels, groups=persons, column=column)
    return _Source(
        space,
        estimator.population_,
        estimator.certificate_,
        estimator.classes_,
        estimator.public_base_,
        _release_sentences(estimator),
    )


def _build_estimator(space: "Manifold", options: TypedOptions) -> "PrivateSynthesizer":
    """Return the unfitted estimator that the typed options describe.

    Parameters
    ----------
    space : Manifold
        The manifold of the records.
    options : mapping
        The options of the command, by name.
    """
    from curvedp.estimators.synthesizer import PrivateSynthesizer
    from curvedp.records.files import load_point

    center = options["center"]
    if center is not None:
        center = load_point(center, space, options["form"])
    classes = None
    if options["classes"] is not None:
        classes = [name.strip() for name in options["classes"].split(",")]
    x_range = None
    if options["x_range"] is not None:
        x_range = parse_range(options["x_range"])
    radius = options["radius"]
    if radius is not None:
        radius = parse_radius(radius)
    return PrivateSynthesizer(
        space,
        model=options["model"],
        radius=radius,
        center=center,
        guarantee=guarantee_from_options(
            options["mu"], options["epsilon"], options["delta"], options["rho"]
        ),
        ledger=open_ledger_file(
            options["ledger"], options["budget_mu"], options["ledger_key"]
        ),
        label=options["label"] or f"synthetic records of {options['data'].name}",
        outer_radius=options["outer_radius"],
        classes=classes,
        x_range=x_range,
    )


def _from_certificate(options: TypedOptions) -> _Source:
    """Return the law that a certificate leads to; nothing is paid.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.

    Returns
    -------
    _Source
        The law that the certificate's integers determine.

    Raises
    ------
    ParameterError
        If an option is for a file of records, or the certificate is of another release.
    """
    from curvedp.core.certificate import Certificate
    from curvedp.estimators.synthesizer import base_of, population_from_certificate
    from curvedp.records.writing import check_writable_form

    for name in ("ledger", "mu", "epsilon", "rho", "radius", "labels", "x"):
        if options[name] is not None:
            raise ParameterError(
                f"--{name} goes with a file of records; a certificate is drawn from as "
                "it is, and costs nothing"
            )
    try:
        text = options["data"].read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ParameterError(f"{options['data']} cannot be read") from None

    certificate = Certificate.from_json(text)
    population = population_from_certificate(certificate)
    manifold = population.chart.manifold
    names = _class_names(population.statistic.classes, options["classes"])
    if options["out"] is not None:
        has_columns = names is not None or population.chart.has_predictor
        check_writable_form(options["out"], manifold, options["form"], has_columns)
    return _Source(manifold, population, certificate, names, base_of(population), [])


def _class_names(n_classes: int, typed_names: str | None) -> list[str] | None:
    """Return a name for each class of a certificate, which does not state names.

    Parameters
    ----------
    n_classes : int
        The number of classes. One class stands for records without labels.
    typed_names : str or None
        The names that the user typed, separated by commas; None numbers the classes.

    Returns
    -------
    list of str or None
        None if the records have no labels.
    """
    if n_classes <= 1:
        return None
    names = [str(index) for index in range(n_classes)]
    if typed_names is not None:
        names = [name.strip() for name in typed_names.split(",")]
    if len(names) != n_classes:
        raise ParameterError(
            f"the certificate has {n_classes} classes", parameter="classes"
        )
    return names


def _draw_and_write(source: _Source, n: int, seed: int, options: TypedOptions) -> None:
    """Draw records, and write them with the certificate and picture that were requested.

    Parameters
    ----------
    source : _Source
        The law from which the records are drawn.
    n : int
        How many records.
    seed : int
        A public seed.
    options : mapping
        The options of the command, by name.
    """
    import numpy as np

    from curvedp.records.writing import write_points

    certificate = options["certificate"]
    if certificate is not None:  # first: it was paid for
        write_atomically(certificate, (source.certificate.to_json() + "\n").encode())

    drawn = source.population.sample(n, np.random.default_rng(seed))
    columns = {}
    if source.class_names is not None:
        names = np.asarray(source.class_names)
        columns[options["labels"] or "class"] = names[drawn.class_index]
    if source.population.chart.has_predictor:
        columns[options["x"] or "x"] = drawn.predictor
    if options["out"] is not None:
        write_points(
            options["out"], drawn.points, source.manifold, options["form"], columns
        )
    if options["plot"] is not None:
        from curvedp.report.synthetic import synthetic_figure

        figure = synthetic_figure(
            source.manifold, source.base, drawn.points, drawn.class_index
        )
        save_picture(figure, options["plot"])

    if options["json"]:
        summary = {
            "records": n,
            "seed": seed,
            "manifold": source.manifold.name,
            "certificate": source.certificate.to_dict(),
            "warning": _WARNING,
        }
        print(json_module.dumps(summary, default=str))
        return
    _print_summary(source, n, seed, options["out"])


def _print_summary(source: _Source, n: int, seed: int, out: Path | None) -> None:
    """Print what was released, and where the synthetic records are.

    Parameters
    ----------
    source : _Source
        Where the records were drawn from.
    n : int
        How many were drawn.
    seed : int
        The public seed with which they were drawn.
    out : Path or None
        The file that holds them; None if they were not written.
    """
    for text in source.sentences:
        console.print(escape_markup(text), soft_wrap=True, highlight=False)
    if out is None:
        console.print("nothing was written: --out FILE writes synthetic records")
        return
    sentence = f"{n} synthetic records in {out} (seed {seed}); {_WARNING}"
    console.print(escape_markup(sentence), soft_wrap=True, highlight=False)


def _release_sentences(estimator: "PrivateSynthesizer") -> list[str]:
    """Return sentences about the release, its predicted error and the remaining budget.

    Parameters
    ----------
    estimator : PrivateSynthesizer
        The estimator after `fit`.

    Returns
    -------
    list of str
        A line each.
    """
    certificate = estimator.certificate_
    sentences = [
        f"private {estimator.model_} model of the records, {certificate.guarantee}",
        "expected energy distance between synthetic and real records, from public "
        f"numbers: {estimator.predicted_error_:.3g} (root of a length)",
    ]
    if estimator.ledger is not None:
        sentences.append(
            f"remaining in the ledger: {estimator.ledger.remaining_in_words}"
        )
    return sentences


_OPTIONS: Options = {
    "manifold": option(
        str, "--manifold", "-m", help="such as sphere:2 or spd-affine:3"
    ),
    "n": (Annotated[int, typer.Option("--n", help="how many synthetic records")], 1000),
    "out": option(
        Path, "--out", help="write them (csv, parquet, npy; nii for 3 × 3 tensors)"
    ),
    "seed": (
        Annotated[int, typer.Option("--seed", help="public seed of the draws")],
        0,
    ),
    "model": option(
        str,
        "--model",
        help="auto, wrapped-gaussian, mixture or tree",
        default="auto",
    ),
    "radius": option(
        str, "--radius", "-r", help="of the public ball, or private to find one"
    ),
    CENTER.name: statistic_option(CENTER),
    OUTER_RADIUS.name: statistic_option(OUTER_RADIUS),
    "labels": option(str, "--labels", help="column with the class of each record"),
    "classes": option(
        str, "--classes", help="the public classes, such as a,b: labels are private"
    ),
    "x": option(str, "--x", help="column with a predictor"),
    "x_range": option(str, "--x-range", help="its public range, such as 20,90"),
    **PERSONS,
    **GUARANTEE,
    **READING,
    "ledger": option(Path, "--ledger", help="budget to spend from"),
    "ledger_key": option(
        Path, "--ledger-key", help="file with the key of a keyed ledger"
    ),
    "budget_mu": option(
        float, "--budget-mu", help="start the ledger with this GDP budget"
    ),
    "label": option(str, "--label", help="what the ledger's entry is called"),
    "certificate": option(Path, "--certificate", help="write the certificate (json)"),
    "plot": (PictureOption, None),
    "json": (JsonOption, False),
}
_DESCRIPTION = (
    "Release a model of the records in a file and draw synthetic records from it; "
    "given the certificate (json) of such a release, draw more of them at no cost."
)
synthesize: Any = file_command(_OPTIONS, _DESCRIPTION, _synthesize)
