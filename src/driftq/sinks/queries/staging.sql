-- Batches that tasks stage in PostgreSQL. {rows} has the changes of one batch, {stage} what else it has; {model} and
-- {waiting} are the tables of its read model. COPY checks texts and JSON in the tasks' connections, so that the merge
-- need not. It refuses a part with a row that does not fit; {stage} takes such a part as bytes, which COPY never
-- refuses, and the merge tells that row from the others.

-- name: make_stages (postgres)
CREATE TABLE IF NOT EXISTS {driftq_stages} (
    stage {text} NOT NULL PRIMARY KEY,
    projection {text} NOT NULL,
    epoch {bigint} NOT NULL,
    generation {bigint} NOT NULL
);

-- The types and constraints of the read model's own table. A part is in the order of the key.
-- name: staged_columns (postgres)
    attempt {bigint} NOT NULL,
    aggregate_type {text} NOT NULL,
    aggregate_id {text} NOT NULL,
    sequence_number {bigint} NOT NULL,
    event_id {text} NOT NULL,
    state json;

-- name: make_staged_rows (postgres)
CREATE UNLOGGED TABLE {rows} ({staged_columns}) WITH (autovacuum_enabled = false);

-- Rows for a read model that has none: the table itself may become the read model's, so it is written as that is.
-- name: make_first_rows (postgres)
CREATE TABLE {rows} ({staged_columns}) WITH (fillfactor = 50, autovacuum_enabled = false);

-- Whether rows may be staged in a table with a journal: nobody follows this database's journal by its tables' names.
-- name: may_be_kept (postgres)
SELECT 1 AS found WHERE NOT EXISTS (SELECT 1 FROM pg_publication)
    AND NOT EXISTS (SELECT 1 FROM pg_replication_slots WHERE slot_type = 'logical' AND database = current_database());

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
INSERT INTO {driftq_stages} (stage, projection, epoch, generation)
SELECT stage, :name, :epoch, :generation FROM unnest(CAST(:stages AS text[])) AS stage;

-- name: older_stages (postgres)
SELECT stage FROM {driftq_stages} WHERE projection = :name AND epoch <= :epoch
    AND NOT stage = ANY(CAST(:current AS text[]));

-- An attempt that no report names may still be writing: then the table stays until the next batch.
-- name: do_not_wait (postgres)
SET LOCAL lock_timeout = 100;

-- name: drop_stage (postgres)
DROP TABLE IF EXISTS {stage};

-- name: drop_stages (postgres)
DROP TABLE IF EXISTS {rows}, {stage};

-- name: remove_stages (postgres)
DELETE FROM {driftq_stages} WHERE stage = ANY(CAST(:stages AS text[]));

-- name: count_others (postgres)
SELECT count(*) AS staged, count(*) FILTER (WHERE kind = 0) AS refused
FROM {stage} WHERE attempt = ANY(CAST(:attempts AS bigint[]));

-- By hash, because numbers sort faster than keys: no two rows are of one aggregate if each has a hash of its own.
-- name: count_rows (postgres)
SELECT count(*) AS staged, count(DISTINCT hashtextextended(aggregate_id, hashtextextended(aggregate_type, 0))) AS hashes
FROM {rows} WHERE attempt = ANY(CAST(:attempts AS bigint[]));

-- How many rows, where their number is all that is asked.
-- name: count_first_rows (postgres)
SELECT count(*) AS staged FROM {rows} WHERE attempt = ANY(CAST(:attempts AS bigint[]));

-- The view first, as readers do. From here on no attempt can write to {rows}.
-- name: lock_tables (postgres)
LOCK TABLE {view}, {model}, {rows} IN ACCESS EXCLUSIVE MODE NOWAIT;

-- Whether {rows} has the rows of these attempts alone, and nothing is lost with {model}: it is empty, is as it was made,
-- has the same owner and rights as a new table, and only the view of the read model depends on it.
-- name: can_take_place (postgres)
SELECT 1 AS found
FROM pg_class AS kept, pg_class AS fresh
WHERE kept.oid = CAST('{model}' AS regclass) AND fresh.oid = CAST('{rows}' AS regclass)
AND fresh.relpersistence = kept.relpersistence AND fresh.relowner = kept.relowner
AND fresh.relacl IS NOT DISTINCT FROM kept.relacl AND fresh.reltablespace = kept.reltablespace
AND kept.reloptions = ARRAY['fillfactor=50'] AND kept.relnatts = 5 AND kept.relreplident = 'd'
AND NOT (kept.relhasindex OR kept.relhastriggers OR kept.relhasrules OR kept.relrowsecurity)
AND NOT EXISTS (SELECT 1 FROM {model})
AND NOT EXISTS (SELECT 1 FROM {rows} WHERE NOT attempt = ANY(CAST(:attempts AS bigint[])))
AND NOT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = kept.oid AND attacl IS NOT NULL)
AND NOT EXISTS (SELECT 1 FROM pg_description WHERE classoid = CAST('pg_class' AS regclass) AND objoid = kept.oid)
AND NOT EXISTS (
    SELECT 1 FROM pg_depend WHERE refclassid = CAST('pg_class' AS regclass) AND refobjid = kept.oid AND deptype <> 'i'
    AND NOT (classid = CAST('pg_rewrite' AS regclass)
        AND objid IN (SELECT oid FROM pg_rewrite WHERE ev_class = CAST('{view}' AS regclass)))
    AND NOT (classid = CAST('pg_constraint' AS regclass)
        AND objid IN (SELECT oid FROM pg_constraint WHERE contype = 'n'))
);

