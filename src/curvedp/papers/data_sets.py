"""Public data sets of the tutorials and reproductions. A data set is read from a local
folder, or downloaded by a package that its users know. If neither works, the error
message says where to get it.

No data set is part of this package, because some licenses do not allow it. The folder is
`data_dir`, or the environment variable CURVEDP_DATA by default. MNIST and Wine Quality
can also be downloaded from OpenML (through scikit-learn), PathMNIST by the package
medmnist, and WordNet by nltk.
"""

import csv
import math
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curvedp.errors import ParameterError

__all__ = [
    "DATASETS",
    "Dataset",
    "MissingData",
    "embed_tree",
    "find_file",
    "load_dataset",
]

# The environment variable that names the folder.
VARIABLE = "CURVEDP_DATA"


class MissingData(ParameterError):
    """A public data set is not on this machine; the message says where to get it."""


class Dataset(NamedTuple):
    """A public data set.

    Attributes
    ----------
    file : str
        The name of its file.
    title, source : str
        The title of the data set, and where to get it.
    read : callable
        Maps the path of the file to the data set.
    download : callable, optional
        Downloads the data set and returns it, by a package that its users know.
    """

    file: str
    title: str
    source: str
    read: Callable[[Path], Any]
    download: Callable[[], Any] | None = None


def find_file(
    file: str, title: str, source: str, data_dir: Path | str | None = None
) -> Path:
    """Return the file of a data set.

    Parameters
    ----------
    file : str
        The name of the file.
    title, source : str
        The title of the data set and where to get it, for the error message.
    data_dir : path, optional
        The folder; the environment variable CURVEDP_DATA if omitted.

    Returns
    -------
    Path
        The existing file.

    Raises
    ------
    MissingData
        If the file does not exist, or no folder is known.

    Examples
    --------
    >>> try:
    ...     find_file("wine.csv", "Wine Quality", "OpenML, 40691", "/nowhere")
    ... except MissingData as missing:
    ...     print(missing)
    this needs the data set Wine Quality, file wine.csv (not in /nowhere): \
get it from OpenML, 40691, and give its folder with --data-dir or CURVEDP_DATA
    """
    folder = data_dir or os.environ.get(VARIABLE)
    if folder is not None and (Path(folder) / file).is_file():
        return Path(folder) / file
    where = "" if folder is None else f" (not in {folder})"
    raise MissingData(
        f"this needs the data set {title}, file {file}{where}: get it from {source}, "
        f"and give its folder with --data-dir or {VARIABLE}"
    )


def load_dataset(
    name: str, data_dir: Path | str | None = None, *, download: bool = True
) -> Any:
    """Return a data set by name, as arrays.

    Directions are points of `Sphere(2)`, covariances have the shape (n, m, m), and
    tables are dicts of columns.

    The file is read from the local folder. If it is not there and `download` is true,
    the data set is downloaded, if there is a package that can do so.

    Parameters
    ----------
    name : str
        A key of `DATASETS`.
    data_dir : path, optional
        The folder; the environment variable CURVEDP_DATA if omitted.
    download : bool
        Whether the data set may be downloaded.

    Returns
    -------
    array or dict of arrays
        The data set, in the form that its reader gives it.

    Raises
    ------
    MissingData
        If it is neither in the folder nor can be downloaded.
    ParameterError
        If there is no data set of that name.

    Examples
    --------
    >>> sorted(DATASETS)[:3]
    ['cities', 'comets', 'earthquakes']
    >>> load_dataset("digits")
    Traceback (most recent call last):
    curvedp.errors.ParameterError: no data set 'digits'; there are: cities, comets, earthquakes, eeg, mammals, mnist, \
pathmnist, polar-wander, storms, tensors, wine
    """
    if name not in DATASETS:
        raise ParameterError(
            f"no data set {name!r}; there are: {', '.join(sorted(DATASETS))}"
        )
    entry = DATASETS[name]
    try:
        path = find_file(entry.file, entry.title, entry.source, data_dir)
    except MissingData as missing:
        if entry.download is None or not download:
            raise
        try:
            return entry.download()
        except (ImportError, LookupError, OSError, ValueError) as reason:
            reason_text = " ".join(str(reason).split())[:160]  # on one line
            raise MissingData(
                f"{missing}; the download did not work either: {reason_text}"
            ) from reason
    return entry.read(path)


