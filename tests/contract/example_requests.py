"""A request for any route of the OpenAPI document: parameters and bodies from the schemas and from examples.

A field or parameter gets the example of its name, else a value of its type. So a route that is added later is
scanned as well; if it needs a particular value, its name belongs into the examples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

Examples = Mapping[str, Any]

PLAIN: Examples = {
    "group": "g",
    "owner": "o",
    "lease_ms": 1_000,
    "idempotency_key": "k",
    "offset": 0,
    "partition": 0,
    "at": "2026-01-01T00:00:00Z",
    "run_at": "2026-01-01T00:00:00Z",
    "cron": "* * * * *",
    "to": "latest",
    "token": 1,
    "max": 1,
    "operation": "append",
    "event_type": "made",
}


@dataclass(frozen=True)
class ExampleRequest:
    method: str
    template: str
    path: str
    body: bytes
    roles: frozenset[str]
    """Empty: the route needs no key."""
    tenant_keys: str
    """`all`, `own` or `none`."""
    names: frozenset[str]
    """The path's parameters and the fields that are sent."""


def example_requests(document: Any, examples: Examples) -> Iterator[ExampleRequest]:
    """One for each operation of the document."""
    known = {**PLAIN, **examples}
    schemas = document["components"]["schemas"]
    for template, operations in document["paths"].items():
        for method, operation in operations.items():
            parameters = operation.get("parameters", [])
            in_path = [one["name"] for one in parameters if one["in"] == "path"]
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            query = {
                one["name"]: _value(one["schema"], one["name"], known, schemas)
                for one in parameters
                if one["in"] == "query" and one["required"]
            }
            body = _value(content["schema"], "", known, schemas) if content else None
            path = re.sub(r"\{(\w+)\}", lambda found: quote(str(known.get(found[1], "x")), safe=""), template)
            yield ExampleRequest(
                method=method.upper(),
                template=template,
                path=path + ("?" + urlencode(query) if query else ""),
                body=b"" if body is None else json.dumps(body).encode(),
                roles=frozenset(role for way in operation["security"] for role in way["key"]),
                tenant_keys=operation["x-tenant-keys"],
                names=frozenset({*in_path, *query, *_names(body)}),
            )


def _names(body: Any) -> Iterator[str]:
    if isinstance(body, dict):
        yield from body
        for value in body.values():
            yield from _names(value)
    elif isinstance(body, list):
        for value in body:
            yield from _names(value)


def _value(schema: Any, name: str, known: Examples, schemas: Any) -> Any:
    if name in known:
        return known[name]
    if "$ref" in schema:
        return _value(schemas[schema["$ref"].rpartition("/")[2]], name, known, schemas)
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            kinds = [one for one in schema[choice] if one.get("type") != "null"]
            return _value(kinds[0], name, known, schemas) if kinds else None
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    match schema.get("type"):
        case "object":
            required = schema.get("required", [])
            fields = schema.get("properties", {})
            return {each: _value(fields[each], each, known, schemas) for each in required if each in fields}
        case "array":
            return [_value(schema.get("items", {}), name.removesuffix("s"), known, schemas)]
        case "integer" | "number":
            return max(schema.get("minimum", 1), 1)
        case "boolean":
            return True
        case "string":
            return "x" * max(schema.get("minLength", 1), 1)
    return "x"
