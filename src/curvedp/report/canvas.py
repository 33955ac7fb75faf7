"""Drawing tools shared by all figures on curved spaces, for matplotlib.
They are the project's colors, an empty figure, the sphere seen from a point, the
Poincaré disk, and positive definite matrices drawn as ellipses.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Ellipse

from curvedp.geometry import Lorentz, Manifold, PoincareBall, Sphere
from curvedp.geometry.capabilities import ScalableCone

# The project's colors. The report's page replaces each of them in a figure by a CSS
# variable, so no other color is used in a figure.
INK = "#1d2b3a"  # text and axes
ACCENT = "#0b6e99"  # the main curve
SOFT = "#9ec9d9"  # the filled area that belongs to the main curve
WARM = "#d1603d"  # the released value, and curves to compare with
PANEL = "#f3f7f9"  # the background of a sphere or a disk
LINES = "#c4d3db"  # meridians and circles of equal distance
TRACK = "#e8eef2"  # the empty part of a bar

# Angles of a full turn, one per degree, at which closed curves are drawn.
_FULL_TURN = np.linspace(0, 2 * np.pi, 361)
# The angle between two meridians, or two parallels, of a sphere; degrees.
_GRID_STEP = 15
# The steps of a labelled graticule, in degrees.
_SMALL_LABEL_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_LABEL_STEPS = (*_SMALL_LABEL_STEPS, 1, 2, 5, 10, 15, 30)
# So many points of each of its lines are computed.
_LINE_POINTS = 721
# The names of the angles on the axes, for directions that are not places on the Earth:
# the angle that runs to the right, and the one that runs upward.
_ANGLE_NAMES = {
    "decinc-degrees": ("declination", "inclination"),
    "trend-plunge-degrees": ("trend", "plunge"),
    "dipdir-dip-degrees": ("dip direction", "dip"),
    "colatlon-degrees": ("longitude", "colatitude"),
}
# Beyond this height the axis of view is so near to the north pole that "up" is taken
# from another direction.
_MAX_HEIGHT_WITH_NORTH_UP = 0.95


@contextmanager
def own_style() -> Iterator[None]:
    """Give matplotlib its own defaults, in a block or, as a decorator, in a function.

    Matplotlib reads a file `matplotlibrc` in the working folder, where the records of
    someone else may lie. Such a file can have texts set by LaTeX, a program that is
    then started with commands from the file; and a bad one makes every figure fail.
    """
    with style.context("default"):
        yield


def view_of(manifold: Manifold) -> str:
    """Return how points of a manifold are drawn.

    Parameters
    ----------
    manifold : Manifold
        Where the points are.

    Returns
    -------
    {"sphere", "disc", "tensors", "coordinates"}
        On a sphere, in the Poincaré disk, as ellipses (of real positive definite
        matrices of at least 2×2), or by normal coordinates.
    """
    if isinstance(manifold, Sphere) and manifold.dim == 2:
        return "sphere"
    if isinstance(manifold, PoincareBall | Lorentz) and manifold.dim == 2:
        return "disc"
    if _has_real_matrices(manifold):
        return "tensors"
    return "coordinates"


def _has_real_matrices(manifold: Manifold) -> bool:
    """Return whether points are real positive definite matrices of at least 2×2.

    Parameters
    ----------
    manifold : Manifold
        Where the points are.
    """
    if not isinstance(manifold, ScalableCone):
        return False
    shape = manifold.point_shape
    is_matrix = len(shape) == 2 and shape[0] >= 2
    return is_matrix and np.asarray(manifold.origin).dtype.kind == "f"


def new_figure(
    title: str,
    x_label: str = "",
    y_label: str = "",
    size: tuple[float, float] = (5.6, 4.2),
) -> tuple[Figure, Axes]:
    """Return an empty figure in the project's colors, and its axes.

    Parameters
    ----------
    title, x_label, y_label : str
        The title of the figure and the labels of its axes.
    size : (float, float)
        Width and height, in inches.

    Returns
    -------
    figure, axes : Figure, Axes
        The figure and its only axes.
    """
    figure = Figure(figsize=size, layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", color=INK, fontsize=11)
    axes.set_facecolor("none")
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    axes.tick_params(which="both", color=INK, labelcolor=INK)
    axes.spines[:].set_color(INK)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def show_square(axes: Axes, half_width: float, center: Any = (0.0, 0.0)) -> None:
    """Show a square of the plane to scale, without ticks and frame.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    half_width : float
        Half the side of the square, in the units of the plane.
    center : pair of float
        The center of the square.
    """
    x, y = center
    axes.set(
        xlim=(x - half_width, x + half_width),
        ylim=(y - half_width, y + half_width),
        aspect="equal",
        xticks=[],
        yticks=[],
    )
    axes.spines[:].set_visible(False)


def viewing_frame(axis: np.ndarray) -> np.ndarray:
    """Return an orthonormal frame of space to look at a sphere along an axis.

    Parameters
    ----------
    axis : array, shape (3,)
        The direction from the center of the sphere to the viewer.

    Returns
    -------
    array, shape (3, 3)
        Its rows are the directions that are drawn to the right, drawn upward, and
        toward the viewer. North is up, unless the viewer looks down on a pole.
    """
    toward_viewer = axis / np.linalg.norm(axis)
    if abs(toward_viewer[2]) < _MAX_HEIGHT_WITH_NORTH_UP:
        up = np.array([0.0, 0.0, 1.0])
    else:
        up = np.array([0.0, 1.0, 0.0])
    upward = up - (up @ toward_viewer) * toward_viewer
    upward /= np.linalg.norm(upward)
    rightward = np.cross(upward, toward_viewer)
    return np.stack([rightward, upward, toward_viewer])


def draw_sphere_grid(axes: Axes, frame: np.ndarray) -> None:
    """Draw the unit sphere with its parallels and meridians in orthographic projection.

    The lines are 15 degrees apart, and only their visible halves are drawn.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    frame : array of shape (3, 3)
        A `viewing_frame`: the viewer looks along its third row.
    """
    draw_sphere_background(axes)
    cosine = np.cos(_FULL_TURN)
    sine = np.sin(_FULL_TURN)
    for latitude in np.radians(np.arange(-75, 90, _GRID_STEP)):
        height = np.full_like(sine, np.sin(latitude))
        parallel = [np.cos(latitude) * cosine, np.cos(latitude) * sine, height]
        curve = np.stack(parallel, axis=-1)
        draw_visible_curve(axes, curve @ frame.T, color=LINES, lw=0.6)
    for longitude in np.radians(np.arange(0, 180, _GRID_STEP)):
        meridian = [cosine * np.cos(longitude), cosine * np.sin(longitude), sine]
        curve = np.stack(meridian, axis=-1)
        draw_visible_curve(axes, curve @ frame.T, color=LINES, lw=0.6)


def draw_sphere_background(axes: Axes) -> None:
    """Draw the outline of the unit sphere in orthographic projection.

    Parameters
    ----------
    axes : Axes
        The axes to draw on, in units of the sphere's radius.
    """
    axes.add_patch(Circle((0, 0), 1, facecolor=PANEL, edgecolor=INK, lw=1))


def label_graticule(
    axes: Axes, frame: np.ndarray, half_width: float, form: str | None = None
) -> None:
    """Draw parallels and meridians in a square about the middle, with their degrees.

    The step between them is the smallest of 0.001, 0.002, 0.005, …, 15 and 30 degrees
    at which at most about six cross the square. Each is labelled where it first leaves
    the square.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        The axes to draw on.
    frame : array of shape (3, 3)
        The rows are the directions to the right, upward, and toward the viewer, as
        `viewing_frame` returns them.
    half_width : float
        Half the side of the square, in radii of the sphere.
    form : str, optional
        The form of the records, such as "decinc-degrees": the angles are called so.
        By default they are latitudes and longitudes on the Earth.
    """
    width = 2 * np.degrees(np.arcsin(min(half_width, 1.0)))
    fitting_steps = [step for step in _LABEL_STEPS if width <= 6 * step]
    step = min(fitting_steps, default=_LABEL_STEPS[-1])
    # The corners of the square are at most this far from its middle.
    latitudes, longitudes = _degrees_within(frame[2], min(90.0, 0.75 * width))

    for latitude in _multiples(step, latitudes[0], latitudes[-1]):
        if abs(latitude) < 90:
            parallel = (np.full(_LINE_POINTS, latitude), longitudes)
            text = _parallel_label(latitude, form)
            _draw_labelled_line(axes, frame, half_width, parallel, text, "left")

    drawn_labels = set()
    for longitude in _multiples(step, longitudes[0], longitudes[-1]):
        text = _meridian_label(longitude, form)
        if text in drawn_labels:  # a full turn has both of its ends
            continue
        drawn_labels.add(text)
        meridian = (latitudes, np.full(_LINE_POINTS, longitude))
        _draw_labelled_line(axes, frame, half_width, meridian, text, "bottom")

    if form in _ANGLE_NAMES:
        name_to_the_right, name_upward = _ANGLE_NAMES[form]
        axes.set_xlabel(name_to_the_right, color=INK, fontsize=8)
        axes.set_ylabel(name_upward, color=INK, fontsize=8)


def _degrees_within(middle: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the latitudes and longitudes of the sphere within a reach of a point.

    Parameters
    ----------
    middle : array of shape (3,)
        A point of the unit sphere.
    reach : float
        The distance in degrees, at most 90.

    Returns
    -------
    latitudes, longitudes : arrays
        Evenly spaced degrees, from the smallest to the largest.
    """
    x, y, z = middle
    latitude = np.degrees(np.arctan2(z, np.hypot(x, y)))
    longitude = np.degrees(np.arctan2(y, x))
    longitude_reach = _longitude_half_width(latitude, reach)
    longitudes = longitude + np.linspace(
        -longitude_reach, longitude_reach, _LINE_POINTS
    )
    lowest = max(-90.0, latitude - reach)
    highest = min(90.0, latitude + reach)
    return np.linspace(lowest, highest, _LINE_POINTS), longitudes


