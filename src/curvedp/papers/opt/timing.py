"""Descent with and without privacy, by the same steps, timed side by side (Table 2 of
Utpala et al. 2023).
"""

import time
from collections.abc import Callable

# The first import: without JAX its error names the extra.
import curvedp.optim  # isort: skip # noqa: F401
import jax
import jax.numpy as jnp
import numpy as np

from curvedp.optim import Problem, dp_rsgd

__all__ = [
    "descent_without_privacy",
    "private_descent",
    "run_seconds",
    "seconds_with_and_without_privacy",
]

# A function that descends once, to be timed.
Run = Callable[[], None]


def seconds_with_and_without_privacy(
    problem: Problem, data: np.ndarray, start: np.ndarray, steps: int
) -> tuple[float, float]:
    """Return the seconds of a descent without privacy, and of one by DP-RSGD.

    Each is the faster of two runs, after a first one that compiles. The two kinds take
    turns, so that a busy machine slows both.

    Parameters
    ----------
    problem : Problem
        The objective and its manifold.
    data : array of shape (n, *point_shape)
        The records.
    start : array of shape point_shape
        The start of the descent.
    steps : int
        The number of steps, each of one record.

    Returns
    -------
    without_privacy, with_privacy : float
        Seconds of the wall clock.
    """
    runs = [
        make_run(problem, data, start, steps, batch_size=1, learning_rate=0.01)
        for make_run in (descent_without_privacy, private_descent)
    ]
    for run in runs:
        run()
    rounds = [[run_seconds(run)[0] for run in runs] for _ in range(2)]
    without_privacy, with_privacy = np.min(rounds, axis=0).tolist()
    return without_privacy, with_privacy


def descent_without_privacy(
    problem: Problem,
    data: np.ndarray,
    start: np.ndarray,
    steps: int,
    batch_size: int,
    learning_rate: float,
) -> Run:
    """Return a function that descends by mean gradients of uniform batches.

    A step is that of DP-RSGD without clipping and without noise.

    Parameters
    ----------
    problem : Problem
        The objective and its manifold.
    data : array of shape (n, *point_shape)
        The records.
    start : array of shape point_shape
        The start of the descent.
    steps : int
        The number of steps.
    batch_size : int
        The number of records of each step.
    learning_rate : float
        The step size.

    Returns
    -------
    function
        Descends once when it is called, and returns nothing.
    """

    @jax.jit
    def run_steps(data, point, batches):  # type: ignore[no-untyped-def]  # JAX arrays have no static type here
        """Return the point after one step for each batch, by one compiled loop."""

        def step(point, numbers):  # type: ignore[no-untyped-def]  # JAX arrays have no static type here
            """Return the point after a step against the mean gradient of a batch."""
            mean_slope = jnp.mean(problem.slopes(point, data[numbers]), axis=0)
            gradient = problem.total(point, mean_slope)
            return problem.move(point, -learning_rate * gradient), None

        return jax.lax.scan(step, point, batches)[0]

    rng = np.random.default_rng(0)
    steps_per_call = min(steps, 10_000)
    batches_shape = (steps_per_call, batch_size)

    def run() -> None:
        """Descend once, in calls of at most 10,000 steps, as DP-RSGD does."""
        with jax.enable_x64(True):
            point, records = jnp.asarray(start), jnp.asarray(data)
            for _ in range(steps // steps_per_call):
                batches = rng.integers(len(data), size=batches_shape, dtype=np.int32)
                point = run_steps(records, point, batches)
            point.block_until_ready()

    return run


def private_descent(
    problem: Problem,
    data: np.ndarray,
    start: np.ndarray,
    steps: int,
    batch_size: int,
    learning_rate: float,
) -> Run:
    """Return a function that runs DP-RSGD, at clipping norm 1 and noise 0.001.

    Parameters
    ----------
    problem : Problem
        The objective and its manifold.
    data : array of shape (n, *point_shape)
        The records.
    start : array of shape point_shape
        The start of the descent.
    steps : int
        The number of steps.
    batch_size : int
        The number of records of each step.
    learning_rate : float
        The step size.

    Returns
    -------
    function
        Descends once when it is called, and returns nothing.
    """

    def run() -> None:
        """Run DP-RSGD once."""
        dp_rsgd(
            problem,
            data,
            start,
            steps=steps,
            batch_size=batch_size,
            clip=1.0,
            learning_rate=learning_rate,
            noise=1e-3,
        )

    return run


def run_seconds(run: Run) -> tuple[float, float]:
    """Return the wall-clock and the processor seconds that a run takes.

    Parameters
    ----------
    run : function
        The function that is called and timed.

    Returns
    -------
    wall, processor : float
        Seconds.
    """
    wall_start, processor_start = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall_start, time.process_time() - processor_start
