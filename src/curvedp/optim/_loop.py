"""One step of a private optimizer: clip the rows of a batch, sum them, add noise, move.
A row is the gradient of one record, or the mean gradient of one person. Each step
releases a `noisy_gradient`, and moves its current point, the iterate, by `step_along`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curvedp.optim._batches import batch_sum
from curvedp.optim._persons import Persons, rows_per_unit
from curvedp.optim._randomness import on_processor
from curvedp.optim.problem import Problem
from curvedp.privacy.optimizer_accounting import (
    ACCELERATOR_BLOCK,
    BLOCK,
    WHOLE_BITS,
)

# How many bytes of noise the host draws at a time, while the device computes the steps
# of the chunk before.
_CHUNK_BYTES = 1 << 23

# Sums of exact integers are clipped to this size before they are converted to doubles.
_MAX_EXACT_INTEGER = 2**53


def _clip_factors(rows: Any, clip: Any) -> tuple[Any, Any]:
    """Return the rows divided by C, and the factors min(1, C/‖row‖) that clip them.

    C·factor·(row/C) is the clipped row. The two parts are returned separately, because
    callers multiply and sum them in different ways.

    Parameters
    ----------
    rows : array of shape (n, dim)
        One row of numbers, such as a gradient, for each record.
    clip : float
        C, the length to which rows are clipped.

    Returns
    -------
    scaled : array of shape (n, dim)
        rows/C. An entry that is not finite becomes the largest number: its square is
        infinite, so the factor of its row is 0.
    factors : array of shape (n,)
        The factors; 0 for a row whose squared length is not finite.
    """
    # The rows are divided by C first. If a squared length then underflows, the row is far
    # shorter than C, whatever C is.
    scaled = rows / clip
    scaled = jnp.where(jnp.isfinite(scaled), scaled, jnp.finfo(rows.dtype).max)
    # Privacy needs this barrier. Without it the compiler may compute the rows again for
    # the sum, with other roundings, and a row whose terms cancel could be longer there
    # than the row whose length is measured here.
    scaled = jax.lax.optimization_barrier(scaled)
    squared_length = jnp.sum(jnp.square(scaled), axis=-1)
    factors = jnp.where(
        jnp.isfinite(squared_length), 1 / jnp.maximum(1, jnp.sqrt(squared_length)), 0
    )
    return scaled, factors


def clip_rows(rows: Any, clip: Any) -> Any:
    """Clip each row g to the length C: return min(1, C/‖g‖)·g, or 0 if g is not finite.

    Parameters
    ----------
    rows : array of shape (n, dim)
        One row of numbers, such as a gradient, for each record.
    clip : float
        C, the largest length of a clipped row.

    Returns
    -------
    array of shape (n, dim)
        The clipped rows. One record changes their sum by at most 2C.
    """
    scaled, factors = _clip_factors(rows, clip)
    return clip * (factors[..., None] * scaled)


def clipped_total(rows: Any, clip: Any, is_inside: Any = True) -> Any:
    """Clip the rows of a batch to the length C, and return their sum.

    Used when n is public. The sum is computed in double precision, whatever the
    precision of the rows. Its round-off grows with n and is charged as sensitivity.

    Parameters
    ----------
    rows : array of shape (n, dim)
        One row of numbers, such as a gradient, for each record.
    clip : float
        C, the largest length of a clipped row.
    is_inside : array of n booleans, or True
        True for the rows that are inside the batch; others do not count.

    Returns
    -------
    array of shape (dim,)
        The sum, which one record changes by at most 2C and rounding errors.
    """
    scaled, factors = _clip_factors(rows, clip)
    factors = jnp.where(is_inside, factors, 0).astype(jnp.float64)
    scaled = scaled.astype(jnp.float64)
    # The same sum in the way that is fastest: as one matrix product on the processor, and
    # by one kernel on an accelerator.
    if on_processor():
        return clip * (factors @ scaled)
    return clip * jnp.sum(factors[:, None] * scaled, axis=0)


def exact_total(rows: Any, clip: Any, is_inside: Any = True) -> Any:
    """Clip and round the rows of a batch to integers, and return their exact sum.

    Used when n is private: then nothing that is charged or published may depend on n,
    and the round-off of a sum of floats would. The integers are in units of
    C/2^WHOLE_BITS.

    Parameters
    ----------
    rows : array of shape (n, dim)
        One row of numbers, such as a gradient, for each record.
    clip : float
        C, the length to which each row is clipped before it is rounded.
    is_inside : array of n booleans, or True
        True for the rows that are inside the batch; others do not count.

    Returns
    -------
    array of int64, shape (dim,)
        The sum divided by C and multiplied by 2^WHOLE_BITS.
    """
    in_clip_units = clip_rows(rows / clip, 1.0).astype(jnp.float64)
    integers = jnp.rint(in_clip_units * 2.0**WHOLE_BITS).astype(jnp.int64)
    row_is_inside = jnp.reshape(
        is_inside, (-1, 1)
    )  # one column, for all entries of a row
    return jnp.sum(jnp.where(row_is_inside, integers, 0), axis=0)


def sum_over_all(data: Any, block_sum: Callable[[Any], Any]) -> Any:
    """Sum over all records or people, block by block, so that memory does not grow with n.

    Parameters
    ----------
    data : array or Persons
        All records, with or without their people.
    block_sum : callable
        A function of a block of records or people, which returns the sum over them.

    Returns
    -------
    array
        The sum, of the shape that `block_sum` returns.
    """
    size = BLOCK if on_processor() else ACCELERATOR_BLOCK
    n_in_blocks = len(data) // size * size  # all blocks of full size

    def sum_block(start: Any) -> Any:
        """Return the sum over the block of `size` records or people from `start` on."""
        if isinstance(data, Persons):
            return block_sum(data[start + jnp.arange(size)])
        return block_sum(jax.lax.dynamic_slice_in_dim(data, start, size))

    # The remainder after the whole blocks has another length.
    remainder: Any = 0
    if n_in_blocks < len(data):
        remainder = block_sum(data[n_in_blocks:])
    if not n_in_blocks:
        return remainder

    def add_block(total: Any, start: Any) -> tuple[Any, None]:
        """Add one block to the total; the second output, of a scan, is not needed."""
        return total + sum_block(start), None

    sum_shape = jax.eval_shape(lambda: sum_block(0))
    first_total = jnp.zeros(sum_shape.shape, sum_shape.dtype) + remainder
    starts = jnp.arange(0, n_in_blocks, size)
    total, _ = jax.lax.scan(add_block, first_total, starts)
    return total


def noisy_mean(
    data: Any,
    batch: Any,
    size: int,
    clip: Any,
    mean_scale: Any,
    noise: Any,
    rows: Callable[[Any], Any],
    to_coordinates: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the mean of clipped rows over a batch, with noise: what one step releases.

    Parameters
    ----------
    data : array or Persons
        All records, with or without their people.
    batch : Batches or None
        The batch of one step; None for all records.
    size : int
        The public batch size, by which the sum is divided.
    clip : float
        C, the length to which each row is clipped.
    mean_scale : float or None
        None if n is public. If n is private, C divided by a noisy batch size: the sum
        (`exact_total`) and the noise are then in units of C, and are multiplied by this
        number instead of being divided by the size.
    noise : array of shape (dim,)
        The noise of this step.
    rows : callable
        rows(records) returns what is clipped, one row for each record.
    to_coordinates : callable, optional
        A linear map from the sum to coordinates that does not lengthen vectors. It is
        used if n is public.

    Returns
    -------
    array of shape (dim,)
        The noisy mean. It is private, given that `noise` is large enough for C.
    """
    n_is_private = mean_scale is not None
    total_of = exact_total if n_is_private else clipped_total

    def block_sum(block: Any, is_inside: Any = True) -> Any:
        """Return the sum of the clipped rows of a block that are inside the batch."""
        return total_of(rows_per_unit(block, rows), clip, is_inside)

    def sum_of_numbers(numbers: Any, is_inside: Any) -> Any:
        """Return the sum over the records, or people, with these numbers."""
        return block_sum(data[numbers], is_inside)

    if batch is None:
        total = sum_over_all(data, block_sum)
    else:
        total = batch_sum(batch, size, sum_of_numbers)

    if n_is_private:
        limited = jnp.clip(total, -_MAX_EXACT_INTEGER, _MAX_EXACT_INTEGER)
        return mean_scale * (limited * 2.0**-WHOLE_BITS + noise)
    if to_coordinates is not None:
        total = to_coordinates(total)
    return total / size + noise


