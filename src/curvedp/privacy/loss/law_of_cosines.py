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
    """Half sums and differences of the three sides r, D and b of a triangle."""

    x_first: Array  # (r + D − b)/2
    x_second: Array  # (r + D + b)/2
    y_first: Array  # (b − r + D)/2
    y_second: Array  # (b + r − D)/2


def flat_law_of_cosines(sides: HalfSums, r: Array, D: float) -> tuple[Array, Array]:
    """Return cos²(φ/2) and sin²(φ/2) of the angle φ opposite to b, in flat space.

    Parameters
    ----------
    sides : HalfSums
        Half sums of the sides.
    r : array
        One of the sides next to the angle.
    D : float
        The other one.

    Returns
    -------
    x, one_minus_x : array
        The two squares.
    """
    x = sides.x_first * sides.x_second / (r * D)
    one_minus_x = sides.y_first * sides.y_second / (r * D)
    return x, one_minus_x


def spherical_law_of_cosines(
    sides: HalfSums, r: Array, D: float
) -> tuple[Array, Array]:
    """Return cos²(φ/2) and sin²(φ/2) of the angle φ opposite to b, on the unit sphere.

    Parameters
    ----------
    sides : HalfSums
        Half sums of the sides.
    r : array
        One of the sides next to the angle.
    D : float
        The other one.

    Returns
    -------
    x, one_minus_x : array
        The two squares.
    """
    denominator = np.sin(r) * math.sin(D)
    x = np.sin(sides.x_first) * np.sin(sides.x_second) / denominator
    one_minus_x = np.sin(sides.y_first) * np.sin(sides.y_second) / denominator
    return x, one_minus_x


def hyperbolic_law_of_cosines(
    sides: HalfSums, r: Array, D: float
) -> tuple[Array, Array]:
    """Return cos²(φ/2) and sin²(φ/2) of the angle φ opposite to b, for curvature −1.

    sinh z is written as e^z·(1 − e^{−2z})/2, so that nothing overflows. In x the
    factors e^z cancel, and in 1 − x they leave e^{−2·x_first}.

    Parameters
    ----------
    sides : HalfSums
        Half sums of the sides.
    r : array
        One of the sides next to the angle.
    D : float
        The other one.

    Returns
    -------
    x, one_minus_x : array
        The two squares.
    """
    denominator = np.expm1(-2 * r) * math.expm1(-2 * D)
    x = np.expm1(-2 * sides.x_first) * np.expm1(-2 * sides.x_second) / denominator
    one_minus_x = (
        np.exp(-2 * sides.x_first)
        * np.expm1(-2 * sides.y_first)
        * np.expm1(-2 * sides.y_second)
        / denominator
    )
    return x, one_minus_x
