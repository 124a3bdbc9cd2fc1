"""Calls to a TerminusDB server over the blocking HTTP client, and what its answers mean.

Nearly every refusal is a 400, so `api:error/@type` decides and not the status. There are three outcomes: an
answer, a `TerminusRefusal` that its caller interprets, and a ReadModelUnavailable for everything that may be
different later.

Each call has a connection of its own: the server closes idle ones after a few seconds, and a request on such
a connection may have been done or not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from driftq.errors import InvalidArgument, ReadModelUnavailable, ServerUnreachable
from driftq.sinks.terminusdb.address import TerminusAddress
from driftq.transport.blocking import BlockingConnection
from driftq.transport.endpoint import Endpoint
from driftq.transport.paths import Query

OLDEST_MAJOR = 12
_REFUSALS = frozenset({400, 401, 403, 404, 413})
_OF_BRANCH = "branch:"
_READ_BY_POST = {"X-HTTP-Method-Override": "GET"}


class TerminusRefusal(Exception):
    """The server did not do what was requested; nothing was changed."""

    def __init__(self, status: int, answer: Any) -> None:
        fields = answer if isinstance(answer, dict) else {}
        error = fields.get("api:error")
        self.status = status
        self.error: dict[str, Any] = error if isinstance(error, dict) else {}
        self.kind = str(self.error.get("@type", "")).removeprefix("api:")
        self.text = str(fields.get("api:message", f"status {status}"))
        super().__init__(f"{self.kind}: {self.text}" if self.kind else self.text)


class TerminusServer:
    """One database of a server. Every call raises ReadModelUnavailable, and a TerminusRefusal."""

    def __init__(self, address: TerminusAddress, *, timeout_s: float) -> None:
        self.address = address
        self._endpoint = Endpoint.of(address.server, timeout_s=timeout_s)

    def check(self) -> None:
        """Raises InvalidArgument, in one sentence, for a server that cannot hold read models."""
        try:
            answer = self._call("GET", "/api/info")
        except TerminusRefusal as refusal:
            if refusal.status == 401:
                problem = f"refuses the password of user {self.address.user!r}: check both"
                raise self._unusable(problem) from refusal
            raise self._unusable(f"answers {refusal.status}: is it a TerminusDB server?") from refusal
        info = answer.get("api:info") if isinstance(answer, dict) else None
        if not isinstance(info, dict):
            raise self._unusable("answers, but not as a TerminusDB server does")
        if str(info.get("authority", "")).rpartition("/")[2] == "anonymous":
            raise self._unusable("takes this address for 'anonymous': put user:password@ before the host")
        version = str((info.get("terminusdb") or {}).get("version", ""))
        major = re.match(r"(\d+)\.", version)
        if major is None or int(major[1]) < OLDEST_MAJOR:
            raise self._unusable(f"has version {version!r}: TerminusDB {OLDEST_MAJOR} or newer is needed")
        try:
            self._call("HEAD", f"/api/db/{self.address.path}")
        except TerminusRefusal as refusal:
            name = f"{self.address.organization}/{self.address.database}"
            if refusal.status == 404:
                problem = f"has no database {name}: create it first"
            else:
                problem = f"does not let user {self.address.user!r} use the database {name}"
            raise self._unusable(problem) from refusal

    def _unusable(self, problem: str) -> InvalidArgument:
        return InvalidArgument("sink", f"the server at {self.address.server} {problem}")

    def unavailable(self, cause: str) -> ReadModelUnavailable:
        return ReadModelUnavailable(str(self.address), cause=cause)

    # Documents.

    def query(
        self, branch: str, query: Mapping[str, Any], *, message: str | None = None
    ) -> tuple[dict[str, Any], str]:
        """The answer to a WOQL query, and the head of the branch; one that writes needs a message."""
        body: dict[str, Any] = {"query": query}
        if message is not None:
            body["commit_info"] = {"author": "driftq", "message": message}
        answer, head = self._versioned("POST", f"/api/woql/{self.branch_path(branch)}", body=body)
        if not isinstance(answer, dict) or not isinstance(answer.get("bindings"), list):
            raise self.unavailable("it answered a query without bindings")
        return answer, head

    def read(self, branch: str, selector: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The documents that a selector like `{"ids": […]}` finds; without `as_list` a 404 can be a 200."""
        path = f"/api/document/{self.branch_path(branch)}"
        answer = self._call("POST", path, body={**selector, "as_list": True}, headers=_READ_BY_POST)
        if not isinstance(answer, list):
            raise self.unavailable("it answered a read without a list")
        return answer

    def insert(
        self, branch: str, documents: list[dict[str, Any]], *, message: str, schema: bool = False
    ) -> None:
        """Insert all of them in one commit, or none; refused when one of them exists."""
        query: Query = {
            "author": "driftq",
            "message": message,
            "graph_type": "schema" if schema else None,
        }
        answer = self._call("POST", f"/api/document/{self.branch_path(branch)}", query=query, body=documents)
        self._require_ids(answer, len(documents))

    def upsert(self, branch: str, documents: list[dict[str, Any]], *, message: str) -> None:
        """Insert or replace all of them in one commit, or none."""
        query: Query = {"author": "driftq", "message": message, "create": True}
        answer = self._call("PUT", f"/api/document/{self.branch_path(branch)}", query=query, body=documents)
        self._require_ids(answer, len(documents))

    def delete(self, branch: str, ids: list[str], *, message: str) -> None:
        """Delete these documents in one commit; unknown ids are ignored."""
        query: Query = {"author": "driftq", "message": message}
        self._call("DELETE", f"/api/document/{self.branch_path(branch)}", query=query, body=ids)

    def _require_ids(self, answer: Any, count: int) -> None:
        """A request that arrives truncated is answered with 200 and fewer ids than it had documents."""
        if not isinstance(answer, list) or len(answer) != count:
            raise self.unavailable("it answered a write without the ids of its documents")

    # Branches.

    def branch_path(self, branch: str) -> str:
        return f"{self.address.path}/local/branch/{branch}"

    def create_branch(self, branch: str, *, origin: str | None = None) -> None:
        """At the head of another branch, else empty; refused when it exists."""
        body = {"schema": True} if origin is None else {"origin": self.branch_path(origin)}
        self._call("POST", f"/api/branch/{self.branch_path(branch)}", body=body)

    def delete_branch(self, branch: str) -> None:
        self._call("DELETE", f"/api/branch/{self.branch_path(branch)}")

    def head(self, branch: str) -> str:
        """The commit that a branch points at. The refusal of an absent one has no reason."""
        return self._versioned("HEAD", f"/api/document/{self.branch_path(branch)}")[1]

    def reset(self, branch: str, *, head: str) -> None:
        """Point it at this commit."""
        body = {"commit_descriptor": f"{self.address.path}/local/commit/{head}"}
        self._call("POST", f"/api/reset/{self.branch_path(branch)}", body=body)

    def optimize(self, branch: str) -> None:
        """Merge the layers of its commits, for faster reads; no commit changes."""
        self._call("POST", f"/api/optimize/{self.branch_path(branch)}", body={})

    # The one way out.

    def _versioned(self, method: str, path: str, *, body: Any = None) -> tuple[Any, str]:
        """An answer, and the commit that it is from."""
        answer, version = self._exchange(method, path, body=body)
        if version is None or not version.startswith(_OF_BRANCH):
            raise self.unavailable("it answered without a data version")
        return answer, version.removeprefix(_OF_BRANCH)

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        return self._exchange(method, path, query=query, body=body, headers=headers)[0]

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Any, str | None]:
        connection = BlockingConnection(self._endpoint, headers=self.address.headers)
        sent = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        try:
            response = connection.send(method, path, query=query, body=sent, headers=headers)
            status, text = response.status, response.read()
        except ServerUnreachable as error:
            raise self.unavailable(error.cause) from error
        finally:
            connection.close()
        return self._understand(status, text), response.header("TerminusDB-Data-Version")

    def _understand(self, status: int, text: bytes) -> Any:
        try:
            answer = json.loads(text) if text.strip() else None
        except ValueError:
            answer = text
        if status in _REFUSALS:
            raise TerminusRefusal(status, answer)
        if not 200 <= status < 300:
            raise self.unavailable(f"it answered {status}")
        if isinstance(answer, bytes):
            raise self.unavailable("its answer is not JSON")
        return answer
