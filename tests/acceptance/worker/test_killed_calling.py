"""Workers killed with SIGKILL around a call of an HTTP API: it counts once by its key, or is reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import driftq
from tests.acceptance.worker.test_killed import Story, databases, server
from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url
from tests.support.http_api.process import HttpApi

__all__ = ["databases", "postgres_database_url", "postgres_url", "server"]

POINTS = ("after-begin", "before-effect", "after-effect", "before-commit")
PERFORMED = ("after-effect", "before-commit")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[HttpApi]:
    with HttpApi(tmp_path / "api") as running:
        yield running


@pytest.fixture
def story(
    request: pytest.FixtureRequest,
    server: ServerProcess,
    api: HttpApi,
    databases: dict[str, str],
    tmp_path: Path,
) -> Iterator[Story]:
    effect = driftq.Effect.UNKNOWN if "unknown" in request.node.name else driftq.Effect.IDEMPOTENT
    recorded = {step: next(iter(databases.values())) for step in POINTS} if databases else {}
    with driftq.Client(f"http://127.0.0.1:{server.port}") as client:
        told = Story(server, client, tmp_path, effect, recorded, POINTS, {"API": api.url})
        told.produce_each()
        yield told


@pytest.mark.clause("X2", "K4", "K6")
@pytest.mark.parametrize("databases", ["broker", "postgres"], indirect=True)
def test_an_api_that_honours_keys_performs_each_effect_once(story: Story, api: HttpApi) -> None:
    assert api.effects() == dict.fromkeys(POINTS, 1), story.errors()
    asked = {step: [one for one in api.requests() if one["value"] == step] for step in POINTS}
    assert {step: len(found) for step, found in asked.items()} == {
        step: 2 if step in PERFORMED else 1 for step in POINTS
    }
    for step in PERFORMED:
        first, second = asked[step]
        assert first["key"] == second["key"]
        assert int(first["token"]) < int(second["token"])
    assert [story.dead_letters(step) for step in POINTS] == [[]] * len(POINTS)


@pytest.mark.clause("X2", "K6")
@pytest.mark.parametrize("databases", ["broker", "postgres"], indirect=True)
def test_an_unknown_effect_is_performed_at_most_once_and_reported(story: Story, api: HttpApi) -> None:
    assert api.effects() == dict.fromkeys(PERFORMED, 1), story.errors()
    assert len(api.requests()) == len(PERFORMED)
    for step in POINTS:
        (error,) = story.dead_letters(step)
        assert error.startswith("effect unknown: ")
