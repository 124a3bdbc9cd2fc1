"""How a client behaves: how long it waits, and how much it holds."""

from dataclasses import dataclass

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Limits of one client."""

    timeout_s: float = TIMEOUT_S
    """One call in all, its retries included."""
    attempt_timeout_s: float = 15.0
    """One try: the connection, the request, the answer."""
    close_timeout_s: float = 10.0
    """What waits to be sent when the client is closed."""
    batch_messages: int = 1_000
    batch_bytes: int = 1 << 20
    buffer_messages: int = 20_000
    """Messages, or acks, that wait for their answers; whoever brings more waits for room."""
    buffer_bytes: int = 32 << 20
    requests_under_way: int = 4
    """Batches that are sent before the first of them is answered."""
    api_key: str | None = None
