"""Decisions: from the state and a command to records, or an error and no change."""

from driftq.core.decide.delays import decide_due
from driftq.core.decide.deliver import decide_deliveries
from driftq.core.decide.positions import decide_reader
from driftq.core.decide.produce import Accepted, Duplicate, Lookup, decide_produce
from driftq.core.decide.settle import (
    decide_acks,
    decide_expiries,
    decide_extend,
    decide_nack,
    decide_release,
    settled,
)
from driftq.core.decide.skip import decide_skips
from driftq.core.decide.topics import decide_group, decide_topic

__all__ = [
    "Accepted",
    "Duplicate",
    "Lookup",
    "decide_acks",
    "decide_deliveries",
    "decide_due",
    "decide_expiries",
    "decide_extend",
    "decide_group",
    "decide_nack",
    "decide_produce",
    "decide_reader",
    "decide_release",
    "decide_skips",
    "decide_topic",
    "settled",
]
