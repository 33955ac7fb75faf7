"""Means and class prototypes of embeddings: unit vectors of 384 numbers.

    python -m benchmarks.embeddings --data-dir DATA        (or set CURVEDP_DATA)

Four tables, on simulated unit vectors 62° from their mean direction and on customers'
messages to a bank (77 intents, all-MiniLM-L6-v2):

1. the error of `PrivateFrechetMean(radius="private")`, beside the same releases without
   division by the Hessian, and beside three lines of NumPy: the noisy mean of the unit
   vectors. Truth is the Fréchet mean;
2. the same on other spaces of positive curvature;
3. how many unseen messages are given their intent by `PrivatePrototypes`, beside plain
   noisy class sums;
4. what noise on one single embedding leaves of it.

docs/evidence/topics.md shows the output.
"""

import argparse
import os
import warnings
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from benchmarks import arrays
from curvedp import GDP, PrivateFrechetMean, PrivatePrototypes, plan
from curvedp.geometry import (
    Grassmann,
    KendallShapes,
    Rotations,
    Simplex,
    Sphere,
    frechet_mean,
)
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms import gradient_step
from curvedp.mechanisms.vector import smallest_gaussian_scale
from curvedp.privacy import ApproxDP
from curvedp.randomness import GeneratorSource

SPHERE = Sphere(383)
_MEAN_ANGLE = np.radians(62)
_INTENTS = 77
_CLASSIFIER_MU = 0.84


class Data(NamedTuple):
    """Records with their Fréchet mean."""

    name: str
    manifold: Manifold
    records: np.ndarray
    mean: np.ndarray

    @property
    def spread(self) -> float:
        """The root mean square distance of the records to their mean."""
        distances = np.asarray(self.manifold.dist(self.mean, self.records))
        return float(np.sqrt(np.mean(distances**2)))


def simulated(n: int, dim: int = 383) -> Data:
    """Return unit vectors about 62° from e₁, alike in all directions."""
    rng = np.random.default_rng(0)
    vectors = np.tan(_MEAN_ANGLE) / sqrt(dim) * rng.normal(size=(n, dim + 1))
    vectors[:, 0] += 1
    sphere = Sphere(dim)
    records = np.asarray(sphere.project(vectors))
    return Data(f"simulated, n = {n:,}", sphere, records, mean_of(sphere, records))


def mean_of(manifold: Manifold, records: np.ndarray) -> np.ndarray:
    """Return the Fréchet mean of the records."""
    return np.asarray(frechet_mean(manifold, records))


def bank_messages(folder: Path) -> dict[str, np.ndarray]:
    """Return the messages as unit vectors, their intents, and which are for testing."""
    content = arrays(folder / "banking77_minilm_s383.npz")
    vectors = np.asarray(SPHERE.project(content["X"].astype(np.float64)))
    return {"X": vectors, "y": content["y"], "is_test": content["split"] == 1}


def wide_records() -> Iterator[Data]:
    """Yield records that are far from their mean on spaces of positive curvature."""
    spaces = (
        (Sphere(2), 1.0),
        (Rotations(3), 1.2),
        (Simplex(10), 1.2),
        (Grassmann(50, 1), 0.9),
        (KendallShapes(40), 0.9),
        (KendallShapes(8), 0.7),
        (Grassmann(20, 3), 0.9),
        (Grassmann(6, 2), 0.6),
        (Rotations(6), 1.6),
    )
    for manifold, spread in spaces:
        rng = np.random.default_rng(0)
        offset = 0.3 * np.eye(manifold.dim)[1]
        center = np.asarray(manifold.from_normal_coordinates(manifold.origin, offset))
        vectors = spread / sqrt(manifold.dim) * rng.normal(size=(3000, manifold.dim))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors *= np.minimum(1.0, 0.95 * manifold.injectivity_radius / lengths)
        records = np.asarray(manifold.from_normal_coordinates(center, vectors))
        yield Data(str(manifold), manifold, records, mean_of(manifold, records))


class MeanErrors(NamedTuple):
    """Root mean square errors of private means, and the mean of their predictions."""

    error: float
    prediction: float


def mean_errors(data: Data, mu: float, runs: int, divides: bool = True) -> MeanErrors:
    """Release a mean several times in a ball that is found privately.

    Parameters
    ----------
    data : Data
    mu : float
    runs : int
    divides : bool
        Whether a step may be divided by the Hessian.
    """
    errors = []
    predictions = []
    with pytest.MonkeyPatch.context() as patch:
        if not divides:
            patch.setattr(gradient_step, "is_positively_curved", lambda manifold: False)
        for seed in range(runs):
            fitted = PrivateFrechetMean(
                data.manifold,
                radius="private",
                guarantee=GDP(mu),
                source=GeneratorSource(np.random.default_rng(seed)),
            ).fit(data.records)
            errors.append(float(data.manifold.dist(data.mean, fitted.location_)))
            predictions.append(fitted.predicted_error_)
    root_mean_square = float(np.sqrt(np.mean(np.square(errors))))
    return MeanErrors(root_mean_square, float(np.mean(predictions)))


def plain_mean_error(data: Data, mu: float, runs: int) -> float:
    """Return the error of the noisy mean of unit vectors, scaled to length 1, in floats."""
    rng = np.random.default_rng(1)
    mean = data.records.mean(axis=0)
    noise_std = 2 / (len(data.records) * mu)
    squares = []
    for _ in range(runs):
        noisy = np.asarray(
            data.manifold.project(mean + noise_std * rng.normal(size=mean.shape))
        )
        squares.append(float(data.manifold.dist(data.mean, noisy)) ** 2)
    return float(np.sqrt(np.mean(squares)))


