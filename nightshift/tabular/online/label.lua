-- KEYS[1]: prefix. ARGV: first moment after the snapshot, seconds to keep, id, label, and of an event of the snapshot its
-- time and whether it is a positive there, of another one nothing; then how many entities an event has, and for each
-- whether its features read labels, and of an event of the snapshot its name. What changes nothing is not kept.
local prefix, over, seconds, id, label, time, positive, entities = KEYS[1], unpack(ARGV, 1, 7)
local came, known = '0', nil
if time == '' then
  known = redis.call('GET', prefix .. 'event:' .. id)
  if not known then return 0 end
  local rest
  time, came, rest = string.match(known, '^%d+ (%S+) (%S+) ?(.*)$')
  known = {}
  for name in string.gmatch(rest, '%S+') do known[#known + 1] = name end
end
for entity = 0, entities - 1 do
  local name = entity .. ':' .. (known and known[entity + 1] or ARGV[9 + 2 * entity])
  local labels, labeled = prefix .. 'labels:' .. name, prefix .. 'labeled:' .. name
  if ARGV[8 + 2 * entity] == '1' and (label == '1' or positive == '1' or redis.call('HEXISTS', labels, id) == 1) then
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
end
return 1
