"""The state from the files: manifest, snapshot, index, and the fold of the segments behind them.

The same for a restart, for a new fold after a failed write, and for the housekeeper. Where the manifest or
what it names is damaged, the whole log is folded instead, if all its segments are still there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from driftq.core.evolve.fold import evolve
from driftq.core.index import Chunk
from driftq.core.records import Record, decode_records
from driftq.core.snapshot.state import load_state, settle_loaded
from driftq.core.state import State
from driftq.errors import LogCorrupt, SnapshotDamaged
from driftq.log.arrays import read_arrays
from driftq.log.files import Folder
from driftq.log.frame import NOTHING, LogEnd
from driftq.log.manifest import MANIFEST, Manifest, read_manifest
from driftq.log.scan import Fold
from driftq.log.segment import segment_numbers
from driftq.model.options.limits import Limits

logger = logging.getLogger("driftq.log")

Watch = Callable[[Record, memoryview, int], None]
"""Called with each record before it is folded, the payload it is in, and the place of its blob there."""


@dataclass(slots=True)
class Restored:
    """A state as of the end of a segment, and what it was read from."""

    state: State
    end: LogEnd
    manifest: Manifest | None


class IndexRun(msgspec.Struct, array_like=True, frozen=True):
    """A range of one partition's messages in one file."""

    topic: int
    partition: int
    first: int
    start: int
    """Where its numbers begin in each of the three arrays."""
    count: int


_runs = msgspec.msgpack.Decoder(list[IndexRun])
_encode = msgspec.msgpack.Encoder().encode


def restore(folder: Folder, limits: Limits) -> Restored:
    """The newest snapshot with its index; an empty state where there is none. Reads no segment."""
    try:
        manifest = read_manifest(folder)
        if manifest is not None:
            return _load(folder, manifest, limits)
    except SnapshotDamaged as damage:
        if not _has_all_segments(folder):
            raise
        logger.warning("%s; replaying the whole log instead", damage)
        return Restored(State(limits), NOTHING, None)
    if not _has_all_segments(folder):
        raise LogCorrupt(f"{folder.path}/{MANIFEST}", position=0, problem="it is missing", folder=folder.path)
    return Restored(State(limits), NOTHING, None)


def _load(folder: Folder, manifest: Manifest, limits: Limits) -> Restored:
    try:
        state = load_state(read_arrays(folder, manifest.snapshot), limits)
    except (msgspec.DecodeError, KeyError) as error:
        path = f"{folder.path}/{manifest.snapshot}"
        raise SnapshotDamaged(path, problem=str(error), folder=folder.path) from error
    chunks: list[tuple[IndexRun, Chunk]] = []
    for file in manifest.files:
        chunks += read_index(folder, file.index, number=file.number)
    for run, chunk in sorted(chunks, key=lambda one: one[1].first):
        topic = state.topics_by_id.get(run.topic)
        if topic is not None:
            topic.partitions[run.partition].index.attach(chunk)
    settle_loaded(state)
    return Restored(state, manifest.end, manifest)


def read_index(folder: Folder, name: str, *, number: int) -> Iterator[tuple[IndexRun, Chunk]]:
    """The chunks of one file, their arrays where the index file lies in memory."""
    parts = read_arrays(folder, name)
    offsets, places, ends = (parts[part].cast("Q") for part in ("offsets", "places", "ends"))
    for run in _runs.decode(parts["runs"]):
        stretch = slice(run.start, run.start + run.count)
        yield (
            run,
            Chunk(
                segment=number,
                first=run.first,
                offsets=offsets[stretch],
                places=places[stretch],
                ends=ends[stretch],
            ),
        )


def encode_runs(runs: list[IndexRun]) -> bytes:
    return _encode(runs)


def folding(state: State, watch: Watch | None = None, *, counts: dict[int, int] | None = None) -> Fold:
    """A function that applies a frame to the state; `counts` gets the number of records of each segment."""

    def fold(segment: int, position: int, payload: memoryview) -> None:
        number = 0
        for record, blob_at in decode_records(payload):
            if watch is not None:
                watch(record, payload, blob_at)
            evolve(state, record, segment=segment, blob_at=position + blob_at)
            number += 1
        if counts is not None:
            counts[segment] = counts.get(segment, 0) + number

    return fold


def _has_all_segments(folder: Folder) -> bool:
    numbers = segment_numbers(folder.names())
    return numbers == list(range(1, len(numbers) + 1))
