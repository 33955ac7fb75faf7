"""Forms of points, against SciPy's rotations and numbers known from elsewhere; every form is total."""

import warnings

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from curvedp.errors import ParameterError
from curvedp.geometry import (
    HPDAffineInvariant,
    KendallShapes,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
    Torus,
)
from curvedp.records import FORMS, read_records
from curvedp.records.forms import find_form

RNG = np.random.default_rng(0)
S2, SO3, SPD3, SHAPES = Sphere(2), Rotations(3), SPDAffineInvariant(3), KendallShapes(5)
SPACES = [
    S2,
    SO3,
    SPD3,
    SPDAffineInvariant(5),
    SHAPES,
    Stiefel(5, 2),
    Sphere(4),
    Simplex(3),
    Torus(2),
]


def test_latitude_and_longitude():
    places = np.array(
        [[0, 0], [0, 90], [90, 17], [-90, 5], [48.137, 11.575], [-33.865, -208.791]]
    )
    found = read_records(places, S2, form="latlon-degrees")
    np.testing.assert_allclose(
        found[:4], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, -1]], atol=1e-15
    )
    (lat, lon), (there, beyond) = np.radians(places[4:])
    haversine = (
        np.sin((there - lat) / 2) ** 2
        + np.cos(lat) * np.cos(there) * np.sin((beyond - lon) / 2) ** 2
    )
    assert S2.dist(found[4], found[5]) == pytest.approx(
        2 * np.arcsin(np.sqrt(haversine))
    )
    np.testing.assert_allclose(
        read_records(np.radians(places), S2, form="latlon-radians"), found, atol=1e-15
    )
    beyond = read_records(np.array([[90.0001, 0], [1.6, 0]]), S2, form="latlon-degrees")
    assert np.isnan(beyond[0]).all()
    assert np.isfinite(beyond[1]).all()


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_quaternions(scale):
    q = RNG.normal(size=(50, 4)) * scale
    first, last = (
        read_records(q, SO3, form=f"quaternion-{order}") for order in ("wxyz", "xyzw")
    )
    np.testing.assert_allclose(
        first, Rotation.from_quat(q / scale, scalar_first=True).as_matrix(), atol=1e-14
    )
    np.testing.assert_allclose(
        last, Rotation.from_quat(q / scale).as_matrix(), atol=1e-14
    )
    np.testing.assert_array_equal(read_records(-q, SO3, form="quaternion-wxyz"), first)


def test_rotation_vectors_and_axes():
    v = RNG.normal(size=(50, 3)) * np.geomspace(1e-12, 10, 50)[:, None]
    v[0] = 0
    expected = Rotation.from_rotvec(v).as_matrix()
    np.testing.assert_allclose(
        read_records(v, SO3, form="rotvec-radians"), expected, atol=1e-13
    )
    np.testing.assert_allclose(
        read_records(np.degrees(v), SO3, form="rotvec-degrees"), expected, atol=1e-13
    )
    angle = np.linalg.norm(v, axis=1)
    axis = np.where(angle[:, None] > 0, v, 1.0) * RNG.uniform(
        0.1, 10, (50, 1)
    )  # of any length
    for unit, one in (("radians", angle), ("degrees", np.degrees(angle))):
        found = read_records(
            np.column_stack([axis, one]), SO3, form=f"axis-angle-{unit}"
        )
        np.testing.assert_allclose(found, expected, atol=1e-13)


def test_the_three_orders_of_a_tensor():
    xx, xy, xz, yy, yz, zz = 2.0, 0.1, 0.2, 3.0, 0.3, 4.0
    matrix = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
    orders = {
        "tensor6-lower": [xx, xy, yy, xz, yz, zz],  # dipy.reconst.dti.lower_triangular
        "tensor6-upper": [xx, xy, xz, yy, yz, zz],  # FSL dtifit --save_tensor
        "tensor6-diagonal": [xx, yy, zz, xy, xz, yz],  # MRtrix dwi2tensor
        "upper": [xx, xy, xz, yy, yz, zz],
    }
    for form, entries in orders.items():
        assert read_records(np.array([entries]), SPD3, form=form)[0].tolist() == matrix
    A = RNG.normal(size=(7, 5, 5))
    C = A @ A.swapaxes(1, 2)
    np.testing.assert_array_equal(
        read_records(C[:, *np.triu_indices(5)], SPDLogEuclidean(5), form="upper"), C
    )


