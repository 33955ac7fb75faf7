"""What should make the reader of a release think again.

Everything here follows from the released value and public parameters, so it costs no
privacy. Nothing of it is stated in a certificate, so that nothing can be stated
wrongly: it is computed anew wherever the certificate is read. That there is no warning
proves nothing: what clipping has done to the records is not seen.
"""

from enum import StrEnum
from math import ceil, inf, isfinite, sinh, sqrt
from typing import Any, NamedTuple

import numpy as np

from curvedp.core.capabilities import HasNoiseLength, NeedsManyRecords
from curvedp.core.certificate import Certificate
from curvedp.core.codes import PostProcessing
from curvedp.core.mechanism import Mechanism
from curvedp.core.released import Releasing, releases_of
from curvedp.core.statistic import Ball, PointStatistic
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.spd_common import SPD
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.mechanisms.staged.budget import ReleasedCounts, StagedMechanism
from curvedp.release.predict import baseline_error, predicted_error_or_none
from curvedp.release.rebuild import final_mechanism_of, mechanism_of
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.geodesic import GeodesicLine
from curvedp.statistics.noisy_sums import SumStatistic
from curvedp.statistics.searched_ball import (
    BallSearchStatistic,
    SearchedBallStatistic,
    SearchedMean,
    SearchedVariance,
)
from curvedp.statistics.second_moment import SecondMoment

# Of the radius: a release within this of the edge lies on it. Records that were all
# clipped onto the ball have their mean a little inside.
_EDGE_SHARE = 0.1
# Of the radius: a release within this of the center was shrunk onto it.
_CENTER_SHARE = 1e-9
# Of the radius of records as they usually are (`reference_ball`): a private ball that
# is smaller, and as near to the public center, is called tiny.
_TINY_SHARE = 0.05
# Of releases of noise alone, this share is shorter.
_NOISE_QUANTILE = 0.95
# Standard deviations (scales, of Laplace noise) by which a noisy count must exceed a
# number.
_SURE_DEVIATIONS = 6.0
# A variance below this many predicted errors (2.4 deviations of Gaussian noise) may be
# noise.
_NOISE_ERRORS = 3.0
# Of the radius: a predicted error below this needs no warning.
_SMALL_ERROR_SHARE = 0.1
# Of the spread, or of all records: a mean with so much noise, and a variance of which
# so many records are clipped, is of little use.
USELESS_SHARE = 0.25


class WarningKind(StrEnum):
    """What is odd about a release."""

    FEW_RECORDS = "few_records"
    ON_OUTER_EDGE = "on_outer_edge"
    RECORDS_OUTSIDE = "records_outside"
    SEVERAL_MEANS = "several_means"
    AS_IF_MISREAD = "as_if_misread"
    ON_EDGE = "on_edge"
    SHRUNK_TO_CENTER = "shrunk_to_center"
    ERROR_TOO_LARGE = "error_too_large"
    NOISE_DOMINATES = "noise_dominates"
    DIRECTIONS_ARE_NOISE = "directions_are_noise"
    OF_LITTLE_USE = "of_little_use"


# Warnings that doubt the ball itself: a predicted error may be far too small then.
DOUBTS_ABOUT_BALL = frozenset(
    (
        WarningKind.FEW_RECORDS,
        WarningKind.RECORDS_OUTSIDE,
        WarningKind.ON_OUTER_EDGE,
        WarningKind.ON_EDGE,
        WarningKind.SEVERAL_MEANS,
        WarningKind.AS_IF_MISREAD,
    )
)

