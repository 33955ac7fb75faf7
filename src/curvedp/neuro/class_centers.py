"""Class centers of a starter kit: from a noisy vector to centers, and their accuracy.
A starter kit releases one noisy vector, the logarithms of all class means. Here it is
shrunk to class centers, and the accuracy that such centers have for a new person is
predicted by simulated releases of public people. `curvedp.neuro.starter_kit` is the
release itself.
"""

from functools import lru_cache
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from curvedp.core.mechanism import Mechanism
from curvedp.geometry import Euclidean
from curvedp.mechanisms.gradient_step import GradientMechanism
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.privacy import Guarantee
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.searched_ball import SearchedMean

# Eigenvalues of recentered matrices are bounded to within this factor of 1.
LARGEST_FACTOR = 1e3

# Differences between class centers keep at least this fraction of their length: their
# direction classifies trials even if most of their length is noise.
_LEAST_FACTOR = 0.1
# James-Stein shrinkage needs at least this many dimensions.
_LEAST_DIMENSION = 3

# The default distance of a person's class center from the identity: with two classes,
# each of which doubles the power of one source, it is log(2)/√2 = 0.49.
TYPICAL_SPREAD = 0.5
# The share of the squared length of a person's class centers that is common to all
# people. On simulated people with mixing matrices of their own it is 0.2 to 0.5
# (`benchmarks/studies/starter_kit.py`).
COMMON_SHARE = 1 / 3
# The standard deviation of a trial about its class center in each coordinate. With it,
# exact centers of two classes at the typical distance are right for 90% of the trials:
# 0.5·√(1/3)/0.225 = Φ⁻¹(0.90).
_TRIAL_STD = 0.225

# Predictions simulate at most so many people, so many releases in a public and in a
# private ball, and so many trials of each class, with a public seed.
_MAX_PEOPLE = 256
_PUBLIC_BALL_RUNS = 64
_PRIVATE_BALL_RUNS = 24
_TRIALS = 256
# In many dimensions, where errors vary less, fewer people and releases are simulated:
# those for which so many numbers are drawn, for one release and for all of them.
_NUMBERS_OF_RELEASE = 2**20
_NUMBERS_OF_PREDICTION = 2**23
_LEAST_PEOPLE = 32
_LEAST_RUNS = 8
_SEED = 20240611


class ShrunkCenters(NamedTuple):
    """Class centers after shrinkage.

    Attributes
    ----------
    logs : array of shape (classes, d)
        The logarithm of each class center, as a vector.
    are_noise : bool
        Whether the centers differ by no more than the noise alone would make them.
    """

    logs: np.ndarray
    are_noise: bool


class KitPrediction(NamedTuple):
    """What simulated releases of public people show about a starter kit.

    Attributes
    ----------
    error : float
        The share of a new person's trials that the released centers classify wrongly.
    exact_error : float
        The same for the exact class centers of all people, without noise.
    """

    error: float
    exact_error: float


def shrink_centers(
    noisy: np.ndarray, noise_std: float, n_classes: int
) -> ShrunkCenters:
    """Shrink noisy class centers: their average and their differences by themselves.

    Let y = (y₁, …, y_k) be the noisy logarithms of k class centers in d dimensions, and
    σ the standard deviation of the noise in each entry. A person's trials are
    recentered at their own mean, so that the average over the classes is near 0, and
    exactly 0 where all classes have equally many trials. The average ȳ (d dimensions)
    and the differences y_c − ȳ ((k − 1)·d dimensions) are orthogonal. Each is shrunk to
    0 by the positive-part rule of James and Stein, y ↦ max(f, 1 − (dim − 2)σ²/|y|²)·y,
    with f = 0 for the average and f = 0.1 for the differences, whose direction is what
    classifies trials.

    It is post-processing, and costs no privacy.

    Parameters
    ----------
    noisy : array of shape (k·d,)
        The noisy vector y, class after class.
    noise_std : float
        The standard deviation σ.
    n_classes : int
        The number k of classes.

    Returns
    -------
    ShrunkCenters
        The centers, and whether their differences were shrunk as far as possible.
    """
    centers = noisy.reshape(n_classes, -1)
    average = centers.mean(axis=0)
    differences = centers - average
    # The entries of √k·ȳ have the same noise as those of y.
    squared_average = n_classes * float(average @ average)
    average_factor = _shrinkage(squared_average, average.size, noise_std)
    shrunk_average = max(average_factor, 0.0) * average

    squared_differences = float(np.sum(differences**2))
    dimension = (n_classes - 1) * average.size
    difference_factor = _shrinkage(squared_differences, dimension, noise_std)
    shrunk_differences = max(difference_factor, _LEAST_FACTOR) * differences
    are_noise = difference_factor <= _LEAST_FACTOR
    return ShrunkCenters(shrunk_average + shrunk_differences, are_noise)


