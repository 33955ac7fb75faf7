"""Metric privacy of reports: log-ratios by quadrature, the law of exact draws, and wrong versions."""

import math

import numpy as np
import pytest

from curvedp.errors import NotIntegrable, ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Rotations,
    Sphere,
    Stiefel,
    Torus,
)
from curvedp.laws.exact import two_sphere
from curvedp.laws.exact.two_sphere import LARGEST_SCALE, draw_on_two_sphere
from curvedp.local import Earth, MetricLaplace
from curvedp.local.spaces import PointRecords
from curvedp.numerics.enclosures import FloatBall
from curvedp.randomness import SecureSource
from curvedp.randomness.csprng import Allowance
from support import metric_privacy as instruments
from support.goodness import accepts, directions, ks, off_origin, rejects
from support.randomness import seeded_source

EARTH = Earth()


def report_law(mechanism):
    """The log-density that a mechanism states, per unit volume of its manifold."""
    space = mechanism.space
    unit = space.manifold.dim * math.log(space.unit_length)

    def law(record, points):
        X = space.write(np.broadcast_to(record, points.shape))
        return mechanism.log_density(space.write(points), X) + unit

    return law


def half_noise(mechanism):
    """The law of a mechanism that halves the noise, and still claims ε."""
    return report_law(MetricLaplace(mechanism.space, 2 * mechanism.epsilon))


SPACES = {
    "S1": (MetricLaplace(Sphere(1), 2.0), instruments.circle_nodes, 1.0),
    "S2": (MetricLaplace(Sphere(2), 3.0), instruments.sphere_nodes, 1.0),
    "SO3": (MetricLaplace(Rotations(3), 2.0), instruments.rotation_nodes, 1.0),
    "H2": (MetricLaplace(Lorentz(2), 4.0), instruments.hyperbolic_nodes, 1.0),
    "T2": (MetricLaplace(Torus(2), 1.5), instruments.torus_nodes, 2.0),
    "S10": (
        MetricLaplace(Sphere(10), 8.0),
        lambda: instruments.large_sphere_nodes(10),
        1.0,
    ),
}


def plane_records(manifold, reach):
    """Records of a pair of coordinates on large spheres, elsewhere in no special place."""
    if isinstance(manifold, Sphere) and manifold.dim > 2:
        angles = np.array([0.0, 0.3, -0.7, 1.1, 2.0, 2.1])
        records = np.zeros((len(angles), manifold.dim + 1))
        records[:, 0], records[:, 1] = np.cos(angles), np.sin(angles)
        return records
    return instruments.records_about(manifold, reach=reach)


@pytest.mark.parametrize("name", list(SPACES))
def test_log_ratios_are_at_most_epsilon_times_distance_and_attain_it(name):
    mechanism, make_nodes, reach = SPACES[name]
    manifold = mechanism.space.manifold
    nodes, records = make_nodes(), plane_records(manifold, reach)
    result = instruments.losses(report_law(mechanism), manifold, nodes, records)
    assert result.mass_error < 6e-3  # the density has mass one about every record
    assert result.points <= mechanism.epsilon * (1 + 1e-9)
    assert result.cells <= mechanism.epsilon * (1 + 1e-9)
    assert result.points >= 0.995 * mechanism.epsilon

    # The same instrument catches half the noise.
    wrong = instruments.losses(half_noise(mechanism), manifold, nodes, records)
    assert wrong.points > 1.9 * mechanism.epsilon
    assert wrong.cells > 1.2 * mechanism.epsilon


def polar_records(latitudes, longitudes):
    return EARTH.read(np.stack([latitudes, longitudes], axis=1))


def degree_law(epsilon):
    """The density of planar Laplace noise that is added to degrees of latitude and longitude.

    The noise of the longitude is divided by the cosine of the latitude of the record, as
    in the planar recipe. Reports beyond a pole come back on the other side.
    """

    def law(record, points):
        latitude, longitude = np.radians(EARTH.write(record))
        places = np.radians(EARTH.write(points))
        total = np.zeros(len(points))
        for turns in range(-3, 4):
            for is_beyond in (False, True):
                north = places[:, 0]
                east = places[:, 1] + 2 * np.pi * turns
                if is_beyond:
                    north = np.where(north > 0, np.pi - north, -np.pi - north)
                    east = east + np.pi
                steps = np.hypot(
                    north - latitude, (east - longitude) * math.cos(latitude)
                )
                total += np.exp(-epsilon * EARTH.radius * steps)
        rate = epsilon * EARTH.radius
        density = rate**2 / (2 * np.pi) * total * math.cos(latitude)
        return np.log(density / np.cos(places[:, 0]))

    return law


