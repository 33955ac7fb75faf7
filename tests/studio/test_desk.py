"""The studio over HTTP: who gets in, what is public, what is paid for, and that nothing is paid for twice."""

import errno
import json
import os
import re
import socket
import threading

import numpy as np
import pytest

from curvedp import GDP, Ledger
from curvedp._files import write_atomically
from curvedp.core.certificate import Certificate
from curvedp.errors import CurvedpError, ParameterError
from curvedp.ledger import write_key
from curvedp.release.verify import verify_certificate
from curvedp.studio import server
from curvedp.studio.desk import Desk
from studio.desks import STUDY, Browser, directions, paid

pytestmark = pytest.mark.usefixtures("plain_pictures")


@pytest.fixture
def desk(tmp_path):
    np.save(tmp_path / "poles.npy", directions())
    table = Desk(tmp_path / "out", tmp_path / "poles.npy")
    yield table
    table.close()


@pytest.fixture
def browser(desk):
    client = Browser(desk)
    assert client.enter().status_code == 200
    return client


def test_the_page_asks_nobody_else_and_runs_no_foreign_script(browser):
    answer = browser("GET", "/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    # Style attributes are for the pictures of reports, and nothing else is unsafe.
    assert "unsafe" not in policy.replace("style-src-attr 'unsafe-inline'", "")
    (nonce,) = set(re.findall(r'nonce="([^"]+)"', answer.text))
    assert f"script-src 'nonce-{nonce}'" in policy
    assert nonce not in browser("GET", "/").text
    assert not re.search(r"https?://|//[a-z]+\.", answer.text)  # the icon is inline
    assert not re.search(
        r"\son[a-z]+=|\sstyle=", answer.text
    )  # the policy would forbid them
    assert (
        browser("GET", "/x")
        .headers["content-security-policy"]
        .startswith("default-src 'none'")
    )


def test_the_whole_walk(browser, desk, tmp_path):
    content = (tmp_path / "poles.npy").read_bytes()
    state = browser("POST", "/file?name=dropped.npy", content=content).json()
    assert state["file"] == "dropped.npy"
    found = browser.post("/check", {"manifold": "sphere:2"}).json()
    assert found["facts"]["records"] == "60"
    assert (
        browser.post("/plan", {"study": STUDY}).json()["key"] is None
    )  # there is no ledger yet
    assert (
        browser.post("/start_ledger", {"kind": "gdp", "mu": 1.0}).json()["ledger"][
            "budget"
        ]
        == "GDP(1.0)"
    )
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
    assert certificate.provenance.ledger["entry"] == 1
    assert browser("GET", "/release/1/study.ledger").status_code == 404
    assert browser("GET", "/release/2/value.csv").status_code == 404
    assert browser("GET", "/release/1/..%2Fstudy.ledger").status_code == 404


def test_what_is_called_public_is_the_same_whatever_the_records_are(desk, tmp_path):
    first = desk.plan({"study": STUDY})
    for values in (
        directions(seed=9),
        np.full((60, 3), np.nan),
        np.full((60, 3), 1e300),
    ):
        np.save(tmp_path / "other.npy", values)
        desk.data = tmp_path / "other.npy"
        assert desk.plan({"study": STUDY}) == first


def test_predictions_move_with_the_guarantee(desk):
    weak, strong = (
        desk.plan({"study": {**STUDY, "guarantee": {"kind": "gdp", "mu": mu}}})
        for mu in (2.0, 0.5)
    )
    assert weak["error"] < strong["error"]
    assert weak["region"] < strong["region"]
    # The best guess between N(0,1) and N(μ,1) is right with probability Φ(μ/2).
    assert strong["guess"] == pytest.approx(100 * 0.5987063, abs=1e-3)
    assert weak["guess"] == pytest.approx(100 * 0.8413447, abs=1e-3)
    assert (
        desk.plan({"study": STUDY, "mechanism": "tangent-gaussian"})["guess"] is None
    )  # while a slider moves
    # The best test of level 5% between them has power Φ(μ − 1.6448536).
    assert strong["power"] == pytest.approx(100 * 0.1261349, abs=1e-3)
    assert weak["power"] == pytest.approx(100 * 0.6387600, abs=1e-3)


def test_angles_are_shown_in_degrees(desk):
    """Errors of directions are angles; a variance of them and an error of tensors are not."""
    assert desk.plan({"study": STUDY})["is_angle"]
    assert not desk.plan({"study": {**STUDY, "statistic": "dispersion"}})["is_angle"]
    flat = {**STUDY, "manifold": "euclidean:3"}
    assert not desk.plan({"study": flat})["is_angle"]


def ready(desk):
    desk.start_ledger({"kind": "gdp", "mu": 1.0})
    return {"study": STUDY, "key": desk.plan({"study": STUDY})["key"]}


def test_asking_twice_pays_once(desk):
    asked, answers = ready(desk), []
    tabs = [
        threading.Thread(target=lambda: answers.append(desk.release(asked)))
        for _ in range(4)
    ]
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
    answer = browser.post(
        "/release", {"study": STUDY, "key": desk.plan({"study": STUDY})["key"]}
    )
    assert answer.status_code == 400
    assert "does not fit" in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert paid(desk) == 0
    assert not (desk.folder / "release-1").exists()


def test_a_release_beyond_the_budget_is_said_before_it_is_requested(desk):
    assert not desk.plan({"study": STUDY})["exceeds"]
    desk.start_ledger({"kind": "gdp", "mu": 1.0})
    for kind, size, exceeds in (
        ("gdp", {"mu": 1.0}, False),
        ("gdp", {"mu": 1.01}, True),
        ("pure", {"eps": 0.5}, False),
    ):
        study = {**STUDY, "guarantee": {"kind": kind, **size}}
        assert desk.plan({"study": study})["exceeds"] is exceeds
    study = {**STUDY, "guarantee": {"kind": "gdp", "mu": 1.0}}
    desk.release({"study": study, "key": desk.plan({"study": study})["key"]})
    assert desk.plan({"study": STUDY})["exceeds"]


@pytest.mark.parametrize(("kind", "name"), [("pure", "eps"), ("zcdp", "rho")])
def test_each_definition_of_a_budget_says_what_does_not_fit(desk, kind, name):
    desk.start_ledger({"kind": kind, name: 0.5})
    for size, exceeds in ((0.5, False), (0.6, True)):
        study = {**STUDY, "guarantee": {"kind": kind, name: size}}
        assert desk.plan({"study": study})["exceeds"] is exceeds


def test_a_ledger_that_exists_is_never_replaced(desk):
    desk.start_ledger({"kind": "gdp", "mu": 1.0})
    assert (
        desk.start_ledger({"kind": "gdp", "mu": 9.0})["ledger"]["budget"] == "GDP(1.0)"
    )


def test_the_script_and_the_notebook_make_the_same_release(desk, tmp_path, monkeypatch):
    release = desk.release(ready(desk))
    made = desk.folder / "release-1"
    cells = json.loads((made / "release.ipynb").read_text())["cells"]
    monkeypatch.chdir(tmp_path)
    for number, source in enumerate(
        ((made / "release.py").read_text(), "\n".join(c["source"] for c in cells)), 2
    ):
        space = {}
        exec(source, space)  # the user runs it
        first, again = (
            Certificate.load(made / "certificate.json"),
            space["model"].certificate_,
        )
        assert again.statistic == first.statistic
        assert again.parameters == first.parameters
        assert again.guarantee == first.guarantee
        assert again.release["sha256"] != first.release["sha256"]  # new noise
        assert paid(desk) == number
        if number == 2:
            desk.ledger_path.unlink()  # the budget is for two
            Ledger(desk.ledger_path, GDP(1.0)).spend(GDP(0.1), "before")
            Ledger(desk.ledger_path).spend(GDP(0.1), "before")
    assert release["files"] == [
        "certificate.json",
        "release.ipynb",
        "release.py",
        "report.html",
        "value.csv",
    ]


def test_a_release_is_signed_by_the_key_of_the_studio(desk, tmp_path):
    from curvedp.signing import key_of, new_identity, write_key
    from curvedp.verification import verify_file

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
    signature, *_ = verify_file(certificate, public_key=key_of(identity)).checks
    assert signature.holds
    certificate.write_text(
        certificate.read_text().replace("GDP", "gdp", 1).replace("0.5", "0.4", 1)
    )
    with pytest.raises(CurvedpError):
        desk.sign({"number": 1})
    desk.key.unlink()
    with pytest.raises(OSError, match=r"our\.key"):
        desk.sign({"number": 1})


def test_what_is_paid_for_is_not_lost_for_a_picture(desk, monkeypatch):
    monkeypatch.setattr("curvedp.report.html.render_report", lambda *_: 1 / 0)
    release = desk.release(ready(desk))
    assert "report.html could not be made" in release["alarms"][-1]
    assert {"certificate.json", "value.csv", "release.py"} < set(release["files"])
    assert paid(desk) == 1


@pytest.fixture
def full_disk(monkeypatch):
    """A disk on which no file can be written, while it is `full`."""

    class Disk:
        full = True

    def write(path, content):
        if Disk.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_atomically(path, content)

    monkeypatch.setattr("curvedp.studio.desk.write_atomically", write)
    return Disk


def test_a_full_disk_loses_nothing_and_pays_once(browser, desk, full_disk):
    asked = ready(desk)
    first = browser.post("/release", asked)
    assert first.status_code == 200, first.text
    shown = first.json()
    assert "No space left" in shown["unsaved"]
    assert "value.csv" in shown["unsaved"]
    assert list((desk.folder / "release-1").iterdir()) == []
    # A second click, and a page that is loaded again, show the same release.
    assert browser.post("/release", asked).json() == shown
    assert browser.post("/state", {}).json()["releases"] == [shown]
    assert paid(desk) == 1
    # Every file is handed out from memory.
    parts = {name: browser("GET", f"/release/1/{name}") for name in shown["files"]}
    assert set(parts) >= {"value.csv", "certificate.json", "report.html", "release.py"}
    assert all(answer.status_code == 200 for answer in parts.values())
    certificate = Certificate.from_json(parts["certificate.json"].text)
    assert all(check.holds is not False for check in verify_certificate(certificate))
    # While the disk is full nothing is written, and then everything is.
    assert browser.post("/save", {"number": 1}).json()["unsaved"] is not None
    full_disk.full = False
    assert browser.post("/save", {"number": 1}).json()["unsaved"] is None
    for name, answer in parts.items():
        assert (desk.folder / "release-1" / name).read_bytes() == answer.content
    assert paid(desk) == 1
    assert desk.close() == []


def test_what_could_not_be_written_is_printed_at_the_end(desk, full_disk):
    desk.release(ready(desk))
    line, text = desk.close()
    assert "release 1 was paid for" in line
    texts = json.loads(text)
    Certificate.from_json(texts["certificate.json"])
    assert texts["value.csv"].count(",") == 2


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
    assert browser("POST", "/plan", content=b"\xff{").status_code == 400


def test_a_file_that_is_too_large_is_refused_unread(browser, desk, monkeypatch):
    monkeypatch.setattr(Desk, "max_upload_bytes", 1000)

    def body():
        raise AssertionError("it was read")
        yield b""

    async def pieces():
        for _ in range(5):
            yield bytes(400)

    size = {"Content-Length": str(2 * 2**30)}
    for answer in (
        browser("POST", "/file?name=big.npy", content=pieces(), headers=size),
        browser("POST", "/file?name=big.npy", content=pieces()),  # of unknown length
    ):
        assert answer.status_code == 413
        assert "curvedp studio big.npy" in answer.json()["error"]
    assert list(desk.upload_folder.iterdir()) == []
    assert desk.data.name == "poles.npy"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x/..", "/", "a\nb.npy", "x" * 200 + ".npy", "\0.npy"]
)
def test_a_name_that_is_none_is_refused(browser, desk, name):
    answer = browser("POST", "/file", params={"name": name}, content=b"x")
    assert answer.status_code == 400
    assert "rename it" in answer.json()["error"]
    assert list(desk.upload_folder.iterdir()) == []
    assert desk.data.name == "poles.npy"


