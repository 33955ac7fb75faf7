"""Figures 1 to 3 and Table 2 of *Improved differentially private Riemannian
optimization* (Utpala et al. 2023). Each function makes one figure or table for `curvedp
reproduce`, with the other modules of this folder.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

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
from curvedp.numerics.threads import one_blas_thread
from curvedp.papers.opt.pictures import (
    NORM_READINGS,
    draw_added_time,
    draw_epsilon,
    draw_risk,
    draw_times,
)
from curvedp.papers.opt.samplers import (
    gram_error,
    metropolis_timing,
    samplers,
    seconds_per_draw,
)
from curvedp.papers.runner import Setting

# A draw by Gram–Schmidt takes many seconds beyond this dimension; the paper has 1999.
LARGEST_GRAM_SCHMIDT_DIMENSION = 250
# Half a gigabyte of numbers in an explicit basis; the paper goes to 4·10⁸ numbers.
LARGEST_BASIS_SIZE = 6e7

# The epochs of Figure 2 in the full form, and the steps of Table 2.
EPOCHS = [1, 5, 10, 25, 50, 100]
TABLE_2_STEPS = 300_000


class Panel(NamedTuple):
    """One panel of Figure 1: a family of manifolds and the sizes that are timed.

    Attributes
    ----------
    title : str
        The title of the panel.
    manifold_of_size : callable
        Returns the manifold of a size m, the number on the horizontal axis.
    reduced_sizes, full_sizes : list of int
        The sizes of the reduced and of the full form.
    """

    title: str
    manifold_of_size: Callable[[int], Manifold]
    reduced_sizes: list[int]
    full_sizes: list[int]


# Sizes of the reduced and of the full form.
SPD_SIZES = ([3, 6], [5, 10, 20, 30, 50])
FRAME_SIZES = ([20, 100], [100, 250, 500, 750, 1000])
WIDE_FRAME_SIZES = ([30, 50], [100, 250, 500, 750, 1000])
VECTOR_SIZES = ([50, 250], [250, 500, 1000, 1500, 2000])

# The full sizes are the paper's. Its panels of frames have r = 5 (erratum E31).
PANELS = [
    Panel("SPD, affine-invariant", SPDAffineInvariant, *SPD_SIZES),
    Panel("SPD, Bures–Wasserstein", SPDBuresWasserstein, *SPD_SIZES),
    Panel("SPD, log-Euclidean", SPDLogEuclidean, *SPD_SIZES),
    Panel("sphere", lambda m: Sphere(m - 1), *VECTOR_SIZES),
    Panel("Stiefel, r = 5", lambda m: Stiefel(m, 5), *FRAME_SIZES),
    Panel("Stiefel, r = 20", lambda m: Stiefel(m, 20), *WIDE_FRAME_SIZES),
    Panel("Grassmann, r = 5", lambda m: Grassmann(m, 5), *FRAME_SIZES),
    Panel("Grassmann, r = 20", lambda m: Grassmann(m, 20), *WIDE_FRAME_SIZES),
    Panel("Poincaré ball", PoincareBall, *VECTOR_SIZES),
    Panel("Lorentz", lambda m: Lorentz(m - 1), [20, 50], VECTOR_SIZES[1]),
]


def opt_fig1(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Time one tangent Gaussian draw by four methods, as a mean over base points.

    The linear algebra uses one thread on every machine, so that times are comparable.

    Parameters
    ----------
    setting : Setting
        The reduced or the full form.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    base_points = 5 if setting.full else 2
    panels = {}
    # With several threads the linear algebra of mid-sized matrices becomes many times
    # slower as soon as other programs want the cores.
    with one_blas_thread():
        for panel in PANELS:
            sizes = panel.full_sizes if setting.full else panel.reduced_sizes
            panels[panel.title] = _timed_panel(
                panel.manifold_of_size, sizes, base_points
            )
    errors = [max(rows["gram_error"].values()) for rows in panels.values()]
    figures = {"panels": panels, "largest_gram_error": max(errors)}
    return figures, draw_times(panels)


def _timed_panel(
    manifold_of_size: Callable[[int], Manifold], sizes: list[int], base_points: int
) -> dict[str, Any]:
    """Time each method of drawing a tangent Gaussian on a family of manifolds.

    Parameters
    ----------
    manifold_of_size : callable
        Returns the manifold of a size.
    sizes : list of int
        The sizes that are timed.
    base_points : int
        The number of points at which a draw is timed.

    Returns
    -------
    dict
        "m", the sizes; for each method "seconds", the mean over base points at each
        size (up to the largest that is affordable), and "range", the least and the most;
        "gram_error", how far it is from an isometry at the first size; and "ratio", its
        time over that of "transport" at its largest size.
    """
    seconds: dict[str, list[float]] = {}
    ranges: dict[str, list[list[float]]] = {}
    errors: dict[str, float] = {}
    for m in sizes:
        manifold = manifold_of_size(m)
        for name, sampler in samplers(manifold).items():
            if not _is_affordable(name, manifold):
                continue
            times = [
                seconds_per_draw(manifold, sampler, seed) for seed in range(base_points)
            ]
            seconds.setdefault(name, []).append(float(np.mean(times)))
            ranges.setdefault(name, []).append([min(times), max(times)])
            if m == sizes[0]:
                errors[name] = gram_error(manifold, sampler)
    ratio = {
        name: times[-1] / seconds["transport"][len(times) - 1]
        for name, times in seconds.items()
    }
    return {
        "m": sizes,
        "seconds": seconds,
        "range": ranges,
        "gram_error": errors,
        "ratio": ratio,
    }


def _is_affordable(method: str, manifold: Manifold) -> bool:
    """Return whether a method's basis takes a sensible amount of time and memory.

    Parameters
    ----------
    method : str
        A name of `samplers`.
    manifold : Manifold
        The manifold on which it would draw.
    """
    if method == "gram_schmidt":
        return manifold.dim <= LARGEST_GRAM_SCHMIDT_DIMENSION
    if method == "explicit":
        basis_size = manifold.dim * math.prod(manifold.point_shape)
        return basis_size <= LARGEST_BASIS_SIZE
    return True


def opt_fig2(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Compute ε against epochs: the paper's bound by every reading, and our accounting.

    Parameters
    ----------
    setting : Setting
        The reduced or the full form.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    epochs = EPOCHS if setting.full else [10, 50]
    sigmas = (0.1, 0.05) if setting.full else (0.05,)
    figures: dict[str, Any] = {"epochs": epochs, "printed improvement": 0.64 / 0.47}
    for reading in NORM_READINGS:
        figures[reading] = {
            f"σ = {sigma}": _epsilon_rows(reading, sigma, epochs) for sigma in sigmas
        }

    at_50_epochs = epochs.index(50)
    figures["50 epochs, σ = 0.05"] = {
        reading: {
            name: values[at_50_epochs]
            for name, values in figures[reading]["σ = 0.05"].items()
            if isinstance(values, list)
        }
        for reading in NORM_READINGS
    }

    return figures | _claims_at_50_epochs(), draw_epsilon(figures)


def _claims_at_50_epochs() -> dict[str, dict[str, float]]:
    """Return single numbers on the paper's claims that docs/reproductions.md quotes.

    Returns
    -------
    dict
        The claimed ε at 50 epochs if the clipping norms are exchanged and the displayed
        conversion is used, and what Claim 4 says of the norms of the text.
    """
    from curvedp.papers.opt.accounting import (
        claim_4_largest_order,
        moments_epsilon,
        one_step_moment_at_least,
    )
    from curvedp.papers.opt.fig2 import INNER, N

    exchanged = NORM_READINGS["exchanged"][0]
    splits = {"optimized": None, "half": 0.5}
    text = NORM_READINGS["text"][0]
    return {
        "exchanged, displayed conversion, δ = 1.3·10⁻⁴": {
            name: moments_epsilon(
                N, 50, INNER, exchanged, 0.05, 1.3e-4, split, "mironov"
            )
            for name, split in splits.items()
        },
        "text, order 110": {
            "one step, at least": one_step_moment_at_least(N, text, 0.05, 110),
            "largest order of Claim 4": claim_4_largest_order(N, text, 0.05),
        },
    }


def _epsilon_rows(reading: str, sigma: float, epochs: list[int]) -> dict[str, Any]:
    """Return the ε of DP-RSVRG by one reading of the clipping norms, at one noise.

    Parameters
    ----------
    reading : str
        A key of `NORM_READINGS`.
    sigma : float
        σ, the noise of every step.
    epochs : list of int
        The numbers of epochs.

    Returns
    -------
    dict
        For each number of epochs: the claimed ε with both splits ("half", "optimized"),
        the ε that Claim 4 proves, a lower bound on the true δ at the claimed one, and
        ours (None for norms that our optimizer is not run with); and the largest order
        of Claim 4.
    """
    from curvedp.papers.opt.accounting import (
        claim_4_epsilon,
        claim_4_largest_order,
        moments_epsilon,
        true_delta_at_least,
    )
    from curvedp.papers.opt.fig2 import DELTA, INNER, N, exact_epsilon

    clips = NORM_READINGS[reading][0]
    half = [moments_epsilon(N, s, INNER, clips, sigma, DELTA, 0.5) for s in epochs]
    optimized = [moments_epsilon(N, s, INNER, clips, sigma, DELTA) for s in epochs]
    allowed = [claim_4_epsilon(N, s, INNER, clips, sigma, DELTA) for s in epochs]
    true_delta = [
        true_delta_at_least(N, s, INNER, clips, sigma, eps)
        for s, eps in zip(epochs, optimized, strict=True)
    ]
    ours = None
    if reading != "larger":
        ours = [exact_epsilon(s, clips, sigma, 1) for s in epochs]
    return {
        "half": half,
        "optimized": optimized,
        "largest order of Claim 4": claim_4_largest_order(N, clips, sigma),
        "ε at the orders of Claim 4": allowed,
        "true δ of optimized, at least": true_delta,
        "ours": ours,
    }


def opt_table2(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Measure the time that privacy adds to 3·10⁵ steps of DP-RSGD, on two problems.

    The problems are the Fréchet mean of 11 × 11 SPD matrices and the leading
    eigenvector in R^786. The reduced form takes fewer steps and scales the times. The
    paper compares other samplers of noise: a Gram–Schmidt basis (SPD) or an explicit
    basis (sphere), and Metropolis–Hastings. The times that they would add are
    extrapolated from a few draws and a few chains.

    Parameters
    ----------
    setting : Setting
        The reduced or the full form.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    from curvedp.optim import FrechetMeanProblem, LeadingEigenvectorProblem
    from curvedp.papers.opt.timing import seconds_with_and_without_privacy

    # Problem, records and start of each case.
    covariances, vectors = _random_records()
    cases = {
        "SPD 11 × 11": (
            FrechetMeanProblem(SPDAffineInvariant(11)),
            covariances,
            np.eye(11),
        ),
        "sphere 786": (LeadingEigenvectorProblem(786), vectors, np.eye(1, 786)[0]),
    }

    # Seconds of all methods, for the number of steps of the paper's table.
    steps = TABLE_2_STEPS if setting.full else 2_000
    figures: dict[str, Any] = {"steps": steps}
    for name, (problem, data, start) in cases.items():
        without_privacy, with_privacy = (
            seconds * TABLE_2_STEPS / steps
            for seconds in seconds_with_and_without_privacy(problem, data, start, steps)
        )
        n_chains = 20 if setting.full else 2
        figures[name] = {
            "without privacy": without_privacy,
            "with privacy": with_privacy,
            "added": with_privacy - without_privacy,
            **_seconds_of_other_samplers(problem.manifold, n_chains),
        }
    figures["hours"] = {
        f"{name}, {method}": figures[name][f"added by {method}"] / 3600
        for name in cases
        for method in ("a basis", "Metropolis–Hastings")
    }
    return figures, draw_added_time(figures)


def _random_records() -> tuple[np.ndarray, np.ndarray]:
    """Return random covariance matrices of size 11 and unit vectors of R^786, 2000 each."""
    rng = np.random.default_rng(1)
    factors = rng.normal(size=(2000, 11, 33))
    covariances = factors @ factors.swapaxes(1, 2) / 33
    vectors = rng.normal(size=(2000, 786))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return covariances, vectors


def _seconds_of_other_samplers(manifold: Manifold, n_chains: int) -> dict[str, float]:
    """Return the seconds that other samplers of noise would add to Table 2.

    They are extrapolated from a few draws and a few chains.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the problem.
    n_chains : int
        The number of Metropolis–Hastings chains that are timed.

    Returns
    -------
    dict
        The seconds added by a basis and by chains, and the mean square of a chain.
    """
    methods = samplers(manifold)
    basis_sampler = methods.get("gram_schmidt", methods["explicit"])
    basis_seconds = seconds_per_draw(manifold, basis_sampler, 0)
    chains = metropolis_timing(manifold, n_chains)
    return {
        "added by a basis": basis_seconds * TABLE_2_STEPS,
        "added by Metropolis–Hastings": chains["seconds per draw"] * TABLE_2_STEPS,
        "mean square of a chain": chains["mean square per dimension"],
    }


def opt_fig3(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Compute excess risk at (ε, 10⁻⁶) against gradient calls, for every method.

    The reduced form has one panel, the mammals at one ε. The settings are those that
    were tuned when fig3.json was made.

    Parameters
    ----------
    setting : Setting
        The reduced or the full form, and where the data are.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers and the picture.
    """
    from curvedp.papers.opt import fig3

    if setting.full:
        figures = fig3.study_in_parallel(list(fig3.CASES), folder=setting.data_dir)
    else:
        figures = fig3.study(["poincare"], (0.5,), runs=2, folder=setting.data_dir)
    return figures, draw_risk(figures)
