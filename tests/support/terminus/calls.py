"""What each call does, by its path: the routes of the server."""

from __future__ import annotations

from typing import Any

from tests.support.terminus.branch_calls import BranchCalls
from tests.support.terminus.document_calls import DocumentCalls
from tests.support.terminus.exchange import SUCCESS, Answer, Call
from tests.support.terminus.history import History
from tests.support.terminus.query_calls import QueryCalls
from tests.support.terminus.refused import Refused

VERSION = "12.0.6"
_RESPONSES = {
    "POST": "InsertDocument",
    "PUT": "ReplaceDocument",
    "GET": "GetDocument",
    "HEAD": "GetDocument",
    "DELETE": "DeleteDocument",
}


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
        self._version = version
        branches = BranchCalls(history)
        documents = DocumentCalls(history, refused_text=refused_text, refuses_unknown_ids=refuses_unknown_ids)
        queries = QueryCalls(history, refused_text=refused_text)
        self._routes = {
            "db": ("Db", branches.database),
            "document": ("", documents.documents),
            "woql": ("Woql", queries.query),
            "branch": ("Branch", branches.branches),
            "squash": ("Squash", branches.squash),
            "reset": ("Reset", branches.reset),
            "log": ("Log", queries.log),
            "history": ("History", queries.document_history),
            "optimize": ("Optimize", branches.optimize),
        }

    def answer(self, call: Call) -> Answer:
        match call.segments:
            case ["ok"]:
                return Answer(200)
            case ["info"]:
                return Answer(200, self._info(call.authority))
        if call.authority == "anonymous":
            refused = Refused(403, "AccessNotAuthorised", "Access not authorised")
            return Answer(403, refused.answer("ErrorResponse"))
        noun, *rest = call.segments
        response, act = self._routes[noun]
        if response == "Db":
            response = "DbDelete" if call.method == "DELETE" else "DbCreate"
        try:
            return act(call, rest)
        except Refused as refused:
            named = response or _RESPONSES[call.method]
            return Answer(refused.status, refused.answer(f"{named}ErrorResponse"))

    def _info(self, authority: str) -> dict[str, Any]:
        known = {
            "authority": f"terminusdb://system/data/User/{authority}",
            "storage": {"version": "2"},
            "terminusdb": {"git_hash": "a7ca3c80acf7baae059c90bc309a3ce07b7d5aae", "version": self._version},
            "terminusdb_store": {"version": "0.19.8"},
        }
        return {"@type": "api:InfoResponse", "api:info": known, **SUCCESS}
