"""Forms of points, against SciPy's rotations and numbers known from elsewhere; every form is total."""

import contextlib
import unicodedata
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
from curvedp.records.forms import check_order, find_form

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
    with pytest.raises(ParameterError, match=rf"by its form \({form}, "):
        read_records(tmp_path / "x.csv", manifold, columns=columns)
    assert read_records(
        tmp_path / "x.csv", manifold, columns=columns, form=form
    ).shape == (1, *manifold.point_shape)
    (tmp_path / "x.csv").write_text(",".join(columns) + "\n")
    with pytest.raises(ParameterError, match=rf"by its form \({form}, "):
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
    with pytest.raises(ParameterError, match="does not agree with the names"):
        read(turned)
    with pytest.raises(ParameterError, match="does not agree with the names"):
        read(right, columns=[names[i] for i in turned])
    np.testing.assert_array_equal(read(turned, columns=names), expected)
    np.testing.assert_array_equal(
        read(turned, columns=[turned.index(i) for i in right]), expected
    )
    # Places in the file's order say which columns, and nothing about their order.
    with pytest.raises(ParameterError, match="does not agree with the names"):
        read(turned, columns=right)
    with pytest.raises(ParameterError, match="does not agree with the names"):
        read(turned, columns=[f"0-{len(names) - 1}"])
    # Whoever reads below the header knows better than the names.
    unnamed = read_records(path, manifold, form=form, header=False, skip=1)
    assert unnamed.shape == expected.shape
    names = [f"column {i}" for i in right]
    assert read(turned).shape == expected.shape


def _shape_file(path, order, columns=("id",)):
    """A file of 15 landmarks whose columns are in some order, and the shapes in it."""
    rng = np.random.default_rng(1)
    landmarks = rng.normal(size=(4, 15, 2))
    names = [*columns, *(f"{axis}{number + 1}" for number, axis in order)]
    lines = [",".join(names)]
    for record in landmarks:
        cells = [
            repr(float(record[number, "xy".index(axis)])) for number, axis in order
        ]
        lines.append(",".join([*["a"] * len(columns), *cells]))
    path.write_text("\n".join(lines) + "\n")
    return KendallShapes(15).project(landmarks)


PAIRED = [(number, axis) for number in range(15) for axis in "xy"]
BY_AXIS = [(number, axis) for axis in "xy" for number in range(15)]


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [("landmarks", PAIRED, BY_AXIS), ("landmarks-xxyy", BY_AXIS, PAIRED)],
)
def test_a_header_of_landmarks_in_another_order_is_refused(
    tmp_path, form, right, wrong
):
    space, path = KendallShapes(15), tmp_path / "x.csv"
    choices = {"form": form, "header": True}
    shapes = _shape_file(path, right)
    for columns in ("1-30", ["1-30"], ["1-10", "11-29", 30], list(range(1, 31))):
        found = read_records(path, space, columns=columns, **choices)
        np.testing.assert_allclose(space.dist(found, shapes), 0, atol=1e-7)

    shapes = _shape_file(path, wrong)
    other = "landmarks" if form == "landmarks-xxyy" else "landmarks-xxyy"
    for columns in ("1-30", list(range(1, 31))):
        with pytest.raises(ParameterError, match=f"does not agree.*{other}"):
            read_records(path, space, columns=columns, **choices)
    names = [f"{axis}{number + 1}" for number, axis in right]
    found = read_records(path, space, columns=names, **choices)
    np.testing.assert_allclose(space.dist(found, shapes), 0, atol=1e-7)


