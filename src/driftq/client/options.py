"""The limits of a client: times, batches and buffers."""

from dataclasses import dataclass, field

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Limits of one client."""

    timeout_s: float = TIMEOUT_S
    """The limit of one call, retries included."""
    attempt_timeout_s: float = 15.0
    """The limit of one attempt: connection, request and response."""
    close_timeout_s: float = 10.0
    """How long `close` waits for everything to be sent."""
    batch_messages: int = 1_000
    batch_bytes: int = 1 << 20
    buffer_messages: int = 20_000
    """Messages, or acks, without a response; further callers wait for room."""
    buffer_bytes: int = 32 << 20
    requests_under_way: int = 4
    """Batches that are sent before the first of them has a response."""
    api_key: str | None = field(default=None, repr=False)
    """None: that of DRIFTQ_API_KEY, if it is set."""
    ca_file: str | None = None
    """The certificates that the server's must be signed by; None: DRIFTQ_CA_FILE, else the system's."""
    client_cert: str | None = None
    """For servers that ask for a certificate; None: DRIFTQ_CLIENT_CERT."""
    client_key: str | None = None
    """None: DRIFTQ_CLIENT_KEY, else it is in the file of the certificate."""
