"""Ways of breaking retries, waits for ends and batches, each with the promise that it breaks."""

from collections.abc import Callable

import pytest

from driftq.core.jobs import transitions
from driftq.core.jobs.records import JobsEnqueued
from driftq.core.jobs.table import JobState, JobTable
from driftq.server.jobs import stage
from driftq.server.jobs.ends import EndWaiters
from driftq.server.turn import Turn

Sabotage = Callable[[pytest.MonkeyPatch], None]


def retry_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy of the job is forgotten."""
    monkeypatch.setattr(transitions, "wait_ms", lambda timing, attempt, jitter: 0)


def forget_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a job wakes nobody."""
    finish = JobTable.finish

    def silent(self: JobTable, offset: int, state: JobState, *, at: int) -> None:
        finish(self, offset, state, at=at)
        self.awaited_ends = []

    monkeypatch.setattr(JobTable, "finish", silent)


def answer_those_who_wait_at_a_failed_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry is taken for an end."""
    wait = JobTable.wait

    def hasty(self: JobTable, offset: int, due_at: int, *, by_wall: bool = False) -> None:
        wait(self, offset, due_at, by_wall=by_wall)
        if offset in self.awaited:
            self.awaited_ends.append(offset)

    monkeypatch.setattr(JobTable, "wait", hasty)


def answer_those_who_wait_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is told while its record may still be lost."""
    decide = EndWaiters.decide

    def early(self: EndWaiters, turn: Turn) -> None:
        before = len(turn.commit.replies)
        decide(self, turn)
        told, turn.commit.replies[before:] = turn.commit.replies[before:], []
        for reply, answer in told:
            reply(answer)

    monkeypatch.setattr(EndWaiters, "decide", early)


def write_each_job_of_a_batch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash may part a batch: each of its jobs begins a frame of its own."""

    def apart(turn: Turn, topic, terms, entries) -> None:
        first = topic.next_offset
        for number, entry in enumerate(entries):
            terms[number].offset = first + number
            turn.journal.add_texts(
                topic, [entry], also=JobsEnqueued(at=turn.now, jobs=[terms[number]]), now=turn.now
            )
            turn.journal._close_frame()
        turn.counters.jobs_enqueued += len(terms)

    monkeypatch.setattr(stage, "_flush", apart)


CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (retry_at_once, {"J14", "D2"}),
    (forget_those_who_wait, {"J16"}),
    (answer_those_who_wait_at_a_failed_attempt, {"J16"}),
    (answer_those_who_wait_before_the_commit, {"J16"}),
    (write_each_job_of_a_batch_alone, {"J17"}),
]
