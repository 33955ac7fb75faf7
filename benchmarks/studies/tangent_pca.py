"""Principal geodesics of real data: error beside flattened coordinates, and coverage.

    python -m benchmarks.tangent_pca --data-dir DATA        (or set CURVEDP_DATA)

For each data set, public ball and guarantee, `runs` releases of `PrivateTangentPCA` are
compared with private PCA of the flattened coordinates in the same public ball: the
noisy mean (a quarter of μ²) and the noisy second moment (the rest) of the coordinates
less those of the center, each clipped to the smallest length that holds the ball. The
error is the root mean square angle of the first direction to that of the records'
logarithms at their Fréchet mean, neither clipped nor noisy. The last columns count how
often the stated 95% regions hold their targets: the mean, the variances and the first
direction of the records clipped to the ball of the release.

docs/evidence/tangent-pca.md shows the output.
"""

import argparse
import os
import warnings
from collections.abc import Iterator
from math import pi, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import arrays
from benchmarks.utility import Study, held_out, studies
from curvedp import PrivateTangentPCA
from curvedp.core.statistic import Ball
from curvedp.errors import CurvedpError
from curvedp.geometry import (
    Correlation,
    KendallShapes,
    Simplex,
    Torus,
    frechet_mean,
    project_to_ball,
)
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.staged.step_to_mean import (
    ONE_SHOT,
    TWO_STEP,
    StepToMeanMechanism,
    best_mechanism,
)
from curvedp.mechanisms.vector import smallest_gaussian_scale
from curvedp.privacy import ApproxDP
from curvedp.randomness import GeneratorSource
from curvedp.records.base import open_records
from curvedp.release.rebuild import final_mechanism_of
from curvedp.statistics.second_moment import (
    symmetric_to_vector,
    vector_to_symmetric,
)
from curvedp.statistics.tangent_moments import TangentMoments, split_moments

# Public points of the ball's edge that show how long flattened coordinates can be.
_EDGE_POINTS = 4000
# The fraction of μ² that private PCA of flattened coordinates spends on the mean.
_MEAN_SHARE = 0.25
_LEVEL = 0.95
_EPSILONS = (1.0, 4.0)
_DELTA = 1e-6
_RADII = ("public", "private")


class Truth(NamedTuple):
    """What is true of the records, neither clipped nor noisy.

    Attributes
    ----------
    mean : array
        Their Fréchet mean.
    direction : array, shape (dim,)
        The first principal direction there, in coordinates.
    variances : array, shape (dim,)
    """

    mean: np.ndarray
    direction: np.ndarray
    variances: np.ndarray


class Outcome(NamedTuple):
    """One release: its angle to the truth, and which regions hold their targets."""

    angle: float
    mean_held: bool
    variances_held: bool
    direction_held: bool
    n_above_noise: int


def data_sets(folder: Path) -> Iterator[Study]:
    """Yield real data sets with public balls."""
    chosen = ("diffusion tensors small_64D", "cities of Asia", "storms, first fixes")
    for study in studies(folder):
        if study.name in chosen:
            yield study
    for study in held_out(folder):
        if study.name == "earthquakes":
            yield study

    skulls = arrays(folder / "calvaria.npz")
    preshapes = np.delete(skulls["preshape"], [22, 100, 103, 159], axis=0)
    shapes = KendallShapes(8)
    points = shapes.project(np.stack([preshapes.real, preshapes.imag], axis=-1))
    yield Study("rat skulls", shapes, points[8:], Ball(points[4], 0.2))
    apes = np.moveaxis(arrays(folder / "dryden_shapes.npz")["apes_x"], -1, 0)
    centered = apes - apes.mean(axis=1, keepdims=True)
    points = np.asarray(shapes.project(centered))
    yield Study("ape skulls", shapes, points[1:], Ball(points[0], 0.3))

    angles = np.genfromtxt(folder / "tim8_torus2.csv", delimiter=",", skip_header=1)
    yield Study(
        "backbone angles", Torus(2), angles[:, -2:], Ball(np.array([-1.2, 0.0]), 1.5)
    )
    counts = arrays(folder / "crohn_simplex47.npz")["counts"].astype(np.float64)
    frequent = np.argsort(-counts[:100].sum(axis=0))[:4]
    parts = counts[:, frequent]
    parts = np.concatenate([parts, np.delete(counts, frequent, 1).sum(1)[:, None]], 1)
    simplex = Simplex(4)
    yield Study(
        "microbiome, 5 parts",
        simplex,
        simplex.project(parts / parts.sum(axis=1, keepdims=True)),
        Ball(np.asarray(simplex.origin), 1.0),
    )
    quarters = arrays(folder / "sp500_quarterly_corr20.npz")["C"].astype(np.float64)
    first = quarters[:, :3, :3]
    yield Study("correlations of 3 stocks", Correlation(3), first, Ball(np.eye(3), 2.0))


