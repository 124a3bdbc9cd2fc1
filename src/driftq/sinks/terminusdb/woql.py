"""WOQL queries as JSON: conditions and the writes that depend on them, evaluated in one transaction.

Of two writers at once each is evaluated against what is stored when it commits: the server runs the loser's
query again. The header `TerminusDB-Data-Version` promises less: it is compared when a request arrives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Woql = dict[str, Any]
Fields = Mapping[str, str | int]
"""A document: its `@type`, its `@id` and its fields."""


def all_of(*queries: Woql) -> Woql:
    return {"@type": "And", "and": list(queries)}


def any_of(*queries: Woql) -> Woql:
    return {"@type": "Or", "or": list(queries)}


def absent(query: Woql) -> Woql:
    return {"@type": "Not", "query": query}


def optional(query: Woql) -> Woql:
    """Succeeds in any case, so that one part of a batch does not decide about the others."""
    return {"@type": "Optional", "query": query}


def has(document_id: str, field: str, *, variable: str) -> Woql:
    """The document has this field; binds its value."""
    return _triple({"@type": "NodeValue", "node": document_id}, field, {"variable": variable})


def each_with(field: str, *, subject: str, variable: str) -> Woql:
    """Every document that has this field, and its value."""
    return _triple({"@type": "NodeValue", "variable": subject}, field, {"variable": variable})


def each_of_class(name: str, *, subject: str) -> Woql:
    return _triple({"@type": "NodeValue", "variable": subject}, "rdf:type", {"node": f"@schema:{name}"})


def less(variable: str, value: int) -> Woql:
    """The integer that is bound to the variable is below this one."""
    return {
        "@type": "Less",
        "left": {"@type": "DataValue", "variable": variable},
        "right": {"@type": "DataValue", "data": _literal(value)},
    }


def insert(document: Fields) -> Woql:
    return {"@type": "InsertDocument", "document": _template(document)}


def update(document: Fields) -> Woql:
    """Replaces the whole document."""
    return {"@type": "UpdateDocument", "document": _template(document)}


def upsert_if_newer(document: Fields, *, field: str, value: int, variable: str) -> Woql:
    """Store the document if its id has none, or one whose field is lower."""
    stored = has(str(document["@id"]), field, variable=variable)
    return any_of(
        all_of(stored, less(variable, value), update(document)),
        all_of(absent(stored), insert(document)),
    )


def upsert(document: Fields, *, field: str, variable: str) -> Woql:
    """Store the document, which has this field, whether its id has one or not."""
    stored = has(str(document["@id"]), field, variable=variable)
    return any_of(all_of(stored, update(document)), all_of(absent(stored), insert(document)))


def replace_if_equal(document: Fields, *, field: str, value: int, variable: str) -> Woql:
    """Store the document if its id has one whose field is this integer."""
    stored = has(str(document["@id"]), field, variable=variable)
    return all_of(stored, less(variable, value + 1), absent(less(variable, value)), update(document))


def insert_if_absent(document: Fields, *, field: str, variable: str) -> Woql:
    return all_of(absent(has(str(document["@id"]), field, variable=variable)), insert(document))


def each_by_itself(parts: Sequence[Woql]) -> list[Woql]:
    return [optional(part) for part in parts]


def _triple(subject: Woql, field: str, value: Woql) -> Woql:
    return {
        "@type": "Triple",
        "subject": subject,
        "predicate": {"@type": "NodeValue", "node": field},
        "object": {"@type": "Value", **value},
    }


def _template(document: Fields) -> Woql:
    pairs = [
        {"@type": "FieldValuePair", "field": name, "value": {"@type": "Value", "data": _literal(value)}}
        for name, value in document.items()
    ]
    return {"@type": "Value", "dictionary": {"@type": "DictionaryTemplate", "data": pairs}}


def _literal(value: str | int) -> Woql:
    return {"@type": "xsd:integer" if isinstance(value, int) else "xsd:string", "@value": value}
