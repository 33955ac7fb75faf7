"""Pictures of a release. They read the certificate and the released value only, never the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from curvedp.core.certificate import Certificate
from curvedp.inference import Region
from curvedp.inference.region import radii_of
from curvedp.privacy import GDP, Guarantee
from curvedp.report import canvas

_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
_DASHED: dict[str, Any] = {"color": canvas.WARM, "lw": 1.2, "ls": "--"}
_FILL: dict[str, Any] = {
    "facecolor": canvas.SOFT,
    "alpha": 0.45,
    "edgecolor": canvas.ACCENT,
    "lw": 1.5,
}


def region_figure(region: Region, value: np.ndarray | None = None) -> Figure:
    """A region where it lies, and the released value, which shrinkage and projection may have moved from its middle: on the
    sphere, in the disc, as tensors, or in coordinates. With more than two dimensions the picture is a section: by the first
    two coordinates at the middle, or by the first two axes of a tensor."""
    title = f"{100 * region.level:g}% region of the {region.of}"
    view, point = (
        canvas.view_of(region.manifold),
        region.center if value is None else np.asarray(value),
    )
    made, axes = canvas.figure(
        title, size=(5.2, 5.2) if view != "coordinates" else (5.6, 4.2)
    )
    draw = {
        "sphere": _on_sphere,
        "disc": _in_disc,
        "tensors": _tensors,
        "coordinates": _coordinates,
    }[view]
    return draw(made, axes, region, point)


def _edge(region: Region, count: int = 361) -> np.ndarray:
    """The boundary in the plane of the first two coordinates."""
    turn = np.linspace(0, 2 * np.pi, count)
    plane, dim = np.stack([np.cos(turn), np.sin(turn)], axis=1), region.manifold.dim
    return region.edge(
        np.pad(plane, ((0, 0), (0, dim - 2))) if dim > 1 else plane[:, :1]
    )


def _on_sphere(made: Figure, axes: Axes, region: Region, value: np.ndarray) -> Figure:
    frame = canvas.frame_at(region.center)
    canvas.sphere_grid(axes, frame)
    cap = _edge(region) @ frame.T
    if np.all(cap[:, 2] > 0):
        axes.fill(*cap[:, :2].T, **_FILL)
    else:
        canvas.seen(axes, cap, color=canvas.ACCENT, lw=1.5)
    canvas.seen(axes, value[None] @ frame.T, color=canvas.WARM, marker="o", ms=4, ls="")
    return _scaled(made, axes, _zoom(cap[:, :2]))


def _in_disc(made: Figure, axes: Axes, region: Region, value: np.ndarray) -> Figure:
    canvas.disc_grid(axes)
    edge = canvas.disc(region.manifold, _edge(region))
    axes.fill(*edge.T, **_FILL)
    axes.plot(*canvas.disc(region.manifold, value), "o", color=canvas.WARM, ms=4)
    middle, reach = edge.mean(axis=0), _zoom(edge - edge.mean(axis=0))
    return _scaled(made, axes, reach, middle if reach < 1 else (0.0, 0.0))


def _scaled(made: Figure, axes: Axes, reach: float, middle: Any = (0.0, 0.0)) -> Figure:
    """A square picture, with its width where it shows a part of the space."""
    if reach < 1:
        axes.set_title(
            f"{2 * reach:.2g} wide", loc="right", color=canvas.INK, fontsize="small"
        )
    return canvas.square(made, axes, reach, middle)


def _zoom(edge: np.ndarray) -> float:
    """Half the width of a picture in which the region is seen, and the space's own lines too where it is wide enough."""
    reach = float(np.max(np.abs(edge)))
    return min(1.05, max(0.3, 6 * reach) if reach > 0.02 else 4 * reach)


def _tensors(made: Figure, axes: Axes, region: Region, value: np.ndarray) -> Figure:
    """Between the innermost and the outermost ellipse, direction by direction, of tensors on the boundary."""
    turn = np.linspace(0, 2 * np.pi, 361)
    u = np.stack([np.cos(turn), np.sin(turn)])
    directions = np.random.default_rng(7).standard_normal((2000, region.manifold.dim))
    matrices = region.edge(
        directions / np.linalg.norm(directions, axis=1, keepdims=True)
    )[:, :2, :2]
    length = 1 / np.sqrt(np.einsum("at,kab,bt->kt", u, np.linalg.inv(matrices), u))
    outer, inner = u * length.max(axis=0), u * length.min(axis=0)
    axes.fill(
        *np.concatenate([outer, inner[:, ::-1]], axis=1),
        facecolor=canvas.SOFT,
        alpha=0.45,
        lw=0,
    )
    for curve in (outer, inner):
        axes.plot(*curve, color=canvas.ACCENT, lw=1.2)
    axes.add_patch(canvas.ellipse(value, edgecolor=canvas.WARM, lw=2.5))
    if len(value) > 2:
        axes.set_xlabel("section by the first two axes", color=canvas.INK)
    return canvas.square(made, axes, 1.15 * float(length.max()))


