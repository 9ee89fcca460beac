-- Deletes a model config that is at the version expected, with its api_key; as the default it leaves none.
-- KEYS  1 records of the tenant | 2 configs of the user | 3 sealed api_keys of the tenant | 4 defaults of the tenant
--       | 5 mark of this operation
-- ARGV  1 id | 2 user | 3 expected version | 4 ms that the mark is kept
-- returns {'ok'}, {'missing'} or {'stale', version}
local old = redis.call('HGET', KEYS[1], ARGV[1])
local version, user = string.match(old or '', '^(%d+) %d+ %d+ %S+ (%S+) ')
if version and #version <= 15 then
  if user ~= ARGV[2] then return {'missing'} end
  if version ~= ARGV[3] then return {'stale', tonumber(version)} end
elseif redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then -- what cannot be read is deleted by its owner, whatever its version
  return {not old and redis.call('EXISTS', KEYS[5]) == 1 and 'ok' or 'missing'} -- ok: a repeat whose answer was lost
end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
if redis.call('HGET', KEYS[4], ARGV[2]) == ARGV[1] then redis.call('HDEL', KEYS[4], ARGV[2]) end
redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
return {'ok'}
