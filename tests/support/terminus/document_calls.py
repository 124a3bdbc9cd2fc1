"""Documents: writing, deleting and reading them."""

from __future__ import annotations

import json
from typing import Any

from tests.support.terminus.documents import DATA, Change, expanded
from tests.support.terminus.exchange import Answer, Branch, Call, branch_at, commit_change, require_version
from tests.support.terminus.history import Commit, History
from tests.support.terminus.refused import Refused, missing, not_found


class DocumentCalls:
    def __init__(self, history: History, *, refused_text: str | None, refuses_unknown_ids: bool) -> None:
        self._history = history
        self._refused_text = refused_text
        self._refuses_unknown_ids = refuses_unknown_ids

    def documents(self, call: Call, rest: list[str]) -> Answer:
        branch = branch_at(self._history, rest)
        head = branch.head
        require_version(call.version, head)
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
            version = commit_change(call.parameters, branch, change)
        return Answer(200, [DATA + name for name in ids], version=version)

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
            version = commit_change(call.parameters, branch, change)
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


def _listed(body: bytes) -> list[Any]:
    """The documents of a request; none where its JSON is cut off, which the server does not mind."""
    try:
        given = json.loads(body)
    except ValueError:
        return []
    return given if isinstance(given, list) else [given]
