"""The records after the history: read from the segments that it does not cover yet, up to a confirmed end.

The housekeeper may bring the history forward meanwhile, and the server then removes segments. Every file is
opened before any is read, and if the history has moved meanwhile, it is read once more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from driftq.core.records import Record, decode_records
from driftq.errors import LogCorrupt
from driftq.history.file import history_end, read_history
from driftq.log.files import File, Folder
from driftq.log.frame import LogEnd
from driftq.log.scan import read_frames
from driftq.log.segment import SEGMENT_HEADER_BYTES, decode_segment_header, segment_name, segment_numbers

if TYPE_CHECKING:
    from sqlite3 import Connection

_T = TypeVar("_T")
See = Callable[[Record, memoryview, int], None]
"""Gets each record, the payload it is in, and the place of its blob there."""


def read_with_tail(
    folder: Folder, history: str | None, ask: Callable[[Connection | None], _T], *, end: LogEnd
) -> tuple[_T, list[tuple[int, File]]]:
    """The history's result, and the segments that hold everything after it. Blocks."""
    while True:
        answer, upto = _ask(history, ask)
        try:
            files = [
                (number, folder.open(segment_name(number)))
                for number in segment_numbers(folder.names())
                if upto < number <= end.segment
            ]
        except FileNotFoundError:
            continue  # A round of the housekeeper was adopted just now.
        if _ask(history, lambda _: None)[1] == upto:
            return answer, files


def _ask(history: str | None, ask: Callable[[Connection | None], _T]) -> tuple[_T, int]:
    database = read_history(history)
    if database is None:
        return ask(None), 0
    with closing(database):
        return ask(database), history_end(database)


def scan(folder: Folder, files: list[tuple[int, File]], see: See, *, end: LogEnd) -> None:
    """Visit every record of these segments before `end`; LogCorrupt when one cannot be read. Blocks."""
    before = LogEnd(0, 0, 0)
    for number, file in files:
        header = decode_segment_header(file.read_at(0, SEGMENT_HEADER_BYTES))
        if header is None:
            raise _corrupt(folder, number, 0, "the segment header does not match its checksum")
        if before.segment == number - 1 and before.lsn + 1 != header.first_lsn:
            raise _corrupt(folder, before.segment, before.position, "frames are missing")

        def fold(segment: int, position: int, payload: memoryview) -> None:
            if segment < end.segment or position < end.position:
                for record, blob_at in decode_records(payload):
                    see(record, payload, blob_at)

        stop = read_frames(
            file, segment=number, start=SEGMENT_HEADER_BYTES, lsn=header.first_lsn - 1, fold=fold
        )
        before = LogEnd(number, stop.position, stop.lsn)
    if before.segment == end.segment and before.lsn < end.lsn:
        raise _corrupt(folder, before.segment, before.position, "frames are missing")


def _corrupt(folder: Folder, number: int, position: int, problem: str) -> LogCorrupt:
    path = f"{folder.path}/{segment_name(number)}"
    return LogCorrupt(path, position=position, problem=problem, folder=folder.path)
