"""Private permutation tests of whether samples have the same distribution.
Each test is a private release of one bit, with a certificate. `k_sample_test` does the
work for all of them; the statistics are in `kernel.py` and the mechanism is in
`permutation.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from curvedp._silence import quiet_about_records
from curvedp.core.certificate import Certificate
from curvedp.core.codes import ChoiceRule, ProtectedUnit
from curvedp.core.mechanism import Choice, ReleaseTerms, check_source
from curvedp.core.statistic import public_ball
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.inference.kernel import KernelStatistic, PairedDistance, SamplesDistance
from curvedp.inference.permutation import PermutationMechanism
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, Guarantee, PrivacyUnit
from curvedp.randomness import Source
from curvedp.records.identifiers import as_label_array
from curvedp.records.persons import encode_persons, person_means
from curvedp.records.tables import to_float_records
from curvedp.release.pay import check_payer, pay


@dataclass(frozen=True)
class PermutationTest:
    """The result of a private permutation test.

    Attributes
    ----------
    pvalue : float
        The attained level of the test if it rejects, otherwise 1.
    rejected : bool
        Whether the hypothesis that the distributions are the same is rejected.
    level : float
        The largest probability of a rejection if the hypothesis is true.
    statistic : str
        The name of the statistic that was compared.
    certificate : Certificate
        Why this may be published.
    """

    pvalue: float
    rejected: bool
    level: float
    statistic: str
    certificate: Certificate


def k_sample_test(
    manifold: Manifold,
    samples: Sequence[Any],
    radius: float | None = None,
    center: Any = None,
    guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value, safe as a default
    level: float = 0.05,
    permutations: int = 498,
    ledger: Ledger | None = None,
    label: str = "permutation test",
    source: Source | None = None,
    of: type[KernelStatistic] = SamplesDistance,
    groups: Sequence[Any] | None = None,
) -> PermutationTest:
    """Test whether independent samples come from the same distribution.

    This is a private permutation test. Its probability of a false rejection is at most
    `level`, for samples of any size.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    samples : sequence of arrays
        Two or more samples of shape (n, *point_shape), each with its own n. The records
        must be independent, unless `groups` says to whom they belong.
    radius, center : float and point, optional
        The public ball. Records are clipped to it, so the test compares the
        distributions of clipped records.
    guarantee : Guarantee
        The guarantee for replacing one record of any sample. The sizes are public.
    level : float
        The largest probability of a rejection if the distributions are the same.
    permutations : int
        The number of permutations, at least 1/level − 1.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if an error is raised.
    label : str
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.
    of : type of KernelStatistic
        The statistic that is compared with its permuted values.
    groups : sequence of arrays, optional
        For each sample, n public ids of the people to whom the records belong. Then a
        person is the unit of privacy and of the test, however many records they have:
        each person's records are averaged in the ball first, as by the estimators, and
        the sizes are numbers of people. Nobody may be in two samples (see
        `paired_test`).

    Returns
    -------
    PermutationTest
        Its `pvalue` is the attained level if the test rejects, otherwise 1. Privacy is
        proved for this one bit only, not for the rank of the statistic.

    Raises
    ------
    ParameterError, UnattainableGuarantee, BudgetExceeded
        Because of parameters, shapes and types, never because of a record's values.
        Nothing is charged then.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> centers = ([3.0, 0, 0], [3.0, 2, 0], [3.0, 2, 0])
    >>> samples = [Sphere(2).project(rng.normal(c, 0.5, (400, 3))) for c in centers]
    >>> k_sample_test(Sphere(2), samples, radius=1.0).rejected
    True
    """
    if not (isinstance(of, type) and issubclass(of, KernelStatistic)):
        raise ParameterError(
            "must be a kind of KernelStatistic, such as SamplesDistance",
            parameter="of",
            value=of,
        )
    # Wrong arguments raise an error before the ledger is charged.
    check_payer(ledger, label)
    with quiet_about_records():
        arrays = read_samples(manifold, samples)
    privacy_unit: ProtectedUnit | None = None
    if groups is not None:
        privacy_unit = _person_unit(of)
        arrays = _average_persons(manifold, arrays, groups, center, radius, of)
    sizes = [len(array) for array in arrays]
    statistic = of(manifold, center, radius, sizes)  # type: ignore[arg-type]  # None is refused there
    calibrated = PermutationMechanism.calibrate(statistic, guarantee)
    mechanism = calibrated.at_level(level, permutations)
    source = check_source(source)
    with quiet_about_records():
        prepared = mechanism.prepare_data(arrays)

    entry = pay(ledger, label, guarantee, [mechanism], privacy_unit)
    choice = Choice(ChoiceRule.ONLY_ONE)
    release = mechanism.release(
        prepared,
        source=source,
        terms=ReleaseTerms(guarantee, privacy_unit, choice, entry),
        is_prepared=True,
    )
    pvalue = float(release.value[0])
    return PermutationTest(
        pvalue=pvalue,
        rejected=pvalue < 1,
        level=float(level),
        statistic=statistic.name,
        certificate=release.certificate,
    )


def two_sample_test(
    manifold: Manifold,
    X: Any,
    Y: Any,
    radius: float | None = None,
    center: Any = None,
    **options: Any,
) -> PermutationTest:
    """Test whether two independent samples come from the same distribution.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    X, Y : array
        The samples, of shapes (n, *point_shape) and (m, *point_shape).
    radius : float
        The radius of the public ball to which records are clipped.
    center : point, optional
        The center of that ball; the origin by default.
    **options
        Further arguments of `k_sample_test`. There `groups` is a pair of arrays: the
        ids of the people for the records of X, and for those of Y.

    Returns
    -------
    PermutationTest
        Whether the test rejects, its p-value, and the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.5, (400, 3)))
    >>> Y = Sphere(2).project(rng.normal([3.0, 2, 0], 0.5, (300, 3)))
    >>> two_sample_test(Sphere(2), X, Y, radius=1.0).rejected
    True
    """
    options = {"label": "two-sample test", **options}
    return k_sample_test(manifold, (X, Y), radius, center, **options)


def paired_test(
    manifold: Manifold,
    X: Any,
    Y: Any,
    radius: float | None = None,
    center: Any = None,
    groups: Any = None,
    **options: Any,
) -> PermutationTest:
    """Test whether pairs (X[i], Y[i]) and (Y[i], X[i]) have the same distribution.

    Use it for records that are measured twice, such as before and after a treatment.
    The unit of privacy is a pair.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    X, Y : array
        The first and the second members of n pairs, each of shape (n, *point_shape).
    radius : float
        The radius of the public ball to which records are clipped.
    center : point, optional
        The center of that ball; the origin by default.
    groups : array, optional
        One public id of a person for each pair, if a person may have several pairs.
        Then each person's records of X are averaged, and so are those of Y, and the
        unit of privacy is a person.
    **options
        Further arguments of `k_sample_test`, such as `guarantee` and `level`.

    Returns
    -------
    PermutationTest
        Whether the test rejects, its p-value, and the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Euclidean
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> bool(0 < paired_test(Euclidean(2), X, X, radius=2.0).pvalue <= 1)
    True
    """
    options = {"label": "paired test", **options}
    if groups is not None:
        # Both members of a pair belong to one person.
        options["groups"] = (groups, groups)
    return k_sample_test(manifold, (X, Y), radius, center, of=PairedDistance, **options)


def read_samples(manifold: Any, samples: Any) -> list[np.ndarray]:
    """Return the samples as arrays of doubles, each of shape (n, *point_shape).

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    samples : list of arrays
        The samples.

    Returns
    -------
    list of arrays of float64
        One array for each sample.

    Raises
    ------
    ParameterError
        If shapes or types do not fit. Values are never a reason.
    """
    point_shape = check_manifold(manifold).point_shape
    if not isinstance(samples, list | tuple):
        raise ParameterError("samples must be a list of arrays, one a sample")
    arrays = []
    for number, sample in enumerate(samples, 1):
        array = to_float_records(f"sample {number}", sample, point_shape)
        if array.ndim != len(point_shape) + 1 or array.shape[1:] != point_shape:
            expected_shape = f"(n, {', '.join(map(str, point_shape))})"
            raise ParameterError(
                f"sample {number} has shape {array.shape}, not {expected_shape}"
            )
        arrays.append(array)
    return arrays


def _average_persons(
    manifold: Manifold,
    arrays: list[np.ndarray],
    groups: Any,
    center: Any,
    radius: float | None,
    statistic: type[KernelStatistic],
) -> list[np.ndarray]:
    """Replace each person's records by their Fréchet mean, in every sample.

    With `groups` a test protects people, so each person must count as one record.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    arrays : list of arrays of shape (n, *point_shape)
        The samples.
    groups : sequence of arrays
        For each sample, the ids of the people to whom its records belong.
    center, radius
        The public ball into which records are clipped first.
    statistic : type of KernelStatistic
        Its `is_paired` says whether row i of every sample belongs to the same pair.

    Returns
    -------
    list of arrays of shape (number of people, *point_shape)
        One array for each sample.
    """
    ball = public_ball(manifold, center, radius)
    sizes = [len(array) for array in arrays]
    person_indices = index_persons(groups, sizes, statistic.is_paired)
    with quiet_about_records():
        return [
            person_means(manifold, ball, array, person_index)
            for array, person_index in zip(arrays, person_indices, strict=True)
        ]


def _person_unit(statistic: type[KernelStatistic]) -> ProtectedUnit:
    """Return the unit of privacy of a test that protects people.

    Parameters
    ----------
    statistic : type of KernelStatistic
        The statistic that the test compares.

    Returns
    -------
    ProtectedUnit
        Such as a person within their class, for people who do not change samples.

    Raises
    ------
    ParameterError
        If the statistic protects records only.
    """
    for unit in statistic.privacy_units:
        if unit.privacy_unit is PrivacyUnit.PERSON:
            return unit
    raise ParameterError(f"is not for {statistic.__name__}", parameter="groups")


def index_persons(groups: Any, sizes: list[int], is_paired: bool) -> list[np.ndarray]:
    """Return, for every sample, the number of the person to whom each record belongs.

    The sensitivity assumes that a person contributes one value to one sample. So nobody
    may be in two samples; of paired samples, both members of a pair must belong to one
    person.

    Parameters
    ----------
    groups : sequence of arrays of ids
        One array for each sample.
    sizes : list of int
        The number of records of each sample.
    is_paired : bool
        Whether row i of every sample belongs to the same pair.

    Returns
    -------
    list of arrays of int
        One array for each sample; the people of a sample are numbered from 0.

    Raises
    ------
    ParameterError
        If the ids do not fit the samples, or a person is in two samples.
    """
    if not isinstance(groups, list | tuple) or len(groups) != len(sizes):
        raise ParameterError(
            f"groups must be a list of {len(sizes)} arrays of ids, one for each sample"
        )
    person_indices = [
        encode_persons(ids, size) for ids, size in zip(groups, sizes, strict=True)
    ]
    ids_of_samples = [as_label_array(ids).tolist() for ids in groups]
    if is_paired:
        if any(ids != ids_of_samples[0] for ids in ids_of_samples[1:]):
            raise ParameterError("groups must name one person for each pair")
        return person_indices

    earlier_ids: set[Any] = set()
    for ids in ids_of_samples:
        # Ids are compared as texts too: one file may have 7 and another "7" for the
        # same person.
        sample_ids = {*ids, *map(str, ids)}
        if earlier_ids & sample_ids:
            raise ParameterError(
                "groups has a person in two samples; paired_test is for people who are "
                "measured twice"
            )
        earlier_ids |= sample_ids
    return person_indices
