"""The guard: the one place where a request's key is checked, before its handler runs.

It identifies the key, counts the request against the key's rates, and compares the key's roles, topics and
tenant with those of the route. What a route needs is part of the route (`Route.roles`, `Route.topics`,
`Route.tenants`), so the OpenAPI document and the reference state the same rule.

With a tenant's key, everything that the request names must be the tenant's; the rest is answered as if it
did not exist. A request that may make things also returns the names that are new: their owner becomes durable
before the handler runs (`owning.py`). Handlers leave out of their lists what `Exchange.owns` denies.

A browser that has logged in to the dashboard sends a cookie instead of a key; it counts as the key that
opened the session, as long as that key is current.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Callable

from driftq.access.file import file_state, read_keys
from driftq.access.keys import ApiKey, Role, bearer
from driftq.access.rates import Allowance, FailedTries
from driftq.access.sessions import Sessions, session_in
from driftq.core.decide.owners import OwnedName, may_become_owner, owner_of
from driftq.errors import (
    DriftQError,
    KeyMissing,
    KeyRateReached,
    KeysFileUnusable,
    KeyUnknown,
    NotFound,
    PermissionDenied,
    RoleMissing,
    TenantNotAllowed,
    TooManyTries,
    TopicNotAllowed,
    Unauthenticated,
)
from driftq.http.api.audited import Auditor, address_of
from driftq.http.api.route import Route
from driftq.http.api.tenancy import Tenancy, tenancy_of
from driftq.http.wire.exchange import Exchange
from driftq.server.counters import Counters

logger = logging.getLogger("driftq.access")


class Guard:
    """The keys of one server."""

    def __init__(
        self,
        keys_file: str,
        counters: Counters,
        *,
        auditor: Auditor | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises KeysFileUnusable: a server that was given a keys file does not start without it."""
        self._path = keys_file
        self._counters = counters
        self._auditor = auditor
        self._monotonic = monotonic
        self._state = file_state(keys_file)
        self._keys = _by_id(read_keys(keys_file))
        self._tries = FailedTries()
        self._sessions = Sessions()
        self._rates: dict[str, KeyRates] = {}
        self._tenancies: dict[tuple[str, str], Tenancy | None] = {}
        """Of each route by method and path, once it was asked for with a tenant's key."""
        if not self._keys:
            logger.warning("the keys file %s has no usable key: every request is refused", keys_file)

    def require_key(self, exchange: Exchange) -> ApiKey:
        """The key of the request, which is counted against its rates; raises Unauthenticated and 429."""
        key = exchange.caller
        if key is None:
            key = exchange.caller = self._identify(exchange)
            if key.requests_per_s is not None or key.bytes_per_s is not None:
                self._count(key, len(exchange.body))
        return key

    def stranger(self, authorization: bytes, cookie: bytes) -> Unauthenticated | None:
        """The error for headers without a valid key or session; nothing is counted."""
        if authorization:
            return None if self._find(authorization) is not None else KeyUnknown()
        return None if self._find_session(cookie) is not None else KeyMissing()

    def admit(self, exchange: Exchange, route: Route) -> list[OwnedName]:
        """Return when the request's key may make this request; else raise the reply.

        What is returned has no owner yet: it must become the tenant's before the handler runs.
        """
        if route.roles is None:
            self._recognise(exchange)
            return []
        key = self.require_key(exchange)
        is_admins = not route.roles
        try:
            self._compare(key, exchange, route)
            fresh = self._require_own(key.tenant, exchange, route) if key.tenant is not None else []
        except (PermissionDenied, NotFound) as refused:
            self._counters.permission_denied += isinstance(refused, PermissionDenied)
            if is_admins and self._auditor is not None:
                self._auditor.refused(exchange, route, key, refused.status)
            raise
        if is_admins and self._auditor is not None:
            self._auditor.watch(exchange, route, key)
        return fresh

    @staticmethod
    def _compare(key: ApiKey, exchange: Exchange, route: Route) -> None:
        """Raises PermissionDenied for what is outside the key's roles or topics."""
        if not key.has_role(route.roles or ()):
            needs = " or ".join([*(route.roles or ()), Role.ADMIN])
            raise RoleMissing(key.name, roles=", ".join(sorted(key.roles)), needs=needs)
        if key.topics and route.topics is not None:
            for topic in route.topics(exchange):
                if not key.reaches(topic):
                    raise TopicNotAllowed(key.name, topic=topic, topics=", ".join(key.topics))

    def _require_own(self, tenant: str, exchange: Exchange, route: Route) -> list[OwnedName]:
        """The new names that the request would make; raises NotFound for what the tenant does not own."""
        where = (route.method, route.path)
        if where not in self._tenancies:
            self._tenancies[where] = tenancy_of(route)
        tenancy = self._tenancies[where]
        if tenancy is None:
            assert exchange.caller is not None
            raise TenantNotAllowed(exchange.caller.name, tenant=tenant)
        if tenancy.names is None:
            return []
        state = exchange.edge.engine.state
        fresh: list[OwnedName] = []
        for thing, missing in tenancy.names(exchange):
            if owner_of(state, *thing) != tenant:
                if not (tenancy.makes and may_become_owner(state, tenant, thing)):
                    raise missing
                fresh.append(thing)
        return fresh

    def _recognise(self, exchange: Exchange) -> None:
        """An open route needs no key, but may show more to a valid one."""
        if exchange.authorization:
            try:
                exchange.caller = self._identify(exchange)
            except DriftQError:
                exchange.caller = None

    def _identify(self, exchange: Exchange) -> ApiKey:
        authorization = exchange.authorization
        if authorization:
            proven = exchange.connection.proven
            if proven is not None and self._still_proves(proven, authorization):
                return proven[1]
            key = self._find(authorization)
            exchange.connection.proven = None if key is None else (authorization, key)
        else:
            key = self._browser(exchange)
        if key is not None:
            return key
        self._counters.unauthenticated += 1
        if authorization:
            raise self._failed(exchange)
        raise KeyMissing

    def _still_proves(self, proven: tuple[bytes, ApiKey], authorization: bytes) -> bool:
        """Whether this connection has proven its key with the same header, and the key is in force.

        It saves the hash: the header itself is compared, in constant time too. A head that the connection
        has read before comes with the very same header.
        """
        before, key = proven
        if self._keys.get(key.id) is not key:
            return False
        return authorization is before or hmac.compare_digest(authorization, before)

    def _failed(self, exchange: Exchange) -> KeyUnknown | TooManyTries:
        """Count a wrong key; the error to reply with."""
        wait_s = self._tries.failed(address_of(exchange.connection), now=self._monotonic())
        if not wait_s:
            return KeyUnknown()
        exchange.ends_connection = True  # Each further try costs a connection.
        return TooManyTries(retry_after_ms=_ms(wait_s))

    def _find(self, authorization: bytes) -> ApiKey | None:
        """The key that the header proves to have; an unknown id is not worth a hash."""
        given = bearer(authorization)
        key = self._keys.get(given[0]) if given else None
        return key if key is not None and given is not None and key.is_secret(given[1]) else None

    # Sessions of the dashboard

    def log_in(self, exchange: Exchange, text: str) -> tuple[ApiKey, str]:
        """Open a session for the key with this text; raises as for any other request with a wrong key."""
        key = self._find(b"Bearer " + text.strip().encode())
        if key is None:
            self._counters.unauthenticated += 1
            raise self._failed(exchange)
        return key, self._sessions.open(key, now=self._monotonic())

    def log_out(self, cookie: bytes) -> None:
        name = session_in(cookie)
        if name is not None:
            self._sessions.close(name)

    def is_open(self, exchange: Exchange) -> bool:
        """Whether a stream that was admitted may go on: its session, if it came with one, has not ended."""
        return bool(exchange.authorization) or self._find_session(exchange.cookie) is not None

    def _browser(self, exchange: Exchange) -> ApiKey | None:
        """The key of the session. Only a page of this server may change anything with it."""
        if exchange.method != b"GET" and not exchange.by_own_page:
            return None
        return self._find_session(exchange.cookie)

    def _find_session(self, cookie: bytes) -> ApiKey | None:
        name = session_in(cookie) if cookie else None
        key = self._sessions.key_of(name, now=self._monotonic()) if name is not None else None
        return key if key is not None and self.is_current(key) else None

    def _count(self, key: ApiKey, body_bytes: int) -> None:
        now = self._monotonic()
        rates = self._rates.get(key.id)
        if rates is None or rates.key != key:
            rates = self._rates[key.id] = KeyRates(key, now)
        refused = rates.use(body_bytes, now)
        if refused is not None:
            self._counters.key_rate_refused += 1
            raise refused

    # The file

    def look(self) -> bool:
        """Once a second: read the file again if it has changed; whether the keys are others now."""
        state = file_state(self._path)
        return state != self._state and self.reload()

    def reload(self) -> bool:
        """Read the file; whether the keys are others now. A file that cannot be used changes nothing."""
        self._state = file_state(self._path)
        try:
            keys = _by_id(read_keys(self._path))
        except KeysFileUnusable as problem:
            logger.error("%s; the keys from before stay in force", problem)
            return False
        before, self._keys = self._keys, keys
        if self._auditor is not None and keys != before:
            self._auditor.keys_changed(
                added=[key.name for key_id, key in keys.items() if key_id not in before],
                removed=[key.name for key_id, key in before.items() if key_id not in keys],
                changed=[key.name for key_id, key in keys.items() if before.get(key_id, key) != key],
            )
        self._rates = {key_id: rates for key_id, rates in self._rates.items() if key_id in keys}
        if keys == before:
            return False
        logger.info("the keys file has changed: %d keys, before %d", len(keys), len(before))
        return True

    def is_current(self, key: ApiKey) -> bool:
        """Whether the key is as it was when a request with it was admitted."""
        return self._keys.get(key.id) == key


class KeyRates:
    """What one key has used."""

    __slots__ = ("_bytes", "_requests", "key")

    def __init__(self, key: ApiKey, now: float) -> None:
        self.key = key
        self._requests = Allowance(key.requests_per_s, at=now) if key.requests_per_s is not None else None
        self._bytes = Allowance(key.bytes_per_s, at=now) if key.bytes_per_s is not None else None

    def use(self, body_bytes: int, now: float) -> KeyRateReached | None:
        """Count a request; the error, and nothing is counted, when a rate is used up."""
        for limit, allowance in (("requests", self._requests), ("bytes", self._bytes)):
            wait_s = allowance.wait_s(now) if allowance is not None else 0.0
            if allowance is not None and wait_s:
                per_s, wait_ms = int(allowance.per_s), _ms(wait_s)
                return KeyRateReached(self.key.name, limit=limit, per_s=per_s, retry_after_ms=wait_ms)
        if self._requests is not None:
            self._requests.use(1)
        if self._bytes is not None:
            self._bytes.use(body_bytes)
        return None


def _by_id(keys: list[ApiKey]) -> dict[str, ApiKey]:
    return {key.id: key for key in keys}


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