def test_landmarks_in_any_units():
    X = RNG.normal(size=(20, 5, 2))
    found = read_records(1000 + 37 * X, SHAPES, form="landmarks")
    assert np.all(SHAPES.residual(found) < 1e-12)
    np.testing.assert_allclose(SHAPES.dist(found, SHAPES.project(X)), 0, atol=1e-7)
    np.testing.assert_array_equal(read_records(X[..., 0] + 1j * X[..., 1], SHAPES, form="landmarks"),
                                  read_records(X, SHAPES, form="landmarks"))  # fmt: skip
    np.testing.assert_array_equal(read_records(X.reshape(20, 10), SHAPES, form="landmarks"),
                                  read_records(X, SHAPES, form="landmarks"))  # fmt: skip


def fits(name, M):
    try:
        return bool(find_form(name, M))
    except ParameterError:
        return False


@pytest.mark.filterwarnings("error")
def test_counts_and_angles():
    shares = read_records(
        np.array([[3, 1, 0, 0], [0, 0, 0, 0], [1, -1, 2, 2], [1e308, 1e308, 0, 0]]),
        Simplex(3),
        form="counts",
    )
    assert shares[[0, 3]].tolist() == [[0.75, 0.25, 0, 0], [0.5, 0.5, 0, 0]]
    assert np.isnan(shares[1:3]).all()
    angles = read_records(np.array([[180.0, -90.0]]), Torus(2), form="angles-degrees")
    assert angles.tolist() == [[np.pi, -np.pi / 2]]
    assert (
        read_records(angles, Torus(2), form="angles-radians").tolist()
        == angles.tolist()
    )


def test_complex_records_are_pairs():
    M = HPDAffineInvariant(2)
    C = np.array([[[2.0, 1j], [-1j, 2.0]]] * 3)
    np.testing.assert_array_equal(read_records(C, M), M.from_complex(C))


FITTING = [(name, M) for name in FORMS for M in SPACES if fits(name, M)]
BAD = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, -1e308, 5e-324, 1e-200]


