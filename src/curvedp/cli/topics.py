"""`curvedp topics`: what the texts of a file are about, without exposing anybody.
The file holds embeddings, or texts that a local encoder embeds. One private release
gives the centers of topics with their sizes; phrases of a public vocabulary say what
each is about.
"""

import csv
import io
import json as json_module
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from curvedp import _validate
from curvedp._files import write_atomically
from curvedp.cli.console import (
    check_picture,
    console,
    escape_markup,
    print_table,
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
    person_columns,
    read_persons,
    read_typed_column,
    reading_options,
)
from curvedp.errors import ParameterError
from curvedp.releasing import parse_number_of_clusters

if TYPE_CHECKING:
    from curvedp import PrivateKMeans
    from curvedp.geometry import Sphere
    from curvedp.ledger import Ledger
    from curvedp.topics import Phrase, Vocabulary

# The adjacency under which the number of records is private.
ADD_REMOVE = "add-remove"

# The δ of `--epsilon` alone: Gaussian noise does not meet pure ε.
_DELTA = 1e-6

# How much of the phrases of a topic is printed in a line, in characters.
_LONGEST_LINE = 90


def _topics(options: TypedOptions) -> None:
    """Run `curvedp topics FILE`: read, release, describe and write.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.
    """
    from curvedp import PrivateKMeans

    # Wrong options are refused before the ledger is charged.
    _check_outputs(options)
    delta = options["delta"]
    if options["epsilon"] is not None and delta is None:
        delta = _DELTA
    guarantee = guarantee_from_options(
        options["mu"], options["epsilon"], delta, options["rho"]
    )
    if options["private_n"]:
        guarantee = replace(guarantee, adjacency=ADD_REMOVE)

    # Read the records and what is public, and release the centers and their sizes.
    with waiting("reading the vectors"):
        space, vectors = _read_vectors(options)
        persons = read_persons(options)
        vocabulary = _read_vocabulary(options, space)
        init = _read_initial_centers(options, space)
    model = PrivateKMeans(
        space,
        n_clusters=parse_number_of_clusters(options["clusters"]),
        guarantee=guarantee,
        ledger=_open_ledger(options),
        label=options["label"] or f"topics of {options['data'].name}",
        init=init,
    )
    with waiting("drawing exact noise"):
        model.fit(vectors, groups=persons)
    try:
        phrases = _phrases_of_topics(model, vocabulary, options["phrases"])
        _write_and_print(model, phrases, options)
    except BaseException:
        # A release that was paid for is printed if it cannot be written.
        print(model.certificate_.to_json())
        raise


def _check_outputs(options: TypedOptions) -> None:
    """Refuse, before anything is paid, outputs and options that do not go together.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.
    """
    check_picture(options["plot"])
    _validate.integer("phrases", options["phrases"], 1)
    check_targets(
        input_files(options),
        out=options["out"],
        plot=options["plot"],
        report=options["report"],
        certificate=options["certificate"],
    )
    if options["out"] is not None and options["out"].suffix not in (".csv", ".npz"):
        raise ParameterError(f"--out {options['out']} must end in .csv or .npz")
    if options["report"] is not None or options["plot"] is not None:
        # Without the extra that a picture needs, nothing is paid.
        import curvedp.report  # noqa: F401
    if (options["text"] is None) != (options["encoder"] is None):
        raise ParameterError("--text and --encoder go together")
    for name in ("budget_mu", "ledger_key"):
        if options[name] is not None and options["ledger"] is None:
            raise ParameterError(f"--{name.replace('_', '-')} goes with --ledger")


def _open_ledger(options: TypedOptions) -> "Ledger | None":
    """Return the ledger to pay from; a new one has the adjacency of the release.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.

    Returns
    -------
    Ledger or None
        The ledger, with the adjacency of the release.
    """
    from curvedp.privacy import GDP
    from curvedp.release.pay import open_ledger

    path, key = options["ledger"], options["ledger_key"]
    if options["budget_mu"] is None or not options["private_n"]:
        return open_ledger_file(path, options["budget_mu"], key)
    budget = GDP(_validate.positive("budget_mu", options["budget_mu"]))
    return open_ledger(path, replace(budget, adjacency=ADD_REMOVE), key=key, lazy=True)


