"""Random batches of a descent: the host draws which records are in them, JAX sums over
them. A batch is a random subset of the records, or of the people, that one step reads.
`draw_batches` draws the batches of several steps before these steps are compiled, and
`batch_sum` sums over one batch inside the compiled steps.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.optim._randomness import Randomness, on_processor

# The batches of several steps, as arrays of JAX, in one of two forms:
# - "rows" of shape (steps, width) contains the record numbers of each step. If there is
#   also "sizes" of shape (steps,), only the first sizes[i] numbers of row i count.
# - "flat" contains the record numbers of all steps, one step after the other. Those of
#   step i begin at the position "first"[i], and "sizes"[i] is their number.
Batches = dict[str, Any]


class PoissonBatches(NamedTuple):
    """Poisson batches of several steps, one after the other.

    Attributes
    ----------
    flat : array of integers
        The record numbers of all steps.
    first : array of shape (steps,)
        The position in `flat` at which the record numbers of each step begin.
    sizes : array of shape (steps,)
        The number of record numbers of each step.
    """

    flat: np.ndarray
    first: np.ndarray
    sizes: np.ndarray


def check_sampling_rate(batch_size: float | None, sampling: str) -> float:
    """Return the public probability that a record is in a batch, for a private n.

    A batch size in records would reveal n, so a fraction of the records and Poisson
    sampling are required.

    Parameters
    ----------
    batch_size : float
        The fraction of the records that a batch has on average, in (0, 1].
    sampling : str
        Must be "poisson".

    Returns
    -------
    float
        The probability that a record is in a batch.

    Raises
    ------
    ParameterError
        If `batch_size` is missing, an integer or not in (0, 1], or `sampling` is not
        "poisson".
    """
    is_number_of_records = isinstance(batch_size, int | np.integer)
    if sampling != "poisson" or batch_size is None or is_number_of_records:
        raise ParameterError(
            "n is private: give batch_size as a share of the records, such as 0.01, and "
            "sampling='poisson'"
        )
    return _validate.within("batch_size", batch_size, 0, 1, open_low=True)


def check_batch(batch_size: float | None, n: int, sampling: str) -> int:
    """Return the batch size, after checking it and the sampling scheme.

    Parameters
    ----------
    batch_size : int
        The requested size.
    n : int
        The number of records, or of people.
    sampling : str
        "poisson" or "fixed-size".

    Returns
    -------
    int
        The batch size.

    Raises
    ------
    ParameterError
        If the size is not an integer between 1 and n, or the scheme is not known.
    """
    _validate.choice("sampling", sampling, ("poisson", "fixed-size"))
    size = _validate.integer("batch_size", batch_size, 1)
    if size > n:
        raise ParameterError(
            f"is more than the {n} records or people",
            parameter="batch_size",
            value=size,
        )
    return size


def draw_batches(
    randomness: Randomness,
    n: int,
    size: int,
    steps: int,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> Batches:
    """Draw which records are in the batch of each step, ready for `batch_sum`.

    Parameters
    ----------
    randomness : Randomness
        The source of the draw.
    n : int
        The number of records, or of people.
    size : int
        The size of a batch, or its expected size.
    steps : int
        The number of batches.
    sampling : {"poisson", "fixed-size"}
        Whether every record is in a batch independently, or batches have exactly `size`
        records.
    sampling_rate : float, optional
        The probability of being in a Poisson batch; size/n by default.

    Returns
    -------
    Batches
        The record numbers of all steps, in the form that suits the device where JAX
        computes.
    """
    # Batches of a fixed size; if that is n, every batch has all records.
    has_fixed_size = sampling_rate is None and (sampling == "fixed-size" or size == n)
    if has_fixed_size:
        if size == n:
            rows = np.broadcast_to(np.arange(n), (steps, n))
        else:
            rows = fixed_batches(randomness, n, size, steps)
        return {"rows": jnp.asarray(rows, dtype=jnp.int32)}

    # Poisson batches, in the form that suits the device.
    rate = size / n if sampling_rate is None else sampling_rate
    batches = poisson_batches(randomness, n, rate, steps)
    if on_processor():
        return _flat_batches(batches, size, steps)
    return _padded_batches(batches, size)


def _padded_batches(batches: PoissonBatches, size: int) -> Batches:
    """Return Poisson batches as padded rows of one width, for an accelerator.

    On an accelerator, a loop whose length depends on the data would wait for the host at
    every step. So all rows have one width, which hardly any batch exceeds: nearly always
    the same compiled program can be used.

    Parameters
    ----------
    batches : PoissonBatches
        The record numbers of all steps, one step after the other.
    size : int
        The expected size of a batch.

    Returns
    -------
    Batches
        The array "rows" of shape (steps, width). In row i the first "sizes"[i] numbers
        are those of the batch, and the others do not count.
    """
    # The standard deviation of the size of a batch is at most √size: 8 of them are
    # exceeded once in 10¹⁵ draws. If it happens, the width grows.
    width = max(size + 8 * math.isqrt(size) + 8, int(batches.sizes.max()))

    # Row i is what follows the position first[i]; padding keeps the last rows in range.
    padded = np.zeros(len(batches.flat) + width, dtype=np.int32)
    padded[: len(batches.flat)] = batches.flat
    rows = padded[batches.first[:, None] + np.arange(width)]
    return {"rows": jnp.asarray(rows), "sizes": jnp.asarray(batches.sizes)}


def _flat_batches(batches: PoissonBatches, size: int, steps: int) -> Batches:
    """Return Poisson batches one after the other in one array, for the processor.

    The array has a fixed length, which hardly any draw exceeds: nearly always the same
    compiled program can be used. It has room for what `batch_sum` reads beyond the end
    of the last batch.

    Parameters
    ----------
    batches : PoissonBatches
        The record numbers of all steps, one step after the other.
    size : int
        The expected size of a batch.
    steps : int
        The number of batches.

    Returns
    -------
    Batches
        "flat", padded with zeros; step i has "sizes"[i] numbers from "first"[i] on.
    """
    # The count of all record numbers has a standard deviation of at most √expected: 7 of
    # them are exceeded once in 10¹² draws. If it happens, the array grows.
    expected = steps * size
    room = max(expected + 7 * math.isqrt(expected) + 7, len(batches.flat))
    padded = np.zeros(room + portion_size(size), dtype=np.int32)
    padded[: len(batches.flat)] = batches.flat
    return {
        "flat": jnp.asarray(padded),
        "first": jnp.asarray(batches.first),
        "sizes": jnp.asarray(batches.sizes),
    }


def split_batches(batches: Batches | None) -> tuple[Batches, Batches | None]:
    """Split batches into the array that all steps share and those with one entry per step.

    A compiled loop over the steps (`jax.lax.scan`) slices the arrays that have one entry
    for each step, and passes the shared array to every step.

    Parameters
    ----------
    batches : Batches or None
        The batches of several steps; None if every step reads all records.

    Returns
    -------
    shared : Batches
        The array "flat", if there is one.
    per_step : Batches or None
        The arrays with one entry for each step; None without batches.
    """
    if batches is None:
        return {}, None
    shared = {name: value for name, value in batches.items() if name == "flat"}
    per_step = {name: value for name, value in batches.items() if name != "flat"}
    return shared, per_step


def batch_sum(batch: Batches, size: int, partial_sum: Callable[[Any, Any], Any]) -> Any:
    """Sum over the records of one batch, in either form of `Batches`.

    Compiled steps call this function. Compiled programs need fixed shapes, so the number
    of records that are read at a time is fixed, and those outside the batch do not
    count.

    Parameters
    ----------
    batch : Batches
        The batch of one step: its row, or its position in the array "flat" and that
        array.
    size : int
        The expected size of a batch, which sets how many records are read at once.
    partial_sum : callable
        partial_sum(numbers, is_inside) sums over the records with these numbers. A
        record counts only where `is_inside` is true.

    Returns
    -------
    array
        The sum, of the shape that `partial_sum` returns.
    """
    if "flat" in batch:
        return _flat_batch_sum(batch, size, partial_sum)

    # A row: all its records are read at once.
    is_inside: Any = True
    if "sizes" in batch:
        is_inside = jnp.arange(len(batch["rows"])) < batch["sizes"]
    return partial_sum(batch["rows"], is_inside)


def _flat_batch_sum(
    batch: Batches, size: int, partial_sum: Callable[[Any, Any], Any]
) -> Any:
    """Sum over the records of a batch that is a part of the array "flat".

    Records are read in portions of one size, because JAX would compile every other size
    on its own. Few batches have more than two portions.

    Parameters
    ----------
    batch : Batches
        The array "flat", with the position "first" and the number "sizes" of the
        batch's records in it.
    size : int
        The expected size of a batch, which sets the size of a portion.
    partial_sum : callable
        As in `batch_sum`.

    Returns
    -------
    array
        The sum.
    """
    width = portion_size(size)
    batch_size = batch["sizes"]

    def sum_portion(n_done: Any) -> Any:
        """Sum over the next portion of the batch, after its first `n_done` records."""
        start = (batch["first"] + n_done,)
        numbers = jax.lax.dynamic_slice(batch["flat"], start, (width,))
        return partial_sum(numbers, jnp.arange(width) < batch_size - n_done)

    def add_portion(state: tuple[Any, Any]) -> tuple[Any, Any]:
        """Add the next portion to the state (records that are done, their sum)."""
        n_done, total = state
        return n_done + width, total + sum_portion(n_done)

    def is_unfinished(state: tuple[Any, Any]) -> Any:
        """Return whether the batch has more records than are done."""
        return state[0] < batch_size

    none_done = jnp.zeros((), dtype=batch_size.dtype)
    sum_shape = jax.eval_shape(lambda: sum_portion(0))
    zero = jnp.zeros(sum_shape.shape, sum_shape.dtype)
    _, total = jax.lax.while_loop(is_unfinished, add_portion, (none_done, zero))
    return total


def portion_size(size: int) -> int:
    """Return how many records of a Poisson batch the processor reads at once.

    It is half of the expected size plus two standard deviations, so that most batches
    have at most two portions.

    Parameters
    ----------
    size : int
        The expected size of a batch.

    Returns
    -------
    int
        The number of records of a portion.
    """
    return (size + 2 * math.isqrt(size) + 1) // 2


def poisson_batches(
    randomness: Randomness, n: int, rate: float, steps: int
) -> PoissonBatches:
    """Draw Poisson batches: every record is in every batch with probability `rate`.

    Think of steps·n independent coins in one row, one for each record and each batch.
    Heads means that the record is in the batch. The gaps between heads have a geometric
    distribution, so only the positions of heads are drawn.

    Parameters
    ----------
    randomness : Randomness
        The source of the gaps.
    n : int
        The number of records, or of people.
    rate : float
        The probability of heads, in (0, 1].
    steps : int
        The number of batches.

    Returns
    -------
    PoissonBatches
        The record numbers of all batches. A batch may be empty.
    """
    # The coin at position step·n + record decides about this record in this step.
    n_coins = steps * n
    heads: list[np.ndarray] = []
    position = -1
    while position < n_coins:
        # Draw slightly more gaps than are likely to be needed.
        count = int(1.1 * rate * (n_coins - position)) + 16
        with np.errstate(over="ignore"):  # The rate is public, and may be tiny.
            if rate == 1:
                gaps = np.ones(count)
            else:
                gaps = np.ceil(np.log(randomness.uniform(count)) / np.log1p(-rate))
        # A gap beyond the last coin ends the row, however long it is. It is shortened,
        # because at tiny rates it would not fit into an integer.
        whole_gaps = np.clip(gaps, 1, n_coins + 1).astype(np.int64)
        positions = position + np.cumsum(whole_gaps)
        heads.append(positions)
        position = int(positions[-1])

    # Turn the positions of heads into record numbers and sizes.
    all_heads = np.concatenate(heads)
    all_heads = all_heads[all_heads < n_coins]
    sizes = np.bincount(all_heads // n, minlength=steps)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return PoissonBatches(all_heads % n, first, sizes)


def fixed_batches(randomness: Randomness, n: int, size: int, steps: int) -> np.ndarray:
    """Draw `steps` independent uniform subsets of exactly `size` of n records.

    Parameters
    ----------
    randomness : Randomness
        The source of the draw.
    n : int
        The number of records, or of people.
    size : int
        The number of records in a batch.
    steps : int
        The number of batches.

    Returns
    -------
    array of integers, shape (steps, size)
        Record numbers; each row has no repeats.
    """
    # Large subsets: the positions of the `size` smallest of n uniforms.
    if size * size > n:
        subsets = [
            np.argpartition(randomness.uniform(n), size - 1)[:size]
            for _ in range(steps)
        ]
        return np.stack(subsets)

    # Small subsets: independent record numbers, which seldom repeat. A row without
    # repeats is a uniform ordered subset; the others are drawn again.
    rows = randomness.integers(n, (steps, size))
    while True:
        ordered = np.sort(rows, axis=1)
        has_repeat = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        repeated = np.flatnonzero(has_repeat)
        if not len(repeated):
            return rows
        rows[repeated] = randomness.integers(n, (len(repeated), size))
