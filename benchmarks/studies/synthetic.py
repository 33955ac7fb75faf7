"""Synthetic records of five real sets, against noise on flattened coordinates.

    python -m benchmarks.synthetic --data-dir DATA [--runs 3] [--json FILE] [--tool PYTHON]

(or CURVEDP_DATA=DATA; --tool is the python of an environment with dpmm).
For each set and ε = 1 and 4 (δ = 1e-6): the energy distance
between the real records and as many synthetic ones, and the accuracy of an MDM that is
trained on synthetic records and tested on real ones that nobody has seen, beside that
of an MDM trained on the real ones. For the rats' skulls the downstream task is the
slope of a geodesic in log age. All are geodesic distances; the MDM and the slope are
not private, as whoever receives the file would compute them.

The other side is a general tool on flattened coordinates: each coordinate is cut into
bins over its public range, the tool makes synthetic rows of bins, a number is drawn in
each bin, and the rows are projected onto the manifold. With --tool it is MST of dpmm,
which is built on OpenDP (McKenna, Miklau & Sheldon 2021), and AIM for few columns
(McKenna et al. 2022). With and without it, it is noisy counts of the pairs of a tree of
columns, where the tree is chosen on the real data for nothing: MST without the price of
its choices. The best tool and the best of two numbers of bins count, in hindsight.
`docs/evidence/synthetic.md` shows the output.
"""

import argparse
import json
import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import arrays
from curvedp import ApproxDP, PrivateSynthesizer, ReleaseWarning
from curvedp.geometry import (
    KendallShapes,
    Simplex,
    SPDAffineInvariant,
    Sphere,
    Torus,
    frechet_mean,
)
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.vector import smallest_gaussian_scale
from curvedp.regression.fit import fit_geodesic
from curvedp.statistics.energy import squared_energy_distance

EPSILONS = (1.0, 4.0)
DELTA = 1e-6
BINS = (8, 16)
TEST_SHARE = 0.3
# An energy distance is computed of so many records at most.
MOST_COMPARED = 1500
MOST_COMPARED_TENSORS = 500
# MST takes minutes for more columns, and AIM for any.
MOST_TOOL_COLUMNS = 8
MOST_AIM_COLUMNS = 0
# Steps of their inference; by default it makes ten times as many.
TOOL_ITERATIONS = 1000


@dataclass(frozen=True)
class RealSet:
    """Records with labels or a predictor, and what is public about them."""

    name: str
    manifold: Manifold
    records: np.ndarray
    radius: Any
    center: np.ndarray | None
    flatten: Callable[[np.ndarray], np.ndarray]
    restore: Callable[[np.ndarray], np.ndarray]
    column_ranges: np.ndarray
    labels: np.ndarray | None = None
    predictor: np.ndarray | None = None
    x_range: tuple[float, float] | None = None


class Outcome(NamedTuple):
    """What one way of making synthetic records came to; the energy distance is squared."""

    squared_energy: float
    downstream: float


def real_sets(folder: Path) -> list[RealSet]:
    """Return the five sets, and the rats for a slope."""
    return [
        _craters(folder),
        _tensors(folder),
        _apes(folder),
        _rats(folder),
        _angles(folder),
        _microbiome(folder),
    ]


def _boxes(size: int, low: float, high: float) -> np.ndarray:
    return np.tile([low, high], (size, 1)).astype(float)


def _craters(folder: Path) -> RealSet:
    table = np.genfromtxt(
        folder / "craters_s2.csv",
        delimiter=",",
        names=True,
        dtype=None,
        encoding="utf-8",
    )
    latitude, longitude = table["phi"], table["theta"]
    points = np.stack(
        [
            np.cos(latitude) * np.cos(longitude),
            np.cos(latitude) * np.sin(longitude),
            np.sin(latitude),
        ],
        axis=-1,
    )
    sphere = Sphere(2)
    labels = np.where(table["target_type"] == "Planet", "planet", "other")
    return RealSet("craters, S2", sphere, points, pi, np.array([1.0, 0, 0]), lambda X: X,
                   lambda F: np.asarray(sphere.project(F)), _boxes(3, -1, 1), labels)  # fmt: skip


