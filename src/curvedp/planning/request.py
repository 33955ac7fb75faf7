"""A `PlanRequest` holds what the caller of `plan` asks for: the space, the ball, the
number of records, the guarantee and the statistic. Each family of statistics turns a
request into a `Plan`.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from curvedp.core.statistic import Statistic
from curvedp.geometry.manifold import Manifold
from curvedp.privacy import Guarantee

__all__ = ["STATISTIC_NAMES", "OwnStatistic", "PlanRequest", "unwrap_statistic_class"]

# What a plan can be made for by name.
STATISTIC_NAMES = (
    "mean",
    "dispersion",
    "regression",
    "classifier",
    "starter-kit",
    "tangent-pca",
    "synthetic",
    "kmeans",
)

OwnStatistic = type[Statistic] | partial[Statistic]
"""A statistic that is not in the library: its class, or `functools.partial` of the class
with further parameters of its own."""


@dataclass(frozen=True)
class PlanRequest:
    """The parameters of `plan`, for the module that plans this kind of statistic.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    n : int
        The number of records of all classes together, or of people.
    radius : float, "private" or None
        The radius of the public ball, or "private" to search for a ball.
    guarantee : Guarantee
        The guarantee that the release will meet.
    center : array or None
        The center of the ball; None for the origin of the manifold.
    outer_radius : float or None
        The radius of the public ball in which a private ball is searched.
    mechanism : str
        The one mechanism to predict; "auto" predicts all of them.
    statistic : str, type of Statistic, or functools.partial of such a type
        What is released, as the caller of `plan` named it.
    classes : int
        The number of classes or clusters, with equally many records each.
    spread : float or None
        The stated root mean square distance of the records to their mean.
    """

    manifold: Manifold
    n: int
    radius: Any  # not yet checked: each family accepts other radii
    guarantee: Guarantee
    center: ArrayLike | None
    outer_radius: float | None
    mechanism: str
    statistic: str | OwnStatistic
    classes: int
    spread: float | None

    @property
    def has_private_ball(self) -> bool:
        """Whether the release searches for its ball, with `radius="private"`."""
        return isinstance(self.radius, str)

    @property
    def class_size(self) -> int:
        """The number of records in each class."""
        return self.n // self.classes


def unwrap_statistic_class(statistic: Any) -> Any:
    """Return the class of a statistic, which `functools.partial` may wrap.

    Parameters
    ----------
    statistic : type, or functools.partial of one
        What the caller of `plan` passes.
    """
    return statistic.func if isinstance(statistic, partial) else statistic
