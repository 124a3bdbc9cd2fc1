-- name: lock_positions
-- Always before claims that exist are changed together with their aggregates, and in this order.
SELECT kept.aggregate_type, kept.aggregate_id, kept.last_sequence
FROM {positions} AS kept
JOIN {rows g: of_type text, of_id text} ON kept.aggregate_type = g.of_type AND kept.aggregate_id = g.of_id
WHERE kept.handler = :handler AND kept.aggregate_id {among g: of_id}
ORDER BY kept.aggregate_type, kept.aggregate_id
{for_update kept};

-- name: finish
-- Of the few claims in this state PostgreSQL believes that there are none, and would read them all through the index
-- on states: the empty text keeps it from that.
UPDATE {claims} AS kept
SET state = 'done', lease_until = 0, retry_at = 0, finished_at = {now}
FROM {rows g: id text, held bigint}
WHERE kept.handler = :handler AND kept.event_id {among g: id}
    AND kept.event_id = g.id AND kept.token = g.held AND kept.state || '' = 'claimed'
RETURNING event_id;

-- name: finish_and_advance (postgres)
-- The aggregates first, in their order: that locks them. No claim is changed before the last of them is.
WITH advanced AS (
    INSERT INTO {positions} AS kept (handler, aggregate_type, aggregate_id, last_sequence)
    SELECT :handler, a.of_type, a.of_id, a.reached
    FROM {rows a: of_type text, of_id text, reached bigint}
    ORDER BY a.of_type, a.of_id
    ON CONFLICT (aggregate_id, aggregate_type, handler) DO UPDATE
    SET last_sequence = greatest(kept.last_sequence, excluded.last_sequence)
    RETURNING 1
)
UPDATE {claims} AS kept
SET state = 'done', lease_until = 0, retry_at = 0, finished_at = {now}
FROM {rows g: id text, held bigint}
WHERE (SELECT count(*) FROM advanced) > 0 AND kept.handler = :handler AND kept.event_id {among g: id}
    AND kept.event_id = g.id AND kept.token = g.held AND kept.state || '' = 'claimed';

-- name: finish_one (sqlite)
UPDATE {claims} SET state = 'done', lease_until = 0, retry_at = 0, finished_at = ?1
WHERE event_id = ?2 AND handler = ?3 AND token = ?4 AND state = 'claimed';

-- name: keep_result
UPDATE {claims} SET result = :result
WHERE handler = :handler AND event_id = :event_id AND token = :token AND state = 'claimed';

-- name: advance
INSERT INTO {positions} AS kept (handler, aggregate_type, aggregate_id, last_sequence)
SELECT :handler, g.of_type, g.of_id, g.reached
FROM {rows g: of_type text, of_id text, reached bigint}
WHERE true
ORDER BY g.of_type, g.of_id
ON CONFLICT (aggregate_id, aggregate_type, handler) DO UPDATE
SET last_sequence = {greatest}(kept.last_sequence, excluded.last_sequence);

-- name: advance_one (sqlite)
INSERT INTO {positions} AS kept (handler, aggregate_type, aggregate_id, last_sequence) VALUES (?, ?, ?, ?)
ON CONFLICT (aggregate_id, aggregate_type, handler) DO UPDATE
SET last_sequence = max(kept.last_sequence, excluded.last_sequence);

-- name: heartbeat
UPDATE {claims} AS kept
SET lease_until = {now} + :lease_ms
FROM {rows g: id text, held bigint}
WHERE kept.handler = :handler AND kept.event_id {among g: id}
    AND kept.event_id = g.id AND kept.token = g.held AND kept.state || '' = 'claimed'
RETURNING event_id;

-- name: leave
-- End a claim in another state than done.
UPDATE {claims}
SET state = :state, attempts = attempts - :refund, lease_until = 0, retry_at = {now} + :delay_ms,
    last_error = :error, reason = :reason, finished_at = {now}
WHERE handler = :handler AND event_id = :event_id AND token = :token AND state = 'claimed';

-- name: release
UPDATE {claims} AS kept
SET state = 'ready', attempts = attempts - 1, lease_until = 0, retry_at = {now}, reason = '', finished_at = {now}
FROM {rows g: id text, held bigint}
WHERE kept.handler = :handler AND kept.event_id {among g: id}
    AND kept.event_id = g.id AND kept.token = g.held AND kept.state || '' = 'claimed'
RETURNING event_id;

-- name: held_now
SELECT g.id, kept.state, kept.token, kept.attempts, kept.retry_at, {now} AS now
FROM {rows g: id text}
LEFT JOIN {claims} AS kept
    ON kept.handler = :handler AND kept.event_id = g.id AND kept.event_id {among g: id};
