"""`driftq.AsyncClient`: a server's calls on an event loop.

`driftq.Client` is generated from this class: signatures and docstrings are written here only.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, Unpack

import msgspec

from driftq.client import explaining
from driftq.client.consuming.consumer import AsyncConsumer, LineSource
from driftq.client.consuming.subscription import LEASE_MS, Settling, Subscription, new_owner
from driftq.client.dead_letters import AsyncDeadLetters
from driftq.client.effects import AsyncIdempotency
from driftq.client.job_calls import AsyncJobCalls
from driftq.client.operating import AsyncMessageSearch, AsyncPipelines, AsyncRegistryCalls
from driftq.client.options import TIMEOUT_S, ClientOptions
from driftq.client.producing import append as appending
from driftq.client.producing.closing import send_and_close
from driftq.client.producing.outgoing import EnvelopeFields
from driftq.client.producing.producer import KeyOf, Producer
from driftq.client.queue_calls import AsyncQueueCalls
from driftq.client.schedule_calls import AsyncScheduleCalls
from driftq.client.wire.calls import Calls
from driftq.client.wire.connector import Connector, TcpConnector
from driftq.client.wire.encoding import reset_target
from driftq.errors import GroupNotFound, TopicNotFound
from driftq.forking import in_forked_child
from driftq.model import TopicView
from driftq.model.wire.append import AppendReceipt, OpenWriter, PositionedMessage
from driftq.model.wire.explain import ExplainedMessage, ExplainedRun
from driftq.model.wire.messages import AckPart, RecordedMessage
from driftq.model.wire.produce import Receipt
from driftq.settings import load_credentials
from driftq.transport.endpoint import Endpoint
from driftq.transport.paths import Query, group_path, topic_path

DEFAULT_URL = "http://127.0.0.1:8080"

_decode_records = msgspec.json.Decoder(RecordedMessage).decode_lines


class AsyncClient:
    """One server. Use it on one event loop, with `async with` or with `close` at the end."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = TIMEOUT_S,
        api_key: str | None = None,
        ca_file: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        options: ClientOptions | None = None,
        connector: Connector | None = None,
    ) -> None:
        """`timeout_s` limits one call with all its retries. `options` has further limits and replaces it.

        `api_key` and the files of TLS come from the environment where they are not given: DRIFTQ_API_KEY,
        DRIFTQ_CA_FILE, DRIFTQ_CLIENT_CERT, DRIFTQ_CLIENT_KEY. `options` replaces these arguments as well.
        """
        options = options or ClientOptions(
            timeout_s=timeout_s,
            api_key=api_key,
            ca_file=ca_file,
            client_cert=client_cert,
            client_key=client_key,
        )
        if connector is None:
            credentials = load_credentials(
                api_key=options.api_key,
                ca_file=options.ca_file,
                client_cert=options.client_cert,
                client_key=options.client_key,
            )
            options = replace(options, api_key=credentials.api_key)
            connector = TcpConnector(Endpoint.of(url, credentials=credentials))
        self._options = options
        self._calls = Calls(connector, options)
        self.idempotency = AsyncIdempotency(self._calls)
        self.jobs = AsyncJobCalls(self._calls)
        self.schedules = AsyncScheduleCalls(self._calls)
        self.queues = AsyncQueueCalls(self._calls)
        self.dead_letters = AsyncDeadLetters(self._calls)
        self.messages = AsyncMessageSearch(self._calls)
        self.registry = AsyncRegistryCalls(self._calls)
        self.pipelines = AsyncPipelines(self._calls)
        self._producing: Producer | None = None
        self._settlings: dict[tuple[str, str, str], Settling] = {}
        self._sources: set[LineSource] = set()
        self._closed = False
        in_forked_child(self._reset_in_child)

    def _reset_in_child(self) -> None:
        """In a forked child: the parent sends what waits; new calls open connections of their own."""
        self._producing = None
        self._settlings = {}
        self._sources = set()

    @property
    def url(self) -> str:
        return self._calls.connector.url

    # Topics

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        retention_ms: int | None = None,
        retention_bytes: int | None = None,
        table: bool | None = None,
        tenant: str | None = None,
    ) -> None:
        """Create a topic, owned by `tenant` or the key's. Repeated, it does nothing. Raises TopicExists."""
        fields = {
            "retention_ms": retention_ms,
            "retention_bytes": retention_bytes,
            "table": table,
            "tenant": tenant,
        }
        body = {"name": name, "partitions": partitions}
        body.update({field: value for field, value in fields.items() if value is not None})
        await self.call("POST", "/v1/topics", body=body, repeatable=True)

    async def topics(self) -> list[str]:
        """The names of all topics."""
        found: list[str] = (await self.call("GET", "/v1/topics", repeatable=True))["topics"]
        return found

    async def topic(self, name: str) -> TopicView:
        """A topic's partitions and the progress of its groups and readers. Raises TopicNotFound."""
        view: TopicView = await self.call("GET", topic_path(name), repeatable=True, kind=TopicView)
        return view

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages and groups; its dead letters stay. Raises TopicNotFound."""
        await self._calls.delete(topic_path(name), gone=TopicNotFound)

    async def reset_group(
        self, topic: str, group: str, *, to: Literal["earliest", "latest"] | int | dt.datetime
    ) -> None:
        """Move a group to an offset, to an end of the topic, or to the first message since an instant.

        Deliveries in flight are revoked. Raises TopicNotFound, GroupNotFound.
        """
        body = {"to": reset_target(to)}
        await self.call("POST", f"{group_path(topic, group)}/reset", body=body, repeatable=True)

    async def delete_group(self, topic: str, group: str) -> None:
        """Delete a group with its progress. Raises TopicNotFound, GroupNotFound."""
        await self._calls.delete(group_path(topic, group), gone=GroupNotFound)

    async def explain(self, topic: str, offset: int) -> ExplainedMessage:
        """Everything that happened to a message. Raises TopicNotFound, MessageNotFound."""
        return await explaining.explain(self._calls, topic, offset)

    async def explain_run(self, run_id: str) -> ExplainedRun:
        """The messages of a run as a tree of steps, each with its state. Raises RunNotFound."""
        return await explaining.explain_run(self._calls, run_id)

    async def records(
        self,
        topic: str,
        *,
        partition: int | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[RecordedMessage]:
        """Stored messages, read without a group: nothing is leased or acked. `to_offset` is exclusive."""
        query: Query = {"partition": partition, "from": from_offset, "to": to_offset, "limit": limit}
        octets = self._calls.writer.request("GET", f"{topic_path(topic)}/records", query=query)
        async for lines in self._calls.lines(octets):
            for line in _decode_records(lines):
                yield line

    async def seal(self) -> None:
        """Returns when everything that was durable at the call is in the tables and the history."""
        await self.call("POST", "/v1/seal", repeatable=True)

    # Producing

    async def produce(
        self,
        topic: str,
        value: Any,
        *,
        key: str = "",
        idempotency_key: str | None = None,
        retries: int | None = None,
        headers: Mapping[str, str] | None = None,
        **envelope: Unpack[EnvelopeFields],
    ) -> Receipt:
        """Returns when the message is durable. Messages produced at the same time share a request.

        `value`: text is stored as it is, bytes as a data URL, everything else as JSON. `retries`: None
        repeats a failed request as often as `timeout_s` allows; 0 never repeats and makes no key up.
        """
        producing = self._producing or self._produce()
        if producing.batcher.full:
            await producing.batcher.wait_for_room()
        return await producing.produce(topic, value, key, idempotency_key, retries, envelope, headers)

    async def produce_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        key: KeyOf = "",
        idempotency_key: KeyOf | None = None,
        retries: int | None = None,
        atomic: bool = False,
        headers: Mapping[str, str] | None = None,
        **envelope: Unpack[EnvelopeFields],
    ) -> list[Receipt]:
        """Returns when all messages are durable; receipts are in the order of the values.

        The text `KEY` as `idempotency_key` makes the keys `KEY-1`, `KEY-2`, …; `atomic` stores all messages
        or none, in one request. Raises BatchRefused, or with `atomic` the first error.
        """
        return await self._produce().produce_many(
            topic,
            values,
            key=key,
            idempotency_key=idempotency_key,
            retries=retries,
            atomic=atomic,
            envelope=envelope,
            headers=headers,
        )

    def _produce(self) -> Producer:
        if self._producing is None:
            self._producing = Producer(self._calls)
        return self._producing

    # Appending by position

    async def writer(self, topic: str, writer: str, *, epoch: int | None = None) -> OpenWriter:
        """Open a writer and fence its older runs. Raises WriterFenced, TopicNotFound.

        Without `epoch` the server assigns the next one; a writer that keeps its own epochs passes one.
        """
        return await appending.open_writer(self._calls, topic, writer, epoch=epoch)

    async def append(
        self,
        topic: str,
        messages: Sequence[PositionedMessage],
        *,
        writer: str,
        epoch: int,
        lane: int = 0,
        after: int | None = None,
    ) -> AppendReceipt:
        """Returns when all messages are durable, each stored once however often it is sent.

        `after` is a position that the lane must have reached. Raises LaneBehind where it has not, and
        WriterFenced when a newer run of the writer is open.
        """
        return await appending.append(
            self._calls, topic, messages, writer=writer, epoch=epoch, lane=lane, after=after
        )

    # Consuming

    def consume(
        self,
        topic: str,
        group: str,
        *,
        owner: str | None = None,
        lease_ms: int = LEASE_MS,
        prefetch: int | None = None,
        start: Literal["earliest", "latest"] | None = None,
        release_on_close: bool = False,
    ) -> AsyncConsumer:
        """Deliveries as they arrive, for `async for`; reconnects by itself."""
        subscription = Subscription(
            topic=topic,
            group=group,
            owner=owner or new_owner(),
            lease_ms=lease_ms,
            prefetch=prefetch,
            start=start,
            release_on_close=release_on_close,
        )
        source = LineSource(self._calls, subscription)
        self._sources.add(source)
        return AsyncConsumer(source, self._sources.discard)

    async def ack(
        self, topic: str, group: str, *, owner: str, partition: int, offset: int, attempt: int | None = None
    ) -> None:
        """Ack a delivery by its partition and offset."""
        await self._settling(topic, group, owner).ack(AckPart(partition, offset, attempt))

    async def ack_many(
        self, topic: str, group: str, *, owner: str, places: Iterable[tuple[int, int]]
    ) -> list[Exception | None]:
        """Ack many deliveries, each by partition and offset; None or an error for each."""
        acks = [AckPart(partition, offset) for partition, offset in places]
        return await self._settling(topic, group, owner).ack_many(acks)

    async def nack(
        self,
        topic: str,
        group: str,
        *,
        owner: str,
        partition: int,
        offset: int,
        reason: str = "",
        retryable: bool = True,
        started: bool = True,
        attempt: int | None = None,
    ) -> None:
        """Report that a delivery failed; with `started=False` it was not handled and costs no attempt."""
        settling = self._settling(topic, group, owner)
        delivery = AckPart(partition, offset, attempt)
        await settling.nack(delivery, reason=reason, retryable=retryable, started=started)

    async def extend(
        self,
        topic: str,
        group: str,
        *,
        owner: str,
        partition: int,
        offset: int,
        lease_ms: int,
        attempt: int | None = None,
    ) -> None:
        """Extend the lease of a delivery to `lease_ms` from now."""
        delivery = AckPart(partition, offset, attempt)
        await self._settling(topic, group, owner).extend(delivery, lease_ms=lease_ms)

    def _settling(self, topic: str, group: str, owner: str) -> Settling:
        name = (topic, group, owner)
        settling = self._settlings.get(name)
        if settling is None:
            settling = self._settlings[name] = Settling(self._calls, topic, group, owner)
        return settling

    # Other calls

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        repeatable: bool = False,
        kind: Any = Any,
        attempt_s: float | None = None,
    ) -> Any:
        """Any other call of the HTTP interface: the response decoded as `kind`, errors as exceptions.

        `attempt_s` is how long one attempt may take, for calls that wait on the server.
        """
        return await self._calls.call(
            method, path, query=query, body=body, repeatable=repeatable, kind=kind, attempt_s=attempt_s
        )

    async def call_lines(self, path: str, *, query: Query | None = None, kind: Any = Any) -> list[Any]:
        """Any other call with an NDJSON response: each line decoded as `kind`."""
        octets = self._calls.writer.request("GET", path, query=query)
        return msgspec.json.Decoder(kind).decode_lines(await self._calls.send(octets, repeatable=True))

    async def close(self) -> None:
        """Send everything that waits to be sent, then close. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        for source in list(self._sources):
            await source.close()
        owing: list[Producer | Settling] = [*self._settlings.values()]
        if self._producing is not None:
            owing.append(self._producing)
        await send_and_close(owing, timeout_s=self._options.close_timeout_s)
        self._calls.close()
        await self._calls.connector.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
