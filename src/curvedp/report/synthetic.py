"""A picture of synthetic records, and of the real ones beside them.

The picture of synthetic records is made of released numbers alone. With the real ones
beside them it is private: it is for the eyes of those who may see the data.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from curvedp.geometry import Torus
from curvedp.geometry.manifold import Manifold
from curvedp.report import canvas
from curvedp.statistics.tangent_vectors import logs_at

# No more records are drawn.
_MAX_DRAWN = 2000
# Half the side of a picture, in radii, from which nearly all of a globe is seen.
_WHOLE_GLOBE = 0.8
# No globe is seen from nearer: parallels are a degree apart.
_SMALLEST_HALF_WIDTH = 0.04
_CLASS_COLORS = (canvas.ACCENT, canvas.WARM, canvas.INK, canvas.SOFT)


@canvas.own_style()
def synthetic_figure(
    manifold: Manifold,
    base: np.ndarray,
    synthetic: np.ndarray,
    class_index: np.ndarray,
    real: np.ndarray | None = None,
) -> Figure:
    """Draw synthetic records, and real ones beside them if they are given.

    Directions are drawn on a globe that is seen from above the base point, points of
    the hyperbolic plane in the disk, two angles in a square. Elsewhere the axes are the
    first two principal directions of the synthetic records' logarithms.

    Parameters
    ----------
    manifold : Manifold
    base : array of shape point_shape
        A public point amid the records.
    synthetic : array, shape (n, *point_shape)
    class_index : array of int, shape (n,)
        The class of each synthetic record, which decides about its color.
    real : array, shape (m, *point_shape), optional
        NOT private.
    """
    n_panels = 1 if real is None else 2
    figure = Figure(figsize=(4.4 * n_panels, 4.6), layout="constrained")
    panels = figure.subplots(1, n_panels, squeeze=False)[0]
    place = _placement(manifold, base, synthetic)
    drawn = synthetic[:_MAX_DRAWN]
    colors: Any = [
        _CLASS_COLORS[k % len(_CLASS_COLORS)] for k in class_index[:_MAX_DRAWN]
    ]
    samples: list[tuple[np.ndarray, Any, str]]
    samples = [(drawn, colors, f"synthetic records ({len(drawn)} drawn)")]
    if real is not None:
        shown = np.asarray(manifold.from_record(real[:_MAX_DRAWN]))
        samples.append((shown, canvas.INK, "real records: NOT private, do not publish"))

    half_width = 1.15 * float(np.max(np.abs(place(drawn))))
    for axes, (points, color, title) in zip(panels, samples, strict=True):
        _draw_background(axes, manifold, base, half_width)
        axes.scatter(*place(points).T, s=5, c=color, alpha=0.6, linewidths=0, zorder=3)
        axes.set_title(title, loc="left", color=canvas.INK, fontsize=9)
    return figure


def _placement(manifold: Manifold, base: np.ndarray, synthetic: np.ndarray) -> Any:
    """Return the function that maps points to places in the picture, shape (n, 2).

    Parameters
    ----------
    manifold : Manifold
    base : array of shape point_shape
    synthetic : array, shape (n, *point_shape)
        They decide about the axes, never the real ones.
    """
    view = canvas.view_of(manifold)
    if view == "sphere":
        frame = canvas.viewing_frame(base)

        def on_globe(points: np.ndarray) -> np.ndarray:
            turned = points @ frame.T
            return np.where(turned[:, 2:] > 0, turned[:, :2], np.nan)

        return on_globe
    if view == "disc":
        return lambda points: canvas.to_poincare_disc(manifold, points)
    if isinstance(manifold, Torus) and manifold.dim == 2:
        return lambda points: np.degrees(points)

    logs = logs_at(manifold, base, synthetic)
    mean = logs.mean(axis=0)
    _, directions = np.linalg.eigh(np.cov(logs.T).reshape(manifold.dim, -1))
    axes = directions[:, ::-1][:, :2]

    def along_directions(points: np.ndarray) -> np.ndarray:
        places = (logs_at(manifold, base, points) - mean) @ axes
        if places.shape[1] == 1:
            places = np.column_stack([places, np.zeros(len(places))])
        return np.asarray(places)

    return along_directions


def _draw_background(
    axes: Axes, manifold: Manifold, base: np.ndarray, half_width: float
) -> None:
    """Draw a globe, a disk or axes, so that all panels show the same part.

    Parameters
    ----------
    axes : Axes
    manifold : Manifold
    base : array of shape point_shape
    half_width : float
        Half the side of the part that is shown.
    """
    view = canvas.view_of(manifold)
    axes.set_facecolor("none")
    if view == "sphere":
        half_width = min(max(half_width, _SMALLEST_HALF_WIDTH), 1.05)
        frame = canvas.viewing_frame(base)
        canvas.draw_sphere_background(axes)
        if half_width < _WHOLE_GLOBE:
            canvas.label_graticule(axes, frame, half_width)
        else:  # degrees would be written over each other at the poles
            canvas.draw_sphere_grid(axes, frame)
        canvas.show_square(axes, half_width)
    elif view == "disc":
        canvas.draw_disc_grid(axes)
        canvas.show_square(axes, 1.05)
    else:
        is_torus = isinstance(manifold, Torus) and manifold.dim == 2
        size = 180.0 if is_torus else half_width
        names = (
            ("first angle, degrees", "second angle")
            if is_torus
            else (
                "along the first direction",
                "along the second",
            )
        )
        axes.set(xlim=(-size, size), ylim=(-size, size), aspect="equal")
        axes.set_xlabel(names[0], color=canvas.INK)
        axes.set_ylabel(names[1], color=canvas.INK)
        axes.tick_params(color=canvas.INK, labelcolor=canvas.INK)
        axes.spines[["top", "right"]].set_visible(False)
