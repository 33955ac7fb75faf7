"""Turn the predictions of a `Plan` into sentences for people: which mechanism to take,
what to beware of, and what would make a study that is too small accurate enough. Every
sentence has an `AdviceKind`, so that programs can show only some of them.
"""

from dataclasses import replace
from enum import StrEnum
from math import ceil, degrees, isfinite, sqrt
from typing import TYPE_CHECKING, NamedTuple

from curvedp.geometry.spaces.spd_common import SPD
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.vector import smallest_noise, std_per_scale
from curvedp.planning.simulation import MAX_SIMULATED_RECORDS

if TYPE_CHECKING:
    from curvedp.planning.result import Plan

__all__ = ["KIT_RADIUS", "Advice", "AdviceKind", "advice_on"]

# A classifier is called good if it misclassifies at most this share of new records.
_GOOD_MISCLASSIFIED_SHARE = 0.2
# A starter kit is compared with exact class centers in a public ball of this radius.
# Class means of most people are longer, so that the direction of each counts.
KIT_RADIUS = 0.5
# Advice on a classifier that is not good tries these multiples of the records.
_RECORD_MULTIPLES = (2, 4, 8, 16)

# Rare large errors make up most of a root mean square error that is at least this many
# times the median. For normal errors the ratio is 1.5 in one dimension, and less in more.
_RARE_ERRORS_RATIO = 2.0

# If a search leaves more than this share of the records outside its ball, the error
# depends on where these lie, and cannot be predicted from the spread.
_MANY_OUTSIDE = 0.25

# A region of at least this part of the radius of its ball says next to nothing.
_WIDE_REGION_SHARE = 0.5


class AdviceKind(StrEnum):
    """The subjects of a plan's advice.

    Attributes
    ----------
    value : str
        The subject in words.

    Examples
    --------
    >>> AdviceKind.TOO_SMALL.value
    'too small'
    """

    MECHANISM = "mechanism"
    ERROR_SHARE = "error share"
    ASSUMED_SPREAD = "assumed spread"
    SAMPLING_ERROR = "sampling error"
    TOO_SMALL = "too small"
    SEVERAL_MEANS = "several means"
    RARE_ERRORS = "rare errors"
    RECORDS_OUTSIDE = "records outside"
    WIDE_REGION = "wide region"
    REMEDY = "remedy"


class Advice(NamedTuple):
    """One line of a plan's advice.

    Attributes
    ----------
    kind : AdviceKind
        The subject of the line, for programs that show only some lines.
    text : str
        The sentence that people read.

    Examples
    --------
    >>> Advice(AdviceKind.REMEDY, "about 600 records would do").kind.value
    'remedy'
    """

    kind: AdviceKind
    text: str


def advice_on(plan: "Plan") -> list[Advice]:
    """Return the advice that follows from the predictions of a plan.

    The best mechanism comes first, then warnings and remedies.

    Parameters
    ----------
    plan : Plan
        The plan.
    """
    if plan.statistic == "classifier":
        return _classifier_advice(plan)
    if plan.statistic == "starter-kit":
        return _starter_kit_advice(plan)
    if plan.statistic == "kmeans":
        return _clusters_advice(plan)

    lines = _mechanism_advice(plan)
    if plan.has_private_ball:
        lines += _private_ball_advice(plan)
    else:
        lines.append(_public_ball_advice(plan))
    if plan.too_small and plan.statistic == "mean":
        lines += _remedies(plan)
    return lines + _region_advice(plan)


def _mechanism_advice(plan: "Plan") -> list[Advice]:
    """Return the advice to take the best mechanism, and which ones to avoid.

    Parameters
    ----------
    plan : Plan
        The plan of a statistic that "auto" chooses a mechanism for.
    """
    take_best = f"take {plan.mechanism}, as 'auto' does: error {plan.error:.3g}"
    lines = [Advice(AdviceKind.MECHANISM, take_best)]
    if plan.dominated:
        text = f"dominated: {', '.join(plan.dominated)}"
        lines.append(Advice(AdviceKind.MECHANISM, text))
    return lines


def _public_ball_advice(plan: "Plan") -> Advice:
    """Compare the error of a release in a public ball with the ball's radius.

    Parameters
    ----------
    plan : Plan
        The plan of a release in a public ball.
    """
    error_clause = _error_relative_to("radius", plan)
    if not plan.too_small:
        return Advice(AdviceKind.ERROR_SHARE, error_clause)
    alternative = "the public center alone would be as accurate"
    if plan.statistic == "tangent-pca":
        alternative = "a guessed direction is nearly as good"
    if plan.statistic == "synthetic":
        alternative = "one point at the center is nearly as good"
    text = f"this study is too small: {alternative} ({error_clause})"
    return Advice(AdviceKind.TOO_SMALL, text)


