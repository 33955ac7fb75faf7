"""`plan` checks its parameters, and hands them to the module that plans this kind of
statistic.
"""

from dataclasses import replace
from math import prod

from numpy.typing import ArrayLike

from curvedp import _validate
from curvedp.core.mechanism import check_guarantee
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.planning.classifiers import plan_classifier, plan_starter_kit
from curvedp.planning.clusters import plan_clusters
from curvedp.planning.own_statistic import plan_own_statistic
from curvedp.planning.private_ball import plan_private_ball
from curvedp.planning.public_ball import plan_public_ball
from curvedp.planning.request import STATISTIC_NAMES, OwnStatistic, PlanRequest
from curvedp.planning.result import Plan
from curvedp.planning.synthetic import plan_synthetic
from curvedp.privacy import GDP, Guarantee

__all__ = ["plan"]

# The most numbers in one point. A prediction simulates about a hundred points, which
# takes minutes beyond this size.
_MAX_NUMBERS_PER_POINT = 10**5


def plan(
    manifold: Manifold,
    n: int,
    radius: float | str | None = None,
    guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value, safe as a default
    center: ArrayLike | None = None,
    outer_radius: float | None = None,
    mechanism: str = "auto",
    statistic: str | OwnStatistic = "mean",
    classes: int = 1,
    spread: float | None = None,
) -> Plan:
    """Predict the error of a private release for each mechanism, before there are data.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    n : int
        The number of records, or of people if a person has several records.
    radius : float or "private"
        The radius of the public ball. With "private" the release finds a ball, and the
        error depends on the spread. A classifier takes no radius.
    guarantee : Guarantee
        The guarantee that the release will meet.
    center : point, optional
        The center of the public ball; the origin of the manifold by default.
    outer_radius : float, optional
        With `radius="private"`, the radius of the public ball about `center` in which
        the release searches; a generous one by default.
    mechanism : str
        The name of one mechanism, which is predicted faster than all of them; all of
        them by default.
    statistic : str, type of Statistic, or functools.partial of such a type
        What will be released: "mean", "dispersion", "regression", "classifier",
        "starter-kit", "tangent-pca", "synthetic" (records, `PrivateSynthesizer`) or "kmeans", which
        takes no radius. A regression has one predictor and takes `radius="private"`. A
        classifier is for covariance matrices of many channels, which are reduced
        privately: `PrivateMDM(reduce=)` or `PrivateSoftmax`, whichever is better, with
        the better features. A starter kit (`PrivateStarterKit`) is for few people who
        have trials of every class; it takes any radius, or compares two. A class of
        your own derives from `ClippedToBall` and has its four fields, and takes a
        public ball.
    classes : int
        The number of classes, with equally many records each. The mean is then that of
        one class, as `PrivateMDM` releases it. For "kmeans", the number of clusters.
    spread : float, optional
        With `radius="private"`, the root mean square distance of the records to their
        mean, from an earlier study or from experience: it is public. By default 0.5, or
        less where the space is small; the error is nearly in proportion to it. For a
        starter kit, the distance of a person's class centers from the identity.

    Returns
    -------
    Plan
        The predictions; it prints itself.

    Raises
    ------
    ParameterError, UnattainableGuarantee
        If a parameter is not usable, or no mechanism meets the guarantee.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> study = plan(SPDAffineInvariant(3), n=972, radius=2.5, guarantee=GDP(1.0))
    >>> study.mechanism, study.too_small, round(study.error, 2)
    ('tangent-gaussian', False, 0.01)
    >>> 550 < study.records_needed(0.02) < 650
    True
    """
    check_manifold(manifold)
    if isinstance(statistic, str):
        _validate.choice("statistic", statistic, STATISTIC_NAMES)
    adjacencies: tuple[str, ...] = ("replace-one",)
    if statistic == "kmeans":
        adjacencies = ("replace-one", ADD_REMOVE)
    check_guarantee(guarantee, *adjacencies)
    _check_point_size(manifold)
    request = PlanRequest(
        manifold=manifold,
        n=_validate.integer("n", n, 2),
        radius=radius,
        guarantee=guarantee,
        center=center,
        outer_radius=outer_radius,
        mechanism=mechanism,
        statistic=statistic,
        classes=_validate.integer("classes", classes, 1),
        spread=spread,
    )
    if statistic == "kmeans":
        return plan_clusters(request)
    if statistic == "classifier":
        return plan_classifier(request)
    if statistic == "starter-kit":
        return plan_starter_kit(request)
    return _plan_in_ball(request)


def _plan_in_ball(request: PlanRequest) -> Plan:
    """Return the plan of a statistic of records in a public or in a private ball.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`.
    """
    request = replace(request, spread=_check_spread(request))
    if request.statistic == "synthetic":
        return plan_synthetic(request)
    _check_class_sizes(request)
    if not isinstance(request.statistic, str):
        return plan_own_statistic(request)
    if request.has_private_ball:
        return plan_private_ball(request)
    return plan_public_ball(request)


def _check_point_size(manifold: Manifold) -> None:
    """Refuse a manifold whose points have too many numbers to simulate quickly.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.

    Raises
    ------
    ParameterError
        If a point has more than 10⁵ numbers.
    """
    numbers = prod(manifold.point_shape)
    if numbers > _MAX_NUMBERS_PER_POINT:
        raise ParameterError(
            f"a point of {manifold!r} has {numbers} numbers; "
            f"plans are for at most {_MAX_NUMBERS_PER_POINT}"
        )


def _check_spread(request: PlanRequest) -> float | None:
    """Return the stated spread as a float after checking it; None if there is none.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`. In a public ball a spread has no use.

    Raises
    ------
    ParameterError
        If the spread is not positive, or has no use.
    """
    if request.spread is None:
        return None
    if not request.has_private_ball:
        raise ParameterError(
            "is for a private radius", parameter="spread", value=request.spread
        )
    return _validate.positive("spread", request.spread)


def _check_class_sizes(request: PlanRequest) -> None:
    """Refuse several classes for a statistic without classes, or too few records.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`. Only means have classes here, of at least two records
        each.

    Raises
    ------
    ParameterError
        If the statistic has no classes, or a class has fewer than 2 records.
    """
    if request.classes == 1:
        return
    if request.statistic != "mean" or request.n < 2 * request.classes:
        raise ParameterError(
            "is for means and classifiers, of at least 2 records a class",
            parameter="classes",
            value=request.classes,
        )
