"""DP-RGD: full gradients, clipped record by record, with tangent Gaussian noise (Han et al. 2022; E5, E13)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from curvedp import _validate
from curvedp.mechanisms.descent import ClippedGradient, DescentMechanism
from curvedp.optim._added import added_descent, is_added
from curvedp.optim._loop import (
    chunks,
    clipped_sum,
    compiled_once,
    descended,
    full_precision,
    joined,
    prepare,
    rates,
    recorded,
)
from curvedp.optim._randomness import Randomness
from curvedp.optim.problem import Problem
from curvedp.optim.result import OptimResult, finished
from curvedp.privacy import Guarantee
from curvedp.privacy.descent import derive, rgd_guarantee, rgd_noise, rounded_clip


def dp_rgd(
    problem: Problem,
    data: Any,
    init: Any,
    steps: int,
    clip: float,
    learning_rate: float | Callable[[int], float],
    guarantee: Guarantee | None = None,
    noise: float | None = None,
    rng: Any = None,
    record_history: int = False,
    groups: Any = None,
) -> OptimResult:
    """w <- exp_w(-rate·(mean of clipped gradients + ξ)), ξ a tangent Gaussian of standard deviation `noise`, `steps` times.

    Guarantees
    - exactly √steps·2·clip/(n·noise)-GDP for replace-one adjacency, all iterates included, for any data: a record whose
      gradient is not finite contributes zero.
    - Asked by a guarantee with adjacency="add-remove", n is private: a noisy count is released first, steps are along the
      quotient of noisy sums and it, and `result.noise` is the standard deviation on a sum.

    Parameters
    ----------
    problem : Problem
        Manifold and loss.
    data : array
        One record a row.
    init : point
        The public start; it sets the precision.
    steps : int
        How many.
    clip : float
        The largest length of a record's gradient.
    learning_rate : float or callable
        A number, or a function of the step.
    guarantee : Guarantee, optional
        Asked by it, the noise is derived.
    noise : float, optional
        The standard deviation; asked by it, the guarantee is derived.
    rng : optional
        None for the operating system's entropy; a NumPy generator or a JAX key is for simulation.
    record_history : bool or int
        True for the objective after every step, a number for every so many. It is NOT private.
    groups : array of ids, optional
        Whose record each is. Then a person's gradient is the mean of their records', clipped once; n is the number of
        persons, and a person with all their records is the unit of privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.optim import FrechetMeanProblem
    >>> from curvedp.privacy import GDP
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> result = dp_rgd(FrechetMeanProblem(Sphere(2)), X, X[0] * 0 + [1, 0, 0], steps=10, clip=0.7,
    ...                 learning_rate=0.5, guarantee=GDP(1.0))
    >>> result.guarantee
    GDP(1.0)
    """
    steps = _validate.integer("steps", steps, 1)
    clip = _validate.length("clip", clip)
    schedule, marks = rates(learning_rate, steps), recorded(record_history, steps)
    if is_added(guarantee, noise):
        return added_descent(problem, data, init, schedule, clip, 1.0, guarantee, rng, marks, groups)
    with full_precision(), compiled_once(problem):
        w, records = prepare(problem, data, init, groups)
        n = len(records)
        charged = rounded_clip(clip, problem.manifold.dim, w.dtype, n)
        sd, met = derive(
            guarantee,
            noise,
            lambda target: rgd_noise(n, steps, charged, target),
            lambda value: rgd_guarantee(n, steps, charged, value),
        )
        random, history = Randomness(rng), []
        for part in chunks(steps, problem.manifold.dim):
            xi = sd * random.normal(part.stop - part.start, problem.manifold.dim)
            w, values = _steps(problem, records, w, clip, schedule[part], xi, marks[part] if marks.any() else None)
            history.append(values)
        mechanism = DescentMechanism(statistic=ClippedGradient(problem.manifold, charged, n), steps=steps, noise=sd)
        told = joined(history, marks)
        return finished(mechanism, np.asarray(w), guarantee or met, sd, random, told, groups is not None)


def descent_mechanism(problem: Problem, n: int, steps: int, clip: float, guarantee: Guarantee) -> DescentMechanism:
    """What `dp_rgd` in double precision releases for n records, calibrated: refuses before anything is spent."""
    charged = rounded_clip(clip, problem.manifold.dim, np.float64, n)
    statistic = ClippedGradient(problem.manifold, charged, n)
    return DescentMechanism(statistic=statistic, steps=steps, noise=rgd_noise(n, steps, charged, guarantee))


@partial(jax.jit, static_argnames="problem")
def _steps(problem: Problem, data: Any, w: Any, clip: Any, rate: Any, xi: Any, marks: Any) -> tuple[Any, Any]:
    def gradient(w: Any, xi: Any) -> Any:
        return clipped_sum(problem, w, data, clip) / len(data) + xi

    return descended(problem, data, w, gradient, xi, rate, marks)  # type: ignore[no-any-return]  # a pair
