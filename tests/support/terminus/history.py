"""Databases, branches and commits, in memory and in a log that is synced before an answer is given."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Documents = dict[str, dict[str, Any]]
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Commit:
    """A state of a database."""

    id: str
    parent: str | None
    schema: Documents
    instance: Documents
    deleted: frozenset[str]
    """Ids that were deleted on the way here: a read still finds their names."""
    author: str
    message: str
    timestamp: float


@dataclass
class Database:
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)


class History:
    """All databases. Changes are made under `lock`, and are on disk when their method returns."""

    def __init__(self, folder: Path) -> None:
        self.lock = threading.RLock()
        self.databases: dict[str, Database] = {}
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "log.jsonl"
        for line in file.read_bytes().splitlines(keepends=True) if file.exists() else []:
            if line.endswith(b"\n"):  # The last one may be torn: nobody was answered.
                self._evolve(json.loads(line))
        whole = file.read_bytes() if file.exists() else b""
        self._log = file.open("r+b" if file.exists() else "wb")
        self._log.truncate(whole.rfind(b"\n") + 1)
        self._log.seek(0, os.SEEK_END)

    def create_database(self, name: str) -> None:
        self._store({"what": "database", "name": name})
        self.create_branch(name, "main", commit=None)

    def delete_database(self, name: str) -> None:
        self._store({"what": "no database", "name": name})

    def create_branch(self, database: str, branch: str, *, commit: str | None) -> None:
        """At a commit, else at an empty one."""
        if commit is None:
            commit = self.commit(database, None, None, author="system", message="create initial schema")
        self.move(database, branch, commit)

    def move(self, database: str, branch: str, commit: str | None) -> None:
        self._store({"what": "branch", "database": database, "name": branch, "commit": commit})

    def commit(
        self,
        database: str,
        branch: str | None,
        parent: str | None,
        *,
        author: str,
        message: str,
        schema: dict[str, Any] | None = None,
        instance: dict[str, Any] | None = None,
    ) -> str:
        """A commit with these changes, None for a deletion; its id."""
        commit = "".join(secrets.choice(_ALPHABET) for _ in range(31))
        self._store(
            {
                "what": "commit",
                "database": database,
                "branch": branch,
                "id": commit,
                "parent": parent,
                "schema": schema or {},
                "instance": instance or {},
                "author": author,
                "message": message,
                "at": time.time(),
            }
        )
        return commit

    def squash(self, database: str, commit: str, *, author: str, message: str) -> str:
        stored = self.databases[database].commits[commit]
        return self.commit(
            database,
            None,
            None,
            author=author,
            message=message,
            schema=dict(stored.schema),
            instance=dict(stored.instance),
        )

    def _store(self, entry: dict[str, Any]) -> None:
        self._log.write(json.dumps(entry).encode() + b"\n")
        self._log.flush()
        os.fsync(self._log.fileno())
        self._evolve(entry)

    def _evolve(self, entry: dict[str, Any]) -> None:
        if entry["what"] == "database":
            self.databases[entry["name"]] = Database()
        elif entry["what"] == "no database":
            del self.databases[entry["name"]]
        elif entry["what"] == "branch":
            branches = self.databases[entry["database"]].branches
            if entry["commit"] is None:
                del branches[entry["name"]]
            else:
                branches[entry["name"]] = entry["commit"]
        else:
            database = self.databases[entry["database"]]
            database.commits[entry["id"]] = _applied(database, entry)
            if entry["branch"] is not None:
                database.branches[entry["branch"]] = entry["id"]


def _applied(database: Database, entry: dict[str, Any]) -> Commit:
    parent = database.commits.get(entry["parent"])
    schema = dict(parent.schema) if parent else {}
    instance = dict(parent.instance) if parent else {}
    deleted = set(parent.deleted) if parent else set()
    for documents, changes in ((schema, entry["schema"]), (instance, entry["instance"])):
        for name, document in changes.items():
            if document is None:
                documents.pop(name, None)
                deleted.add(name)
            else:
                documents[name] = document
                deleted.discard(name)
    return Commit(
        entry["id"],
        entry["parent"],
        schema,
        instance,
        frozenset(deleted),
        entry["author"],
        entry["message"],
        entry["at"],
    )
