"""Pictures of what devices report, of public places and simulated reports alone.
`plot_displacements` shows how far reports lie from one public record, and `plot_places`
a map of true and reported example places. Neither reads a record of anybody.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from curvedp.errors import ParameterError
from curvedp.local.metric import MetricLaplace
from curvedp.local.spaces import Earth, plural
from curvedp.report.canvas import ACCENT, INK, WARM, own_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How many reports are simulated, with a public seed: the picture is an illustration.
_REPORTS = 400
_SEED = 41

# Public places for a map: names, latitudes and longitudes in degrees. A map shows the
# first set whose places are far enough apart for the noise, in kilometers.
_LANDMARKS = {
    "Westminster": (51.5007, -0.1246),
    "St Paul's": (51.5138, -0.0984),
    "Tower Bridge": (51.5055, -0.0754),
    "King's Cross": (51.5308, -0.1238),
    "Kew Gardens": (51.4787, -0.2956),
    "Greenwich": (51.4769, 0.0),
    "Wembley": (51.5560, -0.2796),
    "Crystal Palace": (51.4221, -0.0709),
    "Stratford": (51.5416, -0.0042),
    "Richmond Park": (51.4424, -0.2747),
}
_CAPITALS = {
    "London": (51.51, -0.13),
    "Paris": (48.86, 2.35),
    "Madrid": (40.42, -3.70),
    "Rome": (41.90, 12.50),
    "Berlin": (52.52, 13.40),
    "Vienna": (48.21, 16.37),
    "Warsaw": (52.23, 21.01),
    "Stockholm": (59.33, 18.07),
    "Oslo": (59.91, 10.75),
    "Athens": (37.98, 23.73),
}
_WORLD = {
    "Reykjavik": (64.15, -21.94),
    "Nairobi": (-1.29, 36.82),
    "New York": (40.71, -74.01),
    "Lima": (-12.05, -77.04),
    "Tokyo": (35.68, 139.69),
    "Suva": (-18.14, 178.44),
    "Cape Town": (-33.92, 18.42),
    "Delhi": (28.61, 77.21),
    "South Pole": (-90.0, 0.0),
    "Anchorage": (61.22, -149.90),
}
_MAPS = ((4.0, _LANDMARKS), (400.0, _CAPITALS), (math.inf, _WORLD))

# The circles hold these parts of all reports.
_LEVELS = (0.5, 0.95)


def plot_displacements(mechanism: MetricLaplace) -> "Figure":
    """Draw simulated reports about one public record, with the circles of 50 and 95 %.

    No record of anybody is shown: the record is the public one, and the reports are
    simulated with a public seed.

    Parameters
    ----------
    mechanism : MetricLaplace
        The mechanism that draws the reports, on a space of one or two dimensions; of
        more dimensions the first two coordinates are shown.

    Returns
    -------
    matplotlib.figure.Figure
        Displacements in the unit of the mechanism, seen from the record.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    space = mechanism.space
    x, y = _simulated_displacements(mechanism).T
    with own_style():
        figure = Figure(figsize=(5.2, 5.2), layout="constrained")
        axes = figure.subplots()
        axes.scatter(x, y, s=7, alpha=0.6, color=WARM, label="reports")
        axes.scatter([0], [0], marker="+", s=120, color=INK, label="record")
        for level in _LEVELS:
            radius = mechanism.displacement_quantile(level)
            axes.add_patch(
                Circle((0, 0), radius, fill=False, lw=0.8, ls="--", color=ACCENT)
            )
            axes.annotate(
                f"{100 * level:.0f} %",
                (radius / math.sqrt(2), radius / math.sqrt(2)),
                fontsize=8,
            )

        axes.set_aspect("equal")
        axes.set_xlabel(f"{plural(space.unit)}")
        axes.set_ylabel(f"{plural(space.unit)}")
        axes.set_title(
            f"ε = {mechanism.epsilon:g} per {space.unit}: reports lie "
            f"{mechanism.expected_displacement:.3g} {plural(space.unit)} away on average",
            fontsize=10,
        )
        axes.legend(loc="upper left", fontsize=8)
    return figure


def _simulated_displacements(mechanism: MetricLaplace) -> np.ndarray:
    """Simulate reports of the public record, and flatten them around it.

    Parameters
    ----------
    mechanism : MetricLaplace
        The mechanism that draws the reports. The public seed of the pictures is used.

    Returns
    -------
    array, shape (reports, 2)
        The first two coordinates of the displacements, in the unit of the space; the
        second is 0 on spaces of one dimension.
    """
    space = mechanism.space
    manifold = space.manifold
    rng = np.random.default_rng(_SEED)
    points = space.read(space.public_record[np.newaxis])
    reports = mechanism.simulate_points(np.repeat(points, _REPORTS, axis=0), rng)
    velocities = np.asarray(manifold.log(points[0], reports))
    coordinates = np.asarray(manifold.to_coordinates(points[0], velocities))
    displacements = coordinates[:, :2] * space.unit_length
    if displacements.shape[1] == 1:
        zeros = np.zeros(len(displacements))
        displacements = np.column_stack([displacements, zeros])
    return np.asarray(displacements)


def plot_places(mechanism: MetricLaplace) -> "Figure":
    """Draw a map of public example places, and where they would be reported.

    The places are landmarks of London, capitals of Europe or cities of the world,
    whichever suits the noise. Reports are simulated with a public seed.

    Parameters
    ----------
    mechanism : MetricLaplace
        The mechanism that draws reports of places, on `Earth()`.

    Returns
    -------
    matplotlib.figure.Figure
        A map in degrees, with a line from each place to its report.
    """
    from matplotlib.figure import Figure

    if not isinstance(mechanism.space, Earth):
        raise ParameterError("a map is for places on Earth()")
    displacement = mechanism.expected_displacement
    examples = next(places for limit, places in _MAPS if displacement <= limit)
    true = np.array(list(examples.values()))
    reported = mechanism.simulate(true, np.random.default_rng(_SEED))
    # A report across the date line is drawn on the side of its place.
    steps = reported[:, 1] - true[:, 1]
    reported[:, 1] -= 360 * np.round(steps / 360)

    with own_style():
        figure = Figure(figsize=(6.4, 5.2), layout="constrained")
        axes = figure.subplots()
        for name, start, end in zip(examples, true, reported, strict=True):
            axes.plot([start[1], end[1]], [start[0], end[0]], lw=0.7, color="0.6")
            axes.annotate(
                name, (start[1], start[0]), (4, 4), textcoords="offset points", size=7
            )
        axes.scatter(true[:, 1], true[:, 0], marker="+", color=INK, label="place")
        axes.scatter(reported[:, 1], reported[:, 0], s=14, color=WARM, label="report")
        # A degree of longitude is shorter by the cosine of the latitude.
        middle_latitude = float(np.clip(true[:, 0].mean(), -60, 60))
        axes.set_aspect(1 / math.cos(math.radians(middle_latitude)))
        axes.set_xlabel("longitude in degrees")
        axes.set_ylabel("latitude in degrees")
        axes.set_title(
            f"public example places, ε = {mechanism.epsilon:g} per {mechanism.space.unit}: "
            f"{displacement:,.4g} {plural(mechanism.space.unit)} on average",
            fontsize=10,
        )
        axes.legend(fontsize=8)
    return figure
