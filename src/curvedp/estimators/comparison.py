"""Compare groups of records: a private test, their private means, and an effect size.
`compare_groups` divides one GDP guarantee among a ball (with `radius="private"`), a
permutation test and the means of the groups. `compare_pairs` does so for records that
were measured twice.
"""

from collections.abc import Sequence
from itertools import chain
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.certificate import Certificate
from curvedp.core.mechanism import check_can_be_listed, check_guarantee
from curvedp.core.statistic import Ball, public_ball
from curvedp.errors import ParameterError
from curvedp.estimators.frechet_mean import PrivateFrechetMean
from curvedp.estimators.joint_means import PrivateJointMeans
from curvedp.estimators.mdm import PrivateMDM
from curvedp.estimators.shares import (
    check_divisible,
    check_ledger_can_pay,
    check_ledger_unit,
    collect_release_warnings,
    share_of_guarantee,
)
from curvedp.geometry import Product
from curvedp.geometry.manifold import Manifold
from curvedp.inference.hypotheses import (
    PermutationTest,
    index_persons,
    k_sample_test,
    paired_test,
    read_samples,
)
from curvedp.inference.kernel import PairedDistance, SamplesDistance
from curvedp.inference.permutation import PermutationMechanism
from curvedp.inference.shapes import Region
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, Guarantee
from curvedp.privacy.unit import PrivacyUnit
from curvedp.randomness import Source
from curvedp.records.labels import Labels
from curvedp.records.persons import encode_persons
from curvedp.release.choose import choose_mechanism
from curvedp.release.pay import check_payer
from curvedp.release.rebuild import recorded_draw_of
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.searched_ball import default_outer_radius

# The fractions of μ² that the parts of a comparison take. They are choices: the test
# answers the question, and a ball needs less than what is released in it.
_BALL_SHARE = 0.2
_TEST_SHARE = 0.6

# The label of a ledger's entry has at most this many characters.
_LONGEST_LABEL = 200


class GroupComparison(NamedTuple):
    """What a comparison of groups has released.

    Attributes
    ----------
    test : PermutationTest
        Whether the groups are drawn from one distribution.
    means : PrivateMDM or PrivateJointMeans
        The private mean of each group, with their certificates. Those of pairs are one
        release.
    ball : Ball
        The ball into which records were clipped.
    ball_release : PrivateFrechetMean, PrivateJointMeans or None
        The release that found the ball, with its certificate; None for a given ball.
    regions : dict
        The region of each group's population mean, by the group's label; all hold at
        once with probability 95%. Empty where no region follows from the means, which
        `warnings` says.
    largest_distance : float
        The largest distance between two of these means.
    spread : float
        The root mean square distance of the records to their own group's mean.
    warnings : tuple of str
        Reasons to doubt a part of the result. They are not issued as Python
        warnings: where those are errors, the parts that were paid for would be lost.
    """

    test: PermutationTest
    means: PrivateMDM | PrivateJointMeans
    ball: Ball
    ball_release: PrivateFrechetMean | PrivateJointMeans | None
    regions: dict[Any, Region]
    largest_distance: float
    spread: float
    warnings: tuple[str, ...] = ()

    @property
    def effect_size(self) -> float:
        """The largest distance between group means, in units of the spread.

        For two groups on a line it is Cohen's d, but for the correction of its bias.
        """
        return self.largest_distance / self.spread if self.spread > 0 else float("inf")

    @property
    def certificates(self) -> dict[str, Certificate]:
        """Each certificate by what it is of: the ball, the test, and each mean.

        Their guarantees add up to that of the comparison; those of the means count as
        one, because the groups are disjoint or the means are one release.
        """
        by_title = {}
        if self.ball_release is not None:
            by_title["ball"] = self.ball_release.certificate_
        by_title["test"] = self.test.certificate
        if isinstance(self.means, PrivateJointMeans):
            by_title["means"] = self.means.certificate_
            return by_title
        for release in self.means.releases:
            by_title[release.title] = release.certificate
        return by_title


