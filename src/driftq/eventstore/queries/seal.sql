-- name: take_lease
INSERT INTO {event_sealer} AS held (name, owner, token, lease_until, trimmed_upto)
VALUES ('log', :owner, 1, {now} + CAST(:lease_ms AS bigint), 0)
ON CONFLICT (name) DO UPDATE SET
    owner = excluded.owner, token = held.token + 1, lease_until = excluded.lease_until
WHERE held.lease_until <= {now} OR CAST(:force AS bigint) = 1
RETURNING token;

-- Holds the row until the transaction ends, so a newer sealer waits and an older one finds its token gone.
-- name: keep_lease
UPDATE {event_sealer} SET lease_until = {now} + CAST(:lease_ms AS bigint) WHERE name = 'log' AND token = :token;

-- name: lease_holder
SELECT token FROM {event_sealer} WHERE name = 'log';

-- name: end_lease
UPDATE {event_sealer} SET lease_until = 0 WHERE name = 'log' AND token = :token;

-- name: give_positions (sqlite)
INSERT INTO {event_positions} (position, row_id)
SELECT :last + row_number() OVER (ORDER BY w.row_id), w.row_id
FROM (SELECT row_id FROM {events}
      WHERE row_id > (SELECT COALESCE(max(row_id), 0) FROM {event_positions})
      ORDER BY row_id LIMIT :events_max) AS w;

-- name: give_positions (postgres)
WITH seen AS (
    DELETE FROM {event_waiting}
    WHERE row_id IN (SELECT row_id FROM {event_waiting} ORDER BY row_id LIMIT :events_max)
    RETURNING row_id
)
INSERT INTO {event_positions} (position, row_id)
SELECT CAST(:last AS bigint) + row_number() OVER (ORDER BY row_id), row_id FROM seen;

-- name: waits_for_position (sqlite)
SELECT 1 AS waits WHERE (SELECT max(row_id) FROM {events}) > (SELECT COALESCE(max(row_id), 0) FROM {event_positions});

-- name: segments_end
SELECT first_position, last_position, sealed FROM {event_segments} ORDER BY first_position DESC LIMIT 2;

-- name: measure
SELECT count(*) AS events, max(position) AS last_position, CAST(COALESCE(sum(size_bytes), 0) AS bigint) AS size_bytes
FROM (SELECT p.position, length(e.payload) + length(e.metadata) AS size_bytes
      FROM {event_positions} AS p JOIN {events} AS e ON e.row_id = p.row_id
      WHERE p.position > :last ORDER BY p.position LIMIT :events_max) AS fresh;

-- The end of a full segment: the first position by which it has enough bytes or events.
-- name: full_segment
SELECT position FROM (
    SELECT p.position, row_number() OVER (ORDER BY p.position) AS events,
           sum(length(e.payload) + length(e.metadata)) OVER (ORDER BY p.position) AS size_bytes
    FROM {event_positions} AS p JOIN {events} AS e ON e.row_id = p.row_id
    WHERE p.position > :last ORDER BY p.position LIMIT :events_max) AS running
WHERE size_bytes >= :bytes_max OR events = :events_max
ORDER BY position LIMIT 1;

-- name: cut_segment
INSERT INTO {event_segments} (first_position, last_position, sealed) VALUES (:first, :last, :sealed);

-- name: mark_sealed
UPDATE {event_segments} SET sealed = 1 WHERE first_position = :first AND last_position = :last;

-- name: trimmed_upto
SELECT trimmed_upto FROM {event_sealer} WHERE name = 'log';

-- name: trim
UPDATE {events} SET payload = NULL, metadata = NULL
WHERE row_id IN (SELECT row_id FROM {event_positions} WHERE position BETWEEN :first AND :last);

-- name: mark_trimmed
UPDATE {event_sealer} SET trimmed_upto = :last WHERE name = 'log';
