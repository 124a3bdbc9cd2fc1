"""Batches that Spark's tasks write as Parquet files, and the manifest that makes each of them count.

A file that no manifest names does not exist for readers, so an attempt's report is the list of its files. The
folder must be the same for all tasks. One task also merges files where there are many: the driver reads no
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from driftq.errors import InvalidArgument, ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks.arrow_rows import (
    ANY_CHANGES,
    NO_KEY,
    WAITING,
    as_table,
    dead_letter_table,
    merge_files,
    newest,
    read_table,
    split_keyed,
    stored_dead_letters,
    tuples,
    without_key,
    write_table,
)
from driftq.sinks.manifest import ReadModelManifest, RowFile, advanced, mergeable
from driftq.sinks.port import (
    AttemptReport,
    Change,
    FindDeadLetters,
    OutOfOrderEvent,
    ProjectionDeadLetter,
    PublishDeadLetters,
    StagedCommit,
    WriterEpoch,
)

if TYPE_CHECKING:
    from driftq.sinks.parquet.model import ParquetReadModel

_RECENT_MAX = 32
"""Each task of a batch adds a file, so they become many sooner than where the driver writes one."""
_MERGING_TASK = 0
_PAGE = 500
"""Dead letters in the driver's memory."""


class MergedFiles(msgspec.Struct, frozen=True):
    """Files that one attempt has put together, and what became of them."""

    rows: RowFile | None = None
    of_rows: tuple[RowFile, ...] = ()
    waiting: str | None = None
    of_waiting: tuple[str, ...] = ()


class AttemptFiles(msgspec.Struct, frozen=True):
    """The files of one attempt."""

    rows: tuple[RowFile, ...] = ()
    waiting: tuple[RowFile, ...] = ()
    dead_letters: tuple[RowFile, ...] = ()
    refused: tuple[RowFile, ...] = ()
    """Changes without a key or a sequence: a user's fold may make such."""
    merged: MergedFiles = MergedFiles()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AttemptFiles).decode


class ParquetBatch:
    """One batch: where tasks write its files, and the right to commit them."""

    def __init__(self, model: ParquetReadModel, writer_epoch: WriterEpoch, writer: ParquetTaskWriter) -> None:
        self._model = model
        self._writer_epoch = writer_epoch
        self.writer = writer

    @classmethod
    def open(cls, model: ParquetReadModel, writer_epoch: WriterEpoch) -> ParquetBatch:
        with model.reaching():
            manifest = model.require(writer_epoch)
        rows = mergeable(manifest.rows, recent_max=_RECENT_MAX)
        waiting = manifest.waiting_files if len(manifest.waiting_files) > _RECENT_MAX else ()
        return cls(model, writer_epoch, ParquetTaskWriter(model, rows, waiting))

    def commit(self, commit: StagedCommit) -> None:
        with self._model.reaching():
            self._model.require(self._writer_epoch)
            parts = [_decode(each.detail) for each in sorted(commit.reports, key=lambda report: report[:2])]
            for part in parts:
                self._require_whole((*part.rows, *part.waiting, *part.dead_letters, *part.refused))
            dead: tuple[str, ...] = tuple(file.name for part in parts for file in part.dead_letters)
            self._publish(dead, commit.publish_dead_letters)
            own = [*commit.dead_letters, *self._refused(parts, commit.find_dead_letters)]
            if own:
                dead += (write_table(self._model.folder, "dead", dead_letter_table(own)),)
            while True:
                manifest = self._model.require(self._writer_epoch)
                following = _following(manifest, parts, dead, commit)
                if self._model.manifests.publish(following):
                    break
            if len(following.files) < len(manifest.files):
                self._model.sweep()

    def _publish(self, files: Sequence[str], publish: PublishDeadLetters | None) -> None:
        if publish is None:
            return
        for name in files:
            with pq.ParquetFile(self._model.folder / name) as file:
                for page in file.iter_batches(_PAGE):
                    publish(stored_dead_letters(pa.Table.from_batches([page])))

    def _refused(
        self, parts: Sequence[AttemptFiles], find: FindDeadLetters | None
    ) -> Iterable[ProjectionDeadLetter]:
        """The dead letters of changes that no file can hold; raises InvalidArgument where none are wanted."""
        names = [file.name for part in parts for file in part.refused]
        if not names:
            return ()
        if find is None:
            raise InvalidArgument("row", NO_KEY)
        return find(without_key(read_table(self._model.folder, names, ANY_CHANGES)))

    def _require_whole(self, files: Sequence[RowFile]) -> None:
        for file in files:
            found = pq.read_metadata(self._model.folder / file.name).num_rows
            if found != file.rows:
                raise ReadModelUnavailable(
                    self._model.address, cause=f"{file.name} has {found} rows, and its task wrote {file.rows}"
                )


