"""How good are predictions for a private ball? `plan` against real releases.

    python -m benchmarks.predictions --data-dir DATA

(or CURVEDP_DATA=DATA python -m benchmarks.predictions). For each data set on its
manifold: the number of records n, the dimension, the root mean square distance of the
records to their Fréchet mean (spread), what
`plan(manifold, n, "private", guarantee, spread=spread)` predicts, the root mean square
error of releases with `radius="private"`, measured/planned, and the standard error of
that ratio from the number of releases. Errors are distances to the Fréchet mean of all
records, clipped or not. The last column says what `plan` warned of, and at least a tenth
of the releases. `docs/evidence/predictions.md` shows the output.
"""

import argparse
import csv
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from math import inf, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import arrays
from benchmarks.utility import held_out, studies
from curvedp import GDP, ApproxDP, PrivateFrechetMean, ReleaseWarning, plan
from curvedp.geometry import (
    Correlation,
    KendallShapes,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    Sphere,
    Torus,
    frechet_mean,
)
from curvedp.geometry.manifold import Manifold
from curvedp.privacy import Guarantee
from curvedp.records.forms import find_form

# Releases for each data set and guarantee: fewer in many dimensions, where one takes
# longer and errors vary less.
RUNS = 60
FEWEST_RUNS = 10
_RUNS_TIMES_DIM = 1600
# A warning counts if at least this share of the releases, or the plan, issues it.
WARNED_SHARE = 0.1
GUARANTEES: tuple[Guarantee, ...] = (GDP(1.0), ApproxDP(1.0, 1e-6))


class DataSet(NamedTuple):
    """Records on their manifold."""

    name: str
    manifold: Manifold
    records: np.ndarray


class Comparison(NamedTuple):
    """What was predicted for one data set, and what came out."""

    spread: float
    planned: float
    errors: np.ndarray
    warnings: str

    @property
    def measured(self) -> float:
        """The root mean square error of the releases."""
        return _root_mean_square(self.errors)

    @property
    def ratio(self) -> float:
        """How many times the plan the measured error is."""
        return self.measured / self.planned

    @property
    def ratio_error(self) -> float:
        """The standard error of `ratio` that follows from the number of releases."""
        squares = self.errors**2
        if not np.all(np.isfinite(squares)):
            return inf
        relative = float(np.std(squares) / np.mean(squares)) / sqrt(len(squares))
        return self.ratio * relative / 2


def data_sets(folder: Path) -> Iterator[DataSet]:
    """Yield the data sets, in their own units and about no template."""
    for study in (*studies(folder), *held_out(folder)):
        if "EEG" not in study.name and "smalltree" not in study.name:
            yield DataSet(study.name, study.manifold, study.records)
    windows = arrays(folder / "eeg_eeglab_cov.npz")["windows2s_cov"]
    for channels in (4, 8, 32):
        evenly = slice(None, None, 32 // channels)
        records = windows[:, evenly, evenly]
        yield DataSet(
            f"EEG, {channels} channels", SPDAffineInvariant(channels), records
        )
    yield from _rotations(folder / "drill_so3_quaternions.csv")
    counts = arrays(folder / "crohn_simplex47.npz")["counts"].astype(np.float64)
    proportions = counts / counts.sum(axis=1, keepdims=True)
    yield DataSet("gut microbiome", Simplex(47), proportions)
    correlations = arrays(folder / "sp500_quarterly_corr20.npz")["C"]
    yield DataSet("stocks, correlations", Correlation(20), correlations)
    preshapes = arrays(folder / "calvaria.npz")["preshape"]
    landmarks = np.stack([preshapes.real, preshapes.imag], axis=-1)
    shapes = KendallShapes(8)
    yield DataSet("rat skulls", shapes, np.asarray(shapes.project(landmarks)))
    messages = arrays(folder / "banking77_minilm_s383.npz")
    vectors = messages["X"].astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    yield DataSet("bank messages, one class", Sphere(383), vectors[messages["y"] == 0])
    yield DataSet("bank messages, a quarter", Sphere(383), vectors[::4])
    angles = np.genfromtxt(folder / "tim8_torus2.csv", delimiter=",", skip_header=1)
    yield DataSet("protein angles", Torus(2), angles)
    winds = np.genfromtxt(folder / "wind_coldelanoue_s1.csv", skip_header=1)
    yield DataSet("winds", Torus(1), winds[:, None])


def _rotations(path: Path) -> Iterator[DataSet]:
    """Yield the rotations of each joint; rows without four numbers are left out."""
    columns = ("Q1", "Q2", "Q3", "Q4")
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if all(row[q] for q in columns)]
    numbers = np.array([[float(row[q]) for q in columns] for row in rows])
    rotations = find_form("quaternion-wxyz", Rotations(3)).points(numbers)
    joints = np.array([row["Joint"] for row in rows])
    for joint in ("Wrist", "Elbow", "Shoulder"):
        yield DataSet(joint.lower(), Rotations(3), rotations[joints == joint])


