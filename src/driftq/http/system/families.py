"""Every metric of the server: its name, its type, its labels and what it means.

The reference is generated from this table, and a scrape renders its samples under these heads. Names and
units follow Prometheus' rules: seconds and bytes, `_total` for counters.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric."""

    name: str
    kind: str
    """counter, gauge or histogram."""
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def head(self) -> str:
        """The lines before its samples."""
        return f"# HELP {self.name} {self.meaning}\n# TYPE {self.name} {self.kind}\n"


def _counters(**meanings: str) -> dict[str, MetricFamily]:
    """By the field of `Counters` that has the number."""
    return {
        field: MetricFamily(f"driftq_{field}_total", "counter", meaning)
        for field, meaning in meanings.items()
    }


COUNTERS = _counters(
    produced="Messages stored.",
    produce_refused="Messages refused.",
    duplicates="Messages that were stored already, by their idempotency key.",
    payload_mismatches="Duplicates whose payload differed from the first.",
    delivered="Deliveries.",
    redelivered="Deliveries that were not a message's first.",
    acked="Messages settled by an ack.",
    nacked="Deliveries returned by a nack.",
    expired="Deliveries whose lease expired.",
    stalls="Streams held back because their owner let leases expire without any request.",
    dead_lettered="Messages that became dead letters.",
    redriven="Dead letters that were redriven.",
    jobs_enqueued="Jobs stored.",
    job_duplicates="Jobs that were stored already, by their idempotency key.",
    jobs_claimed="Runs of jobs that began.",
    jobs_completed="Runs of jobs that succeeded.",
    job_failures="Runs of jobs that failed, by an error, an expired lease or a timeout.",
    job_leases_expired="Runs of jobs that failed because their lease expired.",
    job_timeouts="Runs of jobs that failed because they exceeded their timeout.",
    jobs_retried="Failed runs after which the job waits for its next attempt.",
    jobs_dead="Jobs that became dead: their attempts are used up, or they were rejected or cancelled.",
    jobs_cancelled="Jobs that were cancelled.",
    jobs_requeued="Dead jobs that were requeued.",
    events_appended="Events stored.",
    event_duplicates="Events that were stored already, by their event_id.",
    events_refused="Events refused.",
    schedule_fires="Jobs enqueued by schedules.",
    schedule_fires_skipped="Missed fires that the policy of their schedule passed over.",
    commits="Writes to the log.",
    commit_failures="Writes to the log that failed.",
    committed_bytes="Bytes written to the log.",
    router_failures="Messages that went on unrouted because the router failed.",
    trimmed="Messages dropped because their retention had expired.",
    dropped_unsettled="Messages dropped unsettled because their topic was over its retention_bytes.",
    rounds="Rounds of housekeeping.",
    round_failures="Rounds of housekeeping that failed.",
    requests="HTTP requests.",
    unauthenticated="Requests without a valid API key.",
    permission_denied="Requests whose key lacks the role or the topic.",
    key_rate_refused="Requests over the rates of their key.",
    connections="HTTP connections accepted.",
    streams="Consume streams opened.",
)

REFUSALS = MetricFamily(
    "driftq_refusals_total",
    "counter",
    "Refused requests, and refused items of batches, by the code and the kind of their error.",
    ("code", "kind"),
)

HISTOGRAMS = {
    field: MetricFamily(f"driftq_{field}", "histogram", meaning)
    for field, meaning in {
        "produce_seconds": "From a produce request to its durable reply; all requests of a commit count as "
        "long as the oldest of them.",
        "commit_seconds": "How long a write to the log took, including the sync.",
        "commit_messages": "Messages and jobs stored by one write to the log.",
        "dispatch_seconds": "From the decision to deliver a batch until it was handed to its consumer.",
        "job_wait_seconds": "How long a job was due before a worker claimed it.",
        "job_run_seconds": "From the claim of a job to the end of the run, however it ended.",
        "event_append_seconds": "From a request that appends events to its durable reply.",
    }.items()
}

BUILD = MetricFamily(
    "driftq_build_info",
    "gauge",
    "1; the labels name the build and its Python.",
    ("version", "commit", "python"),
)
OPEN_CONNECTIONS = MetricFamily("driftq_open_connections", "gauge", "HTTP connections.")
OPEN_STREAMS = MetricFamily("driftq_open_streams", "gauge", "Consume streams.")
READY = MetricFamily("driftq_ready", "gauge", "1 when the server accepts work.")
DISK_FREE = MetricFamily("driftq_disk_free_bytes", "gauge", "Free space on the disk of the log.")
DISK_FLOOR = MetricFamily(
    "driftq_disk_floor_bytes", "gauge", "Free space below which the server refuses to store messages."
)

