"""The fold on columns comes to what the fold of messages comes to."""

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


def folded(rows: list[dict[str, Any]], *, keyed: bool) -> tuple[list[Change], list[ProjectionDeadLetter]]:
    changes, dead = fold_rows(pa.Table.from_pylist(rows, schema=SCHEMA), keyed=keyed)
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
    assert changes == sorted(every.changes)
    assert set(dead) <= set(every.dead_letters)
    newest = {each[:2]: each.sequence_number for each in changes}
    for missing in set(every.dead_letters) - set(dead):  # Only what a newer one supersedes.
        each = next(one for one in rows if one["offset"] == missing.offset)
        name = (each["topic"], each["key"]) if keyed else (each["aggregate_type"], each["aggregate_id"])
        assert newest[name] >= (each["offset"] + 1 if keyed else each["sequence_number"])