def compare_groups(
    manifold: Manifold,
    samples: Sequence[Any],
    radius: float | str,
    center: Any = None,
    guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value, safe as a default
    level: float = 0.05,
    permutations: int = 498,
    names: Sequence[str] | None = None,
    groups: Sequence[Any] | None = None,
    ledger: Ledger | None = None,
    label: str = "comparison of groups",
    source: Source | None = None,
) -> GroupComparison:
    """Test whether groups of records differ, and say by how much.

    The whole comparison meets `guarantee`. Of μ², a private ball takes a fifth; of what
    is left the test takes 0.6 and the means of the groups take 0.4. The groups are
    disjoint, so their means together cost as much as one.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    samples : sequence of arrays
        Two or more groups of shape (n, *point_shape), each with its own public n.
    radius : float or "private"
        The radius of the public ball; with "private" it is found.
    center : point, optional
        The center of the public ball.
    guarantee : GDP
        The guarantee of the comparison for replacing one record within its group, or
        one person with all their records.
    level : float
        The level of the test: the largest probability with which it rejects although
        all groups are drawn from one distribution.
    permutations : int
        The number of permutations of the records between the groups with which the
        test compares them.
    names : sequence of str, optional
        The names of the groups: 1, 2, … by default.
    groups : sequence of arrays, optional
        For each sample the people to whom its records belong. Nobody may be in two.
    ledger : Ledger, optional
        Is charged for each part. A comparison of which a part does not fit is refused
        before the first.
    label : str
        The beginning of the labels of the ledger's entries.
    source : Source, optional
        For simulations.

    Returns
    -------
    GroupComparison
        The test, the means with their regions, and the effect size.

    Raises
    ------
    ParameterError
        Before anything is paid, because of parameters, shapes, types and ids, never of
        a record's values.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> A = Sphere(2).project(rng.normal([3.0, 0, 0], 0.5, (400, 3)))
    >>> B = Sphere(2).project(rng.normal([3.0, 1, 0], 0.5, (300, 3)))
    >>> comparison = compare_groups(Sphere(2), (A, B), radius=1.0)
    >>> comparison.test.rejected, 1.0 < comparison.effect_size < 2.0
    (True, True)
    """
    check_guarantee(guarantee)
    if not isinstance(guarantee, GDP) or guarantee.adjacency != "replace-one":
        raise ParameterError(
            "must be GDP for a comparison of several parts, such as GDP(1.0); "
            "k_sample_test takes others",
            parameter="guarantee",
            value=guarantee,
        )
    unit = comparison_unit(groups)
    if ledger is not None:
        # The ball is charged first and protects a record: a ledger without a unit would
        # take that one, and then refuse the test.
        check_ledger_unit(ledger, unit, "comparison")
    check_ledger_can_pay(ledger, guarantee, unit, "comparison")
    check_payer(ledger, label)
    with quiet_about_records():
        arrays = read_samples(manifold, samples)
    sample_names = _check_names(names, len(arrays))
    _check_all_parts(
        manifold,
        arrays,
        radius,
        center,
        guarantee,
        level,
        permutations,
        sample_names,
        groups,
    )
    with collect_release_warnings() as warning_texts:
        comparison = _release_comparison(
            manifold,
            arrays,
            radius,
            center,
            guarantee,
            level,
            permutations,
            sample_names,
            groups,
            ledger,
            label,
            source,
        )
    return comparison._replace(warnings=(*warning_texts, *comparison.warnings))


