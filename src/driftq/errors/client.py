"""Errors that the client raises itself, without a server's reply."""

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
    """Some of many messages were refused: `errors` by index, `receipts` of the others."""

    def __init__(self, errors: dict[int, DriftQError], *, receipts: dict[int, object]) -> None:
        first = min(errors)
        super().__init__(
            f"{len(errors)} of {len(errors) + len(receipts)} messages were refused; "
            f"message {first}: {errors[first]}"
        )
        self.errors = errors
        self.receipts = receipts


class ClientClosed(Exception):
    """The client is closed, or was closed before the request was sent."""

    def __init__(self) -> None:
        super().__init__("the client is closed")
