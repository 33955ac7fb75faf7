"""Random batches of a descent: the host draws who is in them, JAX sums over them.

A batch is drawn by `draw_batches`, before a chunk of steps is compiled, and summed over
by `batch_sum`, inside the compiled steps.
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

# The batches of a chunk of steps, as arrays of JAX, in one of two forms.
# "rows" of shape (steps, width) has the record numbers of each step. Where "sizes" of
#   shape (steps,) is there too, only so many numbers of each row count.
# "flat" has the record numbers of all steps. Step i has "sizes"[i] of them, from the
#   position "first"[i] on.
Batches = dict[str, Any]


class PoissonBatches(NamedTuple):
    """Poisson batches of several steps, one after the other.

    Attributes
    ----------
    flat : array of integers
        The record numbers of all steps.
    first : array of shape (steps,)
        Where each step's record numbers begin in `flat`.
    sizes : array of shape (steps,)
        How many there are of each step.
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
        If `batch_size` is missing or an integer, or `sampling` is another.
    """
    is_number_of_records = isinstance(batch_size, int | np.integer)
    if sampling != "poisson" or batch_size is None or is_number_of_records:
        raise ParameterError(
            "n is private: give batch_size as a share of the records, such as 0.01, and "
            "sampling='poisson'"
        )
    return _validate.within("batch_size", batch_size, 0, 1, open_low=True)


def check_batch(batch_size: float | None, n: int, sampling: str) -> int:
    """Return a batch size between 1 and n, for a known sampling scheme, or refuse.

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
        If the size is not such an integer, or the scheme is another.
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
        How many records, or people.
    size : int
        The size of a batch, or its expected size.
    steps : int
        How many batches.
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
    is_fixed = sampling_rate is None and (sampling == "fixed-size" or size == n)
    if is_fixed:
        if size == n:
            rows = np.broadcast_to(np.arange(n), (steps, n))
        else:
            rows = fixed_batches(randomness, n, size, steps)
        return {"rows": jnp.asarray(rows, dtype=jnp.int32)}
    rate = size / n if sampling_rate is None else sampling_rate
    drawn = poisson_batches(randomness, n, rate, steps)
    if on_processor():
        return _flat_batches(drawn, size, steps)
    return _padded_batches(drawn, size)


def _padded_batches(drawn: PoissonBatches, size: int) -> Batches:
    """Return Poisson batches as rows of one width, for an accelerator.

    On an accelerator a loop whose length depends on the data would wait for the host at
    every step. The width has room for all but one draw in billions, so chunks of the
    same number of steps share one compiled program.

    Parameters
    ----------
    drawn : PoissonBatches
        The record numbers of all steps, one step after the other.
    size : int
        The expected size of a batch.

    Returns
    -------
    Batches
        "rows" of shape (steps, width), of which row i has "sizes"[i] valid numbers.
    """
    # The standard deviation of a batch's size is at most √size.
    width = max(size + 8 * math.isqrt(size) + 8, int(drawn.sizes.max()))
    padded = np.zeros(len(drawn.flat) + width, dtype=np.int32)
    padded[: len(drawn.flat)] = drawn.flat
    rows = padded[drawn.first[:, None] + np.arange(width)]
    return {"rows": jnp.asarray(rows), "sizes": jnp.asarray(drawn.sizes)}


def _flat_batches(drawn: PoissonBatches, size: int, steps: int) -> Batches:
    """Return Poisson batches one after the other in one array, for the processor.

    The array has room for all but one draw in billions, so chunks of the same number of
    steps share one compiled program. It also has room for the last portion, which
    `batch_sum` reads beyond the end.

    Parameters
    ----------
    drawn : PoissonBatches
        The record numbers of all steps, one step after the other.
    size : int
        The expected size of a batch.
    steps : int
        How many batches were drawn.

    Returns
    -------
    Batches
        "flat", padded with zeros; step i has "sizes"[i] numbers from "first"[i] on.
    """
    # The standard deviation of the number of all record numbers is at most √expected.
    expected = steps * size
    room = max(expected + 7 * math.isqrt(expected) + 7, len(drawn.flat))
    padded = np.zeros(room + portion_size(size), dtype=np.int32)
    padded[: len(drawn.flat)] = drawn.flat
    return {
        "flat": jnp.asarray(padded),
        "first": jnp.asarray(drawn.first),
        "sizes": jnp.asarray(drawn.sizes),
    }


def split_batches(batches: Batches | None) -> tuple[Batches, Batches | None]:
    """Split batches into what all steps share and what each step has of its own.

    A compiled loop over the steps (`jax.lax.scan`) slices what each step has of its
    own, and reads the rest as a whole.

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
    """Sum over the records of one step's batch, for either form of `Batches`.

    It is called inside compiled steps. The number of records that are read at a time is
    fixed, because compiled programs need fixed shapes.

    Parameters
    ----------
    batch : Batches
        The batch of one step: its row or its position, and what all steps share.
    size : int
        The expected size of a batch, which sets how many records are read at once.
    partial_sum : callable
        partial_sum(numbers, is_inside) sums over the records of these numbers, of which
        only those that are inside the batch count.

    Returns
    -------
    array
        The sum, of the shape that `partial_sum` returns.
    """
    if "rows" in batch:
        is_inside: Any = True
        if "sizes" in batch:
            is_inside = jnp.arange(len(batch["rows"])) < batch["sizes"]
        return partial_sum(batch["rows"], is_inside)

    # All portions have one size, since each size is compiled; few batches take more
    # than two portions.
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
    """Return how many records of a Poisson batch the processor takes at once.

    It is half of what a batch has at most, up to two standard deviations: most batches
    then take two portions.

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

    The memberships are steps·n independent coins in one row. The gaps between heads are
    geometric, so only the heads are drawn.

    Parameters
    ----------
    randomness : Randomness
        The source of the coins.
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
    # Coin step·n + record decides whether the record is in the batch of the step.
    n_coins = steps * n
    heads: list[np.ndarray] = []
    position = -1
    while position < n_coins:
        # The next heads, and slightly more than are likely to be needed.
        count = int(1.1 * rate * (n_coins - position)) + 16
        with np.errstate(over="ignore"):  # The rate is public, and may be tiny.
            if rate == 1:
                gaps = np.ones(count)
            else:
                gaps = np.ceil(np.log(randomness.uniform(count)) / np.log1p(-rate))
        # A gap beyond the last coin ends the row, however long it is. Longer ones are
        # cut, because at tiny rates they would not fit into an integer.
        whole_gaps = np.clip(gaps, 1, n_coins + 1).astype(np.int64)
        positions = position + np.cumsum(whole_gaps)
        heads.append(positions)
        position = int(positions[-1])

    coins = np.concatenate(heads)
    coins = coins[coins < n_coins]
    sizes = np.bincount(coins // n, minlength=steps)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return PoissonBatches(coins % n, first, sizes)


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
    if size * size > n:
        # Repeats would be likely: take the places of the `size` smallest of n uniforms.
        subsets = [
            np.argpartition(randomness.uniform(n), size - 1)[:size]
            for _ in range(steps)
        ]
        return np.stack(subsets)
    rows = randomness.integers(n, (steps, size))
    # A row without repeats is a uniform ordered subset; the others are drawn again.
    while True:
        ordered = np.sort(rows, axis=1)
        has_repeat = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        repeated = np.nonzero(has_repeat)[0]
        if not len(repeated):
            return rows
        rows[repeated] = randomness.integers(n, (len(repeated), size))
