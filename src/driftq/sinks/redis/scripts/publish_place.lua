-- Name the place that readers use, unless it is gone.
--
-- KEYS: places, live. ARGV: the place.

if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
    return 0
end
redis.call('SET', KEYS[2], ARGV[1])
return 1
