"""Short words for the stories about the log."""

from collections.abc import Iterable

from driftq.log import Folder, Frame, Log, Recovery

SMALL = 1024
"""Segments of this size roll every few frames."""


def opened(folder: Folder, *, segment_bytes: int = SMALL) -> Log:
    log = Log.open(folder, segment_bytes=segment_bytes)
    log.recover(lambda segment, position, payload: None)
    return log


def laid_out(log: Log, payload: bytes) -> Frame:
    frame = log.begin(len(payload))
    frame.append(payload)
    log.finish(frame)
    return frame


def commit(log: Log, payload: bytes) -> Frame:
    """Write, sync and confirm one frame, as a server does that syncs always: every second one in one step."""
    frame = laid_out(log, payload)
    if frame.lsn % 2:
        log.write_durably(frame)
    else:
        log.write(frame)
        log.sync()
    log.confirm()
    return frame


def commit_all(log: Log, payloads: Iterable[bytes]) -> list[Frame]:
    return [commit(log, payload) for payload in payloads]


def folded(log: Log) -> tuple[list[bytes], Recovery]:
    found: list[bytes] = []
    recovery = log.recover(lambda segment, position, payload: found.append(bytes(payload)))
    return found, recovery


def recovered(folder: Folder, *, segment_bytes: int = SMALL) -> tuple[list[bytes], Recovery]:
    """Open, fold and close."""
    log = Log.open(folder, segment_bytes=segment_bytes)
    try:
        return folded(log)
    finally:
        log.close()


def contents(folder: Folder) -> dict[str, bytes]:
    return {name: folder.open(name).read_at(0, 1 << 30) for name in folder.names()}
