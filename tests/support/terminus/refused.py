"""Refusals as the real server words them."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """An answer that is no success. `response` names the kind of response, which the call decides."""

    def __init__(self, status: int, kind: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.status = status
        self.error = {"@type": f"api:{kind}"} | {f"api:{name}": value for name, value in fields.items()}
        self.message = message

    def answer(self, response: str) -> dict[str, Any]:
        return {
            "@type": f"api:{response}",
            "api:error": self.error,
            "api:message": self.message,
            "api:request_id": "00000000-0000-1000-8000-000000000000",
            "api:status": "api:not_found" if self.status == 404 else "api:failure",
        }


def schema_failure(*witnesses: dict[str, Any]) -> Refused:
    return Refused(400, "SchemaCheckFailure", "Schema check failure", witnesses=list(witnesses))


def not_found(document_id: str, *, document: dict[str, Any] | None = None, quote: str = "'") -> Refused:
    fields = {} if document is None else {"document": document}
    return Refused(
        404,
        "DocumentNotFound",
        f"Document not found: {quote}{document_id}{quote}",
        document_id=document_id,
        **fields,
    )


def unknown_database(organization: str, database: str) -> Refused:
    return Refused(
        404,
        "UnknownDatabase",
        f"Unknown database: {organization}/{database}",
        database_name=database,
        organization_name=organization,
    )


def missing(parameter: str) -> Refused:
    return Refused(400, "MissingParameter", f"Missing parameter: {parameter}", parameter=parameter)
