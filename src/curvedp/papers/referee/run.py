"""Further published mechanisms, recomputed: what each claims beside what comes out. docs/referee.md has the verdicts.

Only what is computed here is claimed. Texts that could be read: see the page.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import integrate

from curvedp.audit import audit_scores
from curvedp.audit.empirical import rounded
from curvedp.geometry import Lorentz, Manifold, SPDAffineInvariant, Sphere
from curvedp.papers.referee.location import location
from curvedp.papers.runner import Setting
from curvedp.papers.style import BLUE, GREEN, INK, ORANGE, RED, plain, sheet
from curvedp.privacy import GDP, ApproxDP, gaussian_profile, smallest_scale


def referee(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """All of them; the full form takes more samples and finer grids."""
    figures = {
        "wrapped": wrapped(60_000 if setting.full else 20_000),
        "heat": heat(),
        "federated": federated(),
        "rotations": rotations(400_000 if setting.full else 40_000),
        "location": location(1_000_000 if setting.full else 100_000),
    }
    return figures, draw(figures)


# --- exponential-wrapped Gaussian (2026): exp_p(log_p(statistic) + noise), p public


def contraction(
    M: Manifold, rng: np.random.Generator, pairs: int = 4000, reach: float = 2.0
) -> float:
    """The largest ‖log_p x − log_p y‖/d(x, y) found, x and y within `reach` of p: at most 1 is what the proof needs."""
    z = rng.standard_normal((2, pairs, M.dim))
    z *= reach * rng.random((2, pairs, 1)) / np.linalg.norm(z, axis=-1, keepdims=True)
    z[1, ::2] = z[0, ::2] + 1e-3 * rng.standard_normal(
        (pairs // 2, M.dim)
    )  # close pairs, where the ratio is largest
    x, y = (
        np.asarray(M.exp(M.origin, M.from_coordinates(M.origin, part))) for part in z
    )
    return float(
        np.max(np.linalg.norm(z[0] - z[1], axis=-1) / np.asarray(M.dist(x, y)))
    )


def wrapped(
    samples: int, sensitivity: float = 0.5, sigma: float = 0.5
) -> dict[str, float]:
    """Contraction of the logarithm on two Hadamard spaces and not on S²; μ = Δ/σ under attack on H²."""
    rng, M = np.random.default_rng(0), Lorentz(2)
    ends = np.array(
        [[0.0, 0.0], [sensitivity, 0.0]]
    )  # along a ray from p, where the logarithm keeps distances
    sides = [
        [rounded((end + sigma * rng.standard_normal((samples, 2)))[:, 0])]
        for end in ends
    ]
    audited = audit_scores(GDP(sensitivity / sigma), *sides)
    return {
        "contraction, H²": contraction(M, rng),
        "contraction, SPD(2)": contraction(SPDAffineInvariant(2), rng),
        "contraction, S²": contraction(Sphere(2), rng, reach=1.2),
        "claimed μ": sensitivity / sigma,
        "audited μ, at least": float(audited.audited_mu or 0.0),
        "holds": float(audited.holds),
    }


leggauss = cache(np.polynomial.legendre.leggauss)


# --- heat diffusion (2026): the heat kernel at time t (generator Δ) about the statistic


def circle_kernel(theta: np.ndarray, t: float) -> np.ndarray:
    n = np.arange(1, 200)
    waves = np.exp(-n * n * t) * np.cos(theta[..., None] * n)
    return np.asarray((1 + 2 * np.sum(waves, axis=-1)) / (2 * math.pi))


def sphere_kernel(cosine: np.ndarray, t: float) -> np.ndarray:
    n = np.arange(0, 60)
    terms = (2 * n + 1) / (4 * math.pi) * np.exp(-n * (n + 1) * t)
    return np.asarray(np.polynomial.legendre.legval(cosine, terms))


def renyi_circle(order: float, t: float, d: float) -> float:
    y = np.linspace(-math.pi, math.pi, 1001)[
        :-1
    ]  # smooth and periodic: to the last digits
    p, q = circle_kernel(y, t), circle_kernel(y - d, t)
    return math.log(float(np.mean(p**order * q ** (1 - order))) * 2 * math.pi) / (
        order - 1
    )


def renyi_sphere(order: float, t: float, d: float) -> float:
    """Gauss–Legendre in cos(polar angle about x), trapezoid in azimuth."""
    c, w = leggauss(200)
    azimuth = 2 * math.pi * (np.arange(200) + 0.5) / 200
    s = np.sqrt(1 - c * c)[:, None]
    other = c[:, None] * math.cos(d) + s * math.sin(d) * np.cos(azimuth)
    p, q = sphere_kernel(c, t)[:, None], sphere_kernel(other, t)
    total = float(np.sum(w[:, None] * p**order * q ** (1 - order))) * 2 * math.pi / 200
    return math.log(total) / (order - 1)


def renyi_hyperbolic(order: float, t: float, d: float) -> float:
    """H³, whose kernel is (4πt)^{−3/2}·(r/sinh r)·e^{−t−r²/4t}; polar coordinates about x."""

    def log_kernel(r: np.ndarray) -> np.ndarray:
        near = np.maximum(r, 1e-9)  # where r/sinh r is 1
        return np.asarray(
            -1.5 * math.log(4 * math.pi * t)
            + np.log(near / np.sinh(near))
            - t
            - r * r / (4 * t)
        )

    c, w = leggauss(80)
    r, v = leggauss(160)
    end = 6 * math.sqrt(2 * t) * max(1.0, math.sqrt(order)) + 4 * order * (d + 2 * t)
    r, v = end * (r[:, None] + 1) / 2, end * v[:, None] / 2
    other = np.arccosh(
        np.maximum(1.0, np.cosh(r) * math.cosh(d) - np.sinh(r) * math.sinh(d) * c)
    )
    log_value = order * log_kernel(r) + (1 - order) * log_kernel(other)
    total = float(np.sum(v * w * 2 * math.pi * np.sinh(r) ** 2 * np.exp(log_value)))
    return math.log(total) / (order - 1)


def harnack(order: float, t: float, d: float, lower: float) -> float:
    """D_α ≤ αKd²/(2(1 − e^{−2Kt})) for Ric ≥ −K, and αd²/4t for K = 0: Wang's dimension-free Harnack inequality (1997)."""
    return (
        order * d * d / (4 * t)
        if lower == 0
        else order * lower * d * d / (2 * -math.expm1(-2 * lower * t))
    )


