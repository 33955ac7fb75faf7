"""The red team: attacks on what `release()` hands out, each beside naive releases of the same law that it must break.

`python -m benchmarks.release_red_team [N] [releases]`. Last bits, the grid (precision), norm, symmetry and orthonormality
residuals on S², H², SPD(3), St(3,2) and SO(3): each number is a lower bound on ε that holds with confidence 99.99%. The pairs
are close, because a leak through rounding does not shrink with the distance while the claim does. Two controls, N draws a
side: the law in float64 at the statistic, and the law at the origin, rounded to the grid THERE and moved to the statistic
afterwards (rounding before the last step that sees data). Then timing: Welch's t of interleaved releases at two footpoints,
in CPU time, close ones and, for the charts, one far from the base (outside the ball, or ill-conditioned); its control is
Stiefel's logarithm outside `public_time`, an iteration that stops sooner near the base. Exit code 1 if an attack beats a
claim, a release's time tells the footpoints apart, or an attack breaks no control.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.naive_releases import (
    naive_lorentz_laplace,
    naive_spd_gaussian,
    naive_sphere_laplace,
)
from benchmarks.release_attacks import (
    distinguish,
    lowest_bit,
    norm_residual,
    orthogonality_bits,
    orthonormality_residual,
    symmetry_residual,
    welch_t,
)
from curvedp.geometry import Lorentz, Rotations, SPDAffineInvariant, Sphere, Stiefel
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms import LaplaceMechanism, LogGaussianMechanism
from curvedp.randomness import SecureSource

DISTANCE, SCALE, DELTA = 0.03, 0.25, 1e-4  # the Laplace laws are pure 0.12-DP
GRID = 2.0**30


def pair(
    manifold: Manifold, distance: float = DISTANCE
) -> tuple[np.ndarray, np.ndarray]:
    step = (
        np.arange(1.0, manifold.dim + 1)
        if len(manifold.point_shape) == 2
        else np.eye(manifold.dim)[0]
    )
    # a generic direction between matrices: a diagonal one rounds like the identity
    step *= distance / np.linalg.norm(step)
    origin = np.asarray(manifold.origin)
    return origin, np.asarray(
        manifold.exp(origin, manifold.from_coordinates(origin, step))
    )


def attacks(x: np.ndarray, manifold: Manifold) -> dict[str, np.ndarray]:
    """What the attacker looks at, as small integers."""
    flat = x.reshape(len(x), -1)
    found = {
        "last bits": lowest_bit(flat[:, 1]),
        "grid": np.all(flat * GRID % 1 == 0, axis=1).astype(int),
    }
    if isinstance(manifold, Sphere):
        found["norm"] = norm_residual(x, np.ones(x.shape[1]))
    elif isinstance(manifold, Lorentz):
        found["norm"] = norm_residual(x, [-1, 1, 1])
    elif isinstance(manifold, SPDAffineInvariant):
        found["symmetry"] = symmetry_residual(x)
    else:
        found["orthogonality"] = orthogonality_bits(x)
        if isinstance(
            manifold, Rotations
        ):  # on St(3, 2) the signs of so few residuals show nothing at this size
            found["orthonormality"] = orthonormality_residual(x)
    return found


def moved(manifold: Manifold, p: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The image of x under an isometry that takes the origin to p, in float64."""
    if np.array_equal(p, manifold.origin):
        return x
    if isinstance(manifold, SPDAffineInvariant):
        values, vectors = np.linalg.eigh(p)
        root = (vectors * np.sqrt(values)) @ vectors.T
        return np.asarray(root @ x @ root)
    if isinstance(
        manifold, Sphere | Lorentz
    ):  # a turn or a boost in the plane of the first two coordinates
        sign = -1 if isinstance(manifold, Sphere) else 1
        return np.asarray(
            x @ np.array([[p[0], sign * p[1], 0], [p[1], p[0], 0], [0, 0, 1]]).T
        )
    turn = p if p.shape == (3, 3) else np.column_stack([p, np.cross(p[:, 0], p[:, 1])])
    return np.asarray(turn @ x)


