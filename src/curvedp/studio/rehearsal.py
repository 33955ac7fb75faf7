"""Predict how accurate a release would be, for the page of the studio.
The table of `curvedp.releasing` says how each statistic is predicted: by
`curvedp.plan`, or by a rehearsal, in which it is released a few times from simulated
records, with noise from a public seed. Of the user's data, a prediction depends on the
number of records only, which is public.
"""

import warnings
from collections.abc import Mapping
from math import sqrt
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
from curvedp.estimators.base import PrivateEstimator
from curvedp.geometry import Manifold
from curvedp.mechanisms.vector import smallest_gaussian_scale
from curvedp.planning import AdviceKind, plan
from curvedp.privacy import GDP, ZCDP, Guarantee, PureDP
from curvedp.randomness import GeneratorSource
from curvedp.release.rebuild import mechanism_of
from curvedp.release.warnings import estimator_warnings
from curvedp.releasing import OFFERS, Offer, PlannedError, Rehearsal
from curvedp.statistics.searched_ball import SearchedMean
from curvedp.studio.wording import error_text

# How often a statistic is released from simulated records.
_REPETITIONS = 4

# The public seed of the simulated records.
_RECORDS_SEED = 20231019

# A study is too small if the error is at least this share of the largest error that
# the public center can have.
_TOO_SMALL_SHARE = 1 / 3

# A plan's advice for Python users is long; the page shows the lines about these.
_ADVICE_ON_PAGE = (
    AdviceKind.TOO_SMALL,
    AdviceKind.SEVERAL_MEANS,
    AdviceKind.RECORDS_OUTSIDE,
    AdviceKind.RARE_ERRORS,
    AdviceKind.WIDE_REGION,
    AdviceKind.ASSUMED_SPREAD,
)

# How classifiers of covariance matrices are predicted.
_CLASSIFIER_STATISTIC = "classifier"
_CLASSIFIER_ERROR: Any = OFFERS[_CLASSIFIER_STATISTIC].prediction

# `warnings.catch_warnings` may be used by one thread at a time.
_WARNINGS_LOCK = Lock()


class Prediction(NamedTuple):
    """What is to be expected of a release, from public numbers alone.

    Attributes
    ----------
    mechanism : str
        The mechanism that would make the release.
    error : float
        The predicted error.
    region : float or None
        About the radius of the 95% confidence region; None if there is none.
    why : str
        Why there is no region.
    ball : float
        What `error` and `region` are compared with.
    of : str
        A description of the error, such as "distance to the median".
    notes : list of str
        Warnings and advice.
    compared : str
        What `ball` is, in words.
    shift : float or None
        Of comparisons: how far apart two populations are whose difference the test
        finds four times of five.
    shift_note : str
        How that shift was simulated.
    """

    mechanism: str
    error: float
    region: float | None
    why: str
    ball: float
    of: str
    notes: list[str]
    compared: str
    shift: float | None = None
    shift_note: str = ""


def predict_release(
    offer: Offer,
    options: Mapping[str, Any],
    guarantee: Guarantee,
    sizes: list[int],
    mechanism: str = "auto",
) -> Prediction:
    """Predict the error of a release.

    Parameters
    ----------
    offer : Offer
        The statistic.
    options : mapping
        Its parsed options by name, the manifold as "manifold", and possibly the public
        "spread" of the records.
    guarantee : Guarantee
        The guarantee for which the release would pay.
    sizes : list of int
        The number of records or people; one number for each class if there are
        classes.
    mechanism : str
        One mechanism by name, which is faster than choosing among all with "auto".

    Returns
    -------
    Prediction
        The predicted error, what to compare it with, and advice.

    Raises
    ------
    ParameterError
        If the table does not say how the error of this statistic is predicted.
    UnattainableGuarantee
        If no mechanism meets the guarantee.
    """
    if offer.prediction == _CLASSIFIER_ERROR:
        return _predict_classifier(offer, options, guarantee, sizes, mechanism)
    if isinstance(offer.prediction, PlannedError):
        smallest_class = min(sizes, default=0)
        return _predict_by_plan(
            offer.prediction, options, guarantee, smallest_class, mechanism
        )
    if not isinstance(offer.prediction, Rehearsal):
        raise ParameterError(
            f"there is no prediction of the error of the {offer.title}, which the "
            "studio shows before a release; `curvedp release` makes it without one"
        )

    # A rehearsal. Simulated records lie around the origin, and are fewer than the real
    # ones if there are very many of these; a weaker guarantee makes up for it.
    options = {**options, "mechanism": mechanism, "center": None}
    n = sizes[0]
    n_simulated = min(n, offer.prediction.max_records)
    repetitions = _REPETITIONS if mechanism == "auto" else 1
    try:
        weaker_guarantee = _weakened_guarantee(guarantee, n / n_simulated)
        return _predict_by_simulation(
            offer, offer.prediction, options, weaker_guarantee, n_simulated, repetitions
        )
    except UnattainableGuarantee:
        # The message must name the guarantee that the user chose.
        return _predict_by_simulation(
            offer, offer.prediction, options, guarantee, n_simulated, 1
        )


