"""Groups are compared under one guarantee: a test, their means and an effect size."""

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp import GDP, Ledger, PureDP
from curvedp.cli import app
from curvedp.core.certificate import Certificate
from curvedp.errors import BudgetExceeded, CurvedpError, ParameterError
from curvedp.estimators.comparison import compare_groups, compare_pairs
from curvedp.geometry import Euclidean, SPDBuresWasserstein, Sphere, Torus
from curvedp.release.verify import verify_certificate

S = Sphere(2)


def group(seed, shift, n=300):
    """Directions around (shift, 0) in coordinates, with standard deviations of 0.2."""
    z = 0.2 * np.random.default_rng(seed).normal(size=(n, 2)) + [shift, 0.0]
    return np.asarray(S.from_normal_coordinates(S.origin, z))


@pytest.mark.parametrize("radius", [1.0, "private"])
def test_a_comparison_finds_the_difference_and_its_size(radius, tmp_path):
    ledger = Ledger(tmp_path / "x.ledger", GDP(2.0), unit="record_in_class")
    found = compare_groups(
        S, (group(1, 0.0), group(2, 0.3)), radius, guarantee=GDP(2.0), ledger=ledger
    )
    assert found.test.rejected
    # The spread is 0.2·√2 and the means are 0.3 apart; noise moves both by little.
    assert found.largest_distance == pytest.approx(0.3, abs=0.08)
    assert found.spread == pytest.approx(0.283, abs=0.04)
    assert set(found.regions) == {"1", "2"}

    # All of the budget is spent, and nothing more: the parts add up to the guarantee.
    assert ledger.spent.mu == pytest.approx(2.0, rel=1e-9)
    assert ledger.remaining is None or ledger.remaining.mu < 1e-5
    certificates = [found.test.certificate, *found.means.certificates_]
    for certificate in certificates:
        assert all(check.holds for check in verify_certificate(certificate))
    with pytest.raises(BudgetExceeded):
        compare_groups(S, (group(1, 0.0), group(2, 0.3)), 1.0, ledger=ledger)


def test_what_cannot_be_paid_for_is_refused_before_the_first_part(tmp_path):
    samples = (group(1, 0.0), group(2, 0.3))
    of_records = Ledger(tmp_path / "r.ledger", GDP(2.0), unit="record")
    with pytest.raises(ParameterError, match="record_in_class"):
        compare_groups(S, samples, "private", ledger=of_records)
    small = Ledger(tmp_path / "s.ledger", GDP(0.9), unit="record_in_class")
    with pytest.raises(BudgetExceeded):
        compare_groups(S, samples, "private", guarantee=GDP(1.0), ledger=small)
    assert of_records.entries == small.entries == []
    with pytest.raises(ParameterError, match="GDP"):
        compare_groups(S, samples, 1.0, guarantee=PureDP(1.0))


def test_persons_are_the_unit_where_ids_are_given():
    ids = [np.repeat(np.arange(100), 3), np.repeat(np.arange(100, 200), 3)]
    found = compare_groups(
        S, (group(1, 0.0), group(2, 0.4)), 1.0, guarantee=GDP(3.0), groups=ids
    )
    units = {each.privacy_unit.value for each in found.means.certificates_}
    assert units == {found.test.certificate.privacy_unit.value} == {"person_in_class"}


