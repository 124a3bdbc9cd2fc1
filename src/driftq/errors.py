"""Everything DriftQ refuses or fails to do, with the facts of each case.

    DriftQError
    ├── InvalidArgument            400  the request cannot be meant
    ├── Unauthenticated            401
    ├── PermissionDenied           403
    ├── NotFound                   404
    │   ├── TopicNotFound
    │   ├── GroupNotFound
    │   ├── ClaimNotFound
    │   ├── JobNotFound
    │   ├── EffectNotFound
    │   ├── MessageNotFound
    │   ├── RunNotFound
    │   └── RouteNotFound
    ├── MethodNotAllowed           405
    ├── FailedPrecondition         409
    │   ├── NotOwner
    │   ├── NoCurrentDelivery
    │   ├── StaleAttempt
    │   ├── AlreadySettled
    │   ├── IdempotencyPending
    │   ├── EffectSuperseded
    │   ├── IdempotencyMismatch
    │   ├── WriterFenced
    │   ├── LaneBehind
    │   ├── StaleLease
    │   ├── WrongJobState
    │   ├── LeaseLost              (reason stale_lease)
    │   ├── EventSuperseded
    │   └── WrongClaimState
    ├── TopicExists                409  (ALREADY_EXISTS)
    ├── Conflict                   409  (CONFLICT)
    │   ├── SequenceConflict
    │   └── EventIdReused
    ├── PayloadTooLarge            413
    ├── ResourceExhausted          429
    │   ├── Overloaded
    │   └── IdempotencyFull
    └── Unavailable                503
        ├── NotConfirmed
        ├── WritingStopped
        ├── ShuttingDown
        ├── DiskFull
        ├── DatabaseUnavailable
        ├── DatabaseBusy
        ├── TransactionConflict
        ├── EventStoreUnusable
        └── ServerUnreachable      (the client's own: there was no answer)
    BatchRefused                   the client's: some of many messages were refused, each with its error
    ClientClosed                   the client's: it was used after its end
    LogError                       the files, never sent to a client as such
    ├── LogLocked
    ├── LogCorrupt
    ├── SnapshotDamaged
    └── FormatTooNew
    SegmentError                   the event log's segments, never sent to a client as such
    ├── SealerReplaced
    ├── SegmentDiffers
    ├── SegmentLost
    ├── SegmentsAhead
    └── UnsealedEvents
    SchemaError                    the tables of the database, never sent to a client as such
    ├── SchemaOutdated
    ├── SchemaTooNew
    └── DatabaseUnsuitable

Each error carries fields; its text is made from them, and nobody branches on the text.
"""

from __future__ import annotations


class DriftQError(Exception):
    """Base of what a caller can be told. `code` and `status` are what HTTP shows."""

    code = "INTERNAL"
    status = 500
    reason: str | None = None

    @property
    def message(self) -> str:
        return str(self)


class InvalidArgument(DriftQError):
    code = "INVALID_ARGUMENT"
    status = 400

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


class Unauthenticated(DriftQError):
    code = "UNAUTHENTICATED"
    status = 401


class PermissionDenied(DriftQError):
    code = "PERMISSION_DENIED"
    status = 403


class NotFound(DriftQError):
    code = "NOT_FOUND"
    status = 404


class TopicNotFound(NotFound):
    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} does not exist")
        self.topic = topic


class GroupNotFound(NotFound):
    def __init__(self, topic: str, *, group: str) -> None:
        super().__init__(f"group {group!r} does not exist on topic {topic!r}")
        self.topic = topic
        self.group = group


class ClaimNotFound(NotFound):
    def __init__(self, handler: str, *, event_id: str) -> None:
        super().__init__(f"handler {handler!r} has no claim on event {event_id!r}")
        self.handler = handler
        self.event_id = event_id


class JobNotFound(NotFound):
    def __init__(self, job: str) -> None:
        super().__init__(f"there is no job {job!r}")
        self.job = job


class EffectNotFound(NotFound):
    def __init__(self, key: str) -> None:
        super().__init__(f"nothing is known of an effect with key {key!r}")
        self.key = key


class MessageNotFound(NotFound):
    def __init__(self, topic: str, *, offset: int) -> None:
        super().__init__(f"no message with offset {offset} is kept in topic {topic!r}")
        self.topic = topic
        self.offset = offset


class RunNotFound(NotFound):
    def __init__(self, run_id: str) -> None:
        super().__init__(f"no message of run {run_id!r} is kept")
        self.run_id = run_id


class RouteNotFound(NotFound):
    def __init__(self, path: str) -> None:
        super().__init__(f"no such route: {path}")
        self.path = path


