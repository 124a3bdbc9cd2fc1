"""From a message as a client gave it to a command that the core can decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from driftq.core.commands import Produce
from driftq.core.decide.new_messages import NewMessages
from driftq.core.index import FLAG_DEADLINE, FLAG_KEYED, FLAG_RETRY_POLICY
from driftq.core.keys import fingerprint, fingerprints
from driftq.core.records import ORDINARY, DeliveryTerms
from driftq.errors import InvalidArgument
from driftq.model import Envelope, MessageRetryPolicy, Routing, StoredMessage
from driftq.model.envelope import MAX_BACKOFF_MS
from driftq.model.headers import headers_problem
from driftq.model.time import parse_rfc3339
from driftq.storage.entry import encode_entries, encode_entry, encode_time

ENTRY_MAX = 16 << 20
"""Stored bytes of one message: what one request may carry, and half of what a frame holds."""


SIMPLE_BYTES_MAX = ENTRY_MAX // 2
"""A request of no more bytes holds no message that is too large."""

_FEW = 4


class Produced(Protocol):
    """A message as it comes from outside: `model.Message`, or a request of the same shape."""

    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def envelope(self) -> Envelope | None: ...
    @property
    def routing(self) -> Routing | None: ...
    @property
    def headers(self) -> dict[str, str] | None: ...


def is_simple(message: Produced) -> bool:
    """Whether nothing but its size can be refused, and nothing but its key decides where it goes."""
    envelope = message.envelope
    return message.headers is None and (
        envelope is None
        or not (
            envelope.target_topic
            or envelope.deadline
            or envelope.deliver_at
            or envelope.retry_policy is not None
            or envelope.partition_override is not None
        )
    )


def are_simple(messages: Sequence[Produced], *, size_bytes: int) -> bool:
    """Whether all of them are, of one topic, and small enough to be prepared in their turn."""
    if size_bytes > SIMPLE_BYTES_MAX:
        return False
    topics = [message.topic for message in messages]
    if topics.count(topics[0]) < len(topics):
        return False
    for message in messages:
        if (message.envelope is not None or message.headers is not None) and not is_simple(message):
            return False
    return True


def columns_of(messages: Sequence[Produced], *, at: int) -> NewMessages:
    """Simple messages of one topic, prepared together."""
    envelopes = [message.envelope for message in messages]
    prints: list[int] = []
    if envelopes.count(None) < len(envelopes):
        topic = messages[0].topic
        identities = [
            (envelope.tenant_id or "", topic, envelope.idempotency_key)
            if envelope is not None and envelope.idempotency_key
            else None
            for envelope in envelopes
        ]
        made = iter(fingerprints([one for one in identities if one is not None]))
        prints = [0 if one is None else next(made) for one in identities]
    stored = [StoredMessage(one.key, one.value, one.envelope, one.routing) for one in messages]
    keys = [message.key for message in messages]
    sizes = [
        len(key) + len(one.value)
        if one.value.isascii() and key.isascii()
        else size_of(key) + size_of(one.value)
        for key, one in zip(keys, messages, strict=True)
    ]
    return NewMessages(keys, sizes, encode_entries(stored, at), prints)


def prepare_simple(messages: Sequence[Produced], *, at: int) -> list[Produce]:
    """The same messages as commands, where each has to be judged alone."""
    time = encode_time(at)
    return [_prepare(message, time) for message in messages]


def size_of(text: str) -> int:
    """Bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def prepare(message: Produced, *, at: int) -> Produce:
    """Check and encode one message; raises InvalidArgument."""
    return _prepare(message, encode_time(at))


def prepare_all(messages: Iterable[Produced], *, at: int) -> list[Produce | InvalidArgument]:
    """Check and encode messages; a message that cannot be stored yields its error instead."""
    time = encode_time(at)
    messages = messages if isinstance(messages, (list, tuple)) else list(messages)
    if len(messages) > _FEW:
        simple = _prepare_plain(messages, at) or _prepare_keyed(messages, at)
        if simple is not None:
            return simple
    commands: list[Produce | InvalidArgument] = []
    for message in messages:
        try:
            commands.append(_prepare(message, time))
        except InvalidArgument as refused:
            commands.append(refused)
    return commands


def _prepare(message: Produced, time: bytes) -> Produce:
    key, value, envelope = message.key, message.value, message.envelope
    size = len(key) + len(value) if value.isascii() and key.isascii() else size_of(key) + size_of(value)
    headers = message.headers
    if headers is not None:
        headers = _checked_headers(headers)
    if envelope is not None:
        return _prepare_enveloped(message, envelope, headers, size, time)
    entry = encode_entry(StoredMessage(key, value, None, message.routing, None, headers), time)
    if len(entry) > ENTRY_MAX:
        raise InvalidArgument("value", f"takes more than {ENTRY_MAX} bytes")
    return Produce(message.topic, message.topic, key, value, size, entry)


