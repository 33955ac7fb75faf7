"""Coverage of confidence regions, type-I error and power of the private two-sample test.

Run: python -m benchmarks.inference [--runs 10000]
"""

import argparse
from typing import Any

import numpy as np
from scipy.stats import beta

from curvedp import GDP
from curvedp.entropy import GeneratorSource
from curvedp.geometry import Euclidean, Lorentz, Manifold, Rotations, SPDAffineInvariant, Sphere
from curvedp.inference import region_of
from curvedp.inference.kernel import SamplesDistance
from curvedp.inference.permutation import PermutationMechanism
from curvedp.mechanisms.choose import choose_mechanism
from curvedp.mechanisms.statistic import FrechetMean
from curvedp.records.base import open_records

RADIUS = 0.7


def sample(M: Manifold, rng: np.random.Generator, n: int, shift: float = 0.0, spread: float = 0.1) -> np.ndarray:
    """Records about a point at distance `shift` from the origin, almost all in the ball."""
    z = shift / np.sqrt(M.dim) + spread * rng.standard_normal((n, M.dim))
    return np.asarray(M.unchart(M.origin, z))


def coverage(M: Manifold, name: str, n: int, level: float, runs: int) -> tuple[float, float]:
    """(Share of releases whose region holds the mean, mean radius)."""
    mechanism: Any = choose_mechanism(name, FrechetMean(M, None, RADIUS, n), GDP(1.0)).mechanism
    X, source = sample(M, np.random.default_rng(0), n, 0.2), GeneratorSource(np.random.default_rng(1))
    mean = mechanism.statistic.of(open_records(X, M.point_shape))
    data = mean if mechanism.reads == "value" else X
    found = [region_of(mechanism.release(data, source=source).certificate, level) for _ in range(runs)]
    return float(np.mean([region.contains(mean) for region in found])), float(np.mean([each.radius for each in found]))


def lower(share: float, runs: int) -> float:
    """Clopper-Pearson, one-sided 95%."""
    hits = round(share * runs)
    return float(beta.ppf(0.05, hits, runs - hits + 1)) if hits else 0.0


def rejections(M: Manifold, n: int, mu: float, shift: float, level: float, runs: int) -> float:
    """Share of tests that reject."""
    mechanism = PermutationMechanism.for_statistic(SamplesDistance(M, None, RADIUS, [n, n]), GDP(mu)).at(level, 99)
    rng, source = np.random.default_rng(2), GeneratorSource(np.random.default_rng(3))
    pairs = ((sample(M, rng, n), sample(M, rng, n, shift)) for _ in range(runs))
    return float(np.mean([mechanism.draw(mechanism.accepted(p), source).integers[0][0] for p in pairs]))


def regions(runs: int) -> None:
    """Every space and mechanism at one n and level."""
    print(f"coverage of 90% regions of the records, n = 25, GDP(1), {runs} runs\n")
    print(f"{'manifold':<26}{'mechanism':<15}{'share':>8}{'lower':>8}{'radius':>9}")
    for M in (Euclidean(3), Sphere(2), Lorentz(3), SPDAffineInvariant(2), Rotations(3)):
        for name in ("gaussian", "laplace", "log-gaussian", "log-laplace", "gradient", "newton"):
            if (M.constant_curvature is None and name in ("gaussian", "laplace", "newton")) or (
                M.constant_curvature == 0 and name == "newton"
            ):
                continue
            share, radius = coverage(M, name, 25, 0.9, runs)
            print(f"{M!r:<26}{name:<15}{share:>8.3f}{lower(share, runs):>8.3f}{radius:>9.4f}", flush=True)


def tests(runs: int) -> None:
    """Type-I error in twenty settings, and power."""
    print(
        f"\nrejections at level 0.05, B = 99, {runs} runs; two standard errors {2 * np.sqrt(0.05 * 0.95 / runs):.3f}\n"
    )
    print(f"{'manifold':<26}{'n':>5}{'GDP':>7}" + "".join(f"{f'shift {s:g}':>11}" for s in (0.0, 0.05, 0.1, 0.2)))
    for M in (Euclidean(3), Sphere(2), Lorentz(3), SPDAffineInvariant(2), Rotations(3)):
        for n, mu in ((20, 1.0), (100, 1.0), (100, 4.0), (100, 1e6)):
            rates = [rejections(M, n, mu, shift, 0.05, runs) for shift in (0.0, 0.05, 0.1, 0.2)]
            print(f"{M!r:<26}{n:>5}{mu:>7g}" + "".join(f"{rate:>11.3f}" for rate in rates), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    regions(runs)
    tests(runs)


if __name__ == "__main__":
    main()
