"""Table 1, Figure 4 and the line of §4.2 of the geodesic regression paper, which are
about responses in ℝ⁴. There geodesics are lines p + t·v with a footpoint p and a
velocity v.

In ℝ⁴ the law that Appendix A displays is Gaussian and can be drawn exactly: N(p̂, τ/n)
for the footpoint at the fitted velocity v̂, and N(v̂(p), τ/Σx²) for the velocity at p.
Results of IBM diffprivlib and Opacus are stored in peers.json, with their versions, by
`python -m benchmarks.speed.regression_peers --store`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from curvedp import ApproxDP, PrivateGeodesicRegression
from curvedp.geometry import Euclidean
from curvedp.papers.reg.sampler import VARIANCE, sequential_sampler
from curvedp.papers.reg.wine import (
    ALCOHOL,
    MIDDLE,
    RESPONSES,
    UNIT,
    error,
    first_wines,
    private_line_errors,
)
from curvedp.papers.runner import Setting
from curvedp.papers.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    draw_legend,
    empty_figure,
    style_axes,
)
from curvedp.randomness import GeneratorSource

# Stored runs of the peers, with their versions; and what Table 1 prints.
PEERS = json.loads(Path(__file__).with_name("peers.json").read_text(encoding="utf-8"))
PRINTED = {"least squares": 0.873, "DPGR": 0.954, "Opacus": 0.982, "IBM": 7.856}
GUARANTEE = ApproxDP(2.0, 1e-5)


def displayed_line(
    t: np.ndarray, Z: np.ndarray, rng: np.random.Generator, draws: int
) -> np.ndarray:
    """Draw lines by the law that Appendix A displays, exactly. NOT PRIVATE.

    The density exp(−Σd²/2τ), τ the largest residual, makes the footpoint N(p̂, τ/n) at
    the fitted velocity, and the velocity N(v̂(p), τ/Σt²) at that footpoint p, where v̂(p)
    is the best velocity for it.

    Parameters
    ----------
    t, Z : array of shape (n,), array of shape (n, responses)
        Predictors in [0, 1], and responses.
    rng : numpy.random.Generator
        The source of randomness.
    draws : int
        The number of lines.

    Returns
    -------
    array of shape (draws, 2, responses)
        Pairs of a footpoint and a velocity.
    """
    design = np.column_stack([np.ones(len(t)), t])
    p_hat, v_hat = np.linalg.lstsq(design, Z, rcond=None)[0]
    residuals = Z - p_hat - t[:, None] * v_hat
    tau = float(np.linalg.norm(residuals, axis=1).max())
    square_sum = np.sum(t**2)

    p = p_hat + np.sqrt(tau / len(t)) * rng.standard_normal((draws, Z.shape[1]))
    # v̂(p) = Σt(z − p)/Σt², for each draw d of p, summed over the records i.
    v = np.einsum("i,dij->dj", t, Z - p[:, None]) / square_sum
    v = v + np.sqrt(tau / square_sum) * rng.standard_normal(v.shape)
    return np.stack([p, v], axis=1)


def reg_table1(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Make Table 1: mean squared errors of a regression on Wine Quality.

    Four kinds of methods are compared: least squares, the paper's sampler by both
    readings, private lines of this library, and stored results of other libraries. As
    in the paper, predictors are scaled to [0, 1] and responses standardized by the data
    themselves.

    Parameters
    ----------
    setting : Setting
        Full or reduced form, and where the data are.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    x, Y = first_wines(setting.load("wine"))
    rng = np.random.default_rng(1)
    draws = 40 if setting.full else 6

    # Lines by both readings of the paper's sampler, and private lines.
    t, Z = _standardized(x, Y)
    samples = sequential_sampler(Euclidean(4), t, Z, rng, draws, velocities=1)
    by_gradient = np.stack([samples.footpoints, samples.velocities[:, 0]], axis=1)
    displayed = _errors(displayed_line(t, Z, rng, 20_000), t, Z)
    own_errors = private_line_errors(x, Y, draws)
    figures: dict[str, Any] = {
        "least squares": error(_least_squares(x, Y), Y),
        "mean": 1.0,
        "displayed": _spread(displayed),
        "gradient": _spread(_errors(by_gradient, t, Z)),
        "ours": {
            name.removeprefix("ours, "): _spread(values)
            for name, values in own_errors.items()
        },
        "peers": {name: _spread(values) for name, values in PEERS["errors"].items()},
        "versions": PEERS["versions"],
    }
    return figures, _draw_bars(figures)


def reg_fig4(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Make Figure 4: four features of Wine Quality against alcohol, five lines each.

    The numbers are the errors of one draw of each line.

    Parameters
    ----------
    setting : Setting
        Full or reduced form, and where the data are.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    x, Y = first_wines(setting.load("wine"))
    rng = np.random.default_rng(4)
    t, Z = _standardized(x, Y)
    ends = np.array([x.min(), x.max()])
    p, v = displayed_line(t, Z, rng, 1)[0]
    private = PrivateGeodesicRegression(
        Euclidean(4),
        guarantee=GUARANTEE,
        source=GeneratorSource(rng),
        radius=1.0,
        speed=3.0,
        clip=1.0,
        x_range=ALCOHOL,
    ).fit(x, Y)
    displayed = Y.mean(axis=0) + Y.std(axis=0) * np.stack([p, p + v])
    stored = {name: np.array(line) for name, line in PEERS["lines"].items()}
    # For each line the responses at both ends, and its color.
    lines = {
        "least squares, not private": (_least_squares(x, Y, ends), RED),
        "paper's DPGR, as displayed (not private)": (displayed, BLUE),
        "IBM diffprivlib, ε = 2 (stored run)": (stored["IBM diffprivlib"], GREEN),
        "Opacus, (2, 10⁻⁵) (stored run)": (stored["Opacus"], ORANGE),
        "ours, (2, 10⁻⁵)": (np.asarray(private.predict(ends)), INK),
    }

    fractions = ((x - ends[0]) / (ends[1] - ends[0]))[:, None]
    figures = {
        label: error(values[0] + fractions * (values[1] - values[0]), Y)
        for label, (values, _) in lines.items()
    }
    return figures, _draw_wine_lines(x, Y, ends, lines)


def reg_line(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Make the artificial line of §4.2, for which no numbers are printed.

    Points on a line in ℝ⁴ have noise of variance 0.001, as §4.1 has it.

    Parameters
    ----------
    setting : Setting
        Full or reduced form, and where the data are.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    rng = np.random.default_rng(7)
    draws = 40 if setting.full else 8
    sizes = (20, 50, 100, 200, 500) if setting.full else (20, 100)
    rows = [_line_errors(n, draws, rng) for n in sizes]
    summary = {
        f"{who} over fit at n = {row['n']}": row[who]["mean"] / row["fit"]
        for row in rows
        for who in ("gradient", "displayed", "ours")
    }
    return {"rows": rows, "summary": summary}, _draw_line(sizes, rows)


def _line_errors(n: int, draws: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return mean squared errors of all methods on n points of an artificial line.

    Parameters
    ----------
    n : int
        The number of records.
    draws : int
        The number of private lines of each kind.
    rng : numpy.random.Generator
        The source of data and noise.

    Returns
    -------
    dict
        "n"; "fit", the error of least squares; and the spread of the errors of the
        paper's sampler by both readings and of ours.
    """
    direction = rng.standard_normal(4)
    t = rng.random(n)
    on_line = (t - 0.5)[:, None] * direction / np.linalg.norm(direction)
    Z = on_line + np.sqrt(VARIANCE) * rng.standard_normal((n, 4))
    samples = sequential_sampler(Euclidean(4), t, Z, rng, draws, velocities=1)
    private_errors = []
    for _ in range(draws):
        model = PrivateGeodesicRegression(
            Euclidean(4),
            source=GeneratorSource(rng),
            radius=0.3,
            speed=1.5,
            clip=0.2,
            x_range=(0.0, 1.0),
            guarantee=GUARANTEE,
        ).fit(t, Z)
        private_errors.append(float(np.mean((model.predict(t) - Z) ** 2)))
    by_gradient = np.stack([samples.footpoints, samples.velocities[:, 0]], axis=1)
    return {
        "n": n,
        "fit": float(np.mean((_least_squares(t, Z) - Z) ** 2)),
        "gradient": _spread(_errors(by_gradient, t, Z)),
        "displayed": _spread(_errors(displayed_line(t, Z, rng, 500), t, Z)),
        "ours": _spread(private_errors),
    }


