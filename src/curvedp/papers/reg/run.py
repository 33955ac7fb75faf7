"""Figures 1 to 6, Table 1 and §4.2 of *Differentially private geodesic regression*: its sampler by two readings, and ours.

What is called "gradient" or "displayed" is the paper's sampler and NOT PRIVATE (see
`papers.reg.sampler`). "ours" is one exact draw
of the K-norm law on the tangent bundle for a total of ε = 2, with public bounds: the paper's Assumption 3.2 has all data in a
ball of radius π/8. The paper prints no speed of its geodesic: what depends on it is shown for several.
"""

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from curvedp import PrivateGeodesicRegression, PureDP
from curvedp.geometry import Sphere
from curvedp.papers.reg.attack import attack
from curvedp.papers.reg.line import reg_fig4, reg_line, reg_table1  # noqa: F401  (the runner asks for them here)
from curvedp.papers.reg.pictures import plot_geodesic
from curvedp.papers.reg.sampler import (
    NO_CLIP,
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
    band,
    legend,
    plain,
    sheet,
)
from curvedp.randomness import GeneratorSource
from curvedp.regression import fit_geodesic
from curvedp.regression.bounds import gradient_sensitivities
from curvedp.regression.gradient import clipped_gradient

M = Sphere(2)
SPEED = 0.4  # where the gradient's law has the printed distance and spread of angles
LAWS = {"gradient": RED, "displayed": ORANGE}
SAID = {
    "gradient": "gradient's norm over Δ/ε",
    "displayed": "energy, as App. A displays it",
}
PUBLIC: dict[str, Any] = {
    "radius": 0.2,
    "speed": math.pi / 4,
    "clip": 0.2,
    "x_range": (0.0, 1.0),
}  # geodesics within the ball of radius π/8
EPSILON = 2.0


