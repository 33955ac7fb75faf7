"""What the user of a release should know, for free: from the released value and public parameters alone.

Nothing of this is stated in a certificate, so that nothing can be stated wrongly: `Certificate.alarms` computes it anew from
the grid integers, wherever the certificate is read.
"""

from collections.abc import Sequence
from math import ceil, inf, isfinite, sinh, sqrt
from typing import Any

import numpy as np

from curvedp.errors import CurvedpError
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.spd_common import SPD
from curvedp.mechanisms.choose import predicted_error, useless_error
from curvedp.mechanisms.in_private_ball import (
    InPrivateBall,
    OuterBallMean,
    OuterBallVariance,
)
from curvedp.mechanisms.measured import OuterBall
from curvedp.mechanisms.private_ball import PrivateBallMechanism
from curvedp.mechanisms.statistic import Ball, FrechetMean, FrechetVariance

_EDGE, _HOME = (
    0.1,
    1e-9,
)  # of the radius; records that were all moved onto the ball have their mean a little inside
FEW = "there are few records for this release: it may be far off, which no error bar here covers"
_CUT = "released counts say that more than a quarter of the records are outside the private ball"
_ON_EDGE = "the release lies on the edge of the ball: the ball is too small or misplaced, or noise dominates"
_OUTER = "the release lies on the edge of the outer ball: records may be outside it"
_DROWNED = (
    "the directions differ no more than noise alone would make them: noise dominates"
)
_ALONE = 0.95  # of releases of noise alone are shorter
_SURE = 6.0  # deviations, or scales, of a count
_LITTLE = 3.0  # predicted errors: 2.4 deviations of Gaussian noise
_NOISY = 0.1  # of the radius: errors below do not need an alarm
# Of the spread, or of all records: a mean with so much noise, and a variance of which so
# many records are clipped, is of little use.
USELESS_SHARE = 0.25


def alarms_of(value: Any, certificate: Any) -> list[str]:
    """What is odd about a released value and the mechanism that released it."""
    made = certificate.made_by
    final = certificate.ending
    few = [] if getattr(made, "enough", True) else [FEW]
    if isinstance(made, PrivateBallMechanism):
        few += too_noisy(made)
    searched = _searched(value, made, certificate)
    not_unique = mean_not_unique(certificate)
    if final.statistic.values is None:
        return [*few, *searched, *not_unique, *_unpredicted(made, certificate)]
    return [*few, *searched, *not_unique, *_odd(value, final)]


def misplaced(value: Any, certificate: Any) -> list[str]:
    """The alarms that doubt the ball: a predicted error may be far too small then."""
    doubts = (FEW, _CUT, _OUTER, _ON_EDGE)
    doubted = [alarm for alarm in alarms_of(value, certificate) if alarm in doubts]
    return [*doubted, *mean_not_unique(certificate)]


def mean_not_unique(certificate: Any) -> list[str]:
    """Warn, in one line or none, that the records need not have one Fréchet mean.

    Theorem (Afsari 2011). Records in a ball of radius r < min(i/2, π/(2√κ)), the
    convexity radius, have exactly one Fréchet mean, and it lies in the ball. In wider
    balls two clusters may have two means, and a step toward one of them says little
    about the other; no prediction and no region follows. The radius is public, or
    released with the certificate.
    """
    ball = _ball_of_records(certificate)
    if ball is None:
        return []
    space = certificate.made_by.statistic.manifold
    limit = space.convexity_radius
    # The curvature of Bures and Wasserstein's metric has no bound, but its means are
    # unique (Agueh & Carlier 2011).
    if not isfinite(space.curvature_bounds[1]) or ball.radius < limit:
        return []
    return [
        f"the ball has radius {ball.radius:.3g}, and on {space!r} records are known to "
        f"have only one mean in balls of radius below {limit:.3g}: the records may form "
        "several clusters, and the release may be far from their mean, farther than its "
        "predicted error; PrivateFrechetMedian is steadier, and a public radius below "
        f"{limit:.3g} about a public center gives the mean of the records clipped to it"
    ]


