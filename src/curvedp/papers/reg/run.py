"""Figures 1 to 6, Table 1 and §4.2 of *Differentially private geodesic regression*.
"gradient" and "displayed" are two readings of the paper's sampler, which is NOT PRIVATE
(`papers.reg.sampler`). "ours" is one exact draw of the K-norm law on the tangent
bundle, for a total of ε = 2.

The bounds of our draw are public: the paper's Assumption 3.2 has all data in a ball of
radius π/8. The paper does not print the speed of its geodesic, so results that depend
on it are shown for several speeds.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from curvedp import PrivateGeodesicRegression, PureDP
from curvedp.geometry import Sphere
from curvedp.papers.reg.attack import attack

# The runner looks for these three here.
from curvedp.papers.reg.line import reg_fig4, reg_line, reg_table1  # noqa: F401
from curvedp.papers.reg.pictures import plot_geodesic
from curvedp.papers.reg.sampler import (
    NO_CLIP,
    Samples,
    angles,
    errors,
    imposed,
    jacobi_norms,
    sequential_sampler,
    sphere_data,
)
from curvedp.papers.runner import Setting
from curvedp.papers.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    RED,
    draw_band,
    draw_legend,
    empty_figure,
    style_axes,
)
from curvedp.randomness import GeneratorSource
from curvedp.regression import fit_geodesic
from curvedp.regression.bounds import gradient_sensitivities
from curvedp.regression.gradient import descent_direction_function

SPHERE = Sphere(2)
# The speed at which the gradient's law has the printed distance and spread of angles.
SPEED = 0.4
# The readings of the paper's sampler, with the color of each.
LAWS = {"gradient": RED, "displayed": ORANGE}
# A third case: the printed noise itself, without any sampler (`imposed`).
IMPOSED = "printed distance and angle"
LABELS = {
    "gradient": "gradient's norm over Δ/ε",
    "displayed": "energy, as App. A displays it",
    IMPOSED: "distance 0.01, angle sd 5.47° imposed",
}
# Public bounds of ours: geodesics within the ball of radius π/8.
PUBLIC: dict[str, Any] = {
    "radius": 0.2,
    "speed": math.pi / 4,
    "clip": 0.2,
    "x_range": (0.0, 1.0),
}
# The total pure ε of our fits: the paper's 1 + 1.
EPSILON = 2.0


def reg_fig1(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Make Figure 1: twenty points on S², the fitted geodesic, and two private ones.

    One is a draw of the paper's sampler, which is not private, and one is ours.

    Parameters
    ----------
    setting : Setting
        Full or reduced form, and where the data are.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    rng = np.random.default_rng(1)
    x, Y = sphere_data(20, 0.75, rng)
    fit = fit_geodesic(SPHERE, x, Y)
    samples = sequential_sampler(SPHERE, x, Y, rng, 1)
    theirs = _Geodesic(samples.footpoints[0], samples.velocities[0, 0])
    geodesics: dict[str, Any] = {
        "fitted, not private": fit,
        "paper's sampler (gradient), not private": theirs,
        "ours, ε = 2": _private(x, Y, rng),
    }
    mean_errors = {
        name: float(np.mean(SPHERE.dist(model.predict(x), Y)))
        for name, model in geodesics.items()
    }
    picture = plot_geodesic(SPHERE, x, Y, **geodesics)
    own_legend = picture.axes[0].get_legend()
    if own_legend is not None:
        own_legend.remove()
    draw_legend(picture, picture.axes[0])
    return {"error": mean_errors}, picture


def reg_fig2(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Make Figure 2: distances and angles of private geodesics to the fit, n = 20.

    The paper's sampler by both readings, averaged over data sets; and ours with 20 and
    with 200 records.

    Parameters
    ----------
    setting : Setting
        Full or reduced form, and where the data are.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    rng = np.random.default_rng(2)
    m, draws = (200, 100) if setting.full else (20, 12)
    figures: dict[str, Any] = {
        law: _over_data_sets(law, SPEED, setting, rng) for law in LAWS
    }
    x, Y = sphere_data(20, SPEED, rng)
    samples = {law: sequential_sampler(SPHERE, x, Y, rng, m, law=law) for law in LAWS}
    more_records = sphere_data(200, SPEED, rng)
    private_deviations = {
        20: _private_deviations(x, Y, draws, rng),
        200: _private_deviations(*more_records, draws // 4 + 1, rng),
    }
    for n, deviations in private_deviations.items():
        figures[f"ours, n = {n}"] = {
            name: _spread(deviations[name]) for name in ("distance", "angle")
        }

    picture = empty_figure(10, 6.4)
    grid = picture.subplots(2, 2)
    label = "geodesic distance to the fitted footpoint"
    bins, wide_bins = np.linspace(0, 0.16, 33), np.linspace(0, 0.8, 33)
    _draw_deviations(
        grid[:, 0], "distance", label, bins, wide_bins, samples, private_deviations, m
    )
    label = "angle to the fitted velocity, degrees"
    bins, wide_bins = np.linspace(-90, 90, 37), np.linspace(-180, 180, 37)
    _draw_deviations(
        grid[:, 1], "angle", label, bins, wide_bins, samples, private_deviations, m
    )
    title = f"the paper's sampler, n = 20, speed {SPEED:g} (not private)"
    grid[0, 0].set_title(title, loc="left", fontsize=10)
    grid[1, 0].set_title("made private", loc="left", fontsize=10)
    draw_legend(picture, *grid[:, 0], columns=2)
    return figures, picture


def reg_fig3(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Make Figure 3: mean absolute errors for n = 20, by reading and by speed.

    The paper prints the error 0.11, but no speed. The left panel is the histogram of
    its Figure 3. The right panel shows the error of each reading at each speed.

    Parameters
    ----------
    setting : Setting
        Full or reduced form, and where the data are.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    rng = np.random.default_rng(3)
    m, draws = (200, 100) if setting.full else (20, 12)
    speeds = (0.4, 0.8, 1.2, 1.6, 2.0) if setting.full else (0.4, 2.0)
    figures: dict[str, Any] = {"speeds": list(speeds)}
    for law in (*LAWS, IMPOSED):
        figures[law] = [_over_data_sets(law, speed, setting, rng) for speed in speeds]
    figures["summary"] = {
        f"{law}, speed {speed:g}": figures[law][k]["error"]
        for law in LAWS
        for k, speed in enumerate(speeds)
    }
    figures[f"at speed 2, {IMPOSED}"] = figures[IMPOSED][-1]["error"]
    figures["fit"] = figures["gradient"][0]["fit"]

    # Private fits of this library, and samples of the paper's, on data of one speed.
    x, Y = sphere_data(20, SPEED, rng)
    private_errors = _private_deviations(x, Y, draws, rng)["error"]
    figures["ours"] = _spread(private_errors)
    sampled_errors = {}
    for law in LAWS:
        samples = sequential_sampler(SPHERE, x, Y, rng, m, law=law)
        sampled_errors[law] = errors(SPHERE, samples, x, Y).mean(axis=1)
    fit_error = float(fit_geodesic(SPHERE, x, Y).residuals(x, Y).mean())

    # The histogram on the left, and errors by speed on the right.
    picture = empty_figure(10.5, 4.2)
    left, right = picture.subplots(1, 2)
    _draw_error_histogram(left, sampled_errors, fit_error, private_errors)
    _draw_errors_by_speed(right, speeds, figures)
    draw_legend(picture, left, right, columns=3)
    for axes in (left, right):
        style_axes(axes)
    return figures, picture


def reg_fig5(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Make Figure 5: sensitivity bounds over what adjacent data sets show.

    A valid bound is never below 1 of these ratios. The paper takes adjacent data sets at
    random; a search finds worse ones (docs/errata.md, E20).

    Parameters
    ----------
    setting : Setting
        Full or reduced form, and where the data are.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    rng = np.random.default_rng(5)
    pairs = 100 if setting.full else 40
    ratios = np.array([_bounds_over_change(20, rng) for _ in range(pairs)])
    clip = PUBLIC["clip"]
    changes, tried = attack(
        SPHERE,
        1.0,
        clip,
        (0.0, 1.0),
        5,
        600 if setting.full else 150,
        ascent=30 if setting.full else 8,
    )
    printed_bounds = [2 * clip * norm for norm in jacobi_norms(SPHERE)]
    own_bounds = gradient_sensitivities(SPHERE, 1.0, clip, 1, max_predictor=1.0)
    figures: dict[str, Any] = {"pairs": pairs, "searched": tried}
    for k, name in enumerate(("foot", "velocity")):
        printed_ratios = ratios[:, 0, k]
        standard_error = printed_ratios.std() / math.sqrt(pairs)
        figures[name] = {
            "printed, at random, mean": float(printed_ratios.mean()),
            "printed, at random, sd of the mean": float(standard_error),
            "printed, at random, least": float(printed_ratios.min()),
            "printed, at random, share below 1": float(np.mean(printed_ratios < 1)),
            "printed, searched": printed_bounds[k] / changes[name],
            "ours, at random, least": float(ratios[:, 1, k].min()),
            "ours, searched": own_bounds[k] / changes[name],
        }

    picture = empty_figure(10, 4.4)
    grid = picture.subplots(1, 2)
    _draw_bounds(grid[0], "footpoint", ratios[:, 0, 0], figures["foot"])
    _draw_bounds(grid[1], "velocity", ratios[:, 0, 1], figures["velocity"])
    draw_legend(picture, grid[0], columns=2)
    return figures, picture


def reg_fig6(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Make Figure 6: mean absolute error against n, 11 draws each.

    The paper's sampler by both readings, and ours, beside the error of the fit.

    Parameters
    ----------
    setting : Setting
        Full or reduced form, and where the data are.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    rng = np.random.default_rng(6)
    sizes, draws = ((10, 20, 50, 100, 200, 500), 11) if setting.full else ((20, 100), 5)
    rows: list[dict[str, Any]] = []
    for n in sizes:
        x, Y = sphere_data(n, SPEED, rng)
        private_errors = _private_deviations(x, Y, draws, rng)["error"]
        row: dict[str, Any] = {"n": n, "ours": _spread(private_errors)}
        for law in LAWS:
            samples = sequential_sampler(SPHERE, x, Y, rng, draws, thin=10, law=law)
            row[law] = _spread(errors(SPHERE, samples, x, Y).mean(axis=1))
        row["fit"] = float(samples.fit.residuals(x, Y).mean())
        rows.append(row)
    summary = {
        f"{who} over fit at n = {row['n']}": row[who]["mean"] / row["fit"]
        for row in rows
        for who in (*LAWS, "ours")
    }

    picture = empty_figure(10, 4.2)
    left, right = picture.subplots(1, 2)
    _draw_errors_by_size(left, rows, LAWS, "the paper's sampler (not private)")
    _draw_errors_by_size(right, rows, {"ours": BLUE}, "ours, sound, ε = 2")
    return {"rows": rows, "summary": summary}, picture


# --- parts


class _Geodesic(NamedTuple):
    """A geodesic of S² with a `predict` method, as `plot_geodesic` expects."""

    footpoint: np.ndarray
    velocity: np.ndarray

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the points of the geodesic at predictors.

        Parameters
        ----------
        x : array of shape (n,)
            Predictors in [0, 1].
        """
        steps = np.asarray(x)[:, None] * self.velocity
        return np.asarray(SPHERE.exp(self.footpoint, steps))


