"""What can be asked of the studio: every statistic, every guarantee, persons, balls; as its script and its notebook do."""

import json

import numpy as np
import pytest

from curvedp import GDP, Ledger
from curvedp.core.certificate import Certificate
from curvedp.errors import ParameterError
from curvedp.geometry import SPDAffineInvariant, frechet_mean
from curvedp.release.verify import verify_certificate
from curvedp.releasing import OFFERS
from curvedp.studio.desk import Desk
from curvedp.studio.study import Study, notebook, parse_guarantee
from studio.desks import STUDY, Browser, directions, paid

pytestmark = pytest.mark.usefixtures("plain_pictures")

# Of each statistic: what is chosen besides, and how many are counted in `table`, 120 records of 30 persons.
OWN = {
    "mean": {"radius": 0.7},
    "median": {"radius": 0.7},
    "dispersion": {"radius": 0.7},
    "pca": {"radius": 1.1, "n_components": 1},
    "tangent-pca": {"radius": 0.7, "n_components": 1},
    "synthetic": {"radius": 0.7},
    "mdm": {"radius": 0.7, "column": "class"},
    "classifier": {
        "manifold": "spd-affine:2",
        "form": "upper",
        "column": "class",
        "reduce": 1,
    },
    "regression": {
        "radius": 0.7,
        "speed": 1.0,
        "clip": 0.5,
        "x_range": "20, 90",
        "column": "age",
    },
    "kmeans": {"n_clusters": 2},
}
KINDS = {
    "gdp": {"kind": "gdp", "mu": 1.0},
    "approx": {"kind": "approx", "eps": 4.0, "delta": 1e-6},
    "pure": {"kind": "pure", "eps": 2.0},
    "zcdp": {"kind": "zcdp", "rho": 0.5},
}


@pytest.fixture
def table(tmp_path):
    rows = enumerate(directions(120))
    lines = [
        f"{x},{y},{z},p{i % 30},{'ab'[i % 30 % 2]},{20 + i % 70}"
        for i, (x, y, z) in rows
    ]
    (tmp_path / "t.csv").write_text("\n".join(["x,y,z,who,class,age", *lines, ""]))
    desk = Desk(tmp_path / "out", tmp_path / "t.csv")
    yield desk
    desk.close()


def chosen(statistic, **more):
    return {
        "manifold": "sphere:2",
        "statistic": statistic,
        "header": True,
        "columns": "x,y,z",
        **OWN[statistic],
        **more,
    }


def test_decimal_commas(table):
    """As a spreadsheet in half of Europe writes them: records and predictor, not names; and advice in the page's words."""
    text = (
        table.data.read_text()
        .replace(",", ";")
        .replace(".", ",")
        .replace("p1;", "p1,5;")
    )
    (table.data.parent / "comma.csv").write_text(text)
    asked = chosen("regression", groups="who")
    plain, comma = (
        Study.from_page(asked),
        Study.from_page({**asked, "sep": ";", "decimal": ","}),
    )
    expected, found = (
        plain.read_columns(table.data),
        comma.read_columns(table.data.parent / "comma.csv"),
    )
    np.testing.assert_array_equal(found["records"], expected["records"])
    assert found["x"].astype(float).tolist() == expected["x"].astype(float).tolist()
    assert "p1,5" in found["groups"]
    script = comma.script("comma.csv", "l", "")
    assert [script.count(f"decimal={sign!r}") for sign in ",."] == [2, 0]
    table.data = table.data.parent / "comma.csv"
    advice = " ".join(table.check({**asked, "sep": ";"})["advice"])
    assert "decimal sign" in advice
    assert "decimal commas" in advice
    assert "decimal=" not in advice