def compare_pairs(
    manifold: Manifold,
    first: Any,
    second: Any,
    radius: float | str,
    center: Any = None,
    guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value, safe as a default
    level: float = 0.05,
    permutations: int = 498,
    names: Sequence[str] | None = None,
    groups: Any = None,
    ledger: Ledger | None = None,
    label: str = "comparison of pairs",
    source: Source | None = None,
) -> GroupComparison:
    """Test whether first and second measurements differ, and say by how much.

    The whole comparison meets `guarantee` for replacing one pair, or one person with
    all their pairs. Its parts have the shares that they have in `compare_groups`; a
    pair is in both means, which are one release (`PrivateJointMeans`).

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    first, second : array
        The first and the second members of n pairs, each of shape (n, *point_shape).
    radius : float or "private"
        The radius of the public ball of both; with "private" it is found.
    center : point, optional
        The center of the public ball.
    guarantee : GDP
        The guarantee of the comparison.
    level : float
        The level of the test: the largest probability with which it rejects although
        both measurements have the same distribution.
    permutations : int
        The number of times that the members of pairs are swapped at random, with which
        the test compares them.
    names : sequence of str, optional
        The names of the two measurements: 1 and 2 by default.
    groups : array, optional
        One public id of a person for each pair, if a person may have several. By
        default each pair is a person of its own, whom the ledger counts.
    ledger : Ledger, optional
        For the unit "person". A comparison of which a part does not fit is refused
        before the first.
    label : str
        The beginning of the labels of the ledger's entries.
    source : Source, optional
        For simulations.

    Returns
    -------
    GroupComparison
        Its spread is that of the members of pairs about their own mean.

    Raises
    ------
    ParameterError
        Before anything is paid, because of parameters, shapes, types and ids, never of
        a record's values.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> before = rng.normal([3.0, 0, 0], 0.5, (400, 3))
    >>> after = before + rng.normal([0.0, 1.0, 0], 0.1, (400, 3))
    >>> S = Sphere(2)
    >>> pairs = S.project(before), S.project(after)
    >>> comparison = compare_pairs(S, *pairs, radius=1.0)
    >>> comparison.test.rejected, 1.0 < comparison.effect_size < 2.0
    (True, True)
    """
    check_guarantee(guarantee)
    divisible = check_divisible(guarantee, "comparison of pairs")
    unit = PrivacyUnit.PERSON
    if ledger is not None:
        check_ledger_unit(ledger, unit, "comparison of pairs")
    check_ledger_can_pay(ledger, divisible, unit, "comparison of pairs")
    check_payer(ledger, label)

    with quiet_about_records():
        samples = read_samples(manifold, [first, second])
    pair_names = _check_names(names, 2)
    persons = np.arange(len(samples[0])) if groups is None else groups

    # Calibrate every part first, so that whatever would refuse a later part is refused
    # before the first part is paid.
    _check_all_parts_of_pairs(
        manifold, samples, radius, center, divisible, level, permutations, persons
    )
    payment: dict[str, Any] = {"ledger": ledger, "source": source}
    with collect_release_warnings() as warning_texts:
        comparison = _release_pairs(
            manifold,
            samples,
            radius,
            center,
            divisible,
            level,
            permutations,
            pair_names,
            persons,
            label,
            payment,
        )
    return comparison._replace(warnings=(*warning_texts, *comparison.warnings))


def _check_all_parts_of_pairs(
    manifold: Manifold,
    samples: list[np.ndarray],
    radius: float | str,
    center: Any,
    guarantee: GDP,
    level: float,
    permutations: int,
    persons: Any,
) -> None:
    """Check that no part of the comparison can fail, before the first part is paid.

    Every part is calibrated in the public ball, or in the outer ball of the search: a
    ball that is found is no larger.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    samples : list of arrays
        The first and the second members of the pairs, as arrays of doubles.
    radius : float or "private"
        The radius of the public ball, or whether a ball is to be found.
    center : point or None
        The center of the public ball.
    guarantee : GDP
        The guarantee of the whole comparison.
    level : float
        The level of the test: its largest probability of a false alarm.
    permutations : int
        The number of permutations of the test.
    persons : sequence of ids
        The person of each pair.

    Raises
    ------
    ParameterError, UnattainableGuarantee
        Because of parameters, shapes and ids.
    """
    sizes = [len(sample) for sample in samples]
    PairedDistance(manifold, *public_ball(manifold, center, 1.0), sizes)
    indices = index_persons([persons, persons], sizes, is_paired=True)
    n_persons = len(np.unique(indices[0]))
    ball = public_or_outer_ball(manifold, radius, center)
    statistic = PairedDistance(manifold, *ball, [n_persons, n_persons])
    PermutationMechanism.calibrate(statistic, guarantee).at_level(level, permutations)
    space = Product(manifold, manifold)
    check_can_be_listed(space.dim + 1)
    joint_center = space.join([ball.center, ball.center])
    joint_mean = FrechetMean(space, joint_center, sqrt(2) * ball.radius, n_persons)
    choose_mechanism("gradient", joint_mean, guarantee)


