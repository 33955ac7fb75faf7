"""Plan k-means: predict how much noise the center of a cluster would get, if all
clusters have the same size.
"""

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.spaces.sphere import Sphere
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.mechanisms.staged.kmeans import KMeansMechanism
from curvedp.planning.request import PlanRequest
from curvedp.planning.result import Plan
from curvedp.statistics.clusters import Clusters
from curvedp.statistics.searched_ball import default_outer_radius

__all__ = ["plan_clusters"]


def plan_clusters(request: PlanRequest) -> Plan:
    """Return the plan of k-means, for the statistic "kmeans".

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`. Its classes are the clusters, at least two; k-means
        takes no radius and no spread.

    Returns
    -------
    Plan
        The length of the noise of a center, in units of the spread of a cluster.

    Raises
    ------
    ParameterError
        If there is a radius or a spread, or there are more clusters than records.
    """
    _check_parameters(request)
    n_clusters = max(request.classes, 2)
    if n_clusters > request.n:
        raise ParameterError(
            f"is more clusters than there are records: {request.n}",
            parameter="classes",
            value=request.classes,
        )

    statistic = _clusters_statistic(request, n_clusters)
    mechanism = KMeansMechanism.calibrate(statistic, request.guarantee)
    noise = mechanism.center_noise
    center = request.center
    return Plan(
        manifold=request.manifold,
        n=request.n,
        radius=None,
        guarantee=request.guarantee,
        center=None if center is None else np.asarray(center, dtype=np.float64),
        outer_radius=request.outer_radius,
        spread=1.0,
        useless_error=noise / mechanism.smallest_cluster,
        errors={"kmeans": noise * n_clusters / request.n},
        left_out={},
        statistic="kmeans",
        classes=n_clusters,
    )


def _check_parameters(request: PlanRequest) -> None:
    """Refuse a radius, a spread or a mechanism that k-means has no use for.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`.
    """
    for name, value in (("radius", request.radius), ("spread", request.spread)):
        if value is not None:
            raise ParameterError(
                "is not for k-means, which finds its own", parameter=name, value=value
            )
    _validate.choice("mechanism", request.mechanism, ("auto", "kmeans"))


def _clusters_statistic(request: PlanRequest, n_clusters: int) -> Clusters:
    """Return the statistic that k-means would release.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`.
    n_clusters : int
        The number of clusters.
    """
    # On a sphere no ball is needed: records are unit vectors.
    outer_radius = 1.0
    if not isinstance(request.manifold, Sphere):
        outer_radius = default_outer_radius(request.manifold, request.outer_radius)
    # Under add/remove adjacency the number of records is not public.
    public_n = None if request.guarantee.adjacency == ADD_REMOVE else request.n
    return Clusters(
        request.manifold,
        request.center,
        outer_radius,
        clusters=n_clusters,
        starts=None,
        n=public_n,
    )
