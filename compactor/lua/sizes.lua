-- Sets what sessions of one tenant hold, and keeps their total; a repeat changes nothing.
-- KEYS  1 the tenant's sizes
-- ARGV  1 life of the sizes in ms | then per session: id | size that must still stand there, or empty | bytes, 0 to drop
-- returns the tenant's total
local change = 0
for i = 2, #ARGV, 3 do
  local old = redis.call('HGET', KEYS[1], ARGV[i])
  local new = tonumber(ARGV[i + 2])
  if (ARGV[i + 1] == '' or old == ARGV[i + 1]) and tonumber(old or 0) ~= new then
    if new > 0 then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2]) else redis.call('HDEL', KEYS[1], ARGV[i]) end
    change = change + new - (old or 0)
  end
end
local total = redis.call('HINCRBY', KEYS[1], '=total', change)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return total
