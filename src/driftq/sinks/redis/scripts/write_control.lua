-- Store a control text if the stored version is the expected one.
--
-- KEYS: the control. ARGV: expected version ('' for an absent control), new version, text, and how many
-- characters of earlier versions to keep.
-- Returns 1 where the text is stored. The new version is unique to a call, so a client may repeat it.

local stored = redis.call('HGET', KEYS[1], 'version') or ''
if stored == ARGV[2] then
    return 1
end
if stored ~= ARGV[1] then
    return 0
end
local earlier = stored .. ' ' .. (redis.call('HGET', KEYS[1], 'earlier') or '')
redis.call(
    'HSET', KEYS[1], 'text', ARGV[3], 'version', ARGV[2], 'earlier', string.sub(earlier, 1, tonumber(ARGV[4]))
)
return 1
