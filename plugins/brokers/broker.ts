// The interface of a broker, with one implementation for each `type`, and the simplest of them.
import type { Call, Clock, Credential, Meter, PluginContext, ResponseHead } from '@svc/core'
import { BrokerError } from './broker-error.js'
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

/** One fixed key for all calls of a server. */
export class StaticBroker implements Broker {
  #ref: string
  #keys: Keys
  #header: HeaderWriter

  constructor(ref: string, keys: Keys, header: HeaderWriter) {
    this.#ref = ref
    this.#keys = keys
    this.#header = header
  }

  async forCall(): Promise<Credential> {
    const credential = await this.#current()
    return { ...credential, onResponse: (head) => this.#onResponse(head, credential) }
  }

  own(): Promise<Credential> {
    return this.forCall()
  }

  describe(): string {
    return `puts the key into the header "${this.#header.name}"`
  }

  async #current(): Promise<Credential> {
    return { header: this.#header.name, value: this.#header.value(await this.#keys.get(this.#ref)) }
  }

  /** After a 401 the request was not carried out (RFC 9110 §15.5.2), and the key may have changed: it is read again. */
  async #onResponse({ status }: ResponseHead, used: Credential): Promise<Credential | undefined> {
    if (status !== 401) return undefined
    this.#keys.forget(this.#ref)
    try {
      const now = await this.#current()
      return now.value === used.value ? undefined : now
    } catch (error) {
      // This call gets the upstream's response; the next one reports the missing key.
      if (error instanceof BrokerError) return undefined
      throw error
    }
  }
}
