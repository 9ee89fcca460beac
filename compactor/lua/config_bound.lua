-- Reads the model config that a session is bound to, as it is now; the binding lives on.
-- KEYS  1 the session's binding | 2 records of the tenant | 3 defaults of the tenant
-- ARGV  1 life of the binding in ms
-- returns {'ok', id, record, 1 when it is its user's default}, {'gone', id} (it was deleted) or {'unbound'}
local id = redis.call('GET', KEYS[1])
if not id then return {'unbound'} end
local record = redis.call('HGET', KEYS[2], id)
local user = string.match(record or '', '^%d+ %d+ %d+ %S+ (%S+) ') or ''
local default = redis.call('HGET', KEYS[3], user)
if redis.call('PTTL', KEYS[1]) < ARGV[1] * 0.99 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
if not record then return {'gone', id} end
return {'ok', id, record, default == id and 1 or 0}