def embed_tree(parents: list[int], length: float = 1.0) -> np.ndarray:
    """Embed a rooted tree in the Poincaré disk, by Sarkar's construction (2011).

    All edges have the same hyperbolic length, and the edges of a node meet at equal
    angles.

    Parameters
    ----------
    parents : list of int
        The parent of each node. The first node is the root, of parent −1, and parents
        come before their children.
    length : float
        The hyperbolic length of every edge.

    Returns
    -------
    array of shape (nodes, 2)
        A point of the disk for each node, the root at 0.

    Examples
    --------
    >>> embed_tree([-1, 0, 0], 2.0).round(4).tolist()
    [[0.0, 0.0], [0.7616, 0.0], [-0.7616, 0.0]]
    """
    children: list[list[int]] = [[] for _ in parents]
    for child, parent in enumerate(parents[1:], start=1):
        children[parent].append(child)

    # A geodesic of this hyperbolic length from 0 ends at this Euclidean distance from 0.
    euclidean_length = math.tanh(length / 2)
    points = np.zeros(len(parents), dtype=complex)
    for node in range(len(parents)):
        point = points[node]
        has_parent = node > 0
        n_edges = len(children[node]) + has_parent

        # Directions of edges are measured at 0, after an isometry has moved the node there.
        parent_direction = 0.0
        if has_parent:
            parent_direction = np.angle(_move_to_zero(points[parents[node]], point))
        for edge, child in enumerate(children[node], start=int(has_parent)):
            direction = parent_direction + 2 * math.pi * edge / n_edges
            # The inverse of the map that takes a to 0 is the one that takes −a to 0.
            child_point = euclidean_length * np.exp(1j * direction)
            points[child] = _move_to_zero(child_point, -point)
    return np.column_stack([points.real, points.imag])


def _move_to_zero(z: complex, a: complex) -> complex:
    """Return z after the isometry of the disk that takes a to 0: (z − a)/(1 − ā·z).

    Parameters
    ----------
    z, a : complex
        Points of the open unit disc.
    """
    return (z - a) / (1 - a.conjugate() * z)


# --- reading the files ---


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an npz file."""
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _columns(path: Path, delimiter: str = ",") -> dict[str, np.ndarray]:
    """Read the columns of a table of numbers with a header, by their names."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=delimiter))
    return {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}


