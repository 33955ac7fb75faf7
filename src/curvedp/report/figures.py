"""Pictures of a release. They read the certificate and the released value only, never the data."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Ellipse

from curvedp.geometry import Lorentz, Manifold, PoincareBall, Sphere, project_to_ball
from curvedp.geometry.manifolds.spd_affine import (
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
)
from curvedp.mechanisms.base import ValueMechanism
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.verify import rebuild_mechanism
from curvedp.privacy import GDP, Guarantee

__all__ = [
    "Cloud",
    "budget_figure",
    "curve_of",
    "error_figure",
    "noise_figure",
    "profile_figure",
    "simulate_cloud",
    "tradeoff_figure",
]

INK, ACCENT, SOFT, WARM = "#1d2b3a", "#0b6e99", "#9ec9d9", "#d1603d"
PANEL, LINES, TRACK = "#f3f7f9", "#c4d3db", "#e8eef2"
_DRAWS, _SHOWN = 2000, 800
_SPD = (SPDAffineInvariant, SPDLogEuclidean, SPDLogCholesky, SPDBuresWasserstein)


@dataclass(frozen=True)
class Cloud:
    """Simulated releases of a statistic that sits where the released value is, and their distances to it."""

    manifold: Manifold
    points: np.ndarray
    distances: np.ndarray


def curve_of(certificate: Certificate) -> Guarantee:
    """The release's whole privacy profile."""
    profile: Guarantee = rebuild_mechanism(certificate).profile
    return profile


def simulate_cloud(certificate: Certificate, value: np.ndarray) -> Cloud | None:
    """What would have been released had the statistic been the released value (public seed: post-processing). None where
    the noise depends on more than the certificate says."""
    mechanism, rng = rebuild_mechanism(certificate), np.random.default_rng(7)
    manifold, statistic = mechanism.manifold, mechanism.statistic
    if np.shape(value) != manifold.point_shape:
        return None
    if not mechanism.staged and hasattr(mechanism, "simulate"):
        home = statistic.unplaced(np.asarray(value))
        about = home if isinstance(mechanism, ValueMechanism) else home[None]
        points = statistic.placed(mechanism.finished(mechanism.simulate(rng, about, _DRAWS)))
    elif mechanism.staged and "noise_left" in certificate.release["stages"][-1]:
        left = float(certificate.release["stages"][-1]["noise_left"])
        z = left * rng.standard_normal((_DRAWS, manifold.dim))
        points = np.asarray(manifold.unchart(value, z))
        points = np.asarray(project_to_ball(manifold, statistic.center, statistic.radius, points))
    else:
        return None
    return Cloud(manifold, points, np.asarray(manifold.dist(value, points)))


def profile_figure(curve: Guarantee, mu: float) -> Figure:
    """δ(ε) of this release, beside the Euclidean Gaussian mechanism of the same μ."""
    figure, axes = _figure("How likely is a loss above ε?", "privacy loss ε", "probability δ(ε)")
    eps = np.linspace(0, max(1.0, 6 * mu + mu * mu / 2), 160)
    delta = np.asarray(curve.delta(eps))
    axes.semilogy(eps, np.where(delta > 0, delta, np.nan), color=ACCENT, lw=3, label="this release")
    axes.semilogy(eps, GDP(mu).delta(eps), color=WARM, lw=1.2, ls="--", label=f"Euclidean Gaussian, μ = {mu:.3g}")
    axes.set_ylim(1e-12, 1.5)
    axes.legend(frameon=False, labelcolor=INK)
    return figure


