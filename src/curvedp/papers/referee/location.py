"""Recipes for private places, directions and words: what each promises and delivers.

Every recipe is written here from its description. `log_ratio` is the largest
|log-ratio| of two reports over ε·distance, which is at most 1 where a recipe keeps its
promise. Packages as they are published are attacked by
benchmarks/attacks/location_packages.py.
"""

import itertools
import math
from typing import Any

import numpy as np

from curvedp.errors import NotIntegrable
from curvedp.geometry import Lorentz, Sphere
from curvedp.local import MetricLaplace
from curvedp.local.spaces import EARTH_RADIUS_KM

# Angles and lengths of the grids on which densities are compared.
_ANGLES = 480
_LENGTHS = 80


def location(samples: int) -> dict[str, Any]:
    """Return the log-ratios and shares of all recipes, by their names in expected.json.

    Parameters
    ----------
    samples : int
        The number of draws for what is simulated.
    """
    rng = np.random.default_rng(0)
    figures: dict[str, Any] = {"two Laplace numbers, log-ratio": two_laplace_numbers()}
    for latitude in (0.0, 60.0, 89.0, 89.99, 89.999):
        name = f"noise in degrees at {latitude:g}°"
        figures[f"{name}, log-ratio"] = noise_in_degrees(latitude)
        figures[f"{name}, log-ratio of places"] = noise_in_degrees(
            latitude, as_places=True
        )
    figures["noise in degrees 1.1 km from the pole, beyond it"] = beyond_pole(
        samples, rng
    )
    figures["noise in degrees, odd last bits from 0°"] = odd_last_bits(
        0.0, samples, rng
    )
    figures["noise in degrees, odd last bits from 1°"] = odd_last_bits(
        1.0, samples, rng
    )
    figures.update(von_mises_fisher(10.0))
    figures.update(hyperbolic_words())
    figures["MetricLaplace on the sphere, log-ratio"] = metric_laplace(10.0)
    return figures


def two_laplace_numbers() -> float:
    """Return the log-ratio of two independent Laplace numbers at one ε.

    The density e^{−ε(|u| + |v|)} promises ε per unit of length in the plane. Its
    log-ratio is that of the sum of the coordinates, √2 times as large along a diagonal.

    Returns
    -------
    float
        The largest |log-ratio| found of reports about the origin and about records at
        distance 1, over ε.
    """
    turn = 2 * np.pi * np.arange(_ANGLES) / _ANGLES
    records = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    reports = 3 * np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    reports = np.vstack([reports, records, np.zeros((1, 2))])
    from_origin = np.abs(reports).sum(axis=1)
    from_record = np.abs(reports - records[:, None]).sum(axis=2)
    return float(np.abs(from_record - from_origin).max())


def degree_log_density(
    record: np.ndarray, reports: np.ndarray, *, as_places: bool
) -> np.ndarray:
    """Return the log-density of planar noise that is added to degrees, up to a constant.

    The noise is r·(cos θ, sin θ) with the planar Laplace law at 1 per km. It is added to
    the latitude, and divided by the cosine of the latitude to the longitude.

    Parameters
    ----------
    record : array, shape (2,)
        Latitude and longitude in radians.
    reports : array, shape (m, 2)
        Reported latitudes and longitudes in radians.
    as_places : bool
        Whether reports are read as places: beyond a pole they are on its other side,
        and all turns of a longitude are added up. Otherwise they are pairs of numbers,
        as the recipe returns them.
    """
    latitude, longitude = record
    across = math.cos(latitude)
    if not as_places:
        steps = np.hypot(reports[:, 0] - latitude, (reports[:, 1] - longitude) * across)
        return np.asarray(math.log(across) - EARTH_RADIUS_KM * steps)
    # Noise of more than 40 km has no mass to speak of.
    turns = math.ceil(40 / (EARTH_RADIUS_KM * across * 2 * math.pi)) + 1
    total = np.zeros(len(reports))
    for turn in range(-turns, turns + 1):
        for is_beyond in (False, True):
            north = reports[:, 0]
            east = reports[:, 1] + 2 * np.pi * turn
            if is_beyond:
                north, east = np.pi - north, east + np.pi
            steps = np.hypot(north - latitude, (east - longitude) * across)
            total += np.exp(-EARTH_RADIUS_KM * steps)
    return np.asarray(np.log(total * across / np.cos(reports[:, 0])))


