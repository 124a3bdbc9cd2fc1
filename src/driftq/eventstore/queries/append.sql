-- name: heads
SELECT g.aggregate_type, g.aggregate_id, COALESCE(
    (SELECT max(e.sequence_number) FROM {events} AS e
     WHERE e.aggregate_type = g.aggregate_type AND e.aggregate_id = g.aggregate_id), 0) AS head
FROM {rows g: aggregate_type text, aggregate_id text};

-- Numbers for as many events as are asked for, after the last reserved or stored one. Whoever has reserved keeps
-- the others out of the aggregate until the transaction ends; all lock in the same order.
-- name: reserve (postgres)
INSERT INTO {sequence.aggregate_sequences} AS held
    (handler_prefix, aggregate_type, aggregate_id, last_sequence, reserved)
SELECT CAST(:handler_prefix AS text), g.aggregate_type, g.aggregate_id, g.events + COALESCE(
    (SELECT max(e.sequence_number) FROM {events} AS e
     WHERE e.aggregate_type = g.aggregate_type AND e.aggregate_id = g.aggregate_id), 0), g.events
FROM {rows g: aggregate_type text, aggregate_id text, events bigint}
WHERE true
ORDER BY g.aggregate_type, g.aggregate_id
ON CONFLICT (handler_prefix, aggregate_type, aggregate_id) DO UPDATE SET
    last_sequence = {greatest}(held.last_sequence + excluded.reserved, excluded.last_sequence),
    reserved = excluded.reserved
RETURNING aggregate_type, aggregate_id, last_sequence - reserved AS head;

-- name: give_back (postgres)
UPDATE {sequence.aggregate_sequences} AS held SET last_sequence = g.last_sequence
FROM {rows g: aggregate_type text, aggregate_id text, last_sequence bigint}
WHERE held.handler_prefix = :handler_prefix
  AND held.aggregate_type = g.aggregate_type AND held.aggregate_id = g.aggregate_id;

-- name: known
SELECT e.event_id, e.content_hash, e.sequence_number
FROM {rows g: event_id text} JOIN {events} AS e ON e.event_id = g.event_id;

-- Reserve and store in one statement, for events of which nothing is known. An aggregate without events is taken to
-- have no row of the allocator either; where it has, the insert fails and the writer looks first. What was reserved is
-- answered; whether the numbers are those that the writers expect is looked at afterwards, before anything is kept.
-- name: store_new (postgres)
WITH given AS MATERIALIZED (
    SELECT * FROM {rows g: place bigint, nth bigint, events bigint, event_id text, aggregate_type text,
          aggregate_id text, event_type text, operation text, occurred_at_us bigint, payload text, metadata text,
          schema_version text, content_hash text}
), found AS MATERIALIZED (
    SELECT aggregate_type, aggregate_id, events, COALESCE(
        (SELECT max(e.sequence_number) FROM {events} AS e
         WHERE e.aggregate_type = given.aggregate_type AND e.aggregate_id = given.aggregate_id), 0) AS head
    FROM given WHERE nth = 1
), begun AS (
    INSERT INTO {sequence.aggregate_sequences}
        (handler_prefix, aggregate_type, aggregate_id, last_sequence, reserved)
    SELECT CAST(:handler_prefix AS text), aggregate_type, aggregate_id, events, events
    FROM found WHERE head = 0
    ORDER BY aggregate_type, aggregate_id
    RETURNING aggregate_type, aggregate_id, CAST(0 AS bigint) AS head
), reserved AS (
    INSERT INTO {sequence.aggregate_sequences} AS held
        (handler_prefix, aggregate_type, aggregate_id, last_sequence, reserved)
    SELECT CAST(:handler_prefix AS text), aggregate_type, aggregate_id, head + events, events
    FROM found WHERE head > 0
    ORDER BY aggregate_type, aggregate_id
    ON CONFLICT (handler_prefix, aggregate_type, aggregate_id) DO UPDATE SET
        last_sequence = {greatest}(held.last_sequence + excluded.reserved, excluded.last_sequence),
        reserved = excluded.reserved
    RETURNING aggregate_type, aggregate_id, last_sequence - reserved AS head
), numbering AS (
    SELECT aggregate_type, aggregate_id, head FROM begun
    UNION ALL SELECT aggregate_type, aggregate_id, head FROM reserved
), stored AS (
    INSERT INTO {events} (event_id, aggregate_type, aggregate_id, sequence_number, event_type, operation,
                          occurred_at_us, payload, metadata, schema_version, content_hash)
    SELECT given.event_id, given.aggregate_type, given.aggregate_id, numbering.head + given.nth, given.event_type,
           given.operation, given.occurred_at_us, given.payload, given.metadata, given.schema_version,
           given.content_hash
    FROM given JOIN numbering ON numbering.aggregate_type = given.aggregate_type
                             AND numbering.aggregate_id = given.aggregate_id
    ORDER BY given.place
    RETURNING row_id
), waiting AS (
    INSERT INTO {event_waiting} (row_id) SELECT row_id FROM stored
)
SELECT aggregate_type, aggregate_id, head FROM reserved;

-- name: store_new (sqlite)
INSERT INTO {events} (event_id, aggregate_type, aggregate_id, event_type, operation, occurred_at_us, payload, metadata,
                      schema_version, content_hash, sequence_number)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
        1 + COALESCE((SELECT max(sequence_number) FROM {events} WHERE aggregate_type = ?2 AND aggregate_id = ?3), 0));

-- A row's id is the largest one plus 1, and nobody else writes until the transaction ends.
-- name: newest_numbers (sqlite)
SELECT sequence_number FROM {events} ORDER BY row_id DESC LIMIT ?;

-- Positions for stored events in the order of their rows, which is that of the commits: nobody else writes until the
-- transaction ends. Events that an earlier release left without a position come first.
-- name: place_stored (sqlite)
INSERT INTO {event_positions} (position, row_id)
SELECT (SELECT COALESCE(max(position), 0) FROM {event_positions}) + row_number() OVER (ORDER BY row_id), row_id
FROM {events} WHERE row_id > (SELECT COALESCE(max(row_id), 0) FROM {event_positions}) ORDER BY row_id LIMIT ?;

-- name: store (sqlite)
INSERT INTO {events} (event_id, aggregate_type, aggregate_id, event_type, operation, occurred_at_us, payload, metadata,
                      schema_version, content_hash, sequence_number)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: store (postgres)
WITH stored AS (
    INSERT INTO {events} (event_id, aggregate_type, aggregate_id, sequence_number, event_type, operation,
                          occurred_at_us, payload, metadata, schema_version, content_hash)
    SELECT g.event_id, g.aggregate_type, g.aggregate_id, g.sequence_number, g.event_type, g.operation,
           g.occurred_at_us, g.payload, g.metadata, g.schema_version, g.content_hash
    FROM {rows g: place bigint, event_id text, aggregate_type text, aggregate_id text, sequence_number bigint,
          event_type text, operation text, occurred_at_us bigint, payload text, metadata text,
          schema_version text, content_hash text}
    ORDER BY g.place
    RETURNING row_id
)
INSERT INTO {event_waiting} (row_id) SELECT row_id FROM stored;
