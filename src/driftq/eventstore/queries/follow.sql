-- name: open_follower
INSERT INTO {event_followers} AS held (name, position, token, moved_at)
VALUES (:name, :position, 1, {now})
ON CONFLICT (name) DO UPDATE SET token = held.token + 1
RETURNING token, position;

-- The token is part of the condition, so an older follower changes nothing, whatever it has read before.
-- name: move_follower
UPDATE {event_followers} SET position = {greatest}(position, CAST(:position AS bigint)), moved_at = {now}
WHERE name = :name AND token = :token;

-- name: follower
SELECT token, position FROM {event_followers} WHERE name = :name;

-- name: followers
SELECT name, position, moved_at FROM {event_followers} WHERE name > :after ORDER BY name LIMIT :followers_max;

-- name: forget_follower
DELETE FROM {event_followers} WHERE name = :name;
