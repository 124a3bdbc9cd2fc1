"""What a task leaves out of a Kafka topic never changes what a fold of the rest comes to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as arrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.pipeline.projection.folds import BatchMessage, Folded, fold_latest
from driftq.pipeline.source.kafka import newest
from driftq.pipeline.source.kafka.newest import SCHEMA, newest_rows
from driftq.pipeline.transport.port import COLUMNS, EVENT_HEADERS
from driftq.sql import KEY_BYTES_MAX

LONG = "x" * (KEY_BYTES_MAX + 1)


class Fetched:
    """A message as Kafka's client hands it over."""

    def __init__(
        self,
        offset: int,
        value: bytes | None,
        *,
        key: bytes | None = b"o-1",
        headers: list[tuple[str, bytes | None]] | None = None,
    ) -> None:
        self._offset, self._value, self._key, self._headers = offset, value, key, headers

    def __len__(self) -> int:
        return len(self._value or b"")

    def topic(self) -> str:
        return "events.order"

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000 + self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self._headers


def state(offset: int, *, of: str = "o-1", sequence: int = 1, **more: Any) -> Fetched:
    said = {
        "event_id": f"{of}/{sequence}",
        "aggregate_type": "order",
        "aggregate_id": of,
        "sequence_number": sequence,
        "operation": "update",
        "payload": {"at": offset},
    } | more
    return Fetched(offset, json.dumps(said).encode(), key=of.encode())


def by_headers(offset: int, value: bytes | None, *, sequence: str = "7") -> Fetched:
    said = zip(EVENT_HEADERS, (b"e", b"order", b"o-1", sequence.encode()), strict=True)
    return Fetched(offset, value, headers=[*said, ("position", b"9")])


def rows(messages: Sequence[Fetched], *, by: str = "aggregate_id", size: int = 3) -> list[dict[str, Any]]:
    lists: Any = [messages[first : first + size] for first in range(0, len(messages), size)]
    batches = list(newest_rows(lists, by=by))
    assert all(each.schema == SCHEMA for each in batches)
    return [one for each in batches for one in each.to_pylist()]


def offsets(messages: Sequence[Fetched], *, by: str = "aggregate_id") -> list[int]:
    return [one["offset"] for one in rows(messages, by=by)]


def folded(some: list[dict[str, Any]], *, keyed: bool) -> Folded:
    names = ["topic", "partition", "offset", "event_id", "aggregate_type", "aggregate_id"]
    names = [*names[:-1], "key" if keyed else names[-1], "sequence_number", "value"]
    return fold_latest([BatchMessage._make(one[name] for name in names) for one in some], keyed=keyed)


@pytest.mark.clause("V1", "Z4")
def test_only_the_newest_of_each_aggregate_stays_with_all_its_columns() -> None:
    of_two = [state(1, of="o-2"), state(7, of="o-2", sequence=2)]
    messages = [state(0), of_two[0], state(4, sequence=3), state(5, sequence=2), of_two[1]]
    assert offsets(messages) == [4, 7]
    [first, _] = rows(messages)
    assert set(first) == set(COLUMNS)
    assert (first["topic"], first["partition"], first["key"]) == ("events.order", 2, "o-1")
    assert [first[name] for name in EVENT_HEADERS] == ["o-1/3", "order", "o-1", 3]
    assert (first["timestamp"].timestamp(), json.loads(first["value"])["payload"]) == (1.004, {"at": 4})
    assert offsets([*messages, state(8, aggregate_type="user")]) == [4, 7, 8]


@pytest.mark.clause("V1", "Z4")
def test_the_last_message_stays_though_it_is_overtaken_because_it_says_how_far_was_read() -> None:
    assert offsets([state(0, sequence=2), state(3), state(6)]) == [0, 6]
    assert offsets([]) == []


@pytest.mark.clause("V3")
@pytest.mark.parametrize(
    "newest_one",
    [
        state(1, sequence=2, operation="invent"),
        state(1, sequence=2, event_id=LONG),
        state(1, sequence=2, event_id="a\x00b"),
        state(1, sequence=1 << 63),
        Fetched(1, b"{"),
        Fetched(1, None),
        Fetched(1, state(1, sequence=2).value()[:-3] + b'"\xff"}}'),  # type: ignore[index]
    ],
)
def test_where_the_newest_cannot_be_read_the_one_before_it_stays(newest_one: Fetched) -> None:
    others = [state(2, of="o-2"), state(3, of="o-2", sequence=2)]
    assert offsets([state(0), newest_one, *others]) == [0, 1, 3]


