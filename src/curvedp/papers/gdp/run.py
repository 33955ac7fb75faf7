"""Figure 1 of *Gaussian differential privacy on Riemannian manifolds* (Jiang et al.
2023): the privacy parameter μ against the scale σ on the circle and on the line, and
the error of a private mean on the sphere. Every panel is computed as printed and as
corrected.
"""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
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
from curvedp.papers.style import BLUE, GREY, INK, RED
from curvedp.privacy import GDP, gaussian_profile

# Δ of the two upper panels.
SENSITIVITY = 1.0
# Of the panel on utility: the number of records of a data set, and the radius of the
# ball they lie in.
RECORDS, RADIUS = 10, math.pi / 8
# Ways to calibrate the two mechanisms that are compared.
CALIBRATIONS = ("printed", "same_sensitivity", "corrected")
KINDS = ("gaussian", "laplace")


def gdp_fig1(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Make Figure 1: three panels as printed, and one more with exact profiles.

    The settings are those of §4.2 and §5.2 in the full form; the reduced form has fewer
    σ, batches, replicates and runs.

    Parameters
    ----------
    setting : Setting
        Which form to make.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers of every panel, and the picture.
    """
    rng = np.random.default_rng(20231)
    if setting.full:
        sigma = [k / 4 for k in range(1, 17)]
        utility_sigma = [k / 4 for k in range(1, 13)]
        m, replicates, runs = 100, 20, 1000
    else:
        sigma = [0.25, 0.5, 1.0, 2.0, 4.0]
        utility_sigma = [0.25, 1.0, 3.0]
        m, replicates, runs = 20, 2, 60

    figures: dict[str, Any] = {
        "sigma": sigma,
        "circle": circle_panel(sigma, m, replicates, rng),
        "line": line_panel(sigma, m, replicates, rng),
    }
    # E1: what μ hides, at the example of the errata.
    figures["delta"] = {
        "printed": circle_gaussian_delta_printed(2.0, SENSITIVITY, 0.3),
        "exact": circle_gaussian_delta(2.0, SENSITIVITY, 0.3),
    }
    figures["utility"] = compare_utility(utility_sigma, runs, m, rng)
    for space in ("circle", "line"):
        pairs = zip(figures[space]["algorithm2"], figures[space]["exact"], strict=True)
        biases = [run["mean"] / truth - 1 for run, truth in pairs]
        figures[space]["algorithm2_bias"] = biases
    figures["summary"] = checked_numbers(figures)
    return figures, draw(figures)


def circle_panel(
    sigma: list[float], m: int, replicates: int, rng: np.random.Generator
) -> dict[str, list[Any]]:
    """Return μ on the circle for each σ: by both algorithms, and the exact value.

    Parameters
    ----------
    sigma : list of float
        The scales of the Gaussian.
    m, replicates : int
        The number of batches of a run of Algorithm 2, and of its runs.
    rng : numpy.random.Generator
        The source of randomness.
    """
    return {
        "algorithm1": [algorithm1_estimate(s, SENSITIVITY, 1000) for s in sigma],
        "exact": [float(gaussian_profile(1, 1, s, SENSITIVITY).mu) for s in sigma],
        "algorithm2": [
            replicate(circle_losses(s), s, math.pi / (2 * s * s), m, replicates, rng)
            for s in sigma
        ],
    }


def line_panel(
    sigma: list[float], m: int, replicates: int, rng: np.random.Generator
) -> dict[str, list[Any]]:
    """Return μ on the line for each σ: by Algorithm 2, and the exact value.

    Parameters
    ----------
    sigma : list of float
        The scales of the Gaussian.
    m, replicates : int
        The number of batches of a run of Algorithm 2, and of its runs.
    rng : numpy.random.Generator
        The source of randomness.
    """
    return {
        "exact": [1 / s for s in sigma],
        "algorithm2": [
            replicate(line_losses(s), s, _line_eps_max(s), m, replicates, rng)
            for s in sigma
        ],
    }


def _line_eps_max(sigma: float) -> float:
    """Return ε_max of Algorithm 2 on the line for a scale σ, as §4.2 prints it."""
    return max(10, 5 / sigma + 1 / (2 * sigma * sigma))


def checked_numbers(figures: dict[str, Any]) -> dict[str, float]:
    """Return the numbers that expected.json checks, at values of σ that both forms have.

    Parameters
    ----------
    figures : dict
        All other figures of `gdp_fig1`.
    """
    sigma = figures["sigma"]
    low, one, two, top = (sigma.index(s) for s in (0.25, 1.0, 2.0, 4.0))
    circle, line = figures["circle"], figures["line"]
    pairs = zip(circle["algorithm1"], circle["exact"], strict=True)
    shortfall = [exact - estimate for estimate, exact in pairs]
    numbers = {
        "exact μ on S¹ at σ = 1": circle["exact"][one],
        "exact μ on S¹ at σ = 4": circle["exact"][top],
        "Algorithm 1 below the exact μ, most": max(shortfall),
        "Algorithm 1 below the exact μ, least": min(shortfall),
        "μ on S¹ over μ on ℝ at σ = 0.25": circle["exact"][low] * sigma[low],
        "μ on S¹ over μ on ℝ at σ = 4": circle["exact"][top] * sigma[top],
        "Algorithm 2 on S¹, bias at σ = 0.25": circle["algorithm2_bias"][low],
        "Algorithm 2 on S¹, bias at σ = 2": circle["algorithm2_bias"][two],
        "Algorithm 2 on ℝ, bias at σ = 0.25": line["algorithm2_bias"][low],
        "Algorithm 2 on ℝ, bias at σ = 4": line["algorithm2_bias"][top],
        "Algorithm 2 on S¹ at σ = 1, least − exact": (
            circle["algorithm2"][one]["min"] - circle["exact"][one]
        ),
        "δ(0.3) on S¹ at σ = 2, printed": figures["delta"]["printed"],
        "δ(0.3) on S¹ at σ = 2, exact": figures["delta"]["exact"],
    }
    return numbers | _checked_utility(figures["utility"])


def _checked_utility(rows: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of the panel on utility that expected.json checks.

    Parameters
    ----------
    rows : dict
        The result of `compare_utility`.
    """
    printed, corrected = rows["printed"], rows["corrected"]
    gaps = [
        laplace["exact"] - gaussian["exact"]
        for laplace, gaussian in zip(
            printed["laplace"], printed["gaussian"], strict=True
        )
    ]
    widest = int(np.argmax(gaps))
    gained = corrected["gaussian"][0]["exact"] / printed["gaussian"][0]["exact"]
    # How far means of runs are from exact means, in standard errors.
    scores = [
        abs(run["mean"] - run["exact"]) / run["se"]
        for calibration in CALIBRATIONS
        for kind in KINDS
        for run in rows[calibration][kind]
    ]
    exact_ratio = rows["same_sensitivity"]["ratio"][0]
    return {
        "sensitivity, Reimherr": rows["sensitivity"]["printed"],
        "sensitivity, tight": rows["sensitivity"]["tight"],
        "exact μ on S² at σ = 1": rows["mu"][rows["sigma"].index(1.0)],
        "Laplace over Gaussian error at σ = 0.25, printed": printed["ratio"][0],
        "Laplace over Gaussian error at σ = 0.25, exact profiles": exact_ratio,
        "Laplace over Gaussian error at σ = 0.25, corrected": corrected["ratio"][0],
        "Laplace over Gaussian error at σ = 3, corrected": corrected["ratio"][-1],
        "Laplace less Gaussian error, printed, most": gaps[widest],
        "μ of the largest such difference": rows["mu"][widest],
        "Laplace less Gaussian error, printed, at σ = 0.25": gaps[0],
        "Laplace less Gaussian error, printed, at σ = 3": gaps[-1],
        "Gaussian error at σ = 0.25, corrected over printed": gained,
        "runs against exact means, largest |z|": max(scores),
    }


def circle_losses(sigma: float) -> LossSampler:
    """Return a sampler of losses on the unit circle, for `algorithm2_estimate`.

    A loss is d(η′, y)² − d(η, y)² with the centers η = 0 and η′ = Δ. The output y is
    drawn from the Gaussian of scale σ about η (which = 0) or about η′ (which = 1). Its
    angle is a truncated normal number, as in Appendix A.6 of the paper.

    Parameters
    ----------
    sigma : float
        σ.
    """
    low = ndtr(-math.pi / sigma)

    def sample(rng: np.random.Generator, which: int, n: int) -> np.ndarray:
        """Draw n values for y about η (which = 0) or about η′ (which = 1)."""
        # The quantile function of the truncated normal law, at uniform numbers.
        y = sigma * ndtri(low + rng.random(n) * (1 - 2 * low)) + which * SENSITIVITY
        return np.asarray(_angle_size(y - SENSITIVITY) ** 2 - _angle_size(y) ** 2)

    return sample


def _angle_size(angle: np.ndarray) -> np.ndarray:
    """Return the distance of angles from 0 on the unit circle, in [0, π]."""
    return np.abs(np.remainder(angle + math.pi, 2 * math.pi) - math.pi)


def line_losses(sigma: float) -> LossSampler:
    """Return a sampler of d(η′, y)² − d(η, y)² on the line, η = 0 and η′ = Δ.

    Parameters
    ----------
    sigma : float
        σ, the standard deviation of y about η (which = 0) or about η′ (which = 1).
    """

    def sample(rng: np.random.Generator, which: int, n: int) -> np.ndarray:
        """Draw n values for y about η (which = 0) or about η′ (which = 1)."""
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
    """Run Algorithm 2 several times, with n and n_ε of 1000 as printed.

    Parameters
    ----------
    sampler : callable
        Draws d(η′, y)² − d(η, y)².
    sigma : float
        σ, the scale of the Gaussian.
    eps_max : float
        The end of the grid of ε.
    m : int
        The number of batches of a run.
    replicates : int
        The number of runs.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    dict
        "mean", "min" and "max" of the estimates of μ.
    """
    mu = [
        algorithm2_estimate(sampler, sigma, eps_max, rng, m=m).mu
        for _ in range(replicates)
    ]
    return {"mean": float(np.mean(mu)), "min": min(mu), "max": max(mu)}


def compare_utility(
    sigma: list[float], runs: int, m: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Return distances of private means to the means, for 10 points in a ball of S².

    Gaussian and Laplace noise are compared at equal μ, in three calibrations:

    - "printed": the sensitivity of Reimherr et al. (2021), μ by Algorithm 2, and Laplace
      noise at the ε whose μ, by the conversion from pure ε, is that one;
    - "same_sensitivity": both kinds of noise at the exact μ by their exact profiles;
    - "corrected": the same with the tight sensitivity of this library.

    Parameters
    ----------
    sigma : list of float
        Values of σ of the Gaussian.
    runs : int
        The number of data sets, each with one release of every kind.
    m : int
        The number of batches of Algorithm 2.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    dict
        "sigma", "mu" (exact, one for each σ), "sensitivity", and for each calibration
        the errors of both mechanisms (as `distances_to_means` returns them) and
        "ratio", Laplace over Gaussian.
    """
    sphere = Sphere(2)
    means = [frechet_mean(sphere, records) for records in ball_data(runs, rng)]
    printed = frechet_mean_sensitivity(sphere, RADIUS, RECORDS, bound="reimherr")
    tight = frechet_mean_sensitivity(sphere, RADIUS, RECORDS, bound="tight")
    result: dict[str, Any] = {
        "sigma": sigma,
        "sensitivity": {"printed": printed, "tight": tight},
        "mu": [],
        "printed": {"mu": [], "epsilon": [], "gaussian": [], "laplace": []},
        "same_sensitivity": {"gaussian": [], "laplace": []},
        "corrected": {"sigma": [], "gaussian": [], "laplace": []},
    }
    for s in sigma:
        gaussian = RiemannianGaussian(sphere, s)
        mu = float(gaussian.profile(printed).mu)
        estimated_mu, epsilon = _printed_calibration(s, printed, m, rng)

        tight_gaussian = GaussianMechanism.calibrated(sphere, tight, GDP(mu))
        tight_laplace = LaplaceMechanism.calibrated(sphere, tight, GDP(mu))
        exact_laplace = LaplaceMechanism.calibrated(sphere, printed, GDP(mu))
        result["mu"].append(mu)
        result["printed"]["mu"].append(estimated_mu)
        result["printed"]["epsilon"].append(epsilon)
        result["corrected"]["sigma"].append(tight_gaussian.sigma)
        # The Gaussian and the Laplace law of each calibration.
        laws = {
            "printed": (gaussian, RiemannianLaplace(sphere, printed / epsilon)),
            "same_sensitivity": (gaussian, exact_laplace.noise_law),
            "corrected": (tight_gaussian.noise_law, tight_laplace.noise_law),
        }
        for calibration, pair in laws.items():
            for kind, law in zip(KINDS, pair, strict=True):
                result[calibration][kind].append(distances_to_means(law, means, rng))

    for calibration in CALIBRATIONS:
        rows = result[calibration]
        pairs = zip(rows["laplace"], rows["gaussian"], strict=True)
        rows["ratio"] = [
            laplace["exact"] / gaussian_errors["exact"]
            for laplace, gaussian_errors in pairs
        ]
    return result


def _printed_calibration(
    sigma: float, sensitivity: float, m: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the paper's μ of Gaussian noise on S², and the ε of Laplace noise for it.

    Parameters
    ----------
    sigma : float
        The scale of the Gaussian.
    sensitivity : float
        The sensitivity of the mean.
    m : int
        The number of batches of Algorithm 2.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    mu, epsilon : float
        The estimate of Algorithm 2, and the ε whose mechanisms are all μ-GDP.
    """
    # No ε_max is printed for S²; this is Algorithm 1's.
    eps_max = math.pi * sensitivity / (2 * sigma * sigma)
    losses = loss_sampler(1, 2, sigma, sensitivity)
    mu = algorithm2_estimate(losses, sigma, eps_max, rng, m=m).mu
    # Every ε-DP mechanism is μ-GDP with e^ε = Φ(μ/2)/Φ(−μ/2).
    return mu, math.log(ndtr(mu / 2) / ndtr(-mu / 2))


def ball_data(runs: int, rng: np.random.Generator) -> np.ndarray:
    """Draw data sets of points that are uniform in the ball about the origin of S².

    The height of a uniform point of a sphere is uniform (Archimedes).

    Parameters
    ----------
    runs : int
        The number of data sets.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    array of shape (runs, RECORDS, 3)
        Unit vectors within the angle RADIUS of the first axis.
    """
    height = rng.uniform(math.cos(RADIUS), 1, (runs, RECORDS))
    angle = rng.uniform(0, 2 * math.pi, (runs, RECORDS))
    across = np.sqrt(1 - height**2)
    return np.stack([height, across * np.cos(angle), across * np.sin(angle)], axis=-1)


def distances_to_means(
    law: RiemannianGaussian | RiemannianLaplace,
    means: list[np.ndarray],
    rng: np.random.Generator,
) -> dict[str, float]:
    """Return the mean distance of private means to the means, by runs and exactly.

    Parameters
    ----------
    law : RiemannianGaussian or RiemannianLaplace
        The law of the noise on S².
    means : list of array
        Means of data sets; one draw is made about each.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    dict
        "mean" and "se", the mean of the runs and its standard error, and "exact", the
        expected distance ∫(1 − F(r))dr, which does not depend on the data.
    """
    distances = [
        float(law.manifold.dist(mean, law.sample(rng, mean, None))) for mean in means
    ]
    # Gauss–Legendre on [0, π], the distances on the unit sphere.
    nodes, weights = np.polynomial.legendre.leggauss(100)
    survival = 1 - law.radial_cdf((nodes + 1) * math.pi / 2)
    exact = float(np.sum(weights * survival) * math.pi / 2)
    error = float(np.std(distances, ddof=1) / math.sqrt(len(means)))
    return {"mean": float(np.mean(distances)), "se": error, "exact": exact}


# --- the picture


def draw(figures: dict[str, Any]) -> Figure:
    """Draw the four panels of the figure.

    Parameters
    ----------
    figures : dict
        The figures of `gdp_fig1`.
    """
    picture = Figure(figsize=(13, 8.2), layout="constrained")
    grid = picture.subplots(2, 2)
    _draw_mu(grid[0, 0], figures, "circle", "circle S¹, sensitivity 1")
    _draw_mu(grid[0, 1], figures, "line", "line ℝ, sensitivity 1")
    rows = figures["utility"]
    _draw_utility(grid[1, 0], rows, "printed", "S², as printed: Laplace by conversion")
    _draw_utility(grid[1, 1], rows, "corrected", "S², both by exact profile")
    before = [row["exact"] for row in rows["printed"]["laplace"]]
    dotted: dict[str, Any] = {"color": BLUE, "lw": 1, "ls": ":"}
    grid[1, 1].plot(rows["mu"], before, label="laplace as printed", **dotted)
    for axes in grid.flat:
        axes.legend(frameon=False)
    return picture


def _draw_mu(axes: Axes, figures: dict[str, Any], space: str, title: str) -> None:
    """Draw μ against σ: Algorithms 1 and 2 as printed, and the exact values.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    figures : dict
        The figures of `gdp_fig1`.
    space : {"circle", "line"}
        The space; Algorithm 1 is for the circle only.
    title : str
        The title of the panel.
    """
    sigma, rows = figures["sigma"], figures[space]
    mean = np.array([run["mean"] for run in rows["algorithm2"]])
    below = [a - run["min"] for a, run in zip(mean, rows["algorithm2"], strict=True)]
    above = [run["max"] - a for a, run in zip(mean, rows["algorithm2"], strict=True)]
    axes.errorbar(
        sigma,
        mean,
        np.array([below, above]),
        color=GREY,
        marker="s",
        ms=5,
        capsize=3,
        lw=1,
        label="Algorithm 2 as printed: mean, least, most",
    )
    triangles: dict[str, Any] = {"color": BLUE, "marker": "^", "ms": 5, "lw": 1}
    axes.plot(sigma, figures["line"]["exact"], label="ℝ, exact: 1/σ", **triangles)
    if space == "circle":
        dots: dict[str, Any] = {"color": RED, "marker": "o", "ms": 7, "lw": 1}
        label = "S¹, Algorithm 1 as printed"
        axes.plot(sigma, rows["algorithm1"], label=label, **dots)
        crosses: dict[str, Any] = {"color": INK, "marker": "x", "ms": 5, "lw": 0}
        axes.plot(sigma, rows["exact"], label="S¹, exact", **crosses)
    axes.set(xlabel="σ", ylabel="μ", yscale="log", title=title, ylim=(0.07, 6))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_utility(
    axes: Axes, rows: dict[str, Any], calibration: str, title: str
) -> None:
    """Draw mean distances to the true mean against μ, by runs and exactly.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    rows : dict
        The result of `compare_utility`.
    calibration : {"printed", "corrected"}
        Which calibration to draw.
    title : str
        The title of the panel.
    """
    mu = rows["mu"]
    for kind, color, marker in (("gaussian", RED, "o"), ("laplace", BLUE, "^")):
        runs = rows[calibration][kind]
        mean = np.array([run["mean"] for run in runs])
        width = 4 * np.array([run["se"] for run in runs])
        exact = [run["exact"] for run in runs]
        axes.fill_between(mu, mean - width, mean + width, color=color, alpha=0.15, lw=0)
        points: dict[str, Any] = {"color": color, "marker": marker, "ms": 5, "lw": 0}
        axes.plot(mu, mean, label=f"{kind}: mean of runs, ±4 SE", **points)
        axes.plot(mu, exact, color=color, lw=1, label=f"{kind}: exact mean")
    axes.set(
        xlabel="μ of the release",
        ylabel="distance to the true mean",
        xscale="log",
        title=title,
        ylim=(0, 1.75),
    )
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
