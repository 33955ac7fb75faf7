"""The privacy budget of one data set, on disk.

The whole state is one SQLite file: copies, pickles, threads, forks and other processes of a `Ledger` all spend from the
same budget. Amounts are exact rationals, so no rounding ever admits one release too many.

**A valid filter.** Guarantees may be chosen after the releases before them were seen, and so may the moment to stop:
whatever is released within the budget satisfies the budget. What adds up, and who proved it for adaptive choices:

| budget | adds up | proof |
|---|---|---|
| PureDP, ApproxDP | ε and δ | Rogers, Roth, Ullman and Vadhan 2016, Thm 3.6 (basic composition) |
| ZCDP, RenyiDP | ρ; ε at the one order | Feldman and Zrnic 2021, Thm 4.3; Lécuyer 2021 |
| KLDP | α | the chain rule: KL = E Σα_t |
| MeanConcentratedDP | m and τ² | as Rényi, at every order at once: D_α <= Σm + (α − 1)Στ²/2 |
| GDP | μ² | Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2023 |
| RaoDP, parametric | θ² | the chain rule of Fisher information, see `curvedp.ledger.rule` |

Composing the profiles of the releases numerically is tighter for parameters that are fixed beforehand, and is not valid
for adaptive ones (Honkela et al. 2026): a ledger never does it.

**An (ε, δ) budget** takes releases of every definition. (ε, δ) and pure releases are added up. The first release of another
definition turns all that is left of the budget into the largest budget of that definition which implies it, and from then on
everything is counted there. So a hundred GDP releases cost √(Σμ²), not a hundred times (ε, δ).

**What the chain of hashes shows.** Each entry's hash covers all entries before it. Damage by accident is noticed when the
ledger is opened. Whoever can write the file on purpose can also recompute the hashes: against him use a `key` that he
cannot read. Against a file put back to an older copy no file can help itself: note `Entry.hash` elsewhere (certificates do),
and ask `extends` or `verify`.
"""

from curvedp.ledger.book import Entry, Ledger

__all__ = ["Entry", "Ledger"]
