// The three stores of keys and values, each with a time that a test lets pass.
import { randomUUID } from 'node:crypto'
import type { Clock, KeyValueStore } from '@svc/core'
import { LmdbKeyValueStore } from '@svc/core/lmdb'
import { type RedisConnectionOptions, RedisKeyValueStore } from '@svc/core/redis'
import { MemoryKeyValueStore } from '@svc/core/store'
import type { RedisServer } from '../../../support/redis.js'
import { TemporaryDir } from '../../../support/temporary-dir.js'
import type { Deployment } from './model.js'

const NOON = Date.UTC(2026, 5, 15, 12)
const { signal } = new AbortController()

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

export async function inMemory(wrap = (store: KeyValueStore) => store): Promise<Deployment> {
  const clock = new HostClock()
  const store = wrap(new MemoryKeyValueStore({ clock }))
  return {
    open: async () => store,
    advance: async (ms) => {
      clock.passed += ms
    },
    jump: (ms) => {
      clock.wrongBy = ms
    },
    close: async () => undefined,
  }
}

export async function onDisk(): Promise<Deployment> {
  const clock = new HostClock()
  const dir = new TemporaryDir()
  return {
    open: async () => new LmdbKeyValueStore({ dir: dir.path, name: 'the store', clock }),
    advance: async (ms) => {
      clock.passed += ms
    },
    jump: (ms) => {
      clock.wrongBy = ms
    },
    close: async () => dir[Symbol.dispose](),
  }
}

/** `nodes` have the keys; the clock of a server cannot be set, so each entry is moved into the past. */
export async function inRedis(
  nodes: readonly RedisServer[],
  options: RedisConnectionOptions,
): Promise<Deployment> {
  const clock = new HostClock()
  const keyPrefix = `${randomUUID()}:`
  return {
    async open() {
      const store = new RedisKeyValueStore({ ...options, keyPrefix, clock })
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

/** ARGV: the milliseconds that pass, and the prefix of the keys. */
const passing = `
for _, key in ipairs(redis.call('KEYS', ARGV[2] .. '*')) do
  local kind = redis.call('TYPE', key).ok
  local left = redis.call('PTTL', key)
  if kind == 'string' then
    local raw = redis.call('GET', key)
    local written, rest = string.match(raw, '^(%d+)( .*)$')
    redis.call('SET', key, string.format('%.0f', written - ARGV[1]) .. rest, 'KEEPTTL')
  elseif string.find(key, '#ends$') then
    local ends = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 1, #ends, 2 do
      if ends[i + 1] ~= 'inf' then redis.call('ZADD', key, ends[i + 1] - ARGV[1], ends[i]) end
    end
  end
  if left >= 0 then
    if left <= tonumber(ARGV[1]) then redis.call('DEL', key) else redis.call('PEXPIRE', key, left - ARGV[1]) end
  end
end
`

export async function advanceRedis(node: RedisServer, keyPrefix: string, ms: number): Promise<void> {
  if (ms !== 0) await node.send('EVAL', passing, 0, ms, keyPrefix)
}
