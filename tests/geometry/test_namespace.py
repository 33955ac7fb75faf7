"""Arrays of every library come to the host, by the way that each of them allows."""

import numpy as np
import pytest

from curvedp.geometry.numerics.namespace import to_host

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
