"""Clipped gradients of a loss: what the private optimizers release in every step."""

from dataclasses import dataclass
from math import inf, nextafter
from typing import ClassVar

from curvedp.core.codes import ProtectedUnit
from curvedp.core.fields import Count, Length
from curvedp.core.statistic import Statistic
from curvedp.geometry.manifold import Manifold


@dataclass(frozen=True, eq=False)
class ClippedGradient(Statistic):
    """The mean of n clipped gradients at points that are already released.

    Attributes
    ----------
    manifold : Manifold
        Where the parameter lives.
    clip : float
        The public bound C on a gradient's length, enlarged by the rounding of what is
        clipped and summed.
    n : int
        The number of records.
    """

    manifold: Manifold
    clip: Length
    n: Count

    name: ClassVar[str] = "mean clipped gradient"

    @property
    def value_space(self) -> Manifold:
        return self.manifold

    @property
    def public_count(self) -> int:
        return self.n

    @property
    def sensitivity(self) -> float:
        """2C/n: a gradient depends on its own record and on released points only."""
        return nextafter(2 * self.clip / self.n, inf)


@dataclass(frozen=True, eq=False)
class ClippedGradientSum(Statistic):
    """The sum of clipped gradients at released points; how many there are is private."""

    manifold: Manifold
    clip: Length

    name: ClassVar[str] = "sum of clipped gradients, number of records private"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD,
        ProtectedUnit.PERSON,
    )

    @property
    def value_space(self) -> Manifold:
        return self.manifold

    @property
    def sensitivity(self) -> float:
        """C: a record that is added or removed adds or removes one vector."""
        return self.clip
