"""Topics as Parquet tables: how a round writes them, and which files a reader may open.

Readers import `table_files` from here.
"""

from driftq.tables.reader import table_files

__all__ = ["table_files"]
