"""The share of records for which a released classifier predicts the right class. It is
the mean of n numbers in [0, 1], so that replacing one record moves it by at most 1/n.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from curvedp.core.codes import ProtectedUnit
from curvedp.core.statistic import Ball
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.statistics.frechet_mean import FrechetMean

# The interval [0, 1] of a share, as a ball of the real line.
SHARE_LINE = Euclidean(1)
SHARE_BALL = Ball(np.array([0.5]), 0.5)


@dataclass(frozen=True, eq=False)
class AccuracyShare(FrechetMean):
    """The mean of n numbers in [0, 1]: 1 for each right prediction, 0 for each wrong one.

    It is the Fréchet mean on the real line in the ball [0, 1], so that replacing one
    record with its label moves it by 1/n. A person counts by the share of their own
    records that is predicted right.
    """

    name: ClassVar[str] = "share of right predictions"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.LABELED_RECORD,
        ProtectedUnit.LABELED_PERSON,
    )

    def __post_init__(self) -> None:
        """Check the fields, and that the ball is the interval [0, 1].

        The sensitivity 1/n rests on that interval.

        Raises
        ------
        ParameterError
            If the manifold is not the real line, or the ball is not that of radius 1/2
            about 1/2.
        """
        super().__post_init__()
        center = float(self.center[0]) if self.manifold == SHARE_LINE else None
        if center != SHARE_BALL.center[0] or self.radius != SHARE_BALL.radius:
            raise ParameterError("a share lies in the ball of radius 1/2 about 1/2")
