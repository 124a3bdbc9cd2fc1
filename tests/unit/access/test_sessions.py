"""Sessions: what a cookie stands for, for how long, and how many there are."""

import pytest

from driftq.access.keys import ApiKey, Role, new_key
from driftq.access.sessions import PER_KEY_MAX, SESSION_S, SESSIONS_MAX, Sessions, session_in


def a_key(name: str = "ada") -> ApiKey:
    return new_key(name, roles=[Role.READ])[0]


@pytest.mark.clause("Y6", "Y6b")
def test_a_session_stands_for_its_key_until_its_time_is_over() -> None:
    sessions, key = Sessions(), a_key()
    name = sessions.open(key, now=100.0)
    assert sessions.key_of(name, now=100.0 + SESSION_S - 1) == key
    assert sessions.key_of(name, now=100.0 + SESSION_S) is None
    assert len(sessions) == 0
    assert sessions.key_of("guessed", now=0.0) is None


def test_a_closed_session_is_over_and_others_are_not() -> None:
    sessions, key = Sessions(), a_key()
    first, second = sessions.open(key, now=0.0), sessions.open(key, now=0.0)
    assert first != second
    sessions.close(first)
    sessions.close(first)
    assert (sessions.key_of(first, now=1.0), sessions.key_of(second, now=1.0)) == (None, key)


def test_beyond_its_number_the_oldest_session_of_a_key_ends() -> None:
    sessions, busy, other = Sessions(), a_key("busy"), a_key("other")
    kept = sessions.open(other, now=0.0)
    names = [sessions.open(busy, now=0.0) for _ in range(PER_KEY_MAX + 3)]
    alive = [sessions.key_of(name, now=1.0) is not None for name in names]
    assert alive == [False] * 3 + [True] * PER_KEY_MAX
    assert sessions.key_of(kept, now=1.0) == other


def test_there_are_never_more_than_the_limit() -> None:
    sessions = Sessions()
    for number in range(SESSIONS_MAX // PER_KEY_MAX + 2):
        key = a_key(str(number))
        for _ in range(PER_KEY_MAX):
            sessions.open(key, now=0.0)
    assert len(sessions) == SESSIONS_MAX


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b"", None),
        (b"driftq_session=abc", "abc"),
        (b"other=1; driftq_session=abc;x=2", "abc"),
        (b"driftq_session=", None),
        (b"xdriftq_session=abc", None),
        (b"driftq_session", None),
        (b"driftq_session=a; driftq_session=b", None),
    ],
)
def test_the_session_in_a_cookie_header(header: bytes, found: str | None) -> None:
    assert session_in(header) == found