def test_earth_has_no_poles_and_planar_noise_has():
    epsilon = 1 / 500  # per kilometer, so that whole reports spread over the nodes
    mechanism = MetricLaplace(EARTH, epsilon)
    records = polar_records([89.0, 88.0, 89.5, 85.0], [0.0, 120.0, -90.0, 179.99])
    nodes = instruments.sphere_nodes(260)
    options = {"unit_length": EARTH.radius, "grid": 40.0}
    manifold = EARTH.manifold
    right = instruments.losses(
        report_law(mechanism), manifold, nodes, records, **options
    )
    assert right.points <= epsilon * (1 + 1e-9)
    assert right.cells <= epsilon * (1 + 1e-9)
    assert right.points >= 0.995 * epsilon
    wrong = instruments.losses(degree_law(epsilon), manifold, nodes, records, **options)
    assert wrong.cells > 2.5 * epsilon

    # Far from the poles the planar recipe is nearly right, so the instrument is fair.
    records = polar_records([0.0, 2.0, -3.0], [10.0, 13.0, 9.0])
    fair = instruments.losses(degree_law(epsilon), manifold, nodes, records, **options)
    assert fair.cells < 1.1 * epsilon


def support_of(round_report, record, bits):
    """Reports about one record, as exact multiples of the grid that a rounding names."""
    mechanism = MetricLaplace(Sphere(2), 50.0)
    rng = np.random.default_rng(bits)
    points = mechanism.simulate(np.tile(record, (400, 1)), rng)
    return {tuple(row) for row in round_report(points, record).tolist()}


def test_a_grid_that_depends_on_the_record_tells_records_apart():
    step = 2.0**-3
    a, b = Sphere(2).project(np.array([[1.0, 0.1, 0.2], [1.0, 0.11, 0.2]]))

    def public(points, record):
        return np.round(points / step) * step

    def about_the_record(points, record):
        return record + np.round((points - record) / step) * step

    def shares(round_report):
        first, second = (
            support_of(round_report, x, seed) for seed, x in enumerate((a, b))
        )
        return len(first & second) / len(first | second)

    assert shares(public) > 0.5
    assert shares(about_the_record) == 0.0


@pytest.mark.parametrize(
    "mechanism",
    [
        MetricLaplace(Sphere(2), 3.0),
        MetricLaplace(Torus(2), 2.0),
        MetricLaplace(Lorentz(2), 4.0),
        MetricLaplace(Euclidean(2), 2.0),
    ],
    ids=repr,
)
def test_reports_lie_on_one_public_grid_whatever_the_record(mechanism):
    manifold = mechanism.space.manifold
    records = np.array([off_origin(manifold, 0.7, seed) for seed in (1, 2, 3)])
    integers = mechanism.draw_reports(records, SecureSource())
    assert all(isinstance(k, int) for k in np.asarray(integers).ravel().tolist())
    # What is reported is a function of these integers alone.
    twice = [mechanism.points_from_grid(integers) for _ in range(2)]
    assert np.array_equal(*twice)
    stated = mechanism.certificate_
    mechanism.randomize(records)
    assert mechanism.certificate_.parameters == stated.parameters
    assert mechanism.certificate_.parameters["grid"] == mechanism.grid


# --- the law of what is drawn