def tradeoff_figure(curve: Guarantee, mu: float) -> Figure:
    """The best an attacker can do: type II against type I error."""
    figure, axes = _figure("Can an attacker tell one person's record?", "false alarms", "misses")
    alpha = np.linspace(0, 1, 201)
    least = np.asarray(curve.tradeoff(alpha))
    axes.plot(alpha, 1 - alpha, color=INK, lw=1, ls=":", label="guessing")
    axes.plot(alpha, least, color=ACCENT, lw=3, label="this release")
    axes.plot(alpha, GDP(mu).tradeoff(alpha), color=WARM, lw=1.2, ls="--", label=f"Euclidean Gaussian, μ = {mu:.3g}")
    axes.fill_between(alpha, least, 1 - alpha, color=SOFT, alpha=0.35, lw=0)
    axes.set_aspect("equal")
    axes.legend(frameon=False, labelcolor=INK)
    return figure


def error_figure(cloud: Cloud) -> Figure:
    """How far from the statistic a release falls."""
    figure, axes = _figure("How far is the release from the true mean?", "Riemannian distance", "")
    axes.hist(cloud.distances, bins=60, color=SOFT, edgecolor="white", lw=0.4)
    mean = float(cloud.distances.mean())
    axes.axvline(mean, color=ACCENT, lw=2)
    axes.annotate(
        f"mean {mean:.3g}", (mean, axes.get_ylim()[1] * 0.92), xytext=(6, 0), textcoords="offset points", color=INK
    )
    axes.set_yticks([])
    return figure


def budget_figure(spent: Guarantee | None, budget: Guarantee, labels: list[str]) -> Figure:
    """How much of the ledger's budget is gone, as a share of the additive cost."""
    figure, axes = _figure(f"Budget {budget}", "", "", size=(11.2, 1.1))
    share = 0.0 if spent is None else _share(spent, budget)
    axes.barh([0], [1.0], color=TRACK, height=0.5)
    axes.barh([0], [share], color=ACCENT, height=0.5)
    releases = "1 release" if len(labels) == 1 else f"{len(labels)} releases"
    inside = share > 0.5
    axes.text(
        share - 0.01 if inside else share + 0.01,
        0,
        f"{100 * share:.1f}% spent in {releases}",
        va="center",
        ha="right" if inside else "left",
        color="white" if inside else INK,
    )
    axes.set_xlim(0, 1)
    axes.axis("off")
    axes.set_title(f"Budget {budget}", loc="left", color=INK, fontsize=11)
    return figure


def noise_figure(value: np.ndarray, cloud: Cloud) -> Figure:
    """The noise drawn where it lives: on the sphere, in the Poincaré disc, as tensor ellipsoids, or by distance."""
    manifold, points = cloud.manifold, cloud.points[:_SHOWN]
    if isinstance(manifold, Sphere) and manifold.dim == 2:
        return _on_sphere(value, points)
    if isinstance(manifold, PoincareBall | Lorentz) and manifold.dim == 2:
        if isinstance(manifold, Lorentz):
            return _in_disc(_to_disc(value), _to_disc(points))
        return _in_disc(value, points)
    if isinstance(manifold, _SPD) and manifold.m >= 2:
        return _ellipses(value, points)
    figure, axes = _figure(f"Noise about the release on {manifold}", "first coordinate at the release", "second")
    coordinates = np.asarray(manifold.chart(value, points))
    second = coordinates[:, 1] if coordinates.shape[1] > 1 else np.zeros(len(coordinates))
    axes.scatter(coordinates[:, 0], second, s=4, color=ACCENT, alpha=0.35, lw=0)
    axes.plot(0, 0, "o", color=WARM, ms=4)
    return figure


def _on_sphere(value: np.ndarray, points: np.ndarray) -> Figure:
    figure, axes = _figure("Noise on the sphere, seen from above the release", "", "", size=(5.2, 5.2))
    frame = _frame(value)
    seen = points @ frame.T
    front = seen[:, 2] > 0
    axes.add_patch(Circle((0, 0), 1, facecolor=PANEL, edgecolor=INK, lw=1))
    for latitude in np.radians(np.arange(-75, 90, 15)):
        t = np.linspace(0, 2 * np.pi, 361)
        ring = np.stack(
            [np.cos(latitude) * np.cos(t), np.cos(latitude) * np.sin(t), np.full_like(t, np.sin(latitude))], -1
        )
        _hidden_line(axes, ring @ frame.T)
    for longitude in np.radians(np.arange(0, 180, 15)):
        t = np.linspace(0, 2 * np.pi, 361)
        ring = np.stack([np.cos(t) * np.cos(longitude), np.cos(t) * np.sin(longitude), np.sin(t)], -1)
        _hidden_line(axes, ring @ frame.T)
    axes.scatter(seen[front, 0], seen[front, 1], s=5, color=ACCENT, alpha=0.4, lw=0)
    axes.plot(0, 0, "o", color=WARM, ms=4)
    return _square(figure, axes, 1.05)


