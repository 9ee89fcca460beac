-- Sets what sessions of one tenant hold, and keeps their total; a repeat changes nothing.
-- KEYS  1 the tenant's sizes
-- ARGV  1 life of the sizes in ms | 2 'sum' to add all sizes up anew, or empty
--       then per session: id | size that must still stand there, or empty | bytes, 0 to drop
-- returns the tenant's total
local change = 0
for i = 3, #ARGV, 3 do
  local old = redis.call('HGET', KEYS[1], ARGV[i])
  local new = tonumber(ARGV[i + 2])
  local known = tonumber(old or 0) -- none when it was garbled from outside
  if (ARGV[i + 1] == '' or old == ARGV[i + 1] or not known) and known ~= new then
    if new > 0 then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2]) else redis.call('HDEL', KEYS[1], ARGV[i]) end
    change = change + new - (known or 0)
  end
end
local total = tonumber(redis.call('HGET', KEYS[1], '=total') or 0)
if ARGV[2] == 'sum' or not total then
  total = 0
  local sizes = redis.call('HGETALL', KEYS[1])
  for i = 1, #sizes, 2 do
    if sizes[i] ~= '=total' then total = total + (tonumber(sizes[i + 1]) or 0) end
  end
else
  total = total + change
end
redis.call('HSET', KEYS[1], '=total', total)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return total
