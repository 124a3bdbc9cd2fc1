"""How much the edge takes from one client and from all of them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Limits and facts of one server."""

    version: str = "dev"
    commit: str = "unknown"
    instance: str = ""
    """A name for this start of the server, which stands in its folder too; empty when there is none."""
    body_bytes_max: int = 16 << 20
    head_bytes_max: int = 32 << 10
    """All headers of one request together."""
    url_bytes_max: int = 16 << 10
    connections_max: int = 1_024
    outstanding_max: int = 128
    """Requests of one connection that wait for their answers; beyond, it is not read from."""
    batch_max: int = 100_000
    """Messages or acks in one request."""
    head_s: int = 10
    """The head of a request comes whole within so long."""
    body_window_s: int = 10
    body_bytes_per_s_min: int = 1 << 10
    """So much of a body comes, over any window of the length above."""
    keep_alive_s: int = 90
    """A connection without a request is let go after this."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that this server is asked under, beside the one it is bound to and localhost."""
    write_high_bytes: int = 256 << 10
    write_low_bytes: int = 64 << 10
    in_process: bool = False
    """Those who ask are part of this process: they may say what clients may not."""
    prefetch: int = 100
    prefetch_bytes: int = 1 << 20
