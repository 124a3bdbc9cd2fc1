"""GET /v1/pipelines, POST /v1/pipelines/{name}/progress: the newest report of each job."""

from __future__ import annotations

from driftq.errors import InvalidArgument
from driftq.http.api.params import Form, check_name
from driftq.http.wire.exchange import Exchange
from driftq.model.wire.fields import NAME_MAX
from driftq.model.wire.pipelines import PipelineReport, PipelinesQuery

PIPELINES = Form(PipelinesQuery)
REPORT = Form(PipelineReport)
_PAGE = 100


def list_pipelines(exchange: Exchange) -> None:
    asked = PIPELINES.read(exchange.body, exchange.query)
    reports = exchange.edge.broker.pipelines
    exchange.reply_json(reports.page(limit=asked.limit or _PAGE, after=asked.after))


def report_progress(exchange: Exchange) -> None:
    REPORT.check_query(exchange.query)
    if not exchange.body:
        raise InvalidArgument("", "the body must be a report")
    report = REPORT.read(exchange.body, exchange.query)
    name = exchange.names["name"]
    check_name("name", name)
    if len(name) > NAME_MAX:
        raise InvalidArgument("name", f"has more than {NAME_MAX} characters")
    exchange.edge.broker.pipelines.note(name, report)
    exchange.reply_done()
