"""The table of idempotency keys against a list that is searched from end to end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.core.keys import Claim, KeyTable, fingerprint

Identity = tuple[str, str, str]
identities = st.tuples(st.text(), st.text(), st.text())

TTL_MS = 640
WIDTH_MS = TTL_MS // 64

steps = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 4), st.integers(0, 2**20 - 1), st.integers(0, 4095)),
    max_size=40,
)


@pytest.mark.clause("I5")
@given(steps)
def test_keys_live_as_long_as_they_should(added: list[tuple[int, int, int, int]]) -> None:
    """Few fingerprints, so that they collide; none leaves early, all leave within one bucket's width."""
    table = KeyTable(ttl_ms=TTL_MS)
    model: list[tuple[int, int, Claim]] = []
    now = 0
    for ordinal, (passed_ms, print_, topic, partition) in enumerate(added):
        now += passed_ms
        table.expire(now)
        table.add(print_, topic=topic, partition=partition, ordinal=ordinal, at=now)
        model.append((now, print_, Claim(topic=topic, partition=partition, ordinal=ordinal)))
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
