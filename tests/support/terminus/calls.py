"""What each call does, by its path: the routes of the server."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.terminus import woql
from tests.support.terminus.documents import DATA, Change, expanded
from tests.support.terminus.history import Commit, Database, History
from tests.support.terminus.refusals import Refused, missing, not_found, unknown_database

VERSION = "12.0.6"
_RESPONSES = {
    "POST": "InsertDocument",
    "PUT": "ReplaceDocument",
    "GET": "GetDocument",
    "DELETE": "DeleteDocument",
}
_SUCCESS = {"api:status": "api:success"}


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
    extra: dict[str, str] = field(default_factory=dict)


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


class Calls:
    """All routes, over one history."""

    def __init__(
        self,
        history: History,
        *,
        version: str = VERSION,
        refused_text: str | None = None,
        refuses_unknown_ids: bool = False,
    ) -> None:
        self._history = history
        self._version = version
        self._refused_text = refused_text
        self._refuses_unknown_ids = refuses_unknown_ids

    def answer(self, call: Call) -> Answer:
        match call.segments:
            case ["ok"]:
                return Answer(200)
            case ["info"]:
                return Answer(200, self._info(call.authority))
        if call.authority == "anonymous":
            return Answer(
                403, Refused(403, "AccessNotAuthorised", "Access not authorised").answer("ErrorResponse")
            )
        noun, *rest = call.segments
        response, act = {
            "db": ("DbCreate" if call.method == "POST" else "DbDelete", self._database),
            "document": (_RESPONSES.get(call.method, "GetDocument"), self._documents),
            "woql": ("Woql", self._woql),
            "branch": ("Branch", self._branches),
            "squash": ("Squash", self._squash),
            "reset": ("Reset", self._reset),
            "log": ("Log", self._log),
            "history": ("History", self._document_history),
            "optimize": ("Optimize", self._optimize),
        }[noun]
        try:
            return act(call, rest)
        except Refused as refused:
            return Answer(refused.status, refused.answer(f"{response}ErrorResponse"))

    def _info(self, authority: str) -> dict[str, Any]:
        known = {
            "authority": f"terminusdb://system/data/User/{authority}",
            "storage": {"version": "2"},
            "terminusdb": {"git_hash": "a7ca3c80acf7baae059c90bc309a3ce07b7d5aae", "version": self._version},
            "terminusdb_store": {"version": "0.19.8"},
        }
        return {"@type": "api:InfoResponse", "api:info": known, **_SUCCESS}

    # Databases and branches.

    def _database(self, call: Call, rest: list[str]) -> Answer:
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
                return Answer(200, {"@type": "api:DbDeleteResponse", **_SUCCESS})
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
            return Answer(200, {"@type": "api:DbCreateResponse", "api:database_uri": uri, **_SUCCESS})

    def _at(self, rest: list[str]) -> Branch:
        database = "/".join(rest[:2])
        if database not in self._history.databases:
            raise unknown_database(*rest[:2])
        branch = rest[4] if len(rest) > 2 else "main"
        if branch not in self._history.databases[database].branches:
            path = "/".join(rest)
            raise Refused(
                400,
                "UnresolvableAbsoluteDescriptor",
                f"The branch does not exist for '{path}'",
                absolute_descriptor=path,
            )
        return Branch(database, branch, self._history)

    def _branches(self, call: Call, rest: list[str]) -> Answer:
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
                commit = None if origin is None else self._at(origin.split("/")).head.id
                self._history.create_branch(database, name, commit=commit)
        return Answer(200, {"@type": "api:BranchResponse", **_SUCCESS})

    def _squash(self, call: Call, rest: list[str]) -> Answer:
        with self._history.lock:
            branch = self._at(rest)
            commit_info = json.loads(call.body)["commit_info"]
            squashed = self._history.squash(branch.database, branch.head.id, **commit_info)
            old = branch.head.id
        body = {
            "@type": "api:SquashResponse",
            "api:commit": f"{branch.database}/local/commit/{squashed}",
            "api:old_commit": f"{branch.database}/local/commit/{old}",
            **_SUCCESS,
        }
        return Answer(200, body)

    def _reset(self, call: Call, rest: list[str]) -> Answer:
        with self._history.lock:
            branch = self._at(rest)
            commit = json.loads(call.body)["commit_descriptor"].rpartition("/")[2]
            if commit not in branch.stored.commits:
                raise Refused(400, "UnresolvableCommitId", f"Invalid ref path: {commit}", commit=commit)
            self._history.move(branch.database, branch.name, commit)
        return Answer(200, {"@type": "api:ResetResponse", **_SUCCESS})

    def _optimize(self, call: Call, rest: list[str]) -> Answer:
        return Answer(200, {"@type": "api:OptimizeResponse", **_SUCCESS})

    # Documents.

    def _documents(self, call: Call, rest: list[str]) -> Answer:
        branch = self._at(rest)
        head = branch.head
        _require_version(call.version, head)
        if call.method == "HEAD":
            return Answer(200, version=head.id)
        if call.method == "GET":
            return self._read(call, head)
        for name in ("author", "message"):
            if name not in call.parameters:
                raise missing(name)
        if call.method == "DELETE":
            return self._delete(call, branch)
        if call.parameters.get("graph_type") == "schema":
            return self._write_schema(call, branch)
        documents = _listed(call.body)
        create = call.parameters.get("create") == "true"
        with self._history.lock:
            # Compared before the lock, as the server does: the version stops no writer of the same moment.
            change = Change(branch.head, refused_text=self._refused_text)
            ids = [change.put(one, insert=call.method == "POST", create=create) for one in documents]
            change.require_distinct()
            version = self._commit(call.parameters, branch, change)
        return Answer(200, [DATA + name for name in ids], version=version)

    def _commit(self, commit_info: dict[str, str], branch: Branch, change: Change) -> str:
        changed = change.differences()
        if not changed:
            return branch.head.id
        return self._history.commit(
            branch.database,
            branch.name,
            branch.head.id,
            author=commit_info["author"],
            message=commit_info["message"],
            instance=changed,
        )

    def _write_schema(self, call: Call, branch: Branch) -> Answer:
        documents = _listed(call.body)
        with self._history.lock:
            for document in documents:
                if call.method == "POST" and document["@id"] in branch.head.schema:
                    raise Refused(
                        400,
                        "DocumentIdAlreadyExists",
                        f'Tried to insert a new document with id "{document["@id"]}", '
                        "but an object with that id already exists",
                        document=document,
                        document_id=document["@id"],
                    )
            version = self._history.commit(
                branch.database,
                branch.name,
                branch.head.id,
                author=call.parameters["author"],
                message=call.parameters["message"],
                schema={document["@id"]: document for document in documents},
            )
        return Answer(200, [document["@id"] for document in documents], version=version)

    def _delete(self, call: Call, branch: Branch) -> Answer:
        with self._history.lock:
            change = Change(branch.head, refused_text=None)
            if "id" in call.parameters:
                if not change.delete(call.parameters["id"]):
                    raise not_found(DATA + call.parameters["id"], quote='"')
            else:
                for name in json.loads(call.body):
                    change.delete(name)
            version = self._commit(call.parameters, branch, change)
        return Answer(204, version=version)

    def _read(self, call: Call, head: Commit) -> Answer:
        selector: dict[str, Any] = {**call.parameters, **(json.loads(call.body) if call.body else {})}
        as_list = selector.get("as_list") in (True, "true")
        if "id" in selector:
            found, lost = self._by_id(head, [selector["id"]], is_list=as_list)
            if lost:
                text = json.dumps(not_found(selector["id"]).answer("GetDocumentErrorResponse"))
                status = "Status: 404\nContent-type: application/json; charset=UTF-8\n\n"
                return Answer(200, version=head.id, stream=True, text=status + text)
        elif "ids" in selector:
            found, _ = self._by_id(head, selector["ids"], is_list=True)
        else:
            found = self._by_type(head, selector)
        if selector.get("compress_ids") == "false":
            found = [expanded(document) for document in found]
        if as_list:
            return Answer(200, found, version=head.id, stream=True)
        text = "".join(json.dumps(document) + "\n" for document in found)
        return Answer(200, version=head.id, stream=True, text=text)

    def _by_id(self, head: Commit, ids: list[str], *, is_list: bool) -> tuple[list[dict[str, Any]], bool]:
        """Documents, and whether an answer has begun that turns out to be a 404."""
        for name in ids:
            known = name in head.instance or name in head.deleted
            if not known and (not is_list or self._refuses_unknown_ids):
                raise not_found(name)
        found = [head.instance[name] for name in ids if name in head.instance]
        return found, not found and not is_list

    def _by_type(self, head: Commit, selector: dict[str, Any]) -> list[dict[str, Any]]:
        wanted = selector.get("query", {})
        found = [
            head.instance[name]
            for name in sorted(head.instance)
            if head.instance[name]["@type"] == selector["type"]
            and all(head.instance[name].get(field) == value for field, value in wanted.items())
        ]
        start = int(selector.get("skip", 0))
        return found[start : start + int(selector["count"])] if "count" in selector else found[start:]

    # Queries and the past.

    def _woql(self, call: Call, rest: list[str]) -> Answer:
        request = json.loads(call.body)
        branch = self._at(rest)
        _require_version(call.version, branch.head)
        commit_info = request.get("commit_info", {})
        if woql.is_writing(request["query"]) and "author" not in commit_info:
            raise missing("author")
        with self._history.lock:
            change = Change(branch.head, refused_text=self._refused_text)
            bindings = woql.evaluate(request["query"], {}, change)
            change.require_distinct()
            inserts, deletes = change.counts()
            version = self._commit(commit_info, branch, change)
        names = woql.variables(request["query"])
        body = {
            "@type": "api:WoqlResponse",
            **_SUCCESS,
            "api:variable_names": names,
            "bindings": [{name: bound.get(name) for name in names} for bound in bindings],
            "deletes": deletes,
            "inserts": inserts,
            "transaction_retry_count": 0,
        }
        return Answer(200, body, version=version)

    def _log(self, call: Call, rest: list[str]) -> Answer:
        branch = self._at(rest)
        found = []
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

    def _document_history(self, call: Call, rest: list[str]) -> Answer:
        branch = self._at(rest)
        name, found = call.parameters["id"], []
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


def _listed(body: bytes) -> list[Any]:
    """The documents of a request; none where its JSON is cut off, which the server does not mind."""
    try:
        given = json.loads(body)
    except ValueError:
        return []
    return given if isinstance(given, list) else [given]


def _require_version(requested: str | None, head: Commit) -> None:
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
