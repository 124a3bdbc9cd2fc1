"""Ways of breaking the broker, each with the promise that it breaks and whose judge has to notice it."""

from collections.abc import Callable

import pytest

from driftq.core.commands import Ack
from driftq.core.decide import delete as ending
from driftq.core.decide import deliver, retention, settle
from driftq.core.evolve import fold as evolve
from driftq.core.group import GroupPartition
from driftq.core.keys import KeyTable
from driftq.core.lease import LeaseBlock, LeaseTable
from driftq.core.records import TopicDeleted
from driftq.core.snapshot import state as snapshot
from driftq.core.state import State, Topic
from driftq.errors import NotConfirmed
from driftq.log.log import Log
from driftq.model.options.limits import Limits
from driftq.server.deliver.consumers import Consumers
from driftq.server.deliver.stage import Timers
from driftq.server.engine import Engine
from driftq.server.topics.stage import TopicsStage
from driftq.server.turn import Commit
from driftq.storage.journal import Journal
from driftq.testing.maintenance_lives import ResetGroupLife

Sabotage = Callable[[pytest.MonkeyPatch], None]


def _after_recovery(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[State], None]) -> None:
    """Recovery forgets something."""
    recover = Journal.recover

    def forgetful(self: Journal):
        found = recover(self)
        spoil(self.state)
        return found

    monkeypatch.setattr(Journal, "recover", forgetful)


def _every_progress(state: State) -> list[GroupPartition]:
    return [progress for group in state.groups_by_id.values() for progress in group.partitions]


def answer_before_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "sync", lambda self: None)
    monkeypatch.setattr(Log, "write_durably", Log.write)


def forget_what_was_settled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state: State) -> None:
        for progress in _every_progress(state):
            for slot, settled in enumerate(progress.ahead):
                if settled:
                    progress.wait_until(progress.floor + slot, 0)
            progress.ahead = bytearray(len(progress.ahead))
            progress.ahead_count = progress.ahead_bytes = 0

    _after_recovery(monkeypatch, spoil)


def take_the_highest_ack_for_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    def jump(self: GroupPartition) -> None:
        last = self.ahead.rfind(1) + 1
        self.floor += last
        del self.ahead[:last]
        self.ahead_count = self.ahead_bytes = 0
        for ordinal in [*self.waiting, *self.leases.leased]:
            if ordinal < self.floor:
                self.waiting.pop(ordinal, None)
                self.leases.release(ordinal)

    monkeypatch.setattr(GroupPartition, "advance", jump)


def drop_leases_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state: State) -> None:
        for progress in _every_progress(state):
            for ordinal in list(progress.leases.leased):
                progress.attempts.setdefault(ordinal, 1)
                progress.wait_until(ordinal, 0)
            progress.leases = LeaseTable()

    _after_recovery(monkeypatch, spoil)


def count_attempts_from_one_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state: State) -> None:
        for progress in _every_progress(state):
            progress.attempts = dict.fromkeys(progress.attempts, 1)

    _after_recovery(monkeypatch, spoil)


def show_reads_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = Engine._decide

    def early(self: Engine) -> Commit:
        commit = decide(self)
        self._answer_reads()
        return commit

    want_turn = Engine.want_turn

    def while_committing(self: Engine) -> None:
        if self._committing:
            self._loop.soon(self._answer_reads)
        want_turn(self)

    monkeypatch.setattr(Engine, "_decide", early)
    monkeypatch.setattr(Engine, "want_turn", while_committing)


def forget_keys_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state: State) -> None:
        state.keys = KeyTable(ttl_ms=state.limits.idempotency_ttl_ms)

    _after_recovery(monkeypatch, spoil)


def deliver_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = Engine._decide

    def early(self: Engine) -> Commit:
        commit = decide(self)
        for outbox, batch in commit.deliveries:
            outbox.put(batch)
        commit.deliveries = []
        return commit

    monkeypatch.setattr(Engine, "_decide", early)


def keep_the_state_after_a_failed_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: Engine, commit: Commit, error: OSError) -> None:
        self._log.cut_back()
        commit.fail(NotConfirmed("sabotage"))
        self.want_turn()

    monkeypatch.setattr(Engine, "_failed", careless)


def deliver_more_than_may_be_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = deliver.decide_deliveries

    def greedy(group, partition, capacities, *, limits, **rest):
        more = Limits(in_flight_max=limits.in_flight_max + 1)
        return decide(group, partition, capacities, limits=more, **rest)

    monkeypatch.setattr("driftq.server.deliver.stage.decide_deliveries", greedy)


def accept_any_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = settle.decide_acks

    def lenient(topic, group, acks, *, now):
        return decide(topic, group, [Ack(ack.owner, ack.partition, ack.offset) for ack in acks], now=now)

    monkeypatch.setattr("driftq.server.settle.stage.decide_acks", lenient)


def set_no_timers_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Timers, "clear", lambda self: monkeypatch.setattr(Timers, "note", lambda *given: None)
    )


def retry_at_once_after_a_nack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftq.core.decide.backoff.nack_delay_ms", lambda attempt: 0)


def end_leases_early(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(LeaseBlock):
        def __init__(self, *, owner, lease_ms, until, ordinals) -> None:
            super().__init__(owner=owner, lease_ms=lease_ms, until=until - lease_ms // 2, ordinals=ordinals)

    monkeypatch.setattr(evolve, "LeaseBlock", Short)


def deliver_to_those_who_were_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicsStage, "_joined", lambda self, request, answer: request.reply(answer))


def look_only_where_something_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Consumers, "wake", lambda self, topic, group, partition=None, *, settled=0: None)


