"""The studio over HTTP: who gets in, what is public, what is paid for, and that nothing is paid for twice."""

import asyncio
import json
import re
import socket
import threading

import httpx
import numpy as np
import pytest

from curvedp import GDP, Ledger
from curvedp.errors import ParameterError
from curvedp.geometry import SPDAffineInvariant, frechet_mean
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.verify import verify_certificate
from curvedp.releasing import OFFERS
from curvedp.studio import server
from curvedp.studio.desk import Desk
from curvedp.studio.study import Study, guarantee_of, notebook

HEADER = {"X-Curvedp": "studio"}
HOST = "http://127.0.0.1:8000"
STUDY = {"manifold": "sphere:2", "radius": 0.7, "guarantee": {"kind": "gdp", "mu": 0.5}}


def directions(n=60, seed=0):
    points = np.random.default_rng(seed).normal([3.0, 0, 0], 0.4, (n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


@pytest.fixture
def desk(tmp_path):
    np.save(tmp_path / "poles.npy", directions())
    table = Desk(tmp_path / "out", tmp_path / "poles.npy")
    yield table
    table.close()


class Browser:
    """A client of the guarded application, with a cookie jar of its own."""

    def __init__(self, desk, token="secret"):
        self.app = server.Guard(server.application(lambda: desk), 8000, token)
        self.cookies = httpx.Cookies()

    def __call__(self, method, path, **more):
        async def once():
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url=HOST, cookies=self.cookies) as client:
                answer = await client.request(method, path, **more)
                self.cookies.update(client.cookies)
                return answer

        return asyncio.run(once())

    def post(self, path, body, headers=HEADER):
        return self("POST", path, content=json.dumps(body), headers=headers)


@pytest.fixture
def browser(desk):
    client = Browser(desk)
    assert client("GET", "/?token=secret").status_code == 303
    return client


def paid(desk):
    return len(Ledger(desk.ledger_path).entries)


PATHS = ["/", "/icon.svg", "/state", "/check", "/plan", "/release", "/file?name=x.npy", "/release/1/report.html", "/x"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_the_token_nothing_is_said(desk, method, path):
    client = Browser(desk)
    for query in ("", "?token=", "?token=wrong"):
        answer = client(method, path + (query if "?" not in path else ""), headers=HEADER)
        assert (answer.status_code, answer.content) == (403, b"")


def test_the_token_works_once_and_becomes_a_cookie_that_scripts_cannot_read(desk):
    client = Browser(desk)
    answer = client("GET", "/?token=secret")
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 303
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "secret" not in cookie
    assert client("GET", "/").status_code == 200
    client.cookies = httpx.Cookies()  # another browser
    assert client("GET", "/?token=secret").status_code == 403


def test_other_hosts_and_other_sites_are_refused(browser, desk):
    assert browser("GET", "/", headers={"Host": "evil.example:8000"}).status_code == 400  # DNS rebinding
    assert browser.post("/start_ledger", {"kind": "gdp", "mu": 1.0}, headers={}).status_code == 403  # a form elsewhere
    assert not desk.ledger_path.exists()


def test_the_page_asks_nobody_else_and_runs_no_foreign_script(browser):
    answer = browser("GET", "/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    (nonce,) = set(re.findall(r'nonce="([^"]+)"', answer.text))
    assert f"script-src 'nonce-{nonce}'" in policy
    assert nonce not in browser("GET", "/").text
    assert not re.search(r"https?://|//[a-z]+\.", answer.text)
    assert not re.search(r"\son[a-z]+=|\sstyle=", answer.text)  # the policy would forbid them
    for path in ("/icon.svg", "/x"):
        assert browser("GET", path).headers["content-security-policy"].startswith("default-src 'none'")


def test_the_whole_walk(browser, desk, tmp_path):
    content = (tmp_path / "poles.npy").read_bytes()
    state = browser("POST", "/file?name=dropped.npy", content=content, headers=HEADER).json()
    assert state["file"] == "dropped.npy"
    found = browser.post("/check", {"manifold": "sphere:2"}).json()
    assert found["facts"]["records"] == "60"
    assert browser.post("/plan", {"study": STUDY}).json()["key"] is None  # there is no ledger yet
    assert browser.post("/start_ledger", {"kind": "gdp", "mu": 1.0}).json()["ledger"]["budget"] == "GDP(1.0)"
    plan = browser.post("/plan", {"study": STUDY}).json()
    release = browser.post("/release", {"study": STUDY, "key": plan["key"]}).json()
    for name in release["files"]:
        answer = browser("GET", f"/release/{release['number']}/{name}")
        assert answer.status_code == 200, name
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    certificate = Certificate.load(desk.folder / "release-1" / "certificate.json")
    assert all(check.holds is not False for check in verify_certificate(certificate))
    assert certificate.guarantee == GDP(0.5)
    value = np.loadtxt(desk.folder / "release-1" / "value.csv", delimiter=",")
    assert np.linalg.norm(value) == pytest.approx(1.0)
    assert certificate.ledger["entry"] == 1
    assert browser("GET", "/release/1/study.ledger").status_code == 404
    assert browser("GET", "/release/1/..%2Fstudy.ledger").status_code == 404


def test_what_is_called_public_is_the_same_whatever_the_records_are(desk, tmp_path):
    first = desk.plan({"study": STUDY})
    for values in (directions(seed=9), np.full((60, 3), np.nan), np.full((60, 3), 1e300)):
        np.save(tmp_path / "other.npy", values)
        desk.data = tmp_path / "other.npy"
        assert desk.plan({"study": STUDY}) == first


def test_predictions_move_with_the_guarantee(desk):
    weak, strong = (desk.plan({"study": {**STUDY, "guarantee": {"kind": "gdp", "mu": mu}}}) for mu in (2.0, 0.5))
    assert weak["error"] < strong["error"]
    assert weak["region"] < strong["region"]
    # The best guess between N(0,1) and N(μ,1) is right with probability Φ(μ/2).
    assert strong["guess"] == pytest.approx(100 * 0.5987063, abs=1e-3)
    assert weak["guess"] == pytest.approx(100 * 0.8413447, abs=1e-3)
    assert desk.plan({"study": STUDY, "mechanism": "log-gaussian"})["guess"] is None  # while a slider moves
    # The best test of level 5% between them has power Φ(μ − 1.6448536).
    assert strong["power"] == pytest.approx(100 * 0.1261349, abs=1e-3)
    assert weak["power"] == pytest.approx(100 * 0.6387600, abs=1e-3)


def ready(desk):
    desk.start_ledger({"kind": "gdp", "mu": 1.0})
    return {"study": STUDY, "key": desk.plan({"study": STUDY})["key"]}


def test_asking_twice_pays_once(desk):
    asked, answers = ready(desk), []
    tabs = [threading.Thread(target=lambda: answers.append(desk.release(asked))) for _ in range(4)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    assert paid(desk) == 1
    assert all(answer == answers[0] for answer in answers)
    assert len(answers) == 4


def test_a_tab_that_has_not_seen_the_last_release_is_refused(desk):
    other = {**STUDY, "radius": 0.9}
    asked = ready(desk)
    key = desk.plan({"study": other})["key"]
    desk.release(asked)
    with pytest.raises(ParameterError, match="nothing was spent"):
        desk.release({"study": other, "key": key})
    with pytest.raises(ParameterError, match="nothing was spent"):
        desk.release({"study": STUDY, "key": "made up"})
    assert paid(desk) == 1


def test_a_file_that_changed_is_not_released_from_by_an_old_page(desk):
    asked = ready(desk)
    np.save(desk.data, directions(n=70))
    with pytest.raises(ParameterError, match="nothing was spent"):
        desk.release(asked)
    assert paid(desk) == 0


def test_beyond_the_budget_nothing_is_left_behind(browser, desk):
    desk.start_ledger({"kind": "gdp", "mu": 0.1})
    answer = browser.post("/release", {"study": STUDY, "key": desk.plan({"study": STUDY})["key"]})
    assert answer.status_code == 400
    assert "does not fit" in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert paid(desk) == 0
    assert not (desk.folder / "release-1").exists()


def test_a_ledger_that_exists_is_never_replaced(desk):
    desk.start_ledger({"kind": "gdp", "mu": 1.0})
    assert desk.start_ledger({"kind": "gdp", "mu": 9.0})["ledger"]["budget"] == "GDP(1.0)"


def test_the_script_and_the_notebook_make_the_same_release(desk, tmp_path, monkeypatch):
    release = desk.release(ready(desk))
    made = desk.folder / "release-1"
    cells = json.loads((made / "release.ipynb").read_text())["cells"]
    monkeypatch.chdir(tmp_path)
    for number, source in enumerate(((made / "release.py").read_text(), "\n".join(c["source"] for c in cells)), 2):
        space = {}
        exec(source, space)  # the user runs it
        first, again = Certificate.load(made / "certificate.json"), space["model"].certificate_
        assert again.statistic == first.statistic
        assert again.parameters == first.parameters
        assert again.guarantee == first.guarantee
        assert again.release["sha256"] != first.release["sha256"]  # new noise
        assert paid(desk) == number
        if number == 2:
            desk.ledger_path.unlink()  # the budget is for two
            Ledger(desk.ledger_path, GDP(1.0)).spend(GDP(0.1), "before")
            Ledger(desk.ledger_path).spend(GDP(0.1), "before")
    assert release["files"] == ["certificate.json", "release.ipynb", "release.py", "report.html", "value.csv"]


def test_a_release_is_signed_by_the_key_of_the_studio(desk, tmp_path):
    from curvedp.cli_sign import check_signature
    from curvedp.signing import key_of, new_identity, write_key

    asked, identity = ready(desk), new_identity()
    with pytest.raises(ParameterError, match="--key"):
        desk.sign({"number": 1})
    write_key(tmp_path / "our.key", identity)
    desk.key = tmp_path / "our.key"
    with pytest.raises(ParameterError, match="nothing to sign"):
        desk.sign({"number": 1})
    desk.release(asked)
    assert "signed by" in desk.sign({"number": 1})["said"]
    certificate = desk.folder / "release-1" / "certificate.json"
    assert check_signature(certificate, key_of(identity)).holds
    certificate.write_text(certificate.read_text().replace("GDP", "gdp", 1).replace("0.5", "0.4", 1))
    desk.key.unlink()
    with pytest.raises(ParameterError):
        desk.sign({"number": 1})


def test_a_person_is_the_unit_where_that_is_asked(tmp_path):
    rows = "\n".join(f"p{i % 20},{x},{y},{z}" for i, (x, y, z) in enumerate(directions()))
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


# Of each statistic: what is chosen besides, and how many are counted in `table`, 120 records of 30 persons.
OWN = {
    "mean": {"radius": 0.7},
    "median": {"radius": 0.7},
    "dispersion": {"radius": 0.7},
    "pca": {"radius": 1.1, "n_components": 1},
    "mdm": {"radius": 0.7, "column": "class"},
    "regression": {"radius": 0.7, "speed": 1.0, "clip": 0.5, "x_range": "20, 90", "column": "age"},
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
    lines = [f"{x},{y},{z},p{i % 30},{'ab'[i % 30 % 2]},{20 + i % 70}" for i, (x, y, z) in rows]
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


# Persons of every statistic are in tests/estimators and tests/test_cli.py; here, that the form and the script tell of them.
@pytest.mark.parametrize(("statistic", "groups"), [(name, ("", "who")[i % 2]) for i, name in enumerate(OFFERS)])
def test_every_statistic_is_released_as_its_script_does(table, statistic, groups, tmp_path, monkeypatch):
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
        ours, theirs = (Certificate.load(home / name) for home in (table.folder / "release-1", tmp_path))
        assert all(check.holds is not False for check in verify_certificate(ours))
        assert (ours.statistic, ours.parameters, ours.guarantee) == (
            theirs.statistic,
            theirs.parameters,
            theirs.guarantee,
        )
    assert (
        np.loadtxt("value.csv", delimiter=",").shape
        == np.loadtxt(table.folder / "release-1/value.csv", delimiter=",").shape
    )


# Every statistic × every guarantee is in tests/estimators/test_every_guarantee.py; here each in the browser.
@pytest.mark.parametrize(
    ("statistic", "kind"),
    [(name, kind) for i, name in enumerate(OFFERS) for j, kind in enumerate(KINDS) if (i + j) % 3 == 0],
)
def test_every_guarantee_is_planned_paid_and_released_or_refused_in_one_line(table, statistic, kind):
    client = Browser(table)
    client("GET", "/?token=secret")
    assert client.post("/start_ledger", KINDS[kind]).json()["ledger"]["remaining"]
    study = chosen(statistic, guarantee=KINDS[kind])
    plan = client.post("/plan", {"study": study})
    if plan.status_code == 400:
        assert kind == "pure", plan.json()
        assert "PureDP(2" in plan.json()["error"]
        return
    found = plan.json()
    assert 0 < found["power"] <= 100
    assert found["guarantee"] in client.post("/release", {"study": study, "key": found["key"]}).json()["guarantee"]
    assert paid(table) == 1


@pytest.mark.parametrize("statistic", [name for name, offer in OFFERS.items() if "outer_radius" in offer.asks])
def test_a_ball_found_privately(table, statistic):
    study = chosen(statistic, radius="private", guarantee={"kind": "gdp", "mu": 4.0}, groups="who")
    study |= {name: None for name in ("speed", "clip") if name in study}
    table.start_ledger({"kind": "gdp", "mu": 4.0})
    plan = table.plan({"study": study})
    assert plan["n"] == 30
    assert "person" in table.release({"study": study, "key": plan["key"]})["unit"]
    assert paid(table) == 1


def test_the_ball_is_where_the_page_says(tmp_path):
    """In mm²/s a ball about I holds no tensor; one number is a unit, six are a record's own entries."""
    M, rng = SPDAffineInvariant(3), np.random.default_rng(3)
    X = 1e-3 * M.unchart(M.origin, 0.2 * rng.normal(size=(400, 6)))
    np.savetxt(tmp_path / "tensors.csv", X[:, *np.triu_indices(3)], delimiter=",", header="a,b,c,d,e,f", comments="")
    table = Desk(tmp_path / "out", tmp_path / "tensors.csv")
    table.start_ledger({"kind": "gdp", "mu": 4.0})
    study = {"manifold": "spd-affine:3", "form": "upper", "header": True, "radius": 2.0, "guarantee": KINDS["gdp"]}
    off = {}
    for center in ("", "0.001", "0.001, 0, 0, 0.001, 0, 0.001"):
        asked = study | {"center": center}
        table.release({"study": asked, "key": table.plan({"study": asked})["key"]})
        value = np.loadtxt(table.folder / f"release-{len(off) + 1}/value.csv", delimiter=",").reshape(3, 3)
        off[center] = float(M.dist(value, frechet_mean(M, X)))
    assert off.pop("") > 5
    assert max(off.values()) < 0.2
    assert "center=[[0.001, 0.0, 0.0]" in (table.folder / "release-2/release.py").read_text()
    for center in ("1, 2", "here", "nan", "-1", "0.001, 0, 0, 0.001, 0, inf"):
        with pytest.raises(ParameterError, match="center"):
            table.plan({"study": study | {"center": center}})
    assert paid(table) == 3


def test_what_is_paid_for_is_not_lost_for_a_picture(desk, monkeypatch):
    monkeypatch.setattr("curvedp.report.write_report", lambda *_: 1 / 0)
    release = desk.release(ready(desk))
    assert "the report could not be drawn" in release["alarms"][-1]
    assert {"certificate.json", "value.csv", "release.py"} < set(release["files"])
    assert paid(desk) == 1


def test_what_a_statistic_lacks_is_said_in_its_words(table):
    table.start_ledger(KINDS["gdp"])
    for statistic, without, words in (
        ("mdm", "column", "labels is missing"),
        ("regression", "column", "x is missing"),
        ("regression", "x_range", "x_range is missing"),
        ("regression", "speed", "speed= is missing"),
        ("median", "radius", "radius"),
    ):
        study = chosen(statistic, **{without: None})
        for ask in (table.plan, table.release):
            key = Study.of(study).key_at(table.data, Ledger(table.ledger_path).head)
            with pytest.raises(ParameterError, match=words):
                ask({"study": study, "key": key})
    assert paid(table) == 0


def test_rehearsals_predict_what_releases_do(tmp_path):
    """Against errors of real releases of other records, at the real number of them: within a factor of two."""
    from curvedp import PrivateDispersion, PrivateFrechetMedian
    from curvedp.geometry import Euclidean
    from curvedp.studio.rehearsal import rehearsed

    M, rng = Euclidean(3), np.random.default_rng(5)
    z = rng.normal(size=(1500, 3))
    z *= rng.uniform(size=(1500, 1)) ** (1 / 3) / np.linalg.norm(z, axis=1, keepdims=True)
    X = np.concatenate([z, -z])  # 3000 records in half of the ball: their median is 0
    options = {"manifold": M, "radius": 2.0, "outer_radius": None}
    off = [np.linalg.norm(PrivateFrechetMedian(M, 2.0, guarantee=GDP(0.5)).fit(X).location_) for _ in range(40)]
    predicted = rehearsed(OFFERS["median"], options, GDP(0.5), [3000])
    assert 0.5 < predicted.error / np.mean(off) < 2
    assert not 0.5 < rehearsed(OFFERS["median"], options, GDP(0.5), [600]).error / np.mean(off) < 2  # it would be seen
    truth = np.mean(np.sum(X**2, axis=1))
    off = [abs(PrivateDispersion(M, 2.0, guarantee=GDP(0.5)).fit(X).variance_ - truth) for _ in range(40)]
    assert 0.3 < rehearsed(OFFERS["dispersion"], options, GDP(0.5), [3000]).error / np.mean(off) < 3


@pytest.mark.parametrize(
    "body",
    [{}, [], "x", None, {"study": {}}, {"study": STUDY | {"manifold": ""}}, {"study": STUDY | {"extra": 1}},
     {"study": STUDY | {"manifold": 3}}, {"study": STUDY | {"radius": "wide"}}, {"study": STUDY | {"radius": -1}},
     {"study": STUDY | {"guarantee": {"kind": "gdp"}}}, {"study": STUDY | {"guarantee": {"kind": "none", "mu": 1}}},
     {"study": STUDY | {"guarantee": {"kind": "gdp", "mu": float("nan")}}}, {"study": STUDY | {"columns": 5}},
     {"study": STUDY | {"guarantee": {"kind": "gdp", "mu": "a"}}}, {"study": STUDY | {"form": "latlon"}},
     {"study": STUDY | {"groups": "who"}}, {"study": STUDY | {"statistic": "mode"}}, {"study": STUDY | {"speed": "fast"}},
     {"study": {**STUDY, "radius": None}}, {"study": STUDY | {"manifold": "sphere:99"}}],
    ids=str,
)  # fmt: skip
def test_what_no_page_sends_is_one_line(browser, desk, body):
    desk.start_ledger({"kind": "gdp", "mu": 1.0})
    for path in ("/plan", "/release"):
        answer = browser.post(path, body)
        assert answer.status_code == 400, path
        assert "\n" not in answer.json()["error"]
        assert len(answer.json()["error"]) > 20
    assert paid(desk) == 0


def test_no_json_is_one_line(browser):
    assert browser("POST", "/plan", content=b"\xff{", headers=HEADER).status_code == 400


def test_a_file_that_is_too_large_is_refused_unread(browser, desk, monkeypatch):
    monkeypatch.setattr(Desk, "most", 1000)

    def body():
        raise AssertionError("it was read")
        yield b""

    async def pieces():
        for _ in range(5):
            yield bytes(400)

    size = {**HEADER, "Content-Length": str(2 * 2**30)}
    for answer in (
        browser("POST", "/file?name=big.npy", content=pieces(), headers=size),
        browser("POST", "/file?name=big.npy", content=pieces(), headers=HEADER),  # it does not say how long it is
    ):
        assert answer.status_code == 413
        assert "curvedp studio big.npy" in answer.json()["error"]
    assert list(desk.private.iterdir()) == []
    assert desk.data.name == "poles.npy"


@pytest.mark.parametrize("name", ["", "..", "a\nb.npy", "x" * 200 + ".npy", "%00.npy"])
def test_a_name_that_is_none_is_refused(browser, desk, name):
    answer = browser("POST", "/file", params={"name": name}, content=b"x", headers=HEADER)
    assert answer.status_code == 400 or desk.data.parent == desk.private
    assert all(path.parent == desk.private for path in desk.private.iterdir())


def test_a_path_in_a_name_leads_nowhere_else(browser, desk, tmp_path):
    browser("POST", "/file", params={"name": "../../poles.npy"}, content=b"x", headers=HEADER)
    assert desk.data == desk.private / "poles.npy"
    assert (tmp_path / "poles.npy").stat().st_size > 1


def test_before_there_is_a_file(tmp_path):
    with pytest.raises(ParameterError, match="no file yet"):
        Desk(tmp_path).check({"manifold": "sphere:2"})


def test_a_port_that_is_taken_and_a_file_that_is_not_there(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        with pytest.raises(ParameterError, match=r"port \d+ is taken"):
            server.serve(tmp_path, port=other.getsockname()[1], say=print)
    with pytest.raises(ParameterError, match="port 99999 is taken or not allowed"):
        server.serve(tmp_path, port=99999, say=print)
    with pytest.raises(ParameterError, match="does not exist"):
        server.serve(tmp_path, tmp_path / "none.npy", say=print)


def test_without_a_browser_the_link_is_there_to_copy(tmp_path, monkeypatch):
    said, tried = [], threading.Event()

    def no_browser(address):
        tried.set()
        return False

    monkeypatch.setattr(server.webbrowser, "open", no_browser)
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, sockets: (tried.wait(10), sockets[0].close()))
    server.serve(tmp_path, say=said.append)
    for _ in range(100):
        if len(said) == 3:
            break
        threading.Event().wait(0.05)
    assert re.fullmatch(r"curvedp studio: http://127\.0\.0\.1:\d+/\?token=[\w-]{40,}", said[0])
    assert "open the link above yourself" in said[2]


def test_guarantees_and_notebooks():
    assert guarantee_of({"kind": "gdp", "mu": 1}) == GDP(1.0)
    script = Study.of(STUDY).script("x.npy", "study.ledger", "label")
    cells = json.loads(notebook(script))["cells"]
    assert len(cells) == 3
    compile(script, "release.py", "exec")
