"""Names of manifolds, both ways."""

import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Grassmann,
    KendallShapes,
    Product,
    SPDBuresWasserstein,
    Sphere,
    Stiefel,
    manifold_name,
    parse_manifold,
)
from curvedp.geometry.manifold import Manifold

NAMES = [
    "euclidean:3",
    "sphere:2",
    "lorentz:2",
    "poincare:2",
    "spd-affine:3",
    "spd-log-euclidean:3",
    "spd-log-cholesky:3",
    "spd-bures:3",
    "stiefel:5,2",
    "grassmann:5,2",
    "rotations:3",
    "kendall:8",
    "product(sphere:2,euclidean:1)",
    "product(stiefel:5,2,product(kendall:4,grassmann:5,2),rotations:3)",
]


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name):
    M = parse_manifold(name)
    assert isinstance(M, Manifold)
    assert manifold_name(M) == name
    assert parse_manifold(f"  {name.upper()} ") == M


def test_sizes_fill_the_fields_in_order():
    assert parse_manifold("stiefel: 5, 2") == Stiefel(5, 2)
    assert parse_manifold("spd-bures:4") == SPDBuresWasserstein(4)
    nested = parse_manifold("product(sphere:2, product(kendall:4, grassmann:5,2))")
    assert nested == Product(Sphere(2), Product(KendallShapes(4), Grassmann(5, 2)))


@pytest.mark.parametrize(
    "bad", ["", "sphere", "teapot:2", "product()", "product", None, 3, "sphere(2)"]
)
def test_unknown_names_list_the_known_ones(bad):
    with pytest.raises(
        ParameterError, match=r"euclidean:d, .*sphere:d, .*stiefel:m,r.*product\("
    ):
        parse_manifold(bad)


@pytest.mark.parametrize(
    "bad",
    [
        "sphere:",
        "sphere:2.0",
        "sphere:-1",
        "sphere:2,3",
        "stiefel:5",
        "sphere:²",
        "sphere:nan",
    ],
)
def test_wrong_sizes_say_what_is_expected(bad):
    with pytest.raises(
        ParameterError, match=r"must be (sphere:d|stiefel:m,r) with a whole number"
    ):
        parse_manifold(bad)


@pytest.mark.parametrize(
    "bad", ["sphere:0", "stiefel:2,3", "product(sphere:2,euclidean:0)"]
)
def test_sizes_out_of_range_raise_as_in_the_constructor(bad):
    with pytest.raises(ParameterError, match="must be"):
        parse_manifold(bad)


@pytest.mark.parametrize(
    "bad", ["product(sphere:2", "product(sphere:2))", "product(sphere:2)euclidean:1)"]
)
def test_unbalanced_parentheses(bad):
    with pytest.raises(ParameterError):
        parse_manifold(bad)


def test_a_manifold_of_ones_own_has_no_name():
    class Mine(Sphere):
        pass

    with pytest.raises(ParameterError, match="has no name"):
        manifold_name(Mine(2))


@pytest.mark.parametrize(
    "huge",
    [
        "sphere:99999999",
        "spd-affine:4000",
        "hpd-affine:99999",
        "product(sphere:2,torus:99999999)",
    ],
)
def test_a_size_that_no_memory_holds_is_refused(huge):
    with pytest.raises(ParameterError, match="is too large: a point has"):
        parse_manifold(huge)


def test_a_name_of_any_length_is_refused_in_a_short_line():
    for bad in (
        "product(" * 500 + "sphere:2" + ")" * 500,
        "x" * 10_000,
        "sphere:" + "9" * 5000,
        10**5000,
    ):
        with pytest.raises(ParameterError) as refusal:
            parse_manifold(bad)
        assert (
            len(str(refusal.value)) < 800
        )  # with names that other tests have registered
