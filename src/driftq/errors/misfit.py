"""Validation errors in plain words: the only module that reads msgspec's messages.

msgspec says what it expected in text alone, such as "Expected `str`, got `object` - at `$.value`". Users read
JSON, not Python's types, so this becomes the field `value` and "must be a string, not an object".
"""

import re

from driftq.errors.kinds import InvalidArgument

_PLACE = re.compile(r"^(?P<what>.*?)(?: - at (?:`key` in )?`\$(?P<path>[^`]*)`)?$", re.DOTALL)
_KIND = re.compile(r"Expected `(?P<wanted>[^`]+)`(?:, got `(?P<got>[^`]+)`| (?P<bound>.+))")
_FIELD = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL)
_LENGTH = re.compile(r"of length (?P<sign>[<>]?=) (?P<number>\d+)")

_KINDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}
_GIVEN = _KINDS | {"bool": "a boolean", "float": "a number with a fraction"}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than", "=": "exactly"}


def misfit(text: str, *, whole: str = "the body") -> InvalidArgument:
    """The name of the invalid field, empty for the whole value, and the problem."""
    found = _PLACE.match(text)
    what, path = (found["what"], found["path"] or "") if found else (text, "")
    path = path.removeprefix(".").replace("[...]", "")
    if named := _FIELD.fullmatch(what):
        path = f"{path}.{named['name']}" if path else named["name"]
        return InvalidArgument(path, "is missing" if named["what"].startswith("missing") else "unknown field")
    problem = _problem(what)
    return InvalidArgument(path, problem) if path else InvalidArgument("", f"{whole} {problem}")


def _problem(what: str) -> str:
    found = _KIND.fullmatch(what)
    if found is None:
        return _unusual(what)
    wanted = " or ".join(_KINDS.get(kind, kind) for kind in found["wanted"].split(" | "))
    if found["got"]:
        return f"must be {wanted}, not {_GIVEN.get(found['got'], found['got'])}"
    return f"must be {wanted}, {_bound(found['bound'], found['wanted'])}"


def _bound(bound: str, wanted: str) -> str:
    if length := _LENGTH.fullmatch(bound):
        unit = "character" if wanted.startswith("str") else "element"
        count = int(length["number"])
        return f"{_BOUNDS[length['sign']]} {count} {unit}{'s' if count != 1 else ''} long"
    sign, _, number = bound.partition(" ")
    return f"{_BOUNDS[sign]} {number}" if sign in _BOUNDS else bound.replace("`", "")


def _unusual(what: str) -> str:
    if value := re.fullmatch(r"Invalid enum value (?P<value>.*)", what, re.DOTALL):
        return f"must not be {value['value']}: that is none of the values allowed here"
    if what.startswith("Invalid RFC3339"):
        return "must be a time like 2030-01-01T12:00:00Z"
    return what.replace("`", "")[:1].lower() + what.replace("`", "")[1:]
