"""The part of WOQL that was recorded: conditions, and the writes that depend on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.terminus.documents import Change

Binding = dict[str, Any]
_WRITES = ("InsertDocument", "UpdateDocument")


def is_writing(query: Any) -> bool:
    if isinstance(query, dict):
        return query.get("@type") in _WRITES or any(is_writing(part) for part in query.values())
    return isinstance(query, list) and any(is_writing(part) for part in query)


def variables(query: Any) -> list[str]:
    """The names of all variables, the last first, as the server lists them."""
    found: dict[str, None] = {}

    def collect(part: Any) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("variable"), str):
                found[part["variable"]] = None
            for inner in part.values():
                collect(inner)
        elif isinstance(part, list):
            for inner in part:
                collect(inner)

    collect(query)
    return list(reversed(found))


def evaluate(query: dict[str, Any], binding: Binding, change: Change) -> list[Binding]:
    """Every solution; writes are added to the change. Conditions see the commit before it."""
    match query["@type"]:
        case "And":
            bindings = [binding]
            for part in query["and"]:
                bindings = [found for one in bindings for found in evaluate(part, one, change)]
            return bindings
        case "Or":
            return [found for part in query["or"] for found in evaluate(part, binding, change)]
        case "Not":
            return [] if evaluate(query["query"], binding, change) else [binding]
        case "Optional":
            return evaluate(query["query"], binding, change) or [binding]
        case "Triple":
            return list(_triples(query, binding, change))
        case "Less":
            left, right = (_data(query[side], binding) for side in ("left", "right"))
            return [binding] if left < right else []
        case "InsertDocument":
            change.put(_document(query), insert=True, create=False, woql=True)
            return [binding]
        case "UpdateDocument":
            change.put(_document(query), insert=False, create=False, woql=True)
            return [binding]
    raise AssertionError(f"{query['@type']} was never recorded")


def _triples(query: dict[str, Any], binding: Binding, change: Change) -> Iterator[Binding]:
    subject, field, value = query["subject"], query["predicate"]["node"], query["object"]
    stored = change.commit.instance
    if "node" in subject:
        named = [subject["node"]] if subject["node"] in stored else []
    else:
        named = [binding[subject["variable"]]] if subject["variable"] in binding else sorted(stored)
    for name in named:
        document = stored[name]
        if field == "rdf:type":
            found = [f"@schema:{document['@type']}"]
        elif field in document:
            held = document[field]
            found = held if isinstance(held, list) else [held]
        else:
            continue
        for one in found:
            bound = dict(binding)
            if "variable" in subject:
                bound[subject["variable"]] = name
            if "variable" in value:
                bound[value["variable"]] = _literal(one)
            elif one != value.get("node"):
                continue
            yield bound


def _literal(value: Any) -> dict[str, Any]:
    return {"@type": "xsd:integer" if isinstance(value, int) else "xsd:string", "@value": value}


def _data(term: dict[str, Any], binding: Binding) -> Any:
    found = binding[term["variable"]] if "variable" in term else term["data"]
    return found["@value"]


def _document(query: dict[str, Any]) -> dict[str, Any]:
    pairs = query["document"]["dictionary"]["data"]
    return {pair["field"]: pair["value"]["data"]["@value"] for pair in pairs}
