"""DP-RSGD: clipped gradients of random batches, noise on their sum (Han et al. 2022; E5)."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.mechanisms.descent import BatchDescentMechanism, ClippedGradient
from curvedp.optim._loop import (
    Randomness,
    chunks,
    clipped_total,
    compiled_once,
    fixed_batches,
    full_precision,
    joined,
    objective_if,
    on_processor,
    poisson_batches,
    prepare,
    rates,
    recorded,
    rows_of,
    step_along,
)
from curvedp.optim.problem import Problem
from curvedp.optim.result import OptimResult, finished
from curvedp.privacy import Guarantee
from curvedp.privacy.descent import derive, rounded_clip, rsgd_guarantee, rsgd_noise

__all__ = ["Batches", "batch_sum", "dp_rsgd", "draw_batches", "portions"]


def dp_rsgd(
    problem: Problem,
    data: Any,
    init: Any,
    steps: int,
    batch_size: int,
    clip: float,
    learning_rate: float | Callable[[int], float],
    guarantee: Guarantee | None = None,
    noise: float | None = None,
    rng: Any = None,
    sampling: Literal["poisson", "fixed-size"] = "poisson",
    record_history: int = False,
    groups: Any = None,
) -> OptimResult:
    """w <- exp_w(-rate·(Σ clipped gradients of a random batch/batch_size + ξ)), `steps` times.

    Guarantees
    - `result.guarantee` bounds the composition of all steps for replace-one adjacency (a record moves the sum by 2·clip),
      exactly accounted (`privacy.subsampled`), for any data.
    - Asked for anything but (ε, δ), the noise is that of known batches: nothing is gained from their chance.

    Parameters
    ----------
    batch_size : int
        The expected size of a Poisson batch, which has every record with chance batch_size/n; the sum is divided by it.
    noise : float, optional
        The standard deviation of ξ, on the average (on the sum it is batch_size times that).
    sampling : "poisson" or "fixed-size"
        The latter is drawn without replacement.
    problem, data, init, steps, clip, learning_rate, guarantee, rng, record_history
        As in `dp_rgd`.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.optim import FrechetMeanProblem
    >>> from curvedp.privacy import ApproxDP
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> result = dp_rsgd(FrechetMeanProblem(Sphere(2)), X, np.array([1.0, 0, 0]), steps=100, batch_size=20, clip=0.7,
    ...                  learning_rate=0.2, guarantee=ApproxDP(1.0, 1e-6))
    >>> result.point.shape
    (3,)
    """
    steps = _validate.integer("steps", steps, 1)
    clip = _validate.length("clip", clip)
    schedule, marks = rates(learning_rate, steps), recorded(record_history, steps)
    with full_precision(), compiled_once(problem):
        w, records = prepare(problem, data, init, groups)
        n = len(records)
        size = check_batch(batch_size, n, sampling)
        charged = rounded_clip(clip, problem.manifold.dim, w.dtype, n, size)
        sd, met = derive(
            guarantee,
            noise,
            lambda target: rsgd_noise(n, steps, size, charged, target, sampling),
            lambda value: rsgd_guarantee(n, steps, size, charged, value, sampling),
        )
        random, history = Randomness(rng), []
        for part in chunks(steps, max(problem.manifold.dim, size)):
            count = part.stop - part.start
            batches = draw_batches(random, n, size, count, sampling)
            xi = sd * random.normal(count, problem.manifold.dim)
            record = marks[part] if marks.any() else None
            w, values = _steps(problem, records, w, clip, size, batches, schedule[part], xi, record)
            history.append(values)
        gradient = ClippedGradient(problem.manifold, charged, n)
        mechanism = BatchDescentMechanism(statistic=gradient, steps=steps, batch_size=size, noise=sd, sampling=sampling)
        told = joined(history, marks)
        return finished(mechanism, np.asarray(w), guarantee or met, sd, random, told, groups is not None)


def check_batch(batch_size: int, n: int, sampling: str) -> int:
    """A batch size between 1 and n, for a known sampling scheme."""
    _validate.choice("sampling", sampling, ("poisson", "fixed-size"))
    size = _validate.integer("batch_size", batch_size, 1)
    if size > n:
        raise ParameterError(f"batch_size={size} is more than the {n} records or persons")
    return size


# {"rows": (steps, width)}, with {"sizes"} where a row is filled up to its width; or the ragged form of `poisson_batches`
Batches = dict[str, Any]


def draw_batches(random: Randomness, n: int, size: int, steps: int, sampling: str) -> Batches:
    """The record numbers of every step's batch, ready for `batch_sum`."""
    if sampling == "fixed-size" or size == n:
        every = np.broadcast_to(np.arange(n), (steps, n)) if size == n else fixed_batches(random, n, size, steps)
        return {"rows": jnp.asarray(every, dtype=jnp.int32)}
    flat, first, sizes = poisson_batches(random, n, size / n, steps)
    # Room for all but one draw in billions, so that chunks of the same number of steps share one compiled program.
    if not on_processor():  # there, a loop whose length is data waits for the host at every step: one width for all
        width = max(size + 8 * math.isqrt(size) + 8, int(sizes.max()))
        padded = np.zeros(len(flat) + width, dtype=np.int32)
        padded[: len(flat)] = flat
        return {"rows": jnp.asarray(padded[first[:, None] + np.arange(width)]), "sizes": jnp.asarray(sizes)}
    most = max(steps * size + 7 * math.isqrt(steps * size) + 7, len(flat))
    padded = np.zeros(most + max(portions(size)), dtype=np.int32)
    padded[: len(flat)] = flat
    return {"flat": jnp.asarray(padded), "first": jnp.asarray(first), "sizes": jnp.asarray(sizes)}


