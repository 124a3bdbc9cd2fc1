"""The server adopts the housekeeper's results: index arrays in files, and messages that were moved.

Chunks are swapped on the loop, a few at a time. The old files are removed only when all are swapped; a thread
that still reads from one has it open, or looks its message up once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from driftq.core.index import Chunk
from driftq.core.state import State
from driftq.log.log import Log
from driftq.log.manifest import KeptFile, Manifest, read_manifest, remove_leftovers
from driftq.server.ports import Background, Loop
from driftq.storage.journal import Journal
from driftq.storage.restore import IndexRun, read_index

CHUNKS_A_STEP = 400

logger = logging.getLogger("driftq.housekeeping")


@dataclass(slots=True)
class NewIndexes:
    """A manifest with the chunks of those of its files that are new."""

    manifest: Manifest | None
    chunks: list[tuple[IndexRun, Chunk]]


class Adoption:
    """One at a time; `done` gets the problem, or None."""

    def __init__(self, log: Log, journal: Journal, loop: Loop, background: Background) -> None:
        self._log = log
        self._journal = journal
        self._loop = loop
        self._background = background
        self._adopted: set[KeptFile] = set()

    def start(self, done: Callable[[str | None], None]) -> None:
        """Adopt the newest manifest, then remove the files that it replaces."""
        state = self._journal.state
        adopted = self._adopted

        def found(findings: NewIndexes | Exception) -> None:
            if isinstance(findings, Exception):
                done(str(findings))
            else:
                self._step(state, findings, 0, done)

        self._background.read(lambda: self._look(adopted), found)

    def clean(self, done: Callable[[str | None], None]) -> None:
        """Remove the files that the newest manifest does not name, as after a restart."""

        def cleaned(found: Manifest | Exception | None) -> None:
            if isinstance(found, Exception):
                done(str(found))
                return
            self._adopted = set(found.files) if found else set()
            done(None)

        self._background.read(self._remove_leftovers, cleaned)

    def _look(self, adopted: set[KeptFile]) -> NewIndexes:
        manifest = read_manifest(self._log.folder)
        chunks: list[tuple[IndexRun, Chunk]] = []
        for file in manifest.files if manifest else ():
            if file not in adopted:
                chunks += read_index(self._log.folder, file.index, number=file.number)
                self._log.files.get(file.number)  # Open it now, so that no read waits for it later.
        return NewIndexes(manifest, chunks)

    def _step(
        self, state: State, findings: NewIndexes, start: int, done: Callable[[str | None], None]
    ) -> None:
        if self._journal.state is not state:
            self.clean(done)  # The state was folded again, from this very manifest.
            return
        stop = start + CHUNKS_A_STEP
        for run, chunk in findings.chunks[start:stop]:
            if not _attach(state, run, chunk):
                done(f"the index of topic {run.topic}, partition {run.partition} does not match the log")
                return
        if stop < len(findings.chunks):
            self._loop.soon(lambda: self._step(state, findings, stop, done))
            return
        if findings.manifest is not None:
            self._journal.adopted = findings.manifest.segment
            self._adopted = set(findings.manifest.files)
        self.clean(done)

    def _remove_leftovers(self) -> Manifest | None:
        folder = self._log.folder
        manifest = read_manifest(folder)
        remove_leftovers(folder, manifest, forget=self._log.files.forget)
        return manifest


def _attach(state: State, run: IndexRun, chunk: Chunk) -> bool:
    """Swap the chunk in, where its messages are still stored; False when it does not match this log."""
    topic = state.topics_by_id.get(run.topic)
    if topic is None:
        return True
    index = topic.partitions[run.partition].index
    if chunk.end <= index.first:
        return True
    last = chunk.offsets[len(chunk.offsets) - 1]
    if chunk.end > index.end or index.offset_at(chunk.end - 1) != last:
        return False
    index.attach(chunk)
    return True
