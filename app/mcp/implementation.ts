// The name and version that the gateway gives itself, as a client of servers and as a server of clients.
import { CORE_VERSION } from '@svc/core'

export interface Implementation {
  readonly name: string
  readonly version: string
}

export const gatewayImplementation: Implementation = { name: 'svc-gateway', version: CORE_VERSION }
