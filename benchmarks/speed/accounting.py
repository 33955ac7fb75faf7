"""Accounting: speed of μ and of calibration beside the paper's Algorithm 2, and two studies that try to break the profiles.

    python -m benchmarks.accounting                  # the tables
    python -m benchmarks.accounting --brute 500      # against brute-force quadrature on random (κ, d, σ, Δ, ε)
    python -m benchmarks.accounting --batches        # many steps of tiny batches, beside dp-accounting
    python -m benchmarks.accounting --certified 10000  # against ball arithmetic: never below the truth, always inside

Times are CPU seconds of one thread, the best of five.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.papers.gdp.algorithms import (
    algorithm1_estimate,
    algorithm2_estimate,
    loss_sampler,
)
from curvedp.papers.gdp.circle import circle_gaussian_delta_printed
from curvedp.privacy import (
    GDP,
    ApproxDP,
    certified_delta,
    certified_mu,
    gaussian_floor,
    gaussian_profile,
    laplace_profile,
    smallest_scale,
    subsampled_gaussian,
)
from curvedp.privacy.guarantees.gaussian import gdp_mu


def best(f: Callable[[], Any], repeats: int = 5) -> tuple[Any, float]:
    """(value, seconds of CPU)."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        value = f()
        times.append(time.process_time() - start)
    return value, min(times)


def as_printed(
    sampler: Any, sigma: float, eps_max: float, rng: np.random.Generator
) -> float:
    """Algorithm 2 line by line at the paper's n = 1000, n_ε = 1000, m = 100, with NumPy only inside the sums."""
    n, n_eps, m = 1000, 1000, 100
    eps = eps_max * np.arange(1, n_eps + 1) / n_eps
    total = np.zeros(n_eps)
    for _ in range(m):
        first, second = sampler(rng, 0, n), sampler(rng, 1, n)
        for i, e in enumerate(eps):
            level = 2 * sigma**2 * e
            total[i] += (
                np.sum(first >= level) / n
                - math.exp(min(e, 700.0)) * np.sum(second >= level) / n
            )
    total /= m
    return float(
        np.max(gdp_mu(eps[total > 0], np.minimum(total[total > 0], 1 - 1e-15)))
    )


def metropolis(k: int, d: int, sigma: float, D: float) -> Any:
    """The paper's sampler (§4.1): Metropolis–Hastings with a wrapped normal of the law's own scale as the proposal.

    The proposal is symmetric, since exp has the same Jacobian seen from either end. On S¹ the law is a normal on
    (−π, π), truncated (their appendix A.6): there nothing is a chain.
    """
    if d == 1:

        def arc(rng: np.random.Generator, which: int, n: int) -> Any:
            y = rng.normal(scale=sigma, size=4 * n + 100)
            y = y[np.abs(y) < math.pi][:n] + (D if which else 0.0)
            return _wrapped(y - D) ** 2 - _wrapped(y) ** 2

        return arc
    sign = np.ones(d + 1)
    sign[0] = 1.0 if k > 0 else -1.0
    cs, sn = (math.cos, math.sin) if k > 0 else (math.cosh, math.sinh)
    centers = np.zeros((2, d + 1))
    centers[:, 0] = 1.0, cs(D)
    centers[1, 1] = sn(D)
    limit = math.pi if k > 0 else math.inf

    def distance(x: Any, y: Any) -> float:
        half = (x - y) * sign @ (x - y) / 4
        return 2 * (
            math.asin(min(math.sqrt(half), 1.0))
            if k > 0
            else math.asinh(math.sqrt(max(half, 0.0)))
        )

    def chain(rng: np.random.Generator, which: int, n: int) -> Any:
        x, square, out = centers[which], 0.0, np.empty(n)
        for i in range(n):
            z = rng.normal(scale=sigma, size=d + 1)
            if k > 0:
                v = z - (z @ x) * x
                norm = math.sqrt(v @ v)
            else:  # the boost from the origin to x takes (0, z) to a tangent vector at x
                inner = z[1:] @ x[1:]
                v = np.append(inner, z[1:] + inner / (1 + x[0]) * x[1:])
                norm = math.sqrt(z[1:] @ z[1:])
            if norm < limit:
                y = cs(norm) * x + sn(norm) / norm * v
                if k < 0:
                    y[0] = math.sqrt(1 + y[1:] @ y[1:])
                there = distance(centers[which], y) ** 2
                if there <= square or rng.random() < math.exp(
                    (square - there) / (2 * sigma**2)
                ):
                    x, square = y, there
            out[i] = distance(centers[1], x) ** 2 - distance(centers[0], x) ** 2
        return out

    return chain


def _wrapped(y: Any) -> Any:
    """An angle in [−π, π)."""
    return (y + math.pi) % (2 * math.pi) - math.pi


