// `svc control-plane` once its arguments are read. Loaded only then, as the AWS SDK is large.
import type { Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { KeyRing } from './key-file.js'
import { type ControlPlaneHandle, startControlPlane } from './server.js'
import { Store, type StoreOptions } from './store.js'

export interface ControlPlaneOptions extends StoreOptions {
  readonly host: string
  readonly port: number
  /** Path of the key file. */
  readonly keys: string
}

export async function runControlPlane(
  options: ControlPlaneOptions,
  env: Readonly<Record<string, string | undefined>>,
  logger: Logger,
): Promise<ControlPlaneHandle> {
  const keys = new KeyRing(options.keys, logger)
  const store = new Store(options, env)
  try {
    const server = await startControlPlane({ keys, store, logger }, options)
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
