"""Routers for the contract tests: what they do is what the message's value says."""

import threading

from driftq.model import Message, RoutingDecision

_never = threading.Event()


def route(topic: str, message: Message) -> object:
    verb, _, word = message.value.partition(" ")
    match verb:
        case "label":
            return RoutingDecision(label=word, meta={"topic": topic, "key": message.key})
        case "to":
            return RoutingDecision(label="moved", target_topic=word)
        case "partition":
            return RoutingDecision(label="placed", partition_override=int(word))
        case "raise":
            raise RuntimeError("the router is broken")
        case "hang":
            _never.wait(60.0)
            return None
        case "nonsense":
            return {"label": "not a decision"}
    return None
