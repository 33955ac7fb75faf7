"""The pictures of Utpala et al. (2023), drawn from the numbers that `run` computes."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from curvedp.papers.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    draw_band,
    draw_legend,
    empty_figure,
    style_axes,
)

__all__ = [
    "NORM_READINGS",
    "draw_added_time",
    "draw_epsilon",
    "draw_risk",
    "draw_times",
]

# Colors and labels of the ways to draw, by their names in `samplers`.
SAMPLER_COLORS = {
    "transport": "#c0392b",
    "explicit": "#2471a3",
    "sparse": "#16a085",
    "gram_schmidt": "#7f8c8d",
}
SAMPLER_LABELS = {
    "transport": "isometry, no basis",
    "explicit": "explicit basis (up to 6·10⁷ numbers)",
    "sparse": "explicit, sparse",
    "gram_schmidt": "Gram–Schmidt (up to dimension 250)",
}

# How the clipping norms of Figure 2 can be read, as (C₀, C₁), and a panel's title.
# §6.2 gives C₁ = 0.1 and C₂ = 0.01.
NORM_READINGS = {
    "exchanged": (
        (0.01, 0.1),
        "C₀ = 0.01, C₁ = 0.1: the text's norms exchanged (false here)",
    ),
    "text": ((0.1, 0.01), "C₀ = 0.1, C₁ = 0.01: the text's norms (not proved here)"),
    "larger": (
        (0.1, 0.1),
        "C₀ = C₁ = 0.1: the larger, as in equation (3) (false here)",
    ),
}

# Seconds that privatization adds in Table 2: Han et al. (2022), and the paper.
PRINTED_SECONDS = {"SPD 11 × 11": (660 * 3600.0, 41.0), "sphere 786": (668.0, 24.0)}

# Marker with line, and color, of each method of Figure 3; titles of its rows.
RISK_STYLES = {
    "DP-RGD": ("o-", BLUE),
    "DP-RSGD": ("s-", GREEN),
    "DP-RSVRG": ("^-", RED),
    "DP-RSVRG, anchor re-noised": ("^:", "#e59866"),
    "paper's DP-RSVRG": ("v--", "#7d3c98"),
    "paper's DP-RSVRG, as printed": ("v:", "#bb8fce"),
    "one-shot": ("*", INK),
}
RISK_TITLES = {
    "spd": "PathMNIST, adipose",
    "spd, background": "PathMNIST, background",
    "sphere": "MNIST, digit 0",
    "sphere, digit 1": "MNIST, digit 1",
    "poincare": "mammals, Poincaré",
}


def draw_times(panels: dict[str, Any]) -> Figure:
    """Draw Figure 1: the seconds that each sampler needs for one tangent vector.

    Each panel is a manifold. Lines are means over base points, and shaded bands their
    ranges. A line ends where the sampler would need too much memory or time.

    Parameters
    ----------
    panels : dict
        For each of ten manifolds, by its title: "m", the sizes m; "seconds", the mean
        times at the first of these sizes by the name of the sampler; and "range", the
        pairs of the shortest and longest time by the name of the sampler.
    """
    picture = empty_figure(15, 6.2)
    all_axes = picture.subplots(2, 5)
    for axes, (title, panel) in zip(all_axes.flat, panels.items(), strict=True):
        for sampler, mean_times in panel["seconds"].items():
            fastest, slowest = np.transpose(panel["range"][sampler])
            sizes = panel["m"][: len(mean_times)]
            color, label = SAMPLER_COLORS[sampler], SAMPLER_LABELS[sampler]
            draw_band(axes, sizes, mean_times, fastest, slowest, color, label)
        axes.set(title=title, xlabel="m", yscale="log")
        style_axes(axes)
    draw_legend(picture, *picture.axes, columns=4)
    picture.supylabel("seconds a draw")
    return picture


def draw_epsilon(figures: dict[str, Any]) -> Figure:
    """Draw Figure 2: ε against epochs, one panel for each reading of the norms.

    The paper can be read in three ways as to which of two clipping norms is which. The
    axes are linear from 0, as in the paper. Crosses are its two printed numbers.

    Parameters
    ----------
    figures : dict
        The numbers of `opt_fig2`.
    """
    picture = empty_figure(13, 4.2)
    panels = picture.subplots(1, 3, sharey=True)
    for axes, (reading, (_, title)) in zip(panels, NORM_READINGS.items(), strict=True):
        for sigma, rows in figures[reading].items():
            _draw_epsilon_lines(axes, figures["epochs"], sigma, rows)
        printed_label = "printed: 0.47 and 0.64 (σ = 0.05)"
        axes.plot(
            [50, 50], [0.47, 0.64], "x", color=INK, ms=8, mew=2, label=printed_label
        )
        axes.set_title(title.replace(": ", ":\n"), fontsize=9)
        axes.set(xlabel="epochs", ylim=(0, 1.6))
        style_axes(axes)
    panels[0].set_ylabel("ε at δ = 10⁻⁶")
    draw_legend(picture, *panels, columns=4)
    return picture


def _draw_epsilon_lines(
    axes: Axes, epochs: list[int], sigma: str, rows: dict[str, Any]
) -> None:
    """Draw the paper's bound with two splits of δ, and this library's ε, for one σ.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    epochs : list of int
        The horizontal axis.
    sigma : str
        The noise as a key of the figures, such as "σ = 0.05".
    rows : dict
        "half", "optimized" and "ours": ε at each number of epochs.
    """
    color = {"σ = 0.1": BLUE, "σ = 0.05": RED}[sigma]
    styles = {"half": "^:", "optimized": "v--", "ours": "o-"}
    for name, style in styles.items():
        if rows[name] is None:
            continue
        method = "ours" if name == "ours" else f"paper's bound, {name}"
        label = f"{method}, {sigma}"
        axes.plot(epochs, rows[name], style, color=color, ms=4, lw=1.2, label=label)


def draw_added_time(figures: dict[str, Any]) -> Figure:
    """Draw Table 2: the seconds that privacy adds to 3·10⁵ steps, on a log axis.

    The times are dots, because a log axis has no 0 at which bars could begin.

    Parameters
    ----------
    figures : dict
        The numbers of `opt_table2`.
    """
    picture = empty_figure(11, 3.4)
    panels = picture.subplots(1, 2)
    for axes, name in zip(panels, PRINTED_SECONDS, strict=True):
        row = figures[name]
        by_han_et_al, by_the_paper = PRINTED_SECONDS[name]
        # Seconds and color of each dot, by its label.
        dots = {
            "printed: Han et al. (2022)": (by_han_et_al, GREY),
            "a basis, extrapolated from a few draws": (row["added by a basis"], BLUE),
            "Metropolis–Hastings, extrapolated from a few chains": (
                row["added by Metropolis–Hastings"],
                BLUE,
            ),
            "printed: the paper": (by_the_paper, GREY),
            "ours, added": (max(row["added"], 1e-2), RED),
            "ours, the run without privacy": (row["without privacy"], ORANGE),
        }
        _draw_dots(axes, dots)
        axes.set_title(f"{name}, 3·10⁵ steps", fontsize=10)
        style_axes(axes)
    return picture


def _draw_dots(axes: Axes, dots: dict[str, tuple[float, str]]) -> None:
    """Draw one dot for each number of seconds, with its duration as text.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    dots : dict
        Seconds and color of each dot, by its label, from the top down.
    """
    for height, (seconds, color) in enumerate(dots.values()):
        axes.plot(seconds, height, "o", ms=9, color=color)
        axes.annotate(
            _duration(seconds),
            (seconds, height),
            (9, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.set_yticks(range(len(dots)), list(dots), fontsize=9)

    # The room at the right is for the texts next to the dots.
    all_seconds = [seconds for seconds, _ in dots.values()]
    limits = (min(all_seconds) / 3, max(all_seconds) * 40)
    axes.set(xscale="log", xlabel="seconds", xlim=limits, ylim=(len(dots) - 0.4, -0.6))


def _duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours, whichever reads best."""
    if seconds < 600:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def draw_risk(figures: dict[str, Any]) -> Figure:
    """Draw Figure 3: the excess risk of each optimizer against gradient calls.

    There is a row for each data set and a column for each ε. Lines are means of the
    runs. Shaded bands are one standard deviation, if it was recorded.

    Parameters
    ----------
    figures : dict
        The numbers of `opt_fig3`.
    """
    levels = [key for key in next(iter(figures.values())) if key.startswith("ε")]
    picture = empty_figure(3.6 * len(levels) + 1, 2.5 * len(figures) + 0.9)
    grid = picture.subplots(len(figures), len(levels), squeeze=False, sharey="row")
    names = [name for name in RISK_TITLES if name in figures]
    for axes_row, name in zip(grid, names, strict=True):
        panel = figures[name]
        for axes, level in zip(axes_row, levels, strict=True):
            for method, row in panel[level].items():
                _draw_risk_line(axes, panel, method, row)
            axes.axhline(panel["start"], color=GREY, lw=0.8, ls=":")
            axes.set_title(f"{RISK_TITLES[name]}, {level}", fontsize=10)
            axes.set_yscale("log")
            style_axes(axes)
        axes_row[0].set_ylabel("excess risk")
    for axes in grid[-1]:
        axes.set_xlabel("gradient calls / n")
    _add_risk_legend(picture)
    return picture


