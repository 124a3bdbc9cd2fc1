-- Batches that tasks stage in PostgreSQL. {stage} is the table of one batch, {model} and {waiting} are those of
-- its read model. Texts are staged as bytes, which COPY never refuses: the types of the read model are applied
-- in the merge, where a row that does not fit can be told from the others.

-- name: make_stages (postgres)
CREATE TABLE IF NOT EXISTS {driftq_stages} (
    stage {text} NOT NULL PRIMARY KEY,
    projection {text} NOT NULL,
    epoch {bigint} NOT NULL,
    generation {bigint} NOT NULL
);

-- name: make_stage (postgres)
CREATE UNLOGGED TABLE {stage} (
    task integer NOT NULL,
    attempt bigint NOT NULL,
    kind smallint NOT NULL,
    aggregate_type bytea,
    aggregate_id bytea,
    sequence_number bigint,
    event_id bytea,
    content bytea,
    topic bytea,
    partition bigint,
    message_offset bigint,
    letter_id bytea,
    identity bytea,
    letter_key bytea,
    failed_at bytea,
    attempts bigint,
    error bytea
) WITH (autovacuum_enabled = false);

-- name: add_stage (postgres)
INSERT INTO {driftq_stages} (stage, projection, epoch, generation) VALUES (:stage, :name, :epoch, :generation);

-- name: older_stages (postgres)
SELECT stage FROM {driftq_stages} WHERE projection = :name AND epoch <= :epoch AND stage <> :current;

-- An attempt that no report names may still be writing: then the table stays until the next batch.
-- name: do_not_wait (postgres)
SET LOCAL lock_timeout = 100;

-- name: drop_stage (postgres)
DROP TABLE IF EXISTS {stage};

-- name: remove_stage (postgres)
DELETE FROM {driftq_stages} WHERE stage = :stage;

-- name: count_staged (postgres)
SELECT count(*) AS staged FROM {stage} WHERE attempt = ANY(CAST(:attempts AS bigint[]));

-- What the attempts have staged of each aggregate, as part of the statements below. In the order of the key:
-- neighbours share a page. Of equal sequences the result must not depend on tasks.
-- name: newest (postgres)
SELECT DISTINCT ON (aggregate_id, aggregate_type) aggregate_type, aggregate_id, sequence_number, event_id, content
FROM {stage} WHERE kind = 0 AND attempt = ANY(CAST(:attempts AS bigint[]))
ORDER BY aggregate_id, aggregate_type, sequence_number DESC, event_id;

-- Into a table that is empty and has no key yet.
-- name: insert_staged (postgres)
INSERT INTO {model} (aggregate_type, aggregate_id, sequence_number, event_id, state)
SELECT convert_from(aggregate_type, 'UTF8'), convert_from(aggregate_id, 'UTF8'), sequence_number,
    convert_from(event_id, 'UTF8'), CAST(convert_from(content, 'UTF8') AS json)
FROM ({newest}) AS newest;

-- MERGE writes a changed row once, where ON CONFLICT locks it first. It is safe because one transaction at a time
-- writes a read model: it holds the projection's row.
-- name: merge_staged (postgres)
MERGE INTO {model} AS kept USING (
    SELECT convert_from(aggregate_type, 'UTF8') AS aggregate_type, convert_from(aggregate_id, 'UTF8') AS aggregate_id,
        sequence_number, convert_from(event_id, 'UTF8') AS event_id,
        CAST(convert_from(content, 'UTF8') AS json) AS state
    FROM ({newest}) AS staged
) AS newest
ON kept.aggregate_id = newest.aggregate_id AND kept.aggregate_type = newest.aggregate_type
WHEN MATCHED AND kept.sequence_number < newest.sequence_number THEN UPDATE SET
    sequence_number = newest.sequence_number, event_id = newest.event_id, state = newest.state
WHEN NOT MATCHED THEN INSERT (aggregate_type, aggregate_id, sequence_number, event_id, state)
    VALUES (newest.aggregate_type, newest.aggregate_id, newest.sequence_number, newest.event_id, newest.state);

-- name: number_staged (postgres)
CREATE TEMP TABLE driftq_numbered ON COMMIT DROP AS
SELECT row_number() OVER (ORDER BY aggregate_id, aggregate_type) AS number, newest.* FROM ({newest}) AS newest;

-- name: index_numbered (postgres)
CREATE INDEX ON driftq_numbered (number);

-- name: count_numbered (postgres)
SELECT count(*) AS numbered FROM driftq_numbered;

-- name: merge_numbered (postgres)
INSERT INTO {model} AS kept (aggregate_type, aggregate_id, sequence_number, event_id, state)
SELECT convert_from(aggregate_type, 'UTF8'), convert_from(aggregate_id, 'UTF8'), sequence_number,
    convert_from(event_id, 'UTF8'), CAST(convert_from(content, 'UTF8') AS json)
FROM driftq_numbered WHERE number BETWEEN :first AND :last
ON CONFLICT (aggregate_id, aggregate_type) DO UPDATE SET
    sequence_number = excluded.sequence_number, event_id = excluded.event_id, state = excluded.state
WHERE kept.sequence_number < excluded.sequence_number;

-- name: numbered (postgres)
SELECT aggregate_type, aggregate_id, sequence_number, event_id, content FROM driftq_numbered WHERE number = :number;

-- name: add_staged_waiting (postgres)
INSERT INTO {waiting}
    (aggregate_type, aggregate_id, sequence_number, event_id, value, topic, partition, message_offset)
SELECT convert_from(aggregate_type, 'UTF8'), convert_from(aggregate_id, 'UTF8'), sequence_number,
    convert_from(event_id, 'UTF8'), convert_from(content, 'UTF8'), convert_from(topic, 'UTF8'),
    partition, message_offset
FROM {stage} WHERE kind = 1 AND attempt = ANY(CAST(:attempts AS bigint[]))
ON CONFLICT (aggregate_id, aggregate_type, sequence_number) DO NOTHING;

-- Their texts were made valid by the task, which knows their ids as well: none of them is refused.
-- name: add_staged_dead_letters (postgres)
INSERT INTO {driftq_dlq} (
    projection, id, topic, identity, partition, message_offset, letter_key, event_id, stage, error, attempts, value,
    recorded_at
)
SELECT
    :projection, convert_from(letter_id, 'UTF8'), convert_from(topic, 'UTF8'), convert_from(identity, 'UTF8'),
    partition, message_offset, convert_from(letter_key, 'UTF8'), convert_from(event_id, 'UTF8'),
    convert_from(failed_at, 'UTF8'), convert_from(error, 'UTF8'), attempts, convert_from(content, 'UTF8'), {now}
FROM {stage} WHERE kind = 2 AND attempt = ANY(CAST(:attempts AS bigint[]))
ON CONFLICT (projection, id) DO NOTHING;
