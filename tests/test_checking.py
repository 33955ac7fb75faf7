"""`check`: every mistake that was made with real files is named, the first line says NOT private, and it is quick."""

import json
import time

import numpy as np
import pytest

from curvedp import check
from curvedp.errors import ParameterError
from curvedp.geometry import (
    Correlation,
    Euclidean,
    KendallShapes,
    Lorentz,
    Rotations,
    SPDAffineInvariant,
    Sphere,
    Torus,
)
from support.rough_records import cloud
from support.spaces import SPACES

RNG = np.random.default_rng(0)
S2, SPD3 = Sphere(2), SPDAffineInvariant(3)
DIRECTIONS = S2.project(RNG.normal([3.0, 0, 0], 0.4, (200, 3)))
A = np.eye(3) + 0.3 * RNG.normal(size=(200, 3, 3))
TENSORS = A @ A.swapaxes(1, 2)


def said(found):
    return " ".join(found.advice)


@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_every_space_is_checked_whatever_the_records(M):
    found = check(M, cloud(M, 0.5, 60), radius=0.5, groups=np.arange(60) // 2)
    assert found.facts["records"] == 60
    assert found.facts["not finite"] == 2
    assert found.facts["persons"] == 30
    assert str(found).splitlines()[0].startswith("NOT PRIVATE")
    assert "NOT PRIVATE" in found._repr_html_()
    assert repr(found) == str(found)
    assert json.loads(json.dumps(found.to_dict()))["warning"].startswith("NOT PRIVATE")
    assert "is itself a release" in found.advice[-1]


@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_points_are_not_taken_for_something_else(M):
    """Those of many spaces differ in length from the center and among themselves."""
    coordinates = 0.4 * RNG.normal(size=(60, M.dim)) / np.sqrt(M.dim)
    found = check(
        M, np.asarray(M.exp(M.origin, M.from_coordinates(M.origin, coordinates)))
    )
    assert [
        line[:20]
        for line in found.advice[:-1]
        if not line.startswith("99% of them fit into")
    ] == []


def test_what_is_missing_is_counted():
    X = DIRECTIONS.copy()
    X[:5], X[5:7] = np.nan, 0.0
    X[8] = X[7]
    facts = check(S2, X, radius=0.3).facts
    assert (
        facts["not finite"],
        facts["zero or singular"],
        facts["copies of another record"],
    ) == (5, 2, 2)
    distance = S2.dist(S2.origin, np.delete(X, np.r_[:7], 0))
    assert facts["outside the ball"] == int((distance > 0.3).sum())
    assert facts["distance to the center"][0] == pytest.approx(
        np.median(distance), rel=0.01
    )
    singular = TENSORS.copy()
    singular[3] = np.outer([1, 2, 3], [1, 2, 3])
    singular[4] = -np.eye(3)
    assert check(SPD3, singular).facts["zero or singular"] == 2


@pytest.mark.parametrize("decimals", [3, 4, 5])
def test_rounded_directions(decimals):
    found = check(S2, DIRECTIONS.round(decimals))
    assert found.facts["decimals written"] == decimals
    assert (
        found.facts["distance off the manifold (50/90/99/100%)"][-1] < 10.0**-decimals
    )
    assert "sphere:2" in found.facts["spaces they fit"]
    assert check(S2, DIRECTIONS).facts["decimals written"] is None


def test_wrong_units():
    volts = check(SPD3, TENSORS * 1e-10, radius=2.0)
    assert "e-10 times the center: change the units, choose a center" in said(volts)
    assert volts.facts["outside the ball"] == 200
    right = check(SPD3, TENSORS * 1e-10, center=1e-10 * np.eye(3), radius=5.0)
    assert "units" not in said(right)
    assert right.facts["outside the ball"] == 0
    assert "6370 times as long as points" in said(check(S2, DIRECTIONS * 6371.0))
    assert "other units" not in said(check(S2, DIRECTIONS))


def test_a_center_at_zero_has_no_scale():
    flat = said(check(Euclidean(3), 1e6 * DIRECTIONS))
    assert "times" not in flat
    assert "degrees" not in flat


def test_latitudes_taken_for_points():
    places = np.column_stack([RNG.uniform(-80, 80, 100), RNG.uniform(-180, 180, 100)])
    with pytest.raises(ParameterError, match="latlon-degrees"):
        check(S2, places)
    found = said(check(S2, np.column_stack([places, np.ones(100)])))
    assert "need a form" in found
    assert "degrees?" in found
    assert "degrees?" not in said(check(S2, places, form="latlon-degrees"))
    assert "degrees?" in said(check(Torus(2), places))
    assert "degrees?" not in said(check(Torus(2), places, form="angles-degrees"))


def test_the_ball():
    assert "a smaller ball would need less noise" in said(
        check(S2, S2.project(DIRECTIONS * [1, 0.01, 0.01]), radius=1.0)
    )
    assert "Outside the ball" in said(check(S2, DIRECTIONS, radius=0.1))
    assert "choose another center" in said(check(S2, -DIRECTIONS, radius=1.0))
    near = check(S2, -DIRECTIONS, center=[-1.0, 0, 0], radius=1.0)
    assert "choose another center" not in said(near)
    assert near.facts["distance from their mean to the center"] < 0.1


def test_persons():
    assert "up to 4 records" in said(
        check(S2, DIRECTIONS, groups=[i // 4 for i in range(200)])
    )
    assert "pass groups=" not in said(check(S2, DIRECTIONS, groups=np.arange(200)))
    mixed = np.array(
        ["a", 1, *range(198)], dtype=object
    )  # as `fit` counts them: 1 and 1 are one person
    assert check(S2, DIRECTIONS, groups=mixed).facts["persons"] == 199
    for wrong in (
        np.arange(3),
        [None] * 200,
        [np.nan] * 200,
        np.array([None, *range(199)], dtype=object),
    ):
        with pytest.raises(ParameterError, match="groups"):
            check(S2, DIRECTIONS, groups=wrong)


def test_no_radius_is_suggested_that_is_refused():
    around = S2.project(RNG.normal(size=(200, 3)))
    assert "more than a given ball may have" in said(check(S2, around))
    assert "more than a given ball may have" not in said(check(S2, DIRECTIONS))


def test_the_space_that_fits_is_named():
    assert "sphere:2" in check(Euclidean(3), DIRECTIONS).facts["spaces they fit"]
    rotations = Rotations(3).project(RNG.normal(size=(50, 3, 3)))
    assert "rotations:3" in check(SPD3, rotations).facts["spaces they fit"]
    assert (
        "kendall:6"
        in check(
            KendallShapes(6), KendallShapes(6).project(RNG.normal(size=(9, 6, 2)))
        ).facts["spaces they fit"]
    )
    assert (
        "lorentz:2"
        in check(Lorentz(2), cloud(Lorentz(2), 1.0, 40)).facts["spaces they fit"]
    )


def test_whatever_can_be_read_can_be_checked(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("id;x;y;z\n1;1,0;0;0\n2;0;1,0;0\n3;oops;0;1\n")
    found = check(S2, path, header=True, sep=";", decimal=",", columns=["x", "y", "z"])
    assert (found.facts["records"], found.facts["not finite"]) == (3, 1)
    wrong = check(S2, path, header=False)
    assert wrong.facts["not finite"] == 4
    assert "separator" in said(wrong)
    assert check(S2, [[1, 0, 0], None]).facts["not finite"] == 1
    dask = pytest.importorskip("dask.array", reason="chunks are dask's")
    assert (
        check(S2, dask.from_array(DIRECTIONS, chunks=(50, 3))).facts["records"] == 200
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"manifold": "sphere:2"}, "manifold="),
        ({"X": np.empty((0, 3))}, "no records"),
        ({"X": np.zeros((4, 4))}, "needs"),
        ({"radius": -1.0}, "radius="),
        ({"radius": np.nan}, "radius="),
        ({"center": [2.0, 0, 0]}, "center is not"),
        ({"center": [1.0, 0]}, "center is not"),
        ({"center": [np.nan, 0, 0]}, "center is not"),
        ({"center": "pole"}, "center must be"),
        ({"center": 1j}, "center must be"),
        ({"center": {}}, "center"),
        ({"center": 10**400}, "center must be"),
        ({"form": "latlon"}, "does not say enough"),
    ],
)
def test_public_parameters_that_do_not_fit_are_one_line(arguments, says):
    with pytest.raises(ParameterError, match=says) as caught:
        check(**{"manifold": S2, "X": DIRECTIONS, **arguments})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("wrong", [0.0, np.nan, -1.0])
def test_records_of_which_none_can_be_used(m, wrong):
    told = str(check(SPDAffineInvariant(m), np.full((5, m, m), wrong)))
    assert "5 of 5 records, which become the ball's center" in told


def test_singular_covariances_are_told_apart_from_files_that_are_misread():
    few = RNG.normal(size=(50, 6, 4))
    assert "fewer samples than channels" in said(
        check(SPDAffineInvariant(6), few @ few.swapaxes(1, 2))
    )
    assert "channels" not in said(
        check(SPDAffineInvariant(6), np.full((50, 6, 6), np.nan))
    )


def test_a_radius_is_of_the_space_that_was_asked_about():
    """Directions in other units: their angles are those of a sphere, of whatever else such numbers may be points."""
    told = str(check(Sphere(2), 57.3 * DIRECTIONS))
    assert "fit into sphere:2 with radius" in told
    assert "torus" not in told
    assert "torus:1" in str(check(Torus(1), RNG.uniform(0, 6, (20, 1))))


def test_one_record_is_not_enough():
    assert "at least 2" in said(check(S2, DIRECTIONS[:1]))


def test_a_hundred_thousand_tensors_take_seconds():
    B = np.eye(3) + 0.3 * RNG.normal(size=(100_000, 3, 3))
    X = B @ B.swapaxes(1, 2)
    used = []
    for _ in range(2):
        start = time.process_time()
        check(SPD3, X, radius=2.0, groups=np.arange(100_000) // 3)
        used.append(time.process_time() - start)
    assert (
        min(used) < 4.0
    )  # 2 s on a machine that does nothing else; twice that among other tests


def test_entries_that_are_computed_from_all_records_are_named():
    """As pyRiemann's ERPCovariances makes them: one block is the same in all records."""
    with_template = TENSORS + np.eye(3)
    with_template[:, :2, :2] = 4 * np.eye(2)
    found = check(SPD3, with_template)
    assert found.facts["entries that never vary"] == 4
    assert "4 of 9 entries are the same number in all records" in said(found)
    assert "ERPCovariances" in said(found)
    assert "never vary" not in said(check(SPD3, TENSORS))
    # The diagonal of a correlation matrix is 1 by nature, and copies are named as such.
    correlations = Correlation(3).from_record(TENSORS)
    assert check(Correlation(3), correlations).facts["entries that never vary"] == 0
    copies = np.repeat(TENSORS[:1], 50, axis=0)
    assert check(SPD3, copies).facts["entries that never vary"] == 0


def test_fisher_z_and_rounded_correlations_are_named():
    correlations = np.asarray(Correlation(3).from_record(TENSORS))
    zero_diagonal = correlations - np.eye(3)
    assert "Fisher's z" in said(check(Correlation(3), zero_diagonal))
    nearly = np.array([[1.0, 0.9, 0.3], [0.9, 1.0, 0.7], [0.3, 0.7, 1.0]])
    assert np.linalg.eigvalsh(nearly)[0] < 0
    found = check(Correlation(3), np.concatenate([correlations, nearly[None]]))
    assert found.facts["indefinite, repaired"] == 1
    assert "1 of 201 records, whose small eigenvalues are raised" in said(found)
    wrong = np.array([[1.0, 3.0, 0], [3.0, 1.0, 0], [0, 0, 1.0]])
    found = check(Correlation(3), np.concatenate([correlations, wrong[None]]))
    assert "Clearly indefinite" in said(found)


def test_options_can_be_carried_from_check_to_release():
    assert check(S2, DIRECTIONS, radius="private").facts["records"] == 200
    with pytest.raises(ParameterError, match="private"):
        check(S2, DIRECTIONS, radius="publc")


def test_decimal_commas_are_recognized(tmp_path):
    """The file of a spreadsheet in half of Europe, read with decimal points."""
    path = tmp_path / "x.csv"
    rows = "".join(f"{40 + i / 10:.1f};{8 + i / 10:.1f}\n" for i in range(1, 30))
    path.write_text("Breite;Länge\n" + rows.replace(".", ","))
    reading = {"header": True, "sep": ";", "form": "latlon-degrees"}
    assert "decimal commas" in check(Sphere(2), path, **reading).advice[0]
    right = check(Sphere(2), path, decimal=",", **reading)
    assert not any("decimal commas" in line for line in right.advice)
    path.write_text("lat;lon\n" + rows)
    assert not any(
        "decimal commas" in line for line in check(Sphere(2), path, **reading).advice
    )
    path.write_text("lat;lon\n" + "n.d.;n.d.\n" * 20)
    assert not any(
        "decimal commas" in line for line in check(Sphere(2), path, **reading).advice
    )


def test_a_folder_is_refused_with_what_to_do(tmp_path):
    np.save(tmp_path / "sub-1.npy", np.ones((3, 3)))
    with pytest.raises(ParameterError, match=r"folder.*np\.concatenate"):
        check(Sphere(2), tmp_path)
