"""The damage in the files of a log, what a repair would cut, and the repair itself.

A repair keeps a copy of everything that it changes or removes. It can cut a damaged log off in front of the
damage, and it can set aside a snapshot whose segments are all still there. It cannot bring back a message.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

from driftq.core.index import Chunk
from driftq.core.records import MessagesStored, decode_records
from driftq.core.state import State
from driftq.errors import FormatTooNew, LogCorrupt, SnapshotDamaged
from driftq.log.disk import OsFolder
from driftq.log.handles import OpenSegments
from driftq.log.manifest import MANIFEST, Manifest, read_manifest
from driftq.log.recovery import Cut, examine
from driftq.log.scan import look_behind, read_frames
from driftq.log.segment import segment_name, segment_numbers
from driftq.model.options.limits import Limits
from driftq.storage.inspect import messages_damaged
from driftq.storage.restore import folding, restore


@dataclass(slots=True)
class Damage:
    """One damaged place."""

    path: str
    position: int
    problem: str
    repair: str
    """What a repair would do; empty when none can be made."""


@dataclass(slots=True)
class Findings:
    """All damage, and the contents of the log."""

    damages: list[Damage] = field(default_factory=list)
    torn: Cut | None = None
    """A torn tail, which the next start cuts anyway."""
    frames: int = 0
    messages: int = 0
    files: int = 0
    last_at: int = 0
    """The latest time in the log; no later start has an earlier one."""


@dataclass(slots=True)
class _Behind:
    """The data after a damaged place, which a cut would remove."""

    frames: int = 0
    messages: int = 0
    bytes: int = 0


def look_at(folder: OsFolder, *, limits: Limits) -> Findings:
    """Read everything and verify it; changes nothing. Raises FormatTooNew."""
    findings = Findings()
    manifest: Manifest | None = None
    state: State | None = None
    try:
        manifest = read_manifest(folder)
        found = restore(folder, limits)
        state = found.state
        if manifest is not None and found.manifest is None:
            findings.damages.append(_set_aside(folder, manifest))
        files = OpenSegments(folder)
        recovery = examine(folder, files, folding(state), after=found.end)
        findings.frames, findings.torn = recovery.frames, recovery.cut
    except FormatTooNew:
        raise
    except LogCorrupt as damage:
        findings.damages.append(_describe(folder, damage))
    except SnapshotDamaged as damage:
        findings.damages.append(Damage(damage.path, 0, damage.problem, ""))
    if state is not None:
        findings.last_at = state.last_at
        findings.files = len({chunk.segment for chunk in _chunks(state)})
        findings.messages = sum(
            part.index.end - part.index.first for topic in state.topics.values() for part in topic.partitions
        )
        for path, position in messages_damaged(folder, state):
            findings.damages.append(Damage(path, position, "a message does not match its checksum", ""))
    return findings


def _chunks(state: State) -> Iterator[Chunk]:
    for topic in state.topics.values():
        for part in topic.partitions:
            yield from part.index.chunks


def _set_aside(folder: OsFolder, manifest: Manifest) -> Damage:
    return Damage(
        f"{folder.path}/{MANIFEST}",
        0,
        f"a file of round {manifest.round} is damaged or missing",
        "set the snapshot aside: all segments are there and will be folded instead",
    )


def _describe(folder: OsFolder, damage: LogCorrupt) -> Damage:
    number = _segment_of(damage.path)
    if number is None or not os.path.exists(damage.path):
        return Damage(damage.path, damage.position, damage.problem, "")
    behind = _count_behind(folder, number, damage.position)
    cut = (
        f"cut {behind.bytes} bytes from byte {damage.position} of {os.path.basename(damage.path)} on, "
        f"and with them {behind.frames} whole frames with {behind.messages} messages"
    )
    return Damage(damage.path, damage.position, damage.problem, cut)


def _segment_of(path: str) -> int | None:
    numbers = segment_numbers([os.path.basename(path)])
    return numbers[0] if numbers else None


def _count_behind(folder: OsFolder, number: int, position: int) -> _Behind:
    behind = _Behind()

    def count(_segment: int, _position: int, payload: memoryview) -> None:
        behind.frames += 1
        for record, _ in decode_records(payload):
            if isinstance(record, MessagesStored):
                behind.messages += len(record.lengths) // 4

    for later in [one for one in segment_numbers(folder.names()) if one >= number]:
        file = folder.open(segment_name(later))
        start = position if later == number else 0
        behind.bytes += max(0, file.size() - start)
        while (found := look_behind(file, start=start, lsn=0).complete_frame) is not None:
            lsn = int.from_bytes(file.read_at(found + 8, 8), "little")
            start = max(
                found + 1, read_frames(file, segment=later, start=found, lsn=lsn - 1, fold=count).position
            )
    return behind


def repair(folder: OsFolder, findings: Findings, *, name: str) -> str | None:
    """Repair the findings; returns the folder with the copies, or None when there was nothing to do."""
    wanted = [damage for damage in findings.damages if damage.repair]
    if not wanted:
        return None
    copies = os.path.join(folder.path, name)
    os.makedirs(copies)
    for damage in wanted:
        number = _segment_of(damage.path)
        if number is None:
            os.rename(damage.path, os.path.join(copies, os.path.basename(damage.path)))
            continue
        for later in [one for one in segment_numbers(folder.names()) if one > number]:
            os.rename(
                os.path.join(folder.path, segment_name(later)), os.path.join(copies, segment_name(later))
            )
        shutil.copy2(damage.path, copies)
        file = folder.open(segment_name(number))
        if damage.position == 0:
            folder.remove(segment_name(number))
        else:
            file.truncate(damage.position)
            file.sync()
    folder.sync()
    return copies