def earth_distances(n, epsilon=1.0, seed=None):
    """Distances of n exact reports, about places all over the world."""
    rng = np.random.default_rng(5)
    latitudes = np.degrees(np.arcsin(rng.uniform(-1, 1, n)))
    places = np.stack([latitudes, rng.uniform(-180, 180, n)], axis=1)
    places[: n // 10, 0] = 90 - 0.03 * rng.random(n // 10)  # within 3 km of the pole
    places[n // 10 : n // 5, 1] = 180.0  # on the date line
    mechanism = MetricLaplace(EARTH, epsilon)
    source = None if seed is None else seeded_source(seed)
    reports = mechanism.randomize(places, source=source)
    return mechanism, places, reports


def test_a_hundred_thousand_exact_places_have_the_law():
    mechanism, places, reports = earth_distances(100_000, seed=11)
    assert np.isfinite(reports).all()
    assert np.abs(reports[:, 0]).max() <= 90
    assert np.abs(reports[:, 1]).max() <= 180
    distances = EARTH.dist(places, reports)
    assert accepts(ks(distances, mechanism.radial_probability))
    assert distances.mean() == pytest.approx(2.0, abs=0.03)
    points, targets = EARTH.read(places), EARTH.read(reports)
    sphere = EARTH.manifold
    velocities = sphere.to_coordinates(points, sphere.log(points, targets))
    assert accepts(directions(np.asarray(velocities)))
    # A report with half the noise does not pass, nor does the law of the plane at 1 in 20.
    assert rejects(ks(distances / 2, mechanism.radial_probability))
    assert rejects(ks(distances * 1.05, mechanism.radial_probability))


@pytest.mark.parametrize(
    ("manifold", "epsilon", "n"),
    [
        (Sphere(1), 2.0, 1000),
        (Rotations(3), 3.0, 500),
        (Lorentz(2), 4.0, 500),
        (Torus(1), 0.2, 700),
        (Torus(2), 1.0, 700),
        (Sphere(10), 20.0, 400),
        (Euclidean(2), 1.0, 500),
    ],
    ids=str,
)
def test_exact_and_simulated_reports_have_the_radial_law(manifold, epsilon, n):
    mechanism = MetricLaplace(manifold, epsilon)
    record = off_origin(manifold, 0.7)
    X = np.repeat(record[None], n, axis=0)
    exact = manifold.dist(record, mechanism.randomize(X, source=seeded_source(2)))
    assert accepts(ks(exact, mechanism.radial_probability))
    many = np.repeat(record[None], 20_000, axis=0)
    simulated = mechanism.simulate(many, np.random.default_rng(1))
    distances = np.asarray(manifold.dist(record, simulated))
    assert accepts(ks(distances, mechanism.radial_probability))
    assert rejects(ks(distances / 2, mechanism.radial_probability))


def test_draws_of_many_places_are_the_rounded_ideal_draws(monkeypatch):
    """Float balls and Arb balls give the same integers, from the same bits."""
    centers = Sphere(2).project(np.random.default_rng(0).normal(size=(300, 3)))
    coarse = draw_on_two_sphere(centers, 0.2, seeded_source(3), 10).integers
    fine = draw_on_two_sphere(centers, 0.2, seeded_source(3), 30)
    assert np.abs(coarse - fine.integers / 2**20).max() <= 0.5 + 2.0**-20

    round_in_floats = FloatBall.round

    def undecided(ball, grid):
        integers, is_certain = round_in_floats(ball, grid)
        return integers, np.zeros_like(is_certain)

    monkeypatch.setattr(FloatBall, "round", undecided)
    in_balls = draw_on_two_sphere(centers, 0.2, seeded_source(3), 30)
    assert in_balls.n_in_arb == len(centers)
    assert fine.n_in_arb < len(centers)
    assert np.array_equal(fine.integers, in_balls.integers)


def test_a_block_of_places_may_use_256_bits_of_every_number():
    """At 256 bits an open decision is rarer than 2^-100; so is a refused draw."""
    allowance = Allowance(two_sphere._ALLOWED_NUMBERS)
    source = allowance.meter(seeded_source(4))
    noise = two_sphere._draw_noise(two_sphere.BLOCK, LARGEST_SCALE, source)
    for batch in [*noise.radii, *noise.directions]:
        batch.proposals.uniforms.balls(256)
    assert allowance.tau() == 2.0**-100


# --- what it says about itself


def test_displacement_of_one_per_kilometer_is_two_kilometers():
    mechanism = MetricLaplace(Earth(), epsilon=1.0)
    assert mechanism.expected_displacement == pytest.approx(2.0, abs=1e-6)
    # The 0.95 quantile of a Gamma law with shape 2.
    assert mechanism.displacement_quantile(0.95) == pytest.approx(4.743865, abs=1e-5)
    level = mechanism.radial_probability(mechanism.displacement_quantile(0.3))
    assert level == pytest.approx(0.3, abs=1e-9)
    assert mechanism.displacement_quantile(1 - 1e-12) < 50


def test_the_scale_is_rounded_toward_privacy():
    from fractions import Fraction

    for epsilon in (1.0, 0.1, 1 / 3, 7e-3, 1e9):
        mechanism = MetricLaplace(Earth(), epsilon)
        per_radian = Fraction(epsilon) * Fraction(mechanism.space.unit_length)
        assert Fraction(mechanism.scale) * per_radian >= 1
        assert Fraction(mechanism.scale) * per_radian <= 1 + Fraction(1, 2**50)


# --- records that cannot be read


def test_a_record_that_cannot_be_read_is_the_public_one_and_nobody_is_told():
    places = [
        [np.nan, 0.0],
        [np.inf, 10.0],
        [91.0, 0.0],
        [1e300, -1e300],
        [None, "x"],
        [10.0],
    ]
    for row in places:
        mechanism = MetricLaplace(Earth(public_place=(10.0, 20.0)), epsilon=1.0)
        report = mechanism.randomize([row, [50.0, 8.0]], source=seeded_source(1))
        expected = mechanism.randomize(
            [[10.0, 20.0], [50.0, 8.0]], source=seeded_source(1)
        )
        assert report.tolist() == expected.tolist()
        certificate = mechanism.certificate_
        assert certificate.reports["count"] == 2
        assert "nan" not in certificate.to_json().lower().replace("covariance", "")


@pytest.mark.parametrize("manifold", [Sphere(2), Rotations(3), Lorentz(2), Torus(2)])
def test_hostile_arrays_are_data(manifold):
    mechanism = MetricLaplace(manifold, 4.0)
    values = [np.nan, np.inf, -np.inf, 0.0, 1e300, 5e-324, -1e-300]
    shape = (len(values), *mechanism.space.record_shape)
    X = np.broadcast_to(
        np.array(values).reshape(-1, *[1] * len(shape[1:])), shape
    ).copy()
    with np.errstate(all="raise"):
        reports = mechanism.randomize(X)
    assert reports.shape == shape
    assert np.isfinite(reports).all()


def test_far_records_of_flat_space_are_shortened():
    space = PointRecords(Euclidean(2))
    far = space.read(np.array([[1e300, 0.0], [3.0, 4.0]]))
    assert np.linalg.norm(far[0]) == pytest.approx(1e9)
    assert far[1].tolist() == [3.0, 4.0]


def test_every_longitude_is_a_place_and_reading_moves_it_by_nanometers():
    import mpmath

    rng = np.random.default_rng(8)
    places = np.stack([rng.uniform(-90, 90, 300), rng.uniform(-360, 360, 300)], axis=1)
    places[:3, 0] = [90.0, -90.0, 89.9999999]
    points = EARTH.read(places)
    worst = 0.0
    with mpmath.workdps(40):
        for (latitude, longitude), point in zip(
            places.tolist(), points.tolist(), strict=True
        ):
            lat, lon = mpmath.radians(latitude), mpmath.radians(longitude)
            true = (
                mpmath.cos(lat) * mpmath.cos(lon),
                mpmath.cos(lat) * mpmath.sin(lon),
                mpmath.sin(lat),
            )
            length = mpmath.sqrt(sum(mpmath.mpf(x) ** 2 for x in point))
            gap = mpmath.sqrt(
                sum(
                    (mpmath.mpf(x) / length - t) ** 2
                    for x, t in zip(point, true, strict=True)
                )
            )
            worst = max(worst, float(gap))
    assert worst < 2.5e-15  # 16 nm on the Earth, as docs/theory/local.md says


# --- parameters


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf, "1", None])
def test_epsilon_must_be_positive(epsilon):
    with pytest.raises(ParameterError):
        MetricLaplace(Sphere(2), epsilon)