def test_a_person_is_the_unit_where_that_is_asked(tmp_path):
    rows = "\n".join(
        f"p{i % 20},{x},{y},{z}" for i, (x, y, z) in enumerate(directions())
    )
    (tmp_path / "people.csv").write_text(f"who,x,y,z\n{rows}\n")
    table = Desk(tmp_path / "out", tmp_path / "people.csv")
    study = {**STUDY, "header": True, "columns": "x, y, z", "groups": "who"}
    table.start_ledger({"kind": "approx", "eps": 4.0, "delta": 1e-6})
    plan = table.plan({"study": study})
    assert (plan["n"], plan["unit"]) == (20, "person")
    assert "person" in table.release({"study": study, "key": plan["key"]})["unit"]
    source = (tmp_path / "out/release-1/release.py").read_text()
    assert "read_column(data, 'who', header=True)" in source
    table.close()


# Persons of every statistic are in tests/estimators and tests/cli; here, that the form and the script tell of them.
@pytest.mark.parametrize(
    ("statistic", "groups"),
    [(name, ("", "who")[i % 2]) for i, name in enumerate(OFFERS)],
)
def test_every_statistic_is_released_as_its_script_does(
    table, statistic, groups, tmp_path, monkeypatch
):
    study = chosen(statistic, groups=groups, guarantee=KINDS["gdp"])
    table.start_ledger({"kind": "gdp", "mu": 1.5})
    plan = table.plan({"study": study})
    assert plan["n"] == (30 if groups else 120)
    assert 0 < plan["error"] < 10
    release = table.release({"study": study, "key": plan["key"]})
    assert ("person" in release["unit"]) == bool(groups)
    names = [name for name in release["files"] if name.endswith(".json")]
    assert len(names) == (2 if statistic == "mdm" else 1)
    monkeypatch.chdir(tmp_path)
    exec((table.folder / "release-1/release.py").read_text(), {})  # the user runs it
    assert paid(table) == 2
    for name in names:
        ours, theirs = (
            Certificate.load(home / name)
            for home in (table.folder / "release-1", tmp_path)
        )
        assert all(check.holds is not False for check in verify_certificate(ours))
        assert (ours.statistic, ours.parameters, ours.guarantee) == (
            theirs.statistic,
            theirs.parameters,
            theirs.guarantee,
        )
    ours, theirs = (
        [line.split(",") for line in path.read_text().splitlines()]
        for path in (table.folder / "release-1/value.csv", tmp_path / "value.csv")
    )
    assert [len(cells) for cells in ours] == [len(cells) for cells in theirs]


# Every statistic × every guarantee is in tests/estimators/test_every_guarantee.py; here each in the browser.
@pytest.mark.parametrize(
    ("statistic", "kind"),
    [
        (name, kind)
        for i, name in enumerate(OFFERS)
        for j, kind in enumerate(KINDS)
        if (i + j) % 3 == 0
    ],
)
def test_every_guarantee_is_planned_paid_and_released_or_refused_in_one_line(
    table, statistic, kind
):
    client = Browser(table)
    client.enter()
    assert client.post("/start_ledger", KINDS[kind]).json()["ledger"]["remaining"]
    study = chosen(statistic, guarantee=KINDS[kind])
    plan = client.post("/plan", {"study": study})
    if plan.status_code == 400:
        assert kind == "pure", plan.json()
        assert "PureDP(2" in plan.json()["error"]
        return
    found = plan.json()
    assert 0 < found["power"] <= 100
    assert (
        found["guarantee"]
        in client.post("/release", {"study": study, "key": found["key"]}).json()[
            "guarantee"
        ]
    )
    assert paid(table) == 1


@pytest.mark.parametrize(
    "statistic",
    [name for name, offer in OFFERS.items() if "outer_radius" in offer.parameters],
)
def test_a_ball_found_privately(table, statistic):
    study = chosen(
        statistic, radius="private", guarantee={"kind": "gdp", "mu": 4.0}, groups="who"
    )
    study |= {name: None for name in ("speed", "clip") if name in study}
    table.start_ledger({"kind": "gdp", "mu": 4.0})
    plan = table.plan({"study": study})
    assert plan["n"] == 30
    assert "person" in table.release({"study": study, "key": plan["key"]})["unit"]
    assert paid(table) == 1


