"""Released points are written in the form in which records were read, and read back."""

import numpy as np
import pytest

from curvedp.geometry import (
    KendallShapes,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    Sphere,
    Torus,
)
from curvedp.inference.error_bars import distance_sentence
from curvedp.records.forms import FORMS, find_form
from curvedp.records.output_forms import (
    align_shape,
    align_to_center,
    form_of_columns,
    output_form,
)

CASES = [
    ("latlon-degrees", Sphere(2)),
    ("latlon-radians", Sphere(2)),
    ("colatlon-degrees", Sphere(2)),
    ("decinc-degrees", Sphere(2)),
    ("trend-plunge-degrees", Sphere(2)),
    ("dipdir-dip-degrees", Sphere(2)),
    ("angles-degrees", Torus(3)),
    ("angles-radians", Torus(3)),
    *((name, Rotations(3)) for name in FORMS if name.startswith(("q", "rot", "axis"))),
    *((name, SPDAffineInvariant(3)) for name in FORMS if name.startswith("tensor6")),
    *((name, SPDAffineInvariant(4)) for name in ("upper", "lower")),
    *((name, KendallShapes(5)) for name in ("landmarks", "landmarks-xxyy")),
]


@pytest.mark.parametrize(("name", "space"), CASES, ids=str)
def test_a_written_point_is_read_as_the_same_point(name, space):
    rng = np.random.default_rng(4)
    for _ in range(20):
        z = 0.8 * rng.normal(size=space.dim)
        point = np.asarray(space.from_normal_coordinates(space.origin, z))
        form = output_form(name, space)
        numbers = np.asarray(form.numbers(point))
        assert numbers.shape == (len(form.columns),)
        read = find_form(name, space).points(
            numbers.reshape(1, *find_form(name, space).shape)
        )
        assert np.allclose(read[0], point, rtol=1e-12, atol=1e-14)
        assert form_of_columns(form.columns, space) == name


def test_every_form_of_these_spaces_is_written():
    assert {name for name, _ in CASES} == set(FORMS) - {"counts"}
    proportions = output_form("counts", Simplex(4))
    assert proportions.name is None  # counts are not known from proportions
    assert len(proportions.columns) == Simplex(4).point_shape[0]


def test_words_have_units():
    form = output_form("latlon-degrees", Sphere(2))
    assert form.sentence(np.array([0.0, 1.0, 0.0])) == "latitude 0°, longitude 90°"
    decinc = output_form("decinc-degrees", Sphere(2))
    west = np.array([0.0, -1.0, 0.0])
    assert decinc.sentence(west) == "declination 270°, inclination 0°"
    bedding = output_form("dipdir-dip-degrees", Sphere(2))
    assert bedding.sentence(np.array([0.0, 0.0, -1.0])) == "dip direction 0°, dip 0°"
    axis_angle = output_form("axis-angle-degrees", Rotations(3))
    turned = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert axis_angle.sentence(turned) == "axis x 0, axis y 0, axis z 1, angle 90°"
    assert distance_sentence(Sphere(2), np.pi / 6) == "0.5236 (30°)"
    assert distance_sentence(SPDAffineInvariant(2), 0.5) == "0.5"


def test_shapes_are_turned_and_not_changed():
    space = KendallShapes(6)
    rng = np.random.default_rng(2)
    shape = np.asarray(space.project(rng.normal(size=(6, 2))))
    angle = 2.0
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned = shape @ turn.T
    for reference in (None, shape):
        first, second = align_shape(shape, reference), align_shape(turned, reference)
        assert np.allclose(first, second)
        assert float(space.dist(first, shape)) < 1e-7
    assert np.allclose(align_to_center(space, turned, shape), shape)
    lying = align_to_center(space, turned, None)
    assert lying[0, 0] > 0
    assert abs(lying[0, 1]) < 1e-12
