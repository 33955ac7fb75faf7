"""DP-RSVRG step by step as Utpala et al. (2023) describe it, Algorithms 11 and 12. An
epoch begins at an iterate called the anchor, where a gradient over all records is
computed; its steps use differences of gradients of single records.

NOT PROVED PRIVATE AT THE NOISE THE PAPER STATES (docs/errata.md, E39). These functions
are here to be compared with `curvedp.optim.dp_rsvrg`. Three things are as printed.

- The printed step subtracts the gradient at the anchor (E11); `sign=1` adds it, as the
  paper means it.
- New noise is added to the gradient at the anchor at every inner step, and charged each
  time (E12).
- Gradients are clipped one by one, so that a difference has sensitivity 4·C₁.
"""

from functools import partial
from typing import Any

# The first import: without JAX its error names the extra.
import curvedp.optim  # isort: skip # noqa: F401
import jax
import jax.numpy as jnp
import numpy as np

from curvedp import _validate
from curvedp.optim import Problem
from curvedp.papers.opt.accounting import Pair

__all__ = ["paper_rsvrg", "paper_rsvrg_with_restarts"]


def paper_rsvrg(
    problem: Problem,
    data: Any,
    init: Any,
    epochs: int,
    inner_steps: int,
    clip: Pair,
    learning_rate: float,
    sigma: float,
    rng: np.random.Generator,
    sign: int = 1,
    output: str = "I",
) -> np.ndarray:
    """Run Algorithm 11 of the paper: S epochs of m variance-reduced steps. NOT PRIVATE.

    An epoch computes the mean g of all clipped gradients at its first iterate, the
    anchor. A step draws a record and moves in the direction opposite to the sum of four
    terms: the clipped gradient of the record at the iterate, minus that at the anchor,
    g, and tangent noise. Vectors at the anchor are transported to the iterate.

    Parameters
    ----------
    problem : Problem
        The objective and its manifold.
    data : array of shape (n, *point_shape)
        The records.
    init : array of shape point_shape
        The first iterate.
    epochs, inner_steps : int
        S, and the m steps of each epoch.
    clip : (float, float)
        C₀ and C₁, the clipping norms of the anchor's gradients and of those of a step.
    learning_rate : float
        η, the step size.
    sigma : float
        σ, the noise of every step per coordinate.
    rng : numpy.random.Generator
        The source of records and noise; it is not cryptographic.
    sign : {1, -1}
        The sign of g: 1 as meant, −1 as printed (E11).
    output : {"I", "II"}
        The last iterate, or one of all inner iterates at random.

    Returns
    -------
    array of shape point_shape
        The output.

    Raises
    ------
    ParameterError
        If `output` has another name.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.optim import FrechetMeanProblem
    >>> X = np.array([[1.0, 0.1, 0.0], [1.0, -0.1, 0.0]]) / np.sqrt(1.01)
    >>> start = np.array([1.0, 0.0, 0.0])
    >>> rng = np.random.default_rng(0)
    >>> problem = FrechetMeanProblem(Sphere(2))
    >>> paper_rsvrg(problem, X, start, 1, 2, (1.0, 1.0), 0.1, 0.01, rng).shape
    (3,)
    """
    _validate.choice("output", output, ("I", "II"))
    # For output II the run ends at a random step of a random epoch.
    chosen_epoch = rng.integers(epochs) if output == "II" else None
    with jax.enable_x64(True):
        w, records = jnp.asarray(init), jnp.asarray(data)
        for epoch in range(epochs):
            steps = inner_steps
            if epoch == chosen_epoch:
                steps = int(rng.integers(inner_steps))
            numbers = rng.integers(len(records), size=steps)
            noise = sigma * rng.standard_normal((steps, problem.manifold.dim))
            w = _run_epoch(
                problem, records, w, clip, learning_rate, numbers, noise, sign
            )
            w = problem.manifold.project(w)  # rounding of many steps
            if epoch == chosen_epoch:
                break
        return np.asarray(w)


def paper_rsvrg_with_restarts(
    problem: Problem,
    data: Any,
    init: Any,
    restarts: int,
    epochs: int,
    inner_steps: int,
    clip: Pair,
    learning_rate: float,
    sigma: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Run Algorithm 12: K times Algorithm 11, each from the output II of the one before.

    Parameters
    ----------
    problem : Problem
        The objective and its manifold.
    data : array of shape (n, *point_shape)
        The records.
    init : array of shape point_shape
        The first iterate.
    restarts : int
        K, the number of runs of Algorithm 11.
    epochs, inner_steps : int
        S, and the m steps of each epoch, of each run.
    clip : (float, float)
        C₀ and C₁, the clipping norms of the anchor's gradients and of those of a step.
    learning_rate : float
        η, the step size.
    sigma : float
        σ, the noise of every step per coordinate.
    rng : numpy.random.Generator
        The source of records and noise; it is not cryptographic.

    Returns
    -------
    array of shape point_shape
        Output II of the last run.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.optim import FrechetMeanProblem
    >>> X = np.array([[1.0, 0.1, 0.0], [1.0, -0.1, 0.0]]) / np.sqrt(1.01)
    >>> start = np.array([1.0, 0.0, 0.0])
    >>> rng = np.random.default_rng(0)
    >>> problem = FrechetMeanProblem(Sphere(2))
    >>> paper_rsvrg_with_restarts(
    ...     problem, X, start, 2, 1, 2, (1.0, 1.0), 0.1, 0.01, rng
    ... ).shape
    (3,)
    """
    w = init
    for _ in range(restarts):
        w = paper_rsvrg(
            problem, data, w, epochs, inner_steps, clip, learning_rate, sigma, rng,
            output="II",
        )  # fmt: skip
    return np.asarray(w)


def _clip_rows(rows: Any, clip: Any) -> Any:
    """Return rows with each that is longer than `clip` shortened to that length."""
    lengths = jnp.linalg.norm(rows, axis=-1, keepdims=True)
    return rows * jnp.minimum(1.0, clip / jnp.maximum(lengths, 1e-300))


@partial(jax.jit, static_argnames="problem")
def _run_epoch(
    problem: Problem,
    data: Any,
    anchor: Any,
    clip: Any,
    rate: Any,
    numbers: Any,
    noise: Any,
    sign: Any,
) -> Any:
    """Run the inner steps of one epoch, Algorithm 11, steps 3 to 8, compiled.

    Parameters
    ----------
    problem : Problem
        The objective; gradients are vectors of its own coordinates.
    data : array
        All records.
    anchor : array
        The first iterate of the epoch.
    clip : (float, float)
        C₀ and C₁.
    rate : float
        η, the step size.
    numbers : array of shape (steps,)
        The record of each step.
    noise : array of shape (steps, dim)
        The noise of each step.
    sign : {1, -1}
        The sign of the anchor's gradient.

    Returns
    -------
    array
        The last iterate.
    """
    gradients = _clip_rows(problem.gradients(anchor, data), clip[0])
    full = jnp.mean(gradients, axis=0)

    def step(w: Any, draw: tuple[Any, Any]) -> tuple[Any, None]:
        """Move the iterate w by one record and its noise ξ."""
        number, xi = draw
        record = data[number][None]
        here = _clip_rows(problem.gradients(w, record), clip[1])[0]
        there = _clip_rows(problem.gradients(anchor, record), clip[1])[0]
        carried = problem.carry(anchor, w, there)
        anchor_gradient = problem.carry(anchor, w, full)
        direction = here - carried + sign * anchor_gradient + xi
        return problem.move(w, -rate * direction), None

    return jax.lax.scan(step, anchor, (numbers, noise))[0]
