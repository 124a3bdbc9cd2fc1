"""Where a dead letter goes: to `dlq.<topic>`, into its partition modulo the number that there are."""

from __future__ import annotations

import asyncio

from driftq.client import AsyncClient
from driftq.errors import DriftQError, TopicNotFound
from driftq.model.topic import DEAD_LETTER_PREFIX

_ANSWER_S = 2.0


class DeadLetterPartitions:
    """Names them for the log, and asks the server at most once how many partitions there are."""

    def __init__(self, client: AsyncClient, topic: str) -> None:
        self._client = client
        self._topic = f"{DEAD_LETTER_PREFIX}{topic}"
        self._partitions: int | None = None

    async def name(self, partition: int) -> str:
        """`dlq.payments/1`; without the partition while the server does not say."""
        if self._partitions is None:
            try:
                view = await asyncio.wait_for(self._client.topic(self._topic), _ANSWER_S)
            except TopicNotFound:
                return f"{self._topic}/{partition}"  # It is about to be made like the topic itself.
            except (DriftQError, TimeoutError):
                return self._topic
            self._partitions = len(view.partitions)
        return f"{self._topic}/{partition % self._partitions}"