def _shrinkage(squared_length: float, dimension: int, noise_std: float) -> float:
    """Return the factor 1 − (dim − 2)σ²/|y|² of James and Stein; it may be negative.

    Parameters
    ----------
    squared_length : float
        The squared length |y|² of a noisy vector.
    dimension : int
        Its dimension. Below three the factor is 1.
    noise_std : float
        The standard deviation σ of the noise in each entry.
    """
    if dimension < _LEAST_DIMENSION or squared_length == 0:
        return 1.0
    return 1 - (dimension - 2) * noise_std**2 / squared_length


def largest_length(n_channels: int, n_classes: int) -> float:
    """Return the radius of the public ball that holds the vector of every subject.

    Parameters
    ----------
    n_channels, n_classes : int
        The numbers of channels and of classes.
    """
    return 2 * log(LARGEST_FACTOR) * sqrt(n_channels * n_classes)


def calibrate_kit(
    n_channels: int,
    n_classes: int,
    n: int,
    radius: float | str,
    guarantee: Guarantee,
) -> Mechanism:
    """Return the mechanism that releases the class centers of n people.

    Parameters
    ----------
    n_channels, n_classes, n : int
        The public numbers of channels, classes and people.
    radius : float or "private"
        The radius of the ball into which a person's class centers are clipped.
    guarantee : Guarantee
        The guarantee of the release.

    Returns
    -------
    Mechanism
        A step in the public ball, or a search for a ball and a step in it.
    """
    space = Euclidean(n_classes * _count_entries(n_channels))
    if isinstance(radius, str):
        outer_radius = largest_length(n_channels, n_classes)
        searched = SearchedMean(space, center=None, outer_radius=outer_radius, n=n)
        return PrivateBallMechanism.calibrate(searched, guarantee)
    statistic = FrechetMean(space, center=None, radius=radius, n=n)
    return GradientMechanism.calibrate(statistic, guarantee)


@lru_cache(maxsize=128)
def predict_kit(
    n_channels: int,
    n_classes: int,
    n: int,
    radius: float | str,
    guarantee: Guarantee,
    spread: float = TYPICAL_SPREAD,
) -> KitPrediction:
    """Predict how often the class centers of a starter kit are right, without any data.

    Public people are simulated in the space of logarithms, where a person's class
    centers are k vectors of d numbers whose sum is 0. Class c strengthens source c, so
    that the k centers are equally far from each other. A third of their squared length
    is common to all people, and the rest is a person's own, in a random direction. The
    release is simulated with the mechanism that `PrivateStarterKit` would use. The
    trials of a new person scatter about their class centers with a public standard
    deviation, and are assigned to the nearest released center.

    Parameters
    ----------
    n_channels, n_classes, n : int
        The numbers of channels, of classes and of people.
    radius : float or "private"
        As in `PrivateStarterKit`.
    guarantee : Guarantee
        The guarantee of the release.
    spread : float
        The distance of a person's class center from the identity.

    Returns
    -------
    KitPrediction
        The predicted shares of wrong trials, with noise and without.
    """
    dimension = _count_entries(n_channels)
    rng = np.random.default_rng(_SEED)
    centers = spread * _simplex(n_classes, dimension)
    common = sqrt(COMMON_SHARE) * centers
    mechanism = calibrate_kit(n_channels, n_classes, n, radius, guarantee)
    n_simulated, n_runs = _affordable_simulation(mechanism, n, centers.size)

    # New people are the same for every number of people in the release.
    new_people = np.random.default_rng(_SEED + 1)
    errors = []
    for _ in range(n_runs):
        people = [common + _person_deviation(rng, centers) for _ in range(n_simulated)]
        vectors = np.stack(people).reshape(len(people), -1)
        released = _simulated_centers(mechanism, rng, vectors, n_classes)
        new_person = common + _person_deviation(new_people, centers)
        errors.append(_share_of_wrong_trials(new_people, released, new_person))

    # The same with exact class centers, for comparison.
    exact_errors = []
    for _ in range(_PUBLIC_BALL_RUNS):
        new_person = common + _person_deviation(new_people, centers)
        exact_errors.append(_share_of_wrong_trials(new_people, common, new_person))
    return KitPrediction(float(np.mean(errors)), float(np.mean(exact_errors)))


