"""The exact K-norm draw for geodesic regression on S²: evaluations of the gradient norm and seconds for one release.

    python -m benchmarks.knorm_sampling

The gradient norm of E(p, v) = (1/2n) Σ d(Exp(p, xᵢv), yᵢ)², residuals clipped, is written in closed form with the frame
(p, v/|v|, p × v), tens of nanoseconds a record. The Lipschitz constants of the two rows were chosen by hand, to show what
slack in them costs (every evaluation is checked against them); the law does not depend on them.
"""

import math
import time

import numpy as np

from curvedp.geometry import Sphere
from curvedp.laws.knorm import LipschitzRejectionSampler, TangentBundleBall

M = Sphere(2)


def regression_gradient_norm(x, Y, clip):
    """‖(∇_p E, 2∇_v E)‖ on S² for predictors x in [−½, ½]; the weight 2 equalises the two sensitivities."""
    YT, n = np.ascontiguousarray(Y.T), len(x)

    def norm(p, v):
        speed = np.linalg.norm(v, axis=-1)
        moving = speed > 0
        some = np.eye(3)[np.argmin(np.abs(p), axis=1)]  # at v = 0 any direction serves
        some = M.to_tangent(p, some)
        e = np.where(moving[:, None], v, some)
        e = e / np.linalg.norm(e, axis=-1, keepdims=True)
        out, rows = np.empty(len(p)), max(1, (1 << 15) // n)
        for i in range(0, len(p), rows):
            part = slice(i, i + rows)
            a, b, c = p[part] @ YT, e[part] @ YT, np.cross(p[part], e[part]) @ YT
            angle = speed[part, None] * x
            cos, sin = np.cos(angle), np.sin(angle)
            along = cos * b - sin * a
            sine = np.sqrt(along * along + c * c)
            factor = np.minimum(np.arctan2(sine, cos * a + sin * b), clip) / np.where(
                sine > 0, sine, 1.0
            )
            along, across = factor * along, factor * c
            lever = np.where(
                moving[part, None],
                sin / np.where(moving[part], speed[part], 1.0)[:, None],
                x,
            )
            foot = np.hypot(along.sum(axis=1), (across * cos).sum(axis=1)) / n
            shoot = np.hypot(along @ x, (across * lever).sum(axis=1)) / n
            out[part] = np.hypot(foot, 2 * shoot)
        return out

    return norm


def main() -> None:
    rng = np.random.default_rng(0)
    epsilon, clip = 2.0, 0.5
    print(
        f"{'n':>6} {'constants':>9} {'scale':>9} {'cells':>8} {'tried':>7} {'seconds':>8} {'dist p':>8} {'dist v':>8}"
    )
    domain = TangentBundleBall(M, None, 0.5, 1.0)
    for n in (20, 100, 1000, 10_000):
        x = rng.random(n) - 0.5
        p0 = M.exp(M.origin, M.from_coordinates(M.origin, np.array([0.1, -0.05])))
        v0 = M.from_coordinates(p0, np.array([0.5, 0.3]))
        foot = M.exp(p0, x[:, None] * v0)
        Y = M.exp(foot, M.from_coordinates(foot, 0.1 * rng.standard_normal((n, 2))))
        scale = 2 * math.sqrt(2) * (2 * clip / n) / epsilon
        for label, constants in (("loose", (1.45, 0.8)), ("tight", (1.2, 0.3))):
            start = time.perf_counter()
            sampler = LipschitzRejectionSampler(
                domain, scale, regression_gradient_norm(x, Y, clip), constants, rng
            )
            p, v = domain.points(sampler.draw(1))
            seconds = time.perf_counter() - start
            miss = np.linalg.norm(M.transport(p, p0, v) - v0)
            print(f"{n:>6} {label:>9} {scale:>9.1e} {sampler.build_evaluations:>8} "
                  f"{sampler.trial_evaluations:>7} {seconds:>8.2f}"
                  f" {float(M.dist(p[0], p0)):>8.4f} {miss:>8.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
