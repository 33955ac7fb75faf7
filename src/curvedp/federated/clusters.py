"""Clusters (private k-means) as a statistic that several sites can release together.
`ClustersKernel` has the public parameters of `PrivateKMeans`. What its rounds ask is in
`curvedp.federated.cluster_schedule`, which only processes that need it import.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from curvedp import _validate
from curvedp.core.fields import assign
from curvedp.errors import ParameterError
from curvedp.federated.kernels import Kernel
from curvedp.federated.schedule import Schedule
from curvedp.geometry.manifold import check_manifold
from curvedp.geometry.spaces.sphere import Sphere
from curvedp.statistics.clusters import PRIVATE_NUMBER, Clusters
from curvedp.statistics.searched_ball import default_outer_radius

if TYPE_CHECKING:
    from curvedp.federated.plan import Plan

# The value of `n_clusters` with which the number is chosen from released numbers.
_PRIVATE = "private"

# The stages of k-means: at most five searches of two sums each for a center (one sum on
# a sphere), a moment, candidates, a spread, at most six steps, and sizes.
_SUMS_OF_SEARCHES = 10
_SUMS_ON_SPHERES = 1
_SUMS_AFTER_SEARCHES = 10


@dataclass(frozen=True, eq=False)
class ClustersKernel(Kernel):
    """Centers, sizes and spreads of clusters, by private k-means (experimental).

    The rounds are the stages of `PrivateKMeans`. The value is a `Clustering`. The
    masking protocol has not been reviewed by outside cryptographers.

    Parameters
    ----------
    manifold : Manifold
        The space of the records, such as `Sphere(383)` for embeddings with 384 numbers.
    n_clusters : int or "private"
        How many clusters; "private" chooses the number from what is released.
    init : array of shape (n_clusters, *point_shape), optional
        Public initial centers. They must not be computed from the records.
    center : point, optional
        Where the search begins; by default the manifold's origin. Not for spheres.
    outer_radius : float, optional
        Records farther from `center` than this are clipped to it at first. By default
        it is generous. Not for spheres.

    Raises
    ------
    ParameterError
        If a parameter is not usable.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> kernel = ClustersKernel(Sphere(383), n_clusters=20)
    >>> kernel.n_clusters, kernel.max_rounds
    (20, 11)
    """

    n_clusters: Any = 8
    init: Any = None
    center: Any = None
    outer_radius: Any = None

    name = "clusters"

    def __post_init__(self) -> None:
        """Check all parameters, and set the defaults of center and radius.

        Raises
        ------
        ParameterError
            If a parameter is not usable.
        """
        is_sphere = isinstance(check_manifold(self.manifold), Sphere)
        if isinstance(self.n_clusters, str):
            _validate.choice("n_clusters", self.n_clusters, (_PRIVATE,))
        else:
            number = _validate.integer("n_clusters", self.n_clusters, 2)
            assign(self, n_clusters=number)

        if is_sphere:
            for name in ("center", "outer_radius"):
                if vars(self)[name] is not None:
                    raise ParameterError(
                        "is not for spheres, where the search begins everywhere",
                        parameter=name,
                        value=vars(self)[name],
                    )
        else:
            outer_radius = default_outer_radius(self.manifold, self.outer_radius)
            assign(self, outer_radius=outer_radius)

        # The statistic checks initial centers and the center of the search.
        statistic = self.statistic(None)
        if not is_sphere:
            assign(self, center=np.asarray(statistic.center))
        if self.init is not None:
            assign(self, init=np.asarray(statistic.starts))

    def statistic(self, n: int | None) -> Clusters:
        """Return the statistic that the sites release together.

        Parameters
        ----------
        n : int or None
            The number of records, or people, of all sites.
        """
        n_clusters = PRIVATE_NUMBER if self.has_private_number else self.n_clusters
        reach = 1.0 if self.outer_radius is None else self.outer_radius
        return Clusters(self.manifold, self.center, reach, n_clusters, self.init, n)

    @property
    def has_private_number(self) -> bool:
        """Whether the number of clusters is chosen from what is released."""
        return isinstance(self.n_clusters, str)

    @property
    def min_rounds(self) -> int:  # type: ignore[override]
        """The largest number of rounds: how many are needed follows from their sums."""
        return self.max_rounds

    @property
    def default_rounds(self) -> int:
        """The largest number of rounds."""
        return self.max_rounds

    @property
    def max_rounds(self) -> int:
        """The largest number of stages of k-means on this manifold."""
        is_sphere = isinstance(self.manifold, Sphere)
        searches = _SUMS_ON_SPHERES if is_sphere else _SUMS_OF_SEARCHES
        candidates = 0 if self.init is None else 1
        return searches + _SUMS_AFTER_SEARCHES - candidates

    def schedule(self, plan: "Plan") -> Schedule:
        """Return the stages of k-means, each of which follows from the sums before it.

        Parameters
        ----------
        plan : Plan
            The agreed terms.
        """
        # A site of another kernel need not load the mechanism.
        from curvedp.federated.cluster_schedule import ClusterSchedule

        return ClusterSchedule(plan, self)

    def combine_by_person(self, records: np.ndarray, codes: np.ndarray) -> Any:
        """Return the records with weights, so that each person counts 1 in all.

        Parameters
        ----------
        records : array of shape (records, *point_shape)
            The records.
        codes : array of int
            The number of the person to whom each record belongs, from 0 on.

        Returns
        -------
        ClusterData
            The records and their weights.
        """
        from curvedp.mechanisms.staged.cluster_sums import (
            ClusterData,
            weights_of_persons,
        )
        from curvedp.records.base import open_records

        opened = open_records(records, self.manifold.point_shape, min_records=0)
        return ClusterData(opened, weights_of_persons(codes))
