"""Records on a cluster: estimators and DP-RGD take dask arrays, and their results do not depend on how these are chunked.

Workers see records and send back exact sums over them (`geometry.fixed_point`), added up along a tree. The client moves the
iterate, charges the ledger once and adds the noise once, at the end. No record leaves its worker but for the first few
thousand, which one worker gathers to find a start. A task lost with its worker is computed again, to the same bits.
"""

from curvedp.distributed.labels import ChunkedLabels, Labels
from curvedp.distributed.parquet import from_parquet
from curvedp.distributed.records import ChunkedRecords, by_chunks, check_sizes, is_chunked, refuse_chunked

__all__ = [
    "ChunkedLabels",
    "ChunkedRecords",
    "Labels",
    "by_chunks",
    "check_sizes",
    "from_parquet",
    "is_chunked",
    "refuse_chunked",
]
