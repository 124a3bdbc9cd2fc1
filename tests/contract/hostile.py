"""Requests that no friend would send: hostile names, headers and payloads for the routes of the document."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

LONG = "x" * 5_000
NAMES: Sequence[str] = (
    "..", ".", "../", "../../../../etc/passwd", "..\\..\\boot.ini", "/etc/passwd", "//etc/shadow",
    "C:\\x", "%2e%2e", "%2e%2e%2fetc%2fpasswd", "..%2f..%2f", "%252e%252e", "....//....//",
    "a/../../b", "\x00", "orders\x00.db", "\x00/etc/passwd", "~", "~jobs", "~effects", "~root",
    "dlq.", "dlq..", "dlq.dlq.x", "events.", "events.../../x", "_internal", "*", "?", "[", "[a-z]",
    "{topic}", "{}", "%", "%zz", "%00", "+", "&", "=", ";", "con", "nul", "-rf", "--help", "$(id)",
    "`id`", "|id", "' OR 1=1 --", '"; DROP TABLE events; --', "1e309", "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>', "javascript:alert(1)", "{{7*7}}", "${7*7}",
    "\r\nX-Injected: yes\r\n\r\n", "a\r\nSet-Cookie: a=b", "\t", "\x7f", "\x1b[31m", "\u202e",
    "\u200b", "\ufeff", "é", "e\u0301", "日本", "😀" * 50, "İ", "ß", "\U0010ffff", LONG, "é" * 3_000,
    "", " ", "null", "true", "-1", "NaN", "\u2028", "audit.log", "keys.json", "../keys.json",
    "../log/manifest", "events.db", "sealed", "00000001.log",
)  # fmt: skip
NUMBERS: Sequence[Any] = (
    0, 1, -1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**400, 1.5, -0.0, 1e308, 1e-320,
)  # fmt: skip
HEADERS: Sequence[bytes] = (
    b"Content-Type: application/x-ndjson",
    b"Content-Type: text/html; charset=\xff",
    b"Content-Type: " + b"a" * 9_000,
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: identity, chunked",
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999",
    b"Content-Length: 3",
    b"Expect: 100-continue",
    b"Connection: Upgrade\r\nUpgrade: websocket",
    b"Host: evil.example",
    b"Origin: https://evil.example",
    b"Sec-Fetch-Site: cross-site",
    b"X-Forwarded-For: 127.0.0.1",
    b"X-Original-URL: /v1/metrics",
    b"X-HTTP-Method-Override: DELETE",
    b"Cookie: session=../../etc/passwd",
    b"traceparent: 00-zz-zz-zz",
    b"Accept: \x00",
    b"X-\xff: y",
    b"Range: bytes=0-18446744073709551615",
    b": empty",
    b"NoColon",
    b"X-Many: " + b"y" * 30_000,
)
_WAITING = frozenset({"wait_ms", "rate_per_s"})
"""With these a sound request would take its time."""


def hostile_value(rng: random.Random, depth: int = 0) -> Any:
    """Any JSON value that a field was not made for."""
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind < 3:
        return rng.choice(NAMES)
    if kind < 5:
        return rng.choice(NUMBERS)
    if kind == 5:
        return rng.choice([None, True, False, [], {}])
    if kind == 6:
        return [hostile_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 7:
        return {rng.choice(NAMES): hostile_value(rng, depth + 1) for _ in range(rng.randrange(3))}
    return json.loads("[" * 200 + "]" * 200)


def spoil(rng: random.Random, value: Any, name: str = "") -> Any:
    """The value with some of its parts replaced."""
    if name in _WAITING or rng.random() < 0.3:
        return hostile_value(rng) if name not in _WAITING else rng.choice([-1, 0, "x", None, 2**70])
    if isinstance(value, dict):
        spoilt = {field: spoil(rng, part, field) for field, part in value.items()}
        if rng.random() < 0.2:
            spoilt[rng.choice(NAMES)] = hostile_value(rng)
        if spoilt and rng.random() < 0.2:
            spoilt.pop(rng.choice(list(spoilt)))
        return spoilt
    if isinstance(value, list):
        return [spoil(rng, part) for part in value] * rng.choice([1, 1, 1, 0, 50])
    return value


def spoilt_body(rng: random.Random, body: bytes) -> bytes:
    kind = rng.randrange(12)
    if kind == 0:
        return rng.randbytes(rng.randrange(400))
    if kind == 1:
        return b"[" * rng.choice([10, 2_000, 60_000])
    if kind == 2:
        return body[: rng.randrange(len(body) + 1)]
    if kind == 3:
        return b'{"topic":"\\ud800","value":"\xff\xfe"}'
    if kind == 4:
        return body.replace(b'"', b"'")
    value = json.loads(body) if body else hostile_value(rng)
    return json.dumps(spoil(rng, value), ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")


def spoilt_path(rng: random.Random, template: str, names: dict[str, str]) -> bytes:
    """The template with hostile names in it: quoted, quoted twice, or as they are."""
    parts: list[bytes] = []
    for part in template.split("/"):
        if part.startswith("{"):
            known = names.get(part.strip("{}"), "x")
            name = known if rng.random() < 0.2 else rng.choice(NAMES)
            way = rng.randrange(4)
            if way == 0:
                parts.append(name.encode(errors="surrogatepass").replace(b" ", b"+"))
            else:
                once = quote(name, safe="", errors="surrogatepass")
                parts.append((once if way < 3 else quote(once, safe="")).encode())
        else:
            parts.append(part.encode())
    path = b"/".join(parts)
    if rng.random() < 0.05:
        path = rng.choice(
            [b"/v1/../../etc/passwd", b"//v1/topics", b"/v1/%2e%2e/keys.json", b"/v1/ui/../../x", b"*"]
        )
    if rng.random() < 0.4:
        pairs = [
            quote(
                rng.choice(["topic", "limit", "from", "queue", "after", "state", rng.choice(NAMES)]), safe=""
            )
            + "="
            + quote(rng.choice([*NAMES, str(rng.choice(NUMBERS))]), safe="", errors="surrogatepass")
            for _ in range(rng.randrange(1, 4))
        ]
        path += b"?" + "&".join(pairs).encode()
    return path


def request(rng: random.Random, method: str, path: bytes, body: bytes, authorization: bytes | None) -> bytes:
    """The bytes of a request, with a few headers that do not belong there."""
    if rng.random() < 0.05:
        method = rng.choice(["HEAD", "PUT", "OPTIONS", "TRACE", "CONNECT", "PATCH", "GE\x00T", "x" * 300])
    lines = [b"%b %b HTTP/1.1" % (method.encode(), path)]
    if rng.random() < 0.97:
        lines.append(b"Host: localhost")
    if authorization is not None:
        lines.append(b"Authorization: " + authorization)
    if body or method in ("POST", "PUT"):
        lines.append(b"Content-Length: %d" % len(body))
    if rng.random() < 0.15:
        lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(HEADERS))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
