"""The consumers' side of idempotency in the engine's turn: begin, commit, fail, extend, resolve, status.

A committed effect is a message of an internal topic that holds the identity and the result. A step is an
effect like any other; its run can be asked for all its steps.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from driftq.core.decide.effects import (
    CommittedEffect,
    EffectScope,
    HeldEffect,
    LapsedEffect,
    decide_begin,
    decide_fail,
    is_unknown,
    open_effect,
    require_pending,
    scope_of,
)
from driftq.core.effects import FailedEffect, Identity, PendingEffect, run_print, step_of
from driftq.core.jobs.transitions import check_lease
from driftq.core.keys import MessageRef
from driftq.core.records import EffectBegun, EffectFailed
from driftq.core.state import State
from driftq.errors import DriftQError, EffectDone, EffectNotFound
from driftq.server.effects.committed import (
    StoredEffect,
    committed_effects,
    committed_in,
    decode_effect,
    effect_refs,
    is_over,
    store_effect,
)
from driftq.server.effects.requests import (
    BeginRequest,
    CommitRequest,
    EffectRecord,
    EffectsRequest,
    ExtendEffectRequest,
    FailRequest,
    ResolveRequest,
    RunStepsRequest,
    StatusRequest,
    StepRecord,
)
from driftq.server.turn import RequestQueue, Turn
from driftq.storage.entry import produced_at


class EffectsStage(RequestQueue[EffectsRequest | RunStepsRequest]):
    """Decides one request after the other, in the order of their submission."""

    handles: ClassVar = (
        BeginRequest,
        CommitRequest,
        FailRequest,
        ExtendEffectRequest,
        ResolveRequest,
        RunStepsRequest,
        StatusRequest,
    )

    def decide(self, turn: Turn) -> None:
        turn.state.effects.expire(turn.now)
        if self.requests:
            for request in self.take():
                self._decide_one(turn, request)

    def _decide_one(self, turn: Turn, request: EffectsRequest | RunStepsRequest) -> None:
        if isinstance(request, RunStepsRequest):
            refs = turn.state.effects.steps_done.find(run_print(request.run_id))
        else:
            refs = [*effect_refs(turn.state, request.identity), *_source_refs(turn.state, request)]
        cold = turn.lookup.cold(refs)
        if cold:
            turn.requeue_when_read(cold, request)
            return
        try:
            answer = self._answer(turn, request)
        except DriftQError as refused:
            answer = refused
        turn.reply(request, answer)

    def _answer(self, turn: Turn, request: EffectsRequest | RunStepsRequest) -> Any:
        match request:
            case BeginRequest():
                return self._begin(turn, request)
            case CommitRequest():
                return self._commit(turn, request)
            case FailRequest():
                return self._fail(turn, request)
            case ExtendEffectRequest():
                return self._extend(turn, request)
            case ResolveRequest():
                return self._resolve(turn, request)
            case RunStepsRequest():
                return steps_of_run(turn, request.run_id)
            case StatusRequest():
                return self._status(turn, request.identity, _scope(turn, request))

    def _begin(
        self, turn: Turn, request: BeginRequest
    ) -> EffectBegun | HeldEffect | LapsedEffect | CommittedEffect:
        scope = _scope(turn, request)
        decided = decide_begin(
            turn.state,
            request.identity,
            topic=scope.topic,
            owner=request.owner,
            lease_ms=request.lease_ms,
            done=_committed(committed_in(turn, request.identity, scope.topics)),
            now=turn.now,
            terms=request.terms,
        )
        if isinstance(decided, EffectBegun):
            turn.journal.add(decided)
        return decided

    def _commit(self, turn: Turn, request: CommitRequest) -> None:
        for stored in committed_effects(turn, request.identity):
            if stored.token == request.token and stored.owner == request.owner:
                return  # A repeated commit.
        pending = require_pending(turn.state, request.identity, owner=request.owner, token=request.token)
        store_effect(turn, request.identity, pending, owner=request.owner, result=request.result)

    def _resolve(self, turn: Turn, request: ResolveRequest) -> None:
        scope = scope_of(turn.state, request.identity[1], now=turn.now)
        if committed_in(turn, request.identity, scope.topics) is not None:
            if not request.committed:
                raise EffectDone(request.identity[3])
            return  # It was committed before, or resolved so: its first result stays.
        effect = open_effect(turn.state, request.identity, topic=scope.topic, now=turn.now)
        if request.committed:
            owner = effect.owner if isinstance(effect, PendingEffect) else ""
            store_effect(turn, request.identity, effect, owner=owner, result=request.result)
        elif isinstance(effect, PendingEffect):
            error = "resolved: it did not happen"
            turn.journal.add(
                EffectFailed(at=turn.now, identity=request.identity, error=error, topic=effect.topic)
            )

    def _fail(self, turn: Turn, request: FailRequest) -> None:
        record = decide_fail(
            turn.state,
            request.identity,
            owner=request.owner,
            token=request.token,
            error=request.error,
            now=turn.now,
        )
        if record is not None:
            turn.journal.add(record)

    def _extend(self, turn: Turn, request: ExtendEffectRequest) -> None:
        """The same grant, for longer."""
        check_lease(request.lease_ms)
        pending = require_pending(turn.state, request.identity, owner=request.owner, token=request.token)
        turn.journal.add(
            EffectBegun(
                at=turn.now,
                identity=request.identity,
                owner=request.owner,
                lease_ms=request.lease_ms,
                token=request.token,
                topic=pending.topic,
                terms=pending.terms,
            )
        )

    def _status(self, turn: Turn, identity: Identity, scope: EffectScope) -> EffectRecord:
        stored = committed_in(turn, identity, scope.topics)
        if stored is not None:
            return EffectRecord(status="COMMITTED", owner=stored.owner, result=stored.result)
        effects = turn.state.effects
        open_ = effects.pending_for(identity, scope.topic) or effects.last_failed(identity, scope.topic)
        if open_ is None:
            raise EffectNotFound(identity[3])
        return _open_record(open_, turn.now)


def _open_record(effect: PendingEffect | FailedEffect, now: int) -> EffectRecord:
    if isinstance(effect, FailedEffect):
        return EffectRecord(status="FAILED", last_error=effect.error)
    return EffectRecord(
        status="UNKNOWN" if is_unknown(effect, now) else "PENDING",
        owner=effect.owner,
        lease_until=effect.until,
        token=effect.token,
    )


def steps_of_run(turn: Turn, run_id: str) -> list[StepRecord]:
    """The steps of a run that are remembered: open ones from memory, committed ones from the disk."""
    effects = turn.state.effects
    steps: list[StepRecord] = []
    for key in effects.open_steps(run_id):
        effect = effects.pending.get(key) or effects.failed.get(key)
        step = step_of(key[0])
        if effect is not None and step is not None:
            terms, record = effect.terms, _open_record(effect, turn.now)
            steps.append(StepRecord(key[0], step[1], terms.parent, effect.attempt, effect.at, record))
    for ref in effects.steps_done.find(run_print(run_id)):
        entry = turn.lookup.entry(ref)
        stored = decode_effect(entry) if entry is not None else None
        step = step_of(stored.identity) if stored is not None else None
        if entry is None or stored is None or step is None or step[0] != run_id or is_over(stored, turn.now):
            continue
        record = EffectRecord(status="COMMITTED", owner=stored.owner, result=stored.result)
        at = produced_at(entry)
        steps.append(StepRecord(stored.identity, step[1], stored.parent, stored.attempt, at, record))
    return sorted(steps, key=lambda step: step.at)


def _source_refs(state: State, request: EffectsRequest) -> list[MessageRef]:
    """The message itself, where only its time tells which topic it was sent to."""
    source = getattr(request, "source", None)
    if source is None or source.topic == request.identity[1]:
        return []
    topic = state.topics.get(source.topic)
    return [MessageRef(topic.id, source.offset)] if topic is not None else []


def _scope(turn: Turn, request: BeginRequest | StatusRequest) -> EffectScope:
    name, source, now = request.identity[1], request.source, turn.now
    if source is not None and source.topic == name:
        return scope_of(turn.state, name, offset=source.offset, now=now)
    for ref in _source_refs(turn.state, request):
        entry = turn.lookup.entry(ref)
        if entry is not None:
            return scope_of(turn.state, name, produced_at=produced_at(entry), now=now)
    return scope_of(turn.state, name, now=now)


def _committed(stored: StoredEffect | None) -> CommittedEffect | None:
    if stored is None:
        return None
    return CommittedEffect(
        result=bytes(stored.result).decode() if isinstance(stored.result, msgspec.Raw) else None,
        token=stored.token,
    )
