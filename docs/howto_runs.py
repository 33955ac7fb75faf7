"""Run the how-to pages that follow one file to the printed result, and draw their figure.

    python docs/howto_runs.py

runs the Python and shell blocks of each page in order, in a folder of its own, prints
what the commands print, and keeps their figures in docs/images. The test of these pages
runs them in the same way.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
PROGRAMS = Path(sys.executable).parent
PAGES = (
    "mean-direction",
    "class-matrices",
    "approve-a-study",
    "connectomes",
    "region-tensors",
)
# The figures that pages write, and what they are called in docs/images.
FIGURES = {
    "sites.svg": "howto-sites.svg",
    "results/group.svg": "howto-connectome.svg",
    "regions.svg": "howto-regions.svg",
}
_BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", flags=re.S | re.M)


def run_page(name: str, folder: Path, programs: Path = PROGRAMS) -> str:
    """Run all blocks of a page in a folder and return what they print.

    The command `curvedp` is the one in the folder `programs`.

    Raises
    ------
    RuntimeError
        If a block fails, with what it printed.
    """
    text = (FOLDER / "howto" / f"{name}.md").read_text(encoding="utf-8")
    blocks = _BLOCK.findall(text)
    script = "\n".join(code for kind, code in blocks if kind == "python")
    # Python first: these blocks make the files that the commands read.
    commands = [[sys.executable, "-c", script]]
    for kind, code in blocks:
        if kind == "bash":
            commands.append(["bash", "-e", "-c", code])
    search_path = os.pathsep.join([str(programs), str(PROGRAMS), os.environ["PATH"]])
    environment = {**os.environ, "PATH": search_path, "COLUMNS": "120"}
    printed = []
    for command in commands:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        printed.append(done.stdout + done.stderr)
        if done.returncode != 0:
            raise RuntimeError(f"{command[-1]}\n{printed[-1]}")
    return "\n".join(printed)


def main() -> None:
    """Run the pages, print what they print, and keep their figures."""
    for name in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            print(f"## {name}\n\n{run_page(name, Path(folder))}", flush=True)
            for written, kept in FIGURES.items():
                figure = Path(folder) / written
                if figure.exists():
                    shutil.copyfile(figure, FOLDER / "images" / kept)


if __name__ == "__main__":
    main()
