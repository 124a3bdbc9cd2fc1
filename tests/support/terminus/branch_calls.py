"""Databases and branches: creating, squashing, resetting."""

from __future__ import annotations

import json

from tests.support.terminus.exchange import SUCCESS, Answer, Call, branch_at
from tests.support.terminus.history import History
from tests.support.terminus.refused import Refused, unknown_database


class BranchCalls:
    def __init__(self, history: History) -> None:
        self._history = history

    def database(self, call: Call, rest: list[str]) -> Answer:
        organization, name = rest
        full = f"{organization}/{name}"
        with self._history.lock:
            exists = full in self._history.databases
            if call.method == "HEAD":
                return Answer(200 if exists else 404)
            if call.method == "DELETE":
                if not exists:
                    raise unknown_database(organization, name)
                self._history.delete_database(full)
                return Answer(200, {"@type": "api:DbDeleteResponse", **SUCCESS})
            if exists:
                raise Refused(
                    400,
                    "DatabaseAlreadyExists",
                    "Database already exists.",
                    database_name=name,
                    organization_name=organization,
                )
            self._history.create_database(full)
            uri = "terminusdb://system/data/UserDatabase/B5xbkOZFseHm0-wt"
            return Answer(200, {"@type": "api:DbCreateResponse", "api:database_uri": uri, **SUCCESS})

    def branches(self, call: Call, rest: list[str]) -> Answer:
        database, name = "/".join(rest[:2]), rest[4]
        with self._history.lock:
            if database not in self._history.databases:
                raise unknown_database(*rest[:2])
            exists = name in self._history.databases[database].branches
            if call.method == "DELETE":
                if not exists:
                    raise Refused(
                        400, "BranchDoesNotExistError", f"Branch {name} does not exist", branch_name=name
                    )
                self._history.move(database, name, None)
            else:
                if exists:
                    raise Refused(400, "BranchExistsError", f"Branch {name} already exists", branch_name=name)
                origin = json.loads(call.body).get("origin")
                commit = None if origin is None else branch_at(self._history, origin.split("/")).head.id
                self._history.create_branch(database, name, commit=commit)
        return Answer(200, {"@type": "api:BranchResponse", **SUCCESS})

    def squash(self, call: Call, rest: list[str]) -> Answer:
        with self._history.lock:
            branch = branch_at(self._history, rest)
            commit_info = json.loads(call.body)["commit_info"]
            squashed = self._history.squash(branch.database, branch.head.id, **commit_info)
            old = branch.head.id
        body = {
            "@type": "api:SquashResponse",
            "api:commit": f"{branch.database}/local/commit/{squashed}",
            "api:old_commit": f"{branch.database}/local/commit/{old}",
            **SUCCESS,
        }
        return Answer(200, body)

    def reset(self, call: Call, rest: list[str]) -> Answer:
        with self._history.lock:
            branch = branch_at(self._history, rest)
            commit = json.loads(call.body)["commit_descriptor"].rpartition("/")[2]
            if commit not in branch.stored.commits:
                raise Refused(400, "UnresolvableCommitId", f"Invalid ref path: {commit}", commit=commit)
            self._history.move(branch.database, branch.name, commit)
        return Answer(200, {"@type": "api:ResetResponse", **SUCCESS})

    def optimize(self, call: Call, rest: list[str]) -> Answer:
        return Answer(200, {"@type": "api:OptimizeResponse", **SUCCESS})
