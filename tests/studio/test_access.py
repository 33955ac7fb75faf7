"""Who gets into the studio: nobody without the secret, which no other program sees."""

import http.client
import json
import os
import re
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

import numpy as np
import pytest

import curvedp
from curvedp.errors import ParameterError
from curvedp.studio import server
from curvedp.studio.access import SECRET_HEADER, LinkFile
from curvedp.studio.desk import Desk
from studio.desks import Browser, directions


@pytest.fixture
def desk(tmp_path):
    np.save(tmp_path / "poles.npy", directions())
    table = Desk(tmp_path / "out", tmp_path / "poles.npy")
    yield table
    table.close()


def routes():
    """Every path that the application knows, and two that it does not."""
    known = [route.path for route in server.application(lambda: None).routes]
    assert "/release" in known
    paths = [path.replace("{number:int}", "1").replace("{name}", "x") for path in known]
    return [*paths, "/enter", "/unknown"]


METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]


@pytest.mark.parametrize("path", routes())
@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_answered_without_the_secret(desk, method, path):
    client = Browser(desk)
    for secret in (None, "", "wrong"):
        client.secret = secret
        answer = client(method, path)
        assert "set-cookie" not in answer.headers
        if path == "/" and method in ("GET", "HEAD"):
            assert answer.status_code == 200  # the page, of which more below
        else:
            assert (answer.status_code, answer.content) == (403, b"")


@pytest.mark.parametrize("path", routes())
@pytest.mark.parametrize("method", METHODS)
def test_no_answer_sets_a_cookie(desk, method, path):
    client = Browser(desk)
    client.enter()
    answer = client(method, path)
    assert answer.status_code != 403 or path == "/enter"
    assert "set-cookie" not in answer.headers


def test_the_page_is_the_same_for_everybody(desk, tmp_path):
    """It is shown without the secret, so it must not depend on what lies on the desk."""

    def page(client):
        text = client("GET", "/").text
        return re.sub(r'nonce="[^"]+"', "", text)

    friend = Browser(desk)
    friend.enter()
    friend.post("/start_ledger", {"kind": "gdp", "mu": 1.0})
    stranger = Browser(Desk(tmp_path / "other"))
    assert page(friend) == page(stranger)
    assert stranger.guard.link.partition("#")[2] not in page(stranger)
    assert friend.secret not in page(friend)


def test_a_token_works_once(desk):
    client = Browser(desk)
    token = client.guard.link.partition("#")[2]
    assert len(token) > 40
    assert client.enter("").status_code == 403
    assert client.enter("wrong").status_code == 403
    assert client.enter(token).status_code == 200
    assert client.post("/state", {}).status_code == 200
    assert token != client.secret
    thief = Browser(desk)
    thief.app = client.app
    assert thief.enter(token).status_code == 403
    assert thief.enter("").status_code == 403  # there is no token left
    assert thief.post("/state", {}).status_code == 403


def test_other_hosts_are_refused(desk):
    """As of a site that calls itself by a name which leads to this machine."""
    client = Browser(desk)
    client.enter()
    for host in ("evil.example:8000", "127.0.0.1:9000", "127.0.0.1", ""):
        answer = client("GET", "/", headers={"Host": host})
        assert answer.status_code == 400, host


def test_the_file_with_the_link_is_the_user_s_alone(tmp_path):
    before = os.umask(0)
    try:
        file = LinkFile(tmp_path / "new")
        for link in ("http://127.0.0.1:1/#first", "http://127.0.0.1:1/#second"):
            file.write(link)
            assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
            assert link in file.path.read_text()
    finally:
        os.umask(before)
    assert "first" not in file.path.read_text()
    file.delete()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="there are no modes of folders")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o707, 0o733])
def test_no_link_is_put_where_others_can_replace_it(tmp_path, mode):
    """They could send the browser to a page of their own, and take what is dropped there."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(ParameterError, match="others can write to"):
        LinkFile(folder)
    assert list(folder.iterdir()) == []


FAKE_BROWSER = """\
import json, sys, time
from pathlib import Path

