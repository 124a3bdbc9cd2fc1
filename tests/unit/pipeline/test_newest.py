"""What a task leaves out never changes what a fold of the rest comes to."""

import json
from typing import Any

import pyarrow as arrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.pipeline.projection.folds import BatchMessage, Folded, fold_latest
from driftq.pipeline.source import newest
from driftq.pipeline.source.newest import newest_only, without_overtaken
from driftq.pipeline.source.reading import SCHEMA
from driftq.sql import KEY_BYTES_MAX

LONG = "x" * (KEY_BYTES_MAX + 1)


def row(offset: int, *, of: str = "o-1", sequence: int = 1, **more: Any) -> dict[str, Any]:
    """A row as the source reads it; `more` goes into the event, and `value` in its place."""
    said = {
        "event_id": f"{of}/{sequence}",
        "aggregate_type": "order",
        "aggregate_id": of,
        "sequence_number": sequence,
        "operation": "update",
        "payload": {"at": offset},
    } | more
    value = said.pop("value", None) or json.dumps(said)
    columns = dict.fromkeys(SCHEMA.names) | {"topic": "events.order", "partition": 2, "offset": offset}
    names = ("event_id", "aggregate_type", "aggregate_id", "sequence_number")
    return columns | {name: said[name] for name in names} | {"key": of, "value": value}


def stray(offset: int, value: str = "no JSON") -> dict[str, Any]:
    columns = dict.fromkeys(SCHEMA.names) | {"topic": "events.order", "partition": 2, "offset": offset}
    return columns | {"key": "", "value": value}


def batch(rows: list[dict[str, Any]]) -> arrow.RecordBatch:
    return arrow.RecordBatch.from_pylist(rows, schema=SCHEMA)


def offsets(rows: list[dict[str, Any]], *, by: str = "aggregate_id") -> list[int]:
    return [at for kept in without_overtaken([batch(rows)], by=by) for at in kept["offset"].to_pylist()]


def folded(batches: list[arrow.RecordBatch], *, keyed: bool) -> Folded:
    """What the projection makes of rows."""
    rows = [one for each in batches for one in each.to_pylist()]
    names = ["topic", "partition", "offset", "event_id", "aggregate_type", "aggregate_id"]
    names = [*names[:-1], "key" if keyed else names[-1], "sequence_number", "value"]
    arrived = [BatchMessage._make(one[name] for name in names) for one in rows]
    return fold_latest(arrived, keyed=keyed)


@pytest.mark.clause("V1")
def test_only_the_newest_of_each_aggregate_stays_in_the_order_of_offsets() -> None:
    rows = [row(0), row(1, of="o-2"), row(4, sequence=3), row(5, sequence=2), row(7, of="o-2", sequence=2)]
    assert offsets(rows) == [4, 7]
    other = row(8, aggregate_type="user")
    assert offsets([*rows, other]) == [4, 7, 8]


@pytest.mark.clause("V1", "Z2")
def test_the_last_row_stays_though_it_is_overtaken_because_it_says_how_far_was_read() -> None:
    assert offsets([row(0, sequence=2), row(3, sequence=1), row(6, sequence=1)]) == [0, 6]


@pytest.mark.clause("V3")
@pytest.mark.parametrize(
    "newest_one",
    [
        row(1, sequence=2, operation="invent"),
        row(1, sequence=2, value='{"event_id":"o-1/2"}'),
        row(1, sequence=2, value="{"),
        row(1, sequence=2, event_id=LONG),
        row(1, sequence=2, event_id="a\x00b"),
    ],
)
def test_where_the_newest_cannot_be_read_the_one_before_it_stays(newest_one: dict[str, Any]) -> None:
    assert offsets([row(0), newest_one, row(2, of="o-2"), row(3, of="o-2", sequence=2)]) == [0, 1, 3]


@pytest.mark.clause("V3")
def test_whatever_is_no_event_stays() -> None:
    rows = [stray(0), stray(1), row(2, sequence=0), row(3, of=LONG), row(4, of=LONG, sequence=2), row(5)]
    assert offsets(rows) == [0, 1, 2, 3, 4, 5]
    assert offsets([]) == []


@pytest.mark.clause("X7")
def test_a_name_is_compared_up_to_the_limit_of_every_read_model() -> None:
    widest = "𝄞" * (KEY_BYTES_MAX // len("𝄞".encode()))
    for name, kept in ((widest, [1]), (widest + "x", [0, 1])):
        rows = [row(at, of=name, sequence=at + 1, event_id=f"e-{at}") for at in range(2)]
        assert offsets(rows) == kept


@pytest.mark.clause("V1")
def test_where_few_are_overtaken_all_stay() -> None:
    few = [row(number, of=f"o-{number}") for number in range(9)]
    assert offsets([*few, row(9, of="o-0", sequence=2)]) == list(range(10))


@pytest.mark.clause("V1")
def test_values_by_key_are_overtaken_by_their_offsets() -> None:
    rows = [row(0, value="1"), row(1, of="o-2", value="2"), row(2, value="null"), row(3, of="", value="3")]
    assert offsets([*rows, row(4, of="", value="4")], by="key") == [1, 2, 3, 4]
    assert offsets([row(0, value="1"), row(1, value="{"), row(2, of="o-2", value="5")], by="key") == [0, 1, 2]


@st.composite
def messages(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events in any order, doubled, broken, deleted, and what is none."""
    kinds = st.sampled_from(["update", "update", "delete", "invent"])
    event = st.tuples(st.sampled_from(["o-1", "o-2", "ö", LONG]), st.integers(0, 5), kinds)
    found = draw(st.lists(event | st.none(), max_size=30))
    return [
        stray(3 * at) if one is None else row(3 * at, of=one[0], sequence=one[1], operation=one[2])
        for at, one in enumerate(found)
    ]


@pytest.mark.clause("V1", "X4")
@pytest.mark.parametrize("held", [1, 2_000, 1 << 20])
@given(rows=messages(), size=st.integers(1, 7), keyed=st.booleans())
def test_a_fold_of_what_stays_is_the_fold_of_all(
    held: int, rows: list[dict[str, Any]], size: int, keyed: bool
) -> None:
    batches = [batch(rows[first : first + size]) for first in range(0, len(rows), size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newest, "HELD_BYTES", held)
        kept = list(newest_only(iter(batches), by="key" if keyed else "aggregate_id"))
    every, some = folded(batches, keyed=keyed), folded(kept, keyed=keyed)
    assert sorted(some.changes) == sorted(every.changes)
    assert set(some.dead_letters) <= set(every.dead_letters)
    if rows:
        assert kept[-1]["offset"][-1].as_py() == rows[-1]["offset"]
