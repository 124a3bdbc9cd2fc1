"""Documents against their classes: ids, checks, triples, and the form in which they are read."""

from __future__ import annotations

from typing import Any

from tests.support.terminus.history import Commit, Documents
from tests.support.terminus.refused import Refused, schema_failure

DATA = "terminusdb:///data/"
SCHEMA = "terminusdb:///schema#"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TYPES: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "boolean": bool}


class Change:
    """The documents of one commit in the making, checked one by one."""

    def __init__(self, commit: Commit, *, refused_text: str | None) -> None:
        self.commit = commit
        self.documents: dict[str, dict[str, Any] | None] = {}
        self._refused_text = refused_text
        self._written: list[str] = []

    def put(self, document: Any, *, insert: bool, create: bool, woql: bool = False) -> str:
        """Insert it, or replace what is there, or either; its id."""
        checked = check(document, self.commit.schema)
        if self._refused_text is not None and self._refused_text in str(checked):
            raise schema_failure({"@type": "refused_by_the_test", "document": expanded(checked)})
        name = checked["@id"]
        shown = {**document, "@type": SCHEMA + document["@type"]} if woql else document
        exists = name in self.commit.instance
        if insert and not create and exists:
            raise Refused(
                400,
                "DocumentIdAlreadyExists",
                f"Tried to insert a new document with id '{DATA}{name}', "
                "but an object with that id already exists",
                document=shown,
                document_id=DATA + name,
            )
        if not insert and not create and not exists:
            raise Refused(
                404,
                "DocumentNotFound",
                f"Document not found: '{DATA}{name}'",
                document=shown,
                document_id=DATA + name,
            )
        self._written.append(name)
        self.documents[name] = checked
        return name

    def delete(self, name: str) -> bool:
        """Whether it was there."""
        if name not in self.commit.instance:
            return False
        self.documents[name] = None
        return True

    def require_distinct(self) -> None:
        doubled = [name for name in self.documents if self._written.count(name) > 1]
        if doubled:
            raise Refused(
                400,
                "SameDocumentIdsMutatedInOneTransaction",
                "Tried to mutate document with same id multiple times",
                duplicate_ids=[DATA + name for name in doubled],
            )

    def differences(self) -> dict[str, dict[str, Any] | None]:
        return {
            name: document
            for name, document in self.documents.items()
            if document != self.commit.instance.get(name)
        }

    def counts(self) -> tuple[int, int]:
        """Inserted and deleted triples."""
        inserted = deleted = 0
        for name, document in self.documents.items():
            before, after = triples(self.commit.instance.get(name)), triples(document)
            inserted += len(after - before)
            deleted += len(before - after)
        return inserted, deleted


def check(document: Any, schema: Documents) -> dict[str, Any]:
    """The document with its id; raises what the server answers to one that its class does not allow."""
    kind = document.get("@type")
    if kind not in schema:
        ascribed = {"@type": "ascribed_type_does_not_exist", "ascribed_type": f"{SCHEMA}{kind}"}
        raise schema_failure({**ascribed, "document": document})
    fields = {name: value for name, value in schema[kind].items() if not name.startswith("@")}
    given = {name: value for name, value in document.items() if not name.startswith("@")}
    name = _id(document, schema[kind])
    whole = expanded({**document, "@id": name})
    for field, wanted in fields.items():
        if field not in given and not _is_optional(wanted):
            raise schema_failure(
                {
                    "@type": "required_field_does_not_exist_in_document",
                    "document": whole,
                    "field": SCHEMA + field,
                }
            )
    for field, value in given.items():
        if field not in fields:
            raise schema_failure(
                {
                    "@type": "unknown_property_for_type",
                    "document": whole,
                    "property": [SCHEMA + field],
                    "type": SCHEMA + kind,
                }
            )
        _check_value(field, value, fields[field])
    return {"@id": name, "@type": kind, **{field: given[field] for field in sorted(given)}}


def _check_value(field: str, value: Any, wanted: Any) -> None:
    inner = wanted["@class"] if isinstance(wanted, dict) else wanted
    if inner == "sys:JSON":
        return
    values = value if isinstance(wanted, dict) and wanted["@type"] == "Set" else [value]
    for one in values:
        name = inner.removeprefix("xsd:")
        if not isinstance(one, _TYPES[name]):
            uninterpreted = {"@type": "could_not_interpret_as_type", "type": _XSD + name, "value": one}
            raise schema_failure({SCHEMA + field: uninterpreted})


def _is_optional(wanted: Any) -> bool:
    return isinstance(wanted, dict) and wanted["@type"] in ("Optional", "Set")


def _id(document: dict[str, Any], described: dict[str, Any]) -> str:
    kind = document["@type"]
    if "@id" not in document:
        values = [str(document[name]) for name in described["@key"]["@fields"]]
        return f"{kind}/{'+'.join(values)}"
    name = str(document["@id"]).removeprefix(DATA)
    if not name.startswith(f"{kind}/"):
        raise Refused(
            400,
            "SubmittedDocumentIdDoesNotHaveExpectedPrefix",
            f"Document id '{DATA}{name}' does not have expected prefix '{DATA}{kind}/'",
            document=document,
            prefix=f"{DATA}{kind}/",
            submitted_id=DATA + name,
        )
    return name


def triples(document: dict[str, Any] | None) -> set[tuple[str, str]]:
    if document is None:
        return set()
    found = {("rdf:type", document["@type"])}
    for field, value in document.items():
        if not field.startswith("@"):
            found |= {(field, repr(one)) for one in (value if isinstance(value, list) else [value])}
    return found


def expanded(document: dict[str, Any]) -> dict[str, Any]:
    """With full names, as `compress_ids=false` shows it."""
    full = {name: value for name, value in document.items() if not name.startswith("@")}
    ids = {"@id": DATA + str(document["@id"])} if "@id" in document else {}
    return {**ids, "@type": SCHEMA + document["@type"]} | {SCHEMA + name: full[name] for name in full}
