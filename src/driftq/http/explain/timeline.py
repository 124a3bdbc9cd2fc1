"""A message's history as a timeline, and the status of each group."""

from __future__ import annotations

from collections.abc import Iterable

from driftq.core.group import ACK_TIMEOUT
from driftq.history.message import DeadLetterEntry, DeliveryAttempt, MessageHistory
from driftq.model.time import parse_rfc3339, rfc3339
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.model.wire.explain import GroupState, GroupStatus, StepState, TimelineEntry

_LAST = 1 << 31
_URGENCY: tuple[GroupState, ...] = ("in_flight", "waiting", "dead", "done", "redriven", "settled")
_STEP_URGENCY: tuple[StepState, ...] = ("unknown", "failed", *_URGENCY)

_Sortable = tuple[tuple[int, int, int], TimelineEntry]
"""An entry with its sort key: time, attempt, and the kind of entry."""


def timeline(
    history: MessageHistory, *, topic: str, produced_at: int, deliver_at: str | None = None
) -> list[TimelineEntry]:
    """All entries in the order in which they happened."""
    until = parse_rfc3339(deliver_at) if deliver_at else 0
    dlq_topic = DEAD_LETTER_PREFIX + topic
    source = history.redriven_from
    first = TimelineEntry(
        rfc3339(produced_at),
        "stored",
        dlq_topic=dlq_topic if source is not None else None,
        dlq_offset=source,
        waits_until=rfc3339(until) if until > produced_at else None,
    )
    entries: list[_Sortable] = [((produced_at, -1, 0), first)]
    for (group, attempt), delivery in history.attempts.items():
        entries += _delivery(group, attempt, delivery, dead_letters=history.letters)
    for dead_letter in history.letters:
        entries += _dead_letter(dead_letter, dlq_topic)
    entries.sort(key=lambda entry: entry[0])
    return [entry for _, entry in entries]


def _delivery(
    group: str, attempt: int, delivery: DeliveryAttempt, *, dead_letters: list[DeadLetterEntry]
) -> Iterable[_Sortable]:
    if attempt:
        yield (
            (delivery.delivered_at, attempt, 1),
            TimelineEntry(
                rfc3339(delivery.delivered_at),
                "delivered",
                group=group,
                attempt=attempt,
                owner=delivery.owner,
                lease_until=rfc3339(delivery.lease_until),
            ),
        )
    at, outcome = delivery.outcome_at, delivery.outcome
    if at is None or outcome is None or (outcome == "dead" and dead_letters):
        return  # The dead letter says more.
    yield (
        (at, attempt, 2),
        TimelineEntry(
            rfc3339(at),
            outcome,
            group=group,
            attempt=attempt or None,
            owner=delivery.owner or None,
            reason=_error(delivery) or None,
        ),
    )


def _dead_letter(dead_letter: DeadLetterEntry, dlq_topic: str) -> Iterable[_Sortable]:
    yield (
        (dead_letter.at, dead_letter.attempts, 3),
        TimelineEntry(
            rfc3339(dead_letter.at),
            "dead",
            group=dead_letter.group,
            attempt=dead_letter.attempts or None,
            reason=dead_letter.reason,
            last_error=dead_letter.last_error,
            dlq_topic=dlq_topic,
            dlq_offset=dead_letter.dlq_offset,
        ),
    )
    if dead_letter.redriven_at is not None:
        yield (
            (dead_letter.redriven_at, _LAST, 4),
            TimelineEntry(
                rfc3339(dead_letter.redriven_at),
                "redriven",
                group=dead_letter.group,
                dlq_topic=dlq_topic,
                dlq_offset=dead_letter.dlq_offset,
                by=dead_letter.redriven_by or None,
                new_offset=dead_letter.redriven_offset,
            ),
        )


def _error(delivery: DeliveryAttempt) -> str:
    if delivery.reason is None and delivery.outcome == "expired":
        return ACK_TIMEOUT
    return delivery.reason or ""


def group_statuses(history: MessageHistory, groups: dict[str, bool]) -> list[GroupStatus]:
    """The status of each group; `groups` says of each whether the message is settled.

    Groups that skip the message, because it was redriven for another, are left out.
    """
    statuses: list[GroupStatus] = []
    for group, settled in sorted(groups.items()):
        deliveries = sorted(
            ((attempt, delivery) for (name, attempt), delivery in history.attempts.items() if name == group),
            key=lambda pair: (pair[1].delivered_at, pair[0]),
        )
        if deliveries and deliveries[-1][1].outcome == "passed":
            continue
        dead_letters = [dead_letter for dead_letter in history.letters if dead_letter.group == group]
        errors = [text for _, delivery in deliveries if (text := _error(delivery))]
        errors += [dead_letters[-1].last_error] if dead_letters else []
        newest = deliveries[-1][1] if deliveries else None
        statuses.append(
            GroupStatus(
                group=group,
                state=_state(newest, dead_letters, settled=settled),
                attempts=history.newest(group),
                last_error=errors[-1] if errors else "",
            )
        )
    return statuses


def _state(
    newest: DeliveryAttempt | None, dead_letters: list[DeadLetterEntry], *, settled: bool
) -> GroupState:
    outcome = newest.outcome if newest is not None else None
    if outcome in ("acked", "dead") and not settled:
        return "waiting"  # The group was reset to somewhere before it.
    if outcome == "acked":
        return "done"
    if outcome == "dead":
        return "redriven" if dead_letters and dead_letters[-1].redriven_at is not None else "dead"
    if settled:
        return "settled"
    return "in_flight" if newest is not None and outcome is None else "waiting"


def most_urgent(states: Iterable[GroupState]) -> GroupState:
    """The state that a reader should see first; `waiting` when there is none."""
    return min(states, key=_URGENCY.index, default="waiting")


def most_urgent_step(states: Iterable[StepState]) -> StepState:
    """The same for steps, where what waits for a decision comes first."""
    return min(states, key=_STEP_URGENCY.index, default="waiting")
