"""`driftq schedule`: list, add, remove, pause, resume and run schedules."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Json, Url, examples, say, say_json, show_or, table
from driftq.settings import load_url

app = typer.Typer(
    help="List, add, remove, pause, resume and run schedules.", no_args_is_help=True, rich_markup_mode=None
)

MissedFires = Literal["skip", "last", "all"]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
_NUMBERS = frozenset({"fired"})


@app.command("list", epilog=examples("driftq schedule list"))
def list_schedules(url: Url = None, as_json: Json = False) -> None:
    """List schedules with their latest and next fire times."""
    schedules: list[dict[str, Any]] = []
    after: str | None = None
    with Connection(load_url(url)) as connection:
        while True:
            page = connection.get("/v1/schedules", {"after": after})
            schedules += page["schedules"]
            after = page.get("after")
            if after is None:
                break
    if as_json:
        say_json({"schedules": schedules})
        return
    shown = table(
        "schedules", "name", "cron", "zone", "queue", "task", "next", "last", "fired", right=_NUMBERS
    )
    for one in schedules:
        upcoming = "paused" if one["paused"] else one["next_at"] or ""
        shown.add_row(
            one["name"],
            one["cron"],
            one["timezone"],
            one["queue"],
            one["task"],
            upcoming,
            one["last_at"] or "",
            str(one["fired"]),
        )
    show_or(shown, "no schedules")


@app.command(
    epilog=examples(
        """driftq schedule add nightly "30 2 * * *" reports build --timezone Europe/Berlin""",
        """driftq schedule add poll "*/5 * * * *" feeds poll '{"limit": 10}' --missed last""",
    )
)
def add(
    name: Name,
    cron: Annotated[
        str, typer.Argument(metavar="CRON", help="Five fields, or six with the second first; in quotes.")
    ],
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue of its jobs.")],
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task of its jobs.")],
    payload: Annotated[str, typer.Argument(metavar="[JSON]", help="The argument of the task.")] = "null",
    timezone: Annotated[
        str, typer.Option("--timezone", help="The zone of the cron expression, such as Europe/Berlin.")
    ] = "UTC",
    missed: Annotated[
        MissedFires,
        typer.Option("--missed", help="What happens to fires that were missed while the server was away."),
    ] = "skip",
    priority: Annotated[
        int | None, typer.Option("--priority", help="0 to 9, larger runs first (default 5).")
    ] = None,
    max_retries: Annotated[
        int | None, typer.Option("--max-retries", help="Retries after the first attempt.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a schedule of this name.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Add a schedule: the server enqueues its job at each time of the cron expression."""
    try:
        value = json.loads(payload)
    except ValueError as error:
        raise typer.BadParameter(f"the payload is not JSON: {error}") from None
    body: dict[str, Any] = {
        "name": name,
        "cron": cron,
        "timezone": timezone,
        "queue": queue,
        "task": task,
        "payload": value,
        "missed": missed,
        "priority": priority,
        "max_retries": max_retries,
    }
    with Connection(load_url(url)) as connection:
        answer = connection.put(_path(name), body) if replace else connection.post("/v1/schedules", body)
    if as_json:
        say_json(answer)
    else:
        say(f"{name} fires next at {answer['next_at']}")


@app.command(epilog=examples("driftq schedule pause nightly"))
def pause(name: Name, url: Url = None, as_json: Json = False) -> None:
    """Pause a schedule. What it would have fired meanwhile is not made up for."""
    answer = _post(name, "pause", url)
    if as_json:
        say_json(answer)
    else:
        say(f"{name} is paused")


@app.command(epilog=examples("driftq schedule resume nightly"))
def resume(name: Name, url: Url = None, as_json: Json = False) -> None:
    """Resume a paused schedule with its next fire time."""
    answer = _post(name, "resume", url)
    if as_json:
        say_json(answer)
    else:
        say(f"{name} fires next at {answer['next_at']}")


@app.command("run-now", epilog=examples("driftq schedule run-now nightly"))
def run_now(name: Name, url: Url = None, as_json: Json = False) -> None:
    """Enqueue the job of a schedule now, besides its fires."""
    answer = _post(name, "run", url)
    if as_json:
        say_json(answer)
    else:
        say(f"{answer['job_id']} is {answer['state']}")


@app.command(epilog=examples("driftq schedule remove nightly"))
def remove(name: Name, url: Url = None, as_json: Json = False) -> None:
    """Remove a schedule. Its jobs stay."""
    with Connection(load_url(url)) as connection:
        answer = connection.delete(_path(name))
    if as_json:
        say_json(answer)
    else:
        say(f"{name} is removed")


def _post(name: str, verb: str, url: str | None) -> Any:
    with Connection(load_url(url)) as connection:
        return connection.post(f"{_path(name)}/{verb}", None)


def _path(name: str) -> str:
    return f"/v1/schedules/{quote(name, safe='')}"
