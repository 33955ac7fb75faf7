"""What must work where nothing but the core is installed: run as a script, without pytest, by `make matrix`.

Imports every room, makes a private mean with its ledger and certificate, verifies it, and reads what is said where an extra
is missing: one line that names it.
"""

import importlib
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOMS = (
    "geometry",
    "records",
    "laws",
    "randomness",
    "privacy",
    "mechanisms",
    "regression",
    "estimators",
    "ledger",
    "errors",
)
EXTRAS = {"report": ("curvedp.report", "matplotlib"), "jax": ("curvedp.optim", "jax")}


def refusal(module: str) -> str:
    try:
        importlib.import_module(module)
    except ImportError as error:
        return str(error)
    return "it was imported"


def main() -> None:
    import curvedp
    from curvedp import GDP, Ledger, PrivateFrechetMean
    from curvedp.geometry import SPDAffineInvariant, Sphere
    from curvedp.release.verify import verify_certificate

    for room in ROOMS:
        importlib.import_module(f"curvedp.{room}")
    rng = np.random.default_rng(0)
    for manifold in (Sphere(2), SPDAffineInvariant(3)):
        steps = manifold.to_tangent(
            manifold.origin, rng.normal(size=(200, *manifold.point_shape))
        )
        records = manifold.exp(manifold.origin, 0.2 * steps)
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(Path(folder) / "x.ledger", GDP(1.0))
            fitted = PrivateFrechetMean(
                manifold, radius=0.7, guarantee=GDP(0.5), ledger=ledger
            ).fit(records)
            assert ledger.spent == GDP(0.5)
        assert manifold.dist(fitted.location_, manifold.origin) < 0.7
        verify_certificate(fitted.certificate_)
    for extra, (module, package) in EXTRAS.items():
        if importlib.util.find_spec(package) is None:
            said = refusal(module)
            assert f"curvedp[{extra}]" in said, said
            assert "\n" not in said
    for arguments in (
        ["--version"],
        ["plan", "-m", "sphere:2", "-n", "100", "-r", "0.5", "--mu", "1"],
    ):
        run = subprocess.run(
            [sys.executable, "-m", "curvedp", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
    print(
        f"curvedp {curvedp.__version__} on Python {sys.version.split()[0]}, NumPy {np.__version__}: the core works"
    )


if __name__ == "__main__":
    main()
