-- name: aggregate_events
SELECT p.position, e.event_id, e.aggregate_type, e.aggregate_id, e.sequence_number, e.event_type, e.operation,
       e.occurred_at_us, e.payload, e.metadata, e.schema_version, e.content_hash
FROM {events} AS e LEFT JOIN {event_positions} AS p ON p.row_id = e.row_id
WHERE e.aggregate_type = :aggregate_type AND e.aggregate_id = :aggregate_id
  AND e.sequence_number >= :from_seq
ORDER BY e.sequence_number LIMIT :events_max;

-- name: log_events
SELECT p.position, e.event_id, e.aggregate_type, e.aggregate_id, e.sequence_number, e.event_type, e.operation,
       e.occurred_at_us, e.payload, e.metadata, e.schema_version, e.content_hash
FROM {event_positions} AS p JOIN {events} AS e ON e.row_id = p.row_id
WHERE p.position BETWEEN :first AND :last
ORDER BY p.position;

-- name: events_of_type
SELECT 1 AS found FROM {events} WHERE aggregate_type = :aggregate_type LIMIT 1;

-- A range of positions is read by its key, and the filter drops rows before their texts are read.
-- name: log_events_of
SELECT p.position, e.event_id, e.aggregate_type, e.aggregate_id, e.sequence_number, e.event_type, e.operation,
       e.occurred_at_us, e.payload, e.metadata, e.schema_version, e.content_hash
FROM {event_positions} AS p JOIN {events} AS e ON e.row_id = p.row_id
WHERE p.position BETWEEN :first AND :last
  AND (CAST(:aggregate_type AS text) IS NULL OR e.aggregate_type = :aggregate_type)
  AND (CAST(:event_type AS text) IS NULL OR e.event_type = :event_type)
ORDER BY p.position LIMIT :events_max;

-- name: log_events_of_types
SELECT p.position, e.event_id, e.aggregate_type, e.aggregate_id, e.sequence_number, e.event_type, e.operation,
       e.occurred_at_us, e.payload, e.metadata, e.schema_version, e.content_hash
FROM {event_positions} AS p JOIN {events} AS e ON e.row_id = p.row_id
WHERE p.position BETWEEN :first AND :last
  AND e.aggregate_type IN (SELECT g.aggregate_type FROM {rows g: aggregate_type text})
  AND (CAST(:aggregate_type AS text) IS NULL OR e.aggregate_type = :aggregate_type)
  AND (CAST(:event_type AS text) IS NULL OR e.event_type = :event_type)
ORDER BY p.position LIMIT :events_max;

-- name: events_of_time
SELECT p.position, e.event_id, e.aggregate_type, e.aggregate_id, e.sequence_number, e.event_type, e.operation,
       e.occurred_at_us, e.payload, e.metadata, e.schema_version, e.content_hash
FROM {event_positions} AS p JOIN {events} AS e ON e.row_id = p.row_id
WHERE e.occurred_at_us >= :since_us AND e.occurred_at_us < :until_us
  AND (e.occurred_at_us, p.position) > (:after_us, :after_position)
ORDER BY e.occurred_at_us, p.position LIMIT :events_max;

-- name: log_end
SELECT COALESCE(max(position), 0) AS last FROM {event_positions};

-- name: segments_of
SELECT DISTINCT s.first_position, s.last_position
FROM {rows g: position bigint}
JOIN {event_segments} AS s ON g.position BETWEEN s.first_position AND s.last_position
WHERE s.sealed = 1
ORDER BY s.first_position;
