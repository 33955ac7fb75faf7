"""Pictures of private principal geodesics, for matplotlib.
Each geodesic goes through the private mean, from two standard deviations on one side to
two on the other: shapes are drawn as outlines, tensors as ellipsoids, directions on a
globe. Everything comes from released numbers, never from the data.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from curvedp.geometry import KendallShapes
from curvedp.geometry.manifold import Manifold
from curvedp.inference.tangent_regions import VarianceIntervals
from curvedp.report import canvas

# Where points of a geodesic are drawn, in standard deviations from the mean.
_STEPS = (-2.0, -1.0, 0.0, 1.0, 2.0)
# Points of a curve on a globe or in a disk.
_CURVE_POINTS = 121
# The colors of the first geodesics.
_COLORS = (canvas.WARM, canvas.ACCENT, canvas.INK)
# The direction from which ellipsoids and the parts of them that face away are seen.
_OBLIQUE_VIEW = np.array([1.0, -1.6, 0.9])
# Variances that are shown at most.
_MAX_VARIANCES = 12


class PrincipalGeodesics(NamedTuple):
    """What is drawn of a private tangent PCA.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the points.
    mean : array of shape point_shape
        The released mean.
    directions : array, shape (k, dim)
        Orthonormal rows, in coordinates at the mean: one for each geodesic.
    variances : array
        The released variances, at least k of them.
    n_above_noise : int
        How many of them stand out of the noise.
    intervals : VarianceIntervals, optional
        Their confidence intervals.
    """

    manifold: Manifold
    mean: np.ndarray
    directions: np.ndarray
    variances: np.ndarray
    n_above_noise: int
    intervals: VarianceIntervals | None = None

    def points(self, component: int, steps: Any) -> np.ndarray:
        """Return points of a principal geodesic, given in standard deviations.

        Parameters
        ----------
        component : int
            The number of the geodesic, from 0.
        steps : sequence of float
            Where on the geodesic the points are, in standard deviations; 0 is the mean.

        Returns
        -------
        array of shape (steps, *point_shape)
            Points in the frame of the records.
        """
        deviation = np.sqrt(self.variances[component])
        coordinates = np.outer(steps, deviation * self.directions[component])
        points = self.manifold.from_normal_coordinates(self.mean, coordinates)
        return np.asarray(points)


@canvas.own_style()
def geodesics_figure(geodesics: PrincipalGeodesics) -> Figure:
    """Draw the variances, and the first principal geodesics beside them.

    Parameters
    ----------
    geodesics : PrincipalGeodesics
        The released mean, directions and variances.

    Returns
    -------
    Figure
        The variances on the left, the geodesics on the right.
    """
    n_geodesics = len(geodesics.directions)
    draw_row = _row_drawing(geodesics.manifold)
    is_curves = draw_row is None
    height = 4.0 if is_curves else max(3.0, 1.75 * n_geodesics + 0.6)
    figure = Figure(figsize=(10.4, height), layout="constrained", facecolor="none")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 2.1), squeeze=False)[0]
    _draw_variances(left.subplots(), geodesics)
    if draw_row is None:
        _draw_curves(right.subplots(), geodesics)
        return figure

    _draw_rows(right, geodesics, draw_row)
    return figure


def _row_drawing(
    manifold: Manifold,
) -> Callable[[Axes, np.ndarray, np.ndarray, str], None] | None:
    """Return the function that draws one point, or None if curves are drawn.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.

    Returns
    -------
    function of (axes, point, mean, color), or None
        For shapes and tensors, which are drawn one beside the other.
    """
    if isinstance(manifold, KendallShapes):
        return _draw_outline
    if canvas.view_of(manifold) == "tensors":
        return _draw_ellipsoid
    return None


def _draw_variances(axes: Axes, geodesics: PrincipalGeodesics) -> None:
    """Draw the released variances as bars with their confidence intervals.

    Variances that noise alone could have made are pale.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    geodesics : PrincipalGeodesics
        The released variances, and how many stand out.
    """
    count = min(len(geodesics.variances), _MAX_VARIANCES)
    variances = geodesics.variances[:count]
    places = np.arange(1, count + 1)
    stands_out = places <= geodesics.n_above_noise
    colors = np.where(stands_out, canvas.ACCENT, canvas.SOFT)
    axes.bar(places, variances, color=colors, width=0.6)

    # Error bars are clipped, so that none begins below 0 or ends below its bar.
    intervals = geodesics.intervals
    if intervals is not None:
        lower = np.maximum(variances - intervals.lower[:count], 0.0)
        upper = np.maximum(intervals.upper[:count] - variances, 0.0)
        axes.errorbar(
            places, variances, yerr=[lower, upper], fmt="none", ecolor=canvas.INK, lw=1
        )
        axes.set_title(
            f"variances, {100 * intervals.level:g}% intervals of the noise",
            loc="left",
            color=canvas.INK,
            fontsize=10,
        )
    else:
        axes.set_title("variances", loc="left", color=canvas.INK, fontsize=10)

    axes.set_xlabel(
        f"direction ({geodesics.n_above_noise} above the noise)", color=canvas.INK
    )
    axes.set_xticks(places)
    axes.set_xlim(0.3, max(count, 3) + 0.7)  # a single bar stays a bar
    axes.set_ylim(0, None)
    _style_axes(axes)


def _draw_rows(
    figure: SubFigure,
    geodesics: PrincipalGeodesics,
    draw: Callable[[Axes, np.ndarray, np.ndarray, str], None],
) -> None:
    """Draw each geodesic as a row of points, from one side of the mean to the other.

    Parameters
    ----------
    figure : SubFigure
        The figure that holds the axes.
    geodesics : PrincipalGeodesics
        The released mean, directions and variances.
    draw : function of (axes, point, mean, color)
        Draws one point in its own axes.
    """
    n_geodesics = len(geodesics.directions)
    grid = figure.subplots(n_geodesics, len(_STEPS), squeeze=False)
    for component, row in enumerate(grid):
        points = geodesics.points(component, _STEPS)
        color = _COLORS[component % len(_COLORS)]
        for axes, point in zip(row, points, strict=True):
            draw(axes, point, geodesics.mean, color)
            axes.set(aspect="equal", xticks=[], yticks=[])
            axes.set_facecolor("none")
            axes.spines[:].set_visible(False)
        row[0].set_ylabel(f"direction {component + 1}", color=canvas.INK, fontsize=9)
        _share_limits(row)

    for axes, step in zip(grid[0], _STEPS, strict=True):
        title = "mean" if step == 0 else f"{step:+.0f} sd"
        axes.set_title(title, color=canvas.INK, fontsize=9)


def _share_limits(row: np.ndarray) -> None:
    """Give all axes of a row the widest limits among them.

    Parameters
    ----------
    row : array of Axes
        Axes that have drawn something.
    """
    low_x, high_x = zip(*(axes.get_xlim() for axes in row), strict=True)
    low_y, high_y = zip(*(axes.get_ylim() for axes in row), strict=True)
    for axes in row:
        axes.set(xlim=(min(low_x), max(high_x)), ylim=(min(low_y), max(high_y)))


def _draw_outline(axes: Axes, point: np.ndarray, mean: np.ndarray, color: str) -> None:
    """Draw the landmarks of a shape, joined in their order, over those of the mean.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    point, mean : arrays, shape (k, 2)
        Two shapes; the first is turned to fit the second.
    color : str
        The color of the lines.
    """
    z = point[:, 0] + 1j * point[:, 1]
    reference = mean[:, 0] + 1j * mean[:, 1]
    overlap = np.sum(reference * np.conj(z))
    if np.abs(overlap) > 0:
        z = z * overlap / np.abs(overlap)
    # The longest axis of the mean lies flat.
    flat = np.exp(-0.5j * np.angle(np.sum(reference**2)))
    outlines: tuple[tuple[np.ndarray, dict[str, Any]], ...] = (
        (reference * flat, {"color": canvas.LINES, "lw": 1.0}),
        (z * flat, {"color": color, "lw": 1.6, "marker": "o", "ms": 2.5}),
    )
    for outline, style in outlines:
        closed = np.append(outline, outline[0])
        axes.plot(closed.real, closed.imag, **style)
    axes.margins(0.12)


def _draw_ellipsoid(
    axes: Axes, point: np.ndarray, mean: np.ndarray, color: str
) -> None:
    """Draw a positive definite matrix as an ellipsoid, over the silhouette of the mean.

    The ellipsoid of A has the half axes √λ along the eigenvectors of A. Its silhouette
    from the direction n is the ellipse of PAPᵀ, where P projects along n; the three
    ellipses through two of its axes each are drawn inside. Larger matrices are drawn by
    their first three rows and columns, 2×2 matrices as ellipses.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    point, mean : arrays, shape (m, m)
        The point that is drawn, and the mean to compare with.
    color : str
        The color of the lines.
    """
    size = min(len(point), 3)
    projection = np.eye(2)
    if size == 3:
        projection = canvas.viewing_frame(_OBLIQUE_VIEW)[:2]
    for matrix, edge, width in (
        (mean[:size, :size], canvas.LINES, 1.0),
        (point[:size, :size], color, 1.8),
    ):
        silhouette = projection @ matrix @ projection.T
        axes.plot(*_ellipse_points(silhouette), color=edge, lw=width)
    if size == 3:
        eigenvalues, eigenvectors = np.linalg.eigh(point[:size, :size])
        half_axes = projection @ (eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0)))
        angles = np.linspace(0, 2 * np.pi, _CURVE_POINTS)
        for i, j in ((0, 1), (0, 2), (1, 2)):
            curve = np.outer(half_axes[:, i], np.cos(angles))
            curve = curve + np.outer(half_axes[:, j], np.sin(angles))
            axes.plot(*curve, color=color, lw=0.6, alpha=0.6)
    axes.margins(0.08)


def _ellipse_points(matrix: np.ndarray) -> np.ndarray:
    """Return points of the ellipse of a positive 2×2 matrix.

    The ellipse of A has the half axes √λ along the eigenvectors of A.

    Parameters
    ----------
    matrix : array of shape (2, 2)
        A positive definite matrix.

    Returns
    -------
    array of shape (2, points)
        A closed curve about 0.
    """
    eigenvalues, eigenvectors = np.linalg.eigh(matrix)
    half_axes = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    angles = np.linspace(0, 2 * np.pi, _CURVE_POINTS)
    return np.asarray(half_axes @ np.stack([np.cos(angles), np.sin(angles)]))


def _draw_curves(axes: Axes, geodesics: PrincipalGeodesics) -> None:
    """Draw the geodesics as curves: on a globe, in the disk, or in coordinates.

    Elsewhere the first two coordinates at the mean are those along the first two
    directions, so that the geodesics are the axes of an ellipse of one deviation.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    geodesics : PrincipalGeodesics
        The released mean, directions and variances.
    """
    view = canvas.view_of(geodesics.manifold)
    steps = np.linspace(_STEPS[0], _STEPS[-1], _CURVE_POINTS)
    curves = [geodesics.points(k, steps) for k in range(len(geodesics.directions))]
    if view == "sphere":
        _draw_curves_on_globe(axes, geodesics.mean, curves)
    elif view == "disc":
        canvas.draw_disc_grid(axes)
        for curve, color in zip(curves, _COLORS, strict=False):
            points = canvas.to_poincare_disc(geodesics.manifold, curve)
            axes.plot(*points.T, color=color, lw=2.2)
        mean = canvas.to_poincare_disc(geodesics.manifold, geodesics.mean)
        axes.plot(*mean, "o", color=canvas.INK, ms=5)
        canvas.show_square(axes, 1.05)
    else:
        _draw_deviations(axes, geodesics)
    axes.set_facecolor("none")
    axes.set_title(
        "geodesics through the mean, two deviations each way",
        loc="left",
        color=canvas.INK,
        fontsize=10,
    )


def _draw_curves_on_globe(
    axes: Axes, mean: np.ndarray, curves: list[np.ndarray]
) -> None:
    """Draw geodesics on a globe that is seen from above the mean.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    mean : array, shape (3,)
        The released mean.
    curves : list of arrays, shape (points, 3)
        Points of each geodesic.
    """
    frame = canvas.viewing_frame(mean)
    in_view = [curve @ frame.T for curve in curves]
    reach = max(float(np.abs(curve[:, :2]).max()) for curve in in_view)
    half_width = min(1.05, max(0.3, 1.4 * reach))
    canvas.draw_sphere_background(axes)
    canvas.label_graticule(axes, frame, half_width)
    for curve, color in zip(in_view, _COLORS, strict=False):
        canvas.draw_visible_curve(axes, curve, color=color, lw=2.4)
        ticks = curve[:: (_CURVE_POINTS - 1) // (len(_STEPS) - 1)]
        canvas.draw_visible_curve(axes, ticks, color=color, marker="o", ms=3.5, ls="")
    axes.plot(0, 0, "o", color=canvas.INK, ms=5)
    canvas.show_square(axes, half_width)


def _draw_deviations(axes: Axes, geodesics: PrincipalGeodesics) -> None:
    """Draw the ellipse of one deviation along the first two directions.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    geodesics : PrincipalGeodesics
        The released mean, directions and variances.
    """
    deviations = np.sqrt(geodesics.variances)
    n_drawn = min(2, len(geodesics.directions))
    for component in range(n_drawn):
        # The geodesic is a straight line along one coordinate.
        ends = np.zeros((2, 2))
        ends[0, component] = _STEPS[0] * deviations[component]
        ends[1, component] = _STEPS[-1] * deviations[component]
        axes.plot(*ends.T, color=_COLORS[component], lw=2.2)
    if len(geodesics.directions) > 1:
        spread = np.diag(geodesics.variances[:2])
        axes.plot(*_ellipse_points(spread), color=canvas.INK, lw=1)
    axes.plot(0, 0, "o", color=canvas.INK, ms=5)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("coordinate along direction 1", color=canvas.INK)
    axes.set_ylabel("along direction 2", color=canvas.INK)
    _style_axes(axes)


def _style_axes(axes: Axes) -> None:
    """Give axes the project's colors.

    Parameters
    ----------
    axes : Axes
        The axes, which get a clear background and no frame at the top and right.
    """
    axes.set_facecolor("none")
    axes.tick_params(which="both", color=canvas.INK, labelcolor=canvas.INK)
    axes.spines[:].set_color(canvas.INK)
    axes.spines[["top", "right"]].set_visible(False)