def _release_pairs(
    manifold: Manifold,
    samples: list[np.ndarray],
    radius: float | str,
    center: Any,
    guarantee: GDP,
    level: float,
    permutations: int,
    names: np.ndarray,
    persons: Any,
    label: str,
    payment: dict[str, Any],
) -> GroupComparison:
    """Release the ball, the test and the means of pairs, one after another.

    All parameters have been checked before.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    samples : list of arrays
        The first and the second members of the pairs.
    radius : float or "private"
        The radius of the public ball; with "private" it is found first.
    center : point or None
        The center of the public ball.
    guarantee : GDP
        The guarantee of the whole comparison. Of μ², the ball takes a fifth if it is
        found privately; of the rest the test takes 0.6 and the means 0.4.
    level : float
        The level of the test: its largest probability of a false alarm.
    permutations : int
        The number of permutations of the test.
    names : array of str
        The names of the two measurements.
    persons : sequence of ids
        The person of each pair.
    label : str
        The beginning of the labels of the ledger's entries.
    payment : dict
        The `ledger` and the `source` of all parts.

    Returns
    -------
    GroupComparison
        The three releases, and what follows from them.
    """
    records = np.concatenate(samples)
    labels = np.repeat(names, len(samples[0]))
    both_persons = [*persons, *persons]

    ball_release = None
    share_left = 1.0
    if isinstance(radius, str):
        ball_release = PrivateJointMeans(
            manifold,
            radius=radius,
            center=center,
            guarantee=share_of_guarantee(guarantee, _BALL_SHARE),
            label=f"{label}: ball"[:_LONGEST_LABEL],
            **payment,
        ).fit(records, labels, groups=both_persons)
        ball = _ball_of_pairs(manifold, ball_release)
        share_left -= _BALL_SHARE
    else:
        ball = public_ball(manifold, center, radius)

    first, second = samples
    test = paired_test(
        manifold,
        first,
        second,
        radius=ball.radius,
        center=ball.center,
        guarantee=share_of_guarantee(guarantee, _TEST_SHARE * share_left),
        level=level,
        permutations=permutations,
        groups=persons,
        label=f"{label}: test"[:_LONGEST_LABEL],
        **payment,
    )
    means = PrivateJointMeans(
        manifold,
        radius=ball.radius,
        center=ball.center,
        guarantee=share_of_guarantee(guarantee, (1 - _TEST_SHARE) * share_left),
        mechanism="gradient",
        label=f"{label}: means"[:_LONGEST_LABEL],
        **payment,
    ).fit(records, labels, groups=both_persons)
    regions, doubts = _regions_of_means(means)
    return GroupComparison(
        test=test,
        means=means,
        ball=ball,
        ball_release=ball_release,
        regions=regions,
        largest_distance=_largest_distance(manifold, means.means_),
        # Half of the variance of a pair is that of one of its members.
        spread=_spread_within(means) / sqrt(2),
        warnings=doubts,
    )


def _ball_of_pairs(manifold: Manifold, joint: PrivateJointMeans) -> Ball:
    """Return a ball of the manifold that holds both members of every pair.

    The released ball on the product space has a center (c₁, c₂) and a radius R. Both
    members of a pair are within d/2 + R of the midpoint of c₁ and c₂, where d is the
    distance between c₁ and c₂.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    joint : PrivateJointMeans
        The release that found the ball.

    Returns
    -------
    Ball
        The ball, no larger than a public outer ball.
    """
    joint_ball = joint.ball_
    first, second = Product(manifold, manifold).split(joint_ball.center)
    velocity = np.asarray(manifold.log(first, second))
    midpoint = np.asarray(manifold.exp(first, 0.5 * velocity))
    distance = float(manifold.dist(first, second))
    radius = 0.5 * distance + joint_ball.radius
    return Ball(midpoint, min(radius, default_outer_radius(manifold, None)))


def public_or_outer_ball(manifold: Manifold, radius: float | str, center: Any) -> Ball:
    """Return the public ball, or the outer ball that contains every ball of a search.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    radius : float or "private"
        The radius of the public ball, or whether a ball is to be found.
    center : point or None
        The center of the ball; None stands for the origin.
    """
    if isinstance(radius, str):
        _validate.private_radius(radius)
        radius = default_outer_radius(manifold, None)
    return public_ball(manifold, center, radius)


def describe_test(test: PermutationTest, names: Sequence[str]) -> str:
    """Return the result of a test of groups in words.

    The command line and the studio print it.

    Parameters
    ----------
    test : PermutationTest
        The released test.
    names : sequence of str
        The names of the groups.
    """
    groups = " and ".join(names)
    if len(names) > 2:
        groups = f"{', '.join(names[:-1])} and {names[-1]}"
    if test.rejected and len(names) > 2:
        return (
            f"at least two of {groups} differ: p = {test.pvalue:.3g} "
            f"(level {test.level:g})"
        )
    if test.rejected:
        return f"{groups} differ: p = {test.pvalue:.3g} (level {test.level:g})"
    return (
        f"no difference between {groups} was found at level {test.level:g}; "
        "a private test answers yes or no, so p is given as 1"
    )


