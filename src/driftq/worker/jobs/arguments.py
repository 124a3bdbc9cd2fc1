"""The arguments of a task: by name in a JSON object, and checked against the annotations of its function.

They are checked twice: when a job is enqueued, where the caller gets the error, and when it runs, where a
payload that does not fit makes the job dead. The function gets values of its own types: a `date` for a text
that is one, an instance of a Struct or dataclass for an object. What has no annotation, one that cannot be
resolved, or one of a class that JSON cannot express, is passed as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NotRequired, TypedDict, get_type_hints

import msgspec

from driftq.errors import InvalidArgument
from driftq.worker.signatures import check_returns


class TaskArguments:
    """What a task takes."""

    def __init__(self, call: Callable[..., Any], name: str, *, reserved: Iterable[str]) -> None:
        """Raises InvalidArgument for a function that cannot be a task."""
        self._name = name
        check_returns(call, field="task")
        parameters = _parameters(call, name)
        self.wants_context = "context" in parameters
        for parameter in parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise InvalidArgument("task", f"{name}: {parameter.name} must be an argument with a name")
            if parameter.name in reserved:
                raise InvalidArgument("task", f"{name}: {parameter.name} is a keyword of enqueue")
        kept = [one for one in parameters.values() if one.name != "context"]
        self.signature = inspect.Signature(kept)
        self._named = {one.name for one in kept if one.kind is not one.VAR_KEYWORD}
        self.needed = {one.name for one in kept if one.name in self._named and one.default is one.empty}
        self._takes_any = len(self._named) < len(kept)
        self._kinds = _kinds(call, kept)
        fields = {
            argument: kind if argument in self.needed else NotRequired[kind]
            for argument, kind in self._kinds.items()
        }
        self._form: Any = TypedDict("Arguments", fields) if fields else None  # type: ignore[operator]

    def payload(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The payload of a job with these arguments; TypeError names the argument that is wrong."""
        given = self.signature.bind(*args, **named).arguments
        payload: dict[str, Any] = {}
        for argument, value in given.items():
            try:
                payload[argument] = msgspec.to_builtins(value, str_keys=True)
                if argument in self._kinds:
                    msgspec.convert(payload[argument], self._kinds[argument], str_keys=True)
            except (TypeError, ValueError, RecursionError) as wrong:
                raise TypeError(f"{self._name}: argument {argument!r}: {wrong}") from None
        return payload

    def read(self, given: Any) -> dict[str, Any]:
        """The arguments of a job; TypeError or ValueError when they are not this task's."""
        if not isinstance(given, dict):
            raise TypeError("the payload is not an object of arguments")
        if not self.needed <= given.keys():
            raise TypeError(f"missing: {', '.join(sorted(self.needed - given.keys()))}")
        if not self._takes_any and not given.keys() <= self._named:
            raise TypeError(f"unexpected: {', '.join(sorted(given.keys() - self._named))}")
        if self._form is None:
            return given
        read: dict[str, Any] = msgspec.convert(given, self._form, str_keys=True)
        return read if len(read) == len(given) else {**given, **read}


def _parameters(call: Callable[..., Any], name: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(call).parameters
    except (TypeError, ValueError):
        raise InvalidArgument(
            "task", f"{name}: its arguments cannot be inspected; use a plain function"
        ) from None


def _kinds(call: Callable[..., Any], parameters: list[inspect.Parameter]) -> dict[str, Any]:
    """The types of the arguments that can be checked."""
    try:
        hints = get_type_hints(call, include_extras=True)
    except Exception:  # noqa: BLE001 - an annotation may be any text, and is not evaluated for its own sake.
        return {}
    kinds: dict[str, Any] = {}
    for one in parameters:
        kind = hints.get(one.name)
        if kind is not None and one.kind is not one.VAR_KEYWORD and _is_plain(kind):
            kinds[one.name] = kind | None if one.default is None else kind
    return kinds


def _is_plain(kind: Any) -> bool:
    """Whether JSON can express all values of this type."""
    try:
        return "CustomType" not in repr(msgspec.inspect.type_info(kind))
    except (TypeError, RecursionError):
        return False