_FIXED_TEXTS = {
    WarningKind.FEW_RECORDS: (
        "there are few records for this release: it may be far off, which no error bar "
        "here covers"
    ),
    WarningKind.RECORDS_OUTSIDE: (
        "released counts say that more than a quarter of the records are outside the "
        "private ball"
    ),
    WarningKind.ON_OUTER_EDGE: (
        "the release lies on the edge of the outer ball: records may be outside it"
    ),
    WarningKind.AS_IF_MISREAD: (
        "the private ball is tiny and lies about the public center, as it would if no "
        "record could be read: `check` tells whether the data were read as they were "
        "written"
    ),
    WarningKind.ON_EDGE: (
        "the release lies on the edge of the ball: the ball is too small or misplaced, or "
        "noise dominates"
    ),
    WarningKind.SHRUNK_TO_CENTER: (
        "the release was shrunk to the center of the ball: noise hides the statistic"
    ),
    WarningKind.DIRECTIONS_ARE_NOISE: (
        "the directions differ no more than noise alone would make them: noise dominates"
    ),
}


class Warning(NamedTuple):
    """One reason to doubt a release: its kind, and what a reader is told."""

    kind: WarningKind
    text: str


def _fixed_warning(kind: WarningKind) -> Warning:
    """Return a warning whose text has no numbers."""
    return Warning(kind, _FIXED_TEXTS[kind])


def release_warnings(value: Any, certificate: Certificate) -> list[Warning]:
    """Return what is odd about a released value.

    Parameters
    ----------
    value : array
        The released value, in the frame of the records.
    certificate : Certificate
    """
    mechanism = mechanism_of(certificate)
    final = final_mechanism_of(certificate)
    warnings: list[Warning] = []
    if isinstance(mechanism, NeedsManyRecords) and not mechanism.has_enough_records:
        warnings.append(_fixed_warning(WarningKind.FEW_RECORDS))
    if isinstance(mechanism, PrivateBallMechanism):
        warnings += warnings_before_paying(mechanism)
    warnings += _search_warnings(value, mechanism, certificate)
    warnings += several_means_warnings(certificate)
    if final.statistic.value_ball is not None:
        warnings += _value_warnings(value, final)
    else:
        warnings += _unpredicted_warnings(mechanism, certificate)
    return warnings


def certificate_warnings(certificate: Certificate) -> list[Warning]:
    """Return what is odd about a release, from its certificate alone."""
    if certificate.release["integers"] is None:
        return []
    value = mechanism_of(certificate).reconstruct_value(certificate)
    return release_warnings(value, certificate)


def doubts_about_ball(value: Any, certificate: Certificate) -> list[Warning]:
    """Return the warnings after which a predicted error may be far too small."""
    warnings = release_warnings(value, certificate)
    return [warning for warning in warnings if warning.kind in DOUBTS_ABOUT_BALL]


def several_means_warnings(certificate: Certificate) -> list[Warning]:
    """Warn that the records need not have one Fréchet mean.

    Theorem (Afsari 2011). Records in a ball of radius r < min(i/2, π/(2√κ)), the
    convexity radius, have exactly one Fréchet mean, and it lies in the ball. In wider
    balls two clusters may have two means, and a step toward one of them says little
    about the other; no prediction and no region follows. The radius is public, or
    released with the certificate.
    """
    ball = _ball_of_records(certificate)
    if ball is None:
        return []
    statistic: Any = mechanism_of(certificate).statistic
    space = statistic.manifold
    limit = space.convexity_radius
    # The curvature of the Bures-Wasserstein metric has no bound, but its means are
    # unique (Agueh & Carlier 2011).
    if not isfinite(space.curvature_bounds[1]) or ball.radius < limit:
        return []
    text = (
        f"the ball has radius {ball.radius:.3g}, and on {space!r} records are known to "
        f"have only one mean in balls of radius below {limit:.3g}: the records may form "
        "several clusters, and the release may be far from their mean, farther than its "
        "predicted error; PrivateFrechetMedian is steadier, and a public radius below "
        f"{limit:.3g} about a public center gives the mean of the records clipped to it"
    )
    return [Warning(WarningKind.SEVERAL_MEANS, text)]


def _ball_of_records(certificate: Certificate) -> Ball | None:
    """Return the public or released ball in which a mean of records was taken."""
    mechanism = mechanism_of(certificate)
    statistic = mechanism.statistic
    integers = certificate.release["integers"]
    if isinstance(statistic, BallSearchStatistic):
        # A variance or a geodesic cuts this ball: what was found says more.
        if integers is None or not isinstance(mechanism, StagedMechanism):
            return None
        ball: Ball = mechanism.replay(integers).value
        return ball
    if isinstance(statistic, FrechetMean):
        return Ball(statistic.center, statistic.radius)
    return None