def _draw_risk_line(
    axes: Axes, panel: dict[str, Any], method: str, row: dict[str, Any]
) -> None:
    """Draw the excess risk of one method, with a band of one standard deviation.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    panel : dict
        The numbers of the data set: "n" records, and "start", the excess risk at the
        starting point.
    method : str
        The name of the method.
    row : dict
        Its numbers at one ε: "gradients", the gradient calls so far; "curve", the mean
        excess risks; and perhaps "band", their standard deviations.
    """
    style, color = RISK_STYLES[method]
    passes = np.array(row["gradients"]) / panel["n"]
    risks = np.array(row["curve"])
    if method == "one-shot":
        axes.plot(passes, risks, style, color=color, ms=11, lw=1.2)
        return

    passes, risks = np.r_[0, passes], np.r_[panel["start"], risks]
    axes.plot(passes, risks, style, color=color, ms=3.5, lw=1.2)
    if row.get("band"):
        deviations = np.r_[0, row["band"]]
        # A band that reached 0 would have no end on a log axis.
        lower = np.maximum(risks - deviations, 0.2 * risks)
        upper = risks + deviations
        axes.fill_between(passes, lower, upper, color=color, alpha=0.15, lw=0)


def _add_risk_legend(picture: Figure) -> None:
    """Add one legend below all panels of a figure, with a line for each method."""
    handles = [
        Line2D(
            [],
            [],
            linestyle=style[1:] or "none",
            marker=style[0],
            color=color,
            ms=6,
            label=method,
        )
        for method, (style, color) in RISK_STYLES.items()
    ]
    picture.legend(
        handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9
    )
