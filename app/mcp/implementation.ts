// What the gateway says of itself: as a client of servers, and as a server of clients.

/** The version of the package `svc-sdk`. */
const PRODUCT_VERSION = '1.0.0'

/** A name and a version, in `clientInfo` and `serverInfo`. */
export type Implementation = {
  readonly name: string
  readonly version: string
}

export const gatewayImplementation: Implementation = { name: 'svc-gateway', version: PRODUCT_VERSION }
