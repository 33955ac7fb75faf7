"""Discrete Gaussian noise that several sites add to a sum of integer vectors together.
Each site draws a part of the noise (a share) in layers. If all sites stay to the end,
there is more noise than needed: the layers that are left over are the surplus, which
the server subtracts again (Jiang et al. 2024).

Theorem (docs/theory/federation.md). Let a statistic with integer values move by at most
Δ when a record is replaced. The statistic plus a sum of discrete Gaussian shares of
total variance V, each of variance ≥ 16, is Δ/√(V − 8)-GDP, up to a total variation of
about 2^-225 for each share and coordinate.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, exp, floor, isqrt, pi

import numpy as np

from curvedp.errors import ParameterError
from curvedp.federated.session import derive_key, hash_chain, keystream
from curvedp.numerics.directed_rounding import round_up
from curvedp.randomness import SecureSource, Source

# What discreteness costs of the total variance: θ_8 < 2^-226
# (docs/theory/federation.md).
SMOOTHING = 8

# The smallest variance of a share: two shares a, b ≥ 16 have ab/(a + b) ≥ 8.
LEAST_VARIANCE = 16

# Bytes of key stream that a `KeyedSource` makes at a time.
_STREAM_BLOCK = 1 << 14

# A bound on θ_8 = Σ_{k≠0} e^{−16π²k²}, how far a discrete Gaussian of variance 8 is
# from a rounded real one: 2·e^{−16π²}, and a little more for the further terms.
_THETA_FACTOR = 2.1

# The relative error of computing that bound in floating point stays below this.
_SLACK_ROUNDING = 1e-12


def total_variance_for(sensitivity: float, mu: float) -> int:
    """Return the total noise variance V that makes an integer statistic μ-GDP.

    Discrete Gaussian noise of total variance V gives the privacy of real Gaussian noise
    of variance V − 8 (docs/theory/federation.md). So V = ⌈(Δ/μ)²⌉ + 8, in exact
    arithmetic.

    Parameters
    ----------
    sensitivity : float
        The ℓ₂ sensitivity Δ of the statistic.
    mu : float
        The GDP parameter μ.

    Returns
    -------
    int
        V in units of the grid, rounded up.
    """
    ratio = Fraction(sensitivity) / Fraction(mu)
    return ceil(ratio**2) + SMOOTHING


def layer_variances(
    total: int, sites: int, dropouts: int, collusion: int
) -> list[Fraction]:
    """Return the variances of the layers in which one site draws its noise.

    If k of n sites are lost and c collude with the server, the n − k − c honest sites
    that remain must have the total variance V together, which is V/(n − k − c) each.
    Layers 0 to k of a site add up to that variance. So layer 0 has V/(n − c), and layer
    k ≥ 1 has V/(n − k − c) − V/(n − k + 1 − c). The layers above the actual number of
    losses are not needed and can be subtracted again.

    Parameters
    ----------
    total : int
        The total variance V of the honest sites' noise.
    sites : int
        The number n of sites.
    dropouts : int
        The largest number of lost sites.
    collusion : int
        The number c of colluding sites.

    Returns
    -------
    list of Fraction
        The variances of the layers 0 to `dropouts`, exact.

    Raises
    ------
    ParameterError
        If a layer has a variance below `LEAST_VARIANCE`.
    """
    variance_per_site = [
        Fraction(total, sites - lost - collusion) for lost in range(dropouts + 1)
    ]
    variances = [variance_per_site[0]]
    for fewer_losses, more_losses in pairwise(variance_per_site):
        variances.append(more_losses - fewer_losses)
    if min(variances) < LEAST_VARIANCE:
        raise ParameterError(
            f"a share of the noise has variance {float(min(variances)):g}; "
            "a finer grid is needed"
        )
    return variances


def noise_slack(shares: int, coordinates: int) -> float:
    """Bound the total variation between discrete Gaussian noise and an ideal release.

    The ideal release is computed from real Gaussian noise, whose privacy is known
    exactly. Each share of noise that a site adds contributes at most 2θ/(1 − θ) in each
    coordinate, with θ < 2.1·e^{−16π²}. The bound is rounded up.

    Parameters
    ----------
    shares : int
        The number of discrete Gaussian shares in the sum.
    coordinates : int
        The number of coordinates of the statistic.

    Returns
    -------
    float
        The bound, about 2^-225 for each share and coordinate.
    """
    theta = _THETA_FACTOR * exp(-16 * pi**2)
    # 1/(1 − θ) ≤ (1 + θ)² for so small a θ.
    slack_per_share = 2 * theta * (1 + theta) ** 2
    return float(round_up(slack_per_share * shares * coordinates, _SLACK_ROUNDING))


class KeyedSource(Source):
    """A source of random bits that a key of 32 bytes determines (experimental).

    A site draws a layer of its noise from it. The server, once it learns the seed,
    draws the same layer in order to subtract it. The protocol has not been reviewed by
    outside cryptographers.

    Parameters
    ----------
    key : bytes
        The key, 32 bytes, used for nothing else.
    """

    name = "ChaCha20 under a key of its own"
    is_cryptographic = True

    def __init__(self, key: bytes) -> None:
        """Start the stream of a key at its beginning; nothing is computed yet.

        Parameters
        ----------
        key : bytes
            The key, 32 bytes.
        """
        self._key = key
        self._next_block = 0
        self._buffer = b""
        # How many bytes of the buffer have been returned.
        self._used = 0

    def random_bytes(self, n: int) -> bytes:
        """Return the next n bytes of the stream that the key determines.

        The stream is computed in blocks, and what a call leaves over is kept.

        Parameters
        ----------
        n : int
            The number of bytes.

        Returns
        -------
        bytes
            The bytes; the same key gives the same ones.
        """
        while len(self._buffer) - self._used < n:
            block_number = self._next_block.to_bytes(8, "little")
            block_key = derive_key(self._key, b"source", block_number)
            unused = self._buffer[self._used :]
            self._buffer = unused + keystream(block_key, _STREAM_BLOCK)
            self._used = 0
            self._next_block += 1
        start = self._used
        self._used += n
        return self._buffer[start : self._used]


def site_noise(
    variances: Sequence[Fraction],
    seed: bytes,
    length: int,
    source: Source | None = None,
) -> np.ndarray:
    """Draw the noise that one site adds to its vector, modulo 2^64.

    The noise is a sum of independent layers. The first one stays secret. The others
    follow from a seed, so that the server can subtract those that turn out to be
    unnecessary.

    Parameters
    ----------
    variances : sequence of Fraction
        The variance of each layer, from `layer_variances`.
    seed : bytes
        The seed from which all layers but the first are computed.
    length : int
        The number of coordinates.
    source : Source, optional
        The bits of the first layer, which nobody else ever learns; the system's
        cryptographic source by default.

    Returns
    -------
    array of int64
        The noise in each coordinate.
    """
    secret_source = SecureSource() if source is None else source
    first_layer = discrete_gaussian(variances[0], length, secret_source)
    further_layers = surplus_noise(variances, 0, seed, length)
    return np.asarray(_modulo_word(first_layer) + further_layers)


def surplus_noise(
    variances: Sequence[Fraction], lost: int, seed: bytes, length: int
) -> np.ndarray:
    """Return the layers of a site's noise that are not needed, added up modulo 2^64.

    A site draws noise in layers for the case that other sites are lost. If only `lost`
    sites are lost, the layers with a higher index are unnecessary. The server calls
    this to subtract them.

    Parameters
    ----------
    variances : sequence of Fraction
        The variance of each layer, from `layer_variances`.
    lost : int
        The number of lost sites.
    seed : bytes
        The seed that the site reveals for this number. It determines the unnecessary
        layers and reveals nothing about the others.
    length : int
        The number of coordinates.

    Returns
    -------
    array of int64
        The surplus noise in each coordinate.
    """
    surplus_variances = variances[1 + lost :]
    layer_seeds = hash_chain(seed, len(surplus_variances))
    total = np.zeros(length, dtype=np.int64)
    for layer_variance, layer_seed in zip(surplus_variances, layer_seeds, strict=True):
        source = KeyedSource(derive_key(layer_seed, b"layer"))
        layer = discrete_gaussian(layer_variance, length, source)
        total = total + _modulo_word(layer)
    return total


def _modulo_word(values: Sequence[int]) -> np.ndarray:
    """Return integers modulo 2^64, as signed 64-bit numbers in [−2^63, 2^63).

    Parameters
    ----------
    values : sequence of int
        Integers of any size.
    """
    half = 2**63
    wrapped = [(value + half) % 2**64 - half for value in values]
    return np.array(wrapped, dtype=np.int64)


# ---- the sampler: Canonne, Kamath & Steinke 2020, Algorithms 1–3, in integers ----


def discrete_gaussian(v: Fraction, size: int, source: Source) -> list[int]:
    """Draw independent, exact discrete Gaussian integers.

    The distribution N_Z(v) has mass ∝ e^{−y²/(2v)} at the integers y. Algorithm 3 of
    Canonne, Kamath & Steinke (2020): with t = ⌊√v⌋ + 1, a draw y of the discrete
    Laplace distribution of scale t is accepted with probability e^{−(|y| − v/t)²/(2v)}.

    Parameters
    ----------
    v : Fraction
        The variance parameter v > 0.
    size : int
        The number of draws.
    source : Source
        The random bits.

    Returns
    -------
    list of int
        The draws, in exact arithmetic.

    Raises
    ------
    ParameterError
        If v is not positive.
    """
    if not v > 0:
        raise ParameterError("a variance must be > 0")
    numerator, denominator = Fraction(v).as_integer_ratio()
    t = isqrt(floor(v)) + 1
    # Accept y with probability e^{−x}. To round nothing, x = (|y| − v/t)²/(2v) is
    # written as a fraction of integers: with v = p/q, x = (|y|·t·q − p)²/(2·p·q·t²).
    exponent_denominator = 2 * numerator * denominator * t * t

    draws: list[int] = []
    while len(draws) < size:
        y = _discrete_laplace(t, source)
        exponent_numerator = (abs(y) * t * denominator - numerator) ** 2
        if _bernoulli_exp(exponent_numerator, exponent_denominator, source):
            draws.append(y)
    return draws


def _discrete_laplace(t: int, source: Source) -> int:
    """Draw an integer y with probability proportional to e^{−|y|/t}.

    Algorithm 2 of Canonne, Kamath & Steinke (2020): |y| = u + t·w, where u in 0, …, t −
    1 has probability ∝ e^{−u/t} and w ≥ 0 has probability ∝ e^{−w}. A negative zero is
    rejected, so that 0 does not count twice.

    Parameters
    ----------
    t : int
        The scale, at least 1.
    source : Source
        The random bits.

    Returns
    -------
    int
        One draw.
    """
    while True:
        # u in 0, …, t − 1, by rejection with acceptance probability e^{−u/t}.
        u = _uniform_below(t, source)
        if not _bernoulli_exp(u, t, source):
            continue

        # w counts successes of probability 1/e before the first failure.
        w = 0
        while _bernoulli_exp(1, 1, source):
            w += 1
        magnitude = u + t * w
        is_negative = source.bits(1)
        if is_negative and magnitude == 0:
            continue
        return -magnitude if is_negative else magnitude


def _bernoulli_exp(numerator: int, denominator: int, source: Source) -> bool:
    """Return True with probability exactly e^{−x}, for x = numerator/denominator.

    This is Algorithm 1 of Canonne, Kamath & Steinke (2020), which uses integers only.
    While x > 1, one coin of probability e^{−1} must succeed and x is reduced by 1. For
    x ≤ 1, toss coins of success probability x/1, x/2, x/3, … until the k-th one fails.
    Then k is odd with probability 1 − x + x²/2! − … = e^{−x}.

    Parameters
    ----------
    numerator, denominator : int
        The fraction x >= 0.
    source : Source
        The random bits.

    Returns
    -------
    bool
        One toss of the coin.
    """
    while numerator > denominator:
        if not _bernoulli_exp(1, 1, source):
            return False
        numerator -= denominator
    k = 1
    while _uniform_below(denominator * k, source) < numerator:
        k += 1
    return k % 2 == 1


def _uniform_below(n: int, source: Source) -> int:
    """Draw a uniform integer from 0, …, n − 1, by rejection.

    Parameters
    ----------
    n : int
        The number of possible outcomes.
    source : Source
        The random bits.

    Returns
    -------
    int
        One draw; every value has the probability 1/n exactly.
    """
    bit_count = (n - 1).bit_length()
    while True:
        candidate = source.bits(bit_count)
        if candidate < n:
            return candidate
