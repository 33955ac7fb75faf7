"""Pictures of released connectomes and region tensors, for matplotlib.
A connectome is a private mean of the correlations between the regions of a brain; a
region tensor is a private mean of the diffusion tensors in one region.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.neuro.connectome import PrivateConnectome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from curvedp.neuro.regions import RegionRow

# At most this many chords are drawn: the strongest.
_MAX_CHORDS = 150
# Up to this many rows have a name each; beyond, their networks have.
_MAX_NAMES = 40
# Markers of more regions than this would overlap on the circle, and are smaller.
_MAX_LARGE_MARKERS = 120
# Longer names of regions are cut, so that the labels leave room for the matrix.
_LONGEST_NAME = 20
# How near to the center of the circle chords bend: 0 is straight through it.
_BEND = 0.25
_CHORD_STEPS = np.linspace(0.0, 1.0, 41)


def plot_connectome(
    connectome: PrivateConnectome, level: float = 0.95, of: str = "records"
) -> "Figure":
    """Draw a released connectome as a matrix and as chords between regions.

    A chord is drawn for each edge whose confidence interval does not contain 0. The
    intervals hold simultaneously for all edges.

    Parameters
    ----------
    connectome : PrivateConnectome
        After `fit`.
    level : float
        The probability that all intervals hold.
    of : {"records", "population"}
        The target of the intervals, as in `PrivateConnectome.confidence_edges`.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = [np.corrcoef(rng.normal(size=(5, 99)) + rng.normal(size=99)) for _ in "abc" * 99]
    >>> figure = plot_connectome(PrivateConnectome().fit(np.array(X)))
    >>> len(figure.axes)
    3
    """
    from matplotlib.figure import Figure

    from curvedp.report.canvas import own_style

    with own_style():
        figure = Figure(figsize=(12.0, 5.8))
        # A fixed layout: names around a circle lie outside of its axes' box.
        matrix_axes = figure.add_axes((0.12, 0.20, 0.34, 0.68))
        chord_axes = figure.add_axes((0.53, 0.04, 0.46, 0.82))
        order, networks = _row_order(connectome)
        _draw_matrix(figure, matrix_axes, connectome, order, networks)
        _draw_chords(chord_axes, connectome, order, networks, level, of)
        noun = "regions" if connectome.resolution_ == "regions" else "networks"
        figure.suptitle(
            f"Private group connectome: {len(order)} {noun}, "
            f"{connectome.certificate_.statistic['n']} people, "
            f"{connectome.certificate_.guarantee}",
            fontsize=11,
        )
    return figure


def _row_order(connectome: PrivateConnectome) -> tuple[np.ndarray, list[str]]:
    """Return the order of rows, networks side by side, and the network of each row."""
    count = len(connectome.names_)
    if connectome.resolution_ == "networks":
        return np.arange(count), list(connectome.names_)
    if connectome.networks_ is None:
        return np.arange(count), [""] * count
    order = np.argsort(np.array(connectome.networks_), kind="stable")
    return order, [connectome.networks_[row] for row in order]


def _network_blocks(networks: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the networks in a matrix: the name, first row and end row of each.

    Parameters
    ----------
    networks : sequence of str
        The network of each row, sorted.

    Returns
    -------
    list of (str, int, int)
        For each run its network, its first row, and the row after its last.
    """
    starts = [
        row
        for row in range(len(networks))
        if row == 0 or networks[row] != networks[row - 1]
    ]
    ends = [*starts[1:], len(networks)]
    return [
        (networks[start], start, end) for start, end in zip(starts, ends, strict=True)
    ]


def _draw_matrix(
    figure: "Figure",
    axes: "Axes",
    connectome: PrivateConnectome,
    order: np.ndarray,
    networks: Sequence[str],
) -> None:
    """Draw the matrix of correlations, with a line between networks.

    Parameters
    ----------
    figure, axes
        Where it is drawn.
    connectome : PrivateConnectome
        The release.
    order : array
        The order of its rows.
    networks : sequence of str
        The network of each row, in that order.
    """
    from curvedp.report.canvas import INK

    shown = connectome.matrix_[np.ix_(order, order)].copy()
    if connectome.resolution_ == "regions":
        np.fill_diagonal(shown, np.nan)
    largest = max(float(np.nanmax(np.abs(shown))), 0.05)
    picture = axes.imshow(shown, cmap="RdBu_r", vmin=-largest, vmax=largest)
    figure.colorbar(picture, ax=axes, shrink=0.8, pad=0.03, label="correlation")
    ticks, labels = _row_labels(connectome, order, networks)
    axes.set_xticks(ticks, labels, rotation=90, fontsize=7)
    axes.set_yticks(ticks, labels, fontsize=7)
    if connectome.resolution_ == "regions":
        for _, start, _ in _network_blocks(networks)[1:]:
            axes.axhline(start - 0.5, color=INK, lw=0.6)
            axes.axvline(start - 0.5, color=INK, lw=0.6)
    noise = connectome.predicted_error_
    axes.set_title(
        f"correlations ({connectome.estimate_}; error of an edge about {noise:.2g})",
        fontsize=9,
    )


