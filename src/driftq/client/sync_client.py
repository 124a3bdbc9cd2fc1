"""`driftq.Client`: the same calls for callers without an event loop.

There is one implementation: `AsyncClient` runs on a loop in a thread of its own, and each call here waits for
it. Any thread may use a client; what several threads produce at the same time goes in one request.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Self, TypeVar, Unpack

from driftq.client.async_client import DEFAULT_URL, AsyncClient
from driftq.client.consuming.subscription import LEASE_MS
from driftq.client.consuming.sync_consumer import Consumer
from driftq.client.dead_letters import DeadLetters
from driftq.client.loop_thread import LoopThread
from driftq.client.options import TIMEOUT_S, ClientOptions
from driftq.client.producing.outgoing import EnvelopeFields
from driftq.client.producing.producer import KeyOf
from driftq.client.sync_calls import Idempotency, JobCalls
from driftq.client.wire.encoding import Query
from driftq.model import TopicView
from driftq.model.wire.append import AppendReceipt, OpenWriter, PositionedMessage
from driftq.model.wire.explain import ExplainedMessage, ExplainedRun
from driftq.model.wire.messages import RecordedMessage
from driftq.model.wire.produce import Receipt

_T = TypeVar("_T")


class Client:
    """One server; any thread may use it. `with`, or `close` at the end."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = TIMEOUT_S,
        api_key: str | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        """`timeout_s` is for one call with all its retries. `options` replaces it and says more."""
        self._async = AsyncClient(url, timeout_s=timeout_s, api_key=api_key, options=options)
        self._thread = LoopThread("driftq-client")
        self._add_faces()

    @classmethod
    def over(cls, client: AsyncClient, thread: LoopThread) -> Self:
        """A face for a client that lives on this thread's loop; closing it closes both."""
        face = cls.__new__(cls)
        face._async = client
        face._thread = thread
        face._add_faces()
        return face

    def _add_faces(self) -> None:
        self.idempotency = Idempotency(self._async.idempotency, self._thread)
        self.jobs = JobCalls(self._async.jobs, self._thread)
        self.dead_letters = DeadLetters(self._async.dead_letters, self._thread)

    @property
    def url(self) -> str:
        return self._async.url

    @property
    def awaited(self) -> AsyncClient:
        """The client behind this one; it lives on the loop of `thread`."""
        return self._async

    @property
    def thread(self) -> LoopThread:
        """Where this client's own work is done, whatever its callers are busy with."""
        return self._thread

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        retention_ms: int | None = None,
        retention_bytes: int | None = None,
        table: bool | None = None,
    ) -> None:
        """Create a topic; again with the same number of partitions changes nothing. Raises TopicExists."""
        creating = self._async.create_topic(
            name,
            partitions=partitions,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
            table=table,
        )
        self._thread.run(creating)

    def topics(self) -> list[str]:
        """The names of all topics."""
        return self._thread.run(self._async.topics())

    def topic(self, name: str) -> TopicView:
        """A topic's partitions, and how far its groups and readers are. Raises TopicNotFound."""
        return self._thread.run(self._async.topic(name))

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages and groups; its dead letters stay. Raises TopicNotFound."""
        self._thread.run(self._async.delete_topic(name))

    def reset_group(
        self, topic: str, group: str, *, to: Literal["earliest", "latest"] | int | dt.datetime
    ) -> None:
        """Let a group go on from somewhere else: an offset, or what was produced at an instant and later.

        What is in flight is taken back. Raises TopicNotFound, GroupNotFound.
        """
        self._thread.run(self._async.reset_group(topic, group, to=to))

    def delete_group(self, topic: str, group: str) -> None:
        """Forget how far a group is; a new one may have its name. Raises TopicNotFound, GroupNotFound."""
        self._thread.run(self._async.delete_group(topic, group))

    def explain(self, topic: str, offset: int) -> ExplainedMessage:
        """Everything that happened to a message. Raises TopicNotFound, MessageNotFound."""
        return self._thread.run(self._async.explain(topic, offset))

    def explain_run(self, run_id: str) -> ExplainedRun:
        """The messages of a run as a tree of steps, and how far each is. Raises RunNotFound."""
        return self._thread.run(self._async.explain_run(run_id))

    def records(
        self,
        topic: str,
        *,
        partition: int | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
        limit: int | None = None,
    ) -> Iterator[RecordedMessage]:
        """Stored messages, without a group and without an effect; `to_offset` is not included."""
        found = self._async.records(
            topic, partition=partition, from_offset=from_offset, to_offset=to_offset, limit=limit
        )
        return self._thread.each(found)

    def seal(self) -> None:
        """Returns when everything that was durable before is in the tables and the history."""
        self._thread.run(self._async.seal())

    def produce(
        self,
        topic: str,
        value: Any,
        *,
        key: str = "",
        idempotency_key: str | None = None,
        retries: int | None = None,
        **envelope: Unpack[EnvelopeFields],
    ) -> Receipt:
        """Returns when the message is durable.

        `value`: text as it is, bytes as a data URL, all else as JSON. `retries`: None as often as `timeout_s`
        allows, 0 never and without a key that makes it safe.
        """
        producing = self._async.produce(
            topic, value, key=key, idempotency_key=idempotency_key, retries=retries, **envelope
        )
        return self._thread.run(producing)

    def produce_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        key: KeyOf = "",
        idempotency_key: KeyOf | None = None,
        retries: int | None = None,
        atomic: bool = False,
        **envelope: Unpack[EnvelopeFields],
    ) -> list[Receipt]:
        """Returns when all are durable, in order. Raises BatchRefused, or with `atomic` the first error.

        A text as `idempotency_key` gives `KEY-1`, `KEY-2`, …; `atomic` stores all or none, in one request.
        """
        producing = self._async.produce_many(
            topic,
            values,
            key=key,
            idempotency_key=idempotency_key,
            retries=retries,
            atomic=atomic,
            **envelope,
        )
        return self._thread.run(producing)

    def writer(self, topic: str, writer: str, *, epoch: int | None = None) -> OpenWriter:
        """Begin as this writer: older runs of it are shut out. Raises WriterFenced, TopicNotFound."""
        return self._thread.run(self._async.writer(topic, writer, epoch=epoch))

    def append(
        self,
        topic: str,
        messages: Sequence[PositionedMessage],
        *,
        writer: str,
        epoch: int,
        lane: int = 0,
        after: int | None = None,
    ) -> AppendReceipt:
        """Returns when all are durable, each once. Raises WriterFenced, LaneBehind."""
        return self._thread.run(
            self._async.append(topic, messages, writer=writer, epoch=epoch, lane=lane, after=after)
        )

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
    ) -> Consumer:
        """Deliveries as they come, for `for`; goes on by itself when the server was away."""
        return Consumer(
            self._on_loop(
                lambda: self._async.consume(
                    topic,
                    group,
                    owner=owner,
                    lease_ms=lease_ms,
                    prefetch=prefetch,
                    start=start,
                    release_on_close=release_on_close,
                )
            ),
            self._thread,
        )

    def ack(
        self, topic: str, group: str, *, owner: str, partition: int, offset: int, attempt: int | None = None
    ) -> None:
        """Done with a delivery, known by its place."""
        acking = self._async.ack(
            topic, group, owner=owner, partition=partition, offset=offset, attempt=attempt
        )
        self._thread.run(acking)

    def ack_many(
        self, topic: str, group: str, *, owner: str, places: Iterable[tuple[int, int]]
    ) -> list[Exception | None]:
        """Done with many, each by partition and offset; None or an error for each."""
        return self._thread.run(self._async.ack_many(topic, group, owner=owner, places=places))

    def nack(
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
        """A delivery failed; with `started=False` nobody began to handle it, and it costs no try."""
        nacking = self._async.nack(
            topic,
            group,
            owner=owner,
            partition=partition,
            offset=offset,
            reason=reason,
            retryable=retryable,
            started=started,
            attempt=attempt,
        )
        self._thread.run(nacking)

    def extend(
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
        """Hold a delivery for so long from now."""
        extending = self._async.extend(
            topic, group, owner=owner, partition=partition, offset=offset, lease_ms=lease_ms, attempt=attempt
        )
        self._thread.run(extending)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        repeatable: bool = False,
        kind: Any = Any,
    ) -> Any:
        """Any other call of the HTTP interface: the answer as `kind`, errors as the classes they were."""
        return self._thread.run(
            self._async.call(method, path, query=query, body=body, repeatable=repeatable, kind=kind)
        )

    def call_lines(self, path: str, *, query: Query | None = None, kind: Any = Any) -> list[Any]:
        """Any other call whose answer is a page of NDJSON: each line as `kind`."""
        return self._thread.run(self._async.call_lines(path, query=query, kind=kind))

    def close(self) -> None:
        """Send what waits to be sent, then close. A second time changes nothing."""
        if self._thread.alive:
            self._thread.run(self._async.close())
            self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_loop(self, make: Callable[[], _T]) -> _T:
        async def made() -> _T:
            return make()

        return self._thread.run(made())