def _longitude_half_width(latitude: float, reach: float) -> float:
    """Return how many degrees of longitude a cap of a sphere extends to each side.

    Parameters
    ----------
    latitude : float
        The latitude of the middle of the cap, in degrees.
    reach : float
        The radius of the cap, in degrees.

    Returns
    -------
    float
        In degrees; 180 if the cap contains a pole.
    """
    if abs(latitude) + reach >= 90:
        return 180.0
    ratio = np.sin(np.radians(reach)) / np.cos(np.radians(latitude))
    return float(np.degrees(np.arcsin(ratio)))


def _multiples(step: float, lower: float, upper: float) -> list[float]:
    """Return the multiples of a step between two numbers.

    Parameters
    ----------
    step : float
        The step, > 0.
    lower, upper : float
        The ends of the interval, both included.

    Returns
    -------
    list of float
        The multiples in ascending order.
    """
    first = int(np.ceil(lower / step))
    last = int(np.floor(upper / step))
    # Rounding leaves numbers such as 0.3 that are written with few digits.
    return [round(count * step, 6) for count in range(first, last + 1)]


def _parallel_label(latitude: float, form: str | None) -> str:
    """Return the label of a line of constant latitude, in the form of the records.

    Parameters
    ----------
    latitude : float
        The latitude in degrees.
    form : str or None
        The form, such as "colatlon-degrees"; None for places on the Earth.

    Returns
    -------
    str
        Such as "45°N", or "45°" in other forms.
    """
    if form == "colatlon-degrees":
        return f"{90 - latitude:g}°"
    if form == "dipdir-dip-degrees":  # the points are normals, whose third axis is down
        return f"{90 + latitude:g}°"
    if form in _ANGLE_NAMES or latitude == 0:
        return f"{latitude:g}°"
    return f"{abs(latitude):g}°{'N' if latitude > 0 else 'S'}"


