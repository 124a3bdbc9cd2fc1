"""The fold on columns comes to what the fold of messages comes to."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.pipeline.projection.folds import fold_latest, newest_changes
from driftq.pipeline.projection.staged.latest_rows import fold_rows, messages
from driftq.pipeline.source.reading import SCHEMA
from driftq.sinks import Change, ProjectionDeadLetter
from driftq.sinks.arrow_rows import CHANGES, tuples
from tests.unit.pipeline.test_newest import LONG, row, stray

IN_BYTES = SCHEMA.set(SCHEMA.get_field_index("value"), pa.field("value", pa.binary()))
"""The rows of a transport whose values nobody has checked yet."""


def folded(
    rows: list[dict[str, Any]], *, keyed: bool, schema: pa.Schema = SCHEMA
) -> tuple[list[Change], list[ProjectionDeadLetter]]:
    changes, dead = fold_rows(pa.Table.from_pylist(rows, schema=schema), keyed=keyed)
    assert changes.schema == CHANGES
    return sorted(newest_changes(Change(*each) for each in tuples(changes))), dead


@pytest.mark.clause("V1", "V3")
def test_an_unreadable_newest_event_is_a_dead_letter_and_the_one_before_it_counts() -> None:
    rows = [
        row(0, sequence=1),
        row(1, sequence=3, operation="invent"),
        row(2, sequence=2),
        row(3, of="o-2", operation="delete"),
        stray(4),
        row(5, of="o-3", sequence=0),
    ]
    changes, dead = folded(rows, keyed=False)
    assert [(each.aggregate_id, each.sequence_number) for each in changes] == [("o-1", 2), ("o-2", 1)]
    assert changes[0].state == '{"at": 2}'
    assert changes[1].state is None
    assert sorted(each.offset for each in dead) == [1, 4, 5]


@pytest.mark.clause("V1", "V10", "Z4")
def test_bytes_that_are_no_text_are_a_dead_letter_and_the_event_before_them_counts() -> None:
    rows = [
        row(0, sequence=1),
        row(1, sequence=2) | {"value": b'{"payload": "\xff"}'},
        row(2, of="o-2", payload="ü"),
        stray(3) | {"value": None},
        stray(4) | {"value": b"\xed\xa0\x80"},  # A lone surrogate.
    ]
    encoded = [
        each | {"value": each["value"].encode()} if isinstance(each["value"], str) else each for each in rows
    ]
    changes, dead = folded(encoded, keyed=False, schema=IN_BYTES)
    states = [(each.aggregate_id, each.sequence_number, each.state) for each in changes]
    assert states == [("o-1", 1, '{"at": 0}'), ("o-2", 1, json.dumps("ü"))]
    assert sorted((each.offset, each.value) for each in dead if each.value is not None) == [
        (1, "not UTF-8, in base64: eyJwYXlsb2FkIjogIv8ifQ=="),
        (4, "not UTF-8, in base64: 7aCA"),
    ]
    assert [each.offset for each in dead if each.value is None] == [3]


@st.composite
def batches(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events of several types and topics in any order, doubled, broken, deleted, and what is none."""
    kinds = st.sampled_from(["update", "update", "delete", "invent"])
    event = st.tuples(
        st.sampled_from(["o-1", "o-2", "ö", LONG, "", "a\x00b"]),
        st.integers(0, 5),
        kinds,
        st.sampled_from(["order", "user"]),
        st.sampled_from([None, "{", "null", " null ", '{"event_id":"e"}']),
    )
    found = draw(st.lists(event | st.none(), max_size=30))
    rows = []
    for at, one in enumerate(found):
        if one is None:
            rows.append(stray(3 * at))
            continue
        of, sequence, operation, kind, value = one
        made = row(3 * at, of=of, sequence=sequence, operation=operation, aggregate_type=kind, value=value)
        rows.append(made | {"topic": f"events.{kind}"})
    return rows


@pytest.mark.clause("V1", "X4")
@given(rows=batches(), keyed=st.booleans())
def test_a_fold_of_columns_is_the_fold_of_messages(rows: list[dict[str, Any]], keyed: bool) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    every = fold_latest(messages(table, keyed=keyed), keyed=keyed)
    changes, dead = folded(rows, keyed=keyed)
    encoded = [each | {"value": each["value"].encode()} for each in rows]
    assert folded(encoded, keyed=keyed, schema=IN_BYTES) == (changes, dead)
    assert changes == sorted(every.changes)
    assert set(dead) <= set(every.dead_letters)
    newest = {each[:2]: each.sequence_number for each in changes}
    for missing in set(every.dead_letters) - set(dead):  # Only what a newer one supersedes.
        each = next(one for one in rows if one["offset"] == missing.offset)
        name = (each["topic"], each["key"]) if keyed else (each["aggregate_type"], each["aggregate_id"])
        assert newest[name] >= (each["offset"] + 1 if keyed else each["sequence_number"])
