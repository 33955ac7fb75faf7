"""No record decides about a warning or an exception, whatever the caller's settings.

Two neighboring data sets, one clean and one with hostile records, must end alike: both
released, or both refused with the same words, and with the same warnings. A difference
tells with certainty that the record is there.
"""

import importlib
import inspect
import pkgutil
import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
import scipy.special

import curvedp
from curvedp import GDP, PureDP, ReleaseWarning, check
from curvedp._silence import numerical_silence, quiet_about_records
from curvedp.errors import ExperimentalWarning
from curvedp.estimators.accuracy import PrivateAccuracy
from curvedp.estimators.joint_means import PrivateJointMeans
from curvedp.federated import MeanKernel, Plan, Site, key_of, new_identity
from curvedp.geometry import (
    Correlation,
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
    SpecialEuclidean,
    Sphere,
    Stiefel,
    Torus,
)
from curvedp.inference import k_sample_test, paired_test, two_sample_test
from curvedp.numerics.threads import in_threads
from curvedp.randomness import GeneratorSource

N = 24  # records
LARGE = GDP(8.0)  # enough for a private ball of so few records
ADDED = GDP(8.0, adjacency="add-remove")

SPACES = [
    Euclidean(2),
    Sphere(2),
    Lorentz(2),
    PoincareBall(2),
    SPDAffineInvariant(3),
    SPDAffineInvariant(2),
    SPDLogEuclidean(2),
    SPDLogCholesky(2),
    SPDBuresWasserstein(2),
    Rotations(3),
    Grassmann(4, 2),
    Stiefel(3, 2),
    KendallShapes(3),
    Torus(2),
    Simplex(2),
    Correlation(3),
    SpecialEuclidean(2),
    Product(Sphere(2), SPDAffineInvariant(3)),
]
MATRICES = SPDAffineInvariant(3)


def clean_records(manifold, seed=0):
    """Records near the origin, written with 7 digits: matrices are a little asymmetric."""
    rng = np.random.default_rng(seed)
    records = manifold.from_normal_coordinates(
        manifold.origin, 0.1 * rng.normal(size=(N, manifold.dim))
    )
    return np.asarray(records) * (
        1 + 1e-8 * rng.normal(size=(N, *manifold.point_shape))
    )


def hostile_records(manifold):
    """Yield records that make floating-point kernels warn, raise, or both."""
    shape = manifold.point_shape
    origin = np.asarray(manifold.origin, dtype=float)
    ramp = np.arange(1.0, 1 + origin.size).reshape(shape)
    for value in (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e-310, 0.0):
        yield np.full(shape, value)
    yield 9e307 * (1 + ramp / (2 * origin.size))  # asymmetric; sums of two overflow
    yield 1e-320 * ramp
    yield -origin  # antipodal, or a matrix with negative eigenvalues
    yield origin * np.where(ramp % 2 == 1, 1e200, 1e-200)  # indefinite, or ill-scaled
    yield origin + 1e155 * ramp  # its square overflows
    mixed = np.zeros(shape)
    mixed.flat[0], mixed.flat[-1] = np.inf, np.nan
    yield mixed


def with_hostile(manifold, which=None):
    """The clean records with all hostile ones in the first places, or with one."""
    records = clean_records(manifold)
    hostile = list(hostile_records(manifold))
    if which is None:
        records[: len(hostile)] = hostile
    else:
        records[0] = hostile[which % len(hostile)]
    return records


# ---- the entry points that read records ------------------------------------------------

LABELS = np.arange(N) % 2
DOMAINS = np.array([f"s{label}/left" for label in LABELS])
PERSONS = np.arange(N) // 2
CLASS_OF_EACH = np.arange(N) % 2  # every person has a record in each class
TIMES = np.linspace(0.0, 1.0, N)
Entry = Callable[[Any, np.ndarray], Any]


def source():
    return GeneratorSource(np.random.default_rng(0))


def fitted(name, *further, fit=None, **parameters) -> Entry:
    """An entry point that fits an estimator of records on a manifold."""

    def run(manifold, records):
        model = getattr(curvedp, name)(manifold, source=source(), **parameters)
        model.fit(records, *further, **(fit or {}))
        if name in ("PrivateTangentSpace", "PrivateTangentPCA", "PrivateRecenter"):
            model.transform(records)
        if name in ("PrivateMDM", "PrivateSoftmax", "PrivateKMeans"):
            model.predict(records)
            model.score(records, *further)
        if name == "PrivatePrototypes":
            model.transform(records)
            model.score(records, *further)

    return run


def joint_means(**parameters) -> Entry:
    def run(manifold, records):
        model = PrivateJointMeans(manifold, source=source(), **parameters)
        model.fit(records, CLASS_OF_EACH, groups=PERSONS)
        model.score(records, CLASS_OF_EACH)

    return run


