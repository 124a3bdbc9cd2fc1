"""The fields of an event that carries the whole state. Light to load: Spark's workers decode it too."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from driftq.model import Operation


class StateEvent(msgspec.Struct):
    """An event that carries the whole state of its aggregate."""

    event_id: str
    payload: msgspec.Raw
    operation: Operation = Operation.APPEND

    @property
    def state(self) -> str | None:
        return None if self.operation is Operation.DELETE else bytes(self.payload).decode()


decode_state_event = msgspec.json.Decoder(StateEvent).decode
decode_any = msgspec.json.Decoder().decode


def which_state(values: Iterable[str]) -> list[bool]:
    """For each text whether it is an event that carries a state."""
    return [_decodes(decode_state_event, value) for value in values]


def which_are_json(values: Iterable[str]) -> list[bool]:
    return [_decodes(decode_any, value) for value in values]


def _decodes(decode: Callable[[str], object], value: str) -> bool:
    try:
        decode(value)
    except (ValueError, RecursionError):
        return False
    return True