def _check_names(names: Sequence[str] | None, n_samples: int) -> np.ndarray:
    """Return the names of the samples, by default 1, 2, and so on.

    The names appear in tables and in the titles of releases.

    Parameters
    ----------
    names : sequence of str, or None
        The names of the groups.
    n_samples : int
        How many groups there are.

    Returns
    -------
    array of str
        One name for each sample.

    Raises
    ------
    ParameterError
        Unless there is a printable name of its own for each sample.
    """
    if names is None:
        names = [str(number) for number in range(1, n_samples + 1)]
    is_list = isinstance(names, list | tuple)
    are_texts = is_list and all(map(_is_printable_text, names))
    if not are_texts or len(names) != n_samples or len(set(names)) != n_samples:
        raise ParameterError("must name each sample once, by texts", parameter="names")
    # Refused as labels, too: there a text such as "nan" counts as missing.
    Labels(list(names), n_samples)
    return np.array(names)


def _is_printable_text(name: object) -> bool:
    """Return whether a name is a text that can be printed on one line.

    Parameters
    ----------
    name : object
        The caller's name of a sample, which may be anything.
    """
    return isinstance(name, str) and bool(name.strip()) and name.isprintable()


def _check_all_parts(
    manifold: Manifold,
    samples: list[np.ndarray],
    radius: float | str,
    center: Any,
    guarantee: GDP,
    level: float,
    permutations: int,
    names: np.ndarray,
    groups: Sequence[Any] | None,
) -> None:
    """Check that no part of the comparison can fail, before the first part is paid.

    Every part is calibrated in the public ball, or in the outer ball of the search: a
    ball that is found is no larger.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    samples : list of arrays
        The samples as arrays of doubles.
    radius : float or "private"
        The radius of the public ball, or whether a ball is to be found.
    center : point or None
        The center of the public ball.
    guarantee : GDP
        The guarantee of the whole comparison.
    level : float
        The level of the test: its largest probability of a false alarm.
    permutations : int
        The number of permutations of the test.
    names : array of str
        The names of the groups.
    groups : sequence of arrays, or None
        For each sample the people to whom its records belong.

    Raises
    ------
    ParameterError, UnattainableGuarantee
        Because of parameters, shapes and ids.
    """
    n_records = sum(len(sample) for sample in samples)
    Labels(np.repeat(names, [len(sample) for sample in samples]), n_records)
    sizes = [len(sample) for sample in samples]
    if groups is not None:
        persons = index_persons(groups, sizes, is_paired=False)
        sizes = [len(np.unique(index)) for index in persons]
        # `PrivateMDM` will read the ids of all samples together.
        encode_persons(list(chain.from_iterable(groups)), n_records)
    ball = public_or_outer_ball(manifold, radius, center)
    # `_spread_within` reads the listed numbers of a mean: its logarithm and a square.
    check_can_be_listed(manifold.dim + 1)
    statistic = SamplesDistance(manifold, *ball, sizes)
    PermutationMechanism.calibrate(statistic, guarantee).at_level(level, permutations)
    for size in sizes:
        mean = FrechetMean(manifold, *ball, size)
        choose_mechanism("gradient", mean, guarantee)


def _regions_of_means(
    means: PrivateMDM | PrivateJointMeans,
) -> tuple[dict[Any, Region], tuple[str, ...]]:
    """Return the regions of the population means, or none and the reason in words.

    Everything is paid for by now, so nothing may be raised.

    Parameters
    ----------
    means : PrivateMDM or PrivateJointMeans
        The released means.

    Returns
    -------
    regions : dict
        From the name of a group to its region, which hold all at once with
        probability 95%. Empty if there are none.
    doubts : tuple of str
        The reason if there are none.
    """
    try:
        return dict(means.confidence_region(0.95, of="population")), ()
    except ParameterError as error:
        return {}, (str(error),)


