"""What of a message is looked at when it tells the whole state. Light to load: Spark's workers look too."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from driftq.model import Operation


class Stated(msgspec.Struct):
    """What of an event is looked at when it tells the whole state."""

    event_id: str
    payload: msgspec.Raw
    operation: Operation = Operation.APPEND

    @property
    def state(self) -> str | None:
        return None if self.operation is Operation.DELETE else bytes(self.payload).decode()


decode_stated = msgspec.json.Decoder(Stated).decode
decode_any = msgspec.json.Decoder().decode


def which_state(values: Iterable[str]) -> list[bool]:
    """Of each text whether it is an event that tells a state."""
    return [_decodes(decode_stated, value) for value in values]


def which_are_json(values: Iterable[str]) -> list[bool]:
    return [_decodes(decode_any, value) for value in values]


def _decodes(decode: Callable[[str], object], value: str) -> bool:
    try:
        decode(value)
    except (ValueError, RecursionError):
        return False
    return True
