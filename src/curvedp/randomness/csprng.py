"""The source of every random bit: the operating system's entropy, stretched by the
cipher AES-256. `SecureSource` is what releases use; it has no seed and cannot be
copied. `GeneratorSource` wraps a NumPy generator, for tests and simulation.

Certificates record the `name` of the source, so that a simulated release cannot pass
for a private one.
"""

import math
import os
import sys
import weakref
from abc import ABC, abstractmethod
from typing import Any, NoReturn

import numpy as np
import scipy
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from curvedp import _validate
from curvedp.errors import NotResolved, ParameterError

# Bytes of a key and of a cipher block of AES-256.
_KEY_BYTES = 32
_BLOCK_BYTES = 16

# Bytes made with one key, which is called an epoch.
_KEYSTREAM_BYTES = 1 << 14
_ZEROS = bytes(_KEYSTREAM_BYTES)

# Bytes of an epoch that are given out: the first 32 are the next key.
EPOCH_BYTES = _KEYSTREAM_BYTES - _KEY_BYTES

# Total variation between the bytes of one epoch and uniform bytes. AES is a
# permutation, so the q = 2^10 blocks of an epoch are distinct, and uniform blocks need
# not be: the distance is at most q(q-1)/2^129 (PRP/PRF switching lemma, Bellare &
# Rogaway 2006, Lemma 1).
EPOCH_DISTANCE = math.ldexp((_KEYSTREAM_BYTES // _BLOCK_BYTES) ** 2, -129)

# An exact draw of up to 4096 numbers may use 512 epochs; see `Allowance`, which proves
# that this suffices. Both numbers determine τ = 2^-100, and the tests of `Allowance`
# and the certificates state it.
_NUMBERS_PER_BLOCK = 4096
_EPOCHS_PER_BLOCK = 512

# The most leading zero bits of a full-precision uniform, which is then about 2^-1000:
# still a normal float64.
_MAX_LEADING_ZEROS = 960

# What certificates call the only source that is private.
SECURE_SOURCE_NAME = "aes-256-ctr-from-os"


class Source(ABC):
    """Uniform random bits, and the float variates made from them.

    Exact samplers use `bits` and `words` only. `uniform` and `normal` are the float
    path: good enough for simulation and noisy optimization, never for a value whose
    last bits are printed.

    Attributes
    ----------
    name : str
        The name of the source in a certificate.
    is_cryptographic : bool
        Whether a release may draw from it: whoever has seen any number of outputs still
        cannot predict the next.

    Examples
    --------
    >>> from curvedp.randomness import SecureSource
    >>> 0 <= SecureSource().bits(8) < 256
    True
    """

    name: str
    is_cryptographic: bool

    @abstractmethod
    def random_bytes(self, n: int) -> bytes:
        """Return n independent uniform bytes. All other variates are made from them.

        Parameters
        ----------
        n : int
            The number of bytes, not negative.

        Returns
        -------
        bytes
            Bytes that no other call returns again.
        """

    def refresh(self) -> None:  # noqa: B027  (a source without a key has nothing to mix into)
        """Mix in fresh entropy; called once before every release.

        What is drawn afterwards cannot be computed from an older image of this process.
        """

    def child(self) -> "Source":
        """Return the source of the later bits of one real number.

        Exact samplers draw a real number's first bits, and later bits only if a
        comparison needs them. A replayable source may return a separate stream for each
        real number. Then its later bits do not depend on how many bits other numbers
        have needed.

        Returns
        -------
        Source
            By default this source itself.
        """
        return self

    def bits(self, n: int) -> int:
        """Return a uniform integer in [0, 2^n).

        Parameters
        ----------
        n : int
            The number of bits, not negative.

        Returns
        -------
        int
            The integer; 0 for n = 0.
        """
        n = _validate.integer("n", n, 0)
        size = (n + 7) // 8
        surplus_bits = 8 * size - n
        return int.from_bytes(self.random_bytes(size), "little") >> surplus_bits

    def words(self, size: int | tuple[int, ...]) -> np.ndarray:
        """Return uniform 64-bit words as an array of uint64.

        Parameters
        ----------
        size : int or tuple of int
            The shape.

        Returns
        -------
        array of uint64
            Independent words, each uniform on 0, …, 2^64 − 1.
        """
        shape = size if isinstance(size, tuple) else (size,)
        n_words = math.prod(shape)
        words = np.frombuffer(self.random_bytes(8 * n_words), dtype="<u8")
        return words.astype(np.uint64, copy=False).reshape(shape)

    def uniform(
        self, size: int | tuple[int, ...], *, full_precision: bool = False
    ) -> np.ndarray:
        """Return float64 uniforms in (0, 1), never 0 or 1.

        Parameters
        ----------
        size : int or tuple of int
            The shape.
        full_precision : bool
            By default the values are midpoints of 2^52 equal cells, so that u and 1 − u
            have the same law. With full precision, a real uniform is rounded to 53
            significant bits however small it is (down to 2^-1000): the left tail keeps
            its digits.

        Returns
        -------
        array of float64
            Independent uniforms.
        """
        # The first 52 bits of a word are the number of one of 2^52 cells.
        cells = (self.words(size) >> np.uint64(12)).astype(np.float64)
        if not full_precision:
            return (cells + 0.5) * 2.0**-52

        # A real uniform has k leading zero bits with probability 2^-(k+1). Then follow a
        # one and uniform bits, of which 52 are used.
        mantissa = 1.0 + (cells + 0.5) * 2.0**-52
        values = np.ldexp(mantissa, -1 - self._leading_zeros(cells.shape))
        # The largest float below 1, where rounding would give 1.
        return np.asarray(values.clip(max=1 - 2.0**-53))

    def _leading_zeros(self, shape: tuple[int, ...]) -> np.ndarray:
        """Draw the numbers of leading zero bits of independent uniform reals.

        A uniform real with k leading zero bits lies between 2^-(k+1) and 2^-k. So these
        numbers are the exponents of full-precision uniforms.

        Parameters
        ----------
        shape : tuple of int
            The shape of the result.

        Returns
        -------
        array of int64
            Each is k with probability 2^-(k+1). The search ends at about 960 zero bits,
            which never occur in practice.
        """
        zeros = np.zeros(shape, dtype=np.int64)
        is_zero_so_far = np.ones(shape, dtype=bool)
        while is_zero_so_far.any() and zeros.max() < _MAX_LEADING_ZEROS:
            next_words = self.words(int(is_zero_so_far.sum()))
            word_zeros = _leading_zeros_of_words(next_words)
            zeros[is_zero_so_far] += word_zeros
            is_zero_so_far[is_zero_so_far] = word_zeros == 64
        return zeros

    def normal(self, size: int | tuple[int, ...]) -> np.ndarray:
        """Return float64 standard normals of the given shape.

        They are a random sign times the inverse CDF of a full-precision left-tail
        uniform, so that the tail keeps all its digits (a 52-bit uniform would stop at
        8.1 standard deviations).

        Parameters
        ----------
        size : int or tuple of int
            The shape.

        Returns
        -------
        array of float64
            Independent normals.
        """
        tail = self.uniform(size, full_precision=True)
        first_bit = self.words(tail.shape) >> np.uint64(63)
        sign = np.where(first_bit == 1, 1.0, -1.0)
        return np.asarray(sign * scipy.special.ndtri(0.5 * tail))


def _leading_zeros_of_words(words: np.ndarray) -> np.ndarray:
    """Return the number of leading zero bits of each 64-bit word.

    Each half is converted to float64 exactly. A conversion of the whole word could
    round 2^53 − 1 up, which would cost a bit.

    Called by `Source._leading_zeros`, which draws the exponents of floats.

    Parameters
    ----------
    words : array of uint64
        The words.

    Returns
    -------
    array of int
        Numbers from 0 to 64; 64 for the word 0.
    """
    # `frexp` returns the number of significant bits of a whole number.
    high_half = (words >> np.uint64(32)).astype(np.float64)
    low_half = (words & np.uint64(0xFFFFFFFF)).astype(np.float64)
    zeros_from_high = 32 - np.frexp(high_half)[1]
    zeros_from_low = np.where(low_half > 0, 64 - np.frexp(low_half)[1], 64)
    return np.where(high_half > 0, zeros_from_high, zeros_from_low)


class SecureSource(Source):
    """Cryptographic bits: AES-256-CTR under a key from the operating system.

    There is no seed and no way to set one.

    *Guarantees*
    - After a fork, parent and child share no future bit: the child draws a new key
      before its first bit.
    - A copy or an unpickled object would repeat bits: both raise.
    - An image of this object tells nothing about bits already given out: each byte is
      erased as it is used, and every 16 KiB the stream's first 32 bytes replace the key
      (fast key erasure, Bernstein 2017).
    - `refresh` adds 32 bytes of the operating system to the key, so that a copy of the
      whole machine (a restored snapshot, a clone) repeats no noise of the releases that
      follow.
    - Threads and signal handlers, at whatever instruction they come, never get the same
      bytes: each caller takes a stream out of a list in one atomic step, and makes a
      new one where there is none.
    - Where AES is an ideal cipher, each 16 KiB is within a total variation of 2^-109 of
      uniform bytes.

    Examples
    --------
    >>> SecureSource().uniform(3).shape
    (3,)
    """

    name = SECURE_SOURCE_NAME
    is_cryptographic = True

    def __init__(self) -> None:
        """Start without a keystream; the first draw makes one."""
        # Streams that no caller is using. Taking one out is a single atomic step.
        self._idle: list[_KeyStream] = []
        _live_sources.add(self)

    def _take_stream(self) -> "_KeyStream":
        """Take a keystream out of the list of idle ones, or make a new one.

        Called for every draw of bytes.

        Returns
        -------
        _KeyStream
            The stream. The caller owns it until it puts it back into the list.
        """
        try:
            return self._idle.pop()
        except IndexError:
            # This is the first call, or a thread or a signal handler has the stream.
            return _KeyStream()

    def random_bytes(self, n: int) -> bytes:
        """Return n uniform bytes, taken from an idle stream of this process.

        Parameters
        ----------
        n : int
            The number of bytes.

        Returns
        -------
        bytes
            The bytes; this object keeps no copy of them.
        """
        while True:
            stream = self._take_stream()
            chunk = stream.take(n)
            # In a child of a fork that bypassed Python's hooks the stream is dropped,
            # because the parent has the same one.
            if stream.pid == os.getpid():
                self._idle.append(stream)
                return chunk

    def refresh(self) -> None:
        """Mix fresh bytes of the operating system into the key, before a release.

        A restored snapshot or a clone of the machine then repeats no noise.
        """
        stream = self._take_stream()
        stream.rekey()
        # The streams of other threads are dropped.
        self._idle[:] = [stream]

    def _refuse_to_copy(self, *_: Any) -> NoReturn:
        """Raise an error, because a copy would give the same bits again.

        This method replaces all methods by which Python copies or pickles an object.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError(
            "a SecureSource cannot be copied or pickled: copies would give the same "
            "noise; make a new one"
        )

    __copy__ = __deepcopy__ = __reduce__ = __getstate__ = _refuse_to_copy

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled, whatever the protocol."""
        self._refuse_to_copy()

    def __repr__(self) -> str:
        """Return a text that does not show the key."""
        return "SecureSource()"


class _KeyStream:
    """A stream of bytes made by AES-256 from a key, owned by one caller at a time.

    The bytes made with one key are an epoch. The first 32 of them are the key of the
    next epoch.

    Attributes
    ----------
    pid : int
        The process that made it.
    key : bytearray
        The key of the next epoch.
    buffer : bytearray
        The bytes of this epoch; those that were given out are zero.
    used : int
        How many bytes of the buffer were given out.
    """

    __slots__ = ("buffer", "key", "pid", "used")

    def __init__(self) -> None:
        """Make a stream for this process, with a key of the operating system."""
        self.pid = os.getpid()
        self.key = bytearray(_KEY_BYTES)
        self.buffer = bytearray(_KEYSTREAM_BYTES)
        self.rekey()

    def rekey(self) -> None:
        """Mix a new key of the operating system into the key, and erase the buffer.

        The exclusive or of two independent keys is uniform if either of them is.
        """
        old_key = int.from_bytes(self.key, "little")
        new_key = int.from_bytes(os.urandom(_KEY_BYTES), "little")
        self.key[:] = (old_key ^ new_key).to_bytes(_KEY_BYTES, "little")
        self.buffer[:] = _ZEROS
        self.used = _KEYSTREAM_BYTES

    def take(self, n: int) -> bytes:
        """Return the next n bytes of the stream, and erase them here.

        Starts as many new epochs, each with a new key, as n bytes need.

        Parameters
        ----------
        n : int
            The number of bytes.

        Returns
        -------
        bytes
            The bytes.
        """
        if n <= _KEYSTREAM_BYTES - self.used:
            return self._take_from_epoch(n)
        # The rest of this epoch, and then as many epochs as it takes.
        chunks = [self._take_from_epoch(_KEYSTREAM_BYTES - self.used)]
        missing = n - len(chunks[0])
        while missing > 0:
            self._start_epoch()
            chunks.append(self._take_from_epoch(min(missing, EPOCH_BYTES)))
            missing -= len(chunks[-1])
        return b"".join(chunks)

    def _start_epoch(self) -> None:
        """Fill the buffer with 16 KiB of the keystream of the current key.

        The first 32 bytes become the next key and are never given out. They overwrite
        the old key, so that earlier bytes cannot be computed again.
        """
        counter_mode = modes.CTR(bytes(_BLOCK_BYTES))
        cipher = Cipher(algorithms.AES(bytes(self.key)), counter_mode)
        cipher.encryptor().update_into(_ZEROS, self.buffer)
        self.key[:] = self.buffer[:_KEY_BYTES]
        self.buffer[:_KEY_BYTES] = _ZEROS[:_KEY_BYTES]
        self.used = _KEY_BYTES

    def _take_from_epoch(self, n: int) -> bytes:
        """Return and erase the next n bytes of the buffer, which must have them.

        Parameters
        ----------
        n : int
            The number of bytes. This epoch must have as many that were not given out.

        Returns
        -------
        bytes
            The bytes.
        """
        # The position moves first: a signal handler then never gets the same bytes.
        start = self.used
        self.used = start + n
        chunk = bytes(memoryview(self.buffer)[start : self.used])
        self.buffer[start : self.used] = _ZEROS[:n]
        return chunk


# Bit generators whose raw output is 64 uniform bits.
_64_BIT_GENERATORS = (
    np.random.PCG64,
    np.random.PCG64DXSM,
    np.random.Philox,
    np.random.SFC64,
)


class GeneratorSource(Source):
    """The bits of a NumPy generator, for tests and simulation.

    They are reproducible, hence not private.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of the bits.

    Examples
    --------
    >>> GeneratorSource(np.random.default_rng(1)).is_cryptographic
    False
    """

    is_cryptographic = False

    def __init__(self, rng: np.random.Generator) -> None:
        """Store the generator, and name it for certificates.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the bits.

        Raises
        ------
        ParameterError
            If it is not a NumPy generator.
        """
        if not isinstance(rng, np.random.Generator):
            raise ParameterError(
                "must be a numpy.random.Generator", parameter="rng", value=rng
            )
        self._rng = rng
        self._has_64_bit_output = isinstance(rng.bit_generator, _64_BIT_GENERATORS)
        generator_name = type(rng.bit_generator).__name__
        self.name = f"numpy {generator_name}: for tests and simulation, NOT private"

    def random_bytes(self, n: int) -> bytes:
        """Return n bytes, the same as `rng.bytes` gives.

        Whole words are taken from the bit generator, in a tenth of the time.

        Parameters
        ----------
        n : int
            The number of bytes.

        Returns
        -------
        bytes
            Reproducible bytes, which depend on the seed of the generator.
        """
        if self._has_64_bit_output and n and n % 8 == 0:
            words = self._rng.bit_generator.random_raw(n // 8)
            return bytes(words.astype("<u8", copy=False).tobytes())
        return self._rng.bytes(n)

    def __repr__(self) -> str:
        """Return the class and the generator."""
        return f"GeneratorSource({self._rng!r})"


def check_source(source: Any) -> Source:
    """Return the source of random bits that a release draws from.

    Called before any budget is spent, so that a wrong argument costs nothing.

    Parameters
    ----------
    source : Source or None
        None means a new `SecureSource`. A seed or a NumPy generator is refused.

    Returns
    -------
    Source
        The argument itself, or the new source.

    Raises
    ------
    ParameterError
        If `source` is something else.
    """
    if source is None:
        return SecureSource()
    if not isinstance(source, Source):
        kind = type(source).__name__
        raise ParameterError(
            f"source is a {kind}; it must be a SecureSource, or a GeneratorSource in "
            "simulations"
        )
    return source


class Allowance:
    """A public limit on the random bytes of an exact draw, and the τ that follows.

    τ bounds the total variation between the drawn bits and uniform ones. It is part of
    the slack of a release, which raises δ(ε) by (1 + e^ε)·slack.

    The number of bytes that a draw uses depends on the footpoint, because digits are
    drawn until the rounding is certain, and on the number of trials. A τ computed from
    it would reveal something about the data. So τ is computed from a limit that depends
    on public numbers. The limit counts epochs: an epoch is the 16 KiB that the source
    makes with one key, and its total variation is at most 2^-109.

    - A draw of up to 4096 numbers may use 512 epochs, so that τ = 512·2^-109 = 2^-100.
      For more numbers, or if fewer trials are accepted, the limit is proportionally
      higher.
    - Half of the epochs may be open in other threads.
    - The other half has 4 MiB. This is enough for 4096 bits of each of 4096 numbers,
      more than float64 footpoints and the finest grid need, or for 90 times the expected
      number of trials at 64 bits.
    - A draw that uses more than its limit is not released. That is less likely than
      2^-100.

    Parameters
    ----------
    numbers : int
        How many numbers are drawn.
    acceptance : float
        The probability that a trial is accepted.
    """

    def __init__(self, numbers: int, acceptance: float = 1.0) -> None:
        """Compute the limit in blocks of 512 epochs, and start to count at 0."""
        self._blocks = math.ceil(numbers / (_NUMBERS_PER_BLOCK * acceptance))
        self._counter = _ByteCounter()

    def meter(self, source: Source) -> Source:
        """Return a source of the same bytes that counts every byte drawn from it.

        Parameters
        ----------
        source : Source
            The source of the random bytes of a draw.

        Returns
        -------
        Source
            The source to use for the whole draw. Call `tau` after the draw.
        """
        return _MeteredSource(source, self._counter)

    def tau(self) -> float:
        """Return τ, the public bound on the total variation of the drawn bits.

        Returns
        -------
        float
            2^-100 for every 4096 numbers, or fewer; it does not depend on what was
            drawn.

        Raises
        ------
        NotResolved
            If the draw used more bytes than it is allowed.
        """
        max_bytes = self._blocks * (_EPOCHS_PER_BLOCK // 2) * EPOCH_BYTES
        if self._counter.n_bytes > max_bytes:
            raise NotResolved(
                "a draw used more random bytes than its public bound allows; nothing "
                "is released"
            )
        return self._blocks * _EPOCHS_PER_BLOCK * EPOCH_DISTANCE


class _ByteCounter:
    """The number of bytes drawn, shared by a metered source and its children."""

    def __init__(self) -> None:
        """Start at 0."""
        self.n_bytes = 0


class _MeteredSource(Source):
    """A source that counts the bytes drawn from it and from its children."""

    def __init__(self, source: Source, counter: _ByteCounter) -> None:
        """Wrap a source; certificates show the name of the wrapped source.

        Parameters
        ----------
        source : Source
            The source of the bytes.
        counter : _ByteCounter
            Counts the bytes.
        """
        self.name = source.name
        self.is_cryptographic = source.is_cryptographic
        self._source = source
        self._counter = counter

    def random_bytes(self, n: int) -> bytes:
        """Return n bytes of the wrapped source, after counting them."""
        self._counter.n_bytes += n
        return self._source.random_bytes(n)

    def child(self) -> Source:
        """Return a child of the wrapped source, whose bytes are counted here too."""
        return _MeteredSource(self._source.child(), self._counter)


_live_sources: "weakref.WeakSet[SecureSource]" = weakref.WeakSet()


def _drop_streams_after_fork() -> None:
    """Drop all streams in the child of a fork, because the parent has the same ones.

    The child makes new ones, with keys of the operating system, when it draws.
    """
    for source in list(_live_sources):
        source._idle.clear()


# Windows cannot fork and has no such hook.
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_drop_streams_after_fork)
