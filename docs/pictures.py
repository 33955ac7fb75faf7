"""The pictures of the theory pages: `python docs/pictures.py` (part of `make gallery`)."""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from curvedp.geometry import Sphere
from curvedp.mechanisms import frechet_mean_sensitivity
from curvedp.papers.gdp.circle import circle_gaussian_delta_printed
from curvedp.privacy import GDP, RaoDP, gaussian_profile

IMAGES = Path(__file__).parent / "images"
_PAGE = Path(__file__).parent / "evidence" / "coverage.md"
RED, BLUE, INK, GREY = "#c0392b", "#2471a3", "#1d2b3a", "#95a5a6"


def rao() -> None:
    """δ(ε) of an angle beside that of the Gaussian mechanism with the same angle."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    eps = np.linspace(0, 6, 200)
    for theta, color in ((0.1, BLUE), (0.5, RED)):
        mu = math.sqrt(-8 * math.log(math.cos(theta / 2)))  # cos(θ/2) = exp(−μ²/8)
        axes.semilogy(
            eps, RaoDP(theta).delta(eps), color=color, label=f"any law of angle {theta}"
        )
        axes.semilogy(
            eps,
            GDP(mu).delta(eps),
            "--",
            color=color,
            label=f"Gaussian of angle {theta}",
        )
        axes.axhline(math.sin(theta / 2) ** 2, color=color, linestyle=":", linewidth=1)
    axes.set(
        xlabel="ε",
        ylabel="δ(ε)",
        ylim=(1e-12, 1),
        title="An angle alone leaves δ ≥ sin²(θ/2) (dotted)",
    )
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(IMAGES / "rao.png", dpi=110)


def sensitivity() -> None:
    """The Fréchet mean's sensitivity on S², in units of 2r/n."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    n, sphere = 100, Sphere(2)
    radii = np.linspace(0.02, 1.35, 67)
    axes.plot(
        radii,
        [_ratio(sphere, r, n, "tight") for r in radii],
        color=RED,
        linewidth=2.5,
        label="ours, proved",
    )
    published = np.linspace(0.02, 0.78, 60)
    axes.plot(
        published,
        [_ratio(sphere, r, n, "reimherr") for r in published],
        color=BLUE,
        label="published",
    )
    axes.plot(
        radii,
        np.tan(radii) / radii,
        "--",
        color=INK,
        linewidth=1,
        label="what attacks approach: tan(r)/r",
    )
    axes.axvline(math.pi / 4, color=GREY, linewidth=1, linestyle=":")
    axes.set(
        xlabel="radius of the public ball",
        ylabel="sensitivity / (2r/n)",
        ylim=(0.9, 6),
        title="How far one record moves the mean on S²",
    )
    axes.legend(frameon=False)
    figure.savefig(IMAGES / "sensitivity.png", dpi=110)


def inference() -> None:
    """Draw the tables of docs/evidence/coverage.md: power by n, and the least coverage."""
    rows = [
        [cell.strip() for cell in line.strip("|\n ").split("|")]
        for line in _PAGE.read_text().splitlines()
    ]
    _power([row for row in rows if len(row) == 8 and row[1].isdigit()])
    _coverage(
        [
            row
            for row in rows
            if len(row) == 8
            and ":" in row[0]
            and not row[1].isdigit()
            and "+" not in row[1][1:]
        ]
    )


def _power(rows: list[list[str]]) -> None:
    figure, panels = plt.subplots(
        2, 2, figsize=(8, 5.6), layout="constrained", sharex=True, sharey=True
    )
    lines = {
        "ours": (3, RED, "-"),
        "without noise": (4, INK, ":"),
        "dpMMD, public bandwidth": (5, BLUE, "-"),
    }
    lines |= {
        "dpMMD, unpaid bandwidth": (6, BLUE, "--"),
        "noise on each vector": (7, GREY, "-"),
    }
    cases = list(dict.fromkeys((row[0], row[2]) for row in rows))
    for axes, (data, guarantee) in zip(panels.T.flat, cases, strict=True):
        own = [row for row in rows if (row[0], row[2]) == (data, guarantee)]
        n = [int(row[1]) for row in own]
        for label, (column, color, style) in lines.items():
            power = np.array([float(row[column]) for row in own])
            axes.plot(
                n, power, style, color=color, marker="o", markersize=3, label=label
            )
            error = 2 * np.sqrt(power * (1 - power) / 1000)
            axes.fill_between(
                n, power - error, power + error, color=color, alpha=0.12, linewidth=0
            )
        axes.set(
            title=f"{data.split(' (')[0]}\n{guarantee}", xscale="log", ylim=(0, 1.02)
        )
        axes.set_xticks(n, [str(each) for each in n])
        axes.minorticks_off()
    for axes in panels[1]:
        axes.set_xlabel("records in each sample")
    figure.supylabel("power at level 0.05", fontsize=10)
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    figure.savefig(IMAGES / "power.png", dpi=110)


def _coverage(rows: list[list[str]]) -> None:
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    names = (
        "gaussian",
        "laplace",
        "tangent-gaussian",
        "tangent-laplace",
        "gradient",
        "newton",
    )
    for column, (name, marker) in enumerate(zip(names, "osD^vx", strict=True), 1):
        shown = [
            (i, float(row[column].replace("−", "-")))
            for i, row in enumerate(rows)
            if "0" in row[column]
        ]
        axes.plot(
            *zip(*shown, strict=True), marker, label=name, alpha=0.8, markersize=5
        )
    axes.axhline(-0.01, color=RED, linewidth=1)
    axes.axhline(0, color=GREY, linewidth=1, linestyle=":")
    axes.set_xticks(range(len(rows)), [row[0] for row in rows], rotation=30, ha="right")
    axes.set(
        ylabel="least lower bound − level",
        title="Coverage of regions of the records; −0.01 is the limit",
    )
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=9)
    figure.savefig(IMAGES / "coverage.png", dpi=110)


def _ratio(sphere: Sphere, radius: float, n: int, bound: str) -> float:
    return frechet_mean_sensitivity(sphere, radius, n, bound=bound) / (2 * radius / n)


def errata() -> None:
    """E1: the printed δ(ε) of the Gaussian on the circle, and the true one."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    profile, eps = gaussian_profile(1.0, 1, 2.0, 1.0), np.linspace(0, 0.66, 150)
    axes.plot(eps, profile.delta(eps), color=INK, linewidth=2, label="true")
    reach = math.pi / 8  # πΔ/2σ²: beyond it the printed formula says 0
    printed = [
        circle_gaussian_delta_printed(2.0, 1.0, e) if e <= reach else 0.0 for e in eps
    ]
    axes.plot(
        eps, np.maximum(printed, 0), color=RED, linestyle="--", label="as printed (E1)"
    )
    axes.fill_between(
        eps,
        np.maximum(printed, 0),
        profile.delta(eps),
        color=RED,
        alpha=0.12,
        label="leakage not stated",
    )
    axes.set(
        xlabel="ε",
        ylabel="δ(ε)",
        ylim=(0, None),
        xlim=(0, 0.66),
        title="Gaussian noise on the circle, σ = 2, Δ = 1",
    )
    axes.legend(frameon=False)
    figure.savefig(IMAGES / "errata-e1.png", dpi=110)


if __name__ == "__main__":
    plt.switch_backend("agg")
    rao()
    sensitivity()
    errata()
    inference()
