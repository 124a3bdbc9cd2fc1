"""Logging in to the dashboard with an API key: `POST` and `DELETE /v1/ui/session`."""

from __future__ import annotations

from driftq.access.keys import ApiKey
from driftq.access.sessions import COOKIE, SESSION_S
from driftq.http.api.params import Form
from driftq.http.system.handlers import whoami_of
from driftq.http.wire.exchange import JSON, Exchange, encode
from driftq.model.wire.fields import Request
from driftq.model.wire.ui import LoginBody

LOGIN = Form(LoginBody)
NOTHING = Form(Request)


def log_in(exchange: Exchange) -> None:
    """Answer as `whoami` does, with a cookie that stands for the key.

    Without a keys file every caller may do everything, and there is nothing to log in to.
    """
    NOTHING.check_query(exchange.query)  # A key in a URL would be in logs.
    asked = LOGIN.read(exchange.body or b"{}", b"")
    guard = exchange.edge.guard
    key: ApiKey | None = None
    cookie = b""
    if guard is not None:
        key, name = guard.log_in(exchange, asked.key)
        cookie = _cookie(exchange, name, age_s=SESSION_S)
    exchange.reply(
        exchange.edge.heads.whole(200, encode(whoami_of(key)), content_type=JSON, extra=_NO_STORE + cookie)
    )


def log_out(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    guard = exchange.edge.guard
    if guard is not None:
        guard.log_out(exchange.cookie)
    exchange.reply(exchange.edge.heads.bare(204, extra=_cookie(exchange, "", age_s=0)))


_NO_STORE = b"Cache-Control: no-store\r\n"


def _cookie(exchange: Exchange, name: str, *, age_s: int) -> bytes:
    """No script can read it, and no page of another site can send it."""
    secure = b"; Secure" if exchange.edge.options.tls_cert is not None else b""
    return b"Set-Cookie: %b=%b; Path=/v1; Max-Age=%d; HttpOnly; SameSite=Strict%b\r\n" % (
        COOKIE.encode(),
        name.encode(),
        age_s,
        secure,
    )