def _read_vectors(options: TypedOptions) -> "tuple[Sphere, Any]":
    """Read the vectors of the file, or embed its texts, as records of a sphere.

    Vectors may have any length but 0; only their directions count.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.

    Returns
    -------
    space, vectors : Sphere, array
        The sphere whose points have as many coordinates as the vectors, and the vectors,
        one in each row. Those of a npy file may be on the disk, to be read in blocks.

    Raises
    ------
    ParameterError
        If --manifold is not a sphere, or the file cannot be read.
    """
    from curvedp.geometry import Sphere, parse_manifold
    from curvedp.records import read_records
    from curvedp.records.files import (
        column_of_vectors,
        open_npy,
        record_width,
    )

    data = options["data"]
    if options["text"] is not None:
        from curvedp.adapters.sentences import embed_texts

        texts = read_typed_column(options, options["text"])
        embedded = embed_texts(texts.tolist(), options["encoder"])
        return Sphere(embedded.shape[1] - 1), embedded

    reading = reading_options(options)
    reading["other_columns"] = person_columns(options)
    if reading.get("columns") is None:
        vector_column = column_of_vectors(data, reading["other_columns"])
        if vector_column is not None:
            reading["columns"] = [vector_column]
    if options["manifold"] is None:
        space: Any = Sphere(record_width(data, **reading) - 1)
    else:
        space = parse_manifold(options["manifold"])
    if not isinstance(space, Sphere):
        raise ParameterError(
            "must be a sphere, such as sphere:383 for vectors of 384 numbers; "
            "`curvedp release kmeans` finds clusters elsewhere",
            parameter="manifold",
            value=options["manifold"],
        )
    if data.suffix == ".npy" and data.exists():
        # A file beyond the memory is read in blocks.
        array = open_npy(data)
        if array.dtype.kind == "f" and array.shape[1:] == space.point_shape:
            return space, array
    return space, read_records(data, space, **reading)


def _read_vocabulary(options: TypedOptions, space: "Sphere") -> "Vocabulary | None":
    """Return the public vocabulary, if one was named.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.
    space : Sphere
        Where the records live.

    Returns
    -------
    Vocabulary or None
        Phrases with unit vectors.
    """
    from curvedp.topics import make_vocabulary, read_vocabulary

    path = options["vocabulary"]
    if path is None:
        return None
    if not path.exists():
        raise ParameterError(f"{path} does not exist")
    if path.suffix != ".txt":
        return read_vocabulary(path, space, options["phrase_column"])
    if options["encoder"] is None:
        raise ParameterError(
            f"{path.name} has phrases without vectors: --encoder embeds them, "
            "or give a csv, parquet or npz file with vectors"
        )
    from curvedp.adapters.sentences import embed_texts

    lines = path.read_text(encoding="utf-8").splitlines()
    phrases = [line.strip() for line in lines if line.strip()]
    return make_vocabulary(phrases, embed_texts(phrases, options["encoder"]))


def _read_initial_centers(options: TypedOptions, space: "Sphere") -> Any:
    """Return public initial centers, if a file of them was named.

    Parameters
    ----------
    options : mapping
        The options of the command, by name.
    space : Sphere
        Where the records live.

    Returns
    -------
    array or None
        Points of the sphere.
    """
    from curvedp.records import read_records

    if options["init"] is None:
        return None
    return space.project(read_records(options["init"], space, header=False))


def _phrases_of_topics(
    model: "PrivateKMeans", vocabulary: "Vocabulary | None", count: int
) -> "list[list[Phrase]]":
    """Return the phrases that are nearest to each topic; none without a vocabulary.

    Parameters
    ----------
    model : PrivateKMeans
        The estimator after `fit`.
    vocabulary : Vocabulary or None
        Public phrases with vectors; None if none was named.
    count : int
        How many phrases describe a topic.

    Returns
    -------
    list of lists of Phrase
        One list for each topic, the nearest phrase first.
    """
    from curvedp.topics import nearest_phrases

    if vocabulary is None:
        return [[] for _ in model.counts_]
    return nearest_phrases(vocabulary, model.cluster_centers_, count)