def _error_relative_to(length_name: str, plan: "Plan") -> str:
    """Return a clause such as "the error is 0.2 of the radius".

    The predicted error is compared with the plan's `spread`. A dispersion is a variance,
    so its error is compared with the square. The error of a principal direction is an
    angle, which is not compared with anything.

    Parameters
    ----------
    length_name : str
        What `spread` is called in the clause: "radius" or "spread of the records".
    plan : Plan
        The plan whose error is described.
    """
    if plan.statistic == "tangent-pca":
        return (
            f"the first direction is off by {degrees(plan.error):.2g}°, where "
            "variances fall as 1, 1/2, 1/3"
        )
    if plan.statistic == "synthetic":
        distance_of_one_point = 2 * plan.useless_error
        return (
            f"the energy distance to the real records is {plan.error:.2g}, where "
            f"that of one point in their middle is {distance_of_one_point:.2g}"
        )
    if plan.statistic == "dispersion":
        share = plan.error / plan.spread**2
        return f"the error is {share:.2g} of the square of the {length_name}"
    return f"the error is {plan.error / plan.spread:.2g} of the {length_name}"


def _private_ball_advice(plan: "Plan") -> list[Advice]:
    """Return the advice on a release whose ball is searched for privately.

    Parameters
    ----------
    plan : Plan
        A plan with `radius="private"`.

    Returns
    -------
    list of Advice
        The error as a share of the spread first, then warnings.
    """
    error_clause = _error_relative_to("spread of the records", plan)
    spread_name = "the root mean square distance to their mean"
    if plan.statistic in ("tangent-pca", "synthetic"):
        spread_name = "with a root mean square distance to the mean"
    assumed_spread = (
        f"{error_clause}, {spread_name}, taken as {plan.spread:.3g}: "
        "state yours (spread)"
    )
    lines = [Advice(AdviceKind.ASSUMED_SPREAD, assumed_spread)]
    if plan.statistic == "mean":
        class_size = plan.n // plan.classes
        sampling_error = plan.spread / sqrt(class_size)
        ratio = plan.error / sampling_error
        text = f"the error is {ratio:.2g} times the sampling error of the mean"
        lines.append(Advice(AdviceKind.SAMPLING_ERROR, text))
    if plan.too_small:
        text = f"this study is too small: {error_clause}"
        lines.append(Advice(AdviceKind.TOO_SMALL, text))
    return lines + _private_ball_warnings(plan)


def _private_ball_warnings(plan: "Plan") -> list[Advice]:
    """Warn where the error in a private ball may be much larger than predicted.

    Parameters
    ----------
    plan : Plan
        A plan with `radius="private"`.
    """
    lines = []
    if _may_have_several_means(plan):
        text = (
            "records of this spread need a ball of radius up to "
            f"{plan.wide_radius:.3g}, and have only one mean for sure below "
            f"{plan.manifold.convexity_radius:.3g}: the error may be "
            "many times as large; PrivateFrechetMedian is steadier"
        )
        lines.append(Advice(AdviceKind.SEVERAL_MEANS, text))
    if plan.clipped_share is not None and plan.clipped_share > _MANY_OUTSIDE:
        text = (
            f"the search leaves about {plan.clipped_share:.0%} of so few records "
            "outside the ball: where these lie decides about the error, which may "
            "be twice the prediction"
        )
        lines.append(Advice(AdviceKind.RECORDS_OUTSIDE, text))
    if _has_rare_errors(plan):
        text = (
            "rare large errors make up most of the predicted error: half of the "
            f"releases err by less than {plan.median_error:.2g}, and the next one "
            "may err by several times the prediction"
        )
        lines.append(Advice(AdviceKind.RARE_ERRORS, text))
    return lines


def _may_have_several_means(plan: "Plan") -> bool:
    """Return whether the ball may be too large for records to have only one mean.

    Parameters
    ----------
    plan : Plan
        A plan with `radius="private"`.
    """
    largest_curvature = plan.manifold.curvature_bounds[1]
    if not isfinite(largest_curvature) or plan.wide_radius is None:
        return False
    return plan.wide_radius >= plan.manifold.convexity_radius


def _has_rare_errors(plan: "Plan") -> bool:
    """Return whether rare large errors make up most of the predicted error.

    Parameters
    ----------
    plan : Plan
        A plan with `radius="private"`.
    """
    if plan.median_error is None:
        return False
    return plan.error >= _RARE_ERRORS_RATIO * plan.median_error


