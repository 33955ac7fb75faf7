"""The audit of all mechanisms: a table of what each claims and what an attack proves.
An attack proves a lower bound on the privacy parameter ε (or μ) of a mechanism; a claim
below this bound is wrong. Each row of the table is one mechanism on one manifold. If
all claims are true, the probability that any of them is called violated is at most
1e-6.
"""

import zlib
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from time import process_time
from typing import NamedTuple

import numpy as np

from curvedp.audit.cases import Case, cases
from curvedp.audit.one_run import OptimizerCase, optimizer_cases
from curvedp.geometry.names import manifold_name

# The probability that any true claim in the whole table is called violated.
FAILURE = 1e-6


class Row(NamedTuple):
    """One row of the table: the result of the audit of one case.

    Attributes
    ----------
    mechanism, manifold : str
        The names of the mechanism and of the manifold.
    delta : float
        The δ at which ε is claimed and bounded.
    claimed, audited : float
        The claimed ε, and the lower bound that was proved.
    claimed_mu, audited_mu : float or None
        The same for μ; None for optimizers, which are audited from one run.
    tightness : float
        The larger ratio of a proved bound to its claim.
    holds : bool
        Whether no bound exceeds its claim.
    seconds : float
        The processor time that the audit took.
    """

    mechanism: str
    manifold: str
    delta: float
    claimed: float
    audited: float
    claimed_mu: float | None
    audited_mu: float | None
    tightness: float
    holds: bool
    seconds: float


class _AuditTask(NamedTuple):
    """The audit of one case, in a form that can be sent to another process.

    The fields have the meaning of the arguments of `audit_all`.
    """

    mechanism: str
    manifold: str
    samples: int
    canaries: int
    delta: float
    confidence: float
    seed: int | None
    noise_factor: float


def case_names(only: str = "") -> list[tuple[str, str]]:
    """Return the names (mechanism, manifold) of all cases that can be audited.

    Parameters
    ----------
    only : str
        List only the cases whose mechanism's name contains this.

    Returns
    -------
    list of (str, str)
        The names; optimizers are among them where JAX is installed.
    """
    all_cases: list[Case | OptimizerCase] = [*cases()]
    if find_spec("jax"):
        all_cases += optimizer_cases()
    return [_case_name(case) for case in all_cases if only in case.mechanism]


def _case_name(case: Case | OptimizerCase) -> tuple[str, str]:
    """Return the names of a case's mechanism and manifold, by which it is found again.

    Parameters
    ----------
    case : Case or OptimizerCase
        The case.
    """
    return case.mechanism, manifold_name(case.manifold)


def audit_all(
    samples: int = 100_000,
    canaries: int = 400,
    *,
    delta: float = 1e-2,
    only: str = "",
    jobs: int = 1,
    seed: int | None = None,
    noise_factor: float = 1.0,
    among: Collection[tuple[str, str]] | None = None,
) -> Iterator[Row]:
    """Audit every mechanism on every manifold, and yield a row of results for each.

    Parameters
    ----------
    samples : int
        The number of draws at each of two neighbors.
    canaries : int
        The number of records whose coins are guessed, for optimizers, which are audited
        from one run.
    delta : float
        The δ at which ε is bounded.
    only : str
        Audit only the cases whose mechanism's name contains this.
    jobs : int
        The number of processes.
    seed : int, optional
        The seed of an audit that can be repeated.
    noise_factor : float
        The factor by which the noise that is drawn is scaled, while the claim stays, to
        see whether wrong mechanisms are detected; not for optimizers.
    among : collection of (str, str), optional
        Audit only these of the `case_names`.

    Yields
    ------
    Row
        The result for one case.

    Examples
    --------
    >>> names = case_names("laplace")[:1]
    >>> [(row.mechanism, row.holds) for row in audit_all(1000, among=names, seed=0)]
    [('riemannian-laplace', True)]
    """
    names = [name for name in case_names(only) if among is None or name in among]
    confidence = 1 - FAILURE / max(len(case_names()), 1)
    audits = [
        _AuditTask(*name, samples, canaries, delta, confidence, seed, noise_factor)
        for name in names
    ]
    if jobs == 1:
        yield from map(_audit_case, audits)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_audit_case, audits)


def _audit_case(task: _AuditTask) -> Row:
    """Audit one mechanism on one manifold, and return its row of the table.

    This may run in another process. The random numbers of a case depend on the seed
    and its names only, not on the order of the audits.

    Parameters
    ----------
    task : _AuditTask
        The names of the case, and how thoroughly it is audited.

    Returns
    -------
    Row
        The claim, the proved bounds and the time that it took.
    """
    # Every case has its own random stream.
    stream = zlib.crc32(f"{task.mechanism} {task.manifold}".encode())
    rng = np.random.default_rng(None if task.seed is None else [task.seed, stream])

    started = process_time()
    case = _find_case(task.mechanism, task.manifold, task.noise_factor)
    is_one_run = isinstance(case, OptimizerCase)
    if isinstance(case, OptimizerCase):
        result = case.audit(task.canaries, task.confidence, rng)
    else:
        result = case.audit(task.samples, task.delta, task.confidence, rng)

    return Row(
        mechanism=task.mechanism,
        manifold=task.manifold,
        delta=result.delta,
        claimed=result.claimed,
        audited=result.audited,
        claimed_mu=None if is_one_run else result.claimed_mu,
        audited_mu=None if is_one_run else result.audited_mu,
        tightness=result.tightness,
        holds=result.holds,
        seconds=process_time() - started,
    )


def _find_case(
    mechanism: str, manifold: str, noise_factor: float
) -> Case | OptimizerCase:
    """Return the case with these names.

    Names can be sent to another process, but cases cannot.

    Parameters
    ----------
    mechanism, manifold : str
        The names, as `case_names` lists them.
    noise_factor : float
        The factor by which the noise that the case draws is scaled.

    Returns
    -------
    Case or OptimizerCase
        The case, which is built anew.

    Raises
    ------
    LookupError
        If there is none.
    """
    for case in cases(noise_factor):
        if _case_name(case) == (mechanism, manifold):
            return case
    for optimizer_case in optimizer_cases():
        if _case_name(optimizer_case) == (mechanism, manifold):
            return optimizer_case
    raise LookupError(f"there is no case of {mechanism} on {manifold}")