def test_a_path_in_a_name_leads_nowhere_else(browser, desk, tmp_path):
    browser("POST", "/file", params={"name": "../../poles.npy"}, content=b"x")
    assert desk.data == desk.upload_folder / "poles.npy"
    assert (tmp_path / "poles.npy").stat().st_size > 1


@pytest.mark.parametrize("path", ["/plan", "/release", "/check", "/sign", "/save"])
def test_json_of_any_depth_is_one_line(browser, path):
    for text in ("[" * 100_000, '{"study":' * 100_000):
        answer = browser("POST", path, content=text)
        assert answer.status_code == 400
        assert "load it again" in answer.json()["error"]


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
    (tmp_path / "file").touch()
    with pytest.raises(ParameterError, match="is a file; --folder"):
        server.serve(tmp_path / "file", say=print)


def test_a_keyed_ledger(tmp_path):
    """It is started and charged with its key, and a script says where the key is."""
    np.save(tmp_path / "poles.npy", directions())
    write_key(tmp_path / "book.key")
    folder, data = tmp_path / "out", tmp_path / "poles.npy"
    table = Desk(folder, data, ledger_key=tmp_path / "book.key")
    table.start_ledger({"kind": "gdp", "mu": 1.0})
    table.release({"study": STUDY, "key": table.plan({"study": STUDY})["key"]})
    table.close()
    script = (folder / "release-1" / "release.py").read_text()
    assert f"key={str(tmp_path / 'book.key')!r})" in script
    ledger = Ledger(folder / "study.ledger", key=tmp_path / "book.key")
    assert ledger.verify() == 1

    stranger = Desk(folder, data)
    with pytest.raises(ParameterError, match="ledger_key is missing"):
        stranger.state()
    stranger.close()
