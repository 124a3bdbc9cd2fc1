-- Dead letters of handlers: an outbox for the relay that publishes them to dlq.<topic>, and the marks of redrives.
-- A dead letter is written in the transaction in which its event is both dead and parked with its text.
CREATE TABLE {dead_letters} (
    handler {text} NOT NULL,
    event_id {text} NOT NULL,
    id {text} NOT NULL,
    topic {text} NOT NULL,
    identity {text} NOT NULL,
    topic_partition {bigint} NOT NULL,
    topic_offset {bigint} NOT NULL,
    letter_key {text} NOT NULL,
    value {text},
    stage {text} NOT NULL,
    error {text} NOT NULL,
    reason {text} NOT NULL,
    attempts {bigint} NOT NULL,
    redrives {bigint} NOT NULL,
    recorded_at {bigint} NOT NULL,
    published_at {bigint} NOT NULL DEFAULT 0,
    redriven_at {bigint} NOT NULL DEFAULT 0,
    redriven_by {text} NOT NULL DEFAULT '',
    PRIMARY KEY (event_id, handler)
) {clustered};

CREATE INDEX dead_letters_by_id ON {dead_letters} (id);

CREATE INDEX dead_letters_unpublished ON {dead_letters} (handler, recorded_at, id) WHERE published_at = 0;

-- Which run's relay publishes a handler's dead letters: that of the newest epoch.
CREATE TABLE {relays} (
    handler {text} NOT NULL PRIMARY KEY,
    epoch {bigint} NOT NULL
) {clustered};
