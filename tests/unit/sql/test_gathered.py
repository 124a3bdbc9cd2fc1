"""Calls of several threads share one go; a lone call is made at once."""

import threading
from collections.abc import Sequence

import pytest

from driftq.sql.gathered import Gathered


class Story:
    """Goes that a test holds back, so that it decides which calls meet."""

    def __init__(self, *, calls_max: int = 64) -> None:
        self.gathered: Gathered[int, int] = Gathered(calls_max=calls_max)
        self.goes: list[list[int]] = []
        self.began = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.results: dict[int, int] = {}
        self.errors: dict[int, Exception] = {}
        self.broken: set[int] = set()
        self.threads: list[threading.Thread] = []

    def work(self, items: Sequence[int]) -> list[int]:
        self.goes.append(list(items))
        self.began.release()
        assert self.may_end.acquire(timeout=5)
        if self.broken & set(items):
            raise ValueError(str(items))
        return [item * 10 for item in items]

    def begin(self, item: int, *, kind: str = "", name: object = None) -> None:
        """A thread that makes the call; it waits or works when this returns."""
        before = len(self.gathered._waiting)
        thread = threading.Thread(target=self._call, args=(item, kind, item if name is None else name))
        self.threads.append(thread)
        thread.start()
        if len(self.threads) == 1:
            assert self.began.acquire(timeout=5)
        else:
            while len(self.gathered._waiting) == before:
                assert thread.is_alive()

    def _call(self, item: int, kind: str, name: object) -> None:
        try:
            self.results[item] = self.gathered.call(kind, str(name), item, self.work)
        except ValueError as error:
            self.errors[item] = error

    def end(self) -> None:
        for _ in self.threads:
            self.may_end.release()
        for thread in self.threads:
            thread.join(5)
            assert not thread.is_alive()


def test_calls_that_arrive_during_a_go_share_the_next_one() -> None:
    story = Story()
    for item in range(1, 6):
        story.begin(item)
    story.end()
    assert story.goes == [[1], [2, 3, 4, 5]]
    assert story.results == {item: item * 10 for item in range(1, 6)}


def test_a_go_has_one_kind_no_name_twice_and_only_so_many_calls() -> None:
    story = Story(calls_max=3)
    story.begin(1)
    story.begin(2, name="same")
    story.begin(3, name="same")
    story.begin(4, kind="other")
    for item in (5, 6, 7):
        story.begin(item)
    story.end()
    assert story.goes == [[1], [2, 5, 6], [3, 7], [4]]
    assert len(story.results) == 7


def test_an_error_is_that_of_its_go_alone() -> None:
    story = Story()
    story.broken = {3}
    story.begin(1)
    story.begin(2)
    story.begin(3)
    story.end()
    assert (story.results, set(story.errors)) == ({1: 10}, {2, 3})
    story.broken = set()
    story.may_end.release()
    assert story.gathered.call("", "4", 4, story.work) == 40


def test_a_caller_that_is_interrupted_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.begin(1)

    class Interrupted:
        """The turn of a thread that is interrupted while it waits, when its turn has come already."""

        def acquire(self) -> None:
            story.begin(3)
            story.may_end.release()
            story.threads[0].join(5)
            raise KeyboardInterrupt

        def release(self) -> None:
            pass

    made = threading.Lock
    locks = [Interrupted()]
    monkeypatch.setattr("driftq.sql.gathered._new_turn", lambda: locks.pop() if locks else _taken(made()))
    with pytest.raises(KeyboardInterrupt):
        story.gathered.call("", "2", 2, story.work)
    story.end()
    assert story.goes == [[1], [3]]
    assert story.results == {1: 10, 3: 30}


def _taken(lock: threading.Lock) -> threading.Lock:
    lock.acquire()
    return lock