def _search_warnings(
    value: Any, mechanism: Mechanism, certificate: Certificate
) -> list[Warning]:
    """Warn of a search that ended on the outer edge, or left many records outside."""
    outer = mechanism.statistic
    if not isinstance(outer, SearchedBallStatistic) or not isinstance(
        mechanism, StagedMechanism
    ):
        return []
    result, budget = mechanism.replay(certificate.release["integers"])
    is_ball = isinstance(result, Ball)
    center = result.center if is_ball else value
    distance = float(outer.manifold.dist(outer.center, center))
    warnings = []
    if distance >= outer.outer_radius * (1 - _EDGE_SHARE):
        warnings.append(_fixed_warning(WarningKind.ON_OUTER_EDGE))
    if is_ball and _is_as_if_misread(outer, result):
        warnings.append(_fixed_warning(WarningKind.AS_IF_MISREAD))
    if is_ball and any(
        _says_many_outside(result, outer.n, counts) for counts in budget.counts
    ):
        warnings.append(_fixed_warning(WarningKind.RECORDS_OUTSIDE))
    return warnings


def _is_as_if_misread(outer: SearchedBallStatistic, ball: Ball) -> bool:
    """Return whether a private ball is where it would be if no record could be read.

    A record that cannot be read is replaced by the public center. If all are, the
    search ends in a ball about that center that is as small as the search can find.
    """
    distance = float(outer.manifold.dist(outer.center, ball.center))
    is_tiny = ball.radius <= _TINY_SHARE * outer.reference_ball.radius
    return is_tiny and distance <= _TINY_SHARE * outer.reference_ball.radius


def _says_many_outside(ball: Ball, n: int, released: ReleasedCounts) -> bool:
    """Return whether counts about a ball's center say that a quarter is outside.

    They must say so beyond their noise; later counts of a histogram are sums.
    """
    if released.center is not ball.center:
        return False
    counts = np.atleast_1d(released.counts)
    radii = np.atleast_1d(released.radii)
    deviations = released.noise_scale * np.sqrt(np.arange(1, counts.size + 1))
    certain_counts = counts - _SURE_DEVIATIONS * deviations
    return bool((certain_counts[radii >= ball.radius] > n / 4).any())


# ---- values in a public ball ----


def _value_warnings(value: Any, mechanism: Mechanism) -> list[Warning]:
    """Warn of a value on the edge or at the center of its ball, and of too much noise."""
    statistic = mechanism.statistic
    ball = statistic.value_ball
    space = statistic.value_space
    if ball is None or np.shape(value) != space.point_shape:
        return []
    if isinstance(statistic, FrechetVariance):
        return _variance_warnings(float(value[0]), 2 * ball.radius, mechanism)
    assert isinstance(statistic, PointStatistic)
    center = statistic.to_data_frame(np.asarray(ball.center)[None])[0]
    distance = float(space.dist(center, np.asarray(value)))
    return [
        *_place_warnings(distance, ball.radius, mechanism),
        *_noise_warnings(distance, ball.radius, mechanism),
    ]


def _variance_warnings(
    variance: float, largest: float, mechanism: Mechanism
) -> list[Warning]:
    """Warn of a variance that is as large as it can be, or that may be noise alone.

    Records outside the ball are alike once they are on its edge: their variance is next
    to nothing.
    """
    warnings = _useless_variance_warnings(mechanism)
    if variance >= largest * (1 - _CENTER_SHARE):
        return [*warnings, _fixed_warning(WarningKind.ON_EDGE)]
    error = predicted_error_or_none(mechanism)
    if error is None or variance > _NOISE_ERRORS * error:
        return warnings
    text = (
        f"the release may be noise alone (predicted error {error:.3g}): noise dominates, "
        "or the ball is misplaced"
    )
    return [*warnings, Warning(WarningKind.NOISE_DOMINATES, text)]