def print_means(data_sets: list[Data], runs: int) -> None:
    """Print the errors of means on S³⁸³ in degrees."""
    print(
        "| records | GDP(1): error | undivided | noisy mean vector | predicted | plan |"
    )
    print("|---" * 6 + "|")
    for data in data_sets:
        divided = mean_errors(data, 1.0, runs)
        undivided = mean_errors(data, 1.0, runs, divides=False)
        plain = plain_mean_error(data, 1.0, runs)
        n = len(data.records)
        planned = plan(data.manifold, n=n, radius="private", spread=data.spread).error
        values = (divided.error, undivided.error, plain, divided.prediction, planned)
        cells = " | ".join(f"{np.degrees(value):.2f}°" for value in values)
        print(f"| {data.name} | {cells} |", flush=True)


def print_spaces(runs: int) -> None:
    """Print the errors of means on other spaces of positive curvature."""
    print("| space | distance to the mean | error | undivided | predicted |")
    print("|---" * 5 + "|")
    for data in wide_records():
        divided = mean_errors(data, 1.0, runs)
        undivided = mean_errors(data, 1.0, runs, divides=False)
        cells = (
            f"{divided.error:.5f} | {undivided.error:.5f} | {divided.prediction:.5f}"
        )
        print(f"| {data.name} | {data.spread:.2f} | {cells} |", flush=True)


def share_of_right_intents(
    bank: dict[str, np.ndarray], guarantee: Any, runs: int
) -> np.ndarray:
    """Return how many unseen messages are given their intent, for each of several runs."""
    is_test = bank["is_test"]
    shares = []
    for seed in range(runs):
        model = PrivatePrototypes(
            SPHERE,
            guarantee=guarantee,
            source=GeneratorSource(np.random.default_rng(seed)),
        ).fit(bank["X"][~is_test], bank["y"][~is_test])
        shares.append(model.score(bank["X"][is_test], bank["y"][is_test]))
    return np.array(shares)


def plain_right_intents(
    bank: dict[str, np.ndarray], mu: float, sensitivity: float, runs: int
) -> np.ndarray:
    """Return the same for the directions of noisy class sums of unit vectors, in floats.

    Parameters
    ----------
    bank : dict
    mu : float
    sensitivity : float
        How far the sums move: 2 if a record is replaced, 1 if one is added.
    runs : int
    """
    is_test = bank["is_test"]
    rng = np.random.default_rng(0)
    sums = np.zeros((_INTENTS, bank["X"].shape[1]))
    np.add.at(sums, bank["y"][~is_test], bank["X"][~is_test])
    shares = []
    for _ in range(runs):
        noisy = sums + sensitivity / mu * rng.normal(size=sums.shape)
        directions = noisy / np.linalg.norm(noisy, axis=1, keepdims=True)
        nearest = np.argmax(bank["X"][is_test] @ directions.T, axis=1)
        shares.append(np.mean(nearest == bank["y"][is_test]))
    return np.array(shares)


def print_classifiers(bank: dict[str, np.ndarray], runs: int) -> None:
    """Print the share of unseen messages that are given their intent."""
    print("| μ | neighbors | prototypes | plain noisy class sums |")
    print("|---" * 4 + "|")
    for mu in (0.42, _CLASSIFIER_MU, 1.68, 1e4):
        for adjacency, sensitivity in (("replace-one", 2.0), ("add-remove", 1.0)):
            guarantee = GDP(mu, adjacency=adjacency)
            ours = share_of_right_intents(bank, guarantee, runs)
            plain = plain_right_intents(bank, mu, sensitivity, runs)
            cells = " | ".join(
                f"{shares.mean():.3f} ± {shares.std():.3f}" for shares in (ours, plain)
            )
            print(f"| {mu:g} | {adjacency} | {cells} |", flush=True)


def print_local_noise(runs: int) -> None:
    """Print the mean cosine of one unit vector with itself after Gaussian noise."""
    print(
        "| numbers in a vector | guarantee | noise σ | mean cosine | σ for cosine 0.9 |"
    )
    print("|---" * 5 + "|")
    rng = np.random.default_rng(0)
    for size in (2, 50, 384, 768):
        for epsilon in (1.0, 4.0, 16.0):
            # One vector may become any other: two unit vectors are at most 2 apart.
            scale = 2 * smallest_gaussian_scale(ApproxDP(epsilon, 1e-5))
            noisy = scale * rng.normal(size=(100 * runs, size))
            noisy[:, 0] += 1
            cosine = np.mean(noisy[:, 0] / np.linalg.norm(noisy, axis=1))
            wanted = sqrt((1 / 0.9**2 - 1) / max(1, size - 1))
            cells = f"{scale:.2f} | {cosine:.4f} | {wanted:.3f}"
            print(f"| {size} | ({epsilon:g}, 1e-5) | {cells} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("CURVEDP_DATA"))
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument(
        "--only", choices=("means", "spaces", "classifiers", "local"), default=None
    )
    options = parser.parse_args()
    if options.data_dir is None:
        parser.error("give the folder of the data: --data-dir or CURVEDP_DATA")
    warnings.simplefilter("ignore")

    bank = bank_messages(Path(options.data_dir))
    if options.only in (None, "means"):
        messages = Data(
            f"bank messages, n = {len(bank['X']):,}",
            SPHERE,
            bank["X"],
            mean_of(SPHERE, bank["X"]),
        )
        print_means([simulated(3000), simulated(10_000), messages], options.runs)
        print()
    if options.only in (None, "spaces"):
        print_spaces(options.runs)
        print()
    if options.only in (None, "classifiers"):
        print_classifiers(bank, max(5, options.runs // 3))
        print()
    if options.only in (None, "local"):
        print_local_noise(options.runs)


if __name__ == "__main__":
    main()
