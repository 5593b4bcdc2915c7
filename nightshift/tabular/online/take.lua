-- Lua knows doubles only: what has to stay exact passes through as text, and is added up by who asks.
-- KEYS[1]: prefix. ARGV: first moment after the snapshot, the same LAG days later and earlier, seconds to keep, how many
-- entities an event has and for each whether its features read labels, then of each request how many events it has, and
-- of each of these: id, time, whether to take it in, and for each entity its name, what is kept of the event, the edge
-- of the longest window and the end of the newest one. A request in which an id is another event's is not taken in; then all that is answered of
-- it is what is known of the ids.
local prefix, over, later, earlier, seconds, entities = KEYS[1], unpack(ARGV, 1, 5)
entities = tonumber(entities)
local width = 3 + 4 * entities
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
local function join(i)  -- an event's names, then what is kept of it
  local names, kept = {}, {}
  for entity = 0, entities - 1 do
    names[#names + 1] = ARGV[i + 3 + 4 * entity]
    if ARGV[i + 4 + 4 * entity] ~= '' then kept[#kept + 1] = ARGV[i + 4 + 4 * entity] end
  end
  for _, text in ipairs(kept) do names[#names + 1] = text end
  return table.concat(names, ' ')
end
local answers = {}
local function refused(first, last)
  local found, seen, wrong = {}, {}, false
  for i = first, last, width do
    local id, time, add = unpack(ARGV, i, i + 2)
    local known = seen[id] or redis.call('GET', prefix .. 'event:' .. id)
    local record = join(i)
    if known and add == '1' then
      local before, rest = string.match(known, '^%d+ (%S+) %S+ (.*)$')
      wrong = wrong or before ~= time or rest ~= record
    end
    seen[id] = known or table.concat({0, time, over, record}, ' ')
    found[#found + 1] = {known or ''}
  end
  if wrong then
    for _, answer in ipairs(found) do answers[#answers + 1] = answer end
  end
  return wrong
end
local function take(i)
  local id, time, add = unpack(ARGV, i, i + 2)
  local known = redis.call('GET', prefix .. 'event:' .. id)
  local number
  if not known and add == '1' then
    number = string.format('%.0f', redis.call('INCR', prefix .. 'events'))
    known = table.concat({number, time, over, join(i)}, ' ')
    redis.call('SET', prefix .. 'event:' .. id, known, 'EX', seconds)
  end
  local answer = {known or ''}
  for entity = 0, entities - 1 do
    local name, kept, edge, till = unpack(ARGV, i + 3 + 4 * entity, i + 6 + 4 * entity)
    name = entity .. ':' .. name
    if number then
      local record = number .. ' ' .. time .. ' ' .. over
      if kept ~= '' then record = record .. ' ' .. kept end
      put(prefix .. 'events:' .. name, time, record)
    end
    local labels, values = {}, {}
    if ARGV[6 + entity] == '1' then
      labels = redis.call('ZRANGEBYSCORE', prefix .. 'labeled:' .. name, '(' .. edge, till)
      values = hash(prefix .. 'labels:' .. name, labels)
    end
    answer[#answer + 1] = {redis.call('ZRANGEBYSCORE', prefix .. 'events:' .. name, '(' .. edge, till), labels, values}
  end
  answers[#answers + 1] = answer
end
local at = 6 + entities
while at <= #ARGV do
  local first, last = at + 1, at + width * ARGV[at]
  if not refused(first, last) then
    for i = first, last, width do take(i) end
  end
  at = last + 1
end
return answers
