// Opens a bucket without a server, for commands that read it.
import type { Store, StoreOptions } from './store.js'

export async function openStore(
  options: StoreOptions,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Store> {
  const { Store } = await import('./store.js')
  return new Store(options, env)
}