def test_the_ball_is_where_the_page_says(tmp_path):
    """In mm²/s a ball about I holds no tensor; one number is a unit, six are a record's own entries."""
    M, rng = SPDAffineInvariant(3), np.random.default_rng(3)
    X = 1e-3 * M.from_normal_coordinates(M.origin, 0.2 * rng.normal(size=(400, 6)))
    np.savetxt(
        tmp_path / "tensors.csv",
        X[:, *np.triu_indices(3)],
        delimiter=",",
        header="a,b,c,d,e,f",
        comments="",
    )
    table = Desk(tmp_path / "out", tmp_path / "tensors.csv")
    table.start_ledger({"kind": "gdp", "mu": 4.0})
    study = {
        "manifold": "spd-affine:3",
        "form": "upper",
        "header": True,
        "radius": 2.0,
        "guarantee": KINDS["gdp"],
    }
    off = {}
    for center in ("", "0.001", "0.001, 0, 0, 0.001, 0, 0.001"):
        asked = study | {"center": center}
        table.release({"study": asked, "key": table.plan({"study": asked})["key"]})
        path = table.folder / f"release-{len(off) + 1}/value.csv"
        header, row = path.read_text().splitlines()  # in the form of the records
        assert header.startswith("released,")
        value = np.zeros((3, 3))
        value[np.triu_indices(3)] = [float(cell) for cell in row.split(",")[1:]]
        value += np.triu(value, 1).T
        off[center] = float(M.dist(value, frechet_mean(M, X)))
    assert off.pop("") > 5
    assert max(off.values()) < 0.2
    assert (
        "center=[[0.001, 0.0, 0.0]"
        in (table.folder / "release-2/release.py").read_text()
    )
    for center in ("1, 2", "here", "nan", "-1", "0.001, 0, 0, 0.001, 0, inf"):
        with pytest.raises(ParameterError, match="center"):
            table.plan({"study": study | {"center": center}})
    assert paid(table) == 3


def test_what_a_statistic_lacks_is_said_in_its_words(table):
    table.start_ledger(KINDS["gdp"])
    for statistic, without, words in (
        ("mdm", "column", "labels is missing"),
        ("regression", "column", "x is missing"),
        ("regression", "x_range", "x_range is missing"),
        ("regression", "speed", "speed is missing"),
        ("median", "radius", "radius"),
    ):
        study = chosen(statistic, **{without: None})
        for ask in (table.plan, table.release):
            key = Study.from_page(study).request_key(
                table.data, Ledger(table.ledger_path).head
            )
            with pytest.raises(ParameterError, match=words):
                ask({"study": study, "key": key})
    assert paid(table) == 0


def test_rehearsals_predict_what_releases_do(tmp_path):
    """Against errors of real releases of other records, at the real number of them: within a factor of two."""
    from curvedp import PrivateDispersion, PrivateFrechetMedian
    from curvedp.geometry import Euclidean
    from curvedp.studio.rehearsal import predict_release

    M, rng = Euclidean(3), np.random.default_rng(5)
    z = rng.normal(size=(1500, 3))
    z *= rng.uniform(size=(1500, 1)) ** (1 / 3) / np.linalg.norm(
        z, axis=1, keepdims=True
    )
    X = np.concatenate([z, -z])  # 3000 records in half of the ball: their median is 0
    options = {"manifold": M, "radius": 2.0, "outer_radius": None}
    off = [
        np.linalg.norm(
            PrivateFrechetMedian(M, 2.0, guarantee=GDP(0.5)).fit(X).location_
        )
        for _ in range(40)
    ]
    predicted = predict_release(OFFERS["median"], options, GDP(0.5), [3000])
    assert 0.5 < predicted.error / np.mean(off) < 2
    assert (
        not 0.5
        < predict_release(OFFERS["median"], options, GDP(0.5), [600]).error
        / np.mean(off)
        < 2
    )  # it would be seen
    truth = np.mean(np.sum(X**2, axis=1))
    off = [
        abs(PrivateDispersion(M, 2.0, guarantee=GDP(0.5)).fit(X).variance_ - truth)
        for _ in range(40)
    ]
    assert (
        0.3
        < predict_release(OFFERS["dispersion"], options, GDP(0.5), [3000]).error
        / np.mean(off)
        < 3
    )


