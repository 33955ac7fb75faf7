"""How often regions hold the truth, how often tests err, and how much they find: the tables of docs/evidence/coverage.md.

    python -m benchmarks.coverage [--runs 10000] [--data-dir DATA] [--only regions|levels|power]

Regions: the law's draws against the region that a public release gives, whose size does not depend on the draw where it is
exact; conservative ones are built anew for each draw; and a sub-sample goes through the whole public path. Power is compared
with (a) the test without noise, (b) dpMMD (Kim & Schrab 2023: Laplace noise on every permuted MMD, written anew) on tangent
vectors, with the public bandwidth of its authors' program, exp(−|x − y|²/d), (b') the same with the median distance of the
data, which nobody has paid for, and (c) the ordinary test on tangent vectors that each have noise of their own. (b) and (c)
know pure ε only: for GDP(μ) they get the largest ε that implies it.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import beta, kstest, laplace, norm

from benchmarks import arrays
from curvedp import GDP, PureDP
from curvedp.core.chart import GRID
from curvedp.errors import CurvedpError
from curvedp.geometry import (
    Correlation,
    Euclidean,
    Grassmann,
    HPDAffineInvariant,
    KendallShapes,
    Lorentz,
    Manifold,
    PoincareBall,
    Product,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
    SpecialEuclidean,
    Sphere,
    Stiefel,
    Torus,
)
from curvedp.geometry.ball import ball_coordinates
from curvedp.geometry.capabilities import canonical_center, move_to_origin
from curvedp.inference import region_of
from curvedp.inference.kernel import SamplesDistance
from curvedp.inference.permutation import PermutationMechanism
from curvedp.inference.shapes import SHAPES, noise_quantiles
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.mechanisms.knorm_gradient import pure_epsilon
from curvedp.randomness import GeneratorSource
from curvedp.records.base import open_records
from curvedp.release.choose import choose_mechanism
from curvedp.statistics.frechet_mean import FrechetMean

RADIUS, SIZES, LEVELS = 0.7, (20, 100, 1000), (0.9, 0.95, 0.99)
SPACES = (
    Euclidean(3),
    Sphere(2),
    Sphere(5),
    Lorentz(3),
    SPDAffineInvariant(2),
    SPDLogEuclidean(3),
    Rotations(3),
)
SPACES += (Torus(2), Simplex(3))
FURTHER = (
    PoincareBall(2),
    SPDLogCholesky(2),
    Grassmann(4, 2),
    KendallShapes(5),
    Correlation(3),
    SpecialEuclidean(2),
)
FURTHER += (
    HPDAffineInvariant(2),
    Stiefel(4, 2),
    SPDBuresWasserstein(2),
    Product(Sphere(2), Euclidean(2)),
)
MECHANISMS = (
    "gaussian",
    "laplace",
    "tangent-gaussian",
    "tangent-laplace",
    "gradient",
    "newton",
)
SETTINGS = [
    (n, asked) for asked in (GDP(1.0), PureDP(1.0)) for n in (25, 50, 100, 200)
]  # records of each sample
BUILT, THROUGH, NEWTON = (
    1000,
    40,
    2000,
)  # conservative regions that are built; releases through the public path


def sample(
    M: Manifold,
    rng: np.random.Generator,
    n: int,
    shift: float = 0.0,
    spread: float = 0.1,
) -> np.ndarray:
    """Records about a point at distance `shift` from the origin, almost all in the ball."""
    z = shift / np.sqrt(M.dim) + spread * rng.standard_normal((n, M.dim))
    return np.asarray(M.from_normal_coordinates(M.origin, z))


def radius_of(M: Manifold) -> float:
    """The public radius: smaller where means are unique only in smaller balls."""
    return (
        min(RADIUS, 0.57 * M.convexity_radius) or RADIUS
    )  # where there is no convexity radius, regions are refused


def lower(hits: int, runs: int) -> float:
    """Clopper-Pearson, one-sided 95%."""
    return float(beta.ppf(0.05, hits, runs - hits + 1)) if hits else 0.0


def drawn_coverage(
    mechanism: Any, mean: np.ndarray, X: np.ndarray, level: float, runs: int
) -> tuple[int, int]:
    """(Hits, runs) of the law's own draws."""
    rng, source = np.random.default_rng(2), GeneratorSource(np.random.default_rng(1))
    data = mean if mechanism.info.reads == "value" else X
    release = mechanism.release(data, source=source)
    region = region_of(release.certificate, level)
    reading, M = (
        mechanism.recorded_draw(release.certificate.release["integers"]),
        mechanism.manifold,
    )
    if reading.kind == "point":
        return int(
            np.sum(
                M.dist(mean, mechanism.simulate_draws(rng, mean, runs)) <= region.radius
            )
        ), runs
    if reading.kind == "chart":
        z = ball_coordinates(M, reading.base, reading.max_length, mean)
        away = np.linalg.norm(
            IsotropicMechanism.simulate_draws(mechanism, rng, z, runs) - z, axis=-1
        )
        return int(np.sum(away <= region.within.quantile)), runs
    gradient = ball_coordinates(M, *mechanism.statistic.ball, X).mean(
        axis=0
    )  # what is not released
    noise = reading.law.scale * rng.standard_normal((runs, M.dim))
    if M.curvature_bounds == (0.0, 0.0):
        return int(np.sum(np.linalg.norm(noise, axis=1) <= region.radius)), runs
    [q] = noise_quantiles(reading, [level])
    shapes = [
        SHAPES["gradient"](
            M, mechanism.statistic, reading._replace(value=gradient + e), q, 0.0
        )
        for e in noise[:BUILT]
    ]
    return sum(
        float(M.dist(shape.center(M), mean)) <= shape.radius for shape in shapes
    ), BUILT


