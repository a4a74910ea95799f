// What each type of broker can do.
import type { Call, Credential } from '@svc/core'

export interface Broker {
  /** The credential for one call. Rejects with `BrokerFault`. */
  forCall(call: Call): Promise<Credential>
  /** The credential for what the gateway asks by itself; undefined where a caller is needed. */
  own?(): Promise<Credential>
  /** For `svc policy explain`, without any key: a clause that ends in the header. */
  describe(): string
  /** Why the call would get none, as far as that can be told without asking anyone. */
  objection?(call: Call): string | undefined
  /** Opens what outlives a reload. */
  start?(): void
  stop?(): Promise<void>
}