def truth_of(study: Study) -> Truth:
    """Return the mean of the records, and the first direction at it."""
    manifold = study.manifold
    mean = np.asarray(frechet_mean(manifold, study.records))
    logs = np.asarray(manifold.normal_coordinates(mean, study.records))
    eigenvalues, eigenvectors = np.linalg.eigh(logs.T @ logs / len(logs))
    return Truth(mean, eigenvectors[:, -1], eigenvalues[::-1])


def carried_angle(
    manifold: Manifold, truth: Truth, point: np.ndarray, vector: np.ndarray
) -> float:
    """Return the angle of a tangent vector, carried to the true mean, to the truth.

    Parameters
    ----------
    manifold : Manifold
    truth : Truth
    point : array
        Where the vector is.
    vector : array
        Not 0.
    """
    carried = np.asarray(manifold.transport(point, truth.mean, vector))
    return direction_angle(manifold, truth, carried)


def direction_angle(manifold: Manifold, truth: Truth, vector: np.ndarray) -> float:
    """Return the angle of a tangent vector at the true mean to the first direction."""
    z = np.asarray(manifold.to_coordinates(truth.mean, vector))
    length = float(np.linalg.norm(z))
    if not length > 0:
        return pi / 2
    return float(np.arccos(min(1.0, abs(float(z @ truth.direction)) / length)))


def release(
    study: Study, truth: Truth, radius: str, epsilon: float, mechanism: str, seed: int
) -> Outcome:
    """Release once, and look whether the regions hold their targets.

    Parameters
    ----------
    study : Study
    truth : Truth
    radius : {"public", "private"}
    epsilon : float
        Of (ε, 1e-6)-DP.
    mechanism : str
        What "auto" takes: a function of public numbers, found once for all releases.
    seed : int
    """
    manifold = study.manifold
    is_private = radius == "private"
    fitted = PrivateTangentPCA(
        manifold,
        center=study.ball.center,
        radius="private" if is_private else study.ball.radius,
        guarantee=ApproxDP(epsilon, _DELTA),
        mechanism=mechanism,
        source=GeneratorSource(np.random.default_rng(seed)),
    ).fit(study.records)

    clipped = study.records
    if not is_private:
        clipped = np.asarray(project_to_ball(manifold, *study.ball, clipped))
    final: Any = final_mechanism_of(fitted.certificate_)
    statistic: TangentMoments = final.statistic
    value = statistic.compute(open_records(clipped, manifold.point_shape))
    unit = split_moments(value, manifold.dim)
    covariance = unit.moment - np.outer(unit.mean, unit.mean)
    covariance = statistic.clipping_radius**2 * covariance
    eigenvalues = np.linalg.eigvalsh(covariance)[::-1]

    intervals = fitted.confidence_region(_LEVEL, target="variances")
    count = len(intervals.lower)
    variances_held = bool(
        np.all(intervals.lower <= eigenvalues[:count] * (1 + 1e-9))
        and np.all(eigenvalues[:count] <= intervals.upper * (1 + 1e-9))
    )
    return Outcome(
        carried_angle(manifold, truth, fitted.mean_, fitted.components_[0]),
        mean_is_held(fitted, clipped, statistic),
        variances_held,
        direction_is_held(fitted, statistic, covariance),
        fitted.n_components_above_noise_,
    )


def mean_is_held(
    fitted: PrivateTangentPCA, clipped: np.ndarray, statistic: TangentMoments
) -> bool:
    """Return whether the region of the mean holds that of the clipped records."""
    try:
        region = fitted.confidence_region(_LEVEL)
    except CurvedpError:  # no theorem applies in a ball this wide: nothing is claimed
        return True
    mean = statistic.frechet_mean
    records = open_records(clipped, statistic.manifold.point_shape)
    target = mean.to_data_frame(mean.compute(records)[None])
    return bool(region.contains(target)[0])


def direction_is_held(
    fitted: PrivateTangentPCA, statistic: TangentMoments, covariance: np.ndarray
) -> bool:
    """Return whether the region of the first direction holds that of the clipped records.

    Parameters
    ----------
    fitted : PrivateTangentPCA
    statistic : TangentMoments
        The moments in the ball of the release.
    covariance : array, shape (dim, dim)
        That of the clipped records, in coordinates at the center of the ball.
    """
    manifold = statistic.manifold
    if manifold.dim < 2:
        return True
    region = fitted.confidence_region(_LEVEL, target="directions")
    first = np.linalg.eigh(covariance)[1][:, -1]
    center = np.asarray(statistic.ball.center)
    vector = np.asarray(manifold.from_coordinates(center, first))
    # From the canonical frame to that of the records, as the release is.
    short = 1e-3 * min(1.0, manifold.injectivity_radius)
    end = manifold.exp(center, short * vector)
    moved = statistic.frechet_mean.to_data_frame(np.stack([center, end]))
    at_center = np.asarray(manifold.log(moved[0], moved[1])) / short
    carried = np.asarray(manifold.transport(moved[0], fitted.mean_, at_center))
    z = np.asarray(manifold.to_coordinates(fitted.mean_, carried))
    column = (z / np.linalg.norm(z))[:, None]
    return bool(region.contains(column[None])[0])