@pytest.mark.parametrize(
    "names",
    [
        "x{0},y{0}", "X_{0:02d},Y_{0:02d}", "{0}x,{0}y", "lm{0}_x,lm{0}_y", "x({0}),y({0})"
    ],
)  # fmt: skip
@pytest.mark.parametrize("first", [0, 1, 7])
def test_landmarks_are_known_by_many_names(names, first):
    form = find_form("landmarks", KendallShapes(3))
    pairs = [names.format(number).split(",") for number in range(first, first + 3)]
    paired = [name for pair in pairs for name in pair]
    by_axis = [pair[axis] for axis in range(2) for pair in pairs]
    swapped = [name for pair in pairs for name in reversed(pair)]
    check_order("X", form, paired)
    for wrong in (by_axis, swapped):
        with pytest.raises(ParameterError, match="does not agree"):
            check_order("X", form, wrong)
    check_order("X", form, ["x1", "x2", "a", "b", "c", "d"])  # which say nothing


LATITUDES = {
    "de": ("Breite", "Länge"),
    "de, typed": ("geogr. Breite", "geogr. Laenge"),
    "fr": ("latitude", "longitude"),
    "es": ("Latitud", "Longitud"),
    "it": ("latitudine", "longitudine"),
    "nl": ("breedtegraad", "lengtegraad"),
    "sv": ("Breddgrad", "Längdgrad"),
    "da": ("Breddegrad", "Længdegrad"),
    "fi": ("leveysaste", "pituusaste"),
    "pl": ("szerokość", "długość"),
    "cs": ("šířka", "délka"),
    "hu": ("szélesség", "hosszúság"),
    "tr": ("enlem", "boylam"),
    "ru": ("Широта", "Долгота"),
    "el": ("πλάτος", "μήκος"),
    "zh": ("纬度", "经度"),
    "ja": ("緯度", "経度"),
    "ko": ("위도", "경도"),
    "poles": ("plat", "plon"),
    "signs": ("φ", "λ"),
}


@pytest.mark.parametrize("language", LATITUDES)
@pytest.mark.parametrize("writing", ["NFC", "NFD"])
def test_longitudes_before_latitudes_are_refused_in_any_language(
    tmp_path, language, writing
):
    latitude, longitude = LATITUDES[language]
    choices = {"form": "latlon-degrees", "header": True, "sep": ";"}
    for names in ((latitude, longitude), (longitude, latitude)):
        header = unicodedata.normalize(writing, ";".join(names))
        path = tmp_path / "x.csv"
        path.write_text(f"{header}\n1;2\n", encoding="utf-8")
        if names[0] == latitude:
            assert read_records(path, Sphere(2), **choices).shape == (1, 3)
        else:
            with pytest.raises(ParameterError, match="does not agree"):
                read_records(path, Sphere(2), **choices)


@pytest.mark.parametrize("size", [2, 3, 4, 11])
def test_both_triangles_are_read_and_told_apart_by_their_header(size):
    space = SPDAffineInvariant(size)
    factor = np.random.default_rng(2).normal(size=(5, size, size))
    records = factor + factor.swapaxes(1, 2)
    triangles = {"lower": np.tril_indices(size), "upper": np.triu_indices(size)}
    for form, (i, j) in triangles.items():
        found = read_records(records[:, i, j], space, form=form)
        np.testing.assert_array_equal(found, records)
        other = "upper" if form == "lower" else "lower"
        for names in (
            [f"C_{a + 1}_{b + 1}" for a, b in zip(i, j, strict=True)],
            [f"cov({a},{b})" for a, b in zip(i, j, strict=True)],
        ):
            check_order("X", find_form(form, space), names)
            if size == 2:  # both triangles of two rows are the same three numbers
                check_order("X", find_form(other, space), names)
                continue
            with pytest.raises(ParameterError, match=form):
                check_order("X", find_form(other, space), names)


def test_ten_columns_of_a_matrix_suggest_both_triangles():
    with pytest.raises(ParameterError, match=r"by its form \(upper, lower\)"):
        read_records(np.zeros((5, 10)), SPDAffineInvariant(4))


@pytest.mark.parametrize(
    "columns", ["5-2", ["1-3", 4, 5], "2:32", ["0-99999999"], ["x-y"], "1-", ["-3"]]
)
def test_ranges_of_columns_that_do_not_fit_are_refused(tmp_path, columns):
    path = tmp_path / "x.csv"
    path.write_text("a,b,c,d,e,f\n1,2,3,4,5,6\n")
    with pytest.raises(ParameterError):
        read_records(path, Sphere(2), columns=columns, header=True)


