"""The two error bars that are printed with a release, as sentences.
The first is about the population from which the records were drawn: readers expect this
one. The second is about the noise alone: how far the release is from the statistic of
the records that were read. Both come from confidence regions.
"""

from collections.abc import Callable, Mapping, Sequence
from math import degrees
from typing import Any, NamedTuple

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry import Rotations, Sphere, Torus
from curvedp.geometry.manifold import Manifold
from curvedp.inference.shapes import Region

# A function of a level and a target ("population" or "records"), which returns the
# region, or one region for each class.
RegionBuilder = Callable[[float, str], Region | Mapping[Any, Region]]

# Spaces whose distances are angles in radians.
_ANGULAR_SPACES = (Sphere, Rotations, Torus)

_TITLES = {
    "population": "error bar of the population, {level:.0%}",
    "records": "error bar of the noise alone, {level:.0%}",
}


# The sentence mentions a released point that is farther from the center of its region
# than this fraction of the radius.
_SMALL_SHIFT = 0.1


class ErrorBar(NamedTuple):
    """The error bar of a release for one target.

    Attributes
    ----------
    of : {"population", "records"}
        What the region is about.
    regions : list of Region
        One for each released value; empty if no theorem gives a region.
    sentence : str
        The error bar in words, or why there is none.
    """

    of: str
    regions: list[Region]
    sentence: str

    @property
    def radius(self) -> float | None:
        """The largest radius of the regions; None if there are none."""
        return max((region.radius for region in self.regions), default=None)


def error_bars(
    build_region: RegionBuilder,
    level: float = 0.95,
    describe: Callable[[ParameterError], str] = str,
    released: Sequence[np.ndarray] = (),
) -> list[ErrorBar]:
    """Return two error bars: for the population, and for the noise alone.

    Parameters
    ----------
    build_region : callable
        A function of (level, of) that returns a region or one for each class, such as
        the method `confidence_region` of a fitted estimator.
    level : float
        The coverage of both error bars, between 0 and 1.
    describe : callable
        Returns the message of an error in the words of a front end, such as the command
        line.
    released : sequence of array
        The released values, one for each region. The center of a region may be another
        point than the released value: the release is the better estimate, but the
        theorem is about the center.

    Returns
    -------
    list of ErrorBar
        Two error bars. The sentence of one without regions says why there are none.
    """
    return [
        _error_bar(build_region, level, of, describe, released)
        for of in ("population", "records")
    ]


def is_angular(manifold: Manifold) -> bool:
    """Return whether distances on a manifold are angles in radians.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points.
    """
    return isinstance(manifold, _ANGULAR_SPACES)


def distance_sentence(manifold: Manifold, distance: float) -> str:
    """Return a distance as text, with degrees if it is an angle.

    Parameters
    ----------
    manifold : Manifold
        The manifold, which says whether distances are angles in radians.
    distance : float
        A distance on it.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> distance_sentence(Sphere(2), 0.0349066)
    '0.03491 (2°)'
    """
    if is_angular(manifold):
        return f"{distance:.4g} ({degrees(distance):.3g}°)"
    return f"{distance:.4g}"


def _error_bar(
    build_region: RegionBuilder,
    level: float,
    of: str,
    describe: Callable[[ParameterError], str],
    released: Sequence[np.ndarray],
) -> ErrorBar:
    """Return the error bar for one target, with its sentence.

    Called by `error_bars` for each of the two targets.

    Parameters
    ----------
    build_region : callable
        A function of (level, of) that returns one region, or one for each class.
    level : float
        The coverage.
    of : {"population", "records"}
        The target.
    describe : callable
        Returns the message of an error in the words of a front end.
    released : sequence of array
        The released values, one for each region, or none.

    Returns
    -------
    ErrorBar
        The regions, and a sentence. If the builder raises an error there are no regions,
        and the sentence gives the reason.
    """
    title = _TITLES[of].format(level=level)
    try:
        region_or_regions = build_region(level, of)
    except ParameterError as refusal:
        return ErrorBar(of, [], f"{title}: none; {describe(refusal)}")

    # One region, or one for each class.
    if isinstance(region_or_regions, Mapping):
        regions_by_name = region_or_regions
    else:
        regions_by_name = {"": region_or_regions}
    regions = list(regions_by_name.values())
    widest = max(regions, key=lambda region: region.radius)
    if any(region.is_as_wide_as_ball for region in regions):
        radius = distance_sentence(widest.manifold, widest.radius)
        sentence = f"{title}: none of use; within {radius}, {widest.theorem}"
        return ErrorBar(of, regions, sentence)

    radii = ", ".join(
        f"{name} {distance_sentence(region.manifold, region.radius)}"
        for name, region in regions_by_name.items()
    )
    simultaneity = ", all at once"
    if len(regions) == 1:
        radii = radius_sentence(widest)
        simultaneity = ""
    sentence = (
        f"{title}: within {radii}{simultaneity}{_shift_clause(regions, released)}; "
        f"it is the {100 * level:g}% region of "
        f"{widest.description}; {widest.theorem}"
    )
    return ErrorBar(of, regions, sentence)


def _shift_clause(regions: list[Region], released: Sequence[np.ndarray]) -> str:
    """Return a clause that says how far region centers are from the released points.

    Used in the sentence of an error bar.

    Parameters
    ----------
    regions : list of Region
        The regions of one error bar.
    released : sequence of array
        The released values, one for each region, or none.

    Returns
    -------
    str
        Empty if every released point is near the center of its region.
    """
    widest_shift = 0.0
    for region, value in zip(regions, released, strict=False):
        if np.shape(value) != region.manifold.point_shape:
            continue
        shift = float(region.manifold.dist(region.center, np.asarray(value)))
        if shift > _SMALL_SHIFT * region.radius:
            widest_shift = max(widest_shift, shift)
    if widest_shift == 0.0:
        return ""
    distance = distance_sentence(regions[0].manifold, widest_shift)
    if len(regions) > 1:
        return f", about points up to {distance} from the released ones"
    return (
        f", about a point at distance {distance} from the released one, which "
        "`curvedp region` prints"
    )


def radius_sentence(region: Region) -> str:
    """Return the radius of a region as text; for a mean direction, name it α95.

    A region as wide as the ball of the records is not given that name.

    Parameters
    ----------
    region : Region
        The region. Its manifold and its target determine the text.

    Returns
    -------
    str
        Such as "0.03491 (2°), which is α95".
    """
    radius = distance_sentence(region.manifold, region.radius)
    is_direction = isinstance(region.manifold, Sphere) and region.of == "population"
    if is_direction and not region.is_as_wide_as_ball:
        return f"{radius}, which is α{100 * region.level:.3g}"
    return radius
