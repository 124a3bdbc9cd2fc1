"""Replies that other programs can encode: `dict(receipt)`, and directly from a FastAPI route."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec


class Reply(msgspec.Struct, frozen=True):
    """A struct that other programs' encoders can read; msgspec's own need none of this.

    Iteration yields names with their values, as a pydantic model does, so `dict` and encoders that iterate
    get an object. Where a route declares one as its return type, pydantic needs a schema.
    """

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for name in self.__struct_fields__:
            yield name, getattr(self, name)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """An object with these fields. Schemas are plain data, so pydantic itself is not needed here."""
        kinds = get_type_hints(cls)
        fields = {
            name: {"type": "typed-dict-field", "schema": handler.generate_schema(kinds[name])}
            for name in cls.__struct_fields__
        }
        shown = {"type": "typed-dict", "fields": fields, "cls_name": cls.__name__, "total": True}
        serialization = {"type": "function-plain", "function": dict, "return_schema": shown}
        return {"type": "is-instance", "cls": cls, "serialization": serialization}