def drop_errors_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state: State) -> None:
        for progress in _every_progress(state):
            progress.errors.clear()

    _after_recovery(monkeypatch, spoil)


def take_messages_for_a_full_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "driftq.core.decide.produce._Plan._take_room", lambda self, number, size_bytes, *, delayed: None
    )


def refuse_although_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Topic, "count_pressure", lambda self, partition, *, limits, now: None)


def drop_what_groups_have_not_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(topic: Topic, partition: int, old: int) -> int:
        part = topic.partitions[partition]
        return max(part.index.first, part.ages.end_by(old))

    monkeypatch.setattr("driftq.core.decide.retention._done_upto", careless)


def drop_what_readers_have_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    done_upto = retention._done_upto

    def careless(topic: Topic, partition: int, old: int) -> int:
        readers, topic.readers = topic.readers, {}
        try:
            return done_upto(topic, partition, old)
        finally:
            topic.readers = readers

    monkeypatch.setattr(retention, "_done_upto", careless)


def let_readers_hold_nobody_back(monkeypatch: pytest.MonkeyPatch) -> None:
    count_pressure = Topic.count_pressure

    def careless(self: Topic, partition: int, *, limits: Limits, now: int) -> None:
        readers, self.readers = self.readers, {}
        try:
            count_pressure(self, partition, limits=limits, now=now)
        finally:
            self.readers = readers

    monkeypatch.setattr(Topic, "count_pressure", careless)


def keep_more_bytes_than_the_topic_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_cut_for_bytes", lambda topic, firsts: 0)


def drop_more_bytes_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_for_bytes = retention._cut_for_bytes

    def greedy(topic: Topic, firsts: list[int]) -> int:
        cut = cut_for_bytes(topic, firsts)
        return cut + 1 if cut else 0

    monkeypatch.setattr(retention, "_cut_for_bytes", greedy)


def say_deleted_and_keep_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Journal.add

    def careless(self: Journal, record) -> None:
        if not isinstance(record, TopicDeleted):
            add(self, record)

    monkeypatch.setattr(Journal, "add", careless)


def reset_groups_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one life only: in the others A7 notices first that acks from before the reset are accepted."""
    decide = ending.decide_reset

    def careless(topic, group, *, to, now):
        return decide(topic, group, to="latest" if group == ResetGroupLife.GROUP else to, now=now)

    monkeypatch.setattr("driftq.server.topics.stage.decide_reset", careless)


def leave_leases_out_of_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    dump = snapshot._dump_progress

    def forgetful(progress):
        dumped = dump(progress)
        dumped.leases = []
        return dumped

    monkeypatch.setattr(snapshot, "_dump_progress", forgetful)


def publish_before_the_files_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "driftq.housekeeping.round.write_arrays", lambda folder, name, parts: folder.create(name)
    )


def remove_old_files_before_their_messages_have_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftq.server.maintenance.adoption._attach", lambda state, run, chunk: True)


def store_no_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftq.server.produce.prepare._checked_headers", lambda headers: None)


def store_the_headers_of_the_message_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[dict[str, str]] = [{}]

    def mixed(headers: dict[str, str]) -> dict[str, str]:
        before.append(headers)
        return before[-2] or headers

    monkeypatch.setattr("driftq.server.produce.prepare._checked_headers", mixed)


CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (store_no_headers, {"P8"}),
    (store_the_headers_of_the_message_before, {"P8"}),
    (answer_before_the_sync, {"P1", "A3"}),
    (forget_what_was_settled_ahead, {"A3"}),
    (take_the_highest_ack_for_the_floor, {"G4"}),
    (drop_leases_at_a_restart, {"G5"}),
    (count_attempts_from_one_after_a_restart, {"W3"}),
    (show_reads_before_the_commit, {"P1"}),
    (forget_keys_at_a_restart, {"I2"}),
    (deliver_before_the_commit, {"W3", "G5"}),
    (keep_the_state_after_a_failed_commit, {"P1"}),
    (deliver_more_than_may_be_in_flight, {"G2"}),
    (accept_any_attempt, {"A7"}),
    (set_no_timers_at_a_restart, {"G4"}),
    (retry_at_once_after_a_nack, {"G5"}),
    (end_leases_early, {"G5"}),
    (deliver_to_those_who_were_refused, {"G1"}),
    (look_only_where_something_was_stored, {"G4"}),
    (drop_errors_at_a_restart, {"A5"}),
    (take_messages_for_a_full_partition, {"P4"}),
    (refuse_although_there_is_room, {"P4"}),
    (drop_what_groups_have_not_settled, {"A1", "A7"}),
    (drop_what_readers_have_not_passed, {"W6"}),
    (let_readers_hold_nobody_back, {"P4"}),
    (keep_more_bytes_than_the_topic_may, {"T7"}),
    (drop_more_bytes_than_needed, {"T7"}),
    (say_deleted_and_keep_the_topic, {"T7"}),
    (reset_groups_to_the_end, {"G6"}),
    (leave_leases_out_of_the_snapshot, {"G5"}),
    (publish_before_the_files_are_written, {"W4"}),
    (remove_old_files_before_their_messages_have_moved, {"W4"}),
]
