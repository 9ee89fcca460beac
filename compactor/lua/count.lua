-- Counts one event of a namespace.
-- KEYS  1 the namespace's counters
-- ARGV  1 name | 2 life of the counters in ms
-- returns the count
local count = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return count
