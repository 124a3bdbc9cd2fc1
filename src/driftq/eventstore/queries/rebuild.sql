-- name: unplaced
SELECT (SELECT count(*) FROM {events}) - (SELECT count(*) FROM {event_positions}) AS events;

-- name: restore (sqlite)
INSERT INTO {events} (row_id, event_id, aggregate_type, aggregate_id, sequence_number, event_type, operation,
                      occurred_at_us, payload, metadata, schema_version, content_hash)
VALUES (:position, :event_id, :aggregate_type, :aggregate_id, :sequence_number, :event_type, :operation,
        :occurred_at_us, :payload, :metadata, :schema_version, :content_hash);

-- name: restore (postgres)
INSERT INTO {events} (event_id, aggregate_type, aggregate_id, sequence_number, event_type, operation,
                      occurred_at_us, payload, metadata, schema_version, content_hash)
SELECT g.event_id, g.aggregate_type, g.aggregate_id, g.sequence_number, g.event_type, g.operation,
       g.occurred_at_us, g.payload, g.metadata, g.schema_version, g.content_hash
FROM {rows g: position bigint, event_id text, aggregate_type text, aggregate_id text, sequence_number bigint,
      event_type text, operation text, occurred_at_us bigint, payload text, metadata text,
      schema_version text, content_hash text}
ORDER BY g.position;

-- name: restore_positions
INSERT INTO {event_positions} (position, row_id)
SELECT g.position, e.row_id FROM {rows g: position bigint, event_id text}
JOIN {events} AS e ON e.event_id = g.event_id;

-- Numbers are reserved after what is stored; a row that outlived its events would leave a gap.
-- name: forget_sequences (postgres)
DELETE FROM {sequence.aggregate_sequences};
