"""Figures and tables of Utpala et al. (2023), *Improved differentially private Riemannian optimization*."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import sparse

from curvedp.geometry import (
    Grassmann,
    Lorentz,
    Manifold,
    PoincareBall,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)
from curvedp.papers.runner import Setting
from curvedp.papers.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    band,
    legend,
    plain,
    sheet,
)

LARGEST_GRAM_SCHMIDT = (
    250  # dimension: beyond it a draw takes many seconds (the paper goes to 1999)
)
LARGEST_BASIS = (
    6e7  # numbers of an explicit basis, half a gigabyte (the paper goes to 4·10⁸)
)
Sampler = Callable[
    [np.ndarray, np.ndarray], np.ndarray
]  # (point, standard normals) -> tangent vector
COLORS = {
    "transport": "#c0392b",
    "explicit": "#2471a3",
    "sparse": "#16a085",
    "gram_schmidt": "#7f8c8d",
}
LABELS = {"transport": "isometry, no basis", "explicit": "explicit basis (up to 6·10⁷ numbers)", "sparse": "explicit, sparse",
          "gram_schmidt": "Gram–Schmidt (up to dimension 250)"}  # fmt: skip


def opt_fig1(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Time of one tangent Gaussian draw by four methods, mean over random base points."""
    points = 5 if setting.full else 2
    panels: dict[str, Any] = {}
    for title, make, reduced, full in PANELS:
        sizes = full if setting.full else reduced
        rows: dict[str, Any] = {
            "m": sizes,
            "seconds": {},
            "range": {},
            "gram_error": {},
        }
        for m in sizes:
            manifold = make(m)
            for name, sampler in samplers(manifold).items():
                if name == "gram_schmidt" and manifold.dim > LARGEST_GRAM_SCHMIDT:
                    continue
                if (
                    name == "explicit"
                    and manifold.dim * math.prod(manifold.point_shape) > LARGEST_BASIS
                ):
                    continue
                seconds = [draw_time(manifold, sampler, seed) for seed in range(points)]
                rows["seconds"].setdefault(name, []).append(float(np.mean(seconds)))
                rows["range"].setdefault(name, []).append([min(seconds), max(seconds)])
                if (
                    m == sizes[0]
                ):  # the law: the map of the normals is an isometry, whatever the method
                    rows["gram_error"][name] = gram_error(manifold, sampler)
        rows["ratio"] = {  # at the largest size of each method
            name: times[-1] / rows["seconds"]["transport"][len(times) - 1]
            for name, times in rows["seconds"].items()
        }
        panels[title] = rows
    errors = [
        error for rows in panels.values() for error in rows["gram_error"].values()
    ]
    figures = {"panels": panels, "largest_gram_error": max(errors)}
    return figures, draw_times(panels)


# title, manifold of size m, sizes of the reduced form, sizes of the full form: the paper's (its panels have r = 5, E31)
PANELS: list[tuple[str, Callable[[int], Manifold], list[int], list[int]]] = [
    ("SPD, affine-invariant", SPDAffineInvariant, [3, 6], [5, 10, 20, 30, 50]),
    ("SPD, Bures–Wasserstein", SPDBuresWasserstein, [3, 6], [5, 10, 20, 30, 50]),
    ("SPD, log-Euclidean", SPDLogEuclidean, [3, 6], [5, 10, 20, 30, 50]),
    ("sphere", lambda m: Sphere(m - 1), [50, 250], [250, 500, 1000, 1500, 2000]),
    ("Stiefel, r = 5", lambda m: Stiefel(m, 5), [20, 100], [100, 250, 500, 750, 1000]),
    ("Stiefel, r = 20", lambda m: Stiefel(m, 20), [30, 50], [100, 250, 500, 750, 1000]),
    (
        "Grassmann, r = 5",
        lambda m: Grassmann(m, 5),
        [20, 100],
        [100, 250, 500, 750, 1000],
    ),
    (
        "Grassmann, r = 20",
        lambda m: Grassmann(m, 20),
        [30, 50],
        [100, 250, 500, 750, 1000],
    ),
    ("Poincaré ball", PoincareBall, [50, 250], [250, 500, 1000, 1500, 2000]),
    ("Lorentz", lambda m: Lorentz(m - 1), [20, 50], [250, 500, 1000, 1500, 2000]),
]


