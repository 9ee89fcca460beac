-- The tenants that have sessions waiting for their turn: enters some, drops others.
-- KEYS  1 the tenants, by the ms at which they were entered last
-- ARGV  1 life of the list in ms, then per tenant: name | empty to enter it, or the ms at which it must still stand to go
-- returns how many stand there now
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('ZADD', KEYS[1], now, ARGV[i])
  elseif redis.call('ZSCORE', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('ZCARD', KEYS[1])
