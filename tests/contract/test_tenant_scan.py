"""Every route of the document with another tenant's key: as the reference says, and nothing gets through.

One tenant owns a topic with messages, dead letters and effects, a queue with jobs, an aggregate type and a
run, and all of their contents carry a marker. Each route is asked for exactly these things with the other
tenant's key, which has every role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.example_requests import ExampleRequest, example_requests
from tests.contract.keyed import TenantServer
from tests.contract.test_tenants import dead_letter

PAGE = Path(__file__).parents[2] / "docs/reference/http.md"
MARKER = "marked-by-acme"
SAID = {"yes": "all", "own": "own", "no": "none"}
OWNED = frozenset({"topic", "queue", "queues", "job_id", "aggregate_type", "run_id", "source_topic"})
"""Fields and parameters that name what has an owner."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TenantServer]:
    with TenantServer(tmp_path_factory.mktemp("scan")) as running:
        yield running


@pytest.fixture(scope="module")
def owned(server: TenantServer) -> dict[str, Any]:
    """The names of what acme owns, as examples of fields and parameters."""
    key = server.acme
    assert server.create(f"{MARKER}.topic", key=key).status == 201
    dead_letter(server, f"{MARKER}.topic", key)
    for number in range(3):
        run = {"run_id": f"{MARKER}.run", "step_id": f"{MARKER}.step-{number}"}
        assert server.send(f"{MARKER}.topic", f"{MARKER} value", key=key, **run).status == 200
    job = server.enqueue(f"{MARKER}.queue", key=key, payload=f"{MARKER} payload").json["job_id"]
    assert server.append_event(f"{MARKER}.type", f"{MARKER}.event", key=key).status == 201
    effect = {"topic": f"{MARKER}.topic", "group": "g", "idempotency_key": "k", "owner": MARKER}
    begun = server.ask("POST", "/v1/idempotency/begin", effect | {"lease_ms": 600_000}, key=key)
    assert begun.status == 200
    step = {"topic": "steps", "group": "g", "idempotency_key": f"step:{MARKER}.run/{MARKER}.charge"}
    lease = {"owner": MARKER, "lease_ms": 1, "effect": "unknown"}
    assert server.ask("POST", "/v1/idempotency/begin", step | lease, key=key).status == 200
    return {
        "topic": f"{MARKER}.topic",
        "source_topic": f"{MARKER}.topic",
        "queue": f"{MARKER}.queue",
        "job_id": job,
        "run_id": f"{MARKER}.run",
        "aggregate_type": f"{MARKER}.type",
        "aggregate_id": "1",
        "event_id": "of-globex",
        "name": f"{MARKER}.topic",
        "writer": "w",
        "reader": "r",
    }


LIVE = "/v1/ui/live"
"""It never ends; tests of the dashboard read what a tenant sees there."""


def requests(server: TenantServer, examples: dict[str, Any]) -> list[ExampleRequest]:
    document = server.ask("GET", "/v1/openapi.json", key=server.admin).json
    return list(example_requests(document, examples))


def contents(server: TenantServer) -> list[Any]:
    """Everything that acme's requests would change."""
    topic = f"{MARKER}.topic"
    return [
        server.ask("GET", path, key=server.acme).content
        for path in (
            "/v1/topics",
            f"/v1/topics/{topic}",
            f"/v1/topics/{topic}/records",
            f"/v1/dlq/{topic}",
            "/v1/jobs",
            "/v1/events/log",
            f"/v1/runs/{MARKER}.run",
            f"/v1/idempotency/status?topic={topic}&group=g&idempotency_key=k",
        )
    ]


def test_the_reference_says_what_tenants_keys_reach(server: TenantServer) -> None:
    rows = re.findall(
        r"^\| (\w+) \| \[`([^`]+)`\]\(#[^)]*\) \| .*? \| [a-z ]+ \| (\w+) \|$", PAGE.read_text(), re.MULTILINE
    )
    documented = {(method, path): SAID[said] for method, path, said in rows}
    found = requests(server, {})
    assert documented == {(one.method, one.template): one.tenant_keys for one in found}


@pytest.mark.clause("Y3", "Y2")
def test_another_tenants_key_gets_nothing_out_of_any_route(
    server: TenantServer, owned: dict[str, Any]
) -> None:
    before = contents(server)
    assert all(MARKER.encode() in content for content in before)
    found = requests(server, owned)
    assert len(found) > 45
    for one in found:
        if one.template == LIVE:
            continue
        answer = server.ask(one.method, one.path, one.body, key=server.globex)
        where = (one.method, one.template, answer)
        echoed = [str(value).encode() for value in owned.values()]
        revealed = answer.content
        for name in echoed:
            revealed = revealed.replace(name, b"")
        if one.tenant_keys == "none":
            assert answer.status == 403, where
        elif one.names & OWNED and not answer.content.startswith(b'{"results"'):
            assert answer.status == 404, where
        elif one.template != "/v1/ui/session":  # Its body has a key of its own, which nobody has.
            assert answer.status not in (401, 403, 500), where
        assert MARKER.encode() not in revealed, where
        if answer.status == 200:  # A list, or what belongs to nobody: not even the names.
            assert MARKER.encode() not in answer.content, where
    assert contents(server) == before


@pytest.mark.clause("Y3")
def test_what_another_tenant_owns_looks_like_nothing(server: TenantServer, owned: dict[str, Any]) -> None:
    """The same requests for names that nobody has: the replies differ in nothing but the names."""
    missing = {name: str(value).replace(MARKER, "nothing-there") for name, value in owned.items()}
    missing["job_id"] = "job-88888"
    pairs = zip(requests(server, owned), requests(server, missing), strict=True)
    compared = 0
    for foreign, nothing in pairs:
        if (
            foreign.template == LIVE
            or foreign.tenant_keys != "own"
            or not foreign.names & OWNED
            or foreign.template in MAKING
        ):
            continue
        shown = server.ask(foreign.method, foreign.path, foreign.body, key=server.globex)
        absent = server.ask(nothing.method, nothing.path, nothing.body, key=server.globex)
        same = shown.content.replace(MARKER.encode(), b"nothing-there")
        same = same.replace(str(owned["job_id"]).encode(), b"job-88888")
        assert (shown.status, same) == (absent.status, absent.content), (foreign.method, foreign.template)
        compared += 1
    assert compared > 25


MAKING = frozenset(
    {"/v1/jobs", "/v1/jobs/batch", "/v1/jobs/claim", "/v1/queues/{queue}/limits", "/v1/events", "/v1/topics"}
    | {"/v1/schedules", "/v1/schedules/{name}"}
    | {f"/v1/idempotency/{verb}" for verb in ("begin", "commit", "fail", "extend", "resolve", "status")}
)
"""Here a name that nobody has becomes the tenant's, and effects need no topic."""


@pytest.mark.clause("Y3")
def test_a_key_without_tenant_reaches_what_tenants_own(server: TenantServer, owned: dict[str, Any]) -> None:
    for path in (
        f"/v1/topics/{owned['topic']}",
        f"/v1/jobs/{owned['job_id']}",
        f"/v1/runs/{owned['run_id']}",
    ):
        assert MARKER.encode() in server.ask("GET", path, key=server.admin).content
