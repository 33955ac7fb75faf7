"""The whole walk in a real browser: by mouse, then by keyboard; light, dark and narrow."""

import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from queue import Queue
from threading import Thread

import numpy as np
import pytest
import uvicorn

from curvedp import Ledger
from curvedp.geometry import SPDAffineInvariant
from curvedp.signing import new_identity, write_key
from curvedp.studio.server import serve

CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)
playwright = pytest.importorskip(
    "playwright.sync_api", reason="the browser is driven by playwright (extra: test)"
)
expect = playwright.expect
LONG = 60_000  # ms: a busy machine

pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium on this machine; .ci/run installs one where it can",
)


@contextmanager
def in_a_process(folder):
    command = [
        sys.executable,
        "-m",
        "curvedp",
        "studio",
        "--no-browser",
        "--key",
        "our.key",
    ]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process.stdout.readline()
        process.terminate()
        process.wait(20)


@contextmanager
def in_a_thread(folder):
    """The same server without a process, whose imports are most of its time."""
    said, servers = Queue(), []

    class Known(uvicorn.Server):
        def __init__(self, config):
            super().__init__(config)
            servers.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn, "Server", Known)
        given = {"browser": False, "key": folder / "our.key", "say": said.put}
        thread = Thread(target=serve, args=(folder / "studio",), kwargs=given)
        thread.start()
        yield said.get(timeout=20)
        servers[0].should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def studio(tmp_path, request):
    """The address of a running studio, as the terminal prints it; by mouse, that of the command."""
    M = SPDAffineInvariant(2)
    z = 0.3 * np.random.default_rng(0).normal(size=(300, M.dim))
    np.save(tmp_path / "tensors.npy", M.exp(M.origin, M.from_coordinates(M.origin, z)))
    write_key(tmp_path / "our.key", new_identity())
    running = in_a_process if request.function is test_by_mouse else in_a_thread
    with running(tmp_path) as said:
        yield re.search(r"http\S+", said)[0]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture
def page(studio, browser):
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    page = context.new_page()
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(studio)
    yield page
    context.close()


def checked(page, tmp_path):
    page.set_input_files("#file", tmp_path / "tensors.npy")  # 1
    expect(page.locator("#filename")).to_have_text("tensors.npy", timeout=LONG)
    page.fill("#manifold", "spd-affine:2")  # 2
    page.click("#check")  # 3
    expect(page.locator("#planned")).to_be_visible(timeout=LONG)


def test_by_mouse(page, tmp_path):
    checked(page, tmp_path)
    expect(page.locator("#checked .tag")).to_have_text("not private · stays here")
    page.click("#start")  # 4
    expect(page.locator("#release")).to_have_text(
        "Release the Fréchet mean: pays GDP(1.0) of GDP(2.0)", timeout=LONG
    )
    page.click("#release")  # 5
    expect(page.locator("#r-1 .tag")).to_have_text(
        "paid for: GDP(1.0) · may be published", timeout=LONG
    )
    # Beside what was paid for nothing else is open, and each number of the page lies under a word that says what it is.
    expect(page.locator("#facts")).to_be_hidden()
    for section, word in (
        ("#checked", "not private"),
        ("#planned", "public"),
        ("#r-1", "paid for"),
    ):
        assert word in page.locator(f"{section} .tag").first.text_content()
    expect(page.locator("#release")).to_be_disabled()
    assert len(Ledger(tmp_path / "studio/study.ledger").entries) == 1
    second = (
        page.context.new_page()
    )  # a second tab sees the release and is not offered it again
    second.goto(page.url)
    expect(second.locator("#r-1")).to_be_visible(timeout=LONG)
    expect(second.locator("#release")).to_be_disabled()
    page.click("text=Sign the certificate")  # 6: from the file to a signed release
    expect(page.locator("text=signed by")).to_be_visible(timeout=LONG)
    with page.context.expect_page() as opened:
        page.click("text=report")
    expect(opened.value.locator("h1")).to_contain_text(
        "Private Fréchet mean", timeout=LONG
    )
    assert page.said == []
    assert all(address.startswith("http://127.0.0.1:") for address in page.asked)
    for scheme, width in (("light", 1100), ("dark", 1100), ("light", 400)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        assert (
            page.evaluate("document.documentElement.scrollWidth") <= width
        )  # nothing runs out of the page
        dark = (
            page.evaluate("getComputedStyle(document.body).backgroundColor")
            == "rgb(17, 24, 31)"
        )
        assert dark == (scheme == "dark")


def test_by_keyboard(page, tmp_path):
    checked(page, tmp_path)
    before = page.inner_text("#guess")
    page.focus("#sliders input")
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    expect(page.locator("#guess")).not_to_have_text(before, timeout=LONG)
    page.focus("#start")
    page.keyboard.press("Enter")
    expect(page.locator("#release")).to_be_enabled(timeout=LONG)
    page.focus("#release")
    page.keyboard.press("Enter")
    expect(page.locator("#r-1")).to_be_visible(timeout=LONG)
    assert len(Ledger(tmp_path / "studio/study.ledger").entries) == 1


def test_another_statistic_guarantee_and_ball(page, tmp_path):
    """By keyboard, but for the fields: a median, a classifier and a geodesic, of concentrated DP, no radius given."""
    checked(page, tmp_path)
    page.focus("#statistic")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#errorwords")).to_contain_text("median", timeout=LONG)
    page.focus("input[name=kind][value=gdp]")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#sliders label")).to_have_text("ρ0.5")
    expect(page.locator("#budgetkind")).to_contain_text("concentrated")
    page.focus("#private")
    page.keyboard.press("Space")
    expect(page.locator("#radius")).to_be_disabled()
    page.focus("#start")
    page.keyboard.press("Enter")
    expect(page.locator("#release")).to_have_text(
        "Release the median: pays ZCDP(0.5) of ZCDP(1.0)", timeout=LONG
    )
    page.focus("#release")
    page.keyboard.press("Enter")
    expect(page.locator("#r-1")).to_contain_text("private median", timeout=LONG)
    page.select_option("#statistic", "mdm")
    expect(page.locator("#e-plan")).to_contain_text("labels is missing", timeout=LONG)
    expect(page.locator("#release")).to_be_disabled()
    page.select_option("#statistic", "regression")
    expect(page.locator("#x_range")).to_be_visible()
    expect(page.locator("#n_components")).to_be_hidden()
    expect(page.locator("#e-plan")).to_contain_text("x is missing", timeout=LONG)
    assert len(Ledger(tmp_path / "studio/study.ledger").entries) == 1


def test_mistakes_are_one_line(page, tmp_path):
    page.set_input_files("#file", tmp_path / "tensors.npy")
    expect(page.locator("#check")).to_be_enabled(timeout=LONG)
    page.click("#check")
    expect(page.locator("#e-check")).to_contain_text("choose a space", timeout=LONG)
    page.fill("#manifold", "spd-affine:5")
    page.click("#check")
    expect(page.locator("#e-check")).to_contain_text("(n, 5, 5)", timeout=LONG)
    page.fill("#manifold", "spd-affine:2")
    page.click("#check")
    expect(page.locator("#planned")).to_be_visible(timeout=LONG)
    page.fill("#radius", "-3")
    page.press("#radius", "Tab")
    expect(page.locator("#e-plan")).to_contain_text("radius", timeout=LONG)
    expect(page.locator("#planned")).to_be_hidden()
