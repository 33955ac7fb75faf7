"""Where every random bit comes from: the operating system's entropy, stretched by AES-256 in counter mode.

`SecureSource` is what releases use; it has no seed. `GeneratorSource` wraps a NumPy generator for tests and
simulation; certificates record its `name`, so that a simulated release cannot pass for a private one.
"""

import math
import os
import weakref
from abc import ABC, abstractmethod
from typing import Any, NoReturn

import numpy as np
import scipy
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from curvedp import _validate
from curvedp.errors import NotResolved, ParameterError

_KEY_BYTES = 32
_BLOCK_BYTES = 16
_KEYSTREAM = 1 << 14  # bytes made with one key: an epoch
_ZEROS = bytes(_KEYSTREAM)
EPOCH_BYTES = (
    _KEYSTREAM - _KEY_BYTES
)  # what is left of an epoch when the next key is taken off
# AES is a permutation, so the 2^10 blocks of one epoch are distinct, and uniform blocks need not be: the total
# variation between the two is at most q(q-1)/2^129 (PRP/PRF switching lemma, Bellare & Rogaway 2006, Lemma 1).
EPOCH_DISTANCE = math.ldexp((_KEYSTREAM // _BLOCK_BYTES) ** 2, -129)
_NUMBERS, _EPOCHS = 4096, 512  # of a draw; see `Allowance`

# What certificates call the only source that is private.
SECURE_SOURCE_NAME = "aes-256-ctr-from-os"


class Source(ABC):
    """Uniform random bits, and the float variates made from them.

    Exact samplers use `bits` and `words` only. `uniform` and `normal` are the float path: good enough for simulation
    and noisy optimization, never for a value whose last bits are printed.

    Attributes
    ----------
    name, is_cryptographic : str, bool
        What a certificate calls it, and whether a release may draw from it: whoever has seen any number of outputs still
        cannot predict the next.

    Examples
    --------
    >>> from curvedp.entropy import SecureSource
    >>> 0 <= SecureSource().bits(8) < 256
    True
    """

    name: str
    is_cryptographic: bool

    @abstractmethod
    def random_bytes(self, n: int) -> bytes:
        """n uniform bytes."""

    def refresh(self) -> None:  # noqa: B027  (a source without a key has nothing to mix into)
        """Called once before every release: what comes later shares nothing with an older image of this process."""

    def child(self) -> "Source":
        """Where the later bits of one real number come from; a replayable source gives each real its own stream."""
        return self

    def bits(self, n: int) -> int:
        """A uniform integer in [0, 2^n)."""
        n = _validate.integer("n", n, 0)
        size = (n + 7) // 8
        return int.from_bytes(self.random_bytes(size), "little") >> (8 * size - n)

    def words(self, size: int | tuple[int, ...]) -> np.ndarray:
        """Uniform 64-bit words."""
        shape = size if isinstance(size, tuple) else (size,)
        count = math.prod(shape)
        return (
            np.frombuffer(self.random_bytes(8 * count), dtype="<u8")
            .astype(np.uint64, copy=False)
            .reshape(shape)
        )

    def uniform(
        self, size: int | tuple[int, ...], *, full_precision: bool = False
    ) -> np.ndarray:
        """Doubles in (0, 1), never 0 or 1. By default midpoints of 2^52 equal cells, so that u and 1 - u have the same
        law. With `full_precision`, a real uniform rounded to 53 significant bits however small it is (down to 2^-1000):
        the left tail keeps its digits."""
        cells = (self.words(size) >> np.uint64(12)).astype(np.float64)
        if not full_precision:
            return (cells + 0.5) * 2.0**-52
        # A real uniform has k leading zero bits with probability 2^-(k+1); its next 52 bits are uniform.
        mantissa = 1.0 + (cells + 0.5) * 2.0**-52
        return np.asarray(
            np.ldexp(mantissa, -1 - self._leading_zeros(cells.shape)).clip(
                max=1 - 2.0**-53
            )
        )

    def _leading_zeros(self, shape: tuple[int, ...]) -> np.ndarray:
        zeros = np.zeros(shape, dtype=np.int64)
        open_ = np.ones(shape, dtype=bool)  # runs of zeros that may go on
        while open_.any() and zeros.max() < 960:
            word = self.words(int(open_.sum()))
            # Clear all but the highest set bit before the exact conversion: rounding 2^53 - 1 up would cost a bit.
            high, low = (
                (word >> np.uint64(32)).astype(np.float64),
                (word & np.uint64(0xFFFFFFFF)).astype(np.float64),
            )
            leading = np.where(
                high > 0,
                32 - np.frexp(high)[1],
                np.where(low > 0, 64 - np.frexp(low)[1], 64),
            )
            zeros[open_] += leading
            open_[open_] = leading == 64
        return zeros

    def normal(self, size: int | tuple[int, ...]) -> np.ndarray:
        """Standard normals for the float path: sign times the inverse CDF of a full-precision left-tail uniform. The tail
        keeps all its digits (a 52-bit uniform would stop at 8.1 standard deviations)."""
        tail = self.uniform(size, full_precision=True)
        sign = self.words(tail.shape) >> np.uint64(63)
        return np.asarray(
            np.where(sign == 1, 1.0, -1.0) * scipy.special.ndtri(0.5 * tail)
        )


class SecureSource(Source):
    """Cryptographic bits: AES-256-CTR under a key from the operating system. There is no seed and no way to set one.

    *Guarantees*
    - After a fork, parent and child share no future bit: the child draws a new key before its first bit.
    - A copy or an unpickled object would repeat bits: both raise.
    - An image of this object tells nothing about bits already given out: each byte is erased as it is used, and every
      16 KiB the stream's first 32 bytes replace the key (fast key erasure, Bernstein 2017).
    - `refresh` adds 32 bytes of the operating system to the key, so that a copy of the whole machine (a restored
      snapshot, a clone) repeats no noise of the releases that follow.
    - Threads and signal handlers, at whatever instruction they come, never get the same bytes: whoever asks takes a
      stream out of a list in one atomic step, and makes a new one where there is none.
    - Where AES is an ideal cipher, each 16 KiB is within a total variation of 2^-109 of uniform bytes.

    Examples
    --------
    >>> SecureSource().uniform(3).shape
    (3,)
    """

    name = SECURE_SOURCE_NAME
    is_cryptographic = True

    def __init__(self) -> None:
        self._idle: list[_Stream] = []
        _live_sources.add(self)

    def _stream(self) -> "_Stream":
        try:
            return self._idle.pop()
        except IndexError:  # the first call, or a thread or a signal handler has it
            return _Stream()

    def random_bytes(self, n: int) -> bytes:
        """n uniform bytes."""
        while True:
            stream = self._stream()
            chunk = stream.take(n)
            if (
                stream.pid == os.getpid()
            ):  # else this is a child of a fork that bypassed Python's hooks
                self._idle.append(stream)
                return chunk

    def refresh(self) -> None:
        """Mix fresh bytes of the operating system into the key; see `Source.refresh`."""
        stream = self._stream()
        stream.rekey()
        self._idle[:] = [stream]  # the streams of other threads are dropped

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(
            "a SecureSource cannot be copied or pickled: copies would give the same noise; make a new one"
        )

    __copy__ = __deepcopy__ = __reduce__ = __getstate__ = _refuse

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        self._refuse()

    def __repr__(self) -> str:
        return "SecureSource()"  # never the key


class _Stream:
    """Keystream in the hands of one caller at a time."""

    __slots__ = ("buffer", "key", "pid", "used")

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.key = bytearray(_KEY_BYTES)
        self.buffer = bytearray(_KEYSTREAM)
        self.rekey()

    def rekey(self) -> None:
        """The old key plus, bit by bit, a new one: uniform if either is. What is left of the old stream is erased."""
        mixed = int.from_bytes(self.key, "little") ^ int.from_bytes(
            os.urandom(_KEY_BYTES), "little"
        )
        self.key[:] = mixed.to_bytes(_KEY_BYTES, "little")
        self.buffer[:] = _ZEROS
        self.used = _KEYSTREAM

    def take(self, n: int) -> bytes:
        """The next n bytes, erased here."""
        if n <= _KEYSTREAM - self.used:
            return self._cut(n)
        pieces = [self._cut(_KEYSTREAM - self.used)]
        missing = n - len(pieces[0])
        while missing > 0:
            cipher = Cipher(
                algorithms.AES(bytes(self.key)), modes.CTR(bytes(_BLOCK_BYTES))
            )
            cipher.encryptor().update_into(_ZEROS, self.buffer)
            self.key[:] = self.buffer[:_KEY_BYTES]
            self.buffer[:_KEY_BYTES] = _ZEROS[:_KEY_BYTES]
            self.used = _KEY_BYTES
            pieces.append(self._cut(min(missing, EPOCH_BYTES)))
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def _cut(self, n: int) -> bytes:
        start, self.used = self.used, self.used + n
        chunk = bytes(memoryview(self.buffer)[start : self.used])
        self.buffer[start : self.used] = _ZEROS[:n]
        return chunk


_OF_64_BITS = (np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)


class GeneratorSource(Source):
    """The seam for tests and simulation: bits of a NumPy generator. Reproducible, hence not private.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where the bits come from.

    Examples
    --------
    >>> GeneratorSource(np.random.default_rng(1)).is_cryptographic
    False
    """

    is_cryptographic = False

    def __init__(self, rng: np.random.Generator) -> None:
        if not isinstance(rng, np.random.Generator):
            raise ParameterError(
                "must be a numpy.random.Generator", parameter="rng", value=rng
            )
        self._rng = rng
        self._whole = isinstance(rng.bit_generator, _OF_64_BITS)
        self.name = f"numpy {type(rng.bit_generator).__name__}: for tests and simulation, NOT private"

    def random_bytes(self, n: int) -> bytes:
        """n bytes, as `rng.bytes` gives them; whole words in a tenth of its time."""
        if self._whole and n and n % 8 == 0:
            return bytes(
                self._rng.bit_generator.random_raw(n // 8)
                .astype("<u8", copy=False)
                .tobytes()
            )
        return self._rng.bytes(n)

    def __repr__(self) -> str:
        return f"GeneratorSource({self._rng!r})"


def check_source(source: Any) -> Source:
    """The source to draw from: a new `SecureSource` where none is given; a seed or a NumPy generator is refused. To be called
    before anything is paid."""
    if source is None:
        return SecureSource()
    if not isinstance(source, Source):
        kind = type(source).__name__
        raise ParameterError(
            f"source is a {kind}; it must be a SecureSource, or a GeneratorSource in simulations"
        )
    return source


class Allowance:
    """How many random bytes an exact draw of so many numbers may use, if each trial is accepted with the given
    probability: a public number, from which its τ follows. How many it does use depends on the footpoint (digits are
    asked for until the cell is certain) and on luck (trials), so a τ counted from them would tell about the data. A
    draw of up to 4096 numbers is allowed 512 epochs of the source, hence τ = 512·2^-109 = 2^-100. Half of that is for
    the epochs that are open in other threads. The other half is 4 MiB: at 4096 bits for each of 4096 numbers, more than
    float64 footpoints and the finest grid ask for, or 90 times the expected number of trials at 64 bits. A draw that
    used more would be outside its τ: it is not released. That is less likely than 2^-100."""

    def __init__(self, numbers: int, acceptance: float = 1.0) -> None:
        self._blocks = math.ceil(numbers / (_NUMBERS * acceptance))
        self._used = [0]

    def meter(self, source: Source) -> Source:
        """The same source; what is drawn from it is counted here."""
        return _Metered(source, self._used)

    def tau(self) -> float:
        """The public bound. Raises `NotResolved` if the draw was not within it."""
        if self._used[0] > self._blocks * (_EPOCHS // 2) * EPOCH_BYTES:
            raise NotResolved(
                "a draw used more random bytes than its public bound allows; nothing is released"
            )
        return self._blocks * _EPOCHS * EPOCH_DISTANCE


class _Metered(Source):
    def __init__(self, source: Source, used: list[int]) -> None:
        self.name, self.is_cryptographic = source.name, source.is_cryptographic
        self._source, self._used = source, used

    def random_bytes(self, n: int) -> bytes:
        self._used[0] += n
        return self._source.random_bytes(n)

    def child(self) -> Source:
        return _Metered(self._source.child(), self._used)


_live_sources: "weakref.WeakSet[SecureSource]" = weakref.WeakSet()


def _rekey_after_fork() -> None:
    for source in list(_live_sources):
        source._idle.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_rekey_after_fork)
