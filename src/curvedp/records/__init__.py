"""Records wherever they lie: read from files, frames and lists, in memory, on a device, or in chunks on a cluster.

What is not a record (text, a missing cell, a line too short) is NaN; what it holds changes neither n nor whether it is read.

Of chunked records workers see their own and send back exact sums over them (`geometry.fixed_point`), added up along a tree.
The client moves the iterate, charges the ledger once and adds the noise once, at the end. No record leaves its worker but for
the first few thousand, which one worker gathers to find a start. A task lost with its worker is computed again, to the same
bits.
"""

from curvedp.records.files import read_column, read_records
from curvedp.records.forms import FORMS
from curvedp.records.volumes import from_parquet

__all__ = ["FORMS", "from_parquet", "read_column", "read_records"]
