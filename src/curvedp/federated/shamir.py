"""Shamir's secret sharing over the prime field of 2^521 − 1 (Shamir 1979): any `threshold` shares give the secret back,
fewer say nothing about it."""

from collections.abc import Callable, Mapping, Sequence

from curvedp.errors import ParameterError

__all__ = ["PRIME", "SHARE_BYTES", "join", "split", "weights"]

PRIME = 2**521 - 1  # a Mersenne prime; secrets of 256 bits fit with room
SHARE_BYTES = 66


def split(secret: int, points: Sequence[int], threshold: int, random_bytes: Callable[[int], bytes]) -> dict[int, int]:
    """Shares of `secret` at distinct non-zero points, any `threshold` of which determine it.

    >>> import os
    >>> shares = split(7, (1, 2, 3), 2, os.urandom)
    >>> join({x: shares[x] for x in (1, 3)})
    7
    """
    if not 0 <= secret < PRIME or not 1 <= threshold <= len(set(points)) or 0 in (x % PRIME for x in points):
        raise ParameterError(
            "a secret must lie in the field and its points be distinct, not 0, and at least a threshold"
        )
    # 1040 bits modulo 521: within 2^-518 of uniform
    higher = [int.from_bytes(random_bytes(130), "little") % PRIME for _ in range(threshold - 1)]
    return {x: _value([secret, *higher], x) for x in points}


def join(shares: Mapping[int, int]) -> int:
    """The secret that shares at their points determine: Lagrange's interpolation at 0."""
    at = weights(tuple(shares))
    return sum(at[x] * share for x, share in shares.items()) % PRIME


def weights(points: Sequence[int]) -> dict[int, int]:
    """Lagrange's weights at 0: ∏_{y≠x} y/(y − x)."""
    found = {}
    for x in points:
        above = below = 1
        for y in points:
            if y != x:
                above, below = above * y % PRIME, below * (y - x) % PRIME
        found[x] = above * pow(below, -1, PRIME) % PRIME
    return found


def _value(coefficients: Sequence[int], x: int) -> int:
    total = 0
    for coefficient in reversed(coefficients):
        total = (total * x + coefficient) % PRIME
    return total