def _meridian_label(longitude: float, form: str | None) -> str:
    """Return the label of a line of constant longitude, in the form of the records.

    Parameters
    ----------
    longitude : float
        The longitude in degrees.
    form : str or None
        The form, such as "trend-plunge-degrees"; None for places on the Earth.

    Returns
    -------
    str
        Such as "10°W", or "350°" in other forms.
    """
    if form in _ANGLE_NAMES and form != "colatlon-degrees":
        return f"{round(longitude % 360, 6):g}°"
    east = round((longitude + 180) % 360 - 180, 6)
    if east in (0, -180):
        return f"{abs(east):g}°"
    return f"{abs(east):g}°{'E' if east > 0 else 'W'}"


def _draw_labelled_line(
    axes: Axes,
    frame: np.ndarray,
    half_width: float,
    latitude_longitude: tuple[np.ndarray, np.ndarray],
    text: str,
    edge: Literal["left", "bottom"],
) -> None:
    """Draw a line of the graticule, and write its degrees where it crosses an edge.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        The axes to draw on.
    frame : array of shape (3, 3)
        The directions to the right, upward, and toward the viewer, in rows.
    half_width : float
        Half the side of the square that is shown.
    latitude_longitude : pair of arrays
        Points of the line, in degrees.
    text : str
        The label.
    edge : {"left", "bottom"}
        The edge of the square, inside which the label is.
    """
    latitude, longitude = np.radians(latitude_longitude)
    cosine = np.cos(latitude)
    points = [cosine * np.cos(longitude), cosine * np.sin(longitude), np.sin(latitude)]
    curve = np.stack(points, axis=-1) @ frame.T
    draw_visible_curve(axes, curve, color=LINES, lw=0.7)

    # How far each point is to the right, upward and toward the viewer.
    right, up, toward_viewer = curve.T
    toward_edge, along_edge = (right, up) if edge == "left" else (up, right)
    is_visible = (toward_viewer > 0) & (np.abs(along_edge) < 0.92 * half_width)
    is_near_edge = (toward_edge > -half_width) & (toward_edge < -0.9 * half_width)
    is_candidate = is_visible & is_near_edge
    if not np.any(is_candidate):
        return
    first = int(np.argmin(np.where(is_candidate, toward_edge, np.inf)))
    axes.annotate(
        text,
        curve[first, :2],
        color=INK,
        fontsize=7,
        ha="left" if edge == "left" else "center",
        va="bottom",
    )