def _place_warnings(
    distance: float, radius: float, mechanism: Mechanism
) -> list[Warning]:
    """Warn of a release on the edge of its ball, or shrunk onto its center."""
    if distance >= radius * (1 - _EDGE_SHARE):
        return [_fixed_warning(WarningKind.ON_EDGE)]
    is_shrunk = PostProcessing.SHRINK_TO_CENTER in mechanism.post_processing
    if is_shrunk and distance <= radius * _CENTER_SHARE:
        return [_fixed_warning(WarningKind.SHRUNK_TO_CENTER)]
    return []


def _noise_warnings(
    distance: float, radius: float, mechanism: Mechanism
) -> list[Warning]:
    """Warn of noise that is as large as the distance to the center, or as the ball."""
    warnings = _useless_mean_warnings(mechanism, radius)
    if warnings:
        return warnings
    error = _noticeable_error(mechanism, radius)
    if error is None or error < max(distance, _SMALL_ERROR_SHARE * radius):
        return []
    text = (
        "the release is nearer to the center of the ball than its predicted error "
        f"{error:.3g}: noise dominates"
    )
    return [Warning(WarningKind.NOISE_DOMINATES, text)]


def _noticeable_error(mechanism: Mechanism, radius: float) -> float | None:
    """Return the predicted error, or None where it is not predicted or surely small."""
    if isinstance(mechanism, HasNoiseLength):
        space = mechanism.statistic.value_space
        longest = mechanism.noise_length * _outward_stretch(space, radius)
        if longest < radius * _SMALL_ERROR_SHARE / 2:
            return None  # far too little noise to simulate it
    return predicted_error_or_none(mechanism)


def _outward_stretch(space: Manifold, radius: float) -> float:
    """Return how much longer a step may be at the radius than in the chart at the center.

    It is sinh(s)/s with s = radius·√−κ, κ the lower curvature bound.
    """
    s = sqrt(max(-space.curvature_bounds[0], 0.0)) * radius
    if s == 0:
        return 1.0
    if s >= 9:
        return inf
    return sinh(s) / s


# ---- releases of little use, from public numbers alone ----


def warnings_before_paying(mechanism: Mechanism) -> list[Warning]:
    """Warn that a release would be of little use.

    This is a function of public numbers (n, dimension, budget, radius), so it can be
    said before anything is spent.
    """
    statistic = mechanism.statistic
    if isinstance(mechanism, PrivateBallMechanism):
        return _useless_search_warnings(mechanism)
    if statistic.value_ball is None:
        return []
    if isinstance(statistic, FrechetVariance):
        return _useless_variance_warnings(mechanism)
    return _useless_mean_warnings(mechanism, statistic.value_ball.radius)


def _useless_search_warnings(search: PrivateBallMechanism) -> list[Warning]:
    """Compare the noise of a mean with the spread, and what a variance leaves outside."""
    statistic = search.statistic
    space = statistic.manifold
    if isinstance(statistic, SearchedMean):
        share = search.noise_share
        finding = (
            f"the noise is about {share:.2g} of the records' own spread, so the mean is of "
            "little use"
        )
    elif isinstance(statistic, SearchedVariance):
        clipped_share = search.clipped_share
        if clipped_share is None:
            return []
        share = clipped_share
        finding = (
            f"the search for a ball leaves about {share:.0%} of them outside, so the "
            "variance is far too small"
        )
    else:
        return []
    if share < USELESS_SHARE:
        return []
    needed = ceil(2 * statistic.n * share / USELESS_SHARE)
    text = (
        f"{statistic.n} records in {space.dim} dimensions: {finding}; "
        f"{_cures(space, needed)}"
    )
    return [Warning(WarningKind.OF_LITTLE_USE, text)]


