"""DP-RSVRG: variance-reduced steps, private at one full gradient an epoch (Utpala et al. 2023, with E11 and E12 mended).

At the anchor w̃ the noisy full gradient g̃ is released once and then only post-processed; each inner step releases a noisy
clipped sum of DIFFERENCES grad f(w) - PT grad f(w̃), which are small near the anchor and so can be clipped hard.
"""

import math
from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.mechanisms.descent import ClippedGradient, VarianceReducedMechanism
from curvedp.optim._added import added_rsvrg, is_added
from curvedp.optim._batches import Batches, batch_sum, draw_batches
from curvedp.optim._loop import (
    clip_rows,
    clipped_sum,
    clipped_total,
    compiled_once,
    full_precision,
    joined,
    objective_if,
    prepare,
    rates,
    recorded,
    rows_of,
    step_along,
)
from curvedp.optim._randomness import Randomness
from curvedp.optim.problem import Problem
from curvedp.optim.result import OptimResult, finished
from curvedp.optim.rsgd import chance_of, check_batch
from curvedp.privacy import Guarantee
from curvedp.privacy.descent import rounded_clip, rsvrg_guarantee, rsvrg_noise


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
    output: Literal["last", "random"] = "last",
    restarts: int = 1,
    record_history: int = False,
    groups: Any = None,
) -> OptimResult:
    """`epochs` anchors with `inner_steps` variance-reduced steps each, from batches of expected size `batch_size`.

    The released anchor gradient is shortened to C1 (free: it is post-processing), because differences clipped to C1 cannot
    balance a longer one.

    Guarantees
    - `result.guarantee` bounds the composition of all epochs and steps of all restarts for replace-one adjacency, or where
      asked for with adjacency="add-remove", of these and a noisy count: the number of records is private then.

    Parameters
    ----------
    epochs, inner_steps : int
        How many anchors, and steps from each.
    clip : (C0, C1)
        Bounds of a record's gradient at the anchor and of its difference.
    guarantee : Guarantee, optional
        The budget is split for the smallest error at the end (`accounting.rsvrg_noise`).
    noise : (σ₁, σ₂) or float, optional
        Standard deviations on the mean full gradient and on the averaged difference; one number: both.
    batch_size : int, optional; float where n is private
        Of the differences. Left out it is ⌈√n⌉: then √n inner steps cost as much as the anchor's pass. Where n is private
        (a guarantee with adjacency="add-remove"), the share of the records.
    output : "last" or "random"
        The paper's option I, or its option II, a uniformly drawn iterate.
    restarts : int
        The whole is run so often, each from the output of the one before (its Algorithm 12), and all are charged.
    problem, data, init, learning_rate, rng, sampling, record_history, groups
        As in `dp_rsgd`.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.optim import FrechetMeanProblem
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> result = dp_rsvrg(FrechetMeanProblem(Sphere(2)), X, np.array([1.0, 0, 0]), epochs=3, inner_steps=10,
    ...                   batch_size=50, clip=(0.7, 0.3), learning_rate=0.2, noise=(0.01, 0.01))
    >>> result.guarantee.epsilon(1e-6) < 10
    True
    """
    sizes = {"epochs": epochs, "inner_steps": inner_steps, "restarts": restarts}
    epochs, inner_steps, restarts = (_validate.integer(name, value, 1) for name, value in sizes.items())
    bounds = _pair("clip", clip)
    _validate.choice("output", output, ("last", "random"))
    schedule = rates(learning_rate, epochs * inner_steps).reshape(epochs, inner_steps)
    marks = recorded(record_history, restarts * epochs * inner_steps).reshape(restarts, epochs, inner_steps)
    if is_added(guarantee, noise):
        chance = chance_of(batch_size, sampling)
        return added_rsvrg(problem, data, init, schedule, bounds, chance, guarantee, rng, marks, output, groups)
    with full_precision(), compiled_once(problem):
        w, records = prepare(problem, data, init, groups)
        n, dim = len(records), problem.manifold.dim
        size = check_batch(math.isqrt(n - 1) + 1 if batch_size is None else batch_size, n, sampling)
        charged = (rounded_clip(bounds[0], dim, w.dtype, n), rounded_clip(bounds[1], dim, w.dtype, n, size))
        total = restarts * epochs
        if guarantee is not None:
            rate = float(schedule.mean())
            sd = rsvrg_noise(n, total, inner_steps, size, charged, guarantee, sampling, rate)
        else:
            sd = _pair("noise", (noise, noise) if isinstance(noise, Real) else noise)
        met = rsvrg_guarantee(n, total, inner_steps, size, charged, sd, sampling)
        random, history = Randomness(rng), []
        for run in range(restarts):
            chosen = divmod(int(random.integers(epochs * inner_steps, (1,))[0]), inner_steps)
            kept = w
            for epoch in range(epochs):
                batches = draw_batches(random, n, size, inner_steps, sampling)
                first = sd[0] * random.normal(1, dim)[0]
                second = sd[1] * random.normal(inner_steps, dim)
                keep_path = output == "random" and epoch == chosen[0]
                w, path, values = _epoch(
                    problem,
                    records,
                    w,
                    bounds,
                    size,
                    batches,
                    schedule[epoch],
                    first,
                    second,
                    marks[run, epoch] if marks.any() else None,
                    keep_path,
                )
                history.append(values)
                if keep_path:
                    kept = problem.manifold.project(path[chosen[1]])
            w = w if output == "last" else kept
        mechanism = VarianceReducedMechanism(
            statistic=ClippedGradient(problem.manifold, charged[0], n),
            epochs=total,
            inner_steps=inner_steps,
            batch_size=size,
            difference_clip=charged[1],
            full_noise=sd[0],
            inner_noise=sd[1],
            sampling=sampling,
        )
        told = joined(history, marks.ravel())
        return finished(mechanism, np.asarray(w), guarantee or met, sd, random, told, groups is not None)