def _write_and_print(
    model: "PrivateKMeans", phrases: "list[list[Phrase]]", options: TypedOptions
) -> None:
    """Write the files that were asked for, and print the topics, the largest one first.

    Parameters
    ----------
    model : PrivateKMeans
        The estimator after `fit`.
    phrases : list of list of Phrase
        The phrases of each topic.
    options : mapping
        The options of the command, by name.
    """
    from curvedp.releasing import write
    from curvedp.topics import NOT_COVERED, plane_positions

    positions = plane_positions(model.cluster_centers_, model.counts_)
    write(model, None, options["certificate"], options["report"])
    if options["out"] is not None:
        content = _file_content(options["out"].suffix, model, phrases, positions)
        write_atomically(options["out"], content)
    if options["plot"] is not None:
        from curvedp.report.topics import topics_figure

        # A topic is named by its nearest phrase, or by its number without a vocabulary.
        names = [
            topic_phrases[0].text if topic_phrases else str(index)
            for index, topic_phrases in enumerate(phrases)
        ]
        figure = topics_figure(positions, model.counts_, model.count_error_, names)
        save_picture(figure, options["plot"])

    # With --json everything is one object, and nothing else is printed.
    certificate = model.certificate_
    if options["json"]:
        print(
            json_module.dumps(
                {
                    "topics": _topics_as_dicts(model, phrases, positions),
                    "count_error": model.count_error_,
                    "certificate": certificate.to_dict(),
                    "not_covered": list(NOT_COVERED),
                },
                default=str,
            )
        )
        return

    # The table has the topics whose count is surely above 0, the largest one first.
    by_count = np.argsort(-model.counts_, kind="stable")
    is_known = model.counts_ > model.count_error_
    table = []
    for index in by_count[is_known[by_count]]:
        words = ", ".join(phrase.text for phrase in phrases[index])
        if len(words) > _LONGEST_LINE:
            words = words[: _LONGEST_LINE - 1] + "…"
        count = f"{model.counts_[index]:.0f}"
        table.append((str(index), count, escape_markup(words)))
    unit = model.unit_name_
    print_table(
        ("topic", f"{unit} ± {model.count_error_:.0f}", "nearest public phrases"),
        table,
        f"{model.n_clusters_} topics, {certificate.guarantee}",
    )
    if not is_known.all():
        console.print(
            f"{np.sum(~is_known)} more have counts below their error bar: they may be "
            "noise, and are in the files only",
            soft_wrap=True,
        )
    if model.ledger is not None:
        remaining = model.ledger.remaining_in_words
        console.print(escape_markup(f"remaining in the ledger: {remaining}"))
    console.print("not covered by this guarantee:")
    for sentence in NOT_COVERED:
        console.print(escape_markup(f"- {sentence}"), soft_wrap=True, highlight=False)


def _topics_as_dicts(
    model: "PrivateKMeans", phrases: "list[list[Phrase]]", positions: np.ndarray
) -> list[dict[str, Any]]:
    """Return the released topics as JSON values, for --json.

    Parameters
    ----------
    model : PrivateKMeans
        The estimator after `fit`.
    phrases : list of list of Phrase
        The phrases of each topic.
    positions : array, shape (topics, 2)
        The positions of the topics in a plane, for pictures.

    Returns
    -------
    list of dict
        For each topic its number, count and center, the dispersion of its records about
        the center with an error bar, its position and its phrases.
    """
    return [
        {
            "topic": index,
            "count": float(model.counts_[index]),
            "dispersion": float(model.dispersions_[index]),
            "dispersion_error": float(model.dispersion_errors_[index]),
            "place": positions[index].tolist(),
            "phrases": [phrase._asdict() for phrase in phrases[index]],
            "center": model.cluster_centers_[index].tolist(),
        }
        for index in range(model.n_clusters_)
    ]


