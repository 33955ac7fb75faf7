"""Local privacy in figures: time of exact reports, their displacement, error of PrivUnit.

The table of docs/evidence/local.md. The published optimum of PrivUnit (Asi, Feldman &
Talwar 2022) is computed here anew, by a search over both of its parameters that shares
no code with the library.

`python -m benchmarks.local` takes about a minute; `--places 100000` takes less.
"""

import argparse
import math
import os
import time

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betainc, gammaln, kolmogorov

from curvedp.geometry import Euclidean, Sphere
from curvedp.local import Earth, MetricLaplace, PrivUnit, compare_trust
from curvedp.privacy import ApproxDP

# Dimension and ε of the vectors whose mean is estimated.
VECTORS = ((16, 2.0), (64, 4.0), (256, 8.0), (1024, 8.0))
REPORTS = 100_000


def optimal_error(dim: int, epsilon: float) -> float:
    """Return the least 1/m² − 1 of one report over all thresholds and probabilities.

    For the threshold γ, A = P(W ≥ γ) for a coordinate W of a uniform unit vector and
    T = E[W; W ≥ γ], a report that lies in the cap with probability p has
    m = T·(p/A − (1 − p)/(1 − A)). It is ε-private if the two values of its density are
    at most a factor e^ε apart.

    Parameters
    ----------
    dim : int
        The number of coordinates.
    epsilon : float
        ε.
    """
    exponent = (dim - 1) / 2
    log_constant = gammaln(dim / 2) - gammaln((dim + 1) / 2) - math.log(2)
    log_constant -= math.log(math.pi) / 2

    def negative_length(gamma: float) -> float:
        """Return −m for the best p at a threshold."""
        tail = betainc(exponent, 0.5, 1 - gamma * gamma) / 2
        if tail < 1e-300:  # the cap is too small for doubles, and holds no optimum
            return 0.0
        odds = math.exp(epsilon) * tail / (1 - tail)
        p = odds / (1 + odds)
        partial = math.exp(log_constant + exponent * math.log1p(-gamma * gamma))
        return -float(partial * (p / tail - (1 - p) / (1 - tail)))

    grid = np.linspace(0.0, 0.999, 2000)
    best = int(np.argmin([negative_length(gamma) for gamma in grid]))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    result = minimize_scalar(negative_length, bounds=bounds, method="bounded")
    return 1 / result.fun**2 - 1


def world_places(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return uniform places on the Earth, in degrees.

    Parameters
    ----------
    n : int
        How many.
    rng : Generator
        The source of randomness.
    """
    latitudes = np.degrees(np.arcsin(rng.uniform(-1, 1, n)))
    return np.stack([latitudes, rng.uniform(-180, 180, n)], axis=1)


def report_places(n: int) -> None:
    """Print how long n exact reports take, how far they lie, and whether the law fits.

    Parameters
    ----------
    n : int
        How many places.
    """
    rng = np.random.default_rng(41)
    earth = Earth()
    mechanism = MetricLaplace(earth, epsilon=1.0)
    places = world_places(n, rng)
    start, start_cpu = time.perf_counter(), time.process_time()
    reports = mechanism.randomize(places)
    exact, exact_cpu = time.perf_counter() - start, time.process_time() - start_cpu
    start, start_cpu = time.perf_counter(), time.process_time()
    mechanism.simulate(places, rng)
    floats, floats_cpu = time.perf_counter() - start, time.process_time() - start_cpu

    distances = earth.dist(places, reports)
    error = distances.std() / math.sqrt(n)
    # The law of the distance at 1 per km on a sphere of this radius.
    levels = np.sort(mechanism.radial_probability(distances))
    ranks = np.arange(n + 1) / n
    gap = max(np.max(ranks[1:] - levels), np.max(levels - ranks[:-1]))
    print(f"| {n:,} places on Earth, 1 per km | figure |")
    print("|---|---|")
    print(f"| exact reports | {exact:.1f} s (processor {exact_cpu:.1f} s) |")
    print(
        f"| float path, for simulation | {floats:.2f} s (processor {floats_cpu:.2f} s) |"
    )
    print(f"| mean displacement | {distances.mean():.4f} ± {error:.4f} km |")
    print(f"| predicted | {mechanism.expected_displacement:.4f} km |")
    print(f"| Kolmogorov–Smirnov, p | {float(kolmogorov(math.sqrt(n) * gap)):.3f} |")


def estimate_vectors() -> None:
    """Print the measured error of the mean of PrivUnit reports over the optimum.

    Reports are independent, so that the mean squared error of their unbiased mean is
    that of one report over their number. Measured so, it has three digits.
    """
    rng = np.random.default_rng(7)
    print("\n| d | ε | certified ε | error² of the mean | optimum | ratio | exact ms |")
    print("|---|---|---|---|---|---|---|")
    for dim, epsilon in VECTORS:
        mechanism = PrivUnit(dim, epsilon)
        vector = rng.standard_normal(dim)
        X = np.tile(vector / np.linalg.norm(vector), (REPORTS, 1))
        scaled = mechanism.simulate(X, rng) / mechanism.mean_length
        measured = float(np.mean(np.sum((scaled - X) ** 2, axis=1))) / REPORTS
        optimum = optimal_error(dim, epsilon) / REPORTS

        start = time.perf_counter()
        mechanism.randomize(X[:200])
        milliseconds = (time.perf_counter() - start) * 5
        print(
            f"| {dim} | {epsilon:g} | {mechanism.certified_epsilon:.9g} | "
            f"{measured:.3g} | {optimum:.3g} | {measured / optimum:.4f} | "
            f"{milliseconds:.2f} |"
        )


def compare_models() -> None:
    """Print what each model of trust takes for the same questions, at ε = 1, δ = 10⁻⁶."""
    print("\n| question, n = 10,000 | model of trust | mechanism | error | people |")
    print("|---|---|---|---|---|")
    for manifold, radius in ((Sphere(2), 0.5), (Euclidean(3), 1.0)):
        guarantee = ApproxDP(1.0, 1e-6)
        comparison = compare_trust(manifold, 10_000, radius, guarantee, error=0.01)
        for row in comparison.rows:
            print(
                f"| mean on {manifold.name}, ball of {radius:g} | {row.trust.value} | "
                f"`{row.mechanism}` | {row.error:.2g} | {row.people:,} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=1_000_000)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores\n")
    report_places(options.places)
    estimate_vectors()
    compare_models()


if __name__ == "__main__":
    main()