def test_a_column_that_is_called_like_a_range_is_that_column(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("0-2,b,c,d,e\n1,2,3,4,5\n")
    found = read_records(path, Sphere(2), columns=["0-2", "2-3"], header=True)
    assert found.tolist() == [[1.0, 3.0, 4.0]]


NORTH, EAST, DOWN = np.eye(3)


@pytest.mark.parametrize(
    ("form", "numbers", "point"),
    [
        ("decinc-degrees", [0, 0], NORTH),
        ("decinc-degrees", [90, 0], EAST),
        ("decinc-degrees", [17, 90], DOWN),
        ("decinc-degrees", [350, 60], [0.492404, -0.0868241, 0.8660254]),
        ("trend-plunge-degrees", [90, 30], [0, np.sqrt(0.75), 0.5]),
        ("dipdir-dip-degrees", [123, 0], -DOWN),
        ("dipdir-dip-degrees", [90, 90], EAST),
        ("dipdir-dip-degrees", [90, 180], DOWN),
        ("dipdir-dip-degrees", [0, 30], [0.5, 0, -np.sqrt(0.75)]),
        ("colatlon-degrees", [0, 5], DOWN),
        ("colatlon-degrees", [90, 90], EAST),
        ("colatlon-degrees", [120, 0], [np.sqrt(0.75), 0, -0.5]),
    ],
)
def test_directions_as_geologists_write_them(form, numbers, point):
    found = read_records(np.array([numbers], dtype=float), S2, form=form)
    np.testing.assert_allclose(found[0], point, atol=1e-6)


def test_angles_that_no_direction_has():
    beyond = {
        "decinc-degrees": [[0, 90.1], [0, -91]],
        "dipdir-dip-degrees": [[0, -1], [0, 181]],
        "colatlon-degrees": [[-1, 0], [181, 0]],
    }
    for form, rows in beyond.items():
        found = read_records(np.array(rows, dtype=float), S2, form=form)
        assert np.isnan(found).all()


# Headers of geologists, from the data sets of Fisher, Lewis and Embleton (1987) and in
# German, with the forms that may read them.
HEADERS = {
    ("Dec. (°)", "Inc. (°)"): {"decinc-degrees", "trend-plunge-degrees"},
    ("Deklination", "Inklination"): {"decinc-degrees", "trend-plunge-degrees"},
    ("Inklination", "Deklination"): {"latlon-degrees"},
    ("trend", "plunge"): {"decinc-degrees", "trend-plunge-degrees"},
    ("plunge", "plunge_az"): {"latlon-degrees"},
    ("Dip dir. (°)", "Dip (°)"): {"dipdir-dip-degrees"},
    ("Fallrichtung", "Fallen"): {"dipdir-dip-degrees"},
    ("Dip (°)", "Dip dir. (°)"): set(),
    ("colat", "long"): {"colatlon-degrees"},
    ("Lat. (°)", "Long. (°)"): {"latlon-degrees"},
    ("Länge", "Breite"): set(),
}


@pytest.mark.parametrize("names", HEADERS, ids=str)
def test_headers_of_directions(tmp_path, names):
    """A declination is no latitude, and the dip of a plane is no inclination."""
    path = tmp_path / "x.csv"
    path.write_text(",".join(names) + "\n30,40\n", encoding="utf-8")
    accepted = set()
    for form in FORMS:
        if not form.endswith("-degrees") or form.startswith(("angles", "rot", "axis")):
            continue
        with contextlib.suppress(ParameterError):
            read_records(path, S2, form=form, header=True)
            accepted.add(form)
    assert accepted == HEADERS[names]


def test_a_header_names_the_form_that_suits_it(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("Deklination;Inklination\n30;40\n", encoding="utf-8")
    with pytest.raises(ParameterError, match="choose decinc-degrees"):
        read_records(path, S2, form="latlon-degrees", header=True, sep=";")