def _least_squares(
    x: np.ndarray, Y: np.ndarray, at: np.ndarray | None = None
) -> np.ndarray:
    """Return the predictions of least squares, at the data or elsewhere. NOT PRIVATE.

    Parameters
    ----------
    x, Y : array of shape (n,), array of shape (n, responses)
        The data.
    at : array of shape (k,), optional
        Predictors at which lines are wanted; those of the data if omitted.
    """
    design = np.column_stack([np.ones(len(x)), x])
    p, v = np.linalg.lstsq(design, Y, rcond=None)[0]
    places = x if at is None else at
    return np.asarray(p + places[:, None] * v)


def _standardized(x: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return predictors scaled to [0, 1], and responses of mean 0 and variance 1.

    The scales are read off the data, as in the paper. NOT PRIVATE.
    """
    return (x - x.min()) / (x.max() - x.min()), (Y - Y.mean(axis=0)) / Y.std(axis=0)


def _errors(pairs: np.ndarray, t: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return the mean squared error of each drawn line.

    Parameters
    ----------
    pairs : array of shape (draws, 2, responses)
        A footpoint p and a velocity v for each line p + t·v.
    t, Z : array of shape (n,), array of shape (n, responses)
        The data.
    """
    return np.array([np.mean((p + t[:, None] * v - Z) ** 2) for p, v in pairs])


def _spread(values: Any) -> dict[str, float]:
    """Return "mean" and "sd", the standard deviation, of numbers."""
    return {"mean": float(np.mean(values)), "sd": float(np.std(values))}


# --- pictures


def _draw_line(sizes: tuple[int, ...], rows: list[dict[str, Any]]) -> Figure:
    """Draw mean squared errors against n, with bars of one standard deviation.

    Parameters
    ----------
    sizes : tuple of int
        The values of n.
    rows : list of dict
        The results of `_line_errors`, one for each.
    """
    picture = empty_figure(6.5, 4.2)
    axes = picture.add_subplot()
    for who, color, label in (
        ("gradient", RED, "paper's sampler, gradient (not private)"),
        ("displayed", ORANGE, "paper's sampler, as displayed (not private)"),
        ("ours", BLUE, "ours, sound, (2, 10⁻⁵)"),
    ):
        mean = np.array([row[who]["mean"] for row in rows])
        sd = np.array([row[who]["sd"] for row in rows])
        # On a log axis a bar must not reach zero.
        below = np.minimum(sd, 0.9 * mean)
        bars: dict[str, Any] = {"marker": "o", "ms": 4, "capsize": 3}
        axes.errorbar(sizes, mean, [below, sd], color=color, label=label, **bars)
    fits = [row["fit"] for row in rows]
    axes.plot(sizes, fits, color=INK, ls=":", label="least squares, not private")
    axes.set(xlabel="n", ylabel="mean squared error", xscale="log", yscale="log")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    style_axes(axes)
    draw_legend(picture, axes, columns=2)
    return picture


def _draw_wine_lines(
    x: np.ndarray,
    Y: np.ndarray,
    ends: np.ndarray,
    lines: dict[str, tuple[np.ndarray, str]],
) -> Figure:
    """Draw each response of the wines against alcohol, with all fitted lines.

    Parameters
    ----------
    x, Y : array of shape (n,), array of shape (n, 4)
        Alcohol, and responses in the public units.
    ends : array of shape (2,)
        The least and the largest alcohol.
    lines : dict
        For each label the responses at both ends, of shape (2, 4), and a color.
    """
    picture = empty_figure(10, 7)
    grid = picture.subplots(2, 2)
    for k, (axes, name) in enumerate(zip(grid.flat, RESPONSES, strict=True)):
        axes.plot(x, MIDDLE[k] + UNIT[k] * Y[:, k], "o", ms=3, color=GREY, alpha=0.6)
        limits = axes.get_ylim()
        for label, (values, color) in lines.items():
            heights = MIDDLE[k] + UNIT[k] * values[:, k]
            axes.plot(ends, heights, color=color, lw=1.8, label=label)
        axes.set(xlabel="alcohol, %", ylabel=name, ylim=limits)
        style_axes(axes)
    draw_legend(picture, grid[0, 0], columns=2)
    return picture


def _bar_rows(
    figures: dict[str, Any],
) -> dict[str, tuple[dict[str, float], str, float | None]]:
    """Return the error, color and printed number of each bar of `_draw_bars`.

    Parameters
    ----------
    figures : dict
        The numbers of `reg_table1`.

    Returns
    -------
    dict
        By the label of the bar: the mean and standard deviation of its error, its
        color, and the error that the paper prints (None if it prints none).
    """
    fit = {"mean": figures["least squares"], "sd": 0.0}
    rows: dict[str, tuple[dict[str, float], str, float | None]] = {
        "least squares, not private": (fit, GREY, PRINTED["least squares"]),
        "paper's sampler, as displayed (not private)": (
            figures["displayed"],
            ORANGE,
            PRINTED["DPGR"],
        ),
        "paper's sampler, gradient (not private)": (
            figures["gradient"],
            RED,
            PRINTED["DPGR"],
        ),
    }
    for name, row in figures["ours"].items():
        rows[f"ours, {name}"] = (row, BLUE, None)
    for name, row in figures["peers"].items():
        if "Opacus" in name and "added" in name:
            printed = PRINTED["Opacus"] if "tutorial" in name else None
            rows[name] = (row, GREEN, printed)
    for name, row in figures["peers"].items():
        if "within 4" in name:
            rows[name] = (row, GREEN, PRINTED["IBM"])
    return rows


def _draw_bar(
    axes: Axes,
    row: int,
    mean_and_sd: dict[str, float],
    color: str,
    printed: float | None,
) -> None:
    """Draw one horizontal bar with its number, and the printed number as a diamond.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    row : int
        The number of the bar, from the top.
    mean_and_sd : dict
        The "mean" and the "sd" of the error.
    color : str
        The color of the bar.
    printed : float, optional
        The number that the paper prints.
    """
    mean, sd = mean_and_sd["mean"], mean_and_sd["sd"]
    bar_style: dict[str, Any] = {"alpha": 0.75, "error_kw": {"lw": 1}}
    axes.barh(row, mean, xerr=sd or None, color=color, **bar_style)

    # The text begins to the right of the bar, the diamond and the dotted line at 1.
    axes.annotate(
        f"{mean:.3f} ± {sd:.3f}" if sd else f"{mean:.3f}",
        (max(mean + sd, printed or 0, 1.0), row),
        (9, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color=INK,
    )
    if printed:
        diamond_label = "printed" if row == 0 else None
        axes.plot(printed, row, "D", color=INK, ms=6, label=diamond_label)


def _draw_bars(figures: dict[str, Any]) -> Figure:
    """Draw Table 1 as horizontal bars, with the printed numbers as diamonds.

    Parameters
    ----------
    figures : dict
        The numbers of `reg_table1`.
    """
    bars = _bar_rows(figures)
    picture = empty_figure(10, 4.6)
    axes = picture.add_subplot()
    for row, (mean_and_sd, color, printed) in enumerate(bars.values()):
        _draw_bar(axes, row, mean_and_sd, color, printed)
    axes.set_yticks(range(len(bars)), list(bars), fontsize=9)
    axes.invert_yaxis()
    axes.axvline(1.0, color=INK, ls=":", lw=1, label="the mean alone, not private")
    label = "mean squared error, in units of the data's variance"
    axes.set(xlabel=label, xlim=(0, 11.5))
    style_axes(axes)
    draw_legend(picture, axes, columns=2)
    return picture
