"""`driftq job`: enqueue, list, show, cancel and requeue jobs."""

from __future__ import annotations

import datetime as dt
import json
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Json, Url, examples, say, say_json, show, show_or, table
from driftq.settings import load_url

app = typer.Typer(
    help="Enqueue, list, show, cancel and requeue jobs.", no_args_is_help=True, rich_markup_mode=None
)

_NUMBERS = frozenset({"attempts", "priority"})

StateName = Literal["ready", "scheduled", "blocked", "in_flight", "succeeded", "dead"]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, as in job-7.")]


@app.command(
    epilog=examples(
        """driftq job enqueue mail send '{"to": "ada@example.com"}'""",
        "driftq job enqueue mail digest --delay 60 --priority 9",
    )
)
def enqueue(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue; its first job creates it.")],
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="The name of the task, as workers register it.")
    ],
    payload: Annotated[str, typer.Argument(metavar="[JSON]", help="The argument of the task.")] = "null",
    priority: Annotated[
        int | None, typer.Option("--priority", help="0 to 9, larger runs first (default 5).")
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option("--delay", min=0, metavar="SECONDS", help="Run it no sooner than this from now."),
    ] = None,
    run_at: Annotated[
        str | None, typer.Option("--run-at", metavar="RFC3339", help="Run it no sooner than this.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", help="Store one job under this key in its queue.")
    ] = None,
    max_retries: Annotated[
        int | None,
        typer.Option("--max-retries", help="Retries after the first attempt (default: the server's)."),
    ] = None,
    timeout_ms: Annotated[
        int | None,
        typer.Option("--timeout-ms", help="The limit of one attempt, whatever its heartbeats say."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option("--after", metavar="JOB", help="Run it when this job has succeeded; may be repeated."),
    ] = None,
    limit_key: Annotated[
        str | None, typer.Option("--limit-key", help="The key that the limits per key of its queue count.")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Enqueue a job. A confirmed job is durable."""
    if delay is not None and run_at is not None:
        raise typer.BadParameter("give either --delay or --run-at")
    try:
        value = json.loads(payload)
    except ValueError as error:
        raise typer.BadParameter(f"the payload is not JSON: {error}") from None
    if delay is not None:
        run_at = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=delay)).isoformat()
    given = {
        "priority": priority,
        "run_at": run_at,
        "idempotency_key": idempotency_key,
        "max_retries": max_retries,
        "timeout_ms": timeout_ms,
        "after": after or None,
        "limit_key": limit_key,
    }
    body = {"queue": queue, "task": task, "payload": value}
    with Connection(load_url(url)) as connection:
        answer = connection.post(
            "/v1/jobs", body | {name: setting for name, setting in given.items() if setting is not None}
        )
    if as_json:
        say_json(answer)
        return
    note = "; a duplicate, nothing was added" if answer.get("duplicate") else ""
    if answer.get("payload_mismatch"):
        note += "; the payload differs from the stored one"
    say(f"{answer['job_id']} is {answer['state']}{note}")


@app.command("list", epilog=examples("driftq job list", "driftq job list --queue mail --state dead"))
def list_jobs(
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only jobs of this queue.")] = None,
    state: Annotated[StateName | None, typer.Option("--state", "-s", help="Only jobs in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of jobs.")] = 100,
    after: Annotated[
        str | None, typer.Option("--after", metavar="JOB", help="Continue after this job.")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List jobs, oldest first. Jobs in state dead were given up."""
    jobs: list[dict[str, Any]] = []
    with Connection(load_url(url)) as connection:
        while len(jobs) < limit:
            query = {"queue": queue, "state": state, "limit": min(limit - len(jobs), 1_000), "after": after}
            page = connection.get("/v1/jobs", query)
            jobs += page["jobs"]
            after = page.get("after")
            if after is None:
                break
    if as_json:
        say_json({"jobs": jobs} | ({"after": after} if after else {}))
        return
    shown = table(
        "jobs", "job", "queue", "task", "state", "priority", "attempts", "last error", right=_NUMBERS
    )
    for job in jobs:
        numbers = (str(job["priority"]), str(job["attempts"]))
        shown.add_row(job["job_id"], job["queue"], job["task"], job["state"], *numbers, job["last_error"])
    words = [f"{state} " if state else "", "jobs", f" in queue {queue}" if queue else ""]
    show_or(shown, f"no {''.join(words)}")
    if after is not None:
        say(f"there are more: --after {after}")


@app.command("show", epilog=examples("driftq job show job-0"))
def show_job(job: JobId, url: Url = None, as_json: Json = False) -> None:
    """Show a job with every attempt."""
    with Connection(load_url(url)) as connection:
        answer = connection.get(_path(job))
    if as_json:
        say_json(answer)
        return
    say(f"{answer['job_id']} is {answer['state']}: {answer['task']} in queue {answer['queue']}")
    say(f"payload {json.dumps(answer['payload'], ensure_ascii=False)}")
    say(f"priority {answer['priority']}, {answer['attempts']} of {answer['max_retries'] + 1} attempts")
    if answer["state"] == "scheduled":
        say(f"due {answer['run_at']}")
    if "limit_key" in answer:
        say(f"limit key {answer['limit_key']}")
    if "after" in answer:
        waits = f"; waits for {', '.join(answer['waits_for'])}" if "waits_for" in answer else ""
        say(f"after {', '.join(answer['after'])}{waits}")
    if "owner" in answer:
        say(f"leased to {answer['owner']} until {answer['lease_until']}")
    if answer["last_error"]:
        say(f"last error {answer['last_error']}")
    for name, value in sorted(answer.get("metadata", {}).items()):
        say(f"metadata {name}: {value}")
    if "result" in answer:
        say(f"result {json.dumps(answer['result'], ensure_ascii=False)}")
    if answer["history"]:
        shown = table("attempts", "owner", "started", "ended", "outcome")
        for attempt in answer["history"]:
            ended = attempt["ended_at"]
            outcome = attempt["error"] or ("succeeded" if ended else "running")
            shown.add_row(attempt["owner"], attempt["started_at"], ended or "", outcome)
        show(shown)


@app.command(epilog=examples("driftq job cancel job-0"))
def cancel(job: JobId, url: Url = None, as_json: Json = False) -> None:
    """Cancel a job. If a worker runs it, the server refuses its result."""
    _move(job, "cancel", url=url, as_json=as_json)


@app.command(
    epilog=examples(
        "driftq job requeue job-0",
        "driftq job requeue --queue mail --error ConnectionError --dry-run",
        "driftq job requeue --task send --since 2026-11-18T08:00:00Z --rate 50",
    )
)
def requeue(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="One job's id, as in job-7.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only dead jobs of this queue.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only dead jobs of this task.")] = None,
    error: Annotated[
        str | None, typer.Option("--error", help="Only dead jobs whose last error contains this text.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="RFC3339", help="Only jobs that died then or later.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="RFC3339", help="Only jobs that died before.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every dead job of the server.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the jobs; change nothing.")] = False,
    rate: Annotated[
        int | None, typer.Option("--rate", min=1, help="Requeue at most this many a second.")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Requeue dead jobs with all their attempts: one by its id, or all that match."""
    wanted = {"task": task, "error": error, "since": since, "until": until}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    selects = bool(wanted or queue is not None or every)
    if (job is not None) == (selects or dry_run or rate is not None):
        raise typer.BadParameter("name one job, or select jobs by --queue, --task, --error, --since or --all")
    if job is not None:
        _move(job, "requeue", url=url, as_json=as_json)
        return
    if not selects:
        raise typer.BadParameter("--dry-run and --rate need a selection: --queue, --task, --error or --all")
    body: dict[str, Any] = {"dry_run": dry_run}
    body.update({"queue": queue} if queue is not None else {})
    body.update({"filter": wanted} if wanted else {})
    body.update({"rate_per_s": rate} if rate is not None else {})
    with Connection(load_url(url), timeout_s=None) as connection:  # At a rate it takes as long as it takes.
        answer = connection.post("/v1/jobs/requeue", body)
    if as_json:
        say_json(answer)
    elif dry_run:
        say(f"{answer['matched']:,} dead jobs match")
    else:
        say(f"{answer['requeued']:,} of {answer['matched']:,} dead jobs are ready again")


def _move(job: str, verb: str, *, url: str | None, as_json: bool) -> None:
    with Connection(load_url(url)) as connection:
        answer = connection.post(f"{_path(job)}/{verb}", None)
    if as_json:
        say_json(answer)
    else:
        say(f"{answer['job_id']} is {answer['state']}")


def _path(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"
