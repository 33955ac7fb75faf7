"""Warnings about a release: signs that its value may be useless or misleading.
Every warning is computed from the released value and public parameters, so it costs no
privacy. Certificates do not contain warnings; they are recomputed whenever a
certificate is read. The absence of a warning proves nothing, because nobody can see
from the outside how many records were clipped.
"""

from enum import StrEnum
from math import ceil, inf, isfinite, sinh, sqrt
from typing import Any, NamedTuple

import numpy as np

from curvedp.core.capabilities import HasNoiseLength, NeedsManyRecords
from curvedp.core.certificate import Certificate
from curvedp.core.codes import PostProcessing
from curvedp.core.mechanism import Mechanism, post_processing_of
from curvedp.core.released import Releasing, releases_of
from curvedp.core.statistic import Ball, PointStatistic, Statistic
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
from curvedp.statistics.population import SyntheticPopulation
from curvedp.statistics.prototypes import ClassPrototypes
from curvedp.statistics.searched_ball import (
    BallSearchStatistic,
    SearchedBallStatistic,
    SearchedMean,
    SearchedVariance,
)
from curvedp.statistics.second_moment import SecondMoment

# A released point counts as lying on the edge of its ball if its distance to the edge
# is below this fraction of the radius. The mean of records that were all clipped onto
# the edge lies slightly inside the ball.
_EDGE_FRACTION = 0.1

# A released point counts as shrunk onto the center of its ball if its distance to the
# center is below this fraction of the radius.
_CENTER_FRACTION = 1e-9

# A private ball counts as tiny if its radius is below this fraction of the radius that
# typical records would have (`reference_ball`).
_TINY_FRACTION = 0.05

# Released directions count as noise if their contrast is below this quantile of the
# contrast that noise alone produces.
_NOISE_QUANTILE = 0.95

# A noisy count counts as surely above a threshold if it exceeds the threshold by this
# many standard deviations (for Laplace noise: this many scale parameters).
_SURE_DEVIATIONS = 6.0

# So many points of a released population say where most of it lies.
_POPULATION_DRAWS = 501

# A released variance may be noise alone if it is below this many predicted errors. For
# Gaussian noise that is 2.4 standard deviations.
_NOISE_ERRORS = 3.0

# A private ball leaves many records outside if more than this fraction of them is
# surely there. The search leaves a few percent outside on purpose; a second group of
# records outside pulls the mean farther than the predicted error says.
_MANY_OUTSIDE = 0.1

# A predicted error below this fraction of the radius needs no warning.
_SMALL_ERROR_FRACTION = 0.1

# A mean is of little use if its noise exceeds this fraction of the spread of the
# records; a variance is of little use if more than this fraction of the records is
# clipped.
USELESS_FRACTION = 0.25


class WarningKind(StrEnum):
    """The reasons for a warning about a release."""

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


# Warnings that cast doubt on the ball itself. After one of these, the true error may be
# far larger than the predicted error.
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
        "this release has too few records: it may be far off, and no error bar here "
        "accounts for that"
    ),
    WarningKind.RECORDS_OUTSIDE: (
        "the released counts show that more than a tenth of the records lie outside the "
        "private ball, where a second group of records may be: the mean of all records "
        "may be farther away than the predicted error says"
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
        "the directions differ no more than they would by noise alone: noise dominates"
    ),
}


class Warning(NamedTuple):
    """One reason to doubt a release: its kind, and the text that people read.

    Attributes
    ----------
    kind : WarningKind
        The reason, for programs.
    text : str
        The sentence that people read.
    """

    kind: WarningKind
    text: str


def _fixed_warning(kind: WarningKind) -> Warning:
    """Return the warning of a kind whose text is the same for every release.

    Parameters
    ----------
    kind : WarningKind
        A kind with a text in `_FIXED_TEXTS`.
    """
    return Warning(kind, _FIXED_TEXTS[kind])


