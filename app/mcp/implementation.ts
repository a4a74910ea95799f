// What the gateway says of itself: as a client of servers, and as a server of clients.
import { CORE_VERSION } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import {
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
  STATELESS_REVISION,
} from './protocol.js'

/** A name and a version, in `clientInfo` and `serverInfo`. */
export interface Implementation {
  readonly name: string
  readonly version: string
}

export const gatewayImplementation: Implementation = { name: 'svc-gateway', version: CORE_VERSION }

/** The members of `_meta` by which a request without a session says what its client is (2026-07-28). */
export function clientMeta(clientInfo: JsonObject, capabilities: JsonObject = {}): JsonObject {
  return {
    [META_PROTOCOL_VERSION]: STATELESS_REVISION,
    [META_CLIENT_INFO]: clientInfo,
    [META_CLIENT_CAPABILITIES]: capabilities,
  }
}
