"""Canonical JSON: one text for one value, and a hash that anybody can recompute."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.eventstore.stored import canonical_json, content_hash
from driftq.model import Aggregate, Operation

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.clause("S5")
@given(JSON)
def test_the_text_reads_back_and_is_its_own_canonical_form(value: Any) -> None:
    text = canonical_json(value, field="payload")
    assert json.loads(text) == value
    assert canonical_json(json.loads(text), field="payload") == text


@pytest.mark.clause("S4")
@given(st.dictionaries(st.text(), JSON, min_size=2, max_size=6))
def test_the_order_of_names_does_not_matter(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical_json(turned, field="payload") == canonical_json(value, field="payload")


@pytest.mark.clause("S5")
def test_the_hash_is_of_the_array_of_parts() -> None:
    array = '["order","o\\n1","Placed","command","create",{"a":1,"ü":[2.5,null]}]'
    payload = canonical_json({"ü": [2.5, None], "a": 1}, field="payload")
    hashed = content_hash(
        Aggregate("order", "o\n1"),
        event_type="Placed",
        kind="command",
        operation=Operation.CREATE.value,
        payload_json=payload,
    )
    assert hashed == hashlib.sha256(array.encode()).hexdigest()
