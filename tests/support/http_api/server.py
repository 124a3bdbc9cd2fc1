"""`python server.py PORT FOLDER`: an HTTP API that counts its effects, and misbehaves as it is told.

`/keyed` performs an effect once for each Idempotency-Key and answers repeats as it did at first; `/plain`
performs one for every request. Effects and requests are lines in files, on disk before the answer. The file
`mode` says what happens to a request:

    ok                  performed and answered
    status CODE [S]     answered with this status, and Retry-After; not performed
    drop                read and not performed, the connection closed
    lose                performed, the connection closed without an answer
    break               performed, the answer cut off in its middle
    stall               read and not performed; no answer while the mode lasts
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(sys.argv[2])
_lock = threading.Lock()


def note(file: str, line: object) -> None:
    with (FOLDER / file).open("a") as lines:
        lines.write(json.dumps(line) + "\n")
        lines.flush()
        os.fsync(lines.fileno())


def lines(file: str) -> list[dict[str, str]]:
    path = FOLDER / file
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def mode() -> list[str]:
    return (FOLDER / "mode").read_text().split()


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key, token = self.headers["Idempotency-Key"], self.headers["Fencing-Token"]
        note("requests", {"key": key, "token": token, "value": value, "path": self.path})
        what, *given = mode()
        if what == "stall":
            while mode() == ["stall"]:
                time.sleep(0.02)
            what = "drop"
        if what == "drop":
            self.close_connection = True
            return
        if what == "status":
            self._answer(int(given[0]), {"value": "no"}, retry_after=given[1] if len(given) > 1 else None)
            return
        with _lock:
            known = [one for one in lines("effects") if one["key"] == key] if self.path == "/keyed" else []
            if not known:
                note("effects", {"key": key, "token": token, "value": value})
        if what == "lose":
            self.close_connection = True
            return
        self._answer(200, {"performed": known[0]["value"] if known else value}, cut=what == "break")

    def _answer(
        self, status: int, content: object, *, retry_after: str | None = None, cut: bool = False
    ) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        if 300 <= status < 400:
            self.send_header("Location", "/keyed")
        self.send_header("Content-Length", str(len(body) + (10 if cut else 0)))
        self.end_headers()
        self.wfile.write(body)
        if cut:
            self.close_connection = True

    def log_message(self, *args: object) -> None: ...


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Api)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
