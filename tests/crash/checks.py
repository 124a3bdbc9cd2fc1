"""The promises of the contract, checked against what clients saw."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

from tests.crash.history import GroupHistory, History, Place, Settled
from tests.crash.workload import REASON, TOPIC
from tests.harness import Client


def stored(client: Client, partitions: int) -> dict[Place, str]:
    """Every message of the topic, read without a group."""
    found: dict[Place, str] = {}
    for partition in range(partitions):
        start = 0
        while True:
            query = {"partition": partition, "from": start, "limit": 1000}
            answer = client.get(f"/v1/topics/{TOPIC}/records", **query)
            assert answer.status == 200, answer
            lines = [json.loads(line) for line in answer.body.splitlines()]
            if not lines:
                break
            for line in lines:
                place = Place(partition, line["offset"])
                assert place not in found, f"{place} was listed twice"
                found[place] = line["value"]
            start = lines[-1]["offset"] + 1
    return found


def check_messages(history: History, messages: dict[Place, str]) -> None:
    """P1, I3, T4: what was confirmed is there, where it was said to be, once."""
    copies = Counter(messages.values())
    doubled = {value: count for value, count in copies.items() if count > 1}
    assert not doubled, f"stored more than once: {doubled}"
    lost = {value: place for value, place in history.confirmed.items() if messages.get(place) != value}
    assert not lost, f"confirmed and not there: {lost}"
    assert set(copies) <= history.sent, "there are messages that nobody sent"


def check_group(group: GroupHistory, messages: dict[Place, str]) -> None:
    """A3, A6, D1, W3 for every message that this group saw."""
    for place, deliveries in group.deliveries.items():
        attempts = [seen.attempt for seen in deliveries]
        assert len(set(attempts)) == len(attempts), f"{place}: an attempt number was given twice: {attempts}"
        for seen in deliveries:
            assert messages.get(place) == seen.value, f"{place} was delivered as {seen.value}"
        for ack in group.acks[place]:
            late = [attempt for attempt in attempts if _came_after(ack, attempt, group.acks[place])]
            assert not late, f"{place}: acked at attempt {ack.attempt}, delivered again as {late}"
        for seen in deliveries:
            _check_last_error(group, place, seen.attempt, seen.last_error)


def _came_after(ack: Settled, attempt: int, acks: list[Settled]) -> bool:
    """The attempt was given out although this ack had settled the message.

    A late ack is answered 204 as well, if somebody had settled a later attempt by then.
    """
    if not ack.confirmed or attempt <= ack.attempt:
        return False
    return not any(other.attempt >= attempt and other.sent_at < ack.answered_at for other in acks)


def _check_last_error(group: GroupHistory, place: Place, attempt: int, last_error: str) -> None:
    nacks = [nack for nack in group.nacks[place] if nack.attempt < attempt]
    if attempt == 1:
        possible = {""}
    elif any(nack.confirmed for nack in nacks):
        possible = {REASON}
    else:
        possible = {"ack_timeout"} | ({REASON} if nacks else set())
    assert last_error in possible, f"{place}: attempt {attempt} has last error {last_error!r}, not {possible}"


def check_order(group: GroupHistory) -> None:
    """T5: what one worker got as first attempts came in the order of each partition's offsets."""
    for worker, places in group.firsts.items():
        by_partition: dict[int, list[int]] = defaultdict(list)
        for place in places:
            by_partition[place.partition].append(place.offset)
        for partition, offsets in by_partition.items():
            assert offsets == sorted(offsets), f"{worker} got partition {partition} out of order"


def check_finished(group: GroupHistory, messages: dict[Place, str]) -> None:
    """G4: everything was delivered, and somebody acked it."""
    missing = set(messages) - set(group.deliveries)
    assert not missing, f"never delivered: {sorted(missing)[:10]}"
    unsettled = [place for place in messages if not group.acks[place]]
    assert not unsettled, f"never acked, and no longer offered: {unsettled[:10]}"