def accuracy(groups=None, classifier="PrivateMDM") -> Entry:
    def run(manifold, records):
        model = getattr(curvedp, classifier)(manifold, source=source(), radius=0.5)
        model.fit(clean_records(manifold), LABELS)
        told = PrivateAccuracy(model, guarantee=LARGE, source=source())
        told.fit(records, LABELS, groups=groups)

    return run


def principal_components(groups=None, **parameters) -> Entry:
    def run(manifold, records):
        rows = records if records.ndim == 2 else records.reshape(len(records), -1)
        model = curvedp.PrivatePCA(radius=1.0, source=source(), **parameters)
        model.fit(rows, groups=groups).transform(rows)

    return run


def regression(predictors=TIMES, **parameters) -> Entry:
    def run(manifold, records):
        model = curvedp.PrivateGeodesicRegression(
            manifold, x_range=(0, 1), source=source(), **parameters
        )
        model.fit(predictors, records)
        model.score(predictors, records)

    return run


def hypothesis(test, samples=2) -> Entry:
    def run(manifold, records):
        rest = clean_records(manifold, seed=1)
        parts = (records, rest) if samples == 2 else ([records, rest, rest],)
        test(manifold, *parts, radius=0.5, permutations=19, source=source())

    return run


def site(manifold, records):
    # It is given once in a process, whatever the records are.
    warnings.simplefilter("ignore", ExperimentalWarning)
    identity, other = new_identity(), new_identity()
    kernel = MeanKernel(manifold, 0.5)
    plan = Plan(kernel, [key_of(identity), key_of(other)], [N, N], GDP(1.0))
    member = Site(plan, identity, records)
    at = np.asarray(kernel.initial_state_rows())
    for label, part in enumerate(member._class_rows):
        plan.rounded_sum(0, at, part, label)


def optimizer(name) -> Entry:
    def run(manifold, records):
        from curvedp import optim

        options = {"steps": 2, "clip": 0.7}
        if name == "dp_rsgd":
            options["batch_size"] = 8
        if name == "dp_rsvrg":
            options = {"epochs": 1, "inner_steps": 2, "clip": (0.7, 0.3)}
        getattr(optim, name)(
            optim.FrechetMeanProblem(manifold),
            records,
            manifold.origin,
            learning_rate=0.2,
            guarantee=GDP(1.0),
            rng=np.random.default_rng(0),
            **options,
        )

    return run


def in_chunks(run) -> Entry:
    """The same with a dask array, whose chunks are read in dask's own threads."""

    def chunked(manifold, records):
        dask_array = pytest.importorskip("dask.array")
        run(manifold, dask_array.from_array(records, chunks=(8, -1)))

    return chunked