log = Path(sys.argv[1])
log.write_text(json.dumps(sys.argv))
for _ in range(600):  # it stays in the process list until the test removes the file
    if not log.exists():
        break
    time.sleep(0.1)
"""


@pytest.fixture
def opened_studio(tmp_path):
    """A studio that was started by the command, and the arguments of its browser."""
    program, log = tmp_path / "browser.py", tmp_path / "arguments.json"
    program.write_text(FAKE_BROWSER)
    folder = tmp_path / "study"
    environment = {
        **os.environ,
        "BROWSER": f"{sys.executable} {program} {log} %s &",
        "PYTHONPATH": str(Path(curvedp.__file__).parents[1]),
    }
    command = [sys.executable, "-m", "curvedp", "studio", "--folder", str(folder)]
    process = subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    printed = []
    reader = threading.Thread(target=lambda: printed.extend(process.stdout))
    reader.start()
    try:
        yield wait_for(lambda: json.loads(log.read_text())), folder, printed
    finally:
        log.unlink(missing_ok=True)  # or the browser keeps the pipe that is read open
        process.terminate()
        process.wait(30)
        reader.join(30)
        process.stdout.close()


def wait_for(find, seconds=60):
    for _ in range(10 * seconds):
        try:
            return find()
        except (OSError, ValueError):
            threading.Event().wait(0.1)
    return find()


def command_lines():
    """The arguments of every process of this machine, as every user can read them."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it may have ended
            lines.append(path.read_bytes().decode(errors="replace"))
    return lines


def post(address, path, headers):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("POST", path, body="{}", headers=headers)
    answer = connection.getresponse()
    assert answer.getheader("Set-Cookie") is None
    found = answer.status, answer.read()
    connection.close()
    return found


def test_no_started_process_is_told_a_secret(opened_studio):
    arguments, folder, printed = opened_studio
    file = Path(unquote(urlparse(arguments[-1]).path))
    assert file.parent == folder.resolve()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def link():
        return re.search(r"http://(127\.0\.0\.1:\d+)/#([\w-]+)", file.read_text())

    address, token = link().groups()
    status, content = post(address, "/enter", {"X-Curvedp-Token": token})
    assert status == 200
    secret = json.loads(content)["secret"]
    assert post(address, "/state", {SECRET_HEADER: secret})[0] == 200
    assert post(address, "/state", {})[0] == 403

    if Path("/proc").is_dir():
        lines = command_lines()
        assert any(str(file) in line for line in lines)  # the browser is seen, and
        assert not any(token in line or secret in line for line in lines)
    assert token not in " ".join(arguments)
    # The file leads to a new link: whoever closed the tab opens it again.
    again = link()[2]
    assert again != token
    assert post(address, "/enter", {"X-Curvedp-Token": token})[0] == 403
    assert post(address, "/enter", {"X-Curvedp-Token": again})[0] == 200
    text = "".join(printed)
    assert str(file) in text
    assert not any(each in text for each in (token, again, secret))


@pytest.mark.parametrize("browser", [False, True])
def test_the_link_is_printed_only_without_a_browser(tmp_path, monkeypatch, browser):
    said, tried = [], threading.Event()

    def open_no_browser(address):
        assert address.startswith("file://")
        tried.set()
        return False

    def run(self, sockets):
        assert tried.wait(20)
        for _ in range(200):
            if any("works once" in line for line in said):
                break
            threading.Event().wait(0.05)
        sockets[0].close()

    if not browser:
        tried.set()
    monkeypatch.setattr(server.webbrowser, "open", open_no_browser)
    monkeypatch.setattr(server.uvicorn.Server, "run", run)
    server.serve(tmp_path / "new", browser=browser, say=said.append)
    link = re.compile(r"http://127\.0\.0\.1:\d+/#[\w-]{40,}")
    assert sum(link.search(line) is not None for line in said) == 1
    assert not (tmp_path / "new").exists()