class MethodNotAllowed(DriftQError):
    code = "METHOD_NOT_ALLOWED"
    status = 405

    def __init__(self, method: str, *, allow: str) -> None:
        super().__init__(f"method {method} is not allowed here; allowed: {allow}")
        self.method = method
        self.allow = allow


class FailedPrecondition(DriftQError):
    code = "FAILED_PRECONDITION"
    status = 409


class NotOwner(FailedPrecondition):
    """The message is leased to somebody else."""

    def __init__(self) -> None:
        super().__init__("not owner")


class NoCurrentDelivery(FailedPrecondition):
    """Never delivered, lease ended, or waiting for its retry."""

    def __init__(self) -> None:
        super().__init__("no current delivery")


class StaleAttempt(FailedPrecondition):
    """The attempt given is not the one that is under way."""

    def __init__(self, *, held: int, given: int) -> None:
        super().__init__("stale attempt")
        self.held = held
        self.given = given


class AlreadySettled(FailedPrecondition):
    def __init__(self) -> None:
        super().__init__("already settled")


class IdempotencyPending(FailedPrecondition):
    reason = "idempotency_pending"

    def __init__(self, key: str) -> None:
        super().__init__(f"a produce with idempotency key {key!r} is still under way")
        self.key = key


class IdempotencyMismatch(FailedPrecondition):
    reason = "idempotency_mismatch"

    def __init__(self, key: str, *, offset: int) -> None:
        super().__init__(f"idempotency key {key!r} was used for another payload (offset {offset})")
        self.key = key
        self.offset = offset


class LeaseLost(FailedPrecondition):
    """The fencing token given is no longer the one in force: somebody else has the work, or it is over."""

    reason = "stale_lease"

    def __init__(self, what: str, *, held: int | None, given: int) -> None:
        now = "nothing is held" if held is None else f"token {held} is in force"
        super().__init__(f"the lease of {what} is lost: {now}, not {given}")
        self.what = what
        self.held = held
        self.given = given


class EventSuperseded(FailedPrecondition):
    """A newer event of the aggregate has had its effect since the claim, and only the newest state counts."""

    reason = "superseded"

    def __init__(self, event_id: str, *, sequence: int, last_sequence: int) -> None:
        super().__init__(f"event {event_id!r} has sequence {sequence}; {last_sequence} is already done")
        self.event_id = event_id
        self.sequence = sequence
        self.last_sequence = last_sequence


class WrongClaimState(FailedPrecondition):
    """What was asked is not possible for a claim in this state."""

    reason = "wrong_state"

    def __init__(self, handler: str, *, event_id: str, state: str, asked: str) -> None:
        super().__init__(f"cannot {asked} event {event_id!r} of handler {handler!r}: it is {state}")
        self.handler = handler
        self.event_id = event_id
        self.state = state
        self.asked = asked


class EffectSuperseded(FailedPrecondition):
    """The grant was taken over, or ended: its holder can no longer finish."""

    reason = "superseded"

    def __init__(self, *, given: int, held: int | None) -> None:
        super().__init__(f"token {given} is not the current one")
        self.given = given
        self.held = held


class WriterFenced(FailedPrecondition):
    """A newer run of this writer has begun: the older one must stop."""

    reason = "writer_fenced"

    def __init__(self, writer: str, *, newest: int, given: int) -> None:
        super().__init__(f"writer {writer!r} goes on under epoch {newest}; {given} is over")
        self.writer = writer
        self.newest = newest
        self.given = given


class LaneBehind(FailedPrecondition):
    """The topic has less of a writer than the writer knows to be stored: it was deleted or restored."""

    reason = "lane_behind"

    def __init__(self, writer: str, *, lane: int, position: int, after: int) -> None:
        super().__init__(f"lane {lane} of writer {writer!r} is at {position}, before {after}")
        self.writer = writer
        self.lane = lane
        self.position = position
        self.after = after


class StaleLease(FailedPrecondition):
    """The job is no longer held under this token."""

    reason = "stale_lease"

    def __init__(self, job: str, *, given: int) -> None:
        super().__init__(f"{job} is not held under token {given}")
        self.job = job
        self.given = given


class WrongJobState(FailedPrecondition):
    """The job is not in a state from which this can be done."""

    reason = "wrong_state"

    def __init__(self, job: str, *, state: str, wanted: str) -> None:
        super().__init__(f"cannot {wanted} {job}: it is {state}")
        self.job = job
        self.state = state
        self.wanted = wanted