def too_noisy(mechanism: Any) -> list[str]:
    """Warn, in one line or none, that a release would be of little use.

    This is a function of public numbers (n, dimension, budget, radius), so it can be said
    before anything is spent.
    """
    statistic = mechanism.statistic
    if isinstance(mechanism, PrivateBallMechanism):
        return _too_noisy_in_private_ball(mechanism)
    ball = statistic.values
    if ball is None:
        return []
    if isinstance(statistic, FrechetVariance):
        return _variance_too_noisy(mechanism)
    return _mean_too_noisy(mechanism, ball.radius)


def _too_noisy_in_private_ball(search: PrivateBallMechanism) -> list[str]:
    """Compare the noise of a mean with the spread, of a variance what is clipped."""
    statistic = search.statistic
    space = statistic.manifold
    where = f"{statistic.n} records in {space.dim} dimensions"
    if isinstance(statistic, OuterBallMean):
        share = search.noise_share
        if share < USELESS_SHARE:
            return []
        needed = ceil(2 * statistic.n * share / USELESS_SHARE)
        return [
            f"{where}: the noise is about {share:.2g} of the records' own spread, so "
            f"the mean is of little use; {_cures(space, needed)}"
        ]
    if isinstance(statistic, OuterBallVariance):
        clipped = search.clipped_share
        if clipped is None or clipped < USELESS_SHARE:
            return []
        needed = ceil(2 * statistic.n * clipped / USELESS_SHARE)
        return [
            f"{where}: the search for a ball leaves about {clipped:.0%} of them outside, "
            "so the variance is far too small; "
            f"{_cures(space, needed)}"
        ]
    return []


def _cures(space: Manifold, records: int | None = None) -> str:
    """What helps against noise, in words."""
    number = "more records" if records is None else f"about {records} records"
    cures = (
        f"{number}, fewer dimensions (channels, regions) or a larger budget would do"
    )
    if not isinstance(space, SPD):
        return cures
    return (
        f"{cures}; to tell classes apart, PrivateMDM(reduce=6) and PrivateSoftmax reduce "
        "the matrices first"
    )


def _mean_too_noisy(mechanism: Any, radius: float) -> list[str]:
    """Compare the noise with the radius, and the predicted error with the center's own.

    Shrinkage keeps the error of long noise near that of the center: the error alone does
    not tell that nothing of the records is left.
    """
    cures = f"{_cures(mechanism.manifold)}, as would a smaller ball"
    error = _noticeable_error(mechanism, radius)
    if error is not None and error >= useless_error(mechanism.statistic):
        return [
            f"the predicted error {error:.3g} is so large (radius {radius:g}) that the "
            f"center of the ball is as good; {cures}"
        ]
    length = getattr(mechanism, "length", 0.0)
    if length >= radius / 3:
        return [
            f"the noise is about {length:.3g} long in a ball of radius {radius:g}: the "
            f"release says little more than the center of the ball does; {cures}"
        ]
    return []


def _variance_too_noisy(mechanism: Any) -> list[str]:
    """Compare the predicted error with the variance of records in half the ball."""
    statistic = mechanism.statistic
    dim, radius = statistic.manifold.dim, statistic.radius
    error = foreseen_error(mechanism)
    if error is None or error < radius**2 / 4 * dim / (dim + 2):
        return []
    return [
        f"the predicted error {error:.3g} of the variance is as large as the variance of "
        f"records in half the ball (radius {radius:g}); more records, a larger budget or a "
        "smaller ball would do"
    ]


def _noticeable_error(mechanism: Any, radius: float) -> float | None:
    """Return the predicted error, or None where it is not predicted or surely small."""
    length = getattr(mechanism, "length", inf) * _stretch(mechanism.manifold, radius)
    if length < radius * _NOISY / 2:
        return None  # by far too little noise is not simulated
    return foreseen_error(mechanism)


def _ball_of_records(certificate: Any) -> Ball | None:
    """Return the public or released ball in which a mean of records was taken."""
    made = certificate.made_by
    integers = certificate.release["integers"]
    if isinstance(made.statistic, InPrivateBall):
        # A variance or a geodesic cuts this ball: what was found says more.
        return None if integers is None else made.replayed(integers)[0]
    if isinstance(made.statistic, FrechetMean):
        return Ball(made.statistic.center, made.statistic.radius)
    return None


