"""What topics are about, and where they lie in a plane: from public and released numbers.
A topic is the center of a cluster of embeddings, as `PrivateKMeans` releases it. It is
described by the phrases of a public vocabulary whose embeddings are nearest to it. No
text of a record is ever looked at here, so all of this is post-processing.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry import Sphere
from curvedp.records import read_column, read_records
from curvedp.records.files import column_of_vectors

NOT_COVERED = (
    "which topic a record has (`predict`, `transform`) is as private as the record",
    "a vocabulary must be public: phrases that were taken from the texts are private",
    "a second look costs again: other numbers of topics, other columns, other filters",
    "a topic whose count is below its error bar may be noise, and its phrases chance",
    "a small topic in which one person wrote most texts may show that person's subject, "
    "unless persons are named (`groups`)",
)
"""Uses of released topics that their guarantee does not cover, a sentence each."""


class Vocabulary(NamedTuple):
    """Public phrases with their embeddings.

    Attributes
    ----------
    phrases : list of str
        The public phrases.
    vectors : array, shape (phrases, size)
        Unit vectors, or zero for a row that has no direction.
    """

    phrases: list[str]
    vectors: np.ndarray


class Phrase(NamedTuple):
    """A phrase near a topic.

    Attributes
    ----------
    text : str
        The phrase.
    cosine : float
        The cosine of the angle between its embedding and the topic's center.
    """

    text: str
    cosine: float


def make_vocabulary(phrases: Any, vectors: Any) -> Vocabulary:
    """Return public phrases with their embeddings as a vocabulary.

    Topics are described by the phrases of a vocabulary, so it must be public.

    Parameters
    ----------
    phrases : sequence of str
        The public phrases, at least one.
    vectors : array, shape (phrases, size)
        Their embeddings by the encoder that embedded the records. Only their direction
        counts.

    Returns
    -------
    Vocabulary
        The phrases with unit vectors, in the same order.

    Raises
    ------
    ParameterError
        If there are not as many vectors as phrases.

    Examples
    --------
    >>> vocabulary = make_vocabulary(["cards", "loans"], [[2.0, 0.0], [0.0, 1.0]])
    >>> vocabulary.vectors[0].tolist()
    [1.0, 0.0]
    """
    texts = [str(phrase) for phrase in phrases]
    rows = _validate.array("vectors", vectors)
    if rows.ndim != 2 or len(rows) != len(texts) or not texts:
        raise ParameterError(
            f"a vocabulary of {len(texts)} phrases needs as many vectors, a row each",
            parameter="vectors",
        )
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return Vocabulary(texts, rows / np.maximum(lengths, 1e-300))


def read_vocabulary(
    path: str | Path, manifold: Sphere, column: str = "phrase", **reading: Any
) -> Vocabulary:
    """Read a public vocabulary from a file.

    Parameters
    ----------
    path : path
        A csv, tsv or parquet file with a column of phrases, and vectors in all other
        columns; or an npz file with the arrays of that name and "vectors".
    manifold : Sphere
        Where the records live, which says how many numbers a vector has.
    column : str
        The column of the phrases.
    **reading
        Options of `read_records` that say how the file is read, such as `sep`.

    Returns
    -------
    Vocabulary
        The phrases with unit vectors, in the order of the file.
    """
    file = Path(path)
    if file.suffix == ".npz":
        vectors = read_records(file, manifold, key="vectors")
        return make_vocabulary(read_column(file, column), vectors)
    reading.setdefault("header", True)
    list_column = column_of_vectors(file, [column])
    if reading.get("columns") is None and list_column is not None:
        reading["columns"] = [list_column]
    vectors = read_records(file, manifold, other_columns=[column], **reading)
    reading.pop("columns", None)
    return make_vocabulary(read_column(file, column, **reading), vectors)


def nearest_phrases(
    vocabulary: Vocabulary, centers: Any, count: int = 5
) -> list[list[Phrase]]:
    """Return the phrases of a vocabulary that are nearest to each center.

    Nearness is the cosine of the angle between a phrase's embedding and the center. The
    phrases are public and the centers released, so this costs no privacy.

    Parameters
    ----------
    vocabulary : Vocabulary
        Public phrases with unit vectors.
    centers : array, shape (topics, size)
        Released centers of unit length, `PrivateKMeans.cluster_centers_`.
    count : int
        How many phrases describe a topic.

    Returns
    -------
    list of lists of Phrase
        For each center `count` phrases, the nearest one first.

    Raises
    ------
    ParameterError
        If centers and phrases have different numbers of entries.

    Examples
    --------
    >>> vocabulary = make_vocabulary(["cards", "loans"], [[2.0, 0.0], [0.0, 1.0]])
    >>> nearest_phrases(vocabulary, [[0.8, 0.6]], 1)
    [[Phrase(text='cards', cosine=0.8)]]
    """
    points = np.asarray(centers, dtype=np.float64)
    size = vocabulary.vectors.shape[1]
    if points.ndim != 2 or points.shape[1] != size:
        raise ParameterError(
            f"centers have shape {points.shape}; phrases have {size} numbers each"
        )
    count = _validate.integer("count", count, 1)
    cosines = points @ vocabulary.vectors.T
    return [_best_phrases(vocabulary, row, count) for row in cosines]


def _best_phrases(
    vocabulary: Vocabulary, cosines: np.ndarray, count: int
) -> list[Phrase]:
    """Return the phrases with the largest cosines, the largest first.

    Parameters
    ----------
    vocabulary : Vocabulary
        Public phrases.
    cosines : array, shape (phrases,)
        The cosine of the angle between each phrase's embedding and a center.
    count : int
        The number of phrases to return.
    """
    best = np.argsort(-cosines, kind="stable")[:count]
    return [
        Phrase(vocabulary.phrases[index], round(float(cosines[index]), 12))
        for index in best
    ]


def plane_positions(centers: Any, counts: Any) -> np.ndarray:
    """Return a place in a plane for each center, by principal components.

    The components are those of the centers, weighted by their released counts.

    Parameters
    ----------
    centers : array, shape (topics, size)
        Released centers.
    counts : array, shape (topics,)
        Released counts. Negative ones, which noise can cause, get a tiny weight.

    Returns
    -------
    array, shape (topics, 2)
        Coordinates along the first two components; nearby topics are similar.

    Examples
    --------
    >>> places = plane_positions([[1.0, 0.0], [0.0, 1.0]], [10, 10])
    >>> bool(abs(places[0, 0] - places[1, 0]) > 1.4)
    True
    """
    points = np.asarray(centers, dtype=np.float64).reshape(len(centers), -1)
    # The tiny weight keeps the sum of all weights above 0.
    tiny_weight = 1e-6
    weights = np.maximum(np.asarray(counts, dtype=np.float64), tiny_weight)
    offsets = points - np.average(points, axis=0, weights=weights)
    _, _, directions = np.linalg.svd(
        np.sqrt(weights)[:, None] * offsets, full_matrices=False
    )
    places = np.zeros((len(points), 2))
    n_directions = min(2, len(directions))
    places[:, :n_directions] = offsets @ directions[:n_directions].T
    return places
