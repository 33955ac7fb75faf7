"""The pictures of the theory pages: `python docs/pictures.py` (part of `make gallery`)."""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from curvedp.geometry import Sphere
from curvedp.mechanisms import frechet_mean_sensitivity
from curvedp.privacy import GDP, RaoDP, gaussian_profile
from reproductions.gdp.circle import circle_gaussian_delta_printed

IMAGES = Path(__file__).parent / "images"
RED, BLUE, INK, GREY = "#c0392b", "#2471a3", "#1d2b3a", "#95a5a6"


def rao() -> None:
    """δ(ε) of an angle beside that of the Gaussian mechanism with the same angle."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    eps = np.linspace(0, 6, 200)
    for theta, colour in ((0.1, BLUE), (0.5, RED)):
        mu = math.sqrt(-8 * math.log(math.cos(theta / 2)))  # cos(θ/2) = exp(−μ²/8)
        axes.semilogy(eps, RaoDP(theta).delta(eps), color=colour, label=f"any law of angle {theta}")
        axes.semilogy(eps, GDP(mu).delta(eps), "--", color=colour, label=f"Gaussian of angle {theta}")
        axes.axhline(math.sin(theta / 2) ** 2, color=colour, linestyle=":", linewidth=1)
    axes.set(xlabel="ε", ylabel="δ(ε)", ylim=(1e-12, 1), title="An angle alone leaves δ ≥ sin²(θ/2) (dotted)")
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(IMAGES / "rao.png", dpi=110)


def sensitivity() -> None:
    """The Fréchet mean's sensitivity on S², in units of 2r/n."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    n, sphere = 100, Sphere(2)
    radii = np.linspace(0.02, 1.1, 55)
    axes.plot(radii, [_ratio(sphere, r, n, "tight") for r in radii], color=RED, label="ours, proved")
    published = np.linspace(0.02, 0.78, 60)
    axes.plot(published, [_ratio(sphere, r, n, "reimherr") for r in published], color=BLUE, label="published")
    axes.plot(radii, np.tan(radii) / radii, "--", color=INK, label="what attacks approach: tan(r)/r")
    axes.axvline(math.pi / 4, color=GREY, linewidth=1, linestyle=":")
    axes.set(
        xlabel="radius of the public ball",
        ylabel="sensitivity / (2r/n)",
        ylim=(0.9, 6),
        title="How far one record moves the mean on S²",
    )
    axes.legend(frameon=False)
    figure.savefig(IMAGES / "sensitivity.png", dpi=110)


def _ratio(sphere: Sphere, radius: float, n: int, bound: str) -> float:
    return frechet_mean_sensitivity(sphere, radius, n, bound=bound) / (2 * radius / n)


def errata() -> None:
    """E1: the printed δ(ε) of the Gaussian on the circle, and the true one."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    profile, eps = gaussian_profile(1.0, 1, 2.0, 1.0), np.linspace(0, 0.66, 150)
    axes.plot(eps, profile.delta(eps), color=INK, linewidth=2, label="true")
    reach = math.pi / 8  # πΔ/2σ²: beyond it the printed formula says 0
    printed = [circle_gaussian_delta_printed(2.0, 1.0, e) if e <= reach else 0.0 for e in eps]
    axes.plot(eps, np.maximum(printed, 0), color=RED, linestyle="--", label="as printed (E1)")
    axes.fill_between(
        eps, np.maximum(printed, 0), profile.delta(eps), color=RED, alpha=0.12, label="leakage not stated"
    )
    axes.set(
        xlabel="ε", ylabel="δ(ε)", ylim=(0, None), xlim=(0, 0.66), title="Gaussian noise on the circle, σ = 2, Δ = 1"
    )
    axes.legend(frameon=False)
    figure.savefig(IMAGES / "errata-e1.png", dpi=110)


if __name__ == "__main__":
    plt.switch_backend("agg")
    rao()
    sensitivity()
    errata()
