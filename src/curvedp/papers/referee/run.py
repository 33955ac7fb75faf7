"""Further published mechanisms, recomputed: the claims of each, compared with the
results. docs/referee.md contains the conclusions, and states which texts could be read.
Nothing is claimed that is not computed here.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import integrate

from curvedp.audit import audit_scores
from curvedp.audit.empirical import rounded
from curvedp.geometry import Lorentz, Manifold, SPDAffineInvariant, Sphere
from curvedp.papers.referee.conformal import conformal
from curvedp.papers.referee.location import location
from curvedp.papers.referee.low_rank import low_rank
from curvedp.papers.referee.shapes import shapes
from curvedp.papers.runner import Setting
from curvedp.papers.style import BLUE, GREEN, INK, ORANGE, RED, empty_figure, style_axes
from curvedp.privacy import GDP, ApproxDP, gaussian_profile, smallest_scale

# Rényi orders at which heat kernels are compared with their bound.
_ORDERS = [1.5, 2.0, 4.0, 8.0]


def referee(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Test the claims of eight published mechanisms and recipes.

    Parameters
    ----------
    setting : Setting
        The full form uses more samples and finer grids.

    Returns
    -------
    figures, picture : dict and Figure
        The numbers of each mechanism, and a picture of three of them.
    """
    figures = {
        "wrapped": audit_wrapped_gaussian(60_000 if setting.full else 20_000),
        "heat": heat(),
        "federated": federated(),
        "rotations": rotations(400_000 if setting.full else 40_000),
        "conformal": conformal(setting.full),
        "low rank": low_rank(setting.full),
        "shapes": shapes(setting.full),
        "location": location(1_000_000 if setting.full else 100_000),
    }
    return figures, draw(figures)


# --- exponential-wrapped Gaussian (2026): exp_p(log_p(statistic) + noise), p public


