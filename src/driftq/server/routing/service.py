"""Calling a router for a message's target, without ever waiting for it on the loop.

A router that raises, takes too long or returns an invalid decision is counted and logged, and the message
goes on unrouted. A message whose idempotency key is taken goes where the first one went: the decision was
recorded with it, and the router is not called again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec

from driftq.core.keys import fingerprint
from driftq.core.state import State
from driftq.errors import IdempotencyPending
from driftq.errors.misfit import misfit
from driftq.model import Envelope, Message, Routing, RoutingDecision
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.counters import Counters
from driftq.server.routing.threads import RouterThreads
from driftq.telemetry.log_lines import raised_at

ROUTER_TIMEOUT_MS = 1_000
_WORKERS = 8
_INLINE_MAX = 64 << 10
"""Characters of a value that are examined on the loop."""

logger = logging.getLogger("driftq.router")


class Router(Protocol):
    """Decides a message's target; None leaves it as it is. Called from several threads.

    A router may have `topics`, a collection of names: then it is not called for any others. One with a true
    `inline` promises to take microseconds and is called on the loop. One with a `close` is closed at the end.
    """

    def __call__(self, topic: str, message: Message, /) -> RoutingDecision | None: ...


class NonsenseDecision(ValueError):
    """An invalid decision of a router."""


def follow(message: Message, decision: object, state: State) -> Message:
    """The message with the decision applied; raises NonsenseDecision."""
    if decision is None:
        return message
    if not isinstance(decision, RoutingDecision):
        raise NonsenseDecision(f"expected a RoutingDecision or None, got {type(decision).__name__}")
    try:
        decision = msgspec.convert(msgspec.to_builtins(decision), RoutingDecision)
    except msgspec.ValidationError as error:
        raise NonsenseDecision(str(misfit(str(error), whole="the decision"))) from error
    except TypeError as error:
        raise NonsenseDecision(str(error)) from error
    envelope = message.envelope
    if decision.target_topic is not None or decision.partition_override is not None:
        envelope = envelope or Envelope()
        envelope = msgspec.structs.replace(
            envelope,
            target_topic=decision.target_topic or envelope.target_topic,
            partition_override=(
                envelope.partition_override
                if decision.partition_override is None
                else decision.partition_override
            ),
        )
        _check_controls(message, envelope, state)
    routing = Routing(label=decision.label, meta=decision.meta)
    return msgspec.structs.replace(message, envelope=envelope, routing=routing)


def _check_controls(message: Message, envelope: Envelope, state: State) -> None:
    name = envelope.target_topic or message.topic
    topic = state.topics.get(name)
    if topic is None or name.startswith(DEAD_LETTER_PREFIX):
        raise NonsenseDecision(f"there is no topic {name!r} to route to")
    override = envelope.partition_override
    if override is not None and not 0 <= override < len(topic.partitions):
        raise NonsenseDecision(f"topic {name!r} has no partition {override}")


class RoutingService:
    """Runs a router in threads of its own and hands the routed messages back on the loop."""

    def __init__(
        self,
        router: Router,
        *,
        state: Callable[[], State],
        counters: Counters,
        timeout_ms: int = ROUTER_TIMEOUT_MS,
    ) -> None:
        self._router = router
        self._topics: Collection[str] | None = getattr(router, "topics", None)
        self._inline = bool(getattr(router, "inline", False))
        self._state = state
        self._counters = counters
        self._timeout_s = timeout_ms / 1000
        self._threads = RouterThreads(_WORKERS, name="driftq-router")
        self._under_way: dict[int, asyncio.Future[object]] = {}
        """Pending decisions, by the fingerprint of their key."""
        self._pending: set[tuple[str, str, str]] = set()
        """Identities of messages that wait for the router."""

    def wants(self, topic: str) -> bool:
        """Whether messages for this topic are routed at all; others need not wait."""
        return self._topics is None or topic in self._topics

    @contextmanager
    def holding(self, messages: Sequence[Message]) -> Iterator[list[IdempotencyPending | None]]:
        """Inside the block these messages' keys are pending: other requests with one of them are refused.

        Yields None for each message, or the error when another request is being routed under its key.
        """
        own: set[tuple[str, str, str]] = set()
        refusals: list[IdempotencyPending | None] = []
        for message in messages:
            envelope = message.envelope
            key = envelope.idempotency_key if envelope is not None else None
            identity = (envelope.tenant_id or "", message.topic, key) if envelope and key else None
            if identity is not None and identity in self._pending and identity not in own:
                refusals.append(IdempotencyPending(identity[2]))
                continue
            if identity is not None:
                own.add(identity)
                self._pending.add(identity)
            refusals.append(None)
        try:
            yield refusals
        finally:
            self._pending -= own

    async def route(self, message: Message) -> Message:
        """The routed message, or the same one when the router failed."""
        envelope = message.envelope
        key = envelope.idempotency_key if envelope is not None else None
        print_ = fingerprint(envelope.tenant_id or "", message.topic, key) if envelope and key else 0
        if print_:
            recorded = self._recorded(message, print_)
            if recorded is not None:
                return recorded
        try:
            return follow(message, await self._decision(message, print_), self._state())
        except Exception as error:  # noqa: BLE001 (a router never fails a produce)
            self._counters.router_failures += 1
            logger.warning("the router failed, the message goes on unrouted: %s", _failure(error))
            return message

    def _recorded(self, message: Message, print_: int) -> Message | None:
        """The message with the target of the first one with its key, where it is found to be a duplicate."""
        state = self._state()
        refs = state.keys.find(print_)
        topic = state.topics_by_id.get(refs[0].topic) if refs else None
        found = topic.locate(refs[0].offset) if topic is not None else None
        if topic is None or found is None:
            return None
        envelope = msgspec.structs.replace(
            message.envelope or Envelope(),
            target_topic=topic.name,
            partition_override=found[0],
        )
        return msgspec.structs.replace(message, envelope=envelope)

    async def _decision(self, message: Message, print_: int) -> object:
        """The router's decision; concurrent requests with one key share it."""
        if print_ in self._under_way:
            return await asyncio.shield(self._under_way[print_])
        if self._inline and len(message.value) < _INLINE_MAX:
            return self._router(message.topic, message)
        loop = asyncio.get_running_loop()
        routed = asyncio.wrap_future(
            self._threads.submit(lambda: self._router(message.topic, message)), loop=loop
        )
        if not print_:
            return await asyncio.wait_for(routed, self._timeout_s)
        answer: asyncio.Future[object] = loop.create_future()
        self._under_way[print_] = answer
        try:
            decision = await asyncio.wait_for(routed, self._timeout_s)
        except BaseException as error:
            answer.set_exception(error if isinstance(error, Exception) else TimeoutError())
            answer.exception()  # Retrieved here, because there may be no other waiter.
            raise
        else:
            answer.set_result(decision)
            return decision
        finally:
            del self._under_way[print_]

    def stop(self) -> None:
        self._threads.stop()
        close = getattr(self._router, "close", None)
        if close is not None:
            close()


def _failure(error: Exception) -> str:
    """An error in words. Of a router's own exception only the place: its text may quote the message."""
    if isinstance(error, OSError) or type(error).__module__.startswith("driftq."):
        return f"{type(error).__name__}: {error}"
    return raised_at(error)
