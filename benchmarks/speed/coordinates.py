"""What tangent Gaussian noise costs beyond its normals: `from_coordinates(p, z)` against drawing z.

Run: python -m benchmarks.coordinates
"""

import time
from collections.abc import Callable

import numpy as np

from curvedp.geometry import (
    Lorentz,
    Manifold,
    PoincareBall,
    SPDAffineInvariant,
    Sphere,
    Stiefel,
)

BATCH = 1000
TARGET = 3.0


def best(f: Callable[[], object], repeats: int = 50) -> float:
    """Shortest wall time of several runs: what the work costs when nothing else runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(M: Manifold, batch: int) -> tuple[float, float]:
    """Seconds to draw `batch` coordinate vectors, and to carry them into the tangent space at a point."""
    rng = np.random.default_rng(0)
    p = M.exp(
        M.origin,
        M.from_coordinates(M.origin, 0.3 * rng.normal(size=M.dim) / np.sqrt(M.dim)),
    )
    z = rng.normal(size=(batch, M.dim))
    return best(lambda: rng.normal(size=(batch, M.dim))), best(
        lambda: M.from_coordinates(p, z)
    )


def exponent(sizes: list[int], times: list[float]) -> float:
    """Fitted power of m in the time."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def main() -> None:
    print(f"from_coordinates against drawing the normals, batch {BATCH}, best of 50")
    print(
        f"{'manifold':<24}{'normals ms':>12}{'from_coordinates ms':>21}{'ratio':>8}  target <= {TARGET:g}"
    )
    for M in (
        Sphere(785),
        SPDAffineInvariant(11),
        Lorentz(785),
        PoincareBall(785),
        Stiefel(50, 5),
    ):
        draw, carry = measure(M, BATCH)
        print(f"{M!r:<24}{1e3 * draw:>12.2f}{1e3 * carry:>21.2f}{carry / draw:>8.2f}")
    print("\ncost in m, batch 100: ms")
    sizes = [500, 1000, 2000, 3000, 4000]
    print(f"{'manifold':<12}" + "".join(f"{m:>9}" for m in sizes) + f"{'exponent':>12}")
    for kind in (Sphere, Lorentz):
        times = [measure(kind(m), 100)[1] for m in sizes]
        row = "".join(f"{1e3 * t:>9.3f}" for t in times)
        print(f"{kind.__name__:<12}{row}{exponent(sizes, times):>12.2f}")


if __name__ == "__main__":
    main()
