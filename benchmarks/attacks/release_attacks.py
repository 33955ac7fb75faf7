"""Attacks on the last bits of a release.

The noise laws of curvedp are continuous; a float64 program is not. Which floats it can reach, how far its unit vectors
are from unit length, how far its symmetric matrices are from symmetric depend on the footpoint, and a distinguisher
that looks only there can beat the claimed ε by any amount (Mironov 2012, on the Laplace mechanism). Each attack here
maps releases to small integers; `distinguish` turns two samples of such integers into a lower bound on ε that holds
with the stated confidence.
"""

import math
from typing import Any

import numpy as np
from scipy import stats

from curvedp import _validate
from curvedp.errors import ParameterError

__all__ = [
    "distinguish",
    "lowest_bit",
    "norm_residual",
    "orthogonality_bits",
    "orthonormality_residual",
    "symmetry_residual",
    "welch_t",
]


# ---- what the attacker looks at


def lowest_bit(values: Any) -> np.ndarray:
    """The place of the lowest set bit of each number: x is an odd multiple of 2 to this power; 0 gives 9999.

    A sum a + b in floats is a multiple of the spacing at the larger term, a product is not: adding a footpoint's
    coordinate removes the low bits that a footpoint with coordinate 0 leaves in place.

    >>> lowest_bit(np.array([0.75, 4.0])).tolist()
    [-2, 2]
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    low = np.where(whole == 0, 1, whole & -whole)
    return np.asarray(
        np.where(
            whole == 0, 9999, np.frexp(low.astype(np.float64))[1] - 1 - 53 + exponent
        )
    )


def norm_residual(points: Any, signature: Any) -> np.ndarray:
    """Σ signatureᵢ·xᵢ² in floats, in units of 2^-53 off its ideal value ±1, clipped to ±64.

    The signature is (1, …, 1) on the sphere and (−1, 1, …, 1) on the hyperboloid.
    """
    x, weight = (
        np.asarray(points, dtype=np.float64),
        np.asarray(signature, dtype=np.float64),
    )
    ideal = 1.0 if np.all(weight > 0) else -1.0
    off = ((x * x * weight).sum(axis=-1) - ideal) * 2.0**53
    return np.asarray(np.clip(np.rint(off), -64, 64), dtype=np.int64)


def symmetry_residual(matrices: Any) -> np.ndarray:
    """Which entries above the diagonal differ from their mirror image, and in which direction, as one base-3 number."""
    x = np.asarray(matrices, dtype=np.float64)
    rows, columns = np.triu_indices(x.shape[-1], 1)
    signs = np.sign(x[..., rows, columns] - x[..., columns, rows]).astype(np.int64) + 1
    return np.asarray(signs @ 3 ** np.arange(len(rows)))


def orthonormality_residual(frames: Any) -> np.ndarray:
    """Which entries of XᵀX differ from the identity in floats, and in which direction, as one base-3 number."""
    x = np.asarray(frames, dtype=np.float64)
    gram = np.swapaxes(x, -1, -2) @ x - np.eye(x.shape[-1])
    rows, columns = np.triu_indices(x.shape[-1])
    signs = np.sign(gram[..., rows, columns]).astype(np.int64) + 1
    return np.asarray(signs @ 3 ** np.arange(len(rows)))


def orthogonality_bits(frames: Any) -> np.ndarray:
    """The lowest set bit of the product of the first two columns, in exact arithmetic: ideally they are orthogonal.

    Columns on a grid 2^-k have a product that is a multiple of 2^-2k; once a frame has been turned in floats, not.

    >>> orthogonality_bits(np.array([[[1.0, 0.5], [0.0, 0.75]]])).tolist()
    [-1]
    """
    x = np.asarray(frames, dtype=np.float64)
    mantissa, exponent = np.frexp(x[..., :2])
    whole = np.prod(np.ldexp(mantissa, 53).astype(np.int64).astype(object), axis=-1)
    place = np.where(whole == 0, 9999, exponent.sum(axis=-1) - 106)
    least = place.min(axis=-1, keepdims=True)
    total = np.sum(
        whole * 2 ** np.where(whole == 0, 0, place - least).astype(object), axis=-1
    )
    bits = [
        9999 if t == 0 else (t & -t).bit_length() - 1 + int(e)
        for t, e in zip(total, least[..., 0], strict=True)
    ]
    return np.array(bits)


def welch_t(first: Any, second: Any, trim: float = 0.05) -> float:
    """Welch's t of two samples of times, after the slowest share `trim` of each is cut off at a common threshold.

    Interleave the measurements, so that what else the machine does falls on both; beyond ±4.5 the times tell the inputs
    apart (the threshold of leakage tests, Goodwill et al. 2011).

    >>> rng = np.random.default_rng(0)
    >>> abs(welch_t(rng.exponential(1, 5000), rng.exponential(1, 5000))) < 4.5
    True
    >>> abs(welch_t(rng.exponential(1, 5000), 0.2 + rng.exponential(1, 5000))) > 4.5
    True
    """
    trim = _validate.within("trim", trim, 0, 0.5)
    a, b = (
        np.ravel(_validate.array("first", first)),
        np.ravel(_validate.array("second", second)),
    )
    if min(a.size, b.size) < 8:
        raise ParameterError(
            f"samples of sizes {a.size} and {b.size} must have at least 8 elements"
        )
    limit = np.quantile(
        np.concatenate([a, b]), 1 - trim
    )  # one threshold for both: choosing it looks at no side
    a, b = a[a <= limit], b[b <= limit]
    spread = math.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size)
    return float((a.mean() - b.mean()) / spread) if spread > 0 else 0.0


# ---- what it proves


def distinguish(
    first: Any, second: Any, *, delta: float = 0.0, confidence: float = 0.999
) -> float:
    """A lower bound on the ε of any (ε, δ)-DP mechanism whose releases at two neighbors gave these two samples.

    Half of each sample chooses the event, the likelier side first, by its likelihood ratio; the other half bounds its
    probabilities (Clopper & Pearson 1934): ε ≥ log((p₁ − δ)/p₂). Both directions are tried, each at half the failure
    probability.

    *Guarantees*
    - If the mechanism is (ε, δ)-DP, the result exceeds ε with probability at most 1 − confidence.

    >>> same = np.arange(1000) % 7
    >>> distinguish(same, same)
    0.0
    """
    delta = _validate.within("delta", delta, 0, 1)
    confidence = _validate.within(
        "confidence", confidence, 0, 1, open_low=True, open_high=True
    )
    a, b = (
        np.ravel(_validate.array("first", first)),
        np.ravel(_validate.array("second", second)),
    )
    if min(a.size, b.size) < 4:
        raise ParameterError(
            f"samples of sizes {a.size} and {b.size} must have at least 4 elements"
        )
    failure = (1 - confidence) / 2
    return max(0.0, _one_sided(a, b, delta, failure), _one_sided(b, a, delta, failure))


def _one_sided(a: np.ndarray, b: np.ndarray, delta: float, failure: float) -> float:
    values = np.unique(np.concatenate([a[::2], b[::2]]))
    count_a, count_b = (
        np.array([np.sum(s == v) for v in values]) for s in (a[::2], b[::2])
    )
    order = np.argsort(
        (count_b + 0.5) / (count_a + 0.5)
    )  # events that point to a first
    hits_a, hits_b = np.cumsum(count_a[order]), np.cumsum(count_b[order])
    guess = [
        _bound(x, a[::2].size, y, b[::2].size, delta, failure)
        for x, y in zip(hits_a, hits_b, strict=True)
    ]
    event = values[order][: int(np.argmax(guess)) + 1]
    test_a, test_b = a[1::2], b[1::2]
    return _bound(
        np.isin(test_a, event).sum(),
        test_a.size,
        np.isin(test_b, event).sum(),
        test_b.size,
        delta,
        failure,
    )


def _bound(
    hits_a: Any, n_a: int, hits_b: Any, n_b: int, delta: float, failure: float
) -> float:
    """log((p_a − δ)/p_b) with p_a at its lower and p_b at its upper end, each missed with probability failure/2."""
    low = stats.beta.ppf(failure / 2, hits_a, n_a - hits_a + 1) if hits_a > 0 else 0.0
    high = (
        stats.beta.ppf(1 - failure / 2, hits_b + 1, n_b - hits_b)
        if hits_b < n_b
        else 1.0
    )
    return math.log((low - delta) / high) if low > delta else -math.inf