def compare(data: DataSet, guarantee: Guarantee, runs: int) -> Comparison:
    """Plan from the spread, release, and compare."""
    manifold, records = data.manifold, data.records
    mean = np.asarray(frechet_mean(manifold, records))
    spread = _root_mean_square(np.asarray(manifold.dist(mean, records)))
    study = plan(manifold, len(records), "private", guarantee, spread=spread)
    model = PrivateFrechetMean(manifold, radius="private", guarantee=guarantee)
    runs = min(runs, max(FEWEST_RUNS, _RUNS_TIMES_DIM // manifold.dim))
    errors = np.empty(runs)
    counts = Counter[str]()
    for run in range(runs):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ReleaseWarning)
            released = model.fit(records).location_
        counts.update(_kinds([str(warning.message) for warning in caught]))
        # A release far beyond the records has no distance that doubles can compute.
        errors[run] = np.nan_to_num(manifold.dist(mean, released), nan=np.inf)
    warned = _kinds(study.advice())
    warned |= {kind for kind, count in counts.items() if count >= WARNED_SHARE * runs}
    names = ", ".join(kind for kind in KINDS if kind in warned)
    return Comparison(spread, study.error, errors, names)


def _root_mean_square(values: np.ndarray) -> float:
    return sqrt(float(np.mean(values**2)))


# The kinds of warning, with phrases of plans and of releases.
KINDS = {
    "few records": ("is small for a private ball",),
    "too small": ("study is too small",),
    "several means": ("only one mean", "known to be unique only"),
    "records outside": (
        "so few records outside the ball",
        "more than a tenth of the records lie outside",
    ),
    "rare errors": ("rare large errors make up most",),
}


def _kinds(messages: list[str]) -> set[str]:
    """Return the kinds of warning among these messages."""
    text = " ".join(messages)
    return {
        kind
        for kind, phrases in KINDS.items()
        if any(phrase in text for phrase in phrases)
    }


def table(folder: Path, runs: int, only: str) -> Iterator[str]:
    """Yield the rows, and at the end how many ratios are within 1.5 and 3."""
    yield (
        "| data | n | dim | spread | guarantee | planned | measured | ratio | ± | "
        "warned of |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    silent, warned = [], []
    for data in data_sets(folder):
        if only not in data.name:
            continue
        for guarantee in GUARANTEES:
            found = compare(data, guarantee, runs)
            (warned if found.warnings else silent).append(found.ratio)
            yield (
                f"| {data.name} | {len(data.records)} | {data.manifold.dim} | "
                f"{found.spread:.3g} | {guarantee} | {found.planned:.3g} | "
                f"{found.measured:.3g} | {found.ratio:.2f} | "
                f"{found.ratio_error:.2f} | {found.warnings} |"
            )
    for name, ratios in (("without", silent), ("with", warned)):
        off = np.abs(np.log(ratios))
        yield ""
        yield (
            f"{len(ratios)} cases {name} a warning: {np.sum(off <= np.log(1.5))} within "
            f"1.5 times, {np.sum(off <= np.log(3))} within 3 times"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("CURVEDP_DATA"))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default="", help="part of a data set's name")
    given = parser.parse_args()
    if given.data_dir is None:
        parser.error("name the data folder: --data-dir or CURVEDP_DATA")
    for line in table(Path(given.data_dir), given.runs, given.only):
        print(line, flush=True)


if __name__ == "__main__":
    main()
