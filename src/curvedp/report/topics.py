"""A picture of released topics in the plane, made of released numbers alone.
A topic is a cluster of embedded texts: a private center with a noisy number of texts,
and phrases of a public vocabulary that describe it.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from curvedp.report import canvas

# The area of the largest circle, in square points, and that of the smallest one.
_LARGEST_AREA = 1600.0
_SMALLEST_AREA = 12.0

# Longer names are cut off.
_LONGEST_NAME = 28


@canvas.own_style()
def topics_figure(
    places: np.ndarray, counts: np.ndarray, count_error: float, names: Sequence[str]
) -> Figure:
    """Draw each topic as a circle whose area is its noisy count.

    Parameters
    ----------
    places : array, shape (topics, 2)
        The positions of the topics in the plane; nearby topics are similar.
    counts : array, shape (topics,)
        The noisy counts. A topic whose count is below its error bar is an empty circle.
    count_error : float
        The half-width of a 95 % interval of each count.
    names : sequence of str
        The text beside each circle.

    Returns
    -------
    Figure
        The picture, made of released numbers alone.
    """
    figure, axes = canvas.new_figure(
        "topics: near to each other if they are alike", size=(7.6, 6.4)
    )

    _draw_circles(axes, places, counts, count_error)
    for (x, y), name in zip(places, names, strict=True):
        text = name
        if len(name) > _LONGEST_NAME:
            text = name[: _LONGEST_NAME - 1] + "…"
        # No part of a name is read as mathematics or as a command.
        axes.text(
            x,
            y,
            text,
            color=canvas.INK,
            fontsize=7,
            ha="center",
            va="center",
            parse_math=False,
        )
    axes.set(xticks=[], yticks=[])
    axes.margins(0.15)
    axes.spines[:].set_visible(False)
    return figure


def _draw_circles(
    axes: Axes, places: np.ndarray, counts: np.ndarray, count_error: float
) -> None:
    """Draw a circle for each topic; those whose count may be noise are empty.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    places : array of shape (topics, 2)
        The centers of the circles.
    counts : array of shape (topics,)
        The noisy counts, to which the areas are proportional.
    count_error : float
        The half-width of a 95 % interval of each count.
    """
    largest = max(float(np.max(counts)), 1e-300)
    areas = _LARGEST_AREA * np.maximum(counts, 0.0) / largest
    visible_areas = np.maximum(areas, _SMALLEST_AREA)
    is_known = counts > count_error
    x, y = places.T
    axes.scatter(
        x[is_known],
        y[is_known],
        s=visible_areas[is_known],
        color=canvas.SOFT,
        edgecolors=canvas.ACCENT,
    )
    axes.scatter(
        x[~is_known],
        y[~is_known],
        s=visible_areas[~is_known],
        facecolors="none",
        edgecolors=canvas.LINES,
    )
