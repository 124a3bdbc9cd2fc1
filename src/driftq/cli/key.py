"""`driftq key`: create, list and revoke API keys in a keys file. A running server notices changes."""

import os
from datetime import UTC, datetime
from typing import Annotated

import typer

from driftq.access.file import NAME, PATTERN, change_keys, read_keys
from driftq.access.keys import ApiKey, Role, new_key
from driftq.cli.screen import Json, examples, say, say_aside, say_error, say_json, show_or, table
from driftq.settings import load_keys_file

app = typer.Typer(
    help="Create, list and revoke API keys in a keys file.", no_args_is_help=True, rich_markup_mode=None
)

File = Annotated[
    str | None,
    typer.Option("--file", metavar="KEYS", help="The keys file (else DRIFTQ_API_KEYS_FILE)."),
]


@app.command(
    epilog=examples(
        "driftq key create billing --file keys.json --role consume --topic 'orders*'",
        "driftq key create ops --file keys.json --role admin",
        "driftq key create acme --file keys.json --role admin --tenant acme",
    )
)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who uses the key; shown in logs and errors.")],
    roles: Annotated[list[Role], typer.Option("--role", help="What the key may do; repeat for more.")],
    file: File = None,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="PATTERN",
            help="A topic that it may use, with * for any text; repeat.",
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="T", help="Its tenant: it reaches only what that owns."),
    ] = None,
    requests_per_s: Annotated[
        int | None,
        typer.Option("--requests-per-s", min=1, metavar="N", help="Requests per second."),
    ] = None,
    bytes_per_s: Annotated[
        int | None,
        typer.Option("--bytes-per-s", min=1, metavar="N", help="Bytes of bodies per second."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a key, and print it: it is stored nowhere else."""
    if not NAME.fullmatch(name):
        raise typer.BadParameter("NAME is 1 to 100 characters of A-Z a-z 0-9 . _ @ -")
    for pattern in topics or []:
        if not PATTERN.fullmatch(pattern):
            raise typer.BadParameter(f"--topic {pattern}: give a topic's name, with * for any characters")
    if tenant is not None and not NAME.fullmatch(tenant):
        raise typer.BadParameter("--tenant is 1 to 100 characters of A-Z a-z 0-9 . _ @ -")
    entry, text = new_key(
        name,
        roles=roles,
        topics=topics or [],
        tenant=tenant,
        requests_per_s=requests_per_s,
        bytes_per_s=bytes_per_s,
        created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )

    def add(keys: list[ApiKey]) -> list[ApiKey]:
        if any(key.name == name for key in keys):
            say_error(f"there is a key {name!r} already; revoke it first, or choose another name")
            raise typer.Exit(1)
        return [*keys, entry]

    change_keys(_path(file), add)
    if as_json:
        say_json({"id": entry.id, "name": name, "key": text})
    else:
        say(text)
        say_aside("this key is shown once: store it now, as DRIFTQ_API_KEY where it is used")


@app.command("list", epilog=examples("driftq key list --file keys.json"))
def list_keys(file: File = None, as_json: Json = False) -> None:
    """List the keys with their roles, never their secrets."""
    keys = read_keys(_path(file))
    if as_json:
        say_json({"keys": [_listed(key) for key in keys]})
        return
    shown = table("keys", "name", "id", "roles", "topics", "tenant", "requests/s", "bytes/s", "created")
    for key in keys:
        rates = ("" if rate is None else str(rate) for rate in (key.requests_per_s, key.bytes_per_s))
        roles, topics = ", ".join(_roles(key)), ", ".join(key.topics) or "all"
        shown.add_row(key.name, key.id, roles, topics, key.tenant or "", *rates, key.created_at)
    show_or(shown, "there are no keys")


@app.command(epilog=examples("driftq key revoke billing --file keys.json"))
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The key's name, or its id.")], file: File = None
) -> None:
    """Remove a key. Servers refuse it within a second, and close its streams."""
    path = _path(file)
    read_keys(path)  # A missing file is an error here, not an empty one.

    def remove(keys: list[ApiKey]) -> list[ApiKey]:
        kept = [key for key in keys if name not in (key.name, key.id)]
        if len(kept) == len(keys):
            say_error(f"there is no key {name!r} in {path}")
            raise typer.Exit(1)
        return kept

    change_keys(path, remove)
    say(f"key {name} is revoked")


def _path(given: str | None) -> str:
    path = load_keys_file(given)
    if path is None:
        say_error("name the keys file with --file or DRIFTQ_API_KEYS_FILE")
        raise typer.Exit(1)
    return os.path.expanduser(path)


def _roles(key: ApiKey) -> list[str]:
    return [role for role in Role if role in key.roles]


def _listed(key: ApiKey) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "roles": _roles(key),
        "topics": list(key.topics),
        "tenant": key.tenant,
        "requests_per_s": key.requests_per_s,
        "bytes_per_s": key.bytes_per_s,
        "created_at": key.created_at,
    }