def _remedies(plan: "Plan") -> list[Advice]:
    """Say what would make a private mean accurate enough.

    Parameters
    ----------
    plan : Plan
        The plan of a mean that is too small.

    Returns
    -------
    list of Advice
        A number of records first; for matrices, also the advice to plan a classifier.
    """
    enough_records = _records_for_useful_mean(plan)
    texts = [
        f"about {enough_records} records would do, or fewer channels, a smaller ball, "
        "a larger budget"
    ]
    if isinstance(plan.manifold, SPD):
        texts.append(
            "to tell classes apart: plan a classifier, which reduces the matrices first"
        )
    return [Advice(AdviceKind.REMEDY, text) for text in texts]


def _records_for_useful_mean(plan: "Plan") -> int:
    """Return a number of records with which a mean would be useful; at least 2n.

    In d dimensions the noise of a mean of n records in a ball of radius r has about the
    length 2r√d/(nμ) under μ-GDP, and 2r√(d(d+1))/(nε) under pure ε-DP. The returned n
    makes this length half of the error at which a release is useless. A private ball
    needs twice as many records: its radius is about 1.5 times the spread of the
    records, and the mean in it gets 0.6 of the budget.

    Parameters
    ----------
    plan : Plan
        The plan of a mean.
    """
    # For sensitivity 1 the noise scale is 1/μ, or 1/ε for pure ε-DP.
    noise_kind, inverse_budget = smallest_noise(plan.guarantee)
    dim = plan.manifold.dim
    unit_noise_length = sqrt(dim) * std_per_scale(noise_kind, dim)
    # Twice for the diameter of the ball, and twice for half of the useless error.
    factor_in_public_ball = 4
    factor_in_private_ball = 8
    factor = factor_in_private_ball if plan.has_private_ball else factor_in_public_ball
    noise_length = factor * plan.spread * unit_noise_length * inverse_budget
    enough_per_class = ceil(noise_length / plan.useless_error)
    twice_per_class = 2 * plan.n // plan.classes
    return plan.classes * max(enough_per_class, twice_per_class)


def _region_advice(plan: "Plan") -> list[Advice]:
    """Return advice if the best mechanism is "newton" and has a useless region.

    The confidence regions of "newton" rest on bounds of the Hessian over the whole
    ball. In wide balls on spheres they are as wide as the ball, although the error is
    small. The advice names a mechanism with a narrower region.

    Parameters
    ----------
    plan : Plan
        The plan of a statistic of records in a ball.

    Returns
    -------
    list of Advice
        One line, or none.
    """
    is_newton = plan.mechanism == NewtonMechanism.info.option
    if not (is_newton and plan.releases_one_mean) or plan.n > MAX_SIMULATED_RECORDS:
        return []
    if not isinstance(plan.radius, float):
        return []
    newton_region_radius = plan.region()
    if newton_region_radius < _WIDE_REGION_SHARE * plan.radius:
        return []

    for name, error in plan.errors.items():
        plan_of_one_mechanism = replace(plan, errors={name: error})
        region_radius = plan_of_one_mechanism.region()
        if region_radius < _WIDE_REGION_SHARE * newton_region_radius:
            text = (
                f"the 95% region of {plan.mechanism} can be as wide as the ball; "
                f"that of {name} about {region_radius:.3g}, at an error of {error:.3g}"
            )
            return [Advice(AdviceKind.WIDE_REGION, text)]
    return []


def _classifier_advice(plan: "Plan") -> list[Advice]:
    """Return the advice on a private classifier.

    It names the best classifier. If that would misclassify more than 20% of new
    records, it also says how many records would reduce this to 20%.

    Parameters
    ----------
    plan : Plan
        The plan of a classifier.
    """
    take_best = (
        f"take {plan.mechanism}: {1 - plan.error:.0%} right "
        "where classes differ in the strongest components"
    )
    lines = [Advice(AdviceKind.MECHANISM, take_best)]
    if plan.too_small:
        lines.append(_warning_about_guessing())
    if plan.error <= _GOOD_MISCLASSIFIED_SHARE:
        return lines

    enough_records = _records_for_classifier(plan, _GOOD_MISCLASSIFIED_SHARE)
    if enough_records is None:
        remedy = f"not even {_RECORD_MULTIPLES[-1]} times as many records"
    else:
        remedy = f"about {enough_records} records"
    text = f"for {1 - _GOOD_MISCLASSIFIED_SHARE:.0%}: {remedy} would do"
    lines.append(Advice(AdviceKind.REMEDY, text))
    return lines


