"""The dashboard's files: one page for every address below `/v1/ui/`, and its scripts and styles.

They are part of the package, and read once. The page's scripts decide by the address what to show, so a link
into the dashboard, or a reload, gets the same page. Browsers ask each time whether a file has changed: a new
release is never mixed with an old one.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

from driftq.errors import RouteNotFound
from driftq.http.wire.exchange import HTML, Exchange

HOME = "/v1/ui/"
PAGES = frozenset(
    ("topics", "messages", "groups", "jobs", "queues", "schedules", "dlq", "runs", "events", "registry")
) | {"pipelines"}
"""The first words of the addresses that the page knows."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SHELL = "index.html"
_KINDS = {"html": HTML, "js": b"text/javascript; charset=utf-8", "css": b"text/css; charset=utf-8"}
_HEADERS = (
    b"Cache-Control: no-cache\r\n"
    b"Content-Security-Policy: " + CONTENT_SECURITY_POLICY.encode() + b"\r\n"
    b"X-Content-Type-Options: nosniff\r\n"
    b"Referrer-Policy: same-origin\r\n"
    b"Cross-Origin-Opener-Policy: same-origin\r\n"
    b"Cross-Origin-Resource-Policy: same-origin\r\n"
)


class StaticFile(msgspec.Struct, frozen=True):
    """A file with its headers."""

    content: bytes
    content_type: bytes
    etag: bytes


@cache
def static_files() -> dict[str, StaticFile]:
    """Every file of the dashboard by its name below `static/`."""
    return dict(_files_in(files("driftq.http.ui") / "static", ""))


def _files_in(folder: Traversable, prefix: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            found += _files_in(entry, f"{name}/")
        elif (kind := _KINDS.get(entry.name.rpartition(".")[2])) is not None:
            content = entry.read_bytes()
            etag = b'"%b"' % hashlib.sha256(content).hexdigest()[:20].encode()
            found.append((name, StaticFile(content, kind, etag)))
    return found


def to_home(exchange: Exchange) -> None:
    """From `/v1/ui` to `/v1/ui/`."""
    heads = exchange.edge.heads
    exchange.reply(heads.whole(302, b"", content_type=HTML, extra=b"Location: %b\r\n" % HOME.encode()))


def page(exchange: Exchange) -> None:
    """The page. It reads the query itself, so that every name in it is allowed."""
    name = exchange.names.get("page")
    if name is not None and name not in PAGES:
        raise RouteNotFound(exchange.path[:200].decode(errors="replace"))
    _send(exchange, static_files()[_SHELL])


def static(exchange: Exchange) -> None:
    names = exchange.names
    name = f"{names['folder']}/{names['file']}" if "folder" in names else names["file"]
    found = static_files().get(name)
    if found is None or name == _SHELL:
        raise RouteNotFound(exchange.path[:200].decode(errors="replace"))
    _send(exchange, found)


def _send(exchange: Exchange, file: StaticFile) -> None:
    heads = exchange.edge.heads
    extra = b"%bETag: %b\r\n" % (_HEADERS, file.etag)
    if file.etag in exchange.etags:
        exchange.reply(heads.bare(304, extra=extra))
    else:
        exchange.reply(heads.whole(200, file.content, content_type=file.content_type, extra=extra))
