"""Private geodesic regression in two halves: a plan from public numbers, which can refuse, then the release, which cannot.

Both releases act on the middle of the geodesic, (p, v) = (γ(½), γ'(½)): predictors in [0, 1] are centred at ½, which makes
p and v nearly independent and halves the lever of v. Moving the released pair to γ(0) is post-processing.
"""

from collections.abc import Callable, Mapping
from math import ceil, inf, nextafter, sqrt, tanh
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp._numerics import up
from curvedp.entropy import Source
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import Euclidean, Lorentz, Sphere, project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.geometry.names import manifold_name
from curvedp.laws import TangentBundleBall
from curvedp.laws.exact import exact_gaussian, exact_laplace
from curvedp.mechanisms.base import GRID, Ball
from curvedp.mechanisms.certificate import Certificate, Claims
from curvedp.mechanisms.kng import check_width, kng_draw, kng_numerics, pure_claims, pure_epsilon
from curvedp.privacy import Guarantee, PureDP, gaussian_profile, smallest_scale
from curvedp.regression.bounds import (
    DEVIATION,
    HALF,
    Domain,
    endpoint_clips,
    endpoint_norm,
    endpoint_sensitivity,
    joint_sensitivity,
    lipschitz_constants,
    spread,
)
from curvedp.regression.gradient import clipped_direction, clipped_gradient
from curvedp.regression.jacobi import check_symmetric

__all__ = [
    "METHODS",
    "KNormProblem",
    "Plan",
    "k_norm_problem",
    "plan_regression",
    "public_domain",
    "release_regression",
]

METHODS = ("auto", "kng", "dp-rgd")
_MARGIN = 0.95  # of the injectivity radius: predictions and records stay clear of each other's cut locus
_WIDE = 1.5  # radii of curvature: beyond, volume grows exponentially
_MOST_BUNDLE_DIMENSIONS = 4
_FARTHEST = 100.0  # radii of curvature: distances grow like logarithms of coordinates there
_WIDEST_BUNDLE = 5.0  # radii of curvature: beyond, the cells of a draw are too many, and most of the volume is far away


class Plan(NamedTuple):
    """Everything about a release but the data."""

    method: str
    domain: Domain
    guarantee: Guarantee
    sensitivity: float
    scale: float  # of the K-norm law, or of one step's noise: Laplace for pure ε, else a standard deviation
    steps: int  # of the descent; the last two thirds are averaged
    reason: str


def public_domain(manifold: Manifold, radius: float, speed: float, clip: float, n: int, predictors: int = 1) -> Domain:
    """Where the middle of the geodesic may be, and the ball that holds the responses, all inside the cut locus.

    With one predictor the middle is allowed within radius + speed/2, where the space has room for it, so that every
    geodesic that starts in the ball is in the domain as well as every one whose middle is. Sensitivities do not depend on
    the radius; in negative curvature volume does, so the ball grows only while it is small against the curvature.
    """
    check_symmetric(manifold)
    arm = predictors * speed * HALF  # from the middle to the farthest prediction
    room = _MARGIN * manifold.injectivity_radius - arm
    if not room >= 2 * radius:
        arms = "speed/2" if predictors == 1 else f"{predictors}·speed/2"
        raise ParameterError(
            f"radius={radius!r} and speed={speed!r} are too large on {manifold!r}: 2·radius + {arms} must be at most "
            f"{_MARGIN * manifold.injectivity_radius:.6g}, or residuals would cross the cut locus"
        )
    low = manifold.curvature_bounds[0]
    if not sqrt(max(0.0, -low)) * (radius + arm + clip) <= _FARTHEST:
        raise ParameterError(
            f"radius={radius!r}, speed={speed!r} and clip={clip!r} reach too far on {manifold!r}: their sum must be at most "
            f"{_FARTHEST / sqrt(-low):g}"
        )
    wide = _WIDE / sqrt(-low) if low < 0 else inf
    middle = min(max(radius, min(radius + arm, wide)), room / 2) if predictors == 1 else radius
    return Domain(middle, speed, clip, n, min(middle + arm + clip, room - middle), predictors)


