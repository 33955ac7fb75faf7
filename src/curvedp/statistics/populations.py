"""Public records that stand for private ones, on which errors are predicted. A
mechanism's error is predicted by simulated releases of them. Their *spread* is their
root mean square distance to their Fréchet mean; their *shape* says how unevenly they
lie about it.
"""

from functools import lru_cache
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from curvedp.core.statistic import Ball
from curvedp.geometry import frechet_mean, parse_manifold
from curvedp.geometry.manifold import Manifold

# Public: every prediction uses the same records.
_SEED = 20230615
# Records of a population in a given ball.
_BALL_POPULATION_SIZE = 16
# A population is rescaled until its spread is right to this share, in at most so many
# rounds: curvature and edges change it a little.
_SPREAD_TOLERANCE = 0.02
_MAX_ROUNDS = 3


class Population(NamedTuple):
    """Records and their Fréchet mean.

    Attributes
    ----------
    records : array of shape (n, *point_shape)
        Public records.
    mean : array of shape point_shape
        Their Fréchet mean.
    """

    records: np.ndarray
    mean: np.ndarray


class PopulationShape(NamedTuple):
    """How public records lie about their mean.

    In an orthonormal basis coordinate k is a centered Gamma variable, with a variance
    in proportion to 1/k^decay.

    Attributes
    ----------
    decay : float
        The larger it is, the fewer directions the records spread in, and the more the
        distances to their mean differ.
    gamma_shape : float
        The shape a of the Gamma variables, whose skewness is 2/√a.
    edge_width : float
        In hyperbolic space, the largest standard deviation of the distances to the
        mean, in radii of curvature. There is so much more space farther out that wide
        populations lie near an edge, as embeddings of trees do.
    """

    decay: float
    gamma_shape: float
    edge_width: float


# Of principal directions, variances and geodesics: variances fall as 1, 1/2, 1/3, and
# coordinates have the skewness 2/3.
SKEWED_SHAPE = PopulationShape(decay=1.0, gamma_shape=9.0, edge_width=inf)
# Of means: the values at which `benchmarks/studies/predictions.py` found predictions
# nearest to the errors on real data sets. These spread in fewer directions than 1/k
# says (their distances differ more), and have shorter tails.
MEAN_SHAPE = PopulationShape(decay=1.5, gamma_shape=36.0, edge_width=1.5)
# Of means of embeddings in spheres of many dimensions, which spread in many directions.
EMBEDDING_SHAPE = PopulationShape(decay=1.0, gamma_shape=36.0, edge_width=inf)


def reference_populations(manifold: Manifold, ball: Ball) -> list[Population]:
    """Return three public populations in a ball, by which errors are predicted.

    Each fills a ball of half the radius. The means are about 0, a quarter and half of
    the radius away from the center.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    ball : Ball
        The public ball.

    Returns
    -------
    list of Population
        16 records each, with their Fréchet means: the same in every process.
    """
    center = np.asarray(ball.center, dtype=np.float64).tobytes()
    return _cached_reference_populations(manifold.name, center, float(ball.radius))


@lru_cache(maxsize=64)
def _cached_reference_populations(
    manifold_text: str, center: bytes, radius: float
) -> list[Population]:
    """Compute the three populations of `reference_populations`, once for each ball.

    Errors of mechanisms are predicted by simulated releases of these public records. In
    normal coordinates at the center they are uniform in a ball of half the radius,
    whose center is 0, a quarter or half of the radius away in a random direction. So
    they show the error for centered and for eccentric data.

    The cache needs hashable arguments. Therefore the manifold is given by its name, and
    the center by its bytes.

    Parameters
    ----------
    manifold_text : str
        The name of the manifold, as `parse_manifold` reads it.
    center : bytes
        The center of the public ball: the bytes of an array of doubles.
    radius : float
        The radius of the public ball.

    Returns
    -------
    list of Population
        One for each of the three distances from the center of the ball.
    """
    manifold = parse_manifold(manifold_text)
    rng = np.random.default_rng(_SEED)
    ball_center = np.frombuffer(center).reshape(manifold.point_shape)
    direction = rng.standard_normal(manifold.dim)
    offsets = rng.standard_normal((_BALL_POPULATION_SIZE, manifold.dim))
    direction /= np.linalg.norm(direction)
    uniform = rng.uniform(size=(_BALL_POPULATION_SIZE, 1))
    # The radius of a uniform point of the unit ball has the distribution function t^d.
    lengths = uniform ** (1 / manifold.dim)
    offsets *= radius / 2 * lengths / np.linalg.norm(offsets, axis=1, keepdims=True)

    populations = []
    for relative_distance in (0.0, 0.25, 0.5):
        coordinates = offsets + relative_distance * radius * direction
        records = np.asarray(manifold.from_normal_coordinates(ball_center, coordinates))
        mean = np.asarray(frechet_mean(manifold, records))
        populations.append(Population(records, mean))
    return populations


