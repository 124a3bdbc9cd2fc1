"""Queries, and the past of branches and documents."""

from __future__ import annotations

import json
from typing import Any

from tests.support.terminus import woql
from tests.support.terminus.documents import Change
from tests.support.terminus.exchange import SUCCESS, Answer, Call, branch_at, commit_change, require_version
from tests.support.terminus.history import Commit, History
from tests.support.terminus.refused import missing


class QueryCalls:
    def __init__(self, history: History, *, refused_text: str | None) -> None:
        self._history = history
        self._refused_text = refused_text

    def query(self, call: Call, rest: list[str]) -> Answer:
        request = json.loads(call.body)
        branch = branch_at(self._history, rest)
        require_version(call.version, branch.head)
        commit_info = request.get("commit_info", {})
        if woql.is_writing(request["query"]) and "author" not in commit_info:
            raise missing("author")
        with self._history.lock:
            change = Change(branch.head, refused_text=self._refused_text)
            bindings = woql.evaluate(request["query"], {}, change)
            change.require_distinct()
            inserts, deletes = change.counts()
            version = commit_change(commit_info, branch, change)
        names = woql.variables(request["query"])
        body = {
            "@type": "api:WoqlResponse",
            **SUCCESS,
            "api:variable_names": names,
            "bindings": [{name: bound.get(name) for name in names} for bound in bindings],
            "deletes": deletes,
            "inserts": inserts,
            "transaction_retry_count": 0,
        }
        return Answer(200, body, version=version)

    def log(self, call: Call, rest: list[str]) -> Answer:
        branch = branch_at(self._history, rest)
        found: list[dict[str, Any]] = []
        commit: Commit | None = branch.head
        while commit is not None and len(found) < int(call.parameters["count"]):
            named = {
                "@id": f"ValidCommit/{commit.id}",
                "@type": "ValidCommit",
                "instance": f"layer_data:Layer_{commit.id}",
                "schema": f"layer_data:Layer_{commit.id}",
                **_told(commit),
            }
            found.append(
                named if commit.parent is None else {**named, "parent": f"ValidCommit/{commit.parent}"}
            )
            commit = branch.stored.commits.get(commit.parent or "")
        return Answer(200, found)

    def document_history(self, call: Call, rest: list[str]) -> Answer:
        branch = branch_at(self._history, rest)
        name = call.parameters["id"]
        found: list[dict[str, Any]] = []
        commit: Commit | None = branch.head
        while commit is not None and len(found) < int(call.parameters["count"]):
            parent = branch.stored.commits.get(commit.parent or "")
            if commit.instance.get(name) != (parent.instance.get(name) if parent else None):
                found.append(_told(commit))
            commit = parent
        return Answer(200, found)


def _told(commit: Commit) -> dict[str, Any]:
    return {
        "author": commit.author,
        "identifier": commit.id,
        "message": commit.message,
        "timestamp": commit.timestamp,
        "user": "terminusdb://system/data/User/admin",
    }
