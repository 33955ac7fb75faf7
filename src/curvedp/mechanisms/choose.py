"""Which mechanism for a Fréchet mean: the one with the smallest predicted error at the asked guarantee.

The prediction simulates each calibrated mechanism, and the post-processing that follows it, with a fixed public seed on
public populations in the ball. It reads no data, so the choice costs no privacy; the reason goes into the certificate.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import CurvedpError, ParameterError, UnattainableGuarantee
from curvedp.geometry import frechet_mean, project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.laws.spaceform import curvature_of
from curvedp.mechanisms.base import Ball, Mechanism, Release
from curvedp.mechanisms.gaussian import GaussianMechanism
from curvedp.mechanisms.laplace import LaplaceMechanism
from curvedp.mechanisms.log_gaussian import LogGaussianMechanism, LogLaplaceMechanism
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.shrink import james_stein
from curvedp.privacy import Guarantee

__all__ = [
    "CANDIDATES",
    "Choice",
    "MeanMechanism",
    "MeanTask",
    "choose_mechanism",
    "finished",
    "predicted_error",
    "release_from",
]

# Draws for each of three populations, times the dimension: an isotropic noise's length varies by about 1/√dim of itself,
# so that the standard error is about a percent of the predicted error in every dimension.
_DRAWS_TIMES_DIM = 2048
_POPULATION = 16

MeanMechanism = Mechanism | NewtonMechanism


class MeanTask(NamedTuple):
    """What is public about the mean to be released."""

    manifold: Manifold
    ball: Ball
    n: int
    sensitivity: float  # of the computed mean
    chart_sensitivity: float  # of its coordinates at the ball's centre
    guarantee: Guarantee


class Choice(NamedTuple):
    """The mechanism taken, and why, in public terms."""

    mechanism: MeanMechanism
    reason: str


def _chart(kind: type[LogGaussianMechanism] | type[LogLaplaceMechanism], task: MeanTask) -> Mechanism:
    base, radius = task.ball
    return kind.calibrated(
        task.manifold,
        task.sensitivity,
        task.guarantee,
        base=base,
        radius=radius,
        chart_sensitivity=task.chart_sensitivity,
    )


def _newton(longer: int, task: MeanTask) -> NewtonMechanism:
    short = NewtonMechanism.calibrated(task.manifold, *task.ball, task.n, task.guarantee)
    assert short.steps is not None  # set in __post_init__
    return replace(short, steps=longer * short.steps)


CANDIDATES: dict[str, Callable[[MeanTask], MeanMechanism]] = {
    "gaussian": lambda task: GaussianMechanism.calibrated(task.manifold, task.sensitivity, task.guarantee),
    "laplace": lambda task: LaplaceMechanism.calibrated(task.manifold, task.sensitivity, task.guarantee),
    "log-gaussian": partial(_chart, LogGaussianMechanism),
    "log-laplace": partial(_chart, LogLaplaceMechanism),
    "newton": partial(_newton, 1),
    "newton-long": partial(_newton, 2),  # for many records, whose noise is below what a few steps leave
}


def choose_mechanism(name: str, task: MeanTask, *, only_mean: bool = False) -> Choice:
    """The named mechanism, or with "auto" the best by `predicted_error`, calibrated to the guarantee.

    With `only_mean`, among those that need the mean alone and do not read the records between their draws.
    """
    names = [candidate for candidate in CANDIDATES if not (only_mean and candidate.startswith("newton"))]
    _validate.choice("mechanism", name, ("auto", *names))
    if name != "auto":
        return Choice(CANDIDATES[name](task), "asked for by name")
    found: dict[str, tuple[float, MeanMechanism]] = {}
    refused: dict[str, CurvedpError] = {}
    populations = _populations(task.manifold, task.ball)
    for candidate in names:
        if not _applies(candidate, task.manifold):
            continue
        try:
            mechanism = CANDIDATES[candidate](task)
            found[candidate] = (predicted_error(mechanism, task.ball, populations), mechanism)
        except (ParameterError, UnattainableGuarantee) as error:  # decided by public parameters alone
            refused[candidate] = error
    if not found:
        reasons = "; ".join(f"{candidate}: {error}" for candidate, error in refused.items())
        raise UnattainableGuarantee(f"no mechanism meets {task.guarantee} on {task.manifold!r}: {reasons}")
    best = min(found, key=lambda candidate: found[candidate][0])
    ranking = ", ".join(f"{c} {error:.4g}" for c, (error, _) in sorted(found.items(), key=lambda item: item[1][0]))
    left_out = f"; not available for this guarantee here: {', '.join(refused)}" if refused else ""
    return Choice(found[best][1], f"smallest predicted mean error ({ranking}){left_out}")


def _applies(candidate: str, manifold: Manifold) -> bool:
    """Which candidates are worth a prediction here."""
    curvature = curvature_of(manifold)
    if candidate.startswith("newton"):
        return manifold.dim > 1 and curvature not in (None, 0.0)
    # On products and SPD(2) the Riemannian Gaussian's profile is a supremum over splits of the sensitivity, which takes
    # minutes to calibrate; there it is available by name.
    return candidate != "gaussian" or curvature is not None


class _Population(NamedTuple):
    records: np.ndarray
    mean: np.ndarray


def _populations(manifold: Manifold, ball: Ball) -> list[_Population]:
    """Records that fill a ball of half the radius: at the centre, and a quarter and half of the radius away from it."""
    rng = np.random.default_rng(20230615)
    direction, spread = rng.standard_normal(manifold.dim), rng.standard_normal((_POPULATION, manifold.dim))
    direction /= np.linalg.norm(direction)
    length = rng.uniform(size=(_POPULATION, 1)) ** (1 / manifold.dim)
    spread *= ball.radius / 2 * length / np.linalg.norm(spread, axis=1, keepdims=True)
    found = []
    for share in (0.0, 0.25, 0.5):
        tangent = manifold.from_coordinates(ball.center, spread + share * ball.radius * direction)
        records = np.asarray(manifold.exp(ball.center, tangent))
        found.append(_Population(records, np.asarray(frechet_mean(manifold, records))))
    return found


def predicted_error(mechanism: MeanMechanism, ball: Ball, populations: list[_Population] | None = None) -> float:
    """Mean distance from what is released to the mean; its geometric mean over the public populations, as ratios count."""
    manifold, rng = mechanism.manifold, np.random.default_rng(20230615)
    draws = max(16, _DRAWS_TIMES_DIM // manifold.dim)
    errors = []
    for population in populations or _populations(manifold, ball):
        about = population.records if isinstance(mechanism, NewtonMechanism) else population.mean
        released = finished(mechanism, ball, mechanism.simulate(rng, about, draws))
        errors.append(float(np.mean(np.asarray(manifold.dist(population.mean, released)))))
    return float(np.exp(np.mean(np.log(errors))))


def finished(mechanism: MeanMechanism, ball: Ball, points: np.ndarray) -> np.ndarray:
    """What is done to the drawn points before they leave, all of it post-processing: Gaussian noise in the chart at the
    centre is shrunk towards it, and points outside the ball, which is convex and holds the mean, are moved onto it."""
    if isinstance(mechanism, LogGaussianMechanism):
        points = james_stein(mechanism.manifold, ball.center, points, mechanism.sigma)
    return np.asarray(project_to_ball(mechanism.manifold, *ball, points))


def release_from(
    mechanism: MeanMechanism,
    value: np.ndarray,
    ball: Ball,
    source: Source | None,
    guarantee: Guarantee,
    statistic: Mapping[str, Any],
) -> Release:
    """The private mean, drawn and finished; `value` is the mean, or for `NewtonMechanism` the records in the ball."""
    shrinks = isinstance(mechanism, LogGaussianMechanism | NewtonMechanism) and mechanism.manifold.dim >= 3
    after = ["James-Stein shrinkage towards the centre"] * shrinks + ["projection onto the ball"]
    statistic = {**statistic, "post_processing": after}
    release = mechanism.release(value, source=source, guarantee=guarantee, statistic=statistic)
    return Release(finished(mechanism, ball, release.value[None])[0], release.certificate)
