"""How a client proves who it is, and which servers it trusts."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """An API key, and the files of TLS. On Spark's workers the files need the same paths."""

    api_key: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    """The certificates that a server's must be signed by; None: those that the system trusts."""
    client_cert: str | None = None
    """For servers that ask for a certificate."""
    client_key: str | None = None
    """None: it is in the file of the certificate."""


NO_CREDENTIALS = Credentials()
