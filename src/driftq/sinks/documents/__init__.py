"""Read models in targets without transactions: a port of few primitives, and the read model made of them."""

from driftq.sinks.documents.model import DocumentReadModel
from driftq.sinks.documents.port import CALL_MAX, ControlText, DocumentSink, DocumentStore, Note

__all__ = ["CALL_MAX", "ControlText", "DocumentReadModel", "DocumentSink", "DocumentStore", "Note"]