def _affordable_simulation(
    mechanism: Mechanism, n: int, numbers_per_person: int
) -> tuple[int, int]:
    """Return how many people and how many releases are simulated.

    Both are limited, so that a prediction takes seconds.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism whose releases are simulated.
    n : int
        The number of people in the real release.
    numbers_per_person : int
        The number of entries of a person's class centers.

    Returns
    -------
    n_simulated, n_runs : int
        The number of people in each simulated release, and the number of releases.
    """
    affordable_people = max(_LEAST_PEOPLE, _NUMBERS_OF_RELEASE // numbers_per_person)
    n_simulated = min(n, _MAX_PEOPLE, affordable_people)
    n_runs = _PUBLIC_BALL_RUNS
    if isinstance(mechanism, PrivateBallMechanism):
        n_runs = _PRIVATE_BALL_RUNS
    affordable_runs = _NUMBERS_OF_PREDICTION // (n_simulated * numbers_per_person)
    return n_simulated, min(n_runs, max(_LEAST_RUNS, affordable_runs))


def _count_entries(n_channels: int) -> int:
    """Return how many different entries a symmetric matrix has.

    Parameters
    ----------
    n_channels : int
        The number of its rows.
    """
    return n_channels * (n_channels + 1) // 2


def _simplex(n_corners: int, dimension: int) -> np.ndarray:
    """Return vectors from the middle of a regular simplex to its corners.

    Parameters
    ----------
    n_corners : int
        The number k of corners.
    dimension : int
        The number d of coordinates. Where it is smaller than k − 1, the simplex is
        projected to d dimensions.

    Returns
    -------
    array of shape (k, d)
        Their sum is 0, and their root mean square length is 1.
    """
    from_middle = np.eye(n_corners) - 1 / n_corners
    axes, lengths, _ = np.linalg.svd(from_middle)
    # The last length is 0, because the corners span one dimension less than their number.
    n_axes = min(n_corners - 1, dimension)
    corners = np.zeros((n_corners, dimension))
    corners[:, :n_axes] = axes[:, :n_axes] * lengths[:n_axes]
    return corners * (sqrt(n_corners) / np.linalg.norm(corners))


def _person_deviation(rng: np.random.Generator, centers: np.ndarray) -> np.ndarray:
    """Return the part of class centers that is a simulated person's own.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator of the person.
    centers : array of shape (k, d)
        Class centers of the full length.
    """
    own = rng.standard_normal(centers.shape)
    own -= own.mean(axis=0)
    length = sqrt(1 - COMMON_SHARE) * np.linalg.norm(centers)
    return np.asarray(own * (length / np.linalg.norm(own)))


def _simulated_centers(
    mechanism: Mechanism,
    rng: np.random.Generator,
    vectors: np.ndarray,
    n_classes: int,
) -> np.ndarray:
    """Simulate one release of class centers in floats. NOT private.

    Parameters
    ----------
    mechanism : Mechanism
        What `calibrate_kit` returned.
    rng : numpy.random.Generator
        The generator of the noise, which is taken to be normal.
    vectors : array of shape (people, k·d)
        The simulated people, in place of those whose records a release would read.
    n_classes : int
        The number k of classes.

    Returns
    -------
    array of shape (k, d)
        The logarithms of the class centers.
    """
    final = mechanism
    if isinstance(mechanism, PrivateBallMechanism):
        _, final = mechanism.simulate_search(rng, vectors)
    assert isinstance(final, GradientMechanism)  # flat space has no other final step
    ball = final.statistic.ball
    offsets = vectors - ball.center
    lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
    clipped = offsets * np.minimum(1.0, ball.radius / np.maximum(lengths, 1e-300))
    noise = final.noise_std * rng.standard_normal(vectors.shape[1])
    noisy = ball.center + clipped.mean(axis=0) + noise
    return shrink_centers(noisy, final.noise_std, n_classes).logs


def _share_of_wrong_trials(
    rng: np.random.Generator, centers: np.ndarray, person: np.ndarray
) -> float:
    """Return the share of simulated trials whose nearest center is that of another class.

    A trial x of class c is normal about the person's own center p_c. It is nearest to
    the released center a_j of largest score ⟨a_j, x⟩ − |a_j|²/2. With Aᵀ = QR, the
    noise of the scores is Rᵀz for a standard normal z of k entries, so that no trial
    has to be drawn in all d dimensions.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator of the trials.
    centers : array of shape (k, d)
        The released class centers a.
    person : array of shape (k, d)
        The class centers p of the person whose trials they are.
    """
    n_classes = len(centers)
    triangular = np.linalg.qr(centers.T, mode="r")
    normals = rng.standard_normal((_TRIALS, n_classes, len(triangular)))
    expected = person @ centers.T - np.sum(centers**2, axis=1) / 2
    scores = expected + _TRIAL_STD * normals @ triangular
    return float(np.mean(np.argmax(scores, axis=2) != np.arange(n_classes)))
