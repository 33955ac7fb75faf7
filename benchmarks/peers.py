"""Ours beside the peers, on the same arrays, in one run: geometry, means, sampling, accounting.

    python -m benchmarks.peers              # makes the peers' environments in .peers/ the first time (about two minutes)

geomstats 2.8 and diffprivlib 0.6 do not import beside today's NumPy and scikit-learn, so peers live in environments of their
own. `peer_worker.py` runs there, imports nothing of curvedp, and sends back seconds and answers. Seconds are CPU time, the
best of several runs, one thread each. Errors are against closed forms or residuals that neither side computes itself.
"""

import json
import os
import subprocess
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
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
    "accounting": ("autodp==0.2.3.1", "dp-accounting==0.6.0", "numpy<2.3", "scikit-learn<1.7"),
    "regression": ("diffprivlib==0.6.6", "scikit-learn<1.6", "numpy<2.4", "opacus==1.6.0", "torch==2.13.0"),
}


def environment(name: str) -> Path:
    """The Python of one of the peers' environments, made if it is not there."""
    folder = FOLDER / name
    python, done = folder / "bin" / "python", folder / "complete"
    if not done.exists():
        print(f"making the peers' environment .peers/{name} …", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *ENVIRONMENTS[name]]
        subprocess.run(pip, check=True)
        done.touch()
    return python


