-- Parked events are found by their aggregate, whose next event they may be, wherever on a topic they came from.
CREATE INDEX parked_by_aggregate ON {parked} (handler, aggregate_id, aggregate_type, sequence_number);

DROP INDEX {parked_by_place};

-- The identity of the topic, without which its offsets mean nothing; empty for events parked before.
ALTER TABLE {parked} ADD COLUMN topic_identity {text} NOT NULL DEFAULT '';

-- When somebody made it ready who does not run it, as by resolving the event before it; 0 for nobody.
ALTER TABLE {parked} ADD COLUMN woken_at {bigint} NOT NULL DEFAULT 0;

CREATE INDEX parked_woken ON {parked} (handler) WHERE woken_at > 0;

-- How far each handler has come on each partition of a topic. Never moved back.
CREATE TABLE {applied_positions} (
    handler {text} NOT NULL,
    topic_identity {text} NOT NULL,
    topic {text} NOT NULL,
    topic_partition {bigint} NOT NULL,
    next_offset {bigint} NOT NULL,
    PRIMARY KEY (handler, topic_identity, topic, topic_partition)
) {clustered};