def samplers(manifold: Manifold) -> dict[str, Sampler]:
    """The methods of §6.1; Gram–Schmidt and sparse bases for the manifolds for which the paper has them."""
    methods: dict[str, Sampler] = {"transport": manifold.from_coordinates}

    def explicit(p: np.ndarray, z: np.ndarray) -> np.ndarray:
        basis = np.asarray(manifold.from_coordinates(p, np.eye(manifold.dim)))
        return np.tensordot(z, basis, axes=1)

    def gram_schmidt(p: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.tensordot(z, orthonormalized(manifold, p), axes=1)

    def sparse_basis(p: np.ndarray, z: np.ndarray) -> np.ndarray:
        stacked = SPARSE[type(manifold)](p) @ z
        return np.asarray(stacked.reshape(manifold.point_shape, order="F"))

    methods["explicit"] = explicit
    if type(manifold) in SPARSE:
        methods["sparse"] = sparse_basis
    if isinstance(
        manifold, (SPDAffineInvariant, SPDBuresWasserstein, SPDLogEuclidean, Lorentz)
    ):
        methods["gram_schmidt"] = gram_schmidt
    return methods


def orthonormalized(manifold: Manifold, p: np.ndarray) -> np.ndarray:
    """A basis orthonormal in the ambient inner product, made orthonormal in the metric at p, vector by vector."""
    if isinstance(
        manifold, Lorentz
    ):  # tangent vectors of e_i, i ≥ 1: the first coordinate is bound by ⟨p, v⟩ = 0
        basis = np.hstack([(p[1:] / p[0])[:, None], np.eye(manifold.dim)])
    else:
        rows, columns = np.triu_indices(p.shape[0])
        basis = np.zeros((manifold.dim, *p.shape))
        basis[np.arange(manifold.dim), rows, columns] = np.where(
            rows == columns, 1.0, math.sqrt(0.5)
        )
        basis[np.arange(manifold.dim), columns, rows] = np.where(
            rows == columns, 1.0, math.sqrt(0.5)
        )
    shape = (-1,) + (1,) * p.ndim
    for i in range(manifold.dim):
        basis[i] /= manifold.norm(p, basis[i])
        rest = basis[i + 1 :]
        if len(rest):
            rest -= np.reshape(manifold.inner(p, basis[i], rest), shape) * basis[i]
    return basis


def poincare_basis(p: np.ndarray) -> Any:
    """eᵢ(1 − ‖p‖²)/2 (E8: printed with half the noise)."""
    return sparse.identity(len(p), format="csr") * ((1 - p @ p) / 2)


def grassmann_basis(p: np.ndarray) -> Any:
    """Columns of P⊥ in each column of the matrix: kron(I_r, P⊥) on the stacked columns."""
    r = p.shape[1]
    complement = np.linalg.qr(p, mode="complete")[0][:, r:]
    return sparse.kron(sparse.identity(r), sparse.csr_matrix(complement), format="csr")


def stiefel_basis(p: np.ndarray) -> Any:
    """P·skew besides: in the Frobenius metric (e_i e_jᵀ − e_j e_iᵀ)/√2."""
    r = p.shape[1]
    low, high = np.triu_indices(r, 1)
    count = np.arange(len(low))
    value = np.full(len(low), math.sqrt(0.5))
    skew = sparse.coo_matrix(
        (
            np.concatenate([value, -value]),
            (np.concatenate([high * r + low, low * r + high]), np.tile(count, 2)),
        ),
        shape=(r * r, len(low)),
    )
    turning = sparse.kron(sparse.identity(r), sparse.csr_matrix(p)) @ skew
    return sparse.hstack([turning, grassmann_basis(p)], format="csr")


SPARSE = {
    PoincareBall: poincare_basis,
    Grassmann: grassmann_basis,
    Stiefel: stiefel_basis,
}


def base_point(manifold: Manifold, seed: int) -> np.ndarray:
    z = np.random.default_rng(seed).standard_normal(manifold.dim)
    return np.asarray(
        manifold.exp(
            manifold.origin,
            manifold.from_coordinates(manifold.origin, 0.5 * z / np.linalg.norm(z)),
        )
    )


def draw_time(manifold: Manifold, sampler: Sampler, seed: int) -> float:
    """Seconds of one draw, normals included; the best of three, for the first pays for what is not the method's."""
    p, rng = base_point(manifold, seed), np.random.default_rng(seed)
    times: list[float] = []
    while len(times) < 3 and sum(times) < 1.0:
        start = time.perf_counter()
        sampler(p, rng.standard_normal(manifold.dim))
        times.append(time.perf_counter() - start)
    return min(times)


def gram_error(manifold: Manifold, sampler: Sampler) -> float:
    """max |⟨f(eᵢ), f(eⱼ)⟩_p − δᵢⱼ| of the linear map f from normals to tangent vectors, for 12 random directions."""
    p = base_point(manifold, 7)
    frame = np.linalg.qr(
        np.random.default_rng(8).standard_normal((manifold.dim, min(12, manifold.dim)))
    )[0].T
    images = np.stack([sampler(p, z) for z in frame])
    gram = np.asarray(manifold.inner(p, images[:, None], images[None, :]))
    return float(np.abs(gram - np.eye(len(frame))).max())


def draw_times(panels: dict[str, Any]) -> Figure:
    """The paper's ten panels: means, and as bands the least and most, over base points.

    Where a method stops early its basis would need more memory or time than is sensible.
    """
    picture = sheet(15, 6.2)
    for axes, (title, rows) in zip(
        picture.subplots(2, 5).flat, panels.items(), strict=True
    ):
        for name, times in rows["seconds"].items():
            low, high = np.transpose(rows["range"][name])
            band(
                axes,
                rows["m"][: len(times)],
                times,
                low,
                high,
                COLORS[name],
                LABELS[name],
            )
        axes.set(title=title, xlabel="m", yscale="log")
        plain(axes)
    legend(picture, *picture.axes, columns=4)
    picture.supylabel("seconds a draw")
    return picture


EPOCHS = [1, 5, 10, 25, 50, 100]


READINGS = {  # (C₀, C₁): §6.2 gives C₁ = 0.1 and C₂ = 0.01
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


def opt_fig2(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """ε against epochs: the paper's bound with both splits by every reading of its norms, and our accounting."""
    from curvedp.papers.opt.accounting import (
        claim_4_epsilon,
        claim_4_largest_order,
        moments_epsilon,
        one_step_moment_at_least,
        true_delta_at_least,
    )
    from curvedp.papers.opt.fig2 import DELTA, INNER, N, exact_epsilon

    epochs, sigmas = (EPOCHS, (0.1, 0.05)) if setting.full else ([10, 50], (0.05,))
    figures: dict[str, Any] = {"epochs": epochs, "printed improvement": 0.64 / 0.47}
    for label, (clip, _) in READINGS.items():
        figures[label] = {}
        for sigma in sigmas:
            half, best = (
                [
                    moments_epsilon(N, s, INNER, clip, sigma, DELTA, split)
                    for s in epochs
                ]
                for split in (0.5, None)
            )
            figures[label][f"σ = {sigma}"] = {
                "half": half,
                "optimized": best,
                "largest order of Claim 4": claim_4_largest_order(N, clip, sigma),
                "ε at the orders of Claim 4": [
                    claim_4_epsilon(N, s, INNER, clip, sigma, DELTA) for s in epochs
                ],
                "true δ of optimized, at least": [
                    true_delta_at_least(N, s, INNER, clip, sigma, eps)
                    for s, eps in zip(epochs, best, strict=True)
                ],
                "ours": None
                if label == "larger"
                else [exact_epsilon(s, clip, sigma, 1) for s in epochs],
            }
    at = epochs.index(50)
    figures["50 epochs, σ = 0.05"] = {
        label: {
            name: values[at]
            for name, values in figures[label]["σ = 0.05"].items()
            if isinstance(values, list)
        }
        for label in READINGS
    }
    exchanged = READINGS["exchanged"][0]
    figures["exchanged, displayed conversion, δ = 1.3·10⁻⁴"] = {
        name: moments_epsilon(N, 50, INNER, exchanged, 0.05, 1.3e-4, split, "mironov")
        for name, split in (("optimized", None), ("half", 0.5))
    }
    text = READINGS["text"][0]
    figures["text, order 110"] = {
        "one step, at least": one_step_moment_at_least(N, text, 0.05, 110),
        "largest order of Claim 4": claim_4_largest_order(N, text, 0.05),
    }
    return figures, draw_epsilon(figures)


def draw_epsilon(figures: dict[str, Any]) -> Figure:
    """The paper's panel (linear axes, from 0) for each reading; the two printed numbers as crosses."""
    picture = sheet(13, 4.2)
    grid = picture.subplots(1, 3, sharey=True)
    for axes, (label, (_, title)) in zip(grid, READINGS.items(), strict=True):
        for sigma, rows in figures[label].items():
            color = {"σ = 0.1": BLUE, "σ = 0.05": RED}[sigma]
            for name, style in (("half", "^:"), ("optimized", "v--"), ("ours", "o-")):
                if rows[name] is not None:
                    who = "ours" if name == "ours" else f"paper's bound, {name}"
                    axes.plot(
                        figures["epochs"],
                        rows[name],
                        style,
                        color=color,
                        ms=4,
                        lw=1.2,
                        label=f"{who}, {sigma}",
                    )
        axes.plot(
            [50, 50],
            [0.47, 0.64],
            "x",
            color=INK,
            ms=8,
            mew=2,
            label="printed: 0.47 and 0.64 (σ = 0.05)",
        )
        axes.set_title(title.replace(": ", ":\n"), fontsize=9)
        axes.set(xlabel="epochs", ylim=(0, 1.6))
        plain(axes)
    grid[0].set_ylabel("ε at δ = 10⁻⁶")
    legend(picture, *grid, columns=4)
    return picture


def opt_table2(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """What privatization adds to 3·10⁵ steps of DP-RSGD: SPD 11 × 11 Fréchet mean, leading eigenvector in R^786.

    Measured over fewer steps in the reduced form and scaled. The two others are what a Gram–Schmidt basis (SPD) or an
    explicit one (sphere) would add, from a few draws: the kind of sampler the paper compares with.
    """
    from curvedp.optim import FrechetMeanProblem, LeadingEigenvectorProblem
    from curvedp.papers.opt.timing import non_private, private, seconds

    steps, rng = 300_000 if setting.full else 2_000, np.random.default_rng(1)
    factors = rng.normal(size=(2000, 11, 33))
    vectors = rng.normal(size=(2000, 786))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cases = {
        "SPD 11 × 11": (
            FrechetMeanProblem(SPDAffineInvariant(11)),
            factors @ factors.swapaxes(1, 2) / 33,
            np.eye(11),
        ),
        "sphere 786": (LeadingEigenvectorProblem(786), vectors, np.eye(1, 786)[0]),
    }
    figures: dict[str, Any] = {"steps": steps}
    for name, (problem, data, init) in cases.items():
        runs = [
            make(problem, data, init, steps, 1, 0.01) for make in (non_private, private)
        ]
        for run in runs:
            run()  # compile
        plain, noisy = (
            np.min([[seconds(run)[0] for run in runs] for _ in range(2)], axis=0)
            * 300_000
            / steps
        )
        methods = samplers(problem.manifold)
        slow = methods.get("gram_schmidt", methods["explicit"])
        figures[name] = {
            "without privacy": float(plain),
            "with privacy": float(noisy),
            "added": float(noisy - plain),
            "added by a basis": draw_time(problem.manifold, slow, 0) * 300_000,
        }
    return figures, draw_overhead(figures)


PRINTED = {
    "SPD 11 × 11": (660 * 3600.0, 41.0),
    "sphere 786": (668.0, 24.0),
}  # Han et al. 2022, this paper: seconds


def draw_overhead(figures: dict[str, Any]) -> Figure:
    """Seconds added to 3·10⁵ steps, on a log axis, as dots: a bar has no start there."""
    picture = sheet(11, 3.4)
    for axes, name in zip(picture.subplots(1, 2), PRINTED, strict=True):
        row = figures[name]
        dots = {
            "printed: Han et al. (2022)": (PRINTED[name][0], GREY),
            "a basis, extrapolated from a few draws": (row["added by a basis"], BLUE),
            "printed: the paper": (PRINTED[name][1], GREY),
            "ours, added": (max(row["added"], 1e-2), RED),
            "ours, the run without privacy": (row["without privacy"], ORANGE),
        }
        for k, (value, color) in enumerate(dots.values()):
            axes.plot(value, k, "o", ms=9, color=color)
            said = (
                f"{value:.3g} s"
                if value < 600
                else f"{value / 60:.0f} min"
                if value < 7200
                else f"{value / 3600:.0f} h"
            )
            axes.annotate(
                said,
                (value, k),
                (9, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
        axes.set_yticks(range(len(dots)), list(dots), fontsize=9)
        axes.set_title(f"{name}, 3·10⁵ steps", fontsize=10)
        values = [value for value, _ in dots.values()]
        axes.set(
            xscale="log",
            xlabel="seconds",
            xlim=(min(values) / 3, max(values) * 40),
            ylim=(4.6, -0.6),
        )
        plain(axes)
    return picture


def opt_fig3(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Excess risk at (ε, 10⁻⁶) against gradient calls, every method with the same tuning, one-shot mechanisms beside.

    The reduced form has one panel, the mammals, at one ε. Settings are those tuned when fig3.json was made.
    """
    from curvedp.papers.opt import fig3

    if setting.full:
        figures = fig3.study_in_parallel(list(fig3.CASES), folder=setting.data_dir)
    else:
        figures = fig3.study(["poincare"], (0.5,), runs=2, folder=setting.data_dir)
    return figures, draw_risk(figures)


STYLES = {"DP-RGD": ("o-", BLUE), "DP-RSGD": ("s-", GREEN), "DP-RSVRG": ("^-", RED),
          "DP-RSVRG, anchor re-noised": ("^:", "#e59866"), "paper's DP-RSVRG": ("v--", "#7d3c98"),
          "paper's DP-RSVRG, as printed": ("v:", "#bb8fce"), "one-shot": ("*", INK)}  # fmt: skip
TITLES = {"spd": "PathMNIST, adipose", "spd, background": "PathMNIST, background", "sphere": "MNIST, digit 0",
          "sphere, digit 1": "MNIST, digit 1", "poincare": "mammals, Poincaré"}  # fmt: skip


def draw_risk(figures: dict[str, Any]) -> Figure:
    """Rows as in the paper, columns ε; lines are means of the runs, bands one standard deviation where it was recorded."""
    levels = [key for key in next(iter(figures.values())) if key.startswith("ε")]
    picture = sheet(3.6 * len(levels) + 1, 2.5 * len(figures) + 0.9)
    grid = picture.subplots(len(figures), len(levels), squeeze=False, sharey="row")
    order = [name for name in TITLES if name in figures]
    for axes_row, name in zip(grid, order, strict=True):
        panel = figures[name]
        for axes, level in zip(axes_row, levels, strict=True):
            for method, row in panel[level].items():
                style, color = STYLES[method]
                calls, risks, band_ = (
                    np.array(row.get(key, [])) for key in ("gradients", "curve", "band")
                )
                if method != "one-shot":
                    calls, risks = np.r_[0, calls], np.r_[panel["start"], risks]
                axes.plot(
                    calls / panel["n"],
                    risks,
                    style,
                    color=color,
                    ms=11 if method == "one-shot" else 3.5,
                    lw=1.2,
                )
                if len(band_) and method != "one-shot":
                    spread = np.r_[0, band_]
                    low = np.maximum(risks - spread, 0.2 * risks)
                    axes.fill_between(
                        calls / panel["n"],
                        low,
                        risks + spread,
                        color=color,
                        alpha=0.15,
                        lw=0,
                    )
            axes.axhline(panel["start"], color=GREY, lw=0.8, ls=":")
            axes.set_title(f"{TITLES[name]}, {level}", fontsize=10)
            axes.set_yscale("log")
            plain(axes)
        axes_row[0].set_ylabel("excess risk")
    for axes in grid[-1]:
        axes.set_xlabel("gradient calls / n")
    handles = [
        Line2D(
            [],
            [],
            linestyle=style[1:] or "none",
            marker=style[0],
            color=color,
            ms=6,
            label=name,
        )
        for name, (style, color) in STYLES.items()
    ]
    picture.legend(
        handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9
    )
    return picture
