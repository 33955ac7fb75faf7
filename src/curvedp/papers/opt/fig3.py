"""Figure 3 of Utpala et al. (2023): excess risk of private optimizers against gradient
calls. The excess risk of a point is the objective there minus its minimum. Every
optimizer is tuned on the data, as in the paper (which is not private, and is only done
for the comparison), and then run again with fresh seeds.

    CURVEDP_DATA=... python -m curvedp.papers.opt.fig3 [CASE …] [--tune]

The options `--runs N` and `--json FILE` are also possible.

All methods take 12 passes over the data. The tuning grid has 3 clipping norms C₀ and 4
step sizes (4 and 5 for tissues, where the best lie at the edge of the smaller grid) and,
for DP-RSVRG, 3 ratios C₁/C₀, because Appendix C tunes C and C₂ separately. `Effort`
contains how many runs decide and how many fresh ones are reported. A step size is given
as "travel", the learning rate times the number of steps, so that the same list can be
used for all methods. One-shot mechanisms, which release the result once, are compared
with the optimizers. They are not tuned: their ball is public and contains all data.

Three more methods show the errata E11 and E12 at the same (ε, δ):

- "DP-RSVRG, anchor re-noised": ours, at our setting, with new noise on the anchor's
  gradient at every inner step, which is charged each time (E12);
- "paper's DP-RSVRG": the paper's algorithm as it was meant, at the noise that its own
  bound asks for, raised to the first condition of Claim 4 (its second condition does
  not hold: E39);
- "paper's DP-RSVRG, as printed": the same with the printed sign (E11).
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

# The first import: without JAX its error names the extra.
import curvedp.optim  # isort: skip # noqa: F401
import jax
import jax.numpy as jnp
import numpy as np

from curvedp.estimators import PrivateFrechetMean, PrivatePCA
from curvedp.geometry import Manifold, PoincareBall, SPDAffineInvariant, frechet_mean
from curvedp.optim import (
    FrechetMeanProblem,
    LeadingEigenvectorProblem,
    OptimResult,
    Problem,
    dp_rgd,
    dp_rsgd,
    dp_rsvrg,
)
from curvedp.papers.opt import data as datasets
from curvedp.papers.opt.accounting import moments_sigma
from curvedp.papers.opt.rsvrg import paper_rsvrg
from curvedp.privacy import ApproxDP
from curvedp.privacy.optimizer_accounting import rgd_noise, rsgd_noise, rsvrg_noise

# The δ of every guarantee, and the values of ε, one column of panels each.
DELTA = 1e-6
LEVELS = (0.1, 0.3, 0.5)
# Passes over the data that every method may take.
PASSES = 12
# Step sizes of the tuning grid, as learning rate × number of steps.
TRAVELS = (0.7, 2.0, 6.0, 20.0)
# Values of C₁/C₀ of the tuning grid of DP-RSVRG.
INNER_CLIP_RATIOS = (1.0, 0.3, 0.1)
# The number of points of each recorded curve.
RECORDED_POINTS = 4

# DP-RSGD draws batches of n/10 records. Our DP-RSVRG takes 10 inner steps on batches of
# n/20 records, so that an epoch is two passes over the data.
RSGD_BATCHES_PER_PASS = 10
INNER_STEPS = 10
INNER_BATCHES_PER_PASS = 20

# The paper's DP-RSVRG takes n/10 inner steps of one record, with two gradients each.
PAPER_INNER_STEPS_PER_PASS = 10
PAPER_PASSES_PER_EPOCH = 1.2

# The full form's record: the tuned settings, the curves and the risks.
RECORD = Path(__file__).with_name("fig3.json")

# Numbers of gradient calls, and the excess risks after them.
Curve = tuple[list[float], list[float]]
# A function that returns a released point, given a guarantee.
OneShotMechanism = Callable[[ApproxDP], Any]


class Case(NamedTuple):
    """A problem on a data set: where descent starts, and what it is compared with.

    Attributes
    ----------
    problem : Problem
        The objective and its manifold.
    data : array of shape (n, *point_shape)
        The records.
    start : array
        The public point at which descent starts.
    minimizer : array
        The minimizer over all records, from which excess risks are measured. NOT
        PRIVATE.
    clips : tuple of float
        The clipping norms C₀ of the tuning grid.
    one_shot : function
        The one-shot mechanism for the same problem.
    travels : tuple of float
        The step sizes of the tuning grid, as learning rate × number of steps.
    """

    problem: Problem
    data: np.ndarray
    start: np.ndarray
    minimizer: np.ndarray
    clips: tuple[float, ...]
    one_shot: OneShotMechanism
    travels: tuple[float, ...] = TRAVELS


class Setting(NamedTuple):
    """One point of the tuning grid. The names are those of fig3.json.

    Attributes
    ----------
    clip : float
        C₀, the clipping norm of full gradients, or of all for methods that have one.
    travel : float
        The learning rate times the number of steps.
    inner_clip : float
        The ratio C₁/C₀, for DP-RSVRG.
    """

    clip: float
    travel: float
    inner_clip: float = 1.0


class Effort(NamedTuple):
    """How many runs a case gets. Each purpose has seeds of its own.

    Attributes
    ----------
    screening : int
        Runs of every setting of the tuning grid.
    finalists : int
        Settings that are run again, the best of the screening.
    confirming : int
        Further runs of each finalist, whose mean decides.
    reported : int
        Fresh runs of the setting that was decided on.
    """

    screening: int
    finalists: int
    confirming: int
    reported: int


# A run on the mammals takes a hundredth of a second, one on images a second. The record
# of the tissues was made with `--runs 10`.
TISSUE_EFFORT = Effort(1, 4, 6, 5)
EFFORTS = {
    "poincare": Effort(6, 6, 30, 60),
    "spd": TISSUE_EFFORT,
    "spd, background": TISSUE_EFFORT,
}
IMAGE_EFFORT = Effort(1, 4, 3, 5)


def one_shot_mean(
    manifold: Manifold, records: np.ndarray, center: np.ndarray, radius: float
) -> OneShotMechanism:
    """Return the one-shot mechanism of a Fréchet mean, which releases it once.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    records : array of shape (n, *point_shape)
        The records.
    center, radius : array and float
        The public ball.
    """

    def release(guarantee: ApproxDP) -> Any:
        """Return a private mean."""
        estimator = PrivateFrechetMean(manifold, radius, center, guarantee)
        return estimator.fit(records).location_

    return release


def spd(folder: Path | None = None, label: int = 0) -> Case:
    """Return the case of Figure 3a: the Fréchet mean of descriptors of PathMNIST.

    Descent starts at a multiple of the identity, between the ridge of the descriptors
    and 1/12, the variance of a uniform feature.

    Parameters
    ----------
    folder : Path, optional
        The folder with the data sets.
    label : int
        The tissue: 0 is adipose, 1 is background.
    """
    manifold = SPDAffineInvariant(11)
    records = datasets.pathmnist(folder, label)
    start = 1e-3 * np.eye(11)
    return Case(
        problem=FrechetMeanProblem(manifold),
        data=records,
        start=start,
        minimizer=frechet_mean(manifold, records),
        clips=(1.0, 3.0, 9.0, 27.0),
        one_shot=one_shot_mean(manifold, records, start, radius=14.0),
        travels=(*TRAVELS, 60.0),
    )


def sphere(folder: Path | None = None, digit: int = 0) -> Case:
    """Return the case of Figure 3b: the leading eigenvector of MNIST's images of a digit.

    Descent starts at the unit vector of equal entries.

    Parameters
    ----------
    folder : Path, optional
        The folder with the data sets.
    digit : int
        0 or 1 in the paper.
    """
    images = datasets.mnist(folder, digit)
    pixels = images.shape[1]

    def one_shot(guarantee: ApproxDP) -> Any:
        """Return the leading eigenvector by one private release."""
        pca = PrivatePCA(1, radius=1.0, guarantee=guarantee)
        return pca.fit(images).components_[0]

    return Case(
        problem=LeadingEigenvectorProblem(pixels),
        data=images,
        start=np.ones(pixels) / math.sqrt(pixels),
        minimizer=np.linalg.eigh(images.T @ images)[1][:, -1],
        clips=(0.1, 0.3, 1.0),
        one_shot=one_shot,
    )


def poincare(folder: Path | None = None) -> Case:
    """Return the case of Figure 3c: the Fréchet mean of the embedded mammals.

    Descent starts away from the middle of the disc, where the tree's root was put.

    Parameters
    ----------
    folder : Path, optional
        The folder with the data sets.
    """
    manifold = PoincareBall(2)
    records = datasets.mammals(folder)
    start = np.array([0.6, -0.3])
    return Case(
        problem=FrechetMeanProblem(manifold),
        data=records,
        start=start,
        minimizer=frechet_mean(manifold, records),
        clips=(1.0, 3.0, 9.0),
        one_shot=one_shot_mean(manifold, records, start, radius=11.0),
    )


# The paper's rows, the longest last.
CASES: dict[str, Callable[[Path | None], Case]] = {
    "poincare": poincare,
    "sphere": sphere,
    "sphere, digit 1": partial(sphere, digit=1),
    "spd": spd,
    "spd, background": partial(spd, label=1),
}


class Comparison:
    """All optimizers on one case at one ε.

    Parameters
    ----------
    case : Case
        The problem.
    eps : float
        ε of the guarantee.

    Attributes
    ----------
    methods : dict
        A function (setting, seed, record_curve) → `Curve` for each optimizer's name.
        Without `record_curve` the curve has its last point only.
    """

    def __init__(self, case: Case, eps: float) -> None:
        """Put the records on the device, in a random order, and list the methods."""
        self.case = case
        self.n = len(case.data)
        self.guarantee = ApproxDP(eps, DELTA)
        shuffled = np.random.default_rng(0).permutation(self.n)
        with jax.enable_x64(True):
            self.records = jnp.asarray(case.data[shuffled])
            self._jitted_objective = jax.jit(case.problem.objective)
        self.smallest_risk = self.risk(case.minimizer)
        self.methods: dict[str, Callable[[Setting, int, bool], Curve]] = {
            "DP-RGD": self.run_rgd,
            "DP-RSGD": self.run_rsgd,
            "DP-RSVRG": self.run_rsvrg,
            "DP-RSVRG, anchor re-noised": self.run_rsvrg_with_noisy_anchor,
            "paper's DP-RSVRG": self.run_paper_rsvrg,
            "paper's DP-RSVRG, as printed": partial(self.run_paper_rsvrg, sign=-1),
        }

    def risk(self, point: Any) -> float:
        """Return the objective at a point, over all records. NOT PRIVATE.

        Parameters
        ----------
        point : array of shape point_shape
            The point.
        """
        with jax.enable_x64(True):
            return float(self._jitted_objective(jnp.asarray(point), self.records))

    def excess_risk(self, point: Any) -> float:
        """Return how far the objective at a point is above its minimum. NOT PRIVATE.

        Parameters
        ----------
        point : array of shape point_shape
            The point.
        """
        return self.risk(point) - self.smallest_risk

    def run_rgd(self, setting: Setting, seed: int, record_curve: bool) -> Curve:
        """Run DP-RGD: every step takes the gradient of all records.

        Parameters
        ----------
        setting : Setting
            Clipping norm and step size.
        seed : int
            The seed of batches and noise.
        record_curve : bool
            Whether the risk is recorded along the way, or at the end only.
        """
        steps = PASSES
        stride = steps // RECORDED_POINTS
        noise = setting.clip * rgd_noise(self.n, steps, 1.0, self.guarantee)
        result = dp_rgd(
            self.case.problem,
            self.records,
            self.case.start,
            steps,
            setting.clip,
            setting.travel / steps,
            noise=noise,
            rng=np.random.default_rng(seed),
            record_history=stride if record_curve else 0,
        )
        return self._curve_of(result, stride, steps, gradients_per_step=self.n)

    def run_rsgd(self, setting: Setting, seed: int, record_curve: bool) -> Curve:
        """Run DP-RSGD: every step takes the gradient of a random batch.

        Parameters
        ----------
        setting : Setting
            Clipping norm and step size.
        seed : int
            The seed of batches and noise.
        record_curve : bool
            Whether the risk is recorded along the way, or at the end only.
        """
        steps = RSGD_BATCHES_PER_PASS * PASSES
        stride = steps // RECORDED_POINTS
        batch_size = self.n // RSGD_BATCHES_PER_PASS
        noise = setting.clip * _unit_rsgd_noise(self.n, steps, self.guarantee.eps)
        result = dp_rsgd(
            self.case.problem,
            self.records,
            self.case.start,
            steps,
            batch_size,
            setting.clip,
            setting.travel / steps,
            noise=noise,
            rng=np.random.default_rng(seed),
            record_history=stride if record_curve else 0,
        )
        return self._curve_of(result, stride, steps, gradients_per_step=batch_size)

    def run_rsvrg(self, setting: Setting, seed: int, record_curve: bool) -> Curve:
        """Run DP-RSVRG of this library, with noise once on the gradient at the anchor.

        Parameters
        ----------
        setting : Setting
            Clipping norm and step size.
        seed : int
            The seed of batches and noise.
        record_curve : bool
            Whether the risk is recorded along the way, or at the end only.
        """
        epochs = PASSES // 2
        rate = setting.travel / (epochs * INNER_STEPS)
        unit_noise = _unit_rsvrg_noise(
            self.n, epochs, INNER_STEPS, self.guarantee.eps, rate, setting.inner_clip
        )
        return self._run_rsvrg(setting, unit_noise, seed, record_curve)

    def run_rsvrg_with_noisy_anchor(
        self, setting: Setting, seed: int, record_curve: bool
    ) -> Curve:
        """Run DP-RSVRG with new noise on the gradient at the anchor at every step.

        This noise is charged each time. It and the noise of the difference are
        independent, so that their sum is drawn as one normal vector.

        Parameters
        ----------
        setting : Setting
            Clipping norm and step size.
        seed : int
            The seed of batches and noise.
        record_curve : bool
            Whether the risk is recorded along the way, or at the end only.
        """
        steps = PASSES // 2 * INNER_STEPS
        anchor_noise, inner_noise = _unit_rsvrg_noise(
            self.n,
            steps,
            1,
            self.guarantee.eps,
            setting.travel / steps,
            setting.inner_clip,
        )
        no_noise = 1e-12  # the optimizer requires a positive number
        unit_noise = (no_noise, math.hypot(anchor_noise, inner_noise))
        return self._run_rsvrg(setting, unit_noise, seed, record_curve)

    def run_paper_rsvrg(
        self, setting: Setting, seed: int, record_curve: bool, sign: int = 1
    ) -> Curve:
        """Run the paper's Algorithm 11, one epoch after the other.

        The noise is what its own bound asks for, raised to the first condition of
        Claim 4, σ² ≥ 12·C₁².

        Parameters
        ----------
        setting : Setting
            Clipping norm and step size.
        seed : int
            The seed of batches and noise.
        record_curve : bool
            Whether the risk is recorded along the way, or at the end only.
        sign : {1, -1}
            The sign of the anchor's gradient: +1 as it is meant, −1 as it is printed.
        """
        inner_steps = self.n // PAPER_INNER_STEPS_PER_PASS
        epochs = round(PASSES / PAPER_PASSES_PER_EPOCH)
        rate = setting.travel / (epochs * inner_steps)
        clips = (setting.clip, setting.clip * setting.inner_clip)
        claimed_sigma = moments_sigma(
            self.n, epochs, inner_steps, clips, self.guarantee.eps, DELTA
        )
        sigma = max(claimed_sigma, math.sqrt(12) * clips[1])

        # Run epoch by epoch, and record the risk after some of them.
        rng = np.random.default_rng(seed)
        point = self.case.start
        calls: list[float] = []
        risks: list[float] = []
        stride = epochs // RECORDED_POINTS
        for epoch in range(1, epochs + 1):
            point = paper_rsvrg(
                self.case.problem,
                self.records,
                point,
                1,
                inner_steps,
                clips,
                rate,
                sigma,
                rng,
                sign,
            )
            is_recorded = record_curve and epoch % stride == 0
            if is_recorded or epoch == epochs:
                calls.append(epoch * PAPER_PASSES_PER_EPOCH * self.n)
                risks.append(self.excess_risk(point))
        return calls, risks

    def _run_rsvrg(
        self,
        setting: Setting,
        unit_noise: tuple[float, float],
        seed: int,
        record_curve: bool,
    ) -> Curve:
        """Run DP-RSVRG at a stated noise.

        Parameters
        ----------
        setting : Setting
            Clipping norms and step size.
        unit_noise : (float, float)
            The noise of the anchor's gradient and of an inner step, for a clipping norm
            C₀ of 1; it grows with C₀.
        seed : int
            The seed of batches and noise.
        record_curve : bool
            Whether the risk is recorded along the way, or at the end only.
        """
        epochs = PASSES // 2
        steps = epochs * INNER_STEPS
        stride = 2 * INNER_STEPS
        anchor_noise, inner_noise = unit_noise
        result = dp_rsvrg(
            self.case.problem,
            self.records,
            self.case.start,
            epochs,
            INNER_STEPS,
            (setting.clip, setting.clip * setting.inner_clip),
            setting.travel / steps,
            noise=(setting.clip * anchor_noise, setting.clip * inner_noise),
            batch_size=self.n // INNER_BATCHES_PER_PASS,
            rng=np.random.default_rng(seed),
            record_history=stride if record_curve else 0,
        )
        gradients_per_step = 2 * self.n / INNER_STEPS
        return self._curve_of(result, stride, steps, gradients_per_step)

    def _curve_of(
        self, result: OptimResult, stride: int, steps: int, gradients_per_step: float
    ) -> Curve:
        """Return the curve of a run whose objective was recorded every `stride` steps.

        Without a recorded history the curve has the last point only.

        Parameters
        ----------
        result : OptimResult
            The run.
        stride, steps : int
            Steps between two recorded points, and steps of the run.
        gradients_per_step : float
            Gradient calls of a step.
        """
        if result.history is None:
            return [steps * gradients_per_step], [self.excess_risk(result.point)]
        risks = (result.history - self.smallest_risk).tolist()
        calls = [stride * (i + 1) * gradients_per_step for i in range(len(risks))]
        return calls, risks


# Noise is proportional to the clipping norm, so it is calibrated once, for norm 1.


@cache
def _unit_rsgd_noise(n: int, steps: int, eps: float) -> float:
    """Return the noise of DP-RSGD at clipping norm 1, for batches of n/10 records.

    Parameters
    ----------
    n : int
        The number of records.
    steps : int
        The number of steps.
    eps : float
        ε of the guarantee.
    """
    batch_size = n // RSGD_BATCHES_PER_PASS
    return rsgd_noise(n, steps, batch_size, 1.0, ApproxDP(eps, DELTA), "poisson")


@cache
def _unit_rsvrg_noise(
    n: int, epochs: int, inner_steps: int, eps: float, rate: float, inner_clip: float
) -> tuple[float, float]:
    """Return the noise of DP-RSVRG in the anchor gradient and in inner steps, at C₀ = 1.

    Each epoch computes the gradient of all records at an anchor, clipped to C₀. Inner
    steps correct it by differences of batch gradients, clipped to C₁.

    Parameters
    ----------
    n : int
        The number of records.
    epochs : int
        The number of epochs.
    inner_steps : int
        The number of inner steps of each epoch.
    eps : float
        ε of the guarantee.
    rate : float
        The learning rate, on which the best split of the budget depends.
    inner_clip : float
        The clipping norm C₁ of inner steps.

    Returns
    -------
    anchor_noise, inner_noise : float
        Standard deviations.
    """
    batch_size = n // INNER_BATCHES_PER_PASS
    clips = (1.0, inner_clip)
    guarantee = ApproxDP(eps, DELTA)
    return rsvrg_noise(
        n, epochs, inner_steps, batch_size, clips, guarantee, "poisson", rate
    )


def tuning_grid(case: Case, method: str) -> list[Setting]:
    """Return the settings among which a method is tuned.

    They are all combinations of a clipping norm C₀ and a step size. The variants of
    DP-RSVRG have a second clipping norm C₁, whose ratios C₁/C₀ are combined as well.

    Parameters
    ----------
    case : Case
        The problem, with its clipping norms and step sizes.
    method : str
        The name of an optimizer.
    """
    has_inner_clip = "SVRG" in method
    inner_clips = INNER_CLIP_RATIOS if has_inner_clip else (1.0,)
    return [
        Setting(*values) for values in product(case.clips, case.travels, inner_clips)
    ]


def tune(comparison: Comparison, method: str, effort: Effort) -> Setting:
    """Choose the clipping norms and step size of a method by grid search. NOT PRIVATE.

    The search minimizes the mean final risk over all records. It first compares all
    settings of the grid in a few screening runs. The settings with the smallest means
    are the finalists, which are compared again in further runs. The seeds of all these
    runs differ from the seeds of the runs that are reported.

    Parameters
    ----------
    comparison : Comparison
        The optimizers on one problem, at one ε.
    method : str
        The name of an optimizer.
    effort : Effort
        The numbers of screening runs, of finalists, and of runs that confirm them.

    Returns
    -------
    Setting
        The clipping norms and the step size of the best finalist.
    """
    run_optimizer = comparison.methods[method]
    record_curve = False  # only the final risk is needed

    def mean_final_risk(setting: Setting, seeds: range) -> float:
        """Return the mean of the final risks of some runs; infinite if one diverged."""
        final_risks = []
        for seed in seeds:
            _, risks = run_optimizer(setting, seed, record_curve)
            final_risks.append(risks[-1])
        mean = float(np.mean(final_risks))
        return mean if np.isfinite(mean) else math.inf

    screening_seeds = range(1000, 1000 + effort.screening)
    confirming_seeds = range(2000, 2000 + effort.confirming)
    settings = tuning_grid(comparison.case, method)
    ranked = sorted(
        settings, key=lambda setting: mean_final_risk(setting, screening_seeds)
    )
    finalists = ranked[: effort.finalists]
    return min(
        finalists, key=lambda setting: mean_final_risk(setting, confirming_seeds)
    )


# The variants that show an erratum run at the setting of the method they vary.
SETTING_IS_THAT_OF = {
    "DP-RSVRG, anchor re-noised": "DP-RSVRG",
    "paper's DP-RSVRG, as printed": "paper's DP-RSVRG",
}


def recorded_settings(name: str, eps: float) -> dict[str, Setting]:
    """Return each method's setting on a case, as it was tuned when fig3.json was made.

    Parameters
    ----------
    name : str
        A key of `CASES`.
    eps : float
        One of `LEVELS`.
    """
    rows = json.loads(RECORD.read_text(encoding="utf-8"))[name][f"ε = {eps}"]
    return {
        method: Setting(**row["setting"])
        for method, row in rows.items()
        if row["setting"]
    }


def compare_methods(
    case: Case, eps: float, effort: Effort, known_settings: dict[str, Setting] | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run all methods on one case at one ε, and yield their names and results.

    Parameters
    ----------
    case : Case
        The problem.
    eps : float
        ε of the guarantee.
    effort : Effort
        How many runs tune a method, and how many are reported.
    known_settings : dict, optional
        The setting of every method. Methods are tuned if it is omitted.
    """
    # The optimizers: tune each, or take its known setting, and run it with fresh seeds.
    comparison = Comparison(case, eps)
    settings = dict(known_settings or {})
    for method, run in comparison.methods.items():
        if not known_settings and method not in SETTING_IS_THAT_OF:
            settings[method] = tune(comparison, method, effort)
        setting = settings[SETTING_IS_THAT_OF.get(method, method)]
        curves = [run(setting, seed, True) for seed in range(effort.reported)]
        calls = curves[0][0]
        risks = np.array([run_risks for _, run_risks in curves])
        yield method, _summary(calls, risks) | {"setting": setting._asdict()}

    # The one-shot mechanism, which needs no tuning.
    releases = min(effort.reported, 10)
    final_risks = [
        comparison.excess_risk(case.one_shot(comparison.guarantee))
        for _ in range(releases)
    ]
    row = _summary([comparison.n], np.array(final_risks)[:, None])
    yield "one-shot", row | {"setting": {}}


