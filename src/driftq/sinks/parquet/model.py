"""Read models as Parquet files in a folder: each batch adds files, the manifest names the current ones.

There is no second store that could hold a registry row in one transaction with a file, so the version of the
manifest is the guard: rows, waiting events, dead letters and positions of one application appear together
with the next version, or not at all. A run whose epoch is no longer the manifest's is refused.

Files are merged when they become many: the recent ones among themselves, and all of them when the recent ones
hold half as much as the large one, so each row is written a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, TypeVar

import msgspec
import pyarrow as pa

from driftq.errors import ProjectionFenced, ReadModelNotFound, ReadModelSwapped, ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks.arrow_rows import (
    CHANGES,
    DEAD_LETTERS,
    WAITING,
    as_table,
    dead_letter_table,
    merge_files,
    newest,
    read_aggregates,
    read_table,
    stored_dead_letters,
    tuples,
    write_table,
)
from driftq.sinks.dead_letters import RedriveMark, dead_letter_id_of
from driftq.sinks.manifest import (
    ReadModelManifest,
    ReadModelManifests,
    RowFile,
    advanced,
    mergeable,
    sweep_files,
)
from driftq.sinks.marks import rebuilt_marks, with_mark
from driftq.sinks.names import projection_name
from driftq.sinks.parquet.staging import ParquetBatch
from driftq.sinks.port import (
    Application,
    Capabilities,
    Change,
    OutOfOrderEvent,
    ProjectionDeadLetter,
    ReadModelRow,
    RegistryRow,
    TopicPartition,
    WriterEpoch,
)
from driftq.sinks.urls import folder_of

_Found = TypeVar("_Found")
_RECENT_MAX = 8
_LIVE, _BESIDE = "manifest", "next"


@dataclass(frozen=True, slots=True)
class ParquetSink:
    """A folder for each projection under `folder`, on a disk that links files."""

    folder: str
    capabilities: ClassVar[Capabilities] = Capabilities(atomic=True)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """`parquet:///folder`."""
        return cls(folder_of(url, example="parquet:///folder"))

    def connect(self, projection: str) -> ParquetReadModel:
        return ParquetReadModel(projection_name(projection), Path(self.folder))


class ParquetReadModel:
    """One projection's folder, and one of the two chains of manifests in it."""

    def __init__(self, name: str, root: Path, *, chain: str = _LIVE) -> None:
        self.name = name
        self._root = root
        self.folder = root / name
        self.address = str(self.folder)
        self._chain = chain
        self.manifests = ReadModelManifests(self.folder, chain)

    def take_over(self) -> WriterEpoch:
        with self.reaching():
            self.folder.mkdir(parents=True, exist_ok=True)
            while True:
                manifest = self.manifests.newest() or ReadModelManifest()
                kept = (
                    ReadModelManifest(generation=manifest.generation) if self._chain == _BESIDE else manifest
                )
                taken = msgspec.structs.replace(kept, version=manifest.version + 1, epoch=manifest.epoch + 1)
                if self.manifests.publish(taken):
                    self.sweep()
                    return taken.writer_epoch

    def apply(self, application: Application, writer_epoch: WriterEpoch) -> None:
        with self.reaching():
            self.require(writer_epoch)  # Before files are written for nothing.
            rows, dead_letters = application.changes, application.dead_letters
            added: tuple[RowFile, ...] = ()
            if rows:
                added = (RowFile(self._write("rows", as_table(rows, CHANGES)), len(rows)),)
            dead_files = (self._write("dead", dead_letter_table(dead_letters)),) if dead_letters else ()
            while True:
                manifest = self.require(writer_epoch)
                following = msgspec.structs.replace(
                    manifest,
                    version=manifest.version + 1,
                    rows=self._put_together(manifest.rows + added),
                    waiting=self._still_waiting(manifest, application),
                    more_waiting=(),
                    dead_letters=manifest.dead_letters + dead_files,
                    reached=advanced(manifest.positions, application.positions),
                )
                if self.manifests.publish(following):
                    break
            if len(following.rows) < len(manifest.rows):
                self.sweep()

    def open_batch(self, writer_epoch: WriterEpoch) -> ParquetBatch:
        return ParquetBatch.open(self, writer_epoch)

    def positions(self) -> dict[TopicPartition, int]:
        manifest = self.manifests.newest()
        return manifest.positions if manifest else {}

    def current(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        def look(manifest: ReadModelManifest) -> pa.Table:
            names = [file.name for file in manifest.rows]
            return read_aggregates(self.folder, names, CHANGES, aggregates)

        table = self._read(look)
        found = {Aggregate(row[0], row[1]): Change(*row) for row in tuples(newest(table))}
        return {aggregate: found[aggregate] for aggregate in aggregates if aggregate in found}

    def waiting(self, aggregates: Sequence[Aggregate]) -> list[OutOfOrderEvent]:
        def look(manifest: ReadModelManifest) -> pa.Table:
            return read_aggregates(self.folder, manifest.waiting_files, WAITING, aggregates)

        wanted = set(aggregates)
        found = {row[:3]: OutOfOrderEvent(*row) for row in tuples(self._read(look))}
        own = [row for row in found.values() if Aggregate(*row[:2]) in wanted]
        rows = self.current([Aggregate(*row[:2]) for row in own]) if own else {}
        reached = {aggregate: row.sequence_number for aggregate, row in rows.items()}
        return sorted(row for row in own if row.sequence_number > reached.get(Aggregate(*row[:2]), 0))

    def rows(self) -> Iterator[ReadModelRow]:
        decode = msgspec.json.Decoder().decode
        for kind, aggregate_id, sequence, _, state in tuples(self.table()):
            if state is not None:
                yield ReadModelRow(kind, aggregate_id, sequence, decode(state))

    def registry(self) -> Iterator[RegistryRow]:
        for row in tuples(self.table()):
            yield RegistryRow(*row[:4])

    def dead_letters(self) -> Iterator[ProjectionDeadLetter]:
        found = self._read(self._dead_letters)
        yield from sorted(found.values(), key=lambda dead: (*dead[:3], dead.identity, dead.stage))

    def put(self, changes: Sequence[Change]) -> None:
        """A reader takes the newest row of each aggregate, so older ones may be there as well."""
        with self.reaching():
            if self.manifests.newest() is None:
                raise ReadModelNotFound(self.name, place=str(self._root))
            added = (RowFile(self._write("rows", as_table(changes, CHANGES)), len(changes)),)
            while True:
                manifest = self.manifests.newest() or ReadModelManifest()
                following = msgspec.structs.replace(
                    manifest, version=manifest.version + 1, rows=self._put_together(manifest.rows + added)
                )
                if self.manifests.publish(following):
                    break
            if len(following.rows) < len(manifest.rows):
                self.sweep()

    def redrive(self, change: Change, dead_letter_id: str, *, by: str) -> bool:
        aggregate = Aggregate(change.aggregate_type, change.aggregate_id)
        with self.reaching():
            added = (RowFile(self._write("rows", as_table([change], CHANGES)), 1),)
            while True:
                manifest = self.manifests.newest()
                if manifest is None:
                    raise ReadModelNotFound(self.name, place=str(self._root))
                current = self.current([aggregate]).get(aggregate)
                is_newer = current is None or current.sequence_number < change.sequence_number
                following = msgspec.structs.replace(
                    manifest,
                    version=manifest.version + 1,
                    rows=manifest.rows + (added if is_newer else ()),
                    redriven=with_mark(manifest.redriven, dead_letter_id, by=by),
                )
                if self.manifests.publish(following):
                    return is_newer

    def redrive_marks(self) -> dict[str, RedriveMark]:
        manifest = self.manifests.newest()
        return {each.id: RedriveMark(each.at, each.by) for each in manifest.redriven} if manifest else {}

    def table(self) -> pa.Table:
        """Every aggregate's newest row, tombstones too, by type and id."""
        return newest(self._read(self._rows))

    def beside(self) -> ParquetReadModel:
        return ParquetReadModel(self.name, self._root, chain=_BESIDE)

    def swap(self, beside: WriterEpoch) -> None:
        with self.reaching():
            while True:
                fresh = self.beside().require(beside)
                manifest = self.manifests.newest() or ReadModelManifest()
                given_up = self._dead_letters(fresh)
                taken = msgspec.structs.replace(
                    fresh,
                    version=manifest.version + 1,
                    epoch=manifest.epoch,
                    generation=manifest.generation + 1,
                    dead_letters=manifest.dead_letters + fresh.dead_letters,
                    redriven=rebuilt_marks(manifest, self._dead_letters(manifest), fresh, given_up),
                )
                if self.manifests.publish(taken):
                    return

    def close(self) -> None:
        """Nothing to close."""

    def require(self, writer_epoch: WriterEpoch) -> ReadModelManifest:
        """The newest version; refuses a run that it no longer names."""
        manifest = self.manifests.newest() or ReadModelManifest()
        if manifest.epoch != writer_epoch.epoch:
            raise ProjectionFenced(self.name, epoch=writer_epoch.epoch, current=manifest.epoch)
        if manifest.generation != writer_epoch.generation:
            raise ReadModelSwapped(self.name)
        return manifest

    def _put_together(self, files: tuple[RowFile, ...]) -> tuple[RowFile, ...]:
        many = mergeable(files, recent_max=_RECENT_MAX)
        if not many:
            return files
        merged = RowFile(*merge_files(self.folder, [file.name for file in many]))
        return (*files[: len(files) - len(many)], merged)

    def _still_waiting(self, manifest: ReadModelManifest, application: Application) -> str | None:
        if not application.waiting and not manifest.waiting_files:
            return None
        reached = {change[:2]: change.sequence_number for change in application.changes}
        before = [
            OutOfOrderEvent(*row) for row in tuples(read_table(self.folder, manifest.waiting_files, WAITING))
        ]
        left = {
            row[:3]: row
            for row in [*application.waiting, *before]
            if row.sequence_number > reached.get(row[:2], 0)
        }
        return self._write("waiting", as_table(sorted(left.values()), WAITING)) if left else None

    def _rows(self, manifest: ReadModelManifest) -> pa.Table:
        return read_table(self.folder, [file.name for file in manifest.rows], CHANGES)

    def _dead_letters(self, manifest: ReadModelManifest) -> dict[str, ProjectionDeadLetter]:
        """By id; of equal ones the first counts."""
        found = stored_dead_letters(read_table(self.folder, manifest.dead_letters, DEAD_LETTERS))
        return {dead_letter_id_of(self.name, dead): dead for dead in reversed(found)}

    def _read(self, look: Callable[[ReadModelManifest], _Found]) -> _Found:
        """The contents of the newest version; reads again when its files were removed meanwhile."""
        with self.reaching():
            while True:
                manifest = self.manifests.newest()
                if manifest is None:
                    raise ReadModelNotFound(self.name, place=str(self._root))
                try:
                    return look(manifest)
                except FileNotFoundError:
                    newer = self.manifests.newest()
                    if newer is None or newer.version == manifest.version:
                        raise

    def _write(self, kind: str, table: pa.Table) -> str:
        return write_table(self.folder, kind, table)

    def sweep(self) -> None:
        chains = [ReadModelManifests(self.folder, chain) for chain in (_LIVE, _BESIDE)]
        newest_ones = [manifest for chain in chains if (manifest := chain.newest())]
        sweep_files(self.folder, set().union(*(manifest.files for manifest in newest_ones)))
        self.manifests.sweep()

    @contextmanager
    def reaching(self) -> Iterator[None]:
        try:
            yield
        except (NotADirectoryError, PermissionError) as error:
            cause = f"{error}: name a folder that this user may write"
            raise ReadModelUnavailable(self.address, cause=cause) from error
        except OSError as error:
            raise ReadModelUnavailable(self.address, cause=str(error)) from error
