"""Every kernel of every manifold on other array libraries, compiled and differentiated."""

import os

import numpy as np
import pytest

from curvedp.geometry import (
    Correlation,
    Euclidean,
    Product,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Sphere,
)
from curvedp.testing import KERNELS
from support.spaces import EDGES, SPACES, sample

every = pytest.mark.parametrize("M", SPACES + EDGES, ids=repr)
# Compiling is what takes time: a product of spaces that are compiled already tells no more than a small one.
# Eigenvectors of 3 × 3 matrices are written out, and a program of them compiles ten times as long as one that calls LAPACK:
# of the metrics of SPD matrices the affine-invariant one has them differentiated, the others are of size 4.
# Correlations of size 3 were measured to compile in under two thirds of the time of those of size 4.
OTHERS = {
    type(M): M for M in (SPDLogEuclidean(4), SPDBuresWasserstein(4), Correlation(3))
}
COMPILED = [
    *(OTHERS.get(type(M), M) for M in SPACES[:-1]),
    Product(Sphere(2), Euclidean(1)),
]
compiled = pytest.mark.parametrize("M", COMPILED, ids=repr)


@pytest.fixture
def rng():
    return np.random.default_rng(2026)


# ---- array libraries -----------------------------------------------------------------------------------------------------


def _calls(M, s):
    return {name: [s[k] for k in kinds] for name, kinds in KERNELS.items()}


def _same(actual, expected, name):
    scale = max(1.0, np.max(np.abs(expected)))
    np.testing.assert_allclose(
        np.asarray(actual), expected, rtol=0, atol=1e-11 * scale, err_msg=name
    )


@every
def test_array_api_strict(M, rng):
    strict = pytest.importorskip("array_api_strict")
    s = sample(M, rng, 4)
    for name, args in _calls(M, s).items():
        actual = getattr(M, name)(*(strict.asarray(x) for x in args))
        assert isinstance(actual, type(strict.asarray(0.0))), name
        _same(actual, getattr(M, name)(*args), name)


@every
def test_stays_on_the_device_of_its_arrays(M, rng):
    """A constant made on the default device cannot meet an array that lies elsewhere."""
    strict = pytest.importorskip("array_api_strict")
    elsewhere = strict.Device("device1")
    for name, args in _calls(M, sample(M, rng, 4)).items():
        assert (
            getattr(M, name)(
                *(strict.asarray(x, device=elsewhere) for x in args)
            ).device
            == elsewhere
        ), name


# Made of others, or compiled with the gradients.
DIFFERENTIATED = ("dist", "exp", "from_coordinates")
SEEN = ("normal_coordinates", "from_normal_coordinates", "norm", *DIFFERENTIATED)


def _jit(jax, f):
    """Compiled without the optimizer and, where XLA knows of them, emitters (conftest.py): they take most of the time and
    rewrite arithmetic little."""
    options = {
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
    }
    known = "xla_cpu_use_fusion_emitters" in os.environ.get("XLA_FLAGS", "")
    return jax.jit(
        f,
        compiler_options=options
        | ({"xla_cpu_use_fusion_emitters": False} if known else {}),
    )


@pytest.mark.slow  # compiles every kernel
@pytest.mark.parametrize(
    "M",
    [SPDAffineInvariant(4) if SPDAffineInvariant(3) == M else M for M in COMPILED],
    ids=repr,
)
def test_jax_jit_and_vmap(M, rng):
    """Every kernel that the gradients below do not have is traced; those that are not made of others are compiled."""
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):

        def mapped(names):
            """Of the same points, so that what kernels have in common is compiled once."""
            return jax.vmap(
                lambda s: {
                    name: getattr(M, name)(*(s[k] for k in KERNELS[name]))
                    for name in names
                }
            )

        points = dict(sample(M, rng, 4))
        calls = _calls(M, points)
        traced = [
            name for name in SEEN if M not in COMPILED or name not in DIFFERENTIATED
        ]
        shapes = jax.eval_shape(mapped(traced), points)
        for name, actual in _jit(
            jax, mapped([name for name in KERNELS if name not in SEEN])
        )(points).items():
            _same(actual, getattr(M, name)(*calls[name]), name)
        assert all(
            shapes[name].shape == np.shape(getattr(M, name)(*calls[name]))
            for name in traced
        )


@compiled
def test_jax_gradients(M, rng):
    """Finite and right everywhere, at p = q too: grad ½d²(exp_p(z), q) at z = 0 is -log(p, q)."""
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):

        def energy(z, p, q):
            return M.dist(M.exp(p, M.from_coordinates(p, z)), q) ** 2 / 2

        s = sample(M, rng, 3)
        same = np.concatenate([s["p"], M.origin[None]])
        p, q = np.concatenate([same, same]), np.concatenate([same, s["q"], s["q"][:1]])
        p, q, z = (
            np.concatenate([p, s["p"]]),
            np.concatenate([q, s["q"]]),
            np.concatenate([np.zeros((8, M.dim)), s["z"]]),
        )
        gradient = _jit(jax, jax.vmap(jax.value_and_grad(energy, argnums=(0, 2))))
        value, (by_z, by_q) = gradient(z, p, q)
        np.testing.assert_allclose(value, energy(z, p, q), rtol=0, atol=1e-11)
        np.testing.assert_allclose(by_z[:4], 0, atol=1e-13)
        np.testing.assert_allclose(by_q[:4], 0, atol=1e-13)
        np.testing.assert_allclose(
            by_z[4:8], -M.to_coordinates(p, M.log(p, q))[4:8], rtol=0, atol=1e-10
        )
        assert np.all(np.isfinite(by_q))


@every
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_other_libraries(M, rng, library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    s = sample(M, rng, 4)
    for name, args in _calls(M, s).items():
        actual = getattr(M, name)(*(xp.asarray(x) for x in args))
        _same(
            actual.get() if library == "cupy" else actual, getattr(M, name)(*args), name
        )