def _row_labels(
    connectome: PrivateConnectome, order: np.ndarray, networks: Sequence[str]
) -> tuple[list[float], list[str]]:
    """Return the positions and the texts of row labels: regions, or their networks.

    Parameters
    ----------
    connectome : PrivateConnectome
        The release.
    order : array
        The order of its rows.
    networks : sequence of str
        The network of each row, in that order.
    """
    if len(order) <= _MAX_NAMES:
        names = _short_names([str(connectome.names_[row]) for row in order])
        return [float(row) for row in range(len(order))], names
    # Too many names: one label in the middle of each network.
    blocks = _network_blocks(networks)
    middles = [(start + end - 1) / 2 for _, start, end in blocks]
    return middles, [name for name, _, _ in blocks]


def _short_names(names: Sequence[str]) -> list[str]:
    """Return names without the words that all begin with, such as "7Networks_".

    Parameters
    ----------
    names : sequence of str
        The regions. Words are joined by underscores.
    """
    words = [name.split("_") for name in names]
    while len({name[0] for name in words}) == 1 and min(map(len, words)) > 1:
        words = [name[1:] for name in words]
    short_names = ["_".join(name) for name in words]
    return [
        name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        for name in short_names
    ]


def _draw_chords(
    axes: "Axes",
    connectome: PrivateConnectome,
    order: np.ndarray,
    networks: Sequence[str],
    level: float,
    of: str,
) -> None:
    """Draw the edges whose intervals do not contain 0 as chords of a circle.

    Parameters
    ----------
    axes
        Where they are drawn.
    connectome : PrivateConnectome
        The release.
    order : array
        The order of its rows.
    networks : sequence of str
        The network of each row, in that order.
    level, of
        As in `plot_connectome`.
    """
    from matplotlib import colormaps

    from curvedp.report.canvas import ACCENT, INK, WARM

    count = len(order)
    angles = np.pi / 2 - 2 * np.pi * (np.arange(count) + 0.5) / count
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    lower, upper = connectome.confidence_edges(level, of)
    rows, columns = np.triu_indices(count, 1)
    pairs = [
        (abs(value), value, row, column)
        for row, column in zip(rows, columns, strict=True)
        if _excludes_zero(lower, upper, order[row], order[column])
        for value in [connectome.matrix_[order[row], order[column]]]
    ]
    strongest = sorted(pairs, key=lambda pair: pair[0])[-_MAX_CHORDS:]
    largest = strongest[-1][0] if strongest else 1.0
    for strength, value, row, column in strongest:
        curve = _chord_curve(places[row], places[column])
        sign_color = WARM if value > 0 else ACCENT
        part = strength / largest
        axes.plot(
            *curve.T, color=sign_color, lw=0.4 + 2.2 * part, alpha=0.25 + 0.6 * part
        )

    blocks = _network_blocks(networks)
    has_room = count <= _MAX_LARGE_MARKERS
    marker_size = 4 if has_room else 2
    palette = colormaps["tab20"]
    for number, (name, start, end) in enumerate(blocks):
        # The twenty colors are ten pairs of dark and light; the dark ones come first.
        shade = (2 * number) % 20 + number // 10 % 2
        color: Any = palette(shade) if name else INK
        axes.plot(*places[start:end].T, "o", color=color, ms=marker_size)
        if name:
            _write_radial_text(axes, angles[start:end].mean(), name)
    if not blocks[0][0] and count <= _MAX_NAMES:
        names = _short_names([str(connectome.names_[row]) for row in order])
        for angle, name in zip(angles, names, strict=True):
            _write_radial_text(axes, angle, name)
    target = "of the population" if of == "population" else "for the noise alone"
    title = f"{len(pairs)} edges whose {level:.0%} interval {target} excludes 0"
    if len(strongest) < len(pairs):
        title += f"; the {len(strongest)} strongest"
    axes.set_title(title, fontsize=9)
    axes.plot([], [], color=WARM, label="positive")
    axes.plot([], [], color=ACCENT, label="negative")
    axes.legend(loc="lower right", fontsize=7, frameon=False)
    axes.set(xlim=(-1.45, 1.45), ylim=(-1.35, 1.35), aspect="equal")
    axes.set_axis_off()


