"""The stand-in answers the recorded calls as the real server did: each recorded request is sent to it.

`recorded.jsonl` has 103 calls of a TerminusDB 12.0.6 and its answers. Names that the server makes up differ
(commits, layers, times); which of them are equal to each other does not. Writes that nobody recorded are made
up for here.
"""

import base64
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.services_terminusdb import TerminusProcess

RECORDED = Path(__file__).with_name("recorded.jsonl")
CALLS = [json.loads(line) for line in RECORDED.read_text().splitlines()]
VERSION = "TerminusDB-Data-Version"
MADE_UP = frozenset({"api:request_id", "timestamp", "instance", "schema"})
AUTHORITIES = {"Basic <user:password>": "admin:root", "Basic <wrong>": "admin:wrong"}
DOC = {"@type": "Class", "@id": "Doc", "sequence": "xsd:integer", "title": "xsd:string"}


class Replay:
    """The calls in their order, and our name for each name that the recorded server had made up."""

    def __init__(self, port: int) -> None:
        self._http = HTTPConnection("127.0.0.1", port, timeout=60)
        self._ours: dict[str, str] = {}
        self.close = self._http.close

    def send(self, request: dict[str, Any]) -> tuple[int, str | None, Any]:
        """Status, data version and body of the answer."""
        headers = dict(request["headers"])
        if "Authorization" in headers:
            pair = AUTHORITIES[headers["Authorization"]]
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        if VERSION in headers:
            headers[VERSION] = self.translated(headers[VERSION])
        body = request["body"]
        if body is not None and not isinstance(body, str):
            body = self.translated(json.dumps(in_full(body)))
        self._http.request(request["method"], request["path"], body, headers)
        response = self._http.getresponse()
        return response.status, response.getheader(VERSION), read_body(response.read().decode())

    def setup(self, method: str, path: str, body: Any) -> None:
        headers = {"Authorization": "Basic <user:password>", "Content-Type": "application/json"}
        status, _, answer = self.send({"method": method, "path": path, "headers": headers, "body": body})
        assert status == 200, answer

    def translated(self, text: str) -> str:
        for theirs, ours in self._ours.items():
            text = text.replace(theirs, ours)
        return text

    def same(self, theirs: Any, ours: Any) -> bool:
        """Equal but for names that are made up; each of theirs stands for one of ours from then on."""
        if isinstance(theirs, dict) and isinstance(ours, dict):
            return set(theirs) == set(ours) and all(
                name in MADE_UP or self.same(value, ours[name]) for name, value in theirs.items()
            )
        if isinstance(theirs, list) and isinstance(ours, list):
            return len(theirs) == len(ours) and all(map(self.same, theirs, ours))
        if isinstance(theirs, str) and isinstance(ours, str) and theirs != ours:
            theirs, ours = theirs.rpartition("/")[2], ours.rpartition("/")[2]
            is_name = len(theirs.removeprefix("branch:")) == len(ours.removeprefix("branch:")) == 31
            return is_name and self._ours.setdefault(theirs, ours) == ours
        return bool(theirs == ours)


def in_full(body: Any) -> Any:
    """A request of a thousand documents was recorded by its first and last ones."""
    if not isinstance(body, dict) or "documents" not in body:
        return body
    first = body["first"][0]
    stem = first["@id"].removesuffix("0000")
    return [{**first, "@id": f"{stem}{number:04}"} for number in range(body["documents"])]


def read_body(text: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except ValueError:
        pass
    lines = text.splitlines()
    try:
        return {"ndjson": [json.loads(line) for line in lines]}
    except ValueError:
        return {"text": text}


def summarized(theirs: Any, ours: Any) -> Any:
    """Our body in the form in which the recording has a long one."""
    if isinstance(theirs, dict) and "items" in theirs:
        return {"items": len(ours), "first": ours[:2], "last": ours[-1]}
    if isinstance(theirs, dict) and "ndjson_lines" in theirs:
        return {"ndjson_lines": len(ours["ndjson"]), "first": ours["ndjson"][:2]}
    if isinstance(theirs, dict) and "text" in theirs:
        head, _, answer = ours["text"].rpartition("\n\n")
        return {"text": head, "answer": json.loads(answer)}
    if isinstance(theirs, dict) and "api:variable_names" in theirs:
        return {**ours, "api:variable_names": sorted(ours["api:variable_names"])}
    return ours


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    server = TerminusProcess()
    replay = Replay(server.port)
    yield replay
    replay.close()
    server.remove()


@pytest.mark.clause("V7")
def test_every_recorded_call_is_answered_as_it_was(replay: Replay) -> None:
    differing: list[tuple[object, ...]] = []
    for call in CALLS:
        if call["n"] == 84:
            begin_second_part(replay)
        status, version, ours = replay.send(call["request"])
        theirs = call["response"]["body"]
        found = summarized(theirs, ours)
        wanted = summarized(theirs, theirs) if is_reordered(theirs) else theirs
        known_version = call["response"]["headers"].get("Terminusdb-Data-Version")
        if status != call["response"]["status"] or not replay.same(wanted, found):
            differing.append((call["n"], call["name"], status, found))
        elif (version is None) != (known_version is None) or not replay.same(known_version, version):
            differing.append((call["n"], call["name"], "data version", version))
    assert differing == []
    assert len(CALLS) == 103


def is_reordered(theirs: Any) -> bool:
    return isinstance(theirs, dict) and ("api:variable_names" in theirs or "text" in theirs)


def begin_second_part(replay: Replay) -> None:
    """The database was made again, with three documents, and nobody recorded it."""
    replay.setup("POST", "/api/db/admin/rm", {"label": "rm", "comment": "", "schema": True})
    query = "?author=driftq&message=m"
    replay.setup("POST", f"/api/document/admin/rm{query}&graph_type=schema", [DOC])
    for sequence in (0, 1):
        documents = [
            {"@type": "Doc", "@id": f"Doc/{name}", "sequence": sequence, "title": f"t{sequence}"}
            for name in "abc"
        ]
        replay.setup("PUT", f"/api/document/admin/rm{query}&create=true", documents)