def noisy_gradient(
    problem: Problem,
    w: Any,
    data: Any,
    batch: Any,
    size: int,
    clip: Any,
    mean_scale: Any = None,
    noise: Any = 0.0,
) -> Any:
    """Return the noisy mean of the records' clipped gradients, in coordinates at w.

    Parameters
    ----------
    problem : Problem
        The manifold and the loss.
    w : array of shape point_shape
        The iterate.
    data : array or Persons
        All records, with or without their people.
    batch : Batches or None
        The batch of one step; None for all records.
    size : int
        The public batch size, by which the sum is divided.
    clip : float
        C, the length to which the gradient of each record is clipped.
    mean_scale : float or None
        None if n is public. If n is private, C divided by a noisy batch size: the sum
        and the noise are then in units of C, and are multiplied by this number.
    noise : array of shape (dim,)
        The noise of this step.

    Returns
    -------
    array of shape (dim,)
        The noisy mean gradient: all that a step learns about the records.
    """
    # If n is private, exact sums of integers are needed, and the rows are coordinates.
    # If n is public, rows are used that are cheaper to compute, and only their sum is
    # turned into coordinates.
    if mean_scale is not None:
        gradients = partial(problem.gradients, w)
        return noisy_mean(data, batch, size, clip, mean_scale, noise, gradients)
    slopes = partial(problem.slopes, w)
    to_coordinates = partial(problem.total, w)
    return noisy_mean(data, batch, size, clip, None, noise, slopes, to_coordinates)


