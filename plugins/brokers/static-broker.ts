// One key for all calls.
import type { AnswerHead, Credential } from '@svc/core'
import type { Broker } from './broker.js'
import { BrokerFault } from './fault.js'
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
    return { ...credential, answered: (head) => this.#answered(head, credential) }
  }

  own(): Promise<Credential> {
    return this.forCall()
  }

  describe(): string {
    return `puts the one key into the header "${this.#header.name}"`
  }

  async #current(): Promise<Credential> {
    return { header: this.#header.name, value: this.#header.value(await this.#keys.get(this.#ref)) }
  }

  /** A 401 says that the request was not carried out (RFC 9110 §15.5.2); the key may have been changed since. */
  async #answered({ status }: AnswerHead, used: Credential): Promise<Credential | undefined> {
    if (status !== 401) return undefined
    this.#keys.forget(this.#ref)
    try {
      const now = await this.#current()
      return now.value === used.value ? undefined : now
    } catch (fault) {
      // The next call finds no key and says so; this one has its answer.
      if (fault instanceof BrokerFault) return undefined
      throw fault
    }
  }
}
