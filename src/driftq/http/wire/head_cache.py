"""Heads of requests that were read before: most clients send the same few again and again.

The same bytes mean the same request: one whose head is known and whose body has come whole needs no parser.
Only plain heads are learned: HTTP/1.1 that stays open, a body of a given length, no wishes beside.
"""

from __future__ import annotations

from typing import NamedTuple

HEAD_BYTES_MAX = 1_024
HEADS_MAX = 1_024
HEAD_END = b"\r\n\r\n"


class CachedHead(NamedTuple):
    """What the parser made of a head."""

    method: bytes
    path: bytes
    query: bytes
    content_type: bytes
    body_bytes: int


class HeadCache(dict[bytes, CachedHead]):
    """By the head's bytes, its last line and the empty one behind it included."""

    def learn(self, octets: bytes, url: bytes, head: CachedHead) -> None:
        """Keep a head, if these are its bytes beyond doubt: it begins here, no line ends in another way."""
        begins = octets.startswith(b"%b %b HTTP/1.1\r\n" % (head.method, url))
        if begins and octets.count(b"\n") == octets.count(b"\r\n"):
            if len(self) >= HEADS_MAX:
                self.clear()  # Somebody sends ever new ones; those in use come back at once.
            self[octets] = head
