"""Figures that explain a release, for matplotlib.
They are drawn from the certificate and the released value only, never from the data.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from curvedp.core.certificate import Certificate
from curvedp.errors import ParameterError
from curvedp.inference import Region
from curvedp.inference.region import region_radii
from curvedp.privacy import GDP, Guarantee, PrivacyCurve
from curvedp.report import canvas
from curvedp.report.values import (
    LEGEND_LINE,
    SERIES_COLORS,
    draw_turned_axes,
    form_of,
    image_figure,
    joint_title,
    outlines_figure,
    values_figure,
)

# Confidence levels at which the radius of a region is drawn.
_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
# Boundary points of a section by a plane, one per degree.
_BOUNDARY_POINTS = 361
# Random boundary tensors between which the envelope of ellipses is drawn, and their
# seed.
_BOUNDARY_TENSORS = 2000
_TENSOR_SEED = 7

# The lines of several regions in one figure, and how many there can be.
_LINE_STYLES = ("-", "--")
_MOST_REGIONS = len(_LINE_STYLES) * len(SERIES_COLORS)

_COMPARISON_STYLE: dict[str, Any] = {"color": canvas.WARM, "lw": 1.2, "ls": "--"}
_REGION_STYLE: dict[str, Any] = {
    "facecolor": canvas.SOFT,
    "alpha": 0.45,
    "edgecolor": canvas.ACCENT,
    "lw": 1.5,
}


@canvas.own_style()
def region_figure(
    region: Region, value: np.ndarray | None = None, form: str | None = None
) -> Figure:
    """Draw a confidence region where it lies, and the released value in it.

    The region is drawn on the sphere, in the Poincaré disk, as tensors, as the outline
    of a shape, as turned axes, as a larger matrix, or in normal coordinates. With more
    than two dimensions the figure is a section: by the first two coordinates at the
    center, or by the first two axes of a tensor.

    Parameters
    ----------
    region : Region
        The confidence region.
    value : array, optional
        The released value, which shrinkage and projection may have moved away from the
        center of the region; that center by default.
    form : str, optional
        The form of the records, such as "decinc-degrees", after which the angles on a
        globe are called.

    Returns
    -------
    Figure
        The picture, which the caller saves.
    """
    draw_by_view: dict[str, Callable[[Axes, Region, np.ndarray], None]] = {
        "sphere": partial(_draw_on_sphere, form=form),
        "disc": _draw_in_disc,
        "tensors": _draw_tensors,
        "coordinates": _draw_coordinates,
    }

    # Shapes, matrices and rotations have pictures of their own.
    title = _region_title(region)
    point = region.center if value is None else np.asarray(value)
    picture_form = form_of(region.manifold)
    if picture_form == "outlines":
        return outlines_figure(title, {"released": region})
    if picture_form == "images":
        return image_figure(title, region, point)

    view = canvas.view_of(region.manifold)
    size = (5.6, 4.2) if view == "coordinates" else (5.2, 5.2)
    figure, axes = canvas.new_figure(title, size=size)
    if picture_form == "axes":
        draw_turned_axes(axes, {"released": region})
        return figure
    draw_by_view[view](axes, region, point)
    return figure


@canvas.own_style()
def regions_figure(
    regions: Mapping[str, Region],
    form: str | None = None,
    joint_level: float | None = None,
) -> Figure:
    """Draw several confidence regions in one figure, such as those of groups.

    On the sphere they are drawn on a globe with a graticule in degrees. Shapes are
    outlines over each other, rotations are turned axes, tensors are ellipsoids and
    larger matrices images, side by side (`curvedp.report.values`). Elsewhere the first
    two of the normal coordinates at the center of the first region are shown.

    Parameters
    ----------
    regions : mapping of str to Region
        Regions on one manifold by their names in the legend; at most eight.
    form : str, optional
        The form of the records, such as "decinc-degrees", after which the angles on a
        globe are called.
    joint_level : float, optional
        The probability with which all regions hold at once, if that is what the title
        should say. By default it says the level of each.

    Returns
    -------
    Figure
        The picture, which the caller saves.

    Raises
    ------
    ParameterError
        If the regions are on different manifolds, or more than eight.
    """
    first = next(iter(regions.values()))
    if any(region.manifold != first.manifold for region in regions.values()):
        raise ParameterError("regions of one figure must be on one manifold")
    if len(regions) > _MOST_REGIONS:
        raise ParameterError(f"a figure shows at most {_MOST_REGIONS} regions")
    if form_of(first.manifold) != "points":
        return values_figure(regions, joint_level)
    title = _region_title(first)
    if joint_level is not None:
        title = joint_title(first, joint_level)
    height = 5.2 + LEGEND_LINE * len(regions)
    figure, axes = canvas.new_figure(title, size=(5.2, height))

    frame = None
    if canvas.view_of(first.manifold) == "sphere":
        middle = np.mean([region.center for region in regions.values()], axis=0)
        frame = canvas.viewing_frame(middle)
    outlines = {
        name: _region_outline(region, first, frame) for name, region in regions.items()
    }
    if frame is not None:
        reach = max(float(np.abs(outline).max()) for outline in outlines.values())
        half_width = min(1.05, max(1.6 * reach, 1e-12))
        canvas.draw_sphere_background(axes)
        canvas.label_graticule(axes, frame, half_width, form)
    _draw_outlines(axes, outlines)

    # Below the axes a legend covers neither a region nor a number of the graticule.
    figure.legend(loc="outside lower center", fontsize=8, frameon=False)
    if frame is not None:
        canvas.show_square(axes, half_width)
    else:
        axes.set(aspect="equal", xlabel="first coordinate", ylabel="second coordinate")
    return figure


def _draw_outlines(axes: Axes, outlines: Mapping[str, np.ndarray]) -> None:
    """Draw regions of the plane with their centers, each in its own color.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    outlines : mapping
        For each name in the legend, the points of a boundary and, last, the center.
    """
    # After four colors the same ones follow with dashed lines.
    styles = product(_LINE_STYLES, SERIES_COLORS)
    for (name, outline), (line, color) in zip(outlines.items(), styles, strict=False):
        boundary = outline[:-1].T
        center = outline[-1]
        axes.fill(*boundary, facecolor=color, alpha=0.25, lw=0)
        axes.plot(*boundary, color=color, lw=1.5, ls=line, label=name)
        axes.plot(*center, "o", color=color, ms=4)


def _region_outline(
    region: Region, first: Region, frame: np.ndarray | None
) -> np.ndarray:
    """Return the boundary of a region and, last, its center, as points of the plane.

    Parameters
    ----------
    region : Region
        The confidence region.
    first : Region
        The region at whose center normal coordinates are taken.
    frame : array of shape (3, 3), or None
        The `viewing_frame` of a sphere; None for normal coordinates.

    Returns
    -------
    array of shape (362, 2)
        Points in radii of the sphere, or normal coordinates.
    """
    points = np.concatenate([_region_boundary(region), region.center[np.newaxis]])
    if frame is not None:
        return np.asarray((points @ frame.T)[:, :2])
    manifold = first.manifold
    coordinates = np.asarray(manifold.normal_coordinates(first.center, points))
    return np.asarray(coordinates[:, :2])


def _region_title(region: Region) -> str:
    """Return a title that names the level and the target of a region.

    It says what the error bar is about, so that nobody takes the region for one that
    holds 95 % of the records.

    Parameters
    ----------
    region : Region
        The region that is drawn.
    """
    level = f"{100 * region.level:g}%"
    if region.of == "population":
        return f"{level} error bar of the population"
    return f"{level} error bar of the privacy noise"


def _region_boundary(region: Region) -> np.ndarray:
    """Return boundary points of a region in the plane of its first two coordinates.

    The points run once around the region.

    Parameters
    ----------
    region : Region
        The confidence region.

    Returns
    -------
    array of shape (361, *point_shape)
        Points in the frame of the records.
    """
    angles = np.linspace(0, 2 * np.pi, _BOUNDARY_POINTS)
    plane_directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    dim = region.manifold.dim
    if dim == 1:
        return region.edge(plane_directions[:, :1])
    return region.edge(np.pad(plane_directions, ((0, 0), (0, dim - 2))))


def _draw_on_sphere(
    axes: Axes, region: Region, value: np.ndarray, form: str | None
) -> None:
    """Draw a region of the 2-sphere, seen from above its center, and the value.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    region : Region
        The confidence region.
    value : array of shape point_shape
        The released point.
    form : str or None
        The form of the records.
    """
    frame = canvas.viewing_frame(region.center)
    boundary = _region_boundary(region) @ frame.T
    half_width = _zoomed_half_width(boundary[:, :2])
    canvas.draw_sphere_background(axes)
    canvas.label_graticule(axes, frame, half_width, form)

    # A region that reaches behind the horizon is drawn as a curve, not filled.
    is_all_visible = np.all(boundary[:, 2] > 0)
    if is_all_visible:
        axes.fill(*boundary[:, :2].T, **_REGION_STYLE)
    else:
        canvas.draw_visible_curve(axes, boundary, color=canvas.ACCENT, lw=1.5)

    value_in_frame = value[np.newaxis] @ frame.T
    canvas.draw_visible_curve(
        axes, value_in_frame, color=canvas.WARM, marker="o", ms=4, ls=""
    )
    if half_width < 1:
        width = 2 * np.degrees(np.arcsin(half_width))
        _write_width(axes, f"{width:.2g}° wide")
    canvas.show_square(axes, half_width)


def _draw_in_disc(axes: Axes, region: Region, value: np.ndarray) -> None:
    """Draw a region of the hyperbolic plane in the Poincaré disk, and the value.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    region : Region
        The confidence region.
    value : array of shape point_shape
        The released point.
    """
    canvas.draw_disc_grid(axes)
    boundary = canvas.to_poincare_disc(region.manifold, _region_boundary(region))
    axes.fill(*boundary.T, **_REGION_STYLE)
    value_in_disc = canvas.to_poincare_disc(region.manifold, value)
    axes.plot(*value_in_disc, "o", color=canvas.WARM, ms=4)

    center = boundary.mean(axis=0)
    half_width = _zoomed_half_width(boundary - center)
    if half_width < 1:
        _show_zoomed_square(axes, half_width, center)
    else:
        _show_zoomed_square(axes, half_width)


def _show_zoomed_square(
    axes: Axes, half_width: float, center: Any = (0.0, 0.0)
) -> None:
    """Show a square of the plane, and write its width if it is a part of the space.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    half_width : float
        Half the width of the square.
    center : pair of float
        The center of the square.
    """
    if half_width < 1:
        _write_width(axes, f"{2 * half_width:.2g} wide")
    canvas.show_square(axes, half_width, center)


def _write_width(axes: Axes, text: str) -> None:
    """Write how wide the shown part of the space is, at the top right of a picture.

    Parameters
    ----------
    axes : Axes
        The axes of the picture.
    text : str
        The width in words, such as "2° wide".
    """
    axes.set_title(text, loc="right", color=canvas.INK, fontsize="small")


def _zoomed_half_width(boundary: np.ndarray) -> float:
    """Return half the width of a square in which a region is well visible.

    A wide region is shown with enough of the grid around it, and never more than the
    unit disk; a tiny one, within 0.02 of the center, fills a quarter of the width.

    Parameters
    ----------
    boundary : array of shape (count, 2)
        Points of the boundary, relative to the center of the square.

    Returns
    -------
    float
        In radii of the sphere or of the disk.
    """
    reach = float(np.max(np.abs(boundary)))
    half_width = max(0.3, 6 * reach) if reach > 0.02 else 4 * reach
    return min(1.05, half_width)


def _draw_tensors(axes: Axes, region: Region, value: np.ndarray) -> None:
    """Draw the band between the innermost and the outermost ellipse of a region.

    The ellipse of a positive definite matrix A has the length (uᵀ A⁻¹ u)^(-1/2) in the
    direction u. The band has, in each direction, the smallest and the largest length of
    many random tensors on the boundary of the region.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    region : Region
        The confidence region.
    value : array of shape point_shape
        The released point.
    """
    angles = np.linspace(0, 2 * np.pi, _BOUNDARY_POINTS)
    u = np.stack([np.cos(angles), np.sin(angles)])
    rng = np.random.default_rng(_TENSOR_SEED)
    directions = rng.standard_normal((_BOUNDARY_TENSORS, region.manifold.dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    sections = region.edge(directions)[:, :2, :2]

    # uᵀ A⁻¹ u for each tensor k and each direction t.
    inverses = np.linalg.inv(sections)
    quadratic_forms = np.einsum("at,kab,bt->kt", u, inverses, u)
    lengths = 1 / np.sqrt(quadratic_forms)
    outer = u * lengths.max(axis=0)
    inner = u * lengths.min(axis=0)
    # Once around the outer curve, and back along the inner one.
    band = np.concatenate([outer, np.flip(inner, axis=1)], axis=1)
    axes.fill(*band, facecolor=canvas.SOFT, alpha=0.45, lw=0)
    for curve in (outer, inner):
        axes.plot(*curve, color=canvas.ACCENT, lw=1.2)
    axes.add_patch(canvas.tensor_ellipse(value, edgecolor=canvas.WARM, lw=2.5))
    if len(value) > 2:
        axes.set_xlabel("section by the first two axes", color=canvas.INK)
    canvas.show_square(axes, 1.15 * float(lengths.max()))


def _draw_coordinates(axes: Axes, region: Region, value: np.ndarray) -> None:
    """Draw a region and the value in normal coordinates at the region's center.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    region : Region
        The confidence region.
    value : array of shape point_shape
        The released point.
    """
    manifold = region.manifold
    boundary = np.asarray(
        manifold.normal_coordinates(region.center, _region_boundary(region))
    )
    point = np.reshape(value, (1, *manifold.point_shape))
    released = np.asarray(manifold.normal_coordinates(region.center, point))
    if manifold.dim == 1:
        heights = np.zeros(len(boundary))
        axes.plot(boundary[:, 0], heights, color=canvas.ACCENT, lw=6, alpha=0.5)
        axes.plot(released[:, 0], [0.0], "o", color=canvas.WARM, ms=5)
        axes.set(yticks=[], xlabel=f"distance from {np.ravel(region.center)[0]:.6g}")
        return
    axes.fill(*boundary[:, :2].T, **_REGION_STYLE)
    axes.plot(*released[:, :2].T, "o", color=canvas.WARM, ms=4)
    axes.set(aspect="equal", xlabel="first coordinate at its middle", ylabel="second")


@canvas.own_style()
def radius_figure(certificate: Certificate, components: int | None = None) -> Figure:
    """Draw the radius of the confidence region against its level.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.
    components : int, optional
        How many principal directions were released, if directions were.

    Returns
    -------
    Figure
        A curve from which the radius at any level can be read.
    """
    figure, axes = canvas.new_figure(
        "Size of the confidence region",
        "radius of the region",
        "confidence level",
    )
    radii = region_radii(certificate, _LEVELS, components)
    axes.plot(radii, _LEVELS, color=canvas.ACCENT, lw=3, marker="o", ms=4)
    axes.set(xlim=(0, None), ylim=(0.45, 1.02))
    return figure


@canvas.own_style()
def profile_figure(profile: PrivacyCurve, mu: float) -> Figure:
    """Draw the privacy profile δ(ε) of a release.

    Parameters
    ----------
    profile : PrivacyCurve
        The exact guarantee of the release, with its δ(ε).
    mu : float
        The profile of the Euclidean Gaussian mechanism with this μ is drawn to compare.

    Returns
    -------
    Figure
        A curve on a logarithmic axis of δ.
    """
    figure, axes = canvas.new_figure(
        "Privacy profile: the smallest δ for each ε", "ε", "δ(ε)"
    )

    epsilons = np.linspace(0, max(1.0, 6 * mu + mu * mu / 2), 160)
    deltas = np.asarray(profile.delta(epsilons))
    # A δ of zero has no place on a logarithmic axis.
    positive_deltas = np.where(deltas > 0, deltas, np.nan)

    axes.semilogy(
        epsilons, positive_deltas, color=canvas.ACCENT, lw=3, label="this release"
    )
    axes.semilogy(
        epsilons,
        GDP(mu).delta(epsilons),
        label=f"Euclidean Gaussian, μ = {mu:.3g}",
        **_COMPARISON_STYLE,
    )
    axes.set_ylim(1e-12, 1.5)
    axes.legend(loc="upper right", frameon=False, labelcolor=canvas.INK)
    return figure


@canvas.own_style()
def tradeoff_figure(profile: PrivacyCurve, mu: float) -> Figure:
    """Draw how well an attacker can tell two neighboring data sets apart.

    The curve is the smallest share of misses (type II error) for each share of false
    alarms (type I error).

    Parameters
    ----------
    profile : PrivacyCurve
        The exact guarantee of the release, with its trade-off function.
    mu : float
        The trade-off of the Euclidean Gaussian mechanism with this μ is drawn to
        compare.

    Returns
    -------
    Figure
        A curve from (0, 1) to (1, 0); nearer to the dotted line is more private.
    """
    figure, axes = canvas.new_figure(
        "Can an attacker tell two candidates apart?", "false alarms", "misses"
    )

    false_alarms = np.linspace(0, 1, 201)
    misses = np.asarray(profile.tradeoff(false_alarms))
    guessing = 1 - false_alarms

    # Three curves: guessing, this release, and Gaussian noise in flat space.
    axes.plot(false_alarms, guessing, color=canvas.INK, lw=1, ls=":", label="guessing")
    axes.plot(false_alarms, misses, color=canvas.ACCENT, lw=3, label="this release")
    axes.plot(
        false_alarms,
        GDP(mu).tradeoff(false_alarms),
        label=f"Euclidean Gaussian, μ = {mu:.3g}",
        **_COMPARISON_STYLE,
    )
    axes.fill_between(
        false_alarms, misses, guessing, color=canvas.SOFT, alpha=0.35, lw=0
    )
    axes.set_aspect("equal")
    axes.legend(loc="upper right", frameon=False, labelcolor=canvas.INK)
    return figure


@canvas.own_style()
def budget_figure(
    spent: Guarantee | None, budget: Guarantee, labels: list[str]
) -> Figure:
    """Draw how much of a ledger's budget is spent, as a bar.

    The bar shows the share of the cost that adds up over releases: μ² under Gaussian
    DP, θ² under Rao DP, ρ under zCDP, and ε otherwise.

    Parameters
    ----------
    spent : Guarantee or None
        The guarantee of all releases together, of the budget's own kind; None if there
        are none.
    budget : Guarantee
        The budget of the ledger.
    labels : list of str
        The labels of the releases.

    Returns
    -------
    Figure
        A bar.
    """
    figure, axes = canvas.new_figure(f"Budget {budget}", size=(11.2, 1.1))
    spent_share = 0.0
    if spent is not None:
        spent_share = float(spent.cost()[0] / budget.cost()[0])
    axes.barh([0], [1.0], color=canvas.TRACK, height=0.5)
    axes.barh([0], [spent_share], color=canvas.ACCENT, height=0.5)

    releases = "1 release" if len(labels) == 1 else f"{len(labels)} releases"
    text = f"{100 * spent_share:.1f}% spent in {releases}"
    if spent_share > 0.5:
        # The text stands in the full part of the bar.
        axes.text(spent_share - 0.01, 0, text, va="center", ha="right", color="white")
    else:
        axes.text(spent_share + 0.01, 0, text, va="center", ha="left", color=canvas.INK)
    axes.set_xlim(0, 1)
    axes.axis("off")
    return figure


class PlannedRelease(Protocol):
    """What `plan_figure` reads of a `curvedp.planning.Plan`."""

    @property
    def n(self) -> int:
        """The planned number of records."""

    @property
    def error(self) -> float:
        """The predicted error with that many records."""

    @property
    def useless_error(self) -> float:
        """The error at which the release is of little use."""

    @property
    def title(self) -> str:
        """The planned release in one line, which becomes the title of the figure."""


@canvas.own_style()
def plan_figure(
    study: PlannedRelease,
    errors_by_count: Sequence[tuple[float, float]],
    errors_by_mu: Sequence[tuple[float, float]],
) -> Figure:
    """Draw the error that a plan predicts, by number of records and by μ.

    A dashed line marks the error at which the public center alone is as accurate.

    Parameters
    ----------
    study : PlannedRelease
        The plan; `curvedp.plan` makes one.
    errors_by_count : sequence of (number of records, predicted error)
        Pairs of a number of records and the predicted error.
    errors_by_mu : sequence of (μ, predicted error)
        Pairs of a μ of Gaussian DP and the predicted error.

    Returns
    -------
    Figure
        Two panels with the same axis of errors.
    """
    figure = Figure(figsize=(9.6, 3.8), layout="constrained", facecolor="none")
    count_axes, mu_axes = figure.subplots(1, 2, sharey=True)
    _draw_predicted_errors(count_axes, errors_by_count, "records", study.useless_error)
    _draw_predicted_errors(mu_axes, errors_by_mu, "μ", study.useless_error)
    count_axes.plot([study.n], [study.error], "o", color=canvas.WARM, ms=7)
    count_axes.set_ylabel("predicted distance to the mean", color=canvas.INK)
    mu_axes.legend(loc="lower left", frameon=False, labelcolor=canvas.INK)
    figure.suptitle(study.title, color=canvas.INK, fontsize=11)
    return figure


def _draw_predicted_errors(
    axes: Axes,
    errors: Sequence[tuple[float, float]],
    x_label: str,
    useless_error: float,
) -> None:
    """Draw one panel of `plan_figure`: predicted errors on logarithmic axes.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    errors : sequence of (x, predicted error)
        Pairs of a value of x and the predicted error.
    x_label : str
        A description of x.
    useless_error : float
        Where the dashed line is drawn.
    """
    x_values, error_values = zip(*errors, strict=True)
    axes.loglog(x_values, error_values, color=canvas.ACCENT, lw=2.5, marker="o", ms=4)
    axes.axhline(
        useless_error,
        label="the public center alone is as accurate",
        **_COMPARISON_STYLE,
    )
    axes.set_xticks(x_values, labels=[f"{x:g}" for x in x_values])
    axes.minorticks_off()
    axes.set_xlabel(x_label, color=canvas.INK)
    axes.spines[["top", "right"]].set_visible(False)
