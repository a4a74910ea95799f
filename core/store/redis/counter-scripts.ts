// The operations on counters as scripts, so that each is atomic, by the clock of the server. A bucket is the string "tokens
// instant"; another counter is what is used, and its holds as "id:amount:end". `key-value/counters.ts` does the same.

import { script } from './connection.js'
import { MAX_OWNED, state } from './key-value-scripts.js'

const counters = `
local function words(text)
  local all = {}
  for word in string.gmatch(text, '%S+') do all[#all + 1] = word end
  return all
end
local option = words(ARGV[2])
local instant, id = tonumber(option[1]) or now, option[2] ~= '-' and option[2] or nil
local given = tonumber(option[1]) and 172800000 or 0
local names, written, found = {}, {}, {}
local function read(name)
  if written[name] then return written[name][1] end
  found[name] = redis.call('GET', at(name))
  return found[name]
end
local function write(name, text, ttl)
  if not written[name] then names[#names + 1] = name end
  written[name] = { text, ttl }
end
local room, most = roomOf(''), tonumber(option[5]) or ${MAX_OWNED}
local function commit()
  local added = 0
  for _, name in ipairs(names) do
    if not found[name] and written[name][1] ~= '0' then added = added + 1 end
  end
  if added > 0 and not hasRoom(room, added, most) then
    error({ err = 'ERR the store has ' .. most .. ' counters of a space and takes no more of it' })
  end
  for _, name in ipairs(names) do
    local text, ttl = written[name][1], written[name][2]
    if text == '0' then
      redis.call('DEL', at(name))
      if found[name] then redis.call('ZREM', room, name) end
    elseif ttl then
      ttl = math.min(1e12, math.ceil(ttl))
      redis.call('SET', at(name), text, 'PX', whole(ttl))
      -- The end of a window stays. The set that a bucket outlives is not made anew, as it would not end.
      if not found[name] then note(room, name, ttl)
      elseif string.sub(name, 1, 2) ~= 'w/' then redis.call('ZADD', room, 'XX', now + ttl, name) end
    else redis.call('SET', at(name), text, 'KEEPTTL') end
  end
  if added > 0 then sweep(room) end
end
local function unreadable(what) error({ err = 'ERR the value at the key of a ' .. what .. ' cannot be read' }) end
local function window(key, ms, from)
  if not ms then return 'n/' .. key end
  local start = from + math.floor((instant - from) / ms) * ms
  return 'w/' .. whole(start) .. '/' .. key, start + ms
end
-- How long a window is kept: a day after its end, for calls that began in it.
local function late(ending) return ending - now + math.max(0, now - instant) + 86400000 + given end
local function usage(text)
  local used, holds, sum = tonumber(string.match(text or '0', '^%S+') or ''), {}, 0
  if not (used and used >= 0) then unreadable('count') end
  for name, amount, ends in string.gmatch(text or '', ' ([^: ]+):([^: ]+):([^: ]+)') do
    if tonumber(ends) > now then
      holds[#holds + 1] = { name, tonumber(amount), tonumber(ends) }
      sum = sum + tonumber(amount)
    end
  end
  return used, holds, used + sum
end
local function textOf(used, holds)
  local text = { whole(used) }
  for _, hold in ipairs(holds) do text[#text + 1] = hold[1] .. ':' .. whole(hold[2]) .. ':' .. whole(hold[3]) end
  text = table.concat(text, ' ')
  if #text > 65536 then error({ err = 'ERR a counter has too many holds' }) end
  return text
end
local function find(holds, name)
  for at, hold in ipairs(holds) do if hold[1] == name then return at, hold end end
end
`

/**
 * KEYS and ARGV[1] as for entries. ARGV: then the given instant, the hold or '-', its milliseconds, the batch, and the maximum of
 * counters ('' for none of them); for each limit 'b' for a bucket or 'w', its key, maximum, tokens per second or milliseconds of the window ('-' without),
 * amount, and an instant at which a window begins. The response is '+' or '-', the state of the space, and for each limit, after a
 * ';', what is left, without a window the milliseconds until its reset, and after a '/', of a batch, how many times it was taken.
 */
