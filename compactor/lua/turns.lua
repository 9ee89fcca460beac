-- Whose turn it is among the sessions of a tenant: so many are published at a time, the others wait in order.
-- KEYS  1 published: session by the ms at which its place ends | 2 waiting: session by the ms of its arrival
--       3 owners: each session's claim | 4 handed: what was handed out of late, for repeats of a call whose answer got lost
-- ARGV  1 most published | 2 ms that a place is kept | 3 most turns to hand out | 4 life of the keys in ms
--       5 'join' or 'leave' | 6 session | 7 owner | 8 operation
-- returns {sessions that wait, session, owner, session, owner, ...}: whose turn has come, for the caller to publish;
--   who joins again while it is published has its turn again
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local session, owner = ARGV[6], ARGV[7]
for _, ended in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do
  redis.call('ZREM', KEYS[1], ended)
  if ended ~= session then redis.call('HDEL', KEYS[3], ended) end
end
local handed = redis.call('HGET', KEYS[4], ARGV[8])
if handed then
  local again = {redis.call('ZCARD', KEYS[2])}
  for name in string.gmatch(handed, '%S+') do again[#again + 1] = name end
  return again
end
local answer, come = {0}, 0
local function hand_out(name, claimed)
  redis.call('ZADD', KEYS[1], now + ARGV[2], name)
  come = come + 1
  answer[#answer + 1] = name
  answer[#answer + 1] = claimed
end
if ARGV[5] == 'join' then
  redis.call('HSET', KEYS[3], session, owner)
  if redis.call('ZSCORE', KEYS[1], session) then
    hand_out(session, owner)
  else
    redis.call('ZADD', KEYS[2], 'NX', now, session)
  end
elseif redis.call('HGET', KEYS[3], session) == owner then -- else it has been claimed anew
  redis.call('ZREM', KEYS[1], session)
  redis.call('ZREM', KEYS[2], session)
  redis.call('HDEL', KEYS[3], session)
end
local free = math.min(ARGV[1] - redis.call('ZCARD', KEYS[1]), ARGV[3] - come)
while free > 0 do
  local first = redis.call('ZPOPMIN', KEYS[2])[1]
  if not first then break end
  local claimed = redis.call('HGET', KEYS[3], first)
  if claimed then
    hand_out(first, claimed)
    free = free - 1
  end
end
if come > 0 then
  if redis.call('HLEN', KEYS[4]) > 256 then redis.call('DEL', KEYS[4]) end
  redis.call('HSET', KEYS[4], ARGV[8], table.concat(answer, ' ', 2))
end
for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
answer[1] = redis.call('ZCARD', KEYS[2])
return answer
