"""How the figures of the reproductions look.

They have one palette, readable sizes, and legends that cover nothing.
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


def sheet(width: float, height: float) -> Figure:
    """Return an empty figure of a width and a height in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def legend(picture: Figure, *panels: Axes, columns: int = 3) -> None:
    """Draw one legend below all panels, from the labels of some, each label once.

    Parameters
    ----------
    picture : Figure
        The figure that gets the legend.
    *panels : Axes
        The panels whose labels are taken.
    columns : int
        The number of columns of the legend.
    """
    pairs = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    picture.legend(
        pairs.values(),
        pairs,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
    )


def plain(axes: Axes) -> None:
    """Remove the frame at the top and right, and draw a pale grid behind."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, lw=0.5)
    axes.set_axisbelow(True)


def band(
    axes: Axes,
    x: Any,
    middle: Any,
    low: Any,
    high: Any,
    color: str,
    label: str,
    style: str = "o-",
) -> None:
    """Draw a line with the range that it stands for.

    Parameters
    ----------
    axes : Axes
        Where to draw.
    x, middle : array
        The line.
    low, high : array
        The ends of the range at each x, which is filled.
    color, label, style : str
        Color, label and matplotlib's format of the line.
    """
    axes.plot(x, middle, style, color=color, ms=4, lw=1.4, label=label)
    axes.fill_between(x, low, high, color=color, alpha=0.18, lw=0)
