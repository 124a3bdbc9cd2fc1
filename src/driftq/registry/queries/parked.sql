-- name: park
INSERT INTO {parked} (
    handler, event_id, aggregate_type, aggregate_id, sequence_number, topic, topic_partition, topic_offset, value,
    parked_at
)
SELECT
    :handler, g.id, g.of_type, g.of_id, g.place, g.topic, g.topic_partition, g.topic_offset, g.value, {now}
FROM {rows g: id text, of_type text, of_id text, place bigint, topic text, topic_partition bigint, topic_offset bigint, value text}
WHERE true
ORDER BY g.id
ON CONFLICT (event_id, handler) DO NOTHING;

-- name: list_ready
-- Parked events that may be claimed now, or that need to be parked no longer; see `decide_claim`.
SELECT waits.event_id, waits.topic, waits.topic_partition, waits.topic_offset, waits.value
FROM {parked} AS waits
LEFT JOIN {claims} AS kept ON kept.event_id = waits.event_id AND kept.handler = waits.handler
LEFT JOIN {positions} AS reached
    ON reached.aggregate_id = waits.aggregate_id AND reached.aggregate_type = waits.aggregate_type
    AND reached.handler = waits.handler
WHERE waits.handler = :handler
    AND (:anywhere = 1 OR (waits.topic = :topic AND waits.topic_partition = :topic_partition))
    AND (
        (kept.state IS NULL AND waits.sequence_number <= coalesce(reached.last_sequence, 0) + 1)
        OR kept.state IN ('done', 'stale')
        OR (kept.state = 'claimed' AND kept.lease_until <= {now})
        OR (
            kept.state IN ('ready', 'failed') AND kept.retry_at <= {now}
            AND (kept.requeues > 0 OR waits.sequence_number <= coalesce(reached.last_sequence, 0) + 1)
        )
    )
ORDER BY waits.sequence_number, waits.event_id
LIMIT :most;

-- name: unpark
DELETE FROM {parked} WHERE handler = :handler AND event_id = :event_id;

-- name: count_parked
SELECT count(*) AS events FROM {parked} WHERE handler = :handler;

-- name: keep_derived
INSERT INTO {derived} (handler, source_id, place, event, kept_at)
SELECT :handler, :source_id, g.place, g.event, {now}
FROM {rows g: place bigint, event text}
WHERE true
ON CONFLICT (source_id, handler, place) DO NOTHING;

-- name: list_derived
SELECT source_id, place, event
FROM {derived}
WHERE handler = :handler AND refused = ''
ORDER BY kept_at, source_id, place
LIMIT :most;

-- name: drop_derived
DELETE FROM {derived} WHERE handler = :handler AND source_id = :source_id AND place = :place;

-- name: refuse_derived
UPDATE {derived} SET refused = :why WHERE handler = :handler AND source_id = :source_id AND place = :place;
