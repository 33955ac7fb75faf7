"""What exactness costs: one exact-then-round draw beside one draw of the vectorized float path, in one run.

Processor time of the calling thread, so that other work on the machine does not count.

`python -m benchmarks.exact_sampling`
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
from scipy import stats

from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Manifold,
    PoincareBall,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.exact import exact_gaussian, exact_laplace
from curvedp.randomness import SecureSource

CASES: list[
    tuple[str, Manifold, float, float | None]
] = [  # law, space, scale, target in ms
    ("gaussian", Euclidean(100), 0.3, None),
    ("gaussian", Sphere(2), 0.3, 1.0),
    ("laplace", Sphere(2), 0.3, 1.0),
    ("gaussian", Sphere(49), 0.1, 5.0),
    ("gaussian", Sphere(300), 0.1, None),
    ("gaussian", Lorentz(2), 0.3, None),
    ("gaussian", PoincareBall(10), 0.3, None),
    ("gaussian", SPDAffineInvariant(3), 0.3, 1.0),
    ("gaussian", SPDAffineInvariant(3), 3.0, 1.0),
    ("gaussian", SPDAffineInvariant(10), 0.3, 5.0),
    ("gaussian", SPDAffineInvariant(10), 0.7, 5.0),
    ("gaussian", SPDAffineInvariant(20), 0.3, None),
]


def tilted(manifold: Manifold) -> np.ndarray:
    """A footpoint in no special position."""
    z = np.cos(np.arange(manifold.dim) + 1.0)
    origin = manifold.origin
    return np.asarray(
        manifold.exp(
            origin, manifold.from_coordinates(origin, 0.7 * z / np.linalg.norm(z))
        )
    )


def milliseconds(call: Callable[[], object], repeats: int) -> list[float]:
    call()
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        call()
        times.append((time.thread_time() - start) * 1e3)
    return times


def main() -> None:
    source, rng = SecureSource(), np.random.default_rng(0)
    print(
        f"{'law and space':40s} {'scale':>6s} {'exact ms':>9s} {'95% ms':>8s} {'float ms':>9s} {'ratio':>8s}  target"
    )
    for kind, manifold, scale, target in CASES:
        center = tilted(manifold)
        draw, law = (
            (exact_gaussian, RiemannianGaussian)
            if kind == "gaussian"
            else (exact_laplace, RiemannianLaplace)
        )
        times = milliseconds(
            lambda d=draw, m=manifold, s=scale, c=center: d(m, s, c, source=source), 300
        )
        fast = law(manifold, scale)
        bulk = (
            statistics.median(
                milliseconds(lambda f=fast, c=center: f.sample(rng, c, 1000), 5)
            )
            / 1000
        )
        middle, late = statistics.median(times), float(np.quantile(times, 0.95))
        verdict = (
            ""
            if target is None
            else f"<= {target:g} ms: {'yes' if middle <= target else 'NO'}"
        )
        name = f"{kind} {manifold}"
        print(
            f"{name:40s} {scale:6.2f} {middle:9.3f} {late:8.3f} {bulk:9.5f} {middle / bulk:8.0f}  {verdict}"
        )
    print()
    print(
        "Does the time tell the footpoint? Welch's t of the logarithm of the time, pole against tilted, alternating draws"
    )
    for manifold in (Sphere(2), Sphere(49), Lorentz(2), SPDAffineInvariant(3)):
        pole, other = np.asarray(manifold.origin), tilted(manifold)
        pairs = []
        for turn in range(1000):  # which of the two goes first alternates
            order = (pole, other) if turn % 2 else (other, pole)
            spent = [
                milliseconds(
                    lambda m=manifold, c=c: exact_gaussian(m, 0.3, c, source=source), 1
                )[0]
                for c in order
            ]
            pairs.append(spent if turn % 2 else spent[::-1])
        a, b = np.log(np.array(pairs)).T
        print(
            f"  {manifold!s:30s} t = {stats.ttest_ind(a, b, equal_var=False).statistic:+6.1f}   "
            f"median {np.exp(np.median(a)):.3f} and {np.exp(np.median(b)):.3f} ms"
        )


if __name__ == "__main__":
    main()
