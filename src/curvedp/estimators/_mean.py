"""The private mean of records on a manifold, in two halves: everything that can refuse, then the release.

The first half reads public parameters, shapes and (through the ball) the data, and may raise only because of the
former. Whoever spends a budget does so between the halves, so that nothing is spent on a refusal and nothing is drawn
before it is paid for. Records that are not in memory are in `_streamed.py`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.estimators._streamed import Streamed
from curvedp.geometry import project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.ledger import Ledger
from curvedp.mechanisms.base import Ball, Release, check_guarantee, check_manifold, check_point
from curvedp.mechanisms.choose import Choice, MeanMechanism, MeanTask, choose_mechanism, release_from
from curvedp.mechanisms.log_gaussian import chart_stretch
from curvedp.mechanisms.mean_solver import bounded_mean, solver_error
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.sensitivity import frechet_mean_sensitivity, mean_chart_sensitivity
from curvedp.privacy import GDP, Guarantee

__all__ = ["BallEstimator", "PlannedMean", "charge", "check_records", "plan_mean", "public_ball", "release_mean"]


class BallEstimator(BaseEstimator):
    """The public parameters of every estimator of records in a ball; `PrivateFrechetMean` says what each means."""

    _name: ClassVar[str]  # what the ledger's entry is called unless `label` says otherwise

    def __init__(
        self,
        manifold: Manifold,
        radius: float | None = None,
        center: Any = None,
        guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value, safe as a default
        mechanism: str = "auto",
        ledger: Ledger | None = None,
        label: str | None = None,
        source: Source | None = None,
    ) -> None:
        self.manifold = manifold
        self.radius = radius
        self.center = center
        self.guarantee = guarantee
        self.mechanism = mechanism
        self.ledger = ledger
        self.label = label
        self.source = source

    def _charge(self, *mechanisms: MeanMechanism) -> None:
        """Pay for what is about to be drawn, where there is a ledger to pay from; several serve disjoint groups."""
        if self.ledger is not None:
            charge(self.ledger, self.guarantee, mechanisms, self._label)

    @property
    def _label(self) -> str:
        return self._name if self.label is None else self.label


class PlannedMean(NamedTuple):
    """A mechanism calibrated for the mean of n records in a public ball: everything about the release but the data."""

    ball: Ball
    n: int
    solver_error: float
    choice: Choice
    guarantee: Guarantee

    @property
    def statistic(self) -> dict[str, Any]:
        """What the certificate says of the mean, in public terms."""
        return {
            "name": "Fréchet mean",
            "n": self.n,
            "center": self.ball.center.tolist(),
            "radius": self.ball.radius,
            "bound": "tight",
            "solver_error": self.solver_error,
            "choice": self.choice.reason,
        }

    def release(self, value: np.ndarray, source: Source | None) -> Release:
        """What leaves, about the mean of the records (for `NewtonMechanism`, from the records) in the ball."""
        return release_from(self.choice.mechanism, value, self.ball, source, self.guarantee, self.statistic)


def public_ball(manifold: Any, center: Any, radius: Any) -> Ball:
    """The ball that holds the records; centred at the manifold's origin unless told otherwise."""
    check_manifold(manifold)
    if radius is None:
        raise ParameterError(
            "radius= is missing: a public ball must hold the records; choose it from domain knowledge, not from the data"
        )
    _validate.length("radius", radius)
    return Ball(check_point("center", manifold, manifold.origin if center is None else center), float(radius))


def check_records(manifold: Manifold, X: Any, least: int = 2) -> np.ndarray:
    """Records as a float array of shape (n, *point_shape); only shape and type can be refused."""
    records = _validate.array("X", X)
    if records.ndim != 1 + len(manifold.point_shape) or records.shape[1:] != manifold.point_shape:
        raise ParameterError(f"X has shape {records.shape}; {manifold!r} needs (n, {_listed(manifold.point_shape)})")
    if len(records) < least:
        raise ParameterError(
            f"X has {len(records)} records; at least {least} are needed for a mean that can be private"
        )
    return records


def plan_mean(
    manifold: Manifold, ball: Ball, n: int, guarantee: Guarantee, mechanism: str, streamed: Streamed | None = None
) -> PlannedMean:
    """Sensitivity, solver error and the calibrated mechanism, from public quantities alone."""
    check_guarantee(guarantee)
    tight = frechet_mean_sensitivity(manifold, ball.radius, n)
    error = solver_error(manifold, ball.radius) if streamed is None else streamed.mean_error(manifold, ball)
    sensitivity = tight + 2 * error
    # The chart stretches the solver's error too.
    in_chart = mean_chart_sensitivity(manifold, ball.radius, n) + 2 * error * chart_stretch(manifold, ball.radius)
    task = MeanTask(manifold, ball, n, sensitivity, in_chart, guarantee)
    choice = choose_mechanism(mechanism, task, only_mean=streamed is not None)
    return PlannedMean(ball, n, error, choice, guarantee)


def check_ledger(ledger: Any) -> Ledger:
    """A ledger of ours, or a `ParameterError`."""
    if not isinstance(ledger, Ledger):
        raise ParameterError(
            f"ledger={_validate.shown(ledger)} must be a curvedp.Ledger, such as Ledger(path, GDP(1.0))"
        )
    return ledger


def charge(
    ledger: Ledger, guarantee: Guarantee, mechanism: MeanMechanism | Sequence[MeanMechanism], label: str
) -> None:
    """Spend in the ledger's own definition: the guarantee asked for if it is of that kind; in a GDP ledger otherwise the
    mechanism's own μ, which its exact profile gives (a single (ε, δ) has none); else what converts. The release satisfies
    each of them. Of mechanisms on disjoint groups of records the dearest is paid for (parallel composition)."""
    check_ledger(ledger)
    if isinstance(ledger.budget, GDP) and not isinstance(guarantee, GDP):
        together = mechanism if isinstance(mechanism, Sequence) else (mechanism,)
        guarantee = GDP(max(one.profile.mu for one in together), adjacency=guarantee.adjacency)
    ledger.spend(guarantee, label)


def release_mean(manifold: Manifold, records: np.ndarray, plan: PlannedMean, source: Source | None) -> Release:
    """The noisy mean of the records after mapping them into the ball; it is shrunk and projected onto the ball as well."""
    inside = project_to_ball(manifold, *plan.ball, records)
    by_records = isinstance(plan.choice.mechanism, NewtonMechanism)
    return plan.release(inside if by_records else bounded_mean(manifold, inside, plan.ball), source)


def _listed(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
