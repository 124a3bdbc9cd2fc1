"""docs/reference/http.md: every route with its parameters, answers and errors, from the OpenAPI document.

The text that no type can say is written by hand: http_intro.md before the routes, in http_notes.md a section
for each route that needs one, under a heading such as `## POST /v1/produce`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

from driftq.access.keys import Role
from driftq.http.api.openapi import document
from driftq.http.api.route import ALWAYS
from driftq.http.api.router import ROUTES
from driftq.http.wire.edge import HttpOptions
from scripts.reference.http_types import Types, text_of
from scripts.reference.markdown import anchor, code, head, joined, table, with_guides

HERE = Path(__file__).parent
SECTIONS = {
    "Messages": ("produce", "consume", "ack", "nack", "lease"),
    "Topics and groups": ("topics",),
    "Dead letters": ("dlq",),
    "Jobs": ("jobs", "schedules", "queues"),
    "Idempotent effects": ("idempotency",),
    "Events": ("events",),
    "History and pipeline": ("messages", "runs", "registry", "pipelines"),
    "The server": (
        *("healthz", "readyz", "whoami", "version", "seal", "metrics", "docs", "openapi.json", "ui"),
    ),
}
"""Headings, with the first word of the paths below each."""


TENANT_KEYS = {"all": "yes", "own": "own", "none": "no"}
"""What a tenant's key reaches through a route, in the tables' words."""


def page() -> str:
    described = document(ROUTES, version="")
    types = Types(described["components"]["schemas"])
    notes = _notes((HERE / "http_notes.md").read_text(encoding="utf-8"), described["paths"])
    parts = [*head("HTTP interface", "the routes of src/driftq/http and scripts/reference/http_*.md")]
    nack = types.fields(_body(described["paths"]["/v1/nack"]["post"]) or {})
    parts.append(
        Template((HERE / "http_intro.md").read_text(encoding="utf-8")).substitute(limits(nack)).strip()
    )
    bodies: list[str] = []
    listed: set[str] = set()
    for title, words in SECTIONS.items():
        routes = [
            (method.upper(), path, operation)
            for path, operations in described["paths"].items()
            if path.split("/")[2] in words
            for method, operation in operations.items()
        ]
        listed.update(f"{method} {path}" for method, path, _ in routes)
        rows = [
            (
                method,
                f"[`{path}`](#{anchor(f'{method} {path}')})",
                operation["summary"],
                roles(operation),
                TENANT_KEYS[operation["x-tenant-keys"]],
            )
            for method, path, operation in routes
        ]
        bodies += [f"## {title}", table(("Method", "Path", "Purpose", "Role", "Tenants"), rows)]
        for method, path, operation in routes:
            bodies += _route(f"{method} {path}", operation, types, notes.get(f"{method} {path}", ""))
    assert listed == set(_names(described["paths"])), "a section for every route"
    parts += [*bodies, "## Types", "Fields that a request leaves out, or sets to null, have their defaults."]
    parts += types.sections()
    return with_guides(joined(parts))


def roles(operation: Mapping[str, Any]) -> str:
    """The roles of which a key needs one, if the server has a keys file."""
    needed = [role for way in operation["security"] for role in way["key"]]
    if not needed:
        return "no key"
    if set(needed) == set(Role):
        return "any"
    return " or ".join(role for role in needed if len(needed) == 1 or role != Role.ADMIN)


def limits(nack: Mapping[str, Any]) -> dict[str, str]:
    """The numbers that the introduction mentions, as the code has them; `nack` has the fields of a nack."""
    options = HttpOptions()
    owner, reason = (next(iter(nack[name].get("anyOf", [nack[name]]))) for name in ("owner", "reason"))
    return {
        "body": f"{options.body_bytes_max >> 20} MiB",
        "head": f"{options.head_bytes_max >> 10} KiB",
        "url": f"{options.url_bytes_max >> 10} KiB",
        "batch": f"{options.batch_max:,}",
        "head_s": str(options.head_s),
        "body_rate": f"{options.body_bytes_per_s_min >> 10} KiB",
        "body_window_s": str(options.body_window_s),
        "keep_alive_s": str(options.keep_alive_s),
        "connections": f"{options.connections_max:,}",
        "outstanding": str(options.outstanding_max),
        "name": str(owner["maxLength"]),
        "reason": f"{reason['maxLength']:,}",
        "always": ", ".join(map(str, ALWAYS)),
        "count": str(len(ROUTES)),
    }


def _names(paths: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for path, operations in paths.items():
        yield from (f"{method.upper()} {path}" for method in operations)


def _notes(text: str, paths: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The hand-written sections by route; LookupError for a route that does not exist."""
    sections = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    notes = dict(zip(sections[::2], map(str.strip, sections[1::2]), strict=True))
    if unknown := set(notes) - set(_names(paths)):
        raise LookupError(f"http_notes.md has text for routes that do not exist: {sorted(unknown)}")
    return notes


def _route(name: str, operation: Mapping[str, Any], types: Types, note: str) -> Iterator[str]:
    yield f"### {name}"
    yield f"{operation['summary']}. {operation.get('description', '')}".strip()
    yield note
    body = _body(operation)
    fields = types.fields(body) if body else {}
    parameters = operation.get("parameters", ())
    query = {one["name"]: one for one in parameters if one["in"] == "query"}
    if fields:
        also = "application/x-ndjson" in operation["requestBody"]["content"]
        lines = "; or NDJSON, a message on each line" if also else ""
        same = bool(query) and set(query) <= set(fields)
        yield f"Body: JSON{lines}." + (
            " Fields that are not lists or objects can also be a query." if same else ""
        )
        yield types.table(body or {})
        if same:
            query = {}
    if query:
        rows = [
            (code(one["name"]), text_of(one["schema"]), "required" if one["required"] else "")
            for one in query.values()
        ]
        instead = fields and types.required(body or {}) <= set(query)
        beside = ", instead of a body" if instead else " beside the body" if fields else ""
        yield f"Query parameters{beside}:"
        yield table(("Parameter", "Type", "Default"), rows)
    needed = roles(operation)
    patterns = " Topic patterns apply." if "x-topic-patterns" in operation else ""
    yield f"Role: {needed if needed in ('no key', 'any') else code(needed)}.{patterns}"
    yield table(("Status", "Meaning", "Answer"), _answers(name, operation, types))


def _body(operation: Mapping[str, Any]) -> dict[str, Any] | None:
    content = operation.get("requestBody", {}).get("content", {})
    schema: dict[str, Any] | None = content.get("application/json", {}).get("schema")
    return schema


def _answers(name: str, operation: Mapping[str, Any], types: Types) -> Iterator[tuple[str, str, str]]:
    own = next(route.errors for route in ROUTES if f"{route.method} {route.path}" == name)
    for status, response in operation["responses"].items():
        if int(status) in ALWAYS and int(status) not in own:
            continue
        kind, content = next(iter(response.get("content", {"": {}}).items()))
        schema = content.get("schema", {})
        if int(status) >= 400:
            shown = "[error](errors.md)"
        elif kind == "application/json":
            shown = types.link(schema)
        else:
            shown = _lines(kind, schema, types)
        yield status, response["description"], shown


def _lines(kind: str, schema: Mapping[str, Any], types: Types) -> str:
    """An answer that is not one JSON value: NDJSON of a type, or text."""
    name = schema.get("description", "").removeprefix("Lines of ")
    if name and name in types.schemas:
        return f"{code(kind)} of {types.link({'$ref': f'/{name}'})}"
    return code(kind) if kind else ""
