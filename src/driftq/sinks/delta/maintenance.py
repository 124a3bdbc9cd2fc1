"""Keeping a live table quick: small files become large ones, and replaced ones go after their time.

delta-rs writes a checkpoint of the log every 100 commits and removes entries that are older than the table's
history. The rest is done here, by the run that writes the table, after a batch:

- every 64 commits, files are compacted where there are more than 16, and out-of-order events that their
  aggregate has reached are removed;
- every 512 commits, files that were replaced longer ago than the history are deleted.

Both are commits without a position, so a run that was replaced meanwhile does no harm. Failures are logged:
the batch is settled. What abandoned rebuilds have left is removed after a swap, if it is older than a week: a
rebuild that takes longer would lose its files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from driftq.sinks.delta.failures import cause_of
from driftq.sinks.delta.notes import DeltaNote, DeltaNotes
from driftq.sinks.delta.tables import CommitOvertaken, ExactTable

logger = logging.getLogger("driftq.projection")
_COMPACT_COMMITS = 64
_VACUUM_COMMITS = 512
_FILES_MAX = 16
_ABANDONED_HOURS = 7 * 24


class Maintenance:
    """When one run has last looked after its table."""

    def __init__(self) -> None:
        self._compacted = 0
        self._vacuumed = 0

    def begin(self, table: ExactTable) -> None:
        """By version, so that short runs share the work."""
        self._compacted = table.version // _COMPACT_COMMITS
        self._vacuumed = table.version // _VACUUM_COMMITS

    def is_due(self, table: ExactTable) -> bool:
        return table.version // _COMPACT_COMMITS > self._compacted

    def run(self, table: ExactTable, notes: DeltaNotes, reached: Callable[[], list[DeltaNote]]) -> None:
        self._compacted = table.version // _COMPACT_COMMITS
        vacuums = table.version // _VACUUM_COMMITS > self._vacuumed
        self._vacuumed = table.version // _VACUUM_COMMITS
        with _excused(table, "cannot be compacted"):
            notes.discard(reached())
            for each in filter(None, (table, notes.table())):
                compact(each)
                if vacuums:
                    vacuum(each)


def compact(table: ExactTable) -> None:
    if len(table.table.file_uris()) > _FILES_MAX:
        table.table.optimize.compact(commit_properties=CommitProperties(max_commit_retries=0))


def vacuum(table: ExactTable) -> None:
    """Delete the files that commits have replaced longer ago than the table's history."""
    table.table.vacuum(dry_run=False)


def remove_leftovers(live: ExactTable, notes: DeltaNotes, *, generation: int) -> None:
    """After a swap: notes of the rows that were replaced, and files that no version names."""
    with _excused(live, "still has what an earlier rebuild left"):
        notes.drop_before(generation)
        live.table.vacuum(retention_hours=_ABANDONED_HOURS, dry_run=False, full=True)


@contextmanager
def _excused(table: ExactTable, problem: str) -> Iterator[None]:
    try:
        yield
    except (CommitFailedError, CommitOvertaken):
        pass  # Another writer is there, and the next turn comes.
    except (DeltaError, OSError) as error:
        logger.warning("%s %s: %s", table.location.uri, problem, cause_of(error))
