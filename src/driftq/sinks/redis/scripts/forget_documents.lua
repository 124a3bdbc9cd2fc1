-- Remove documents from the index whose guards have expired.
--
-- KEYS: expiring, then for each document the index of its type and its hash.
-- ARGV: the id of each document.

for document = 1, #ARGV do
    local index, hash = KEYS[2 * document], KEYS[2 * document + 1]
    if redis.call('EXISTS', hash) == 0 then
        redis.call('ZREM', index, ARGV[document])
        redis.call('ZREM', KEYS[1], hash)
    elseif redis.call('PTTL', hash) == -1 then
        redis.call('ZREM', KEYS[1], hash) -- It was written again and stays.
    end
end
return #ARGV
