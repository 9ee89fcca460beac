-- Writes originals ahead of the swap; unreferenced until it, deleted by the next claim if it never comes.
-- KEYS  the session's eight keys
-- ARGV  1 owner | then per original: position | compressed record
-- returns 'ok', 'lost', or 'gone'
local claim = redis.call('HMGET', KEYS[1], 'claim', 'owner', 'drafted', 'bytes', 'revision', 'schema')
if not claim[5] then return 'gone' end
if tonumber(claim[6] or 1) > 1 then return 'lost' end -- a newer release has migrated it
if claim[1] ~= 'running' or claim[2] ~= ARGV[1] then return 'lost' end
local drafted, bytes = claim[3] or '', tonumber(claim[4] or 0)
for i = 2, #ARGV, 2 do
  -- What is there already is the same original: of an attempt before, or of a branch, whose only one it is.
  if redis.call('HSETNX', KEYS[4], ARGV[i], ARGV[i + 1]) == 1 then
    drafted = drafted .. ' ' .. ARGV[i]
    bytes = bytes + #ARGV[i + 1]
  end
end
redis.call('HSET', KEYS[1], 'drafted', drafted, 'bytes', bytes)
local left = redis.call('PTTL', KEYS[1])
if left > 0 then redis.call('PEXPIRE', KEYS[4], left) end
return 'ok'
