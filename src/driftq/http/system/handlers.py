"""What the server says about itself: alive, ready, which version, how busy."""

from driftq.access.keys import ApiKey, Role
from driftq.errors import Unavailable
from driftq.http.api.docs_page import PAGE
from driftq.http.api.params import Form
from driftq.http.system.metrics import scrape
from driftq.http.wire.exchange import HTML, Exchange
from driftq.model.wire.fields import Request
from driftq.model.wire.system import ClockWarning, ReadyReply, StatusReply, VersionReply, WhoamiReply
from driftq.server.clock import log_ahead_ms, log_ahead_text
from driftq.server.requests import SealRequest

NOTHING = Form(Request)
_PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"


def healthz(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    exchange.reply_json(StatusReply("ok"))


def readyz(exchange: Exchange) -> None:
    """A log ahead of the wall clock is only a warning: the server works, and a refusal helps nothing."""
    NOTHING.read(exchange.body, exchange.query)
    edge = exchange.edge
    refusal = edge.engine.refusal
    ahead_ms = log_ahead_ms(edge.clock)
    if edge.guard is not None and exchange.caller is None:  # Without a key, the status and no more.
        if refusal is not None:
            exchange.reply_error(Unavailable("not ready"))
        else:
            exchange.reply_json(ReadyReply("ready"))
    elif refusal is not None:
        exchange.reply_error(refusal)
    elif ahead_ms:
        warning = ClockWarning(code="log_ahead_of_clock", message=log_ahead_text(ahead_ms), ahead_ms=ahead_ms)
        exchange.reply_json(ReadyReply(status="ready", warnings=[warning]))
    else:
        exchange.reply_json(ReadyReply("ready"))


def whoami(exchange: Exchange) -> None:
    """Without a keys file every caller may do everything, and has no name."""
    NOTHING.read(exchange.body, exchange.query)
    exchange.reply_json(whoami_of(exchange.caller))


def whoami_of(key: ApiKey | None) -> WhoamiReply:
    """What a key may do; None where no key is needed."""
    if key is None:
        return WhoamiReply(name="", roles=list(Role), tenant=None, topics=[])
    roles: list[str] = [role for role in Role if role in key.roles]
    return WhoamiReply(name=key.name, roles=roles, tenant=key.tenant, topics=list(key.topics))


def version(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    edge = exchange.edge
    options = edge.broker.options
    exchange.reply_json(
        VersionReply(
            version=edge.options.version,
            commit=edge.options.commit,
            wal_enabled=options.durable,
            fsync=options.fsync.value,
        )
    )


def seal(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    reply = exchange.answering(lambda _: exchange.reply_json(StatusReply("sealed")))
    exchange.edge.engine.submit(SealRequest(reply))


def metrics(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _scrape(exchange))


async def _scrape(exchange: Exchange) -> None:
    exchange.reply_parts(await scrape(exchange.edge), content_type=_PROMETHEUS)


def docs(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    exchange.reply(exchange.edge.heads.whole(200, PAGE, content_type=HTML))
