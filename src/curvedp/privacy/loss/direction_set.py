"""The directions of outputs whose privacy loss exceeds a level, on a projective space. A
random direction has a coordinate w: a real or complex number with |w| <= 1. The loss
exceeds the level exactly if |w + c| < R, an interval or a disc about −c.
"""

from typing import NamedTuple

from curvedp.numerics.directed_rounding import Array


class DirectionSet(NamedTuple):
    """The numbers w with |w + c| < R: an interval if w is real, a disc if it is complex.

    On the real axis the set ends at −c + R and −c − R. Both ends are stored as
    v = (1 + w)/2, together with 1 − v, which would lose digits if it were computed from
    v. An end with v < 0 lies outside the unit disc. All fields are arrays with one
    entry for each set.

    Attributes
    ----------
    right_end : array
        v = (1 + R − c)/2, from the nearer lift of the second noise center.
    above_right : array
        1 − right_end.
    left_end : array
        v = (1 − R − c)/2, from the farther lift.
    above_left : array
        1 − left_end.
    radius : array
        R, half the length of the interval, or the radius of the disc.
    """

    right_end: Array
    above_right: Array
    left_end: Array
    above_left: Array
    radius: Array
