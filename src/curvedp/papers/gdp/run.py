"""Figure 1 of Jiang et al. 2023, *Gaussian differential privacy on Riemannian manifolds*: as printed and as corrected."""

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from scipy.special import ndtr, ndtri

from curvedp.geometry import Sphere, frechet_mean
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    frechet_mean_sensitivity,
)
from curvedp.papers.gdp.algorithms import (
    LossSampler,
    algorithm1_estimate,
    algorithm2_estimate,
    loss_sampler,
)
from curvedp.papers.gdp.circle import (
    circle_gaussian_delta,
    circle_gaussian_delta_printed,
)
from curvedp.papers.runner import Setting
from curvedp.privacy import GDP, gaussian_profile

RED, BLUE, GREY, INK = "#c0392b", "#2471a3", "#7f8c8d", "#1d2b3a"
SENSITIVITY = 1.0
RECORDS, RADIUS = 10, math.pi / 8  # of the utility panel


def gdp_fig1(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """μ against σ on the circle and the line, and the error of a private mean on the sphere."""
    rng = np.random.default_rng(20231)
    rounds = (
        [range(1, 17), range(1, 13)] if setting.full else [(1, 2, 4, 8, 16), (1, 4, 12)]
    )
    m, replicates, runs = (100, 20, 1000) if setting.full else (20, 2, 60)
    sigma = [k / 4 for k in rounds[0]]
    figures: dict[str, Any] = {
        "sigma": sigma,
        "circle": {
            "algorithm1": [algorithm1_estimate(s, SENSITIVITY, 1000) for s in sigma],
            "exact": [float(gaussian_profile(1, 1, s, SENSITIVITY).mu) for s in sigma],
            "algorithm2": [
                replicate(
                    circle_losses(s), s, math.pi / (2 * s * s), m, replicates, rng
                )
                for s in sigma
            ],
        },
        "line": {
            "exact": [1 / s for s in sigma],
            "algorithm2": [
                replicate(
                    line_losses(s),
                    s,
                    max(10, 5 / s + 1 / (2 * s * s)),
                    m,
                    replicates,
                    rng,
                )
                for s in sigma
            ],
        },
        "delta": {  # E1: what μ hides, at the example of the errata
            "printed": circle_gaussian_delta_printed(2.0, SENSITIVITY, 0.3),
            "exact": circle_gaussian_delta(2.0, SENSITIVITY, 0.3),
        },
        "utility": utility([k / 4 for k in rounds[1]], runs, m, rng),
    }
    for space in ("circle", "line"):
        pairs = zip(figures[space]["algorithm2"], figures[space]["exact"], strict=True)
        figures[space]["algorithm2_bias"] = [
            run["mean"] / truth - 1 for run, truth in pairs
        ]
    figures["summary"] = summary(figures)
    return figures, draw(figures)


def summary(figures: dict[str, Any]) -> dict[str, float]:
    """The numbers that expected.json speaks of, at σ that both forms have."""
    sigma, circle, line, use = (
        figures["sigma"],
        figures["circle"],
        figures["line"],
        figures["utility"],
    )
    low, one, two, top = (sigma.index(s) for s in (0.25, 1.0, 2.0, 4.0))
    short = [b - a for a, b in zip(circle["algorithm1"], circle["exact"], strict=True)]
    runs = [row for key in ("printed", "same_sensitivity", "corrected") for kind in ("gaussian", "laplace")
            for row in use[key][kind]]  # fmt: skip
    return {
        "exact μ on S¹ at σ = 1": circle["exact"][one],
        "exact μ on S¹ at σ = 4": circle["exact"][top],
        "Algorithm 1 below the exact μ, most": max(short),
        "Algorithm 1 below the exact μ, least": min(short),
        "μ on S¹ over μ on ℝ at σ = 0.25": circle["exact"][low] * sigma[low],
        "μ on S¹ over μ on ℝ at σ = 4": circle["exact"][top] * sigma[top],
        "Algorithm 2 on S¹, bias at σ = 0.25": circle["algorithm2_bias"][low],
        "Algorithm 2 on S¹, bias at σ = 2": circle["algorithm2_bias"][two],
        "Algorithm 2 on ℝ, bias at σ = 0.25": line["algorithm2_bias"][low],
        "Algorithm 2 on ℝ, bias at σ = 4": line["algorithm2_bias"][top],
        "Algorithm 2 on S¹ at σ = 1, least − exact": circle["algorithm2"][one]["min"] - circle["exact"][one],
        "δ(0.3) on S¹ at σ = 2, printed": figures["delta"]["printed"],
        "δ(0.3) on S¹ at σ = 2, exact": figures["delta"]["exact"],
        "sensitivity, Reimherr": use["sensitivity"]["printed"],
        "sensitivity, tight": use["sensitivity"]["tight"],
        "exact μ on S² at σ = 1": use["mu"][use["sigma"].index(1.0)],
        "Laplace over Gaussian error at σ = 0.25, printed": use["printed"]["ratio"][0],
        "Laplace over Gaussian error at σ = 0.25, exact profiles": use["same_sensitivity"]["ratio"][0],
        "Laplace over Gaussian error at σ = 0.25, corrected": use["corrected"]["ratio"][0],
        "Laplace over Gaussian error at σ = 3, corrected": use["corrected"]["ratio"][-1],
        "Gaussian error at σ = 0.25, corrected over printed": use["corrected"]["gaussian"][0]["exact"]
        / use["printed"]["gaussian"][0]["exact"],
        "runs against exact means, largest |z|": max(abs(row["mean"] - row["exact"]) / row["se"] for row in runs),
    }  # fmt: skip


def circle_losses(sigma: float) -> LossSampler:
    """d(η′,y)² − d(η,y)² on the unit circle, η = 0, η′ = Δ: truncated normals, as in App. A.6."""
    low = ndtr(-math.pi / sigma)

    def sample(rng: np.random.Generator, which: int, n: int) -> np.ndarray:
        y = sigma * ndtri(low + rng.random(n) * (1 - 2 * low)) + which * SENSITIVITY
        return np.asarray(wrapped(y - SENSITIVITY) ** 2 - wrapped(y) ** 2)

    return sample


def wrapped(angle: np.ndarray) -> np.ndarray:
    return np.abs(np.remainder(angle + math.pi, 2 * math.pi) - math.pi)


def line_losses(sigma: float) -> LossSampler:
    def sample(rng: np.random.Generator, which: int, n: int) -> np.ndarray:
        y = sigma * rng.standard_normal(n) + which * SENSITIVITY
        return (y - SENSITIVITY) ** 2 - y**2

    return sample


def replicate(
    sampler: LossSampler,
    sigma: float,
    eps_max: float,
    m: int,
    replicates: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Mean, smallest and largest μ of several runs of Algorithm 2 with n = n_ε = 1000."""
    mu = [
        algorithm2_estimate(sampler, sigma, eps_max, rng, m=m).mu
        for _ in range(replicates)
    ]
    return {"mean": float(np.mean(mu)), "min": min(mu), "max": max(mu)}


def utility(
    sigma: list[float], runs: int, m: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Distance of a private to the true Fréchet mean of 10 points of S² in a ball of radius π/8.

    Printed: sensitivity of Reimherr et al. 2021, μ by Algorithm 2, Laplace at the ε whose μ, by the conversion from pure
    ε, is that one. Corrected: both calibrated to the exact μ by their exact profiles, with our sensitivity.
    """
    sphere = Sphere(2)
    means = [frechet_mean(sphere, records) for records in ball_data(runs, rng)]
    printed, tight = (
        frechet_mean_sensitivity(sphere, RADIUS, RECORDS, bound=b)
        for b in ("reimherr", "tight")
    )
    result: dict[str, Any] = {
        "sigma": sigma, "sensitivity": {"printed": printed, "tight": tight}, "mu": [],
        "printed": {"mu": [], "epsilon": [], "gaussian": [], "laplace": []},
        "same_sensitivity": {"gaussian": [], "laplace": []},
        "corrected": {"sigma": [], "gaussian": [], "laplace": []},
    }  # fmt: skip
    for s in sigma:
        gauss = RiemannianGaussian(sphere, s)
        mu = float(gauss.profile(printed).mu)
        estimate = algorithm2_estimate(
            loss_sampler(1, 2, s, printed), s, math.pi * printed / (2 * s * s), rng, m=m
        ).mu
        epsilon = math.log(ndtr(estimate / 2) / ndtr(-estimate / 2))
        better = GaussianMechanism.calibrated(sphere, tight, GDP(mu))
        result["mu"].append(mu)
        result["printed"]["mu"].append(estimate)
        result["printed"]["epsilon"].append(epsilon)
        result["corrected"]["sigma"].append(better.sigma)
        laws = {
            "printed": (gauss, RiemannianLaplace(sphere, printed / epsilon)),
            "same_sensitivity": (
                gauss,
                LaplaceMechanism.calibrated(sphere, printed, GDP(mu)).noise_law,
            ),
            "corrected": (
                better.noise_law,
                LaplaceMechanism.calibrated(sphere, tight, GDP(mu)).noise_law,
            ),
        }
        for key, pair in laws.items():
            for kind, law in zip(("gaussian", "laplace"), pair, strict=True):
                result[key][kind].append(errors(law, means, rng))
    for key in ("printed", "same_sensitivity", "corrected"):
        pairs = zip(result[key]["laplace"], result[key]["gaussian"], strict=True)
        result[key]["ratio"] = [
            laplace["exact"] / gauss["exact"] for laplace, gauss in pairs
        ]
    return result


def ball_data(runs: int, rng: np.random.Generator) -> np.ndarray:
    """Data sets of points uniform in the ball about the origin: on S² the height is uniform (Archimedes)."""
    height, angle = (
        rng.uniform(math.cos(RADIUS), 1, (runs, RECORDS)),
        rng.uniform(0, 2 * math.pi, (runs, RECORDS)),
    )
    across = np.sqrt(1 - height**2)
    return np.stack([height, across * np.cos(angle), across * np.sin(angle)], axis=-1)


def errors(
    law: RiemannianGaussian | RiemannianLaplace,
    means: list[np.ndarray],
    rng: np.random.Generator,
) -> dict[str, float]:
    """Mean distance of a release to the mean it protects, its standard error, and its exact value ∫(1 − F)."""
    distances = [
        float(law.manifold.dist(mean, law.sample(rng, mean, None))) for mean in means
    ]
    node, weight = np.polynomial.legendre.leggauss(100)
    exact = float(
        np.sum(weight * (1 - law.radial_cdf((node + 1) * math.pi / 2))) * math.pi / 2
    )
    error = float(np.std(distances, ddof=1) / math.sqrt(len(means)))
    return {"mean": float(np.mean(distances)), "se": error, "exact": exact}


def draw(figures: dict[str, Any]) -> Figure:
    picture = Figure(figsize=(13, 8.2), layout="constrained")
    grid = picture.subplots(2, 2)
    sigma, circle, line, use = (
        figures["sigma"],
        figures["circle"],
        figures["line"],
        figures["utility"],
    )
    for axes, space, title in (
        (grid[0, 0], circle, "circle S¹, sensitivity 1"),
        (grid[0, 1], line, "line ℝ, sensitivity 1"),
    ):
        runs = space["algorithm2"]
        mean = np.array([run["mean"] for run in runs])
        spread = [
            [a - run["min"], run["max"] - a] for a, run in zip(mean, runs, strict=True)
        ]
        axes.errorbar(
            sigma, mean, np.array(spread).T, color=GREY, marker="s", ms=5, capsize=3, lw=1,
            label="Algorithm 2 as printed: mean, least, most",
        )  # fmt: skip
        axes.plot(
            sigma,
            line["exact"],
            color=BLUE,
            marker="^",
            ms=5,
            lw=1,
            label="ℝ, exact: 1/σ",
        )
        if space is circle:
            axes.plot(
                sigma,
                circle["algorithm1"],
                color=RED,
                marker="o",
                ms=7,
                lw=1,
                label="S¹, Algorithm 1 as printed",
            )
            axes.plot(
                sigma,
                circle["exact"],
                color=INK,
                marker="x",
                ms=5,
                lw=0,
                label="S¹, exact",
            )
        axes.set(xlabel="σ", ylabel="μ", yscale="log", title=title, ylim=(0.07, 6))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.legend(frameon=False)
    panels = (
        ("printed", "S², as printed: Laplace by conversion"),
        ("corrected", "S², both by exact profile"),
    )
    for axes, (key, title) in zip(grid[1], panels, strict=True):
        for kind, color, marker in (("gaussian", RED, "o"), ("laplace", BLUE, "^")):
            rows = use[key][kind]
            mean, band = (
                np.array([row[what] for row in rows]) for what in ("mean", "se")
            )
            axes.fill_between(
                use["mu"],
                mean - 4 * band,
                mean + 4 * band,
                color=color,
                alpha=0.15,
                lw=0,
            )
            axes.plot(
                use["mu"],
                mean,
                color=color,
                marker=marker,
                ms=5,
                lw=0,
                label=f"{kind}: mean of runs, ±4 SE",
            )
            axes.plot(
                use["mu"],
                [row["exact"] for row in rows],
                color=color,
                lw=1,
                label=f"{kind}: exact mean",
            )
        if key == "corrected":
            before = [row["exact"] for row in use["printed"]["laplace"]]
            axes.plot(
                use["mu"], before, color=BLUE, lw=1, ls=":", label="laplace as printed"
            )
        axes.set(
            xlabel="μ of the release",
            ylabel="distance to the true mean",
            xscale="log",
            title=title,
            ylim=(0, 1.75),
        )
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(
            [0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"]
        )
        axes.legend(frameon=False)
    return picture
