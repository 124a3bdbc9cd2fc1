"""Creating topics and groups."""

from driftq.core.decide.owners import OwnedName, decide_owner, owner_of_new_topic
from driftq.core.owners import OwnedKind, OwnerSet
from driftq.core.records import GroupCreated, TopicCreated
from driftq.core.state import State, Topic
from driftq.errors import InvalidArgument, TopicExists, TopicNotFound
from driftq.model import MAX_PARTITIONS, TopicOptions, topic_name_problem


def decide_topic(
    state: State,
    name: str,
    *,
    partitions: int,
    options: TopicOptions,
    now: int,
    tenant: str = "",
    alone: bool = False,
) -> TopicCreated | OwnerSet | None:
    """The new topic; None when it exists with as many partitions.

    A tenant becomes its owner, also of an existing topic that nobody owns. `alone`: the tenant itself asks.
    To it a name that it does not own is TopicNotFound, even though it cannot take the name either.
    """
    problem = topic_name_problem(name)
    if problem:
        raise InvalidArgument("name", problem)
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidArgument("partitions", f"must be from 1 to {MAX_PARTITIONS}")
    for field in ("retention_ms", "retention_bytes"):
        number = getattr(options, field)
        if number is not None and number < 1:
            raise InvalidArgument(field, "must be at least 1")
    topic = state.topics.get(name)
    if topic is None:
        owner = owner_of_new_topic(state, name, tenant=tenant, alone=alone)
        return new_topic(state, name, partitions=partitions, options=options, now=now, tenant=owner)
    if alone and topic.tenant != tenant:
        raise TopicNotFound(name)
    if len(topic.partitions) != partitions:
        raise TopicExists(name, partitions=len(topic.partitions), asked=partitions)
    if not tenant:
        return None
    return decide_owner(state, OwnedName(OwnedKind.TOPIC, name), tenant=tenant, now=now)


def new_topic(
    state: State, name: str, *, partitions: int, options: TopicOptions, now: int, tenant: str = ""
) -> TopicCreated:
    """A new topic. Its offsets begin after those of an earlier topic of its name."""
    earlier = state.deleted_topics.find(name, now=now)
    return TopicCreated(
        at=now,
        topic=state.next_topic,
        name=name,
        partitions=partitions,
        options=options,
        start_offset=earlier.next_offset if earlier is not None else 0,
        tenant=tenant,
    )


def decide_group(state: State, topic: Topic, name: str, *, latest: bool, now: int) -> GroupCreated | None:
    """A new group; None when it exists. It starts at the oldest stored message.

    Where one of this name was deleted recently, its attempt numbers go on.
    """
    if name in topic.groups:
        return None
    starts = [part.index.end if latest else part.index.first for part in topic.partitions]
    return GroupCreated(
        at=now,
        topic=topic.id,
        group=state.next_group,
        name=name,
        starts=starts,
        attempt_base=topic.deleted_groups.find(name, now=now) or 0,
    )
