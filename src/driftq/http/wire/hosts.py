"""Which requests are answered at all: those of programs, and in a browser those of this server's own pages.

A browser lets every page send requests to every address, and so to a server that only this machine can reach.
It names the page's origin in `Sec-Fetch-Site` and `Origin`. A page that points its own host name at this
machine (DNS rebinding) passes for the server's own, but `Host` carries that name; so only configured host
names are allowed, and IP addresses, which cannot be rebound. Programs send neither of the first two: only
their `Host` is checked, and a request without one does not come from a browser.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from driftq.errors import HostRefused, PageRefused, PermissionDenied

_OWN_PAGE = (b"same-origin", b"none")
"""What a browser sends for a page of this server, and for an address that its user entered."""
_HOST = re.compile(r"(\[[0-9a-f:.]+(?:%[\w.~-]+)?\]|[\w.~-]+)(?::([0-9]{0,5}))?", re.ASCII)
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(.+)", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SHOWN_MAX = 255


class _Host(NamedTuple):
    name: str
    """In lower case, without a trailing dot; an IP address in its canonical form."""
    port: int | None
    is_address: bool


class HostRule:
    """Decides by the three headers alone, so that the same bytes always get the same decision."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names` are this server's, besides `localhost`; case and a trailing dot are ignored."""
        self._names = frozenset({"localhost", *(name.lower().removesuffix(".") for name in names)})

    def refusal(
        self, *, host: bytes | None, origin: bytes | None, site: bytes | None
    ) -> PermissionDenied | None:
        """Why this request is refused; None when it is allowed. A header that was not sent is None."""
        if site is not None and site.strip().lower() not in _OWN_PAGE:
            return _foreign("Sec-Fetch-Site", site, host)
        if origin is not None and not _is_same(origin, host):
            return _foreign("Origin", origin, host)
        if host is not None:
            read = _read_host(host)
            if read is None or not (read.is_address or read.name in self._names):
                return HostRefused(_shown(host) if read is None else read.name)
        return None


def _foreign(header: str, value: bytes, host: bytes | None) -> PageRefused:
    return PageRefused(header=header, value=_shown(value), host="" if host is None else _shown(host))


def _shown(value: bytes) -> str:
    return value[:_SHOWN_MAX].decode("latin-1")


def _is_same(origin: bytes, host: bytes | None) -> bool:
    """Host and port are the same; a missing port is the default of the origin's scheme."""
    found = _ORIGIN.fullmatch(origin.decode("latin-1").strip().lower())
    source = _read_host(found[2].encode("latin-1")) if found else None
    target = _read_host(host) if host is not None else None
    if found is None or source is None or target is None or source.name != target.name:
        return False
    usual = _DEFAULT_PORTS.get(found[1])
    return (source.port or usual) == (target.port or usual)


@lru_cache(maxsize=256)
def _read_host(value: bytes) -> _Host | None:
    """A name or an address with an optional port; None when it is neither."""
    found = _HOST.fullmatch(value.decode("latin-1").strip().lower())
    if found is None:
        return None
    name = found[1].removesuffix(".")
    port = int(found[2]) if found[2] else None
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None if name.startswith("[") or not name else _Host(name, port, is_address=False)
    return _Host(str(address), port, is_address=True)