def naive_chart(
    manifold: Manifold, sigma: float
) -> Callable[[np.ndarray, int, np.random.Generator], np.ndarray]:
    """exp at the STATISTIC of a tangent Gaussian there, in float64: right up to curvature, with all of its last bits."""

    def draw(p: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        noise = manifold.from_coordinates(
            p, sigma * rng.standard_normal((n, manifold.dim))
        )
        return np.asarray(manifold.exp(p, noise))

    return draw


def cases():
    """(manifold, mechanism, naive control, δ)."""
    for space, naive in (
        (Sphere(2), naive_sphere_laplace),
        (Lorentz(2), naive_lorentz_laplace),
    ):
        yield (
            space,
            LaplaceMechanism(space, DISTANCE, SCALE),
            (lambda p, n, rng, f=naive: f(p, SCALE, n, rng)),
            0.0,
        )
    space = SPDAffineInvariant(3)
    yield space, LogGaussianMechanism(space, DISTANCE, 1.0, np.eye(3)), (
        lambda p, n, rng: naive_spd_gaussian(p, 1.0, n, rng)), DELTA  # fmt: skip
    for space in (Stiefel(3, 2), Rotations(3)):
        mechanism = LogGaussianMechanism(space, DISTANCE, 1.0, space.origin, 0.7)
        yield space, mechanism, naive_chart(space, 1.0), DELTA


def main(n: int = 20_000, releases: int = 20_000) -> int:
    rng, source, bad, count, broken = (
        np.random.default_rng(0),
        SecureSource(),
        0,
        0,
        dict[str, bool](),
    )
    print(f"controls: {n} draws a side, releases: {releases}")
    print(
        f"{'space':24s} {'attack':16s} {'claimed':>8s} {'float64':>8s} {'moved':>8s} {'release':>8s}"
    )
    for space, mechanism, naive, delta in cases():
        ends = pair(space)
        claimed = (
            float(mechanism.privacy_profile.epsilon(delta))
            if delta
            else mechanism.privacy_profile.pure_epsilon
        )
        float64 = [naive(p, n, rng) for p in ends]
        rounded = [
            moved(space, p, np.rint(naive(ends[0], n, rng) * GRID) / GRID) for p in ends
        ]
        # `draw` is `release` without its certificate
        ours = [
            np.stack([mechanism.draw(p, source)[0] for _ in range(releases)])
            for p in ends
        ]
        seen = [
            [attacks(x, space) for x in sides] for sides in (float64, rounded, ours)
        ]
        for name in seen[0][0]:
            eps = [
                distinguish(a[name], b[name], delta=delta, confidence=0.9999)
                for a, b in seen
            ]
            broken[name] = broken.get(name, False) or max(eps[:2]) > claimed
            bad += eps[2] > claimed
            count += 1
            print(f"{space!s:24s} {name:16s} {claimed:8.3f} {eps[0]:8.2f} {eps[1]:8.2f} {eps[2]:8.3f}"
                  f"{'  BROKEN' if eps[2] > claimed else ''}{'' if max(eps[:2]) > claimed else '  no control broke'}",
                  flush=True)  # fmt: skip
    bad += sum(not b for b in broken.values())
    pairs = max(releases // 20, 8)
    print(
        f"{count} attacks × manifolds\n\ntiming, CPU time of {pairs} interleaved releases at two footpoints"
    )
    for space, mechanism, _, _ in cases():
        far = 6.0 if isinstance(space, SPDAffineInvariant) else 1.2
        for distance in (
            (DISTANCE, far)
            if isinstance(mechanism, LogGaussianMechanism)
            else (DISTANCE,)
        ):
            mean, t = timed(
                lambda p, m=mechanism: m.draw(p, source),
                pair(space, distance),
                pairs,
                rng,
            )
            bad += abs(t) > 4.5
            print(f"{space!s:24s} {distance:4.2f} apart   mean {mean:6.2f} ms   Welch t = {t:6.2f}"
                  f"{'' if abs(t) < 4.5 else '  LEAKS'}", flush=True)  # fmt: skip
    space = Stiefel(3, 2)
    mean, t = timed(lambda p: space.log(space.origin, p), pair(space), pairs, rng)
    bad += abs(t) < 4.5
    print(
        f"control: {space!s:15s} {DISTANCE:4.2f} apart   mean {mean:6.2f} ms   Welch t = {t:6.2f}  (its logarithm alone)"
    )
    return int(bool(bad))


def timed(
    act: Callable[[np.ndarray], object],
    ends: tuple[np.ndarray, np.ndarray],
    pairs: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Mean time in ms and Welch's t of an action at two points, interleaved in random order."""
    times = np.empty((2, pairs))
    for k in range(pairs):
        for side in rng.permutation(2):
            started = time.process_time_ns()
            act(ends[side])
            times[side, k] = time.process_time_ns() - started
    return float(times.mean() / 1e6), welch_t(*times)


if __name__ == "__main__":
    sys.exit(main(*(int(a) for a in sys.argv[1:3])))
