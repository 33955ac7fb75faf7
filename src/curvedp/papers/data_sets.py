"""Data sets of the tutorials and reproductions: a local folder, else the downloader their users know, else a clear error.

Nothing here is shipped: licenses differ, and some are not ours to pass on. The folder is `data_dir`, else the environment
variable CURVEDP_DATA. MNIST and Wine Quality can also come from OpenML (through scikit-learn), PathMNIST from the package
medmnist, WordNet from nltk.
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

VARIABLE = "CURVEDP_DATA"


class MissingData(ParameterError):
    """A public data set is not on this machine; the message says where to get it and how to point to it."""


class Dataset(NamedTuple):
    """One data set: its file, what it is, where to get it, how it is read and, where users have one, its downloader."""

    file: str
    title: str
    source: str
    read: Callable[[Path], Any]
    download: Callable[[], Any] | None = None


def find_file(
    file: str, title: str, source: str, data_dir: Path | str | None = None
) -> Path:
    """The file of a data set, or an error that says which data set it is, where to get it and how to point to it.

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
    """A data set by name, as arrays: directions as points of `Sphere(2)`, covariances as (n, m, m), tables as dicts.

    The local folder comes first. Where the file is not there and `download` is true, its usual downloader is asked, if
    it has one. `MissingData` says where to get it.

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
            said = " ".join(str(reason).split())[:160]
            raise MissingData(
                f"{missing}; the download did not work either: {said}"
            ) from reason
    return entry.read(path)


def embed_tree(parents: list[int], length: float = 1.0) -> np.ndarray:
    """A rooted tree (`parents[0]` is −1, parents before children) in the Poincaré disk, edges `length` long: Sarkar 2011.

    Children leave their parent at equal angles to one another and to the edge that it came by.

    >>> embed_tree([-1, 0, 0], 2.0).round(4).tolist()
    [[0.0, 0.0], [0.7616, 0.0], [-0.7616, 0.0]]
    """
    children: list[list[int]] = [[] for _ in parents]
    for child, parent in enumerate(parents[1:], start=1):
        children[parent].append(child)
    z = np.zeros(len(parents), dtype=complex)
    step = math.tanh(length / 2)  # a geodesic from 0 of this length ends here
    for node in range(len(parents)):
        here = z[node]
        ways = len(children[node]) + (node > 0)
        # seen from `node` (a Möbius map takes it to 0) the parent lies in this direction
        back = np.angle(_move(z[parents[node]], here)) if node else 0.0
        for turn, child in enumerate(children[node], start=int(node > 0)):
            z[child] = _move(
                step * np.exp(1j * (back + 2 * math.pi * turn / ways)), -here
            )
    return np.column_stack([z.real, z.imag])


def _move(z: complex, a: complex) -> complex:
    """The isometry of the disc that takes a to 0."""
    return (z - a) / (1 - a.conjugate() * z)


# --- reading the files ---


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _columns(path: Path, delimiter: str = ",") -> dict[str, np.ndarray]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=delimiter))
    return {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}


def _directions(lat: Any, lon: Any) -> np.ndarray:
    """Degrees to unit vectors, (1, 0, 0) being 0°N 0°E and (0, 0, 1) the north pole."""
    lat, lon = (
        np.radians(np.asarray(lat, dtype=np.float64)),
        np.radians(np.asarray(lon, dtype=np.float64)),
    )
    return np.stack(
        [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1
    )


def _cities(path: Path) -> np.ndarray:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return _directions(
        [float(row["lat"]) for row in rows], [float(row["lng"]) for row in rows]
    )


def _earthquakes(path: Path) -> np.ndarray:
    table = np.genfromtxt(path, delimiter=",", comments="#")[:, :2]
    return _directions(*table[np.isfinite(table).all(axis=1)].T)


def _storms(path: Path) -> np.ndarray:
    """Where each storm was first seen: the storm is the unit of privacy, not the fix."""
    table = _arrays(path)
    first = np.unique(table["key"], return_index=True)[1]
    return _directions(table["lat"][first], table["lon"][first])


def _polar_wander(path: Path) -> dict[str, np.ndarray]:
    table = _columns(path)
    return {"age": table["age"], "pole": _directions(table["plat"], table["plon"])}


def _mammals(path: Path) -> np.ndarray:
    return np.loadtxt(path, skiprows=1, usecols=(1, 2))


def _tensors(path: Path) -> dict[str, np.ndarray]:
    """In units of 10⁻³ mm²/s, the order of water's diffusivity in tissue."""
    return {
        key: table / 1e-3 if key.endswith("tensor") else table
        for key, table in _arrays(path).items()
    }


def _mnist(path: Path) -> dict[str, np.ndarray]:
    table = _arrays(path)
    return {
        "images": np.concatenate([table["x_train"], table["x_test"]]),
        "labels": np.concatenate([table["y_train"], table["y_test"]]),
    }


# --- the downloaders that users of these data know ---


def _openml(
    columns: int, rows: int, **which: Any
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    from sklearn.datasets import fetch_openml

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a try failed: the error says it
        found = fetch_openml(**which, as_frame=False, parser="liac-arff", n_retries=1)
    data = np.asarray(found.data, dtype=np.float64)
    if data.shape != (rows, columns):
        raise ValueError(
            f"OpenML sent a table of shape {data.shape}, not {(rows, columns)}"
        )
    return (
        data,
        np.asarray(found.target).astype(np.float64),
        [str(name) for name in found.feature_names],
    )


def _mnist_openml() -> dict[str, np.ndarray]:
    data, target, _ = _openml(784, 70_000, name="mnist_784", version=1)
    return {
        "images": data.astype(np.uint8).reshape(-1, 28, 28),
        "labels": target.astype(np.uint8),
    }


def _wine_openml() -> dict[str, np.ndarray]:
    data, quality, names = _openml(11, 1599, data_id=40691)
    columns = {name.replace("_", " "): data[:, i] for i, name in enumerate(names)}
    return columns | {"quality": quality}


def _pathmnist_medmnist() -> dict[str, np.ndarray]:
    from medmnist import PathMNIST

    found = PathMNIST(split="train", download=True)
    labels = np.asarray(found.labels).ravel()
    keep = labels < 2  # 0: adipose tissue, 1: background
    return {
        "images": np.asarray(found.imgs)[keep],
        "labels": labels[keep].astype(np.uint8),
    }


def _mammals_wordnet() -> np.ndarray:
    """The mammal subtree of WordNet 3.0, embedded here: not the published embedding, but the same tree (first parents)."""
    import nltk
    from nltk.corpus import wordnet

    nltk.download("wordnet", quiet=True)
    order = [wordnet.synset("mammal.n.01")]
    number, parents = {order[0]: 0}, [-1]
    for synset in order:  # grows while it is walked: breadth first
        for child in sorted(synset.hyponyms(), key=lambda s: s.name()):
            if child not in number:
                number[child] = len(order)
                parents.append(number[synset])
                order.append(child)
    return embed_tree(parents, 0.8)


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
