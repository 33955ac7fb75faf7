"""Gradients in coordinates: against central differences of the loss along geodesics, and closed forms against each other."""

import jax
import numpy as np
import pytest

from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)
from curvedp.optim import (
    FrechetMeanProblem,
    LeadingEigenvectorProblem,
    Problem,
    SubspaceProblem,
)

SPACES = [
    Euclidean(3),
    Sphere(4),
    Lorentz(3),
    PoincareBall(3),
    SPDAffineInvariant(3),
    SPDAffineInvariant(5),
    SPDLogEuclidean(3),
    SPDLogCholesky(3),
    SPDBuresWasserstein(3),
    Stiefel(4, 2),
    Grassmann(5, 2),
    Rotations(3),
    KendallShapes(4),
    Product(Sphere(2), SPDAffineInvariant(2), PoincareBall(2)),
]


def pair(manifold, seed, reach):
    """A point w away from the origin, and a record at distance `reach` from it."""
    rng = np.random.default_rng(seed)
    w = manifold.exp(
        manifold.origin,
        manifold.from_coordinates(manifold.origin, 0.4 * rng.normal(size=manifold.dim)),
    )
    direction = rng.normal(size=manifold.dim)
    direction *= reach / np.linalg.norm(direction)
    return w, manifold.exp(w, manifold.from_coordinates(w, direction)), direction


def slope(manifold, value, w, step=1e-5):
    """Central differences of t -> value(exp_w(t·e_i)), coordinate by coordinate: no automatic differentiation."""
    ends = []
    for sign in (1, -1):
        points = manifold.exp(
            w, manifold.from_coordinates(w, sign * step * np.eye(manifold.dim))
        )
        ends.append(np.array([float(value(p)) for p in points]))
    return (ends[0] - ends[1]) / (2 * step)


@pytest.mark.parametrize("manifold", SPACES, ids=repr)
def test_mean_gradient_is_the_slope_of_half_the_squared_distance(manifold):
    w, z, direction = pair(manifold, 1, 0.6)
    with jax.enable_x64(True):
        closed = np.asarray(FrechetMeanProblem(manifold).gradients(w, z[None])[0])
    expected = slope(manifold, lambda p: manifold.dist(p, z) ** 2 / 2, w)
    np.testing.assert_allclose(closed, expected, atol=2e-6)
    np.testing.assert_allclose(
        closed, -direction, atol=1e-9
    )  # z was made as exp_w(direction)
    assert np.linalg.norm(closed - -0.7 * direction) > 0.1  # the comparison can fail


# That distances have the right derivative on every space is tests/conformance/test_array_libraries.py; here, how a problem
# takes it. Stiefel's logarithm is a shooting iteration, which is not differentiated.
@pytest.mark.parametrize(
    "manifold",
    [Sphere(4), PoincareBall(3), SPDAffineInvariant(4), Grassmann(5, 2)],
    ids=repr,
)
def test_automatic_differentiation_agrees_with_the_closed_form(manifold):
    w, z, _ = pair(manifold, 2, 0.5)
    generic = Problem(manifold, lambda p, q: manifold.dist(p, q) ** 2 / 2)
    with jax.enable_x64(True):
        automatic = np.asarray(jax.jit(generic.gradients)(w, z[None])[0])
        closed = np.asarray(FrechetMeanProblem(manifold).gradients(w, z[None])[0])
    np.testing.assert_allclose(automatic, closed, atol=1e-7)


@pytest.mark.parametrize("manifold", SPACES, ids=repr)
def test_any_ambient_loss(manifold):
    """A loss of the ambient entries alone: nothing in it knows the metric, only the frame does."""
    w, z, _ = pair(manifold, 3, 0.5)
    with jax.enable_x64(True):
        problem = Problem(manifold, lambda p, q: jax.numpy.sum(jax.numpy.sin(p) * q))
        automatic = np.asarray(jax.jit(problem.gradients)(w, z[None])[0])
    expected = slope(manifold, lambda p: np.sum(np.sin(p) * z), w)
    np.testing.assert_allclose(
        automatic, expected, atol=1e-7 * max(1, np.abs(expected).max())
    )


@pytest.mark.parametrize(
    "problem", [LeadingEigenvectorProblem(6), SubspaceProblem(6, 2)], ids=repr
)
def test_component_problems(problem):
    rng = np.random.default_rng(4)
    manifold, z = problem.manifold, rng.normal(size=6)
    w, _, _ = pair(manifold, 5, 0.1)
    with jax.enable_x64(True):
        closed = np.asarray(problem.gradients(w, z[None])[0])
        value = lambda p: problem.loss(p, z)  # noqa: E731 - one expression, used once
        np.testing.assert_allclose(closed, slope(manifold, value, w), atol=1e-7)
        generic = jax.jit(Problem(manifold, problem.loss).gradients)(w, z[None])[0]
        np.testing.assert_allclose(closed, generic, atol=1e-12)


@pytest.mark.parametrize("manifold", [SPDAffineInvariant(5), Sphere(4)], ids=repr)
def test_row_functions_agree_with_the_kernels(manifold):
    """Whatever short cuts `gradients`, `move` and `carry` take, they are the records' gradients, exp and transport."""
    problem = FrechetMeanProblem(manifold)
    w, _, _ = pair(manifold, 6, 0.1)
    rng = np.random.default_rng(7)
    records = manifold.exp(
        w, manifold.from_coordinates(w, 2 * rng.normal(size=(9, manifold.dim)))
    )
    with jax.enable_x64(True):
        rows = np.asarray(jax.jit(problem.gradients)(w, records))
        moved = np.asarray(jax.jit(problem.move)(w, 0.3 * np.ones(manifold.dim)))
    expected = -manifold.to_coordinates(w, manifold.log(w, records))
    np.testing.assert_allclose(rows, expected, atol=1e-9)
    there = manifold.exp(w, manifold.from_coordinates(w, 0.3 * np.ones(manifold.dim)))
    np.testing.assert_allclose(moved, there, rtol=1e-10, atol=1e-12)
    z = rng.normal(size=(2, manifold.dim))
    with jax.enable_x64(True):
        carried = np.asarray(jax.jit(problem.carry)(w, records[0], z))
    vectors = manifold.transport(w, records[0], manifold.from_coordinates(w, z))
    np.testing.assert_allclose(
        carried, manifold.to_coordinates(records[0], vectors), atol=1e-9
    )
