"""Privacy loss distributions on a grid, composed by tilted Fourier transforms: fast, and without a round-off floor.

A profile, known at losses that are multiples of w, is replaced by its chords in e^ε and these by their convex envelope,
above the convex truth: the profile of a discrete pair. Its masses are tilted, p_i·e^{λL_i − κ(λ)}, so that the losses
that decide δ(ε) are the likely ones, and convolved; a few λ serve every ε. Every number is an upper bound
(docs/accounting.md, Composition).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array, round_up

Profile = Callable[[Array], Array]
Values = NDArray[np.complex128]

U = 2.0**-53
_MANY = 1 << 14  # steps, of which the powers are taken about 1
_NEAR = 1 << 12  # cells about 0 that are summed by parts
_FEWEST_POINTS, _MOST_POINTS = 1 << 15, 1 << 20  # of a window
_GROWTH = (
    2.0**-10
)  # dots may lie this much of their loss apart, which adds 2^-20/6 of its variance at most …
_FEWEST = 16384  # … but no farther than this part of the whole range
_RATES = (
    6.0,
    18.0,
    36.0,
    60.0,
    90.0,
)  # −log δ at which the tilts are best, to e^-101 = 1e-44
_MAGNIFIED = 20.0  # log of what is made of rounding errors before another tilt is asked: e^20·u is 5e-8
_REACH = 26.0  # a window leaves out e^-26 of a tilted distribution on each side


@dataclass(frozen=True)
class DiscretePLD:
    """P's masses at the losses index·width, and at infinity, all rounded up; their sum may exceed 1."""

    width: float
    index: NDArray[np.int64]
    masses: Array
    infinite: float

    @property
    def losses(self) -> Array:
        return np.asarray(self.index * self.width, np.float64)

    def log_moment(self, tilt: float) -> tuple[float, float]:
        """(κ, κ′): log Σ p·e^{tilt·L} over the finite losses, and its derivative."""
        exponent = tilt * self.losses
        top = float(exponent.max())
        weights = self.masses * np.exp(exponent - top)
        total = float(weights.sum())
        return math.log(total) + top, float(weights @ self.losses) / total


def connect_the_dots(
    delta: Profile,
    top: float,
    width: float,
    growth: float = _GROWTH,
    fewest: int = _FEWEST,
    back: Profile | None = None,
) -> DiscretePLD:
    """The pair of distributions on multiples of `width` whose profile is at least `delta`, and the other way round `back`
    (left out, `delta` too), bounds for ε >= 0. Beyond `top` the bound is kept constant: that δ goes to infinity."""
    dots = _dots(max(math.ceil(top / width), 1), growth, fewest)
    eps = np.asarray(dots * width, np.float64)
    ways = [
        np.minimum(np.asarray(way(eps)), 1.0)
        for way in (delta, back)
        if way is not None
    ]
    for way in ways:
        way[0] = max(values[0] for values in ways)  # they agree at 0, but for rounding
    sides = [_side(*_envelope(eps, way, back is None)) for way in ways]
    (right, upper, far, values), (left, lower, back_far, _) = sides[0], sides[-1]
    middle = max(1 - values[0] - far - back_far + 16 * U, 0.0)
    lower = round_up(lower * np.exp(-left), 8 * U)
    index = np.rint(np.concatenate([-left[::-1], [0.0], right]) / width).astype(
        np.int64
    )
    return DiscretePLD(
        width, index, np.concatenate([lower[::-1], [middle], upper]), float(values[-1])
    )


def _side(eps: Array, values: Array) -> tuple[Array, Array, float, Array]:
    """(losses > 0, their masses, what the first step takes from the mass at 0, δ at the dots)."""
    near, far = _shares(eps, values)
    far = np.append(far, 0.0)
    error = (
        8 * U * (near + far[1:])
    )  # a difference, expm1, a quotient and a sum of rounded numbers
    upper = np.maximum(near - far[1:] + error, 0.0)
    last = 1 + int(np.max(np.nonzero(upper)[0], initial=0))
    return eps[1 : last + 1], upper[:last], float(far[0]), values


