"""Everything DriftQ refuses or fails to do, with the facts of each case.

    DriftQError
    ├── InvalidArgument            400  the request is malformed or has no meaning
    ├── Unauthenticated            401
    │   ├── KeyMissing
    │   ├── KeyUnknown
    │   └── KafkaLoginRefused
    ├── PermissionDenied           403
    │   ├── RoleMissing
    │   ├── TopicNotAllowed
    │   ├── TenantNotAllowed
    │   ├── TenantMismatch
    │   ├── PageRefused
    │   ├── HostRefused
    │   └── KafkaAccessDenied
    ├── NotFound                   404
    │   ├── TopicNotFound
    │   ├── GroupNotFound
    │   ├── ClaimNotFound
    │   ├── JobNotFound
    │   ├── QueueNotFound
    │   ├── AggregateTypeNotFound
    │   ├── ScheduleNotFound
    │   ├── EffectNotFound
    │   ├── MessageNotFound
    │   ├── FollowerNotFound
    │   ├── RunNotFound
    │   ├── ReadModelNotFound
    │   ├── KafkaTopicNotFound
    │   └── RouteNotFound
    ├── MethodNotAllowed           405
    ├── RequestTimeout             408
    ├── FailedPrecondition         409
    │   ├── NotOwner
    │   ├── NoCurrentDelivery
    │   ├── StaleAttempt
    │   ├── AlreadySettled
    │   ├── DeadLetterGroupGone
    │   ├── WriterFenced
    │   ├── LaneBehind
    │   ├── IdempotencyPending
    │   ├── EffectSuperseded
    │   ├── EffectHeld
    │   ├── EffectDone
    │   ├── IdempotencyMismatch
    │   ├── StaleLease
    │   ├── WrongJobState
    │   ├── OwnedByAnother
    │   ├── LeaseLost              (reason stale_lease)
    │   ├── EventSuperseded
    │   ├── FollowerReplaced
    │   ├── WrongClaimState
    │   ├── KafkaOffsetGone
    │   ├── KafkaProducerLost
    │   ├── KafkaMessageRefused
    │   └── KafkaRefused
    ├── TopicExists                409  (ALREADY_EXISTS)
    ├── ScheduleExists             409  (ALREADY_EXISTS)
    ├── Conflict                   409  (CONFLICT)
    │   ├── SequenceConflict
    │   └── EventIdReused
    ├── PayloadTooLarge            413
    ├── ResourceExhausted          429
    │   ├── Overloaded
    │   ├── TooManyTries
    │   ├── KeyRateReached
    │   └── IdempotencyFull
    └── Unavailable                503
        ├── NotConfirmed
        ├── WritingStopped
        ├── ShuttingDown
        ├── DiskFull
        ├── DatabaseUnavailable
        │   └── DatabaseDamaged
        ├── DatabaseBusy
        ├── TransactionConflict
        ├── EventStoreUnusable
        ├── EventDamaged
        ├── RegistryUnusable
        ├── ReadModelUnavailable
        ├── KafkaUnavailable
        └── ServerUnreachable      (the client's own: the server did not answer)
    BatchRefused                   the client's: some of many messages were refused, each with its error
    JobFailed                      the client's: the job whose result it waits for is dead
    ClientClosed                   the client's: it was used after it was closed
    UsedAfterFork                  in a forked child: the object belongs to the parent
    StepUnknown                    the client's: whether a step happened is unknown, and a person decides
    StepHeld                       the client's: another process is at the step
    StepUnfinished                 the client's: the block of a step ended without a result
    OutboxMissing                  the relay's: the database has no outbox
    OutboxRelayReplaced            the relay's: another relay has taken over
    SparkUnusable                  the pipeline's: Spark, or a Java for it, is missing
    MessagesExpired                the pipeline's: retention removed messages that a query has not read
    PublisherReplaced              the pipeline's: another publisher has started
    BridgeReplaced                 the pipeline's: another bridge between the same topics has started
    BatchOutOfOrder                the pipeline's: a batch is not the next part of the event log
    OffsetOutOfOrder               the pipeline's: a bridge read a partition out of its order
    PositionsAhead                 the pipeline's: more was published than the event log has
    TopicBehind                    the pipeline's: a topic lost what was confirmed there
    TopicAppeared                  the pipeline's: a topic is new to a running query
    TopicStartedOver               the pipeline's: a topic ends before the offset of a query
    RelayFenced                    the pipeline's: a newer run relays these dead letters
    DocumentRefused                the pipeline's: a target will never store these rows
    KeysFileUnusable               the server's: the file of API keys is missing, damaged or unsafe
    CertificateUnusable            a certificate, its key or a CA file cannot be used
    LogError                       the log's files, never sent to a client as such
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
    ProjectionError                read models, never sent to a client as such
    ├── ProjectionFenced
    ├── ReadModelSwapped
    ├── MessagesGone
    ├── OffsetsStartOver
    └── FoldFailed
    SchemaError                    the tables of the database, never sent to a client as such
    ├── SchemaOutdated
    ├── SchemaTooNew
    └── DatabaseUnsuitable

Each error carries fields; its text is made from them, and no code branches on the text.
Each package has its own module of errors; this one exports them all.
"""

from driftq.errors.access import *  # noqa: F403 - every error of the module.
from driftq.errors.broker import *  # noqa: F403 - every error of the module.
from driftq.errors.client import *  # noqa: F403 - every error of the module.  # noqa: F403 - every error of the module.
from driftq.errors.database import *  # noqa: F403 - every error of the module.
from driftq.errors.effects import *  # noqa: F403 - every error of the module.
from driftq.errors.events import *  # noqa: F403 - every error of the module.
from driftq.errors.jobs import *  # noqa: F403 - every error of the module.  # noqa: F403 - every error of the module.
from driftq.errors.kafka import *  # noqa: F403 - every error of the module.
from driftq.errors.kinds import *  # noqa: F403 - every error of the module.
from driftq.errors.log import *  # noqa: F403 - every error of the module.
from driftq.errors.pipeline import *  # noqa: F403 - every error of the module.
from driftq.errors.projections import *  # noqa: F403 - every error of the module.
from driftq.errors.registry import *  # noqa: F403 - every error of the module.
from driftq.errors.tenants import *  # noqa: F403 - every error of the module.
