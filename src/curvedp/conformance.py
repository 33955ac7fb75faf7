"""Tests of statistics and mechanisms that users write themselves.
A statistic computes a value from private records; a mechanism releases it with noise.
`check_statistic` and `check_mechanism` try to refute what they claim, such as a
statistic's sensitivity. They find mistakes but prove nothing: the author has to prove
the sensitivity. Both are exported by `curvedp.testing`.
"""

import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from scipy.stats import chi2, ks_2samp

from curvedp.core.capabilities import SimulatesRelease
from curvedp.core.certificate_form import check_values
from curvedp.core.mechanism import (
    Mechanism,
    describe_mechanism,
    mechanism_from_parameters,
)
from curvedp.core.statistic import Ball, ClippedToBall, Statistic, statistic_from_dict
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.randomness import GeneratorSource
from curvedp.records.base import open_records
from curvedp.release.rebuild import rebuild_mechanism

# A function of a random generator and a count, which returns that many random records
# in an array of shape (count, *record_shape).
SampleRecords = Callable[[np.random.Generator, int], np.ndarray]

# Relative margin for the rounding of the distances that the checks themselves compute.
_ROUNDING = 1e-9
# The number of random data sets, and of random replacements in each.
_N_DATA_SETS = 12
_N_REPLACEMENTS = 8
# The number of exact draws whose distances are compared with the noise distribution.
_N_DRAWS = 300
# The largest Kolmogorov-Smirnov statistic √n·D that passes. Draws from the claimed law
# exceed it with probability 1e-8.
_LARGEST_KS = 3.1
# The probability with which right draws fail one of the tests of their directions.
_LEAST_PROBABILITY = 1e-8
# Two arrays stand for one point if they are this close.
_SAME_POINT = 1e-6
# Random records lie within this many radii of the ball's center, so that some are
# outside the ball and are clipped.
_SAMPLED_RADII = 1.2
# The values of ε at which two privacy profiles are compared.
_COMPARED_EPSILONS = (0.0, 0.5, 2.0)
# A finite number near the largest float.
_HUGE = 1e308


