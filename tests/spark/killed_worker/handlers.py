"""Handlers that stop at a named point to be killed there, each on its own site.

A site is an effect on an engine, and there are two of each. In each of two rounds all sites stop, those two
at different points, so that every effect on every engine sees all four. The round is in the environment as
ROUND; the event that stops belongs to the aggregate `round-N`. Whoever gets there says so with a file and
waits for its end.
What a handler does can be counted from outside: a row, a file for each event, a line, and, if the environment
names them, a call of the API in API and a document in each sink whose address is in DOCUMENTS.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import text

from driftq.effects import HttpEffect
from driftq.eventstore.published import PublishedEvent
from driftq.pipeline.worker.context import WorkerContext
from driftq.registry import Claim, Effect
from driftq.registry.sql_registry import SqlRegistry

TOPIC = os.environ.get("TOPIC", "killed")
ROUND = os.environ.get("ROUND", "never")
ENGINES = ("sqlite", "postgres")
POINTS = {
    f"{effect.value}-{engine}-{which}": points
    for effect in Effect
    for engine in ENGINES
    for which, points in (("a", ("claimed", "before_mark_done")), ("b", ("after_apply", "before_apply")))
}
API = os.environ.get("API")
DOCUMENTS = os.environ.get("DOCUMENTS", "").split()
APPLIED = ("after_apply", "before_mark_done")
"""Where the effect has happened."""


@dataclass(frozen=True)
class Site:
    """Called with each event. Its name is its handler's, and its folder's."""

    name: str
    folder: str

    @property
    def effect(self) -> Effect:
        return Effect(self.name.split("-")[0])

    @property
    def engine(self) -> str:
        return self.name.split("-")[1]

    def sinks(self, addresses: Sequence[str] = DOCUMENTS) -> dict[str, str]:
        """By the names of their read models; only an idempotent handler may write to sinks."""
        name = self.name.replace("-", "_")
        given = addresses if self.effect is Effect.IDEMPOTENT else []
        return {f"{name}_{number}": address for number, address in enumerate(given)}

    def __call__(self, event: PublishedEvent, context: WorkerContext) -> None:
        self.stop("before_apply", event.aggregate_id)
        self._apply(event, context)
        self.stop("after_apply", event.aggregate_id)

    def _apply(self, event: PublishedEvent, context: WorkerContext) -> None:
        if context.transaction is not None:
            insert = context.transaction.renderer.render("INSERT INTO {effects} VALUES (:handler, :id)")
            given = {"handler": self.name, "id": event.event_id}
            context.transaction.connection.execute(text(insert), given)
        if self.effect is Effect.IDEMPOTENT:
            keyed = Path(self.folder, "effects")
            keyed.mkdir(exist_ok=True)
            keyed.joinpath(event.event_id).write_text(str(context.token))
        if API and self.effect is not Effect.TRANSACTIONAL:
            bank(self.effect).post(context, json=[self.name, event.event_id])
        for sink in self.sinks():
            context.sink(sink).upsert({"event": event.event_id})
        with Path(self.folder, "runs").open("a") as runs:
            runs.write(f"{event.event_id}\n")
            runs.flush()
            os.fsync(runs.fileno())

    def stop(self, point: str, aggregate_id: str) -> None:
        if aggregate_id == f"round-{ROUND}" and POINTS[self.name][int(ROUND)] == point:
            Path(self.folder, f"stopped-{ROUND}").touch()
            threading.Event().wait()


@cache
def bank(effect: Effect) -> HttpEffect:
    keyed = effect is Effect.IDEMPOTENT
    return HttpEffect(f"{API}/{'keyed' if keyed else 'plain'}", honours_keys=keyed)


def stop_in_the_registry(site: Site) -> None:
    """Let a claim stop after it was granted, and a mark before it is kept."""
    claim_all, mark_done_all = SqlRegistry.claim_all, SqlRegistry.mark_done_all

    def claiming(self: SqlRegistry, *args: Any, **named: Any) -> list[Claim]:
        claims = claim_all(self, *args, **named)
        for claim in claims:
            if claim.granted and claim.handler.name == site.name:
                site.stop("claimed", claim.event.aggregate_id)
        return claims

    def marking(
        self: SqlRegistry, claims: Sequence[Claim], *, transaction: Any = None, beside: Any = None
    ) -> list[Claim]:
        lost = mark_done_all(self, claims, transaction=transaction) if transaction is not None else []
        for claim in claims:
            if claim.handler.name == site.name:
                site.stop("before_mark_done", claim.event.aggregate_id)
        return lost if transaction is not None else mark_done_all(self, claims, beside=beside)

    SqlRegistry.claim_all = claiming  # type: ignore[method-assign]
    SqlRegistry.mark_done_all = marking  # type: ignore[method-assign]


def sites(folder: Path) -> list[Site]:
    return [Site(name, str(folder / name)) for name in POINTS]


if ROUND != "never":
    for one in sites(Path(os.environ["SITES"])):
        stop_in_the_registry(one)
