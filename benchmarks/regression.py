"""Geodesic regression: the sensitivities under attack, private fits on S², linear regression on Wine Quality, and time.

    python -m benchmarks.regression [--pairs 3000] [--repeats 40] [--wine winequality-red.csv]

The attack looks for adjacent pairs and places (p, v) of the domain at which one record moves the gradient most, by random
search and climbing; a ratio bound/found below 1 refutes the bound. The paper's constants are beside ours.
"""

import argparse
import csv
import math
import time

import numpy as np

from curvedp import ApproxDP, PrivateGeodesicRegression, PureDP
from curvedp.entropy import GeneratorSource
from curvedp.geometry import Euclidean, Lorentz, SPDAffineInvariant, Sphere
from curvedp.geometry.base import Manifold
from curvedp.regression import fit_geodesic
from curvedp.regression.bounds import (
    Domain,
    endpoint_norm,
    endpoint_sensitivity,
    gradient_sensitivities,
    joint_sensitivity,
)
from curvedp.regression.gradient import residuals_at
from curvedp.regression.jacobi import cos_and_sinc, jacobi_frame

NORMS = ("foot", "velocity", "joint", "endpoint")


def contribution(M: Manifold, p, v, x, Y, clip: float):
    """(−∇_p, −∇_v) of one record for each row, the residual clipped."""
    h = residuals_at(M, p, x.reshape(-1, *[1] * len(M.point_shape)) * v, Y)
    h = h * np.minimum(1.0, clip / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-300))
    values, frame = jacobi_frame(M, p, v)
    cos, sinc = cos_and_sinc(values * (x * x)[:, None])
    local = np.einsum("ni,nij->nj", h, frame)
    return tuple(np.einsum("nij,nj->ni", frame, f * local) for f in (cos, x[:, None] * sinc))


