"""The whole walk in a real browser: by mouse, then by keyboard; light, dark and narrow."""

import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread

import numpy as np
import pytest
import uvicorn

from curvedp import Ledger
from curvedp.geometry import SPDAffineInvariant
from curvedp.signing import new_identity, write_key
from curvedp.studio import server
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
def in_a_thread(folder, browser=False):
    """The same server without a process, whose imports are most of its time."""
    said, servers = Queue(), []

    class Known(uvicorn.Server):
        def __init__(self, config):
            super().__init__(config)
            servers.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn, "Server", Known)
        key = None if browser else folder / "our.key"
        given = {"browser": browser, "key": key, "say": said.put}
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
    # A tab that this one opens sees the release and is not offered it again.
    with page.context.expect_page() as opened:
        page.evaluate("window.open('/')")
    second = opened.value
    expect(second.locator("#r-1")).to_be_visible(timeout=LONG)
    expect(second.locator("#release")).to_be_disabled()
    # A tab that was opened by anybody else is told nothing.
    stranger = page.context.new_page()
    stranger.goto(page.url)
    expect(stranger.locator("#e-file")).to_contain_text("go back", timeout=LONG)
    assert page.context.cookies() == []
    page.click("text=Sign the certificate")  # 6: from the file to a signed release
    expect(page.locator("text=signed by")).to_be_visible(timeout=LONG)
    with page.context.expect_page() as opened:
        page.click("#r-1 a >> text=report")
    report = opened.value
    expect(report.locator("h1")).to_contain_text("Private Fréchet mean", timeout=LONG)
    color = "getComputedStyle(document.body).backgroundColor"
    assert report.evaluate(color) == "rgb(251, 252, 253)"  # its style is its own
    with page.expect_download() as saved:
        page.click("#r-1 >> text=value")
    folder = tmp_path / "studio/release-1"
    content = Path(saved.value.path()).read_bytes()
    assert content == (folder / "value.csv").read_bytes()
    assert page.said == []
    assert all(
        re.match(r"(blob:)?http://127\.0\.0\.1:|data:image/svg", address)
        for address in page.asked
    )
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


def test_only_the_answer_to_the_last_choice_can_be_released(page, tmp_path):
    """A prediction of an earlier choice that arrives late must not offer a release.

    Its key belongs to the earlier choice, so the studio would refuse the release. A slow
    machine showed this: the prediction of the first of several moves of a slider was
    still under way when the ledger was started.
    """
    checked(page, tmp_path)
    held_routes = []
    is_holding = True

    def hold(route):
        if is_holding:
            held_routes.append(route)
        else:
            route.continue_()

    def is_settled_prediction(request):
        return "/plan" in request.url and request.post_data_json["mechanism"] == "auto"

    page.route("**/plan", hold)
    page.focus("#sliders input")
    with page.expect_request(is_settled_prediction):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.focus("#start")
    page.keyboard.press("Enter")
    expect(page.locator("#book")).to_be_visible(timeout=LONG)

    # The next question is sent as soon as the answer to the first one was shown.
    (early,) = [route for route in held_routes if is_settled_prediction(route.request)]
    with page.expect_request(is_settled_prediction, timeout=LONG):
        early.continue_()
    assert page.locator("#release").is_disabled()

    is_holding = False
    for route in held_routes:
        if route is not early:
            route.continue_()
    expect(page.locator("#release")).to_be_enabled(timeout=LONG)
    page.focus("#release")
    page.keyboard.press("Enter")
    expect(page.locator("#r-1")).to_be_visible(timeout=LONG)
    expect(page.locator("#e-release")).to_be_empty()
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
    expect(page.locator("#e-plan")).to_contain_text(
        "with the classes” is missing", timeout=LONG
    )
    expect(page.locator("#release")).to_be_disabled()
    page.select_option("#statistic", "regression")
    expect(page.locator("#x_range")).to_be_visible()
    expect(page.locator("#n_components")).to_be_hidden()
    expect(page.locator("#e-plan")).to_contain_text(
        "with the predictor” is missing", timeout=LONG
    )
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


def test_no_script_of_a_report_runs(page, tmp_path):
    """The report is a document of the page's origin, in which nothing may run."""
    checked(page, tmp_path)
    page.click("#start")
    expect(page.locator("#release")).to_be_enabled(timeout=LONG)
    page.click("#release")
    expect(page.locator("#r-1")).to_be_visible(timeout=LONG)
    report = tmp_path / "studio/release-1/report.html"
    script = "<script>document.title = 'run'</script><img src=x onerror='alert(1)'>"
    report.write_text(report.read_text().replace("<body>", f"<body>{script}"))
    assert script in report.read_text()
    with page.context.expect_page() as opened:
        page.click("#r-1 a >> text=report")
    expect(opened.value.locator("h1")).to_be_visible(timeout=LONG)
    assert opened.value.title() != "run"


def test_a_file_that_leads_to_the_studio(browser, tmp_path):
    """What a browser is started with: a file, which redirects, and works again."""
    addresses = Queue()

    def open_browser(address):
        addresses.put(address)
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.webbrowser, "open", open_browser)
        with in_a_thread(tmp_path, browser=True):
            address = addresses.get(timeout=20)
            assert "127.0.0.1" not in address
            for _ in range(2):
                context = browser.new_context()
                page = context.new_page()
                page.goto(address)
                page.wait_for_url(re.compile(r"http://127\.0\.0\.1:\d+/$"))
                expect(page.locator("#form option")).not_to_have_count(1, timeout=LONG)
                expect(page.locator("#e-file")).to_be_empty()
                page.reload()
                expect(page.locator("#form option")).not_to_have_count(1, timeout=LONG)
                assert context.cookies() == []
                context.close()


