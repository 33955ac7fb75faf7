"""What not knowing a radius costs, what persons gain, and CoinPress on flat space.

    python -m benchmarks.utility_private --data-dir DATA        (or CURVEDP_DATA=DATA python -m benchmarks.utility_private)

docs/evidence/utility-private.md says what each table is and shows the output. Distances are to the
Fréchet mean of the records as they are, outside every ball or not:
what a ball cuts off counts as error, for all columns alike.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from itertools import chain
from math import inf, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import arrays
from benchmarks.coinpress import coinpress_mean
from benchmarks.utility import Study, held_out, studies
from curvedp.core.statistic import Ball
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
    project_to_ball,
)
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.privacy import GDP, PureDP
from curvedp.records.persons import person_means
from curvedp.release.choose import choose_mechanism
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.searched_ball import SearchedMean

RUNS, MUS = 30, (1.0, 0.25)


class Errors(NamedTuple):
    """Distances to the true mean over many releases."""

    mean: float
    high: float  # 95th percentile

    @classmethod
    def of(
        cls, manifold: Manifold, truth: np.ndarray, released: np.ndarray
    ) -> "Errors":
        distances = np.asarray(manifold.dist(truth, released))
        return cls(float(distances.mean()), float(np.quantile(distances, 0.95)))


def given_ball(
    M: Manifold,
    X: np.ndarray,
    ball: Ball,
    mu: float,
    runs: int,
    seed: int = 0,
    kind: Any = GDP,
) -> np.ndarray:
    """Releases by `auto` in a ball chosen by hand, by the float path."""
    mechanism: Any = choose_mechanism(
        "auto", FrechetMean(M, *ball, len(X)), kind(mu)
    ).mechanism
    about = mechanism.statistic.clip_records(X)
    if mechanism.info.reads == "value":
        about = np.asarray(frechet_mean(M, about))
    released = mechanism.simulate(np.random.default_rng(seed), about, runs)
    return np.asarray(mechanism.statistic.to_data_frame(released))


def private_ball(
    M: Manifold,
    X: np.ndarray,
    outer: Ball,
    mu: float,
    runs: int,
    seed: int = 0,
    kind: Any = GDP,
) -> np.ndarray:
    """Releases with `radius="private"` in an outer ball, by the float path."""
    mechanism = PrivateBallMechanism.calibrate(
        SearchedMean(M, *outer, len(X)), kind(mu)
    )
    inside = np.asarray(project_to_ball(M, *outer, X))
    return mechanism.simulate(np.random.default_rng(seed), inside, runs)


def widest(M: Manifold, radius: float) -> float:
    """Ten times the radius, or the largest ball in which a mean by a given radius is offered."""
    upper = M.curvature_bounds[1]
    limit = (
        inf
        if upper <= 0
        else 0.99 * min(M.injectivity_radius / 2, np.pi / (2 * sqrt(upper)))
    )
    return min(
        10 * radius,
        limit,
        M.float_set.max_distance if hasattr(M, "float_reach") else inf,
    )


# --- 1. the 28 cases ---


def cases(folder: Path, runs: int, only: str, kind: Any = GDP) -> Iterator[str]:
    """A row a case; the last rows have the geometric means and the worst where nμ >= 40, or nε >= 200."""
    letter, least = ("ε", 200) if kind is PureDP else ("μ", 40)
    ratios: list[tuple[float, float, float]] = []
    yield f"| case | n{letter} | hand | cautious | **private** | private/hand | private/cautious | 95% | "
    yield "|---|---|---|---|---|---|---|---|"
    for study in chain(studies(folder), held_out(folder)):
        if only in study.name:
            for mu in MUS:
                row, ratio = case(study, mu, runs, kind)
                if len(study.records) * mu >= least:
                    ratios.append(ratio)
                yield row
    means = [
        f"{np.exp(np.mean(np.log(column))):.2f}" for column in zip(*ratios, strict=True)
    ]
    worst = [f"{max(column):.2f}" for column in zip(*ratios, strict=True)]
    yield f"| **geometric mean, n{letter} ≥ {least}** | | | | | {' | '.join(means)} |"
    yield f"| **worst, n{letter} ≥ {least}** | | | | | {' | '.join(worst)} |"


def case(
    study: Study, mu: float, runs: int, kind: Any
) -> tuple[str, tuple[float, float, float]]:
    """(row, (÷ hand, ÷ cautious, 95th percentile ÷ hand's))."""
    M, X, ball = study.manifold, study.records, study.ball
    truth, runs = (
        np.asarray(frechet_mean(M, X)),
        4 * runs if M.dim < 3 else runs if M.dim <= 100 else 2 * runs // 3,
    )
    hand = Errors.of(M, truth, given_ball(M, X, ball, mu, runs, kind=kind))
    try:
        wide = Ball(ball.center, widest(M, ball.radius))
        cautious = Errors.of(M, truth, given_ball(M, X, wide, mu, runs, kind=kind))
    except ValueError:  # no mechanism in so wide a ball
        cautious = Errors(inf, inf)
    private = Errors.of(
        M,
        truth,
        private_ball(M, X, Ball(ball.center, 10 * ball.radius), mu, runs, kind=kind),
    )
    ratio = (
        private.mean / hand.mean,
        private.mean / cautious.mean,
        private.high / hand.high,
    )
    numbers = [f"{part.mean:.3g}" for part in (hand, cautious, private)] + [
        f"{part:.2f}" for part in ratio
    ]
    return (
        f"| {study.name}, {'ε' if kind is PureDP else 'μ'}={mu:g} | {len(X) * mu:g} | {' | '.join(numbers)} |",
        ratio,
    )


# --- 2. failures ---


def failures(runs: int) -> Iterator[str]:
    """Against a ball of twice the spread about the true center, which nobody has."""
    yield (
        "| space | dim | "
        + " | ".join(f"n={n}, μ={mu:g}" for n in (25, 50, 100, 400) for mu in MUS)
        + " |"
    )
    yield "|---" * 10 + "|"
    for M in (
        Sphere(2),
        Euclidean(3),
        Lorentz(3),
        Euclidean(50),
        *map(SPDAffineInvariant, (2, 3, 8)),
    ):
        found = [failure(M, n, mu, runs) for n in (25, 50, 100, 400) for mu in MUS]
        yield f"| {M} | {M.dim} | {' | '.join(found)} |"


def failure(M: Manifold, n: int, mu: float, runs: int) -> str:
    """The ratio; in parentheses where a release would be warned of."""
    rng, spread = np.random.default_rng(n), 0.3
    X = np.asarray(
        M.from_normal_coordinates(
            M.origin, rng.normal(size=(n, M.dim)) * spread / sqrt(M.dim)
        )
    )
    truth = np.asarray(frechet_mean(M, X))
    outer = SearchedMean(M, None, None, n)
    hand = Errors.of(
        M, truth, given_ball(M, X, Ball(M.origin, 2 * spread), mu, runs)
    ).mean
    ratio = (
        Errors.of(M, truth, private_ball(M, X, outer.outer_ball, mu, runs)).mean / hand
    )
    enough = PrivateBallMechanism.calibrate(outer, GDP(mu)).has_enough_records
    return f"{ratio:.2f}" if enough else f"({ratio:.2f})"


# --- 3. units ---

UNITS = (1e-30, 1e-10, 1.0, 3.0, 1e10, 1e30)


def units(runs: int) -> Iterator[str]:
    """The same matrices in other units: mean errors, and what they are over that in the unit of the public center."""
    M, rng = SPDAffineInvariant(3), np.random.default_rng(0)
    yield (
        "| n | spread | "
        + " | ".join(f"× {unit:g}" for unit in UNITS)
        + " | over × 1 |\n"
        + "|---" * 9
        + "|"
    )
    for n, spread in ((60, 0.4), (400, 0.4), (400, 3.0)):
        z = rng.normal(size=(n, M.dim)) * spread / sqrt(M.dim) + 0.1 * rng.normal(
            size=M.dim
        )
        X = np.asarray(M.from_normal_coordinates(M.origin, z))
        outer, truth = (
            SearchedMean(M, None, None, n).outer_ball,
            np.asarray(frechet_mean(M, X)),
        )
        errors = [
            Errors.of(M, u * truth, private_ball(M, u * X, outer, 1.0, runs, k)).mean
            for k, u in enumerate(UNITS)
        ]
        ratios = [error / errors[UNITS.index(1.0)] for error in errors]
        each = " | ".join(f"{error:.4g}" for error in errors)
        yield f"| {n} | {spread:g} | {each} | {min(ratios):.2f} to {max(ratios):.2f} |"


# --- 4. persons ---


def persons(folder: Path, runs: int) -> Iterator[str]:
    """Persons as the unit against group privacy: records as the unit at μ over the largest number of records a person has."""
    yield "| data | persons | records a person | μ | groups | **persons** | ratio |\n|---|---|---|---|---|---|---|"
    for name, M, X, codes in grouped(folder):
        counts = np.bincount(codes)
        for mu in MUS:
            outer = SearchedMean(M, None, None, len(counts)).outer_ball
            means = person_means(M, outer, X, codes)
            one = Errors.of(
                M,
                np.asarray(frechet_mean(M, means)),
                private_ball(M, means, outer, mu, runs),
            ).mean
            fewer = mu / counts.max()
            many = Errors.of(
                M,
                np.asarray(frechet_mean(M, X)),
                private_ball(M, X, outer, fewer, max(runs // 3, 4)),
            ).mean
            sizes = (
                f"{counts.min()}–{counts.max()}"
                if counts.min() < counts.max()
                else f"{counts.max()}"
            )
            yield f"| {name} | {len(counts)} | {sizes} | {mu:g} | {many:.3g} | {one:.3g} | {one / many:.2f} |"


def grouped(folder: Path) -> Iterator[tuple[str, Manifold, np.ndarray, np.ndarray]]:
    """Simulated tensors of patients, and the fixes of storms."""
    M, rng = SPDAffineInvariant(3), np.random.default_rng(0)
    for count in (200, 60):
        about = 0.3 * rng.normal(size=(count, 1, M.dim)) / sqrt(M.dim)
        z = (about + rng.normal(size=(count, 50, M.dim)) / sqrt(M.dim)).reshape(
            -1, M.dim
        )
        yield (
            "simulated SPD(3)",
            M,
            np.asarray(M.from_normal_coordinates(np.eye(3), z)),
            np.repeat(np.arange(count), 50),
        )
    storms = arrays(folder / "hurdat2_AL.npz")
    lat, lon = np.radians(storms["lat"]), np.radians(storms["lon"])
    fixes = np.stack(
        [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1
    )
    known = np.isfinite(fixes).all(axis=1)
    yield (
        "storms",
        Sphere(2),
        fixes[known],
        np.unique(storms["key"][known], return_inverse=True)[1],
    )


# --- 5. flat space ---


def flat(runs: int) -> Iterator[str]:
    """CoinPress with Σ = I: right in the column "given its Σ", over-stated where the spread is 0.05."""
    yield "| d | n | μ | outer radius | ÷ CoinPress given its Σ | ÷ CoinPress, spread over-stated ×20 |"
    yield "|---|---|---|---|---|---|"
    for d, n in ((2, 500), (10, 1000), (50, 2000)):
        for mu in (1.0, 0.5):
            for wide in (10, 1000):
                found = [
                    f"{against(d, n, mu, wide * sqrt(d), spread, runs):.2f}"
                    for spread in (1.0, 0.05)
                ]
                yield f"| {d} | {n} | {mu:g} | {wide}√d | {' | '.join(found)} |"


def against(
    d: int, n: int, mu: float, radius: float, spread: float, runs: int
) -> float:
    """Our mean error over CoinPress's: distances to the population's mean, fresh records in every run."""
    M, rng, errors = Euclidean(d), np.random.default_rng(0), []
    mechanism = PrivateBallMechanism.calibrate(
        SearchedMean(M, np.zeros(d), radius, n), GDP(mu)
    )
    for _ in range(runs):
        center = rng.normal(size=d)
        X = center + spread * rng.normal(size=(n, d))
        ours = mechanism.simulate(rng, X, 1)[0]
        theirs = coinpress_mean(X, np.zeros(d), radius, mu**2 / 2, rng)
        errors.append([np.linalg.norm(ours - center), np.linalg.norm(theirs - center)])
    mine, other = np.mean(errors, axis=0)
    return float(mine / other)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("CURVEDP_DATA"))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument(
        "--only", default="", help="studies of the first table whose name contains this"
    )
    parser.add_argument("--tables", default="cases,pure,failures,units,persons,flat")
    options = parser.parse_args()
    if options.data_dir is None:
        parser.error("name the data folder: --data-dir or CURVEDP_DATA")
    tables: dict[str, Callable[[], Any]] = {
        "cases": lambda: cases(options.data_dir, options.runs, options.only),
        "pure": lambda: cases(options.data_dir, options.runs, options.only, PureDP),
        "failures": lambda: failures(options.runs),
        "units": lambda: units(8 * options.runs),
        "persons": lambda: persons(options.data_dir, options.runs),
        "flat": lambda: flat(2 * options.runs),
    }
    for name in options.tables.split(","):
        print(f"### {name}\n")
        for row in tables[name]():
            print(row, flush=True)
        print()


if __name__ == "__main__":
    main()
