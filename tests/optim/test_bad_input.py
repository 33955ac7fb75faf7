"""Public parameters that make no sense raise and say why; data that makes no sense is mapped and never raises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import Euclidean, Lorentz, SPDAffineInvariant, Sphere
from curvedp.optim import (
    FrechetMeanProblem,
    LeadingEigenvectorProblem,
    Problem,
    SubspaceProblem,
    dp_rgd,
    dp_rsgd,
    dp_rsvrg,
)
from curvedp.privacy import GDP, ApproxDP, PureDP

M = Sphere(2)
X = M.project(np.random.default_rng(0).normal([3.0, 0.0, 0.0], 1.0, size=(20, 3)))
GOOD = {
    "problem": FrechetMeanProblem(M),
    "data": X,
    "init": M.origin,
    "learning_rate": 0.1,
}
RGD = {**GOOD, "steps": 2, "clip": 1.0, "noise": 0.1}
RSGD = {**RGD, "batch_size": 5}
RSVRG = {
    **GOOD,
    "epochs": 1,
    "inner_steps": 2,
    "batch_size": 5,
    "clip": (1.0, 1.0),
    "noise": (0.1, 0.1),
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"clip": 0.0}, "clip"),
        ({"clip": -1.0}, "clip"),
        ({"clip": np.nan}, "clip"),
        ({"clip": np.inf}, "clip"),
        ({"clip": "1"}, "clip"),
        ({"steps": 0}, "steps"),
        ({"steps": -3}, "steps"),
        ({"steps": 2.5}, "steps"),
        ({"steps": True}, "steps"),
        ({"noise": 0.0}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"noise": np.inf}, "noise"),
        ({"noise": None}, "guarantee"),
        ({"guarantee": GDP(1.0)}, "not both"),
        ({"noise": None, "guarantee": 1.0}, "guarantee"),
        ({"learning_rate": np.nan}, "learning_rate"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": lambda step: 1.0 - step}, "learning_rate"),
        ({"rng": 42}, "rng"),
        ({"rng": jnp.zeros(3)}, "rng"),
        ({"rng": jax.random.split(jax.random.key(0), 2)}, "one"),
        ({"record_history": -1}, "record_history"),
        ({"record_history": 1.5}, "record_history"),
        ({"rng": np.random.RandomState(0)}, "rng"),
        ({"init": np.zeros(3)}, "init"),
        ({"init": np.array([np.nan, 0, 0])}, "init"),
        ({"init": np.eye(3)}, "init"),
        ({"data": X[:, :2]}, "data"),
        ({"data": X[:1]}, "at least 2"),
        ({"data": np.float64(3.0)}, "data"),
        ({"data": np.array(["a", "b", "c"])}, "numbers"),
        ({"data": X + 0j}, "numbers"),
        ({"data": None}, "data"),
        ({"problem": "mean"}, "problem"),
    ],
    ids=lambda v: v if isinstance(v, str) else "-".join(map(str, v)),
)
def test_dp_rgd_refuses(change, says):
    with pytest.raises(ParameterError, match=says):
        dp_rgd(**{**RGD, **change})


@pytest.mark.parametrize("shape", [(60,), (60, 1), (60, 3), (60, 4, 1), (60, 4, 4)])
@pytest.mark.parametrize(
    "problem",
    [
        LeadingEigenvectorProblem(4),
        SubspaceProblem(4, 2),
        FrechetMeanProblem(Sphere(3)),
    ],
    ids=lambda p: type(p).__name__,
)
def test_records_of_another_shape_are_refused_by_name(problem, shape):
    """Also shapes that the loss alone would broadcast over."""
    with pytest.raises(ParameterError, match=r"data has shape .* needs \(n, 4\)"):
        dp_rgd(
            **{
                **RGD,
                "problem": problem,
                "data": np.zeros(shape),
                "init": problem.manifold.origin,
            }
        )


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 0},
        {"batch_size": 21},
        {"batch_size": 2.0},
        {"sampling": "shuffle"},
        {"clip": np.nan},
        {"steps": 0},
    ],
    ids=lambda v: v if isinstance(v, str) else "-".join(map(str, v)),
)
def test_dp_rsgd_refuses(change):
    with pytest.raises(ParameterError, match=next(iter(change))):
        dp_rsgd(**{**RSGD, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 0},
        {"inner_steps": 0},
        {"restarts": 0},
        {"clip": 1.0},
        {"clip": (1.0, -1.0)},
        {"clip": (np.nan, 1.0)},
        {"noise": "0.1"},
        {"noise": 0.0},
        {"noise": (0.1, 0.0)},
        {"output": "best"},
        {"batch_size": 100},
    ],
    ids=lambda v: v if isinstance(v, str) else "-".join(map(str, v)),
)
def test_dp_rsvrg_refuses(change):
    with pytest.raises(ParameterError, match=next(iter(change))):
        dp_rsvrg(**{**RSVRG, **change})


def test_both_or_neither_of_guarantee_and_noise():
    for optimizer, arguments in ((dp_rsgd, RSGD), (dp_rsvrg, RSVRG)):
        with pytest.raises(ParameterError, match="not both"):
            optimizer(**{**arguments, "guarantee": ApproxDP(1.0, 1e-6)})
        with pytest.raises(ParameterError, match="guarantee"):
            optimizer(**{**arguments, "noise": None})
    with pytest.raises(UnattainableGuarantee, match="pure"):
        dp_rgd(**{**RGD, "noise": None, "guarantee": PureDP(1.0)})


def test_batch_size_is_a_sampling_rate_where_n_is_private():
    other = ApproxDP(1.0, 1e-6, adjacency="add-remove")
    with pytest.raises(ParameterError, match="share of the records"):
        dp_rsvrg(**{**RSVRG, "noise": None, "guarantee": other})
    with pytest.raises(ParameterError, match="share of the records"):
        dp_rsgd(**{**RSGD, "noise": None, "guarantee": other})


def test_losses_of_wrong_shape_or_type_are_refused():
    for loss, says in (
        (lambda w, z: w * z, "shape"),
        (lambda w, z: jnp.sum(w * z)[None], "shape"),
        (lambda w, z: w @ jnp.ones((7, 2)), "cannot be evaluated"),
        (lambda w: 0.0, "cannot be evaluated"),
        (lambda w, z: None, "cannot be evaluated"),
        (lambda w, z: np.sum(np.asarray(w) * z), "calls NumPy"),
        (lambda w, z: jnp.sum(w) if z[0] > 0 else 0.0, "cannot be evaluated"),
        (lambda w, z: jnp.sum(w[z > 0]), "cannot be evaluated"),
        (lambda w, z: z[0, 0], "cannot be evaluated"),
        (lambda w, z: {}["mean"], "cannot be evaluated"),
        (lambda w, z: 1 / 0, "cannot be evaluated"),
        (lambda w, z: jnp.argmax(w * z), "gradient"),
        (lambda w, z: jnp.sum(w * z) * 1j, "gradient"),
    ):
        with pytest.raises(ParameterError, match=says) as raised:
            dp_rgd(**{**RGD, "problem": Problem(M, loss)})
        assert "\n" not in str(raised.value)
    with pytest.raises(ParameterError, match="loss"):
        Problem(M, None)
    with pytest.raises(ParameterError, match="manifold"):
        Problem("sphere", lambda w, z: 0.0)
    with pytest.raises(ParameterError, match="dim"):
        LeadingEigenvectorProblem(1)
    with pytest.raises(ParameterError):
        SubspaceProblem(4, 5)


def test_records_without_a_nearest_point_are_mapped_to_the_public_start():
    """A record that stands for no point, whatever is wrong with it, acts as the start: gradients there are 0 at first."""
    for manifold, junk in (
        (M, [np.array([np.nan, 0, 0]), np.array([np.inf, 1, 0]), np.zeros(3)]),
        (
            SPDAffineInvariant(2),
            [np.full((2, 2), np.nan), -np.eye(2), np.array([[1.0, 5], [0, 1]])],
        ),
    ):
        good = np.stack([manifold.origin] * 4)
        options = {"steps": 3, "clip": 1.0, "learning_rate": 0.3, "noise": 0.05}
        expected = dp_rgd(FrechetMeanProblem(manifold), np.concatenate([good, [manifold.origin]]), manifold.origin,
                          rng=np.random.default_rng(1), **options)  # fmt: skip
        for record in junk:
            found = dp_rgd(FrechetMeanProblem(manifold), np.concatenate([good, [record]]), manifold.origin,
                           rng=np.random.default_rng(1), **options)  # fmt: skip
            assert np.array_equal(found.point, expected.point)
            assert found.guarantee == expected.guarantee


def test_whole_numbers_and_lists_are_data():
    problem = FrechetMeanProblem(Euclidean(2))
    found = dp_rgd(
        problem,
        [[1, 2], [3, 4]],
        [0, 0],
        steps=30,
        clip=10.0,
        learning_rate=0.5,
        noise=1e-9,
    )
    np.testing.assert_allclose(found.point, [2, 3], atol=1e-6)
    assert found.point.dtype == np.float64


class Tensor:
    """What a torch tensor with a gradient is to us: no NumPy array before it is detached."""

    def __init__(self, values, detached=False):
        self.values, self.detached = values, detached

    def detach(self):
        return Tensor(self.values, True)

    def __array__(self, dtype=None, copy=None):
        if not self.detached:
            raise RuntimeError("can't call numpy() on a tensor that requires grad")
        return np.asarray(self.values, dtype=dtype)


def test_arrays_of_other_libraries_are_data():
    """Junk records included: they are mapped where they lie, to the same result."""
    junk = X.copy()
    junk[3], junk[7] = np.nan, 5.0
    options = {**RGD, "steps": 4, "rng": None}
    expected = dp_rgd(
        **{**options, "data": junk, "rng": np.random.default_rng(1)}
    ).point
    with jax.enable_x64(True):
        on_device, start = jnp.asarray(junk), jnp.asarray(M.origin)
    for data, init in (
        (on_device, M.origin),
        (on_device, start),
        (Tensor(junk), Tensor(M.origin)),
        (junk.tolist(), [1, 0, 0]),
    ):
        found = dp_rgd(
            **{**options, "data": data, "init": init, "rng": np.random.default_rng(1)}
        ).point
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
    half = dp_rgd(
        **{
            **options,
            "data": jnp.asarray(X, jnp.bfloat16),
            "rng": np.random.default_rng(1),
        }
    ).point
    assert np.isfinite(half).all()


@pytest.mark.parametrize("M", [Sphere(2), Lorentz(2), SPDAffineInvariant(2)], ids=repr)
@pytest.mark.parametrize("rate", [1e4, 1e300])
def test_a_step_beyond_the_range_of_floats_is_not_taken(M, rate):
    """NaN was released, without a word, for the whole budget."""
    X = M.exp(
        M.origin,
        M.from_coordinates(
            M.origin, 0.1 * np.random.default_rng(0).normal(size=(20, M.dim))
        ),
    )
    asked = {
        "learning_rate": rate,
        "guarantee": GDP(1.0),
        "rng": np.random.default_rng(1),
    }
    result = dp_rgd(FrechetMeanProblem(M), X, M.origin, steps=3, clip=1.0, **asked)
    assert M.residual(np.asarray(result.point)) < 1e-9
