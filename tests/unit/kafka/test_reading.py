"""Where a read of a partition ends, with a client that plays what a broker sends."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from driftq.errors import KafkaAccessDenied, KafkaOffsetGone, KafkaUnavailable
from driftq.kafka import reading
from driftq.kafka.reading import PartitionReader
from driftq.model.options.kafka import KafkaOptions

OPTIONS = KafkaOptions(bootstrap="127.0.0.1:1")


class Said:
    """A message, or an error in the place of one."""

    def __init__(self, offset: int | None, code: int | None = None) -> None:
        self._offset, self._code = offset, code

    def offset(self) -> int | None:
        return self._offset

    def error(self) -> KafkaError | None:
        return None if self._code is None else KafkaError(self._code)


class Script:
    """A consumer that hands over these lists one after the other, and then nothing."""

    def __init__(self, *lists: list[Said]) -> None:
        self.lists = list(lists)
        self.asked: list[int] = []

    def assign(self, places: list[Any]) -> None:
        self.places = places

    def consume(self, number: int, _: float) -> list[Said]:
        self.asked.append(number)
        return self.lists.pop(0) if self.lists else []


def read(monkeypatch: pytest.MonkeyPatch, script: Script, *, start: int = 0, end: int) -> list[int | None]:
    monkeypatch.setattr(reading, "open_consumer", lambda *_, **__: script)
    reader = PartitionReader(OPTIONS, patience_s=0, strict=True)
    return [message.offset() for message in reader.read("orders", 0, start=start, end=end)]


END = KafkaError._PARTITION_EOF


@pytest.mark.clause("Z4")
def test_a_read_ends_where_the_consumer_has_come_to_and_not_by_a_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Offsets 2, 3 and 6 to 9 are marks of transactions and aborted messages."""
    script = Script([Said(0), Said(1)], [Said(4), Said(5)], [Said(10, END)])
    assert read(monkeypatch, script, end=10) == [0, 1, 4, 5]
    assert script.asked == [10, 8, 4]
    grown = Script([Said(0), Said(1)], [Said(4), Said(5), Said(12)])
    assert read(monkeypatch, grown, end=10) == [0, 1, 4, 5], "nothing behind the end, and no wait for it"
    assert grown.lists == []


@pytest.mark.clause("Z4")
def test_an_end_before_the_planned_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction is open there, or the server has not caught up."""
    assert read(monkeypatch, Script([Said(0), Said(1, END)], [Said(2), Said(3)]), end=4) == [0, 2, 3]
    with pytest.raises(KafkaUnavailable, match="partition 0 of orders could not be read up to 4"):
        read(monkeypatch, Script([Said(0), Said(1, END)]), end=4)


@pytest.mark.clause("Z4")
def test_an_offset_that_is_gone_is_an_error_and_not_a_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Script([Said(5), Said(None, KafkaError._AUTO_OFFSET_RESET)])
    with pytest.raises(KafkaOffsetGone) as told:
        read(monkeypatch, gone, start=5, end=9)
    assert (told.value.topic, told.value.partition, told.value.wanted) == ("orders", 0, 6)


@pytest.mark.clause("Z4")
def test_a_group_that_may_not_be_used_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client looks for its coordinator though nothing joins a group."""
    denied = Said(None, KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert read(monkeypatch, Script([denied, Said(0)], [Said(1)]), end=2) == [0, 1]
    with pytest.raises(KafkaAccessDenied):
        read(monkeypatch, Script([Said(None, KafkaError.TOPIC_AUTHORIZATION_FAILED)]), end=2)
