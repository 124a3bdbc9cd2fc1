"""Redriving dead letters of handlers, where they are: in the registry, or in the read model.

    worker                      requeue the event in the registry, with its parked text
    projection, latest_state    apply the event under the sequence guard
    other projections           refused: later events were applied without it, so a rebuild has to be run

Nothing is appended to the source topic. The mark of a redrive is in the registry or in the read model.
"""

from __future__ import annotations

from collections.abc import Sequence

from driftq.errors import ClaimNotFound, WrongClaimState
from driftq.model.dead_letter import HandlerDeadLetter, HandlerKind
from driftq.pipeline.dead_letters.outcome import NotRedriven, WhyNot
from driftq.pipeline.dead_letters.projection_redrive import ProjectionRedrives
from driftq.registry.outbox import DeadLetterRows
from driftq.registry.sql_registry import SqlRegistry
from driftq.sinks.dead_letters import RedriveMark


class HandlerRedrives:
    """The dead letters of all handlers. `registry` is None where no worker has made one yet."""

    def __init__(self, registry: SqlRegistry | None, projections: ProjectionRedrives) -> None:
        self._registry = registry
        self._rows = None if registry is None else DeadLetterRows(registry.database)
        self._projections = projections

    def marks(self, dead_letters: Sequence[HandlerDeadLetter]) -> dict[str, RedriveMark]:
        """Those of these that were redriven and did not fail again, by id."""
        marks = self._projections.marks(
            [each for each in dead_letters if each.kind is HandlerKind.PROJECTION]
        )
        if self._rows is not None:
            workers = [each.id for each in dead_letters if each.kind is HandlerKind.WORKER]
            for id, found in self._rows.find(workers).items():
                if found.redriven_at:
                    marks[id] = RedriveMark(found.redriven_at, found.redriven_by)
        return marks

    def redrive(self, dead_letter: HandlerDeadLetter, *, by: str, dry_run: bool) -> NotRedriven | None:
        """None when it was redriven, or in a dry run would be tried."""
        match dead_letter.kind:
            case HandlerKind.WORKER:
                return self._requeue(dead_letter, by=by, dry_run=dry_run)
            case HandlerKind.PROJECTION:
                return self._projections.redrive(dead_letter, by=by, dry_run=dry_run)
            case HandlerKind.PUBLISHER | HandlerKind.BRIDGE:
                return NotRedriven(WhyNot.NOT_REDRIVABLE, "the transport does not take this event")

    def _requeue(self, dead_letter: HandlerDeadLetter, *, by: str, dry_run: bool) -> NotRedriven | None:
        found = None if self._rows is None else self._rows.find([dead_letter.id]).get(dead_letter.id)
        if found is None or self._registry is None:
            where = "check --data and DRIFTQ_DATABASE_URL"
            return NotRedriven(WhyNot.NOT_FOUND, f"the registry does not have it: {where}")
        if found.redriven_at or found.redrives > dead_letter.redrives:
            return NotRedriven(WhyNot.ALREADY_REDRIVEN, "it was redriven before")
        if dry_run:
            return None
        try:
            self._registry.requeue(found.handler, found.event_id, by=by)
        except ClaimNotFound as missing:
            return NotRedriven(WhyNot.NOT_FOUND, str(missing))
        except WrongClaimState as other:
            return NotRedriven(WhyNot.ALREADY_REDRIVEN, str(other))
        return None
