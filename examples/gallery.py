"""Run every tutorial and keep its picture and what it printed for the documentation: `make gallery`.

Each script runs in `docs/images`, where it leaves its picture; the text goes beside it. The data come from CURVEDP_DATA.
"""

import contextlib
import io
import os
import runpy
from pathlib import Path

import matplotlib

HERE = Path(__file__).parent
IMAGES = HERE.parent / "docs" / "images"
SPACES = (
    "wind",
    "proportions",
    "correlations",
    "poses",
    "complex_covariances",
    "rotations",
)
TUTORIALS = (
    "tensor_mean",
    "directions",
    "hyperbolic",
    *SPACES,
    "polar_wander",
    "skull_growth",
    "synthetic_angles",
    "private_topics",
    "local_privacy",
    "eeg_classification",
    "training",
)


def main() -> None:
    matplotlib.use("agg")
    IMAGES.mkdir(exist_ok=True)
    os.chdir(IMAGES)
    for name in TUTORIALS:
        print(name, flush=True)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")
        Path(f"{name}.txt").write_text(said.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    main()
