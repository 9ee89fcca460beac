-- Reads every model config of a user, at most as many as one may have.
-- KEYS  1 records of the tenant | 2 configs of the user | 3 defaults of the tenant
-- ARGV  1 user
-- returns {default id or '', then per config: id, record or ''}
local answer = {redis.call('HGET', KEYS[3], ARGV[1]) or ''}
for _, id in ipairs(redis.call('HKEYS', KEYS[2])) do
  answer[#answer + 1] = id
  answer[#answer + 1] = redis.call('HGET', KEYS[1], id) or ''
end
return answer
