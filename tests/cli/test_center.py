"""`--center` as docs/howto/choose-ball-and-guarantee.md describes it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from support.shell import run

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "choose-ball-and-guarantee.md"
IDENTITY = np.eye(3)
# What each line of the page's table means, by what is typed.
MEANT = {
    "47.5,8.2": ("sphere:2", [0.668681, 0.096359, 0.737277]),
    "1,0,0,0,1,0,0,0,1": ("spd-affine:3", IDENTITY),
    "0.0007": ("spd-affine:3", 0.0007 * IDENTITY),
    "atlas.npy": ("spd-affine:3", 2 * IDENTITY),
}


def test_the_page_lists_what_is_tried_here():
    section = PAGE.read_text().split("### The center on the command line")[1]
    assert re.findall(r"^\| `--center (\S+)`", section, flags=re.M) == list(MEANT)


@pytest.mark.parametrize("typed", MEANT)
def test_a_typed_center_is_the_point_that_is_meant(typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space, meant = MEANT[typed]
    np.save("atlas.npy", 2 * IDENTITY)
    form = []
    if space == "sphere:2":
        Path("x.csv").write_text("lat,lon\n" + "47,8\n48,9\n" * 20)
        form = ["--as", "latlon-degrees", "--header"]
    else:
        np.savetxt("x.csv", np.tile(IDENTITY.ravel(), (40, 1)), delimiter=",")
        form = ["--no-header"]
    result = run(
        *("release", "x.csv", "-m", space, *form, "--center", typed),
        *("-r", 0.3, "--mu", 1, "--json"),
    )
    assert result.exit_code == 0, result.output
    center = json.loads(result.stdout)["certificate"]["statistic"]["center"]
    assert np.allclose(center, meant, atol=1e-6)
