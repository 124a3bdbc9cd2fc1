-- One row for each (handler, event) that was ever claimed, until retention forgets the finished ones.
CREATE TABLE {claims} (
    handler {text} NOT NULL,
    event_id {text} NOT NULL,
    aggregate_type {text} NOT NULL,
    aggregate_id {text} NOT NULL,
    sequence_number {bigint} NOT NULL,
    state {text} NOT NULL
        CHECK (state IN ('claimed', 'failed', 'ready', 'done', 'stale', 'dead', 'unknown')),
    token {bigint} NOT NULL,
    attempts {bigint} NOT NULL,
    requeues {bigint} NOT NULL DEFAULT 0,
    effect {text} NOT NULL,
    gap_policy {text} NOT NULL,
    owner {text} NOT NULL,
    incarnation {text} NOT NULL,
    lease_until {bigint} NOT NULL DEFAULT 0,
    retry_at {bigint} NOT NULL DEFAULT 0,
    last_error {text} NOT NULL DEFAULT '',
    reason {text} NOT NULL DEFAULT '',
    claimed_at {bigint} NOT NULL,
    finished_at {bigint} NOT NULL DEFAULT 0,
    PRIMARY KEY (event_id, handler)
) {clustered};

CREATE INDEX claims_open ON {claims} (state, handler, event_id) WHERE state NOT IN ('done', 'stale');

CREATE INDEX claims_finished ON {claims} (finished_at) WHERE state IN ('done', 'stale');

-- How far each handler has come with each aggregate. Never deleted, never moved back.
CREATE TABLE {positions} (
    handler {text} NOT NULL,
    aggregate_type {text} NOT NULL,
    aggregate_id {text} NOT NULL,
    last_sequence {bigint} NOT NULL,
    PRIMARY KEY (aggregate_id, aggregate_type, handler)
) {clustered};

CREATE TABLE {processed_jobs} (
    scope {text} NOT NULL,
    job_key {text} NOT NULL,
    completed_at {bigint} NOT NULL,
    expires_at {bigint} NOT NULL,
    result_hash {text} NOT NULL,
    PRIMARY KEY (scope, job_key)
) {clustered};

CREATE INDEX processed_jobs_expiring ON {processed_jobs} (expires_at);
