"""Label messages by their text, with a router that is a small naive Bayes classifier.

The classifier is trained when the program starts and calls no service. A router is plain Python, so a model
fits in as well as a rule.

    driftq serve --router router_classifier:route        (in the folder of this file)
"""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter

import driftq

EXAMPLES = {
    "billing": [
        "refund my invoice please",
        "charged twice for one order",
        "the invoice has the wrong amount",
    ],
    "shipping": ["where is my parcel", "the delivery is late", "parcel arrived at the wrong address"],
    "praise": ["great coffee thank you", "love the new app", "thank you for the quick help"],
}
SURE = 0.6


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


class Classifier:
    """Naive Bayes: the words of the examples decide which label is the most likely."""

    def __init__(self, examples: dict[str, list[str]]) -> None:
        self._counts = {label: Counter(words(" ".join(texts))) for label, texts in examples.items()}
        self._known = len(set().union(*self._counts.values()))

    def best(self, text: str) -> tuple[str, float]:
        """The most likely label, and how likely it is."""
        scores = {
            label: sum(math.log((counts[word] + 1) / (counts.total() + self._known)) for word in words(text))
            for label, counts in self._counts.items()
        }
        top = max(scores, key=lambda label: scores[label])
        share = 1 / sum(math.exp(score - scores[top]) for score in scores.values())
        return top, share


classifier = Classifier(EXAMPLES)


def route(topic: str, message: driftq.Message) -> driftq.RoutingDecision | None:
    """A label where the classifier is sure; None leaves the message as it is."""
    label, share = classifier.best(message.value)
    if share < SURE:
        return None
    return driftq.RoutingDecision(label=label, meta={"share": f"{share:.2f}"})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, driftq.open(folder, router=route) as broker:
        broker.create_topic("support")
        broker.produce("support", "I was charged twice, please refund the invoice")
        broker.produce("support", "my parcel is late")
        broker.produce("support", "xyzzy")
        for message in broker.records("support"):
            print(f"{message.routing.label if message.routing else '-':10} {message.value}")
