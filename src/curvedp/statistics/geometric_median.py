"""The geometric median: the point with the least mean distance to the records."""

from dataclasses import dataclass
from typing import ClassVar

from curvedp.statistics.searched_ball import SearchedBallStatistic


@dataclass(frozen=True, eq=False)
class GeometricMedian(SearchedBallStatistic):
    """The geometric median of n records in a public ball, which may be generous."""

    name: ClassVar[str] = "geometric median"