def step_along(problem: Problem, w: Any, rate: Any, gradient: Any) -> Any:
    """Take one descent step: return exp_w(−rate·gradient), or w if that is not finite.

    Parameters
    ----------
    problem : Problem
        The manifold on which w moves.
    w : array of shape point_shape
        The iterate.
    rate : float
        The learning rate.
    gradient : array of shape (dim,)
        The noisy gradient in coordinates at w, in double precision.

    Returns
    -------
    array of shape point_shape
        The next iterate, in the precision of w.
    """
    end = problem.move(w, (-rate * gradient).astype(w.dtype))
    return jnp.where(jnp.isfinite(end).all(), end, w)


def objective_if(is_recorded: Any, problem: Problem, w: Any, data: Any) -> Any:
    """Return the mean loss at w if this step is recorded, and NaN if not. NOT private.

    Parameters
    ----------
    is_recorded : traced boolean, or None
        Whether this step is recorded. None means that no step is: then None is returned
        and nothing is compiled.
    problem : Problem
        The manifold and the loss.
    w : array of shape point_shape
        The iterate.
    data : array or Persons
        The records. With people, the mean is over people of their mean loss.

    Returns
    -------
    traced float, or None
        The mean loss or NaN; None if nothing is recorded in this run.
    """
    if is_recorded is None:
        return None

    def objective() -> Any:
        """Return the mean loss over records, or over people of their mean loss."""
        if not isinstance(data, Persons):
            return problem.objective(w, data).astype(w.dtype)
        loss_rows = jax.vmap(lambda z: problem.loss(w, z)[None])  # rows of one number
        return jnp.mean(rows_per_unit(data, loss_rows)).astype(w.dtype)

    def not_recorded() -> Any:
        """Return NaN, which stands for an objective that was not computed."""
        return jnp.full((), jnp.nan, w.dtype)

    return jax.lax.cond(is_recorded, objective, not_recorded)


def join_history(objectives: list[Any], is_recorded: np.ndarray) -> np.ndarray:
    """Join the objectives of all chunks of steps, and keep the recorded ones.

    Parameters
    ----------
    objectives : list of arrays
        The objectives of each chunk, with a place for every step.
    is_recorded : array of booleans
        True for the steps that were recorded.

    Returns
    -------
    array
        The objective after each recorded step. It is NOT private.
    """
    every_step = np.concatenate([np.asarray(chunk) for chunk in objectives])
    return np.asarray(every_step[is_recorded.ravel()])


def chunks(steps: int, numbers_per_step: int) -> Iterator[slice]:
    """Cut the steps into chunks whose noise and batches fit in memory.

    All chunks but the last have the same length, so that they use the same compiled
    program.

    Parameters
    ----------
    steps : int
        The number of all steps.
    numbers_per_step : int
        How many numbers are drawn for each step, for its noise or its batch.

    Yields
    ------
    slice
        The steps of one chunk, among all steps. Its numbers take at most 8 MiB.
    """
    length = max(1, min(steps, _CHUNK_BYTES // (8 * numbers_per_step)))
    for start in range(0, steps, length):
        yield slice(start, min(start + length, steps))
