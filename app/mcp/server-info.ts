// The version in a server's `serverInfo`. References contain it, so it must be known before a tool is judged.
import { isJsonObject } from '@svc/core/json'
import { isVersion } from '@svc/core/match'
import { META_SERVER_INFO } from './protocol.js'

const maxLength = 256

/** From the result of `initialize` or `server/discover`; undefined where it has no usable one. */
export function serverVersionIn(result: unknown): string | undefined {
  if (!isJsonObject(result)) return undefined
  const meta = result['_meta']
  const info = result['serverInfo'] ?? (isJsonObject(meta) ? meta[META_SERVER_INFO] : undefined)
  const version = isJsonObject(info) ? info['version'] : undefined
  return typeof version === 'string' && version.length <= maxLength && isVersion(version)
    ? version
    : undefined
}

/** Whether the results of a method contain `serverInfo`. */
export function hasServerInfo(method: string | null): boolean {
  return method === 'initialize' || method === 'server/discover'
}