@pytest.mark.clause("V1", "Z4")
def test_values_of_several_lines_are_not_taken_for_several_messages() -> None:
    """Two events in one value, and none in the next: as many lines as messages."""
    one, two = state(0).value(), state(0, of="o-2").value()
    assert one is not None
    assert two is not None
    spread = Fetched(2, json.dumps(json.loads(one) | {"sequence_number": 5}, indent=1).encode())
    assert offsets([Fetched(0, one + b"\n" + two), Fetched(1, b""), state(3, sequence=2)]) == [0, 1, 3]
    assert offsets([state(1), spread, state(3, of="o-2")]) == [2, 3]


@pytest.mark.clause("V3")
def test_a_message_without_an_event_in_its_value_has_the_columns_of_its_headers() -> None:
    found = rows(
        [
            by_headers(0, b'{"payload": 1}'),
            by_headers(1, b"\xff\xfe", sequence="many"),
            Fetched(2, b'{"event_id": "e-2", "aggregate_id": "o-3"}', headers=[("event_id", b"no")]),
            Fetched(3, b"no JSON", key=None),
        ]
    )
    assert [[one[name] for name in EVENT_HEADERS] for one in found] == [
        ["e", "order", "o-1", 7],
        ["e", "order", "o-1", None],
        ["e-2", None, "o-3", None],
        [None] * 4,
    ]
    assert [one["value"] for one in found][1:] == [
        "not UTF-8, in base64: //4=",
        '{"event_id": "e-2", "aggregate_id": "o-3"}',
        "no JSON",
    ]
    assert found[-1]["key"] is None


@pytest.mark.clause("V1")
def test_values_by_key_are_overtaken_by_their_offsets() -> None:
    def value(offset: int, key: str | None, said: str | None) -> Fetched:
        return Fetched(
            offset, None if said is None else said.encode(), key=None if key is None else key.encode()
        )

    rest = [value(1, "b", "2"), value(2, "a", "null"), value(3, "", "3"), value(4, None, "4")]
    assert offsets([value(0, "a", "1"), *rest], by="key") == [1, 2, 3, 4]
    broken = [value(1, "a", "{"), value(2, "c", None), value(3, "d", "5")]
    assert offsets([value(0, "a", "1"), value(0, "c", "1"), *broken], by="key") == [0, 0, 1, 2, 3]


@st.composite
def arriving(draw: st.DrawFn) -> list[Fetched]:
    """Events in any order, doubled, broken, deleted, and what is none."""
    kinds = st.sampled_from(["update", "update", "delete", "invent"])
    event = st.tuples(st.sampled_from(["o-1", "o-2", "ö", LONG]), st.integers(0, 5), kinds)
    bare = st.sampled_from([b"no JSON", b"\xff", None, b'{"payload": 2, "event_id": "e"}'])
    found = draw(st.lists(event | bare, max_size=30))
    return [
        state(3 * at, of=one[0], sequence=one[1], operation=one[2])
        if isinstance(one, tuple)
        else by_headers(3 * at, one, sequence=str(at % 4))
        for at, one in enumerate(found)
    ]


@pytest.mark.clause("V1", "X4")
@pytest.mark.parametrize("held", [1, 2_000, 1 << 20])
@given(messages=arriving(), size=st.integers(1, 7), keyed=st.booleans())
def test_a_fold_of_what_stays_is_the_fold_of_all(
    held: int, messages: list[Fetched], size: int, keyed: bool
) -> None:
    by = "key" if keyed else "aggregate_id"
    every = [one for message in messages for one in rows([message], by=by)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newest, "HELD_BYTES", held)
        kept = rows(messages, by=by, size=size)
        assert kept == rows(messages, by=by, size=50), "what stays does not depend on how messages arrive"
    assert sorted(folded(kept, keyed=keyed).changes) == sorted(folded(every, keyed=keyed).changes)
    assert set(folded(kept, keyed=keyed).dead_letters) == set(folded(every, keyed=keyed).dead_letters)
    if messages:
        assert kept[-1]["offset"] == messages[-1].offset()


@pytest.mark.clause("X3")
def test_a_task_holds_a_limited_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "HELD_BYTES", 64 << 10)
    lists: Any = ([state(at, of=f"o-{at}", payload="x" * 1_000)] for at in range(1_000))
    batches = list(newest_rows(lists, by="aggregate_id"))
    assert max(each.nbytes for each in batches) < 128 << 10
    assert arrow.Table.from_batches(batches).num_rows == 1_000