def attack(M: Manifold, speed: float, clip: float, span: tuple[float, float], seed: int, pairs: int, rounds: int = 12):
    """Largest change found, for n = 1, of ∇_p, ∇_v, their joint norm and the endpoint norm, with predictors in `span`.

    Searched: p, v, the predictors of the two records and their residuals (longer than the clip). Each norm takes
    pairs·(rounds + 1) adjacent pairs.
    """
    rng, d = np.random.default_rng(seed), M.dim

    def measure(z):
        p = M.exp(M.origin, M.from_coordinates(M.origin, 0.3 * np.tanh(z[:, :d])))
        w = z[:, d : 2 * d]
        v = M.from_coordinates(p, w * np.minimum(speed / np.linalg.norm(w, axis=1), 1.0)[:, None])
        sides = []
        for k in (0, 1):
            x = span[0] + (span[1] - span[0]) * np.clip(z[:, 2 * d + k], 0, 1)
            q = M.exp(p, x.reshape(-1, *[1] * len(M.point_shape)) * v)
            e = z[:, 2 * d + 2 + k * d : 2 * d + 2 + (k + 1) * d]
            e = 1.2 * clip * e / np.linalg.norm(e, axis=1, keepdims=True)
            Y = M.exp(q, M.transport(p, q, M.from_coordinates(p, e)))
            sides.append(contribution(M, p, v, x, Y, clip))
        foot, shoot = (a - b for a, b in zip(*sides, strict=True))
        lengths = np.linalg.norm(foot, axis=1), np.linalg.norm(shoot, axis=1)
        return np.stack([*lengths, np.hypot(lengths[0], 2 * lengths[1]), endpoint_norm(foot, shoot)])

    found = {}
    for which, name in enumerate(NORMS):
        z = 2 * rng.standard_normal((pairs, 4 * d + 2))
        ends = np.round(2 * rng.random((pairs, 2))) / 2  # predictors start at the ends and the middle
        z[:, 2 * d : 2 * d + 2] = ends + 0.1 * rng.standard_normal((pairs, 2))
        value = measure(z)[which]
        for r in range(rounds):
            best = np.argsort(-value)[: pairs // 10]
            z = np.concatenate([z[best], np.repeat(z[best], 9, axis=0)])
            z[len(best) :] += 0.5 * 0.7**r * rng.standard_normal((len(z) - len(best), z.shape[1]))
            value = measure(z)[which]
        found[name] = float(value.max())
    return found


def validity(pairs: int) -> None:
    clip, speed = 0.4, 1.0
    print(f"bound/found over {4 * 13 * pairs:,} adjacent pairs a row, speed {speed:g}; below 1 the bound is wrong")
    print(f"{'space':<28} {'x':>9} {'foot':>7} {'velocity':>9} {'joint':>7} {'endpoint':>9}")
    for M in (Sphere(2), Lorentz(2), SPDAffineInvariant(2), Euclidean(4)):
        found = attack(M, speed, clip, (-0.5, 0.5), 1, pairs)
        domain = Domain(0.5, speed, clip, 1, 1.0)
        ours = [*gradient_sensitivities(M, speed, clip, 1), joint_sensitivity(M, domain)]
        ratios = [bound / found[name] for bound, name in zip(ours, NORMS[:3], strict=True)]
        constant = not isinstance(M, SPDAffineInvariant)
        ends = f"{endpoint_sensitivity(M, domain) / found['endpoint']:9.4f}" if constant else f"{'-':>9}"
        print(f"{M!r:<28} {'[-.5,.5]':>9} {ratios[0]:7.4f} {ratios[1]:9.4f} {ratios[2]:7.4f} {ends}")
    print("the paper's: on the sphere cos 1 and sin 1 (App. A), elsewhere the field of curvature K_max (Thm 3.4)")
    for M, printed in (
        (Sphere(2), (math.cos(1), math.sin(1))),
        (Lorentz(2), (math.cosh(1), math.sinh(1))),
        (SPDAffineInvariant(2), (1.0, 1.0)),
        (Euclidean(4), (1.0, 1.0)),
    ):
        found = attack(M, speed, clip, (0.0, 1.0), 2, pairs)
        ratios = [2 * clip * c / found[name] for c, name in zip(printed, NORMS[:2], strict=True)]
        print(f"{M!r:<28} {'[0,1]':>9} {ratios[0]:7.4f} {ratios[1]:9.4f}")


def sphere(repeats: int) -> None:
    """Data as in the paper: n points on a geodesic, ambient noise of variance 0.001, projected; total ε = 2."""
    M = Sphere(2)
    print(
        f"\nS², ε = 2, pure; means over {repeats} data sets (paper, not private, n = 20: 0.01, sd 5.47°, 0.043 -> 0.11)"
    )
    print(f"{'n':>6} {'clip':>5} {'distance':>9} {'angle°':>7} {'MAE fit':>8} {'MAE priv':>9} {'seconds':>8}")
    for n in (20, 100, 1000):
        for clip in (0.2, 0.3):
            rng = np.random.default_rng(n)
            rows = []
            for _ in range(max(4, repeats * 100 // max(n, 100))):
                x = np.linspace(0, 1, n)
                v = M.from_coordinates(M.origin, rng.standard_normal(2))
                v = 0.8 * v / np.linalg.norm(v)
                start = M.exp(M.origin, -0.5 * v)
                clean = M.exp(start, x[:, None] * M.transport(M.origin, start, v))
                Y = M.project(clean + math.sqrt(0.001) * rng.standard_normal((n, 3)))
                fit = fit_geodesic(M, x, Y)
                begin = time.perf_counter()
                model = PrivateGeodesicRegression(
                    M, radius=0.5, speed=1.0, clip=clip, guarantee=PureDP(2.0), method="kng"
                )
                model.fit(x, Y)
                seconds = time.perf_counter() - begin
                carried = M.transport(fit.footpoint, model.footpoint_, fit.velocity)
                cosine = carried @ model.velocity_ / np.linalg.norm(carried) / np.linalg.norm(model.velocity_)
                rows.append((
                    float(M.dist(fit.footpoint, model.footpoint_)), math.degrees(math.acos(np.clip(cosine, -1, 1))),
                    fit.residuals(x, Y).mean(), float(np.mean(M.dist(model.predict(x), Y))), seconds,
                ))  # fmt: skip
            row = np.mean(rows, axis=0)
            print(f"{n:>6} {clip:>5} {row[0]:9.4f} {row[1]:7.2f} {row[2]:8.4f} {row[3]:9.4f} {row[4]:8.2f}")


def wine(path: str, repeats: int) -> None:
    """Alcohol -> (fixed acidity, density, pH, residual sugar), first 100 rows: the non-private error is the paper's 0.873.

    Responses are put on public scales; errors are in units of the data's standard deviations, as the paper's.
    """
    with open(path, encoding="utf-8") as file:
        names, *rows = csv.reader(file, delimiter=";")
    table = np.array(rows[:100], dtype=float)
    alcohol = table[:, names.index("alcohol")]
    Y = table[:, [names.index(name) for name in ("fixed acidity", "density", "pH", "residual sugar")]]
    middle, unit = np.array([8.0, 0.997, 3.3, 2.2]), np.array([1.5, 0.0015, 0.18, 1.2])  # public, from the trade
    scaled, deviation = (Y - middle) / unit, Y.std(axis=0)

    def error(prediction) -> float:
        return float(np.mean(((prediction * unit + middle - Y) / deviation) ** 2))

    print("\nWine Quality, ℝ⁴, n = 100, ε = 2 (paper: 0.873 fit, 0.954 DPGR (not private), 7.856 IBM, 0.982 Opacus)")
    print(
        f"  least squares                     {error(fit_geodesic(Euclidean(4), alcohol, scaled).predict(alcohol)):.3f}"
    )
    common = {"radius": 1.0, "speed": 3.0, "x_range": (8.0, 14.0)}
    joint = [
        error(
            PrivateGeodesicRegression(
                Euclidean(4), clip=1.5, guarantee=ApproxDP(2.0, 1e-5), source=_seeded(i), **common
            ).fit(alcohol, scaled).predict(alcohol)
        )
        for i in range(repeats)
    ]  # fmt: skip
    pure = []
    for i in range(repeats):  # four lines, ε/4 each: composition is exact for pure ε
        columns = [
            PrivateGeodesicRegression(
                Euclidean(1), clip=0.8, guarantee=PureDP(0.5), source=_seeded(4 * i + k), **common
            ).fit(alcohol, scaled[:, [k]]).predict(alcohol)
            for k in range(4)
        ]  # fmt: skip
        pure.append(error(np.concatenate(columns, axis=1)))
    for label, values in (("ours, (2, 1e-5)-DP, descent", joint), ("ours, pure ε = 2, four K-norm lines", pure)):
        print(f"  {label:<36} {np.mean(values):.3f} (sd {np.std(values):.3f}, median {np.median(values):.3f})")


def _seeded(seed: int) -> GeneratorSource:
    return GeneratorSource(np.random.default_rng(seed))  # the privacy of a benchmark's data is not at stake


def timing() -> None:
    M, n = Sphere(2), 100_000
    rng = np.random.default_rng(0)
    x = rng.random(n)
    clean = M.exp(M.origin, x[:, None] * np.array([0.0, 0.8, 0.3]))
    Y = M.exp(clean, M.from_coordinates(clean, 0.2 * rng.standard_normal((n, 2))))
    begin = time.perf_counter()
    fit = fit_geodesic(M, x, Y)
    print(f"\nnon-private fit, S², n = {n:,}: {time.perf_counter() - begin:.2f} s, gradient {fit.gradient_norm:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--wine", default=None, help="path of winequality-red.csv (UCI)")
    arguments = parser.parse_args()
    validity(arguments.pairs)
    sphere(arguments.repeats)
    if arguments.wine:
        wine(arguments.wine, arguments.repeats)
    timing()


if __name__ == "__main__":
    main()
