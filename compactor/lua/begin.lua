-- A worker starts on its claim; the snapshot is read in the same transaction.
-- KEYS  the session's eight keys
-- ARGV  1 owner | 2 lease ms | 3 max attempts
-- returns {'gone'}, {'dead'} (its attempts are used up), {'lost'} (another owner, or nothing claimed), {'busy', ms left} (this owner already
--   runs), {'damaged'}, {'newer', schema}, or {'running', the state as field, value, ...}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local claim = redis.call('HMGET', KEYS[1], 'claim', 'owner', 'until', 'length', 'attempts', 'schema', 'runs')
if not claim[4] then return {'gone'} end
if (tonumber(claim[6]) or 1) > 1 then return {'newer', claim[6]} end
if claim[2] ~= ARGV[1] or (claim[1] ~= 'queued' and claim[1] ~= 'running') then return {'lost'} end
local left = (tonumber(claim[3]) or 0) - now
-- More than a lease ahead is from before the server's clock was set back.
if claim[1] == 'running' and left > 0 and left <= 2 * ARGV[2] then return {'busy', left} end
local attempts = tonumber(claim[5]) or 0
if attempts >= tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'claim', 'idle', 'held', 'dead')
  return {'dead'}
end
if redis.call('LLEN', KEYS[2]) ~= tonumber(claim[4]) then
  redis.call('HSET', KEYS[1], 'claim', 'idle', 'held', 'damaged')
  return {'damaged'}
end
redis.call('HSET', KEYS[1], 'claim', 'running', 'until', now + ARGV[2], 'changed_min', '', 'publish_failures', 0,
  'error', '', 'attempts', attempts + 1, 'runs', (tonumber(claim[7]) or 0) + 1)
local state = redis.call('HGETALL', KEYS[1])
table.insert(state, 1, 'running')
return state