A, B = group(1, 0.0, 60), group(2, 0.3, 50)
IDS = [np.arange(60) // 2, 100 + np.arange(50) // 2]
MISTAKES = [
    {"level": 2.0},
    {"permutations": 0},
    {"permutations": 3},
    {"label": "\x1b[8m"},
    {"label": 3},
    {"source": 3},
    {"center": [1.0, 2.0]},
    {"names": ["a", ""]},
    {"names": ["a", "nan"]},
    {"names": ["a", "\x1b[8m"]},
    {"names": ["a", "a"]},
    {"names": [1, 2]},
    {"names": "ab"},
    {"samples": (A,)},
    {"samples": ()},
    {"samples": (A, B[:1])},
    {"samples": (A, B[:0])},
    {"samples": (A, B[:, :2])},
    {"groups": [np.zeros(60), IDS[1]]},
    {"groups": [IDS[0], np.arange(50)]},
    {"groups": [IDS[0], IDS[1][:9]]},
    {"groups": [IDS[0], [str(one - 100) for one in IDS[1]]]},
]


@pytest.mark.parametrize("radius", [1.0, "private"])
@pytest.mark.parametrize("mistake", MISTAKES, ids=repr)
def test_no_part_is_paid_before_all_are_known_to_be_possible(tmp_path, mistake, radius):
    groups = mistake.get("groups")
    unit = "record_in_class" if groups is None else "person_in_class"
    ledger = Ledger(tmp_path / "x.ledger", GDP(9.0), unit=unit)
    arguments = {"samples": (A, B), "radius": radius, "ledger": ledger, **mistake}
    try:
        compare_groups(S, guarantee=GDP(4.0), **arguments)
    except CurvedpError:
        assert not ledger.entries
    else:
        assert mistake == {"names": ["a", "nan"]}  # a name like any other


@pytest.mark.parametrize("radius", [3.0, "private"])
@pytest.mark.parametrize(
    "space", [S, Torus(2), SPDBuresWasserstein(2)], ids=lambda space: repr(space)
)
def test_where_no_region_follows_nothing_is_lost(space, radius):
    rng = np.random.default_rng(0)
    normals = 2.0 * rng.normal(size=(200, space.dim))
    points = np.asarray(space.from_normal_coordinates(space.origin, normals))
    found = compare_groups(space, (points[:120], points[120:]), radius, None, GDP(4.0))
    assert found.regions == {}
    assert found.warnings
    assert np.isfinite(found.effect_size)


@pytest.mark.parametrize("cell", ["Frau Mueller", None, 1 + 0j, [1, 2], 10**400])
def test_no_record_refuses_a_comparison_or_is_quoted(cell):
    rows = B.tolist()
    rows[7] = [cell, 0.0, 1.0]
    rows[8] = cell
    assert compare_groups(S, (A, rows), 1.0, guarantee=GDP(4.0)).test.level == 0.05


def pairs(shift, n=300):
    """Directions measured twice; the second time they are moved by about `shift`."""
    rng = np.random.default_rng(0)
    first = 0.2 * rng.normal(size=(n, 2))
    second = first + [shift, 0.0] + 0.03 * rng.normal(size=(n, 2))
    return [np.asarray(S.from_normal_coordinates(S.origin, z)) for z in (first, second)]


@pytest.mark.parametrize("radius", [1.0, "private"])
def test_a_comparison_of_pairs_finds_the_difference_and_its_size(radius, tmp_path):
    ledger = Ledger(tmp_path / "x.ledger", GDP(2.0), unit="person")
    names = ["before", "after"]
    found = compare_pairs(
        S, *pairs(0.3), radius, guarantee=GDP(2.0), names=names, ledger=ledger
    )
    assert found.test.rejected
    assert found.largest_distance == pytest.approx(0.3, abs=0.08)
    assert found.spread == pytest.approx(0.283, abs=0.05)
    assert set(found.regions) == set(names)
    assert list(found.certificates)[-2:] == ["test", "means"]
    assert len(found.certificates) == len(ledger.entries)
    assert ledger.spent.mu == pytest.approx(2.0, rel=1e-9)
    for certificate in found.certificates.values():
        assert certificate.privacy_unit.value == "person"
        assert all(check.holds for check in verify_certificate(certificate))


def test_a_pair_is_compared_with_itself_and_not_with_a_stranger():
    """A shift of a tenth of the spread is found in pairs, and not between groups."""
    first, second = pairs(0.05)
    assert compare_pairs(S, first, second, 0.5, guarantee=GDP(9.0)).test.rejected
    shuffled = second[np.random.default_rng(1).permutation(300)]
    assert not compare_pairs(S, first, shuffled, 0.5, guarantee=GDP(9.0)).test.rejected


def test_several_pairs_of_a_person_count_once():
    ids = [f"P{number // 3}" for number in range(300)]
    found = compare_pairs(S, *pairs(0.3), 1.0, guarantee=GDP(4.0), groups=ids)
    assert {each.statistic.get("n") for each in found.certificates.values()} <= {
        100,
        None,
    }
    assert found.test.certificate.statistic["sizes"] == [100, 100]


PAIR_MISTAKES = [
    {"level": 2.0},
    {"permutations": 3},
    {"label": "\x1b[8m"},
    {"source": 3},
    {"center": [1.0, 2.0]},
    {"names": ["a", "a"]},
    {"names": ["a"]},
    {"groups": np.arange(59)},
    {"groups": np.zeros(60)},
    {"second": B},
    {"second": A[:, :2]},
    {"guarantee": PureDP(1.0)},
    {"guarantee": GDP(9.5)},
]


@pytest.mark.parametrize("radius", [1.0, "private", -1.0, "public"])
@pytest.mark.parametrize("mistake", PAIR_MISTAKES, ids=repr)
def test_no_part_of_pairs_is_paid_before_all_are_possible(tmp_path, mistake, radius):
    ledger = Ledger(tmp_path / "x.ledger", GDP(9.0), unit="person")
    arguments = {"first": A, "second": A, "guarantee": GDP(4.0), **mistake}
    with pytest.raises(CurvedpError):
        compare_pairs(S, radius=radius, ledger=ledger, **arguments)
    assert not ledger.entries
    of_records = Ledger(tmp_path / "r.ledger", GDP(9.0), unit="record")
    with pytest.raises(ParameterError, match="person"):
        compare_pairs(S, A, A, 1.0, guarantee=GDP(4.0), ledger=of_records)
    assert not of_records.entries


@pytest.mark.parametrize("cell", ["Frau Mueller", None, 1 + 0j, [1, 2], 10**400])
def test_no_record_refuses_a_comparison_of_pairs(cell):
    rows = A.tolist()
    rows[7] = [cell, 0.0, 1.0]
    rows[8] = cell
    assert compare_pairs(S, A, rows, 1.0, guarantee=GDP(4.0)).test.level == 0.05


def write_csv(path, points, labels):
    """Write latitudes and longitudes in degrees, with the group of each."""
    latitude = np.degrees(np.arcsin(points[:, 2]))
    longitude = np.degrees(np.arctan2(points[:, 1], points[:, 0]))
    rows = zip(latitude, longitude, labels, strict=True)
    lines = [f"{lat},{lon},{label}" for lat, lon, label in rows]
    path.write_text("\n".join(["lat,lon,unit", *lines]) + "\n")


def test_the_shell_compares_files_and_columns(tmp_path):
    A, B = group(1, 0.0), group(2, 0.5)
    write_csv(tmp_path / "a.csv", A, ["a"] * len(A))
    write_csv(tmp_path / "b.csv", B, ["b"] * len(B))
    write_csv(tmp_path / "c.csv", np.concatenate([A, B]), ["a"] * 300 + ["b"] * 300)
    common = ["-m", "sphere:2", "--header", "--columns", "lat,lon"]
    common += ["--as", "latlon-degrees", "-r", "1.0", "--mu", "2"]

    def run(*arguments):
        return CliRunner().invoke(app, ["test", *map(str, arguments), *common])

    two_files = run("two-sample", tmp_path / "a.csv", tmp_path / "b.csv")
    assert two_files.exit_code == 0, two_files.output
    assert "a and b differ" in two_files.output
    assert "effect size" in two_files.output
    assert "latitude" in two_files.output
    one_file = run("k-sample", tmp_path / "c.csv", "--labels", "unit")
    assert "a and b differ" in one_file.output
    paired = run("paired", tmp_path / "a.csv", tmp_path / "b.csv")
    assert "a and b differ" in paired.output
    assert "effect size" in paired.output
    assert run("two-sample", tmp_path / "a.csv").exit_code == 2


def write_pairs(folder):
    """Write first and second measurements, and the person of each; return the files."""
    for name, points in zip(("before", "after"), pairs(0.3), strict=True):
        (folder / name).mkdir()
        write_csv(folder / name / "day.csv", points, [f"P{i // 2}" for i in range(300)])
    return [folder / name / "day.csv" for name in ("before", "after")]


def shell_pairs(*arguments):
    """Run `curvedp test paired` on files with latitudes and longitudes."""
    typed = ["paired", *arguments, "-m", "sphere:2", "--as", "latlon-degrees"]
    return CliRunner().invoke(app, ["test", *map(str, typed), "--header"])


def test_the_shell_compares_pairs_with_a_private_ball(tmp_path):
    files = write_pairs(tmp_path)
    ledger = tmp_path / "x.ledger"
    found = shell_pairs(
        *files, "-r", "private", "--mu", 2, "--groups", "unit", "--ledger", ledger,
        *("--budget-mu", 2, "--certificate", tmp_path / "c.json"),
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    output = found.output.replace("\n", " ")
    assert f"{files[0].with_suffix('')} and {files[1].with_suffix('')} differ" in output
    assert "effect size" in output
    entries = Ledger(ledger).entries
    assert {entry.unit.value for entry in entries} == {"person"}
    assert len(list(tmp_path.glob("c-*.json"))) == len(entries) == 3


def test_pairs_by_pure_dp_are_tested_alone(tmp_path):
    files = write_pairs(tmp_path)
    found = shell_pairs(*files, "--columns", "lat,lon", "-r", 1.0, "--epsilon", 2)
    assert "differ" in found.output
    assert "effect size" not in found.output
    found = shell_pairs(*files, "--columns", "lat,lon", "-r", "private", "--epsilon", 2)
    assert found.exit_code == 2
    assert "GDP" in found.output


def test_pairs_of_two_people_are_refused(tmp_path):
    first, second = write_pairs(tmp_path)
    second.write_text(second.read_text().replace(",P7\n", ",Q7\n"))
    found = shell_pairs(first, second, "--groups", "unit", "-r", 1.0, "--mu", 2)
    assert found.exit_code == 2
    assert "the same person" in found.output


def test_the_column_of_labels_need_not_be_left_out_by_hand(tmp_path):
    points = np.concatenate([group(1, 0.0), group(2, 0.5)])
    write_csv(tmp_path / "c.csv", points, ["a"] * 300 + ["b"] * 300)
    arguments = ["two-sample", str(tmp_path / "c.csv"), "--labels", "unit", "--header"]
    arguments += ["-m", "sphere:2", "--as", "latlon-degrees", "-r", "1.0", "--mu", "2"]
    found = CliRunner().invoke(app, ["test", *arguments])
    assert "a and b differ" in found.output


def shell_test(path, *arguments):
    """Run `curvedp test two-sample` on a file of two groups."""
    write_csv(
        path,
        np.concatenate([group(1, 0.0), group(2, 0.5)]),
        ["a"] * 300 + ["b"] * 300,
    )
    typed = ["two-sample", path, "--labels", "unit", "--header", "-m", "sphere:2"]
    typed += ["--as", "latlon-degrees", "-r", "1.0", "--mu", "2", *arguments]
    return CliRunner().invoke(app, ["test", *map(str, typed)])


def test_a_certificate_that_cannot_be_written_is_refused_before_paying(tmp_path):
    ledger = Ledger(tmp_path / "x.ledger", GDP(9.0), unit="record_in_class")
    payment = ("--ledger", tmp_path / "x.ledger")
    for target in (tmp_path / "nowhere" / "c.json", tmp_path, tmp_path / "x.ledger"):
        found = shell_test(tmp_path / "c.csv", "--certificate", target, *payment)
        assert found.exit_code == 2
    found = shell_test(tmp_path / "c.csv", "--ledger-key", tmp_path / "key")
    assert "--ledger-key goes with --ledger" in found.output
    assert not ledger.entries


def test_what_was_paid_is_printed_where_a_certificate_is_not_written(
    tmp_path, monkeypatch
):
    def full_disk(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Certificate, "save", full_disk)
    found = shell_test(tmp_path / "c.csv", "--certificate", tmp_path / "c.json")
    assert found.exit_code == 2
    assert "No space left on device" in found.output
    assert '"effect_size"' in found.output
    assert '"certificates"' in found.output


def test_certificates_are_named_after_what_they_are_of(tmp_path):
    ledger = Ledger(tmp_path / "x.ledger", GDP(9.0), unit="record_in_class")
    found = shell_test(
        tmp_path / "c.csv",
        *("--certificate", tmp_path / "c.json", "--as-user", "anna"),
        *("--ledger", tmp_path / "x.ledger"),
    )
    names = ["c-1-test.json", "c-2-mean-of-class-a.json", "c-3-mean-of-class-b.json"]
    assert sorted(path.name for path in tmp_path.glob("*.json")) == names
    assert all(name in found.output.replace("\n", "") for name in names)
    assert all(", by anna" in entry.label for entry in ledger.entries)


def test_a_space_too_large_for_listed_numbers_is_refused_before_paying(tmp_path):
    """The spread within groups is read off the numbers that a certificate lists."""
    ledger = Ledger(tmp_path / "budget.json", budget=GDP(2.0), unit="record_in_class")
    samples = (np.zeros((3, 16384)), np.ones((3, 16384)))
    with pytest.raises(ParameterError, match="lists at most 16384"):
        compare_groups(Euclidean(16384), samples, 1.0, ledger=ledger)
    assert not ledger.entries
