"""Are samples from one law? Private permutation tests, with a certificate."""

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
    """What a private test has released."""

    pvalue: float
    rejected: bool
    level: float
    statistic: str  # what was compared
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
    """Whether independent samples are from one law, by a private permutation test of level at most `level` at every n.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    samples : sequence of arrays
        Two or more, of shapes (n, *point_shape), each with its own n; of independent records, unless `groups` says whose
        they are.
    radius, center : float and point, optional
        The public ball; records are moved into it, so that the test is of their laws in the ball.
    guarantee : Guarantee
        What is asked for, for replacing one record of any sample; the sizes are public.
    level, permutations : float, int
        The largest probability of a rejection where the laws are the same; how many permutations, at least 1/level − 1.
    ledger, label : Ledger, str, optional
        The budget to spend from, of which nothing is spent on a refusal, and what its entry is called.
    source : Source, optional
        Replaces the cryptographic source in simulations, and is recorded.
    of : type of KernelStatistic
        What is compared.
    groups : sequence of arrays, optional
        For each sample, n public ids that say whose record each is. Then a person is the
        unit of privacy and of the test, however many records they have: each person's
        records are averaged in the ball first, as by the estimators, and the sizes are
        numbers of persons. Nobody may be in two samples (see `paired_test`).

    Returns
    -------
    PermutationTest
        With `pvalue`, the test's attained level where it rejects, else 1 (privacy is proved for this one bit, not for a
        rank), `rejected`, `level`, `statistic` (what was compared, in words) and `certificate`.

    Raises
    ------
    ParameterError, UnattainableGuarantee, BudgetExceeded
        Because of parameters, shapes and types, never because of a record's values; nothing is spent then.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> north, south, south_again = (Sphere(2).project(rng.normal([3.0, y, 0], 0.5, (400, 3))) for y in (0, 2, 2))
    >>> k_sample_test(Sphere(2), [north, south, south_again], radius=1.0).rejected
    True
    """
    if not (isinstance(of, type) and issubclass(of, KernelStatistic)):
        raise ParameterError(
            "must be a kind of KernelStatistic, such as SamplesDistance",
            parameter="of",
            value=of,
        )
    # Everything that can refuse has refused before anything is paid.
    check_payer(ledger, label)
    with quiet_about_records():
        arrays = _arrays(manifold, samples)
    unit: ProtectedUnit | None = None
    if groups is not None:
        unit = _person_unit(of)
        ball = public_ball(manifold, center, radius)
        codes = _codes_of_persons(
            groups, [len(array) for array in arrays], of.is_paired
        )
        with quiet_about_records():
            arrays = [
                person_means(manifold, ball, array, code)
                for array, code in zip(arrays, codes, strict=True)
            ]
    sizes = [len(array) for array in arrays]
    statistic = of(manifold, center, radius, sizes)  # type: ignore[arg-type]  # None is refused there
    mechanism = PermutationMechanism.calibrate(statistic, guarantee).at_level(
        level, permutations
    )
    source = check_source(source)
    with quiet_about_records():
        prepared = mechanism.prepare_data(arrays)
    entry = pay(ledger, label, guarantee, [mechanism], unit)
    release = mechanism.release(
        prepared,
        source=source,
        terms=ReleaseTerms(guarantee, unit, Choice(ChoiceRule.ONLY_ONE), entry),
        is_prepared=True,
    )
    pvalue = float(release.value[0])
    return PermutationTest(
        pvalue, pvalue < 1, mechanism.level, statistic.name, release.certificate
    )


def two_sample_test(
    manifold: Manifold,
    X: Any,
    Y: Any,
    radius: float | None = None,
    center: Any = None,
    **options: Any,
) -> PermutationTest:
    """`k_sample_test` of two samples.

    Parameters
    ----------
    X, Y : array
        The samples, shapes (n, *point_shape) and (m, *point_shape).
    manifold, radius, center, options
        As in `k_sample_test`; `groups` is a pair of arrays, whose the records of X are and
        whose those of Y.

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
    return k_sample_test(
        manifold, (X, Y), radius, center, **{"label": "two-sample test", **options}
    )


def paired_test(
    manifold: Manifold,
    X: Any,
    Y: Any,
    radius: float | None = None,
    center: Any = None,
    groups: Any = None,
    **options: Any,
) -> PermutationTest:
    """Whether the members of pairs (X[i], Y[i]) can change places; the unit of privacy is a pair.

    Parameters
    ----------
    X, Y : array
        As many records of each.
    groups : array, optional
        One public id for each pair, where a person has several: each person's records of X
        are averaged, and so are those of Y, and the unit of privacy is a person.
    manifold, radius, center, options
        As in `k_sample_test`.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Euclidean
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> bool(0 < paired_test(Euclidean(2), X, X, radius=2.0).pvalue <= 1)
    True
    """
    return k_sample_test(
        manifold,
        (X, Y),
        radius,
        center,
        of=PairedDistance,
        groups=None if groups is None else (groups, groups),
        **{"label": "paired test", **options},
    )


def _arrays(manifold: Any, samples: Any) -> list[np.ndarray]:
    """Return the samples as arrays of doubles; only shapes and types are refused."""
    shape = check_manifold(manifold).point_shape
    arrays = []
    if not isinstance(samples, list | tuple):
        raise ParameterError("samples must be a list of arrays, one a sample")
    for number, sample in enumerate(samples, 1):
        array = to_float_records(f"sample {number}", sample, shape)
        if array.ndim != len(shape) + 1 or array.shape[1:] != shape:
            raise ParameterError(
                f"sample {number} has shape {array.shape}, not (n, {', '.join(map(str, shape))})"
            )
        arrays.append(array)
    return arrays


def _person_unit(statistic: type[KernelStatistic]) -> ProtectedUnit:
    """Return the unit of people, of a statistic that knows them."""
    if ProtectedUnit.PERSON not in statistic.privacy_units:
        raise ParameterError(f"is not for {statistic.__name__}", parameter="groups")
    return ProtectedUnit.PERSON


def _codes_of_persons(
    groups: Any, sizes: list[int], is_paired: bool
) -> list[np.ndarray]:
    """Return whose record each is, from 0 on, in every sample.

    The sensitivity is that of one value in one sample. So nobody may be in two samples,
    and a pair belongs to one person.
    """
    if not isinstance(groups, list | tuple) or len(groups) != len(sizes):
        raise ParameterError(
            f"groups must be a list of {len(sizes)} arrays of ids, one for each sample"
        )
    codes = [encode_persons(ids, size) for ids, size in zip(groups, sizes, strict=True)]
    ids_of_samples = [as_label_array(ids).tolist() for ids in groups]
    if is_paired:
        if any(ids != ids_of_samples[0] for ids in ids_of_samples[1:]):
            raise ParameterError("groups must name one person for each pair")
        return codes
    seen: set[Any] = set()
    for ids in ids_of_samples:
        # Also as texts: one file may hold 7 and another "7" for the same person.
        here = {*ids, *map(str, ids)}
        if seen & here:
            raise ParameterError(
                "groups has a person in two samples; paired_test is for persons who are "
                "measured twice"
            )
        seen |= here
    return codes