def _dots(last: int, growth: float, fewest: int) -> NDArray[np.int64]:
    """0 … last: all of them as far as 1/growth, then in growing steps of up to last/fewest."""
    step = max(last / fewest, 1.0)
    first, second = min(1 / growth, last), min(step / growth, last)
    grown = (
        np.exp(np.arange(math.log(first), math.log(second), growth))
        if second > first
        else np.zeros(0)
    )
    whole = np.concatenate(
        [np.arange(first), grown, np.arange(second, last, step), [last]]
    )
    return np.unique(np.rint(whole).astype(np.int64))


def _shares(eps: Array, delta: Array) -> tuple[Array, Array]:
    """d/(1 − e^{−h}) and d/(e^h − 1) of each step: what it gives to its right end and takes from its left one."""
    gap, drop = np.diff(eps), -np.diff(delta)
    with np.errstate(over="ignore"):
        return drop / -np.expm1(-gap), drop / np.expm1(gap)


def _envelope(eps: Array, delta: Array, mirrored: bool = True) -> tuple[Array, Array]:
    """The dots that are corners of the lower convex envelope in e^ε, and of its mirror image about ε = 0 where it has
    one. A dot above the chord of its neighbors is no corner, so all such dots can go at once. Which dots are left decides
    how tight the bound is, not whether it holds: chords between any of them lie above the convex truth."""
    delta = np.minimum.accumulate(delta)
    for _ in range(200):
        near, far = _shares(eps, delta)
        keep = np.concatenate([[True], near[:-1] >= far[1:], [True]])
        ramp = math.expm1(min(eps[1], 700.0))
        center = math.nextafter(
            (ramp + 2 * delta[1]) / (ramp + 2) * (1 + 8 * U), 2.0
        )  # on the chord over 0
        if keep.all() and (delta[0] <= center or not mirrored):
            break
        eps, delta = eps[keep], delta[keep]
        delta[0] = min(delta[0], center) if mirrored else delta[0]
    return eps, delta


