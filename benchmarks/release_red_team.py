"""The red team: attacks on what `release()` hands out, each beside a naive float64 release that it must break.

`python -m benchmarks.release_red_team [N]`. Last bits, norm, symmetry and orthonormality residuals, the grid (precision) on
S², H², SPD(3), St(3,2) and SO(3): each number is a lower bound on ε that holds with confidence 99.99%. Then timing: Welch's t
of interleaved releases at two footpoints, in CPU time. Exit code 1 if an attack beats a claim
or a control survives all of them.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from curvedp.audit.release_attacks import (
    distinguish,
    lowest_bit,
    naive_lorentz_laplace,
    naive_spd_gaussian,
    naive_sphere_laplace,
    norm_residual,
    orthonormality_residual,
    symmetry_residual,
    welch_t,
)
from curvedp.entropy import SecureSource
from curvedp.geometry import Lorentz, Rotations, SPDAffineInvariant, Sphere, Stiefel
from curvedp.geometry.base import Manifold
from curvedp.mechanisms import LaplaceMechanism, LogGaussianMechanism

EPS, DISTANCE, DELTA = 2.0, 0.5, 1e-4
SCALE = DISTANCE / EPS
GRID = 2.0**30


def pair(manifold: Manifold) -> tuple[np.ndarray, np.ndarray]:
    step = np.arange(1.0, manifold.dim + 1) if len(manifold.point_shape) == 2 else np.eye(manifold.dim)[0]
    step *= DISTANCE / np.linalg.norm(
        step
    )  # a generic direction between matrices: a diagonal one rounds like the identity
    origin = np.asarray(manifold.origin)
    return origin, np.asarray(manifold.exp(origin, manifold.from_coordinates(origin, step)))


def attacks(x: np.ndarray, manifold: Manifold) -> dict[str, np.ndarray]:
    """What the attacker looks at, as small integers."""
    flat = x.reshape(len(x), -1)
    found = {"last bits": lowest_bit(flat[:, 1]), "precision": np.asarray(flat[:, -1] * GRID % 1 == 0, dtype=int)}
    if isinstance(manifold, Sphere):
        found["norm"] = norm_residual(x, np.ones(x.shape[1]))
    elif isinstance(manifold, Lorentz):
        found["norm"] = norm_residual(x, [-1, 1, 1])
    elif isinstance(manifold, SPDAffineInvariant):
        found["symmetry"] = symmetry_residual(x)
    else:
        found["orthonormality"] = orthonormality_residual(x)
    return found


def naive_chart(manifold: Manifold, sigma: float) -> Callable[[np.ndarray, int, np.random.Generator], np.ndarray]:
    """exp at the STATISTIC of a tangent Gaussian there, in float64: right up to curvature, with all of its last bits."""

    def draw(p: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        noise = manifold.from_coordinates(p, sigma * rng.standard_normal((n, manifold.dim)))
        return np.asarray(manifold.exp(p, noise))

    return draw


def cases():
    """(manifold, mechanism, naive control, δ)."""
    for space, naive in ((Sphere(2), naive_sphere_laplace), (Lorentz(2), naive_lorentz_laplace)):
        yield space, LaplaceMechanism(space, DISTANCE, SCALE), (lambda p, n, rng, f=naive: f(p, SCALE, n, rng)), 0.0
    space = SPDAffineInvariant(3)
    yield space, LogGaussianMechanism(space, DISTANCE, 1.0, np.eye(3)), (
        lambda p, n, rng: naive_spd_gaussian(p, 1.0, n, rng)), DELTA  # fmt: skip
    for space in (Stiefel(3, 2), Rotations(3)):
        mechanism = LogGaussianMechanism(space, DISTANCE, 1.0, space.origin, 0.7)
        yield space, mechanism, naive_chart(space, 1.0), DELTA


def main(n: int = 20_000) -> int:
    rng, source, bad, count = (
        np.random.default_rng(0),
        SecureSource(),
        0,
        0,
    )  # `draw` is `release` without its certificate
    print(f"N = {n} a side\n{'space':24s} {'attack':16s} {'claimed':>8s} {'float64':>8s} {'release':>8s}")
    for space, mechanism, naive, delta in cases():
        ends = pair(space)
        claimed = float(mechanism.profile.epsilon(delta)) if delta else mechanism.guarantee.eps
        control = [attacks(naive(p, n, rng), space) for p in ends]
        ours = [attacks(np.stack([mechanism.draw(p, source)[0] for _ in range(n)]), space) for p in ends]
        broken = 0
        for name in control[0]:
            float64, release = (
                distinguish(s[0][name], s[1][name], delta=delta, confidence=0.9999) for s in (control, ours)
            )
            broken += float64 > claimed
            bad += release > claimed
            count += 1
            print(f"{space!s:24s} {name:16s} {claimed:8.2f} {float64:8.2f} {release:8.2f}"
                  f"{'  BROKEN' if release > claimed else ''}", flush=True)  # fmt: skip
        bad += not broken
    print(f"{count} attacks × manifolds\n\ntiming, CPU time of {n // 4} interleaved releases at two footpoints")
    for space, mechanism, _, _ in cases():
        ends, times = pair(space), np.empty((2, n // 4))
        for k in range(n // 4):
            for side in rng.permutation(2):
                started = time.process_time_ns()
                mechanism.draw(ends[side], source)
                times[side, k] = time.process_time_ns() - started
        t = welch_t(*times)
        print(
            f"{space!s:24s} mean {times.mean() / 1e6:6.2f} ms   Welch t = {t:6.2f}  {'' if abs(t) < 4.5 else 'LEAKS'}",
            flush=True,
        )
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(*(int(a) for a in sys.argv[1:2])))
