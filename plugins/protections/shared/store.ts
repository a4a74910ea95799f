// The storage that gateways share for protections: the store of the policy if several hosts share it, else the disk.
import { join } from 'node:path'
import {
  type KeyValueStore,
  type PluginContext,
  Refusal,
  resolve,
  resolveOptional,
  services,
  tokens,
} from '@svc/core'
import { type MapBounds, MemoryKeyValueStore, mapIn, type SharedMap } from '@svc/core/store'

/** Opens the maps; the gateway closes them. */
export interface OpenMaps {
  map(name: string, bounds: MapBounds): SharedMap
  close(): Promise<void>
}

/** @throws {Error} if the directory cannot be opened */
export async function openMaps(context: PluginContext): Promise<OpenMaps> {
  const { container, resources, stateDir } = context
  const clock = resolve(container, tokens.Clock)
  const open = resolveOptional(container, services.sharedStore)
  if (open !== undefined) return mapsIn(await open())
  if (resolveOptional(container, services.inMemory) === true)
    return mapsIn(new MemoryKeyValueStore({ clock }))
  const { LmdbKeyValueStore } = await import('@svc/core/lmdb')
  const dir = join(stateDir, 'protections')
  const lease = resources.acquire(`protections:${dir}`, () => {
    const value = new LmdbKeyValueStore({ dir, name: 'the store of protections', clock })
    return { value, close: () => value.close() }
  })
  return mapsIn(lease.value, () => lease.release())
}

function mapsIn(store: KeyValueStore, close = async () => store.close?.()): OpenMaps {
  return { map: (name, bounds) => mapIn(store, name, bounds), close }
}

/** @throws {Refusal} `STORE_UNAVAILABLE` if the operation fails */
export async function available<T>(operation: Promise<T>): Promise<T> {
  try {
    return await operation
  } catch (cause) {
    throw new Refusal('STORE_UNAVAILABLE', 'The store of protections is not available.', { cause })
  }
}

/** Attempts to change a value that other gateways change at the same time. */
const maxAttempts = 20

/** The result of the first attempt that has one. Rejects with `Refusal` (`STORE_UNAVAILABLE`) if others change the value each time. */
export async function changed<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  for (let tried = 0; tried < maxAttempts; tried++) {
    const result = await attempt()
    if (result !== undefined) return result
  }
  throw new Refusal('STORE_UNAVAILABLE', 'A value of protections changes too often to be kept.')
}
