"""One round of housekeeping: from the last manifest and the segments sealed since to the next manifest.

    restore ─▶ fold sealed segments ─▶ write indexes ─▶ move live messages ─▶ write the snapshot ─▶ publish

Every file is new and synced before the manifest that names it replaces the old one. A round that is
killed at any moment leaves files that no manifest names; the next one removes them and repeats the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from driftq.core.records import Record
from driftq.core.snapshot.state import dump_state
from driftq.core.state import State
from driftq.housekeeping.catalog import DataFile, choose_sources, inventory
from driftq.housekeeping.compact import copy_forward
from driftq.housekeeping.indexing import write_index
from driftq.log.arrays import write_arrays
from driftq.log.files import Folder
from driftq.log.handles import OpenSegments
from driftq.log.manifest import KeptFile, Manifest, publish_manifest, remove_leftovers
from driftq.log.recovery import examine
from driftq.log.segment import KEPT
from driftq.model.options.limits import Limits
from driftq.storage.restore import Restored, folding, restore


class RoundObserver(Protocol):
    """Another product of a round, made from the records while they are folded."""

    def see(self, state: State, record: Record, payload: memoryview, blob_at: int) -> None:
        """A record that is about to be folded into this state."""

    def finish(self, state: State, *, upto: int) -> None:
        """All records up to the end of segment `upto` were observed: make the result durable.

        The same records may be observed again, when the round dies after this.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOptions:
    """When messages move."""

    live_share_min: float = 0.4
    small_bytes: int = 16 << 20
    kept_bytes_max: int = 1 << 30
    """Live bytes that go into one file of kept messages, about."""


def run_round(
    folder: Folder,
    *,
    limits: Limits,
    upto: int,
    options: RoundOptions | None = None,
    projections: Sequence[RoundObserver] = (),
) -> Manifest:
    """Bring the manifest forward to the end of segment `upto`, which is sealed."""
    options = options or RoundOptions()
    before = restore(folder, limits)
    if before.manifest is not None and before.manifest.segment >= upto:
        folder.sync()  # The last round got this far, and perhaps died before its sync.
        return before.manifest
    remove_leftovers(folder, before.manifest)
    state = before.state

    def see(record: Record, payload: memoryview, blob_at: int) -> None:
        for projection in projections:
            projection.see(state, record, payload, blob_at)

    files = OpenSegments(folder)
    try:
        fold = folding(state, see if projections else None)
        end = examine(folder, files, fold, after=before.end, upto=upto).end
    finally:
        files.close()
    kept, last_kept = _lay_out(folder, state, before, upto=upto, options=options)
    snapshot = f"{end.segment:020}.snapshot"
    write_arrays(folder, snapshot, dump_state(state).items())
    for projection in projections:
        projection.finish(state, upto=upto)
    manifest = Manifest(
        round=before.manifest.round + 1 if before.manifest else 1,
        segment=end.segment,
        position=end.position,
        lsn=end.lsn,
        snapshot=snapshot,
        files=kept,
        last_kept=last_kept,
    )
    publish_manifest(folder, manifest)
    return manifest


def _lay_out(
    folder: Folder, state: State, before: Restored, *, upto: int, options: RoundOptions
) -> tuple[list[KeptFile], int]:
    """Index new messages, compact old files; returns the files that hold kept messages from now on.

    Also returns the highest number given to one of them.
    """
    stock = inventory(folder, state, upto=upto)
    sources = choose_sources(stock, live_share_min=options.live_share_min, small_bytes=options.small_bytes)
    moving = {file.number for file in sources}
    known = {file.number: file.index for file in before.manifest.files} if before.manifest else {}
    kept: list[KeptFile] = []
    for number, file in stock.items():
        if number in moving:
            continue
        index = known.get(number)
        if index is None:
            index = f"{number:020}.index"
            _index_segment(folder, file, index)
        kept.append(KeptFile(number, index))
    number = before.manifest.last_kept if before.manifest else KEPT
    for share in _shares(sources, options.kept_bytes_max):
        number += 1
        index = f"{number - KEPT:020}.index.1"
        copy_forward(folder, share, number=number, index=index)
        kept.append(KeptFile(number, index))
    return sorted(kept, key=lambda file: file.number), number


def _index_segment(folder: Folder, file: DataFile, name: str) -> None:
    write_index(
        folder,
        name,
        (
            (one.topic, one.partition, one.chunk.first, one.chunk.offsets, one.chunk.places, one.chunk.ends)
            for one in file.holdings
        ),
    )


def _shares(sources: list[DataFile], bytes_max: int) -> list[list[DataFile]]:
    """Sources in groups whose live messages fit into one file."""
    shares: list[list[DataFile]] = []
    size = 0
    for file in sources:
        if not shares or size + file.live_bytes > bytes_max:
            shares.append([])
            size = 0
        shares[-1].append(file)
        size += file.live_bytes
    return shares