export const takeCounters = script(`${state}${counters}
local held, times = tonumber(option[3]) or 0, tonumber(option[4]) or 1
local uses = {}
local function batch(possible) return math.max(1, math.min(times, math.floor(possible / 10))) end
local function tell(left, free, resetAt, taken)
  uses[#uses + 1] = { left = left, free = free, reset = resetAt and math.min(8.64e15, resetAt) - instant, taken = taken }
end
local function respond(status)
  local text = { status .. head() }
  for _, use in ipairs(uses) do
    local one = string.format('%.17g', math.max(0, status == '+' and use.left or use.free))
    if use.reset then one = one .. ' ' .. whole(use.reset) end
    if times > 1 and status == '+' then one = one .. '/' .. whole(use.taken) end
    text[#text + 1] = one
  end
  return table.concat(text, ';')
end
local function takeTokens(key, max, rate, amount)
  local name, tokens, since = 'b/' .. key, max, instant
  local text = read(name)
  if text then
    local left, from = string.match(text, '^(%S+) (%S+)$')
    tokens, since = tonumber(left), tonumber(from)
    if not (tokens and since and tokens >= -1 and since == since) then unreadable('bucket') end
  end
  local from = math.max(instant, since)
  local available = math.min(max, tokens + (from - since) * rate / 1000)
  local function regained(missing) return math.min(8.64e15, from + math.ceil(missing * 1000 / rate)) end
  if available < amount - 1e-9 then
    tell(available, available, regained(amount - available), 0)
    return false
  end
  local taken = batch(available / amount)
  local left = available - amount * taken
  write(name, string.format('%.17g %.17g', left, from), regained(max - left) - instant + 1000 + given)
  tell(left, available, regained(max - left), taken)
  return true
end
local function takeUse(key, max, ms, amount, from)
  local name, ending = window(key, ms, from)
  local used, holds, sum = usage(read(name))
  local _, own = find(holds, id)
  local free, left, taken = max - sum, max - sum, 1
  local passes = own or amount <= free
  if passes and id then
    if own then own[3] = now + held
    else
      holds[#holds + 1] = { id, amount, now + held }
      left = free - amount
    end
  elseif passes then
    taken = batch(free / amount)
    left = free - amount * taken
    used = used + amount * taken
  end
  local first, last = instant + held, now
  for _, hold in ipairs(holds) do
    first, last = math.min(first, hold[3]), math.max(last, hold[3])
  end
  tell(left, free, not ending and first, taken)
  if passes then write(name, textOf(used, holds), math.max(last - now, ending and late(ending) or 0)) end
  return passes
end
for i = 3, #ARGV do
  local word = words(ARGV[i])
  local key, max, period, amount = word[2], tonumber(word[3]), tonumber(word[4]), tonumber(word[5]) or 1
  local passes
  if word[1] == 'b' then passes = takeTokens(key, max, period, amount)
  else passes = takeUse(key, max, period, amount, tonumber(word[6]) or 0) end
  if not passes then return respond('-') end
end
commit()
return respond('+')
`)

/**
 * ARGV: then the given instant, and the hold or '-'; for each counter its key, the amount, and the milliseconds of the window and
 * an instant at which it begins ('-' without). The response is '+', or '-' if a hold has ended, and the state of the space.
 */
export const settleCounters = script(`${state}${counters}
for i = 3, #ARGV do
  local word = words(ARGV[i])
  local name, ending = window(word[1], tonumber(word[3]), tonumber(word[4]) or 0)
  local text = read(name)
  local used, holds = usage(text)
  if id then
    local place = find(holds, id)
    if not place then return '-' .. head() end
    table.remove(holds, place)
  end
  used = math.max(0, used + tonumber(word[2]))
  if text or used > 0 then
    write(name, textOf(used, holds), not text and late(ending or now) or nil)
  end
end
commit()
return '+' .. head()
`)