def _searched(value: Any, made: Any, certificate: Any) -> list[str]:
    """Whether stages have ended on the edge of the public outer ball, or with many records outside the ball they found."""
    if not isinstance(made.statistic, OuterBall):
        return []
    found, stages = made.replayed(certificate.release["integers"])
    center, outer = getattr(found, "center", value), made.statistic
    edge = float(outer.manifold.dist(outer.center, center)) >= outer.outer_radius * (
        1 - _EDGE
    )
    cut = hasattr(found, "radius") and any(
        _beyond(found, outer.n, *each) for each in stages.counts
    )
    return [_OUTER] * edge + [_CUT] * cut


def _beyond(ball: Any, n: int, c: Any, lengths: Any, counts: Any, noise: float) -> bool:
    """Whether counts about the center of a ball say, beyond their noise, that a quarter of the records are outside."""
    sure = np.atleast_1d(counts) - _SURE * noise * np.sqrt(
        np.arange(1, np.size(counts) + 1)
    )
    return c is ball.center and bool(
        (sure[np.atleast_1d(lengths) >= ball.radius] > n / 4).any()
    )


def _odd(value: Any, mechanism: Any) -> list[str]:
    statistic, space = mechanism.statistic, mechanism.manifold
    ball, varies = statistic.values, getattr(statistic, "manifold", None) is not space
    if np.shape(value) != space.point_shape:
        return []
    if varies and np.shape(value) == (1,):
        return _variance(float(value[0]), 2 * ball.radius, mechanism)
    center = np.asarray(statistic.placed(np.asarray(ball.center)[None])[0])
    away = float(space.dist(center, np.asarray(value)))
    return [
        *_place(away, ball.radius, mechanism.afterwards),
        *_noise(away, ball.radius, mechanism),
    ]


def _variance(value: float, most: float, mechanism: Any) -> list[str]:
    """Warn of a variance that is as large as possible, or no larger than noise.

    Records outside the ball are alike once they are on its edge: their variance is next
    to nothing.
    """
    too_large = _variance_too_noisy(mechanism)
    if value >= most * (1 - _HOME):
        return [*too_large, _ON_EDGE]
    error = foreseen_error(mechanism)
    if error is None or value > _LITTLE * error:
        return too_large
    return [
        *too_large,
        f"the release may be noise alone (predicted error {error:.3g}): noise dominates, "
        "or the ball is misplaced",
    ]


def _unpredicted(made: Any, certificate: Any) -> list[str]:
    """Of releases whose error is not predicted: a point on the edge of its public ball, directions of noise."""
    statistic, ball = made.statistic, made.statistic.landing
    contrast = getattr(statistic, "contrast", None) if hasattr(made, "law") else None
    if certificate.release["integers"] is None or (ball is None and contrast is None):
        return []
    value = made.value_of(certificate)
    if contrast is not None:
        return [_DROWNED] * bool(made.law.radial_cdf(contrast(value)) < _ALONE)
    point = value[0] if isinstance(value, tuple) else value  # the middle of a geodesic
    return [_ON_EDGE] * bool(
        statistic.manifold.dist(ball.center, point) >= ball.radius * (1 - _EDGE)
    )


def _place(away: float, radius: float, afterwards: Sequence[str]) -> list[str]:
    if away >= radius * (1 - _EDGE):
        return [_ON_EDGE]
    if away <= radius * _HOME and any("shrinkage" in step for step in afterwards):
        return [
            "the release was shrunk to the center of the ball: noise hides the statistic"
        ]
    return []


def _noise(away: float, radius: float, mechanism: Any) -> list[str]:
    """Warn of noise that is as large as the distance to the center, or as the ball."""
    if too_large := _mean_too_noisy(mechanism, radius):
        return too_large
    error = _noticeable_error(mechanism, radius)
    if error is None or error < max(away, _NOISY * radius):
        return []
    return [
        "the release is nearer to the center of the ball than its predicted error "
        f"{error:.3g}: noise dominates"
    ]


def _stretch(space: Any, radius: float) -> float:
    """How much longer a step may be at the radius than it is in the chart at the center, where curvature is negative."""
    bent = sqrt(max(-space.curvature_bounds[0], 0.0)) * radius
    return 1.0 if bent == 0 else sinh(bent) / bent if bent < 9 else inf


def foreseen_error(mechanism: Any) -> float | None:
    """The predicted error, of mechanisms that have one."""
    try:
        return predicted_error(mechanism)
    except (CurvedpError, AttributeError):  # one that does not predict
        return None
