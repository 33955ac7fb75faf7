"""How good a release would be: it is made a few times of made-up records, with noise from a public seed.

Only the number of records is the user's. A mean is predicted by `curvedp.plan`. Of what has no prediction so many records are
made up, or a few hundred where each costs time, with a guarantee that is as much weaker: the noise of a median or a geodesic
depends on the number of records times μ alone.
"""

import warnings
from collections.abc import Mapping
from math import pi, sqrt
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.errors import (
    CurvedpError,
    ParameterError,
    ReleaseWarning,
    UnattainableGuarantee,
)
from curvedp.estimators import PrivateDispersion, PrivatePCA
from curvedp.geometry import Manifold
from curvedp.mechanisms.vector import smallest_gaussian_scale
from curvedp.planning import plan
from curvedp.privacy import GDP, ZCDP, Guarantee, PureDP
from curvedp.randomness import GeneratorSource
from curvedp.release.rebuild import mechanism_of
from curvedp.release.warnings import estimator_warnings
from curvedp.releasing import Offer
from curvedp.statistics.searched_ball import SearchedMean
from curvedp.studio.wording import describe

_RUNS = 4
_MOST = {
    "median": 300,
    "geodesic": 100,
    "dispersion": 20_000,
    "principal directions": 20_000,
}  # records made up
_LOCK = Lock()  # `warnings.catch_warnings` is for one thread at a time


class Rehearsed(NamedTuple):
    """What is to be expected, from public numbers alone."""

    mechanism: str
    error: float
    region: (
        float | None
    )  # about the radius of the 95% region; None where there is none, and `why`
    why: str
    ball: float  # what both are compared with
    of: str  # what they are distances of
    notes: list[str]
    compared: str = "the error of knowing nothing"  # what `ball` is, in words


def rehearsed(
    offer: Offer,
    options: Mapping[str, Any],
    guarantee: Guarantee,
    sizes: list[int],
    mechanism: str = "auto",
) -> Rehearsed:
    """The statistic of so many records, in each class where there are classes; with one mechanism by name it is sooner."""
    if offer.title not in _MOST:
        return _mean(options, guarantee, min(sizes, default=0), mechanism)
    options = {
        **options,
        "mechanism": mechanism,
        "center": None,
    }  # made-up records lie about the origin
    few = min(sizes[0], _MOST[offer.title])
    try:
        return _made_up(
            offer,
            options,
            _weakened(guarantee, sizes[0] / few),
            few,
            _RUNS if mechanism == "auto" else 1,
        )
    except UnattainableGuarantee:
        return _made_up(
            offer, options, guarantee, few, 1
        )  # which says it of the guarantee that was asked for


def _mean(
    options: Mapping[str, Any], guarantee: Guarantee, n: int, mechanism: str
) -> Rehearsed:
    where = {"center": options["center"], "outer_radius": options["outer_radius"]}
    found = plan(
        options["manifold"],
        n,
        options["radius"],
        guarantee,
        **where,
        mechanism=mechanism,
        spread=options.get("spread"),
    )
    try:
        region, why = found.region(), ""
    except CurvedpError as error:
        region, why = None, describe(error)
    words = ("too small", "only one mean", "taken as")
    notes = [line for line in found.advice() if any(word in line for word in words)]
    compared = "the error of knowing nothing"
    if isinstance(found.radius, str):
        compared = f"the spread of the records, taken as {found.spread:.3g}"
    return Rehearsed(
        found.mechanism,
        found.error,
        region,
        why,
        found.spread,
        "distance to the mean",
        notes,
        compared,
    )


