-- Lua knows doubles only: what has to stay exact passes through as text, and is added up by who asks.
-- KEYS[1]: prefix. ARGV: first moment after the snapshot, the same LAG days later and earlier, seconds to keep, then of
-- each request how many events it has, and of each of these: id, customer, terminal, time, units, whether to take it in,
-- edge of the customer's longest window, end and edge of the terminal's. A request in which an id is another event's is
-- not taken in; then all that is answered of it is what is known of the ids.
local prefix, over, later, earlier, seconds = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local newest = redis.call('GET', prefix .. 'newest')
if newest and tonumber(newest) > tonumber(later) then return redis.error_reply('BEHIND ' .. newest) end
if not newest or tonumber(newest) < tonumber(over) then redis.call('SET', prefix .. 'newest', over) end
local function put(key, time, member)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. earlier)
  redis.call('ZADD', key, time, member)
  redis.call('EXPIRE', key, seconds)
end
local function hash(key, fields)  -- unpack has an end, of some thousands
  local values = {}
  for i = 1, #fields, 1000 do
    for _, value in ipairs(redis.call('HMGET', key, unpack(fields, i, math.min(i + 999, #fields)))) do
      values[#values + 1] = value
    end
  end
  return values
end
local answers = {}
local function refused(first, last)
  local found, seen, wrong = {}, {}, false
  for i = first, last, 9 do
    local id, customer, terminal, time, units, add = unpack(ARGV, i, i + 5)
    local known = seen[id] or redis.call('GET', prefix .. 'event:' .. id)
    local record = table.concat({units, customer, terminal}, ' ')
    if known and add == '1' then
      local before, rest = string.match(known, '^%d+ (%S+) %S+ (.*)$')
      wrong = wrong or before ~= time or rest ~= record
    end
    seen[id] = known or table.concat({0, time, over, record}, ' ')
    found[#found + 1] = {known or '', {}, {}, {}, {}}
  end
  if wrong then
    for _, answer in ipairs(found) do answers[#answers + 1] = answer end
  end
  return wrong
end
local function take(i)
  local id, customer, terminal, time, units, add = unpack(ARGV, i, i + 5)
  local known = redis.call('GET', prefix .. 'event:' .. id)
  if not known and add == '1' then
    local number = string.format('%.0f', redis.call('INCR', prefix .. 'events'))
    known = table.concat({number, time, over, units, customer, terminal}, ' ')
    redis.call('SET', prefix .. 'event:' .. id, known, 'EX', seconds)
    local record = table.concat({number, time, over, units}, ' ')
    if customer ~= '' then put(prefix .. 'customer:' .. customer, time, record) end
    if terminal ~= '' then put(prefix .. 'terminal:' .. terminal, time, record) end
  end
  local customers, terminals, labels, values = {}, {}, {}, {}
  if customer ~= '' then
    customers = redis.call('ZRANGEBYSCORE', prefix .. 'customer:' .. customer, '(' .. ARGV[i + 6], time)
  end
  if terminal ~= '' then
    terminals = redis.call('ZRANGEBYSCORE', prefix .. 'terminal:' .. terminal, '(' .. ARGV[i + 8], ARGV[i + 7])
    labels = redis.call('ZRANGEBYSCORE', prefix .. 'labeled:' .. terminal, '(' .. ARGV[i + 8], ARGV[i + 7])
    values = hash(prefix .. 'labels:' .. terminal, labels)
  end
  answers[#answers + 1] = {known or '', customers, terminals, labels, values}
end
local at = 5
while at <= #ARGV do
  local first, last = at + 1, at + 9 * ARGV[at]
  if not refused(first, last) then
    for i = first, last, 9 do take(i) end
  end
  at = last + 1
end
return answers