def _tensors(folder: Path) -> RealSet:
    table = arrays(folder / "dti_dipy.npz")
    first, second = table["small_64D_tensor"], table["small_101D_tensor"]
    records = 1e3 * np.concatenate([first, second])
    labels = np.repeat(["64D", "101D"], [len(first), len(second)])
    space = SPDAffineInvariant(3)
    upper = np.triu_indices(3)

    def restore(columns: np.ndarray) -> np.ndarray:
        matrices = np.zeros((len(columns), 3, 3))
        matrices[:, upper[0], upper[1]] = columns
        matrices[:, upper[1], upper[0]] = columns
        values, vectors = np.linalg.eigh(matrices)
        values = np.maximum(values, 0.02)
        return (vectors * values[:, None, :]) @ vectors.mT

    ranges = np.array(
        [[0.0, 3.5] if i == j else [-1.5, 1.5] for i, j in zip(*upper, strict=True)]
    )
    return RealSet("tensors, SPD(3)", space, records, "private", None,
                   lambda X: X[:, upper[0], upper[1]], restore, ranges, labels)  # fmt: skip


def _shapes(name: str, raw: np.ndarray, **columns: Any) -> RealSet:
    landmarks = np.moveaxis(raw, -1, 0)
    k = landmarks.shape[1]
    space = KendallShapes(k)
    records = np.asarray(space.project(landmarks))
    aligned = _aligned(records, records[0])
    return RealSet(name, space, aligned, "private", None,
                   lambda X: _aligned(X, records[0]).reshape(len(X), -1),
                   lambda F: np.asarray(space.project(F.reshape(len(F), k, 2))),
                   _boxes(2 * k, -0.7, 0.7), **columns)  # fmt: skip


def _aligned(shapes: np.ndarray, template: np.ndarray) -> np.ndarray:
    """Turn each configuration to fit a public template."""
    as_complex = shapes[..., 0] + 1j * shapes[..., 1]
    of_template = template[:, 0] + 1j * template[:, 1]
    turn = np.conj(as_complex @ np.conj(of_template))
    turned = as_complex * (turn / np.abs(turn))[:, None]
    return np.stack([turned.real, turned.imag], axis=-1)


def _apes(folder: Path) -> RealSet:
    table = arrays(folder / "dryden_shapes.npz")
    return _shapes(
        "apes, Kendall(8)", table["apes_x"], labels=_genus(table["apes_group"])
    )


def _genus(groups: np.ndarray) -> np.ndarray:
    return np.array([group[:3] for group in groups])


def _rats(folder: Path) -> RealSet:
    table = arrays(folder / "dryden_shapes.npz")
    age = np.log(table["rats_time"])
    return _shapes(
        "rats, Kendall(8)", table["rats_x"], predictor=age, x_range=(1.5, 5.5)
    )


def _angles(folder: Path) -> RealSet:
    angles = np.genfromtxt(folder / "tim8_torus2.csv", delimiter=",", skip_header=1)
    torus = Torus(2)
    angles = np.asarray(torus.project(angles))
    labels = np.where((angles[:, 1] > -2.0) & (angles[:, 1] < 0.8), "alpha", "other")
    return RealSet("angles, torus", torus, angles, pi * sqrt(2), None, lambda X: X,
                   lambda F: np.asarray(torus.project(F)), _boxes(2, -pi, pi), labels)  # fmt: skip


def _microbiome(folder: Path) -> RealSet:
    table = arrays(folder / "crohn_simplex47.npz")
    counts = table["counts"].astype(float)
    # The order of taxa at the level of families is public knowledge about guts.
    largest = np.argsort(-counts.sum(axis=0))[:5]
    parts = np.column_stack(
        [counts[:, largest], counts.sum(axis=1) - counts[:, largest].sum(axis=1)]
    )
    proportions = parts / parts.sum(axis=1, keepdims=True)

    def restore(columns: np.ndarray) -> np.ndarray:
        inside = np.maximum(columns, 1e-4)
        return inside / inside.sum(axis=1, keepdims=True)

    return RealSet("microbiome, simplex", Simplex(5), proportions, "private", None,
                   lambda X: X, restore, _boxes(6, 0, 1), table["y"])  # fmt: skip


