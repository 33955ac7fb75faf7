"""The law of cosines in half angles, which loses no digits, for curvature −1, 0 and 1. In a
triangle with the sides r, D and b, the angle φ between r and D has

    cos²(φ/2) = sn((r+D−b)/2)·sn((r+D+b)/2) / (sn r·sn D),
    sin²(φ/2) = sn((b−r+D)/2)·sn((b+r−D)/2) / (sn r·sn D),

where sn is sinh, the identity or sin for the curvature −1, 0 or 1.
"""

import math
from typing import NamedTuple

import numpy as np

from curvedp.numerics.directed_rounding import Array


class HalfSums(NamedTuple):
    """Half sums of the sides r, D and b of a triangle, named after the negative side."""

    minus_b: Array  # (r + D − b)/2
    all_plus: Array  # (r + D + b)/2
    minus_r: Array  # (b − r + D)/2
    minus_d: Array  # (b + r − D)/2


def flat_law_of_cosines(half: HalfSums, r: Array, D: float) -> tuple[Array, Array]:
    """Return cos²(φ/2) and sin²(φ/2) of the angle φ opposite to b, in flat space.

    cos²(φ/2) is (r+D−b)/2·(r+D+b)/2 / (r·D), and sin²(φ/2) is
    (b−r+D)/2·(b+r−D)/2 / (r·D). They sum to 1, but a difference from 1 would lose
    digits.

    Parameters
    ----------
    half : HalfSums
        Half sums and differences of the sides r, D and b.
    r : array
        One of the sides next to the angle.
    D : float
        The other side next to the angle.

    Returns
    -------
    cos_square, sin_square : array
        The two squares.
    """
    cos_square = half.minus_b * half.all_plus / (r * D)
    sin_square = half.minus_r * half.minus_d / (r * D)
    return cos_square, sin_square


def spherical_law_of_cosines(half: HalfSums, r: Array, D: float) -> tuple[Array, Array]:
    """Return cos²(φ/2) and sin²(φ/2) of the angle φ opposite to b, on the unit sphere.

    They sum to 1, but a difference from 1 would lose the digits of the smaller one.

    Parameters
    ----------
    half : HalfSums
        Half sums and differences of the sides r, D and b.
    r : array
        One of the sides next to the angle.
    D : float
        The other side next to the angle.

    Returns
    -------
    cos_square, sin_square : array
        The two squares.
    """
    denominator = np.sin(r) * math.sin(D)
    cos_square = np.sin(half.minus_b) * np.sin(half.all_plus) / denominator
    sin_square = np.sin(half.minus_r) * np.sin(half.minus_d) / denominator
    return cos_square, sin_square


def hyperbolic_law_of_cosines(
    half: HalfSums, r: Array, D: float
) -> tuple[Array, Array]:
    """Return cos²(φ/2) and sin²(φ/2) of the angle φ opposite to b, for curvature −1.

    Both are products of two sinh, divided by sinh r·sinh D. Each sinh z is written as
    e^z·(1 − e^{−2z})/2, so that nothing overflows. The factors e^z cancel in cos²(φ/2),
    and leave e^{−(r+D−b)} in sin²(φ/2).

    Parameters
    ----------
    half : HalfSums
        Half sums and differences of the sides r, D and b.
    r : array
        One of the sides next to the angle.
    D : float
        The other side next to the angle.

    Returns
    -------
    cos_square, sin_square : array
        The two squares.
    """
    denominator = np.expm1(-2 * r) * math.expm1(-2 * D)
    cos_square = (
        np.expm1(-2 * half.minus_b) * np.expm1(-2 * half.all_plus) / denominator
    )
    sin_square = (
        np.exp(-2 * half.minus_b)
        * np.expm1(-2 * half.minus_r)
        * np.expm1(-2 * half.minus_d)
        / denominator
    )
    return cos_square, sin_square