class ComposedPLD:
    """The profile of independent losses together: `parts` are (δ(ε), top) or (δ(ε), top, δ(ε) the other way round), a bound
    on each profile and the loss beyond which it is taken as constant, each used as often as `counts` says (rounding is
    charged in proportion: beyond 10⁹ nothing is left to say). `fineness` is the grid's; less is faster and looser."""

    def __init__(
        self,
        parts: tuple[tuple[Any, ...], ...],
        counts: tuple[int, ...],
        fineness: float = 1.0,
    ) -> None:
        self._parts, self._counts, self._fineness = parts, counts, fineness
        # Of very many steps a tilt may favor rare large losses over the small ones that add up, whose sum is sharp without.
        self._many = min(counts) >= _MANY
        self._top = parts[int(np.argmax(counts))][1]
        fine = [2.0 ** math.floor(math.log2(top) - 24) for _, top, *_ in parts]
        self._rough = [
            connect_the_dots(p[0], p[1], w, 0.03, 200, *p[2:])
            for p, w in zip(parts, fine, strict=True)
        ]
        self._grain = max(fine)
        self._losses: dict[float, list[DiscretePLD]] = {}
        self._curves: dict[int, tuple[float, int, Array]] = {}

    def delta(self, eps: Array) -> Array:
        """δ(ε), linear in e^ε between the grid's values: this is the discrete pair's own profile."""
        out = np.ones(eps.shape)
        region = np.searchsorted(self.ends[:-1], eps)
        for k in np.unique(region):
            out[region == k] = self._served(int(k), eps[region == k])
        return np.minimum(out, self._interpolated(0, eps)) if self._many else out

    def bracket(self, delta: float) -> tuple[float, float]:
        """Losses about the smallest ε >= 0 with δ(ε) <= delta, from as few transforms as can be; (inf, inf) if none."""
        ends, seen = self.ends, set[int]()
        k = (
            0
            if self._many
            else min(int(np.searchsorted(_RATES, -math.log(delta))), len(ends) - 1)
        )
        while True:
            begin = math.nextafter(ends[k - 1], math.inf) if k else 0.0
            at = self.delta(np.array([begin, min(ends[k], 1e300)]))
            seen.add(k)
            if at[0] <= delta and k and k - 1 not in seen:
                k -= 1
            elif at[1] > delta and k + 1 < len(ends):
                k += 1
            elif at[1] > delta:
                return math.inf, math.inf
            else:
                width, first, values = self._curve(k)
                low = max(math.ceil(begin / width) - first, 0)
                found = np.nonzero(values[low:] <= delta)[0]
                return begin, min(
                    float((first + low + found[0] + 1) * width)
                    if len(found)
                    else math.inf,
                    ends[k],
                )

    def _curve(self, k: int) -> tuple[float, int, Array]:
        if k not in self._curves:
            self._curves[k] = self._transformed(*self.tilt(k))
        return self._curves[k]

    def _served(self, k: int, eps: Array) -> Array:
        """By this tilt, and far below its own losses by those before it too: rounding counts e^{λ(loss − ε)}-fold there, and
        losses lie in heaps apart where a bounded part is composed with a small Gaussian one."""
        value, (rate, center) = self._interpolated(k, eps), self.centers[k]
        below = rate * np.maximum(center - eps, 0.0) > _MAGNIFIED
        if k and below.any():
            value[below] = np.minimum(value[below], self._served(k - 1, eps[below]))
        return value

    def _interpolated(self, k: int, eps: Array) -> Array:
        width, first, values = self._curve(k)
        position = (
            np.minimum(eps, (first + len(values) - 1) * width) / width * (1 - 4 * U)
        )  # rounded down
        left = np.maximum(np.floor(position).astype(np.int64) - first, 0)
        right = np.minimum(left + 1, len(values) - 1)
        share = np.clip(
            np.expm1((position - left - first) * width) / math.expm1(width), 0.0, 1.0
        )
        value = np.minimum(
            round_up(values[left] * (1 - share) + values[right] * share, 1e-15), 1.0
        )
        # Below the window by the chord in e^ε to e^ε = 0, where every profile is 1: it is convex there.
        rise = -np.expm1(np.minimum(position - first, 0.0) * width)
        chord = np.minimum(round_up(values[0] + (1 - values[0]) * rise, 1e-14), 1.0)
        return np.asarray(np.where(position < first, chord, value))

    def _on(self, width: float) -> list[tuple[DiscretePLD, int]]:
        if width not in self._losses:
            self._losses[width] = [
                connect_the_dots(p[0], p[1], width, _GROWTH, _FEWEST, *p[2:])
                for p in self._parts
            ]
        return list(zip(self._losses[width], self._counts, strict=True))

    def _transformed(
        self,
        rate: float,
        width: float,
        low: float,
        high: float,
        below: float,
        beyond: float,
    ) -> tuple[float, int, Array]:
        """(grid width, index of the first loss >= 0 in the window, δ at it and at the ones that follow)."""
        factors = self._on(width)
        last = sum(n * int(loss.index[-1]) for loss, n in factors)
        start = -last if math.isinf(below) else math.floor(low / width)
        # a window is found on a rough grid, on which losses may reach beyond the last of this one
        end = max(
            last + 1 if math.isinf(beyond) else math.ceil(high / width), start + 1
        )
        size = 1 << max(math.ceil(math.log2(end - start + 1)), 4)
        masses, kappa, error = convolve_tilted(factors, rate, size)
        first = max(start, 0)
        grid = np.arange(first, start + size)
        values = hockey_stick_divergence(
            np.roll(masses, -start)[first - start :], rate, width, error
        )
        exponent = kappa - rate * (grid * width)
        values *= np.exp(
            np.minimum(exponent + 8 * U * (abs(kappa) + np.abs(exponent) + 8), 700.0)
        )
        values[grid >= last] = 0.0
        rest = _infinite(factors) + math.exp(
            _log_beyond(factors, beyond, (start + size - 1) * width)
        )
        return width, first, np.minimum(round_up(values + rest, 4 * U), 1.0)

    # ---- where the tilts are, from a rough picture of the losses: it decides how tight the bounds are, not whether they hold

    @cached_property
    def centers(self) -> list[tuple[float, float]]:
        """(λ, mean loss) of the tilts, as far as the losses go."""
        found = [
            (0.0, self._moments(0.0)[1]),
            *(self._farther(0.0, rate, 1.0) for rate in _RATES),
        ]
        return [(rate, loss) for rate, loss in found if math.isfinite(rate)]

    @cached_property
    def ends(self) -> list[float]:
        """The ends of the losses that each tilt serves: halfway to the next."""
        return [
            (a + b) / 2
            for (_, a), (_, b) in zip(self.centers, self.centers[1:], strict=False)
        ] + [math.inf]

    def tilt(self, k: int) -> tuple[float, float, float, float, float, float]:
        """(λ, its grid's width, its window, the λ's of Chernoff's bounds beyond the ends: infinite where all is inside)."""
        rate = self.centers[k][0]
        (beyond, high), (below, low) = (
            self._farther(rate, _REACH, 1.0),
            self._farther(rate, _REACH, -1.0),
        )
        # a grid of width w adds at most (w/deviation)²/6 to the tilted variance, relatively
        points = min(
            max(
                (high - low) / max(self._deviation(rate), 1e-300) * 1100, _FEWEST_POINTS
            ),
            _MOST_POINTS,
        )
        size = 2.0 ** round(math.log2(points * self._fineness))
        return (
            rate,
            self._fitted(max((high - low) / (size - 8), self._grain)),
            low,
            high,
            below,
            beyond,
        )

    def _fitted(self, width: float) -> float:
        """A little more than `width`, so that the largest loss of the part used most is a multiple: bounded losses have an
        atom there, and half of it a grid step higher would count. Of 28 bits: multiples below 2^25 are exact."""
        mantissa, exponent = math.frexp(
            max(self._top / max(self._top // width, 1.0), width)
        )
        return math.ldexp(math.ceil(mantissa * 2**28), exponent - 28)

    def _moments(self, tilt: float) -> tuple[float, float]:
        found = [
            (n, part.log_moment(tilt))
            for part, n in zip(self._rough, self._counts, strict=True)
        ]
        return math.fsum(n * k for n, (k, _) in found), math.fsum(
            n * slope for n, (_, slope) in found
        )

    def _farther(self, tilt: float, rate: float, sign: float) -> tuple[float, float]:
        """(λ′, κ′(λ′)) with relative entropy `rate` from λ, on the side of `sign`; the largest loss if there is none."""
        base, _ = self._moments(tilt)

        def entropy(step: float) -> tuple[float, float]:
            k, slope = self._moments(tilt + sign * step)
            return sign * step * slope - k + base, slope

        low, high = 0.0, 1.0 / self._grain
        if entropy(high)[0] < rate:
            return sign * math.inf, sign * sum(
                n * p.losses[-1] for n, p in zip(self._counts, self._rough, strict=True)
            )
        while high > low * 1.02 + 1e-12 / self._grain:
            middle = math.sqrt(low * high) if low else high / 1024
            low, high = (middle, high) if entropy(middle)[0] < rate else (low, middle)
        return tilt + sign * high, entropy(high)[1]

    def _deviation(self, rate: float) -> float:
        """The tilted losses' mean absolute deviation, times √(π/2): a normal law's deviation, and less if jumps are rare."""
        total = 0.0
        for part, count in zip(self._rough, self._counts, strict=True):
            _, masses = exponential_tilt(part, rate)
            total += (
                count * float(masses @ np.abs(part.losses - masses @ part.losses)) ** 2
            )
        return math.sqrt(math.pi / 2 * total / sum(self._counts))


def _infinite(factors: list[tuple[DiscretePLD, int]]) -> float:
    """The mass at infinity, where the loss is if any one is: Π(m + x)ⁿ − Πmⁿ, totals above 1 in full."""
    finite = [math.fsum(loss.masses) for loss, _ in factors]
    whole = math.fsum(
        n * math.log1p(m - 1 + loss.infinite)
        for m, (loss, n) in zip(finite, factors, strict=True)
    )
    some = math.fsum(
        n * math.log1p(loss.infinite / m)
        for m, (loss, n) in zip(finite, factors, strict=True)
    )
    return (
        float(round_up(math.exp(min(whole, 700.0)) * -math.expm1(-some), 1e-14))
        if some
        else 0.0
    )


def _log_beyond(
    factors: list[tuple[DiscretePLD, int]], rate: float, end: float
) -> float:
    """log P(loss > end) by Chernoff's bound; −inf where the rate is infinite, since no loss is larger."""
    if math.isinf(rate):
        return -math.inf
    kappa = math.fsum(n * loss.log_moment(rate)[0] for loss, n in factors)
    return min(kappa - rate * end + 1e-12 * (abs(kappa) + rate * end + 1), 0.0)


# ---- convolutions of many tilted losses by Fourier transforms, with a bound on all that rounding does to them. A transform
# of length 2^k errs by at most 16k·u of its result; a power of very many steps is taken about 1, of losses summed by parts
# twice, so that its errors do not add up (docs/accounting.md, Composition)


def exponential_tilt(loss: DiscretePLD, rate: float) -> tuple[float, Array]:
    """(κ, p·e^{rate·L − κ}), the masses rounded up; κ is any number close to the moment's logarithm."""
    kappa, _ = loss.log_moment(rate)
    exponent = rate * loss.losses
    with np.errstate(under="ignore"):
        return kappa, loss.masses * np.exp(
            exponent - kappa + 4 * U * (np.abs(exponent) + abs(kappa) + 16)
        )


def convolve_tilted(
    factors: list[tuple[DiscretePLD, int]], rate: float, size: int
) -> tuple[Array, float, float]:
    """(tilted masses modulo `size`, Σ nκ, a bound on the 2-norm of their error)."""
    bits = size.bit_length() - 1
    kappa, log_norm, error, smallest = 0.0, 0.0, 0.0, math.inf
    product: Values | None = None
    for loss, count in factors:
        own, masses = exponential_tilt(loss, rate)
        wrapped = np.bincount(loss.index % size, weights=masses, minlength=size)
        norm = 1.01 * math.sqrt(float(wrapped @ wrapped))
        if count < _MANY:
            slip = (
                16 * (bits + 1) * U * norm
            )  # of one transform, relative to √N, and one power's rounding
            factor, most, slips = (
                _power(scipy.fft.rfft(wrapped), count),
                math.sqrt(size) * slip,
                count * slip,
            )
        else:
            factor, most, slips = _power_about_one(loss.index, masses, count, size)
        product = factor if product is None else product * factor
        log_norm += count * math.log(float(masses.sum()) * (1 + len(masses) * U) + most)
        error, smallest, kappa = error + slips, min(smallest, norm), kappa + count * own
    assert product is not None
    whole = math.exp(
        min(log_norm, 700.0)
    )  # no value of the transforms' product is larger
    return (
        scipy.fft.irfft(product, size),
        kappa,
        1.01 * whole * (error + 16 * bits * U * smallest),
    )


def _power(values: Values, count: int) -> Values:
    """By repeated squaring: the relative error is at most 3·count·u, which one more `bits` in the slip pays for."""
    result = values.copy()
    for bit in bin(count)[3:]:
        np.multiply(result, result, out=result)
        if bit == "1":
            np.multiply(result, values, out=result)
    return result


def _power_about_one(
    index: NDArray[np.int64], masses: Array, count: int, size: int
) -> tuple[Values, float, float]:
    """(transform to the power `count`, the largest error of the transform, 2-norm of the power's errors over √N)."""
    bits, reach = size.bit_length() - 1, min(_NEAR, size // 4)
    wrapped = np.bincount(index % size, weights=masses, minlength=size)
    near = np.abs(index) <= reach
    rare = np.bincount(index[~near] % size, weights=masses[~near], minlength=size)
    rise, fall = (
        _by_parts(sign * index[near], masses[near], reach) for sign in (1, -1)
    )
    parts = np.zeros(size)
    parts[: reach - 1] += rise[1]
    parts[size - reach : size - 1] += fall[1][::-1]  # 1/x² · 1/x^j is at −2 − j
    theta = 2 * np.pi / size * np.arange(size // 2 + 1)
    step, lost = 2 * np.sin(theta / 2), math.fsum(rare)
    excess = math.fsum(
        [-1.0, *masses]
    )  # of Σ p_i over 1, with all its digits: all errors here count n-fold
    z = (
        -step
        * step
        * ((rise[0] + fall[0]) / 2 + np.exp(-1j * theta) * scipy.fft.rfft(parts))
    )
    z += (
        (scipy.fft.rfft(rare) - lost)
        + excess
        - 1j * np.sin(theta) * (rise[0] - fall[0])
    )
    # of sums and transforms by parts; of first moments and sines; of what is rare; where that is more, of a plain transform
    slip = step * step * ((16 * bits + 2 * reach + 16) * U * float(parts.sum()))
    slip += step * (16 * U * (rise[0] + fall[0])) + 16 * (bits + 1) * U * lost
    plain = 16 * (bits + 1) * U * (1 + excess)
    z = np.where(slip < plain, z, scipy.fft.rfft(wrapped) - 1)
    slip = np.minimum(slip, plain) + 8 * U * np.abs(z)
    log_length = (
        np.log1p(np.maximum(z.real * (2 + z.real) + z.imag * z.imag, -0.75)) / 2
    )  # 2^-n is 0
    power = np.exp(count * (log_length + 1j * np.arctan2(z.imag, 1 + z.real)))
    # |1 + z|² = 1 + y, y = a(2 + a) + b² to 17u|z|, |z| < 2.1: length to 9nu|z|·|F|^{n−2}, angle to 13nu|z|, exp to 12u
    most = (count - 2) * (np.maximum(log_length, -0.69) + 2 * slip + 64 * U)
    error = (
        count * (slip + 32 * U * np.abs(z)) * np.exp(np.minimum(most, 700.0)) + 16 * U
    )
    return power, float(slip.max()), 1.01 * math.sqrt(2 * float(error @ error) / size)


def _by_parts(
    index: NDArray[np.int64], masses: Array, reach: int
) -> tuple[float, Array]:
    """(Σ i·p_i, a_0 … a_{reach−2}) of the losses i > 0."""
    above = index > 0
    first = math.fsum(index[above] * masses[above])
    tails = np.cumsum(
        np.bincount(index[above], weights=masses[above], minlength=reach + 1)[::-1]
    )
    return first, np.asarray(np.cumsum(tails)[::-1][2:], np.float64)


def hockey_stick_divergence(
    masses: Array, rate: float, width: float, error: float
) -> Array:
    """D_j = Σ_{i>j} m_i·(t^{i−j} − (ts)^{i−j}) + its error, t = e^{−rate·w}, s = e^{−w}: δ_j in units of e^{κ − rate·ε_j}.
    D_j = ts·D_{j+1} + (1 − s)·Σ_{i>j} m_i·t^{i−j}, which does not cancel where all losses are small. `error` bounds the
    2-norm of the masses' errors; each sum loses at most 4u(1 + exponent) of itself a step."""
    from scipy.signal import (
        lfilter,
    )  # half a second, of which most programs need nothing

    far = np.arange(1, len(masses) + 1) * width
    spread = 1.01 * np.linalg.norm(np.exp(-rate * far) * np.expm1(-far))
    rest, once, both = (
        -math.expm1(-width),
        math.exp(-rate * width),
        math.exp(-(rate + 1) * width),
    )
    sums = lfilter([0.0, once], [1.0, -once], masses[::-1])
    found = lfilter([rest], [1.0, -both], sums)[::-1]
    rounding = 8 * U * (len(masses) + 4) * (1 + (rate + 1) * width)
    return np.asarray(
        found + rounding * np.abs(found) + (1 + 2 * rounding) * error * spread
    )
