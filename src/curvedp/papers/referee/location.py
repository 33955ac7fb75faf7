"""Published recipes for private places, directions and words: what each promises and
what it delivers. A recipe with metric privacy at ε promises that the log-ratio of the
densities of a report about two records is at most ε times their distance.

Every recipe is written here from its description. The numbers are the largest
|log-ratio| of a report divided by ε times the distance of the records, which is at most
1 if a recipe keeps its promise. The published packages themselves are attacked by
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
    """Test published recipes for private places, directions and words.

    Parameters
    ----------
    samples : int
        The number of draws for the shares, which are simulated.

    Returns
    -------
    dict
        The log-ratios and shares of all recipes, by their names in expected.json. A
        log-ratio is divided by ε times the distance of the records.
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
    figures["MetricLaplace on the sphere, log-ratio"] = metric_laplace_log_ratio(10.0)
    return figures


def two_laplace_numbers() -> float:
    """Return the largest log-ratio of Laplace noise added to each coordinate, over ε.

    The recipe adds independent Laplace noise with the density ∝ e^{−ε·|u|} to both
    coordinates of a point, and promises ε per unit of length in the plane. Its
    log-ratio is ε times the distance in the 1-norm, which is √2 times the length along
    a diagonal.

    Returns
    -------
    float
        The largest |log-ratio| between the densities about the origin and about a
        record at distance 1, divided by ε.
    """
    angles = 2 * np.pi * np.arange(_ANGLES) / _ANGLES
    records = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    reports = 3 * np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    reports = np.vstack([reports, records, np.zeros((1, 2))])
    from_origin = np.abs(reports).sum(axis=1)
    from_record = np.abs(reports - records[:, None]).sum(axis=2)
    return float(np.abs(from_record - from_origin).max())


