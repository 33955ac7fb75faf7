"""What Gaussian noise of any scale reveals on a hyperbolic space: the floor. Unlike on other
spaces, some privacy loss remains however much noise is added, because even a very far
output shows by its direction which of two noise centers is nearer.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from curvedp import _validate
from curvedp.numerics.directed_rounding import NINE_ROUNDINGS, round_up
from curvedp.privacy.loss.hyperbolic_limit import LimitingLoss
from curvedp.privacy.loss.law import PrivacyLossLaw
from curvedp.privacy.profiles.base import PrivacyProfile


@dataclass(frozen=True)
class FloorProfile(PrivacyProfile):
    """The limit of the profile of a Gaussian on a hyperbolic space as its scale grows.

    On a hyperbolic space some privacy loss remains, however much noise is added. It
    tends to (d−1)·log(cosh Δ − sinh Δ·cos φ), where φ is the angle between a uniformly
    random direction and the direction of the second center. No isotropic noise does
    better, because Brownian motion turns every one into this limit
    (docs/theory/hyperbolic-floor.md, Theorem P3).

    Parameters
    ----------
    curvature, dim : float, int
        The curvature < 0 and the dimension d >= 2 of the space.
    sensitivity : float
        The largest distance Δ between two centers.
    """

    curvature: float
    dim: int
    sensitivity: float

    length_fields: ClassVar[tuple[str, ...]] = ("sensitivity",)
    open_ranges: ClassVar[dict[str, tuple[float, float]]] = {"curvature": (-1e300, 0.0)}

    def __post_init__(self) -> None:
        """Validate curvature, sensitivity and dimension."""
        super().__post_init__()
        _validate.integer("dim", self.dim, 2)

    @cached_property
    def loss_law(self) -> PrivacyLossLaw:
        """The limit of the privacy loss, with Δ in units of the curvature radius."""
        return LimitingLoss(self.dim, self.sensitivity * math.sqrt(-self.curvature))

    @property
    def rao(self) -> float:
        """The Rao distance, sensitivity·√(Fisher information): Δ(d−1)/√d, rounded up.

        Here Δ is in units of the curvature radius, and d is the dimension.
        """
        return float(round_up(self.loss_law.loss_scale, NINE_ROUNDINGS))
