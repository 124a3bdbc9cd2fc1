-- name: list_applied
SELECT topic_identity, topic, topic_partition, next_offset FROM {applied_positions} WHERE handler = :handler;

-- name: advance_applied
INSERT INTO {applied_positions} AS kept (handler, topic_identity, topic, topic_partition, next_offset)
SELECT :handler, g.topic_identity, g.topic, g.topic_partition, g.next_offset
FROM {rows g: topic_identity text, topic text, topic_partition bigint, next_offset bigint}
WHERE true
ORDER BY g.topic_identity, g.topic, g.topic_partition
ON CONFLICT (handler, topic_identity, topic, topic_partition) DO UPDATE
SET next_offset = {greatest}(kept.next_offset, excluded.next_offset);