-- name: drop_tag (postgres)
ALTER TABLE {rows} DROP COLUMN attempt, RESET (autovacuum_enabled);

-- Fails if an aggregate has several rows.
-- name: add_first_key (postgres)
ALTER TABLE {rows} ADD PRIMARY KEY (aggregate_id, aggregate_type);

-- name: move_view (postgres)
CREATE OR REPLACE VIEW {view} AS
SELECT aggregate_type, aggregate_id, sequence_number, state FROM {rows} WHERE state IS NOT NULL;

-- name: drop_empty (postgres)
DROP TABLE {model};

-- name: take_place (postgres)
ALTER TABLE {rows} RENAME TO {new_model};

-- Parts that COPY refused. Raises what the database has against them.
-- name: take_refused (postgres)
INSERT INTO {rows} (attempt, aggregate_type, aggregate_id, sequence_number, event_id, state)
SELECT attempt, convert_from(aggregate_type, 'UTF8'), convert_from(aggregate_id, 'UTF8'), sequence_number,
    convert_from(event_id, 'UTF8'), CAST(convert_from(content, 'UTF8') AS json)
FROM {stage} WHERE kind = 0 AND attempt = ANY(CAST(:attempts AS bigint[]));

-- Part of the statements below: as tasks wrote the rows, where each is of another aggregate.
-- name: staged (postgres)
SELECT aggregate_type, aggregate_id, sequence_number, event_id, state
FROM {rows} WHERE attempt = ANY(CAST(:attempts AS bigint[]));

-- The same, where an aggregate may have several rows. Of equal sequences the result must not depend on tasks.
-- name: newest (postgres)
SELECT DISTINCT ON (aggregate_id, aggregate_type) aggregate_type, aggregate_id, sequence_number, event_id, state
FROM {rows} WHERE attempt = ANY(CAST(:attempts AS bigint[]))
ORDER BY aggregate_id, aggregate_type, sequence_number DESC, event_id;

-- Into a table that is empty and has no key yet.
-- name: insert_newest (postgres)
INSERT INTO {model} (aggregate_type, aggregate_id, sequence_number, event_id, state) {newest};

-- MERGE writes a changed row once, where ON CONFLICT locks it first. It is safe because one transaction at a time
-- writes a read model: it holds the projection's row.
-- name: by_key (postgres)
ON kept.aggregate_id = fresh.aggregate_id AND kept.aggregate_type = fresh.aggregate_type
WHEN MATCHED AND kept.sequence_number < fresh.sequence_number THEN UPDATE SET
    sequence_number = fresh.sequence_number, event_id = fresh.event_id, state = fresh.state
WHEN NOT MATCHED THEN INSERT (aggregate_type, aggregate_id, sequence_number, event_id, state)
    VALUES (fresh.aggregate_type, fresh.aggregate_id, fresh.sequence_number, fresh.event_id, fresh.state);

-- name: merge_staged (postgres)
MERGE INTO {model} AS kept USING ({staged}) AS fresh {by_key};

-- name: merge_newest (postgres)
MERGE INTO {model} AS kept USING ({newest}) AS fresh {by_key};

-- name: number_staged (postgres)
CREATE TEMP TABLE driftq_numbered ON COMMIT DROP AS
SELECT row_number() OVER (ORDER BY aggregate_id, aggregate_type) AS number, newest.* FROM (
    SELECT DISTINCT ON (aggregate_id, aggregate_type) *
    FROM (
        SELECT convert_to(aggregate_type, 'UTF8') AS aggregate_type, convert_to(aggregate_id, 'UTF8') AS aggregate_id,
            sequence_number, convert_to(event_id, 'UTF8') AS event_id,
            convert_to(CAST(state AS text), 'UTF8') AS content
        FROM {rows} WHERE attempt = ANY(CAST(:attempts AS bigint[]))
        UNION ALL
        SELECT aggregate_type, aggregate_id, sequence_number, event_id, content
        FROM {stage} WHERE kind = 0 AND attempt = ANY(CAST(:attempts AS bigint[]))
    ) AS every
    ORDER BY aggregate_id, aggregate_type, sequence_number DESC, event_id
) AS newest;

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