class TopicExists(DriftQError):
    code = "ALREADY_EXISTS"
    status = 409

    def __init__(self, topic: str, *, partitions: int, asked: int) -> None:
        super().__init__(f"topic {topic!r} exists with {partitions} partitions, not {asked}")
        self.topic = topic
        self.partitions = partitions
        self.asked = asked


class Conflict(DriftQError):
    code = "CONFLICT"
    status = 409


class SequenceConflict(Conflict):
    """The aggregate is not where the writer thought it was; nothing was appended."""

    def __init__(self, aggregate_id: str, *, expected_seq: int, actual_seq: int) -> None:
        super().__init__(f"aggregate {aggregate_id!r} is at sequence {actual_seq}, not {expected_seq}")
        self.aggregate_id = aggregate_id
        self.expected_seq = expected_seq
        self.actual_seq = actual_seq


class EventIdReused(Conflict):
    """The event_id belongs to an event with other content, which stays as it is."""

    reason = "event_id_reused"

    def __init__(self, event_id: str, *, sequence_number: int) -> None:
        super().__init__(f"event_id {event_id!r} was used for other content (sequence {sequence_number})")
        self.event_id = event_id
        self.sequence_number = sequence_number


class PayloadTooLarge(DriftQError):
    code = "PAYLOAD_TOO_LARGE"
    status = 413

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"the request is larger than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


class ResourceExhausted(DriftQError):
    code = "RESOURCE_EXHAUSTED"
    status = 429
    retry_after_ms = 1000


class Overloaded(ResourceExhausted):
    """The partition holds as much unsettled work as it may."""

    reason = "overloaded"

    def __init__(self, topic: str, *, partition: int, limit: str, retry_after_ms: int = 1000) -> None:
        super().__init__(f"partition {partition} of topic {topic!r} is full ({limit})")
        self.topic = topic
        self.partition = partition
        self.limit = limit
        self.retry_after_ms = retry_after_ms


class IdempotencyFull(ResourceExhausted):
    reason = "idempotency_full"

    def __init__(self, *, keys: int) -> None:
        super().__init__(f"{keys} idempotency keys are live, which is the limit")
        self.keys = keys


class Unavailable(DriftQError):
    code = "UNAVAILABLE"
    status = 503


class NotConfirmed(Unavailable):
    """The log could not be written: what was asked may or may not be there after a restart."""

    reason = "log_failed"

    def __init__(self, cause: str) -> None:
        super().__init__(f"not confirmed: the log could not be written ({cause})")
        self.cause = cause


class WritingStopped(Unavailable):
    """The log could not be cut back after a failure, so nothing more is written."""

    reason = "writing_stopped"

    def __init__(self, cause: str) -> None:
        super().__init__(f"the server has stopped writing: {cause}")
        self.cause = cause


class ShuttingDown(Unavailable):
    reason = "shutting_down"

    def __init__(self) -> None:
        super().__init__("the server is shutting down")


class DiskFull(Unavailable):
    """The disk has less room than the server leaves free. Nothing was stored; acks still work."""

    reason = "disk_full"

    def __init__(self, *, free_bytes: int, floor_bytes: int) -> None:
        super().__init__(
            f"{free_bytes} bytes are free on the disk of the log, fewer than the {floor_bytes} to leave free"
        )
        self.free_bytes = free_bytes
        self.floor_bytes = floor_bytes


class DatabaseUnavailable(Unavailable):
    """The database cannot be reached or cannot write. `unconfirmed`: it went away during a commit."""

    reason = "database_unavailable"

    def __init__(self, address: str, *, cause: str, unconfirmed: bool = False) -> None:
        doubt = "; the last commit may or may not have happened" if unconfirmed else ""
        super().__init__(f"the database {address} is not available ({cause}){doubt}")
        self.address = address
        self.cause = cause
        self.unconfirmed = unconfirmed


class DatabaseBusy(Unavailable):
    """Others held the database, or the rows, for longer than we wait. Nothing was changed."""

    reason = "database_busy"

    def __init__(self, address: str, *, waited_ms: int) -> None:
        super().__init__(f"the database {address} was busy for {waited_ms} ms")
        self.address = address
        self.waited_ms = waited_ms


class TransactionConflict(Unavailable):
    """The database broke a tie between two transactions against this one. Nothing was changed; repeat it."""

    reason = "transaction_conflict"

    def __init__(self, address: str, *, cause: str) -> None:
        super().__init__(f"the transaction on {address} has to be repeated ({cause})")
        self.address = address
        self.cause = cause


class EventStoreUnusable(Unavailable):
    """There is no event store here, or not one that this server can work with."""

    reason = "event_store_unusable"

    def __init__(self, problem: str) -> None:
        super().__init__(f"the event store cannot be used: {problem}")
        self.problem = problem


