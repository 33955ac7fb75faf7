"""The privacy budget of one data set, on disk.

The whole state is one SQLite file: copies, pickles, threads, forks and other processes of a `Ledger` all spend from the
same budget. Amounts are exact rationals, so no rounding ever admits one release too many.

**A valid filter.** Guarantees may be chosen after the releases before them were seen, and so may the moment to stop:
whatever is released within the budget satisfies the budget. What adds up, and who proved it for adaptive choices, is in
docs/ledger.md; composing profiles numerically is not valid for adaptive ones (Honkela et al. 2026): a ledger never does it.

**An (ε, δ) budget** takes releases of every definition. (ε, δ) and pure releases are added up. The first release of another
definition turns all that is left of the budget into the largest budget of that definition which implies it, and from then on
everything is counted there.

**The chain of hashes**: each entry's covers all entries before it, which shows damage by accident. Whoever can write the file
can recompute them: against him use a `key` that he cannot read. Against a file put back to an older copy no file can help
itself: note `Entry.hash` elsewhere (certificates do), and ask `extends` or `verify`.
"""

from curvedp.ledger.book import Entry, Ledger

__all__ = ["Entry", "Ledger"]
