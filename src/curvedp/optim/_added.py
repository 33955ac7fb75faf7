"""Descents where a record may be added or removed, so that n is private: noisy sums over a noisy count.

A clipped gradient is rounded to whole multiples of C/2^20, whose sums are exact in any order: no round-off grows with n, and
nothing that is charged or written down depends on it.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curvedp.mechanisms.descent import AddedDescentMechanism, AddedVarianceReducedMechanism, ClippedGradientSum
from curvedp.mechanisms.sums import ADDED
from curvedp.optim._batches import batch_sum, draw_batches
from curvedp.optim._loop import (
    chunks,
    clip_rows,
    compiled_once,
    descended,
    full_precision,
    joined,
    objective_if,
    prepare,
    rows_of,
    step_along,
    summed,
)
from curvedp.optim._randomness import Randomness
from curvedp.optim.problem import Problem
from curvedp.optim.result import OptimResult, finished
from curvedp.privacy.descent import WHOLE_BITS, added_clip, added_noise, added_rsvrg_noise, check_request


def is_added(guarantee: Any, noise: Any) -> bool:
    """Whether n is private, which only a guarantee can say."""
    check_request(guarantee, noise, "replace-one", ADDED)
    return guarantee is not None and guarantee.adjacency == ADDED


def added_descent(
    problem: Problem,
    data: Any,
    init: Any,
    schedule: np.ndarray,
    clip: float,
    chance: float,
    guarantee: Any,
    rng: Any,
    marks: np.ndarray,
    groups: Any,
) -> OptimResult:
    """`dp_rsgd`, and with chance 1 `dp_rgd`, for n records or persons, which may be none."""
    with full_precision(), compiled_once(problem):
        w, records = prepare(problem, data, init, groups, least=0)
        dim, n, steps = problem.manifold.dim, len(records), len(schedule)
        charged = added_clip(clip, dim, w.dtype)
        noise, count_noise = added_noise(steps, chance, charged, guarantee)
        random, history = Randomness(rng), []
        count = max(n + count_noise * float(np.asarray(random.normal(1, 1))[0, 0]), 1.0)
        for part in chunks(steps, dim + int(chance * n)):
            length = part.stop - part.start
            size = max(int(chance * n), 1)
            batches = draw_batches(random, n, size, length, chance=chance) if chance < 1 and n else None
            xi = noise / clip * random.normal(length, dim)
            record, scale = marks[part] if marks.any() else None, clip / (chance * count)
            w, values = _steps(problem, records, w, clip, scale, size, batches, schedule[part], xi, record)
            history.append(values)
        mechanism = AddedDescentMechanism(
            statistic=ClippedGradientSum(problem.manifold, charged),
            steps=steps,
            rate=chance,
            noise=noise,
            count_noise=count_noise,
        )
        told = joined(history, marks)
        return finished(mechanism, np.asarray(w), guarantee, noise, random, told, groups is not None)


@partial(jax.jit, static_argnames=("problem", "size"))
def _steps(
    problem: Problem, data: Any, w: Any, clip: Any, scale: Any, size: int, batches: Any, rate: Any, xi: Any, marks: Any
) -> Any:
    flat, per_step = _parted(batches)

    def gradient(w: Any, each: tuple[Any, Any]) -> Any:
        batch, xi = each
        total = _whole_sum(data, batch, flat, size, clip, lambda records: problem.gradients(w, records))
        return scale * (total + xi)

    return descended(problem, data, w, gradient, (per_step, xi), rate, marks)


def _parted(batches: Any) -> tuple[Any, Any]:
    """What all steps share of their batches, and what each has of its own."""
    if batches is None:
        return None, None
    return batches.get("flat"), {name: array for name, array in batches.items() if name != "flat"}


def _whole_sum(data: Any, batch: Any, flat: Any, size: int, clip: Any, rows: Any) -> Any:
    """Σ clip(row)/C over a batch, or over all records where there is none: exact, in whole multiples of 2^-20."""

    def part(some: Any, inside: Any = True) -> Any:
        units = clip_rows(rows_of(some, rows) / clip, 1.0)
        whole = jnp.rint(units.astype(jnp.float64) * 2.0**WHOLE_BITS).astype(jnp.int64)
        return jnp.sum(jnp.where(jnp.reshape(inside, (-1, 1)), whole, 0), axis=0)

    if batch is None:
        total = summed(data, part)
    else:
        total = batch_sum(batch, flat, size, lambda numbers, inside: part(data[numbers], inside))
    return jnp.clip(total, -(2**53), 2**53) * 2.0**-WHOLE_BITS


def added_rsvrg(
    problem: Problem,
    data: Any,
    init: Any,
    schedule: np.ndarray,
    clip: tuple[float, float],
    chance: float,
    guarantee: Any,
    rng: Any,
    marks: np.ndarray,
    output: str,
    groups: Any,
) -> OptimResult:
    """`dp_rsvrg` for n records or persons, which may be none; `schedule` is (epochs, steps), `marks` has restarts before."""
    with full_precision(), compiled_once(problem):
        w, records = prepare(problem, data, init, groups, least=0)
        dim, n, (epochs, inner) = problem.manifold.dim, len(records), schedule.shape
        charged = (added_clip(clip[0], dim, w.dtype), added_clip(clip[1], dim, w.dtype))
        total = len(marks) * epochs
        noise, count_noise = added_rsvrg_noise(total, inner, chance, charged, guarantee, float(schedule.mean()))
        random, history, size = Randomness(rng), [], max(int(chance * n), 1)
        count = max(n + count_noise * float(np.asarray(random.normal(1, 1))[0, 0]), 1.0)
        scales = clip[0] / count, clip[1] / (chance * count)
        for run in marks:
            chosen, kept = divmod(int(random.integers(epochs * inner, (1,))[0]), inner), w
            for epoch in range(epochs):
                batches = draw_batches(random, n, size, inner, chance=chance) if chance < 1 and n else None
                xi = noise[0] / clip[0] * random.normal(1, dim)[0], noise[1] / clip[1] * random.normal(inner, dim)
                keep = output == "random" and epoch == chosen[0]
                told = run[epoch] if marks.any() else None
                w, path, values = _epoch(
                    problem, records, w, clip, scales, size, batches, schedule[epoch], xi, told, keep
                )
                history.append(values)
                kept = problem.manifold.project(path[chosen[1]]) if keep else kept
            w = w if output == "last" else kept
        mechanism = AddedVarianceReducedMechanism(
            statistic=ClippedGradientSum(problem.manifold, charged[0]),
            epochs=total,
            inner_steps=inner,
            rate=chance,
            difference_clip=charged[1],
            full_noise=noise[0],
            inner_noise=noise[1],
            count_noise=count_noise,
        )
        told = joined(history, marks.ravel())
        return finished(mechanism, np.asarray(w), guarantee, noise, random, told, groups is not None)


@partial(jax.jit, static_argnames=("problem", "size", "keep_path"))
def _epoch(
    problem: Problem,
    data: Any,
    anchor: Any,
    clip: Any,
    scales: Any,
    size: int,
    batches: Any,
    rate: Any,
    xi: Any,
    marks: Any,
    keep_path: bool,
) -> tuple[Any, Any, Any]:
    """As `rsvrg._epoch`, with whole sums over a noisy count."""
    flat, per_step = _parted(batches)
    first = _whole_sum(data, None, None, size, clip[0], lambda records: problem.gradients(anchor, records))
    released = clip_rows((scales[0] * (first + xi[0]))[None], clip[1])[0]

    def step(w: Any, inputs: tuple[Any, Any, Any, Any]) -> tuple[Any, Any]:
        batch, rate, noise, mark = inputs

        def differences(records: Any) -> Any:
            both = jax.vmap(problem.gradients, (0, None))(jnp.stack([w, anchor]), records)
            return both[0] - problem.carry(anchor, w, both[1])

        total = _whole_sum(data, batch, flat, size, clip[1], differences)
        moved = step_along(problem, w, rate, scales[1] * (total + noise) + problem.carry(anchor, w, released))
        value = None if mark is None else objective_if(mark, problem, moved, data)
        return moved, (w if keep_path else None, value)

    w, (path, values) = jax.lax.scan(step, anchor, (per_step, rate, xi[1], marks))
    return problem.manifold.project(w), path, values
