-- Reads every model config of a user, at most as many as one may have.
-- KEYS  1 records of the tenant | 2 configs of the user
-- ARGV  none
-- returns {default id or '', then per config: id, when it was made in ms, record or ''}
local found = redis.call('HGETALL', KEYS[2])
local answer = {''}
for i = 1, #found, 2 do
  if found[i] == '=default' then
    answer[1] = found[i + 1]
  else
    answer[#answer + 1] = found[i]
    answer[#answer + 1] = found[i + 1]
    answer[#answer + 1] = redis.call('HGET', KEYS[1], found[i]) or ''
  end
end
return answer
