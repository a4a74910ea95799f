// The interface of a broker: one implementation for each `type` in the policy.
import type { Call, Credential } from '@svc/core'

export interface Broker {
  /** The credential for one call. Rejects with `BrokerError`. */
  forCall(call: Call): Promise<Credential>
  /** The credential for the gateway's own requests; absent where a broker needs a caller. */
  own?(): Promise<Credential>
  /** For `svc policy explain`: what the broker puts into which header, without any key. */
  describe(): string
  /** Why the call would get no credential, as far as that is known without a request. */
  unavailableReason?(call: Call): string | undefined
  /** Opens what outlives a reload. */
  start?(): void
  stop?(): Promise<void>
}
