"""The consumers' side of idempotency: begin, finish or fail an effect, and look at it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from driftq.client.consuming.subscription import LEASE_MS
from driftq.client.wire.calls import Calls
from driftq.model.wire.idempotency import BeginReply, EffectStatus

_RESOLVING_MS = 10_000


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The effect is ours until the lease ends; the token fences earlier holders."""

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


class LeftUnknown(msgspec.Struct, frozen=True):
    """Its owner declared `effect="unknown"` and did not report an outcome: `resolve` decides."""

    owner: str
    lease_until: str


class AsyncIdempotency:
    """The calls of `/v1/idempotency`, which a worker makes around its effects. All are safe to repeat."""

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
        effect: Literal["unknown", "idempotent"] | None = None,
        ttl_ms: int | None = None,
        parent_step_id: str | None = None,
    ) -> Begun | AlreadyCommitted | Held | LeftUnknown:
        """Claim an effect. Give each claimant of an effect an `owner` name of its own.

        `offset` says which message the effect is for, so that a message of a deleted topic is not taken for
        one of a new topic with its name. `source_topic` is needed where that message is in another topic.
        `effect="unknown"` keeps the effect from beginning again when its owner has crashed. `ttl_ms` is how
        long the result lasts.
        """
        identity: dict[str, Any] = {
            "topic": topic,
            "group": group,
            "idempotency_key": idempotency_key,
            "tenant_id": tenant_id,
            "owner": owner,
        }
        terms = _given(effect=effect, ttl_ms=ttl_ms, parent_step_id=parent_step_id)
        body = {**identity, "lease_ms": lease_ms, **_message(offset, source_topic), **terms}
        path = "/v1/idempotency/begin"
        reply = await self._calls.call("POST", path, body=body, repeatable=True, kind=BeginReply)
        if reply.outcome == "proceed":
            return Begun(**identity, token=reply.token)
        if reply.outcome == "held":
            return Held(owner=reply.owner, lease_until=reply.lease_until)
        if reply.outcome == "unknown":
            return LeftUnknown(owner=reply.owner, lease_until=reply.lease_until)
        return AlreadyCommitted(reply.result)

    async def mark_success(self, begun: Begun, *, result: Any = UNSET) -> None:
        """Commit the effect: it never runs again, and duplicates get the result. Raises EffectSuperseded."""
        body: dict[str, Any] = msgspec.structs.asdict(begun)
        if not isinstance(result, UnsetType):
            body["result"] = result
        await self._calls.call("POST", "/v1/idempotency/commit", body=body, repeatable=True)

    async def mark_failure(self, begun: Begun, *, error: str) -> None:
        """Record a failure; the effect may begin again. Raises EffectSuperseded."""
        body = {**msgspec.structs.asdict(begun), "error": error}
        await self._calls.call("POST", "/v1/idempotency/fail", body=body, repeatable=True)

    async def commit(self, begun: Begun, *, result: Any = UNSET) -> None:
        """The HTTP interface's name for `mark_success`."""
        await self.mark_success(begun, result=result)

    async def fail(self, begun: Begun, *, error: str) -> None:
        """The HTTP interface's name for `mark_failure`."""
        await self.mark_failure(begun, error=error)

    async def extend(self, begun: Begun, *, lease_ms: int = LEASE_MS) -> None:
        """Extend the lease to `lease_ms` from now. Raises EffectSuperseded."""
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
        """The state of an effect, addressed as in `begin`. Raises EffectNotFound."""
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
        """Record the outcome of an effect that is unknown; None when it is recorded.

        An effect that happened never runs again. One that did not may: redrive its dead letter. An effect
        that is committed or under way is left as it is and returned.
        """
        begun = await self.begin(
            topic=topic,
            group=group,
            idempotency_key=idempotency_key,
            owner=by,
            lease_ms=_RESOLVING_MS,
            tenant_id=tenant_id,
        )
        if isinstance(begun, LeftUnknown):
            decision = {"as": "committed" if happened else "retry"}
            if happened and not isinstance(result, UnsetType):
                decision["result"] = result
            name = {"topic": topic, "group": group, "idempotency_key": idempotency_key}
            body = {**name, "tenant_id": tenant_id, **decision}
            await self._calls.call("POST", "/v1/idempotency/resolve", body=body, repeatable=True)
            return None
        if not isinstance(begun, Begun):
            return begun
        if happened:
            await self.mark_success(begun, result=result)
        else:
            await self.mark_failure(begun, error=f"did not happen, says {by}")
        return None


def _message(offset: int | None, source_topic: str | None) -> dict[str, Any]:
    """The fields that name the message of an effect."""
    return _given(offset=offset, source_topic=source_topic)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
