-- KEYS[1]: prefix. ARGV: first moment after the snapshot, seconds to keep, id, label, and of an event of the snapshot
-- its time, terminal and whether it is a positive there; of another one nothing. What changes nothing is not kept.
local prefix, over, seconds, id, label, time, terminal, positive = KEYS[1], unpack(ARGV, 1, 7)
local came = '0'
if time == '' then
  local known = redis.call('GET', prefix .. 'event:' .. id)
  if not known then return 0 end
  time, came, terminal = string.match(known, '^%d+ (%S+) (%S+) %S+ %S* (%S*)$')
end
if terminal == '' then return 1 end
local labels, labeled = prefix .. 'labels:' .. terminal, prefix .. 'labeled:' .. terminal
if label == '1' or positive == '1' or redis.call('HEXISTS', labels, id) == 1 then
  redis.call('ZADD', labeled, time, id)
  redis.call('HSET', labels, id, table.concat({time, label, over, came}, ' '))
  local oldest = string.format('%.0f', tonumber(over) - 1000000 * tonumber(seconds))
  local old = redis.call('ZRANGEBYSCORE', labeled, '-inf', oldest, 'LIMIT', 0, 1000)
  if #old > 0 then
    redis.call('ZREM', labeled, unpack(old))
    redis.call('HDEL', labels, unpack(old))
  end
  redis.call('EXPIRE', labels, seconds)
  redis.call('EXPIRE', labeled, seconds)
end
return 1
