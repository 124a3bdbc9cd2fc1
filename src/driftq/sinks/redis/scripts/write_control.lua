-- Store a control text if the stored version is the expected one.
--
-- KEYS: the control. ARGV: expected version ('' for an absent control), new version, text.
-- Returns 1 where the text is stored. The new version is unique to a call, so a client may repeat it.

local stored = redis.call('HGET', KEYS[1], 'version') or ''
if stored == ARGV[2] then
    return 1
end
if stored ~= ARGV[1] then
    return 0
end
redis.call('HSET', KEYS[1], 'text', ARGV[3], 'version', ARGV[2])
return 1
