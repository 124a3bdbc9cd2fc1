"""`python -m tests.support.terminus FOLDER PORT [--version V] …`: serves until it is killed."""

from __future__ import annotations

import argparse
import base64
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.terminus.calls import VERSION, Calls
from tests.support.terminus.exchange import Answer, Call
from tests.support.terminus.history import History
from tests.support.terminus.refused import Refused


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls: ClassVar[Calls]
    password: ClassVar[str]

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        parts = urlsplit(self.path)
        authority = self._authority()
        if authority is None:
            refused = Refused(401, "IncorrectAuthenticationError", "Incorrect authentication information")
            answer = refused.answer("ErrorResponse")
            del answer["api:request_id"]
            return self._answer(Answer(401, answer))
        kind = self.headers.get("Content-Type", "application/json")
        if body and not kind.startswith("application/json"):
            message = f"Bad 'Content-Type' header value: '{kind}'. Expected value: 'application/json'"
            named = {"@type": "api:BadContentTypeErrorResponse", "api:message": message}
            return self._answer(Answer(400, {**named, "api:status": "api:failure"}))
        call = Call(
            method=self.headers.get("X-HTTP-Method-Override", self.command),
            segments=[unquote(one) for one in parts.path.removeprefix("/api/").split("/")],
            parameters=dict(parse_qsl(parts.query)),
            version=self.headers.get("TerminusDB-Data-Version"),
            body=body,
            authority=authority,
        )
        return self._answer(self.calls.answer(call))

    def _authority(self) -> str | None:
        given = self.headers.get("Authorization")
        if given is None:
            return "anonymous"
        pair = base64.b64decode(given.removeprefix("Basic ")).decode()
        return "admin" if pair == f"admin:{self.password}" else None

    def _answer(self, answer: Answer) -> None:
        text = answer.text
        if text is None:
            text = "" if answer.body is None else json.dumps(answer.body)
        sent = text.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        if answer.version is not None:
            self.send_header("Terminusdb-Data-Version", f"branch:{answer.version}")
        if answer.stream:
            self.send_header("Transfer-Encoding", "chunked")
            chunk = b"%x\r\n%s\r\n" % (len(sent), sent) if sent else b""
            sent = chunk + b"0\r\n\r\n"
        elif answer.status != 204:
            self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("port", type=int)
    arguments.add_argument("--password", default="root")
    arguments.add_argument("--version", default=VERSION)
    arguments.add_argument("--refused-text", help="a document that contains it does not fit its schema")
    arguments.add_argument("--refuse-unknown-ids", action="store_true", help="also in a list of ids")
    given = arguments.parse_args()
    Handler.password = given.password
    Handler.calls = Calls(
        History(given.folder),
        version=given.version,
        refused_text=given.refused_text,
        refuses_unknown_ids=given.refuse_unknown_ids,
    )
    Server(("127.0.0.1", given.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
