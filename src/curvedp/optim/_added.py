"""Descents where a record may be added or removed, so that n is private: noisy sums over a noisy count.

A clipped gradient is rounded to whole multiples of C/2^20, whose sums are exact in any order: no round-off grows with n, and
nothing that is charged or written down depends on it.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curvedp.mechanisms.descent import AddedDescentMechanism, ClippedGradientSum
from curvedp.mechanisms.sums import ADDED
from curvedp.optim._batches import batch_sum, draw_batches
from curvedp.optim._loop import (
    Randomness,
    chunks,
    clip_rows,
    compiled_once,
    descended,
    full_precision,
    joined,
    prepare,
    rows_of,
    summed,
)
from curvedp.optim.problem import Problem
from curvedp.optim.result import OptimResult, finished
from curvedp.privacy.descent import WHOLE_BITS, added_clip, added_noise, check_request


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
    flat = None if batches is None else batches.get("flat")
    per_step = None if batches is None else {name: array for name, array in batches.items() if name != "flat"}

    def gradient(w: Any, each: tuple[Any, Any]) -> Any:
        batch, xi = each

        def part(some: Any, inside: Any = True) -> Any:
            rows = clip_rows(rows_of(some, lambda records: problem.gradients(w, records)) / clip, 1.0)
            whole = jnp.rint(rows.astype(jnp.float64) * 2.0**WHOLE_BITS).astype(jnp.int64)
            return jnp.sum(jnp.where(jnp.reshape(inside, (-1, 1)), whole, 0), axis=0)

        if batch is None:
            total = summed(data, part)
        else:
            total = batch_sum(batch, flat, size, lambda numbers, inside: part(data[numbers], inside))
        return scale * (jnp.clip(total, -(2**53), 2**53) * 2.0**-WHOLE_BITS + xi)

    return descended(problem, data, w, gradient, (per_step, xi), rate, marks)