def _excludes_zero(lower: np.ndarray, upper: np.ndarray, row: int, column: int) -> bool:
    """Return whether the interval of an edge does not contain 0."""
    return bool(lower[row, column] > 0 or upper[row, column] < 0)


def _chord_curve(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return a quadratic Bézier curve between two points that bends to the center.

    Edges of a network are drawn in a circle with it.

    Parameters
    ----------
    start, end : arrays of shape (2,)
        Points of the unit circle about the origin.

    Returns
    -------
    array of shape (steps, 2)
        Points of the curve.
    """
    steps = _CHORD_STEPS[:, np.newaxis]
    control = _BEND * (start + end) / 2
    start_weight = (1 - steps) ** 2
    control_weight = 2 * steps * (1 - steps)
    end_weight = steps**2
    return np.asarray(
        start_weight * start + control_weight * control + end_weight * end
    )


def _write_radial_text(axes: "Axes", angle: float, text: str) -> None:
    """Write a name outside of the unit circle, along the radius at an angle.

    Parameters
    ----------
    axes : matplotlib Axes
        The picture of the circle.
    angle : float
        Where the name begins, in radians.
    text : str
        The name.
    """
    # On the left half the text is turned around, so that it is not upside down.
    degrees = np.degrees(angle) % 360
    is_left = 90 < degrees < 270
    axes.text(
        1.06 * np.cos(angle),
        1.06 * np.sin(angle),
        text,
        rotation=degrees - 180 if is_left else degrees,
        rotation_mode="anchor",
        ha="right" if is_left else "left",
        va="center",
        fontsize=7,
    )


def plot_regions(rows: "Sequence[RegionRow]", title: str = "") -> "Figure":
    """Draw FA and MD of each region with their error bars.

    Parameters
    ----------
    rows : sequence of RegionRow
        What `PrivateRegionTensors.table` returned.
    title : str
        The heading of the picture.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from curvedp.neuro import PrivateRegionTensors
    >>> tensors = np.tile(7e-4 * np.diag([2.0, 0.6, 0.5]), (300, 2, 1, 1))
    >>> figure = plot_regions(PrivateRegionTensors().fit(tensors).table())
    >>> len(figure.axes)
    2
    """
    from matplotlib.figure import Figure

    from curvedp.report.canvas import ACCENT, LINES, own_style

    if not rows:
        raise ParameterError("there are no regions to draw")
    with own_style():
        height = 1.4 + 0.26 * len(rows)
        figure = Figure(figsize=(9.0, height), layout="constrained")
        axes_pair: Any = figure.subplots(1, 2, sharey=True)
        places = np.arange(len(rows))[::-1]
        anisotropies = np.array([(row.fa_low, row.fa, row.fa_high) for row in rows])
        diffusivities = np.array([(row.md_low, row.md, row.md_high) for row in rows])
        for axes, bars in zip(axes_pair, (anisotropies, diffusivities), strict=True):
            low, values, high = bars.T
            axes.hlines(places, low, high, color=ACCENT, lw=2.0, alpha=0.5)
            axes.plot(values, places, "o", color=ACCENT, ms=4)
            axes.grid(axis="x", color=LINES, lw=0.5)
            axes.set_axisbelow(True)
            axes.locator_params(axis="x", nbins=5)
            axes.xaxis.set_major_formatter("{x:.3g}")
        axes_pair[0].set_yticks(places, [row.region for row in rows], fontsize=8)
        axes_pair[0].set_xlabel("fractional anisotropy (FA)")
        axes_pair[1].set_xlabel("mean diffusivity (MD), in the units of the tensors")
        if title:
            figure.suptitle(title, fontsize=11)
    return figure


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure to a file, png, svg or pdf by its ending.

    Parameters
    ----------
    figure : Figure
        A figure that one of the functions here returned.
    path : str or Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from matplotlib.figure import Figure
    >>> save_figure(Figure(), Path(tempfile.mkdtemp()) / "empty.png")
    """
    from curvedp.report.canvas import own_style

    path = Path(path)
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ParameterError(
            "must end in .png, .svg or .pdf", parameter="picture", value=str(path)
        )
    with own_style():
        figure.savefig(path, dpi=150)
