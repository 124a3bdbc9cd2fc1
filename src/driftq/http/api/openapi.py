"""The OpenAPI document, made from the routes and from the very types that check their requests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from driftq.http.api.replies import ErrorReply
from driftq.http.api.route import ALWAYS, Route
from driftq.http.api.schemas import Request

_REFERENCE = "#/components/schemas/{name}"
_NAME = re.compile(r"\{(\w+)\}")
_ERRORS = {
    400: "INVALID_ARGUMENT: malformed, unknown, missing or out of range",
    403: "PERMISSION_DENIED: asked by a web page of another origin, or under a name that is not the server's",
    404: "NOT_FOUND: there is no such topic, job or effect",
    408: "REQUEST_TIMEOUT: the request came too slowly; nothing of it was done",
    409: "FAILED_PRECONDITION, ALREADY_EXISTS or CONFLICT: the lease, key, topic or sequence forbids it",
    413: "PAYLOAD_TOO_LARGE",
    429: "RESOURCE_EXHAUSTED: over a limit; Retry-After says when to try again",
    503: "UNAVAILABLE: not confirmed, not writing, or shutting down",
}


def document(routes: Iterable[Route], *, version: str) -> dict[str, Any]:
    """The whole document. Every reference in it leads to one of its components."""
    routes = tuple(routes)
    schemas = _Schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "DriftQ",
            "version": version,
            "description": "A durable message broker. Parameters are a JSON body or a query; a body that is "
            "not empty wins. Unknown fields and names are refused. HEAD is answered with 405.",
        },
        "paths": paths,
        "components": {"schemas": schemas.components},
    }


class _Schemas:
    """The schemas of all types, made in one go: what a type is called depends on those beside it."""

    def __init__(self, routes: Iterable[Route]) -> None:
        kinds = list(dict.fromkeys(kind for route in routes for kind in _types_of(route)))
        schemas, self.components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
        self._by_kind = dict(zip(kinds, schemas, strict=True))

    def of(self, kind: Any) -> dict[str, Any]:
        """A copy: whoever asks may add to it."""
        return dict(self._by_kind[kind])


def _types_of(route: Route) -> list[Any]:
    bodies = [answer.body for answer in route.answers.values()]
    return [kind for kind in (*bodies, route.body, route.lines, ErrorReply) if kind is not None]


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "responses": _responses(route, schemas),
    }
    if route.notes:
        operation["description"] = route.notes
    parameters = _parameters(route)
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": schemas.of(route.body)}}
        if route.lines is not None:
            content["application/x-ndjson"] = {"schema": {"type": "string"}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _operation_id(route: Route) -> str:
    words = _NAME.sub("one", route.path.removeprefix("/v1/")).replace(".", "_").split("/")
    return "_".join([route.method.lower(), *words])


def _parameters(route: Route) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    for name in _NAME.findall(route.path):
        parameters.append({"name": name, "in": "path", "required": True, "schema": {"type": "string"}})
    if route.query is not None:
        parameters += _query_parameters(route.query, instead=route.body is not None)
    return parameters


def _query_parameters(kind: type[Request], *, instead: bool) -> list[dict[str, Any]]:
    """The fields that a query can carry; none is required where a body may stand instead."""
    parameters: list[dict[str, Any]] = []
    for field in msgspec.structs.fields(kind):
        (schema,), _ = msgspec.json.schema_components([field.type], ref_template=_REFERENCE)
        kinds = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
        if kinds[0].get("type") in ("array", "object") or "$ref" in kinds[0]:
            continue
        plain = dict(kinds[0])
        if "enum" in plain:
            plain["enum"] = [word for word in plain["enum"] if word is not None]
        required = field.required and not instead
        parameters.append({"name": field.encode_name, "in": "query", "required": required, "schema": plain})
    return parameters


def _responses(route: Route, schemas: _Schemas) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, answer in route.answers.items():
        responses[str(status)] = response = {"description": answer.text}
        if status != 204:
            is_json = answer.content_type == "application/json"
            schema = schemas.of(answer.body) if is_json else {"type": "string"}
            if answer.body is not None and not is_json:
                schema["description"] = f"Lines of {answer.body.__name__}"
            response["content"] = {answer.content_type: {"schema": schema}}  # type: ignore[assignment]
    for status in sorted({*ALWAYS, *route.errors}):
        responses[str(status)] = {
            "description": _ERRORS[status],
            "content": {"application/json": {"schema": schemas.of(ErrorReply)}},
        }
    for status, header in ((429, "Retry-After"),):
        if str(status) in responses:
            responses[str(status)]["headers"] = {header: {"schema": {"type": "integer"}}}
    return responses
