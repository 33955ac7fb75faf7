"""What an optimiser returns."""

from typing import Any, NamedTuple

from curvedp.privacy import Guarantee

__all__ = ["OptimResult"]


class OptimResult(NamedTuple):
    """The private point and what it costs.

    `history` is None, or, when it was asked for, the objective on the data after each recorded step: computed without
    noise, so NOT private. `noise` is the standard deviation of the tangent noise on the averaged gradient.
    """

    point: Any
    guarantee: Guarantee
    noise: Any
    history: Any = None
    history_is_private: bool = False