# ---- what is compared ----------------------------------------------------------------


def synthesize(data: RealSet, train: np.ndarray, guarantee: Any, seed: int) -> tuple:
    """Return synthetic points with labels or predictors, by curvedp."""
    labels = None if data.labels is None else data.labels[train]
    predictor = None if data.predictor is None else data.predictor[train]
    classes = None if labels is None else np.unique(data.labels).tolist()
    synthesizer = PrivateSynthesizer(
        data.manifold, radius=data.radius, center=data.center, guarantee=guarantee,
        classes=classes, x_range=data.x_range,
    )  # fmt: skip
    synthesizer.fit(data.records[train], labels, column=predictor)
    drawn = synthesizer.sample(len(train), seed)
    points, column = drawn if isinstance(drawn, tuple) else (drawn, None)
    return points, column, synthesizer


def to_codes(data: RealSet, train: np.ndarray, bins: int) -> tuple[list, list]:
    """Return the flattened columns, with label or predictor, as bins; and their numbers."""
    flat = data.flatten(data.records[train])
    ranges = data.column_ranges
    codes = [_binned(flat[:, j], *ranges[j], bins) for j in range(flat.shape[1])]
    sizes = [bins] * len(codes)
    if data.labels is not None:
        values, label_codes = np.unique(data.labels, return_inverse=True)
        codes.append(label_codes[train])
        sizes.append(len(values))
    if data.predictor is not None:
        codes.append(_binned(data.predictor[train], *data.x_range, bins))
        sizes.append(bins)
    return codes, sizes


def from_codes(data: RealSet, codes: list, bins: int, rng: Any) -> tuple:
    """Return points, and labels or predictors, from bins."""
    n = len(codes[0])
    columns = [
        low + (codes[j] + rng.random(n)) / bins * (high - low)
        for j, (low, high) in enumerate(data.column_ranges)
    ]
    points = data.restore(np.stack(columns, axis=1))
    if data.labels is not None:
        return points, np.unique(data.labels)[codes[-1]]
    low, high = data.x_range
    return points, low + (codes[-1] + rng.random(n)) / bins * (high - low)


