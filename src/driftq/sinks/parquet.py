"""Read models as Parquet files in a folder: each batch adds a file, the manifest names the current ones.

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

import msgspec
import pyarrow as pa

from driftq.errors import ProjectionFenced, ReadModelNotFound, ReadModelSwapped, ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks.arrow_rows import (
    CHANGES,
    DEAD_LETTERS,
    WAITING,
    as_table,
    newest,
    of_aggregates,
    read_table,
    tuples,
    write_table,
)
from driftq.sinks.manifest import Reached, ReadModelManifest, ReadModelManifests, RowFile, sweep_files
from driftq.sinks.names import projection_name
from driftq.sinks.port import (
    Application,
    Change,
    OutOfOrderEvent,
    ProjectionDeadLetter,
    ReadModelRow,
    RegistryRow,
    TopicPartition,
    WriterEpoch,
)
from driftq.sql import storable

_RECENT_MAX = 8
_LIVE, _BESIDE = "manifest", "next"


@dataclass(frozen=True, slots=True)
class ParquetSink:
    """A folder for each projection under `folder`, on a disk that links files."""

    folder: str

    def connect(self, projection: str) -> ParquetReadModel:
        return ParquetReadModel(projection_name(projection), Path(self.folder))


class ParquetReadModel:
    """One projection's folder, and one of the two chains of manifests in it."""

    def __init__(self, name: str, root: Path, *, chain: str = _LIVE) -> None:
        self.name = name
        self._root = root
        self._folder = root / name
        self.address = str(self._folder)
        self._chain = chain
        self._manifests = ReadModelManifests(self._folder, chain)

    def take_over(self) -> WriterEpoch:
        with self._reaching():
            self._folder.mkdir(parents=True, exist_ok=True)
            while True:
                manifest = self._manifests.newest() or ReadModelManifest()
                kept = (
                    ReadModelManifest(generation=manifest.generation) if self._chain == _BESIDE else manifest
                )
                taken = msgspec.structs.replace(kept, version=manifest.version + 1, epoch=manifest.epoch + 1)
                if self._manifests.publish(taken):
                    self._sweep()
                    return taken.writer_epoch

    def apply(self, application: Application, writer_epoch: WriterEpoch) -> None:
        with self._reaching():
            self._require(writer_epoch)  # Before files are written for nothing.
            rows, dead_letters = application.changes, [_storable(dead) for dead in application.dead_letters]
            added: tuple[RowFile, ...] = ()
            if rows:
                added = (RowFile(self._write("rows", as_table(rows, CHANGES)), len(rows)),)
            dead_files = (self._write("dead", as_table(dead_letters, DEAD_LETTERS)),) if dead_letters else ()
            while True:
                manifest = self._require(writer_epoch)
                following = msgspec.structs.replace(
                    manifest,
                    version=manifest.version + 1,
                    rows=self._put_together(manifest.rows + added),
                    waiting=self._still_waiting(manifest, application),
                    dead_letters=manifest.dead_letters + dead_files,
                    reached=_advanced(manifest, application),
                )
                if self._manifests.publish(following):
                    break
            if len(following.rows) < len(manifest.rows):
                self._sweep()

    def positions(self) -> dict[TopicPartition, int]:
        manifest = self._manifests.newest()
        return manifest.positions if manifest else {}

    def current(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        table = self._read(lambda manifest: of_aggregates(self._rows(manifest), aggregates))
        found = {Aggregate(row[0], row[1]): Change(*row) for row in tuples(newest(table))}
        return {aggregate: found[aggregate] for aggregate in aggregates if aggregate in found}

    def waiting(self, aggregates: Sequence[Aggregate]) -> list[OutOfOrderEvent]:
        wanted = set(aggregates)
        found = [OutOfOrderEvent(*row) for row in tuples(self._read(self._waiting))]
        return sorted(row for row in found if Aggregate(row.aggregate_type, row.aggregate_id) in wanted)

    def rows(self) -> Iterator[ReadModelRow]:
        decode = msgspec.json.Decoder().decode
        for kind, aggregate_id, sequence, _, state in tuples(self.table()):
            if state is not None:
                yield ReadModelRow(kind, aggregate_id, sequence, decode(state))

    def registry(self) -> Iterator[RegistryRow]:
        for row in tuples(self.table()):
            yield RegistryRow(*row[:4])

    def dead_letters(self) -> Iterator[ProjectionDeadLetter]:
        table = self._read(lambda manifest: read_table(self._folder, manifest.dead_letters, DEAD_LETTERS))
        found = {
            row[:3]: ProjectionDeadLetter(*row) for row in reversed(list(tuples(table)))
        }  # The first one counts.
        for place in sorted(found):
            yield found[place]

    def table(self) -> pa.Table:
        """Every aggregate's newest row, tombstones too, by type and id."""
        return newest(self._read(self._rows))

    def beside(self) -> ParquetReadModel:
        return ParquetReadModel(self.name, self._root, chain=_BESIDE)

    def swap(self, beside: WriterEpoch) -> None:
        with self._reaching():
            while True:
                fresh = self.beside()._require(beside)
                manifest = self._manifests.newest() or ReadModelManifest()
                taken = msgspec.structs.replace(
                    fresh,
                    version=manifest.version + 1,
                    epoch=manifest.epoch,
                    generation=manifest.generation + 1,
                    dead_letters=manifest.dead_letters + fresh.dead_letters,
                )
                if self._manifests.publish(taken):
                    return

    def close(self) -> None:
        """Nothing to close."""

    def _require(self, writer_epoch: WriterEpoch) -> ReadModelManifest:
        """The newest version; refuses a run that it no longer names."""
        manifest = self._manifests.newest() or ReadModelManifest()
        if manifest.epoch != writer_epoch.epoch:
            raise ProjectionFenced(self.name, epoch=writer_epoch.epoch, current=manifest.epoch)
        if manifest.generation != writer_epoch.generation:
            raise ReadModelSwapped(self.name)
        return manifest

    def _put_together(self, files: tuple[RowFile, ...]) -> tuple[RowFile, ...]:
        if len(files) < 2:
            return files
        large, recent = files[:1], files[1:]
        if 2 * sum(file.rows for file in recent) >= large[0].rows:
            return (self._merged(files),)
        return (*large, self._merged(recent)) if len(recent) > _RECENT_MAX else files

    def _merged(self, files: tuple[RowFile, ...]) -> RowFile:
        table = newest(read_table(self._folder, [file.name for file in files], CHANGES))
        return RowFile(self._write("rows", table), table.num_rows)

    def _still_waiting(self, manifest: ReadModelManifest, application: Application) -> str | None:
        if not application.waiting and (manifest.waiting is None or not application.changes):
            return manifest.waiting
        reached = {change[:2]: change.sequence_number for change in application.changes}
        before = [OutOfOrderEvent(*row) for row in tuples(self._waiting(manifest))]
        left = {
            row[:3]: row
            for row in [*application.waiting, *before]
            if row.sequence_number > reached.get(row[:2], 0)
        }
        return self._write("waiting", as_table(sorted(left.values()), WAITING)) if left else None

    def _rows(self, manifest: ReadModelManifest) -> pa.Table:
        return read_table(self._folder, [file.name for file in manifest.rows], CHANGES)

    def _waiting(self, manifest: ReadModelManifest) -> pa.Table:
        return read_table(self._folder, [manifest.waiting] if manifest.waiting else [], WAITING)

    def _read(self, look: Callable[[ReadModelManifest], pa.Table]) -> pa.Table:
        """The contents of the newest version; reads again when its files were removed meanwhile."""
        with self._reaching():
            while True:
                manifest = self._manifests.newest()
                if manifest is None:
                    raise ReadModelNotFound(self.name, place=str(self._root))
                try:
                    return look(manifest)
                except FileNotFoundError:
                    newer = self._manifests.newest()
                    if newer is None or newer.version == manifest.version:
                        raise

    def _write(self, kind: str, table: pa.Table) -> str:
        return write_table(self._folder, kind, table)

    def _sweep(self) -> None:
        chains = [ReadModelManifests(self._folder, chain) for chain in (_LIVE, _BESIDE)]
        newest_ones = [manifest for chain in chains if (manifest := chain.newest())]
        sweep_files(self._folder, set().union(*(manifest.files for manifest in newest_ones)))
        self._manifests.sweep()

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ReadModelUnavailable(self.address, cause=str(error)) from error


def _advanced(manifest: ReadModelManifest, application: Application) -> tuple[Reached, ...]:
    positions = manifest.positions
    for place, offset in application.positions.items():
        positions[place] = max(offset, positions.get(place, -1))
    return tuple(Reached(*place, offset) for place, offset in sorted(positions.items()))


def _storable(dead: ProjectionDeadLetter) -> ProjectionDeadLetter:
    """A lone surrogate cannot be stored in a file either."""
    value = None if dead.value is None else dead.value.encode(errors="backslashreplace").decode()
    return dead._replace(error=storable(dead.error), value=value)
