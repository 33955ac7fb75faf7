"""A picture of synthetic records, and of the real ones beside them.
The picture of synthetic records is made of released numbers alone. With the real ones
beside them it is private: it is for the eyes of those who may see the data.
"""

from typing import Any, NamedTuple

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
        The manifold of the points.
    base : array of shape point_shape
        A public point amid the records, from above which a globe is seen.
    synthetic : array, shape (n, *point_shape)
        The synthetic records.
    class_index : array of int, shape (n,)
        The class of each synthetic record, which decides about its color.
    real : array, shape (m, *point_shape), optional
        The real records. A picture with them is NOT private.

    Returns
    -------
    Figure
        One panel, or two of the same part of the space.
    """
    n_panels = 1 if real is None else 2
    figure = Figure(figsize=(4.4 * n_panels, 4.6), layout="constrained")
    panels = figure.subplots(1, n_panels, squeeze=False)[0]
    projection = _projection_of(manifold, base, synthetic)
    drawn = synthetic[:_MAX_DRAWN]
    colors: Any = [
        _CLASS_COLORS[k % len(_CLASS_COLORS)] for k in class_index[:_MAX_DRAWN]
    ]
    samples: list[tuple[np.ndarray, Any, str]]
    samples = [(drawn, colors, f"synthetic records ({len(drawn)} drawn)")]
    if real is not None:
        shown = np.asarray(manifold.from_record(real[:_MAX_DRAWN]))
        samples.append((shown, canvas.INK, "real records: NOT private, do not publish"))

    half_width = 1.15 * float(np.max(np.abs(projection.places(drawn))))
    for axes, (points, color, title) in zip(panels, samples, strict=True):
        _draw_background(axes, manifold, base, half_width)
        x, y = projection.places(points).T
        axes.scatter(x, y, s=5, c=color, alpha=0.6, linewidths=0, zorder=3)
        axes.set_title(title, loc="left", color=canvas.INK, fontsize=9)
    return figure


class _Projection(NamedTuple):
    """How points of a manifold are mapped to the plane of a picture.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    base : array of shape point_shape
        A public point amid the records.
    mean : array, shape (dim,)
        The mean logarithm of the synthetic records at the base point.
    directions : array, shape (dim, 1) or (dim, 2)
        The first principal directions of these logarithms, in columns. Globes, disks
        and squares of angles need neither.
    """

    manifold: Manifold
    base: np.ndarray
    mean: np.ndarray
    directions: np.ndarray

    def places(self, points: np.ndarray) -> np.ndarray:
        """Return where points are drawn.

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            Points of the manifold.

        Returns
        -------
        array, shape (n, 2)
            Coordinates in the picture; NaN for a point on the far side of the globe.
        """
        view = canvas.view_of(self.manifold)
        if view == "sphere":
            turned = points @ canvas.viewing_frame(self.base).T
            return np.where(turned[:, 2:] > 0, turned[:, :2], np.nan)
        if view == "disc":
            return canvas.to_poincare_disc(self.manifold, points)
        if _is_pair_of_angles(self.manifold):
            return np.asarray(np.degrees(points))

        logs = logs_at(self.manifold, self.base, points)
        places = (logs - self.mean) @ self.directions
        if places.shape[1] == 1:
            places = np.column_stack([places, np.zeros(len(places))])
        return np.asarray(places)


def _projection_of(
    manifold: Manifold, base: np.ndarray, synthetic: np.ndarray
) -> _Projection:
    """Return the projection that shows the directions in which records vary most.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    base : array of shape point_shape
        A public point amid the records.
    synthetic : array, shape (n, *point_shape)
        The synthetic records. They decide about the axes, never the real ones.

    Returns
    -------
    _Projection
        The mapping to the plane, the same for all panels.
    """
    has_own_picture = canvas.view_of(manifold) in ("sphere", "disc")
    if has_own_picture or _is_pair_of_angles(manifold):
        return _Projection(manifold, base, np.zeros(0), np.zeros((0, 2)))
    logs = logs_at(manifold, base, synthetic)
    _, directions = np.linalg.eigh(np.cov(logs.T).reshape(manifold.dim, -1))
    # NumPy sorts eigenvalues from small to large; the first directions are last.
    return _Projection(manifold, base, logs.mean(axis=0), directions[:, ::-1][:, :2])


def _is_pair_of_angles(manifold: Manifold) -> bool:
    """Return whether points are two angles, which are drawn in a square.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    """
    return isinstance(manifold, Torus) and manifold.dim == 2


def _draw_background(
    axes: Axes, manifold: Manifold, base: np.ndarray, half_width: float
) -> None:
    """Draw a globe, a disk or axes, so that all panels show the same part.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    manifold : Manifold
        The manifold of the points.
    base : array of shape point_shape
        A public point amid the records.
    half_width : float
        Half the side of the part that is shown.
    """
    view = canvas.view_of(manifold)
    axes.set_facecolor("none")
    if view == "sphere":
        _draw_globe(axes, base, half_width)
    elif view == "disc":
        canvas.draw_disc_grid(axes)
        canvas.show_square(axes, 1.05)
    elif _is_pair_of_angles(manifold):
        _draw_plane(axes, 180.0, "first angle, degrees", "second angle")
    else:
        _draw_plane(axes, half_width, "along the first direction", "along the second")


def _draw_globe(axes: Axes, base: np.ndarray, half_width: float) -> None:
    """Draw the part of a globe around a point, or all of it if that is most of it.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    base : array of shape (3,)
        The point of the sphere that is seen from above.
    half_width : float
        Half the width of the part, as a length in the plane of the picture.
    """
    half_width = min(max(half_width, _SMALLEST_HALF_WIDTH), 1.05)
    frame = canvas.viewing_frame(base)
    canvas.draw_sphere_background(axes)
    if half_width < _WHOLE_GLOBE:
        canvas.label_graticule(axes, frame, half_width)
    else:  # degrees would be written over each other at the poles
        canvas.draw_sphere_grid(axes, frame)
    canvas.show_square(axes, half_width)


def _draw_plane(axes: Axes, half_width: float, x_label: str, y_label: str) -> None:
    """Draw the axes of a square of the plane around 0.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    half_width : float
        Half the width of the square.
    x_label, y_label : str
        The labels of the two axes.
    """
    limits = (-half_width, half_width)
    axes.set(xlim=limits, ylim=limits, aspect="equal")
    axes.set_xlabel(x_label, color=canvas.INK)
    axes.set_ylabel(y_label, color=canvas.INK)
    axes.tick_params(color=canvas.INK, labelcolor=canvas.INK)
    axes.spines[["top", "right"]].set_visible(False)