def speed() -> None:
    """μ(σ, Δ) against Algorithm 2 at the paper's settings: n = 1000, n_ε = 1000, m = 100, 20 replicates."""
    print(
        "| space | σ | Δ | μ | ms | certified δ(½), s | Alg. 2: rms error | s, sorted | s, printed | s, chain | faster by |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    cases = [
        (1, 1, 1.0, 1.0),
        (1, 2, 1.0, 1.0),
        (-1, 2, 1.0, 1.0),
        (-1, 3, 1.0, 1.0),
        (1, 10, 0.5, 0.5),
        (1, 100, 0.1, 0.1),
        (-1, 100, 0.1, 0.1),
    ]
    cases += [(1, 10_000, 0.01, 0.01), (-1, 10_000, 0.01, 0.01)]
    for k, d, s, D in cases:
        mu, ours = best(lambda k=k, d=d, s=s, D=D: gaussian_profile(k, d, s, D).mu, 20)
        _, seconds = best(
            lambda k=k, d=d, s=s, D=D: certified_delta("gaussian", k, d, s, D, 0.5), 1
        )
        walk = metropolis(k, d, s, D)
        sampler, rng = (
            (loss_sampler(k, d, s, D) if d > 1 else walk),
            np.random.default_rng(0),
        )
        eps_max = (
            max(10.0, 5 * D / s + D * D / (2 * s * s))
            if k < 0
            else math.pi * D / (2 * s * s)
        )
        _, fast = best(
            lambda s=s, e=eps_max, f=sampler, r=rng: algorithm2_estimate(f, s, e, r), 2
        )
        _, printed = best(
            lambda s=s, e=eps_max, f=sampler, r=rng: as_printed(f, s, e, r), 1
        )
        chain = math.nan
        if 1 < d <= 100:  # 2·10⁵ steps one after the other
            _, chain = best(
                lambda s=s, e=eps_max, f=walk, r=rng: as_printed(f, s, e, r), 1
            )
        runs = [
            algorithm2_estimate(sampler, s, eps_max, np.random.default_rng(i)).mu
            for i in range(20)
        ]
        error = math.sqrt(np.mean((np.array(runs) / mu - 1) ** 2))
        ratios = " / ".join(
            f"{x / ours:.0f}×" for x in (fast, printed, chain) if x == x
        )
        print(
            f"| {'S' if k > 0 else 'H'}^{d} | {s:g} | {D:g} | {mu:.8f} | {1e3 * ours:.1f} | {seconds:.2f} | {error:.1e} |"
            f" {fast:.2f} | {printed:.2f} | {chain:.1f} | {ratios} |",
            flush=True,
        )


def calibration() -> None:
    """Time to calibrate."""
    print("\n| target | space | Δ | σ | ms |\n|---|---|---|---|---|")
    for target in (GDP(0.5), ApproxDP(1.0, 1e-6)):
        for k, d, D in ((1, 2, 0.3), (-1, 3, 0.1), (1, 100, 0.3), (1, 10_000, 0.5)):
            scale, seconds = best(
                lambda k=k, d=d, D=D, t=target: smallest_scale(
                    lambda s: gaussian_profile(k, d, s, D), t, D
                ),
                2,
            )
            print(
                f"| {target} | {'S' if k > 0 else 'H'}^{d} | {D} | {scale:.8f} | {1e3 * seconds:.0f} |"
            )


def printed_and_true() -> None:
    """E1, E2, E4 and the floor."""
    print("\n| what | printed | true |\n|---|---|---|")
    true = gaussian_profile(1, 1, 2.0, 1.0)
    print(
        f"| E1: δ(0.3) on S¹, σ=2, Δ=1 | {circle_gaussian_delta_printed(2, 1, 0.3):.7f} | {true.delta(0.3):.7f} |"
    )
    print(
        f"| E2: μ on S¹, σ=2, Δ=1, by Algorithm 1 | {algorithm1_estimate(2.0, 1.0):.9f} | {true.mu:.9f} |"
    )
    coarse = algorithm1_estimate(2.0, 1.0, 20)
    print(f"| E2: the same with n_ε = 20 | {coarse:.9f} | {true.mu:.9f} |")
    h3 = gaussian_profile(-1, 3, 1.0, 1.0)
    print(f"| E4: μ on H³, σ=Δ=1: the tail limit Δ/σ | 1 | {h3.mu:.5f} |")
    print(
        f"| floor of H¹⁰ at Δ=1 | 0 (none mentioned) | {gaussian_floor(-1, 10, 1.0):.5f} |"
    )
    for case in (("gaussian", 1, 2, 1.0, 1.0), ("gaussian", -1, 3, 1.0, 1.0)):
        (low, high), seconds = best(lambda c=case: certified_mu(*c), 1)
        print(f"| certified μ, {case} ({seconds:.1f} s) | | [{low:.9f}, {high:.9f}] |")


