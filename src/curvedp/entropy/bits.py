"""Random reals known to as many bits as anybody asked for: uniforms, and normals as functions of them.

A real is drawn once. Asking for it again with more precision appends bits to the same real, so that a comparison or a
rounding that is undecided is settled by the same random number and not by a fresh one.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from flint import arb, ctx

from curvedp.entropy.csprng import Source
from curvedp.errors import EnvelopeViolation
from curvedp.numerics.enclosures import FloatBall, decide


class LazyUniforms:
    """n independent uniforms on (0, 1), to any number of bits."""

    def __init__(self, source: Source, n: int) -> None:
        self._source = source.child()
        self.leading = source.words(n)
        self._integers: list[int] = []  # the bits so far, as one integer per real
        self._bits = 0

    def floats(self) -> FloatBall:
        """The first 52 bits: the midpoint of their cell is a float64 exactly."""
        cells = (self.leading >> np.uint64(12)).astype(np.float64)
        return FloatBall((2 * cells + 1) * 2.0**-53, 2.0**-53)

    def balls(self, bits: int, indices: Iterable[int] = (0,)) -> list[arb]:
        """The chosen uniforms, each to at least the given number of bits."""
        if self._bits == 0:
            self._integers, self._bits = self.leading.tolist(), 64
        while (
            self._bits < bits
        ):  # one word for each at a time: the bits do not depend on who asked when
            more = self._source.words(len(self._integers)).tolist()
            self._integers = [
                (high << 64) | low
                for high, low in zip(self._integers, more, strict=True)
            ]
            self._bits += 64
        scale = arb((1, -self._bits - 1))
        return [arb(2 * self._integers[i] + 1, 1) * scale for i in indices]


class LazyNormals:
    """n independent standard normals by the polar method (Marsaglia & Bray 1964), each to any precision. (x, y) uniform
    in the unit disc, s = x² + y²: x·√(−2 log s/s) and y·√(−2 log s/s) are independent standard normals. One logarithm and
    no trigonometry, so that the float filter can be proven."""

    def __init__(self, source: Source, n: int) -> None:
        self._n = n
        self._batches: list[tuple[LazyUniforms, np.ndarray]] = []
        self._last: tuple[Any, tuple[arb, arb]] = (None, (arb(0), arb(0)))
        missing = (n + 1) // 2
        while missing > 0:
            batch = LazyUniforms(source, 2 * (missing + missing // 3 + 2))
            accepted = np.flatnonzero(_in_disc(batch))[:missing]
            self._batches.append((batch, accepted))
            missing -= len(accepted)

    def floats(self) -> FloatBall:
        parts = [_floats_on_disc(batch)[accepted] for batch, accepted in self._batches]
        mid, rad = (
            np.concatenate([p.mid for p in parts]),
            np.concatenate([p.rad for p in parts]),
        )
        xy = FloatBall(mid, rad)
        square = xy * xy
        s = square[:, 0] + square[:, 1]
        return (xy * (-2.0 * s.log() / s).sqrt().reshape(-1, 1)).reshape(-1)[: self._n]

    def balls(self, bits: int) -> np.ndarray:
        """All of them, to about the given number of bits."""
        pairs = [self._pair(k, bits) for k in range((self._n + 1) // 2)]
        normals = np.empty(self._n, dtype=object)
        normals[:] = [z for pair in pairs for z in pair][: self._n]
        return normals

    def ball(self, index: int, bits: int) -> arb:
        """One of them."""
        return self._pair(index // 2, bits)[index % 2]

    def _pair(self, k: int, bits: int) -> tuple[arb, arb]:
        if self._last[0] == (k, bits, ctx.prec):  # its other half is asked for next
            return self._last[1]
        place = k
        for batch, accepted in self._batches:
            if place < len(accepted):
                x, y, s = _ball_on_disc(batch, int(accepted[place]), bits)
                stretch = (-2 * s.log() / s).sqrt()
                self._last = (k, bits, ctx.prec), (x * stretch, y * stretch)
                return self._last[1]
            place -= len(accepted)
        raise IndexError(k)


def accepts(coin: LazyUniforms, log_ratio: Callable[[int], arb]) -> bool:
    """Whether log coin ≤ log ratio, decided with certainty. A ratio certainly above 1 means a wrong envelope."""

    def certain(precision: int) -> bool | None:
        ratio = log_ratio(precision)
        if ratio > 0:
            raise EnvelopeViolation(
                f"target/envelope = exp({ratio.str(6)}) > 1: the draw would not follow its law"
            )
        excess = coin.balls(precision)[0].log() - ratio
        return (
            bool(excess < 0) if excess.is_finite() and not excess.contains(0) else None
        )

    return decide(certain)


def _floats_on_disc(batch: LazyUniforms) -> FloatBall:
    """Pairs (x, y) = 2(u, v) − 1 from the first 64 bits: a signed integer over 2^63, rounded to float64 once."""
    return FloatBall(_middles_on_disc(batch), 2.0**-54 + 2.0**-62)


def _middles_on_disc(batch: LazyUniforms) -> np.ndarray:
    signed = (batch.leading ^ np.uint64(1 << 63)).view(np.int64)
    return np.asarray((signed.astype(np.float64) * 2.0**-63).reshape(-1, 2))


def _ball_on_disc(batch: LazyUniforms, i: int, bits: int) -> tuple[arb, arb, arb]:
    u, v = batch.balls(bits, (2 * i, 2 * i + 1))
    x, y = 2 * u - 1, 2 * v - 1
    return x, y, x * x + y * y


def _in_disc(batch: LazyUniforms) -> np.ndarray:
    """Which pairs have x² + y² < 1. In floats s errs by at most 2(|x|+|y|)·2^-53 + 2^-105 + 3u·s ≤ 2^-50 near s = 1."""
    xy = _middles_on_disc(batch)
    s = (xy * xy).sum(axis=1)
    inside = s < 1
    for i in np.flatnonzero(np.abs(s - 1) <= 2.0**-50).tolist():

        def certain(bits: int, i: int = i) -> bool | None:
            excess = _ball_on_disc(batch, i, bits)[2] - 1
            return None if excess.contains(0) else bool(excess < 0)

        inside[i] = decide(certain)
    return np.asarray(inside)
