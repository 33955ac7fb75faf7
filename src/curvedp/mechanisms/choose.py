"""Which mechanism for a Fréchet mean: the one with the smallest predicted error at the asked guarantee.

The prediction simulates each calibrated mechanism with a fixed public seed at public points of the ball. It reads no
data, so the choice costs no privacy; the reason goes into the certificate.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from curvedp.errors import CurvedpError, ParameterError, UnattainableGuarantee
from curvedp.geometry import project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.laws.spaceform import curvature_of
from curvedp.mechanisms.base import Ball, Mechanism
from curvedp.mechanisms.gaussian import GaussianMechanism
from curvedp.mechanisms.laplace import LaplaceMechanism
from curvedp.mechanisms.log_gaussian import LogGaussianMechanism, LogLaplaceMechanism
from curvedp.privacy import Guarantee

__all__ = ["CANDIDATES", "Choice", "choose_mechanism", "predicted_error"]

# Draws at each of three public points, times the dimension: an isotropic noise's length varies by about 1/√dim of itself,
# so that the standard error is about half a percent of the predicted error in every dimension.
_DRAWS_TIMES_DIM = 8192


class Choice(NamedTuple):
    """The mechanism taken, and why, in public terms."""

    mechanism: Mechanism
    reason: str


Candidate = Callable[[Manifold, float, float, Guarantee, Ball], Mechanism]

CANDIDATES: dict[str, Candidate] = {
    "gaussian": lambda m, sensitivity, chart, g, ball: GaussianMechanism.calibrated(m, sensitivity, g),
    "laplace": lambda m, sensitivity, chart, g, ball: LaplaceMechanism.calibrated(m, sensitivity, g),
    "log-gaussian": lambda m, sensitivity, chart, g, ball: LogGaussianMechanism.calibrated(
        m, sensitivity, g, base=ball.center, radius=ball.radius, chart_sensitivity=chart
    ),
    "log-laplace": lambda m, sensitivity, chart, g, ball: LogLaplaceMechanism.calibrated(
        m, sensitivity, g, base=ball.center, radius=ball.radius, chart_sensitivity=chart
    ),
}


def predicted_error(mechanism: Mechanism, ball: Ball) -> float:
    """Mean distance from a release, projected onto the ball, to the statistic: averaged over statistics at the centre and
    at half and at all of the radius from it."""
    manifold, rng = mechanism.manifold, np.random.default_rng(20230615)
    direction = rng.standard_normal(manifold.dim)
    direction /= np.linalg.norm(direction)
    draws = max(16, _DRAWS_TIMES_DIM // manifold.dim)
    errors = []
    for distance in (0.0, ball.radius / 2, ball.radius):
        tangent = manifold.from_coordinates(ball.center, distance * direction)
        statistic = np.asarray(manifold.exp(ball.center, tangent))
        released = project_to_ball(manifold, *ball, mechanism.simulate(rng, statistic, draws))
        errors.append(float(np.mean(np.asarray(manifold.dist(statistic, released)))))
    return float(np.mean(errors))


def choose_mechanism(
    name: str, manifold: Manifold, sensitivity: float, chart_sensitivity: float, guarantee: Guarantee, ball: Ball
) -> Choice:
    """The named mechanism, or with "auto" the best by `predicted_error`, calibrated to the guarantee."""
    if name != "auto" and name not in CANDIDATES:
        raise ParameterError(f"mechanism={name!r} must be one of {['auto', *CANDIDATES]}")
    if name != "auto":
        return Choice(CANDIDATES[name](manifold, sensitivity, chart_sensitivity, guarantee, ball), "asked for by name")
    found: dict[str, tuple[float, Mechanism]] = {}
    refused: dict[str, CurvedpError] = {}
    for candidate, build in CANDIDATES.items():
        if candidate == "gaussian" and curvature_of(manifold) is None:
            # On products and SPD(2) its profile is a supremum over splits of the sensitivity, which takes minutes to
            # calibrate; there the Riemannian Gaussian is available by name.
            continue
        try:
            mechanism = build(manifold, sensitivity, chart_sensitivity, guarantee, ball)
            found[candidate] = (predicted_error(mechanism, ball), mechanism)
        except (ParameterError, UnattainableGuarantee) as error:  # decided by public parameters alone
            refused[candidate] = error
    if not found:
        reasons = "; ".join(f"{candidate}: {error}" for candidate, error in refused.items())
        raise UnattainableGuarantee(f"no mechanism meets {guarantee} on {manifold!r}: {reasons}")
    best = min(found, key=lambda candidate: found[candidate][0])
    ranking = ", ".join(f"{c} {error:.4g}" for c, (error, _) in sorted(found.items(), key=lambda item: item[1][0]))
    left_out = f"; not available for this guarantee here: {', '.join(refused)}" if refused else ""
    return Choice(found[best][1], f"smallest predicted mean error ({ranking}){left_out}")
