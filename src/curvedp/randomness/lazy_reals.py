"""Random real numbers, uniform or normal, whose digits are drawn only when needed. A
*ball* is a midpoint with an error bound: it contains the number, whose further bits may
not have been drawn yet. A request for more precision appends bits to the same number.

So an undecided comparison or rounding is settled by the same random number, and not by
a fresh one. The exact samplers of `curvedp.laws.exact` use these numbers.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from flint import arb, ctx

from curvedp.errors import EnvelopeViolation
from curvedp.numerics.enclosures import FloatBall, decide
from curvedp.randomness.csprng import Source

# Bits that each uniform gets at a time: one word of the source.
_WORD_BITS = 64


class LazyUniforms:
    """Independent uniforms on (0, 1), each to any number of bits.

    Parameters
    ----------
    source : Source
        The random bits. The later bits come from a child of it.
    n : int
        The number of uniforms.

    Attributes
    ----------
    leading : array of uint64
        The first 64 bits of each.
    """

    def __init__(self, source: Source, n: int) -> None:
        """Draw the first 64 bits of each uniform."""
        self._source = source.child()
        self.leading = source.words(n)
        # The bits drawn so far, as one integer for each real.
        self._integers: list[int] = []
        self._bits = 0

    def floats(self) -> FloatBall:
        """Return the uniforms as float balls, from their first 52 bits.

        A ball is a midpoint with a radius, within which the true number lies. Most
        comparisons are decided by these quick balls. The midpoint of a cell of 2^-52 is
        a float64 exactly.

        Returns
        -------
        FloatBall
            One ball of radius 2^-53 for each uniform.
        """
        cells = (self.leading >> np.uint64(12)).astype(np.float64)
        return FloatBall((2 * cells + 1) * 2.0**-53, 2.0**-53)

    def balls(self, bits: int, indices: Iterable[int] = (0,)) -> list[arb]:
        """Return the chosen uniforms, each to at least the given number of bits.

        Bits that were drawn before are used again, so that a smaller ball lies inside
        the earlier ones.

        Parameters
        ----------
        bits : int
            The precision.
        indices : iterable of int
            The indices of the wanted uniforms; by default the first one.

        Returns
        -------
        list of arb
            A ball of radius at most 2^-(bits + 1) for each chosen uniform.
        """
        if self._bits == 0:
            self._integers = self.leading.tolist()
            self._bits = _WORD_BITS
        # All reals get one word at a time, so that the bits of a real do not depend on
        # which reals were chosen.
        while self._bits < bits:
            words = self._source.words(len(self._integers)).tolist()
            self._integers = [
                (high << _WORD_BITS) | low
                for high, low in zip(self._integers, words, strict=True)
            ]
            self._bits += _WORD_BITS

        # A uniform with the first bits k/2^bits lies in a cell with the midpoint
        # (2k + 1)/2^(bits + 1) and the radius 1/2^(bits + 1). arb((1, e)) is 2^e.
        half_cell = arb((1, -self._bits - 1))
        return [arb(2 * self._integers[i] + 1, 1) * half_cell for i in indices]


class _DiskBatch(NamedTuple):
    """Pairs of uniforms, and which of them lie in the unit disk and are used."""

    uniforms: LazyUniforms  # numbers 2k and 2k + 1 are pair k
    pairs: np.ndarray  # the indices of the pairs that are used


class _PairKey(NamedTuple):
    """What determines the balls of a pair of normals.

    Attributes
    ----------
    pair : int
        The number of the pair.
    bits : int
        The precision of the uniforms.
    arb_precision : int
        The precision at which Arb computes.
    """

    pair: int
    bits: int
    arb_precision: int


class _NormalPair(NamedTuple):
    """Two normals from one point of the disk, computed at some precision."""

    key: _PairKey
    values: tuple[arb, arb]


class LazyNormals:
    """Independent standard normals by the polar method, each to any precision.

    For (x, y) uniform in the unit disk and s = x² + y², the numbers x·√(−2 log s/s) and
    y·√(−2 log s/s) are independent standard normals (Marsaglia and Bray 1964). The
    method takes one logarithm and no trigonometry, so that its float version can be
    proved.

    Parameters
    ----------
    source : Source
        The random bits.
    n : int
        The number of normals.
    """

    def __init__(self, source: Source, n: int) -> None:
        """Draw points of a square until (n + 1)/2 of them lie in the unit disk.

        Parameters
        ----------
        source : Source
            The random bits.
        n : int
            The number of normals; each point of the disk gives two.
        """
        self._n = n
        self._batches: list[_DiskBatch] = []
        self._last_pair: _NormalPair | None = None
        missing = (n + 1) // 2
        while missing > 0:
            # About π/4 of the pairs lie in the disk.
            uniforms = LazyUniforms(source, 2 * (missing + missing // 3 + 2))
            pairs = np.flatnonzero(_are_in_disk(uniforms))[:missing]
            self._batches.append(_DiskBatch(uniforms, pairs))
            missing -= len(pairs)

    def floats(self) -> FloatBall:
        """Return all normals as float balls: midpoints with proved error bounds.

        Samplers use these first, and draw more bits only if these are not enough.

        Returns
        -------
        FloatBall
            One ball for each normal, of radius about 1e-15 in most cases.
        """
        points = [_disk_floats(batch.uniforms)[batch.pairs] for batch in self._batches]
        midpoints = np.concatenate([point.mid for point in points])
        radii = np.concatenate([point.rad for point in points])
        xy = FloatBall(midpoints, radii)
        squares = xy * xy
        s = squares[:, 0] + squares[:, 1]
        factor = (-2.0 * s.log() / s).sqrt().reshape(-1, 1)
        return (xy * factor).reshape(-1)[: self._n]

    def balls(self, bits: int) -> np.ndarray:
        """Return all normals as an array of Arb balls, to a given precision.

        Parameters
        ----------
        bits : int
            The precision of the uniforms from which the normals are made.

        Returns
        -------
        array of arb
            One ball for each normal.
        """
        n_pairs = (self._n + 1) // 2
        values = [z for k in range(n_pairs) for z in self._pair(k, bits)]
        normals = np.empty(self._n, dtype=object)
        normals[:] = values[: self._n]
        return normals

    def ball(self, index: int, bits: int) -> arb:
        """Return one normal as an Arb ball, to about the given number of bits.

        Parameters
        ----------
        index : int
            The index of the normal.
        bits : int
            The precision of the uniforms from which it is made.

        Returns
        -------
        arb
            A ball that contains the normal.
        """
        return self._pair(index // 2, bits)[index % 2]

    def _pair(self, k: int, bits: int) -> tuple[arb, arb]:
        """Return the normals number 2k and 2k + 1, to about the given number of bits.

        They are x·√(−2 log s/s) and y·√(−2 log s/s), with the k-th point (x, y) of the
        disk and s = x² + y². The last pair is cached, because its other normal is
        usually needed next.

        Parameters
        ----------
        k : int
            The number of the pair.
        bits : int
            The precision of the uniforms.

        Returns
        -------
        first, second : arb
            Balls that contain the two normals.
        """
        key = _PairKey(k, bits, ctx.prec)
        if self._last_pair is not None and self._last_pair.key == key:
            return self._last_pair.values

        point = self._disk_point(k, bits)
        s = point.squared_norm
        factor = (-2 * s.log() / s).sqrt()
        values = (point.x * factor, point.y * factor)
        self._last_pair = _NormalPair(key, values)
        return values

    def _disk_point(self, k: int, bits: int) -> "_DiskPoint":
        """Return the k-th accepted point of the disk, counted over all batches.

        Parameters
        ----------
        k : int
            The number of the point.
        bits : int
            The precision of the uniforms.

        Returns
        -------
        _DiskPoint
            Balls around its coordinates.
        """
        position = k
        for batch in self._batches:
            if position < len(batch.pairs):
                pair = int(batch.pairs[position])
                return _disk_balls(batch.uniforms, pair, bits)
            position -= len(batch.pairs)
        raise IndexError(k)


def accepts(uniform: LazyUniforms, log_ratio: Callable[[int], arb]) -> bool:
    """Decide with certainty whether rejection sampling accepts a proposal.

    It accepts if log u <= log(target/envelope), the log-ratio of the densities at the
    proposal, with a uniform u. Both sides are computed as intervals, with more and more
    bits until the comparison is certain.

    Parameters
    ----------
    uniform : LazyUniforms
        One uniform real u.
    log_ratio : callable
        Maps a precision in bits to an interval that contains log(target/envelope).

    Returns
    -------
    bool
        Whether log u is at most the log-ratio.

    Raises
    ------
    EnvelopeViolation
        If the ratio is certainly above 1, which means that the envelope is wrong.
    """

    def evaluate(precision: int) -> bool | None:
        """Return whether the proposal is accepted; None if this precision cannot tell.

        Parameters
        ----------
        precision : int
            The number of bits of u and of the log-ratio.

        Returns
        -------
        bool or None
            True for certain acceptance, False for certain rejection.
        """
        ratio = log_ratio(precision)
        if ratio > 0:
            raise EnvelopeViolation(
                f"target/envelope = exp({ratio.str(6)}) > 1: "
                "the draw would not follow its law"
            )
        excess = uniform.balls(precision)[0].log() - ratio
        if not excess.is_finite() or excess.contains(0):
            return None
        return bool(excess < 0)

    return decide(evaluate)


def _disk_floats(uniforms: LazyUniforms) -> FloatBall:
    """Return random points (x, y) = 2(u, v) − 1 of a square as float balls.

    Used by `LazyNormals.floats`.

    Parameters
    ----------
    uniforms : LazyUniforms
        The uniforms; numbers 2k and 2k + 1 are u and v of point k.

    Returns
    -------
    FloatBall of shape (n, 2)
        One row (x, y) for each pair.
    """
    # A midpoint is rounded once (2^-54), and bits beyond the 64th are missing (2^-62
    # at most).
    return FloatBall(_disk_midpoints(uniforms), 2.0**-54 + 2.0**-62)


def _disk_midpoints(uniforms: LazyUniforms) -> np.ndarray:
    """Return random points (x, y) = 2(u, v) − 1 of a square as floats.

    Parameters
    ----------
    uniforms : LazyUniforms
        The uniforms; numbers 2k and 2k + 1 are u and v of point k.

    Returns
    -------
    array of shape (n, 2)
        One row (x, y) for each pair, from the first 64 bits of each uniform.
    """
    # Flipping the first bit of a word k, read as a signed integer, gives k − 2^63. Over
    # 2^63 this is 2u − 1; it is rounded to float64 once.
    signed = (uniforms.leading ^ np.uint64(1 << 63)).view(np.int64)
    return np.asarray((signed.astype(np.float64) * 2.0**-63).reshape(-1, 2))


class _DiskPoint(NamedTuple):
    """A point of the square [−1, 1]², in balls."""

    x: arb
    y: arb
    squared_norm: arb


def _disk_balls(uniforms: LazyUniforms, pair: int, bits: int) -> _DiskPoint:
    """Return one random point (x, y) = 2(u, v) − 1 to about the given number of bits.

    Used when floats do not decide, and for normals of high precision.

    Parameters
    ----------
    uniforms : LazyUniforms
        The uniforms; numbers 2k and 2k + 1 are u and v of point k.
    pair : int
        The number k of the point.
    bits : int
        The precision of u and v.

    Returns
    -------
    _DiskPoint
        Balls around x, y and x² + y².
    """
    u, v = uniforms.balls(bits, (2 * pair, 2 * pair + 1))
    x = 2 * u - 1
    y = 2 * v - 1
    return _DiskPoint(x, y, x * x + y * y)


def _are_in_disk(uniforms: LazyUniforms) -> np.ndarray:
    """Return which random points (x, y) have x² + y² < 1, decided with certainty.

    In floats s = x² + y² errs by at most 2(|x|+|y|)·2^-53 + 2^-105 + 3u·s ≤ 2^-50 near
    s = 1, with the unit roundoff u = 2^-53. Points so near to the circle are decided by
    interval arithmetic.

    Called when normals are drawn: only points in the disk give normals.

    Parameters
    ----------
    uniforms : LazyUniforms
        Uniforms on (0, 1); the points are x = 2u − 1, y = 2v − 1 for each pair u, v.

    Returns
    -------
    array of bool
        One truth value for each pair.
    """
    # The midpoints decide, except for pairs so near the circle that their rounding
    # errors (at most 2^-50 in x² + y²) matter.
    xy = _disk_midpoints(uniforms)
    squared_radius = (xy * xy).sum(axis=1)
    is_inside = squared_radius < 1
    for pair in np.flatnonzero(np.abs(squared_radius - 1) <= 2.0**-50).tolist():
        is_inside[pair] = _is_in_disk(uniforms, pair)
    return np.asarray(is_inside)


def _is_in_disk(uniforms: LazyUniforms, pair: int) -> bool:
    """Return whether one random point lies in the unit disk, with certainty.

    The point is (x, y), and the question is whether x² + y² < 1. Both sides are
    enclosed in intervals, with more random bits until the answer is certain.

    Parameters
    ----------
    uniforms : LazyUniforms
        Uniforms on (0, 1); the points are x = 2u − 1, y = 2v − 1 for each pair u, v.
    pair : int
        The index of the pair.

    Returns
    -------
    bool
        Whether the point lies in the unit disk.
    """

    def evaluate(bits: int) -> bool | None:
        """Return whether the point lies in the disk; None if that is not certain."""
        excess = _disk_balls(uniforms, pair, bits).squared_norm - 1
        return None if excess.contains(0) else bool(excess < 0)

    return decide(evaluate)
