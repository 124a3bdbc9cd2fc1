-- The tables and statements of one read model. {model}, {waiting} and {view} are its own; {json} is how a
-- state is kept: PostgreSQL's json, which keeps the text as it came.

-- name: make_projections
CREATE TABLE IF NOT EXISTS {driftq_projections} (
    name {text} NOT NULL PRIMARY KEY,
    epoch {bigint} NOT NULL,
    generation {bigint} NOT NULL
) {clustered};

-- name: make_positions
CREATE TABLE IF NOT EXISTS {driftq_applied} (
    projection {text} NOT NULL,
    topic {text} NOT NULL,
    partition {bigint} NOT NULL,
    identity {text} NOT NULL,
    applied_offset {bigint} NOT NULL,
    PRIMARY KEY (projection, topic, partition, identity)
) {clustered};

-- Earlier versions had driftq_positions, without the identity of a topic.
-- name: adopt_positions
INSERT INTO {driftq_applied} (projection, topic, partition, identity, applied_offset)
SELECT projection, topic, partition, '', applied_offset FROM {driftq_positions} WHERE projection = :name
ON CONFLICT (projection, topic, partition, identity) DO NOTHING;

-- name: drop_adopted
DELETE FROM {driftq_positions} WHERE projection = :name;

-- name: make_rows (sqlite)
CREATE TABLE IF NOT EXISTS {model} (
    aggregate_type {text} NOT NULL,
    aggregate_id {text} NOT NULL,
    sequence_number {bigint} NOT NULL,
    event_id {text} NOT NULL,
    state {json},
    PRIMARY KEY (aggregate_id, aggregate_type)
) {clustered};

-- The transaction with the first rows adds the key: an index is made faster than it grows. Pages are half empty, so
-- that a changed row stays on its page and the index does not change; a table that changes grows to that size anyway.
-- name: make_rows (postgres)
CREATE TABLE IF NOT EXISTS {model} (
    aggregate_type {text} NOT NULL,
    aggregate_id {text} NOT NULL,
    sequence_number {bigint} NOT NULL,
    event_id {text} NOT NULL,
    state {json}
) WITH (fillfactor = 50);

-- name: has_key (postgres)
SELECT 1 AS found FROM pg_index WHERE indrelid = CAST('{model}' AS regclass) AND indisprimary;

-- name: add_key (postgres)
ALTER TABLE {model} ADD PRIMARY KEY (aggregate_id, aggregate_type);

-- name: make_waiting
CREATE TABLE IF NOT EXISTS {waiting} (
    aggregate_type {text} NOT NULL,
    aggregate_id {text} NOT NULL,
    sequence_number {bigint} NOT NULL,
    event_id {text} NOT NULL,
    value {text} NOT NULL,
    topic {text} NOT NULL,
    partition {bigint} NOT NULL,
    message_offset {bigint} NOT NULL,
    PRIMARY KEY (aggregate_id, aggregate_type, sequence_number)
) {clustered};

-- name: make_view
CREATE VIEW {view} AS
SELECT aggregate_type, aggregate_id, sequence_number, state FROM {model} WHERE state IS NOT NULL;

-- name: drop_view
DROP VIEW IF EXISTS {view};

-- name: drop_rows
DROP TABLE IF EXISTS {model};

-- name: drop_waiting_table
DROP TABLE IF EXISTS {waiting};

-- name: rename_rows
ALTER TABLE {model} RENAME TO {new_model};

-- name: rename_waiting
ALTER TABLE {waiting} RENAME TO {new_waiting};

-- name: exists (sqlite)
SELECT 1 AS found FROM sqlite_schema WHERE name = :table_name;

-- name: exists (postgres)
SELECT 1 AS found FROM information_schema.tables WHERE table_schema = {schema} AND table_name = :table_name;

-- name: take_over
INSERT INTO {driftq_projections} AS known (name, epoch, generation) VALUES (:name, 1, 1)
ON CONFLICT (name) DO UPDATE SET epoch = known.epoch + 1
RETURNING epoch, generation;

-- name: writer_epoch
SELECT epoch, generation FROM {driftq_projections} WHERE name = :name {for_update};

-- name: next_generation
UPDATE {driftq_projections} SET generation = generation + 1 WHERE name = :name;

