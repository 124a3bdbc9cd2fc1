"""`driftq explain`: the history of a message, or the state of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Json, Url, examples, say, say_json, show, table
from driftq.settings import load_url

EXPLAIN_EXAMPLES = examples("driftq explain orders/0", "driftq explain run nightly-7")

_RESULT_CHARACTERS = 80

MessageName = Annotated[
    str | None,
    typer.Argument(metavar="TOPIC/OFFSET", help="The message to explain; `run` for a run, whose id follows."),
]
RunName = Annotated[str | None, typer.Argument(metavar="RUN_ID", help="The run to explain, after `run`.")]
Run = Annotated[
    str | None, typer.Option("--run", metavar="RUN_ID", help="Explain a run instead of a message.")
]


def explain(
    message: MessageName = None,
    run_id: RunName = None,
    run: Run = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show the history of a message, or a run as a tree of steps."""
    if message == "run" and run is None:
        message, run = None, run_id
    elif run_id is not None:
        raise typer.BadParameter("give either TOPIC/OFFSET or run RUN_ID")
    if (message is None) == (run is None):
        raise typer.BadParameter("give either TOPIC/OFFSET or run RUN_ID")
    if run is not None:
        path = f"/v1/runs/{quote(run, safe='')}"
    else:
        topic, slash, offset = (message or "").rpartition("/")
        if not slash or not topic or not offset.isdecimal():
            raise typer.BadParameter(f"{message} is not a TOPIC/OFFSET like orders/17")
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
    for entry in view["history"]:
        number = str(entry["attempt"]) if "attempt" in entry else ""
        history.add_row(entry["at"], entry["what"], entry.get("group", ""), number, _details(entry))
    groups = table("groups", "group", "state", "attempts", "last error", right=frozenset({"attempts"}))
    for entry in view["groups"]:
        groups.add_row(entry["group"], _words(entry["state"]), str(entry["attempts"]), entry["last_error"])
    show(*((history, groups) if view["groups"] else (history,)))


def _details(entry: Mapping[str, Any]) -> str:
    dead_letter = f"{entry['dlq_topic']}/{entry['dlq_offset']}" if "dlq_offset" in entry else ""
    match entry["what"]:
        case "stored":
            until = f"waits until {entry['waits_until']}" if "waits_until" in entry else ""
            return f"redriven from {dead_letter}" if dead_letter else until
        case "delivered":
            return f"to {entry['owner']}, lease until {entry['lease_until']}"
        case "dead":
            return f"{entry['reason']}: {entry.get('last_error', '')} → {dead_letter}"
        case "redriven":
            return f"as offset {entry['new_offset']}{' by ' + entry['by'] if 'by' in entry else ''}"
        case _:
            return str(entry.get("reason", ""))


def _show_run(view: Mapping[str, Any]) -> None:
    steps = table(
        f"run {view['run_id']}: {_words(view['state'])}",
        *("step", "state", "attempts", "last error", "messages", "result"),
        right=frozenset({"attempts"}),
    )
    for entry in view["steps"]:
        places = ", ".join(f"{message['topic']}/{message['offset']}" for message in entry["messages"])
        name = f"{'  ' * entry['depth']}{entry['step_id'] or '-'}"
        results = ", ".join(
            json.dumps(effect["result"], ensure_ascii=False)[:_RESULT_CHARACTERS]
            for effect in entry.get("effects", [])
            if effect.get("result") is not None
        )
        state, number = _words(entry["state"]), str(entry["attempts"])
        steps.add_row(name, state, number, entry["last_error"], places, results)
    show(steps)


def _words(state: str) -> str:
    return state.replace("_", " ")
