-- Events as they were appended. Rows are never deleted; payload and metadata of sealed ones may be trimmed.
CREATE TABLE {events} (
    row_id INTEGER PRIMARY KEY,
    event_id {text} NOT NULL UNIQUE,
    aggregate_type {text} NOT NULL,
    aggregate_id {text} NOT NULL,
    sequence_number {bigint} NOT NULL,
    event_type {text} NOT NULL,
    operation {text} NOT NULL,
    occurred_at_us {bigint} NOT NULL,
    payload {text},
    metadata {text},
    schema_version {text} NOT NULL,
    content_hash {text} NOT NULL,
    UNIQUE (aggregate_type, aggregate_id, sequence_number)
) {strict};

CREATE INDEX events_by_time ON {events} (occurred_at_us);

-- The log: which event is at which position.
CREATE TABLE {event_positions} (
    position INTEGER PRIMARY KEY,
    row_id {bigint} NOT NULL UNIQUE
) {strict};

-- The ranges that are cut for segments; sealed is 1 once the object is there.
CREATE TABLE {event_segments} (
    first_position INTEGER PRIMARY KEY,
    last_position {bigint} NOT NULL,
    sealed {bigint} NOT NULL
) {strict};

-- Who may give positions and write segments, and up to where payloads are trimmed. One row.
CREATE TABLE {event_sealer} (
    name {text} NOT NULL PRIMARY KEY,
    owner {text} NOT NULL,
    token {bigint} NOT NULL,
    lease_until {bigint} NOT NULL,
    trimmed_upto {bigint} NOT NULL
) {strict};
