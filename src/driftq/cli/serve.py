"""`driftq serve`: run a server in the foreground. Each flag has an environment variable; the flag wins."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from driftq.cli.config import ProfileOption
from driftq.cli.loglines import LogFormat, LogLevel
from driftq.cli.screen import examples, say_error
from driftq.settings import PROFILES, ServeSettings, load_settings

SERVE_EXAMPLES = examples(
    "driftq serve",
    "driftq serve --port 9000 --data ./driftq-data",
    "driftq serve --log-level warning --log-format json",
    "driftq serve --host 0.0.0.0 --api-keys keys.json --tls-cert server.pem --tls-key server.key",
)

FsyncName = Literal["always", "interval", "off"]
_File = str | None


def serve(
    host: Annotated[
        str | None,
        typer.Option("--host", help="The address to listen on (else DRIFTQ_HOST, else 127.0.0.1)."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            help="The port to listen on, 0 for a free one (else DRIFTQ_PORT, else 8080).",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DIR", help="The folder (else DRIFTQ_DATA, else ./driftq-data)."),
    ] = None,
    profile: ProfileOption = None,
    no_wal: Annotated[
        bool | None, typer.Option("--no-wal", help="Keep everything in memory; write nothing to disk.")
    ] = None,
    fsync: Annotated[
        FsyncName | None,
        typer.Option(
            "--fsync",
            help="Sync before every response, every 50 ms, or never (else DRIFTQ_FSYNC, else always).",
        ),
    ] = None,
    router: Annotated[
        str | None,
        typer.Option("--router", metavar="MODULE:ATTR", help="A callable that routes each produced message."),
    ] = None,
    router_rules: Annotated[
        _File, typer.Option("--router-rules", metavar="FILE", help="Routing rules, in TOML or JSON.")
    ] = None,
    router_url: Annotated[
        str | None,
        typer.Option("--router-url", metavar="URL", help="A webhook that routes each produced message."),
    ] = None,
    router_topics: Annotated[
        list[str] | None,
        typer.Option(
            "--router-topic", metavar="TOPIC", help="Call the webhook for this topic only; repeat for more."
        ),
    ] = None,
    router_timeout_ms: Annotated[
        int | None,
        typer.Option(
            "--router-timeout-ms",
            min=1,
            help="After this time the message is stored unrouted (else DRIFTQ_ROUTER_TIMEOUT_MS, else 1000).",
        ),
    ] = None,
    api_keys: Annotated[
        _File,
        typer.Option(
            "--api-keys",
            metavar="KEYS",
            help="The keys file; requests then need a key (else DRIFTQ_API_KEYS_FILE).",
        ),
    ] = None,
    tls_cert: Annotated[
        _File,
        typer.Option("--tls-cert", metavar="FILE", help="The certificate; the server then speaks HTTPS."),
    ] = None,
    tls_key: Annotated[
        _File, typer.Option("--tls-key", metavar="FILE", help="Its private key, if it is in another file.")
    ] = None,
    tls_client_ca: Annotated[
        _File,
        typer.Option(
            "--tls-client-ca", metavar="FILE", help="Clients need a certificate that one of these has signed."
        ),
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option("--insecure", help="Accept connections from other machines without authentication."),
    ] = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Run a server until SIGTERM or Ctrl-C. Every flag has an environment variable: DRIFTQ_ and its name."""
    settings = load_settings(PROFILES[profile] if profile else None)
    flags: dict[str, Any] = {
        "host": host,
        "data": data,
        "port": port,
        "no_wal": no_wal,
        "fsync": fsync,
        "router": router,
        "router_rules": router_rules,
        "router_url": router_url,
        "router_topics": tuple(router_topics) if router_topics else None,
        "router_timeout_ms": router_timeout_ms,
        "api_keys_file": api_keys,
        "insecure": insecure,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
        "log_level": log_level,
        "log_format": log_format,
    }
    serving = replace(settings.serving, **{name: value for name, value in flags.items() if value is not None})
    if problem := _refusal(serving):
        say_error(problem)
        raise typer.Exit(1)
    # Everything that a server needs and a client command does not is imported here.
    from driftq.cli.serving import run_server

    raise typer.Exit(run_server(serving, settings))


def _refusal(serving: ServeSettings) -> str | None:
    """Why a server with these options must not start."""
    if serving.api_keys_file is None and not serving.insecure and not is_loopback(serving.host):
        return (
            f"{serving.host} can be reached from other machines, and this server has no keys file: create "
            "one with `driftq key create` and pass it with --api-keys, or use --host 127.0.0.1, or "
            "--insecure if every machine there may read and write everything"
        )
    return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address; a name must resolve to no other one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None)
    except OSError:
        return True  # The name does not resolve: listening will fail with that error.
    return all(ipaddress.ip_address(str(address[4][0]).split("%")[0]).is_loopback for address in found)
