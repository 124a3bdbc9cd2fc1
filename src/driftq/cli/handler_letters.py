"""Dead letters of workers and projections for `driftq dlq`: read from the transport, marked, redriven.

A message is a dict in the form of `GET /v1/dlq/{topic}`, on either transport. What needs the pipeline's
packages is imported when such dead letters are there: a broker alone has none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from driftq.cli.screen import say_aside, say_error
from driftq.errors import DriftQError, SchemaError
from driftq.model.options.pipeline import KAFKA
from driftq.settings import PipelineOptions, load_transport

if TYPE_CHECKING:
    from driftq.model.dead_letter import HandlerDeadLetter
    from driftq.pipeline.dead_letters.redrive import HandlerRedrives
    from driftq.registry.sql_registry import SqlRegistry

Message = dict[str, Any]
NOTHING: dict[str, Any] = {"matched": 0, "redriven": 0, "skipped": []}


def on_kafka() -> bool:
    """Whether handlers read from Kafka, and so have their dead letters there."""
    return load_transport() == KAFKA


def kafka_topics(options: PipelineOptions) -> list[dict[str, Any]]:
    """As `GET /v1/dlq` lists them."""
    from driftq.model.time import rfc3339
    from driftq.pipeline.dead_letters.open import open_dead_letter_topics

    return [
        {
            "topic": found.topic,
            "dlq_topic": f"dlq.{found.topic}",
            "messages": found.dead_letters,
            "oldest_at": rfc3339(found.oldest_at),
            "transport": KAFKA,
        }
        for found in open_dead_letter_topics(options).topics()
    ]


def facts(message: Message) -> dict[str, Any]:
    return dict(message["envelope"]["dlq"])


def is_handlers(message: Message) -> bool:
    """A worker's or a projection's, and not a consumer group's."""
    return facts(message).get("kind") is not None


def collapsed(messages: Sequence[Message]) -> list[Message]:
    """Of equal ids one: that of the event which was redriven most often, and of copies the first."""
    newest: dict[str, Message] = {}
    for message in messages:
        if is_handlers(message):
            told = facts(message)
            known = newest.get(told["id"])
            if known is None or facts(known).get("redrives", 0) < told.get("redrives", 0):
                newest[told["id"]] = message
    return [
        message for message in messages if not is_handlers(message) or newest[facts(message)["id"]] is message
    ]


def mark(messages: Sequence[Message], redrives: HandlerRedrives) -> None:
    """Set `redriven_at` and `redriven_by` where registry or read model say so."""
    from driftq.model.time import rfc3339

    own = [message for message in messages if is_handlers(message)]
    marks = redrives.marks([dead_letter_in(message) for message in own])
    for message in own:
        found = marks.get(facts(message)["id"])
        if found is not None:
            message["redriven_at"] = rfc3339(found.redriven_at)
            message["redriven_by"] = found.redriven_by


