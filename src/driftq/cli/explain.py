"""`driftq explain`: what happened to a message, or how far a run is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Json, Url, examples, say, say_json, show, table
from driftq.settings import load_url

EXPLAIN_EXAMPLES = examples("driftq explain orders/0", "driftq explain --run nightly-7")

Place = Annotated[str | None, typer.Argument(metavar="TOPIC/OFFSET", help="The message.")]
Run = Annotated[str | None, typer.Option("--run", metavar="RUN_ID", help="A run instead of a message.")]


def explain(place: Place = None, run: Run = None, url: Url = None, as_json: Json = False) -> None:
    """Show what happened to a message or a run. A run is shown as a tree of steps."""
    if (place is None) == (run is None):
        raise typer.BadParameter("give either TOPIC/OFFSET or --run RUN_ID")
    if run is not None:
        path = f"/v1/runs/{quote(run, safe='')}"
    else:
        topic, slash, offset = (place or "").rpartition("/")
        if not slash or not topic or not offset.isdecimal():
            raise typer.BadParameter(f"{place} is not a TOPIC/OFFSET like orders/17")
        path = f"/v1/messages/{quote(topic, safe='')}/{int(offset)}"
    with Connection(load_url(url)) as connection:
        answer = connection.get(path)
    if as_json:
        say_json(answer)
    elif run is not None:
        _show_run(answer)
    else:
        _show_message(answer)


def _show_message(view: Mapping[str, Any]) -> None:
    say(f"{view['topic']}/{view['offset']}  partition {view['partition']}  key {view['key'] or '-'}")
    for name, value in view.get("envelope", {}).items():
        say(f"  {name}: {value}")
    if "routing" in view:
        say(f"  routed: {view['routing'].get('label') or '-'} {view['routing'].get('meta') or ''}".rstrip())
    if "requested_topic" in view:
        say(f"  produced to {view['requested_topic']}")
    say(f"  value: {view['value'][:200]}{'…' if len(view['value']) > 200 else ''}")
    history = table("history", "at", "what", "group", "attempt", "details", right=frozenset({"attempt"}))
    for one in view["history"]:
        number = str(one["attempt"]) if "attempt" in one else ""
        history.add_row(one["at"], one["what"], one.get("group", ""), number, _details(one))
    groups = table("groups", "group", "state", "attempts", "last error", right=frozenset({"attempts"}))
    for one in view["groups"]:
        groups.add_row(one["group"], _words(one["state"]), str(one["attempts"]), one["last_error"])
    show(*((history, groups) if view["groups"] else (history,)))


def _details(one: Mapping[str, Any]) -> str:
    letter = f"{one['dlq_topic']}/{one['dlq_offset']}" if "dlq_offset" in one else ""
    match one["what"]:
        case "stored":
            return f"sent again from {letter}" if letter else ""
        case "delivered":
            return f"to {one['owner']}, lease until {one['lease_until']}"
        case "dead":
            return f"{one['reason']}: {one.get('last_error', '')} → {letter}"
        case "redriven":
            return f"as offset {one['new_offset']}{' by ' + one['by'] if 'by' in one else ''}"
        case _:
            return str(one.get("reason", ""))


def _show_run(view: Mapping[str, Any]) -> None:
    steps = table(
        f"run {view['run_id']}: {_words(view['state'])}",
        *("step", "state", "attempts", "last error", "messages"),
        right=frozenset({"attempts"}),
    )
    for one in view["steps"]:
        places = ", ".join(f"{message['topic']}/{message['offset']}" for message in one["messages"])
        name = f"{'  ' * one['depth']}{one['step_id'] or '-'}"
        steps.add_row(name, _words(one["state"]), str(one["attempts"]), one["last_error"], places)
    show(steps)


def _words(state: str) -> str:
    return state.replace("_", " ")
