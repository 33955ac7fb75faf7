"""The peers' half of `benchmarks.peers`: runs in their environments, imports nothing of curvedp, answers in JSON.

.peers/<name>/bin/python benchmarks/speed/peer_worker.py geometry|accounting FOLDER     (FOLDER/in.npz -> FOLDER/out.json)
"""

# ruff: noqa: B023, B905 - the timed lambdas run at once, inside their loop; lengths differ on purpose
import json
import sys
import time
from pathlib import Path

import numpy as np


def best(f, repeats=3):
    """(least seconds by the clock, last answer); as in `benchmarks.peers`."""
    start = time.perf_counter()
    answer = f()
    times = [time.perf_counter() - start]
    number = max(1, int(0.02 / max(times[0], 1e-7)))
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(number):
            answer = f()
        times.append((time.perf_counter() - start) / number)
    return min(times), answer


def geometry(arrays):
    import geomstats.backend  # noqa: F401 - chooses NumPy, once, before anything is timed
    from geomstats.geometry.hyperboloid import Hyperboloid
    from geomstats.geometry.hypersphere import Hypersphere
    from geomstats.geometry.spd_matrices import SPDMatrices
    from geomstats.learning.frechet_mean import FrechetMean
    from pymanopt.manifolds import Sphere, SymmetricPositiveDefinite
    from pyriemann.datasets import sample_gaussian_spd
    from pyriemann.geometry.distance import distance_riemann
    from pyriemann.geometry.mean import mean_riemann

    out = {}
    spaces = {
        "sphere": Hypersphere(2),
        "hyperbolic": Hyperboloid(2),
        "spd": SPDMatrices(3),
    }
    single = {"sphere": Sphere(3), "spd": SymmetricPositiveDefinite(3)}
    for name, space in spaces.items():
        p, q = arrays[f"{name}_p"], arrays[f"{name}_q"]
        out[f"{name} dist"] = {"geomstats": best(lambda: space.metric.dist(p, q))[0]}
        out[f"{name} log"] = {"geomstats": best(lambda: space.metric.log(q, p))[0]}
        if name in single:  # takes one pair at a time: 500 of them, scaled
            M = single[name]
            scale = len(p) / 500
            out[f"{name} dist"]["pymanopt"] = (
                scale * best(lambda: [M.dist(a, b) for a, b in zip(p[:500], q)], 1)[0]
            )
            out[f"{name} log"]["pymanopt"] = (
                scale * best(lambda: [M.log(a, b) for a, b in zip(p[:500], q)], 1)[0]
            )
    p, q = arrays["spd_p"], arrays["spd_q"]
    out["spd dist"]["pyRiemann"] = best(lambda: distance_riemann(p, q))[0]

    def geomstats_mean(X):
        estimator = FrechetMean(SPDMatrices(X.shape[-1]))
        estimator.set(epsilon=1e-20, max_iter=200)
        return estimator.fit(X).estimate_

    for label in [key for key in arrays if key.startswith("mean ")]:
        X, row = arrays[label], out.setdefault(label, {})
        seconds, point = best(lambda: mean_riemann(X, tol=1e-9, maxiter=200), 2)
        row["pyRiemann"] = seconds, point.tolist()
        seconds, point = best(lambda: geomstats_mean(X), 1)
        row["geomstats"] = seconds, np.asarray(point).tolist()
        if len(X) == 50:
            seconds, point = best(lambda: pymanopt_mean(X), 0)
            row["pymanopt"] = seconds, point.tolist()

    center = np.array([1.0, 0.0, 0.0])
    draw = spaces["sphere"].random_riemannian_normal
    seconds, y = best(lambda: draw(mean=center, precision=4.0, n_samples=10_000), 2)
    square = float(np.mean(np.arctan2(np.hypot(y[:, 1], y[:, 2]), y[:, 0]) ** 2))
    out["draws S², σ = 0.5"] = {"geomstats": (seconds, square)}
    seconds, X = best(
        lambda: sample_gaussian_spd(2_000, np.eye(3), 0.5, random_state=0), 0
    )
    seconds *= 5  # it takes milliseconds a draw: 2,000 of them, scaled
    square = float(np.mean(np.sum(np.log(np.linalg.eigvalsh(X)) ** 2, axis=-1)))
    out["draws SPD(3), σ = 0.5"] = {"pyRiemann": (seconds, square)}
    near = np.array([np.cos(1e-9), np.sin(1e-9), 0.0])
    out["digits"] = {
        "geomstats": float(spaces["sphere"].metric.dist(center, near)),
        "pymanopt": float(single["sphere"].dist(center, near)),
    }
    return out


def pymanopt_mean(X):
    """Its usual way to a mean: cost and gradient record by record, conjugate gradients."""
    import pymanopt

    manifold = pymanopt.manifolds.SymmetricPositiveDefinite(X.shape[-1])

    @pymanopt.function.numpy(manifold)
    def cost(x):
        return sum(manifold.dist(x, a) ** 2 for a in X) / (2 * len(X))

    @pymanopt.function.numpy(manifold)
    def gradient(x):
        return -sum(manifold.log(x, a) for a in X) / len(X)

    problem = pymanopt.Problem(manifold, cost, riemannian_gradient=gradient)
    optimizer = pymanopt.optimizers.ConjugateGradient(
        verbosity=0, min_gradient_norm=1e-9, min_step_size=0
    )
    return np.array(optimizer.run(problem, initial_point=np.mean(X, axis=0)).point)


def accounting(arrays):
    from autodp.mechanism_zoo import GaussianMechanism, LaplaceMechanism
    from autodp.transformer_zoo import Composition
    from dp_accounting.pld import privacy_loss_distribution as pld

    def google(make):
        return [
            make().self_compose(1000).get_epsilon_for_delta(d) for d in (1e-6, 1e-15)
        ]

    def autodp(make):
        together = Composition()([make()], [1000])
        return [float(together.get_approxDP(d)) for d in (1e-6, 1e-15)]

    return {
        "1000 × Laplace(Δ/10)": {
            "dp-accounting": best(
                lambda: google(lambda: pld.from_laplace_mechanism(10.0)), 1
            ),
            "autodp (Rényi)": best(lambda: autodp(lambda: LaplaceMechanism(10.0)), 1),
        },
        "1000 × Gaussian(Δ/50)": {
            "dp-accounting": best(
                lambda: google(lambda: pld.from_gaussian_mechanism(50.0)), 1
            ),
            "autodp (Rényi)": best(lambda: autodp(lambda: GaussianMechanism(50.0)), 1),
        },
        "1000 × Poisson batches, σ = 1, q = 0.01": {
            "dp-accounting": best(
                lambda: google(
                    lambda: pld.from_gaussian_mechanism(1.0, sampling_prob=0.01)
                ),
                1,
            ),
        },
    }


if __name__ == "__main__":
    job, folder = sys.argv[1], Path(sys.argv[2])
    with np.load(folder / "in.npz") as file:
        given = {key: file[key] for key in file.files}
    answer = {"geometry": geometry, "accounting": accounting}[job](given)
    (folder / "out.json").write_text(json.dumps(answer), encoding="utf-8")
