"""Last-bit attacks on releases, N = 10⁵ a side: naive float64 controls beside exact-then-round, on S², H² and SPD(3).

`python -m benchmarks.release_red_team [N]`. Each number is a lower bound on ε that holds with confidence 99.99%.
"""

import sys

import numpy as np
from scipy.optimize import brentq

from curvedp.audit.release_attacks import (
    distinguish,
    lowest_bit,
    naive_lorentz_laplace,
    naive_spd_gaussian,
    naive_sphere_laplace,
    norm_residual,
    symmetry_residual,
)
from curvedp.entropy import SecureSource, exact_gaussian, exact_laplace
from curvedp.geometry import Lorentz, SPDAffineInvariant, Sphere
from curvedp.laws import RiemannianGaussian

EPS, DISTANCE, DELTA = 2.0, 0.5, 1e-4
SCALE = DISTANCE / EPS
SHIFT = np.array([0.2, -0.1, 0.12])
CENTERS = {
    "S2": (np.array([1.0, 0.0, 0.0]), np.array([np.cos(DISTANCE), np.sin(DISTANCE), 0.0])),
    "H2": (np.array([1.0, 0.0, 0.0]), np.array([np.cosh(DISTANCE), np.sinh(DISTANCE), 0.0])),
    "SPD(3)": (np.eye(3), np.diag(np.exp(SHIFT))),
}


def spd_epsilon() -> float:
    """A valid ε at δ = 1e-4: L ≤ (2d₁Δ + Δ²)/2σ² by the triangle inequality, and the exact tail of d₁; σ = 1."""
    law, distance = RiemannianGaussian(SPDAffineInvariant(3), 1.0), float(np.linalg.norm(SHIFT))
    edge = brentq(lambda r: float(law.radial_cdf(r)) - (1 - DELTA), 1, 20)
    return (2 * edge * distance + distance**2) / 2


def features(space: str, x: np.ndarray) -> dict[str, np.ndarray]:
    if space == "SPD(3)":
        found = {f"lowest bit of x[{i},2]": lowest_bit(x[:, i, 2]) for i in range(3)}
        return found | {"symmetry residual": symmetry_residual(x)}
    found = {f"lowest bit of x[{i}]": lowest_bit(x[:, i]) for i in range(3)}
    return found | {"norm residual": norm_residual(x, [1, 1, 1] if space == "S2" else [-1, 1, 1])}


def main(n: int = 100_000) -> None:
    rng, source = np.random.default_rng(0), SecureSource()
    naive = {
        "S2": lambda p: naive_sphere_laplace(p, SCALE, n, rng),
        "H2": lambda p: naive_lorentz_laplace(p, SCALE, n, rng),
        "SPD(3)": lambda p: naive_spd_gaussian(p, 1.0, n, rng),
    }
    exact = {
        "S2": lambda p: exact_laplace(Sphere(2), SCALE, p, source=source),
        "H2": lambda p: exact_laplace(Lorentz(2), SCALE, p, source=source),
        "SPD(3)": lambda p: exact_gaussian(SPDAffineInvariant(3), 1.0, p, source=source),
    }
    project = {"S2": Sphere(2), "H2": Lorentz(2), "SPD(3)": SPDAffineInvariant(3)}
    print(f"N = {n} a side")
    print(f"{'space':8s} {'attack':24s} {'claimed':>8s} {'float64':>8s} {'exact':>8s} {'exact, projected':>17s}")
    for space, centers in CENTERS.items():
        delta, claimed = (DELTA, spd_epsilon()) if space == "SPD(3)" else (0.0, EPS)
        control = [features(space, naive[space](p)) for p in centers]
        values = [np.stack([exact[space](p).value for _ in range(n)]) for p in centers]
        ours = [features(space, x) for x in values]
        after = [features(space, np.asarray(project[space].project(x))) for x in values]
        for name in control[0]:
            bounds = [
                distinguish(s[0][name], s[1][name], delta=delta, confidence=0.9999) for s in (control, ours, after)
            ]
            verdict = "" if max(bounds[1:]) <= claimed else "  BROKEN"
            print(f"{space:8s} {name:24s} {claimed:8.2f} {bounds[0]:8.2f} {bounds[1]:8.2f} {bounds[2]:17.2f}{verdict}")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