def _made_up(
    offer: Offer, options: Mapping[str, Any], guarantee: Guarantee, n: int, runs: int
) -> Rehearsed:
    M = options["manifold"]
    if options["radius"] == "private":
        # Records that fill a ball of half this radius are as spread out as `plan` takes
        # them, or as was stated.
        spread = options.get("spread")
        if spread is None:
            spread = SearchedMean(M, None, options["outer_radius"], 2).reference_spread
        radius = 2 * _validate.positive("spread", spread) * sqrt((M.dim + 2) / M.dim)
    else:
        radius = _validate.length("radius", options["radius"])
    rows, points = _records(M, radius, n, vectors="n_components" in offer.parameters)
    columns = {"records": points}
    if offer.column == "x":
        low, high = offer.select_options(options)["x_range"]
        columns["x"] = np.resize(np.linspace(low, high, n // 2), n)
    made, notes = [], []
    for seed in range(runs):
        model = offer.build(
            options,
            guarantee=guarantee,
            source=GeneratorSource(np.random.default_rng(seed)),
        )
        with _LOCK, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            made.append(offer.fit(model, columns))
        odd = [
            warning.text for warning in estimator_warnings(made[-1])
        ]  # of made-up records
        texts = [
            str(each.message)
            for each in told
            if issubclass(each.category, ReleaseWarning)
        ]
        notes += [text for text in texts if text not in odd]
    error = float(np.mean([_missed(M, fitted, rows) for fitted in made]))
    ball, of = _WHAT[offer.title](radius)
    if error >= ball / 3:
        notes.append("this study is too small: the answer is mostly noise")
    try:
        region, why = float(made[0].confidence_region(0.95).radius), ""
    except ParameterError as refusal:
        region, why = None, describe(refusal)
    option = str(mechanism_of(made[0].certificate_).info.option)
    return Rehearsed(option, error, region, why, ball, of, list(dict.fromkeys(notes)))


_ANGLE = "angle to the directions in radians, where one is twice as long as others"
_WHAT: dict[str, Any] = {
    "median": lambda radius: (radius, "distance to the median"),
    "geodesic": lambda radius: (radius, "distance to the start of the geodesic"),
    "dispersion": lambda radius: (radius**2, "of the variance, a squared distance"),
    "principal directions": lambda _: (pi / 2, _ANGLE),
}


def _records(
    M: Manifold, radius: float, n: int, *, vectors: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates and points that fill half the ball, each with its reflection: median and geodesic are at the center."""
    if vectors and len(M.point_shape) > 1:
        raise ParameterError(
            "principal directions are of vectors: choose euclidean:d for them"
        )
    rng, dim = np.random.default_rng(20231019), M.point_shape[0] if vectors else M.dim
    z = rng.standard_normal((n // 2, dim))
    z *= (
        radius
        / 2
        * rng.uniform(size=(n // 2, 1)) ** (1 / dim)
        / np.linalg.norm(z, axis=1, keepdims=True)
    )
    if vectors:
        z[:, 1:] /= 2
    z = np.concatenate([z, -z, np.zeros((n % 2, dim))])
    return z, z if vectors else np.asarray(M.from_normal_coordinates(M.origin, z))


def _missed(M: Manifold, fitted: Any, rows: np.ndarray) -> float:
    """Return how far a release is from the truth about made-up records."""
    released = np.asarray(fitted.releases[0].value)
    if isinstance(fitted, PrivateDispersion):
        return abs(float(released[0]) - float(np.mean(np.sum(rows**2, axis=1))))
    if isinstance(fitted, PrivatePCA):
        truth = np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, : len(released)]
        least_cosine = np.linalg.svd(released @ truth, compute_uv=False)[-1]
        return float(np.arccos(min(1.0, least_cosine)))
    return float(M.dist(M.origin, released))


def _weakened(guarantee: Guarantee, times: float) -> Guarantee:
    """For so many times fewer records: the same noise."""
    if times == 1:
        return guarantee
    if isinstance(guarantee, PureDP):
        return PureDP(guarantee.eps * times)
    if isinstance(guarantee, ZCDP):
        return ZCDP(guarantee.rho * times**2)
    return GDP(times / smallest_gaussian_scale(guarantee))
