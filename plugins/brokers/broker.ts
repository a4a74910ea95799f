// The interfaces of a broker, with one implementation for each `type`, and of a source of keys.
import type { Call, Clock, Credential, Meter, PluginContext } from '@svc/core'
import type { BrokerConfig } from './config.js'
import type { HeaderWriter } from './header.js'
import type { Keys } from './keys.js'

export interface Broker {
  /** The credential for one call. Rejects with `BrokerError`. */
  forCall(call: Call): Promise<Credential>
  /** The credential for the gateway's own requests; absent if a broker needs a caller. */
  own?(): Promise<Credential>
  /** Describes for `svc policy explain` the header and its value, without any key. */
  describe(): string
  /** Why the call would get no credential, as far as that is known without a request. */
  unavailableReason?(call: Call): string | undefined
  /** Opens the resources that survive a reload. */
  start?(): void
  stop?(): Promise<void>
}

/** The parameters of a broker. */
export interface BrokerInput {
  readonly server: string
  readonly config: BrokerConfig
  readonly context: PluginContext
  readonly clock: Clock
  readonly meter: Meter | undefined
  readonly keys: Keys
  readonly header: HeaderWriter
}
