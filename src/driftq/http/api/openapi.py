"""The OpenAPI document, made from the routes and from the types that validate their requests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from driftq.access.keys import Role
from driftq.http.api.route import ALWAYS, Route
from driftq.http.api.tenancy import tenancy_of
from driftq.model.envelope import EnvelopeBody, MessageRetryPolicy
from driftq.model.wire.fields import Request
from driftq.model.wire.system import ErrorReply

_KEY = "key"
_REFERENCE = "#/components/schemas/{name}"
_NAME = re.compile(r"\{(\w+)\}")
_WITHOUT_BODY = (204, 302, 304)
_ERRORS = {
    400: "INVALID_ARGUMENT: malformed, unknown, missing or out of range",
    401: "UNAUTHENTICATED: the server has a keys file, and the request carries no valid key",
    403: "PERMISSION_DENIED: the key lacks the role or the topic, or has another tenant; or a web page of "
    "another origin sent the request, or the host name is not allowed",
    404: "NOT_FOUND: there is no such topic, job or effect",
    408: "REQUEST_TIMEOUT: the request arrived too slowly; the server did nothing with it",
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
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                _KEY: {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "dq_<id>_<secret>",
                    "description": "An API key, if the server has a keys file; the names are roles, of which "
                    "the key needs one.",
                }
            },
        },
    }


class _Schemas:
    """The schemas of all types, made together: a type's name depends on the other types."""

    def __init__(self, routes: Iterable[Route]) -> None:
        kinds = list(dict.fromkeys(kind for route in routes for kind in _types_of(route)))
        schemas, self.components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
        self._by_kind = dict(zip(kinds, schemas, strict=True))
        _add_errors(self.components)
        for kind in _structs(msgspec.inspect.multi_type_info(kinds)):
            if not issubclass(kind, Request | EnvelopeBody | MessageRetryPolicy):
                self._require(kind)

    def _require(self, kind: type[msgspec.Struct]) -> None:
        """A reply has each of its fields, except those that are left out when they have their default."""
        schema = self.components[kind.__name__]
        named = schema.get("required", [])
        written = [
            field.encode_name for field in msgspec.structs.fields(kind) if _is_always_written(kind, field)
        ]
        required = [*named, *(name for name in written if name not in named)]
        if required:
            schema["required"] = required

    def of(self, kind: Any) -> dict[str, Any]:
        """A copy, which the caller may change; for several types, any of them."""
        if isinstance(kind, tuple):
            return {"anyOf": [self.of(part) for part in kind]}
        return dict(self._by_kind[kind])


def _add_errors(schema: Any) -> None:
    """Where results may be errors (`OR_ERROR`), declare that in JSON Schema."""
    if isinstance(schema, dict):
        if schema.pop("x-or-error", False):
            schema["items"] = {"anyOf": [schema["items"], {"$ref": _REFERENCE.format(name="ErrorReply")}]}
        for part in schema.values():
            _add_errors(part)
    elif isinstance(schema, list):
        for part in schema:
            _add_errors(part)


def _structs(infos: Iterable[Any]) -> set[type[msgspec.Struct]]:
    """The structs among these types, and those that they are made of."""
    found: set[type[msgspec.Struct]] = set()
    waiting = list(infos)
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls not in found:
                found.add(info.cls)
                waiting += [field.type for field in info.fields]
        elif isinstance(info, msgspec.inspect.UnionType):
            waiting += info.types
        elif isinstance(info, msgspec.inspect.Metadata):
            waiting.append(info.type)
        elif isinstance(info, msgspec.inspect.DictType):
            waiting.append(info.value_type)
        elif isinstance(info, msgspec.inspect.ListType):
            waiting.append(info.item_type)
    return found


def _is_always_written(kind: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> bool:
    if field.required:
        return True
    if field.default is msgspec.UNSET:
        return False
    omits = kind.__struct_config__.omit_defaults
    return not omits or field.default_factory not in (msgspec.NODEFAULT, list, dict)


def _types_of(route: Route) -> list[Any]:
    kinds: list[Any] = []
    for body in (*(spec.body for spec in route.responses.values()), route.body, route.lines, ErrorReply):
        kinds += body if isinstance(body, tuple) else [] if body is None else [body]
    return kinds


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "responses": _responses(route, schemas),
    }
    if route.roles is None:
        operation["security"] = []
    else:
        operation["security"] = [{_KEY: [role]} for role in (*route.roles, Role.ADMIN)]
    if route.topics is not None:
        operation["x-topic-patterns"] = True
    operation["x-tenant-keys"] = _tenant_keys(route)
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


def _tenant_keys(route: Route) -> str:
    tenancy = tenancy_of(route)
    return "none" if tenancy is None else "all" if tenancy.shared else "own"


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
    """The fields that a query can carry; none is required where a body can replace them."""
    parameters: list[dict[str, Any]] = []
    for field in msgspec.structs.fields(kind):
        (schema,), _ = msgspec.json.schema_components([field.type], ref_template=_REFERENCE)
        kinds = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
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
    for status, spec in route.responses.items():
        responses[str(status)] = response = {"description": spec.text}
        if status not in _WITHOUT_BODY:
            is_json = spec.content_type == "application/json"
            schema = schemas.of(spec.body) if is_json else {"type": "string"}
            if spec.body is not None and not is_json:
                schema["description"] = f"Lines of {spec.body.__name__}"
            response["content"] = {spec.content_type: {"schema": schema}}  # type: ignore[assignment]
    for status in sorted({*ALWAYS, *route.errors}):
        responses[str(status)] = {
            "description": _ERRORS[status],
            "content": {"application/json": {"schema": schemas.of(ErrorReply)}},
        }
    for status, header, kind in ((401, "WWW-Authenticate", "string"), (429, "Retry-After", "integer")):
        responses[str(status)]["headers"] = {header: {"schema": {"type": kind}}}
    return responses
