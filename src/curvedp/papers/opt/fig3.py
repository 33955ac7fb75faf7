"""Figure 3 of Utpala et al. (2023): excess risk at (ε, 10⁻⁶) against gradient calls, and one-shot mechanisms beside.

    CURVEDP_DATA=... python -m curvedp.papers.opt.fig3 [CASE …] [--runs N] [--tune] [--json FILE]

Every method is tuned from the data, as in the paper (not private, for comparison only), on each row and at each ε, at 12
passes over the data for all: 3 clipping norms C₀ × 4 step sizes and, for DP-RSVRG, × 3 ratios C₁/C₀, as Appendix C tunes C
and C₂ separately. `Effort` says how many runs decide and how many fresh ones are reported. Step sizes are given as
rate × steps, so that one list serves all methods. The one-shot mechanisms are not tuned: their ball is public and holds all
data.

Three more methods show E11 and E12 at the same (ε, δ). "anchor re-noised": ours, at our setting, with the anchor's gradient
noised anew and charged at every inner step (E12). "paper's": the paper's algorithm as it was meant, at the noise its own
bound asks for, raised to the first condition of Claim 4 (its second does not hold: E25).
"as printed": the same, at its setting, with the printed sign (E11).
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

DELTA = 1e-6
LEVELS = (0.1, 0.3, 0.5)
PASSES = 12  # over the data
TRAVEL = (0.7, 2.0, 6.0, 20.0)
INNER_CLIPS = (1.0, 0.3, 0.1)  # learning rate × number of steps
INNER = 10  # inner steps of our DP-RSVRG, on batches of n/20: an epoch is two passes
POINTS = 4  # of a run that are recorded
RECORD = Path(__file__).with_name(
    "fig3.json"
)  # of the full form: settings as tuned, curves, risks


class Case(NamedTuple):
    """A problem with its public start, the clipping norms to choose from, and a one-shot mechanism."""

    problem: Problem
    data: np.ndarray
    init: np.ndarray
    best: np.ndarray
    clips: tuple[float, ...]
    one_shot: Callable[[ApproxDP], Any]


class Choice(NamedTuple):
    """One setting of the grid: the clipping norm, and learning rate × steps."""

    clip: float
    travel: float
    inner_clip: float = 1.0


def one_shot_mean(
    M: Manifold, X: np.ndarray, center: np.ndarray, radius: float
) -> Callable[[ApproxDP], Any]:
    """The private mean in one release, as a function of the guarantee."""
    return lambda guarantee: (
        PrivateFrechetMean(M, radius, center, guarantee).fit(X).location_
    )


def spd(folder: Path | None = None, label: int = 0) -> Case:
    """Fréchet mean of covariance descriptors, from a multiple of I between the ridge and a variance of 1/12."""
    X, M, base = (
        datasets.pathmnist(folder, label),
        SPDAffineInvariant(11),
        1e-3 * np.eye(11),
    )
    return Case(
        FrechetMeanProblem(M),
        X,
        base,
        frechet_mean(M, X),
        (1.0, 3.0, 9.0),
        one_shot_mean(M, X, base, 14.0),
    )


def sphere(folder: Path | None = None, digit: int = 0) -> Case:
    """Leading eigenvector of the images of a digit, from the vector of equal entries."""
    X = datasets.mnist(folder, digit)
    best = np.linalg.eigh(X.T @ X)[1][:, -1]

    def one_shot(guarantee: ApproxDP) -> Any:
        return PrivatePCA(1, radius=1.0, guarantee=guarantee).fit(X).components_[0]

    start = np.ones(784) / 28
    return Case(
        LeadingEigenvectorProblem(784), X, start, best, (0.1, 0.3, 1.0), one_shot
    )


def poincare(folder: Path | None = None) -> Case:
    """Fréchet mean of the mammals, from a point of the disc away from its middle, where their root was put."""
    X, M, base = datasets.mammals(folder), PoincareBall(2), np.array([0.6, -0.3])
    return Case(
        FrechetMeanProblem(M),
        X,
        base,
        frechet_mean(M, X),
        (1.0, 3.0, 9.0),
        one_shot_mean(M, X, base, 11.0),
    )


# The paper's rows, the longest last.
CASES: dict[str, Callable[[Path | None], Case]] = {
    "poincare": poincare,
    "sphere": sphere,
    "sphere, digit 1": partial(sphere, digit=1),
    "spd": spd,
    "spd, background": partial(spd, label=1),
}


Curve = tuple[list[float], list[float]]  # gradient calls, excess risks


class Arena:
    """A case at one ε: its methods as functions (setting, seed, record) -> curve. `part` of the records stands for all."""

    def __init__(self, case: Case, eps: float, part: int | None = None) -> None:
        self.case, self.n, self.guarantee = case, len(case.data), ApproxDP(eps, DELTA)
        order = np.random.default_rng(0).permutation(self.n)[:part]
        with jax.enable_x64(True):
            self.records = jnp.asarray(case.data[order])
            self._objective = jax.jit(case.problem.objective)
        self.least = self.objective(case.best)
        self.methods: dict[str, Callable[[Choice, int, bool], Curve]] = {
            "DP-RGD": self.rgd,
            "DP-RSGD": self.rsgd,
            "DP-RSVRG": self.rsvrg,
            "DP-RSVRG, anchor re-noised": partial(self.rsvrg, renoised=True),
            "paper's DP-RSVRG": self.paper,
            "paper's DP-RSVRG, as printed": partial(self.paper, sign=-1),
        }

    def objective(self, w: Any) -> float:
        with jax.enable_x64(True):
            return float(self._objective(jnp.asarray(w), self.records))

    def excess(self, w: Any) -> float:
        return self.objective(w) - self.least

    def _curve(
        self, result: OptimResult, every: int, steps: int, per_step: float
    ) -> Curve:
        """The recorded objectives against gradient calls; else the end alone."""
        if result.history is None:
            return [steps * per_step], [self.excess(result.point)]
        risks = (result.history - self.least).tolist()
        return [every * (i + 1) * per_step for i in range(len(risks))], risks

    def rgd(self, choice: Choice, seed: int, record: bool) -> Curve:
        steps, every = PASSES, PASSES // POINTS
        noise = choice.clip * rgd_noise(self.n, steps, 1.0, self.guarantee)
        result = dp_rgd(self.case.problem, self.records, self.case.init, steps, choice.clip, choice.travel / steps,
                        noise=noise, rng=np.random.default_rng(seed), record_history=every if record else 0)  # fmt: skip
        return self._curve(result, every, steps, self.n)

    def rsgd(self, choice: Choice, seed: int, record: bool) -> Curve:
        steps, every = 10 * PASSES, 10 * PASSES // POINTS
        noise = choice.clip * _rsgd_noise(self.n, steps, self.guarantee.eps)
        result = dp_rsgd(self.case.problem, self.records, self.case.init, steps, len(self.records) // 10, choice.clip,
                         choice.travel / steps, noise=noise, rng=np.random.default_rng(seed),
                         record_history=every if record else 0)  # fmt: skip
        return self._curve(result, every, steps, self.n // 10)

    def rsvrg(
        self, choice: Choice, seed: int, record: bool, *, renoised: bool = False
    ) -> Curve:
        epochs = PASSES // 2
        steps, every = epochs * INNER, 2 * INNER
        rate = choice.travel / steps
        if renoised:  # charged at every step, noised at every step: the two noises of a step add up
            noise = (
                1e-12,
                math.hypot(
                    *_rsvrg_noise(
                        self.n, steps, 1, self.guarantee.eps, rate, choice.inner_clip
                    )
                ),
            )
        else:
            noise = _rsvrg_noise(
                self.n, epochs, INNER, self.guarantee.eps, rate, choice.inner_clip
            )
        result = dp_rsvrg(
            self.case.problem,
            self.records,
            self.case.init,
            epochs,
            INNER,
            (choice.clip, choice.clip * choice.inner_clip),
            rate,
            noise=(choice.clip * noise[0], choice.clip * noise[1]),
            batch_size=len(self.records) // 20,
            rng=np.random.default_rng(seed),
            record_history=every if record else 0,
        )
        return self._curve(result, every, steps, 2 * self.n / INNER)

    def paper(self, choice: Choice, seed: int, record: bool, sign: int = 1) -> Curve:
        inner = self.n // 10
        epochs = PASSES * 10 // 12  # an epoch is 1.2 passes
        clip = (choice.clip, choice.clip * choice.inner_clip)
        claimed = moments_sigma(self.n, epochs, inner, clip, self.guarantee.eps, DELTA)
        sigma = max(claimed, math.sqrt(12) * clip[1])  # Claim 4's first condition
        rng, w = np.random.default_rng(seed), self.case.init
        curve: Curve = ([], [])
        for epoch in range(1, epochs + 1):
            w = paper_rsvrg(self.case.problem, self.records, w, 1, inner, clip, choice.travel / (epochs * inner), sigma,
                            rng, sign)  # fmt: skip
            if epoch == epochs or (record and epoch % (epochs // POINTS) == 0):
                curve[0].append(epoch * 1.2 * self.n)
                curve[1].append(self.excess(w))
        return curve


# Noise is proportional to the clipping norm: calibrated once, for norm 1.


@cache
def _rsgd_noise(n: int, steps: int, eps: float) -> float:
    return rsgd_noise(n, steps, n // 10, 1.0, ApproxDP(eps, DELTA), "poisson")


@cache
def _rsvrg_noise(
    n: int, epochs: int, inner: int, eps: float, rate: float, inner_clip: float
) -> tuple[float, float]:
    return rsvrg_noise(
        n,
        epochs,
        inner,
        n // 20,
        (1.0, inner_clip),
        ApproxDP(eps, DELTA),
        "poisson",
        rate,
    )


class Effort(NamedTuple):
    """How many runs a case gets, with seeds of their own for each purpose."""

    screening: int  # of every setting of the grid
    finalists: int  # settings that are looked at again
    confirming: int  # further runs of each finalist
    reported: int  # fresh runs of the chosen setting


# A run on the mammals takes a hundredth of a second, on the images a second.
EFFORTS = {"poincare": Effort(6, 6, 30, 60)}
IMAGES = Effort(1, 4, 3, 5)


def settings(case: Case, method: str) -> list[Choice]:
    """Return the grid of a method; C₁ is tuned apart from C₀ where there is one."""
    has_inner_clip = "SVRG" in method
    inner_clips = INNER_CLIPS if has_inner_clip else (1.0,)
    return [Choice(*values) for values in product(case.clips, TRAVEL, inner_clips)]


def tuned(arena: Arena, method: str, effort: Effort) -> Choice:
    """Return the setting of least mean risk on all records.

    Every setting is screened by a few runs; the best few are run again, and the mean
    of these further runs decides. Seeds from 1000 on, which are not used again.
    """
    run = arena.methods[method]

    def mean_risk(choice: Choice, seeds: range) -> float:
        risk = np.mean([run(choice, seed, False)[1][-1] for seed in seeds])
        return float(risk) if np.isfinite(risk) else math.inf

    screening = range(1000, 1000 + effort.screening)
    confirming = range(2000, 2000 + effort.confirming)
    grid = settings(arena.case, method)
    ranked = sorted(grid, key=lambda choice: mean_risk(choice, screening))
    finalists = ranked[: effort.finalists]
    return min(finalists, key=lambda choice: mean_risk(choice, confirming))


BORROWED = {  # whose setting the two mistakes are shown at
    "DP-RSVRG, anchor re-noised": "DP-RSVRG",
    "paper's DP-RSVRG, as printed": "paper's DP-RSVRG",
}


def recorded_settings(name: str, eps: float) -> dict[str, Choice]:
    """Return what was tuned when fig3.json was made."""
    rows = json.loads(RECORD.read_text(encoding="utf-8"))[name][f"ε = {eps}"]
    return {
        method: Choice(**row["setting"])
        for method, row in rows.items()
        if row["setting"]
    }


def compete(
    case: Case, eps: float, effort: Effort, known: dict[str, Choice] | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every method on one case at one ε: its setting, its mean curve, and its risk at the end; tuned where not `known`."""
    arena, chosen = Arena(case, eps), dict(known or {})
    for method, run in arena.methods.items():
        if not known and method not in BORROWED:
            chosen[method] = tuned(arena, method, effort)
        choice = chosen[BORROWED.get(method, method)]
        curves = [run(choice, seed, True) for seed in range(effort.reported)]
        yield (
            method,
            _summary(curves[0][0], np.array([risks for _, risks in curves]))
            | {"setting": choice._asdict()},
        )
    ends = [
        arena.excess(case.one_shot(arena.guarantee))
        for _ in range(min(effort.reported, 10))
    ]
    yield "one-shot", _summary([arena.n], np.array(ends)[:, None]) | {"setting": {}}


