"""The kinds of error, one for each error code of the HTTP API. All other errors derive from them."""

from __future__ import annotations


class DriftQError(Exception):
    """Base of every error that a caller can receive. HTTP sends `code` and `status`."""

    code = "INTERNAL"
    status = 500
    reason: str | None = None

    @property
    def message(self) -> str:
        return str(self)


class InvalidArgument(DriftQError):
    code = "INVALID_ARGUMENT"
    status = 400

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


class Unauthenticated(DriftQError):
    code = "UNAUTHENTICATED"
    status = 401


class PermissionDenied(DriftQError):
    code = "PERMISSION_DENIED"
    status = 403


class PageRefused(PermissionDenied):
    """A browser sent the request for a page that is not this server's own."""

    def __init__(self, *, header: str, value: str, host: str) -> None:
        super().__init__(
            f"a web page of another origin sent the request ({header}: {value}, Host: {host}); in a browser "
            "this server answers only its own pages"
        )
        self.header = header
        self.value = value
        self.host = host


class HostRefused(PermissionDenied):
    """The request's host name is not one of this server's: it may come from DNS rebinding."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the host name {host!r} is not known to be this server's; to allow it, add it to the names in "
            "DRIFTQ_ALLOWED_HOSTS (comma-separated) where the server is started"
        )
        self.host = host


class NotFound(DriftQError):
    code = "NOT_FOUND"
    status = 404


class RouteNotFound(NotFound):
    def __init__(self, path: str) -> None:
        super().__init__(f"no such route: {path}")
        self.path = path


class MethodNotAllowed(DriftQError):
    code = "METHOD_NOT_ALLOWED"
    status = 405

    def __init__(self, method: str, *, allow: str) -> None:
        super().__init__(f"method {method} is not allowed here; allowed: {allow}")
        self.method = method
        self.allow = allow


class RequestTimeout(DriftQError):
    """The request did not arrive completely in time. The server did nothing with it."""

    code = "REQUEST_TIMEOUT"
    status = 408


class FailedPrecondition(DriftQError):
    code = "FAILED_PRECONDITION"
    status = 409


class Conflict(DriftQError):
    code = "CONFLICT"
    status = 409


class PayloadTooLarge(DriftQError):
    code = "PAYLOAD_TOO_LARGE"
    status = 413

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"the request is larger than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


class ResourceExhausted(DriftQError):
    code = "RESOURCE_EXHAUSTED"
    status = 429
    retry_after_ms = 1000


class Unavailable(DriftQError):
    code = "UNAVAILABLE"
    status = 503
