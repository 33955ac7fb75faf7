"""The source of noise and batches of a private descent: one class for all kinds of it.
Noise of a release comes from the operating system's cryptographic stream. Simulations
may use a NumPy generator or a JAX key instead. `Randomness` draws normals, uniforms and
integers from any of these.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curvedp.errors import ParameterError
from curvedp.optim._device_noise import chacha_normals
from curvedp.optim._ziggurat import ziggurat_normals
from curvedp.randomness import GeneratorSource, SecureSource, Source

# Fewer normals than this are drawn on the host, because compiling a program for an
# accelerator would take longer.
_MIN_DEVICE_NORMALS = 1 << 12


def on_processor() -> bool:
    """Return whether JAX computes on the host, and not on an accelerator.

    On the host, small blocks of records fit into the cache, and loops whose length
    depends on data are as fast as others. On an accelerator such a loop would wait for
    the host in every round.

    Returns
    -------
    bool
        True if JAX's default device is a CPU.
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
        """Choose how to draw, by the kind of `rng`.

        Raises
        ------
        ParameterError
            If `rng` is of another kind, such as a seed.
        """
        # Either `_source` is set, or `_generator`, or `_generator` for batches and
        # `_key` for normals.
        self._source: Source | None = None
        self._generator: Any = None
        self._key: Any = None
        # How many rows of normals were drawn with the JAX key.
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
        """Draw standard normals: one row for each step of a descent.

        Many normals of the operating system's stream are drawn on the accelerator, if
        there is one. From then on certificates name that source.

        Parameters
        ----------
        rows : int
            The number of rows.
        dim : int
            The length of a row.

        Returns
        -------
        array of shape (rows, dim)
            Independent normals in double precision, of NumPy or JAX.
        """
        # Many normals of the system's stream: on the accelerator, under a fresh key.
        is_many = rows * dim >= _MIN_DEVICE_NORMALS
        uses_accelerator = is_many and not on_processor()
        if uses_accelerator and isinstance(self._source, SecureSource):
            if not isinstance(self._source, AcceleratorSource):
                self._source = AcceleratorSource()
            key = self._source.words(4).view(np.uint32)
            return chacha_normals(key, rows, dim)
        if self._source is not None:
            return ziggurat_normals(self._source, (rows, dim))
        if self._key is None:
            return self._generator.standard_normal((rows, dim))

        # A JAX key: row by row, by the number of the row among all that were drawn.
        row_numbers = np.arange(self._n_key_rows, self._n_key_rows + rows)
        self._n_key_rows += rows
        return _normal_rows(self._key, row_numbers, dim)

    def noisy_count(self, count: int, noise: float) -> float:
        """Return a count of records with Gaussian noise, raised to at least 1.

        The optimizer divides noisy sums by it where the number of records is private.

        Parameters
        ----------
        count : int
            The private number of records, or of people.
        noise : float
            The standard deviation of the noise.

        Returns
        -------
        float
            The noisy count, >= 1.
        """
        standard_normal = float(np.asarray(self.normal(1, 1))[0, 0])
        return max(count + noise * standard_normal, 1.0)

    def uniform(self, size: int) -> np.ndarray:
        """Draw uniforms in the open interval (0, 1), for Poisson batches and subsets.

        Parameters
        ----------
        size : int
            The number of draws.

        Returns
        -------
        array of shape (size,)
            Independent uniforms, never 0 or 1.
        """
        if self._source is not None:
            return self._source.uniform(size)
        drawn = self._generator.random(size)
        return np.asarray(np.clip(drawn, 2.0**-54, 1 - 2.0**-54))

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """Draw uniform integers from 0 to high − 1, for batches of fixed size.

        Parameters
        ----------
        high : int
            The number of different integers, such as the number of records.
        shape : tuple of int
            The shape of the result.

        Returns
        -------
        array of int64
            Independent integers.
        """
        if self._source is None:
            return np.asarray(self._generator.integers(high, size=shape))
        # 64 bits modulo n are off from uniform by n/2^64 in total variation, which is
        # below 2^-30 for any n that fits in memory.
        words = self._source.words(shape)
        return np.asarray(words % np.uint64(high), dtype=np.int64)


def _is_jax_key(rng: Any) -> bool:
    """Return whether an object is a key of JAX's random generators.

    Called by `Randomness` to tell the kinds of random sources apart.

    Parameters
    ----------
    rng : object
        The argument `rng` of the user.

    Returns
    -------
    bool
        True for a typed key, and for an array of 32-bit words, which is a raw key.
    """
    return isinstance(rng, jax.Array) and bool(
        rng.dtype == np.uint32 or jnp.issubdtype(rng.dtype, jax.dtypes.prng_key)
    )


def _single_key(rng: Any) -> Any:
    """Return a JAX key as a typed key, or refuse an array of keys.

    Called by `Randomness` for a key of the user.

    Parameters
    ----------
    rng : JAX array
        A typed key, or the two words of a raw key.

    Returns
    -------
    JAX key
        One typed key.

    Raises
    ------
    ParameterError
        If it is an array of several keys, or of other words.
    """
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

    A row depends on its number alone, however many rows are drawn at once. So a
    simulation is the same on machines with more or less memory.

    Parameters
    ----------
    key : JAX key
        The key of the whole run.
    row_numbers : array of int
        The numbers of the rows, among all rows of the run.
    dim : int
        The length of a row.

    Returns
    -------
    array of shape (n_rows, dim)
        Independent standard normals.
    """

    def normal_row(number: Any) -> Any:
        """Draw the row of one number."""
        return jax.random.normal(jax.random.fold_in(key, number), dim, "float64")

    return jax.vmap(normal_row)(row_numbers)
