-- Puts an api_key that was encrypted anew in the place of the old one, if nobody changed it meanwhile.
-- KEYS  1 sealed api_keys of the tenant
-- ARGV  1 id | 2 old | 3 new
-- returns 1, or 0: it was changed or deleted
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
