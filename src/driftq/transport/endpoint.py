"""A server's address and how to reach it: the argument of both HTTP clients."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from driftq.errors import CertificateUnusable, InvalidArgument
from driftq.model.options.credentials import NO_CREDENTIALS, Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of a server, the time that it has to respond, and the caller's credentials."""

    url: str
    host: str
    port: int
    tls: bool
    prefix: str
    """The part of every path before `/v1`."""
    timeout_s: float | None
    """For one socket operation of the blocking client; None waits without limit."""
    credentials: Credentials

    @classmethod
    def of(
        cls, url: str, *, timeout_s: float | None = None, credentials: Credentials = NO_CREDENTIALS
    ) -> Self:
        """The endpoint at an address like `http://127.0.0.1:8080`; raises InvalidArgument."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidArgument("url", f"{url!r} is not an address") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InvalidArgument("url", f"{url!r} is not an address like http://127.0.0.1:8080")
        tls = parts.scheme == "https"
        return cls(
            url=url.rstrip("/"),
            host=parts.hostname,
            port=port or (443 if tls else 80),
            tls=tls,
            prefix=parts.path.rstrip("/"),
            timeout_s=timeout_s,
            credentials=credentials,
        )

    @property
    def host_header(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.tls else 80) else f"{name}:{self.port}"

    def ssl_context(self) -> ssl.SSLContext | None:
        """How the server's certificate is verified; None for plain HTTP. Raises CertificateUnusable."""
        if not self.tls:
            return None
        files = self.credentials
        try:
            context = ssl.create_default_context(cafile=files.ca_file)
        except OSError as error:
            raise CertificateUnusable(str(files.ca_file), tls_problem(error)) from None
        if files.client_cert is not None:
            try:
                context.load_cert_chain(files.client_cert, files.client_key)
            except OSError as error:
                raise CertificateUnusable(files.client_cert, tls_problem(error)) from None
        return context


def request_headers(api_key: str | None) -> dict[str, str]:
    """The headers that every request carries."""
    return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}


def tls_problem(error: OSError) -> str:
    """Why a file of certificates or keys cannot be used."""
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "").replace("_", " ").lower()
        return reason or "it holds no certificate or key in PEM form"
    return (error.strerror or str(error)).lower()
