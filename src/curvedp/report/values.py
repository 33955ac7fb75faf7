"""Pictures of released values in the form in which people know them, for matplotlib.
Shapes are drawn as outlines over each other, tensors of up to three dimensions as
ellipsoids with their axes, rotations of space as turned axes on a globe, and larger
matrices as images. Everything comes from certificates, never from the data.
"""

from collections.abc import Mapping
from itertools import cycle, product
from math import ceil
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import MaxNLocator

from curvedp.geometry import (
    Correlation,
    KendallShapes,
    Manifold,
    Rotations,
    SPDAffineInvariant,
)
from curvedp.geometry.capabilities import ScalableCone
from curvedp.inference import Region
from curvedp.report import canvas

Form = Literal["outlines", "ellipsoids", "axes", "images", "points"]
"""How the values of a space are drawn."""

# The colors of several values in one figure.
SERIES_COLORS = (canvas.ACCENT, canvas.WARM, canvas.INK, canvas.SOFT)
# Matrices with at most this many rows are drawn as ellipsoids, larger ones as images.
_LARGEST_ELLIPSOID = 3
# The direction from which ellipsoids are seen.
_OBLIQUE_VIEW = np.array([1.0, -1.6, 0.9])
# Points of a closed curve.
_CURVE_POINTS = 181
# How far from the middle the name of an axis is written, in radii of the globe.
_NAME_HEIGHT = 1.09
# So many panels are side by side, so that a figure fits on a page.
_MOST_COLUMNS = 4
# The width in inches of a figure with one panel, in which its title has room.
_SMALLEST_WIDTH = 4.4
# The smallest value to which the darkest color is given: of a zero matrix all are white.
_SMALLEST_SCALE = 1e-300
# The height in inches of a line of a legend.
LEGEND_LINE = 0.2
# An error bar that is wider than this fraction of a shape's size has no circles.
_WIDEST_CIRCLE = 0.25
# Dark for negative entries, light for zero, warm for positive ones.
_COLOR_MAP = LinearSegmentedColormap.from_list(
    "curvedp", (canvas.ACCENT, "#ffffff", canvas.WARM)
)


def form_of(manifold: Manifold) -> Form:
    """Return how the values of a space are drawn.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points.

    Returns
    -------
    {"outlines", "ellipsoids", "axes", "images", "points"}
        The kind of picture.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> form_of(KendallShapes(5)), form_of(SPDAffineInvariant(3)), form_of(Sphere(2))
    ('outlines', 'ellipsoids', 'points')
    """
    if isinstance(manifold, KendallShapes):
        return "outlines"
    if isinstance(manifold, Correlation):
        return "images"
    if isinstance(manifold, Rotations) and manifold.n == 3:
        return "axes"
    if isinstance(manifold, ScalableCone) and canvas.view_of(manifold) == "tensors":
        is_small = manifold.point_shape[0] <= _LARGEST_ELLIPSOID
        return "ellipsoids" if is_small else "images"
    return "points"


@canvas.own_style()
def values_figure(
    regions: Mapping[str, Region], joint_level: float | None = None
) -> Figure:
    """Draw the centers of confidence regions as outlines, ellipsoids, axes or images.

    Parameters
    ----------
    regions : mapping of str to Region
        At most eight regions of one space, by their names. The space must not be one
        of "points" (`form_of`).
    joint_level : float, optional
        The probability with which all regions hold at once, if that is what the title
        should say. By default it says the level of each.

    Returns
    -------
    Figure
        One panel for all shapes or rotations; otherwise one panel for each region.
    """
    first = next(iter(regions.values()))
    form = form_of(first.manifold)
    title = _error_title(first)
    if joint_level is not None:
        title = f"Releases with {joint_title(first, joint_level)}"
    if form == "outlines":
        return outlines_figure(title, regions)
    if form == "axes":
        figure, axes = canvas.new_figure(title, size=(5.2, 5.6))
        draw_turned_axes(axes, regions)
        return figure

    # Images have a scale of colors beside them, for which there must be room.
    figure, panels = _panels_side_by_side(
        title, len(regions), extra_width=0.8 if form == "images" else 0.4
    )
    if form == "ellipsoids":
        colors = cycle(SERIES_COLORS)
        for axes, (name, region) in zip(panels, regions.items(), strict=True):
            draw_ellipsoid(axes, region, next(colors))
            axes.set_title(name, color=canvas.INK, fontsize=10)
        _share_limits(panels)
        return figure

    centers = {name: region.center for name, region in regions.items()}
    radii = [region.radius for region in regions.values()]
    _draw_images(figure, panels, first.manifold, centers, radii)
    return figure