def contraction(
    manifold: Manifold, rng: np.random.Generator, pairs: int = 4000, reach: float = 2.0
) -> float:
    """Return the largest ‖log_p x − log_p y‖/d(x, y) of random pairs x, y.

    The wrapped Gaussian adds Gaussian noise to the logarithm of a statistic. It is as
    private as the Gaussian mechanism of Euclidean space if this ratio is at most 1,
    which holds where the curvature is nowhere positive.

    Parameters
    ----------
    manifold : Manifold
        The manifold, whose origin is p.
    rng : numpy.random.Generator
        The source of the pairs. Half of them are close, where the ratio is largest.
    pairs : int
        The number of pairs.
    reach : float
        The largest distance of the points from p.
    """
    z = rng.standard_normal((2, pairs, manifold.dim))
    z *= reach * rng.random((2, pairs, 1)) / np.linalg.norm(z, axis=-1, keepdims=True)
    # Every other pair is close.
    small_steps = 1e-3 * rng.standard_normal((pairs // 2, manifold.dim))
    z[1, ::2] = z[0, ::2] + small_steps
    p = manifold.origin
    x, y = (
        np.asarray(manifold.exp(p, manifold.from_coordinates(p, coordinates)))
        for coordinates in z
    )
    lengths = np.linalg.norm(z[0] - z[1], axis=-1)
    return float(np.max(lengths / np.asarray(manifold.dist(x, y))))


def audit_wrapped_gaussian(
    samples: int, sensitivity: float = 0.5, sigma: float = 0.5
) -> dict[str, float]:
    """Test the claim that the wrapped Gaussian is μ-GDP with μ = Δ/σ.

    The mechanism releases exp_p(log_p(statistic) + noise), where p is a public point.
    The claim needs that log_p does not increase distances, which `contraction` tests on
    three spaces. An audit on the hyperbolic plane H² then bounds μ from below by
    samples. Its two statistics lie on a ray from p, along which the logarithm preserves
    distances, so that μ = Δ/σ is attained.

    Parameters
    ----------
    samples : int
        The number of draws about each statistic.
    sensitivity : float
        Δ, the distance of the two statistics.
    sigma : float
        σ, the standard deviation of the noise in each coordinate.

    Returns
    -------
    dict
        The largest ratio ‖log_p x − log_p y‖/d(x, y) on each of three spaces, the
        claimed μ, the lower bound on μ from the audit, and whether the audit is
        consistent with the claim (1 or 0).
    """
    rng = np.random.default_rng(0)
    # For each statistic, one list of scores: the coordinate along the ray.
    scores_by_statistic = []
    for coordinate in (0.0, sensitivity):
        draws = np.array([coordinate, 0.0]) + sigma * rng.standard_normal((samples, 2))
        scores_by_statistic.append([rounded(draws[:, 0])])
    audited = audit_scores(GDP(sensitivity / sigma), *scores_by_statistic)
    return {
        "contraction, H²": contraction(Lorentz(2), rng),
        "contraction, SPD(2)": contraction(SPDAffineInvariant(2), rng),
        "contraction, S²": contraction(Sphere(2), rng, reach=1.2),
        "claimed μ": sensitivity / sigma,
        "audited μ, at least": float(audited.audited_mu or 0.0),
        "holds": float(audited.holds),
    }


# --- heat diffusion (2026): the heat kernel at time t (generator Δ) about the statistic


@cache
def gauss_legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and weights of the Gauss–Legendre rule on [−1, 1], computed once.

    Parameters
    ----------
    nodes : int
        The number of points.
    """
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return points, weights


def circle_kernel(theta: np.ndarray, t: float) -> np.ndarray:
    """Return the heat kernel of S¹, (1 + 2Σe^{−n²t}cos nθ)/2π.

    Parameters
    ----------
    theta : array
        Angles θ from the start.
    t : float
        The time; the generator is Δ.
    """
    n = np.arange(1, 200)
    waves = np.exp(-n * n * t) * np.cos(theta[..., None] * n)
    return np.asarray((1 + 2 * np.sum(waves, axis=-1)) / (2 * math.pi))


def sphere_kernel(cosine: np.ndarray, t: float) -> np.ndarray:
    """Return the heat kernel of S², Σ(2n + 1)/(4π)·e^{−n(n+1)t}·P_n(cos r).

    Parameters
    ----------
    cosine : array
        Cosines of the angles r from the start.
    t : float
        The time; the generator is Δ.
    """
    n = np.arange(0, 60)
    terms = (2 * n + 1) / (4 * math.pi) * np.exp(-n * (n + 1) * t)
    return np.asarray(np.polynomial.legendre.legval(cosine, terms))


def renyi_circle(order: float, t: float, d: float) -> float:
    """Return the Rényi divergence of two heat kernels of S¹, a distance d apart.

    D_α = log ∫p^α q^{1−α} / (α − 1). The integrand is smooth and periodic, so that a
    plain mean over 1000 angles is accurate to all digits of a float.

    Parameters
    ----------
    order : float
        α > 1.
    t, d : float
        The time, and the distance of the starts.
    """
    y = np.linspace(-math.pi, math.pi, 1001)[:-1]
    p, q = circle_kernel(y, t), circle_kernel(y - d, t)
    total = float(np.mean(p**order * q ** (1 - order))) * 2 * math.pi
    return math.log(total) / (order - 1)


def renyi_sphere(order: float, t: float, d: float) -> float:
    """Return the Rényi divergence of two heat kernels of S², a distance d apart.

    D_α = log ∫p^α q^{1−α} / (α − 1), by a Gauss–Legendre rule in the cosine of the angle
    from the first start, and a mean in the azimuth.

    Parameters
    ----------
    order : float
        α > 1.
    t, d : float
        The time, and the distance of the starts.
    """
    c, w = gauss_legendre(200)
    azimuth = 2 * math.pi * (np.arange(200) + 0.5) / 200
    sine = np.sqrt(1 - c * c)[:, None]
    other = c[:, None] * math.cos(d) + sine * math.sin(d) * np.cos(azimuth)
    p, q = sphere_kernel(c, t)[:, None], sphere_kernel(other, t)
    total = float(np.sum(w[:, None] * p**order * q ** (1 - order))) * 2 * math.pi / 200
    return math.log(total) / (order - 1)


def renyi_hyperbolic(order: float, t: float, d: float) -> float:
    """Return the Rényi divergence of two heat kernels of H³, a distance d apart.

    D_α = log ∫p^α q^{1−α} / (α − 1), where p and q are the heat kernels of two starting
    points x and x′. At the distance r from its start a kernel has the density
    (4πt)^{−3/2}·(r/sinh r)·e^{−t−r²/4t}. The volume element is 2π·sinh²r dr dc, where c
    is the cosine of the angle at x between a point and x′. Both integrals are
    Gauss–Legendre rules.

    Parameters
    ----------
    order : float
        The Rényi order α > 1.
    t : float
        The time; the generator is the Laplacian.
    d : float
        The distance of x and x′.
    """

    def log_kernel(r: np.ndarray) -> np.ndarray:
        """Return the logarithm of the heat kernel at the distances r from its start."""
        # At r = 0 the factor r/sinh r is 1.
        positive = np.maximum(r, 1e-9)
        log_factor = np.log(positive / np.sinh(positive))
        constant = -1.5 * math.log(4 * math.pi * t) - t
        return np.asarray(constant + log_factor - r * r / (4 * t))

    # The integrand is smooth; with these numbers of nodes the rules have converged.
    c, cosine_weights = gauss_legendre(80)
    unit_nodes, unit_weights = gauss_legendre(160)
    # In its slowest direction the integrand falls like a normal density in r with the
    # mean (α − 1)·d + 2t and the standard deviation √(2t). It is negligible beyond:
    largest_radius = 6 * math.sqrt(2 * t) * max(1.0, math.sqrt(order))
    largest_radius += 4 * order * (d + 2 * t)
    r = largest_radius * (unit_nodes[:, None] + 1) / 2
    radial_weights = largest_radius * unit_weights[:, None] / 2

    # The hyperbolic law of cosines gives the distance from x′.
    cosh_second = np.cosh(r) * math.cosh(d) - np.sinh(r) * math.sinh(d) * c
    second_distance = np.arccosh(np.maximum(1.0, cosh_second))
    log_integrand = order * log_kernel(r) + (1 - order) * log_kernel(second_distance)
    volume = radial_weights * cosine_weights * 2 * math.pi * np.sinh(r) ** 2
    integral = float(np.sum(volume * np.exp(log_integrand)))
    return math.log(integral) / (order - 1)


def wang_bound(order: float, t: float, d: float, lower: float) -> float:
    """Return Wang's bound (1997) on the Rényi divergence of two heat kernels.

    D_α ≤ αKd²/(2(1 − e^{−2Kt})) for Ric ≥ −K, and αd²/4t for K = 0. It follows from
    Wang's Harnack inequality.

    Parameters
    ----------
    order : float
        The Rényi order α > 1.
    t : float
        The time; the generator is the Laplacian.
    d : float
        The distance of the two starting points.
    lower : float
        K ≥ 0; the Ricci curvature is at least −K.
    """
    if lower == 0:
        return order * d * d / (4 * t)
    return order * lower * d * d / (2 * -math.expm1(-2 * lower * t))


def heat() -> dict[str, Any]:
    """Return the Rényi divergences of heat kernels, divided by Wang's bound.

    Returns
    -------
    dict
        "orders", the Rényi orders. For each space, time and distance, the ratio at each
        order, which is at most 1 if the bound holds. "largest ratio", the largest of
        these. Last, the largest ratio on H³ to the bound for Ric ≥ 0, which does not
        apply there, because the Ricci curvature of H³ is −2.
    """
    rows: dict[str, Any] = {"orders": _ORDERS}
    ratios: list[float] = []
    for name, renyi, lower, cases in (
        ("S¹", renyi_circle, 0.0, ((0.2, 0.5), (1.0, 1.0))),
        ("S²", renyi_sphere, 0.0, ((0.2, 0.5), (0.5, 1.0))),
        ("H³", renyi_hyperbolic, 2.0, ((0.2, 0.3), (1.0, 0.3))),
    ):
        for t, d in cases:
            row = [
                renyi(order, t, d) / wang_bound(order, t, d, lower) for order in _ORDERS
            ]
            rows[f"{name}, t = {t:g}, d = {d:g}"] = row
            ratios += row
    rows["largest ratio"] = max(ratios)
    rows["H³ by the bound for Ric ≥ 0, t = 1"] = max(
        renyi_hyperbolic(order, 1.0, 0.3) / wang_bound(order, 1.0, 0.3, 0.0)
        for order in _ORDERS
    )
    return rows


# --- private federated Riemannian optimization (2024)


def federated(
    eps: float = 0.15, delta: float = 1e-4, slack: float = 1e-3
) -> dict[str, Any]:
    """Compare the ε of T rounds by advanced composition with the exact ε.

    The paper composes rounds of (ε, δ)-DP by advanced composition: T rounds have
    ε′ = √(2T·log(1/δ̂))·ε + Tε(e^ε − 1) and δ′ = Tδ + δ̂. If each round is a Gaussian
    release with just this guarantee, its μ is known, and T rounds are exactly √T·μ-GDP.
    The exact ε is that of √T·μ-GDP at the same δ′.

    Parameters
    ----------
    eps, delta : float
        The guarantee of one round.
    slack : float
        δ̂, by which advanced composition increases δ.

    Returns
    -------
    dict
        "rounds", the numbers T; "advanced" and "exact", the ε′ of each T; and the ratio
        of the two at T = 100.
    """
    scale = smallest_scale(
        lambda sigma: gaussian_profile(0.0, 1, sigma, 1.0), ApproxDP(eps, delta), 1.0
    )
    mu = 1 / scale
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


# --- metric privacy on SO(3) (2025): e^{−εφ} and e^{ε(q·μ)²}, φ the rotation angle


def rotations(samples: int) -> dict[str, float]:
    """Test the claimed privacy of Laplace and Bingham noise on rotations.

    Both laws claim metric privacy: densities about two rotations at the angle φ should
    differ by a factor of at most e^{ε·φ}. The Laplace density is ∝ e^{−ε·φ}, and the
    Bingham density ∝ e^{ε·⟨q, μ⟩²} for unit quaternions q and the center μ. The
    log-ratio of two Bingham densities with the centers μ and ν is largest at the
    eigenvectors of μμᵀ − ννᵀ, which are at 45° to the bisector of μ and ν. These are
    added to random rotations.

    Parameters
    ----------
    samples : int
        The number of random rotations, as unit quaternions.

    Returns
    -------
    dict
        For each law the largest |log-ratio| of densities about two centers, divided by ε
        times the angle between the centers; the claimed ratio for Bingham; and the mass
        ∫e^{−φ}·sin²(φ/2) dφ of the Laplace law at ε = 1, the same about each center.
    """
    rng = np.random.default_rng(0)
    quaternions = rng.standard_normal((samples, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    laplace_ratios, bingham_ratios = [], []
    identity, axis = np.eye(4)[0], np.eye(4)[1]
    for half_angle in (0.01, 0.2, 0.7, 1.3):
        other_center = math.cos(half_angle) * identity + math.sin(half_angle) * axis
        centers = (identity, other_center)
        maximizers = _bingham_maximizers(half_angle)
        points = np.vstack([quaternions, maximizers, *centers])
        cosines = [np.clip(np.abs(points @ center), 0, 1) for center in centers]
        # A rotation turns by twice the angle of its quaternion.
        angles = [2 * np.arccos(cosine) for cosine in cosines]
        angle_gap = np.max(np.abs(angles[0] - angles[1]))
        square_gap = np.max(np.abs(cosines[0] ** 2 - cosines[1] ** 2))
        laplace_ratios.append(float(angle_gap) / (2 * half_angle))
        bingham_ratios.append(float(square_gap) / (2 * half_angle))
    mass = integrate.quad(lambda r: math.exp(-r) * math.sin(r / 2) ** 2, 0, math.pi)[0]
    return {
        "Laplace": max(laplace_ratios),
        "Bingham": max(bingham_ratios),
        "Bingham, claimed": math.pi / 4,
        "Bingham, by the quaternions' angle": 2 * max(bingham_ratios),
        "Laplace's mass, any center": mass,
    }


def _bingham_maximizers(half_angle: float) -> np.ndarray:
    """Return the two quaternions at which two Bingham densities differ most.

    They are eigenvectors of μμᵀ − ννᵀ, in the plane of the centers μ and ν.

    Parameters
    ----------
    half_angle : float
        The angle between the quaternions μ = 1 and ν, half that of the rotations.
    """
    angles = half_angle / 2 + np.array([math.pi / 4, -math.pi / 4])
    maximizers = np.zeros((2, 4))
    maximizers[:, 0] = np.cos(angles)
    maximizers[:, 1] = np.sin(angles)
    return maximizers


# --- the picture


def draw(figures: dict[str, Any]) -> Figure:
    """Draw the results for heat kernels, composition and the estimated metric.

    Parameters
    ----------
    figures : dict
        The numbers of `referee`.
    """
    picture = empty_figure(12, 4)
    heat_axes, federated_axes, conformal_axes = picture.subplots(1, 3)
    _draw_heat(heat_axes, figures["heat"])
    _draw_federated(federated_axes, figures["federated"])
    _draw_conformal(conformal_axes, figures["conformal"])
    for axes in (heat_axes, federated_axes, conformal_axes):
        style_axes(axes)
    return picture


def _draw_heat(axes: Axes, rows: dict[str, Any]) -> None:
    """Draw the Rényi divergences of heat kernels, divided by their bound.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    rows : dict
        The result of `heat`.
    """
    colors = iter((RED, ORANGE, BLUE, INK, GREEN, "#8e44ad"))
    for name, values in rows.items():
        if " = " in name and "bound" not in name:
            axes.plot(
                rows["orders"], values, "o-", ms=4, color=next(colors), label=name
            )
    axes.axhline(1, color=INK, ls=":")
    axes.set(
        xlabel="Rényi order",
        ylabel="divergence over its bound",
        ylim=(0, 1.08),
        title="heat kernel",
    )
    axes.legend(
        frameon=False,
        fontsize=7,
        ncols=3,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.17),
    )


def _draw_federated(axes: Axes, rows: dict[str, Any]) -> None:
    """Draw ε′ against the number of rounds, by advanced and by exact composition.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    rows : dict
        The result of `federated`.
    """
    labels = {"advanced": "advanced composition", "exact": "exact, same δ′"}
    for (name, label), color in zip(labels.items(), (RED, BLUE), strict=True):
        axes.plot(rows["rounds"], rows[name], "o-", color=color, label=label)
    axes.set(
        xlabel="rounds of (0.15, 10⁻⁴)",
        ylabel="ε′",
        ylim=(0, None),
        title="federated: accounting",
    )
    axes.legend(frameon=False, fontsize=8)


def _draw_conformal(axes: Axes, rows: dict[str, Any]) -> None:
    """Draw the privacy loss that comes from an estimated metric alone.

    Parameters
    ----------
    axes : Axes
        The panel to draw in.
    rows : dict
        The result of `conformal`.
    """
    labels = {
        "loss over ε": "density estimate",
        "loss over ε, a tenth uniform": "a tenth of it uniform",
    }
    for (name, label), color in zip(labels.items(), (RED, BLUE), strict=True):
        axes.plot(rows["records"], rows[name], "o-", color=color, label=label)
    axes.axhline(1, color=INK, ls=":")
    axes.set(
        xlabel="records",
        ylabel="loss by the metric alone, over ε",
        xscale="log",
        ylim=(0, None),
        title="a metric made from the records",
    )
    axes.legend(frameon=False, fontsize=8)