def _predict_by_plan(
    planned: PlannedError,
    options: Mapping[str, Any],
    guarantee: Guarantee,
    n: int,
    mechanism: str,
) -> Prediction:
    """Predict the error of a statistic of `n` records, by `curvedp.plan`.

    Parameters
    ----------
    planned : PlannedError
        Which statistic it is, and what its error is.
    options : mapping
        The parsed options of the statistic by name, the manifold as "manifold".
    guarantee : Guarantee
        The guarantee for which the release would pay.
    mechanism : str
        One mechanism by name, or "auto".
    n : int
        The number of records, or of people; with classes, of the smallest class.

    Returns
    -------
    Prediction
        The plan's error and region, with the advice that the page shows.
    """
    statistic = planned.load_statistic(options)
    n_clusters = options.get("n_clusters")
    study = plan(
        options["manifold"],
        n,
        options.get("radius"),
        guarantee,
        center=options.get("center"),
        outer_radius=options.get("outer_radius"),
        mechanism=mechanism,
        statistic=statistic,
        classes=n_clusters if isinstance(n_clusters, int) else 1,
        spread=options.get("spread") if "radius" in options else None,
    )

    # A plan may have no region, and then says why.
    region = None
    why_no_region = ""
    try:
        region = study.region()
    except CurvedpError as error:
        why_no_region = error_text(error)

    # The page compares the error with a length, which it names.
    notes = [
        line.text for line in study.advice_with_kinds() if line.kind in _ADVICE_ON_PAGE
    ]
    if isinstance(study.radius, str):
        compared = f"the spread of the records, taken as {study.spread:.3g}"
    elif statistic == "mean":
        compared = "the radius of the ball"
    elif statistic == "kmeans":
        compared = "the spread of the records of a cluster"
    else:
        compared = "the largest error that the public center can have"
    return Prediction(
        mechanism=study.mechanism,
        error=study.error,
        region=region,
        why=why_no_region,
        ball=study.spread,
        of=planned.error_description,
        notes=notes,
        compared=compared,
    )


def _predict_classifier(
    offer: Offer,
    options: Mapping[str, Any],
    guarantee: Guarantee,
    sizes: list[int],
    mechanism: str,
) -> Prediction:
    """Predict how often a classifier of reduced matrices errs, by `curvedp.plan`.

    Parameters
    ----------
    offer : Offer
        The classifier.
    options : mapping
        The parsed options of the statistic by name, the manifold as "manifold".
    guarantee : Guarantee
        The guarantee for which the release would pay.
    sizes : list of int
        The number of records of each class.
    mechanism : str
        One mechanism by name, or "auto".

    Returns
    -------
    Prediction
        The predicted error rate of the best variant of the classifier, beside the error
        rate of guessing among classes of equal size.
    """
    study = plan(
        options["manifold"],
        sum(sizes),
        guarantee=guarantee,
        mechanism=mechanism,
        statistic=_CLASSIFIER_STATISTIC,
        classes=len(sizes),
    )
    _, class_name = offer.import_names
    # The plan predicts several classifiers, by the Python calls that make them.
    errors_by_call = {
        call: error
        for call, error in study.errors.items()
        if call.startswith(class_name)
    }
    best_call = min(errors_by_call, key=errors_by_call.__getitem__)
    return Prediction(
        mechanism=best_call,
        error=errors_by_call[best_call],
        region=None,
        why="a classifier has no confidence region",
        ball=1 - 1 / len(sizes),
        of=_CLASSIFIER_ERROR.error_description,
        notes=[line.text for line in study.advice_with_kinds()],
        compared="the error rate of guessing",
    )


