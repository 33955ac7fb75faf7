"""How cost grows with n, m and d: fitted exponent beside the theoretical one, the machine's limit beside the largest case.

    python -m benchmarks.growth             # about three minutes; table, and a plot in out/growth.png

Times are CPU seconds of one thread, the best of three. The exponent is the slope of log time over the upper half of the
sizes (small sizes are call overhead). The limit is what this machine needs for the unavoidable part alone: bytes at the
measured copying speed, flops at the measured speed of matrix products, random numbers at the measured speed of NumPy's
normals or of the cryptographic stream.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curvedp.geometry import (
    Euclidean,
    SPDAffineInvariant,
    Sphere,
    Stiefel,
    frechet_mean,
)
from curvedp.laws import RiemannianGaussian
from curvedp.laws.exact import exact_gaussian
from curvedp.privacy import gaussian_profile
from curvedp.randomness import SecureSource
from curvedp.regression import fit_geodesic


class Machine(NamedTuple):
    """Measured limits: bytes copied, flops of products of 512×512 matrices, float normals, cryptographic bytes, a second."""

    copy: float
    flops: float
    normals: float
    random: float


class Curve(NamedTuple):
    job: str
    variable: str
    sizes: list[int]
    seconds: list[float]
    theory: float
    limit: float  # seconds at the largest size
    why: str  # which limit

    @property
    def exponent(self) -> float:
        half = len(self.sizes) // 2
        return float(
            np.polyfit(np.log(self.sizes[half:]), np.log(self.seconds[half:]), 1)[0]
        )


def best(
    f: Callable[[], Any],
    repeats: int = 3,
    clock: Callable[[], float] = time.process_time,
) -> float:
    """Least seconds of the processor, or by another clock; fast calls are repeated until they can be timed."""
    start = clock()
    f()
    times = [clock() - start]
    number = max(1, int(0.02 / max(times[0], 1e-7)))
    for _ in range(repeats):
        start = clock()
        for _ in range(number):
            f()
        times.append((clock() - start) / number)
    return min(times)


def machine() -> Machine:
    rng, source = np.random.default_rng(0), SecureSource()
    table, square = np.ones(4_000_000), rng.normal(size=(512, 512))
    return Machine(
        copy=2 * table.nbytes / best(table.copy),
        flops=2 * 512**3 / best(lambda: square @ square),
        normals=1e6 / best(lambda: rng.standard_normal(1_000_000)),
        random=1e6 / best(lambda: source.random_bytes(1_000_000)),
    )


def spd_cloud(n: int, m: int, rng: np.random.Generator) -> np.ndarray:
    M = SPDAffineInvariant(m)
    return np.asarray(
        M.exp(
            M.origin,
            M.from_coordinates(M.origin, 0.5 / m * rng.standard_normal((n, M.dim))),
        )
    )


def curves(at: Machine) -> list[Curve]:
    rng, found = np.random.default_rng(1), []

    def add(
        job: str,
        variable: str,
        sizes: list[int],
        run: Callable[[int], Callable[[], Any]],
        theory: float,
        limit: float,
        why: str,
    ) -> None:
        found.append(
            Curve(
                job,
                variable,
                sizes,
                [best(run(size)) for size in sizes],
                theory,
                limit,
                why,
            )
        )

    def spd_mean(n: int, m: int) -> Callable[[], Any]:
        X = spd_cloud(n, m, rng)
        return lambda: frechet_mean(SPDAffineInvariant(m), X)

    sizes = [1_000, 8_000, 64_000, 256_000, 1_000_000]
    passes = 4  # over the data: a start and three Newton steps
    add(
        "Fréchet mean, 3×3",
        "n",
        sizes,
        lambda n: spd_mean(n, 3),
        1,
        passes * 72 * sizes[-1] / at.copy,
        "4 passes of bytes",
    )
    sizes = [8, 16, 32, 48, 64, 96]
    add(
        "Fréchet mean of 200",
        "m",
        sizes,
        lambda m: spd_mean(200, m),
        3,
        passes * 200 * 9 * sizes[-1] ** 3 / at.flops,
        "4 × 9m³ flops a matrix",
    )
    sizes = [1_000, 4_000, 16_000, 64_000]

    def isometry(d: int) -> Callable[[], Any]:
        M, z = Sphere(d), rng.standard_normal((4, d))
        p = M.project(rng.standard_normal(d + 1))
        return lambda: M.from_coordinates(p, z)

    add(
        "tangent noise on S^d, 4 draws",
        "d",
        sizes,
        isometry,
        1,
        4 * 8 * 2 * sizes[-1] / at.copy,
        "bytes in and out",
    )
    sizes = [100, 400, 1_600, 6_400, 25_600]

    def frames(m: int) -> Callable[[], Any]:
        M = Stiefel(m, 5)
        p, z = M.project(rng.standard_normal((m, 5))), rng.standard_normal((4, M.dim))
        return lambda: M.from_coordinates(p, z)

    add(
        "tangent noise on Stiefel(m, 5), 4 draws",
        "m",
        sizes,
        frames,
        1,
        4 * 4 * 25 * sizes[-1] / at.flops,
        "4mr² flops",
    )
    sizes = [10_000, 40_000, 160_000, 640_000]
    law = RiemannianGaussian(Sphere(2), 0.5)
    add(
        "Gaussian draws on S²",
        "n",
        sizes,
        lambda n: lambda: law.sample(rng, Sphere(2).origin, n),
        1,
        3 * sizes[-1] / at.normals,
        "3 normals a draw",
    )
    sizes = [64, 256, 1_024, 4_096]

    def ambient(d: int) -> Callable[[], Any]:
        noise = RiemannianGaussian(Sphere(d), 0.1)
        return lambda: noise.sample(rng, Sphere(d).origin, 200)

    add(
        "200 Gaussian draws on S^d",
        "d",
        sizes,
        ambient,
        1,
        200 * (sizes[-1] + 1) / at.normals,
        "d + 1 normals a draw",
    )
    sizes = [64, 256, 1_024, 4_096, 16_384]
    add(
        "exact-then-round draw on S^d",
        "d",
        sizes,
        lambda d: lambda: exact_gaussian(Sphere(d), 0.1, Sphere(d).origin),
        1,
        8 * sizes[-1] / at.random,
        "8 random bytes a number",
    )

    def chart(d: int) -> Callable[[], Any]:
        M, flat, z = Sphere(d), Euclidean(d), np.full(d, 0.1 / np.sqrt(d))
        return lambda: M.from_normal_coordinates(
            M.origin, exact_gaussian(flat, 0.1, z).value
        )

    add(
        "exact log-map draw on S^d",
        "d",
        sizes,
        chart,
        1,
        8 * sizes[-1] / at.random,
        "8 random bytes a number",
    )
    sizes = [10, 100, 1_000, 10_000]
    add(
        "μ of the Gaussian on S^d",
        "d",
        sizes,
        lambda d: lambda: gaussian_profile(1.0, d, 1 / d**0.5, 1 / d**0.5).mu,
        0,
        float("nan"),
        "none: no data",
    )
    sizes = [500, 2_000, 8_000, 32_000]

    def geodesic(n: int) -> Callable[[], Any]:
        M, x = Sphere(2), rng.random(n)
        clean = M.exp(M.origin, x[:, None] * np.array([0.0, 0.7, 0.4]))
        Y = M.exp(clean, M.from_coordinates(clean, 0.05 * rng.standard_normal((n, 2))))
        return lambda: fit_geodesic(M, x, Y)

    add(
        "geodesic regression on S²",
        "n",
        sizes,
        geodesic,
        1,
        passes * 32 * sizes[-1] / at.copy,
        "4 passes of bytes",
    )
    return found


def plot(found: list[Curve], path: Path) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, panels = plt.subplots(2, 5, figsize=(15, 6), layout="constrained")
    for axes, curve in zip(panels.flat, found, strict=True):
        sizes, seconds = np.array(curve.sizes, dtype=float), np.array(curve.seconds)
        axes.loglog(sizes, seconds, "o-", color="#c0392b")
        axes.loglog(
            sizes,
            seconds[-1] * (sizes / sizes[-1]) ** curve.theory,
            "--",
            color="#1d2b3a",
            linewidth=1,
        )
        if np.isfinite(curve.limit):
            axes.loglog(sizes[-1], curve.limit, "v", color="#2471a3")
        axes.set_title(
            f"{curve.job}\nfitted {curve.exponent:.2f}, theory {curve.theory:g}",
            fontsize=9,
        )
        axes.set(xlabel=curve.variable, ylabel="CPU s")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
    figure.suptitle(
        "Measured (red), slope of the theory (dashed), the machine's limit at the largest size (blue)",
        fontsize=11,
    )
    figure.savefig(path, dpi=80)


def main() -> None:
    at = machine()
    print(
        f"this machine, one thread: {at.copy / 1e9:.1f} GB/s copied, {at.flops / 1e9:.0f} Gflop/s, "
        f"{at.normals / 1e6:.0f}·10⁶ normals/s, {at.random / 1e6:.0f} MB/s cryptographic bytes\n"
    )
    found = curves(at)
    print(
        "| job | in | sizes | ms, least to most | exponent fitted | theory | limit, ms | times the limit | the limit is |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for c in found:
        spread = f"{1e3 * c.seconds[0]:.3g} – {1e3 * c.seconds[-1]:.3g}"
        limits = (
            f"{1e3 * c.limit:.3g} | {c.seconds[-1] / c.limit:.3g}"
            if np.isfinite(c.limit)
            else "– | –"
        )
        sizes = f"{c.sizes[0]:,}–{c.sizes[-1]:,}"
        print(
            f"| {c.job} | {c.variable} | {sizes} | {spread} | {c.exponent:.2f} | {c.theory:g} | {limits} | {c.why} |"
        )
    out = Path(__file__).resolve().parents[2] / "out"
    out.mkdir(exist_ok=True)
    plot(found, out / "growth.png")
    print(f"\nplot: {out.name}/growth.png")


if __name__ == "__main__":
    main()
