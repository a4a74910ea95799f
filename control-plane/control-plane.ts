// The whole control plane: key file, bucket and server.
import type { Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { KeyRing } from './key-file.js'
import type { LogStoreOptions, Store } from './objects.js'
import { type ControlPlaneHandle, startServer } from './server.js'

export type { ControlPlaneHandle }

export interface ControlPlaneOptions extends LogStoreOptions {
  /** Address to listen on. */
  readonly host: string
  /** Port; 0 picks a free one. */
  readonly port: number
  /** Path of the key file. */
  readonly keys: string
}

/** Rejects if the key file cannot be read or the address is not free. */
export async function startControlPlane(
  options: ControlPlaneOptions,
  env: Readonly<Record<string, string | undefined>>,
  logger: Logger,
): Promise<ControlPlaneHandle> {
  const keys = new KeyRing(options.keys, logger)
  const store = await openStore(options, env)
  try {
    const server = await startServer({ keys, store, logger }, options)
    return {
      ...server,
      close: async () => {
        await server.close()
        store.close()
      },
    }
  } catch (cause) {
    store.close()
    throw new Error(`the control plane did not start: ${messageOf(cause)}`, { cause })
  }
}

/** Opens a bucket, for commands that read it without a server. The AWS SDK is large, so it is loaded only here. */
export async function openStore(
  options: LogStoreOptions,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Store> {
  const { Store } = await import('./objects.js')
  return new Store(options, env)
}
