"""Comparisons of groups in the studio: what is shown before, paid once, and written."""

import csv

import numpy as np
import pytest

from curvedp import GDP, Ledger
from curvedp.core.certificate import Certificate
from curvedp.errors import ParameterError
from curvedp.release.verify import verify_certificate
from curvedp.studio.desk import Desk
from studio.desks import Browser, paid

pytestmark = pytest.mark.usefixtures("plain_pictures")

N_PAIRS = 400


def shifted(seed, shift):
    points = np.random.default_rng(seed).normal([3.0, shift, 0], 0.3, (N_PAIRS, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def write_csv(path, blocks):
    """Write x, y, z, a person (four records each) and the name of the group."""
    lines = ["x,y,z,who,group"]
    for name, points in blocks.items():
        for i, (x, y, z) in enumerate(points):
            lines.append(f"{x},{y},{z},{name}{i // 4},{name}")
    path.write_text("\n".join([*lines, ""]))


GROUPS = {"left": shifted(1, 0.0), "right": shifted(2, 1.5)}


@pytest.fixture
def one_file(tmp_path):
    write_csv(tmp_path / "both.csv", GROUPS)
    desk = Desk(tmp_path / "out", tmp_path / "both.csv")
    yield desk
    desk.close()


@pytest.fixture
def two_files(tmp_path):
    paths = []
    for name, points in GROUPS.items():
        paths.append(tmp_path / f"{name}.csv")
        write_csv(paths[-1], {name: points})
    desk = Desk(tmp_path / "out", paths[0], further_files=paths[1:])
    yield desk
    desk.close()


def chosen(statistic="compare-groups", **more):
    return {
        "manifold": "sphere:2",
        "statistic": statistic,
        "header": True,
        "columns": "x,y,z",
        "radius": 0.7,
        "guarantee": {"kind": "gdp", "mu": 1.0},
        **more,
    }


def start(desk, study, mu=1.5):
    desk.start_ledger({"kind": "gdp", "mu": mu, "study": study})
    return {"study": study, "key": desk.plan({"study": study})["key"]}


def comparison_numbers(desk, folder="release-1"):
    text = (desk.folder / folder / "comparison.csv").read_text()
    return dict(csv.reader(text.splitlines()))


@pytest.mark.parametrize("groups", ["", "who"])
@pytest.mark.parametrize("radius", [0.7, "private"])
def test_files_are_groups(two_files, radius, groups):
    study = chosen(radius=radius, groups=groups)
    asked = start(two_files, study)
    plan = two_files.plan({"study": study})
    assert plan["n"] == (200 if groups else 800)
    assert (plan["classes"], plan["class_word"]) == (2, "group")
    assert plan["guarantee"] == "GDP(1.0)"
    assert 0 < plan["error"] < plan["ball"]
    release = two_files.release(asked)
    assert "left and right differ" in release["value"]
    assert release["guarantee"] == "GDP(1.0)"
    assert ("person" in release["unit"]) == bool(groups)

    # All parts together cost what was shown, and every certificate holds.
    ledger = Ledger(two_files.ledger_path)
    assert len(ledger.entries) == (3 if radius == "private" else 2)
    assert ledger.spent.mu == pytest.approx(1.0, abs=1e-9)
    assert ledger.spent.mu <= 1.0
    certificates = [name for name in release["files"] if name.endswith(".json")]
    assert len(certificates) == (4 if radius == "private" else 3)
    for name in certificates:
        certificate = Certificate.load(two_files.folder / "release-1" / name)
        checks = verify_certificate(certificate)
        assert all(check.holds is not False for check in checks)

    # The distance of the true means is arctan(1/2); an effect that is found is near it.
    numbers = comparison_numbers(two_files)
    assert numbers["difference found"] == "yes"
    assert float(numbers["p-value"]) <= 0.05
    distance = float(numbers["largest distance between means"])
    assert distance == pytest.approx(np.arctan2(1.5, 3.0), abs=0.25)
    table = (two_files.folder / "release-1/value.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in table] == ["group", "left", "right"]


def test_the_ledger_would_be_refused_before_anything_is_paid(two_files):
    """A ledger that took a mean of records does not count for a record in its group."""
    mean = {**chosen("mean"), "guarantee": {"kind": "gdp", "mu": 0.1}}
    asked = {"study": mean}
    two_files.further_files = []
    two_files.start_ledger({"kind": "gdp", "mu": 2.0, "study": mean})
    asked["key"] = two_files.plan(asked)["key"]
    two_files.release(asked)
    two_files.further_files = [two_files.data.with_name("right.csv")]
    with pytest.raises(ParameterError, match="another --folder"):
        two_files.plan({"study": chosen()})
    assert paid(two_files) == 1


def test_a_column_says_the_groups_and_a_click_pays_once(one_file):
    with pytest.raises(ParameterError, match="a file for each group"):
        one_file.plan({"study": chosen()})
    asked = start(one_file, chosen(column="group"))
    first = one_file.release(asked)
    assert one_file.release(asked) == first
    assert paid(one_file) == 2
    with pytest.raises(ParameterError, match="nothing was spent"):
        one_file.release({**asked, "key": asked["key"] + " "})
    assert paid(one_file) == 2


def test_a_ledger_with_too_little_left_is_shown_before(one_file):
    study = chosen(column="group")
    asked = start(one_file, study, mu=0.5)
    assert one_file.plan({"study": study})["exceeds"]
    client = Browser(one_file)
    client.enter()
    answer = client.post("/release", asked)
    assert answer.status_code == 400
    assert "does not fit" in answer.json()["error"]
    assert paid(one_file) == 0
    assert not (one_file.folder / "release-1").exists()


@pytest.mark.parametrize("use_column", [True, False])
def test_pairs_are_people(one_file, two_files, use_column):
    desk = one_file if use_column else two_files
    study = chosen("compare-pairs", column="group" if use_column else "")
    asked = start(desk, study)
    plan = desk.plan({"study": study})
    assert (plan["n"], plan["unit"], plan["shift"]) == (N_PAIRS, "person", None)
    assert "left and right differ" in desk.release(asked)["value"]
    assert Ledger(desk.ledger_path).spent.mu == pytest.approx(1.0, abs=1e-9)


def test_pairs_of_different_people_are_refused(one_file):
    study = chosen("compare-pairs", column="group", groups="who")
    with pytest.raises(ParameterError, match="the same person in line i"):
        one_file.plan({"study": study})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"level": 0.001}, "permutations"),
        ({"level": 2.0}, "level"),
        ({"guarantee": {"kind": "approx", "eps": 1.0, "delta": 1e-6}}, "must be GDP"),
        ({"radius": -1.0}, "radius"),
        ({"column": "no"}, "no"),
    ],
)
def test_what_is_wrong_is_said_before_a_release(one_file, wrong, message):
    study = chosen(**{"column": "group", **wrong})
    client = Browser(one_file)
    client.enter()
    answer = client.post("/plan", {"study": study})
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_a_column_beside_several_files_is_refused(two_files):
    with pytest.raises(ParameterError, match="each file is a group"):
        two_files.plan({"study": chosen(column="group")})


