// One atomic script per operation, on one key. Without `now` the server's clock is used, which all gateways share. A
// batch (for leases) takes at most a tenth of the remaining calls, so that the last ones are taken one by one.
import { script } from '@svc/core/redis'

const clock = `
local function instant(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function batch(want, left)
  return math.max(1, math.min(want, math.floor(left / 10)))
end
`

/**
 * A bucket is the string "tokens instant", and expires when it is full again: then it equals a new one. ARGV: rate per
 * second, size, now, batch. Returns "tokens resetAt taken".
 */
export const takeTokens = script(`${clock}
local rate, size, now, want = tonumber(ARGV[1]), tonumber(ARGV[2]), instant(ARGV[3]), tonumber(ARGV[4])
local tokens, at = size, now
local stored = redis.call('GET', KEYS[1])
if stored then
  local left, since = string.match(stored, '^(%S+) (%S+)$')
  tokens, at = tonumber(left), tonumber(since)
  if not (tokens and at and tokens >= -1 and at == at) then
    return redis.error_reply('ERR the value at the key of a bucket cannot be read')
  end
end
local from = math.max(now, at)
local available = math.min(size, tokens + (from - at) * rate / 1000)
local function refilled(missing)
  return math.min(8.64e15, from + math.ceil(missing * 1000 / rate))
end
if available < 1 - 1e-9 then
  return string.format('%.17g %.0f 0', available - 1, refilled(1 - available))
end
local taken = batch(want, available)
local left = available - taken
local full = refilled(size - left)
-- A given time may differ from the server's: such a bucket is kept longer.
local keep = math.min(1e12, full - now + (ARGV[3] == '' and 1000 or 172800000))
redis.call('SET', KEYS[1], string.format('%.17g %.17g', left, from), 'PX', string.format('%.0f', keep))
return string.format('%.17g %.0f %.0f', math.max(0, left), full, taken)
`)

/**
 * Counts are a hash of days since the epoch: today, and its neighbours for calls about midnight. ARGV: limit, now,
 * batch. Returns count, resetAt, taken.
 */
export const countDaily = script(`${clock}
local limit, now, want = tonumber(ARGV[1]), instant(ARGV[2]), tonumber(ARGV[3])
local day = math.floor(now / 86400000)
local field = string.format('%.0f', day)
local resetAt = (day + 1) * 86400000
local stored = redis.call('HGET', KEYS[1], field)
local count = stored and tonumber(stored) or 0
if stored and not (count >= 1) then
  return redis.error_reply('ERR the value at the key of a count cannot be read')
end
if count + 1 > limit then return { count + 1, resetAt, 0 } end
if not stored then
  for _, other in ipairs(redis.call('HKEYS', KEYS[1])) do
    local number = tonumber(other)
    if not number or math.abs(number - day) > 1 then redis.call('HDEL', KEYS[1], other) end
  end
end
local taken = batch(want, limit - count)
redis.call('HINCRBY', KEYS[1], field, taken)
if not stored then redis.call('PEXPIRE', KEYS[1], 259200000) end
return { count + taken, resetAt, taken }
`)

/** ARGV: now, number of calls. */
export const refundDaily = script(`${clock}
local field = string.format('%.0f', math.floor(instant(ARGV[1]) / 86400000))
local count = tonumber(redis.call('HGET', KEYS[1], field) or 0)
local back = math.min(count or 0, tonumber(ARGV[2]))
if back < 1 then return 0 end
if back == count then redis.call('HDEL', KEYS[1], field)
else redis.call('HINCRBY', KEYS[1], field, -back) end
return back
`)
