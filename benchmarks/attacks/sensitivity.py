"""Attack the sensitivity bounds: search, by gradients and many restarts, for adjacent data sets whose means are far apart.

    python -m benchmarks.sensitivity

The last column is the largest ratio (distance between the means) / (bound) that was found; above 1 it would refute the
theorem of `docs/theory/sensitivity.md`.
"""

import sys
from math import pi

import numpy as np

from curvedp.geometry import (
    KendallShapes,
    Lorentz,
    Manifold,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.statistics.sensitivity import frechet_mean_sensitivity

CASES = [
    (Sphere(2), pi / 8),
    (Sphere(2), 0.4),
    (Sphere(2), 0.7),
    (Sphere(2), 1.0),
    (Sphere(5), 0.7),
    (Lorentz(2), 1.0),
    (SPDAffineInvariant(2), 1.0),
    (SPDAffineInvariant(3), 1.0),
    (KendallShapes(5), 0.35),
    (KendallShapes(3), 0.35),
]


def differences(
    manifold: Manifold, radius: float, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distances between the means of the adjacent sets {z₁…zₙ} and {z₁…zₙ₋₁, zₙ₊₁}, coordinates pulled into the ball, and
    their central differences: nothing to compile, and as good as a gradient for climbing."""
    step, (starts, records, dim) = 1e-5, z.shape
    moves = step * np.eye(records * dim).reshape(-1, records, dim)
    batch = np.concatenate(
        [z[:, None], z[:, None] + moves, z[:, None] - moves], axis=1
    ).reshape(-1, records, dim)
    length = np.linalg.norm(batch, axis=-1, keepdims=True)
    inside = batch / length * radius * np.minimum(length, 1.0)
    points = np.asarray(
        manifold.exp(
            manifold.origin, manifold.from_coordinates(manifold.origin, inside)
        )
    )

    def mean(data: np.ndarray) -> np.ndarray:
        x = data[
            :, 0
        ]  # not the center, which lies on symmetric configurations' cut loci
        for _ in range(40):
            x = np.asarray(
                manifold.exp(
                    x, np.mean(np.asarray(manifold.log(x[:, None], data)), axis=1)
                )
            )
        return x

    other = np.concatenate([points[:, :-2], points[:, -1:]], axis=1)
    apart = np.asarray(manifold.dist(mean(points[:, :-1]), mean(other))).reshape(
        starts, -1
    )
    up, down = np.split(apart[:, 1:], 2, axis=1)
    return apart[:, 0], ((up - down) / (2 * step)).reshape(z.shape)


def search(
    manifold: Manifold, radius: float, n: int, starts: int, steps: int, seed: int = 0
) -> float:
    """The largest distance found between the means of two adjacent sets of n records in the ball."""
    rng = np.random.default_rng(seed)
    z, best = rng.normal(size=(starts, n + 1, manifold.dim)), 0.0
    first, second = np.zeros_like(z), np.zeros_like(z)
    for t in range(1, steps + 1):  # Adam
        value, gradient = differences(manifold, radius, z)
        best, gradient = max(best, float(np.nanmax(value))), np.nan_to_num(gradient)
        first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
        z = z + 0.05 * (first / (1 - 0.9**t)) / (
            np.sqrt(second / (1 - 0.99**t)) + 1e-12
        )
    return max(best, float(np.nanmax(differences(manifold, radius, z)[0])))


def main() -> None:
    print(
        "| manifold | radius | n | found/(2r/n) | ours | Reimherr et al. | found/ours |"
    )
    print("|---|---|---|---|---|---|---|")
    worst = 0.0
    for manifold, radius in CASES:
        for n in (3, 10):
            found = search(manifold, radius, n, starts=48, steps=250)
            unit = 2 * radius / n
            ours = frechet_mean_sensitivity(manifold, radius, n)
            try:
                paper = f"{frechet_mean_sensitivity(manifold, radius, n, bound='reimherr') / unit:.3f}"
            except ValueError:
                paper = "not defined"
            worst = max(worst, found / ours)
            print(
                f"| {manifold} | {radius:.4g} | {n} | {found / unit:.4f} | {ours / unit:.4f} | {paper} | {found / ours:.4f} |"
            )
            sys.stdout.flush()
    print(f"\nlargest found/ours: {worst:.4f}")


if __name__ == "__main__":
    main()
