"""Idempotency keys: the gate at produce, and effects under way."""

from __future__ import annotations

from driftq.errors.kinds import FailedPrecondition, NotFound, ResourceExhausted


class EffectNotFound(NotFound):
    def __init__(self, key: str) -> None:
        super().__init__(f"there is no effect with key {key!r}")
        self.key = key


class IdempotencyPending(FailedPrecondition):
    reason = "idempotency_pending"

    def __init__(self, key: str) -> None:
        super().__init__(f"a produce with idempotency key {key!r} is still under way")
        self.key = key


class IdempotencyMismatch(FailedPrecondition):
    reason = "idempotency_mismatch"

    def __init__(self, key: str, *, offset: int) -> None:
        super().__init__(f"idempotency key {key!r} was used for another payload (offset {offset})")
        self.key = key
        self.offset = offset


class IdempotencyFull(ResourceExhausted):
    reason = "idempotency_full"

    def __init__(self, *, keys: int) -> None:
        super().__init__(f"{keys} idempotency keys are live, which is the limit")
        self.keys = keys


class EffectSuperseded(FailedPrecondition):
    """The grant was taken over or has expired: its holder can no longer finish."""

    reason = "superseded"

    def __init__(self, *, given: int, held: int | None) -> None:
        super().__init__(f"token {given} is not the current one")
        self.given = given
        self.held = held
