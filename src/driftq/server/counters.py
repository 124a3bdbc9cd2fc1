"""The server's counters: plain numbers, exported by the metrics route."""

from collections import Counter
from dataclasses import dataclass, field

from driftq.server.histograms import Histograms


@dataclass(slots=True)
class Counters:
    produced: int = 0
    produce_refused: int = 0
    duplicates: int = 0
    payload_mismatches: int = 0
    delivered: int = 0
    redelivered: int = 0
    acked: int = 0
    nacked: int = 0
    expired: int = 0
    stalls: int = 0
    dead_lettered: int = 0
    redriven: int = 0
    jobs_enqueued: int = 0
    job_duplicates: int = 0
    jobs_claimed: int = 0
    jobs_completed: int = 0
    schedule_fires: int = 0
    schedule_fires_skipped: int = 0
    job_failures: int = 0
    job_leases_expired: int = 0
    job_timeouts: int = 0
    jobs_retried: int = 0
    jobs_dead: int = 0
    jobs_cancelled: int = 0
    jobs_requeued: int = 0
    events_appended: int = 0
    event_duplicates: int = 0
    events_refused: int = 0
    commits: int = 0
    commit_failures: int = 0
    committed_bytes: int = 0
    router_failures: int = 0
    trimmed: int = 0
    dropped_unsettled: int = 0
    rounds: int = 0
    round_failures: int = 0
    requests: int = 0
    unauthenticated: int = 0
    permission_denied: int = 0
    key_rate_refused: int = 0
    connections: int = 0
    streams: int = 0
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Refused requests, and refused items of batches, by the code and the class of their error."""
    histograms: Histograms = field(default_factory=Histograms)