def flattened(manifold: Manifold, points: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Return records as plain vectors; shapes are turned to fit the public center."""
    if isinstance(manifold, KendallShapes):
        z = points[..., 0] + 1j * points[..., 1]
        reference = center[..., 0] + 1j * center[..., 1]
        overlap = np.sum(reference * np.conj(z), axis=-1, keepdims=True)
        z = z * overlap / np.abs(overlap)
        points = np.stack([z.real, z.imag], axis=-1)
    return points.reshape(len(points), -1)


def flattened_angles(study: Study, truth: Truth, mu: float, runs: int) -> np.ndarray:
    """Return the angles of private PCA of flattened coordinates, in floats.

    A mean of vectors of length at most R moves by 2R/n, a second moment by √2·R²/n. The
    first direction is projected to the tangent space at the true mean.

    Parameters
    ----------
    study : Study
    truth : Truth
    mu : float
    runs : int
    """
    manifold = study.manifold
    center, radius = study.ball
    rng = np.random.default_rng(7)
    directions = rng.standard_normal((_EDGE_POINTS, manifold.dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    edge = np.asarray(manifold.from_normal_coordinates(center, radius * directions))
    middle = flattened(manifold, center[None], center)[0]
    reach = np.linalg.norm(flattened(manifold, edge, center) - middle, axis=1).max()

    rows = flattened(manifold, study.records, center) - middle
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows * np.minimum(1.0, reach / np.maximum(lengths, 1e-300))
    n, size = rows.shape
    mean = rows.mean(axis=0)
    moment = symmetric_to_vector(rows.T @ rows / n)
    angles = []
    for _ in range(runs):
        mean_noise = 2 * reach / (n * mu * sqrt(_MEAN_SHARE))
        noisy_mean = mean + mean_noise * rng.standard_normal(size)
        moment_noise = sqrt(2) * reach**2 / (n * mu * sqrt(1 - _MEAN_SHARE))
        noisy = moment + moment_noise * rng.standard_normal(moment.size)
        matrix = vector_to_symmetric(noisy, size) - np.outer(noisy_mean, noisy_mean)
        direction = np.linalg.eigh(matrix)[1][:, -1].reshape(manifold.point_shape)
        vector = np.asarray(manifold.to_tangent(truth.mean, direction))
        angles.append(direction_angle(manifold, truth, vector))
    return np.array(angles)


def root_mean_square(angles: np.ndarray) -> float:
    """Return the root mean square of angles, in degrees."""
    return float(np.degrees(np.sqrt(np.mean(np.square(angles)))))


def mechanism_of_auto(study: Study, radius: str, epsilon: float) -> str:
    """Return the mechanism that "auto" takes; it depends on public numbers alone."""
    if radius == "private":
        return "auto"
    statistic = TangentMoments(study.manifold, *study.ball, len(study.records))
    best = best_mechanism(statistic, ApproxDP(epsilon, _DELTA))
    return TWO_STEP if isinstance(best, StepToMeanMechanism) else ONE_SHOT


def row(study: Study, radius: str, epsilon: float, runs: int) -> tuple[str, float]:
    """Return a row of the table, and the ratio of the two errors.

    Parameters
    ----------
    study : Study
    radius : {"public", "private"}
    epsilon : float
    runs : int
    """
    truth = truth_of(study)
    mechanism = mechanism_of_auto(study, radius, epsilon)
    outcomes = [
        release(study, truth, radius, epsilon, mechanism, seed) for seed in range(runs)
    ]
    mu = 1 / smallest_gaussian_scale(ApproxDP(epsilon, _DELTA))
    own = root_mean_square(np.array([outcome.angle for outcome in outcomes]))
    other = root_mean_square(flattened_angles(study, truth, mu, runs))
    held = [np.mean([outcome[k] for outcome in outcomes]) for k in range(1, 4)]
    above = np.median([outcome.n_above_noise for outcome in outcomes])
    ratio = own / other
    cells = [
        study.name,
        str(study.manifold.dim),
        str(len(study.records)),
        f"{epsilon:g}",
        radius,
        f"{own:.1f}°",
        f"{other:.1f}°",
        f"**{ratio:.2f}**",
        *[f"{100 * share:.0f}%" for share in held],
        f"{above:g}",
    ]
    return "| " + " | ".join(cells) + " |", ratio


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("CURVEDP_DATA"))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if options.data_dir is None:
        parser.error("give the folder of the data: --data-dir or CURVEDP_DATA")
    warnings.simplefilter("ignore")

    print(
        "| records | d | n | ε | radius | error | flattened | ratio | mean | variances "
        "| direction | above noise |"
    )
    print("|" + "---|" * 12)
    ratios: dict[str, list[float]] = {radius: [] for radius in _RADII}
    for study in data_sets(Path(options.data_dir)):
        if options.only not in study.name:
            continue
        for radius in _RADII:
            for epsilon in _EPSILONS:
                line, ratio = row(study, radius, epsilon, options.runs)
                ratios[radius].append(ratio)
                print(line, flush=True)
    for radius, column in ratios.items():
        if column:
            print(f"geometric mean, {radius}: {np.exp(np.mean(np.log(column))):.2f}")


if __name__ == "__main__":
    main()