def draw_visible_curve(axes: Axes, curve: np.ndarray, **style: Any) -> None:
    """Draw the part of a curve on the sphere that faces the viewer.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    curve : array, shape (count, 3)
        Points in the coordinates of a `viewing_frame`; the third faces the viewer.
    **style
        Options of `Axes.plot`, such as the color.
    """
    faces_viewer = curve[:, 2:] > 0
    visible_points = np.where(faces_viewer, curve[:, :2], np.nan)
    axes.plot(*visible_points.T, **style)


def to_poincare_disc(manifold: Manifold, points: np.ndarray) -> np.ndarray:
    """Return points of a hyperbolic plane as points of the Poincaré disk.

    Points of the hyperboloid (`Lorentz`) are projected stereographically onto the disk;
    points of a `PoincareBall` are there already.

    Parameters
    ----------
    manifold : Lorentz or PoincareBall
        The model of the hyperbolic plane in which the points are given.
    points : array of shape (..., *point_shape)
        The points.

    Returns
    -------
    array of shape (..., 2)
        Points of the unit disk.
    """
    if isinstance(manifold, Lorentz):
        return np.asarray(points[..., 1:] / (1 + points[..., :1]))
    return points


def draw_disc_grid(axes: Axes) -> None:
    """Draw the Poincaré disk with circles of hyperbolic radius 1, 2, …, 5.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    """
    axes.add_patch(Circle((0, 0), 1, facecolor=PANEL, edgecolor=INK, lw=1))
    for distance in range(1, 6):
        radius_in_disc = np.tanh(distance / 2)
        axes.add_patch(
            Circle((0, 0), radius_in_disc, fill=False, edgecolor=LINES, lw=0.6)
        )


def tensor_ellipse(matrix: np.ndarray, **style: Any) -> Ellipse:
    """Return the ellipse of the first two rows and columns of a positive matrix.

    Its half axes are the square roots of the eigenvalues of that 2×2 block.

    Parameters
    ----------
    matrix : array of shape (m, m)
        A positive definite matrix.
    **style
        Passed to `matplotlib.patches.Ellipse`.
    """
    eigenvalues, eigenvectors = np.linalg.eigh(matrix[:2, :2])
    width, height = 2 * np.sqrt(eigenvalues)
    angle = np.degrees(np.arctan2(eigenvectors[1, 0], eigenvectors[0, 0]))
    return Ellipse((0, 0), width, height, angle=angle, fill=False, **style)
