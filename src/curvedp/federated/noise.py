"""Discrete Gaussian noise in shares: exact to draw, and what its sum is worth to the honest sites.

A sum of shares of total variance V, each of variance ≥ 16, about a whole statistic that moves by at most Δ is Δ/√(V −
8)-GDP, up to a total variation of about 2^-225 for each share and coordinate. A site's noise comes in layers, of which
those above the number of lost sites are taken off again (Jiang et al. 2024). docs/federation.md has the proof.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, exp, floor, isqrt, pi

import numpy as np

from curvedp.entropy import SecureSource, Source
from curvedp.errors import ParameterError
from curvedp.federated.session import chain, derived, keystream
from curvedp.numerics.directed_rounding import round_up

SMOOTHING = 8  # what discreteness costs of the variance: θ_8 < 2^-226
LEAST_VARIANCE = 16  # of a share, so that two of them give ab/(a + b) ≥ 8


def variance(sensitivity: float, mu: float) -> int:
    """V: the total variance, a whole number, that makes a whole statistic of this ℓ₂ sensitivity μ-GDP."""
    return ceil((Fraction(sensitivity) / Fraction(mu)) ** 2) + SMOOTHING


def layers(total: int, sites: int, dropouts: int, collusion: int) -> list[Fraction]:
    """The variances of a site's layers of noise."""
    at = [Fraction(total, sites - lost - collusion) for lost in range(dropouts + 1)]
    found = [at[0], *(after - before for before, after in pairwise(at))]
    if min(found) < LEAST_VARIANCE:
        raise ParameterError(
            f"a share of the noise has variance {float(min(found)):g}; a finer grid is needed"
        )
    return found


def noise_slack(shares: int, coordinates: int) -> float:
    """Total variation between the noise and a post-processing of the real Gaussian, over all coordinates; rounded up: at most
    2θ_8/(1 − θ_8) for each share, θ_8 < 2.1·e^{−16π²}."""
    theta = 2.1 * exp(-16 * pi**2)
    return float(round_up(2 * theta * (1 + theta) ** 2 * shares * coordinates, 1e-12))


class KeyedSource(Source):
    """Bits from a 32-byte key: a site draws a layer of noise from a seed, and the server draws the same to take it off."""

    name = "ChaCha20 under a key of its own"
    is_cryptographic = True

    def __init__(self, key: bytes) -> None:
        self._key, self._block, self._buffer, self._used = key, 0, b"", 0

    def random_bytes(self, n: int) -> bytes:
        while len(self._buffer) - self._used < n:
            fresh = keystream(
                derived(self._key, b"source", self._block.to_bytes(8, "little")),
                1 << 14,
            )
            self._buffer, self._used, self._block = (
                self._buffer[self._used :] + fresh,
                0,
                self._block + 1,
            )
        self._used += n
        return self._buffer[self._used - n : self._used]


def site_noise(
    variances: Sequence[Fraction],
    seed: bytes,
    length: int,
    source: Source | None = None,
) -> np.ndarray:
    """All layers modulo 2^64: the first from bits nobody is told, the others from the chain that starts with `seed`."""
    secret = discrete_gaussian(
        variances[0], length, SecureSource() if source is None else source
    )
    return np.asarray(_wrapped(secret) + surplus(variances, 0, seed, length))


def surplus(
    variances: Sequence[Fraction], lost: int, seed: bytes, length: int
) -> np.ndarray:
    """The layers above `lost` modulo 2^64, from the chain's seed for that number."""
    above = variances[1 + lost :]
    total = np.zeros(length, dtype=np.int64)
    for v, key in zip(above, chain(seed, len(above)), strict=True):
        total = total + _wrapped(
            discrete_gaussian(v, length, KeyedSource(derived(key, b"layer")))
        )
    return total


def _wrapped(values: Sequence[int]) -> np.ndarray:
    return np.array([(v + 2**63) % 2**64 - 2**63 for v in values], dtype=np.int64)


# ---- the sampler: Canonne, Kamath & Steinke 2020, Algorithms 1–3, in whole numbers ----


def discrete_gaussian(v: Fraction, size: int, source: Source) -> list[int]:
    """Independent exact draws of N_Z(v), by rejection from discrete Laplace noise."""
    if not v > 0:
        raise ParameterError("a variance must be > 0")
    (above, below), t, found = (
        Fraction(v).as_integer_ratio(),
        isqrt(floor(v)) + 1,
        list[int](),
    )
    while len(found) < size:
        y = _laplace(t, source)
        # accepted with e^{−(|y| − v/t)²/2v}, the exponent as one fraction
        if _bernoulli_exp(
            (abs(y) * t * below - above) ** 2, 2 * above * below * t * t, source
        ):
            found.append(y)
    return found


def _laplace(t: int, source: Source) -> int:
    """Mass ∝ e^{−|y|/t}."""
    while True:
        u = _below(t, source)
        if not _bernoulli_exp(u, t, source):
            continue
        w = 0
        while _bernoulli_exp(1, 1, source):
            w += 1
        y, negative = u + t * w, source.bits(1)
        if not (negative and y == 0):
            return -y if negative else y


def _bernoulli_exp(above: int, below: int, source: Source) -> bool:
    """True with probability e^{−above/below}."""
    while above > below:
        if not _bernoulli_exp(1, 1, source):
            return False
        above -= below
    k = 1
    while _below(below * k, source) < above:  # true with probability above/(below·k)
        k += 1
    return k % 2 == 1


def _below(n: int, source: Source) -> int:
    """Uniform on 0 … n − 1."""
    bits = (n - 1).bit_length()
    while (x := source.bits(bits)) >= n:
        continue
    return x
