"""Confidence regions about what was released, from the certificate alone.

Of the records: the noise law's own quantile about the draw BEFORE shrinkage and projection, which the certificate keeps. Of
the population: that, and how far the mean of n independent records is from the population's (docs/inference.md).
"""

from collections.abc import Sequence
from math import log, sin, sqrt
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold
from curvedp.inference.lines import line_region
from curvedp.inference.shapes import SHAPES, Region, Shape, curvature_roots, hessian_bounds, principal_subspaces
from curvedp.mechanisms.base import FLOAT, Mechanism, Reading
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.regression import GeodesicLine
from curvedp.mechanisms.second_moment import SecondMoment
from curvedp.mechanisms.statistic import FrechetMean, Statistic

_MOVED = {"gradient": "the ball that was used", "counts": "the public outer ball"}
_POPULATION = (
    "the Fréchet mean of the population, moved into the public ball, of which the records are independent draws"
)


def region_of(
    certificate: Certificate, level: float = 0.95, of: str = "records", components: int | None = None
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
        "population": finite-sample, for means of independent records in a public ball: half of 1 − level goes to the
        noise, half to the sample.
    components : int, optional
        Of a released second moment: the region of its so many leading directions, by their angle.

    Raises
    ------
    ParameterError
        If the level is no probability, the draw was in floats, its integers are not kept, or no theorem applies.
    """
    level = _validate.within("level", level, 0.0, 1.0, open_low=True, open_high=True)
    _validate.choice("of", of, ("records", "population"))
    mechanism, reading = _drawn_by(certificate)
    if of == "records":
        return _of_records(mechanism, reading, level, components)
    spread = _sampling_radius(mechanism.statistic, (1 - level) / 2)
    noise = _of_records(mechanism, reading, 1 - (1 - level) / 2, None)
    theorem = f"finite-sample (McDiarmid), with the noise {noise.theorem}"
    return Region(noise.manifold, noise.center, noise.radius + spread, level, of, _POPULATION, theorem)


def radii_of(certificate: Certificate, levels: Sequence[float], components: int | None = None) -> list[float]:
    """The radius of `region_of` at each of these levels."""
    mechanism, reading = _drawn_by(certificate)
    M, statistic = mechanism.manifold, reading.frame or mechanism.statistic
    if isinstance(statistic, GeodesicLine):
        return [line_region(statistic, reading, level).radius for level in levels]
    return [_shape(M, statistic, reading, level, components)[1].radius for level in levels]


def components_of(statistic: Statistic, value: Any) -> int | None:
    """How many directions a released value has, where it is made of a second moment: what `region_of` wants to know."""
    many = isinstance(statistic, SecondMoment) and np.ndim(value) == 2 and np.shape(value)[1] == statistic.features
    return len(value) if many and len(value) < np.shape(value)[1] else None


def simultaneous(certificates: Sequence[Certificate], level: float = 0.95, of: str = "records") -> list[Region]:
    """Regions that ALL hold their truths with probability `level`: each at level^(1/k), as their noises are independent.

    Parameters
    ----------
    certificates : sequence of Certificate
        Of separate releases, such as those of `PrivateMDM`; of="population" wants separate records too.
    level, of
        As in `region_of`.
    """
    level = _validate.within("level", level, 0.0, 1.0, open_low=True, open_high=True)
    return [region_of(each, level ** (1 / len(certificates)), of) for each in certificates]


def consistent(first: Certificate, second: Certificate, level: float = 0.95, of: str = "records") -> bool:
    """Whether two releases can be about the same truth: False has probability at most 1 − level where they are.

    Parameters
    ----------
    first, second : Certificate
        Of two releases on one manifold, such as a published one and its repetition. of="records" compares statistics of the
        same records in the same ball; of="population" those of two samples of one population.
    level, of
        As in `region_of`.
    """
    one, other = simultaneous([first, second], level, of)
    if one.manifold != other.manifold:
        raise ParameterError(f"the releases live on {one.manifold!r} and {other.manifold!r}: nothing to compare")
    return bool(one.manifold.dist(one.center, other.center) <= one.radius + other.radius)


def _drawn_by(certificate: Certificate) -> tuple[Mechanism, Reading]:
    """The mechanism, and what it drew."""
    if not isinstance(certificate, Certificate):
        raise ParameterError(f"certificate={_validate.shown(certificate)} must be a curvedp certificate")
    mechanism = certificate.made_by
    if mechanism.path == FLOAT:
        raise ParameterError(f"no region follows from {mechanism.name}, which draws in floats: their law is not known")
    if certificate.release["integers"] is None:
        raise ParameterError("no region: the certificate does not list what was drawn, which was too long")
    return mechanism, mechanism.reading(certificate.release["integers"])


def _shape(
    M: Manifold, statistic: Statistic, reading: Reading, level: float, components: int | None
) -> tuple[Manifold, Shape]:
    if components is None:
        return M, SHAPES[reading.kind](M, statistic, reading, level)
    if not isinstance(statistic, SecondMoment):
        raise ParameterError(f"components= is for second moments, not the {statistic.name}")
    return principal_subspaces(statistic, reading, level, _validate.integer("components", components, 1))


def _of_records(mechanism: Mechanism, reading: Reading, level: float, components: int | None) -> Region:
    statistic = reading.frame or mechanism.statistic
    if isinstance(statistic, GeodesicLine):
        return line_region(statistic, reading, level)
    M, shape = _shape(mechanism.manifold, statistic, reading, level, components)
    about = f"the {mechanism.statistic.name} of the records, moved into {_MOVED.get(reading.kind, 'the public ball')}"
    if components is not None:
        about = "the leading directions of the records' second moment, records being shortened to the radius"
    center = statistic.placed(shape.center(M)[None])[0]
    return Region(M, center, shape.radius, level, "records", about, shape.theorem, shape.within)


def _sampling_radius(statistic: Statistic, miss: float) -> float:
    """With probability 1 − miss, how far the mean of n independent records in a ball of radius r is from the population's.

    Let b be the population's mean and G = mean log_b xᵢ, of expectation 0. Then d(mean, b) <= |G|/λ, λ the least
    eigenvalue of Hess ½d² at distances up to 2r; E|G| <= √(E d²(b, x)/n) <= r/√n, as b minimizes; and replacing a record
    moves |G| by at most 2rS/n, S the stretch of log_b (1 on Hadamard manifolds), so that McDiarmid's inequality (1989) gives
    |G| <= (r/√n)(1 + S·√(2·log(1/miss))). This is the form of Brunel & Serres 2024 with constants proved here.
    """
    if not isinstance(statistic, FrechetMean):
        raise ParameterError(f"of='population' is for Fréchet means in a public ball, not the {statistic.name}")
    M, r = statistic.manifold, statistic.radius
    convex, _ = hessian_bounds(M, 2 * r)
    s = 2 * r * curvature_roots(M)[1]
    if not convex > 0 or not 2 * r < M.injectivity_radius:
        raise ParameterError(f"radius={r:.6g} is too wide for a region of the population on {M!r}: no theorem applies")
    stretch = s / sin(s) if s > 0 else 1.0
    return r / sqrt(statistic.n) * (1 + stretch * sqrt(2 * log(1 / miss))) / convex