def check_statistic(
    statistic: Statistic,
    *,
    sample_records: SampleRecords | None = None,
    seed: int = 0,
) -> None:
    """Test whether a statistic keeps its claims, and raise if one is refuted.

    The claims are:

    - its dictionary consists of JSON values and rebuilds the statistic;
    - `compute` neither raises nor warns, even if records are NaN, infinite, huge, tiny
      or off the manifold;
    - the value is a point of `value_space`, inside `value_ball`;
    - the value depends on nothing but the records;
    - replacing one record moves the value by at most `sensitivity`. This is tried with
      random data sets and with adversarial ones, in which all records are at one end of
      the ball, or half of them at each of two ends.

    Parameters
    ----------
    statistic : Statistic
        A statistic that implements `compute`.
    sample_records : function of (rng, count), optional
        Returns random records of shape (count, *record_shape). It may be left out for a
        statistic that derives from `ClippedToBall`, which has a ball to draw from.
    seed : int
        The seed of the random records.

    Raises
    ------
    AssertionError
        If a claim is refuted. The message says which one and by how much.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.statistics.frechet_mean import FrechetMean
    >>> check_statistic(FrechetMean(Sphere(2), None, 0.7, 20))
    """
    rng = np.random.default_rng(seed)
    _require(
        isinstance(statistic, Statistic), "the statistic must derive from `Statistic`"
    )
    _check_round_trip(statistic)
    sensitivity = float(statistic.sensitivity)
    _require(
        0 < sensitivity < np.inf,
        f"sensitivity must be finite and > 0, and is {sensitivity!r}",
    )
    n = statistic.public_count
    if n is None:
        raise AssertionError("public_count must be the number of records, and is None")
    if sample_records is None:
        sample_records = _sampler_of_ball(statistic)

    # Records are replaced at the beginning, in the middle and at the end, in turn.
    replaced_indices = itertools.cycle(sorted({0, n // 2, n - 1}))
    for records in _test_data_sets(statistic, sample_records, n, rng):
        value = _compute_without_warnings(statistic, records)
        _check_repeatability(statistic, records, value)
        for replaced in _replacement_records(statistic, records, sample_records, rng):
            neighbor = records.copy()
            neighbor[next(replaced_indices)] = replaced
            neighbor_value = _compute_without_warnings(statistic, neighbor)
            distance = float(statistic.value_space.dist(value, neighbor_value))
            _require(
                distance <= sensitivity * (1 + _ROUNDING),
                f"replacing one record moves the value by {distance:.6g}, but its sensitivity "
                f"is stated as {sensitivity:.6g}",
            )


def check_mechanism(
    mechanism: Mechanism,
    data: Any,
    *,
    hostile_data: Any = None,
    seed: int = 0,
) -> None:
    """Test whether a mechanism keeps its claims, and raise if one is refuted.

    The claims are:

    - its parameters are JSON values, and rebuild a mechanism with the same profile;
    - `prepare_data` accepts NaN, infinite and huge entries;
    - a release neither raises nor warns;
    - the certificate rebuilds the mechanism;
    - the released value follows from the certificate's integers alone;
    - if the mechanism is isotropic, exact draws follow the noise distribution: their
      distances from the value are tested, and on a symmetric space their directions,
      of which none may be preferred;
    - if several arrays represent the value (as ±v represent a line), draws do not
      depend on which of them is passed.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    data : Any
        The argument of `release`: a value or records.
    hostile_data : Any, optional
        Data of the same form with NaN, infinite or huge entries. By default they are
        derived from `data`, if that is an array.
    seed : int
        The seed of the simulated random bits.

    Raises
    ------
    AssertionError
        If a claim is refuted. The message says which one.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.mechanisms import GaussianMechanism
    >>> check_mechanism(GaussianMechanism(Sphere(2), 0.1, 0.2), Sphere(2).origin)
    """
    _require(isinstance(mechanism, Mechanism), "it must derive from Mechanism")
    _check_parameters(mechanism)
    if hostile_data is None:
        hostile_data = _hostile_copy(data)
    if hostile_data is not None:
        _check_accepts_bad_data(mechanism, hostile_data)

    source = GeneratorSource(np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release = mechanism.release(data, source=source)

    rebuilt = rebuild_mechanism(release.certificate)
    _require(
        rebuilt.parameters == mechanism.parameters,
        "the certificate describes a mechanism with different parameters",
    )
    _check_reconstruction(rebuilt, release)
    if isinstance(mechanism, IsotropicMechanism):
        _check_noise_distribution(mechanism, data, source)


# ---- statistics ----


def _check_round_trip(statistic: Statistic) -> None:
    """Check that a statistic's dictionary consists of JSON values and rebuilds it.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is tested.

    Raises
    ------
    AssertionError
        If a value cannot be written, or another statistic is built from it.
    """
    record = statistic.to_dict()
    try:
        text = json.dumps(record, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"to_dict must give JSON values: {error}") from None
    _check_written_values("to_dict", record)
    try:
        rebuilt = statistic_from_dict(json.loads(text))
    except CurvedpError as error:
        raise AssertionError(
            f"from_dict refuses what to_dict has written: {error}"
        ) from None
    _require(type(rebuilt) is type(statistic), "its dictionary builds another class")
    _require(
        json.dumps(rebuilt.to_dict()) == text,
        "its dictionary builds a statistic of other fields",
    )
    _require(
        rebuilt.sensitivity == statistic.sensitivity,
        "the statistic built from its dictionary has another sensitivity",
    )


def _check_written_values(source: str, record: Mapping[str, Any]) -> None:
    """Check that a certificate may hold what a statistic or a mechanism writes.

    Parameters
    ----------
    source : str
        What wrote the values, for the message.
    record : mapping
        The values by name.

    Raises
    ------
    AssertionError
        If a value is of a kind that certificates refuse.
    """
    for name, value in record.items():
        try:
            check_values(name, value)
        except ParameterError:
            raise AssertionError(
                f"{source} writes {name}={value!r}, which a certificate may not hold: "
                "only finite numbers, plain texts, and lists and dictionaries of them"
            ) from None


def _check_repeatability(
    statistic: Statistic, records: np.ndarray, value: np.ndarray
) -> None:
    """Check that a statistic gives the same value when it is computed again.

    If it remembers earlier records or draws random numbers, it could hide how far one
    record moves its value.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is tested.
    records : array of shape (n, *record_shape)
        The records.
    value : array
        The value that was computed first.

    Raises
    ------
    AssertionError
        If a value differs between two calls, or between the statistic and its rebuilt
        copy.
    """
    rebuilt = statistic_from_dict(statistic.to_dict())
    for same_statistic in (statistic, rebuilt):
        _require(
            np.array_equal(_compute_without_warnings(same_statistic, records), value),
            "compute gives another value for the same records: it must depend on these "
            "records alone, not on earlier calls or random numbers",
        )


def _compute_without_warnings(statistic: Statistic, records: np.ndarray) -> np.ndarray:
    """Compute the value of a statistic, and check that it is valid.

    `compute` must neither raise nor warn, and the value must lie in the stated ball.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is tested.
    records : array of shape (n, *record_shape)
        The records.

    Returns
    -------
    array
        The value.

    Raises
    ------
    AssertionError
        If `compute` raises or warns, or the value has the wrong shape, is not finite or
        lies outside `value_ball`.
    """
    stored = open_records(records, records.shape[1:], min_records=0)
    try:
        # Underflow to 0 is no event by default, and distances near 1e-200 underflow.
        with (
            np.errstate(all="raise", under="ignore"),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error")
            value = np.asarray(statistic.compute(stored))
    except Exception as error:
        raise AssertionError(
            "compute must be total: a record that is not finite, or not a point, may "
            f"neither raise nor warn ({type(error).__name__}: {error})"
        ) from None

    # The value must be a point of the stated space, inside the stated ball.
    space = statistic.value_space
    _require(
        value.shape == space.point_shape,
        f"compute gives shape {value.shape}, and points of {space!r} have "
        f"{space.point_shape}",
    )
    _require(
        bool(np.all(np.isfinite(value))), "compute gives a value that is not finite"
    )
    ball = statistic.value_ball
    if ball is not None:
        distance = float(space.dist(np.asarray(ball.center), value))
        _require(
            distance <= ball.radius * (1 + _ROUNDING),
            f"a value is {distance:.6g} from the center of value_ball, whose radius is "
            f"{ball.radius:.6g}",
        )
    return value


def _test_data_sets(
    statistic: Statistic,
    sample_records: SampleRecords,
    n: int,
    rng: np.random.Generator,
) -> Iterator[np.ndarray]:
    """Yield random and adversarial data sets of n records.

    In an adversarial data set, all records are at one place, or half of them at each of
    two places, so that one record decides where the majority is. In the last ones, all
    records are broken, such as NaN. A statistic that drops broken records then has only
    the record that is replaced.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is tested.
    sample_records : function of (rng, count)
        Returns random records.
    n : int
        The number of records in a data set.
    rng : numpy.random.Generator
        The generator of the random records.

    Yields
    ------
    array of shape (n, *record_shape)
        A data set.
    """
    for _ in range(_N_DATA_SETS):
        yield np.array(sample_records(rng, n), dtype=np.float64)
    extremes = _extreme_records(statistic, sample_records, rng)
    for place in extremes:
        yield np.broadcast_to(place, (n, *place.shape)).copy()
    for place, other_place in itertools.pairwise(extremes):
        halves = np.broadcast_to(place, (n, *place.shape)).copy()
        halves[n // 2 :] = other_place
        yield halves
    for broken in _broken_records(extremes[0]):
        yield np.broadcast_to(broken, (n, *broken.shape)).copy()


def _replacement_records(
    statistic: Statistic,
    records: np.ndarray,
    sample_records: SampleRecords,
    rng: np.random.Generator,
) -> Iterator[np.ndarray]:
    """Yield records that may replace one record: random, extreme and broken records.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is tested.
    records : array of shape (n, *record_shape)
        The data set in which a record is replaced.
    sample_records : function of (rng, count)
        Returns random records.
    rng : numpy.random.Generator
        The generator of the random records.

    Returns
    -------
    iterator of arrays of shape record_shape
        The replacing records.
    """
    yield from np.asarray(sample_records(rng, _N_REPLACEMENTS), dtype=np.float64)
    yield from _extreme_records(statistic, sample_records, rng)
    yield from _broken_records(records[-1])


def _extreme_records(
    statistic: Statistic, sample_records: SampleRecords, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the center of the public ball, and opposite points on its boundary.

    A wrong sensitivity shows most where a record moves from one end of the ball to the
    other.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is tested. If it has no ball, random records are returned.
    sample_records : function of (rng, count)
        Returns random records.
    rng : numpy.random.Generator
        The generator of the random records.

    Returns
    -------
    list of arrays
        The records.
    """
    if not isinstance(statistic, ClippedToBall):
        return list(np.asarray(sample_records(rng, 4), dtype=np.float64))
    manifold = statistic.manifold
    center = np.asarray(statistic.center)
    extremes = [center]
    for axis in range(min(manifold.dim, 3)):
        for sign in (1.0, -1.0):
            coordinates = np.zeros(manifold.dim)
            coordinates[axis] = sign * statistic.radius
            point = manifold.from_normal_coordinates(center, coordinates)
            extremes.append(np.asarray(point))
    return extremes


def _broken_records(record: np.ndarray) -> list[np.ndarray]:
    """Return records that are not finite, huge, tiny or off the manifold.

    Parameters
    ----------
    record : array of shape record_shape
        A record, which gives the shape; two of the results are made from it.

    Returns
    -------
    list of arrays
        Ten records, none of which may make a statistic raise or warn.
    """
    fills = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-310, 0.0, -1.0)
    broken = [np.full_like(record, fill) for fill in fills]
    partly = record.copy()
    partly.flat[0] = np.nan
    with np.errstate(all="ignore"):
        return [*broken, partly, 3.0 * record]


def _sampler_of_ball(statistic: Statistic) -> SampleRecords:
    """Return a function that draws random records in and around a statistic's ball.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is tested, which must derive from `ClippedToBall`.

    Returns
    -------
    function of (rng, count)
        Returns an array of `count` records.
    """
    if not isinstance(statistic, ClippedToBall):
        raise AssertionError(
            "sample_records= is needed: only a statistic that derives from ClippedToBall "
            "says where its records are"
        )
    manifold: Manifold = statistic.manifold
    ball = Ball(np.asarray(statistic.center), statistic.radius)

    def sample_records(rng: np.random.Generator, count: int) -> np.ndarray:
        """Return random records within 1.2 radii of the center.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the records.
        count : int
            The number of records.

        Returns
        -------
        array of shape (count, *point_shape)
            Some of the records are outside the ball.
        """
        directions = rng.standard_normal((count, manifold.dim))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        # Some records lie outside the ball, where they are clipped.
        lengths = _SAMPLED_RADII * ball.radius * rng.uniform(size=(count, 1))
        return np.asarray(
            manifold.from_normal_coordinates(ball.center, lengths * directions)
        )

    return sample_records


# ---- mechanisms ----


def _check_parameters(mechanism: Mechanism) -> None:
    """Check that a mechanism describes itself, and can be rebuilt from its parameters.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that is tested.

    Raises
    ------
    AssertionError
        If the mechanism that is built from its parameters differs.
    """
    try:
        json.dumps(describe_mechanism(mechanism), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"parameters must be JSON values: {error}") from None
    _check_written_values("parameters", mechanism.parameters)
    rebuilt = mechanism_from_parameters(
        type(mechanism), mechanism.statistic, mechanism.parameters
    )
    _require(
        rebuilt.parameters == mechanism.parameters,
        "a mechanism that is rebuilt from its parameters has different parameters",
    )
    for eps in _COMPARED_EPSILONS:
        original_delta = float(mechanism.privacy_profile.delta(eps))
        rebuilt_delta = float(rebuilt.privacy_profile.delta(eps))
        _require(
            original_delta == rebuilt_delta,
            f"the mechanism that was rebuilt from its parameters has δ({eps:g}) = "
            f"{rebuilt_delta!r}, but the original one has {original_delta!r}",
        )


def _hostile_copy(data: Any) -> np.ndarray | None:
    """Return a copy of the data in which the first entry is NaN and the last is huge.

    A mechanism must accept such data without an exception.

    Parameters
    ----------
    data : object
        The data of the mechanism.

    Returns
    -------
    array or None
        None if the data are not an array of numbers.
    """
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "fiu":
        return None
    hostile = np.array(data, dtype=np.float64)
    hostile.flat[0] = np.nan
    hostile.flat[-1] = _HUGE
    return hostile


def _check_accepts_bad_data(mechanism: Mechanism, hostile_data: Any) -> None:
    """Check that `prepare_data` of a mechanism accepts bad data without an exception.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that is tested.
    hostile_data : object
        Data with entries that are NaN, infinite or huge.
    """
    try:
        with np.errstate(all="ignore"):
            mechanism.prepare_data(hostile_data)
    except Exception as error:
        raise AssertionError(
            "prepare_data may refuse shapes and types only, not the values of a record "
            f"({type(error).__name__}: {error})"
        ) from None


def _check_reconstruction(mechanism: Mechanism, release: Any) -> None:
    """Check that the released value follows from the certificate's integers.

    `verify` relies on this.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that was rebuilt from the certificate.
    release : Release
        The release, with its value and certificate. Nothing is checked if the
        certificate does not list its integers.

    Raises
    ------
    AssertionError
        If the two values differ in any bit.
    """
    if release.certificate.release["integers"] is None:
        return
    reconstructed = _as_arrays(mechanism.reconstruct_value(release.certificate))
    released = _as_arrays(release.value)
    is_same = all(
        np.array_equal(array, released_array, equal_nan=True)
        for array, released_array in zip(reconstructed, released, strict=True)
    )
    _require(
        is_same,
        "reconstruct_value does not compute the released value from the integers",
    )


def _as_arrays(value: Any) -> list[np.ndarray]:
    """Return a released value as a list of arrays; most values are a single array.

    Parameters
    ----------
    value : array, or tuple of arrays
        The value.
    """
    arrays = value if isinstance(value, tuple) else (value,)
    return [np.asarray(array) for array in arrays]


def _check_noise_distribution(
    mechanism: IsotropicMechanism, value: Any, source: GeneratorSource
) -> None:
    """Check that exact draws about a value follow the noise distribution.

    Parameters
    ----------
    mechanism : IsotropicMechanism
        The mechanism that is tested.
    value : array
        The value about which it draws.
    source : GeneratorSource
        The simulated random bits.

    Raises
    ------
    AssertionError
        If distances, directions or representatives show another distribution.
    """
    assert isinstance(mechanism, SimulatesRelease)
    prepared = mechanism.prepare_data(value)
    space, center = mechanism.noise_space_and_center(prepared)
    draws = _draw_repeatedly(mechanism, prepared, center.shape, source)

    _check_distances(mechanism, np.asarray(space.dist(center, draws)))
    if space.is_symmetric:
        points = space.project(draws)  # the draws are on a grid, not quite on the space
        coordinates = np.asarray(space.normal_coordinates(center, points))
        _check_directions(space, coordinates)

    other = _other_representative(mechanism.manifold, np.asarray(prepared))
    if other is not None:
        draws_about_other = _draw_repeatedly(
            mechanism, mechanism.prepare_data(other), center.shape, source
        )
        _check_same_distribution(draws, draws_about_other)


def _draw_repeatedly(
    mechanism: IsotropicMechanism,
    prepared: np.ndarray,
    shape: tuple[int, ...],
    source: GeneratorSource,
) -> np.ndarray:
    """Return what a mechanism draws about one value, `_N_DRAWS` times.

    The distribution of these draws is compared with the claimed noise distribution.

    Parameters
    ----------
    mechanism : IsotropicMechanism
        The mechanism that is tested.
    prepared : array
        The value, in the form that `prepare_data` gives it.
    shape : tuple of int
        The shape of one draw.
    source : GeneratorSource
        The simulated random bits.

    Returns
    -------
    array of shape (_N_DRAWS, *shape)
        The draws before post-processing.
    """
    draws = []
    for _ in range(_N_DRAWS):
        draw = mechanism.draw(prepared, source)
        integers = [
            [int(number) for number in np.ravel(array)] for array in draw.integers
        ]
        coordinates = mechanism.replay_coordinates(integers)
        is_point = coordinates.size == math.prod(shape)
        if not is_point:  # coordinates in a chart of the space
            coordinates = np.asarray(mechanism.point_from_grid(coordinates))
        draws.append(coordinates.reshape(shape))
    return np.array(draws)


def _check_distances(mechanism: IsotropicMechanism, distances: np.ndarray) -> None:
    """Check that distances from the value follow the noise distribution.

    This is the test of Kolmogorov and Smirnov. It detects gross mistakes, such as a
    scale that is wrong by a factor.

    Parameters
    ----------
    mechanism : IsotropicMechanism
        The mechanism that is tested, with its noise distribution.
    distances : array of shape (n,)
        The distance of each exact draw from the value.
    """
    # If the claim is right, the distribution function maps distances to uniform numbers.
    levels = np.sort(np.asarray(mechanism.noise_law.radial_cdf(distances)))
    uniform_levels = (np.arange(_N_DRAWS) + 0.5) / _N_DRAWS
    largest_deviation = float(np.max(np.abs(levels - uniform_levels)))
    ks_statistic = largest_deviation * np.sqrt(_N_DRAWS)
    _require(
        ks_statistic <= _LARGEST_KS,
        f"exact draws do not follow the noise law: √n·KS = {ks_statistic:.3g}, and "
        f"{_LARGEST_KS} is the most",
    )


def _check_directions(space: Manifold, coordinates: np.ndarray) -> None:
    """Check that draws prefer no direction from the value, by two tests.

    On a symmetric space the reflection of geodesics keeps the distribution, so that
    Rayleigh's test holds for every isotropic distribution. Bingham's test assumes that
    all directions are alike, which they are on two-point homogeneous spaces.

    Parameters
    ----------
    space : Manifold
        A symmetric space.
    coordinates : array of shape (n, dim)
        Normal coordinates of the draws at the value.

    Raises
    ------
    AssertionError
        If one of the tests fails; right draws fail with probability 1e-8.
    """
    dim = coordinates.shape[1]
    directions = coordinates / np.linalg.norm(coordinates, axis=1, keepdims=True)
    message = "exact draws prefer a direction: they are not isotropic about the value"
    largest = chi2.isf(_LEAST_PROBABILITY, dim)
    _require(_rayleigh_statistic(directions) <= largest, message)

    spectrum = space.jacobi_spectrum
    if spectrum is None or dim == 1:
        return
    n_curved = sum(multiplicity for _, multiplicity in spectrum)
    if n_curved not in (0, dim - 1):  # the space has a Euclidean factor
        return
    degrees_of_freedom = (dim - 1) * (dim + 2) / 2
    largest = chi2.isf(_LEAST_PROBABILITY, degrees_of_freedom)
    _require(_bingham_statistic(directions) <= largest, message)


def _rayleigh_statistic(directions: np.ndarray) -> float:
    """Return n·d·|mean u|²: about chi-squared with d degrees of freedom.

    Parameters
    ----------
    directions : array of shape (n, d)
        Unit vectors u; the claim holds if their distribution is uniform.
    """
    n, dim = directions.shape
    mean = directions.mean(axis=0)
    return float(n * dim * (mean @ mean))


def _bingham_statistic(directions: np.ndarray) -> float:
    """Return n·d(d+2)/2·(tr M² − 1/d): about chi-squared, (d−1)(d+2)/2 degrees.

    Parameters
    ----------
    directions : array of shape (n, d)
        Unit vectors u, with M the mean of u·uᵀ; the claim holds if their distribution
        is uniform.
    """
    n, dim = directions.shape
    moment = directions.T @ directions / n
    excess = float(np.sum(moment * moment)) - 1 / dim
    return float(n * dim * (dim + 2) / 2 * excess)


def _other_representative(M: Manifold, p: np.ndarray) -> np.ndarray | None:
    """Return another array that stands for the same point as p; None if none is found.

    A point may be a class of arrays: a line, a subspace, a shape. Then `to_tangent`
    removes from a vector the directions along which the class does not change, and a
    step along the removed part leads to another array of the class. A class of two
    arrays (a vector up to its sign) has no such direction, and −p is tried.

    Parameters
    ----------
    M : Manifold
        The manifold.
    p : array of shape point_shape
        A point.

    Returns
    -------
    array of shape point_shape, or None
        A representative whose array differs clearly from p.
    """
    if p.shape != M.point_shape:
        return None
    x = np.random.default_rng(0).normal(size=p.shape)
    removed = x - np.asarray(M.to_tangent(p, x))
    size = float(np.linalg.norm(p))
    length = float(np.linalg.norm(removed))
    step = removed * (size / length) if length > 0 else removed
    for candidate in (p + step, -p):
        q = np.asarray(M.project(candidate))
        is_other_array = float(np.linalg.norm(q - p)) > 0.1 * size
        if is_other_array and float(M.dist(p, q)) <= _SAME_POINT:
            return q
    return None


def _check_same_distribution(draws: np.ndarray, draws_about_other: np.ndarray) -> None:
    """Check that draws do not depend on which array represents their center.

    Otherwise a release tells which representative was computed, and that depends on
    the records. Each entry of the arrays is compared by the test of Kolmogorov and
    Smirnov for two samples.

    Parameters
    ----------
    draws, draws_about_other : arrays of shape (n, ...)
        Draws about one representative, and about the other.

    Raises
    ------
    AssertionError
        If an entry has different distributions.
    """
    n = len(draws)
    first = draws.reshape(n, -1)
    second = draws_about_other.reshape(n, -1)
    statistics = [
        ks_2samp(first[:, k], second[:, k], method="asymp").statistic
        for k in range(first.shape[1])
    ]
    largest = float(np.max(statistics)) * np.sqrt(n / 2)
    _require(
        largest <= _LARGEST_KS,
        "draws depend on which array stands for the value, which is a class: √(n/2)·KS "
        f"= {largest:.3g}, and {_LARGEST_KS} is the most. Release a representative "
        "that is drawn at random",
    )


def _require(condition: bool, message: str) -> None:
    """Raise `AssertionError` with a message unless a condition holds.

    Unlike `assert`, it works under ``python -O`` too.

    Parameters
    ----------
    condition : bool
        What must hold.
    message : str
        What is wrong, for the author of the tested class.
    """
    if not condition:
        raise AssertionError(message)
