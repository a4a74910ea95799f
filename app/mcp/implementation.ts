// What the gateway says of itself: as a client of servers, and as a server of clients.
import { CORE_VERSION } from '@svc/core'

/** A name and a version, in `clientInfo` and `serverInfo`. */
export type Implementation = {
  readonly name: string
  readonly version: string
}

export const gatewayImplementation: Implementation = { name: 'svc-gateway', version: CORE_VERSION }
