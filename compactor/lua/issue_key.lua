-- Stores a new API key; a repeat changes nothing.
-- KEYS  1 the keys of the namespace
-- ARGV  1 id | 2 what is stored of it
-- returns 1, or 0 when something else stands under this id
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 1 then return 1 end
return redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] and 1 or 0
