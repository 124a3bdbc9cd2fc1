"""Dead letters and redriven messages: where they go, and which of them are stored.

No dead letter, no settlement; no redriven message, no mark. Both follow from one rule: what depends on a
message being stored looks at that message's outcome, never at the batch.

Dead letters of handlers come from outside, perhaps several times: each is stored once, known by its id.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from driftq.core.commands import Produce
from driftq.core.dead_letter_ids import dead_letter_print
from driftq.core.decide.produce import Accepted, Duplicate, Lookup, ProduceBatch, decide_produce
from driftq.core.keys import MessageRef
from driftq.core.state import State, Topic

GROUP_DELETED = "group_deleted"
"""The group that dead-lettered the message no longer exists: no group would get it."""
ALREADY_REDRIVEN = "already_redriven"
NOT_FOUND = "not_found"
NOT_STORED = "not_stored"
USE_DLQ_REDRIVE = "use_dlq_redrive"
"""It is a handler's: `driftq dlq redrive` knows the registry or the read model, and the server does not."""


class Placed(msgspec.Struct):
    """The decision: records to write, and for each command its partition or why it is not stored."""

    batch: ProduceBatch
    partitions: dict[int, int]
    """Partition of each command that is stored, by its index among the commands, in that order."""
    refused: dict[int, str]


def decide_placing(
    state: State, topic: Topic, commands: Sequence[Produce], *, lookup: Lookup, now: int, wall: int
) -> Placed:
    """Place messages that the server itself appends: no limit applies, and each has its own outcome."""
    batch = decide_produce(state, topic, commands, lookup=lookup, now=now, wall=wall, unlimited=True)
    placed = Placed(batch, {}, {})
    for slot, outcome in enumerate(batch.outcomes):
        if isinstance(outcome, tuple):
            placed.partitions[slot] = outcome[0]
        else:
            placed.refused[slot] = str(outcome)
    return placed


def dead_letter_partition(original: int, *, partitions: int) -> int:
    """The partition of a dead letter: the original one, modulo the dead-letter topic's number."""
    return original % partitions


def redrive_partition(original: int, *, partitions: int) -> int | None:
    """The original partition; None, which is the key's partition, when the topic no longer has it."""
    return original if 0 <= original < partitions else None


class DeadLetterCommand(msgspec.Struct, frozen=True, gc=False):
    """A handler's dead letter: its id, how often its event was redriven before, and the message to store."""

    id: str
    redrives: int
    message: Produce


def known_refs(state: State, topic: Topic, commands: Iterable[DeadLetterCommand]) -> list[MessageRef]:
    """The stored messages with which these have to be compared."""
    ids = state.dead_letter_ids
    return [ref for command in commands for ref in ids.find(dead_letter_print(command.id), topic=topic.id)]


class StoredDeadLetters(msgspec.Struct):
    """The decision: records to write, and for each command where it is, or why it is not stored."""

    batch: ProduceBatch
    outcomes: list[Accepted | Duplicate | str]
    superseded: list[int]
    """Offsets of dead letters whose events were redriven and are given up once more."""


def decide_handler_dead_letters(
    state: State, topic: Topic, commands: Sequence[DeadLetterCommand], *, lookup: Lookup, now: int, wall: int
) -> StoredDeadLetters:
    """Store those that are new: of each id one stays, that of the highest `redrives`."""
    newest: dict[str, int] = {}
    for slot, command in enumerate(commands):
        known = newest.get(command.id)
        if known is None or commands[known].redrives < command.redrives:
            newest[command.id] = slot
    stored: dict[str, Accepted | Duplicate | str] = {}
    fresh: list[DeadLetterCommand] = []
    superseded: list[int] = []
    for id, slot in newest.items():
        earlier = list(_find_stored(state, topic, commands[slot], lookup))
        last = max(earlier, default=None)
        if last is not None and last[0] >= commands[slot].redrives:
            stored[id] = Duplicate(topic.name, last[1], last[2], payload_mismatch=False)
        else:
            fresh.append(commands[slot])
            superseded += [offset for _, _, offset in earlier]
    messages = [command.message for command in fresh]
    placed = decide_placing(state, topic, messages, lookup=lookup, now=now, wall=wall)
    for number, outcome in enumerate(placed.batch.outcomes):
        stored[fresh[number].id] = outcome if isinstance(outcome, tuple) else placed.refused[number]
    _note_ids(placed.batch, [command for command in fresh if isinstance(stored[command.id], tuple)])
    outcomes: list[Accepted | Duplicate | str] = []
    for slot, command in enumerate(commands):
        place = stored[command.id]
        if isinstance(place, tuple) and newest[command.id] != slot:
            place = Duplicate(topic.name, *place, payload_mismatch=False)
        outcomes.append(place)
    return StoredDeadLetters(placed.batch, outcomes, superseded if not placed.refused else [])


def _find_stored(
    state: State, topic: Topic, command: DeadLetterCommand, lookup: Lookup
) -> Iterator[tuple[int, int, int]]:
    """Redrives, partition and offset of the stored dead letters with this id."""
    for ref in state.dead_letter_ids.find(dead_letter_print(command.id), topic=topic.id):
        message = lookup(ref)
        facts = message.envelope.dlq if message is not None and message.envelope is not None else None
        located = topic.locate(ref.offset)
        if facts is not None and facts.id == command.id and located is not None:
            yield facts.redrives, located[0], ref.offset


def _note_ids(batch: ProduceBatch, stored: Sequence[DeadLetterCommand]) -> None:
    """Let the records carry the ids of their messages."""
    start = 0
    for record, entries in batch.records:
        own = stored[start : start + len(entries)]
        record.fingerprints = array("Q", [dead_letter_print(command.id) for command in own]).tobytes()
        start += len(entries)
