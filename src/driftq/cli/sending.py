"""Sending messages until they are confirmed, without ever storing one twice.

A message whose response was lost may be stored. So only a message with an idempotency key is repeated; the
server then returns the place of the first one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from driftq.cli.connection import Connection
from driftq.errors import DriftQError, ResourceExhausted
from driftq.model.backoff import doubled
from driftq.transport.errors import is_transient, rebuild

BATCH_MESSAGES = 500
BATCH_BYTES = 1 << 20
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0

Message = dict[str, Any]
Result = dict[str, Any]


class Sender:
    """Produces over one connection; `retries` is the maximum number of repetitions."""

    def __init__(
        self, connection: Connection, *, retries: int, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._connection = connection
        self._retries = retries
        self._pause = pause

    def send(self, message: Message) -> Result:
        """The response; raises the error of the last attempt."""
        for retry in range(self._tries([message])):
            try:
                return dict(self._connection.post("/v1/produce", message))
            except DriftQError as failure:
                if retry == self._tries([message]) - 1 or not is_transient(failure):
                    raise
                self._wait(retry, failure)
        raise AssertionError("a send ends with a response or an error")

    def send_batch(self, messages: Sequence[Message]) -> list[Result]:
        """A result for each message, in order; transient failures are repeated."""
        results: list[Result] = [{}] * len(messages)
        waiting = list(range(len(messages)))
        for retry in range(self._tries(messages)):
            last = retry == self._tries(messages) - 1
            try:
                answer = self._connection.post(
                    "/v1/produce/batch", {"messages": [messages[index] for index in waiting]}
                )
            except DriftQError as failure:
                if last or not is_transient(failure):
                    raise
                self._wait(retry, failure)
                continue
            for index, result in zip(waiting, answer["results"], strict=True):
                results[index] = result
            waiting = [index for index in waiting if _may_be_repeated(results[index])]
            if not waiting:
                break
            if not last:
                self._wait(retry)
        return results

    def _tries(self, messages: Sequence[Message]) -> int:
        keyed = all(message.get("envelope", {}).get("idempotency_key") for message in messages)
        return 1 + (self._retries if keyed else 0)

    def _wait(self, retry: int, failure: DriftQError | None = None) -> None:
        pause_s = doubled(FIRST_PAUSE_S, retry, cap=LONGEST_PAUSE_S)
        if isinstance(failure, ResourceExhausted):
            pause_s = max(pause_s, failure.retry_after_ms / 1000)
        self._pause(pause_s)


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


def _may_be_repeated(result: Result) -> bool:
    return "error" in result and is_transient(rebuild(result))