def _coordinates(made: Figure, axes: Axes, region: Region, value: np.ndarray) -> Figure:
    M, points = (
        region.manifold,
        np.stack([region.center, np.reshape(value, region.manifold.point_shape)]),
    )
    edge, shown = (
        np.asarray(M.normal_coordinates(region.center, part))
        for part in (_edge(region), points)
    )
    if M.dim == 1:
        axes.plot(edge[:, 0], np.zeros(len(edge)), color=canvas.ACCENT, lw=6, alpha=0.5)
        axes.plot(shown[1:, 0], [0.0], "o", color=canvas.WARM, ms=5)
        axes.set(yticks=[], xlabel=f"distance from {np.ravel(region.center)[0]:.6g}")
        return made
    axes.fill(*edge[:, :2].T, **_FILL)
    axes.plot(*shown[1:, :2].T, "o", color=canvas.WARM, ms=4)
    axes.set(aspect="equal", xlabel="first coordinate at its middle", ylabel="second")
    return made


def radius_figure(certificate: Certificate, components: int | None = None) -> Figure:
    """How wide the region is, by level."""
    words = "radius of the region", "probability that it holds the truth"
    made, axes = canvas.figure("How far can the truth be?", *words)
    axes.plot(
        radii_of(certificate, _LEVELS, components),
        _LEVELS,
        color=canvas.ACCENT,
        lw=3,
        marker="o",
        ms=4,
    )
    axes.set(xlim=(0, None), ylim=(0.45, 1.02))
    return made


def profile_figure(curve: Guarantee, mu: float) -> Figure:
    """δ(ε) of this release, beside the Euclidean Gaussian mechanism of the same μ."""
    made, axes = canvas.figure(
        "How likely is a loss above ε?", "privacy loss ε", "probability δ(ε)"
    )
    eps = np.linspace(0, max(1.0, 6 * mu + mu * mu / 2), 160)
    delta = np.asarray(curve.delta(eps))
    axes.semilogy(
        eps,
        np.where(delta > 0, delta, np.nan),
        color=canvas.ACCENT,
        lw=3,
        label="this release",
    )
    axes.semilogy(
        eps, GDP(mu).delta(eps), label=f"Euclidean Gaussian, μ = {mu:.3g}", **_DASHED
    )
    axes.set_ylim(1e-12, 1.5)
    axes.legend(loc="upper right", frameon=False, labelcolor=canvas.INK)
    return made


def tradeoff_figure(curve: Guarantee, mu: float) -> Figure:
    """The best an attacker can do: type II against type I error."""
    made, axes = canvas.figure(
        "Can an attacker tell one person's record?", "false alarms", "misses"
    )
    alpha = np.linspace(0, 1, 201)
    least = np.asarray(curve.tradeoff(alpha))
    axes.plot(alpha, 1 - alpha, color=canvas.INK, lw=1, ls=":", label="guessing")
    axes.plot(alpha, least, color=canvas.ACCENT, lw=3, label="this release")
    axes.plot(
        alpha,
        GDP(mu).tradeoff(alpha),
        label=f"Euclidean Gaussian, μ = {mu:.3g}",
        **_DASHED,
    )
    axes.fill_between(alpha, least, 1 - alpha, color=canvas.SOFT, alpha=0.35, lw=0)
    axes.set_aspect("equal")
    axes.legend(loc="upper right", frameon=False, labelcolor=canvas.INK)
    return made


def budget_figure(
    spent: Guarantee | None, budget: Guarantee, labels: list[str]
) -> Figure:
    """How much of the ledger's budget is gone, as a share of the additive cost."""
    made, axes = canvas.figure(f"Budget {budget}", size=(11.2, 1.1))
    share = 0.0
    if spent is not None:  # of the additive cost
        powers = {"mu": 2, "theta": 2, "rho": 1, "eps": 1}
        name = next(name for name in powers if hasattr(budget, name))
        share = float((getattr(spent, name) / getattr(budget, name)) ** powers[name])
    axes.barh([0], [1.0], color=canvas.TRACK, height=0.5)
    axes.barh([0], [share], color=canvas.ACCENT, height=0.5)
    releases = "1 release" if len(labels) == 1 else f"{len(labels)} releases"
    place, side, color = (
        (share - 0.01, "right", "white")
        if share > 0.5
        else (share + 0.01, "left", canvas.INK)
    )
    axes.text(
        place,
        0,
        f"{100 * share:.1f}% spent in {releases}",
        va="center",
        ha=side,
        color=color,
    )
    axes.set_xlim(0, 1)
    axes.axis("off")
    return made


def plan_figure(
    study: Any,
    by_n: Sequence[tuple[float, float]],
    by_mu: Sequence[tuple[float, float]],
) -> Figure:
    """What a `Plan` predicts: error against the number of records and against μ, and where the public center is as good."""
    made = Figure(figsize=(9.6, 3.8), layout="constrained", facecolor="none")
    panels = made.subplots(1, 2, sharey=True)
    for axes, points, name in zip(panels, (by_n, by_mu), ("records", "μ"), strict=True):
        axes.loglog(
            *zip(*points, strict=True), color=canvas.ACCENT, lw=2.5, marker="o", ms=4
        )
        axes.axhline(study.useless, label="the public center is as good", **_DASHED)
        axes.set_xticks([x for x, _ in points], labels=[f"{x:g}" for x, _ in points])
        axes.minorticks_off()
        axes.set_xlabel(name, color=canvas.INK)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].plot([study.n], [study.error], "o", color=canvas.WARM, ms=7)
    panels[0].set_ylabel("predicted distance to the mean", color=canvas.INK)
    panels[1].legend(loc="lower left", frameon=False, labelcolor=canvas.INK)
    made.suptitle(study.title, color=canvas.INK, fontsize=11)
    return made
