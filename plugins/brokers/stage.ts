// Puts the credential onto the call. A call that was to carry one and cannot is not sent.
import {
  type Call,
  type Credential,
  credential,
  type Failed,
  failed,
  type Next,
  type Outcome,
  Refusal,
  type Stage,
} from '@svc/core'
import type { Broker } from './broker.js'
import { BrokerFault } from './fault.js'

export interface BrokersStageParts {
  /** By server. */
  readonly brokers: ReadonlyMap<string, Broker>
  /** What is wrong with the section beyond its schema; a stage with faults does not start. */
  faults(): readonly string[]
}

export class BrokersStage implements Stage {
  #parts: BrokersStageParts

  constructor(parts: BrokersStageParts) {
    this.#parts = parts
  }

  async start(): Promise<void> {
    const faults = this.#parts.faults()
    if (faults.length > 0) throw new Error(faults.join('; '))
    for (const broker of this.#parts.brokers.values()) broker.start?.()
  }

  async stop(): Promise<void> {
    for (const broker of this.#parts.brokers.values()) await broker.stop?.()
  }

  async handle(call: Call, next: Next): Promise<Outcome> {
    const { server } = await call.request()
    const broker = this.#parts.brokers.get(server)
    if (broker === undefined) return next()
    try {
      call.set(credential, await broker.forCall(call))
    } catch (fault) {
      if (fault instanceof BrokerFault) return unavailable(server, fault.told, fault)
      throw fault
    }
    return next()
  }

  async ownCredential(server: string): Promise<Credential | undefined> {
    try {
      return await this.#parts.brokers.get(server)?.own?.()
    } catch (cause) {
      if (!(cause instanceof BrokerFault)) throw cause
      throw new Refusal('BROKER_UNAVAILABLE', sentence(server, cause.told), { cause })
    }
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const { server } = await call.request()
    const broker = this.#parts.brokers.get(server)
    if (broker === undefined) {
      say(`server "${server}" has no broker: the call goes without a credential`)
      return next()
    }
    say(broker.describe())
    const objection = broker.objection?.(call)
    return objection === undefined ? next() : unavailable(server, objection)
  }
}

function unavailable(server: string, why: string, cause?: BrokerFault): Failed {
  return failed('BROKER_UNAVAILABLE', sentence(server, why), cause === undefined ? {} : { cause })
}

function sentence(server: string, why: string): string {
  return `The credential for server "${server}" could not be had: ${why}.`
}
