-- Events that wait outside their topic, with their text: for an earlier one, for somebody's answer, or as dead
-- letters that may be requeued. Whoever reads the topic may go on once they are here.
CREATE TABLE {parked} (
    handler {text} NOT NULL,
    event_id {text} NOT NULL,
    aggregate_type {text} NOT NULL,
    aggregate_id {text} NOT NULL,
    sequence_number {bigint} NOT NULL,
    topic {text} NOT NULL,
    topic_partition {bigint} NOT NULL,
    topic_offset {bigint} NOT NULL,
    value {text} NOT NULL,
    parked_at {bigint} NOT NULL,
    PRIMARY KEY (event_id, handler)
) {clustered};

CREATE INDEX parked_by_place ON {parked} (handler, topic, topic_partition, sequence_number);

-- Events that handlers have made, kept with the mark of their source until the event store has them.
CREATE TABLE {derived} (
    handler {text} NOT NULL,
    source_id {text} NOT NULL,
    place {bigint} NOT NULL,
    event {text} NOT NULL,
    kept_at {bigint} NOT NULL,
    refused {text} NOT NULL DEFAULT '',
    PRIMARY KEY (source_id, handler, place)
) {clustered};

CREATE INDEX derived_waiting ON {derived} (handler) WHERE refused = '';
