// The storage that gateways share for protections: the store of the policy if several hosts share it, else the disk.
import { join } from 'node:path'
import { type KeyValueStore, type PluginContext, resolve, resolveOptional, services, tokens } from '@svc/core'
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
