"""Appending by position: a writer's epoch, and messages with their positions in a lane."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from driftq.model.envelope import Envelope, EnvelopeBody
from driftq.model.reply import Reply
from driftq.model.wire.fields import Name, Natural, Request

Lane = Annotated[int, Meta(ge=0, le=65_535)]


class AppendMessage(Request, frozen=True, omit_defaults=True):
    """A message with its position in its lane."""

    position: Natural
    value: str
    key: str = ""
    envelope: EnvelopeBody | None = None
    headers: dict[str, str] | None = None


class PositionedMessage(AppendMessage, frozen=True):
    """A message with its position in its lane, as a client sends it."""

    envelope: Envelope | None = None
    headers: dict[str, str] | None = None


class AppendBody(Request, frozen=True):
    """Messages of one writer's lane, their positions rising."""

    writer: Name
    lane: Lane
    epoch: Natural
    messages: list[AppendMessage]
    after: Natural | None = None


class AppendReceipt(Reply, frozen=True):
    """How many messages are new, how many were stored before, and the lane's last position (-1: none)."""

    appended: int
    skipped: int
    position: int


class WriterBody(Request, frozen=True):
    """Opens a writer: with the next epoch, or with this one where the writer counts epochs itself."""

    writer: Name
    epoch: Natural | None = None


class OpenWriter(msgspec.Struct, frozen=True):
    """The current epoch, and the last position of each lane that has one."""

    epoch: int
    lanes: dict[int, int]
