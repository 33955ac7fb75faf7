"""Topics of embeddings: private k-means beside Google's, DP-Lloyd and diffprivlib.

    python -m benchmarks.topics --data-dir DATA        (or set CURVEDP_DATA)

The records are customers' messages to a bank (77 intents, all-MiniLM-L6-v2, unit
vectors of 384 numbers), and the places of earthquakes on the globe. Every method runs
several times; the tables show the mean and the standard deviation over the runs. All
methods but diffprivlib meet (ε, 10⁻⁶) for adding or removing a record.

- *ours*: `PrivateKMeans`, also for replacing a record, where n is public;
- *Google*: `private_lsh_clustering` of google/differential-privacy, learning/clustering;
- *DP-Lloyd*: noisy steps of Lloyd's algorithm in all dimensions, in floats (below);
- *diffprivlib*: its `KMeans`, which is pure ε;
- *not private*: scikit-learn's k-means.

Google's module and diffprivlib are no dependencies. `--peers FOLDER` names a folder
with `learning/clustering` of the one and `diffprivlib` of the other; a method that
cannot be imported is left out, and the output says so. docs/evidence/topics.md shows
the output.
"""

import argparse
import os
import sys
import time
import types
import warnings
from collections.abc import Callable
from importlib import import_module
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from benchmarks import arrays
from curvedp import ApproxDP, PrivateKMeans
from curvedp.geometry import Sphere
from curvedp.mechanisms.vector import smallest_gaussian_scale
from curvedp.randomness import GeneratorSource

DELTA = 1e-6

# (number of clusters, ε) of the table of messages, and of that of earthquakes.
_MESSAGE_SETTINGS = ((77, 0.5), (77, 1.0), (77, 2.0), (77, 4.0), (10, 1.0), (10, 8.0))
_QUAKE_SETTINGS = ((10, 0.5), (10, 2.0), (30, 2.0))

# The coordinates of sentence embeddings on the unit sphere are smaller than this; it is
# the public bound that diffprivlib is given.
_LARGEST_COORDINATE = 0.25

# Of the budget of DP-Lloyd: the part that pays for the mean, and the number of steps.
_MEAN_SHARE = 0.05
_STEPS = 5
# The weight of a count beside a sum of unit vectors.
_COUNT_WEIGHT = 0.35

# Returns centers, given records, how many clusters, ε and a seed.
Method = Callable[[np.ndarray, int, float, int], np.ndarray]


class Scores(NamedTuple):
    """How good released centers are.

    Attributes
    ----------
    mutual_information : float
        Normalized, of the nearest center and the true label; NaN without labels.
    cosine : float
        The mean cosine of a record and its nearest center.
    seconds : float
    """

    mutual_information: float
    cosine: float
    seconds: float


def ours(adjacency: str) -> Method:
    """Return `PrivateKMeans` for a neighboring relation."""

    def release(X: np.ndarray, k: int, epsilon: float, seed: int) -> np.ndarray:
        model = PrivateKMeans(
            Sphere(X.shape[1] - 1),
            n_clusters=k,
            guarantee=ApproxDP(epsilon, DELTA, adjacency=adjacency),
            source=GeneratorSource(np.random.default_rng(seed)),
        )
        return np.asarray(model.fit(X).cluster_centers_)

    return release


def google(X: np.ndarray, k: int, epsilon: float, seed: int) -> np.ndarray:
    """Return the centers of Google's module, which draws its own random numbers."""
    module = import_module("clustering.clustering_algorithm")
    params = import_module("clustering.clustering_params")
    np.random.seed(seed)  # noqa: NPY002 - the module uses NumPy's global generator
    result = module.private_lsh_clustering(
        k,
        params.Data(X, 1.0),
        params.DifferentialPrivacyParam(epsilon, DELTA),
    )
    return np.asarray(result.centers)


def diffprivlib(X: np.ndarray, k: int, epsilon: float, seed: int) -> np.ndarray:
    """Return the centers of diffprivlib, with public bounds of all coordinates."""
    bound = _LARGEST_COORDINATE if X.shape[1] > 3 else 1.0
    model = import_module("diffprivlib.models.k_means").KMeans(
        k, epsilon=epsilon, bounds=(-bound, bound), random_state=seed
    )
    return np.asarray(model.fit(X).cluster_centers_)


def dp_lloyd(X: np.ndarray, k: int, epsilon: float, seed: int) -> np.ndarray:
    """Return centers after noisy steps in all dimensions, from random directions.

    The mean of the records is released first, and initial centers are drawn about it
    without the records. A step releases each cluster's sum and its number.
    """
    rng = np.random.default_rng(seed)
    scale = smallest_gaussian_scale(ApproxDP(epsilon, DELTA))  # for a sensitivity of 1
    size = X.shape[1]
    sensitivity = sqrt(1 + _COUNT_WEIGHT**2)

    noise = sensitivity * scale / sqrt(_MEAN_SHARE)
    count = len(X) + noise / _COUNT_WEIGHT * rng.normal()
    mean = (X.sum(axis=0) + noise * rng.normal(size=size)) / count
    spread = sqrt(max(1.0 - float(mean @ mean), 0.0))
    directions = rng.normal(size=(k, size))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    centers = mean + spread * directions

    noise = sensitivity * scale / sqrt((1 - _MEAN_SHARE) / _STEPS)
    for _ in range(_STEPS):
        labels = nearest(X, centers)
        sums = np.zeros((k, size))
        np.add.at(sums, labels, X)
        sums += noise * rng.normal(size=sums.shape)
        counts = np.bincount(labels, minlength=k) + noise / _COUNT_WEIGHT * rng.normal(
            size=k
        )
        is_large = counts > 3 * noise / _COUNT_WEIGHT
        means = sums / np.maximum(counts, 1.0)[:, None]
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        centers = np.where(is_large[:, None], means / np.maximum(lengths, 1.0), centers)
    return np.asarray(centers)


