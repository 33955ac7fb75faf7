"""DP-RSVRG: private variance-reduced descent, with one full gradient in each epoch.
Each epoch starts at a point w̃, its anchor, where a noisy gradient over all records is
released once. Each inner step at w then releases a noisy mean of clipped DIFFERENCES
grad f(w) − PT grad f(w̃), where PT is parallel transport from w̃ to w. Differences are
small near the anchor, so they can be clipped to a short length (Utpala et al. 2023,
with E11 and E12 of docs/errata.md corrected).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.optim import _arguments as arguments
from curvedp.optim import _loop as loop
from curvedp.optim._batches import (
    Batches,
    check_sampling_rate,
    draw_batches,
    split_batches,
)
from curvedp.optim._compilation import compiled_once, full_precision
from curvedp.optim._randomness import Randomness
from curvedp.optim._rsvrg_plan import (
    Pair,
    Schedule,
    VarianceReducedPlan,
    VarianceReducedTerms,
    check_schedule,
    convert_pair,
    plan_add_remove,
    plan_replace_one,
)
from curvedp.optim.plan import adds_or_removes
from curvedp.optim.problem import Problem
from curvedp.optim.result import OptimResult, make_result
from curvedp.privacy import Guarantee


def dp_rsvrg(
    problem: Problem,
    data: Any,
    init: Any,
    epochs: int,
    inner_steps: int,
    clip: tuple[float, float],
    learning_rate: float | Callable[[int], float],
    guarantee: Guarantee | None = None,
    noise: tuple[float, float] | float | None = None,
    rng: Any = None,
    batch_size: float | None = None,
    sampling: Literal["poisson", "fixed-size"] = "poisson",
    output: Literal["last", "random", "I", "II"] = "last",
    restarts: int = 1,
    record_history: int = False,
    groups: Any = None,
) -> OptimResult:
    """Minimize a mean loss by variance-reduced steps with noise.

    There are `epochs` anchors, with `inner_steps` steps from each. After its release
    the gradient at the anchor is shortened to the length C1, because differences that
    are clipped to C1 cannot balance a longer one. This is post-processing and costs no
    privacy.

    Parameters
    ----------
    problem : Problem
        The loss of a point and a record, and the manifold on which it is minimized.
    data : array of shape (n, …)
        One record for each row.
    init : array of shape point_shape
        The public start, whose precision is that of the run.
    epochs : int
        The number of anchors, at which a full gradient is released.
    inner_steps : int
        The number of steps from each anchor.
    clip : (C0, C1)
        The largest length of a record's gradient at the anchor, and of its difference.
    learning_rate : float or callable
        The factor of the gradient in a step: a number, or a function of the number of
        the step, which is counted over all epochs.
    guarantee : Guarantee, optional
        The guarantee that the run must satisfy. The budget is split for the smallest
        error at the end (`accounting.rsvrg_noise`). Exactly one of `guarantee` and
        `noise` must be given.
    noise : (σ₁, σ₂) or float, optional
        The standard deviations on the mean full gradient and on the averaged
        difference; one number stands for both.
    rng : None, numpy.random.Generator or JAX key
        None for the operating system's entropy; the others are for simulation.
    batch_size : int, or float where n is private, optional
        The number of records whose differences are averaged. By default ⌈√n⌉: then √n
        inner steps cost as much as the pass at the anchor. Where n is private
        (adjacency="add-remove"), the share of the records.
    sampling : {"poisson", "fixed-size"}
        A Poisson batch has every record independently; a fixed-size batch is drawn
        without replacement.
    output : {"last", "random", "I", "II"}
        "last" or "I" returns the last iterate, the paper's option I. "random" or "II"
        returns a uniformly drawn iterate, its option II.
    restarts : int
        How often all epochs are run, each time from the output of the run before (the
        paper's Algorithm 12). All runs are charged.
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
        The output `point`, its `guarantee`, both noises, and a `certificate`.

    Notes
    -----
    Guarantees

    - `result.guarantee` bounds the composition of all epochs and steps of all restarts
      for replace-one adjacency.
    - For a guarantee with adjacency="add-remove", the number of records is private. The
      guarantee then also bounds the release of a noisy count of the records.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.optim import FrechetMeanProblem
    >>> rng = np.random.default_rng(0)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> result = dp_rsvrg(FrechetMeanProblem(Sphere(2)), X, np.array([1.0, 0, 0]),
    ...                   epochs=3, inner_steps=10, batch_size=50, clip=(0.7, 0.3),
    ...                   learning_rate=0.2, noise=(0.01, 0.01))
    >>> result.guarantee.epsilon(1e-6) < 10
    True
    """
    # Check all parameters that can be checked without the records.
    schedule = check_schedule(
        epochs, inner_steps, restarts, learning_rate, record_history
    )
    clips = convert_pair("clip", clip)
    _validate.choice("output", output, ("last", "random", "I", "II"))
    n_is_private = adds_or_removes(guarantee, noise)
    sampling_rate = None
    if n_is_private:
        sampling_rate = check_sampling_rate(batch_size, sampling)

    with full_precision(), compiled_once(problem), quiet_about_records():
        start, records = arguments.prepare_start_and_records(
            problem, data, init, groups, min_records=0 if n_is_private else 2
        )

        # Plan the run: noise, batches and cost.
        randomness = Randomness(rng)
        terms = VarianceReducedTerms(
            problem.manifold, len(records), schedule, clips, start.dtype
        )
        if sampling_rate is not None:
            assert guarantee is not None  # Only a guarantee says that n is private.
            plan = plan_add_remove(terms, guarantee, sampling_rate, randomness)
        else:
            plan = plan_replace_one(terms, guarantee, noise, batch_size, sampling)

        # Carry out the plan.
        run = _Run(
            problem=problem,
            records=records,
            clips=clips,
            plan=plan,
            sampling=sampling,
            returns_random_iterate=output in ("random", "II"),
            randomness=randomness,
        )
        point, history = run.descend(start, schedule)
        return make_result(
            plan.mechanism,
            point,
            plan.guarantee,
            plan.noise_std,
            randomness.source,
            history,
            has_persons=groups is not None,
        )


class EpochResult(NamedTuple):
    """What one epoch of a variance-reduced descent returns.

    Attributes
    ----------
    point : array
        The last iterate, projected to the manifold.
    path : array or None
        The iterate before each step, if it was asked for.
    objectives : array or None
        The objective after each step, NaN after steps that are not recorded; None if
        none is. It is NOT private.
    """

    point: Any
    path: Any
    objectives: Any


class _Run(NamedTuple):
    """A plan of a variance-reduced descent, with the records and random bits it needs.

    Attributes
    ----------
    problem : Problem
        The loss and its manifold.
    records : array or Persons
        All records, with or without their people.
    clips : pair of floats
        The lengths to which gradients and differences are clipped.
    plan : VarianceReducedPlan
        The noises, and how batches are drawn.
    sampling : {"poisson", "fixed-size"}
        How batches are drawn.
    returns_random_iterate : bool
        Whether a restart returns a uniformly drawn iterate, and not the last one.
    randomness : Randomness
        The source of the noise and the batches.
    """

    problem: Problem
    records: Any
    clips: Pair
    plan: VarianceReducedPlan
    sampling: str
    returns_random_iterate: bool
    randomness: Randomness

    def descend(self, start: Any, schedule: Schedule) -> tuple[Any, np.ndarray | None]:
        """Run all restarts, each from the output of the one before.

        Parameters
        ----------
        start : array
            The first iterate.
        schedule : Schedule
            The learning rate of each step, and whether it is recorded.

        Returns
        -------
        point : array
            The output of the last restart.
        history : array or None
            The recorded objectives, NOT private; None if no step is recorded.
        """
        has_history = bool(schedule.is_recorded.any())
        point = start
        objectives: list[Any] = []
        for is_recorded in schedule.is_recorded:
            point, epoch_objectives = self._run_restart(
                point, schedule.learning_rates, is_recorded if has_history else None
            )
            objectives.extend(epoch_objectives)

        if not has_history:
            return point, None
        return point, loop.join_history(objectives, schedule.is_recorded)

    def _run_restart(
        self, start: Any, learning_rates: np.ndarray, is_recorded: np.ndarray | None
    ) -> tuple[Any, list[Any]]:
        """Run all epochs once.

        Called by `descend` for each restart.

        Parameters
        ----------
        start : array
            The first iterate.
        learning_rates : array of shape (epochs, inner_steps)
            The learning rate of each step.
        is_recorded : array of shape (epochs, inner_steps), or None
            Whether the objective is recorded after each step; None if it never is.

        Returns
        -------
        point : array
            The last iterate, or a uniformly drawn one.
        objectives : list
            The objectives of each epoch; None for each epoch if none is recorded.
        """
        # A random output is the iterate before a step that is drawn here. The step is
        # drawn for the last iterate too, so that both options use the same random bits.
        epochs, inner_steps = learning_rates.shape
        (drawn_step,) = self.randomness.integers(epochs * inner_steps, (1,)).tolist()
        output_epoch, output_step = divmod(drawn_step, inner_steps)

        point = start
        random_iterate = start
        objectives = []
        for epoch in range(epochs):
            is_output_epoch = self.returns_random_iterate and epoch == output_epoch
            epoch_result = self._run_epoch(
                point,
                learning_rates[epoch],
                None if is_recorded is None else is_recorded[epoch],
                keeps_path=is_output_epoch,
            )
            point = epoch_result.point
            objectives.append(epoch_result.objectives)
            if is_output_epoch:
                random_iterate = self.problem.manifold.project(
                    epoch_result.path[output_step]
                )
        return (random_iterate if self.returns_random_iterate else point), objectives

    def _run_epoch(
        self,
        anchor: Any,
        learning_rates: np.ndarray,
        is_recorded: np.ndarray | None,
        *,
        keeps_path: bool,
    ) -> EpochResult:
        """Draw the batches and the noise of one epoch, and run the epoch.

        Called by `_run_restart` for each epoch.

        Parameters
        ----------
        anchor : array of shape point_shape
            The iterate at which the epoch begins.
        learning_rates : array of shape (inner_steps,)
            The learning rate of each step.
        is_recorded : array of shape (inner_steps,), or None
            Whether the objective is recorded after each step; None if it never is.
        keeps_path : bool
            Whether all iterates are returned.

        Returns
        -------
        EpochResult
            The last iterate, the path to it, and the objectives.
        """
        plan = self.plan
        dim = self.problem.manifold.dim
        inner_steps = len(learning_rates)
        batches = None
        if not plan.uses_all_records:
            batches = draw_batches(
                self.randomness,
                len(self.records),
                plan.batch_size,
                inner_steps,
                self.sampling,
                plan.sampling_rate,
            )

        # The noise of the full gradient, then that of all inner steps.
        full_unit, inner_unit = plan.noise_unit
        (full_normal,) = self.randomness.normal(1, dim)
        full_noise = full_unit * full_normal
        inner_noise = inner_unit * self.randomness.normal(inner_steps, dim)
        epoch_result: EpochResult = run_epoch(
            self.problem,
            self.records,
            anchor,
            self.clips,
            plan.mean_scale,
            plan.batch_size,
            batches,
            learning_rates,
            (full_noise, inner_noise),
            is_recorded,
            keeps_path,
        )
        return epoch_result


@partial(jax.jit, static_argnames=("problem", "size", "keeps_path"))
def run_epoch(
    problem: Problem,
    data: Any,
    anchor: Any,
    clips: tuple[Any, Any],
    mean_scales: tuple[Any, Any],
    size: int,
    batches: Batches | None,
    learning_rates: Any,
    noises: tuple[Any, Any],
    is_recorded: Any,
    keeps_path: bool,
) -> EpochResult:
    """Run one epoch as one compiled program: a full gradient, then inner steps.

    The first number of a pair is for the full gradient, the second for the inner steps.

    Parameters
    ----------
    problem : Problem
        The loss and its manifold.
    data : array or Persons
        All records, with or without their people.
    anchor : array
        The iterate at which the epoch begins.
    clips : pair of floats
        C0 and C1, the lengths to which gradients at the anchor and differences are
        clipped.
    mean_scales : pair of floats, or pair of None
        None if n is public. If n is private, C0 divided by a noisy number of records
        and C1 divided by a noisy batch size: sums and noises are then in units of the
        clips, and are multiplied by these numbers.
    size : int
        The batch size of the inner steps, by which a sum is divided where n is public.
    batches : Batches or None
        The result of `draw_batches`; None if every step reads all records.
    learning_rates : array of shape (inner_steps,)
        The learning rate of each step.
    noises : pair of arrays of shapes (dim,) and (inner_steps, dim)
        The noise of the full gradient, and that of each inner step.
    is_recorded : array of shape (inner_steps,), or None
        Whether the objective is recorded after each step; None if it never is.
    keeps_path : bool
        Whether all iterates are returned.

    Returns
    -------
    EpochResult
        The last iterate, the path to it if `keeps_path` is true, and the objectives.
    """
    _, difference_clip = clips
    full_mean_scale, difference_mean_scale = mean_scales
    full_noise, inner_noise = noises
    full_gradient = _release_full_gradient(
        problem, data, anchor, clips, full_mean_scale, full_noise
    )
    shared, per_step = split_batches(batches)

    def step(w: Any, inputs: tuple[Any, Any, Any, Any]) -> tuple[Any, Any]:
        """Take one inner step from w.

        `inputs` are the step's own part of the batches, its learning rate, its noise,
        and whether the objective is recorded. The second output is a pair: w, or None
        if the path is not asked for, and the objective after the step.
        """
        own_batch, rate, step_noise, records_objective = inputs
        mean_difference = loop.noisy_mean(
            data,
            None if own_batch is None else own_batch | shared,
            size,
            difference_clip,
            difference_mean_scale,
            step_noise,
            partial(_gradient_differences, problem, anchor, w),
        )
        gradient = mean_difference + problem.carry(anchor, w, full_gradient)
        end = loop.step_along(problem, w, rate, gradient)
        objective = loop.objective_if(records_objective, problem, end, data)
        return end, (w if keeps_path else None, objective)

    inputs = (per_step, learning_rates, inner_noise, is_recorded)
    point, (path, objectives) = jax.lax.scan(step, anchor, inputs)
    return EpochResult(problem.manifold.project(point), path, objectives)


def _release_full_gradient(
    problem: Problem,
    data: Any,
    anchor: Any,
    clips: tuple[Any, Any],
    mean_scale: Any,
    noise: Any,
) -> Any:
    """Return the noisy gradient over all records at the anchor, shortened to length C1.

    Differences of length at most C1 cannot balance a longer gradient at the anchor: the
    iterate would follow it for the rest of the epoch. The gradient has been released
    already, so that shortening it costs no privacy.

    Parameters
    ----------
    problem : Problem
        The loss and its manifold.
    data : array or Persons
        All records, with or without their people.
    anchor : array
        The iterate at which the epoch begins.
    clips : pair of floats
        C0 and C1, the lengths to which gradients and differences are clipped.
    mean_scale : float or None
        None if n is public; otherwise C0 divided by a noisy number of records.
    noise : array of shape (dim,)
        The noise of the full gradient.

    Returns
    -------
    array of shape (dim,)
        The gradient, in coordinates at the anchor.
    """
    full_clip, difference_clip = clips
    full_gradient = loop.noisy_gradient(
        problem, anchor, data, None, len(data), full_clip, mean_scale, noise
    )
    return loop.clip_rows(full_gradient[None], difference_clip)[0]


def _gradient_differences(problem: Problem, anchor: Any, w: Any, records: Any) -> Any:
    """Return grad f(w) − PT grad f(anchor) of each record, in coordinates at w.

    PT is parallel transport from the anchor to w, and f the loss of the record.

    Parameters
    ----------
    problem : Problem
        The loss and its manifold.
    anchor, w : array of shape point_shape
        The iterate at which the epoch began, and the current one.
    records : array of shape (k, …)
        The records of a block.

    Returns
    -------
    array of shape (k, dim)
        One row for each record.
    """
    # Gradients at both points are computed by one call. Two calls would run at the same
    # time, and two batched decompositions that share XLA's threads can wait for each
    # other forever (seen on two cores).
    points = jnp.stack([w, anchor])
    at_w, at_anchor = jax.vmap(problem.gradients, (0, None))(points, records)
    return at_w - problem.carry(anchor, w, at_anchor)