def _prepare_plain(messages: Sequence[Produced], at: int) -> list[Produce | InvalidArgument] | None:
    """The same for many without envelope or headers, with less to do for each; None when one has some."""
    for message in messages:
        if message.envelope is not None or message.headers is not None:
            return None
    entries = encode_entries([StoredMessage(one.key, one.value, None, one.routing) for one in messages], at)
    if max(map(len, entries)) > ENTRY_MAX:
        return None
    return [
        Produce(
            one.topic,
            one.topic,
            one.key,
            one.value,
            len(one.value) if not one.key and one.value.isascii() else size_of(one.key) + size_of(one.value),
            entry,
        )
        for one, entry in zip(messages, entries, strict=True)
    ]


def _prepare_keyed(messages: Sequence[Produced], at: int) -> list[Produce | InvalidArgument] | None:
    """The same for messages with a key and no other control in the envelope; None when one has more."""
    bare: list[StoredMessage] = []
    identities: list[tuple[str, str, str]] = []
    for message in messages:
        envelope = message.envelope
        if (
            envelope is None
            or not envelope.idempotency_key
            or envelope.target_topic
            or envelope.deadline
            or envelope.deliver_at
            or envelope.retry_policy is not None
            or envelope.partition_override is not None
            or message.headers is not None
        ):
            return None
        bare.append(StoredMessage(message.key, message.value, envelope, message.routing))
        identities.append((envelope.tenant_id or "", message.topic, envelope.idempotency_key))
    entries = encode_entries(bare, at)
    if max(map(len, entries)) > ENTRY_MAX:
        return None
    return [
        Produce(
            topic,
            topic,
            one.key,
            one.value,
            len(one.value) if not one.key and one.value.isascii() else size_of(one.key) + size_of(one.value),
            entry,
            False,  # Not plain.
            None,
            None,
            FLAG_KEYED,
            None,
            key,
            tenant,
            print_,
        )
        for one, entry, (tenant, topic, key), print_ in zip(
            bare, entries, identities, fingerprints(identities), strict=True
        )
    ]


def _checked_headers(headers: dict[str, str]) -> dict[str, str] | None:
    """None for no headers at all, so that they are not stored; raises InvalidArgument."""
    problem = headers_problem(headers)
    if problem is not None:
        raise InvalidArgument("headers", problem)
    return headers or None


def _prepare_enveloped(
    message: Produced, envelope: Envelope, headers: dict[str, str] | None, size: int, time: bytes
) -> Produce:
    topic = envelope.target_topic or message.topic
    flags = 0
    deadline = None
    terms = None
    if envelope.deadline:
        flags |= FLAG_DEADLINE
        deadline = _instant("deadline", envelope.deadline)
    deliver_at = _instant("deliver_at", envelope.deliver_at) if envelope.deliver_at else None
    if deadline is not None and deliver_at is not None and deadline <= deliver_at:
        raise InvalidArgument("deadline", "must be after deliver_at")
    if envelope.retry_policy is not None:
        flags |= FLAG_RETRY_POLICY
        terms = terms_of(envelope.retry_policy)
    key = envelope.idempotency_key or ""
    tenant = envelope.tenant_id or ""
    if key:
        flags |= FLAG_KEYED
    requested = message.topic
    stored = StoredMessage(
        message.key,
        message.value,
        envelope,
        message.routing,
        requested if topic != requested else None,
        headers,
    )
    entry = encode_entry(stored, time)
    if len(entry) > ENTRY_MAX:
        raise InvalidArgument("value", f"takes more than {ENTRY_MAX} bytes")
    return Produce(
        topic,
        requested,
        message.key,
        message.value,
        size,
        entry,
        False,  # Not plain.
        envelope.partition_override,
        deadline,
        flags,
        terms,
        key,
        tenant,
        fingerprint(tenant, requested, key) if key else 0,
        deliver_at,
    )


def _instant(field: str, text: str) -> int:
    """In milliseconds; raises InvalidArgument."""
    try:
        return max(0, parse_rfc3339(text))
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(field, "must be an RFC 3339 time with a zone") from error


def terms_of(policy: MessageRetryPolicy) -> DeliveryTerms | None:
    """The delivery terms of a retry policy; None when they are the defaults."""
    problem = policy.problem()
    if problem:
        raise InvalidArgument("retry_policy", problem)
    terms = DeliveryTerms(
        max_attempts=policy.max_attempts or 0,
        backoff_ms=-1 if policy.backoff_ms is None else policy.backoff_ms,
        max_backoff_ms=MAX_BACKOFF_MS if policy.max_backoff_ms is None else policy.max_backoff_ms,
    )
    return terms if terms != ORDINARY else None
