"""Every mechanism × extreme public parameters: a finite point of the space, or a refusal before payment."""

import numpy as np
import pytest

from curvedp import (
    GDP,
    Ledger,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateKMeans,
    PrivatePrototypes,
    PrivateRecenter,
    PrivateSynthesizer,
    PrivateTangentPCA,
    PureDP,
)
from curvedp.core.mechanism import describe_mechanism, mechanism_from_parameters
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import (
    Correlation,
    Euclidean,
    HPDAffineInvariant,
    Lorentz,
    PoincareBall,
    Product,
    Simplex,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    SpecialEuclidean,
    Sphere,
    Torus,
)
from curvedp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    LogGaussianMechanism,
    LogLaplaceMechanism,
)
from curvedp.mechanisms.staged import population
from curvedp.randomness import GeneratorSource
from curvedp.release import choose, predict
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.frechet_variance import FrechetVariance

SPACES = [
    Euclidean(2), Lorentz(2), PoincareBall(2), SPDAffineInvariant(2), SPDLogEuclidean(2),
    SPDLogCholesky(2), HPDAffineInvariant(2), Sphere(2), Torus(2), Simplex(3),
    Correlation(3), SpecialEuclidean(2, 1.0), Product(SPDAffineInvariant(2), Euclidean(1)),
]  # fmt: skip
KINDS = [GaussianMechanism, LaplaceMechanism, LogGaussianMechanism, LogLaplaceMechanism]
ADDED = GDP(1.0, adjacency="add-remove")


@pytest.fixture(autouse=True, scope="module")
def rough_predictions():
    """Errors are predicted from few simulated draws: here they need only be finite.

    A mechanism is chosen by its predicted error, whose simulation is most of the time of
    a small release.
    """
    kept_predictions = (
        choose._rank,
        predict.predicted_error,
        predict._predict_described,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict, "_DRAWS_TIMES_DIM", 32)
        patch.setattr(population, "_SIMULATED_RUNS", 1)
        patch.setattr(population, "_COMPARED_RECORDS", 64)
        for function in kept_predictions:
            function.cache_clear()
        yield
    for function in kept_predictions:
        function.cache_clear()


def assert_is_point(M, value):
    value = np.asarray(value)
    assert np.all(np.isfinite(value))
    assert float(np.max(M.residual(value))) <= 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_noise_of_every_scale_gives_a_point_or_is_refused(M, kind):
    """The caller states the sensitivity, and no ball holds what is drawn."""
    needs_ball = kind in KINDS[2:] and (
        np.isfinite(M.injectivity_radius) or M.curvature_bounds[1] > 0
    )
    options = {"radius": 0.3} if needs_ball else {}
    for scale in (1e-90, 1e-9, 0.1, 30.0, 1e4, 1e50, 1e99):
        try:
            mechanism = kind(M, min(0.1 * scale, 1.0), scale, **options)
            describe_mechanism(mechanism)  # what is paid for has passed this
        except CurvedpError:
            continue
        for _ in range(2):
            release = mechanism.release(M.origin)
            assert_is_point(M, release.value)
            again = mechanism.reconstruct_value(release.certificate)
            np.testing.assert_array_equal(again, release.value)


def test_noise_beyond_what_doubles_hold_is_refused_before_payment():
    for M, kind, scale in (
        (SPDAffineInvariant(2), GaussianMechanism, 100.0),
        (SPDLogCholesky(2), GaussianMechanism, 100.0),
        (SPDAffineInvariant(2), LogGaussianMechanism, 1e4),
        (Lorentz(2), LogLaplaceMechanism, 1e4),
    ):
        with pytest.raises(ParameterError, match="doubles"):
            describe_mechanism(kind(M, 0.1, scale))
    # a wide flat factor beside it is not held against a space
    wide = Product(SPDLogEuclidean(2), Euclidean(2000))
    describe_mechanism(GaussianMechanism(wide, 0.1, 1.0))


RADII = [1e-90, 1e-5, 20.0, 1e5, 3e89, 1e100]
# The exact profile of a product of circles takes ten seconds for each guarantee, so that
# in small balls, which are no refusals, one circle stands for the torus.
SPACES_AND_RADII = [
    (Torus(1) if Torus(2) == M and radius < 1 else M, radius)
    for M in SPACES
    for radius in RADII
]


@pytest.mark.parametrize(("M", "radius"), SPACES_AND_RADII, ids=repr)
def test_every_radius_gives_a_release_or_a_refusal(M, radius, tmp_path):
    X = np.broadcast_to(M.origin, (60, *M.point_shape)).copy()
    for number, guarantee in enumerate((ADDED, GDP(1.0), GDP(1e-9), PureDP(1.0))):
        budget = GDP(1e6, adjacency=guarantee.adjacency)
        for kind in (PrivateFrechetMean, PrivateDispersion, PrivateFrechetMedian):
            path = tmp_path / f"{number}-{kind.__name__}.ledger"
            ledger = Ledger(path, budget)
            try:
                model = kind(M, radius=radius, guarantee=guarantee, ledger=ledger).fit(
                    X
                )
            except CurvedpError:
                assert ledger.entries == []
                continue
            if kind is PrivateDispersion:
                assert np.isfinite(model.variance_)
            else:
                assert_is_point(M, model.location_)