def heat() -> dict[str, Any]:
    """Rényi divergences by quadrature over the bound, at orders 1.5 to 8."""
    rows: dict[str, Any] = {"orders": [1.5, 2.0, 4.0, 8.0]}
    for name, renyi, lower, cases in (
        ("S¹", renyi_circle, 0.0, ((0.2, 0.5), (1.0, 1.0))),
        ("S²", renyi_sphere, 0.0, ((0.2, 0.5), (0.5, 1.0))),
        ("H³", renyi_hyperbolic, 2.0, ((0.2, 0.3), (1.0, 0.3))),
    ):
        for t, d in cases:
            rows[f"{name}, t = {t:g}, d = {d:g}"] = [
                renyi(order, t, d) / harnack(order, t, d, lower)
                for order in rows["orders"]
            ]
    rows["largest ratio"] = max(
        max(values) for key, values in rows.items() if key != "orders"
    )
    flat = [
        renyi_hyperbolic(order, 1.0, 0.3) / harnack(order, 1.0, 0.3, 0.0)
        for order in rows["orders"]
    ]
    rows["H³ by the bound for Ric ≥ 0, t = 1"] = max(flat)
    return rows


# --- private federated Riemannian optimization (2024): each round (0.15, 1e-4), composed by advanced composition


def federated(
    eps: float = 0.15, delta: float = 1e-4, slack: float = 1e-3
) -> dict[str, Any]:
    """ε′ of T rounds by advanced composition, and exactly where each round is a Gaussian release, at the same δ′."""
    mu = 1 / smallest_scale(
        lambda s: gaussian_profile(0.0, 1, s, 1.0), ApproxDP(eps, delta), 1.0
    )
    rounds = [1, 10, 50, 100, 200, 500]
    advanced = [
        math.sqrt(2 * T * math.log(1 / slack)) * eps + T * eps * math.expm1(eps)
        for T in rounds
    ]
    exact = [float(GDP(math.sqrt(T) * mu).epsilon(T * delta + slack)) for T in rounds]
    return {
        "rounds": rounds,
        "advanced": advanced,
        "exact": exact,
        "ratio at 100": advanced[3] / exact[3],
    }