def reg_fig1(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Twenty points on S², the fitted geodesic, and private ones: the paper's sampler and ours, one draw each."""
    rng = np.random.default_rng(1)
    x, Y = sphere_data(20, 0.75, rng)  # within the ball of radius π/8
    fit = fit_geodesic(M, x, Y)
    theirs = sequential_sampler(M, x, Y, rng, 1)
    drawn: dict[str, Any] = {
        "fitted, not private": fit,
        "paper's sampler (gradient), not private": _Geodesic(
            theirs.footpoints[0], theirs.velocities[0, 0]
        ),
        "ours, ε = 2": _private(x, Y, rng),
    }
    figures = {
        "error": {
            name: float(np.mean(M.dist(model.predict(x), Y)))
            for name, model in drawn.items()
        }
    }
    picture = plot_geodesic(M, x, Y, **drawn)
    own_legend = picture.axes[0].get_legend()
    if own_legend is not None:
        own_legend.remove()
    legend(picture, picture.axes[0])
    return figures, picture


def reg_fig2(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Distance of private footpoints to the fitted one, and angle of private velocities to the fitted one; n = 20."""
    rng = np.random.default_rng(2)
    m, draws = (200, 100) if setting.full else (20, 12)
    figures: dict[str, Any] = {
        law: _over_data_sets(law, SPEED, setting, rng) for law in LAWS
    }
    x, Y = sphere_data(20, SPEED, rng)
    shown = {law: sequential_sampler(M, x, Y, rng, m, law=law) for law in LAWS}
    later = sphere_data(200, SPEED, rng)
    sound = {
        n: _sound(*records, count, rng)
        for n, records, count in ((20, (x, Y), draws), (200, later, draws // 4 + 1))
    }
    for n, found in sound.items():
        figures[f"ours, n = {n}"] = {
            name: _spread(found[name]) for name in ("distance", "angle")
        }
    picture = sheet(10, 6.4)
    grid = picture.subplots(2, 2)
    columns = (
        (
            "distance",
            "geodesic distance to the fitted footpoint",
            np.linspace(0, 0.16, 33),
        ),
        ("angle", "angle to the fitted velocity, degrees", np.linspace(-90, 90, 37)),
    )
    for column, (name, label, bins) in enumerate(columns):
        for law, samples in shown.items():
            values = _deviations(samples)[name]
            grid[0, column].hist(
                values, bins=bins, color=LAWS[law], alpha=0.6, label=SAID[law]
            )
        wide = (
            np.linspace(0, 0.8, 33)
            if name == "distance"
            else np.linspace(-180, 180, 37)
        )
        for (n, found), color in zip(sound.items(), (BLUE, INK), strict=True):
            grid[1, column].hist(
                found[name], bins=wide, histtype="step", lw=1.6, color=color,
                weights=np.full(len(found[name]), m / len(found[name])), label=f"ours, sound, ε = 2, n = {n}",
            )  # fmt: skip
        for row in (0, 1):
            grid[row, column].set(xlabel=label, ylabel=f"of {m} samples")
            plain(grid[row, column])
    grid[0, 0].set_title(
        f"the paper's sampler, n = 20, speed {SPEED:g} (not private)",
        loc="left",
        fontsize=10,
    )
    grid[1, 0].set_title("made private", loc="left", fontsize=10)
    legend(picture, *grid[:, 0], columns=2)
    return figures, picture


def reg_fig3(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Mean absolute error, n = 20: the histogram, and what each reading gives at each speed."""
    rng = np.random.default_rng(3)
    m, draws = (200, 100) if setting.full else (20, 12)
    speeds = (0.4, 0.8, 1.2, 1.6, 2.0) if setting.full else (0.4, 2.0)
    figures: dict[str, Any] = {"speeds": list(speeds)}
    for law in (*LAWS, "printed distance and angle"):
        figures[law] = [_over_data_sets(law, speed, setting, rng) for speed in speeds]
    figures["summary"] = {
        f"{law}, speed {speed:g}": figures[law][k]["error"]
        for law in LAWS
        for k, speed in enumerate(speeds)
    }
    figures["at speed 2, printed distance and angle"] = figures[
        "printed distance and angle"
    ][-1]["error"]
    figures["fit"] = figures["gradient"][0]["fit"]
    x, Y = sphere_data(20, SPEED, rng)
    sound = _sound(x, Y, draws, rng)["error"]
    figures["ours"] = _spread(sound)
    picture = sheet(10.5, 4.2)
    left, right = picture.subplots(1, 2)
    bins = np.linspace(0, 0.2, 41)
    for law, color in LAWS.items():
        values = errors(M, sequential_sampler(M, x, Y, rng, m, law=law), x, Y).mean(
            axis=1
        )
        left.hist(values, bins=bins, color=color, alpha=0.6, label=SAID[law])
    left.axvline(
        float(fit_geodesic(M, x, Y).residuals(x, Y).mean()),
        color=INK,
        label="fit, not private",
    )
    left.axvline(
        float(np.mean(sound)), color=BLUE, ls="--", label="ours, sound, ε = 2 (mean)"
    )
    left.set(
        xlabel=f"mean absolute error, speed {SPEED:g}", ylabel=f"of {m} footpoints"
    )
    rows = {**LAWS, "printed distance and angle": GREY}
    for law, color in rows.items():
        mean, sd = (
            np.array([row["error"][key] for row in figures[law]])
            for key in ("mean", "sd")
        )
        band(
            right,
            speeds,
            mean,
            mean - sd,
            mean + sd,
            color,
            SAID.get(law, "distance 0.01, angle sd 5.47° imposed"),
        )
    right.axhline(0.11, color=INK, ls="--", lw=1)
    right.text(speeds[0], 0.112, "printed: 0.11", fontsize=8, color=INK)
    right.axhline(0.043, color=INK, ls=":", lw=1)
    right.text(
        speeds[-1],
        0.038,
        "printed fit: 0.043",
        fontsize=8,
        color=INK,
        ha="right",
        va="top",
    )
    right.set(
        xlabel="speed of the geodesic (not printed)",
        ylabel="mean absolute error",
        ylim=(0, None),
    )
    legend(picture, left, right, columns=3)
    for axes in (left, right):
        plain(axes)
    return figures, picture


def reg_fig5(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Sensitivity bound over what adjacent data sets show: at random, as printed, and searched for."""
    rng = np.random.default_rng(5)
    pairs, n = (100 if setting.full else 40), 20
    ratios = np.array(
        [_neighbors(n, rng) for _ in range(pairs)]
    )  # (pairs, printed or ours, foot or velocity)
    clip = PUBLIC["clip"]
    worst, tried = attack(
        M,
        1.0,
        clip,
        (0.0, 1.0),
        5,
        600 if setting.full else 150,
        ascent=30 if setting.full else 8,
    )
    found = [worst[name] for name in ("foot", "velocity")]
    theirs = [
        2 * clip * norm / f for norm, f in zip(jacobi_norms(M), found, strict=True)
    ]
    mine = [
        bound / f
        for bound, f in zip(
            gradient_sensitivities(M, 1.0, clip, 1, max_predictor=1.0),
            found,
            strict=True,
        )
    ]
    figures: dict[str, Any] = {"pairs": pairs, "searched": tried}
    for k, name in enumerate(("foot", "velocity")):
        column = ratios[:, 0, k]
        figures[name] = {
            "printed, at random, mean": float(column.mean()),
            "printed, at random, sd of the mean": float(
                column.std() / math.sqrt(pairs)
            ),
            "printed, at random, least": float(column.min()),
            "printed, at random, share below 1": float(np.mean(column < 1)),
            "printed, searched": theirs[k],
            "ours, at random, least": float(ratios[:, 1, k].min()),
            "ours, searched": mine[k],
        }
    picture = sheet(10, 4.4)
    grid = picture.subplots(1, 2)
    for k, (axes, name) in enumerate(zip(grid, ("footpoint", "velocity"), strict=True)):
        axes.hist(
            np.minimum(ratios[:, 0, k], 14.75), bins=np.arange(0, 15.5, 0.5), color=RED, alpha=0.6,
            label="printed bound, random neighbors",
        )  # fmt: skip
        axes.axvline(1, color=INK, ls=":", label="below 1 a bound is refuted")
        axes.axvline(
            theirs[k],
            color=RED,
            lw=2,
            label="printed bound, searched neighbors: cos 1, sin 1",
        )
        axes.axvline(mine[k], color=BLUE, lw=2, label="our bound, searched neighbors")
        axes.set(
            title=name,
            xlabel="bound over difference of gradients (last bar: 14.5 or more)",
            ylabel=f"of {pairs} pairs",
        )
        plain(axes)
    legend(picture, grid[0], columns=2)
    return figures, picture


def reg_fig6(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Mean absolute error against n, 11 draws each, the paper's sampler and ours."""
    rng = np.random.default_rng(6)
    sizes, draws = ((10, 20, 50, 100, 200, 500), 11) if setting.full else ((20, 100), 5)
    rows: list[dict[str, Any]] = []
    for n in sizes:
        x, Y = sphere_data(n, SPEED, rng)
        row: dict[str, Any] = {
            "n": n,
            "ours": _spread(_sound(x, Y, draws, rng)["error"]),
        }
        for law in LAWS:
            samples = sequential_sampler(M, x, Y, rng, draws, thin=10, law=law)
            row[law] = _spread(errors(M, samples, x, Y).mean(axis=1))
        rows.append({**row, "fit": float(samples.fit.residuals(x, Y).mean())})
    summary = {
        f"{who} over fit at n = {row['n']}": row[who]["mean"] / row["fit"]
        for row in rows
        for who in (*LAWS, "ours")
    }
    picture = sheet(10, 4.2)
    grid = picture.subplots(1, 2)
    for axes, drawn, title in zip(
        grid,
        (LAWS, {"ours": BLUE}),
        ("the paper's sampler (not private)", "ours, sound, ε = 2"),
        strict=True,
    ):
        for who, color in drawn.items():
            mean, sd = (
                np.array([row[who][key] for row in rows]) for key in ("mean", "sd")
            )
            low = np.minimum(sd, mean)  # an error is not negative
            axes.errorbar(
                sizes,
                mean,
                [low, sd],
                color=color,
                marker="o",
                ms=4,
                capsize=3,
                label=SAID.get(who, title),
            )
        axes.plot(
            sizes,
            [row["fit"] for row in rows],
            color=INK,
            ls=":",
            label="fit, not private",
        )
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
        plain(axes)
    return {"rows": rows, "summary": summary}, picture


# --- parts


class _Geodesic:
    def __init__(self, footpoint: np.ndarray, velocity: np.ndarray) -> None:
        self.footpoint, self.velocity = footpoint, velocity

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(M.exp(self.footpoint, np.asarray(x)[:, None] * self.velocity))


def _over_data_sets(
    law: str, speed: float, setting: Setting, rng: np.random.Generator
) -> dict[str, Any]:
    """Each number of Figures 2 and 3 as its mean and standard deviation over data sets: the paper has one such set."""
    sets, m = (8, 40) if setting.full else (2, 24)
    rows = []
    for _ in range(sets):
        x, Y = sphere_data(20, speed, rng)
        if law in LAWS:
            samples = sequential_sampler(M, x, Y, rng, m, law=law, thin=10)
        else:
            samples = imposed(M, fit_geodesic(M, x, Y), rng, m, 0.01, 5.47)
        off, error = _deviations(samples), errors(M, samples, x, Y).mean(axis=1)
        spreads = [
            f(values)
            for values in (off["distance"], off["angle"], error)
            for f in (np.mean, np.std)
        ]
        rows.append([*spreads, samples.fit.residuals(x, Y).mean()])
    names = ("distance", "distance sd", "angle", "angle sd", "error", "error sd", "fit")
    return {
        name: _spread(column)
        for name, column in zip(names, np.array(rows).T, strict=True)
    }


def _deviations(samples: Any) -> dict[str, np.ndarray]:
    """Distances of all footpoints, and angles of the velocities of the first, as the paper takes them."""
    return {
        "distance": np.asarray(M.dist(samples.footpoints, samples.fit.footpoint)),
        "angle": angles(M, samples.fit, samples.footpoints[0], samples.velocities[0]),
    }


def _neighbors(n: int, rng: np.random.Generator) -> list[list[float]]:
    """App. B: n + 1 points, the first or the last left out; the printed bounds and ours over the gradients' differences."""
    x, Y = sphere_data(n + 1, SPEED, rng)
    fit = fit_geodesic(M, x[1:], Y[1:])
    clip = float(fit.residuals(x, Y).max())
    sides = [
        clipped_gradient(M, x[part], Y[part], NO_CLIP, 1.0)(
            fit.footpoint[None], fit.velocity[None]
        )
        for part in (slice(1, None), slice(None, -1))
    ]
    found = [float(np.linalg.norm(a - b)) for a, b in zip(*sides, strict=True)]
    printed = [2 * clip * norm / n for norm in jacobi_norms(M)]
    ours = gradient_sensitivities(M, PUBLIC["speed"], clip, n, max_predictor=1.0)
    return [
        [bound / f for bound, f in zip(bounds, found, strict=True)]
        for bounds in (printed, ours)
    ]


def _private(
    x: np.ndarray, Y: np.ndarray, rng: np.random.Generator
) -> PrivateGeodesicRegression:
    source = GeneratorSource(rng)  # the data of a reproduction are not at stake
    return PrivateGeodesicRegression(
        M, guarantee=PureDP(EPSILON), method="kng", source=source, **PUBLIC
    ).fit(x, Y)


def _sound(
    x: np.ndarray, Y: np.ndarray, draws: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Distance, angle and error of `draws` private fits, total ε = 2."""
    fit, rows = fit_geodesic(M, x, Y), []
    for _ in range(draws):
        model = _private(x, Y, rng)
        distance = float(M.dist(model.footpoint_, fit.footpoint))
        angle = float(angles(M, fit, model.footpoint_, model.velocity_))
        rows.append((distance, angle, float(np.mean(M.dist(model.predict(x), Y)))))
    return dict(zip(("distance", "angle", "error"), np.array(rows).T, strict=True))


def _spread(values: np.ndarray) -> dict[str, float]:
    return {
        "mean": float(np.mean(values)),
        "sd": float(np.std(values)),
        "mean of size": float(np.mean(np.abs(values))),
    }