def random_case(
    rng: np.random.Generator,
) -> tuple[str, float, int, float, float, float]:
    """(kind, κ, d, scale, Δ, ε), ranging over what a profile meets."""
    kind = str(rng.choice(["gaussian", "laplace"]))
    curvature = float(rng.choice([-1, 0, 1]) * rng.choice([1.0, 1.0, 0.25, 4.0]))
    d = int(rng.choice([2, 3, 4, 5, 8, 17, 40, 100]))
    root = math.sqrt(abs(curvature)) or 1.0
    scale = 10 ** rng.uniform(-1.3, 0.5) / root
    if kind == "laplace":
        scale /= math.sqrt(d)
        scale = min(scale, 0.95 / (root * (d - 1))) if curvature < 0 else scale
    elif curvature < 0:
        scale = min(scale, 6 / (root * math.sqrt(d)))
    D = scale * 10 ** rng.uniform(-2, 0.7)
    D = (
        min(D, float(rng.choice([1.0, 0.99, 0.7])) * math.pi / root)
        if curvature > 0
        else min(D, 4 / root)
    )
    profile = (gaussian_profile if kind == "gaussian" else laplace_profile)(
        curvature, d, scale, D
    )
    unit = (
        D / scale
        if profile.kind == "gaussian" and curvature == 0
        else profile.loss_law.loss_scale
    )
    eps = float(rng.choice([0.0, rng.uniform(0, 1) * unit, rng.uniform(1, 8) * unit]))
    if eps >= profile.pure_epsilon:
        eps = profile.pure_epsilon * rng.uniform(0, 0.99)
    return kind, curvature, d, float(scale), float(D), eps


def brute(count: int, seed: int) -> None:
    """Agreement with two-dimensional quadrature."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    from support.profile_oracle import brute_delta

    rng, errors = np.random.default_rng(seed), []
    for _ in range(count):
        case = random_case(rng)
        kind, *numbers, eps = case
        ours = (gaussian_profile if kind == "gaussian" else laplace_profile)(
            *numbers
        ).delta(eps)
        truth = brute_delta(*case)
        errors.append((abs(ours / truth - 1) if truth > 0 else math.inf, case))
    errors.sort(key=lambda e: -e[0])
    print(
        f"\nbrute force: {count} cases, median {errors[count // 2][0]:.1e}, worst five:"
    )
    for error, case in errors[:5]:
        print(f"  {error:.1e} {case}")


def certified(count: int, seed: int) -> None:
    """Never below the truth, always inside the enclosure."""
    rng, below, outside, failed, width = np.random.default_rng(seed), 0, 0, 0, 0.0
    start = time.process_time()
    for i in range(count):
        case = random_case(rng)
        kind, *numbers, eps = case
        try:
            ours = (gaussian_profile if kind == "gaussian" else laplace_profile)(
                *numbers
            ).delta(eps)
            low, high = certified_delta(*case)
        except ArithmeticError as error:
            failed += 1
            print("  not enclosed:", case, error)
            continue
        if ours < low / (
            1 - 3e-9
        ):  # below the lower end of the ball, as it was before the widening
            below += 1
            print("  below:", case, ours, low, high)
        if not low <= ours <= high:
            outside += 1
            print("  outside:", case, ours, low, high)
        width = max(width, (high - low) / high if high else 0.0)
        if (i + 1) % 250 == 0:
            seconds = time.process_time() - start
            print(
                f"  {i + 1}: {below} below, {outside} outside, {failed} failed, {seconds:.0f} s",
                flush=True,
            )
    print(
        f"\ncertified: {count} cases, {below} below, {outside} outside, {failed} failed; widest {width:.1e} (seed {seed})"
    )


def batches() -> None:
    """ε of n steps at rate q, adding or removing a record; dp-accounting on a grid of width 10⁻⁵."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    deltas = (1e-5, 1e-8)
    print(
        "| σ, q, steps | ours, δ = 10⁻⁵ and 10⁻⁸ | s | dp-accounting | s |\n|---|---|---|---|---|"
    )
    for sigma, q, steps in (
        (1.0, 1e-3, 10**4),
        (1.0, 1e-4, 10**5),
        (1.0, 1e-5, 10**6),
        (0.6, 1e-5, 10**6),
        (2.0, 1e-5, 10**6),
    ):
        whole = subsampled_gaussian(sigma, q, steps, adjacency="add-remove")
        ours, own = best(lambda whole=whole: [whole.epsilon(d) for d in deltas], 1)
        peer, theirs = best(
            lambda sigma=sigma, q=q, steps=steps: [
                pld.from_gaussian_mechanism(
                    sigma, sampling_prob=q, value_discretization_interval=1e-5
                )
                .self_compose(steps)
                .get_epsilon_for_delta(d)
                for d in deltas
            ],
            1,
        )
        ends = [" ".join(f"{e:.5f}" for e in found) for found in (ours, peer)]
        print(
            f"| {sigma:g}, {q:g}, {steps:,} | {ends[0]} | {own:.1f} | {ends[1]} | {theirs / 2:.1f} |"
        )


def main() -> None:
    """The tables, or the studies asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brute", type=int, default=0)
    parser.add_argument("--certified", type=int, default=0)
    parser.add_argument("--batches", action="store_true")
    parser.add_argument("--seed", type=int, default=20261115)
    arguments = parser.parse_args()
    if arguments.brute:
        brute(arguments.brute, arguments.seed)
    if arguments.certified:
        certified(arguments.certified, arguments.seed)
    if arguments.batches:
        batches()
    if not (arguments.brute or arguments.certified or arguments.batches):
        speed()
        calibration()
        printed_and_true()


if __name__ == "__main__":
    main()
