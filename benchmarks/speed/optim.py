"""What privatization costs a step of DP-RSGD, against the same step without clipping and noise, and against floors.

    python -m benchmarks.speed.optim            # short
    python -m benchmarks.speed.optim --full     # 300 000 steps of batch size 1, as in Table 2 of Utpala et al. (2023)

Private and non-private runs are interleaved in one process and the best of three is kept. Both draw their batches on the
host and run one compiled scan; the private one draws its noise from the operating system's cryptographic stream. Two floors:
the noise alone by NumPy's PCG64 ziggurat, and for SPD the two eigenvalue problems of a step by LAPACK.
"""

import sys

import numpy as np

from curvedp.geometry import SPDAffineInvariant
from curvedp.optim import (
    FrechetMeanProblem,
    LeadingEigenvectorProblem,
)
from curvedp.papers.opt.timing import (
    descent_without_privacy,
    private_descent,
    run_seconds,
)


def noise_floor(dim: int) -> float:
    """Seconds to draw one step's normals by PCG64."""
    rng = np.random.default_rng(2)
    return (
        min(run_seconds(lambda: rng.standard_normal((1000, dim)))[0] for _ in range(5))
        / 1000
    )


def main(full: bool = False) -> None:
    rng = np.random.default_rng(1)
    factors = rng.normal(size=(2000, 11, 33))
    matrices = factors @ factors.swapaxes(1, 2) / 33
    vectors = rng.normal(size=(5000, 786))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    spd, sphere = (
        FrechetMeanProblem(SPDAffineInvariant(11)),
        LeadingEigenvectorProblem(786),
    )
    one = 300_000 if full else 20_000
    cases = [
        ("SPDAffineInvariant(11)", spd, matrices, np.eye(11), 1, one),
        ("SPDAffineInvariant(11)", spd, matrices, np.eye(11), 256, 200),
        ("Sphere(785)", sphere, vectors, np.eye(1, 786)[0], 1, one),
        ("Sphere(785)", sphere, vectors, np.eye(1, 786)[0], 256, 2000),
    ]
    head = (
        "space",
        "batch",
        "steps",
        "plain µs",
        "private µs",
        "ratio",
        "cpu: plain",
        "private",
        "ratio",
        "noise floor µs",
    )
    print(
        f"{head[0]:24}{head[1]:>6}{head[2]:>8}"
        + "".join(f"{title:>{len(title) + 3}}" for title in head[3:])
    )
    for name, problem, data, init, size, steps in cases:
        runs = [
            make(problem, data, init, steps, size, 0.01)
            for make in (descent_without_privacy, private_descent)
        ]
        for run in runs:
            run()  # compile
        times = np.array([[run_seconds(run) for run in runs] for _ in range(3)]).min(
            axis=0
        )
        floor = noise_floor(problem.manifold.dim)
        plain, noisy = times / steps * 1e6
        columns = [
            plain[0],
            noisy[0],
            noisy[0] / plain[0],
            plain[1],
            noisy[1],
            noisy[1] / plain[1],
            floor * 1e6,
        ]
        row = "".join(
            f"{value:{len(title) + 3}.2f}"
            for title, value in zip(head[3:], columns, strict=True)
        )
        print(f"{name:24}{size:6}{steps:8}{row}", flush=True)
    batch = matrices[:200]
    eig = min(
        run_seconds(lambda: [np.linalg.eigh(m) for m in batch])[0] for _ in range(5)
    ) / len(batch)
    print(
        f"two eigenvalue problems of 11 x 11 by LAPACK, one by one: {2 * eig * 1e6:.1f} µs"
    )


if __name__ == "__main__":
    main("--full" in sys.argv)
