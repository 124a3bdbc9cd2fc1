"""Dead-letter topics of a DriftQ server. Clients cannot produce to them, so relays have a route there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

from driftq.errors import DriftQError, TopicNotFound, Unavailable
from driftq.model.dead_letter import HandlerDeadLetter, dead_letter_from
from driftq.model.options.credentials import NO_CREDENTIALS, Credentials
from driftq.model.wire.dlq import DeadLettersReply, DeadLetterTopicsReply
from driftq.model.wire.handler_letters import HandlerLetter, HandlerLettersBody
from driftq.pipeline.dead_letters.port import DeadLetterCount, TopicDeadLetter
from driftq.transport.paths import Query
from driftq.transport.server import PATIENCE_S, Server

_REQUEST_BYTES = 4 << 20
_PAGE = 500


class DriftqDeadLetters:
    """Implements `DeadLetterTopics`. The server stores each dead letter once, by its id."""

    def __init__(
        self, url: str, *, credentials: Credentials = NO_CREDENTIALS, patience_s: float = PATIENCE_S
    ) -> None:
        self._server = Server(url, credentials=credentials, patience_s=patience_s)

    def publish(self, dead_letters: Sequence[HandlerDeadLetter]) -> list[str | None]:
        problems: dict[int, str | None] = {}
        by_topic = sorted(range(len(dead_letters)), key=lambda slot: dead_letters[slot].topic)
        for topic, slots in groupby(by_topic, key=lambda slot: dead_letters[slot].topic):
            for part in _parts(dead_letters, list(slots)):
                own = [dead_letters[slot] for slot in part]
                problems.update(zip(part, self._post(topic, own), strict=True))
        return [problems[slot] for slot in range(len(dead_letters))]

    def _post(self, topic: str, dead_letters: Sequence[HandlerDeadLetter]) -> list[str | None]:
        """A request that the server refuses as a whole is taken apart, to find the one that it refuses."""
        body = HandlerLettersBody([HandlerLetter.of(dead_letter) for dead_letter in dead_letters])
        try:
            reply = self._server.post(f"{_path(topic)}/letters", body, dict[str, list[dict[str, Any]]])
        except Unavailable:
            raise
        except DriftQError as refused:
            if len(dead_letters) == 1:
                return [str(refused)]
            return [problem for each in dead_letters for problem in self._post(topic, [each])]
        return [result.get("message") for result in reply["results"]]

    def topics(self) -> list[DeadLetterCount]:
        found: list[DeadLetterCount] = []
        for dlq in self._server.get("/v1/dlq", DeadLetterTopicsReply).dlqs:
            oldest = {each.dead_letter.id: each.dead_letter.at for each in self.read(dlq.topic)}
            if oldest:
                found.append(DeadLetterCount(dlq.topic, len(oldest), min(oldest.values())))
        return found

    def read(self, topic: str) -> Iterator[TopicDeadLetter]:
        after: int | None = None
        while True:
            query: Query = {"limit": _PAGE, "after": after, "handlers": True}
            try:
                page = self._server.get(_path(topic), DeadLettersReply, query).messages
            except TopicNotFound:
                return
            for message in page:
                facts = message.envelope.dlq if message.envelope is not None else None
                dead_letter = dead_letter_from(facts, key=message.key, value=message.value)
                if dead_letter is not None:
                    yield TopicDeadLetter(message.partition, message.offset, dead_letter)
            if len(page) < _PAGE:
                return
            after = page[-1].offset

    def close(self) -> None:
        self._server.close()


def _parts(dead_letters: Sequence[HandlerDeadLetter], slots: Sequence[int]) -> Iterator[list[int]]:
    """In order, each of a bounded size."""
    part: list[int] = []
    size = 0
    for slot in slots:
        own = len(dead_letters[slot].value or "") + len(dead_letters[slot].error)
        if part and size + own > _REQUEST_BYTES:
            yield part
            part, size = [], 0
        part.append(slot)
        size += own
    if part:
        yield part


def _path(topic: str) -> str:
    return f"/v1/dlq/{quote(topic, safe='')}"
