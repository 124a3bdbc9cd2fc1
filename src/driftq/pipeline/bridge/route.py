"""From where to where a bridge copies: `driftq:orders` and `kafka:orders`, or the other way round."""

from __future__ import annotations

import re

import msgspec

from driftq.errors import InvalidArgument
from driftq.model.options.pipeline import DRIFTQ, KAFKA
from driftq.model.topic import DEAD_LETTER_PREFIX, topic_name_problem

SYSTEMS = (DRIFTQ, KAFKA)
_KAFKA_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


class BridgeEnd(msgspec.Struct, frozen=True):
    """One topic of one system."""

    system: str
    topic: str

    def __str__(self) -> str:
        return f"{self.system}:{self.topic}"


class BridgeRoute(msgspec.Struct, frozen=True):
    """A topic of one system, and the topic of the other one that gets its messages."""

    source: BridgeEnd
    target: BridgeEnd

    def __str__(self) -> str:
        return f"from {self.source} to {self.target}"

    @property
    def name(self) -> str:
        """Of the job, its query and its checkpoint."""
        source, target = self.source, self.target
        return f"bridge-{source.system}-{source.topic}-to-{target.system}-{target.topic}"

    @property
    def reads_kafka(self) -> bool:
        return self.source.system == KAFKA


def parse_route(source: str | None, target: str | None) -> BridgeRoute:
    """The route of `--from` and `--to`; raises InvalidArgument, which names the option."""
    ends = [_parse_end("--from", source), _parse_end("--to", target)]
    if ends[0].system == ends[1].system:
        other = next(system for system in SYSTEMS if system != ends[0].system)
        raise InvalidArgument("--to", f"both ends are on {ends[0].system}: one has to be {other}:TOPIC")
    return BridgeRoute(*ends)


def _parse_end(option: str, text: str | None) -> BridgeEnd:
    if text is None:
        raise InvalidArgument(
            option, "a bridge needs --from and --to, such as driftq:orders and kafka:orders"
        )
    system, colon, topic = text.partition(":")
    if not colon or system not in SYSTEMS:
        raise InvalidArgument(option, f"{text!r} is not driftq:TOPIC or kafka:TOPIC")
    problem = topic_name_problem(topic) if system == DRIFTQ else _kafka_problem(topic)
    if problem is not None:
        raise InvalidArgument(option, f"the topic {topic!r} {problem}")
    return BridgeEnd(system, topic)


def _kafka_problem(topic: str) -> str | None:
    """Kafka's own rule, and ours for dead letters: those of a bridge must not be copied as messages."""
    if not _KAFKA_NAME.fullmatch(topic) or topic in (".", ".."):
        return "must be 1 to 249 characters of A-Z a-z 0-9 . _ -"
    if topic.startswith(DEAD_LETTER_PREFIX):
        return f"must not start with {DEAD_LETTER_PREFIX} (reserved for dead letters)"
    return None
