"""Starting a server from its settings, and the errors when it cannot start."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
import uuid

import uvloop

import driftq
from driftq.access.file import read_keys
from driftq.cli.loglines import log_to_stderr
from driftq.cli.router import RouterNotUsable, find_router
from driftq.cli.screen import say, say_error
from driftq.cli.serve import is_loopback
from driftq.errors import CertificateUnusable, KeysFileUnusable, LogError, Unavailable
from driftq.eventstore.opening import open_events
from driftq.housekeeping.process import NewHousekeeper
from driftq.http.wire.edge import HttpOptions
from driftq.http.wire.server import HttpServer, run
from driftq.http.wire.tls import TlsFiles, new_context
from driftq.log.disk import OsFolder
from driftq.log.files import Folder
from driftq.log.memory import MemoryFolder
from driftq.server.broker import BrokerOptions
from driftq.server.io_threads import Fsync
from driftq.server.maintenance.stage import MaintenanceOptions
from driftq.settings import ServeSettings, Settings
from driftq.storage.address import remove_address, write_address
from driftq.storage.identity import folder_identity

logger = logging.getLogger("driftq.cli")

_NO_ADDRESS = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


def run_server(serving: ServeSettings, settings: Settings) -> int:
    """Serve until a signal, and return the exit code. A failed start prints one line."""
    log_to_stderr(serving.log_level, serving.log_format)
    try:
        router = find_router(
            name=serving.router,
            rules=serving.router_rules,
            url=serving.router_url,
            topics=list(serving.router_topics),
            timeout_ms=serving.router_timeout_ms,
            ca_file=settings.credentials.ca_file,
        )
    except RouterNotUsable as problem:
        return _refused(str(problem))
    try:
        _require_address(serving.host, serving.port)
    except OSError as error:
        return _refused(_what_failed(error, serving))
    events = (
        settings.events.within(os.path.abspath(serving.data))
        if not serving.no_wal
        else settings.events.in_memory()
    )
    if events.database_url is not None:
        try:
            open_events(events).close()  # A configured database must be reachable: fail now, not later.
        except Unavailable as problem:
            return _refused(str(problem))
    if serving.tls_cert is None and (serving.tls_key or serving.tls_client_ca):
        return _refused(
            "--tls-key and --tls-client-ca need --tls-cert: the server has no certificate to show"
        )
    try:  # Before a file is created; the server reads them again itself.
        if serving.api_keys_file is not None:
            read_keys(serving.api_keys_file)
        if serving.tls_cert is not None:
            new_context(TlsFiles(cert=serving.tls_cert, key=serving.tls_key, client_ca=serving.tls_client_ca))
    except (KeysFileUnusable, CertificateUnusable) as problem:
        return _refused(str(problem))
    announced: list[HttpServer] = []

    def ready(server: HttpServer) -> None:
        announced.append(server)
        _ready(server, serving, http.instance)

    try:
        folder: Folder = OsFolder(serving.log_folder) if not serving.no_wal else MemoryFolder()
    except OSError as error:
        return _refused(f"the folder {serving.log_folder} cannot be used: {_words(error)}")
    options = BrokerOptions(
        limits=settings.limits,
        jobs=settings.jobs,
        fsync=Fsync(serving.fsync),
        durable=not serving.no_wal,
        new_housekeeper=_housekeeper_thread() if serving.no_wal else None,
        router=router,
        router_timeout_ms=serving.router_timeout_ms,
        segment_bytes=settings.segment_bytes,
        tables=os.path.join(serving.data, "tables"),
        history=os.path.join(serving.data, "history.db"),
        events=events,
        pipelines=None if serving.no_wal else os.path.join(serving.data, "pipelines.json"),
        maintenance=MaintenanceOptions(free_bytes_min=settings.free_bytes_min),
    )
    http = HttpOptions(
        version=driftq.__version__,
        commit=settings.commit,
        instance=uuid.uuid4().hex,
        cluster_id=folder_identity(serving.data) if not serving.no_wal else uuid.uuid4().hex,
        allowed_hosts=settings.allowed_hosts,
        keys_file=serving.api_keys_file,
        audit_file=None if serving.no_wal else os.path.join(serving.data, "audit.log"),
        tls_cert=serving.tls_cert,
        tls_key=serving.tls_key,
        tls_client_ca=serving.tls_client_ca,
    )
    work = run(
        options,
        folder,
        serving.host,
        serving.port,
        http,
        ready=ready,
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    except (LogError, KeysFileUnusable, CertificateUnusable) as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(_what_failed(error, serving))
    except KeyboardInterrupt:
        return 130  # Before the server was ready; afterwards Ctrl-C is an orderly shutdown.
    finally:
        if (
            not serving.no_wal and announced
        ):  # A server that failed to start leaves the address of the running one.
            remove_address(serving.data)  # Before the folder is unlocked: the next server writes its own.
        folder.close()


def _require_address(host: str, port: int) -> None:
    """Raise OSError when the address cannot be used, before a file is created.

    Another program may still take the address before the server listens; then the folder exists.
    """
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            tried.bind(address)


def _housekeeper_thread() -> NewHousekeeper:
    """Loaded only without a WAL: with one, a process of its own does the rounds."""
    from driftq.housekeeping.in_memory import HousekeeperThread

    return HousekeeperThread


def _ready(server: HttpServer, serving: ServeSettings, instance: str) -> None:
    kept = (
        f"log in {serving.log_folder}, fsync {serving.fsync}"
        if not serving.no_wal
        else "in memory, nothing is kept"
    )
    if serving.api_keys_file is not None and serving.tls_cert is None and not is_loopback(serving.host):
        logger.warning(
            "keys and messages cross the network in plain text: use --tls-cert, or a proxy with TLS"
        )
    say(f"DriftQ {driftq.__version__} listens on {server.address} ({kept})")
    sys.stdout.flush()
    if not serving.no_wal:
        write_address(serving.data, server.address, instance=instance)


def _refused(text: str) -> int:
    say_error(text)
    return 1


def _what_failed(error: OSError, serving: ServeSettings) -> str:
    place = f"{serving.host} port {serving.port}"
    if error.errno == errno.EADDRINUSE:
        return f"{place} is in use by another program; choose another with --port, or 0 for a free one"
    if isinstance(error, socket.gaierror) or error.errno in _NO_ADDRESS:
        return f"cannot listen on {place}: {_words(error)}"
    if error.errno == errno.EACCES and error.filename is None and 0 < serving.port < 1024:
        return f"cannot listen on {place}: ports below 1024 need special rights"
    return f"the log in {serving.log_folder} cannot be used: {_words(error)}"


def _words(error: OSError) -> str:
    words = (error.strerror or str(error)).lower()
    if isinstance(error, FileExistsError | NotADirectoryError):
        words = "a file is in its place"
    return f"{words} ({error.filename})" if error.filename else words
