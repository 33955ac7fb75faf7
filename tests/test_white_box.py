"""The tests that look inside are marked."""

import math

import pytest

from support.white_box import is_white_box


def _own_helper():
    return math.pi


def reads_an_attribute(value):
    return value._inside


def reads_it_inside():
    return [value._inside for value in (math,)]


def imports_a_module():
    from curvedp.optim import _loop

    return _loop


def uses_what_is_public(value):
    return value._replace(value=_own_helper()).__dict__


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (reads_an_attribute, True),
        (reads_it_inside, True),
        (imports_a_module, True),
        (uses_what_is_public, False),
        (len, False),
    ],
)
def test_private_names_are_seen(function, expected):
    assert is_white_box(function) is expected


def test_this_test_is_marked(request):
    """It names something private, so the collection has marked it."""
    _ = request._pyfuncitem
    assert request.node.get_closest_marker("white_box") is not None


def test_another_is_not_marked(request):
    assert request.node.get_closest_marker("white_box") is None
