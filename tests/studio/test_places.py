"""Places in the studio: what is expected is public, reports are drawn once, mistakes are one line."""

import json

import numpy as np
import pytest

from curvedp.local import Earth
from curvedp.local.certificate import LocalCertificate
from curvedp.local.verify import verify_local_certificate
from curvedp.studio.desk import Desk
from studio.desks import Browser

pytestmark = pytest.mark.usefixtures("plain_pictures")

STUDY = {
    "manifold": "sphere:2",
    "form": "latlon-degrees",
    "header": True,
    "sep": ";",
    "decimal": ",",
}
ROWS = ["51,5;-0,12", "nothing;3", "91;12", "-16,5;180", "89,9999;20"]


@pytest.fixture
def client(tmp_path):
    (tmp_path / "places.csv").write_text("\n".join(["lat;lon", *ROWS, ""]))
    desk = Desk(tmp_path / "out", tmp_path / "places.csv")
    browser = Browser(desk)
    browser.enter()
    yield browser
    desk.close()


def test_reports_of_an_awkward_file_are_drawn_once(client, tmp_path):
    asked = {"epsilon_per_km": 2.0, "public_place": "51.5, -0.1", "study": STUDY}
    found = client.post("/perturb", asked).json()
    assert found["count"] == 5
    assert "Metric privacy" in found["promise"][0]
    folder = tmp_path / "out/reports-1"
    reports = np.loadtxt(folder / "reports.csv", delimiter=",", skiprows=1)
    expected = [[51.5, -0.12], [51.5, -0.1], [51.5, -0.1], [-16.5, 180], [89.9999, 20]]
    assert np.max(Earth().dist(np.array(expected), reports)) < 20
    text = (folder / "certificate.json").read_text()
    certificate = LocalCertificate.from_json(text)
    assert all(check.holds for check in verify_local_certificate(certificate))
    assert "51.5;" not in json.dumps(found)

    # A second click, or a lost answer, draws nothing: it would cost as much again.
    assert client.post("/perturb", asked).json() == found
    assert not (tmp_path / "out/reports-2").exists()
    client.post("/perturb", {**asked, "epsilon_per_km": 1.0})
    assert (tmp_path / "out/reports-2/reports.csv").exists()


def test_what_is_expected_is_public(client):
    """The same whatever the file, and before anything is drawn."""
    found = client.post("/expect_reports", {"epsilon_per_km": 1.0}).json()
    assert "2 kilometers" in found["said"]
    assert found["picture"].startswith("data:image/png;base64,")


@pytest.mark.parametrize(
    "more",
    [
        {"epsilon_per_km": None},
        {"epsilon_per_km": -1},
        {"epsilon_per_km": "much"},
        {"public_place": "London"},
        {"public_place": "91,0"},
        {"study": {**STUDY, "form": ""}},
        {"study": {**STUDY, "columns": "none"}},
        {"study": 3},
    ],
    ids=str,
)
def test_mistakes_are_one_line_and_draw_nothing(client, tmp_path, more):
    asked = {"epsilon_per_km": 2.0, "public_place": "", "study": STUDY, **more}
    answer = client.post("/perturb", asked)
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]
    assert not (tmp_path / "out/reports-1").exists()
