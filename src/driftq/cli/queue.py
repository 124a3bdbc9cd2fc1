"""`driftq queue`: list, limit, pause and resume the queues of jobs."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Json, Url, examples, say, say_json, show_or, table
from driftq.settings import load_url

app = typer.Typer(
    help="List, limit, pause and resume queues of jobs.", no_args_is_help=True, rich_markup_mode=None
)

_NUMBERS = frozenset({"ready", "scheduled", "blocked", "in flight", "dead", "oldest, s"})
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]


@app.command("list", epilog=examples("driftq queue list"))
def list_queues(url: Url = None, as_json: Json = False) -> None:
    """List queues with their jobs, limits and pauses."""
    queues: list[dict[str, Any]] = []
    after: str | None = None
    with Connection(load_url(url)) as connection:
        while True:
            page = connection.get("/v1/queues", {"after": after})
            queues += page["queues"]
            after = page.get("after")
            if after is None:
                break
    if as_json:
        say_json({"queues": queues})
        return
    shown = table(
        "queues",
        "queue",
        "ready",
        "scheduled",
        "blocked",
        "in flight",
        "dead",
        "oldest, s",
        "flow",
        right=_NUMBERS,
    )
    for queue in queues:
        age = queue["oldest_age_ms"]
        counts = [str(queue[name]) for name in ("ready", "scheduled", "blocked", "in_flight", "dead")]
        flow = ", ".join((["paused"] if queue["paused"] else []) + _limits(queue["limits"]))
        shown.add_row(queue["queue"], *counts, "" if age is None else str(age // 1000), flow)
    show_or(shown, "no queues")


def _limits(limits: dict[str, Any]) -> list[str]:
    """The limits in words."""
    words = _words(limits)
    return words + [f"{word} per key" for word in _words(limits.get("per_key") or {})]


def _words(limits: dict[str, Any]) -> list[str]:
    words = []
    if limits.get("concurrency") is not None:
        words.append(f"{limits['concurrency']} at once")
    if limits.get("rate") is not None:
        words.append(f"{limits['rate']['count']} in {limits['rate']['per_ms']} ms")
    return words


@app.command(
    epilog=examples(
        "driftq queue limits mail --concurrency 10",
        "driftq queue limits mail --rate 100/60 --key-concurrency 2",
        "driftq queue limits mail --none",
    )
)
def limits(
    queue: Queue,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, help="How many jobs of the queue may run at once.")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate", metavar="COUNT/SECONDS", help="How many jobs of the queue may start in a time."
        ),
    ] = None,
    key_concurrency: Annotated[
        int | None, typer.Option("--key-concurrency", min=1, help="The same for each limit key.")
    ] = None,
    key_rate: Annotated[
        str | None, typer.Option("--key-rate", metavar="COUNT/SECONDS", help="The same for each limit key.")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Remove all limits.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Set the limits of a queue, in place of all earlier ones."""
    whole = {"concurrency": concurrency, "rate": _rate("--rate", rate)}
    per_key = {"concurrency": key_concurrency, "rate": _rate("--key-rate", key_rate)}
    given = {name: value for name, value in whole.items() if value is not None}
    keyed = {name: value for name, value in per_key.items() if value is not None}
    body: dict[str, Any] = given | ({"per_key": keyed} if keyed else {})
    if bool(body) is none:
        raise typer.BadParameter("give at least one limit, or --none to remove all")
    with Connection(load_url(url)) as connection:
        answer = connection.put(f"{_path(queue)}/limits", body)
    if as_json:
        say_json(answer)
    else:
        say(f"queue {queue}: {', '.join(_limits(answer['limits'])) or 'no limits'}")


def _rate(option: str, text: str | None) -> dict[str, int] | None:
    if text is None:
        return None
    count, _, seconds = text.partition("/")
    try:
        return {"count": int(count), "per_ms": round(float(seconds or 1) * 1000)}
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{option} must be COUNT/SECONDS, such as 100/60") from None


@app.command(epilog=examples("driftq queue pause mail"))
def pause(queue: Queue, url: Url = None, as_json: Json = False) -> None:
    """Pause a queue: it accepts jobs, and no worker gets one."""
    _switch(queue, "pause", "is paused", url=url, as_json=as_json)


@app.command(epilog=examples("driftq queue resume mail"))
def resume(queue: Queue, url: Url = None, as_json: Json = False) -> None:
    """Resume a paused queue."""
    _switch(queue, "resume", "is not paused", url=url, as_json=as_json)


def _switch(queue: str, verb: str, outcome: str, *, url: str | None, as_json: bool) -> None:
    with Connection(load_url(url)) as connection:
        answer = connection.post(f"{_path(queue)}/{verb}", None)
    if as_json:
        say_json(answer)
    else:
        say(f"queue {queue} {outcome}")


def _path(queue: str) -> str:
    return f"/v1/queues/{quote(queue, safe='')}"
