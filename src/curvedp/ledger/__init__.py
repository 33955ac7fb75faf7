"""The privacy budget of one data set, on disk: one SQLite file, from which all copies, pickles, threads and processes spend.

It is a valid filter: whatever is released within the budget satisfies the budget, each guarantee and the moment to stop
chosen after the releases before were seen. Entries are chained by hashes. docs/ledger.md has the theorems, and who can
still cheat.
"""

from curvedp.ledger.book import Entry, Ledger
from curvedp.ledger.store import write_key

__all__ = ["Entry", "Ledger", "write_key"]
