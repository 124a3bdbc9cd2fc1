"""Appends by position against a model that keeps every message it was ever told, once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.core.snapshot.state import dump_state, load_state
from driftq.errors import LaneBehind, WriterFenced
from driftq.testing.canonical import canonical
from tests.unit.core.machine import PureBroker

steps = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.sampled_from("ab")),
        st.tuples(
            st.just("append"),
            st.sampled_from("ab"),
            st.integers(0, 1),
            st.integers(0, 3),
            st.sets(st.integers(0, 12), min_size=1, max_size=5),
            st.none() | st.integers(0, 12),
        ),
    ),
    max_size=30,
)


class Model:
    """What is stored, by the plainest of rules."""

    def __init__(self) -> None:
        self.epochs: dict[str, int] = {}
        self.lanes: dict[tuple[str, int], int] = {}
        self.stored: list[str] = []

    def append(self, writer: str, lane: int, epoch: int, positions: list[int], after: int | None) -> str:
        last = self.lanes.get((writer, lane), -1)
        if epoch < self.epochs.get(writer, 0):
            return "fenced"
        if after is not None and last < after:
            return "behind"
        fresh = [position for position in positions if position > last]
        if fresh:
            self.epochs[writer] = epoch
            self.lanes[writer, lane] = fresh[-1]
            self.stored += [f"{writer}{lane}:{position}" for position in fresh]
        return "done"


@pytest.mark.clause("Z2", "U2")
@given(steps)
def test_a_topic_holds_what_the_model_holds(asked: list[tuple[Any, ...]]) -> None:
    broker, model = PureBroker(), Model()
    for step in asked:
        if step[0] == "open":
            model.epochs[step[1]] = model.epochs.get(step[1], 0) + 1
            assert broker.open_writer(step[1]) == model.epochs[step[1]]
            continue
        _, writer, lane, epoch, chosen, after = step
        positions = sorted(chosen)
        texts = [f"{writer}{lane}:{position}" for position in positions]
        expected = model.append(writer, lane, epoch, positions, after)
        try:
            broker.append_at(positions, texts, writer=writer, lane=lane, epoch=epoch, after=after)
            found = "done"
        except WriterFenced:
            found = "fenced"
        except LaneBehind:
            found = "behind"
        assert found == expected
    assert [broker.stored[offset].value for offset in sorted(broker.stored)] == model.stored
    assert len(set(model.stored)) == len(model.stored)
    parts = {name: memoryview(octets) for name, octets in dump_state(broker.state).items()}
    restored = canonical(load_state(parts, broker.state.limits), now=broker.now)
    assert (
        restored["topics"]["orders"]["writers"]
        == canonical(broker.state, now=broker.now)["topics"]["orders"]["writers"]
    )
