"""Clipped gradients of a loss: what the private optimizers release in every step. Each
record's gradient is shortened to a public length C, so that replacing one of n records
moves their mean by at most 2C/n.
"""

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
        """The manifold of the parameter, to whose tangent spaces gradients belong."""
        return self.manifold

    @property
    def public_count(self) -> int:
        """The number n of records, which is public."""
        return self.n

    @property
    def sensitivity(self) -> float:
        """2C/n, the largest move of a mean of n vectors of length at most C.

        A gradient depends on its own record and on points that are already released, so
        that one record changes one of the n vectors.
        """
        return nextafter(2 * self.clip / self.n, inf)


@dataclass(frozen=True, eq=False)
class ClippedGradientSum(Statistic):
    """The sum of clipped gradients at released points; how many there are is private.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the parameter.
    clip : float
        The public bound C on a gradient's length, enlarged by rounding.
    """

    manifold: Manifold
    clip: Length

    name: ClassVar[str] = "sum of clipped gradients, number of records private"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD,
        ProtectedUnit.PERSON,
    )

    @property
    def value_space(self) -> Manifold:
        """The manifold of the parameter, to whose tangent spaces gradients belong."""
        return self.manifold

    @property
    def sensitivity(self) -> float:
        """C, the bound on one gradient: an added record adds one vector of that length."""
        return self.clip