def plan_regression(manifold: Manifold, center: np.ndarray, domain: Domain, guarantee: Guarantee, method: str) -> Plan:
    """The named method, or with "auto" the one of smaller predicted error, calibrated to the guarantee."""
    _validate.choice("method", method, tuple(METHODS))
    if method == "kng":
        return _plan_kng(manifold, center, domain, guarantee, "asked for by name")
    if method == "dp-rgd":
        return _plan_descent(manifold, domain, guarantee, "asked for by name")
    found: list[tuple[float, str, Plan]] = []
    refused: list[str] = []
    for name in ("kng", "dp-rgd"):
        try:
            if name == "kng":
                plan = _plan_kng(manifold, center, domain, guarantee, "")
            else:
                plan = _plan_descent(manifold, domain, guarantee, "")
            found.append((_predicted(manifold, plan), name, plan))
        except (ParameterError, UnattainableGuarantee) as error:  # decided by public numbers alone
            refused.append(f"{name}: {error}")
    if not found:
        raise UnattainableGuarantee(f"no method meets {guarantee} on {manifold!r}: {'; '.join(refused)}")
    ranking = ", ".join(f"{name} {error:.4g}" for error, name, _ in sorted(found))
    return min(found)[2]._replace(reason=f"smallest predicted noise on the gradient ({ranking})")


def release_regression(
    manifold: Manifold, ball: Ball, x: np.ndarray, Y: np.ndarray, plan: Plan, public: Mapping[str, Any], source: Source
) -> tuple[np.ndarray, np.ndarray, Certificate]:
    """The private p and velocities V, one for each column of x, at the middle of the predictors' ranges, and the certificate.

    x is centred, shape (n, predictors), and Y in its ball.
    """
    if plan.method == "kng":
        p, V = _draw(manifold, ball, x[:, 0], Y, plan, source)
        claims, numerics = pure_claims(pure_epsilon(plan.guarantee)), kng_numerics()
        mechanism = "k-norm-gradient-regression"
        more: dict[str, Any] = {"scale": plan.scale, "norm": "endpoint", "unit": DEVIATION}
    else:
        p, V, tau = _descend(manifold, ball, x, Y, plan, source)
        numerics = {"path": "exact-then-round, every step", "grid": GRID, "tau": tau}
        mechanism = "tangent-bundle-descent"
        more = {"steps": plan.steps, "norm": "euclidean", "unit": DEVIATION}
        if isinstance(plan.guarantee, PureDP):
            claims, more["scale"] = pure_claims(plan.guarantee.eps, tau), plan.scale
        else:
            claims = Claims.of(gaussian_profile(0.0, 1, plan.scale, sqrt(plan.steps) * plan.sensitivity), tau)
            more["sigma"] = plan.scale
    p, V = _into_domain(manifold, ball, plan.domain, p, V)
    certificate = Certificate(
        mechanism=mechanism,
        manifold=manifold_name(manifold),
        parameters={**plan.domain._asdict(), "center": ball.center.tolist(), **more},
        sensitivity=plan.sensitivity,
        claims=claims,
        guarantee=plan.guarantee,
        numerics=numerics,
        entropy={"source": source.name, "cryptographic": source.is_cryptographic},
        statistic={"name": "geodesic regression", "n": plan.domain.n, "choice": plan.reason, **public},
    )
    return p, V, certificate


def _plan_kng(manifold: Manifold, center: np.ndarray, domain: Domain, guarantee: Guarantee, reason: str) -> Plan:
    if domain.predictors > 1:
        raise UnattainableGuarantee(
            f"exact K-norm sampling takes one predictor, not {domain.predictors}; use method='dp-rgd'"
        )
    if 2 * manifold.dim > _MOST_BUNDLE_DIMENSIONS:
        raise UnattainableGuarantee(
            f"exact K-norm sampling on the tangent bundle of {manifold!r} needs dimension {2 * manifold.dim}, at most "
            f"{_MOST_BUNDLE_DIMENSIONS} is possible; use method='dp-rgd'"
        )
    low = manifold.curvature_bounds[0]
    if sqrt(max(0.0, -low)) * (domain.radius + domain.speed * HALF) > _WIDEST_BUNDLE:
        raise UnattainableGuarantee(
            f"radius={domain.radius:g} and speed={domain.speed:g} are too large for exact K-norm sampling in curvature "
            f"{low:g}, where volume grows exponentially: radius + speed/2 must be at most {_WIDEST_BUNDLE / sqrt(-low):g}; "
            "use a smaller domain, or method='dp-rgd'"
        )
    bundle = TangentBundleBall(manifold, center, domain.radius, domain.speed)  # refuses what it cannot hold
    sensitivity = _rounded(endpoint_sensitivity(manifold, domain), domain.n)
    scale = nextafter(2 * sensitivity / pure_epsilon(guarantee), inf)
    check_width(bundle, scale)
    return Plan("kng", domain, guarantee, sensitivity, scale, 1, reason)