def test_other_statistics_are_of_one_file(two_files):
    with pytest.raises(ParameterError, match="choose one file, or a comparison"):
        two_files.plan({"study": chosen("mean")})
    # The check shows the records of all files.
    assert two_files.check(chosen("mean"))["facts"]["records"] == str(2 * N_PAIRS)


@pytest.mark.parametrize("statistic", ["compare-groups", "compare-pairs"])
def test_the_script_makes_the_same_comparison(
    two_files, statistic, tmp_path, monkeypatch
):
    study = chosen(statistic, level=0.1, permutations=99)
    two_files.release(start(two_files, study))
    made = two_files.folder / "release-1"
    monkeypatch.chdir(tmp_path)
    space = {}
    exec((made / "release.py").read_text(), space)  # the user runs it
    first = Certificate.load(made / "certificate-1-test.json")
    again = space["comparison"].test.certificate
    assert again.statistic == first.statistic
    assert again.parameters == first.parameters
    assert again.guarantee == first.guarantee
    assert paid(two_files) == 4  # again, a test and means
    written = {path.name for path in tmp_path.iterdir()}
    assert {"value.csv", "comparison.csv", "certificate-1-test.json"} <= written
    assert "left and right" in (tmp_path / "report.html").read_text()


def test_the_report_has_all_numbers_and_fetches_nothing(two_files):
    two_files.release(start(two_files, chosen()))
    page = (two_files.folder / "release-1/report.html").read_text()
    for text in (
        "left and right differ",
        "effect size",
        "GDP(1.0)",
        "curvedp verify",
        "What was spent so far",
        "error bar of the population",
    ):
        assert text in page
    assert page.count("<svg") == 2
    assert "https://" not in page.replace("http://www.w3.org", "")


def test_what_is_called_public_is_the_same_whatever_the_records_are(
    two_files, tmp_path
):
    first = two_files.plan({"study": chosen()})
    write_csv(tmp_path / "right.csv", {"right": np.full((N_PAIRS, 3), np.nan)})
    assert two_files.plan({"study": chosen()}) == first


def test_files_are_uploaded_one_after_the_other(tmp_path):
    desk = Desk(tmp_path / "out")
    client = Browser(desk)
    client.enter()
    content = (tmp_path / "x.csv", b"x,y,z\n1,0,0\n")[1]
    client("POST", "/file?name=a.csv", content=content)
    state = client("POST", "/file?name=b.csv&further=yes", content=content).json()
    assert state["file"] == "a.csv, b.csv"
    client("POST", "/file?name=b.csv&further=yes", content=content)
    assert len(desk.further_files) == 1
    state = client("POST", "/file?name=c.csv", content=content).json()
    assert state["file"] == "c.csv"
    desk.close()


def test_a_charge_is_never_shown_smaller():
    from curvedp.privacy import ApproxDP
    from curvedp.studio.desk import round_charge_up

    assert round_charge_up(GDP(0.44721359549951073)) == "GDP(0.4473)"
    assert round_charge_up(GDP(0.5)) == "GDP(0.5)"
    assert round_charge_up(ApproxDP(1.0, 1e-6)) == str(ApproxDP(1.0, 1e-6))
    assert round_charge_up(GDP(0.001234567)) == str(GDP(0.001234567))