-- name: merge (sqlite)
INSERT INTO {model} AS kept (aggregate_type, aggregate_id, sequence_number, event_id, state)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (aggregate_id, aggregate_type) DO UPDATE SET
    sequence_number = excluded.sequence_number, event_id = excluded.event_id, state = excluded.state
WHERE kept.sequence_number < excluded.sequence_number;

-- name: make_stage (postgres)
CREATE TEMP TABLE IF NOT EXISTS driftq_stage (
    aggregate_type text COLLATE "C", aggregate_id text COLLATE "C", sequence_number bigint, event_id text, state json
) ON COMMIT DELETE ROWS;

-- In the order of the key: neighbours share a page.
-- name: merge (postgres)
INSERT INTO {model} AS kept (aggregate_type, aggregate_id, sequence_number, event_id, state)
SELECT aggregate_type, aggregate_id, sequence_number, event_id, state
FROM driftq_stage ORDER BY aggregate_id, aggregate_type
ON CONFLICT (aggregate_id, aggregate_type) DO UPDATE SET
    sequence_number = excluded.sequence_number, event_id = excluded.event_id, state = excluded.state
WHERE kept.sequence_number < excluded.sequence_number;

-- name: add_waiting
INSERT INTO {waiting}
    (aggregate_type, aggregate_id, sequence_number, event_id, value, topic, partition, message_offset)
SELECT g.aggregate_type, g.aggregate_id, g.sequence_number, g.event_id, g.value,
    g.topic, g.partition, g.message_offset
FROM {rows g: aggregate_type text, aggregate_id text, sequence_number bigint, event_id text, value text,
    topic text, partition bigint, message_offset bigint}
WHERE true
ON CONFLICT (aggregate_id, aggregate_type, sequence_number) DO NOTHING;

-- name: drop_reached
DELETE FROM {waiting} WHERE EXISTS (
    SELECT 1 FROM {model} AS kept
    WHERE kept.aggregate_id = {waiting}.aggregate_id AND kept.aggregate_type = {waiting}.aggregate_type
    AND kept.sequence_number >= {waiting}.sequence_number
);

-- name: advance
INSERT INTO {driftq_applied} AS kept (projection, topic, partition, identity, applied_offset)
SELECT :projection, g.topic, g.partition, g.identity, g.applied_offset
FROM {rows g: topic text, partition bigint, identity text, applied_offset bigint}
WHERE true
ON CONFLICT (projection, topic, partition, identity) DO UPDATE
SET applied_offset = {greatest}(kept.applied_offset, excluded.applied_offset);

-- name: positions
SELECT topic, partition, identity, applied_offset FROM {driftq_applied} WHERE projection = :name;

-- name: move_positions
UPDATE {driftq_applied} SET projection = :name WHERE projection = :beside;

-- name: drop_positions
DELETE FROM {driftq_applied} WHERE projection = :name;

-- name: current
SELECT kept.aggregate_type, kept.aggregate_id, kept.sequence_number, kept.event_id,
    CAST(kept.state AS text) AS state
FROM {rows g: aggregate_type text, aggregate_id text}, {model} AS kept
WHERE kept.aggregate_id {among g: aggregate_id}
AND kept.aggregate_id = g.aggregate_id AND kept.aggregate_type = g.aggregate_type;

-- name: waiting
SELECT kept.aggregate_type, kept.aggregate_id, kept.sequence_number, kept.event_id, kept.value,
    kept.topic, kept.partition, kept.message_offset
FROM {rows g: aggregate_type text, aggregate_id text}, {waiting} AS kept
WHERE kept.aggregate_id {among g: aggregate_id}
AND kept.aggregate_id = g.aggregate_id AND kept.aggregate_type = g.aggregate_type
ORDER BY kept.aggregate_type, kept.aggregate_id, kept.sequence_number;

-- name: rows
SELECT aggregate_type, aggregate_id, sequence_number, CAST(state AS text) AS state
FROM {model} WHERE state IS NOT NULL ORDER BY aggregate_type, aggregate_id;

-- name: registry
SELECT aggregate_type, aggregate_id, sequence_number, event_id
FROM {model} ORDER BY aggregate_type, aggregate_id;
