"""Where a publisher begins: at the lower of the positions in its checkpoint and on the topics.

A topic that has less than the checkpoint was deleted or restored from a backup: the log is read again from
there, and topics that have more skip the messages by position. Without such a loss the publisher still
rereads a little and drops the events whose ids it remembers; that saves requests, and correctness does not
depend on it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

import msgspec

from driftq.errors import PublisherReplaced
from driftq.eventstore.published import TOPIC_PREFIX
from driftq.model import TopicView
from driftq.model.options.pipeline import PublisherSettings
from driftq.model.wire.append import OpenWriter
from driftq.publishing.checkpoint import Checkpoint, CheckpointStore
from driftq.transport.paths import topic_path
from driftq.transport.server import Server

Positions = dict[str, dict[int, int]]
"""Per topic and lane the last position that is stored."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The new checkpoint, and where to read."""

    checkpoint: Checkpoint
    after: int
    """The log is read after this position."""
    sent_ids: frozenset[str] = field(default_factory=frozenset)
    """Event ids that need not be sent again, up to the checkpoint's position."""


def begin(
    store: CheckpointStore,
    server: Server,
    settings: PublisherSettings,
    *,
    remembered: Iterable[tuple[int, str]] = (),
) -> Resume:
    """Take over: from here on the topics and the checkpoint refuse every older run."""
    checkpoint = take_epoch(store)
    newest = _newest_epoch(server, checkpoint.publisher)
    if newest >= checkpoint.epoch:  # The checkpoint was rolled back: the topics have a later epoch.
        checkpoint = msgspec.structs.replace(checkpoint, epoch=newest + 1)
        store.save(checkpoint)
    stored = _take_over(server, checkpoint)
    beginning = decide_resume(checkpoint, stored, settings, remembered=remembered, now_ms=now_ms())
    store.save(beginning.checkpoint)
    return beginning


def take_epoch(store: CheckpointStore) -> Checkpoint:
    """Store the next epoch; raises PublisherReplaced when another publisher was first to take it."""
    while True:
        found = store.load() or Checkpoint(publisher=f"publisher-{uuid4().hex}")
        checkpoint = msgspec.structs.replace(found, epoch=found.epoch + 1)
        try:
            store.save(checkpoint)
        except PublisherReplaced:
            newest = store.load()
            if newest is None or newest.epoch != found.epoch:
                raise
            continue  # The older run has just moved its checkpoint on.
        return checkpoint


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def decide_resume(
    checkpoint: Checkpoint,
    stored: Positions,
    settings: PublisherSettings,
    *,
    remembered: Iterable[tuple[int, str]] = (),
    now_ms: int,
) -> Resume:
    """Where to read from, given the positions of the topics."""
    lost = _behind(checkpoint.topics, stored)
    position = min([checkpoint.position, *[max(at, 0) for at in lost]])
    agreed = msgspec.structs.replace(checkpoint, position=position, topics=stored)
    if lost:
        return Resume(msgspec.structs.replace(agreed, recent=[], marks=[]), position)
    since_ms = now_ms - settings.lookback_seconds * 1_000
    lookback = min([at for when, at in checkpoint.marks if when >= since_ms], default=position)
    after = min(position, max(lookback, position - settings.lookback_keys_max, 0))
    sent_ids = {event_id for at, event_id in [*remembered, *checkpoint.recent] if after < at <= position}
    return Resume(agreed, after, frozenset(sent_ids))


def _behind(expected: Mapping[str, Mapping[int, int]], stored: Positions) -> list[int]:
    """The positions of lanes that have less than they should."""
    return [
        stored.get(topic, {}).get(lane, -1)
        for topic, lanes in expected.items()
        for lane, position in lanes.items()
        if stored.get(topic, {}).get(lane, -1) < position
    ]


def _newest_epoch(server: Server, publisher: str) -> int:
    """The newest epoch of this publisher on any topic."""
    views = [server.get(topic_path(topic), TopicView) for topic in _topics(server)]
    return max((one.epoch for view in views for one in view.writers if one.writer == publisher), default=0)


def _take_over(server: Server, checkpoint: Checkpoint) -> Positions:
    """Open the epoch on all topics of events; returns the position of each lane there."""
    asked = {"writer": checkpoint.publisher, "epoch": checkpoint.epoch}
    stored: Positions = {}
    for topic in _topics(server):
        opened = server.post(topic_path(topic, "/writers"), asked, OpenWriter)
        if opened.lanes:
            stored[topic] = opened.lanes
    return stored


def _topics(server: Server) -> list[str]:
    every = server.get("/v1/topics", dict[str, list[str]])["topics"]
    return [topic for topic in every if topic.startswith(TOPIC_PREFIX)]