def test_spaces_without_an_exact_law_are_refused():
    for manifold in (Stiefel(4, 2), Torus(3), "sphere"):
        with pytest.raises(ParameterError):
            MetricLaplace(manifold, 1.0)
    with pytest.raises(NotIntegrable):
        MetricLaplace(Lorentz(2), 0.9)


def test_high_dimension_is_refused_in_one_sentence_with_the_number():
    with pytest.raises(ParameterError) as refusal:
        MetricLaplace(Sphere(383), 100.0)
    message = str(refusal.value)
    assert "75°" in message
    assert "383" in message
    assert "insist" in message
    assert MetricLaplace(Sphere(383), 100.0, insist=True).epsilon == 100.0
    assert MetricLaplace(Sphere(383), 3000.0).expected_displacement < 0.2
    assert MetricLaplace(Sphere(10), 1.0).epsilon == 1.0


def test_shapes_are_refused_and_values_are_not():
    mechanism = MetricLaplace(EARTH, 1.0)
    for X in (np.zeros(3), np.zeros((2, 3)), np.zeros((2, 2, 2)), "places.csv"):
        with pytest.raises(ParameterError):
            mechanism.randomize(X)
    assert mechanism.randomize(np.zeros((0, 2))).shape == (0, 2)
    assert mechanism.randomize([51.5, -0.1]).shape == (2,)
    assert mechanism.randomize((51.5, None)).shape == (2,)


def test_there_is_no_seed():
    mechanism = MetricLaplace(EARTH, 1.0)
    X = np.zeros((3, 2))
    assert not np.array_equal(mechanism.randomize(X), mechanism.randomize(X))
    assert mechanism.certificate_.entropy["cryptographic"] is True
    np.random.seed(42)  # noqa: NPY002
    first = mechanism.randomize(X)
    np.random.seed(42)  # noqa: NPY002
    assert not np.array_equal(first, mechanism.randomize(X))
    for source in (7, np.random.default_rng(0)):
        with pytest.raises(ParameterError):
            mechanism.randomize(X, source=source)
    mechanism.randomize(X, source=seeded_source(1))
    assert mechanism.certificate_.entropy["cryptographic"] is False