def tool_codes(
    python: Path, name: str, codes: list, sizes: list, epsilon: float, seed: int
) -> list:
    """Return synthetic codes by MST or AIM of dpmm, in its own environment."""
    model = {"mst": "MSTGM", "aim": "AIMGM"}[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.npz"
        np.savez(path, codes=np.stack(codes, axis=1))
        worker = f"""
import numpy as np, pandas as pd
from dpmm.models.{name} import {model}
codes = np.load({str(path)!r})["codes"]
names = [f"c{{j}}" for j in range(codes.shape[1])]
model = {model}(epsilon={epsilon}, delta={DELTA}, n_iters={TOOL_ITERATIONS}, n_jobs=1)
model.set_domain(dict(zip(names, {sizes})))
model.set_random_state(np.random.RandomState({seed}))
model.fit(pd.DataFrame(codes, columns=names))
made = model.generate(n_records=len(codes))[names]
np.save({str(path)!r} + ".npy", made.to_numpy().astype(int))
"""
        subprocess.run([python, "-c", worker], check=True, capture_output=True)
        made = np.load(str(path) + ".npy")
    return [np.clip(made[:, j], 0, size - 1) for j, size in enumerate(sizes)]


def tree_codes(codes: list, sizes: list, guarantee: Any, rng: Any) -> list:
    """Return synthetic codes from noisy counts of the pairs of a tree of columns."""
    edges = _spanning_tree(codes, sizes)
    std = sqrt(2) * smallest_gaussian_scale(guarantee) * sqrt(len(edges) + 1)
    n = len(codes[0])
    first = edges[0][0]
    counts = np.bincount(codes[first], minlength=sizes[first])
    root = np.maximum(counts + std * rng.standard_normal(sizes[first]), 0)
    drawn = {first: rng.choice(len(root), n, p=_shares(root))}
    for parent, child in edges:
        table = np.zeros((sizes[parent], sizes[child]))
        np.add.at(table, (codes[parent], codes[child]), 1.0)
        noisy = np.maximum(table + std * rng.standard_normal(table.shape), 0)
        made = np.empty(n, dtype=int)
        for value in range(sizes[parent]):
            rows = drawn[parent] == value
            made[rows] = rng.choice(sizes[child], rows.sum(), p=_shares(noisy[value]))
        drawn[child] = made
    return [drawn[j] for j in range(len(codes))]


def _binned(values: np.ndarray, low: float, high: float, bins: int) -> np.ndarray:
    position = np.floor((values - low) / (high - low) * bins)
    return np.clip(position, 0, bins - 1).astype(int)


def _shares(counts: np.ndarray) -> np.ndarray:
    total = counts.sum()
    return counts / total if total > 0 else np.full(len(counts), 1 / len(counts))


def _spanning_tree(codes: list, sizes: list) -> list[tuple[int, int]]:
    """Return the pairs of columns with the largest mutual information, as a tree."""
    n = len(codes[0])
    count = len(codes)
    information = np.zeros((count, count))
    for i in range(count):
        for j in range(i):
            table = np.zeros((sizes[i], sizes[j]))
            np.add.at(table, (codes[i], codes[j]), 1 / n)
            product = table.sum(1, keepdims=True) * table.sum(0, keepdims=True)
            positive = table > 0
            total = (
                table[positive] * np.log(table[positive] / product[positive])
            ).sum()
            information[i, j] = information[j, i] = total
    inside, edges = [count - 1], []
    while len(inside) < count:
        outside = [j for j in range(count) if j not in inside]
        parent, child = max(
            ((i, j) for i in inside for j in outside), key=lambda e: information[e]
        )
        edges.append((parent, child))
        inside.append(child)
    return edges


def outcome(
    data: RealSet, train: np.ndarray, test: np.ndarray, points: np.ndarray, column: Any
) -> Outcome:
    """Return the squared energy distance, and what is learned downstream."""
    most = MOST_COMPARED
    if isinstance(data.manifold, SPDAffineInvariant | KendallShapes):
        most = MOST_COMPARED_TENSORS
    some = np.random.default_rng(0).permutation(len(train))[:most]
    real = data.records[train][some]
    energy = squared_energy_distance(data.manifold, real, points[:most])
    if data.labels is not None:
        return Outcome(energy, _mdm_accuracy(data, points, column, test))
    return Outcome(energy, _slope_error(data, points, column))


def _mdm_accuracy(
    data: RealSet, points: np.ndarray, labels: np.ndarray, test: np.ndarray
) -> float:
    """Return the balanced accuracy on real test records of an MDM trained on points."""
    classes = np.unique(data.labels)
    known = [c for c in classes if np.sum(labels == c) > 0]
    means = [
        np.asarray(frechet_mean(data.manifold, points[labels == c])) for c in known
    ]
    distances = np.stack(
        [np.asarray(data.manifold.dist(m, data.records[test])) for m in means]
    )
    predicted = np.array(known)[np.argmin(distances, axis=0)]
    truth = data.labels[test]
    return float(np.mean([np.mean(predicted[truth == c] == c) for c in classes]))


def _slope_error(data: RealSet, points: np.ndarray, predictor: np.ndarray) -> float:
    """Return how far the predicted shapes over the range are off, relative to growth."""
    low, high = data.x_range
    unit = (data.predictor - low) / (high - low)
    real = fit_geodesic(data.manifold, unit, data.records)
    synthetic = fit_geodesic(data.manifold, (predictor - low) / (high - low), points)
    grid = np.quantile(unit, [0.1, 0.9])
    ends = [
        np.stack(
            [
                np.asarray(data.manifold.exp(fit.footpoint, t * fit.velocity))
                for t in grid
            ]
        )
        for fit in (real, synthetic)
    ]
    growth = float(data.manifold.dist(*ends[0]))
    return float(abs(float(data.manifold.dist(*ends[1])) - growth) / growth)


def study(
    data: RealSet, epsilon: float, runs: int, python: Path | None
) -> dict[str, Any]:
    """Return the outcomes of all sides, averaged over runs."""
    guarantee = ApproxDP(epsilon, DELTA)
    n_columns = len(data.column_ranges) + 1
    tools = ["tree of pairs"]
    if python is not None and n_columns <= MOST_TOOL_COLUMNS:
        tools.append("mst")
    if python is not None and n_columns <= MOST_AIM_COLUMNS:
        tools.append("aim")
    ours: list[Outcome] = []
    theirs: dict[Any, list[Outcome]] = {(tool, b): [] for tool in tools for b in BINS}
    plain, models, predictions = [], [], []
    for run in range(runs):
        order = np.random.default_rng(run).permutation(len(data.records))
        n_test = int(TEST_SHARE * len(order)) if data.labels is not None else 0
        test, train = order[:n_test], order[n_test:]
        with warnings.catch_warnings(action="ignore", category=ReleaseWarning):
            points, column, synthesizer = synthesize(data, train, guarantee, run)
        models.append(synthesizer.model_)
        predictions.append(synthesizer.predicted_error_)
        ours.append(outcome(data, train, test, points, column))
        for tool, bins in theirs:
            rng = np.random.default_rng(run)
            codes, sizes = to_codes(data, train, bins)
            if tool == "tree of pairs":
                made = tree_codes(codes, sizes, guarantee, rng)
            else:
                assert python is not None
                made = tool_codes(python, tool, codes, sizes, epsilon, run)
            drawn = from_codes(data, made, bins, rng)
            theirs[tool, bins].append(outcome(data, train, test, *drawn))
        if data.labels is not None:
            plain.append(
                _mdm_accuracy(data, data.records[train], data.labels[train], test)
            )
    best = min(theirs, key=lambda key: energy_of(theirs[key]))
    # The tool whose synthetic records serve best downstream may be another one.
    is_error = data.labels is None
    downstream = [
        np.mean([each.downstream for each in part]) for part in theirs.values()
    ]
    return {
        "set": data.name, "n": len(train), "epsilon": epsilon, "models": models,
        "predicted": float(np.mean(predictions)), "energy": energy_of(ours),
        "energy_tool": energy_of(theirs[best]), "tool": f"{best[0]} {best[1]}",
        "resolution": max(resolution_of(ours), resolution_of(theirs[best])),
        "downstream": float(np.mean([each.downstream for each in ours])),
        "downstream_tool": float(min(downstream) if is_error else max(downstream)),
        "downstream_real": float(np.mean(plain)) if plain else 0.0,
    }  # fmt: skip


def energy_of(outcomes: list[Outcome]) -> float:
    """Return the root mean squared energy distance, 0 where its estimate is below 0."""
    return sqrt(max(float(np.mean([each.squared_energy for each in outcomes])), 0.0))


def resolution_of(outcomes: list[Outcome]) -> float:
    """Return the root of the standard error of the mean squared energy distance."""
    squares = [each.squared_energy for each in outcomes]
    return sqrt(float(np.std(squares)) / sqrt(len(squares)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("CURVEDP_DATA"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--tool", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.data_dir is None:
        parser.error("give --data-dir, or set CURVEDP_DATA")
    rows = []
    print(
        f"{'set':20} {'n':>5}  ε  {'model':16} predicted  energy    tool"
        f"{'':14} ratio  downstream   tool   real"
    )
    for data in real_sets(Path(options.data_dir)):
        if options.only not in data.name:
            continue
        for epsilon in EPSILONS:
            row = study(data, epsilon, options.runs, options.tool)
            rows.append(row)
            ratio = "    -"
            if min(row["energy"], row["energy_tool"]) > row["resolution"]:
                ratio = f"{row['energy_tool'] / row['energy']:5.1f}"
            models = "/".join(sorted(set(row["models"])))
            print(
                f"{row['set']:20} {row['n']:5} {epsilon:2.0f}  {models:16} "
                f"{row['predicted']:9.3f}  {row['energy']:6.3f}  "
                f"{row['energy_tool']:6.3f} {row['tool']:16} {ratio}  "
                f"{row['downstream']:10.3f}  {row['downstream_tool']:5.3f}  "
                f"{row['downstream_real']:5.3f}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
