"""Random batches: who is in them, drawn by the host, and sums over them, taken where JAX computes."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.optim._randomness import Randomness, on_processor

# {"rows": (steps, width)}, with {"sizes"} where a row is filled up to its width; or the ragged form of `poisson_batches`
Batches = dict[str, Any]


def chance_of(batch_size: float | None, sampling: str) -> float:
    """Of a record to be in a batch, public where n is private."""
    if (
        sampling != "poisson"
        or batch_size is None
        or isinstance(batch_size, int | np.integer)
    ):
        line = "n is private: give batch_size as a share of the records, such as 0.01, and sampling='poisson'"
        raise ParameterError(line)
    return _validate.within("batch_size", batch_size, 0, 1, open_low=True)


def check_batch(batch_size: float | None, n: int, sampling: str) -> int:
    """A batch size between 1 and n, for a known sampling scheme."""
    _validate.choice("sampling", sampling, ("poisson", "fixed-size"))
    size = _validate.integer("batch_size", batch_size, 1)
    if size > n:
        raise ParameterError(
            f"is more than the {n} records or persons",
            parameter="batch_size",
            value=size,
        )
    return size


def draw_batches(
    random: Randomness,
    n: int,
    size: int,
    steps: int,
    sampling: str = "poisson",
    chance: float | None = None,
) -> Batches:
    """The record numbers of every step's batch, ready for `batch_sum`; each with `chance`, size/n if it is left out."""
    if chance is None and (sampling == "fixed-size" or size == n):
        every = (
            np.broadcast_to(np.arange(n), (steps, n))
            if size == n
            else fixed_batches(random, n, size, steps)
        )
        return {"rows": jnp.asarray(every, dtype=jnp.int32)}
    flat, first, sizes = poisson_batches(
        random, n, size / n if chance is None else chance, steps
    )
    # Room for all but one draw in billions, so that chunks of the same number of steps share one compiled program.
    if not on_processor():  # there, a loop whose length is data waits for the host at every step: one width for all
        width = max(size + 8 * math.isqrt(size) + 8, int(sizes.max()))
        padded = np.zeros(len(flat) + width, dtype=np.int32)
        padded[: len(flat)] = flat
        return {
            "rows": jnp.asarray(padded[first[:, None] + np.arange(width)]),
            "sizes": jnp.asarray(sizes),
        }
    most = max(steps * size + 7 * math.isqrt(steps * size) + 7, len(flat))
    padded = np.zeros(most + portion_of(size), dtype=np.int32)
    padded[: len(flat)] = flat
    return {
        "flat": jnp.asarray(padded),
        "first": jnp.asarray(first),
        "sizes": jnp.asarray(sizes),
    }


def parted(batches: Batches | None) -> tuple[Batches, Batches | None]:
    """What all steps share of their batches, and what each has of its own."""
    if batches is None:
        return {}, None
    return {k: v for k, v in batches.items() if k == "flat"}, {
        k: v for k, v in batches.items() if k != "flat"
    }


def batch_sum(batch: Batches, size: int, part: Callable[[Any, Any], Any]) -> Any:
    """Σ over a step's batch, for either form of `Batches`; `part` sums over the records of these numbers that are inside."""
    if "rows" in batch:
        inside = (
            jnp.arange(len(batch["rows"])) < batch["sizes"]
            if "sizes" in batch
            else True
        )
        return part(batch["rows"], inside)
    # One size for all portions, since each is compiled; few batches take more than two.
    width = portion_of(size)

    def portion(done: Any) -> Any:
        numbers = jax.lax.dynamic_slice(
            batch["flat"], (batch["first"] + done,), (width,)
        )
        return part(numbers, jnp.arange(width) < batch["sizes"] - done)

    done, kind = (
        jnp.zeros((), dtype=batch["sizes"].dtype),
        jax.eval_shape(lambda: portion(0)),
    )
    return jax.lax.while_loop(
        lambda state: state[0] < batch["sizes"],
        lambda state: (state[0] + width, state[1] + portion(state[0])),
        (done, jnp.zeros(kind.shape, kind.dtype)),
    )[1]


def portion_of(size: int) -> int:
    """How many records of a Poisson batch the processor takes at once."""
    return (size + 2 * math.isqrt(size) + 1) // 2


def poisson_batches(
    random: Randomness, n: int, rate: float, steps: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Poisson batches of `steps` steps as (flat record numbers, first position, size): every record with chance `rate`.

    The steps·n coins are one row of independent coins; the gaps between heads are geometric.
    """
    cells = steps * n
    heads: list[np.ndarray] = []
    position = -1
    while position < cells:
        count = int(1.1 * rate * (cells - position)) + 16
        with np.errstate(over="ignore"):  # of a rate, which is public
            gaps = (
                np.ones(count)
                if rate == 1
                else np.ceil(np.log(random.uniform(count)) / np.log1p(-rate))
            )
        # a gap beyond the last cell ends the row however long it is: at tiny rates it would leave the whole numbers
        run = position + np.cumsum(np.clip(gaps, 1, cells + 1).astype(np.int64))
        heads.append(run)
        position = int(run[-1])
    flat = np.concatenate(heads)
    flat = flat[flat < cells]
    sizes = np.bincount(flat // n, minlength=steps)
    return flat % n, np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes


def fixed_batches(random: Randomness, n: int, size: int, steps: int) -> np.ndarray:
    """`steps` uniform subsets of exactly `size` records, as rows of record numbers."""
    if size * size > n:  # repeats are likely: take the `size` smallest of n uniforms
        return np.stack(
            [np.argpartition(random.uniform(n), size - 1)[:size] for _ in range(steps)]
        )
    rows = random.integers(n, (steps, size))
    while (
        True
    ):  # a row without repeats is a uniform ordered subset; draw the others again
        ordered = np.sort(rows, axis=1)
        bad = np.nonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))[0]
        if not len(bad):
            return rows
        rows[bad] = random.integers(n, (len(bad), size))
