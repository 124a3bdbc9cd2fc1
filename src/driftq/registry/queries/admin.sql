-- name: find_claim
SELECT * FROM {claims} WHERE handler = :handler AND event_id = :event_id;

-- name: lock_claim
SELECT * FROM {claims} WHERE handler = :handler AND event_id = :event_id {for_update};

-- name: find_result
SELECT result FROM {claims} WHERE handler = :handler AND event_id = :event_id AND state = 'done';

-- name: list_claims
SELECT *
FROM {claims}
WHERE state = :state AND (:any_handler = 1 OR handler = :handler)
    AND (:from_start = 1 OR (handler, event_id) > (:after_handler, :after_event))
ORDER BY handler, event_id
LIMIT :most;

-- name: list_due
-- What may be claimed now without being delivered again: requeued, given back, failed and due, or abandoned.
SELECT *
FROM {claims}
WHERE handler = :handler AND state IN ('ready', 'failed', 'claimed')
    AND lease_until <= {now} AND retry_at <= {now}
ORDER BY sequence_number, event_id
LIMIT :most;

-- name: count_states
SELECT state, count(*) AS claims
FROM {claims}
WHERE handler = :handler AND state NOT IN ('done', 'stale')
GROUP BY state;

-- name: report_unknown
UPDATE {claims}
SET state = 'unknown', lease_until = 0, reason = 'lease_expired', finished_at = {now}
WHERE state = 'claimed' AND effect = 'unknown' AND lease_until <= {now};

-- name: make_ready
UPDATE {claims}
SET state = 'ready', attempts = 0, requeues = requeues + 1, lease_until = 0, retry_at = 0, reason = :reason
WHERE handler = :handler AND event_id = :event_id;

-- name: close
UPDATE {claims}
SET state = :state, lease_until = 0, retry_at = 0, reason = :reason, finished_at = {now}
WHERE handler = :handler AND event_id = :event_id;

-- name: position
SELECT last_sequence
FROM {positions}
WHERE handler = :handler AND aggregate_type = :aggregate_type AND aggregate_id = :aggregate_id;

-- name: find_positions
SELECT kept.aggregate_type, kept.aggregate_id, kept.last_sequence
FROM {positions} AS kept
JOIN {rows g: of_type text, of_id text} ON kept.aggregate_type = g.of_type AND kept.aggregate_id = g.of_id
WHERE kept.handler = :handler AND kept.aggregate_id {among g: of_id};

-- name: forget_finished
-- The position stays, so a forgotten event is stale if it ever comes again.
DELETE FROM {claims}
WHERE (handler, event_id) IN (
    SELECT handler, event_id
    FROM {claims}
    WHERE state IN ('done', 'stale') AND finished_at <= {now} - :older_than_ms
    ORDER BY finished_at
    LIMIT :most
);

-- name: abandon
-- The process that was granted these is gone: their leases are over.
UPDATE {claims} SET lease_until = 0 WHERE state = 'claimed' AND incarnation = :incarnation;

-- Finished claims are left out: there may be millions, and no index counts them.
-- name: count_open
SELECT state, count(*) AS claims
FROM {claims}
WHERE state NOT IN ('done', 'stale')
GROUP BY state;

-- name: list_open
-- Of one open state. The second condition lets both engines use the index `claims_open`.
SELECT *
FROM {claims}
WHERE state = :state AND state NOT IN ('done', 'stale')
    AND (handler, event_id) > (:after_handler, :after_event)
ORDER BY handler, event_id
LIMIT :most;

-- name: list_open_of_handler
SELECT *
FROM {claims}
WHERE state = :state AND state NOT IN ('done', 'stale') AND handler = :handler AND event_id > :after_event
ORDER BY event_id
LIMIT :most;

-- name: list_finished
-- Of both finished states and all handlers, the newest first, by the index `claims_finished`.
SELECT *
FROM {claims}
WHERE state IN ('done', 'stale') AND finished_at <= :before
    AND (finished_at < :before OR (handler, event_id) > (:after_handler, :after_event))
ORDER BY finished_at DESC, handler, event_id
LIMIT :most;
