"""Are samples from one law? Private permutation tests, with a certificate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.inference.kernel import KernelStatistic, PairedDistance, SamplesDistance
from curvedp.inference.permutation import PermutationMechanism
from curvedp.ledger import Ledger
from curvedp.mechanisms.base import check_source
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.payment import check_payer, pay
from curvedp.privacy import GDP, Guarantee
from curvedp.records.tables import entries


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
) -> PermutationTest:
    """Whether independent samples are from one law, by a private permutation test of level at most `level` at every n.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    samples : sequence of arrays
        Two or more, of shapes (n, *point_shape), each with its own n; of independent records, such as one mean a person.
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
            f"of={_validate.shown(of)} must be a kind of KernelStatistic, such as SamplesDistance"
        )
    with quiet_about_records():
        sizes = _sizes(manifold, samples)
    statistic = of(manifold, center, radius, sizes)  # type: ignore[arg-type]  # None is refused there
    check_payer(
        ledger, label
    )  # everything that can refuse has refused before anything is paid
    mechanism = PermutationMechanism.for_statistic(statistic, guarantee).at(
        level, permutations
    )
    source = check_source(source)
    with quiet_about_records():
        accepted = mechanism.accepted(samples)
    entry = pay(ledger, label, guarantee, [mechanism])
    told: Any = {
        "source": source,
        "guarantee": guarantee,
        "reason": "the test that was asked for",
        "entry": entry,
    }
    release = mechanism.release(accepted, **told, ready=True)
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
        As in `k_sample_test`.

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
    **options: Any,
) -> PermutationTest:
    """Whether the members of pairs (X[i], Y[i]) can change places; the unit of privacy is a pair.

    Parameters
    ----------
    X, Y : array
        As many records of each.
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
        **{"label": "paired test", **options},
    )


def _sizes(manifold: Any, samples: Any) -> list[int]:
    shape, sizes = check_manifold(manifold).point_shape, []
    if not isinstance(samples, list | tuple):
        raise ParameterError("samples must be a list of arrays, one a sample")
    for number, sample in enumerate(samples, 1):
        array = entries(f"sample {number}", sample, shape)
        if array.ndim != len(shape) + 1 or array.shape[1:] != shape:
            raise ParameterError(
                f"sample {number} has shape {array.shape}, not (n, {', '.join(map(str, shape))})"
            )
        sizes.append(len(array))
    return sizes
