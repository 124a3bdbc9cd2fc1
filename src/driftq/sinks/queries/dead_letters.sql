-- The dead letters of projections. Each is an outbox row until the relay has published it to dlq.<topic>.

-- name: make
CREATE TABLE IF NOT EXISTS {driftq_dlq} (
    projection {text} NOT NULL,
    id {text} NOT NULL,
    topic {text} NOT NULL,
    identity {text} NOT NULL,
    partition {bigint} NOT NULL,
    message_offset {bigint} NOT NULL,
    letter_key {text} NOT NULL,
    event_id {text},
    stage {text} NOT NULL,
    error {text} NOT NULL,
    attempts {bigint} NOT NULL,
    value {text},
    recorded_at {bigint} NOT NULL,
    published_at {bigint} NOT NULL DEFAULT 0,
    redriven_at {bigint} NOT NULL DEFAULT 0,
    redriven_by {text} NOT NULL DEFAULT '',
    PRIMARY KEY (projection, id)
) {clustered};

-- name: make_index
CREATE INDEX IF NOT EXISTS driftq_dlq_unpublished
ON {driftq_dlq} (projection, recorded_at, id) WHERE published_at = 0;

-- name: exists (sqlite)
SELECT 1 AS found FROM sqlite_schema WHERE name = :table_name;

-- name: exists (postgres)
SELECT 1 AS found FROM information_schema.tables WHERE table_schema = {schema} AND table_name = :table_name;

-- Earlier versions had driftq_dead_letters, which no relay published.
-- name: earlier
SELECT topic, partition, message_offset, event_id, stage, error, value, recorded_at
FROM {driftq_dead_letters} WHERE projection = :projection ORDER BY topic, partition, message_offset;

-- name: drop_earlier
DELETE FROM {driftq_dead_letters} WHERE projection = :projection;

-- name: add
INSERT INTO {driftq_dlq} (
    projection, id, topic, identity, partition, message_offset, letter_key, event_id, stage, error, attempts, value,
    recorded_at
)
SELECT
    :projection, g.id, g.topic, g.identity, g.partition, g.message_offset, g.letter_key, g.event_id, g.stage,
    g.error, g.attempts, g.value, coalesce(g.recorded_at, {now})
FROM {rows g: id text, topic text, identity text, partition bigint, message_offset bigint, letter_key text,
    event_id text, stage text, error text, attempts bigint, value text, recorded_at bigint}
WHERE true
ON CONFLICT (projection, id) DO NOTHING;

-- name: epoch
SELECT epoch FROM {driftq_projections} WHERE name = :projection;

-- name: lock_epoch
SELECT epoch FROM {driftq_projections} WHERE name = :projection {for_update};

-- name: all
SELECT topic, partition, message_offset, event_id, stage, error, value, identity, attempts, letter_key
FROM {driftq_dlq} WHERE projection = :projection ORDER BY topic, partition, message_offset, identity, stage;

-- name: unpublished
SELECT topic, partition, message_offset, event_id, stage, error, value, identity, attempts, letter_key, recorded_at
FROM {driftq_dlq}
WHERE projection = :projection AND published_at = 0 AND (recorded_at, id) > (:after_at, :after_id)
ORDER BY recorded_at, id
LIMIT :most;

-- name: mark_published
UPDATE {driftq_dlq} AS sent SET published_at = {now}
FROM {rows g: id text}
WHERE sent.projection = :projection AND sent.id = g.id AND sent.published_at = 0;

-- name: mark_redriven
UPDATE {driftq_dlq} SET redriven_at = {now}, redriven_by = :redriven_by
WHERE projection = :projection AND id = :id;

-- name: marks
SELECT id, redriven_at, redriven_by FROM {driftq_dlq} WHERE projection = :projection AND redriven_at > 0;

-- The rebuild has applied what it has read and not given up again. Dead letters of earlier versions have no
-- identity; what the rebuild has given up has another id.
-- name: mark_rebuilt
UPDATE {driftq_dlq} AS sent SET redriven_at = {now}, redriven_by = :redriven_by
WHERE sent.projection = :projection AND sent.redriven_at = 0
    AND NOT EXISTS (SELECT 1 FROM {driftq_dlq} AS fresh WHERE fresh.projection = :beside AND fresh.id = sent.id)
    AND EXISTS (
        SELECT 1 FROM {driftq_applied} AS reached
        WHERE reached.projection = :beside AND reached.topic = sent.topic AND reached.partition = sent.partition
            AND (reached.identity = sent.identity OR sent.identity = '')
            AND reached.applied_offset >= sent.message_offset
    );

-- One that was redriven and that the rebuild has given up is not applied any more.
-- name: unmark_given_up
UPDATE {driftq_dlq} AS sent SET redriven_at = 0, redriven_by = ''
WHERE sent.projection = :projection AND sent.redriven_at > 0
    AND EXISTS (SELECT 1 FROM {driftq_dlq} AS fresh WHERE fresh.projection = :beside AND fresh.id = sent.id);

-- name: move
INSERT INTO {driftq_dlq} (
    projection, id, topic, identity, partition, message_offset, letter_key, event_id, stage, error, attempts, value,
    recorded_at, published_at
)
SELECT
    :projection, id, topic, identity, partition, message_offset, letter_key, event_id, stage, error, attempts, value,
    recorded_at, published_at
FROM {driftq_dlq} AS fresh WHERE fresh.projection = :beside
ON CONFLICT (projection, id) DO NOTHING;

-- name: drop
DELETE FROM {driftq_dlq} WHERE projection = :projection;
