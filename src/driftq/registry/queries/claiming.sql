-- name: look
-- What is stored about each event and its aggregate, and what time it is.
SELECT
    g.id, kept.state, kept.token, kept.attempts, kept.requeues, kept.lease_until, kept.retry_at, kept.effect,
    kept.last_error, kept.incarnation, kept.aggregate_type, kept.aggregate_id, kept.sequence_number,
    coalesce(place.last_sequence, 0) AS last_sequence,
    {now} AS now
FROM {rows g: id text, of_type text, of_id text}
LEFT JOIN {claims} AS kept
    ON kept.handler = :handler AND kept.event_id = g.id AND kept.event_id {among g: id}
LEFT JOIN {positions} AS place
    ON place.handler = :handler AND place.aggregate_type = g.of_type AND place.aggregate_id = g.of_id
    AND place.aggregate_id {among g: of_id};

-- name: new_tokens (sqlite)
UPDATE {claim_tokens} SET last_token = last_token + :tokens RETURNING last_token;

-- name: new_tokens (postgres)
SELECT nextval('{claim_tokens}') FROM generate_series(1, :tokens);

-- name: grant_new (sqlite)
-- A claim of an event that has none, if its aggregate is from ?13 up to just before it.
INSERT INTO {claims} (
    handler, event_id, aggregate_type, aggregate_id, sequence_number, state, token, attempts, effect, gap_policy,
    owner, incarnation, lease_until, claimed_at
)
SELECT ?1, ?2, ?3, ?4, ?5, 'claimed', ?6, 1, ?7, ?8, ?9, ?10, ?11, ?12
WHERE coalesce(
    (SELECT last_sequence FROM {positions} WHERE aggregate_id = ?4 AND aggregate_type = ?3 AND handler = ?1), 0
) BETWEEN ?13 AND ?5 - 1
ON CONFLICT (event_id, handler) DO NOTHING;

-- name: grant_new (postgres)
INSERT INTO {claims} (
    handler, event_id, aggregate_type, aggregate_id, sequence_number, state, token, attempts, effect, gap_policy,
    owner, incarnation, lease_until, claimed_at
)
SELECT
    :handler, g.id, g.of_type, g.of_id, g.place, 'claimed', nextval('{claim_tokens}'), 1, :effect, :gap_policy,
    :owner, :incarnation, {now} + :lease_ms, {now}
FROM {rows g: id text, of_type text, of_id text, place bigint, lowest bigint}
WHERE coalesce(
    (SELECT kept.last_sequence FROM {positions} AS kept
     WHERE kept.aggregate_id = g.of_id AND kept.aggregate_type = g.of_type AND kept.handler = :handler), 0
) BETWEEN g.lowest AND g.place - 1
ORDER BY g.id
ON CONFLICT (event_id, handler) DO NOTHING
RETURNING event_id, token, lease_until;

-- name: grant_fresh
INSERT INTO {claims} (
    handler, event_id, aggregate_type, aggregate_id, sequence_number, state, token, attempts, effect, gap_policy,
    owner, incarnation, lease_until, claimed_at
)
SELECT
    :handler, g.id, g.of_type, g.of_id, g.place, 'claimed', g.token, g.attempt, :effect, :gap_policy,
    :owner, :incarnation, {now} + :lease_ms, {now}
FROM {rows g: id text, of_type text, of_id text, place bigint, token bigint, attempt bigint}
WHERE true
ORDER BY g.id
ON CONFLICT (event_id, handler) DO NOTHING
RETURNING event_id, lease_until;

-- name: grant_again
-- Only if nothing has happened to the claim since it was looked at.
UPDATE {claims} AS kept
SET state = 'claimed', token = g.fresh, attempts = g.attempt, effect = :effect, gap_policy = :gap_policy,
    owner = :owner, incarnation = :incarnation, lease_until = {now} + :lease_ms, retry_at = 0, claimed_at = {now}
FROM {rows g: id text, fresh bigint, attempt bigint, seen_token bigint, seen_state text, seen_lease bigint}
WHERE kept.handler = :handler AND kept.event_id {among g: id}
    AND kept.event_id = g.id AND kept.token = g.seen_token AND kept.state = g.seen_state
    AND kept.lease_until = g.seen_lease
RETURNING event_id, lease_until;

-- name: close_unfinished
UPDATE {claims} AS kept
SET state = g.closed, lease_until = 0, retry_at = 0, last_error = g.error, reason = g.why, finished_at = {now}
FROM {rows g: id text, closed text, error text, why text, seen_token bigint, seen_state text, seen_lease bigint}
WHERE kept.handler = :handler AND kept.event_id {among g: id}
    AND kept.event_id = g.id AND kept.token = g.seen_token AND kept.state = g.seen_state
    AND kept.lease_until = g.seen_lease
RETURNING event_id;
