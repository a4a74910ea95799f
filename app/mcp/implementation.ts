// The gateway's description of itself, as a client and as a server.

import { isJsonObject, type JsonObject } from '@svc/core/json'

/** The version of the package `svc-sdk`. */
const PRODUCT_VERSION = '1.0.0'

/** A name and a version, in `clientInfo` and `serverInfo`. */
export type Implementation = {
  readonly name: string
  readonly version: string
}

/** Whether a server of any revision accepts it. */
export function isImplementation(value: unknown): value is JsonObject & Implementation {
  return isJsonObject(value) && typeof value['name'] === 'string' && typeof value['version'] === 'string'
}

export const gatewayImplementation: Implementation = { name: 'svc-gateway', version: PRODUCT_VERSION }
