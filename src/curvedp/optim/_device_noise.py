"""Standard normals drawn where JAX computes: ChaCha20 (Bernstein 2008) under a key from the operating system.

A processor's own stream makes some 60 million normals a second, which an accelerator waits for. Every call has a key of its
own, used once and not kept; block k has the counter k and the nonce 0. Its 64 bytes make eight normals: a word's last bit is
the sign, the others are a left-tail probability (k + ½)/2^64. The tail ends at 9.2 standard deviations: a total variation of
2^-63 a normal, the float path's own error being larger.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")
_ROUNDS = [
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
]  # columns, then diagonals
_ROUNDS += [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]


@partial(jax.jit, static_argnames="blocks")
def chacha_words(key: Any, blocks: int) -> Any:
    """The first blocks of the key's stream, shape (blocks, 16) of 32-bit words; `key` has 8 of them."""
    counter, zero = jnp.arange(blocks, dtype=jnp.uint32), jnp.zeros(blocks, jnp.uint32)
    start = [
        *(zero + each for each in _CONSTANTS),
        *(zero + each for each in key),
        counter,
        zero,
        zero,
        zero,
    ]
    mixed = jax.lax.fori_loop(
        0, 10, lambda _, state: _double_round(state), tuple(start)
    )
    return jnp.stack([a + b for a, b in zip(mixed, start, strict=True)], axis=-1)


def _double_round(state: tuple[Any, ...]) -> tuple[Any, ...]:
    x = list(state)
    for a, b, c, d in _ROUNDS:
        for first, second, third, turn in (
            (a, b, d, 16),
            (c, d, b, 12),
            (a, b, d, 8),
            (c, d, b, 7),
        ):
            x[first] = x[first] + x[second]
            x[third] = x[third] ^ x[first]
            x[third] = (x[third] << turn) | (x[third] >> (32 - turn))
    return tuple(x)


@partial(jax.jit, static_argnames=("rows", "dim"))
def chacha_normals(key: Any, rows: int, dim: int) -> Any:
    """Standard normals of shape (rows, dim), in double precision."""
    words = chacha_words(key, -(-rows * dim // 8)).reshape(-1, 2).astype(jnp.uint64)
    return _normals(words[: rows * dim, 0] | (words[: rows * dim, 1] << 32)).reshape(
        rows, dim
    )


def _normals(words: Any) -> Any:
    half = jax.scipy.special.ndtri(((words >> 1).astype(jnp.float64) + 0.5) * 2.0**-64)
    return jnp.where(words & 1 == 1, half, -half)
