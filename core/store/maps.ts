// What gateways share beside the sections' own stores: secrets that the first of them creates, and maps with a time limit.
import { randomBytes } from 'node:crypto'
import { Refusal } from '../call/errors.js'
import { sha256Base64url } from '../json/hash.js'
import type { KeyValueStore, Space, Write } from '../plugin/key-value-store.js'
import type { Clock } from '../plugin/tokens.js'
import { MemoryKeyValueStore } from './key-value/memory.js'

/** Values by name, in groups that do not displace each other's values. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
export interface SharedMap {
  /** The values in the order of the names; undefined for a value that is missing or has expired. */
  get(group: string, names: readonly string[]): Promise<(string | undefined)[]>
  set(group: string, entries: readonly (readonly [name: string, value: string])[]): Promise<void>
  /** Sets the value if there is none, atomically; else returns the existing one. */
  add(group: string, name: string, value: string): Promise<string | undefined>
  /** Sets the value in place of `before`, or of none, atomically; false if the name has another value. */
  replace(group: string, name: string, before: string | undefined, value: string): Promise<boolean>
  delete(group: string, name: string): Promise<void>
}

export interface MapBounds {
  /** How long a value is kept after it was last set, in milliseconds. */
  readonly ttlMs: number
  /** Maximum number of values in a group; beyond it the value that expires first is removed. */
  readonly maxEntries: number
}

/** A secret may have been put there by hand. */
const MIN_SECRET = 32
const secrets: Space = { name: 'secrets', maxValue: 1_024 }

/** The secret of this name, made on first use, the same for all that share the store. */
export async function secretIn(store: KeyValueStore, name: string): Promise<string> {
  const made = randomBytes(32).toString('base64')
  const write = { key: name, value: made, version: 'made', expect: null }
  const { isDone, entries } = await store.commit(secrets, [write])
  const secret = isDone ? made : entries[0]?.value
  if (secret === undefined || secret.length < MIN_SECRET)
    throw new Error(`what the store has under ${name} is not a secret`)
  return secret
}

/** The map of this name. Groups and names are stored as hashes, because the length of a key is limited. */
export function mapIn(store: KeyValueStore, name: string, { ttlMs, maxEntries }: MapBounds): SharedMap {
  const spaceOf = (group: string): Space => ({
    name: `${name}:${sha256Base64url(group)}`,
    isOrdered: true,
    maxEntries,
  })
  const write = (key: string, value: string, expect?: string | null) => {
    return { key: sha256Base64url(key), value, version: versionOf(value), expect, ttlMs }
  }
  const commit = (group: string, writes: readonly Write[]) => available(store.commit(spaceOf(group), writes))
  return {
    async get(group, names) {
      const keys = names.map((one) => sha256Base64url(one))
      return (await available(store.get(spaceOf(group), keys))).entries.map((entry) => entry?.value)
    },
    async set(group, entries) {
      const writes = entries.map(([key, value]) => write(key, value))
      await commit(group, writes)
    },
    async add(group, key, value) {
      return (await commit(group, [write(key, value, null)])).entries[0]?.value
    },
    async replace(group, key, before, value) {
      const expect = before === undefined ? null : versionOf(before)
      return (await commit(group, [write(key, value, expect)])).isDone
    },
    async delete(group, key) {
      await commit(group, [{ key: sha256Base64url(key), version: 'deleted' }])
    },
  }
}

/** 132 bits of the hash: a writer replaces the value that it knows. */
function versionOf(value: string): string {
  return sha256Base64url(value).slice(0, 22)
}

async function available<T>(operation: Promise<T>): Promise<T> {
  try {
    return await operation
  } catch (cause) {
    throw new Refusal('STORE_UNAVAILABLE', 'The store that the gateways share is not available.', { cause })
  }
}

/** A map for those that share no store. */
export function memoryMap(bounds: MapBounds, clock: Pick<Clock, 'now' | 'monotonic'>): SharedMap {
  return mapIn(new MemoryKeyValueStore({ clock }), 'map', bounds)
}
