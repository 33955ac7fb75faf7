"""The look of the reproductions' figures: one palette, readable sizes, and legends that
cover nothing.
"""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

RED, ORANGE, BLUE, GREEN, GREY, INK = (
    "#c0392b",
    "#e08e45",
    "#2471a3",
    "#16a085",
    "#7f8c8d",
    "#1d2b3a",
)


def empty_figure(width: float, height: float) -> Figure:
    """Return an empty figure of the given width and height, in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def draw_legend(picture: Figure, *panels: Axes, columns: int = 3) -> None:
    """Draw one legend below all panels of a figure, with each label once.

    Parameters
    ----------
    picture : Figure
        The figure.
    *panels : Axes
        The panels whose labels the legend lists.
    columns : int
        The number of columns of the legend.
    """
    handle_of_label = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    picture.legend(
        handle_of_label.values(),
        handle_of_label,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
    )


def style_axes(axes: Axes) -> None:
    """Remove the frame at the top and right of a panel, and add a pale grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, lw=0.5)
    axes.set_axisbelow(True)


def draw_band(
    axes: Axes,
    x: Any,
    middle: Any,
    low: Any,
    high: Any,
    color: str,
    label: str,
    style: str = "o-",
) -> None:
    """Draw a line, and shade a range around it.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    x, middle : array
        The horizontal and vertical coordinates of the line.
    low, high : array
        The ends of the shaded range at each x.
    color, label, style : str
        The color, the label and matplotlib's format of the line.
    """
    axes.plot(x, middle, style, color=color, ms=4, lw=1.4, label=label)
    axes.fill_between(x, low, high, color=color, alpha=0.18, lw=0)
