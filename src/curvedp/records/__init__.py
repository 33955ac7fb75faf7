"""Reading records from files, frames and lists, and holding them wherever they lie.
Records may be in memory, on a device, or in chunks on a cluster. What is not a record
(a text, a missing cell, a line that is too short) is NaN: its content changes neither n
nor whether the data set is read.

Workers see their own chunks of chunked records only, and send back exact sums over them
(`numerics.fixed_point`), which are added up along a tree. The client moves the iterate,
charges the ledger once and adds the noise once, at the end. No record leaves its worker
but for the first few thousand, which one worker gathers to find a start. A task that is
lost with its worker is computed again, to the same bits.
"""

from curvedp.records.files import read_column, read_records
from curvedp.records.forms import FORMS
from curvedp.records.parquet_files import from_parquet

__all__ = ["FORMS", "from_parquet", "read_column", "read_records"]