def _useless_mean_warnings(mechanism: Mechanism, radius: float) -> list[Warning]:
    """Compare the noise with the radius, and the predicted error with the center's own.

    Shrinkage keeps the error of long noise near that of the center: the error alone
    does not tell that nothing of the records is left.
    """
    cures = f"{_cures(mechanism.statistic.value_space)}, as would a smaller ball"
    error = _noticeable_error(mechanism, radius)
    if error is not None and error >= baseline_error(mechanism.statistic):
        text = (
            f"the predicted error {error:.3g} is so large (radius {radius:g}) that the "
            f"center of the ball is as good; {cures}"
        )
        return [Warning(WarningKind.ERROR_TOO_LARGE, text)]
    if isinstance(mechanism, HasNoiseLength) and mechanism.noise_length >= radius / 3:
        text = (
            f"the noise is about {mechanism.noise_length:.3g} long in a ball of radius "
            f"{radius:g}: the release says little more than the center of the ball does; "
            f"{cures}"
        )
        return [Warning(WarningKind.OF_LITTLE_USE, text)]
    return []


def _useless_variance_warnings(mechanism: Mechanism) -> list[Warning]:
    """Compare the predicted error with the variance of records in half the ball."""
    statistic = mechanism.statistic
    assert isinstance(statistic, FrechetVariance)
    dim = statistic.manifold.dim
    radius = statistic.radius
    typical_variance = radius**2 / 4 * dim / (dim + 2)
    error = predicted_error_or_none(mechanism)
    if error is None or error < typical_variance:
        return []
    text = (
        f"the predicted error {error:.3g} of the variance is as large as the variance of "
        f"records in half the ball (radius {radius:g}); more records, a larger budget or a "
        "smaller ball would do"
    )
    return [Warning(WarningKind.ERROR_TOO_LARGE, text)]


def _cures(space: Manifold, n_records: int | None = None) -> str:
    """Say what helps against noise."""
    number = "more records" if n_records is None else f"about {n_records} records"
    cures = (
        f"{number}, fewer dimensions (channels, regions) or a larger budget would do"
    )
    if not isinstance(space, SPD):
        return cures
    return (
        f"{cures}; to tell classes apart, PrivateMDM(reduce=6) and PrivateSoftmax reduce "
        "the matrices first"
    )


# ---- releases whose error is not predicted ----


def _unpredicted_warnings(
    mechanism: Mechanism, certificate: Certificate
) -> list[Warning]:
    """Warn of directions that may be noise, and of a point on the edge of its ball."""
    statistic = mechanism.statistic
    if certificate.release["integers"] is None:
        return []
    if isinstance(statistic, SecondMoment) and isinstance(
        mechanism, IsotropicMechanism
    ):
        moment = mechanism.reconstruct_value(certificate)
        contrast = statistic.contrast(moment)
        if mechanism.noise_law.radial_cdf(contrast) < _NOISE_QUANTILE:
            return [_fixed_warning(WarningKind.DIRECTIONS_ARE_NOISE)]
        return []
    if not isinstance(statistic, SumStatistic | GeodesicLine):
        return []
    ball = statistic.release_ball
    if ball is None:
        return []
    value = mechanism.reconstruct_value(certificate)
    point = value[0] if isinstance(value, tuple) else value
    space: Any = statistic
    distance = float(space.manifold.dist(ball.center, point))
    if distance >= ball.radius * (1 - _EDGE_SHARE):
        return [_fixed_warning(WarningKind.ON_EDGE)]
    return []


# ---- fitted estimators ----


def estimator_warnings(estimator: Releasing) -> list[Warning]:
    """Return what should make the user of a fitted estimator think again.

    Examples
    --------
    >>> from curvedp import GDP, PrivateFrechetMean
    >>> from curvedp.geometry import Euclidean
    >>> far_records = np.full((1000, 2), 9.0)
    >>> mean = PrivateFrechetMean(Euclidean(2), radius=1.0, guarantee=GDP(50.0))
    >>> estimator_warnings(mean.fit(far_records))[0].text[:40]
    'the release lies on the edge of the ball'
    """
    warnings: list[Warning] = []
    for release in releases_of(estimator):
        warnings += release_warnings(release.value, release.certificate)
    return list(dict.fromkeys(warnings))