def _release_comparison(
    manifold: Manifold,
    samples: list[np.ndarray],
    radius: float | str,
    center: Any,
    guarantee: GDP,
    level: float,
    permutations: int,
    names: np.ndarray,
    groups: Sequence[Any] | None,
    ledger: Ledger | None,
    label: str,
    source: Source | None,
) -> GroupComparison:
    """Release the ball, the test and the means of a comparison, one after another.

    All parameters have been checked before.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    samples : list of arrays
        The records of each group.
    radius : float or "private"
        The radius of the public ball; with "private" it is found first.
    center : point or None
        The center of the public ball.
    guarantee : GDP
        The guarantee of the whole comparison. Of μ², the ball takes a fifth if it is
        found privately; of the rest the test takes 0.6 and the means 0.4.
    level : float
        The level of the test: its largest probability of a false alarm.
    permutations : int
        The number of permutations of the test.
    names : array of str
        The names of the groups.
    groups : sequence of arrays, or None
        For each sample the people to whom its records belong.
    ledger : Ledger or None
        Is charged for each part.
    label : str
        The beginning of the labels of the ledger's entries.
    source : Source or None
        Replaces the cryptographic source of random bits in simulations.

    Returns
    -------
    GroupComparison
        The three releases, and what follows from them.
    """
    sizes = [len(sample) for sample in samples]
    records = np.concatenate(samples)
    labels = np.repeat(names, sizes)
    persons = None
    if groups is not None:
        # A list keeps every id as it is; an array would make texts of mixed ids.
        persons = [person for ids in groups for person in ids]

    ball_release = None
    share_left = 1.0
    if isinstance(radius, str):
        ball_release = PrivateFrechetMean(
            manifold,
            radius=radius,
            center=center,
            guarantee=share_of_guarantee(guarantee, _BALL_SHARE),
            ledger=ledger,
            label=f"{label}: ball"[:_LONGEST_LABEL],
            source=source,
        ).fit(records, groups=persons)
        ball = ball_release.ball_
        share_left -= _BALL_SHARE
    else:
        ball = public_ball(manifold, center, radius)

    test = k_sample_test(
        manifold,
        samples,
        radius=ball.radius,
        center=ball.center,
        guarantee=share_of_guarantee(guarantee, _TEST_SHARE * share_left),
        level=level,
        permutations=permutations,
        groups=groups,
        ledger=ledger,
        label=f"{label}: test"[:_LONGEST_LABEL],
        source=source,
    )
    means = PrivateMDM(
        manifold,
        radius=ball.radius,
        center=ball.center,
        guarantee=share_of_guarantee(guarantee, (1 - _TEST_SHARE) * share_left),
        mechanism="gradient",
        ledger=ledger,
        label=f"{label}: means"[:_LONGEST_LABEL],
        source=source,
    ).fit(records, labels, groups=persons)
    regions, doubts = _regions_of_means(means)
    return GroupComparison(
        test=test,
        means=means,
        ball=ball,
        ball_release=ball_release,
        regions=regions,
        largest_distance=_largest_distance(manifold, means.means_),
        spread=_spread_within(means),
        warnings=doubts,
    )


def budget_share_of_test(*, is_private: bool) -> float:
    """Return the fraction of μ² that the test of a comparison takes.

    The rest is for the means and, if it is found, for the ball.

    Parameters
    ----------
    is_private : bool
        Whether the ball is found as a part of the comparison.
    """
    share_left = 1.0 - _BALL_SHARE if is_private else 1.0
    return _TEST_SHARE * share_left


def comparison_unit(groups: Any) -> PrivacyUnit:
    """Return whom a comparison protects; its groups are public classes.

    Parameters
    ----------
    groups : sequence of arrays, or None
        For each sample the people to whom its records belong; then people are
        protected.
    """
    if groups is None:
        return PrivacyUnit.RECORD_IN_CLASS
    return PrivacyUnit.PERSON_IN_CLASS


def _largest_distance(manifold: Manifold, means: np.ndarray) -> float:
    """Return the largest distance between two of several means.

    Parameters
    ----------
    manifold : Manifold
        Where the means live.
    means : array of shape (k, *point_shape)
        The released means of the groups.
    """
    return max(
        float(manifold.dist(first, second)) for first in means for second in means
    )


def _spread_within(means: PrivateMDM | PrivateJointMeans) -> float:
    """Return the root mean square distance of records to the mean of their group.

    The gradient mechanism releases the mean square m² of each group's logarithms beside
    their mean g; m² − |g|² is the variance about the group's mean. The variances are
    averaged with the sizes of the groups as weights.

    Parameters
    ----------
    means : PrivateMDM
        The released means of all groups, in one public ball.

    Returns
    -------
    float
        The spread, in the unit of distances.
    """
    sum_of_squares = 0.0
    n_records = 0
    for certificate in means.certificates_:
        draw = recorded_draw_of(certificate)
        assert draw.mean_square is not None  # Gaussian noise releases it.
        group_size = int(certificate.statistic["n"])
        variance = draw.mean_square.value - float(np.sum(draw.value**2))
        sum_of_squares += group_size * max(0.0, variance)
        n_records += group_size
    return sqrt(sum_of_squares / n_records)
