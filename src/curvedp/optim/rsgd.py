"""DP-RSGD: private stochastic gradient descent on a manifold, over random batches. Each
step releases the mean of the clipped gradients of the records in a random batch, with
Gaussian noise in the tangent space.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import numpy as np

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.optim import _arguments as arguments
from curvedp.optim import _loop as loop
from curvedp.optim._batches import (
    check_sampling_rate,
    draw_batches,
    split_batches,
)
from curvedp.optim._compilation import compiled_once, full_precision
from curvedp.optim._randomness import Randomness
from curvedp.optim.plan import (
    DescentPlan,
    DescentTerms,
    adds_or_removes,
    plan_add_remove,
    plan_replace_one,
)
from curvedp.optim.problem import Problem
from curvedp.optim.result import OptimResult, make_result
from curvedp.privacy import Guarantee


def dp_rsgd(
    problem: Problem,
    data: Any,
    init: Any,
    steps: int,
    batch_size: float | None,
    clip: float,
    learning_rate: float | Callable[[int], float],
    guarantee: Guarantee | None = None,
    noise: float | None = None,
    rng: Any = None,
    sampling: Literal["poisson", "fixed-size"] = "poisson",
    record_history: int = False,
    groups: Any = None,
) -> OptimResult:
    """Minimize a mean loss by noisy gradient steps over random batches.

    One step is w ← exp_w(−rate·(Σ clipped gradients of a batch/batch_size + ξ)), with ξ
    a tangent Gaussian of standard deviation `noise` (Han et al. 2022; corrected in
    docs/errata.md, E5 and E13).

    Parameters
    ----------
    problem : Problem
        The loss of a point and a record, and the manifold on which it is minimized.
    data : array of shape (n, …)
        One record for each row.
    init : array of shape point_shape
        The public start, whose precision is that of the run.
    steps : int
        The number of steps.
    batch_size : int, or float where n is private, or None
        The expected size of a Poisson batch, which has every record with probability
        batch_size/n; the sum is divided by it. Where n is private it is the public
        share of the records that a batch has on average, such as 0.01. None takes every
        record in every step, as `dp_rgd` does.
    clip : float
        The largest length of a record's gradient; longer ones are shortened to it.
    learning_rate : float or callable
        The factor of the gradient in a step: a number, or a function of the number of
        the step.
    guarantee : Guarantee, optional
        The guarantee that the run must satisfy; the noise is computed from it. Exactly
        one of `guarantee` and `noise` must be given.
    noise : float, optional
        The standard deviation of ξ, on the average; on the sum it is batch_size times
        that. The guarantee is computed from it.
    rng : None, numpy.random.Generator or JAX key
        None for the operating system's entropy; the others are for simulation.
    sampling : {"poisson", "fixed-size"}
        A Poisson batch has every record independently; a fixed-size batch is drawn
        without replacement.
    record_history : bool or int
        True to record the objective after every step, a number k after every k-th. It
        is NOT private.
    groups : sequence of n ids, optional
        The person to whom each record belongs. Then a person's gradient is the mean of
        their records', clipped once; n is the number of people, batches are of people,
        and a person with all their records is the unit of privacy.

    Returns
    -------
    OptimResult
        The last iterate `point`, its `guarantee`, the `noise`, and a `certificate`.

    Notes
    -----
    Guarantees

    - `result.guarantee` bounds the composition of all steps for replace-one adjacency
      (a record moves the sum by 2·clip), exactly accounted (`privacy.subsampling`), for
      any data.
    - Only for an (ε, δ) guarantee is the noise smaller because batches are random. For
      other guarantees it is as large as if the batches were known.
    - For a guarantee with adjacency="add-remove", n is private: a noisy count is
      released first, and sums are divided by it.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.optim import FrechetMeanProblem
    >>> from curvedp.privacy import ApproxDP
    >>> rng = np.random.default_rng(0)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> result = dp_rsgd(FrechetMeanProblem(Sphere(2)), X, np.array([1.0, 0, 0]),
    ...                  steps=100, batch_size=20, clip=0.7, learning_rate=0.2,
    ...                  guarantee=ApproxDP(1.0, 1e-6))
    >>> result.point.shape
    (3,)
    """
    # Check all parameters that can be checked without the records.
    steps = _validate.integer("steps", steps, 1)
    clip = _validate.length("clip", clip)
    learning_rates = arguments.learning_rates(learning_rate, steps)
    is_recorded = arguments.recorded_steps(record_history, steps)
    n_is_private = adds_or_removes(guarantee, noise)
    sampling_rate = 1.0
    if n_is_private and batch_size is not None:
        sampling_rate = check_sampling_rate(batch_size, sampling)

    with full_precision(), compiled_once(problem), quiet_about_records():
        start, records = arguments.prepare_start_and_records(
            problem, data, init, groups, min_records=0 if n_is_private else 2
        )

        # Plan the run: noise, batches and cost.
        randomness = Randomness(rng)
        terms = DescentTerms(problem.manifold, len(records), steps, clip, start.dtype)
        if n_is_private:
            assert guarantee is not None  # Only a guarantee says that n is private.
            plan = plan_add_remove(terms, guarantee, sampling_rate, randomness)
        else:
            plan = plan_replace_one(terms, guarantee, noise, batch_size, sampling)

        # Carry out the plan.
        point, history = _descend(
            problem,
            records,
            start,
            clip,
            plan,
            learning_rates,
            is_recorded,
            sampling,
            randomness,
        )
        return make_result(
            plan.mechanism,
            point,
            plan.guarantee,
            plan.noise_std,
            randomness.source,
            history,
            has_persons=groups is not None,
        )


def _descend(
    problem: Problem,
    records: Any,
    start: Any,
    clip: float,
    plan: DescentPlan,
    learning_rates: np.ndarray,
    is_recorded: np.ndarray,
    sampling: str,
    randomness: Randomness,
) -> tuple[Any, np.ndarray | None]:
    """Run all steps of a plan, in chunks whose noise fits in memory.

    Called by `dp_rsgd` after the run was planned.

    Parameters
    ----------
    problem : Problem
        The loss and its manifold.
    records : array or Persons
        All records, with or without their people.
    start : array
        The first iterate.
    clip : float
        The largest length of a record's gradient.
    plan : DescentPlan
        The public plan: the noise, and how batches are drawn.
    learning_rates : array of shape (steps,)
        The learning rate of each step.
    is_recorded : array of booleans, shape (steps,)
        Whether the objective is recorded after each step.
    sampling : {"poisson", "fixed-size"}
        How batches are drawn.
    randomness : Randomness
        The source of the noise and the batches.

    Returns
    -------
    point : array
        The last iterate.
    history : array or None
        The recorded objectives, NOT private; None if no step is recorded.
    """
    dim = problem.manifold.dim
    n = len(records)
    numbers_per_step = dim if plan.uses_all_records else max(dim, plan.batch_size)
    has_history = bool(is_recorded.any())

    point = start
    objectives = []
    for chunk in loop.chunks(len(learning_rates), numbers_per_step):
        n_steps = chunk.stop - chunk.start
        batches = None
        if not plan.uses_all_records:
            batches = draw_batches(
                randomness, n, plan.batch_size, n_steps, sampling, plan.sampling_rate
            )
        chunk_noise = plan.noise_unit * randomness.normal(n_steps, dim)
        point, chunk_objectives = run_steps(
            problem,
            records,
            point,
            clip,
            plan.mean_scale,
            plan.batch_size,
            batches,
            learning_rates[chunk],
            chunk_noise,
            is_recorded[chunk] if has_history else None,
        )
        objectives.append(chunk_objectives)
    if not has_history:
        return point, None
    return point, loop.join_history(objectives, is_recorded)


@partial(jax.jit, static_argnames=("problem", "size"))
def run_steps(
    problem: Problem,
    data: Any,
    start: Any,
    clip: Any,
    mean_scale: Any,
    size: int,
    batches: Any,
    learning_rates: Any,
    noise: Any,
    is_recorded: Any,
) -> tuple[Any, Any]:
    """Run a chunk of noisy gradient steps, as one program that JAX compiles.

    Parameters
    ----------
    problem : Problem
        The loss and its manifold.
    data : array or Persons
        All records, with or without their people.
    start : array
        The iterate before the first step.
    clip : float
        C, the length to which the gradient of each record is clipped.
    mean_scale : float or None
        None if n is public. If n is private, C divided by a noisy batch size: the sum
        and the noise are then in units of C, and are multiplied by this number.
    size : int
        The public batch size, by which a sum is divided where n is public.
    batches : Batches or None
        The result of `draw_batches`; None if every step reads all records.
    learning_rates : array of shape (steps,)
        The learning rate of each step.
    noise : array of shape (steps, dim)
        The noise of each step.
    is_recorded : array of shape (steps,), or None
        Whether the objective is recorded after each step; None if it never is.

    Returns
    -------
    point : array
        The last iterate, projected to the manifold.
    objectives : array of shape (steps,), or None
        NaN after steps that are not recorded.
    """
    shared, per_step = split_batches(batches)

    def step(w: Any, inputs: tuple[Any, Any, Any, Any]) -> tuple[Any, Any]:
        """Take one step from w; the second output is the objective after it.

        `inputs` are the step's own part of the batches, its noise, its learning rate,
        and whether the objective is recorded.
        """
        own_batch, step_noise, rate, records_objective = inputs
        batch = None if own_batch is None else own_batch | shared
        gradient = loop.noisy_gradient(
            problem, w, data, batch, size, clip, mean_scale, step_noise
        )
        w = loop.step_along(problem, w, rate, gradient)
        return w, loop.objective_if(records_objective, problem, w, data)

    inputs = (per_step, noise, learning_rates, is_recorded)
    point, objectives = jax.lax.scan(step, start, inputs)
    return problem.manifold.project(point), objectives
