"""Geodesic regression: the sensitivities under attack, private fits on S², and time.

    python -m benchmarks.studies.regression [--pairs 2000] [--repeats 40]

The attack looks for adjacent pairs and places (p, v) of the domain at which one record moves the gradient most, by random
search, then gradient ascent; a ratio bound/found below 1 refutes the bound. The paper's constants are beside ours. Wine
Quality, with the peers, is benchmarks/speed/regression_peers.py.
"""

import argparse
import math
import time

import numpy as np

from curvedp import ApproxDP, PrivateGeodesicRegression, PureDP
from curvedp.geometry import Euclidean, Lorentz, SPDAffineInvariant, Sphere
from curvedp.papers.reg.attack import NORMS, attack
from curvedp.papers.reg.sampler import angles, sequential_sampler, sphere_data
from curvedp.regression import fit_geodesic
from curvedp.regression.bounds import (
    Domain,
    endpoint_sensitivity,
    gradient_sensitivities,
    joint_sensitivity,
)


def validity(pairs: int) -> None:
    clip, speed = 0.4, 1.0
    print(
        f"bound/found, speed {speed:g}; below 1 the bound is wrong. Paper: on the sphere cos 1 and sin 1 (App. A), elsewhere"
    )
    print(
        "the field of curvature K_max (Thm 3.4), with x in [0, 1]; ours with x in [-1/2, 1/2]"
    )
    head = (
        "ours foot",
        "velocity",
        "whole",
        "endpoint",
        "paper's foot",
        "velocity",
        "pairs",
    )
    print(f"{'space':<24}" + "".join(f"{name:>13}" for name in head))
    for M, printed in (
        (Sphere(2), (math.cos(1), math.sin(1))),
        (Lorentz(2), (math.cosh(1), math.sinh(1))),
        (SPDAffineInvariant(2), (1.0, 1.0)),
        (Euclidean(4), (1.0, 1.0)),
    ):
        found, tried = attack(M, speed, clip, (-0.5, 0.5), 1, pairs, ascent=40)
        domain = Domain(0.5, speed, clip, 1, 1.0)
        bounds = [*gradient_sensitivities(M, speed, clip, 1), joint_sensitivity(domain)]
        row = [
            f"{bound / found[name]:13.4f}"
            for bound, name in zip(bounds, NORMS[:3], strict=True)
        ]
        constant = not isinstance(M, SPDAffineInvariant)
        row.append(
            f"{endpoint_sensitivity(M, domain) / found['endpoint']:13.4f}"
            if constant
            else f"{'-':>13}"
        )
        found, more = attack(M, speed, clip, (0.0, 1.0), 2, pairs, ascent=40)
        row += [
            f"{2 * clip * c / found[name]:13.4f}"
            for c, name in zip(printed, NORMS[:2], strict=True)
        ]
        print(f"{M!r:<24}" + "".join(row) + f"{tried + more:13,}")


def sphere(repeats: int) -> None:
    """Data as in the paper, true speed 0.8, total ε = 2: its sequential sampler, NOT private, beside ours."""
    M = Sphere(2)
    print(
        "\nS², total ε = 2: distance and angle to the fit, mean absolute error (fit's own in the last column)"
    )
    print(
        f"{'n':>6} {'data sets':>9} {'method':<26} {'distance':>9} {'angle°':>7} {'MAE':>7} {'CPU s':>7} {'fit':>7}"
    )
    for n in (20, 100, 1000):
        rows: dict[str, list] = {
            "as printed, not private": [],
            "ours, pure ε": [],
            "ours, (ε, 1e-5), descent": [],
        }
        errors_of_fit, count = [], max(4, repeats * 100 // max(n, 100))
        for seed in range(count):
            rng = np.random.default_rng(100 + seed)
            x, Y = sphere_data(n, 0.8, rng)
            fit = fit_geodesic(M, x, Y)
            errors_of_fit.append(fit.residuals(x, Y).mean())

            def note(label, p, v, begin, x=x, Y=Y, fit=fit, rows=rows):
                error = float(np.mean(M.dist(M.exp(p, x[:, None] * v), Y)))
                angle = abs(float(angles(M, fit, p, v)))
                rows[label].append(
                    (
                        float(M.dist(fit.footpoint, p)),
                        angle,
                        error,
                        time.process_time() - begin,
                    )
                )

            begin = time.process_time()
            samples = sequential_sampler(M, x, Y, rng, 1, thin=100)
            note(
                "as printed, not private",
                samples.footpoints[0],
                samples.velocities[0, 0],
                begin,
            )
            for label, guarantee, method in (
                ("ours, pure ε", PureDP(2.0), "kng"),
                ("ours, (ε, 1e-5), descent", ApproxDP(2.0, 1e-5), "dp-rgd"),
            ):
                begin = time.process_time()
                model = PrivateGeodesicRegression(
                    M,
                    radius=0.2,
                    speed=1.0,
                    clip=0.3,
                    guarantee=guarantee,
                    method=method,
                    x_range=(0, 1),
                ).fit(x, Y)
                note(label, model.footpoint_, model.velocity_, begin)
        for label, values in rows.items():
            distance, angle, error, seconds = np.mean(values, axis=0)
            tail = f"{error:7.4f} {seconds:7.2f} {np.mean(errors_of_fit):7.4f}"
            print(
                f"{n:>6} {count:>9} {label:<26} {distance:9.4f} {angle:7.2f} {tail}",
                flush=True,
            )


def timing() -> None:
    M, n = Sphere(2), 100_000
    rng = np.random.default_rng(0)
    x = rng.random(n)
    clean = M.exp(M.origin, x[:, None] * np.array([0.0, 0.8, 0.3]))
    Y = M.exp(clean, M.from_coordinates(clean, 0.2 * rng.standard_normal((n, 2))))
    begin = time.process_time()
    fit = fit_geodesic(M, x, Y)
    print(
        f"\nnon-private fit, S², n = {n:,}: {time.process_time() - begin:.2f} s of CPU, gradient {fit.gradient_norm:.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=40)
    arguments = parser.parse_args()
    validity(arguments.pairs)
    sphere(arguments.repeats)
    timing()


if __name__ == "__main__":
    main()