def released_coverage(
    mechanism: Any, mean: np.ndarray, X: np.ndarray, runs: int
) -> np.ndarray:
    """Hits of so many releases through the public path, by LEVELS."""
    source, data = (
        GeneratorSource(np.random.default_rng(3)),
        mean if mechanism.info.reads == "value" else X,
    )
    truth = mechanism.statistic.to_data_frame(mean[None])[0]
    found = (mechanism.release(data, source=source).certificate for _ in range(runs))
    return np.sum(
        [
            [region_of(each, level).contains(truth) for level in LEVELS]
            for each in found
        ],
        axis=0,
    )


def regions(runs: int) -> None:
    """Every space and mechanism at every n and level: one line each, the worst of its nine lower bounds less the level."""
    print(
        f"{'space':<22}{'mechanism':<14}{'least lower bound - level':>26}{'share at 0.95, n=100':>22}{'public path':>13}"
    )
    for M in SPACES + FURTHER:
        for name in MECHANISMS:
            try:
                line = _line(M, name, runs)
            except CurvedpError as refusal:
                line = f"refused: {str(refusal)[:60]}"
            print(f"{M.name:<22}{name:<14}{line}", flush=True)


def _line(M: Manifold, name: str, runs: int) -> str:
    worst, shown, through = 1.0, 0.0, ""
    for n in SIZES:
        mechanism: Any = choose_mechanism(
            name, FrechetMean(M, None, radius_of(M), n), GDP(1.0)
        ).mechanism
        X = sample(M, np.random.default_rng(0), n, 0.2)
        mean = mechanism.statistic.compute(open_records(X, M.point_shape))
        released = released_coverage(
            mechanism, mean, X, NEWTON if name == "newton" else THROUGH
        )
        through = (
            f"{released[0]}/{THROUGH}" if n == 100 and name != "newton" else through
        )
        for level, seen in zip(LEVELS, released, strict=True):
            hits, total = (
                (seen, NEWTON)
                if name == "newton"
                else drawn_coverage(mechanism, mean, X, level, runs)
            )
            worst = min(worst, lower(hits, total) - level)
            shown = hits / total if (n, level) == (100, 0.95) else shown
    return f"{worst:>+26.4f}{shown:>22.4f}{through:>13}"


def widths() -> None:
    """The radius of the exact chart region against half its diameter, which no ball that holds it can be below."""
    print(f"\n{'space':<22}{'n':>6}{'radius':>10}{'half diameter':>15}{'ratio':>8}")
    for M in SPACES:
        for n in SIZES:
            mechanism: Any = choose_mechanism(
                "tangent-gaussian", FrechetMean(M, None, RADIUS, n), GDP(1.0)
            ).mechanism
            X = sample(M, np.random.default_rng(0), n, 0.2)
            mean = mechanism.statistic.compute(open_records(X, M.point_shape))
            region = region_of(
                mechanism.release(
                    mean, source=GeneratorSource(np.random.default_rng(1))
                ).certificate
            )
            u = np.random.default_rng(4).standard_normal((400, M.dim))
            edge = region.edge(
                np.concatenate([u, -u])
                / np.linalg.norm(np.concatenate([u, u]), axis=1, keepdims=True)
            )
            half = max(float(np.max(M.dist(point, edge))) for point in edge[:100]) / 2
            print(
                f"{M.name:<22}{n:>6}{region.radius:>10.4f}{half:>15.4f}{region.radius / half:>8.3f}",
                flush=True,
            )


# ---- tests -----------------------------------------------------------------------------------------------------------------


