"""The consumers' side of idempotency, awaited: begin, finish or fail an effect, and look at it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from driftq.client.consuming.subscription import LEASE_MS
from driftq.client.wire.calls import Calls
from driftq.model.wire.idempotency import BeginReply, EffectStatus

_RESOLVING_MS = 10_000


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The effect is ours until the lease ends; the token fences whoever held it before."""

    topic: str
    group: str
    idempotency_key: str
    tenant_id: str
    owner: str
    token: int


class AlreadyCommitted(msgspec.Struct, frozen=True):
    """It was done before, and this is what it gave."""

    result: Any = None


class Held(msgspec.Struct, frozen=True):
    """Somebody is at it, until then at least."""

    owner: str
    lease_until: str


class AsyncIdempotency:
    """What a worker says around its effects. All may be repeated: a lost answer costs nothing."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def begin(
        self,
        *,
        topic: str,
        group: str,
        idempotency_key: str,
        owner: str,
        lease_ms: int = LEASE_MS,
        tenant_id: str = "",
        offset: int | None = None,
        source_topic: str | None = None,
    ) -> Begun | AlreadyCommitted | Held:
        """Ask for the effect. `owner` should be one that nobody else uses, for this effect at least.

        `offset`, with `source_topic` where the message came from another topic than it was sent to, says
        which message it is for. So one of a deleted topic is not taken for one of its namesake.
        """
        asked: dict[str, Any] = {
            "topic": topic,
            "group": group,
            "idempotency_key": idempotency_key,
            "tenant_id": tenant_id,
            "owner": owner,
        }
        body = {**asked, "lease_ms": lease_ms, **_message(offset, source_topic)}
        path = "/v1/idempotency/begin"
        reply = await self._calls.call("POST", path, body=body, repeatable=True, kind=BeginReply)
        if reply.outcome == "proceed":
            return Begun(**asked, token=reply.token)
        if reply.outcome == "held":
            return Held(owner=reply.owner, lease_until=reply.lease_until)
        return AlreadyCommitted(reply.result)

    async def mark_success(self, begun: Begun, *, result: Any = UNSET) -> None:
        """Done: it never begins again, and duplicates get the result. Raises EffectSuperseded."""
        body: dict[str, Any] = msgspec.structs.asdict(begun)
        if not isinstance(result, UnsetType):
            body["result"] = result
        await self._calls.call("POST", "/v1/idempotency/commit", body=body, repeatable=True)

    async def mark_failure(self, begun: Begun, *, error: str) -> None:
        """It failed and may begin again. Raises EffectSuperseded."""
        body = {**msgspec.structs.asdict(begun), "error": error}
        await self._calls.call("POST", "/v1/idempotency/fail", body=body, repeatable=True)

    async def commit(self, begun: Begun, *, result: Any = UNSET) -> None:
        """The HTTP interface's name for `mark_success`."""
        await self.mark_success(begun, result=result)

    async def fail(self, begun: Begun, *, error: str) -> None:
        """The HTTP interface's name for `mark_failure`."""
        await self.mark_failure(begun, error=error)

    async def extend(self, begun: Begun, *, lease_ms: int = LEASE_MS) -> None:
        """Hold it for so long from now. Raises EffectSuperseded."""
        body = {**msgspec.structs.asdict(begun), "lease_ms": lease_ms}
        await self._calls.call("POST", "/v1/idempotency/extend", body=body, repeatable=True)

    async def status(
        self,
        *,
        topic: str,
        group: str,
        idempotency_key: str,
        tenant_id: str = "",
        offset: int | None = None,
        source_topic: str | None = None,
    ) -> EffectStatus:
        """How far it is, for the message that `begin` would name. Raises EffectNotFound."""
        query: dict[str, Any] = {
            "topic": topic,
            "group": group,
            "idempotency_key": idempotency_key,
            "tenant_id": tenant_id,
            **_message(offset, source_topic),
        }
        path = "/v1/idempotency/status"
        found: EffectStatus = await self._calls.call(
            "GET", path, query=query, repeatable=True, kind=EffectStatus
        )
        return msgspec.structs.replace(found, last_error=found.last_error or "")

    async def resolve(
        self,
        *,
        topic: str,
        group: str,
        idempotency_key: str,
        by: str,
        happened: bool,
        result: Any = UNSET,
        tenant_id: str = "",
    ) -> AlreadyCommitted | Held | None:
        """Say what became of an effect that nobody can tell; None when that is now on record.

        What happened never runs again. What did not may: redrive its dead letter. An effect that was
        committed, or is under way, is not touched and says so.
        """
        begun = await self.begin(
            topic=topic,
            group=group,
            idempotency_key=idempotency_key,
            owner=by,
            lease_ms=_RESOLVING_MS,
            tenant_id=tenant_id,
        )
        if not isinstance(begun, Begun):
            return begun
        if happened:
            await self.mark_success(begun, result=result)
        else:
            await self.mark_failure(begun, error=f"did not happen, says {by}")
        return None


def _message(offset: int | None, source_topic: str | None) -> dict[str, Any]:
    """What says which message an effect is for."""
    told = {"offset": offset, "source_topic": source_topic}
    return {name: value for name, value in told.items() if value is not None}
