"""Which mechanism: the one with the smallest predicted error at the asked guarantee.

The prediction simulates each calibrated mechanism, and the post-processing that follows it, with a fixed public seed on
public populations in the ball. It reads no data, so the choice costs no privacy; the reason goes into the certificate.
"""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.errors import NotResolved, ParameterError, UnattainableGuarantee
from curvedp.geometry import frechet_mean, parse_manifold
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.base import Mechanism, check_guarantee
from curvedp.mechanisms.statistic import Ball, Statistic
from curvedp.mechanisms.value import ValueMechanism
from curvedp.privacy import Guarantee

# Draws for each of three populations, times the dimension: an isotropic noise's length varies by about 1/√dim of itself,
# so that the standard error is about a percent of the predicted error in every dimension.
_DRAWS_TIMES_DIM = 2048
_POPULATION = 16
_HOPELESS = 1.03  # times the least error: not calibrated on the manifold


class Choice(NamedTuple):
    """The mechanism taken, why, in public terms, and what "auto" predicted of each (nothing where it was asked by name)."""

    mechanism: Mechanism
    reason: str
    errors: dict[str, float]
    refused: dict[str, str]


def _variants(statistic: Statistic, in_memory: bool = True) -> dict[str, Any]:
    """What can be asked for by name for this statistic: (class, how it is made)."""
    kinds = (kind for kind in Mechanism.registry.values() if kind.serves(statistic))
    usable = (kind for kind in kinds if in_memory or kind.reads == "value")
    return {
        name: (kind, make) for kind in usable for name, make in kind.variants().items()
    }


def mechanism_names(statistic: Statistic, *, in_memory: bool = True) -> list[str]:
    """The names that `mechanism=` takes for this statistic, besides "auto"."""
    return list(_variants(statistic, in_memory))


def choose_mechanism(
    name: Any, statistic: Statistic, guarantee: Guarantee, *, in_memory: bool = True
) -> Choice:
    """The named mechanism, or with "auto" the best by predicted error, calibrated to the guarantee; refuses a name that is
    none for this statistic, and a guarantee that it, or none with "auto", can meet.

    Records that are not in memory are not read between draws: only mechanisms that take the value are offered for them.
    """
    check_guarantee(guarantee)
    if not isinstance(name, str) or name != "auto":
        _validate.choice(
            "mechanism",
            name,
            ("auto", *mechanism_names(statistic, in_memory=in_memory)),
        )
        return Choice(
            _named(_Public.of(statistic), name, guarantee), "asked for by name", {}, {}
        )
    found, refused = rank(statistic, guarantee, in_memory=in_memory)
    reasons = "; ".join(f"{candidate}: {why}" for candidate, why in refused.items())
    if not found:
        _ = statistic.sensitivity  # where there is none, that is the reason
        raise UnattainableGuarantee(
            f"no mechanism meets {guarantee} on {statistic.space!r}: {reasons}"
        )
    errors = {candidate: error for candidate, (error, _) in found.items()}
    ranking = ", ".join(
        f"{candidate} {error:.4g}" for candidate, error in errors.items()
    )
    reason = f"smallest predicted error ({ranking})" + (
        f"; not considered: {reasons}" if reasons else ""
    )
    return Choice(next(iter(found.values()))[1], reason, errors, refused)


def rank(
    statistic: Statistic, guarantee: Guarantee, *, in_memory: bool = True
) -> tuple[dict[str, tuple[float, Mechanism]], dict[str, str]]:
    """(predicted error and mechanism of each candidate, best first; why the others are left out), from public numbers.

    Kept for the next data set at the same public parameters.
    """
    found, refused = _ranked(_Public.of(statistic), guarantee, in_memory)
    return dict(found), dict(refused)


@dataclass(frozen=True)
class _Public:
    """A statistic, compared by what it is of and by its dictionary."""

    kinds: tuple[type, type]
    numbers: str
    statistic: Statistic = field(compare=False)

    @classmethod
    def of(cls, statistic: Statistic) -> "_Public":
        return cls(
            (type(statistic), type(statistic.space)),
            json.dumps(statistic.to_dict(), sort_keys=True),
            statistic,
        )


@lru_cache(maxsize=64)
def _named(public: _Public, name: str, guarantee: Guarantee) -> Mechanism:
    return _variants(public.statistic)[name][1](public.statistic, guarantee)  # type: ignore[no-any-return]  # a mechanism


