"""The ids of handlers' dead letters, as a purge and a deleted topic leave them."""

from __future__ import annotations

from random import Random

import pytest

from driftq.core.dead_letter_ids import DeadLetterIds
from driftq.core.fingerprints import FingerprintTable

STORED = 5_000


def new_ids(*topics: int) -> DeadLetterIds:
    ids = DeadLetterIds()
    for topic in topics:
        ids.add_all([offset + 1 for offset in range(STORED)], range(STORED), topic=topic)
    return ids


def found(ids: DeadLetterIds, topic: int) -> list[int]:
    """The offsets that the fingerprints lead to."""
    return [ref.offset for print_ in range(1, STORED + 1) for ref in ids.find(print_, topic=topic)]


@pytest.mark.clause("K10")
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_purged_ones_are_gone_and_all_others_are_there(share: float) -> None:
    ids, random = new_ids(1, 2), Random(3)
    kept = list(range(STORED))
    for _ in range(4):
        purged = random.sample(kept, round(share * len(kept)))
        ids.remove(1, [*purged, *purged[:3], STORED + 7])
        kept = sorted(set(kept) - set(purged))
        assert ids.offsets(1, after=-1, limit=STORED) == kept
        assert found(ids, 1) == kept
    assert found(ids, 2) == list(range(STORED))


@pytest.mark.clause("O1")
def test_a_deleted_topic_leaves_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted: fingerprints removed by one record. Nobody sees those that are left."""
    ids = new_ids(1, 2)
    removed: list[int] = []
    remove = FingerprintTable.remove

    def counted(table: FingerprintTable, print_: int, value: int) -> bool:
        removed.append(print_)
        return remove(table, print_, value)

    monkeypatch.setattr(FingerprintTable, "remove", counted)
    ids.remove_topic(1)
    assert 0 < len(removed) <= 500
    assert found(ids, 1) == []
    assert ids.offsets(1, after=-1, limit=10) == []
    assert {topic for topic, _, _ in ids} == {2}
    for number in range(10):
        ids.add_all([STORED + 1 + number], [STORED + number], topic=2)
        assert len(removed) <= 500 * (number + 2)
    assert sorted(removed) == list(range(1, STORED + 1))
    assert found(ids, 2) == list(range(STORED))