def _file_content(
    suffix: str,
    model: "PrivateKMeans",
    phrases: "list[list[Phrase]]",
    positions: np.ndarray,
) -> bytes:
    """Return the content of a csv or npz file with all that was released.

    Parameters
    ----------
    suffix : str
        ".csv" or ".npz".
    model : PrivateKMeans
        The estimator after `fit`.
    phrases : list of list of Phrase
        The phrases of each topic.
    positions : array, shape (topics, 2)
        The positions of the topics in a plane, for pictures.

    Returns
    -------
    bytes
        The content of the file.
    """
    descriptions = []
    for topic_phrases in phrases:
        descriptions.append("; ".join(phrase.text for phrase in topic_phrases))
    if suffix == ".csv":
        return _csv_content(model, descriptions, positions)

    buffer = io.BytesIO()
    np.savez(
        buffer,
        centers=model.cluster_centers_,
        counts=model.counts_,
        count_error=model.count_error_,
        dispersions=model.dispersions_,
        dispersion_errors=model.dispersion_errors_,
        places=positions,
        phrases=np.array(descriptions),
    )
    return buffer.getvalue()


def _csv_content(
    model: "PrivateKMeans", descriptions: list[str], positions: np.ndarray
) -> bytes:
    """Return a csv file with one row for each topic: numbers, phrases and center.

    Parameters
    ----------
    model : PrivateKMeans
        The fitted model.
    descriptions : list of str
        The phrases of each topic as one text.
    positions : array of shape (topics, 2)
        The place of each topic in the picture.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    size = model.cluster_centers_.shape[1]
    header = ["topic", "count", "count_error", "dispersion", "dispersion_error"]
    entries = [f"center{entry}" for entry in range(size)]
    writer.writerow([*header, "place_x", "place_y", "phrases", *entries])
    for index in range(model.n_clusters_):
        numbers = (
            model.counts_[index],
            model.count_error_,
            model.dispersions_[index],
            model.dispersion_errors_[index],
            *positions[index],
        )
        number_cells = [f"{number:.10g}" for number in numbers]
        center_cells = [f"{entry:.17g}" for entry in model.cluster_centers_[index]]
        writer.writerow([index, *number_cells, descriptions[index], *center_cells])
    return text.getvalue().encode()


_OPTIONS: Options = {
    "clusters": option(
        str,
        "--clusters",
        "-k",
        help="how many topics, or private to choose the number from what is released",
        default="private",
    ),
    **GUARANTEE,
    "epsilon": option(
        float, "--epsilon", help="approximate DP; δ is 1e-6 unless --delta says it"
    ),
    "private_n": (
        Annotated[
            bool,
            typer.Option(
                "--private-n",
                help="how many records or people there are is private, too",
            ),
        ],
        False,
    ),
    **PERSONS,
    "manifold": option(
        str, "--manifold", "-m", help="such as sphere:383, if the file does not say it"
    ),
    "vocabulary": option(
        Path,
        "--vocabulary",
        help="public phrases with vectors (csv, parquet, npz), or a txt with --encoder",
    ),
    "phrase_column": option(
        str,
        "--phrase-column",
        help="column of the phrases in the vocabulary",
        default="phrase",
    ),
    "phrases": option(
        int, "--phrases", help="how many phrases describe a topic", default=5
    ),
    "text": option(str, "--text", help="column with texts, which the encoder embeds"),
    "encoder": option(
        str,
        "--encoder",
        help="a sentence-transformers model on this machine; nothing is downloaded",
    ),
    "init": option(Path, "--init", help="public initial centers (npy or csv)"),
    **READING,
    "ledger": option(Path, "--ledger", help="budget to spend from"),
    "ledger_key": option(
        Path, "--ledger-key", help="file with the key of a keyed ledger"
    ),
    "budget_mu": option(
        float, "--budget-mu", help="start the ledger with this GDP budget"
    ),
    "label": option(str, "--label", help="what the ledger's entry is called"),
    "out": option(Path, "--out", help="write the topics (csv or npz)"),
    "certificate": option(Path, "--certificate", help="write the certificate (json)"),
    "report": option(Path, "--report", help="write a page about the release (html)"),
    "plot": (PictureOption, None),
    "json": (JsonOption, False),
}
_DESCRIPTION = (
    "Release the topics of a file of embeddings or texts: centers and sizes, described "
    "by phrases of a public vocabulary."
)
topics: Any = file_command(_OPTIONS, _DESCRIPTION, _topics)
