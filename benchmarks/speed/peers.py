"""Ours beside the peers, on the same arrays, in one run: geometry, means, sampling, accounting.

    python -m benchmarks.peers              # makes the peers' environments in .peers/ the first time (about two minutes)

geomstats 2.8 and diffprivlib 0.6 do not import beside today's NumPy and scikit-learn, so peers live in environments of their
own. `peer_worker.py` runs there, imports nothing of curvedp, and sends back seconds and answers. Seconds are by the clock,
the best of several runs, in the environment as it is: nobody's number of threads is set, so run it on an idle machine. Errors
are against closed forms or residuals that neither side computes itself. SPD matrices are sample covariances of 2m draws.
"""

import functools
import itertools
import json
import subprocess
import tempfile
import time
import venv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.frechet_mean import CASES, residual, wishart
from benchmarks.growth import Machine, machine
from benchmarks.growth import best as best_by

best = functools.partial(best_by, clock=time.perf_counter)

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".peers"
ENVIRONMENTS = {
    "geometry": (
        "geomstats==2.8.0",
        "pymanopt==2.2.1",
        "pyriemann==0.12",
        "numpy<2.3",
        "scipy<1.16",
        "scikit-learn<1.7",
    ),
    "accounting": (
        "autodp==0.2.3.1",
        "dp-accounting==0.6.0",
        "numpy<2.3",
        "scikit-learn<1.7",
    ),
    "regression": (
        "diffprivlib==0.6.6",
        "scikit-learn<1.6",
        "numpy<2.4",
        "opacus==1.6.0",
        "torch==2.13.0",
    ),
}


class Row(NamedTuple):
    """One comparison: seconds of the peer, of ours, and what this machine needs for the unavoidable part alone."""

    job: str
    peer: str
    theirs: float
    ours: float
    limit: float = np.nan
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours

    def cells(self) -> list[str]:
        times = [
            "–" if np.isnan(t) else f"{1e3 * t:.3g}" for t in (self.theirs, self.ours)
        ]
        limit = "–" if np.isnan(self.limit) else f"{1e3 * self.limit:.2g}"
        ratio = (
            "–"
            if np.isnan(self.ratio)
            else f"{self.ratio:,.0f}×"
            if self.ratio >= 10
            else f"{self.ratio:.2g}×"
        )
        return [self.job, self.peer, *times, f"**{ratio}**", limit, self.note]


def environment(name: str) -> Path:
    """The Python of one of the peers' environments, made if it is not there."""
    folder = FOLDER / name
    python, done = folder / "bin" / "python", folder / "complete"
    if not done.exists():
        print(f"making the peers' environment .peers/{name} …", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        pip = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *ENVIRONMENTS[name],
        ]
        subprocess.run(pip, check=True)
        done.touch()
    return python


