-- name: find_dead
-- Events that are dead and parked, of those given.
SELECT
    kept.event_id, kept.aggregate_type, kept.aggregate_id, kept.attempts, kept.requeues, kept.last_error,
    kept.reason, waits.topic, waits.topic_partition, waits.topic_offset, waits.value,
    waits.topic_identity, {now} AS now
FROM {rows g: id text}
JOIN {claims} AS kept ON kept.handler = :handler AND kept.event_id = g.id AND kept.event_id {among g: id}
JOIN {parked} AS waits
    ON waits.handler = :handler AND waits.event_id = g.id AND waits.event_id {among g: id}
WHERE kept.state = 'dead';

-- name: list_unrecorded
-- Events that are dead and parked, and have no dead letter: those of an earlier version.
SELECT kept.event_id
FROM {claims} AS kept
JOIN {parked} AS waits ON waits.event_id = kept.event_id AND waits.handler = kept.handler
LEFT JOIN {dead_letters} AS sent ON sent.event_id = kept.event_id AND sent.handler = kept.handler
WHERE kept.state = 'dead' AND kept.handler = :handler
    AND (sent.event_id IS NULL OR sent.redrives < kept.requeues)
ORDER BY kept.event_id
LIMIT :most;

-- name: record_dead_letters
-- An event that was redriven and died a second time is to be published a second time.
INSERT INTO {dead_letters} AS sent (
    handler, event_id, id, topic, identity, topic_partition, topic_offset, letter_key, value, stage, error,
    reason, attempts, redrives, recorded_at
)
SELECT
    :handler, g.event_id, g.id, g.topic, g.identity, g.topic_partition, g.topic_offset, g.letter_key, g.value,
    g.stage, g.error, g.reason, g.attempts, g.redrives, g.recorded_at
FROM {rows g: event_id text, id text, topic text, identity text, topic_partition bigint, topic_offset bigint,
    letter_key text, value text, stage text, error text, reason text, attempts bigint, redrives bigint,
    recorded_at bigint}
WHERE true
ORDER BY g.event_id
ON CONFLICT (event_id, handler) DO UPDATE SET
    id = excluded.id, identity = excluded.identity, value = excluded.value, stage = excluded.stage,
    error = excluded.error, reason = excluded.reason, attempts = excluded.attempts, redrives = excluded.redrives,
    recorded_at = excluded.recorded_at, published_at = 0, redriven_at = 0, redriven_by = ''
WHERE sent.redrives < excluded.redrives;

-- name: take_over_relay
INSERT INTO {relays} AS kept (handler, epoch) VALUES (:handler, 1)
ON CONFLICT (handler) DO UPDATE SET epoch = kept.epoch + 1
RETURNING epoch;

-- name: relay_epoch
SELECT epoch FROM {relays} WHERE handler = :handler {for_update};

-- name: read_relay_epoch
SELECT epoch FROM {relays} WHERE handler = :handler;

-- name: list_unpublished
SELECT
    event_id, id, topic, identity, topic_partition, topic_offset, letter_key, value, stage, error, reason,
    attempts, redrives, recorded_at
FROM {dead_letters}
WHERE handler = :handler AND published_at = 0 AND (recorded_at, id) > (:after_at, :after_id)
ORDER BY recorded_at, id
LIMIT :most;

-- name: mark_published
-- The topic has the text from now on; one that died again meanwhile stays unpublished.
UPDATE {dead_letters} AS sent
SET published_at = {now}, value = NULL
FROM {rows g: id text, redrives bigint}
WHERE sent.handler = :handler AND sent.id = g.id AND sent.redrives = g.redrives AND sent.published_at = 0
    AND sent.id {among g: id};

-- name: mark_redriven
UPDATE {dead_letters} SET redriven_at = {now}, redriven_by = :redriven_by
WHERE handler = :handler AND event_id = :event_id;

-- name: find_dead_letters
SELECT sent.id, sent.handler, sent.event_id, sent.redrives, sent.published_at, sent.redriven_at, sent.redriven_by
FROM {rows g: id text}
JOIN {dead_letters} AS sent ON sent.id = g.id AND sent.id {among g: id};

-- name: count_unpublished
SELECT count(*) AS dead_letters FROM {dead_letters} WHERE published_at = 0;