@partial(jax.jit, static_argnames=("problem", "size", "keep_path"))
def _epoch(
    problem: Problem,
    data: Any,
    anchor: Any,
    clip: tuple[Any, Any],
    size: int,
    batches: Batches,
    rate: Any,
    first: Any,
    second: Any,
    marks: Any,
    keep_path: bool,
) -> tuple[Any, Any, Any]:
    manifold = problem.manifold
    flat = batches.get("flat")
    per_step = {name: array for name, array in batches.items() if name != "flat"}
    released = clipped_sum(problem, anchor, data, clip[0]) / len(data) + first
    # Differences of length at most C1 cannot balance a longer anchor gradient: the iterate would run away with it for the
    # rest of the epoch. What has been released may be shortened at no cost.
    released = clip_rows(released[None], clip[1])[0]

    def step(w: Any, inputs: tuple[Batches, Any, Any, Any]) -> tuple[Any, Any]:
        batch, rate, xi, mark = inputs

        def differences(records: Any) -> Any:
            # Both points in one batch. As two calls they run side by side, and two batched decompositions that share
            # XLA's threads can wait for each other for ever (seen on two cores).
            both = jax.vmap(problem.gradients, (0, None))(jnp.stack([w, anchor]), records)
            return both[0] - problem.carry(anchor, w, both[1])

        def part(numbers: Any, inside: Any) -> Any:
            return clipped_total(rows_of(data[numbers], differences), clip[1], inside)

        total = batch_sum(batch, flat, size, part)
        direction = total / size + problem.carry(anchor, w, released) + xi
        moved = step_along(problem, w, rate, direction)
        value = None if mark is None else objective_if(mark, problem, moved, data)
        return moved, (w if keep_path else None, value)

    w, (path, values) = jax.lax.scan(step, anchor, (per_step, rate, second, marks))
    return manifold.project(w), path, values


def _pair(name: str, values: Any) -> tuple[float, float]:
    try:
        first, second = values
    except (TypeError, ValueError):
        raise ParameterError(f"{name}={_validate.shown(values)} must be a pair of positive numbers") from None
    return _validate.length(f"{name}[0]", first), _validate.length(f"{name}[1]", second)