# --- metric privacy on SO(3) (2025): Laplace e^{−εφ} and Bingham e^{ε(q·μ)²}, φ the rotation angle


def rotations(samples: int) -> dict[str, float]:
    """Largest log-ratio found over ε·φ, by random rotations and the maximizer; and the mass of the Laplace law."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((samples, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    laplace, bingham = [], []
    for half in (0.01, 0.2, 0.7, 1.3):  # half the rotation between the two centers
        mu = np.eye(4)[0], math.cos(half) * np.eye(4)[0] + math.sin(half) * np.eye(4)[1]
        # where the two squares differ most: the eigenvectors of μμᵀ − νν ᵀ, at 45° to the bisector
        turn = half / 2 + np.array([math.pi / 4, -math.pi / 4])
        best = np.stack([np.cos(turn), np.sin(turn), 0 * turn, 0 * turn], axis=1)
        x = np.vstack([q, best, mu[0], mu[1]])
        cosines = [np.clip(np.abs(x @ m), 0, 1) for m in mu]
        angle = [2 * np.arccos(c) for c in cosines]
        laplace.append(float(np.max(np.abs(angle[0] - angle[1]))) / (2 * half))
        bingham.append(
            float(np.max(np.abs(cosines[0] ** 2 - cosines[1] ** 2))) / (2 * half)
        )
    mass = integrate.quad(lambda r: math.exp(-r) * math.sin(r / 2) ** 2, 0, math.pi)[0]
    return {"Laplace": max(laplace), "Bingham": max(bingham), "Bingham, claimed": math.pi / 4,
            "Bingham, by the quaternions' angle": 2 * max(bingham), "Laplace's mass, any center": mass}  # fmt: skip


def draw(figures: dict[str, Any]) -> Figure:
    picture = sheet(9, 4)
    heat_axes, fed = picture.subplots(1, 2)
    colors = iter((RED, ORANGE, BLUE, INK, GREEN, "#8e44ad"))
    for name, values in figures["heat"].items():
        if " = " in name and "bound" not in name:
            heat_axes.plot(
                figures["heat"]["orders"],
                values,
                "o-",
                ms=4,
                color=next(colors),
                label=name,
            )
    heat_axes.axhline(1, color=INK, ls=":")
    heat_axes.set(
        xlabel="Rényi order",
        ylabel="divergence over its bound",
        ylim=(0, 1.08),
        title="heat kernel",
    )
    fed.plot(
        figures["federated"]["rounds"],
        figures["federated"]["advanced"],
        "o-",
        color=RED,
        label="advanced composition",
    )
    fed.plot(
        figures["federated"]["rounds"],
        figures["federated"]["exact"],
        "o-",
        color=BLUE,
        label="exact, same δ′",
    )
    fed.set(
        xlabel="rounds of (0.15, 10⁻⁴)",
        ylabel="ε′",
        ylim=(0, None),
        title="federated: accounting",
    )
    heat_axes.legend(
        frameon=False,
        fontsize=7,
        ncols=3,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.17),
    )
    fed.legend(frameon=False, fontsize=8)
    for axes in (heat_axes, fed):
        plain(axes)
    return picture