def release_warnings(value: Any, certificate: Certificate) -> list[Warning]:
    """Return all warnings about a released value.

    Parameters
    ----------
    value : array
        The released value, in the coordinates of the records.
    certificate : Certificate
        The certificate of the release.

    Returns
    -------
    list of Warning
        Empty if nothing casts doubt on the release.
    """
    mechanism = mechanism_of(certificate)
    final_mechanism = final_mechanism_of(certificate)
    warnings: list[Warning] = []
    if isinstance(mechanism, NeedsManyRecords) and not mechanism.has_enough_records:
        warnings.append(_fixed_warning(WarningKind.FEW_RECORDS))
    if isinstance(mechanism, PrivateBallMechanism):
        warnings += warnings_before_paying(mechanism)
    warnings += _search_warnings(value, mechanism, certificate)
    warnings += several_means_warnings(certificate)
    if final_mechanism.statistic.value_ball is not None:
        warnings += _value_warnings(value, final_mechanism)
    else:
        warnings += _unpredicted_warnings(mechanism, certificate)
    return warnings


def certificate_warnings(certificate: Certificate) -> list[Warning]:
    """Return all warnings about a release, given its certificate alone.

    The released value is reconstructed from the integers in the certificate. If the
    certificate does not list them, no warning can be computed, and the list is empty.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    list of Warning
        Empty if nothing casts doubt on the release.
    """
    if certificate.release["integers"] is None:
        return []
    value = mechanism_of(certificate).reconstruct_value(certificate)
    return release_warnings(value, certificate)


def doubts_about_ball(value: Any, certificate: Certificate) -> list[Warning]:
    """Return the warnings that cast doubt on the ball, and so on the predicted error.

    After one of these, the true error may be far larger than the predicted one, and
    confidence regions do not apply.

    Parameters
    ----------
    value : array
        The released value, in the coordinates of the records.
    certificate : Certificate
        The certificate of the release.

    Returns
    -------
    list of Warning
        Those whose kind is in `DOUBTS_ABOUT_BALL`.
    """
    warnings = release_warnings(value, certificate)
    return [warning for warning in warnings if warning.kind in DOUBTS_ABOUT_BALL]