def _warning_about_guessing() -> Advice:
    """Return the warning about a classifier of little use."""
    return Advice(
        AdviceKind.TOO_SMALL, "this study is too small: guessing is about as good"
    )


def _records_for_classifier(plan: "Plan", target_error: float) -> int | None:
    """Return how many records reduce a classifier's share of wrong answers enough.

    Parameters
    ----------
    plan : Plan
        The plan of a classifier or of a starter kit.
    target_error : float
        The largest share of new records that may be misclassified.

    Returns
    -------
    int or None
        The smallest of 2, 4, 8 and 16 times n that is enough; None if none is.
    """
    for multiple in _RECORD_MULTIPLES:
        n_records = plan.n * multiple
        if plan.error_with(n=n_records) <= target_error:
            return n_records
    return None


def _starter_kit_advice(plan: "Plan") -> list[Advice]:
    """Return the advice on a starter kit.

    It names the best call, compares it with exact class centers, and states the assumed
    distance of the centers. If noise takes more than half of what exact centers have
    over guessing, it says how many people would do.

    Parameters
    ----------
    plan : Plan
        The plan of a starter kit.

    Returns
    -------
    list of Advice
        Two to four lines.
    """
    exact_error = _error_of_exact_centers(plan)
    guessing_error = 1 - 1 / plan.classes
    lines = [
        Advice(
            AdviceKind.MECHANISM,
            f"take {plan.mechanism}: right for {1 - plan.error:.0%} of a new "
            f"person's trials, where exact class centers are right for "
            f"{1 - exact_error:.0%} and guessing for {1 / plan.classes:.0%}",
        ),
        Advice(
            AdviceKind.ASSUMED_SPREAD,
            "a person's class centers are taken to be "
            f"{plan.spread:.3g} from the identity after recentering, a third of "
            "that (squared) common to all people; with two classes 0.5 is one "
            "source twice as strong: state yours (spread)",
        ),
    ]
    if plan.too_small:
        lines.append(_warning_about_guessing())
    halfway_error = (exact_error + guessing_error) / 2
    if plan.error > halfway_error:
        lines.append(_starter_kit_remedy(plan, halfway_error))
    return lines


def _error_of_exact_centers(plan: "Plan") -> float:
    """Return the share of wrong trials of a starter kit without noise.

    Parameters
    ----------
    plan : Plan
        The plan of a starter kit.
    """
    # This import is slow, and most plans do not need it.
    from curvedp.neuro.class_centers import predict_kit

    channels = plan.manifold.point_shape[0]
    prediction = predict_kit(
        channels, plan.classes, plan.n, KIT_RADIUS, plan.guarantee, plan.spread
    )
    return prediction.exact_error


def _starter_kit_remedy(plan: "Plan", target_error: float) -> Advice:
    """Say how many people make a starter kit accurate enough.

    Parameters
    ----------
    plan : Plan
        The plan of a starter kit.
    target_error : float
        The share of wrong trials halfway between guessing and exact class centers.
    """
    enough_people = _records_for_classifier(plan, target_error)
    if enough_people is None:
        remedy = f"not even {_RECORD_MULTIPLES[-1]} times as many people"
    else:
        remedy = f"about {enough_people} people, fewer channels or a larger budget"
    text = (
        f"to be halfway between guessing and an exact kit ({1 - target_error:.1%}): "
        f"{remedy} would do"
    )
    return Advice(AdviceKind.REMEDY, text)


def _clusters_advice(plan: "Plan") -> list[Advice]:
    """Say how many clusters of equal size the records and the budget allow.

    Parameters
    ----------
    plan : Plan
        The plan of k-means.

    Returns
    -------
    list of Advice
        Two lines.
    """
    most_clusters = plan.largest_number_of_clusters
    if plan.too_small:
        enough_records = ceil(plan.n * plan.error / plan.useless_error)
        carried = "no clusters"
        if most_clusters > 1:
            carried = f"at most {most_clusters} clusters"
        return [
            Advice(
                AdviceKind.TOO_SMALL,
                f"this study is too small for {plan.classes} clusters: {plan.n} "
                f"records at {plan.guarantee} carry {carried} of equal size",
            ),
            Advice(
                AdviceKind.REMEDY,
                f"about {enough_records} records would do, or a larger budget",
            ),
        ]
    return [
        Advice(
            AdviceKind.ERROR_SHARE,
            f"the center of a cluster of {plan.n // plan.classes} records is off by "
            f"{plan.error:.2g} of the spread of these records",
        ),
        Advice(
            AdviceKind.SEVERAL_MEANS,
            f"{plan.n} records carry at most {most_clusters} clusters of equal size; "
            "smaller ones are found where they lie apart, or not at all",
        ),
    ]
