"""`driftq serve`: run a server in the foreground."""

from __future__ import annotations

import ipaddress
import socket
from typing import Annotated, Literal

import typer

from driftq.cli.config import ProfileOption
from driftq.cli.screen import examples, say_error
from driftq.settings import PROFILES, load_settings

SERVE_EXAMPLES = examples("driftq serve", "driftq serve --port 9000 --data ./driftq-data")

FsyncName = Literal["always", "interval", "off"]


def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 8080,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DIR", help="The folder (else DRIFTQ_DATA, else ./driftq-data)."),
    ] = None,
    profile: ProfileOption = "default",
    no_wal: Annotated[
        bool, typer.Option("--no-wal", help="Keep everything in memory; write nothing to disk.")
    ] = False,
    fsync: Annotated[
        FsyncName,
        typer.Option("--fsync", help="Sync before every response, every 50 ms, or never explicitly."),
    ] = "always",
    router: Annotated[
        str | None,
        typer.Option("--router", metavar="MODULE:ATTR", help="A callable that routes each produced message."),
    ] = None,
    router_rules: Annotated[
        str | None, typer.Option("--router-rules", metavar="FILE", help="Routing rules, in TOML or JSON.")
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
        int,
        typer.Option("--router-timeout-ms", min=1, help="After this time the message is stored unrouted."),
    ] = 1000,
    api_keys: Annotated[
        str | None,
        typer.Option(
            "--api-keys",
            metavar="KEYS",
            help="The keys file; requests then need a key (else DRIFTQ_API_KEYS_FILE).",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Accept connections from other machines without authentication."),
    ] = False,
) -> None:
    """Run a server until SIGTERM or Ctrl-C."""
    settings = load_settings(PROFILES[profile])
    keys_file = api_keys or settings.api_keys_file
    if keys_file is None and not insecure and not is_loopback(host):
        say_error(
            f"{host} can be reached from other machines, and this server has no keys file: create one with "
            "`driftq key create` and pass it with --api-keys, or use --host 127.0.0.1, or --insecure if "
            "every machine there may read and write everything"
        )
        raise typer.Exit(1)
    # Everything that a server needs and a client command does not is imported here.
    from driftq.cli.serving import Serving, run_server

    serving = Serving(
        host=host,
        port=port,
        data=data or settings.data,
        keys_file=keys_file,
        wal=not no_wal,
        fsync=fsync,
        router=router,
        router_rules=router_rules,
        router_url=router_url,
        router_topics=router_topics or [],
        router_timeout_ms=router_timeout_ms,
    )
    raise typer.Exit(run_server(serving, settings))


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
