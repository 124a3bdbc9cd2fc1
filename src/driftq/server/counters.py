"""The server's counters: plain numbers, exported by the metrics route."""

from dataclasses import dataclass


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
    jobs_completed: int = 0
    schedule_fires: int = 0
    schedule_fires_skipped: int = 0
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