def noise_in_degrees(latitude: float, *, as_places: bool = False) -> float:
    """Return the log-ratio of noise in degrees, for records 1 km apart.

    Parameters
    ----------
    latitude : float
        The latitude of the southern record, in degrees.
    as_places : bool
        Whether reports are read as places (`degree_log_density`).
    """
    sphere = Sphere(2)
    start = np.array([math.radians(latitude), 0.0])
    center = _unit_vectors(start[None])[0]
    angles = 2 * np.pi * np.arange(_ANGLES) / _ANGLES
    lengths = np.linspace(0.05, 8.0, _LENGTHS) / EARTH_RADIUS_KM
    r, turn = (grid.ravel() for grid in np.meshgrid(lengths, angles, indexing="ij"))
    steps = np.stack([r * np.cos(turn), r * np.sin(turn)], axis=1)

    def walk(coordinates: np.ndarray) -> np.ndarray:
        """Return the unit vectors at steps from the first record."""
        velocities = sphere.from_coordinates(center, coordinates)
        return np.asarray(sphere.exp(center, velocities))

    if as_places:
        reports = _places(walk(steps))
    else:
        reports = start + steps / [1.0, math.cos(start[0])]
    first = degree_log_density(start, reports, as_places=as_places)
    largest = 0.0
    for direction in angles[:: _ANGLES // 16]:
        step = np.array([[math.cos(direction), math.sin(direction)]]) / EARTH_RADIUS_KM
        record = _places(walk(step))[0]
        second = degree_log_density(record, reports, as_places=as_places)
        largest = max(largest, float(np.abs(first - second).max()))
    return largest


def _unit_vectors(places: np.ndarray) -> np.ndarray:
    """Return the unit vectors of places, rows of latitude and longitude in radians."""
    latitude, longitude = places.T
    across = np.cos(latitude)
    return np.stack(
        [across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)],
        axis=1,
    )


def _places(vectors: np.ndarray) -> np.ndarray:
    """Return latitudes and longitudes of unit vectors, in radians."""
    x, y, z = vectors.T
    return np.stack([np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)], axis=1)


def _add_in_degrees(
    latitude: float, per_km: float, samples: int, rng: np.random.Generator
) -> np.ndarray:
    """Return reported latitudes in degrees: planar noise in floats, added to degrees.

    Parameters
    ----------
    latitude : float
        The latitude of the record, in degrees.
    per_km : float
        ε per kilometer.
    samples : int
        The number of reports.
    rng : numpy.random.Generator
        The source of the noise.
    """
    radii = rng.gamma(2.0, 1 / per_km, samples)
    steps = radii * np.cos(rng.uniform(0, 2 * np.pi, samples))
    return np.asarray(latitude + np.degrees(steps / EARTH_RADIUS_KM))


def beyond_pole(samples: int, rng: np.random.Generator) -> float:
    """Return the share of reported latitudes above 90°, which are no places.

    The record is 1.1 km from the north pole, and ε is 1 per kilometer.

    Parameters
    ----------
    samples : int
        The number of reports.
    rng : numpy.random.Generator
        The source of the noise.
    """
    return float(np.mean(_add_in_degrees(89.99, 1.0, samples, rng) > 90))


def odd_last_bits(latitude: float, samples: int, rng: np.random.Generator) -> float:
    """Return the share of odd last bits among reports between 0.25° and 0.5°.

    A float in this range is a multiple of 2^-54. A sum with 1° is a multiple of 2^-53,
    so that an odd last bit tells that the record was not at 1°, whatever ε is. Here it
    is 0.01 per km, at which the two records may differ by a factor of 3.

    Parameters
    ----------
    latitude : float
        The latitude of the record, in degrees.
    samples : int
        The number of reports.
    rng : numpy.random.Generator
        The source of the noise.
    """
    reports = _add_in_degrees(latitude, 0.01, samples, rng)
    inside = reports[(reports >= 0.25) & (reports < 0.5)]
    multiples = np.ldexp(inside, 54)
    return float(np.mean(multiples % 2 == 1))