@pytest.mark.parametrize(("name", "M"), FITTING, ids=str)
def test_every_form_is_a_total_map_of_one_record_alone(name, M):
    form = find_form(name, M)
    clean = np.tile(
        np.linspace(0.3, 0.8, form.width).reshape(form.shape),
        (4, *(1,) * len(form.shape)),
    )
    expected = form.points(clean)
    assert expected.shape == (4, *M.point_shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in BAD:
            for spoilt in (
                np.full(form.shape, value),
                np.where(np.arange(form.width).reshape(form.shape) == 1, value, 0.5),
            ):
                X = clean.copy()
                X[2] = spoilt
                found = form.points(X)
                np.testing.assert_array_equal(
                    np.delete(found, 2, 0), np.delete(expected, 2, 0)
                )
                assert np.isnan(found[2]).all() or np.isfinite(found[2]).all()
    assert np.isnan(form.points(np.full_like(clean, np.nan))).all()
    assert form.points(clean[:0]).shape == (0, *M.point_shape)


def test_no_record_in_a_form_is_nan():
    none = {
        "latlon-degrees": [[91, 0], [0, np.inf]],
        "quaternion-wxyz": [[0, 0, 0, 0]],
        "axis-angle-degrees": [[0, 0, 0, 1]],
        "landmarks": [np.ones(10), np.full(10, 3e7)],
    }
    spaces = {"latlon-degrees": S2, "landmarks": SHAPES}
    for name, X in none.items():
        assert np.isnan(
            read_records(np.array(X, dtype=float), spaces.get(name, SO3), form=name)
        ).all()


@pytest.mark.parametrize(
    ("form", "M", "says"),
    [
        ("latlon", S2, "'latlon-degrees', 'latlon-radians'"),
        ("quaternion", SO3, "'quaternion-wxyz', 'quaternion-xyzw'"),
        ("tensor6", SPD3, "'tensor6-lower', 'tensor6-upper', 'tensor6-diagonal'"),
        ("rotvec", SO3, "degrees"),
        ("axis-angle", SO3, "degrees"),
        ("angles", Torus(2), "degrees"),
        ("angles-degrees", S2, "does not make points"),
        ("counts", S2, "does not make points"),
        ("latlon-degrees", SO3, "does not make points"),
        ("latlon-degrees", Sphere(3), "does not make points"),
        ("quaternion-wxyz", SPD3, "does not make points"),
        ("tensor6-lower", SO3, "does not make points"),
        ("landmarks", Stiefel(5, 2), "does not make points"),
        ("upper", S2, "does not make points"),
        ("euler", SO3, "must be one of"),
        (3, SO3, "must be one of"),
    ],
)
def test_what_a_form_does_not_say_is_asked_for(form, M, says):
    with pytest.raises(ParameterError, match=says):
        find_form(form, M)


@pytest.mark.parametrize(
    ("manifold", "columns", "form"),
    [
        (Sphere(2), ["lat", "lng"], "latlon-degrees"),
        (Rotations(3), ["w", "x", "y", "z"], "quaternion-wxyz"),
    ],
    ids=repr,
)
def test_columns_of_a_form_that_was_not_named(tmp_path, manifold, columns, form):
    """The usual tables of places and rotations: the refusal says how they are read."""
    (tmp_path / "x.csv").write_text(
        ",".join(["id", *columns]) + "\n" + ",".join(["7", *"1" * len(columns)]) + "\n"
    )
    with pytest.raises(ParameterError, match=rf"form= \({form}, "):
        read_records(tmp_path / "x.csv", manifold, columns=columns)
    assert read_records(
        tmp_path / "x.csv", manifold, columns=columns, form=form
    ).shape == (1, *manifold.point_shape)
    (tmp_path / "x.csv").write_text(",".join(columns) + "\n")
    with pytest.raises(ParameterError, match=rf"form= \({form}, "):
        read_records(tmp_path / "x.csv", manifold, header=True)


@pytest.mark.parametrize(
    ("manifold", "names", "form"),
    [
        (Sphere(2), ["Latitude", "Longitude"], "latlon-degrees"),
        (Sphere(2), ["lat", "lng"], "latlon-radians"),
        (Rotations(3), ["qw", "qx", "qy", "qz"], "quaternion-wxyz"),
        (Rotations(3), ["x", "y", "z", "w"], "quaternion-xyzw"),
        (
            SPDAffineInvariant(3),
            ["Dxx", "Dxy", "Dyy", "Dxz", "Dyz", "Dzz"],
            "tensor6-lower",
        ),
        (SPDAffineInvariant(3), ["xx", "yx", "zx", "yy", "zy", "zz"], "tensor6-upper"),
        (SPDAffineInvariant(3), ["xx", "xy", "xz", "yy", "yz", "zz"], "upper"),
        (
            SPDAffineInvariant(3),
            ["d_xx", "d_yy", "d_zz", "d_xy", "d_xz", "d_yz"],
            "tensor6-diagonal",
        ),
    ],
    ids=repr,
)
def test_names_that_say_another_order_than_the_form(tmp_path, manifold, names, form):
    """A header is public: lon, lat read as lat, lon would be other places, with a certificate and no warning."""
    path, row = tmp_path / "x.csv", [1.0, 0.25, 0.5, 2.0, 0.75, 3.0][: len(names)]

    def read(order, **how):
        lines = [
            ",".join(names[i] for i in order),
            ",".join(str(row[i]) for i in order),
        ]
        path.write_text("\n".join(lines) + "\n")
        return read_records(path, manifold, form=form, header=True, **how)

    right = list(range(len(names)))
    turned = [*right[1:], 0]
    expected = read(right)
    with pytest.raises(ParameterError, match="another order than form="):
        read(turned)
    with pytest.raises(ParameterError, match="another order than form="):
        read(right, columns=[names[i] for i in turned])
    np.testing.assert_array_equal(read(turned, columns=names), expected)
    np.testing.assert_array_equal(
        read(turned, columns=[turned.index(i) for i in right]), expected
    )
    assert (
        read(turned, columns=right).shape == expected.shape
    )  # by place: whoever says so knows better than the names
    names = [f"column {i}" for i in right]
    assert read(turned).shape == expected.shape
