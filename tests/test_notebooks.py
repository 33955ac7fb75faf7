"""Every notebook of the gallery runs, cell by cell, and leaves a picture with something on it."""

import json
import os
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_six():
    assert len(NOTEBOOKS) == 6


DATA = Path(
    os.environ.get("CURVEDP_DATA", Path(__file__).parents[2] / "shared" / "data")
)
REAL = ("connectome_correlation", "dti_atlas", "earth_directions", "orientations")


def some_of_the_data(folder):
    """The data sets as they are; of the storms, which are by far the most, the first 6,000 places."""
    for file in DATA.iterdir():
        if file.name != "hurdat2_AL.npz":
            (folder / file.name).symlink_to(file.resolve())
        else:
            with np.load(file) as held:
                np.savez(
                    folder / file.name,
                    **{name: held[name][:6000] for name in ("lat", "lon", "key")},
                )


@pytest.mark.parametrize("real", [False, True], ids=["stand-in", "data"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, real, tmp_path, monkeypatch):
    if real and not (path.stem in REAL and DATA.is_dir()):
        pytest.skip("no data set of this kind, or no folder with them (CURVEDP_DATA)")
    (folder := tmp_path / "data").mkdir()
    if real:
        some_of_the_data(folder)
    monkeypatch.setenv("CURVEDP_DATA", str(folder))
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert cells[0]["cell_type"] == "markdown"
    space = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []  # nothing unpaid is committed
            exec(
                compile("".join(cell["source"]), f"{path.name}:{cell['id']}", "exec"),
                space,
            )
    space["figure"].savefig(tmp_path / "picture.png")
    image = plt.imread(tmp_path / "picture.png")[..., :3]
    assert np.ptp(image, axis=(0, 1)).min() > 0.5
    plt.close("all")


def test_the_page_lists_them():
    page = (Path(__file__).parents[1] / "docs" / "tutorials" / "index.md").read_text(
        encoding="utf-8"
    )
    assert set(re.findall(r"notebooks/(\w+)\.ipynb", page)) == {
        path.stem for path in NOTEBOOKS
    }
