"""From a value and its options to a message that can be sent.

Text is sent as it is, bytes as a data URL (`data:application/octet-stream;base64,…`) that any program can
read, everything else as JSON.
"""

from __future__ import annotations

import datetime as dt
import os
import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, ClassVar, TypedDict, cast

import msgspec

from driftq.errors import InvalidArgument
from driftq.errors.misfit import misfit
from driftq.made_up_key import MADE_UP_PREFIX
from driftq.model import DeadLetterFacts, Envelope, RetryPolicy
from driftq.model.headers import headers_problem
from driftq.model.value import BYTES_MARK
from driftq.telemetry.tracing import current_traceparent

_encode = msgspec.json.Encoder().encode
_TRACE_ALONE = {"traceparent"}


class EnvelopeFields(TypedDict, total=False):
    """What may travel with a message; see `driftq.Envelope`."""

    run_id: str
    step_id: str
    parent_step_id: str
    tenant_id: str
    target_topic: str
    partition_override: int
    deadline: str | dt.datetime
    deliver_at: str | dt.datetime
    delay: float
    """In seconds from now, in place of `deliver_at`."""
    retry_policy: RetryPolicy
    traceparent: str
    labels: dict[str, str]
    """In-process only."""
    dlq: DeadLetterFacts
    """In-process only."""


class KeyAlone(msgspec.Struct, frozen=True, gc=False):
    """An envelope with nothing but a key, which is what most messages have."""

    idempotency_key: str


class KeyAndTrace(KeyAlone, frozen=True, gc=False):
    """The same in a process that traces."""

    traceparent: str


class Outgoing(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message as it is written on the wire."""

    topic: str
    value: str
    key: str = ""
    envelope: Envelope | KeyAlone | None = None
    headers: dict[str, str] | None = None
    routing: ClassVar[None] = None


class _Keys:
    """Made-up idempotency keys, unique to this process: the mark, a random name and a number."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):  # Windows does not fork.
            os.register_at_fork(after_in_child=self.renew)  # A child with its parent's keys loses messages.

    def renew(self) -> None:
        prefix = f"{MADE_UP_PREFIX}{secrets.token_urlsafe(16)}-"
        self.next: Callable[[], str] = map(prefix.__add__, map(str, count(1))).__next__
        """Makes a new key; built from C functions, because every message needs one."""


keys = _Keys()


def text_of(value: Any) -> str:
    """A value as the text that is stored; raises InvalidArgument."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return BYTES_MARK + b64encode(value).decode()
    try:
        return _encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument("value", f"cannot be written as JSON: {error}") from error


def outgoing(
    topic: str,
    value: Any,
    key: str,
    idempotency_key: str | None,
    envelope: EnvelopeFields,
    headers: Mapping[str, str] | None = None,
) -> Outgoing:
    """One message; raises InvalidArgument for values that no server accepts."""
    text = value if type(value) is str else text_of(value)
    if not (text.isascii() and key.isascii() and topic.isascii()):
        for name, given in (("value", text), ("key", key), ("topic", topic)):
            _check_text(name, given)
    if idempotency_key is not None and not idempotency_key.isascii():
        _check_text("idempotency_key", idempotency_key)
    named = None if headers is None else _headers(headers)
    if not envelope:
        if idempotency_key is None:
            return Outgoing(topic, text, key, None, named)
        return Outgoing(topic, text, key, KeyAlone(idempotency_key), named)
    if idempotency_key is not None and envelope.keys() == _TRACE_ALONE:
        trace = envelope["traceparent"]
        if type(trace) is str and trace.isascii():
            return Outgoing(topic, text, key, KeyAndTrace(idempotency_key, trace), named)
    return Outgoing(topic, text, key, _envelope(idempotency_key, envelope), named)


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    headers = dict(given)
    try:
        problem = headers_problem(msgspec.convert(headers, dict[str, str]))
    except UnicodeEncodeError:
        problem = "has characters that UTF-8 cannot write"
    except msgspec.ValidationError:
        problem = "must have a text for each name"
    if problem is not None:
        raise InvalidArgument("headers", problem)
    return headers


def with_trace(envelope: EnvelopeFields) -> EnvelopeFields:
    """The same with the context of the current span, unless there is none or the caller gave one."""
    traceparent = None if "traceparent" in envelope else current_traceparent()
    return envelope if traceparent is None else {**envelope, "traceparent": traceparent}


def with_instant(envelope: EnvelopeFields, now: Callable[[], dt.datetime]) -> EnvelopeFields:
    """The same with `deliver_at` in place of `delay`; raises InvalidArgument."""
    if "delay" not in envelope:
        return envelope
    if envelope.get("deliver_at") is not None:
        raise InvalidArgument("delay", "goes without deliver_at: give one of them")
    rest = cast(EnvelopeFields, {name: given for name, given in envelope.items() if name != "delay"})
    try:
        return {**rest, "deliver_at": now() + dt.timedelta(seconds=envelope["delay"])}
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument("delay", f"must be a number of seconds: {error}") from error


def _envelope(idempotency_key: str | None, given: EnvelopeFields) -> Envelope:
    fields: dict[str, Any] = dict(given)
    policy = fields.get("retry_policy")
    if isinstance(policy, RetryPolicy) and policy.is_for_jobs:
        raise InvalidArgument(
            "retry_policy", "base, cap, jitter, retry_for and give_up_on are for jobs; give backoff_ms"
        )
    for name in ("deadline", "deliver_at"):
        instant = fields.get(name)
        if isinstance(instant, dt.datetime):
            if instant.tzinfo is None:
                raise InvalidArgument(name, "needs a time zone")
            fields[name] = instant.isoformat()
    for name, wish in fields.items():
        try:
            _encode(wish)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(name, str(error)) from error
    try:
        return msgspec.convert({"idempotency_key": idempotency_key, **fields}, Envelope, from_attributes=True)
    except msgspec.ValidationError as error:
        raise misfit(str(error), whole="the envelope") from None


def _check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(name, "has characters that UTF-8 cannot write") from None
