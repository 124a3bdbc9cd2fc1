"""A broker in this process, on a folder that can fail, asked without HTTP."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from driftq.core.commands import Ack, Produce
from driftq.core.lease import Credit
from driftq.errors import DriftQError
from driftq.log.files import Folder
from driftq.model import Envelope, Message, TopicOptions
from driftq.model.options.limits import Limits
from driftq.server.broker import Broker, BrokerOptions, open_broker
from driftq.server.produce.prepare import prepare_all
from driftq.server.requests import AckRequest, JoinRequest, ProduceRequest, ReadRequest, TopicRequest
from driftq.server.topics.views import TopicView, topic_view


class Listener:
    """A consumer that keeps what it gets."""

    def __init__(
        self, topic: str, group: str, owner: str, *, lease_ms: int = 60_000, prefetch: int = 100
    ) -> None:
        self.topic = topic
        self.group = group
        self.owner = owner
        self.lease_ms = lease_ms
        self.prefetch = prefetch
        self.prefetch_bytes = 1 << 20
        self.latest = False
        self.release_on_close = False
        self.credit = Credit()
        self.unsent = 0
        self.got: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def send(self, lines: bytes) -> None:
        for line in lines.splitlines():
            self.got.put_nowait(json.loads(line))

    def unsent_bytes(self) -> int:
        return self.unsent

    def end(self) -> None:
        self.got.put_nowait({"end": True})


class DirectClient:
    """Asks a broker and waits for its answer."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.engine = broker.engine

    async def ask(self, send: Callable[[Callable[[Any], None]], None]) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        send(answer.set_result)
        result = await asyncio.wait_for(answer, 10)
        if isinstance(result, DriftQError):
            raise result
        return result

    async def create(self, name: str, partitions: int = 1) -> None:
        await self.ask(
            lambda reply: self.engine.submit(TopicRequest(name, partitions, TopicOptions(), reply))
        )

    async def produce(
        self, topic: str, *values: str, envelope: Envelope | None = None, key: str = ""
    ) -> list[Any]:
        messages = [Message(topic=topic, value=value, key=key, envelope=envelope) for value in values]
        commands = [
            one for one in prepare_all(messages, at=self.engine.clock.now()) if isinstance(one, Produce)
        ]
        outcomes: list[Any] = await self.ask(
            lambda reply: self.engine.submit(ProduceRequest(commands, reply))
        )
        return outcomes

    async def join(self, listener: Listener) -> Listener:
        await self.ask(lambda reply: self.engine.submit(JoinRequest(listener, reply)))
        return listener

    async def ack(self, listener: Listener, offset: int, *, partition: int = 0) -> None:
        request = [Ack(listener.owner, partition, offset)]
        outcomes = await self.ask(
            lambda reply: self.engine.submit(AckRequest(listener.topic, listener.group, request, reply))
        )
        if outcomes[0] is not None:
            raise outcomes[0]

    async def view(self, topic: str) -> TopicView:
        found: TopicView = await self.ask(
            lambda reply: self.engine.read(ReadRequest(lambda state: topic_view(state, topic), reply))
        )
        return found


def start(folder: Folder, **options: Any) -> DirectClient:
    """Open a broker on the running loop; a fatal error is kept in `client.fatal`."""
    fatal: list[Exception] = []
    options.setdefault("limits", Limits())
    broker = open_broker(folder, BrokerOptions(**options), on_fatal=fatal.append)
    client = DirectClient(broker)
    client.fatal = fatal  # type: ignore[attr-defined]
    return client
