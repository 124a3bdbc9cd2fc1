"""A handle on one Delta table whose commits are exact: at the version after the one that was read, or never.

delta-rs can rebase a commit on others that came first, where it thinks that they do not conflict, and it
stores application transactions without comparing them. Here nothing is rebased: a writer compares what is
stored on a handle, and its commit on that handle succeeds only if nothing was committed since.

delta-rs does not sync what it writes to a local disk, so that is done here after each commit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from driftq.sinks.delta.sink import TableLocation

if TYPE_CHECKING:
    from deltalake.table import TableMerger

_CHECKPOINT_COMMITS = 100
_LOG = "_delta_log"


class CommitOvertaken(Exception):
    """Another commit came first: refresh the table and decide again."""


class ExactTable:
    """A table as it was when it was opened or last refreshed."""

    def __init__(self, table: DeltaTable, location: TableLocation) -> None:
        self.table = table
        self.location = location

    @classmethod
    def open(cls, location: TableLocation) -> ExactTable | None:
        """None where there is no table."""
        try:
            return cls(DeltaTable(location.uri, storage_options=dict(location.options)), location)
        except TableNotFoundError:
            return None

    @classmethod
    def make(
        cls,
        location: TableLocation,
        schema: pa.Schema,
        *,
        indexed: Sequence[str],
        partition_by: Sequence[str] = (),
        history_hours: int,
    ) -> ExactTable:
        """The table, created where it is missing. Of `indexed` columns the log has minimum and maximum."""
        found = cls.open(location)
        if found is not None:
            return found
        history = f"interval {history_hours} hours"
        configuration = {
            "delta.checkpointInterval": str(_CHECKPOINT_COMMITS),
            "delta.dataSkippingStatsColumns": ",".join(indexed),
            "delta.deletedFileRetentionDuration": history,
            "delta.logRetentionDuration": history,
        }
        try:
            table = DeltaTable.create(
                location.uri,
                schema,
                partition_by=list(partition_by),
                configuration=configuration,
                storage_options=dict(location.options),
                commit_properties=_exactly({}),
            )
        except DeltaError:
            found = cls.open(location)  # Another run may have created it meanwhile.
            if found is None:
                raise
            return found
        made = cls(table, location)
        made._sync()
        return made

    @property
    def version(self) -> int:
        return self.table.version()

    def refresh(self) -> None:
        self.table.update_incremental()

    def stored(self, name: str) -> int | None:
        """The number that the last commit with such a transaction has stored, as of this version."""
        return self.table.transaction_version(name)

    def read(self, schema: pa.Schema, *, where: pc.Expression | None = None) -> pa.Table:
        """The rows of this version. Its dataset is of no use here: after a merge it compares unlike types."""
        tables = [schema.empty_table()]
        for batch in pa.RecordBatchReader.from_stream(self.table.scan(columns=schema.names)):
            found = pa.Table.from_batches([batch]).cast(schema)
            tables.append(found if where is None else found.filter(where))
        return pa.concat_tables(tables)

    def merge(
        self, rows: pa.Table, *, on: Sequence[str], update_if: str, numbers: Mapping[str, int] | None = None
    ) -> None:
        """Insert those rows `s` that are not there by these columns, and update a `t` for which it holds."""
        read = self.version
        with _overtaking(self):
            merger = self._merger(rows, on, numbers or {})
            merger.when_matched_update_all(predicate=update_if).when_not_matched_insert_all().execute()
        if self.version > read:
            self._sync()
        elif numbers:
            self.commit(numbers)  # A merge that changes no row makes no commit, and loses them.

    def discard(self, rows: pa.Table, *, on: Sequence[str]) -> None:
        """Remove the rows that equal one of these in these columns."""
        with _overtaking(self):
            self._merger(rows, on, {}).when_matched_delete().execute()

    def delete(self, where: str) -> None:
        with _overtaking(self):
            self.table.delete(where, commit_properties=_exactly({}))

    def commit(self, numbers: Mapping[str, int]) -> None:
        """Store numbers and no rows."""
        self._write((), "append", numbers)

    def replace_files(self, files: Sequence[AddAction], numbers: Mapping[str, int]) -> None:
        """From one version to the next the table consists of these files and no others."""
        self._write(files, "overwrite", numbers)

    def files(self, *, under: str) -> list[AddAction]:
        """Its files, as a table would name them in whose folder this one is `under`."""
        found = pa.table(self.table.get_add_actions(flatten=False))
        return [
            AddAction(
                f"{under}/{each['path']}",
                each["size_bytes"],
                {},
                each["modification_time"],
                True,
                json.dumps(
                    {
                        "numRecords": each["num_records"],
                        "minValues": each.get("min") or {},
                        "maxValues": each.get("max") or {},
                        "nullCount": each.get("null_count") or {},
                    }
                ),
            )
            for each in found.to_pylist()
        ]

    def _merger(self, rows: pa.Table, on: Sequence[str], numbers: Mapping[str, int]) -> TableMerger:
        return self.table.merge(
            rows,
            " AND ".join(f"t.{name} = s.{name}" for name in on),
            source_alias="s",
            target_alias="t",
            commit_properties=_exactly(numbers),
        )

    def _write(self, files: Sequence[AddAction], mode: str, numbers: Mapping[str, int]) -> None:
        with _overtaking(self):
            self.table.create_write_transaction(
                list(files), mode, self.table.schema(), commit_properties=_exactly(numbers)
            )
        written = self.version + 1
        self.refresh()  # This call leaves the handle where it was.
        self._sync(written)

    def _sync(self, version: int | None = None) -> None:
        """The files of a commit, and then the commit."""
        if not self.location.is_local:
            return
        root = Path(self.location.uri)
        entry = root / _LOG / f"{self.version if version is None else version:020}.json"
        folders = {root, root / _LOG}
        for line in entry.read_bytes().splitlines():
            added = json.loads(line).get("add")
            if added is not None:
                file = root / unquote(added["path"])
                folders.add(file.parent)
                _fsync(file)
        for path in (entry, *sorted(folders)):
            _fsync(path)


@contextmanager
def _overtaking(table: ExactTable) -> Iterator[None]:
    """A commit that fails is a race if the table has moved; otherwise it is a failure."""
    read = table.version
    try:
        yield
    except CommitFailedError as error:
        table.refresh()
        if table.version > read:
            raise CommitOvertaken from error
        raise


def _exactly(numbers: Mapping[str, int]) -> CommitProperties:
    transactions = [Transaction(name, number) for name, number in numbers.items()]
    return CommitProperties(max_commit_retries=0, app_transactions=transactions)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
