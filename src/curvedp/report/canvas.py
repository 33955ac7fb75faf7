"""What pictures on curved spaces share: colors, the sphere seen from a point, the Poincaré disc, tensors as ellipses."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Ellipse

from curvedp.geometry import Lorentz, Manifold, PoincareBall, Sphere
from curvedp.geometry.capabilities import ScalableCone

INK, ACCENT, SOFT, WARM = "#1d2b3a", "#0b6e99", "#9ec9d9", "#d1603d"
PANEL, LINES, TRACK = "#f3f7f9", "#c4d3db", "#e8eef2"
_TURN = np.linspace(0, 2 * np.pi, 361)


def view_of(manifold: Manifold) -> str:
    """How its points are drawn: on the "sphere", in the "disc", as "tensors", or by "coordinates"."""
    if isinstance(manifold, Sphere) and manifold.dim == 2:
        return "sphere"
    if isinstance(manifold, PoincareBall | Lorentz) and manifold.dim == 2:
        return "disc"
    cone = (
        isinstance(manifold, ScalableCone)
        and len(manifold.point_shape) == 2
        and manifold.point_shape[0] >= 2
    )
    real = (
        cone and np.asarray(manifold.origin).dtype.kind == "f"
    )  # all positive definite matrices of at least 2×2
    return "tensors" if real else "coordinates"


def figure(
    title: str, x: str = "", y: str = "", size: tuple[float, float] = (5.6, 4.2)
) -> tuple[Figure, Axes]:
    """An empty one in our colors."""
    made = Figure(figsize=size, layout="constrained", facecolor="none")
    axes = made.add_subplot()
    axes.set_title(title, loc="left", color=INK, fontsize=11)
    axes.set_facecolor("none")
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.tick_params(which="both", color=INK, labelcolor=INK)
    axes.spines[:].set_color(INK)
    axes.spines[["top", "right"]].set_visible(False)
    return made, axes


def square(made: Figure, axes: Axes, reach: float, middle: Any = (0.0, 0.0)) -> Figure:
    """[-reach, reach]² about the middle, without axes."""
    x, y = middle
    axes.set(
        xlim=(x - reach, x + reach),
        ylim=(y - reach, y + reach),
        aspect="equal",
        xticks=[],
        yticks=[],
    )
    axes.spines[:].set_visible(False)
    return made


def frame_at(axis: np.ndarray) -> np.ndarray:
    """Rows: an orthonormal frame whose third axis is the given one and whose second points north as far as it can."""
    axis = axis / np.linalg.norm(axis)
    north = (
        np.array([0.0, 0.0, 1.0]) if abs(axis[2]) < 0.95 else np.array([0.0, 1.0, 0.0])
    )
    second = north - (north @ axis) * axis
    second /= np.linalg.norm(second)
    return np.stack([np.cross(second, axis), second, axis])


def sphere_grid(axes: Axes, frame: np.ndarray) -> None:
    """The sphere with its meridians, orthographic, seen along the frame's third axis."""
    axes.add_patch(Circle((0, 0), 1, facecolor=PANEL, edgecolor=INK, lw=1))
    cos, sin = np.cos(_TURN), np.sin(_TURN)
    for angle in np.radians(np.arange(-75, 90, 15)):
        ring = np.stack(
            [
                np.cos(angle) * cos,
                np.cos(angle) * sin,
                np.full_like(sin, np.sin(angle)),
            ],
            -1,
        )
        seen(axes, ring @ frame.T, color=LINES, lw=0.6)
    for angle in np.radians(np.arange(0, 180, 15)):
        ring = np.stack([cos * np.cos(angle), cos * np.sin(angle), sin], -1)
        seen(axes, ring @ frame.T, color=LINES, lw=0.6)


def seen(axes: Axes, curve: np.ndarray, **style: Any) -> None:
    """A curve on the sphere; what is behind is left out."""
    axes.plot(*np.where(curve[:, 2:] > 0, curve[:, :2], np.nan).T, **style)


def disc(manifold: Manifold, points: np.ndarray) -> np.ndarray:
    """Points of the Poincaré disc; the hyperboloid is projected onto it stereographically."""
    return (
        np.asarray(points[..., 1:] / (1 + points[..., :1]))
        if isinstance(manifold, Lorentz)
        else points
    )


def disc_grid(axes: Axes) -> None:
    """The disc, with circles of hyperbolic radius 1, 2, …"""
    axes.add_patch(Circle((0, 0), 1, facecolor=PANEL, edgecolor=INK, lw=1))
    for distance in range(1, 6):
        axes.add_patch(
            Circle((0, 0), np.tanh(distance / 2), fill=False, edgecolor=LINES, lw=0.6)
        )


def ellipse(matrix: np.ndarray, **style: Any) -> Ellipse:
    """A positive definite matrix, its section by the first two axes."""
    values, vectors = np.linalg.eigh(matrix[:2, :2])
    width, height = 2 * np.sqrt(values)
    angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
    return Ellipse((0, 0), width, height, angle=angle, fill=False, **style)
