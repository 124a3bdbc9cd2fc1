"""Offsets of several topics as Spark keeps them, and how a limit is shared between partitions. Pure.

An offset is the next one to read. In options -2 means the oldest kept message and -1 the end, as for Kafka.
A time stands for the first message that was produced then or later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from driftq.errors import InvalidArgument

Offsets = dict[str, dict[str, int]]
"""By topic and partition; Spark keeps it as JSON in its checkpoint, so partitions are texts."""

Boundary = Literal["earliest", "latest"]

EARLIEST = -2
LATEST = -1
_decode = msgspec.json.Decoder(dict[str, dict[str, int]]).decode


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds since 1970: one for all partitions, or by topic and partition."""

    option: str
    """Where they were given."""
    every: int | None = None
    named: Offsets = field(default_factory=dict)

    def of(self, topic: str, partition: str) -> int | None:
        """The time for a partition; None where none is named."""
        return self.every if self.every is not None else self.named.get(topic, {}).get(partition)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A partition as it is now: the oldest kept message, and the end."""

    first: int
    end: int


def parse_offsets(option: str, text: str) -> Boundary | Offsets:
    """`earliest`, `latest`, or offsets as JSON; raises InvalidArgument, which names the option."""
    if text in ("earliest", "latest"):
        return "earliest" if text == "earliest" else "latest"
    try:
        offsets = _decode(text)
    except msgspec.DecodeError:
        raise InvalidArgument(
            option, f'must be earliest, latest, or JSON like {{"orders":{{"0":23}}}}, not {text!r}'
        ) from None
    for partitions in offsets.values():
        for number, offset in partitions.items():
            if not number.isdecimal() or offset < EARLIEST:
                raise InvalidArgument(option, f"{number!r}: {offset} is not a partition and its offset")
    return offsets


def parse_time(option: str, text: str) -> Times:
    """One time for all partitions; raises InvalidArgument, which names the option."""
    if not text.isdecimal():
        raise InvalidArgument(option, f"must be milliseconds since 1970, not {text!r}")
    return Times(option, every=int(text))


def parse_times(option: str, text: str) -> Times:
    """Times by topic and partition, as JSON; raises InvalidArgument, which names the option."""
    try:
        named = _decode(text)
    except msgspec.DecodeError:
        raise InvalidArgument(
            option, f'must be JSON like {{"orders":{{"0":1767225600000}}}}, not {text!r}'
        ) from None
    if any(not number.isdecimal() or at < 0 for times in named.values() for number, at in times.items()):
        raise InvalidArgument(option, f"{text!r} names what is no partition, or no time since 1970")
    return Times(option, named=named)


def resolve(
    wanted: Boundary | Offsets, bounds: Mapping[str, Mapping[str, Bounds]], *, option: str
) -> Offsets:
    """The exact offsets; partitions that are not named are read from their first message to their end."""
    missing = EARLIEST if option == "startingOffsets" else LATEST
    if isinstance(wanted, str):
        named: Offsets = {}
        missing = EARLIEST if wanted == "earliest" else LATEST
    else:
        named = wanted
        require_subscribed(named, bounds, option=option)
    return {
        topic: {
            number: _exact(named.get(topic, {}).get(number, missing), bound)
            for number, bound in partitions.items()
        }
        for topic, partitions in bounds.items()
    }


def require_subscribed(named: Offsets, bounds: Mapping[str, Mapping[str, Bounds]], *, option: str) -> None:
    """Raise InvalidArgument when an option names a partition that is not read."""
    for topic, partitions in named.items():
        for number in partitions:
            if number not in bounds.get(topic, {}):
                raise InvalidArgument(
                    option, f"there is no partition {number} in a subscribed topic {topic!r}"
                )


def _exact(offset: int, bound: Bounds) -> int:
    return bound.first if offset == EARLIEST else bound.end if offset == LATEST else offset


def allot(waiting: Mapping[tuple[str, str], int], limit: int) -> dict[tuple[str, str], int]:
    """How many messages of each partition go into a batch: in proportion, and at least one of each."""
    total = sum(waiting.values())
    if total <= limit:
        return dict(waiting)
    given: dict[tuple[str, str], int] = {}
    left = limit
    for key in sorted(
        waiting, key=lambda each: waiting[each]
    ):  # The small ones first, so that each gets a share.
        share = min(waiting[key], left, max(1, waiting[key] * limit // total))
        given[key] = share if waiting[key] else 0
        left -= given[key]
    for key in sorted(waiting, key=lambda each: -waiting[each]):  # The remainder of rounding.
        more = min(left, waiting[key] - given[key])
        given[key] += more
        left -= more
    return given


def reaches(offsets: Mapping[str, Any], pinned: Mapping[str, Any]) -> bool:
    """Whether every offset, or position, is at the pinned one or after it."""
    return all(
        reaches(offsets.get(name, {}), end) if isinstance(end, dict) else offsets.get(name, 0) >= end
        for name, end in pinned.items()
    )