HALVES = np.arange(60) % 2


def tangent_pca(M, radius, X, **options):
    model = PrivateTangentPCA(M, radius=radius, **options).fit(X)
    return model.mean_, model.components_, model.explained_variance_, model.covariance_


def clusters(M, radius, X, **options):
    model = PrivateKMeans(M, n_clusters=2, outer_radius=radius, **options)
    return (model.fit(X).cluster_centers_,)


def synthetic(M, radius, X, **options):
    return (PrivateSynthesizer(M, radius=radius, **options).fit(X).sample(9),)


def prototypes(M, radius, X, **options):
    model = PrivatePrototypes(M, radius=radius, **options)
    return (model.fit(X, HALVES).predict_proba(X),)


def recentered(M, radius, X, **options):
    model = PrivateRecenter(M, radius=radius, final_dispersion=1.0, **options)
    return (model.fit(X, domains=HALVES).transform(X, domains=HALVES),)


@pytest.mark.filterwarnings("ignore")  # of noise that hides everything
@pytest.mark.parametrize("radius", [1e-90, 100.0, 1e20])
@pytest.mark.parametrize(
    "released", [tangent_pca, clusters, synthetic, prototypes, recentered]
)
def test_further_releases_are_finite_or_refused(released, radius, tmp_path):
    """Also where the released mean lies at the edge of what doubles hold."""
    for M in (Lorentz(2), SPDAffineInvariant(2), Correlation(3), Sphere(2)):
        X = np.broadcast_to(M.origin, (60, *M.point_shape)).copy()
        ledger = Ledger(tmp_path / f"{M.name.replace(':', '-')}.ledger", GDP(1e6))
        try:
            values = released(M, radius, X, guarantee=GDP(1e-3), ledger=ledger)
        except CurvedpError:
            assert ledger.entries == []
            continue
        for value in values:
            assert np.isfinite(value).all(), M


@pytest.mark.filterwarnings("ignore")
def test_a_dispersion_that_noise_made_negative_divides_nothing_by_zero():
    """In so wide a ball no error is predicted that could stand for it."""
    M = Correlation(3)
    X = np.broadcast_to(M.origin, (60, *M.point_shape)).copy()
    below = 0
    for seed in range(6):
        model = PrivateRecenter(
            M,
            radius=1e20,
            final_dispersion=1.0,
            guarantee=GDP(0.03),
            source=GeneratorSource(np.random.default_rng(seed)),
        ).fit(X, domains=HALVES)
        below += sum(np.ravel(each.value)[0] <= 0 for each in model.releases[2:])
        assert np.isfinite(model.transform(X, domains=HALVES)).all()
    assert below > 0


@pytest.mark.parametrize("M", [*SPACES, SPDLogCholesky(3), SPDLogCholesky(4)], ids=repr)
def test_no_sensitivity_is_more_than_the_statistic_s_own_diameter(M):
    """Whatever the solver's error is bounded by, in a ball that holds the statistic."""
    for radius in (0.3, 0.7, 2.0, 8.0, 12.0, 40.0, 300.0):
        for n in (2, 100):
            try:
                mean = FrechetMean(M, None, radius, n)
                charged = mean.chart_sensitivity
                variance = FrechetVariance(M, None, radius, n).sensitivity
            except CurvedpError:
                continue
            assert charged <= 2 * radius * (1 + 1e-10)
            assert variance <= radius**2
            if isinstance(M, SPDLogCholesky):
                assert mean.sensitivity <= 2 * radius * (1 + 1e-10)


def test_the_noised_value_lies_in_the_ball_that_is_charged():
    """The coordinates about which noise is drawn, of matrices that floats hold badly."""
    M, radius = SPDLogCholesky(2), 8.0
    statistic = FrechetMean(M, None, radius, 100)
    mechanism = mechanism_from_parameters(GaussianMechanism, statistic, {"sigma": 1.0})
    rng = np.random.default_rng(3)
    z = rng.normal(size=(300, 3))
    z *= 1.2 * radius / np.linalg.norm(z, axis=1)[:, None]
    lengths = []
    for point in np.asarray(M.from_normal_coordinates(M.origin, z)):
        space, center = mechanism.noise_space_and_center(mechanism.prepare_data(point))
        assert space == Euclidean(3)
        lengths.append(np.linalg.norm(center))
    assert max(lengths) <= radius * (1 + 1e-12)
    assert min(lengths) > 0.9 * radius  # matrices on the ball are not lost