def _plan_descent(manifold: Manifold, domain: Domain, guarantee: Guarantee, reason: str) -> Plan:
    k = domain.predictors
    warm = ceil(1.5 * (domain.radius + k * domain.speed * HALF) / (_rate(manifold, domain) * domain.clip)) + 6 * k
    warm = min(warm, 1000)
    sensitivity = _rounded(joint_sensitivity(domain), domain.n)
    if isinstance(guarantee, PureDP):
        # The ε of T Laplace steps add up: averaging more of them would cost more than it gives.
        scale = up(warm * sensitivity / guarantee.eps, 1e-15)
        return Plan("dp-rgd", domain, guarantee, sensitivity, scale, warm, reason)
    steps = 3 * warm
    moved = sqrt(steps) * sensitivity  # T Gaussian steps are one of √T times the sensitivity (Dong, Roth & Su 2022)
    sigma = smallest_scale(lambda scale: gaussian_profile(0.0, 1, scale, moved), guarantee, moved)
    return Plan("dp-rgd", domain, guarantee, sensitivity, nextafter(sigma * (1 + 1e-14), inf), steps, reason)


def _predicted(manifold: Manifold, plan: Plan) -> float:
    """Root mean square noise on (∇_p, ∇_v/unit), in D dimensions; steps are averaged.

    E r² = D(D+1)s² for the K-norm law and for Laplace noise, Dσ² for a Gaussian.
    """
    size = (1 + plan.domain.predictors) * manifold.dim
    heavy = plan.method == "kng" or isinstance(plan.guarantee, PureDP)
    averaged = 1.0 if plan.method == "kng" else plan.steps * 2 / 3
    return sqrt(size * (size + 1 if heavy else 1) / averaged) * plan.scale


def _rounded(sensitivity: float, n: int) -> float:
    """Enlarged by round-off: 1e-9 for one record's share, and n units in the last place for each of the two sums."""
    return nextafter(sensitivity * (1 + 1e-9 + n * (n + 100) * 2.0**-52), inf)


def _rate(manifold: Manifold, domain: Domain) -> float:
    """One over a bound of the curvature of E: 1 where curvature is ≥ 0."""
    c, _ = spread(manifold, domain.predictors * domain.speed * HALF)
    s = sqrt(max(0.0, -manifold.curvature_bounds[0])) * domain.clip
    return 1 / (c * c * (s / tanh(s) if s > 1e-6 else 1.0))


class KNormProblem(NamedTuple):
    """What one K-norm draw is made of: exp(−norm/scale) on the bundle, norm Lipschitz with these constants."""

    bundle: TangentBundleBall
    scale: float
    norm: Callable[[np.ndarray, np.ndarray], np.ndarray]
    constants: tuple[float, float]
    unit: float  # √|κ|


def k_norm_problem(manifold: Manifold, ball: Ball, x: np.ndarray, Y: np.ndarray, plan: Plan) -> KNormProblem:
    """In the model of the same curvature: a ball of a space of constant curvature κ is, with lengths times √|κ|, a ball of
    the unit sphere, the hyperboloid or ℝ^d about its origin, and gradients scale like lengths."""
    M, c, curvature = manifold, ball.center, manifold.constant_curvature
    assert curvature is not None  # the plan's sensitivity has it
    unit = sqrt(abs(curvature)) if curvature else 1.0
    model = (Sphere if curvature > 0 else Lorentz if curvature < 0 else Euclidean)(M.dim)
    o = model.origin
    mapped = model.exp(o, model.from_coordinates(o, unit * np.asarray(M.to_coordinates(c, M.log(c, Y)))))
    d = plan.domain
    scaled = Domain(d.radius * unit, d.speed * unit, d.clip * unit, d.n, d.data_radius * unit)
    gradient = clipped_gradient(model, x, np.asarray(mapped), endpoint_clips(scaled.clip, x), scaled.data_radius)

    def norm(p: np.ndarray, v: np.ndarray) -> np.ndarray:
        return endpoint_norm(*gradient(p, v))

    constants = lipschitz_constants(model, scaled, x, np.asarray(model.dist(o, mapped)))
    bundle = TangentBundleBall(model, o, scaled.radius, scaled.speed)
    return KNormProblem(bundle, plan.scale * unit, norm, constants, unit)