@lru_cache(maxsize=64)
def _ranked(
    public: _Public, guarantee: Guarantee, in_memory: bool
) -> tuple[dict[str, tuple[float, Mechanism]], dict[str, str]]:
    statistic = public.statistic
    found: dict[str, tuple[float, Mechanism]] = {}
    refused: dict[str, str] = {}
    variants = _variants(statistic, in_memory)
    for candidate, (kind, make) in sorted(
        variants.items(), key=lambda item: item[1][0].like is not None
    ):
        if (
            why := kind.left_out(statistic) or _hopeless(kind, statistic, found)
        ) is not None:
            refused[candidate] = why
            continue
        try:
            mechanism = make(statistic, guarantee)
            found[candidate] = (predicted_error(mechanism), mechanism)
        except (
            ParameterError,
            UnattainableGuarantee,
            NotResolved,
        ) as error:  # decided by public parameters alone
            refused[candidate] = str(error).splitlines()[0]
    return dict(sorted(found.items(), key=lambda item: item[1][0])), refused


def _hopeless(
    kind: type[Mechanism],
    statistic: Statistic,
    found: dict[str, tuple[float, Mechanism]],
) -> str | None:
    """Noise of one kind errs by about as much on the manifold as in the chart, for each unit of sensitivity, and there it is
    calibrated in no time."""
    if kind.like not in found:
        return None
    error = found[kind.like][0] * min(
        1.0, statistic.sensitivity / statistic.chart_sensitivity
    )
    least = min(
        error for error, _ in found.values()
    )  # 0 where doubles do not tell the noise from none
    if not error > _HOPELESS * least:
        return None
    return f"it would err about {error / least if least else inf:.3g} times as much as the best"


class _Population(NamedTuple):
    records: np.ndarray
    mean: np.ndarray


