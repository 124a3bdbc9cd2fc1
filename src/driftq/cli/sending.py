"""Sending messages until they are confirmed, without ever storing one twice.

No answer is not a no: a message that was sent may be stored. So only a message with an idempotency key is
sent again, and the server answers the second time with the first one's place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from driftq.cli.connection import Connection, ServerRefused, ServerUnreachable
from driftq.model.backoff import doubled

BATCH_MESSAGES = 500
BATCH_BYTES = 1 << 20
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0

Message = dict[str, Any]
Result = dict[str, Any]


class Sender:
    """Produces over one connection; `retries` is how often a failure is answered by another try."""

    def __init__(
        self, connection: Connection, *, retries: int, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._connection = connection
        self._retries = retries
        self._pause = pause

    def send(self, message: Message) -> Result:
        """The server's answer; raises what the last try met."""
        for retry in range(self._tries([message])):
            try:
                return dict(self._connection.post("/v1/produce", message))
            except (ServerUnreachable, ServerRefused) as failure:
                if retry == self._tries([message]) - 1 or not _passing(failure):
                    raise
                self._wait(retry, getattr(failure, "retry_after_ms", None))
        raise AssertionError("a send ends by its answer or its failure")

    def send_batch(self, messages: Sequence[Message]) -> list[Result]:
        """A result for each message, in order; those that can be are sent again while they fail."""
        results: list[Result] = [{}] * len(messages)
        waiting = list(range(len(messages)))
        for retry in range(self._tries(messages)):
            last = retry == self._tries(messages) - 1
            try:
                answer = self._connection.post(
                    "/v1/produce/batch", {"messages": [messages[place] for place in waiting]}
                )
            except (ServerUnreachable, ServerRefused) as failure:
                if last or not _passing(failure):
                    raise
                self._wait(retry, getattr(failure, "retry_after_ms", None))
                continue
            for place, result in zip(waiting, answer["results"], strict=True):
                results[place] = result
            waiting = [place for place in waiting if _passing_result(results[place])]
            if not waiting:
                break
            if not last:
                self._wait(retry, None)
        return results

    def _tries(self, messages: Sequence[Message]) -> int:
        keyed = all(message.get("envelope", {}).get("idempotency_key") for message in messages)
        return 1 + (self._retries if keyed else 0)

    def _wait(self, retry: int, asked_ms: int | None) -> None:
        pause_s = doubled(FIRST_PAUSE_S, retry, cap=LONGEST_PAUSE_S)
        self._pause(max(pause_s, (asked_ms or 0) / 1000))


def batches(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """The messages in lists that are small enough for one request."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        length = len(message["value"])
        if batch and (len(batch) == BATCH_MESSAGES or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch


def _passing(failure: ServerUnreachable | ServerRefused) -> bool:
    """It may be over at the next try."""
    if isinstance(failure, ServerUnreachable):
        return True
    return failure.status in (429, 503) or failure.reason == "idempotency_pending"


def _passing_result(result: Result) -> bool:
    return (
        result.get("error") in ("RESOURCE_EXHAUSTED", "UNAVAILABLE")
        or result.get("reason") == "idempotency_pending"
    )
