"""Where the noise and the batches of a descent come from."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curvedp.entropy import GeneratorSource, SecureSource, Source
from curvedp.errors import ParameterError
from curvedp.optim._device_noise import chacha_normals
from curvedp.optim._ziggurat import ziggurat_normals

_WORTH_A_PROGRAM = (
    1 << 12
)  # normals: fewer are drawn on the host before a program for them is compiled


def on_processor() -> bool:
    """Whether JAX computes on the host: small blocks fit its cache, and loops whose length is data cost nothing there."""
    return bool(jax.default_backend() == "cpu")


class _ThereToo(SecureSource):
    """A source of keys for noise that an accelerator draws."""

    name = f"ChaCha20 on the accelerator, keyed by {SecureSource.name}"


class Randomness:
    """Normals, uniforms and integers from the operating system's stream, a NumPy generator, or a JAX key.

    Only the first is private in production; the others are for simulation. Its normals are drawn on the host, or many at a
    time on an accelerator, by ChaCha20 under a key of the stream. A JAX key's normals are drawn where JAX computes,
    row by row from the key folded with the row's number; its batches by a NumPy generator seeded from it.
    """

    def __init__(self, rng: Any) -> None:
        self._generator: Any = None  # or a source
        self._source: Source | None = None
        self._key, self._rows = None, 0
        if rng is None:
            self._source = SecureSource()
        elif isinstance(rng, Source):
            self._source = rng
        elif isinstance(rng, np.random.Generator):
            self._generator = rng
        elif isinstance(rng, jax.Array) and (
            rng.dtype == np.uint32 or jnp.issubdtype(rng.dtype, jax.dtypes.prng_key)
        ):
            key = (
                jax.random.wrap_key_data(rng)
                if rng.dtype == np.uint32 and rng.shape == (2,)
                else rng
            )
            if key.ndim:
                raise ParameterError(
                    f"rng is an array of shape {key.shape}; it must be one JAX key"
                )
            self._key, seed = jax.random.split(key)
            self._generator = np.random.default_rng(
                np.asarray(jax.random.bits(seed, (8,), "uint32")).tolist()
            )
        else:
            known = "None (cryptographic), a NumPy generator or a JAX key"
            raise ParameterError(f"must be {known}", parameter="rng", value=rng)

    @property
    def source(self) -> Source:
        """What a certificate names: the source, or that it was a simulation."""
        return (
            GeneratorSource(np.random.default_rng(0))
            if self._source is None
            else self._source
        )

    def normal(self, rows: int, dim: int) -> Any:
        """Standard normals of shape (rows, dim)."""
        if (
            isinstance(self._source, SecureSource)
            and not on_processor()
            and rows * dim >= _WORTH_A_PROGRAM
        ):
            self._source = (
                self._source if isinstance(self._source, _ThereToo) else _ThereToo()
            )
            return chacha_normals(self._source.words(4).view(np.uint32), rows, dim)
        if self._source is not None:
            return ziggurat_normals(self._source, (rows, dim))
        if self._key is None:
            return self._generator.standard_normal((rows, dim))
        first, self._rows = self._rows, self._rows + rows
        return _normal_rows(self._key, np.arange(first, first + rows), dim)

    def noisy(self, count: int, noise: float) -> float:
        """A count with noise of this standard deviation, at least 1."""
        return max(count + noise * float(np.asarray(self.normal(1, 1))[0, 0]), 1.0)

    def uniform(self, size: int) -> np.ndarray:
        """Uniforms in (0, 1)."""
        if self._source is not None:
            return self._source.uniform(size)
        return np.asarray(np.clip(self._generator.random(size), 2.0**-54, 1 - 2.0**-54))

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """Uniform integers below `high`."""
        if self._source is None:
            return np.asarray(self._generator.integers(high, size=shape))
        # 64 bits modulo n is off from uniform by n/2^64 in total variation, below 2^-30 for any n that fits in memory.
        return np.asarray(self._source.words(shape) % np.uint64(high), dtype=np.int64)


@partial(jax.jit, static_argnames="dim")
def _normal_rows(key: Any, numbers: Any, dim: int) -> Any:
    return jax.vmap(
        lambda number: jax.random.normal(
            jax.random.fold_in(key, number), dim, "float64"
        )
    )(numbers)
