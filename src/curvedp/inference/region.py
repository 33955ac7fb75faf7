"""Confidence regions about what was released, from the certificate alone.

Of the records: the noise law's own quantile about the draw BEFORE shrinkage and projection, which the certificate keeps. Of
the population: that, and how far the statistic of n independent records is from the population's, finite-sample by
McDiarmid's inequality (1989): what moves by at most c where one record is replaced exceeds its expectation by more than
c·√(n·log(1/miss)/2) with probability at most `miss` (for means as Brunel & Serres 2024). docs/inference.md has the proofs.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from math import log, pi, sin, sqrt
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.core.capabilities import NoisyDraw
from curvedp.core.certificate import Certificate
from curvedp.core.codes import SamplingPath
from curvedp.core.mechanism import Mechanism
from curvedp.core.statistic import PointStatistic, Statistic
from curvedp.core.wording import UNIT_WORDS
from curvedp.entropy import GeneratorSource
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.inference.lines import line_region
from curvedp.inference.shapes import (
    SHAPES,
    Region,
    Shape,
    curvature_roots,
    hessian_bounds,
    principal_subspaces,
    quantiles,
)
from curvedp.mechanisms.sensitivity import dispersion_sensitivity
from curvedp.privacy import Guarantee
from curvedp.release.choose import choose_mechanism
from curvedp.release.rebuild import mechanism_of, noisy_draw_of
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.geodesic import GeodesicLine
from curvedp.statistics.geometric_median import GeometricMedian
from curvedp.statistics.searched_ball import SearchedVariance
from curvedp.statistics.second_moment import SecondMoment

_MOVED = {"gradient": "the ball that was used", "counts": "the public outer ball"}


def region_of(
    certificate: Certificate,
    level: float = 0.95,
    of: str = "records",
    components: int | None = None,
) -> Region:
    """The confidence region that a certificate implies; neither data nor budget are needed.

    Parameters
    ----------
    certificate : Certificate
        Drawn exactly, with its integers.
    level : float
        Between 0 and 1.
    of : {"records", "population"}
        "records": the statistic of the records as they were moved into the ball; `Region.theorem` says whether it is exact.
        "population": of the law that the records are independent draws of, moved into the public ball: finite-sample for
        means, dispersions, leading directions and medians, asymptotic for geodesics. Half of 1 − level goes to the noise, the
        other half to the sample.
    components : int, optional
        Of a released second moment: the region of its so many leading directions, by their angle.

    Raises
    ------
    ParameterError
        If the level is no probability, the draw was in floats, its integers are not kept, or no theorem applies.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.mechanisms import LogGaussianMechanism
    >>> release = LogGaussianMechanism(Euclidean(2), 0.1, 0.1).release([0.0, 0.0])
    >>> round(region_of(release.certificate).radius, 4)  # 0.1·√(χ² with two degrees of freedom)
    0.2448
    """
    level = _validate.within("level", level, 0.0, 1.0, open_low=True, open_high=True)
    _validate.choice("of", of, ("records", "population"))
    if not isinstance(certificate, Certificate):
        raise ParameterError(
            "must be a curvedp certificate", parameter="certificate", value=certificate
        )
    asked = (
        level,
        of,
        None if components is None else _validate.integer("components", components, 1),
    )
    return _cached_region(certificate, *asked)


@lru_cache(maxsize=256)
def _cached_region(
    certificate: Certificate, level: float, of: str, components: int | None
) -> Region:
    """Return the region of a certificate; reports and warnings ask for the same ones."""
    units = UNIT_WORDS[certificate.privacy_unit].plural
    return _region(*_drawn_by(certificate), level, of, components, units)


def radii_of(
    certificate: Certificate, levels: Sequence[float], components: int | None = None
) -> list[float]:
    """The radius of `region_of` at each of these levels."""
    mechanism, M, reading = _drawn_by(certificate)
    statistic = reading.frame or mechanism.statistic
    if isinstance(statistic, GeodesicLine):
        return [line_region(statistic, reading, level).radius for level in levels]
    return [
        shape.radius
        for _, shape in _shapes(M, statistic, reading, levels, 0.0, components)
    ]


def components_of(statistic: Statistic, value: Any) -> int | None:
    """How many directions a released value has, where it is made of a second moment: what `region_of` wants to know."""
    many = (
        isinstance(statistic, SecondMoment)
        and np.ndim(value) == 2
        and np.shape(value)[1] == statistic.features
    )
    return len(value) if many and len(value) < np.shape(value)[1] else None


def simultaneous(
    certificates: Sequence[Certificate], level: float = 0.95, of: str = "records"
) -> list[Region]:
    """Regions that ALL hold their truths with probability `level`, of separate releases: each at level^(1/k), as their
    noises are independent; of="population" wants separate records too."""
    level = _validate.within("level", level, 0.0, 1.0, open_low=True, open_high=True)
    return [
        region_of(each, level ** (1 / len(certificates)), of) for each in certificates
    ]


def consistent(
    first: Certificate, second: Certificate, level: float = 0.95, of: str = "records"
) -> bool:
    """Whether two releases can be about the same truth: False has probability at most 1 − level where they are.

    Parameters
    ----------
    first, second : Certificate
        Of two releases on one manifold, such as a published one and its repetition. of="records" compares statistics of the
        same records in the same ball; of="population" those of two samples of one population.
    level, of
        As in `region_of`.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.mechanisms import LogGaussianMechanism
    >>> release = LogGaussianMechanism(Euclidean(2), 0.1, 0.1).release([0.0, 0.0])
    >>> consistent(release.certificate, release.certificate)
    True
    """
    one, other = simultaneous([first, second], level, of)
    if one.manifold != other.manifold:
        raise ParameterError(
            f"the releases live on {one.manifold!r} and {other.manifold!r}: nothing to compare"
        )
    return bool(
        one.manifold.dist(one.center, other.center) <= one.radius + other.radius
    )


def _drawn_by(certificate: Certificate) -> tuple[Mechanism, Manifold, NoisyDraw]:
    """The mechanism, where the value lives, which is not where the records do for a variance in a private ball, and what
    was drawn."""
    mechanism = mechanism_of(certificate)
    if mechanism.info.sampling is SamplingPath.FLOAT64:
        raise ParameterError(
            f"no region follows from {mechanism.info.name}, which draws in floats: their law is not known"
        )
    if certificate.release["integers"] is None:
        raise ParameterError(
            "no region: the certificate does not list what was drawn, which was too long"
        )
    reading = noisy_draw_of(certificate)
    statistic = reading.frame or mechanism.statistic
    return mechanism, statistic.value_space, reading


def _shapes(
    M: Manifold,
    statistic: Statistic,
    reading: NoisyDraw,
    levels: Sequence[float],
    sampled: float,
    components: int | None,
) -> list[tuple[Manifold, Shape]]:
    """The shape at each level, with what the sample adds to it."""
    if components is None:
        return [
            (M, SHAPES[reading.kind](M, statistic, reading, q, sampled))
            for q in quantiles(reading, levels)
        ]
    if not isinstance(statistic, SecondMoment):
        raise ParameterError(
            f"components= is for second moments, not the {statistic.name}"
        )
    return [
        principal_subspaces(statistic, reading, level, components, sampled)
        for level in levels
    ]


def _region(
    mechanism: Mechanism,
    space: Manifold,
    reading: NoisyDraw,
    level: float,
    of: str,
    components: int | None,
    units: str,
) -> Region:
    statistic = reading.frame or mechanism.statistic
    sampled = 0.0
    noise_level = level
    if of == "population":
        noise_level = 1 - (1 - level) / 2
        sampled = sampling(mechanism.statistic, 1 - noise_level)
    if isinstance(statistic, GeodesicLine):
        return line_region(
            statistic, reading, level, sampled if of == "population" else None
        )
    [(M, shape)] = _shapes(
        space, statistic, reading, [noise_level], sampled, components
    )
    about = _about(mechanism.statistic, reading, of, components, units)
    center = shape.center(M)
    if isinstance(statistic, PointStatistic):
        center = statistic.to_data_frame(center[None])[0]
    theorem = shape.theorem
    if of == "population":
        theorem = f"finite-sample (McDiarmid); of the noise: {theorem}"
    if isinstance(mechanism.statistic, SearchedVariance):
        theorem = _clipped_variance(mechanism)
    if isinstance(mechanism.statistic, FrechetMean):
        theorem += _narrower_region(mechanism, level, shape.radius)
    return Region(M, center, shape.radius, level, of, about, theorem, shape.within)


def _clipped_variance(search: Any) -> str:
    """Say what the region of a variance in a private ball covers, and what it does not."""
    share = search.clipped_share
    outside = "some" if share is None else f"about {share:.0%}"
    return (
        "it covers the noise, not the clipping: the search for the ball leaves "
        f"{outside} of the records outside, and the variance of the records themselves "
        "is larger by an amount that nobody knows"
    )


# Of the radius: a wider region of a mean is of little use.
_WIDE_REGION = 0.5


def _narrower_region(mechanism: Any, level: float, radius: float) -> str:
    """Name a mechanism with a far narrower region in the same public ball, if any.

    The radii are those of simulated releases at the center of the ball, with the
    guarantee that the mechanism has: public numbers.
    """
    if (
        mechanism.info.name in _IN_CHART
        or radius < _WIDE_REGION * mechanism.statistic.radius
    ):
        return ""
    radii = regions_in_chart(mechanism.statistic, mechanism.guarantee, level)
    if not radii:
        return ""
    name = min(radii, key=radii.__getitem__)
    if radii[name] > radius / 2:
        return ""
    return f"; mechanism={name!r} has a region of about {radii[name]:.3g} in this ball"


_IN_CHART = ("tangent-gaussian", "tangent-laplace")


def regions_in_chart(
    statistic: FrechetMean, guarantee: Guarantee, level: float = 0.95
) -> dict[str, float]:
    """Return about the radius of the region by each mechanism whose regions are exact.

    Parameters
    ----------
    statistic : FrechetMean
        The mean of n records in a public ball.
    guarantee : Guarantee
        What the mechanisms are calibrated to.
    level : float
        The level of the regions.
    """
    radii = {}
    for name in _IN_CHART:
        with suppress(CurvedpError):  # one that does not meet the guarantee
            mechanism = choose_mechanism(name, statistic, guarantee).mechanism
            source = GeneratorSource(np.random.default_rng(0))
            simulated = mechanism.release(statistic.ball.center, source=source)
            radii[name] = region_of(simulated.certificate, level).radius
    return radii


def sampling(statistic: Statistic, miss: float) -> float:
    """What the sample adds, but with probability `miss`: a distance, or for medians and geodesics the length of G, the mean
    direction at the population's, which has expectation 0."""
    match statistic:
        case FrechetMean():  # d(mean, b) <= |G|/λ, E|G|² <= r²/n, c = 2rS/n, S the stretch of log_b
            convex, s = _convexity(statistic.manifold, statistic.clipping_radius)
            stretch = s / sin(s) if s > 0 else 1.0
            return (
                statistic.clipping_radius * _length(statistic.n, miss, stretch) / convex
            )
        case FrechetVariance():  # c its sensitivity; its expectation is at most E|G|²/λ below the population's variance
            M, r, n = statistic.manifold, statistic.clipping_radius, statistic.n
            convex, _ = _convexity(M, r)
            return dispersion_sensitivity(M, r, n) * sqrt(
                n * log(2 / miss) / 2
            ) + r * r / (n * convex)
        case SecondMoment():  # its length: E‖S − Σ‖² <= r⁴/n, c = √2·r²/n
            return statistic.radius**2 * _length(statistic.n, miss, sqrt(0.5))
        case GeometricMedian():  # directions of length at most 1
            M, diameter = statistic.manifold, 2 * statistic.outer_radius
            if not (
                diameter * curvature_roots(M)[1] < pi / 2
                and diameter < M.injectivity_radius
            ):
                raise ParameterError(
                    f"is too wide for a region of the population on {M!r}: distances "
                    "are not convex in it",
                    parameter="outer_radius",
                    value=statistic.outer_radius,
                )
            return _length(statistic.n, miss)
        case GeodesicLine():  # clipped directions
            return statistic.domain.clip * _length(statistic.n, miss)
    raise ParameterError(
        f"is for public balls, and medians; the {statistic.name} was found in another",
        parameter="of",
        value="population",
    )


