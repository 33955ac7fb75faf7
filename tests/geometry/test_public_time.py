"""How much work a release does must not depend on its statistic: calls of the interpreter are counted, not seconds."""

import gc
import sys

import numpy as np
import pytest

from curvedp.geometry import (
    Euclidean,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    Stiefel,
    project_to_ball,
)
from curvedp.geometry.ball import ball_coordinates
from curvedp.numerics.constant_work import in_public_time, public_time
from support import spaces

SPACES = [
    M for M in spaces.SPACES if not isinstance(M, Euclidean | SPDBuresWasserstein)
]
SPACES += [
    Stiefel(3, 2),
    Stiefel(12, 6),
    SPDAffineInvariant(2),
    SPDAffineInvariant(5),
    Rotations(3),
]
SPACES += [Product(Stiefel(3, 2), SPDAffineInvariant(2))]
RADIUS = 0.7


def points(M):
    """At the center, very near, inside, on the other side of the ball's boundary; not finite; not on the manifold."""
    z = np.arange(1.0, M.dim + 1) / np.linalg.norm(np.arange(1.0, M.dim + 1))
    far = 6.0 if M.injectivity_radius == np.inf else 0.9 * M.injectivity_radius
    lengths = (0.0, 1e-9, 0.03, 0.5, 0.99 * RADIUS, far)
    inside = [M.exp(M.origin, M.from_coordinates(M.origin, s * z)) for s in lengths]
    return [*inside, np.full(M.point_shape, np.nan), -7 * np.ones(M.point_shape)]


def work(f):
    """The names of all functions that f calls, in order."""
    names = []
    gc.disable()  # a collection may call finalisers in between
    sys.setprofile(
        lambda frame, event, arg: names.append(
            getattr(arg, "__name__", frame.f_code.co_name)
        )
    )
    try:
        f()
    finally:
        sys.setprofile(None)
        gc.enable()
    return names


@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_the_work_is_the_same_for_every_statistic(M):
    places = points(M)
    ball_coordinates(M, M.origin, RADIUS, np.stack(places))  # caches are filled
    ball_coordinates(M, M.origin, RADIUS, places[1])
    first, *others = [
        work(lambda x=x: ball_coordinates(M, M.origin, RADIUS, x)) for x in places
    ]
    assert all(other == first for other in others)


@pytest.mark.parametrize("M", [Stiefel(3, 2), SPDAffineInvariant(3)], ids=repr)
def test_work_depends_on_values_outside_public_time(M):
    """The control: what the test above sees where iterations stop early."""
    near, far = (work(lambda x=x: M.log(M.origin, x)) for x in points(M)[1:6:4])
    assert len(near) < len(far)


@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_coordinates_are_those_of_the_projected_records(M):
    X = np.stack(points(M))
    z = ball_coordinates(M, M.origin, RADIUS, X)
    moved = project_to_ball(M, M.origin, RADIUS, X)
    here = (
        slice(None) if M.injectivity_radius == np.inf else slice(5)
    )  # beyond the ball they are those of `ball_coordinates`
    np.testing.assert_allclose(
        z[here], M.normal_coordinates(M.origin, moved)[here], rtol=0, atol=1e-12
    )
    np.testing.assert_array_equal(z[-2], 0.0)
    assert np.max(np.linalg.norm(z, axis=-1)) <= RADIUS * (1 + 1e-15)
    np.testing.assert_allclose(
        z, [ball_coordinates(M, M.origin, RADIUS, x) for x in X], rtol=0, atol=1e-13
    )


def test_public_time_ends_with_its_block():
    def fails():
        with public_time():
            assert in_public_time()
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert not in_public_time()


@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_simulations_get_the_same_answers_in_their_own_time(M):
    """But for the last digits."""
    X = np.stack(points(M))[:5]
    quick, public = (
        ball_coordinates(M, M.origin, RADIUS, X, timed=timed) for timed in (False, True)
    )
    np.testing.assert_allclose(quick, public, rtol=0, atol=1e-13)
