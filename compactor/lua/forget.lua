-- Drops entries from the list of the dead, unless they were written anew since they were read.
-- KEYS  1 the namespace's list
-- ARGV  per entry: session | entry as it was read
-- returns the number of dropped entries
local dropped = 0
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    dropped = dropped + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return dropped
