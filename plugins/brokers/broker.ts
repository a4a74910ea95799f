// The interfaces of a broker, with one implementation for each `type`, and of a source of keys.
import { type Call, type Clock, type Credential, type Meter, type PluginContext, token } from '@svc/core'
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

export class BrokerError extends Error {
  override readonly name = 'BrokerError'
  constructor(
    /** The message for the log; may name files and environment variables. */
    message: string,
    /** The message for the caller; without internals. */
    readonly publicMessage: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** Bind `credentialSource` for key references that are neither `env:` nor `file://`. */
export interface CredentialSource {
  /**
   * The key for `ref` as written in the policy, for example `vault:kv/billing#key`. Rejects when the key is not
   * available; the error is logged, so it must not contain the key. `signal` aborts at the timeout.
   */
  load(ref: string, signal: AbortSignal): Promise<string>
}

export const credentialSource = token<CredentialSource>('brokers/CredentialSource')

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
