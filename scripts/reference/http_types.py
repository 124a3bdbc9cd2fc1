"""JSON schemas as a reader wants them: a table of fields, and a few words for each type."""

from collections.abc import Iterator, Mapping
from typing import Any

from scripts.reference.markdown import anchor, code, one_paragraph, table

_INT64 = (-(2**63), 2**63 - 1)


class Types:
    """The named types of the document. Those that the page refers to get a section at its end."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self.schemas = schemas
        self._named: dict[str, None] = {}

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.schemas[_name(schema)] if "$ref" in schema else schema

    def fields(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of an object; of alternatives, those of all objects among them."""
        found = self.resolve(schema)
        fields: dict[str, Any] = dict(found.get("properties", {}))
        for one in found.get("anyOf", ()):
            fields |= self.fields(one.get("items", one))
        return fields

    def required(self, schema: Mapping[str, Any]) -> set[str]:
        found = self.resolve(schema)
        required = set(found.get("required", ()))
        for one in found.get("anyOf", ()):
            required |= self.required(one.get("items", one))
        return required

    def table(self, schema: Mapping[str, Any]) -> str:
        required = self.required(schema)
        rows = [
            (code(name), self.link(field), default_of(field, required=name in required))
            for name, field in self.fields(schema).items()
        ]
        return table(("Field", "Type", "Default"), rows)

    def link(self, schema: Mapping[str, Any]) -> str:
        """The words for a type, in which names lead to their sections."""
        if "$ref" in schema:
            name = _name(schema)
            self._named.setdefault(name)
            return f"[{name}](#{anchor(name)})"
        kinds = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
        if kinds:
            return " or ".join(self.link(one) for one in kinds)
        if schema.get("type") == "array" and "items" in schema:
            return f"list of {self.link(schema['items'])}"
        if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
            return f"object of {self.link(schema['additionalProperties'])}"
        return text_of(schema)

    def sections(self) -> Iterator[str]:
        """A section for each type that was linked to, and for those that these lead to."""
        done: set[str] = set()
        while missing := [name for name in self._named if name not in done]:
            for name in missing:
                done.add(name)
                self.table({"$ref": f"/{name}"})
        for name in sorted(done):
            schema = self.schemas[name]
            yield f"### {name}"
            yield one_paragraph(schema.get("description"))
            yield self.table(schema)


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def text_of(schema: Mapping[str, Any]) -> str:
    """A type without parts, with its bounds."""
    if "enum" in schema:
        return " or ".join(code(word) for word in schema["enum"] if word is not None)
    if "const" in schema:
        return code(schema["const"])
    kind = str(schema.get("type", "any JSON"))
    if kind == "string":
        return _string(schema)
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", _INT64[0]), schema.get("maximum", _INT64[1])
        low_text = f" from {low:,}" if low > _INT64[0] else ""
        return f"{kind}{low_text}{f' to {high:,}' if high < _INT64[1] else ''}"
    return kind


def _string(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    if high is not None:
        return f"string of {f'{low} to' if low else 'at most'} {high:,} characters"
    return "string, not empty" if low else "string"


def default_of(schema: Mapping[str, Any], *, required: bool) -> str:
    if required:
        return "required"
    default = schema.get("default")
    if default is None:
        return ""
    return code(str(default).lower() if isinstance(default, bool) else default if default != "" else '""')
