// The three stores of keys, values and counters, each with a time that a test lets pass.
import { randomUUID } from 'node:crypto'
import type { Clock } from '@svc/core'
import { LmdbKeyValueStore } from '@svc/core/lmdb'
import { type RedisConnectionOptions, RedisKeyValueStore } from '@svc/core/redis'
import { MemoryKeyValueStore } from '@svc/core/store'
import type { RedisServer } from '../../../support/redis.js'
import { TemporaryDir } from '../../../support/temporary-dir.js'
import type { Deployment, Store } from './run.js'

const NOON = Date.UTC(2026, 5, 15, 12)
const { signal } = new AbortController()
/** A long run on a busy machine opens thousands of clients, and some wait for seconds. */
const patient = { connectTimeoutMs: 60_000, socketTimeoutMs: 60_000 }

/** A host whose wall clock is wrong by a time; the monotonic clock is right. */
export class HostClock implements Pick<Clock, 'now' | 'monotonic'> {
  passed = 0
  wrongBy = 0

  now(): number {
    return NOON + this.passed + this.wrongBy
  }

  monotonic(): number {
    return 1_000 + this.passed
  }
}

export async function inMemory(wrap = (store: Store) => store): Promise<Deployment> {
  const clock = new HostClock()
  const store = wrap(new MemoryKeyValueStore({ clock }))
  return { ...onHost(clock), open: async () => store, close: async () => undefined }
}

export async function onDisk(): Promise<Deployment> {
  const clock = new HostClock()
  const dir = new TemporaryDir()
  // The time of the store begins with its first write, before the clock jumps.
  const first = new LmdbKeyValueStore({ dir: dir.path, name: 'the store', clock })
  await first.commit({ name: 'time' }, [{ key: 'begun', value: '', version: 'begun' }])
  await first.close()
  return {
    ...onHost(clock),
    open: async () => new LmdbKeyValueStore({ dir: dir.path, name: 'the store', clock }),
    close: async () => dir[Symbol.dispose](),
  }
}

function onHost(clock: HostClock): Pick<Deployment, 'advance' | 'jump' | 'origin' | 'instant'> {
  return {
    advance: async (ms) => {
      clock.passed += ms
    },
    jump: (ms) => {
      clock.wrongBy = ms
    },
    origin: () => NOON,
    // A clock that is set back further counts for the day before.
    instant() {
      return Math.max(clock.now(), NOON + clock.passed - 86_400_000)
    },
  }
}

/** `nodes` have the keys; the clock of a server cannot be set, so each entry is moved into the past. */
export async function inRedis(
  nodes: readonly RedisServer[],
  options: RedisConnectionOptions,
): Promise<Deployment> {
  const clock = new HostClock()
  const keyPrefix = `${randomUUID()}:`
  const openedAt = Date.now()
  return {
    origin() {
      return openedAt - clock.passed
    },
    instant() {
      return Date.now()
    },
    async lose() {
      for (const node of nodes) await node.send('EVAL', losing, 0, keyPrefix)
    },
    async open() {
      const store = new RedisKeyValueStore({ ...patient, ...options, keyPrefix, clock })
      await store.connect(signal)
      return store
    },
    advance: async (ms) => {
      clock.passed += ms
      for (const node of nodes) await advanceRedis(node, keyPrefix, ms)
    },
    jump: (ms) => {
      clock.wrongBy = ms
    },
    close: async () => undefined,
  }
}

/**
 * ARGV: the milliseconds that pass, and the prefix of the keys. An entry is "written …", a bucket "tokens instant", another counter
 * what is used and " hold:amount:end" for each hold; the key of a window has its start.
 */
const passing = `
local ms, moved = tonumber(ARGV[1]), {}
local function earlier(instant) return string.format('%.0f', instant - ms) end
for _, key in ipairs(redis.call('KEYS', ARGV[2] .. '*')) do
  local kind = redis.call('TYPE', key).ok
  local left = redis.call('PTTL', key)
  if kind == 'string' then
    local raw = redis.call('GET', key)
    local written, rest = string.match(raw, '^(%d+)( %S+ %S* .*)$')
    if string.find(raw, '^%d+ [^ ]+:%d+:%d+') then written = nil end
    local tokens, since = string.match(raw, '^(%S+) (%S+)$')
    local before, start, name = string.match(key, '^(.*:w/)(%d+)(/.*)$')
    if written then raw = earlier(written) .. rest
    elseif string.find(key, ':b/') then raw = tokens .. ' ' .. string.format('%.17g', since - ms)
    else raw = string.gsub(raw, '( [^: ]+:[^: ]+:)(%d+)', function(hold, ends) return hold .. earlier(ends) end) end
    redis.call('DEL', key)
    if start and not written then key = before .. earlier(start) .. name end
    if left < 0 or left > ms then moved[#moved + 1] = { key, raw, left } end
  elseif string.find(key, '#room') then
    local ends = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 1, #ends, 2 do
      redis.call('ZADD', key, ends[i + 1] - ms, ends[i])
    end
  end
  if kind ~= 'string' and left >= 0 then
    if left <= ms then redis.call('DEL', key) else redis.call('PEXPIRE', key, left - ms) end
  end
end
-- Afterwards, as a window takes the key of the one before it.
for _, one in ipairs(moved) do
  redis.call('SET', one[1], one[2])
  if one[3] >= 0 then redis.call('PEXPIRE', one[1], one[3] - ms) end
end
`

/** ARGV: the prefix of the keys. */
const losing = `for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('DEL', key) end`

export async function advanceRedis(node: RedisServer, keyPrefix: string, ms: number): Promise<void> {
  if (ms !== 0) await node.send('EVAL', passing, 0, ms, keyPrefix)
}