def _length(n: int, miss: float, stretch: float = 1.0) -> float:
    """Of the mean of n vectors of lengths up to 1 and expectation 0, which a record moves by at most 2·stretch/n."""
    return (1 + stretch * sqrt(2 * log(1 / miss))) / sqrt(n)


def _convexity(M: Manifold, radius: float) -> tuple[float, float]:
    """(λ, s): the least eigenvalue of Hess ½d² at distances up to s/√κ, the ball's diameter."""
    convex, _ = hessian_bounds(M, 2 * radius)
    if not convex > 0 or not 2 * radius < M.injectivity_radius:
        raise ParameterError(
            f"is too wide for a population region on {M!r}: no theorem applies",
            parameter="radius",
            value=radius,
        )
    return convex, 2 * radius * curvature_roots(M)[1]


def _about(
    statistic: Statistic,
    reading: NoisyDraw,
    of: str,
    components: int | None,
    units: str,
) -> str:
    """What a region holds, in words."""
    whose = (
        units
        if of == "records"
        else f"population of which the {units} are independent draws"
    )
    if components is not None:
        return f"the leading directions of the second moment of the {whose}, shortened to the radius"
    kind = (
        reading.kind if reading.frame is None else "gradient"
    )  # a frame is that of a ball that was found
    return f"the {statistic.name} of the {whose}, moved into {_MOVED.get(kind, 'the public ball')}"
