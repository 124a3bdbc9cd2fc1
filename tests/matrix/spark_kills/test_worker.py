"""Spark drivers killed with all their processes, at each point between claim and mark, on both engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftq.registry import Effect
from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url
from tests.services_terminusdb import count_document_commits, terminus_database_url, terminus_url
from tests.spark.killed_worker.handlers import sites
from tests.spark.killed_worker.theatre import EVERY, Theatre, assert_documents, play
from tests.support.http_api.process import HttpApi

__all__ = ["postgres_database_url", "postgres_url", "terminus_database_url", "terminus_url"]


@pytest.mark.timeout(900)
@pytest.mark.clause("X2", "V7", "K2", "K4", "K6", "Z6")
def test_drivers_killed_at_each_point_leave_one_effect_each_or_ask(
    tmp_path: Path, postgres_database_url: str, terminus_database_url: str
) -> None:
    with ServerProcess(tmp_path / "data") as server, HttpApi(tmp_path / "api") as api:
        told = {"API": api.url, "DOCUMENTS": terminus_database_url}
        theatre = Theatre(server, tmp_path, postgres_database_url, told)
        play(theatre)
        for site in sites(tmp_path):
            if site.effect is not Effect.TRANSACTIONAL:
                calls = [one for one in api.requests() if one["value"][0] == site.name]
                performed = {
                    value: count
                    for value, count in api.effects().items()
                    if json.loads(value)[0] == site.name
                }
                assert len(performed) == len(EVERY), site.name
                assert set(performed.values()) == {1}, "the API performs each event once"
                assert len({one["key"] for one in calls}) == len(EVERY), "one key for each event"
        assert_documents(theatre, [terminus_database_url])
        for name in (name for site in sites(tmp_path) for name in site.sinks([terminus_database_url])):
            commits = count_document_commits(terminus_database_url, name)
            assert commits == len(EVERY), "a repeat changes no document"
