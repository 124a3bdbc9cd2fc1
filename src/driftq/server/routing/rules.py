"""A router made of rules: the first that matches a message decides; without a match it stays as it is.

[[rule]]
match.topic = "orders"
match.json = { "customer.tier" = "gold", total = { above = 100 } }
label = "vip"
target_topic = "orders.vip"
meta = { why = "gold" }
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from driftq.model import Envelope, Message, RoutingDecision
from driftq.server.routing.matching import MISSING, ConditionRefused, Test, find, read_condition

_EMPTY = Envelope()


class RulesRefused(Exception):
    """The file has invalid rules."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{file}: {problem}")
        self.file = file
        self.problem = problem


class _Match(msgspec.Struct, forbid_unknown_fields=True):
    topic: Any = None
    key: Any = None
    envelope: dict[str, Any] = {}
    json: dict[str, Any] = {}


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    match: _Match = msgspec.field(default_factory=_Match)
    label: str = ""
    target_topic: str | None = None
    partition_override: int | None = None
    meta: dict[str, str] | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    rule: list[_Rule]


class Rule:
    """Conditions that must all hold, and the decision that follows."""

    def __init__(self, given: _Rule) -> None:
        match = given.match
        self._topic = None if match.topic is None else read_condition(match.topic)
        self._key = None if match.key is None else read_condition(match.key)
        unknown = sorted(set(match.envelope) - set(Envelope.__struct_fields__))
        if unknown:
            raise ConditionRefused(f"an envelope has no field {', '.join(unknown)}")
        self._envelope = _tests(match.envelope)
        self._json = _tests(match.json)
        self.decision = RoutingDecision(given.label, given.target_topic, given.partition_override, given.meta)
        self.topics = _names(match.topic)

    def matches(self, topic: str, message: Message) -> bool:
        if self._topic is not None and not self._topic(topic):
            return False
        if self._key is not None and not self._key(message.key):
            return False
        envelope = message.envelope or _EMPTY
        for name, test in self._envelope:
            value = getattr(envelope, name)
            if not test(MISSING if value is None else value):
                return False
        return not self._json or self._matches_json(message.value)

    def _matches_json(self, value: str) -> bool:
        try:
            content = msgspec.json.decode(value)
        except (ValueError, RecursionError):
            content = MISSING
        return all(test(find(content, path)) for path, test in self._json)


class RulesRouter:
    """The rules of one file, in their order."""

    inline = True

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        every = [rule.topics for rule in rules]
        self.topics: frozenset[str] | None = (
            None if None in every else frozenset(name for names in every if names for name in names)
        )

    def __call__(self, topic: str, message: Message, /) -> RoutingDecision | None:
        return next((rule.decision for rule in self._rules if rule.matches(topic, message)), None)


def read_rules(file: str) -> RulesRouter:
    """The rules of a TOML or JSON file; raises RulesRefused."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise RulesRefused(file, problem) from error
    try:
        content = msgspec.json.decode(text) if file.endswith(".json") else tomllib.loads(text)
        given = msgspec.convert(content, _File).rule
    except ValueError as error:
        raise RulesRefused(file, str(error)) from error
    rules: list[Rule] = []
    for number, one in enumerate(given, start=1):
        try:
            rules.append(Rule(one))
        except ConditionRefused as refused:
            raise RulesRefused(file, f"rule {number}: {refused}") from refused
    return RulesRouter(rules)


def _tests(given: dict[str, Any]) -> list[tuple[str, Test]]:
    return [(name, read_condition(condition)) for name, condition in given.items()]


def _names(given: Any) -> frozenset[str] | None:
    """The topics that a condition can mean; None when they cannot be listed."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return None if any("*" in name or "?" in name for name in names) else frozenset(names)