def batch_sum(batch: Batches, flat: Any, size: int, clip: Any, rows: Callable[[Any], Any]) -> Any:
    """Σ over a step's batch of clip(rows(record numbers)), rows of shape (k, width), for either form of `Batches`."""
    if flat is None:
        inside = jnp.arange(len(batch["rows"])) < batch["sizes"] if "sizes" in batch else True
        return clipped_total(rows(batch["rows"]), clip, inside)
    head, width = portions(size)

    def portion(done: Any, count: int) -> Any:
        numbers = jax.lax.dynamic_slice(flat, (batch["first"] + done,), (count,))
        return clipped_total(rows(numbers), clip, jnp.arange(count) < batch["sizes"] - done)

    done = jnp.full((), head, dtype=batch["sizes"].dtype)
    total = portion(0, head) if head else jnp.zeros(jax.eval_shape(lambda: portion(0, 1)).shape, dtype=jnp.float64)
    return jax.lax.while_loop(
        lambda state: state[0] < batch["sizes"],
        lambda state: (state[0] + width, state[1] + portion(state[0], width)),
        (done, total),
    )[1]


def portions(size: int) -> tuple[int, int]:
    """How many records of a Poisson batch the processor takes at once, first and then: a batch is rarely below its first
    portion, and the last portion is half empty."""
    root = math.isqrt(size)
    return max(0, size - 2 * root), max(1, 2 * root - 1)


@partial(jax.jit, static_argnames=("problem", "size"))
def _steps(
    problem: Problem, data: Any, w: Any, clip: Any, size: int, batches: Batches, rate: Any, xi: Any, marks: Any
) -> tuple[Any, Any]:
    flat = batches.get("flat")
    per_step = {name: array for name, array in batches.items() if name != "flat"}

    def step(w: Any, inputs: tuple[Batches, Any, Any, Any]) -> tuple[Any, Any]:
        batch, rate, xi, mark = inputs

        def rows(numbers: Any) -> Any:
            return rows_of(data[numbers], lambda records: problem.slopes(w, records))

        total = problem.total(w, batch_sum(batch, flat, size, clip, rows))
        w = step_along(problem, w, rate, total / size + xi)
        return w, None if mark is None else objective_if(mark, problem, w, data)

    last, values = jax.lax.scan(step, w, (per_step, rate, xi, marks))
    return problem.manifold.project(last), values
