"""Folds without Spark: whatever order messages come in, the read model is that of ordered single delivery."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.eventstore.published import PublishedEvent
from driftq.model import Aggregate
from driftq.pipeline.projection.folds import BatchMessage, Folded, Step, fold_latest, fold_ordered
from driftq.sinks import Change, OutOfOrderEvent, ProjectionDeadLetter


def message(sequence: int, *, of: str = "o-1", offset: int = 0, **more: Any) -> BatchMessage:
    said: dict[str, Any] = {
        "event_id": f"{of}/{sequence}",
        "aggregate_type": "order",
        "aggregate_id": of,
        "sequence_number": sequence,
        "event_type": "OrderChanged",
        "kind": "event",
        "operation": "append",
        "occurred_at": "2026-01-02T03:04:05.000006Z",
        "payload": {"add": sequence},
        "metadata": {},
        "schema_version": 1,
        "position": sequence,
    } | more
    return BatchMessage(
        "events.order", 0, offset, said["event_id"], "order", of, said["sequence_number"], json.dumps(said)
    )


class Model:
    """A read model in memory, with the rules of the real ones."""

    def __init__(self) -> None:
        self.rows: dict[Aggregate, Change] = {}
        self.early: dict[tuple[str, str, int], OutOfOrderEvent] = {}
        self.dead: dict[tuple[str, int, int], ProjectionDeadLetter] = {}

    def apply(self, folded: Folded) -> None:
        assert len({change[:2] for change in folded.changes}) == len(folded.changes)
        for change in folded.changes:
            key = Aggregate(*change[:2])
            if key not in self.rows or self.rows[key].sequence_number < change.sequence_number:
                self.rows[key] = change
        self.early |= {event[:3]: event for event in folded.waiting}
        self.early = {
            place: event
            for place, event in self.early.items()
            if (row := self.rows.get(Aggregate(*place[:2]))) is None or row.sequence_number < place[2]
        }
        self.dead |= {dead[:3]: dead for dead in folded.dead_letters if dead[:3] not in self.dead}

    def step(self, batch: Iterable[BatchMessage], step: Step, *, retries: int = 0) -> None:
        folded = fold_ordered(
            batch,
            current=self.rows,
            waiting=list(self.early.values()),
            step=step,
            retries=retries,
            pause=lambda _: None,
        )
        self.apply(folded)


def summed(state: Any, event: PublishedEvent) -> Any:
    """Order matters: each step turns the sum over."""
    if event.payload["add"] % 5 == 0:
        return None
    before = [] if state is None else state["seen"]
    return {"seen": [*before, event.payload["add"]]}


def in_batches(data: st.DataObject, messages: Sequence[BatchMessage]) -> list[list[BatchMessage]]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=4)))
    return [list(messages[start:end]) for start, end in zip([0, *cuts], [*cuts, len(messages)], strict=True)]


@st.composite
def histories(draw: st.DrawFn) -> list[BatchMessage]:
    messages = [
        message(sequence, of=f"o-{which}", operation="delete" if sequence % 4 == 0 else "update")
        for which in range(draw(st.integers(1, 3)))
        for sequence in range(1, draw(st.integers(1, 8)) + 1)
    ]
    return [each._replace(offset=offset) for offset, each in enumerate(messages)]


@pytest.mark.clause("V1", "X4")
@given(st.data(), histories())
def test_latest_state_converges_for_shuffles_doubles_and_replays(
    data: st.DataObject, history: list[BatchMessage]
) -> None:
    ordered_once, mixed = Model(), Model()
    for each in history:
        ordered_once.apply(fold_latest([each]))
    doubled = data.draw(st.permutations(history + data.draw(st.lists(st.sampled_from(history), max_size=8))))
    batches = in_batches(data, doubled)
    for batch in [*batches, *batches[: data.draw(st.integers(0, len(batches)))]]:
        mixed.apply(fold_latest(batch))
    assert mixed.rows == ordered_once.rows


@pytest.mark.clause("V1", "K8", "X4")
@given(st.data(), histories())
def test_ordered_differences_converge_for_shuffles_doubles_and_replays(
    data: st.DataObject, history: list[BatchMessage]
) -> None:
    ordered_once, mixed = Model(), Model()
    for each in history:
        ordered_once.step([each], summed)
    doubled = data.draw(st.permutations(history + data.draw(st.lists(st.sampled_from(history), max_size=8))))
    batches = in_batches(data, doubled)
    for batch in [*batches, *batches[: data.draw(st.integers(0, len(batches)))]]:
        mixed.step(batch, summed)
    assert mixed.rows == ordered_once.rows
    assert not mixed.early


@pytest.mark.clause("K8")
def test_differences_wait_for_a_gap_and_are_applied_when_it_is_closed() -> None:
    model = Model()
    model.step([message(3), message(1)], summed)
    assert json.loads(model.rows[Aggregate("order", "o-1")].state or "") == {"seen": [1]}
    assert [event.sequence_number for event in model.early.values()] == [3]
    model.step([message(2)], summed)
    assert json.loads(model.rows[Aggregate("order", "o-1")].state or "") == {"seen": [1, 2, 3]}
    assert not model.early


@pytest.mark.clause("V3", "V3a")
def test_a_step_that_fails_is_tried_again_and_then_its_event_is_a_dead_letter() -> None:
    calls: list[int] = []

    def picky(state: Any, event: PublishedEvent) -> Any:
        calls.append(event.sequence_number)
        if event.sequence_number == 2:
            raise KeyError("price")
        return summed(state, event)

    model = Model()
    model.step([message(1), message(2, offset=7), message(3)], picky, retries=2)
    assert calls == [1, 2, 2, 2, 3]
    (dead,) = model.dead.values()
    assert (dead.offset, dead.stage, dead.error) == (7, "fold", "KeyError: 'price'")
    row = model.rows[Aggregate("order", "o-1")]
    assert (row.sequence_number, json.loads(row.state or "")) == (3, {"seen": [1, 3]})


@pytest.mark.clause("V3", "V3b")
@pytest.mark.parametrize(
    ("poison", "why"),
    [
        (BatchMessage("t", 0, 1, None, None, None, None, "no JSON"), "is not an event"),
        (BatchMessage("t", 0, 1, "e", "order", "o", None, "{}"), "is not an event"),
        (message(0), "starts at 1"),
        (message(1)._replace(value='{"event_id":"e","operation":"update"}'), "payload"),
        (message(1, operation="invent"), "invent"),
        (message(1, of="a\x00b"), "NUL"),
        (message(1, of="x" * 1025), "longer than"),
        (message(1)._replace(value=None), "empty|truncated"),
    ],
)
def test_what_is_no_event_is_a_dead_letter_and_stops_nobody(poison: BatchMessage, why: str) -> None:
    folded = fold_latest([poison, message(1, of="good")])
    (dead,) = folded.dead_letters
    assert dead.stage == "decode"
    assert re.search(why, dead.error)
    assert [change.aggregate_id for change in folded.changes] == ["good"]


def test_an_unreadable_newest_event_leaves_the_one_before() -> None:
    folded = fold_latest([message(1), message(2)._replace(value="{")])
    assert [change.sequence_number for change in folded.changes] == [1]


def test_values_by_key_are_states_in_the_order_of_their_offsets() -> None:
    def value(offset: int, text: str | None) -> BatchMessage:
        return BatchMessage("prices", 2, offset, None, None, "pear", None, text)

    folded = fold_latest([value(9, '{"now":2}'), value(4, '{"now":1}'), value(12, "{")], keyed=True)
    assert folded.changes == [Change("prices", "pear", 10, "prices/2/9", '{"now":2}')]
    assert [dead.offset for dead in folded.dead_letters] == [12]
    assert fold_latest([value(9, "null")], keyed=True).changes[0].state is None
