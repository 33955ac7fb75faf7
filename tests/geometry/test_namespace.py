"""Arrays of every library come to the host, by the way that each of them allows."""

import numpy as np
import pytest

from curvedp.numerics.arrays import to_host
from support.spaces import EDGES, SPACES, sample

DATA = np.arange(6.0).reshape(2, 3)


class OfCuPy:
    """Refuses the implicit way."""

    __cuda_array_interface__ = None

    def get(self):
        return DATA

    def __array__(self, *_, **__):
        raise TypeError("implicit conversion to a NumPy array is not allowed")


class OfJaxOnAGPU:
    """Has CuPy's interface, but not its `get` (seen on an H200)."""

    __cuda_array_interface__ = None

    def __array__(self, *_, **__):
        return DATA


class Frame:
    """A table's `get` looks up a column."""

    def get(self, column):
        raise KeyError(column)

    def __array__(self, *_, **__):
        return DATA


class OfTorch:
    is_cuda = True
    attached = True

    def detach(self):
        other = OfTorch()
        other.attached = False
        return other

    def cpu(self):
        assert not self.attached
        return DATA


@pytest.mark.parametrize("kind", [OfCuPy, OfJaxOnAGPU, Frame, OfTorch])
def test_each_library_is_asked_in_its_own_way(kind):
    assert np.array_equal(to_host(kind()), DATA)


@pytest.mark.parametrize("M", SPACES + EDGES, ids=repr)
def test_lists_and_whole_numbers_are_doubles_to_every_kernel(M):
    rng = np.random.default_rng(0)
    made = sample(M, rng, 1)
    p, q, u = (made[part][0] for part in "pqu")
    whole = rng.integers(-3, 4, M.point_shape)
    calls = {
        "exp": (p, u), "log": (p, q), "inner": (p, u, whole), "norm": (p, u), "dist": (p, q), "transport": (p, q, u),
        "project": (whole,), "from_record": (whole,), "to_tangent": (p, whole), "residual": (whole,),
        "from_coordinates": (p, np.ones(M.dim, dtype=np.int64)), "to_coordinates": (p, whole),
    }  # fmt: skip
    with np.errstate(all="ignore"):
        for name, given in calls.items():
            kernel = getattr(M, name)
            right = kernel(*(np.asarray(array, dtype=np.float64) for array in given))
            for found in (kernel(*given), kernel(*(array.tolist() for array in given))):
                assert found.dtype == np.float64, name
                assert np.array_equal(found, right, equal_nan=True), name
            for kind in (np.float16, np.longdouble):
                odd = [np.asarray(array).astype(kind) for array in given]
                assert np.array_equal(
                    kernel(*odd),
                    kernel(*(array.astype(float) for array in odd)),
                    equal_nan=True,
                ), name


@pytest.mark.parametrize("M", SPACES + EDGES, ids=repr)
def test_kernels_propagate_nan(M):
    made = sample(M, np.random.default_rng(0), 2)
    p, q, u = (made[part] for part in "pqu")
    calls = {
        "exp": (p, u), "log": (p, q), "inner": (p, u, u), "norm": (p, u), "dist": (p, q), "transport": (p, q, u),
        "project": (p,), "from_record": (p,), "to_tangent": (p, u), "residual": (p,), "to_coordinates": (p, u),
        "from_coordinates": (p, M.to_coordinates(p, u)),
    }  # fmt: skip
    for name, given in calls.items():
        broken = [array.copy() for array in given]
        for array in broken:
            array[1] = np.nan
        found = getattr(M, name)(*broken)
        assert np.isnan(found[1]).any(), name
        np.testing.assert_allclose(
            found[0], getattr(M, name)(*given)[0], rtol=1e-12, atol=1e-14, err_msg=name
        )


@pytest.mark.parametrize("M", SPACES + EDGES, ids=repr)
def test_kernels_accept_empty_batches(M):
    """Beside one point, beside a batch of one, and beside none."""
    one = np.asarray(M.origin)
    none = np.empty((0, *M.point_shape), dtype=one.dtype)
    for p in (one, one[None], none):
        found = [
            M.exp(p, none),
            M.log(p, none),
            M.log(none, p),
            M.dist(p, none),
            M.dist(none, p),
        ]
        found += [
            M.inner(p, none, none),
            M.norm(p, none),
            M.transport(p, none, none),
            M.to_tangent(p, none),
        ]
        found += [
            M.from_coordinates(p, np.empty((0, M.dim))),
            M.to_coordinates(p, none),
        ]
        found += [M.project(none), M.from_record(none), M.residual(none)]
        assert all(len(np.asarray(each)) == 0 for each in found)
