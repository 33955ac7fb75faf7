"""The estimators and optimizers on arrays of JAX, torch and array-api-strict: NumPy's answer within the solver's error."""

from typing import Any, ClassVar

import array_api_strict
import jax
import numpy as np
import pytest

from curvedp import (
    GDP,
    Ledger,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivatePCA,
)
from curvedp.errors import ParameterError
from curvedp.geometry import KendallShapes, Lorentz, SPDAffineInvariant, Sphere
from curvedp.geometry.frechet_mean.backends.chunks import (
    block_sums,
    start_from_sample,
    streamed_mean,
)
from curvedp.geometry.frechet_mean.backends.device import (
    device_kernels_are_accurate,
    device_mean,
)
from curvedp.geometry.frechet_mean.error_bound import solver_error
from curvedp.geometry.frechet_mean.public_ball import PublicBall
from curvedp.numerics.arrays import to_host
from curvedp.optim import FrechetMeanProblem, dp_rgd
from curvedp.randomness import GeneratorSource
from curvedp.records.base import open_records
from curvedp.release.verify import verify_certificate
from support.rough_records import cloud


def as_jax(X):
    with jax.enable_x64(True):
        return jax.numpy.asarray(X)


def as_torch(X):
    return pytest.importorskip("torch").asarray(X)


LIBRARIES = [array_api_strict.asarray, as_jax, as_torch]


def source():
    return GeneratorSource(np.random.default_rng(7))


@pytest.mark.parametrize(
    ("M", "radius", "convert"),
    [
        *((SPDAffineInvariant(3), 1.0, convert) for convert in LIBRARIES),
        # JAX takes these too; it compiles for long
        *(
            (SPDAffineInvariant(4), 0.7, convert)
            for convert in LIBRARIES
            if convert is not as_jax
        ),
        *((Sphere(2), 0.5, convert) for convert in LIBRARIES if convert is not as_jax),
    ],
)
def test_the_mean_on_a_device_is_numpys(M, radius, convert):
    X, domain = cloud(M, radius, 300), PublicBall(M, np.asarray(M.origin), radius)
    x, square = device_mean(domain, convert(X))
    y, other = streamed_mean(
        domain, 300, lambda at: block_sums(domain, at, X), start_from_sample(domain, X)
    )
    assert isinstance(x, np.ndarray)
    assert float(M.dist(x, y)) <= 2 * solver_error(M, radius)
    assert square == pytest.approx(other, rel=1e-8)


@pytest.mark.parametrize(
    "M", [Lorentz(3), KendallShapes(4), SPDAffineInvariant(3)], ids=str
)
def test_the_release_from_another_library(M, tmp_path):
    X, ledger = cloud(M, 0.3, 200), Ledger(tmp_path / "x.ledger", GDP(3.0))
    there = array_api_strict.asarray(X)
    options = {"radius": 0.3, "mechanism": "tangent-gaussian", "source": source()}
    private = PrivateFrechetMean(M, ledger=ledger, **options).fit(there)
    same = PrivateFrechetMean(M, **(options | {"source": source()})).fit(X)
    assert isinstance(private.location_, np.ndarray)
    np.testing.assert_allclose(
        private.location_, same.location_, atol=1e-7
    )  # the same noise about the same mean
    assert len(ledger.entries) == 1
    sound = [
        check
        for check in verify_certificate(private.certificate_)
        if "entropy" not in check.claim
    ]
    assert all(check.holds for check in sound), sound
    assert 0 <= PrivateDispersion(M, radius=0.3).fit(there).variance_ <= 0.09