def ask(name: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What the worker of an environment answers for these arrays."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "in.npz", **arrays)
        command = [
            str(environment(name)),
            "-W",
            "ignore",
            str(ROOT / "benchmarks" / "speed" / "peer_worker.py"),
            name,
            folder,
        ]
        subprocess.run(command, check=True)
        return dict(json.loads((Path(folder) / "out.json").read_text(encoding="utf-8")))


def geometry() -> list[Row]:
    """Distances, logarithms, means and draws. Limits: bytes read; four passes of 9m³ flops; normals drawn."""
    from curvedp.geometry import Lorentz, SPDAffineInvariant, Sphere, frechet_mean
    from curvedp.laws import RiemannianGaussian

    rng = np.random.default_rng(2026)
    sphere, hyperbolic, spd = Sphere(2), Lorentz(2), SPDAffineInvariant(3)
    sizes = {f"{n:,} × {m}×{m}": (n, m) for n, m, _ in CASES}

    def cloud(M: Any, n: int, scale: float) -> np.ndarray:
        return np.asarray(
            M.exp(
                M.origin,
                M.from_coordinates(M.origin, scale * rng.standard_normal((n, M.dim))),
            )
        )

    arrays = {
        "sphere_p": cloud(sphere, 10_000, 0.7), "sphere_q": cloud(sphere, 10_000, 0.7),
        "hyperbolic_p": cloud(hyperbolic, 10_000, 1.0), "hyperbolic_q": cloud(hyperbolic, 10_000, 1.0),
        "spd_p": wishart(rng, 10_000, 3), "spd_q": wishart(rng, 10_000, 3),
        **{f"mean {label}": wishart(rng, n, m) for label, (n, m) in sizes.items()},
    }  # fmt: skip
    peer, at, rows = ask("geometry", arrays), limits(), []
    for name, M in (("sphere", sphere), ("hyperbolic", hyperbolic), ("spd", spd)):
        p, q = arrays[f"{name}_p"], arrays[f"{name}_q"]
        for job, kernel in (("dist", M.dist), ("log", M.log)):
            ours = best(lambda kernel=kernel, p=p, q=q: kernel(p, q))
            for rival, theirs in peer[f"{name} {job}"].items():
                limit = (p.nbytes + q.nbytes) / at.copy
                rows.append(Row(f"{job}, {M!r}, 10⁴ pairs", rival, theirs, ours, limit))
    for label, (n, m) in sizes.items():
        M, X = SPDAffineInvariant(m), arrays[f"mean {label}"]
        ours, x = best(lambda X=X, M=M: frechet_mean(M, X)), frechet_mean(M, X)
        for rival, (theirs, point) in peer[f"mean {label}"].items():
            residuals = f"residual {residual(X, np.array(point)):.0e} / {residual(X, np.asarray(x)):.0e}"
            limit = 4 * n * 9 * m**3 / at.flops
            rows.append(
                Row(f"Fréchet mean, {label}", rival, theirs, ours, limit, residuals)
            )
    for label, M in (("S², σ = 0.5", sphere), ("SPD(3), σ = 0.5", spd)):
        law = RiemannianGaussian(M, 0.5)
        ours = best(lambda law=law, M=M: law.sample(rng, M.origin, 10_000))
        for rival, (theirs, square) in peer[f"draws {label}"].items():
            off = f"their E d² off by {abs(square / mean_square_radius(law) - 1):.0%}"
            limit = 10_000 * (M.dim + 1) / at.normals
            rows.append(
                Row(f"10⁴ Gaussian draws, {label}", rival, theirs, ours, limit, off)
            )
    near = float(
        sphere.dist(np.array([1.0, 0, 0]), np.array([np.cos(1e-9), np.sin(1e-9), 0]))
    )
    for rival, value in peer["digits"].items():
        rows.append(
            Row(
                "dist of points 10⁻⁹ apart",
                rival,
                np.nan,
                np.nan,
                note=f"{value:.3g} / {near:.3g}",
            )
        )
    return rows


def mean_square_radius(law: Any) -> float:
    """E d² by the law's own CDF: ∫ 2r(1 − F(r)) dr."""
    r = np.linspace(0, 8, 4001)
    below = np.asarray(law.radial_cdf(np.minimum(r, law.manifold.injectivity_radius)))
    return float(np.trapezoid(2 * r * (1 - below), r))


def bases() -> list[Row]:
    """One tangent Gaussian draw: our isometry, an explicit basis, Gram–Schmidt. Limit: the normals."""
    from curvedp.geometry import Lorentz, SPDAffineInvariant, Sphere
    from curvedp.papers.opt.samplers import base_point, samplers

    labels = {
        "explicit": "explicit basis",
        "gram_schmidt": "Gram–Schmidt",
        "sparse": "sparse basis",
    }
    rows = []
    for M in (Sphere(1000), Lorentz(300), SPDAffineInvariant(15)):
        p, z = base_point(M, 0), np.random.default_rng(0).standard_normal(M.dim)
        times = {
            name: best(lambda s=s, p=p, z=z: s(p, z), 1)
            for name, s in samplers(M).items()
        }
        ours = times.pop("transport")
        for name, theirs in times.items():
            rows.append(
                Row(
                    f"tangent draw, {M!r}",
                    labels[name],
                    theirs,
                    ours,
                    M.dim / limits().normals,
                )
            )
    return rows


def chains() -> list[Row]:
    """One effective draw of the papers' Metropolis–Hastings against one of ours. Limit: the normals."""
    from benchmarks.sampling import effective_size, footpoint, metropolis
    from curvedp.geometry import SPDAffineInvariant, Sphere
    from curvedp.laws import RiemannianGaussian

    rows, rng, steps = [], np.random.default_rng(0), 4000
    for M in (Sphere(2), SPDAffineInvariant(3)):
        law, center = RiemannianGaussian(M, 0.5), footpoint(M)
        start = time.perf_counter()
        radii = metropolis(rng, M, 0.5, center, steps)
        theirs = (time.perf_counter() - start) / effective_size(radii[steps // 10 :])
        ours = (
            best(lambda law=law, center=center: law.sample(rng, center, 10_000))
            / 10_000
        )
        limit = (M.dim + 1) / limits().normals
        rows.append(
            Row(
                f"one independent draw, {M!r}",
                "Metropolis–Hastings",
                theirs,
                ours,
                limit,
            )
        )
    return rows


_ASKED = itertools.count(1)


def another(scale: float) -> float:
    """Nearly this number, another each time: what was asked before is kept, and would take no time."""
    return scale * (1 + 1e-12 * next(_ASKED))


def accounting() -> list[Row]:
    """μ of a curved Gaussian; a thousand Laplace, Gaussian and subsampled releases composed. No data, so no limit."""
    from curvedp.papers.gdp.algorithms import algorithm2_estimate, loss_sampler
    from curvedp.privacy import (
        GDP,
        compose,
        compose_profiles,
        gaussian_profile,
        laplace_profile,
        subsampled_gaussian,
    )

    rows = []
    for name, k, eps_max in (("S²", 1.0, np.pi / 2), ("H²", -1.0, 10.0)):
        rng, sampler = np.random.default_rng(0), loss_sampler(k, 2, 1.0, 1.0)
        mu = gaussian_profile(k, 2, 1.0, 1.0).mu
        ours = best(lambda k=k: gaussian_profile(k, 2, another(1.0), 1.0).mu)
        theirs = best(
            lambda s=sampler, e=eps_max, rng=rng: algorithm2_estimate(s, 1.0, e, rng), 1
        )
        off = abs(algorithm2_estimate(sampler, 1.0, eps_max, rng).mu / mu - 1)
        rows.append(
            Row(
                f"μ on {name}, σ = Δ = 1",
                "Algorithm 2",
                theirs,
                ours,
                note=f"μ off by {off:.0e} / 10⁻⁹",
            )
        )
    peer = ask("accounting", {"none": np.zeros(1)})
    cases = {
        "1000 × Laplace(Δ/10)": lambda: compose_profiles(
            [laplace_profile(0.0, 1, another(10.0), 1.0)] * 1000
        ),
        "1000 × Gaussian(Δ/50)": lambda: compose(*[GDP(another(0.02))] * 1000),
        "1000 × Poisson batches, σ = 1, q = 0.01": lambda: subsampled_gaussian(
            another(1.0), 0.01, 1000, adjacency="add-remove"
        ),
    }
    deltas = np.array([1e-6, 1e-15])
    for label, make in cases.items():
        ours, eps = (
            best(lambda make=make: make().epsilon(deltas), 1),
            make().epsilon(deltas),
        )
        for rival, (theirs, found) in peer[label].items():
            values = "; ".join(
                f"{a:.4g} / {b:.4g}" for a, b in zip(found, eps, strict=True)
            )
            rows.append(
                Row(
                    f"ε of {label}",
                    rival,
                    theirs,
                    ours,
                    note=f"ε at δ = 10⁻⁶; 10⁻¹⁵: {values}",
                )
            )
    return rows


@functools.cache
def limits() -> Machine:
    """Measured once a run."""
    return machine()


def table(rows: list[Row]) -> str:
    head = ["job", "peer", "peer ms", "ours ms", "ratio", "limit ms", "theirs / ours"]
    lines = [head, ["---"] * len(head), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def plot(rows: list[Row], path: Path) -> None:
    """Ratios as bars on a log axis: to the right of 1 we are faster."""
    import matplotlib.pyplot as plt

    shown = [row for row in rows[::-1] if np.isfinite(row.ratio)]
    values = np.array([row.ratio for row in shown])
    figure, axes = plt.subplots(
        figsize=(9, 0.24 * len(shown) + 1), layout="constrained"
    )
    colors = ["#2471a3" if value >= 1 else "#c0392b" for value in values]
    axes.barh(
        [f"{row.job}: {row.peer}" for row in shown], values - 1, left=1, color=colors
    )
    axes.axvline(1, color="#1d2b3a", linewidth=1)
    axes.set(
        xscale="log", xlabel="peer's time / ours (blue, right of 1: ours is faster)"
    )
    axes.tick_params(axis="y", labelsize=7)
    axes.margins(y=0.01)
    figure.savefig(path, dpi=90)


def main() -> None:
    rows: list[Row] = []
    for part in (geometry, bases, chains, accounting):
        found = part()
        print(f"\n{str(part.__doc__).splitlines()[0]}\n\n{table(found)}", flush=True)
        rows += found
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    plot(rows, out / "peers.png")
    print(f"\nplot: {out.name}/peers.png")


if __name__ == "__main__":
    main()
