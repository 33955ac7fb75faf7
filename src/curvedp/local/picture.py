"""A picture of what a device reports: simulated reports about one public place."""

import math
from typing import TYPE_CHECKING

import numpy as np

from curvedp.local.metric import MetricLaplace
from curvedp.local.spaces import plural
from curvedp.report.canvas import own_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How many reports are simulated, with a public seed: the picture is an illustration.
_REPORTS = 400
_SEED = 41

# The circles hold these parts of all reports.
_LEVELS = (0.5, 0.95)


def plot_displacements(mechanism: MetricLaplace) -> "Figure":
    """Draw simulated reports about one public record, with the circles of 50 and 95 %.

    No record of anybody is shown: the record is the public one, and the reports are
    simulated with a public seed.

    Parameters
    ----------
    mechanism : MetricLaplace
        What reports are drawn by. Its space has two dimensions.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    space = mechanism.space
    manifold = space.manifold
    rng = np.random.default_rng(_SEED)
    point = space.read(space.public_record[None])
    reports = mechanism.simulate_points(np.repeat(point, _REPORTS, axis=0), rng)
    velocities = np.asarray(manifold.log(point[0], reports))
    coordinates = np.asarray(manifold.to_coordinates(point[0], velocities))
    steps = coordinates[:, :2] * space.unit_length
    if steps.shape[1] == 1:
        steps = np.column_stack([steps, np.zeros(len(steps))])

    with own_style():
        figure = Figure(figsize=(5.2, 5.2), layout="constrained")
        axes = figure.subplots()
        axes.scatter(steps[:, 0], steps[:, 1], s=7, alpha=0.6, label="reports")
        axes.scatter([0], [0], marker="+", s=120, color="black", label="record")
        for level in _LEVELS:
            radius = mechanism.displacement_quantile(level)
            axes.add_patch(Circle((0, 0), radius, fill=False, lw=0.8, ls="--"))
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
            f"{mechanism.expected_displacement:.3g} {plural(space.unit)} away on average"
        )
        axes.legend(loc="upper left", fontsize=8)
    return figure