TOPIC_MESSAGES = MetricFamily("driftq_topic_messages", "gauge", "Messages kept.", ("topic",))
TOPIC_PRODUCED = MetricFamily(
    "driftq_topic_produced_total",
    "counter",
    "Messages stored in a topic since it was created, over all starts of the server.",
    ("topic",),
)
TOPIC_BYTES = MetricFamily("driftq_topic_bytes", "gauge", "Bytes of their keys and values.", ("topic",))
TOPIC_DELAYED = MetricFamily(
    "driftq_topic_delayed", "gauge", "Messages that wait for their `deliver_at`.", ("topic",)
)
DEAD_LETTERS = MetricFamily(
    "driftq_dead_letters", "gauge", "Dead letters kept, by the topic that they come from.", ("topic",)
)
GROUP_LAG = MetricFamily(
    "driftq_group_lag",
    "gauge",
    "Messages that a group has not settled, delayed ones included.",
    ("group", "topic"),
)
GROUP_IN_FLIGHT = MetricFamily(
    "driftq_group_in_flight", "gauge", "Deliveries under lease.", ("group", "topic")
)
JOBS = MetricFamily("driftq_jobs", "gauge", "Jobs kept, by queue and state.", ("queue", "state"))
OLDEST_AGE = MetricFamily(
    "driftq_queue_oldest_age_seconds",
    "gauge",
    "How long the oldest ready job of a queue has been due; 0 when none is ready.",
    ("queue",),
)
SCHEDULES = MetricFamily("driftq_schedules", "gauge", "Schedules.", ("state",))
QUEUE_PAUSED = MetricFamily("driftq_queue_paused", "gauge", "1 when the queue is paused.", ("queue",))
QUEUE_LEASES = MetricFamily(
    "driftq_queue_leases",
    "gauge",
    "Jobs under lease in queues with limits, pauses or limit keys.",
    ("queue",),
)
JOBS_BLOCKED = MetricFamily("driftq_jobs_blocked", "gauge", "Jobs that wait for other jobs.")
EFFECTS_OPEN = MetricFamily(
    "driftq_effects_open", "gauge", "Effects and steps that began and were neither committed nor failed."
)
STEPS_UNKNOWN = MetricFamily(
    "driftq_steps_unknown",
    "gauge",
    "Steps whose outcome is unknown until someone resolves them, among the 5,000 oldest open effects.",
)
OUTBOX_WAITING = MetricFamily(
    "driftq_outbox_waiting", "gauge", "Rows that wait in an outbox, as its relay reported last.", ("outbox",)
)
OUTBOX_PARKED = MetricFamily(
    "driftq_outbox_parked",
    "gauge",
    "Rows that are parked in an outbox, as its relay reported last.",
    ("outbox",),
)
REGISTRY_CLAIMS = MetricFamily(
    "driftq_registry_claims",
    "gauge",
    "Claims of the pipeline's handlers that are not done or stale, by state; counted every 15 s at most.",
    ("state",),
)

PROCESS = (
    MetricFamily("process_cpu_seconds_total", "counter", "User and system CPU time of the server."),
    MetricFamily("process_resident_memory_bytes", "gauge", "Memory of the server that is in RAM."),
    MetricFamily("process_virtual_memory_bytes", "gauge", "Address space of the server."),
    MetricFamily("process_start_time_seconds", "gauge", "When the server started, in seconds since 1970."),
    MetricFamily("process_open_fds", "gauge", "Open file descriptors."),
    MetricFamily("process_max_fds", "gauge", "The limit of open file descriptors."),
)

FAMILIES: tuple[MetricFamily, ...] = (
    *COUNTERS.values(),
    REFUSALS,
    *HISTOGRAMS.values(),
    BUILD,
    OPEN_CONNECTIONS,
    OPEN_STREAMS,
    READY,
    DISK_FREE,
    DISK_FLOOR,
    TOPIC_MESSAGES,
    TOPIC_PRODUCED,
    TOPIC_BYTES,
    TOPIC_DELAYED,
    DEAD_LETTERS,
    GROUP_LAG,
    GROUP_IN_FLIGHT,
    JOBS,
    OLDEST_AGE,
    SCHEDULES,
    QUEUE_PAUSED,
    QUEUE_LEASES,
    JOBS_BLOCKED,
    EFFECTS_OPEN,
    STEPS_UNKNOWN,
    OUTBOX_WAITING,
    OUTBOX_PARKED,
    REGISTRY_CLAIMS,
    *PROCESS,
)
"""In the order of a scrape."""
