"""`make lock`: constraints.txt (versions) and constraints.hashed.txt (versions and hashes of every archive), by uv.

Versions that constraints.txt has are kept; delete a line there to get the newest release of it. The two files say the same
versions, which tests/test_release.py checks.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
UV = "uv==0.13.7"
ASK = [
    "--extra",
    "test",
    "--extra",
    "bench",
    "--universal",
    "--python-version",
    "3.11.5",
    "--no-header",
    "--no-annotate",
]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/pip", "install", "--quiet", UV], check=True)
        compiler = [
            f"{folder}/bin/uv",
            "pip",
            "compile",
            "--quiet",
            "pyproject.toml",
            *ASK,
        ]
        kept = Path(folder, "kept.txt")
        kept.write_text((ROOT / "constraints.txt").read_text())
        for options in (
            ["-o", "constraints.txt"],
            ["-o", "constraints.hashed.txt", "--generate-hashes"],
        ):
            subprocess.run(
                [*compiler, "--constraint", str(kept), *options], check=True, cwd=ROOT
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
