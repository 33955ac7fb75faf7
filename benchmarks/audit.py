"""Claimed against audited: every mechanism on every manifold at 10⁶ outputs a side, the optimisers from one run.

`python -m benchmarks.audit [samples] [jobs]`; exit code 1 if a claim was refuted. The whole table fails to hold for true
claims with probability at most 1e-6. Below the table: the same audit with σ understated by 10%, which must be caught.
"""

import dataclasses
import sys
import time

import numpy as np

from curvedp.audit import audit_all, audit_mechanism
from curvedp.audit.cases import CHART, GAUSSIAN
from curvedp.mechanisms import GaussianMechanism, LogGaussianMechanism


def main(samples: int = 1_000_000, jobs: int = 2) -> int:
    started, refuted = time.perf_counter(), 0
    print(f"{'mechanism':20s} {'manifold':28s} {'δ':>7s} {'ε claimed':>9s} {'audited':>8s} {'μ claimed':>9s} {'audited':>8s}"
          f" {'tight':>6s} {'CPU s':>6s}")  # fmt: skip
    for row in audit_all(samples, canaries=1000, jobs=jobs, seed=0):
        mu = "" if row.claimed_mu is None else f"{row.claimed_mu:9.4f} {row.audited_mu:8.4f}"
        verdict = "" if row.holds else "  VIOLATED"
        refuted += not row.holds
        print(f"{row.mechanism:20s} {row.manifold:28s} {row.delta:7.0e} {row.claimed:9.4f} {row.audited:8.4f} {mu:>18s}"
              f" {row.tightness:6.1%} {row.seconds:6.1f}{verdict}", flush=True)  # fmt: skip
    print(f"{time.perf_counter() - started:.0f} s on {jobs} processes; violated: {refuted}\n")
    print("σ understated by 10%: audited μ over claimed μ, caught above 1")
    missed = 0
    wrong = [(GaussianMechanism(space, 0.5, 0.5), {"sigma": 0.45}) for space in GAUSSIAN[:5]]
    wrong += [
        (LogGaussianMechanism(space, 0.2, 0.2, space.origin, 0.5), {"scale": 0.18}) for space in CHART if space.dim < 9
    ]
    for mechanism, change in wrong:
        sampler = dataclasses.replace(mechanism, **change)
        found = audit_mechanism(mechanism, samples, 1e-2, rng=np.random.default_rng(1), sampler=sampler)
        missed += found.holds
        caught = "missed" if found.holds else "caught"
        print(f"{mechanism.name:20s} {mechanism.manifold!s:44s} {found.audited_mu / found.claimed_mu:6.3f}  {caught}",
              flush=True)  # fmt: skip
    print(f"{time.perf_counter() - started:.0f} s in all")
    return int(bool(refuted or missed))


if __name__ == "__main__":
    sys.exit(main(*(int(float(a)) for a in sys.argv[1:3])))
