"""How far is the released mean from the true one? Every mechanism at the same guarantee, on real data.

    python -m benchmarks.utility --data-dir DATA          (or CURVEDP_DATA=DATA python -m benchmarks.utility)

docs/evidence/utility.md says what each row is, proves the sensitivities of the ambient rows and shows
the output.
Distances are to the Fréchet mean of the records after they are moved into the public ball, which every mechanism
does first. The column
"in the ball" projects the release onto that ball, as `PrivateFrechetMean` does; the last table compares `auto` with it.
"""

import argparse
import csv
import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from math import exp, pi, sin, sqrt, tan, tanh
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import arrays
from curvedp.core.statistic import Ball
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import (
    Euclidean,
    PoincareBall,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
    project_to_ball,
)
from curvedp.geometry.frechet_mean.error_bound import solver_error
from curvedp.geometry.manifold import Manifold
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.knorm import KNormLaw
from curvedp.mechanisms import (
    GaussianMechanism,
    KNGMechanism,
    LaplaceMechanism,
    frechet_mean_sensitivity,
)
from curvedp.mechanisms.knorm_gradient import pure_epsilon
from curvedp.privacy import GDP
from curvedp.release.choose import ChosenMechanism, choose_mechanism
from curvedp.statistics.frechet_mean import FrechetMean

RUNS = 1000
GUARANTEES = (GDP(1.0), GDP(0.25))


class Study(NamedTuple):
    """Records, and the public ball they are moved into."""

    name: str
    manifold: Manifold
    records: np.ndarray
    ball: Ball


class Row(NamedTuple):
    """Distances to the true mean of many releases by one mechanism: as they are, and projected onto the public ball."""

    mechanism: str
    sensitivity: str
    raw: np.ndarray
    projected: np.ndarray


Sampler = Callable[[np.random.Generator, np.ndarray, int], np.ndarray]


# --- the data, and balls chosen without them (docs/evidence/utility.md) ---


def studies(folder: Path) -> Iterator[Study]:
    """Every data set with its public ball."""
    # Diffusion tensors in units of 1e-3 mm²/s, the order of water's diffusivity in tissue.
    tensors = arrays(folder / "dti_dipy.npz")
    for name in ("small_64D", "small_101D"):
        yield Study(
            f"diffusion tensors {name}",
            SPDAffineInvariant(3),
            tensors[f"{name}_tensor"] / 1e-3,
            Ball(np.eye(3), 2.5),
        )

    windows = arrays(folder / "eeg_eeglab_cov.npz")["windows2s_cov"]
    for channels, radius in ((slice(0, 32, 4), 4.0), (slice(None), 8.0)):
        covariances = windows[:, channels, channels]
        manifold = SPDAffineInvariant(covariances.shape[-1])
        template = np.asarray(frechet_mean(manifold, covariances[:39]))
        lower = np.linalg.inv(np.linalg.cholesky(template))
        whitened = (
            lower @ covariances[39:] @ lower.T
        )  # an isometry that takes the public template to I
        yield Study(
            f"EEG covariances, {manifold.m} channels",
            manifold,
            whitened,
            Ball(np.eye(manifold.m), radius),
        )

    with (folder / "cities_geomstats.csv").open(encoding="utf-8") as file:
        degrees = np.array(
            [[float(city["lat"]), float(city["lng"])] for city in csv.DictReader(file)]
        )
    lat, lon = degrees.T
    asian = (lat > 0) & (lat < 60) & (lon > 60) & (lon < 150)
    yield Study(
        "cities of Asia",
        Sphere(2),
        _on_sphere(degrees[asian]),
        Ball(_on_sphere([25, 100]), 0.7),
    )
    yield Study(
        "cities of the world",
        Sphere(2),
        _on_sphere(degrees),
        Ball(_on_sphere([25, 60]), 1.0),
    )

    storms = arrays(folder / "hurdat2_AL.npz")
    first = np.unique(storms["key"], return_index=True)[
        1
    ]  # one record a storm: where it was first seen
    fixes = np.stack([storms["lat"][first], storms["lon"][first]], axis=-1)
    yield Study(
        "storms, first fixes",
        Sphere(2),
        _on_sphere(fixes),
        Ball(_on_sphere([20, -60]), 0.75),
    )

    lines = (
        (folder / "mammals_poincare2d_drewwilimitis.csv")
        .read_text(encoding="utf-8")
        .splitlines()[1:]
    )
    mammals = np.array([[float(x) for x in line.split()[1:]] for line in lines])
    yield Study(
        "mammals, Poincaré disk", PoincareBall(2), mammals, Ball(np.zeros(2), 10.0)
    )
    embeddings = arrays(folder / "horopca_poincare_embeddings.npz")
    for name, radius in (
        ("bio-diseasome", 8.0),
        ("ca-CSphd", 12.5),
        ("smalltree", 4.0),
    ):
        yield Study(
            f"{name}, Poincaré ball",
            PoincareBall(10),
            embeddings[f"{name}_10"],
            Ball(np.zeros(10), radius),
        )


