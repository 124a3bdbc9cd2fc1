"""A call, its answer, and the branch that it works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.support.terminus.documents import Change
from tests.support.terminus.history import Commit, Database, History
from tests.support.terminus.refused import Refused, unknown_database

SUCCESS = {"api:status": "api:success"}


@dataclass
class Call:
    method: str
    segments: list[str]
    parameters: dict[str, str]
    version: str | None
    """The header TerminusDB-Data-Version."""
    body: bytes
    authority: str = "anonymous"


@dataclass
class Answer:
    status: int
    body: Any = None
    version: str | None = None
    stream: bool = False
    text: str | None = None
    """Instead of a JSON body."""


@dataclass(frozen=True)
class Branch:
    """Where a call works."""

    database: str
    name: str
    history: History

    @property
    def stored(self) -> Database:
        return self.history.databases[self.database]

    @property
    def head(self) -> Commit:
        return self.stored.commits[self.stored.branches[self.name]]


def branch_at(history: History, rest: list[str]) -> Branch:
    """The branch that a path like `admin/rm/local/branch/build` names; `main` without one."""
    database = "/".join(rest[:2])
    if database not in history.databases:
        raise unknown_database(*rest[:2])
    branch = rest[4] if len(rest) > 2 else "main"
    if branch not in history.databases[database].branches:
        path = "/".join(rest)
        raise Refused(
            400,
            "UnresolvableAbsoluteDescriptor",
            f"The branch does not exist for '{path}'",
            absolute_descriptor=path,
        )
    return Branch(database, branch, history)


def commit_change(commit_info: dict[str, str], branch: Branch, change: Change) -> str:
    """The branch's head with this change; one that changes nothing makes no commit."""
    changed = change.differences()
    if not changed:
        return branch.head.id
    return branch.history.commit(
        branch.database,
        branch.name,
        branch.head.id,
        author=commit_info["author"],
        message=commit_info["message"],
        instance=changed,
    )


def require_version(requested: str | None, head: Commit) -> None:
    if requested is None:
        return
    if not requested.startswith("branch:"):
        raise Refused(400, "BadDataVersion", f"Bad data version: {requested}", data_version=requested)
    if requested != f"branch:{head.id}":
        raise Refused(
            400,
            "DataVersionMismatch",
            "Requested data version in header does not match actual data version.",
            actual_data_version=f"branch:{head.id}",
            requested_data_version=requested,
        )