def _summary(calls: list[float], table: np.ndarray) -> dict[str, Any]:
    return {"gradients": calls, "curve": table.mean(axis=0).tolist(), "band": table.std(axis=0).tolist(),
            "excess": float(table[:, -1].mean()), "sd": float(table[:, -1].std()), "runs": len(table)}  # fmt: skip


def study(
    names: list[str],
    levels: tuple[float, ...] = LEVELS,
    runs: int | None = None,
    folder: Path | None = None,
    tune: bool = False,
    report: Callable[[str, dict[str, Any]], None] = lambda line, figures: None,
) -> dict[str, Any]:
    """All methods on the named cases, at the recorded settings or tuned: {case: {"n", "start", "ε = …": {method: …}}}."""
    figures: dict[str, Any] = {}
    for name in names:
        case = CASES[name](folder)
        figures[name] = {
            "n": len(case.data),
            "start": Arena(case, 1.0).excess(case.init),
        }
        for eps in levels:
            rows = figures[name][f"ε = {eps}"] = {}
            effort = EFFORTS.get(name, IMAGES)
            if runs is not None:
                effort = effort._replace(reported=runs)
            known = None if tune else recorded_settings(name, eps)
            for method, row in compete(case, eps, effort, known):
                rows[method] = row
                report(f"{name:9} ε={eps:<4} {method:30} excess {row['excess']:9.4g} ± {row['sd']:8.2g}  "
                       f"{row['setting']}  {time.process_time():.0f} s of processor time so far", figures)  # fmt: skip
    return figures


def studies(names: list[str], **options: Any) -> dict[str, Any]:
    """The same, two cases at a time in processes of their own, the last first."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        parts = list(
            pool.map(partial(study, **options), [[name] for name in reversed(names)])
        )
    return {name: rows for part in reversed(parts) for name, rows in part.items()}


def main() -> None:
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
        print(line, flush=True)
        if arguments.json:
            arguments.json.write_text(
                json.dumps(figures, ensure_ascii=False, indent=1) + "\n"
            )

    study(
        arguments.names or list(CASES),
        runs=arguments.runs,
        tune=arguments.tune,
        report=report,
    )


if __name__ == "__main__":
    main()