def spoiled(X: np.ndarray) -> np.ndarray:
    """Ties, records far outside the ball, and records that are none."""
    X = X.copy()
    X[: len(X) // 2], X[-1], X[-2] = X[0], np.nan, np.inf
    X[-3] *= 100
    return X


def levels(runs: int) -> None:
    """Type-I error in twenty settings, by floats; a sub-sample by the exact draw, whose noise is compared with the law."""
    allowed = 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)
    print(
        f"\nrejections of true hypotheses at level 0.05, B = 59, {runs} runs; at most {allowed:.4f} wanted\n"
    )
    print(
        f"{'space':<22}{'sizes':<14}{'guarantee':<14}{'records':<22}{'share':>8}{f'exact, {THROUGH}':>12}"
    )
    for M in (Euclidean(3), Sphere(2), Lorentz(3), SPDAffineInvariant(2), Rotations(3)):
        for sizes, asked, spoil in (
            ([20, 20], PureDP(1.0), False),
            ([10, 40], GDP(5.0), True),
            ([60, 60], GDP(50.0), True),
            ([15, 20, 25], PureDP(5.0), True),
        ):
            share, few = rejections(M, sizes, asked, runs, spoil=spoil)
            kind = "ties, clipped, none" if spoil else "as they are"
            print(
                f"{M.name:<22}{'+'.join(map(str, sizes)):<14}{asked!s:<14}{kind:<22}{share:>8.4f}{few:>12d}",
                flush=True,
            )
    for asked in (GDP(1.0), PureDP(1.0)):
        print(
            f"{asked!s}: exact noise against the law, Kolmogorov-Smirnov p = {noise_agrees(asked):.3f}"
        )


def rejections(
    M: Manifold, sizes: list[int], asked: Any, runs: int, *, spoil: bool
) -> tuple[float, int]:
    """Share of tests that reject where all samples are from one law, and how many of the first by the exact draw."""
    mechanism = PermutationMechanism.calibrate(
        SamplesDistance(M, None, RADIUS, sizes), asked
    ).at_level(0.05, 59)
    rng, source, found, few = (
        np.random.default_rng(2),
        GeneratorSource(np.random.default_rng(3)),
        [],
        0,
    )
    for run in range(runs):
        pooled = sample(M, rng, sum(sizes))
        pooled = spoiled(pooled)[rng.permutation(len(pooled))] if spoil else pooled
        z = mechanism.prepare_data(np.split(pooled, np.cumsum(sizes)[:-1]))
        found.append(mechanism.simulate_decision(rng, z))
        few += int(mechanism.draw(z, source).integers[0][0]) if run < THROUGH else 0
    return float(np.mean(found)), few


def noise_agrees(asked: Any) -> float:
    """p-value of the exact noise, on the grid, against the float law that `simulate` draws."""
    mechanism = PermutationMechanism.calibrate(
        SamplesDistance(Euclidean(3), None, RADIUS, [10, 40]), asked
    )
    drawn, _ = mechanism._add_noise(
        np.zeros(2000), GeneratorSource(np.random.default_rng(4))
    )
    law = norm if mechanism.noise == "gaussian" else laplace
    return float(
        kstest(np.array(drawn) / 2.0**GRID, law(scale=mechanism.scale).cdf).pvalue
    )


def permutation(
    kernel: np.ndarray,
    n: int,
    noise: Any,
    rng: np.random.Generator,
    B: int = 199,
    level: float = 0.05,
) -> bool:
    """Whether the MMD of the first n against the rest is among the largest of its permutations, all with noise."""
    N = len(kernel)
    own = np.repeat([1 / n, -1 / (N - n)], [n, N - n])
    weights = np.concatenate([own[None], own[np.argsort(rng.random((B, N)), axis=1)]])
    values = np.sqrt(
        np.maximum(np.sum((weights @ kernel) * weights, axis=1), 0.0)
    ) + noise(B + 1)
    return bool(1 + np.sum(values[1:] >= values[0]) <= level * (B + 1))


def gaussian_kernel(z: np.ndarray, bandwidth: float | None = None) -> np.ndarray:
    """Of tangent vectors; by default with the median distance of the data."""
    distances = pdist(z)
    width = float(np.median(distances)) if bandwidth is None else bandwidth
    return np.asarray(
        squareform(np.exp(-((distances / width) ** 2) / 2)) + np.eye(len(z))
    )


def powers(
    z: np.ndarray,
    n: int,
    radius: float,
    asked: Any,
    mechanism: Any,
    rng: np.random.Generator,
) -> list[bool]:
    """Ours, without noise, dpMMD, and noise on each tangent vector, on one data set; ours by its own float law."""
    moved, eps = np.sqrt(2) / min(n, len(z) - n), pure_epsilon(asked)
    factor = np.sqrt(n * (len(z) - n)) / len(z)  # of our statistic against the MMD
    laws = {"gaussian": rng.normal, "laplace": rng.laplace}
    ours = permutation(
        mechanism.statistic.kernel(z),
        n,
        lambda k: laws[mechanism.noise](0, mechanism.scale / factor, k),
        rng,
    )
    free = permutation(mechanism.statistic.kernel(z), n, lambda k: 0.0, rng)
    theirs = [
        permutation(
            gaussian_kernel(z, width),
            n,
            lambda k: rng.laplace(0, 2 * moved / eps, k),
            rng,
        )
        for width in (np.sqrt(z.shape[1] / 2), None)
    ]
    noisy = z + _laplace_vectors(rng, z.shape, 2 * radius / eps)
    return [
        ours,
        free,
        *theirs,
        permutation(gaussian_kernel(noisy), n, lambda k: 0.0, rng),
    ]