def _predict_by_simulation(
    offer: Offer,
    rehearsal: Rehearsal,
    options: Mapping[str, Any],
    guarantee: Guarantee,
    n: int,
    repetitions: int,
) -> Prediction:
    """Predict the error of a statistic by releases from `n` simulated records.

    Parameters
    ----------
    offer : Offer
        The statistic.
    rehearsal : Rehearsal
        How its error is measured on simulated records.
    options : mapping
        The parsed options of the statistic by name, the manifold as "manifold".
    guarantee : Guarantee
        The guarantee of each release of the rehearsal.
    n : int
        The number of simulated records.
    repetitions : int
        The number of releases; their errors are averaged.

    Returns
    -------
    Prediction
        The mean error of the releases, with the warnings of all of them.
    """
    manifold = options["manifold"]
    radius = _simulated_radius(options)
    coordinates, points = _simulate_records(
        manifold, radius, n, as_vectors=offer.takes_vectors
    )
    columns = {"records": points}
    if offer.column is not None:
        columns[offer.column.name] = _simulate_predictor(offer, options, n)

    # Release the statistic of these records a few times, with noise from public seeds.
    fitted_estimators = []
    notes = []
    for seed in range(repetitions):
        source = GeneratorSource(np.random.default_rng(seed))
        estimator = offer.build(options, guarantee=guarantee, source=source)
        fitted_estimator, warning_texts = _fit_and_catch_warnings(
            offer, estimator, columns
        )
        fitted_estimators.append(fitted_estimator)
        notes += warning_texts

    errors = [
        rehearsal.error(manifold, fitted_estimator, coordinates)
        for fitted_estimator in fitted_estimators
    ]
    mean_error = float(np.mean(errors))
    baseline = rehearsal.baseline(radius)
    if mean_error >= _TOO_SMALL_SHARE * baseline:
        notes.append("this study is too small: the answer is mostly noise")

    first = fitted_estimators[0]
    region, why_no_region = _region_radius(first)
    certificate = first.releases[0].certificate
    return Prediction(
        mechanism=str(mechanism_of(certificate).info.option),
        error=mean_error,
        region=region,
        why=why_no_region,
        ball=baseline,
        of=rehearsal.error_description,
        notes=list(dict.fromkeys(notes)),  # each once, in their order
        compared="the largest error that the public center can have",
    )


