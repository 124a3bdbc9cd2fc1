"""What belongs to tenants, and what their keys do not reach."""

from __future__ import annotations

from driftq.errors.kinds import FailedPrecondition, NotFound, PermissionDenied


class QueueNotFound(NotFound):
    def __init__(self, queue: str) -> None:
        super().__init__(f"queue {queue!r} does not exist")
        self.queue = queue


class AggregateTypeNotFound(NotFound):
    def __init__(self, aggregate_type: str) -> None:
        super().__init__(f"aggregate type {aggregate_type!r} does not exist")
        self.aggregate_type = aggregate_type


class OwnedByAnother(FailedPrecondition):
    """It cannot be given to a tenant, because it belongs to another one or, without a tenant, to nobody."""

    reason = "owned_by_another"

    def __init__(self, name: str, *, tenant: str) -> None:
        whose = f"belongs to the tenant {tenant!r}" if tenant else "belongs to no tenant"
        super().__init__(f"{name!r} {whose}; delete it first, or choose another name")
        self.name = name
        self.tenant = tenant


class TenantNotAllowed(PermissionDenied):
    """The route covers what belongs to all tenants or to none."""

    reason = "tenant_not_allowed"

    def __init__(self, key: str, *, tenant: str) -> None:
        super().__init__(
            f"the key {key!r} belongs to the tenant {tenant!r}, and this call covers more than one tenant: "
            "use a key without a tenant"
        )
        self.key = key
        self.tenant = tenant


class TenantMismatch(PermissionDenied):
    """The request names another tenant than its key."""

    reason = "tenant_mismatch"

    def __init__(self, key: str, *, tenant: str, given: str) -> None:
        super().__init__(
            f"the key {key!r} belongs to the tenant {tenant!r}, and the request names the tenant {given!r}: "
            "leave it out"
        )
        self.key = key
        self.tenant = tenant
        self.given = given