def several_means_warnings(certificate: Certificate) -> list[Warning]:
    """Warn if the ball is so wide that the records may have several Fréchet means.

    Theorem (Afsari 2011). Let i be the injectivity radius of the manifold and κ its
    upper curvature bound. Records in a ball of radius r < min(i/2, π/(2√κ)), the
    convexity radius, have exactly one Fréchet mean, and it lies in the ball.

    In a wider ball, two clusters of records can have two means. The released point may
    then be close to one of them, and predicted errors and confidence regions do not
    apply. The warning uses the radius only, which is public or was released.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.

    Returns
    -------
    list of Warning
        One warning, or none.
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
        f"the ball has radius {ball.radius:.3g}. On {space!r} the Fréchet mean is known "
        f"to be unique only for records in a ball of radius below {limit:.3g}. The "
        "records may form several clusters, and the released mean may be farther from "
        "theirs than the predicted error says. PrivateFrechetMedian is more stable; or "
        f"choose a public center and a public radius below {limit:.3g}, and records "
        "outside that ball are clipped to it"
    )
    return [Warning(WarningKind.SEVERAL_MEANS, text)]


def _ball_of_records(certificate: Certificate) -> Ball | None:
    """Return the ball into which the records of a Fréchet mean were clipped.

    The ball is public (`FrechetMean`), or it was found by a private search and is
    replayed from the released integers (`BallSearchStatistic`).

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    Ball or None
        None if the release is not a Fréchet mean of records in a ball, or if the
        certificate does not list the integers from which the ball follows.
    """
    mechanism = mechanism_of(certificate)
    statistic = mechanism.statistic
    if isinstance(statistic, FrechetMean):
        return Ball(statistic.center, statistic.radius)

    integers = certificate.release["integers"]
    is_searched = isinstance(statistic, BallSearchStatistic)
    if is_searched and isinstance(mechanism, StagedMechanism) and integers is not None:
        ball: Ball = mechanism.replay(integers).value
        return ball
    return None


def _search_warnings(
    value: Any, mechanism: Mechanism, certificate: Certificate
) -> list[Warning]:
    """Warn about a private search for a ball that ended badly.

    The search ended badly if its center lies on the edge of the public outer ball, or
    if the released counts show that many records lie outside the ball that was found.
    The list is empty if the release did not search for a ball.

    Parameters
    ----------
    value : array
        The released value.
    mechanism : Mechanism
        The mechanism of the release.
    certificate : Certificate
        The certificate, which lists the released integers.

    Returns
    -------
    list of Warning
        At most one of each kind.
    """
    outer = mechanism.statistic
    if not isinstance(outer, SearchedBallStatistic):
        return []
    if not isinstance(mechanism, StagedMechanism):
        return []
    result, budget = mechanism.replay(certificate.release["integers"])
    if not isinstance(result, Ball):
        # A median has no ball: its own place takes the place of the center.
        return _edge_warnings(outer, value)

    warnings = _edge_warnings(outer, result.center)
    if _is_as_if_misread(outer, result):
        warnings.append(_fixed_warning(WarningKind.AS_IF_MISREAD))
    if any(_shows_many_outside(result, outer.n, counts) for counts in budget.counts):
        warnings.append(_fixed_warning(WarningKind.RECORDS_OUTSIDE))
    return warnings


def _edge_warnings(outer: SearchedBallStatistic, center: Any) -> list[Warning]:
    """Warn if a search ended at the edge of the public outer ball.

    Parameters
    ----------
    outer : SearchedBallStatistic
        The statistic, with the outer ball.
    center : array
        The center of the ball that was found, or the released median.

    Returns
    -------
    list of Warning
        One warning, or none.
    """
    distance = float(outer.manifold.dist(outer.center, center))
    if distance < outer.outer_radius * (1 - _EDGE_FRACTION):
        return []
    return [_fixed_warning(WarningKind.ON_OUTER_EDGE)]


def _is_as_if_misread(outer: SearchedBallStatistic, ball: Ball) -> bool:
    """Return whether a private ball is where it would be if no record could be read.

    A record that cannot be read is replaced by the public center. If that happens to
    all records, the search ends in a tiny ball about the public center.

    Parameters
    ----------
    outer : SearchedBallStatistic
        It knows the public center and the radius that typical records would have.
    ball : Ball
        The ball that the search found.

    Returns
    -------
    bool
        True if both the radius and the distance between the centers are below 5 % of a
        typical radius.
    """
    tiny_length = _TINY_FRACTION * outer.reference_ball.radius
    distance = float(outer.manifold.dist(outer.center, ball.center))
    return ball.radius <= tiny_length and distance <= tiny_length


def _shows_many_outside(ball: Ball, n: int, released: ReleasedCounts) -> bool:
    """Return whether released counts show that over n/10 records lie outside a ball.

    Parameters
    ----------
    ball : Ball
        The ball that the search found.
    n : int
        The number of records.
    released : ReleasedCounts
        Noisy counts of the records beyond several radii about a center. If the center
        is not that of the ball, the counts say nothing about the ball. The k-th count
        is a sum of k noisy numbers, so its standard deviation is √k times as large.

    Returns
    -------
    bool
        True if one count at or beyond the ball's radius exceeds n/10 by six standard
        deviations.
    """
    if released.center is not ball.center:
        return False
    counts = np.atleast_1d(released.counts)
    radii = np.atleast_1d(released.radii)
    deviations = released.noise_scale * np.sqrt(np.arange(1, counts.size + 1))
    lower_bounds = counts - _SURE_DEVIATIONS * deviations
    is_outside_ball = radii >= ball.radius
    return bool((lower_bounds[is_outside_ball] > _MANY_OUTSIDE * n).any())


# ---- values in a public ball ----


def _value_warnings(value: Any, mechanism: Mechanism) -> list[Warning]:
    """Return the warnings about a value that lies in a public ball.

    A point on the edge or exactly at the center of its ball is suspicious, and so is
    noise that is as large as the ball. The list is empty if the value has no ball.

    Parameters
    ----------
    value : array
        The released value.
    mechanism : Mechanism
        The mechanism of the release.

    Returns
    -------
    list of Warning
        Those about a variance, or about the position of a point and its noise.
    """
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
        *_position_warnings(distance, ball.radius, mechanism),
        *_noise_warnings(distance, ball.radius, mechanism),
    ]


def _variance_warnings(
    variance: float, largest_variance: float, mechanism: Mechanism
) -> list[Warning]:
    """Warn about a variance that is as large as possible, or that may be noise alone.

    A tiny variance is suspicious too: if the ball is misplaced, all records are clipped
    to nearly the same point of its edge.

    Parameters
    ----------
    variance : float
        The released variance.
    largest_variance : float
        The largest variance that records in the ball can have.
    mechanism : Mechanism
        The mechanism of the release.

    Returns
    -------
    list of Warning
        Empty for a variance well above its predicted error.
    """
    warnings = _useless_variance_warnings(mechanism)
    if variance >= largest_variance * (1 - _CENTER_FRACTION):
        return [*warnings, _fixed_warning(WarningKind.ON_EDGE)]
    error = predicted_error_or_none(mechanism)
    if error is None or variance > _NOISE_ERRORS * error:
        return warnings
    text = (
        f"the release may be noise alone (predicted error {error:.3g}): noise dominates, "
        "or the ball is misplaced"
    )
    return [*warnings, Warning(WarningKind.NOISE_DOMINATES, text)]


def _position_warnings(
    distance: float, radius: float, mechanism: Mechanism
) -> list[Warning]:
    """Warn if a released point lies on the edge of its ball or was shrunk to its center.

    Parameters
    ----------
    distance : float
        The distance of the released point from the center of the ball.
    radius : float
        The radius of the ball.
    mechanism : Mechanism
        Its post-processing codes say whether it shrinks points toward the center.

    Returns
    -------
    list of Warning
        One warning, or none.
    """
    if distance >= radius * (1 - _EDGE_FRACTION):
        return [_fixed_warning(WarningKind.ON_EDGE)]
    can_shrink = PostProcessing.SHRINK_TO_CENTER in post_processing_of(mechanism)
    if can_shrink and distance <= radius * _CENTER_FRACTION:
        return [_fixed_warning(WarningKind.SHRUNK_TO_CENTER)]
    return []


def _noise_warnings(
    distance: float, radius: float, mechanism: Mechanism
) -> list[Warning]:
    """Warn if the noise is as large as the ball, or larger than the released distance.

    Parameters
    ----------
    distance : float
        The distance of the released point from the center of the ball.
    radius : float
        The radius of the ball.
    mechanism : Mechanism
        It says how large the noise is.

    Returns
    -------
    list of Warning
        One warning, or none.
    """
    warnings = _useless_mean_warnings(mechanism, radius)
    if warnings:
        return warnings
    error = _noticeable_error(mechanism, radius)
    if error is None or error < max(distance, _SMALL_ERROR_FRACTION * radius):
        return []
    text = (
        "the release is closer to the center of the ball than its predicted error "
        f"{error:.3g}: noise dominates"
    )
    return [Warning(WarningKind.NOISE_DOMINATES, text)]


def _noticeable_error(mechanism: Mechanism, radius: float) -> float | None:
    """Return the predicted error, or None if it is unknown or certainly small.

    The predicted error may come from a slow simulation, so clear cases are decided
    first: if the noise, stretched as much as the curvature allows, is below 5 % of the
    radius, no warning can follow, and the error is not computed.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism of the release.
    radius : float
        The radius of the public ball.
    """
    if isinstance(mechanism, HasNoiseLength):
        space = mechanism.statistic.value_space
        longest_noise = mechanism.noise_length * _outward_stretch(space, radius)
        if longest_noise < radius * _SMALL_ERROR_FRACTION / 2:
            return None
    return predicted_error_or_none(mechanism)


def _outward_stretch(space: Manifold, radius: float) -> float:
    """Bound how much longer a step is on the manifold than in the normal chart.

    In the normal chart at the center of a ball of this radius, a step at distance at
    most `radius` from the center is stretched by at most sinh(s)/s, where
    s = radius·√(−κ) and κ is the lower curvature bound (Rauch's comparison theorem).

    Parameters
    ----------
    space : Manifold
        Where the ball is.
    radius : float
        The radius of the ball.

    Returns
    -------
    float
        At least 1; infinite if the bound is of no use.
    """
    s = sqrt(max(-space.curvature_bounds[0], 0.0)) * radius
    if s == 0:
        return 1.0
    if s >= 9:  # The factor exceeds 400, so the bound is of no use.
        return inf
    return sinh(s) / s


# ---- releases of little use, from public numbers alone ----


def warnings_before_paying(mechanism: Mechanism) -> list[Warning]:
    """Return warnings about a release that is going to be of little use.

    They are computed from public numbers alone (the number of records, the dimension,
    the budget and the radius), so users can see them before they spend anything.

    Parameters
    ----------
    mechanism : Mechanism
        The calibrated mechanism of the release.

    Returns
    -------
    list of Warning
        Empty if the release is expected to be useful.
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
    """Warn if a release in a private ball is going to be of little use.

    A mean is of little use if its noise is large compared to the spread of the records.
    A variance is of little use if the search leaves many records outside the ball.

    Parameters
    ----------
    search : PrivateBallMechanism
        The calibrated mechanism of the release.

    Returns
    -------
    list of Warning
        One warning, which names a number of records that would do, or none.
    """
    statistic = search.statistic
    space = statistic.manifold
    if isinstance(statistic, SearchedMean):
        fraction = search.noise_share
        finding = (
            f"the noise is about {fraction:.2g} times the spread of the records, so the "
            "mean is of little use"
        )
    elif isinstance(statistic, SearchedVariance) and search.clipped_share is not None:
        fraction = search.clipped_share
        finding = (
            f"the search for a ball leaves about {fraction:.0%} of them outside, so the "
            "variance is far too small"
        )
    else:
        return []
    if fraction < USELESS_FRACTION:
        return []

    records_needed = ceil(2 * statistic.n * fraction / USELESS_FRACTION)
    text = (
        f"{statistic.n} records in {space.dim} dimensions: {finding}; "
        f"{_suggested_remedies(space, records_needed)}"
    )
    return [Warning(WarningKind.OF_LITTLE_USE, text)]


def _useless_mean_warnings(mechanism: Mechanism, radius: float) -> list[Warning]:
    """Warn if a mean is going to say little more than the center of its ball does.

    Two comparisons are made: the predicted error with the error of releasing the center
    itself, and the length of the noise with the radius. The second is needed because
    shrinkage keeps the predicted error below that of the center even if the noise hides
    the records completely.

    Parameters
    ----------
    mechanism : Mechanism
        The calibrated mechanism of the release.
    radius : float
        The radius of the public ball.

    Returns
    -------
    list of Warning
        One warning, or none.
    """
    remedies = _suggested_remedies(
        mechanism.statistic.value_space,
        dimensions="fewer dimensions (channels, regions), a smaller ball",
    )
    error = _noticeable_error(mechanism, radius)
    if error is not None and error >= baseline_error(mechanism.statistic):
        text = (
            f"the predicted error {error:.3g} is so large (radius {radius:g}) that the "
            f"center of the ball is an equally good estimate; {remedies}"
        )
        return [Warning(WarningKind.ERROR_TOO_LARGE, text)]
    if isinstance(mechanism, HasNoiseLength) and mechanism.noise_length >= radius / 3:
        text = (
            f"the noise has a typical length of {mechanism.noise_length:.3g} in a ball of "
            f"radius {radius:g}, so the release says little more than the center of the "
            f"ball does; {remedies}"
        )
        return [Warning(WarningKind.OF_LITTLE_USE, text)]
    return []


def _useless_variance_warnings(mechanism: Mechanism) -> list[Warning]:
    """Warn if the predicted error of a variance is as large as a typical variance.

    The typical variance is that of records spread evenly over a ball of half the
    radius r: (r/2)²·d/(d + 2) in dimension d.

    Parameters
    ----------
    mechanism : Mechanism
        The calibrated mechanism of the release.

    Returns
    -------
    list of Warning
        One warning, or none.
    """
    statistic = mechanism.statistic
    assert isinstance(statistic, FrechetVariance)
    dim = statistic.manifold.dim
    radius = statistic.radius
    typical_variance = (radius / 2) ** 2 * dim / (dim + 2)
    error = predicted_error_or_none(mechanism)
    if error is None or error < typical_variance:
        return []
    text = (
        f"the predicted error {error:.3g} of the variance is as large as the variance of "
        f"records in half the ball (radius {radius:g}); more records, a larger budget or a "
        "smaller ball would help"
    )
    return [Warning(WarningKind.ERROR_TOO_LARGE, text)]


def _suggested_remedies(
    space: Manifold,
    n_records: int | None = None,
    dimensions: str = "fewer dimensions (channels, regions)",
) -> str:
    """Return a clause that suggests how to get a release with less noise.

    Parameters
    ----------
    space : Manifold
        The manifold of the records.
    n_records : int, optional
        The number of records that would be enough, if it is known.
    dimensions : str
        What about the space and the ball could be reduced.

    Returns
    -------
    str
        A clause such as "more records, fewer dimensions or a larger budget would help".
    """
    number = "more records" if n_records is None else f"about {n_records} records"
    remedies = f"{number}, {dimensions} or a larger budget would help"
    if not isinstance(space, SPD):
        return remedies
    return (
        f"{remedies}; for classification, use PrivateMDM(reduce=6) or PrivateSoftmax, "
        "which reduce the matrices first"
    )


# ---- releases whose error is not predicted ----

# The statistics whose released value is compared with their public ball.
_STATISTICS_IN_BALLS = (
    ClassPrototypes,
    SyntheticPopulation,
    SumStatistic,
    GeodesicLine,
)


def _unpredicted_warnings(
    mechanism: Mechanism, certificate: Certificate
) -> list[Warning]:
    """Return the warnings about a release whose error cannot be predicted.

    Principal directions get a warning if noise alone could have produced them. A sum, a
    geodesic, prototypes and a synthetic population get one if they lie on the edge of
    their ball.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism of the release.
    certificate : Certificate
        The certificate of the release.

    Returns
    -------
    list of Warning
        One warning, or none.
    """
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
    if not isinstance(statistic, _STATISTICS_IN_BALLS):
        return []  # to reconstruct a value may take as long as to release it
    share = _share_of_radius(mechanism.reconstruct_value(certificate), statistic)
    if share is not None and share >= 1 - _EDGE_FRACTION:
        return [_fixed_warning(WarningKind.ON_EDGE)]
    return []


def _share_of_radius(value: Any, statistic: Statistic) -> float | None:
    """Return how far from the center of its ball a release lies, in radii of the ball.

    The released value of a sum or a geodesic is one point. Prototypes are as far as the
    farthest class that has more than noise, and a synthetic population as far as half
    of its points are.

    Parameters
    ----------
    value : array, pair, Prototypes or ReleasedPopulation
        The released value, as the mechanism reconstructs it from the integers.
    statistic : Statistic
        The statistic that was released.

    Returns
    -------
    float or None
        At most 1. It is None for a statistic without a public ball.
    """
    if isinstance(statistic, ClassPrototypes):
        if statistic.searches_ball or not value.exceeds_noise.any():
            return None
        largest_square = float(value.squared_lengths[value.exceeds_noise].max())
        # Noise may make an estimate of a squared length negative.
        return sqrt(max(0.0, largest_square))
    if isinstance(statistic, SyntheticPopulation):
        if statistic.is_whole_torus:
            return None
        # Points drawn from the released law cost no privacy; the same seed gives the
        # same warning again.
        draws = value.sample_canonical(_POPULATION_DRAWS, np.random.default_rng(0))
        with np.errstate(all="ignore"):  # these are released numbers
            distances = statistic.manifold.dist(statistic.ball.center, draws.points)
        return float(np.median(distances)) / statistic.ball.radius
    if isinstance(statistic, SumStatistic | GeodesicLine):
        ball = statistic.release_ball
        if ball is None:
            return None
        point = value[0] if isinstance(value, tuple) else value
        located: Any = statistic  # a sum with a ball has a manifold too
        return float(located.manifold.dist(ball.center, point)) / ball.radius
    return None


# ---- fitted estimators ----


def estimator_warnings(estimator: Releasing) -> list[Warning]:
    """Return all distinct warnings about the releases of a fitted estimator.

    Parameters
    ----------
    estimator : Releasing
        A fitted estimator, such as `PrivateFrechetMean`.

    Returns
    -------
    list of Warning
        Each warning once, in the order of the releases.

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
