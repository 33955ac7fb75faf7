"""The error bars that are printed with a release: of the population, and of the noise.

What a reader takes for the error bar of a mean is that of the population from which the
records are drawn. It is listed first. The error bar of the noise alone says how far the
release is from the statistic of the records that were read.
"""

from collections.abc import Callable, Mapping
from math import degrees
from typing import Any, NamedTuple

from curvedp.errors import ParameterError
from curvedp.geometry import Rotations, Sphere, Torus
from curvedp.geometry.manifold import Manifold
from curvedp.inference.shapes import Region

# Returns the region, or one region for each class, for a level and what it is of.
RegionBuilder = Callable[[float, str], Region | Mapping[Any, Region]]

# Spaces whose distances are angles in radians.
_ANGULAR_SPACES = (Sphere, Rotations, Torus)

_TITLES = {
    "population": "error bar of the population, {level:.0%}",
    "records": "error bar of the noise alone, {level:.0%}",
}


class ErrorBar(NamedTuple):
    """The error bar of a release for one target.

    Attributes
    ----------
    of : {"population", "records"}
        What the region is about.
    regions : list of Region
        One for each released value; empty where no theorem gives any.
    sentence : str
        The error bar in words, or why there is none.
    """

    of: str
    regions: list[Region]
    sentence: str

    @property
    def radius(self) -> float | None:
        """The largest radius; None where there is no region."""
        return max((region.radius for region in self.regions), default=None)


def error_bars(
    build_region: RegionBuilder,
    level: float = 0.95,
    describe: Callable[[ParameterError], str] = str,
) -> list[ErrorBar]:
    """Return the error bar of the population, then that of the noise alone.

    Parameters
    ----------
    build_region : callable
        Such as the method `confidence_region` of a fitted estimator.
    level : float
        The coverage.
    describe : callable
        Returns the message of a refusal in the words of a front end.
    """
    return [
        _error_bar(build_region, level, of, describe)
        for of in ("population", "records")
    ]


def distance_sentence(manifold: Manifold, distance: float) -> str:
    """Return a distance in words; where it is an angle, in degrees too.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> distance_sentence(Sphere(2), 0.0349066)
    '0.03491 (2°)'
    """
    if isinstance(manifold, _ANGULAR_SPACES):
        return f"{distance:.4g} ({degrees(distance):.3g}°)"
    return f"{distance:.4g}"


def _error_bar(
    build_region: RegionBuilder,
    level: float,
    of: str,
    describe: Callable[[ParameterError], str],
) -> ErrorBar:
    """Return the error bar for one target."""
    title = _TITLES[of].format(level=level)
    try:
        found = build_region(level, of)
    except ParameterError as refusal:
        return ErrorBar(of, [], f"{title}: none; {describe(refusal)}")
    regions = list(found.values()) if isinstance(found, Mapping) else [found]

    widest = max(regions, key=lambda region: region.radius)
    radius = distance_sentence(widest.manifold, widest.radius)
    if isinstance(widest.manifold, Sphere) and of == "population":
        radius = f"{radius}, which is α{100 * level:g}"
    together = "" if len(regions) == 1 else f", {len(regions)} regions together"
    sentence = (
        f"{title}: the {100 * level:g}% region of {widest.description}: within "
        f"{radius}{together}; {widest.theorem}"
    )
    return ErrorBar(of, regions, sentence)
