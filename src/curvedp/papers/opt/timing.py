"""The same steps of descent with and without privacy, to be timed side by side."""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from curvedp.optim import Problem, dp_rsgd

Run = Callable[[], None]


def non_private(
    problem: Problem,
    data: np.ndarray,
    init: np.ndarray,
    steps: int,
    size: int,
    rate: float,
) -> Run:
    """The same step: mean gradient of a uniform batch, one move; no clipping, no noise."""

    @jax.jit
    def loop(data, w, batches):  # type: ignore[no-untyped-def]  # JAX arrays have no static type here
        def step(w, numbers):  # type: ignore[no-untyped-def]  # JAX arrays have no static type here
            mean = problem.total(w, jnp.mean(problem.slopes(w, data[numbers]), axis=0))
            return problem.move(w, -rate * mean), None

        return jax.lax.scan(step, w, batches)[0]

    rng = np.random.default_rng(0)
    chunk = min(steps, 10_000)

    def run() -> None:
        with jax.enable_x64(True):
            w, records = jnp.asarray(init), jnp.asarray(data)
            for _ in range(steps // chunk):
                w = loop(
                    records,
                    w,
                    rng.integers(len(data), size=(chunk, size), dtype=np.int32),
                )
            w.block_until_ready()

    return run


def private(
    problem: Problem,
    data: np.ndarray,
    init: np.ndarray,
    steps: int,
    size: int,
    rate: float,
) -> Run:
    def run() -> None:
        dp_rsgd(
            problem,
            data,
            init,
            steps=steps,
            batch_size=size,
            clip=1.0,
            learning_rate=rate,
            noise=1e-3,
        )

    return run


def seconds(run: Run) -> tuple[float, float]:
    """(wall, processor) seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu
