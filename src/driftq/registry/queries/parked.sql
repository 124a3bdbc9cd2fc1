-- name: park (postgres)
INSERT INTO {parked} (
    handler, event_id, aggregate_type, aggregate_id, sequence_number, topic, topic_partition, topic_offset, value,
    topic_identity, parked_at
)
SELECT
    :handler, g.id, g.of_type, g.of_id, g.place, g.topic, g.topic_partition, g.topic_offset, g.value,
    g.topic_identity, {now}
FROM {rows g: id text, of_type text, of_id text, place bigint, topic text, topic_partition bigint,
    topic_offset bigint, value text, topic_identity text}
ORDER BY g.id
ON CONFLICT (event_id, handler) DO NOTHING;

-- name: park (sqlite)
INSERT INTO {parked} (
    handler, event_id, aggregate_type, aggregate_id, sequence_number, topic, topic_partition, topic_offset, value,
    topic_identity, parked_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (event_id, handler) DO NOTHING;

-- name: list_waiting (postgres)
-- The first parked events of each aggregate after what it has reached; not those that others have to settle.
SELECT
    waits.aggregate_type, waits.aggregate_id, waits.sequence_number, reached.last_sequence,
    waits.topic, waits.topic_partition, waits.topic_offset, waits.value,
    waits.topic_identity
FROM {rows g: of_type text, of_id text}
CROSS JOIN LATERAL (
    SELECT coalesce(
        (SELECT kept.last_sequence FROM {positions} AS kept
         WHERE kept.aggregate_id = g.of_id AND kept.aggregate_type = g.of_type AND kept.handler = :handler), 0
    ) AS last_sequence
) AS reached
CROSS JOIN LATERAL (
    SELECT own.*
    FROM {parked} AS own
    LEFT JOIN {claims} AS kept ON kept.event_id = own.event_id AND kept.handler = own.handler
    WHERE own.handler = :handler AND own.aggregate_id = g.of_id AND own.aggregate_type = g.of_type
        AND own.sequence_number > reached.last_sequence
        AND (
            kept.state IS NULL
            OR (kept.state IN ('claimed', 'ready', 'failed') AND kept.lease_until <= {now} AND kept.retry_at <= {now})
        )
    ORDER BY own.sequence_number
    LIMIT :most
) AS waits;

-- name: list_waiting (sqlite)
-- The same for one aggregate: handler, type, id, the time, how many.
SELECT
    own.aggregate_type, own.aggregate_id, own.sequence_number, reached.last_sequence,
    own.topic, own.topic_partition, own.topic_offset, own.value, own.topic_identity
FROM (
    SELECT coalesce(
        (SELECT last_sequence FROM {positions} WHERE aggregate_id = ?3 AND aggregate_type = ?2 AND handler = ?1), 0
    ) AS last_sequence
) AS reached
JOIN {parked} AS own
    ON own.handler = ?1 AND own.aggregate_id = ?3 AND own.aggregate_type = ?2
    AND own.sequence_number > reached.last_sequence
LEFT JOIN {claims} AS kept ON kept.event_id = own.event_id AND kept.handler = own.handler
WHERE kept.state IS NULL
    OR (kept.state IN ('claimed', 'ready', 'failed') AND kept.lease_until <= ?4 AND kept.retry_at <= ?4)
ORDER BY own.sequence_number
LIMIT ?5;

-- name: list_ready
-- Parked events that may be claimed now, or that need to be parked no longer; see `decide_claim`. Every row is
-- read once, however many pages there are.
SELECT
    waits.event_id, waits.aggregate_type, waits.aggregate_id, waits.sequence_number, waits.woken_at,
    waits.topic, waits.topic_partition, waits.topic_offset, waits.value,
    waits.topic_identity
FROM {parked} AS waits
LEFT JOIN {claims} AS kept ON kept.event_id = waits.event_id AND kept.handler = waits.handler
LEFT JOIN {positions} AS reached
    ON reached.aggregate_id = waits.aggregate_id AND reached.aggregate_type = waits.aggregate_type
    AND reached.handler = waits.handler
WHERE waits.handler = :handler
    AND (waits.aggregate_id, waits.aggregate_type, waits.sequence_number, waits.event_id)
        > (:after_id, :after_type, :after_sequence, :after_event)
    AND (
        (kept.state IS NULL AND waits.sequence_number <= coalesce(reached.last_sequence, 0) + 1)
        OR kept.state IN ('done', 'stale')
        OR (kept.state = 'claimed' AND kept.lease_until <= {now})
        OR (
            kept.state IN ('ready', 'failed') AND kept.retry_at <= {now}
            AND (kept.requeues > 0 OR waits.sequence_number <= coalesce(reached.last_sequence, 0) + 1)
        )
    )
ORDER BY waits.aggregate_id, waits.aggregate_type, waits.sequence_number, waits.event_id
LIMIT :most;

-- name: list_woken
SELECT
    waits.event_id, waits.aggregate_type, waits.aggregate_id, waits.sequence_number, waits.woken_at,
    waits.topic, waits.topic_partition, waits.topic_offset, waits.value,
    waits.topic_identity
FROM {parked} AS waits
WHERE waits.handler = :handler AND waits.woken_at > 0
ORDER BY waits.aggregate_id, waits.aggregate_type, waits.sequence_number, waits.event_id
LIMIT :most;

-- name: list_returned
-- Parked events whose claims came back: requeued, given back, failed and due, or of a worker that has ended.
SELECT
    waits.event_id, waits.aggregate_type, waits.aggregate_id, waits.sequence_number, waits.woken_at,
    waits.topic, waits.topic_partition, waits.topic_offset, waits.value,
    waits.topic_identity
FROM {claims} AS kept
JOIN {parked} AS waits ON waits.event_id = kept.event_id AND waits.handler = kept.handler
LEFT JOIN {positions} AS reached
    ON reached.aggregate_id = waits.aggregate_id AND reached.aggregate_type = waits.aggregate_type
    AND reached.handler = waits.handler
WHERE kept.state IN ('ready', 'failed', 'claimed') AND kept.state NOT IN ('done', 'stale')
    AND kept.handler = :handler AND kept.lease_until <= {now} AND kept.retry_at <= {now}
    AND (
        kept.state = 'claimed' OR kept.requeues > 0
        OR waits.sequence_number <= coalesce(reached.last_sequence, 0) + 1
    )
ORDER BY waits.aggregate_id, waits.aggregate_type, waits.sequence_number, waits.event_id
LIMIT :most;

-- name: unpark (postgres)
DELETE FROM {parked} AS kept
USING {rows g: id text}
WHERE kept.handler = :handler AND kept.event_id {among g: id} AND kept.event_id = g.id;

-- name: unpark (sqlite)
DELETE FROM {parked} WHERE event_id = ?2 AND handler = ?1;

-- name: wake
-- Its aggregate has reached `:reached`, and whoever moved it there runs nothing.
UPDATE {parked}
SET woken_at = {now}
WHERE handler = :handler AND aggregate_id = :aggregate_id AND aggregate_type = :aggregate_type
    AND sequence_number <= :reached + 1
    AND NOT EXISTS (
        SELECT 1 FROM {claims} AS kept
        WHERE kept.event_id = {parked}.event_id AND kept.handler = {parked}.handler
            AND kept.state IN ('dead', 'unknown')
    );

-- name: rest
-- Nothing can be done about these now. One that was woken again meanwhile stays awake.
UPDATE {parked} AS kept
SET woken_at = 0
FROM {rows g: id text, woken_at bigint}
WHERE kept.handler = :handler AND kept.event_id {among g: id}
    AND kept.event_id = g.id AND kept.woken_at = g.woken_at;

-- name: count_parked
SELECT count(*) AS events FROM {parked} WHERE handler = :handler;

-- name: keep_derived
INSERT INTO {derived} (handler, source_id, place, event, kept_at)
SELECT :handler, g.source_id, g.place, g.event, {now}
FROM {rows g: source_id text, place bigint, event text}
WHERE true
ON CONFLICT (source_id, handler, place) DO NOTHING;

-- name: list_derived
SELECT source_id, place, event
FROM {derived}
WHERE handler = :handler AND refused = ''
ORDER BY kept_at, source_id, place
LIMIT :most;

-- name: drop_derived
DELETE FROM {derived}
WHERE handler = :handler AND source_id {among g: source_id}
    AND (source_id, place) IN (SELECT g.source_id, g.place FROM {rows g: source_id text, place bigint});

-- name: refuse_derived
UPDATE {derived} SET refused = :why WHERE handler = :handler AND source_id = :source_id AND place = :place;
