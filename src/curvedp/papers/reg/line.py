"""Table 1, Figure 4 and the line of §4.2 of *Differentially private geodesic regression*: the Euclidean case.

In ℝ⁴ the law that App. A displays is Gaussian and drawn exactly: N(p̂, τ/n) for the footpoint at v̂ and N(v̂(p), τ/Σx²) for the
velocity at p. IBM and Opacus are stored in peers.json, with their versions, by
`python -m benchmarks.speed.regression_peers --store`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from curvedp import ApproxDP, PrivateGeodesicRegression
from curvedp.geometry import Euclidean
from curvedp.papers.reg.sampler import VARIANCE, sequential_sampler
from curvedp.papers.reg.wine import (
    MIDDLE,
    RESPONSES,
    UNIT,
    error,
    first_wines,
    ours,
)
from curvedp.papers.runner import Setting
from curvedp.papers.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    legend,
    plain,
    sheet,
)
from curvedp.randomness import GeneratorSource

PEERS = json.loads(Path(__file__).with_name("peers.json").read_text(encoding="utf-8"))
PRINTED = {"least squares": 0.873, "DPGR": 0.954, "Opacus": 0.982, "IBM": 7.856}


def displayed_line(
    t: np.ndarray, Z: np.ndarray, rng: np.random.Generator, draws: int
) -> np.ndarray:
    """(draws, 2, responses): footpoints and velocities by the law App. A displays, exactly. NOT PRIVATE."""
    design = np.column_stack([np.ones(len(t)), t])
    p_hat, v_hat = np.linalg.lstsq(design, Z, rcond=None)[0]
    tau = float(np.linalg.norm(Z - p_hat - t[:, None] * v_hat, axis=1).max())
    p = p_hat + np.sqrt(tau / len(t)) * rng.standard_normal((draws, Z.shape[1]))
    v = np.einsum("i,dij->dj", t, Z - p[:, None]) / np.sum(t**2)
    v = v + np.sqrt(tau / np.sum(t**2)) * rng.standard_normal(v.shape)
    return np.stack([p, v], axis=1)


def reg_table1(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Mean squared errors on Wine Quality: least squares, the paper's sampler by both readings, ours, peers as stored."""
    x, Y = first_wines(setting.load("wine"))
    rng = np.random.default_rng(1)
    draws = 40 if setting.full else 6
    line = _least_squares(x, Y)
    # The paper's: predictors scaled to [0, 1] and responses standardized by the data themselves.
    t, Z = _standardized(x, Y)
    samples = sequential_sampler(Euclidean(4), t, Z, rng, draws, velocities=1)
    readings = {
        "displayed": _errors(displayed_line(t, Z, rng, 20_000), t, Z),
        "gradient": _errors(
            np.stack([samples.footpoints, samples.velocities[:, 0]], axis=1), t, Z
        ),
    }
    rows = {
        name.removeprefix("ours, "): _spread(values)
        for name, values in ours(x, Y, draws).items()
    }
    peers = {name: _spread(values) for name, values in PEERS["errors"].items()}
    figures = {
        "least squares": error(line, Y), "mean": 1.0, **{name: _spread(values) for name, values in readings.items()},
        "ours": rows, "peers": peers, "versions": PEERS["versions"],
    }  # fmt: skip
    return figures, _bars(figures)


