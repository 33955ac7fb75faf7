"""δ(ε) by brute force: the positive part of p₁ − e^ε·p₂ integrated over radius AND angle, with embedded distances.

Shares nothing with curvedp.privacy: no incomplete beta function, no half-angle law of cosines, no table, no closed-form
breakpoints. Where L crosses ε is found by bisection. Good to about 1e-10 relative for dimensions 2 to a few hundred.
"""

import math
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq, minimize_scalar

_Z, _W = np.polynomial.legendre.leggauss(40)
_Z, _W = (_Z + 1) / 2, _W / 2


def distance_to_second(k, r, phi, D):
    """d₂ by the chord between embedded points, k = −1, 0, 1."""
    if k == 0:
        return np.hypot(r * np.cos(phi) - D, r * np.sin(phi))
    if k == 1:
        chord = np.sqrt(
            (np.cos(r) - math.cos(D)) ** 2
            + (np.sin(r) * np.cos(phi) - math.sin(D)) ** 2
            + (np.sin(r) * np.sin(phi)) ** 2
        )
        other = np.sqrt(
            (np.cos(r) + math.cos(D)) ** 2
            + (np.sin(r) * np.cos(phi) + math.sin(D)) ** 2
            + (np.sin(r) * np.sin(phi)) ** 2
        )
        return 2 * np.arctan2(chord, other)
    # the chord of the hyperboloid cancels at large radii; sinh²(d₂/2) does not
    return 2 * np.arcsinh(
        np.sqrt(
            np.sinh((r - D) / 2) ** 2 + np.sinh(r) * math.sinh(D) * np.sin(phi / 2) ** 2
        )
    )


def loss(kind, k, s, r, phi, D):
    d2 = distance_to_second(k, r, phi, D)
    return (d2 - r) * (d2 + r) / (2 * s * s) if kind == "gaussian" else (d2 - r) / s


def brute_delta(kind, curvature, dim, scale, sensitivity, eps, panels=24):
    root = math.sqrt(abs(curvature)) or 1.0
    k, s, D = int(np.sign(curvature)), scale * root, sensitivity * root
    sn = {0: np.asarray, 1: np.sin, -1: np.sinh}[k]

    def log_rho(r):
        with np.errstate(divide="ignore"):
            return (dim - 1) * np.log(sn(r)) - (
                r * r / (2 * s * s) if kind == "gaussian" else r / s
            )

    top = math.pi if k == 1 else _support_end(log_rho, s)
    peak = minimize_scalar(
        lambda r: -log_rho(np.array(r)),
        bounds=(1e-12 * top, top * (1 - 1e-12)),
        method="bounded",
        options={"xatol": 1e-9 * top},
    ).x
    log_top = float(log_rho(np.array(peak)))

    def gap(phi):
        return lambda r: float(loss(kind, k, s, np.array(r), np.array(phi), D)) - eps

    marks = {0.0, top, peak}
    for width in (1, 3, 6, 10, 16):  # the radial law is narrow in high dimension
        h = 1e-5 * peak
        curvature_at = (
            2 * log_top - log_rho(np.array(peak + h)) - log_rho(np.array(peak - h))
        ) / h**2
        sd = 1 / math.sqrt(max(float(curvature_at), 1e-300))
        marks |= {min(max(peak + sign * width * sd, 0.0), top) for sign in (-1, 1)}
    grid = np.linspace(1e-9 * top, top * (1 - 1e-9), 4001)
    for phi in (0.0, math.pi):
        values = loss(kind, k, s, grid, np.array(phi), D) - eps
        for i in np.nonzero(values[:-1] * values[1:] < 0)[0]:
            marks.add(float(brentq(gap(phi), grid[i], grid[i + 1], xtol=1e-15 * top)))
    edges = np.array(sorted(marks))
    radii, weights = [], []
    panel = np.linspace(0, math.pi / 2, panels // 8 + 1)
    for a, b in pairwise(edges):
        if b - a < 1e-14 * top:
            continue
        for c, e in pairwise(panel):
            theta = c + (e - c) * _Z  # r = a + (b−a)·sin²θ
            radii.append(a + (b - a) * np.sin(theta) ** 2)
            weights.append(
                _W
                * (e - c)
                * (b - a)
                * np.sin(2 * theta)
                * np.exp(log_rho(radii[-1]) - log_top)
            )
    r, weight = np.concatenate(radii), np.concatenate(weights)
    felt = weight > 0  # the rest underflows
    return float(
        np.sum(weight[felt] * _angular(kind, k, dim, s, D, eps, r[felt]))
    ) / float(np.sum(weight))


def _support_end(log_rho, s):
    r = np.geomspace(1e-3 * s, 1e6 * s + 1e6, 4000)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.nan_to_num(log_rho(np.minimum(r, 300.0)), nan=-np.inf)
    best = int(np.argmax(values))
    beyond = np.nonzero(values[best:] < values[best] - 120)[0]
    return float(min(r[best + beyond[0]] if len(beyond) else 300.0, 300.0))


def _angular(kind, k, dim, s, D, eps, r):
    """E over φ ∝ sin^{d−2} of (1 − e^{ε−L})₊ at each r."""
    low, high = np.zeros_like(r), np.full_like(r, math.pi)
    inside = loss(kind, k, s, r, 0.0 * r, D) >= eps
    for _ in range(54):  # to the last bit of π
        mid = (low + high) / 2
        yes = loss(kind, k, s, r, mid, D) >= eps
        low, high = np.where(yes, low, mid), np.where(yes, mid, high)
    start = np.where(inside, 0.0, high)
    some = loss(kind, k, s, r, np.full_like(r, math.pi), D) > eps
    # concentrate on where sin^{d−2} lives
    width = 12 / math.sqrt(dim)
    cuts = np.array(
        [0.0, math.pi / 2 - width, math.pi / 2, math.pi / 2 + width, math.pi]
    )
    cuts = np.unique(np.clip(cuts, 0.0, math.pi))
    out, norm = np.zeros_like(r), 0.0
    for a, b in pairwise(cuts):
        x = a + (b - a) * _Z
        norm += float(np.sum(_W * (b - a) * np.sin(x) ** (dim - 2)))
        for c, e in ((0.0, 0.12), (0.12, 0.5), (0.5, 1.0)):
            left = np.maximum(start, a)
            span = np.maximum(b - left, 0.0)
            phi = (left + c * span)[:, None] + ((e - c) * span)[:, None] * _Z
            value = -np.expm1(
                np.minimum(eps - loss(kind, k, s, r[:, None], phi, D), 0.0)
            )
            out += np.sum(
                _W * ((e - c) * span)[:, None] * value * np.sin(phi) ** (dim - 2),
                axis=1,
            )
    return np.where(some, out / norm, 0.0)