def degree_log_density(
    record: np.ndarray, reports: np.ndarray, *, as_places: bool
) -> np.ndarray:
    """Return the log-density of planar noise added to degrees, up to a constant.

    The recipe draws noise r·(cos θ, sin θ) in kilometers from the planar Laplace law at
    ε = 1 per km. It converts the first coordinate to degrees and adds it to the
    latitude. It divides the second one by the cosine of the latitude and adds it to the
    longitude.

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
    # Sum over all turns of the longitude, and over both sides of the pole. Noise of more
    # than 40 km has a negligible probability.
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
    """Return the largest log-ratio of noise in degrees, for records 1 km apart.

    ε is 1 per km, so that a log-ratio of 1 is promised.

    Parameters
    ----------
    latitude : float
        The latitude of the southern record, in degrees.
    as_places : bool
        Whether reports are read as points of the earth, so that a latitude beyond a pole
        lies on its other side, or as pairs of numbers.

    Returns
    -------
    float
        The largest |log-ratio| over a grid of reports about the first record, and over
        16 directions from it to the second record.
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
    """Return the share of reported latitudes above 90°, which do not exist.

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

    A float in this range is a multiple of 2^-54. If the record is at 1°, the sum of 1
    and a float is a multiple of 2^-53. So an odd last bit proves that the record was
    not at 1°, for every ε. Here ε is 0.01 per km, which allows the probabilities of a
    report for records at 0° and 1° to differ by a factor of 3 only.

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
    """Return the log-ratio and the mean angle of von Mises–Fisher (vMF) noise.

    The density ∝ e^{κ⟨x, y⟩} of a report y about the direction x has the log-ratio
    κ⟨x − x′, y⟩, which is at most κ times the length of the chord from x to x′.

    Parameters
    ----------
    kappa : float
        κ, taken as ε per radian.

    Returns
    -------
    dict
        The largest log-ratio divided by κ·angle; the mean angle of reports divided by
        that of Laplace noise at the same ε; and the largest log-ratio divided by ε for a
        recipe of local privacy that sets κ = ε, as if the sensitivity were 1.
    """
    # Chords over angles: the report along x − x′ attains the chord.
    angles = np.array([0.01, 0.1, 0.5, 1.0, 2.0, 3.0])
    ratios = 2 * np.sin(angles / 2) / angles

    # The mean angle of reports, by the midpoint rule.
    radii = (np.arange(20_000) + 0.5) * np.pi / 20_000
    weights = np.exp(kappa * (np.cos(radii) - 1)) * np.sin(radii)
    mean = float(radii @ weights / weights.sum())
    laplace = MetricLaplace(Sphere(2), kappa).expected_displacement
    # For local privacy all pairs of unit vectors count, whose chords go up to 2.
    all_angles = np.linspace(0, np.pi, _ANGLES + 1)
    longest_chord = float(2 * np.sin(all_angles / 2).max())
    return {
        "vMF, log-ratio per radian": float(ratios.max()),
        "vMF, mean angle over that of Laplace noise": mean / laplace,
        "vMF with sensitivity 1 as local privacy, log-ratio over ε": longest_chord,
    }


def hyperbolic_words() -> dict[str, float]:
    """Return the log-ratios of the density ∝ e^{−ε·d} in the Poincaré disc.

    Word embeddings in hyperbolic space are made private by this density. With respect
    to the hyperbolic volume of dimension n it is a law only for ε > n − 1, and is then
    private. If it is restricted to a disc, as floats do, or taken with respect to the
    Lebesgue measure of the disc, its normalizing constant depends on the word, which
    adds to the log-ratio.

    Returns
    -------
    dict
        The smallest ε at which the law exists on H², and log-ratios divided by
        ε·distance for two values of ε.
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
    """Return the largest log-ratio between a word at the origin and four others.

    The others are at distances up to 4 from the origin. The log-ratio of two words
    x and x′ is at most ε·d(x, x′) plus the difference of the log-masses of their
    unnormalized densities, and some report attains it.

    Parameters
    ----------
    epsilon : float
        ε per unit of hyperbolic distance.
    reach : float
        The hyperbolic radius of the disc.
    is_volume : bool
        Whether the density is with respect to the hyperbolic volume, or to Lebesgue's
        measure of the disc.

    Returns
    -------
    float
        The largest log-ratio, divided by ε·d(x, x′).
    """
    nodes, weights = np.polynomial.legendre.leggauss(1200)
    r = reach * (nodes + 1) / 2
    measure = np.sinh(r) if is_volume else np.tanh(r / 2) / (2 * np.cosh(r / 2) ** 2)
    angles = 2 * np.pi * (np.arange(_ANGLES) + 0.5) / _ANGLES
    log_masses = []
    word_distances = np.array([0.0, 0.5, 1.0, 2.0, 4.0])
    for word_distance in word_distances:
        # The hyperbolic law of cosines: cosh of the distance of a report to the word.
        cosh = np.cosh(r)[:, None] * math.cosh(word_distance)
        cosh = cosh - np.sinh(r)[:, None] * math.sinh(word_distance) * np.cos(angles)
        density = np.exp(-epsilon * np.arccosh(np.maximum(cosh, 1.0))).mean(axis=1)
        log_masses.append(math.log(float(weights @ (measure * density))))
    # At y = x or y = x′ the distances contribute ±ε·d(x, x′), whichever is worse.
    mass_ratios = np.abs(np.array(log_masses[1:]) - log_masses[0])
    return float(1 + (mass_ratios / (epsilon * word_distances[1:])).max())


def metric_laplace_log_ratio(epsilon: float) -> float:
    """Return the largest log-ratio of `MetricLaplace` on the sphere, over ε·distance.

    It compares the densities of reports about random pairs of records, as the other
    functions of this file do for published recipes. At most 1 is promised.

    Parameters
    ----------
    epsilon : float
        ε per radian.

    Returns
    -------
    float
        The largest |log p(y | x) − log p(y | x′)|/(ε·d(x, x′)) over the reports y and
        the pairs of records x, x′.
    """
    sphere = Sphere(2)
    mechanism = MetricLaplace(sphere, epsilon)
    rng = np.random.default_rng(1)
    random_points = np.asarray(sphere.project(rng.standard_normal((4000, 3))))
    records = np.asarray(sphere.project(rng.standard_normal((30, 3))))
    # The ratio is largest at the records themselves, so that they are reports too.
    reports = np.vstack([random_points, records])
    largest_ratio = 0.0
    for first, second in itertools.pairwise(records):
        first_log_density = mechanism.log_density(
            reports, np.broadcast_to(first, reports.shape)
        )
        second_log_density = mechanism.log_density(
            reports, np.broadcast_to(second, reports.shape)
        )
        log_ratio = first_log_density - second_log_density
        distance = float(sphere.dist(first, second))
        ratio = float(np.abs(log_ratio).max()) / (epsilon * distance)
        largest_ratio = max(largest_ratio, ratio)
    return largest_ratio
