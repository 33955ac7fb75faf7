"""Confidence regions for released statistics, computed from certificates alone. A
*region* is a ball or an interval that contains the true value with a stated probability
(its *level*). The true value is that of the records, or that of the population from
which they were drawn.

A region for the records' statistic is a quantile of the noise law around the draw
BEFORE shrinkage and projection, which the certificate keeps. A region for the
population adds a finite-sample bound on the distance of the statistic of n independent
records from that of the population (`BoundsSamplingError`; for means as Brunel & Serres
2024), or is asymptotic (`curvedp.inference.population`). The proofs are in
docs/theory/inference.md.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.core.capabilities import BoundsSamplingError, NoisyDraw
from curvedp.core.certificate import Certificate
from curvedp.core.codes import SamplingPath
from curvedp.core.mechanism import Mechanism, strongest_guarantee
from curvedp.core.statistic import PointStatistic, Statistic
from curvedp.core.wording import UNIT_WORDS
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.inference.lines import line_region
from curvedp.inference.newton_regions import shape_of_records
from curvedp.inference.population import asymptotic_shape
from curvedp.inference.shapes import (
    SHAPES,
    Region,
    Shape,
    noise_quantiles,
    principal_subspaces,
    shape_from_two_moments,
)
from curvedp.inference.tangent_regions import gradient_of_moments
from curvedp.privacy import Guarantee, PureDP
from curvedp.randomness import GeneratorSource
from curvedp.release.choose import choose_mechanism
from curvedp.release.rebuild import mechanism_of, recorded_draw_of
from curvedp.release.unclip import ClippedVariance, clipped_variance_of
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.geodesic import GeodesicLine
from curvedp.statistics.searched_ball import BallSearchStatistic
from curvedp.statistics.second_moment import SecondMoment
from curvedp.statistics.tangent_moments import (
    SearchedTangentMoments,
    TangentMoments,
    TangentMomentsSum,
)

# Statistics whose region is one of their mean.
_TANGENT_MOMENTS = (TangentMoments, TangentMomentsSum, SearchedTangentMoments)

# The ball into which records were clipped, in words, for the kinds of draws that do not
# use the public ball.
_BALL_WORDS = {"gradient": "the ball that was used", "counts": "the public outer ball"}

# A region for a mean is of little use if its radius exceeds this fraction of the
# ball's.
_WIDE_REGION = 0.5

# Mechanisms whose regions for a mean are exact at any radius.
_CHART_MECHANISMS = ("tangent-gaussian", "tangent-laplace")


class _ReleasedDraw(NamedTuple):
    """The draw of a mechanism, rebuilt from a certificate.

    Attributes
    ----------
    mechanism : Mechanism
        The mechanism that the certificate describes.
    statistic : Statistic
        The statistic in whose canonical frame the draw is: the mechanism's own, or the
        one in a ball that was found privately.
    recorded_draw : NoisyDraw
        The drawn numbers, with the noise law.
    clipped_variance : ClippedVariance or None
        For a variance in a private ball: what is known about the records outside it.
    """

    mechanism: Mechanism
    statistic: Statistic
    recorded_draw: NoisyDraw
    clipped_variance: ClippedVariance | None = None


def region_of(
    certificate: Certificate,
    level: float = 0.95,
    of: str = "records",
    components: int | None = None,
) -> Region:
    """Return the confidence region that a certificate implies, without data or budget.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release that was drawn exactly and lists its integers.
    level : float
        The coverage, between 0 and 1.
    of : {"records", "population"}
        "records": the region is about the statistic of the records after clipping;
        `Region.theorem` says whether it is exact. "population": the region is about the
        statistic of the distribution from which the records were drawn independently,
        after clipping to the ball. It is a finite-sample region for dispersions,
        leading directions, medians, and means in small public balls. It is asymptotic
        for geodesics, for means whose records' mean square was released with them
        (`radius="private"` and the mechanism "gradient"), and for means in wide balls.
        `Region.theorem` names it.
    components : int, optional
        For a released second moment: how many leading directions the region is about.
        Its radius is then an angle.

    Returns
    -------
    Region
        The region. For a geodesic it is a `LineRegion`.

    Raises
    ------
    ParameterError
        If the level is not a probability, the release was drawn in floats, the
        certificate does not list its integers, or no theorem applies.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.mechanisms import LogGaussianMechanism
    >>> release = LogGaussianMechanism(Euclidean(2), 0.1, 0.1).release([0.0, 0.0])
    >>> round(region_of(release.certificate).radius, 4)  # 0.1·√(χ² quantile, 2 degrees)
    0.2448
    """
    level = _validate.within("level", level, 0.0, 1.0, open_low=True, open_high=True)
    _validate.choice("of", of, ("records", "population"))
    if not isinstance(certificate, Certificate):
        raise ParameterError(
            "must be a curvedp certificate", parameter="certificate", value=certificate
        )
    if components is not None:
        components = _validate.integer("components", components, 1)
    return _cached_region(certificate, level, of, components)


@lru_cache(maxsize=256)
def _cached_region(
    certificate: Certificate, level: float, of: str, components: int | None
) -> Region:
    """Return the confidence region of a certificate.

    The result is cached, because reports and warnings need the same regions.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    level : float
        The coverage, between 0 and 1.
    of : {"records", "population"}
        What the region is about.
    components : int or None
        For a second moment: the number of leading directions.
    """
    unit_words = UNIT_WORDS[certificate.privacy_unit].plural
    released = _released_draw(certificate)
    return _build_region(released, level, of, components, unit_words)


def region_radii(
    certificate: Certificate, levels: Sequence[float], components: int | None = None
) -> list[float]:
    """Return the radius of the region for the records' statistic at several levels.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.
    levels : sequence of float
        Probabilities.
    components : int, optional
        For a released second moment: how many leading directions the regions are about.

    Returns
    -------
    list of float
        One radius for each level.
    """
    released = _released_draw(certificate)
    statistic = released.statistic
    if isinstance(statistic, GeodesicLine):
        return [
            line_region(statistic, released.recorded_draw, level).radius
            for level in levels
        ]
    shapes = _shapes(released, levels, 0.0, components)
    return [shape.radius for _, shape in shapes]


def count_components(statistic: Statistic, value: Any) -> int | None:
    """Return how many principal directions a released value consists of.

    Parameters
    ----------
    statistic : Statistic
        What was released.
    value : array
        The released value, with one direction in each row.

    Returns
    -------
    int or None
        None if the statistic is not a second moment, or the value is not a list of
        directions that is shorter than the number of features.
    """
    if not isinstance(statistic, SecondMoment) or np.ndim(value) != 2:
        return None
    n_rows, n_columns = np.shape(value)
    if n_columns == statistic.features and n_rows < n_columns:
        return int(n_rows)
    return None


def simultaneous(
    certificates: Sequence[Certificate], level: float = 0.95, of: str = "records"
) -> list[Region]:
    """Return one region for each certificate, with simultaneous coverage.

    With probability `level`, all regions contain their targets. The noises of separate
    releases are independent, so each of k regions has the level level^(1/k). With
    of="population" the releases must come from separate records, too.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of separate releases.
    level : float
        The probability with which all regions together contain their targets.
    of : {"records", "population"}
        What the regions are about.

    Returns
    -------
    list of Region
        One region for each certificate, in the same order.
    """
    level = _validate.within("level", level, 0.0, 1.0, open_low=True, open_high=True)
    single_level = level ** (1 / len(certificates))
    return [region_of(certificate, single_level, of) for certificate in certificates]


def consistent(
    first: Certificate, second: Certificate, level: float = 0.95, of: str = "records"
) -> bool:
    """Return whether two releases may be about the same true value.

    If they are, the answer is False with probability at most 1 − level.

    Parameters
    ----------
    first, second : Certificate
        The certificates of two releases on one manifold, such as a published one and
        its repetition. of="records" compares statistics of the same records in the same
        ball; of="population" compares statistics of two samples of one population.
    level : float
        The simultaneous coverage of both regions.
    of : {"records", "population"}
        What the regions are about.

    Returns
    -------
    bool
        Whether the two regions, at simultaneous coverage, can have a point in common:
        the distance of their centers is at most the sum of their radii.

    Raises
    ------
    ParameterError
        If the releases are on different manifolds, or have no regions; with
        of="records" also if they cannot be of the same statistic of the same records:
        another number of records, another ball, or a private ball, which every release
        finds for itself. `curvedp.inference.two_sample_test` compares groups.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.mechanisms import LogGaussianMechanism
    >>> release = LogGaussianMechanism(Euclidean(2), 0.1, 0.1).release([0.0, 0.0])
    >>> consistent(release.certificate, release.certificate)
    True
    """
    region, other_region = simultaneous([first, second], level, of)
    if region.manifold != other_region.manifold:
        raise ParameterError(
            f"the releases live on {region.manifold!r} and {other_region.manifold!r}: "
            "nothing to compare"
        )
    if of == "records":
        _check_same_target(first, second)
    distance = region.manifold.dist(region.center, other_region.center)
    return bool(distance <= region.radius + other_region.radius)


def _check_same_target(first: Certificate, second: Certificate) -> None:
    """Refuse releases that cannot be of the same statistic of the same records.

    Regions for one statistic of the same records must overlap. Regions of different
    statistics say nothing about each other.

    Parameters
    ----------
    first, second : Certificate
        The certificates of two releases.
    """
    advice = "two_sample_test (`curvedp test two-sample`) compares groups of records"
    sizes = [certificate.statistic.get("n") for certificate in (first, second)]
    if sizes[0] != sizes[1]:
        raise ParameterError(
            f"the releases are of {sizes[0]} and {sizes[1]} records, so they are not of "
            f"the same ones: {advice}"
        )
    if first.statistic != second.statistic:
        raise ParameterError(
            "the releases are of two statistics, or of records clipped to two balls: "
            f"nothing to compare; {advice}"
        )
    if isinstance(mechanism_of(first).statistic, BallSearchStatistic):
        raise ParameterError(
            "each release clipped the records to a private ball of its own, so the two "
            f"may differ although the records are the same; {advice}"
        )


def _released_draw(certificate: Certificate) -> _ReleasedDraw:
    """Rebuild the draw of a mechanism from its certificate.

    Called before any region is computed.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    _ReleasedDraw
        The mechanism, the statistic, and the noisy draw with its law.

    Raises
    ------
    ParameterError
        If the mechanism draws in floats, or the certificate does not list its integers.
    """
    mechanism = mechanism_of(certificate)
    if mechanism.info.sampling is SamplingPath.FLOAT64:
        raise ParameterError(
            f"no region follows from {mechanism.info.name}: it draws in float64, so the "
            "exact distribution is not known"
        )
    if certificate.release["integers"] is None:
        raise ParameterError(
            "no region: the certificate does not list what was drawn, which was too long"
        )
    recorded_draw = recorded_draw_of(certificate)
    statistic = recorded_draw.frame or mechanism.statistic
    if isinstance(statistic, TangentMoments):
        # The region is about the mean; `tangent_regions` has those of the variances.
        gradient = gradient_of_moments(statistic, recorded_draw)
        return _ReleasedDraw(mechanism, statistic.frechet_mean, gradient)
    clipped_variance = clipped_variance_of(certificate)
    return _ReleasedDraw(mechanism, statistic, recorded_draw, clipped_variance)


def _shapes(
    released: _ReleasedDraw,
    levels: Sequence[float],
    sampling_error: float,
    components: int | None,
) -> list[tuple[Manifold, Shape]]:
    """Return the manifold and the shape of the region at each level.

    Parameters
    ----------
    released : _ReleasedDraw
        What was drawn.
    levels : sequence of float
        The probabilities with which the bounds on the noise must hold.
    sampling_error : float
        A bound on the distance of the population's value from that of the records; 0
        for a region of the records' value.
    components : int, optional
        For a second moment: the number of leading directions that the region is about.

    Returns
    -------
    list of (Manifold, Shape)
        One pair for each level. The manifold is that of the value, or of subspaces if
        `components` is given.
    """
    statistic = released.statistic
    draw = released.recorded_draw
    if components is not None:
        if not isinstance(statistic, SecondMoment):
            raise ParameterError(
                f"components= is for second moments, not the {statistic.name}"
            )
        return [
            principal_subspaces(statistic, draw, level, components, sampling_error)
            for level in levels
        ]

    # The value may live elsewhere than the records: a variance is a number.
    space = statistic.value_space
    if draw.mean_hessian is not None:
        return [
            (
                space,
                shape_of_records(space, statistic, draw, level, sampling_error),
            )
            for level in levels
        ]
    if draw.mean_square is not None:
        return [
            (
                space,
                shape_from_two_moments(space, statistic, draw, level, sampling_error),
            )
            for level in levels
        ]
    build_shape = SHAPES[draw.kind]
    # The theorem about counts takes the level itself, the others a quantile of the noise.
    noise_bounds = list(levels)
    if draw.kind != "counts":
        noise_bounds = noise_quantiles(draw, levels)
    return [
        (space, build_shape(space, statistic, draw, noise_bound, sampling_error))
        for noise_bound in noise_bounds
    ]


def _build_region(
    released: _ReleasedDraw,
    level: float,
    of: str,
    components: int | None,
    unit_words: str,
) -> Region:
    """Return the confidence region that follows from a draw.

    Parameters
    ----------
    released : _ReleasedDraw
        What was drawn.
    level : float
        The coverage, between 0 and 1.
    of : {"records", "population"}
        What the region is about.
    components : int or None
        For a second moment: the number of leading directions.
    unit_words : str
        The unit of privacy in the plural, such as "persons", for descriptions.

    Returns
    -------
    Region
        The region in the frame of the records, with its description in words.
    """
    mechanism, statistic, draw, clipped_variance = released
    is_of_population = of == "population"
    if isinstance(statistic, GeodesicLine):
        error = None
        if is_of_population:
            error = sampling_error(mechanism.statistic, (1 - level) / 2)
        return line_region(statistic, draw, level, error)

    if is_of_population:
        manifold, shape = _population_shape(released, level, components)
    else:
        [(manifold, shape)] = _shapes(released, [level], 0.0, components)
    center = shape.center(manifold)
    if isinstance(statistic, PointStatistic):
        center = statistic.to_data_frame(center[None])[0]

    # What a reader must know about the region, in words.
    is_as_wide_as_ball = shape.is_as_wide_as_ball
    if isinstance(statistic, FrechetMean) and statistic.value_ball is not None:
        is_as_wide_as_ball |= shape.radius >= statistic.value_ball.radius
    theorem = shape.theorem
    if clipped_variance is not None:
        theorem = _describe_clipping(clipped_variance)
    if isinstance(mechanism.statistic, FrechetMean):
        theorem += _narrower_region(mechanism, level, shape.radius, of)
    description = _describe(mechanism.statistic, draw, of, components, unit_words)
    return Region(
        manifold,
        center,
        shape.radius,
        level,
        of,
        description,
        theorem,
        shape.within,
        is_as_wide_as_ball=is_as_wide_as_ball,
    )


def _population_shape(
    released: _ReleasedDraw, level: float, components: int | None
) -> tuple[Manifold, Shape]:
    """Return the manifold and the shape of a region for the population's statistic.

    If the mean square of the records was released with their mean, the region is
    asymptotic. Otherwise it is a finite-sample region: half of 1 − level is spent on
    the noise, half on the sample. If no finite-sample theorem covers a mean, the region
    is asymptotic, and the ball bounds the variance of the records.

    Parameters
    ----------
    released : _ReleasedDraw
        What was drawn.
    level : float
        The coverage of the region.
    components : int, optional
        For a second moment: the number of leading directions.

    Returns
    -------
    manifold, shape : Manifold, Shape
        Where the value lives, and the region there.
    """
    mechanism, statistic, draw, _ = released
    has_asymptotic_region = isinstance(statistic, FrechetMean) and components is None
    if has_asymptotic_region and draw.mean_square is not None:
        shape = asymptotic_shape(statistic.value_space, statistic, draw, level)
        return statistic.value_space, shape

    half = (1 - level) / 2
    try:
        error = sampling_error(mechanism.statistic, half)
    except ParameterError:
        if not has_asymptotic_region:
            raise
        shape = asymptotic_shape(statistic.value_space, statistic, draw, level)
        return statistic.value_space, shape

    [(manifold, shape)] = _shapes(released, [1 - half], error, components)
    theorem = f"finite-sample (McDiarmid); of the noise: {shape.theorem}"
    return manifold, shape._replace(theorem=theorem)


def _describe_clipping(clipped: ClippedVariance) -> str:
    """Say what the region of a variance in a private ball does not cover.

    No theorem bounds how far from the ball the clipped records are, so the region is
    never called exact, and the estimate has no region.

    Parameters
    ----------
    clipped : ClippedVariance
        What is known about the records outside the ball.

    Returns
    -------
    str
        A sentence that replaces the theorem.
    """
    outside = "some"
    if clipped.share_outside is not None:
        outside = f"about {clipped.share_outside:.0%}"
    cause = f"the search for the ball leaves {outside} of the records outside"
    if clipped.is_in_smaller_ball:
        cause = (
            "the ball that was found is too wide for a unique or an accurate mean, and "
            "the records are clipped to a smaller one"
        )
    excess = "larger by an unknown amount"
    if clipped.estimate is not None:
        excess = (
            f"larger: about {clipped.estimate:.4g} if squared distances have a Gamma "
            "law, which no theorem says"
        )
    return (
        f"it covers the noise, not the clipping: {cause}, and the variance of the "
        f"records themselves is {excess}"
    )


def _narrower_region(mechanism: Any, level: float, radius: float, of: str) -> str:
    """Return a hint at a mechanism whose region is far narrower, or an empty text.

    The radii are those of simulated releases at the center of the same public ball,
    with the mechanism's own guarantee, so they are public numbers. For the population
    it is the gradient, which releases the variance of the records with their mean.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that released a Fréchet mean.
    level : float
        The level of its region.
    radius : float
        The radius of its region.
    of : {"records", "population"}
        What the region is about.

    Returns
    -------
    str
        A clause that begins with "; ", for the end of the theorem.
    """
    guarantee = strongest_guarantee(mechanism.privacy_profile)
    if of == "population":
        has_variance = mechanism.info.name == "gradient-step"
        if has_variance or isinstance(guarantee, PureDP):
            return ""
        return (
            "; the mechanism 'gradient' releases the variance too, and its region is "
            "usually several times narrower"
        )

    # A region that is narrow, or exact, needs no hint.
    is_narrow = radius < _WIDE_REGION * mechanism.statistic.radius
    if is_narrow or mechanism.info.name in _CHART_MECHANISMS:
        return ""
    radii = regions_in_chart(mechanism.statistic, guarantee, level)
    if not radii:
        return ""
    name = min(radii, key=radii.__getitem__)
    if radii[name] > radius / 2:
        return ""
    return (
        f"; the mechanism {name!r} has a region of about {radii[name]:.3g} in this ball"
    )


def regions_in_chart(
    statistic: FrechetMean, guarantee: Guarantee, level: float = 0.95
) -> dict[str, float]:
    """Return the approximate radius of the region for each mechanism with exact regions.

    Each mechanism is simulated once at the center of the ball.

    Parameters
    ----------
    statistic : FrechetMean
        The mean of n records in a public ball.
    guarantee : Guarantee
        The guarantee to which the mechanisms are calibrated.
    level : float
        The level of the regions.

    Returns
    -------
    dict
        From the name of a mechanism to a radius. Mechanisms that cannot meet the
        guarantee are left out.
    """
    radii = {}
    for name in _CHART_MECHANISMS:
        # A mechanism that does not meet the guarantee is left out.
        with suppress(CurvedpError):
            mechanism = choose_mechanism(name, statistic, guarantee).mechanism
            source = GeneratorSource(np.random.default_rng(0))
            simulated = mechanism.release(statistic.ball.center, source=source)
            radii[name] = region_of(simulated.certificate, level).radius
    return radii


def sampling_error(statistic: Statistic, failure_probability: float) -> float:
    """Return a bound on the distance of a statistic of n records from the population's.

    Parameters
    ----------
    statistic : Statistic
        The statistic of n independent records.
    failure_probability : float
        The probability with which the bound may fail.

    Returns
    -------
    float
        The bound, as `BoundsSamplingError.sampling_error` states it.

    Raises
    ------
    ParameterError
        If the statistic has no such bound (it is not a `BoundsSamplingError`).
    """
    if isinstance(statistic, BoundsSamplingError):
        return statistic.sampling_error(failure_probability)
    reason = f"the {statistic.name} has no bound on its sampling error"
    if isinstance(statistic, BallSearchStatistic):
        reason = (
            f"no theorem covers the {statistic.name}, which was found from the same "
            "records; in a public ball there is a region of the population"
        )
    raise ParameterError(
        f"is not possible: {reason}", parameter="of", value="population"
    )


def _describe(
    statistic: Statistic,
    draw: NoisyDraw,
    of: str,
    components: int | None,
    unit_words: str,
) -> str:
    """Return what a region is about, in words.

    The text is the `description` of a `Region`.

    Parameters
    ----------
    statistic : Statistic
        What was released.
    draw : NoisyDraw
        What was drawn; its kind says into which ball records were clipped.
    of : {"records", "population"}
        What the region is about.
    components : int or None
        For a second moment: the number of leading directions.
    unit_words : str
        The unit of privacy in the plural, such as "persons".

    Returns
    -------
    str
        A noun phrase such as "the Fréchet mean of the records, clipped to the public
        ball".
    """
    owners = unit_words
    if of == "population":
        owners = f"population from which the {unit_words} were drawn independently"
    if components is not None:
        return (
            f"the leading directions of the second moment of the {owners}, shortened to "
            "the radius"
        )
    # A draw in another frame was made in a ball that was found privately.
    kind = draw.kind if draw.frame is None else "gradient"
    ball = _BALL_WORDS.get(kind, "the public ball")
    name = statistic.name
    if isinstance(statistic, _TANGENT_MOMENTS):
        name = FrechetMean.name  # the region of moments is one of the mean
    return f"the {name} of the {owners}, clipped to {ball}"
