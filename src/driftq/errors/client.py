"""Errors that the client raises itself, without a server's reply, and those of forked children."""

from __future__ import annotations

from driftq.errors.kinds import DriftQError, Unavailable


class ServerUnreachable(Unavailable):
    """The server did not answer: it may or may not have handled the request."""

    reason = "unreachable"

    def __init__(self, url: str, *, cause: str) -> None:
        super().__init__(f"no DriftQ server answers at {url}: {cause}")
        self.url = url
        self.cause = cause


class BatchRefused(Exception):
    """Some of many messages or jobs were refused: `errors` by index, `receipts` of the others."""

    def __init__(
        self, errors: dict[int, DriftQError], *, receipts: dict[int, object], what: str = "message"
    ) -> None:
        first = min(errors)
        super().__init__(
            f"{len(errors)} of {len(errors) + len(receipts)} {what}s were refused; "
            f"{what} {first}: {errors[first]}"
        )
        self.errors = errors
        self.receipts = receipts


class JobFailed(Exception):
    """The job is dead: it has no result. `error` is its last error, `error_class` the class that it names.

    Where the caller knows that class, what is raised is an instance of it as well.
    """

    def __init__(self, job: str, *, error: str, error_class: str = "") -> None:
        Exception.__init__(self, f"{job} is dead: {error}")  # Not that of the other class.
        self.job = job
        self.error = error
        self.error_class = error_class

    def __str__(self) -> str:
        return str(self.args[0])


class ClientClosed(Exception):
    """The client is closed, or was closed before the request was sent."""

    def __init__(self) -> None:
        super().__init__("the client is closed")


class UsedAfterFork(Exception):
    """The object belongs to the process that made it; a forked child cannot use it."""

    def __init__(self, what: str, *, instead: str) -> None:
        super().__init__(f"{what} belongs to the process that this one was forked from: {instead}")
        self.what = what
        self.instead = instead