def test_another_port_receives_nothing(page, studio):
    """A server of somebody else's on this machine is not told the secret by a browser."""
    seen = []

    class Thief(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(dict(self.headers))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<p>hello</p>")

        def log_message(self, *_):
            pass

    expect(page.locator("#form option")).not_to_have_count(1, timeout=LONG)
    secret = page.evaluate("sessionStorage.getItem('curvedp-studio-secret')")
    assert len(secret) > 40
    with ThreadingHTTPServer(("127.0.0.1", 0), Thief) as thief:
        Thread(target=thief.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{thief.server_port}/"
        page.goto(address)
        page.reload()
        assert page.evaluate("sessionStorage.length + document.cookie.length") == 0
        thief.shutdown()
    assert len(seen) >= 2
    assert not any(secret in str(headers) or "Cookie" in headers for headers in seen)


def test_places_and_synthetic_records(page, tmp_path):
    """Reports of places without a ledger; and real records beside synthetic ones, on the page alone."""
    rng = np.random.default_rng(1)
    places = np.array([51.5, -0.1]) + 0.05 * rng.normal(size=(200, 2))
    table = "\n".join(f"{latitude},{longitude}" for latitude, longitude in places)
    (tmp_path / "places.csv").write_text(f"lat,lon\n{table}\n")
    page.set_input_files("#file", tmp_path / "places.csv")
    expect(page.locator("#filename")).to_have_text("places.csv", timeout=LONG)
    page.select_option("#preset", label="latitude, longitude in degrees")
    expect(page.locator("#perturb")).to_be_disabled()
    page.click("#check")
    expect(page.locator("#planned")).to_be_visible(timeout=LONG)
    page.fill("#public_place", "51.5, -0.1")
    page.click("#expect")
    expect(page.locator("#expectation")).to_contain_text("2 kilometers", timeout=LONG)
    page.click("#perturb")
    expect(page.locator("#reportwords")).to_contain_text("200 reports", timeout=LONG)
    expect(page.locator("#reportpromise")).to_contain_text("Not protected")
    expect(page.locator("#perturb")).to_be_disabled()
    assert not (tmp_path / "studio/study.ledger").exists()

    page.select_option("#statistic", label="synthetic records")
    page.check("#private")
    page.click("#start")
    expect(page.locator("#release")).to_contain_text("pays", timeout=LONG)
    page.click("#release")
    page.click("text=Look at the records beside it", timeout=LONG)
    picture = page.locator("#r-1 img")
    expect(picture).to_be_visible(timeout=LONG)
    assert picture.evaluate("image => image.naturalWidth") > 500
    assert page.said == []
    names = {path.name for path in (tmp_path / "studio/release-1").iterdir()}
    assert "synthetic.csv" in names
    assert not any(name.endswith(".png") for name in names)


def test_two_files_are_compared(page, tmp_path):
    """Two files dropped together choose a comparison; its price is shown, and paid once."""
    M = SPDAffineInvariant(2)
    z = 0.3 * np.random.default_rng(1).normal(size=(300, M.dim)) + 0.5
    np.save(tmp_path / "shifted.npy", M.exp(M.origin, M.from_coordinates(M.origin, z)))
    files = [tmp_path / "tensors.npy", tmp_path / "shifted.npy"]
    page.set_input_files("#file", files)
    expect(page.locator("#filename")).to_have_text(
        "tensors.npy, shifted.npy", timeout=LONG
    )
    expect(page.locator("#statistic")).to_have_value("compare-groups")
    page.fill("#manifold", "spd-affine:2")
    page.click("#check")
    expect(page.locator("#planned")).to_be_visible(timeout=LONG)
    expect(page.locator("#plannotes")).to_contain_text("600 records in 2 groups")
    expect(page.locator("#shiftwords")).to_contain_text("four times of five")
    page.check("#private")
    page.click("#start")
    expect(page.locator("#release")).to_have_text(
        "Release the comparison of groups: pays GDP(1.0) of GDP(2.0)", timeout=LONG
    )
    expect(page.locator("#bookunit")).to_contain_text("within its public class")
    page.click("#release")
    expect(page.locator("#r-1 pre")).to_contain_text(
        "tensors and shifted differ", timeout=LONG
    )
    expect(page.locator("#r-1 .tag")).to_contain_text("paid for: GDP(1.0)")
    assert Ledger(tmp_path / "studio/study.ledger").spent.mu <= 1.0
    with page.context.expect_page() as opened:
        page.click("#r-1 a >> text=report")
    report = opened.value
    expect(report.locator("h1")).to_contain_text("comparison of", timeout=LONG)
    for view in (page, report):
        view.set_viewport_size({"width": 400, "height": 900})
        assert view.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.said == []

    # Another statistic is of one file, which is said, and nothing can be released.
    page.select_option("#statistic", "mean")
    expect(page.locator("#e-plan")).to_contain_text("choose one file", timeout=LONG)
    expect(page.locator("#release")).to_be_disabled()