def test_the_page_shows_where_a_prediction_is_in_doubt():
    """Of 50 records more than a third stay outside a private ball; of 1000 few do."""
    from curvedp.geometry import Sphere
    from curvedp.studio.rehearsal import predict_release

    options = {"manifold": Sphere(2), "radius": "private", "spread": 0.3}
    doubtful = predict_release(OFFERS["mean"], options, GDP(1.0), [50])
    assert any("so few records outside" in note for note in doubtful.notes)
    sure = predict_release(OFFERS["mean"], options, GDP(1.0), [1000])
    assert not any("outside" in note or "rare" in note for note in sure.notes)


def test_guarantees_and_notebooks():
    assert parse_guarantee({"kind": "gdp", "mu": 1}) == GDP(1.0)
    script = Study.from_page(STUDY).script("x.npy", "study.ledger", "label")
    cells = json.loads(notebook(script))["cells"]
    assert len(cells) == 3
    compile(script, "release.py", "exec")


def test_lines_before_the_table_and_its_encoding_are_read_as_chosen(table):
    """Records, labels and the script read the file alike."""
    text = "Messreihe für Läufe\n\n" + table.data.read_text()
    (table.data.parent / "old.csv").write_bytes(text.encode("latin-1"))
    asked = chosen("mdm", groups="who")
    plain = Study.from_page(asked).read_columns(table.data)
    study = Study.from_page({**asked, "skip": 2, "encoding": "latin-1"})
    found = study.read_columns(table.data.parent / "old.csv")
    np.testing.assert_array_equal(found["records"], plain["records"])
    assert found["labels"].tolist() == plain["labels"].tolist()
    assert found["groups"].tolist() == plain["groups"].tolist()
    script = study.script("old.csv", "l", "")
    assert script.count("skip=2") == script.count("encoding='latin-1'") == 3
    for wrong in ({"skip": "two"}, {"skip": 1.5}, {"encoding": 7}):
        with pytest.raises(ParameterError):
            Study.from_page({**asked, **wrong})


def test_columns_of_persons_and_labels_are_no_part_of_a_record(table):
    """`columns` may be left out where the others are named, and the table has no more."""
    lines = table.data.read_text().splitlines()
    cut = [",".join(line.split(",")[:5]) for line in lines]
    (table.data.parent / "cut.csv").write_text("\n".join(cut) + "\n")
    asked = {**chosen("mdm", groups="who"), "columns": ""}
    study = Study.from_page(asked)
    found = study.read_columns(table.data.parent / "cut.csv")
    assert found["records"].shape == (120, 3)
    assert "other_columns=['who', 'class']" in study.script("cut.csv", "l", "")


def test_synthetic_records_are_published_and_the_real_ones_beside_them_are_not(table):
    """The picture of both is sent to the page, and written nowhere."""
    client = Browser(table)
    client.enter()
    table.start_ledger({"kind": "gdp", "mu": 4.0})
    study = chosen("synthetic", guarantee={"kind": "gdp", "mu": 2.0}, model="tree")
    plan = table.plan({"study": study})
    assert "energy distance" in plan["of"]
    release = table.release({"study": study, "key": plan["key"]})
    assert {"synthetic.csv", "value.csv", "certificate.json"} <= set(release["files"])
    folder = table.folder / "release-1"
    drawn = np.loadtxt(folder / "synthetic.csv", delimiter=",", skiprows=1)
    assert drawn.shape == (120, 3)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, atol=1e-9)

    before = sorted(path.name for path in folder.iterdir())
    assert release["compares"]
    answer = client.post("/compare", {"number": 1}).json()
    assert answer["picture"].startswith("data:image/png;base64,")
    assert sorted(path.name for path in folder.iterdir()) == before
    assert client.post("/compare", {"number": 2}).status_code == 400
    assert paid(table) == 1
