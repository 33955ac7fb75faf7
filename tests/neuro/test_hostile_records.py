"""No record of a neuroimaging release decides about a warning or an exception."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

from curvedp import GDP
from curvedp.neuro import (
    PrivateConnectome,
    PrivateRegionTensors,
    PrivateStarterKit,
    gmean,
    gmedian,
)
from estimators.test_silence import SETTINGS, outcome, source

LARGE = GDP(8.0)
N = 40
RNG = np.random.default_rng(0)


def covariances(n, *shape, scale=1.0):
    """Return n covariance matrices of random signals."""
    signals = scale * RNG.normal(size=(n, *shape, 40))
    return signals @ np.swapaxes(signals, -1, -2) / 40


def correlations(n, k):
    matrices = covariances(n, k)
    deviations = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    return matrices / deviations[:, :, None] / deviations[:, None, :]


CORRELATIONS = correlations(N, 4)
TENSORS = covariances(N, 3, 3, scale=0.026)
TRIALS = covariances(80, 3)
CLASSES, SUBJECTS = np.arange(80) % 2, np.arange(80) // 20


def hostile_records(shape):
    """Yield records that make floating-point kernels warn, raise, or both."""
    size = int(np.prod(shape))
    ramp = np.arange(1.0, 1 + size).reshape(shape)
    identity = np.broadcast_to(np.eye(shape[-1]), shape)
    for value in (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e-310, 0.0, 1e155):
        yield np.full(shape, value)
    yield 9e307 * (1 + ramp / (2 * size))
    yield 1e-320 * ramp
    yield -identity
    yield identity * np.where(ramp % 2 == 1, 1e200, 1e-200)
    yield identity + 1e155 * ramp
    yield 1e300 * identity
    yield 1e-300 * identity
    mixed = np.zeros(shape)
    mixed.flat[0], mixed.flat[-1] = np.inf, np.nan
    yield mixed


def connectome(X, groups=None, **parameters):
    model = PrivateConnectome(guarantee=LARGE, source=source(), **parameters)
    model.fit(X, groups=groups).confidence_edges()


def region_tensors(X, **parameters):
    model = PrivateRegionTensors(guarantee=LARGE, source=source(), **parameters)
    model.fit(X).table()


def starter_kit(X, **parameters):
    model = PrivateStarterKit(guarantee=LARGE, source=source(), **parameters)
    model.fit(X, CLASSES, SUBJECTS).score(X, CLASSES)


RUNS = {
    "connectome": (connectome, CORRELATIONS, {}),
    "connectome in a ball": (connectome, CORRELATIONS, {"radius": 2.0}),
    "connectome of people": (connectome, CORRELATIONS, {"groups": np.arange(N) // 2}),
    "connectome of networks": (
        connectome,
        CORRELATIONS,
        {"networks": [0, 0, 1, 1], "resolution": "networks"},
    ),
    "region tensors": (region_tensors, TENSORS, {}),
    "region tensors in a ball": (region_tensors, TENSORS, {"radius": 2.0}),
    "starter kit": (starter_kit, TRIALS, {}),
    "starter kit of trials": (starter_kit, TRIALS, {"unit": "trial"}),
    "mean": (gmean, TRIALS, {"guarantee": LARGE}),
    "median": (gmedian, TRIALS, {"guarantee": LARGE}),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", RUNS)
def test_neighbors_end_alike(name, setting):
    run, X, parameters = RUNS[name]

    def release(_, records):
        run(records, **parameters)

    spoilt = X.copy()
    hostile = list(hostile_records(X.shape[1:]))
    spoilt[: len(hostile)] = hostile
    assert outcome(release, None, X, setting) == ("released", [])
    assert outcome(release, None, spoilt, setting) == ("released", [])


@pytest.mark.parametrize("name", RUNS)
def test_every_list_is_refused_alike(name):
    """How long its rows are is data, so that no width follows from a list."""
    run, X, parameters = RUNS[name]

    def release(_, records):
        run(records, **parameters)

    clean = outcome(release, None, list(X), "defaults")
    assert clean[0].startswith("ParameterError: X is a list")
    for odd in ("Frau Mueller", None, [1, 2], 1 + 0j, 10**400, np.ones((2, 2))):
        assert outcome(release, None, [odd, *X[1:]], "defaults") == clean


def test_every_estimator_is_here():
    package = importlib.import_module("curvedp.neuro")
    source_of_tests = inspect.getsource(inspect.getmodule(connectome))
    for module_info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"curvedp.neuro.{module_info.name}")
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == module.__name__ and hasattr(kind, "fit"):
                assert name in source_of_tests, name
