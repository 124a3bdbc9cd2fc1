"""Keys are compared byte for byte: what is not the same never collides."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftq.errors import InvalidArgument
from driftq.registry import ClaimOutcome, Effect, EventKey, GapPolicy, Handler
from driftq.registry.sql_registry import SqlRegistry
from tests.conformance.registry.cast import SEARCH

LOOK_ALIKES = [
    "", " ", "  ", "a", "A", "a ", " a", "á", "a\u0301", "ä", "ae", "ss", "ß", "ẞ", "İ", "i", "ı", "I",
    "a:b", "a/b", "a%2Fb", "a%b", "a_b", "a\nb", "a\r\nb", "a\tb", "a'b", 'a"b', "a\\b", "a\\u0041", "\u200b",
    "ﬁ", "fi", "1", "01", "1.0", "null", "NULL", "{}", "[]", "\ufeff", "\U0001f600", "\U0001f600\ufe0f",
    "\x01", "\x7f",
]  # fmt: skip
TRICKY = st.sampled_from(LOOK_ALIKES)
NAMES = TRICKY | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)
PARTS = st.tuples(NAMES, NAMES)


@pytest.mark.clause("X7", "S9")
def test_aggregates_that_look_alike_are_apart(registry: SqlRegistry) -> None:
    pairs = [*((kind, "x") for kind in LOOK_ALIKES), *(("x", identity) for identity in LOOK_ALIKES)]
    events = [EventKey(f"e{number}", *pair, number + 1) for number, pair in enumerate(pairs)]
    claims = registry.claim_all(SEARCH, events)
    assert all(claim.granted for claim in claims)
    registry.mark_done_all(claims)
    for one in events:
        where = {"aggregate_type": one.aggregate_type, "aggregate_id": one.aggregate_id}
        assert registry.last_sequence(SEARCH.name, **where) == one.sequence_number


@pytest.mark.clause("X7")
def test_event_ids_and_handlers_that_look_alike_are_apart(registry: SqlRegistry) -> None:
    for name in LOOK_ALIKES[:12]:
        handler = Handler(name, Effect.IDEMPOTENT, GapPolicy.FULL_STATE)
        events = [EventKey(other, "order", f"order-{number}", 1) for number, other in enumerate(LOOK_ALIKES)]
        assert all(claim.granted for claim in registry.claim_all(handler, events))


@pytest.mark.clause("X7")
def test_parts_are_not_glued_together(registry: SqlRegistry) -> None:
    for glue in (":", "/", "%", "\n", "\x1f"):
        for kind, identity in [(f"a{glue}", "b"), ("a", f"{glue}b"), (f"a{glue}b", ""), ("", f"a{glue}b")]:
            key = EventKey(f"{kind!r}{identity!r}", kind, identity, 1)
            registry.mark_done(registry.claim(SEARCH, key))
    done = registry.find(SEARCH.name, repr("a") + repr(":b"))
    assert (done.aggregate_type, done.aggregate_id) == ("a", ":b")


@pytest.mark.clause("X7", "S9")
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(parts=st.lists(PARTS, unique=True, min_size=2, max_size=20))
def test_any_two_different_aggregates_are_apart(registry: SqlRegistry, parts: list[tuple[str, str]]) -> None:
    run = next(_runs)
    handler = Handler(f"run-{run}", Effect.IDEMPOTENT, GapPolicy.FULL_STATE)
    events = [EventKey(f"{number}", *pair, number + 1) for number, pair in enumerate(parts)]
    claims = registry.claim_all(handler, events)
    assert [claim.outcome for claim in claims] == [ClaimOutcome.CLAIMED] * len(events)
    registry.mark_done_all(claims)
    for one, (kind, identity) in zip(events, parts, strict=True):
        assert (
            registry.last_sequence(handler.name, aggregate_type=kind, aggregate_id=identity)
            == one.sequence_number
        )
        stored = registry.find(handler.name, one.event_id)
        assert (stored.aggregate_type, stored.aggregate_id) == (kind, identity)


_runs = itertools.count()


@pytest.mark.clause("X7")
@pytest.mark.parametrize("bad", ["nul\x00", "half \ud800", "x" * 1025], ids=["nul", "surrogate", "long"])
def test_what_one_engine_cannot_keep_is_refused_by_both(registry: SqlRegistry, bad: str) -> None:
    for key in (EventKey(bad, "order", "o", 1), EventKey("e", bad, "o", 1), EventKey("e", "order", bad, 1)):
        with pytest.raises(InvalidArgument):
            registry.claim(SEARCH, key)
    with pytest.raises(InvalidArgument):
        registry.claim(Handler(bad, Effect.IDEMPOTENT), EventKey("e", "order", "o", 1))


@pytest.mark.clause("X7")
def test_the_longest_key_fits(registry: SqlRegistry) -> None:
    handler = Handler("é" * 122, Effect.IDEMPOTENT)
    noise = "".join(chr(0x4E00 + number * 7919 % 20000) for number in range(341))
    registry.mark_done(registry.claim(handler, EventKey(noise, noise[:170], noise, 1)))
    assert (
        registry.claim(handler, EventKey(noise, noise[:170], noise, 1)).outcome is ClaimOutcome.DUPLICATE_DONE
    )
