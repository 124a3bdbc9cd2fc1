-- Store each document whose sequence is above the stored one. All of them are of one bucket and one type.
--
-- KEYS: mark of the place, types, index of the type, expiring, then the hash of each document; where values
--       have a lifetime, the key of its value follows each hash.
-- ARGV: type, start of the id in the key of a hash, lifetime of values, lifetime of guards (ms, '' for none),
--       then for each document its sequence ('-' before it: a tombstone), event id, text.
-- Returns false where the place is gone, else up to 100 hashes whose guards have expired.
--
-- Nothing of a document comes after its sequence but the lifetime: a hash that has the sequence is not
-- written again.

if redis.call('EXISTS', KEYS[1]) == 0 then
    return false
end

-- Lua's numbers are exact up to 2^53 only. Decimal texts compare by length and then by digits.
local function is_above(sequence, stored)
    if #sequence ~= #stored then
        return #sequence > #stored
    end
    return sequence > stored
end

local FIXED_KEYS, FIXED_ARGUMENTS = 4, 4
local type_name, id_start = ARGV[1], tonumber(ARGV[2])
local value_ttl, guard_ttl = ARGV[3], ARGV[4]
local keys_each = value_ttl == '' and 1 or 2
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local type_is_stored = false
redis.call('SET', KEYS[1], now)

for document = 0, (#KEYS - FIXED_KEYS) / keys_each - 1 do
    local hash = KEYS[FIXED_KEYS + document * keys_each + 1]
    local at = FIXED_ARGUMENTS + document * 3
    local sequence, event_id, text = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
    local is_deleted = string.sub(sequence, 1, 1) == '-'
    if is_deleted then
        sequence = string.sub(sequence, 2)
    end
    local stored = redis.call('HGET', hash, 's')
    if not stored or is_above(sequence, stored) then
        if not stored then
            if not type_is_stored then
                redis.call('SADD', KEYS[2], type_name)
                type_is_stored = true
            end
            redis.call('ZADD', KEYS[3], 0, string.sub(hash, id_start))
        end
        local guard_expires = guard_ttl ~= '' and (is_deleted or value_ttl ~= '')
        if guard_expires then
            redis.call('ZADD', KEYS[4], now + tonumber(guard_ttl), hash)
        end
        if value_ttl ~= '' then
            local value = KEYS[FIXED_KEYS + document * keys_each + 2]
            if is_deleted then
                redis.call('DEL', value)
            else
                redis.call('SET', value, text, 'PX', value_ttl)
            end
        end
        if is_deleted then
            if stored then
                redis.call('HDEL', hash, 'd', 'v')
            end
            redis.call('HSET', hash, 's', sequence, 'e', event_id)
        elseif value_ttl ~= '' then
            if stored then
                redis.call('HDEL', hash, 'd')
            end
            redis.call('HSET', hash, 'v', '1', 'e', event_id, 's', sequence)
        else
            redis.call('HSET', hash, 'd', text, 'e', event_id, 's', sequence)
        end
        if guard_expires then
            redis.call('PEXPIRE', hash, guard_ttl)
        elseif stored then
            redis.call('PERSIST', hash)
        end
    end
end

if guard_ttl == '' then
    return {}
end
return redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', '(' .. now, 'LIMIT', 0, 100)
