"""The Arrow interface of a log for its callers: tables in (arrow_in), record batches out (arrow_out).

Importing this loads pyarrow and numba; the log does so at the first batch call.
"""

from seglog.arrow.columns import partitions_of
from seglog.arrow.encodable import EncodableRows, Encoded
from seglog.arrow.from_store import BatchDecoder, decode_batches, record_schema
from seglog.arrow.to_rows import ArrowBatch
from seglog.kernels import point, unchanged
from seglog.kernels.layout import ENTRY, MARK, MarksState
from seglog.kernels.scan import StoreScan, scan_chunks, scan_store

__all__ = [
    "ENTRY",
    "MARK",
    "ArrowBatch",
    "BatchDecoder",
    "EncodableRows",
    "Encoded",
    "MarksState",
    "StoreScan",
    "decode_batches",
    "partitions_of",
    "record_schema",
    "scan_chunks",
    "scan_store",
]

point.load()  # from now on single reads use these kernels, too
unchanged.load()
