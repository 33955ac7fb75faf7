"""The privacy budget of one data set, in one SQLite file on disk.

All copies, pickles, threads and processes spend from the same file. It is a valid
filter: whatever is released within the budget satisfies the budget, even if each
guarantee, and the moment to stop, is chosen after the earlier releases were seen.
Entries are chained by hashes. docs/theory/accounting.md, "Adaptive choices", has the
theorems, and docs/howto/budget.md states who can still cheat.
"""

from curvedp.ledger.book import Entry, Ledger
from curvedp.ledger.store import write_key

__all__ = ["Entry", "Ledger", "write_key"]