def population_of_spread(
    manifold: Manifold,
    center: Any,
    spread: float,
    n: int,
    shape: PopulationShape = SKEWED_SHAPE,
) -> Population:
    """Return public records that stand for n real ones around a mean.

    Their root mean square distance to their own Fréchet mean is `spread`. They lie
    about a point that is `spread` away from the center: skewed, with tails, and long in
    few directions, as the data sets of `benchmarks/studies/predictions.py` are.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    center : point
        The public center, which the records are not at.
    spread : float
        The root mean square distance of the records to their mean.
    n : int
        The number of real records. At most 1024 are made, and fewer in many dimensions.
    shape : PopulationShape
        How the records lie about their mean.

    Returns
    -------
    Population
        The records, and their Fréchet mean.
    """
    size = min(n, max(32, min(1024, 8192 // manifold.dim)))
    key = np.asarray(center, dtype=np.float64).tobytes()
    return _cached_population_of_spread(manifold.name, key, float(spread), size, shape)


@lru_cache(maxsize=64)
def _cached_population_of_spread(
    manifold_text: str, center: bytes, spread: float, size: int, shape: PopulationShape
) -> Population:
    """Return a public population of stated spread; cached, for hashable arguments.

    Curvature changes distances between the records, so they are rescaled and the mean
    is computed again until the spread is right to 2 %, in at most three rounds.

    Parameters
    ----------
    manifold_text : str
        The name of the manifold.
    center : bytes
        The bytes of the public center.
    spread : float
        The root mean square distance of the records to their mean.
    size : int
        The number of records.
    shape : PopulationShape
        How the records lie about their mean.

    Returns
    -------
    Population
        The records, and their Fréchet mean.
    """
    manifold = parse_manifold(manifold_text)
    rng = np.random.default_rng(_SEED)
    offset = rng.standard_normal(manifold.dim)
    offset *= _typical_center_distance(manifold, spread) / np.linalg.norm(offset)
    public_center = np.frombuffer(center).reshape(manifold.point_shape)
    middle = np.asarray(manifold.from_normal_coordinates(public_center, offset))

    # Skewed coordinates whose variances fall, with the stated spread.
    variances = 1 / np.arange(1, manifold.dim + 1) ** shape.decay
    coordinates = rng.gamma(shape.gamma_shape, size=(size, manifold.dim))
    coordinates = coordinates * np.sqrt(variances)
    coordinates -= coordinates.mean(axis=0)
    lengths = np.linalg.norm(coordinates, axis=1, keepdims=True)
    lengths *= spread / np.sqrt(np.mean(lengths**2))
    coordinates *= lengths ** (_power_of_lengths(manifold, lengths, shape) - 1)
    coordinates *= spread / np.sqrt(np.mean(np.sum(coordinates**2, axis=1)))
    for _ in range(_MAX_ROUNDS):
        inside = _within_cut_locus(manifold, coordinates)
        records = np.asarray(manifold.from_normal_coordinates(middle, inside))
        mean = np.asarray(frechet_mean(manifold, records))
        distances = np.asarray(manifold.dist(mean, records))
        factor = spread / np.sqrt(np.mean(distances**2))
        if abs(factor - 1) < _SPREAD_TOLERANCE:
            break
        coordinates *= factor
    return Population(records, mean)


def _power_of_lengths(
    manifold: Manifold, lengths: np.ndarray, shape: PopulationShape
) -> float:
    """Return the power to which distances to the mean are raised, at most 1.

    A power p multiplies their relative standard deviation by about p.

    Parameters
    ----------
    manifold : Manifold
        Where the population lives.
    lengths : array
        The distances of its records to their mean.
    shape : PopulationShape
        How the records lie about their mean.

    Returns
    -------
    float
        Below 1 in hyperbolic space, if the distances vary by more than
        `shape.edge_width`; otherwise 1.
    """
    curvature = manifold.constant_curvature
    if curvature is None or curvature >= 0 or manifold.dim < 2:
        return 1.0
    std_in_curvature_radii = float(np.std(lengths)) * sqrt(-curvature)
    return min(1.0, shape.edge_width / std_in_curvature_radii)


def _typical_center_distance(manifold: Manifold, spread: float) -> float:
    """Return the distance from the public center to the mean of a public population.

    It is the spread, unless the manifold is too small for that: users place the public
    center about as far from the mean as records are.

    Parameters
    ----------
    manifold : Manifold
        Where the population lives.
    spread : float
        The root mean square distance of its records to their mean.

    Returns
    -------
    float
        The distance, in units of the manifold's distance.
    """
    offset = spread
    if 0 < manifold.injectivity_radius < inf:
        offset = min(offset, manifold.injectivity_radius / 4)
    curvature = manifold.constant_curvature
    if curvature is not None and curvature < 0:
        offset = min(offset, 1 / sqrt(-curvature))
    return offset


def _within_cut_locus(manifold: Manifold, coordinates: np.ndarray) -> np.ndarray:
    """Shorten normal coordinates to lengths within which geodesics are unique.

    Without this a record beyond the cut locus would come back from the other side.

    Parameters
    ----------
    manifold : Manifold
        Where the coordinates belong.
    coordinates : array of shape (..., dim)
        Normal coordinates at some point.

    Returns
    -------
    array of shape (..., dim)
        Coordinates of at most 98 % of the injectivity radius.
    """
    if not 0 < manifold.injectivity_radius < inf:
        return coordinates
    lengths = np.linalg.norm(coordinates, axis=1, keepdims=True)
    factors = np.minimum(1.0, 0.98 * manifold.injectivity_radius / lengths)
    return np.asarray(coordinates * factors)