def _over_data_sets(
    law: str, speed: float, setting: Setting, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the numbers of Figures 2 and 3, averaged over data sets of 20 records.

    The paper has one data set; the standard deviation says what another would give.

    Parameters
    ----------
    law : str
        A reading of the sampler, or `IMPOSED` for the printed noise itself.
    speed : float
        The speed of the geodesic from which data are made.
    setting : Setting
        The full form has 8 data sets with 40 footpoints each, the reduced form 2 with 24.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    dict
        For "distance", "angle", "error", their standard deviations within a data set
        (such as "angle sd"), and "fit", the error of least squares: mean and standard
        deviation over data sets.
    """
    n_sets, m = (8, 40) if setting.full else (2, 24)
    rows = []
    for _ in range(n_sets):
        x, Y = sphere_data(20, speed, rng)
        if law == IMPOSED:
            samples = imposed(SPHERE, fit_geodesic(SPHERE, x, Y), rng, m, 0.01, 5.47)
        else:
            samples = sequential_sampler(SPHERE, x, Y, rng, m, law=law, thin=10)
        row = {}
        mean_errors = errors(SPHERE, samples, x, Y).mean(axis=1)
        for name, values in {**_deviations(samples), "error": mean_errors}.items():
            row[name] = float(np.mean(values))
            row[f"{name} sd"] = float(np.std(values))
        row["fit"] = float(samples.fit.residuals(x, Y).mean())
        rows.append(row)
    return {name: _spread(np.array([row[name] for row in rows])) for name in rows[0]}


def _deviations(samples: Samples) -> dict[str, np.ndarray]:
    """Return the distances of samples from the fit, as the paper measures them.

    Parameters
    ----------
    samples : Samples
        Footpoints, and velocities at each.

    Returns
    -------
    dict
        "distance", of every footpoint to the fitted one, and "angle", in degrees, of the
        velocities at the first footpoint to the fitted one.
    """
    fit = samples.fit
    first = samples.footpoints[0]
    return {
        "distance": np.asarray(SPHERE.dist(samples.footpoints, fit.footpoint)),
        "angle": angles(SPHERE, fit, first, samples.velocities[0]),
    }


def _bounds_over_change(n: int, rng: np.random.Generator) -> list[list[float]]:
    """Return sensitivity bounds divided by a change of the gradients, as in Appendix B.

    The two adjacent data sets are n + 1 random points without the first, and without
    the last. The gradients are taken at the fit of the first data set, and the bounds
    at the largest residual.

    Parameters
    ----------
    n : int
        The number of records of each data set.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    list of two lists
        Ratios for footpoint and velocity, of the printed bounds and then of ours.
    """
    x, Y = sphere_data(n + 1, SPEED, rng)
    fit = fit_geodesic(SPHERE, x[1:], Y[1:])
    clip = float(fit.residuals(x, Y).max())
    p, v = fit.footpoint[None], fit.velocity[None]
    without_first = descent_direction_function(SPHERE, x[1:], Y[1:], NO_CLIP, 1.0)(p, v)
    without_last = descent_direction_function(SPHERE, x[:-1], Y[:-1], NO_CLIP, 1.0)(
        p, v
    )
    pairs = zip(without_first, without_last, strict=True)
    changes = [float(np.linalg.norm(a - b)) for a, b in pairs]
    printed = [2 * clip * norm / n for norm in jacobi_norms(SPHERE)]
    ours = gradient_sensitivities(SPHERE, PUBLIC["speed"], clip, n, max_predictor=1.0)
    return [
        [bound / change for bound, change in zip(bounds, changes, strict=True)]
        for bounds in (printed, ours)
    ]


def _private(
    x: np.ndarray, Y: np.ndarray, rng: np.random.Generator
) -> PrivateGeodesicRegression:
    """Return one private fit of S² data by this library, at pure ε = 2.

    The data are made up, so the randomness may be too: it is not cryptographic.

    Parameters
    ----------
    x, Y : array of shape (n,), array of shape (n, 3)
        Predictors in [0, 1], and unit vectors.
    rng : numpy.random.Generator
        The source of randomness.
    """
    return PrivateGeodesicRegression(
        SPHERE,
        guarantee=PureDP(EPSILON),
        method="kng",
        source=GeneratorSource(rng),
        **PUBLIC,
    ).fit(x, Y)


def _private_deviations(
    x: np.ndarray, Y: np.ndarray, draws: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return distances, angles and errors of this library's private fits, at ε = 2.

    Parameters
    ----------
    x, Y : array of shape (n,), array of shape (n, 3)
        The data.
    draws : int
        The number of private fits.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    dict
        "distance" and "angle" (in degrees) to the least-squares fit, and "error", the
        mean absolute error; one number for each private fit.
    """
    fit = fit_geodesic(SPHERE, x, Y)
    distances, turns, mean_errors = [], [], []
    for _ in range(draws):
        model = _private(x, Y, rng)
        distances.append(float(SPHERE.dist(model.footpoint_, fit.footpoint)))
        turns.append(float(angles(SPHERE, fit, model.footpoint_, model.velocity_)))
        mean_errors.append(float(np.mean(SPHERE.dist(model.predict(x), Y))))
    return {
        "distance": np.array(distances),
        "angle": np.array(turns),
        "error": np.array(mean_errors),
    }


def _spread(values: np.ndarray) -> dict[str, float]:
    """Return "mean", "sd" (standard deviation) and "mean of size" (mean |value|)."""
    return {
        "mean": float(np.mean(values)),
        "sd": float(np.std(values)),
        "mean of size": float(np.mean(np.abs(values))),
    }


# --- pictures


def _draw_deviations(
    column: Any,
    name: str,
    label: str,
    bins: np.ndarray,
    wide_bins: np.ndarray,
    samples: dict[str, Samples],
    private_deviations: dict[int, dict[str, np.ndarray]],
    m: int,
) -> None:
    """Draw histograms of distances or angles: the paper's sampler, and below it ours.

    Parameters
    ----------
    column : pair of Axes
        The upper and the lower panel.
    name : {"distance", "angle"}
        Whether distances or angles are drawn.
    label : str
        The label of the horizontal axis.
    bins, wide_bins : array
        Edges of the bars of the upper and of the lower panel.
    samples : dict
        Samples of the paper's sampler, by reading.
    private_deviations : dict
        Deviations of our private fits, by the number of records.
    m : int
        The number of samples to which all histograms are scaled.
    """
    upper, lower = column
    for law, drawn in samples.items():
        values = _deviations(drawn)[name]
        upper.hist(values, bins=bins, color=LAWS[law], alpha=0.6, label=LABELS[law])
    colors = (BLUE, INK)
    for (n, deviations), color in zip(private_deviations.items(), colors, strict=True):
        values = deviations[name]
        lower.hist(
            values,
            bins=wide_bins,
            histtype="step",
            lw=1.6,
            color=color,
            weights=np.full(len(values), m / len(values)),
            label=f"ours, sound, ε = 2, n = {n}",
        )
    for axes in column:
        axes.set(xlabel=label, ylabel=f"of {m} samples")
        style_axes(axes)


def _draw_error_histogram(
    axes: Axes,
    sampled_errors: dict[str, np.ndarray],
    fit_error: float,
    private_errors: np.ndarray,
) -> None:
    """Draw a histogram of the errors of the paper's sampler, with two lines for others.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    sampled_errors : dict
        For each reading of the sampler, the mean absolute error of each footpoint.
    fit_error : float
        The mean absolute error of least squares.
    private_errors : array
        The mean absolute error of each of our private fits.
    """
    bins = np.linspace(0, 0.2, 41).tolist()
    for law, values in sampled_errors.items():
        axes.hist(values, bins=bins, color=LAWS[law], alpha=0.6, label=LABELS[law])
    axes.axvline(fit_error, color=INK, label="fit, not private")
    label = "ours, sound, ε = 2 (mean)"
    axes.axvline(float(np.mean(private_errors)), color=BLUE, ls="--", label=label)
    n_footpoints = len(next(iter(sampled_errors.values())))
    axes.set(
        xlabel=f"mean absolute error, speed {SPEED:g}",
        ylabel=f"of {n_footpoints} footpoints",
    )


def _draw_errors_by_speed(
    axes: Axes, speeds: tuple[float, ...], figures: dict[str, Any]
) -> None:
    """Draw the error of each reading at each speed, and the printed numbers.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    speeds : tuple of float
        Speeds of the geodesic.
    figures : dict
        For each reading a row for each speed, with "error".
    """
    for law, color in {**LAWS, IMPOSED: GREY}.items():
        mean = np.array([row["error"]["mean"] for row in figures[law]])
        sd = np.array([row["error"]["sd"] for row in figures[law]])
        draw_band(axes, speeds, mean, mean - sd, mean + sd, color, LABELS[law])
    axes.axhline(0.11, color=INK, ls="--", lw=1)
    axes.text(speeds[0], 0.112, "printed: 0.11", fontsize=8, color=INK)
    axes.axhline(0.043, color=INK, ls=":", lw=1)
    below: dict[str, Any] = {"ha": "right", "va": "top"}
    axes.text(speeds[-1], 0.038, "printed fit: 0.043", fontsize=8, color=INK, **below)
    label = "speed of the geodesic (not printed)"
    axes.set(xlabel=label, ylabel="mean absolute error", ylim=(0, None))


def _draw_bounds(
    axes: Axes, title: str, at_random: np.ndarray, row: dict[str, float]
) -> None:
    """Draw a histogram of printed bounds divided by changes, for random neighbors.

    Lines show the same ratio for the neighbors that a search finds.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    title : {"footpoint", "velocity"}
        Whether the gradient is that by the footpoint or by the velocity.
    at_random : array
        The printed bound over the change, for each random pair of neighbors.
    row : dict
        The figures of that gradient.
    """
    # The last bar holds everything beyond.
    shown = np.minimum(at_random, 14.75)
    label = "printed bound, random neighbors"
    bins = np.arange(0, 15.5, 0.5).tolist()
    axes.hist(shown, bins=bins, color=RED, alpha=0.6, label=label)
    label = "printed bound, searched neighbors: cos 1, sin 1"
    axes.axvline(row["printed, searched"], color=RED, lw=2, label=label)
    label = "our bound, searched neighbors"
    axes.axvline(row["ours, searched"], color=BLUE, lw=2, label=label)
    # Above the line of our bound, which is at 1 as well.
    label = "below 1 a bound is refuted"
    axes.axvline(1, color=INK, ls=":", lw=2, zorder=3, label=label)
    axes.set(
        title=title,
        xlabel="bound over difference of gradients (last bar: 14.5 or more)",
        ylabel=f"of {len(at_random)} pairs",
    )
    style_axes(axes)


def _draw_errors_by_size(
    axes: Axes, rows: list[dict[str, Any]], colors: dict[str, str], title: str
) -> None:
    """Draw mean absolute errors against n, with bars of one standard deviation.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    rows : list of dict
        A row for each n, with a spread for each line and the error of the fit.
    colors : dict
        The color of each line, by its key in the rows.
    title : str
        The title of the panel.
    """
    sizes = [row["n"] for row in rows]
    for who, color in colors.items():
        mean = np.array([row[who]["mean"] for row in rows])
        sd = np.array([row[who]["sd"] for row in rows])
        # An error is not negative.
        below = np.minimum(sd, mean)
        bars: dict[str, Any] = {"marker": "o", "ms": 4, "capsize": 3}
        label = LABELS.get(who, title)
        axes.errorbar(sizes, mean, [below, sd], color=color, label=label, **bars)
    fits = [row["fit"] for row in rows]
    axes.plot(sizes, fits, color=INK, ls=":", label="fit, not private")
    axes.set(
        title=title,
        xlabel="n",
        ylabel="mean absolute error",
        xscale="log",
        ylim=(0, None),
    )
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=9)
    style_axes(axes)
