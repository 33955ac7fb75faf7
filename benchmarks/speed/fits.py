"""What a fit takes: the first and the next at the same public parameters, beside the plain mean, and without a radius.

    python -m benchmarks.fits

Seconds of processor time over all threads. The first fit of each row has a process of its own, after the imports: the ranking
of the mechanisms depends on public parameters alone and is kept for the second. The floor of a fit is the mean itself.
"""

import gc
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.frechet_mean import wishart
from curvedp import PrivateFrechetMean
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Manifold,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.privacy import GDP, ApproxDP

FIRST = {"S²": Sphere(2), "SPD(3)": SPDAffineInvariant(3), "H¹⁰": Lorentz(10)}
GUARANTEES = {"GDP(1)": GDP(1.0), "(1, 1e-6)": ApproxDP(1.0, 1e-6)}
WITHOUT_RADIUS = {
    "SPD(3)": (SPDAffineInvariant(3), 100_000),
    "SPD(11)": (SPDAffineInvariant(11), 5_000),
    "S²": (Sphere(2), 100_000),
    "ℝ⁵": (Euclidean(5), 100_000),
    "H⁵": (Lorentz(5), 20_000),
}


def records(M: Manifold, n: int, seed: int = 0) -> np.ndarray:
    """Normal coordinates of standard deviation 0.1."""
    z = 0.1 * np.random.default_rng(seed).normal(size=(n, M.dim))
    return np.asarray(M.exp(M.origin, M.from_coordinates(M.origin, z)))


def cpu(call: Callable[[], object]) -> float:
    gc.collect()  # what imports left is not looked through in the midst of a fit, or only of some
    begin = time.process_time()
    call()
    return time.process_time() - begin


def first_and_second(space: str, guarantee: str) -> tuple[float, float]:
    """In this process, whose caches are empty."""
    M, given = FIRST[space], GUARANTEES[guarantee]
    one, other = (
        cpu(lambda X=X: PrivateFrechetMean(M, radius=0.5, guarantee=given).fit(X))
        for X in (records(M, 700), records(M, 700, 1))
    )
    return one, other


def in_a_new_process(space: str, guarantee: str) -> tuple[float, float]:
    line = f"from benchmarks.fits import *; print(*first_and_second({space!r}, {guarantee!r}))"
    out = subprocess.run(
        [sys.executable, "-c", line], check=True, capture_output=True, text=True
    ).stdout.split()
    return float(out[-2]), float(out[-1])


def main(repeats: int = 3) -> None:
    print(
        "700 records, radius 0.5, mechanism 'auto': ms of the first fit (goal 300) and the second (20)"
    )
    for space in FIRST:
        for guarantee in GUARANTEES:
            one, other = np.min(
                [in_a_new_process(space, guarantee) for _ in range(repeats)], axis=0
            )
            print(
                f"  {space:>7} {guarantee:>10} {1e3 * one:6.0f} {1e3 * other:6.0f}",
                flush=True,
            )
    print("10⁶ 3×3 Wishart matrices: a fit over the plain mean (goal 1.5)")
    M, X = SPDAffineInvariant(3), wishart(np.random.default_rng(0), 1_000_000, 3)
    plain = min(cpu(lambda: frechet_mean(M, X)) for _ in range(repeats))
    far = np.asarray(M.dist(M.origin, X))
    for words, radius in (
        ("all inside", 1.01 * float(far.max())),
        ("6% outside", float(np.quantile(far, 0.94))),
    ):
        mean = PrivateFrechetMean(
            M, radius=radius, guarantee=GDP(1.0), mechanism="tangent-gaussian"
        )
        fit = min(cpu(lambda mean=mean: mean.fit(X)) for _ in range(repeats))
        print(
            f"  {words}: {fit:.2f} s over {plain:.2f} s = {fit / plain:.2f}", flush=True
        )
    print(
        "without a radius (outer ball 5) over radius 0.5, 'auto', the second fit of each (goal 2)"
    )
    for space, (M, n) in WITHOUT_RADIUS.items():
        X, both = records(M, n), []
        for radius, outer in (
            ("private", 5.0 if M.convexity_radius > 5 else None),
            (0.5, None),
        ):
            mean = PrivateFrechetMean(
                M, radius=radius, outer_radius=outer, guarantee=GDP(1.0)
            )
            both.append(
                min(
                    [
                        cpu(lambda mean=mean, X=X: mean.fit(X))
                        for _ in range(repeats + 1)
                    ][1:]
                )
            )
        print(
            f"  {space:>7} n={n}: {both[0]:.2f} s over {both[1]:.2f} s = {both[0] / both[1]:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
