"""The audit of everything: claimed against audited, one row a mechanism and manifold, total failure at most 1e-6."""

import zlib
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from itertools import chain
from multiprocessing import get_context
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from curvedp.audit.cases import cases
from curvedp.audit.one_run import OptimizerCase, optimizer_cases
from curvedp.geometry.names import manifold_name

FAILURE = 1e-6  # that any true claim in the whole table is called violated


class Row(NamedTuple):
    """One line of the table: what `AuditResult` says of a case; μ is None for optimizers, which are audited from one run."""

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


def case_names(only: str = "") -> list[tuple[str, str]]:
    """(mechanism, manifold) of every case whose mechanism's name holds `only`; optimizers where JAX is installed."""
    every: list[Any] = [*cases(), *(optimizer_cases() if find_spec("jax") else ())]
    return [
        (case.mechanism, manifold_name(case.manifold))
        for case in every
        if only in case.mechanism
    ]


def audit_all(
    samples: int = 100_000,
    canaries: int = 400,
    *,
    delta: float = 1e-2,
    only: str = "",
    jobs: int = 1,
    seed: int | None = None,
    shrunk: float = 1.0,
    among: Collection[tuple[str, str]] | None = None,
) -> Iterator[Row]:
    """Audit every case: rows of mechanism, manifold, δ, what is claimed and proved, tightness, whether it holds, seconds.

    Parameters
    ----------
    samples, canaries : int
        Draws at each neighbor; for optimizers, which are audited from one run, records whose coins are guessed.
    delta : float
        At which ε is bounded.
    only : str
        Cases whose name contains this.
    jobs : int
        Processes.
    seed : int, optional
        For studies that must repeat.
    shrunk : float
        Noise drawn over noise claimed, to see which cheats are caught; not for optimizers.
    among : collection of (str, str), optional
        Some of the `case_names`.

    Examples
    --------
    >>> [(row.mechanism, row.holds) for row in audit_all(1000, among=case_names("laplace")[:1], seed=0)]
    [('riemannian-laplace', True)]
    """
    names = [name for name in case_names(only) if among is None or name in among]
    confidence = 1 - FAILURE / max(len(case_names()), 1)
    work = [
        (*name, samples, canaries, delta, confidence, seed, shrunk) for name in names
    ]
    if jobs == 1:
        yield from map(_row, work)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_row, work)


def _row(work: tuple[str, str, int, int, float, float, int | None, float]) -> Row:
    mechanism, manifold, samples, canaries, delta, confidence, seed, shrunk = work
    key = zlib.crc32(
        f"{mechanism} {manifold}".encode()
    )  # a stream of its own for each case
    rng = np.random.default_rng(None if seed is None else [seed, key])
    started = process_time()
    every: Any = chain(cases(shrunk), optimizer_cases())
    case = next(
        c
        for c in every
        if (c.mechanism, manifold_name(c.manifold)) == (mechanism, manifold)
    )
    once = isinstance(case, OptimizerCase)
    found = (
        case.audit(canaries, confidence, rng)
        if once
        else case.audit(samples, delta, confidence, rng)
    )
    mu: Any = (None, None) if once else (found.claimed_mu, found.audited_mu)
    numbers = (
        found.delta,
        found.claimed,
        found.audited,
        *mu,
        found.tightness,
        found.holds,
    )
    return Row._make((mechanism, manifold, *numbers, process_time() - started))
