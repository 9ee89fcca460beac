-- Binds a session to a model config that exists.
-- KEYS  1 the session's binding | 2 records of the tenant | 3 defaults of the tenant
-- ARGV  1 id | 2 user it must belong to, or empty: any of the tenant | 3 life of the binding in ms
-- returns {'ok', id, record, 1 when it is its user's default}, {'missing'} or {'damaged'}
local record = redis.call('HGET', KEYS[2], ARGV[1])
if not record then return {'missing'} end
local user = string.match(record, '^%d+ %d+ %d+ %S+ (%S+) ')
if not user then return {ARGV[2] == '' and 'damaged' or 'missing'} end
if ARGV[2] ~= '' and user ~= ARGV[2] then return {'missing'} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return {'ok', ARGV[1], record, redis.call('HGET', KEYS[3], user) == ARGV[1] and 1 or 0}