def _directions(lat: Any, lon: Any) -> np.ndarray:
    """Return unit vectors of places; (1, 0, 0) is 0°N 0°E, (0, 0, 1) the north pole.

    Parameters
    ----------
    lat, lon : array of shape (n,)
        Latitudes and longitudes in degrees.
    """
    lat = np.radians(np.asarray(lat, dtype=np.float64))
    lon = np.radians(np.asarray(lon, dtype=np.float64))
    return np.stack(
        [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1
    )


def _cities(path: Path) -> np.ndarray:
    """Read the places of cities, as unit vectors."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return _directions(
        [float(row["lat"]) for row in rows], [float(row["lng"]) for row in rows]
    )


def _earthquakes(path: Path) -> np.ndarray:
    """Read the places of earthquakes, as unit vectors; rows without a place are left out."""
    table = np.genfromtxt(path, delimiter=",", comments="#")[:, :2]
    return _directions(*table[np.isfinite(table).all(axis=1)].T)


def _storms(path: Path) -> np.ndarray:
    """Read where each storm was first seen: a storm is a record, and not a fix."""
    table = _arrays(path)
    first = np.unique(table["key"], return_index=True)[1]
    return _directions(table["lat"][first], table["lon"][first])


def _polar_wander(path: Path) -> dict[str, np.ndarray]:
    """Read ages in million years, and poles as unit vectors."""
    table = _columns(path)
    return {"age": table["age"], "pole": _directions(table["plat"], table["plon"])}


def _mammals(path: Path) -> np.ndarray:
    """Read the embedded mammals, points of the Poincaré disc."""
    return np.loadtxt(path, skiprows=1, usecols=(1, 2))


def _tensors(path: Path) -> dict[str, np.ndarray]:
    """Read diffusion tensors in units of 10⁻³ mm²/s, as water has them in tissue."""
    return {
        key: table / 1e-3 if key.endswith("tensor") else table
        for key, table in _arrays(path).items()
    }


def _mnist(path: Path) -> dict[str, np.ndarray]:
    """Read images and labels, of training and test together."""
    table = _arrays(path)
    return {
        "images": np.concatenate([table["x_train"], table["x_test"]]),
        "labels": np.concatenate([table["y_train"], table["y_test"]]),
    }


# --- the downloaders that users of these data know ---


def _openml(
    columns: int, rows: int, **which: Any
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Download a data set of OpenML, and check that it has the shape it should have.

    Parameters
    ----------
    columns, rows : int
        The size of its table.
    **which
        How scikit-learn's `fetch_openml` finds it, such as `data_id`.

    Returns
    -------
    data, target, names : array, array, list of str
        The table, the column that others predict, and the names of the table's columns.

    Raises
    ------
    ValueError
        If the table has another size.
    """
    from sklearn.datasets import fetch_openml

    with warnings.catch_warnings():
        # Warnings that a try failed; the error says it.
        warnings.simplefilter("ignore")
        bunch = fetch_openml(**which, as_frame=False, parser="liac-arff", n_retries=1)
    data = np.asarray(bunch.data, dtype=np.float64)
    if data.shape != (rows, columns):
        raise ValueError(
            f"OpenML sent a table of shape {data.shape}, not {(rows, columns)}"
        )
    target = np.asarray(bunch.target).astype(np.float64)
    return data, target, [str(name) for name in bunch.feature_names]


def _mnist_openml() -> dict[str, np.ndarray]:
    """Download MNIST from OpenML."""
    data, target, _ = _openml(784, 70_000, name="mnist_784", version=1)
    return {
        "images": data.astype(np.uint8).reshape(-1, 28, 28),
        "labels": target.astype(np.uint8),
    }


def _wine_openml() -> dict[str, np.ndarray]:
    """Download Wine Quality (red) from OpenML."""
    data, quality, names = _openml(11, 1599, data_id=40691)
    columns = {name.replace("_", " "): data[:, i] for i, name in enumerate(names)}
    return columns | {"quality": quality}


def _pathmnist_medmnist() -> dict[str, np.ndarray]:
    """Download the classes 0 (adipose tissue) and 1 (background) of PathMNIST."""
    from medmnist import PathMNIST

    dataset = PathMNIST(split="train", download=True)
    labels = np.asarray(dataset.labels).ravel()
    is_kept = labels < 2
    return {
        "images": np.asarray(dataset.imgs)[is_kept],
        "labels": labels[is_kept].astype(np.uint8),
    }


# The hyperbolic length of every edge in our embedding of the mammals. A node at depth k
# is at most 0.8·k from the center, which keeps all nodes well inside the unit disk.
_MAMMALS_EDGE = 0.8


def _mammals_wordnet() -> np.ndarray:
    """Download the mammals of WordNet 3.0, and embed them in the Poincaré disk.

    It stands in for the published embedding if its file is missing. The coordinates
    differ from the published ones, because they come from `embed_tree`. The tree is the
    same: a concept with several more general concepts becomes a child of the first one
    through which a breadth-first search from "mammal" reaches it.

    Returns
    -------
    array of shape (nodes, 2)
        The points of the unit disk.
    """
    import nltk
    from nltk.corpus import wordnet

    nltk.download("wordnet", quiet=True)
    root = wordnet.synset("mammal.n.01")
    concepts, parents = [root], [-1]
    index_of_concept = {root: 0}
    # The search is breadth first: the list grows while the loop runs over it.
    for concept in concepts:
        for child in sorted(concept.hyponyms(), key=lambda synset: synset.name()):
            if child not in index_of_concept:
                index_of_concept[child] = len(concepts)
                parents.append(index_of_concept[concept])
                concepts.append(child)
    return embed_tree(parents, _MAMMALS_EDGE)


DATASETS: Mapping[str, Dataset] = {
    "cities": Dataset(
        "cities_geomstats.csv",
        "50 cities of the world",
        "geomstats (datasets/data/cities)",
        _cities,
    ),
    "comets": Dataset(
        "comets.npz",
        "3798 comet orbits",
        "the R package sphunif (JPL small-body database)",
        _arrays,
    ),
    "earthquakes": Dataset(
        "earth_quakes_all.csv",
        "6120 earthquakes",
        "github.com/oxcsml/riemannian-score-sde (data)",
        _earthquakes,
    ),
    "eeg": Dataset(
        "eeg_eeglab_cov.npz",
        "EEG covariances of EEGLAB's sample recording",
        "EEGLAB (sample_data)",
        _arrays,
    ),
    "mammals": Dataset(
        "mammals_poincare2d_drewwilimitis.csv",
        "WordNet mammals embedded in the Poincaré disk",
        "github.com/drewwilimitis/hyperbolic-learning, or WordNet by the package nltk",
        _mammals,
        _mammals_wordnet,
    ),
    "mnist": Dataset(
        "mnist.npz",
        "MNIST",
        "OpenML (mnist_784) or keras.datasets.mnist",
        _mnist,
        _mnist_openml,
    ),
    "pathmnist": Dataset(
        "pathmnist_adi_back_train.npz",
        "PathMNIST (train, classes ADI and BACK)",
        "the package medmnist",
        _arrays,
        _pathmnist_medmnist,
    ),
    "polar-wander": Dataset(
        "apwp_vaes2023_global.csv",
        "global apparent polar wander path",
        "github.com/bramvaes/GlobalAPWP",
        _polar_wander,
    ),
    "storms": Dataset(
        "hurdat2_AL.npz",
        "Atlantic storms 1851 to 2019",
        "NOAA (HURDAT2, Atlantic)",
        _storms,
    ),
    "tensors": Dataset(
        "dti_dipy.npz",
        "diffusion tensors",
        "dipy (small_64D and small_101D, fitted by weighted least squares)",
        _tensors,
    ),
    "wine": Dataset(
        "winequality-red.csv",
        "Wine Quality (red)",
        "OpenML, data set 40691",
        lambda path: _columns(path, ";"),
        _wine_openml,
    ),
}