@pytest.mark.parametrize("convert", [array_api_strict.asarray, as_jax, as_torch])
def test_the_other_estimators_take_them_too(convert):
    M, y = Sphere(2), np.arange(60) % 2
    X = M.project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (60, 3)))
    there = convert(X)

    def classes(data, labels):
        return PrivateMDM(
            M, radius=0.5, mechanism="tangent-gaussian", source=source()
        ).fit(data, labels)

    model = classes(there, convert(y))
    np.testing.assert_allclose(
        model.means_, classes(X, y).means_, atol=1e-8
    )  # the same noise about the same means
    assert np.array_equal(model.predict(there), model.predict(X))
    pca = PrivatePCA(radius=2.0, source=source()).fit(there)
    assert np.array_equal(
        pca.components_, PrivatePCA(radius=2.0, source=source()).fit(X).components_
    )
    assert np.array_equal(pca.transform(there), pca.transform(X))
    x, options = (
        np.linspace(0, 1, 60),
        {
            "radius": 0.5,
            "speed": 1.0,
            "clip": 0.3,
            "x_range": (0, 1),
            "guarantee": GDP(1.0),
        },
    )
    lines = [
        PrivateGeodesicRegression(M, **options, source=source())
        .fit(*data)
        .predict(data[0])
        for data in ((x, X), (convert(x), there))
    ]
    assert np.array_equal(*lines)


def test_float32_and_integers_are_taken_in_double_precision():
    X = np.array(cloud(Sphere(2), 0.5, 64)[4:], dtype=np.float32)
    domain = PublicBall(Sphere(2), Sphere(2).origin, 0.5)
    x, _ = device_mean(domain, array_api_strict.asarray(X))
    y, _ = device_mean(domain, array_api_strict.asarray(X.astype(np.float64)))
    assert np.array_equal(x, y)
    integers = array_api_strict.asarray(np.array([[1, 0, 0], [0, 1, 0]]))
    assert PrivateFrechetMean(Sphere(2), radius=0.5).fit(integers).location_.shape == (
        3,
    )


@pytest.mark.parametrize(
    ("X", "arguments", "message"),
    [
        (np.zeros((5, 4)), {}, "shape"),
        (np.zeros(3), {}, "shape"),
        (np.zeros((1, 3)), {}, "records"),
        (np.zeros((5, 3), dtype=bool), {}, "dtype"),
        (np.zeros((5, 3)), {"mechanism": "kng"}, "mechanism"),
        (np.zeros((5, 3)), {"mechanism": "newton"}, "mechanism"),
    ],
)
def test_refusals_spend_nothing(tmp_path, X, arguments, message):
    ledger = Ledger(tmp_path / "x.ledger", GDP(3.0))
    with pytest.raises(ParameterError, match=message):
        PrivateFrechetMean(Sphere(2), radius=0.5, ledger=ledger, **arguments).fit(
            array_api_strict.asarray(X)
        )
    assert ledger.spent is None


def test_where_jax_lacks_accuracy_the_host_computes():
    X, domain = (
        cloud(SPDAffineInvariant(5), 2.0, 50),
        PublicBall(SPDAffineInvariant(5), np.eye(5), 2.0),
    )
    assert not device_kernels_are_accurate(domain, as_jax(X))
    assert device_kernels_are_accurate(domain, array_api_strict.asarray(X))
    assert device_kernels_are_accurate(
        PublicBall(SPDAffineInvariant(5), np.eye(5), 0.5), as_jax(X)
    )
    here, there = (
        open_records(data, (5, 5)).moments(domain) for data in (X, as_jax(X))
    )
    assert np.array_equal(here[0], there[0])
    assert here[1] == there[1]


@pytest.mark.parametrize("convert", [as_jax, as_torch])
def test_descent_on_arrays_of_other_libraries(convert):
    M = Sphere(2)
    X = M.project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (300, 3)))
    results = [
        dp_rgd(
            FrechetMeanProblem(M),
            data,
            np.eye(3)[0],
            3,
            0.5,
            0.5,
            GDP(1.0),
            rng=np.random.default_rng(1),
        )
        for data in (X, convert(X))
    ]
    np.testing.assert_allclose(results[0].point, results[1].point, atol=1e-12)


class OnGpu:
    """What an array on a GPU is to us: CuPy's refuse `asarray` and have `get`, JAX's have the interface and no `get`."""

    __cuda_array_interface__: ClassVar[dict[str, Any]] = {}

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


class OnCupy(OnGpu):
    def __array__(self, dtype=None, copy=None):
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def get(self):
        return self.values


@pytest.mark.parametrize("kind", [OnGpu, OnCupy])
def test_arrays_of_a_gpu_come_to_the_host(kind):
    np.testing.assert_array_equal(to_host(kind(np.arange(3.0))), np.arange(3.0))
