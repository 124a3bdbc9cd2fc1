"""Reads of the event log that wait for an event: asked again after each append, never by a timer.

Everything here runs on the store's thread. Appends of this server ask again at once. Another server on the
same database cannot do that, so where there may be one, all that wait are asked again each second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from driftq.eventstore import EventStore

_T = TypeVar("_T")

OTHERS_S = 1.0
"""How often to look for events of other servers."""


@dataclass(frozen=True, slots=True, eq=False)
class EventWaitRequest(Generic[_T]):
    """A read that may wait. `query` returns None while it has no answer; with `final` it must have one."""

    query: Callable[[EventStore, bool], _T | None]
    reply: Callable[[_T | Exception], None]
    wait_ms: int


@dataclass(frozen=True, slots=True)
class EndWait:
    """The time of a read is over, or its client is gone and gets no reply."""

    request: EventWaitRequest[Any]
    lost: bool = False
