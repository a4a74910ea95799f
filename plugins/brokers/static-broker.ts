// One fixed key for all calls of a server.
import type { Credential, ResponseHead } from '@svc/core'
import type { Broker } from './broker.js'
import { BrokerError } from './broker-error.js'
import type { HeaderWriter } from './header.js'
import type { Keys } from './keys.js'

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