def _hidden_line(axes: Axes, curve: np.ndarray) -> None:
    visible = np.where(curve[:, 2:] > 0, curve[:, :2], np.nan)
    axes.plot(*visible.T, color=LINES, lw=0.6)


def _to_disc(x: np.ndarray) -> np.ndarray:
    """Stereographic projection of the hyperboloid onto the Poincaré disc."""
    disc: np.ndarray = x[..., 1:] / (1 + x[..., :1])
    return disc


def _in_disc(value: np.ndarray, points: np.ndarray) -> Figure:
    figure, axes = _figure("Noise in the Poincaré disc", "", "", size=(5.2, 5.2))
    axes.add_patch(Circle((0, 0), 1, facecolor=PANEL, edgecolor=INK, lw=1))
    for distance in range(1, 6):  # circles of hyperbolic radius 1, 2, …
        axes.add_patch(Circle((0, 0), np.tanh(distance / 2), fill=False, edgecolor=LINES, lw=0.6))
    axes.scatter(points[:, 0], points[:, 1], s=5, color=ACCENT, alpha=0.4, lw=0)
    axes.plot(*value, "o", color=WARM, ms=4)
    return _square(figure, axes, 1.05)


def _ellipses(value: np.ndarray, points: np.ndarray) -> Figure:
    figure, axes = _figure("The released tensor, and noisy ones around it", "", "", size=(5.2, 5.2))
    for matrix in points[:60]:
        axes.add_patch(_ellipse(matrix, edgecolor=ACCENT, alpha=0.25, lw=0.8))
    axes.add_patch(_ellipse(value, edgecolor=WARM, lw=2.5))
    reach = 1.15 * np.sqrt(np.max(np.linalg.eigvalsh(np.concatenate([points[:60], value[None]])[:, :2, :2])))
    if len(value) > 2:
        axes.set_xlabel("section by the first two axes", color=INK)
    return _square(figure, axes, float(reach))


def _ellipse(matrix: np.ndarray, **style: object) -> Ellipse:
    values, vectors = np.linalg.eigh(matrix[:2, :2])
    width, height = 2 * np.sqrt(values)
    return Ellipse(
        (0, 0), width, height, angle=np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])), fill=False, **style
    )


def _share(spent: Guarantee, budget: Guarantee) -> float:
    for name, power in (("mu", 2), ("theta", 2), ("rho", 1), ("eps", 1)):
        if hasattr(budget, name):
            return float((getattr(spent, name) / getattr(budget, name)) ** power)
    raise TypeError(f"{budget!r} has no cost")


def _frame(axis: np.ndarray) -> np.ndarray:
    """Rows: an orthonormal frame whose third axis is the given one and whose second points north as far as it can."""
    north = np.array([0.0, 0.0, 1.0]) if abs(axis[2]) < 0.95 else np.array([0.0, 1.0, 0.0])
    second = north - (north @ axis) * axis
    second /= np.linalg.norm(second)
    return np.stack([np.cross(second, axis), second, axis])


def _figure(title: str, x: str, y: str, size: tuple[float, float] = (5.6, 4.2)) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", color=INK, fontsize=11)
    axes.set_facecolor("none")
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.tick_params(which="both", color=INK, labelcolor=INK)
    axes.spines[:].set_color(INK)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _square(figure: Figure, axes: Axes, reach: float) -> Figure:
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    return figure
