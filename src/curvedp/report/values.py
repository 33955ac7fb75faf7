"""Pictures of released values in the form in which people know them, for matplotlib.

Shapes are drawn as outlines over each other, tensors of up to three dimensions as
ellipsoids with their axes, and larger matrices as images. Everything comes from
certificates, never from the data.
"""

from collections.abc import Mapping
from itertools import cycle, product
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from curvedp.geometry import Correlation, KendallShapes, Manifold, SPDAffineInvariant
from curvedp.geometry.capabilities import ScalableCone
from curvedp.inference import Region
from curvedp.report import canvas

Form = Literal["outlines", "ellipsoids", "images", "points"]
"""How the values of a space are drawn."""

# The colors of several values in one figure.
SERIES_COLORS = (canvas.ACCENT, canvas.WARM, canvas.INK, canvas.SOFT)
# Matrices of so many rows are ellipsoids; larger ones are images.
_LARGEST_ELLIPSOID = 3
# The direction from which ellipsoids are seen.
_OBLIQUE_VIEW = np.array([1.0, -1.6, 0.9])
# Points of a closed curve.
_CURVE_POINTS = 181
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
    if isinstance(manifold, ScalableCone) and canvas.view_of(manifold) == "tensors":
        is_small = manifold.point_shape[0] <= _LARGEST_ELLIPSOID
        return "ellipsoids" if is_small else "images"
    return "points"


@canvas.own_style()
def values_figure(
    regions: Mapping[str, Region], joint_level: float | None = None
) -> Figure:
    """Draw the centers of confidence regions as outlines, ellipsoids or images.

    Parameters
    ----------
    regions : mapping of str to Region
        Regions of one space by their names; at most eight. The space must not be one
        of "points" (`form_of`).
    joint_level : float, optional
        The probability with which all regions hold at once, if that is what the title
        shall say. By default it says the level of each.
    """
    first = next(iter(regions.values()))
    form = form_of(first.manifold)
    title = _error_title(first)
    if joint_level is not None:
        title = f"Releases with {joint_title(first, joint_level)}"
    if form == "outlines":
        figure, axes = canvas.new_figure(title, size=(6.0, 5.2))
        draw_outlines(axes, regions)
        return figure

    width = 3.0 * len(regions) + (0.8 if form == "images" else 0.4)
    figure = Figure(figsize=(width, 3.4), layout="constrained", facecolor="none")
    panels = figure.subplots(1, len(regions), squeeze=False)[0]
    figure.suptitle(title, x=0.02, ha="left", color=canvas.INK, fontsize=11)
    if form == "ellipsoids":
        for axes, (name, region), color in zip(
            panels, regions.items(), cycle(SERIES_COLORS), strict=False
        ):
            draw_ellipsoid(axes, region, color)
            axes.set_title(name, color=canvas.INK, fontsize=10)
        _share_limits(list(panels))
        return figure
    _draw_images(figure, list(panels), regions)
    return figure


def _error_title(region: Region) -> str:
    """Say of what the error bars in a figure are."""
    target = "the population" if region.of == "population" else "the privacy noise"
    return f"Releases with {100 * region.level:g}% error bars of {target}"


def joint_title(region: Region, joint_level: float) -> str:
    """Say of what error bars are that hold all at once, and how likely that is."""
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
    regions : mapping of str to Region
        Regions of `KendallShapes` by their names.
    """
    reference = None
    # After four colors the same ones follow with dashed lines.
    styles = product(("-", "--"), SERIES_COLORS)
    for (name, region), (line, color) in zip(regions.items(), styles, strict=False):
        center = region.center
        z = center[:, 0] + 1j * center[:, 1]
        if reference is None:
            # The longest axis of the first shape lies flat.
            z = z * np.exp(-0.5j * np.angle(np.sum(z**2)))
            reference = z
        overlap = np.sum(reference * np.conj(z))
        if np.abs(overlap) > 0:
            z = z * overlap / np.abs(overlap)
        closed = np.append(z, z[0])
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
            for landmark in z:
                place = (float(landmark.real), float(landmark.imag))
                axes.add_patch(Circle(place, region.radius, fc=color, alpha=0.15, lw=0))
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.margins(0.12)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0.0), fontsize=8, frameon=False
    )


def draw_ellipsoid(axes: Axes, region: Region, color: str) -> None:
    """Draw the center of a region of tensors as an ellipsoid with its axes.

    The ellipsoid of A has the half axes √λ along the eigenvectors of A. In the affine-
    invariant metric every B of the region satisfies e^(−r)·A ≤ B ≤ e^r·A, so that its
    ellipsoid lies between those of A that are e^(−r/2) and e^(r/2) times as long; both
    are dashed.

    Parameters
    ----------
    axes : Axes
    region : Region
        Of matrices with two or three rows.
    color : str
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
    """Return the half axes of the ellipsoid of a positive matrix, in columns."""
    eigenvalues, eigenvectors = np.linalg.eigh(matrix)
    return np.asarray(eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0)))


def _share_limits(panels: list[Axes]) -> None:
    """Give all axes one square of the plane, so that sizes can be compared."""
    reach = max(
        float(np.abs([*axes.get_xlim(), *axes.get_ylim()]).max()) for axes in panels
    )
    for axes in panels:
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach))


def _draw_images(
    figure: Figure, panels: list[Axes], regions: Mapping[str, Region]
) -> None:
    """Draw matrices as images with one scale of colors.

    Parameters
    ----------
    figure : Figure
    panels : list of Axes
        One for each region.
    regions : mapping of str to Region
        Regions of matrices by their names.
    """
    largest = max(float(np.abs(region.center).max()) for region in regions.values())
    image = None
    for axes, (name, region) in zip(panels, regions.items(), strict=True):
        image = axes.imshow(region.center, cmap=_COLOR_MAP, vmin=-largest, vmax=largest)
        axes.set_title(name, color=canvas.INK, fontsize=10)
        axes.set_xlabel(f"within {region.radius:.3g}", color=canvas.INK, fontsize=8)
        axes.tick_params(which="both", color=canvas.INK, labelcolor=canvas.INK)
    assert image is not None
    figure.colorbar(image, ax=panels, shrink=0.8)
