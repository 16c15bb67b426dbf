"""Columns with one value for each row into a Parquet file, some rows at a time, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from armillary.durable.whole import whole_file


def write_row_table(path: str | os.PathLike[str], parts: Iterable[Mapping[str, Any]], who: str) -> int:
    """Write columns by name, part by part in the order of rows; each part is a row group. Returns how many rows."""
    n_rows = 0
    with whole_file(path, who) as stream:
        writer = None
        try:
            for part in parts:
                table = pa.table(dict(part))
                writer = writer or pyarrow.parquet.ParquetWriter(stream, table.schema, compression="zstd")
                writer.write_table(table, row_group_size=max(1, table.num_rows))
                n_rows += table.num_rows
        finally:
            if writer is not None:
                writer.close()
    return n_rows
