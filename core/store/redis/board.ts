// A board in Redis. The keys share a hash tag, so that they are on one node of a cluster.
import { randomUUID } from 'node:crypto'
import type { Board, BoardReader, BoardState, SeenReader } from '../../plugin/board.js'
import { RedisConnection, type RedisConnectionOptions } from './connection.js'
import { type Script, script } from './script.js'

const now = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`

/** The first part of the version is random: a store that has lost its content has another. */
const bump = `
local epoch = redis.call('HGET', KEYS[4], 'epoch')
if not epoch then
  epoch = ARGV[1]
  redis.call('HSET', KEYS[4], 'epoch', epoch)
end
local version = epoch .. ':' .. redis.call('HINCRBY', KEYS[4], 'count', 1)
`

/** KEYS of all: values, their ends, the readers, the version. ARGV: new epoch, id, value, milliseconds. */
const putEntry = script(`${now}${bump}
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('ZADD', KEYS[2], now + ARGV[4], ARGV[2])
return version
`)

/** ARGV: new epoch, id. */
const removeEntry = script(`
if redis.call('HDEL', KEYS[1], ARGV[2]) == 0 then return false end
redis.call('ZREM', KEYS[2], ARGV[2])
${bump}
return version
`)

/** ARGV: id, reader, milliseconds for which readers are kept. */
const setSeen = script(`${now}
redis.call('HSET', KEYS[3], ARGV[1], string.format('%d', now) .. ' ' .. ARGV[2])
redis.call('PEXPIRE', KEYS[3], ARGV[3])
`)

/** ARGV: the version that the reader has. Returns the version and the time, and the entries of another version. */
const readEntries = script(`${now}
local epoch = redis.call('HGET', KEYS[4], 'epoch')
local version = epoch and (epoch .. ':' .. redis.call('HGET', KEYS[4], 'count')) or ''
local read = { version, string.format('%d', now) }
if version == ARGV[1] then return read end
local ends = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
for i = 1, #ends, 2 do
  local value = redis.call('HGET', KEYS[1], ends[i])
  if value then
    read[#read + 1] = ends[i]
    read[#read + 1] = value
    read[#read + 1] = string.format('%d', tonumber(ends[i + 1]) - now)
  end
end
return read
`)

/** ARGV: milliseconds for which readers are kept. */
const listReaders = script(`${now}
local seen = redis.call('HGETALL', KEYS[3])
local readers = {}
for i = 1, #seen, 2 do
  local at, text = string.match(seen[i + 1], '^(%d+) (.*)$')
  local silent = now - tonumber(at)
  if silent > tonumber(ARGV[1]) then
    redis.call('HDEL', KEYS[3], seen[i])
  else
    readers[#readers + 1] = text
    readers[#readers + 1] = string.format('%d', silent)
  end
end
return readers
`)

const READER_MS = 3_600_000

export class RedisBoard implements Board {
  #connection: RedisConnection
  #keys: readonly string[]
  #connecting: Promise<unknown> | undefined

  /** `prefix` begins every key. */
  constructor(options: RedisConnectionOptions, prefix: string) {
    this.#connection = new RedisConnection(options)
    this.#keys = ['values', 'ends', 'readers', 'version'].map((part) => `${prefix}{board}:${part}`)
  }

  async read(known: string): Promise<BoardState> {
    const [version = '', now, ...rest] = textsOf(await this.#run(readEntries, [known]))
    const time = Number(now)
    if (version === known) return { version, time, entries: undefined }
    const entries = inGroups(rest, 3).map(([id = '', value = '', left]) => ({
      id,
      value,
      leftMs: Number(left),
    }))
    return { version, time, entries }
  }

  async seen(reader: BoardReader): Promise<void> {
    await this.#run(setSeen, [reader.id, JSON.stringify(reader), READER_MS])
  }

  async readers(): Promise<SeenReader[]> {
    const seen = inGroups(textsOf(await this.#run(listReaders, [READER_MS])), 2)
    return seen.map(([text = '', silent]) => ({
      ...(JSON.parse(text) as BoardReader),
      silentMs: Number(silent),
    }))
  }

  async put(id: string, value: string, ttlMs: number): Promise<string> {
    return String(await this.#run(putEntry, [randomUUID(), id, value, Math.round(ttlMs)]))
  }

  async remove(id: string): Promise<string | undefined> {
    const version = await this.#run(removeEntry, [randomUUID(), id])
    return typeof version === 'string' ? version : undefined
  }

  close(): void {
    this.#connection.close()
  }

  /** Waits for the first attempt to connect only; the client connects in the background if it fails. */
  async #run(operation: Script, args: readonly (string | number)[]): Promise<unknown> {
    this.#connecting ??= Promise.allSettled([this.#connection.connect(new AbortController().signal)])
    await this.#connecting
    const reason = this.#connection.ready()
    if (reason !== undefined) throw new Error(reason)
    return this.#connection.run(operation, this.#keys, args)
  }
}

/** @throws {Error} for another response than a list of texts */
function textsOf(response: unknown): string[] {
  if (Array.isArray(response) && response.every((item): item is string => typeof item === 'string'))
    return response
  throw new Error('Redis: the response is not a list of texts')
}

function inGroups(texts: readonly string[], size: number): string[][] {
  const groups: string[][] = []
  for (let at = 0; at + size <= texts.length; at += size) groups.push(texts.slice(at, at + size))
  return groups
}
