"""Every route of `/v1`, and the way from a request to its handler."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import msgspec

from driftq.errors import DriftQError, MethodNotAllowed, RouteNotFound
from driftq.http.api.broker_routes import BROKER_ROUTES
from driftq.http.api.openapi import document
from driftq.http.api.owning import become_owner
from driftq.http.api.params import unquote
from driftq.http.api.route import READ, ResponseSpec, Route
from driftq.http.api.tenancy import SHARED
from driftq.http.events.routes import EVENT_ROUTES
from driftq.http.explain.routes import EXPLAIN_ROUTES
from driftq.http.idempotency.routes import EFFECT_ROUTES
from driftq.http.jobs.routes import JOB_ROUTES
from driftq.http.pipelines.routes import PIPELINE_ROUTES
from driftq.http.queues.routes import QUEUE_ROUTES
from driftq.http.registry.routes import REGISTRY_ROUTES
from driftq.http.schedules.routes import SCHEDULE_ROUTES
from driftq.http.topics import handlers as topics
from driftq.http.ui.routes import UI_PATHS, UI_ROUTES
from driftq.http.wire.exchange import Exchange


def openapi(exchange: Exchange) -> None:
    topics.NOTHING.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _openapi(exchange))


async def _openapi(exchange: Exchange) -> None:
    """Made in a thread the first time: that takes some tens of milliseconds."""
    exchange.reply_ok(await asyncio.to_thread(_document, exchange.edge.options.version))


@cache
def _document(version: str) -> bytes:
    return msgspec.json.encode(document(ROUTES, version=version))


ROUTES = (
    *BROKER_ROUTES,
    *JOB_ROUTES,
    *SCHEDULE_ROUTES,
    *QUEUE_ROUTES,
    *EFFECT_ROUTES,
    *EXPLAIN_ROUTES,
    *EVENT_ROUTES,
    *REGISTRY_ROUTES,
    *PIPELINE_ROUTES,
    *UI_ROUTES,
    Route(
        method="GET",
        path="/v1/openapi.json",
        handler=openapi,
        roles=READ,
        tenants=SHARED,
        summary="This document",
        responses={200: ResponseSpec(text="OpenAPI 3.1", body=dict[str, Any])},
    ),
)

_BY_PATH: dict[bytes, dict[bytes, Route]] = {}
for _route in ROUTES:
    _BY_PATH.setdefault(_route.path.encode(), {})[_route.method.encode()] = _route

_TEMPLATES: dict[int, list[tuple[list[bytes], dict[bytes, Route]]]] = {}
"""Paths with names in them, by how many parts they have."""
for _path, _methods in _BY_PATH.items():
    if b"{" in _path:
        _parts = _path.split(b"/")
        _TEMPLATES.setdefault(len(_parts), []).append((_parts, _methods))


def dispatch(exchange: Exchange) -> None:
    """Answer a request, now or later. This is the boundary: it raises nothing."""
    try:
        methods = _BY_PATH.get(exchange.path)
        route = methods.get(exchange.method) if methods else None
        guard = exchange.edge.guard
        if route is None:
            if guard is not None and not exchange.path.startswith(UI_PATHS):
                guard.require_key(exchange)  # Without a key, not even what exists is told.
            route = find(exchange)
        if route.streams:
            exchange.parked = not exchange.connection.is_first(exchange)
            if exchange.parked:
                return
        if guard is not None:
            fresh = guard.admit(exchange, route)
            if fresh:
                become_owner(exchange, fresh, then=lambda: _handle(exchange, route))
                return
        route.handler(exchange)
    except DriftQError as refused:
        exchange.reply_error(refused)
    except Exception as error:  # noqa: BLE001 - the boundary: logged and answered
        exchange.failed(error)


def _handle(exchange: Exchange, route: Route) -> None:
    """The rest of a dispatch that had to wait: this is the boundary as well."""
    try:
        route.handler(exchange)
    except DriftQError as refused:
        exchange.reply_error(refused)
    except Exception as error:  # noqa: BLE001 - the boundary: logged and answered
        exchange.failed(error)


def find(exchange: Exchange) -> Route:
    """The route of a path with parameters, or of an absolute URL; otherwise the error to reply with."""
    path = exchange.path
    if b"://" in path[:12]:  # An absolute URL, as sent to a proxy.
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    methods = _BY_PATH.get(path) if b"{" not in path else None
    if methods is None:
        methods = _match(exchange, path.split(b"/"))
    route = methods.get(exchange.method)
    if route is None:
        allow = ", ".join(sorted(method.decode() for method in methods))
        raise MethodNotAllowed(exchange.method.decode(), allow=allow)
    return route


def _match(exchange: Exchange, parts: list[bytes]) -> dict[bytes, Route]:
    """The first template that matches; the exchange gets its parameters."""
    for template, methods in _TEMPLATES.get(len(parts), ()):
        pairs = list(zip(template, parts, strict=True))
        if all(part and (wanted.startswith(b"{") or wanted == part) for wanted, part in pairs[1:]):
            for wanted, part in pairs:
                if wanted.startswith(b"{"):
                    name = wanted.strip(b"{}").decode()
                    exchange.names[name] = unquote(part, name)
            exchange.topic = exchange.names.get("topic", "")
            exchange.group = exchange.names.get("group", "")
            return methods
    raise RouteNotFound(exchange.path[:200].decode(errors="replace"))
