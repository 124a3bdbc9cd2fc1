"""The options of `driftq serve`, by flag, by environment, or by default."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """How a server is started."""

    host: str
    port: int
    data: str
    no_wal: bool
    fsync: str
    router: str | None
    router_rules: str | None
    router_url: str | None
    router_topics: tuple[str, ...]
    router_timeout_ms: int
    api_keys_file: str | None
    insecure: bool
    tls_cert: str | None
    tls_key: str | None
    tls_client_ca: str | None
    log_level: str
    log_format: str

    @property
    def log_folder(self) -> str:
        return f"{self.data}/log"