def mark_if_known(messages: Sequence[Message], options: PipelineOptions, *, app_file: str | None) -> None:
    """The same for a list, which is shown without marks where their store cannot be reached."""
    try:
        with handler_redrives(options, app_file) as redrives:
            mark(messages, redrives)
    except (DriftQError, SchemaError, ModuleNotFoundError) as problem:
        say_aside(f"redrives of workers and projections are not shown: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which dead letters a command names; without an id, only those that were not redriven."""

    ids: Sequence[str] | None = None
    offsets: Sequence[int] | None = None
    group: str | None = None
    kind: str | None = None
    reason: str | None = None
    error: str | None = None

    def matches(self, message: Message) -> bool:
        told = facts(message)
        equal = {"group": self.group, "kind": self.kind, "reason": self.reason}
        if any(value is not None and told.get(name) != value for name, value in equal.items()):
            return False
        if self.error is not None and self.error not in told["last_error"]:
            return False
        if self.offsets and message["offset"] not in self.offsets:
            return False
        return not self.ids or told["id"] in self.ids


def redrive_matching(
    messages: Sequence[Message],
    wanted: Wanted,
    options: PipelineOptions,
    *,
    by: str,
    dry_run: bool,
    rate: int | None,
    app_file: str | None,
) -> dict[str, Any]:
    """As `POST /v1/dlq/{topic}/redrive` answers, for the dead letters of workers and projections."""
    if wanted.offsets and on_kafka():
        raise typer.BadParameter("--offset: on Kafka each partition has offsets of its own; use --id")
    chosen = [message for message in collapsed(messages) if wanted.matches(message)]
    if not chosen:
        return NOTHING
    try:
        with handler_redrives(options, app_file) as redrives:
            if not wanted.ids:
                mark(chosen, redrives)
                chosen = [message for message in chosen if "redriven_at" not in message]
            redriven, skipped = redrive_each(chosen, redrives, by=by, dry_run=dry_run, rate=rate)
    except (SchemaError, ModuleNotFoundError) as problem:
        say_error(str(problem))
        raise typer.Exit(1) from None
    return {"matched": len(chosen), "redriven": redriven, "skipped": skipped}


def handlers_messages(options: PipelineOptions, topic: str) -> list[Message]:
    """The dead letters of workers and projections of a topic, on their transport."""
    import msgspec

    from driftq.model.dead_letter import facts_of
    from driftq.pipeline.dead_letters.open import open_dead_letter_topics

    found: list[Message] = []
    for place in open_dead_letter_topics(options, patience_s=0).read(topic):
        message: Message = {
            "partition": place.partition,
            "offset": place.offset,
            "key": place.dead_letter.key,
            "value": place.dead_letter.value or "",
            "envelope": {"dlq": msgspec.to_builtins(facts_of(place.dead_letter))},
        }
        found.append(message | ({"transport": KAFKA} if on_kafka() else {}))
    return sorted(found, key=lambda message: str(facts(message)["at"])) if on_kafka() else found


def is_refused(answer: dict[str, Any]) -> bool:
    """Some dead letter needs another command than this one."""
    return any("message" in entry for entry in answer["skipped"])


def redrive_each(
    messages: Sequence[Message], redrives: HandlerRedrives, *, by: str, dry_run: bool, rate: int | None
) -> tuple[int, list[dict[str, Any]]]:
    """How many were redriven, and the others as `skipped` of `POST /v1/dlq/{topic}/redrive`."""
    redriven = 0
    skipped: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        if rate and number and not dry_run:
            time.sleep(1 / rate)
        told = facts(message)
        refused = redrives.redrive(dead_letter_in(message), by=by, dry_run=dry_run)
        if refused is None:
            redriven += not dry_run
        else:
            skipped.append(
                {
                    "offset": message["offset"],
                    "reason": refused.reason.value,
                    "group": told["group"],
                    "id": told["id"],
                    "message": refused.message,
                }
            )
    return redriven, skipped


def dead_letter_in(message: Message) -> HandlerDeadLetter:
    import msgspec

    from driftq.model import DeadLetterFacts
    from driftq.model.dead_letter import dead_letter_from

    told = msgspec.convert(facts(message), DeadLetterFacts)
    found = dead_letter_from(told, key=message["key"], value=message["value"])
    assert found is not None
    return found


@contextmanager
def handler_redrives(options: PipelineOptions, app_file: str | None) -> Iterator[HandlerRedrives]:
    """The registry and the read models that are configured; an unusable app ends with exit code 1."""
    from driftq.pipeline.app.file import AppNotUsable, load_app_file
    from driftq.pipeline.dead_letters.projection_redrive import ProjectionRedrives
    from driftq.pipeline.dead_letters.redrive import HandlerRedrives

    try:
        app = None if app_file is None else load_app_file(app_file).require_app()
    except AppNotUsable as refused:
        say_error(str(refused))
        raise typer.Exit(1) from None
    projections = ProjectionRedrives(options, app=app, app_file=app_file)
    with projections, _registry(options) as registry:
        yield HandlerRedrives(registry, projections)


@contextmanager
def _registry(options: PipelineOptions) -> Iterator[SqlRegistry | None]:
    """None where no worker has made one yet."""
    in_file = options.events.database_url is None or not options.registry.enabled
    if in_file and not os.path.exists(options.registry_file):
        yield None
        return
    from driftq.pipeline.worker.store import WorkerStore

    with closing(WorkerStore.open(options)) as store:
        yield store.registry
