"""What a new user gets: errors of private means in units of the sampling error.

    python -m benchmarks.first_use --data-dir DATA

(or CURVEDP_DATA=DATA python -m benchmarks.first_use). For each data set: the number of
records n, the dimension, the root mean square distance of the records to their Fréchet
mean (spread), and the sampling error s, which is spread/√n. Then the root mean square
error of releases, as a multiple of s, with `radius="private"` and in a public ball as
the pages tell one to choose it; each at GDP(1) and at (1, 1e-6). Errors are distances to
the Fréchet mean of all records, clipped or not. The last column is the error at GDP(1)
with a private ball over the one that `plan(spread=)` predicts.

docs/evidence/first-use.md shows the output.
"""

import argparse
import os
import warnings
from collections.abc import Iterator
from math import sqrt
from pathlib import Path

import numpy as np

from benchmarks.predictions import DataSet, data_sets
from benchmarks.utility import held_out, studies
from curvedp import GDP, ApproxDP, PrivateFrechetMean, ReleaseWarning, plan
from curvedp.core.statistic import Ball
from curvedp.geometry import frechet_mean
from curvedp.privacy import Guarantee

RUNS = 20
GUARANTEES: tuple[Guarantee, ...] = (GDP(1.0), ApproxDP(1.0, 1e-6))

# Radii about the default center in which nearly all records are, for sets without a
# public ball of their own in `benchmarks.utility`. Rat skulls are far from the default
# shape, and without a template nobody would choose a ball by hand.
_HAND_RADII = {
    "wrist": 0.8,
    "elbow": 1.5,
    "shoulder": 1.5,
    "gut microbiome": 2.5,
    "stocks, correlations": 5.0,
    "protein angles": 1.5,
    "winds": 1.5,
    "EEG, 4 channels": 4.0,
    "EEG, 8 channels": 4.0,
    "bank messages, one class": 1.2,
    "bank messages, a quarter": 1.4,
}


# Covariances in squared microvolts are far from I, and one states their scale.
_HAND_SCALES = {"EEG, 4 channels": 100.0, "EEG, 8 channels": 100.0}


def hand_balls(folder: Path) -> dict[str, Ball]:
    """Return the public balls of data sets by name, where there are any."""
    balls = {study.name: study.ball for study in (*studies(folder), *held_out(folder))}
    for data in data_sets(folder):
        radius = _HAND_RADII.get(data.name)
        if radius is not None:
            scale = _HAND_SCALES.get(data.name, 1.0)
            balls[data.name] = Ball(scale * data.manifold.origin, radius)
    return balls


def root_mean_square_error(
    data: DataSet, ball: Ball | None, guarantee: Guarantee, runs: int
) -> float:
    """Return the root mean square distance of releases to the mean of all records.

    Parameters
    ----------
    data : DataSet
    ball : Ball or None
        The public ball, or None to find one privately.
    guarantee : Guarantee
    runs : int
        The number of releases.
    """
    manifold = data.manifold
    mean = np.asarray(frechet_mean(manifold, data.records))
    model = PrivateFrechetMean(
        manifold,
        radius="private" if ball is None else ball.radius,
        center=None if ball is None else ball.center,
        guarantee=guarantee,
    )
    squares = []
    for _ in range(runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReleaseWarning)
            released = model.fit(data.records).location_
        squares.append(float(manifold.dist(mean, released)) ** 2)
    return sqrt(float(np.mean(squares)))


def table_row(data: DataSet, ball: Ball | None, runs: int) -> str:
    """Return the row of a data set."""
    manifold, n = data.manifold, len(data.records)
    mean = np.asarray(frechet_mean(manifold, data.records))
    distances = np.asarray(manifold.dist(mean, data.records))
    spread = sqrt(float(np.mean(distances**2)))
    sampling_error = spread / sqrt(n)
    private = [root_mean_square_error(data, None, g, runs) for g in GUARANTEES]
    hand = ["", ""]
    if ball is not None:
        errors = [root_mean_square_error(data, ball, g, runs) for g in GUARANTEES]
        hand = [f"{error / sampling_error:.2g}" for error in errors]
        hand[0] += f" (r = {ball.radius:g})"
    predicted = plan(manifold, n, "private", GUARANTEES[0], spread=spread).error
    return (
        f"| {data.name} | {n} | {manifold.dim} | {spread:.3g} | {sampling_error:.3g} | "
        f"{private[0] / sampling_error:.2g} | {private[1] / sampling_error:.2g} | "
        f"{hand[0]} | {hand[1]} | {private[0] / predicted:.2f} |"
    )


def table(folder: Path, runs: int, only: str, leave_out: str) -> Iterator[str]:
    """Yield the rows, small data sets first."""
    yield (
        "| data | n | dim | spread | s | private, GDP(1) | private, (1, 1e-6) | "
        "by hand, GDP(1) | by hand, (1, 1e-6) | measured/planned |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    balls = hand_balls(folder)
    for data in sorted(data_sets(folder), key=lambda data: data.records.size):
        is_left_out = bool(leave_out) and leave_out in data.name
        if only in data.name and not is_left_out:
            yield table_row(data, balls.get(data.name), runs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("CURVEDP_DATA"))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default="", help="part of a data set's name")
    parser.add_argument("--leave-out", default="", help="part of a data set's name")
    given = parser.parse_args()
    if given.data_dir is None:
        parser.error("name the data folder: --data-dir or CURVEDP_DATA")
    folder = Path(given.data_dir)
    for line in table(folder, given.runs, given.only, given.leave_out):
        print(line, flush=True)


if __name__ == "__main__":
    main()