def ask(name: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What the worker of an environment answers for these arrays."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "in.npz", **arrays)
        command = [str(environment(name)), "-W", "ignore", str(ROOT / "benchmarks" / "peer_worker.py"), name, folder]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
        return dict(json.loads((Path(folder) / "out.json").read_text(encoding="utf-8")))


def best(f: Callable[[], Any], repeats: int = 5) -> tuple[float, Any]:
    """(least CPU seconds, last answer); fast calls are repeated until they can be timed."""
    start = time.process_time()
    answer = f()
    times = [time.process_time() - start]
    number = max(1, int(0.02 / max(times[0], 1e-7)))
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(number):
            answer = f()
        times.append((time.process_time() - start) / number)
    return min(times), answer


def mean_residual(X: np.ndarray, x: np.ndarray) -> float:
    """‖mean log‖ in the affine-invariant norm, by plain LAPACK."""
    inverse = np.linalg.inv(np.linalg.cholesky(x))
    w, U = np.linalg.eigh(inverse @ X @ inverse.T)
    return float(np.linalg.norm(np.mean((U * np.log(w)[:, None, :]) @ U.swapaxes(1, 2), axis=0)))


def geometry() -> list[list[str]]:
    """Distances, exponentials, logarithms, means, draws."""
    from curvedp.geometry import Lorentz, SPDAffineInvariant, Sphere, frechet_mean
    from curvedp.laws import RiemannianGaussian

    rng = np.random.default_rng(2026)
    sphere, hyperbolic, spd = Sphere(2), Lorentz(2), SPDAffineInvariant(3)

    def cloud(M: Any, n: int, scale: float) -> np.ndarray:
        return np.asarray(M.exp(M.origin, M.from_coordinates(M.origin, scale * rng.standard_normal((n, M.dim)))))

    arrays = {
        "sphere_p": cloud(sphere, 10_000, 0.7), "sphere_q": cloud(sphere, 10_000, 0.7),
        "hyperbolic_p": cloud(hyperbolic, 10_000, 1.0), "hyperbolic_q": cloud(hyperbolic, 10_000, 1.0),
        "spd_p": cloud(spd, 10_000, 0.4), "spd_q": cloud(spd, 10_000, 0.4),
        "spd11": cloud(SPDAffineInvariant(11), 2_000, 0.15), "few": cloud(spd, 200, 0.4),
    }  # fmt: skip
    peer = ask("geometry", arrays)
    rows = []
    for name, M in (("sphere", sphere), ("hyperbolic", hyperbolic), ("spd", spd)):
        p, q = arrays[f"{name}_p"], arrays[f"{name}_q"]
        ours = {
            "dist": best(lambda M=M, p=p, q=q: M.dist(p, q))[0],
            "log": best(lambda M=M, p=p, q=q: M.log(p, q))[0],
        }
        for job, seconds in ours.items():
            for rival, theirs in peer[f"{name} {job}"].items():
                rows.append([f"{job}, {M!r}, 10⁴ pairs", rival, ms(theirs), ms(seconds), ratio(theirs, seconds), ""])
    for label, X, M in (("10⁴ × 3×3", arrays["spd_p"], spd), ("2·10³ × 11×11", arrays["spd11"], SPDAffineInvariant(11)),
                        ("200 × 3×3", arrays["few"], spd)):  # fmt: skip
        seconds, x = best(lambda X=X, M=M: frechet_mean(M, X), 3)
        for rival, (theirs, point) in peer[f"mean {label}"].items():
            errors = f"{mean_residual(X, np.array(point)):.0e} / {mean_residual(X, np.asarray(x)):.0e}"
            rows.append([f"Fréchet mean, {label}", rival, ms(theirs), ms(seconds), ratio(theirs, seconds), errors])
    for label, law in (
        ("S², σ = 0.5", RiemannianGaussian(sphere, 0.5)),
        ("SPD(3), σ = 0.5", RiemannianGaussian(spd, 0.5)),
    ):
        M = law.manifold
        seconds = best(lambda law=law, M=M: law.sample(rng, M.origin, 10_000), 3)[0]
        for rival, (theirs, square) in peer[f"draws {label}"].items():
            truth = mean_square_radius(law)
            errors = f"E d² off by {abs(square / truth - 1):.0%}"
            rows.append(
                [f"10⁴ Gaussian draws, {label}", rival, ms(theirs), ms(seconds), ratio(theirs, seconds), errors]
            )
    near = float(sphere.dist(np.array([1.0, 0, 0]), np.array([np.cos(1e-9), np.sin(1e-9), 0])))
    for rival, value in peer["digits"].items():
        rows.append(["dist of points 10⁻⁹ apart", rival, "", "", "", f"{value:.3g} / {near:.3g}"])
    return rows


def mean_square_radius(law: Any) -> float:
    """E d² by the law's own CDF: ∫ 2r(1 − F(r)) dr."""
    r = np.linspace(0, 8, 4001)
    return float(
        np.trapezoid(2 * r * (1 - np.asarray(law.radial_cdf(np.minimum(r, law.manifold.injectivity_radius)))), r)
    )


def bases() -> list[list[str]]:
    """One tangent Gaussian draw: our isometry, an explicit basis, Gram–Schmidt (the optimisation paper's Figure 1)."""
    from curvedp.geometry import Lorentz, SPDAffineInvariant, Sphere
    from reproductions.opt.run import base_point, samplers

    rows = []
    for M in (Sphere(1000), Lorentz(300), SPDAffineInvariant(15)):
        p, z = base_point(M, 0), np.random.default_rng(0).standard_normal(M.dim)
        times = {name: best(lambda s=s, p=p, z=z: s(p, z), 1)[0] for name, s in samplers(M).items()}
        ours = times.pop("transport")
        for name, theirs in times.items():
            label = {"explicit": "explicit basis", "gram_schmidt": "Gram–Schmidt", "sparse": "sparse basis"}[name]
            rows.append([f"tangent draw, {M!r}", label, ms(theirs), ms(ours), ratio(theirs, ours), ""])
    return rows


def chains() -> list[list[str]]:
    """One effective draw of the papers' Metropolis–Hastings against one of ours."""
    from benchmarks.sampling import effective_size, footpoint, metropolis
    from curvedp.geometry import SPDAffineInvariant, Sphere
    from curvedp.laws import RiemannianGaussian

    rows, rng, steps = [], np.random.default_rng(0), 4000
    for M in (Sphere(2), SPDAffineInvariant(3)):
        law, center = RiemannianGaussian(M, 0.5), footpoint(M)
        start = time.process_time()
        radii = metropolis(rng, M, 0.5, center, steps)
        theirs = (time.process_time() - start) / effective_size(radii[steps // 10 :])
        ours = best(lambda law=law, center=center: law.sample(rng, center, 10_000), 3)[0] / 10_000
        rows.append(
            [f"one independent draw, {M!r}", "Metropolis–Hastings", ms(theirs), ms(ours), ratio(theirs, ours), ""]
        )
    return rows


def accounting() -> list[list[str]]:
    """μ of a curved Gaussian; a thousand Laplace and Gaussian releases composed."""
    from curvedp.privacy import GDP, algorithm2_estimate, compose, compose_profiles, gaussian_profile, laplace_profile
    from curvedp.privacy.estimates import loss_sampler

    rows = []
    for name, k in (("S²", 1.0), ("H²", -1.0)):
        rng, eps_max = np.random.default_rng(0), np.pi / 2 if k > 0 else 10.0
        ours, mu = best(lambda k=k: gaussian_profile(k, 2, 1.0, 1.0).mu, 3)
        sampler = loss_sampler(k, 2, 1.0, 1.0)
        theirs, found = best(lambda s=sampler, e=eps_max, rng=rng: algorithm2_estimate(s, 1.0, e, rng).mu, 1)
        rows.append([f"μ on {name}, σ = Δ = 1", "Algorithm 2 of the paper", ms(theirs), ms(ours), ratio(theirs, ours),
                     f"off by {abs(found / mu - 1):.0e} / 10⁻⁹"])  # fmt: skip
    peer = ask("accounting", {"none": np.zeros(1)})
    laplace = laplace_profile(0.0, 1, 10.0, 1.0)
    cases = {
        "1000 × Laplace(Δ/10)": lambda: compose_profiles([laplace] * 1000),
        "1000 × Gaussian(Δ/50)": lambda: compose(*[GDP(0.02)] * 1000),
    }
    for label, make in cases.items():
        ours, eps = best(lambda make=make: [float(e) for e in make().epsilon(np.array([1e-6, 1e-15]))], 1)
        for rival, (theirs, found) in peer[label].items():
            values = " / ".join(f"{a:.4g} : {b:.4g}" for a, b in zip(found, eps, strict=True))
            rows.append([f"ε of {label}", rival, ms(theirs), ms(ours), ratio(theirs, ours),
                         f"ε at 10⁻⁶ and 10⁻¹⁵, theirs : ours: {values}"])  # fmt: skip
    return rows


def ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


def ratio(theirs: float, ours: float) -> str:
    value = theirs / ours
    return f"{value:,.0f}×" if value >= 10 else f"{value:.2g}×"


def table(rows: list[list[str]]) -> str:
    head = ["job", "peer", "peer ms", "ours ms", "ratio", "error or answer, peer / ours"]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def plot(rows: list[list[str]], path: Path) -> None:
    """Ratios as bars on a log axis: to the right of 1 we are faster."""
    import matplotlib.pyplot as plt

    shown = [(f"{row[0]}: {row[1]}", float(row[4].rstrip("×").replace(",", ""))) for row in rows if row[4]]
    figure, axes = plt.subplots(figsize=(9, 0.26 * len(shown) + 1), layout="constrained")
    names, values = zip(*shown[::-1], strict=True)
    axes.barh(names, np.array(values) - 1, left=1, color=["#2471a3" if v >= 1 else "#c0392b" for v in values])
    axes.axvline(1, color="#1d2b3a", linewidth=1)
    axes.set(xscale="log", xlabel="peer's CPU time / ours (right of 1: ours is faster)")
    axes.tick_params(axis="y", labelsize=7)
    figure.savefig(path, dpi=90)


def main() -> None:
    rows: list[list[str]] = []
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