def population_of_spread(
    manifold: Manifold, center: Any, spread: float, n: int
) -> _Population:
    """Public records that stand for n real ones around a mean, for predictions.

    Their root mean square distance to their own Fréchet mean is `spread`. In an
    orthonormal basis at a point that is `spread` away from the center, coordinate k is
    a Gamma variable of shape 9, centered and of variance proportional to 1/k: skewed,
    with tails, and long in few directions, as the data sets of
    `benchmarks/predictions.py` are.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    center : point
        The public center, which the records are not at.
    spread : float
        The root mean square distance of the records to their mean.
    n : int
        How many records there are; at most 1024 are made, and fewer in many dimensions.
    """
    size = min(n, max(32, min(1024, 8192 // manifold.dim)))
    key = np.asarray(center, dtype=np.float64).tobytes()
    return _cached_population(manifold.name, key, float(spread), size)


_SHAPE = 9.0  # of the Gamma variables: their skewness is 2/3
_NEAR_ENOUGH = 0.02  # of the spread
_ROUNDS = 3  # of scaling to the spread, which curvature and edges change a little


@lru_cache(maxsize=64)
def _cached_population(
    name: str, center: bytes, spread: float, size: int
) -> _Population:
    manifold = parse_manifold(name)
    rng = np.random.default_rng(20230615)
    away = rng.standard_normal(manifold.dim)
    away *= _typical_offset(manifold, spread) / np.linalg.norm(away)
    public_center = np.frombuffer(center).reshape(manifold.point_shape)
    middle = np.asarray(manifold.from_normal_coordinates(public_center, away))

    variances = 1 / np.arange(1, manifold.dim + 1)
    z = rng.gamma(_SHAPE, size=(size, manifold.dim)) * np.sqrt(variances)
    z -= z.mean(axis=0)
    z *= spread / np.sqrt(np.mean(np.sum(z**2, axis=1)))
    for _ in range(_ROUNDS):
        records = np.asarray(
            manifold.from_normal_coordinates(middle, _within_cut_locus(manifold, z))
        )
        mean = np.asarray(frechet_mean(manifold, records))
        distances = np.asarray(manifold.dist(mean, records))
        factor = spread / np.sqrt(np.mean(distances**2))
        if abs(factor - 1) < _NEAR_ENOUGH:
            break
        z *= factor
    return _Population(records, mean)


def _typical_offset(manifold: Manifold, spread: float) -> float:
    """Return how far a mean is from the public center: the spread, where that is near."""
    offset = spread
    if 0 < manifold.injectivity_radius < inf:
        offset = min(offset, manifold.injectivity_radius / 4)
    curvature = manifold.constant_curvature
    if curvature is not None and curvature < 0:
        offset = min(offset, 1 / sqrt(-curvature))
    return offset


def _within_cut_locus(manifold: Manifold, z: np.ndarray) -> np.ndarray:
    """Return the coordinates, shortened to where geodesics are unique."""
    if not 0 < manifold.injectivity_radius < inf:
        return z
    lengths = np.linalg.norm(z, axis=1, keepdims=True)
    factors = np.minimum(1.0, 0.98 * manifold.injectivity_radius / lengths)
    return np.asarray(z * factors)


def populations(manifold: Manifold, ball: Ball) -> list[_Population]:
    """Public records in a ball, for predictions."""
    return _cached_populations(
        manifold.name,
        np.asarray(ball.center, dtype=np.float64).tobytes(),
        float(ball.radius),
    )


@lru_cache(maxsize=64)
def _cached_populations(name: str, center: bytes, radius: float) -> list[_Population]:
    """Records that fill a ball of half the radius: at the center, and a quarter and half of the radius away from it."""
    manifold, rng = parse_manifold(name), np.random.default_rng(20230615)
    middle = np.frombuffer(center).reshape(manifold.point_shape)
    direction, spread = (
        rng.standard_normal(manifold.dim),
        rng.standard_normal((_POPULATION, manifold.dim)),
    )
    direction /= np.linalg.norm(direction)
    length = rng.uniform(size=(_POPULATION, 1)) ** (1 / manifold.dim)
    spread *= radius / 2 * length / np.linalg.norm(spread, axis=1, keepdims=True)
    found = []
    for share in (0.0, 0.25, 0.5):
        records = np.asarray(
            manifold.from_normal_coordinates(
                middle, spread + share * radius * direction
            )
        )
        found.append(_Population(records, np.asarray(frechet_mean(manifold, records))))
    return found


@lru_cache(maxsize=64)  # a mechanism is itself and no other
@np.errstate(all="ignore")  # simulated noise may leave the floats
def predicted_error(mechanism: Any) -> float:
    """Mean distance from what is released to the value; its geometric mean over the public populations, as ratios count."""
    if (own := mechanism.predicted_error()) is not None:
        return float(own)
    manifold, rng, ball = (
        mechanism.manifold,
        np.random.default_rng(20230615),
        mechanism.statistic.typical,
    )
    if ball is None or not hasattr(mechanism, "simulate"):
        raise ParameterError(
            f"the error of a {mechanism.statistic.name} is not predicted: it has no public ball"
        )
    draws, about = (
        min(max(4, _DRAWS_TIMES_DIM // manifold.dim), mechanism.most_simulated),
        populations(manifold, ball),
    )
    means = np.stack([each.mean for each in about])[:, None]
    if isinstance(mechanism, ValueMechanism):
        drawn = mechanism.simulate(rng, means, (len(about), draws))
    elif mechanism.together:
        drawn = mechanism.simulate(
            rng, np.stack([each.records for each in about]), draws
        )
    else:
        drawn = np.stack(
            [mechanism.simulate(rng, each.records, draws) for each in about]
        )
    released = mechanism.finished(drawn.reshape(-1, *manifold.point_shape)).reshape(
        drawn.shape
    )
    errors = np.mean(np.asarray(manifold.dist(means, released)), axis=1)
    return float(np.exp(np.mean(np.log(errors))))


@lru_cache(maxsize=64)
def useless_error(statistic: Statistic) -> float:
    """The error at which the public center is as good: its own on the same populations, and at most a third of the radius."""
    ball = statistic.typical
    if ball is None:
        raise ParameterError(
            f"the error of a {statistic.name} is not predicted: it has no public ball"
        )
    means = np.stack([each.mean for each in populations(statistic.space, ball)])
    away = np.asarray(statistic.space.dist(ball.center, means))
    with np.errstate(divide="ignore"):  # 0 in a ball that doubles take for a point
        typical = np.exp(np.mean(np.log(away)))
    return float(min(ball.radius / 3, typical))
