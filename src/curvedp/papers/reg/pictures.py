"""Pictures of geodesic regression: the data, the fitted geodesic and private geodesics,
drawn on the manifold where they live.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from curvedp.errors import ParameterError
from curvedp.geometry import KendallShapes
from curvedp.geometry.manifold import Manifold
from curvedp.report.canvas import (
    INK,
    LINES,
    draw_disc_grid,
    draw_sphere_grid,
    draw_visible_curve,
    show_square,
    tensor_ellipse,
    to_poincare_disc,
    view_of,
    viewing_frame,
)

# Colors of the geodesics, in the order in which they are passed.
_COLORS = ("#1d2b3a", "#d1603d", "#2e8b57", "#8e5ea2")
# Color of the data, and colors of data by their predictor.
_DATA_COLOR = "#0b6e99"
_AGES = LinearSegmentedColormap.from_list("ages", ["#a9d3e2", "#064a68"])
# The number of shapes or ellipses in a strip.
_STRIP = 6


def plot_geodesic(manifold: Manifold, x: Any, Y: Any, **geodesics: Any) -> Figure:
    """Draw data and any number of geodesics where they live. NOT private if it has data.

    Directions are drawn on a sphere, hyperbolic points in the Poincaré disc, planar
    shapes and SPD matrices as strips of shapes and ellipses, and other points coordinate
    by coordinate against the predictor.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    x : array of shape (n,)
        The predictor; without data, any two values that span its range.
    Y : array of shape (n, *point_shape), or None
        The responses. With None the picture has the geodesics alone, and is
        post-processing if they are private.
    **geodesics : objects with `predict`
        Fits such as a `GeodesicFit` or a private model, by the names of their labels.

    Returns
    -------
    Figure
        The picture.

    Raises
    ------
    ParameterError
        If x and Y do not fit each other and the manifold.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.regression import fit_geodesic
    >>> M, x = Sphere(2), np.linspace(0, 1, 20)
    >>> Y = M.exp(M.origin, x[:, None] * np.array([0.0, 0.8, 0.3]))
    >>> figure = plot_geodesic(M, x, Y, fitted=fit_geodesic(M, x, Y))
    """
    x = np.asarray(x, dtype=np.float64).reshape(-1)
    points = None if Y is None else np.asarray(Y, dtype=np.float64)
    if len(x) < 2 or (
        points is not None and points.shape != (len(x), *manifold.point_shape)
    ):
        raise ParameterError(
            f"x of shape {x.shape} and Y of shape {np.shape(Y)} do not fit {manifold!r}"
        )
    view = view_of(manifold)
    if view == "sphere":
        return _on_sphere(x, points, geodesics)
    if view == "disc":
        return _in_disc(manifold, x, points, geodesics)
    if isinstance(manifold, KendallShapes):
        return _strips(manifold, x, points, geodesics, _draw_shape)
    if view == "tensors":
        return _strips(manifold, x, points, geodesics, _draw_ellipse)
    return _coordinates(manifold, x, points, geodesics)


def _curves(
    x: np.ndarray, geodesics: dict[str, Any], count: int = 200
) -> dict[str, np.ndarray]:
    """Return points along each geodesic, over the range of the predictor.

    Parameters
    ----------
    x : array of shape (n,)
        Predictors.
    geodesics : dict
        Objects with `predict`, by name.
    count : int
        The number of points of each.
    """
    times = np.linspace(x.min(), x.max(), count)
    return {name: np.asarray(model.predict(times)) for name, model in geodesics.items()}


def _on_sphere(
    x: np.ndarray, Y: np.ndarray | None, geodesics: dict[str, Any]
) -> Figure:
    """Draw on the unit sphere in orthographic projection.

    The viewer is above the middle of all curves and points. Parts on the far side are
    left out.

    Parameters
    ----------
    x : array of shape (n,)
        Predictors.
    Y : array of shape (n, 3), or None
        Responses.
    geodesics : dict
        Objects with `predict`, by name.
    """
    curves = _curves(x, geodesics)
    point_sets = list(curves.values())
    if Y is not None:
        point_sets.append(Y)
    frame = viewing_frame(np.mean([part.mean(axis=0) for part in point_sets], axis=0))
    figure, axes = _canvas()
    draw_sphere_grid(axes, frame)

    # Columns 0 and 1 in this frame are in the plane of the picture, column 2 points to
    # the viewer.
    distances = [np.hypot(*(part @ frame.T)[:, :2].T) for part in point_sets]
    reach = max(float(np.max(part)) for part in distances)
    if Y is not None:
        points = Y @ frame.T
        front = points[:, 2] > 0
        _scatter(figure, axes, points[front, :2], x[front])
    for color, (name, curve) in zip(_COLORS, curves.items(), strict=False):
        draw_visible_curve(axes, curve @ frame.T, color=color, lw=2.2, label=name)
        _start(axes, (curve @ frame.T)[0, :2], color)
    return _finish(figure, axes, min(1.05, 1.25 * reach))


def _in_disc(
    manifold: Manifold, x: np.ndarray, Y: np.ndarray | None, geodesics: dict[str, Any]
) -> Figure:
    """Draw points and geodesics of a hyperbolic plane in the Poincaré disc.

    Parameters
    ----------
    manifold : Manifold
        A hyperbolic plane in any coordinates.
    x : array of shape (n,)
        Predictors.
    Y : array of shape (n, *point_shape), or None
        Responses.
    geodesics : dict
        Objects with `predict`, by name.
    """
    figure, axes = _canvas()
    draw_disc_grid(axes)
    if Y is not None:
        _scatter(figure, axes, to_poincare_disc(manifold, Y), x)
    curves = _curves(x, geodesics)
    for color, (name, curve) in zip(_COLORS, curves.items(), strict=False):
        in_disc = to_poincare_disc(manifold, curve)
        axes.plot(*in_disc.T, color=color, lw=2.2, label=name)
        _start(axes, in_disc[0], color)
    return _finish(figure, axes, 1.05)


def _strips(
    manifold: Any,
    x: np.ndarray,
    Y: np.ndarray | None,
    geodesics: dict[str, Any],
    draw: Any,
) -> Figure:
    """Draw shapes or ellipses at six predictors, in rows.

    The first row shows, for each of the six predictors, the record with the nearest
    predictor. Each further row is a geodesic.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    x : array of shape (n,)
        Predictors.
    Y : array of shape (n, *point_shape), or None
        Responses.
    geodesics : dict
        Objects with `predict`, by name.
    draw : callable
        Draws one point on axes, over a reference point, in a color.
    """
    times = np.linspace(x.min(), x.max(), _STRIP)
    rows = {name: np.asarray(model.predict(times)) for name, model in geodesics.items()}
    if Y is not None:
        nearest = [int(np.argmin(np.abs(x - time))) for time in times]
        rows = {"nearest record": Y[nearest], **rows}
    figure = Figure(
        figsize=(1.5 * _STRIP + 1.2, 1.6 * len(rows) + 0.3), layout="constrained"
    )
    grid = figure.subplots(len(rows), _STRIP, squeeze=False, sharex=True, sharey=True)
    colors = (_DATA_COLOR, *_COLORS) if Y is not None else _COLORS
    # Every panel also shows the start of the first geodesic; without any, of the data.
    reference_row = next(iter(geodesics), "nearest record")
    reference = rows[reference_row][0]
    for axes_row, (name, points), color in zip(
        grid, rows.items(), colors, strict=False
    ):
        for axes, point in zip(axes_row, points, strict=True):
            draw(axes, point, reference, color)
            axes.set_aspect("equal")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(False)
        axes_row[0].set_ylabel(name, color=INK)
    for axes, time in zip(grid[0], times, strict=True):
        axes.set_title(f"{time:.4g}", fontsize=9, color=INK)
    return figure


def _draw_shape(
    axes: Axes, point: np.ndarray, reference: np.ndarray, color: str
) -> None:
    """Draw a planar shape: its landmarks joined in their order, over a pale reference.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    point, reference : array of shape (landmarks, 2)
        The shape, which is turned to fit the reference, and the reference.
    color : str
        The color of the shape.
    """
    # As complex numbers a turn is a factor of absolute value 1.
    z, r = (a[:, 0] + 1j * a[:, 1] for a in (point, reference))
    turn = np.sum(r * np.conj(z))
    z = z * turn / np.abs(turn) if np.abs(turn) > 0 else z
    pale: dict[str, Any] = {"color": LINES, "lw": 1.0}
    for curve, style in (
        (r, pale),
        (z, {"color": color, "lw": 1.6, "marker": "o", "ms": 2.5}),
    ):
        closed = np.append(curve, curve[0])
        axes.plot(closed.real, closed.imag, **style)
    reach = 1.25 * float(np.max(np.abs(r)))
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)


def _draw_ellipse(
    axes: Axes, point: np.ndarray, reference: np.ndarray, color: str
) -> None:
    """Draw an SPD matrix as an ellipse, over a pale reference.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    point, reference : array of shape (m, m)
        The matrices, of which the leading 2×2 blocks are drawn.
    color : str
        The color of the ellipse.
    """
    axes.add_patch(tensor_ellipse(reference, edgecolor=LINES, lw=1.0))
    axes.add_patch(tensor_ellipse(point, edgecolor=color, lw=1.6))
    reach = 1.1 * max(
        float(np.sqrt(np.linalg.eigvalsh(m[:2, :2])[-1])) for m in (point, reference)
    )
    reach = max(reach, axes.get_xlim()[1])
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)


def _coordinates(
    manifold: Manifold, x: np.ndarray, Y: np.ndarray | None, geodesics: dict[str, Any]
) -> Figure:
    """Draw the first four normal coordinates at the origin against the predictor.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    x : array of shape (n,)
        Predictors.
    Y : array of shape (n, *point_shape), or None
        Responses.
    geodesics : dict
        Objects with `predict`, by name.
    """
    panels = min(4, manifold.dim)
    figure = Figure(figsize=(3.2 * panels, 2.9), layout="constrained")
    o, times = manifold.origin, np.linspace(x.min(), x.max(), 200)

    def coordinates(points: np.ndarray) -> np.ndarray:
        """Return the normal coordinates of points."""
        return np.asarray(manifold.normal_coordinates(o, points))

    for k, axes in enumerate(figure.subplots(1, panels, squeeze=False)[0]):
        if Y is not None:
            axes.scatter(
                x, coordinates(Y)[:, k], s=10, color=_DATA_COLOR, alpha=0.45, lw=0
            )
        for color, (name, model) in zip(_COLORS, geodesics.items(), strict=False):
            axes.plot(
                times,
                coordinates(np.asarray(model.predict(times)))[:, k],
                color=color,
                lw=2,
                label=name,
            )
        axes.set_title(f"coordinate {k + 1}", loc="left", color=INK, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        if k == 0 and geodesics:
            axes.legend(frameon=False, fontsize=8)
    return figure


def _canvas() -> tuple[Figure, Axes]:
    """Return an empty figure with one panel."""
    figure = Figure(figsize=(5.6, 5.0), layout="constrained")
    return figure, figure.add_subplot()


def _scatter(figure: Figure, axes: Axes, points: np.ndarray, x: np.ndarray) -> None:
    """Draw data as dots that are darker for larger predictors, with a color bar.

    Parameters
    ----------
    figure, axes : Figure, Axes
        The panel to draw in.
    points : array of shape (n, 2)
        Places in the picture.
    x : array of shape (n,)
        Predictors.
    """
    norm = Normalize(float(x.min()), float(x.max()))
    dots = axes.scatter(
        points[:, 0],
        points[:, 1],
        c=x,
        cmap=_AGES,
        norm=norm,
        s=14,
        alpha=0.85,
        edgecolor="white",
        lw=0.3,
        zorder=2,
    )
    figure.colorbar(dots, ax=axes, shrink=0.6, label="predictor")


def _start(axes: Axes, point: np.ndarray, color: str) -> None:
    """Mark the start of a geodesic, the point at the smallest predictor."""
    axes.plot(*point, "o", color=color, ms=5, zorder=4)


def _finish(figure: Figure, axes: Axes, reach: float) -> Figure:
    """Add a legend if anything has a label, and show the square up to a distance."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            frameon=True, framealpha=0.9, edgecolor="none", loc="upper left", fontsize=9
        )
    show_square(axes, reach)
    return figure
