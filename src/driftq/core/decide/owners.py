"""Who owns a topic, queue or aggregate type, and who becomes its owner."""

from collections.abc import Sequence
from typing import NamedTuple

from driftq.core.owners import OwnedKind, OwnerSet
from driftq.core.state import State
from driftq.errors import AggregateTypeNotFound, NotFound, OwnedByAnother, QueueNotFound, TopicNotFound
from driftq.model.topic import DEAD_LETTER_PREFIX, TABLE_PREFIX


class OwnedName(NamedTuple):
    kind: OwnedKind
    name: str

    def missing(self) -> NotFound:
        """What a tenant is answered that does not own it: the same as when nothing has this name."""
        match self.kind:
            case OwnedKind.TOPIC:
                return TopicNotFound(self.name)
            case OwnedKind.QUEUE:
                return QueueNotFound(self.name)
            case OwnedKind.AGGREGATE_TYPE:
                return AggregateTypeNotFound(self.name)


def owner_of(state: State, kind: OwnedKind, name: str) -> str | None:
    """The tenant that owns it; None when no tenant does, or there is no such thing."""
    match kind:
        case OwnedKind.TOPIC:
            topic = state.topics.get(name)
            return topic.tenant or None if topic is not None else None
        case OwnedKind.QUEUE:
            return state.owners.queues.get(name)
        case OwnedKind.AGGREGATE_TYPE:
            return state.owners.aggregate_types.get(name)


def may_become_owner(state: State, tenant: str, thing: OwnedName) -> bool:
    """Whether the first use of this name makes the tenant its owner: nobody has used or owns it.

    Topics are made, not used. The caller knows that an aggregate type has no events: they are not in the log.
    """
    match thing.kind:
        case OwnedKind.TOPIC:
            return False
        case OwnedKind.QUEUE:
            return thing.name not in state.owners.queues and thing.name not in state.jobs.queues
        case OwnedKind.AGGREGATE_TYPE:
            published = owner_of(state, OwnedKind.TOPIC, TABLE_PREFIX + thing.name)
            return thing.name not in state.owners.aggregate_types and published in (None, tenant)


def decide_first_use(state: State, things: Sequence[OwnedName], *, tenant: str, now: int) -> list[OwnerSet]:
    """The tenant uses all of these; it becomes the owner of those that are new.

    Raises NotFound, and nothing changes, when one of them belongs to another tenant or to nobody.
    """
    records: list[OwnerSet] = []
    for thing in dict.fromkeys(things):
        if owner_of(state, *thing) == tenant:
            continue
        if not may_become_owner(state, tenant, thing):
            raise thing.missing()
        records.append(OwnerSet(at=now, kind=thing.kind, name=thing.name, tenant=tenant))
    return records


def decide_owner(state: State, thing: OwnedName, *, tenant: str, now: int) -> OwnerSet | None:
    """An operator gives a tenant what nobody owns yet; None when the tenant owns it.

    A topic's dead letters go with it. Raises OwnedByAnother, and TopicNotFound where there is no topic.
    """
    names = [thing.name]
    if thing.kind is OwnedKind.TOPIC:
        if thing.name not in state.topics:
            raise thing.missing()
        names.append(DEAD_LETTER_PREFIX + thing.name)
    for name in names:
        owner = owner_of(state, thing.kind, name)
        if owner not in (None, tenant):
            raise OwnedByAnother(name, tenant=owner or "")
    if owner_of(state, *thing) == tenant:
        return None
    return OwnerSet(at=now, kind=thing.kind, name=thing.name, tenant=tenant)


def owner_of_new_topic(state: State, name: str, *, tenant: str, alone: bool) -> str:
    """The owner of a topic that is about to be made, empty where nobody owns it.

    Without a tenant it is the owner of the dead letters that an earlier topic of this name left behind, or of
    the aggregate type whose events it takes. `alone`: the tenant itself asks, and reaches nothing of others.
    """
    dlq_topic = state.topics.get(DEAD_LETTER_PREFIX + name)
    aggregate_type = name.removeprefix(TABLE_PREFIX) if name.startswith(TABLE_PREFIX) else None
    if alone and aggregate_type is not None:
        # The publisher fills this topic: it must not show the events of others to the tenant.
        if owner_of(state, OwnedKind.AGGREGATE_TYPE, aggregate_type) != tenant:
            raise AggregateTypeNotFound(aggregate_type)
    if not tenant:
        if dlq_topic is not None:
            return dlq_topic.tenant
        if aggregate_type is not None:
            return owner_of(state, OwnedKind.AGGREGATE_TYPE, aggregate_type) or ""
    elif dlq_topic is not None and dlq_topic.tenant != tenant:
        raise TopicNotFound(name) if alone else OwnedByAnother(dlq_topic.name, tenant=dlq_topic.tenant)
    return tenant
