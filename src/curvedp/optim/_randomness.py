"""Where the noise and the batches of a descent come from: one class for all sources."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curvedp.errors import ParameterError
from curvedp.optim._device_noise import chacha_normals
from curvedp.optim._ziggurat import ziggurat_normals
from curvedp.randomness import GeneratorSource, SecureSource, Source

# How many normals are worth compiling a program for an accelerator; fewer are drawn on
# the host.
_MIN_DEVICE_NORMALS = 1 << 12


def on_processor() -> bool:
    """Return whether JAX computes on the host.

    There small blocks fit the cache, and loops whose length is data cost nothing.
    """
    return bool(jax.default_backend() == "cpu")


class AcceleratorSource(SecureSource):
    """A source of keys for noise that an accelerator draws; certificates name it."""

    name = f"ChaCha20 on the accelerator, keyed by {SecureSource.name}"


class Randomness:
    """Normals, uniforms and integers from one source of random bits.

    Parameters
    ----------
    rng : None, Source, numpy.random.Generator or JAX key
        None for the operating system's stream, the only one that is private in
        production; the others are for simulation. Normals of the system's stream are
        drawn on the host, or many at a time on an accelerator, by ChaCha20 under a key
        of the stream. Normals of a JAX key are drawn where JAX computes, row by row
        from the key folded with the row's number; its batches are drawn by a NumPy
        generator seeded from it.
    """

    def __init__(self, rng: Any) -> None:
        self._source: Source | None = None
        self._generator: Any = None
        self._key: Any = None
        # How many rows of normals were drawn by the JAX key.
        self._n_key_rows = 0

        if rng is None:
            self._source = SecureSource()
        elif isinstance(rng, Source):
            self._source = rng
        elif isinstance(rng, np.random.Generator):
            self._generator = rng
        elif _is_jax_key(rng):
            self._key, seed_key = jax.random.split(_single_key(rng))
            seed_words = np.asarray(jax.random.bits(seed_key, (8,), "uint32"))
            self._generator = np.random.default_rng(seed_words.tolist())
        else:
            raise ParameterError(
                "must be None (cryptographic), a NumPy generator or a JAX key",
                parameter="rng",
                value=rng,
            )

    @property
    def source(self) -> Source:
        """The source that a certificate names, or one that says it was a simulation."""
        if self._source is None:
            return GeneratorSource(np.random.default_rng(0))
        return self._source

    def normal(self, rows: int, dim: int) -> Any:
        """Draw standard normals of shape (rows, dim)."""
        is_many = rows * dim >= _MIN_DEVICE_NORMALS
        if isinstance(self._source, SecureSource) and is_many and not on_processor():
            if not isinstance(self._source, AcceleratorSource):
                self._source = AcceleratorSource()
            key = self._source.words(4).view(np.uint32)
            return chacha_normals(key, rows, dim)
        if self._source is not None:
            return ziggurat_normals(self._source, (rows, dim))
        if self._key is None:
            return self._generator.standard_normal((rows, dim))
        row_numbers = np.arange(self._n_key_rows, self._n_key_rows + rows)
        self._n_key_rows += rows
        return _normal_rows(self._key, row_numbers, dim)

    def noisy_count(self, count: int, noise: float) -> float:
        """Return a count with noise of this standard deviation, but at least 1."""
        standard_normal = float(np.asarray(self.normal(1, 1))[0, 0])
        return max(count + noise * standard_normal, 1.0)

    def uniform(self, size: int) -> np.ndarray:
        """Draw uniforms in the open interval (0, 1)."""
        if self._source is not None:
            return self._source.uniform(size)
        drawn = self._generator.random(size)
        return np.asarray(np.clip(drawn, 2.0**-54, 1 - 2.0**-54))

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """Draw uniform integers from 0 to high − 1."""
        if self._source is None:
            return np.asarray(self._generator.integers(high, size=shape))
        # 64 bits modulo n are off from uniform by n/2^64 in total variation, which is
        # below 2^-30 for any n that fits in memory.
        words = self._source.words(shape)
        return np.asarray(words % np.uint64(high), dtype=np.int64)


def _is_jax_key(rng: Any) -> bool:
    """Return whether this is a key of JAX, of the new kind or as raw words."""
    return isinstance(rng, jax.Array) and bool(
        rng.dtype == np.uint32 or jnp.issubdtype(rng.dtype, jax.dtypes.prng_key)
    )


def _single_key(rng: Any) -> Any:
    """Return one JAX key of the new kind, or refuse an array of keys."""
    is_raw = rng.dtype == np.uint32 and rng.shape == (2,)
    key = jax.random.wrap_key_data(rng) if is_raw else rng
    if key.ndim:
        raise ParameterError(
            f"rng is an array of shape {key.shape}; it must be one JAX key"
        )
    return key


@partial(jax.jit, static_argnames="dim")
def _normal_rows(key: Any, row_numbers: Any, dim: int) -> Any:
    """Draw one row of normals for each number, by the key folded with that number.

    A row depends on its number alone, however many rows are drawn at once.
    """

    def normal_row(number: Any) -> Any:
        return jax.random.normal(jax.random.fold_in(key, number), dim, "float64")

    return jax.vmap(normal_row)(row_numbers)
