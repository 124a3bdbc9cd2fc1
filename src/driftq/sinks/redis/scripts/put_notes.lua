-- Store notes of one kind.
--
-- KEYS: mark of the place, kinds, ids, notes, groups, then the ids of each note's group.
-- ARGV: kind, then for each note its id, its group, and both with its text.
-- Returns false where the place is gone.
--
-- A note that moves to another group stays among the ids of the old one, and readers look at the note itself.

if redis.call('EXISTS', KEYS[1]) == 0 then
    return false
end

redis.call('SADD', KEYS[2], ARGV[1])
for note = 0, #KEYS - 6 do
    local id, group, stored = ARGV[2 + 3 * note], ARGV[3 + 3 * note], ARGV[4 + 3 * note]
    redis.call('SADD', KEYS[5], group)
    redis.call('ZADD', KEYS[6 + note], 0, id)
    redis.call('ZADD', KEYS[3], 0, id)
    redis.call('HSET', KEYS[4], id, stored)
end
return 1
