"""Every route with no key, a wrong key and a key of each role: the server answers as its document says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.keyed import KeyedServer

ROLES = ("read", "produce", "consume", "admin")
PAGE = Path(__file__).parents[2] / "docs/reference/http.md"
TRIES_PER_ADDRESS = 10


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    server = KeyedServer(tmp_path_factory.mktemp("keyed"))
    for role in ROLES:
        setattr(server, f"key_{role}", server.add_key(f"only-{role}", role))
    with server as running:
        yield running


def operations(server: KeyedServer) -> list[tuple[str, str, set[str]]]:
    """Method, path and roles of every route, by the server's own document."""
    document: Any = server.ask("GET", "/v1/openapi.json", key=server.admin).json
    return [
        (method.upper(), path, {role for way in operation["security"] for role in way["key"]})
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def documented_roles() -> dict[tuple[str, str], set[str]]:
    """The same by the tables of the reference."""
    rows = re.findall(
        r"^\| (\w+) \| \[`([^`]+)`\]\(#[^)]*\) \| .*? \| ([a-z ]+) \| \w+ \|$", PAGE.read_text(), re.M
    )
    roles: dict[str, set[str]] = {"no key": set(), "any": set(ROLES)}
    return {(method, path): roles.get(said, {*said.split(" or "), "admin"}) for method, path, said in rows}


@pytest.mark.clause("Y1", "Y2", "H2")
def test_every_route_answers_each_key_as_documented(keyed: KeyedServer) -> None:
    """The requests carry nothing that a route could do: an allowed one is anything but 401 and 403."""
    found = operations(keyed)
    assert len(found) > 45
    assert documented_roles() == {(method, path): roles for method, path, roles in found}
    for tried, (method, template, roles) in enumerate(found):
        path = re.sub(r"\{\w+\}", "missing", template)
        if template == "/v1/ui/live":
            path += "?unknown=1"  # An allowed request would be answered without an end.
        body = b"" if method != "POST" else b'{"unknown":1}'
        allowed = {
            role: keyed.ask(method, path, body, key=getattr(keyed, f"key_{role}")).status for role in ROLES
        }
        for role, status in allowed.items():
            is_refused = bool(roles) and role not in roles
            assert (status == 403) is is_refused, (method, template, role, status)
            assert status != 401
        source = f"127.0.1.{1 + tried // TRIES_PER_ADDRESS}"  # Each address may fail a few times.
        wrong = keyed.ask(method, path, body, key=f"dq_000000000000_{'0' * 64}", source=source)
        none = keyed.ask(method, path, body, key=None)
        if roles:
            for answer in (wrong, none):
                answer.refused(401, "UNAUTHENTICATED")
                assert answer.headers["WWW-Authenticate"] == "Bearer"
        else:
            assert wrong.status not in (401, 403)
            assert none.status not in (401, 403)


@pytest.mark.clause("Y1")
def test_without_a_key_not_even_unknown_routes_are_told_apart(keyed: KeyedServer) -> None:
    for method, path in (("GET", "/v1/no/such"), ("GET", "/"), ("PUT", "/v1/topics"), ("HEAD", "/v1/topics")):
        assert keyed.ask(method, path, key=None).status == 401
        assert keyed.ask(method, path, key=keyed.admin).status in (404, 405)


@pytest.mark.clause("Y1")
def test_health_and_the_status_of_readiness_need_no_key(keyed: KeyedServer) -> None:
    assert keyed.ask("GET", "/v1/healthz", key=None).json == {"status": "ok"}
    assert keyed.ask("GET", "/v1/readyz", key=None).json == {"status": "ready"}
