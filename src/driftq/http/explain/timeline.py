"""A message's past in words: what happened in order, and how each group stands."""

from __future__ import annotations

from collections.abc import Iterable

from driftq.core.group import ACK_TIMEOUT
from driftq.history.message import DeadLetterEntry, DeliveryAttempt, MessageHistory
from driftq.http.explain.schemas import GroupStanding, GroupState, Happening
from driftq.model.time import rfc3339
from driftq.model.topic import DEAD_LETTER_PREFIX

_LAST = 1 << 31
_URGENCY: tuple[GroupState, ...] = ("in_flight", "waiting", "dead", "done", "redriven", "settled")


def happenings(past: MessageHistory, *, topic: str, produced_at: int) -> list[Happening]:
    """Everything in the order in which it happened."""
    grave = DEAD_LETTER_PREFIX + topic
    came = past.redriven_from
    first = Happening(
        rfc3339(produced_at), "stored", dlq_topic=grave if came is not None else None, dlq_offset=came
    )
    told: list[tuple[tuple[int, int, int], Happening]] = [((produced_at, -1, 0), first)]
    for (group, attempt), delivery in past.attempts.items():
        told += _delivery(group, attempt, delivery, letters=past.letters)
    for letter in past.letters:
        told += _letter(letter, grave)
    told.sort(key=lambda one: one[0])
    return [one for _, one in told]


def _delivery(
    group: str, attempt: int, delivery: DeliveryAttempt, *, letters: list[DeadLetterEntry]
) -> Iterable[tuple[tuple[int, int, int], Happening]]:
    if attempt:
        yield (
            (delivery.delivered_at, attempt, 1),
            Happening(
                rfc3339(delivery.delivered_at),
                "delivered",
                group=group,
                attempt=attempt,
                owner=delivery.owner,
                lease_until=rfc3339(delivery.lease_until),
            ),
        )
    at, outcome = delivery.outcome_at, delivery.outcome
    if at is None or outcome is None or (outcome == "dead" and letters):
        return  # The letter says more.
    yield (
        (at, attempt, 2),
        Happening(
            rfc3339(at),
            outcome,  # type: ignore[arg-type]
            group=group,
            attempt=attempt or None,
            owner=delivery.owner or None,
            reason=_error(delivery) or None,
        ),
    )


def _letter(letter: DeadLetterEntry, grave: str) -> Iterable[tuple[tuple[int, int, int], Happening]]:
    yield (
        (letter.at, letter.attempts, 3),
        Happening(
            rfc3339(letter.at),
            "dead",
            group=letter.group,
            attempt=letter.attempts or None,
            reason=letter.reason,
            last_error=letter.last_error,
            dlq_topic=grave,
            dlq_offset=letter.dlq_offset,
        ),
    )
    if letter.redriven_at is not None:
        yield (
            (letter.redriven_at, _LAST, 4),
            Happening(
                rfc3339(letter.redriven_at),
                "redriven",
                group=letter.group,
                dlq_topic=grave,
                dlq_offset=letter.dlq_offset,
                by=letter.redriven_by or None,
                new_offset=letter.redriven_offset,
            ),
        )


def _error(delivery: DeliveryAttempt) -> str:
    if delivery.reason is None and delivery.outcome == "expired":
        return ACK_TIMEOUT
    return delivery.reason or ""


def standings(past: MessageHistory, groups: dict[str, bool]) -> list[GroupStanding]:
    """How each group stands; `groups` says of each whether the message is settled. Those it passed are left
    out."""
    told: list[GroupStanding] = []
    for group, settled in sorted(groups.items()):
        mine = sorted(
            ((attempt, one) for (name, attempt), one in past.attempts.items() if name == group),
            key=lambda pair: (pair[1].delivered_at, pair[0]),
        )
        if mine and mine[-1][1].outcome == "passed":
            continue
        letters = [letter for letter in past.letters if letter.group == group]
        errors = [text for _, one in mine if (text := _error(one))]
        errors += [letters[-1].last_error] if letters else []
        told.append(
            GroupStanding(
                group=group,
                state=_state(mine[-1][1] if mine else None, letters, settled=settled),
                attempts=past.newest(group),
                last_error=errors[-1] if errors else "",
            )
        )
    return told


def _state(newest: DeliveryAttempt | None, letters: list[DeadLetterEntry], *, settled: bool) -> GroupState:
    outcome = newest.outcome if newest is not None else None
    if outcome in ("acked", "dead") and not settled:
        return "waiting"  # The group was reset to somewhere before it.
    if outcome == "acked":
        return "done"
    if outcome == "dead":
        return "redriven" if letters and letters[-1].redriven_at is not None else "dead"
    if settled:
        return "settled"
    return "in_flight" if newest is not None and outcome is None else "waiting"


def most_urgent(states: Iterable[GroupState]) -> GroupState:
    """The one of these that somebody who looks should see; `waiting` when there is none."""
    return min(states, key=_URGENCY.index, default="waiting")
