"""The durable state of a worker: claims, parked events and derived events, in one database."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.worker.claims import Claims
from driftq.pipeline.worker.guard import SequenceGuard
from driftq.registry import Claim
from driftq.registry.liveness import Liveness, ended_owners
from driftq.registry.outbox import DeadLetterRows
from driftq.registry.parking import AppliedPositions, DerivedRows, Parking
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database, Transaction, open_database
from driftq.sql.sqlite import SqliteDatabase

logger = logging.getLogger("driftq.pipeline.worker")


class EffectMark(NamedTuple):
    """What is stored when an effect has happened."""

    claim: Claim
    derived: Sequence[str] = ()
    """The texts of the events that the handler derived."""
    maybe_parked: bool = False
    """The event's text may be parked, and is removed."""


@dataclass(frozen=True)
class WorkerStore:
    """`claims` is the registry, or the guard in front of it."""

    registry: SqlRegistry
    parking: Parking
    derived: DerivedRows
    applied: AppliedPositions
    claims: Claims
    dead_letters: DeadLetterRows
    liveness_folder: Path | None = None
    """The liveness files of this machine's workers, see `driftq.registry.liveness`."""

    @classmethod
    def on(
        cls, registry: SqlRegistry, *, guarded: bool = False, liveness_folder: Path | None = None
    ) -> WorkerStore:
        claims = SequenceGuard(registry) if guarded else registry
        database = registry.database
        return cls(
            registry,
            Parking(database),
            DerivedRows(database),
            AppliedPositions(database),
            claims,
            DeadLetterRows(database),
            liveness_folder,
        )

    @classmethod
    def open(cls, options: PipelineOptions) -> WorkerStore:
        """Raises DatabaseUnavailable, or SchemaOutdated where `driftq db upgrade` has to be run first."""
        settings = options.registry
        owner = settings.owner or f"{socket.gethostname()}:{os.getpid()}"
        return cls.on(
            SqlRegistry(_database(options), owner=owner),
            guarded=not settings.enabled,
            liveness_folder=Path(options.folder, "workers"),
        )

    def finish_all(self, marks: Sequence[EffectMark]) -> list[Claim]:
        """Mark the claims of one handler done, in one transaction with what belongs to them.

        Returns the claims that are lost: nothing is stored for those.
        """
        by_claim = {id(mark.claim): mark for mark in marks}

        def beside(transaction: Transaction, held: Sequence[Claim]) -> None:
            self.write_beside(transaction, [by_claim[id(claim)] for claim in held])

        bare = not any(mark.derived or mark.maybe_parked for mark in marks)
        return self.claims.mark_done_all([mark.claim for mark in marks], beside=None if bare else beside)

    def write_beside(self, transaction: Transaction, marks: Sequence[EffectMark]) -> None:
        """What is stored together with the marks of these claims."""
        if not marks:
            return
        handler = marks[0].claim.handler.name
        derived = {mark.claim.event.event_id: mark.derived for mark in marks if mark.derived}
        if derived:
            self.derived.keep(transaction, handler, derived)
        settled = [mark.claim.event.event_id for mark in marks if mark.maybe_parked]
        if settled:
            self.parking.unpark(handler, settled, transaction=transaction)

    def abandon_ended_owners(self) -> int:
        """End the leases of workers of this machine that have ended; returns how many."""
        freed = 0
        if self.liveness_folder is not None:
            for name in ended_owners(self.liveness_folder):
                freed += self.registry.abandon(name)
        if freed:
            logger.warning("released %d claims of workers that have ended", freed)
        return freed

    def close(self) -> None:
        self.registry.database.close()


_opened: dict[tuple[int, str], WorkerStore] = {}
_alive: list[Liveness] = []
"""Locked until this process ends."""


def shared_store(options: PipelineOptions, *, use: str) -> WorkerStore:
    """The process's store for this use, opened at the first call and kept for later tasks."""
    place = options.events.database_url if options.registry.enabled else None
    key = os.getpid(), f"{use} {options.registry.enabled} {place} {options.folder}"
    if key not in _opened:
        store = _opened[key] = WorkerStore.open(options)
        _mark_alive(store)
        store.abandon_ended_owners()
    return _opened[key]


def _mark_alive(store: WorkerStore) -> None:
    if store.liveness_folder is None:
        return
    try:
        _alive.append(Liveness(store.liveness_folder, store.registry.incarnation))
    except OSError as problem:  # As on a cluster's machine without the folder: then the lease has to expire.
        logger.warning(
            "cannot lock a liveness file; claims of this process last until their leases end: %s", problem
        )


def _database(options: PipelineOptions) -> Database:
    """The guard's file is always the SQLite one: without the registry no database is needed."""
    url = options.events.database_url if options.registry.enabled else None
    if url is None:
        return SqliteDatabase(options.registry_file)
    return open_database(url, schemas={"sequence": options.events.sequence_schema})