def not_private(X: np.ndarray, k: int, epsilon: float, seed: int) -> np.ndarray:
    """Return the centers of scikit-learn's k-means."""
    model = KMeans(k, n_init=1, random_state=seed).fit(X)
    return np.asarray(model.cluster_centers_)


def nearest(X: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Return the index of the nearest center in the ambient space."""
    half_squares = 0.5 * np.sum(centers**2, axis=1)
    return np.asarray(np.argmax(X @ centers.T - half_squares, axis=1))


def directions_of(centers: np.ndarray) -> np.ndarray:
    """Return centers as unit vectors."""
    lengths = np.linalg.norm(centers, axis=1, keepdims=True)
    return np.asarray(centers / np.maximum(lengths, 1e-12))


def score(
    method: Method,
    X: np.ndarray,
    labels: np.ndarray | None,
    k: int,
    epsilon: float,
    seed: int,
) -> Scores:
    """Run a method once; every method's centers are compared as unit vectors."""
    start = time.perf_counter()
    centers = directions_of(method(X, k, epsilon, seed))
    seconds = time.perf_counter() - start
    cosines = X @ centers.T
    information = float("nan")
    if labels is not None:
        information = normalized_mutual_info_score(labels, cosines.argmax(axis=1))
    return Scores(information, float(cosines.max(axis=1).mean()), seconds)


def find_methods(peers: Path | None) -> dict[str, Method]:
    """Return the methods that can be imported, by name, and say which cannot."""
    if peers is not None:
        sys.path[:0] = [str(peers), str(peers / "learning")]
    methods: dict[str, Method] = {
        "ours, add-remove": ours("add-remove"),
        "ours, replace-one": ours("replace-one"),
    }
    try:
        import_module("clustering.clustering_algorithm")
        methods["Google"] = google
    except ImportError as error:
        print(f"left out: Google's module ({error})\n")
    methods["DP-Lloyd"] = dp_lloyd
    try:
        # Its forests do not import with newer releases of scikit-learn.
        forest: Any = types.ModuleType("diffprivlib.models.forest")
        forest.RandomForestClassifier = forest.DecisionTreeClassifier = None
        sys.modules["diffprivlib.models.forest"] = forest
        import_module("diffprivlib.models.k_means")
        methods["diffprivlib"] = diffprivlib
    except ImportError as error:
        print(f"left out: diffprivlib ({error})\n")
    methods["not private"] = not_private
    return methods


def print_table(
    methods: dict[str, Method],
    X: np.ndarray,
    labels: np.ndarray | None,
    settings: tuple[tuple[int, float], ...],
    runs: int,
) -> None:
    """Print mean and spread of the scores of all methods in all settings."""
    print("| k | ε | method | NMI | mean cosine | seconds |")
    print("|---" * 6 + "|")
    for k, epsilon in settings:
        for name, method in methods.items():
            scores = np.array(
                [score(method, X, labels, k, epsilon, seed) for seed in range(runs)]
            )
            means = scores.mean(axis=0)
            spreads = scores.std(axis=0)
            information = f"{means[0]:.3f} ± {spreads[0]:.3f}"
            if labels is None:
                information = ""
            print(
                f"| {k} | {epsilon:g} | {name} | {information} | "
                f"{means[1]:.4f} ± {spreads[1]:.4f} | {means[2]:.1f} |",
                flush=True,
            )


def messages(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the messages as unit vectors, and their intents."""
    content = arrays(folder / "banking77_minilm_s383.npz")
    return directions_of(content["X"].astype(np.float64)), content["y"]


def earthquakes(folder: Path) -> np.ndarray:
    """Return the places of earthquakes as unit vectors of three numbers."""
    # Three lines of comments and one of names come first.
    table = np.genfromtxt(
        folder / "earth_quakes_all.csv", delimiter=",", skip_header=4, comments=None
    )
    latitude, longitude = np.radians(table).T
    vectors = np.stack(
        [
            np.cos(latitude) * np.cos(longitude),
            np.cos(latitude) * np.sin(longitude),
            np.sin(latitude),
        ],
        axis=1,
    )
    return np.asarray(vectors[np.isfinite(vectors).all(axis=1)])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("CURVEDP_DATA"))
    parser.add_argument("--peers", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=("messages", "earthquakes"), default=None)
    options = parser.parse_args()
    if options.data_dir is None:
        parser.error("give the folder of the data: --data-dir or CURVEDP_DATA")
    warnings.simplefilter("ignore")

    folder = Path(options.data_dir)
    methods = find_methods(options.peers)
    if options.only in (None, "messages"):
        X, labels = messages(folder)
        print(f"messages to a bank, n = {len(X):,}, S³⁸³\n", flush=True)
        print_table(methods, X, labels, _MESSAGE_SETTINGS, options.runs)
        print()
    if options.only in (None, "earthquakes"):
        X = earthquakes(folder)
        print(f"earthquakes, n = {len(X):,}, S²\n", flush=True)
        print_table(methods, X, None, _QUAKE_SETTINGS, options.runs)


if __name__ == "__main__":
    main()