BALL = {"radius": 0.5, "guarantee": LARGE}
PRIVATE = {"radius": "private", "guarantee": LARGE}
LINE = {"radius": 0.3, "speed": 0.3, "clip": 0.3, "guarantee": LARGE}
MEANS: dict[str, Entry] = {
    "mean": fitted("PrivateFrechetMean", **BALL, mechanism="gradient"),
    "mean of persons": fitted("PrivateFrechetMean", fit={"groups": PERSONS}, **BALL),
    "mean, n private": fitted("PrivateFrechetMean", radius=0.5, guarantee=ADDED),
    "dispersion": fitted("PrivateDispersion", **BALL, mechanism="gaussian"),
    "two-sample test": hypothesis(two_sample_test),
    "check": lambda manifold, records: check(manifold, records, radius=0.5),
    "site": site,
}
FURTHER: dict[str, Entry] = {
    "mean, auto": fitted("PrivateFrechetMean", **BALL),
    "mean, pure": fitted("PrivateFrechetMean", radius=0.5, guarantee=PureDP(8.0)),
    "mean, private ball": fitted("PrivateFrechetMean", **PRIVATE),
    "dispersion, private ball": fitted("PrivateDispersion", **PRIVATE),
    "dispersion, n private": fitted("PrivateDispersion", radius=0.5, guarantee=ADDED),
    "median": fitted("PrivateFrechetMedian", **BALL),
    "median, private": fitted("PrivateFrechetMedian", **PRIVATE),
    "tangent space": fitted("PrivateTangentSpace", **BALL, mechanism="gradient"),
    "tangent PCA": fitted("PrivateTangentPCA", **BALL),
    "tangent PCA, private ball": fitted("PrivateTangentPCA", **PRIVATE),
    "tangent PCA, n private": fitted("PrivateTangentPCA", radius=0.5, guarantee=ADDED),
    "clusters": fitted("PrivateKMeans", n_clusters=2, guarantee=LARGE),
    "clusters, n private": fitted("PrivateKMeans", n_clusters=2, guarantee=ADDED),
    "clusters of persons": fitted(
        "PrivateKMeans", fit={"groups": PERSONS}, n_clusters="private", guarantee=LARGE
    ),
    "synthetic, normal": fitted("PrivateSynthesizer", model="wrapped-gaussian", **BALL),
    "synthetic, mixture": fitted("PrivateSynthesizer", model="mixture", **BALL),
    "synthetic, tree": fitted("PrivateSynthesizer", model="tree", **BALL),
    "synthetic, private ball": fitted("PrivateSynthesizer", **PRIVATE),
    "synthetic persons": fitted(
        "PrivateSynthesizer", fit={"groups": PERSONS}, model="tree", **BALL
    ),
    "class means": fitted("PrivateMDM", LABELS, **BALL, mechanism="gaussian"),
    "class means, private": fitted("PrivateMDM", LABELS, **PRIVATE),
    "components": principal_components(guarantee=LARGE),
    "components of persons": principal_components(guarantee=LARGE, groups=PERSONS),
    "components, n private": principal_components(guarantee=ADDED),
    "components, descent": principal_components(guarantee=LARGE, method="dp-rgd"),
    "paired test": hypothesis(paired_test),
    "k-sample test": hypothesis(k_sample_test, samples=3),
    "dp_rgd": optimizer("dp_rgd"),
    "dp_rsgd": optimizer("dp_rsgd"),
    "dp_rsvrg": optimizer("dp_rsvrg"),
    "softmax": fitted("PrivateSoftmax", LABELS, reduce=2),
    "domains": fitted("PrivateRecenter", DOMAINS, **BALL),
    "domains, private and stretched": fitted(
        "PrivateRecenter", DOMAINS, final_dispersion=1.0, **PRIVATE
    ),
    "class means, reduced": fitted("PrivateMDM", LABELS, reduce=2),
    "class medians": fitted("PrivateMDM", LABELS, **BALL, metric="median"),
    "joint means": joint_means(**BALL),
    "joint means, private": joint_means(**PRIVATE),
    "accuracy": accuracy(),
    "accuracy of persons": accuracy(PERSONS, "PrivatePrototypes"),
    "prototypes": fitted("PrivatePrototypes", LABELS, **BALL),
    "prototypes of persons": fitted(
        "PrivatePrototypes", LABELS, fit={"groups": PERSONS}, **BALL
    ),
    "prototypes, n private": fitted(
        "PrivatePrototypes", LABELS, radius=0.5, guarantee=ADDED
    ),
}
PREDICTORS = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, *TIMES[6:]])
KNG = {**LINE, "method": "kng", "guarantee": PureDP(8.0)}
ON_SPHERE: dict[str, Entry] = {
    "line": regression(method="dp-rgd", **LINE),
    "line, private": regression(**PRIVATE),
    "line, hostile predictors": regression(PREDICTORS, method="dp-rgd", **LINE),
    "line, kng": regression(**KNG),
    "mean, newton": fitted("PrivateFrechetMean", **BALL, mechanism="newton"),
    "mean, tangent-gaussian": fitted(
        "PrivateFrechetMean", **BALL, mechanism="tangent-gaussian"
    ),
    "mean in chunks": in_chunks(fitted("PrivateFrechetMean", **BALL)),
    "components in chunks": in_chunks(principal_components(guarantee=LARGE)),
}
EVERY = [
    (name, run, M)
    for M in SPACES
    for name, run in MEANS.items()
    # No ball of Bures and Wasserstein has a mean with a bound: refused for any records.
    if not (isinstance(M, SPDBuresWasserstein) and name == "dispersion")
]
EVERY += [(name, run, MATRICES) for name, run in FURTHER.items()]
EVERY += [(name, run, Sphere(2)) for name, run in ON_SPHERE.items()]
# In a plane squares of distances overflow, which no other space lets happen.
EVERY += [("clusters", FURTHER["clusters"], Euclidean(2))]


@contextmanager
def settings(name):
    """What a caller may have set: nothing, warnings as errors, or NumPy that raises."""
    with ExitStack() as stack:
        told = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        if name == "warnings are errors":
            warnings.simplefilter("error")
        if name == "floating point raises":
            stack.enter_context(np.errstate(all="raise"))
            stack.enter_context(scipy.special.errstate(all="raise"))
        # A ReleaseWarning is about released values: it may differ, as these do.
        warnings.simplefilter("ignore", ReleaseWarning)
        yield told


