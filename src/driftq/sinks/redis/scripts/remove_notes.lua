-- Remove notes of one kind.
--
-- KEYS: ids, notes, then the ids of each note's group. ARGV: the id of each note.

for note = 1, #ARGV do
    local id, group_ids = ARGV[note], KEYS[2 + note]
    redis.call('HDEL', KEYS[2], id)
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', group_ids, id)
end
return #ARGV