def reg_fig4(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Four features of Wine Quality against alcohol: least squares, the paper's sampler, the peers as stored, and ours."""
    x, Y = first_wines(setting.load("wine"))
    rng, (t, Z) = np.random.default_rng(4), _standardized(x, Y)
    ends = np.array([x.min(), x.max()])
    p, v = displayed_line(t, Z, rng, 1)[0]
    source = GeneratorSource(rng)
    public: dict[str, Any] = {
        "radius": 1.0,
        "speed": 3.0,
        "clip": 1.0,
        "x_range": (8.5, 11.5),
    }
    private = PrivateGeodesicRegression(
        Euclidean(4), guarantee=ApproxDP(2.0, 1e-5), source=source, **public
    ).fit(x, Y)
    lines = {
        "least squares, not private": (_least_squares(x, Y, ends), RED),
        "paper's DPGR, as displayed (not private)": (
            Y.mean(axis=0) + Y.std(axis=0) * np.stack([p, p + v]),
            BLUE,
        ),
        "IBM diffprivlib, ε = 2 (stored run)": (
            np.array(PEERS["lines"]["IBM diffprivlib"]),
            GREEN,
        ),
        "Opacus, (2, 10⁻⁵) (stored run)": (np.array(PEERS["lines"]["Opacus"]), ORANGE),
        "ours, (2, 10⁻⁵)": (np.asarray(private.predict(ends)), INK),
    }
    picture = sheet(10, 7)
    grid = picture.subplots(2, 2)
    for k, (axes, name) in enumerate(zip(grid.flat, RESPONSES, strict=True)):
        axes.plot(x, MIDDLE[k] + UNIT[k] * Y[:, k], "o", ms=3, color=GREY, alpha=0.6)
        low, high = axes.get_ylim()
        for label, (ys, color) in lines.items():
            axes.plot(
                ends, MIDDLE[k] + UNIT[k] * ys[:, k], color=color, lw=1.8, label=label
            )
        axes.set(xlabel="alcohol, %", ylabel=name, ylim=(low, high))
        plain(axes)
    legend(picture, grid[0, 0], columns=2)
    spans = (x - ends[0]) / (ends[1] - ends[0])
    figures = {
        label: error(ys[0] + spans[:, None] * (ys[1] - ys[0]), Y)
        for label, (ys, _) in lines.items()
    }  # one draw each
    return figures, picture


def reg_line(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """§4.2's artificial data: points on a line in ℝ⁴ plus noise of variance 0.001, as §4.1 has it; no numbers are printed."""
    rng, draws = np.random.default_rng(7), 40 if setting.full else 8
    sizes = (20, 50, 100, 200, 500) if setting.full else (20, 100)
    rows: list[dict[str, Any]] = []
    for n in sizes:
        direction = rng.standard_normal(4)
        t = rng.random(n)
        Z = (t - 0.5)[:, None] * direction / np.linalg.norm(direction) + np.sqrt(
            VARIANCE
        ) * rng.standard_normal((n, 4))
        samples = sequential_sampler(Euclidean(4), t, Z, rng, draws, velocities=1)
        public: dict[str, Any] = {
            "radius": 0.3,
            "speed": 1.5,
            "clip": 0.2,
            "x_range": (0.0, 1.0),
            "guarantee": ApproxDP(2.0, 1e-5),
        }
        private = [
            PrivateGeodesicRegression(
                Euclidean(4), source=GeneratorSource(rng), **public
            )
            .fit(t, Z)
            .predict(t)
            for _ in range(draws)
        ]
        rows.append({
            "n": n, "fit": float(np.mean((_least_squares(t, Z) - Z) ** 2)),
            "gradient": _spread(_errors(np.stack([samples.footpoints, samples.velocities[:, 0]], axis=1), t, Z)),
            "displayed": _spread(_errors(displayed_line(t, Z, rng, 500), t, Z)),
            "ours": _spread([float(np.mean((y - Z) ** 2)) for y in private]),
        })  # fmt: skip
    picture = sheet(6.5, 4.2)
    axes = picture.add_subplot()
    for who, color, label in (("gradient", RED, "paper's sampler, gradient (not private)"),
                              ("displayed", ORANGE, "paper's sampler, as displayed (not private)"),
                              ("ours", BLUE, "ours, sound, (2, 10⁻⁵)")):  # fmt: skip
        mean, sd = (np.array([row[who][key] for row in rows]) for key in ("mean", "sd"))
        axes.errorbar(
            sizes,
            mean,
            [np.minimum(sd, 0.9 * mean), sd],
            color=color,
            marker="o",
            ms=4,
            capsize=3,
            label=label,
        )
    axes.plot(
        sizes,
        [row["fit"] for row in rows],
        color=INK,
        ls=":",
        label="least squares, not private",
    )
    axes.set(xlabel="n", ylabel="mean squared error", xscale="log", yscale="log")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    plain(axes)
    legend(picture, axes, columns=2)
    summary = {
        f"{who} over fit at n = {row['n']}": row[who]["mean"] / row["fit"]
        for row in rows
        for who in ("gradient", "displayed", "ours")
    }
    return {"rows": rows, "summary": summary}, picture


def _least_squares(
    x: np.ndarray, Y: np.ndarray, at: np.ndarray | None = None
) -> np.ndarray:
    p, v = np.linalg.lstsq(np.column_stack([np.ones(len(x)), x]), Y, rcond=None)[0]
    return np.asarray(p + (x if at is None else at)[:, None] * v)


def _standardized(x: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (x - x.min()) / (x.max() - x.min()), (Y - Y.mean(axis=0)) / Y.std(axis=0)


def _errors(pairs: np.ndarray, t: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Mean squared error of each (footpoint, velocity)."""
    return np.array([np.mean((p + t[:, None] * v - Z) ** 2) for p, v in pairs])


def _spread(values: Any) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "sd": float(np.std(values))}


def _bars(figures: dict[str, Any]) -> Figure:
    """Bars from 0, the printed numbers as diamonds on the rows they belong to."""
    own = {f"ours, {name}": row for name, row in figures["ours"].items()}
    opacus = {
        name: row
        for name, row in figures["peers"].items()
        if "Opacus" in name and "added" in name
    }
    rows = {
        "least squares, not private": ({"mean": figures["least squares"], "sd": 0.0}, GREY, PRINTED["least squares"]),
        "paper's sampler, as displayed (not private)": (figures["displayed"], ORANGE, PRINTED["DPGR"]),
        "paper's sampler, gradient (not private)": (figures["gradient"], RED, PRINTED["DPGR"]),
        **{name: (row, BLUE, None) for name, row in own.items()},
        **{name: (row, GREEN, PRINTED["Opacus"] if "tutorial" in name else None) for name, row in opacus.items()},
        **{name: (row, GREEN, PRINTED["IBM"]) for name, row in figures["peers"].items() if "within 4" in name},
    }  # fmt: skip
    picture = sheet(10, 4.6)
    axes = picture.add_subplot()
    for k, (row, color, printed) in enumerate(rows.values()):
        axes.barh(
            k,
            row["mean"],
            xerr=row["sd"] or None,
            color=color,
            alpha=0.75,
            error_kw={"lw": 1},
        )
        label = f"{row['mean']:.3f}" + (f" ± {row['sd']:.3f}" if row["sd"] else "")
        end = max(
            row["mean"] + row["sd"], printed or 0, 1.0
        )  # beyond the dotted line too
        axes.annotate(
            label,
            (end, k),
            (9, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK,
        )
        if printed:
            axes.plot(
                printed, k, "D", color=INK, ms=6, label="printed" if k == 0 else None
            )
    axes.set_yticks(range(len(rows)), list(rows), fontsize=9)
    axes.invert_yaxis()
    axes.axvline(1.0, color=INK, ls=":", lw=1, label="the mean alone, not private")
    axes.set(
        xlabel="mean squared error, in units of the data's variance", xlim=(0, 11.5)
    )
    plain(axes)
    legend(picture, axes, columns=2)
    return picture
