"""A turn's simple messages, stored as columns: no object for a message, one answer for all single requests.

It is all or nothing at first: where a request is of another kind, a topic is missing or a key is not
certainly new, nothing is stored here and the stage judges each message alone. Later only the messages for a
partition that is nearly full are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol

from driftq.core.decide.new_messages import NewMessages, NewRun, decide_new
from driftq.core.state import State, Topic
from driftq.errors import DriftQError
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.produce.prepare import columns_of
from driftq.server.requests import ManyRequest, ProduceRequest, SimpleRequest, SingleRequest, StoredRun
from driftq.server.turn import Turn

Simple = list[SingleRequest] | ManyRequest
"""What is stored together: single messages of one topic, or one request with many."""


class Storing(Protocol):
    """The stage, which writes what is decided here."""

    def add_run(self, turn: Turn, topic: Topic, run: NewRun) -> None: ...

    def store_one_by_one(self, turn: Turn, requests: Sequence[SimpleRequest]) -> None: ...


def store_simple(turn: Turn, requests: Sequence[ProduceRequest | SimpleRequest], storing: Storing) -> bool:
    """Store and answer all of them; False, and nothing has changed, when they need a closer look."""
    groups = _grouped(requests)
    if groups is None:
        return False
    columns: list[tuple[Topic, Simple, NewMessages]] = []
    prints: list[int] = []
    for name, group in groups:
        topic = turn.state.topics.get(name)
        if topic is None or name.startswith(DEAD_LETTER_PREFIX):
            return False
        messages = group.messages if isinstance(group, ManyRequest) else [one.message for one in group]
        new = columns_of(messages, at=turn.now)
        columns.append((topic, group, new))
        prints += new.fingerprints
    if prints and not _are_new(turn.state, prints):
        return False
    for topic, group, new in columns:
        run = decide_new(turn.state, topic, new, now=turn.now)
        if run is None:
            storing.store_one_by_one(turn, [group] if isinstance(group, ManyRequest) else group)
            continue
        storing.add_run(turn, topic, run)
        answer = StoredRun(topic.name, run.partitions, run.first_offset)
        turn.reply_through(group.reply if isinstance(group, ManyRequest) else partial(_answer, group), answer)
    return True


def _grouped(requests: Sequence[ProduceRequest | SimpleRequest]) -> Iterable[tuple[str, Simple]] | None:
    """The requests by topic, in their order within each; None when one is of another kind."""
    singles: list[SingleRequest] = []
    for request in requests:
        if type(request) is not SingleRequest:
            return _grouped_in_order(requests)
        singles.append(request)
    topics = [request.message.topic for request in singles]
    if topics.count(topics[0]) == len(topics):
        return [(topics[0], singles)]
    found: dict[str, list[SingleRequest]] = {}
    for request, name in zip(singles, topics, strict=True):
        found.setdefault(name, []).append(request)
    return found.items()


def _grouped_in_order(
    requests: Sequence[ProduceRequest | SimpleRequest],
) -> list[tuple[str, Simple]] | None:
    groups: list[tuple[str, Simple]] = []
    for request in requests:
        if isinstance(request, ManyRequest):
            groups.append((request.messages[0].topic, request))
        elif isinstance(request, SingleRequest):
            last = groups[-1][1] if groups else None
            if isinstance(last, list) and groups[-1][0] == request.message.topic:
                last.append(request)
            else:
                groups.append((request.message.topic, [request]))
        else:
            return None
    return groups


def _are_new(state: State, prints: list[int]) -> bool:
    """No key is live or occurs twice, and the table takes them all."""
    keyed = [print_ for print_ in prints if print_]
    if len(state.keys) + len(keyed) >= state.limits.idempotency_keys_max:
        return False
    return len(set(keyed)) == len(keyed) and state.keys.has_none(keyed)


def _answer(requests: list[SingleRequest], answer: StoredRun | DriftQError) -> None:
    """The commit is durable, or has failed."""
    if isinstance(answer, DriftQError):
        for request in requests:
            request.reply(answer)
    else:
        requests[0].answers.answer_all([request.asked for request in requests], answer)
