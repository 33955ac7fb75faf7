"""Private permutation tests of whether samples come from one law, with a certificate."""

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
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.records.identifiers import as_label_array
from curvedp.records.persons import encode_persons, person_means
from curvedp.records.tables import to_float_records
from curvedp.release.pay import check_payer, pay


@dataclass(frozen=True)
class PermutationTest:
    """What a private test has released.

    Attributes
    ----------
    pvalue : float
        The attained level of the test where it rejects, else 1.
    rejected : bool
        Whether the hypothesis that the laws are the same is rejected.
    level : float
        The largest probability of a rejection where the hypothesis holds.
    statistic : str
        What was compared, in words.
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
    """Test whether independent samples are from one law.

    It is a private permutation test of level at most `level` at every n.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    samples : sequence of arrays
        Two or more, of shapes (n, *point_shape), each with its own n; of independent
        records, unless `groups` says whose they are.
    radius, center : float and point, optional
        The public ball; records are clipped to it, so that the test is of their laws in
        the ball.
    guarantee : Guarantee
        For replacing one record of any sample; the sizes are public.
    level : float
        The largest probability of a rejection where the laws are the same.
    permutations : int
        How many permutations, at least 1/level − 1.
    ledger : Ledger, optional
        The budget to spend from, of which nothing is spent on a refusal.
    label : str
        What the ledger's entry is called.
    source : Source, optional
        Replaces the cryptographic source in simulations, and is recorded.
    of : type of KernelStatistic
        What is compared.
    groups : sequence of arrays, optional
        For each sample, n public ids that say whose record each is. Then a person is
        the unit of privacy and of the test, however many records they have: each
        person's records are averaged in the ball first, as by the estimators, and the
        sizes are numbers of persons. Nobody may be in two samples (see `paired_test`).

    Returns
    -------
    PermutationTest
        Its `pvalue` is the test's attained level where it rejects, else 1: privacy is
        proved for this one bit, not for a rank.

    Raises
    ------
    ParameterError, UnattainableGuarantee, BudgetExceeded
        Because of parameters, shapes and types, never because of a record's values;
        nothing is spent then.

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
    # Everything that can be refused is refused before anything is paid.
    check_payer(ledger, label)
    with quiet_about_records():
        arrays = _sample_arrays(manifold, samples)
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
        level=mechanism.level,
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
    """Test whether two independent samples are from one law.

    Parameters
    ----------
    X, Y : array
        The samples, of shapes (n, *point_shape) and (m, *point_shape).
    manifold, radius, center
        As in `k_sample_test`.
    **options
        Further arguments of `k_sample_test`; `groups` is a pair of arrays, which say
        whose the records of X are and whose those of Y.

    Returns
    -------
    PermutationTest

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
    """Test whether the members of pairs (X[i], Y[i]) can change places.

    The unit of privacy is a pair.

    Parameters
    ----------
    X, Y : array
        As many records of each, shape (n, *point_shape).
    groups : array, optional
        One public id for each pair, where a person has several: each person's records
        of X are averaged, and so are those of Y, and the unit of privacy is a person.
    manifold, radius, center
        As in `k_sample_test`.
    **options
        Further arguments of `k_sample_test`.

    Returns
    -------
    PermutationTest

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


def _sample_arrays(manifold: Any, samples: Any) -> list[np.ndarray]:
    """Return the samples as arrays of doubles; only shapes and types are refused."""
    point_shape = check_manifold(manifold).point_shape
    if not isinstance(samples, list | tuple):
        raise ParameterError("samples must be a list of arrays, one a sample")
    arrays = []
    for number, sample in enumerate(samples, 1):
        array = to_float_records(f"sample {number}", sample, point_shape)
        if array.ndim != len(point_shape) + 1 or array.shape[1:] != point_shape:
            needed = f"(n, {', '.join(map(str, point_shape))})"
            raise ParameterError(
                f"sample {number} has shape {array.shape}, not {needed}"
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
    """Return one record for each person of each sample: the mean of their own in the ball.

    Parameters
    ----------
    manifold : Manifold
    arrays : list of arrays of shape (n, *point_shape)
        The samples.
    groups : sequence of arrays
        Whose record each is, for each sample.
    center, radius
        Of the public ball.
    statistic : type of KernelStatistic
        It says whether row i of every sample is one pair.
    """
    ball = public_ball(manifold, center, radius)
    sizes = [len(array) for array in arrays]
    person_indices = _index_persons(groups, sizes, statistic.is_paired)
    with quiet_about_records():
        return [
            person_means(manifold, ball, array, person_index)
            for array, person_index in zip(arrays, person_indices, strict=True)
        ]


def _person_unit(statistic: type[KernelStatistic]) -> ProtectedUnit:
    """Return the unit of people, of a statistic that knows them."""
    if ProtectedUnit.PERSON not in statistic.privacy_units:
        raise ParameterError(f"is not for {statistic.__name__}", parameter="groups")
    return ProtectedUnit.PERSON


def _index_persons(groups: Any, sizes: list[int], is_paired: bool) -> list[np.ndarray]:
    """Return whose record each is in every sample, as integers from 0 on.

    The sensitivity is that of one value in one sample. So nobody may be in two samples,
    and a pair belongs to one person.

    Parameters
    ----------
    groups : sequence of arrays of ids
        One for each sample.
    sizes : list of int
        The number of records of each sample.
    is_paired : bool
        Whether row i of every sample is one pair.
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
                "groups has a person in two samples; paired_test is for persons who are "
                "measured twice"
            )
        earlier_ids |= sample_ids
    return person_indices
