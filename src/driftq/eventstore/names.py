"""Names made from positions and aggregates: segments on object storage, topics on the broker.

No aggregate id ever becomes part of an object's name, so no two can collide there. A topic's name is made
from the aggregate type byte by byte, and can be read back, so two types never share a topic.
"""

import hashlib
import re
import string
from collections.abc import Iterable
from typing import NamedTuple

SEGMENT_FOLDER = "segments"
TOPIC_PREFIX = "events."

_TOPIC_NAME_MAX = 245
_PLAIN = frozenset((string.ascii_letters + string.digits + "-").encode())
_SEGMENT = re.compile(rf"{SEGMENT_FOLDER}/(\d{{20}})-(\d{{20}})\.parquet")


class SegmentRange(NamedTuple):
    """The log positions in one segment, both ends included."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """Sorted by name is sorted by position."""
        return f"{SEGMENT_FOLDER}/{self.first:020d}-{self.last:020d}.parquet"


def largest(segments: Iterable[SegmentRange]) -> list[SegmentRange]:
    """Those that are not within another one, in order; segments are joined whole, so none overlap partly."""
    kept: list[SegmentRange] = []
    for one in sorted(segments, key=lambda each: (each.first, -each.last)):
        if not kept or one.last > kept[-1].last:
            kept.append(one)
    return kept


def parse_segment_name(name: str) -> SegmentRange | None:
    """The range of a segment's name; None for any other name."""
    found = _SEGMENT.fullmatch(name)
    return SegmentRange(int(found[1]), int(found[2])) if found else None


def topic_of(aggregate_type: str) -> str:
    """The topic for events of this type: bytes outside A-Z a-z 0-9 and - are written `_XX`.

    A type too long for a topic's name keeps its beginning and ends in `_.` and its SHA-256; nothing else is
    written like that.
    """
    spelled = [chr(byte) if byte in _PLAIN else f"_{byte:02X}" for byte in aggregate_type.encode()]
    name = TOPIC_PREFIX + "".join(spelled)
    if len(name) <= _TOPIC_NAME_MAX:
        return name
    ending = "_." + hashlib.sha256(aggregate_type.encode()).hexdigest()
    kept = name[: _TOPIC_NAME_MAX - len(ending)]
    return kept + ending