def _simulate_predictor(offer: Offer, options: Mapping[str, Any], n: int) -> np.ndarray:
    """Return a predictor for `n` simulated records, evenly spread over its range.

    A record and its reflection have the same predictor, so that the geodesic through
    the records stays at the origin.

    Parameters
    ----------
    offer : Offer
        The statistic.
    options : mapping
        Its parsed options by name.
    n : int
        The number of simulated records.

    Returns
    -------
    array of shape (n,)
        The range from its lower to its upper end, twice.

    Raises
    ------
    ParameterError
        If the statistic's column has no public range.
    """
    if "x_range" not in options:
        raise ParameterError(
            f"there is no prediction of the error of the {offer.title}: "
            "only a predictor with a public range can be simulated"
        )
    low, high = options["x_range"]
    return np.resize(np.linspace(low, high, n // 2), n)


def _simulated_radius(options: Mapping[str, Any]) -> float:
    """Return the radius of the ball in whose inner half simulated records lie.

    In a private ball it is the radius for which these records have the stated spread,
    or the spread that `plan` assumes. Records that are uniform in a ball of radius r/2
    in d dimensions have a root mean square distance of r/2·√(d/(d + 2)).

    Parameters
    ----------
    options : mapping
        The parsed options by name: "radius", "manifold", and possibly "spread" and
        "outer_radius".

    Returns
    -------
    float
        The public radius, or the one that follows from the spread.
    """
    if options["radius"] != "private":
        return float(_validate.length("radius", options["radius"]))
    manifold = options["manifold"]
    spread = options.get("spread")
    if spread is None:
        outer_radius = options.get("outer_radius")
        spread = SearchedMean(manifold, None, outer_radius, 2).reference_spread
    dim = manifold.dim
    return float(2 * _validate.positive("spread", spread) * sqrt((dim + 2) / dim))


def _fit_and_catch_warnings(
    offer: Offer, estimator: PrivateEstimator, columns: Mapping[str, Any]
) -> tuple[PrivateEstimator, list[str]]:
    """Fit an estimator to simulated records, and collect its warnings as texts.

    The page shows them as notes beside the prediction.

    Parameters
    ----------
    offer : Offer
        The statistic.
    estimator : PrivateEstimator
        The estimator before `fit`.
    columns : mapping
        The simulated records, and the column beside them.

    Returns
    -------
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    warning_texts : list of str
        The warnings of the release, without those about the released value: that one
        is about simulated records and tells the user nothing.
    """
    with _WARNINGS_LOCK, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted_estimator = offer.fit(estimator, columns)
    texts_about_value = [
        warning.text for warning in estimator_warnings(fitted_estimator)
    ]
    warning_texts = [
        str(warning.message)
        for warning in caught
        if issubclass(warning.category, ReleaseWarning)
        and str(warning.message) not in texts_about_value
    ]
    return fitted_estimator, warning_texts


def _region_radius(fitted_estimator: Any) -> tuple[float | None, str]:
    """Return the radius of the 95% region of a fitted estimator, if it has one.

    Parameters
    ----------
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.

    Returns
    -------
    radius, reason : float or None, str
        The radius and an empty text, or None and why there is no region.
    """
    try:
        return float(fitted_estimator.confidence_region(0.95).radius), ""
    except ParameterError as refusal:
        return None, error_text(refusal)


def _simulate_records(
    manifold: Manifold, radius: float, n: int, *, as_vectors: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Draw records that are uniform in a ball of half the radius around the origin.

    Each record comes with its reflection at the origin, so that the median and the
    geodesic of the records are at the origin exactly. Vectors are halved in all
    coordinates but the first, so that they have one principal direction.

    Parameters
    ----------
    manifold : Manifold
        The space of the simulated records.
    radius : float
        The radius of the public ball.
    n : int
        The number of records. If it is odd, one record is the origin.
    as_vectors : bool
        Whether the records are vectors, for principal directions.

    Returns
    -------
    coordinates : array, shape (n, d)
        The records in normal coordinates at the origin.
    points : array, shape (n, *point_shape)
        The records; for vectors the same as the coordinates.
    """
    dim = manifold.dim
    if as_vectors:
        if len(manifold.point_shape) > 1:
            raise ParameterError(
                "principal directions are of vectors: choose euclidean:d for them"
            )
        dim = manifold.point_shape[0]

    rng = np.random.default_rng(_RECORDS_SEED)
    first_half = rng.standard_normal((n // 2, dim))
    # The length of a uniform point in a ball is distributed as U^(1/d).
    lengths = radius / 2 * rng.uniform(size=(n // 2, 1)) ** (1 / dim)
    first_half *= lengths / np.linalg.norm(first_half, axis=1, keepdims=True)
    if as_vectors:
        first_half[:, 1:] /= 2
    coordinates = np.concatenate([first_half, -first_half, np.zeros((n % 2, dim))])
    if as_vectors:
        return coordinates, coordinates
    points = manifold.from_normal_coordinates(manifold.origin, coordinates)
    return coordinates, np.asarray(points)


def _weakened_guarantee(guarantee: Guarantee, factor: float) -> Guarantee:
    """Return the guarantee with which `factor` times fewer records have the same error.

    A rehearsal simulates fewer records than the real release has. The error of a median
    or of a geodesic depends on the product of n and μ only (on n·ε for pure ε, and on
    n²·ρ for zero-concentrated privacy), so that the guarantee is weakened as n falls.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of the real release.
    factor : float
        How many times fewer records are simulated.

    Returns
    -------
    Guarantee
        One with `factor` times the μ or ε, or factor² times the ρ. It is for simulated
        records only.
    """
    if factor == 1:
        return guarantee
    if isinstance(guarantee, PureDP):
        return PureDP(guarantee.eps * factor)
    if isinstance(guarantee, ZCDP):
        return ZCDP(guarantee.rho * factor**2)
    # Gaussian noise of scale s at sensitivity 1 has μ = 1/s.
    return GDP(factor / smallest_gaussian_scale(guarantee))