def _draw(
    manifold: Manifold, ball: Ball, x: np.ndarray, Y: np.ndarray, plan: Plan, source: Source
) -> tuple[np.ndarray, np.ndarray]:
    """One K-norm draw in the model, carried back to the manifold."""
    M, c, (bundle, scale, norm, constants, unit) = manifold, ball.center, k_norm_problem(manifold, ball, x, Y, plan)
    p, v = kng_draw(bundle, scale, norm, constants, source)
    model, o = bundle.manifold, bundle.manifold.origin
    z, w = (np.asarray(model.to_coordinates(o, u)) / unit for u in (model.log(o, p), model.transport(p, o, v)))
    foot = np.asarray(M.exp(c, M.from_coordinates(c, z)))
    return foot, np.asarray(M.transport(c, foot, M.from_coordinates(c, w)))[None]


def _descend(
    manifold: Manifold, ball: Ball, x: np.ndarray, Y: np.ndarray, plan: Plan, source: Source
) -> tuple[np.ndarray, np.ndarray, float]:
    """DP-RGD on the tangent bundle: T exact noisy releases of `clipped_direction`, the last 2T/3 iterates averaged.

    In (p, v·unit), the unit a spread-out predictor's standard deviation, the energy's curvature is about the same in all
    coordinates, so noise of one size serves them all; v steps half as far, lest the two overshoot together, and several
    predictors share that.
    """
    M, domain, rate = manifold, plan.domain, _rate(manifold, plan.domain)
    t, shape = x / DEVIATION, (1 + domain.predictors, manifold.dim)
    p, V = ball.center, np.zeros((domain.predictors, *M.point_shape))
    tau, path = 0.0, []
    release = exact_laplace if isinstance(plan.guarantee, PureDP) else exact_gaussian
    for step in range(plan.steps):
        value = clipped_direction(M, t, DEVIATION, Y, domain.clip, p, V)
        draw = release(Euclidean(value.size), plan.scale, value.ravel(), source=source, grid=GRID)
        noisy, tau = np.asarray(draw.value).reshape(shape), tau + draw.tau
        V = V + np.asarray(M.from_coordinates(p, rate / (2 * domain.predictors) * noisy[1:] / DEVIATION))
        length = rate * float(
            np.linalg.norm(noisy[0])
        )  # no point of the domain is farther than 2R, and exp may overflow
        move = rate * noisy[0] * min(1.0, 2 * domain.radius / length if length > 0 else 1.0)
        q = np.asarray(M.exp(p, M.from_coordinates(p, move)))
        p, V = _into_domain(M, ball, domain, q, np.asarray(M.transport(p, q, V)))
        if step >= plan.steps // 3:
            path.append((p, V))
    points, velocities = (np.stack(part) for part in zip(*path, strict=True))
    middle = np.asarray(M.exp(p, np.mean(np.asarray(M.log(p, points)), axis=0)))
    carried = np.asarray(M.transport(points[:, None], middle, velocities))
    return middle, np.mean(carried, axis=0), tau


def _into_domain(
    M: Manifold, ball: Ball, domain: Domain, p: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A released pair put back into the public domain, V stacked by predictor: post-processing."""
    inside = np.asarray(project_to_ball(M, ball.center, domain.radius, p[None])[0])
    V = np.asarray(M.transport(p, inside, V)) if np.any(inside != p) else V
    length = np.asarray(M.norm(inside, V))
    share = np.minimum(1.0, domain.speed / np.where(length > 0, length, 1.0))
    return inside, V * share.reshape(-1, *[1] * len(M.point_shape))