def outcome(run, manifold, records, setting):
    """How a run ends, and what it says on the way."""
    with settings(setting) as told:
        try:
            run(manifold, records)
            end = "released"
        except Exception as error:
            end = f"{type(error).__name__}: {error}"
    return end, [f"{each.category.__name__}: {each.message}" for each in told]


SETTINGS = ["defaults", "warnings are errors", "floating point raises"]
# Whatever warns by default ends a run where warnings are errors. So the defaults are
# tried on the two spaces that every entry point knows, and the others on all spaces.
CASES = [
    (name, run, M, setting)
    for name, run, M in EVERY
    for setting in SETTINGS
    if setting != "defaults" or M in (MATRICES, Sphere(2))
]


@pytest.mark.parametrize(
    ("name", "run", "manifold", "setting"),
    CASES,
    ids=[f"{n}-{M!r}-{setting}" for n, _, M, setting in CASES],
)
def test_neighbors_end_alike(name, run, manifold, setting):
    """Many hostile records at once: whatever one of them causes is caused."""
    clean = outcome(run, manifold, clean_records(manifold), setting)
    assert clean == ("released", [])
    assert outcome(run, manifold, with_hostile(manifold), setting) == clean


def test_every_estimator_is_here():
    """A new one has to be added; those of `curvedp.neuro` are in its own tests."""
    package = importlib.import_module("curvedp.estimators")
    source_of_tests = inspect.getsource(inspect.getmodule(outcome))
    for module_info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"curvedp.estimators.{module_info.name}")
        for name, kind in inspect.getmembers(module, inspect.isclass):
            is_own = kind.__module__ == module.__name__ and name.startswith("Private")
            if is_own and hasattr(kind, "fit"):
                # `PrivateMDM(reduce=)` fits it.
                is_part = name == "PrivateReducedMDM"
                assert is_part or name in source_of_tests, name


ONE_BY_ONE = ["mean", "mean, private ball", "median", "components", "check"]


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_no_single_record_decides(name):
    """One record replaced, as neighbors are: no other hostile record hides its branch."""
    run = {**MEANS, **FURTHER}[name]
    for which in range(len(list(hostile_records(MATRICES)))):
        for setting in SETTINGS[1:]:
            end = outcome(run, MATRICES, with_hostile(MATRICES, which), setting)
            assert end == ("released", []), (which, setting)


# ---- the guard itself ------------------------------------------------------------------


def provoke():
    """Warn or raise in every way that a record can."""
    np.float64(1e308) * np.float64(10.0)
    np.float64(5e-324) / np.float64(2.0)
    np.log(np.float64(-1.0))
    scipy.special.gamma(-1.0)
    warnings.warn("a value", RuntimeWarning, stacklevel=1)
    warnings.warn("a conversion", DeprecationWarning, stacklevel=1)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_guard_hides_what_values_cause(setting):
    with settings(setting) as told:
        filters = list(warnings.filters)
        with quiet_about_records(), quiet_about_records():
            provoke()
        assert list(warnings.filters) == filters
    assert told == []


def test_settings_of_jax_are_hidden_too():
    jax = pytest.importorskip("jax")
    with jax.debug_nans(True):
        with pytest.raises(FloatingPointError):
            jax.numpy.log(-1.0)
        with numerical_silence():
            assert np.isnan(jax.numpy.log(-1.0))


def test_a_release_warning_is_heard_as_the_caller_asked():
    with pytest.warns(ReleaseWarning, match="odd"), quiet_about_records():
        warnings.warn("odd", ReleaseWarning, stacklevel=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ReleaseWarning), quiet_about_records():
            warnings.warn("odd", ReleaseWarning, stacklevel=1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "odd", ReleaseWarning)
        with quiet_about_records():
            warnings.warn("odd", ReleaseWarning, stacklevel=1)
            warnings.warn("strange", ReleaseWarning, stacklevel=1)
    assert [str(each.message) for each in told] == ["strange"]


def test_threads_that_leave_in_another_order_leave_the_filters_as_they_were():
    filters = list(warnings.filters)
    first_is_inside, second_is_inside = threading.Event(), threading.Event()

    def first():
        with quiet_about_records():
            first_is_inside.set()
            second_is_inside.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    first_is_inside.wait(10)
    with quiet_about_records():
        second_is_inside.set()
        thread.join(10)
        with np.errstate(all="ignore"):
            warnings.warn("still hidden", RuntimeWarning, stacklevel=1)
    assert list(warnings.filters) == filters


def test_work_in_threads_is_silent():
    """Threads do not inherit floating-point settings, so `in_threads` enters them."""
    with np.errstate(all="raise"):
        ends = in_threads(lambda value: np.float64(value) * 10, [1e308] * 40)
    assert ends == [np.inf] * 40