class ServerUnreachable(Unavailable):
    """No answer: what was asked may or may not have been done."""

    reason = "unreachable"

    def __init__(self, url: str, *, cause: str) -> None:
        super().__init__(f"no DriftQ server answers at {url}: {cause}")
        self.url = url
        self.cause = cause


class BatchRefused(Exception):
    """Some of many messages were refused: `errors` by their place, `receipts` of the others."""

    def __init__(self, errors: dict[int, DriftQError], *, receipts: dict[int, object]) -> None:
        first = min(errors)
        super().__init__(
            f"{len(errors)} of {len(errors) + len(receipts)} messages were refused; "
            f"message {first}: {errors[first]}"
        )
        self.errors = errors
        self.receipts = receipts


class ClientClosed(Exception):
    """The client is closed, or was closed before this was sent."""

    def __init__(self) -> None:
        super().__init__("the client is closed")


class LogError(Exception):
    """Something is wrong with the files of the log."""


class LogLocked(LogError):
    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is in use by another DriftQ server")
        self.path = path


class LogCorrupt(LogError):
    """A damaged record with whole records behind it: good data may be lost by going on."""

    def __init__(self, path: str, *, position: int, problem: str, folder: str) -> None:
        super().__init__(
            f"{path} is damaged at byte {position}: {problem}. Whole records follow, so this is not a torn "
            f"tail and nothing was changed. To see what a repair would cut: driftq doctor --repair {folder}"
        )
        self.path = path
        self.position = position
        self.problem = problem
        self.folder = folder


class SnapshotDamaged(LogError):
    """A snapshot, index or manifest is not what was written, and the segments it stands for are gone."""

    def __init__(self, path: str, *, problem: str, folder: str) -> None:
        super().__init__(
            f"{path} is damaged: {problem}. Nothing was changed. Restore the folder from a backup, "
            f"or see what can be saved: driftq doctor {folder}"
        )
        self.path = path
        self.problem = problem
        self.folder = folder


class FormatTooNew(LogError):
    def __init__(self, path: str, *, found: int, known: int) -> None:
        super().__init__(f"{path} has format version {found}; this release reads up to {known}")
        self.path = path
        self.found = found
        self.known = known


class SegmentError(Exception):
    """Something is wrong with the segments of the event log, or with who may write them."""


class SealerReplaced(SegmentError):
    """Another sealer holds the lease now; what this one had under way changes nothing."""

    def __init__(self, *, owner: str, token: int) -> None:
        super().__init__(f"sealer {owner!r} with token {token} was replaced")
        self.owner = owner
        self.token = token


class SegmentDiffers(SegmentError):
    """An object has the name of a segment and other events in it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"segment {name} exists with other content; is the folder shared by two event stores?"
        )
        self.name = name


class SegmentLost(SegmentError):
    """Events that were sealed can not be read back."""

    def __init__(self, name: str, *, cause: str) -> None:
        super().__init__(f"segment {name} cannot be read: {cause}")
        self.name = name
        self.cause = cause


class SegmentsAhead(SegmentError):
    """The segments hold events that the database does not know: it is not the one that they came from."""

    def __init__(self, *, sealed: int, known: int) -> None:
        super().__init__(
            f"the segments go up to position {sealed}, the database to {known}; rebuild it first"
        )
        self.sealed = sealed
        self.known = known


class UnsealedEvents(SegmentError):
    """The database holds events that no segment has, so it is not one to be rebuilt."""

    def __init__(self, *, sealed: int) -> None:
        super().__init__(f"the database holds events beyond position {sealed}, where the known segments end")
        self.sealed = sealed


class SchemaError(Exception):
    """The tables of the database are not those that this release works with."""


class SchemaOutdated(SchemaError):
    def __init__(self, address: str, *, room: str, found: int, needed: int) -> None:
        super().__init__(
            f"the {room} tables in {address} are at version {found}, this release needs {needed}: "
            "run driftq db upgrade"
        )
        self.address = address
        self.room = room
        self.found = found
        self.needed = needed


class SchemaTooNew(SchemaError):
    def __init__(self, address: str, *, room: str, found: int, known: int) -> None:
        super().__init__(
            f"the {room} tables in {address} are at version {found}; this release knows up to {known}"
        )
        self.address = address
        self.room = room
        self.found = found
        self.known = known


class DatabaseUnsuitable(SchemaError):
    """The database lacks something that cannot be done without."""

    def __init__(self, address: str, *, problem: str) -> None:
        super().__init__(f"the database {address} cannot be used: {problem}")
        self.address = address
        self.problem = problem
