"""The table of idempotency keys against a list that is searched from end to end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.core.fingerprints import FingerprintTable
from driftq.core.keys import KeyTable, MessageRef, fingerprint

Identity = tuple[str, str, str]
identities = st.tuples(st.text(), st.text(), st.text())

TTL_MS = 640
WIDTH_MS = TTL_MS // 64

steps = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 4), st.integers(0, 2**24 - 1), st.integers(0, 2**40 - 1)),
    max_size=40,
)


@pytest.mark.clause("I5")
@given(steps)
def test_keys_live_as_long_as_they_should(added: list[tuple[int, int, int, int]]) -> None:
    """Few fingerprints, so that they collide; none leaves early, all leave within one bucket's width."""
    table = KeyTable(ttl_ms=TTL_MS)
    model: list[tuple[int, int, MessageRef]] = []
    now = 0
    for passed_ms, print_, topic, offset in added:
        now += passed_ms
        table.expire(now)
        table.add(print_, topic=topic, offset=offset, at=now)
        model.append((now, print_, MessageRef(topic=topic, offset=offset)))
        for wanted in range(1, 5):
            found = table.find(wanted)
            certain = [claim for at, key, claim in model if key == wanted and now < at + TTL_MS]
            possible = [claim for at, key, claim in model if key == wanted and now <= at + TTL_MS + WIDTH_MS]
            assert set(map(repr, certain)) <= set(map(repr, found)) <= set(map(repr, possible))
        assert len(table) == sum(len(table.find(wanted)) for wanted in range(1, 5))
        assert sorted(table) == [wanted for wanted in range(1, 5) if table.find(wanted)]
    table.expire(now + TTL_MS + 2 * WIDTH_MS)
    assert len(table) == 0


@pytest.mark.clause("I1")
@given(st.tuples(st.text(), st.text(), st.text()), st.tuples(st.text(), st.text(), st.text()))
def test_other_identities_have_other_fingerprints(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    """Parts are not just glued together: ("a", "bc") is not ("ab", "c")."""
    assert (fingerprint(*one) == fingerprint(*other)) == (one == other)
    assert 0 < fingerprint(*one) < 2**64


moves = st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 3)), max_size=200)


@pytest.mark.clause("I5")
@given(moves)
def test_the_table_of_fingerprints_holds_what_a_list_would(asked: list[tuple[bool, int, int]]) -> None:
    """Fingerprints of one shard and few home slots, so that runs form, wrap, grow and close their gaps."""
    table = FingerprintTable()
    model: list[tuple[int, int]] = []
    for is_added, number, value in asked:
        print_ = (number << 12) | 7
        if is_added:
            table.add(print_, value)
            model.append((print_, value))
        else:
            assert table.remove(print_, value) == ((print_, value) in model)
            if (print_, value) in model:
                model.remove((print_, value))
        assert sorted(table.find(print_)) == sorted(kept for key, kept in model if key == print_)
    assert sorted(table) == sorted(model)
    assert table.count == len(model)