def held_out(folder: Path) -> Iterator[Study]:
    """Data on which nothing was tried before; the balls were fixed before any result was seen. Of private balls only
    smalltree is held out still: the others were looked at since, while stages were chosen."""
    embeddings = arrays(folder / "horopca_poincare_embeddings.npz")
    for new, name, radius in (
        ("held out: ", "smalltree", 4.0),
        ("", "bio-diseasome", 8.0),
    ):
        yield Study(
            f"{new}{name} d=50",
            PoincareBall(50),
            embeddings[f"{name}_50"],
            Ball(np.zeros(50), radius),
        )
    quakes = np.genfromtxt(
        folder / "earth_quakes_all.csv", delimiter=",", comments="#"
    )[:, :2]
    quakes = quakes[np.isfinite(quakes).all(axis=1)]
    near_japan = (
        (quakes[:, 0] > 20)
        & (quakes[:, 0] < 50)
        & (quakes[:, 1] > 120)
        & (quakes[:, 1] < 160)
    )
    yield Study(
        "earthquakes",
        Sphere(2),
        _on_sphere(quakes[near_japan]),
        Ball(_on_sphere([35, 140]), 0.4),
    )


def _on_sphere(degrees: object) -> np.ndarray:
    lat, lon = np.moveaxis(np.radians(np.asarray(degrees, dtype=np.float64)), -1, 0)
    return np.stack(
        [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1
    )


# --- ambient noise: the sensitivity of the embedded statistic (docs/evidence/utility.md, "Ambient sensitivity") ---


def embedded_sensitivity(manifold: Manifold, ball: Ball, sensitivity: float) -> float:
    """Largest ambient distance between two points of the ball that are at most `sensitivity` apart on the manifold."""
    match manifold:
        case Sphere():
            return 2 * sin(min(sensitivity, pi) / 2)
        case PoincareBall():
            return 2 * tanh(sensitivity / 4)
        case SPDAffineInvariant():
            return (
                sensitivity * float(np.linalg.norm(ball.center, 2)) * exp(ball.radius)
            )
    raise ParameterError(f"no ambient sensitivity is written down for {manifold!r}")


def arithmetic_sensitivity(manifold: Manifold, ball: Ball, n: int) -> float:
    """Largest change of the ambient arithmetic mean: the ambient diameter of the ball (or a bound on it) over n."""
    match manifold:
        case Sphere():
            return 2 * sin(min(ball.radius, pi / 2)) / n
        case PoincareBall() if not ball.center.any():
            return 2 * tanh(ball.radius / 2) / n
        case SPDAffineInvariant():
            largest = float(np.linalg.norm(ball.center, 2)) * _largest_exponential(
                manifold.m, ball.radius
            )
            return sqrt(2) * largest / n
    raise ParameterError(f"no ambient diameter is written down for {manifold!r}")


def _largest_exponential(m: int, radius: float) -> float:
    """max ‖exp V‖_F over ‖V‖_F ≤ radius. At a maximum the eigenvalues solve e^{2v} = λv, which has two roots."""
    angle = np.linspace(0.0, pi / 2, 100_001)
    best = max(
        (
            k * np.exp(2 * radius * np.cos(angle) / sqrt(k))
            + (m - k) * np.exp(2 * radius * np.sin(angle) / sqrt(m - k))
        ).max()
        for k in range(1, m)
    )
    return sqrt(float(best)) * (
        1 + 1e-6
    )  # the grid's error is of second order in its spacing


def ambient(
    manifold: Manifold,
    statistic: np.ndarray,
    sigma: float,
    rng: np.random.Generator,
    runs: int,
) -> np.ndarray:
    """Gaussian noise in the ambient space (of symmetric matrices, for SPD) and the projection onto the manifold."""
    noise = sigma * rng.standard_normal((runs, *manifold.point_shape))
    if isinstance(
        manifold, SPDAffineInvariant
    ):  # variance σ² along every unit vector of the symmetric matrices
        noise = (noise + np.swapaxes(noise, -1, -2)) / sqrt(2)
        noise[:, *np.diag_indices(manifold.m)] /= sqrt(2)
    return np.asarray(manifold.project(statistic + noise))


# --- the rows ---


def rows(study: Study, guarantee: GDP, runs: int, seed: int = 0) -> Iterator[Row]:
    """auto first, then the candidate of ours that is available everywhere, then everything it is compared with."""
    M, ball, n = study.manifold, study.ball, len(study.records)
    inside = np.asarray(project_to_ball(M, *ball, study.records))
    truth = np.asarray(frechet_mean(M, inside))
    rng = np.random.default_rng(seed)

    def row(
        mechanism: str, sensitivity: str, draw: Sampler, rng: np.random.Generator = rng
    ) -> Row:
        released = draw(rng, truth, runs)
        if isinstance(M, SPDAffineInvariant) and M.m > 3:
            return Row(mechanism, sensitivity, *_plain_distances(released, truth, ball))
        projected = project_to_ball(M, *ball, released)
        return Row(
            mechanism,
            sensitivity,
            np.asarray(M.dist(truth, released)),
            np.asarray(M.dist(truth, projected)),
        )

    plan = choose_mechanism("auto", FrechetMean(M, *ball, n), guarantee)
    yield row(f"**auto** = {_named(plan)}", "ours", _as_released(plan, ball, inside))
    chart = choose_mechanism("tangent-gaussian", FrechetMean(M, *ball, n), guarantee)
    yield row(
        "tangent-gaussian, by name",
        "ours",
        _as_released(chart, ball, inside),
        np.random.default_rng(seed + 1),
    )

    eps = pure_epsilon(guarantee)
    for label, sensitivity in sensitivities(M, ball.radius, n).items():
        for name, draw in peers(study, guarantee, sensitivity, eps):
            try:
                yield row(name, label, draw())
            except CurvedpError as error:
                yield Row(
                    f"{name}: {type(error).__name__}",
                    label,
                    np.array([np.inf]),
                    np.array([np.inf]),
                )
    if M.dim <= 4:
        for label, scale in kng_scales(study, guarantee, eps).items():
            yield row(
                "K-norm gradient, ε from μ", label, partial(kng, study, inside, scale)
            )
    sigma = arithmetic_sensitivity(M, ball, n) / guarantee.mu
    mean = inside.mean(axis=0)
    yield row(
        "ambient Gaussian on the arithmetic mean",
        "its own",
        lambda rng, _, runs: ambient(M, mean, sigma, rng, runs),
    )


def _named(choice: ChosenMechanism) -> str:
    steps = getattr(choice.mechanism, "steps", None)
    return choice.mechanism.info.name + (
        f", {steps} step{'s' if steps > 1 else ''}" if steps else ""
    )


def _as_released(choice: ChosenMechanism, ball: Ball, inside: np.ndarray) -> Sampler:
    """What `PrivateFrechetMean` does, by the float path: draw about the mean, or walk on the records, and finish."""
    mechanism = choice.mechanism

    def draw(rng: np.random.Generator, mean: np.ndarray, runs: int) -> np.ndarray:
        about = mechanism.statistic.clip_records(inside)
        if mechanism.info.reads == "value":
            about = np.asarray(frechet_mean(mechanism.manifold, about))
        released = mechanism.simulate(rng, about, runs)
        return mechanism.statistic.to_data_frame(released)

    return draw


def _plain_distances(
    released: np.ndarray, truth: np.ndarray, ball: Ball
) -> tuple[np.ndarray, np.ndarray]:
    """As released and in the ball about I, in plain doubles: the library's digits cost minutes on 32×32 matrices."""
    tiny = np.finfo(float).eps
    whiten = np.linalg.inv(np.linalg.cholesky(truth))

    def to_truth(x: np.ndarray) -> np.ndarray:
        w = np.linalg.eigvalsh(whiten @ x @ whiten.T)
        return np.asarray(
            np.linalg.norm(np.log(np.maximum(w, tiny * w[:, -1:])), axis=-1)
        )

    w, u = np.linalg.eigh(released)
    log = np.log(np.maximum(w, tiny * w[:, -1:]))
    log *= ball.radius / np.maximum(
        ball.radius, np.linalg.norm(log, axis=-1, keepdims=True)
    )
    return to_truth(released), to_truth(
        (u * np.exp(log)[:, None, :]) @ np.swapaxes(u, -1, -2)
    )


def sensitivities(manifold: Manifold, radius: float, n: int) -> dict[str, float]:
    """The bounds on how far the mean moves, with the solver's error at both ends: one where they agree."""
    error = 2 * solver_error(manifold, radius)
    ours = frechet_mean_sensitivity(manifold, radius, n) + error
    if manifold.curvature_bounds[1] <= 0:
        return {"ours = paper's": ours}
    try:
        return {
            "ours": ours,
            "paper's": frechet_mean_sensitivity(manifold, radius, n, bound="reimherr")
            + error,
        }
    except ParameterError:  # radius·√κ ≥ π/4, where the published bound is not defined
        return {"ours": ours}


def peers(
    study: Study, guarantee: GDP, sensitivity: float, eps: float
) -> list[tuple[str, Callable[[], Sampler]]]:
    """The named mechanisms at one sensitivity, built when called: some refuse."""
    M, ball = study.manifold, study.ball
    sigma = embedded_sensitivity(M, ball, sensitivity) / guarantee.mu
    on_mean = (
        "ambient Gaussian on the Fréchet mean",
        lambda: lambda rng, p, runs: ambient(M, p, sigma, rng, runs),
    )
    if isinstance(M, SPDAffineInvariant):
        # No profile is known here. σ ≥ Δ/μ on every Hadamard manifold
        # (docs/evidence/utility.md), so these rows flatter the peers.
        return [
            (
                "Riemannian Gaussian, at best",
                lambda: RiemannianGaussian(M, sensitivity / guarantee.mu).sample,
            ),
            (
                "Riemannian Laplace, ε from μ, at best",
                lambda: partial(_tangent_laplace, M, sensitivity / eps),
            ),
            on_mean,
        ]
    return [
        (
            "Riemannian Gaussian",
            lambda: GaussianMechanism.calibrated(M, sensitivity, guarantee).simulate,
        ),
        (
            "Riemannian Laplace, exact profile",
            lambda: LaplaceMechanism.calibrated(M, sensitivity, guarantee).simulate,
        ),
        (
            "Riemannian Laplace, ε from μ",
            lambda: LaplaceMechanism(M, sensitivity, sensitivity / eps).simulate,
        ),
        on_mean,
    ]


def _tangent_laplace(
    M: Manifold, scale: float, rng: np.random.Generator, p: np.ndarray, runs: int
) -> np.ndarray:
    """Laplace noise in the tangent space at p: closer to p than the Riemannian law of that scale, whose density in the chart
    has the Jacobian of exp as a further factor, which increases with the distance."""
    flat = Euclidean(M.dim)
    return np.asarray(
        M.exp(
            p,
            M.from_coordinates(
                p, RiemannianLaplace(flat, scale).sample(rng, flat.origin, runs)
            ),
        )
    )


def kng_scales(study: Study, guarantee: GDP, eps: float) -> dict[str, float]:
    """s = 2Δ/ε by our bound on the gradient and by the published 2r(2-h)/n (Soto et al. 2022), where they differ."""
    M, ball, n = study.manifold, study.ball, len(study.records)
    ours = KNGMechanism.calibrated(M, ball.center, ball.radius, n, guarantee).scale
    if M.curvature_bounds[1] <= 0:
        return {"ours = paper's": ours}
    angle = 2 * ball.radius * sqrt(M.curvature_bounds[1])
    if angle >= pi / 2:
        return {"ours": ours}
    return {
        "ours": ours,
        "paper's": 2 * (2 * ball.radius / n) * (2 - angle / tan(angle)) / eps,
    }


def kng(
    study: Study,
    inside: np.ndarray,
    scale: float,
    rng: np.random.Generator,
    mean: np.ndarray,
    runs: int,
) -> np.ndarray:
    """Exact draws of the K-norm gradient law, which lives on the ball already.

    Where curvature is <= 0 the gradient's part along a geodesic from the mean increases with slope at least 1. Where it has
    reached 40 scales the density is below 1e-17 of its peak from there on, and leaving that out of a simulation (never of
    a release) saves most of the cells.
    """
    M, ball = study.manifold, study.ball
    is_hadamard = M.curvature_bounds[1] <= 0
    center, radius = (
        (mean, _far(M, inside, scale, mean))
        if is_hadamard
        else (ball.center, ball.radius)
    )
    gradient = KNGMechanism.calibrated(
        M, center, radius, len(inside), GDP(1.0)
    )  # its own scale is not used
    reach = np.asarray(M.dist(center, inside)) + radius
    lipschitz = (
        float(np.mean(reach / np.tanh(reach)))
        if is_hadamard
        else gradient.lipschitz_constant(inside)
    )
    return np.asarray(
        KNormLaw(gradient.domain, scale).sample(
            rng, gradient.gradient_norm(inside), lipschitz, runs
        )
    )


def _far(M: Manifold, inside: np.ndarray, scale: float, mean: np.ndarray) -> float:
    """A distance from the mean at which the gradient's outward part is at least 40 scales, on 64 directions."""
    z = np.random.default_rng(0).standard_normal((64, M.dim))
    outward = M.from_coordinates(mean, z / np.linalg.norm(z, axis=1, keepdims=True))
    radius = 2 * scale
    while radius < 40 * scale:
        x = M.exp(mean, radius * outward)
        back = M.log(x, mean)  # of length radius
        slope = M.inner(x, np.mean(M.log(x[:, None], inside), axis=1), back) / radius
        if float(np.min(slope)) >= 40 * scale:
            break
        radius *= 1.25
    return radius


# --- the tables ---


def describe(study: Study) -> str:
    """The heading of a study: what is public, and what the ball does to the records."""
    M, ball = study.manifold, study.ball
    distance = np.asarray(M.dist(ball.center, study.records))
    moved = int(np.sum(distance > ball.radius))
    inside = np.asarray(project_to_ball(M, *ball, study.records))
    shift = float(M.dist(frechet_mean(M, study.records), frechet_mean(M, inside)))
    return (
        f"### {study.name}: {M}, n = {len(distance)}, radius {ball.radius:g}\n\n"
        f"{moved} records lie outside the ball. Clipping them shifts the mean by "
        f"{shift:.2g}.\n"
    )


def shown(distances: np.ndarray) -> str:
    """Mean and standard error."""
    if not np.isfinite(distances).all():
        return "—"
    return (
        f"{distances.mean():.4g} ± {distances.std(ddof=1) / sqrt(len(distances)):.1g}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("CURVEDP_DATA"))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default="", help="studies whose name contains this")
    options = parser.parse_args()
    if options.data_dir is None:
        parser.error("name the data folder: --data-dir or CURVEDP_DATA")
    verdicts = []
    for study in chain(studies(options.data_dir), held_out(options.data_dir)):
        if options.only not in study.name:
            continue
        print(describe(study))
        for guarantee in GUARANTEES:
            print(
                f"| {guarantee} | sensitivity | as released | in the ball |\n|---|---|---|---|"
            )
            found = []
            for row in rows(study, guarantee, options.runs):
                found.append(row)
                print(
                    f"| {row.mechanism} | {row.sensitivity} | {shown(row.raw)} | {shown(row.projected)} |",
                    flush=True,
                )
            print()
            verdicts.append(verdict(study, guarantee, *found))
    print("### auto against the others, in the ball\n")
    print(
        "| study | μ | auto | best of the others on the Fréchet mean | auto/best "
        "| auto/tangent-gaussian | auto/arithmetic mean |"
    )
    print("|---|---|---|---|---|---|---|")
    print("\n".join(verdicts))


def verdict(study: Study, guarantee: GDP, auto: Row, chart: Row, *others: Row) -> str:
    """auto against the best peer that releases the same statistic, our tangent-gaussian, and the noisy arithmetic mean."""
    *same, arithmetic = others
    best = min(same, key=lambda row: float(row.projected.mean()))
    ratios = [
        f"{auto.projected.mean() / row.projected.mean():.3f}"
        for row in (best, chart, arithmetic)
    ]
    taken = auto.mechanism.split("= ")[1]
    return f"| {study.name} | {guarantee.mu:g} | {taken} | {best.mechanism} | {' | '.join(ratios)} |"


if __name__ == "__main__":
    main()
