"""Standard normals drawn where JAX computes, by the stream cipher ChaCha20. An
accelerator would wait for normals from the processor, which makes some 60 million a
second. So it computes a stream of random words itself (Bernstein 2008), from a key of
256 bits that the operating system draws.

Every call has a key of its own, which is used once and not kept; block k of the stream
has the counter k and the nonce 0. The 64 bytes of a block give eight normals: the last
bit of a 64-bit word is the sign, the others are a left-tail probability (k + ½)/2^64.
The tail ends at 9.2 standard deviations. This changes the distribution of a normal by
2^-63 in total variation, which is less than the rounding of doubles does.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# The first four words of ChaCha's state (RFC 8439, Section 2.3).
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")

# The words that each quarter round of a double round mixes: the columns of the state,
# then its diagonals (RFC 8439, Section 2.3.1).
_COLUMNS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
_DIAGONALS = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]

# ChaCha20 has 20 rounds, which are ten double rounds.
_DOUBLE_ROUNDS = 10


@partial(jax.jit, static_argnames="blocks")
def chacha_words(key: Any, blocks: int) -> Any:
    """Return the first blocks of the ChaCha20 stream of a key.

    Parameters
    ----------
    key : array of 8 words of 32 bits
        The key, which determines the stream.
    blocks : int
        The number of blocks of 64 bytes.

    Returns
    -------
    array of shape (blocks, 16)
        Words of 32 bits; each row is one block.
    """
    # The state of a block: four constants, eight words of the key, the number of the
    # block, and a nonce of three words, here 0. All blocks are computed side by side.
    counter = jnp.arange(blocks, dtype=jnp.uint32)
    zero = jnp.zeros(blocks, jnp.uint32)
    constants = [zero + word for word in _CONSTANTS]
    key_words = [zero + word for word in key]
    start = (*constants, *key_words, counter, zero, zero, zero)

    def double_round(_: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the mixed state; the number of the round is not used."""
        return _double_round(state)

    mixed = jax.lax.fori_loop(0, _DOUBLE_ROUNDS, double_round, start)
    words = [a + b for a, b in zip(mixed, start, strict=True)]
    return jnp.stack(words, axis=-1)


def _double_round(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return ChaCha's state after a round of its columns and one of its diagonals.

    Each of these rounds consists of four quarter rounds. A quarter round adds, xors and
    rotates four words, four times (RFC 8439, Section 2.1).

    Parameters
    ----------
    state : tuple of 16 arrays of uint32
        The words of the state; each array has one entry for each block.

    Returns
    -------
    tuple of 16 arrays of uint32
        The mixed words.
    """
    x = list(state)
    for a, b, c, d in _COLUMNS + _DIAGONALS:
        # Each operation: x[target] += x[addend], then x[mixed] is xored with x[target]
        # and rotated.
        operations = ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7))
        for target, addend, mixed, rotation in operations:
            x[target] = x[target] + x[addend]
            x[mixed] = x[mixed] ^ x[target]
            x[mixed] = (x[mixed] << rotation) | (x[mixed] >> (32 - rotation))
    return tuple(x)


@partial(jax.jit, static_argnames=("rows", "dim"))
def chacha_normals(key: Any, rows: int, dim: int) -> Any:
    """Draw standard normals of shape (rows, dim), in double precision, from a key.

    Parameters
    ----------
    key : array of 8 words of 32 bits
        A key that no other call uses: the same key gives the same normals.
    rows : int
        The number of rows.
    dim : int
        The length of a row.

    Returns
    -------
    array of shape (rows, dim)
        Independent normals, where JAX computes.
    """
    count = rows * dim
    n_blocks = -(-count // 8)  # rounded up; a block of 16 words gives 8 normals

    # Two words of 32 bits make one of 64.
    halves = chacha_words(key, n_blocks).reshape(-1, 2).astype(jnp.uint64)
    words = halves[:count, 0] | (halves[:count, 1] << 32)
    return _normals(words).reshape(rows, dim)


def _normals(words: Any) -> Any:
    """Return one standard normal for each random word of 64 bits.

    The last bit is the sign. The other 63 bits are the number of one of 2^63 cells of
    the interval (0, ½): the middle of the cell is a left-tail probability, to which the
    quantile function is applied.

    Parameters
    ----------
    words : array of uint64
        Independent uniform words.

    Returns
    -------
    array of float64
        Normals, of the shape of `words`.
    """
    probability = ((words >> 1).astype(jnp.float64) + 0.5) * 2.0**-64
    left_tail = jax.scipy.special.ndtri(probability)
    is_left = words & 1 == 1
    return jnp.where(is_left, left_tail, -left_tail)
