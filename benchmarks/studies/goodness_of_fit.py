"""Goodness of fit of every law × space × two scales at n = 2·10⁵, with three wrong laws that must be rejected.

Columns: p-values of the distances (KS against the independent `radial_cdf`), of the directions, of the footpoint, and of the
first two moments (4 standard errors are 6·10⁻⁵); then the largest p-value of a scale wrong by 5% and of a missing volume
factor (r^{d−1} in place of sn(r)^{d−1}; "flat" where there is none to miss). Run with `python -m benchmarks.goodness_of_fit`.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats

from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.law import Law
from curvedp.papers.opt.tangent import TangentGaussian

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from support import goodness

DRAWS = 200_000
# Scales at which 2·10⁵ draws can tell the volume factor from that of flat space.
GAUSSIANS = {
    Euclidean(1): (0.1, 2.0),
    Euclidean(10): (0.1, 2.0),
    Sphere(1): (0.3, 1.2),
    Sphere(2): (0.3, 0.8),
    Sphere(50): (0.05, 0.3),
    Lorentz(1): (0.3, 2.0),
    Lorentz(2): (0.3, 2.0),
    Lorentz(10): (0.2, 1.0),
    PoincareBall(2): (0.3, 2.0),
    PoincareBall(10): (0.2, 1.0),
    SPDLogEuclidean(3): (0.3, 1.5),
    SPDLogCholesky(3): (0.3, 1.0),
    SPDAffineInvariant(2): (0.5, 1.5),
    SPDAffineInvariant(3): (0.3, 1.5),
    SPDAffineInvariant(5): (0.2, 0.6),
    Product(Sphere(2), Euclidean(2)): (0.3, 0.8),
    Product(Lorentz(2), SPDAffineInvariant(2)): (0.3, 1.0),
}
LAPLACES = {
    Euclidean(1): (0.1, 2.0),
    Euclidean(10): (0.1, 2.0),
    Sphere(1): (0.3, 1.0),
    Sphere(2): (0.2, 0.6),
    Sphere(50): (0.01, 0.03),
    Lorentz(1): (0.3, 2.0),
    Lorentz(2): (0.2, 0.8),
    Lorentz(10): (0.05, 0.1),
    PoincareBall(2): (0.2, 0.4),
    PoincareBall(10): (0.05, 0.1),
    SPDLogEuclidean(3): (0.1, 0.4),
    SPDLogCholesky(3): (0.1, 0.4),
}
TANGENTS = [
    Euclidean(3),
    Sphere(3),
    Lorentz(3),
    PoincareBall(3),
    SPDAffineInvariant(3),
    SPDLogEuclidean(3),
]
TANGENTS += [
    SPDLogCholesky(3),
    SPDBuresWasserstein(3),
    Stiefel(4, 2),
    Grassmann(5, 2),
    Rotations(3),
    KendallShapes(5),
]


def flat_cdf(law: Law):
    """The radial law with the volume factor of flat space."""
    if isinstance(law, RiemannianLaplace):
        return stats.gamma(law.manifold.dim, scale=law.scale).cdf
    return stats.chi(law.manifold.dim, scale=law.scale).cdf


def row(law: Law, seed: int) -> tuple[str, bool]:
    """One line of the table, and whether everything in it is as it must be."""
    manifold, center = law.manifold, goodness.off_origin(law.manifold)
    x = law.sample(np.random.default_rng([20260101, seed]), center, DRAWS)
    if isinstance(law, TangentGaussian):
        r, z = manifold.norm(center, x), manifold.to_coordinates(center, x)
    else:
        r, z = (
            manifold.dist(center, x),
            manifold.to_coordinates(center, manifold.log(center, x)),
        )
    isotropic = not isinstance(manifold, Product | SPDAffineInvariant) or isinstance(
        law, TangentGaussian
    )
    right = [
        goodness.ks(r, law.radial_cdf),
        goodness.directions(z) if isotropic else float("nan"),
        goodness.mean_zero(z),
        goodness.moment(r, law.mean_radius),
        goodness.moment(r**2, law.mean_square_radius),
    ]
    scale = max(
        goodness.ks(r, replace(law, scale=f * law.scale).radial_cdf)
        for f in (0.95, 1.05)
    )
    curved = (
        not isinstance(law, TangentGaussian)
        and manifold.curvature_bounds != (0.0, 0.0)
        and manifold.dim > 1
    )
    factor = goodness.ks(r, flat_cdf(law)) if curved else float("nan")
    good = (
        all(p > 1e-4 for p in right if not np.isnan(p))
        and scale < 1e-6
        and not factor >= 1e-6
    )
    cells = "".join("       —" if np.isnan(p) else f"{p:8.3f}" for p in right)
    wrong = f"{scale:10.0e}" + ("      flat" if np.isnan(factor) else f"{factor:10.0e}")
    return (
        f"{type(law).__name__ + f'({manifold}, {law.scale:g})':<78}{cells}{wrong}  {'ok' if good else 'FAILED'}",
        good,
    )


def main() -> None:
    """Prints the table; exits with 1 if a right law fails or a wrong one passes."""
    laws: list[Law] = [
        RiemannianGaussian(m, s) for m, scales in GAUSSIANS.items() for s in scales
    ]
    laws += [RiemannianLaplace(m, s) for m, scales in LAPLACES.items() for s in scales]
    laws += [TangentGaussian(m, s) for m in TANGENTS for s in (0.2, 2.0)]
    print(f"n = {DRAWS:,}")
    print(
        f"{'law':<78}{'radius':>8}{'dirs':>8}{'foot':>8}{'E r':>8}{'E r²':>8}{'scale ±5%':>10}{'no factor':>10}"
    )
    failures = 0
    for seed, law in enumerate(laws):
        line, good = row(law, seed)
        print(line, flush=True)
        failures += not good
    print(f"{len(laws)} laws, {failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
