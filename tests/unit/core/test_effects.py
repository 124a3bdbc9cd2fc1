"""One owner at a time causes an effect, and a finished effect never begins again."""

import pytest

from driftq.core.decide.effects import (
    CommittedEffect,
    HeldEffect,
    LapsedEffect,
    decide_begin,
    decide_fail,
    require_pending,
)
from driftq.core.effects import Identity
from driftq.core.evolve.fold import evolve
from driftq.core.records import EffectBegun, EffectCommitted
from driftq.core.state import State
from driftq.errors import EffectSuperseded, IdempotencyFull, InvalidArgument
from driftq.model.options.limits import LEASE_MS_MAX, Limits

KEY: Identity = ("acme", "orders", "billing", "order-1")
TTL_MS = 640_000


class PureEffects:
    """The effects of a state whose time is what the story says."""

    def __init__(self, **limits: int) -> None:
        self.now = 1_000
        self.state = State(Limits(effect_ttl_ms=TTL_MS, **limits))  # type: ignore[arg-type]

    def begin(
        self,
        identity: Identity = KEY,
        *,
        owner: str = "a",
        lease_ms: int = 2_000,
        done: CommittedEffect | None = None,
    ) -> EffectBegun | HeldEffect | LapsedEffect | CommittedEffect:
        self.state.effects.expire(self.now)
        decided = decide_begin(
            self.state, identity, topic=0, owner=owner, lease_ms=lease_ms, done=done, now=self.now
        )
        if isinstance(decided, EffectBegun):
            evolve(self.state, decided, segment=1, blob_at=0)
        return decided

    def token(self, **fields: str) -> int:
        begun = self.begin(**fields)  # type: ignore[arg-type]
        assert isinstance(begun, EffectBegun), begun
        return begun.token

    def fail(self, token: int, *, owner: str = "a", error: str = "boom") -> bool:
        record = decide_fail(self.state, KEY, owner=owner, token=token, error=error, now=self.now)
        if record is not None:
            evolve(self.state, record, segment=1, blob_at=0)
        return record is not None

    def commit(self, token: int, *, owner: str = "a") -> None:
        require_pending(self.state, KEY, owner=owner, token=token)
        evolve(self.state, EffectCommitted(at=self.now, identity=KEY), segment=1, blob_at=0)

    def extend(self, token: int, lease_ms: int) -> None:
        require_pending(self.state, KEY, owner="a", token=token)
        record = EffectBegun(at=self.now, identity=KEY, owner="a", lease_ms=lease_ms, token=token)
        evolve(self.state, record, segment=1, blob_at=0)


@pytest.fixture
def effects() -> PureEffects:
    return PureEffects()


@pytest.mark.clause("I6")
def test_who_comes_second_is_told_who_is_at_it_and_until_when(effects: PureEffects) -> None:
    assert effects.token() == 1
    effects.now += 1_999
    assert effects.begin(owner="b") == HeldEffect("a", 3_000)
    assert effects.begin(owner="a") == HeldEffect("a", 3_000)


@pytest.mark.clause("I6")
def test_a_lapsed_lease_is_taken_over_with_a_newer_token(effects: PureEffects) -> None:
    old = effects.token()
    effects.now += 2_000
    new = effects.token(owner="b")
    assert new > old
    for finish in (effects.commit, effects.fail):
        with pytest.raises(EffectSuperseded) as refused:
            finish(old)
        assert (refused.value.given, refused.value.held) == (old, new)
    effects.commit(new, owner="b")


@pytest.mark.clause("I6")
def test_the_same_owner_is_fenced_by_its_older_token_too(effects: PureEffects) -> None:
    old = effects.token()
    effects.now += 2_000
    new = effects.token()
    with pytest.raises(EffectSuperseded):
        effects.commit(old)
    with pytest.raises(EffectSuperseded):
        effects.commit(new, owner="b")
    effects.commit(new)


@pytest.mark.clause("I6")
def test_a_lapsed_lease_that_nobody_took_can_still_be_finished(effects: PureEffects) -> None:
    token = effects.token()
    effects.now += 60_000
    effects.commit(token)
    assert not effects.state.effects.pending


@pytest.mark.clause("I6", "I2")
def test_a_failed_effect_may_begin_again_and_says_why_it_failed(effects: PureEffects) -> None:
    token = effects.token()
    assert effects.fail(token, error="card declined")
    assert not effects.fail(token, error="said twice")
    assert effects.state.effects.failed[KEY, 0].error == "card declined"
    with pytest.raises(EffectSuperseded):
        effects.commit(token)
    assert effects.token(owner="b") > token
    assert not effects.state.effects.failed


@pytest.mark.clause("I6")
def test_what_is_done_is_given_back_and_not_begun(effects: PureEffects) -> None:
    done = CommittedEffect(result='{"charged":5}', token=1)
    assert effects.begin(done=done) == done
    assert not effects.state.effects.pending


@pytest.mark.clause("I6")
def test_group_tenant_topic_and_key_are_all_part_of_it(effects: PureEffects) -> None:
    others = [
        ("", *KEY[1:]),
        (KEY[0], "other", *KEY[2:]),
        (*KEY[:2], "search", KEY[3]),
        (*KEY[:3], "order-2"),
    ]
    tokens = [effects.begin(identity) for identity in (KEY, *others)]
    assert all(isinstance(begun, EffectBegun) for begun in tokens)


@pytest.mark.clause("I5")
def test_pending_under_a_live_lease_does_not_expire(effects: PureEffects) -> None:
    token = effects.token()
    for _ in range(3):
        effects.extend(token, TTL_MS + 5_000)
        effects.now += TTL_MS + 4_000
        effects.state.effects.expire(effects.now)
        assert effects.state.effects.pending[KEY, 0].token == token
    effects.now += TTL_MS
    effects.state.effects.expire(effects.now)
    assert not effects.state.effects.pending


@pytest.mark.clause("I5")
def test_a_failure_is_forgotten_after_its_time_from_its_last_change(effects: PureEffects) -> None:
    effects.fail(effects.token())
    effects.now += TTL_MS - 1
    effects.fail(effects.token(), error="again")
    effects.now += TTL_MS - 1
    effects.state.effects.expire(effects.now)
    assert effects.state.effects.failed[KEY, 0].error == "again"
    effects.now += 1
    effects.state.effects.expire(effects.now)
    assert not effects.state.effects.failed


@pytest.mark.clause("I5")
def test_notes_of_what_is_over_are_not_kept_and_heartbeats_leave_none(effects: PureEffects) -> None:
    token = effects.token()
    for _ in range(1_000):
        effects.now += 10
        effects.extend(token, 2_000)
    for number in range(1_000):
        begun = effects.begin((*KEY[:3], f"order-{number + 2}"))
        assert isinstance(begun, EffectBegun)
        effects.state.effects.commit(begun.identity, topic=begun.topic)
    assert len(effects.state.effects.leaving) < 100


@pytest.mark.clause("I5")
def test_at_the_limit_new_keys_wait_and_nothing_is_forgotten() -> None:
    effects = PureEffects(idempotency_keys_max=1)
    effects.token()
    with pytest.raises(IdempotencyFull):
        effects.begin((*KEY[:3], "order-2"))
    effects.now += 2_000
    assert isinstance(effects.begin(owner="b"), EffectBegun)


@pytest.mark.clause("I6")
@pytest.mark.parametrize("lease_ms", [0, -1, LEASE_MS_MAX + 1])
def test_a_lease_has_bounds(effects: PureEffects, lease_ms: int) -> None:
    with pytest.raises(InvalidArgument):
        effects.begin(lease_ms=lease_ms)
