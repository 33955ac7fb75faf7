"""How many trials does a private classifier of many channels need? Real EEG backgrounds, simulated sources.

    python -m benchmarks.high_dimension --data-dir DATA          (or CURVEDP_DATA=DATA python -m benchmarks.high_dimension)

A trial is 200 samples of a Gaussian background whose covariance is that of a random real 2-second window (32 channels), and
one of four sources, by its class, in the span of the background's components `first` to `first + 6`. Four-fold, new noise in
every fold; labels are private but in the rows that say otherwise. docs/howto/high-dimensional-covariances.md shows
the output.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import arrays
from curvedp import GDP, PrivateMDM, PrivateSoftmax
from curvedp.geometry import SPDAffineInvariant, SPDLogEuclidean, frechet_mean
from curvedp.randomness import GeneratorSource

CHANNELS, SAMPLES, TRIALS, SPACE = 32, 200, 216, SPDAffineInvariant(32)
MUS = (0.5, 1.0, 2.0, 4.0)
METHODS: dict[str, Callable[..., Any]] = {
    "reduce=6, power, class means": lambda **o: PrivateMDM(SPACE, reduce=6, **o),
    "reduce=6, log, class means": lambda **o: PrivateMDM(
        SPACE, reduce=6, features="log", **o
    ),
    "reduce=8, power, softmax": lambda **o: PrivateSoftmax(SPACE, **o),
    "reduce=12, power, softmax": lambda **o: PrivateSoftmax(SPACE, reduce=12, **o),
    "reduce=8, log, softmax": lambda **o: PrivateSoftmax(SPACE, features="log", **o),
}


def trials(
    windows: np.ndarray,
    rng: np.random.Generator,
    n: int,
    strength: float,
    first: int = 0,
) -> tuple[Any, Any]:
    """(covariances in V², classes)."""
    w, V = np.linalg.eigh(windows.mean(axis=0))
    leading = (V[:, ::-1] * np.sqrt(w[::-1]))[:, first : first + 6]
    sources = (
        leading @ np.linalg.qr(np.random.default_rng(7).normal(size=(6, 6)))[0][:, :4]
    )
    y = rng.integers(4, size=n)
    background = np.linalg.cholesky(
        windows[rng.integers(len(windows), size=n)]
    ) @ rng.normal(size=(n, CHANNELS, SAMPLES))
    amplitude = (
        strength
        * np.exp(0.25 * rng.normal(size=(n, 1)))
        * rng.normal(size=(n, SAMPLES))
    )
    signals = 1e-6 * (background + sources[:, y].T[:, :, None] * amplitude[:, None, :])
    return signals @ signals.mT / SAMPLES, y


def accuracy(make: Callable[..., Any], mu: float, sets: list[tuple[Any, Any]]) -> float:
    """On the folds that were left out, over all sets."""
    rng, right = np.random.default_rng(0), []
    for X, y in sets:
        for fold in range(4):
            out = np.arange(len(X)) % 4 == fold
            model = make(guarantee=GDP(mu), source=GeneratorSource(rng)).fit(
                X[~out], y[~out]
            )
            right.append(model.score(X[out], y[out]))
    return float(np.mean(right))


def whole_matrices(windows: np.ndarray) -> Callable[..., Any]:
    """All 528 coordinates about a public template, in a ball chosen by hand; labels are public."""
    space = SPDLogEuclidean(CHANNELS)
    template = 2e-12 * np.asarray(frechet_mean(space, windows[:40]))
    return lambda **o: PrivateMDM(
        space, radius=8.0, center=template, mechanism="tangent-gaussian", **o
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("CURVEDP_DATA"))
    parser.add_argument("--sets", type=int, default=6)
    options = parser.parse_args()
    if options.data_dir is None:
        parser.error("name the data folder: --data-dir or CURVEDP_DATA")
    windows = arrays(options.data_dir / "eeg_eeglab_cov.npz")["windows2s_cov"]

    def sets(n: int, strength: float, first: int = 0) -> list[tuple[Any, Any]]:
        return [
            trials(windows, np.random.default_rng(seed), n, strength, first)
            for seed in range(options.sets)
        ]

    strong = sets(TRIALS, 2.0)
    print(
        f"| {TRIALS * 3 // 4} training trials, strong sources | {' | '.join(f'μ={mu:g}' for mu in MUS)} | μ=1000 |"
    )
    print("|---" * (2 + len(MUS)) + "|")
    for name, make in {
        **METHODS,
        "whole matrices, public labels": whole_matrices(windows),
    }.items():
        found = [f"{accuracy(make, mu, strong):.2f}" for mu in (*MUS, 1000.0)]
        print(f"| {name} | {' | '.join(found)} |", flush=True)
    print(
        "\n| reduce=8, power, softmax, μ=1 | n=108 | 216 | 432 | 864 |\n|---|---|---|---|---|"
    )
    for name, strength, first in (
        ("strong", 2.0, 0),
        ("half as strong", 1.0, 0),
        ("weak (components 9-14)", 2.0, 9),
    ):
        softmax = METHODS["reduce=8, power, softmax"]
        found = [
            f"{accuracy(softmax, 1.0, sets(n, strength, first)):.2f}"
            for n in (108, 216, 432, 864)
        ]
        print(f"| {name} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
