"""Rules in a file: what matches, what is decided, and what is refused before the server starts."""

import json
from pathlib import Path
from typing import Any

import pytest

from driftq.model import Envelope, Message
from driftq.server.routing.rules import RulesRefused, RulesRouter, read_rules

RULES = """
[[rule]]
match.topic = "orders"
match.json = { "customer.tier" = "gold", total = { above = 100 } }
label = "vip"
target_topic = "orders.vip"
meta = { why = "gold" }

[[rule]]
match.topic = ["orders", "refunds"]
match.key = "user:*"
match.envelope = { tenant_id = "acme", run_id = { present = false } }
label = "acme"
partition_override = 2

[[rule]]
match.json = { "items.0.sku" = ["tea", "coffee"] }
match.topic = "orders"
label = "drinks"
"""


@pytest.fixture
def router(tmp_path: Path) -> RulesRouter:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    return read_rules(str(file))


def label(router: RulesRouter, topic: str, value: Any, key: str = "", **envelope: Any) -> str | None:
    message = Message(topic, json.dumps(value), key, Envelope(**envelope) if envelope else None)
    decision = router(topic, message)
    return None if decision is None else decision.label


@pytest.mark.clause("R6", "R1")
def test_the_first_rule_that_matches_decides(router: RulesRouter) -> None:
    gold = {"customer": {"tier": "gold"}, "total": 150, "items": [{"sku": "tea"}]}
    decision = router("orders", Message("orders", json.dumps(gold)))
    assert decision is not None
    assert (decision.label, decision.target_topic, decision.meta) == ("vip", "orders.vip", {"why": "gold"})
    assert label(router, "orders", gold | {"total": 100}) == "drinks"
    assert label(router, "orders", gold | {"total": "150"}) == "drinks"
    assert label(router, "refunds", gold) is None


@pytest.mark.clause("R6")
def test_key_and_envelope_are_looked_at_too(router: RulesRouter) -> None:
    assert label(router, "refunds", {}, "user:1", tenant_id="acme") == "acme"
    assert label(router, "refunds", {}, "user:1", tenant_id="acme", run_id="r") is None
    assert label(router, "refunds", {}, "shop:1", tenant_id="acme") is None
    assert label(router, "refunds", {}, "user:1") is None


@pytest.mark.clause("R6")
def test_values_that_are_no_json_match_no_json(router: RulesRouter) -> None:
    assert router("orders", Message("orders", "not json")) is None
    assert label(router, "orders", {"items": []}) is None
    assert label(router, "orders", {"items": "tea"}) is None


@pytest.mark.clause("R6")
def test_topics_that_no_rule_names_need_no_routing(router: RulesRouter, tmp_path: Path) -> None:
    assert router.topics == frozenset({"orders", "refunds"})
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"rule": [{"match": {"topic": "orders.*"}, "label": "any"}]}))
    assert read_rules(str(file)).topics is None
    assert label(read_rules(str(file)), "orders.eu", {}) == "any"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[rule]]\nlable = 'x'", "lable"),
        ("[[rule]]\nmatch.envelope = { tenant = 'a' }", "rule 1: an envelope has no field tenant"),
        ("[[rule]]\n[[rule]]\nmatch.json = { a = { over = 1 } }", "rule 2: a table takes"),
        ("[[rule]]\nmatch.key = []", "rule 1: an empty list"),
        ("[[rule]]\npartition_override = 'two'", "partition_override"),
        ("rule = 5", "rule"),
        ("[[rule]", ""),
    ],
)
def test_rules_that_cannot_be_meant_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(text)
    with pytest.raises(RulesRefused) as refused:
        read_rules(str(file))
    assert problem in refused.value.problem
    assert refused.value.file == str(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RulesRefused, match="no such file"):
        read_rules(str(tmp_path / "none.toml"))
