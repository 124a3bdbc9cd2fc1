"""Read a topic as a table: seal it, list its Parquet files, and aggregate them with Arrow.

A topic with `table=True` is also kept as Parquet files without gaps or doubles. Any tool that reads Parquet
can query it without a consumer and without load on the broker.
"""

import os
import tempfile

import pyarrow.parquet

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("sales", partitions=2, table=True)
    for number in range(100):
        broker.produce("sales", {"total": number}, key=f"user:{number}", tenant_id=f"shop-{number % 3}")
    broker.seal()  # Returns when everything produced so far is in the table.

    files = driftq.table_files(os.path.join(folder, "tables", "sales"))
    table = pyarrow.parquet.read_table(files)
    print(f"{table.num_rows} rows in {len(files)} files")
    counts = table.group_by("tenant_id").aggregate([("offset", "count")]).sort_by("tenant_id")
    for row in counts.to_pylist():
        print(f"{row['tenant_id']}: {row['offset_count']} sales")
