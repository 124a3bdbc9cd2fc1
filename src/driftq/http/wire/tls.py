"""TLS of the server: its certificate, and the certificates that clients must show; both can change meanwhile.

The listening socket keeps one context. Each handshake swaps in the newest one, so a reload concerns new
connections only, and open streams go on with the certificate that they began with.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from typing import Any

from driftq.access.file import FileState, file_state
from driftq.errors import CertificateUnusable
from driftq.transport.endpoint import tls_problem

HANDSHAKE_S = 10.0
"""A client that takes longer to agree on TLS is disconnected."""

logger = logging.getLogger("driftq.http")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Paths of PEM files."""

    cert: str
    key: str | None = None
    """None: it is in the file of the certificate."""
    client_ca: str | None = None
    """None: clients need no certificate."""

    @property
    def states(self) -> tuple[FileState | None, ...]:
        paths = (self.cert, self.key, self.client_ca)
        return tuple(file_state(path) if path is not None else None for path in paths)


class ServerTls:
    """The contexts of one server."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises CertificateUnusable."""
        self._files = files
        self._states = files.states
        self._newest = new_context(files)
        self.context = new_context(files)
        """For the listening socket."""
        self.context.sni_callback = self._swap

    def _swap(self, connection: Any, _: str | None, __: ssl.SSLContext) -> None:
        """Called in every handshake, also when the client names no server."""
        connection.context = self._newest

    def look(self) -> None:
        """Once a second: read the files again if one has changed."""
        if self._files.states != self._states:
            self.reload()

    def reload(self) -> None:
        """Use the files for new connections; files that cannot be used change nothing."""
        self._states = self._files.states
        try:
            self._newest = new_context(self._files)
        except CertificateUnusable as problem:
            logger.error("%s; new connections get the certificate from before", problem)
        else:
            logger.info("the certificate has been read again from %s", self._files.cert)


def new_context(files: TlsFiles) -> ssl.SSLContext:
    """TLS 1.2 and newer. Raises CertificateUnusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.cert, files.key, password=_no_password)
    except OSError as error:
        shown = files.cert if files.key is None else f"{files.cert} or {files.key}"
        raise CertificateUnusable(shown, tls_problem(error)) from None
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        # A resumed session would skip the check against certificates that have changed since.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        try:
            context.load_verify_locations(files.client_ca)
        except OSError as error:
            raise CertificateUnusable(files.client_ca, tls_problem(error)) from None
    return context


def _no_password() -> str:
    """A server must not ask at its terminal; an encrypted key is refused."""
    return ""