def _panels_side_by_side(
    title: str, count: int, *, extra_width: float
) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel for each region, a few of them in a row.

    Parameters
    ----------
    title : str
        The title of the figure.
    count : int
        The number of panels.
    extra_width : float
        How much wider than its panels the figure is, in inches.

    Returns
    -------
    figure : Figure
        The figure.
    panels : list of Axes
        Its panels, row by row.
    """
    n_columns = min(count, _MOST_COLUMNS)
    n_rows = ceil(count / n_columns)
    width = 3.0 * n_columns + extra_width
    size = (max(width, _SMALLEST_WIDTH), 0.4 + 3.0 * n_rows)
    figure = Figure(figsize=size, layout="constrained", facecolor="none")
    all_panels = list(figure.subplots(n_rows, n_columns, squeeze=False).flat)
    for unused in all_panels[count:]:
        unused.remove()
    figure.suptitle(title, x=0.02, ha="left", color=canvas.INK, fontsize=11)
    # Without room the titles of the panels touch that of the figure.
    figure.set_layout_engine("constrained", h_pad=0.1)
    return figure, all_panels[:count]


def image_figure(title: str, region: Region, value: np.ndarray) -> Figure:
    """Draw one released matrix as an image.

    Parameters
    ----------
    title : str
        The title of the figure.
    region : Region
        Of matrices. Its radius is written below the image.
    value : array
        The released matrix.
    """
    figure = Figure(figsize=(4.8, 4.4), layout="constrained", facecolor="none")
    panels = [figure.add_subplot()]
    figure.suptitle(title, x=0.02, ha="left", color=canvas.INK, fontsize=11)
    _draw_images(figure, panels, region.manifold, {"": value}, [region.radius])
    return figure


def outlines_figure(title: str, regions: Mapping[str, Region]) -> Figure:
    """Draw planar shapes over each other, in a figure that is as high as they need.

    Parameters
    ----------
    title : str
        The title of the figure.
    regions : mapping of str to Region
        Regions of `KendallShapes` by their names.

    Returns
    -------
    Figure
        The picture, which the caller saves.
    """
    figure, axes = canvas.new_figure(title, size=(6.0, 5.2))
    draw_outlines(axes, regions)
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    height_of_shapes = 6.0 * (top - bottom) / (right - left)
    figure.set_figheight(height_of_shapes + 0.6 + LEGEND_LINE * len(regions))
    return figure


def _error_title(region: Region) -> str:
    """Return the title of a figure: the level and the target of its error bars.

    Parameters
    ----------
    region : Region
        One of the regions that are drawn; all have its level and target.
    """
    target = "the population" if region.of == "population" else "the privacy noise"
    return f"Releases with {100 * region.level:g}% error bars of {target}"


def joint_title(region: Region, joint_level: float) -> str:
    """Return a title for regions that hold all at once, with their joint level.

    Parameters
    ----------
    region : Region
        One of the regions; all have its target.
    joint_level : float
        The probability with which all regions hold their targets.

    Returns
    -------
    str
        Such as "95% error bars of the population, all at once".
    """
    target = "the population" if region.of == "population" else "the privacy noise"
    return f"{100 * joint_level:g}% error bars of {target}, all at once"


def draw_outlines(axes: Axes, regions: Mapping[str, Region]) -> None:
    """Draw planar shapes over each other, each turned to fit the first.

    Landmarks are joined in their order. Shapes have size 1. A shape of the region has
    no landmark outside the circle about it: no landmark moves farther than the whole
    configuration, whose distance is at most the geodesic one.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    regions : mapping of str to Region
        Regions of `KendallShapes` by their names.
    """
    reference = None
    # After four colors the same ones follow with dashed lines.
    styles = product(("-", "--"), SERIES_COLORS)
    for (name, region), (line, color) in zip(regions.items(), styles, strict=False):
        landmarks = region.center[:, 0] + 1j * region.center[:, 1]
        if reference is None:
            landmarks = reference = _align_longest_axis(landmarks)
        landmarks = _rotate_to_fit(reference, landmarks)

        closed = np.append(landmarks, landmarks[0])
        label = f"{name}: each landmark within {region.radius:.2g}"
        axes.plot(
            closed.real,
            closed.imag,
            color=color,
            ls=line,
            lw=1.6,
            marker="o",
            ms=3,
            label=label,
        )
        if region.radius <= _WIDEST_CIRCLE:
            _draw_circles_about(axes, landmarks, region.radius, color)
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.margins(0.12)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0.0), fontsize=8, frameon=False
    )


def _align_longest_axis(landmarks: np.ndarray) -> np.ndarray:
    """Turn a shape so that its longest axis lies flat.

    The first landmark is on the right, as it is in files.

    Parameters
    ----------
    landmarks : array of complex
        The landmarks x + iy.
    """
    flat = landmarks * np.exp(-0.5j * np.angle(np.sum(landmarks**2)))
    return np.asarray(-flat if flat[0].real < 0 else flat)


def _rotate_to_fit(reference: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    """Turn a shape so that it fits another one as well as possible.

    Parameters
    ----------
    reference, landmarks : arrays of complex
        The landmarks x + iy of both shapes.
    """
    overlap = np.sum(reference * np.conj(landmarks))
    if np.abs(overlap) == 0:  # every rotation fits equally well
        return landmarks
    return np.asarray(landmarks * overlap / np.abs(overlap))


def _draw_circles_about(
    axes: Axes, landmarks: np.ndarray, radius: float, color: str
) -> None:
    """Draw a pale circle about each landmark.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    landmarks : array of complex
        The landmarks x + iy.
    radius : float
        The radius of all circles.
    color : str
        Their color.
    """
    for landmark in landmarks:
        place = (float(landmark.real), float(landmark.imag))
        axes.add_patch(Circle(place, radius, fc=color, alpha=0.15, lw=0))


def draw_ellipsoid(axes: Axes, region: Region, color: str) -> None:
    """Draw the center of a region of tensors as an ellipsoid with its axes.

    The ellipsoid of A has the half axes √λ along the eigenvectors of A. In the affine-
    invariant metric every B of the region satisfies e^(−r)·A ≤ B ≤ e^r·A, so that its
    ellipsoid lies between those of A that are e^(−r/2) and e^(r/2) times as long; both
    are dashed.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    region : Region
        Of matrices with two or three rows.
    color : str
        The color of the lines.
    """
    matrix = region.center
    size = len(matrix)
    projection = np.eye(2)
    if size == _LARGEST_ELLIPSOID:
        projection = canvas.viewing_frame(_OBLIQUE_VIEW)[:2]
    angles = np.linspace(0, 2 * np.pi, _CURVE_POINTS)
    circle = np.stack([np.cos(angles), np.sin(angles)])

    silhouette = _half_axes(projection @ matrix @ projection.T) @ circle
    axes.fill(*silhouette, facecolor=color, alpha=0.12, lw=0)
    axes.plot(*silhouette, color=color, lw=1.8)
    if isinstance(region.manifold, SPDAffineInvariant):
        for sign in (-1, 1):
            edge = np.exp(sign * region.radius / 2) * silhouette
            axes.plot(*edge, color=color, lw=0.9, ls="--")

    axes_of_tensor = _half_axes(matrix)
    for half_axis in (projection @ axes_of_tensor).T:
        ends = np.stack([-half_axis, half_axis])
        axes.plot(*ends.T, color=color, lw=1.0, marker=".", ms=4)
    lengths = ", ".join(
        f"{length:.3g}" for length in np.linalg.norm(axes_of_tensor, axis=0)[::-1]
    )
    axes.set_xlabel(f"half axes {lengths}", color=canvas.INK, fontsize=8)
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.set_facecolor("none")
    axes.spines[:].set_visible(False)


def _half_axes(matrix: np.ndarray) -> np.ndarray:
    """Return the half axes of the ellipsoid of a positive matrix, in columns.

    Parameters
    ----------
    matrix : array of shape (m, m)
        A positive definite matrix A; the half axes are √λ·v for its eigenpairs (λ, v).
    """
    eigenvalues, eigenvectors = np.linalg.eigh(matrix)
    return np.asarray(eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0)))


def _share_limits(panels: list[Axes]) -> None:
    """Give all axes one square of the plane, so that sizes can be compared.

    Parameters
    ----------
    panels : list of Axes
        The axes of the panels, each of which has drawn something.
    """
    reach = max(
        float(np.abs([*axes.get_xlim(), *axes.get_ylim()]).max()) for axes in panels
    )
    for axes in panels:
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach))


def draw_turned_axes(axes: Axes, regions: Mapping[str, Region]) -> None:
    """Draw rotations of space as the images of the axes x, y and z.

    Each axis ends on the unit sphere. The distance of two rotations is the angle of the
    one that leads from the first to the second, which turns no axis farther. So the
    rotations of a region turn every axis into the circle that is drawn about it. What
    the globe hides is drawn thinner and dashed.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    regions : mapping of str to Region
        Regions of `Rotations(3)` by their names.
    """
    frame = canvas.viewing_frame(_OBLIQUE_VIEW)
    canvas.draw_sphere_background(axes)
    _draw_named_axes(axes, frame)
    styles = product(("-", "--"), SERIES_COLORS)
    for (name, region), (line, color) in zip(regions.items(), styles, strict=False):
        turned = region.center.T
        for number, direction in enumerate(turned):
            seen = frame @ direction
            is_in_front = seen[2] > 0
            axes.plot(
                *np.outer(seen[:2], (0, 1)),
                color=color,
                ls=line if is_in_front else ":",
                lw=1.6 if is_in_front else 0.9,
                marker=".",
                markevery=[1],
                label=_rotation_label(name, region) if number == 0 else None,
            )
            _draw_circle_on_sphere(axes, frame, direction, region.radius, color)
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    canvas.show_square(axes, 1.25)


def _rotation_label(name: str, region: Region) -> str:
    """Return the line of a legend for a region of rotations.

    Parameters
    ----------
    name : str
        The name of the region.
    region : Region
        The region, whose radius is an angle in radians.
    """
    return f"{name}: each axis within {np.degrees(region.radius):.3g}°"


def _draw_named_axes(axes: Axes, frame: np.ndarray) -> None:
    """Draw the axes x, y and z of space through the globe, with their names beside it.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    frame : array of shape (3, 3)
        The directions to the right, upward and toward the viewer.
    """
    for name, unit_vector in zip("xyz", np.eye(3), strict=True):
        end = (frame @ unit_vector)[:2]
        axes.plot(*np.outer(end, (-1, 1)), color=canvas.LINES, lw=0.8)
        beside_globe = _NAME_HEIGHT * end / np.linalg.norm(end)
        x, y = map(float, beside_globe)
        axes.text(x, y, name, color=canvas.INK, fontsize=9, ha="center", va="center")


def _draw_circle_on_sphere(
    axes: Axes, frame: np.ndarray, middle: np.ndarray, radius: float, color: str
) -> None:
    """Draw the circle of points of the unit sphere at a given angle from one point.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    frame : array, shape (3, 3)
        A `canvas.viewing_frame`.
    middle : array, shape (3,)
        The unit vector in the middle of the circle.
    radius : float
        The angle between it and the points, in radians.
    color : str
        The color of the lines.
    """
    if radius >= np.pi:
        return
    first_tangent, second_tangent, unit_middle = canvas.viewing_frame(middle)
    angles = np.linspace(0, 2 * np.pi, _CURVE_POINTS)[:, np.newaxis]
    tangents = np.cos(angles) * first_tangent + np.sin(angles) * second_tangent
    circle = np.cos(radius) * unit_middle + np.sin(radius) * tangents
    seen = circle @ frame.T
    axes.plot(*seen[:, :2].T, color=color, lw=0.6, ls="--", alpha=0.5)
    canvas.draw_visible_curve(axes, seen, color=color, lw=1.2)


def _draw_images(
    figure: Figure,
    panels: list[Axes],
    manifold: Manifold,
    matrices: Mapping[str, np.ndarray],
    radii: list[float],
) -> None:
    """Draw matrices as images with one scale of colors.

    The diagonal of correlation matrices is 1 and left gray, so that the scale is that
    of the correlations.

    Parameters
    ----------
    figure : Figure
        The figure that holds the axes.
    panels : list of Axes
        One for each matrix.
    manifold : Manifold
        The space of the matrices.
    matrices : mapping of str to array
        The matrices by their names.
    radii : list of float
        The radius of the region of each.
    """
    is_known = np.zeros(manifold.point_shape, dtype=bool)
    if isinstance(manifold, Correlation):
        np.fill_diagonal(is_known, True)
    entries = [np.abs(matrix[~is_known]).max() for matrix in matrices.values()]

    # All images share one scale of colors, symmetric about 0.
    largest = max(_SMALLEST_SCALE, *map(float, entries))
    image = None
    for axes, (name, matrix), radius in zip(
        panels, matrices.items(), radii, strict=True
    ):
        axes.set_facecolor(canvas.TRACK)
        shown = np.ma.masked_where(is_known, matrix)
        image = axes.imshow(shown, cmap=_COLOR_MAP, vmin=-largest, vmax=largest)
        axes.set_title(name, color=canvas.INK, fontsize=10)
        axes.set_xlabel(f"within {radius:.3g}", color=canvas.INK, fontsize=8)
        axes.tick_params(which="both", color=canvas.INK, labelcolor=canvas.INK)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    assert image is not None
    figure.colorbar(
        image, ax=panels, shrink=0.8 if len(panels) <= _MOST_COLUMNS else 0.5
    )
    # With less room the layout cuts off the texts below the images.
    figure.set_layout_engine("constrained", h_pad=0.1)
