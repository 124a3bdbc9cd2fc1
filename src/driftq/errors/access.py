"""API keys, TLS, and what a key may not do."""

from __future__ import annotations

from driftq.errors.kinds import PermissionDenied, ResourceExhausted, Unauthenticated


class KeyMissing(Unauthenticated):
    """The server needs an API key, and the request carries none."""

    reason = "key_missing"

    def __init__(self) -> None:
        super().__init__(
            "this server needs an API key: send it as Authorization: Bearer KEY; clients take it "
            "from api_key= or DRIFTQ_API_KEY"
        )


class KeyUnknown(Unauthenticated):
    """The API key is wrong, or it was revoked."""

    reason = "key_unknown"

    def __init__(self) -> None:
        super().__init__(
            "the API key is not valid here: it is wrong or was revoked; create one with `driftq key create` "
            "in the server's keys file"
        )


class RoleMissing(PermissionDenied):
    """The key has none of the roles that the call needs."""

    reason = "role_missing"

    def __init__(self, key: str, *, roles: str, needs: str) -> None:
        super().__init__(
            f"the key {key!r} has the role {roles}; this call needs {needs}: use another key, or create one "
            "with that role"
        )
        self.key = key
        self.roles = roles
        self.needs = needs


class TopicNotAllowed(PermissionDenied):
    """The key is limited to other topics."""

    reason = "topic_not_allowed"

    def __init__(self, key: str, *, topic: str, topics: str) -> None:
        named = f"the topic {topic!r} is not one of them" if topic else "this call covers every topic"
        super().__init__(f"the key {key!r} is limited to the topics {topics}; {named}")
        self.key = key
        self.topic = topic
        self.topics = topics


class TooManyTries(ResourceExhausted):
    """This address has sent invalid keys too often."""

    reason = "too_many_tries"

    def __init__(self, *, retry_after_ms: int) -> None:
        super().__init__(f"too many invalid API keys from this address; wait {retry_after_ms} ms")
        self.retry_after_ms = retry_after_ms


class KeyRateReached(ResourceExhausted):
    """The key has used up what it may use in a second."""

    reason = "key_rate"

    def __init__(self, key: str, *, limit: str, per_s: int, retry_after_ms: int) -> None:
        super().__init__(f"the key {key!r} may use {per_s} {limit} per second; wait {retry_after_ms} ms")
        self.key = key
        self.limit = limit
        self.per_s = per_s
        self.retry_after_ms = retry_after_ms


class KeysFileUnusable(Exception):
    """The keys file is missing, damaged or unsafe; never sent to a client."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"the keys file {path} cannot be used: {problem}")
        self.path = path
        self.problem = problem


class CertificateUnusable(Exception):
    """A certificate, its key or a CA file cannot be used; never sent to a client."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"the file {path} cannot be used for TLS: {problem}")
        self.path = path
        self.problem = problem