def _laplace_vectors(
    rng: np.random.Generator, shape: tuple[int, ...], scale: float
) -> np.ndarray:
    """Density exp(−|v|/scale): each record is its own release, of sensitivity 2r."""
    u = rng.standard_normal(shape)
    length = rng.gamma(shape[1], scale, (shape[0], 1))
    return np.asarray(u / np.linalg.norm(u, axis=1, keepdims=True) * length)


def real_data(
    folder: Path,
) -> Iterator[tuple[str, Manifold, np.ndarray, np.ndarray, np.ndarray, float, float]]:
    """(what, space, one population, the other, public center, public radius, share of the one mixed into the other)."""
    storms = arrays(folder / "hurdat2_AL.npz")
    first = np.unique(storms["key"], return_index=True)[1]
    lat, lon = np.radians(storms["lat"][first]), np.radians(storms["lon"][first])
    X = np.stack(
        [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1
    )
    year = np.array([int(str(key)[-4:]) for key in storms["key"][first]])
    center = np.array(
        [0.5 * np.cos(0.4), -np.sqrt(0.75) * np.cos(0.4), np.sin(0.4)]
    )  # 23°N 60°W
    yield (
        "storms' first places, before and from 1960",
        Sphere(2),
        X[year < 1960],
        X[year >= 1960],
        center,
        0.75,
        0.0,
    )
    images = arrays(folder / "pathmnist_adi_back_train.npz")
    label = np.asarray(
        next(images[key] for key in images if "label" in key or key == "y")
    ).ravel()
    pixels = np.asarray(next(images[key] for key in images if images[key].ndim == 4))
    some = np.concatenate(
        [np.flatnonzero(label == value)[:600] for value in np.unique(label)[:2]]
    )
    C, M = np.stack([_covariance(each) for each in pixels[some]]), SPDAffineInvariant(3)
    yield "colors of two tissues", M, C[:600], C[600:], np.diag([0.01] * 3), 4.0, 0.8


def _covariance(image: np.ndarray) -> np.ndarray:
    return np.cov(image.reshape(-1, 3).T / 255.0) + 1e-4 * np.eye(3)


def power(runs: int, folder: Path) -> None:
    """Power curves at equal ε, by the number of records."""
    for what, M, one, other, center, radius, mixed in real_data(folder):
        print(
            f"\n{what}, {100 * mixed:g}% mixed; {M.name}, radius {radius:g}, level 0.05"
        )
        print(f"{runs} runs; standard error {0.5 / np.sqrt(runs):.3f}\n")
        print(
            f"{'n':>6}  {'guarantee':<13}{'ours':>8}{'(a) no noise':>14}{'(b) dpMMD':>11}{'unpaid':>13}{'(c) vectors':>13}"
        )
        home = np.asarray(canonical_center(M, center))
        first, second = (
            np.asarray(
                ball_coordinates(
                    M, home, radius, np.asarray(move_to_origin(M, center, part))
                )
            )
            for part in (one, other)
        )
        rng = np.random.default_rng(5)
        for n, asked in SETTINGS:
            statistic = SamplesDistance(M, center, radius, [n, n])
            mechanism = PermutationMechanism.calibrate(statistic, asked).at_level(
                0.05, 199
            )
            found = []
            for _ in range(runs):
                X, Y = (
                    first[rng.choice(len(first), n, replace=False)],
                    second[rng.choice(len(second), n, replace=False)],
                )
                from_first = rng.random(n) < mixed
                Y[from_first] = first[rng.choice(len(first), int(from_first.sum()))]
                found.append(
                    powers(np.concatenate([X, Y]), n, radius, asked, mechanism, rng)
                )
            shares = np.mean(found, axis=0)
            row = "".join(
                f"{share:>{width}.3f}"
                for share, width in zip(shares, (8, 14, 11, 13, 13), strict=True)
            )
            print(f"{n:>6}  {asked!s:<13}{row}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", choices=("regions", "levels", "power"))
    given = parser.parse_args()
    if given.only in (None, "regions"):
        regions(given.runs)
        widths()
    if given.only in (None, "levels"):
        levels(min(given.runs, 1000))
    if given.only in (None, "power"):
        power(min(given.runs, 1000), given.data_dir)


if __name__ == "__main__":
    main()