def _summary(calls: list[float], risks: np.ndarray) -> dict[str, Any]:
    """Return a row of figures: mean and standard deviation over the runs.

    Parameters
    ----------
    calls : list of float
        Numbers of gradient calls at which risks were recorded.
    risks : array of shape (runs, points)
        The excess risks of each run.
    """
    mean, deviation = risks.mean(axis=0), risks.std(axis=0)
    return {
        "gradients": calls,
        "curve": mean.tolist(),
        "band": deviation.tolist(),
        "excess": float(mean[-1]),
        "sd": float(deviation[-1]),
        "runs": len(risks),
    }


def study(
    names: list[str],
    levels: tuple[float, ...] = LEVELS,
    runs: int | None = None,
    folder: Path | None = None,
    tune: bool = False,
    report: Callable[[str, dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Run all methods on the named cases, one case after the other.

    Parameters
    ----------
    names : list of str
        Keys of `CASES`.
    levels : tuple of float
        The values of ε.
    runs : int, optional
        How many runs are reported; that of `EFFORTS` if omitted.
    folder : Path, optional
        The folder with the data sets.
    tune : bool
        Tune every method, instead of taking the settings of fig3.json.
    report : function of (line of text, figures so far), optional
        Called after each method.

    Returns
    -------
    dict
        {case: {"n": …, "start": …, "ε = 0.1": {method: row of figures}, …}}
    """
    figures: dict[str, Any] = {}
    for name in names:
        case = CASES[name](folder)
        excess_at_start = Comparison(case, 1.0).excess_risk(case.start)
        figures[name] = {"n": len(case.data), "start": excess_at_start}
        effort = EFFORTS.get(name, IMAGE_EFFORT)
        if runs is not None:
            effort = effort._replace(reported=runs)
        for eps in levels:
            known_settings = None if tune else recorded_settings(name, eps)
            rows = figures[name][f"ε = {eps}"] = {}
            for method, row in compare_methods(case, eps, effort, known_settings):
                rows[method] = row
                if report:
                    report(_progress_line(name, eps, method, row), figures)
    return figures


def _progress_line(name: str, eps: float, method: str, row: dict[str, Any]) -> str:
    """Return one line of text about a method that has been run.

    Parameters
    ----------
    name : str
        A key of `CASES`.
    eps : float
        ε of the guarantee.
    method : str
        The name of the method.
    row : dict
        Its figures.
    """
    return (
        f"{name:9} ε={eps:<4} {method:30} excess {row['excess']:9.4g} "
        f"± {row['sd']:8.2g}  {row['setting']}  "
        f"{time.process_time():.0f} s of processor time so far"
    )


def study_in_parallel(names: list[str], **options: Any) -> dict[str, Any]:
    """Run `study` on two cases at a time, in processes of their own, the last first.

    Parameters
    ----------
    names : list of str
        Keys of `CASES`.
    **options
        Further parameters of `study`, by name.
    """
    single_names = [[name] for name in reversed(names)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(partial(study, **options), single_names))
    return {name: rows for part in reversed(parts) for name, rows in part.items()}


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="case",
        help="poincare, sphere, spd; all if none is given",
    )
    parser.add_argument("--runs", type=int, default=None)
    parser.add_argument(
        "--tune",
        action="store_true",
        help="tune anew instead of taking the recorded settings",
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    def report(line: str, figures: dict[str, Any]) -> None:
        """Print a line, and write all figures so far where a file was named."""
        print(line, flush=True)
        if arguments.json:
            text = json.dumps(figures, ensure_ascii=False, indent=1)
            arguments.json.write_text(text + "\n", encoding="utf-8")

    study(
        arguments.names or list(CASES),
        runs=arguments.runs,
        tune=arguments.tune,
        report=report,
    )


if __name__ == "__main__":
    main()