def von_mises_fisher(kappa: float) -> dict[str, float]:
    """Return the log-ratio of vMF noise over κ·angle, and how far its reports lie.

    The density ∝ e^{κ⟨x, y⟩} has the log-ratio κ⟨x − x′, y⟩, at most κ times the chord.

    Parameters
    ----------
    kappa : float
        κ, taken as ε per radian.

    Returns
    -------
    dict
        The largest log-ratio over κ·angle; the mean angle of reports over that of
        Laplace noise at the same ε; and the log-ratio over ε where κ = ε is taken for
        local privacy with a sensitivity of 1.
    """
    angles = np.array([0.01, 0.1, 0.5, 1.0, 2.0, 3.0])
    # The report along x − x′ attains the chord.
    ratios = 2 * np.sin(angles / 2) / angles
    radii = (np.arange(20_000) + 0.5) * np.pi / 20_000
    weights = np.exp(kappa * (np.cos(radii) - 1)) * np.sin(radii)
    mean = float(radii @ weights / weights.sum())
    laplace = MetricLaplace(Sphere(2), kappa).expected_displacement
    # For local privacy all pairs of unit vectors count, whose chords go up to 2.
    return {
        "vMF, log-ratio per radian": float(ratios.max()),
        "vMF, mean angle over that of Laplace noise": mean / laplace,
        "vMF with sensitivity 1 as local privacy, log-ratio over ε": float(
            2 * np.sin(np.linspace(0, np.pi, _ANGLES + 1) / 2).max()
        ),
    }


def hyperbolic_words() -> dict[str, float]:
    """Return log-ratios of e^{−ε·d} in the Poincaré disc, by the measure that is meant.

    Against the hyperbolic volume the law exists only for ε > n − 1, and is private
    there. Restricted to a disc, as floats restrict it, or against the Lebesgue measure
    of the disc, its mass depends on the word.

    Returns
    -------
    dict
        The smallest ε of a law on H², and log-ratios over ε·distance at two values of ε.
    """
    figures = {"hyperbolic, ε below which no law exists on H²": _smallest_epsilon()}
    for epsilon in (0.5, 2.0):
        figures[f"hyperbolic in a disc of radius 12, ε = {epsilon:g}, log-ratio"] = (
            _disc_ratio(epsilon, 12.0, is_volume=True)
        )
        figures[f"hyperbolic by Lebesgue measure, ε = {epsilon:g}, log-ratio"] = (
            _disc_ratio(epsilon, 18.0, is_volume=False)
        )
    return figures


def _smallest_epsilon() -> float:
    """Return the smallest ε at which `MetricLaplace` exists on H², by bisection."""
    low, high = 0.1, 3.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        try:
            MetricLaplace(Lorentz(2), middle)
        except NotIntegrable:
            low = middle
        else:
            high = middle
    return high


def _disc_ratio(epsilon: float, reach: float, *, is_volume: bool) -> float:
    """Return the log-ratio of a word at the origin and others up to 4 away.

    Parameters
    ----------
    epsilon : float
        ε per unit of hyperbolic distance.
    reach : float
        The hyperbolic radius of the disc.
    is_volume : bool
        Whether the density is against the hyperbolic volume, or against Lebesgue's
        measure of the disc.
    """
    nodes, weights = np.polynomial.legendre.leggauss(1200)
    r = reach * (nodes + 1) / 2
    measure = np.sinh(r) if is_volume else np.tanh(r / 2) / (2 * np.cosh(r / 2) ** 2)
    angles = 2 * np.pi * (np.arange(_ANGLES) + 0.5) / _ANGLES
    log_masses = []
    places = np.array([0.0, 0.5, 1.0, 2.0, 4.0])
    for place in places:
        cosh = np.cosh(r)[:, None] * math.cosh(place)
        cosh = cosh - np.sinh(r)[:, None] * math.sinh(place) * np.cos(angles)
        density = np.exp(-epsilon * np.arccosh(np.maximum(cosh, 1.0))).mean(axis=1)
        log_masses.append(math.log(float(weights @ (measure * density))))
    # At y = x or y = x′ the distances contribute ±ε·d(x, x′), whichever is worse.
    excess = np.abs(np.array(log_masses[1:]) - log_masses[0]) / (epsilon * places[1:])
    return float(1 + excess.max())


def metric_laplace(epsilon: float) -> float:
    """Return the log-ratio of `MetricLaplace` on the sphere, on the same kind of grid.

    Parameters
    ----------
    epsilon : float
        ε per radian.
    """
    sphere = Sphere(2)
    mechanism = MetricLaplace(sphere, epsilon)
    rng = np.random.default_rng(1)
    reports = np.asarray(sphere.project(rng.standard_normal((4000, 3))))
    records = np.asarray(sphere.project(rng.standard_normal((30, 3))))
    largest = 0.0
    for first, second in itertools.pairwise(records):
        points = np.vstack([reports, records])
        ratio = mechanism.log_density(points, np.broadcast_to(first, points.shape))
        ratio = ratio - mechanism.log_density(
            points, np.broadcast_to(second, points.shape)
        )
        distance = float(sphere.dist(first, second))
        largest = max(largest, float(np.abs(ratio).max()) / (epsilon * distance))
    return largest
