"""May this effect begin, and may it end: one owner at a time, and a finished effect never begins again."""

import msgspec

from driftq.core.effects import Identity, Pending
from driftq.core.limits import LEASE_MS_MAX
from driftq.core.records import EffectBegun, EffectFailed
from driftq.core.state import State
from driftq.errors import EffectSuperseded, IdempotencyFull, InvalidArgument


class Held(msgspec.Struct, frozen=True):
    """Somebody else is at it."""

    owner: str
    lease_until: int


class Committed(msgspec.Struct, frozen=True):
    """It was done before; this is what it gave."""

    result: str | None
    token: int


def decide_begin(
    state: State, identity: Identity, *, owner: str, lease_ms: int, done: Committed | None, now: int
) -> EffectBegun | Held | Committed:
    """Grant the effect to this owner, unless it is done (`done` was found in the log) or held."""
    if not 1 <= lease_ms <= LEASE_MS_MAX:
        raise InvalidArgument("lease_ms", f"must be from 1 to {LEASE_MS_MAX}")
    if done is not None:
        return done
    effects = state.effects
    pending = effects.pending.get(identity)
    if pending is not None and pending.until > now:
        return Held(owner=pending.owner, lease_until=pending.until)
    if pending is None and len(effects.committed) + len(effects.pending) >= state.limits.idempotency_keys_max:
        raise IdempotencyFull(keys=len(effects.committed) + len(effects.pending))
    return EffectBegun(
        at=now, identity=identity, owner=owner, lease_ms=lease_ms, token=state.effects.next_token
    )


def require_pending(state: State, identity: Identity, *, owner: str, token: int) -> Pending:
    """The grant that this token stands for; refused when another one has taken its place."""
    pending = state.effects.pending.get(identity)
    if pending is None or pending.token != token or pending.owner != owner:
        raise EffectSuperseded(given=token, held=pending.token if pending is not None else None)
    return pending


def decide_fail(
    state: State, identity: Identity, *, owner: str, token: int, error: str, now: int
) -> EffectFailed | None:
    """The effect failed and may begin again; None when this was said before."""
    failed = state.effects.failed.get(identity)
    if failed is not None and failed.token == token:
        return None
    require_pending(state, identity, owner=owner, token=token)
    return EffectFailed(at=now, identity=identity, error=error)