def _following(
    manifest: ReadModelManifest, parts: Sequence[AttemptFiles], dead: tuple[str, ...], commit: StagedCommit
) -> ReadModelManifest:
    """The next version: merged files in the place of theirs, then those of the batch."""
    rows, waiting = manifest.rows, manifest.waiting_files
    for merged in (part.merged for part in parts):
        count = len(merged.of_rows)
        if merged.rows is not None and rows[len(rows) - count :] == merged.of_rows:
            rows = (*rows[: len(rows) - count], merged.rows)
        if merged.of_waiting and waiting == merged.of_waiting:
            waiting = (merged.waiting,) if merged.waiting else ()
    waiting += tuple(file.name for part in parts for file in part.waiting)
    return msgspec.structs.replace(
        manifest,
        version=manifest.version + 1,
        rows=rows + tuple(file for part in parts for file in part.rows),
        waiting=None,
        more_waiting=waiting,
        dead_letters=manifest.dead_letters + dead,
        reached=advanced(manifest.positions, commit.positions),
    )


@dataclass(frozen=True, slots=True)
class ParquetTaskWriter:
    """Begins attempts at one batch; one of its tasks merges these files."""

    model: ParquetReadModel
    merge_rows: tuple[RowFile, ...] = ()
    merge_waiting: tuple[str, ...] = ()

    def begin(self, *, task: int, attempt: int) -> ParquetAttempt:
        return ParquetAttempt(self, task=task, attempt=attempt)


class ParquetAttempt:
    """One attempt: each call writes a file."""

    def __init__(self, writer: ParquetTaskWriter, *, task: int, attempt: int) -> None:
        self._writer = writer
        self._model = writer.model
        self._task = task
        self._attempt = attempt
        self._rows: list[RowFile] = []
        self._waiting: list[RowFile] = []
        self._dead_letters: list[RowFile] = []
        self._refused: list[RowFile] = []

    def current(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        return self._model.current(aggregates)

    def waiting(self, aggregates: Sequence[Aggregate]) -> list[OutOfOrderEvent]:
        return self._model.waiting(aggregates)

    def write_changes(self, changes: pa.Table) -> None:
        rows, others = split_keyed(changes)
        self._rows += self._write("rows", newest(rows))
        self._refused += self._write("refused", others)

    def write_waiting(self, events: Sequence[OutOfOrderEvent]) -> None:
        self._waiting += self._write("waiting", as_table(events, WAITING))

    def write_dead_letters(self, dead_letters: Sequence[ProjectionDeadLetter]) -> None:
        self._dead_letters += self._write("dead", dead_letter_table(dead_letters))

    def finish(self) -> AttemptReport:
        with self._model.reaching():
            merged = self._merged() if self._task == _MERGING_TASK else MergedFiles()
        files = AttemptFiles(
            tuple(self._rows), tuple(self._waiting), tuple(self._dead_letters), tuple(self._refused), merged
        )
        return AttemptReport(
            self._task,
            self._attempt,
            changes=sum(file.rows for file in (*files.rows, *files.refused)),
            waiting=sum(file.rows for file in files.waiting),
            dead_letters=sum(file.rows for file in files.dead_letters),
            detail=_encode(files),
        )

    def close(self) -> None:
        """Nothing to close: files that no report names are swept some time later."""

    def _write(self, kind: str, table: pa.Table) -> list[RowFile]:
        if not table.num_rows:
            return []
        with self._model.reaching():
            return [RowFile(write_table(self._model.folder, kind, table), table.num_rows)]

    def _merged(self) -> MergedFiles:
        rows, waiting = self._writer.merge_rows, self._writer.merge_waiting
        merged = RowFile(*merge_files(self._model.folder, [file.name for file in rows])) if rows else None
        return MergedFiles(merged, rows, self._still_waiting(waiting), waiting)

    def _still_waiting(self, names: Sequence[str]) -> str | None:
        """A file of the events that still wait; None where there is none."""
        if not names:
            return None
        table = read_table(self._model.folder, names, WAITING)
        aggregates = {Aggregate(*row[:2]) for row in tuples(table.select(["aggregate_type", "aggregate_id"]))}
        left = self._model.waiting(sorted(aggregates))
        return write_table(self._model.folder, "waiting", as_table(left, WAITING)) if left else None
